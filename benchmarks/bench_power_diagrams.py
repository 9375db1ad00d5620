"""Power diagrams, compared with scipy's floating-point Qhull, and diagrams of higher order."""

from collections.abc import Iterator

import numpy as np
from scipy.spatial import ConvexHull

from benchmarks.measuring import cpu_seconds
from benchmarks.tables import Table
from hardmax.geometry.domains import Box, Domain, WholeSpace
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.tropical.diagrams.order_k import order_k_diagram
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram


def count_lifted_hull(sites: np.ndarray, weights: np.ndarray) -> int:
    """Count the visible sites with Qhull: the vertices of the lower hull of the lifted sites."""
    hull = ConvexHull(np.column_stack([sites, (sites**2).sum(axis=1) - weights]))
    return len(np.unique(hull.simplices[hull.equations[:, -2] < 0]))


def count_visible_sites(points: np.ndarray, weights: np.ndarray | None) -> int:
    """Count the sites with cells by Qhull; without weights, the extreme keys."""
    return (
        len(ConvexHull(points).vertices) if weights is None else count_lifted_hull(points, weights)
    )


def build_diagram(points: np.ndarray, weights: np.ndarray | None) -> PowerDiagram:
    """Return a new diagram with its winners, neighbours, vertices and cells."""
    diagram = PowerDiagram.from_keys(points) if weights is None else PowerDiagram(points, weights)
    _ = diagram.active, diagram.neighbours, diagram.vertices, diagram.cells()
    return diagram


def measure_diagrams() -> Table:
    """Time the winners, neighbours, vertices and cells of diagrams of sites and of keys."""
    rng = np.random.default_rng(0)
    cases = []
    sizes = (1_000, 2), (10_000, 2), (100_000, 2), (1_000, 3), (10_000, 3), (200, 4), (1_000, 4)
    for n_sites, dim in sizes:
        sites, weights = rng.random((n_sites, dim)), rng.random(n_sites) / n_sites
        box = Box([0.0] * dim, [1.0] * dim)
        cases.append((f"{n_sites} uniform sites, d = {dim}", sites, weights, box))
    for n_keys, name in ((10_000, "Gaussian keys"), (3_000, "unit keys")):
        for dim in (2, 3):
            keys = rng.standard_normal((n_keys, dim))
            if name == "unit keys":
                keys /= np.linalg.norm(keys, axis=1)[:, None]
            cases.append((f"{n_keys} {name}, d = {dim}", keys, None, Box([-1] * dim, [1] * dim)))
    rows = []
    for name, points, weights, box in cases:
        diagram, ours = cpu_seconds(lambda p=points, w=weights: build_diagram(p, w), 3)
        tries = 3 if points.shape[1] == 2 else 1
        _, clipped = cpu_seconds(lambda d=diagram, b=box: [c.vertices for c in d.cells(b)], tries)
        n_active = int(diagram.active.sum())
        visible, theirs = cpu_seconds(lambda p=points, w=weights: count_visible_sites(p, w), 3)
        assert n_active == visible
        rows.append((name, n_active, 1e3 * ours, 1e3 * clipped, 1e3 * theirs, ours / theirs))
    return Table(
        "Power diagrams, compared with Qhull",
        ("sites", "cells", "hardmax", "in a box", "Qhull", "hardmax / Qhull"),
        rows,
        """CPU milliseconds, starting from arrays, for the winning sites, neighbours, vertices and
        cells, and then for clipping the cells to a box. hardmax is exact, and also correct where
        Qhull's rounded hull of lifted sites fails: for sites on a lattice or a circle, repeated
        sites, and sites of any magnitude. Both programs find a hull by insertion. The vertices of
        clipped cells are computed cell by cell, in integers from three dimensions on. The keys have
        no offsets.""",
    )


def measure_wide_boxes() -> Table:
    """Measure the regions of a head with keys in the unit square, on larger and larger boxes."""
    keys = np.random.default_rng(3).random((3_000, 2))
    head = AttentionHead(np.eye(2), keys, keys, np.eye(2), logit_bias=-(keys**2).sum(axis=1) / 2)
    model = HardTransformer([Block([head])])
    domains: dict[str, Domain] = {
        f"a box {wide:g} times as wide as the keys": Box([0.5 - wide / 2] * 2, [0.5 + wide / 2] * 2)
        for wide in (1.0, 1e2, 1e6)
    }
    domains["the plane"] = WholeSpace(2)
    rows, tight = [], 0.0
    for name, domain in domains.items():
        part, seconds = cpu_seconds(lambda d=domain: enumerate_regions(model, d), 5)
        tight = tight or seconds
        rows.append((name, part.n_cells, 1e3 * seconds, seconds / tight))
    columns = "domain", "cells", "CPU ms", "relative to the first row"
    return Table("Regions of a head with 3000 keys", columns, rows)


def measure_orders() -> Table:
    """Measure diagrams of the sets of k nearest sites."""
    rng = np.random.default_rng(2)
    plane = ((100, 2, 2), (100, 2, 10), (1000, 2, 2), (1000, 2, 10))
    rows = []
    for n_keys, dim, k in (*plane, (30, 3, 3), (100, 3, 3), (20, 4, 3), (20, 5, 2), (32, 16, 2)):
        keys = rng.standard_normal((n_keys, dim))
        diagram = PowerDiagram.from_keys(keys, -(keys**2).sum(axis=1) / 2)
        rounds = 5 if dim < 5 else 1
        found, seconds = cpu_seconds(lambda d=diagram, k=k: order_k_diagram(d, k), rounds)
        rows.append((n_keys, dim, k, found.n_cells, seconds, found.n_cells / seconds))
    columns = "sites", "d", "k", "cells", "CPU s", "cells/s"
    words = "The cells on which the set of the k nearest sites is constant, for Gaussian sites."
    return Table("Diagrams of order k", columns, rows, words)


def tables() -> Iterator[Table]:
    """Yield three small tables."""
    order_k_diagram(PowerDiagram.from_keys(np.eye(5)), 2)
    yield measure_diagrams()
    yield measure_orders()
    yield measure_wide_boxes()
