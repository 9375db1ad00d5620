"""Two threads instead of one: how many times as fast, in wall-clock time."""

import time
from collections.abc import Iterator
from typing import Any

from benchmarks.bench_fresh import SQUARE
from benchmarks.random_networks import gaussian
from benchmarks.tables import Table
from hardmax.regions.engines import enumerate_regions

N_RUNS = 9


def seconds(model: Any, workers: int, **options: Any) -> float:
    """Return the wall-clock time of one search."""
    start = time.perf_counter()
    enumerate_regions(model, SQUARE, workers=workers, **options)
    return time.perf_counter() - start


def tables() -> Iterator[Table]:
    """Yield times with one thread and with two."""
    rows = []
    for widths in [10] * 8, [16] * 16, [64] * 3, [128] * 3, [128] * 4:
        model = gaussian(3, 2, *widths).model
        n_cells = len(enumerate_regions(model, SQUARE, count_only=True))
        row: list[object] = [f"2->[{widths[0]}] x {len(widths)}", n_cells]
        for options in ({"count_only": True}, {}):
            # Taken in turns: the machine may become slower on the way.
            times = [[seconds(model, n, **options) for n in (1, 2)] for _ in range(N_RUNS)]
            one, two = (1e3 * min(column) for column in zip(*times, strict=True))
            row += [one, two, one / two]
        rows.append(row)
    yield Table(
        "Two threads instead of one",
        ("model", "cells", *("counted", "by two", "ratio"), *("stored", "by two", "ratio")),
        rows,
        f"""Milliseconds by the clock on [-3, 3]^2, the best of {N_RUNS}; what is found does not
        depend on the threads. Stored cells that several threads have found are copied into one
        array. A search that is about to end stays with one thread.""",
    )
