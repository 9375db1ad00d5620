"""What the first search waits for: its loops are compiled once, and this says so.

numba compiles a loop when it is first called and keeps the result on disk, so only the first run
after an installation waits. Nothing is said where the disk has it, or where compiling takes less
than a second. Ctrl-C during the wait ends it; what is compiled by then is kept, whole.
"""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

from hardmax.interrupts import held_interrupts

_PATIENCE_S = 1.0
_USUAL: dict[str, str] = {}
"""How long the large ones take; there is nothing to measure before it is done."""


class _Wait:
    """Loops being compiled, one inside the other; the outermost is what a user waits for.

    An interrupt acts between two passes of the compiler only: elsewhere a callback can swallow it.
    """

    def __init__(self) -> None:
        self.under_way: list[int] = []
        self.start = 0.0
        self.was_said = False
        self.timer: threading.Timer | None = None
        self.hold = ExitStack()
        self.interrupt: Callable[[], None] = lambda: None

    def begin(self, name: int, dispatcher: Any) -> None:
        self._save_whole(dispatcher)
        self.under_way.append(name)
        if len(self.under_way) > 1:
            return
        self.interrupt = self.hold.enter_context(held_interrupts())
        self.start, self.was_said = time.monotonic(), False
        usual = _USUAL.get(dispatcher.__module__.rpartition(".")[2], "up to half a minute")
        self.timer = threading.Timer(_PATIENCE_S, self.say, [usual])
        self.timer.daemon = True
        self.timer.start()

    def end(self, name: int, is_done: bool) -> None:
        if name not in self.under_way:
            return  # It was interrupted before it began.
        self.under_way.remove(name)
        if self.under_way:
            return
        if self.timer is not None:
            self.timer.cancel()
        if self.was_said and is_done:
            _print(f"compiled in {time.monotonic() - self.start:.0f} s")
        if not is_done:
            self.release()

    def release(self) -> None:
        self.interrupt = lambda: None
        self.hold.close()

    def say(self, usual: str) -> None:
        self.was_said = True
        _print(f"compiling once, {usual}; later runs start at once ...")

    def _save_whole(self, dispatcher: Any) -> None:
        """Let no interrupt act before what is compiled is saved: an index, then what it names."""
        cache = dispatcher._cache
        if "save_overload" in vars(cache):
            return
        save = cache.save_overload

        @wraps(save)
        def saved(*arguments: Any) -> Any:
            try:
                return save(*arguments)
            finally:
                if not self.under_way:
                    self.release()

        cache.save_overload = saved


_listeners: list[Any] = []


def announce_compilation() -> None:
    """From now on say on standard error when a loop of this library is being compiled."""
    if _listeners:
        return
    from numba.core import event

    wait = _Wait()

    class Compiled(event.Listener):  # type: ignore[misc, unused-ignore]
        def on_start(self, event: Any) -> None:
            if _is_ours(event.data["dispatcher"]):
                wait.begin(id(event.data), event.data["dispatcher"])

        def on_end(self, event: Any) -> None:
            dispatcher = event.data["dispatcher"]
            if _is_ours(dispatcher):
                wait.end(id(event.data), tuple(event.data["args"]) in dispatcher.overloads)

    class Passes(event.Listener):  # type: ignore[misc, unused-ignore]
        def on_start(self, event: Any) -> None:
            wait.interrupt()

        def on_end(self, event: Any) -> None:
            wait.interrupt()

    for kind, listener in (("numba:compile", Compiled()), ("numba:run_pass", Passes())):
        _listeners.append(listener)
        event.register(kind, listener)


def _is_ours(dispatcher: Any) -> bool:
    return str(getattr(dispatcher, "__module__", "")).startswith("hardmax.")


def _print(words: str) -> None:
    if sys.stderr is not None:
        print(f"hardmax: {words}", file=sys.stderr, flush=True)
