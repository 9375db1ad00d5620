"""The engine for two dimensions: convex polygons clipped depth first, every sign proven."""

from concurrent.futures import ThreadPoolExecutor
from ctypes import c_int32
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

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
    CellColumns,
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

_FIRST_BUDGET, _FIRST_PRODUCTS = 20_000, 20_000_000


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
    is_wanted = c_int32(0)

    def begin(task: Task) -> _Run:
        return _Run(network, where, task, is_wanted, stores=not count_only)

    runs = [begin(whole)]

    def work() -> bool:
        if workers == 1 or limits.cells >= 0:
            return runs[0].work(limits, progress)
        return share(runs, begin, is_wanted, limits.seconds, workers, progress)

    return packed_when_done(work, lambda is_complete: _packed(runs, is_complete, workers))


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
    """One search: its buffers, and what has been found.

    Attributes:
        is_wanted: Set by another thread that wants some of the work.
    """

    def __init__(
        self,
        network: ArgmaxNetwork,
        domain: PlanarDomain,
        task: Task,
        is_wanted: c_int32,
        *,
        stores: bool,
    ) -> None:
        self.is_wanted = is_wanted
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
        self.columns = (
            CellColumns(self.packed, network.dim_out, is_bounded=domain.is_bounded)
            if stores
            else None
        )
        self.room = CellsRoom() if self.columns is None else self.columns.room
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
                self.columns.grow(len(self.search.top()[1]))

    def repair(self, cells: FoundCells) -> None:
        """Compose maps that overflowed on the way in exact arithmetic."""
        for cell in np.flatnonzero(~np.isfinite(cells.map_radii)).tolist():
            forms = exact_affine_map(self.network, self.path.chart, cells.signatures[cell])
            block = rounded_forms(forms, forms.rows, self.domain.scale)
            cells.maps[cell] = block[:3]
            with np.errstate(over="ignore"):
                nearest = np.float32(block[3].max())
            cells.map_radii[cell] = np.nextafter(nearest, np.float32(np.inf))


def _packed(runs: list[_Run], is_complete: bool, workers: int) -> CellArrays:
    """Pack what one or more runs have found, one after the other; they are empty afterwards."""
    runs = sorted(runs, key=_Run.first_signature) if len(runs) > 1 else runs
    first = runs[0]
    counts = [run.search.counts() for run in runs]
    count, filtered, expanded, _ = map(sum, zip(*counts, strict=True))
    decisions = Decisions(filtered, expanded, 0)
    paths = [run.path for run in runs if "path" in run.__dict__]
    for path in paths:
        decisions = decisions + path.decisions
    if not first.stores:
        none = np.zeros((0, first.network.n_groups), dtype=np.int64)
        return CellArrays(none, is_complete, decisions, None, None, None, None, count)
    cells = _joined([run.columns for run in runs if run.columns is not None], workers)
    if any(run.room.n_broken for run in runs):
        first.repair(cells)
    packed, is_bounded = first.packed, first.domain.is_bounded
    return CellArrays(
        cells.signatures,
        is_complete,
        decisions,
        cells.maps,
        cells.map_radii,
        cells.points,
        np.concatenate([np.zeros(1, dtype=np.int64), cells.ends]),
        count,
        None if is_bounded else cells.directions,
        wall_names=WallNames(cells.walls, packed.form_starts, packed.group_layers),
        has_means=any(path.has_means for path in paths),
    )


def _joined(parts: list[CellColumns], workers: int) -> FoundCells:
    """Join cells one after the other; each part is given up as soon as it is copied."""
    if len(parts) == 1:
        return parts[0].taken()
    n_cells = list(accumulate((part.room.n_cells for part in parts), initial=0))
    n_vertices = list(accumulate((part.room.n_vertices for part in parts), initial=0))
    whole = parts[0].like(n_cells[-1], n_vertices[-1])

    def copy(index: int) -> None:
        part = parts[index]
        for name, rows in whole._asdict().items():
            start = part.rows_of(name, n_cells[index], n_vertices[index])
            taken = part.take(name)
            if name == "ends":
                taken += n_vertices[index]
            rows[start : start + len(taken)] = taken

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(copy, range(len(parts))))
    return whole
