"""Facets made by one split compared across it, as far as floats can. No checks: see callers.

Facets are sorted by the least first coordinate, so that only those whose ranges meet are compared.
"""

import math

import numba

from hardmax._kernels.facet_comparisons import APART, OPEN, compare, far_sign, sign_at
from hardmax._kernels.spatial_matching import holds
from hardmax._kernels.spatial_vertices import KAPPA, TINY, UP
from hardmax.typing import AnyArray, BoolArray, FloatArray, IntArray


@numba.njit(cache=True, _nrt=False)
def corners_into(
    chosen: IntArray,
    owners: IntArray,
    forms: FloatArray,
    points: FloatArray,
    directions: FloatArray,
    is_far: BoolArray,
    starts: IntArray,
    blurs: FloatArray,
    corner_starts: IntArray,
    corners: IntArray,
    boxes: FloatArray,
) -> None:
    """List the vertices of facets, perhaps with others, and bound their coordinates.

    Args:
        chosen: `(n,)`: facets.
        owners: `(n_facets,)`: the cell of each facet.
        forms: `(n_facets, d + 3)`.
        points: `(n_points, d)`: rounded vertices.
        directions: `(n_points, d)`, or no rows where no vertex is at infinity.
        is_far: `(n_points,)`: which vertices are at infinity.
        starts: `(n_cells + 1,)`: where the vertices of each cell begin.
        blurs: `(n_cells, 2)`: how far vertices and directions are off.
        corner_starts: `(n + 1,)`: written.
        corners: Room for all vertices of the cells: written.
        boxes: `(n, 2, d)`: written; infinite for a facet that may have a vertex at infinity.
    """
    dim = points.shape[1]
    n_corners = 0
    corner_starts[0] = 0
    for m in range(chosen.shape[0]):
        facet = chosen[m]
        cell = owners[facet]
        blur = blurs[cell, 0]
        for k in range(dim):
            boxes[m, 0, k], boxes[m, 1, k] = math.inf, -math.inf
        reaches_far = not (blur < math.inf and blurs[cell, 1] < math.inf)
        for i in range(starts[cell], starts[cell + 1]):
            if is_far[i]:
                if far_sign(forms, facet, directions, i, blurs[cell, 1]) == 0:
                    reaches_far = True
                    corners[n_corners] = i
                    n_corners += 1
            elif sign_at(forms, facet, points, i, blur) == 0:
                corners[n_corners] = i
                n_corners += 1
                for k in range(dim):
                    x = points[i, k]
                    widened = (blur + KAPPA * abs(x)) * UP + TINY
                    boxes[m, 0, k] = min(boxes[m, 0, k], x - widened)
                    boxes[m, 1, k] = max(boxes[m, 1, k], x + widened)
        corner_starts[m + 1] = n_corners
        if reaches_far:
            for k in range(dim):
                boxes[m, 0, k], boxes[m, 1, k] = -math.inf, math.inf


@numba.njit(cache=True, _nrt=False)
def compare_facets(
    begin: int,
    order: IntArray,
    ends: IntArray,
    chosen: IntArray,
    owners: IntArray,
    facets: IntArray,
    signatures: AnyArray,
    starts: IntArray,
    tie_starts: IntArray,
    ties: IntArray,
    layer_of: IntArray,
    forms: FloatArray,
    n_facets: int,
    points: FloatArray,
    directions: FloatArray,
    is_far: BoolArray,
    blurs: FloatArray,
    corner_starts: IntArray,
    corners: IntArray,
    boxes: FloatArray,
    normals: FloatArray,
    places: FloatArray,
    rows: IntArray,
    inside: BoolArray,
    pairs: IntArray,
    verdicts: IntArray,
) -> tuple[int, int]:
    """Write the pairs of facets that overlap, or may; return where to go on, and how many pairs.

    Args:
        begin: Where to begin in `order`.
        order: `(n,)`: places in `chosen`, by split, then by the lowest first coordinate.
        ends: `(n,)`: where in `order` the split of each entry ends.
        chosen: `(n,)`: facets.
        owners: `(n_facets,)`: the cell of each facet.
        facets: `(n_facets, 3)`: split, group and rival.
        signatures: `(n_cells, n_groups)`.
        starts: `(n_cells + 1,)`: where the facets of each cell begin.
        tie_starts: `(n_cells + 1,)`.
        ties: `(n_ties, 2)`.
        layer_of: `(n_groups,)`.
        forms: `(n_facets + n_borders, d + 3)`: the rows of the domain come last.
        n_facets: Where these begin.
        points: `(n_points, d)`.
        directions: `(n_points, d)`, or no rows.
        is_far: `(n_points,)`.
        blurs: `(n_cells, 2)`.
        corner_starts: `(n + 1,)`.
        corners: Vertices of the chosen facets.
        boxes: `(n, 2, d)`.
        normals: `(n_rows, d + 1)`: scratch for all rows of two cells and of the domain.
        places: `(3, d)`: scratch.
        rows: `(n_rows,)`: scratch.
        inside: Scratch for the vertices of a cell.
        pairs: `(capacity, 2)`: written, the smaller facet first.
        verdicts: `(capacity,)`: `OVERLAP` or `OPEN`, written.
    """
    n_pairs = 0
    for position in range(begin, order.shape[0]):
        if n_pairs + ends[position] - position > pairs.shape[0]:
            return position, n_pairs
        m = order[position]
        one = chosen[m]
        for later in range(position + 1, ends[position]):
            n = order[later]
            if boxes[n, 0, 0] > boxes[m, 1, 0]:
                break
            other = chosen[n]
            if not _may_touch(owners, facets, signatures, tie_starts, ties, layer_of, one, other):
                continue
            if _are_apart(boxes, m, n):
                continue
            verdict = OPEN
            if _are_opposite(owners, facets, signatures, one, other):
                verdict = compare(
                    m, n, one, other, owners, starts, forms, n_facets, points, directions, is_far,
                    blurs, corner_starts, corners, boxes, normals, places, rows, inside,
                )  # fmt: skip
            elif not _has_tie(owners, facets, starts, tie_starts, ties, one) and not _has_tie(
                owners, facets, starts, tie_starts, ties, other
            ):
                # Forms that do not tie on a facet do not meet the others there.
                continue
            if verdict != APART:
                pairs[n_pairs, 0], pairs[n_pairs, 1] = min(one, other), max(one, other)
                verdicts[n_pairs] = verdict
                n_pairs += 1
    return order.shape[0], n_pairs


@numba.njit(cache=True, _nrt=False)
def _may_touch(
    owners: IntArray,
    facets: IntArray,
    signatures: AnyArray,
    tie_starts: IntArray,
    ties: IntArray,
    layer_of: IntArray,
    one: int,
    other: int,
) -> bool:
    """Say whether two facets of one split may lie on two sides of it.

    The layers before have the same winners, so this layer has the same forms on both sides. Another
    group of it with two winners and no ties has a wall between the facets.
    """
    first, second = owners[one], owners[other]
    group = facets[one, 1]
    if signatures[first, group] == signatures[second, group]:
        return False
    if tie_starts[first] != tie_starts[first + 1] or tie_starts[second] != tie_starts[second + 1]:
        return True
    layer = layer_of[group]
    for g in range(signatures.shape[1]):
        if g != group and layer_of[g] == layer and signatures[first, g] != signatures[second, g]:
            return False
    return True


@numba.njit(cache=True, _nrt=False)
def _are_opposite(
    owners: IntArray, facets: IntArray, signatures: AnyArray, one: int, other: int
) -> bool:
    """Say whether the forms that meet on two facets of one split are the same two."""
    group = facets[one, 1]
    return bool(
        signatures[owners[one], group] == facets[other, 2]
        and signatures[owners[other], group] == facets[one, 2]
    )


@numba.njit(cache=True, _nrt=False)
def _has_tie(
    owners: IntArray,
    facets: IntArray,
    starts: IntArray,
    tie_starts: IntArray,
    ties: IntArray,
    facet: int,
) -> bool:
    """Say whether a third form of its own group ties on a facet."""
    cell = owners[facet]
    return bool(holds(tie_starts, ties, cell, facet - starts[cell], facets[facet, 1]))


@numba.njit(cache=True, _nrt=False)
def _are_apart(boxes: FloatArray, m: int, n: int) -> bool:
    for k in range(boxes.shape[2]):
        if boxes[m, 0, k] > boxes[n, 1, k] or boxes[n, 0, k] > boxes[m, 1, k]:
            return True
    return False
