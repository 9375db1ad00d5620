"""Forms on a line, in float64 with proven radii."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax.exact.rounding import nearest_error
from hardmax.models._arithmetic.enclosures import Enclosed, mark_overflow
from hardmax.models._arithmetic.recomposition import RationalForms
from hardmax.models.argmax import AffineMap
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.typing import FloatArray

_OVERFLOWED = 2.0**1023
"""Rounded numbers of this size may have overflowed."""


@dataclass(frozen=True, eq=False)
class LineForms:
    """Forms on a line for a batch of intervals: slopes and offsets, shape `(n, n_forms)` each."""

    slopes: Enclosed
    offsets: Enclosed

    def __getitem__(self, chosen: Any) -> "LineForms":
        return LineForms(chosen_rows(self.slopes, chosen), chosen_rows(self.offsets, chosen))


def charted_forms(line: ChartedDomain) -> LineForms:
    """The points of a line, as forms of its coordinate."""
    direction, origin = line.chart.weight, line.chart.bias[np.newaxis]
    if len(line.stages) <= 1:
        return LineForms(Enclosed.exactly(direction), Enclosed.exactly(origin))
    if line.ends is None:
        return LineForms(_rounded_once(direction), _rounded_once(origin))
    # A difference of two ends, rounded once, is zero only if they are equal.
    radii = np.where(direction == 0.0, 0.0, nearest_error(direction))
    radii[np.abs(direction) >= _OVERFLOWED] = np.inf
    return LineForms(mark_overflow(direction, radii), Enclosed.exactly(origin))


def _rounded_once(values: FloatArray) -> Enclosed:
    """Enclose numbers rounded to nearest once; those that overflowed were replaced."""
    radii = nearest_error(values)
    radii[np.abs(values) >= _OVERFLOWED] = np.inf
    return mark_overflow(values, radii)


def mapped_forms(affine: AffineMap, stream: LineForms) -> LineForms:
    """Apply an affine map to forms: the bias goes to the offsets."""
    if affine.enclosed is None:
        return stream
    return _applied(affine.enclosed, stream)


def _applied(function: Callable[..., Enclosed], stream: LineForms) -> LineForms:
    """Apply a map to slopes, without its bias, and offsets: one product for both."""
    n = len(stream.slopes.values)
    pairs = zip(stream.slopes, stream.offsets, strict=True)
    both = function(Enclosed(*(np.concatenate(pair) for pair in pairs)), n_linear=n)
    return LineForms(chosen_rows(both, slice(n)), chosen_rows(both, slice(n, None)))


def chosen_rows(part: Enclosed, chosen: Any) -> Enclosed:
    """Index values and radii alike."""
    return Enclosed(part.values[chosen], part.radii[chosen])


def rounded_forms(forms: RationalForms) -> Enclosed:
    """Round exact forms: values and radii, shape `(n_forms, 2)`."""
    values = forms.rounded()
    nonzero = np.array([[entry != 0 for entry in row] for row in forms.rows])
    with np.errstate(over="ignore"):
        radii = np.where(nonzero, nearest_error(values), 0.0)
    return mark_overflow(values, radii)


def stacked_forms(parts: list[Enclosed]) -> LineForms:
    """Join streams as `rounded_forms` returns them, one for each interval."""
    values = np.stack([value for value, _ in parts])
    radii = np.stack([radius for _, radius in parts])
    return LineForms(
        *(
            Enclosed(np.ascontiguousarray(values[..., k]), np.ascontiguousarray(radii[..., k]))
            for k in range(2)
        )
    )
