"""Searches that are kept in a folder, and may be ended at any moment and gone on with.

The whole search is one task. A worker takes a task and a budget, and returns the cells it found and
the tasks it did not get to. The cells become a shard, the tasks take the place of the one it was
given, and both count as soon as the manifest says so. So whatever is in the folder is a search that
was stopped early, and goes on with any number of workers of any kind; each cell is in one shard.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import closing, suppress
from math import inf, isnan
from pathlib import Path
from typing import Any, NamedTuple

from hardmax._ground.interrupts import held_interrupts
from hardmax._ground.progress import track
from hardmax._ground.records import fingerprint
from hardmax._ground.workers import Workers, executor_maker
from hardmax.errors import ArgumentError, Interrupted, TaskError
from hardmax.geometry.domain_text import domain_text
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.storage import model_bytes, save_model
from hardmax.regions._search.explored import explored_text
from hardmax.regions._stores.jobs import Job, Outcome, advance
from hardmax.regions._stores.manifests import (
    LOG,
    MANIFEST,
    MODEL,
    Manifest,
    ManifestLog,
    Shard,
    Step,
    held,
    read_manifest,
    writing,
)
from hardmax.regions._stores.tasks import read_stack
from hardmax.regions.charted_domains import ChartedDomain, as_domain

LONG_S, SHORT_S = 2.0, 0.5
"""How long a job takes: where few tasks are left it is short, so that there are some to share."""
LONG_BYTES, SHORT_BYTES = 1 << 25, 1 << 23
"""What the cells of a job may take in memory."""
_MOST_TRIES = 3
_PAUSE_S = 0.5

Show = Callable[[int, Callable[[], str]], None]
"""Told how many cells more there are, and what else could be said."""


class _Pending(NamedTuple):
    """A task that is to be searched, its share of the volume, and how often that has failed."""

    task: bytes
    share: float | None
    n_failed: int = 0
    reason: str = ""

    def size(self) -> float:
        """Its share of the volume, or more than any if that is not known."""
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
    """Search a domain into a folder, or go on with a search that is there.

    Args:
        folder: The folder.
        network: The network.
        where: The domain.
        engine: `"planar"` or `"spatial"`.
        count_only: Whether to count without storing any cell.
        max_seconds: Stop after about so many seconds; the same call goes on from there.
        workers: How many jobs are under way at once.
        executor: Who does them; threads of this process by default.

    Raises:
        ArgumentError: If the folder cannot be written, or holds another search; if the executor
            breaks, and it was not said how to make another one.
        RecordFormatError: If its manifest is damaged.
        TaskError: If a task fails again and again; all others have been searched.
        Interrupted: On Ctrl-C; the folder has what was found.
    """
    path = Path(folder)
    wanted = Manifest(fingerprint(network), domain_text(as_domain(where)), engine, bool(count_only))
    with held(path):
        if (path / MANIFEST).exists():
            manifest = read_manifest(path)
            _refuse_another(path, manifest, wanted)
        else:
            manifest = wanted
            with writing(path):
                save_model(network, path / MODEL)
                manifest.write(path)
        if manifest.is_complete:
            if (path / LOG).exists():
                # A process that was killed at its very end has left it, and it says the same.
                with suppress(OSError):
                    ManifestLog(path, manifest)
            return
        deadline = None if max_seconds is None else time.monotonic() + max_seconds
        with writing(path):
            log = ManifestLog(path, manifest)
        team = _Team(log, network, where.dim, workers)
        with closing(log), track(iter(()), "cells") as bar:
            make = executor_maker(executor or (lambda: ThreadPoolExecutor(workers)), workers)
            team.work(make, deadline, bar.advance, isinstance(executor, Executor))


def _refuse_another(path: Path, found: Manifest, wanted: Manifest) -> None:
    for name in ("model", "domain", "engine", "count_only"):
        if getattr(found, name) != getattr(wanted, name):
            raise ArgumentError(
                f"`store` must be a new folder, or hold this search; {path} has one with another "
                f"`{name}`."
            )


class _Team:
    """Tasks that wait, jobs that are under way, and the manifest."""

    def __init__(self, log: ManifestLog, network: ArgmaxNetwork, dim: int, workers: int) -> None:
        self.log = log
        self._network, self._dim, self._workers = network, dim, workers
        self._model = model_bytes(network)
        self._waiting = [*map(_Pending, log.manifest.tasks, log.manifest.shares)]
        self._under_way: dict[Future[Outcome], _Pending] = {}
        self._given_up: list[_Pending] = []

    def work(
        self,
        make: Callable[[], Executor],
        deadline: float | None,
        show: Show,
        is_lent: bool,
    ) -> None:
        """Search until nothing is left, or the time is over; an executor that is lent stays."""
        pool = make()
        try:
            while True:
                is_late = deadline is not None and time.monotonic() >= deadline
                try:
                    if not is_late:
                        self._submit(pool, deadline)
                    if not self._under_way:
                        break
                    done, _ = wait(self._under_way, _PAUSE_S, FIRST_COMPLETED)
                    broken = self._collect(done, show)
                except BrokenExecutor:
                    broken = True
                if broken:
                    self._collect(wait(self._under_way, 4 * LONG_S).done, show)
                    for pending in self._under_way.values():
                        self._blame(pending, "its worker was lost")
                    self._under_way.clear()
                    pool.shutdown(wait=False)
                    pool = make()
        except KeyboardInterrupt:
            with held_interrupts(deliver=False):
                with suppress(Exception):
                    self._collect(wait(self._under_way, 4 * LONG_S).done, show)
                raise Interrupted("the search was interrupted; `store` has what it found") from None
        finally:
            if not is_lent:
                pool.shutdown()
        if self._given_up:
            raise TaskError(self._failures())

    def _submit(self, pool: Executor, deadline: float | None) -> None:
        """Give out tasks; one that has failed alone, so that nobody else is blamed for it."""
        # One more than there are workers, so that none waits while a shard is written, unless it
        # would begin late.
        n_jobs = self._workers + (self._workers > 1 and deadline is None)
        while self._waiting and len(self._under_way) < n_jobs:
            sound = [i for i, one in enumerate(self._waiting) if not one.n_failed]
            is_alone = any(one.n_failed for one in self._under_way.values())
            if is_alone or (not sound and self._under_way):
                return
            # The largest, so that small ones are still there when few are left.
            largest = max(sound, key=lambda i: self._waiting[i].size(), default=0)
            pending = self._waiting.pop(largest)
            others = *self._waiting, *self._under_way.values()
            n_like = sum(other.size() >= pending.size() / 4 for other in others)
            is_short = self._workers > 1 and n_like < 2 * self._workers
            seconds = SHORT_S if is_short else LONG_S
            if deadline is not None:
                seconds = min(seconds, max(0.0, deadline - time.monotonic()))
            manifest = self.log.manifest
            job = Job(
                self._model,
                manifest.domain,
                manifest.engine,
                pending.task,
                manifest.count_only,
                seconds,
                SHORT_BYTES if is_short else LONG_BYTES,
                is_short,
            )
            try:
                self._under_way[pool.submit(advance, job)] = pending
            except BaseException:
                self._waiting.append(pending)
                raise

    def _collect(self, done: "set[Future[Outcome]]", show: Show) -> bool:
        """Write down what jobs have found; say whether the executor is broken."""
        is_broken = False
        for future in done:
            error: Any = future.exception() if not future.cancelled() else "it was cancelled"
            if error is not None:
                is_broken = is_broken or isinstance(error, BrokenExecutor)
                self._blame(self._under_way.pop(future), error)
                continue
            # An interrupt in between would lose the job, or search it twice.
            with held_interrupts():
                self._keep(future, future.result())
            show(future.result().n_cells, self._explored)
        return is_broken

    def _explored(self) -> str:
        return explored_text(1.0 - self.log.manifest.explored, 1.0)

    def _blame(self, pending: _Pending, error: Any) -> None:
        reason = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        failed = _Pending(pending.task, pending.share, pending.n_failed + 1, reason)
        (self._waiting if failed.n_failed < _MOST_TRIES else self._given_up).append(failed)

    def _keep(self, future: "Future[Outcome]", outcome: Outcome) -> None:
        log = self.log
        with writing(log.folder):
            shards: tuple[Shard, ...] = ()
            if outcome.shard:
                shards = (log.new_shard(outcome.shard, outcome.n_cells, outcome.first),)
            step = Step(
                log.manifest.tasks.index(self._under_way[future].task),
                outcome.left[::-1],
                tuple(None if isnan(share) else share for share in outcome.shares[::-1]),
                shards,
                outcome.n_cells,
                outcome.decisions,
                outcome.has_means,
            )
            log.add(step)
        self._waiting += map(_Pending, step.tasks, step.shares)
        del self._under_way[future]

    def _failures(self) -> str:
        lines = []
        for pending in self._given_up:
            place = "the whole domain"
            if pending.task:
                top = read_stack(pending.task, self._network, self._dim)[-1]
                n_known = sum(layer.n_groups for layer in self._network.layers[: top.layer])
                place = f"layer {top.layer} after the winners {top.signature[:n_known].tolist()}"
            lines.append(f"at {place}: {pending.reason:.300}")
        return (
            f"{len(lines)} part{'s' * (len(lines) != 1)} of the search failed {_MOST_TRIES} times; "
            f"all others are done, and the same call tries these again. {'; '.join(lines)}"
        )
