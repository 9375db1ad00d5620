"""Exact signs of affine forms: every stage against fractions, on inputs chosen to deceive."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.algebra.exact import signs as module
from hardmax.algebra.exact.decisions import Decisions
from hardmax.algebra.exact.signs import sign_of_differences, sign_of_forms
from hardmax.algebra.forms import AffineForms
from hardmax.errors import (
    ArgumentError,
    DtypeError,
    HardmaxError,
    NonFiniteError,
    ShapeMismatchError,
)
from tests.reference.exact import difference_signs_by_definition, sign, signs_by_definition
from tests.strategies import SMALL

STAGES = ["filtered", "expanded", "rational"]
FINITE = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)
LARGEST = float(np.finfo(np.float64).max)
EDGES = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 2.0**-1022, 1e-300, 1e300, 1e-200, LARGEST, -LARGEST]
)
ELEMENTS = st.sampled_from([SMALL, EDGES, FINITE, st.floats(-2.0, 2.0)])


@st.composite
def problems(draw):
    """Draw forms and points, rich in ties or wild in scale."""
    elements = draw(ELEMENTS)
    n_forms, n_points, dim = (draw(st.integers(low, 3)) for low in (1, 0, 0))
    shapes = (n_forms, dim), (n_forms,), (n_points, dim)
    return tuple(draw(arrays(np.float64, shape, elements=elements)) for shape in shapes)


NEARLY_PARALLEL = (
    np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52], [1.0 - 2.0**-53, 1.0]]),
    np.array([-2.0, -2.0, -2.0]),
    np.array([[1.0, 1.0], [1.0 + 2.0**-52, 1.0 - 2.0**-52], [1e15, -1e15], [2.0, -(2.0**-60)]]),
)
UNDERFLOW = (np.array([[1e-200, -1e-200]]), np.array([0.0]), np.array([[1e-200, 1e-201]]))
OVERFLOW = (np.array([[1e200, -1e200]]), np.array([1.0]), np.array([[1e200, 1e200]]))
WIDE = (np.array([[1e300, 1e-300]]), np.array([0.0]), np.array([[1e300, 1e-300], [0.0, 1e-300]]))


@example(NEARLY_PARALLEL)
@example(UNDERFLOW)
@example(OVERFLOW)
@example(WIDE)
@settings(max_examples=150)
@given(problems())
def test_every_stage_finds_the_sign_of_the_definition(problem):
    slopes, offsets, points = problem
    expected = signs_by_definition(slopes, offsets, points)
    for start in STAGES:
        got = sign_of_forms(AffineForms(slopes, offsets), points, start=start)
        assert got.dtype == np.int8
        assert got.shape == (len(points), len(offsets))
        assert got.tolist() == expected


@example(NEARLY_PARALLEL)
@example(UNDERFLOW)
@example(OVERFLOW)
@example(WIDE)
@settings(max_examples=150)
@given(problems())
def test_differences_are_not_rounded_first(problem):
    slopes, offsets, points = problem
    pairs = np.array([(i, j) for i in range(len(offsets)) for j in range(len(offsets))])
    expected = difference_signs_by_definition(slopes, offsets, pairs, points)
    for start in STAGES:
        got = sign_of_differences(AffineForms(slopes, offsets), pairs, points, start=start)
        assert got.tolist() == expected


@given(problems())
def test_the_sign_of_a_difference_changes_with_the_order_of_the_pair(problem):
    slopes, offsets, points = problem
    forms, last = AffineForms(slopes, offsets), len(offsets) - 1
    got = sign_of_differences(forms, np.array([[0, last], [last, 0], [0, 0]]), points)
    np.testing.assert_array_equal(got[:, 0], -got[:, 1])
    assert not got[:, 2].any()


def ulp_grid(corner, size=256):
    """All points of a square of `size` by `size` neighbouring floats, and its two axes."""
    axes = [np.empty(size), np.empty(size)]
    for axis, value in zip(axes, corner, strict=True):
        for k in range(size):
            axis[k] = value
            value = np.nextafter(value, np.inf)
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2), axes


@pytest.mark.parametrize(
    ("slope", "corner"),
    [
        ([1.0, -1.0], [0.5, 0.5]),
        ([0.1, -0.1 - 2.0**-56], [0.5, 0.5]),
        ([1.0 / 3.0, 2.0 / 3.0], [17.3, 24.0]),
    ],
)
@pytest.mark.parametrize("start", STAGES[:2])
def test_a_square_of_neighbouring_points_across_a_line(slope, corner, start):
    """Where a bare float evaluation is famously wrong [KMPSY08]."""
    points, (xs, ys) = ulp_grid(corner)
    middle = points[len(points) // 2 + 128]
    offset = -float(np.dot(slope, middle))
    forms = AffineForms([slope], [offset])
    # A sum of two tables, so that 65 536 fractions take no time.
    a, b = map(Fraction, slope)
    left = [a * Fraction(x) for x in xs.tolist()]
    right = [b * Fraction(y) + Fraction(offset) for y in ys.tolist()]
    expected = np.array([[sign(p + q) for q in right] for p in left]).reshape(-1, 1)
    tally = Decisions()
    np.testing.assert_array_equal(sign_of_forms(forms, points, start=start, tally=tally), expected)
    assert tally.total == len(points)
    assert tally.rational == 0
    assert (tally.filtered > 0) == (start == "filtered")
    assert tally.expanded > 1000


def test_a_bare_float_evaluation_would_have_been_wrong_there():
    points, _ = ulp_grid([17.3, 24.0])
    slope = np.array([1.0 / 3.0, 2.0 / 3.0])
    forms = AffineForms([slope], [-float(slope @ points[len(points) // 2 + 128])])
    assert (np.sign(forms(points)) != sign_of_forms(forms, points)).sum() > 100


HALF_LOST = 2.0**-537, 0.6 * 2.0**-537
"""Two factors whose product, 0.6 times the smallest float64, is rounded up to all of it."""


def test_underflow_that_turns_a_sign_around_is_noticed():
    """Three products of 0.6 units, rounded to 3, against an offset of -2: in truth -0.2."""
    a, x = HALF_LOST
    forms, points = AffineForms([[a, a, a]], [-(2.0**-1073)]), np.array([[x, x, x]])
    assert forms(points).item() > 0
    for start in STAGES:
        assert sign_of_forms(forms, points, start=start).tolist() == [[-1]]
    pairs = AffineForms([[a, a, a], [0.0, 0.0, 0.0]], [0.0, 2.0**-1073])
    for start in STAGES:
        assert sign_of_differences(pairs, np.array([[0, 1]]), points, start=start).item() == -1


@pytest.mark.parametrize("scale", [0, 300, -300, 600, -600])
def test_offsets_that_cancel_the_computed_value(scale):
    """The offset makes the float64 value vanish or nearly so; the sign is then pure rounding."""
    rng = np.random.default_rng(scale % 7)
    for _ in range(60):
        slope = rng.normal(size=4) * 10.0 ** rng.integers(-8, 9, 4)
        slope, point = np.ldexp(slope, scale), rng.normal(size=4)
        offset = -float(slope @ point)
        offsets = np.array([offset, np.nextafter(offset, np.inf), np.nextafter(offset, -np.inf)])
        slopes, points = np.tile(slope, (3, 1)), point[np.newaxis]
        got = sign_of_forms(AffineForms(slopes, offsets), points)
        assert got.tolist() == signs_by_definition(slopes, offsets, points)


def test_a_random_batch_is_decided_by_the_filter_alone():
    rng = np.random.default_rng(0)
    forms = AffineForms(rng.normal(size=(20, 8)), rng.normal(size=20))
    tally = Decisions()
    sign_of_forms(forms, rng.normal(size=(500, 8)), tally=tally)
    assert tally == Decisions(filtered=10_000)


def test_integer_ties_are_decided_by_the_filter_too():
    """Lemma 3: on a coarse grid float64 does not round, and zeros are proved."""
    rng = np.random.default_rng(1)
    forms = AffineForms(rng.integers(-3, 4, (10, 3)), rng.integers(-3, 4, 10))
    points = rng.integers(-3, 4, (200, 3)).astype(float)
    tally = Decisions()
    got = sign_of_forms(forms, points, tally=tally)
    assert tally == Decisions(filtered=2000)
    assert (got == 0).any()
    np.testing.assert_array_equal(got, sign_of_forms(forms, points, start="rational"))


def test_a_large_integer_is_off_the_grid_and_still_right():
    """One unit too large for Lemma 3: 2**53 + 1 is not a float64."""
    forms = AffineForms([[1.0, 1.0]], [-(2.0**53)])
    points = np.array([[2.0**53, 1.0], [2.0**53, 0.0]])
    assert sign_of_forms(forms, points).tolist() == [[1], [0]]


@pytest.mark.parametrize(
    ("forms", "point", "stage"),
    [
        (AffineForms([[1.0]], [0.1]), [1.0], "filtered"),
        # Each term is its own magnitude: only the tight bound of the second look proves it.
        (AffineForms([[1e20, 1e-20]], [0.0]), [0.0, 1.0], "filtered"),
        (AffineForms([[0.1, -0.1]], [0.0]), [0.3, 0.3], "expanded"),
        (AffineForms([[1e-200]], [0.0]), [1e-200], "expanded"),
        (AffineForms([[1e200]], [0.0]), [1e200], "expanded"),
        (AffineForms([[1e200, -1e-200]], [0.0]), [1e200, 1e-200], "rational"),
        (AffineForms([[1e200, 1e200, 1e-300]], [0.0]), [1e200, -1e200, 1e-300], "rational"),
    ],
)
def test_each_stage_is_reached(forms, point, stage):
    tally = Decisions()
    got = sign_of_forms(forms, np.array([point]), tally=tally)
    assert tally == Decisions(**{stage: 1})
    assert got.tolist() == signs_by_definition(forms.slopes, forms.offsets, np.array([point]))


def test_a_forced_start_skips_the_stages_before_it():
    forms, points = AffineForms([[1.0]], [0.5]), np.array([[2.0], [3.0]])
    for start in STAGES:
        tally = Decisions(rational=5)
        sign_of_forms(forms, points, start=start, tally=tally)
        assert tally == Decisions(rational=5) + Decisions(**{start: 2})


def test_exact_values_with_a_difference_that_rounds():
    forms = AffineForms([[1.0], [-1.0]], [2.0**52 - 3.0, 0.0])
    points, pairs = np.array([[2.0**51 + 1.0]]), np.array([[0, 1], [1, 0], [0, 0]])
    tally = Decisions()
    assert sign_of_differences(forms, pairs, points, tally=tally).tolist() == [[1, -1, 0]]
    assert tally == Decisions(filtered=3)


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(2)
    forms = AffineForms(rng.integers(-2, 3, (5, 3)) / 10, rng.integers(-2, 3, 5) / 10)
    points = rng.integers(-2, 3, (60, 3)) / 10
    whole = sign_of_forms(forms, points)
    pairs = np.array([[0, 1], [3, 2]])
    whole_pairs = sign_of_differences(forms, pairs, points)
    monkeypatch.setattr(module, "_BLOCK", 70)
    np.testing.assert_array_equal(sign_of_forms(forms, points), whole)
    np.testing.assert_array_equal(sign_of_differences(forms, pairs, points), whole_pairs)
    expected = signs_by_definition(forms.slopes, forms.offsets, points)
    assert whole.tolist() == expected


def test_no_points_and_no_pairs_have_no_signs():
    forms = AffineForms(np.ones((2, 3)), np.zeros(2))
    assert sign_of_forms(forms, np.empty((0, 3))).shape == (0, 2)
    no_pairs = np.empty((0, 2), dtype=np.int64)
    assert sign_of_differences(forms, no_pairs, np.ones((4, 3))).shape == (4, 0)


def test_forms_on_a_point_are_their_offsets():
    forms = AffineForms(np.empty((3, 0)), [-5e-324, 0.0, LARGEST])
    for start in STAGES:
        assert sign_of_forms(forms, np.empty((1, 0)), start=start).tolist() == [[-1, 0, 1]]


def test_decisions_add_up():
    total = Decisions(1, 2, 3) + Decisions(10, 20, 30)
    assert (total.filtered, total.expanded, total.rational, total.total) == (11, 22, 33, 66)
    with pytest.raises(TypeError):
        total + 1


ABSOLUTE_VALUE = AffineForms([[1.0], [-1.0]], [0.0, 0.0])


@pytest.mark.parametrize(
    ("points", "error", "words"),
    [
        ([[np.nan]], NonFiniteError, "`points` must not hold NaN"),
        ([[np.inf]], NonFiniteError, "`points` must not hold inf"),
        ([[1.0, 2.0]], ShapeMismatchError, "`points` must have shape"),
        ([1.0], ShapeMismatchError, "`points` must have shape"),
        ([["a"]], DtypeError, "`points` must hold real numbers"),
        (np.array([[1]], dtype=object), DtypeError, "`points` must hold real numbers"),
    ],
)
def test_bad_points_are_refused(points, error, words):
    assert issubclass(error, HardmaxError)
    with pytest.raises(error, match=words):
        sign_of_forms(ABSOLUTE_VALUE, points)


@pytest.mark.parametrize(
    ("pairs", "error", "words"),
    [
        ([[0, 2]], ArgumentError, "`pairs` must hold indices from 0 to 1; got 0 to 2"),
        ([[-1, 0]], ArgumentError, "`pairs` must hold indices from 0 to 1; got -1 to 0"),
        ([[0.0, 1.0]], DtypeError, "`pairs` must hold integers"),
        ([0, 1], ShapeMismatchError, "`pairs` must have shape"),
    ],
)
def test_bad_pairs_are_refused(pairs, error, words):
    with pytest.raises(error, match=words):
        sign_of_differences(ABSOLUTE_VALUE, pairs, np.array([[1.0]]))


def test_an_unknown_stage_is_refused():
    with pytest.raises(ArgumentError, match="`start` must be one of filtered, expanded, rational"):
        sign_of_forms(ABSOLUTE_VALUE, np.array([[1.0]]), start="exactly")
