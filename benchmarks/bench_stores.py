"""Searches into folders: their cost compared with searches in memory, and their resilience.

With `--full`, one search finds more than 10^8 cells and needs 8 GB of disk space.
`python -m benchmarks.bench_stores` interrupts searches, and checks that the results are bit-for-bit
identical to an uninterrupted search:

- `--kills`: a process that searches with two threads or two processes, in the plane or in space, or
  that makes a certificate in parts, is killed by SIGKILL at random moments, twenty times each, and
  resumed; meanwhile, another process keeps a core busy;
- `--dask`: a scheduler and two workers are started on this machine, and a worker is killed every
  few seconds during the search;
- `--disk`: a disk in memory is filled, enlarged, and made read-only; this requires root.
"""

import logging
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.random_networks import folding_network, gaussian_weights
from benchmarks.tables import Table
from hardmax.errors import HardmaxError
from hardmax.geometry.domains import Box
from hardmax.papers import random_transformer
from hardmax.regions._search import runs
from hardmax.regions._stores import durable
from hardmax.regions._stores.manifests import MANIFEST
from hardmax.regions.cell_arrays import CellArrays
from hardmax.regions.certificate_format import Certificate
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition
from hardmax.regions.stores import open_partition

SQUARE = Box([-1, -1], [1, 1])
NETWORKS = {
    "2->[64] x 3": (2, 64, 64, 64),
    "2->[256] x 3": (2, 256, 256, 256),
    "folding, 4 layers of 12 units": (6, 4),
}
"""The sizes of a Gaussian network, or, if there are two, the arguments of `folding_network`."""
UNIT, LONG_FOLDS, MANY_FOLDS = Box([0, 0], [1, 1]), (8, 4), (11, 4)
N_CORES = 32
KILLS, SOME_FOLDS = 20, (6, 4)
PAUSES, MORE_FOLDS = (1.5, 3.0), (8, 4)
"""Seconds between kills of Dask workers, and the folds and depth of a longer search."""


def _run_search(dims: tuple[int, ...], options: dict, sent: object) -> None:
    is_folded = len(dims) == 2
    model = (folding_network if is_folded else partial(gaussian_weights, 0))(*dims).model
    domain = UNIT if is_folded else SQUARE
    enumerate_regions(model, Box([0, 0], [1e-3, 1e-3]))
    start = time.perf_counter(), time.process_time()
    part = enumerate_regions(model, domain, **options)
    spent = time.perf_counter() - start[0], time.process_time() - start[1], children_seconds()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    n_bytes = 0 if "store" in options else sum(iter_arrays(part.cells))
    sent.send((part.n_found, spent, most, n_bytes))


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def iter_arrays(cells: CellArrays) -> list[int]:
    arrays = cells.signatures, cells.maps, cells.map_radii, cells.vertices, cells.starts
    return [array.nbytes for array in (*arrays, cells.wall_names.codes)]


def measure_cost(
    dims: tuple[int, ...], **options: object
) -> tuple[int, tuple[float, ...], int, int]:
    """Search in a separate process: cells, seconds, peak memory, and bytes of the cells in memory.

    The seconds are wall-clock time, its CPU time, and the CPU time of the processes it started.
    """
    context = multiprocessing.get_context("spawn")
    received, sent = context.Pipe(duplex=False)
    process = context.Process(target=_run_search, args=(dims, options, sent))
    process.start()
    answer = received.recv()
    process.join()
    return answer


WAYS = {
    "in memory": {},
    "in memory, 2 threads": {"workers": 2},
    "store": {},
    "store, 2 threads": {"workers": 2},
    "store, 2 processes": {"workers": 2, "executor": "processes"},
}


def measure_row(network: str, dims: tuple[int, ...], way: str) -> list[object]:
    """Return the cost of a search in memory or into a folder, with one or two workers."""
    with tempfile.TemporaryDirectory() as folder:
        store = {"store": f"{folder}/store"} if way.startswith("store") else {}
        n_cells, spent, most, n_bytes = measure_cost(dims, **WAYS[way], **store)
        n_bytes += sum(file.stat().st_size for file in Path(folder).rglob("*.parquet"))
    times = 1e6 * (spent[1] + spent[2]) / n_cells, n_cells / spent[0]
    return [network, way, n_cells, *times, n_bytes / n_cells, most / 1e6]


def _folding() -> tuple[object, Box]:
    return folding_network(*SOME_FOLDS).model, UNIT


def _attention() -> tuple[object, Box]:
    return random_transformer(np.random.default_rng(0), 48, 4, 64, 8), Box([-3, -3], [3, 3])


def _space() -> tuple[object, Box]:
    return gaussian_weights(0, 3, 96, 96).model, Box([-1] * 3, [1] * 3)


def _certify() -> tuple[object, Box]:
    return folding_network(4, 4).model, UNIT


TRIED = {
    "a folding network, 2 threads": (_folding, 1.5, {"workers": 2}),
    "a transformer, 2 processes": (_attention, 4.0, {"workers": 2, "executor": "processes"}),
    "a network on R^3, 2 threads": (_space, 1.5, {"workers": 2}),
    "a certificate in parts, 2 processes": (_certify, 2.5, {"workers": 2}),
}
"""For each search to kill: the model, the maximum number of seconds before a kill, and options."""


def _search(name: str, folder: str, ready: object) -> None:
    given, _, options = TRIED[name]
    model, domain = given()
    ready.send(True)
    if given is not _certify:
        enumerate_regions(model, domain, store=folder, **options)
    else:
        durable.LONG_BYTES = durable.SHORT_BYTES = 1 << 20
        part = enumerate_regions(model, domain, store=f"{folder}/cells")
        part.save_certificate(f"{folder}/proof", **options)


def _keep_core_busy() -> None:
    while True:
        pass


def kill_searches() -> None:
    """Kill searches repeatedly, resume them, and compare the results."""
    load = multiprocessing.get_context("spawn").Process(target=_keep_core_busy, daemon=True)
    load.start()
    for name in TRIED:
        kill_repeatedly(name)
    load.kill()


def kill_repeatedly(name: str) -> None:
    """Kill one search twenty times; a search that finishes earlier is started again."""
    context, rng = multiprocessing.get_context("spawn"), np.random.default_rng(0)
    given, latest, _ = TRIED[name]
    whole, seen = enumerate_regions(*given()), []
    proof = whole.certificate().to_json() if given is _certify else ""
    while len(seen) < KILLS:
        with tempfile.TemporaryDirectory() as folder:
            cells = folder if given is not _certify else f"{folder}/cells"
            is_killed = True
            while is_killed:
                is_ready, ready = context.Pipe(duplex=False)
                process = context.Process(target=_search, args=(name, folder, ready))
                process.start()
                is_ready.recv()
                # After the last kill, the search runs to its end.
                process.join(rng.uniform(0.0, latest) if len(seen) < KILLS else None)
                is_killed = process.exitcode is None
                if is_killed:
                    os.kill(process.pid, signal.SIGKILL)
                    process.join()
                    n_found = 0
                    if (Path(cells) / MANIFEST).exists():
                        part = open_partition(cells)
                        n_found = part.n_found
                        assert sum(shard.n_found for shard in part.shards()) == n_found
                    seen.append(n_found)
            told = compare(open_partition(cells), whole)
            if proof:
                parts = map(Certificate.load, Path(folder, "proof").glob("*.json"))
                is_same = Certificate.joined(parts).to_json() == proof
                told += f"; its certificate {'too' if is_same else 'DIFFERENT'}"
            done = f"{name}: killed {len(seen)} times so far, with {seen} cells"
            print(f"{done}; at the end {told}", flush=True)


def compare(part: Partition, whole: Partition) -> str:
    columns = [*map(_columns, (part.cells, whole.cells))]
    is_same = all(one.tobytes() == other.tobytes() for one, other in zip(*columns, strict=True))
    return "the same in every bit" if is_same else "DIFFERENT"


def _columns(cells: CellArrays) -> list[np.ndarray]:
    names = "signatures", "maps", "map_radii", "vertices", "starts", "directions", "walls"
    columns = [*(getattr(cells, name) for name in names), *(cells.facets or ())]
    return [column for column in columns if column is not None]


def run_cluster() -> None:
    """Search with a Dask cluster on this machine while its workers are killed."""
    import distributed

    rng, model = np.random.default_rng(0), folding_network(*MORE_FOLDS).model
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
                if len(pids) == 2:
                    os.kill(int(rng.choice(pids)), signal.SIGKILL)
                    n_killed += 1
                    print("killed a worker", flush=True)

        killer = threading.Thread(target=kill)
        killer.start()
        start = time.perf_counter()
        part = enumerate_regions(
            model, UNIT, store=f"{folder}/s", workers=2, executor=local.scheduler_address
        )
        spent = time.perf_counter() - start
        is_over.set()
        killer.join()
        told = compare(part, enumerate_regions(model, UNIT))
    print(f"Dask, {n_killed} workers killed in {spent:.0f} s: {part.n_cells} cells, {told}")


def run_on_full_disk() -> None:
    """Search into a disk that is full, then larger, then read-only."""
    durable.LONG_S, runs._FIRST_BUDGET, runs.SLICE_S = 0.0, 2000, 0.001
    model = gaussian_weights(0, 2, 64, 64, 64).model
    with tempfile.TemporaryDirectory() as folder:

        def mount(*options: str) -> None:
            subprocess.run(["mount", "-t", "tmpfs", "-o", *options, folder], check=True)

        def search(name: str) -> Partition | HardmaxError:
            try:
                return enumerate_regions(model, SQUARE, store=f"{folder}/{name}")
            except HardmaxError as error:
                return error

        mount("size=400k", "tmpfs")
        try:
            print("full:", search("a"))
            part = open_partition(f"{folder}/a")
            n_read = sum(shard.n_found for shard in part.shards())
            print(f"kept: {part.n_cells} cells, of which {n_read} can be read")
            mount("remount,size=50m")
            print("more room:", compare(search("a"), enumerate_regions(model, SQUARE)))
            mount("remount,ro")
            print("read-only:", search("b"))
            print("opened:", open_partition(f"{folder}/a"))
        finally:
            subprocess.run(["umount", folder], check=True)


def tables() -> Iterator[Table]:
    """Yield the cost of searches in memory and into folders."""
    rows = [
        measure_row("" if way != "in memory" else name, dims, way)
        for name, dims in NETWORKS.items()
        for way in WAYS
    ]
    if "--full" in sys.argv:
        rows.append(measure_row("folding, 4 layers of 22 units", MANY_FOLDS, "store"))
    yield Table(
        "Searches in memory and into folders",
        ("network", "search", "cells", "CPU us", "cells/s", "bytes", "MB"),
        rows,
        """CPU microseconds per cell, bytes per cell in memory or on disk, cells per second of
        wall-clock time, and the peak memory of the searching process. Every search runs in a
        separate process; a search into a store also loads pyarrow. Folding networks
        (`benchmarks/random_networks.py`) fold both coordinates of the unit square repeatedly, and
        have narrow layers and many cells.""",
    )
    yield from steady_tables()


def steady_tables() -> Iterator[Table]:
    """Yield the speedup of two workers in a search of about ten seconds, and an extrapolation."""
    found = {}
    for way in ("store", "store, 2 threads", "store, 2 processes"):
        with tempfile.TemporaryDirectory() as folder:
            n_cells, spent, _, _ = measure_cost(LONG_FOLDS, **WAYS[way], store=f"{folder}/store")
            n_bytes = sum(file.stat().st_size for file in Path(folder).rglob("*.parquet"))
        found[way] = n_cells, n_bytes, *spent
    alone = found["store"]
    yield Table(
        "Two workers in a search of about ten seconds",
        ("search", "cells", "CPU us", "calling process", "seconds", "speedup"),
        [
            [
                way,
                n_cells,
                1e6 * (own + others) / n_cells,
                1e6 * own / n_cells,
                seconds,
                alone[2] / seconds,
            ]
            for way, (n_cells, _, seconds, own, others) in found.items()
        ],
        """A search for the cells of a folding network with 4 layers of 16 units, into a folder. The
        table gives CPU microseconds per cell, for all processes and for the calling process, which
        is the only process with one worker or with threads; wall-clock seconds; and the speedup
        over one worker.""",
    )
    n_cells, n_bytes, _, own, _ = found["store, 2 processes"]
    yield cluster_table(
        1e3 * alone[3] / n_cells * 1e6, 1e3 * own / n_cells * 1e6, n_bytes / n_cells
    )


def cluster_table(seconds: float, own: float, gigabytes: float) -> Table:
    """Extrapolate the cost of a search for 10^9 such cells on a cluster.

    Args:
        seconds: The CPU time of the jobs.
        own: The CPU time of the calling process.
        gigabytes: The data sent to the calling process and written by it.
    """
    lasts = max(seconds / N_CORES, own)
    return Table(
        "A billion cells on a cluster, extrapolated",
        ("", ""),
        [
            ("CPU time of the jobs, minutes", seconds / 60),
            ("CPU time of the calling process, seconds", own),
            ("number of cores that it keeps busy", seconds / own),
            (f"time on {N_CORES} cores, seconds", lasts),
            ("number of shards of at most 131 072 cells", int(np.ceil(1e9 / 131_072))),
            ("data sent to the calling process and written by it, GB", gigabytes),
            ("data per second, MB", 1e3 * gigabytes / lasts),
        ],
        """Extrapolated from the previous table, if all cores are like this one, and if network and
        disk keep up. Cells are found faster in this network than in any other. With wider layers,
        jobs take longer per cell, and one process keeps more cores busy.""",
    )


def main() -> None:
    checks = {"--kills": kill_searches, "--dask": run_cluster, "--disk": run_on_full_disk}
    for flag in sys.argv[1:]:
        checks[flag]()


if __name__ == "__main__":
    main()
