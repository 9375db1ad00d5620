r"""Remark VI.3 of [SL26]: the part of the hard partition that persists at finite temperature.

Numbers are enclosed in ball arithmetic, so a comparison that returns True is a proof.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.constructions.families.literal_shattering import literal_shattering_transformer
from hardmax.papers.claims import Claim, Finding, Trial, bracket_trial, equal_trial
from hardmax.papers.subjects.counting.cubes import unit_cube
from hardmax.papers.subjects.enclosures import ball, softmax, working_precision
from hardmax.papers.subjects.temperature.soft_pieces import surviving_pieces
from hardmax.papers.subjects.temperature.temperature_regime import format_ball, weight_ratio
from hardmax.regions.engines import enumerate_regions

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _check_decay(rate: Callable[[int, Fraction], Any]) -> Finding:
    """Compare values and gradients of log-sum-exp, for margin 1, with a rate of decay."""
    trials = []
    with working_precision():
        for n in (2, 512):
            mass = {
                tau: (n - 1) * weight_ratio(1, tau)
                for tau in (Fraction(1), Fraction(1, 4), Fraction(1, 16), Fraction(1, 256))
            }
            ratios = [ball(tau) * (1 + m).log() / rate(n, tau) for tau, m in mass.items()]
            numbers = {"value / rate": [format_ball(ratio) for ratio in ratios]}
            where = f"N = {n}, tau = 1 to 1/256: values, all rivals on the margin"
            holds = not any(bool(ratio > 1) for ratio in ratios)
            trials.append(Trial(where, holds, numbers=numbers))
            ratios = [m / (1 + m) / rate(n, tau) for tau, m in mass.items()]
            numbers = {"gradient / rate": [format_ball(ratio) for ratio in ratios]}
            where = f"N = {n}, tau = 1 to 1/256: weight of the rivals, all on the margin"
            holds = not any(bool(ratio > 1) for ratio in ratios)
            reached = bool(ratios[-1] > 1 - ball(Fraction(1, 2**100)))
            trials.append(Trial(where, holds, tight=reached, numbers=numbers))
    listed = ", ".join(trials[3].numbers["gradient / rate"])
    return Finding(
        tuple(trials),
        "For 512 keys and margin 1, the weight of the rivals divided by (N-1)e^(-delta/tau) is "
        f"{listed} at tau = 1, 1/4, 1/16, 1/256: the rate is attained.",
    )


@dataclass(frozen=True)
class BandWidth:
    """The width of the band in which rivals get more than a share, possibly up to a constant.

    Attributes:
        of: The width in the margin, as a function of tau, N and the share.
        has_free_constant: Whether the width is only an order, with a constant fitted at one point.
    """

    of: Callable[[Fraction, int, Fraction], Any]
    has_free_constant: bool


def _check_bands(content: BandWidth) -> Finding:
    trials = []
    reference = (Fraction(1), 2, Fraction(1, 100))
    with working_precision():
        unit = (
            _band_margin(*reference) / content.of(*reference)
            if content.has_free_constant
            else ball(1)
        )
        for tau, n, share, fixed in (
            (Fraction(1, 2), 2, Fraction(1, 100), True),
            (Fraction(1, 8), 2, Fraction(1, 100), True),
            (Fraction(1), 512, Fraction(1, 100), False),
            (Fraction(1), 2, Fraction(1, 10**6), False),
        ):
            true, claimed = _band_margin(tau, n, share), unit * content.of(tau, n, share)
            where = f"tau = {tau}, N = {n}, rivals below {share}"
            # If all rivals are at this margin, they have exactly that share.
            mass = (n - 1) * (-true / ball(tau)).exp()
            assert not bool(mass / (1 + mass) > ball(share))
            assert not bool(mass / (1 + mass) < ball(share))
            wide = format_ball(true)
            trials.append(bracket_trial(where, true, claimed, condition=fixed, width=wide))
    listed = ", ".join(f"{t.numbers['width']} ({t.instance})" for t in trials[2:])
    return Finding(
        tuple(trials),
        "The width of the band is linear in tau for fixed N and accuracy, and equals "
        f"{_format_band(reference)} at tau = 1. The constant, however, depends on both: {listed}.",
        "The width in the margin is tau log((N-1)(1-eps)/eps), for weight at most eps on the "
        "rivals.",
    )


def _band_margin(tau: Fraction, n_keys: int, share: Fraction) -> Any:
    """Return the margin below which rivals can get more than this share."""
    return ball(tau) * ball((n_keys - 1) * (1 - share) / share).log()


def _format_band(reference: tuple[Fraction, int, Fraction]) -> str:
    with working_precision():
        return format_ball(_band_margin(*reference))


def _check_small(ratio: Callable[[int, Fraction, int], Any]) -> Finding:
    """Compare the band at tau = sqrt(d_k) with the spread of the scores of entries +-s."""
    trials = []
    with working_precision():
        for n, head_dim, share in ((512, 64, Fraction(1, 100)), (1024, 64, Fraction(1, 10))):
            for square in (1, 4, 16):
                # Queries and keys have entries +-s with s^2 = `square`, so that scores are s^2
                # times as large.
                spread = square * ball(_score_variance(head_dim)).sqrt()
                true = ball(head_dim).sqrt() * _band_margin(Fraction(1), n, share) / spread
                where = (
                    f"N = {n}, d_k = {head_dim}, rivals below {share}, entries of variance "
                    f"{square}: band over spread of scores"
                )
                narrow = not bool(true > 1)
                trials.append(
                    bracket_trial(
                        where,
                        true,
                        ratio(n, share, square),
                        condition=narrow,
                        ratio=format_ball(true),
                    )
                )
    listed = ", ".join(f"{t.numbers['ratio']} ({t.instance.split(': band')[0]})" for t in trials)
    return Finding(
        tuple(trials),
        "At tau = sqrt(d_k), the temperature equals the standard deviation of the scores if the "
        "entries of queries and keys have variance 1. Width of the bands divided by the standard "
        f"deviation of the scores: {listed}.",
        "The width is log((N-1)(1-eps)/eps) / s^2 standard deviations if the entries of queries "
        "and keys have variance s^2, for every d_k. The bands are narrower than one standard "
        "deviation of the scores if and only if s^2 exceeds that logarithm.",
    )


def _score_variance(head_dim: int) -> Fraction:
    """Return the variance of <q, k> over all q, k with entries 1 and -1 (mean 0, variance 1)."""
    agreeing = [comb(head_dim, k) for k in range(head_dim + 1)]  # pairs that agree in k entries
    moments = [m * (2 * k - head_dim) ** 2 for k, m in enumerate(agreeing)]
    return Fraction(sum(moments), 2**head_dim)


def _check_displacement(shift: Callable[[Any], tuple[Any, Any]]) -> Finding:
    trials = []
    with working_precision():
        for tau in (Fraction(1, 100), Fraction(1), Fraction(100)):
            moved = 0
            for a in range(-20, 20):
                scores = [Fraction(2 * a + 1, 7), Fraction(3, 11), Fraction(-a, 13)]
                weights = softmax(scores, tau)
                best = scores.index(max(scores))
                moved += not all(bool(w < weights[best]) for w in weights if w is not weights[best])
            least, most = shift(weight_ratio(1, tau))
            within = not bool(least > 0)  # the walls, where two weights agree, have not moved
            where = f"tau = {tau}: the largest score has the largest weight, at 40 points"
            numbers = {"points that differ": moved, "claimed": str(most)}
            holds = moved == 0 and within
            still = bool(most == 0) and bool(least == 0)
            trials.append(Trial(where, holds, tight=still, numbers=numbers))
    return Finding(
        tuple(trials),
        "Softmax is increasing, so the key with the largest weight is the key with the largest "
        "score at every temperature: the partition of one layer is not displaced at all.",
        "For one layer, there is no displacement at any temperature.",
    )


def _check_persistence(claimed: Callable[[int, bool], int | None]) -> Finding:
    """Count the hard pieces that survive, at temperatures small and not small against margins."""
    trials = []
    for depth, tau in (
        (1, Fraction(1, 8)),
        (1, Fraction(1, 1000)),
        (2, Fraction(1, 1000)),
        (2, Fraction(1, 20000)),
    ):
        model = literal_shattering_transformer(4, 1, depth, 2)
        hard = enumerate_regions(model, unit_cube(1)).n_regions
        # At a quarter of a piece from a wall of the first layer, the margin is 1/(16 * 8^L).
        cold = 5 * tau < Fraction(1, 16 * 8**depth)
        where = f"L = {depth}, tau = {tau}"
        true, stated = surviving_pieces(depth, tau), claimed(hard, cold)
        if stated is None:
            trials.append(Trial(where, None, numbers={"true": true, "hard": hard}))
        else:
            trials.append(equal_trial(where, true, stated, condition=cold, hard=hard))
    listed = ", ".join(f"{t.numbers['true']} of {t.numbers['hard']} ({t.instance})" for t in trials)
    return Finding(
        tuple(trials),
        "Pieces of the network of Theorem V.7 (N = 4, w = 1) that its soft version still follows: "
        f"{listed}. A temperature at which all pieces of one layer survive can be too high for "
        "two layers.",
        "True if the temperature is small compared with the margins of the network itself (here: "
        "5 tau is less than the margin at a quarter of a piece from a wall). The theorem is about "
        "one layer.",
        _persistence_figure,
    )


def _persistence_figure() -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 3.0), layout="constrained")
    x = np.linspace(0.0, 1.0, 2001)[1::2, None]
    for depth, axes in zip((1, 2), figure.subplots(1, 2, sharey=True), strict=True):
        model = literal_shattering_transformer(4, 1, depth, 2)
        axes.plot(x, model(x), color="0.7", linewidth=2.0, label="hard")
        for tau in (0.01, 0.001):
            axes.plot(x, model.soft(x, tau), linewidth=0.8, label=f"tau = {tau}")
        axes.set(xlabel="x", title=f"{depth} block{'s' * (depth > 1)}", ylim=(-0.05, 1.5))
    axes.legend()
    return figure


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        "VI.3a",
        "SL26",
        "Remark VI.3",
        "remark",
        "For a fixed margin, the deviation from the tropical map is of the order e^(-delta/tau) "
        "as tau tends to 0 (with the constant N - 1 of Theorem VI.1).",
        content=lambda n, tau: (n - 1) * weight_ratio(1, tau),
        check=_check_decay,
        corrupted=lambda n, tau: (n - 1) * weight_ratio(2, tau),
        neighbours={
            "content: a little faster": lambda n, tau: (
                (n - 1) * weight_ratio(Fraction(1001, 1000), tau)
            ),
            "content: a little slower": lambda n, tau: (
                (n - 1) * weight_ratio(Fraction(999, 1000), tau)
            ),
        },
    ),
    Claim(
        "VI.3b",
        "SL26",
        "Remark VI.3",
        "remark",
        "The cells persist at finite temperature, up to exponentially small displacements of "
        "their walls.",
        content=lambda r: (0, r),
        check=_check_displacement,
        corrupted=lambda r: (r / 2, r),
        repaired=lambda r: (0, 0),
    ),
    Claim(
        "VI.3c",
        "SL26",
        "Remark VI.3",
        "remark",
        "Approximately linear regions are separated by bands with a width of the order tau.",
        content=BandWidth(lambda tau, n, share: ball(tau), has_free_constant=True),
        check=_check_bands,
        corrupted=BandWidth(lambda tau, n, share: ball(tau**2), has_free_constant=True),
        repaired=BandWidth(
            lambda tau, n, share: _band_margin(tau, n, share), has_free_constant=False
        ),
        unmoved={
            "content.of": "the constant of an order is fitted; scaling all widths has no effect",
            "repaired.has_free_constant": "fitted to the right widths, the constant is 1",
        },
    ),
    Claim(
        "VI.3d",
        "SL26",
        "Remark VI.3",
        "remark",
        "In real transformers tau is small, so the bands are narrow (tested here as: narrower "
        "than the standard deviation of the scores).",
        content=lambda n, share, square: ball(1),
        check=_check_small,
        corrupted=lambda n, share, square: ball(Fraction(1, 100)),
        repaired=lambda n, share, square: _band_margin(Fraction(1), n, share) / square,
        unmoved={"content": "no ratio tried lies within 0.1 % of the limit in `narrower`"},
    ),
    Claim(
        "VI.3e",
        "SL26",
        "Remark VI.3",
        "remark",
        "The linear regions of section V, including the regions of deep networks, are robust "
        "features at finite temperature.",
        content=lambda hard, cold: hard,
        check=_check_persistence,
        corrupted=lambda hard, cold: 2 * hard,
        repaired=lambda hard, cold: hard if cold else None,
    ),
)
