"""The argmax over affine forms, exactly: every stage against fractions."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.errors import ArgumentError, DtypeError, NonFiniteError, ShapeMismatchError
from hardmax.exact import winners as module
from hardmax.exact.decisions import Decisions
from hardmax.exact.forms import AffineForms
from hardmax.exact.winners import winners
from tests.reference.exact import winners_by_definition
from tests.strategies import SMALL
from tests.sweeps import examples

STAGES = ["filtered", "expanded", "rational"]
FINITE = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)
LARGEST = float(np.finfo(np.float64).max)
EDGES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324, 1e-300, 1e300, 1e-200, LARGEST, -LARGEST])
TENTHS = st.integers(-3, 3).map(lambda k: k / 10)
ELEMENTS = st.sampled_from([SMALL, TENTHS, EDGES, FINITE])


@st.composite
def problems(draw):
    """Draw forms and points; repeated forms are common."""
    elements = draw(ELEMENTS)
    n_forms, n_points, dim = (draw(st.integers(*low)) for low in ((1, 5), (0, 3), (0, 3)))
    shapes = (n_forms, dim), (n_forms,), (n_points, dim)
    slopes, offsets, points = (
        draw(arrays(np.float64, shape, elements=elements)) for shape in shapes
    )
    copies = draw(st.lists(st.integers(0, n_forms - 1), min_size=1, max_size=6))
    return slopes[copies], offsets[copies], points


def pairs_of(result):
    return list(zip(result.form.tolist(), result.n_tied.tolist(), strict=True))


LATE_DUPLICATE = (
    np.array([[0.1], [0.3], [0.1], [0.3]]),
    np.zeros(4),
    np.array([[1.0], [-1.0], [0.0]]),
)
NEGATIVE_ZERO = np.array([[0.0], [-0.0]]), np.array([-0.0, 0.0]), np.array([[0.1], [-0.0]])
ALL_OVERFLOW = np.array([[1e200], [2e200], [-1e200]]), np.zeros(3), np.array([[1e200], [-1e200]])
ALL_UNDERFLOW = np.array([[1e-200], [2e-200], [0.0]]), np.zeros(3), np.array([[1e-200], [-1e-200]])
NEARLY_PARALLEL = (
    np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52], [1.0 - 2.0**-53, 1.0]]),
    np.array([0.1, 0.1, 0.1]),
    np.array([[1.0, 0.0], [1.0, 1e-300], [1.0, -1e-300], [-1e10, 1e10]]),
)


@example(LATE_DUPLICATE)
@example(NEGATIVE_ZERO)
@example(ALL_OVERFLOW)
@example(ALL_UNDERFLOW)
@example(NEARLY_PARALLEL)
@examples(100)
@given(problems())
def test_every_stage_finds_the_winner_of_the_definition(problem):
    slopes, offsets, points = problem
    expected = winners_by_definition(slopes, offsets, points)
    for start in STAGES:
        assert pairs_of(winners(AffineForms(slopes, offsets), points, start=start)) == expected


@given(problems())
def test_repeating_every_form_doubles_the_ties_and_moves_no_winner(problem):
    slopes, offsets, points = problem
    once = winners(AffineForms(slopes, offsets), points)
    twice = winners(AffineForms(np.tile(slopes, (2, 1)), np.tile(offsets, 2)), points)
    np.testing.assert_array_equal(twice.form, once.form)
    np.testing.assert_array_equal(twice.n_tied, 2 * once.n_tied)


@given(problems(), st.integers(-40, 40))
def test_scaling_by_a_power_of_two_changes_nothing(problem, power):
    slopes, offsets, points = problem
    if max(np.abs(slopes).max(initial=0), np.abs(offsets).max(initial=0)) > 1e290:
        slopes, offsets = slopes * 2.0**-60, offsets * 2.0**-60
    before = winners(AffineForms(slopes, offsets), points)
    scaled = np.ldexp(slopes, power), np.ldexp(offsets, power)
    if all(
        (np.ldexp(s, -power) == t).all() for s, t in zip(scaled, (slopes, offsets), strict=True)
    ):
        assert pairs_of(winners(AffineForms(*scaled), points)) == pairs_of(before)


def test_a_random_batch_is_decided_by_the_filter_alone():
    rng = np.random.default_rng(0)
    forms = AffineForms(rng.normal(size=(50, 16)), rng.normal(size=50))
    points = rng.normal(size=(2000, 16))
    tally = Decisions()
    result = winners(forms, points, tally=tally)
    assert tally == Decisions(filtered=2000)
    np.testing.assert_array_equal(result.form, forms(points).argmax(axis=1))


def test_integer_ties_are_decided_by_the_filter_too():
    rng = np.random.default_rng(1)
    forms = AffineForms(rng.integers(-2, 3, (12, 2)), np.zeros(12))
    points = rng.integers(-2, 3, (100, 2)).astype(float)
    tally = Decisions()
    result = winners(forms, points, tally=tally)
    assert tally == Decisions(filtered=100)
    assert result.n_tied.max() > 1
    assert pairs_of(result) == winners_by_definition(forms.slopes, forms.offsets, points)


def test_duplicates_alone_do_not_need_exact_arithmetic():
    forms = AffineForms([[0.1], [0.3], [0.1], [0.3]], [0.7, 0.0, 0.7, 0.0])
    tally = Decisions()
    result = winners(forms, np.array([[-1.0], [5.0]]), tally=tally)
    assert pairs_of(result) == [(0, 2), (1, 2)]
    assert tally == Decisions(filtered=2)
    zeros, tally = AffineForms([[0.1, 0.0], [0.1, -0.0]], [0.3, 0.3]), Decisions()
    assert pairs_of(winners(zeros, np.array([[0.7, 0.1]]), tally=tally)) == [(0, 2)]
    assert tally == Decisions(filtered=1)


@pytest.mark.parametrize(
    ("slopes", "point", "stage"),
    [
        ([[0.1, 0.2], [0.3, 0.1]], [1.0, 1.0], "filtered"),
        # One form has a huge slope that the point does not see: only the intervals prove it.
        ([[1.0, 0.0], [2.0, 0.0], [0.0, 1e300]], [0.1, 0.0], "filtered"),
        ([[0.1, 0.3], [0.3, 0.1]], [0.7, 0.7], "expanded"),
        ([[1e-200], [2e-200]], [1e-200], "expanded"),
        ([[1e200], [2e200]], [1e200], "expanded"),
        ([[1e200, 1e-200], [1e200, 2e-200]], [1e200, 1e-200], "expanded"),
        ([[1e200, 1e-200], [2e200, 2e-200]], [1e200, 1e-200], "rational"),
    ],
)
def test_each_stage_is_reached(slopes, point, stage):
    slopes, points = np.array(slopes), np.array([point])
    offsets, tally = np.zeros(len(slopes)), Decisions()
    result = winners(AffineForms(slopes, offsets), points, tally=tally)
    assert tally == Decisions(**{stage: 1})
    assert pairs_of(result) == winners_by_definition(slopes, offsets, points)


def test_a_forced_start_skips_the_stages_before_it():
    forms, points = AffineForms([[1.0], [0.1]], [0.5, 0.1]), np.array([[2.0], [3.0], [0.1]])
    for start in STAGES:
        tally = Decisions()
        winners(forms, points, start=start, tally=tally)
        assert tally == Decisions(**{start: 3})


def test_points_one_ulp_from_a_wall():
    """The wall between 0.1 x and 0.3 x - 0.1 is not a float64: both sides, and never a tie."""
    slopes, offsets = np.array([[0.1], [0.3]]), np.array([0.0, -0.1])
    point, points = 0.5, []
    for _ in range(20):
        point = np.nextafter(point, 0.0)
    for _ in range(40):
        points.append([point])
        point = np.nextafter(point, 1.0)
    points = np.array(points)
    expected = winners_by_definition(slopes, offsets, points)
    assert {form for form, _ in expected} == {0, 1}
    for start in STAGES:
        assert pairs_of(winners(AffineForms(slopes, offsets), points, start=start)) == expected


def test_offsets_that_put_a_wall_through_the_point():
    """Forms of very different magnitude whose computed values agree to the last place or two."""
    rng, wrong = np.random.default_rng(3), 0
    for _ in range(400):
        slopes = rng.normal(size=(3, 4)) * 10.0 ** rng.integers(-8, 9, (3, 1))
        points = rng.normal(size=(1, 4))
        offsets = rng.normal() - slopes @ points[0]
        expected = winners_by_definition(slopes, offsets, points)
        wrong += int((points @ slopes.T + offsets).argmax()) != expected[0][0]
        assert pairs_of(winners(AffineForms(slopes, offsets), points)) == expected
    assert wrong > 50


def test_underflow_that_turns_an_order_around_is_noticed():
    """Three products of 0.6 times the smallest float64, each rounded up, against twice it."""
    slopes = np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]) * 2.0**-537
    offsets, points = np.array([0.0, 2.0**-1073]), np.full((1, 3), 0.6 * 2.0**-537)
    for start in STAGES:
        assert pairs_of(winners(AffineForms(slopes, offsets), points, start=start)) == [(1, 1)]


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(2)
    forms = AffineForms(rng.integers(-2, 3, (6, 2)) / 10, rng.integers(-2, 3, 6) / 10)
    points = rng.integers(-2, 3, (50, 2)) / 10
    expected = winners_by_definition(forms.slopes, forms.offsets, points)
    assert pairs_of(winners(forms, points)) == expected
    monkeypatch.setattr(module, "_BLOCK", 40)
    assert pairs_of(winners(forms, points)) == expected


def test_a_single_form_always_wins():
    forms = AffineForms([[1e308, 1e308]], [0.0])
    points = np.array([[1e308, 1e308], [0.0, 0.0], [1e308, -1e308]])
    for start in STAGES:
        assert pairs_of(winners(forms, points, start=start)) == [(0, 1)] * 3


def test_no_points_have_no_winners():
    for start in STAGES:
        result = winners(AffineForms([[1.0]], [0.0]), np.empty((0, 1)), start=start)
        assert result.form.shape == result.n_tied.shape == (0,)
        assert result.form.dtype == result.n_tied.dtype == np.int64


@pytest.mark.parametrize(
    ("points", "error"),
    [
        ([[np.nan]], NonFiniteError),
        ([[-np.inf]], NonFiniteError),
        ([[1.0, 2.0]], ShapeMismatchError),
        ([["a"]], DtypeError),
    ],
)
def test_bad_points_are_refused(points, error):
    with pytest.raises(error, match="`points`"):
        winners(AffineForms([[1.0]], [0.0]), points)


def test_an_unknown_stage_is_refused():
    with pytest.raises(ArgumentError, match="`start` must be one of"):
        winners(AffineForms([[1.0]], [0.0]), np.array([[1.0]]), start="float")
