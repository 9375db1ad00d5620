"""Cells per CPU second in three to five dimensions, including degenerate models.

The reference in the same run is the split tree, which decides everything in integers.
"""

import statistics
from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.measuring import cpu_seconds
from benchmarks.tables import Table
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions._tree import split_tree
from hardmax.regions.engines import enumerate_regions

N_SEEDS = 10
N_RUNS = 9
LEAST_SECONDS = 1.5
"""Minimum number of rounds and minimum number of seconds for the searches of each model."""


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
    """Draw Gaussian weights; every wall passes through the origin."""
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


def transformer(seed, widths, n_heads=1, n_blocks=1):
    """Draw blocks of heads with Gaussian keys and a feed-forward layer: walls with jumps."""
    rng = np.random.default_rng(seed)
    dim, n_keys, d_ff = widths

    def draw(*shape):
        return rng.normal(size=shape)

    def head():
        return AttentionHead(draw(dim, dim), draw(n_keys, dim), draw(n_keys, dim), draw(dim, dim))

    def block():
        heads = [head() for _ in range(n_heads)]
        return Block(heads, FeedForward(draw(dim, d_ff), draw(d_ff), draw(d_ff, dim), None))

    return HardTransformer([block() for _ in range(n_blocks)]).network


two_heads = partial(transformer, n_heads=2)
two_blocks = partial(transformer, n_blocks=2)


def measure_rates(networks, domain):
    """Return the rates for counting, storing, and storing with neighbours.

    The three tasks take turns, so that a temporary slowdown of the machine affects all of them.

    Returns:
        The rates, the number of cells, and the share of signs left to integers.
    """

    def find_neighbours():
        found = store()
        for part in found:
            _ = part.neighbours.walls
        return found

    def store(**options):
        return [enumerate_regions(network, domain, **options) for network in networks]

    tasks = partial(store, count_only=True), store, find_neighbours
    found = [ask() for ask in tasks][1]
    times = [[], [], []]
    spent = 0.0
    while len(times[0]) < N_RUNS or spent < LEAST_SECONDS:
        for ask, taken in zip(tasks, times, strict=True):
            _, seconds = cpu_seconds(ask)
            taken.append(seconds)
            spent += seconds
    count = sum(part.n_cells for part in found)
    parked = sum(part.decisions.rational for part in found)
    share = parked / max(1, sum(part.decisions.total for part in found))
    return [count / statistics.median(taken) for taken in times], count, share


def measure_tree_rate(network, domain):
    """Return cells per CPU second of the split tree on at most 100 cells."""
    split_tree.explore(network, domain, count_only=True, max_cells=1)
    found, seconds = cpu_seconds(
        lambda: split_tree.explore(network, domain, count_only=True, max_cells=100)
    )
    return found.cells.n_counted / seconds


def tables() -> Iterator[Table]:
    """Yield rates."""
    rows = []
    for name, make, widths, box in (
        ("ReLU 3->[12, 12]", gaussian, [3, 12, 12], Box([-5] * 3, [5] * 3)),
        ("ReLU 4->[10, 10]", gaussian, [4, 10, 10], Box([-5] * 4, [5] * 4)),
        ("ReLU 5->[8, 8]", gaussian, [5, 8, 8], Box([-5] * 5, [5] * 5)),
        ("ReLU 3->[12, 12] on R^3", gaussian, [3, 12, 12], WholeSpace(3)),
        ("no biases, 3->[16, 16]", without_biases, [3, 16, 16], Box([-5] * 3, [5] * 3)),
        ("no biases, 4->[10, 10]", without_biases, [4, 10, 10], Box([-5] * 4, [5] * 4)),
        ("integers, 3->[12, 12]", integer, [3, 12, 12], Box([-5] * 3, [5] * 3)),
        ("integers, 4->[10, 10]", integer, [4, 10, 10], Box([-5] * 4, [5] * 4)),
        ("head of 4 keys and 4 units, 3-D", transformer, [3, 4, 4], Box([-2] * 3, [2] * 3)),
        ("head of 8 keys and 8 units, 3-D", transformer, [3, 8, 8], Box([-2] * 3, [2] * 3)),
        ("head of 16 keys and 32 units, 3-D", transformer, [3, 16, 32], Box([-2] * 3, [2] * 3)),
        ("head of 12 keys and 12 units, 4-D", transformer, [4, 12, 12], Box([-2] * 4, [2] * 4)),
        ("2 heads of 12 keys, 40 units, 3-D", two_heads, [3, 12, 40], Box([-2] * 3, [2] * 3)),
        ("2 blocks, 4 keys, 6 units, 3-D", two_blocks, [3, 4, 6], Box([-2] * 3, [2] * 3)),
        ("2 blocks, 3 keys, 3 units, 4-D", two_blocks, [4, 3, 3], Box([-2] * 4, [2] * 4)),
        ("2 blocks, 12 keys, 24 units, 3-D", two_blocks, [3, 12, 24], Box([-2] * 3, [2] * 3)),
    ):
        networks = [make(seed, widths) for seed in range(N_SEEDS)]
        (counted, stored, adjacent), count, parked = measure_rates(networks, box)
        tree = stored / measure_tree_rate(networks[0], box)
        row = count, counted, stored, adjacent, stored / adjacent
        rows.append((name, *row, f"{parked:.2%}", tree))
    columns = (
        "counted/s",
        "stored/s",
        "with neighbours/s",
        "neighbours / stored",
        "left to integers",
        "/ split tree",
    )
    yield Table(
        "Cells in space",
        ("model", "cells", *columns),
        rows,
        f"""Cells per CPU second for {N_SEEDS} models each, built in advance. The first three rates
        are for counting the cells; for storing them with winners, maps, vertices and facets; and
        for storing them with every pair of cells that share a facet and the walls between these.
        The next column is the time of the third task divided by the time of the second (the three
        tasks are timed in turns). The last columns are the share of signs left to integers, and the
        speed of storing relative to the split tree, which decides all signs in integers. For
        counting, the cells of the last layer are not constructed, unless walls coincide or cells
        are unbounded. Models with heads jump at their walls, where facets can overlap without being
        equal; there, the cells on the other side are listed for each facet.""",
    )
