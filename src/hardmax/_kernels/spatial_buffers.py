r"""What the spatial search reads and writes: arrays by role, and the names of their columns.

Blocks of forms, and the network, are those of `layouts`.

A cell is a list of vertices and a list of facets. A facet is a row of the pool, the form of a cut;
bit $i$ of a vertex's mask says that the vertex lies, exactly, on the $i$-th facet of the list. The
list holds every facet of the cell; it may also hold forms that once bounded a larger cell.

Functions of the search that take these tuples are inlined where they are called often: passed to a
compiled call, a tuple is several hundred numbers, which costs more than most of what is called.

A tie is a group, away from the cut that made a facet, whose winner equals a rival on the facet's
whole hyperplane. A group whose winner equals a rival on the whole cell ties on every facet.
"""

from typing import NamedTuple

import numpy as np

from hardmax._kernels.effect_buffers import effect_arrays
from hardmax._kernels.layouts import Tables, layer_arrays
from hardmax.typing import AnyArray, BoolArray, FloatArray, IntArray

MOST_DIMENSIONS = 8
"""The error bounds of the kernels are proven up to here."""

# Entries of `Stack.state`.
(
    N_ITEMS, N_POOL, N_CELLS, N_LEAVES, N_VERTICES, N_FILTERED, N_EXPANDED, N_CUTS, N_TIES,
    N_FACETS, N_LEAF_TIES,
) = range(11)  # fmt: skip
N_STATE = 11

# Entries of a row of `Stack.items`: the vertices, the facets, the layer, how many pending groups
# are done, the end of the pool when the cell was made, and the end of its ties.
V_START, V_COUNT, F_START, F_COUNT, LAYER, POSITION, POOL_END, TIES_END = range(8)
N_ITEM = 8

# Columns of a name: layer, group, winner and rival (within the group), and the split that cut.
CUT = 4
N_NAME = 5

# Columns of a row of the pool after the slopes: the offset, the radius of a slope and of the
# offset, a bound on the sum of the absolute slopes, and the offset at infinity.
OFFSET, RADIUS, OFFSET_RADIUS, NORM, FAR = range(5)
N_EXTRA = 5

# What the search returns besides what `layouts` names.
MASKS_FULL, SCRATCH_FULL = 6, 7


class Frames(NamedTuple):
    """For each layer the forms on the region that is being split, and what is known about them.

    Attributes:
        blocks: `(2 * n_layers + 4, d + 2, most_rows)`: the streams before all layers and the
            read-out; then the scores of all layers; then two blocks of scratch.
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
        first: The first form of the group that coincides with each form, where the flag
            `IS_MERGED` is set.
        gains: The gains averaged over coinciding forms, with radii, likewise.
        values: The values, likewise.
        fixed: `(n_layers, most_groups)`: the winners, where known on the whole region.
        pending: `(n_layers, most_groups)`: the groups that are not fixed.
        candidates: `(n_layers, most_rows)`: for each group, from its first form on, the forms that
            may win.
        n_candidates: `(n_layers, most_groups)`.
        signature: `(n_groups,)`: the winners of the layers passed.
        work: `(3, most_rows)`: scratch.
        order: `(2, most_rows)`: scratch indices.
        axes: `(d,)`: the axes.
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
    axes: IntArray


class Stack(NamedTuple):
    """The cells still to be split, the next one on top.

    Attributes:
        state: `(N_STATE,)`: fill counts and counters.
        items: `(n_items, N_ITEM)`.
        winners: `(n_items, most_groups)`: the winners of the pending groups done.
        points: `(n_points, d + 1)`, or `(n_points, 2 d + 2)` on an unbounded domain: vertices
            with radii, then their directions with radii.
        masks: `(n_points, n_words)`: which facets of its cell a vertex lies on.
        facets: `(n_points,)`: for each cell the rows of the pool.
        pool: `(n_pool, d + N_EXTRA)`: forms, in the order they were cut with.
        names: `(n_pool, N_NAME)`: layer, group, winner and rival (within the group) of each form,
            or `(-1, row, 0, 0)` for a row of the domain; then the number of the split.
        ties: `(n_points, 3)`: ties found on the path: a row of the pool, or -1 for all facets; the
            group, counted over all layers; and its winner.
    """

    state: IntArray
    items: IntArray
    winners: IntArray
    points: FloatArray
    masks: AnyArray
    facets: IntArray
    pool: FloatArray
    names: IntArray
    ties: IntArray


class Scratch(NamedTuple):
    """Room to work in.

    Attributes:
        signs: `(n_points,)`: the signs of a form at the vertices of a cell.
        heights: `(n_points,)`: the rounded values.
        above: `(n_points,)`: the vertices where a form is positive.
        below: `(n_points,)`: those where it is negative.
        words: `(n_points,)`: the first words of their masks.
        pairs: `(4 * n_fresh,)`: pairs of vertices, in the two halves of a word.
        fresh: `(n_fresh, d + 1)` or `(n_fresh, 2 d + 2)`: new vertices.
        fresh_masks: `(n_fresh, n_words)`.
        tight: `(64 * n_words + 1,)`: pool rows through a vertex.
        counts: `(64 * n_words,)`: how many vertices lie on each facet.
        rows: `(d + 1,)`: the pool rows that define a vertex.
        common: `(n_words,)`.
        steps: `(n_steps, 4)`: for the determinant of $d$ rows, target, source, row, column.
        step_signs: `(n_steps,)`.
        minors: `(2**d,)`.
        elimination: `(64 * n_words + 1, d)`.
        matrix: `(1, d + 1, d + 1)`.
        expansions: `(2**(d + 1), 64)`.
        lengths: `(2**(d + 1),)`.
        expansion: `(1200,)`.
        sign: `(1,)`: int8.
        system: `(d, d + 2)`: equations with two right sides.
        zeros: `(n_layers, most_groups)`: which units vanish at a vertex.
    """

    signs: IntArray
    heights: FloatArray
    above: IntArray
    below: IntArray
    words: AnyArray
    pairs: AnyArray
    fresh: FloatArray
    fresh_masks: AnyArray
    tight: IntArray
    counts: IntArray
    rows: IntArray
    common: AnyArray
    steps: IntArray
    step_signs: FloatArray
    minors: FloatArray
    elimination: FloatArray
    matrix: FloatArray
    expansions: FloatArray
    lengths: IntArray
    expansion: FloatArray
    sign: AnyArray
    system: FloatArray
    zeros: BoolArray


class Leaves(NamedTuple):
    """The cells found since the last look.

    Attributes:
        signatures: `(capacity, n_groups)`.
        maps: `(capacity, d + 1, dim_out)`.
        radii: `(capacity,)`.
        ends: `(capacity,)`: where the vertices of each cell end.
        points: `(n_points, d)` or `(n_points, 2 d)`: vertices, and directions.
        facet_ends: `(capacity,)`: where the facets of each cell end.
        facets: `(n_facets, 3)`: the split that made each facet inside the domain, its group,
            counted over all layers, and the rival.
        tie_ends: `(capacity,)`: where the ties of each cell end.
        ties: `(n_ties, 2)`: the place of a facet among those of its cell, or -1 for all; the group.
        blurs: `(capacity, 2)`: bounds on the radii of the vertices of each cell and of their
            directions.
    """

    signatures: AnyArray
    maps: FloatArray
    radii: FloatArray
    ends: IntArray
    points: FloatArray
    facet_ends: IntArray
    facets: IntArray
    tie_ends: IntArray
    ties: IntArray
    blurs: FloatArray


def new_frames(tables: Tables, n_groups: int, dim: int) -> Frames:
    """Allocate the frames for a network on a domain of some dimension."""
    shared = layer_arrays(tables, n_groups, dim)
    most_rows = shared["blocks"].shape[2]
    return Frames(
        **shared,
        **effect_arrays(tables),
        work=np.zeros((3, most_rows)),
        order=np.zeros((2, most_rows), dtype=np.int64),
        axes=np.arange(dim),
    )


def new_stack(
    n_points: int, n_items: int, most_groups: int, dim: int, n_columns: int, n_words: int
) -> Stack:
    """Allocate an empty stack."""
    return Stack(
        np.zeros(N_STATE, dtype=np.int64),
        np.zeros((n_items, N_ITEM), dtype=np.int64),
        np.zeros((n_items, most_groups), dtype=np.int64),
        np.zeros((n_points, n_columns)),
        np.zeros((n_points, n_words), dtype=np.uint64),
        np.zeros(n_points, dtype=np.int64),
        np.zeros((n_points, dim + N_EXTRA)),
        np.zeros((n_points, N_NAME), dtype=np.int64),
        np.zeros((n_points, 3), dtype=np.int64),
    )


def grown_stack(stack: Stack, factor: int = 2, n_words: int | None = None) -> Stack:
    """Enlarge the room of the stack, keeping what is on it."""
    n_points, n_columns = stack.points.shape
    larger = new_stack(
        factor * n_points,
        factor * len(stack.items),
        stack.winners.shape[1],
        stack.pool.shape[1] - N_EXTRA,
        n_columns,
        n_words or stack.masks.shape[1],
    )
    for old, new in zip(stack, larger, strict=True):
        if old.ndim == 1:
            new[: len(old)] = old
        else:
            new[: len(old), : old.shape[1]] = old
    return larger


def new_scratch(
    frames: Frames, n_points: int, n_fresh: int, n_columns: int, n_words: int
) -> Scratch:
    """Allocate room to work in."""
    dim = frames.blocks.shape[1] - 2
    steps, step_signs = determinant_steps(dim)
    return Scratch(
        np.zeros(n_points, dtype=np.int64),
        np.zeros(n_points),
        np.zeros(n_points, dtype=np.int64),
        np.zeros(n_points, dtype=np.int64),
        np.zeros(n_points, dtype=np.uint64),
        np.zeros(4 * n_fresh, dtype=np.uint64),
        np.zeros((n_fresh, n_columns)),
        np.zeros((n_fresh, n_words), dtype=np.uint64),
        np.zeros(64 * n_words + 1, dtype=np.int64),
        np.zeros(64 * n_words, dtype=np.int64),
        np.zeros(dim + 1, dtype=np.int64),
        np.zeros(n_words, dtype=np.uint64),
        steps,
        step_signs,
        np.zeros(2**dim),
        np.zeros((64 * n_words + 1, dim)),
        np.zeros((1, dim + 1, dim + 1)),
        np.zeros((2 ** (dim + 1), 64)),
        np.zeros(2 ** (dim + 1), dtype=np.int64),
        np.zeros(1200),
        np.zeros(1, dtype=np.int8),
        np.zeros((dim, dim + 2)),
        np.zeros(frames.fixed.shape, dtype=np.bool_),
    )


def determinant_steps(dim: int) -> tuple[IntArray, FloatArray]:
    r"""List the steps of a Laplace expansion over sets of columns, as in `expansions`.

    Step `(S, S - j, r, j)` adds $\pm a_{rj} D(S \setminus j)$ to $D(S)$, $r = |S| - 1$.

    Examples:
        >>> determinant_steps(2)[0].tolist()
        [[1, 0, 0, 0], [2, 0, 0, 1], [3, 2, 1, 0], [3, 1, 1, 1]]
    """
    steps, signs = [], []
    for columns in range(1, 1 << dim):
        row = columns.bit_count() - 1
        members = [j for j in range(dim) if columns >> j & 1]
        for place, j in enumerate(members):
            steps.append((columns, columns ^ (1 << j), row, j))
            signs.append(1.0 if (row + place) % 2 == 0 else -1.0)
    return np.array(steps, dtype=np.int64), np.array(signs)


def new_leaves(
    n_cells: int,
    n_points: int,
    n_facets: int,
    n_ties: int,
    n_columns: int,
    n_groups: int,
    dim: int,
    dim_out: int,
    most_forms: int,
) -> Leaves:
    """Allocate room for cells; winners are stored in one byte where that is enough."""
    return Leaves(
        np.empty((n_cells, n_groups), dtype=np.uint8 if most_forms <= 256 else np.int64),
        np.empty((n_cells, dim + 1, dim_out)),
        np.empty(n_cells),
        np.empty(n_cells, dtype=np.int64),
        np.empty((n_points, n_columns)),
        np.empty(n_cells, dtype=np.int64),
        np.empty((n_facets, 3), dtype=np.int32),
        np.empty(n_cells, dtype=np.int64),
        np.empty((n_ties, 2), dtype=np.int64),
        np.empty((n_cells, 2)),
    )
