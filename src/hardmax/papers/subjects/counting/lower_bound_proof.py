r"""Appendix F of [SL26]: the lemmas and steps of the proof of the lower bound.

Lemma F.1 has keys $(p_j, -\frac12 p_j^2)$, $p_j = (j - \frac12)/N$. The scores at $(x, 1)$,
multiplied by $8N^2$, are $4NP_jx - P_j^2$ with $P_j = 2j - 1$. These are integers, so the walls
found are exact for every $N$.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from hardmax.bounds import paper
from hardmax.constructions.families.literal_shattering import literal_shattering_transformer
from hardmax.constructions.families.sawtooth import sawtooth
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, HardTransformer
from hardmax.papers.claims import Claim, Finding, Trial, equal_trial
from hardmax.papers.subjects.counting.cubes import unit_cube
from hardmax.regions.engines import enumerate_regions
from hardmax.typing import FloatArray


def parabola_keys(n_keys: int) -> FloatArray:
    """Return the keys of Lemma F.1 as integers."""
    p = 2.0 * np.arange(1, n_keys + 1) - 1.0
    return np.column_stack([4.0 * n_keys * p, -(p**2)])


def _cell_widths(
    keys: FloatArray, weight: Sequence[float], bias: Sequence[float]
) -> list[Fraction]:
    """Return the widths of the cells on [0, 1] of a head with query `x * weight + bias`."""
    values = np.arange(len(keys), dtype=np.float64)[:, None]
    head = AttentionHead(np.array([weight]), keys, values, np.eye(1), query_bias=np.array(bias))
    part = enumerate_regions(
        HardTransformer([Block([head], attention_residual=False)]), unit_cube(1)
    )
    ends = [Fraction(0), *part.breakpoints, Fraction(1)]
    return [after - before for before, after in pairwise(ends)]


def equal_widths(n_keys: int) -> list[Fraction]:
    """Return the widths of N intervals of length 1/N."""
    return [Fraction(1, n_keys)] * n_keys


def _check_linear_query(widths: Callable[[int], list[Fraction]]) -> Finding:
    trials = []
    for n in (2, 5):
        for weight in ([1.0, 1.0], [1.0, 0.0], [-2.0, 3.0]):
            found = _cell_widths(parabola_keys(n), weight, [0.0, 0.0])
            where = f"linear query x * {tuple(weight)}, N = {n}"
            trials.append(equal_trial(where, found, widths(n)))
    counts = ", ".join(str(len(t.numbers["true"])) for t in trials[-3:])
    return Finding(
        tuple(trials),
        "A projection W_Q is linear and cannot produce the constant 1 from x: three queries x * "
        f"(a, b) leave {counts} cells on (0, 1] for N = 5, because all scores are multiples of x.",
        "There is one cell for a linear query in one dimension; the lemma needs a query bias, or "
        "a coordinate of x that is always 1 (F.1b).",
    )


def _check_parabolic_lifting(widths: Callable[[int], list[Fraction]]) -> Finding:
    trials = []
    for n in (1, 2, 3, 5, 8):
        found = _cell_widths(parabola_keys(n), [1.0, 0.0], [0.0, 1.0])
        trials.append(equal_trial(f"query (x, 1), N = {n}", found, widths(n)))
    return Finding(
        tuple(trials), "With the query (x, 1), the walls are exactly at j/N, for N = 1, 2, 3, 5, 8."
    )


def sawtooth_formula(x: Fraction, w: int, sign: int = -1) -> Fraction:
    """Return the value of the formula of Lemma F.2."""
    total = 2 * w * max(Fraction(0), x)
    for m in range(1, 2 * w):
        total += 4 * w * sign**m * max(Fraction(0), x - Fraction(m, 2 * w))
    return total


def _check_sawtooth(formula: Callable[[Fraction, int], Fraction]) -> Finding:
    trials = []
    for w in (1, 2, 3, 5):
        nodes = [Fraction(k, 2 * w) for k in range(2 * w + 1)]
        values = [formula(x, w) for x in nodes]
        # The function is affine between nodes: three points of each piece lie on a line, and the
        # values at the nodes alternate between 0 and 1.
        affine = all(
            2 * formula((a + b) / 2, w) == formula(a, w) + formula(b, w)
            and 3 * formula((2 * a + b) / 3, w) == 2 * formula(a, w) + formula(b, w)
            for a, b in pairwise(nodes)
        )
        onto = values == [Fraction(k % 2) for k in range(2 * w + 1)]
        where = f"w = {w}: {2 * w} affine pieces, each onto [0, 1]"
        numbers = {"values at the nodes": values, "units": 2 * w}
        trials.append(Trial(where, affine and onto, numbers=numbers))
    model = HardTransformer([Block([], sawtooth(4), ffn_residual=False)])
    pieces = enumerate_regions(model, unit_cube(1)).n_regions
    trials.append(equal_trial("w = 4 as a layer of 8 ReLU units: regions on [0, 1]", pieces, 8))
    return Finding(
        tuple(trials),
        "Evaluated in fractions at the nodes k/2w and between them. The layer with 8 units has "
        f"{pieces} pieces.",
    )


def _check_query_weight(query: tuple[list[float], list[float]]) -> Finding:
    weight, bias = query
    trials, counts = [], []
    for n in (3, 4, 8):
        keys = parabola_keys(n)[:, : len(weight)]
        found = _cell_widths(keys, weight, bias)
        counts.append(len(found))
        where = f"N = {n} keys of the lemma: the widths of the cells on [0, 1]"
        trials.append(equal_trial(where, found, equal_widths(n)))
    rng = np.random.default_rng(0)
    most = max(
        len(_cell_widths(rng.integers(-99, 100, size=(8, 1)).astype(float), [1.0], [-0.5]))
        for _ in range(20)
    )
    return Finding(
        tuple(trials),
        f"Numbers of cells: {counts}. With head size 1 and no logit bias, each score is a "
        "multiple of the single coordinate of the query, so only the largest and the smallest key "
        f"ever win (at most {most} of 8 random keys, even with a query bias).",
        "W_Q = (e_h, 0) with the query bias (0, 1), head size 2.",
    )


def _check_last_equality(count: Callable[[int, int, int, int], int]) -> Finding:
    trials = []
    for n, d, d_ff, depth in ((2, 1, 2, 1), (4, 1, 2, 2), (4, 1, 8, 1), (2, 2, 4, 1), (2, 2, 4, 2)):
        part = enumerate_regions(literal_shattering_transformer(n, d, depth, d_ff), unit_cube(d))
        where = f"regions for N = {n}, d = {d}, d_ff = {d_ff}, L = {depth}"
        trials.append(equal_trial(where, part.n_regions, count(n, d, d_ff, depth)))
    pairs = ", ".join(f"{t.numbers['true']} instead of {t.numbers['claimed']}" for t in trials)
    return Finding(
        tuple(trials),
        f"Numbers of regions of the construction: {pairs}. The last line of the proof has w in "
        "place of 2w.",
        "(N^d (2w)^d)^L, w = floor(d_ff/2d).",
    )


def _check_jacobians(entry: Callable[[int, int], int]) -> Finding:
    trials = []
    for n, w, d in ((4, 1, 1), (2, 2, 1), (2, 1, 2)):
        model = literal_shattering_transformer(n, d, 1, 2 * w * d)
        part = enumerate_regions(model, unit_cube(d))
        slopes = set()
        for i in range(part.n_cells):
            forms = part.exact_map(i)
            scale = Fraction(2) ** forms.exponent / forms.denominator
            matrix = [[int(a) * scale for a in row[:-1]] for row in forms.rows]
            slopes |= {abs(matrix[k][k]) for k in range(d)}
            slopes |= {matrix[k][j] for k in range(d) for j in range(d) if j != k} - {0}
        maximal = part.n_cells == part.n_regions == part.n_affine_maps
        where = f"N = {n}, w = {w}, d = {d}: slopes {sorted(map(str, slopes))}, no two cells merge"
        numbers = {"cells": part.n_cells, "maps": part.n_affine_maps, "claimed": entry(n, w)}
        trials.append(Trial(where, maximal and slopes == {entry(n, w)}, numbers=numbers))
    return Finding(
        tuple(trials),
        "Every Jacobian is diagonal with entries +-2wN, and no two cells have the same map: "
        + ", ".join(f"{t.numbers['maps']} maps on {t.numbers['cells']} cells" for t in trials)
        + ".",
    )


def _check_surjections(factor: Callable[[int, int, int], int]) -> Finding:
    trials = []
    for n, w, d, depth in ((4, 1, 1, 3), (2, 2, 1, 3), (2, 1, 2, 2)):
        cells, onto = [1], True
        for layers in range(1, depth + 1):
            model = literal_shattering_transformer(n, d, layers, 2 * w * d)
            part = enumerate_regions(model, unit_cube(d))
            cells.append(part.n_regions)
            if layers == 1:
                onto = all(_covers_cube(part, i, d) for i in range(part.n_cells))
        steps = [after // before for before, after in pairwise(cells)]
        where = f"N = {n}, w = {w}, d = {d}: every piece onto the cube; factor of each layer"
        numbers = {"regions": cells, "claimed": factor(n, w, d)}
        holds = onto and set(steps) == {factor(n, w, d)}
        trials.append(Trial(where, holds, numbers=numbers))
    listed = "; ".join(str(t.numbers["regions"][1:]) for t in trials)
    return Finding(
        tuple(trials),
        f"Numbers of regions at successive depths: {listed}. Each piece of a block maps a box "
        "onto the whole cube, so every layer multiplies the number.",
    )


def _covers_cube(part: Any, cell: int, dim: int) -> bool:
    """Whether the map of a cell takes its corners to the corners of the unit cube."""
    corners = part.polytope(cell).vertices
    linear, offset = np.split(part.affine_maps[cell], [dim])
    image = corners @ linear + offset
    wanted = np.stack(np.meshgrid(*[[0.0, 1.0]] * dim), axis=-1).reshape(-1, dim)
    return sorted(image.tolist()) == sorted(wanted.tolist())


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        "F.1a",
        "SL26",
        "Lemma F.1, Appendix F",
        "lemma",
        "A single head of size 2 with a query computed from x by a projection W_Q partitions [0, "
        "1] into exactly N intervals of equal length. As stated: the projection is linear.",
        content=equal_widths,
        check=_check_linear_query,
        repaired=lambda n_keys: [Fraction(1)],
    ),
    Claim(
        "F.1b",
        "SL26",
        "Lemma F.1, Appendix F",
        "lemma",
        "The claim of F.1a with the query (x, 1), that is, with a query bias.",
        content=equal_widths,
        check=_check_parabolic_lifting,
        corrupted=lambda n_keys: [Fraction(1, n_keys + 1)] * (n_keys + 1),
    ),
    Claim(
        "F.2",
        "SL26",
        "Lemma F.2, Appendix F",
        "lemma",
        "A sum of 2w ReLU units is a sawtooth on [0, 1] with 2w affine pieces, each of them onto "
        "[0, 1].",
        content=sawtooth_formula,
        check=_check_sawtooth,
        corrupted=lambda x, w: sawtooth_formula(x, w, sign=1),
    ),
    Claim(
        "AppF.1",
        "SL26",
        "Appendix F, proof of Theorem V.7, attention",
        "proof step",
        "With the query weight e_h, that is, with head size 1, Lemma F.1 gives N cells in "
        "coordinate h.",
        content=([1.0], [0.0]),
        check=_check_query_weight,
        repaired=([1.0, 0.0], [0.0, 1.0]),
    ),
    Claim(
        "AppF.2",
        "SL26",
        "Appendix F, proof of Theorem V.7, Cases I and II",
        "proof step",
        "The Jacobian is diagonal with entries +-2wN and changes across every wall, so all pieces "
        "are maximal regions.",
        content=lambda n_keys, n_teeth: 2 * n_teeth * n_keys,
        check=_check_jacobians,
        corrupted=lambda n_keys, n_teeth: n_teeth * n_keys,
    ),
    Claim(
        "AppF.3",
        "SL26",
        "Appendix F, proof of Theorem V.7, recurrence",
        "proof step",
        "Each piece of a block maps onto the whole cube, so every layer multiplies the number of "
        "regions by N^d (2w)^d.",
        content=lambda n_keys, n_teeth, dim: (2 * n_teeth * n_keys) ** dim,
        check=_check_surjections,
        corrupted=lambda n_keys, n_teeth, dim: (n_teeth * n_keys) ** dim,
    ),
    Claim(
        "AppF.4",
        "SL26",
        "Appendix F, proof of Theorem V.7, last line",
        "proof step",
        "(N^d (2w)^d)^L equals (N^d floor(d_ff/2d)^d)^L.",
        content=paper.theorem_v7,
        check=_check_last_equality,
        repaired=paper.appendix_f,
    ),
)
