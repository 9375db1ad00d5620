r"""Exact coefficients of tropical polynomials: rows $(a_j, c_j)$ of integers times $2^e$.

Float64 numbers are dyadic rationals, and the operations of tropical algebra (sums, maxima, products
with float64 weights) preserve dyadic rationals. A polynomial therefore stores its terms as one
integer matrix of shape `(n_terms, dim + 1)` with a common exponent and the offset in the last
column. Rounding occurs only in the conversion to floats.
"""

from collections.abc import Sequence

import numpy as np

from hardmax.exact.dyadic import ScaledIntegers
from hardmax.typing import AnyArray, IntArray, WideArray


def reduce_twos(integers: WideArray, exponent: int) -> ScaledIntegers:
    """Move every common factor of two into the exponent, which makes the representation unique.

    Examples:
        >>> shorter = reduce_twos(np.array([[4, -12]], dtype=object), 0)
        >>> shorter.integers.tolist(), shorter.exponent
        ([[1, -3]], 2)
    """
    # Python's `|` and `&` treat negative integers as two's complement, so the lowest bit is right.
    union = int(np.bitwise_or.reduce(integers, axis=None)) if integers.size else 0
    if union == 0:
        return ScaledIntegers(integers, 0)
    shift = (union & -union).bit_length() - 1
    return ScaledIntegers(integers >> shift if shift else integers, exponent + shift)


def align(parts: Sequence[ScaledIntegers]) -> tuple[list[WideArray], int]:
    """Write several arrays with a common exponent, the smallest of their exponents."""
    exponent = min(part.exponent for part in parts)
    return [part.integers << (part.exponent - exponent) for part in parts], exponent


def terms_key(coefficients: ScaledIntegers) -> tuple[int, frozenset[tuple[int, ...]]]:
    """Return a key that is equal for two arrays exactly if they have the same set of rows."""
    exact = reduce_twos(coefficients.integers, coefficients.exponent)
    return exact.exponent, frozenset(map(tuple, exact.integers.tolist()))


def like_terms(rows: WideArray) -> IntArray:
    r"""Return, for each slope, the index of the first term with the largest offset.

    Other terms with the same slope do not affect the maximum.

    Args:
        rows: The integer vectors $(a_j, c_j)$, shape `(n_terms, dim + 1)`.

    Returns:
        The indices, in the order in which the slopes first occur.

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
    """Return the first index of each distinct row."""
    first: dict[tuple[int, ...], int] = {}
    for index, row in enumerate(map(tuple, rows.tolist())):
        first.setdefault(row, index)
    return np.fromiter(first.values(), dtype=np.int64, count=len(first))
