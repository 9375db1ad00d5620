"""The engine for three to seven dimensions: polytopes split depth first, every sign proven."""

from typing import Any

import numpy as np

from hardmax._kernels.doubled_forms import doubled_blocks
from hardmax._kernels.layouts import (
    LEAVES_FULL,
    N_GROUPS,
    PARKED,
    STACK_FULL,
)
from hardmax._kernels.spatial_buffers import (
    F_COUNT,
    MASKS_FULL,
    N_CELLS,
    N_EXPANDED,
    N_FACETS,
    N_FILTERED,
    N_ITEMS,
    N_LEAF_TIES,
    N_LEAVES,
    N_POOL,
    N_VERTICES,
    POOL_END,
    SCRATCH_FULL,
    TIES_END,
    V_COUNT,
    Leaves,
    Scratch,
    Stack,
    grown_stack,
    new_leaves,
    new_scratch,
    new_stack,
)
from hardmax._kernels.spatial_search import enter, search
from hardmax.algebra.exact.decisions import Decisions
from hardmax.interrupts import held_interrupts
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.models.recomposition import exact_affine_map
from hardmax.regions.cells import CellArrays, CellFacets
from hardmax.regions.rounded_forms import doubled_forms, rounded_forms
from hardmax.regions.search_runs import SearchRun, read_limits
from hardmax.regions.spatial_domains import (
    SpatialDomain,
    mask_words,
    rounded_form,
    rounded_vertex,
    spatial_domain,
)
from hardmax.regions.spatial_frames import spatial_frames
from hardmax.regions.spatial_parking import ExactPath

_FIRST_BUDGET = 2_000
_BLOCK_POINTS = 2**17
"""Room for vertices in a block of cells."""
_MOST_BLOCKS = 8
_blocks: list[tuple[tuple[int, ...], Leaves]] = []
"""Blocks not in use: memory that has been written to before is much quicker to write to."""
_POINTS, _ITEMS, _SCRATCH = 1024, 128, 256


def explore(
    network: ArgmaxNetwork,
    domain: Any,
    *,
    count_only: bool = False,
    max_cells: int | None = None,
    max_seconds: float | None = None,
    progress: bool = True,
) -> CellArrays:
    r"""Find every cell of a network on a domain of dimension 1 to 8.

    The search splits polytopes, given by their vertices and by the facets each vertex lies on, one
    group of forms after the other, layer by layer and depth first. A layer is composed once for
    each region of the layers before it; groups with one winner on the whole region are settled
    there. A sign that floats cannot prove is decided in exact arithmetic, and zeros are recorded as
    incidences, so degenerate cells (more than $d$ facets through a vertex, coinciding walls) are
    cells like any other.

    Args:
        network: The network.
        domain: A box, a polytope, all of space, or a slice of a larger space.
        count_only: Store nothing; memory then does not grow with the number of cells.
        max_cells: Stop after so many cells.
        max_seconds: Stop after about so many seconds.
        progress: Show a bar where the search takes longer than a second.

    Returns:
        The cells, with vertices in no particular order and output maps. On an unbounded domain a
        vertex at infinity has a direction: see `CellArrays`. `is_complete` is False if
        a limit stopped the search.

    Raises:
        ArgumentError: If the domain has no interior, or too many dimensions.
        Interrupted: On Ctrl-C, with the cells found until then.

    Examples:
        >>> from hardmax.geometry.domains import Box
        >>> from hardmax.models.networks import ReluNetwork
        >>> octants = ReluNetwork([np.eye(3), np.ones((3, 1))]).network
        >>> cells = explore(octants, Box([-1, -1, -1], [1, 1, 1]))
        >>> cells.n_counted, cells.starts.tolist()
        (8, [0, 8, 16, 24, 32, 40, 48, 56, 64])
        >>> three_times_the_same = ReluNetwork([np.ones((3, 3)), np.ones((3, 1))]).network
        >>> explore(three_times_the_same, Box([-1, -1, -1], [1, 1, 1]), count_only=True).n_counted
        2
    """
    limits = read_limits(max_cells, max_seconds)
    run = _Run(network, spatial_domain(domain, network.dim_in), stores=not count_only)
    return run.finish(limits, progress)


class _Run(SearchRun):
    """One search: its buffers, and what has been found."""

    first_budget = _FIRST_BUDGET

    def __init__(self, network: ArgmaxNetwork, start: SpatialDomain, stores: bool) -> None:
        self.network = network
        self.start = start
        self.stores = stores
        self.dim = start.charted.dim
        points = np.array(
            [rounded_vertex(vertex, start.is_bounded) for vertex in start.cell.vertices]
        )
        size = float(np.abs(points).max(initial=1.0))
        self.tables, self.frames = spatial_frames(network, start.charted, size)
        self.stack = self._first_stack(points)
        self.scratch = self._new_scratch(_SCRATCH, _SCRATCH)
        self.path = ExactPath(network, start, self.tables, self.frames)
        stream, scale = self.path.first_stream(), float(self.tables.scale[0])
        doubled = doubled_forms(stream, stream.rows, scale)
        self.doubled = doubled_blocks(self.frames, doubled)
        groups = (int(np.diff(layer.starts).max()) for layer in network.layers)
        self.most_forms = max(groups, default=1)
        sizes = network.n_groups, self.dim, network.dim_out, self.most_forms
        self.shape = _BLOCK_POINTS, int(start.is_bounded), *sizes
        self.leaves: Leaves = self._spare_leaves()
        self.blocks: list[Leaves] = []
        self.found: list[Leaves] = []
        if network.layers:
            enter(self.tables, self.frames, self.stack)

    def _first_stack(self, points: Any) -> Stack:
        cell = self.start.cell
        n, n_facets = len(points), len(cell.forms)
        n_words = 1
        while 64 * n_words < n_facets:
            n_words *= 2
        most_groups = int(self.tables.layout[:, N_GROUPS].max(initial=1))
        room = max(_POINTS, 8 * n, 8 * n_facets)
        stack = new_stack(room, _ITEMS, most_groups, self.dim, points.shape[1], n_words)
        stack.points[:n] = points
        stack.masks[:n] = mask_words(cell.masks, n_words)
        stack.facets[:n_facets] = np.arange(n_facets)
        for i, form in enumerate(cell.forms):
            stack.pool[i] = rounded_form(form)
            stack.names[i, :2] = -1, i
        stack.items[0, [V_COUNT, F_COUNT, POOL_END]] = n, n_facets, n_facets
        stack.state[[N_ITEMS, N_POOL]] = 1, n_facets
        return stack

    def _new_scratch(self, n_points: int, n_fresh: int) -> Scratch:
        n_columns, n_words = self.stack.points.shape[1], self.stack.masks.shape[1]
        return new_scratch(self.frames, n_points, n_fresh, n_columns, n_words)

    def _new_leaves(self, n_points: int, n_facets: int, n_ties: int) -> Leaves:
        """Make room for a block of cells, one of the given size among them."""
        n_cells = max(_BLOCK_POINTS >> (self.dim + 1), 1) if self.stores else 1
        return new_leaves(
            n_cells,
            max(n_points, 2 ** (self.dim + 1) * n_cells),
            max(n_facets, 4 * self.dim * n_cells),
            n_ties + n_cells + self.network.n_groups,
            self.dim if self.start.is_bounded else 2 * self.dim,
            self.network.n_groups,
            self.dim,
            self.network.dim_out,
            self.most_forms,
        )

    def _spare_leaves(self) -> Leaves:
        """Take a block that was used before, or make one."""
        for i, (shape, block) in enumerate(_blocks):
            if self.stores and shape == self.shape:
                del _blocks[i]
                return block
        return self._new_leaves(0, 0, 0)

    @property
    def n_found(self) -> int:
        """How many cells have been found."""
        return int(self.stack.state[N_CELLS])

    def go_on(self, limit: int, budget: int) -> int:
        """Run the compiled search."""
        buffers = self.frames, self.doubled, self.stack, self.scratch, self.leaves
        return int(search(self.tables, *buffers, self.stores, limit, budget))

    def make_way(self, status: int) -> None:
        """Split exactly, or make room."""
        n_points, n_fresh = len(self.scratch.signs), len(self.scratch.fresh)
        n_words = self.stack.masks.shape[1]
        if status == PARKED:
            self.stack = self.path.split_top(self.stack)
        elif status == LEAVES_FULL:
            with held_interrupts():
                self._make_room_for_leaves()
        elif status == STACK_FULL:
            self.stack = grown_stack(self.stack)
        elif status == MASKS_FULL:
            self.stack = grown_stack(self.stack, 1, 2 * n_words)
        elif status == SCRATCH_FULL:
            n_points, n_fresh = 2 * n_points, 2 * n_fresh
        if status == SCRATCH_FULL or self.stack.masks.shape[1] != n_words:
            self.scratch = self._new_scratch(n_points, n_fresh)

    def _harvest(self) -> None:
        """Set the cells found aside."""
        state = self.stack.state
        cells, points, facets, ties = state[[N_LEAVES, N_VERTICES, N_FACETS, N_LEAF_TIES]].tolist()
        lengths = cells, cells, cells, cells, points, cells, facets, cells, ties, cells
        parts = zip(self.leaves, lengths, strict=True)
        self.found.append(Leaves(*(array[:length] for array, length in parts)))
        self.blocks.append(self.leaves)
        state[[N_LEAVES, N_VERTICES, N_FACETS, N_LEAF_TIES]] = 0

    def _make_room_for_leaves(self) -> None:
        if self.stack.state[N_LEAVES] > 0:
            self._harvest()
            self.leaves = self._spare_leaves()
            return
        # One cell has more vertices than a whole block has room for.
        entry = self.stack.items[int(self.stack.state[N_ITEMS]) - 1]
        self.leaves = self._new_leaves(*entry[[V_COUNT, F_COUNT, TIES_END]].tolist())

    def result(self, is_complete: bool) -> CellArrays:
        """Pack what was found."""
        state = self.stack.state
        decisions = Decisions(int(state[N_FILTERED]), int(state[N_EXPANDED]), 0)
        decisions = decisions + self.path.decisions
        count = int(state[N_CELLS])
        if not self.stores:
            none = np.zeros((0, self.network.n_groups), dtype=np.int64)
            return CellArrays(none, is_complete, decisions, None, None, None, None, count)
        self._harvest()
        parts = Leaves(*(np.concatenate(columns) for columns in zip(*self.found, strict=True)))
        _blocks[:0] = [(self.shape, block) for block in self.blocks[:_MOST_BLOCKS]]
        del _blocks[_MOST_BLOCKS:]
        self._repair(parts)
        points, directions = parts.points, None
        if not self.start.is_bounded:
            points, directions = points[:, : self.dim].copy(), points[:, self.dim :].copy()
        return CellArrays(
            parts.signatures,
            is_complete,
            decisions,
            parts.maps,
            parts.radii,
            points,
            _starts(self.found, 3),
            count,
            directions,
            facets=CellFacets(
                _starts(self.found, 5),
                parts.facets,
                _starts(self.found, 7),
                parts.ties,
                parts.blurs,
            ),
        )

    def _repair(self, parts: Leaves) -> None:
        """Compose maps that overflowed on the way in exact arithmetic."""
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(parts.maps.sum() + parts.radii.sum()):
                return
        sizes = np.abs(parts.maps).max(axis=(1, 2), initial=0.0) + parts.radii
        for cell in np.flatnonzero(~np.isfinite(sizes)).tolist():
            forms = exact_affine_map(self.network, self.start.charted.chart, parts.signatures[cell])
            block = rounded_forms(forms, forms.rows, float(self.tables.scale[0]))
            parts.maps[cell] = block[:-1]
            parts.radii[cell] = block[-1].max(initial=0.0)


def _starts(found: list[Leaves], column: int) -> Any:
    """Join the ends of the rows of blocks of cells, in some column of them, to starts."""
    starts: list[Any] = [np.zeros(1, dtype=np.int64)]
    total = 0
    for block in found:
        starts.append(block[column] + total)
        total += len(block[column + 1])
    return np.concatenate(starts)
