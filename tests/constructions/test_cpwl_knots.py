"""Functions of one variable from knots."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hardmax.constructions.compilers.functions.knots import Knots, maxout_from_knots
from hardmax.errors import DiscontinuityError, HardmaxError, ShapeMismatchError
from hardmax.geometry.domains import Box
from tests.reference.piecewise_linear import knots_value, within
from tests.strategies import SMALL

LINE = Box([-8], [8])
TAME = st.floats(-8, 8, allow_subnormal=False)


@st.composite
def knots(draw):
    elements = st.one_of(SMALL, TAME)
    positions = draw(st.lists(elements, min_size=1, max_size=7, unique=True))
    n = len(positions)
    return (
        sorted(positions),
        draw(st.lists(elements, min_size=n, max_size=n)),
        draw(elements),
        draw(elements),
    )


def exact_slopes(positions, values, left, right):
    ends = pairwise(zip(map(Fraction, positions), map(Fraction, values), strict=True))
    return [Fraction(left), *((b - a) / (q - p) for (p, a), (q, b) in ends), Fraction(right)]


@given(knots(), st.lists(TAME, min_size=1, max_size=5))
@example(([0.0], [1.0], -1.0, 1.0), [0.0])
@example(([0.0, 1.0], [0.0, 1.0], 1.0, 1.0), [3.0])
@example(([0.0, 5e-324], [0.0, 5e-324], 0.0, 0.0), [5e-324])
def test_the_network_is_the_function_up_to_the_stated_rounding(data, points):
    positions, values, left, right = data
    assume(max(map(abs, exact_slopes(*data))) < 1e300)
    form = maxout_from_knots(Knots(positions, values, left, right), LINE)
    for x in [*positions, *points, -8.0, 8.0]:
        wanted = knots_value(positions, values, left, right, x)
        assert within(form.network, form.rounding, [x], [wanted])


@given(knots())
def test_each_jump_of_the_slope_costs_one_form(data):
    positions, values, left, right = data
    slopes = exact_slopes(*data)
    assume(max(map(abs, slopes)) < 1e300)
    jumps = [b - a for a, b in pairwise(slopes)]
    up, down = sum(j > 0 for j in jumps), sum(j < 0 for j in jumps)
    network = maxout_from_knots(Knots(positions, values, left, right), LINE).network
    expected = [up + 1] if not down else [down + 1] if not up else [up + 1, down + 1]
    assert network.ranks == [expected]


def test_several_outputs_have_units_of_their_own():
    rng = np.random.default_rng(0)
    positions, values = np.sort(rng.normal(size=9)), rng.normal(size=(9, 3))
    slopes = np.array([0.5, -1.0, 0.0])
    form = maxout_from_knots(Knots(positions, values, slopes, 0.25), LINE)
    assert form.network.dim_out == 3
    for x in rng.uniform(-4, 4, 20):
        wanted = [knots_value(positions, values[:, c], slopes[c], 0.25, x) for c in range(3)]
        assert within(form.network, form.rounding, [x], wanted)


def test_dyadic_knots_are_not_rounded():
    form = maxout_from_knots(Knots([0, 1, 3, 4], [0, 2, -1.5, 1]), LINE)
    assert form.rounding.tolist() == [0.0]


def test_knots_may_come_in_any_order_and_twice():
    form = maxout_from_knots(Knots([1, -1, 0, 1], [0, 0, 1, 0], 0.0, 0.0), LINE)
    x = np.linspace(-2, 2, 17)
    np.testing.assert_array_equal(
        form.network(x[:, None]).ravel(), np.interp(x, [-1, 0, 1], [0, 1, 0])
    )


def test_end_segments_go_on_unless_slopes_are_given():
    form = maxout_from_knots(Knots([0, 1, 2], [0, 1, 3]), LINE)
    assert form.network([[-2.0], [4.0]]).ravel().tolist() == [-2.0, 7.0]
    single = maxout_from_knots(Knots([1.0], [3.0]), LINE)
    assert single.network([[-2.0], [4.0]]).ravel().tolist() == [3.0, 3.0]


def test_a_jump_is_refused_with_its_place_and_both_values():
    with pytest.raises(
        DiscontinuityError, match=r"at position 0.5 the function jumps between 1.0 and 1.25"
    ):
        Knots([0.0, 0.5, 0.5, 1.0], [0.0, 1.0, 1.25, 2.0])
    with pytest.raises(DiscontinuityError, match=r"jumps between \[1.0, 2.0\] and \[1.0, 3.0\]"):
        Knots([0.5, 0.5], [[1.0, 2.0], [1.0, 3.0]])


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (([], []), "positions"),
        (([0.0, np.nan], [0.0, 0.0]), "positions"),
        (([0.0, 1.0], [0.0]), "values"),
        (([0.0, 1.0], ["a", "b"]), "values"),
        (([0.0, 1.0], [0.0, np.inf]), "values"),
        (([0.0], [1.0], [1.0, 2.0]), "left_slope"),
        (([0.0], [1.0], 0.0, np.nan), "right_slope"),
    ],
)
def test_bad_knots_are_refused_by_name(arguments, word):
    with pytest.raises(HardmaxError, match=f"`{word}`"):
        Knots(*arguments)


def test_the_box_must_be_a_bounded_box_of_one_dimension():
    from hardmax.geometry.domains import WholeSpace

    hat = Knots([0.0], [1.0])
    with pytest.raises(ShapeMismatchError, match="`box`"):
        maxout_from_knots(hat, Box([0, 0], [1, 1]))
    with pytest.raises(HardmaxError, match="`box` must be a bounded Box"):
        maxout_from_knots(hat, WholeSpace(1))
