"""Abstract, introduction, related work and conclusion of [SL26]: announced results; Figure 1."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.bounds.attention import attention_cells
from hardmax.bounds.paper import naive_hyperplanes
from hardmax.bounds.sizes import Bias
from hardmax.constructions.families.shattering import shattering_count, shattering_transformer
from hardmax.exact.forms import AffineForms
from hardmax.geometry.domains import Box
from hardmax.geometry.refinement import common_refinement
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.papers.claims import Claim, Finding, Trial, equal_trial
from hardmax.papers.subjects.counting.key_exponents import (
    check_with_bias,
    check_without_bias,
    claimed_exponent,
    true_exponent,
)
from hardmax.papers.subjects.instances import integer_keys
from hardmax.regions.engines import enumerate_regions
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.tropical.rational_maps import TropicalRationalMap
from hardmax.tropical.relu_maps import relu_network_map
from hardmax.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNIT_SQUARE = Box(np.zeros(2), np.ones(2))


def _check_growing_picture(shown: tuple[int, ...] | None) -> Finding:
    """Three depths, N = 4 and d = 2: the picture gives no counts, weights, d_ff or H."""
    counted = [
        enumerate_regions(shattering_transformer(4, 2, depth, 4), UNIT_SQUARE).n_cells
        for depth in (1, 2)
    ]
    counted.append(shattering_count(4, 2, 3, 4))
    rng = np.random.default_rng(1)
    typical = enumerate_regions(
        HardTransformer([_random_block(rng), _random_block(rng)]), UNIT_SQUARE
    )
    true = None if shown is None else list(shown) == counted
    return Finding(
        (
            Trial(
                "the counts at depth 1, 2, 3",
                true,
                numbers={"construction": counted, "random_depth_2": typical.n_cells},
            ),
        ),
        "The caption gives no counts, weights, number of heads or feed-forward width, and three "
        "depths at a single N cannot show an exponent of N: any three numbers are consistent with "
        f"Theta(N^(dL)). The construction of Theorem V.7 has {counted[0]} and {counted[1]} "
        f"regions at depths 1 and 2 (counted; {counted[2]} at depth 3 by its formula), while "
        f"random weights give {typical.n_cells} cells at depth 2 on the unit square.",
        figure=_draw_depth,
    )


def _random_block(rng: np.random.Generator) -> Block:
    heads = [
        AttentionHead(
            rng.normal(size=(2, 2)),
            rng.normal(size=(4, 2)),
            rng.normal(size=(4, 2)),
            np.eye(2),
            rng.normal(size=2),
        )
        for _ in range(2)
    ]
    ffn = FeedForward(
        rng.normal(size=(2, 4)), rng.normal(size=4), rng.normal(size=(4, 2)), rng.normal(size=2)
    )
    return Block(heads, ffn)


def _draw_depth() -> "Figure":
    from hardmax.plotting.drawing import plot
    from hardmax.plotting.style import create_row

    figure: Figure
    figure, axes = create_row(2)
    for ax, (n_keys, depth) in zip(axes, ((4, 1), (2, 2)), strict=True):
        part = enumerate_regions(shattering_transformer(n_keys, 2, depth, 4), UNIT_SQUARE)
        plot(part, ax)
        ax.set_title(f"N = {n_keys}, L = {depth}: {part.n_cells} cells")
    return figure


@dataclass(frozen=True)
class GhostRegions:
    """The count that hyperplane formulas give for a layer, and where it is claimed to be too large.

    Attributes:
        naive: The count as a function of N, H, d and the kind of bias.
        exceeds: Whether the count exceeds the number of routing cells, as a function of the same.
    """

    naive: Callable[[int, int, int, Bias], int]
    exceeds: Callable[[int, int, int, Bias], bool]


def _all_pairs(n: int, heads: int, dim: int, bias: Bias) -> int:
    return naive_hyperplanes(n, heads, dim, bias=bias)


def _has_ghost_walls(n: int, heads: int, dim: int, bias: Bias) -> bool:
    """Whether, for all keys, some wall has points where neither of its two keys wins."""
    return n >= 3 and (dim >= 2 or bias != "none")


def _check_ghosts(content: GhostRegions) -> Finding:
    trials = []
    settings: tuple[tuple[int, int, int, Bias], ...] = (
        (6, 3, 3, "none"),
        (8, 2, 2, "none"),
        (3, 1, 2, "none"),
        (2, 5, 3, "none"),
        (4, 2, 1, "none"),
        (6, 3, 3, "query"),
        (3, 1, 1, "query"),
        (2, 5, 3, "query"),
    )
    for n, heads, dim, bias in settings:
        most, count = attention_cells(n, heads, dim, bias=bias), content.naive(n, heads, dim, bias)
        trials.append(
            Trial(
                f"N = {n}, H = {heads}, d = {dim}, bias: {bias}",
                (count > most) == content.exceeds(n, heads, dim, bias),
                _has_ghost_walls(n, heads, dim, bias),
                numbers={"naive": count, "largest_number_of_cells": most},
            )
        )
    for n, heads, dim, bias in ((4, 1, 2, "none"), (3, 2, 3, "none"), (4, 1, 2, "query")):
        planes = _random_planes(heads * comb(n, 2), dim, bias)
        name = f"cells of {len(planes)} random hyperplanes in R^{dim}, bias: {bias}"
        counted = common_refinement(planes).count
        trials.append(equal_trial(name, counted, content.naive(n, heads, dim, bias)))
    pairs = ", ".join(
        f"{t.numbers['naive']} and {t.numbers['largest_number_of_cells']} ({t.instance})"
        for t in trials[: len(settings)]
    )
    return Finding(
        tuple(trials),
        "Number of regions of all pairwise hyperplanes, and the largest number of routing cells: "
        f"{pairs}.",
        "True for three or more keys in two or more dimensions (with a bias, in one dimension as "
        "well). With two keys per head, every hyperplane is a wall; on a line without bias, there "
        "is only one hyperplane.",
    )


def _random_planes(n_planes: int, dim: int, bias: Bias) -> list[AffineForms]:
    rows = integer_keys(7 * n_planes + dim, n_planes, dim + 1, 9999)
    zero = np.zeros(dim)
    return [
        AffineForms(np.stack([row[:dim], zero]), np.array([row[dim] * (bias != "none"), 0.0]))
        for row in rows
    ]


def _sorted_norms(keys: FloatArray) -> Any:
    return tuple(sorted((keys**2).sum(axis=1).tolist()))


def _hull_vertices(keys: FloatArray) -> Any:
    return tuple(sorted(map(tuple, keys[PowerDiagram.from_keys(keys).active].tolist())))


def _partition(keys: FloatArray) -> list[int]:
    """For each of 80 query points, return the index of the first point with the same winner."""
    winners = PowerDiagram.from_keys(keys).locate(integer_keys(77, 80, 2, 40) + 0.25).tolist()
    return [winners.index(winner) for winner in winners]


def _check_invariant(invariant: Callable[[FloatArray], Any]) -> Finding:
    spread = np.array([[1.0, 0.0], [-2.0, 0.0], [0.0, 3.0]])
    line = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    turned = np.array([[0.0, 1.0], [0.0, -2.0], [3.0, 0.0]])
    inside = np.vstack([spread, [[0.0, 0.5]]])
    trials = []
    for name, first, second in (
        ("keys of norms 1, 2, 3, spread and on a line", spread, line),
        ("keys of norms 1, 2, 3, spread in two ways", spread, turned),
        ("three keys, and the same with one inside their hull", spread, inside),
    ):
        cells = [PowerDiagram.from_keys(keys).n_cells for keys in (first, second)]
        same = _partition(first) == _partition(second)
        contradiction = invariant(first) == invariant(second) and not same
        numbers = {"cells": cells, "same_partition": same}
        trials.append(Trial(name, not contradiction, numbers=numbers))
    return Finding(
        tuple(trials),
        f"Two sets of keys with the norms 1, 2, 3 have {trials[0].numbers['cells'][0]} and "
        f"{trials[0].numbers['cells'][1]} cells. This tests the sentence as it is worded; in "
        "Theorem IV.3 the sites are the keys themselves, with these weights, and that is correct "
        "(IV.3a).",
        "The cells are determined by the vertices of the convex hull of the keys: they form its "
        "normal fan. The weights |k_j|^2 only compensate for the Euclidean distance.",
    )


def _full_rational_map(network: ReluNetwork) -> TropicalRationalMap:
    return relu_network_map(list(network.weights), list(network.biases or ()))


def _numerator_only(network: ReluNetwork) -> TropicalRationalMap:
    whole = _full_rational_map(network)
    return TropicalRationalMap(whole.numerators, TropicalPolynomial.constant(0.0, whole.dim_in))


@dataclass(frozen=True)
class RationalForm:
    """A method that writes a ReLU network as a tropical rational map, and its admissible exponents.

    Attributes:
        of: The map as a function of the network.
        allowed: Whether a number may be an exponent (Definition III.5 requires integers).
    """

    of: Callable[[ReluNetwork], TropicalRationalMap]
    allowed: Callable[[Fraction], bool]


def _is_integral(exponent: Fraction) -> bool:
    return exponent.denominator == 1


def _check_relu_networks(content: RationalForm) -> Finding:
    trials, sizes = [], []
    for seed, (widths, scale) in enumerate(
        (((2, 3, 1), 1.0), ((2, 2, 2, 1), 1.0), ((1, 3, 2), 1.0), ((2, 3, 1), 0.5))
    ):
        weights = [
            scale * integer_keys(seed + 7 * i, a, b, 3) for i, (a, b) in enumerate(pairwise(widths))
        ]
        biases = [integer_keys(seed + 90 + i, 1, b, 3)[0] for i, b in enumerate(widths[1:])]
        network = ReluNetwork(weights, biases)
        rational = content.of(network)
        points = integer_keys(seed, 60, widths[0], 12) / 4
        exact = np.array(rational.exact_values(points), dtype=np.float64)
        sizes.append(rational.n_terms)
        # The numbers are small and dyadic, so the evaluation of the network in floats is exact.
        same = bool((exact == network(points)).all())
        exponents = [
            Fraction(float(exponent))
            for polynomial in (*rational.numerators, rational.denominator)
            for exponent in polynomial.slopes.flat
        ]
        refused = sum(not content.allowed(exponent) for exponent in exponents)
        integral = all(map(_is_integral, exponents))
        trials.append(
            Trial(
                f"widths {list(widths)}, weights multiples of {scale:g}",
                same and not refused,
                integral or not same,
                numbers={
                    "terms": rational.n_terms,
                    "same_values": same,
                    "exponents_not_allowed": refused,
                },
            )
        )
    return Finding(
        tuple(trials),
        f"{sum(bool(t.numbers['same_values']) for t in trials)} of {len(trials)} networks, "
        f"written as differences of tropical polynomials ({', '.join(map(str, sizes))} terms), "
        "have exactly the same values as the network at 60 rational points each. If the weights "
        "are multiples of 1/2, not all exponents are integers, as Definition III.5 requires "
        f"({trials[-1].numbers['exponents_not_allowed']} are not).",
        "True for integer weights, and for all weights if exponents may be real (see III.5a).",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="Fig1",
        source="SL26",
        where="Caption of Figure 1, section I",
        kind="figure",
        statement=(
            "For d = 2 and N = 4, the number of linear regions at depths 1, 2, 3 strictly follows "
            "Theta(N^(dL))."
        ),
        content=None,
        check=_check_growing_picture,
        corrupted=(49, 49**2, 49**3),
        repaired=(64, 4096, 262144),
    ),
    Claim(
        id="I.1",
        source="SL26",
        where="Section I, third obstacle and third contribution",
        kind="text",
        statement=(
            "Hyperplane arrangement formulas count inactive hyperplanes, and therefore exceed the "
            "number of routing cells."
        ),
        content=GhostRegions(_all_pairs, lambda n, heads, dim, bias: True),
        check=_check_ghosts,
        corrupted=GhostRegions(
            lambda n, heads, dim, bias: attention_cells(n, heads, dim, bias=bias),
            lambda n, heads, dim, bias: True,
        ),
        repaired=GhostRegions(_all_pairs, _has_ghost_walls),
    ),
    Claim(
        id="I.2",
        source="SL26",
        where="Section I, first contribution",
        kind="text",
        statement=(
            "The cells of attention are intrinsically determined by the squared norms of the keys "
            "(as worded: by the norms alone)."
        ),
        content=_sorted_norms,
        check=_check_invariant,
        repaired=_hull_vertices,
        neighbours={
            "repaired: how many vertices there are": lambda keys: len(_hull_vertices(keys))
        },
        unmoved={
            "repaired[": "invariants are compared with each other; changing all alike has no effect"
        },
    ),
    Claim(
        id="I.3a",
        source="SL26",
        where="Abstract; section I, third contribution",
        kind="text",
        statement=(
            "The tight maximum number of regions of transformers is Theta(N^(dL)). As stated: the "
            "scores are <q, k_j>, without biases."
        ),
        content=claimed_exponent,
        check=lambda exponent: check_without_bias(exponent, saturated=False),
        repaired=true_exponent,
    ),
    Claim(
        id="I.3b",
        source="SL26",
        where="Abstract; section I, third contribution",
        kind="text",
        statement="The claim of I.3a for heads with a query bias, as in Appendix F.",
        content=claimed_exponent,
        check=lambda exponent: check_with_bias(exponent, saturated=False),
        corrupted=lambda setting: setting.dim * setting.depth + 1,
        repaired=true_exponent,
    ),
    Claim(
        id="II.1",
        source="SL26",
        where="Section II-B",
        kind="text",
        statement=(
            "Feed-forward networks with ReLU are tropical rational maps (the polynomials of which "
            "have integer exponents, by Definition III.5)."
        ),
        content=RationalForm(_full_rational_map, _is_integral),
        check=_check_relu_networks,
        corrupted=RationalForm(_numerator_only, _is_integral),
        repaired=RationalForm(_full_rational_map, lambda exponent: True),
        neighbours={
            "content: the numerator alone": RationalForm(_numerator_only, _is_integral),
            "repaired: the numerator alone": RationalForm(_numerator_only, lambda exponent: True),
        },
    ),
)
