r"""What the planar search reads and writes: arrays grouped by role, and the names of their columns.

Forms are kept by component: a block `(4, n)` holds the slopes $a_1$, $a_2$, the offsets $c$ and
the radii $e$ of $n$ forms. With the scale $X \ge 1$ of the domain, a radius means
$|a_k^* - a_k| \le e / X$ and $|c^* - c| \le e$, where the star is the form composed exactly.
"""

from typing import NamedTuple

import numpy as np

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

# Entries of a row of `Tables.layout`.
(
    N_IN, N_QUERY, N_FORMS, N_GROUPS, N_Y, N_OUT, WIDTH, IS_RELU, RESIDUAL, QUERY_IS_IDENTITY,
    OUTPUT_IS_IDENTITY, AT_QUERY, AT_QUERY_BIAS, AT_SLOPES, AT_OFFSETS, AT_STARTS, AT_SLOTS,
    AT_GAINS, AT_VALUES, AT_OUTPUT, AT_OUTPUT_BIAS, FIRST_GROUP, QUERY_GRID, QUERY_BIAS_GRID,
    SLOPES_GRID, OFFSETS_GRID, GAINS_GRID, VALUES_GRID, OUTPUT_GRID, OUTPUT_BIAS_GRID,
    IS_HOMOGENEOUS, IS_TAME, IS_PENCIL,
) = range(33)  # fmt: skip
N_LAYOUT = 33

# Entries of `Stack.state`.
(
    N_ITEMS, N_CELLS, N_LEAVES, N_VERTICES, N_CUTS, N_FILTERED, N_EXPANDED, IS_SHARP, N_BROKEN,
) = range(9)  # fmt: skip
N_STATE = 9

# Entries of a row of `Frames.flags`: whether the stream is exact, the exponent of a grid on which
# its forms of radius 0 lie, the same for the scores, a count of the regions, whether coinciding
# forms have been merged, how many groups are pending, and whether the output has been composed with
# all pending units off.
(
    STREAM_IS_EXACT, STREAM_GRID, SCORES_ARE_EXACT, SCORES_GRID, VERSION, IS_MERGED, N_PENDING,
    HAS_OUTPUT,
) = range(8)  # fmt: skip
N_FLAGS = 8

# What the search returns; `ONGOING` is for its parts.
ONGOING = -1
DONE, BUDGET, STACK_FULL, LEAVES_FULL, CELL_LIMIT, PARKED, BLURRED = range(7)


class Tables(NamedTuple):
    """A network, flattened.

    Attributes:
        layout: `(n_layers + 1, N_LAYOUT)`: sizes, flags and offsets; the last row is the read-out.
        numbers: All weights.
        sizes: Their absolute values.
        indices: The `starts` and `slots` of all layers.
        first: `(n_layers, most_forms)`: the first form of the group that coincides with each
            form whatever comes before, so that only firsts compete.
        gains: `(n_layers, 2, most_forms)`: the gains and their radii, means over coinciding forms.
        values: `(n_layers, 2, most_forms, most_width)`: values and radii likewise.
        scale: `(1,)`: the $X$.
    """

    layout: IntArray
    numbers: FloatArray
    sizes: FloatArray
    indices: IntArray
    first: IntArray
    gains: FloatArray
    values: FloatArray
    scale: FloatArray


class Frames(NamedTuple):
    """For each layer the forms on the region that is being split, and what is known about them.

    Attributes:
        blocks: `(2 * n_layers + 4, 4, most_rows)`: the streams before all layers and the read-out;
            then the scores of all layers; the output with pending units off; two blocks of scratch.
        flags: `(n_layers + 1, N_FLAGS)`.
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
    layout = tables.layout
    n = len(layout)
    most_rows = int(layout[:, : N_OUT + 1].max()) + 1
    most_groups = int(layout[:, N_GROUPS].max(initial=1))
    return Frames(
        np.zeros((2 * n + 2, 4, most_rows)),
        np.zeros((n, N_FLAGS), dtype=np.int64),
        tables.first.copy(),
        tables.gains.copy(),
        tables.values.copy(),
        np.zeros((n, most_groups), dtype=np.int64),
        np.zeros((n, most_groups), dtype=np.int64),
        np.zeros((n, most_rows), dtype=np.int64),
        np.zeros((n, most_groups), dtype=np.int64),
        np.zeros(max(n_groups, 1), dtype=np.int64),
        np.zeros((2, most_rows)),
        np.zeros((4, most_rows), dtype=np.int64),
        np.zeros(64),
        np.zeros((n_nodes, 3), dtype=np.int64),
        np.zeros((n_nodes, 4)),
        np.zeros(n_listed, dtype=np.int64),
        np.zeros(4),
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
