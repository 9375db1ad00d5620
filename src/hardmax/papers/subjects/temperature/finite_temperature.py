r"""Theorem VI.1 of [SL26]: the distance between log-sum-exp and the maximum.

Write $x_j = e^{(s_j - s_i)/\tau} \le r = e^{-\delta/\tau}$ for the rivals of the winner $i$. Then
$p = (1, x)/(1 + \sum x)$. For rational $x$ and $r$, the gradient and Hessian are therefore
rational, and exact elimination decides whether a spectral norm exceeds a number. The temperature
is only a scale factor.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.papers.claims import Claim, Finding, Trial, upper_trial
from hardmax.papers.subjects.enclosures import ball, log_sum_exp, softmax, working_precision
from hardmax.papers.subjects.temperature.spectral_norms import (
    covariance,
    exact_supremum,
    norm_is_at_most,
    probabilities,
    symmetric_norm,
    symmetric_value,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Constant = Callable[[int, Fraction], Fraction]


def _random_rivals(seed: int, n_keys: int, r: Fraction) -> list[Fraction]:
    rng = np.random.default_rng(seed)
    return [r * int(k) / 1000 for k in rng.integers(1, 1001, size=n_keys - 1)]


_SIZES = ((2, Fraction(1, 50)), (2, Fraction(1, 3)), (3, Fraction(1, 99)), (5, Fraction(1, 200)))


def _check_value(argument: Callable[[int, Any], Any]) -> Finding:
    trials = []
    for n, r in (*_SIZES, (512, Fraction(1, 10**6))):
        where = f"N = {n}, r = {r}: all rivals on the margin"
        true = 1 + sum([r] * (n - 1))
        trials.append(upper_trial(where, true, argument(n, r), extremal=True))
        true = 1 + sum(_random_rivals(n, n, r))
        trials.append(upper_trial(f"N = {n}, r = {r}: random rivals", true, argument(n, r)))
    with working_precision():
        tau = Fraction(1, 8)
        gap = log_sum_exp([0, -1, -2, -1], tau)
        bound = ball(tau) * argument(4, ball(-8).exp()).log()
        within = bool(gap > 0) and bool(gap <= bound)
    trials.append(Trial("scores 0, -1, -2, -1 and tau = 1/8, in ball arithmetic", within))
    return Finding(
        tuple(trials),
        "Log-sum-exp exceeds the maximum by tau log(1 + sum of the rivals' weights), where each "
        "weight is relative to the winner's. This is largest if every rival is on the margin; "
        "then the bound is attained.",
    )


def _check_gradient(bound: Constant) -> Finding:
    trials = []
    for n, r in (*_SIZES, (2, Fraction(1, 10**9)), (64, Fraction(1, 10**9))):
        for name, rivals in (("on the margin", [r] * (n - 1)), ("random", _random_rivals(n, n, r))):
            p = probabilities(rivals)
            true = (1 - p[0]) + sum(p[1:])
            where = f"N = {n}, r = {r}: rivals {name}"
            trials.append(upper_trial(where, true, bound(n, r), extremal=name != "random"))
    worst = trials[2].numbers
    return Finding(
        tuple(trials),
        "The bound is true but never attained: with all rivals on the margin, r = 1/3 and N = 2, "
        f"the distance is {worst['true']} and the bound is {worst['claimed']}. The constant 2 is "
        "correct for small r.",
        "2(N-1)r / (1 + (N-1)r), attained.",
    )


def _check_hessian(bound: Constant) -> Finding:
    trials = []
    for n, r in (*_SIZES, (16, Fraction(1, 10**4)), (64, Fraction(1, 10**6))):
        true = symmetric_norm(n, r)
        where = f"N = {n}, r = {r}: all rivals on the margin"
        trials.append(upper_trial(where, true, bound(n, r), extremal=true == exact_supremum(n, r)))
    for n, r in (
        (2, Fraction(1, 5)),
        (3, Fraction(1, 2)),
        (4, Fraction(1, 9)),
        (6, Fraction(1, 30)),
    ):
        held = [
            norm_is_at_most(covariance(probabilities(_random_rivals(s, n, r))), bound(n, r))
            for s in range(8)
        ]
        where = f"N = {n}, r = {r}: 8 random sets of rivals, decided exactly"
        trials.append(Trial(where, all(held), numbers={"held": sum(held)}))
    small = trials[0].numbers
    factor = float(small["true"] / small["claimed"])
    return Finding(
        tuple(trials),
        f"For two keys and r = 1/50, the norm times tau is {small['true']} and the bound is "
        f"{small['claimed']}; their ratio is {factor:.3f}. For small r, the norm exceeds the "
        "bound for every N tried, 2 to 64.",
        "At most max_m (m+1)r/(1+mr)^2 / tau. This is the supremum, approached with m rivals on "
        "the margin and the others far below.",
        lambda: _hessian_figure(bound),
    )


def _hessian_figure(bound: Constant) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8, 3.2), layout="constrained")
    axes = figure.subplots()
    margins = np.linspace(0.0, 12.0, 121)
    for n in (2, 8, 64):
        ratios = []
        for margin in margins:
            r = Fraction(float(np.exp(-margin))).limit_denominator(10**9)
            ratios.append(float(symmetric_value(n, r) / bound(n, r)))
        axes.plot(margins, ratios, label=f"{n} keys")
    axes.axhline(1.0, color="0.5", linewidth=0.8)
    axes.set(xlabel="margin / temperature", ylabel="norm / claimed bound")
    axes.legend()
    return figure


def _moved_scores(n_keys: int, r: Fraction, step: Fraction) -> tuple[list[Any], list[Any]]:
    """Return scores with all rivals at weight r (a ball), and the same moved off the margin."""
    margin = -ball(r).log()
    start = [ball(0), *[-margin] * (n_keys - 1)]
    return start, [start[0] + ball(step) * (n_keys - 1), *(s - ball(step) for s in start[1:])]


def _soft_max_and_weights(scores: Sequence[Any]) -> tuple[Any, list[Any]]:
    weights = [(s - scores[0]).exp() for s in scores]
    total = sum(weights, ball(0))
    return scores[0] + total.log(), [w / total for w in weights]


def _check_smoothness(constant: Constant, order: int) -> Finding:
    trials = []
    step = Fraction(1, 2**100)
    with working_precision(1024):  # second differences are of the order of 2^-200
        for n, r in ((2, Fraction(1, 50)), (3, Fraction(1, 99)), (5, Fraction(1, 500))):
            before, after = _moved_scores(n, r, step)
            (value, p), (moved, q) = _soft_max_and_weights(before), _soft_max_and_weights(after)
            squared = ball(step**2 * ((n - 1) ** 2 + n - 1))
            if order == 1:
                true = sum(((b - a) ** 2 for a, b in zip(p, q, strict=True)), ball(0)).sqrt()
                claimed = ball(constant(n, r)) * squared.sqrt()
            else:
                steps = [b - a for a, b in zip(before, after, strict=True)]
                linear = sum((a * b for a, b in zip(p, steps, strict=True)), ball(0))
                true = abs(moved - value - linear)
                claimed = ball(constant(n, r)) * squared / 2
            numbers = {"true / claimed": float((true / claimed).mid())}
            where = f"N = {n}, r = {r}: from the margin inwards by 2^-100"
            # The constant is a supremum, approached as the step goes to 0.
            near = bool(true >= claimed * (1 - ball(Fraction(1, 2**80))))
            trials.append(Trial(where, bool(true <= claimed), tight=near, numbers=numbers))
    ratios = ", ".join(f"{t.numbers['true / claimed']:.3f}" for t in trials)
    return Finding(
        tuple(trials),
        f"Ratio of the measured number to the stated one, in ball arithmetic: {ratios}.",
        "The same bound with max_m (m+1)r/(1+mr)^2 in place of (N-1)r.",
    )


def _check_curvature_inside(bound: Constant) -> Finding:
    trials = []
    for n, r in _SIZES:
        where = f"N = {n}, inside the cell with weights r = {r}: norm of the Hessian times tau"
        norm = symmetric_norm(n, r)
        extremal = norm == exact_supremum(n, r)
        trials.append(upper_trial(where, norm, bound(n, r), extremal=extremal))
    least = min(t.numbers["true"] for t in trials)
    with working_precision():
        weights = softmax([0, -100], 1)
    return Finding(
        tuple(trials),
        "Softmax weights are never 0 (at a margin of 100 temperatures, the rival has weight "
        f"{weights[1].str(3, radius=False)}), so the Hessian vanishes nowhere. Here the norm of "
        f"the Hessian times tau is at least {float(least):.3g}.",
        "The interiors are nearly affine: the curvature is at most max_m (m+1)r/(1+mr)^2 / tau, "
        "and this is the supremum.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        "VI.0",
        "SL26",
        "Section VI, before Theorem VI.1",
        "remark",
        "At finite temperature, the non-linearity is confined to bands at the walls, and the "
        "interiors of the cells are affine.",
        content=lambda n, r: Fraction(0),
        check=_check_curvature_inside,
        repaired=exact_supremum,
    ),
    Claim(
        "VI.1a",
        "SL26",
        "Theorem VI.1, function value",
        "theorem",
        "With margin delta, 0 <= P_tau - max <= tau log(1 + (N-1)e^(-delta/tau)).",
        content=lambda n, r: 1 + (n - 1) * r,
        check=_check_value,
        corrupted=lambda n, r: 1 + (n - 1) * r - r / 2,
    ),
    Claim(
        "VI.1b",
        "SL26",
        "Theorem VI.1, gradient",
        "theorem",
        "With margin delta, the gradient is within 2(N-1)e^(-delta/tau) of a unit vector, in the "
        "1-norm.",
        content=lambda n, r: 2 * (n - 1) * r,
        check=_check_gradient,
        corrupted=lambda n, r: (n - 1) * r,
        repaired=lambda n, r: 2 * (n - 1) * r / (1 + (n - 1) * r),
    ),
    Claim(
        "VI.1c",
        "SL26",
        "Theorem VI.1, Hessian",
        "theorem",
        "With margin delta, the Hessian has spectral norm at most (N-1)e^(-delta/tau) / tau.",
        content=lambda n, r: (n - 1) * r,
        check=_check_hessian,
        repaired=exact_supremum,
    ),
    Claim(
        "VI.1d",
        "SL26",
        "Theorem VI.1, local affine approximation",
        "theorem",
        "The gradient is Lipschitz on the stable region, with constant (N-1)e^(-delta/tau) / tau.",
        content=lambda n, r: (n - 1) * r,
        check=lambda constant: _check_smoothness(constant, 1),
        repaired=exact_supremum,
    ),
    Claim(
        "VI.1e",
        "SL26",
        "Theorem VI.1, local affine approximation",
        "theorem",
        "The remainder of the linear approximation is at most half of the constant of VI.1d "
        "times the squared distance.",
        content=lambda n, r: (n - 1) * r,
        check=lambda constant: _check_smoothness(constant, 2),
        repaired=exact_supremum,
    ),
)
