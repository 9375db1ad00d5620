r"""Intervals of a line through a ReLU network, known to all digits of a float.

Errors of values carried from layer to layer grow. The forms of an interval, slopes and offsets, are
composed again in twice the precision (see `core/include/hardmax/doubled.hpp`); so its ends, which
are zeros of such forms, and the values there are known as well as floats can say.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import address
from hardmax.exact.rounding import SMALL_RAISE, TINY, nearest_error
from hardmax.models._arithmetic.enclosures import Enclosed
from hardmax.models._arithmetic.recomposition import RationalForms
from hardmax.regions._lines.line_composition import LineForms
from hardmax.regions._lines.line_intervals import Points
from hardmax.regions._lines.packed_layers import PackedLayers
from hardmax.regions._search.rounded_forms import doubled_forms
from hardmax.typing import AnyArray


class Place(NamedTuple):
    """Where an end of an interval is: a float, or None at infinity, and how far that may be off."""

    where: Fraction | None
    off: float


class DoubledLine:
    """The forms of all layers on an interval; those of the last one are kept while they hold.

    Args:
        layers: The layers.
        stream: The stream before the first layer.
    """

    def __init__(self, layers: PackedLayers, stream: RationalForms) -> None:
        self.layers = layers
        first = doubled_forms(stream, stream.rows, 1.0)
        n_layers, most = len(layers.widths), max(int(layers.widths.max()), first.shape[1])
        self._doubled = np.zeros((n_layers + 2, 5, most))
        self._doubled[0, :, : first.shape[1]] = first
        self._n_first = first.shape[1]
        self._states = np.zeros(layers.unit_starts[-1], dtype=np.uint8)
        self._n_known = 0

    def stream(self, index: int, prefix: AnyArray) -> LineForms:
        """Return the stream before a layer on the interval with a prefix, as one batch."""
        self._compose(index, prefix)
        if index == 0:
            return _rounded(self._doubled[0, :, : self._n_first])
        starts = self.layers.unit_starts
        is_on = prefix[starts[index - 1] : starts[index]] == 1
        return _rounded(np.where(is_on, self._doubled[index, :, : len(is_on)], 0.0))

    def place(self, points: Points, i: int, prefix: AnyArray) -> Place:
        """Return where an end of an interval with a prefix is."""
        exact: Fraction | None = points.values[i]
        layer, form, _ = points.names[i].tolist()
        if exact is None and layer >= 0:
            self._compose(layer + 1, prefix)
            slope, offset, *rest, radius = self._doubled[layer + 1, :, form >> 1].tolist()
            size = abs(slope) * (1.0 - 2.0**-40) - radius
            if not 0.0 < size < np.inf or not radius < np.inf:
                return Place(Fraction(0), np.inf)
            exact = -(Fraction(offset) + Fraction(rest[1])) / (Fraction(slope) + Fraction(rest[0]))
            nearest = _nearest(exact)
            spread = radius * (1.0 + abs(nearest)) / size
        elif exact is None:
            return Place(None, 0.0)
        else:
            nearest, spread = _nearest(exact), 0.0
        if not abs(nearest) < np.inf:
            return Place(Fraction(0), np.inf)
        off = (nearest_error(nearest) + spread) * SMALL_RAISE + TINY
        return Place(
            Fraction(nearest), 0.0 if Fraction(nearest) == exact and spread == 0.0 else off
        )

    def _compose(self, end: int, prefix: AnyArray) -> None:
        """Compose the forms of the layers before `end` that are not those of the last prefix."""
        starts = self.layers.unit_starts
        while self._n_known and not np.array_equal(
            self._states[: starts[self._n_known - 1]], prefix[: starts[self._n_known - 1]]
        ):
            self._n_known -= 1
        if self._n_known >= end:
            return
        n_states = starts[end - 1]
        self._states[:n_states] = prefix[:n_states]
        n_blocks, _, most = self._doubled.shape
        arrays = address(self._states), address(self._doubled)
        core().hm_line_doubled(self.layers.at(), self._n_known, end, *arrays, n_blocks, most)
        self._n_known = end


def _nearest(exact: Fraction) -> float:
    """Return the nearest float, infinite if there is none."""
    try:
        return float(exact)
    except OverflowError:
        return float("inf")


def _rounded(block: AnyArray) -> LineForms:
    """Return doubled forms as floats with radii."""
    slopes, offsets, low_slopes, low_offsets, radii = block[:, None]
    return LineForms(
        Enclosed(slopes, (np.abs(low_slopes) + radii) * SMALL_RAISE),
        Enclosed(offsets, (np.abs(low_offsets) + radii) * SMALL_RAISE),
    )
