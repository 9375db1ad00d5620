"""Compiled searches, alone or shared by threads, and what they have found."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hardmax._core.memory import address
from hardmax.algebra.exact.decisions import Decisions
from hardmax.interrupts import held_interrupts, packed_when_done
from hardmax.models.argmax_layers import AffineMap, ArgmaxNetwork
from hardmax.models.recomposition import exact_affine_map
from hardmax.regions.cells import CellArrays, CellFacets, WallNames
from hardmax.regions.core_networks import CoreNetwork, core_network
from hardmax.regions.core_searches import (
    BLURRED,
    CELLS_FULL,
    STACK_FULL,
    UNCLEAR,
    CellsRoom,
    CoreSearch,
    FirstStream,
    PlaneCell,
    SpaceCell,
    Task,
)
from hardmax.regions.exact_paths import ExactPath
from hardmax.regions.rounded_forms import rounded_forms
from hardmax.regions.search_runs import Limits, SearchRun
from hardmax.regions.shared_searches import share
from hardmax.typing import AnyArray, FloatArray

_FIRST_BUDGET, _FIRST_PRODUCTS = 20_000, 20_000_000
_FIRST_CELLS = 1024
_BLOCK_BYTES = 1 << 23
"""Cells are set aside in blocks of about this size, which stays in the caches."""
_NO_WINNERS = np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int8)


class SearchDomain(NamedTuple):
    """What a search of a network on a domain begins with.

    Attributes:
        network: The network.
        chart: The map from coordinates of the domain to inputs; None for the identity.
        cell: The first cell.
        scale: A power of two, at least 1, that no coordinate of a vertex exceeds.
        is_bounded: Whether no vertex is at infinity.
        stream: The stream before the first layer.
        exact_path: Makes what splits cells of a search exactly.
    """

    network: ArgmaxNetwork
    chart: AffineMap | None
    cell: PlaneCell | SpaceCell
    scale: float
    is_bounded: bool
    stream: FirstStream
    exact_path: Callable[[CoreSearch], ExactPath]

    @property
    def dim(self) -> int:
        """The dimension of the domain."""
        return len(self.stream.block) - 2


class FoundCells(NamedTuple):
    """Arrays that cells are written to.

    Attributes:
        signatures: `(n_cells, n_groups)`, bytes if no group has more than 256 forms.
        maps: `(n_cells, dim + 1, dim_out)`.
        map_radii: `(n_cells,)`.
        ends: Where the vertices of each cell end, `(n_cells,)`.
        facet_ends: Where its facets end, likewise; none in two dimensions, nor of the next two.
        tie_ends: Where its ties end.
        blurs: Bounds on the radii of its vertices and of their directions, `(n_cells, 2)`.
        points: `(n_vertices, dim)`.
        directions: `(n_vertices, dim)`; no rows where the domain is bounded.
        walls: The codes of edges, `(n_vertices,)`, or the group and the form beside each facet,
            `(n_facets, 2)`.
        ties: `(n_ties, 2)`.
    """

    signatures: AnyArray
    maps: FloatArray
    map_radii: FloatArray
    ends: AnyArray
    facet_ends: AnyArray
    tie_ends: AnyArray
    blurs: FloatArray
    points: FloatArray
    directions: FloatArray
    walls: AnyArray
    ties: AnyArray


def explore_domain(
    domain: SearchDomain, *, count_only: bool, limits: Limits, workers: int, progress: bool
) -> CellArrays:
    """Find every cell of a network on a domain.

    Args:
        domain: The network and the domain.
        count_only: Store nothing; memory then does not grow with the number of cells.
        limits: Where to stop.
        workers: How many threads search; the result does not depend on it. A search for at most so
            many cells is done by one.
        progress: Show a bar where the search takes longer than a second.

    Raises:
        Interrupted: On Ctrl-C, with the cells found until then.
    """

    def begin(task: Task) -> Run:
        return Run(domain, task, stores=not count_only)

    run = begin(Task(0, False, *_NO_WINNERS, domain.cell, False))
    runs = [run]

    def work() -> bool:
        if workers == 1 or limits.cells >= 0:
            return run.work(limits, progress)
        return share(runs, begin, limits.seconds, workers, progress)

    return packed_when_done(work, lambda is_complete: packed(runs, is_complete))


class Run(SearchRun):
    """One search: its buffers, and what has been found."""

    def __init__(self, domain: SearchDomain, task: Task, *, stores: bool) -> None:
        self.domain = domain
        self.stores = stores
        self.packed: CoreNetwork = core_network(domain.network)
        self.search = CoreSearch(
            self.packed,
            domain.stream,
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
            self._make_room(_FIRST_CELLS >> max(domain.dim - 3, 0))
        # A step may compose all weights once: the first slice must not be long either.
        self.first_budget = max(1, min(_FIRST_BUDGET, _FIRST_PRODUCTS // self.packed.n_weights))

    @cached_property
    def path(self) -> ExactPath:
        """What splits exactly; made where it is needed."""
        return self.domain.exact_path(self.search)

    @property
    def n_found(self) -> int:
        """How many cells have been found."""
        return self.search.counts()[0]

    def give_away(self) -> list[Task]:
        """Give the lower half of the stack away, if there is more than one cell on it."""
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
        network, dim = self.domain.network, self.domain.dim
        cell_bytes = 4 * network.n_groups + 8 * (dim + 1) * network.dim_out + 256
        cell_bytes += 8 * dim << dim
        size = min(2 * self.room.room_cells, max(_BLOCK_BYTES // cell_bytes, _FIRST_CELLS))
        # One cell may have more vertices, facets or ties than a whole block has room for.
        _, cell = self.search.top()
        widest = max(map(len, cell[:-1])) + network.n_groups
        if max(size, widest) > self.room.room_cells:
            self._make_room(max(size, widest))

    def _make_room(self, n_cells: int) -> None:
        """Allocate a block of cells."""
        network, dim = self.domain.network, self.domain.dim
        is_planar, is_bounded = dim == 2, self.domain.is_bounded
        n_vertices = 5 * n_cells if is_planar else n_cells << dim
        n_facets = 0 if is_planar else 4 * dim * n_cells
        n_ties = 0 if is_planar else n_cells + network.n_groups
        n_rows = 0 if is_planar else n_cells
        is_short = self.packed.largest_group <= 256
        self.block = FoundCells(
            np.empty((n_cells, network.n_groups), dtype=np.uint8 if is_short else np.int32),
            np.empty((n_cells, dim + 1, network.dim_out)),
            np.empty(n_cells),
            np.empty(n_cells, dtype=np.int64),
            np.empty(n_rows, dtype=np.int64),
            np.empty(n_rows, dtype=np.int64),
            np.empty((n_rows, 2)),
            np.empty((n_vertices, dim)),
            np.empty((0 if is_bounded else n_vertices, dim)),
            np.empty(n_vertices if is_planar else (n_facets, 2), dtype=np.int32),
            np.empty((n_ties, 2), dtype=np.int32),
        )
        (signatures, maps, radii, ends, facet_ends, tie_ends, blurs, points, directions, walls,
         ties) = map(address, self.block)  # fmt: skip
        both = (signatures, None) if is_short else (None, signatures)
        self.room = CellsRoom(
            n_cells, n_vertices, n_facets, n_ties, 0, 0, 0, 0, self.room.n_broken, *both, maps,
            radii, ends, points, None if is_bounded else directions, walls, facet_ends, tie_ends,
            ties, blurs,
        )  # fmt: skip

    def harvest(self) -> None:
        """Set the cells found aside; arrays of the right size, so that the block is free again."""
        room = self.room
        n_walls = room.n_vertices if self.domain.dim == 2 else room.n_facets
        lengths = 7 * [room.n_cells] + [room.n_vertices, room.n_vertices, n_walls, room.n_ties]
        parts = zip(self.block, lengths, strict=True)
        self.found.append(FoundCells(*(array[:length].copy() for array, length in parts)))
        room.n_cells = room.n_vertices = room.n_facets = room.n_ties = 0

    def repair(self, cells: FoundCells) -> None:
        """Compose maps that overflowed on the way in exact arithmetic."""
        network = self.domain.network
        chart = self.domain.chart or AffineMap.identity(network.dim_in)
        for cell in np.flatnonzero(~np.isfinite(cells.map_radii)).tolist():
            forms = exact_affine_map(network, chart, cells.signatures[cell])
            block = rounded_forms(forms, forms.rows, self.domain.scale)
            cells.maps[cell] = block[:-1]
            cells.map_radii[cell] = block[-1].max(initial=0.0)


def packed(runs: list[Run], is_complete: bool) -> CellArrays:
    """Pack what one or more runs have found, one after the other."""
    runs = sorted(runs, key=Run.first_signature) if len(runs) > 1 else runs
    first = runs[0]
    counts = [run.search.counts() for run in runs]
    count, filtered, expanded, _ = map(sum, zip(*counts, strict=True))
    decisions = Decisions(filtered, expanded, 0)
    for run in runs:
        if "path" in run.__dict__:
            decisions = decisions + run.path.decisions
    if not first.stores:
        none = np.zeros((0, first.domain.network.n_groups), dtype=np.int64)
        return CellArrays(none, is_complete, decisions, None, None, None, None, count)
    for run in runs:
        run.harvest()
    found = [block for run in runs for block in run.found]
    cells = found[0] if len(found) == 1 else _joined(found)
    if any(run.room.n_broken for run in runs):
        first.repair(cells)
    is_planar = first.domain.dim == 2
    return CellArrays(
        cells.signatures,
        is_complete,
        decisions,
        cells.maps,
        cells.map_radii,
        cells.points,
        _starts(cells.ends),
        count,
        None if first.domain.is_bounded else cells.directions,
        wall_names=_wall_names(cells, first.packed) if is_planar else None,
        facets=None if is_planar else _facets(cells),
    )


def _starts(ends: AnyArray) -> Any:
    return np.concatenate([np.zeros(1, dtype=np.int64), ends])


def _wall_names(cells: FoundCells, network: CoreNetwork) -> WallNames:
    return WallNames(cells.walls, network.form_starts, network.group_layers)


def _facets(cells: FoundCells) -> CellFacets:
    starts, tie_starts = _starts(cells.facet_ends), _starts(cells.tie_ends)
    return CellFacets(starts, cells.walls, tie_starts, cells.ties, cells.blurs)


def _joined(found: list[FoundCells]) -> FoundCells:
    """Join blocks of cells."""
    joined = FoundCells(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
    ends: list[list[AnyArray]] = [[], [], []]
    totals = [0, 0, 0]
    for block in found:
        sizes = len(block.points), len(block.walls), len(block.ties)
        for k, one in enumerate((block.ends, block.facet_ends, block.tie_ends)):
            ends[k].append(one + totals[k])
            totals[k] += sizes[k]
    vertex_ends, facet_ends, tie_ends = map(np.concatenate, ends)
    return joined._replace(ends=vertex_ends, facet_ends=facet_ends, tie_ends=tie_ends)
