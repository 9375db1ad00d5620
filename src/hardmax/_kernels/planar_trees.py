r"""Which of many forms can be the largest near a point: a tree of boxes. No checks: see callers.

A box lists forms. One that is left out is exceeded, on all of the box and by more than all errors,
by a form that is listed, or by one that is itself exceeded so.
"""

import numba

from hardmax._kernels.planar_buffers import DX, DY, RHO, X, Y
from hardmax._kernels.planar_signs import KAPPA, LEAST, TINY, UP
from hardmax.typing import FloatArray, IntArray

NODES_PER_FORM, LISTED_PER_FORM = 2, 24
_SHORT = 8
_BLUR = 2.0**-30
_BEYOND = 1e308


@numba.njit(cache=True, _nrt=False)
def gather(
    blocks: FloatArray, b: int, order: IntArray, first: int, count: int, sizes: FloatArray
) -> None:
    """Copy the forms that compete into the last block, side by side, and bound their sizes.

    Args:
        blocks: All blocks.
        b: The block of the scores.
        order: The forms that compete are in its second row; the first row becomes its inverse, from
            forms of the group to positions, and the fourth is cleared.
        first: The first form of the group.
        count: How many compete.
        sizes: Becomes bounds on $|a_1| + |a_2|$, on $|c|$ and on the radii.
    """
    last = blocks.shape[0] - 1
    slopes = 0.0
    offsets = 0.0
    radius = 0.0
    for m in range(count):
        j = order[1, m]
        order[0, j - first] = m
        order[3, m] = 0
        for k in range(4):
            blocks[last, k, m] = blocks[b, k, j]
        # Written so that NaN ends up in the bounds.
        slope = abs(blocks[b, 0, j]) + abs(blocks[b, 1, j])
        slopes = slopes if slope <= slopes else slope
        offsets = offsets if abs(blocks[b, 2, j]) <= offsets else abs(blocks[b, 2, j])
        radius = radius if blocks[b, 3, j] <= radius else blocks[b, 3, j]
    sizes[0] = slopes
    sizes[1] = offsets
    sizes[2] = radius


@numba.njit(cache=True, _nrt=False)
def plant(
    blocks: FloatArray,
    count: int,
    sizes: FloatArray,
    edges: FloatArray,
    start: int,
    n: int,
    scale: float,
    nodes: IntArray,
    boxes: FloatArray,
    listed: IntArray,
) -> None:
    """Make the tree of boxes; a polygon that reaches infinity has only the list of all forms.

    Args:
        blocks: The forms are in the last one.
        count: How many there are.
        sizes: Bounds on them; the fourth entry becomes the largest radius of a vertex for which the
            tree holds.
        edges: Has the polygon.
        start: Its first row.
        n: Its number of rows.
        scale: The $X$.
        nodes: For each node its first child, or below 0 none; where its list starts; its length.
        boxes: Middle and half widths of each.
        listed: The lists.
    """
    for m in range(count):
        listed[m] = m
    nodes[0, 0] = -1
    nodes[0, 1] = 0
    nodes[0, 2] = count
    sizes[3] = -1.0
    x0 = y0 = _BEYOND
    x1 = y1 = -_BEYOND
    for v in range(start, start + n):
        if edges[v, DX] != 0.0 or edges[v, DY] != 0.0 or not edges[v, RHO] < _BEYOND:
            return
        x0 = min(x0, edges[v, X] - edges[v, RHO])
        x1 = max(x1, edges[v, X] + edges[v, RHO])
        y0 = min(y0, edges[v, Y] - edges[v, RHO])
        y1 = max(y1, edges[v, Y] + edges[v, RHO])
    size = max(max(abs(x0), abs(x1)), max(abs(y0), abs(y1)))
    if not sizes[0] * size + sizes[1] + sizes[2] < 1e300:
        return
    sizes[3] = _BLUR * size
    # A difference of two forms anywhere in a box, or at a vertex that may lie beside it.
    error = 8.0 * KAPPA * (sizes[0] * size + sizes[1])
    error += 4.0 * sizes[2] * (2.0 * size / scale + 1.0)
    error += 2.0 * (sizes[0] + 2.0 * sizes[2] / scale) * sizes[3]
    error = error * UP + TINY
    # Wider than rounding of the middles, and than halves of the smallest numbers.
    rim = 2.0**-45 * size + LEAST
    boxes[0, 0] = 0.5 * x0 + 0.5 * x1
    boxes[0, 1] = 0.5 * y0 + 0.5 * y1
    boxes[0, 2] = 0.5 * x1 - 0.5 * x0 + rim
    boxes[0, 3] = 0.5 * y1 - 0.5 * y0 + rim
    n_nodes = 1
    used = count
    i = 0
    while i < n_nodes:
        length = nodes[i, 2]
        is_wide = boxes[i, 2] > _BLUR * size or boxes[i, 3] > _BLUR * size
        has_room = n_nodes + 4 <= nodes.shape[0] and used + 4 * length <= listed.shape[0]
        if length > _SHORT and is_wide and has_room:
            nodes[i, 0] = n_nodes
            for q in range(4):
                child = n_nodes + q
                boxes[child, 2] = 0.5 * boxes[i, 2] + rim
                boxes[child, 3] = 0.5 * boxes[i, 3] + rim
                boxes[child, 0] = boxes[i, 0] + (0.5 if q % 2 == 1 else -0.5) * boxes[i, 2]
                boxes[child, 1] = boxes[i, 1] + (0.5 if q >= 2 else -0.5) * boxes[i, 3]
                nodes[child, 0] = -1
                nodes[child, 1] = used
                nodes[child, 2] = _shortened(
                    blocks, listed, nodes[i, 1], length, used, boxes, child, error
                )
                used += nodes[child, 2]
            n_nodes += 4
        i += 1


@numba.njit(cache=True, _nrt=False)
def _shortened(
    blocks: FloatArray,
    listed: IntArray,
    source: int,
    length: int,
    to: int,
    boxes: FloatArray,
    box: int,
    error: float,
) -> int:
    """List the forms of a list that no form leading at the middle or a corner exceeds on a box."""
    f = blocks.shape[0] - 1
    x, y, hx, hy = boxes[box, 0], boxes[box, 1], boxes[box, 2], boxes[box, 3]
    for corner in range(5):
        px = x if corner == 0 else (x - hx if corner % 2 == 1 else x + hx)
        py = y if corner == 0 else (y - hy if corner <= 2 else y + hy)
        leader = listed[source]
        best = -_BEYOND
        for p in range(source, source + length):
            m = listed[p]
            value = blocks[f, 0, m] * px + blocks[f, 1, m] * py + blocks[f, 2, m]
            if value > best:
                best = value
                leader = m
        a1, a2, c = blocks[f, 0, leader], blocks[f, 1, leader], blocks[f, 2, leader]
        kept = 0
        for p in range(source, source + length):
            m = listed[p]
            d1, d2, d3 = a1 - blocks[f, 0, m], a2 - blocks[f, 1, m], c - blocks[f, 2, m]
            least = d1 * x + d2 * y + d3 - (abs(d1) * hx + abs(d2) * hy)
            if not least > error:
                listed[to + kept] = m
                kept += 1
        source, length = to, kept
    return length


@numba.njit(cache=True, _nrt=False)
def box_of(x: float, y: float, nodes: IntArray, boxes: FloatArray, sizes: FloatArray) -> int:
    """Return the smallest box around a point; the first node if there is none."""
    if not sizes[3] >= 0.0:
        return 0
    if not (abs(x - boxes[0, 0]) <= boxes[0, 2] and abs(y - boxes[0, 1]) <= boxes[0, 3]):
        return 0
    i = 0
    while nodes[i, 0] >= 0:
        i = nodes[i, 0] + (1 if x >= boxes[i, 0] else 0) + (2 if y >= boxes[i, 1] else 0)
    return int(i)


@numba.njit(cache=True, _nrt=False)
def list_at(
    edges: FloatArray, row: int, nodes: IntArray, boxes: FloatArray, sizes: FloatArray
) -> int:
    """Return the node whose list has all forms that may be the largest at a vertex."""
    if edges[row, DX] != 0.0 or edges[row, DY] != 0.0 or not edges[row, RHO] <= sizes[3]:
        return 0
    return int(box_of(edges[row, X], edges[row, Y], nodes, boxes, sizes))
