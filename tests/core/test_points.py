"""Winners at points by the compiled core against exact ones."""

import numpy as np
import pytest

from hardmax.models._arithmetic.exact_pass import run_exact_pass
from hardmax.models._arithmetic.point_winners import TieClassifier
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions._location.points import CorePoints, between
from hardmax.regions._location.signature_index import hashed_signatures
from hardmax.regions.charted_domains import charted, charted_network
from tests.extreme_models import LEAST, model_and_domain
from tests.region_models import gaussian_relu, integer_maxout, integer_relu, integer_transformer
from tests.sweeps import seeds

SOME = [0.0, LEAST, -LEAST, 1e-200, -1e-200, 1e-100, 0.5, -1.0, 1.0, 2.0, -3.0, 1e100, -1e300]


def check(network, points, first_group=0):
    """Whatever is decided must be right; return the share that is."""
    names, is_open = CorePoints(network, first_group)(points)
    exact = run_exact_pass(network, points)
    closed = np.flatnonzero(~is_open)
    np.testing.assert_array_equal(names[closed], exact.winners[closed, first_group:])
    coincidences = TieClassifier(network)
    for i in closed[(exact.n_tied[closed] > 1).any(axis=1)].tolist():
        assert coincidences.holds_on_cell(exact.winners[i], exact.n_tied[i])
    return len(closed) / len(points)


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_generic_points_are_decided_and_right(dim):
    rng = np.random.default_rng(dim)
    points = rng.normal(size=(203, dim))
    models = [
        gaussian_relu(1, [dim, 9, 7, 5]),
        integer_maxout(2, dim, [[3, 2, 4], [2, 5]]),
        integer_transformer(3, dim, 5, 2, 2, 3),
        integer_transformer(4, dim, 300, 1, 1, 0),
    ]
    for model in models:
        assert check(model.network, points) == 1.0


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_points_on_walls_are_never_decided(dim):
    rng = np.random.default_rng(dim)
    points = rng.integers(-2, 3, (200, dim)).astype(float)
    for seed in range(5):
        check(integer_relu(seed, [dim, 4, 3]).network, points)
        check(integer_relu(seed, [dim, 4, 3], zero_bias=True).network, points)
        check(integer_maxout(seed, dim, [[3, 2], [2]]).network, points)
        check(integer_transformer(seed, dim, 4, 2, 2, 2, repeat=True).network, points)


@pytest.mark.parametrize("seed", seeds(100))
def test_winners_at_every_magnitude(seed):
    model, domain = model_and_domain(seed)
    rng = np.random.default_rng(seed)
    network, n_before = charted_network(model.network, charted(domain, model.network.dim_in))
    points = rng.choice(SOME, (24, network.dim_in))
    points[12:] = rng.normal(size=(12, network.dim_in))
    check(network, points, n_before)


def test_an_embedding_comes_first():
    rng = np.random.default_rng(0)
    inner = gaussian_relu(5, [4, 6, 3]).network
    embedding = AffineMap(rng.normal(size=(2, 4)), rng.normal(size=4))
    network = ArgmaxNetwork(inner.layers, embedding, inner.readout)
    assert check(network, rng.normal(size=(50, 2))) == 1.0


def test_a_sum_that_overflows_is_left_open():
    """A partial sum beyond all floats says nothing about the sign of the whole."""
    network = gaussian_relu(0, [3, 1]).network
    layer = network.layers[0]
    query = AffineMap(np.array([[1e308], [1e308], [-1e308]]), np.zeros(1))
    changed = type(layer).trusted(layer.__dict__, query=query)
    huge = ArgmaxNetwork((changed,), network.embedding, network.readout)
    names, is_open = CorePoints(huge)(np.array([[1.0, 1.0, 1.5], [1.0, 1.0, 2.5], [0.5, 0.5, 0.5]]))
    assert is_open.tolist() == [True, True, False]
    assert names[2].tolist() == [1]


def test_what_cancels_at_a_point_is_not_zero_on_its_cell():
    """The stream x - 1 is computed without error, and vanishes on the wall of a unit."""
    one = np.eye(1)
    head = AttentionHead(one, [[0.0]], [[-1.0]], one)
    unit = Block([], FeedForward(one, [0.0], one, [0.0]))
    network = HardTransformer([Block([head]), unit]).network
    names, is_open = CorePoints(network)(np.array([[0.5], [1.0], [2.0]]))
    assert is_open.tolist() == [False, True, False]
    assert names[[0, 2]].tolist() == [[0, 0], [0, 1]]


def tally_of(network, points, box=None):
    """The tally of points as a dictionary, and the undecided points; nothing occurs twice."""
    hashes, counts, left = CorePoints(network).tally(points, box)
    assert len(set(hashes.tolist())) == len(hashes)
    return dict(zip(hashes.tolist(), counts.tolist(), strict=True)), left


@pytest.mark.parametrize("n_points", [0, 1, 3, 31, 32, 1001])
def test_a_tally_counts_the_signatures_of_decided_points(n_points):
    rng = np.random.default_rng(n_points)
    models = (
        gaussian_relu(1, [2, 9, 7, 5]),
        integer_relu(2, [2, 4, 3], zero_bias=True),
        integer_maxout(2, 2, [[3, 2, 4], [2, 5]]),
        integer_transformer(3, 2, 5, 2, 2, 3),
    )
    for model in models:
        points = np.where(
            rng.random((n_points, 2)) < 0.5, rng.normal(size=(n_points, 2)), rng.integers(-2, 3)
        )
        names, is_open = CorePoints(model.network)(points)
        found, left = tally_of(model.network, points)
        assert left.tolist() == np.flatnonzero(is_open).tolist()
        hashes, counts = np.unique(hashed_signatures(names[~is_open]), return_counts=True)
        assert found == dict(zip(hashes.tolist(), counts.tolist(), strict=True))


def test_a_tally_of_shares_leaves_out_what_is_not_inside_the_box():
    network = gaussian_relu(1, [2, 9, 7]).network
    box = np.array([[-1.0, 2.0], [1e300, 2.5]])
    shares = np.random.default_rng(0).random((500, 2))
    shares[::7, 0], shares[3::11, 1] = 0.0, 1.0
    points = between(shares, *box)
    inside = points[((points > box[0]) & (points < box[1])).all(axis=1)]
    assert 300 < len(inside) < 450
    drawn = shares.copy()
    found, left = tally_of(network, drawn, box)
    np.testing.assert_array_equal(drawn, points)
    wanted, others = tally_of(network, inside)
    assert found == wanted
    np.testing.assert_array_equal(points[left], inside[others])


def test_near_walls_winners_without_radii_are_not_believed():
    """Points a few units in the last place beside a wall, among others that are far away."""
    rng = np.random.default_rng(3)
    for seed in range(4):
        network = gaussian_relu(seed, [2, 6, 5]).network
        layer = network.layers[0]
        slopes, offset = layer.query.weight[:, 0], layer.query.bias[0]
        points = rng.normal(size=(400, 2))
        points[::2, 0] = -(points[::2, 1] * slopes[1] + offset) / slopes[0]
        points[::4] += rng.integers(-3, 4, (100, 2)) * 2.0**-53
        points[1] = 1e6
        assert check(network, points) < 0.9
