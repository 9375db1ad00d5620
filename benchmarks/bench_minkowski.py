"""Vertices of Minkowski sums: exact and certified, compared with scipy's Qhull on the same data.

Qhull gets either all N^H sums at once, or the sums of the hull so far with the next set, set by
set.
"""

from collections.abc import Iterator

import numpy as np
from scipy.spatial import ConvexHull

from benchmarks.measuring import cpu_seconds
from benchmarks.tables import Table
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.typing import FloatArray

OUT_OF_REACH = [(16, 3, 16), (8, 4, 10), (7, 6, 12)]


def draw_point_sets(dim: int, n_sets: int, n_points: int) -> list[FloatArray]:
    rng = np.random.default_rng(0)
    return [np.round(rng.normal(size=(n_points, dim)) * 1e4) for _ in range(n_sets)]


def all_sums(sets: list[FloatArray]) -> int:
    total = sets[0]
    for points in sets[1:]:
        total = (total[:, None] + points[None]).reshape(-1, total.shape[1])
    return len(ConvexHull(total).vertices)


def prune_sums(sets: list[FloatArray]) -> int:
    total = sets[0][ConvexHull(sets[0]).vertices]
    for points in sets[1:]:
        points = points[ConvexHull(points).vertices]
        total = (total[:, None] + points[None]).reshape(-1, total.shape[1])
        total = total[ConvexHull(total).vertices]
    return len(total)


def tables() -> Iterator[Table]:
    """Yield the times of large sums."""
    minkowski_vertices(draw_point_sets(3, 2, 20))
    rows = []
    for setting, peer, name in (
        ((7, 3, 10), all_sums, "all sums"),
        ((3, 32, 512), prune_sums, "set by set"),
        *((setting, None, "out of reach") for setting in OUT_OF_REACH),
    ):
        sets = draw_point_sets(*setting)
        found, seconds = cpu_seconds(lambda s=sets: minkowski_vertices(s).count, 3)
        row = [*setting, found, seconds, name, None]
        if peer is not None:
            theirs, spent = cpu_seconds(lambda s=sets, p=peer: p(s))
            if theirs != found:
                raise SystemExit(f"{setting}: {found} vertices, Qhull says {theirs}")
            row[-2:] = f"{spent:.3g}, {name}", spent / seconds
        rows.append(row)
    yield Table(
        "Large Minkowski sums",
        ("d", "H", "N", "vertices", "CPU s", "Qhull, CPU s", "ratio"),
        rows,
        """Vertices of the sum of H sets of N points in d dimensions; the points are Gaussian and
        rounded to four digits. hardmax is exact and proves every rejection of a candidate. scipy's
        Qhull gets either all sums of points, or the sums of the vertices found so far with one
        further set at a time.""",
    )
