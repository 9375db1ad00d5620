"""Section VII of [SL26]: the experiments, Figures 5 and 6."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from math import log, prod
from typing import Any

import numpy as np

from hardmax.constructions.families.extremal_points import extremal_points
from hardmax.exact.forms import AffineForms
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.geometry.extreme_points import extreme_points
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.geometry.refinement import common_refinement
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.papers.claims import Claim, Finding, Trial, bracket_trial, equal_trial
from hardmax.papers.subjects.enclosures import ball, softmax, working_precision
from hardmax.papers.subjects.instances import integer_keys
from hardmax.regions.engines import enumerate_regions
from hardmax.typing import FloatArray
from hardmax.verify.checking import verify_certificate


@dataclass(frozen=True)
class Emergence:
    """Claimed changes as the temperature falls: in the winners, and in the mixed output."""

    winners_change: bool
    output_sharpens: bool


def _check_emerging(content: Emergence) -> Finding:
    """Weights of five keys at the temperatures of the figure, in ball arithmetic."""
    keys = integer_keys(51, 5, 2, 9)
    queries = integer_keys(52, 60, 2, 16) / 4
    trials = []
    with working_precision():
        cold = [softmax([float(s) for s in keys @ q], 0.001) for q in queries]
        winners = [_find_largest(weights) for weights in cold]
        for tau in (1.0, 0.5, 0.1):
            warm = [softmax([float(s) for s in keys @ q], tau) for q in queries]
            changed = sum(_find_largest(w) != best for w, best in zip(warm, winners, strict=True))
            right = (changed > 0) == content.winners_change
            numbers = {"winners_changed": changed, "of": len(queries)}
            where = f"tau = {tau} against 0.001: the key of largest weight"
            trials.append(Trial(where, right, condition=False, numbers=numbers))
            sharper = sum(
                bool(
                    _relative_rival_mass(keys @ q, best[0], 0.001)
                    < _relative_rival_mass(keys @ q, best[0], tau)
                )
                for q, best in zip(queries, winners, strict=True)
                if len(best) == 1
            )
            alone = sum(len(best) == 1 for best in winners)
            right = (sharper == alone) == content.output_sharpens
            where = f"tau = {tau} against 0.001: the weight of that key grows"
            trials.append(Trial(where, right, numbers={"sharper": sharper, "of": alone}))
    seen = len({tops[0] for tops in winners if len(tops) == 1})
    return Finding(
        tuple(trials),
        f"At tau = 0.001, {seen} of 5 keys win somewhere, and at tau = 1 the same ones do: "
        f"{trials[0].numbers['winners_changed']} of {len(queries)} queries change their winner, "
        f"while the weight of the winner grows at {trials[1].numbers['sharper']} of "
        f"{trials[1].numbers['of']}. Colours blend less as the temperature falls; no boundary of "
        "the routing moves or emerges.",
        "True of the output, which sharpens. The key of largest weight does not depend on tau: "
        "the argmax partition of one head is the power diagram at every temperature.",
    )


def _relative_rival_mass(scores: FloatArray, best: int, tau: float) -> Any:
    """Enclose the weight of all other keys relative to the weight of the best key."""
    rivals = np.delete(scores, best)
    return sum((((ball(s) - ball(scores[best])) / ball(tau)).exp() for s in rivals), ball(0))


def _find_largest(weights: list[Any]) -> tuple[int, ...]:
    """Return the keys whose weight is not certainly exceeded by another."""
    return tuple(j for j, w in enumerate(weights) if not any(bool(w < v) for v in weights))


def _check_collapse(allowed: Callable[[int, Any], Any]) -> Finding:
    """The largest error of the output at tau = 0.001, as a function of N and the margin over tau.

    Values are unit vectors, so the output is the vector of weights, and its error is 1 - p.
    """
    tau, trials = Fraction(1, 1000), []
    with working_precision():
        for n, margin, inside in (
            (2, Fraction(1, 20), True),
            (5, Fraction(1, 20), True),
            (5, Fraction(1, 50), True),
            (2, Fraction(1, 1000), False),
            (5, Fraction(1, 1000), False),
            (5, Fraction(0), False),
        ):
            # All rivals are at the margin, which is the worst case.
            error = 1 - softmax([Fraction(0), *[-margin] * (n - 1)], tau)[0]
            claimed = allowed(n, ball(margin / tau))
            where = f"tau = 0.001, {n} keys, rivals {margin} below the winner: error of the output"
            found = float(error.mid())
            trials.append(bracket_trial(where, error, claimed, condition=inside, error=found))
    listed = ", ".join(f"{t.numbers['error']:.2g}" for t in trials)
    return Finding(
        tuple(trials),
        f"Largest distance of the output from the value of the winner: {listed} at margins 0.05, "
        "0.05, 0.02, 0.001, 0.001 and 0, for 2, 5, 5, 2, 5 and 5 keys.",
        "Away from the walls, the output is within (N-1)r/(1 + (N-1)r), r = e^(-margin/tau), "
        "times the distance of the values. In a band of width about tau at the walls it stays "
        "soft.",
    )


@dataclass(frozen=True)
class SignatureClaim:
    """The claimed relation between the number of signatures and the number of linear regions."""

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
        "Signatures are cells: their number is an upper bound on the number of linear regions, "
        "and sampled signatures give only a lower bound on the number of cells.",
    )


@dataclass(frozen=True)
class DepthExperiment:
    """The data needed to repeat the sampled counts; None where the paper does not give them."""

    d_ff: int | None
    n_heads: int | None
    half_width: float | None
    slope: float = 0.13


def _fit_slope(d_ff: int, n_heads: int, half_width: float, depth: int = 1) -> float:
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
        f"d_ff = {d_ff}, H = {heads}, box {width:g}, L = {depth}": _fit_slope(
            d_ff, heads, width, depth
        )
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
        found = _fit_slope(content.d_ff, content.n_heads, content.half_width)
        known = abs(found - content.slope) < 0.1
    trial = Trial("the slopes at depth 1 and 2", known, numbers={"slopes": slopes})
    listed = ", ".join(f"{slope:.2f} ({name})" for name, slope in slopes.items())
    return Finding(
        (trial,),
        "There is no uniform distribution on R^2, and the paper does not give the box, d_ff, H, "
        "biases or variances. The slope depends on them; exact counts of random models give "
        f"{listed}.",
    )


Graph = tuple[tuple[int, int], ...]

_GRAPHS: dict[str, Graph] = {
    "a path": ((0, 1), (1, 2)),
    "a triangle": ((0, 1), (1, 2), (0, 2)),
    "a cycle of four": ((0, 1), (1, 2), (2, 3), (0, 3)),
    "a triangle with a tail": ((0, 1), (1, 2), (0, 2), (2, 3)),
    "the complete graph on four": ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)),
}


def edge_units(graph: Graph) -> FloatArray:
    """Return the weights of a hidden layer with the unit relu(x_i - x_j) for every edge ij."""
    weight = np.zeros((1 + max(max(edge) for edge in graph), len(graph)))
    for unit, (i, j) in enumerate(graph):
        weight[i, unit], weight[j, unit] = 1.0, -1.0
    return weight


def _acyclic_orientations(graph: Graph) -> int:
    """Count the orientations of the edges without a directed cycle, by exhaustive search."""
    count = 0
    for flips in product((False, True), repeat=len(graph)):
        arcs = {(j, i) if flip else (i, j) for flip, (i, j) in zip(flips, graph, strict=True)}
        nodes = {node for arc in arcs for node in arc}
        while sources := nodes - {j for i, j in arcs if i in nodes}:
            nodes -= sources
            arcs = {arc for arc in arcs if arc[0] in nodes}
        count += not nodes
    return count


def _check_hardness(reduction: Callable[[Graph], FloatArray]) -> Finding:
    """Reduce a problem that is known to be #P-hard to the counting of regions."""
    trials = []
    for name, graph in _GRAPHS.items():
        weight = reduction(graph)
        zero = np.zeros(len(weight))
        units = [AffineForms(np.stack([column, zero]), np.zeros(2)) for column in weight.T]
        cells = common_refinement(units).count
        where = f"{name}: cells of a layer, and acyclic orientations"
        trials.append(equal_trial(where, cells, _acyclic_orientations(graph)))
    listed = ", ".join(str(t.numbers["true"]) for t in trials)
    return Finding(
        tuple(trials),
        "One hidden layer with a unit relu(x_i - x_j) for each edge of a graph has as many cells "
        f"as the graph has acyclic orientations ({listed} for five graphs, by exhaustive search), "
        "and counting these is #P-hard [Lin86]. The dimension is the number of nodes, which grows.",
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
        "The cells of random models of this size on the whole plane, all counted with a "
        f"certificate that was verified in integers: {trials[0].numbers['cells']} and "
        f"{trials[1].numbers['cells']} cells. Hardness in growing dimension (VII.1a) has no "
        "consequence for the plane.",
        "For d = 2, models of this size are enumerated exactly, with a certificate.",
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
        "For Gaussian keys and d = 4, counted exactly, the mean numbers of vertices at N = 7 are "
        f"{', '.join(f'{v:.0f}' for v in table[7])} for H = 1, 2, 3, and the slopes are "
        f"{', '.join(f'{s:.2f}' for s in slopes)}.",
    )


@dataclass(frozen=True)
class SumFromSummands:
    """The number of vertices of a Minkowski sum, predicted from the vertices of the summands."""

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
        "For d = 4, N = 5 and H = 3, no Gaussian point is interior (vertices of the summands: "
        f"{gaussian}), yet the sum has {np.mean(means):.0f} vertices on average, not "
        f"{prod(gaussian)}. Vertices are lost because the normal cones of different heads do not "
        "all meet; interior points are a second, later reason.",
        "The product of the numbers of vertices is an upper bound, which some heads attain.",
    )


def _count_float_hull(points: FloatArray) -> int:
    from scipy.spatial import ConvexHull

    return len(ConvexHull(points).vertices)


def _count_exact_hull(points: FloatArray) -> int:
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
            ("a Gaussian Minkowski sum", sums, _count_exact_hull(sums), True),
            ("a square with a point on an edge", flat, 4, True),
            ("a square with a point 2^-52 outside an edge", bump, 5, False),
        )
    )
    return Finding(
        trials,
        "Vertices found / true: "
        + ", ".join(f"{t.numbers['found']}/{t.numbers['true']} ({t.instance})" for t in trials)
        + ".",
        "Floating-point QuickHull is right for points that are clearly in general position; exact "
        "counts need exact predicates.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="VII.1a",
        source="SL26",
        where="Section VII-A, setup of Figure 6(a)",
        kind="text",
        statement="Exact enumeration of the regions of piecewise linear networks is #P-hard.",
        content=edge_units,
        check=_check_hardness,
        corrupted=lambda graph: np.abs(edge_units(graph)),
    ),
    Claim(
        id="VII.1b",
        source="SL26",
        where="Section VII-A, setup of Figure 6(a)",
        kind="text",
        statement=(
            "Hence exact enumeration is out of reach for d = 2, L <= 2, N <= 5, where sampling is "
            "necessary."
        ),
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
        content=_count_float_hull,
        check=_check_hull,
        corrupted=lambda points: len(points),
        repaired=_count_exact_hull,
    ),
    Claim(
        id="Fig5a",
        source="SL26",
        where="Caption of Figure 5; section VII-B",
        kind="figure",
        statement=(
            "At tau = 1, subordinate keys are suppressed; hidden routing regions emerge as tau -> "
            "0."
        ),
        content=Emergence(winners_change=True, output_sharpens=True),
        check=_check_emerging,
        corrupted=Emergence(winners_change=True, output_sharpens=False),
        repaired=Emergence(winners_change=False, output_sharpens=True),
    ),
    Claim(
        id="Fig5b",
        source="SL26",
        where="Caption of Figure 5; section VII-B",
        kind="figure",
        statement=(
            "At tau = 0.001, the output is piecewise constant on cells with linear walls (within "
            "1/1000 of the value of the winner)."
        ),
        content=lambda n, ratio: ball(Fraction(1, 1000)),
        check=_check_collapse,
        corrupted=lambda n, ratio: ball(0),
        repaired=lambda n, ratio: (n - 1) * (-ratio).exp() / (1 + (n - 1) * (-ratio).exp()),
        unmoved={
            "content": (
                "`constant` means within 1/1000 here; no error tried lies close to that limit"
            )
        },
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
        repaired=SignatureClaim(
            lambda signatures, regions: signatures >= regions,
            ("The number of distinct signatures is a lower bound on the number of linear regions."),
        ),
    ),
    Claim(
        id="Fig6a.2",
        source="SL26",
        where="Figure 6(a); section VII-C",
        kind="figure",
        statement=(
            "With samples uniform in R^2, the log-log slope at depth 1 is about 0.13, and the "
            "slope at depth 2 is larger from N = 4 on."
        ),
        content=DepthExperiment(None, None, None),
        check=_check_depth_experiment,
        corrupted=DepthExperiment(4, 1, 3.0, slope=2.0),
    ),
    Claim(
        id="Fig6b.1",
        source="SL26",
        where="Caption of Figure 6(b); section VII-C",
        kind="figure",
        statement=(
            "The numbers of vertices of the Minkowski sum, and their log-log slopes, increase "
            "with H."
        ),
        content=lambda row: all(a < b for a, b in pairwise(row)),
        check=_check_growth_in_heads,
        corrupted=lambda row: all(a > b for a, b in pairwise(row)),
    ),
    Claim(
        id="Fig6b.2",
        source="SL26",
        where="Section VII-C, on Figure 6(b)",
        kind="figure",
        statement=(
            "Counts fall below N^H only because interior points of the clouds are not vertices; "
            "if all points were vertices, the product would be reached."
        ),
        content=SumFromSummands(prod),
        check=_check_interior_points,
        repaired=SumFromSummands(prod, is_equality=False),
    ),
)
