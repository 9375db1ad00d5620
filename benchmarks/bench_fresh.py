"""A new model each time, from arrays to the count: what sweeps and training curves pay.

CPU microseconds of the thread for a cell (idle threads of OpenBLAS spin for a while), medians over
seeds: the model object is built, its cells on [-3, 3]^2 are counted or stored, and both are thrown
away; the least time of many such rounds, as the other programs report theirs. With
`--beside=PROGRAM` another program is run on the same networks, and the ratio is printed: it is
called as `PROGRAM NETWORK 3`, where the file NETWORK has the number of layers, then for each layer
`rows columns`, the weights (in, out) and the bias as a last row; it answers with one line of JSON,
`{"cells": ..., "seconds": ...}`, the output layer not counted. With `--syrenn=PROGRAM` (see
`drive_syrenn.cc`) SyReNN's time for the same, set-up included, is divided by that of storing the
cells with their maps.
"""

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.peer_programs import syrenn
from benchmarks.random_networks import Weights, gaussian
from hardmax.geometry.domains import Box
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition

SQUARE = Box([-3.0, -3.0], [3.0, 3.0])
WIDTHS = [16] * 2, [32] * 3, [10] * 8, [16] * 16, [64] * 3, [128] * 3


def transformer_arrays(seed: int, depth: int) -> list[list[np.ndarray[Any, Any]]]:
    """Draw the arrays of blocks with d = 2, N = 8, H = 2, d_ff = 16."""
    draw = np.random.default_rng(seed).normal
    shapes = [(2, 2), (8, 2), (8, 2), (2, 2), (2,)] * 2 + [(2, 16), (16,), (16, 2), (2,)]
    return [[draw(size=shape) for shape in shapes] for _ in range(depth)]


def built_transformer(arrays: list[list[np.ndarray[Any, Any]]]) -> HardTransformer:
    blocks = []
    for drawn in arrays:
        heads = [AttentionHead(*drawn[i : i + 4], query_bias=drawn[i + 4]) for i in (0, 5)]
        blocks.append(Block(heads, FeedForward(*drawn[10:])))
    return HardTransformer(blocks)


def rates(build: Callable[[int], Callable[[], Any]], seeds: range) -> tuple[float, float, int]:
    """Return microseconds for a cell counted and stored, and the cells of all models."""
    counted, stored, total = [], [], 0
    for seed in seeds:
        make = build(seed)
        for spent, options in ((counted, {"count_only": True}), (stored, {})):
            n_cells, seconds = quickest(
                lambda o=options, m=make: enumerate_regions(m(), SQUARE, **o)
            )
            spent.append(1e6 * seconds / n_cells)
        total += n_cells
    return median(counted), median(stored), total


def quickest(search: Callable[[], Partition]) -> tuple[int, float]:
    """Return the cells of a search and its CPU seconds, the least of what fits into 0.1 s."""
    best, total = float("inf"), 0.0
    while total < 0.1:
        began = time.thread_time()
        n_cells = len(search())
        seconds = time.thread_time() - began
        best, total = min(best, seconds), total + seconds
    return n_cells, best


def beside(program: str, drawn: Weights) -> float:
    """Return the microseconds for a cell of another program."""
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


def syrenn_time(program: str, drawn: Weights) -> float:
    """Return SyReNN's microseconds for a cell, set-up included."""
    (found,) = syrenn(program, drawn, [np.array([[-3.0, -3.0], [3, -3], [3, 3], [-3, 3]])], 0.05)
    if not found.cells:
        raise SystemExit(f"SyReNN: {found.remark}")
    return 1e6 * (found.seconds + found.setup) / found.cells


def main() -> None:
    parser = argparse.ArgumentParser(prog="fresh")
    parser.add_argument("--beside", default="")
    parser.add_argument("--syrenn", default="")
    parser.add_argument("--seeds", type=int, default=40)
    chosen, _ = parser.parse_known_args()
    seeds = range(chosen.seeds)
    enumerate_regions(gaussian(0, 2, 4).model, SQUARE)
    print(f"{'model':18}{'cells':>9}{'counted':>10}{'stored':>9}   us for a cell")
    for widths in WIDTHS:

        def network(seed: int, widths: list[int] = widths) -> Callable[[], ReluNetwork]:
            drawn = gaussian(seed, 2, *widths)
            return lambda: drawn.model

        counted, stored, total = rates(network, seeds)
        row = f"2->[{widths[0]}] x {len(widths):<9}{total:>9,}{counted:>10.3f}{stored:>9.3f}"
        if chosen.beside:
            other = median(beside(chosen.beside, gaussian(seed, 2, *widths)) for seed in seeds)
            row += f"   counted {counted / other:.2f} times the other program ({other:.3f})"
        if chosen.syrenn:
            theirs = median(
                syrenn_time(chosen.syrenn, gaussian(seed, 2, *widths)) for seed in seeds
            )
            row += f"   {theirs / stored:.2f} times as fast as SyReNN ({theirs:.3f})"
        print(row, flush=True)
    for depth in (2, 3):

        def blocks(seed: int, depth: int = depth) -> Callable[[], HardTransformer]:
            arrays = transformer_arrays(seed, depth)
            return lambda: built_transformer(arrays)

        counted, stored, total = rates(blocks, seeds)
        print(f"transformer, {depth}    {total:>9,}{counted:>10.3f}{stored:>9.3f}", flush=True)


if __name__ == "__main__":
    main()
