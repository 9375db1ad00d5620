r"""Theorem V.7, Remark V.8 and Corollary V.9 of [SL26]: transformers with many regions.

Every count is computed by `enumerate_regions` for a constructed model, on $[0, 1]^d$.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import comb, factorial
from typing import Any

import numpy as np

from hardmax.bounds import paper, transformer_lower, transformer_upper, zaslavsky
from hardmax.constructions.families.literal_shattering import literal_shattering_transformer
from hardmax.constructions.families.self_attention import (
    collapsing_self_attention,
    shattering_self_attention,
)
from hardmax.constructions.families.shattering import (
    attention_grid_transformer,
    bias_free_shattering_transformer,
    shattering_transformer,
)
from hardmax.exact.forms import AffineForms
from hardmax.geometry.domains import Box
from hardmax.geometry.refinement import common_refinement
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.papers.claims import Claim, Finding, Trial, equal_trial, lower_trial, upper_trial
from hardmax.papers.subjects.counting.cubes import unit_cube, upper_edge
from hardmax.papers.subjects.counting.growth import leading_coefficient
from hardmax.papers.subjects.counting.key_exponents import (
    check_standard_size,
    check_with_bias,
    check_without_bias,
    claimed_exponent,
    true_exponent,
)
from hardmax.papers.subjects.counting.polytope_sums import extremal_cells
from hardmax.papers.subjects.instances import integer_keys, largest_jump
from hardmax.regions.engines import enumerate_regions


def n_regions(model: Any, dim: int) -> int:
    """Count the linear regions of a model on the unit cube."""
    return int(enumerate_regions(model, unit_cube(dim)).n_regions)


def _check_without_bias(bound: Callable[[int, int, int, int], int]) -> Finding:
    """The model of the paper: a proven maximum, and the count of a constructed model on a slice."""
    trials = []
    for n, d, d_ff in ((8, 1, 2), (32, 2, 4), (64, 2, 8)):
        most = transformer_upper(n, d, d, d_ff, 1, bias="none")
        where = f"the most cells for N = {n}, H = d = {d}, d_ff = {d_ff}, L = 1"
        trials.append(lower_trial(where, most, bound(n, d, d_ff, 1)))
    for n, d_ff, depth in ((3, 4, 1), (4, 4, 2), (2, 8, 2)):
        model = bias_free_shattering_transformer(n, 2, depth, d_ff, 2, integer_weights=True)
        true = enumerate_regions(model, upper_edge()).n_regions
        where = f"built, on the slice x_2 = 1: N = {n}, H = d = 2, d_ff = {d_ff}, L = {depth}"
        trials.append(lower_trial(where, true, bound(n, 2, d_ff, depth), extremal=True))
    fails = ", ".join(f"{t.numbers['true']} < {t.numbers['claimed']}" for t in trials[:3])
    return Finding(
        tuple(trials),
        "The scores of Theorem IV.3 and Appendix E have no bias, and then no weights reach the "
        f"bound: {fails} (largest number of cells, and the bound).",
        "((1 + m(N-1)) 2w)^((d-1)L) with m = floor(H/(d-1)), w = floor(d_ff/2(d-1)): a coordinate "
        "with the constant value 1 replaces the bias.",
    )


def _without_bias(n: int, d: int, d_ff: int, depth: int) -> int:
    """Return the count reached without bias for H = d, on the slice with last coordinate 1."""
    if d == 1:
        return 1
    cells = 1 + d // (d - 1) * (n - 1)
    return int((cells * 2 * (d_ff // (2 * (d - 1)))) ** ((d - 1) * depth))


@dataclass(frozen=True)
class HeadSizes:
    """A lower bound on the number of regions, and the head sizes for which it is stated."""

    bound: Callable[[int, int, int, int], int]
    sizes: Callable[[int], bool]


def _check_with_bias(content: HeadSizes) -> Finding:
    trials = []
    for n, d, d_ff, depth in ((4, 1, 2, 2), (4, 1, 5, 1), (2, 2, 4, 2), (4, 2, 8, 1)):
        true = n_regions(literal_shattering_transformer(n, d, depth, d_ff), d)
        where = f"query (x_h, 1), fixed memory: N = {n}, H = d = {d}, d_ff = {d_ff}, L = {depth}"
        claimed = content.bound(n, d, d_ff, depth) if content.sizes(2) else 0
        trials.append(lower_trial(where, true, claimed, extremal=True))
    for n, d, d_ff in ((16, 2, 4), (64, 3, 12)):
        most = transformer_upper(n, d, d, d_ff, 1, bias="query", head_dim=1)
        where = f"head size d/H = 1: the most cells for N = {n}, H = d = {d}, d_ff = {d_ff}, L = 1"
        claimed = content.bound(n, d, d_ff, 1) if content.sizes(1) else 0
        trials.append(lower_trial(where, most, claimed, condition=False))
    pairs = ", ".join(f"{t.numbers['true']} >= {t.numbers['claimed']}" for t in trials[:4])
    fails = ", ".join(f"{t.numbers['true']} against {t.numbers['claimed']}" for t in trials[4:])
    return Finding(
        tuple(trials),
        f"Counts of constructed models: {pairs}. With head size d/H = 1, no weights reach the "
        f"bound: {fails}.",
        "(N^d (2w)^d)^L with a query bias, head size at least 2, and keys that are the same in "
        "every layer.",
    )


def _check_sharpness(bound: Callable[[int, int, int, int, int], int]) -> Finding:
    trials = []
    for n, h, d, d_ff, depth in (
        (4, 1, 1, 2, 2),
        (2, 2, 2, 4, 2),
        (3, 2, 1, 4, 2),
        (3, 4, 2, 4, 1),
    ):
        model = shattering_transformer(n, d, depth, d_ff, h, integer_weights=True)
        where = f"N = {n}, H = {h}, d = {d}, d_ff = {d_ff}, L = {depth}"
        claimed = bound(n, h, d, d_ff, depth)
        trials.append(lower_trial(where, n_regions(model, d), claimed, extremal=True))
    pairs = ", ".join(f"{t.numbers['true']} (stated: {t.numbers['claimed']})" for t in trials)
    return Finding(
        tuple(trials),
        "The theorem states `at least`, which is true with a query bias (V.7d), but its "
        f"construction gives more. Numbers of regions of constructed models: {pairs}. The "
        "construction has 2w pieces where the bound counts w teeth, which is a factor 2^(dL), and "
        "more than d heads increase the number further.",
        "((1 + m(N-1))^d (2w)^d)^L with m = floor(H/d), w = floor(d_ff/2d).",
    )


@dataclass(frozen=True)
class SelfAttention:
    """A network whose tokens all pass through its blocks, and the coordinates that its keys take.

    Attributes:
        build: The network as a function of N, d, L and d_ff.
        spare: The number of coordinates of a token that cannot be cut: with width D, the number
            of regions is (2 w N)^((D - spare) L).
    """

    build: Callable[[int, int, int, int], Any]
    spare: int


def _check_self_attention(content: SelfAttention) -> Finding:
    trials = []
    for n, d, depth, d_ff in ((4, 1, 1, 2), (4, 1, 3, 2), (3, 2, 2, 4)):
        model = content.build(n, d, depth, d_ff)
        where = f"N = {n}, width {model.width}, d_ff = {d_ff}, L = {depth}: all tokens pass through"
        regions = n_regions(model, d)
        free = model.width - content.spare
        claimed = (2 * (d_ff // (2 * d)) * n) ** (free * depth)
        numbers = {"width": model.width, "spare": content.spare}
        trials.append(lower_trial(where, regions, claimed, extremal=True, **numbers))
    counts = ", ".join(
        f"{t.numbers['true']} (claimed: {t.numbers['claimed']}, width {t.numbers['width']})"
        for t in trials
    )
    return Finding(
        tuple(trials),
        f"Numbers of regions: {counts}. If the context tokens pass "
        "through the same block, each of them becomes s(1/2) after the first layer. All keys then "
        "agree in the part that the query multiplies, so the routing no longer depends on the "
        "query (constructed with 1 and p_j^2 stored, and with the first unit of the fold bending "
        "outside the cell).",
        "True if tokens store their keys in coordinates that no block writes. This costs three "
        "coordinates, so self-attention of width D reaches N^((D-3)L), not N^(DL).",
    )


def images_fill_domain(
    images: Sequence[tuple[Fraction, Fraction]], walls: Sequence[Fraction]
) -> bool:
    """Whether the images of the cells of the first block together cover [0, 1]."""
    reach = Fraction(0)
    for low, high in sorted(images):
        if low > reach:
            return False
        reach = max(reach, high)
    return reach >= 1


def images_meet_all_cells(
    images: Sequence[tuple[Fraction, Fraction]], walls: Sequence[Fraction]
) -> bool:
    """Whether the image of every cell of the first block contains every wall of the second."""
    return all(low < wall < high for low, high in images for wall in walls)


def _check_necessity(
    condition: Callable[[Sequence[tuple[Fraction, Fraction]], Sequence[Fraction]], bool],
) -> Finding:
    trials = []
    for name, single, double, n in (
        ("V.7, N = 4, w = 1", _literal_transformer(1), _literal_transformer(2), 8),
        ("heads alone, N = 4", _grid_transformer(1), _grid_transformer(2), 4),
    ):
        first, both = (enumerate_regions(model, unit_cube(1)) for model in (single, double))
        full = both.n_affine_maps == n**2 and first.n_affine_maps == n
        ends = [Fraction(0), *first.breakpoints, Fraction(1)]
        images, walls = [], {Fraction(0)}
        for low, high in pairwise(ends):
            slope, offset = _slope_and_offset(first.exact_map(_cell_at(first, (low + high) / 2)))
            images.append(tuple(sorted((slope * low + offset, slope * high + offset))))
            walls |= {slope * w + offset for w in both.breakpoints if low < w < high}
        holds = condition(images, sorted(walls - {Fraction(0)}))
        numbers = {
            "regions": [first.n_regions, both.n_regions],
            "images": [list(i) for i in images],
        }
        trials.append(Trial(f"{name}: n and n^2 affine pieces", full and holds, numbers=numbers))
    alone = trials[1].numbers
    reach = max(high for _, high in alone["images"])
    return Finding(
        tuple(trials),
        "One and two layers of 4 keys without feed-forward layers cut [0, 1] into "
        f"{alone['regions'][0]} and {alone['regions'][1]} regions with as many affine maps, yet "
        f"the first layer maps [0, 1] into [0, {reach}]: a surjection onto an invariant domain is "
        "not necessary.",
        "A necessary and sufficient condition here: the image of every cell meets all cells of "
        "the next layer.",
    )


def _literal_transformer(depth: int) -> Any:
    return literal_shattering_transformer(4, 1, depth, 2)


def _grid_transformer(depth: int) -> Any:
    return attention_grid_transformer(4, 1, depth)


def _cell_at(part: Any, point: Fraction) -> int:
    return int(part.locate([[float(point)]])[0])


def _slope_and_offset(forms: Any) -> tuple[Fraction, Fraction]:
    scale = Fraction(2) ** forms.exponent / forms.denominator
    slope, offset = (int(number) * scale for number in forms.rows[0])
    return slope, offset


def _three_pieces(depth: int) -> HardTransformer:
    """Return blocks of two keys with three pieces per cell, which jump from 1 to 0 at the wall."""
    heads = literal_shattering_transformer(2, 1, 1, 2).blocks[0].heads
    kinks, slopes = np.array([0.0, 0.25, 0.5]), np.array([[4.0], [-8.0], [6.0]])
    fold = FeedForward(np.full((1, 3), 2.0), 0.5 - kinks, slopes, None)
    return HardTransformer([Block(heads, fold, ffn_residual=False)] * depth)


def _check_alignment(allowed: Callable[[Fraction], bool]) -> Finding:
    trials = []
    for name, build, n in (
        ("V.7, N = 4, w = 1: 8 pieces a block", _literal_transformer, 8),
        ("N = 2, three pieces in each cell: 6 pieces a block", _three_pieces, 6),
    ):
        counts = [n_regions(build(depth), 1) for depth in (1, 2, 3)]
        jump = largest_jump(build(1))
        full = counts == [n, n**2, n**3]
        numbers = {"regions": counts, "jump at the walls": jump}
        trials.append(Trial(name, full and allowed(jump), condition=jump == 0, numbers=numbers))
    odd = trials[1].numbers
    return Finding(
        tuple(trials),
        f"Blocks with three pieces in each of two cells have {odd['regions']} regions at depths "
        f"1, 2, 3, the maximum for these pieces, although they jump by {odd['jump at the walls']} "
        "at the wall of the heads.",
        "True only if the block has to be continuous; the count multiplies without alignment.",
    )


def _check_shattering(pieces: Callable[[int, int], int]) -> Finding:
    trials = []
    for d, d_ff in ((1, 2), (2, 4), (2, 6)):
        # One routing cell, here the cube, with units whose hyperplanes all cross inside it.
        weights = integer_keys(d_ff, d_ff, d, 9).T
        inside = np.random.default_rng(d_ff).uniform(0.4, 0.6, size=(d_ff, d))
        biases = [-(inside * weights.T).sum(axis=1), np.zeros(d_ff)]
        network = ReluNetwork([weights, np.eye(d_ff)], biases)
        most = enumerate_regions(network, Box(np.zeros(d) - 9, np.ones(d) + 9)).n_cells
        built = literal_shattering_transformer(2, d, 1, d_ff)
        cells = enumerate_regions(built, unit_cube(d)).n_cells // 2**d
        where = f"d = {d}, d_ff = {d_ff}: the most pieces of one routing cell"
        trials.append(equal_trial(where, most, pieces(d_ff, d), construction=cells))
    pairs = ", ".join(f"{t.numbers['construction']} of {t.numbers['true']}" for t in trials)
    return Finding(
        tuple(trials),
        "Pieces of a routing cell in the construction, and the largest number for as many units: "
        f"{pairs}.",
        "The maximum is R(d_ff, d); the construction has (2w)^d.",
    )


@cache
def _spread_layer(n: int, h: int, d: int) -> int:
    """Count the cells of heads with a query bias, spread evenly over the coordinates.

    Head g cuts coordinate g mod d at n - 1 integers, which no other head shares.
    """
    axes, forms = np.eye(d), []
    for g in range(h):
        cuts = np.arange(n - 1) * h + g
        slopes = np.outer(np.arange(float(n)), axes[g % d])
        forms.append(AffineForms(slopes, -np.concatenate([[0.0], np.cumsum(cuts)])))
    return common_refinement(forms).count


def spread_coefficient(n_heads: int, dim: int) -> int:
    r"""Return the coefficient of $N^d$ in the cells of heads spread evenly over the coordinates.

    With $H = qd + s$, $0 \le s < d$, there are $q + 1$ heads on $s$ coordinates and $q$ on the
    others, and $\prod_i (1 + m_i(N-1))$ cells: the coefficient is $\prod_i m_i = q^{d-s}(q+1)^s$.
    No layer with a query bias has a larger coefficient than $\binom Hd$, and for $H \ge d$

    $$\binom Hd \Big/ \prod_i m_i \le \frac{d^d}{d!}.$$

    *Proof.* $d! \binom Hd$ is the product of $H - i$ over $i = 0, \dots, d - 1$. For $i < s$,
    $H - i \le H \le d(q + 1)$; for $i \ge s$, $H - i \le H - s = dq$. $\square$

    Examples:
        >>> spread_coefficient(3, 2), spread_coefficient(5, 3), spread_coefficient(4, 4)
        (2, 4, 1)
    """
    quotient, rest = divmod(n_heads, dim)
    return int(quotient ** (dim - rest) * (quotient + 1) ** rest)


def _check_gap(coefficient: Callable[[int, int], int | Fraction]) -> Finding:
    trials = []
    for h, d in ((1, 1), (4, 1), (2, 2), (3, 2), (5, 2), (8, 2), (3, 3), (4, 3), (5, 3)):
        keys = range(2, 4 + d)
        highest = leading_coefficient([extremal_cells(n, h, d, "query") for n in keys])
        built = leading_coefficient([_spread_layer(n, h, d) for n in keys])
        lowest = Fraction(coefficient(h, d))
        where = (
            f"H = {h}, d = {d}: coefficient of N^d in the bound below, and in heads that are built"
        )
        trials.append(lower_trial(where, built, lowest, condition=h == d, extremal=True))
        where = f"H = {h}, d = {d}: highest over lowest coefficient of N^d, at most d^d/d!"
        limit = Fraction(d**d, factorial(d))
        gap = highest / lowest if lowest > 0 else highest + limit
        trials.append(upper_trial(where, gap, limit, condition=h == d, highest=highest))
    every = [
        Fraction(comb(h, d)) <= Fraction(d**d, factorial(d)) * max(coefficient(h, d), 0)
        for d in range(1, 9)
        for h in range(d, 60)
    ]
    trials.append(
        Trial(
            f"binom(H, d) over the coefficient, d = 1 to 8, H = d to 59 ({len(every)} pairs)",
            all(every),
            condition=False,
            numbers={"exceeded": len(every) - sum(every)},
        )
    )
    gaps = ", ".join(
        f"{t.numbers['true']} ({t.instance.split(':')[0]})"
        for t in trials
        if "highest over" in t.instance
    )
    return Finding(
        tuple(trials),
        "Ratio of the coefficients of N^d in the largest count and in the lower bound, for one "
        f"layer with a query bias: {gaps}. With a lower bound that uses only d heads, this ratio "
        "grows with H.",
        "With heads spread evenly over the coordinates, m_i of them on coordinate i, the ratio "
        "binom(H, d) / prod m_i is at most d^d/d! per layer, for every H >= d.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        "V.7a",
        "SL26",
        "Theorem V.7, section V-B",
        "theorem",
        "With H = d heads and d_ff >= 2d, some weights give at least (N^d floor(d_ff/2d)^d)^L "
        "regions on [0, 1]^d. As stated: the scores are <q, k_j>, without biases.",
        content=paper.theorem_v7,
        check=_check_without_bias,
        repaired=_without_bias,
    ),
    Claim(
        "V.7b",
        "SL26",
        "Theorem V.7, section V-B",
        "theorem",
        "The lower bound of V.7a, compared with the count of the construction in its proof (with a "
        "query bias).",
        content=lambda n, h, d, d_ff, depth: paper.theorem_v7(n, d, d_ff, depth),
        check=_check_sharpness,
        corrupted=lambda n, h, d, d_ff, depth: 3 * transformer_lower(n, h, d, d_ff, depth),
        repaired=lambda n, h, d, d_ff, depth: transformer_lower(n, h, d, d_ff, depth, bias="query"),
    ),
    Claim(
        "V.7c",
        "SL26",
        "Theorem V.7, section V-B, and Appendix F",
        "theorem",
        "The theorem speaks of transformers with sequence length N, so its weights give as many "
        "regions even if keys and values come from tokens that pass through the same blocks (two "
        "more coordinates store 1 and p_j^2).",
        content=SelfAttention(collapsing_self_attention, spare=2),
        check=_check_self_attention,
        repaired=SelfAttention(shattering_self_attention, spare=3),
        neighbours={
            "repaired: one token fewer": SelfAttention(
                lambda n, d, depth, d_ff: shattering_self_attention(n - 1, d, depth, d_ff), 3
            ),
            "repaired: keys that are written": SelfAttention(collapsing_self_attention, spare=3),
        },
    ),
    Claim(
        "V.7d",
        "SL26",
        "Theorem V.7, section V-B, with the query (x_h, 1) of Appendix F",
        "theorem",
        "The lower bound of V.7a with a query bias, whatever the head size.",
        content=HeadSizes(paper.theorem_v7, lambda head_dim: True),
        check=_check_with_bias,
        corrupted=HeadSizes(
            lambda n, d, d_ff, depth: 2 * paper.appendix_f(n, d, d_ff, depth),
            lambda head_dim: True,
        ),
        repaired=HeadSizes(paper.appendix_f, lambda head_dim: head_dim >= 2),
        unmoved={
            "content.bound": "a lower bound that is not attained stays one when moved by 1",
        },
    ),
    Claim(
        "V.8a",
        "SL26",
        "Remark V.8, first item, section V-B",
        "remark",
        "For the count to multiply with depth, the blocks must map an invariant domain onto "
        "itself.",
        content=images_fill_domain,
        check=_check_necessity,
        repaired=images_meet_all_cells,
    ),
    Claim(
        "V.8b",
        "SL26",
        "Remark V.8, second item, section V-B",
        "remark",
        "The walls of the attention and the folds of the feed-forward layer have to be aligned.",
        content=lambda jump: jump == 0,
        check=_check_alignment,
        corrupted=lambda jump: jump != 0,
        repaired=lambda jump: True,
    ),
    Claim(
        "V.8c",
        "SL26",
        "Remark V.8, third item, section V-B",
        "remark",
        "In the construction, the feed-forward layer maximally shatters every routing cell.",
        content=lambda d_ff, dim: (2 * (d_ff // (2 * dim))) ** dim,
        check=_check_shattering,
        repaired=zaslavsky,
    ),
    Claim(
        "V.9a",
        "SL26",
        "Corollary V.9, section V-B",
        "corollary",
        "For H >= d, the largest number of regions is of the exact order N^(dL). As stated, "
        "without biases.",
        content=claimed_exponent,
        check=lambda exponent: check_without_bias(exponent, saturated=True),
        repaired=true_exponent,
    ),
    Claim(
        "V.9b",
        "SL26",
        "Corollary V.9, section V-B",
        "corollary",
        "The remaining gap between the bounds (Theorems V.5 and V.7, with a query bias) consists "
        "of constants that depend only on the dimension.",
        content=lambda n_heads, dim: 1,
        check=_check_gap,
        corrupted=lambda n_heads, dim: Fraction(1, 10),
        repaired=spread_coefficient,
        neighbours={
            "repaired: floor(H/d) heads each": lambda n_heads, dim: (n_heads // dim) ** dim
        },
    ),
    Claim(
        "V.9c",
        "SL26",
        "Corollary V.9, section V-B",
        "corollary",
        "For H >= d, the largest number of regions is of the exact order N^(dL), with a query "
        "bias.",
        content=claimed_exponent,
        check=lambda exponent: check_with_bias(exponent, saturated=True),
        corrupted=lambda setting: setting.dim * setting.depth + 1,
        repaired=true_exponent,
    ),
    Claim(
        "V.9d",
        "SL26",
        "Corollary V.9, section V-B, with the head size of Example V.3",
        "corollary",
        "The order is N^(dL) even with the standard head size d/H (and a query bias).",
        content=claimed_exponent,
        check=check_standard_size,
        repaired=true_exponent,
    ),
)
