"""Neighbours, walls and regions in the plane, beside finding the cells.

CPU microseconds for a cell, medians over seeds: cells stored, then all pairs of neighbours, the
walls between them, and regions. The last columns are the times of finding the cells with their
neighbours, and with their regions, as multiples of finding the cells alone.
"""

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from benchmarks.bench_fresh import WIDTHS, built_transformer, transformer_arrays
from benchmarks.bench_planar import integer_network
from benchmarks.random_networks import gaussian
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.regions.engines import enumerate_regions

SQUARE = Box([-3.0, -3.0], [3.0, 3.0])
N_SEEDS = 9


def families() -> Iterator[tuple[str, Callable[[int], Any], Any]]:
    """Yield names, what makes a model of a seed, and domains."""
    for widths in WIDTHS:
        name = f"ReLU 2->[{widths[0]}] x {len(widths)}"
        yield name, lambda seed, widths=widths: gaussian(seed, 2, *widths).model, SQUARE
    for where, domain in (("a square", SQUARE), ("the plane", WholeSpace(2))):
        for depth in (1, 2, 3):
            name = f"transformer on {where}, blocks: {depth}"
            yield (
                name,
                lambda seed, depth=depth: built_transformer(transformer_arrays(seed, depth)),
                domain,
            )
    yield "integer weights, 2->[16] x 4", lambda seed: integer_network(seed, [16] * 4), SQUARE


def seconds(question: Callable[[], Any]) -> float:
    """Return the CPU time of an answer."""
    began = time.process_time()
    question()
    return time.process_time() - began


def main() -> None:
    for name, make, domain in families():
        rows = []
        for seed in range(N_SEEDS + 1):
            model = make(seed)
            began = time.process_time()
            part = enumerate_regions(model, domain)
            stored = time.process_time() - began
            again = enumerate_regions(model, domain)
            times = (
                stored,
                seconds(lambda part=part: part.neighbours),
                seconds(lambda part=part: part.neighbours.walls),
                seconds(lambda again=again: again.n_regions),
            )
            rows.append((part.n_found, *times))
        # The first one pays for what is loaded.
        kept = rows[1:]
        each = [1e6 * median(row[k] / row[0] for row in kept) for k in range(1, 5)]
        ratios = [median((row[1] + row[k]) / row[1] for row in kept) for k in (2, 4)]
        print(
            f"{name:36s} {sum(row[0] for row in kept):8d} cells; stored {each[0]:6.2f}, "
            f"neighbours {each[1]:6.2f}, walls {each[2]:6.2f}, regions {each[3]:6.2f} us; "
            f"with neighbours {ratios[0]:5.2f}, with regions {ratios[1]:5.2f} times",
            flush=True,
        )


if __name__ == "__main__":
    main()
