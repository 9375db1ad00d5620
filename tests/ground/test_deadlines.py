"""Time limits: what they stop, where, and what they leave unchanged."""

import time
from contextvars import copy_context
from functools import partial
from threading import Thread

import pytest

from hardmax._ground import deadlines
from hardmax._ground.deadlines import (
    GRACE_S,
    TimeLimitReached,
    check_time,
    deadline_within,
    no_time_limit,
    stop_flag,
    time_limit,
)
from hardmax._ground.interrupts import pack_when_done


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""
    now = [100.0]
    monkeypatch.setattr(deadlines.time, "monotonic", lambda: now[0])
    return now


def test_a_step_is_abandoned_half_a_second_after_the_deadline(clock):
    with time_limit(2.0):
        clock[0] = 102.0 + GRACE_S
        check_time()
        clock[0] += 0.001
        with pytest.raises(TimeLimitReached):
            check_time()
        with no_time_limit():
            check_time()
            assert deadline_within(None) == float("inf")
        with pytest.raises(TimeLimitReached):
            check_time()
    check_time()


def test_the_earliest_of_nested_limits_counts(clock):
    assert deadline_within(None) == float("inf")
    assert deadline_within(3.0) == 103.0
    with time_limit(5.0):
        with time_limit(None):
            assert deadline_within(None) == 105.0
        with time_limit(9.0):
            assert deadline_within(None) == 105.0
        with time_limit(1.0):
            assert deadline_within(None) == 101.0
            assert deadline_within(9.0) == 101.0
        assert deadline_within(None) == 105.0


def test_compiled_loops_see_a_flag():
    assert stop_flag().value == 0
    with time_limit(None):
        assert stop_flag().value == 0
    with time_limit(3600.0) as limit:
        assert stop_flag().value == 0
        timer = limit._timer
    timer.join(60.0)
    assert not timer.is_alive()
    assert limit.flag().value == 0
    with time_limit(-1.0):
        flag = stop_flag()
        began = time.monotonic()
        while not flag.value and time.monotonic() < began + 60.0:
            time.sleep(0.001)
        assert flag.value == 1


def test_threads_have_the_limit_in_a_copy_of_the_context():
    seen = []

    def work():
        try:
            check_time()
            seen.append("on time")
        except TimeLimitReached:
            seen.append("late")

    with time_limit(-1.0):
        for target in (work, partial(copy_context().run, work)):
            thread = Thread(target=target)
            thread.start()
            thread.join()
    assert seen == ["on time", "late"]


def test_what_was_found_is_packed_when_time_is_up():
    found = []

    def work():
        found.append("a cell")
        check_time()
        found.append("another one")

    def pack(is_complete):
        check_time()
        return found, is_complete

    with time_limit(-1.0):
        assert pack_when_done(work, pack) == (["a cell"], False)
