r"""Upper envelopes on many intervals at once, in float64 with radii: the filter for lines.

A form $m t + c$ is held as floats with $|\hat m - m| \le r_m$ and $|\hat c - c| \le r_c$. With
$u = 2^{-53}$ the following bounds hold; each is computed in floats and then raised by the factor
$1 + 2^{-20}$ and by $2^{-1000}$, which is more than its own rounding and every underflow:

* value at $t$, known to $r_t$: $r_m (|t| + r_t) + |m| r_t + r_c + 4u(|m t| + |c|)$;
* crossing $t = N / D$ of two forms, $N = c_i - c_j$, $D = m_j - m_i > 2 r_D$:
  $r_N / (D - r_D) + |t| (r_D / (D - r_D) + 8u)$ with $r_N, r_D$ the sums of radii plus $2u$ of
  the result. A quotient may underflow, a product $|t| r_D$ before it is divided may not.

A comparison counts as known only if the gap exceeds both radii; NaN and infinities never do. What
is not known is left to `exact_lines`.
"""

from dataclasses import dataclass

import numpy as np

from hardmax.models.enclosures import Enclosed
from hardmax.typing import BoolArray, FloatArray, IntArray

_U = 2.0**-53
_RAISE = 1.0 + 2.0**-20
_TINY = 2.0**-1000


@dataclass(frozen=True, eq=False)
class LineForms:
    """Forms on a line for a batch of intervals: slopes and offsets, shape `(n, n_forms)` each."""

    slopes: Enclosed
    offsets: Enclosed


@dataclass(frozen=True, eq=False)
class Changes:
    """Where winners change, for a batch of intervals.

    Attributes:
        is_open: Intervals on which something is not known, shape `(n,)`; the rest says nothing
            about them.
        winners: The winner at the left end, within its group, shape `(n, n_groups)`.
        interval: For each change its interval, in order; shape `(n_changes,)`.
        group: Its group.
        before: The form that loses, as an index in the layer.
        after: The form that wins from there on, as an index in the layer.
        where: The breakpoint with its radius, each of shape `(n_changes,)`; rising in an interval.
    """

    is_open: BoolArray
    winners: IntArray
    interval: IntArray
    group: IntArray
    before: IntArray
    after: IntArray
    where: Enclosed


def group_table(starts: IntArray) -> IntArray:
    """List the forms of each group in a row, repeating the first to fill the rows."""
    sizes = np.diff(starts)
    table = np.repeat(starts[:-1, np.newaxis], int(sizes.max()), axis=1)
    for column in range(table.shape[1]):
        table[:, column] += np.where(column < sizes, column, 0)
    return table


def find_changes(forms: LineForms, starts: IntArray, low: Enclosed, high: Enclosed) -> Changes:
    """Find the winners of all groups on all intervals, as far as floats can tell.

    Args:
        forms: The scores.
        starts: First form of each group and the end.
        low: Left ends, shape `(n,)` each; minus infinity with radius 0 if unbounded.
        high: Right ends, likewise.
    """
    table = group_table(starts)
    real = np.arange(table.shape[1]) < np.diff(starts)[:, np.newaxis]
    slopes = _gathered(forms.slopes, table)
    offsets = _gathered(forms.offsets, table)
    with np.errstate(all="ignore"):
        at_low = _end_values(slopes, offsets, low, -1.0)
        at_high = _end_values(slopes, offsets, high, 1.0)
        masked = np.where(real, at_low.values, -np.inf)
        winner = masked.argmax(axis=2)
        gap = _picked(at_low.values, winner) - at_low.values
        known = gap > (_picked(at_low.radii, winner) + at_low.radii) * _RAISE
        ahead = known | ~real | _is(winner, table.shape[1])
    is_open = ~np.all(ahead, axis=(1, 2))
    first = winner
    parts: list[tuple[IntArray, ...]] = []
    times: list[tuple[FloatArray, FloatArray]] = []
    for _ in range(table.shape[1] - 1):
        where, after, crosses, unsure = _next_crossing(slopes, offsets, at_high, winner, real)
        is_open = is_open | np.any(unsure, axis=1)
        rows, groups = np.nonzero(crosses & ~is_open[:, np.newaxis])
        if not len(rows):
            break
        old, new = winner[rows, groups], after[rows, groups]
        parts.append((rows, groups, table[groups, old], table[groups, new]))
        times.append((where.values[rows, groups], where.radii[rows, groups]))
        winner = np.where(crosses, after, winner)
    return _sorted_changes(is_open, first, parts, times)


def _sorted_changes(
    is_open: BoolArray,
    winners: IntArray,
    parts: list[tuple[IntArray, ...]],
    times: list[tuple[FloatArray, FloatArray]],
) -> Changes:
    """Order the changes of each interval, and open intervals whose order is not known."""
    empty = np.empty(0, dtype=np.int64)
    columns = [np.concatenate([empty, *(p[k] for p in parts)]) for k in range(4)]
    values = np.concatenate([np.empty(0), *(t[0] for t in times)])
    radii = np.concatenate([np.empty(0), *(t[1] for t in times)])
    order = np.lexsort((values, columns[0]))
    columns, values, radii = [c[order] for c in columns], values[order], radii[order]
    same = columns[0][1:] == columns[0][:-1]
    close = ~(np.diff(values) > (radii[1:] + radii[:-1]) * _RAISE)
    is_open = is_open.copy()
    is_open[columns[0][1:][same & close]] = True
    kept = ~is_open[columns[0]]
    interval, group, before, after = (c[kept] for c in columns)
    where = Enclosed(values[kept], radii[kept])
    return Changes(is_open, winners, interval, group, before, after, where)


def _next_crossing(
    slopes: Enclosed, offsets: Enclosed, at_high: Enclosed, winner: IntArray, real: BoolArray
) -> tuple[Enclosed, IntArray, BoolArray, BoolArray]:
    """Find the form that overtakes the winner first, given that it wins strictly just before.

    Returns:
        The breakpoints, the forms, whether there is one, and whether that is not known.
    """
    with np.errstate(all="ignore"):
        others = real & ~_is(winner, real.shape[1])
        gap = at_high.values - _picked(at_high.values, winner)
        spread = (at_high.radii + _picked(at_high.radii, winner)) * _RAISE
        overtakes = others & (gap > spread)
        unsure: BoolArray = np.any(others & ~overtakes & ~(gap < -spread), axis=2)
        numerator = _picked(offsets.values, winner) - offsets.values
        r_n = _picked(offsets.radii, winner) + offsets.radii + 2 * _U * np.abs(numerator)
        rise = slopes.values - _picked(slopes.values, winner)
        r_d = _picked(slopes.radii, winner) + slopes.radii + 2 * _U * np.abs(rise)
        unsure |= np.any(overtakes & ~(rise > 4.0 * r_d), axis=2)
        time = numerator / rise
        least = rise - r_d
        radius = r_n / least + np.abs(time) * (r_d / least + 8 * _U)
        radius = radius * _RAISE + _TINY
        unsure |= np.any(overtakes & ~np.isfinite(time + radius), axis=2)
        time = np.where(overtakes, time, np.inf)
        after = time.argmin(axis=2)
        first, r_first = _picked(time, after), _picked(radius, after)
        later = time - first > (radius + r_first) * _RAISE
        unsure |= np.any(overtakes & ~later & ~_is(after, real.shape[1]), axis=2)
    crosses: BoolArray = np.any(overtakes, axis=2) & ~unsure
    return Enclosed(first[:, :, 0], r_first[:, :, 0]), after, crosses, unsure


def _end_values(slopes: Enclosed, offsets: Enclosed, end: Enclosed, sign: float) -> Enclosed:
    """The forms at one end of their intervals; towards infinity, the slopes that decide there."""
    t = end.values[:, np.newaxis, np.newaxis]
    r_t = end.radii[:, np.newaxis, np.newaxis]
    product = slopes.values * t
    values = product + offsets.values
    radii = (
        slopes.radii * (np.abs(t) + r_t)
        + np.abs(slopes.values) * r_t
        + offsets.radii
        + 4 * _U * (np.abs(product) + np.abs(offsets.values))
    ) * _RAISE + _TINY
    unbounded = np.isinf(t)
    return Enclosed(
        np.where(unbounded, sign * slopes.values, values),
        np.where(unbounded, slopes.radii, radii),
    )


def _gathered(part: Enclosed, table: IntArray) -> Enclosed:
    return Enclosed(part.values[:, table], part.radii[:, table])


def _picked(values: FloatArray, chosen: IntArray) -> FloatArray:
    return np.take_along_axis(values, chosen[:, :, np.newaxis], axis=2)


def _is(chosen: IntArray, n: int) -> BoolArray:
    return np.asarray(np.arange(n) == chosen[:, :, np.newaxis])
