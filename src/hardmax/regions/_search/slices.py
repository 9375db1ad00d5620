"""Compiled searches run slice by slice, so that limits and interrupts act in between."""

import time
from typing import Any, NamedTuple

from hardmax._ground.arguments import integer, number
from hardmax._ground.interrupts import packed_when_done
from hardmax._ground.progress import track
from hardmax.regions._search.searches import BUDGET, CELL_LIMIT, DONE
from hardmax.regions.cells import CellArrays

SLICE_S = 0.05
"""How long a compiled search runs before it looks up."""


class Limits(NamedTuple):
    """Where a search stops.

    Attributes:
        cells: After so many cells, or -1.
        seconds: After about so many seconds, if any.
    """

    cells: int
    seconds: float | None


def read_limits(max_cells: int | None, max_seconds: float | None) -> Limits:
    """Check the limits of a search.

    Examples:
        >>> read_limits(None, 2)
        Limits(cells=-1, seconds=2.0)
    """
    cells = -1 if max_cells is None else integer("max_cells", max_cells, at_least=0)
    if max_seconds is not None:
        max_seconds = number("max_seconds", max_seconds, at_least=0.0)
    return Limits(cells, max_seconds)


class SearchRun:
    """A search that can be stopped and resumed; an engine says how."""

    first_budget: int
    """How many steps the first slice makes at most."""

    @property
    def n_found(self) -> int:
        """How many cells have been found."""
        raise NotImplementedError

    def go_on(self, limit: int, budget: int) -> int:
        """Make at most `budget` steps, find at most `limit` cells in all; return why it stopped."""
        raise NotImplementedError

    def make_way(self, status: int) -> None:
        """Do what the search cannot do itself: split exactly, or make room."""
        raise NotImplementedError

    def result(self, is_complete: bool) -> CellArrays:
        """Pack what was found."""
        raise NotImplementedError

    def finish(self, limits: Limits, progress: bool) -> CellArrays:
        """Search until done or stopped, and pack what was found.

        Raises:
            Interrupted: On Ctrl-C; the cells found until then are its `partial`.
        """
        return packed_when_done(lambda: self.work(limits, progress), self.result)

    def work(self, limits: Limits, progress: bool) -> bool:
        """Search until done or stopped; say whether everything was searched."""
        deadline = None if limits.seconds is None else time.monotonic() + limits.seconds
        with track(iter(()), "cells") as bar:
            return self._work(limits.cells, deadline, bar.advance if progress else _ignored)

    def _work(self, limit: int, deadline: float | None, advance: Any) -> bool:
        budget, shown = self.first_budget, 0
        while True:
            began = time.perf_counter()
            status = self.go_on(limit, budget)
            if status == DONE:
                return True
            if status == CELL_LIMIT:
                return False
            if status == BUDGET:
                spent = max(time.perf_counter() - began, 1e-6)
                budget = max(1, int(budget * min(SLICE_S / spent, 8.0)))
            else:
                self.make_way(status)
            advance(self.n_found - shown)
            shown = self.n_found
            if deadline is not None and time.monotonic() >= deadline:
                return False


def _ignored(n_steps: int) -> None:
    """Do nothing."""
