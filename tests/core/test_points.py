"""Winners at points by the compiled core against exact ones."""

import numpy as np
import pytest

from hardmax.models._arithmetic.exact_pass import exact_pass
from hardmax.models._arithmetic.point_winners import Coincidences
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions._location.points import CorePoints
from hardmax.regions.charted_domains import charted, charted_network
from tests.extreme_models import LEAST, model_and_domain
from tests.region_models import gaussian_relu, integer_maxout, integer_relu, integer_transformer
from tests.sweeps import seeds

SOME = [0.0, LEAST, -LEAST, 1e-200, -1e-200, 1e-100, 0.5, -1.0, 1.0, 2.0, -3.0, 1e100, -1e300]


def check(network, points, first_group=0):
    """Whatever is decided must be right; return the share that is."""
    names, is_open = CorePoints(network, first_group)(points)
    exact = exact_pass(network, points)
    closed = np.flatnonzero(~is_open)
    np.testing.assert_array_equal(names[closed], exact.winners[closed, first_group:])
    coincidences = Coincidences(network)
    for i in closed[(exact.n_tied[closed] > 1).any(axis=1)].tolist():
        assert coincidences.explain(exact.winners[i], exact.n_tied[i])
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
