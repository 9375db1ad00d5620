r"""The coefficients of tropical polynomials, exactly: rows $(a_j, c_j)$ of integers times $2^e$.

Float64 numbers are dyadic rationals, and the operations of tropical algebra (sums, maxima,
products with float64 weights) never leave the dyadics. A polynomial therefore keeps its terms as
one integer matrix `(n_terms, dim + 1)` with a common exponent, the offset in the last column.
Nothing is rounded until somebody asks for floats. `polynomials` builds on this file; below it is
`exact.dyadic`.
"""

from collections.abc import Sequence

import numpy as np

from hardmax.exact.dyadic import ScaledIntegers
from hardmax.typing import AnyArray, IntArray, WideArray


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
