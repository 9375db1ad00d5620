"""Power diagrams against scipy's floating-point Qhull, in CPU seconds and as ratios.

Ours is exact and returns cells (polygons clipped to the box included); Qhull returns rounded
vertices and simplices. Times are medians, from arrays on: building the diagram is included. Run as
`python -m benchmarks.bench_power_diagrams`.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.spatial import ConvexHull, Voronoi

from hardmax.geometry.domains import Box, Domain, WholeSpace
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.tropical.diagrams.order_k import order_k_diagram
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram


def cpu_seconds(run: Callable[[], Any], repeat: int = 1) -> tuple[Any, float]:
    """Return what `run` returns, and the median of the CPU times it took."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        result = run()
        times.append(time.process_time() - start)
    return result, float(np.median(times))


def lifted_hull(sites: np.ndarray, weights: np.ndarray) -> int:
    """Count the visible sites with Qhull: the vertices of the lower hull of the lifted sites."""
    hull = ConvexHull(np.column_stack([sites, (sites**2).sum(axis=1) - weights]))
    return len(np.unique(hull.simplices[hull.equations[:, -2] < 0]))


def diagram_with_cells(sites: np.ndarray, weights: np.ndarray) -> PowerDiagram:
    """Return a new diagram that knows who wins, its neighbours, its vertices and its cells."""
    diagram = PowerDiagram(sites, weights)
    _ = diagram.active, diagram.neighbours, diagram.vertices, diagram.cells()
    return diagram


def diagrams(table: Table) -> None:
    rng = np.random.default_rng(0)
    for n_sites, dim in ((1_000, 2), (10_000, 2), (100_000, 2), (1_000, 3), (200, 4)):
        sites, weights = rng.random((n_sites, dim)), rng.random(n_sites) / n_sites
        box = Box([0.0] * dim, [1.0] * dim)
        repeat = 5 if dim == 2 else 1
        active, active_time = cpu_seconds(
            lambda s=sites, w=weights: int(PowerDiagram(s, w).active.sum()), repeat
        )
        diagram, total = cpu_seconds(lambda s=sites, w=weights: diagram_with_cells(s, w), repeat)
        clipped, clipped_time = cpu_seconds(
            lambda d=diagram, b=box: [c.vertices for c in d.cells(b)], repeat
        )
        visible, hull_time = cpu_seconds(lambda s=sites, w=weights: lifted_hull(s, w), repeat)
        _, voronoi_time = cpu_seconds(lambda s=sites: Voronoi(s), repeat)
        assert active == visible
        table.add_row(
            f"{n_sites} sites, d = {dim}",
            f"{active}",
            f"{active_time:.4f}",
            f"{total:.4f}",
            f"{active / total:.0f}",
            f"{clipped_time:.4f}",
            f"{hull_time:.4f}",
            f"{voronoi_time:.4f}",
            f"{total / hull_time:.1f}x",
        )
        assert len(clipped) <= active


def wide_boxes(table: Table) -> None:
    """The regions of one head whose keys fill a unit square, on wider and wider boxes."""
    keys = np.random.default_rng(3).random((3_000, 2))
    head = AttentionHead(np.eye(2), keys, keys, np.eye(2), logit_bias=-(keys**2).sum(axis=1) / 2)
    model = HardTransformer([Block([head])])
    domains: dict[str, Domain] = {
        f"{wide:g} times the keys": Box([0.5 - wide / 2] * 2, [0.5 + wide / 2] * 2)
        for wide in (1.0, 1e2, 1e6)
    }
    domains["the plane"] = WholeSpace(2)
    tight = 0.0
    for name, domain in domains.items():
        part, seconds = cpu_seconds(lambda d=domain: enumerate_regions(model, d), 5)
        tight = tight or seconds
        table.add_row(name, f"{part.n_cells}", f"{seconds:.4f}", f"{seconds / tight:.1f}x")


def fans(table: Table) -> None:
    rng = np.random.default_rng(1)
    for n_keys, name in ((10_000, "Gaussian keys"), (3_000, "unit keys")):
        keys = rng.standard_normal((n_keys, 2))
        if name == "unit keys":
            keys /= np.linalg.norm(keys, axis=1)[:, None]
        diagram = PowerDiagram.from_keys(keys)
        active, active_time = cpu_seconds(lambda d=diagram: int(d.active.sum()))
        _, cells_time = cpu_seconds(lambda d=diagram: d.cells())
        _, clipped_time = cpu_seconds(lambda d=diagram: d.cells(Box([-1, -1], [1, 1])))
        _, hull_time = cpu_seconds(lambda k=keys: ConvexHull(k))
        total = active_time + cells_time
        table.add_row(
            f"{n_keys} {name}, no bias",
            f"{active}",
            f"{active_time:.2f}",
            f"{total:.2f}",
            f"{active / total:.0f}",
            f"{clipped_time:.2f}",
            f"{hull_time:.3f}",
            "",
            f"{total / hull_time:.0f}x",
        )


def orders(table: Table) -> None:
    rng = np.random.default_rng(2)
    plane = ((100, 2, 2), (100, 2, 10), (1000, 2, 2), (1000, 2, 10))
    for n_keys, dim, k in (*plane, (30, 3, 3), (20, 5, 2), (32, 16, 2)):
        keys = rng.standard_normal((n_keys, dim))
        diagram = PowerDiagram.from_keys(keys, -(keys**2).sum(axis=1) / 2)
        repeat = 5 if dim == 2 else 1
        found, seconds = cpu_seconds(lambda d=diagram, k=k: order_k_diagram(d, k), repeat)
        rate = f"{found.n_cells / seconds:.0f}"
        table.add_row(f"{n_keys}, {dim}, {k}", f"{found.n_cells}", f"{seconds:.4f}", rate)


def main() -> None:
    """Print three small tables."""
    order_k_diagram(PowerDiagram.from_keys(np.eye(5)), 2)  # Compile.
    console = Console()
    columns = ("", "cells", "active s", "+ cells s", "cells/s", "in a box s", "Qhull lift s")
    table = Table(*columns, "Voronoi s", "ours / lift", title="power diagrams, CPU time")
    diagrams(table)
    fans(table)
    console.print(table)
    table = Table("N, d, k", "cells", "s", "cells/s", title="order-k diagrams")
    orders(table)
    console.print(table)
    table = Table("box", "cells", "s", "ratio", title="regions of a head of 3000 keys")
    wide_boxes(table)
    console.print(table)


if __name__ == "__main__":
    main()
