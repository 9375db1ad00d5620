"""Compiled searches, alone or shared by threads, and what they have found."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_int32
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hardmax._ground.interrupts import held_interrupts, packed_when_done
from hardmax.exact.decisions import Decisions
from hardmax.models._arithmetic.recomposition import exact_affine_map
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.regions._search.exact_paths import ExactPath
from hardmax.regions._search.networks import CoreNetwork, core_network
from hardmax.regions._search.rounded_forms import rounded_forms
from hardmax.regions._search.searches import (
    BLURRED,
    CELLS_FULL,
    STACK_FULL,
    UNCLEAR,
    CellColumns,
    CellsRoom,
    CoreSearch,
    FirstStream,
    FoundCells,
    PlaneCell,
    Sizes,
    SpaceCell,
    Task,
)
from hardmax.regions._search.slices import Limits, SearchRun
from hardmax.regions._search.threads import share
from hardmax.regions.cells import CellArrays, CellFacets, WallNames
from hardmax.typing import AnyArray

_FIRST_BUDGET, _FIRST_PRODUCTS = 20_000, 20_000_000
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
    is_wanted = c_int32(0)

    def begin(task: Task) -> Run:
        return Run(domain, task, is_wanted, stores=not count_only)

    runs = [begin(Task(0, False, *_NO_WINNERS, domain.cell, False))]

    def work() -> bool:
        if workers == 1 or limits.cells >= 0:
            return runs[0].work(limits, progress)
        return share(runs, begin, is_wanted, limits.seconds, workers, progress)

    return packed_when_done(work, lambda is_complete: packed(runs, is_complete, workers))


class Run(SearchRun):
    """One search: its buffers, and what has been found.

    Attributes:
        is_wanted: Set by another thread that wants some of the work.
    """

    def __init__(
        self, domain: SearchDomain, task: Task, is_wanted: c_int32, *, stores: bool
    ) -> None:
        self.is_wanted = is_wanted
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
        self.columns: CellColumns | None = None
        if stores:
            sizes = domain.dim, domain.network.dim_out
            self.columns = CellColumns(self.packed, *sizes, is_bounded=domain.is_bounded)
        self.room = CellsRoom() if self.columns is None else self.columns.room
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
        return self.search.run(self.room, limit, budget, self.is_wanted)

    def first_signature(self) -> bytes:
        """Return what sorts runs of one search by their cells; nothing where none are stored."""
        if self.columns is None:
            return b""
        return self.columns.first_signature().astype(">u4").tobytes()

    def make_way(self, status: int) -> None:
        """Split exactly, sharpen vertices, or make room."""
        if status == UNCLEAR:
            self.path.split_top()
        elif status == BLURRED:
            self.path.sharpen_top()
        elif status == STACK_FULL:
            self.search.grow()
        elif status == CELLS_FULL:
            assert self.columns is not None
            with held_interrupts():
                self.columns.grow(self.search.top()[1])

    def repair(self, cells: FoundCells) -> None:
        """Compose maps that overflowed on the way in exact arithmetic."""
        network = self.domain.network
        chart = self.domain.chart or AffineMap.identity(network.dim_in)
        for cell in np.flatnonzero(~np.isfinite(cells.map_radii)).tolist():
            forms = exact_affine_map(network, chart, cells.signatures[cell])
            block = rounded_forms(forms, forms.rows, self.domain.scale)
            cells.maps[cell] = block[:-1]
            with np.errstate(over="ignore"):
                nearest = np.float32(block[-1].max(initial=0.0))
            cells.map_radii[cell] = np.nextafter(nearest, np.float32(np.inf))


def packed(runs: list[Run], is_complete: bool, workers: int) -> CellArrays:
    """Pack what one or more runs have found, one after the other; they are empty afterwards."""
    runs = sorted(runs, key=Run.first_signature) if len(runs) > 1 else runs
    first = runs[0]
    count = filtered = expanded = 0
    for run in runs:
        counts = run.search.counts()
        count, filtered, expanded = count + counts[0], filtered + counts[1], expanded + counts[2]
    decisions = Decisions(filtered, expanded)
    paths = [run.path for run in runs if "path" in run.__dict__]
    for path in paths:
        decisions = decisions + path.decisions
    if not first.stores:
        none = np.zeros((0, first.packed.n_groups), dtype=np.int64)
        return CellArrays(none, is_complete, decisions, None, None, None, None, count)
    cells = _joined([run.columns for run in runs if run.columns is not None], workers)
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
        cells.directions,
        wall_names=WallNames(cells.walls, first.packed.starts) if is_planar else None,
        facets=None if is_planar else _facets(cells),
        has_means=any(path.has_means for path in paths),
    )


def _starts(ends: AnyArray) -> Any:
    return np.concatenate([np.zeros(1, dtype=np.int64), ends])


def _facets(cells: FoundCells) -> CellFacets:
    assert cells.facet_ends is not None
    assert cells.tie_ends is not None
    assert cells.ties is not None
    assert cells.blurs is not None
    starts, tie_starts = _starts(cells.facet_ends), _starts(cells.tie_ends)
    return CellFacets(starts, cells.walls, tie_starts, cells.ties, cells.blurs)


def _joined(parts: list[CellColumns], workers: int) -> FoundCells:
    """Join cells one after the other: what the first part has stays where it is."""
    first, others = parts[0], parts[1:]
    if not others:
        return first.taken()
    ends = [Sizes(*row) for row in np.cumsum([part.sizes() for part in parts], axis=0).tolist()]
    whole = first.taken(ends[-1])

    def copy(part: CellColumns, start: Sizes) -> None:
        before = {"ends": start.vertices, "facet_ends": start.facets, "tie_ends": start.ties}
        for name, rows in whole._asdict().items():
            if rows is not None:
                taken = part.take(name, part.sizes())
                if name in before:
                    taken += before[name]
                at = part.rows_of(name, start)
                rows[at : at + len(taken)] = taken

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(copy, others, ends))
    return whole
