r"""The coefficients of tropical polynomials, exactly: rows $(a_j, c_j)$ of integers times $2^e$.

Float64 numbers are dyadic rationals, and the operations of tropical algebra (sums, maxima,
products with float64 weights) never leave the dyadics. A polynomial therefore keeps its terms as
one integer matrix `(n_terms, dim + 1)` with a common exponent, the offset in the last column.
Nothing is rounded until somebody asks for floats. `polynomials` builds on this file; below it is
`algebra.exact.dyadic`.
"""

from collections.abc import Sequence

import numpy as np

from hardmax.exact.dyadic import ScaledIntegers, scaled_integers
from hardmax.typing import AnyArray, FloatArray, IntArray, WideArray

_LOWEST_EXPONENT = -1074  # The spacing of the subnormals is 2 ** -1074.
_EXACT_BITS = 53
_INT64_BITS = 62


def reduced(integers: WideArray, exponent: int) -> ScaledIntegers:
    """Move every common factor of two into the exponent, which makes the pair unique.

    Examples:
        >>> shorter = reduced(np.array([[4, -12]], dtype=object), 0)
        >>> shorter.integers.tolist(), shorter.exponent
        ([[1, -3]], 2)
    """
    # Python's `|` and `&` see negative integers in two's complement, which keeps the lowest bit.
    union = int(np.bitwise_or.reduce(integers, axis=None)) if integers.size else 0
    if union == 0:
        return ScaledIntegers(integers, 0)
    shift = (union & -union).bit_length() - 1
    return ScaledIntegers(integers >> shift if shift else integers, exponent + shift)


def aligned(parts: Sequence[ScaledIntegers]) -> tuple[list[WideArray], int]:
    """Write several arrays with one common exponent, the smallest of theirs."""
    exponent = min(part.exponent for part in parts)
    return [part.integers << (part.exponent - exponent) for part in parts], exponent


def nearest_of_scaled(scaled: ScaledIntegers) -> tuple[FloatArray, bool]:
    """Round to the nearest float64 each, and say whether all of them were exact.

    A value beyond the range of float64 becomes an infinity of its sign.

    Examples:
        >>> values, exact = nearest_of_scaled(ScaledIntegers(np.array([3, -8], dtype=object), -2))
        >>> values.tolist(), exact
        ([0.75, -2.0], True)
        >>> nearest_of_scaled(ScaledIntegers(np.array([2**60 + 1], dtype=object), 0))[1]
        False
    """
    integers, exponent = scaled.integers, scaled.exponent
    if exponent >= _LOWEST_EXPONENT and _bits(integers) <= _INT64_BITS:
        # The conversion rounds once; a result it had to round is normal, so `ldexp` is exact.
        narrow = integers.astype(np.int64)
        mantissa = narrow.astype(np.float64)
        with np.errstate(over="ignore"):
            values = np.ldexp(mantissa, min(exponent, 4096))
        exact = bool((mantissa.astype(np.int64) == narrow).all() and np.isfinite(values).all())
        return np.asarray(values), exact
    numerator, denominator = 1 << max(exponent, 0), 1 << max(-exponent, 0)
    pairs = [_nearest(int(entry) * numerator, denominator) for entry in integers.flat]
    values = np.array([value for value, _ in pairs], dtype=np.float64).reshape(integers.shape)
    return values, all(exact for _, exact in pairs)


def terms_key(coefficients: ScaledIntegers) -> tuple[int, frozenset[tuple[int, ...]]]:
    """Return a value that two arrays of rows share exactly if they hold the same set of rows."""
    exact = reduced(coefficients.integers, coefficients.exponent)
    return exact.exponent, frozenset(map(tuple, exact.integers.tolist()))


def like_terms(rows: WideArray) -> IntArray:
    r"""Return the index of one term per exponent: the one that counts.

    Of the terms with slope $a$ only a largest offset matters; of several equal ones the first.

    Args:
        rows: The $(a_j, c_j)$, shape `(n_terms, dim + 1)`, integers.

    Returns:
        Indices in the order in which the slopes first occur.

    Examples:
        >>> like_terms(np.array([[1, 0], [2, 5], [1, 3], [1, 3]], dtype=object)).tolist()
        [2, 1]
    """
    best: dict[tuple[int, ...], int] = {}
    offsets = rows[:, -1].tolist()
    for index, slope in enumerate(map(tuple, rows[:, :-1].tolist())):
        if slope not in best or offsets[index] > offsets[best[slope]]:
            best[slope] = index
    return np.fromiter(best.values(), dtype=np.int64, count=len(best))


def distinct_rows(rows: AnyArray) -> IntArray:
    """Return the index of the first row of each kind."""
    first: dict[tuple[int, ...], int] = {}
    for index, row in enumerate(map(tuple, rows.tolist())):
        first.setdefault(row, index)
    return np.fromiter(first.values(), dtype=np.int64, count=len(first))


def homogeneous_points(points: FloatArray) -> list[WideArray]:
    r"""Write each point $x$ as integers $(t x, t)$ with its own power of two $t > 0$.

    The value of a term $(a, c)$ at $x$ is then its product with this vector over $t$.

    Args:
        points: Shape `(n_points, dim)`, finite.
    """
    one = np.ones(1)
    return [scaled_integers(np.concatenate((point, one))).integers for point in points]


def _bits(integers: WideArray) -> int:
    """Return the bit length of the largest absolute entry."""
    if not integers.size:
        return 0
    return max(int(integers.max()).bit_length(), int(integers.min()).bit_length())


def _nearest(numerator: int, denominator: int) -> tuple[float, bool]:
    try:
        value = numerator / denominator  # Python rounds this quotient once, correctly.
    except OverflowError:
        return (np.inf if numerator > 0 else -np.inf), False
    top, bottom = value.as_integer_ratio()
    return value, top * denominator == numerator * bottom
