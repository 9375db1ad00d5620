"""Section IV of [SL26], second part: values on cells, the input space, equal norms; Appendix C."""

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.geometry.polytopes import Polytope
from hardmax.models.heads import AttentionHead
from hardmax.models.variants.own_key import OwnKeyRouting
from hardmax.papers.claims import Claim, Finding, Trial, equal_trial
from hardmax.papers.subjects.enclosures import ball, working_precision
from hardmax.papers.subjects.instances import integer_keys
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Boundedness = Callable[[FloatArray], list[bool]]
"""For given keys, which of their cells, if they have one, are bounded."""


def _are_all_bounded(keys: FloatArray) -> list[bool]:
    return [True] * len(keys)


def _are_interior(keys: FloatArray) -> list[bool]:
    """Whether a key is interior to the convex hull: no nonzero linear form is maximal there.

    The cell of key j is unbounded in those directions q in which no key exceeds key j.
    """
    return [
        Polytope(np.delete(keys - key, j, axis=0), np.zeros(len(keys) - 1)).affine_dim == 0
        for j, key in enumerate(keys)
    ]


def _check_boundedness(claimed: Boundedness, biased: bool) -> Finding:
    trials, counts = [], []
    for name, keys in (
        (
            "4 keys, one at the origin, inside the hull",
            np.array([[0.0, 0], [1, 0], [0, 1], [-1, -1]]),
        ),
        ("9 random keys in the plane", integer_keys(31, 9, 2)),
        ("9 random keys in space", integer_keys(32, 9, 3)),
    ):
        bias = -(keys**2).sum(axis=1) / 2 if biased else None  # then every key has a cell
        diagram = PowerDiagram.from_keys(keys, bias)
        live = np.flatnonzero(diagram.active).tolist()
        bounded = [cell.is_bounded for cell in diagram.cells()]
        inside, stated = _are_interior(keys), claimed(keys)
        counts.append(f"{sum(bounded)} of {len(bounded)}")
        for j, true in zip(live, bounded, strict=True):
            where = f"{name}: the cell of key {j} is bounded"
            condition = inside[j] or not biased
            trials.append(equal_trial(where, true, stated[j], condition=condition))
    words = (
        "with biases"
        if biased
        else ("without bias (if q is in a cell, so is every positive multiple)")
    )
    return Finding(
        tuple(trials),
        f"Number of bounded cells, {words}: {', '.join(counts)}.",
        "With biases, the cell of a key (if it has one) is bounded if and only if the key lies in "
        "the interior of the convex hull of the keys. Some cells are always unbounded."
        if biased
        else (
            "Without biases, only vertices of the hull have cells, and every cell is an unbounded "
            "cone with apex 0."
        ),
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
        f"if keys are distinct, and at {trials[1].numbers['agree']} if a key occurs twice and its "
        "two values are averaged. At tau = 1, the soft and hard outputs differ by "
        f"{trials[0].numbers['at_tau_1']:.2f}.",
        "True in the limit, for distinct keys, inside the cells; never identical at tau > 0.",
    )


def _check_uniform(least_margin: Fraction) -> Finding:
    """The head with keys and values -1, 1 gives tanh(q / tau); find the error where q > margin."""
    errors = []
    with working_precision():
        for k in (4, 7, 10):
            tau = Fraction(1, 2**k)
            q = max(least_margin, tau / 100)  # inside the cell q > 0, at its margin
            errors.append(1 - (ball(q) / ball(tau)).tanh())
        uniform = bool(errors[-1] < ball(Fraction(1, 1000)))
        listed = [float(error.mid()) for error in errors]
    numbers = {"errors": listed, "taus": [2.0**-k for k in (4, 7, 10)]}
    where = f"keys and values -1, 1; queries q > {least_margin}"
    return Finding(
        (Trial(where, uniform, numbers=numbers),),
        "Here Z_tau(q) = tanh(q / tau) and v = 1. The largest error over q > "
        f"{float(least_margin):g} is at least {', '.join(f'{e:.3g}' for e in listed)} at tau = "
        "2^-4, 2^-7, 2^-10.",
        "Convergence is pointwise inside the cells, and uniform where the margin is at least some "
        "delta > 0.",
        figure=_draw_tanh,
    )


def _draw_tanh() -> "Figure":
    from hardmax.plotting.style import create_row

    figure: Figure
    figure, axes = create_row(1)
    q = np.linspace(-1.0, 1.0, 801)
    for tau in (0.5, 0.1, 0.02):
        axes[0].plot(q, np.tanh(q / tau), label=f"tau = {tau}")
    axes[0].legend()
    axes[0].set_title("near the wall the error is 1 at every temperature")
    return figure


def _check_input_space(is_product: bool) -> Finding:
    # Rank and null space of W_Q: it maps (1, 1, 0) to 0, so adding this vector has no effect.
    weight = np.array([[1.0, 2.0], [-1.0, -2.0], [0.0, 1.0]])
    head = AttentionHead(weight, integer_keys(3, 5, 2, 5), np.eye(5), np.eye(5))
    points = integer_keys(4, 50, 3, 9)
    moved = points + 7.0 * np.array([1.0, 1.0, 0.0])
    invariant = bool((head.winners(points) == head.winners(moved)).all())
    # Two tokens on a line with all projections equal to 1: the first token attends to the larger of
    # x1 x1 and x1 x2.
    routes = {}
    for other in (0, 2):
        tokens = np.array([[1.0], [float(other)]])
        pair = AttentionHead(np.eye(1), tokens, tokens, np.eye(1))
        routes[other] = int(pair.winners(tokens)[0])
    separate = routes[0] == routes[2]
    key = AttentionHead(np.eye(2), np.array([[1.0, 0.0]]), np.eye(1), np.eye(1))
    wall = OwnKeyRouting(key, np.eye(2)).wall(0)
    trials: tuple[Trial, ...] = (
        Trial("the nullspace of W_Q lies in every pulled-back cell", invariant),
        Trial(
            "token 0 = 1; token 1 moves from 0 to 2",
            separate == is_product,
            numbers={"route_of_token_0": [routes[0], routes[2]]},
        ),
    )
    assert wall.centre is not None
    assert wall.level is not None
    # |x|^2 = <x, k>: the score of a token's own key is quadratic, so cells are not polyhedra.
    centre, level = [Fraction(str(c)) for c in wall.centre], Fraction(str(wall.level))
    circle = wall.conic == "circle" and (centre, level) == ([Fraction(1, 2), 0], Fraction(1, 4))
    trials += (Trial("the wall against the own key is the circle |x|^2 = <x, k>", circle),)
    return Finding(
        trials,
        f"Token 0 changes its winner (from key {routes[0]} to key {routes[2]}) when only token 1 "
        f"moves. Moreover, the wall against the token's own key is a {wall.conic} of squared "
        f"radius {wall.level} about ({wall.centre[0]}, {wall.centre[1]}), so the cells are not "
        "even polyhedra.",
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
    agreeing = ", ".join(str(trial.numbers["agree"]) for trial in trials)
    trials.append(Trial("all weights are equal", diagram.is_voronoi))
    trials.append(equal_trial("every key has a cell", diagram.n_cells, len(circle)))
    trials.append(Trial("the diagram is still a fan", diagram.is_fan))
    return Finding(
        tuple(trials),
        "For six keys of norm 5, the nearest key and the key with the largest cosine agree with "
        f"the key with the largest dot product at {agreeing} of 50 queries, and {diagram.n_cells} "
        "keys have a cell: distinct keys of equal norm are vertices of the hull, so no cell is "
        "lost. The diagram is still a fan.",
    )


Rows = list[list[Fraction]]


def _centre(rows: Rows) -> Rows:
    return [[x - sum(row, Fraction(0)) / len(row) for x in row] for row in rows]


def _squared_norms(rows: Rows) -> list[Fraction]:
    return [sum((x * x for x in row), Fraction(0)) for row in rows]


def _layer_norm_squares(rows: Rows, then: Callable[[Rows], Rows]) -> list[Fraction]:
    """Return the squared norms after LayerNorm and a linear map; they are rational numbers."""
    centred = _centre(rows)
    variances = [s / len(row) for s, row in zip(_squared_norms(centred), rows, strict=True)]
    return [s / v for s, v in zip(_squared_norms(then(centred)), variances, strict=True)]


ON_KEYS = frozenset({"l2 norm of the keys", "LayerNorm of the keys"})
ELSEWHERE = frozenset({"LayerNorm of the keys, with gain", "LayerNorm of the tokens, then W_K"})


def _check_normalised_keys(give_equal_norms: frozenset[str]) -> Finding:
    tokens = np.array([[1, 1, -1, -1], [1, -1, 1, -1], [-1, 1, 1, -1]])
    weight = np.array([[1, 0, 2], [1, 0, 0], [0, 1, 0], [0, 3, 1]])
    rows = [[Fraction(int(x)) for x in row] for row in tokens]
    keys = [[Fraction(int(x)) for x in row] for row in tokens @ weight]

    def apply_map(states: Rows) -> Rows:
        return [
            [sum((x * int(w) for x, w in zip(row, column, strict=True)), Fraction(0))
             for column in weight.T]
            for row in states
        ]  # fmt: skip

    def apply_gain(states: Rows) -> Rows:
        return [[gain * x for gain, x in zip((1, 2, 3), row, strict=True)] for row in states]

    ways = {
        "l2 norm of the keys": [s / s for s in _squared_norms(keys)],
        "LayerNorm of the keys": _layer_norm_squares(keys, lambda states: states),
        "LayerNorm of the keys, with gain": _layer_norm_squares(keys, apply_gain),
        "LayerNorm of the tokens, then W_K": _layer_norm_squares(rows, apply_map),
    }
    trials = []
    for name, squares in ways.items():
        equal = len(set(squares)) == 1
        trials.append(
            equal_trial(
                name,
                equal,
                name in give_equal_norms,
                condition=name in ON_KEYS,
                squared_norms=squares,
            )
        )
    listed = "; ".join(
        f"{', '.join(f'{float(n):.3g}' for n in t.numbers['squared_norms'])} ({t.instance})"
        for t in trials
    )
    return Finding(
        tuple(trials),
        f"Squared norms of three keys, as exact fractions: {listed}. The LayerNorm of a "
        "transformer block acts on tokens; W_K is applied after it.",
        "True if the keys themselves are normalised, without gain (QK-norm).",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="IV.4a",
        source="SL26",
        where="Corollary IV.4, section IV",
        kind="corollary",
        statement="Softmax collapses on bounded polyhedral regions. As stated, without biases.",
        content=_are_all_bounded,
        check=lambda claimed: _check_boundedness(claimed, biased=False),
        repaired=_are_interior,
    ),
    Claim(
        id="IV.4b",
        source="SL26",
        where="Corollary IV.4, section IV",
        kind="corollary",
        statement="Inside the cell of key j, the output is identically the value v_j.",
        content=_winning_value,
        check=_check_constant,
        corrupted=lambda head, winner: np.asarray(head.values.mean(axis=0)),
        repaired=lambda head, winner: head.cell_output(winner),
    ),
    Claim(
        id="IV.4c",
        source="SL26",
        where="Corollary IV.4, section IV",
        kind="corollary",
        statement=(
            "The regions are bounded: the claim of IV.4a for heads with query or logit biases."
        ),
        content=_are_all_bounded,
        check=lambda claimed: _check_boundedness(claimed, biased=True),
        corrupted=lambda keys: [False] * len(keys),
        repaired=_are_interior,
        unmoved={
            "content[last]": "the last keys are vertices of the hull; of the others it still fails"
        },
    ),
    Claim(
        id="IV.5",
        source="SL26",
        where="Remark IV.5, section IV",
        kind="remark",
        statement=(
            "The pullback to the input space is governed by the rank and nullspace of W_Q, and "
            "the partition of the space of all tokens is not a Cartesian product."
        ),
        content=False,
        check=_check_input_space,
        corrupted=True,
    ),
    Claim(
        id="IV.6a",
        source="SL26",
        where="Remark IV.6, section IV",
        kind="remark",
        statement=(
            "If all keys have equal norm, attention selects the nearest key, which is also the "
            "key with the largest cosine."
        ),
        content=(_nearest, _largest_cosine),
        check=_check_equal_norms,
        corrupted=(lambda q, keys: _nearest(-q, keys),),
    ),
    Claim(
        id="IV.6b",
        source="SL26",
        where="Remark IV.6, section IV",
        kind="remark",
        statement=(
            "Standard implementations often normalise keys, by LayerNorm or the l2 norm, and this "
            "gives all keys the same norm."
        ),
        content=ON_KEYS | ELSEWHERE,
        check=_check_normalised_keys,
        corrupted=ELSEWHERE,
        repaired=ON_KEYS,
        unmoved={
            "content without 'LayerNorm of the keys, with gain'": "the other way still fails",
            "content without 'LayerNorm of the tokens, then W_K'": "the other way still fails",
        },
    ),
    Claim(
        id="AppC",
        source="SL26",
        where="Appendix C, proof of Corollary IV.4",
        kind="proof",
        statement="The limit is uniform on the interior of a cell.",
        content=Fraction(0),
        check=_check_uniform,
        repaired=Fraction(1, 8),
        neighbours={"repaired: a margin that is 0": Fraction(0)},
        unmoved={"repaired ": "every margin above 0 will do"},
    ),
)
