"""Wolfe's nearest point to the origin in the convex hull of the rows of a matrix.

The compiled candidate generator behind cones, extreme points and Minkowski sums: by Gordan's
theorem either some direction `u` has `rows @ u > 0`, or the origin lies in the convex hull of
the rows, and the nearest point decides which. Its answers are floating point and prove nothing:
callers verify the direction, or the support, exactly. No checks: see callers.

The algorithm is Wolfe's [Wol76] in the form of a non-negative least-squares problem [LH74]: lift
each row to `b = (1, row)` and project `e = (1, 0, ..., 0)` onto the cone of the lifted rows. The
residual is `g = (1 - s, -s p)` with `p` the nearest point and `s = 1 / (1 + |p|^2)`, so `-g[1:]`
is the direction, and `|g|` tells how wide the cone is. The active rows are kept as `B^T = Q R`
with `Q` updated by Gram-Schmidt (twice) and Givens rotations; the normal equations would square
the condition number and lose every cone thinner than 1e-8.
"""

import numpy as np
from numba import njit

from hardmax.typing import FloatArray, IntArray

SEPARATED = 1
"""Every row has a positive product with `point`, in floating point."""
CONTAINED = 0
"""The origin is, in floating point, the convex combination of the support with the weights."""
UNDECIDED = -1
"""Rounding stopped the search between the two."""

_BLOCK = 64
"""Rows priced before one is taken: more find a better row, fewer find it sooner."""
_LEVEL = 1e-14
"""A residual this short, relative to what it was computed from, is rounding."""
_SLACK = 4e-16
"""A product this small, per coordinate, is rounding."""


@njit(cache=True, inline="never")
def dot(left: FloatArray, right: FloatArray, size: int) -> float:
    """Sum of products in eight running sums, so that additions need not wait for each other."""
    a = b = c = d = e = f = g = h = 0.0
    whole = size - size % 8
    for t in range(0, whole, 8):
        a += left[t] * right[t]
        b += left[t + 1] * right[t + 1]
        c += left[t + 2] * right[t + 2]
        d += left[t + 3] * right[t + 3]
        e += left[t + 4] * right[t + 4]
        f += left[t + 5] * right[t + 5]
        g += left[t + 6] * right[t + 6]
        h += left[t + 7] * right[t + 7]
    for t in range(whole, size):
        a += left[t] * right[t]
    return ((a + e) + (b + f)) + ((c + g) + (d + h))


@njit(cache=True)
def _products_into(matrix: FloatArray, n_rows: int, vector: FloatArray, out: FloatArray) -> None:
    """Write the products of the first rows with a vector, four rows at a time."""
    size = vector.shape[0]
    whole = n_rows - n_rows % 4
    for j in range(0, whole, 4):
        first, second, third, fourth = matrix[j], matrix[j + 1], matrix[j + 2], matrix[j + 3]
        a = b = c = d = 0.0
        for t in range(size):
            x = vector[t]
            a += first[t] * x
            b += second[t] * x
            c += third[t] * x
            d += fourth[t] * x
        out[j] = a
        out[j + 1] = b
        out[j + 2] = c
        out[j + 3] = d
    for j in range(whole, n_rows):
        out[j] = dot(matrix[j], vector, size)


@njit(cache=True)
def _subtract(
    matrix: FloatArray, n_rows: int, coefficients: FloatArray, vector: FloatArray
) -> None:
    """Subtract a combination of the first rows from a vector, four rows at a time."""
    size = vector.shape[0]
    whole = n_rows - n_rows % 4
    for j in range(0, whole, 4):
        first, second, third, fourth = matrix[j], matrix[j + 1], matrix[j + 2], matrix[j + 3]
        a = coefficients[j]
        b = coefficients[j + 1]
        c = coefficients[j + 2]
        d = coefficients[j + 3]
        for t in range(size):
            vector[t] -= (a * first[t] + b * second[t]) + (c * third[t] + d * fourth[t])
    for j in range(whole, n_rows):
        row = matrix[j]
        a = coefficients[j]
        for t in range(size):
            vector[t] -= a * row[t]


@njit(cache=True)
def _lowest_product(
    rows: FloatArray, start: int, stop: int, point: FloatArray
) -> tuple[float, int]:
    """Return the smallest product of the rows with a vector, and the first row that has it."""
    dim = point.shape[0]
    lowest = np.inf
    where = start
    whole = stop - (stop - start) % 4
    for j in range(start, whole, 4):
        first, second, third, fourth = rows[j], rows[j + 1], rows[j + 2], rows[j + 3]
        a = b = c = d = 0.0
        for t in range(dim):
            x = point[t]
            a += first[t] * x
            b += second[t] * x
            c += third[t] * x
            d += fourth[t] * x
        if a < lowest:
            lowest, where = a, j
        if b < lowest:
            lowest, where = b, j + 1
        if c < lowest:
            lowest, where = c, j + 2
        if d < lowest:
            lowest, where = d, j + 3
    for j in range(whole, stop):
        a = dot(rows[j], point, dim)
        if a < lowest:
            lowest, where = a, j
    return lowest, where


@njit(cache=True)
def _append(
    lifted: FloatArray,
    n_active: int,
    basis: FloatArray,
    upper: FloatArray,
) -> bool:
    """Add the lifted row as the last column of the factorisation; False if it is dependent."""
    size = lifted.shape[0]
    # The row of the basis to be filled serves as a buffer first.
    coefficients = basis[n_active]
    for i in range(n_active):
        upper[i, n_active] = 0.0
    before = np.sqrt(dot(lifted, lifted, size))
    length = before
    for _ in range(2):
        _products_into(basis, n_active, lifted, coefficients)
        _subtract(basis, n_active, coefficients, lifted)
        for i in range(n_active):
            upper[i, n_active] += coefficients[i]
        previous = length
        length = np.sqrt(dot(lifted, lifted, size))
        if length > 0.5 * previous:
            break
    if not length > _LEVEL * before:
        return False
    upper[n_active, n_active] = length
    for t in range(size):
        basis[n_active, t] = lifted[t] / length
    return True


@njit(cache=True)
def _project_out(n_active: int, basis: FloatArray, residual: FloatArray) -> None:
    """Write the part of `e` orthogonal to the basis, to full relative accuracy."""
    size = residual.shape[0]
    coefficients = basis[n_active]
    residual[0] = 1.0
    for t in range(1, size):
        residual[t] = 0.0
    for _ in range(2):
        _products_into(basis, n_active, residual, coefficients)
        _subtract(basis, n_active, coefficients, residual)


@njit(cache=True)
def _drop(
    column: int,
    n_active: int,
    basis: FloatArray,
    upper: FloatArray,
) -> None:
    """Remove one column of the factorisation and rotate it back to triangular form."""
    size = basis.shape[1]
    for i in range(n_active):
        for c in range(max(column, i - 1), n_active - 1):
            upper[i, c] = upper[i, c + 1]
    for i in range(column, n_active - 1):
        x = upper[i, i]
        y = upper[i + 1, i]
        length = np.hypot(x, y)
        if length == 0.0:
            continue
        cosine = x / length
        sine = y / length
        upper[i, i] = length
        upper[i + 1, i] = 0.0
        for c in range(i + 1, n_active - 1):
            x = upper[i, c]
            y = upper[i + 1, c]
            upper[i, c] = cosine * x + sine * y
            upper[i + 1, c] = cosine * y - sine * x
        for t in range(size):
            x = basis[i, t]
            y = basis[i + 1, t]
            basis[i, t] = cosine * x + sine * y
            basis[i + 1, t] = cosine * y - sine * x


@njit(cache=True)
def _solve(n_active: int, basis: FloatArray, upper: FloatArray, solution: FloatArray) -> None:
    """Solve `R v = Q^T e`: the unconstrained coefficients of the projection of `e`."""
    for i in range(n_active - 1, -1, -1):
        rest = n_active - i - 1
        known = dot(upper[i, i + 1 : n_active], solution[i + 1 : n_active], rest)
        solution[i] = (basis[i, 0] - known) / upper[i, i]


@njit(cache=True)
def min_norm_point(
    rows: FloatArray,
    n_rows: int,
    n_start: int,
    quality: float,
    max_iterations: int,
    support: IntArray,
    weights: FloatArray,
    point: FloatArray,
    basis: FloatArray,
    upper: FloatArray,
    scratch: FloatArray,
) -> tuple[int, int]:
    r"""Find a direction positive on all rows, or rows whose convex hull holds the origin.

    Allocates nothing. A start is taken from what the buffers hold: with `n_start > 0` the rows
    `support[:n_start]` are made active first; otherwise, if `point` is not zero, it is tried as
    the direction, which costs one product with the rows and ends the search if it separates.

    Args:
        rows: Shape `(>= n_rows, dim)`, float64, C-contiguous, rows of about unit length.
        n_rows: How many rows count; at least one.
        n_start: How many entries of `support` to start from, at most `dim + 1`; may be zero.
        quality: Where to stop when the rows can be separated. 0: at the first direction positive
            on all rows. Towards 1: when the smallest product is at least that fraction of the
            one at the current active rows, so that 0.9 is close to the widest margin.
        max_iterations: Limit on the number of rows made active; `20 * (dim + 2)` is plenty.
        support: Buffer `(dim + 2,)` int64: on return the active rows.
        weights: Buffer `(dim + 2,)`: on return their positive coefficients, summing to one.
        point: Buffer `(dim,)`: the starting direction (or zeros); on return the direction,
            a positive multiple of the nearest point of the active rows' hull.
        basis: Buffer `(dim + 2, dim + 1)`.
        upper: Buffer `(dim + 2, dim + 2)`.
        scratch: Buffer `(3, dim + 2)`.

    Returns:
        The status (`SEPARATED`, `CONTAINED` or `UNDECIDED`) and how many rows are active.
    """
    dim = rows.shape[1]
    size = dim + 1
    solution = scratch[0]
    lifted = scratch[1, :size]
    residual = scratch[2, :size]
    n_active = 0
    position = 0
    level = _LEVEL * np.sqrt(size)

    for a in range(min(n_start, size)):
        lifted[0] = 1.0
        for t in range(dim):
            lifted[t + 1] = rows[support[a], t]
        support[n_active] = support[a]
        if _append(lifted, n_active, basis, upper):
            weights[n_active] = 0.0
            n_active += 1
    if n_active == 0:
        # One product with the starting direction: it may already separate, and otherwise names
        # a good first row.
        first = 0
        nonzero = False
        for t in range(dim):
            nonzero = nonzero or point[t] != 0.0
        if nonzero:
            lowest, first = _lowest_product(rows, 0, n_rows, point)
            if lowest > _SLACK * dim * np.sqrt(dot(point, point, dim)):
                return SEPARATED, 0
        lifted[0] = 1.0
        for t in range(dim):
            lifted[t + 1] = rows[first, t]
        _append(lifted, 0, basis, upper)
        support[0] = first
        weights[0] = 0.0
        n_active = 1

    previous = np.inf
    accurate = 0.0
    refreshed = False
    for _ in range(max_iterations):
        # Minor cycle: walk from the weights towards the projection on the span, dropping rows
        # whose weight reaches zero, until the projection has positive weights only.
        while True:
            _solve(n_active, basis, upper, solution)
            step = 1.0
            leaving = -1
            for i in range(n_active):
                if not solution[i] > 0.0:
                    gap = weights[i] - solution[i]
                    ratio = weights[i] / gap if gap > 0.0 else 0.0
                    # Started rows all weigh zero: of those, the most negative one leaves.
                    tied = leaving >= 0 and ratio == step and solution[i] < solution[leaving]
                    if leaving < 0 or ratio < step or tied:
                        step = ratio
                        leaving = i
            if leaving < 0 or n_active == 1:
                break
            for i in range(n_active):
                weights[i] = max(weights[i] + step * (solution[i] - weights[i]), 0.0)
            _drop(leaving, n_active, basis, upper)
            for i in range(leaving, n_active - 1):
                weights[i] = weights[i + 1]
                support[i] = support[i + 1]
            n_active -= 1
            refreshed = False
        total = 0.0
        for i in range(n_active):
            weights[i] = solution[i]
            total += solution[i]

        # The residual of the projection. One more row takes one more component off it; where it
        # has become much shorter, or rows have left, it is computed anew, because its length is
        # what tells a thin cone from an empty one.
        if n_active == size:
            for i in range(n_active):
                weights[i] /= total
            return CONTAINED, n_active
        if refreshed:
            newest = basis[n_active - 1]
            part = dot(newest, residual, size)
            for t in range(size):
                residual[t] -= part * newest[t]
        length = np.sqrt(dot(residual, residual, size))
        if not refreshed or length < 0.1 * accurate:
            _project_out(n_active, basis, residual)
            length = np.sqrt(dot(residual, residual, size))
            accurate = length
            refreshed = True
        if length <= level:
            for i in range(n_active):
                weights[i] /= total
            return CONTAINED, n_active
        for t in range(dim):
            point[t] = -residual[t + 1] / length
        if not length < previous:
            return UNDECIDED, n_active
        previous = length

        # Price the rows in blocks, going round: the first block with a row on the wrong side
        # gives the next one.
        slack = _SLACK * dim
        target = max(slack, quality * length)
        entering = -1
        lowest = np.inf
        scanned = 0
        while scanned < n_rows:
            last = min(position + _BLOCK, n_rows)
            value, where = _lowest_product(rows, position, last, point)
            if value < lowest:
                lowest = value
                entering = where
            scanned += last - position
            position = last if last < n_rows else 0
            if lowest <= 0.0:
                break
        if lowest > target:
            for i in range(n_active):
                weights[i] /= total
            return SEPARATED, n_active
        for i in range(n_active):
            if support[i] == entering:
                return UNDECIDED, n_active
        lifted[0] = 1.0
        for t in range(dim):
            lifted[t + 1] = rows[entering, t]
        if not _append(lifted, n_active, basis, upper):
            return UNDECIDED, n_active
        support[n_active] = entering
        weights[n_active] = 0.0
        n_active += 1
    return UNDECIDED, n_active
