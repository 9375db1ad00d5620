"""Two threads instead of one: how many times as fast, in wall-clock time, the best of nine.

Counted and stored, on the square [-3, 3]^2; what is found does not depend on the threads.
"""

import time
from typing import Any

from benchmarks.bench_fresh import SQUARE
from benchmarks.random_networks import gaussian
from hardmax.regions.engines import enumerate_regions

N_RUNS = 9


def seconds(model: Any, workers: int, **options: Any) -> float:
    """Return the wall-clock time of one search."""
    start = time.perf_counter()
    enumerate_regions(model, SQUARE, workers=workers, **options)
    return time.perf_counter() - start


def main() -> None:
    for widths in [10] * 8, [16] * 16, [64] * 3, [128] * 3, [128] * 4:
        model = gaussian(3, 2, *widths).model
        n_cells = len(enumerate_regions(model, SQUARE, count_only=True))
        row = f"2->[{widths[0]}] x {len(widths):<3}{n_cells:>9,} cells"
        for name, options in (("counted", {"count_only": True}), ("stored", {})):
            # Taken in turns: the machine may become slower on the way.
            times = [[seconds(model, n, **options) for n in (1, 2)] for _ in range(N_RUNS)]
            one, two = (1e3 * min(column) for column in zip(*times, strict=True))
            row += f"   {name} {one:7.1f} ms, {two:7.1f} with two: {one / two:.2f}"
        print(row, flush=True)


if __name__ == "__main__":
    main()
