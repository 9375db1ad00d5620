"""The spatial search: polytopes split layer by layer, depth first. No checks: see callers.

The cell on top of the stack belongs to a layer and to the frame of that layer, which holds the
forms composed once for the whole region. It is split by one pending group after the other; when
none is left its map is composed, and it becomes a region of the next layer, or a cell of the
answer. All cells of one layer that are on the stack lie in the same region, because deeper ones are
on top of them; hence one frame for each layer is enough, and the winners on the path name every
facet.

An undecided sign leaves the stack as it is: the cell on top is looked at in twice the precision,
and if that does not help, it comes back as `PARKED`, to be split by its next group in exact
arithmetic.
"""

import numba

from hardmax._kernels.composition import compose_output, compose_scores
from hardmax._kernels.layouts import (
    AT_STARTS,
    BUDGET,
    CELL_LIMIT,
    DONE,
    FIRST_GROUP,
    IS_RELU,
    LEAVES_FULL,
    N_GROUPS,
    N_PENDING,
    PARKED,
    STACK_FULL,
    Tables,
)
from hardmax._kernels.spatial_buffers import (
    CUT,
    F_COUNT,
    F_START,
    LAYER,
    MASKS_FULL,
    N_CELLS,
    N_CUTS,
    N_FILTERED,
    N_ITEMS,
    N_POOL,
    N_TIES,
    POOL_END,
    POSITION,
    SCRATCH_FULL,
    TIES_END,
    V_COUNT,
    V_START,
    Frames,
    Leaves,
    Scratch,
    Stack,
)
from hardmax._kernels.spatial_cells import (
    drop_facets,
    move_vertices,
    new_vertices,
    normalise,
    write_side,
)
from hardmax._kernels.spatial_groups import (
    analyse,
    contribute_alike,
    cull,
    put_difference,
    put_unit,
)
from hardmax._kernels.spatial_leaves import has_room, note_ties, store
from hardmax._kernels.spatial_sharpening import sharpen
from hardmax._kernels.spatial_signs import bounds, signs_into
from hardmax._kernels.varying_forms import note_varying
from hardmax.typing import FloatArray

_ONGOING = -1
_EMPTY = -2


@numba.njit(cache=True, _nrt=False)
def search(
    tables: Tables,
    frames: Frames,
    doubled: FloatArray,
    stack: Stack,
    scratch: Scratch,
    leaves: Leaves,
    stores: bool,
    limit: int,
    budget: int,
) -> int:
    """Go on splitting until something has to be done outside; return what.

    Args:
        tables: The network.
        frames: The forms on the path.
        doubled: Room for them in twice the precision; has the first stream.
        stack: The cells.
        scratch: Room to work in.
        leaves: Where cells of the answer go.
        stores: Whether they are stored, or only counted.
        limit: How many to find at most, or -1.
        budget: How many steps to make at most.
    """
    state, items = stack.state, stack.items
    n_layers = tables.layout.shape[0] - 1
    for _ in range(budget):
        if state[N_ITEMS] == 0:
            return DONE
        if state[N_CELLS] == limit:
            return CELL_LIMIT
        top = state[N_ITEMS] - 1
        layer = items[top, LAYER]
        state[N_POOL] = items[top, POOL_END]
        state[N_TIES] = items[top, TIES_END]
        if layer == n_layers or items[top, POSITION] == frames.flags[layer, N_PENDING]:
            status = _pass_on(tables, frames, stack, scratch, leaves, stores)
        elif tables.layout[layer, IS_RELU] == 1:
            status = _split_by_units(tables, frames, stack, scratch)
        else:
            status = _split_by_group(tables, frames, stack, scratch)
        if status == PARKED and sharpen(tables, frames, doubled, stack, scratch):
            continue
        if status != _ONGOING:
            return int(status)
    return DONE if state[N_ITEMS] == 0 else BUDGET


@numba.njit(cache=True, _nrt=False)
def enter(tables: Tables, frames: Frames, stack: Stack) -> None:
    """Compose the scores of the layer of the cell on top, and see which groups are open."""
    top = stack.state[N_ITEMS] - 1
    layer = stack.items[top, LAYER]
    compose_scores(tables, frames, layer, frames.axes)
    if stack.points.shape[1] > len(frames.axes) + 1:
        note_varying(tables, frames, layer, frames.axes)
    analyse(tables, frames, stack, layer, top)


@numba.njit(cache=True, _nrt=False, forceinline=True)
def _pass_on(
    tables: Tables, frames: Frames, stack: Stack, scratch: Scratch, leaves: Leaves, stores: bool
) -> int:
    """Send the cell on top to the next layer, or store it."""
    state, items, signature = stack.state, stack.items, frames.signature
    n_layers = tables.layout.shape[0] - 1
    top = state[N_ITEMS] - 1
    layer = items[top, LAYER]
    is_last = layer >= n_layers - 1
    if is_last and stores and not has_room(frames, stack, leaves, top):
        return LEAVES_FULL
    if layer < n_layers:
        offset = tables.layout[layer, FIRST_GROUP]
        for g in range(tables.layout[layer, N_GROUPS]):
            signature[offset + g] = frames.fixed[layer, g]
        for p in range(frames.flags[layer, N_PENDING]):
            signature[offset + frames.pending[layer, p]] = stack.winners[top, p]
        if not is_last:
            compose_output(tables, frames, layer, frames.axes)
    if not is_last:
        items[top, LAYER] = layer + 1
        items[top, POSITION] = 0
        enter(tables, frames, stack)
        return _ONGOING
    if stores:
        store(tables, frames, stack, scratch, leaves, top)
    state[N_CELLS] += 1
    state[N_ITEMS] -= 1
    return _ONGOING


@numba.njit(cache=True, _nrt=False, forceinline=True)
def _split_by_units(tables: Tables, frames: Frames, stack: Stack, scratch: Scratch) -> int:
    """Split the cell on top by the sign of its next ReLU unit that has two."""
    state, items, points = stack.state, stack.items, stack.points
    top = state[N_ITEMS] - 1
    start, n, layer = items[top, V_START], items[top, V_COUNT], items[top, LAYER]
    f_start = items[top, F_START]
    row, names = state[N_POOL], stack.names
    if row >= stack.pool.shape[0] or top + 2 > items.shape[0]:
        return STACK_FULL
    if n > scratch.signs.shape[0]:
        return SCRATCH_FULL
    offset = tables.layout[layer, FIRST_GROUP]
    size, rho = bounds(points, start, n, frames.blocks.shape[1] - 2)
    n_pending = frames.flags[layer, N_PENDING]
    n_positive = 0
    n_negative = 0
    while True:
        position = items[top, POSITION]
        if position == n_pending:
            return _ONGOING
        unit = frames.pending[layer, position]
        put_unit(tables, frames, stack, layer, unit, row)
        names[row, 0], names[row, 1], names[row, 2], names[row, 3] = layer, unit, 1, 0
        names[row, CUT] = state[N_CUTS]
        n_positive, n_negative = signs_into(
            tables, frames, stack, scratch, start, n, f_start, row, size, rho
        )
        if n_positive < 0:
            return PARKED
        state[N_FILTERED] += n
        if n_positive > 0 and n_negative > 0:
            break
        # A form that is zero everywhere coincides with the first form, zero.
        winner = 1 if n_positive > 0 else 0
        n_zero = n - n_positive - n_negative
        if n_zero > 0 and not note_ties(
            stack, scratch, start, n, n_zero, f_start, items[top, F_COUNT], offset + unit, winner
        ):
            return STACK_FULL
        items[top, TIES_END] = state[N_TIES]
        stack.winners[top, position] = winner
        items[top, POSITION] = position + 1
    n_facets = items[top, F_COUNT]
    if n_facets == 64 * stack.masks.shape[1]:
        n_facets = drop_facets(stack, scratch, start, n, f_start, n_facets)
        items[top, F_COUNT] = n_facets
        if n_facets == 64 * stack.masks.shape[1]:
            return MASKS_FULL
    normalise(stack, row)
    n_fresh = new_vertices(stack, scratch, start, n, f_start, row, n_facets)
    if n_fresh < 0:
        return SCRATCH_FULL
    n_kept = n - n_negative + n_fresh
    n_lower = n - n_positive + n_fresh
    # The lower part stays where it is; a gap above it is cheaper than moving the upper one twice.
    upper = start + max(n, n_lower)
    if upper + n_kept > points.shape[0]:
        return STACK_FULL
    if f_start + 2 * (n_facets + 1) > stack.facets.shape[0]:
        return STACK_FULL
    write_side(stack, scratch, start, n, 1, n_fresh, n_facets, upper)
    write_side(stack, scratch, start, n, -1, n_fresh, n_facets, start)
    facets = stack.facets
    facets[f_start + n_facets] = row
    for f in range(n_facets + 1):
        facets[f_start + n_facets + 1 + f] = facets[f_start + f]
    position = items[top, POSITION]
    _add_item(stack, top, position, 1)
    items[top + 1, V_START], items[top + 1, V_COUNT] = upper, n_kept
    items[top + 1, F_START] = f_start + n_facets + 1
    items[top, V_COUNT] = n_lower
    stack.winners[top, position] = 0
    for item in range(top, top + 2):
        items[item, POSITION] = position + 1
        items[item, F_COUNT] = n_facets + 1
        items[item, POOL_END] = row + 1
    state[N_CUTS] += 1
    state[N_ITEMS] += 1
    return _ONGOING


@numba.njit(cache=True, _nrt=False, forceinline=True)
def _add_item(stack: Stack, parent: int, position: int, winner: int) -> None:
    """Write an item above its parent, which it copies up to the place of a new winner."""
    items, winners = stack.items, stack.winners
    for k in range(items.shape[1]):
        items[parent + 1, k] = items[parent, k]
    for p in range(position):
        winners[parent + 1, p] = winners[parent, p]
    winners[parent + 1, position] = winner


@numba.njit(cache=True, _nrt=False, forceinline=True)
def _split_by_group(tables: Tables, frames: Frames, stack: Stack, scratch: Scratch) -> int:
    """Split the cell on top by the winner of its next group."""
    state, items, winners = stack.state, stack.items, stack.winners
    top = state[N_ITEMS] - 1
    start, n = items[top, V_START], items[top, V_COUNT]
    f_start, n_facets = items[top, F_START], items[top, F_COUNT]
    layer, position = items[top, LAYER], items[top, POSITION]
    group = frames.pending[layer, position]
    first = tables.indices[tables.layout[layer, AT_STARTS] + group]
    count = cull(tables, frames, stack, layer, start, n, first, frames.n_candidates[layer, group])
    kept = frames.order
    if count == 1:
        winners[top, position] = kept[1, 0] - first
        items[top, POSITION] = position + 1
        return _ONGOING
    if top + count + 1 > items.shape[0]:
        return STACK_FULL
    end, f_end, item = start + n, f_start + n_facets, top
    for w in range(count):
        status, size, n_own = _winning_part(
            tables, frames, stack, scratch, layer, group, first, count, w, end, f_end
        )
        if status == _EMPTY:
            continue
        if status != _ONGOING:
            return int(status)
        item += 1
        for k in range(items.shape[1]):
            items[item, k] = items[top, k]
        items[item, V_START], items[item, V_COUNT] = end, size
        items[item, F_START], items[item, F_COUNT] = f_end, n_own
        items[item, POSITION] = position + 1
        for p in range(position):
            winners[item, p] = winners[top, p]
        winners[item, position] = kept[1, w] - first
        end += size
        f_end += n_own
    move_vertices(stack, start + n, end - start - n, start)
    for f in range(f_start, f_end - n_facets):
        stack.facets[f] = stack.facets[f + n_facets]
    for i in range(top, item):
        for k in range(items.shape[1]):
            items[i, k] = items[i + 1, k]
        items[i, V_START] -= n
        items[i, F_START] -= n_facets
        items[i, POOL_END] = state[N_POOL]
        # A tie names the winner it was found with, and so the part it holds for.
        items[i, TIES_END] = state[N_TIES]
        for p in range(position + 1):
            winners[i, p] = winners[i + 1, p]
    state[N_CUTS] += 1
    state[N_ITEMS] = item
    return _ONGOING


@numba.njit(cache=True, _nrt=False, forceinline=True)
def _winning_part(
    tables: Tables,
    frames: Frames,
    stack: Stack,
    scratch: Scratch,
    layer: int,
    group: int,
    first: int,
    count: int,
    w: int,
    to: int,
    f_to: int,
) -> tuple[int, int, int]:
    """Cut the cell on top down to where one form wins, at the end of the stack.

    Returns a status, the number of vertices and the number of facets.
    """
    state, items, points, facets = stack.state, stack.items, stack.points, stack.facets
    top = state[N_ITEMS] - 1
    n, n_facets = items[top, V_COUNT], items[top, F_COUNT]
    dim, names = frames.blocks.shape[1] - 2, stack.names
    if to + n > points.shape[0] or f_to + n_facets > facets.shape[0]:
        return STACK_FULL, 0, 0
    move_vertices(stack, items[top, V_START], n, to)
    for f in range(n_facets):
        facets[f_to + f] = facets[items[top, F_START] + f]
    winner = frames.order[1, w]
    for r in range(count):
        if r == w:
            continue
        rival = frames.order[1, r]
        row = state[N_POOL]
        if row >= stack.pool.shape[0]:
            return STACK_FULL, 0, 0
        if n > scratch.signs.shape[0]:
            return SCRATCH_FULL, 0, 0
        put_difference(tables, frames, stack, layer, winner, rival, row)
        names[row, 0], names[row, 1] = layer, group
        names[row, 2], names[row, 3], names[row, CUT] = winner - first, rival - first, state[N_CUTS]
        size, rho = bounds(points, to, n, dim)
        n_positive, n_negative = signs_into(
            tables, frames, stack, scratch, to, n, f_to, row, size, rho
        )
        if n_positive < 0:
            return PARKED, 0, 0
        state[N_FILTERED] += n
        n_zero = n - n_positive - n_negative
        if n_negative == 0 and n_zero > 0:
            number = tables.layout[layer, FIRST_GROUP] + group
            if not note_ties(stack, scratch, to, n, n_zero, f_to, n_facets, number, winner - first):
                return STACK_FULL, 0, 0
        if n_positive == 0 and n_negative == 0:
            # Both forms are the same function: the first names the cell, the mean is passed on.
            if not contribute_alike(tables, frames, layer, winner, rival):
                return PARKED, 0, 0
            if winner > rival:
                return _EMPTY, 0, 0
            continue
        if n_positive == 0:
            return _EMPTY, 0, 0
        if n_negative == 0:
            continue
        if n_facets == 64 * stack.masks.shape[1]:
            n_facets = drop_facets(stack, scratch, to, n, f_to, n_facets)
            if n_facets == 64 * stack.masks.shape[1]:
                return MASKS_FULL, 0, 0
        normalise(stack, row)
        n_fresh = new_vertices(stack, scratch, to, n, f_to, row, n_facets)
        if n_fresh < 0:
            return SCRATCH_FULL, 0, 0
        n_kept = n - n_negative + n_fresh
        if to + n_kept > points.shape[0] or f_to + n_facets + 1 > facets.shape[0]:
            return STACK_FULL, 0, 0
        write_side(stack, scratch, to, n, 1, n_fresh, n_facets, to)
        n = n_kept
        facets[f_to + n_facets] = row
        n_facets += 1
        state[N_POOL] += 1
    return _ONGOING, n, n_facets
