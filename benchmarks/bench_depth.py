"""What deep, narrow and degenerate networks cost, and how many signs they leave to integers.

Cost is CPU time for each cell, counted, warm. Bounds on rounding grow with depth, and zeros that
hold whatever the weights hide in them: parallel lines towards infinity, walls of repeated units,
networks without biases. Each row is several networks together, each search stopped at `MOST` cells.
"""

import time
from collections.abc import Callable

import numpy as np

from benchmarks.random_networks import gaussian
from hardmax.geometry.domains import Box, Segment, WholeSpace
from hardmax.models.networks import ReluNetwork
from hardmax.regions.engines import enumerate_regions

MOST, NETWORKS = 20_000, 6
Drawn = Callable[[int], ReluNetwork]


def relu(dim: int, width: int, depth: int, *, bias: float = 0.5, repeats: bool = False) -> Drawn:
    """Draw networks; with `repeats` two of three units are the first one and its opposite."""

    def drawn(seed: int) -> ReluNetwork:
        layers = gaussian(seed, dim, *[width] * depth, bias=bias)
        if not repeats:
            return layers.model
        chosen, signs = np.arange(width) // 3 * 3, np.resize([1.0, 1.0, -1.0], width)
        weights = [weight[:, chosen] * signs for weight in layers.weights[:-1]]
        biases = [one[chosen] * signs for one in layers.biases[:-1]]
        return ReluNetwork([*weights, layers.weights[-1]], [*biases, layers.biases[-1]])

    return drawn


def row(name: str, model: Drawn, domain: object, n_networks: int = NETWORKS) -> None:
    """Print cells, microseconds for each, and signs left to integers."""
    n_cells = n_left = 0
    spent = 0.0
    for seed in range(n_networks):
        network = model(seed)
        # The first search compiles, prepares the network, and is not timed.
        for _ in range(2):
            start = time.process_time()
            found = enumerate_regions(network, domain, count_only=True, max_cells=MOST)
            last = time.process_time() - start
        spent += last
        n_cells += found.n_found
        n_left += found.decisions.rational
    print(f"{name:44}{n_cells:8d}{spent / n_cells * 1e6:10.2f}{n_left:10d}", flush=True)


def main() -> None:
    print(f"{'networks':44}{'cells':>8}{'us':>10}{'integers':>10}")
    square, small = Box([-1, -1], [1, 1]), Box([-0.5, -0.5], [0.5, 0.5])
    for width, depth, box in (
        (16, 32, square),
        (32, 24, square),
        (64, 14, square),
        (256, 8, small),
    ):
        row(f"2->[{width}] x {depth}", relu(2, width, depth), box, 1)
    for dim, width, depth in ((2, 32, 24), (10, 64, 24), (10, 256, 12)):
        line = Segment(-np.ones(dim), np.ones(dim))
        row(f"{dim}->[{width}] x {depth}, a segment", relu(dim, width, depth), line, 1)
    for dim, width, depth in ((2, 6, 8), (2, 16, 16), (3, 6, 6)):
        row(
            f"{dim}->[{width}] x {depth}, all of space",
            relu(dim, width, depth),
            WholeSpace(dim),
        )
    wide = Box([-5, -5], [5, 5])
    for domain, where in ((wide, ""), (WholeSpace(2), ", all of space")):
        row(f"2->[15] x 8, repeated units{where}", relu(2, 15, 8, repeats=True), domain)
        row(f"2->[8] x 8, no biases{where}", relu(2, 8, 8, bias=0.0), domain)


if __name__ == "__main__":
    main()
