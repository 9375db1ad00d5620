"""The three lemmas of float64 arithmetic, tried on numbers chosen to break them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.exact.rounding import (
    UNDERFLOW_ALLOWANCE,
    UNIT_ROUNDOFF,
    dot_products_are_exact,
    rounding_factor,
)
from tests.reference.exact import fractions, value_of_form
from tests.strategies import SMALL
from tests.sweeps import examples

FINITE = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)
TINY = st.floats(-1e-150, 1e-150)
ELEMENTS = st.sampled_from([SMALL, FINITE, TINY, st.floats(-1.0, 1.0)])


@st.composite
def dot_products(draw):
    elements, n = draw(ELEMENTS), draw(st.integers(0, 12))
    vector = arrays(np.float64, n, elements=elements)
    return draw(vector), draw(vector), draw(elements)


CANCELLING = np.array([1e16, 1.0, -1e16]), np.ones(3), 0.0
DENORMAL = np.full(9, 1.5e-162), np.full(9, 1.5e-162), 0.0


@example(CANCELLING)
@example(DENORMAL)
@examples(120)
@given(dot_products())
def test_the_computed_bound_holds_in_any_order_with_room_to_spare(problem):
    a, x, c = problem
    n = len(a)
    exact = value_of_form(fractions(a), Fraction(c), fractions(x))
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.abs(a) @ np.abs(x) + abs(c)
        bound = rounding_factor(n) * size + UNDERFLOW_ALLOWANCE
        orders = [a @ x + c, c + (a * x)[::-1].sum(), np.cumsum([c, *(a * x)])[-1]]
    for value in orders:
        if np.isfinite(value) and np.isfinite(bound):
            spare = 2 * Fraction(UNIT_ROUNDOFF) * (abs(Fraction(value)) + Fraction(bound))
            assert abs(Fraction(value) - exact) + spare <= Fraction(bound)


@examples(100)
@given(dot_products())
def test_where_a_grid_proves_it_nothing_is_rounded(problem):
    a, x, c = problem
    if dot_products_are_exact(a[np.newaxis], x[np.newaxis], np.array([c])):
        exact = value_of_form(fractions(a), Fraction(c), fractions(x))
        for value in (a @ x + c, c + (a * x)[::-1].sum(), np.cumsum([c, *(a * x)])[-1]):
            assert Fraction(value) == exact


@pytest.mark.parametrize(
    ("a", "x", "c", "exact"),
    [
        ([3.0, -7.0], [2.0, 5.0], 1.0, True),
        ([0.375], [0.625], 2.0**-6, True),
        ([2.0**26], [2.0**26], 0.0, True),
        ([2.0**26], [2.0**26], 1.0, True),
        ([2.0**27], [2.0**26], 1.0, False),
        ([2.0**800], [2.0**900], 0.0, False),
        ([2.0**-600], [2.0**-600], 0.0, False),
        ([0.1], [0.1], 0.0, False),
        ([0.1], [0.0], 0.0, True),
        ([0.0], [1e308], 0.0, True),
        ([], [], 0.1, True),
    ],
)
def test_the_grid_test_knows_its_limits(a, x, c, exact):
    answer = dot_products_are_exact(np.array([a]), np.array([x]), np.array([c]))
    assert answer is exact


def test_the_grid_test_reads_every_row():
    """The first rows are only a probe."""
    left, right = np.ones((40, 1)), np.ones((30, 1))
    assert dot_products_are_exact(left, right, np.zeros(30))
    for array in (left, right):
        array[-1] = 0.1
        assert not dot_products_are_exact(left, right, np.zeros(30))
        array[-1] = 1.0


def test_what_is_added_needs_room_too():
    one = np.ones((1, 1))
    assert dot_products_are_exact(one, one, np.array([2.0**52 - 1.0]))
    assert not dot_products_are_exact(one, one, np.array([2.0**53]))
    assert not dot_products_are_exact(one, one, np.array([2.0**-53]))
