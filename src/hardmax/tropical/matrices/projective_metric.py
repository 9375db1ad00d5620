r"""Hilbert's projective metric on tropical vectors."""

import math
from fractions import Fraction

import numpy as np

from hardmax._ground.arguments import Sizes
from hardmax.errors import ArgumentError
from hardmax.typing import ArrayLike, FloatArray


def hilbert_distance(x: ArrayLike, y: ArrayLike) -> float:
    r"""Return $d_H(x, y) = \max_i (x_i - y_i) - \min_i (x_i - y_i)$, correctly rounded.

    Hilbert's metric is a metric on tropical projective space: it does not change if a constant (a
    common $\otimes$-factor) is added to all entries of $x$ or $y$. Every max-plus matrix is
    nonexpansive for it. Entries at which both vectors are -inf are ignored. If only one vector is
    -inf at some entry, the distance is infinite; if both are -inf everywhere, it is 0. The result
    is the exact distance, rounded once, so 0.0 means that the vectors are projectively equal.

    Args:
        x: The first vector, shape `(dim,)`. Entries may be -inf.
        y: The second vector, shape `(dim,)`. Entries may be -inf.

    Raises:
        ArgumentError: If the distance is finite but exceeds the range of float64.

    References:
        [CGQ04].

    Examples:
        >>> hilbert_distance([0, 1, 5], [10, 11, 12])
        3.0
        >>> hilbert_distance([1, 1], [0, 1e-20])  # The differences round to the same float.
        1e-20
        >>> hilbert_distance([0, -np.inf], [7, -np.inf]), hilbert_distance([0, -np.inf], [7, 7])
        (0.0, inf)
    """
    sizes = Sizes()
    left = sizes.floats("x", x, ("dim",), infinity="negative")
    right = sizes.floats("y", y, ("dim",), infinity="negative")
    support = left > -np.inf
    if not np.array_equal(support, right > -np.inf):
        return np.inf
    if not support.any():
        return 0.0
    left, right = left[support], right[support]
    with np.errstate(over="ignore", invalid="ignore"):
        difference = left - right
        part = difference - left
        error = (left - (difference - part)) - (right + part)
    try:
        if np.isfinite(difference).all() and np.isfinite(error).all():
            high, low = _find_extremes(difference, error)
            # Each pair is an exact difference, and fsum rounds the sum of all four numbers once.
            return math.fsum([*high, -low[0], -low[1]])
        exact = [Fraction(a) - Fraction(b) for a, b in zip(left, right, strict=True)]
        return float(max(exact) - min(exact))
    except OverflowError:
        raise ArgumentError(
            "the distance of `x` and `y` exceeds the range of float64 (about 1.8e308). Rescale "
            "them."
        ) from None


def _find_extremes(
    difference: FloatArray, error: FloatArray
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the largest and the smallest `difference + error`, since rounding is monotone."""
    high, low = difference.max(), difference.min()
    return (
        (float(high), float(error[difference == high].max())),
        (float(low), float(error[difference == low].min())),
    )
