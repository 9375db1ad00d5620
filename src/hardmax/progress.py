"""A progress bar that stays out of the way: after one second, and only on a terminal."""

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from types import TracebackType
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")

_PATIENCE_S = 1.0


class Progress(Generic[Item]):
    """Work under way: iterate over it, or advance it by hand. See `track`."""

    def __init__(self, items: Iterable[Item], total: int | None, description: str) -> None:
        self._items = items
        self._total = total
        self._description = description
        self._done = 0
        self._start = time.monotonic()
        self._wanted = sys.stderr is not None and sys.stderr.isatty()
        self._bar: Any = None
        self._task: Any = None

    def advance(self, n_steps: int = 1) -> None:
        """Say that `n_steps` more are done."""
        self._done += n_steps
        if not self._wanted:
            return
        if self._bar is None and time.monotonic() - self._start >= _PATIENCE_S:
            self._open()
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, note=self._note())

    def close(self) -> None:
        """Take the bar away, if there is one."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._wanted = False

    def __iter__(self) -> Iterator[Item]:
        try:
            for item in self._items:
                yield item
                self.advance()
        finally:
            self.close()

    def __enter__(self) -> "Progress[Item]":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> None:
        # rich takes longer to import than most computations take.
        from rich.console import Console
        from rich.progress import Progress as Bar
        from rich.progress import TextColumn

        columns = [*Bar.get_default_columns()] if self._total else []
        note = TextColumn("{task.fields[note]}")
        self._bar = Bar(*columns, note, console=Console(file=sys.stderr), transient=True)
        self._task = self._bar.add_task(self._description, total=self._total, note=self._note())
        self._bar.start()

    def _note(self) -> str:
        """Say how much is done and how fast, where nobody knows how much there is."""
        if self._total:
            return ""
        rate = self._done / max(time.monotonic() - self._start, 1e-9)
        return f"{self._done:,} {self._description}, {rate:,.0f} {self._description}/s"


def track(work: Iterable[Item] | int, description: str, total: int | None = None) -> Progress[Item]:
    """Show progress on standard error, once the work has taken a second, on a terminal only.

    Args:
        work: What to iterate over, or how many steps there are, to be advanced by hand.
        description: The words before the bar. Where the number of steps is not known they are what
            is counted: the bar then says how many there are, and how many come in a second.
        total: How many steps, if `work` is an iterable without a length; 0 if nobody knows.

    Examples:
        >>> sum(track([1, 2, 3], "adding"))
        6
        >>> with track(4096, "certifying keys") as progress:
        ...     progress.advance(4096)
    """
    if isinstance(work, int):
        return Progress((), work, description)
    if total is None and isinstance(work, Sized):
        total = len(work)
    return Progress(work, total, description)
