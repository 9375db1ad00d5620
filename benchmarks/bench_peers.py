"""Cells of ReLU networks: hardmax beside other programs, on the same networks in one run.

Baselines in numpy (edge subdivision, clipping unit by unit) run in this process. relucent runs, if
it is there, in another environment: `HARDMAX_PEERS` or `--peers` names that interpreter. hardmax
stores polygons or vertices and output maps; edge subdivision finds the skeleton and counts; the
clipping baseline keeps polygons and maps; relucent works on all of space and finds facets. With
`--filter` the cost of the error bounds is measured on a copy of the package without them.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.baselines_clipping import clipped_regions
from benchmarks.baselines_edges import edge_subdivision
from benchmarks.filter_cost import filter_overhead
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.models.networks import ReluNetwork
from hardmax.regions.engines import enumerate_regions
from hardmax.typing import FloatArray

HALF_WIDTH = 5.0
_MOST_RELUCENT = 300
_DRIVER = Path(__file__).with_name("drive_relucent.py")


class Weights(NamedTuple):
    """The layers of a network, the output layer last."""

    weights: list[FloatArray]
    biases: list[FloatArray]

    @property
    def hidden(self) -> tuple[list[FloatArray], list[FloatArray]]:
        """The layers that are counted."""
        return self.weights[:-1], self.biases[:-1]


class Outcome(NamedTuple):
    """What a program found, and the CPU seconds it took; or why it found nothing."""

    cells: int = 0
    seconds: float = 0.0
    remark: str = ""


def gaussian(seed: int, *sizes: int, bias: float = 0.5) -> Weights:
    """Draw weights N(0, 2 / fan-in) and biases N(0, bias^2), rounded to float32."""
    rng = np.random.default_rng(seed)
    weights, biases = [], []
    for fan, width in itertools.pairwise([*sizes, 1]):
        drawn = rng.normal(0, np.sqrt(2 / fan), (width, fan))
        weights.append(drawn.astype(np.float32).astype(np.float64).T)
        biases.append(bias / 0.5 * rng.normal(0, 0.5, width).astype(np.float32).astype(np.float64))
    return Weights(weights, biases)


def integers(seed: int, *sizes: int) -> Weights:
    """Draw weights and biases in -2, ..., 2."""
    rng = np.random.default_rng(seed)
    pairs = list(itertools.pairwise([*sizes, 1]))
    return Weights(
        [rng.integers(-2, 3, pair).astype(np.float64) for pair in pairs],
        [rng.integers(-2, 3, n).astype(np.float64) for _, n in pairs],
    )


def measured(count: Callable[[], int]) -> Outcome:
    """Run something that counts cells a few times, warm; keep the best time."""
    try:
        cells, spent, best = count(), 0.0, np.inf
        while spent < 0.3:
            start = time.process_time()
            count()
            seconds = time.process_time() - start
            spent, best = spent + seconds, min(best, seconds)
    except Exception as error:  # A baseline may fail in any way on degenerate input.
        return Outcome(remark=type(error).__name__)
    return Outcome(cells, best)


def relucent(peer: str | None, net: Weights, most: int) -> Outcome:
    """Count with relucent on all of space, up to `most` cells."""
    if not peer:
        return Outcome(remark="not there")
    named = {f"w{i}": w for i, w in enumerate(net.weights)}
    named |= {f"b{i}": b for i, b in enumerate(net.biases)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.npz"
        np.savez(path, **named)  # type: ignore[arg-type]
        run = subprocess.run(
            [peer, str(_DRIVER), str(path), str(most)],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    lines = run.stdout.strip().splitlines()
    if run.returncode != 0 or not lines:
        return Outcome(remark="did not run")
    answer: dict[str, Any] = json.loads(lines[-1])
    if "error" in answer:
        return Outcome(remark=answer["error"].split(":")[0])
    cells = int(answer["cells"])
    return Outcome(cells, answer["seconds"], "stopped" if cells >= most else "")


def compare(name: str, net: Weights, peer: str | None) -> None:
    """Print a line for each program on one network."""
    model = ReluNetwork(net.weights, net.biases)
    dim = net.weights[0].shape[0]
    box = Box([-HALF_WIDTH] * dim, [HALF_WIDTH] * dim)
    ours = measured(lambda: enumerate_regions(model, box).n_cells)
    space = measured(lambda: enumerate_regions(model, WholeSpace(dim)).n_cells)
    rows = [("hardmax, box", ours, ours), ("hardmax, all of space", space, space)]
    rows.append(
        ("edge subdivision", measured(lambda: edge_subdivision(*net.hidden, HALF_WIDTH)), ours)
    )
    if dim == 2:
        rows.append(("clipping", measured(lambda: clipped_regions(*net.hidden, HALF_WIDTH)), ours))
    most = 10**6 if name == "A" else _MOST_RELUCENT
    rows.append(("relucent, all of space", relucent(peer, net, most), space))
    for program, found, standard in rows:
        if not found.seconds:
            print(f"{name:4}{program:26}{found.remark:>10}")
            continue
        rate = found.cells / found.seconds
        ratio = standard.cells / standard.seconds / rate
        print(
            f"{name:4}{program:26}{found.cells:10d}{found.seconds:12.5f}{rate:12.0f}{ratio:10.1f}"
            f"  {found.remark}"
        )


def who_is_right(name: str, net: Weights, peer: str | None) -> None:
    """Print the counts on a degenerate network, beside that of the all-exact mode."""
    model = ReluNetwork(net.weights, net.biases)
    box = Box([-HALF_WIDTH] * 2, [HALF_WIDTH] * 2)
    truth = enumerate_regions(model, box, exact=True).n_cells
    far = enumerate_regions(model, WholeSpace(2), exact=True).n_cells
    counts = [
        ("hardmax", measured(lambda: enumerate_regions(model, box).n_cells), truth),
        ("edge subdivision", measured(lambda: edge_subdivision(*net.hidden, HALF_WIDTH)), truth),
        ("clipping", measured(lambda: clipped_regions(*net.hidden, HALF_WIDTH)), truth),
        ("relucent", relucent(peer, net, 10**6), far),
    ]
    words = []
    for program, found, right in counts:
        if not found.cells:
            words.append(f"{program}: {found.remark}")
        else:
            verdict = "right" if found.cells == right else "wrong"
            words.append(f"{program}: {found.cells} {verdict}")
    print(f"{name:28}{truth} in the box, {far} in all; " + ", ".join(words))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=os.environ.get("HARDMAX_PEERS"))
    parser.add_argument("--filter", action="store_true", help="measure the cost of the bounds")
    parser.add_argument("--full", action="store_true", help="the same, for all benchmarks at once")
    chosen = parser.parse_args()
    if not chosen.peers:
        print("relucent is left out: set HARDMAX_PEERS to the interpreter of its environment.")
    head = f"{'':4}{'program':26}{'cells':>10}{'CPU s':>12}{'cells/s':>12}{'ratio':>10}"
    print(head)
    networks = {
        "A": gaussian(65, 2, 16, 16),
        "B": gaussian(66, 2, 32, 32, 32),
        "C": gaussian(67, 3, 12, 12),
        "D": gaussian(68, 2, 64, 64, 64),
        "G": gaussian(71, 4, 10, 10),
    }
    for name, net in networks.items():
        compare(name, net, chosen.peers)
    print()
    who_is_right("A without biases", gaussian(65, 2, 16, 16, bias=0.0), chosen.peers)
    for seed in range(3):
        who_is_right(f"integers, 2->[8, 8], {seed}", integers(seed, 2, 8, 8), chosen.peers)
    if chosen.filter or chosen.full:
        print()
        for name, share in filter_overhead(sys.executable).items():
            print(f"{name:20} the search takes {share:.2f} times as long as without error bounds")


if __name__ == "__main__":
    main()
