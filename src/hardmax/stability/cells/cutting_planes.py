r"""The temperature up to which a cell is $\varepsilon$-hard, enclosed as closely as asked.

A point $t$ of a cell of one layer of heads is $\varepsilon$-hard at $\tau$ if and only if for every
head $\tau\log\sum_j e^{-g_j(t)/\tau} \le \tau\log\kappa$, $\kappa = c\varepsilon/(1-\varepsilon)$.
The left side is jointly convex in $(t, \tau)$ (a perspective of log-sum-exp), so the best $\tau$ is
the height of a convex set. By Gibbs' variational principle, for every probability vector $w$ with
entropy $H(w)$,

$$\log\sum_j e^{-g_j/\tau} \ge H(w) - \frac1\tau\sum_j w_j g_j,
  \qquad\text{so}\qquad \sum_j w_j g_j(t) \ge \tau\,\bigl(H(w) - \log\kappa\bigr)$$

is necessary: a cut, linear in $(t, \tau)$ and exact for rational $w$ with the constant rounded
down. Kelley's method adds the cut of the softmax at the optimum of the linear program and solves
again. Every program gives a certain upper bound, and its optimal point, where masses are evaluated
in interval arithmetic, a certain lower bound.

References:
    [Kel60].
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from flint import arb, ctx, fmpz

from hardmax.exact.directed_rounding import PRECISION, rounded_down
from hardmax.geometry.linear_programs import largest_height
from hardmax.stability.cells.cell_leads import CellLeads, Lead
from hardmax.stability.cells.hardness_levels import necessary_levels, sufficient_levels
from hardmax.typing import FloatArray

_GRID = 1 << 40
_FAR = 1000


class Cut(NamedTuple):
    r"""A necessary condition $\sum_j w_j g_j \ge \tau L$.

    Attributes:
        lead: The weighted lead.
        level: The $L > 0$.
    """

    lead: Lead
    level: Fraction


class CriticalTemperature(NamedTuple):
    """Between which temperatures a cell stops being hard.

    Attributes:
        by_margins: The cell is hard up to this temperature, by the least margin alone; None means
            at every temperature.
        lower: It is hard up to this temperature; None means at every temperature.
        upper: It is not hard above this one; None if no such temperature is known.
        point: Where `lower` is attained; if that is None, a point of the cell.
        direction: If `lower` is None, where to go for more.
    """

    by_margins: Fraction | None
    lower: Fraction | None
    upper: Fraction | None
    point: tuple[Fraction, ...]
    direction: tuple[Fraction, ...] | None


def critical_temperature(
    cell: CellLeads, epsilon: float, rounds: int, enough: Fraction | None = None
) -> CriticalTemperature:
    r"""Enclose the largest temperature at which a cell is $\varepsilon$-hard.

    Args:
        cell: The leads on the cell; all heads in one layer.
        epsilon: The $\varepsilon$, between 0 and 1.
        rounds: How many times cuts are added.
        enough: Stop as soon as this temperature is decided.
    """
    first = cell.largest_level(sufficient_levels(cell, epsilon))
    if first.value is None:
        return CriticalTemperature(None, None, None, first.point, first.direction)
    lower, point, upper = first.value, first.point, None
    single, mean = necessary_levels(cell, epsilon)
    rows = cell.wall_rows() + [lead.height_row(single(lead.head)) for lead in cell.leads]
    rows += [lead.height_row(mean(lead.head)) for lead in cell.mean_leads()]
    for done in range(rounds + 1):
        height = largest_height(rows, cell.dim)
        upper = height.value
        if upper is None:
            break
        reached = hard_up_to(cell, height.point, epsilon)
        if reached > lower:
            lower, point = reached, height.point
        is_decided = enough is not None and (lower >= enough or upper < enough)
        if done == rounds or is_decided or upper - lower <= upper / 10**6:
            break
        cuts = [cut for cut in cuts_at(cell, height.point, upper, epsilon) if cut.level > 0]
        rows += [cut.lead.height_row(cut.level) for cut in cuts]
    return CriticalTemperature(first.value, lower, upper, point, None)


def cuts_at(cell: CellLeads, point: Sequence[Fraction], tau: Fraction, epsilon: float) -> list[Cut]:
    """Return for every head the cut of its softmax at a point, proved for any point."""
    cuts = []
    for head, leads in _by_head(cell).items():
        gaps = [lead.at(point) for lead in leads]
        least = min(gaps)
        # In units of the temperature, cut off where the exponential underflows in any case.
        beyond = [min((g - least) / tau, Fraction(_FAR)) if tau > 0 else Fraction(0) for g in gaps]
        counts = _counts(-np.array([float(x) for x in beyond]))
        total = sum(counts)
        rows = zip(*(lead.row for lead in leads), strict=True)
        row = tuple(sum(n * x for n, x in zip(counts, column, strict=True)) for column in rows)
        level = _entropy_level(counts, cell.n_winners[head], epsilon)
        cuts.append(Cut(Lead(head, row, leads[0].unit / total), level))
    return cuts


def hard_up_to(cell: CellLeads, point: Sequence[Fraction], epsilon: float) -> Fraction:
    r"""Return a temperature at which a point is certainly $\varepsilon$-hard, near the largest."""
    heads = _by_head(cell)
    gaps = {head: [lead.at(point) for lead in leads] for head, leads in heads.items()}
    largest = max(max(values) for values in gaps.values())
    if largest <= 0 or any(min(values) < 0 for values in gaps.values()):
        return Fraction(0)
    # Leads in units of a power of two near the largest are floats whatever their size.
    unit = Fraction(2) ** (largest.numerator.bit_length() - largest.denominator.bit_length())
    floats = {head: np.array([float(g / unit) for g in values]) for head, values in gaps.items()}
    limits = {h: np.log(cell.n_winners[h]) + np.log(epsilon) - np.log1p(-epsilon) for h in heads}
    tau = min(_float_limit(floats[head], float(limits[head])) for head in heads)
    for slack in (1e-12, 1e-9, 1e-6, 1e-3):
        candidate = unit * Fraction(tau * (1.0 - slack))
        if candidate > 0 and is_hard(cell, gaps, candidate, epsilon):
            return candidate
    return Fraction(0)


def is_hard(
    cell: CellLeads, gaps: dict[int, list[Fraction]], tau: Fraction, epsilon: float
) -> bool:
    r"""Decide in balls whether given leads are $\varepsilon$-hard; False if that is unclear."""
    with ctx.workprec(PRECISION):
        eps, t = arb(epsilon), _ball(tau)
        for head, values in gaps.items():
            total = sum(((-_ball(g) / t).exp() for g in values), arb(0))
            if not total * (1 - eps) <= cell.n_winners[head] * eps:
                return False
    return True


def _by_head(cell: CellLeads) -> dict[int, list[Lead]]:
    heads: dict[int, list[Lead]] = {}
    for lead in cell.leads:
        heads.setdefault(lead.head, []).append(lead)
    return heads


def _counts(logs: FloatArray) -> list[int]:
    """Round a softmax to integers with the same proportions; at least one is positive."""
    weights = np.exp(logs - logs.max())
    return [int(x) for x in np.rint(_GRID * weights / weights.sum())]


def _entropy_level(counts: list[int], n_winners: int, epsilon: float) -> Fraction:
    r"""Return $H(w) - \log\kappa$ for $w$ proportional to the counts, rounded down."""
    with ctx.workprec(PRECISION):
        total = sum(counts)
        entropy = arb(total).log()
        entropy -= sum((n * arb(n).log() for n in counts if n > 1), arb(0)) / total
        eps = arb(epsilon)
        return Fraction(rounded_down(entropy + ((1 - eps) / (n_winners * eps)).log()))


def _float_limit(gaps: FloatArray, limit: float) -> float:
    r"""Find by bisection the largest $\tau$ with $\log\sum e^{-g/\tau} \le$ `limit`, in floats."""
    if np.log(len(gaps)) <= limit:
        return 1e300
    if not gaps.any():
        return 0.0
    low, high = 0.0, float(gaps.max()) / max(np.log(len(gaps)) - limit, 1e-12) + float(gaps.max())
    while _log_sum(gaps, high) <= limit:
        high *= 2.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _log_sum(gaps, middle) <= limit else (low, middle)
    return low


def _log_sum(gaps: FloatArray, tau: float) -> float:
    exponents = -gaps / tau if tau > 0.0 else np.full(len(gaps), -np.inf)
    top = float(exponents.max())
    return top if np.isinf(top) else top + float(np.log(np.exp(exponents - top).sum()))


def _ball(value: Fraction) -> arb:
    return arb(fmpz(value.numerator)) / arb(fmpz(value.denominator))
