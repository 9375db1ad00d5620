"""The engine for two dimensions: convex polygons clipped depth first, every sign proven."""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from hardmax._kernels.doubled_forms import doubled_blocks
from hardmax._kernels.effect_buffers import effect_arrays
from hardmax._kernels.layouts import (
    LEAVES_FULL,
    N_GROUPS,
    N_OUT,
    OUTPUT_GRID,
    PARKED,
    STACK_FULL,
    Tables,
)
from hardmax._kernels.planar_buffers import (
    BLURRED,
    HAS_FAR,
    N_BROKEN,
    N_CELLS,
    N_EXPANDED,
    N_FILTERED,
    N_ITEMS,
    N_LEAVES,
    N_VERTICES,
    Frames,
    Leaves,
    Stack,
    grown_stack,
    new_frames,
    new_leaves,
    new_stack,
)
from hardmax._kernels.planar_search import search
from hardmax._kernels.planar_trees import LISTED_PER_FORM, NODES_PER_FORM
from hardmax._kernels.planar_walks import WALK_FROM
from hardmax.algebra.exact.decisions import Decisions
from hardmax.interrupts import held_interrupts
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.models.recomposition import chart_forms, exact_affine_map
from hardmax.regions.cells import CellArrays
from hardmax.regions.exact_paths import doubled_forms, finest_grid, rounded_forms
from hardmax.regions.planar_domains import PlanarDomain, planar_domain
from hardmax.regions.planar_parking import ExactPath
from hardmax.regions.planar_tables import adapted, network_tables
from hardmax.regions.search_runs import SearchRun, read_limits
from hardmax.typing import FloatArray

_FIRST_BUDGET, _FIRST_PRODUCTS = 20_000, 20_000_000
_FIRST_CELLS = 1024
_BLOCK_BYTES = 1 << 23
"""Cells are set aside in blocks of about this size, which stays in the caches."""
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
    on the whole region are settled there. Where the region before differs in few winners its forms
    are updated, at a cost linear in the width. Cost per cell: at most one composition of every
    layer, and a few sign tests for each form that is in doubt.

    Args:
        network: The network.
        domain: A box, a convex polygon, the plane, or a planar slice of a larger space.
        count_only: Store nothing; memory then does not grow with the number of cells.
        max_cells: Stop after so many cells.
        max_seconds: Stop after about so many seconds.
        progress: Show a bar where the search takes longer than a second.

    Returns:
        The cells, with counter-clockwise polygons and output maps. `is_complete` is False if a
        limit stopped the search.

    Raises:
        ArgumentError: If the domain is not planar, or has no interior.
        Interrupted: On Ctrl-C, with the cells found until then.

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
    limits = read_limits(max_cells, max_seconds)
    run = _Run(network, planar_domain(domain, network.dim_in), stores=not count_only)
    return run.finish(limits, progress)


class _Buffers(NamedTuple):
    """Scratch of a search that the next one of the same shape may use again.

    Attributes:
        shape: The sizes of a network and a domain that the buffers were made for.
        frames: The forms on the path.
        stack: The polygons.
        leaves: The cells of one harvest.
    """

    shape: tuple[Any, ...]
    frames: Frames
    stack: Stack
    leaves: Leaves


class _Setting(NamedTuple):
    """A network on a domain, as the kernels read both.

    Attributes:
        start: The domain.
        tables: The network, adapted to it.
        block: The first stream.
        doubled: The same in twice the precision.
        grid: A grid for it, if it is exact.
        winner_type: What winners are stored in: one byte where that is enough.
        cell_bytes: About how much room a cell takes.
        shape: The sizes that buffers depend on.
    """

    start: PlanarDomain
    tables: Tables
    block: FloatArray
    doubled: FloatArray
    grid: int
    winner_type: type[np.generic]
    cell_bytes: int
    shape: tuple[Any, ...]


_settings: WeakKeyDictionary[ArgmaxNetwork, _Setting] = WeakKeyDictionary()
_spare: list[_Buffers] = []
"""At most one: allocating afresh takes as long as finding a hundred cells."""


def _setting(network: ArgmaxNetwork, start: PlanarDomain) -> _Setting:
    """Prepare a network for a domain; the answer is kept until another domain is asked for."""
    known = _settings.get(network)
    if known is not None and known.start is start:
        return known
    corners = np.abs(start.edges[:, 6:8]).max(initial=1.0)
    # A power of two, so that dividing by it is exact.
    scale = float(2.0 ** min(np.frexp(corners)[1], 1000))
    tables = network_tables(network)
    block, doubled, grid = _first_stream(network, start, tables, scale)
    tables = adapted(tables, scale, not block[2:].any())
    sizes = tables.layout[:, : N_OUT + 1].tobytes(), tables.values.shape
    # Groups of other sizes need other scratch.
    starts = tuple(layer.starts.tobytes() for layer in network.layers)
    shape = sizes, starts, network.n_groups, network.dim_out, start.is_bounded
    largest = max((int(np.diff(layer.starts).max()) for layer in network.layers), default=0)
    winner_type = np.uint8 if largest <= 256 else np.int64
    cell_bytes = 4 * network.n_groups + 24 * network.dim_out + 256
    _settings[network] = setting = _Setting(
        start, tables, block, doubled, grid, winner_type, cell_bytes, shape
    )
    return setting


def _first_stream(
    network: ArgmaxNetwork, start: PlanarDomain, tables: Tables, scale: float
) -> tuple[FloatArray, FloatArray, int]:
    """Return the embedding on the domain, as a block, doubled, and a grid if the block is exact."""
    embedding, chart = network.embedding, start.chart
    if chart is None:
        block, doubled = np.zeros((4, embedding.dim_out)), np.zeros((7, embedding.dim_out))
        block[:2], block[2] = embedding.weight, embedding.bias
        doubled[:3] = block[:3]
        return block, doubled, int(tables.layout[-1, OUTPUT_GRID])
    forms = chart_forms(chart).compose(embedding)
    block = rounded_forms(forms, forms.rows, scale)
    return block, doubled_forms(forms, forms.rows, scale), finest_grid(block)


def _take_buffers(network: ArgmaxNetwork, setting: _Setting) -> _Buffers:
    """Take the spare buffers if they fit, else allocate."""
    try:
        spare = _spare.pop()
    except IndexError:
        spare = None
    if spare is not None and spare.shape == setting.shape:
        spare.stack.state[:] = 0
        spare.frames.flags[:] = 0
        if spare.frames.effects.size == 0:
            return spare
        # They hold the weights of the network before.
        return spare._replace(frames=spare.frames._replace(**effect_arrays(setting.tables)))
    most_groups = int(setting.tables.layout[:, N_GROUPS].max(initial=1))
    # A tree of boxes, and room for all parts at once, where large groups are walked.
    most = max((int(np.diff(layer.starts).max()) for layer in network.layers), default=0)
    most = most if most >= WALK_FROM else 0
    return _Buffers(
        setting.shape,
        new_frames(
            setting.tables, network.n_groups, 1 + NODES_PER_FORM * most, LISTED_PER_FORM * most
        ),
        new_stack(_EDGES + 10 * most, _ITEMS + most, most_groups),
        _room_for_cells(network, setting, _FIRST_CELLS),
    )


def _room_for_cells(network: ArgmaxNetwork, setting: _Setting, n_cells: int) -> Leaves:
    return new_leaves(n_cells, network.n_groups, network.dim_out, setting.start.is_bounded)


class _Run(SearchRun):
    """One search: its buffers, and what has been found."""

    def __init__(self, network: ArgmaxNetwork, start: PlanarDomain, stores: bool) -> None:
        self.network = network
        self.start = start
        self.stores = stores
        self.setting = _setting(network, start)
        self.tables = self.setting.tables
        self.buffers = _take_buffers(network, self.setting)
        self.frames, self.stack, self.leaves = self.buffers[1:]
        block = self.setting.block
        self.frames.blocks[0, :, : block.shape[1]] = block
        self.doubled = doubled_blocks(self.frames, self.setting.doubled)
        self.frames.flags[0, :2] = int(not block[3].any()), self.setting.grid
        n_edges = len(start.edges)
        while len(self.stack.edges) < 4 * n_edges:
            self.stack = grown_stack(self.stack)
        self.stack.edges[:n_edges] = start.edges
        self.stack.labels[:n_edges] = start.labels
        self.stack.items[0] = 0, n_edges, 0, -1
        self.stack.state[N_ITEMS] = 1
        self.stack.state[HAS_FAR] = int(not start.is_bounded)
        self.path = ExactPath(network, start, self.tables, self.frames)
        self.found: list[Leaves] = []
        # A step may compose all weights once: the first slice must not be long either.
        products = self.tables.numbers.size
        self.first_budget = max(1, min(_FIRST_BUDGET, _FIRST_PRODUCTS // products))

    @property
    def n_found(self) -> int:
        """How many cells have been found."""
        return int(self.stack.state[N_CELLS])

    def go_on(self, limit: int, budget: int) -> int:
        """Run the compiled search."""
        buffers = self.frames, self.doubled, self.stack, self.leaves
        return int(search(self.tables, *buffers, self.stores, limit, budget))

    def make_way(self, status: int) -> None:
        """Split exactly, sharpen vertices, or make room."""
        if status == PARKED:
            self.stack = self.path.split_top(self.stack)
        elif status == BLURRED:
            self.path.sharpen_top(self.stack)
        elif status == LEAVES_FULL:
            with held_interrupts():
                self._harvest()
                self._make_room()
        elif status == STACK_FULL:
            self.stack = grown_stack(self.stack)

    def _harvest(self) -> None:
        """Set the cells found aside; arrays of the right size, so that buffers are free again."""
        state = self.stack.state
        cells, points = int(state[N_LEAVES]), int(state[N_VERTICES])
        leaves = self.leaves
        self.found.append(
            Leaves(
                leaves.signatures[:cells].astype(self.setting.winner_type),
                leaves.maps[:cells].copy(),
                leaves.radii[:cells].copy(),
                leaves.starts[: cells + 1].copy(),
                leaves.points[:points].copy(),
                leaves.directions[:points].copy(),
                leaves.walls[:points].copy(),
                leaves.cuts[:points].copy(),
            )
        )
        state[N_LEAVES] = state[N_VERTICES] = 0

    def _make_room(self) -> None:
        # One polygon may have more vertices than a whole block has room for.
        widest = int(self.stack.items[int(self.stack.state[N_ITEMS]) - 1, 1])
        size = min(2 * len(self.leaves.radii), _BLOCK_BYTES // self.setting.cell_bytes)
        if max(size, widest) > len(self.leaves.radii):
            self.leaves = _room_for_cells(self.network, self.setting, max(size, widest))

    def result(self, is_complete: bool) -> CellArrays:
        """Pack what was found."""
        state = self.stack.state
        decisions = Decisions(int(state[N_FILTERED]), int(state[N_EXPANDED]), 0)
        decisions = decisions + self.path.decisions
        count = int(state[N_CELLS])
        if not self.stores:
            none = np.zeros((0, self.network.n_groups), dtype=np.int64)
            self._give_back()
            return CellArrays(none, is_complete, decisions, None, None, None, None, count)
        self._harvest()
        cells = self.found[0] if len(self.found) == 1 else _joined(self.found)
        if state[N_BROKEN]:
            self._repair(cells)
        self._give_back()
        return CellArrays(
            cells.signatures,
            is_complete,
            decisions,
            cells.maps,
            cells.radii,
            cells.points,
            cells.starts,
            count,
            None if self.start.is_bounded else cells.directions,
            cells.walls,
            cells.cuts,
        )

    def _give_back(self) -> None:
        """Keep the first buffers, which are small, for the next search."""
        _spare[:] = [self.buffers]

    def _repair(self, cells: Leaves) -> None:
        """Compose maps that overflowed on the way in exact arithmetic."""
        for cell in np.flatnonzero(~np.isfinite(cells.radii)).tolist():
            forms = exact_affine_map(self.network, self.path.chart, cells.signatures[cell])
            block = rounded_forms(forms, forms.rows, float(self.tables.scale[0]))
            cells.maps[cell] = block[:3]
            cells.radii[cell] = block[3].max()


def _joined(found: list[Leaves]) -> Leaves:
    """Join blocks of cells."""
    joined = Leaves(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
    starts = [np.zeros(1, dtype=np.int64)]
    total = 0
    for block in found:
        starts.append(block.starts[1:] + total)
        total += len(block.points)
    return joined._replace(starts=np.concatenate(starts))
