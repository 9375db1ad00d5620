"""Certified numbers of heads at all magnitudes, against fractions and wide balls."""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq

import hardmax as hm
from hardmax import stability
from tests.magnitudes import IDS, MAGNITUDES, wild_numbers

SEEDS = range(4)


def wild_head(magnitude, seed):
    rng = np.random.default_rng([3, seed])
    shapes = [(2, 2), (3, 2), (3, 2), (2, 2)]
    head = hm.AttentionHead(*(wild_numbers(rng, shape, magnitude) for shape in shapes))
    return head, wild_numbers(rng, (3, 2), rng.choice([magnitude, 1.0]))


def product(left, right):
    return [[sum(a * b for a, b in zip(row, col, strict=True)) for col in zip(*right, strict=True)]
            for row in left]  # fmt: skip


def fractions_of(array):
    return [[Fraction(x) for x in row] for row in array.tolist()]


def slopes_and_values(head):
    query, keys = fractions_of(head.query_weight), fractions_of(head.keys)
    slopes = product(keys, [list(column) for column in zip(*query, strict=True)])
    return slopes, product(fractions_of(head.values), fractions_of(head.output_weight))


def scores_at(slopes, x):
    return [sum(a * Fraction(t) for a, t in zip(row, x, strict=True)) for row in slopes]


def exact_error(scores, values, tau):
    """The norm of soft minus hard, and the share of the keys that do not win."""
    top = max(scores)
    balls = [[arb(fmpq(v.numerator, v.denominator)) for v in row] for row in values]
    powers = [(s - top) / Fraction(tau) for s in scores]
    weights = [arb(fmpq(t.numerator, t.denominator)).exp() for t in powers]
    total = sum(weights, arb(0))
    tied = [j for j, s in enumerate(scores) if s == top]
    squares = arb(0)
    for column in zip(*balls, strict=True):
        home = sum((column[j] for j in tied), arb(0)) / len(tied)
        squares += (sum((w * (v - home) for w, v in zip(weights, column, strict=True)), arb(0))
                    / total) ** 2  # fmt: skip
    lost = sum((w for j, w in enumerate(weights) if j not in tied), arb(0)) / total
    return squares.sqrt(), lost


@pytest.mark.parametrize("magnitude", MAGNITUDES, ids=IDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_margins_never_exceed_those_of_fractions(magnitude, seed):
    head, points = wild_head(magnitude, seed)
    slopes, _ = slopes_and_values(head)
    found = stability.measure_margins(head, points)
    for x, score, distance in zip(points, found.scores[:, 0], found.distances, strict=True):
        scores = scores_at(slopes, x)
        winner = scores.index(max(scores))
        rivals = [j for j in range(3) if slopes[j] != slopes[winner]]
        gaps = [scores[winner] - scores[j] for j in rivals]
        norms = [sum((a - b) ** 2 for a, b in zip(slopes[winner], slopes[j], strict=True))
                 for j in rivals]  # fmt: skip
        if not rivals:
            assert score == distance == np.inf
            continue
        assert 0.0 <= score <= min(gaps)
        assert Fraction(distance) ** 2 <= min(g * g / n for g, n in zip(gaps, norms, strict=True))


@pytest.mark.parametrize("tau", [*MAGNITUDES, 1.0])
@pytest.mark.parametrize("magnitude", MAGNITUDES, ids=IDS)
def test_soft_errors_never_exceed_their_bounds(magnitude, tau):
    for seed in SEEDS:
        head, points = wild_head(magnitude, seed)
        slopes, values = slopes_and_values(head)
        network = stability.certify_soft(head, points, tau)
        alone = stability.certify_head(head, points, tau)
        for i, x in enumerate(points):
            with ctx.workprec(12000):
                error, lost = exact_error(scores_at(slopes, x), values, tau)
                for bound in (network.error[i], alone.distance[i], alone.distance_from_margin[i]):
                    assert not error > arb(float(bound))
                for bound in (network.rival_masses[i, 0], alone.rival_mass[i]):
                    assert not lost > arb(float(bound))
            assert (network.log_error[i] == -np.inf) == (network.error[i] == 0.0)
        for name in ("lower", "upper", "error", "log_error", "rival_masses", "margins"):
            assert not np.isnan(getattr(network, name)).any()
        assert not np.isnan(alone.jacobian).any()


BOUNDS = [
    stability.value_bound, stability.rival_mass_bound, stability.gradient_bound,
    stability.hessian_bound, stability.hessian_closed_bound, stability.lipschitz_bound,
    stability.taylor_bound,
]  # fmt: skip


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("margin", [0.0, *MAGNITUDES])
def test_bounds_from_margins_are_numbers_at_every_temperature(bound, margin):
    taus = np.array([*MAGNITUDES, 1.0])
    for n_keys in (1, 2, 2**50):
        assert (bound(n_keys, margin, taus) >= 0.0).all()
        assert not np.isnan(bound(n_keys, margin, taus, log=True)).any()


@pytest.mark.parametrize("margin", [0.0, *MAGNITUDES])
@pytest.mark.parametrize("tau", MAGNITUDES, ids=IDS)
def test_the_share_of_rivals_is_at_least_its_formula(margin, tau):
    with ctx.workprec(4000):
        ratio = Fraction(margin) / Fraction(tau)
        r = (-arb(fmpq(ratio.numerator, ratio.denominator))).exp()
        assert not 2 * r / (1 + 2 * r) > arb(float(stability.rival_mass_bound(3, margin, tau)))
        value = arb(tau) * (2 * r).log1p()
        assert not value > arb(float(stability.value_bound(3, margin, tau)))


@pytest.mark.parametrize("magnitude", MAGNITUDES, ids=IDS)
@pytest.mark.parametrize("seed", range(2))
def test_margins_of_cells_and_curves_hold_no_nan(magnitude, seed):
    head, points = wild_head(magnitude, seed)
    box = hm.Box([-1, -1], [1, 1])
    margins = stability.cell_margins(head, box)
    found = stability.persistence(head, box, 0.1)
    curves = stability.error_curves(head, points, [magnitude, 1.0])
    for record in (margins, found, curves):
        arrays = [v for v in vars(record).values() if isinstance(v, np.ndarray)]
        for array in arrays:
            if array.dtype.kind == "f" and array is not curves.on_cubes:
                assert not np.isnan(array).any()
    for tau in (magnitude, 1.0):
        share = stability.hard_share(head, box, tau, 0.1, rounds=1)
        assert 0 <= share.lower <= share.upper <= 1
        cells = stability.persistent_cells(head, box, tau, 0.1)
        assert cells.n_certified <= cells.n_possible


@pytest.mark.parametrize("magnitude", MAGNITUDES, ids=IDS)
def test_a_jump_is_named_at_any_size(magnitude):
    sign = hm.AttentionHead([[1.0]], [[-1.0], [1.0]], [[-magnitude], [magnitude]], [[1.0]])
    error = magnitude / 4 or magnitude
    if error < magnitude:
        with pytest.raises(hm.errors.DiscontinuityError, match="jump"):
            stability.temperature_for(sign, hm.Box([-1], [1]), error)
    found = stability.temperature_for(sign, hm.Box([0.5], [1]), error)
    assert found.bound <= error


def test_half_a_claimed_gradient_is_rounded_up():
    for margin in np.linspace(92.5, 93.1, 40):
        column = stability.stability_table(3, margin, 64).columns[0]
        assert 2 * Fraction(column.rival_mass) >= Fraction(column.gradient)
