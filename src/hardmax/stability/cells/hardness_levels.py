r"""Sufficient and necessary gaps, in units of the temperature, for a head to be $\varepsilon$-hard.

Suppose that the $c$ copies of the winner lead $n$ rivals by $g_1, \dots, g_n$. The head gives
weight at least $1 - \varepsilon$ to the copies if and only if $\sum_j e^{-g_j/\tau} \le
c\varepsilon/(1-\varepsilon)$.

* Sufficient: $g_j \ge \tau\ell$ for all $j$, with
  $\ell = \log\frac{n(1-\varepsilon)}{c\varepsilon}$.
* Necessary: $g_j \ge \tau\log\frac{1-\varepsilon}{c\varepsilon}$ for all $j$, because no term
  exceeds the sum; and $\frac1n\sum_j g_j \ge \tau\ell$, because the exponential is convex.

All three conditions are linear in the scores. For $n = 1$ they are equivalent.
"""

from collections.abc import Callable
from fractions import Fraction

from flint import arb, ctx

from hardmax.exact.directed_rounding import PRECISION, round_down, round_up
from hardmax.stability.cells.cell_gaps import CellGaps

Levels = Callable[[int], Fraction]
"""A function from the index of a head to a multiple of the temperature."""


def sufficient_levels(cell: CellGaps, epsilon: float) -> Levels:
    r"""Return $\max(\ell, 0)$ for each head of a cell, rounded up."""
    return _compute_levels(cell, epsilon, round_up, each=False)


def necessary_levels(cell: CellGaps, epsilon: float) -> tuple[Levels, Levels]:
    """Return the levels that each gap and the mean gap of a head must reach, rounded down."""
    single = _compute_levels(cell, epsilon, round_down, each=True)
    return single, _compute_levels(cell, epsilon, round_down, each=False)


def _compute_levels(
    cell: CellGaps, epsilon: float, rounding: Callable[[arb], float], *, each: bool
) -> Levels:
    levels = []
    with ctx.workprec(PRECISION):
        eps = arb(epsilon)
        for n_winners, n_rivals in zip(cell.n_winners, cell.n_rivals, strict=True):
            if not n_rivals:
                levels.append(Fraction(0))
                continue
            odds = (1 if each else n_rivals) * (1 - eps) / (n_winners * eps)
            levels.append(Fraction(max(rounding(odds.log()), 0.0)))
    return levels.__getitem__
