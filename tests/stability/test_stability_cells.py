"""Margins, bands and persistence of cells: exact where they say so, sound where they certify."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from hardmax import stability as sb
from hardmax.errors import ArgumentError, DtypeError, NonFiniteError, ShapeMismatchError
from hardmax.geometry.domains import Box, Segment, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.stability.cells import persistent_counts
from tests.reference import stability as reference
from tests.stability_models import SIGN, integer_transformer, random_head, random_transformer
from tests.sweeps import examples

SQUARE = Box([-2, -2], [2, 2])
SEEDS = st.integers(0, 10**6)
KEYS = np.array([[-1.0], [0.0], [1.0]])
THREE = AttentionHead([[1.0]], KEYS, KEYS, [[1.0]], logit_bias=[0.0, 0.5, 0.0])
"""Cells of width 1 in the middle: walls at -1/2 and 1/2."""


@examples(25)
@given(SEEDS, st.booleans())
def test_the_distance_to_a_wall_is_the_radius_of_the_largest_ball_in_the_cell(seed, is_relu):
    rng = np.random.default_rng(seed)
    if is_relu:
        weights = [rng.normal(size=s) for s in ((2, 4), (4, 3), (3, 1))]
        model = ReluNetwork(weights, [rng.normal(size=w.shape[1]) for w in weights])
    else:
        model = random_transformer(seed)
    x = rng.normal(size=(3, 2))
    margins = sb.measure_margins(model, x)
    angles = np.linspace(0, 2 * np.pi, 720)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    for point, name, radius in zip(x, margins.signatures, margins.distances, strict=True):
        if radius < 1e-7 or np.isinf(radius):
            continue
        assert (model.signature(point + radius * (1 - 1e-9) * circle) == name).all()
        assert (model.signature(point + radius * (1 + 1e-4) * circle) != name).any()


def test_margins_of_a_head_are_differences_of_scores():
    rng = np.random.default_rng(0)
    head, x = random_head(rng, 2, 5), rng.normal(size=(20, 2))
    ordered = np.sort(head.scores(x), axis=1)
    margins = sb.measure_margins(head, x)
    assert margins.scores[:, 0] == pytest.approx(ordered[:, -1] - ordered[:, -2], abs=1e-12)
    assert margins.is_inside.all()
    assert repr(margins).startswith("Margins(20 points, nearest wall at")


def test_margins_on_walls_and_without_rivals():
    assert sb.measure_margins(SIGN, [[0.0]]).distances.tolist() == [0.0]
    assert sb.measure_margins(SIGN, [[0.0]]).scores.tolist() == [[0.0]]
    assert not sb.measure_margins(SIGN, [[0.0]]).is_inside.any()
    alone = AttentionHead([[1.0]], [[1.0]], [[1.0]], [[1.0]])
    margins = sb.measure_margins(alone, [3.0])
    assert (margins.distances[0], margins.scores[0, 0]) == (np.inf, np.inf)


def test_infinite_distances_are_told_from_distances_beyond_floats_and_from_infinite_points():
    constant = ReluNetwork([[[0.0]], [[1.0]]], [[1.0], None])
    assert sb.measure_margins(constant, [[0.5], [-1e308]]).distances.tolist() == [np.inf] * 2
    assert repr(sb.measure_margins(constant, [0.5])) == "Margins(1 point, nearest wall at inf)"
    flat = ReluNetwork([[[5e-324]], [[1.0]]], [[1e308], None])
    # The wall is 2e631 away: rounded down, and not infinite.
    assert sb.measure_margins(flat, [0.0]).distances.tolist() == [np.finfo(float).max]
    for point in ([np.inf], [[0.0], [-np.inf]], [1e400]):
        with pytest.raises(NonFiniteError, match="`x` must not hold"):
            sb.measure_margins(constant, point)


def margins_by_definition(block, x):
    """The least gap of the heads of one block at a batch of points."""
    gaps = []
    for head in block.heads:
        ordered = np.sort(head.scores(x), axis=1)
        gaps.append(ordered[:, -1] - ordered[:, -2])
    return np.min(gaps, axis=0)


def test_the_band_of_three_keys_is_counted_by_hand():
    # Gaps: 1/2 + x and 1/2 - x in the middle, |x| - 1/2 outside (over key 0).
    bands = sb.margin_bands(THREE, Box([-2], [3]), 0.25)
    assert bands.volumes.tolist() == [Fraction(5, 4), Fraction(1, 2), Fraction(9, 4)]
    assert bands.inside == Fraction(4, 5)
    assert bands.band == Fraction(1, 5)
    assert sb.margin_bands(THREE, Box([-2], [3]), 0.0).inside == 1
    assert sb.margin_bands(THREE, Box([-2], [3]), 100.0).inside == 0


@pytest.mark.parametrize("seed", range(4))
def test_exact_bands_agree_with_a_dense_grid(seed):
    rng = np.random.default_rng(seed)
    block = Block([random_head(rng, 2, 5), random_head(rng, 2, 4)])
    ticks = np.linspace(-2, 2, 201)
    grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    margins = margins_by_definition(block, grid)
    for delta in (0.1, 0.7):
        exact = float(sb.margin_bands(block, SQUARE, delta).inside)
        assert exact == pytest.approx((margins >= delta).mean(), abs=0.01)


def test_bands_of_a_deep_model_count_all_its_heads():
    model = random_transformer(5, depth=2)
    x = np.random.default_rng(0).uniform(-2, 2, (4000, 2))
    exact = float(sb.margin_bands(model, SQUARE, 0.2).inside)
    share = (sb.measure_margins(model, x[:600]).scores >= 0.2).all(axis=1).mean()
    assert exact == pytest.approx(share, abs=0.06)
    sampled = sb.sample_margin_share(model, SQUARE, 0.2, 4000, seed=1, confidence=0.999)
    assert sampled.interval[0] <= exact <= sampled.interval[1]


def test_each_head_may_have_its_margin():
    rng = np.random.default_rng(1)
    block = Block([random_head(rng, 2, 4), random_head(rng, 2, 4)])
    both = sb.margin_bands(block, SQUARE, [0.3, 0.0]).inside
    alone = sb.margin_bands(block.heads[0], SQUARE, 0.3).inside
    assert both == alone


@pytest.mark.parametrize(("seed", "tau"), [(0, 0.05), (0, 0.2), (1, 0.1), (2, 0.4)])
def test_the_hard_share_lies_between_its_bounds(seed, tau):
    rng = np.random.default_rng(seed)
    block = Block([random_head(rng, 2, 5), random_head(rng, 2, 3)])
    ticks = np.linspace(-2, 2, 241)
    grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    masses = np.min([head.attention_weights(grid, tau).max(axis=1) for head in block.heads], axis=0)
    share = sb.hard_share(block, SQUARE, tau, 0.05)
    assert float(share.lower) - 0.01 <= (masses >= 0.95).mean() <= float(share.upper) + 0.01
    assert share.lower <= share.upper


def test_two_keys_have_a_hard_share_in_closed_form():
    share = sb.hard_share(SIGN, Box([-1], [3]), 0.25, 0.01)
    exact = 1 - 0.25 * np.log(99) / 4
    assert float(share.lower) <= exact * (1 + 1e-15)
    assert float(share.lower) == pytest.approx(exact, rel=1e-3)
    assert float(share.upper) == pytest.approx(exact, rel=1e-14)
    assert repr(share).startswith("HardShare(tau=0.25, epsilon=0.01, between 0.712")


def test_rounds_of_cuts_close_the_bracket_of_the_hard_share():
    rng = np.random.default_rng(3)
    block = Block([random_head(rng, 2, 6), random_head(rng, 2, 4)])
    shares = [sb.hard_share(block, SQUARE, 0.1, 0.05, rounds=rounds) for rounds in (0, 1, 3)]
    gaps = [float(share.upper - share.lower) for share in shares]
    assert gaps[0] >= gaps[1] >= gaps[2]
    assert gaps[2] < 0.004
    assert max(share.lower for share in shares) <= min(share.upper for share in shares)


def test_the_hard_share_of_a_line_agrees_with_a_dense_grid():
    rng = np.random.default_rng(8)
    head = AttentionHead(
        [[1.0]], rng.normal(size=(7, 1)), np.eye(7), np.eye(7), logit_bias=rng.normal(size=7)
    )
    grid = np.linspace(-4, 4, 40001)[:, None]
    hard = (head.attention_weights(grid, 0.1).max(axis=1) >= 0.9).mean()
    share = sb.hard_share(head, Box([-4], [4]), 0.1, 0.1)
    assert hard > 0.1
    assert float(share.lower) == pytest.approx(hard, abs=2e-3)
    assert float(share.upper) == pytest.approx(hard, abs=2e-3)


def test_sampled_shares_cover_exact_ones():
    rng = np.random.default_rng(7)
    head = random_head(rng, 2, 5)
    triangle = Polytope([[-1, 0], [0, -1], [1, 1]], [1, 1, 1])
    exact = float(sb.margin_bands(head, triangle, 0.3).inside)
    sampled = sb.sample_margin_share(head, triangle, 0.3, 3000, confidence=0.999)
    assert sampled.interval[0] <= exact <= sampled.interval[1]
    share = sb.hard_share(head, triangle, 0.1, 0.05)
    hard = sb.sample_hard_share(head, triangle, 0.1, 0.05, 400, confidence=0.999)
    assert hard.interval[1] >= float(share.lower)
    assert hard.interval[0] <= float(share.upper)
    assert repr(hard).startswith("SampledShare(")


def test_samples_on_walls_and_on_margins_are_decided_exactly():
    # Every margin is a multiple of 1/2 at the points drawn, and copies never lead themselves.
    head = AttentionHead([[0.0]], [[1.0], [1.0], [1.0]], np.eye(3), np.eye(3), logit_bias=[1, 1, 0])
    assert sb.sample_margin_share(head, Box([0], [1]), 1.0, 50).n_hits == 50
    assert sb.sample_margin_share(head, Box([0], [1]), np.nextafter(1.0, 2.0), 50).n_hits == 0


def test_clopper_and_pearson_cover_with_the_promised_probability():
    from scipy.stats import binom

    n, confidence = 30, 0.9
    intervals = [sb.SampledShare(k, n, confidence).interval for k in range(n + 1)]
    for p in np.linspace(0.01, 0.99, 33):
        covered = sum(
            binom.pmf(k, n, p) for k, (low, high) in enumerate(intervals) if low <= p <= high
        )
        assert covered >= confidence


def test_cell_margins_of_three_keys_are_exact():
    found = sb.cell_margins(THREE, Box([-2], [3]))
    assert found.exact.tolist() == [Fraction(3, 2), Fraction(1, 2), Fraction(5, 2)]
    assert [found.count(delta) for delta in (0.0, 0.5, 1.0, 2.5, 3.0)] == [3, 3, 2, 1, 0]
    everywhere = sb.cell_margins(THREE, WholeSpace(1))
    assert everywhere.exact.tolist() == [np.inf, Fraction(1, 2), np.inf]


@examples(15)
@given(SEEDS, st.integers(1, 2))
def test_cell_margins_are_attained_and_never_exceeded(seed, depth):
    model = random_transformer(seed, depth=depth, d_ff=2 * (depth - 1))
    found = sb.cell_margins(model, SQUARE)
    partition = found.partition
    x = np.random.default_rng(seed).uniform(-2, 2, (200, 2))
    margins = sb.measure_margins(model, x)
    names = {tuple(name): i for i, name in enumerate(partition.signatures.tolist())}
    for name, score in zip(margins.signatures.tolist(), margins.scores, strict=True):
        assert score.min() <= found.margins[names[tuple(name)]]
    for i in range(min(partition.n_cells, 5)):
        polytope = partition.polytope(i)
        point = found.points[i]
        for row in polytope.rows.tolist():
            assert sum(a * b for a, b in zip(row, point, strict=False)) <= row[-1]


@examples(12)
@given(SEEDS, st.sampled_from([0.01, 0.1, 0.4]))
def test_persistence_brackets_what_a_dense_grid_finds(seed, epsilon):
    rng = np.random.default_rng(seed)
    block = Block([random_head(rng, 2, 4), random_head(rng, 2, 3)])
    found = sb.persistence(block, SQUARE, epsilon)
    assert (found.temperatures <= found.limits).all()
    ticks = np.linspace(-2, 2, 81)
    grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    where = found.partition.locate(grid)
    for tau in (0.03, 0.2, 1.0):
        masses = np.min([h.attention_weights(grid, tau).max(axis=1) for h in block.heads], axis=0)
        seen = set(where[(masses >= 1 - epsilon) & (where >= 0)].tolist())
        assert all(found.limits[cell] >= tau for cell in seen)
        assert len(seen) <= found.count_possible(tau)


@examples(10)
@given(SEEDS, st.sampled_from([0.01, 0.2]))
def test_the_margin_point_of_a_cell_is_hard_at_its_temperature(seed, epsilon):
    rng = np.random.default_rng(seed)
    block = Block([random_head(rng, 2, 4), random_head(rng, 2, 3)])
    found = sb.persistence(block, SQUARE, epsilon)
    for point, tau in zip(found.points, found.temperatures, strict=True):
        if not np.isfinite(tau) or tau == 0.0:
            continue
        exact = [mp.mpf(x.numerator) / x.denominator for x in point]
        for head in block.heads:
            scores = reference.head_scores(head, exact)
            largest = max(reference.softmax(scores, mp.mpf(float(tau))))
            # The point is rational and rounded here to 60 digits.
            assert largest >= 1 - mp.mpf(epsilon) - mp.mpf(10) ** -40


def numerical_temperature(block, partition, cell, epsilon):
    """Maximise tau over (x, tau) in a cell subject to the convex condition, by SLSQP."""
    A, b = partition.polytope(cell).inequalities
    signature = partition.signatures[cell]
    limit = np.log(epsilon) - np.log1p(-epsilon)

    def slack(z):
        x, tau = z[:-1], z[-1]
        values = []
        for head, winner in zip(block.heads, signature, strict=True):
            scores = head.forms.slopes @ x + head.forms.offsets
            exponents = np.delete(scores - scores[winner], winner) / tau
            top = exponents.max()
            values.append(tau * (limit - top - np.log(np.exp(exponents - top).sum())))
        return np.array(values)

    best = 0.0
    centre = partition.chebyshev_centres[0][cell]
    for tau in (0.02, 0.2):
        result = minimize(
            lambda z: -z[-1],
            np.append(centre, tau),
            bounds=[(None, None)] * len(centre) + [(1e-4, None)],
            constraints=[
                {"type": "ineq", "fun": slack},
                {"type": "ineq", "fun": lambda z: b - A @ z[:-1]},
            ],
            method="SLSQP",
            options={"maxiter": 300, "ftol": 1e-12},
        )
        inside = (b - A @ result.x[:-1] >= -1e-9).all()
        if result.success and inside and slack(result.x).min() >= -1e-9:
            best = max(best, result.x[-1])
    return best


@pytest.mark.parametrize("seed", range(3))
def test_certified_temperatures_enclose_the_solution_of_the_convex_problem(seed):
    rng = np.random.default_rng(seed)
    block = Block([random_head(rng, 2, 5), random_head(rng, 2, 3)])
    found = sb.persistence(block, SQUARE, 0.05, rounds=15)
    for cell, (low, high) in enumerate(zip(found.temperatures, found.limits, strict=True)):
        assert low <= high <= low * 1.001
        numerical = numerical_temperature(block, found.partition, cell, 0.05)
        assert numerical <= high * (1 + 1e-6)
        assert numerical >= low * 0.99
    assert (found.by_margins <= found.temperatures).all()
    assert (found.by_margins < 0.95 * found.temperatures).any()


def test_counts_fall_with_the_temperature():
    found = sb.persistence(THREE, Box([-2], [3]), 0.1)
    taus = np.geomspace(1e-3, 1e3, 50)
    assert (np.diff(found.count(taus)) <= 0).all()
    assert (found.count(taus) <= found.count_possible(taus)).all()
    assert found.count(1e-3) == 3
    assert found.count(1e3) == 0
    # Everything is hard where the rivals may have two thirds of the mass.
    assert sb.persistence(THREE, Box([-2], [3]), 0.7).count(1e9) == 3


def check_claims(model, found, tau):
    """Check every claimed point of a deep model in high precision."""
    n = len(model.blocks)
    for i in np.flatnonzero(found.by_point).tolist():
        x = found.points[i]
        _, soft = reference.transformer(model, x, [mp.mpf(tau)] * n)
        _, hard = reference.transformer(model, x, [None] * n)
        for p, won in zip(soft, hard, strict=True):
            kept = mp.fsum(a for a, b in zip(p, won, strict=True) if b)
            assert kept >= 1 - mp.mpf(found.epsilon)
        assert found.partition.locate(x) == i


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tau", [0.03, 0.3])
def test_claims_about_deep_models_hold_and_a_dense_check_finds_them(seed, tau):
    model = random_transformer(seed, depth=2, n_heads=1, n_keys=3, d_ff=2)
    found = sb.persistent_cells(model, SQUARE, tau, 0.1)
    check_claims(model, found, tau)
    # Every claimed cell is found by sampling the soft network around the claimed point.
    rng = np.random.default_rng(seed)
    for i in np.flatnonzero(found.is_certified).tolist():
        near = found.points[i] + 1e-7 * rng.uniform(-1, 1, (20, 2))
        masses = 1 - sb.certify_soft(model, near, tau).rival_masses.max(axis=1)
        assert masses.max() >= 0.9 - 1e-3


def test_a_search_that_errs_makes_no_false_claim(monkeypatch):
    model = random_transformer(1, depth=2, n_heads=1, n_keys=3, d_ff=2)
    honest = sb.persistent_cells(model, SQUARE, 0.5, 0.1)
    monkeypatch.setattr(persistent_counts, "worst_odds", lambda *arguments: -np.inf)
    deceived = sb.persistent_cells(model, SQUARE, 0.5, 0.1)
    assert deceived.n_certified <= honest.n_possible < honest.partition.n_cells
    check_claims(model, deceived, 0.5)


@pytest.mark.parametrize("seed", range(5))
def test_dense_sampling_of_deep_models_finds_no_cell_that_is_called_impossible(seed):
    model = integer_transformer(seed)
    domain = Box([-1.3, -1.1], [1.7, 1.9])
    found = sb.persistent_cells(model, domain, 0.1, 0.1)
    check_claims(model, found, 0.1)
    x = np.random.default_rng(seed).uniform(-1.3, 1.9, (300, 2))
    hard = (sb.certify_soft(model, x, 0.1).rival_masses <= 0.1).all(axis=1)
    seen = set(found.partition.locate(x)[hard].tolist()) - {-1}
    assert all(found.is_possible[cell] for cell in seen)
    assert found.n_certified <= found.n_possible
    # The search misses few of the cells that random points show to be hard.
    assert len(seen - set(np.flatnonzero(found.is_certified).tolist())) <= 0.2 * len(seen)


@pytest.mark.parametrize("tau", [0.02, 0.1, 0.3])
def test_one_layer_is_bracketed_and_the_search_adds_to_the_margins(tau):
    rng = np.random.default_rng(5)
    block = Block([random_head(rng, 2, 5), random_head(rng, 2, 4)])
    found = sb.persistent_cells(block, SQUARE, tau, 0.02)
    curve = sb.persistence(block, SQUARE, 0.02)
    assert found.by_margin.sum() == curve.count_by_margins(tau)
    assert found.by_cuts.sum() == curve.count(tau)
    assert found.n_possible == curve.count_possible(tau)
    assert found.by_margin.sum() <= found.n_certified == found.by_cuts.sum() <= found.n_possible
    assert (found.by_point <= found.by_cuts).all()
    check_claims(HardTransformer([block]), found, tau)
    assert "at least" in repr(found)


def test_slices_and_segments_are_domains_too():
    model = random_transformer(2, dim=3, depth=2, n_heads=1, n_keys=3)
    piece = Slice([0.1, 0.2, 0.3], [[1.0, 0.0, 0.5], [0.0, 1.0, -0.5]], SQUARE)
    found = sb.persistent_cells(model, piece, 0.02, 0.1)
    assert found.n_certified > 0
    for i in np.flatnonzero(found.by_point).tolist():
        assert found.partition.locate(found.points[i]) == i
    segment = Segment([-2.0, 0.0, 0.0], [2.0, 0.1, 0.3])
    assert sb.margin_bands(model, segment, 0.0).inside == 1
    assert sb.cell_margins(model, segment).margins.min() > 0.0


def test_unbounded_cells_are_hard_at_any_temperature():
    found = sb.persistence(SIGN, WholeSpace(1), 0.1)
    assert found.temperatures.tolist() == [np.inf, np.inf]
    claims = sb.persistent_cells(SIGN, WholeSpace(1), 50.0, 0.1)
    assert claims.n_certified == 2
    assert claims.by_point.all()


def test_cells_agree_with_the_engine():
    model = random_transformer(8)
    found = sb.cell_margins(model, SQUARE)
    assert found.partition.n_cells == enumerate_regions(model, SQUARE).n_cells
    assert repr(found).startswith(f"CellMargins({found.partition.n_cells} cells")


RELU = ReluNetwork([[[1.0]], [[1.0]]])
DEEP = random_transformer(0)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: sb.measure_margins(SIGN, [[0.0, 1.0]]), ShapeMismatchError),
        (lambda: sb.measure_margins(SIGN, [np.inf]), NonFiniteError),
        (lambda: sb.measure_margins(3, [0.0]), DtypeError),
        (lambda: sb.margin_bands(SIGN, Box([0], [1]), -1.0), ArgumentError),
        (lambda: sb.margin_bands(SIGN, Box([0], [1]), [1.0, 2.0]), ShapeMismatchError),
        (lambda: sb.margin_bands(SIGN, WholeSpace(1), 1.0), ArgumentError),
        (lambda: sb.margin_bands(SIGN, Box([0, 0], [1, 1]), 1.0), ArgumentError),
        (lambda: sb.hard_share(DEEP, SQUARE, 1.0, 0.1), ArgumentError),
        (lambda: sb.hard_share(SIGN, Box([0], [1]), 1.0, 1.5), ArgumentError),
        (lambda: sb.hard_share(SIGN, Box([0], [1]), 1.0, 0.5, rounds=-1), ArgumentError),
        (lambda: sb.persistence(SIGN, Box([0], [1]), 0.1, rounds=-1), ArgumentError),
        (lambda: sb.persistence(DEEP, SQUARE, 0.1), ArgumentError),
        (lambda: sb.persistence(RELU, Box([0], [1]), 0.1), ArgumentError),
        (lambda: sb.persistence(SIGN, Box([0], [1]), 0.1).count(0.0), ArgumentError),
        (lambda: sb.cell_margins(SIGN, Box([0], [1])).count(-1.0), ArgumentError),
        (lambda: sb.persistent_cells(SIGN, Box([0], [1]), 0.0, 0.1), ArgumentError),
        (lambda: sb.persistent_cells(RELU, Box([0], [1]), 1.0, 0.1), ArgumentError),
        (lambda: sb.persistent_cells(SIGN, Box([0], [1]), 1.0, 0.0), ArgumentError),
        (lambda: sb.sample_margin_share(SIGN, Box([0], [1]), 1.0, 0), ArgumentError),
        (lambda: sb.sample_margin_share(SIGN, WholeSpace(1), 1.0, 5), ArgumentError),
        (lambda: sb.sample_hard_share(SIGN, Box([0], [1]), 1.0, 0.1, 5, seed=-1), ArgumentError),
        (
            lambda: sb.sample_hard_share(SIGN, Box([0], [1]), 1.0, 0.1, 5, confidence=1.0),
            ArgumentError,
        ),
    ],
)
def test_bad_arguments_are_named(call, error):
    with pytest.raises(error, match=r"`\w+` must"):
        call()
