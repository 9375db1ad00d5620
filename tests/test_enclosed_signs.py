"""The filter of an engine: what it proves is true, and it proves what it should."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.algebra.exact.composition import EnclosedForms
from hardmax.algebra.exact.decisions import Decisions
from hardmax.algebra.exact.enclosed_signs import enclosed_signs
from hardmax.algebra.exact.exact_forms import ExactForms
from hardmax.algebra.forms import AffineForms
from hardmax.errors import ArgumentError, DtypeError, ShapeMismatchError
from tests.reference.exact import fractions, sign
from tests.strategies import SMALL

RADII = st.sampled_from([0.0, 5e-324, 1e-300, 1e-16, 1e-3, 1.0, 1e300, np.inf])
ELEMENTS = st.sampled_from(
    [SMALL, st.floats(-1.0, 1.0), st.floats(allow_nan=False, allow_infinity=False)]
)


@st.composite
def problems(draw):
    elements, dim = draw(ELEMENTS), draw(st.integers(0, 2))
    forms = EnclosedForms(
        draw(arrays(np.float64, (2, dim), elements=elements)),
        draw(arrays(np.float64, 2, elements=elements)),
        draw(arrays(np.float64, (2, dim), elements=RADII)),
        draw(arrays(np.float64, 2, elements=RADII)),
    )
    points = draw(arrays(np.float64, (2, dim), elements=elements))
    return forms, points, draw(arrays(np.float64, 2, elements=RADII))


def extremes(forms, j, point, rho):
    """Smallest and largest true value, over all true forms and points; None if unbounded."""
    radii = [*forms.slope_radii[j].tolist(), forms.offset_radii[j]]
    if np.inf in radii or (rho == np.inf and forms.dim):
        return None
    low = high = Fraction(float(forms.offsets[j]))
    low, high = low - Fraction(float(radii[-1])), high + Fraction(float(radii[-1]))
    for a, r, x in zip(fractions(forms.slopes[j]), radii, fractions(point), strict=False):
        ends = [(a + s * Fraction(r)) * (x + t * Fraction(rho)) for s in (-1, 1) for t in (-1, 1)]
        low, high = low + min(ends), high + max(ends)
    return low, high


@settings(max_examples=300)
@given(problems())
def test_a_proved_sign_holds_for_every_form_and_point_within_the_radii(problem):
    forms, points, rho = problem
    result = enclosed_signs(forms, points, rho)
    for p, point in enumerate(points):
        for j in range(2):
            if result.ambiguous[p, j]:
                assert result.sign[p, j] == 0
                continue
            bounds = extremes(forms, j, point, float(rho[p]))
            assert bounds is not None
            assert sign(bounds[0]) == sign(bounds[1]) == result.sign[p, j]


def test_clear_signs_are_proved():
    rng = np.random.default_rng(0)
    stored = AffineForms(rng.normal(size=(30, 5)), rng.normal(size=30))
    weight = rng.normal(size=(30, 40))
    forms = EnclosedForms.stored(stored).compose(weight)
    points, tally = rng.normal(size=(50, 5)), Decisions()
    result = enclosed_signs(forms, points, np.full(50, 1e-13), tally=tally)
    assert result.ambiguous.mean() < 0.01
    assert tally == Decisions(filtered=2000 - int(result.ambiguous.sum()))
    exact = ExactForms.stored(stored).compose(weight).signs(points)
    np.testing.assert_array_equal(result.sign[~result.ambiguous], exact[~result.ambiguous])


def test_the_point_radius_decides():
    forms = EnclosedForms.stored(AffineForms([[2.0, -1.0]], [0.0]))
    point = np.array([[1.0, 1.0]])
    for rho, ambiguous in ((0.0, False), (0.33, False), (0.34, True), (np.inf, True)):
        assert enclosed_signs(forms, point, np.array([rho])).ambiguous.item() is ambiguous


def test_an_uncertain_slope_at_an_uncertain_point_counts_twice():
    """The slope is 0 within 1 and the point 0 within 1, so the product is 0 within 1."""
    forms = EnclosedForms([[0.0]], [0.5], [[1.0]], [0.0])
    origin = np.zeros((1, 1))
    assert not enclosed_signs(forms, origin).ambiguous.item()
    assert not enclosed_signs(forms, origin, np.array([0.4])).ambiguous.item()
    assert enclosed_signs(forms, origin, np.array([1.0])).ambiguous.item()


def test_what_is_not_finite_is_ambiguous():
    forms = EnclosedForms([[1.0], [1e300], [1.0]], [1.0, 0.0, 0.0], [[0], [0], [np.inf]], [0, 0, 0])
    result = enclosed_signs(forms, np.array([[np.nan], [np.inf], [1e300], [-np.inf]]))
    assert result.ambiguous.tolist() == [
        [True, True, True],
        [True, True, True],
        [False, True, True],
        [True, True, True],
    ]
    assert enclosed_signs(forms, np.array([[1.0]]), np.array([np.nan])).ambiguous.all()


def test_an_underflowing_value_is_ambiguous_and_not_zero():
    forms = EnclosedForms.stored(AffineForms([[1e-200]], [0.0]))
    result = enclosed_signs(forms, np.array([[1e-200]]))
    assert (result.sign.item(), result.ambiguous.item()) == (0, True)


def test_an_underflow_that_turns_a_sign_around_is_ambiguous():
    """Three products of 0.6 times the smallest float64, each rounded up, less twice it."""
    forms = EnclosedForms.stored(AffineForms(np.full((1, 3), 2.0**-537), [-(2.0**-1073)]))
    assert enclosed_signs(forms, np.full((1, 3), 0.6 * 2.0**-537)).ambiguous.item()


def test_rounding_that_turns_a_sign_around_is_ambiguous():
    rng = np.random.default_rng(1)
    for _ in range(200):
        slope, point = rng.normal(size=(1, 4)) * 10.0 ** rng.integers(-8, 9, 4), rng.normal(size=4)
        offset = -float(np.cumsum(slope[0] * point)[-1])
        offsets = [offset, np.nextafter(offset, np.inf), np.nextafter(offset, -np.inf)]
        stored = AffineForms(np.tile(slope, (3, 1)), offsets)
        result = enclosed_signs(EnclosedForms.stored(stored), point[np.newaxis])
        exact = ExactForms.stored(stored).signs(point[np.newaxis])
        assert (result.ambiguous | (result.sign == exact)).all()


def test_only_the_zero_form_is_certainly_zero():
    forms = EnclosedForms.stored(AffineForms([[0.0], [1.0]], [0.0, -1.0]))
    result = enclosed_signs(forms, np.array([[1.0]]))
    assert result.sign.tolist() == [[0, 0]]
    assert result.ambiguous.tolist() == [[False, True]]
    nearly = EnclosedForms([[0.0]], [0.0], [[0.0]], [5e-324])
    assert enclosed_signs(nearly, np.array([[1.0]])).ambiguous.all()


def test_bad_arguments_are_refused():
    forms = EnclosedForms.stored(AffineForms([[1.0]], [0.0]))
    with pytest.raises(ShapeMismatchError, match="`points` must have shape"):
        enclosed_signs(forms, np.ones((1, 2)))
    with pytest.raises(ShapeMismatchError, match="`point_radii` must have shape"):
        enclosed_signs(forms, np.ones((1, 1)), np.ones(2))
    with pytest.raises(ArgumentError, match="`point_radii` must be at least 0; got -1"):
        enclosed_signs(forms, np.ones((1, 1)), np.array([-1.0]))
    with pytest.raises(DtypeError, match="`points` must hold real numbers"):
        enclosed_signs(forms, [["a"]])
