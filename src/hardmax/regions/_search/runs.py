"""Compiled searches, single-threaded or shared by threads, and their results.

A search runs in slices, and checks limits and interrupts in between. If threads share a search, an
idle thread takes over cells that a busy one donates. A run searches its stack from the top, so the
lowest cells come last. It donates the lower half, so every run finds cells that are consecutive in
the order of all cells. Sorted by their first cells, the runs give the same result as a single run.
The compiled search does not hold the interpreter's lock.
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
from hardmax._ground.deadlines import TimeLimitReached, deadline_within
from hardmax._ground.interrupts import defer_interrupts, pack_when_done
from hardmax._ground.progress import track
from hardmax.exact.decisions import Decisions
from hardmax.models._arithmetic.recomposition import RationalForms, chart_forms, exact_output
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.regions._search.exact_paths import ExactPath
from hardmax.regions._search.explored import approximate_volume, explored_text, split_index
from hardmax.regions._search.networks import CoreNetwork, core_network
from hardmax.regions._search.rounded_forms import round_forms
from hardmax.regions._search.searches import (
    BUDGET,
    CELL_LIMIT,
    CELLS_FULL,
    DONE,
    IMPRECISE,
    NOT_WANTED,
    STACK_FULL,
    UNCLEAR,
    CellBuffer,
    CellColumns,
    CellStruct,
    CoreSearch,
    FirstStream,
    FoundCells,
    PlaneCell,
    SpaceCell,
    Task,
)
from hardmax.regions.cell_arrays import CellArrays, CellFacets, LazyCellArrays, WallNames

_FIRST_BUDGET, _FIRST_PRODUCTS = 20_000, 20_000_000
_MIN_STEPS_BETWEEN = 2048
"""Minimum number of steps between two donations of work; a donation costs about as much."""
_MIN_STEPS = 8
_MEASURED_S, _BETWEEN_MEASURES = 0.5, 50
"""Seconds between two measurements of the remaining volume, and the minimum ratio of that interval
to the time a measurement takes."""
SLICE_S = 0.05
"""Target duration of a slice of a compiled search."""
_MAX_BUDGET = 1 << 22
"""Maximum number of steps of a slice: enough if a step takes at least twelve nanoseconds."""


class Limits(NamedTuple):
    """The limits of a search.

    Attributes:
        cells: Stop after this number of cells; -1 for no limit.
        seconds: Stop after about this number of seconds; None for no limit.
        bytes: Stop before the cells need more bytes than this, but not before the first cell; -1
            for no limit.
    """

    cells: int
    seconds: float | None
    bytes: int = -1


_BRIEF_S, _WORTH_THREADS_S, _SOON_S = 0.001, 0.006, 0.006
"""When to estimate the duration of a search for the first time; the minimum estimate that is worth
starting threads; and the time after which threads start whatever the estimate, all in seconds."""


def next_budget(budget: int, spent: float, seconds: float) -> int:
    """Return the number of steps of the next slice.

    Args:
        budget: The number of steps of the last slice.
        spent: The duration of the last slice, in seconds.
        seconds: The desired duration of the next slice.

    Examples:
        >>> next_budget(1000, 0.1, 0.05), next_budget(1000, 0.0, 0.05)
        (500, 8000)
    """
    growth = min(seconds / max(spent, 1e-6), 8.0)
    return min(max(1, int(budget * growth)), _MAX_BUDGET)


def check_limits(max_cells: int | None, max_seconds: float | None) -> Limits:
    """Check the limits of a search.

    Examples:
        >>> check_limits(None, 2)
        Limits(cells=-1, seconds=2.0, bytes=-1)
    """
    cells = -1 if max_cells is None else integer("max_cells", max_cells, at_least=0)
    if max_seconds is not None:
        max_seconds = number("max_seconds", max_seconds, at_least=0.0)
    return Limits(cells, max_seconds)


class SearchDomain(NamedTuple):
    """The start of a search of a network on a domain.

    Attributes:
        network: The network.
        inputs: The inputs as exact forms in the domain's coordinates; None for the identity.
        cell: The first cell.
        cell_struct: The first cell as the core reads it.
        scale: A power of two, at least 1, that no coordinate of a vertex exceeds.
        is_bounded: Whether no vertex is at infinity.
        stream: The stream before the first layer.
        exact_path: Makes the object that splits cells of a search in exact arithmetic.
    """

    network: ArgmaxNetwork
    inputs: RationalForms | None
    cell: PlaneCell | SpaceCell
    cell_struct: CellStruct
    scale: float
    is_bounded: bool
    stream: FirstStream
    exact_path: Callable[[CoreSearch], ExactPath]

    @property
    def dim(self) -> int:
        """The dimension of the domain."""
        return self.stream.dim

    def volume(self) -> float:
        """Estimate the volume of the domain; NaN if it is unbounded."""
        return approximate_volume(self.cell) if self.is_bounded else np.nan


def explore_domain(
    domain: SearchDomain, *, count_only: bool, limits: Limits, workers: int, progress: bool
) -> CellArrays:
    """Find every cell of a network on a domain.

    Args:
        domain: The network and the domain.
        count_only: Store nothing; memory then does not grow with the number of cells.
        limits: When to stop.
        workers: The number of threads; the result does not depend on it. A search with a limit on
            the number of cells uses one thread.
        progress: Show a bar if the search takes longer than a second.

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
                return search_with_threads(
                    runs, begin, is_wanted, limits.seconds, workers, progress
                )
        return True

    def pack(is_complete: bool) -> CellArrays:
        for run in runs:
            run.close()
        return pack_cells(runs, is_complete, workers)

    return pack_when_done(work, pack)


class Run:
    """One search, which can be stopped and resumed: its buffers and the cells found so far.

    Args:
        domain: The network and the domain.
        stack: The cells to search, all on one path, in reverse order; None for the whole domain.
        is_wanted: A flag that another thread sets to request some of the work.
        stores: Whether cells are stored, not only counted.

    Attributes:
        is_wanted: A flag that another thread sets to request some of the work.
        first_budget: The maximum number of steps of the first slice.
        remaining: The approximate volume of the cells on the stack at the last measurement.
    """

    def __init__(
        self, domain: SearchDomain, stack: list[Task] | None, is_wanted: c_int32, *, stores: bool
    ) -> None:
        self.is_wanted = is_wanted
        self.domain = domain
        self.stores = stores
        is_bounded, network = domain.is_bounded, domain.network
        self.core_network: CoreNetwork = core_network(network)
        self.search = search = CoreSearch(
            self.core_network,
            domain.stream,
            domain.scale,
            is_bounded=is_bounded,
            stores=stores,
            whole=domain.cell_struct if stack is None else None,
        )
        for task in stack or ():
            search.push(task)
        if stack and stack[-1].is_merged:
            self.path.scores(stack[-1].layer - 1)
            search.recompose(stack[-1].layer - 1)
        self.columns: CellColumns | None = None
        if stores:
            sizes = search.dim, network.dim_out
            self.columns = CellColumns(self.core_network, *sizes, is_bounded=is_bounded)
        self.buffer = CellBuffer() if self.columns is None else self.columns.buffer
        self.remaining = np.nan
        self._measure_due = 0.0
        self._is_closed = False
        # One step may compose all weights once. The first slice must not take long either.
        self.first_budget = max(
            1, min(_FIRST_BUDGET, _FIRST_PRODUCTS // self.core_network.n_weights)
        )

    @cached_property
    def path(self) -> ExactPath:
        """The object that splits cells in exact arithmetic; made at first access."""
        return self.domain.exact_path(self.search)

    def counts(self) -> tuple[int, int, int, int]:
        """Return `CoreSearch.counts` as of the end of the last slice."""
        return tuple(self.search.last_counts)

    @property
    def n_found(self) -> int:
        """The number of cells found."""
        return self.search.last_counts[0]

    def close(self) -> None:
        """Release the memory of the search for reuse; the cells found are kept."""
        if not self._is_closed:
            self._is_closed = True
            self.search.release()

    def measure_remaining(self) -> float:
        """Estimate the volume of the cells on the stack; less often if that takes long."""
        began = time.perf_counter()
        if self.domain.is_bounded and began >= self._measure_due:
            n_items = self.search.counts()[3]
            self.remaining = sum(approximate_volume(self.search.item(i)[1]) for i in range(n_items))
            ended = time.perf_counter()
            self._measure_due = ended + _BETWEEN_MEASURES * (ended - began)
        return self.remaining

    def seconds_left(self, spent: float) -> float:
        """Estimate the remaining time from the area searched so far; NaN if it is unknown."""
        if self.domain.dim != 2:
            return np.nan
        left, whole = sum(self.search.sizes()), self.domain.volume()
        return spent * left / max(whole - left, 1e-9 * whole)

    def donate_work(self) -> list[Task]:
        """Remove and return the lower half of the stack; nothing if it has only one cell."""
        n_items = split_index(self.search.sizes())
        return self.search.take_lowest(n_items) if n_items else []

    def work(self, limits: Limits, progress: bool) -> bool:
        """Search until done or stopped; return whether everything was searched."""
        deadline = deadline_within(limits.seconds)
        began = time.perf_counter()
        status = self.run_slice(limits.cells, self.first_budget)
        if status == DONE:
            return True
        with track(iter(()), "cells") as bar:
            shown = partial(bar.advance, more=self._describe_progress) if progress else _ignore
            return self._continue(limits, deadline, shown, began, status)

    def _describe_progress(self) -> str:
        return explored_text(self.measure_remaining(), self.domain.volume())

    def _continue(
        self, limits: Limits, deadline: float, advance: Any, began: float, status: int
    ) -> bool:
        """Continue after the first slice, given when it began and how it ended."""
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
                self.handle_stop(status)
            advance(self.n_found - shown)
            shown = self.n_found
            # A resumed search repeats a step or two, so fewer steps might make no progress.
            has_begun = steps >= _MIN_STEPS or shown > 0
            if has_begun and time.monotonic() >= deadline:
                return False
            began = time.perf_counter()
            status = self.run_slice(limits.cells, budget)

    def _is_full(self, most_bytes: int) -> bool:
        """Return whether doubling the number of cells would exceed the limit."""
        if self.columns is None or self.buffer.n_cells == 0 or most_bytes < 0:
            return False
        # Once they are accessed, winners take at least a byte each.
        n_winners = int(self.buffer.n_cells) * self.core_network.n_groups
        return 2 * (self.columns.n_bytes() + n_winners) > most_bytes

    def run_slice(self, limit: int, budget: int, *, listens: bool = True) -> int:
        """Make at most `budget` steps, find at most `limit` cells in all; return why it stopped.

        With `listens`, the slice also ends when another thread requests some of the work.
        """
        return self.search.run(
            self.buffer, limit, budget, self.is_wanted if listens else NOT_WANTED
        )

    def sort_key(self) -> bytes:
        """Return a key that sorts runs by their first cells; empty if there are no stored cells."""
        if self.columns is None:
            return b""
        first = self.core_network.unpack_winners(self.columns.first_signature())
        return first.astype(">u4").tobytes()

    def handle_stop(self, status: int) -> None:
        """Remove the obstacle that ended a slice, so that the search can continue."""
        if status == UNCLEAR:
            self.path.split_top()
        elif status == IMPRECISE:
            self.path.improve_top()
        elif status == STACK_FULL:
            self.search.grow()
        elif status == CELLS_FULL:
            assert self.columns is not None
            with defer_interrupts():
                self.columns.grow(self.search.top()[1])

    def repair_maps(self, cells: FoundCells) -> None:
        """Recompute maps that overflowed, in exact arithmetic."""
        network = self.domain.network
        inputs = self.domain.inputs or chart_forms(AffineMap.identity(network.dim_in))
        maps, radii, signatures = cells["maps"], cells["map_radii"], cells["signatures"]
        for cell in np.flatnonzero(~np.isfinite(radii)).tolist():
            (signature,) = self.core_network.unpack_winners(signatures[cell : cell + 1])
            forms = exact_output(network, inputs, signature)
            block = round_forms(forms, forms.rows, self.domain.scale)
            maps[cell] = block[:-1]
            with np.errstate(over="ignore", under="ignore"):
                nearest = np.float32(block[-1].max(initial=0.0))
                radii[cell] = np.nextafter(nearest, np.float32(np.inf))


def _ignore(n_steps: int) -> None:
    """Do nothing."""


def search_with_threads(
    runs: list[Run],
    begin: Callable[[list[Task]], Run],
    is_wanted: c_int32,
    max_seconds: float | None,
    workers: int,
    progress: bool,
) -> bool:
    """Search with several threads.

    Args:
        runs: A list with the run that has begun. All other runs are appended to it, even if an
            interrupt ends the search.
        begin: Makes a run from a donated stack.
        is_wanted: The flag by which an idle thread ends the slices of all runs early.
        max_seconds: Stop after about this number of seconds.
        workers: The number of threads.
        progress: Show a bar if the search takes longer than a second.

    Returns:
        Whether everything was searched.
    """
    work = _SharedWork(runs, begin, is_wanted, max_seconds, progress)
    core()  # Load the core in one thread, before there are several.
    # Each thread gets a copy of the context, which includes the time limit.
    threads = [
        Thread(target=copy_context().run, args=(work.run_worker,), daemon=True)
        for _ in range(workers - 1)
    ]
    # After an interrupt in `join`, a running thread would look as if it had ended.
    with defer_interrupts() as interrupt, track(iter(()), "cells") as bar:
        shown, due = 0, time.monotonic() + SLICE_S

        def poll() -> None:
            nonlocal shown, due
            interrupt()
            if progress and time.monotonic() >= due:
                found = work.n_found()
                bar.advance(found - shown, work.describe_progress)
                shown, due = found, time.monotonic() + SLICE_S

        for thread in threads:
            thread.start()
        # This thread searches too.
        work.run_worker(poll)
        for thread in threads:
            thread.join()
        # Update the bar even if the other threads did all the work and this one never polled.
        if shown or (progress and time.monotonic() >= due):
            bar.advance(work.n_found() - shown)
    if work.error is not None:
        raise work.error
    return work.is_complete


class _SharedWork:
    """The state that the threads share: waiting stacks and runs."""

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
        self._n_taken = 0  # stacks taken from the queue that have no run yet
        self._left = np.nan
        self.is_stopped = False
        self.is_complete = True
        self.error: BaseException | None = None

    def n_found(self) -> int:
        """Return the number of cells found by all runs."""
        with self._changed:
            return sum(run.n_found for run in self.runs)

    def describe_progress(self) -> str:
        """Format the explored share of the domain, from the latest measurements of the threads."""
        domain = self.runs[0].domain
        with self._changed:
            waiting = [task.cell for stack in self._waiting for task in stack]
            left = np.nan if self._n_taken else sum(run.remaining for run in self.runs)
        if not np.isnan(left):
            # An upper bound: more may have been searched or donated since the measurement.
            self._left = float(np.fmin(self._left, left + sum(map(approximate_volume, waiting))))
        return explored_text(self._left, domain.volume())

    def run_worker(self, poll: Callable[[], None] | None = None) -> None:
        """Search until nothing is left; the main function of a thread.

        Args:
            poll: Called regularly, if given.
        """
        try:
            while (run := self._next_run(poll)) is not None:
                self._search(run, poll)
                with self._changed:
                    self._n_busy -= 1
                    self._changed.notify_all()
        except TimeLimitReached:
            with self._changed:
                self.is_complete = False
                self.is_stopped = True
                self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self.error = self.error or error
                self.is_stopped = True
                self._changed.notify_all()

    def _next_run(self, poll: Callable[[], None] | None) -> Run | None:
        """Wait for a stack, and return its run; None if nothing is left."""
        with self._changed:
            self._n_idle += 1
            while not (self._first or self._waiting or self.is_stopped):
                if self._n_busy == 0:
                    self._changed.notify_all()
                    return None
                self._is_wanted.value = 1
                self._changed.wait(None if poll is None else SLICE_S)
                if poll is not None:
                    poll()
            self._n_idle -= 1
            if self.is_stopped:
                self.is_complete = self.is_complete and not (self._first or self._waiting)
                return None
            run, self._first = self._first, None
            stack = self._waiting.popleft() if run is None else None
            if self._n_idle <= len(self._waiting):
                # There is enough work for all threads, so runs need not stop.
                self._is_wanted.value = 0
            self._n_busy += 1
            self._n_taken += stack is not None
        if stack is not None:
            run = self._begin(stack)
            with self._changed:
                self.runs.append(run)
                self._n_taken -= 1
        return run

    def _search(self, run: Run, poll: Callable[[], None] | None) -> None:
        budget, measured, listens = run.first_budget, time.perf_counter(), True
        while True:
            began = time.perf_counter()
            if began - measured > _MEASURED_S and self._progress:
                run.measure_remaining()
                measured = began
            status = run.run_slice(-1, budget, listens=listens)
            if status == DONE:
                run.remaining = 0.0
                with self._changed:
                    run.close()
                return
            if status == BUDGET:
                listens = not listens or self._n_idle <= len(self._waiting)
                if not listens:
                    self._offer(run.donate_work())
                    budget = min(budget, _MIN_STEPS_BETWEEN)
                elif not self._is_wanted.value:
                    # The duration of a slice that ended early says nothing about its steps.
                    budget = next_budget(budget, time.perf_counter() - began, SLICE_S)
            else:
                run.handle_stop(status)
            if poll is not None:
                poll()
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


def pack_cells(runs: list[Run], is_complete: bool, workers: int) -> CellArrays:
    """Move the cells of one or more runs to one result, in order; the runs are empty afterwards."""
    runs = sorted(runs, key=Run.sort_key) if len(runs) > 1 else runs
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
        none = np.zeros((0, first.core_network.n_groups), dtype=np.int64)
        return CellArrays(none, is_complete, decisions, None, None, None, None, count)
    # Read this before the columns are closed; their buffers may then serve another search.
    is_broken = any([run.buffer.n_broken for run in runs])
    cells = FoundCells([run.columns for run in runs if run.columns is not None], workers)
    if is_broken:
        first.repair_maps(cells)
    return LazyCellArrays.knowing(
        # Do not refer to the run itself, which would keep its memory as long as its cells.
        partial(_get_field, cells, first.core_network, first.domain.dim, first.domain.is_bounded),
        is_complete=is_complete,
        decisions=decisions,
        n_counted=count,
        has_means=any([path.has_means for path in paths]),
        # The cells of several runs are concatenated only at first access.
        found=first.columns if len(runs) == 1 else None,
        **({} if first.domain.dim == 2 else {"wall_names": None}),
    )


def _get_field(
    cells: FoundCells, network: CoreNetwork, dim: int, is_bounded: bool, name: str
) -> dict[str, Any]:
    """Return a field of `CellArrays` by its name."""
    field: Any = None
    if name == "signatures":
        field = network.unpack_winners(cells[name])
    elif name == "wall_names":
        field = WallNames(cells["walls"], network.starts) if dim == 2 else None
    elif name == "facets":
        columns = "facet_starts", "walls", "tie_starts", "ties", "blurs"
        field = CellFacets(*(cells[column] for column in columns)) if dim != 2 else None
    elif name != "directions" or not is_bounded:
        field = cells["points" if name == "vertices" else name]
    return {name: field}
