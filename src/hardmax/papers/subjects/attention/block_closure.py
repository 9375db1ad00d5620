"""Definition III.13 and section III-E of [SL26]: many heads, feed-forward, residual, depth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from hardmax.exact.forms import AffineForms
from hardmax.geometry.domains import WholeSpace
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.geometry.refinement import common_refinement
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.models.variants.normalisation import Normalisation, NormalisedRouting
from hardmax.papers.claims import Claim, Finding, Trial, equal_trial, lower_trial
from hardmax.papers.subjects.enclosures import ball, working_precision
from hardmax.papers.subjects.instances import (
    absolute_value,
    attention_only,
    forms_of_keys,
    integer_keys,
    largest_jump,
    sign_head,
)
from hardmax.regions.engines import enumerate_regions
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.tropical.rational_maps import TropicalRationalMap
from hardmax.tropical.relu_maps import relu_network_map

Heads = Sequence[AffineForms]


def _vertices_of_the_sum(heads: Heads) -> int:
    return minkowski_vertices([head.slopes for head in heads]).count


def _active_terms_of_the_product(heads: Heads) -> int:
    product = TropicalPolynomial(heads[0].slopes, heads[0].offsets)
    for head in heads[1:]:
        product = product * TropicalPolynomial(head.slopes, head.offsets)
    return int(product.active_terms().sum())


def _product_of_vertices(heads: Heads) -> int:
    return int(np.prod([_vertices_of_the_sum([head]) for head in heads]))


def _check_aggregation(claimed: Callable[[Heads], int], biased: bool) -> Finding:
    trials = []
    for n_heads, dim in ((2, 2), (3, 2), (2, 3)):
        heads = [
            forms_of_keys(
                integer_keys(10 * h + dim, 5, dim, 9),
                integer_keys(h + 70, 5, 1, 40)[:, 0] if biased else None,
            )
            for h in range(n_heads)
        ]
        name = f"{n_heads} heads of 5 keys in R^{dim}, {'with' if biased else 'no'} bias"
        trials.append(equal_trial(name, common_refinement(heads).count, claimed(heads)))
    listed = ", ".join(f"{t.numbers['claimed']} and {t.numbers['true']}" for t in trials)
    words = "with query or logit biases" if biased else "without bias"
    why = ", because the potential then has coefficients that the Newton polytope does not record"
    return Finding(
        tuple(trials),
        f"Claimed and counted numbers of cells of the common refinement, {words}: "
        f"{listed}{why * biased}.",
        "With biases, the cells correspond to the active terms of the product polynomial; there "
        "are at least as many as vertices."
        if biased
        else "",
    )


@dataclass(frozen=True)
class ProjectedRegions:
    """The number of regions of a layer after its output projection, as a function of its cells."""

    count: Callable[[int], int]
    is_equality: bool = True


def _check_projection(content: ProjectedRegions) -> Finding:
    """Two heads side by side, then a projection: regions of the layer and joint routing cells."""
    trials = []
    for name, projection, is_injective in (
        ("the identity", np.eye(4), True),
        ("a projection that forgets head 1", np.diag([1.0, 1.0, 0.0, 0.0]), False),
        ("zero", np.zeros((4, 4)), False),
    ):
        heads = [
            AttentionHead(np.eye(2), integer_keys(h, 5, 2, 9), integer_keys(h + 8, 5, 2), rows)
            for h, rows in enumerate((projection[:2], projection[2:]))
        ]
        part = enumerate_regions(attention_only(heads), WholeSpace(2))
        claimed = content.count(part.n_cells)
        right = part.n_regions == claimed if content.is_equality else part.n_regions <= claimed
        attained = part.n_regions == claimed if is_injective else None
        numbers = {"cells": part.n_cells, "regions": part.n_regions, "claimed": claimed}
        trials.append(Trial(f"W_O = {name}", right, is_injective, attained, numbers))
    listed = ", ".join(f"{t.numbers['regions']} ({t.instance})" for t in trials)
    return Finding(
        tuple(trials),
        f"The layer has {trials[0].numbers['cells']} joint routing cells. Its linear regions: "
        f"{listed}.",
        "The routing cells are the cells of the common refinement. They are also the regions of "
        "the map only if W_O maps the values of neighbouring cells to different vectors.",
    )


def _ffn(w_in: list[int], b_in: list[int], w_out: list[int], b_out: int = 0) -> FeedForward:
    """Return a feed-forward network on the line."""
    rows = [np.array(row, dtype=np.float64) for row in (w_in, b_in, w_out, [b_out])]
    return FeedForward(rows[0][None, :], rows[1], rows[2][:, None], rows[3])


_FFNS = {
    "relu": _ffn([1], [0], [1]),
    "-relu": _ffn([1], [0], [-1]),
    "relu(x) - 2 relu(x - 1)": _ffn([1, 1], [0, -1], [1, -2]),
}
_GRID = [Fraction(k, 2) for k in range(-6, 7)]


def _ffn_value(ffn: FeedForward, x: Fraction) -> Fraction:
    assert ffn.b_in is not None
    hidden = [
        max(Fraction(0), x * Fraction(float(w)) + Fraction(float(b)))
        for w, b in zip(ffn.w_in[0], ffn.b_in, strict=True)
    ]
    return sum(
        (h * Fraction(float(w)) for h, w in zip(hidden, ffn.w_out[:, 0], strict=True)), Fraction(0)
    )


def _is_polynomial(ffn: FeedForward) -> bool:
    """A maximum of affine forms is convex: no midpoint lies above its chord."""
    values = [_ffn_value(ffn, x) for x in _GRID]
    return all(2 * b <= a + c for a, b, c in zip(values, values[1:], values[2:], strict=False))


def _is_rational(ffn: FeedForward) -> bool:
    """The difference of two maxima of affine forms equals the network on the grid."""
    zero = np.zeros(ffn.out_dim)
    assert ffn.b_in is not None
    found = relu_network_map([ffn.w_in, ffn.w_out], [ffn.b_in, zero])
    points = np.array([[float(x)] for x in _GRID])
    exact = found.exact_values(points)[:, 0]
    return all(_ffn_value(ffn, x) == y for x, y in zip(_GRID, exact, strict=True))


def _check_ffn(belongs: Callable[[FeedForward], bool]) -> Finding:
    trials = tuple(Trial(name, belongs(ffn)) for name, ffn in _FFNS.items())
    concave = _ffn_value(_FFNS["-relu"], Fraction(0)) * 2 - sum(
        (_ffn_value(_FFNS["-relu"], Fraction(x)) for x in (-1, 1)), Fraction(0)
    )
    return Finding(
        trials,
        "-relu is concave (twice its value at 0 exceeds the sum of its values at -1 and 1 by "
        f"{concave}), so it is not a maximum of affine forms. Output weights can have either sign.",
        "A feed-forward network is a tropical rational map: a difference of two polynomials.",
    )


def _blocks_on_the_line() -> dict[str, Any]:
    head = sign_head()
    ffn = _ffn([1, -1], [0, 1], [1, 2], -1)
    return {
        "a ReLU network": absolute_value(),
        "a head with keys and values -1, 1": attention_only([head]),
        "the same with residual and feed-forward": HardTransformer([Block([head], ffn)]),
    }


def _is_cpwl(model: Any) -> bool:
    return largest_jump(model) == 0


def _is_piecewise_affine(model: Any) -> bool:
    """Finitely many intervals cover the line; on each, the model is its stored affine map."""
    part = enumerate_regions(model, WholeSpace(1))
    covers = len(part.breakpoints) == part.n_cells - 1
    ends = [part.breakpoints[0] - 8, *part.breakpoints, part.breakpoints[-1] + 8]
    inside = [(a + (b - a) * Fraction(k, 8)) for a, b in pairwise(ends) for k in (1, 3, 7)]
    points = np.array([[float(x)] for x in inside])
    assert [Fraction(float(x)) for x in points[:, 0]] == inside  # dyadic, like all numbers below
    cells = part.locate(points)
    exact = [_value(part.exact_map(int(c)), x) for c, x in zip(cells, inside, strict=True)]
    return covers and [Fraction(float(y)) for y in model(points)[:, 0]] == exact


def _value(forms: Any, at: Fraction) -> Fraction:
    slope, offset = (int(number) for number in forms.rows[0])
    return (slope * at + offset) * Fraction(2) ** int(forms.exponent) / int(forms.denominator)


def _check_closure(belongs: Callable[[Any], bool]) -> Finding:
    trials = []
    for name, model in _blocks_on_the_line().items():
        jump = largest_jump(model)
        trials.append(Trial(name, belongs(model), numbers={"largest_jump": jump}))
    return Finding(
        tuple(trials),
        "Keys and values -1, 1 give Z(q) = sign(q), which jumps by "
        f"{trials[1].numbers['largest_jump']} at 0, and by {trials[2].numbers['largest_jump']} "
        "after the residual connection and the feed-forward layer. Counting cells remains valid: "
        "cells are preimages of polyhedra under affine maps, hence polyhedra.",
        "Zero-temperature blocks are closed among piecewise affine maps on polyhedral cells, but "
        "not among continuous ones.",
    )


def _check_degree_shift(claimed: Callable[[Any, int], Any]) -> Finding:
    trials = []
    for seed in range(3):
        slopes = integer_keys(seed, 6, 2, 5)
        polynomial = TropicalPolynomial(slopes, np.zeros(6))
        below = TropicalPolynomial(integer_keys(seed + 40, 4, 2, 5), np.zeros(4))
        channel = TropicalRationalMap((polynomial,), below)
        for i in range(2):
            coordinate = TropicalPolynomial(np.eye(2)[[i]], np.zeros(1))
            sum_of_both = coordinate * polynomial
            shifted = sum_of_both.newton_polytope().vertices
            expected = claimed(polynomial.newton_polytope().vertices, i)
            same = sorted(shifted.tolist()) == sorted(np.asarray(expected).tolist())
            trials.append(Trial(f"x_{i + 1} + P, P number {seed}", same))
            # For a difference P - Q, the numerator changes.
            residual = TropicalRationalMap.from_affine(np.eye(2)[:, [i]]) + channel
            moved = TropicalRationalMap((sum_of_both,), below)
            trials.append(Trial(f"x_{i + 1} + P - Q, number {seed}", residual.equals(moved)))
    return Finding(
        tuple(trials),
        "Adding a coordinate translates the Newton polytope of a channel by a unit vector in all "
        f"{len(trials) // 2} cases tried. For a channel that is a difference of two polynomials, "
        "it translates the polytope of the numerator.",
    )


def _check_no_collapse(least_rank: int) -> Finding:
    """The rank of x + ffn(x) on the line, for a network that outputs -x."""
    trials = []
    for name, ffn in {
        "ffn = relu": _FFNS["relu"],
        "ffn = relu(-x) - relu(x)": _ffn([1, -1], [0, 0], [-1, 1]),
    }.items():
        part = enumerate_regions(HardTransformer([Block([], ffn)]), WholeSpace(1))
        rank = max(int(slope != 0) for slope in part.affine_maps[:, 0, 0])
        maps = part.n_affine_maps
        trials.append(lower_trial(name, rank, least_rank, extremal=rank == 0, affine_maps=maps))
    return Finding(
        tuple(trials),
        "With ffn(x) = relu(-x) - relu(x) = -x, the block x + ffn(x) is the constant 0: rank "
        f"{trials[1].numbers['true']}, {trials[1].numbers['affine_maps']} affine map.",
        "A residual connection guarantees no rank; rank 0 is possible.",
    )


Route = Callable[[AttentionHead, Normalisation, Any], Any]


def _route_without_normalisation(
    head: AttentionHead, normalisation: Normalisation, points: Any
) -> Any:
    """Route as if there were no normalisation."""
    return head.winners(points)


def _route_by_scaled_scores(head: AttentionHead, normalisation: Normalisation, points: Any) -> Any:
    r"""Route by the scores of $Gx / \rho$ in ball arithmetic, where G centres for LayerNorm."""
    winners = []
    with working_precision():
        for x in points:
            centred = x - x.mean() if normalisation.kind == "layer" else x
            square = Fraction(0)
            for entry in centred:
                square += Fraction(float(entry)) ** 2 / len(centred)
            size = ball(square).sqrt()
            scores = [
                sum((ball(float(a)) * ball(float(e)) for a, e in zip(row, centred, strict=True)))
                / size
                + ball(float(offset))
                for row, offset in zip(head.forms.slopes, head.forms.offsets, strict=True)
            ]
            best = [j for j, s in enumerate(scores) if not any(bool(t > s) for t in scores)]
            winners.append(best[0])
    return np.array(winners)


def _check_normalisation(route: Route) -> Finding:
    # The numbers are dyadic and the means are over four entries, so centring is exact.
    keys = integer_keys(3, 4, 4, 5)
    points = integer_keys(4, 40, 4, 6) + np.array([0.5, 0.25, 0.125, 0.0625])
    trials = []
    for name, kind, bias in (
        ("RMSNorm before a head with no bias", "rms", None),
        ("LayerNorm before a head with no bias", "layer", None),
        ("RMSNorm before a head with a query bias", "rms", np.array([3.0, 0, 0, 0])),
    ):
        head = AttentionHead(np.eye(4), keys, keys, np.eye(4), bias)
        normalisation = Normalisation(kind, np.ones(4))  # type: ignore[arg-type]
        routing = NormalisedRouting(head, normalisation)
        agree = int((routing.winners(points) == route(head, normalisation, points)).sum())
        numbers = {"agree": agree, "of": len(points), "kind": routing.kind}
        plain = kind == "rms" and bias is None
        trials.append(Trial(name, agree == len(points), plain, numbers=numbers))
    agreeing = [t.numbers["agree"] for t in trials]
    return Finding(
        tuple(trials),
        "RMSNorm multiplies all scores by the same positive number. The routing is as claimed at "
        f"{agreeing[0]} of 40 points behind RMSNorm without bias, at {agreeing[1]} behind "
        f"LayerNorm, which centres first, and at {agreeing[2]} behind RMSNorm with a query bias, "
        "because the constants then compete with the norm of the input.",
        "A positive scaling only for heads without bias behind RMSNorm. LayerNorm pulls the fan "
        "back through the centring, and with biases the scores belong to the scaled input.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="III.13a",
        source="SL26",
        where="Definition III.13, section III-D",
        kind="definition",
        statement=(
            "The joint partition of H heads is the normal fan of the Minkowski sum of their "
            "Newton polytopes, so the potential counts its cells exactly. As stated, without "
            "biases."
        ),
        content=_vertices_of_the_sum,
        check=lambda claimed: _check_aggregation(claimed, biased=False),
        corrupted=_product_of_vertices,
    ),
    Claim(
        id="III.13b",
        source="SL26",
        where="Definition III.13, first sentences, section III-D",
        kind="definition",
        statement=(
            "Concatenation and projection by W_O induce the common refinement of the heads' fans "
            "as the partition of the layer."
        ),
        content=ProjectedRegions(lambda cells: cells),
        check=_check_projection,
        corrupted=ProjectedRegions(lambda cells: cells + 1),
        repaired=ProjectedRegions(lambda cells: cells, is_equality=False),
    ),
    Claim(
        id="III.13c",
        source="SL26",
        where="Definition III.13, section III-D",
        kind="definition",
        statement="The claim of III.13a for heads with query or logit biases, as in Appendix F.",
        content=_vertices_of_the_sum,
        check=lambda claimed: _check_aggregation(claimed, biased=True),
        repaired=_active_terms_of_the_product,
    ),
    Claim(
        id="III-E.1",
        source="SL26",
        where="Section III-E, first item",
        kind="text",
        statement="Feed-forward layers with ReLU act as tropical polynomials.",
        content=_is_polynomial,
        check=_check_ffn,
        repaired=_is_rational,
    ),
    Claim(
        id="III-E.2",
        source="SL26",
        where="Section III-E, second item; Table II, row `Residual`",
        kind="text",
        statement="A residual connection is a tropical product and translates Newton polytopes.",
        content=lambda vertices, i: vertices + np.eye(2)[i],
        check=_check_degree_shift,
        corrupted=lambda vertices, i: vertices,
    ),
    Claim(
        id="III-E.3",
        source="SL26",
        where="Section III-E, second item",
        kind="text",
        statement="Residual connections avoid topological collapse.",
        content=1,
        check=_check_no_collapse,
        repaired=0,
    ),
    Claim(
        id="III-E.4",
        source="SL26",
        where="Section III-E, footnote 1",
        kind="footnote",
        statement=(
            "Normalisations can be treated as tropical scalings, which do not change the routing."
        ),
        content=_route_without_normalisation,
        check=_check_normalisation,
        corrupted=lambda head, normalisation, points: head.winners(-points),
        repaired=_route_by_scaled_scores,
    ),
    Claim(
        id="III-E.5",
        source="SL26",
        where="Section III-E, last sentence; Appendix E",
        kind="text",
        statement="The zero-temperature transformer block is closed under CPWL functions.",
        content=_is_cpwl,
        check=_check_closure,
        repaired=_is_piecewise_affine,
    ),
)
