"""What exactness costs: who wins, proven, over a bare float evaluation.

Run with `OPENBLAS_NUM_THREADS=1 python benchmarks/bench_exact.py`: CPU time, best of a few, so the
ratios mean something on a busy machine too; several BLAS threads would be charged for waiting.
"""

import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from hardmax.exact.forms import AffineForms
from hardmax.exact.winners import winners


def cpu_seconds(function: Callable[[], object], repeats: int = 3) -> float:
    """Return the CPU time of the fastest call; the first one warms up and is not counted."""
    function()
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def filter_overhead(console: Console) -> None:
    table = Table(title="The filter over a bare float64 evaluation (random data)")
    for column in ("forms x dim", "points", "winner: ns", "over argmax"):
        table.add_column(column, justify="right")
    rng = np.random.default_rng(0)
    for n_forms, dim in ((16, 2), (64, 2), (64, 8), (64, 64), (512, 64)):
        n_points = 2**21 // n_forms
        forms = AffineForms(rng.normal(size=(n_forms, dim)), rng.normal(size=n_forms))
        points = rng.normal(size=(n_points, dim))
        best = cpu_seconds(lambda f=forms, p=points: winners(f, p))
        bare_best = cpu_seconds(lambda f=forms, p=points: f(p).argmax(axis=1))
        table.add_row(
            f"{n_forms} x {dim}",
            str(n_points),
            f"{1e9 * best / n_points:.0f}",
            f"{best / bare_best:.2f} x",
        )
    console.print(table)


def main() -> None:
    """Print the table."""
    filter_overhead(Console(width=110))


if __name__ == "__main__":
    main()
