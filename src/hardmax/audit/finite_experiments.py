"""Section VII of [SL26]: the experiments, Figures 5 and 6."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import log, prod
from typing import Any

import numpy as np

from hardmax.audit.claims import Claim, Finding, Trial
from hardmax.audit.enclosures import precisely, softmax
from hardmax.audit.instances import integer_keys
from hardmax.constructions.extremal_points import extremal_points
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.geometry.extreme_points import extreme_points
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.verification import verify_certificate
from hardmax.typing import FloatArray


def _check_emerging(partition_changes: bool) -> Finding:
    """Which of five keys has the largest softmax weight, at the temperatures of the figure."""
    keys = integer_keys(51, 5, 2, 9)
    queries = integer_keys(52, 60, 2, 16) / 4

    def winners(tau: float) -> list[tuple[int, ...]]:
        found = []
        for q in queries:
            weights = softmax([float(s) for s in keys @ q], tau)
            found.append(
                tuple(j for j, w in enumerate(weights) if not any(bool(w < v) for v in weights))
            )
        return found

    trials = []
    with precisely():
        cold = winners(0.001)
        for tau in (1.0, 0.5, 0.1):
            changed = sum(a != b for a, b in zip(winners(tau), cold, strict=True))
            right = (changed > 0) == partition_changes
            numbers = {"winners_changed": changed, "of": len(queries)}
            trials.append(Trial(f"tau = {tau} against 0.001", right, numbers=numbers))
    seen = len({tops[0] for tops in cold if len(tops) == 1})
    return Finding(
        tuple(trials),
        f"{seen} of 5 keys win somewhere at tau = 0.001, and the same ones at tau = 1: "
        f"{trials[0].numbers['winners_changed']} of {len(queries)} queries change their winner. "
        "The temperature blends colours; it moves no boundary.",
        "The key of largest weight does not depend on tau: one head's argmax partition is the "
        "power diagram at every temperature.",
    )


def _check_collapse(tau: float) -> Finding:
    keys = integer_keys(51, 5, 2, 9)
    head = AttentionHead(np.eye(2), keys, np.eye(5), np.eye(5))
    points = np.stack(np.meshgrid(np.linspace(-4, 4, 41), np.linspace(-4, 4, 41)), -1).reshape(
        -1, 2
    )
    scores = np.sort(points @ keys.T, axis=1)
    inside = scores[:, -1] - scores[:, -2] > 0.05
    error = np.abs(head.soft(points, tau) - head(points)).max(axis=1)[inside]
    worst = float(error.max())
    numbers = {"largest_error": worst, "points": int(inside.sum())}
    return Finding(
        (Trial(f"tau = {tau}, points of margin above 0.05", worst < 1e-3, numbers=numbers),),
        f"On {int(inside.sum())} grid points of margin above 0.05 the output is within {worst:.2g} "
        f"of the hard one at tau = {tau}.",
        "Pointwise, off the walls; within a band of width about tau around them it stays soft.",
    )


@dataclass(frozen=True)
class SignatureClaim:
    """How the number of signatures is said to relate to the number of linear regions."""

    relation: Callable[[int, int], bool]
    words: str


def _models_with_spare_signatures() -> dict[str, Any]:
    dead = ReluNetwork([np.array([[1.0]]), np.array([[0.0]])], [np.zeros(1), np.zeros(1)])
    rng = np.random.default_rng(3)
    deep = ReluNetwork(
        [rng.normal(size=(2, 4)), rng.normal(size=(4, 3)), rng.normal(size=(3, 1))],
        [rng.normal(size=4), rng.normal(size=3), np.zeros(1)],
    )
    head = AttentionHead(np.eye(2), np.eye(2), np.ones((2, 2)), np.eye(2))
    return {
        "one unit whose output weight is 0": (dead, WholeSpace(1)),
        "a random ReLU network (2; 4, 3)": (deep, WholeSpace(2)),
        "a head whose two values are equal": (HardTransformer([Block([head])]), WholeSpace(2)),
    }


def _check_signatures(content: SignatureClaim) -> Finding:
    trials = []
    for name, (model, domain) in _models_with_spare_signatures().items():
        part = enumerate_regions(model, domain)
        numbers = {
            "signatures": part.n_cells,
            "regions": part.n_regions,
            "affine_maps": part.n_affine_maps,
        }
        holds = content.relation(part.n_cells, part.n_regions)
        trials.append(Trial(name, holds, numbers=numbers))
    listed = "; ".join(
        f"{t.instance}: {t.numbers['signatures']} signatures, {t.numbers['regions']} regions, "
        f"{t.numbers['affine_maps']} maps"
        for t in trials
    )
    return Finding(
        tuple(trials),
        f"Counted exactly: {listed}.",
        "Signatures are cells: their number bounds the linear regions from above, and sampled "
        "signatures bound only the number of cells from below.",
    )


@dataclass(frozen=True)
class DepthExperiment:
    """What must be known to repeat the sampled counts: None where the paper does not say."""

    d_ff: int | None
    n_heads: int | None
    half_width: float | None
    slope: float = 0.13


def _slope(d_ff: int, n_heads: int, half_width: float, depth: int = 1) -> float:
    """Return the least-squares slope of log mean cells against log N, N = 2..5."""
    box = Box(np.full(2, -half_width), np.full(2, half_width))
    means = []
    for n in range(2, 6):
        counts = []
        for seed in range(6):
            rng = np.random.default_rng(1000 * n + seed)
            shapes = ((2, 2), (n, 2), (n, 2), (2, 2)), ((2, d_ff), (d_ff,), (d_ff, 2), (2,))
            blocks = []
            for _ in range(depth):
                heads = [
                    AttentionHead(*(rng.normal(size=s) for s in shapes[0])) for _ in range(n_heads)
                ]
                blocks.append(Block(heads, FeedForward(*(rng.normal(size=s) for s in shapes[1]))))
            counts.append(enumerate_regions(HardTransformer(blocks), box).n_cells)
        means.append(log(float(np.mean(counts))))
    return float(np.polyfit([log(n) for n in range(2, 6)], means, 1)[0])


def _check_depth_experiment(content: DepthExperiment) -> Finding:
    slopes = {
        f"d_ff = {d_ff}, H = {heads}, box {width:g}, L = {depth}": _slope(d_ff, heads, width, depth)
        for d_ff, heads, width, depth in (
            (4, 1, 3.0, 1),
            (4, 3, 3.0, 1),
            (12, 1, 1.0, 1),
            (4, 1, 3.0, 2),
            (12, 1, 1.0, 2),
        )
    }
    known = None
    if content.d_ff is not None and content.n_heads is not None and content.half_width is not None:
        found = _slope(content.d_ff, content.n_heads, content.half_width)
        known = abs(found - content.slope) < 0.1
    trial = Trial("the slopes at depth 1 and 2", known, numbers={"slopes": slopes})
    listed = ", ".join(f"{slope:.2f} ({name})" for name, slope in slopes.items())
    return Finding(
        (trial,),
        "There is no uniform distribution on R^2, and box, d_ff, H, biases and variances are not "
        f"given. The slope depends on them; exact counts of random models give {listed}.",
    )


def _check_intractable(claimed: bool) -> Finding:
    trials = []
    for n in (2, 5):
        rng = np.random.default_rng(n)
        blocks = [
            Block(
                [
                    AttentionHead(*(rng.normal(size=s) for s in ((2, 2), (n, 2), (n, 2), (2, 2))))
                    for _ in range(2)
                ],
                FeedForward(*(rng.normal(size=s) for s in ((2, 4), (4,), (4, 2), (2,)))),
            )
            for _ in range(2)
        ]
        model = HardTransformer(blocks)
        part = enumerate_regions(model, WholeSpace(2))
        done = part.is_complete and verify_certificate(model, part.certificate()).ok
        numbers = {"cells": part.n_cells, "certificate_verified": done}
        trials.append(Trial(f"N = {n}, L = 2, d = 2", done != claimed, numbers=numbers))
    return Finding(
        tuple(trials),
        "All cells of random models of this size on the whole plane, counted with a certificate "
        f"that was verified in integers: {trials[0].numbers['cells']} and "
        f"{trials[1].numbers['cells']} cells. For fixed d exact enumeration takes polynomial time.",
        "#P-hardness (taken from the literature, not tried here) is about growing dimension; in "
        "d = 2 exact enumeration is polynomial.",
    )


def _gaussian_sums(n_keys: int, seed: int) -> list[FloatArray]:
    rng = np.random.default_rng(100 * n_keys + seed)
    return [rng.normal(size=(n_keys, 4)) for _ in range(3)]


def _check_growth_in_heads(increases: Callable[[list[float]], bool]) -> Finding:
    table = {
        n: [
            float(np.mean([minkowski_vertices(_gaussian_sums(n, s)[:h]).count for s in range(3)]))
            for h in (1, 2, 3)
        ]
        for n in range(2, 8)
    }
    trials = [
        Trial(f"N = {n}, H = 1, 2, 3", increases(row), numbers={"mean_vertices": row})
        for n, row in table.items()
    ]
    logs = [log(n) for n in table]
    slopes = [
        float(np.polyfit(logs, [log(row[h]) for row in table.values()], 1)[0]) for h in range(3)
    ]
    trials.append(Trial("log-log slopes", increases(slopes), numbers={"slopes": slopes}))
    return Finding(
        tuple(trials),
        f"Gaussian keys, d = 4, exact: mean vertices at N = 7 are "
        f"{', '.join(f'{v:.0f}' for v in table[7])} for H = 1, 2, 3 and the slopes "
        f"{', '.join(f'{s:.2f}' for s in slopes)}.",
    )


@dataclass(frozen=True)
class SumFromSummands:
    """A number of vertices of a Minkowski sum, foretold from those of the summands."""

    count: Callable[[list[int]], int]
    is_equality: bool = True


def _check_interior_points(content: SumFromSummands) -> Finding:
    trials, means = [], []
    for n in (4, 5):
        for seed in range(20):
            sets = _gaussian_sums(n, seed)
            each = [int(extreme_points(points).sum()) for points in sets]
            true, foretold = minkowski_vertices(sets).count, content.count(each)
            right = true == foretold if content.is_equality else true <= foretold
            means += [true] if n == 5 else []
            numbers = {"vertices_of_summands": each, "true": true, "foretold": foretold}
            trials.append(Trial(f"N = {n}, sample {seed}", right, numbers=numbers))
    sets = extremal_points(4, 3, 4)
    true, foretold = minkowski_vertices(sets).count, content.count([4, 4, 4])
    right = true == foretold if content.is_equality else true <= foretold
    where = "extremal points, N = 4: no three heads of as many keys have more"
    numbers = {"vertices_of_summands": [4, 4, 4], "true": true, "foretold": foretold}
    trials.append(Trial(where, right, tight=true == foretold, numbers=numbers))
    gaussian = trials[-2].numbers["vertices_of_summands"]
    return Finding(
        tuple(trials),
        "d = 4, N = 5, H = 3: no Gaussian point is interior (vertices of the summands "
        f"{gaussian}), yet the sum has {np.mean(means):.0f} vertices on average, not "
        f"{prod(gaussian)}. Vertices are lost because normal cones of different heads do not all "
        "meet; interior points are a second, later reason.",
        "The product of the numbers of vertices is an upper bound, and attained by some heads.",
    )


def _quick_hull(points: FloatArray) -> int:
    from scipy.spatial import ConvexHull

    return len(ConvexHull(points).vertices)


def _exact_hull(points: FloatArray) -> int:
    return int(extreme_points(points).sum())


def _check_hull(count: Callable[[FloatArray], int]) -> Finding:
    sets = _gaussian_sums(5, 0)[:2]
    sums = (sets[0][:, None] + sets[1][None]).reshape(-1, 4)
    square = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]])
    bump = np.vstack([square, [[0.5, 1 + 2.0**-52]]])
    flat = np.vstack([square, [[0.5, 1.0]]])
    trials = tuple(
        Trial(name, count(points) == true, generic, numbers={"true": true, "found": count(points)})
        for name, points, true, generic in (
            ("a Gaussian Minkowski sum", sums, _exact_hull(sums), True),
            ("a square with a point on an edge", flat, 4, True),
            ("a square with a point 2^-52 outside an edge", bump, 5, False),
        )
    )
    return Finding(
        trials,
        "Vertices found / true: "
        + ", ".join(f"{t.numbers['found']}/{t.numbers['true']} ({t.instance})" for t in trials)
        + ".",
        "Floating-point QuickHull is right for points in clearly general position; exact counts "
        "need exact predicates.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="VII.1",
        source="SL26",
        where="Section VII-A, setup of Figure 6(a)",
        kind="text",
        statement="Exact enumeration of regions is #P-hard, hence out of reach for d = 2, L <= 2, "
        "N <= 5, where sampling must do.",
        content=True,
        check=_check_intractable,
        repaired=False,
    ),
    Claim(
        id="VII.2",
        source="SL26",
        where="Section VII-A, setup of Figure 6(b)",
        kind="text",
        statement="QuickHull with degeneracy handling gives the exact number of vertices.",
        content=_quick_hull,
        check=_check_hull,
        corrupted=lambda points: len(points),
        repaired=_exact_hull,
    ),
    Claim(
        id="Fig5a",
        source="SL26",
        where="Caption of Figure 5; section VII-B",
        kind="figure",
        statement="At tau = 1 subordinate keys are suppressed; hidden routing regions emerge as "
        "tau -> 0.",
        content=True,
        check=_check_emerging,
        repaired=False,
    ),
    Claim(
        id="Fig5b",
        source="SL26",
        where="Caption of Figure 5; section VII-B",
        kind="figure",
        statement="At tau = 0.001 the output is piecewise constant on cells with linear walls.",
        content=0.001,
        check=_check_collapse,
        corrupted=1.0,
    ),
    Claim(
        id="Fig6a.1",
        source="SL26",
        where="Caption of Figure 6(a); section VII-A",
        kind="figure",
        statement="The number of distinct signatures is a lower bound on the number of linear "
        "regions.",
        content=SignatureClaim(lambda signatures, regions: signatures <= regions, "at most"),
        check=_check_signatures,
        repaired=SignatureClaim(lambda signatures, regions: signatures >= regions, "at least"),
    ),
    Claim(
        id="Fig6a.2",
        source="SL26",
        where="Figure 6(a); section VII-C",
        kind="figure",
        statement="With samples uniform in R^2 the log-log slope at depth 1 is about 0.13, and "
        "larger at depth 2 from N = 4 on.",
        content=DepthExperiment(None, None, None),
        check=_check_depth_experiment,
        corrupted=DepthExperiment(4, 1, 3.0, slope=2.0),
    ),
    Claim(
        id="Fig6b.1",
        source="SL26",
        where="Caption of Figure 6(b); section VII-C",
        kind="figure",
        statement="Vertex counts and log-log slopes of the Minkowski sum increase with H.",
        content=lambda row: all(a < b for a, b in pairwise(row)),
        check=_check_growth_in_heads,
        corrupted=lambda row: all(a > b for a, b in pairwise(row)),
    ),
    Claim(
        id="Fig6b.2",
        source="SL26",
        where="Section VII-C, on Figure 6(b)",
        kind="figure",
        statement="Counts fall below N^H only because interior points of the clouds are no "
        "vertices: with vertices only, the product would be reached.",
        content=SumFromSummands(prod),
        check=_check_interior_points,
        repaired=SumFromSummands(prod, is_equality=False),
    ),
)
