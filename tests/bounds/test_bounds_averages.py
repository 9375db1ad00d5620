"""Estimates: exact identities, high precision, and simulation."""

from fractions import Fraction
from itertools import combinations, product
from math import comb, factorial, pi

import mpmath
import numpy as np
import pytest
from scipy.spatial import ConvexHull

from hardmax import bounds
from hardmax.bounds.averages import _log_external_angle, _log_internal_angle, _sum_expected_vertices
from hardmax.errors import HardmaxError
from hardmax.geometry.domains import WholeSpace
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.engines import enumerate_regions


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 8, 20, 60])
def test_a_simplex_keeps_all_its_vertices(dim):
    # The integrals know nothing of this: they must add up to the number of points.
    assert _sum_expected_vertices(dim + 1, dim) == pytest.approx(dim + 1, rel=1e-11)
    assert bounds.gaussian_hull_vertices(dim + 1, dim).value == pytest.approx(dim + 1, rel=1e-12)


def test_internal_angles_are_the_known_ones():
    angles = [np.exp(_log_internal_angle(size)) for size in (1, 2, 3, 4)]
    tetrahedron = (3 * np.arccos(1 / 3) - pi) / (4 * pi)
    np.testing.assert_allclose(angles, [1, 1 / 2, 1 / 6, tetrahedron], rtol=1e-12)


@pytest.mark.parametrize(("size", "n_points"), [(1, 5), (2, 40), (3, 1000)])
def test_external_angles_match_high_precision(size, n_points):
    with mpmath.workdps(30):
        angle = mpmath.quad(
            lambda x: mpmath.npdf(x) * mpmath.ncdf(x / mpmath.sqrt(size)) ** (n_points - size),
            [-10, 0, 3, 6, 12, 24],
        )
    assert np.exp(_log_external_angle(size, n_points)) == pytest.approx(float(angle), rel=1e-10)


@pytest.mark.parametrize("size", [5, 12])
def test_internal_angles_match_high_precision(size):
    with mpmath.workdps(40):

        def integrand(x):
            z = mpmath.mpc(0, x) / mpmath.sqrt(2 * size)
            return mpmath.re((mpmath.erfc(-z) / 2) ** (size - 1)) * mpmath.npdf(x)

        angle = mpmath.quad(integrand, mpmath.linspace(-60, 60, 41))
    assert np.exp(_log_internal_angle(size)) == pytest.approx(float(angle), rel=1e-10)


@pytest.mark.parametrize(("n_points", "dim"), [(25, 2), (25, 3), (30, 4), (12, 5)])
def test_random_hulls_have_the_expected_number_of_vertices(n_points, dim):
    rng = np.random.default_rng(dim)
    counts = [len(ConvexHull(rng.standard_normal((n_points, dim))).vertices) for _ in range(400)]
    error = np.std(counts) / np.sqrt(len(counts))
    expected = bounds.gaussian_hull_vertices(n_points, dim).value
    assert abs(np.mean(counts) - expected) < 4 * error


def test_the_shortcut_agrees_with_the_integrals():
    shortcut = bounds.gaussian_hull_vertices(512, 64).value
    assert shortcut == pytest.approx(512, rel=1e-15)
    assert _sum_expected_vertices(512, 64) == pytest.approx(512, rel=2e-7)


def test_the_expectation_grows_with_points_and_dimension_but_like_a_power_of_the_logarithm():
    values = [bounds.gaussian_hull_vertices(10**e, 3).value for e in (1, 2, 3, 4, 6)]
    assert values == sorted(values)
    assert values[-1] < 100
    by_dim = [bounds.gaussian_hull_vertices(1000, d).value for d in (1, 2, 5, 10, 40, 200)]
    assert by_dim == sorted(by_dim)
    assert by_dim[0] == pytest.approx(2)
    assert by_dim[-1] == pytest.approx(1000)


def test_the_leading_term_is_approached():
    def ratio(n):
        exact = bounds.gaussian_hull_vertices(n, 2).value
        return bounds.gaussian_hull_vertices_asymptotic(n, 2).value / exact

    ratios = [ratio(10**e) for e in (2, 4, 6, 8)]
    assert ratios == sorted(ratios, reverse=True)
    assert 1 < ratios[-1] < 1.07
    assert bounds.gaussian_hull_vertices_asymptotic(9, 1).value == pytest.approx(2)


def test_regions_at_initialisation_follow_their_formulas():
    got = bounds.relu_regions_at_initialization(50, 3, constant=0.2, volume=5.0)
    assert got.value == pytest.approx(10**3 / factorial(3) * 5)
    assert got.source == "[HR19]"
    got = bounds.relu_regions_at_initialization([25, 25], 3, constant=2.0, volume=5.0)
    assert got.value == pytest.approx(100**3 / factorial(3) * 5)
    assert bounds.relu_regions_at_initialization(4, 9).value == pytest.approx(2**4)
    got = bounds.maxout_regions_at_initialization([25, 25], 3, 2)
    assert got.value == pytest.approx(150**2 / 2 * 15)
    assert got.source == "[TM21]"
    assert bounds.maxout_regions_at_initialization(2, 3, 5).value == pytest.approx(9)


def test_no_estimate_at_initialisation_exceeds_what_networks_can_have():
    got = bounds.maxout_regions_at_initialization(10, 5, 2)
    assert got.value == pytest.approx(761)
    assert got.source == "[MRZ22]"
    assert bounds.cells_with_bias(5, 10, 2) == 761
    for n, dim in product(range(1, 13), range(1, 9)):
        largest = bounds.zaslavsky(n, dim) * (1 + 1e-12)
        assert 1 <= bounds.relu_regions_at_initialization(n, dim).value <= largest
        assert bounds.relu_regions_at_initialization(n, dim, volume=1e9).value <= largest
        for rank in (2, 3, 5):
            largest = bounds.cells_with_bias(rank, n, dim) * (1 + 1e-12)
            assert 1 <= bounds.maxout_regions_at_initialization(n, rank, dim).value <= largest
    for dim, first, second in product(range(1, 5), range(1, 4), range(1, 7)):
        widths = [first, second]
        largest = bounds.two_relu_layers(dim, *widths) * (1 + 1e-12)
        assert bounds.relu_regions_at_initialization(widths, dim, volume=9).value <= largest
        largest = bounds.maxout_upper(dim, widths, 4) * (1 + 1e-12)
        assert bounds.maxout_regions_at_initialization(widths, 4, dim).value <= largest


def test_an_estimate_for_a_tiny_cube_is_one_region():
    assert bounds.relu_regions_at_initialization(9, 2, volume=1e-9).value == 1
    assert bounds.maxout_regions_at_initialization(9, 3, 2, constant=1e-9).value == 1


def test_no_hull_has_more_vertices_than_points():
    for n_points, dim in product((2, 3, 9, 24, 55), (1, 2, 3, 20, 26)):
        exact = bounds.gaussian_hull_vertices(n_points, dim).log10
        leading = bounds.gaussian_hull_vertices_asymptotic(n_points, dim).log10
        assert max(exact, leading) <= np.log10(n_points) + 1e-15


def test_astronomical_estimates_keep_their_logarithm():
    estimate = bounds.relu_regions_at_initialization(10**6, 4096)
    assert estimate.value == float("inf")
    assert 1e4 < estimate.log10 < 1e5
    assert estimate.kind == "estimate"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: bounds.gaussian_hull_vertices(0, 2), "`n_points`"),
        (lambda: bounds.gaussian_hull_vertices(5, 0), "`dim`"),
        (lambda: bounds.gaussian_hull_vertices(5.5, 2), "`n_points`"),
        (lambda: bounds.gaussian_hull_vertices_asymptotic(1, 2), "`n_points`"),
        (lambda: bounds.relu_regions_at_initialization(0, 2), "`n_units`"),
        (lambda: bounds.relu_regions_at_initialization([], 2), "`n_units`"),
        (lambda: bounds.maxout_regions_at_initialization([3, 0], 2, 2), r"`n_units\[1\]`"),
        (lambda: bounds.relu_regions_at_initialization(3, 2, constant=0), "`constant`"),
        (lambda: bounds.relu_regions_at_initialization(3, 2, volume=float("nan")), "`volume`"),
        (lambda: bounds.maxout_regions_at_initialization(3, 1, 2), "`rank`"),
        (lambda: bounds.maxout_regions_at_initialization(3, 2, 2, constant=-1), "`constant`"),
    ],
)
def test_bad_arguments_are_refused_by_name(call, name):
    with pytest.raises(HardmaxError, match=name):
        call()


# A random block on the plane


def random_block(rng, n_keys, n_heads, d_ff, head_dim=2, biases=None):
    heads = [
        AttentionHead(
            rng.normal(size=(2, head_dim)),
            rng.normal(size=(n_keys, head_dim)),
            rng.normal(size=(n_keys, 2)),
            rng.normal(size=(2, 2)),
        )
        for _ in range(n_heads)
    ]
    if not d_ff:
        return HardTransformer([Block(heads)])
    w_in, b_in, w_out, b_out = (rng.normal(size=n) for n in ((2, d_ff), d_ff, (d_ff, 2), 2))
    b_in = b_in if biases is None else np.array(biases, float)
    return HardTransformer([Block(heads, FeedForward(w_in, b_in, w_out, b_out))])


def mean_count(n_blocks, *shape, **options):
    """Return the mean number of cells of random blocks, and its standard error."""
    rng = np.random.default_rng(1)
    counts = [
        enumerate_regions(
            random_block(rng, *shape, **options), WholeSpace(2), count_only=True
        ).n_cells
        for _ in range(n_blocks)
    ]
    return np.mean(counts), np.std(counts, ddof=1) / np.sqrt(n_blocks)


@pytest.mark.parametrize(
    ("n_keys", "n_heads", "d_ff", "head_dim"),
    [(3, 1, 2, 2), (2, 2, 3, 2), (6, 2, 4, 3), (9, 3, 0, 2), (12, 2, 6, 5)],
)
def test_the_expected_number_of_cells_of_a_block_is_what_blocks_have(
    n_keys, n_heads, d_ff, head_dim
):
    mean, error = mean_count(300, n_keys, n_heads, d_ff, head_dim)
    expected = bounds.random_block_cells(n_keys, n_heads, d_ff).value
    assert abs(mean - expected) < 3.5 * error
    # The interval is narrow enough to tell the terms apart: without one of them it would not fit.
    for missing in (d_ff, d_ff * (d_ff - 1) / 2):
        assert missing == 0 or abs(mean - (expected - missing)) > 3.5 * error


@pytest.mark.parametrize(("n_keys", "n_heads", "d_ff"), [(4, 1, 5), (3, 2, 4), (2, 1, 3)])
def test_units_without_biases_have_one_crossing_point(n_keys, n_heads, d_ff):
    mean, error = mean_count(300, n_keys, n_heads, d_ff, biases=np.zeros(d_ff))
    with_biases = bounds.random_block_cells(n_keys, n_heads, d_ff).value
    without = bounds.random_block_cells(n_keys, n_heads, d_ff, unit_bias=False).value
    assert abs(mean - without) < 4 * error
    assert abs(mean - with_biases) > 4 * error
    assert with_biases - without == pytest.approx(comb(d_ff - 1, 2))


@pytest.mark.parametrize("biases", [(0.7,) * 5, (0, 0, 1e-3, 1, -2)], ids=str)
def test_equal_biases_and_two_zeros_are_biases_in_general_position(biases):
    mean, error = mean_count(300, 4, 1, 5, biases=biases)
    assert abs(mean - bounds.random_block_cells(4, 1, 5).value) < 4 * error
    assert abs(mean - bounds.random_block_cells(4, 1, 5, unit_bias=False).value) > 4 * error


def test_zero_biases_lose_a_crossing_for_every_pair_of_all_but_one():
    mean, error = mean_count(100, 4, 1, 6, biases=(0, 0, 0, 0, 0, 1))
    expected = bounds.random_block_cells(4, 1, 6).value - comb(5 - 1, 2)
    assert abs(mean - expected) < 4 * error


def test_one_key_and_units_in_general_position_give_the_count_of_every_model():
    for d_ff, biases in ((4, None), (4, (0, 0, 0, 0)), (3, (5, 5, 5)), (1, (0,))):
        expected = bounds.random_block_cells(1, 2, d_ff, unit_bias=biases is None or any(biases))
        assert mean_count(5, 1, 2, d_ff, biases=biases) == (pytest.approx(expected.value), 0)


def test_convex_sets_are_cut_into_as_many_pieces_as_lines_and_crossings_say():
    """The step of the proof: 1 + lines + (k - 1 for each point on k lines), here on the plane."""
    for offsets in ((0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 1), (1, 2, 3, 5)):
        normals = [(1, 0), (0, 1), (1, 1), (1, -2)]
        lines = [(*normal, offset) for normal, offset in zip(normals, offsets, strict=True)]
        points = {}
        for (i, (a, b, r)), (j, (c, d, s)) in combinations(enumerate(lines), 2):
            det = a * d - b * c
            point = Fraction(r * d - s * b, det), Fraction(a * s - c * r, det)
            points.setdefault(point, set()).update((i, j))
        pieces = 1 + len(lines) + sum(len(on) - 1 for on in points.values())
        w_in, b_in = np.array(normals, float).T, -np.array(offsets, float)
        units = FeedForward(w_in, b_in, np.ones((4, 2)), np.zeros(2))
        head = AttentionHead(np.eye(2), np.zeros((1, 2)), np.zeros((1, 2)), np.eye(2))
        part = enumerate_regions(HardTransformer([Block([head], units)]), WholeSpace(2))
        assert part.n_cells == pieces


def test_a_line_meets_half_of_the_cones_and_one_more():
    """The step of the proof: over directions of a line, the cones it meets, averaged exactly."""
    angles = np.array([0.4, 1.1, 2.0, 0.9, 2 * pi - 4.4])  # at most pi, sum 2 pi
    starts = np.concatenate([[0], np.cumsum(angles)[:-1]])
    directions = (np.arange(100_000) + 0.5) / 100_000 * 2 * pi
    met = 0.0
    for start, angle in zip(starts, angles, strict=True):
        # Some direction of [start, start + angle] is within pi/2 of the normal.
        offset = (directions - start + pi / 2) % (2 * pi)
        met += np.mean(offset < angle + pi)
    assert met == pytest.approx(1 + len(angles) / 2, abs=1e-3)


def test_blocks_with_one_key_or_no_units_are_known():
    assert bounds.random_block_cells(1, 4, 5).value == pytest.approx(16)
    hull = bounds.gaussian_hull_vertices(10, 2).value
    assert bounds.random_block_cells(10, 3, 0).value == pytest.approx(3 * hull)
    assert bounds.random_block_cells(2, 2, 1).value == pytest.approx(4 + 1 + 2)
    for d_ff in range(1, 6):
        lines = bounds.random_block_cells(1, 3, d_ff, unit_bias=False)
        assert lines.value == pytest.approx(bounds.central_arrangement(d_ff, 2))
        assert "without biases" in lines.assumptions
    for d_ff in range(3):
        with_biases = bounds.random_block_cells(5, 2, d_ff).value
        assert with_biases == bounds.random_block_cells(5, 2, d_ff, unit_bias=False).value
    rows = bounds.transformer_table(6, 2, 2, 4, 1)
    estimate = bounds.random_block_cells(6, 2, 4)
    assert [row.value for row in rows if row.name == estimate.name] == [estimate.value]
    assert not [row for row in bounds.transformer_table(6, 2, 2, 4, 2) if "block" in row.name]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: bounds.random_block_cells(0, 1, 1), "`n_keys`"),
        (lambda: bounds.random_block_cells(2, 0, 1), "`n_heads`"),
        (lambda: bounds.random_block_cells(2, 1, -1), "`d_ff`"),
    ],
)
def test_bad_sizes_of_a_block_are_refused_by_name(call, name):
    with pytest.raises(HardmaxError, match=name):
        call()
