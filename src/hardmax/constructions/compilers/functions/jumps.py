r"""Jumps of a function that is given by its values: found by bisection, down to the floats.

Take two points and halve the segment between them again and again, always keeping the half across
which the values change least as expected: not by as much as they did, for its length, across the
half given up before. If the function is continuous, the unexpected change tends to 0 with the
length, like its modulus of continuity; at a jump it does not. When the ends are neighbouring floats
nothing more can be known, and the function jumps, as far as floats can tell, if that change is then
still about as large as it was $2^{20}$ times further apart.

This finds jumps that samples see on both sides. It proves nothing about a function without any.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from hardmax.typing import FloatArray

_HALVINGS = 120
"""More than there are between two floats of the same size; towards 0 there would be 1100."""
_SMALLEST = 2.0**-16
"""Jumps below this fraction of the range of values are passed over: functions that are evaluated
in float32 have many of about $2^{-24}$."""
_APART, _NEAR, _KEPT = 2.0**20, 2.0**16, 0.75


@dataclass(frozen=True, eq=False)
class Jump:
    """Two neighbouring points with values far apart.

    Attributes:
        before: One point, shape `(dim,)`.
        after: The other.
        value_before: The function there, shape `(dim_out,)`.
        value_after: The function at `after`.
    """

    before: FloatArray
    after: FloatArray
    value_before: FloatArray
    value_after: FloatArray

    @property
    def size(self) -> float:
        """How far the values are apart, in the output where that is most."""
        return float(np.abs(self.value_after - self.value_before).max())


def find_jump(
    f: Callable[[FloatArray], FloatArray], starts: FloatArray, ends: FloatArray
) -> Jump | None:
    """Return the largest jump that bisection finds on segments; None if there is none.

    Args:
        f: The function, `(n_points, dim)` to `(n_points, dim_out)`.
        starts: One end of each segment, shape `(n_segments, dim)`.
        ends: The other end.

    Examples:
        >>> step = find_jump(lambda x: np.floor(x), np.array([[0.25]]), np.array([[1.75]]))
        >>> step.before.item(), step.after.item(), step.size
        (0.9999999999999999, 1.0, 1.0)
        >>> find_jump(lambda x: np.cbrt(x - 1.0), np.array([[0.25]]), np.array([[1.75]]))
    """
    if not len(starts):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return _largest_jump(f, np.array(starts), np.array(ends))


def _largest_jump(
    f: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray
) -> Jump | None:
    values = [f(low * (1.0 - t) + high * t) for t in (0.0, 0.25, 0.5, 0.75, 1.0)]
    least = _SMALLEST * float(np.ptp(np.concatenate(values), axis=0).max())
    at_low, at_high = values[0], values[-1]
    # What a quarter changes by, but for one that has a jump: twice that is a half, and so on.
    expected = 4.0 * np.median(np.diff(values, axis=0), axis=0)
    lengths = [np.abs(high - low).max(axis=1)]
    drops = [np.abs(np.diff(values, axis=0) - expected / 4.0).max(axis=(0, 2))]
    found: list[Jump] = []
    for halving in range(_HALVINGS + 1):
        middle = low / 2 + high / 2
        ended = ((middle == low) | (middle == high)).all(axis=1) | (halving == _HALVINGS)
        for k in np.flatnonzero(ended & _is_jump(lengths, drops)):
            found.append(Jump(low[k], high[k], at_low[k], at_high[k]))
        going = np.flatnonzero(~ended & (drops[-1] > least))
        if not len(going):
            break
        low, high, middle = low[going], high[going], middle[going]
        at_low, at_high, half = at_low[going], at_high[going], expected[going] / 2.0
        at_middle = f(middle)
        changes = at_middle - at_low, at_high - at_middle
        surprise = [np.abs(change - half).max(axis=1) for change in changes]
        left = surprise[0] >= surprise[1]
        side = left[:, None]
        low, high = np.where(side, low, middle), np.where(side, middle, high)
        at_low, at_high = np.where(side, at_low, at_middle), np.where(side, at_middle, at_high)
        expected = np.where(side, changes[1], changes[0])
        lengths = [*(past[going] for past in lengths), np.abs(high - low).max(axis=1)]
        drops = [*(past[going] for past in drops), np.maximum(*surprise)]
    return max(found, key=lambda jump: jump.size, default=None)


def mesh_segments(corners: FloatArray, inside: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return segments of a mesh: its edges in four parts each, and from points to the corners.

    Args:
        corners: The simplices, shape `(n, dim + 1, dim)`.
        inside: A point in each of them, shape `(n, dim)`.
    """
    n_corners = corners.shape[1]
    starts, ends = [], []
    for i, k in combinations(range(n_corners), 2):
        points = [corners[:, i] + t * (corners[:, k] - corners[:, i]) for t in np.arange(5) / 4]
        starts += points[:-1]
        ends += points[1:]
    for i in range(n_corners):
        starts.append(inside)
        ends.append(corners[:, i])
    return np.concatenate(starts), np.concatenate(ends)


def line_segments(places: FloatArray, knots: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the segments between neighbouring places on a line, and from knots to those around.

    Args:
        places: Shape `(n_places,)`.
        knots: Shape `(n_knots,)`.
    """
    ordered = np.unique(places)
    position = np.clip(np.searchsorted(ordered, knots), 1, len(ordered) - 1)
    starts = np.concatenate([ordered[:-1], knots, knots])
    ends = np.concatenate([ordered[1:], ordered[position - 1], ordered[position]])
    different = starts != ends
    return starts[different, None], ends[different, None]


def _is_jump(lengths: list[FloatArray], drops: list[FloatArray]) -> FloatArray:
    """Whether segments that came to their end kept what they changed by on the last of the way."""
    past, length = np.array(drops), np.array(lengths)
    far = length >= _APART * length[-1]
    # The last step at which the ends were still far apart; the first one of a short way.
    step = np.where(far.any(axis=0), len(far) - 1 - far[::-1].argmax(axis=0), 0)
    columns = np.arange(past.shape[1])
    long_enough = length[0] >= _NEAR * length[-1]
    kept = past[-1] >= _KEPT * past[step, columns]
    return np.asarray(long_enough & kept & (past[-1] > 0.0))
