"""Batches of intervals on a line, and the points between them, by value or by name."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax.models.enclosures import Enclosed
from hardmax.regions.line_composition import chosen_rows
from hardmax.regions.line_filter import LineForms
from hardmax.typing import AnyArray, IntArray


class Breakpoint:
    """A point of the line, by its value or by the two forms that tie there.

    Attributes:
        prefix: The winners of the layers before.
        layer: The layer of the forms.
        forms: Their indices in the layer.
        value: The point, once it is known; None also for an end at infinity, which has no forms.
    """

    __slots__ = ("forms", "layer", "prefix", "value")

    def __init__(
        self,
        value: Fraction | None = None,
        prefix: tuple[int, ...] = (),
        layer: int = -1,
        forms: tuple[int, int] | None = None,
    ) -> None:
        self.value, self.prefix, self.layer, self.forms = value, prefix, layer, forms


@dataclass(frozen=True, eq=False)
class Intervals:
    """A batch of intervals, from left to right, all at the same layer.

    Attributes:
        stream: The stream as forms in floats, arrays of shape `(n, width)`.
        prefix: The winners so far, shape `(n, n_groups_before)`.
        low: The left ends with radii, shape `(n,)` each.
        high: The right ends.
        ends: Both ends as breakpoints, shape `(n, 2)`.
    """

    stream: LineForms
    prefix: IntArray
    low: Enclosed
    high: Enclosed
    ends: AnyArray

    def __len__(self) -> int:
        return len(self.prefix)

    def __getitem__(self, chosen: Any) -> "Intervals":
        return Intervals(
            LineForms(
                chosen_rows(self.stream.slopes, chosen), chosen_rows(self.stream.offsets, chosen)
            ),
            self.prefix[chosen],
            chosen_rows(self.low, chosen),
            chosen_rows(self.high, chosen),
            self.ends[chosen],
        )


def joined_intervals(batches: list[Intervals]) -> Intervals:
    """Put batches one after the other."""

    def both(parts: list[Enclosed]) -> Enclosed:
        return Enclosed(
            np.concatenate([p.values for p in parts]), np.concatenate([p.radii for p in parts])
        )

    return Intervals(
        LineForms(
            both([b.stream.slopes for b in batches]), both([b.stream.offsets for b in batches])
        ),
        np.concatenate([b.prefix for b in batches]),
        both([b.low for b in batches]),
        both([b.high for b in batches]),
        np.concatenate([b.ends for b in batches]),
    )


def rounded_points(values: list[Fraction | None], sign: float) -> Enclosed:
    """Round points of the line; infinity is itself, and what overflows is unknown."""
    rounded = np.array([sign * np.inf if v is None else _nearest(v) for v in values])
    radii = np.array(
        [0.0 if v is None else _radius(v, x) for v, x in zip(values, rounded, strict=True)]
    )
    return Enclosed(rounded, radii)


def _nearest(value: Fraction) -> float:
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return 0.0


def _radius(value: Fraction, rounded: float) -> float:
    if rounded == value:
        return 0.0
    if rounded == 0.0 and abs(value) > 1:
        return float("inf")
    return abs(rounded) * 2.0**-52 + 2.0**-1070
