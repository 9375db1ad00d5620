"""Executors: the same results in the same order wherever the jobs run."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pickle import PicklingError
from threading import Event

import pytest

from hardmax import set_workers
from hardmax._ground import workers
from hardmax._ground.workers import Processes, map_any_order, map_in_order, n_workers
from hardmax.errors import ArgumentError, Interrupted, TaskError


@pytest.mark.parametrize("executor", [None, "processes", lambda: ThreadPoolExecutor(2)])
def test_results_come_in_the_order_of_the_items(executor):
    seconds = [0.02, 0.0, 0.01, 0.0, 0.0, 0.0]
    slow = time.sleep if executor == "processes" else (lambda s: time.sleep(s) or s)
    expected = [None] * 6 if executor == "processes" else seconds
    assert list(map_in_order(slow, seconds, 2, executor)) == expected
    assert list(map_in_order(abs, range(-50, 0), 2, executor)) == list(range(50, 0, -1))


def test_one_worker_is_the_thread_that_asks(monkeypatch):
    monkeypatch.setattr(workers, "ThreadPoolExecutor", None)
    assert list(map_in_order(abs, [-1, 2], 1)) == [1, 2]


def test_few_items_are_looked_at_ahead():
    asked = []
    items = (asked.append(i) or i for i in range(100))
    results = map_in_order(abs, items, 3)
    assert next(results) == 0
    assert len(asked) <= 7
    results.close()


def test_an_executor_that_is_lent_stays_open():
    with ThreadPoolExecutor(2) as pool:
        assert list(map_in_order(abs, [-1], 2, pool)) == [1]
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
        # Printed text is not part of the answer, and an answer that cannot be sent is an error.
        pool.submit(print, "a line").result()
        with pytest.raises(TaskError, match="while answering"):
            pool.submit(open, os.devnull).result()


def _kill_process(item):
    """Kill the worker process each time."""
    if item == 3:
        os._exit(1)
    return -item


def _die_once(given):
    """Kill the worker process once; a file records this."""
    item, folder = given
    if item == 3:
        try:
            open(os.path.join(folder, "died"), "x").close()
        except FileExistsError:
            return -item
        os._exit(1)
    return -item


WAYS = {
    "processes": "processes",
    "pools": lambda: ProcessPoolExecutor(2, get_context("spawn")),
}


@pytest.mark.parametrize("way", WAYS)
def test_whose_worker_dies_each_time_is_named_and_the_rest_is_done(way):
    found = dict(map_any_order(_kill_process, range(6), 2, WAYS[way]))
    assert isinstance(found.pop(3), TaskError | BrokenExecutor)
    assert found == {item: -item for item in range(6) if item != 3}
    with pytest.raises((TaskError, BrokenExecutor)):
        list(map_in_order(_kill_process, range(6), 2, WAYS[way]))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("in_which_way", [map_in_order, map_any_order])
def test_a_worker_that_die_once_loses_nothing(way, in_which_way, tmp_path):
    items = [(item, str(tmp_path)) for item in range(6)]
    found = list(in_which_way(_die_once, items, 2, WAYS[way]))
    if in_which_way is map_any_order:
        found = sorted((answer for _, answer in found), reverse=True)
    assert found == [-item for item in range(6)]


def test_a_pool_that_is_lent_and_breaks_says_so():
    with (
        ProcessPoolExecutor(2, get_context("spawn")) as pool,
        pytest.raises(ArgumentError, match="`executor` must not break"),
    ):
        list(map_any_order(_kill_process, range(6), 2, pool))
    with pytest.raises(ArgumentError, match="`executor` must"):
        list(map_any_order(abs, range(6), 2, pool))
    threads = ThreadPoolExecutor(1)
    threads.shutdown()
    with pytest.raises(ArgumentError, match=r"`executor` does not accept jobs.*shutdown"):
        list(map_in_order(abs, range(6), 2, threads))


def test_what_fails_is_tried_again_when_all_others_are_done():
    tried = []

    def work(item):
        tried.append(item)
        if item == 1 and tried.count(1) < 3:
            raise ValueError("not yet")
        return item

    assert sorted(map_any_order(work, range(4), 2)) == [(i, i) for i in range(4)]
    assert tried.count(1) == 3
    assert tried[-2:] == [1, 1]


class EmptyCluster(ThreadPoolExecutor):
    """An executor like Dask's, whose cluster gets a worker only after some queries."""

    def __init__(self, n_questions):
        super().__init__(1)
        self._client, self.n_left = self, n_questions
        self.arrived = Event()

    def nthreads(self):
        self.n_left -= 1
        if self.n_left < 0:
            self.arrived.set()
        return {"tcp://worker": 1} if self.arrived.is_set() else {}

    def submit(self, work, *given):
        return super().submit(lambda: (self.arrived.wait(), work(*given))[1])


def test_a_cluster_without_workers_is_reported_and_given_up(monkeypatch, capsys):
    monkeypatch.setattr(workers, "_PAUSE_S", 0.01)
    monkeypatch.setattr(workers, "_LOOK_S", 0.01)
    monkeypatch.setattr(workers, "_NOTICE_S", 0.0)
    with EmptyCluster(5) as late:
        assert list(map_any_order(abs, [-1], 1, late)) == [(-1, 1)]
    assert capsys.readouterr().err == (
        "hardmax: the cluster of `executor` has no workers; waiting for one\n"
    )
    monkeypatch.setattr(workers, "_ABSENCE_S", 0.05)
    with EmptyCluster(10**6) as empty:
        with pytest.raises(TaskError, match=r"`executor` must have workers; .* start workers"):
            list(map_any_order(abs, [-1], 1, empty))
        empty.arrived.set()


def test_what_dask_gives_up_is_not_tried_again():
    tried = []

    class KilledWorker(Exception):  # noqa: N818 (as Dask names it)
        pass

    def work(item):
        tried.append(item)
        raise KilledWorker

    ((_, error),) = map_any_order(work, [1], 2)
    assert isinstance(error, KilledWorker)
    assert tried == [1]


def test_what_cannot_be_sent_fails_alone():
    with Processes(1) as pool:
        with pytest.raises((AttributeError, PicklingError)):
            pool.submit(lambda: 1).result()
        assert pool.submit(abs, -4).result() == 4


ASKS = """
import sys, time
from hardmax._ground.workers import Processes
pool = Processes(1)
print(pool.submit(__import__("os").getpid).result(), flush=True)
pool.submit(time.sleep, 600).result()
"""


def test_processes_end_with_the_one_that_asked():
    command = [sys.executable, "-c", ASKS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asks:
        os.kill(int(asks.stdout.readline()), 0)
        asks.kill()
        # Its error stream ends when all processes that write to it have ended, and it is empty.
        assert asks.communicate(timeout=60)[1] == b""


def test_one_worker_is_interrupted_at_once():
    def work(item):
        raise Interrupted("the search was interrupted")

    with pytest.raises(Interrupted):
        list(map_any_order(work, range(4), 1))


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


def test_an_executor_says_how_many_workers_it_has(monkeypatch):
    monkeypatch.delenv(workers.VARIABLE, raising=False)
    with ThreadPoolExecutor(3) as threads:
        assert (n_workers(None, threads), n_workers(2, threads)) == (3, 2)
        monkeypatch.setenv(workers.VARIABLE, "5")
        assert n_workers(None, threads) == 5
        monkeypatch.delenv(workers.VARIABLE)
    assert n_workers(None, "processes") == os.cpu_count()
    assert n_workers(None, lambda: threads) == 1


def test_what_is_no_executor_is_refused():
    with pytest.raises(ArgumentError, match="`executor` must be an Executor"):
        list(map_in_order(abs, [1], 2, 5))
