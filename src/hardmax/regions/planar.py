"""The engine for two dimensions: convex polygons clipped depth first, every sign proven."""

import time
from typing import Any

import numpy as np

from hardmax._kernels.planar_buffers import (
    BLURRED,
    BUDGET,
    CELL_LIMIT,
    DONE,
    LEAVES_FULL,
    N_CELLS,
    N_EXPANDED,
    N_FILTERED,
    N_FORMS,
    N_GROUPS,
    N_ITEMS,
    N_LEAVES,
    N_VERTICES,
    OUTPUT_GRID,
    PARKED,
    SHIFT,
    STACK_FULL,
    Frames,
    Leaves,
    Stack,
    Tables,
    grown_stack,
    new_frames,
    new_leaves,
    new_stack,
)
from hardmax._kernels.planar_search import enter, search
from hardmax.algebra.exact.decisions import Decisions
from hardmax.algebra.exact.dyadic import lowest_bits
from hardmax.arguments import integer, number
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.models.recomposition import chart_forms, exact_affine_map
from hardmax.progress import track
from hardmax.regions.cells import CellArrays
from hardmax.regions.planar_domains import PlanarDomain, planar_domain
from hardmax.regions.planar_parking import ExactPath, rounded_forms
from hardmax.regions.planar_tables import adapted, network_tables
from hardmax.typing import FloatArray, IntArray

_SLICE_S = 0.05
"""How long the compiled search runs before it looks up: interrupts and limits act then."""
_FIRST_BUDGET = 20_000
_FIRST_CELLS = 1024
_MOST_CELLS = 65_536
_EDGES, _ITEMS = 1024, 128


def explore(
    network: ArgmaxNetwork,
    domain: Any,
    *,
    count_only: bool = False,
    max_cells: int | None = None,
    max_seconds: float | None = None,
    progress: bool = True,
) -> CellArrays:
    r"""Find every cell of a network on a planar domain.

    The search splits convex polygons, one group of forms after the other, layer by layer and depth
    first. A layer is composed once for each region of the layers before it; groups with one winner
    on the whole region are settled there. Cost per cell: at most one composition of every layer,
    and a few sign tests for each form that is in doubt.

    Args:
        network: The network.
        domain: A box, a convex polygon, the plane, or a planar slice of a larger space.
        count_only: Store nothing; memory then does not grow with the number of cells.
        max_cells: Stop after so many cells.
        max_seconds: Stop after about so many seconds.
        progress: Show a bar where the search takes longer than a second.

    Returns:
        The cells, with counter-clockwise polygons and output maps. `is_complete` is False if the
        search was stopped, by a limit or by an interrupt.

    Raises:
        ArgumentError: If the domain is not planar, or has no interior.

    Examples:
        >>> from hardmax.geometry.domains import Box, WholeSpace
        >>> from hardmax.models.networks import ReluNetwork
        >>> cross = ReluNetwork([np.eye(2), np.ones((2, 1))]).network
        >>> cells = explore(cross, Box([-1, -1], [1, 1]))
        >>> cells.n_counted, sorted(cells.signatures.tolist())
        (4, [[0, 0], [0, 1], [1, 0], [1, 1]])
        >>> explore(cross, WholeSpace(2), count_only=True).n_counted
        4
    """
    limit = -1 if max_cells is None else integer("max_cells", max_cells, at_least=0)
    if max_seconds is not None:
        max_seconds = number("max_seconds", max_seconds, at_least=0.0)
    start = planar_domain(domain, network.dim_in)
    run = _Run(network, start, stores=not count_only)
    deadline = None if max_seconds is None else time.monotonic() + max_seconds
    with track(iter(()), "cells") as bar:
        is_complete = run.work(limit, deadline, bar.advance if progress else _ignored)
    return run.result(is_complete)


def _ignored(n_steps: int) -> None:
    """Do nothing."""


class _Run:
    """One search: its buffers, and what has been found."""

    def __init__(self, network: ArgmaxNetwork, start: PlanarDomain, stores: bool) -> None:
        self.network = network
        self.start = start
        self.stores = stores
        corners = np.abs(start.edges[:, 6:8]).max(initial=1.0)
        # A power of two, so that dividing by it is exact.
        scale = float(2.0 ** min(np.frexp(corners)[1], 1000))
        tables = network_tables(network)
        block, grid = self._first_stream(tables, scale)
        self.tables: Tables = adapted(tables, scale, not block[2:].any())
        self.frames: Frames = new_frames(self.tables, network.n_groups)
        self.frames.blocks[0, :, : block.shape[1]] = block
        self.frames.flags[0, :2] = int(not block[3].any()), grid
        most_groups = int(self.tables.layout[:, N_GROUPS].max(initial=1))
        n_edges = len(start.edges)
        self.stack: Stack = new_stack(max(_EDGES, 4 * n_edges), _ITEMS, most_groups)
        self.stack.edges[:n_edges] = start.edges
        self.stack.labels[:n_edges] = start.labels
        self.stack.items[0, 1] = n_edges
        self.stack.state[N_ITEMS] = 1
        self.path = ExactPath(network, start, self.tables, self.frames)
        self.leaves = self._new_leaves(_FIRST_CELLS if stores else 1)
        self.found: list[Leaves] = []
        if network.layers:
            enter(self.tables, self.frames, self.stack)

    def _first_stream(self, tables: Tables, scale: float) -> tuple[FloatArray, int]:
        """Return the block of the embedding on the domain, and a grid for it if it is exact."""
        embedding, chart = self.network.embedding, self.start.chart
        if chart is None:
            block = np.zeros((4, embedding.dim_out))
            block[:2], block[2] = embedding.weight, embedding.bias
            return block, int(tables.layout[-1, OUTPUT_GRID])
        forms = chart_forms(chart).compose(embedding)
        block = rounded_forms(forms, forms.rows, scale)
        return block, min(
            int(lowest_bits(np.where(np.isfinite(block[:3]), block[:3], 0)).min()), 2000
        )

    def _new_leaves(self, n_cells: int) -> Leaves:
        most_forms = int(self.tables.layout[:, N_FORMS].max())
        return new_leaves(
            n_cells, 5 * n_cells, self.network.n_groups, self.network.dim_out, most_forms
        )

    def work(self, limit: int, deadline: float | None, advance: Any) -> bool:
        """Search until done or stopped; say whether everything was searched."""
        budget = _FIRST_BUDGET
        shown = 0
        try:
            while True:
                began = time.perf_counter()
                status = search(
                    self.tables, self.frames, self.stack, self.leaves, self.stores, limit, budget
                )
                if status == DONE:
                    return True
                if status == CELL_LIMIT:
                    return False
                if status == BUDGET:
                    spent = max(time.perf_counter() - began, 1e-6)
                    budget = int(min(max(budget * _SLICE_S / spent, 100), 1e9))
                elif status == PARKED:
                    self.stack = self.path.split_top(self.stack)
                elif status == BLURRED:
                    self.path.sharpen_top(self.stack)
                elif status == LEAVES_FULL:
                    self._harvest()
                    self._make_room()
                elif status == STACK_FULL:
                    self.stack = grown_stack(self.stack)
                advance(int(self.stack.state[N_CELLS]) - shown)
                shown = int(self.stack.state[N_CELLS])
                if deadline is not None and time.monotonic() >= deadline:
                    return False
        except KeyboardInterrupt:
            return False

    def _harvest(self) -> None:
        """Set the cells found aside."""
        state = self.stack.state
        cells, points = int(state[N_LEAVES]), int(state[N_VERTICES])
        leaves = self.leaves
        self.found.append(
            Leaves(
                leaves.signatures[:cells],
                leaves.maps[:cells],
                leaves.radii[:cells],
                leaves.ends[:cells],
                leaves.points[:points],
                leaves.labels[:points],
            )
        )
        state[N_LEAVES] = state[N_VERTICES] = 0

    def _make_room(self) -> None:
        # One polygon may have more vertices than a whole block has room for.
        widest = int(self.stack.items[int(self.stack.state[N_ITEMS]) - 1, 1])
        size = min(2 * len(self.leaves.radii), _MOST_CELLS)
        self.leaves = self._new_leaves(max(size, widest))

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
        parts = self.found[0]
        if len(self.found) > 1:
            parts = Leaves(*(np.concatenate(columns) for columns in zip(*self.found, strict=True)))
        starts = _starts(self.found)
        self._repair(parts)
        points = parts.points[:, :2].copy()
        directions = None
        if not self.start.is_bounded:
            directions = parts.points[:, 2:].copy()
        return CellArrays(
            parts.signatures,
            is_complete,
            decisions,
            parts.maps,
            parts.radii,
            points,
            starts,
            count,
            directions,
            _walls(parts.labels),
            parts.labels[:, 2],
        )

    def _repair(self, parts: Leaves) -> None:
        """Compose maps that overflowed on the way in exact arithmetic."""
        if np.isfinite(parts.radii.sum() + np.abs(parts.maps).sum()):
            return
        sizes = np.abs(parts.maps).max(axis=(1, 2), initial=0.0) + parts.radii
        for cell in np.flatnonzero(~np.isfinite(sizes)).tolist():
            forms = exact_affine_map(self.network, self.path.chart, parts.signatures[cell])
            block = rounded_forms(forms, forms.rows, float(self.tables.scale[0]))
            parts.maps[cell] = block[:3]
            parts.radii[cell] = block[3].max()


def _starts(found: list[Leaves]) -> IntArray:
    """Join the ends of the vertices of blocks of cells to starts."""
    ends = [np.zeros(1, dtype=np.int64)]
    total = 0
    for block in found:
        ends.append(block.ends + total)
        total += len(block.points)
    return np.concatenate(ends)


def _walls(labels: IntArray) -> IntArray:
    """Unpack labels into layer, group, winner and rival."""
    walls = np.empty((len(labels), 4), dtype=np.int64)
    walls[:, 0] = (labels[:, 0] + SHIFT // 2) >> 32
    walls[:, 1] = labels[:, 0] - walls[:, 0] * SHIFT
    walls[:, 2] = labels[:, 1] >> 32
    walls[:, 3] = labels[:, 1] & (SHIFT - 1)
    return walls
