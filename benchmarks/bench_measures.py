"""Volumes, interior points, largest balls and location: CPU time per cell or point."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.bench_evaluation import transformer
from benchmarks.measuring import cpu_seconds
from benchmarks.random_networks import gaussian_weights
from benchmarks.tables import Table
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.models.networks import ReluNetwork
from hardmax.regions.engine_cells import wrap_arrays
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition

N_TIMES, N_FEW, N_POINTS = 5, 20, 100_000
QUESTIONS = "volumes", "witnesses", "chebyshev_centres"


def median_cpu_seconds(function: Callable[[], Any]) -> float:
    """Return the median CPU time of some calls."""
    return cpu_seconds(function, N_TIMES)[1]


def bytes_per_cell(part: Partition) -> float:
    """Return the number of bytes stored per cell."""
    cells = part.cells
    arrays = cells.signatures, cells.maps, cells.map_radii, cells.vertices, cells.starts
    walls = () if cells.wall_names is None else (cells.wall_names.codes,)
    more = cells.directions, *walls, *(cells.facets or ())
    return sum(array.nbytes for array in (*arrays, *more) if array is not None) / part.n_found


def call_on_fresh_partition(part: Partition, question: str) -> None:
    """Call a method on a copy of a partition without cached results."""
    found = wrap_arrays(part.engine, part.network, part.domain, part.cells)
    fresh = Partition(part.network, part.domain, found, part.engine)
    getattr(fresh, question)


def exact_volumes(part: Partition, cells: list[int]) -> None:
    """Compute the exact volumes of some cells."""
    for cell in cells:
        assert part.polytope(cell).volume > 0


def without_biases(model: ReluNetwork) -> ReluNetwork:
    """Return a network whose walls all pass through the origin."""
    return ReluNetwork(model.weights)


def tables() -> Iterator[Table]:
    """Yield microseconds per cell."""
    rng = np.random.default_rng(0)
    square = Box([-1, -1], [1, 1])
    cubes = {dim: Box([-1] * dim, [1] * dim) for dim in range(3, 7)}
    cases = [
        ("2->[16, 16]", gaussian_weights(0, 2, 16, 16).model, square),
        ("2->[16, 16], the plane", gaussian_weights(0, 2, 16, 16).model, WholeSpace(2)),
        ("2->[32] x 3", gaussian_weights(0, 2, *[32] * 3).model, square),
        ("2->[64] x 3", gaussian_weights(0, 2, *[64] * 3).model, square),
        ("2->[128] x 3", gaussian_weights(0, 2, *[128] * 3).model, square),
        ("2->[10] x 8", gaussian_weights(0, 2, *[10] * 8).model, square),
        ("2->[16] x 16", gaussian_weights(0, 2, *[16] * 16).model, square),
        ("transformer, 3 blocks", transformer(rng), square),
        ("3->[12, 12]", gaussian_weights(0, 3, 12, 12).model, cubes[3]),
        ("3->[12, 12], all of space", gaussian_weights(0, 3, 12, 12).model, WholeSpace(3)),
        ("4->[8, 8]", gaussian_weights(0, 4, 8, 8).model, cubes[4]),
        ("5->[6, 6]", gaussian_weights(0, 5, 6, 6).model, cubes[5]),
        ("6->[6, 4]", gaussian_weights(0, 6, 6, 4).model, cubes[6]),
        (
            "3->[12, 12] without biases",
            without_biases(gaussian_weights(0, 3, 12, 12).model),
            cubes[3],
        ),
        ("transformer in space, 1 block", transformer(rng, 3, 1), cubes[3]),
    ]
    rows = []
    for name, model, domain in cases:
        part = enumerate_regions(model, domain)
        n = part.n_found
        times = [median_cpu_seconds(partial(enumerate_regions, model, domain)) / n]
        times += [
            median_cpu_seconds(partial(call_on_fresh_partition, part, question)) / n
            for question in QUESTIONS
        ]
        points = rng.uniform(-1, 1, (N_POINTS, part.domain.dim))
        part.locate(points[:1])
        times.append(median_cpu_seconds(partial(part.locate, points)) / N_POINTS)
        few = rng.choice(n, min(n, N_FEW), replace=False).tolist()
        times.append(cpu_seconds(partial(exact_volumes, part, few))[1] / len(few))
        n_open = sum(len(part.found.measure(question).left_open) for question in (1, 2, 4))
        rows.append((name, n, bytes_per_cell(part), *(1e6 * t for t in times), n_open))
    questions = (
        "volumes",
        "witnesses",
        "balls",
        "locate a point",
        "exact volume",
        "left to integers",
    )
    yield Table(
        "Volumes, interior points and largest balls",
        ("model", "cells", "bytes", "stored", *questions),
        rows,
        f"""CPU microseconds per cell, on [-1, 1]^d unless stated otherwise, and bytes stored per
        cell. All quantities are computed with proofs from the recomposed lines or facets of the
        cells. The last column is the number of answers left to integers. The time to locate a point
        is the average over {N_POINTS} points, and the time of an exact volume the average over
        {N_FEW} cells. In three or more dimensions, a volume is a sum over simplices, whose number
        grows with the dimension.""",
    )
