"""Time limits that hold wherever a computation is, its set-up included.

A search looks at the clock between two steps and stops at its deadline. What takes long within one
step, or before the first one, calls `check_time`, which raises `TimeIsUp` half a second after the
deadline. Compiled loops poll a flag that is set at the same moment. The half second lets a
search whose limit is tiny make a few steps, so that one that is resumed again and again ends.
"""

import time
from contextvars import ContextVar, Token
from ctypes import c_int32
from math import inf
from threading import Lock, Timer

GRACE_S = 0.5
"""How long after the deadline a step that is under way is abandoned."""
_LONGEST_S = 1e6
_NEVER = c_int32(0)
_current: "ContextVar[time_limit | None]" = ContextVar("time_limit", default=None)


class TimeIsUp(Exception):  # noqa: N818 (a limit was reached, which is not an error)
    """A time limit ended a computation in the middle of a step."""


class time_limit:  # noqa: N801 (used as a block)
    """Limit the time of a block, and of every thread that runs in a copy of its context.

    Limits may be nested; the earliest deadline counts.

    Args:
        seconds: The limit; None for none.

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
        """Return what becomes 1 when `check_time` begins to raise."""
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
    """Finish a block whatever the time limit around it, as where results are packed.

    Examples:
        >>> with time_limit(-1.0), no_time_limit():
        ...     check_time()
    """

    def __enter__(self) -> None:
        self._token = _current.set(None)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def deadline_within(seconds: float | None) -> float:
    """Return the `time.monotonic()` at which to stop: in some seconds, or at the limit around it.

    Args:
        seconds: A further limit; None for none.
    """
    limit = _current.get()
    around = inf if limit is None else limit.deadline
    return around if seconds is None else min(around, time.monotonic() + seconds)


def check_time() -> None:
    """Abandon the step that is under way if it is too late.

    Raises:
        TimeIsUp: Half a second after the deadline of the time limit around it.
    """
    limit = _current.get()
    if limit is not None and time.monotonic() > limit.deadline + GRACE_S:
        raise TimeIsUp


def stop_flag() -> c_int32:
    """Return what compiled loops poll: 0 until `check_time` raises; it must be kept alive."""
    limit = _current.get()
    return _NEVER if limit is None else limit.flag()
