r"""What a gap must be, in temperatures, for a head to be $\varepsilon$-hard: enough, or necessary.

A head whose $c$ copies of the winner lead $n$ rivals by $g_1, \dots, g_n$ puts at least $1 -
\varepsilon$ on the copies if and only if $\sum_j e^{-g_j/\tau} \le c\varepsilon/(1-\varepsilon)$.

* Enough: every $g_j \ge \tau\ell$ with $\ell = \log\frac{n(1-\varepsilon)}{c\varepsilon}$.
* Necessary: every $g_j \ge \tau\log\frac{1-\varepsilon}{c\varepsilon}$, because each term alone is
  below the sum; and $\frac1n\sum_j g_j \ge \tau\ell$, because the exponential is convex.

All three are linear in the scores. For $n = 1$ they agree.
"""

from collections.abc import Callable
from fractions import Fraction

from flint import arb, ctx

from hardmax.exact.directed_rounding import PRECISION, rounded_down, rounded_up
from hardmax.stability.cells.cell_gaps import CellGaps

Levels = Callable[[int], Fraction]
"""From the index of a head to a multiple of the temperature."""


def sufficient_levels(cell: CellGaps, epsilon: float) -> Levels:
    r"""Return $\max(\ell, 0)$ for each head of a cell, rounded up."""
    return _levels(cell, epsilon, rounded_up, each=False)


def necessary_levels(cell: CellGaps, epsilon: float) -> tuple[Levels, Levels]:
    """Return the levels that each gap and the mean gap of a head must reach, rounded down."""
    single = _levels(cell, epsilon, rounded_down, each=True)
    return single, _levels(cell, epsilon, rounded_down, each=False)


def _levels(
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
