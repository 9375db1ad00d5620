r"""Large groups of forms split by walking from one winner to the next. No checks: see callers.

The part of a polygon where form $w$ wins is found from the polygon itself: at a vertex where some
form exceeds $w$, the polygon is cut by the largest such form; where none does, the vertex stays.
When all vertices stay, $w$ is the largest form at each of them, hence everywhere between, and the
polygon is the part: nothing else has to be compared. The parts are connected through their edges,
so that all are found from one by looking at who ties with $w$ along the edges.

Who can be the largest at a vertex is read from a tree of boxes (`planar_trees`), so that a part
with $k$ edges costs some $3 k$ looks at short lists, whatever the number of forms.
"""

import math

import numba

from hardmax._kernels.planar_buffers import (
    DRHO,
    DX,
    DY,
    MARK,
    RHO,
    SHIFT,
    X,
    Y,
)
from hardmax._kernels.planar_signs import KAPPA, TINY, UNDECIDED, UP, Pencils, sign_at
from hardmax._kernels.planar_trees import box_of, list_at
from hardmax.typing import FloatArray, IntArray

WALK_FROM = 24
"""Groups of at least so many forms are walked: measured, clipping by all is faster below."""
_BEYOND = 1e308


@numba.njit(cache=True, _nrt=False)
def lead_in_the_middle(
    blocks: FloatArray, count: int, edges: FloatArray, start: int, n: int, points: FloatArray
) -> int:
    """Return the position of the form that leads at the mean of the vertices, up to rounding."""
    f = blocks.shape[0] - 1
    x = 0.0
    y = 0.0
    for v in range(start, start + n):
        x += edges[v, X] / n
        y += edges[v, Y] / n
    leader = 0
    best = -_BEYOND
    for m in range(count):
        value = blocks[f, 0, m] * x + blocks[f, 1, m] * y + blocks[f, 2, m]
        if value > best:
            best = value
            leader = m
    for m in range(count):
        points[0, m] = math.nan
    points[0, leader] = x
    points[1, leader] = y
    return int(leader)


@numba.njit(cache=True, _nrt=False)
def blur_at(edges: FloatArray, row: int, sizes: FloatArray, scale: float) -> float:
    """Bound the error of a computed difference of two forms at a vertex."""
    slopes, offsets, radius = sizes[0], sizes[1], sizes[2]
    if edges[row, DX] != 0.0 or edges[row, DY] != 0.0:
        error = slopes * (4.0 * KAPPA + edges[row, DRHO])
        error += 2.0 * radius / scale * (1.0 + edges[row, DRHO])
        return float(2.0 * error * UP + TINY)
    size = max(abs(edges[row, X]), abs(edges[row, Y]))
    error = 4.0 * KAPPA * (slopes * size + offsets) + radius * (2.0 * size / scale + 1.0)
    error += (slopes + 2.0 * radius / scale) * edges[row, RHO]
    return float(2.0 * error * UP + TINY)


@numba.njit(cache=True, _nrt=False)
def lead_at(blocks: FloatArray, plus: int, minus: int, edges: FloatArray, row: int) -> float:
    """Return one form less another at a vertex, or along its direction."""
    f = blocks.shape[0] - 1
    d1 = blocks[f, 0, plus] - blocks[f, 0, minus]
    d2 = blocks[f, 1, plus] - blocks[f, 1, minus]
    if edges[row, DX] != 0.0 or edges[row, DY] != 0.0:
        return float(d1 * edges[row, DX] + d2 * edges[row, DY])
    d3 = blocks[f, 2, plus] - blocks[f, 2, minus]
    return float(d1 * edges[row, X] + d2 * edges[row, Y] + d3)


@numba.njit(cache=True, _nrt=False)
def largest_rival(
    blocks: FloatArray,
    w: int,
    edges: FloatArray,
    row: int,
    nodes: IntArray,
    boxes: FloatArray,
    listed: IntArray,
    sizes: FloatArray,
    scale: float,
    points: FloatArray,
) -> int:
    """Return a form that certainly exceeds form `w` at a vertex, or -1 if the largest does not.

    Of such forms the first one on the way from a point of the part to the vertex is looked for: it
    cuts off most. The point needs not be exact, since the answer exceeds `w` at the vertex anyway.
    """
    blur = blur_at(edges, row, sizes, scale)
    node = list_at(edges, row, nodes, boxes, sizes)
    x, y = edges[row, X], edges[row, Y]
    is_far = edges[row, DX] != 0.0 or edges[row, DY] != 0.0
    f = blocks.shape[0] - 1
    a1, a2, a3 = blocks[f, 0, w], blocks[f, 1, w], blocks[f, 2, w]
    px, py = points[0, w], points[1, w]
    rival = -1
    share = 1.0
    while True:
        best = blur
        found = -1
        for p in range(nodes[node, 1], nodes[node, 1] + nodes[node, 2]):
            m = listed[p]
            lead = (blocks[f, 0, m] - a1) * x + (blocks[f, 1, m] - a2) * y
            lead += blocks[f, 2, m] - a3
            if is_far:
                lead = lead_at(blocks, m, w, edges, row)
            if lead > best:
                best = lead
                found = m
        if found < 0 or (rival >= 0 and not lead_at(blocks, found, w, edges, row) > blur):
            return int(rival)
        at_point = (blocks[f, 0, found] - a1) * px + (blocks[f, 1, found] - a2) * py
        at_point += blocks[f, 2, found] - a3
        if is_far or not at_point < 0.0:
            return int(found)
        # Where this form ties: another one that exceeds `w` even there ties earlier. Rounding can
        # say so of forms that do not, so the way is only ever shortened, which ends.
        tie = at_point / (at_point - lead_at(blocks, found, w, edges, row))
        if not tie < share:
            return int(rival if rival >= 0 else found)
        rival = found
        share = tie
        x = px + share * (edges[row, X] - px)
        y = py + share * (edges[row, Y] - py)
        node = box_of(x, y, nodes, boxes, sizes)


@numba.njit(cache=True, _nrt=False)
def next_tie(
    blocks: FloatArray,
    w: int,
    edges: FloatArray,
    labels: IntArray,
    before: int,
    row: int,
    cut: int,
    since: int,
    order: IntArray,
    nodes: IntArray,
    boxes: FloatArray,
    listed: IntArray,
    sizes: FloatArray,
    scale: float,
) -> tuple[int, int]:
    """Return a form that may tie with form `w` at a vertex, or -1 if there is none left.

    The two forms that name the edges at the vertex are left out.

    Args:
        blocks: The forms are in the last one.
        w: The position of the form.
        edges: The rows of its polygon.
        labels: Their labels.
        before: The row of the edge that ends at the vertex.
        row: The row of the edge that starts there.
        cut: The number of the cut under way.
        since: 0 to begin; after that what was returned.
        order: See `gather`.
        nodes: See `plant`.
        boxes: Likewise.
        listed: Likewise.
        sizes: Likewise.
        scale: The $X$.

    Returns:
        The position of the form, and where to go on in the list.
    """
    node = list_at(edges, row, nodes, boxes, sizes)
    start, length = nodes[node, 1], nodes[node, 2]
    blur = blur_at(edges, row, sizes, scale)
    one = order[0, labels[before, 1] % SHIFT] if labels[before, 2] == cut else -1
    other = order[0, labels[row, 1] % SHIFT] if labels[row, 2] == cut else -1
    for p in range(since, length):
        m = listed[start + p]
        # Written so that NaN counts as a tie.
        if lead_at(blocks, m, w, edges, row) < -blur or m in (w, one, other):
            continue
        return int(m), p + 1
    return -1, since


@numba.njit(cache=True, _nrt=False)
def compare(
    edges: FloatArray,
    labels: IntArray,
    start: int,
    n: int,
    g: tuple[float, float, float, float, float],
    pencils: Pencils,
    expansion: FloatArray,
    state: IntArray,
) -> int:
    """Say how a form that is proven not negative at the vertices that are done goes on.

    Returns:
        1 if it is not negative anywhere, 0 if it vanishes everywhere, -1 if it is negative at some
        vertex, and `UNDECIDED`.
    """
    is_positive = False
    for done in range(2):
        for i in range(start, start + n):
            if (labels[i, MARK] > 0) != (done == 1) or (done == 1 and is_positive):
                continue
            before = i - 1 if i > start else start + n - 1
            sign = sign_at(edges, labels, before, i, g, pencils, expansion, state)
            if sign == UNDECIDED or sign < 0:
                return int(sign)
            is_positive = is_positive or sign > 0
    return 1 if is_positive else 0


@numba.njit(cache=True, _nrt=False)
def push_neighbours(
    blocks: FloatArray,
    w: int,
    edges: FloatArray,
    labels: IntArray,
    start: int,
    n: int,
    cut: int,
    order: IntArray,
    n_queued: int,
    nodes: IntArray,
    boxes: FloatArray,
    listed: IntArray,
    sizes: FloatArray,
    scale: float,
    points: FloatArray,
) -> int:
    """Queue the forms that may win across the new edges of a part; return the queue's length.

    A form that ties with `w` along an edge ties at both its ends. So if an end has no ties but
    those that name its edges, the form that names the edge is the only one; else all that tie at
    both ends are queued.
    """
    for i in range(start, start + n):
        if labels[i, 2] != cut:
            continue
        after = i + 1 if i + 1 < start + n else start
        # The middle of the edge is a point of the part across; infinite ends have none.
        x, y = 0.5 * edges[i, X] + 0.5 * edges[after, X], 0.5 * edges[i, Y] + 0.5 * edges[after, Y]
        if edges[i, DX] != 0.0 or edges[i, DY] != 0.0:
            x = math.nan
        if edges[after, DX] != 0.0 or edges[after, DY] != 0.0:
            x = math.nan
        if labels[i, MARK] == 1 or labels[after, MARK] == 1:
            m = order[0, labels[i, 1] % SHIFT]
            if order[3, m] == 0:
                order[3, m] = 1
                order[2, n_queued] = m
                points[0, m] = x
                points[1, m] = y
                n_queued += 1
            continue
        node = list_at(edges, i, nodes, boxes, sizes)
        here, there = blur_at(edges, i, sizes, scale), blur_at(edges, after, sizes, scale)
        for p in range(nodes[node, 1], nodes[node, 1] + nodes[node, 2]):
            m = listed[p]
            if order[3, m] == 1 or lead_at(blocks, m, w, edges, i) < -here:
                continue
            if not lead_at(blocks, m, w, edges, after) < -there:
                order[3, m] = 1
                order[2, n_queued] = m
                points[0, m] = x
                points[1, m] = y
                n_queued += 1
    return int(n_queued)
