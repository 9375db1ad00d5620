r"""What a layer of maxima can do to a difference of two inputs.

For two points of a convex set, $\max_c p_c(z) - \max_c p_c(z') = \langle\sum_c \lambda_c a_c, z -
z'\rangle$ with weights $\lambda$ of a mean over those pieces that win somewhere between the two:
the average of the slopes on the way. So a unit acts on differences as a row of the convex hull of
its slopes, written here as a mean row and rows of deviations:

$$\sum_c \lambda_c a_c = \bar a + \sum_c \lambda_c (a_c - \bar a), \qquad
  \Big\langle\sum_c \lambda_c (a_c - \bar a), e\Big\rangle^2
  \le \frac{k - 1}{k} \sum_c \langle a_c - \bar a, e\rangle^2$$

for $k$ pieces with mean $\bar a$, because $\lambda$ lies within $\sqrt{1 - 1/k}$ of $(1/k, \dots,
1/k)$. Two pieces have one row of deviations, half their difference, and equality at both ends. A
unit of which one piece wins throughout has none: it is linear, and products with its slopes keep
their signs.
"""

from dataclasses import dataclass

import numpy as np

from hardmax.constructions.compilers.piece_layers import PieceLayer
from hardmax.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class SlopeRanges:
    r"""The rows with which the units of a layer act on differences.

    Entries of `means` and `deviations` are off by at most $8u$ times those of `sizes`.

    Attributes:
        means: The $\bar a$, shape `(n_units, n_in)`.
        deviations: The $\sqrt{(k-1)/k}\,(a_c - \bar a)$, or half a difference, `(n_rows, n_in)`.
        owner: The unit of each deviation, shape `(n_rows,)`.
        first, second: Of each unit with two pieces that can win these pieces; the first rows of
            deviations are theirs, $(a_{first} - a_{second}) / 2$. Shape `(n_pairs,)`.
        low, high: The least and largest entry of the rows of each unit, shape `(n_units, n_in)`.
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
        can_win: Which pieces may be the largest of their unit, shape `(n_pieces,)`; at least one
            of each unit.

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
