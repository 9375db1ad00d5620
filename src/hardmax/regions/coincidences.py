"""Forms of a group that coincide, and the means of what they contribute."""

from fractions import Fraction
from itertools import pairwise

import numpy as np

from hardmax.algebra.exact.dyadic import nearest_floats
from hardmax.models.argmax_layers import ArgmaxLayer
from hardmax.typing import FloatArray


def coinciding_means(layer: ArgmaxLayer, classes: list[list[int]]) -> tuple[FloatArray, FloatArray]:
    """Return gains `(2, n_forms)` and values `(2, n_forms, width)`, averaged, with radii.

    Args:
        layer: The layer.
        classes: Lists of two or more coinciding forms; the mean goes to the first of each.
    """
    gains = np.stack([layer.gains, np.zeros_like(layer.gains)])
    values = np.stack([layer.values, np.zeros_like(layer.values)])
    for members in classes:
        gains[:, members[0]] = _mean(layer.gains[members])
        for k in range(layer.values.shape[1]):
            values[:, members[0], k] = _mean(layer.values[members, k])
    return gains, values


def _mean(numbers: FloatArray) -> tuple[float, float]:
    """Return the mean, rounded, and a bound on its error."""
    exact = sum((Fraction(float(x)) for x in numbers), Fraction(0)) / len(numbers)
    nearest = float(nearest_floats(np.array([exact], dtype=object))[0])
    if exact == Fraction(nearest):
        return nearest, 0.0
    return nearest, abs(nearest) * 2.0**-52 + 2.0**-1070


def coincidence_classes(rows: list[list[object]], starts: list[int]) -> list[list[int]]:
    """List the sets of two or more forms of one group whose rows are equal."""
    classes = []
    for start, end in pairwise(starts):
        seen: dict[tuple[int, ...], list[int]] = {}
        for j in range(start, end):
            seen.setdefault(tuple(int(x) for x in rows[j]), []).append(j)  # type: ignore[call-overload]
        classes += [members for members in seen.values() if len(members) > 1]
    return classes
