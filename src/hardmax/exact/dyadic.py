r"""Exact conversion between float64 arrays and integers times a power of two.

Every finite float64 is a dyadic rational $m \cdot 2^e$, and sums and products of dyadic rationals
are dyadic. Exact computations can therefore use integers with one common exponent, which is several
times faster than using fractions. All other exact modules build on this one.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq, fmpz, fmpz_mat

from hardmax._ground.arguments import floats, floats_any_shape
from hardmax._ground.display import html_card, short_repr
from hardmax.typing import FloatArray, IntArray, WideArray

_MANTISSA_BITS = 53
_INT64_BITS = 62
_LOWEST_EXPONENT = -1074
"""Subnormal numbers are multiples of two to this power."""


@dataclass(frozen=True, eq=False)
class ScaledIntegers:
    r"""An array $m \cdot 2^e$ with integers $m$ and one common exponent $e$.

    Attributes:
        integers: The integers $m$, as Python integers in an object array of any shape.
        exponent: The common exponent $e$.

    Examples:
        >>> ScaledIntegers(np.array([3, -8], dtype=object), -2)
        ScaledIntegers(integers=[3, -8], exponent=-2)
    """

    integers: WideArray
    exponent: int

    __repr__ = short_repr
    _repr_html_ = html_card


def scaled_integers(array: FloatArray) -> ScaledIntegers:
    """Write a finite float64 array as integers times the largest common power of two.

    The exponent is 0 if every entry is zero. Both zeros of float64 become the integer 0.

    Raises:
        NonFiniteError: If an entry is NaN or infinite.

    Examples:
        >>> scaled = scaled_integers(np.array([0.75, -2.0, 0.0]))
        >>> scaled.integers.tolist(), scaled.exponent
        ([3, -8, 0], -2)
        >>> scaled_integers(np.array([5e-324])).exponent
        -1074
    """
    odd, exponent = _odd_parts(floats_any_shape("array", array))
    nonzero = odd != 0
    common = int(exponent[nonzero].min()) if nonzero.any() else 0
    return ScaledIntegers(_shift_left(odd, np.where(nonzero, exponent - common, 0)), common)


def scaled_rows(array: FloatArray) -> tuple[WideArray, IntArray]:
    """Write each row of a 2-D array as integers times the largest power of two for that row.

    This keeps the integers short even if the rows have very different scales. It is useful for rows
    that matter only up to a positive factor, such as points in homogeneous coordinates.

    Returns:
        The integers, an object array of the same shape, and the exponents, shape `(n_rows,)`.

    Examples:
        >>> integers, exponents = scaled_rows(np.array([[1e-300, 2e-300], [3.0, 0.5]]))
        >>> integers[1].tolist(), exponents.tolist()
        ([6, 1], [-1049, -1])
    """
    array = floats("array", array, ("n_rows", "n_columns"), nonempty=())
    odd, exponent = _odd_parts(array)
    nonzero = odd != 0
    lowest = np.where(nonzero, exponent, np.iinfo(np.int64).max).min(
        axis=1, initial=np.iinfo(np.int64).max
    )
    common = np.where(nonzero.any(axis=1), lowest, 0)
    return _shift_left(odd, np.where(nonzero, exponent - common[:, np.newaxis], 0)), common


def homogeneous_points(points: FloatArray) -> WideArray:
    r"""Write each point $x$ as integers that are a positive multiple of $(x, 1)$.

    A positive factor common to all coordinates of a point changes neither the sign of a form nor
    the order of two forms at that point.

    Examples:
        >>> homogeneous_points(np.array([[0.5, -3.0], [8.0, 4.0]])).tolist()
        [[1, -6, 2], [8, 4, 1]]
    """
    integers, _ = scaled_rows(np.column_stack([points, np.ones(len(points))]))
    return integers


def lowest_bits(array: FloatArray) -> IntArray:
    r"""Return for each entry $x$ the largest $e$ with $x \in 2^e \mathbb{Z}$.

    For zero, which is in every $2^e \mathbb{Z}$, the result is the largest int64.

    Examples:
        >>> lowest_bits(np.array([1.0, 0.75, 96.0, -5e-324])).tolist()
        [0, -2, 5, -1074]
    """
    odd, exponent = _odd_parts(floats_any_shape("array", array))
    return np.where(odd != 0, exponent, np.iinfo(np.int64).max)


def rationals(array: FloatArray) -> WideArray:
    """Convert an array to an object array of `fractions.Fraction` with the same values and shape.

    Examples:
        >>> rationals(np.array([0.5, -0.0])).tolist()
        [Fraction(1, 2), Fraction(0, 1)]
    """
    array = floats_any_shape("array", array)
    return np.asarray(np.frompyfunc(lambda x: Fraction(float(x)), 1, 1)(array), dtype=object)


def nearest_quotient(numerator: int, denominator: int) -> float:
    """Return the float64 nearest to a quotient of integers; infinite beyond the float64 range.

    The division of Python integers is correctly rounded: ties go to even, and subnormal results are
    rounded only once. Callers must check for infinity if they cannot handle it.

    Args:
        numerator: Any integer.
        denominator: A positive integer.

    Examples:
        >>> nearest_quotient(1, 3), nearest_quotient(-(10**400), 3)
        (0.3333333333333333, -inf)
    """
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def nearest_float(value: Any) -> float:
    """Round an integer or rational of Python or flint in the same way as `nearest_quotient`.

    Examples:
        >>> nearest_float(Fraction(1, 3)), nearest_float(2**60 + 1)
        (0.3333333333333333, 1.152921504606847e+18)
    """
    if isinstance(value, float | np.floating):
        return float(value)
    if isinstance(value, int | np.integer):
        return nearest_quotient(int(value), 1)
    exact = value if isinstance(value, Fraction) else fraction(value)
    return nearest_quotient(exact.numerator, exact.denominator)


def nearest_floats(exact: WideArray) -> FloatArray:
    """Round each entry of an object array of integers or rationals with `nearest_float`.

    Examples:
        >>> nearest_floats(np.array([Fraction(1, 3), 2**60 + 1], dtype=object)).tolist()
        [0.3333333333333333, 1.152921504606847e+18]
    """
    exact = np.asarray(exact, dtype=object)
    return np.asarray(np.frompyfunc(nearest_float, 1, 1)(exact), dtype=np.float64)


def nearest_quotients(numerators: WideArray, denominators: WideArray | int) -> FloatArray:
    """Apply `nearest_quotient` to arrays of integers that broadcast together.

    Examples:
        >>> nearest_quotients(np.array([1, -(10**400)], dtype=object), 3).tolist()
        [0.3333333333333333, -inf]
    """
    quotients = np.frompyfunc(nearest_quotient, 2, 1)(numerators, denominators)
    return np.asarray(quotients, dtype=np.float64)


def round_scaled_integers(scaled: ScaledIntegers) -> tuple[FloatArray, bool]:
    r"""Round every $m \cdot 2^e$ to float64; also return whether no entry was rounded.

    Examples:
        >>> scaled = ScaledIntegers(np.array([3, -8], dtype=object), -2)
        >>> values, exact = round_scaled_integers(scaled)
        >>> values.tolist(), exact
        ([0.75, -2.0], True)
        >>> round_scaled_integers(ScaledIntegers(np.array([2**60 + 1], dtype=object), 0))[1]
        False
    """
    integers, exponent = scaled.integers, scaled.exponent
    if exponent >= _LOWEST_EXPONENT and _bits(integers) <= _INT64_BITS:
        # The conversion rounds once. A rounded result is a normal number, so `ldexp` is exact.
        narrow = integers.astype(np.int64)
        mantissa = narrow.astype(np.float64)
        with np.errstate(over="ignore"):
            values = np.ldexp(mantissa, min(exponent, 4096))
        exact = bool((mantissa.astype(np.int64) == narrow).all() and np.isfinite(values).all())
        return np.asarray(values), exact
    up, down = max(exponent, 0), max(-exponent, 0)
    numerators = [int(entry) << up for entry in integers.flat]
    rounded = [nearest_quotient(numerator, 1 << down) for numerator in numerators]
    exact = all(map(math.isfinite, rounded)) and all(
        top << down == numerator * bottom
        for numerator, (top, bottom) in zip(
            numerators, map(float.as_integer_ratio, rounded), strict=True
        )
    )
    return np.array(rounded, dtype=np.float64).reshape(integers.shape), exact


def integer_matrix(array: FloatArray) -> tuple[fmpz_mat, int]:
    """Write a 2-D float64 array as a flint integer matrix times a power of two.

    Returns:
        The matrix and the exponent of the power of two.

    Examples:
        >>> integer_matrix(np.array([[0.5, 1.0]]))
        ([1, 2], -1)
    """
    array = floats("array", array, ("n_rows", "n_columns"), nonempty=())
    scaled = scaled_integers(array)
    return fmpz_mat(*array.shape, scaled.integers.ravel().tolist()), scaled.exponent


def matrix_integers(matrix: fmpz_mat, exponent: int) -> ScaledIntegers:
    """Convert a flint integer matrix to an object array of Python integers."""
    entries = np.empty(matrix.nrows() * matrix.ncols(), dtype=object)
    entries[:] = [int(entry) for entry in matrix.entries()]
    return ScaledIntegers(entries.reshape(matrix.nrows(), matrix.ncols()), exponent)


def fraction(value: fmpq | fmpz | int) -> Fraction:
    """Convert a flint rational (or an integer) to a `fractions.Fraction`."""
    if isinstance(value, fmpq):
        return Fraction(int(value.p), int(value.q))
    return Fraction(int(value))


def round_below(value: Fraction) -> float:
    """Round a fraction down to a float64; larger fractions give the largest float64."""
    nearest = nearest_float(value)
    return nearest if nearest <= value else math.nextafter(nearest, -math.inf)


def root_below(square: Fraction) -> float:
    """Round the square root of a nonnegative number down to a float64.

    Examples:
        >>> root_below(Fraction(1, 4)), root_below(Fraction(10) ** 800)
        (0.5, 1.7976931348623157e+308)
        >>> Fraction(root_below(Fraction(2))) ** 2 < 2
        True
    """
    if not square:
        return 0.0
    # Use enough bits for the integer root to be more precise than a float64.
    shift = 2 * max(0, 64 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2)
    root = math.isqrt((square.numerator << shift) // square.denominator)
    return round_below(Fraction(root, 1 << shift // 2))


def float_parts(value: Fraction) -> list[float] | None:
    """Write a dyadic rational as a sum of floats, largest first.

    The result is None if `value` is not a finite sum of floats.

    Examples:
        >>> float_parts(Fraction(1) + Fraction(1, 2**60)), float_parts(Fraction(1, 3))
        ([1.0, 8.673617379884035e-19], None)
    """
    if value.denominator & (value.denominator - 1):
        return None
    parts: list[float] = []
    rest = value
    while rest:
        try:
            part = float(rest)
        except OverflowError:
            return None
        if part == 0.0:
            return None
        parts.append(part)
        rest -= Fraction(part)
    return parts


def _odd_parts(array: FloatArray) -> tuple[IntArray, IntArray]:
    """Write each nonzero entry as an odd integer times a power of two; zero has exponent 0."""
    significand, exponent = np.frexp(array)
    mantissa = np.asarray(np.ldexp(significand, _MANTISSA_BITS)).astype(np.int64)
    # frexp reads the position of a single bit exactly; log2 need not.
    lowest_bit = np.maximum(mantissa & -mantissa, 1).astype(np.float64)
    shift = np.asarray(np.frexp(lowest_bit)[1]).astype(np.int64) - 1
    odd = mantissa >> shift
    exponents = np.asarray(exponent).astype(np.int64) - _MANTISSA_BITS + shift
    return odd, np.where(odd != 0, exponents, 0)


def _shift_left(odd: IntArray, shift: IntArray) -> WideArray:
    """Return `odd << shift` as Python integers, computed in int64 if nothing can overflow."""
    # The odd part of a float64 is a float64, so this is exact; it may be infinite.
    with np.errstate(over="ignore"):
        largest = np.ldexp(np.abs(odd).astype(np.float64), shift).max(initial=0.0)
    if largest < 2.0**_INT64_BITS:
        return np.asarray((odd << shift).astype(object), dtype=object)
    return np.asarray(odd.astype(object) << shift.astype(object), dtype=object)


def _bits(integers: WideArray) -> int:
    """Return the bit length of the largest absolute entry."""
    if not integers.size:
        return 0
    return max(int(integers.max()).bit_length(), int(integers.min()).bit_length())
