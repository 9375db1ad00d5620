"""Which points can be vertices of a convex hull: Clarkson's search in floating point.

Each target is compared with the vertices known so far only. Either it lies in their hull, or the
direction that separates it finds a point further out, which joins them [Cla94]. The answers are
candidates: callers prove each one. No checks: see callers.
"""

import numpy as np
from numba import njit

from hardmax._kernels.min_norm_point import SEPARATED, UNDECIDED, dot, min_norm_point
from hardmax.typing import BoolArray, FloatArray, IntArray


@njit(cache=True)
def vertex_candidates_into(
    points: FloatArray,
    rays: FloatArray,
    targets: IntArray,
    known: IntArray,
    n_known: int,
    is_known: BoolArray,
    quality: float,
    status: IntArray,
    n_support: IntArray,
    support: IntArray,
    directions: FloatArray,
    rows: FloatArray,
    owners: IntArray,
    active: IntArray,
    weights: FloatArray,
    basis: FloatArray,
    upper: FloatArray,
    scratch: FloatArray,
) -> int:
    """Write, for each target, a direction it seems to win or points it seems to lie between.

    Args:
        points: `(n_points, dim)`, well conditioned and centred about the origin.
        rays: `(n_rays, dim)` unit vectors that must have a positive product with the direction.
        targets: `(n_targets,)` which points to decide.
        known: `(n_points,)` buffer: points to compare with, the first `n_known` entries;
            points found on the way are appended.
        n_known: How many are known already; may be zero.
        is_known: `(n_points,)` the same as a mask.
        quality: How wide a margin to look for (see `min_norm_point`).
        status: `(n_targets,)` buffer for the statuses of `min_norm_point`.
        n_support: `(n_targets,)` buffer.
        support: `(n_targets, dim + 2)` buffer: points, or `n_points + k` for ray `k`.
        directions: `(n_targets, dim)` buffer.
        rows: `(n_points + n_rays, dim)` buffer.
        owners: `(n_points + n_rays,)` int64 buffer.
        active: `(dim + 2,)` int64 buffer; `weights` float64 likewise.
        weights: See `active`.
        basis: `(dim + 2, dim + 1)` buffer.
        upper: `(dim + 2, dim + 2)` buffer.
        scratch: `(3, dim + 2)` buffer.

    Returns:
        The new number of known points.
    """
    n_points, dim = points.shape
    n_rays = rays.shape[0]
    max_iterations = 20 * (dim + 2)
    for index in range(targets.shape[0]):
        i = targets[index]
        direction = directions[index]
        n_rows = 0
        for k in range(n_rays):
            rows[n_rows] = rays[k]
            owners[n_rows] = n_points + k
            n_rows += 1
        for k in range(n_known):
            if known[k] != i:
                _difference_into(points, i, known[k], rows[n_rows])
                owners[n_rows] = known[k]
                n_rows += 1
        for t in range(dim):
            direction[t] = points[i, t]
        n_active = 0
        outcome = UNDECIDED
        for _ in range(max_iterations):
            if n_rows > 0:
                outcome, n_active = min_norm_point(
                    rows,
                    n_rows,
                    n_active,
                    quality,
                    max_iterations,
                    active,
                    weights,
                    direction,
                    basis,
                    upper,
                    scratch,
                )
                if outcome != SEPARATED:
                    break
            best = -1
            highest = -np.inf
            for j in range(n_points):
                if j != i:
                    value = dot(points[j], direction, dim)
                    if value > highest:
                        highest = value
                        best = j
            if highest < dot(points[i], direction, dim):
                outcome = SEPARATED
                break
            if best < 0 or is_known[best]:
                outcome = UNDECIDED
                break
            known[n_known] = best
            is_known[best] = True
            n_known += 1
            _difference_into(points, i, best, rows[n_rows])
            owners[n_rows] = best
            n_rows += 1
            outcome = UNDECIDED
        status[index] = outcome
        n_support[index] = n_active
        for k in range(n_active):
            support[index, k] = owners[active[k]]
    return n_known


@njit(cache=True)
def _difference_into(points: FloatArray, i: int, j: int, row: FloatArray) -> None:
    """Write the unit vector from point `j` to point `i`; zero if they coincide."""
    dim = points.shape[1]
    square = 0.0
    for t in range(dim):
        row[t] = points[i, t] - points[j, t]
        square += row[t] * row[t]
    if square > 0.0:
        scale = 1.0 / np.sqrt(square)
        for t in range(dim):
            row[t] *= scale
