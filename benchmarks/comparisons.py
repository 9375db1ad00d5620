"""The comparisons: the inputs, and on each of them hardmax and the usual alternatives.

All programs start from the same arrays, so building a model is part of the time. If a program is
missing, its entry states this. The correct counts of cells come from certificates that the
independent verifier accepts.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

from benchmarks.baselines_clipping import count_by_clipping
from benchmarks.baselines_edges import count_by_edge_subdivision
from benchmarks.baselines_products import multiply_by_outer_sums, multiply_by_rows
from benchmarks.bench_extreme_points import draw_keys, find_combination
from benchmarks.bench_fresh import build_transformer, draw_transformer
from benchmarks.bench_minkowski import all_sums, draw_point_sets, prune_sums
from benchmarks.bench_power_diagrams import count_lifted_hull
from benchmarks.measuring import Comparison, Measured, measure
from benchmarks.peer_programs import Outcome, Programs, run_in_python, run_syrenn
from benchmarks.random_networks import Weights, gaussian_weights, integer_weights
from hardmax.geometry.domains import Box, Segment, WholeSpace
from hardmax.geometry.extreme_points import extreme_points
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.models.transformers import HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.tropical.matrices.semiring import maxplus
from hardmax.verify.checking import verify_certificate

HALF_WIDTH = 3.0
MOST_FOR_RELUCENT = 600
"""Maximum number of cells for relucent, which takes about ten milliseconds per cell."""

Section = Callable[[Programs], list[Comparison]]


def count_with_certificate(model: Any, domain: Any) -> int:
    """Return a number of cells that the verifier confirms from a certificate."""
    part = enumerate_regions(model, domain)
    verdict = verify_certificate(model, part.certificate())
    if not verdict.ok:
        raise SystemExit(f"a certificate was refused: {verdict.reason}")
    return int(verdict.n_cells)


def compare_planes(programs: Programs) -> list[Comparison]:
    """Wide, deep and degenerate ReLU networks on the square [-3, 3]^2."""
    cases = [
        ("2->[16, 16]", gaussian_weights(65, 2, 16, 16), 4.0, 0.5),
        ("2->[32] x 3", gaussian_weights(66, 2, 32, 32, 32), 4.0, 0.9),
        ("2->[64] x 3", gaussian_weights(68, 2, 64, 64, 64), 4.0, 1.2),
        ("2->[10] x 8, deep", gaussian_weights(7, 2, *[10] * 8), 4.0, 0.7),
        ("2->[16] x 16, deep", gaussian_weights(8, 2, *[16] * 16), 4.0, 0.8),
        ("2->[16, 16], no biases", gaussian_weights(65, 2, 16, 16, bias=0.0), None, None),
        ("2->[8, 8], integers", integer_weights(0, 2, 8, 8), None, None),
        ("2->[16] x 4, integers", integer_weights(1, 2, *[16] * 4), None, None),
    ]
    return [_plane(programs, *case) for case in cases]


def _plane(
    programs: Programs, case: str, net: Weights, edges: float | None, driver: float | None
) -> Comparison:
    box = Box([-HALF_WIDTH] * 2, [HALF_WIDTH] * 2)
    truth = count_with_certificate(net.model, box)
    corners = HALF_WIDTH * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    (drawn,) = run_syrenn(programs.syrenn, net, [corners])
    found = [
        measure("hardmax", lambda: int(enumerate_regions(net.model, box).n_cells)),
        _to_measured("SyReNN", drawn),
        measure("edge subdivision", lambda: count_by_edge_subdivision(*net.hidden, HALF_WIDTH)),
    ]
    if truth < 5000:
        found.append(measure("clipping", lambda: count_by_clipping(*net.hidden, HALF_WIDTH), 0.0))
    least = {"edge subdivision": edges, "SyReNN": driver}
    return Comparison(case, truth, tuple(found), {k: v for k, v in least.items() if v})


def compare_spaces(programs: Programs) -> list[Comparison]:
    """ReLU networks on the whole space, in two to four dimensions."""
    cases = [
        ("R^2 -> [16, 16]", gaussian_weights(65, 2, 16, 16)),
        ("R^3 -> [12, 12]", gaussian_weights(67, 3, 12, 12)),
        ("R^4 -> [8, 8]", gaussian_weights(71, 4, 8, 8)),
        ("R^2 -> [8, 8], integers", integer_weights(1, 2, 8, 8)),
    ]
    return [_space(programs, case, net) for case, net in cases]


def _space(programs: Programs, case: str, net: Weights) -> Comparison:
    space = WholeSpace(net.dim)
    truth = count_with_certificate(net.model, space)
    ours = measure("hardmax", lambda: int(enumerate_regions(net.model, space).n_cells))
    theirs = Outcome(remark=f"more than {MOST_FOR_RELUCENT} cells")
    if truth <= MOST_FOR_RELUCENT or not programs.python:
        theirs = run_in_python("relucent", programs.python, net, 10**6)
    return Comparison(case, truth, (ours, _to_measured("relucent", theirs)), {"relucent": 1000.0})


def compare_segments(programs: Programs) -> list[Comparison]:
    """Pieces along one and ten segments through a network. Only SyReNN finds them as well."""
    cases = [
        ("784->[256] x 4", gaussian_weights(5, 784, *[256] * 4), 1.0),
        ("2->[64] x 6", gaussian_weights(5, 2, *[64] * 6), 5.0),
        ("4->[12] x 3, integers", integer_weights(0, 4, 12, 12, 12), 0.0),
    ]
    return [_compare_along(programs, *case, n) for case in cases for n in (1, 10)]


def _compare_along(
    programs: Programs, case: str, net: Weights, scale: float, n_segments: int
) -> Comparison:
    rng = np.random.default_rng(0)
    shape = (n_segments, 2, net.dim)
    drawn = scale * rng.normal(size=shape) if scale else rng.integers(-5, 6, shape)
    ends = list(drawn.astype(np.float32).astype(np.float64))

    def ours() -> int:
        model = net.model
        return sum(int(enumerate_regions(model, Segment(*pair)).n_cells) for pair in ends)

    truth = sum(count_with_certificate(net.model, Segment(*pair)) for pair in ends)
    theirs = run_syrenn(programs.syrenn, net, ends)
    found = Measured("SyReNN", remark=theirs[0].remark)
    if all(one.cells for one in theirs):
        seconds = sum(one.seconds for one in theirs) + theirs[0].setup
        found = Measured("SyReNN", sum(one.cells for one in theirs), seconds)
    words = f"{case}, {n_segments} segment{'s' * (n_segments > 1)}"
    return Comparison(words, truth, (measure("hardmax", ours), found), {"SyReNN": 0.05})


def compare_transformers(programs: Programs) -> list[Comparison]:
    """Hard transformers on a square. No other program counts their cells, and samples miss some."""
    found = []
    box = Box([-HALF_WIDTH] * 2, [HALF_WIDTH] * 2)
    points = np.random.default_rng(0).uniform(-HALF_WIDTH, HALF_WIDTH, (200_000, 2))
    for depth in (1, 2, 3):
        arrays = draw_transformer(0, depth)
        model = build_transformer(arrays)
        truth = count_with_certificate(model, box)
        sampled = measure(
            "200 000 samples in numpy",
            lambda a=arrays: _sampled_cells(build_transformer(a), points),
            0.0,
        )
        ours = measure(
            "hardmax", lambda a=arrays: int(enumerate_regions(build_transformer(a), box).n_cells)
        )
        found.append(Comparison(f"{depth} block{'s' * (depth > 1)}", truth, (ours, sampled)))
    return found


def _sampled_cells(model: HardTransformer, points: np.ndarray) -> int:
    """Count the signatures that points have, with plain numpy."""
    stream, rows = points, []
    for block in model.blocks:
        moved = stream.copy()
        for head in block.heads:
            scores = (stream @ head.query_weight + head.query_bias) @ head.keys.T
            winner = scores.argmax(axis=1)
            rows.append(winner)
            moved += head.values[winner] @ head.output_weight
        ffn = block.ffn
        units = moved @ ffn.w_in + ffn.b_in
        rows += list((units > 0).T)
        stream = moved + np.maximum(units, 0.0) @ ffn.w_out + ffn.b_out
    return len(np.unique(np.stack(rows, axis=1), axis=0))


def compare_extreme_keys(programs: Programs) -> list[Comparison]:
    """The keys that win for some query, among N keys in d dimensions."""
    found = []
    for kind, n_keys, dim, hull in (
        ("gaussian", 4096, 3, True),
        ("gaussian", 1024, 6, True),
        ("gaussian", 1024, 64, False),
        ("half inside", 1024, 64, False),
    ):
        points = draw_keys(kind, n_keys, dim)
        truth = int(extreme_points(points).sum())
        entries = [
            measure("hardmax", lambda p=points: int(extreme_points(p).sum())),
            measure("numpy, own key as witness", lambda p=points: _count_witnesses(p)),
        ]
        if hull:
            entries.append(measure("Qhull", lambda p=points: len(ConvexHull(p).vertices), 0.0))
        else:
            entries.append(Measured("Qhull", remark="out of reach"))
        entries.append(_time_linear_programs(points, truth))
        least = {"Qhull": {3: 0.4, 6: 2.5}[dim]} if hull else {}
        found.append(Comparison(f"{kind}, N = {n_keys}, d = {dim}", truth, tuple(entries), least))
    return found


def _count_witnesses(points: np.ndarray) -> int:
    """Count the keys that win at the query equal to the key: no proof, and some keys are missed."""
    winners = (points @ points.T).argmax(axis=0)
    return int((winners == np.arange(len(points))).sum())


def _time_linear_programs(points: np.ndarray, truth: int) -> Measured:
    """Time HiGHS on four keys, one linear program each, and multiply by the number of keys."""
    sample = np.linspace(0, len(points) - 1, 4).astype(int)
    linprog([1.0], A_ub=[[1.0]], b_ub=[1.0])
    one = measure("", lambda: sum(find_combination(points, i) for i in sample), 0.0)
    right = extreme_points(points)[sample].sum()
    if one.count != right:
        return Measured("HiGHS, a program per key", remark="wrong on the keys tried")
    seconds = one.seconds * len(points) / len(sample)
    return Measured("HiGHS, a program per key", truth, seconds, one.megabytes, "from 4 keys")


def compare_minkowski(programs: Programs) -> list[Comparison]:
    """Vertices of sums of H Gaussian sets of N points in d dimensions."""
    found = []
    for (dim, n_sets, n_points), peer, name, least in (
        ((4, 3, 7), all_sums, "Qhull, all sums", None),
        ((5, 3, 10), all_sums, "Qhull, all sums", 4.0),
        ((6, 3, 10), all_sums, "Qhull, all sums", 40.0),
        ((4, 8, 64), prune_sums, "Qhull, head by head", 3.0),
        ((3, 16, 512), prune_sums, "Qhull, head by head", 1.2),
    ):
        sets = draw_point_sets(dim, n_sets, n_points)
        ours = measure("hardmax", lambda s=sets: minkowski_vertices(s).count)
        theirs = measure(name, lambda s=sets, p=peer: p(s), 0.0)
        # If there are few sums, Qhull is correct for Gaussian points, and both counts must agree.
        truth = theirs.count if theirs.count is not None else -1
        asked = {} if least is None else {name: least}
        case = f"d = {dim}, H = {n_sets}, N = {n_points}"
        found.append(Comparison(case, truth, (ours, theirs), asked))
    return found


def compare_products(programs: Programs) -> list[Comparison]:
    """Max-plus products of n x n matrices; the count is the number of correct entries."""
    found = []
    for n in (256, 1024):
        rng = np.random.default_rng(0)
        a, b = rng.normal(size=(n, n)), rng.normal(size=(n, n))
        right = multiply_by_rows(a, b)

        def entries(product: Callable[..., np.ndarray], right: np.ndarray = right) -> int:
            return int((np.asarray(product()) == right).sum())

        contestants: list[tuple[str, Callable[[], np.ndarray]]] = [
            ("hardmax", lambda a=a, b=b: maxplus.matmul(a, b)),
            ("numpy, rows", lambda a=a, b=b: multiply_by_rows(a, b)),
            ("numpy, outer sums", lambda a=a, b=b: multiply_by_outer_sums(a, b)),
        ]
        contestants += _torch_product(a, b) + _gemm_product(a, b)
        found_here = [measure(name, lambda p=p: entries(p)) for name, p in contestants]
        missing = [
            Measured(name, remark="not there")
            for name in ("torch", "tropical-gemm")
            if name not in {one.program for one in found_here}
        ]
        asked = {"numpy, rows": 3.0, "numpy, outer sums": 3.0}
        found.append(Comparison(f"n = {n}", n * n, (*found_here, *missing), asked))
    return found


def _torch_product(a: np.ndarray, b: np.ndarray) -> list[tuple[str, Callable[[], np.ndarray]]]:
    try:
        import torch
    except ImportError:
        return []
    left, right = torch.from_numpy(a), torch.from_numpy(b.T.copy())

    def product() -> np.ndarray:
        rows = [(right + row).amax(dim=1) for row in left]
        return torch.stack(rows).numpy()

    return [("torch", product)]


def _gemm_product(a: np.ndarray, b: np.ndarray) -> list[tuple[str, Callable[[], np.ndarray]]]:
    try:
        from tropical_gemm import maxplus_matmul_2d_f64
    except ImportError:
        return []
    return [("tropical-gemm", lambda: maxplus_matmul_2d_f64(a, b))]


def compare_diagrams(programs: Programs) -> list[Comparison]:
    """Power diagrams, with neighbours and vertices. The count is the number of nonempty cells."""
    found = []
    for n_sites, dim, kind, least in (
        (1000, 2, "uniform", 0.2),
        (10_000, 2, "uniform", 0.3),
        (1000, 3, "uniform", 0.25),
        (10_000, 3, "uniform", 0.4),
        (200, 4, "uniform", 0.2),
        (900, 2, "on a lattice", None),
    ):
        rng = np.random.default_rng(0)
        sites = rng.random((n_sites, dim))
        weights = rng.random(n_sites) / n_sites
        if kind == "on a lattice":
            sites, weights = np.argwhere(np.ones((30, 30))).astype(np.float64), np.zeros(900)
        truth = int(PowerDiagram(sites, weights).active.sum())

        def ours(s: np.ndarray = sites, w: np.ndarray = weights) -> int:
            diagram = PowerDiagram(s, w)
            _ = diagram.neighbours, diagram.vertices, diagram.cells()
            return int(diagram.active.sum())

        entries = (
            measure("hardmax", ours, 0.1),
            measure("Qhull, lifted", lambda s=sites, w=weights: count_lifted_hull(s, w), 0.1),
        )
        asked = {} if least is None else {"Qhull, lifted": least}
        found.append(Comparison(f"{n_sites} sites {kind}, d = {dim}", truth, entries, asked))
    return found


def time_growing_networks(programs: Programs) -> list[tuple[str, list[int], list[float]]]:
    """Time networks 2->[w, w, w] of growing width: programs, their cells and their CPU seconds.

    A program whose counts differ from hardmax is left out.
    """
    box = Box([-HALF_WIDTH] * 2, [HALF_WIDTH] * 2)
    corners = HALF_WIDTH * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    lines: dict[str, tuple[list[int], list[float]]] = {}

    def add(found: Measured, truth: int | None) -> None:
        if found.count and found.count == truth:
            cells, seconds = lines.setdefault(found.program, ([], []))
            cells.append(found.count)
            seconds.append(found.seconds)

    for width in (8, 16, 32, 64, 128, 192):
        net = gaussian_weights(width, 2, width, width, width)
        ours = measure("hardmax", lambda n=net: int(enumerate_regions(n.model, box).n_cells), 0.1)
        add(ours, ours.count)
        add(_to_measured("SyReNN", run_syrenn(programs.syrenn, net, [corners])[0]), ours.count)
        if width <= 128:
            edges = measure(
                "edge subdivision",
                lambda n=net: count_by_edge_subdivision(*n.hidden, HALF_WIDTH),
                0.1,
            )
            add(edges, ours.count)
    return [(name, *line) for name, line in lines.items()]


def _to_measured(program: str, found: Outcome) -> Measured:
    if not found.cells:
        return Measured(program, remark=found.remark)
    return Measured(program, found.cells, found.seconds + found.setup, None, found.remark)


SECTIONS: Sequence[tuple[str, str, Section]] = (
    ("Cells of ReLU networks in the plane", "cells", compare_planes),
    ("Cells of ReLU networks on the whole space", "cells", compare_spaces),
    ("Pieces along a segment", "pieces", compare_segments),
    ("Cells of hard transformers", "cells", compare_transformers),
    ("Keys that can win", "keys", compare_extreme_keys),
    ("Vertices of Minkowski sums", "vertices", compare_minkowski),
    ("Power diagrams", "sites", compare_diagrams),
    ("Max-plus products", "entries", compare_products),
)
"""The title, the name of the objects counted, and the comparisons."""
