r"""Theorem V.5 and Remark V.6 of [SL26]: the largest number of regions of a transformer.

As in the paper, keys and values are fixed, and $x \in \mathbb R^d$ is the query token. Cells are
counted exactly (`enumerate_regions`, `common_refinement`).
"""

from collections.abc import Callable
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

from hardmax.bounds import (
    attention_cells,
    cells_bias_free,
    exponent_of_keys,
    paper,
    zaslavsky,
)
from hardmax.bounds.sizes import Bias
from hardmax.constructions.families.shattering import (
    attention_grid_transformer,
    shattering_transformer,
)
from hardmax.exact.forms import AffineForms
from hardmax.geometry.domains import WholeSpace
from hardmax.geometry.refinement import common_refinement
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.papers.claims import Claim, Finding, Trial, upper_trial
from hardmax.papers.subjects.counting.cubes import unit_cube
from hardmax.papers.subjects.counting.growth import polynomial_degree
from hardmax.papers.subjects.counting.polytope_sums import extremal_cells
from hardmax.papers.subjects.instances import forms_of_keys, integer_keys
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


LayerBound = Callable[[int, int, int, int, int], int]
"""A bound on the number of cells as a function of N, H, d, d_ff and L."""


def bound_from_stated_vertices(n: int, h: int, d: int, d_ff: int, depth: int) -> int:
    """Return (V R)^L with the vertices V of Theorem V.2 and R hyperplane cells."""
    return int((paper.theorem_v2(n, h, d) * zaslavsky(d_ff, d)) ** depth)


def circle_transformer(d_ff: int, depth: int) -> HardTransformer:
    """Return blocks of one head with six keys of norm 5, whose values draw each cell to the origin.

    Key j wins around itself, so its cell, translated by -t k_j, contains a disc about the origin
    with a radius proportional to t. If t decreases from block to block, all cells of the later
    blocks meet in that disc: the cells of the next fan, which are translated by less, and the
    hyperplanes of the units.
    """
    keys = np.array([[5.0, 0], [3, 4], [-4, 3], [0, -5], [-3, -4], [4, 3]])
    units = None
    if d_ff:
        t = np.arange(float(d_ff))
        units = FeedForward(np.stack([np.ones(d_ff), t]), t**2 + 1, np.zeros((d_ff, 2)), None)
    return HardTransformer(
        [
            Block(
                [AttentionHead(np.eye(2), keys, -(2.0 ** (12 - 6 * layer)) * keys, np.eye(2))],
                units,
            )
            for layer in range(depth)
        ]
    )


@cache
def _count_random() -> list[tuple[tuple[int, int, int, int, int], int]]:
    counts = []
    for seed, shape in enumerate(
        ((4, 2, 2, 3, 2), (3, 2, 2, 4, 2), (5, 2, 2, 2, 1), (3, 2, 3, 2, 1), (4, 1, 1, 2, 3))
    ):
        n, h, d, d_ff, depth = shape
        model = random_transformer(seed, n, h, d, d_ff, depth)
        # There are few cells, so counting them in integers is faster than compiling the engine in
        # space.
        counts.append((shape, enumerate_regions(model, WholeSpace(d), exact=True).n_cells))
    return counts


@cache
def _count_circle(d_ff: int, depth: int) -> int:
    return int(enumerate_regions(circle_transformer(d_ff, depth), WholeSpace(2)).n_cells)


def _check_product(bound: LayerBound) -> Finding:
    trials = [
        upper_trial(f"random weights, {_format_shape(*shape)}", cells, bound(*shape))
        for shape, cells in _count_random()
    ]
    for d_ff, depth in ((0, 1), (0, 2), (0, 3), (1, 1), (3, 1)):
        where = f"six keys on a circle, {_format_shape(6, 1, 2, d_ff, depth)}"
        claimed = bound(6, 1, 2, d_ff, depth)
        trials.append(upper_trial(where, _count_circle(d_ff, depth), claimed, extremal=True))
    for n, h, d in ((5, 2, 2), (4, 3, 3), (4, 2, 3)):
        where = f"extremal heads, {_format_shape(n, h, d, 0, 1)}"
        most = extremal_cells(n, h, d, "none")
        trials.append(upper_trial(where, most, bound(n, h, d, 0, 1), extremal=True))
    pairs = ", ".join(f"{t.numbers['true']} <= {t.numbers['claimed']}" for t in trials)
    return Finding(
        tuple(trials),
        f"Numbers of cells, and the bound with V = N^H for H <= d, as in Theorem V.2: {pairs}. "
        "The bound is attained for H < d (by heads alone at every depth tried, and by one block "
        "with units). For H = d, the sum of the polytopes never has N^d vertices.",
        "(A_0 R(d_ff, d))^L with the exact maximum A_0 = sum_{j<d} binom(H,j) (N-1)^j + "
        "binom(H-1,d-1) in place of V.",
    )


def _format_shape(n: int, h: int, d: int, d_ff: int, depth: int) -> str:
    return f"N = {n}, H = {h}, d = {d}, d_ff = {d_ff}, L = {depth}"


def _check_product_with_bias(bound: LayerBound) -> Finding:
    trials = []
    for n, d, depth in ((4, 1, 1), (4, 1, 3), (4, 2, 1), (2, 2, 2)):
        part = enumerate_regions(attention_grid_transformer(n, d, depth), unit_cube(d))
        where = f"heads alone, digit by digit, {_format_shape(n, d, d, 0, depth)}"
        trials.append(upper_trial(where, part.n_cells, bound(n, d, d, 0, depth), extremal=True))
    for n, d, d_ff in ((4, 1, 2), (3, 2, 2), (2, 2, 3)):
        # Every routing cell is moved to [0, 1/n]^d, where all hyperplanes cross.
        heads = shattering_transformer(n, d, 1, 2 * d).blocks[0].heads
        lines = np.arange(1.0, d_ff + 1)
        directions = np.stack([lines**k for k in range(d)])
        centre = directions.sum(axis=0) / (2 * n) + lines ** (d + 1) / 2**12
        units = FeedForward(directions, -centre, np.zeros((d_ff, d)), None)
        model = HardTransformer([Block(heads, units)])
        cells = enumerate_regions(model, unit_cube(d)).n_cells
        where = f"a grid whose cells all meet the units, {_format_shape(n, d, d, d_ff, 1)}"
        trials.append(upper_trial(where, cells, bound(n, d, d, d_ff, 1), extremal=True))
    pairs = ", ".join(f"{t.numbers['true']} <= {t.numbers['claimed']}" for t in trials)
    return Finding(
        tuple(trials),
        f"Numbers of cells with a query bias and H = d, and the bound with V = N^H: {pairs}. With "
        "the bias used in the construction of Theorem V.7, N^H is the exact maximum for H <= d, "
        "and it is attained.",
    )


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
        true = polynomial_degree([extremal_cells(n, h, d, bias) for n in range(3, 9)])
        where = f"extremal heads, H = {h}, d = {d}, bias: {bias}, L = 1"
        trials.append(upper_trial(where, true, exponent(h, d, 1, bias), extremal=True))

    def deep(n: int) -> int:
        return int(enumerate_regions(attention_grid_transformer(n, 1, 2), unit_cube(1)).n_cells)

    true = polynomial_degree([deep(n) for n in range(2, 7)])
    where = "heads alone, digit by digit, H = d = 1, bias: query, L = 2"
    trials.append(upper_trial(where, true, exponent(1, 1, 2, "query"), extremal=True))
    degrees = ", ".join(
        f"{t.numbers['true']} instead of {t.numbers['claimed']}"
        for t in trials
        if "none" in t.instance
    )
    return Finding(
        tuple(trials),
        "With a query bias, the exponent is attained. Without bias, as in the scores of Appendix "
        f"E, the largest counts grow with a smaller exponent: {degrees}.",
        "The exponent is L min(H, d) with bias and L min(H, d-1) without.",
    )


def _check_substitution(vertices: Callable[[int, int, int, Bias], int]) -> Finding:
    trials: list[Trial] = []
    notes = []
    cases: tuple[tuple[int, int, Bias], ...] = (
        (3, 2, "none"),
        (4, 3, "none"),
        (5, 4, "none"),
        (3, 2, "query"),
    )
    for h, d, bias in cases:
        keys = range(3, d + 5)
        counts = [extremal_cells(n, h, d, bias) for n in keys]
        true = polynomial_degree(counts)
        claimed = polynomial_degree([vertices(n, h, d, bias) for n in keys])
        where = f"growth in N of one layer, H = {h}, d = {d}, bias: {bias}"
        trials.append(upper_trial(where, true, claimed, extremal=True, counts=counts))
        notes.append(f"{true} and {claimed}")
        values = [vertices(n, h, d, bias) for n in keys]
        # An order does not fix the constant, so a bound that is too small shows only in the
        # degrees.
        if trials[-1].holds:
            where = f"the most cells themselves, H = {h}, d = {d}, bias: {bias}"
            within = all(a <= b for a, b in zip(counts, values, strict=True))
            numbers = {"true": counts, "claimed": values}
            trials.append(Trial(where, within, tight=counts == values, numbers=numbers))
    degrees = ", ".join(notes)
    return Finding(
        tuple(trials),
        "For H > d, the number of vertices in Theorem V.2 has too small a degree in N: the true "
        f"degrees and the theorem's degrees are {degrees}. With this number, Theorem V.5 would "
        "contradict Theorem V.7, because another head never lowers the count.",
        "For H > d, the layer has up to sum_{j<d} binom(H,j) (N-1)^j + binom(H-1,d-1) cells, of "
        "the order (NH)^(d-1); with a query bias, up to sum_{j<=d} binom(H,j) (N-1)^j, of the "
        "order (NH)^d.",
    )


def _check_naive_degree(degree: Callable[[int, str], int]) -> Finding:
    trials = []
    for d, bias, keys in ((2, "none", 6), (3, "none", 8), (1, "query", 6), (2, "query", 8)):
        counts = [_ordering_cells(n, d, bias) for n in range(3, keys + 1)]
        where = f"all walls s_i = s_j of one head, d = {d}, bias: {bias}, N = 3 to {keys}"
        true = polynomial_degree(counts)
        trials.append(upper_trial(where, true, degree(d, bias), extremal=True, counts=counts))
    degrees = ", ".join(
        f"{t.numbers['true']} instead of {t.numbers['claimed']}"
        for t in trials
        if "none" in t.instance
    )
    return Finding(
        tuple(trials),
        "The naive count of all walls has degree 2d in N only with bias. Without bias, all walls "
        f"pass through the origin, and the degree is {degrees}.",
        "(H N^2)^(d-1) without bias, (H N^2)^d with bias.",
    )


@cache
def _ordering_cells(n_keys: int, dim: int, bias: str) -> int:
    """Count the cells of all walls between two keys, that is, the possible rankings of the keys."""
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
        true = extremal_cells(n, 1, d, bias)
        where = f"cells of one head, N = {n}, d = {d}, bias: {bias}"
        orders = _ordering_cells(n, d, bias)
        trials.append(upper_trial(where, true, bound(n), extremal=True, all_orders=orders))
    pairs = ", ".join(f"{t.numbers['true']} and {t.numbers['all_orders']}" for t in trials)
    return Finding(
        tuple(trials),
        f"Numbers of winners and of rankings of all keys: {pairs}. Walls between two keys where "
        "neither wins do not count.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        "V.5a",
        "SL26",
        "Theorem V.5, section V-B",
        "theorem",
        "A network of depth L has at most (V R)^L regions, where V is the number of vertices of a "
        "layer's Newton polytope as given in Theorem V.2, N^H for H <= d, and R is the number of "
        "cells of its feed-forward hyperplanes. As stated, without biases.",
        content=bound_from_stated_vertices,
        check=_check_product,
        corrupted=lambda n, h, d, d_ff, depth: depth * bound_from_stated_vertices(n, h, d, d_ff, 1),
        repaired=lambda n, h, d, d_ff, depth: (
            (cells_bias_free(n, h, d) * zaslavsky(d_ff, d)) ** depth
        ),
    ),
    Claim(
        "V.5b",
        "SL26",
        "Theorem V.5, last display, section V-B",
        "theorem",
        "For H >= d, the number of regions is at most of the order N^(dL).",
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
        "For H > d, the factor of a layer is the number of vertices in Theorem V.2, "
        "(NH)^floor(d/2).",
        content=lambda n, h, d, bias: paper.theorem_v2(n, h, d),
        check=_check_substitution,
        repaired=lambda n, h, d, bias: attention_cells(n, h, d, bias=bias),
    ),
    Claim(
        "V.5e",
        "SL26",
        "Theorem V.5, section V-B",
        "theorem",
        "The bound of V.5a with a query bias, which Theorem V.7 needs, for H <= d.",
        content=bound_from_stated_vertices,
        check=_check_product_with_bias,
        corrupted=lambda n, h, d, d_ff, depth: depth * bound_from_stated_vertices(n, h, d, d_ff, 1),
    ),
    Claim(
        "V.6a",
        "SL26",
        "Remark V.6, section V-B",
        "remark",
        "If all pairs of keys are counted as hyperplanes, a layer has of the order of (H N^2)^d "
        "cells.",
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
        "One head has at most N cells: regions that differ only in the order of losing keys do "
        "not count.",
        content=lambda n_keys: n_keys,
        check=_check_ghosts,
        corrupted=lambda n_keys: n_keys - 1,
    ),
)
