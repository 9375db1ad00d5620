r"""Example VI.2 of [SL26]: the bounds at the temperatures in use.

Numbers are enclosed in ball arithmetic, so a comparison that returns True is a proof. The example
has $N = 512$ keys, $d_k = 64$ and the margin 2.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import floor, isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.papers.claims import Claim, Finding, Trial, bracket_trial
from hardmax.papers.subjects.enclosures import ball, softmax, working_precision
from hardmax.stability.temperatures import margin_for_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KEYS, _MARGIN = 512, 2
_SHARES = (0.5, 0.1, 0.01)
"""The shares of weight left to the rivals for which margins are computed."""
_THEIRS = Fraction(1, 8)
"""The temperature of the example, $1/\\sqrt{d_k}$."""


def weight_ratio(margin: Fraction | int, tau: Fraction | int) -> Any:
    r"""Enclose $e^{-\delta/\tau}$, the weight of a rival on the margin relative to the winner."""
    return (-ball(Fraction(margin) / Fraction(tau))).exp()


def _root(head_dim: int) -> Fraction:
    """Return the square root of a square number."""
    return Fraction(isqrt(head_dim))


def format_ball(number: Any, digits: int = 3) -> str:
    """Write a ball with this many digits, without its radius."""
    return str(number.str(digits, radius=False))


def _check_temperature(tau: Callable[[int], Fraction]) -> Finding:
    trials = []
    with working_precision():
        for root in (1, 4, 8):
            scores = [5, 3, -2, 0]
            standard = softmax([Fraction(s, root) for s in scores], 1)
            claimed = softmax(scores, tau(root**2))
            holds = all(a.overlaps(b) for a, b in zip(standard, claimed, strict=True))
            numbers = {
                "standard": format_ball(standard[0], 5),
                "claimed": format_ball(claimed[0], 5),
            }
            where = f"d_k = {root**2}: weight of the winner, scores {scores}"
            trials.append(Trial(where, holds, numbers=numbers))
    last = trials[-1].numbers
    return Finding(
        tuple(trials),
        f"With softmax(<q,k>/sqrt(d_k)) at d_k = 64, the winner has weight {last['standard']}; "
        f"with the stated temperature, {last['claimed']}. The two agree only for d_k = 1.",
        "tau = sqrt(d_k) on raw scores, which is tau = 1 on scaled scores.",
    )


def _check_printed_values(printed: Sequence[str]) -> Finding:
    trials = []
    with working_precision():
        r = weight_ratio(_MARGIN, _THEIRS)
        mass = (_KEYS - 1) * r
        formulas = {
            "tau log(1 + (N-1)r)": ball(_THEIRS) * (1 + mass).log(),
            "2 (N-1) r": 2 * mass,
            "(N-1) r / tau": mass / ball(_THEIRS),
        }
        for (name, value), text in zip(formulas.items(), printed, strict=True):
            digits, exponent = text.split("e")
            last = Fraction(10) ** (int(exponent) - len(digits.partition(".")[2]))
            exact = Fraction(digits) * Fraction(10) ** int(exponent)
            # A correctly rounded number is within half a unit of its last digit.
            holds = bool(abs(value - ball(exact)) < ball(last / 2))
            numbers = {"value": format_ball(value, 6), "printed": text}
            trials.append(Trial(f"{name} at N = 512, tau = 1/8, margin 2", holds, numbers=numbers))
    pairs = ", ".join(f"{t.numbers['value']} (printed: {t.numbers['printed']})" for t in trials)
    return Finding(
        tuple(trials),
        f"Evaluated at the temperature of the example: {pairs}. "
        f"{sum(bool(t.holds) for t in trials)} of {len(trials)} are correctly rounded to the "
        "printed digits; 7.18e-6 is truncated, and therefore below the bound that it stands for.",
        "7.19e-6, 1.15e-4 and 4.6e-4.",
    )


def _check_concentration(share: Fraction) -> Finding:
    with working_precision():
        least = 1 / (1 + (_KEYS - 1) * weight_ratio(_MARGIN, _THEIRS))
        step = Fraction(1, 10**5)
        trials = [
            Trial(
                "least weight of the winner at N = 512, tau = 1/8, margin 2",
                bool(least >= ball(share)),
                tight=not bool(least > ball(share + step)),
                numbers={"least": format_ball(least, 7), "claimed": float(share)},
            )
        ]
        percent = 100 * least
        cut = floor(1000 * float(percent.mid())) / 1000
    return Finding(
        tuple(trials),
        "At the temperature of the example, the winner's weight is at least "
        f"{format_ball(percent, 7)} percent.",
        f"At least {cut} percent.",
    )


def _check_example_hessian(bound: Callable[[int, Any], Any]) -> Finding:
    with working_precision():
        r = weight_ratio(_MARGIN, _THEIRS)
        # If all rivals are at the margin, the norm is N r / (1 + (N-1) r)^2 / tau.
        true = _KEYS * r / (1 + (_KEYS - 1) * r) ** 2 / ball(_THEIRS)
        claimed = bound(_KEYS, r) / ball(_THEIRS)
        trial = bracket_trial(
            "all 511 rivals on the margin 2, tau = 1/8: no scores with that margin have more",
            true,
            claimed,
            norm=format_ball(true, 6),
            claimed=format_ball(claimed, 6),
        )
    return Finding(
        (trial,),
        f"The Hessian's norm reaches {trial.numbers['norm']}, above the stated "
        f"{trial.numbers['claimed']}.",
        "N r/(1 + (N-1)r)^2 / tau at this margin, attained.",
    )


def _check_standard_regime(share: Callable[[int, Fraction, int], Any]) -> Finding:
    trials = []
    with working_precision():
        for name, tau in (("raw scores, tau = sqrt(d_k) = 8", 8), ("scaled scores, tau = 1", 1)):
            mass = (_KEYS - 1) * weight_ratio(_MARGIN, tau)
            least = 1 / (1 + mass)
            claimed = share(_KEYS, Fraction(_MARGIN), tau)
            where = f"margin 2 on {name}: least weight of the winner"
            numbers: dict[str, Any] = {"mass": format_ball(mass), "least": format_ball(least)}
            for rivals in _SHARES:
                needed = float(margin_for_accuracy(_KEYS, float(tau), rivals))
                numbers[f"margin for rivals below {rivals}"] = needed
            # The bound is attained if all rivals are at the margin.
            trials.append(bracket_trial(where, claimed, least, **numbers))
    raw, scaled = (t.numbers for t in trials)
    margins = [
        ", ".join(f"{column[f'margin for rivals below {share}']:.3g}" for share in _SHARES)
        for column in (raw, scaled)
    ]
    return Finding(
        tuple(trials),
        f"N = {_KEYS}, d_k = 64. At the standard scaling, a margin of {_MARGIN} on raw scores "
        f"gives (N-1)r = {float(raw['mass']):g}, and the winner may get as little as "
        f"{raw['least']} of the weight; on scaled scores, {scaled['least']}. To keep the weight "
        f"of the rivals below {', '.join(map(str, _SHARES))}, the margin must be {margins[0]} on "
        f"raw scores ({margins[1]} on scaled ones); the numbers of the example need a raw margin "
        f"of {_MARGIN / _THEIRS * _root(64)}.",
        "At least 1/(1 + (N-1)e^(-delta/tau)), attained, with tau = sqrt(d_k) on raw scores.",
        _regime_figure,
    )


def _regime_figure() -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8, 3.2), layout="constrained")
    axes = figure.subplots()
    margins = np.linspace(0.0, 130.0, 521)
    for tau, label in (
        (0.125, "1/8 (the example)"),
        (1.0, "1 (scaled scores)"),
        (8.0, "8 (raw scores)"),
    ):
        axes.plot(margins, 1 / (1 + (_KEYS - 1) * np.exp(-margins / tau)), label=f"tau = {label}")
    axes.axvline(_MARGIN, color="0.5", linewidth=0.8, linestyle="--")
    axes.set(xlabel="margin", ylabel="least weight of the winner", title=f"{_KEYS} keys, d_k = 64")
    axes.legend()
    return figure


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        "VI.2a",
        "SL26",
        "Example VI.2 and section VI",
        "example",
        "The standard scaling of attention is the temperature 1/sqrt(d_k).",
        content=lambda head_dim: 1 / _root(head_dim),
        check=_check_temperature,
        repaired=lambda head_dim: _root(head_dim),
    ),
    Claim(
        "VI.2b",
        "SL26",
        "Example VI.2",
        "example",
        "For N = 512, tau = 1/8 and margin 2 the three bounds are 7.18e-6, 1.15e-4 and 4.6e-4.",
        content=("7.18e-6", "1.15e-4", "4.6e-4"),
        check=_check_printed_values,
        repaired=("7.19e-6", "1.15e-4", "4.6e-4"),
    ),
    Claim(
        "VI.2c",
        "SL26",
        "Example VI.2, gradient concentration",
        "example",
        "In the setting of VI.2b, the winner has at least 99.98 percent of the weight.",
        content=Fraction(9998, 10000),
        check=_check_concentration,
        corrupted=Fraction(99998, 100000),
        repaired=Fraction(99994, 100000),
    ),
    Claim(
        "VI.2d",
        "SL26",
        "Example VI.2, Hessian",
        "example",
        "In the setting of VI.2b, the curvature is at most (N-1) r / tau, about 4.6e-4.",
        content=lambda n, r: (n - 1) * r,
        check=_check_example_hessian,
        repaired=lambda n, r: n * r / (1 + (n - 1) * r) ** 2,
    ),
    Claim(
        "VI.2e",
        "SL26",
        "Example VI.2, conclusion",
        "example",
        "With standard parameters and a margin of 2, attention is close to its hard limit: the "
        "winner has 99.98 percent of the weight.",
        content=lambda n, margin, tau: ball(Fraction(9998, 10000)),
        check=_check_standard_regime,
        repaired=lambda n, margin, tau: 1 / (1 + (n - 1) * weight_ratio(margin, tau)),
    ),
)
