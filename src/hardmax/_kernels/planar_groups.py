r"""Who can win in a group of forms on a polygon. No checks: see callers.

A form is dropped only when one rival exceeds it at every vertex: then it does so everywhere. That
no vertex is won by a form says nothing, since it can win only inside.
"""

import numba

from hardmax._kernels.expansions import two_sum
from hardmax._kernels.layouts import AT_STARTS, IS_HOMOGENEOUS, IS_RELU, N_GROUPS, N_PENDING, Tables
from hardmax._kernels.planar_buffers import DRHO, DX, DY, N_FILTERED, RHO, Frames, Stack, X, Y
from hardmax._kernels.planar_rays import NO_PENCILS
from hardmax._kernels.planar_signs import KAPPA, TINY, UP, Pencils, in_pencil
from hardmax.typing import FloatArray, IntArray

_BEYOND = 1e308


@numba.njit(cache=True, _nrt=False, inline="always")
def analyse(tables: Tables, frames: Frames, stack: Stack, layer: int, start: int, n: int) -> None:
    """Find the groups of a layer that have one winner on a whole polygon; list the others."""
    layout = tables.layout
    if layout[layer, IS_RELU] == 1:
        frames.flags[layer, N_PENDING] = _analyse_units(
            frames.blocks, layout.shape[0] + layer, frames.work, frames.fixed, frames.pending,
            stack.state, stack.edges, layer, layout[layer, N_GROUPS],
            layout[layer, IS_HOMOGENEOUS] == 1, tables.scale[0], start, n,
        )  # fmt: skip
    else:
        frames.flags[layer, N_PENDING] = _analyse_groups(tables, frames, stack, layer, start, n)


@numba.njit(cache=True, _nrt=False, inline="always")
def _analyse_groups(
    tables: Tables, frames: Frames, stack: Stack, layer: int, start: int, n: int
) -> int:
    """Do so for groups of any size; return how many are pending."""
    layout, candidates = tables.layout, frames.candidates
    scores = layout.shape[0] + layer
    n_pending = 0
    for g in range(layout[layer, N_GROUPS]):
        first = tables.indices[layout[layer, AT_STARTS] + g]
        end = tables.indices[layout[layer, AT_STARTS] + g + 1]
        count = 0
        for j in range(first, end):
            if tables.first[layer, j] == j:
                candidates[layer, first + count] = j
                frames.order[1, count] = j
                count += 1
        if count > 1:
            count = cull(
                frames.blocks, scores, tables.scale[0], stack.edges, stack.labels, NO_PENCILS,
                layout[layer, IS_HOMOGENEOUS] == 1, start, n, count, frames.work, frames.order,
                stack.state,
            )  # fmt: skip
            for m in range(count):
                candidates[layer, first + m] = frames.order[1, m]
        frames.n_candidates[layer, g] = count
        frames.fixed[layer, g] = candidates[layer, first] - first
        if count > 1:
            frames.pending[layer, n_pending] = g
            n_pending += 1
    return n_pending


@numba.njit(cache=True, _nrt=False)
def _bounds(edges: FloatArray, start: int, n: int) -> tuple[float, float, float]:
    """Return bounds on the coordinates, the radii and the radii at infinity."""
    size = 0.0
    rho = 0.0
    far_rho = 0.0
    for i in range(start, start + n):
        # Written so that NaN ends up in the bound.
        if not abs(edges[i, X]) <= size:
            size = abs(edges[i, X])
        if not abs(edges[i, Y]) <= size:
            size = abs(edges[i, Y])
        if not edges[i, RHO] <= rho:
            rho = edges[i, RHO]
        if not edges[i, DRHO] <= far_rho:
            far_rho = edges[i, DRHO]
    return size, rho, far_rho


@numba.njit(cache=True, _nrt=False)
def is_origin(edges: FloatArray, v: int) -> bool:
    """Say whether a finite vertex is the origin, where forms without offsets vanish.

    Such forms have one sign on a polygon if they have it at all its other vertices.
    """
    return bool(edges[v, X] == 0.0 and edges[v, Y] == 0.0 and edges[v, RHO] == 0.0)


@numba.njit(cache=True, _nrt=False)
def _analyse_units(
    blocks: FloatArray,
    b: int,
    work: FloatArray,
    fixed: IntArray,
    pending: IntArray,
    state: IntArray,
    edges: FloatArray,
    layer: int,
    n_units: int,
    is_homogeneous: bool,
    scale: float,
    start: int,
    n: int,
) -> int:
    """Do so for a layer of ReLU units, all of them at once; return how many are pending."""
    size, rho, far_rho = _bounds(edges, start, n)
    for i in range(n_units):
        work[0, i] = _BEYOND
        work[1, i] = -_BEYOND
    for v in range(start, start + n):
        x, y = edges[v, X], edges[v, Y]
        dx, dy = edges[v, DX], edges[v, DY]
        if dx == 0.0 and dy == 0.0:
            if is_homogeneous and is_origin(edges, v):
                continue
            for i in range(n_units):
                value = blocks[b, 0, i] * x + blocks[b, 1, i] * y + blocks[b, 2, i]
                low, high = work[0, i], work[1, i]
                work[0, i] = value if value < low else low
                work[1, i] = value if value > high else high
            continue
        for i in range(n_units):
            value = blocks[b, 0, i] * dx + blocks[b, 1, i] * dy
            error = (abs(blocks[b, 0, i]) + abs(blocks[b, 1, i])) * (KAPPA + far_rho)
            error = (error + 2.0 * blocks[b, 3, i] / scale * (1.0 + far_rho)) * UP + TINY
            if not value > error:
                work[0, i] = -_BEYOND
            if not value < -error:
                work[1, i] = _BEYOND
    reach = 2.0 * size / scale + 1.0 + 2.0 * rho / scale
    n_pending = 0
    for i in range(n_units):
        slopes = abs(blocks[b, 0, i]) + abs(blocks[b, 1, i])
        error = blocks[b, 3, i] * reach + slopes * rho
        # Infinite where a product overflows.
        error = (error + KAPPA * (slopes * size + abs(blocks[b, 2, i]))) * UP + TINY
        if work[0, i] > error:
            fixed[layer, i] = 1
        elif work[1, i] < -error:
            fixed[layer, i] = 0
        else:
            pending[layer, n_pending] = i
            n_pending += 1
    state[N_FILTERED] += n * (n_units - n_pending)
    return n_pending


@numba.njit(cache=True, _nrt=False)
def cull(
    blocks: FloatArray,
    b: int,
    scale: float,
    edges: FloatArray,
    labels: IntArray,
    pencils: Pencils,
    is_homogeneous: bool,
    start: int,
    n: int,
    count: int,
    work: FloatArray,
    order: IntArray,
    state: IntArray,
) -> int:
    """Keep the members that no single rival exceeds at all vertices; return how many.

    Rivals tried are the winners at the middle and at each vertex, as rounded values have it; which
    rivals are tried changes only how much is dropped here.

    Args:
        blocks: All blocks.
        b: The block of the scores.
        scale: The $X$.
        edges: Has the polygon.
        labels: Its labels.
        pencils: Which forms vanish together.
        is_homogeneous: Whether the forms have no offsets.
        start: Its first row.
        n: Its number of rows.
        count: How many forms compete.
        work: Scratch.
        order: The forms that compete are in its second row; overwritten with those kept.
        state: Counters.
    """
    size, rho, far_rho = _bounds(edges, start, n)
    reach = 2.0 * size / scale + 1.0 + 2.0 * rho / scale
    mx = 0.0
    my = 0.0
    for v in range(start, start + n):
        mx += edges[v, X] / n
        my += edges[v, Y] / n
    for m in range(count):
        j = order[1, m]
        slopes = abs(blocks[b, 0, j]) + abs(blocks[b, 1, j])
        error = blocks[b, 3, j] * reach + slopes * rho
        error += KAPPA * (slopes * size + abs(blocks[b, 2, j]))
        work[0, m] = error * UP + TINY
        error = slopes * (KAPPA + far_rho) + 2.0 * blocks[b, 3, j] / scale * (1.0 + far_rho)
        work[1, m] = error * UP + TINY
    for v in range(-1, n):
        if count == 1:
            break
        row = start + v
        x = mx if v < 0 else edges[row, X]
        y = my if v < 0 else edges[row, Y]
        if v >= 0 and (edges[row, DX] != 0.0 or edges[row, DY] != 0.0):
            x = edges[row, DX]
            y = edges[row, DY]
        lead = 0
        best = -_BEYOND
        for m in range(count):
            j = order[1, m]
            value = blocks[b, 0, j] * x + blocks[b, 1, j] * y + blocks[b, 2, j]
            if value > best:
                best = value
                lead = m
        leader = order[1, lead]
        error, far_error = work[0, lead], work[1, lead]
        n_kept = 0
        for m in range(count):
            j = order[1, m]
            if j != leader and _exceeds(
                blocks, b, leader, j, edges, labels, pencils, is_homogeneous, start, n,
                error + work[0, m], far_error + work[1, m],
            ):  # fmt: skip
                continue
            order[1, n_kept] = j
            work[0, n_kept] = work[0, m]
            work[1, n_kept] = work[1, m]
            n_kept += 1
        state[N_FILTERED] += n * (count - n_kept)
        count = n_kept
    return count


@numba.njit(cache=True, _nrt=False)
def _exceeds(
    blocks: FloatArray,
    b: int,
    leader: int,
    j: int,
    edges: FloatArray,
    labels: IntArray,
    pencils: Pencils,
    is_homogeneous: bool,
    start: int,
    n: int,
    error: float,
    far_error: float,
) -> bool:
    """Say whether one form certainly exceeds another at all vertices where not all forms vanish."""
    d1 = blocks[b, 0, leader] - blocks[b, 0, j]
    d2 = blocks[b, 1, leader] - blocks[b, 1, j]
    d3 = blocks[b, 2, leader] - blocks[b, 2, j]
    # The differences round; the errors of both forms, KAPPA times their sizes, pay for that.
    for v in range(start, start + n):
        if edges[v, DX] != 0.0 or edges[v, DY] != 0.0:
            if not d1 * edges[v, DX] + d2 * edges[v, DY] > far_error * UP:
                return False
        elif not d1 * edges[v, X] + d2 * edges[v, Y] + d3 > error * UP:
            if is_homogeneous and is_origin(edges, v):
                continue
            if not in_pencil(labels, v - 1 if v > start else start + n - 1, v, pencils):
                return False
    return True


@numba.njit(cache=True, _nrt=False, inline="always")
def unit_form(
    blocks: FloatArray, b: int, unit: int, is_homogeneous: bool, scale: float
) -> tuple[float, float, float, float, float]:
    """Return the score of a ReLU unit, with the radius of a slope and that of the offset."""
    radius = blocks[b, 3, unit]
    # The quotient may underflow, and a radius of 0 would say that the form is exact.
    slope_radius = radius / scale + (TINY if radius > 0.0 else 0.0)
    offset_radius = 0.0 if is_homogeneous else radius
    return blocks[b, 0, unit], blocks[b, 1, unit], blocks[b, 2, unit], slope_radius, offset_radius


@numba.njit(cache=True, _nrt=False)
def difference(
    blocks: FloatArray, b: int, plus: int, minus: int, is_homogeneous: bool, scale: float
) -> tuple[float, float, float, float, float]:
    """Return one form less another, with the radius of a slope and that of the offset."""
    radius = blocks[b, 3, plus] + blocks[b, 3, minus]
    d1, lost1 = two_sum(blocks[b, 0, plus], -blocks[b, 0, minus])
    d2, lost2 = two_sum(blocks[b, 1, plus], -blocks[b, 1, minus])
    d3, lost3 = two_sum(blocks[b, 2, plus], -blocks[b, 2, minus])
    # Sums, not maxima: NaN stays NaN. The quotient may underflow, and 0 would say "exact".
    slope_radius = (radius / scale + (abs(lost1) + abs(lost2))) * UP
    slope_radius += TINY if radius > 0.0 else 0.0
    offset_radius = 0.0 if is_homogeneous else (radius + abs(lost3)) * UP
    return d1, d2, d3, slope_radius, offset_radius
