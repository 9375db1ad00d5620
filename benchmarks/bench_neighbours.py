"""Neighbours, walls and regions in the plane, compared with the search for the cells."""

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from benchmarks.bench_fresh import WIDTHS, build_transformer, draw_transformer
from benchmarks.bench_planar import integer_network
from benchmarks.measuring import cpu_seconds
from benchmarks.random_networks import gaussian_weights
from benchmarks.tables import Table
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.regions.engines import enumerate_regions

SQUARE = Box([-3.0, -3.0], [3.0, 3.0])
N_SEEDS = 9


def list_families() -> Iterator[tuple[str, Callable[[int], Any], Any]]:
    """Return names, functions that make a model from a seed, and domains."""
    for widths in WIDTHS:
        name = f"ReLU 2->[{widths[0]}] x {len(widths)}"
        yield name, lambda seed, widths=widths: gaussian_weights(seed, 2, *widths).model, SQUARE
    for where, domain in (("a square", SQUARE), ("the plane", WholeSpace(2))):
        for depth in (1, 2, 3):
            name = f"transformer on {where}, blocks: {depth}"
            yield (
                name,
                lambda seed, depth=depth: build_transformer(draw_transformer(seed, depth)),
                domain,
            )
    yield "integer weights, 2->[16] x 4", lambda seed: integer_network(seed, [16] * 4), SQUARE


def tables() -> Iterator[Table]:
    """Yield microseconds per cell."""
    rows = []
    for name, make, domain in list_families():
        found = []
        for seed in range(N_SEEDS + 1):
            model = make(seed)
            part, stored = cpu_seconds(lambda m=model, d=domain: enumerate_regions(m, d))
            again = enumerate_regions(model, domain)
            questions = (
                lambda part=part: part.neighbours,
                lambda part=part: part.neighbours.walls,
                lambda again=again: again.n_regions,
            )
            times = [cpu_seconds(question)[1] for question in questions]
            found.append((part.n_found, stored, *times))
        # The first search also loads modules.
        kept = found[1:]
        each = [1e6 * median(one[k] / one[0] for one in kept) for k in range(1, 5)]
        ratios = [median((one[1] + one[k]) / one[1] for one in kept) for k in (2, 4)]
        rows.append((name, sum(one[0] for one in kept), *each, *ratios))
    columns = "stored", "neighbours", "walls", "regions", "with neighbours", "with regions"
    yield Table(
        "Neighbours and regions in the plane",
        ("model", "cells", *columns),
        rows,
        f"""CPU microseconds per cell, as medians of {N_SEEDS} models, for storing the cells, and
        then for finding all pairs of neighbours, the walls between them, and the regions. The last
        two columns are the times for finding the cells with their neighbours and with their
        regions, relative to finding the cells alone.""",
    )
