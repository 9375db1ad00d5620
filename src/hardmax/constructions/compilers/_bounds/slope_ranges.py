r"""The effect of a layer of maxima on the difference of two inputs.

For two points of a convex set, $\max_c p_c(z) - \max_c p_c(z') = \langle\sum_c \lambda_c a_c, z -
z'\rangle$, where the weights $\lambda$ are nonnegative, add up to 1, and vanish for pieces that win
nowhere on the segment between the points (the sum is the average slope on the segment). So a unit
acts on differences like a row in the convex hull of its slopes. Here, this row is written as a mean
row plus deviations:

$$\sum_c \lambda_c a_c = \bar a + \sum_c \lambda_c (a_c - \bar a), \qquad
  \Big\langle\sum_c \lambda_c (a_c - \bar a), e\Big\rangle^2
  \le \frac{k - 1}{k} \sum_c \langle a_c - \bar a, e\rangle^2$$

for $k$ pieces with mean $\bar a$, because $\lambda$ lies within $\sqrt{1 - 1/k}$ of $(1/k, \dots,
1/k)$. Two pieces have a single deviation, half their difference, and equality holds at both ends. A
unit in which one piece always wins has no deviations: it is linear, and products with its slopes
keep their signs.
"""

from dataclasses import dataclass

import numpy as np

from hardmax.constructions.compilers.piece_layers import PieceLayer
from hardmax.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class SlopeRanges:
    r"""The rows with which the units of a layer act on differences.

    The errors of the entries of `means` and `deviations` are at most $8u$ times the entries of
    `sizes`.

    Attributes:
        means: The means $\bar a$, shape `(n_units, n_in)`.
        deviations: The rows $\sqrt{(k-1)/k}\,(a_c - \bar a)$, or half the difference of two slopes,
            shape `(n_rows, n_in)`.
        owner: The unit of each deviation, shape `(n_rows,)`.
        first, second: For each unit in which exactly two pieces can win, these pieces, shape
            `(n_pairs,)`. The first deviations are $(a_{first} - a_{second}) / 2$ for these units.
        low, high: The smallest and largest entries of the slopes of each unit, shape
            `(n_units, n_in)`.
        sizes: The sum of absolute values over the pieces that can win, shape `(n_units, n_in)`.
    """

    means: FloatArray
    deviations: FloatArray
    owner: IntArray
    first: IntArray
    second: IntArray
    low: FloatArray
    high: FloatArray
    sizes: FloatArray


def slope_ranges(layer: PieceLayer, can_win: BoolArray) -> SlopeRanges:
    """Return the ranges of the slopes of a layer.

    Args:
        layer: The layer.
        can_win: Which pieces may be the largest of their unit, at least one in each unit; shape
            `(n_pieces,)`.

    Examples:
        >>> relu = PieceLayer(np.array([[2.0], [0.0]]), np.zeros(2), np.array([0]))
        >>> ranges = slope_ranges(relu, np.array([True, True]))
        >>> ranges.means.tolist(), ranges.deviations.tolist()
        ([[1.0]], [[1.0]])
        >>> slope_ranges(relu, np.array([True, False])).deviations.tolist()
        []
    """
    kept = np.flatnonzero(can_win)
    slopes, owner = layer.slopes[kept], layer.owner[kept]
    starts = np.searchsorted(owner, np.arange(layer.n_units))
    counts = np.diff([*starts.tolist(), len(kept)])
    means = np.add.reduceat(slopes, starts, axis=0) / counts[:, None]
    is_pair = counts == 2
    first, second = starts[is_pair], starts[is_pair] + 1
    halves = 0.5 * slopes[first] - 0.5 * slopes[second]
    means[is_pair] = 0.5 * slopes[first] + 0.5 * slopes[second]
    many = counts[owner] > 2
    factors = np.sqrt((counts - 1.0) / counts)[owner[many], None]
    return SlopeRanges(
        means,
        np.concatenate([halves, factors * (slopes[many] - means[owner[many]])]),
        np.concatenate([owner[first], owner[many]]),
        kept[first],
        kept[second],
        np.minimum.reduceat(slopes, starts, axis=0),
        np.maximum.reduceat(slopes, starts, axis=0),
        np.add.reduceat(np.abs(slopes), starts, axis=0),
    )
