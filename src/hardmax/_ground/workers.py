"""Who does the work: this thread, threads, processes, a cluster, or any executor.

Every long computation of the library is cut into jobs that need nothing but their arguments, so
that it does not matter who does them, nor how many at once: results come in the order of the jobs.
"""

import os
import pickle
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import closing, suppress
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

from hardmax._ground.arguments import integer
from hardmax._ground.extras import load_extra
from hardmax.errors import ArgumentError, TaskError

Key = TypeVar("Key")
Item = TypeVar("Item")
Result = TypeVar("Result")

Workers = Executor | Callable[[], Executor] | str
"""An executor; a function that makes one, called again when a worker is lost; `"processes"`; or the
address of a Dask scheduler, as `"tcp://10.0.0.1:8786"`."""

VARIABLE = "HARDMAX_WORKERS"
_MOST_TRIES = 3
_PAUSE_S, _LAST_S = 0.2, 8.0
_LOOK_S = 5.0
"""How often a cluster that does not answer is asked whether it has workers."""
_NOTICE_S, _ABSENCE_S = 10.0, 300.0
"""A cluster without workers is reported after the first time, and given up after the second."""
_setting: list[int] = []


def set_workers(workers: int | None) -> None:
    """Say how many workers every function of the library uses that is not told otherwise.

    Searches, sampling, sweeps and verification take `workers=`; where it is left out, this number
    holds, else that in the environment variable `HARDMAX_WORKERS`, else that of the executor, if
    there is one that has a number, else 1. No result depends on it.

    Args:
        workers: The number, or None to forget it.

    Raises:
        ArgumentError: If it is less than 1.

    Examples:
        >>> set_workers(2)
        >>> n_workers(None), n_workers(5)
        (2, 5)
        >>> set_workers(None)
        >>> n_workers(None)
        1
    """
    _setting[:] = [] if workers is None else [integer("workers", workers, at_least=1)]


def n_workers(workers: int | None, executor: Workers | None = None) -> int:
    """Return how many workers to use, given what the caller says, and who works.

    Raises:
        ArgumentError: If it, or the environment variable, is no positive number; if there is no
            scheduler at an address.
    """
    if workers is not None:
        return integer("workers", workers, at_least=1)
    if _setting:
        return _setting[0]
    if VARIABLE not in os.environ:
        return max(1, _size(executor))
    text = os.environ[VARIABLE]
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentError(f"`{VARIABLE}` must be a positive number; got {text!r:.60}.")
    return int(text)


def _size(executor: Workers | None) -> int:
    """Return how many workers an executor has; 1 if it does not say."""
    if executor == "processes":
        return os.cpu_count() or 1
    if isinstance(executor, str):
        with _Cluster(executor) as cluster:
            return cluster.n_threads()
    client = getattr(executor, "_client", None)
    if client is not None and hasattr(client, "nthreads"):
        return sum(client.nthreads().values())
    # Of pools of threads and of processes.
    return int(getattr(executor, "_max_workers", 1))


def executor_maker(workers: Workers, n: int, module: str) -> Callable[[], Executor]:
    """Return what makes an executor for `n` jobs at once; one that was made already only once.

    Args:
        workers: Who works.
        n: How many jobs at once.
        module: What processes import first.

    Raises:
        ArgumentError: If `workers` is nothing of the kind.
    """
    if isinstance(workers, str):
        is_here = workers == "processes"
        return (lambda: Processes(n, module)) if is_here else (lambda: _Cluster(workers))
    if not isinstance(workers, Executor):
        if callable(workers):
            return workers
        raise ArgumentError(
            "`executor` must be an Executor, a function that makes one, 'processes' or the address "
            f"of a Dask scheduler; got {type(workers).__name__}."
        )
    given = [workers]

    def make() -> Executor:
        if not given:
            raise ArgumentError(
                "`executor` must not break; this one did. What was found is kept: the same call "
                "with a new one goes on from there, and with a function that makes one, at once."
            )
        return given.pop()

    return make


class Crew(Generic[Key, Item, Result]):
    """Jobs under way with an executor: the one loop that gives jobs out and takes answers in.

    What fails is tried again, alone, so that nobody else is blamed for it; what fails again and
    again is answered by its error, when all others are done. Where an executor breaks, as a pool of
    processes does that loses one, another one is made.

    Args:
        work: What is done to every item; for processes and clusters a function of a module.
        take: Returns a name and an item, or None if there is nothing to do for now; asked whenever
            there is room for another job.
        n_workers: How many workers there are.
        executor: Who works; threads by default, and the caller's thread if it is one worker.
        n_at_once: How many jobs are under way at once; as many as there are workers by default.
        is_over: Whether time is up, so that a cluster without workers is not waited for.
    """

    def __init__(
        self,
        work: Callable[[Item], Result],
        take: Callable[[], tuple[Key, Item] | None],
        n_workers: int,
        executor: Workers | None = None,
        n_at_once: int | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._work, self._take = work, take
        self._n_at_once = n_at_once or n_workers
        self._is_lent = isinstance(executor, Executor)
        who = _here(n_workers) if executor is None else executor
        module = getattr(work, "func", work).__module__
        self._make = executor_maker(who, n_workers, module)
        self._pool = self._make()
        self._under_way: dict[Future[Result], _Try[Key, Item]] = {}
        self._failed: deque[_Try[Key, Item]] = deque()
        self._is_broken = False
        self._is_over = is_over

    def answers(
        self, look_up: Callable[[], None] = lambda: None
    ) -> "Iterator[tuple[Key, Result | Exception]]":
        """Yield names with results, or last errors, as they come, until nothing is left to do.

        Args:
            look_up: Called now and then.

        Raises:
            ArgumentError: If the executor breaks or was closed, and cannot be made again.
            TaskError: If a cluster has no workers, and none comes.
        """
        absence = _Absence()
        while True:
            self._submit()
            if self._under_way:
                # Ctrl-C must not wait for a job.
                done = wait(self._under_way, _PAUSE_S, FIRST_COMPLETED).done
                look_up()
                absence.check(self._pool, has_answered=bool(done), is_over=self._is_over())
                for future in done:
                    yield from self._answer(future)
                    self._submit()
            elif not (self._failed or self._is_broken):
                return
            if self._is_broken:
                yield from self.last_answers()
                for future in [*self._under_way]:
                    yield from self._failure(future, TaskError("its worker was lost"))
                self._pool.shutdown(wait=False)
                self._pool, self._is_broken = self._make(), False

    def last_answers(self) -> "Iterator[tuple[Key, Result | Exception]]":
        """Give out no more, and yield what comes within some seconds."""
        for future in wait(self._under_way, _LAST_S).done:
            yield from self._answer(future)

    def close(self) -> None:
        """Let go of the executor; one that was lent stays open. Jobs under way are given up."""
        for future in self._under_way:
            future.cancel()
        if not self._is_lent:
            self._pool.shutdown(cancel_futures=True)

    def _submit(self) -> None:
        while len(self._under_way) < self._n_at_once and not self._is_broken:
            if any(other.n_failed for other in self._under_way.values()):
                return
            taken = self._take()
            if taken is not None:
                self._begin(_Try(*taken))
            elif self._failed and not self._under_way:
                self._begin(self._failed.popleft())
            else:
                return

    def _begin(self, one: "_Try[Key, Item]") -> None:
        try:
            self._under_way[self._pool.submit(self._work, one.item)] = one
        except BrokenExecutor:
            self._is_broken = True
            # Who finds nobody else there may have broken it.
            n_failed = one.n_failed + (not self._under_way)
            self._failed.append(one._replace(n_failed=n_failed))
        except RuntimeError as error:
            raise ArgumentError(f"`executor` must take jobs; it says: {error}.") from None

    def _answer(self, future: "Future[Result]") -> "Iterator[tuple[Key, Result | Exception]]":
        error = TaskError("it was cancelled") if future.cancelled() else future.exception()
        if error is None:
            yield self._under_way.pop(future).key, future.result()
        elif isinstance(error, Exception) and not isinstance(error, KeyboardInterrupt):
            self._is_broken = self._is_broken or isinstance(error, BrokenExecutor)
            yield from self._failure(future, error)
        else:
            raise error

    def _failure(
        self, future: "Future[Result]", error: Exception
    ) -> Iterator[tuple[Key, Exception]]:
        one = self._under_way.pop(future)
        # Dask has tried it with several workers, which are all gone.
        is_final = type(error).__name__ == "KilledWorker"
        if one.n_failed + 1 < _MOST_TRIES and not is_final:
            self._failed.append(one._replace(n_failed=one.n_failed + 1))
        else:
            yield one.key, error


class _Absence:
    """Watches whether a cluster has workers: without any, its jobs would wait for ever."""

    def __init__(self) -> None:
        self._seen = self._asked = time.monotonic()
        self._is_reported = False

    def check(self, pool: Executor, *, has_answered: bool, is_over: bool) -> None:
        """Report a cluster that has no workers.

        Raises:
            TaskError: If it has had none for too long, or has none when time is up.
        """
        now = time.monotonic()
        if not (has_answered or is_over) and now - self._asked < _LOOK_S:
            return
        self._asked = now
        if has_answered or _has_workers(pool):
            self._seen, self._is_reported = now, False
            return
        seconds = now - self._seen
        if is_over or seconds >= _ABSENCE_S:
            raise TaskError(
                f"`executor` must have workers; its scheduler has had none for {seconds:.0f} "
                "seconds. What was found is kept: start workers, and the same call goes on from "
                "there."
            )
        if seconds >= _NOTICE_S and not self._is_reported and sys.stderr is not None:
            self._is_reported = True
            words = "the cluster of `executor` has no workers; waiting for one"
            print(f"hardmax: {words}", file=sys.stderr, flush=True)


def _has_workers(pool: Executor) -> bool:
    """Whether an executor has workers; only a Dask cluster may have none."""
    client: Any = getattr(pool, "_client", None)
    if not hasattr(client, "nthreads"):
        return True
    try:
        return bool(client.nthreads())
    except Exception:  # The scheduler is lost; Dask cancels the jobs.
        return True


class _Try(NamedTuple, Generic[Key, Item]):
    """A job, and how often it has failed."""

    key: Key
    item: Item
    n_failed: int = 0


def in_order(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    executor: Workers | None = None,
) -> Iterator[Result]:
    """Do the same to all items, some at once, and yield the results in order.

    Few are looked at ahead, so that neither items nor results need be in memory together. One
    worker and no executor: the caller's thread does it, and nothing is started.

    Args:
        work: What is done; for processes and clusters a function of a module.
        items: What to do it to.
        workers: How many at once.
        executor: Who does it; threads by default. One that is given stays open.

    Raises:
        Exception: What `work` raises, three times if others do it.

    Examples:
        >>> list(in_order(abs, [-1, 2, -3], workers=2))
        [1, 2, 3]
    """
    if workers == 1 and executor is None:
        yield from map(work, items)
        return
    numbered, n_taken, n_given = enumerate(items), 0, 0
    kept: dict[int, Result] = {}

    def take() -> tuple[int, Item] | None:
        nonlocal n_taken
        if n_taken - n_given >= 2 * workers:
            return None
        for number, item in numbered:
            n_taken = number + 1
            return number, item
        return None

    with closing(Crew(work, take, workers, executor, 2 * workers)) as crew:
        for number, result in crew.answers():
            if isinstance(result, Exception):
                raise result
            kept[number] = result
            while n_given in kept:
                yield kept.pop(n_given)
                n_given += 1


def as_done(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    executor: Workers | None = None,
) -> Iterator[tuple[Item, Result | Exception]]:
    """Do the same to all items, some at once, and yield each with its result as it comes.

    Unlike with `in_order`, what takes long holds nobody up. What fails is tried again when all
    others are done, and its last error is its result.

    Examples:
        >>> sorted(as_done(abs, [-1, 2, -3], workers=2))
        [(-3, 3), (-1, 1), (2, 2)]
    """
    named = ((item, item) for item in items)
    with closing(Crew(work, lambda: next(named, None), workers, executor)) as crew:
        yield from crew.answers()


def _here(n: int) -> Callable[[], Executor]:
    return _CallersThread if n == 1 else lambda: ThreadPoolExecutor(n)


class _CallersThread(Executor):
    """Does a job when it is given, so that Ctrl-C ends the job itself."""

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> "Future[Any]":
        """Call a function."""
        future: Future[Any] = Future()
        try:
            future.set_result(work(*given, **named))
        except KeyboardInterrupt:  # Before the others: an interrupted search is both.
            raise
        except Exception as error:
            future.set_exception(error)
        return future


class Processes(Executor):
    """Processes of this machine that import what they are asked to call.

    Unlike those of `multiprocessing`, they do not import the program that asks, which need not be
    a module. All are started at once, so that they are ready when there is something to do. One
    that is lost fails the job it had, and another one takes its place.

    Args:
        n: How many.
        module: What they import before they are asked.

    Examples:
        >>> with Processes(2) as pool:
        ...     list(pool.map(abs, [-1, 2]))
        [1, 2]
    """

    def __init__(self, n: int, module: str = "builtins") -> None:
        self._threads = ThreadPoolExecutor(n)
        self._module = module
        self._children = [_child(module) for _ in range(n)]
        # None for one that was lost.
        self._free: SimpleQueue[Any] = SimpleQueue()
        for child in self._children:
            self._free.put(child)

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> "Future[Any]":
        """Have a process call a function."""
        return self._threads.submit(self._call, work, given, named)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes when they are done; at once if what waits is cancelled."""
        if cancel_futures:
            for child in self._children:
                child.kill()
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        for child in self._children:
            # One that was lost did not read all that it was told.
            with suppress(OSError):
                child.stdin.close()
            child.stdout.close()
            child.wait()

    def _call(self, work: Callable[..., Any], given: Any, named: Any) -> Any:
        # What cannot be sent fails here, before a part of it is written.
        question = pickle.dumps((work, given, named))
        child = self._free.get()
        if child is None:
            child = _child(self._module)
            self._children.append(child)
        try:
            pickle.dump(question, child.stdin)
            child.stdin.flush()
            is_done, answer = pickle.load(child.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            self._free.put(None)
            child.kill()
            raise TaskError(f"a process was lost; it ended with {child.wait()}") from None
        self._free.put(child)
        if not is_done:
            raise answer
        return answer


def _child(module: str) -> Any:
    import subprocess  # Few programs need it.

    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import {module}; from hardmax._ground.workers import serve; serve()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        # Ctrl-C is for the process that asks.
        start_new_session=True,
    )


def serve() -> None:
    """Call functions that another process asks for, until it asks no more, or is gone."""
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # What a function prints must not be taken for an answer.
    os.dup2(2, 1)
    asked: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        with suppress(OSError, EOFError, pickle.UnpicklingError):
            while True:
                asked.put(pickle.load(questions))
        # A job that nobody waits for any more might take long.
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        question = asked.get()
        try:
            work, given, named = pickle.loads(question)
            answer = True, work(*given, **named)
        except Exception as error:
            answer = False, error
        try:
            content = pickle.dumps(answer)
        except Exception as error:
            content = pickle.dumps((False, TaskError(f"{error!r:.300} while answering")))
        with suppress(OSError):
            answers.write(content)
            answers.flush()


class _Cluster(Executor):
    """The workers of a Dask scheduler; lost ones are replaced by the scheduler itself."""

    def __init__(self, address: str) -> None:
        distributed = load_extra("distributed", extra="dask", purpose="Clusters")
        try:
            self._client = distributed.Client(address, set_as_default=False, timeout="10s")
        except (OSError, ValueError, TypeError) as error:
            raise ArgumentError(
                f"`executor` must be the address of a Dask scheduler; {address!r:.100}: {error}."
            ) from None
        self._pool = self._client.get_executor(pure=False)

    def n_threads(self) -> int:
        """Return how many jobs it does at once."""
        return sum(self._client.nthreads().values())

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> "Future[Any]":
        """Have a worker of the cluster call a function."""
        future: Future[Any] = self._pool.submit(work, *given, **named)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let go of the cluster, which goes on."""
        # A cluster without workers would never be done.
        self._pool.shutdown(wait=wait and not cancel_futures)
        self._client.close()
