"""The cost of deep, narrow and degenerate networks, and the number of signs left to integers.

Bounds on rounding errors grow with depth and hide zeros that hold for all weights: parallel lines
at infinity, walls of repeated units, and networks without biases.
"""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.measuring import cpu_seconds
from benchmarks.random_networks import gaussian_weights
from benchmarks.tables import Table
from hardmax.geometry.domains import Box, Segment, WholeSpace
from hardmax.models.networks import ReluNetwork
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition

MOST, NETWORKS = 20_000, 6
Drawn = Callable[[int], ReluNetwork]


def draw_relu(
    dim: int, width: int, depth: int, *, bias: float = 0.5, repeats: bool = False
) -> Drawn:
    """Draw networks; with `repeats`, two of three units are the first unit and its negative."""

    def draw(seed: int) -> ReluNetwork:
        layers = gaussian_weights(seed, dim, *[width] * depth, bias=bias)
        if not repeats:
            return layers.model
        chosen, signs = np.arange(width) // 3 * 3, np.resize([1.0, 1.0, -1.0], width)
        weights = [weight[:, chosen] * signs for weight in layers.weights[:-1]]
        biases = [one[chosen] * signs for one in layers.biases[:-1]]
        return ReluNetwork([*weights, layers.weights[-1]], [*biases, layers.biases[-1]])

    return draw


def measure(
    name: str, model: Drawn, domain: object, n_networks: int = NETWORKS
) -> tuple[str, int, float, int]:
    """Return the number of cells, microseconds per cell, and signs left to integers."""
    n_cells = n_left = 0
    spent = 0.0
    for seed in range(n_networks):
        network = model(seed)

        def search(network: ReluNetwork = network) -> Partition:
            return enumerate_regions(network, domain, count_only=True, max_cells=MOST)

        # The first search also prepares the network.
        search()
        found, seconds = cpu_seconds(search)
        spent += seconds
        n_cells += found.n_found
        n_left += found.decisions.rational
    return name, n_cells, 1e6 * spent / n_cells, n_left


def tables() -> Iterator[Table]:
    """Yield the cost per cell."""
    rows = []
    square, small = Box([-1, -1], [1, 1]), Box([-0.5, -0.5], [0.5, 0.5])
    for width, depth, box in (
        (16, 32, square),
        (32, 24, square),
        (64, 14, square),
        (256, 8, small),
    ):
        rows.append(measure(f"2->[{width}] x {depth}", draw_relu(2, width, depth), box, 1))
    for dim, width, depth in ((2, 32, 24), (10, 64, 24), (10, 256, 12)):
        line = Segment(-np.ones(dim), np.ones(dim))
        rows.append(
            measure(f"{dim}->[{width}] x {depth}, a segment", draw_relu(dim, width, depth), line, 1)
        )
    for dim, width, depth in ((2, 6, 8), (2, 16, 16), (3, 6, 6)):
        name = f"{dim}->[{width}] x {depth}, all of space"
        rows.append(measure(name, draw_relu(dim, width, depth), WholeSpace(dim)))
    wide = Box([-5, -5], [5, 5])
    for domain, where in ((wide, ""), (WholeSpace(2), ", all of space")):
        repeated = draw_relu(2, 15, 8, repeats=True)
        rows.append(measure(f"2->[15] x 8, repeated units{where}", repeated, domain))
        rows.append(measure(f"2->[8] x 8, no biases{where}", draw_relu(2, 8, 8, bias=0.0), domain))
    yield Table(
        "Deep, narrow and degenerate networks",
        ("networks", "cells", "us per cell", "left to integers"),
        rows,
        f"""CPU microseconds per cell for counting; the model is built in advance. The last column
        is the number of signs that neither floats nor twice their precision decided. At most {MOST}
        cells of each network are counted, in one network for each of the first seven rows and in
        {NETWORKS} networks for each of the others. On the whole space, regions with fewer active
        units than dimensions are unbounded, along directions in which all later forms are bounded.
        A unit with the same weights as another unit, or the opposite weights, shares its wall.
        Without biases, all forms are multiples of a single form where one unit is active. The
        search detects all these cases from the units, without arithmetic.""",
    )
