"""Lengths, points inside and largest balls of intervals, from their ends and the radii of these."""

import numpy as np

from hardmax.exact.rounding import SMALL_RAISE, TINY
from hardmax.models._arithmetic.enclosures import Enclosed
from hardmax.regions._measures.measures import MEASURED, VOLUME, WITNESS, Answers
from hardmax.regions.cell_arrays import CellArrays


def measured_intervals(left: Enclosed, right: Enclosed, question: int) -> Answers:
    r"""Answer a question about intervals.

    With ends off by at most $r$ and $s$, a length is off by $r + s$ and its own rounding. A point
    is inside if it is further than $r$ and $s$ from both ends, and then the centre of a ball as
    large as what is left.

    Args:
        left: Their left ends, with radii; shape `(n,)`.
        right: Their right ends.
        question: `VOLUME`, `WITNESS` or `BALL`.

    Examples:
        >>> left = Enclosed(np.array([-np.inf, 0.0, 1.0]), np.array([0.0, 0.0, 0.0]))
        >>> right = Enclosed(np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 0.5]))
        >>> lengths = measured_intervals(left, right, VOLUME)
        >>> lengths.numbers[:2].tolist(), lengths.left_open.tolist()
        ([[inf, 0.0], [1.0, 0.0]], [2])
        >>> measured_intervals(left, right, WITNESS).numbers[:2].tolist()
        [[-1.0], [0.5]]
    """
    (low, low_off), (high, high_off) = left, right
    is_far = np.isinf(low) | np.isinf(high)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if question == VOLUME:
            length = high - low
            # What rounding took away, exactly ([Knu97], section 4.2.2).
            part = length - high
            lost = np.abs((high - (length - part)) - (low + part))
            radius = low_off + high_off + lost
            radius = np.where(radius == 0.0, 0.0, radius * SMALL_RAISE + TINY)
            length = np.where(is_far, np.inf, length)
            radius = np.where(is_far, 0.0, radius)
            is_known = is_far | ((radius <= MEASURED * length) & (length < 2.0**1000))
            return Answers(np.column_stack([length, radius]), np.flatnonzero(~is_known))
        base = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0))
        reach = np.maximum(1.0, np.abs(base))
        middle = np.where(
            is_far, base + reach * (np.isinf(high) * 1.0 - np.isinf(low)), low / 2 + high / 2
        )
        # A difference of floats has their order, and is rounded by no more than a part.
        before, after = middle - low, high - middle
        rest = (
            np.minimum(before / SMALL_RAISE - low_off, after / SMALL_RAISE - high_off) / SMALL_RAISE
            - TINY
        )
        is_known = rest > 0.0
        if question == WITNESS:
            return Answers(middle[:, np.newaxis], np.flatnonzero(~is_known))
        half = (before + after + low_off + high_off) / 2 * SMALL_RAISE
        radius = np.where(is_far, np.inf, rest)
        is_known = is_far | (is_known & (half < np.inf) & (half <= rest * (1.0 + MEASURED)))
    return Answers(np.column_stack([middle, radius]), np.flatnonzero(~is_known))


def interval_ends(cells: CellArrays) -> tuple[Enclosed, Enclosed]:
    """Return the left and the right ends of cells of dimension 1 that the core found."""
    assert cells.vertices is not None
    assert cells.facets is not None
    along = cells.vertices[:, 0].copy()
    if cells.directions is not None:
        ways = cells.directions[:, 0]
        along[ways != 0.0] = np.copysign(np.inf, ways[ways != 0.0])
    ends, blurs = np.sort(along.reshape(-1, 2), axis=1).T, cells.facets.blurs[:, 0]
    left, right = (Enclosed(end, np.where(np.isinf(end), 0.0, blurs)) for end in ends)
    return left, right
