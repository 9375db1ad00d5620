"""Lengths, points inside and largest balls of intervals, from their ends and the radii of these."""

import numpy as np

from hardmax.models.enclosures import Enclosed
from hardmax.regions.measures import MEASURED, VOLUME, WITNESS, Answers

_UP, _TINY = 1.0 + 2.0**-40, 2.0**-1000
"""More than what rounding takes away from a bound, and than every underflow."""


def measured_intervals(ends: Enclosed, question: int) -> Answers:
    r"""Answer a question about all intervals between points.

    With ends off by at most $r$ and $s$, a length is off by $r + s$ and its own rounding. A point
    is inside if it is further than $r$ and $s$ from both ends, and then the centre of a ball as
    large as what is left.

    Args:
        ends: The points, rising, with their radii; shape `(n + 1,)`.
        question: `VOLUME`, `WITNESS` or `BALL`.

    Examples:
        >>> ends = Enclosed(np.array([-np.inf, 0.0, 1.0, 1.0]), np.array([0.0, 0.0, 0.0, 0.5]))
        >>> measured_intervals(ends, VOLUME).numbers[:2].tolist()
        [[inf, 0.0], [1.0, 0.0]]
        >>> measured_intervals(ends, VOLUME).left_open.tolist()
        [2]
        >>> measured_intervals(ends, WITNESS).numbers[:2].tolist()
        [[-1.0], [0.5]]
    """
    (low, high), (low_off, high_off) = ((x[:-1], x[1:]) for x in ends)
    is_far = np.isinf(low) | np.isinf(high)
    with np.errstate(over="ignore", invalid="ignore"):
        if question == VOLUME:
            length = high - low
            # What rounding took away, exactly ([Knu97], section 4.2.2).
            part = length - high
            lost = np.abs((high - (length - part)) - (low + part))
            radius = low_off + high_off + lost
            radius = np.where(radius == 0.0, 0.0, radius * _UP + _TINY)
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
        left, right = middle - low, high - middle
        rest = np.minimum(left / _UP - low_off, right / _UP - high_off) / _UP - _TINY
        is_known = rest > 0.0
        if question == WITNESS:
            return Answers(middle[:, np.newaxis], np.flatnonzero(~is_known))
        half = (left + right + low_off + high_off) / 2 * _UP
        radius = np.where(is_far, np.inf, rest)
        is_known = is_far | (is_known & (half < np.inf) & (half <= rest * (1.0 + MEASURED)))
    return Answers(np.column_stack([middle, radius]), np.flatnonzero(~is_known))
