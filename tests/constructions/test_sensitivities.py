"""Slopes, sensitivities and ellipsoids of deep networks: nothing gets out of what bounds it."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.constructions.compilers._bounds.sensitivities import (
    last_sensitivity,
    sensitivity_before,
)
from hardmax.constructions.compilers._bounds.slope_ranges import slope_ranges
from hardmax.constructions.compilers._bounds.state_ellipsoids import StateEllipsoid, ellipsoid_after
from hardmax.constructions.compilers.piece_layers import PieceLayer, piece_layers
from hardmax.geometry.domains import Box
from tests.compiled_models import random_maxout, random_relu
from tests.sweeps import examples

SEEDS = st.integers(0, 10**6)


def random_layer(rng, n_in, n_units, most=5):
    ranks = rng.integers(1, most + 1, n_units)
    n = int(ranks.sum())
    starts = np.cumsum([0, *ranks])[:-1]
    return PieceLayer(rng.normal(size=(n, n_in)), rng.normal(size=n), starts)


def random_winners(rng, layer):
    can_win = rng.random(len(layer.offsets)) < 0.6
    can_win[layer.starts] = True
    return can_win


def random_rows(rng, layer, can_win):
    """Rows from the hulls of the slopes that can win, corners among them."""
    weights = rng.exponential(size=len(can_win)) ** rng.choice([1.0, 20.0]) * can_win
    totals = np.add.reduceat(weights, layer.starts)
    return np.add.reduceat(layer.slopes * (weights / totals[layer.owner])[:, None], layer.starts)


@examples(40)
@given(SEEDS)
def test_hulls_of_slopes_lie_within_their_ranges(seed):
    rng = np.random.default_rng(seed)
    layer = random_layer(rng, 3, 4)
    can_win = random_winners(rng, layer)
    ranges = slope_ranges(layer, can_win)
    for _ in range(10):
        rows, e = random_rows(rng, layer, can_win), rng.normal(size=3)
        assert (rows >= ranges.low - 1e-12).all()
        assert (rows <= ranges.high + 1e-12).all()
        squares = np.zeros(4)
        np.add.at(squares, ranges.owner, (ranges.deviations @ e) ** 2)
        assert (((rows - ranges.means) @ e) ** 2 <= squares * (1 + 1e-12) + 1e-20).all()


def test_two_pieces_attain_their_range():
    layer = PieceLayer(np.array([[1.0, 5.0], [-2.0, 3.0]]), np.zeros(2), np.array([0]))
    ranges = slope_ranges(layer, np.ones(2, dtype=bool))
    corners = ranges.means + np.array([[1.0], [-1.0]]) * ranges.deviations
    np.testing.assert_array_equal(corners, layer.slopes)


def through(rng, layers, weight):
    """Sensitivities of each layer, and rows of the same layers drawn at random."""
    sensitivity = last_sensitivity(weight)
    after, rows = [sensitivity], []
    for layer in reversed(layers):
        can_win = random_winners(rng, layer)
        sensitivity = sensitivity_before(sensitivity, slope_ranges(layer, can_win))
        after.append(sensitivity)
        rows.append(lambda layer=layer, can_win=can_win: random_rows(rng, layer, can_win))
    return after, rows


@examples(30)
@given(SEEDS, st.sampled_from([1, 1, 3]), st.sampled_from([1e-120, 1.0, 1e90]))
def test_no_choice_of_slopes_moves_an_output_further_than_its_reach(seed, n_out, scale):
    rng = np.random.default_rng(seed)
    widths = rng.integers(1, 7, rng.integers(2, 5)).tolist()
    layers = [random_layer(rng, a, b) for a, b in pairwise(widths)]
    layers = [PieceLayer(scale * la.slopes, la.offsets, la.starts) for la in layers]
    weight = rng.normal(size=(widths[-1], n_out))
    bounds, draws = through(rng, layers, weight)
    for _ in range(8):
        v = weight.T
        for depth, bound in enumerate(bounds):
            if depth:
                v = v @ draws[depth - 1]()
            below, above = rng.exponential(size=(2, v.shape[1])) * (rng.random() < 0.8)
            down, up = bound.bound_products(below, above)
            # The worst error within the box, and one that the quadratic form feels most.
            worst = np.where(v > 0, above, -below)
            assert ((v * worst).sum(axis=1) <= up * (1 + 1e-12)).all()
            assert ((v * np.where(v > 0, below, -above)).sum(axis=1) <= down * (1 + 1e-12)).all()
            delta = rng.normal(size=v.shape[1])
            scaled = bound.scales / max(scale**depth, 1e-300) * delta
            form = scaled @ bound.shape @ scaled
            moved = v @ delta / max(scale**depth, 1e-300)
            assert (moved**2 <= form * (1 + 1e-9) + 1e-300).all()


def test_signs_survive_where_no_unit_switches():
    # Ten layers of plain matrices: the product, not the product of absolute values.
    rng = np.random.default_rng(0)
    layers = [PieceLayer(rng.normal(size=(6, 6)), np.zeros(6), np.arange(6)) for _ in range(10)]
    weight = rng.normal(size=(6, 1))
    bound, v = last_sensitivity(weight), weight.T
    for layer in reversed(layers):
        bound = sensitivity_before(bound, slope_ranges(layer, np.ones(6, dtype=bool)))
        v = v @ layer.slopes
    down, up = bound.bound_products(np.zeros(6), np.ones(6))
    assert up[0] == pytest.approx(np.maximum(v, 0).sum(), rel=1e-4)
    assert down[0] == pytest.approx(np.maximum(-v, 0).sum(), rel=1e-4)


def test_a_layer_that_switches_costs_a_factor_of_two_and_not_the_sum_of_absolute_values():
    rng = np.random.default_rng(1)
    n, depth = 60, 12
    bound = last_sensitivity(rng.normal(size=(n, 1)) / np.sqrt(n))
    sizes = []
    for _ in range(depth):
        slopes = np.zeros((2 * n, n))
        slopes[::2] = rng.normal(size=(n, n)) * np.sqrt(2 / n)
        layer = PieceLayer(slopes, np.zeros(2 * n), np.arange(0, 2 * n, 2))
        bound = sensitivity_before(bound, slope_ranges(layer, np.ones(2 * n, dtype=bool)))
        sizes.append(np.linalg.norm(bound.scales))
    growth = (sizes[-1] / sizes[3]) ** (1 / (depth - 4))
    assert 1.5 < growth < 2.2  # Sums of absolute values grow by 8.7 in each layer.


@examples(30)
@given(SEEDS, st.sampled_from([1e-100, 1.0, 1e80]))
def test_no_state_leaves_its_ellipsoid(seed, scale):
    rng = np.random.default_rng(seed)
    net = random_maxout(seed, int(rng.integers(1, 4)), rng.integers(1, 6, 4).tolist(), (1, 4))
    layers, _ = piece_layers(net)
    box = Box(np.full(net.dim_in, -1.0) * scale, np.full(net.dim_in, 2.0) * scale)
    ellipsoid = StateEllipsoid.around(box)
    h = scale * rng.uniform(-1, 2, (200, net.dim_in))
    h[:20] = scale * np.where(rng.random((20, net.dim_in)) < 0.5, -1.0, 2.0)
    for layer in layers:
        layer = PieceLayer(layer.slopes, scale * layer.offsets, layer.starts)
        errors = scale * rng.exponential(size=layer.n_units) * rng.choice([0.0, 1e-3, 1.0])
        ranges = slope_ranges(layer, np.ones(len(layer.offsets), dtype=bool))
        ellipsoid = ellipsoid_after(ellipsoid, layer, ranges, errors)
        pieces = h @ layer.slopes.T + layer.offsets
        h = np.maximum.reduceat(pieces, layer.starts, axis=1)
        h = h + errors * rng.choice([-1.0, 0.0, 1.0], h.shape)
        away = (h - ellipsoid.centre) / ellipsoid.scales
        inside = np.linalg.solve(ellipsoid.root, away.T)
        assert (np.linalg.norm(inside, axis=0) <= 1 + 1e-7).all()
        rows = rng.normal(size=(5, layer.n_units))
        moved = (h - ellipsoid.centre) @ rows.T
        assert (np.abs(moved) <= ellipsoid.radii(rows) * (1 + 1e-12)).all()
        sums = np.abs(h - ellipsoid.centre) @ np.abs(rows).T
        assert (sums <= ellipsoid.moduli(rows) * (1 + 1e-12)).all()


def test_ellipsoids_of_a_contracting_network_shrink():
    # Uniform weights of variance 1 / (3 n): signals fade, sums of absolute values grow 3.5-fold.
    rng = np.random.default_rng(2)
    n = 49
    ellipsoid = StateEllipsoid.around(Box(-np.ones(n), np.ones(n)))
    before = ellipsoid.scales.max()
    for _ in range(12):
        slopes, offsets = np.zeros((2 * n, n)), np.zeros(2 * n)
        slopes[::2] = rng.uniform(-1, 1, (n, n)) / np.sqrt(n)
        offsets[::2] = rng.uniform(-1, 1, n) / np.sqrt(n)
        layer = PieceLayer(slopes, offsets, np.arange(0, 2 * n, 2))
        ranges = slope_ranges(layer, np.ones(2 * n, dtype=bool))
        ellipsoid = ellipsoid_after(ellipsoid, layer, ranges, np.zeros(n))
    assert ellipsoid.scales.max() < 0.1 * before


def test_a_state_of_which_nothing_is_known_stays_unknown_but_for_zero_slopes():
    layers, _ = piece_layers(random_relu(0, [2, 3, 1]))
    unknown = StateEllipsoid(np.zeros(2), np.full(2, np.inf), np.eye(2), 1.0)
    ranges = slope_ranges(layers[0], np.ones(6, dtype=bool))
    with np.errstate(invalid="ignore"):
        after = ellipsoid_after(unknown, layers[0], ranges, np.zeros(3))
        assert np.isinf(after.scales).all()
        assert unknown.radii(np.array([[0.0, 0.0], [1.0, 0.0]])).tolist() == [0.0, np.inf]
