"""Time limits that apply to all parts of a computation, including its set-up.

A search checks the clock between steps and stops at its deadline. Code that can take long within
one step, or before the first step, calls `check_time`, which raises `TimeLimitReached` half a
second after the deadline. Compiled loops poll a flag that is set at the same moment. Because of the
half second, a search with a tiny limit still makes a few steps, so that a search that is resumed
repeatedly comes to an end.
"""

import time
from contextvars import ContextVar, Token
from ctypes import c_int32
from math import inf
from threading import Lock, Timer

GRACE_S = 0.5
"""Seconds after the deadline at which the current step is abandoned."""
_LONGEST_S = 1e6
_NEVER = c_int32(0)
_current: "ContextVar[time_limit | None]" = ContextVar("time_limit", default=None)


class TimeLimitReached(Exception):  # noqa: N818 (a limit was reached, which is not an error)
    """A time limit ended a computation in the middle of a step."""


class time_limit:  # noqa: N801 (used as a block)
    """Limit the time of a block, including threads that run in a copy of its context.

    Limits may be nested; the earliest deadline counts.

    Args:
        seconds: The limit; None for no limit.

    Examples:
        >>> with time_limit(3600.0):
        ...     check_time()
        ...     0.0 < deadline_within(None) - time.monotonic() <= 3600.0
        True
        >>> deadline_within(None)
        inf
    """

    def __init__(self, seconds: float | None) -> None:
        outer = _current.get()
        own = inf if seconds is None else time.monotonic() + seconds
        self.deadline: float = own if outer is None else min(own, outer.deadline)
        self._flag = c_int32(0)
        self._timer: Timer | None = None
        self._lock = Lock()
        self._token: Token[time_limit | None] | None = None

    def __enter__(self) -> "time_limit":
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _current.reset(self._token)
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()

    def flag(self) -> c_int32:
        """Return a flag that becomes 1 when `check_time` starts to raise."""
        with self._lock:
            if self._timer is None and self.deadline < inf:
                left = max(self.deadline + GRACE_S - time.monotonic(), 0.0)
                self._timer = Timer(min(left, _LONGEST_S), self._set_flag)
                self._timer.daemon = True
                self._timer.start()
        return self._flag

    def _set_flag(self) -> None:
        self._flag.value = 1


class no_time_limit:  # noqa: N801 (used as a block)
    """Suspend the time limit in a block, for example while results are packed.

    Examples:
        >>> with time_limit(-1.0), no_time_limit():
        ...     check_time()
    """

    def __enter__(self) -> None:
        self._token = _current.set(None)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def deadline_within(seconds: float | None) -> float:
    """Return the value of `time.monotonic()` at which to stop.

    Args:
        seconds: A limit in addition to the enclosing time limit, or None.
    """
    limit = _current.get()
    around = inf if limit is None else limit.deadline
    return around if seconds is None else min(around, time.monotonic() + seconds)


def check_time() -> None:
    """Abandon the current step if its time limit was exceeded.

    Raises:
        TimeLimitReached: From half a second after the deadline of the enclosing time limit.
    """
    limit = _current.get()
    if limit is not None and time.monotonic() > limit.deadline + GRACE_S:
        raise TimeLimitReached


def stop_flag() -> c_int32:
    """Return the flag that compiled loops poll: 0 until `check_time` raises.

    The caller must keep the returned object alive during the loop.
    """
    limit = _current.get()
    return _NEVER if limit is None else limit.flag()
