"""Ctrl-C at the right moment: held back while something must not be left half done."""

import _signal  # type: ignore[import-not-found]  # what `signal` wraps, in a tenth of its time
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from hardmax.errors import Interrupted

Found = TypeVar("Found")


class held_interrupts:  # noqa: N801 (used as a block)
    """Hold Ctrl-C back while the block runs; it acts as soon as the block has ended.

    In a long block, call what `with` hands over wherever an interrupt may act.

    Python raises `KeyboardInterrupt` between any two steps of a program, so two steps that belong
    together need this around them. Interrupts only reach the main thread: elsewhere nothing is
    done, nor where they are ignored or handled outside Python.

    Args:
        deliver: Whether it acts at all; False while an earlier interrupt is being dealt with.

    Examples:
        >>> import signal
        >>> steps = []
        >>> try:
        ...     with held_interrupts():
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
            _signal.signal(_signal.SIGINT, self._hold)
        return self._act

    def __exit__(self, *_: object) -> None:
        if self._usual is not None:
            _signal.signal(_signal.SIGINT, self._usual)
            if self._deliver:
                self._act()

    def _hold(self, number: int, frame: Any) -> None:
        self._held.append((number, frame))

    def _act(self) -> None:
        if self._held:
            self._usual(*self._held.pop())


class InterruptsNamed:
    """Let an interrupt be a `KeyboardInterrupt`, whatever compiled code has made of it.

    An interrupt that arrives while a compiled function hands arrays over comes out of it as a
    `SystemError` that was caused by one.
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


interrupts_named = InterruptsNamed()


def packed_when_done(work: Callable[[], bool], pack: Callable[[bool], Found]) -> Found:
    """Search, then pack what was found, also where Ctrl-C ends the search.

    Args:
        work: Searches; says whether everything was searched.
        pack: Given that, returns what was found. It is never interrupted.

    Raises:
        Interrupted: On Ctrl-C; its `partial` is what `pack` returns.

    Examples:
        >>> cells = []
        >>> def work():
        ...     cells.append("a cell")
        ...     raise KeyboardInterrupt
        >>> try:
        ...     packed_when_done(work, lambda is_complete: (cells, is_complete))
        ... except Interrupted as stop:
        ...     stop.partial
        (['a cell'], False)
    """
    is_complete = False
    found: list[Found] = []
    try:
        with interrupts_named:
            is_complete = work()
        with held_interrupts():
            found.append(pack(is_complete))
    except KeyboardInterrupt:
        with held_interrupts(deliver=False):
            partial = found[0] if found else pack(is_complete)
            raise Interrupted("the search was interrupted", partial) from None
    return found[0]
