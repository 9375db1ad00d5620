"""Composed forms: the exact ones, and float64 ones whose radii must hold the truth."""

from fractions import Fraction

import numpy as np
import pytest
from flint import fmpz_mat
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.algebra.exact.composition import EnclosedForms
from hardmax.algebra.exact.exact_forms import ExactForms
from hardmax.algebra.forms import AffineForms
from hardmax.errors import (
    ArgumentError,
    DtypeError,
    EmptyInputError,
    NonFiniteError,
    ShapeMismatchError,
)
from tests.reference.exact import (
    compose_by_definition,
    fractions,
    sign,
    signs_by_definition,
    value_of_form,
)
from tests.strategies import SMALL

FINITE = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)
TINY = st.floats(-1e-300, 1e-300)
HUGE = st.sampled_from([1e300, -1e300, 1e-310, 5e-324, 0.0, 1.0])
ELEMENTS = st.sampled_from([SMALL, FINITE, TINY, HUGE, st.floats(-1.0, 1.0)])


@st.composite
def stacks(draw):
    """Draw stored forms and a few layers `(weight, bias)` on top of them."""
    elements = draw(ELEMENTS)
    width, dim, depth = draw(st.integers(1, 3)), draw(st.integers(0, 2)), draw(st.integers(1, 3))
    forms = AffineForms(
        draw(arrays(np.float64, (width, dim), elements=elements)),
        draw(arrays(np.float64, width, elements=elements)),
    )
    layers = []
    for _ in range(depth):
        n_out = draw(st.integers(1, 3))
        layers.append(
            (
                draw(arrays(np.float64, (width, n_out), elements=elements)),
                draw(st.none() | arrays(np.float64, n_out, elements=elements)),
            )
        )
        width = n_out
    return forms, layers


def table_of(forms):
    return fractions(np.column_stack([forms.slopes, forms.offsets]))


def exact_table(forms):
    scale = Fraction(2) ** forms.exponent
    return [[m * scale for m in row] for row in forms.integers.tolist()]


def assert_encloses(enclosed, table):
    """Every true coefficient lies within its radius, compared in fractions."""
    centres = table_of(enclosed)
    radii = np.column_stack([enclosed.slope_radii, enclosed.offset_radii]).tolist()
    assert len(centres) == len(table)
    for centre_row, radius_row, true_row in zip(centres, radii, table, strict=True):
        for centre, radius, true in zip(centre_row, radius_row, true_row, strict=True):
            assert radius == np.inf or abs(true - centre) <= Fraction(radius)


UNDERFLOW_THEN_LARGE = (
    AffineForms([[1e-310]], [1e-320]),
    [(np.array([[1.0 / 3.0]]), None), (np.array([[1e300]]), np.array([1e-30]))],
)
PRODUCTS_BELOW_EVERYTHING = (
    AffineForms([[1e-200], [1e-200]], [1e-200, 0.0]),
    [(np.array([[1e-200], [-1e-200]]), None), (np.array([[1e300]]), None)],
)
OVERFLOW = (AffineForms([[1e300]], [1.0]), [(np.array([[1e300, 1.0]]), np.array([0.0, -1.0]))])


@example(UNDERFLOW_THEN_LARGE)
@example(PRODUCTS_BELOW_EVERYTHING)
@example(OVERFLOW)
@settings(max_examples=300)
@given(stacks())
def test_radii_hold_the_forms_of_the_definition(stack):
    stored, layers = stack
    table, exact, enclosed = (
        table_of(stored),
        ExactForms.stored(stored),
        EnclosedForms.stored(stored),
    )
    for weight, bias in layers:
        constants = [Fraction(0)] * weight.shape[1] if bias is None else fractions(bias)
        table = compose_by_definition(table, fractions(weight), constants)
        exact, enclosed = exact.compose(weight, bias), enclosed.compose(weight, bias)
        assert exact_table(exact) == table
        assert_encloses(enclosed, table)


@settings(max_examples=100)
@given(stacks(), st.data())
def test_radii_survive_residuals_masks_and_choices(stack, data):
    stored, [(weight, bias), *_] = stack
    n_out = weight.shape[1]
    keep = data.draw(arrays(np.bool_, n_out))
    picked = data.draw(st.lists(st.integers(0, n_out - 1), min_size=2, max_size=4))
    plus, minus = np.array(picked), np.array(picked[::-1])

    def run(forms):
        out = forms.compose(weight, bias)
        return [
            out.mask(keep) + out,
            out.pick(plus),
            out.difference(plus, minus),
            (out + out).difference(plus, minus).compose(np.ones((len(plus), 1))),
        ]

    pairs = zip(run(EnclosedForms.stored(stored)), run(ExactForms.stored(stored)), strict=True)
    for enclosed, exact in pairs:
        assert_encloses(enclosed, exact_table(exact))


def network(rng, dim, width, depth):
    layers = [(rng.normal(size=(width, width)) / width**0.5, rng.normal(size=width))]
    return AffineForms(rng.normal(size=(width, dim)), rng.normal(size=width)), layers * depth


def test_radii_are_sharp_enough_to_decide_with():
    """Ten layers of width 20 lose a few digits of sixteen, not ten."""
    stored, layers = network(np.random.default_rng(0), 4, 20, 10)
    enclosed, exact = EnclosedForms.stored(stored), ExactForms.stored(stored)
    for weight, bias in layers:
        keep = np.arange(20) % 3 > 0
        enclosed = enclosed.mask(keep).compose(weight, bias)
        exact = exact.mask(keep).compose(weight, bias)
    assert_encloses(enclosed, exact_table(exact))
    assert 0 < enclosed.slope_radii.max() < 1e-7 * np.abs(enclosed.slopes).max()
    error = np.abs(exact.rounded().slopes - enclosed.slopes)
    assert (error < enclosed.slope_radii).all()


def test_integer_layers_stay_exact():
    rng = np.random.default_rng(1)
    forms = EnclosedForms.stored(AffineForms(rng.integers(-3, 4, (5, 2)), rng.integers(-3, 4, 5)))
    for _ in range(4):
        forms = forms.compose(rng.integers(-3, 4, (5, 5)), rng.integers(-3, 4, 5))
        forms = forms + forms.mask(np.array([True, False, True, True, False]))
    assert not forms.slope_radii.any()
    assert not forms.offset_radii.any()
    assert np.abs(forms.slopes).max() > 100


def test_one_bit_more_than_a_float_holds_is_not_exact():
    forms = EnclosedForms.stored(AffineForms([[2.0**52], [1.0]], [0.0, 0.0]))
    halves = np.array([[1.0], [0.5]])
    assert forms.compose(halves).slope_radii[0, 0] > 0
    assert forms.compose(2 * halves).slope_radii[0, 0] >= 0
    assert_encloses(forms.compose(halves), [[Fraction(2**53 + 1, 2), Fraction(0)]])


def test_inactive_units_and_absent_inputs_are_exactly_zero():
    uncertain = EnclosedForms(
        [[0.1, 0.2], [0.3, 0.0]], [0.1, 0.0], [[1.0, np.inf], [0.0, 0.0]], [1, 0]
    )
    off = uncertain.mask(np.array([False, True]))
    assert off.slopes[0].tolist() == [0.0, 0.0]
    assert (off.slope_radii[0].tolist(), off.offset_radii[0]) == ([0.0, 0.0], 0.0)
    # Coordinate 2 enters neither form that is left, so nothing can be wrong about it.
    composed = off.compose(np.array([[0.7], [0.9]]), np.array([0.1]))
    assert composed.slope_radii[0, 0] > 0
    assert composed.slope_radii[0, 1] == 0.0
    # No product reaches the offset: it is the bias as stored.
    assert (composed.offsets[0], composed.offset_radii[0]) == (0.1, 0.0)


def test_overflow_means_nothing_is_known_and_nothing_else_is_lost():
    forms = EnclosedForms.stored(AffineForms([[1e300, 1.0]], [0.1]))
    composed = forms.compose(np.array([[1e300]]), np.array([1.0]))
    assert (composed.slopes[0, 0], composed.slope_radii[0, 0]) == (0.0, np.inf)
    assert 0 <= composed.slope_radii[0, 1] < 1e290
    again = composed.compose(np.array([[1.0, 0.0]]))
    assert again.slope_radii[0, 0] == np.inf
    twice = EnclosedForms.stored(AffineForms([[1.5e308]], [0.0]))
    assert (twice + twice).slope_radii[0, 0] == np.inf


def test_sums_and_differences_know_when_they_are_exact():
    forms = EnclosedForms.stored(AffineForms([[1.0], [0.75], [2.0**-60]], [1.0, 1.0, 0.0]))
    exact = forms.difference(np.array([0]), np.array([1]))
    assert (exact.slopes[0, 0], exact.slope_radii[0, 0]) == (0.25, 0.0)
    rounded = forms.difference(np.array([0]), np.array([2]))
    assert rounded.slopes[0, 0] == 1.0
    assert 2.0**-60 <= rounded.slope_radii[0, 0] < 1.01 * 2.0**-60


@given(stacks(), st.lists(st.floats(0.0, 1e10), min_size=2, max_size=2))
def test_the_radius_on_a_box_holds_at_its_corners(stack, box):
    stored, layers = stack
    enclosed, exact = EnclosedForms.stored(stored), ExactForms.stored(stored)
    for weight, bias in layers:
        enclosed, exact = enclosed.compose(weight, bias), exact.compose(weight, bias)
    box = np.array(box[: stored.dim])
    radius = enclosed.radius_on(box)
    assert radius.shape == (enclosed.n_forms,)
    for corner in (box, -box, np.concatenate([box[:1], -box[1:]])):
        point = list(map(Fraction, corner.tolist()))
        rows = zip(exact_table(exact), table_of(enclosed), radius.tolist(), strict=True)
        for true, computed, bound in rows:
            gap = value_of_form(true[:-1], true[-1], point)
            gap -= value_of_form(computed[:-1], computed[-1], point)
            assert bound == np.inf or abs(gap) <= Fraction(bound)


def test_the_radius_on_a_box_follows_the_layer_recursion():
    r"""$e_i = \sum_j |w_{ji}| (e_j + \gamma\, mag_j) + \gamma |b_i|$ bounds it up to rounding."""
    stored, layers = network(np.random.default_rng(2), 3, 6, 3)
    forms, box, u = EnclosedForms.stored(stored), np.array([1.0, 2.0, 0.5]), 2.0**-53
    radius = np.zeros(6)
    for weight, bias in layers:
        magnitude = np.abs(forms.slopes) @ box + np.abs(forms.offsets)
        share = 2 * (6 + 4) * u
        radius = np.abs(weight).T @ (radius + share * magnitude) + share * np.abs(bias)
        forms = forms.compose(weight, bias)
        np.testing.assert_allclose(forms.radius_on(box), radius, rtol=1e-10)


def test_exact_forms_have_radius_zero_on_any_box():
    forms = EnclosedForms.stored(AffineForms([[0.1], [0.2]], [0.3, 0.4]))
    assert forms.radius_on(1e300).tolist() == [0.0, 0.0]
    wide = EnclosedForms([[0.1]], [0.0], [[np.inf]], [0.0])
    assert wide.radius_on(1.0).tolist() == wide.radius_on(0.0).tolist() == [np.inf]


def test_sums_of_radii_are_rounded_up():
    one, little = ([[0.0]], [0.0], [[1.0]], [1.0]), ([[0.0]], [0.0], [[2.0**-53]], [2.0**-54])
    total = EnclosedForms(*one) + EnclosedForms(*little)
    assert Fraction(total.slope_radii.item()) >= 1 + Fraction(1, 2**53)
    assert Fraction(total.offset_radii.item()) >= 1 + Fraction(1, 2**54)
    smallest = EnclosedForms([[0.0]], [0.0], [[5e-324]], [5e-324])
    assert (smallest + smallest).slope_radii.item() >= 1e-323


def test_forms_that_coincide_only_after_exact_composition():
    """In float64 (0.1 + 0.2) + 0.3 and 0.1 + (0.2 + 0.3) differ; composed exactly they agree."""
    inputs = AffineForms(np.array([[0.1], [0.2], [0.3]]), np.zeros(3))
    first = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    second = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    join = np.array([[1.0], [1.0]])
    exact = [ExactForms.stored(inputs).compose(w).compose(join) for w in (first, second)]
    both = ExactForms.stacked(exact)
    assert both.coincide(0, 1)
    assert both.first_coinciding().tolist() == [0, 0]
    assert both.difference(np.array([0]), np.array([1])).signs(np.array([[1.0]])).tolist() == [[0]]
    rounded = [np.float64(0.1) + np.float64(0.2) + np.float64(0.3), 0.1 + (0.2 + 0.3)]
    assert rounded[0] != rounded[1]
    for weight, form in zip((first, second), exact, strict=True):
        enclosed = EnclosedForms.stored(inputs).compose(weight).compose(join)
        assert_encloses(enclosed, exact_table(form))


def test_forms_equal_after_rounding_but_not_before():
    inputs = ExactForms.stored(AffineForms([[1.0], [2.0**-80]], [0.0, 0.0]))
    sums = inputs.compose(np.array([[1.0, 1.0], [1.0, 0.0]]))
    np.testing.assert_array_equal(sums.rounded().slopes, [[1.0], [1.0]])
    assert not sums.coincide(0, 1)
    assert sums.first_coinciding().tolist() == [0, 1]


@given(stacks())
def test_exact_forms_of_stored_forms_round_trip(stack):
    stored, _ = stack
    exact = ExactForms.stored(stored)
    assert (exact.n_forms, exact.dim) == (stored.n_forms, stored.dim)
    back = exact.rounded()
    np.testing.assert_array_equal(back.slopes, stored.slopes)
    np.testing.assert_array_equal(back.offsets, stored.offsets)


@given(stacks(), st.lists(FINITE, min_size=2, max_size=2))
def test_signs_of_exact_forms_are_those_of_the_definition(stack, point):
    stored, layers = stack
    point = np.array([point[: stored.dim]])
    exact = ExactForms.stored(stored)
    expected = signs_by_definition(stored.slopes, stored.offsets, point)
    assert exact.signs(point).tolist() == expected
    composed = exact.compose(*layers[0])
    values = [
        value_of_form(row[:-1], row[-1], fractions(point)[0]) for row in exact_table(composed)
    ]
    assert composed.signs(point).tolist() == [[sign(v) for v in values]]


@given(stacks())
def test_composing_twice_is_composing_with_the_product(stack):
    """Associativity, with integer weights so that their product is stored exactly."""
    stored, _ = stack
    rng = np.random.default_rng(stored.n_forms)
    first = rng.integers(-9, 10, (stored.n_forms, 3)).astype(float)
    second = rng.integers(-9, 10, (3, 2)).astype(float)
    assume(stored.dim > 0)
    exact = ExactForms.stored(stored)
    pair = exact.compose(first).compose(second), exact.compose(first @ second)
    both = ExactForms.stacked(pair)
    assert both.coincide(0, 2)
    assert both.coincide(1, 3)


FORMS = AffineForms([[1.0], [2.0]], [0.0, 0.0])
KINDS = [EnclosedForms.stored(FORMS), ExactForms.stored(FORMS)]


@pytest.mark.parametrize("forms", KINDS, ids=["enclosed", "exact"])
def test_bad_arguments_are_refused(forms):
    with pytest.raises(ShapeMismatchError, match="`weight` must have shape"):
        forms.compose(np.ones((3, 1)))
    with pytest.raises(ShapeMismatchError, match="`bias` must have shape"):
        forms.compose(np.ones((2, 1)), np.ones(2))
    with pytest.raises(EmptyInputError, match="`weight` must have n_out >= 1"):
        forms.compose(np.ones((2, 0)))
    with pytest.raises(NonFiniteError, match="`weight` must not hold NaN"):
        forms.compose(np.full((2, 1), np.nan))
    with pytest.raises(ArgumentError, match="`indices` must hold indices from 0 to 1"):
        forms.pick(np.array([2]))
    with pytest.raises(EmptyInputError, match="`indices`"):
        forms.pick(np.array([], dtype=np.int64))
    with pytest.raises(DtypeError, match="`keep` must hold truth values"):
        forms.mask(np.array([1, 0]))
    with pytest.raises(ShapeMismatchError, match="`keep` must have shape"):
        forms.mask(np.array([True]))
    with pytest.raises(ShapeMismatchError, match="`minus` must name 1 forms"):
        forms.difference(np.array([0]), np.array([0, 1]))
    with pytest.raises(ShapeMismatchError, match="`other` must have 2 forms"):
        forms + forms.pick(np.array([0]))
    with pytest.raises(TypeError):
        forms + 1.0


def test_bad_enclosures_are_refused():
    with pytest.raises(ArgumentError, match="`slope_radii` must be at least 0; got -1"):
        EnclosedForms([[1.0]], [0.0], [[-1.0]], [0.0])
    with pytest.raises(NonFiniteError, match="`offset_radii` must not hold NaN"):
        EnclosedForms([[1.0]], [0.0], [[0.0]], [np.nan])
    with pytest.raises(NonFiniteError, match="`slopes` must not hold inf"):
        EnclosedForms([[np.inf]], [0.0], [[0.0]], [0.0])
    with pytest.raises(ShapeMismatchError, match="`slope_radii` must have shape"):
        EnclosedForms([[1.0]], [0.0], [0.0], [0.0])
    with pytest.raises(ShapeMismatchError, match="`bound` must be one number"):
        KINDS[0].radius_on(np.ones(3))
    with pytest.raises(ArgumentError, match="`bound` must be at least 0"):
        KINDS[0].radius_on(-1.0)


def test_bad_exact_forms_are_refused():
    with pytest.raises(DtypeError, match="`matrix` must be a flint fmpz_mat"):
        ExactForms(np.eye(2), 0)
    with pytest.raises(DtypeError, match="`exponent` must be an integer"):
        ExactForms(fmpz_mat([[1, 2]]), 0.5)
    with pytest.raises(ShapeMismatchError, match="`matrix` must have shape"):
        ExactForms(fmpz_mat(0, 2, []), 0)
    with pytest.raises(EmptyInputError, match="`parts` must hold at least one"):
        ExactForms.stacked([])
    with pytest.raises(ShapeMismatchError, match="`parts` must live in one dimension"):
        ExactForms.stacked([KINDS[1], ExactForms.stored(AffineForms([[1.0, 2.0]], [0.0]))])
    with pytest.raises(ShapeMismatchError, match="`points` must have shape"):
        KINDS[1].signs(np.ones((1, 2)))
    with pytest.raises(NonFiniteError, match="inf"):
        ExactForms(fmpz_mat([[1, 2]]), 2000).rounded()
