"""The wall-clock speedup of two threads over one."""

import time
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from benchmarks.bench_fresh import SQUARE
from benchmarks.random_networks import gaussian_weights
from benchmarks.tables import Table
from hardmax.regions.cell_arrays import CellArrays
from hardmax.regions.engines import enumerate_regions

N_RUNS = 9


WAYS = ({"count_only": True}, {}, {"is_looked_at": True})
NAMES = "counted", "stored", "stored and read"


def time_search(model: Any, workers: int, *, is_looked_at: bool = False, **options: Any) -> float:
    """Return the wall-clock time of one search."""
    start = time.perf_counter()
    part = enumerate_regions(model, SQUARE, workers=workers, **options)
    if is_looked_at:
        for one in fields(CellArrays):
            getattr(part.cells, one.name)
    return time.perf_counter() - start


def tables() -> Iterator[Table]:
    """Yield times with one thread and with two."""
    rows = []
    for widths in [10] * 8, [16] * 16, [64] * 3, [128] * 3, [128] * 4:
        model = gaussian_weights(3, 2, *widths).model
        n_cells = len(enumerate_regions(model, SQUARE, count_only=True))
        row: list[object] = [f"2->[{widths[0]}] x {len(widths)}", n_cells]
        for options in WAYS:
            # Take turns, because the machine may become slower in the meantime.
            times = [[time_search(model, n, **options) for n in (1, 2)] for _ in range(N_RUNS)]
            one, two = (1e3 * min(column) for column in zip(*times, strict=True))
            row += [one, two, one / two]
        rows.append(row)
    yield Table(
        "Two threads instead of one",
        ("model", "cells", *(name for way in NAMES for name in (way, "two threads", "ratio"))),
        rows,
        f"""Wall-clock milliseconds on [-3, 3]^2, as the minimum over {N_RUNS} runs. The results do
        not depend on the number of threads. The cells that several threads have stored are joined,
        and the winners of units are expanded from bits to numbers, when the cells are first read. A
        search that is about to end stays with one thread.""",
    )
