"""Searches that are stored in a folder, and can be stopped at any moment and resumed.

The whole search is one task. A worker takes a task and a budget, and returns the cells it found and
the tasks that are left. The cells become a shard, the remaining tasks replace the worker's task,
and both become valid in one step, when the manifest is updated. The folder therefore always
contains a search that was stopped early and can be resumed with any number and kind of workers.
Each cell is in exactly one shard.

For each shard, the manifest records the task whose first cells the shard contains. A damaged shard
therefore becomes a task again, with a quota: the number of cells to find.
"""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from math import inf, isnan
from pathlib import Path
from typing import NamedTuple

from hardmax._ground.deadlines import TimeLimitReached, deadline_within
from hardmax._ground.interrupts import defer_interrupts
from hardmax._ground.progress import track
from hardmax._ground.records import fingerprint
from hardmax._ground.workers import TaskPool, Workers
from hardmax.errors import ArgumentError, Interrupted, TaskError
from hardmax.geometry.domain_text import domain_text
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.storage import model_bytes
from hardmax.regions._search.explored import explored_text
from hardmax.regions._stores.jobs import Job, Outcome, advance
from hardmax.regions._stores.manifests import (
    LOG,
    MANIFEST,
    Manifest,
    ManifestLog,
    Shard,
    Step,
    clear_unfinished,
    explain_write_errors,
    lock_folder,
    read_manifest,
    recover_shards,
    write_model,
)
from hardmax.regions._stores.tasks import read_stack
from hardmax.regions.charted_domains import ChartedDomain, as_domain

LONG_S, SHORT_S, BRIEF_S = 2.0, 0.5, 0.1
"""Durations of jobs. Jobs are short if few tasks are left, so that there are more tasks to share,
and brief if there are fewer tasks than workers."""
LONG_BYTES, SHORT_BYTES = 1 << 25, 1 << 23
"""Memory limits for the cells of a long job and of a short one."""

Show = Callable[[int, Callable[[], str]], None]
"""Receives the number of new cells, and a function that returns a text to show with it."""


class _Pending(NamedTuple):
    """A task to search, its share of the volume, and its quota.

    The quota is the number of cells to find, starting with the first; None for all.
    """

    task: bytes
    share: float | None
    quota: int | None

    def size(self) -> float:
        """Return the share of the volume; infinity if it is unknown."""
        return inf if self.share is None else self.share


def search_into(
    folder: str | os.PathLike[str],
    network: ArgmaxNetwork,
    where: ChartedDomain,
    engine: str,
    *,
    count_only: bool = False,
    max_seconds: float | None = None,
    workers: int = 1,
    executor: Workers | None = None,
) -> None:
    """Search a domain into a folder, or resume the search in the folder.

    Args:
        folder: The folder.
        network: The network.
        where: The domain.
        engine: `"planar"` or `"spatial"`.
        count_only: Whether to count without storing any cell.
        max_seconds: Stop after about this time. Repeat the call to resume the search.
        workers: The number of concurrent jobs.
        executor: Where the jobs run; by default, in threads of this process.

    Raises:
        ArgumentError: If the folder cannot be written to or contains a different search, or if the
            executor breaks and the caller did not pass a function that creates a new one.
        RecordFormatError: If the manifest, the log, or a shard in an old format is damaged.
        TaskError: If a task fails repeatedly (all other tasks have then been searched), or if the
            executor is a cluster that has no workers and does not get any.
        Interrupted: On Ctrl-C. The folder then contains the cells found so far.
    """
    path = Path(folder)
    wanted = Manifest(fingerprint(network), domain_text(as_domain(where)), engine, bool(count_only))
    with lock_folder(path):
        manifest = wanted
        if (path / MANIFEST).exists():
            found = read_manifest(path)
            _refuse_another(path, found, wanted)
            try:
                manifest = recover_shards(path, found, workers)
            except TimeLimitReached:
                return
        if manifest.is_complete:
            # A process that was killed at the very end may have left a log and unfinished files.
            with suppress(OSError):
                write_model(path, model_bytes(network))
                if (path / LOG).exists():
                    ManifestLog(path, manifest)
                clear_unfinished(path)
            return
        deadline = deadline_within(max_seconds)
        with explain_write_errors(path):
            log = ManifestLog(path, manifest)
            model = model_bytes(network)
            write_model(path, model)
            clear_unfinished(path)
        search = _StoredSearch(log, network, model, where.dim, workers, deadline)
        with closing(log), track(iter(()), "cells") as bar:
            search.work(executor or (lambda: ThreadPoolExecutor(workers)), bar.advance)


def _refuse_another(path: Path, found: Manifest, wanted: Manifest) -> None:
    for name in ("model", "domain", "engine", "count_only"):
        if getattr(found, name) != getattr(wanted, name):
            raise ArgumentError(
                f"`store` already contains a search with a different `{name}`: {path}. Choose a "
                "new folder, or repeat the earlier call to resume that search."
            )


def _list_pending(of: Manifest | Step) -> list[_Pending]:
    return list(map(_Pending, of.tasks, of.shares, of.quotas))


class _StoredSearch:
    """The waiting tasks, the tasks in progress, and the manifest."""

    def __init__(
        self,
        log: ManifestLog,
        network: ArgmaxNetwork,
        model: bytes,
        dim: int,
        workers: int,
        deadline: float,
    ) -> None:
        self.log = log
        self._network, self._dim, self._workers = network, dim, workers
        self._deadline = deadline
        self._model = model
        self._waiting = _list_pending(log.manifest)
        self._in_progress: list[_Pending] = []
        self._failed: list[tuple[_Pending, Exception]] = []

    def work(self, executor: Workers, show: Show) -> None:
        """Search until nothing is left or time is up."""
        # One job more than there are workers, so that no worker waits while a shard is written. Not
        # with a time limit, because the extra job would start late.
        n_jobs = self._workers + (self._workers > 1 and self._deadline == inf)
        # An interrupt while an outcome is recorded would lose it.
        with (
            defer_interrupts() as interrupt,
            closing(
                TaskPool(advance, self._next_job, self._workers, executor, n_jobs, self._is_over)
            ) as pool,
        ):
            try:
                self._collect(pool.results(interrupt), show)
            except KeyboardInterrupt:
                with defer_interrupts(deliver=False), suppress(Exception):
                    self._collect(pool.last_results(), show)
                raise Interrupted("the search was interrupted; `store` has the cells") from None
            except TaskError:
                # There are no workers. If time is up, that is not an error.
                if not self._is_over():
                    raise
        if self._failed:
            raise TaskError(self._failures())

    def _seconds_left(self) -> float:
        return self._deadline - time.monotonic()

    def _is_over(self) -> bool:
        return self._seconds_left() <= 0.0

    def _next_job(self) -> tuple[_Pending, Job] | None:
        """Return the largest task as a job, so that small tasks remain for the end."""
        seconds_left = self._seconds_left()
        if not self._waiting or seconds_left <= 0.0:
            return None
        pending = max(self._waiting, key=_Pending.size)
        self._waiting.remove(pending)
        n_like = sum(
            other.size() >= pending.size() / 4 for other in (*self._waiting, *self._in_progress)
        )
        is_short = self._workers > 1 and n_like < 2 * self._workers
        is_brief = n_like < self._workers
        self._in_progress.append(pending)
        manifest = self.log.manifest
        return pending, Job(
            self._model,
            manifest.domain,
            manifest.engine,
            pending.task,
            manifest.count_only,
            min((BRIEF_S if is_brief else SHORT_S) if is_short else LONG_S, seconds_left),
            SHORT_BYTES if is_short else LONG_BYTES,
            is_short,
            -1 if pending.quota is None else pending.quota,
            seconds_left,
        )

    def _collect(self, answers: Iterator[tuple[_Pending, Outcome | Exception]], show: Show) -> None:
        """Record the outcomes of jobs."""
        for pending, outcome in answers:
            self._in_progress.remove(pending)
            if isinstance(outcome, Exception):
                self._failed.append((pending, outcome))
                continue
            self._record_outcome(pending, outcome)
            show(outcome.n_cells, self._describe_progress)

    def _describe_progress(self) -> str:
        return explored_text(1.0 - self.log.manifest.explored_share, 1.0)

    def _record_outcome(self, pending: _Pending, outcome: Outcome) -> None:
        log = self.log
        with explain_write_errors(log.folder):
            shards: tuple[Shard, ...] = ()
            if outcome.shard:
                shards = (log.new_shard(outcome.shard, outcome.n_cells, outcome.first),)
            step = Step(
                _list_pending(log.manifest).index(pending),
                outcome.left[::-1],
                tuple(None if isnan(share) else share for share in outcome.shares[::-1]),
                shards,
                outcome.n_cells,
                outcome.decisions,
                outcome.has_means,
                tuple(
                    None if pending.quota is None else pending.quota - outcome.n_cells
                    for _ in outcome.left
                ),
            )
            log.add(step)
        self._waiting += _list_pending(step)

    def _failures(self) -> str:
        lines = []
        for pending, error in self._failed:
            place = "the whole domain"
            if pending.task:
                top = read_stack(pending.task, self._network, self._dim)[-1]
                n_known = sum(layer.n_groups for layer in self._network.layers[: top.layer])
                title = self._network.words[top.layer].title
                place = f"{title}, after the winners {top.signature[:n_known].tolist()}"
            lines.append(f"In {place}: {type(error).__name__}: {error!s:.300}")
        return (
            f"{len(lines)} part{'s' * (len(lines) != 1)} of the search failed repeatedly; all "
            f"other parts are done. Repeat the call to retry. {'; '.join(lines)}"
        )
