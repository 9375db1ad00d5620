"""Section IV of [SL26], first part: power diagrams and the routing theorem; Appendix B."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.exact.dyadic import rationals
from hardmax.geometry.extreme_points import extreme_points
from hardmax.geometry.polytopes import Polytope
from hardmax.papers.claims import Claim, Finding, Trial, equal_trial
from hardmax.papers.subjects.enclosures import ball, softmax, working_precision
from hardmax.papers.subjects.instances import integer_keys
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Vector = list[Fraction]
WallPoint = Callable[[Vector, Vector, Fraction, Fraction], Vector]


def _dot(a: Vector, b: Vector) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def _power(x: Vector, site: Vector, weight: Fraction) -> Fraction:
    gap = [a - b for a, b in zip(x, site, strict=True)]
    return _dot(gap, gap) - weight


def _midpoint(c_j: Vector, c_l: Vector, w_j: Fraction, w_l: Fraction) -> Vector:
    return [(a + b) / 2 for a, b in zip(c_j, c_l, strict=True)]


def _shifted_midpoint(c_j: Vector, c_l: Vector, w_j: Fraction, w_l: Fraction) -> Vector:
    gap = [b - a for a, b in zip(c_j, c_l, strict=True)]
    shift = (w_j - w_l) / (2 * _dot(gap, gap))
    return [m + shift * g for m, g in zip(_midpoint(c_j, c_l, w_j, w_l), gap, strict=True)]


@dataclass(frozen=True)
class WallClaim:
    """Where the wall of two sites crosses the line through them, and whether sites have weights."""

    crossing: WallPoint
    weighted: bool


def _check_walls(content: WallClaim) -> Finding:
    sites = integer_keys(11, 6, 2, 20)
    weights = integer_keys(12, 6, 1, 60)[:, 0] if content.weighted else np.zeros(6)
    diagram = PowerDiagram(sites, weights)
    trials, tied = [], []
    for j, k in diagram.neighbours.tolist():
        c_j, c_k = ([Fraction(float(x)) for x in sites[i]] for i in (j, k))
        w_j, w_k = (Fraction(float(weights[i])) for i in (j, k))
        point = content.crossing(c_j, c_k, w_j, w_k)
        across = [c_j[1] - c_k[1], c_k[0] - c_j[0]]
        ties = [
            _power(x, c_j, w_j) == _power(x, c_k, w_k)
            for x in (point, [p + 3 * a for p, a in zip(point, across, strict=True)])
        ]
        tied.append(ties)
        trials.append(Trial(f"sites {j} and {k}", all(ties)))
    if not content.weighted:
        trials.append(equal_trial("every site has a cell", diagram.n_cells, 6))
    return Finding(
        tuple(trials),
        f"Random sites have {diagram.n_cells} cells and {len(diagram.neighbours)} walls; "
        f"{sum(map(all, tied))} of the walls are orthogonal to the line through their sites and "
        "cross it at the stated point, exactly.",
    )


def _check_may_be_empty(may_be_empty: bool) -> Finding:
    """Sites -1, 0, 1 with weights 5, 0, 5: the inequalities of the closed middle cell."""
    sites, weights = np.array([[-1.0], [0.0], [1.0]]), np.array([5.0, 0.0, 5.0])
    # |x|^2 <= |x - s|^2 - w, that is 2 s x <= s^2 - w.
    cell = Polytope(2 * sites[[0, 2]], sites[[0, 2], 0] ** 2 - weights[[0, 2]])
    active = PowerDiagram(sites, weights).active.tolist()
    trial = Trial(
        "sites -1, 0, 1 with weights 5, 0, 5",
        cell.is_empty == may_be_empty,
        numbers={"closed_cell_is_empty": cell.is_empty, "active": active},
    )
    return Finding(
        (trial,),
        f"The middle cell requires x >= 2 and x <= -2, so it is "
        f"{'' if cell.is_empty else 'not '}empty. This "
        "holds for arbitrary weights; with the weights of attention, no closed cell is empty "
        "(IV.3c).",
    )


def _squared_norm(key: Vector) -> Fraction:
    return _dot(key, key)


def _check_equivalence(weight: Callable[[Vector, Fraction], Fraction], biased: bool) -> Finding:
    """Compare the largest score <q, k> + c with the smallest power distance (c = 0: no bias)."""
    trials = []
    for dim in (1, 2, 5):
        keys = [[Fraction(int(x)) for x in k] for k in integer_keys(dim, 7, dim, 3)]
        offsets = [Fraction(int(c), 2) * biased for c in integer_keys(dim + 4, 7, 1, 5)[:, 0]]
        queries = [[Fraction(int(x), 2) for x in q] for q in integer_keys(dim + 9, 60, dim, 4)]
        agree, ties = 0, 0
        for q in queries:
            scores = [_dot(q, k) + c for k, c in zip(keys, offsets, strict=True)]
            powers = [_power(q, k, weight(k, c)) for k, c in zip(keys, offsets, strict=True)]
            winners = [s == max(scores) for s in scores]
            agree += winners == [p == min(powers) for p in powers]
            ties += sum(winners) > 1
        numbers = {"agree": agree, "of": len(queries), "with_ties": ties}
        trials.append(Trial(f"7 keys, 60 queries in R^{dim}", agree == 60, numbers=numbers))
    score = "score <q, k> + c" if biased else "dot product"
    return Finding(
        tuple(trials),
        f"The largest {score} and the smallest power distance, computed in fractions, have the "
        "same winners at "
        + ", ".join(f"{t.numbers['agree']} of {t.numbers['of']}" for t in trials)
        + (
            f" queries in R^1, R^2, R^5, of which {sum(t.numbers['with_ties'] for t in trials)} "
            "have ties."
        ),
        "With scores <q, k_j> + c_j, the weights are |k_j|^2 + 2 c_j." if biased else "",
    )


def _one_hot_winner(scores: list[int]) -> list[Fraction]:
    return [Fraction(int(j == scores.index(max(scores)))) for j in range(len(scores))]


def _uniform_on_winners(scores: list[int]) -> list[Fraction]:
    return [Fraction(int(s == max(scores)), scores.count(max(scores))) for s in scores]


def _check_one_hot(claimed: Callable[[list[int]], list[Fraction]]) -> Finding:
    trials = []
    for name, keys in (
        ("distinct keys", [[2, 0], [0, 1], [-1, 0]]),
        ("equal keys", [[2, 0], [2, 0], [0, 1]]),
    ):
        scores = [3 * a + b for a, b in keys]  # the query (3, 1), inside a cell
        with working_precision():
            weights = softmax(scores, Fraction(1, 50))
            error = ball(0)
            for weight, limit in zip(weights, claimed(scores), strict=True):
                error = error.max(abs(weight - ball(limit)))
            # The best score leads by at least 3, so the rivals have a total weight below 2 e^-150.
            close = bool(error < 2 * ball(-150).exp())
            numbers = {"weights": [float(w.mid()) for w in weights], "error": float(error.mid())}
        trials.append(Trial(name, close, name == "distinct keys", numbers=numbers))
    return Finding(
        tuple(trials),
        f"At tau = 0.02, the winner has weight {max(trials[0].numbers['weights']):.12f} if keys "
        f"are distinct; two equal keys share the weight: {trials[1].numbers['weights'][:2]}.",
        "One-hot for distinct keys; uniform on the copies of the winning key otherwise.",
    )


_KEYS = np.array([[0.1, 0.0], [1.0, 1.0], [1.0, -1.0], [0.9, 0.0]])
"""A key of small norm that is a vertex of the hull, and a key of larger norm inside."""


def _closed_cell(keys: FloatArray, j: int) -> Polytope:
    return Polytope(np.delete(keys - keys[j], j, axis=0), np.zeros(len(keys) - 1))


@dataclass(frozen=True)
class EmptinessClaim:
    """The cells claimed to be empty: the closed ones of the theorem, or their interiors."""

    closed: Callable[[FloatArray], list[bool]]
    interior: Callable[[FloatArray], list[bool]]


def _check_emptiness(content: EmptinessClaim) -> Finding:
    trials = []
    for name, keys in (("a key inside the hull", _KEYS), ("6 keys", integer_keys(5, 6, 2, 3))):
        cells = [_closed_cell(keys, j) for j in range(len(keys))]
        dims = [cell.affine_dim for cell in cells]
        open_sets = [dim < keys.shape[1] for dim in dims]
        where = f"{name}: the interiors that are empty"
        trials.append(equal_trial(where, open_sets, content.interior(keys), dimensions=dims))
        empty = [cell.is_empty for cell in cells]
        where = f"{name}: the closed cells that are empty"
        trials.append(equal_trial(where, empty, content.closed(keys), condition=False))
    return Finding(
        tuple(trials),
        "None of the closed cells that the theorem defines is empty: each contains the origin, "
        "where all keys tie. For interiors the claim is correct. The dimensions of the cells are "
        f"{trials[0].numbers['dimensions']} for the first set of keys.",
        "No closed cell is empty; the interior of C_j is empty if and only if k_j is not a vertex "
        "of the convex hull of the keys.",
    )


def _claim_never_empty(keys: FloatArray) -> list[bool]:
    return [False] * len(keys)


def _not_extreme(keys: FloatArray) -> list[bool]:
    return [bool(x) for x in ~extreme_points(keys)]


def _have_no_cell(keys: FloatArray) -> list[bool]:
    return [not a for a in PowerDiagram.from_keys(keys).active]


def _smallest_norms(keys: FloatArray, n_gone: int) -> set[int]:
    norms = (rationals(keys) ** 2).sum(axis=1)
    return set(np.argsort(norms, kind="stable")[:n_gone].tolist())


def _find_nonvertices(keys: FloatArray, n_gone: int) -> set[int]:
    return set(np.flatnonzero(~extreme_points(keys)).tolist())


def _check_vanishing(predicted: Callable[[FloatArray, int], set[int]]) -> Finding:
    trials = []
    for name, keys in (
        ("the keys of the picture", _KEYS),
        ("8 random keys", integer_keys(21, 8, 2, 9)),
        ("8 random keys in space", integer_keys(22, 8, 3, 9)),
    ):
        gone = set(np.flatnonzero(~PowerDiagram.from_keys(keys).active).tolist())
        guess = predicted(keys, len(gone))
        trials.append(equal_trial(name, sorted(gone), sorted(guess), keys=keys))
    left = np.array([[-1.0, 0.0]])
    return Finding(
        tuple(trials),
        "For the keys (0.1, 0), (1, 1), (1, -1), (0.9, 0), the cell of key "
        f"{trials[0].numbers['true'][0]} (norm 0.9) vanishes, while key "
        f"{int(PowerDiagram.from_keys(_KEYS).locate(left)[0])} of norm 0.1 wins at q = (-1, 0).",
        "A cell vanishes if its key is not a vertex of the convex hull, whatever the norm of the "
        "key.",
        figure=_draw_vanishing,
    )


def _draw_vanishing() -> "Figure":
    from hardmax.plotting.drawing import plot
    from hardmax.plotting.style import create_row

    figure: Figure
    figure, axes = create_row(1)
    plot(PowerDiagram.from_keys(_KEYS), axes[0])
    axes[0].set_title("the smallest key keeps its cell, a larger one has none")
    return figure


def _dot_by_polarisation(x: Vector, y: Vector) -> Fraction:
    gap = [a - b for a, b in zip(x, y, strict=True)]
    return (_dot(x, x) + _dot(y, y) - _dot(gap, gap)) / 2


def _check_polarisation(claimed: Callable[[Vector, Vector], Fraction]) -> Finding:
    pairs = [
        [[Fraction(int(v), 3) for v in row] for row in integer_keys(seed, 2, 4, 9)]
        for seed in range(40)
    ]
    right = sum(claimed(x, y) == _dot(x, y) for x, y in pairs)
    numbers = {"right": right, "of": len(pairs)}
    return Finding(
        (Trial("40 pairs in R^4, in fractions", right == len(pairs), numbers=numbers),),
        f"The identity holds for {right} of {len(pairs)} pairs; it implies the chain of "
        "equivalences that is tested in IV.3a.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="IV.1",
        source="SL26",
        where="Definition IV.1, section IV",
        kind="definition",
        statement=(
            "The Voronoi diagram of N distinct sites has N cells, bounded by perpendicular "
            "bisectors."
        ),
        content=WallClaim(_midpoint, weighted=False),
        check=_check_walls,
        corrupted=WallClaim(lambda c_j, c_l, w_j, w_l: c_j, weighted=False),
    ),
    Claim(
        id="IV.2a",
        source="SL26",
        where="Definition IV.2, section IV",
        kind="definition",
        statement=(
            "In the power diagram of weighted sites, the walls are shifted orthogonally from the "
            "midplanes, in proportion to the difference of the weights."
        ),
        content=WallClaim(_shifted_midpoint, weighted=True),
        check=_check_walls,
        corrupted=WallClaim(_midpoint, weighted=True),
        unmoved={"content.weighted": "with weights 0 the shifted wall is the midplane of IV.1"},
    ),
    Claim(
        id="IV.2b",
        source="SL26",
        where="Definition IV.2, last sentence, section IV",
        kind="definition",
        statement="A power cell may be empty if larger weights dominate its site.",
        content=True,
        check=_check_may_be_empty,
        corrupted=False,
    ),
    Claim(
        id="IV.3a",
        source="SL26",
        where="Theorem IV.3, section IV",
        kind="theorem",
        statement=(
            "Hard attention selects keys by the power diagram with sites k_j and weights |k_j|^2."
        ),
        content=lambda key, offset: _squared_norm(key),
        check=lambda weight: _check_equivalence(weight, biased=False),
        corrupted=lambda key, offset: Fraction(0),
        neighbours={
            "content: one key alone": lambda key, offset: _squared_norm(key) + (key[0] == 3)
        },
    ),
    Claim(
        id="IV.3b",
        source="SL26",
        where="Theorem IV.3, section IV",
        kind="theorem",
        statement="Inside a cell, attention tends to the one-hot indicator of its key.",
        content=_one_hot_winner,
        check=_check_one_hot,
        corrupted=lambda scores: [Fraction(1, len(scores))] * len(scores),
        repaired=_uniform_on_winners,
    ),
    Claim(
        id="IV.3c",
        source="SL26",
        where="Theorem IV.3, section IV",
        kind="theorem",
        statement="The cells C_j of attention may be empty, namely for keys that never win alone.",
        content=EmptinessClaim(_have_no_cell, _have_no_cell),
        check=_check_emptiness,
        corrupted=EmptinessClaim(_claim_never_empty, _claim_never_empty),
        repaired=EmptinessClaim(_claim_never_empty, _not_extreme),
        unmoved={"content.closed": "of closed cells the claim fails, and is conditional, anyway"},
    ),
    Claim(
        id="IV.3d",
        source="SL26",
        where="Theorem IV.3, section IV",
        kind="theorem",
        statement=(
            "The weights are |k_j|^2: the claim of IV.3a for heads with query or logit biases, as "
            "in Appendix F."
        ),
        content=lambda key, offset: _squared_norm(key),
        check=lambda weight: _check_equivalence(weight, biased=True),
        repaired=lambda key, offset: _squared_norm(key) + 2 * offset,
        neighbours={
            "repaired: the offset once": lambda key, offset: _squared_norm(key) + offset,
        },
    ),
    Claim(
        id="Fig3",
        source="SL26",
        where="Caption of Figure 3, section IV",
        kind="figure",
        statement=(
            "Cells of the power diagram of attention vanish because their weights |k_j|^2 are "
            "small."
        ),
        content=_smallest_norms,
        check=_check_vanishing,
        repaired=_find_nonvertices,
    ),
    Claim(
        id="AppB",
        source="SL26",
        where="Appendix B, proof of Theorem IV.3",
        kind="proof",
        statement=(
            "By the polarisation identity, comparing dot products is the same as comparing power "
            "distances."
        ),
        content=_dot_by_polarisation,
        check=_check_polarisation,
        corrupted=lambda x, y: 2 * _dot_by_polarisation(x, y),
    ),
)
