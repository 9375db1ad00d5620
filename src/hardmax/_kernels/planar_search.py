"""The planar search: polygons split layer by layer, depth first. No checks: see callers.

The polygon on top of the stack belongs to a layer and to the frame of that layer, which holds the
forms composed once for the whole region. It is split by one pending group after the other; when
none is left its map is composed, and it becomes a region of the next layer, or a cell. All polygons
of one layer that are on the stack lie in the same region, because deeper ones are on top of them;
hence one frame for each layer is enough, and the winners on the path name every line.

An undecided sign leaves the stack as it is: the polygon on top is looked at in twice the precision,
and if that does not help, it comes back as `PARKED`, to be split by its next group in exact
arithmetic. Likewise a cell with a vertex that is not known to a few digits, which comes back as
`BLURRED`, to have its vertices computed from its lines.
"""

import numba
import numpy as np

from hardmax._kernels.composition import compose_output, compose_scores
from hardmax._kernels.layouts import (
    BUDGET,
    CELL_LIMIT,
    DONE,
    FIRST_GROUP,
    IS_HOMOGENEOUS,
    IS_RELU,
    LEAVES_FULL,
    N_GROUPS,
    N_PENDING,
    PARKED,
    Tables,
)
from hardmax._kernels.planar_buffers import (
    BLURRED,
    HAS_FAR,
    IS_SHARP,
    N_CELLS,
    N_ITEMS,
    N_LEAVES,
    N_VERTICES,
    ONGOING,
    PLANE,
    Frames,
    Leaves,
    Stack,
)
from hardmax._kernels.planar_groups import analyse
from hardmax._kernels.planar_leaves import adds_units, is_blurred, store
from hardmax._kernels.planar_rays import note_ray, pencils_of
from hardmax._kernels.planar_sharpening import sharpen
from hardmax._kernels.planar_splits import split_by_group, split_by_unit
from hardmax.typing import FloatArray


@numba.njit(cache=True, _nrt=False)
def search(
    tables: Tables,
    frames: Frames,
    doubled: FloatArray,
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
        doubled: Room for them in twice the precision; has the first stream.
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
        if layer < n_layers and items[top, 3] < 0:
            status = _enter(tables, frames, stack)
        elif layer == n_layers or items[top, 3] == flags[layer, N_PENDING]:
            status = _pass_on(tables, frames, stack, leaves, stores)
        elif layout[layer, IS_RELU] == 1:
            status = split_by_unit(
                state, stack.edges, stack.labels, stack.signs, items, stack.winners, frames.blocks,
                layout.shape[0] + layer, frames.pending, flags[layer, N_PENDING], tables.first,
                layout[layer, IS_HOMOGENEOUS] == 1,
                pencils_of(layout, flags, layer), tables.scale[0], frames.expansion,
            )  # fmt: skip
        else:
            status = split_by_group(tables, frames, stack)
        is_unclear = status in (PARKED, BLURRED)
        if is_unclear and sharpen(tables, frames, doubled, stack, status == BLURRED):
            continue
        if status != ONGOING:
            return int(status)
    return DONE if state[N_ITEMS] == 0 else BUDGET


@numba.njit(cache=True, _nrt=False, inline="always")
def _enter(tables: Tables, frames: Frames, stack: Stack) -> int:
    """Compose the scores of the layer of the polygon on top, and see which groups are open."""
    top = stack.state[N_ITEMS] - 1
    layer = stack.items[top, 2]
    compose_scores(tables, frames, layer, PLANE)
    if stack.state[HAS_FAR] == 1 or tables.layout[layer, IS_HOMOGENEOUS] == 1:
        note_ray(tables, frames, layer)
    analyse(tables, frames, stack, layer, stack.items[top, 0], stack.items[top, 1])
    stack.items[top, 3] = 0
    return ONGOING


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
        if state[IS_SHARP] == 0 and is_blurred(stack.edges, start, n, tables.scale[0], state):
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
            compose_output(tables, frames, layer, PLANE)
    if not is_last:
        items[top, 2] = layer + 1
        items[top, 3] = -1
        return ONGOING
    if stores:
        store(tables, frames, stack, leaves, start, n)
    state[N_CELLS] += 1
    state[N_ITEMS] -= 1
    return ONGOING
