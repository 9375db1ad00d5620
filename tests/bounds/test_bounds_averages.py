"""Estimates: exact identities, high precision, and simulation."""

from math import factorial, pi

import mpmath
import numpy as np
import pytest
from scipy.spatial import ConvexHull

from hardmax import bounds
from hardmax.bounds.averages import _expected_vertices, _log_external_angle, _log_internal_angle
from hardmax.errors import HardmaxError
from hardmax.geometry.domains import WholeSpace
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.engines import enumerate_regions


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 8, 20, 60])
def test_a_simplex_keeps_all_its_vertices(dim):
    # The integrals know nothing of this: they must add up to the number of points.
    assert _expected_vertices(dim + 1, dim) == pytest.approx(dim + 1, rel=1e-11)
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
    assert _expected_vertices(512, 64) == pytest.approx(512, rel=2e-7)


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
    got = bounds.relu_regions_at_initialization(50, 3, constant=2.0, volume=5.0)
    assert got.value == pytest.approx(100**3 / factorial(3) * 5)
    assert bounds.relu_regions_at_initialization(4, 9).value == pytest.approx(2**4)
    got = bounds.maxout_regions_at_initialization(50, 3, 2)
    assert got.value == pytest.approx(150**2 / 2 * 15)
    assert bounds.maxout_regions_at_initialization(2, 3, 5).value == pytest.approx(9)


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


def random_block(rng, n_keys, n_heads, d_ff, head_dim=2):
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
    parts = ((2, d_ff), d_ff, (d_ff, 2), 2)
    return HardTransformer([Block(heads, FeedForward(*(rng.normal(size=size) for size in parts)))])


@pytest.mark.parametrize(
    ("n_keys", "n_heads", "d_ff", "head_dim"),
    [(3, 1, 2, 2), (2, 2, 3, 2), (6, 2, 4, 3), (9, 3, 0, 2), (12, 2, 6, 5)],
)
def test_the_expected_number_of_cells_of_a_block_is_what_blocks_have(
    n_keys, n_heads, d_ff, head_dim
):
    rng = np.random.default_rng(1)
    counts = np.array(
        [
            enumerate_regions(
                random_block(rng, n_keys, n_heads, d_ff, head_dim), WholeSpace(2), count_only=True
            ).n_cells
            for _ in range(300)
        ]
    )
    expected = bounds.random_block_cells(n_keys, n_heads, d_ff).value
    error = counts.std(ddof=1) / np.sqrt(len(counts))
    assert abs(counts.mean() - expected) < 3.5 * error
    # The interval is narrow enough to tell the terms apart: without one of them it would not fit.
    for missing in (d_ff, d_ff * (d_ff - 1) / 2):
        assert missing == 0 or abs(counts.mean() - (expected - missing)) > 3.5 * error


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
