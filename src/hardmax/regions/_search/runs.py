"""Compiled searches, alone or shared by threads, and what they have found.

A search runs slice by slice, so that limits and interrupts act in between. Of one that threads
share, whoever has nothing to do takes cells that another gives away. A run searches what is on its
stack, the cells of the lowest item last. What it gives away is the lower half, so that every run
finds cells that follow one another, and the runs, sorted by their first cells, find what one alone
would have found. The compiled search does not hold the interpreter's lock.
"""

import time
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from ctypes import c_int32
from functools import cached_property, partial
from threading import Condition, Thread
from typing import Any, NamedTuple

import numpy as np

from hardmax._core.library import core
from hardmax._ground.arguments import integer, number
from hardmax._ground.deadlines import TimeIsUp, deadline_within
from hardmax._ground.interrupts import held_interrupts, packed_when_done
from hardmax._ground.progress import track
from hardmax.exact.decisions import Decisions
from hardmax.models._arithmetic.recomposition import exact_affine_map
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.regions._search.exact_paths import ExactPath
from hardmax.regions._search.explored import explored_text, middle, volume
from hardmax.regions._search.networks import CoreNetwork, core_network
from hardmax.regions._search.rounded_forms import rounded_forms
from hardmax.regions._search.searches import (
    BUDGET,
    CELL_LIMIT,
    CELLS_FULL,
    DONE,
    IMPRECISE,
    NOBODY,
    STACK_FULL,
    UNCLEAR,
    CellColumns,
    CellsRoom,
    CoreSearch,
    FirstStream,
    FoundCells,
    GivenCell,
    PlaneCell,
    SpaceCell,
    Task,
)
from hardmax.regions.cells import CellArrays, CellFacets, LazyCellArrays, WallNames

_FIRST_BUDGET, _FIRST_PRODUCTS = 20_000, 20_000_000
_LEAST_BETWEEN = 2048
"""Steps that a run which was asked for work makes before it listens again: giving takes as long."""
_LEAST_STEPS = 8
_MEASURED_S, _BETWEEN_MEASURES = 0.5, 50
"""How often threads measure what is left; until then they search so many times as long."""
SLICE_S = 0.05
"""How long a compiled search runs before it looks up."""
_MOST_BUDGET = 1 << 22
"""The most steps of a slice: enough where each takes twelve nanoseconds or more."""


class Limits(NamedTuple):
    """Where a search stops.

    Attributes:
        cells: After so many cells, or -1.
        seconds: After about so many seconds, if any.
        bytes: Before the cells take more bytes than this, if any are found before, or -1.
    """

    cells: int
    seconds: float | None
    bytes: int = -1


_BRIEF_S, _WORTH_THREADS_S, _SOON_S = 0.001, 0.006, 0.006
"""When it is first estimated how long a search will take; from how many seconds on several threads
share what is left; when estimates have been wrong."""


def next_budget(budget: int, spent: float, seconds: float) -> int:
    """Return how many steps the next slice makes, given how long so many have taken.

    Args:
        budget: How many steps the last slice made.
        spent: How many seconds it took.
        seconds: How many the next one may take.

    Examples:
        >>> next_budget(1000, 0.1, 0.05), next_budget(1000, 0.0, 0.05)
        (500, 8000)
    """
    growth = min(seconds / max(spent, 1e-6), 8.0)
    return min(max(1, int(budget * growth)), _MOST_BUDGET)


def read_limits(max_cells: int | None, max_seconds: float | None) -> Limits:
    """Check the limits of a search.

    Examples:
        >>> read_limits(None, 2)
        Limits(cells=-1, seconds=2.0, bytes=-1)
    """
    cells = -1 if max_cells is None else integer("max_cells", max_cells, at_least=0)
    if max_seconds is not None:
        max_seconds = number("max_seconds", max_seconds, at_least=0.0)
    return Limits(cells, max_seconds)


class SearchDomain(NamedTuple):
    """What a search of a network on a domain begins with.

    Attributes:
        network: The network.
        chart: The map from coordinates of the domain to inputs; None for the identity.
        cell: The first cell.
        given: It, as the core reads it.
        scale: A power of two, at least 1, that no coordinate of a vertex exceeds.
        is_bounded: Whether no vertex is at infinity.
        stream: The stream before the first layer.
        exact_path: Makes what splits cells of a search exactly.
    """

    network: ArgmaxNetwork
    chart: AffineMap | None
    cell: PlaneCell | SpaceCell
    given: GivenCell
    scale: float
    is_bounded: bool
    stream: FirstStream
    exact_path: Callable[[CoreSearch], ExactPath]

    @property
    def dim(self) -> int:
        """The dimension of the domain."""
        return self.stream.dim

    def volume(self) -> float:
        """Return about the volume of the domain; NaN where it has none."""
        return volume(self.cell) if self.is_bounded else np.nan


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

    def begin(stack: list[Task] | None = None) -> Run:
        return Run(domain, stack, is_wanted, stores=not count_only)

    runs = [begin()]

    def work() -> bool:
        if workers == 1 or limits.cells >= 0:
            return runs[0].work(limits, progress)
        # A search that ends soon is not worth a thread.
        began, pause = time.perf_counter(), _BRIEF_S
        while not runs[0].work(Limits(-1, pause), False):
            spent = pause = time.perf_counter() - began
            if spent > _SOON_S or not runs[0].seconds_left(spent) < _WORTH_THREADS_S:
                return share(runs, begin, is_wanted, limits.seconds, workers, progress)
        return True

    def pack(is_complete: bool) -> CellArrays:
        for run in runs:
            run.close()
        return packed(runs, is_complete, workers)

    return packed_when_done(work, pack)


class Run:
    """One search, which can be stopped and resumed: its buffers, and what has been found.

    Args:
        domain: The network and the domain.
        stack: The cells to search on one path, the one that comes first last; None for the whole
            domain.
        is_wanted: Set by another thread that wants some of the work.
        stores: Whether cells are stored, not only counted.

    Attributes:
        is_wanted: Set by another thread that wants some of the work.
        first_budget: How many steps the first slice makes at most.
        left: About the volume of what is on the stack, when it was last measured.
    """

    def __init__(
        self, domain: SearchDomain, stack: list[Task] | None, is_wanted: c_int32, *, stores: bool
    ) -> None:
        self.is_wanted = is_wanted
        self.domain = domain
        self.stores = stores
        is_bounded, network = domain.is_bounded, domain.network
        self.packed: CoreNetwork = core_network(network)
        self.search = search = CoreSearch(
            self.packed,
            domain.stream,
            domain.scale,
            is_bounded=is_bounded,
            stores=stores,
            whole=domain.given if stack is None else None,
        )
        for task in stack or ():
            search.push(task)
        if stack and stack[-1].is_merged:
            self.path.scores(stack[-1].layer - 1)
            search.recompose(stack[-1].layer - 1)
        self.columns: CellColumns | None = None
        if stores:
            sizes = search.dim, network.dim_out
            self.columns = CellColumns(self.packed, *sizes, is_bounded=is_bounded)
        self.room = CellsRoom() if self.columns is None else self.columns.room
        self.left = np.nan
        self._measure_due = 0.0
        self._is_closed = False
        # A step may compose all weights once: the first slice must not be long either.
        self.first_budget = max(1, min(_FIRST_BUDGET, _FIRST_PRODUCTS // self.packed.n_weights))

    @cached_property
    def path(self) -> ExactPath:
        """What splits exactly; made where it is needed."""
        return self.domain.exact_path(self.search)

    def counts(self) -> tuple[int, int, int, int]:
        """Return what `CoreSearch.counts` gave at the end of the last slice."""
        return tuple(self.search.counted)

    @property
    def n_found(self) -> int:
        """How many cells have been found."""
        return self.search.counted[0]

    def close(self) -> None:
        """Let the memory of the search be used again; what it has found stays."""
        if not self._is_closed:
            self._is_closed = True
            self.search.release()

    def measure_left(self) -> float:
        """Measure about the volume of what is on the stack; now and then, where that takes long."""
        began = time.perf_counter()
        if self.domain.is_bounded and began >= self._measure_due:
            n_items = self.search.counts()[3]
            self.left = sum(volume(self.search.item(i)[1]) for i in range(n_items))
            ended = time.perf_counter()
            self._measure_due = ended + _BETWEEN_MEASURES * (ended - began)
        return self.left

    def seconds_left(self, spent: float) -> float:
        """Estimate how long it will take from the area searched; NaN if nobody knows."""
        if self.domain.dim != 2:
            return np.nan
        left, whole = sum(self.search.sizes()), self.domain.volume()
        return spent * left / max(whole - left, 1e-9 * whole)

    def give_away(self) -> list[Task]:
        """Give the lower half of the stack away, if there is more than one cell on it."""
        n_items = middle(self.search.sizes())
        return self.search.give_away(n_items) if n_items else []

    def work(self, limits: Limits, progress: bool) -> bool:
        """Search until done or stopped; say whether everything was searched."""
        deadline = deadline_within(limits.seconds)
        began = time.perf_counter()
        status = self.go_on(limits.cells, self.first_budget)
        if status == DONE:
            return True
        with track(iter(()), "cells") as bar:
            shown = partial(bar.advance, more=self._explored) if progress else _ignored
            return self._work(limits, deadline, shown, began, status)

    def _explored(self) -> str:
        return explored_text(self.measure_left(), self.domain.volume())

    def _work(
        self, limits: Limits, deadline: float, advance: Any, began: float, status: int
    ) -> bool:
        """Go on after the first slice, which began at some time and ended with some status."""
        budget, shown, steps = self.first_budget, 0, 0
        while True:
            is_full = status == CELLS_FULL and self._is_full(limits.bytes)
            if status in (DONE, CELL_LIMIT) or is_full:
                if shown:
                    advance(self.n_found - shown)
                return status == DONE
            steps += budget if status == BUDGET else 1
            if status == BUDGET:
                left = max(deadline - time.monotonic(), 1e-4)
                budget = next_budget(budget, time.perf_counter() - began, min(left, SLICE_S))
            else:
                self.make_way(status)
            advance(self.n_found - shown)
            shown = self.n_found
            # Who resumes it repeats a step or two: with fewer than these nothing would be done.
            has_begun = steps >= _LEAST_STEPS or shown > 0
            if has_begun and time.monotonic() >= deadline:
                return False
            began = time.perf_counter()
            status = self.go_on(limits.cells, budget)

    def _is_full(self, most_bytes: int) -> bool:
        """Say whether twice the cells there are would be too many."""
        if self.columns is None or self.room.n_cells == 0 or most_bytes < 0:
            return False
        # Winners take a byte or more each when they are looked at.
        n_winners = int(self.room.n_cells) * self.packed.n_groups
        return 2 * (self.columns.n_bytes() + n_winners) > most_bytes

    def go_on(self, limit: int, budget: int, *, listens: bool = True) -> int:
        """Make at most `budget` steps, find at most `limit` cells in all; return why it stopped.

        If it listens, it also stops where another thread wants some of the work.
        """
        return self.search.run(self.room, limit, budget, self.is_wanted if listens else NOBODY)

    def first_signature(self) -> bytes:
        """Return what sorts runs of one search by their cells; nothing where none are stored."""
        if self.columns is None:
            return b""
        first = self.packed.winners(self.columns.first_signature())
        return first.astype(">u4").tobytes()

    def make_way(self, status: int) -> None:
        """Split exactly, improve vertices, or make room."""
        if status == UNCLEAR:
            self.path.split_top()
        elif status == IMPRECISE:
            self.path.improve_top()
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
        maps, radii, signatures = cells["maps"], cells["map_radii"], cells["signatures"]
        for cell in np.flatnonzero(~np.isfinite(radii)).tolist():
            (signature,) = self.packed.winners(signatures[cell : cell + 1])
            forms = exact_affine_map(network, chart, signature)
            block = rounded_forms(forms, forms.rows, self.domain.scale)
            maps[cell] = block[:-1]
            with np.errstate(over="ignore", under="ignore"):
                nearest = np.float32(block[-1].max(initial=0.0))
                radii[cell] = np.nextafter(nearest, np.float32(np.inf))


def _ignored(n_steps: int) -> None:
    """Do nothing."""


def share(
    runs: list[Run],
    begin: Callable[[list[Task]], Run],
    is_wanted: c_int32,
    max_seconds: float | None,
    workers: int,
    progress: bool,
) -> bool:
    """Search with several threads.

    Args:
        runs: The run that has begun; all others are added, also where an interrupt ends the
            search.
        begin: Makes a run of a stack that was given away.
        is_wanted: Ends a slice of any run early, where it is set: somebody has nothing to do.
        max_seconds: Stop after about so many seconds.
        workers: How many threads.
        progress: Show a bar where the search takes longer than a second.

    Returns:
        Whether everything was searched.
    """
    team = _Team(runs, begin, is_wanted, max_seconds, progress)
    core()  # Loaded by one thread, not by several at once.
    # Each thread has a copy of the context, and with it the time limit.
    threads = [
        Thread(target=copy_context().run, args=(team.work,), daemon=True)
        for _ in range(workers - 1)
    ]
    # An interrupt in `join` would make a thread that still runs look as if it had ended.
    with held_interrupts() as interrupt, track(iter(()), "cells") as bar:
        shown, due = 0, time.monotonic() + SLICE_S

        def look_up() -> None:
            nonlocal shown, due
            interrupt()
            if progress and time.monotonic() >= due:
                found = team.n_found()
                bar.advance(found - shown, team.explored)
                shown, due = found, time.monotonic() + SLICE_S

        for thread in threads:
            thread.start()
        # This thread searches too: the system finds a place for new ones where nothing runs.
        team.work(look_up)
        for thread in threads:
            thread.join()
        # Also if the other threads did all the work and this one never looked up.
        if shown or (progress and time.monotonic() >= due):
            bar.advance(team.n_found() - shown)
    if team.error is not None:
        raise team.error
    return team.is_complete


class _Team:
    """What the threads share: stacks that wait, and runs."""

    def __init__(
        self,
        runs: list[Run],
        begin: Callable[[list[Task]], Run],
        is_wanted: c_int32,
        max_seconds: float | None,
        progress: bool,
    ) -> None:
        self._begin = begin
        self._progress = progress
        self._is_wanted = is_wanted
        self._deadline = deadline_within(max_seconds)
        self._waiting: deque[list[Task]] = deque()
        self._changed = Condition()
        self._n_busy = 0
        self._n_idle = 0
        self._first: Run | None = runs[0]
        self.runs = runs
        self._n_taken = 0  # stacks that wait no longer, but have no run yet
        self._left = np.nan
        self.is_stopped = False
        self.is_complete = True
        self.error: BaseException | None = None

    def n_found(self) -> int:
        """How many cells all runs have found."""
        with self._changed:
            return sum(run.n_found for run in self.runs)

    def explored(self) -> str:
        """Say how much of the domain has been explored, as the threads have last measured it."""
        domain = self.runs[0].domain
        with self._changed:
            waiting = [task.cell for stack in self._waiting for task in stack]
            left = np.nan if self._n_taken else sum(run.left for run in self.runs)
        if not np.isnan(left):
            # Measured before more was searched or given away: no more than this is left.
            self._left = float(np.fmin(self._left, left + sum(map(volume, waiting))))
        return explored_text(self._left, domain.volume())

    def work(self, look_up: Callable[[], None] | None = None) -> None:
        """Search until nothing is left; what one thread runs, which may look up now and then."""
        try:
            while (run := self._next(look_up)) is not None:
                self._search(run, look_up)
                with self._changed:
                    self._n_busy -= 1
                    self._changed.notify_all()
        except TimeIsUp:
            with self._changed:
                self.is_complete = False
                self.is_stopped = True
                self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self.error = self.error or error
                self.is_stopped = True
                self._changed.notify_all()

    def _next(self, look_up: Callable[[], None] | None) -> Run | None:
        """Wait for a stack, and return its run; None if nothing is left."""
        with self._changed:
            self._n_idle += 1
            while not (self._first or self._waiting or self.is_stopped):
                if self._n_busy == 0:
                    self._changed.notify_all()
                    return None
                self._is_wanted.value = 1
                self._changed.wait(None if look_up is None else SLICE_S)
                if look_up is not None:
                    look_up()
            self._n_idle -= 1
            if self.is_stopped:
                self.is_complete = self.is_complete and not (self._first or self._waiting)
                return None
            run, self._first = self._first, None
            stack = self._waiting.popleft() if run is None else None
            if self._n_idle <= len(self._waiting):
                # There is enough for everybody: runs need not stop.
                self._is_wanted.value = 0
            self._n_busy += 1
            self._n_taken += stack is not None
        if stack is not None:
            run = self._begin(stack)
            with self._changed:
                self.runs.append(run)
                self._n_taken -= 1
        return run

    def _search(self, run: Run, look_up: Callable[[], None] | None) -> None:
        budget, measured, listens = run.first_budget, time.perf_counter(), True
        while True:
            began = time.perf_counter()
            if began - measured > _MEASURED_S and self._progress:
                run.measure_left()
                measured = began
            status = run.go_on(-1, budget, listens=listens)
            if status == DONE:
                run.left = 0.0
                with self._changed:
                    run.close()
                return
            if status == BUDGET:
                listens = not listens or self._n_idle <= len(self._waiting)
                if not listens:
                    self._offer(run.give_away())
                    budget = min(budget, _LEAST_BETWEEN)
                elif not self._is_wanted.value:
                    # A slice that ended early does not tell how long its steps take.
                    budget = next_budget(budget, time.perf_counter() - began, SLICE_S)
            else:
                run.make_way(status)
            if look_up is not None:
                look_up()
            if self.is_stopped or time.monotonic() >= self._deadline:
                with self._changed:
                    self.is_stopped = True
                    self.is_complete = False
                    self._changed.notify_all()
                return

    def _offer(self, stack: list[Task]) -> None:
        with self._changed:
            if stack:
                self._waiting.append(stack)
            self._is_wanted.value = 0
            self._changed.notify_all()


def packed(runs: list[Run], is_complete: bool, workers: int) -> CellArrays:
    """Pack what one or more runs have found, one after the other; they are empty afterwards."""
    runs = sorted(runs, key=Run.first_signature) if len(runs) > 1 else runs
    first = runs[0]
    count = filtered = expanded = 0
    for run in runs:
        counts = run.counts()
        count, filtered, expanded = count + counts[0], filtered + counts[1], expanded + counts[2]
    decisions = Decisions(filtered, expanded)
    paths = [run.path for run in runs if "path" in run.__dict__]
    for path in paths:
        decisions = decisions + path.decisions
    if not first.stores:
        none = np.zeros((0, first.packed.n_groups), dtype=np.int64)
        return CellArrays(none, is_complete, decisions, None, None, None, None, count)
    # Asked before the columns are closed: then the room may be that of another search.
    is_broken = any([run.room.n_broken for run in runs])
    cells = FoundCells([run.columns for run in runs if run.columns is not None], workers)
    if is_broken:
        first.repair(cells)
    return LazyCellArrays.knowing(
        # Not the run itself, whose memory would stay as long as its cells.
        partial(_field_of, cells, first.packed, first.domain.dim, first.domain.is_bounded),
        is_complete=is_complete,
        decisions=decisions,
        n_counted=count,
        has_means=any([path.has_means for path in paths]),
        # Those of several runs are joined only where they are asked for.
        found=first.columns if len(runs) == 1 else None,
        **({} if first.domain.dim == 2 else {"wall_names": None}),
    )


def _field_of(
    cells: FoundCells, network: CoreNetwork, dim: int, is_bounded: bool, name: str
) -> dict[str, Any]:
    """Return a field of `CellArrays` by its name."""
    field: Any = None
    if name == "signatures":
        field = network.winners(cells[name])
    elif name == "wall_names":
        field = WallNames(cells["walls"], network.starts) if dim == 2 else None
    elif name == "facets":
        columns = "facet_starts", "walls", "tie_starts", "ties", "blurs"
        field = CellFacets(*(cells[column] for column in columns)) if dim != 2 else None
    elif name != "directions" or not is_bounded:
        field = cells["points" if name == "vertices" else name]
    return {name: field}
