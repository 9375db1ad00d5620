r"""The terms of a tropical polynomial that attain the maximum at a point, exactly.

All scores are computed in floats with a proven error radius. If several terms are within the radii
of the best one, the point is decided in integers. Hence ties are exact.
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from hardmax.exact.dyadic import (
    ScaledIntegers,
    homogeneous_points,
    nearest_float,
    round_scaled_integers,
)
from hardmax.exact.rounding import FEW_UNDERFLOWS, rounding_factor
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray

_SAFE = 2.0**1000  # No score and no partial sum below this overflows.
_CHUNK = 2**20  # Scores held at once.


def winning_terms(coefficients: ScaledIntegers, points: FloatArray) -> BoolArray:
    r"""Mark the terms $j$ with $\langle a_j, x\rangle + c_j = \max_i \langle a_i, x\rangle + c_i$.

    Args:
        coefficients: The vectors $(a_j, c_j)$, shape `(n_terms, dim + 1)`.
        points: The finite points $x$, shape `(n_points, dim)`.

    Returns:
        A mask of shape `(n_points, n_terms)`, with at least one True in every row.

    Examples:
        >>> from hardmax.exact import scaled_integers
        >>> absolute_value = scaled_integers(np.array([[1.0, 0.0], [-1.0, 0.0]]))
        >>> winning_terms(absolute_value, np.array([[0.0], [1e-300]])).tolist()
        [[True, True], [True, False]]
    """
    rows, _ = round_scaled_integers(coefficients)
    mask = np.empty((len(points), len(rows)), dtype=np.bool_)
    for block in _split_into_blocks(np.arange(len(points)), len(rows)):
        mask[block] = _find_possible_winners(rows, points[block])
    for index in np.flatnonzero(mask.sum(axis=1) > 1):
        candidates = np.flatnonzero(mask[index])
        scores = coefficients.integers[candidates] @ homogeneous_points(points[[index]])[0]
        mask[index, candidates] = scores == scores.max()
    return mask


@np.errstate(under="ignore")
def float_values(coefficients: ScaledIntegers, points: FloatArray) -> FloatArray:
    r"""Evaluate the maximum at each row of `points`, rounded.

    The error is at most $2(d+4)\,2^{-53} \max_j (\langle |a_j|, |x| \rangle + |c_j|)$ plus an
    underflow of $2^{-1072}(\|x\|_1 + d + 1)$. If an intermediate result could overflow, the value
    is computed exactly and rounded once.
    """
    rows, _ = round_scaled_integers(coefficients)
    values = np.empty(len(points))
    with np.errstate(over="ignore", invalid="ignore"):
        sizes = np.abs(points).sum(axis=1) * np.abs(rows[:, :-1]).max() + np.abs(rows[:, -1]).max()
    safe = sizes < _SAFE
    for block in _split_into_blocks(np.flatnonzero(safe), len(rows)):
        scores = points[block] @ rows[:, :-1].T
        scores += rows[:, -1]
        values[block] = scores.max(axis=1)
    for index, value in zip(
        np.flatnonzero(~safe), exact_values(coefficients, points[~safe]), strict=True
    ):
        values[index] = nearest_float(value)
    return values


def exact_values(coefficients: ScaledIntegers, points: FloatArray) -> WideArray:
    """Evaluate the maximum at each row of `points` exactly, as fractions, shape `(n_points,)`."""
    winner = winning_terms(coefficients, points).argmax(axis=1)
    values = np.empty(len(points), dtype=object)
    scale = Fraction(2) ** coefficients.exponent
    for index, point in enumerate(homogeneous_points(points)):
        score = int(coefficients.integers[winner[index]] @ point)
        values[index] = Fraction(score, int(point[-1])) * scale
    return values


def _split_into_blocks(indices: IntArray, n_terms: int) -> Iterator[IntArray]:
    """Split a list of points into blocks whose scores fit in memory."""
    step = max(1, _CHUNK // n_terms)
    for start in range(0, len(indices), step):
        yield indices[start : start + step]


def _find_possible_winners(rows: FloatArray, points: FloatArray) -> BoolArray:
    r"""Mark every term that float arithmetic cannot rule out.

    With $M = \langle|a|,|x|\rangle + |c|$, rounding the coefficients and the dot product in any
    order changes a score by at most $\gamma_{d+3} M + 2^{-1074}(\|x\|_1 + d + 1)$. The radius used
    is twice that, which also covers the rounding of $M$, of itself, and of the comparison.
    """
    dim = points.shape[1]
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        scores = points @ rows[:, :-1].T + rows[:, -1]
        magnitude = np.abs(points) @ np.abs(rows[:, :-1]).T + np.abs(rows[:, -1])
        radius = rounding_factor(dim) * magnitude
        radius += FEW_UNDERFLOWS * (np.abs(points).sum(axis=1, keepdims=True) + dim + 1)
        lower, upper = scores - radius, scores + radius
        best = np.where(np.isfinite(lower), lower, -np.inf).max(axis=1, keepdims=True)
        # A comparison with NaN is false, so terms whose scores overflow are not ruled out.
        return np.asarray(~(upper < best) | ~np.isfinite(scores))
