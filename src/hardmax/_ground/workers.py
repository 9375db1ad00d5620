"""Who does the work: this thread, threads, processes, a cluster, or any executor.

Every long computation of the library is cut into jobs that need nothing but their arguments, so
that it does not matter who does them, nor how many at once: results come in the order of the jobs.
"""

import os
import pickle
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, TypeVar

from hardmax._ground.arguments import integer
from hardmax._ground.extras import load_extra
from hardmax.errors import ArgumentError, HardmaxError, TaskError

Item = TypeVar("Item")
Result = TypeVar("Result")

Workers = Executor | Callable[[], Executor] | str
"""An executor; a function that makes one, called again when a worker is lost; `"processes"`; or the
address of a Dask scheduler, as `"tcp://10.0.0.1:8786"`."""

VARIABLE = "HARDMAX_WORKERS"
_MOST_TRIES, _PAUSE_S = 3, 0.5
_setting: list[int] = []


def set_workers(workers: int | None) -> None:
    """Say how many workers every function of the library uses that is not told otherwise.

    Searches, sampling, sweeps and verification take `workers=`; where it is left out, this number
    holds, else that in the environment variable `HARDMAX_WORKERS`, else 1. No result depends on it.

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


def n_workers(workers: int | None) -> int:
    """Return how many workers to use, given what the caller says.

    Raises:
        ArgumentError: If it, or the environment variable, is no positive number.
    """
    if workers is not None:
        return integer("workers", workers, at_least=1)
    if _setting:
        return _setting[0]
    text = os.environ.get(VARIABLE, "1")
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentError(f"`{VARIABLE}` must be a positive number; got {text!r:.60}.")
    return int(text)


def executor_maker(workers: Workers, n: int) -> Callable[[], Executor]:
    """Return what makes an executor for `n` jobs at once; one that was made already only once.

    Raises:
        ArgumentError: If `workers` is nothing of the kind.
    """
    if isinstance(workers, str):
        return (lambda: Processes(n)) if workers == "processes" else (lambda: _Cluster(workers))
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


def in_order(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    executor: Workers | None = None,
) -> Iterator[Result]:
    """Do the same to all items, some at once, and yield the results in order.

    Few are looked at ahead, so that neither items nor results need be in memory together. One
    worker and no executor: the caller's thread does it, and nothing is started. What a worker was
    doing that is lost is done again.

    Args:
        work: What is done; for processes and clusters a function of a module.
        items: What to do it to.
        workers: How many at once.
        executor: Who does it; threads by default. One that is given stays open.

    Examples:
        >>> list(in_order(abs, [-1, 2, -3], workers=2))
        [1, 2, 3]
    """
    if workers == 1 and executor is None:
        yield from map(work, items)
        return
    left = iter(items)
    with _opened(workers, executor) as pool:
        waiting: deque[tuple[Item, Future[Result]]] = deque()
        try:
            waiting.extend((item, pool.submit(work, item)) for item in islice(left, 2 * workers))
            while waiting:
                item, future = waiting[0]
                error = future.exception()
                for _ in range(_MOST_TRIES - 1):
                    if error is not None and is_lost(error):
                        future = pool.submit(work, item)
                        error = future.exception()
                waiting.popleft()
                yield future.result()
                waiting.extend((item, pool.submit(work, item)) for item in islice(left, 1))
        finally:
            for _, future in waiting:
                future.cancel()


def as_done(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    executor: Workers | None = None,
) -> Iterator[tuple[Item, Result | Exception]]:
    """Do the same to all items, some at once, and yield each with its result as it comes.

    Unlike with `in_order`, what takes long holds nobody up. What fails is tried again, and its
    last error is its result.

    Examples:
        >>> sorted(as_done(abs, [-1, 2, -3], workers=2))
        [(-3, 3), (-1, 1), (2, 2)]
    """
    left = iter(items)
    with _opened(workers, executor) as pool:
        under_way: dict[Future[Result], tuple[Item, int]] = {}

        def submit(item: Item, n_failed: int) -> None:
            under_way[pool.submit(work, item)] = item, n_failed

        try:
            for item in islice(left, workers):
                submit(item, 0)
            while under_way:
                # Ctrl-C must not wait for a job.
                done, _ = wait(under_way, _PAUSE_S, FIRST_COMPLETED)
                for future in done:
                    item, n_failed = under_way.pop(future)
                    error = future.exception()
                    if isinstance(error, Exception) and n_failed + 1 < _MOST_TRIES:
                        submit(item, n_failed + 1)
                        continue
                    for another in islice(left, 1):
                        submit(another, 0)
                    yield item, error if isinstance(error, Exception) else future.result()
        finally:
            for future in under_way:
                future.cancel()


def is_lost(error: BaseException) -> bool:
    """Say whether an error may be that of a worker, not of its job."""
    return isinstance(error, TaskError) or not isinstance(error, HardmaxError)


@contextmanager
def _opened(workers: int, executor: Workers | None) -> Iterator[Executor]:
    """Open who does the work; one that was lent is not closed."""
    pool = ThreadPoolExecutor(workers) if executor is None else executor_maker(executor, workers)()
    try:
        yield pool
    finally:
        if pool is not executor:
            pool.shutdown(cancel_futures=True)


class Processes(Executor):
    """Processes of this machine that import what they are asked to call.

    Unlike those of `multiprocessing`, they do not import the program that asks, which need not be
    a module. One that is lost fails the job it had, and another one takes its place.

    Args:
        n: How many.

    Examples:
        >>> with Processes(2) as pool:
        ...     list(pool.map(abs, [-1, 2]))
        [1, 2]
    """

    def __init__(self, n: int) -> None:
        self._threads = ThreadPoolExecutor(n)
        self._own = threading.local()
        self._children: list[Any] = []

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
        child = getattr(self._own, "child", None)
        if child is None:
            child = self._own.child = _child()
            self._children.append(child)
        try:
            pickle.dump((work, given, named), child.stdin)
            child.stdin.flush()
            is_done, answer = pickle.load(child.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            self._own.child = None
            child.kill()
            raise TaskError(f"a process was lost; it ended with {child.wait()}") from None
        if not is_done:
            raise answer
        return answer


def _child() -> Any:
    import subprocess  # Few programs need it.

    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(
        [sys.executable, "-c", "from hardmax._ground.workers import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        # Ctrl-C is for the process that asks.
        start_new_session=True,
    )


def serve() -> None:
    """Call functions that another process asks for, until it asks no more."""
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # What a function prints must not be taken for an answer.
    os.dup2(2, 1)
    while True:
        try:
            work, given, named = pickle.load(questions)
        except EOFError:
            return
        try:
            answer = True, work(*given, **named)
        except Exception as error:
            answer = False, error
        try:
            content = pickle.dumps(answer)
        except Exception as error:
            content = pickle.dumps((False, TaskError(f"{error!r:.300} while answering")))
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

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> "Future[Any]":
        """Have a worker of the cluster call a function."""
        future: Future[Any] = self._pool.submit(work, *given, **named)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let go of the cluster, which goes on."""
        self._pool.shutdown(wait=wait)
        self._client.close()
