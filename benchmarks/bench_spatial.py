"""Cells per CPU second in three to five dimensions, stored and counted, and on degenerate models.

The peer in the same run is the split tree, which decides everything in integers.
"""

import time

import numpy as np

from hardmax.geometry.domains import Box, WholeSpace
from hardmax.models.networks import ReluNetwork
from hardmax.regions import spatial, split_tree

N_SEEDS = 10


def gaussian(seed, widths):
    """Draw weights N(0, 2 / fan) and biases N(0, 1/4), rounded to float32."""
    rng = np.random.default_rng(seed)
    weights, biases, fan = [], [], widths[0]
    for width in [*widths[1:], 1]:
        weights.append(rng.normal(0, np.sqrt(2 / fan), (width, fan)).astype(np.float32).T)
        biases.append(rng.normal(0, 0.5, width).astype(np.float32))
        fan = width
    return ReluNetwork(weights, biases).network


def without_biases(seed, widths):
    """Draw Gaussian weights; every wall goes through the origin."""
    rng = np.random.default_rng(seed)
    shapes = zip(widths, [*widths[1:], 1], strict=True)
    return ReluNetwork([rng.normal(size=shape) for shape in shapes]).network


def integer(seed, widths):
    """Draw weights and biases in -3..3."""
    rng = np.random.default_rng(seed)
    weights, biases = [], []
    for fan, width in zip(widths, [*widths[1:], 1], strict=True):
        weights.append(rng.integers(-3, 4, (fan, width)).astype(float))
        biases.append(rng.integers(-3, 4, width).astype(float))
    return ReluNetwork(weights, biases).network


def rate(networks, domain, **options):
    """Return cells per CPU second and how many cells, warm."""
    spatial.explore(networks[0], domain, **options)
    start = time.process_time()
    found = [spatial.explore(network, domain, **options) for network in networks]
    seconds = time.process_time() - start
    parked = sum(cells.decisions.rational for cells in found)
    count = sum(cells.n_counted for cells in found)
    return count / seconds, count, parked / max(1, sum(c.decisions.total for c in found))


def tree_rate(network, domain):
    """Return cells per CPU second of the split tree on at most 100 cells."""
    start = time.process_time()
    found = split_tree.explore(network, domain, count_only=True, max_cells=100)
    return found.cells.n_counted / (time.process_time() - start)


def main():
    """Print the table."""
    titles = "cells", "stored/s", "counted/s", "parked", "tree"
    print(f"{'model':27s} " + " ".join(f"{title:>9s}" for title in titles))
    for name, make, widths, box in (
        ("gaussian 3->[12,12]", gaussian, [3, 12, 12], Box([-5] * 3, [5] * 3)),
        ("gaussian 4->[10,10]", gaussian, [4, 10, 10], Box([-5] * 4, [5] * 4)),
        ("gaussian 5->[8,8]", gaussian, [5, 8, 8], Box([-5] * 5, [5] * 5)),
        ("gaussian 3->[12,12] in R^3", gaussian, [3, 12, 12], WholeSpace(3)),
        ("no biases 3->[16,16]", without_biases, [3, 16, 16], Box([-5] * 3, [5] * 3)),
        ("no biases 4->[10,10]", without_biases, [4, 10, 10], Box([-5] * 4, [5] * 4)),
        ("integer 3->[12,12]", integer, [3, 12, 12], Box([-5] * 3, [5] * 3)),
        ("integer 4->[10,10]", integer, [4, 10, 10], Box([-5] * 4, [5] * 4)),
    ):
        networks = [make(seed, widths) for seed in range(N_SEEDS)]
        stored, count, parked = rate(networks, box)
        counted, _, _ = rate(networks, box, count_only=True)
        ratio = stored / tree_rate(networks[0], box)
        print(f"{name:27s} {count:9d} {stored:9.0f} {counted:9.0f} {parked:9.2%} {ratio:8.0f}x")


if __name__ == "__main__":
    main()
