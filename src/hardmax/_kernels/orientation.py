"""Signs decided in floating point with a proven error bound. No checks: see callers.

Rows are differences of exactly known points. What a kernel sees is `row * scale * (1 + delta)`
entry by entry, with a positive scale per row and `|delta| <= 3 eps`, `eps = 2**-53`. The functions
here answer questions about the exact rows: True is a proof, False means "not decided here".
Every bound is written so that NaN and infinity end up as "not decided".

The bounds come from two facts [Higham02, chapter 3], [Rump10]. A sum of `n` products, in any
order, is off by at most `gamma_n` times the sum of the absolute products. And if `B` is any matrix
with `||I - B A|| <= eta < 1` then `A` is invertible, and `A x = g` implies
`||x - y|| <= (||B g - y|| + eta ||y||) / (1 - eta)` in the maximum norm, for every `y`.
"""

import numpy as np
from numba import njit

from hardmax.typing import FloatArray, IntArray

_EPS = 2.0**-52
_TINY = 1e-200  # Above every underflow of products of numbers the callers keep below 1e100.


@njit(cache=True)
def positive_beyond_rounding(rows: FloatArray, r: int, direction: FloatArray) -> bool:
    """Prove that the exact row has a positive product with the direction.

    Args:
        rows: `(n_rows, dim)`, rounded rows, entries at most one in absolute value.
        r: Which row.
        direction: `(dim,)`, taken as exact, entries at most one in absolute value.
    """
    dim = rows.shape[1]
    total = 0.0
    size = 0.0
    for t in range(dim):
        product = rows[r, t] * direction[t]
        total += product
        size += abs(product)
    return bool(total > (dim + 8) * _EPS * size + _TINY)


@njit(cache=True)
def invert_beyond_rounding(
    rows: FloatArray,
    chosen: IntArray,
    matrix: FloatArray,
    inverses: FloatArray,
    bounds: FloatArray,
    b: int,
) -> bool:
    """Invert the matrix `A` whose columns are the chosen rows, and prove it regular.

    Args:
        rows: `(n_rows, dim)`, rounded rows.
        chosen: `(>= dim,)`, the first `dim` entries name the columns.
        matrix: Buffer `(dim, dim)`.
        inverses: Buffer `(n, dim, dim)`; entry `b` is overwritten by the approximate inverse `B`.
        bounds: Buffer `(n, 2)`; entry `b` is overwritten by an upper bound of `||I - B A||` for
            the exact `A`, and by an upper bound of `(dim + 8) 2^-52 ||B||`.
        b: Where to write.

    Returns:
        Whether the first bound is at most one half.
    """
    dim = rows.shape[1]
    inverse = inverses[b]
    for i in range(dim):
        for t in range(dim):
            matrix[t, i] = rows[chosen[i], t]
            inverse[t, i] = 1.0 if t == i else 0.0
    for column in range(dim):
        pivot = column
        best = abs(matrix[column, column])
        for t in range(column + 1, dim):
            if abs(matrix[t, column]) > best:
                best = abs(matrix[t, column])
                pivot = t
        if not best > 1e-80:
            return False
        if pivot != column:
            for i in range(dim):
                matrix[pivot, i], matrix[column, i] = matrix[column, i], matrix[pivot, i]
                inverse[pivot, i], inverse[column, i] = inverse[column, i], inverse[pivot, i]
        scale = 1.0 / matrix[column, column]
        for i in range(dim):
            matrix[column, i] *= scale
            inverse[column, i] *= scale
        for t in range(dim):
            factor = matrix[t, column]
            if t != column and factor != 0.0:
                for i in range(column, dim):
                    matrix[t, i] -= factor * matrix[column, i]
                for i in range(dim):
                    inverse[t, i] -= factor * inverse[column, i]
    unit = (dim + 8) * _EPS
    largest_norm = 0.0
    largest_defect = 0.0
    for i in range(dim):
        norm = 0.0
        for t in range(dim):
            norm += abs(inverse[i, t])
        defect = 0.0
        for j in range(dim):
            entry = 1.0 if i == j else 0.0
            size = entry
            for t in range(dim):
                product = inverse[i, t] * rows[chosen[j], t]
                entry -= product
                size += abs(product)
            defect += abs(entry) + unit * size
        # Written so that a NaN ends here.
        if not (norm < 1e100 and defect < 0.49):
            return False
        largest_norm = max(largest_norm, norm)
        largest_defect = max(largest_defect, defect)
    bounds[b, 0] = 1.01 * largest_defect
    bounds[b, 1] = 1.01 * unit * largest_norm
    return True


@njit(cache=True)
def inside_simplicial_cone(
    rows: FloatArray, r: int, sign: float, inverses: FloatArray, bounds: FloatArray, b: int
) -> bool:
    """Prove that `sign * row` is a positive combination of the columns of a matrix `A`.

    Args:
        rows: `(n_rows, dim)`, rounded rows, entries at most one in absolute value.
        r: Which row.
        sign: Plus or minus one.
        inverses: `(n, dim, dim)`, from `invert_beyond_rounding` like the next.
        bounds: `(n, 2)`.
        b: Which inverse.
    """
    dim = rows.shape[1]
    smallest = np.inf
    largest = 0.0
    for i in range(dim):
        weight = 0.0
        for t in range(dim):
            weight += inverses[b, i, t] * rows[r, t]
        weight *= sign
        if not weight > 0.0:
            return False
        smallest = min(smallest, weight)
        largest = max(largest, weight)
    return bool(smallest > 2.1 * (bounds[b, 1] + bounds[b, 0] * largest) + _TINY)
