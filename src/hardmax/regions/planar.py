"""The engine for two dimensions: convex polygons clipped depth first, every sign proven."""

from functools import cached_property
from typing import Any

import numpy as np

from hardmax._core.memory import address
from hardmax.algebra.exact.decisions import Decisions
from hardmax.interrupts import held_interrupts, packed_when_done
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.models.recomposition import chart_forms, exact_affine_map
from hardmax.regions.cells import CellArrays, WallNames
from hardmax.regions.core_networks import core_network
from hardmax.regions.planar_core import (
    BLURRED,
    CELLS_FULL,
    STACK_FULL,
    UNCLEAR,
    CellsRoom,
    FirstStream,
    FoundCells,
    PlaneSearch,
    Task,
)
from hardmax.regions.planar_domains import PlanarDomain, planar_domain
from hardmax.regions.planar_parking import ExactPath
from hardmax.regions.rounded_forms import doubled_forms, finest_grid, rounded_forms
from hardmax.regions.search_runs import SearchRun, read_limits
from hardmax.regions.shared_searches import share
from hardmax.typing import AnyArray, FloatArray

_FIRST_BUDGET, _FIRST_PRODUCTS = 20_000, 20_000_000
_FIRST_CELLS = 1024
_BLOCK_BYTES = 1 << 23
"""Cells are set aside in blocks of about this size, which stays in the caches."""


def explore(
    network: ArgmaxNetwork,
    domain: Any,
    *,
    count_only: bool = False,
    max_cells: int | None = None,
    max_seconds: float | None = None,
    workers: int = 1,
    progress: bool = True,
) -> CellArrays:
    r"""Find every cell of a network on a planar domain.

    The search, compiled in `core/include/hardmax/search.hpp`, splits convex polygons, one group of
    forms after the other, layer by layer and depth first. A layer is composed once for each region
    of the layers before it; groups with one winner on the whole region are settled there. Wide
    layers are composed once for typical winners, and cost what the others change. Cells come in the
    lexicographic order of their signatures.

    Args:
        network: The network.
        domain: A box, a convex polygon, the plane, or a planar slice of a larger space.
        count_only: Store nothing; memory then does not grow with the number of cells.
        max_cells: Stop after so many cells.
        max_seconds: Stop after about so many seconds.
        workers: How many threads search; the result does not depend on it. A search for at most
            `max_cells` is done by one.
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
        >>> cells.n_counted, cells.signatures.tolist()
        (4, [[0, 0], [0, 1], [1, 0], [1, 1]])
        >>> explore(cross, WholeSpace(2), count_only=True).n_counted
        4
    """
    limits = read_limits(max_cells, max_seconds)
    where = planar_domain(domain, network.dim_in)
    whole = Task(0, False, *_NO_WINNERS, where.edges, where.walls, False)
    run = _Run(network, where, whole, stores=not count_only)
    runs = [run]

    def begin(task: Task) -> _Run:
        return _Run(network, where, task, stores=not count_only)

    def work() -> bool:
        if workers == 1 or limits.cells >= 0:
            return run.work(limits, progress)
        return share(runs, begin, limits.seconds, workers, progress)

    return packed_when_done(work, lambda is_complete: _packed(runs, is_complete))


def first_stream(network: ArgmaxNetwork, domain: PlanarDomain) -> FirstStream:
    """Return the embedding on the domain."""
    embedding, chart = network.embedding, domain.chart
    if chart is None and embedding.is_identity:
        return _COORDINATES
    if chart is None:
        block, doubled = np.zeros((4, embedding.dim_out)), np.zeros((7, embedding.dim_out))
        block[:2], block[2] = embedding.weight, embedding.bias
        doubled[:3] = block[:3]
        return FirstStream(block, doubled, finest_grid(block))
    forms = chart_forms(chart).compose(embedding)
    block = rounded_forms(forms, forms.rows, domain.scale)
    return FirstStream(block, doubled_forms(forms, forms.rows, domain.scale), finest_grid(block))


_COORDINATES = FirstStream(np.eye(4, 2), np.eye(7, 2), 0)
_NO_WINNERS = np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int8)


class _Run(SearchRun):
    """One search: its buffers, and what has been found."""

    def __init__(
        self, network: ArgmaxNetwork, domain: PlanarDomain, task: Task, *, stores: bool
    ) -> None:
        self.network = network
        self.domain = domain
        self.stores = stores
        self.packed = core_network(network)
        self.search = PlaneSearch(
            self.packed,
            first_stream(network, domain),
            domain.scale,
            is_bounded=domain.is_bounded,
            stores=stores,
        )
        self.search.push(task)
        if task.is_merged:
            self.path.scores(task.layer - 1)
            self.search.recompose(task.layer - 1)
        self.found: list[FoundCells] = []
        self.room = CellsRoom()
        if stores:
            self._make_room(_FIRST_CELLS)
        # A step may compose all weights once: the first slice must not be long either.
        self.first_budget = max(1, min(_FIRST_BUDGET, _FIRST_PRODUCTS // self.packed.n_weights))

    @cached_property
    def path(self) -> ExactPath:
        """What splits exactly; made where it is needed."""
        return ExactPath(self.network, self.domain, self.search)

    @property
    def n_found(self) -> int:
        """How many cells have been found."""
        return self.search.counts()[0]

    def give_away(self) -> list[Task]:
        """Give the lower half of the stack away, if there is more than one polygon on it."""
        n_items = self.search.counts()[3]
        return self.search.give_away(n_items // 2) if n_items > 1 else []

    def go_on(self, limit: int, budget: int) -> int:
        """Run the compiled search."""
        return self.search.run(self.room, limit, budget)

    def first_signature(self) -> bytes:
        """Return what sorts runs of one search by their cells; nothing where none are stored."""
        block = self.found[0] if self.found else self.block if self.stores else None
        return b"" if block is None else block.signatures[0].astype(">u4").tobytes()

    def make_way(self, status: int) -> None:
        """Split exactly, sharpen vertices, or make room."""
        if status == UNCLEAR:
            self.path.split_top()
        elif status == BLURRED:
            self.path.sharpen_top()
        elif status == STACK_FULL:
            self.search.grow()
        elif status == CELLS_FULL:
            with held_interrupts():
                self._set_aside()

    def _set_aside(self) -> None:
        """Set the cells found aside, and make room for more; never to be interrupted."""
        self.harvest()
        cell_bytes = 4 * self.network.n_groups + 24 * self.network.dim_out + 256
        size = min(2 * self.room.room_cells, max(_BLOCK_BYTES // cell_bytes, _FIRST_CELLS))
        # One polygon may have more vertices than a whole block has room for.
        widest = len(self.search.top()[1])
        if max(size, widest) > self.room.room_cells:
            self._make_room(max(size, widest))

    def _make_room(self, n_cells: int) -> None:
        """Allocate a block of cells."""
        n_vertices = 5 * n_cells
        is_short = self.packed.largest_group <= 256
        winner_type = np.uint8 if is_short else np.int32
        self.block = FoundCells(
            np.empty((n_cells, self.network.n_groups), dtype=winner_type),
            np.empty((n_cells, 3, self.network.dim_out)),
            np.empty(n_cells),
            np.empty(n_cells, dtype=np.int64),
            np.empty((n_vertices, 2)),
            np.empty((0 if self.domain.is_bounded else n_vertices, 2)),
            np.empty(n_vertices, dtype=np.int32),
        )
        signatures, maps, radii, ends, points, directions, walls = map(address, self.block)
        both = (signatures, None) if is_short else (None, signatures)
        self.room = CellsRoom(
            n_cells, n_vertices, 0, 0, self.room.n_broken, *both, maps, radii, ends, points,
            None if self.domain.is_bounded else directions, walls,
        )  # fmt: skip

    def harvest(self) -> None:
        """Set the cells found aside; arrays of the right size, so that the block is free again."""
        n_cells, n_vertices = self.room.n_cells, self.room.n_vertices
        block = self.block
        kept: list[Any] = [array[:n_cells].copy() for array in block[:4]]
        kept += [array[:n_vertices].copy() for array in block[4:]]
        self.found.append(FoundCells(*kept))
        self.room.n_cells = self.room.n_vertices = 0

    def repair(self, cells: FoundCells) -> None:
        """Compose maps that overflowed on the way in exact arithmetic."""
        for cell in np.flatnonzero(~np.isfinite(cells.map_radii)).tolist():
            forms = exact_affine_map(self.network, self.path.chart, cells.signatures[cell])
            block = rounded_forms(forms, forms.rows, self.domain.scale)
            cells.maps[cell] = block[:3]
            cells.map_radii[cell] = block[3].max()


def _packed(runs: list[_Run], is_complete: bool) -> CellArrays:
    """Pack what one or more runs have found, one after the other."""
    runs = sorted(runs, key=_Run.first_signature) if len(runs) > 1 else runs
    first = runs[0]
    counts = [run.search.counts() for run in runs]
    count, filtered, expanded, _ = map(sum, zip(*counts, strict=True))
    decisions = Decisions(filtered, expanded, 0)
    for run in runs:
        if "path" in run.__dict__:
            decisions = decisions + run.path.decisions
    if not first.stores:
        none = np.zeros((0, first.network.n_groups), dtype=np.int64)
        return CellArrays(none, is_complete, decisions, None, None, None, None, count)
    for run in runs:
        run.harvest()
    found = [block for run in runs for block in run.found]
    cells = found[0] if len(found) == 1 else _joined(found)
    if any(run.room.n_broken for run in runs):
        first.repair(cells)
    packed, is_bounded = first.packed, first.domain.is_bounded
    return CellArrays(
        cells.signatures,
        is_complete,
        decisions,
        cells.maps,
        _narrowed(cells.map_radii),
        cells.points,
        np.concatenate([np.zeros(1, dtype=np.int64), cells.ends]),
        count,
        None if is_bounded else cells.directions,
        wall_names=WallNames(cells.walls, packed.form_starts, packed.group_layers),
    )


def _narrowed(radii: FloatArray) -> AnyArray:
    """Round radii up to numbers of four bytes."""
    with np.errstate(over="ignore", under="ignore"):
        narrow = radii.astype(np.float32)
    return np.where(narrow < radii, np.nextafter(narrow, np.float32(np.inf)), narrow)


def _joined(found: list[FoundCells]) -> FoundCells:
    """Join blocks of cells."""
    joined = FoundCells(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
    total = 0
    ends = []
    for block in found:
        ends.append(block.ends + total)
        total += len(block.points)
    return joined._replace(ends=np.concatenate(ends))
