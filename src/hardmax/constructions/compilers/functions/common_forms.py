r"""Subtract a common affine function from two maxima.

In $f = P - Q$, any affine function $\ell$ may be subtracted from both $P$ and $Q$. The rounding
error is proportional to their size, so $\ell$ is fitted to $Q$. Its coefficients have few bits, so
the coefficients of the forms stay short.
"""

import numpy as np

from hardmax.constructions.compilers.maxout_assembly import exact_numbers
from hardmax.typing import FloatArray, WideArray

_BITS = 8
_GAIN = 0.75


def common_form(points: FloatArray, values: FloatArray) -> WideArray | None:
    r"""Fit an affine function to the values of a function at points.

    Args:
        points: The points, shape `(n_points, dim)`.
        values: The values at the points, shape `(n_points,)`.

    Returns:
        A form $(a, c)$ as flint rationals, shape `(dim + 1,)`; None if subtracting it would not
        reduce the largest absolute value by at least a quarter.

    Examples:
        >>> points = np.array([[0.0], [1.0], [2.0]])
        >>> common_form(points, np.array([0.0, 8.0, 24.0])).tolist()
        [12, -2]
        >>> common_form(points, np.array([1.0, -1.0, 1.0])) is None
        True
    """
    with np.errstate(all="ignore"):
        low, high = points.min(axis=0), points.max(axis=0)
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        size = np.abs(values).max()
        if not (np.isfinite([*middle, *half, size]).all() and size > 0.0):
            return None
        steps = (points - middle) / np.where(half > 0.0, half, 1.0)
        columns = np.column_stack([steps, np.ones(len(points))])
        fitted = np.linalg.lstsq(columns, values / size, rcond=None)[0]
        slopes = _round_to_few_bits(fitted[:-1] * size / np.where(half > 0.0, half, 1.0))
        rest = values - (points - middle) @ slopes
        height = _round_to_few_bits(np.array([rest.max() / 2 + rest.min() / 2]))
        if not np.isfinite([*slopes, *height]).all():
            return None
        if not np.abs(rest - height).max() <= _GAIN * size:
            return None
    exact = exact_numbers(slopes)
    offset = exact_numbers(height)[0] - (exact * exact_numbers(middle)).sum()
    return np.array([*exact, offset], dtype=object)


def _round_to_few_bits(numbers: FloatArray) -> FloatArray:
    mantissas, exponents = np.frexp(numbers)
    return np.asarray(np.ldexp(np.round(np.ldexp(mantissas, _BITS)), exponents - _BITS))
