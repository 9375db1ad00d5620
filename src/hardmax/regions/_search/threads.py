"""One search shared by threads: whoever has nothing to do takes polygons that another gives away.

A run searches what is on its stack, the cells of the lowest polygons last. What it gives away is
the lower half, so that every run finds cells that follow one another, and the runs, sorted by their
first cells, find what one alone would have found. The compiled search does not hold the
interpreter's lock.
"""

import time
from collections import deque
from collections.abc import Callable
from ctypes import c_int32
from threading import Condition, Thread
from typing import Any, TypeVar

from hardmax._core.library import core
from hardmax._ground.interrupts import held_interrupts
from hardmax._ground.progress import track
from hardmax.regions._search.searches import BUDGET, DONE
from hardmax.regions._search.slices import SLICE_S, SearchRun

Run = TypeVar("Run", bound=SearchRun)

_SHORT_BUDGET = 256
"""Steps until a run that was asked for work looks up again, whether it could give any or not."""


def share(
    runs: list[Run],
    begin: Callable[[Any], Run],
    is_wanted: c_int32,
    max_seconds: float | None,
    workers: int,
    progress: bool,
) -> bool:
    """Search with several threads.

    Args:
        runs: One run that has not begun; all others are added, also where an interrupt ends the
            search.
        begin: Makes a run of a task that was given away.
        is_wanted: Ends a slice of any run early, where it is set: somebody has nothing to do.
        max_seconds: Stop after about so many seconds.
        workers: How many threads.
        progress: Show a bar where the search takes longer than a second.

    Returns:
        Whether everything was searched.
    """
    team = _Team(runs, begin, is_wanted, max_seconds)
    core()  # Loaded by one thread, not by several at once.
    threads = [Thread(target=team.work, daemon=True) for _ in range(workers)]
    # An interrupt in `join` would make a thread that still runs look as if it had ended.
    with held_interrupts() as interrupt, track(iter(()), "cells") as bar:
        for thread in threads:
            thread.start()
        shown = 0
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(SLICE_S)
                    interrupt()
                    found = team.n_found()
                    if progress:
                        bar.advance(found - shown)
                    shown = found
        finally:
            team.is_stopped = True
            for thread in threads:
                thread.join()
    if team.error is not None:
        raise team.error
    return team.is_complete


class _Team:
    """What the threads share: tasks that wait, and runs."""

    def __init__(
        self,
        runs: list[Any],
        begin: Callable[[Any], Any],
        is_wanted: c_int32,
        max_seconds: float | None,
    ) -> None:
        self._begin = begin
        self._is_wanted = is_wanted
        self._deadline = None if max_seconds is None else time.monotonic() + max_seconds
        self._waiting: deque[Any] = deque()
        self._changed = Condition()
        self._n_busy = 0
        self._n_idle = 0
        self._first: Any = runs[0]
        self.runs = runs
        self.is_stopped = False
        self.is_complete = True
        self.error: BaseException | None = None

    def n_found(self) -> int:
        """How many cells all runs have found."""
        return sum(run.n_found for run in list(self.runs))

    def work(self) -> None:
        """Search until nothing is left; what one thread runs."""
        try:
            while (run := self._next()) is not None:
                self._search(run)
                with self._changed:
                    self._n_busy -= 1
                    self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self.error = self.error or error
                self.is_stopped = True
                self._changed.notify_all()

    def _next(self) -> Any:
        """Wait for a task, and return its run; None if nothing is left."""
        with self._changed:
            self._n_idle += 1
            while not (self._first or self._waiting or self.is_stopped):
                if self._n_busy == 0:
                    self._changed.notify_all()
                    return None
                self._is_wanted.value = 1
                self._changed.wait()
            self._n_idle -= 1
            if self.is_stopped:
                self.is_complete = self.is_complete and not (self._first or self._waiting)
                return None
            run, self._first = self._first, None
            task = None if run is not None else self._waiting.popleft()
            self._n_busy += 1
        if run is None:
            run = self._begin(task)
            with self._changed:
                self.runs.append(run)
        return run

    def _search(self, run: Any) -> None:
        budget = run.first_budget
        while True:
            began = time.perf_counter()
            status = run.go_on(-1, budget)
            if status == DONE:
                return
            if status == BUDGET:
                if self._n_idle > len(self._waiting):
                    self._offer(run.give_away())
                    budget = _SHORT_BUDGET
                else:
                    spent = max(time.perf_counter() - began, 1e-6)
                    budget = max(1, int(budget * min(SLICE_S / spent, 8.0)))
            else:
                run.make_way(status)
            late = self._deadline is not None and time.monotonic() >= self._deadline
            if self.is_stopped or late:
                with self._changed:
                    self.is_stopped = True
                    self.is_complete = False
                    self._changed.notify_all()
                return

    def _offer(self, tasks: list[Any]) -> None:
        with self._changed:
            self._waiting.extend(tasks)
            self._is_wanted.value = 0
            self._changed.notify_all()
