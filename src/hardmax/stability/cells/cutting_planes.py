r"""Enclosures of the temperature up to which a cell is $\varepsilon$-hard, by cutting planes.

A point $t$ of a cell of one layer of heads is $\varepsilon$-hard at $\tau$ if and only if for every
head $\tau\log\sum_j e^{-g_j(t)/\tau} \le \tau\log\kappa$, $\kappa = c\varepsilon/(1-\varepsilon)$.
The left side is jointly convex in $(t, \tau)$ (a perspective of log-sum-exp), so the largest $\tau$
is the height of a convex set. By the Gibbs variational principle, for every probability vector $w$
with entropy $H(w)$,

$$\log\sum_j e^{-g_j/\tau} \ge H(w) - \frac1\tau\sum_j w_j g_j,
  \qquad\text{so}\qquad \sum_j w_j g_j(t) \ge \tau\,\bigl(H(w) - \log\kappa\bigr)$$

is necessary. This condition is a cut that is linear in $(t, \tau)$; for rational $w$ it is exact,
with the constant rounded down. Kelley's method adds the cut of the softmax at the optimum of the
linear program and solves the program again. Every program gives a proven upper bound. Its optimal
point, at which the weights are evaluated in interval arithmetic, gives a proven lower bound.

References:
    [Kel60].
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from flint import arb, ctx, fmpz

from hardmax.exact.directed_rounding import PRECISION, round_down
from hardmax.geometry.linear_programs import largest_height
from hardmax.stability.cells.cell_gaps import CellGaps, ScoreGap
from hardmax.stability.cells.hardness_levels import necessary_levels, sufficient_levels
from hardmax.typing import FloatArray

_GRID = 1 << 40
"""Resolution of the rational weights of a cut."""
_FAR = 1000
"""Differences of gaps are truncated to this multiple of the temperature."""


class Cut(NamedTuple):
    r"""A necessary condition $\sum_j w_j g_j \ge \tau L$.

    Attributes:
        gap: The weighted gap.
        level: The number $L > 0$.
    """

    gap: ScoreGap
    level: Fraction


class CriticalTemperature(NamedTuple):
    """An enclosure of the temperature above which a cell is no longer hard.

    Attributes:
        by_margins: A temperature up to which the smallest margin alone proves that the cell is
            hard; None if it does so at every temperature.
        lower: A temperature up to which the cell is hard; None if it is hard at every temperature.
        upper: A temperature above which the cell is not hard; None if none is known.
        point: A point at which `lower` is attained; if `lower` is None, a point of the cell.
        direction: If `lower` is None, a direction along which the margins grow without bound.
    """

    by_margins: Fraction | None
    lower: Fraction | None
    upper: Fraction | None
    point: tuple[Fraction, ...]
    direction: tuple[Fraction, ...] | None


def critical_temperature(
    cell: CellGaps, epsilon: float, rounds: int, enough: Fraction | None = None
) -> CriticalTemperature:
    r"""Enclose the largest temperature at which a cell is $\varepsilon$-hard.

    Args:
        cell: The gaps on the cell, of heads in one layer.
        epsilon: The share $\varepsilon$, between 0 and 1.
        rounds: The number of times that cuts are added.
        enough: Stop as soon as the enclosure decides whether the cell is hard at this temperature.
    """
    first = cell.largest_level(sufficient_levels(cell, epsilon))
    if first.value is None:
        return CriticalTemperature(None, None, None, first.point, first.direction)
    lower, point, upper = first.value, first.point, None
    single, mean = necessary_levels(cell, epsilon)
    rows = cell.wall_rows() + [gap.height_row(single(gap.head)) for gap in cell.gaps]
    rows += [gap.height_row(mean(gap.head)) for gap in cell.mean_gaps()]
    for done in range(rounds + 1):
        height = largest_height(rows, cell.dim)
        upper = height.value
        if upper is None:
            break
        reached = largest_hard_temperature(cell, height.point, epsilon)
        if reached > lower:
            lower, point = reached, height.point
        is_decided = enough is not None and (lower >= enough or upper < enough)
        if done == rounds or is_decided or upper - lower <= upper / 10**6:
            break
        cuts = [cut for cut in cuts_at(cell, height.point, upper, epsilon) if cut.level > 0]
        rows += [cut.gap.height_row(cut.level) for cut in cuts]
    return CriticalTemperature(first.value, lower, upper, point, None)


def cuts_at(cell: CellGaps, point: Sequence[Fraction], tau: Fraction, epsilon: float) -> list[Cut]:
    """Return for every head the cut of its softmax at a point; the cuts hold everywhere."""
    cuts = []
    for head, gaps in _group_by_head(cell).items():
        at_point = [gap.at(point) for gap in gaps]
        least = min(at_point)
        # In units of the temperature, truncated where the exponential underflows in any case.
        beyond = [
            min((g - least) / tau, Fraction(_FAR)) if tau > 0 else Fraction(0) for g in at_point
        ]
        counts = _round_to_counts(-np.array([float(x) for x in beyond]))
        total = sum(counts)
        rows = zip(*(gap.row for gap in gaps), strict=True)
        row = tuple(sum(n * x for n, x in zip(counts, column, strict=True)) for column in rows)
        level = _round_entropy_level(counts, cell.n_winners[head], epsilon)
        cuts.append(Cut(ScoreGap(head, row, gaps[0].unit / total), level))
    return cuts


def largest_hard_temperature(cell: CellGaps, point: Sequence[Fraction], epsilon: float) -> Fraction:
    r"""Return nearly the largest temperature at which a point is provably $\varepsilon$-hard."""
    heads = _group_by_head(cell)
    at_point = {head: [gap.at(point) for gap in gaps] for head, gaps in heads.items()}
    largest = max(max(values) for values in at_point.values())
    if largest <= 0 or any(min(values) < 0 for values in at_point.values()):
        return Fraction(0)
    # In units of a power of two near the largest gap, all gaps are in the range of floats.
    unit = Fraction(2) ** (largest.numerator.bit_length() - largest.denominator.bit_length())
    floats = {
        head: np.array([float(g / unit) for g in values]) for head, values in at_point.items()
    }
    limits = {h: np.log(cell.n_winners[h]) + np.log(epsilon) - np.log1p(-epsilon) for h in heads}
    tau = min(_bisect_float_limit(floats[head], float(limits[head])) for head in heads)
    for slack in (1e-12, 1e-9, 1e-6, 1e-3):
        candidate = unit * Fraction(tau * (1.0 - slack))
        if candidate > 0 and is_hard(cell, at_point, candidate, epsilon):
            return candidate
    return Fraction(0)


def is_hard(
    cell: CellGaps, at_point: dict[int, list[Fraction]], tau: Fraction, epsilon: float
) -> bool:
    r"""Prove in ball arithmetic that gaps are $\varepsilon$-hard; False if the proof fails."""
    with ctx.workprec(PRECISION):
        eps, t = arb(epsilon), _ball(tau)
        for head, values in at_point.items():
            total = sum(((-_ball(g) / t).exp() for g in values), arb(0))
            if not total * (1 - eps) <= cell.n_winners[head] * eps:
                return False
    return True


def _group_by_head(cell: CellGaps) -> dict[int, list[ScoreGap]]:
    heads: dict[int, list[ScoreGap]] = {}
    for gap in cell.gaps:
        heads.setdefault(gap.head, []).append(gap)
    return heads


@np.errstate(under="ignore")
def _round_to_counts(logs: FloatArray) -> list[int]:
    """Round a softmax to integers with the same proportions; at least one is positive."""
    weights = np.exp(logs - logs.max())
    return [int(x) for x in np.rint(_GRID * weights / weights.sum())]


def _round_entropy_level(counts: list[int], n_winners: int, epsilon: float) -> Fraction:
    r"""Return $H(w) - \log\kappa$ for $w$ proportional to `counts`, rounded down."""
    with ctx.workprec(PRECISION):
        total = sum(counts)
        entropy = arb(total).log()
        entropy -= sum((n * arb(n).log() for n in counts if n > 1), arb(0)) / total
        eps = arb(epsilon)
        return Fraction(round_down(entropy + ((1 - eps) / (n_winners * eps)).log()))


def _bisect_float_limit(at_point: FloatArray, limit: float) -> float:
    r"""Find the largest $\tau$ with $\log\sum e^{-g/\tau} \le$ `limit` in floats, by bisection."""
    if np.log(len(at_point)) <= limit:
        return 1e300
    if not at_point.any():
        return 0.0
    low, high = (
        0.0,
        float(at_point.max()) / max(np.log(len(at_point)) - limit, 1e-12) + float(at_point.max()),
    )
    while _log_sum(at_point, high) <= limit:
        high *= 2.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _log_sum(at_point, middle) <= limit else (low, middle)
    return low


@np.errstate(under="ignore")
def _log_sum(at_point: FloatArray, tau: float) -> float:
    exponents = -at_point / tau if tau > 0.0 else np.full(len(at_point), -np.inf)
    top = float(exponents.max())
    return top if np.isinf(top) else top + float(np.log(np.exp(exponents - top).sum()))


def _ball(value: Fraction) -> arb:
    return arb(fmpz(value.numerator)) / arb(fmpz(value.denominator))
