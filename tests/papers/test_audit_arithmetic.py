"""The exact arithmetic behind the claims: degrees, general position, spectral norms."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.bounds import cells_bias_free
from hardmax.errors import ArgumentError
from hardmax.geometry.cayley import cayley_polytope
from hardmax.papers.subjects.counting.growth import leading_coefficient, polynomial_degree
from hardmax.papers.subjects.counting.lower_bound_proof import parabola_keys, sawtooth_formula
from hardmax.papers.subjects.counting.polytope_sums import (
    are_in_general_position,
    independent_heads,
    n_vertices,
    overlay_identity,
    tilted_parabolas,
)
from hardmax.papers.subjects.instances import integer_keys
from hardmax.papers.subjects.temperature.soft_pieces import surviving_pieces
from hardmax.papers.subjects.temperature.spectral_norms import (
    covariance,
    exact_supremum,
    norm_is_at_most,
    probabilities,
    symmetric_norm,
)
from tests.sweeps import examples

COEFFICIENTS = st.lists(st.integers(-9, 9), min_size=1, max_size=5)
WEIGHTS = st.lists(st.integers(0, 60), min_size=1, max_size=5)


@given(COEFFICIENTS, st.integers(-5, 5))
def test_the_degree_of_a_polynomial_is_found(coefficients, start):
    while len(coefficients) > 1 and coefficients[-1] == 0:
        coefficients.pop()
    degree = len(coefficients) - 1
    points = range(start, start + degree + 3)
    values = [sum(c * x**k for k, c in enumerate(coefficients)) for x in points]
    assert polynomial_degree(values) == degree
    assert leading_coefficient(values) == coefficients[-1]


def test_too_few_values_are_refused():
    with pytest.raises(ArgumentError, match=r"`values` must be values of a polynomial"):
        polynomial_degree([0, 1, 8])
    with pytest.raises(ArgumentError, match=r"degree at most -1"):
        polynomial_degree([5])


@given(st.integers(0, 10**6))
@examples(15)
def test_overlays_in_general_position_obey_eulers_formula(seed):
    heads = [integer_keys(seed + i, n, 3, 500) for i, n in enumerate((4, 5, 3))]
    if are_in_general_position(heads):
        assert n_vertices(heads) == overlay_identity(heads)
        assert n_vertices(heads) <= cells_bias_free([4, 5, 3], None, 3)


def test_special_positions_are_noticed():
    first, second, third = (integer_keys(seed, 4, 3, 999) for seed in (1, 2, 3))
    assert are_in_general_position([first, second, third])
    flat = first.copy()
    flat[3] = flat[0] + 2 * (flat[1] - flat[0]) + 3 * (flat[2] - flat[0])
    assert not are_in_general_position([flat, second, third])  # four points in a plane
    parallel = second.copy()
    parallel[1] = parallel[0] + (first[1] - first[0]) + (first[2] - first[0])
    assert not are_in_general_position([first, parallel, third])  # an edge parallel to a triangle
    dependent = third.copy()
    dependent[1] = dependent[0] + (first[1] - first[0]) + (second[1] - second[0])
    assert not are_in_general_position([first, second, dependent])  # three edges in a plane


def test_the_cayley_polytope_of_two_triangles():
    triangle = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    prism = cayley_polytope([triangle, triangle])  # parallel edges: squares join the two
    assert (prism.dim, len(prism.vertices), prism.is_simplicial) == (3, 6, False)
    octahedron = cayley_polytope([triangle, -triangle])
    assert octahedron.f_vector == (6, 12, 8)
    assert octahedron.is_simplicial
    assert cayley_polytope([triangle] * 3).affine_dim == 4


def test_families_of_heads():
    assert n_vertices(tilted_parabolas(5, 3, 3)) == cells_bias_free(5, 3, 3)
    assert n_vertices(independent_heads(5, 2, 2)) == 25
    assert n_vertices(independent_heads(5, 3, 1)) == 8
    assert [head.shape for head in independent_heads(5, 2, 3)] == [(5, 6)] * 2


@given(WEIGHTS)
def test_norms_are_decided_as_eigenvalues_are(rivals):
    p = probabilities([Fraction(w, 60) for w in rivals])
    matrix = covariance(p)
    top = float(np.linalg.eigvalsh(np.array(matrix, dtype=float)).max())
    assert norm_is_at_most(matrix, Fraction(top) + Fraction(1, 10**9))
    assert not norm_is_at_most(matrix, Fraction(top) - Fraction(1, 10**9))


def test_a_norm_that_is_attained_is_not_exceeded():
    # The elimination meets a zero pivot here, before and at the end.
    for n, r in ((2, Fraction(1, 50)), (3, Fraction(1, 7)), (6, Fraction(1, 100))):
        norm = symmetric_norm(n, r)
        matrix = covariance(probabilities([r] * (n - 1)))
        assert norm_is_at_most(matrix, norm)
        assert not norm_is_at_most(matrix, norm - Fraction(1, 10**12))
    zero = [[Fraction(0)] * 2] * 2
    assert norm_is_at_most(zero, Fraction(0))
    off_diagonal = [[Fraction(0), Fraction(1)], [Fraction(1), Fraction(0)]]
    assert not norm_is_at_most(off_diagonal, Fraction(0))


@given(WEIGHTS, st.integers(1, 9))
def test_no_rivals_within_the_margin_exceed_the_supremum(rivals, scale):
    r = Fraction(1, scale)
    p = probabilities([r * Fraction(w, 60) for w in rivals])
    assert norm_is_at_most(covariance(p), exact_supremum(len(p), r))


def test_the_supremum_is_attained_by_some_rivals_on_the_margin():
    # Five keys and r = 1/2: the worst case is one rival at the margin and the others far below.
    r = Fraction(1, 2)
    best = exact_supremum(5, r)
    norms = [Fraction(m + 1) * r / (1 + m * r) ** 2 for m in range(1, 5)]
    assert best == norms[0] > norms[-1]
    assert not norm_is_at_most(covariance(probabilities([r, 0, 0, 0])), best - Fraction(1, 10**9))


def test_the_sawtooth_formula_against_a_triangle_wave():
    for w in (1, 2, 3):
        for k in range(60 * w + 1):
            x = Fraction(k, 60 * w)
            phase = (2 * w * x) % 2
            assert sawtooth_formula(x, w) == min(phase, 2 - phase)


def test_integer_keys_are_those_of_the_lemma():
    n = 5
    p = [Fraction(2 * j - 1, 2 * n) for j in range(1, n + 1)]
    wanted = [[8 * n**2 * x, -8 * n**2 * x**2 / 2] for x in p]
    assert parabola_keys(n).tolist() == [[float(a), float(b)] for a, b in wanted]


def test_pieces_survive_the_cold_and_not_the_heat():
    assert surviving_pieces(1, Fraction(1, 10**4)) == 8
    assert surviving_pieces(1, Fraction(1)) < 8


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 12))
def test_one_rival_inside_the_margin_is_never_worst(below, step, m):
    """The inequality of the proof of the curvature's supremum, where it is used, in fractions."""
    rho = Fraction(below, 10**6 + 1)
    mu = rho + (1 - rho) * Fraction(step, 10**6 + 1)
    a, c = 1 / (1 - mu), mu - rho
    b = m * rho / c
    k, slope, bend = 1 + a - b, a**2 + b / c, 2 * a**3 - 2 * b / c**2
    bracket = 2 * slope * (mu * slope - k) - mu * k * bend
    half = a**3 * (b - 2) + b / c * (2 * a**2 - 3 * a - 1 + b) + b / c**2 * (a**2 - 1) / a
    assert bracket == 2 * half
    if a / 2 < b < a:  # a rival y with 0 < y < rho
        assert half > a**3 * (2 * a**2 - 6 * a + 5) / (4 * (a - 1)) > 0
