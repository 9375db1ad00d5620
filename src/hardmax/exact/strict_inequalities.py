"""Exact tests of strict integer inequalities at points, in floats where these are certain."""

from collections.abc import Sequence

import numpy as np

from hardmax.exact.dyadic import homogeneous_points
from hardmax.exact.integer_vectors import Vector, dot, rounded_directions
from hardmax.exact.rounding import FEW_UNDERFLOWS, rounding_factor
from hardmax.typing import BoolArray, FloatArray


def is_strictly_positive(rows: Sequence[Vector], points: FloatArray) -> BoolArray:
    r"""Return at which points all forms $\langle a, x \rangle + c$ are positive; the test is exact.

    Args:
        rows: Integer vectors $(a, c)$ of length `dim + 1`; may be empty.
        points: The finite points, shape `(n_points, dim)`.

    Returns:
        A boolean array of shape `(n_points,)`.

    Examples:
        >>> is_strictly_positive([(3, -1), (-1, 1)], np.array([[1 / 3], [0.5], [1.0]])).tolist()
        [False, True, False]
    """
    n_points, dim = points.shape
    if not rows or not n_points:
        return np.ones(n_points, dtype=np.bool_)
    floats = rounded_directions(rows, dim + 1)
    slopes, offsets = floats[:, :-1].T, floats[:, -1]
    with np.errstate(all="ignore"):
        values = points @ slopes + offsets
        sizes = np.abs(points) @ np.abs(slopes) + np.abs(offsets)
        # The bound covers rounded coefficients, some of which may be below the normal range.
        bound = rounding_factor(dim + 2) * sizes
        bound += FEW_UNDERFLOWS * (np.abs(points).sum(axis=1, keepdims=True) + dim + 1)
        is_sure = np.isfinite(bound) & np.isfinite(values)
        inside = np.asarray((is_sure & (values > bound)).all(axis=1))
        outside = np.asarray((is_sure & (values < -bound)).any(axis=1))
    for k in np.flatnonzero(~inside & ~outside).tolist():
        point = tuple(homogeneous_points(points[k : k + 1])[0].tolist())
        inside[k] = all(dot(row, point) > 0 for row in rows)
    return inside
