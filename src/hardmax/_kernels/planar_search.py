"""The planar search: polygons split layer by layer, depth first. No checks: see callers.

The polygon on top of the stack belongs to a layer and to the frame of that layer, which holds the
forms composed once for the whole region. It is split by one pending group after the other; when
none is left its map is composed, and it becomes a region of the next layer, or a cell. All polygons
of one layer that are on the stack lie in the same region, because deeper ones are on top of them;
hence one frame for each layer is enough, and the winners on the path name every line.

An undecided sign leaves the stack as it is and returns `PARKED`: the polygon on top has to be split
by its next group in exact arithmetic. A cell with a vertex that is not known to a few digits comes
back as `BLURRED`, to have its vertices computed from its lines.
"""

import numba
import numpy as np

from hardmax._kernels.planar_buffers import (
    AT_STARTS,
    BLURRED,
    BUDGET,
    CELL_LIMIT,
    DONE,
    FIRST_GROUP,
    IS_HOMOGENEOUS,
    IS_MERGED,
    IS_PENCIL,
    IS_RELU,
    IS_SHARP,
    LEAVES_FULL,
    N_CELLS,
    N_CUTS,
    N_GROUPS,
    N_ITEMS,
    N_LEAVES,
    N_PENDING,
    N_VERTICES,
    PARKED,
    SHIFT,
    STACK_FULL,
    WIDTH,
    Frames,
    Leaves,
    Stack,
    Tables,
)
from hardmax._kernels.planar_clipping import copy_rows, cut, signs_into
from hardmax._kernels.planar_composition import (
    compose_output,
    compose_scores,
)
from hardmax._kernels.planar_groups import analyse, cull, difference
from hardmax._kernels.planar_leaves import adds_units, is_blurred, store
from hardmax._kernels.planar_signs import TINY
from hardmax.typing import FloatArray, IntArray

_ONGOING = -1


@numba.njit(cache=True, _nrt=False)
def search(
    tables: Tables,
    frames: Frames,
    stack: Stack,
    leaves: Leaves,
    stores: bool,
    limit: int,
    budget: int,
) -> int:
    """Go on splitting until something has to be done outside; return what.

    Args:
        tables: The network.
        frames: The forms on the path.
        stack: The polygons.
        leaves: Where cells go.
        stores: Whether cells are stored, or only counted.
        limit: How many cells to find at most, or -1.
        budget: How many steps to make at most.
    """
    state, items, layout, flags = stack.state, stack.items, tables.layout, frames.flags
    n_layers = layout.shape[0] - 1
    for _ in range(budget):
        if state[N_ITEMS] == 0:
            return DONE
        if state[N_CELLS] == limit:
            return CELL_LIMIT
        top = state[N_ITEMS] - 1
        layer = items[top, 2]
        if layer == n_layers or items[top, 3] == flags[layer, N_PENDING]:
            status = _pass_on(tables, frames, stack, leaves, stores)
        elif layout[layer, IS_RELU] == 1:
            status = _split_by_unit(
                state, stack.edges, stack.labels, stack.signs, items, stack.winners, frames.blocks,
                layout.shape[0] + layer, frames.pending, flags[layer, N_PENDING],
                layout[layer, IS_HOMOGENEOUS] == 1,
                layer if layout[layer, IS_PENCIL] == 1 else -1, tables.scale[0], frames.expansion,
            )  # fmt: skip
        else:
            status = _split_by_group(tables, frames, stack)
        if status != _ONGOING:
            return int(status)
    return DONE if state[N_ITEMS] == 0 else BUDGET


@numba.njit(cache=True, _nrt=False)
def enter(tables: Tables, frames: Frames, stack: Stack) -> None:
    """Compose the scores of the layer of the polygon on top, and see which groups are open."""
    top = stack.state[N_ITEMS] - 1
    layer = stack.items[top, 2]
    compose_scores(tables, frames, layer)
    analyse(tables, frames, stack, layer, stack.items[top, 0], stack.items[top, 1])


@numba.njit(cache=True, _nrt=False, inline="always")
def _pass_on(tables: Tables, frames: Frames, stack: Stack, leaves: Leaves, stores: bool) -> int:
    """Send the polygon on top to the next layer, or store it as a cell."""
    state, items, signature = stack.state, stack.items, frames.signature
    n_layers = tables.layout.shape[0] - 1
    top = state[N_ITEMS] - 1
    start, n, layer = items[top, 0], items[top, 1], items[top, 2]
    is_last = layer >= n_layers - 1
    if is_last and stores:
        room = state[N_VERTICES] + n <= leaves.points.shape[0]
        if state[N_LEAVES] >= leaves.radii.shape[0] or not room:
            return LEAVES_FULL
        if state[IS_SHARP] == 0 and is_blurred(stack.edges, start, n, tables.scale[0]):
            return BLURRED
        state[IS_SHARP] = 0
    if layer < n_layers and (stores or not is_last):
        first = tables.layout[layer, FIRST_GROUP]
        # Unsigned indices let the loop be vectorised.
        for g in range(np.uint64(tables.layout[layer, N_GROUPS])):
            signature[np.uint64(first) + g] = frames.fixed[layer, g]
        for p in range(frames.flags[layer, N_PENDING]):
            signature[first + frames.pending[layer, p]] = stack.winners[top, p]
        if not (is_last and adds_units(tables, frames, layer)):
            compose_output(tables, frames, layer)
    if not is_last:
        items[top, 2] = layer + 1
        items[top, 3] = 0
        enter(tables, frames, stack)
        return _ONGOING
    if stores:
        store(tables, frames, stack, leaves, start, n)
    state[N_CELLS] += 1
    state[N_ITEMS] -= 1
    return _ONGOING


@numba.njit(cache=True, _nrt=False)
def _split_by_unit(
    state: IntArray,
    edges: FloatArray,
    labels: IntArray,
    signs: IntArray,
    items: IntArray,
    winners: IntArray,
    blocks: FloatArray,
    b: int,
    pending: IntArray,
    n_pending: int,
    is_homogeneous: bool,
    pencil: int,
    scale: float,
    expansion: FloatArray,
) -> int:
    """Split the polygon on top by the sign of the next pending ReLU unit that cuts it, if any."""
    top = state[N_ITEMS] - 1
    start, n, layer = items[top, 0], items[top, 1], items[top, 2]
    if start + 3 * n + 6 > edges.shape[0] or top + 2 > items.shape[0]:
        return STACK_FULL
    for position in range(items[top, 3], n_pending):
        unit = pending[layer, position]
        radius = blocks[b, 3, unit]
        offset_radius = 0.0 if is_homogeneous else radius
        # The quotient may underflow, and a radius of 0 would say that the form is exact.
        slope_radius = radius / scale + (TINY if radius > 0.0 else 0.0)
        g = (
            blocks[b, 0, unit],
            blocks[b, 1, unit],
            blocks[b, 2, unit],
            slope_radius,
            offset_radius,
        )
        n_positive, n_negative = signs_into(
            edges, labels, start, n, g, pencil, signs, expansion, state
        )
        if n_positive < 0:
            return PARKED
        items[top, 3] = position + 1
        # A form that is zero everywhere coincides with the first form, zero.
        winners[top, position] = 1 if n_positive > 0 else 0
        if n_positive == 0 or n_negative == 0:
            continue
        state[N_CUTS] += 1
        where = layer * SHIFT + unit
        # Both parts are written above the polygon and then moved down over it.
        to = start + n
        upper = cut(edges, labels, start, n, signs, 1, g, (where, SHIFT, state[N_CUTS]), to, to, 0)
        lower = cut(
            edges, labels, start, n, signs, -1, g, (where, 1, state[N_CUTS]), to + upper, to, upper
        )
        copy_rows(edges, labels, to, upper + lower, start)
        items[top, 1] = upper
        items[top + 1, 0] = start + upper
        items[top + 1, 1] = lower
        items[top + 1, 2] = layer
        items[top + 1, 3] = position + 1
        for p in range(position):
            winners[top + 1, p] = winners[top, p]
        winners[top + 1, position] = 0
        state[N_ITEMS] += 1
        return _ONGOING
    return _ONGOING


@numba.njit(cache=True, _nrt=False, inline="always")
def _split_by_group(tables: Tables, frames: Frames, stack: Stack) -> int:
    """Split the polygon on top by the winner of its next group."""
    state, edges, labels = stack.state, stack.edges, stack.labels
    items, winners, order = stack.items, stack.winners, frames.order
    top = state[N_ITEMS] - 1
    start, n, layer, position = items[top, 0], items[top, 1], items[top, 2], items[top, 3]
    group = frames.pending[layer, position]
    first = tables.indices[tables.layout[layer, AT_STARTS] + group]
    count = frames.n_candidates[layer, group]
    for m in range(count):
        order[1, m] = frames.candidates[layer, first + m]
    count = cull(
        frames.blocks, tables.layout.shape[0] + layer, tables.scale[0], edges, labels,
        layer if tables.layout[layer, IS_PENCIL] == 1 else -1,
        tables.layout[layer, IS_HOMOGENEOUS] == 1, start, n, count, frames.work, order, state,
    )  # fmt: skip
    if count == 1:
        winners[top, position] = order[1, 0] - first
        items[top, 3] = position + 1
        return _ONGOING
    end, item = start + n, top
    for w in range(count):
        if end + 2 * (n + count + 2) > edges.shape[0] or item + 2 > items.shape[0]:
            return STACK_FULL
        size = _winning_part(tables, frames, stack, group, first, count, w, end)
        if size < 0:
            return PARKED
        if size == 0:
            continue
        item += 1
        items[item, 0] = end - n
        items[item, 1] = size
        for p in range(position):
            winners[item, p] = winners[top, p]
        winners[item, position] = order[1, w] - first
        end += size
    state[N_CUTS] += 1
    copy_rows(edges, labels, start + n, end - start - n, start)
    for i in range(top, item):
        items[i, 0] = items[i + 1, 0]
        items[i, 1] = items[i + 1, 1]
        items[i, 2] = layer
        items[i, 3] = position + 1
        for p in range(position + 1):
            winners[i, p] = winners[i + 1, p]
    state[N_ITEMS] = item
    return _ONGOING


@numba.njit(cache=True, _nrt=False, inline="always")
def _winning_part(
    tables: Tables,
    frames: Frames,
    stack: Stack,
    group: int,
    first: int,
    count: int,
    w: int,
    to: int,
) -> int:
    """Write the part of the polygon on top where one form wins; return its number of rows.

    The number is -1 if a sign is undecided.
    """
    state, edges, labels = stack.state, stack.edges, stack.labels
    top = state[N_ITEMS] - 1
    n, layer = stack.items[top, 1], stack.items[top, 2]
    b = tables.layout.shape[0] + layer
    is_homogeneous = tables.layout[layer, IS_HOMOGENEOUS] == 1
    pencil = layer if tables.layout[layer, IS_PENCIL] == 1 else -1
    spare = to + n + count + 2
    area, other = to, spare
    winner = frames.order[1, w]
    where = layer * SHIFT + group
    copy_rows(edges, labels, stack.items[top, 0], n, area)
    for r in range(count):
        if r == w:
            continue
        rival = frames.order[1, r]
        g = difference(frames.blocks, b, winner, rival, is_homogeneous, tables.scale[0])
        n_positive, n_negative = signs_into(
            edges, labels, area, n, g, pencil, stack.signs, frames.expansion, state
        )
        if n_positive < 0:
            return -1
        if n_positive == 0 and n_negative == 0:
            # Both forms are the same function: the first names the cell, the mean is passed on.
            if not _contribute_alike(tables, frames, layer, winner, rival):
                return -1
            if winner > rival:
                return 0
        elif n_positive == 0:
            return 0
        elif n_negative > 0:
            label = (where, (winner - first) * SHIFT + (rival - first), state[N_CUTS] + 1)
            n = cut(edges, labels, area, n, stack.signs, 1, g, label, other, 0, 0)
            area, other = other, area
    if area != to:
        copy_rows(edges, labels, area, n, to)
    return int(n)


@numba.njit(cache=True, _nrt=False, inline="always")
def _contribute_alike(tables: Tables, frames: Frames, layer: int, one: int, other: int) -> bool:
    """Say whether two coinciding forms of a group certainly contribute the same."""
    if frames.flags[layer, IS_MERGED] == 1:
        return True
    gains, values, blocks = tables.gains, tables.values, frames.blocks
    b = tables.layout.shape[0] + layer
    is_zero = True
    for k in range(4):
        is_zero = is_zero and blocks[b, k, one] == 0.0 and blocks[b, k, other] == 0.0
    for k in range(2):
        if not is_zero and gains[layer, k, one] != gains[layer, k, other]:
            return False
        # A radius stands for a number between floats: equal floats are then no proof.
        if not is_zero and k == 1 and gains[layer, 1, one] != 0.0:
            return False
    for k in range(tables.layout[layer, WIDTH]):
        if values[layer, 0, one, k] != values[layer, 0, other, k]:
            return False
        if values[layer, 1, one, k] + values[layer, 1, other, k] != 0.0:
            return False
    return True
