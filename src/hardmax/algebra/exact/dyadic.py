"""Float64 arrays as what they are: integers times a power of two.

Every finite float64 is a dyadic rational, and sums and products of dyadics are dyadic. An exact
computation therefore runs on integers with one common exponent, which is several times faster
than on fractions. This is the bottom of the exact stack: `forms` composes on top of it, `signs`
decides on top of that.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq, fmpz, fmpz_mat

from hardmax.typing import FloatArray, WideArray

_MANTISSA_BITS = 53


@dataclass(frozen=True, eq=False)
class ScaledIntegers:
    r"""The array $m \cdot 2^e$ with integer entries and one exponent.

    Attributes:
        integers: The $m$: Python integers in an object array of any shape.
        exponent: The $e$, the same for every entry.
    """

    integers: WideArray
    exponent: int


def scaled_integers(array: FloatArray) -> ScaledIntegers:
    """Write a finite float64 array as integers times the largest common power of two.

    Examples:
        >>> scaled = scaled_integers(np.array([0.75, -2.0, 0.0]))
        >>> scaled.integers.tolist(), scaled.exponent
        ([3, -8, 0], -2)
    """
    fraction, exponent = np.frexp(array)
    mantissa = np.ldexp(fraction, _MANTISSA_BITS).astype(np.int64)
    exponent = exponent.astype(np.int64) - _MANTISSA_BITS
    # Strip trailing zeros so that small integers stay small integers.
    lowest_bit = np.maximum(mantissa & -mantissa, 1)
    shift = np.log2(lowest_bit.astype(np.float64)).astype(np.int64)
    mantissa, exponent = mantissa >> shift, exponent + shift
    nonzero = mantissa != 0
    common = int(exponent[nonzero].min()) if nonzero.any() else 0
    extra = np.where(nonzero, exponent - common, 0)
    if extra.size and int(extra.max()) <= 62 - _MANTISSA_BITS:
        integers = (mantissa << extra).astype(object)
    else:
        integers = np.frompyfunc(lambda m, s: int(m) << int(s), 2, 1)(mantissa, extra)
    return ScaledIntegers(np.asarray(integers, dtype=object), common)


def rationals(array: FloatArray) -> WideArray:
    """Return the same numbers as `fractions.Fraction`, in an object array."""
    return np.asarray(np.frompyfunc(lambda x: Fraction(float(x)), 1, 1)(array), dtype=object)


def nearest_floats(exact: WideArray) -> FloatArray:
    """Round an object array of integers or rationals to the nearest float64 each.

    Examples:
        >>> nearest_floats(np.array([Fraction(1, 3), 2**60 + 1], dtype=object)).tolist()
        [0.3333333333333333, 1.152921504606847e+18]
    """
    return np.asarray(np.frompyfunc(_nearest_float, 1, 1)(exact), dtype=np.float64)


def integer_matrix(array: FloatArray) -> tuple[fmpz_mat, int]:
    """Write a 2-D float64 array as a flint integer matrix and the exponent of its scale."""
    scaled = scaled_integers(array)
    return fmpz_mat(scaled.integers.tolist()), scaled.exponent


def fraction(value: fmpq | fmpz | int) -> Fraction:
    """Turn a flint rational (or an integer) into a `fractions.Fraction`."""
    if isinstance(value, fmpq):
        return Fraction(int(value.p), int(value.q))
    return Fraction(int(value))


def _nearest_float(value: Any) -> float:
    rounded = value if isinstance(value, int | Fraction) else fraction(value)
    try:
        return float(rounded)
    except OverflowError:
        return float("inf") if rounded > 0 else float("-inf")
