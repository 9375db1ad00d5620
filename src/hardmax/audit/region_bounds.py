r"""Theorem V.5 and Remark V.6 of [SL26]: how many regions a transformer can have at most.

The model is that of the paper: keys and values are fixed, $x \in \mathbb R^d$ is the query token.
Cells are counted exactly (`enumerate_regions`, `common_refinement`).
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from hardmax.algebra.forms import AffineForms
from hardmax.audit.claims import Claim, Finding, upper_trial
from hardmax.audit.cubes import unit_cube
from hardmax.audit.growth import polynomial_degree
from hardmax.audit.instances import forms_of_keys, integer_keys
from hardmax.audit.polytope_sums import n_vertices
from hardmax.bounds import exponent_of_keys, paper, zaslavsky
from hardmax.constructions.extremal_points import extremal_heads
from hardmax.constructions.literal_shattering import literal_shattering_transformer
from hardmax.constructions.shattering import attention_grid_transformer
from hardmax.geometry.domains import WholeSpace
from hardmax.geometry.refinement import common_refinement
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.typing import FloatArray


def random_transformer(
    seed: int, n_keys: int, n_heads: int, dim: int, d_ff: int, depth: int
) -> HardTransformer:
    """Return a transformer with small integer weights and no bias in its heads."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> FloatArray:
        return rng.integers(-9, 10, size=shape).astype(np.float64)

    blocks = [
        Block(
            [
                AttentionHead(draw(dim, dim), draw(n_keys, dim), draw(n_keys, dim), np.eye(dim))
                for _ in range(n_heads)
            ],
            FeedForward(draw(dim, d_ff), draw(d_ff), draw(d_ff, dim), draw(dim)),
        )
        for _ in range(depth)
    ]
    return HardTransformer(blocks)


def _vertices_of_layers(model: HardTransformer) -> list[int]:
    return [n_vertices([head.forms.slopes for head in block.heads]) for block in model.blocks]


def product_of_layers(vertices: Sequence[int], d_ff: int, dim: int) -> int:
    """Return the product over the layers of vertices times hyperplane cells."""
    return prod(count * zaslavsky(d_ff, dim) for count in vertices)


def _check_product(bound: Callable[[Sequence[int], int, int], int]) -> Finding:
    trials = []
    for seed, (n, h, d, d_ff, depth) in enumerate(
        ((4, 2, 2, 3, 2), (3, 2, 2, 4, 2), (5, 3, 2, 2, 1), (3, 2, 3, 2, 1), (4, 1, 1, 2, 3))
    ):
        model = random_transformer(seed, n, h, d, d_ff, depth)
        # A few cells: counting them in integers is quicker than compiling the engine in space.
        cells = enumerate_regions(model, WholeSpace(d), exact=True).n_cells
        vertices = _vertices_of_layers(model)
        where = f"no bias, N = {n}, H = {h}, d = {d}, d_ff = {d_ff}, L = {depth}"
        trials.append(upper_trial(where, cells, bound(vertices, d_ff, d), vertices=vertices))
    grid = literal_shattering_transformer(4, 1, 1, 2)
    cells = enumerate_regions(grid, unit_cube(1)).n_cells
    vertices = _vertices_of_layers(grid)
    where = "query bias, the network of Theorem V.7, N = 4, H = d = 1, d_ff = 2, L = 1"
    claimed = bound(vertices, 2, 1)
    trials.append(upper_trial(where, cells, claimed, condition=False, vertices=vertices))
    pairs = ", ".join(f"{t.numbers['true']} <= {t.numbers['claimed']}" for t in trials[:-1])
    return Finding(
        tuple(trials),
        f"Without bias: {pairs} cells. With a query bias, which Theorem V.7 needs, cells are no "
        f"longer vertices of a polytope in the space of x: {cells} cells, bound {claimed}.",
        "Count cells, and with a bias take the maximum with bias: (A(N, H; d) R(d_ff, d))^L.",
    )


def _heads_count(n: int, h: int, d: int, bias: Any) -> int:
    return common_refinement([head.forms for head in extremal_heads(n, h, d, bias=bias)]).count


def _check_exponent(exponent: Callable[[int, int, int, str], int]) -> Finding:
    trials = []
    for h, d, bias in (
        (2, 2, "query"),
        (3, 2, "query"),
        (3, 3, "query"),
        (2, 2, "none"),
        (3, 2, "none"),
        (3, 3, "none"),
    ):
        true = polynomial_degree([_heads_count(n, h, d, bias) for n in range(3, 9)])
        where = f"extremal heads, H = {h}, d = {d}, bias: {bias}, L = 1"
        trials.append(upper_trial(where, true, exponent(h, d, 1, bias), extremal=True))

    def deep(n: int) -> int:
        return int(enumerate_regions(attention_grid_transformer(n, 1, 2), unit_cube(1)).n_cells)

    true = polynomial_degree([deep(n) for n in range(2, 7)])
    where = "heads alone, digit by digit, H = d = 1, bias: query, L = 2"
    trials.append(upper_trial(where, true, exponent(1, 1, 2, "query"), extremal=True))
    degrees = ", ".join(
        f"{t.numbers['true']} of {t.numbers['claimed']}" for t in trials if "none" in t.instance
    )
    return Finding(
        tuple(trials),
        "With a query bias the exponent is attained. Without bias, as Appendix E has the scores, "
        f"the largest counts grow with a smaller exponent: {degrees}.",
        "The exponent is L min(H, d) with bias and L min(H, d-1) without.",
    )


def _check_substitution(vertices: Callable[[int, int, int, str], int]) -> Finding:
    trials = []
    for h, d, bias in ((3, 2, "none"), (4, 3, "none"), (5, 4, "none"), (3, 2, "query")):
        keys = range(3, d + 6)
        counts = [_heads_count(n, h, d, bias) for n in keys]
        true = polynomial_degree(counts)
        claimed = polynomial_degree([vertices(n, h, d, bias) for n in keys])
        where = f"growth in N of one layer, H = {h}, d = {d}, bias: {bias}"
        trials.append(upper_trial(where, true, claimed, counts=counts))
    degrees = ", ".join(f"{t.numbers['true']} against {t.numbers['claimed']}" for t in trials)
    return Finding(
        tuple(trials),
        f"For H > d the vertex number of Theorem V.2 has too small a degree in N: {degrees}. "
        "With it Theorem V.5 would contradict Theorem V.7, because a further head never lowers "
        "the count.",
        "For H > d the layer has up to the order of (NH)^(d-1) cells, (NH)^d with bias.",
    )


def _check_naive_degree(degree: Callable[[int, str], int]) -> Finding:
    trials = []
    for d, bias, keys in ((2, "none", 7), (3, "none", 9), (1, "query", 7), (2, "query", 9)):
        counts = [_ordering_cells(n, d, bias) for n in range(3, keys + 1)]
        where = f"all walls s_i = s_j of one head, d = {d}, bias: {bias}, N = 3 to {keys}"
        true = polynomial_degree(counts)
        trials.append(upper_trial(where, true, degree(d, bias), extremal=True, counts=counts))
    degrees = ", ".join(
        f"{t.numbers['true']} of {t.numbers['claimed']}" for t in trials if "none" in t.instance
    )
    return Finding(
        tuple(trials),
        "The naive count of all walls has degree 2d in N only with bias; without, all walls pass "
        f"through the origin and the degree is {degrees}.",
        "(H N^2)^(d-1) without bias, (H N^2)^d with.",
    )


def _ordering_cells(n_keys: int, dim: int, bias: str) -> int:
    """Count the cells of all walls between two keys: the orders in which keys can be ranked."""
    keys = integer_keys(31 * dim + n_keys, n_keys, dim, 9999)
    offsets = integer_keys(17 * n_keys, n_keys, 1, 9999)[:, 0] if bias != "none" else None
    forms = forms_of_keys(keys, offsets)
    pairs = [list(pair) for pair in combinations(range(n_keys), 2)]
    return common_refinement(
        [AffineForms(forms.slopes[pair], forms.offsets[pair]) for pair in pairs]
    ).count


def _check_ghosts(bound: Callable[[int], int]) -> Finding:
    trials = []
    for n, d, bias in ((7, 2, "none"), (7, 2, "query"), (6, 3, "query")):
        true = _heads_count(n, 1, d, bias)
        where = f"cells of one head, N = {n}, d = {d}, bias: {bias}"
        orders = _ordering_cells(n, d, bias)
        trials.append(upper_trial(where, true, bound(n), extremal=True, all_orders=orders))
    pairs = ", ".join(f"{t.numbers['true']} of {t.numbers['all_orders']}" for t in trials)
    return Finding(
        tuple(trials),
        f"Winners against orders of all keys: {pairs}. Walls between keys of which neither wins "
        "do not count.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        "V.5a",
        "SL26",
        "Theorem V.5, section V-B",
        "theorem",
        "A network of depth L has at most (V R)^L regions, V the vertices of a layer's Newton "
        "polytope and R the cells of its feed-forward hyperplanes.",
        content=product_of_layers,
        check=_check_product,
        corrupted=lambda vertices, d_ff, dim: sum(v * zaslavsky(d_ff, dim) for v in vertices),
    ),
    Claim(
        "V.5b",
        "SL26",
        "Theorem V.5, last display, section V-B",
        "theorem",
        "For H >= d the number of regions is at most of the order N^(dL).",
        content=lambda n_heads, dim, depth, bias: min(n_heads, dim) * depth,
        check=_check_exponent,
        corrupted=lambda n_heads, dim, depth, bias: (min(n_heads, dim) - 1) * depth,
        repaired=lambda h, d, depth, bias: exponent_of_keys(h, d, depth, bias=bias),
    ),
    Claim(
        "V.5c",
        "SL26",
        "Theorem V.5 with V_multi as in Theorem V.2, section V-B",
        "theorem",
        "For H > d the factor of a layer is the vertex number that Theorem V.2 gives, "
        "(NH)^floor(d/2).",
        content=lambda n, h, d, bias: paper.theorem_v2(n, h, d),
        check=_check_substitution,
        repaired=lambda n, h, d, bias: (n * h) ** (d - (bias == "none")),
    ),
    Claim(
        "V.6a",
        "SL26",
        "Remark V.6, section V-B",
        "remark",
        "Counting all pairs of keys as hyperplanes would give of the order of (H N^2)^d cells for "
        "a layer.",
        content=lambda dim, bias: 2 * dim,
        check=_check_naive_degree,
        corrupted=lambda dim, bias: 2 * dim - 3,
        repaired=lambda dim, bias: 2 * (dim - (bias == "none")),
    ),
    Claim(
        "V.6b",
        "SL26",
        "Remark V.6 and section V-B",
        "remark",
        "One head has at most N cells: regions in which only the order of losing keys differs do "
        "not count.",
        content=lambda n_keys: n_keys,
        check=_check_ghosts,
        corrupted=lambda n_keys: n_keys - 1,
    ),
)
