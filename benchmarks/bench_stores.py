"""Searches into folders: what they cost beside searches in memory, and whether a kill loses a cell.

Cells per second of wall time, bytes for each cell on disk, and the most memory of a process of its
own; with `--full` a network with more than 10^8 cells, of which there must be room for 8 GB on the
disk. The kills: a process that searches with two threads is ended by
SIGKILL at random moments, twenty times, while another one keeps a core busy; then the search is
gone on with, and its cells are compared in every bit with those of a search that nobody stopped.
With `--dask` a scheduler and two workers are started on this machine, and a worker is killed every
few seconds while they search.
"""

import logging
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks.random_networks import folded, gaussian
from hardmax.geometry.domains import Box
from hardmax.regions._stores.manifests import MANIFEST
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition
from hardmax.regions.stores import open_partition

SQUARE = Box([-1, -1], [1, 1])
NETWORKS = [(2, 16, 16), (2, 64, 64, 64), (2, 256, 256, 256)]
UNIT, MANY_FOLDS = Box([0, 0], [1, 1]), (11, 4)
KILLS, KILLED = 20, (2, 256, 256, 256)
PAUSES, SOME_FOLDS = (5.0, 15.0), (6, 4)
"""Seconds between kills of Dask workers: on a busy machine one takes as long to begin."""


def _cost(dims: tuple[int, ...], options: dict, sent: object) -> None:
    model, domain = (gaussian(0, *dims).model, SQUARE) if dims != MANY_FOLDS else folds()
    enumerate_regions(model, Box([0, 0], [1e-3, 1e-3]))
    start = time.perf_counter(), time.process_time()
    n_cells = enumerate_regions(model, domain, **options).n_found
    spent = time.perf_counter() - start[0], time.process_time() - start[1]
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    sent.send((n_cells, spent, most))


def folds() -> tuple[object, Box]:
    return folded(*MANY_FOLDS).model, UNIT


def cost(dims: tuple[int, ...], **options: object) -> tuple[int, tuple[float, float], int]:
    """Search in a process of its own: cells, seconds, CPU seconds, and the most memory it had."""
    context = multiprocessing.get_context("spawn")
    received, sent = context.Pipe(duplex=False)
    process = context.Process(target=_cost, args=(dims, options, sent))
    process.start()
    answer = received.recv()
    process.join()
    return answer


WAYS = {"memory": {}, "store": {}, "store, 2": {"workers": 2}}


def row(dims: tuple[int, ...], *ways: str) -> None:
    """Print what a search costs in memory, and into a folder with one and two workers."""
    for name in ways or WAYS:
        options = WAYS[name]
        with tempfile.TemporaryDirectory() as folder:
            if name != "memory":
                options = {**options, "store": f"{folder}/store"}
            n_cells, spent, most = cost(dims, **options)
            on_disk = sum(file.stat().st_size for file in Path(folder).rglob("*.parquet"))
        print(
            f"{list(dims)!s:24}{name:10}{n_cells:12,}{n_cells / spent[0] / 1e3:10.0f}"
            f"{1e6 * spent[1] / n_cells:10.2f}{on_disk / n_cells:10.0f}{most / 1e6:10.0f}",
            flush=True,
        )


def _search(folder: str) -> None:
    enumerate_regions(gaussian(0, *KILLED).model, SQUARE, store=folder, workers=2)


def _busy() -> None:
    while True:
        pass


def kills() -> None:
    """Kill a search again and again, go on with it, and compare."""
    context, rng = multiprocessing.get_context("spawn"), np.random.default_rng(0)
    model, seen, n_killed = gaussian(0, *KILLED).model, [], 0
    load = context.Process(target=_busy, daemon=True)
    load.start()
    with tempfile.TemporaryDirectory() as folder:
        # The first moments are those of starting Python.
        for _ in range(KILLS):
            process = context.Process(target=_search, args=(folder,))
            process.start()
            time.sleep(rng.uniform(1.0, 3.0))
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            n_killed += process.exitcode == -signal.SIGKILL
            if (Path(folder) / MANIFEST).exists():
                seen.append(open_partition(folder).n_found)
        part = enumerate_regions(model, SQUARE, store=folder)
        whole = enumerate_regions(model, SQUARE)
        told = compared(part, whole)
    load.kill()
    print(f"killed {n_killed} times, with {seen} cells; then {part.n_cells} of {whole.n_cells}:")
    print(told)


def compared(part: Partition, whole: Partition) -> str:
    is_same = all(
        getattr(part.cells, name).tobytes() == getattr(whole.cells, name).tobytes()
        for name in ("signatures", "maps", "map_radii", "vertices", "starts", "walls")
    )
    return "the same in every bit" if is_same else "DIFFERENT"


def cluster() -> None:
    """Search with a Dask cluster on this machine while its workers are killed."""
    import distributed

    rng, model = np.random.default_rng(0), folded(*SOME_FOLDS).model
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as local,
        distributed.Client(local) as client,
        tempfile.TemporaryDirectory() as folder,
    ):
        n_killed, is_over = 0, threading.Event()

        def kill() -> None:
            nonlocal n_killed
            while not is_over.wait(rng.uniform(*PAUSES)):
                pids = sorted(client.run(os.getpid, on_error="ignore").values())
                if pids:
                    os.kill(int(rng.choice(pids)), signal.SIGKILL)
                    n_killed += 1

        killer = threading.Thread(target=kill)
        killer.start()
        start = time.perf_counter()
        part = enumerate_regions(
            model, UNIT, store=f"{folder}/s", workers=2, executor=local.scheduler_address
        )
        spent = time.perf_counter() - start
        is_over.set()
        killer.join()
        told = compared(part, enumerate_regions(model, UNIT))
    print(f"Dask, {n_killed} workers killed in {spent:.0f} s: {part.n_cells} cells, {told}")


def main() -> None:
    names = "cells", "1000/s", "CPU us", "B/cell", "MB"
    print(f"{'network':24}{'search':10}{names[0]:>12}" + "".join(f"{n:>10}" for n in names[1:]))
    if "--dask" in sys.argv:
        cluster()
        return
    if "--full" in sys.argv:
        row(MANY_FOLDS, "store")
        return
    for dims in NETWORKS:
        row(dims)
    kills()


if __name__ == "__main__":
    main()
