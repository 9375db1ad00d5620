"""Exact signs of determinants and at vertices: every stage against fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.algebra.exact.decisions import Decisions
from hardmax.algebra.exact.determinants import (
    LARGEST_EXPANDED,
    sign_at_vertex,
    sign_of_determinant,
    signs_at_vertices,
)
from hardmax.algebra.exact.exact_forms import ExactForms
from hardmax.algebra.forms import AffineForms
from hardmax.errors import ArgumentError, DtypeError, NonFiniteError, ShapeMismatchError
from tests.reference.exact import (
    determinant_by_definition,
    determinant_by_elimination,
    fractions,
    sign,
    value_of_form,
    vertex_by_definition,
)
from tests.strategies import SMALL

STAGES = ["filtered", "expanded", "rational"]
FINITE = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)
LARGEST = float(np.finfo(np.float64).max)
EDGES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324, 1e-300, 1e300, 1e-200, LARGEST, -LARGEST])
ELEMENTS = st.sampled_from([SMALL, EDGES, FINITE, st.floats(-1.0, 1.0)])
BATCHES = st.tuples(ELEMENTS, st.integers(0, 4)).flatmap(
    lambda kind: arrays(np.float64, (2, kind[1], kind[1]), elements=kind[0])
)


def expected_signs(matrices):
    return [sign(determinant_by_elimination(fractions(m))) for m in np.asarray(matrices)]


def check_every_stage(matrices):
    expected = expected_signs(matrices)
    for start in STAGES:
        got = sign_of_determinant(matrices, start=start)
        assert got.dtype == np.int8
        assert got.tolist() == expected
    return expected


def test_the_two_definitions_agree():
    rng = np.random.default_rng(0)
    for k in range(5):
        for matrix in rng.integers(-2, 3, (10, k, k)).astype(float):
            exact = fractions(matrix)
            assert determinant_by_definition(exact) == determinant_by_elimination(exact)


@settings(max_examples=200)
@given(BATCHES)
def test_every_stage_finds_the_sign_of_the_definition(matrices):
    check_every_stage(matrices)


@given(BATCHES, st.randoms(use_true_random=False))
def test_transposing_and_swapping_rows_do_what_they_must(matrices, random):
    before = sign_of_determinant(matrices)
    np.testing.assert_array_equal(sign_of_determinant(matrices.transpose(0, 2, 1)), before)
    k = matrices.shape[1]
    if k >= 2:
        i, j = random.sample(range(k), 2)
        swapped = matrices.copy()
        swapped[:, [i, j]] = matrices[:, [j, i]]
        np.testing.assert_array_equal(sign_of_determinant(swapped), -before)


@pytest.mark.parametrize("k", range(2, 10))
def test_rank_deficient_integer_matrices_are_singular(k):
    rng = np.random.default_rng(k)
    thin = rng.integers(-9, 10, (20, k, k - 1))
    matrices = (thin @ rng.integers(-9, 10, (20, k - 1, k))).astype(float)
    assert check_every_stage(matrices) == [0] * 20
    # Powers of two on rows and columns keep it singular, exactly.
    powers = rng.integers(-100, 101, (2, 20, k))
    scaled = np.ldexp(np.ldexp(matrices, powers[0][:, :, np.newaxis]), powers[1][:, np.newaxis])
    assert check_every_stage(scaled) == [0] * 20


@pytest.mark.parametrize("k", [2, 3, 5, 7, 8])
def test_matrices_one_ulp_from_singular(k):
    rng = np.random.default_rng(k)
    matrices = rng.integers(-(2**20), 2**20, (30, k, k)).astype(float)
    matrices[:, -1] = matrices[:, :-1].sum(axis=1)
    matrices[10:20, -1, -1] = np.nextafter(matrices[10:20, -1, -1], np.inf)
    matrices[20:, -1, -1] = np.nextafter(matrices[20:, -1, -1], -np.inf)
    expected = check_every_stage(matrices)
    assert expected[:10] == [0] * 10
    assert all(expected[10:])


@pytest.mark.parametrize("k", [3, 5, 7, 9, 12])
def test_hilbert_like_matrices(k):
    """Entries rounded to dyadics: condition numbers beyond 1 / u."""
    i = np.arange(k)
    hilbert = 1.0 / (i[:, np.newaxis] + i + 1.0)
    check_every_stage(np.stack([hilbert, hilbert[::-1], np.round(hilbert * 2**20)]))


def test_nearly_parallel_rows():
    eps = 2.0**-52
    matrices = np.array(
        [
            [[1.0, 1.0 + eps], [1.0 - eps, 1.0]],
            [[1.0, 1.0 + eps], [1.0 + eps, 1.0 + 2 * eps]],
            [[1e-300, 3e-300], [1e-300, 3e-300]],
            [[0.1, 0.3], [0.2, 0.6]],
            [[0.1, 0.3], [0.3, 0.9]],
        ]
    )
    assert check_every_stage(matrices)[:3] == [1, -1, 0]


def grid_orientations(corner, q, r):
    """Rows (p, 1), (q, 1), (r, 1) for a 256 by 256 square of neighbouring floats p."""
    axes = [value + np.arange(256) * np.spacing(value) for value in corner]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    matrices = np.ones((len(points), 3, 3))
    matrices[:, 0, :2], matrices[:, 1, :2], matrices[:, 2, :2] = points, q, r
    return matrices, axes


@pytest.mark.parametrize(
    ("corner", "q", "r"),
    [
        ((0.5, 0.5), (12.0, 12.0), (24.0, 24.0)),
        (
            (0.50000000000002531, 0.5000000000000171),
            (17.300000000000001, 17.300000000000001),
            (24.00000000000005, 24.0000000000000517765),
        ),
        ((0.5, 0.5), (8.8000000000000007, 8.8000000000000007), (12.1, 12.1)),
    ],
)
def test_the_orientation_of_a_square_of_neighbouring_points(corner, q, r):
    """The classroom examples of [KMPSY08], all 65 536 signs."""
    matrices, axes = grid_orientations(corner, q, r)
    (qx, qy), (rx, ry) = (tuple(map(Fraction, point)) for point in (q, r))
    left = [(qy - ry) * Fraction(x) for x in axes[0].tolist()]
    right = [(rx - qx) * Fraction(y) + qx * ry - qy * rx for y in axes[1].tolist()]
    expected = np.array([sign(a + b) for a in left for b in right])
    tally = Decisions()
    np.testing.assert_array_equal(sign_of_determinant(matrices, tally=tally), expected)
    assert tally.total == len(matrices)
    assert tally.expanded > 1000
    np.testing.assert_array_equal(sign_of_determinant(matrices, start="expanded"), expected)
    assert expected[:20].tolist() == expected_signs(matrices[:20])


@pytest.mark.parametrize("k", [1, 2, 3, 6, 8, 16, 30])
def test_a_random_batch_is_decided_by_the_filter_alone(k):
    matrices = np.random.default_rng(k).normal(size=(200, k, k))
    tally = Decisions()
    got = sign_of_determinant(matrices, tally=tally)
    assert tally == Decisions(filtered=200)
    np.testing.assert_array_equal(got, np.linalg.slogdet(matrices)[0])


def checkered(small):
    return [[1.0, small, 1.0], [small, 1.0, small], [1.0, small, 1.0]]


@pytest.mark.parametrize(
    ("matrix", "stage"),
    [
        (np.eye(3), "filtered"),
        ([[1e-300, 1.0], [1.0, 1e300]], "expanded"),
        (np.ones((2, 2)), "expanded"),
        (np.zeros((3, 3)), "expanded"),
        (np.ones((LARGEST_EXPANDED, LARGEST_EXPANDED)), "expanded"),
        (np.ones((LARGEST_EXPANDED + 1, LARGEST_EXPANDED + 1)), "rational"),
        ([[1.0, 1.0, 1e-250], [1.0, 1.0, 1e250], [1e-250, 1.0, 1.0]], "filtered"),
        # Scaling a row down loses bits.
        ([[LARGEST, 5e-324], [LARGEST, 5e-324]], "rational"),
        # No scaling of rows and columns brings the entries together; 1000 places are the limit.
        (checkered(2.0**-332), "expanded"),
        (checkered(2.0**-333), "rational"),
        # Where flint is faster: 33 places in each of 6 rows are still below 200, and so on.
        (np.full((6, 6), 2.0**33 - 1.0), "expanded"),
        (np.full((6, 6), 2.0**34 - 1.0), "rational"),
        (np.full((7, 7), 2.0**17 - 1.0), "expanded"),
        (np.full((7, 7), 2.0**18 - 1.0), "rational"),
    ],
)
def test_each_stage_is_reached(matrix, stage):
    tally = Decisions()
    got = sign_of_determinant(np.array([matrix]), tally=tally)
    assert tally == Decisions(**{stage: 1})
    assert got.tolist() == expected_signs([np.array(matrix)])


def test_large_growth_of_the_pivots_is_not_trusted():
    """Wilkinson's matrix doubles at every step, up to 2**(k - 1)."""
    for k in (20, 120):
        matrix = np.eye(k) - np.tril(np.ones((k, k)), -1)
        matrix[:, -1] = 1.0
        assert sign_of_determinant(matrix[np.newaxis]).tolist() == [1]


def test_underflow_that_turns_a_sign_around_is_noticed():
    r"""The last pivot is $2 - 3 \cdot 0.6$ smallest units, and $2 - 3$ in float64."""
    p, unit = 2.0**-537, 2.0**-1074
    matrix = np.diag([p, p, p, 2 * unit])
    matrix[:3, 3], matrix[3, :3] = 0.6 * p, unit
    assert check_every_stage(matrix[np.newaxis]) == [1]


def test_scales_from_subnormal_to_the_largest_number():
    rng = np.random.default_rng(5)
    for k in (2, 3, 4):
        mantissas = rng.choice([-1.0, 1.0], (60, k, k)) * rng.integers(1, 9, (60, k, k))
        check_every_stage(np.ldexp(mantissas, rng.integers(-1070, 1020, (60, k, k))))


def test_a_forced_start_skips_the_stages_before_it():
    for start in STAGES:
        tally = Decisions()
        sign_of_determinant(np.array([np.eye(3), np.ones((3, 3))]), start=start, tally=tally)
        assert tally.total == 2
        assert (tally.filtered > 0) == (start == "filtered")
        assert (tally.rational == 2) == (start == "rational")


def test_the_empty_determinant_is_one_and_no_matrices_have_no_sign():
    assert sign_of_determinant(np.empty((2, 0, 0))).tolist() == [1, 1]
    for start in STAGES:
        assert sign_of_determinant(np.empty((0, 3, 3)), start=start).shape == (0,)


@pytest.mark.parametrize(
    ("matrices", "error"),
    [
        (np.eye(2), ShapeMismatchError),
        (np.ones((1, 2, 3)), ShapeMismatchError),
        ([[[np.nan]]], NonFiniteError),
        ([[[np.inf]]], NonFiniteError),
        ([[["a"]]], DtypeError),
    ],
)
def test_bad_matrices_are_refused(matrices, error):
    with pytest.raises(error, match="`matrices`"):
        sign_of_determinant(matrices)


@st.composite
def vertices(draw):
    """Draw one form and as many constraints as there are dimensions."""
    dim, elements = draw(st.integers(0, 3)), draw(ELEMENTS)
    return draw(arrays(np.float64, (dim + 1, dim + 1), elements=elements))


@settings(max_examples=150)
@given(vertices())
def test_the_sign_at_a_vertex_is_that_of_the_solved_system(table):
    *constraints, form = fractions(table)
    dim = len(constraints)
    arguments = table[np.newaxis, -1], table[np.newaxis, :-1]
    if determinant_by_definition([row[:-1] for row in constraints]) == 0:
        with pytest.raises(ArgumentError, match="`constraints` must meet in exactly one point"):
            signs_at_vertices(*arguments)
        return
    vertex = vertex_by_definition(constraints)
    assert all(value_of_form(row[:-1], row[-1], vertex) == 0 for row in constraints)
    expected = [sign(value_of_form(form[:-1], form[-1], vertex))]
    for start in STAGES:
        assert signs_at_vertices(*arguments, start=start).tolist() == expected
    if dim:
        stored = AffineForms(table[-1:, :-1], table[-1:, -1])
        walls = AffineForms(table[:-1, :-1], table[:-1, -1])
        assert sign_at_vertex(stored, walls).tolist() == expected
        exact = ExactForms.stored(stored)
        assert sign_at_vertex(exact, ExactForms.stored(walls)).tolist() == expected
        assert sign_at_vertex(exact, walls).tolist() == expected


def test_a_constraint_is_zero_at_its_own_vertex():
    rng = np.random.default_rng(3)
    constraints = AffineForms(rng.normal(size=(4, 4)), rng.normal(size=4))
    assert sign_at_vertex(constraints, constraints).tolist() == [0, 0, 0, 0]


def test_vertex_decisions_are_counted():
    walls = AffineForms(np.eye(2), [-0.1, -0.1])
    forms = AffineForms([[1.0, -1.0], [1.0, 1.0], [1.0, 0.0]], [0.0, 0.0, 0.0])
    tally = Decisions()
    assert sign_at_vertex(forms, walls, tally=tally).tolist() == [0, 1, 1]
    assert tally == Decisions(filtered=5, expanded=1)
    tally = Decisions()
    assert sign_at_vertex(ExactForms.stored(forms), walls, tally=tally).tolist() == [0, 1, 1]
    assert tally == Decisions(rational=4)


def test_parallel_walls_have_no_vertex():
    walls = AffineForms([[1.0, 2.0], [0.5, 1.0]], [0.0, 1.0])
    form = AffineForms([[1.0, 0.0]], [0.0])
    for constraints in (walls, ExactForms.stored(walls)):
        with pytest.raises(ArgumentError, match="`constraints` must meet in exactly one point"):
            sign_at_vertex(form, constraints)


def test_sizes_that_disagree_are_refused():
    form = AffineForms([[1.0, 0.0]], [0.0])
    with pytest.raises(ShapeMismatchError, match="`constraints` must be dim forms"):
        sign_at_vertex(form, form)
    with pytest.raises(ShapeMismatchError, match="`constraints` must be dim forms"):
        sign_at_vertex(form, AffineForms([[1.0]], [0.0]))
    with pytest.raises(ShapeMismatchError, match="`constraints` must have shape"):
        signs_at_vertices(np.ones((1, 3)), np.ones((1, 1, 3)))
