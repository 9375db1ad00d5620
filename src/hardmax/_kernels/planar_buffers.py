r"""What the planar search reads and writes: arrays grouped by role, and the names of their columns.

Blocks of forms, and the network, are those of `layouts`.
"""

from typing import NamedTuple

import numpy as np

from hardmax._kernels.effect_buffers import effect_arrays
from hardmax._kernels.layouts import Tables, layer_arrays
from hardmax.typing import AnyArray, FloatArray, IntArray

# Columns of a row of a polygon: the line a_1 x + a_2 y + c + C M >= 0 of an edge, its radii, and
# the edge's first end point (x, y) + M (dx, dy) with its radii.
A1, A2, C0, C1, RA, RC, X, Y, RHO, DX, DY, DRHO = range(12)
N_COLUMNS = 12
# The label of an edge: layer and group, winner and rival (within the group), and the cut that made
# it. Two numbers share one: the first times `SHIFT`, plus the second. The last entry is scratch.
N_LABELS = 4
MARK = 3
SHIFT = 2**32

# Entries of `Stack.state`.
(
    N_ITEMS, N_CELLS, N_LEAVES, N_VERTICES, N_CUTS, N_FILTERED, N_EXPANDED, IS_SHARP, N_BROKEN,
    N_DOUBTFUL, IS_BLUNT, HAS_FAR,
) = range(12)  # fmt: skip
N_STATE = 12

# What the search returns besides what `layouts` names; `ONGOING` is for its parts.
ONGOING = -1
BLURRED = 6

PLANE = 0, 1
"""The axes."""


class Frames(NamedTuple):
    """For each layer the forms on the region that is being split, and what is known about them.

    Attributes:
        blocks: `(2 * n_layers + 4, 4, most_rows)`: the streams before all layers and the read-out;
            then the scores of all layers; the output with pending units off; two blocks of scratch.
        flags: `(n_layers + 1, N_FLAGS)`.
        shares: `(n_layers + 1, 2)`: how large the radii of the scores would be if composed now, and
            how large they may be, up to a factor.
        composed: `(n_layers, most_groups)`: for ReLU layers, the winners that the stream after the
            layer was composed with.
        effects: What units do to later scores, and the next five about them: see `effects`.
        effect_places: Where the rows of two layers start.
        effect_bounds: Their radii and sizes.
        effect_patterns: The winners after a unit that its rows belong to.
        effect_lists: Lists of units.
        effect_changes: Scratch.
        first: As in `Tables`, where the flag `IS_MERGED` is set.
        gains: Likewise.
        values: Likewise.
        fixed: `(n_layers, most_groups)`: the winners, where known on the whole region.
        pending: `(n_layers, most_groups)`: the groups that are not fixed.
        candidates: `(n_layers, most_rows)`: for each group, from its first form on, the forms that
            may win.
        n_candidates: `(n_layers, most_groups)`.
        signature: `(n_groups,)`: the winners of the layers passed.
        work: `(2, most_rows)`: scratch.
        order: `(4, most_rows)`: scratch indices.
        expansion: `(64,)`: scratch.
        nodes: `(n_nodes, 3)`: a tree of boxes (see `planar_walks`); no room if groups are small.
        boxes: `(n_nodes, 4)`: its boxes.
        listed: `(n_listed,)`: its lists.
        sizes: `(4,)`: bounds on the forms of a group.
    """

    blocks: FloatArray
    flags: IntArray
    shares: FloatArray
    composed: AnyArray
    effects: FloatArray
    effect_places: IntArray
    effect_bounds: FloatArray
    effect_patterns: AnyArray
    effect_lists: IntArray
    effect_changes: IntArray
    first: IntArray
    gains: FloatArray
    values: FloatArray
    fixed: IntArray
    pending: IntArray
    candidates: IntArray
    n_candidates: IntArray
    signature: IntArray
    work: FloatArray
    order: IntArray
    expansion: FloatArray
    nodes: IntArray
    boxes: FloatArray
    listed: IntArray
    sizes: FloatArray


class Stack(NamedTuple):
    """The polygons still to be split, the next one on top.

    Attributes:
        state: `(N_STATE,)`: fill counts and counters.
        edges: `(capacity, N_COLUMNS)`: the rows of all polygons, one after the other; free rows
            above them are scratch.
        labels: `(capacity, N_LABELS)`.
        signs: `(capacity,)`: scratch.
        items: `(n_capacity, 4)`: first row, number of rows, layer, number of pending groups done
            or -1 where the layer has not been looked at.
        winners: `(n_capacity, most_groups)`: the winners of the pending groups done.
    """

    state: IntArray
    edges: FloatArray
    labels: IntArray
    signs: IntArray
    items: IntArray
    winners: IntArray


class Leaves(NamedTuple):
    """The cells found since the last look.

    Attributes:
        signatures: `(capacity, n_groups)`.
        maps: `(capacity, 3, dim_out)`.
        radii: `(capacity,)`.
        starts: `(capacity + 1,)`: where the vertices of each cell start and end.
        points: `(n_capacity, 2)`: vertices.
        directions: `(n_capacity, 2)`: their directions; no rows if the domain is bounded.
        walls: `(n_capacity, 4)`: the layer, group, winner and rival of each edge.
        cuts: `(n_capacity,)`: the cut that made it.
    """

    signatures: AnyArray
    maps: FloatArray
    radii: FloatArray
    starts: IntArray
    points: FloatArray
    directions: FloatArray
    walls: AnyArray
    cuts: IntArray


def new_frames(tables: Tables, n_groups: int, n_nodes: int, n_listed: int) -> Frames:
    """Allocate the frames for a network, with room for a tree of boxes."""
    shared = layer_arrays(tables, n_groups, len(PLANE))
    most_rows = shared["blocks"].shape[2]
    return Frames(
        **shared,
        **effect_arrays(tables),
        work=np.zeros((2, most_rows)),
        order=np.zeros((4, most_rows), dtype=np.int64),
        expansion=np.zeros(64),
        nodes=np.zeros((n_nodes, 3), dtype=np.int64),
        boxes=np.zeros((n_nodes, 4)),
        listed=np.zeros(n_listed, dtype=np.int64),
        sizes=np.zeros(4),
    )


def new_stack(n_edges: int, n_items: int, most_groups: int) -> Stack:
    """Allocate an empty stack."""
    return Stack(
        np.zeros(N_STATE, dtype=np.int64),
        np.zeros((n_edges, N_COLUMNS)),
        np.zeros((n_edges, N_LABELS), dtype=np.int64),
        np.zeros(n_edges, dtype=np.int64),
        np.zeros((n_items, 4), dtype=np.int64),
        np.zeros((n_items, most_groups), dtype=np.int64),
    )


def grown_stack(stack: Stack) -> Stack:
    """Double the room of the stack, keeping what is on it."""
    larger = new_stack(2 * len(stack.edges), 2 * len(stack.items), stack.winners.shape[1])
    for old, new in zip(stack, larger, strict=True):
        new[: len(old)] = old
    return larger


def new_leaves(n_cells: int, n_groups: int, dim_out: int, is_bounded: bool) -> Leaves:
    """Allocate room for cells."""
    n_points = 5 * n_cells
    starts = np.empty(n_cells + 1, dtype=np.int64)
    starts[0] = 0
    return Leaves(
        np.empty((n_cells, n_groups), dtype=np.int32),
        np.empty((n_cells, 3, dim_out)),
        np.empty(n_cells),
        starts,
        np.empty((n_points, 2)),
        np.empty((0 if is_bounded else n_points, 2)),
        np.empty((n_points, 4), dtype=np.int32),
        np.empty(n_points, dtype=np.int64),
    )
