"""Winners at points: several limbs, and all stages together, against the exact pass."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.models._arithmetic import point_winners as stages
from hardmax.models._arithmetic.exact_pass import run_exact_pass
from hardmax.models._arithmetic.float_pass import run_float_pass
from hardmax.models._arithmetic.limb_pass import is_limb_compatible, run_limb_pass
from hardmax.models._arithmetic.normed_maps import is_relu_network
from hardmax.models._arithmetic.normed_pass import run_normed_pass
from hardmax.models._arithmetic.point_winners import TieClassifier, find_point_winners
from hardmax.models.argmax import AffineMap
from hardmax.models.evaluation import cell_signature, signature
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from tests.models.test_evaluation import networks
from tests.region_models import (
    gaussian_relu,
    integer_maxout,
    integer_relu,
    integer_transformer,
    repeated_units,
)
from tests.strategies import SMALL, WILD


def check_limbs(network, points, n_limbs, chart=None):
    """Compare what limbs decide; return how many points they decide."""
    found, exact = (
        run_limb_pass(network, points, n_limbs, chart),
        run_exact_pass(network, points, chart),
    )
    sure = ~found.is_open
    np.testing.assert_array_equal(found.first[sure], exact.winners[sure])
    np.testing.assert_array_equal(found.n_tied[sure], exact.n_tied[sure])
    return int(sure.sum())


@given(networks())
def test_what_limbs_decide_is_right(case):
    network, points = case
    if is_limb_compatible(network):
        for n_limbs in (2, 4):
            check_limbs(network, points, n_limbs)


@given(networks(WILD))
def test_what_limbs_decide_is_right_at_every_scale(case):
    network, points = case
    if is_limb_compatible(network):
        check_limbs(network, points, 3)


def check_norms(network, points, chart=None):
    """Compare the signs that norms decide; return how many points they decide."""
    found, exact = run_normed_pass(network, points, chart), run_exact_pass(network, points, chart)
    sure = ~found.is_open
    np.testing.assert_array_equal(found.winners[sure], exact.winners[sure])
    tied = (exact.n_tied > 1).any(axis=1)
    np.testing.assert_array_equal(found.has_ties[sure], tied[sure])
    return int(sure.sum())


@st.composite
def relu_networks(draw):
    """Draw (network, points), with a map before the first layer."""
    elements = draw(st.sampled_from([SMALL, st.floats(-2.0, 2.0), WILD]))
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    shapes = [*pairwise([*sizes, 1])]
    weights = [draw(arrays(np.float64, shape, elements=elements)) for shape in shapes]
    biases = [draw(arrays(np.float64, shape[1], elements=elements)) for shape in shapes]
    chart = AffineMap(
        draw(arrays(np.float64, (2, sizes[0]), elements=elements)),
        draw(arrays(np.float64, sizes[0], elements=elements)),
    )
    points = draw(arrays(np.float64, (4, sizes[0]), elements=elements))
    return ReluNetwork(weights, biases).network, points, chart


@given(relu_networks())
def test_what_norms_decide_is_right(case):
    network, points, chart = case
    assert is_relu_network(network)
    check_norms(network, points)
    check_norms(network, np.array(points[:, :1] * [1.0, -0.5]), chart)


def test_norms_decide_nearly_all_points_of_deep_networks():
    rng = np.random.default_rng(0)
    network = deep_relu(0, 20, 64).network
    points = rng.normal(size=(30, 2))
    assert run_float_pass(network, points, None, named=True).is_open.mean() > 0.5
    assert check_norms(network, points) > 25


@given(networks())
def test_all_stages_together_are_the_exact_pass(case):
    network, points = case
    check_winners(network, points)


def check_winners(network, points, chart=None):
    found, exact = (
        find_point_winners(network, points, chart),
        run_exact_pass(network, points, chart),
    )
    np.testing.assert_array_equal(found.first, exact.winners)
    np.testing.assert_array_equal(found.n_tied, exact.n_tied[found.tied])
    tied = np.flatnonzero((exact.n_tied > 1).any(axis=1))
    # Ties that are not mentioned hold on whole cells.
    coincidences = TieClassifier(network, chart)
    for i in np.setdiff1d(tied, found.tied):
        assert coincidences.holds_on_cell(exact.winners[i], exact.n_tied[i])
    return found


MODELS = [
    integer_relu(0, [2, 4, 3]),
    integer_relu(1, [2, 5, 5, 5], zero_bias=True),
    repeated_units(2),
    integer_maxout(1, 2, [[3, 3], [2, 4]]),
    integer_transformer(0, 2, 4, 3, 2),
    integer_transformer(1, 2, 4, 2, 2, repeat=True),
    gaussian_relu(1, [2, 8, 8, 8]),
]


def adversarial(rng, dim=2):
    """Points on a grid, anywhere, very large and very small, and zero."""
    return np.concatenate(
        [
            rng.integers(-4, 5, (40, dim)) / 2,
            rng.normal(size=(20, dim)),
            rng.normal(size=(4, dim)) * 1e200,
            rng.normal(size=(4, dim)) * 1e-200,
            np.eye(dim),
            np.zeros((1, dim)),
        ]
    )


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_points_on_walls_and_far_out(model):
    points = adversarial(np.random.default_rng(3))
    assert is_limb_compatible(model.network)
    check_winners(model.network, points)
    # Short numbers are decided with all their ties; tied heads are left to integers.
    grid = points[:40]
    n_decided = check_limbs(model.network, grid, 4)
    tables = any(layer.is_table.any() for layer in model.network.layers)
    assert n_decided == 40 or (tables and n_decided > 5)


def deep_relu(seed, depth, width):
    rng = np.random.default_rng(seed)
    sizes = [2, *[width] * depth, 1]
    weights = [rng.normal(0, np.sqrt(2 / a), (a, b)) for a, b in pairwise(sizes)]
    return ReluNetwork(weights, [rng.normal(0, 0.3, b) for b in sizes[1:]])


@pytest.mark.parametrize(("depth", "width", "tried"), [(40, 16, {4: 60}), (80, 24, {4: 32, 8: 60})])
def test_deep_networks_are_decided_by_limbs(depth, width, tried, monkeypatch):
    network = deep_relu(0, depth, width).network
    points = np.random.default_rng(1).uniform(0.5, 0.9, (60, 2))
    assert run_float_pass(network, points, None, named=True).is_open.mean() > 0.9
    assert run_normed_pass(network, points).is_open.mean() > 0.9
    exact = run_exact_pass(network, points)
    # In several chunks: what the first one shows to be in vain is not tried on the next.
    monkeypatch.setattr(stages, "_ENTRIES_AT_ONCE", 1)
    monkeypatch.setattr(
        stages, "run_exact_pass", lambda net, x, chart: run_exact_pass(net, x[:0], chart)
    )
    seen = Counter()

    def counting(net, x, n_limbs, chart):
        seen[n_limbs] += len(x)
        return run_limb_pass(net, x, n_limbs, chart)

    monkeypatch.setattr(stages, "run_limb_pass", counting)
    found = find_point_winners(network, points)
    np.testing.assert_array_equal(found.first, exact.winners)
    assert not len(found.tied)
    assert seen == tried


def test_deep_maxout_and_transformers_are_decided_by_limbs():
    rng = np.random.default_rng(0)
    units = [[rng.normal(0, 0.4, (3, 8 if i else 2)) for _ in range(8)] for i in range(60)]
    offsets = [[rng.normal(size=3) for _ in range(8)] for _ in range(60)]
    maxout = MaxoutNetwork([*units, np.ones((8, 1))], [*offsets, [0.0]]).network
    points = rng.normal(size=(30, 2))
    assert run_float_pass(maxout, points, None, named=True).is_open.all()
    assert check_limbs(maxout, points, 8) == 30
    transformer = integer_transformer(3, 2, 4, 2, 8).network
    assert check_limbs(transformer, points, 8) > 20


def next_to_walls(network, n=40):
    """Pairs of floats between which a signature changes, and their neighbours."""
    low, high = np.random.default_rng(0).normal(size=(2, n, network.dim_in))
    names = run_exact_pass(network, low).winners
    for _ in range(70):
        middle = (low + high) / 2
        same = (run_exact_pass(network, middle).winners == names).all(axis=1)[:, np.newaxis]
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return np.concatenate([low, high, np.nextafter(low, 9), np.nextafter(high, -9)])


def gaussian_transformer():
    rng = np.random.default_rng(0)
    shapes = (2, 2), (6, 2), (6, 2), (2, 2)
    blocks = []
    for _ in range(2):
        heads = [AttentionHead(*(rng.normal(size=s) for s in shapes)) for _ in range(2)]
        ffn = FeedForward(*(rng.normal(size=s) for s in ((2, 4), 4, (4, 2), 2)))
        blocks.append(Block(heads, ffn))
    return HardTransformer(blocks)


def shrinking_relu():
    """A network whose second layer is small but has the errors of its large first one."""
    rng = np.random.default_rng(0)
    steep, flat = rng.normal(size=(2, 2))
    weights = [np.stack([1e6 * steep, 1e6 * steep + flat], axis=1), [[-1.0], [1.0]], [[1.0, -1.0]]]
    return ReluNetwork([*weights, np.ones((2, 1))], [[1e7, 1e7], [0.5], [-0.3, 0.7], [0.0]])


def gaussian_maxout():
    rng = np.random.default_rng(0)
    units = [[rng.normal(size=(3, 4 if i else 2)) for _ in range(4)] for i in range(3)]
    offsets = [[rng.normal(size=3) for _ in range(4)] for _ in range(3)]
    return MaxoutNetwork([*units, np.ones((4, 1))], [*offsets, [0.0]])


@pytest.mark.parametrize(
    "model",
    [gaussian_relu(2, [2, 6, 6, 6]), shrinking_relu(), gaussian_maxout(), gaussian_transformer()],
    ids=lambda model: type(model).__name__,
)
def test_points_next_to_walls_are_told_from_points_on_them(model):
    """Decisions with radii a million times too small would be wrong here."""
    points = next_to_walls(model.network)
    check_winners(model.network, points)
    assert run_float_pass(model.network, points, None, named=True).is_open.mean() > 0.5
    if is_relu_network(model.network):
        check_norms(model.network, points)
    for n_limbs in (2, 3, 4):
        check_limbs(model.network, points, n_limbs)
    assert run_limb_pass(model.network, points, 2).is_open.mean() > 0.5


def cancelling_relu():
    """Units and their triples, whose combinations vanish on whole cells; weights of many bits."""
    rng = np.random.default_rng(0)

    def draw(*shape):
        return np.round(rng.normal(size=shape) * 2.0**46) / 2.0**46

    first, bias = draw(2, 3), draw(3)
    weights, biases = [np.hstack([first, 3 * first])], [np.r_[bias, 3 * bias]]
    for _ in range(3):
        w, dead = draw(3, 3), draw(3, 1)
        top, bottom = np.hstack([w, 3 * w, 3 * dead]), np.hstack([w, 3 * w, -dead])
        # The last unit is zero on every cell, so what it passes on does not matter.
        rest = [draw(1, 7)] if len(weights) > 1 else []
        weights.append(np.vstack([top, bottom, *rest]))
        biases.append(np.zeros(7))
    return ReluNetwork([*weights, np.ones((7, 1))], [*biases, [0.0]])


@pytest.mark.parametrize("in_limbs", [True, False])
def test_many_points_of_a_cell_with_coinciding_forms(in_limbs, monkeypatch):
    if not in_limbs:
        monkeypatch.setattr(stages, "is_limb_compatible", lambda network: False)
    network = cancelling_relu().network
    points = np.random.default_rng(1).normal(size=(200, 2))
    exact = run_exact_pass(network, points)
    assert (exact.n_tied > 1).any(axis=1).all()
    seen = []

    def counting(net, x, chart):
        seen.append(len(x))
        return run_exact_pass(net, x, chart)

    monkeypatch.setattr(stages, "run_exact_pass", counting)
    check_winners(network, points)
    assert sum(seen) < (120 if in_limbs else 200)
    names, inside = cell_signature(network, points)
    np.testing.assert_array_equal(names, exact.winners)
    assert inside.all()


def test_a_chart_is_applied_exactly():
    model = gaussian_relu(8, [3, 8, 4])
    chart = AffineMap([[1.0, 0.5, 0.1], [0.0, 1.0, -0.25]], [0.1, 0.2, 0.3])
    points = adversarial(np.random.default_rng(0))
    check_winners(model.network, points, chart)
    check_limbs(model.network, points[:60], 4, chart)


def test_points_of_all_sizes_do_not_disturb_each_other():
    network = deep_relu(0, 40, 16).network
    rng = np.random.default_rng(1)
    points = rng.normal(size=(24, 2)) * 10.0 ** rng.integers(-20, 20, (24, 1))
    check_winners(network, points)
    np.testing.assert_array_equal(
        signature(network, points), run_exact_pass(network, points).winners
    )


def test_no_points_and_no_groups():
    network = integer_relu(0, [2, 3]).network
    assert find_point_winners(network, np.empty((0, 2))).first.shape == (0, 3)
    empty = integer_relu(0, [2]).network
    assert find_point_winners(empty, np.zeros((2, 2))).first.shape == (2, 0)
