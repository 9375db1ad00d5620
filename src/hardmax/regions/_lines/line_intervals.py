"""Batches of intervals on a line, and their ends, by value or by name."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax.exact.rounding import enclosed_quotient
from hardmax.models._arithmetic.enclosures import Enclosed
from hardmax.regions._lines.line_composition import LineForms, chosen_rows
from hardmax.regions._lines.line_signatures import SignatureWalk
from hardmax.typing import AnyArray, IntArray, WideArray


@dataclass(frozen=True, eq=False)
class Points:
    """Points of a line, each with a name: the two forms that tie there.

    What comes before the layer of these forms is known from the interval a point is an end of.

    Attributes:
        where: The points in floats with radii, shape `(n,)` each; infinite ones have radius 0.
        names: The layer and the indices of the two forms in it, shape `(n, 3)`; the layer is -1
            for an end of the domain.
        values: The exact points, as far as they are known, else None (also for infinity).
        ratios: Integers $p$ and $q$ of all points $p / q$, with $q = 0$ for infinity, if they are
            known so; shape `(n, 2)`.
    """

    where: Enclosed
    names: IntArray
    values: WideArray
    ratios: IntArray | None = None

    def __getitem__(self, chosen: Any) -> "Points":
        ratios = None if self.ratios is None else self.ratios[chosen]
        where = chosen_rows(self.where, chosen)
        return Points(where, self.names[chosen], self.values[chosen], ratios)

    def put(self, where: IntArray, points: "Points") -> None:
        """Replace some of the points in place."""
        self.where.values[where], self.where.radii[where] = points.where
        self.names[where], self.values[where] = points.names, points.values


def joined_points(points: list[Points]) -> Points:
    """Put points one after the other; there may be none."""
    ratios = [p.ratios for p in points if p.ratios is not None]
    are_ratios = bool(points) and len(ratios) == len(points)
    points = [exact_points([], 1.0, np.empty((0, 3), dtype=np.int64)), *points]
    return Points(
        Enclosed(
            np.concatenate([p.where.values for p in points]),
            np.concatenate([p.where.radii for p in points]),
        ),
        np.concatenate([p.names for p in points]),
        np.concatenate([p.values for p in points]),
        np.concatenate(ratios) if are_ratios else None,
    )


@dataclass(frozen=True, eq=False)
class Intervals:
    """A batch of intervals, from left to right, all at the same layer.

    Attributes:
        stream: The stream as forms in floats, arrays of shape `(n, width)`.
        prefix: The winners so far, shape `(n, n_groups_before)`.
        low: The left ends.
        high: The right ends.
    """

    stream: LineForms
    prefix: AnyArray
    low: Points
    high: Points

    def __len__(self) -> int:
        return len(self.prefix)

    def __getitem__(self, chosen: Any) -> "Intervals":
        return Intervals(
            self.stream[chosen],
            self.prefix[chosen],
            self.low[chosen],
            self.high[chosen],
        )


def exact_points(values: list[Fraction | None], sign: float, names: IntArray) -> Points:
    """Round points of the line; infinity is itself, and what overflows is unknown."""
    infinity = sign * np.inf, 0.0
    pairs = [infinity if v is None else enclosed_quotient(*v.as_integer_ratio()) for v in values]
    held = np.empty(len(values), dtype=object)
    held[:] = values
    return Points(Enclosed(*np.array(pairs).reshape(-1, 2).T), names, held)


@dataclass(frozen=True, eq=False)
class CellRun:
    """Cells from left to right.

    Attributes:
        ends: The left end of each, and the right end of the last.
        walk: Their signatures.
    """

    ends: Points
    walk: SignatureWalk

    def __len__(self) -> int:
        return len(self.walk)

    def __getitem__(self, kept: slice) -> "CellRun":
        """Return the first cells, at least one: a slice `[:n]`."""
        n = kept.stop
        if n >= len(self):
            return self
        return CellRun(self.ends[: n + 1], self.walk.first_cells(n))
