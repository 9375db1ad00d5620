"""Forms of a group that coincide, and the means of their gains and values."""

from fractions import Fraction
from itertools import pairwise

import numpy as np

from hardmax.exact.rounding import TINY, UNIT_ROUNDOFF, enclosed_quotient
from hardmax.models.argmax import ArgmaxLayer
from hardmax.typing import FloatArray


def mean_contributions(
    layer: ArgmaxLayer, classes: list[list[int]]
) -> tuple[FloatArray, FloatArray]:
    """Average gains `(2, n_forms)` and values `(2, n_forms, width)` over coinciding forms.

    Each result holds the numbers, then their radii.

    Args:
        layer: The layer.
        classes: Lists of two or more coinciding forms; the first form of each list gets the mean.
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
    total = sum((Fraction(float(x)) for x in numbers), Fraction(0))
    return enclosed_quotient(total.numerator, total.denominator * len(numbers))


def find_identical_forms(layer: ArgmaxLayer) -> list[list[int]]:
    """List the sets of two or more forms of one group that are equal as functions of the stream.

    Examples:
        >>> from hardmax import MaxoutNetwork
        >>> units = [[[1.0, 2.0], [0.5, 0.0], [1.0, 2.0]]]
        >>> find_identical_forms(MaxoutNetwork([units, [[1.0]]]).network.layers[0])
        [[0, 2]]
    """
    if _are_provably_distinct(layer):
        return []
    return find_equal_rows(layer.exact_scores[0].tolist(), layer.starts.tolist())


def _are_provably_distinct(layer: ArgmaxLayer) -> bool:
    r"""Return whether floats prove that no two forms of a group are equal.

    Equal forms $(a_j W_q, \langle a_j, b_q\rangle + c_j)$ have equal values under every functional
    $v$. Here $v$ is one functional without any pattern, evaluated in floats. A sum of $n$ products
    has an error of at most $2 n u$ times the sum of their sizes, plus $2^{-1000}$ for underflow.
    """
    query, slopes = layer.query, layer.dense_slopes()
    v = 1.0 + np.modf(np.arange(1, layer.dim_in + 2) * _GOLDEN)[0]
    gamma = 2.0 * (max(slopes.shape[1], layer.dim_in) + 4) * UNIT_ROUNDOFF
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if query.is_identity:
            value, size = v[:-1], v[:-1]
        else:
            value = v[:-1] @ query.weight + v[-1] * query.bias
            size = v[:-1] @ np.abs(query.weight) + v[-1] * np.abs(query.bias)
        values = slopes @ value + v[-1] * layer.offsets
        sizes = np.abs(slopes) @ size + v[-1] * np.abs(layer.offsets)
        errors = 4.0 * gamma * sizes + (1.0 + np.abs(slopes).sum(axis=1)) * TINY
        order = np.lexsort((values, layer.group_of))
        gaps, groups = np.diff(values[order]), layer.group_of[order]
        # Written so that an overflow proves nothing.
        clear = gaps > 2.0 * np.maximum.reduceat(errors, layer.starts[:-1])[groups[1:]]
    return bool((clear | (groups[1:] != groups[:-1])).all())


_GOLDEN = 0.6180339887498949


def find_equal_rows(rows: list[list[object]], starts: list[int]) -> list[list[int]]:
    """List the sets of two or more forms of one group whose rows are equal."""
    classes = []
    for start, end in pairwise(starts):
        seen: dict[tuple[int, ...], list[int]] = {}
        for j in range(start, end):
            seen.setdefault(tuple(int(x) for x in rows[j]), []).append(j)  # type: ignore[call-overload]
        classes += [members for members in seen.values() if len(members) > 1]
    return classes
