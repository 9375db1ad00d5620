"""Deferral of Ctrl-C while a sequence of steps must not be interrupted."""

import _signal  # type: ignore[import-not-found]  # ten times faster than its wrapper `signal`
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from hardmax._ground.deadlines import TimeLimitReached, no_time_limit
from hardmax.errors import Interrupted

Found = TypeVar("Found")


class defer_interrupts:  # noqa: N801 (used as a block)
    """Defer Ctrl-C while the block runs; it takes effect as soon as the block has ended.

    In a long block, call the function that `with` returns at points where an interrupt may take
    effect.

    Python raises `KeyboardInterrupt` between any two steps of a program, so steps that must not be
    separated need this block around them. Interrupts reach only the main thread. In other threads
    this block does nothing; neither does it if interrupts are ignored or handled outside of Python.

    Args:
        deliver: Whether the interrupt takes effect at the end; False while an earlier interrupt is
            being handled.

    Examples:
        >>> import signal
        >>> steps = []
        >>> try:
        ...     with defer_interrupts():
        ...         signal.raise_signal(signal.SIGINT)
        ...         steps.append("the block runs to its end")
        ... except KeyboardInterrupt:
        ...     steps.append("then it is interrupted")
        >>> steps
        ['the block runs to its end', 'then it is interrupted']
    """

    def __init__(self, *, deliver: bool = True) -> None:
        self._deliver = deliver
        self._held: list[tuple[int, Any]] = []
        self._usual: Any = None

    def __enter__(self) -> Callable[[], None]:
        usual = _signal.getsignal(_signal.SIGINT)
        if callable(usual) and threading.current_thread() is threading.main_thread():
            self._usual = usual
            _signal.signal(_signal.SIGINT, self._remember)
        return self._deliver_pending

    def __exit__(self, *_: object) -> None:
        if self._usual is not None:
            _signal.signal(_signal.SIGINT, self._usual)
            if self._deliver:
                self._deliver_pending()

    def _remember(self, number: int, frame: Any) -> None:
        self._held.append((number, frame))

    def _deliver_pending(self) -> None:
        if self._held:
            self._usual(*self._held.pop())


class RestoredInterrupts:
    """Restore a `KeyboardInterrupt` that compiled code has converted to another exception.

    If an interrupt arrives while a compiled function exchanges arrays with Python, the function
    raises a `SystemError` whose cause is the interrupt.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, SystemError):
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, KeyboardInterrupt):
                cause = cause.__cause__
            if cause is not None:
                raise KeyboardInterrupt from None


restore_interrupts = RestoredInterrupts()


def pack_when_done(work: Callable[[], bool], pack: Callable[[bool], Found]) -> Found:
    """Run a search and pack its results, even if Ctrl-C or a time limit ends the search.

    Args:
        work: A function that searches, and returns whether the search is complete.
        pack: A function that takes this boolean and returns the result. It is never interrupted.

    Raises:
        Interrupted: On Ctrl-C; its `partial` is what `pack` returns.

    Examples:
        >>> cells = []
        >>> def work():
        ...     cells.append("a cell")
        ...     raise KeyboardInterrupt
        >>> try:
        ...     pack_when_done(work, lambda is_complete: (cells, is_complete))
        ... except Interrupted as stop:
        ...     stop.partial
        (['a cell'], False)
    """
    is_complete = False
    found: list[Found] = []
    try:
        with restore_interrupts, suppress(TimeLimitReached):
            is_complete = work()
        with defer_interrupts(), no_time_limit():
            found.append(pack(is_complete))
    except KeyboardInterrupt:
        with defer_interrupts(deliver=False), no_time_limit():
            partial = found[0] if found else pack(is_complete)
            raise Interrupted("the search was interrupted", partial) from None
    return found[0]
