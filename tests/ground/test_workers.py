"""Who does the work: the same results in the same order, whoever it is."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hardmax import set_workers
from hardmax._ground import workers
from hardmax._ground.workers import Processes, in_order, n_workers
from hardmax.errors import ArgumentError, TaskError


@pytest.mark.parametrize("executor", [None, "processes", lambda: ThreadPoolExecutor(2)])
def test_results_come_in_the_order_of_the_items(executor):
    seconds = [0.02, 0.0, 0.01, 0.0, 0.0, 0.0]
    slow = time.sleep if executor == "processes" else (lambda s: time.sleep(s) or s)
    expected = [None] * 6 if executor == "processes" else seconds
    assert list(in_order(slow, seconds, 2, executor)) == expected
    assert list(in_order(abs, range(-50, 0), 2, executor)) == list(range(50, 0, -1))


def test_one_worker_is_the_thread_that_asks(monkeypatch):
    monkeypatch.setattr(workers, "ThreadPoolExecutor", None)
    assert list(in_order(abs, [-1, 2], 1)) == [1, 2]


def test_few_items_are_looked_at_ahead():
    asked = []
    items = (asked.append(i) or i for i in range(100))
    results = in_order(abs, items, 3)
    assert next(results) == 0
    assert len(asked) <= 7
    results.close()


def test_an_executor_that_is_lent_stays_open():
    with ThreadPoolExecutor(2) as pool:
        assert list(in_order(abs, [-1], 2, pool)) == [1]
        assert pool.submit(abs, -2).result() == 2


def test_a_process_that_is_lost_fails_its_job_alone():
    with Processes(1) as pool:
        lost = pool.submit(os._exit, 3)
        after = pool.submit(abs, -4)
        with pytest.raises(TaskError, match="ended with 3"):
            lost.result()
        assert after.result() == 4
        first = pool.submit(os.getpid).result()
        os.kill(first, signal.SIGKILL)
        with pytest.raises(TaskError, match="ended with -9"):
            pool.submit(abs, -5).result()
        assert pool.submit(os.getpid).result() != first


def test_errors_of_a_job_are_those_of_the_function():
    with Processes(1) as pool:
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 1, 0).result()
        # What is printed is no answer, and what cannot be sent says so.
        pool.submit(print, "a line").result()
        with pytest.raises(TaskError, match="while answering"):
            pool.submit(open, os.devnull).result()


def test_the_number_of_workers_can_be_set_for_all(monkeypatch):
    assert n_workers(None) == 1
    monkeypatch.setenv(workers.VARIABLE, "3")
    assert (n_workers(None), n_workers(2)) == (3, 2)
    set_workers(4)
    try:
        assert (n_workers(None), n_workers(2)) == (4, 2)
    finally:
        set_workers(None)
    for text in ("0", "two", "-1"):
        monkeypatch.setenv(workers.VARIABLE, text)
        with pytest.raises(ArgumentError, match="HARDMAX_WORKERS"):
            n_workers(None)
    for number in (0, -1):
        with pytest.raises(ArgumentError, match="`workers`"):
            set_workers(number)


def test_what_is_no_executor_is_refused():
    with pytest.raises(ArgumentError, match="`executor` must be an Executor"):
        list(in_order(abs, [1], 2, 5))
