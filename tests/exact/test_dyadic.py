"""Float64 arrays as scaled integers, rationals and flint matrices, and back."""

from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq, fmpz
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from hardmax.errors import DtypeError, NonFiniteError, ShapeMismatchError
from hardmax.exact.dyadic import (
    ScaledIntegers,
    fraction,
    integer_matrix,
    lowest_bits,
    matrix_integers,
    nearest_floats,
    rationals,
    round_scaled_integers,
    scaled_integers,
    scaled_rows,
)
from tests.strategies import SMALL

FINITE = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)
LARGEST = float(np.finfo(np.float64).max)
ANY_ARRAY = arrays(np.float64, array_shapes(min_dims=0, max_dims=3, min_side=0), elements=FINITE)
MIXED = np.array([5e-324, -1e300, 0.0, -0.0, 2.0**-1022, 1.0, 1e-300, LARGEST, 3.0])


def exact_values(scaled):
    return [m * Fraction(2) ** scaled.exponent for m in scaled.integers.ravel().tolist()]


@example(MIXED)
@example(np.array(-0.75))
@example(np.zeros((0, 3)))
@example(np.array([5e-324]))
@given(ANY_ARRAY)
def test_scaled_integers_are_the_stored_numbers(array):
    scaled = scaled_integers(array)
    assert scaled.integers.shape == array.shape
    assert exact_values(scaled) == [Fraction(x) for x in array.ravel().tolist()]


@given(arrays(np.float64, 4, elements=st.one_of(SMALL, FINITE)))
def test_the_common_power_of_two_is_the_largest(array):
    scaled = scaled_integers(array)
    if array.any():
        assert any(m % 2 for m in scaled.integers.tolist())
    else:
        assert scaled.exponent == 0


def test_every_power_of_two_is_one_times_itself():
    for power in range(-1074, 1024):
        scaled = scaled_integers(np.array([np.ldexp(1.0, power)]))
        assert (scaled.integers.tolist(), scaled.exponent) == ([1], power)


def test_the_position_of_the_lowest_bit_is_exact_for_every_bit_of_the_mantissa():
    bits = np.arange(53)
    values = np.ldexp(2.0**52 + np.where(bits < 52, 2.0**bits, 0.0), -1000)
    assert lowest_bits(values).tolist() == (bits - 1000).tolist()


def test_zero_lies_on_every_grid():
    assert lowest_bits(np.array([0.0, -0.0])).tolist() == [np.iinfo(np.int64).max] * 2


@example(MIXED)
@example(np.array(5e-324))
@example(np.zeros((2, 0)))
@given(ANY_ARRAY)
def test_every_way_out_and_back_is_the_identity(array):
    scaled = scaled_integers(array)
    for back in (
        round_scaled_integers(scaled)[0],
        nearest_floats(rationals(array)),
        nearest_floats(scaled.integers * Fraction(2) ** scaled.exponent),
    ):
        assert back.shape == array.shape
        assert back.dtype == np.float64
        np.testing.assert_array_equal(back, array)


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=2, min_side=0), elements=FINITE))
def test_flint_matrices_hold_the_same_integers(array):
    matrix, exponent = integer_matrix(array)
    assert (matrix.nrows(), matrix.ncols()) == array.shape
    back = matrix_integers(matrix, exponent)
    assert back.integers.shape == array.shape
    np.testing.assert_array_equal(round_scaled_integers(back)[0], array)


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=2, min_side=0), elements=FINITE))
def test_rows_scaled_on_their_own_are_the_stored_numbers(array):
    integers, exponents = scaled_rows(array)
    assert integers.shape == array.shape
    assert exponents.shape == array.shape[:1]
    for row, exponent, stored in zip(integers, exponents.tolist(), array, strict=True):
        together = scaled_integers(stored)
        assert (row.tolist(), exponent) == (together.integers.tolist(), together.exponent)


def test_moderate_integers_stay_what_they_are():
    scaled = scaled_integers(np.array([[1.0, -2.0], [3.0, 0.0]]))
    assert (scaled.integers.tolist(), scaled.exponent) == ([[1, -2], [3, 0]], 0)
    assert all(type(m) is int for m in scaled.integers.ravel())


@pytest.mark.parametrize(
    ("exact", "rounded"),
    [
        (Fraction(1, 3), 1 / 3),
        (2**53 + 1, 2.0**53),
        (2**53 + 3, 2.0**53 + 4.0),
        (Fraction(3, 2) * Fraction(2) ** -1074, 2.0**-1073),
        (Fraction(1, 2) * Fraction(2) ** -1074, 0.0),
        (Fraction(501, 1000) * Fraction(2) ** -1074, 5e-324),
        (2**1024 - 2**970 - 1, LARGEST),
        (2**1024 - 2**970, np.inf),
        (-(2**1024), -np.inf),
        (Fraction(-(2**3000), 3), -np.inf),
        (fmpz(7), 7.0),
        (fmpq(1, 3), 1 / 3),
        (0.1, 0.1),
    ],
)
def test_rounding_back_is_to_nearest_with_ties_to_even(exact, rounded):
    assert nearest_floats(np.array([exact], dtype=object)).tolist() == [rounded]


@pytest.mark.parametrize(
    ("integer", "exponent", "rounded"),
    [
        (2**53 + 1, 0, 2.0**53),
        (3, -1075, 2.0**-1073),
        (1, -1075, 0.0),
        (2**54 - 1, 970, np.inf),
        (-(2**54) + 2, 970, -LARGEST),
        (1, 1024, np.inf),
        (0, 5000, 0.0),
    ],
)
def test_scaled_integers_round_to_nearest_too(integer, exponent, rounded):
    scaled = ScaledIntegers(np.array([integer], dtype=object), exponent)
    assert round_scaled_integers(scaled)[0].tolist() == [rounded]


def test_flint_rationals_become_fractions():
    assert fraction(fmpq(6, 4)) == Fraction(3, 2)
    assert fraction(fmpz(5)) == fraction(5) == Fraction(5)


@pytest.mark.parametrize("function", [scaled_integers, rationals, lowest_bits])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(function, bad):
    with pytest.raises(NonFiniteError, match="`array`"):
        function(np.array([1.0, bad]))


@pytest.mark.parametrize("function", [integer_matrix, scaled_rows])
def test_a_matrix_has_two_axes(function):
    with pytest.raises(ShapeMismatchError, match="`array` must have shape"):
        function(np.zeros(3))


def test_strings_and_objects_are_refused():
    for bad in (["1"], np.array([1, None]), np.array([2**70], dtype=object)):
        with pytest.raises(DtypeError, match="`array` must hold real numbers"):
            scaled_integers(bad)
