"""Progress of long computations, shown only on a terminal or in a notebook.

* On a terminal: a bar, which appears after one second and disappears at the end.
* In a notebook: one line, which appears after one second and is updated in place.
* In a pipe or a log file: no output.

Both show the amount done, the speed and the elapsed time. `set_progress(False)`, the environment
variable `HARDMAX_PROGRESS=0` and the option `--quiet` of every command switch them off.
"""

import importlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

Item = TypeVar("Item")

_PATIENCE_S = 1.0
_NOTEBOOK_PAUSE_S = 0.2
_MORE_PAUSE_S = 1.0

_is_switched_on: bool | None = None
"""The last argument of `set_progress`; None means that the environment variable decides."""


def set_progress(shown: bool | None = True) -> None:
    """Choose whether long computations show their progress.

    Progress is written to standard error, and only if that is a terminal or a notebook. This
    setting takes precedence over the environment variable `HARDMAX_PROGRESS`, where `0` stands for
    no progress.

    Args:
        shown: Whether to show it. None restores the default, which the environment variable sets.

    Examples:
        >>> set_progress(False)
        >>> set_progress(None)
    """
    global _is_switched_on
    _is_switched_on = None if shown is None else bool(shown)


def is_shown() -> bool:
    """Return whether progress is shown where it can be."""
    if _is_switched_on is not None:
        return _is_switched_on
    return os.environ.get("HARDMAX_PROGRESS") != "0"


class Progress(Generic[Item]):
    """A computation whose progress is shown: iterate over it, or call `advance`. See `track`."""

    def __init__(self, items: Iterable[Item], total: int | None, description: str) -> None:
        self._items = items
        self._total = total
        self._description = description
        self._done = 0
        self._start = time.monotonic()
        self._view: _ProgressView | None = None
        self._has_begun = False
        self._more_due = 0.0

    def advance(self, n_steps: int = 1, more: Callable[[], str] | None = None) -> None:
        """Report that `n_steps` more steps are done; `more` returns text to append to the line."""
        self._done += n_steps
        if not self._has_begun:
            self._has_begun = True
            self._view = _make_view(self._description, self._total)
        if self._view is not None:
            elapsed = time.monotonic() - self._start
            if elapsed >= self._view.due:
                if more is not None and elapsed >= self._more_due:
                    self._view.text.more = more()
                    self._more_due = elapsed + _MORE_PAUSE_S
                self._view.show(self._done, elapsed)

    def close(self) -> None:
        """Remove the bar, or complete the line of the notebook, if it was shown."""
        view, self._view = self._view, None
        self._has_begun = True
        if view is not None:
            view.text.more = ""
            view.close(self._done, time.monotonic() - self._start)

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


def track(work: Iterable[Item] | int, description: str, total: int | None = None) -> Progress[Item]:
    """Show progress on standard error if the work takes longer than a second.

    Args:
        work: An iterable, or the number of steps if `advance` is called for each of them.
        description: The words before the bar. If the number of steps is not known, they name the
            things that are counted, and the line shows their number and rate.
        total: The number of steps, if `work` is an iterable without a length; 0 if it is not known.

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


class _ProgressView(Protocol):
    """One way to show progress."""

    text: "_ProgressText"
    due: float
    """Elapsed time, in seconds, at which the view is to be updated next."""

    def show(self, done: int, elapsed: float) -> None:
        """Show the amount done after the given number of seconds."""

    def close(self, done: int, elapsed: float) -> None:
        """Show the final state."""


class _ProgressText:
    """The text of a progress view, for steps with a name and possibly a known total."""

    def __init__(self, description: str, total: int | None) -> None:
        self.description, self.total = description, total
        self.more = ""

    def with_duration(self, done: int, elapsed: float) -> str:
        return f"{self.amount_done(done, elapsed)}, {_format_duration(elapsed)}"

    def amount_done(self, done: int, elapsed: float) -> str:
        """Return the amount done and the speed as text."""
        rate = done / max(elapsed, 1e-9)
        speed = f"{rate:,.0f}" if rate >= 10.0 or not done else f"{rate:.2g}"
        if self.total:
            return f"{self.description}: {done:,} of {self.total:,}, {speed}/s{self.more}"
        return f"{done:,} {self.description}, {speed} {self.description}/s{self.more}"


def _format_duration(seconds: float) -> str:
    """Format a duration.

    Examples:
        >>> _format_duration(7.9), _format_duration(61), _format_duration(3 * 3600 + 62)
        ('0:07', '1:01', '3:01:02')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _make_view(description: str, total: int | None) -> _ProgressView | None:
    """Return the view for standard error; None if it is neither a terminal nor a notebook."""
    if not is_shown():
        return None
    if _is_notebook():
        return _NotebookLine(_ProgressText(description, total))
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return _TerminalBar(_ProgressText(description, total)) if is_terminal else None


def _is_notebook() -> bool:
    """Return whether this runs in the kernel of a notebook, without importing anything."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class _TerminalBar:
    """A bar on a terminal, which is removed at the end."""

    def __init__(self, text: _ProgressText) -> None:
        self.text, self.due = text, _PATIENCE_S
        self.bar: Any = None
        self.task: Any = None

    def show(self, done: int, elapsed: float) -> None:
        note = "" if self.text.total else self.text.amount_done(done, elapsed)
        if self.bar is None:
            self._open(note)
        self.bar.update(self.task, completed=done, note=note)

    def _open(self, note: str) -> None:
        # rich takes longer to import than most computations take.
        from rich.console import Console
        from rich.progress import Progress as Bar
        from rich.progress import TextColumn, TimeElapsedColumn

        total = self.text.total
        columns = [*Bar.get_default_columns()] if total else []
        columns += [TextColumn("{task.fields[note]}"), TimeElapsedColumn()]
        self.bar = Bar(*columns, console=Console(file=sys.stderr), transient=True)
        self.task = self.bar.add_task(self.text.description, total=total, note=note)
        self.bar.start()

    def close(self, done: int, elapsed: float) -> None:
        if self.bar is not None:
            self.bar.stop()


class _NotebookLine:
    """One line below the cell of a notebook, which is updated in place."""

    def __init__(self, text: _ProgressText) -> None:
        self.text, self.due = text, _PATIENCE_S
        self.handle: Any = None

    def show(self, done: int, elapsed: float) -> None:
        self._write(self.text.with_duration(done, elapsed))
        self.due = elapsed + _NOTEBOOK_PAUSE_S

    def _write(self, line: str) -> None:
        shown = {"text/plain": line}
        if self.handle is None:
            display = importlib.import_module("IPython.display").display
            self.handle = display(shown, raw=True, display_id=True)
        else:
            self.handle.update(shown, raw=True)

    def close(self, done: int, elapsed: float) -> None:
        if self.handle is not None:
            self._write(self.text.with_duration(done, elapsed))
