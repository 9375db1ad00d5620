"""Execution of jobs in this thread, in threads, in processes, on a cluster, or by any executor.

Every long computation of the library is divided into jobs that depend only on their arguments.
Hence the results do not depend on the executor or on the number of workers, and they are returned
in the order of the jobs.
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
"""An executor; a function that makes one, which is called again if a worker is lost; `"processes"`;
or the address of a Dask scheduler, such as `"tcp://10.0.0.1:8786"`."""

VARIABLE = "HARDMAX_WORKERS"
_MOST_TRIES = 3
_PAUSE_S, _LAST_S = 0.2, 8.0
_LOOK_S = 5.0
"""Seconds between two checks whether a cluster that returns no results has workers."""
_NOTICE_S, _ABSENCE_S = 10.0, 300.0
"""Seconds after which a cluster without workers is reported, and after which it is an error."""
_setting: list[int] = []


def set_workers(workers: int | None) -> None:
    """Set the default number of workers for all functions of the library.

    Searches, sampling, sweeps and verification have an argument `workers`. If it is omitted, they
    use this default; if there is none, the environment variable `HARDMAX_WORKERS`; if it is not
    set, the number of workers of the executor, if known; and otherwise 1. Results do not depend on
    the number of workers.

    Args:
        workers: The default number of workers, or None to remove the default.

    Raises:
        ArgumentError: If `workers` is less than 1.

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
    """Return the number of workers to use, given the arguments of the caller.

    Raises:
        ArgumentError: If `workers` or the environment variable is not a positive integer, or if
            there is no scheduler at the address `executor`.
    """
    if workers is not None:
        return integer("workers", workers, at_least=1)
    if _setting:
        return _setting[0]
    if VARIABLE not in os.environ:
        return max(1, _count_workers(executor))
    text = os.environ[VARIABLE]
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentError(f"`{VARIABLE}` must be a positive integer; got {text!r:.60}.")
    return int(text)


def _count_workers(executor: Workers | None) -> int:
    """Return the number of workers of an executor, or 1 if it is not known."""
    if executor == "processes":
        return os.cpu_count() or 1
    if isinstance(executor, str):
        with _Cluster(executor) as cluster:
            return cluster.n_threads()
    client = getattr(executor, "_client", None)
    if client is not None and hasattr(client, "nthreads"):
        return sum(client.nthreads().values())
    # Pools of threads and of processes have this attribute.
    return int(getattr(executor, "_max_workers", 1))


def executor_factory(workers: Workers, n: int, module: str) -> Callable[[], Executor]:
    """Return a function that makes an executor for `n` concurrent jobs.

    If `workers` is an executor, the function can be called only once.

    Args:
        workers: The executor, or a description of it.
        n: The number of concurrent jobs.
        module: The module that processes import at their start.

    Raises:
        ArgumentError: If `workers` has an unsupported type.
    """
    if isinstance(workers, str):
        is_local = workers == "processes"
        return (lambda: Processes(n, module)) if is_local else (lambda: _Cluster(workers))
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
                "`executor` must not break, but it did. All results so far are kept. Repeat the "
                "call with a new executor to resume, or pass a function that makes executors to "
                "resume automatically."
            )
        return given.pop()

    return make


class TaskPool(Generic[Key, Item, Result]):
    """A pool of jobs: submits jobs to an executor and collects their results.

    A failed job is retried alone, so that no other job can cause its failure. If a job fails
    repeatedly, its result is its error, after all other jobs are done. If an executor breaks, as a
    process pool does when it loses a process, a new one is made.

    Args:
        work: The function to call for every item. For processes and clusters it must be a function
            of a module.
        take: A function that returns a name and an item, or None if there is currently nothing to
            do. It is called whenever another job can be submitted.
        n_workers: The number of workers.
        executor: Where the jobs run. By default they run in threads, or in the thread of the caller
            if there is one worker.
        n_at_once: The maximum number of concurrent jobs; by default, one per worker.
        is_over: Whether the time limit has been reached, so that a cluster without workers is an
            error.
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
        self._is_borrowed = isinstance(executor, Executor)
        where = _local_executor(n_workers) if executor is None else executor
        module = getattr(work, "func", work).__module__
        self._make = executor_factory(where, n_workers, module)
        self._pool = self._make()
        self._under_way: dict[Future[Result], _Attempt[Key, Item]] = {}
        self._failed: deque[_Attempt[Key, Item]] = deque()
        self._is_broken = False
        self._is_over = is_over

    def results(
        self, look_up: Callable[[], None] = lambda: None
    ) -> "Iterator[tuple[Key, Result | Exception]]":
        """Yield names with results, or with final errors, as they arrive, until all jobs are done.

        Args:
            look_up: A function that is called regularly.

        Raises:
            ArgumentError: If the executor breaks or was closed, and cannot be made again.
            TaskError: If a cluster has no workers for too long.
        """
        absence = _WorkerWatch()
        while True:
            self._submit()
            if self._under_way:
                # Ctrl-C must not wait for a job.
                done = wait(self._under_way, _PAUSE_S, FIRST_COMPLETED).done
                look_up()
                absence.check(self._pool, has_results=bool(done), is_over=self._is_over())
                for future in done:
                    yield from self._collect(future)
                    self._submit()
            elif not (self._failed or self._is_broken):
                return
            if self._is_broken:
                yield from self.last_results()
                for future in [*self._under_way]:
                    yield from self._record_failure(future, TaskError("its worker was lost"))
                self._pool.shutdown(wait=False)
                self._pool, self._is_broken = self._make(), False

    def last_results(self) -> "Iterator[tuple[Key, Result | Exception]]":
        """Submit no more jobs, and yield the results that arrive within a few seconds."""
        for future in wait(self._under_way, _LAST_S).done:
            yield from self._collect(future)

    def close(self) -> None:
        """Cancel running jobs, and shut down the executor unless the caller passed it."""
        for future in self._under_way:
            future.cancel()
        if not self._is_borrowed:
            self._pool.shutdown(cancel_futures=True)

    def _submit(self) -> None:
        while len(self._under_way) < self._n_at_once and not self._is_broken:
            if any(other.n_failed for other in self._under_way.values()):
                return
            taken = self._take()
            if taken is not None:
                self._start(_Attempt(*taken))
            elif self._failed and not self._under_way:
                self._start(self._failed.popleft())
            else:
                return

    def _start(self, one: "_Attempt[Key, Item]") -> None:
        try:
            self._under_way[self._pool.submit(self._work, one.item)] = one
        except BrokenExecutor:
            self._is_broken = True
            # If no other job was running, this job may have broken the executor.
            n_failed = one.n_failed + (not self._under_way)
            self._failed.append(one._replace(n_failed=n_failed))
        except RuntimeError as error:
            raise ArgumentError(f"`executor` does not accept jobs: {error}.") from None

    def _collect(self, future: "Future[Result]") -> "Iterator[tuple[Key, Result | Exception]]":
        error = TaskError("it was cancelled") if future.cancelled() else future.exception()
        if error is None:
            yield self._under_way.pop(future).key, future.result()
        elif isinstance(error, Exception) and not isinstance(error, KeyboardInterrupt):
            self._is_broken = self._is_broken or isinstance(error, BrokenExecutor)
            yield from self._record_failure(future, error)
        else:
            raise error

    def _record_failure(
        self, future: "Future[Result]", error: Exception
    ) -> Iterator[tuple[Key, Exception]]:
        one = self._under_way.pop(future)
        # Dask has already tried the job on several workers, all of which were lost.
        is_final = type(error).__name__ == "KilledWorker"
        if one.n_failed + 1 < _MOST_TRIES and not is_final:
            self._failed.append(one._replace(n_failed=one.n_failed + 1))
        else:
            yield one.key, error


class _WorkerWatch:
    """A check that a cluster has workers: without workers its jobs would wait for ever."""

    def __init__(self) -> None:
        self._seen = self._asked = time.monotonic()
        self._is_reported = False

    def check(self, pool: Executor, *, has_results: bool, is_over: bool) -> None:
        """Report a cluster that has no workers.

        Raises:
            TaskError: If the cluster has no workers for too long, or at the time limit.
        """
        now = time.monotonic()
        if not (has_results or is_over) and now - self._asked < _LOOK_S:
            return
        self._asked = now
        if has_results or _has_workers(pool):
            self._seen, self._is_reported = now, False
            return
        seconds = now - self._seen
        if is_over or seconds >= _ABSENCE_S:
            raise TaskError(
                f"`executor` must have workers; its scheduler has had none for {seconds:.0f} "
                "seconds. All results so far are kept: start workers, and repeat the call to "
                "resume."
            )
        if seconds >= _NOTICE_S and not self._is_reported and sys.stderr is not None:
            self._is_reported = True
            words = "the cluster of `executor` has no workers; waiting for one"
            print(f"hardmax: {words}", file=sys.stderr, flush=True)


def _has_workers(pool: Executor) -> bool:
    """Return whether an executor has workers; only a Dask cluster can have none."""
    client: Any = getattr(pool, "_client", None)
    if not hasattr(client, "nthreads"):
        return True
    try:
        return bool(client.nthreads())
    except Exception:  # The scheduler was lost; Dask cancels the jobs.
        return True


class _Attempt(NamedTuple, Generic[Key, Item]):
    """A job with the number of its failures."""

    key: Key
    item: Item
    n_failed: int = 0


def map_in_order(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    executor: Workers | None = None,
) -> Iterator[Result]:
    """Apply a function to all items concurrently, and yield the results in order.

    Only a few items are read ahead, so that neither all items nor all results need to be in memory
    at once. With one worker and no executor, the items are processed in the thread of the caller.

    Args:
        work: The function to apply. For processes and clusters it must be a function of a module.
        items: The items.
        workers: The number of concurrent jobs.
        executor: Where the jobs run; by default, in threads. An executor is not shut down.

    Raises:
        Exception: Any exception that `work` raises, after three attempts if the job does not run in
            the thread of the caller.

    Examples:
        >>> list(map_in_order(abs, [-1, 2, -3], workers=2))
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

    with closing(TaskPool(work, take, workers, executor, 2 * workers)) as pool:
        for number, result in pool.results():
            if isinstance(result, Exception):
                raise result
            kept[number] = result
            while n_given in kept:
                yield kept.pop(n_given)
                n_given += 1


def map_any_order(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    executor: Workers | None = None,
) -> Iterator[tuple[Item, Result | Exception]]:
    """Apply a function to all items concurrently, and yield each item with its result when done.

    Unlike with `map_in_order`, a slow item does not delay others. A failed item is retried when all
    others are done, and if it fails repeatedly, its result is the last error.

    Examples:
        >>> sorted(map_any_order(abs, [-1, 2, -3], workers=2))
        [(-3, 3), (-1, 1), (2, 2)]
    """
    named = ((item, item) for item in items)
    with closing(TaskPool(work, lambda: next(named, None), workers, executor)) as pool:
        yield from pool.results()


def _local_executor(n: int) -> Callable[[], Executor]:
    return _InlineExecutor if n == 1 else lambda: ThreadPoolExecutor(n)


class _InlineExecutor(Executor):
    """An executor that runs each job in `submit`, so that Ctrl-C interrupts the job itself."""

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> "Future[Any]":
        """Call a function in the current thread."""
        future: Future[Any] = Future()
        try:
            future.set_result(work(*given, **named))
        except KeyboardInterrupt:  # Checked first: `Interrupted` is also an Exception.
            raise
        except Exception as error:
            future.set_exception(error)
        return future


class Processes(Executor):
    """An executor with processes on this machine.

    Unlike the processes of `multiprocessing`, these do not import the main program, which need not
    be a module. All processes are started immediately, so that they are ready when jobs arrive. If
    a process is lost, its job fails, and a new process replaces it.

    Args:
        n: The number of processes.
        module: The module that each process imports at its start.

    Examples:
        >>> with Processes(2) as pool:
        ...     list(pool.map(abs, [-1, 2]))
        [1, 2]
    """

    def __init__(self, n: int, module: str = "builtins") -> None:
        self._threads = ThreadPoolExecutor(n)
        self._module = module
        self._children = [_start_process(module) for _ in range(n)]
        # None stands for a process that was lost.
        self._free: SimpleQueue[Any] = SimpleQueue()
        for child in self._children:
            self._free.put(child)

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> "Future[Any]":
        """Call a function in one of the processes."""
        return self._threads.submit(self._call, work, given, named)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes when all jobs are done, or immediately if jobs are cancelled."""
        if cancel_futures:
            for child in self._children:
                child.kill()
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        for child in self._children:
            # A process that was lost may not have read all of its input.
            with suppress(OSError):
                child.stdin.close()
            child.stdout.close()
            child.wait()

    def _call(self, work: Callable[..., Any], given: Any, named: Any) -> Any:
        # Pickle first, so that an error occurs before part of the job is sent.
        question = pickle.dumps((work, given, named))
        child = self._free.get()
        if child is None:
            child = _start_process(self._module)
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


def _start_process(module: str) -> Any:
    import subprocess  # Imported here, because few programs need it.

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
        # Ctrl-C must reach only the parent process.
        start_new_session=True,
    )


def serve() -> None:
    """Call the functions that the parent process requests, until it closes its end or dies."""
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # Output that a function prints must not be mixed with the answers.
    os.dup2(2, 1)
    asked: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        with suppress(OSError, EOFError, pickle.UnpicklingError):
            while True:
                asked.put(pickle.load(questions))
        # Exit immediately: the current job could take long, and its result is not needed.
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
    """An executor for the workers of a Dask scheduler, which replaces lost workers itself."""

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
        """Return the number of concurrent jobs of the cluster."""
        return sum(self._client.nthreads().values())

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> "Future[Any]":
        """Call a function on a worker of the cluster."""
        future: Future[Any] = self._pool.submit(work, *given, **named)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Disconnect from the cluster, which keeps running."""
        # With a cluster without workers this would wait for ever.
        self._pool.shutdown(wait=wait and not cancel_futures)
        self._client.close()
