"""In which cell of a line a point lies, by the ends of the cells around it."""

from fractions import Fraction

import numpy as np

from hardmax.regions._lines.lines import LineCells
from hardmax.regions._location.points import PointNamer
from hardmax.typing import BoolArray, FloatArray, IntArray

_MARGIN, _FAR = 2.0**-16, 2.0**40
"""How much of a cell is left out at its ends; how far out a half-line is looked at."""
_WORTH_LOOKING = 3
"""A cell with fewer points takes longer to look into than they take."""


class LineLocator:
    """Finds the cells of points on a line.

    Where the engine knows the ends of cells with radii, these tell. Otherwise a cell is asked for
    the signatures at two points near its ends, once: if both are its own, all between them is in
    the cell, which is convex. The few points that are left are compared with exact ends.

    Args:
        line: The cells.
    """

    @np.errstate(over="ignore", under="ignore")
    def __init__(self, line: LineCells) -> None:
        self._line = line
        self._namer = PointNamer(line.search.network, line.search.domain)
        values, radii = line.ends.where
        self._ends = values
        low, high = np.full((2, len(values)), [[-np.inf], [np.inf]])
        is_near = np.isfinite(radii) & np.isfinite(values)
        low[is_near] = np.nextafter(values[is_near] - radii[is_near], -np.inf)
        high[is_near] = np.nextafter(values[is_near] + radii[is_near], np.inf)
        # Ends of the domain at infinity are on the same side of every point.
        is_outer = (line.ends.names[:, 0] < 0) & np.isinf(values)
        low[is_outer] = high[is_outer] = values[is_outer]
        # True ends rise, so bounds of those on the left are bounds of those on the right.
        self._low = np.maximum.accumulate(low)
        self._high = np.minimum.accumulate(high[::-1])[::-1]
        self._is_known = np.zeros(len(line), dtype=np.bool_)
        # What is known to be in each cell; nothing so far.
        self._inner = np.full((2, len(line)), np.nan)

    def __call__(self, points: FloatArray) -> IntArray:
        """Return the cell of each point, or -1, shape `(n_points,)`.

        Args:
            points: Coordinates on the line, shape `(n_points, 1)`, finite.
        """
        if not len(self._line):
            return np.full(len(points), -1, dtype=np.int64)
        where = points[:, 0]
        n_left = np.searchsorted(self._high, where, side="left")
        n_not_right = np.searchsorted(self._low, where, side="right")
        found = np.where(n_left <= len(self._line), n_left - 1, -1)
        open_ = np.flatnonzero(n_left < n_not_right)
        guesses = np.searchsorted(np.maximum.accumulate(self._ends), where[open_], side="right") - 1
        guesses = np.clip(guesses, 0, len(self._line) - 1)
        cells, n_points = np.unique(guesses, return_counts=True)
        self._look_into(cells[n_points >= _WORTH_LOOKING])
        low, high = self._inner[:, guesses]
        is_sure = (low <= where[open_]) & (where[open_] <= high)
        found[open_[is_sure]] = guesses[is_sure]
        open_, guesses = open_[~is_sure], guesses[~is_sure]
        order = np.argsort(guesses)
        open_, guesses = open_[order], guesses[order]
        is_sure = self._are_in(where[open_], guesses)
        found[open_[is_sure]] = guesses[is_sure]
        for i, guess in zip(open_[~is_sure].tolist(), guesses[~is_sure].tolist(), strict=True):
            found[i] = self._exact_cell(where[i], guess, int(n_left[i]), int(n_not_right[i]))
        return found

    def _look_into(self, cells: IntArray) -> None:
        """Find for each of the given cells an interval that is certainly part of it."""
        cells = cells[~self._is_known[cells]]
        self._is_known[cells] = True
        left, right = self._ends[cells], self._ends[cells + 1]
        base = np.where(np.isfinite(left), left, np.where(np.isfinite(right), right, 0.0))
        with np.errstate(over="ignore", invalid="ignore"):
            far = _FAR * np.maximum(1.0, np.abs(base))
            left = np.where(np.isinf(left), base - far, left)
            right = np.where(np.isinf(right), base + far, right)
            margin = (right - left) * _MARGIN
            low, high = left + margin, right - margin
        is_some = np.isfinite(low) & np.isfinite(high) & (low <= high)
        cells, low, high = cells[is_some], low[is_some], high[is_some]
        is_in = self._are_in(low, cells) & self._are_in(high, cells)
        self._inner[:, cells[is_in]] = low[is_in], high[is_in]

    def _are_in(self, where: FloatArray, cells: IntArray) -> BoolArray:
        """Say which points lie in the cells, given in rising order, by their signatures."""
        is_in = np.empty(len(cells), dtype=np.bool_)
        for chunk in self._namer.batches(len(cells)):
            points = where[chunk, np.newaxis]
            named = self._namer.named(points)
            rows = zip(named.names, self._line.walk.rows_of(cells[chunk]), strict=True)
            matches = np.array([np.array_equal(name, row) for name, row in rows], dtype=np.bool_)
            matches &= self._namer.is_in_domain(points)
            matches[self._namer.on_walls(named, matches)] = False
            is_in[chunk] = matches
        return is_in

    def _exact_cell(self, where: float, guess: int, low: int, high: int) -> int:
        """Find the cell of a point that is right of the first ends, left of those from `high`."""
        point = Fraction(float(where))
        probes = [guess, guess + 1]
        while low < high:
            probe = probes.pop() if probes else (low + high) // 2
            if not low <= probe < high:
                continue
            end = self._exact_end(probe)
            if end == point:
                return -1
            low, high = (probe + 1, high) if end < point else (low, probe)
        return low - 1 if low <= len(self._line) else -1

    def _exact_end(self, i: int) -> Fraction | float:
        line = self._line
        if line.ends.values[i] is None:
            signature = line.walk.row(min(i, len(line) - 1))
            if line.search.exact_value(line.ends, i, signature) is None:
                return float(self._ends[i])
        exact: Fraction = line.ends.values[i]
        return exact
