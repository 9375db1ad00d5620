r"""Vertices of a cell from the facets that meet there, with proven radii. No checks: see callers.

A vertex is where the facets in its mask meet; $d$ independent ones, rows $(m_j, c_j)$ of the pool
with matrix $M$, define it. Its radius is found afresh from them: with the true rows and a computed
point $v$, the true vertex $v^*$ has $M^* (v - v^*) = r$ with the values $r_j$ of the true rows at
$v$. By Cramer's rule and Hadamard's inequality, with $n_j \ge |m_j^*|_1$,

$$|v - v^*|_\infty \le \frac{\prod_k n_k}{|\det M^*|} \sum_j \frac{R_j}{n_j}, \qquad
  |\det M^*| \ge |\det M| - \prod_k n_k \Bigl(2^{-47} + \sum_k \frac{d\, r_k}{n_k}\Bigr),$$

and the pool's rows are scaled to a largest slope between 1/2 and 1, so that $1 / n_j \le 2$. Here
$R_j \ge |r_j|$ is the computed residual, its rounding and the radius $r_j$ of the row. The first
term in the bracket is the rounding of a Laplace expansion: every product of entries passes
at most $d + d (d + 1) / 2 \le 44$ roundings for $d \le 8$, and the sum of their absolute values is
at most $\prod_k n_k$. Slopes of at most 1 never overflow.

A vertex at infinity is $p + M v$ with a formal $M \to \infty$; both parts solve such a system.
"""

import math
from typing import Any

import numba
import numpy as np

from hardmax._kernels.expansions import difference_sign
from hardmax._kernels.spatial_buffers import (
    FAR,
    NORM,
    OFFSET,
    OFFSET_RADIUS,
    RADIUS,
    Scratch,
)
from hardmax.typing import AnyArray, FloatArray, IntArray

KAPPA = 2.0**-48
"""More than all relative rounding errors of one evaluation."""
UP = 1.0 + 2.0**-40
"""More than what rounding takes away from a bound."""
TINY = 2.0**-1000
_DETERMINANT_KAPPA = 2.0**-47
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_FIVES, _THREES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_FIFTEENS, _ONES = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
_TWO, _FOUR, _TOP_BYTE = np.uint64(2), np.uint64(4), np.uint64(56)


@numba.njit(cache=True, _nrt=False, forceinline=True)
def bit_count(word: Any) -> Any:
    """Count the bits of a 64-bit word."""
    word = word - ((word >> _ONE) & _FIVES)
    word = (word & _THREES) + ((word >> _TWO) & _THREES)
    word = (word + (word >> _FOUR)) & _FIFTEENS
    return np.int64((word * _ONES) >> _TOP_BYTE)


@numba.njit(cache=True, _nrt=False, forceinline=True)
def lowest_bit(word: Any) -> Any:
    """Return the place of the lowest bit of a word that is not zero."""
    return bit_count((word & (~word + _ONE)) - _ONE)


@numba.njit(cache=True, _nrt=False, forceinline=True)
def collect(word_row: AnyArray, facets: IntArray, f_start: int, out: IntArray) -> int:
    """List the pool rows of the bits of a mask; return how many."""
    n = 0
    for w in range(word_row.shape[0]):
        word = word_row[w]
        while word != _ZERO:
            out[n] = facets[f_start + 64 * w + lowest_bit(word)]
            n += 1
            word &= word - _ONE
    return n


@numba.njit(cache=True, _nrt=False, forceinline=True)
def is_far(points: FloatArray, i: int, dim: int) -> bool:
    """Say whether a vertex is at infinity, on a domain that has such vertices."""
    for k in range(dim + 1, 2 * dim + 1):
        if points[i, k] != 0.0:
            return True
    # A direction that could not be computed is zero with an infinite radius.
    return bool(points[i, 2 * dim + 1] != 0.0)


@numba.njit(cache=True, _nrt=False)
def independent_rows(pool: FloatArray, scratch: Scratch, n: int, wanted: int) -> bool:
    """Choose rows of `scratch.tight` far from dependent into `scratch.rows`; say if there are.

    Elimination with the largest entry as pivot. The choice needs no proof: what is computed from
    the rows is checked.
    """
    dim = pool.shape[1] - 5
    rest = scratch.elimination
    for t in range(n):
        row = scratch.tight[t]
        norm = pool[row, dim + NORM]
        for k in range(dim):
            rest[t, k] = pool[row, k] / norm
    for step in range(wanted):
        best = 0.0
        pivot = -1
        column = 0
        for t in range(step, n):
            for k in range(dim):
                if abs(rest[t, k]) > best:
                    best = abs(rest[t, k])
                    pivot = t
                    column = k
        if pivot < 0 or best < 2.0**-40:
            return False
        row = scratch.tight[pivot]
        scratch.tight[pivot] = scratch.tight[step]
        scratch.tight[step] = row
        scratch.rows[step] = row
        for k in range(dim):
            entry = rest[pivot, k]
            rest[pivot, k] = rest[step, k]
            rest[step, k] = entry
        for t in range(step + 1, n):
            factor = rest[t, column] / rest[step, column]
            for k in range(dim):
                rest[t, k] -= factor * rest[step, k]
            rest[t, column] = 0.0
    return True


@numba.njit(cache=True, _nrt=False, forceinline=True)
def height_at(pool: FloatArray, row: Any, points: FloatArray, point: Any, dim: int) -> float:
    """Return the rounded value of a form of the pool at a point; indices are unsigned.

    In few dimensions without a loop, and in an order that leaves no long chain of sums.
    """
    height = pool[row, np.uint64(dim)]
    if dim == 3:
        return float(
            (height + pool[row, 0] * points[point, 0])
            + (pool[row, 1] * points[point, 1] + pool[row, 2] * points[point, 2])
        )
    if dim == 4:
        return float(
            (height + pool[row, 0] * points[point, 0])
            + (
                (pool[row, 1] * points[point, 1] + pool[row, 2] * points[point, 2])
                + pool[row, 3] * points[point, 3]
            )
        )
    if dim == 5:
        return float(
            (height + pool[row, 0] * points[point, 0])
            + (pool[row, 1] * points[point, 1] + pool[row, 2] * points[point, 2])
            + (pool[row, 3] * points[point, 3] + pool[row, 4] * points[point, 4])
        )
    for k in range(np.uint64(dim)):
        height += pool[row, k] * points[point, k]
    return float(height)


@numba.njit(cache=True, _nrt=False, forceinline=True)
def radii_into(pool: FloatArray, scratch: Scratch, points: FloatArray, i: int) -> None:
    """Bound the distance of a computed point from where the rows `scratch.rows` meet.

    Rows without offsets meet in the origin; the point is then moved there.
    """
    dim = pool.shape[1] - 5
    rows, point = scratch.rows, np.uint64(i)
    has_far = points.shape[1] > dim + 1
    reach = 0.0
    top = 0.0
    for k in range(np.uint64(dim)):
        x = abs(points[point, k])
        reach += x
        top = max(top, x)
    # Sums of what is not negative vanish only where all of it does.
    product = 1.0
    norms = 0.0
    values = 0.0
    offsets = 0.0
    slope_radii = 0.0
    offset_radii = 0.0
    for j in range(np.uint64(dim)):
        row = np.uint64(rows[j])
        norm = pool[row, np.uint64(dim + NORM)]
        product *= norm
        norms += norm
        values += abs(height_at(pool, row, points, point, dim))
        offsets += abs(pool[row, np.uint64(dim + OFFSET)])
        slope_radii += pool[row, np.uint64(dim + RADIUS)]
        offset_radii += pool[row, np.uint64(dim + OFFSET_RADIUS)]
    blur = _DETERMINANT_KAPPA + 2.0 * dim * slope_radii
    least = abs(_determinant(pool, scratch, dim)) - product * blur * UP - TINY
    if not least > 0.0:
        points[i, dim] = math.inf
        if has_far:
            points[i, 2 * dim + 1] = math.inf if is_far(points, i, dim) else 0.0
        return
    factor = product / least * UP
    if has_far:
        is_there = is_far(points, i, dim)
        points[i, 2 * dim + 1] = factor * _far_residual(pool, scratch, points, i) if is_there else 0
    if offsets == 0.0 and offset_radii == 0.0:
        for k in range(dim):
            points[i, k] = 0.0
        points[i, dim] = 0.0
        return
    is_exact = values == 0.0 and offset_radii == 0.0 and (slope_radii == 0.0 or reach == 0.0)
    if is_exact and _lies_on_all(pool, scratch, points, i):
        points[i, dim] = 0.0
        return
    # What the norm of a row and the largest coordinate bound is rounded away in a value.
    total = values + KAPPA * (offsets + norms * top) + slope_radii * reach + offset_radii
    points[point, np.uint64(dim)] = factor * (total * (2.0 * UP) + dim * TINY)


@numba.njit(cache=True, _nrt=False)
def _far_residual(pool: FloatArray, scratch: Scratch, points: FloatArray, i: int) -> float:
    """Bound what the rows `scratch.rows` leave over at the direction of a point."""
    dim = pool.shape[1] - 5
    total = 0.0
    for j in range(dim):
        row = scratch.rows[j]
        value = pool[row, dim + FAR]
        size = abs(value)
        reach = 0.0
        for k in range(dim):
            term = pool[row, k] * points[i, dim + 1 + k]
            value += term
            size += abs(term)
            reach += abs(points[i, dim + 1 + k])
        ra = pool[row, dim + RADIUS]
        total += (abs(value) + KAPPA * size + ra * reach) * (2.0 * UP) + TINY
    return float(total)


@numba.njit(cache=True, _nrt=False, forceinline=True)
def _determinant(pool: FloatArray, scratch: Scratch, dim: int) -> float:
    """Return the determinant of the slopes of the rows `scratch.rows`, rounded."""
    rows = scratch.rows
    if dim == 3:
        p, q, r = np.uint64(rows[0]), np.uint64(rows[1]), np.uint64(rows[2])
        value = pool[p, 0] * (pool[q, 1] * pool[r, 2] - pool[q, 2] * pool[r, 1])
        value -= pool[p, 1] * (pool[q, 0] * pool[r, 2] - pool[q, 2] * pool[r, 0])
        return float(value + pool[p, 2] * (pool[q, 0] * pool[r, 1] - pool[q, 1] * pool[r, 0]))
    if dim == 4:
        p, q = np.uint64(rows[0]), np.uint64(rows[1])
        r, s = np.uint64(rows[2]), np.uint64(rows[3])
        a01 = pool[p, 0] * pool[q, 1] - pool[p, 1] * pool[q, 0]
        a02 = pool[p, 0] * pool[q, 2] - pool[p, 2] * pool[q, 0]
        a03 = pool[p, 0] * pool[q, 3] - pool[p, 3] * pool[q, 0]
        a12 = pool[p, 1] * pool[q, 2] - pool[p, 2] * pool[q, 1]
        a13 = pool[p, 1] * pool[q, 3] - pool[p, 3] * pool[q, 1]
        a23 = pool[p, 2] * pool[q, 3] - pool[p, 3] * pool[q, 2]
        value = a01 * (pool[r, 2] * pool[s, 3] - pool[r, 3] * pool[s, 2])
        value -= a02 * (pool[r, 1] * pool[s, 3] - pool[r, 3] * pool[s, 1])
        value += a03 * (pool[r, 1] * pool[s, 2] - pool[r, 2] * pool[s, 1])
        value += a12 * (pool[r, 0] * pool[s, 3] - pool[r, 3] * pool[s, 0])
        value -= a13 * (pool[r, 0] * pool[s, 2] - pool[r, 2] * pool[s, 0])
        return float(value + a23 * (pool[r, 0] * pool[s, 1] - pool[r, 1] * pool[s, 0]))
    if dim == 5:
        return float(_determinant_of_five(pool, rows))
    minors, steps = scratch.minors, scratch.steps
    for i in range(minors.shape[0]):
        minors[i] = 0.0
    minors[0] = 1.0
    for i in range(steps.shape[0]):
        factor = scratch.step_signs[i] * pool[rows[steps[i, 2]], steps[i, 3]]
        minors[steps[i, 0]] += factor * minors[steps[i, 1]]
    return float(minors[minors.shape[0] - 1])


@numba.njit(cache=True, _nrt=False)
def _determinant_of_five(pool: FloatArray, rows: IntArray) -> float:
    """Return the determinant of five rows: minors of the first two by minors of the last three."""
    p, q, r = np.uint64(rows[0]), np.uint64(rows[1]), np.uint64(rows[2])
    s, t = np.uint64(rows[3]), np.uint64(rows[4])
    p0, p1, p2, p3, p4 = pool[p, 0], pool[p, 1], pool[p, 2], pool[p, 3], pool[p, 4]
    q0, q1, q2, q3, q4 = pool[q, 0], pool[q, 1], pool[q, 2], pool[q, 3], pool[q, 4]
    r0, r1, r2, r3, r4 = pool[r, 0], pool[r, 1], pool[r, 2], pool[r, 3], pool[r, 4]
    s0, s1, s2, s3, s4 = pool[s, 0], pool[s, 1], pool[s, 2], pool[s, 3], pool[s, 4]
    t0, t1, t2, t3, t4 = pool[t, 0], pool[t, 1], pool[t, 2], pool[t, 3], pool[t, 4]
    m01 = s0 * t1 - s1 * t0
    m02 = s0 * t2 - s2 * t0
    m03 = s0 * t3 - s3 * t0
    m04 = s0 * t4 - s4 * t0
    m12 = s1 * t2 - s2 * t1
    m13 = s1 * t3 - s3 * t1
    m14 = s1 * t4 - s4 * t1
    m23 = s2 * t3 - s3 * t2
    m24 = s2 * t4 - s4 * t2
    m34 = s3 * t4 - s4 * t3
    value = 0.0
    value += (p0 * q1 - p1 * q0) * (r2 * m34 - r3 * m24 + r4 * m23)
    value -= (p0 * q2 - p2 * q0) * (r1 * m34 - r3 * m14 + r4 * m13)
    value += (p0 * q3 - p3 * q0) * (r1 * m24 - r2 * m14 + r4 * m12)
    value -= (p0 * q4 - p4 * q0) * (r1 * m23 - r2 * m13 + r3 * m12)
    value += (p1 * q2 - p2 * q1) * (r0 * m34 - r3 * m04 + r4 * m03)
    value -= (p1 * q3 - p3 * q1) * (r0 * m24 - r2 * m04 + r4 * m02)
    value += (p1 * q4 - p4 * q1) * (r0 * m23 - r2 * m03 + r3 * m02)
    value += (p2 * q3 - p3 * q2) * (r0 * m14 - r1 * m04 + r4 * m01)
    value -= (p2 * q4 - p4 * q2) * (r0 * m13 - r1 * m03 + r3 * m01)
    value += (p3 * q4 - p4 * q3) * (r0 * m12 - r1 * m02 + r2 * m01)
    return float(value)


@numba.njit(cache=True, _nrt=False)
def _lies_on_all(pool: FloatArray, scratch: Scratch, points: FloatArray, i: int) -> bool:
    """Say whether a point lies on all rows `scratch.rows`, whose values there round to zero."""
    dim = pool.shape[1] - 5
    reach = 0.0
    for k in range(dim):
        reach += abs(points[i, k])
    for j in range(dim):
        row = scratch.rows[j]
        if reach == 0.0:
            if pool[row, dim] != 0.0:
                return False
            continue
        sign = difference_sign(
            pool[:, :dim], pool[:, dim], row, -1, points[:, :dim], i, scratch.expansion
        )
        if sign != 0:
            return False
    return True
