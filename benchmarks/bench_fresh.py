"""A new model each time, from arrays to the count, as in sweeps and training curves.

CPU time is the time of the calling thread, because idle threads of OpenBLAS spin for a while. If
`HARDMAX_CPP` names a program, it is run on the same networks, as `PROGRAM NETWORK 3`. The file
NETWORK has the number of layers and then, for each layer, `rows columns`, the weights (in, out) and
the bias as a last row. The program prints one line of JSON, `{"cells": ..., "seconds": ...}`,
without the output layer. `HARDMAX_SYRENN` names SyReNN, built from `drive_syrenn.cc`.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.peer_programs import run_syrenn
from benchmarks.random_networks import Weights, gaussian_weights
from benchmarks.tables import Table
from hardmax.geometry.domains import Box
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition

SQUARE = Box([-3.0, -3.0], [3.0, 3.0])
N_SEEDS = 40
WIDTHS = [16] * 2, [32] * 3, [10] * 8, [16] * 16, [64] * 3, [128] * 3


def draw_transformer(seed: int, depth: int) -> list[list[np.ndarray[Any, Any]]]:
    """Draw the arrays of blocks with d = 2, N = 8, H = 2, d_ff = 16."""
    draw = np.random.default_rng(seed).normal
    shapes = [(2, 2), (8, 2), (8, 2), (2, 2), (2,)] * 2 + [(2, 16), (16,), (16, 2), (2,)]
    return [[draw(size=shape) for shape in shapes] for _ in range(depth)]


def build_transformer(arrays: list[list[np.ndarray[Any, Any]]]) -> HardTransformer:
    blocks = []
    for drawn in arrays:
        heads = [AttentionHead(*drawn[i : i + 4], query_bias=drawn[i + 4]) for i in (0, 5)]
        blocks.append(Block(heads, FeedForward(*drawn[10:])))
    return HardTransformer(blocks)


def measure_rates(
    build: Callable[[int], Callable[[], Any]], seeds: range
) -> tuple[float, float, int]:
    """Return microseconds per cell for counting and storing, and the total number of cells."""
    counted, stored, total = [], [], 0
    for seed in seeds:
        make = build(seed)
        for spent, options in ((counted, {"count_only": True}), (stored, {})):
            n_cells, seconds = time_search(
                lambda o=options, m=make: enumerate_regions(m(), SQUARE, **o)
            )
            spent.append(1e6 * seconds / n_cells)
        total += n_cells
    return median(counted), median(stored), total


def time_search(search: Callable[[], Partition]) -> tuple[int, float]:
    """Return the number of cells, and the least CPU seconds of the searches within 0.05 s."""
    best, total = float("inf"), 0.0
    while total < 0.05:
        began = time.thread_time()
        n_cells = len(search())
        seconds = time.thread_time() - began
        best, total = min(best, seconds), total + seconds
    return n_cells, best


def time_program(program: str, drawn: Weights) -> float:
    """Return the microseconds per cell of another program."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.txt"
        with path.open("w") as file:
            print(len(drawn.weights), file=file)
            for weight, bias in zip(*drawn, strict=True):
                print(*weight.shape, file=file)
                np.savetxt(file, np.vstack([weight, bias]), fmt="%.17g")
        answer = subprocess.run([program, str(path), "3"], capture_output=True, check=True)
    found = json.loads(answer.stdout)
    return 1e6 * float(found["seconds"]) / int(found["cells"])


def time_syrenn(program: str, drawn: Weights) -> float:
    """Return SyReNN's microseconds per cell, including its set-up."""
    (found,) = run_syrenn(
        program, drawn, [np.array([[-3.0, -3.0], [3, -3], [3, 3], [-3, 3]])], 0.05
    )
    if not found.cells:
        raise SystemExit(f"SyReNN: {found.remark}")
    return 1e6 * (found.seconds + found.setup) / found.cells


def tables() -> Iterator[Table]:
    """Yield microseconds per cell."""
    other, driver = os.environ.get("HARDMAX_CPP"), os.environ.get("HARDMAX_SYRENN")
    seeds = range(N_SEEDS)
    enumerate_regions(gaussian_weights(0, 2, 4).model, SQUARE)
    rows = []
    for widths in WIDTHS:

        def network(seed: int, widths: list[int] = widths) -> Callable[[], ReluNetwork]:
            drawn = gaussian_weights(seed, 2, *widths)
            return lambda: drawn.model

        counted, stored, total = measure_rates(network, seeds)
        row = [f"ReLU 2->[{widths[0]}] x {len(widths)}", total, counted, stored]
        for program, theirs, ours in (
            (other, time_program, counted),
            (driver, time_syrenn, stored),
        ):
            if program:
                spent = median(
                    theirs(program, gaussian_weights(seed, 2, *widths)) for seed in seeds
                )
                row += [spent, spent / ours]
            else:
                row += ["not there", None]
        rows.append(row)
    for depth in (2, 3):

        def blocks(seed: int, depth: int = depth) -> Callable[[], HardTransformer]:
            arrays = draw_transformer(seed, depth)
            return lambda: build_transformer(arrays)

        counted, stored, total = measure_rates(blocks, seeds)
        rows.append([f"transformer, {depth} blocks", total, counted, stored, *[None] * 4])
    others = "plain C++", "C++ / counted", "SyReNN", "SyReNN / stored"
    yield Table(
        "A new model each time",
        ("model", "cells", "counted", "stored", *others),
        rows,
        f"""CPU microseconds per cell, from arrays to the count: the model is built, its cells on
        [-3, 3]^2 are counted or stored, and both are discarded. Each number is the median over
        {N_SEEDS} networks of the minimum over many rounds. The same run measures two other
        programs: a plain C++ search with comparable filters that only counts and whose networks are
        read in advance, and SyReNN's C++ code including its set-up. The ratios divide their times
        by the times of hardmax. The transformers have 8 keys, two heads and 16 units
        in each block.""",
    )
