"""A polygon split by a ReLU unit, or by the winner of a group. No checks: see `planar_search`."""

import numba

from hardmax._kernels.layouts import (
    AT_STARTS,
    IS_HOMOGENEOUS,
    IS_MERGED,
    PARKED,
    STACK_FULL,
    WIDTH,
    Tables,
)
from hardmax._kernels.planar_buffers import MARK, N_CUTS, N_ITEMS, ONGOING, SHIFT, Frames, Stack
from hardmax._kernels.planar_clipping import copy_rows, cut, signs_into
from hardmax._kernels.planar_groups import cull, difference, is_origin, unit_form
from hardmax._kernels.planar_rays import pencils_of
from hardmax._kernels.planar_signs import UNDECIDED, Pencils, in_pencil, sign_at
from hardmax._kernels.planar_trees import gather, plant
from hardmax._kernels.planar_walks import (
    WALK_FROM,
    compare,
    largest_rival,
    lead_in_the_middle,
    next_tie,
    push_neighbours,
)
from hardmax._kernels.varying_forms import wall_of
from hardmax.typing import FloatArray, IntArray


@numba.njit(cache=True, _nrt=False)
def split_by_unit(
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
    first: IntArray,
    is_homogeneous: bool,
    pencils: Pencils,
    scale: float,
    expansion: FloatArray,
) -> int:
    """Split the polygon on top by pending ReLU units until the one on top has none left."""
    while True:
        top = state[N_ITEMS] - 1
        start, n, layer, position = items[top, 0], items[top, 1], items[top, 2], items[top, 3]
        if position == n_pending:
            return ONGOING
        if start + 3 * n + 6 > edges.shape[0] or top + 2 > items.shape[0]:
            return STACK_FULL
        unit = pending[layer, position]
        g = unit_form(blocks, b, unit, is_homogeneous, scale)
        if first[layer, unit] != unit:
            winner = _settled_winner(
                edges, labels, start, n, g, pencils, expansion, state, pending, winners, first, top,
                position, layer,
            )  # fmt: skip
            if winner >= 0:
                winners[top, position] = winner
                items[top, 3] = position + 1
                continue
        n_positive, n_negative = signs_into(
            edges, labels, start, n, g, pencils, signs, expansion, state
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
        # Both parts are written above the polygon; its rows are free again when they are done.
        to = start + n
        upper = cut(edges, labels, start, n, signs, 1, g, (where, SHIFT, state[N_CUTS]), to, to, 0)
        lower = cut(
            edges, labels, start, n, signs, -1, g, (where, 1, state[N_CUTS]), to + upper, to, upper
        )
        items[top, 0] = to
        items[top, 1] = upper
        items[top + 1, 0] = to + upper
        items[top + 1, 1] = lower
        items[top + 1, 2] = layer
        items[top + 1, 3] = position + 1
        for p in range(position):
            winners[top + 1, p] = winners[top, p]
        winners[top + 1, position] = 0
        state[N_ITEMS] += 1


@numba.njit(cache=True, _nrt=False)
def _settled_winner(
    edges: FloatArray,
    labels: IntArray,
    start: int,
    n: int,
    g: tuple[float, float, float, float, float],
    pencils: Pencils,
    expansion: FloatArray,
    state: IntArray,
    pending: IntArray,
    winners: IntArray,
    first: IntArray,
    top: int,
    position: int,
    layer: int,
) -> int:
    """Return the winner of a unit whose wall has already split the polygon; -1 if it has not."""
    code = first[layer, pending[layer, position]]
    twin = wall_of(first, layer, pending[layer, position])
    p = position - 1
    while p >= 0 and pending[layer, p] != twin:
        p -= 1
    if p < 0:
        return -1
    if code >= 0:
        return int(winners[top, p])
    if winners[top, p] == 1:
        return 0
    # The opposite of a form that is nowhere positive: positive, unless both vanish everywhere.
    for i in range(start, start + n):
        before = i - 1 if i > start else start + n - 1
        if sign_at(edges, labels, before, i, g, pencils, expansion, state) == 1:
            return 1
    return -1


@numba.njit(cache=True, _nrt=False, inline="always")
def split_by_group(tables: Tables, frames: Frames, stack: Stack) -> int:
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
    scores, scale = tables.layout.shape[0] + layer, tables.scale[0]
    walks = count >= WALK_FROM
    if walks:
        gather(frames.blocks, scores, order, first, count, frames.sizes)
        plant(
            frames.blocks, count, frames.sizes, edges, start, n, scale, frames.nodes, frames.boxes,
            frames.listed,
        )  # fmt: skip
    else:
        count = cull(
            frames.blocks, scores, scale, edges, labels,
            pencils_of(tables.layout, frames.flags, layer),
            tables.layout[layer, IS_HOMOGENEOUS] == 1, start, n, count, frames.work, order, state,
        )  # fmt: skip
        if count == 1:
            winners[top, position] = order[1, 0] - first
            items[top, 3] = position + 1
            return ONGOING
    # Parts are looked for one by one: all of them, or those that are met on the way.
    n_queued = 0 if walks else count
    if walks:
        m = lead_in_the_middle(frames.blocks, count, edges, start, n, frames.work)
        order[2, 0] = m
        order[3, m] = 1
        n_queued = 1
    end, item, w = start + n, top, 0
    while w < n_queued:
        if end + 2 * (n + count + 2) > edges.shape[0] or item + 2 > items.shape[0]:
            return STACK_FULL
        m = order[2, w] if walks else w
        w += 1
        if walks:
            size = _walked_part(tables, frames, stack, group, first, count, m, end)
        else:
            size = _winning_part(tables, frames, stack, group, first, count, m, end)
        if size < 0:
            return PARKED
        if size > 0:
            item += 1
            items[item, 0] = end - n
            items[item, 1] = size
            for p in range(position):
                winners[item, p] = winners[top, p]
            winners[item, position] = order[1, m] - first
        if size > 0 and walks:
            n_queued = push_neighbours(
                frames.blocks, m, edges, labels, end, size, state[N_CUTS] + 1, order, n_queued,
                frames.nodes, frames.boxes, frames.listed, frames.sizes, scale, frames.work,
            )  # fmt: skip
        end += size
        if w == n_queued and item == top:
            # The first form wins nowhere: rounding, or an equal form before it. Try the others.
            for m in range(count):
                if order[3, m] == 0:
                    order[3, m] = 1
                    order[2, n_queued] = m
                    n_queued += 1
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
    return ONGOING


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
    pencils = pencils_of(tables.layout, frames.flags, layer)
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
            edges, labels, area, n, g, pencils, stack.signs, frames.expansion, state
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
def _walked_part(
    tables: Tables,
    frames: Frames,
    stack: Stack,
    group: int,
    first: int,
    count: int,
    w: int,
    to: int,
) -> int:
    """Do the same, comparing only with forms that are large at a vertex (see `planar_walks`)."""
    state, edges, labels = stack.state, stack.edges, stack.labels
    top = state[N_ITEMS] - 1
    n, layer = stack.items[top, 1], stack.items[top, 2]
    b = tables.layout.shape[0] + layer
    is_homogeneous = tables.layout[layer, IS_HOMOGENEOUS] == 1
    pencils = pencils_of(tables.layout, frames.flags, layer)
    area, other = to, to + n + count + 2
    winner, where, number = frames.order[1, w], layer * SHIFT + group, state[N_CUTS] + 1
    copy_rows(edges, labels, stack.items[top, 0], n, area)
    for i in range(area, area + n):
        labels[i, MARK] = 0
    # Vertices are marked: 0, nothing is known; -1, no form certainly exceeds this one; 1 and 2, no
    # form exceeds it at all, and none, or some, tie beside those that name the edges.
    since = 0
    while True:
        v = _least_marked(labels, area, n)
        row, before = area + v, area + v - 1 if v > 0 else area + n - 1
        mark = labels[row, MARK]
        if mark > 0:
            break
        if mark == 0:
            m = largest_rival(
                frames.blocks, w, edges, row, frames.nodes, frames.boxes, frames.listed,
                frames.sizes, tables.scale[0], frames.work,
            )  # fmt: skip
            if m < 0:
                labels[row, MARK] = -1
                continue
        elif (is_homogeneous and is_origin(edges, row)) or in_pencil(labels, before, row, pencils):
            # All forms vanish here; those that coincide are met at the other vertices.
            labels[row, MARK] = 2
            continue
        else:
            m, since = next_tie(
                frames.blocks, w, edges, labels, before, row, number, since, frames.order,
                frames.nodes, frames.boxes, frames.listed, frames.sizes, tables.scale[0],
            )  # fmt: skip
            if m < 0:
                labels[row, MARK] = 2 if since > 0 else 1
                since = 0
                continue
        rival = frames.order[1, m]
        g = difference(frames.blocks, b, winner, rival, is_homogeneous, tables.scale[0])
        if mark < 0:
            sign = compare(edges, labels, area, n, g, pencils, frames.expansion, state)
            if sign == UNDECIDED:
                return -1
            if sign == 0 and not _contribute_alike(tables, frames, layer, winner, rival):
                return -1
            if sign == 0 and winner > rival:
                return 0
            if sign >= 0:
                continue
        n_positive, n_negative = signs_into(
            edges, labels, area, n, g, pencils, stack.signs, frames.expansion, state
        )
        if n_positive < 0:
            return -1
        if n_positive == 0:
            return 0
        if n_negative > 0:
            label = (where, (winner - first) * SHIFT + (rival - first), number)
            n = cut(edges, labels, area, n, stack.signs, 1, g, label, other, 0, 0)
            area, other = other, area
            since = 0
    if area != to:
        copy_rows(edges, labels, area, n, to)
    return int(n)


@numba.njit(cache=True, _nrt=False)
def _least_marked(labels: IntArray, start: int, n: int) -> int:
    """Return a vertex to go on with: an unknown one, else one with ties, else any."""
    chosen = 0
    for v in range(n):
        mark = labels[start + v, MARK]
        if mark == 0:
            return v
        if mark < 0:
            chosen = v
    return chosen


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
