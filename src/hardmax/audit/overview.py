"""Abstract, introduction, related work and conclusion of [SL26]: what they announce; Figure 1."""

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.audit.claims import Claim, Finding, Trial, equal_trial
from hardmax.audit.growth import polynomial_degree
from hardmax.audit.instances import integer_keys
from hardmax.bounds.attention import cells_with_bias
from hardmax.bounds.paper import naive_hyperplanes
from hardmax.constructions.extremal_points import extremal_points
from hardmax.constructions.shattering import shattering_count, shattering_transformer
from hardmax.geometry.domains import Box
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.tropical.power_diagrams import PowerDiagram
from hardmax.tropical.rational_maps import TropicalRationalMap
from hardmax.tropical.relu_maps import relu_network_map
from hardmax.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNIT_SQUARE = Box(np.zeros(2), np.ones(2))


def _check_growing_picture(shown: tuple[int, ...] | None) -> Finding:
    """Three depths, N = 4 and d = 2: the picture names no counts, no weights, no d_ff and no H."""
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
        "The caption gives no counts, weights, head number or feed-forward width, and three depths "
        "at one N cannot show an exponent of N: any three numbers follow Theta(N^(dL)). The "
        f"construction of Theorem V.7 has {counted[0]} and {counted[1]} regions at depth 1 and 2 "
        f"(counted; {counted[2]} at depth 3 by its formula); random weights have "
        f"{typical.n_cells} cells at depth 2 on the unit square.",
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
    from hardmax.plotting import plot
    from hardmax.plotting.style import side_by_side

    figure: Figure
    figure, axes = side_by_side(2)
    for ax, (n_keys, depth) in zip(axes, ((4, 1), (2, 2)), strict=True):
        part = enumerate_regions(shattering_transformer(n_keys, 2, depth, 4), UNIT_SQUARE)
        plot(part, ax)
        ax.set_title(f"N = {n_keys}, L = {depth}: {part.n_cells} cells")
    return figure


def _check_ghosts(naive: Callable[[int, int, int], int]) -> Finding:
    trials = []
    for n, heads, dim in ((6, 3, 3), (8, 2, 2), (4, 1, 2), (2, 5, 3)):
        most = cells_with_bias(n, heads, dim)
        count = naive(n, heads, dim)
        name = f"N = {n}, H = {heads}, d = {dim}"
        numbers = {"naive": count, "largest_number_of_cells": most}
        trials.append(Trial(name, count > most, n >= 3, numbers=numbers))
    pairs = ", ".join(
        f"{t.numbers['naive']} for {t.numbers['largest_number_of_cells']} ({t.instance})"
        for t in trials
    )
    return Finding(
        tuple(trials),
        f"Regions of all pairwise hyperplanes, for the largest number of routing cells: {pairs}.",
        "True for three keys or more; with two keys per head every hyperplane is a wall.",
    )


def _norms(keys: FloatArray) -> Any:
    return tuple(sorted((keys**2).sum(axis=1).tolist()))


def _hull(keys: FloatArray) -> Any:
    return tuple(sorted(map(tuple, keys[PowerDiagram.from_keys(keys).active].tolist())))


def _check_determined(invariant: Callable[[FloatArray], Any]) -> Finding:
    spread = np.array([[1.0, 0.0], [-2.0, 0.0], [0.0, 3.0]])
    line = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    inside = np.vstack([spread, [[0.0, 0.5]]])
    trials = []
    for name, first, second in (
        ("keys of norms 1, 2, 3, spread and on a line", spread, line),
        ("three keys, and the same with one inside their hull", spread, inside),
    ):
        cells = [PowerDiagram.from_keys(keys).n_cells for keys in (first, second)]
        contradiction = invariant(first) == invariant(second) and cells[0] != cells[1]
        trials.append(Trial(name, not contradiction, numbers={"cells": cells}))
    return Finding(
        tuple(trials),
        f"Two sets of keys with the norms 1, 2, 3 have {trials[0].numbers['cells'][0]} and "
        f"{trials[0].numbers['cells'][1]} cells.",
        "The cells are determined by the vertices of the convex hull of the keys: they are its "
        "normal fan, and the weights |k_j|^2 only make up for the Euclidean distance.",
    )


def _grid_cells(n_keys: int, n_heads: int, dim: int) -> int:
    """Count the cells of heads with query bias, each cutting one coordinate into N."""
    heads = []
    for h in range(n_heads):
        query = np.zeros((dim, 2))
        query[h, 0] = 1.0
        j = np.arange(float(n_keys))
        keys = np.column_stack([j, -j * (j - 1) / 2])
        value = np.zeros((n_keys, dim))
        value[:, h] = j
        heads.append(AttentionHead(query, keys, value, np.eye(dim), np.array([0.0, 1.0])))
    model = HardTransformer([Block(heads)])
    return int(enumerate_regions(model, Box(np.full(dim, -9.0), np.full(dim, 9.0))).n_cells)


def claimed_exponent(n_heads: int, dim: int, depth: int, has_bias: bool) -> int:
    """Return the exponent of N that [SL26] announces, whatever the heads and their bias are."""
    return dim * depth


def true_exponent(n_heads: int, dim: int, depth: int, has_bias: bool) -> int:
    """Return the exponent for heads of size at least 2 and fixed memories."""
    return depth * min(n_heads, dim if has_bias else dim - 1)


def check_exponent(claimed: Callable[[int, int, int, bool], int]) -> Finding:
    """Read the exponent of N off counted layers: H = d = 2 with and without bias, and H = 1."""
    sizes = range(2, 7)
    free = [minkowski_vertices(extremal_points(n, 2, 2)).count for n in sizes]
    trials = []
    for name, counts, n_heads, has_bias in (
        ("query bias, H = d = 2", [_grid_cells(n, 2, 2) for n in sizes], 2, True),
        ("no bias, H = d = 2, extremal keys", free, 2, False),
        ("query bias, H = 1 < d = 2", [_grid_cells(n, 1, 2) for n in sizes], 1, True),
    ):
        degree, stated = polynomial_degree(counts), claimed(n_heads, 2, 1, has_bias)
        met = has_bias and n_heads == 2
        trials.append(equal_trial(name, degree, stated, condition=met, counts=counts))
    return Finding(
        tuple(trials),
        "Exponent of N in one layer, d = 2, read off counts for N = 2..6: "
        + ", ".join(f"{t.numbers['true']} ({t.instance})" for t in trials)
        + f"; claimed {', '.join(str(t.numbers['claimed']) for t in trials)}.",
        "L min(H, d) with a query bias and heads of size at least 2 (or a logit bias), "
        "L min(H, d - 1) without bias; memory fixed, d_ff at least 2d.",
    )


def _whole_map(network: ReluNetwork) -> TropicalRationalMap:
    return relu_network_map(list(network.weights), list(network.biases or ()))


def _numerator_only(network: ReluNetwork) -> TropicalRationalMap:
    whole = _whole_map(network)
    return TropicalRationalMap(whole.numerators, TropicalPolynomial.constant(0.0, whole.dim_in))


def _check_relu_networks(claimed: Callable[[ReluNetwork], TropicalRationalMap]) -> Finding:
    trials, sizes = [], []
    for seed, widths in enumerate(((2, 3, 1), (2, 2, 2, 1), (1, 3, 2))):
        weights = [integer_keys(seed + 7 * i, a, b, 3) for i, (a, b) in enumerate(pairwise(widths))]
        biases = [integer_keys(seed + 90 + i, 1, b, 3)[0] for i, b in enumerate(widths[1:])]
        network = ReluNetwork(weights, biases)
        rational = claimed(network)
        points = integer_keys(seed, 60, widths[0], 12) / 4
        exact = np.array(rational.exact_values(points), dtype=np.float64)
        sizes.append(rational.n_terms)
        # Small integers and quarters: the float evaluation of the network is exact.
        same = bool((exact == network(points)).all())
        trials.append(Trial(f"widths {list(widths)}", same, numbers={"terms": rational.n_terms}))
    return Finding(
        tuple(trials),
        f"{sum(bool(t.holds) for t in trials)} of {len(trials)} networks, as differences of "
        f"tropical polynomials ({', '.join(map(str, sizes))} terms), have the same values at 60 "
        "rational points each, exactly.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="Fig1",
        source="SL26",
        where="Caption of Figure 1, section I",
        kind="figure",
        statement="For d = 2 and N = 4 the number of linear regions at depth 1, 2, 3 strictly "
        "follows Theta(N^(dL)).",
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
        statement="Hyperplane arrangement formulas count inactive hyperplanes, so they exceed the "
        "number of routing cells.",
        content=lambda n, heads, dim: naive_hyperplanes(n, heads, dim),
        check=_check_ghosts,
        corrupted=lambda n, heads, dim: cells_with_bias(n, heads, dim),
    ),
    Claim(
        id="I.2",
        source="SL26",
        where="Section I, first contribution",
        kind="text",
        statement="The cells of attention are intrinsically determined by the squared norms of the "
        "keys.",
        content=_norms,
        check=_check_determined,
        repaired=_hull,
    ),
    Claim(
        id="I.3",
        source="SL26",
        where="Abstract; section I, third contribution",
        kind="text",
        statement="The tight maximum number of regions of transformers is Theta(N^(dL)).",
        content=claimed_exponent,
        check=check_exponent,
        corrupted=lambda n_heads, dim, depth, has_bias: dim * depth + 1,
        repaired=true_exponent,
    ),
    Claim(
        id="II.1",
        source="SL26",
        where="Section II-B",
        kind="text",
        statement="Feed-forward networks with ReLU are tropical rational maps.",
        content=_whole_map,
        check=_check_relu_networks,
        corrupted=_numerator_only,
    ),
)
