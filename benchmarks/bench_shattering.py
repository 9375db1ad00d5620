"""Shattering transformers counted into the millions: cells per CPU second, and the three counts.

Columns: how many cells per second a search finds that only counts, and one that keeps them; how
many per second the whole question takes (cells kept, regions and different maps counted); the last
column is the first rate as a multiple of that of the all-exact search on one block.
"""

import time
from collections.abc import Callable

import numpy as np

from hardmax.constructions import (
    literal_shattering_transformer,
    shattering_count,
    shattering_self_attention,
    shattering_transformer,
)
from hardmax.geometry.domains import Box
from hardmax.regions.engines import enumerate_regions

CASES = [  # n_keys, dim, depth, d_ff, n_heads
    (4, 1, 5, 4, 1),
    (5, 1, 4, 6, 1),
    (4, 2, 3, 4, 2),
    (3, 2, 2, 12, 4),
    (7, 2, 2, 12, 2),
    (2, 3, 3, 6, 3),
    (4, 3, 2, 6, 3),
]


def seconds(action: Callable[[], object]) -> float:
    """Return the CPU time of one call."""
    start = time.process_time()
    action()
    return time.process_time() - start


def exact_rate(sizes: tuple[int, ...], cube: Box) -> float:
    """Return cells per second of the search in integers alone, on one block of the same shape."""
    n_keys, dim, _, d_ff, n_heads = sizes
    model = shattering_transformer(n_keys, dim, 1, d_ff, n_heads)
    start = time.process_time()
    n_cells = enumerate_regions(model, cube, count_only=True, exact=True, max_cells=300).n_found
    return n_cells / (time.process_time() - start)


def row(sizes: tuple[int, ...]) -> str:
    """Measure one family member, and check that all counts are the formula."""
    dim = sizes[1]
    cube = unit_cube(dim)
    expected = shattering_count(*sizes)
    model = shattering_transformer(*sizes)
    counted = seconds(lambda: _require(count_only(model, cube), expected))
    start = time.process_time()
    part = enumerate_regions(model, cube)
    kept = time.process_time() - start
    _require(part.n_cells, expected)
    _require(part.n_affine_maps, expected)
    _require(part.n_regions, expected)
    everything = time.process_time() - start
    ratio = expected / counted / exact_rate(sizes, cube)
    name = "N={} d={} L={} d_ff={} H={}".format(*sizes)
    rates = " ".join(f"{expected / t:>11,.0f}" for t in (counted, kept, everything))
    return f"{name:26s} {expected:>10,d} {rates} {ratio:>8.1f}"


def unit_cube(dim: int) -> Box:
    """Return the domain of the construction."""
    return Box(np.zeros(dim), np.ones(dim))


def count_only(model: object, cube: Box) -> int:
    """Count the cells without keeping them."""
    return enumerate_regions(model, cube, count_only=True).n_cells


def _require(found: int, expected: int) -> None:
    if found != expected:
        raise SystemExit(f"found {found}, the formula says {expected}")


def main() -> None:
    """Print the tables."""
    for dim in (1, 2, 3):  # compile first
        enumerate_regions(shattering_transformer(2, dim, 1, 2 * dim), unit_cube(dim))
    print(f"{'':26s} {'regions':>10s} {'count/s':>11s} {'keep/s':>11s} {'all three/s':>11s}  ratio")
    for sizes in CASES:
        print(row(sizes), flush=True)
    square = unit_cube(2)
    tokens = shattering_self_attention(4, 2, 3, 4)
    spent = seconds(lambda: _require(count_only(tokens, square), 262_144))
    print(f"self-attention, 4 tokens, L=3: {262_144 / spent:,.0f} cells/s")
    literal = literal_shattering_transformer(3, 2, 2, 4, centred=False)
    print(f"literal weights, N=3 d=2 L=2: {count_only(literal, square)} cells, 1296 on paper")


if __name__ == "__main__":
    main()
