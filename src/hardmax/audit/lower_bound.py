r"""Theorem V.7, Remark V.8 and Corollary V.9 of [SL26]: transformers with many regions.

Every count is one of `enumerate_regions` on a model that is built, on $[0, 1]^d$.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import factorial
from typing import Any

import numpy as np

from hardmax.algebra.forms import AffineForms
from hardmax.audit.claims import Claim, Finding, Trial, equal_trial, lower_trial, upper_trial
from hardmax.audit.cubes import unit_cube
from hardmax.audit.growth import leading_coefficient, polynomial_degree
from hardmax.audit.instances import integer_keys, largest_jump
from hardmax.bounds import paper, transformer_lower, transformer_upper, zaslavsky
from hardmax.constructions.extremal_points import extremal_heads
from hardmax.constructions.literal_shattering import literal_shattering_transformer
from hardmax.constructions.self_attention import (
    collapsing_self_attention,
    shattering_self_attention,
)
from hardmax.constructions.shattering import attention_grid_transformer, shattering_transformer
from hardmax.geometry.domains import Box
from hardmax.geometry.refinement import common_refinement
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.engines import enumerate_regions


def n_regions(model: Any, dim: int) -> int:
    """Count the linear regions of a model on the unit cube."""
    return int(enumerate_regions(model, unit_cube(dim)).n_regions)


def _check_lower_bound(bound: Callable[[int, int, int, int], int]) -> Finding:
    trials = []
    for n, d, d_ff, depth in ((4, 1, 2, 2), (4, 1, 5, 1), (2, 2, 4, 2), (4, 2, 8, 1)):
        true = n_regions(literal_shattering_transformer(n, d, depth, d_ff), d)
        where = f"query (x_h, 1), fixed memory: N = {n}, H = d = {d}, d_ff = {d_ff}, L = {depth}"
        trials.append(lower_trial(where, true, bound(n, d, d_ff, depth)))
    for n, d, d_ff in ((8, 1, 2), (32, 2, 4)):
        most = transformer_upper(n, d, d, d_ff, 1, bias="none")
        where = f"no query bias: the most cells for N = {n}, H = d = {d}, d_ff = {d_ff}, L = 1"
        trials.append(lower_trial(where, most, bound(n, d, d_ff, 1), condition=False))
    most = transformer_upper(16, 2, 2, 4, 1, bias="query", head_dim=1)
    where = "head size d/H = 1: the most cells for N = 16, H = d = 2, d_ff = 4, L = 1"
    trials.append(lower_trial(where, most, bound(16, 2, 4, 1), condition=False))
    pairs = ", ".join(f"{t.numbers['true']} >= {t.numbers['claimed']}" for t in trials[:4])
    fails = ", ".join(f"{t.numbers['true']} < {t.numbers['claimed']}" for t in trials[4:])
    return Finding(
        tuple(trials),
        f"Built and counted: {pairs}. Without a query bias, or with head size d/H = 1, no weights "
        f"reach the bound: {fails}.",
        "With a query bias (or a coordinate that stays 1), head size at least 2, and keys that "
        "every layer finds unchanged.",
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
    pairs = ", ".join(f"{t.numbers['true']} (stated {t.numbers['claimed']})" for t in trials)
    return Finding(
        tuple(trials),
        f"Regions of built models: {pairs}. The construction has 2w pieces where the bound counts "
        "w teeth, a factor 2^(dL), and more heads than d help as well.",
        "((1 + m(N-1))^d (2w)^d)^L with m = floor(H/d), w = floor(d_ff/2d).",
    )


def _check_self_attention(build: Callable[[int, int, int, int], Any]) -> Finding:
    trials = []
    for n, d, depth, d_ff in ((4, 1, 1, 2), (4, 1, 3, 2), (3, 2, 3, 4)):
        where = f"all tokens pass through the blocks: N = {n}, d = {d}, d_ff = {d_ff}, L = {depth}"
        claimed = paper.theorem_v7(n, d, d_ff, depth)
        trials.append(lower_trial(where, n_regions(build(n, d, depth, d_ff), d), claimed))
    counts = ", ".join(f"{t.numbers['true']} for {t.numbers['claimed']}" for t in trials)
    return Finding(
        tuple(trials),
        f"Regions against the bound: {counts}. If the context tokens pass through the same block, "
        "every one becomes s(1/2) after the first layer, all keys agree in what the query "
        "multiplies, and nothing is routed any more (built with 1 and p_j^2 stored and the first "
        "unit of the fold bending outside the cell).",
        "True for self-attention if tokens store their keys in coordinates no block writes.",
    )


def images_fill_domain(
    images: Sequence[tuple[Fraction, Fraction]], walls: Sequence[Fraction]
) -> bool:
    """Whether the images of the cells of the first block together are all of [0, 1]."""
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
        ("V.7, N = 4, w = 1", _literal(1), _literal(2), 8),
        ("heads alone, N = 4", _digits(1), _digits(2), 4),
    ):
        first, both = (enumerate_regions(model, unit_cube(1)) for model in (single, double))
        full = both.n_affine_maps == n**2 and first.n_affine_maps == n
        ends = [Fraction(0), *first.breakpoints, Fraction(1)]
        images, walls = [], {Fraction(0)}
        for low, high in pairwise(ends):
            slope, offset = _affine(first.exact_map(_cell_at(first, (low + high) / 2)))
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
        f"One and two layers of 4 keys without feed-forward part cut [0, 1] into "
        f"{alone['regions'][0]} and {alone['regions'][1]} regions with as many affine maps, yet "
        f"the first layer maps [0, 1] into [0, {reach}]: a surjection onto an invariant domain is "
        "not necessary.",
        "Necessary and sufficient here: the image of every cell meets all cells of the next layer.",
    )


def _literal(depth: int) -> Any:
    return literal_shattering_transformer(4, 1, depth, 2)


def _digits(depth: int) -> Any:
    return attention_grid_transformer(4, 1, depth)


def _cell_at(part: Any, point: Fraction) -> int:
    return int(part.locate([[float(point)]])[0])


def _affine(forms: Any) -> tuple[Fraction, Fraction]:
    scale = Fraction(2) ** forms.exponent / forms.denominator
    slope, offset = (int(number) * scale for number in forms.rows[0])
    return slope, offset


def _three_pieces(depth: int) -> HardTransformer:
    """Return blocks of two keys and three pieces per cell, which jump from 1 to 0 at the wall."""
    heads = literal_shattering_transformer(2, 1, 1, 2).blocks[0].heads
    kinks, slopes = np.array([0.0, 0.25, 0.5]), np.array([[4.0], [-8.0], [6.0]])
    fold = FeedForward(np.full((1, 3), 2.0), 0.5 - kinks, slopes, None)
    return HardTransformer([Block(heads, fold, ffn_residual=False)] * depth)


def _check_alignment(allowed: Callable[[Fraction], bool]) -> Finding:
    trials = []
    for name, build, n in (
        ("V.7, N = 4, w = 1: 8 pieces a block", _literal, 8),
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
        f"Blocks with three pieces in each of two cells have {odd['regions']} regions by depth, as "
        f"many as pieces allow, and jump by {odd['jump at the walls']} at the wall of the heads.",
        "Only if the block is to be continuous; the count multiplies without.",
    )


def _check_shattered(pieces: Callable[[int, int], int]) -> Finding:
    trials = []
    for d, d_ff in ((1, 2), (2, 4), (2, 6)):
        # One routing cell, here the cube, and units whose hyperplanes all cross inside it.
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
        f"Pieces of a routing cell in the construction, of those as many units can make: {pairs}.",
        "Maximal would be R(d_ff, d); the construction has (2w)^d.",
    )


def _count_heads(n: int, h: int, d: int, bias: Any) -> int:
    return common_refinement([head.forms for head in extremal_heads(n, h, d, bias=bias)]).count


def _heads_of_size_one(n: int) -> int:
    keys = np.arange(n, dtype=np.float64)[:, None]  # query x - 1/2, no logit bias
    return common_refinement([AffineForms(keys, -0.5 * keys[:, 0])]).count


def _check_tightness(exponent: Callable[[int, int], int]) -> Finding:
    cases: list[tuple[str, int, int, bool, Callable[[int], int]]] = [
        ("bias, H = d = 1, L = 1", 1, 1, True, lambda n: n_regions(_shatter(n, 1, 1), 1)),
        ("bias, H = d = 1, L = 2", 1, 2, True, lambda n: n_regions(_shatter(n, 1, 2), 1)),
        ("bias, H = d = 2, L = 1", 2, 1, True, lambda n: n_regions(_shatter(n, 2, 1), 2)),
        ("no bias, H = d = 2, L = 1", 2, 1, False, lambda n: _count_heads(n, 2, 2, "none")),
        ("no bias, H = d = 3, L = 1", 3, 1, False, lambda n: _count_heads(n, 3, 3, "none")),
        ("query bias, head size 1, H = d = 1, L = 1", 1, 1, False, _heads_of_size_one),
        (
            "context tokens updated, H = d = 1, L = 2",
            1,
            2,
            False,
            lambda n: n_regions(collapsing_self_attention(n, 1, 2, 2), 1),
        ),
    ]
    trials = []
    for name, d, depth, condition, count in cases:
        counts = [count(n) for n in range(3, 8)]
        true = polynomial_degree(counts)
        claimed = exponent(d, depth)
        trials.append(equal_trial(name, true, claimed, condition=condition, counts=counts))
    degrees = "; ".join(f"{t.instance}: {t.numbers['true']}" for t in trials)
    return Finding(
        tuple(trials),
        f"Degrees in N of the largest or built counts, N = 3 to 7: {degrees}.",
        "N^(dL) with a query bias and head size at least 2 (or a logit bias per key), H >= d, "
        "d_ff >= 2d and a memory that stays; N^((d-1)L) without bias.",
    )


def _shatter(n: int, d: int, depth: int) -> Any:
    return shattering_transformer(n, d, depth, 2 * d, integer_weights=True)


def _check_gap(coefficient: Callable[[int, int], int | Fraction]) -> Finding:
    trials = []
    for d in (1, 2):
        for h in (d, 2 * d, 4 * d):
            counts = [_count_heads(n, h, d, "query") for n in range(2, 7)]
            gap = leading_coefficient(counts) / Fraction(coefficient(h, d))
            where = f"H = {h}, d = {d}: highest over lowest coefficient of N^d, at most d^d/d!"
            limit = Fraction(d**d, factorial(d))
            trials.append(upper_trial(where, gap, limit, condition=h == d))
    gaps = ", ".join(
        f"{t.numbers['true']} (H = {t.instance[4:].split(',')[0]})" for t in trials[3:]
    )
    return Finding(
        tuple(trials),
        f"Factor between the largest count and the lower bound for d = 2, one layer: {gaps}. With "
        "a lower bound that uses d heads only, it grows with H.",
        "With floor(H/d) heads per coordinate the factor stays below d^d/d! per layer.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        "V.7a",
        "SL26",
        "Theorem V.7, section V-B",
        "theorem",
        "With H = d heads and d_ff >= 2d some weights give at least (N^d floor(d_ff/2d)^d)^L "
        "regions on [0, 1]^d.",
        content=paper.theorem_v7,
        check=_check_lower_bound,
        corrupted=lambda n, d, d_ff, depth: 2 * paper.appendix_f(n, d, d_ff, depth),
    ),
    Claim(
        "V.7b",
        "SL26",
        "Theorem V.7, section V-B",
        "theorem",
        "That bound is the number of regions the construction has.",
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
        "The theorem speaks of transformers with sequence length N: its weights give that many "
        "regions also if keys and values come from tokens that pass through the same blocks.",
        content=collapsing_self_attention,
        check=_check_self_attention,
        repaired=shattering_self_attention,
    ),
    Claim(
        "V.8a",
        "SL26",
        "Remark V.8, first item, section V-B",
        "remark",
        "To keep the count multiplying with depth, the blocks must map an invariant domain onto "
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
        "The walls of the attention and the folds of the feed-forward part have to be aligned.",
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
        "In the construction every routing cell is maximally shattered by the feed-forward part.",
        content=lambda d_ff, dim: (2 * (d_ff // (2 * dim))) ** dim,
        check=_check_shattered,
        repaired=zaslavsky,
    ),
    Claim(
        "V.9a",
        "SL26",
        "Corollary V.9, section V-B",
        "corollary",
        "For H >= d the largest number of regions is of the exact order N^(dL).",
        content=lambda dim, depth: dim * depth,
        check=_check_tightness,
        corrupted=lambda dim, depth: dim * depth + 1,
    ),
    Claim(
        "V.9b",
        "SL26",
        "Corollary V.9, section V-B",
        "corollary",
        "What remains between the bounds are constants that depend on the dimension only.",
        content=lambda n_heads, dim: 1,
        check=_check_gap,
        corrupted=lambda n_heads, dim: Fraction(1, 10),
        repaired=lambda n_heads, dim: (n_heads // dim) ** dim,
    ),
)
