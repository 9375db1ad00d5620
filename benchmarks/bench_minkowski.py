"""Vertices of Minkowski sums: exact and certified, against scipy's Qhull on the same data.

Qhull sees either all N^H sums at once ("all sums") or the hull of the partial sum times the next
set, head by head ("pruned"). Gaussian coordinates rounded to four digits, as integers. CPU
seconds; ours is the median of a few runs, certificates included.

    python -m benchmarks minkowski          # about ten seconds
    python -m benchmarks minkowski --full   # also (7, 3, 10) and (3, 32, 512) with Qhull
"""

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from scipy.spatial import ConvexHull

from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.typing import FloatArray

ALL_SUMS = [((4, 3, 7), None), ((5, 3, 10), 3.0), ((6, 3, 10), 50.0)]
ALL_SUMS_SLOW = [((7, 3, 10), 500.0)]
PRUNED = [((4, 8, 64), 1.0), ((3, 16, 512), 1.0)]
PRUNED_SLOW = [((3, 32, 512), 1.0)]
ALONE = [(16, 3, 16), (8, 4, 10), (7, 6, 12)]


def point_sets(dim: int, n_sets: int, n_points: int) -> list[FloatArray]:
    rng = np.random.default_rng(0)
    return [np.round(rng.normal(size=(n_points, dim)) * 1e4) for _ in range(n_sets)]


def all_sums(sets: list[FloatArray]) -> int:
    total = sets[0]
    for points in sets[1:]:
        total = (total[:, None] + points[None]).reshape(-1, total.shape[1])
    return len(ConvexHull(total).vertices)


def pruned(sets: list[FloatArray]) -> int:
    total = sets[0][ConvexHull(sets[0]).vertices]
    for points in sets[1:]:
        points = points[ConvexHull(points).vertices]
        total = (total[:, None] + points[None]).reshape(-1, total.shape[1])
        total = total[ConvexHull(total).vertices]
    return len(total)


def ours(sets: list[FloatArray]) -> int:
    return minkowski_vertices(sets).count


def cpu_seconds(
    work: Callable[[list[FloatArray]], int], sets: list[FloatArray], runs: int
) -> tuple[float, int]:
    times, count = [], 0
    for _ in range(runs):
        start = time.process_time()
        count = work(sets)
        times.append(time.process_time() - start)
    return statistics.median(times), count


def main() -> None:
    full = "--full" in sys.argv[1:]
    minkowski_vertices(point_sets(3, 2, 20))
    titles = ("vertices", 9), ("ours s", 8), ("Qhull s", 8), ("ratio", 8), ("bar", 6)
    print(f"{'(d, H, N)':>14}", *(f"{title:>{width}}" for title, width in titles), " peer")
    for peer, name, cases in (
        (all_sums, "all sums", ALL_SUMS + (ALL_SUMS_SLOW if full else [])),
        (pruned, "pruned", PRUNED + (PRUNED_SLOW if full else [])),
    ):
        for setting, bar in cases:
            sets = point_sets(*setting)
            seconds, count = cpu_seconds(ours, sets, 5)
            peer_seconds, peer_count = cpu_seconds(peer, sets, 1 if full else 2)
            if count != peer_count:
                raise SystemExit(f"{setting}: {count} vertices, Qhull says {peer_count}")
            ratio = peer_seconds / seconds
            verdict = "" if bar is None else f"{bar:g}x"
            print(
                f"{setting!s:>14} {count:>9} {seconds:>8.4f} {peer_seconds:>8.3f} "
                f"{ratio:>7.1f}x {verdict:>6}  {name}"
            )
    for setting in ALONE:
        seconds, count = cpu_seconds(ours, point_sets(*setting), 2)
        print(
            f"{setting!s:>14} {count:>9} {seconds:>8.4f} {'-':>8} {'-':>8} {'-':>6}  out of reach"
        )


if __name__ == "__main__":
    main()
