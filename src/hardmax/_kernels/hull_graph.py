"""Vertices and edges of the convex hull of one point set. No checks: see callers.

Both passes compare a candidate only with what has been found so far [Cla94]: the answer is either
a proof that it is no vertex (no edge), or a direction that shows a new one. Answers that rounding
leaves open are returned as such.
"""

import numpy as np
from numba import njit

from hardmax._kernels.min_norm_point import CONTAINED, SEPARATED, min_norm_point
from hardmax._kernels.orientation import (
    inside_simplicial_cone,
    invert_beyond_rounding,
    positive_beyond_rounding,
)
from hardmax.typing import FloatArray, IntArray, SignArray

YES = 1
NO = 0
CLAIMED = 2
"""The origin seems to lie in the hull of the support; to be proved exactly."""
OPEN = -1
"""Rounding stopped the search."""
UNSEEN = -2

_MAX_BASES = 24
_BATCH = 64

_part = njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


@_part
def _difference(points: FloatArray, i: int, j: int, rows: FloatArray, place: int) -> None:
    """Write `points[i] - points[j]`, scaled to largest entry one."""
    dim = points.shape[1]
    largest = 0.0
    for t in range(dim):
        rows[place, t] = points[i, t] - points[j, t]
        largest = max(largest, abs(rows[place, t]))
    for t in range(dim):
        rows[place, t] /= largest


@_part
def _unit(points: FloatArray, i: int, j: int, units: FloatArray, place: int) -> None:
    """Write the unit vector from `points[j]` to `points[i]`."""
    dim = points.shape[1]
    square = 0.0
    for t in range(dim):
        units[place, t] = points[i, t] - points[j, t]
        square += units[place, t] ** 2
    length = np.sqrt(square)
    for t in range(dim):
        units[place, t] /= length


@_part
def _to_largest_one(direction: FloatArray) -> None:
    """Scale a direction to largest entry one."""
    largest = 0.0
    for t in range(direction.shape[0]):
        largest = max(largest, abs(direction[t]))
    if largest > 0.0:
        for t in range(direction.shape[0]):
            direction[t] /= largest


@_part
def _leads(points: FloatArray, index: int, direction: FloatArray, row: FloatArray) -> bool:
    """Prove that the point scores more than all others at the direction."""
    for j in range(points.shape[0]):
        if j != index:
            _difference(points, index, j, row, 0)
            if not positive_beyond_rounding(row, 0, direction):
                return False
    return True


@_part
def _leader(points: FloatArray, skip: int, direction: FloatArray) -> int:
    """Return the point with the largest computed score, `skip` left out."""
    n_points, dim = points.shape
    best = -np.inf
    leader = -1
    for j in range(n_points):
        if j != skip:
            score = 0.0
            for t in range(dim):
                score += points[j, t] * direction[t]
            if score > best or leader < 0:
                best = score
                leader = j
    return leader


@njit(cache=True)
def hull_vertices(points: FloatArray, verdict: IntArray, supports: IntArray) -> None:
    """Decide which of some distinct points are vertices of their hull.

    Args:
        points: `(n, dim)` with `n >= 2`, exact; a difference rounds once.
        verdict: Buffer `(n,)`: `YES`, `NO`, `CLAIMED` (see `supports`) or `OPEN`.
        supports: Buffer `(n, dim + 1)`: for `CLAIMED`, points `j` such that the origin seems to be
            in the hull of the differences `point - j`; padded with -1.
    """
    n_points, dim = points.shape
    verdict[:] = UNSEEN
    supports[:] = -1
    rivals = np.empty(n_points, np.int64)
    n_rivals = 0
    direction = np.empty(dim)
    units = np.empty((n_points, dim))
    rows = np.empty((dim + 1, dim))
    listed = np.empty(n_points, np.int64)
    support = np.empty(dim + 2, np.int64)
    chosen = np.arange(dim + 1)
    weights = np.empty(dim + 2)
    basis = np.empty((dim + 2, dim + 1))
    upper = np.empty((dim + 2, dim + 2))
    scratch = np.empty((3, dim + 2))
    matrix = np.empty((dim, dim))
    inverse = np.empty((1, dim, dim))
    bounds = np.empty((1, 2))
    # Cheap directions first, from the centre through each point, while they find new vertices.
    centre = np.zeros(dim)
    for k in range(n_points):
        for t in range(dim):
            centre[t] += points[k, t] / n_points
    n_tried = 0
    n_before = 0
    for k in range(n_points):
        if n_tried == _BATCH:
            if n_rivals - n_before < _BATCH // 4:
                break
            n_tried = 0
            n_before = n_rivals
        if verdict[k] == UNSEEN:
            n_tried += 1
            for t in range(dim):
                direction[t] = points[k, t] - centre[t]
            _to_largest_one(direction)
            leader = _leader(points, -1, direction)
            if verdict[leader] == UNSEEN and _leads(points, leader, direction, rows):
                verdict[leader] = YES
                rivals[n_rivals] = leader
                n_rivals += 1
    for k in range(n_points):
        if verdict[k] != UNSEEN:
            continue
        count = 0
        for a in range(n_rivals):
            listed[count] = rivals[a]
            _unit(points, k, rivals[a], units, count)
            count += 1
        if count == 0:
            listed[0] = 1 if k == 0 else 0
            _unit(points, k, listed[0], units, 0)
            count = 1
        n_start = 0
        while verdict[k] == UNSEEN:
            direction[:] = 0.0
            status, n_start = min_norm_point(
                units, count, n_start, 0.0, 20 * (dim + 2),
                support, weights, direction, basis, upper, scratch,
            )  # fmt: skip
            if status == CONTAINED:
                verdict[k] = CLAIMED
                if n_start == dim + 1:
                    for a in range(dim + 1):
                        _difference(points, k, listed[support[a]], rows, a)
                    if invert_beyond_rounding(
                        rows, chosen, matrix, inverse, bounds, 0
                    ) and inside_simplicial_cone(rows, dim, -1.0, inverse, bounds, 0):
                        verdict[k] = NO
                if verdict[k] == CLAIMED:
                    for a in range(n_start):
                        supports[k, a] = listed[support[a]]
                break
            if status != SEPARATED:
                verdict[k] = OPEN
                break
            _to_largest_one(direction)
            if _leads(points, k, direction, rows):
                verdict[k] = YES
                rivals[n_rivals] = k
                n_rivals += 1
                break
            leader = _leader(points, k, direction)
            for a in range(count):
                if listed[a] == leader:
                    verdict[k] = OPEN
            if verdict[k] == OPEN:
                break
            if verdict[leader] == UNSEEN and _leads(points, leader, direction, rows):
                verdict[leader] = YES
                rivals[n_rivals] = leader
                n_rivals += 1
            listed[count] = leader
            _unit(points, k, leader, units, count)
            count += 1


@_part
def _signed_unit(
    rows: FloatArray, j: int, k: int, sign: float, units: FloatArray, place: int
) -> None:
    """Write a row, or its negative, with unit length."""
    dim = rows.shape[2]
    square = 0.0
    for t in range(dim):
        square += rows[j, k, t] ** 2
    scale = sign / np.sqrt(square)
    for t in range(dim):
        units[place, t] = rows[j, k, t] * scale


@njit(cache=True)
def hull_edges(
    rows: FloatArray, n_samples: int, enough: int, adjacent: SignArray, claims: IntArray
) -> int:
    """Decide which pairs of vertices of a hull are joined by an edge.

    The rows of a vertex bound the cone where it wins, and its neighbours own the facets. A row is
    dropped when the other rows are proved to imply it; otherwise the pair counts as an edge, so the
    answer can have too many edges, never too few.

    Args:
        rows: `(n, n, dim)`, the rounded differences `vertex j - vertex k`, largest entry one.
        n_samples: How many pairs to try first.
        enough: Give up if more than this number of them are edges: the graph is then not worth
            its cost.
        adjacent: Buffer `(n, n)` int8: `YES`, `NO` or `CLAIMED` (no edge, to be proved exactly).
        claims: Buffer `(any, dim + 3)`: for each claimed pair `j, k`, and vertices `l` such that
            the origin seems to be in the hull of `k - j` (when `l` is `k`) and of the `j - l`;
            padded with -1. When it is full, pairs count as edges instead.

    Returns:
        The number of claims, or -1 after giving up.
    """
    n_points, _, dim = rows.shape
    units = np.empty((n_points + 1, dim))
    simplex = np.empty((dim + 1, dim))
    walls = np.empty(n_points + 1, np.int64)
    support = np.empty(dim + 2, np.int64)
    chosen = np.arange(dim + 1)
    weights = np.empty(dim + 2)
    inside = np.empty(dim)
    point = np.empty(dim)
    basis = np.empty((dim + 2, dim + 1))
    upper = np.empty((dim + 2, dim + 2))
    scratch = np.empty((3, dim + 2))
    matrix = np.empty((dim, dim))
    inverse = np.empty((_MAX_BASES, dim, dim))
    bounds = np.empty((_MAX_BASES, 2))
    n_edges = 0
    for s in range(n_samples):
        j = (s * 7919) % n_points
        k = (j + 1 + (s * 104729) % (n_points - 1)) % n_points
        count = 0
        for m in range(n_points):
            if m != j:
                _signed_unit(rows, j, m, -1.0 if m == k else 1.0, units, count)
                count += 1
        point[:] = 0.0
        status, _ = min_norm_point(
            units, count, 0, 0.0, 20 * (dim + 2),
            support, weights, point, basis, upper, scratch,
        )  # fmt: skip
        n_edges += status != CONTAINED
    if n_edges > enough:
        return -1
    adjacent[:] = UNSEEN
    n_claims = 0
    for j in range(n_points):
        count = 0
        for m in range(n_points):
            if m != j:
                _signed_unit(rows, j, m, 1.0, units, count)
                count += 1
        inside[:] = 0.0
        status, _ = min_norm_point(
            units, count, 0, 0.5, 20 * (dim + 2),
            support, weights, inside, basis, upper, scratch,
        )  # fmt: skip
        n_walls = 0
        for k in range(j):
            if adjacent[j, k] == YES:
                walls[n_walls] = k
                _signed_unit(rows, j, k, 1.0, units, n_walls)
                n_walls += 1
        n_bases = 0
        for k in range(j + 1, n_points):
            for b in range(n_bases - 1, -1, -1):
                if adjacent[j, k] == UNSEEN and inside_simplicial_cone(
                    rows[j], k, 1.0, inverse, bounds, b
                ):
                    adjacent[j, k] = NO
                    adjacent[k, j] = NO
            while adjacent[j, k] == UNSEEN:
                # The wall against k is redundant if k cannot win where the known walls hold.
                walls[n_walls] = k
                _signed_unit(rows, j, k, -1.0, units, n_walls)
                point[:] = 0.0
                status, n_active = min_norm_point(
                    units, n_walls + 1, 0, 0.0, 20 * (dim + 2),
                    support, weights, point, basis, upper, scratch,
                )  # fmt: skip
                if status == CONTAINED:
                    verdict = CLAIMED
                    if n_active == dim + 1:
                        filled = 0
                        for a in range(dim + 1):
                            if support[a] != n_walls:
                                # The walls against known neighbours, of which k is a positive
                                # combination, come first. (Without k they have no simplex.)
                                for t in range(dim):
                                    simplex[filled, t] = rows[j, walls[support[a]], t]
                                filled += 1
                        for t in range(dim):
                            simplex[dim, t] = rows[j, k, t]
                        place = min(n_bases, _MAX_BASES - 1)
                        if (
                            filled == dim
                            and invert_beyond_rounding(
                                simplex, chosen, matrix, inverse, bounds, place
                            )
                            and inside_simplicial_cone(simplex, dim, 1.0, inverse, bounds, place)
                        ):
                            verdict = NO
                            n_bases = min(n_bases + 1, _MAX_BASES - 1)
                    if verdict == CLAIMED and n_claims < claims.shape[0]:
                        claims[n_claims, 0] = j
                        claims[n_claims, 1] = k
                        for a in range(dim + 1):
                            claims[n_claims, a + 2] = walls[support[a]] if a < n_active else -1
                        n_claims += 1
                    elif verdict == CLAIMED:
                        verdict = YES
                    adjacent[j, k] = verdict
                    adjacent[k, j] = verdict
                    break
                nearest = k
                if status == SEPARATED:
                    # Walk from inside the cone of j to this direction: the first wall on the way
                    # is a facet. (A wrong guess only keeps an edge that is not there.)
                    reach = np.inf
                    for m in range(n_points):
                        if m != j:
                            here = 0.0
                            there = 0.0
                            for t in range(dim):
                                here += rows[j, m, t] * inside[t]
                                there += rows[j, m, t] * point[t]
                            if there < 0.0 and here < reach * (here - there):
                                reach = here / (here - there)
                                nearest = m
                if adjacent[j, nearest] == YES:
                    nearest = k
                adjacent[j, nearest] = YES
                adjacent[nearest, j] = YES
                walls[n_walls] = nearest
                _signed_unit(rows, j, nearest, 1.0, units, n_walls)
                n_walls += 1
    return n_claims
