"""Power diagrams against scipy's floating-point Qhull, in CPU seconds and as ratios.

Ours is exact and returns cells (polygons clipped to the box included); Qhull returns rounded
vertices and simplices. Run as `python -m benchmarks.bench_power_diagrams`.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.spatial import ConvexHull, Voronoi

from hardmax.geometry.domains import Box
from hardmax.tropical.order_k import order_k_diagram
from hardmax.tropical.power_diagrams import PowerDiagram


def cpu_seconds(run: Callable[[], Any]) -> tuple[Any, float]:
    """Return what `run` returns, and the CPU time it took."""
    start = time.process_time()
    result = run()
    return result, time.process_time() - start


def lifted_hull(sites: np.ndarray, weights: np.ndarray) -> int:
    """Count the visible sites with Qhull: the vertices of the lower hull of the lifted sites."""
    hull = ConvexHull(np.column_stack([sites, (sites**2).sum(axis=1) - weights]))
    return len(np.unique(hull.simplices[hull.equations[:, -2] < 0]))


def diagrams(table: Table) -> None:
    rng = np.random.default_rng(0)
    for n_sites, dim in ((1_000, 2), (10_000, 2), (1_000, 3), (200, 4)):
        sites, weights = rng.random((n_sites, dim)), rng.random(n_sites) / n_sites
        box = Box([0.0] * dim, [1.0] * dim)
        diagram = PowerDiagram(sites, weights)
        active, active_time = cpu_seconds(lambda d=diagram: int(d.active.sum()))
        _, cells_time = cpu_seconds(lambda d=diagram: d.cells())
        clipped, clipped_time = cpu_seconds(
            lambda d=diagram, b=box: [c.vertices for c in d.cells(b)]
        )
        visible, hull_time = cpu_seconds(lambda s=sites, w=weights: lifted_hull(s, w))
        _, voronoi_time = cpu_seconds(lambda s=sites: Voronoi(s))
        assert active == visible
        total = active_time + cells_time
        table.add_row(
            f"{n_sites} sites, d = {dim}",
            f"{active}",
            f"{active_time:.2f}",
            f"{total:.2f}",
            f"{active / total:.0f}",
            f"{clipped_time:.2f}",
            f"{hull_time:.3f}",
            f"{voronoi_time:.3f}",
            f"{total / hull_time:.0f}x",
        )
        assert len(clipped) <= active


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
    for n_keys, dim, k in ((100, 2, 10), (30, 3, 3), (20, 5, 2), (32, 16, 2)):
        keys = rng.standard_normal((n_keys, dim))
        diagram = PowerDiagram.from_keys(keys, -(keys**2).sum(axis=1) / 2)
        found, seconds = cpu_seconds(lambda d=diagram, k=k: order_k_diagram(d, k))
        rate = f"{found.n_cells / seconds:.0f}"
        table.add_row(f"{n_keys}, {dim}, {k}", f"{found.n_cells}", f"{seconds:.2f}", rate)


def main() -> None:
    """Print two small tables."""
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


if __name__ == "__main__":
    main()
