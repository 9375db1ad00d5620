r"""Upper envelopes on an interval, in integers: the exact half of the engine for lines.

On a line every form is $m t + c$. A group of forms is decided by its upper envelope: the winner
just right of the interval's left end, then at each breakpoint the steepest of the forms that meet
there. Merging the breakpoints of all groups gives the intervals on which the layer is affine.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import inf
from typing import NamedTuple

from hardmax.models._arithmetic.recomposition import RationalForms
from hardmax.models.argmax import ArgmaxLayer

Form = tuple[int, int]
"""The integers $(m, c)$ of $m t + c$, all forms of a layer on one scale."""


class Interval(NamedTuple):
    """The open interval between two points; None stands for infinity."""

    low: Fraction | None
    high: Fraction | None

    def length(self) -> Fraction | float:
        """Return how long it is."""
        return inf if self.low is None or self.high is None else self.high - self.low

    def midpoint(self) -> Fraction:
        """Return a point inside."""
        if self.low is None:
            return Fraction(0) if self.high is None else self.high - 1
        return self.low + 1 if self.high is None else (self.low + self.high) / 2


def envelope(forms: Sequence[Form], interval: Interval) -> list[tuple[Fraction | None, int]]:
    """Find who wins where on an interval.

    Returns:
        Pairs of where a form begins to win, first the interval's left end, and its first index
        among forms that coincide.

    Examples:
        >>> envelope([(0, 0), (1, 0), (1, 0)], Interval(None, None))
        [(None, 0), (Fraction(0, 1), 1)]
        >>> envelope([(0, 0), (1, -1), (-1, -1)], Interval(Fraction(-1), Fraction(1)))
        [(Fraction(-1, 1), 0)]
    """
    first: dict[Form, int] = {}
    for j, form in enumerate(forms):
        first.setdefault(form, j)
    low, high = interval
    if low is None:
        current = max(first, key=lambda form: (-form[0], form[1]))
    else:
        p, q = low.numerator, low.denominator
        current = max(first, key=lambda form: (form[0] * p + form[1] * q, form[0]))
    found = [(low, first[current])]
    rising = [form for form in first if form[0] > current[0]]
    while rising:
        m, c = current
        # The steepest of the forms that overtake first.
        where, _, current = min(
            (Fraction(c - form[1], form[0] - m), -form[0], form) for form in rising
        )
        if high is not None and where >= high:
            break
        found.append((where, first[current]))
        rising = [form for form in rising if form[0] > current[0]]
    return found


class Cut(NamedTuple):
    """A point where winners of a layer change.

    Attributes:
        where: The point.
        changes: For each group that changes there the group and who won and wins, within it.
    """

    where: Fraction
    changes: list[tuple[int, int, int]]


def split_interval(
    layer: ArgmaxLayer, scores: RationalForms, interval: Interval
) -> tuple[list[int], list[Cut]]:
    """Find the winners of a layer right of an interval's left end, and every cut inside."""
    rows = [(int(m), int(c)) for m, c in scores.rows]
    starts = layer.starts.tolist()
    winners = []
    changes: dict[Fraction, list[tuple[int, int, int]]] = {}
    for g in range(layer.n_groups):
        pieces = envelope(rows[starts[g] : starts[g + 1]], interval)
        winners.append(pieces[0][1])
        for (_, before), (where, after) in pairwise(pieces):
            assert where is not None
            changes.setdefault(where, []).append((g, before, after))
    return winners, [Cut(where, changes[where]) for where in sorted(changes)]
