"""Section III-D of [SL26]: temperature, log-lifting and the limit of attention."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.models.variants.log_lifted import LogLiftedHead
from hardmax.papers.claims import Claim, Finding, Trial, equal_trial
from hardmax.papers.subjects.enclosures import ball, softmax, working_precision
from hardmax.papers.subjects.instances import integer_keys

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TAUS = (Fraction(1), Fraction(1, 10), Fraction(1, 100), Fraction(1, 10**6))


def _inverse_root(d_k: int) -> Fraction:
    return Fraction(1, isqrt(d_k))


def _root(d_k: int) -> Fraction:
    return Fraction(isqrt(d_k))


def _check_temperature(claimed: Callable[[int], Fraction]) -> Finding:
    trials = []
    with working_precision():
        for d_k in (4, 16, 64):
            q = integer_keys(d_k, 1, d_k, 3)[0]
            keys = integer_keys(d_k + 1, 5, d_k, 3)
            scores = [Fraction(int(s)) for s in keys @ q]
            standard = softmax([s / isqrt(d_k) for s in scores], 1)
            stated = softmax(scores, claimed(d_k))
            same = all(a.overlaps(b) for a, b in zip(standard, stated, strict=True))
            gap = max(abs(float((a - b).mid())) for a, b in zip(standard, stated, strict=True))
            numbers = {"largest_difference": gap, "tau": claimed(d_k)}
            trials.append(Trial(f"d_k = {d_k}", same, numbers=numbers))
    gaps = ", ".join(f"{t.numbers['largest_difference']:.3g}" for t in trials)
    return Finding(
        tuple(trials),
        "The weights of softmax(q k / sqrt(d_k)) and of exp(q k / tau) with the stated tau, for "
        f"d_k = 4, 16, 64, differ by up to {gaps}. The two temperatures differ by the factor d_k.",
        "tau = sqrt(d_k) on raw dot products, or tau = 1 on scaled logits.",
    )


Limit = Callable[[list[Fraction], list[Fraction]], Fraction]


def _lifted_limit(scores: list[Fraction], lifted: list[Fraction]) -> Fraction:
    return max(s + v for s, v in zip(scores, lifted, strict=True)) - max(scores)


def _lifted_limit_without_denominator(scores: list[Fraction], lifted: list[Fraction]) -> Fraction:
    return max(s + v for s, v in zip(scores, lifted, strict=True))


def _check_lifted_limit(claimed: Limit) -> Finding:
    """Compare tau log z, where z is the attention output as a quotient of sums, with its limit."""
    keys, values = integer_keys(1, 6, 3, 5), integer_keys(2, 6, 2, 9)
    values[0] = 9.0
    queries = integer_keys(3, 12, 3, 4)
    queries[0] = 0.0  # on every wall: all keys tie
    trials, worst = [], []
    with working_precision(512):
        for tau in _TAUS:
            largest, on_walls = ball(0), ball(0)
            for q in queries:
                scores = [Fraction(int(s)) for s in keys @ q]
                for channel in values.T:
                    lifted = [Fraction(int(v)) for v in channel]
                    soft = _lifted_output_at(scores, lifted, tau)
                    error = abs(soft - ball(claimed(scores, lifted)))
                    largest = largest.max(error)
                    if not q.any():
                        on_walls = on_walls.max(error)
            bound = ball(tau) * ball(len(keys)).log()
            worst.append(float(largest.mid()))
            numbers = {
                "largest_error": worst[-1],
                "tau_log_N": float(bound.mid()),
                "on_all_walls": float(on_walls.mid()),
            }
            # At the origin, the denominator has N equal summands, so the error is tau log N or
            # nearly so.
            close = not bool(largest > bound) and bool(on_walls > ball(Fraction(1, 3)) * bound)
            trials.append(Trial(f"tau = {tau}, 12 queries, 2 channels", close, numbers=numbers))
    return Finding(
        tuple(trials),
        f"The largest error is {', '.join(f'{w:.3g}' for w in worst)} at tau = 1, 0.1, 0.01, "
        f"10^-6, and never more than tau log N = {trials[0].numbers['tau_log_N']:.3g} tau, even "
        "on walls.",
    )


def _lifted_output_at(scores: list[Fraction], lifted: list[Fraction], tau: Fraction) -> Any:
    """Enclose tau log z with z = sum e^(s/tau) e^(v/tau) / sum e^(s/tau)."""
    top = max(scores)
    peak = max(s + v for s, v in zip(scores, lifted, strict=True)) - top
    weights = [(ball(s - top) / ball(tau)).exp() for s in scores]
    total = sum(weights, ball(0))
    # Both sums are divided by their largest term, which is e^(peak/tau) in the numerator.
    scaled = [
        (ball(s + v - top - peak) / ball(tau)).exp() for s, v in zip(scores, lifted, strict=True)
    ]
    return ball(peak) + ball(tau) * (sum(scaled, ball(0)) / total).log()


def _check_degenerate(claimed_limit: Callable[[list[int]], Fraction]) -> Finding:
    """For values that do not depend on tau, tau log z tends to 0 whatever the values are."""
    scores, trials = [3, 1, 1, -2], []
    with working_precision(512):
        for values in ([1, 1, 1, 1], [5, 2, 7, 1], [1, 10**6, 1, 1]):
            errors, within = [], True
            for tau in (Fraction(1, 100), Fraction(1, 1000), Fraction(1, 10**9)):
                weights = softmax(scores, tau)
                z = sum((w * v for w, v in zip(weights, values, strict=True)), ball(0))
                error = abs(ball(tau) * z.log() - ball(claimed_limit(values)))
                # z lies between the least and the largest value, so |tau log z| <= tau log max.
                within &= not bool(error > ball(tau) * ball(max(values)).log())
                errors.append(float(error.mid()))
            trials.append(Trial(f"values {values}", within, numbers={"errors": errors}))
    return Finding(
        tuple(trials),
        "For fixed positive values, |tau log z| is at most tau times the logarithm of the largest "
        f"value: {trials[1].numbers['errors'][0]:.3g} and {trials[1].numbers['errors'][1]:.3g} at "
        "tau = 0.01 and 0.001.",
    )


@dataclass(frozen=True)
class HardLimitClaim:
    """The limit of attention with fixed values, where the largest score is unique and on ties."""

    unique: Callable[[list[int], list[int]], Fraction]
    tied: Callable[[list[int], list[int]], Fraction]


def _first_winner(scores: list[int], values: list[int]) -> Fraction:
    return Fraction(values[scores.index(max(scores))])


def _mean_of_winners(scores: list[int], values: list[int]) -> Fraction:
    winners = [v for s, v in zip(scores, values, strict=True) if s == max(scores)]
    return Fraction(sum(winners), len(winners))


def _mean_of_all(scores: list[int], values: list[int]) -> Fraction:
    return Fraction(sum(values), len(values))


def _check_hard_limit(content: HardLimitClaim) -> Finding:
    trials = []
    for scores, values in (
        ([3, 1, 0], [7, -2, 5]),
        ([-1, 4, 3], [7, 2, 5]),
        ([2, 2, 0], [7, 1, 5]),
    ):
        unique = scores.count(max(scores)) == 1
        claimed = (content.unique if unique else content.tied)(scores, values)
        with working_precision():
            weights = softmax(scores, Fraction(1, 100))
            z = sum((w * v for w, v in zip(weights, values, strict=True)), ball(0))
            error = abs(z - ball(claimed))
            # The losers have a total weight below 3 e^-100, and all values are below 10.
            close = bool(error < 30 * ball(-100).exp())
            numbers = {"output_at_0.01": float(z.mid()), "error_at_0.01": float(error.mid())}
        trials.append(Trial(f"scores {scores}", close, unique, numbers=numbers))
    return Finding(
        tuple(trials),
        f"The error at tau = 0.01 is {trials[0].numbers['error_at_0.01']:.2g} where the largest "
        f"score is unique, and {trials[2].numbers['error_at_0.01']:.2g} on a tie of keys with "
        f"values 7 and 1, where the output is {trials[2].numbers['output_at_0.01']:.12g}.",
        "The output tends to the value of the winner where the winner is unique, and on a wall to "
        "the mean of the winners' values.",
    )


@dataclass(frozen=True)
class RegionCountClaim:
    """A number claimed to equal, or to bound, the number of linear regions of the lifted map."""

    count: Callable[[LogLiftedHead], int]
    is_equality: bool = True


def _lifted_examples() -> list[tuple[str, LogLiftedHead]]:
    ends = np.array([[-1.0], [1.0]])
    plane = integer_keys(4, 4, 2, 5)
    return [
        ("2 keys, 3 channels", LogLiftedHead(ends, np.array([[0.0, 0, 0], [2, 4, -2]]))),
        ("2 keys, equal values", LogLiftedHead(ends, np.full((2, 1), 3.0))),
        ("4 keys in the plane, 2 channels", LogLiftedHead(plane, integer_keys(5, 4, 2, 9))),
    ]


def _check_region_count(content: RegionCountClaim) -> Finding:
    trials = []
    for name, head in _lifted_examples():
        true, claimed = head.lifted_linear_regions, content.count(head)
        holds = true == claimed if content.is_equality else true <= claimed
        attained = true == claimed if name == "2 keys, 3 channels" else None
        numbers = {
            "routing_cells": head.routing_cells,
            "lifted_cells": head.lifted_cells,
            "linear_regions": true,
            "claimed": claimed,
        }
        trials.append(Trial(name, holds, tight=attained, numbers=numbers))
    first, second = trials[0].numbers, trials[1].numbers
    return Finding(
        tuple(trials),
        f"With keys -1, 1 and three channels there are {first['routing_cells']} routing cells, "
        f"{first['lifted_cells']} lifted cells and {first['linear_regions']} linear regions. With "
        f"equal values there are {second['lifted_cells']} cells but only "
        f"{second['linear_regions']} region, because the kinks of numerator and denominator "
        "cancel.",
        "The walls of the lifted map depend on V. They lie in the common refinement of the d_v "
        "numerators and the denominator, and the number of its cells bounds the number of linear "
        "regions from above.",
        figure=_draw_lifted_example,
    )


def _draw_lifted_example() -> "Figure":
    from hardmax.plotting.style import create_row, theme_colour

    head = _lifted_examples()[0][1]
    q = np.linspace(-4.0, 4.0, 401)[:, None]
    figure: Figure
    figure, axes = create_row(1)
    for c, column in enumerate(head(q).T):
        axes[0].plot(q[:, 0], column, label=f"channel {c}")
    axes[0].axvline(0.0, color=theme_colour("ink"), linestyle="--", label="the only routing wall")
    axes[0].legend()
    return figure


def _check_routing_of_cells(claimed: Callable[[list[int]], int]) -> Finding:
    """Compare the claimed route of a cell with the winner at a point inside the cell."""
    trials = []
    for name, head in _lifted_examples():
        pieces, keys = head.pieces, [[Fraction(float(x)) for x in key] for key in head.keys]
        right = []
        for choice, q in zip(pieces.choices.tolist(), pieces.exact_witnesses, strict=True):
            scores = [sum(a * b for a, b in zip(key, q, strict=True)) for key in keys]
            right.append(scores.index(max(scores)) == claimed(choice))
        numbers = {"cells": len(right), "routed_as_claimed": sum(right)}
        trials.append(Trial(name, all(right), numbers=numbers))
    return Finding(
        tuple(trials),
        "At a rational point in every cell of the refinement, the winning key is the one that the "
        "cell names in "
        + ", ".join(f"{t.numbers['routed_as_claimed']} of {t.numbers['cells']}" for t in trials)
        + " cells.",
    )


def _hard_output(q: Fraction) -> Fraction:
    """Return the limit of the head with keys and values -1, 1; values averaged on the wall."""
    return Fraction((q > 0) - (q < 0))


def _lifted_output(q: Fraction) -> Fraction:
    """Return a channel of the log-lifted head with the same keys and lifted values 0, 2."""
    return max(-q, q + 2) - max(-q, q)


def _largest_change(output: Callable[[Fraction], Fraction]) -> Fraction:
    """Return the largest change over steps of 2^-39 around 25 points, in fractions."""
    step, centres = Fraction(1, 2**40), [Fraction(k, 4) for k in range(-12, 13)]
    return max(abs(output(x + step) - output(x - step)) for x in centres)


def _check_rational(are_rational: frozenset[str]) -> Finding:
    """A difference of two maxima of forms with slopes -1, 1 changes by at most twice the step."""
    trials = []
    for name, output in (("log-lifted values", _lifted_output), ("fixed values", _hard_output)):
        change = _largest_change(output)
        trials.append(
            equal_trial(
                f"keys -1, 1 and {name}: steps of 2^-39 at 25 points change the limit by no more",
                change <= Fraction(1, 2**38),
                name in are_rational,
                condition=name == "log-lifted values",
                largest_change=change,
            )
        )
    changes = [f"{float(t.numbers['largest_change']):.2g}" for t in trials]
    return Finding(
        tuple(trials),
        "With log-lifted values the limit is by definition a difference of two maxima (its "
        f"largest change over a step of 2^-39 is {changes[0]}). With fixed values the limit is "
        f"the sign of q, which jumps by {changes[1]}. Tropical rational maps are continuous, so "
        "none of them agrees almost everywhere with a map that jumps.",
        "True for the logarithm of attention with log-lifted values, and then everywhere. "
        "Attention itself, with fixed values, tends to a piecewise constant map, which is not a "
        "tropical rational map.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        id="III-D",
        source="SL26",
        where="Section III-D, before Definition III.10",
        kind="text",
        statement="Standard attention uses the temperature tau = 1/sqrt(d_k) in e^(<q,k>/tau).",
        content=_inverse_root,
        check=_check_temperature,
        repaired=_root,
    ),
    Claim(
        id="III.10",
        source="SL26",
        where="Definition III.10, section III-D",
        kind="definition",
        statement=(
            "With values e^(v/tau), tau times the logarithm of a channel of the attention output "
            "tends to max_j(s_j + v_j) - max_j s_j."
        ),
        content=_lifted_limit,
        check=_check_lifted_limit,
        corrupted=_lifted_limit_without_denominator,
    ),
    Claim(
        id="III.11a",
        source="SL26",
        where="Remark III.11, first half, section III-D",
        kind="remark",
        statement="With positive values that do not depend on tau, the tropical quotient is 0.",
        content=lambda values: Fraction(0),
        check=_check_degenerate,
        corrupted=lambda values: Fraction(max(values)),
    ),
    Claim(
        id="III.11b",
        source="SL26",
        where="Remark III.11, section III-D",
        kind="remark",
        statement=(
            "With fixed values, the output tends to the value of the key with the largest score."
        ),
        content=HardLimitClaim(_first_winner, _first_winner),
        check=_check_hard_limit,
        corrupted=HardLimitClaim(_mean_of_all, _mean_of_all),
        repaired=HardLimitClaim(_first_winner, _mean_of_winners),
        unmoved={
            "content.tied": ("on ties the claim fails; it is conditional, whatever its limit there")
        },
    ),
    Claim(
        id="III.11c",
        source="SL26",
        where="Remark III.11, section III-D",
        kind="remark",
        statement=(
            "Log-lifting preserves the routing hypersurfaces; the partition is independent of V; "
            "the difference is only a scaling factor."
        ),
        content=RegionCountClaim(lambda head: head.routing_cells),
        check=_check_region_count,
        repaired=RegionCountClaim(lambda head: head.lifted_cells, is_equality=False),
    ),
    Claim(
        id="III.12a",
        source="SL26",
        where="Remark III.12, section III-D",
        kind="remark",
        statement="The cells of the common refinement of all numerators and the denominator are "
        "the maximal linear regions.",
        content=RegionCountClaim(lambda head: head.lifted_cells),
        check=_check_region_count,
        repaired=RegionCountClaim(lambda head: head.lifted_cells, is_equality=False),
    ),
    Claim(
        id="III.12b",
        source="SL26",
        where="Remark III.12, section III-D",
        kind="remark",
        statement="The routing does not change within a cell of the common refinement.",
        content=lambda choice: choice[-1],
        check=_check_routing_of_cells,
        corrupted=lambda choice: choice[0],
    ),
    Claim(
        id="III.12c",
        source="SL26",
        where="Text after Remark III.12, section III-D",
        kind="text",
        statement=(
            "In the zero-temperature limit, single-head self-attention is almost everywhere "
            "exactly a tropical rational map."
        ),
        content=frozenset({"log-lifted values", "fixed values"}),
        check=_check_rational,
        corrupted=frozenset({"fixed values"}),
        repaired=frozenset({"log-lifted values"}),
    ),
)
