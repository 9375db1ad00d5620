"""Shattering transformers with millions of cells: cells per CPU second, and the three counts."""

from collections.abc import Iterator

import numpy as np

from benchmarks.measuring import cpu_seconds
from benchmarks.tables import Table
from hardmax.constructions import (
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


def measure_exact_rate(sizes: tuple[int, ...], cube: Box) -> float:
    """Return the rate of the search in integers alone, on one block of the same shape."""
    n_keys, dim, _, d_ff, n_heads = sizes
    model = shattering_transformer(n_keys, dim, 1, d_ff, n_heads)
    options = {"count_only": True, "exact": True, "max_cells": 300}
    found, seconds = cpu_seconds(lambda: enumerate_regions(model, cube, **options))
    return found.n_found / seconds


def measure_row(sizes: tuple[int, ...]) -> tuple[object, ...]:
    """Measure one member of the family, and check that all counts equal the formula."""
    cube = unit_cube(sizes[1])
    expected = shattering_count(*sizes)
    model = shattering_transformer(*sizes)
    n_counted, counting = cpu_seconds(lambda: count_only(model, cube))
    part, keeping = cpu_seconds(lambda: enumerate_regions(model, cube))
    asked, asking = cpu_seconds(lambda: (part.n_cells, part.n_affine_maps, part.n_regions))
    for found in (n_counted, *asked):
        _require(found, expected)
    rates = [expected / t for t in (counting, keeping, keeping + asking)]
    name = "N = {}, d = {}, L = {}, d_ff = {}, H = {}".format(*sizes)
    return name, expected, *rates, rates[0] / measure_exact_rate(sizes, cube)


def unit_cube(dim: int) -> Box:
    """Return the domain of the construction."""
    return Box(np.zeros(dim), np.ones(dim))


def count_only(model: object, cube: Box) -> int:
    """Count the cells without storing them."""
    return enumerate_regions(model, cube, count_only=True).n_cells


def _require(found: int, expected: int) -> None:
    if found != expected:
        raise SystemExit(f"found {found}, the formula says {expected}")


def tables() -> Iterator[Table]:
    """Yield rates for transformers, and for one with self-attention."""
    rows = [measure_row(sizes) for sizes in CASES]
    tokens = shattering_self_attention(4, 2, 3, 4)
    found, seconds = cpu_seconds(lambda: count_only(tokens, unit_cube(2)))
    _require(found, 262_144)
    rows.append(("self-attention, 4 tokens, L = 3", found, found / seconds, None, None, None))
    yield Table(
        "Transformers that attain the bounds",
        ("transformer", "regions", "counted/s", "stored/s", "all three/s", "counted / integers"),
        rows,
        """Cells per CPU second on the unit cube for three tasks: counting the cells; storing them;
        and storing them and also counting regions and different maps. All counts equal the formula.
        The last column is the first rate divided by the rate of the integer search on one
        block.""",
    )
