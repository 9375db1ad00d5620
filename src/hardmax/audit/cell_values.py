"""Section IV of [SL26], second part: values on cells, the input space, equal norms; Appendix C."""

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.audit.claims import Claim, Finding, Trial, equal_trial
from hardmax.audit.enclosures import ball, precisely
from hardmax.audit.instances import integer_keys
from hardmax.models.heads import AttentionHead
from hardmax.models.own_key import OwnKeyRouting
from hardmax.tropical.power_diagrams import PowerDiagram
from hardmax.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _check_bounded(claimed: bool) -> Finding:
    trials = []
    for name, keys in (
        ("3 keys around the origin", np.array([[1.0, 0], [0, 1], [-1, -1]])),
        ("7 random keys in the plane", integer_keys(31, 7, 2)),
        ("7 random keys in space", integer_keys(32, 7, 3)),
    ):
        bounded = [cell.is_bounded for cell in PowerDiagram.from_keys(keys).cells()]
        right = all(b == claimed for b in bounded)
        numbers = {"cells": len(bounded), "bounded": sum(bounded)}
        trials.append(Trial(name, right, numbers=numbers))
    return Finding(
        tuple(trials),
        "Bounded cells: "
        + ", ".join(f"{t.numbers['bounded']} of {t.numbers['cells']}" for t in trials)
        + ". If q is in a cell, so is every positive multiple of q.",
        "Without biases every cell is an unbounded cone with apex 0. With biases cells may be "
        "bounded.",
    )


def _winning_value(head: AttentionHead, winner: int) -> FloatArray:
    return np.asarray(head.values[winner])


def _check_constant(claimed: Callable[[AttentionHead, int], FloatArray]) -> Finding:
    trials = []
    points = integer_keys(41, 40, 2, 9) + np.array([0.25, 0.125])
    for name, keys in (
        ("distinct keys", np.array([[3.0, 1.0], [-2.0, 2.0], [0.0, -4.0]])),
        ("a key twice, with two values", np.array([[3.0, 1.0], [3.0, 1.0], [0.0, -4.0]])),
    ):
        values = np.array([[1.0, 2.0], [-3.0, 0.0], [5.0, 5.0]])
        head = AttentionHead(np.eye(2), keys, values, np.eye(2))
        expected = [claimed(head, int(j)) for j in head.winners(points)]
        agree = int((head(points) == np.array(expected)).all(axis=1).sum())
        soft = float(np.abs(head.soft(points, 1.0) - head(points)).max())
        trials.append(
            Trial(
                name,
                agree == len(points),
                name == "distinct keys",
                numbers={"agree": agree, "of": len(points), "at_tau_1": soft},
            )
        )
    return Finding(
        tuple(trials),
        f"The hard output is the value of the winner at {trials[0].numbers['agree']} of 40 points "
        f"with distinct keys and at {trials[1].numbers['agree']} with a key twice, whose values "
        f"are averaged. At tau = 1 soft and hard differ by {trials[0].numbers['at_tau_1']:.2f}.",
        "In the limit, for distinct keys, inside the cells; never identically at tau > 0.",
    )


def _check_uniform(least_margin: Fraction) -> Finding:
    """The head with keys and values -1, 1 gives tanh(q / tau): the error where q > margin."""
    errors = []
    with precisely():
        for k in (4, 7, 10):
            tau = Fraction(1, 2**k)
            q = max(least_margin, tau / 100)  # inside the cell q > 0, at its margin
            errors.append(1 - float((ball(q) / ball(tau)).tanh().mid()))
    uniform = errors[-1] < 1e-3
    return Finding(
        (
            Trial(
                f"keys and values -1, 1; queries q > {least_margin}",
                uniform,
                numbers={"errors": errors, "taus": [2.0**-k for k in (4, 7, 10)]},
            ),
        ),
        f"Z_tau(q) = tanh(q / tau) and v = 1: the largest error over q > {float(least_margin):g} "
        f"is at least {', '.join(f'{e:.3g}' for e in errors)} at tau = 2^-4, 2^-7, 2^-10.",
        "Pointwise inside the cells; uniform only where the margin is at least some delta > 0.",
        figure=_draw_tanh,
    )


def _draw_tanh() -> "Figure":
    from hardmax.plotting.style import side_by_side

    figure: Figure
    figure, axes = side_by_side(1)
    q = np.linspace(-1.0, 1.0, 801)
    for tau in (0.5, 0.1, 0.02):
        axes[0].plot(q, np.tanh(q / tau), label=f"tau = {tau}")
    axes[0].legend()
    axes[0].set_title("near the wall the error is 1 at every temperature")
    return figure


def _check_input_space(is_product: bool) -> Finding:
    # Rank and nullspace of W_Q: (1, 1, 0) is sent to 0, so adding it changes nothing.
    weight = np.array([[1.0, 2.0], [-1.0, -2.0], [0.0, 1.0]])
    head = AttentionHead(weight, integer_keys(3, 5, 2, 5), np.eye(5), np.eye(5))
    points = integer_keys(4, 50, 3, 9)
    moved = points + 7.0 * np.array([1.0, 1.0, 0.0])
    invariant = bool((head.winners(points) == head.winners(moved)).all())
    # Two tokens on a line, all projections 1: the first attends to the larger of x1 x1, x1 x2.
    routes = {}
    for other in (0, 2):
        tokens = np.array([[1.0], [float(other)]])
        pair = AttentionHead(np.eye(1), tokens, tokens, np.eye(1))
        routes[other] = int(pair.winners(tokens)[0])
    separate = routes[0] == routes[2]
    key = AttentionHead(np.eye(2), np.array([[1.0, 0.0]]), np.eye(1), np.eye(1))
    wall = OwnKeyRouting(key, np.eye(2)).wall(0)
    trials = (
        Trial("the nullspace of W_Q lies in every pulled-back cell", invariant),
        Trial(
            "token 1 = 1; token 2 moves from 0 to 2",
            separate == is_product,
            numbers={"route_of_token_1": [routes[0], routes[2]]},
        ),
    )
    assert wall.centre is not None
    assert wall.level is not None
    return Finding(
        trials,
        f"Token 1 changes its winner ({routes[0]} to {routes[2]}) when only token 2 moves. More is "
        f"true: against the token's own key the wall is a {wall.conic} of squared radius "
        f"{wall.level} about ({wall.centre[0]}, {wall.centre[1]}).",
        "In the full input space the cells are not even polyhedra: scores are quadratic there.",
    )


def _nearest(q: FloatArray, keys: FloatArray) -> list[bool]:
    squares = ((q - keys) ** 2).sum(axis=1)
    return [bool(s == squares.min()) for s in squares]


def _largest_cosine(q: FloatArray, keys: FloatArray) -> list[bool]:
    """Compare cosines by sign(a) a^2 / |k|^2, in integers."""
    cosines = [
        Fraction(int(s) * abs(int(s)), int(n))
        for s, n in zip(keys @ q, (keys**2).sum(axis=1), strict=True)
    ]
    return [c == max(cosines) for c in cosines]


def _check_equal_norms(
    rules: tuple[Callable[[FloatArray, FloatArray], list[bool]], ...],
) -> Finding:
    circle = np.array([[5.0, 0], [3, 4], [-4, 3], [0, -5], [-3, -4], [4, 3]])
    diagram = PowerDiagram.from_keys(circle)
    trials = []
    for rule in rules:
        agree = sum(
            rule(q, circle) == [bool(s == (circle @ q).max()) for s in circle @ q]
            for q in integer_keys(6, 50, 2, 9)
        )
        trials.append(
            Trial(f"50 queries, rule {rule.__name__}", agree == 50, numbers={"agree": agree})
        )
    trials.append(Trial("all weights are equal", diagram.is_voronoi))
    return Finding(
        tuple(trials),
        "Six keys of norm 5: nearest key and largest cosine agree with the largest dot product at "
        f"{', '.join(str(t.numbers['agree']) for t in trials[:-1])} of 50 queries, and "
        f"{diagram.n_cells} keys own a cell. The diagram is still a fan "
        f"({diagram.is_fan}).",
        "Every one of N distinct keys of equal norm is a vertex of the hull, so none is lost.",
    )


def _layer_norm(rows: FloatArray, gain: FloatArray | float = 1.0) -> FloatArray:
    centred = rows - rows.mean(axis=1, keepdims=True)
    return np.asarray(gain * centred / centred.std(axis=1, keepdims=True))


ON_KEYS = frozenset({"l2 norm of the keys", "LayerNorm of the keys"})
ELSEWHERE = frozenset({"LayerNorm of the keys, with gain", "LayerNorm of the tokens, then W_K"})


def _check_normalised_keys(give_equal_norms: frozenset[str]) -> Finding:
    tokens = np.array([[1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0], [-1.0, 1.0, 1.0, -1.0]])
    weight = np.array([[1.0, 0.0, 2.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 3.0, 1.0]])
    keys = tokens @ weight
    ways = {
        "l2 norm of the keys": keys / np.linalg.norm(keys, axis=1, keepdims=True),
        "LayerNorm of the keys": _layer_norm(keys),
        "LayerNorm of the keys, with gain": _layer_norm(keys, np.array([1.0, 2.0, 3.0])),
        "LayerNorm of the tokens, then W_K": _layer_norm(tokens) @ weight,
    }
    trials = []
    for name, made in ways.items():
        norms = np.linalg.norm(made, axis=1)
        equal = bool(np.ptp(norms) <= 1e-12)
        trials.append(
            equal_trial(
                name, equal, name in give_equal_norms, condition=name in ON_KEYS, norms=norms
            )
        )
    listed = "; ".join(
        f"{', '.join(f'{n:.3g}' for n in t.numbers['norms'])} ({t.instance})" for t in trials
    )
    return Finding(
        tuple(trials),
        f"Norms of three keys: {listed}. The LayerNorm of a transformer block acts on tokens, and "
        "W_K comes after it.",
        "If the keys themselves are normalised, without gain (QK-norm).",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="IV.4a",
        source="SL26",
        where="Corollary IV.4, section IV",
        kind="corollary",
        statement="Softmax collapses on bounded polyhedral regions.",
        content=True,
        check=_check_bounded,
        repaired=False,
    ),
    Claim(
        id="IV.4b",
        source="SL26",
        where="Corollary IV.4, section IV",
        kind="corollary",
        statement="Inside the cell of key j the output is identically the value v_j.",
        content=_winning_value,
        check=_check_constant,
        corrupted=lambda head, winner: np.asarray(head.values.mean(axis=0)),
        repaired=lambda head, winner: head.cell_output(winner),
    ),
    Claim(
        id="IV.5",
        source="SL26",
        where="Remark IV.5, section IV",
        kind="remark",
        statement="The pull-back to the input space is governed by rank and nullspace of W_Q, and "
        "the partition of the space of all tokens is no Cartesian product.",
        content=False,
        check=_check_input_space,
        corrupted=True,
    ),
    Claim(
        id="IV.6a",
        source="SL26",
        where="Remark IV.6, section IV",
        kind="remark",
        statement="If all keys have equal norm, routing is by the nearest key and by the largest "
        "cosine.",
        content=(_nearest, _largest_cosine),
        check=_check_equal_norms,
        corrupted=(lambda q, keys: _nearest(-q, keys),),
    ),
    Claim(
        id="IV.6b",
        source="SL26",
        where="Remark IV.6, section IV",
        kind="remark",
        statement="Standard implementations often normalise keys, by LayerNorm or the l2 norm, "
        "and this gives all keys the same norm.",
        content=ON_KEYS | ELSEWHERE,
        check=_check_normalised_keys,
        corrupted=ELSEWHERE,
        repaired=ON_KEYS,
    ),
    Claim(
        id="AppC",
        source="SL26",
        where="Appendix C, proof of Corollary IV.4",
        kind="proof",
        statement="The limit holds uniformly on the interior of a cell.",
        content=Fraction(0),
        check=_check_uniform,
        repaired=Fraction(1, 8),
    ),
)
