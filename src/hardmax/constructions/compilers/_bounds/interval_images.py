"""Images of many boxes under one affine map, with sparse matrices where most slopes are 0."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from hardmax.typing import FloatArray

_SPARSE = 0.125
"""Sparse products are faster if the share of nonzero slopes is below this."""


def compact(matrix: FloatArray) -> Any:
    """Convert a matrix to a sparse one if most of its entries are 0."""
    is_sparse = np.count_nonzero(matrix) < _SPARSE * matrix.size
    return csr_array(matrix) if is_sparse else matrix


@dataclass(frozen=True, eq=False)
class IntervalMap:
    r"""The map $z \mapsto A z + b$, ready to be applied to boxes.

    Attributes:
        positive: The positive part of $A$, shape `(n_rows, n_in)`.
        negative: The positive part of $-A$.
        offsets: The vector $b$, shape `(n_rows,)`.
        cost: The approximate number of products for one box.
    """

    positive: Any
    negative: Any
    offsets: FloatArray
    cost: int

    @classmethod
    def of(cls, slopes: FloatArray, offsets: FloatArray) -> "IntervalMap":
        """Prepare a map from its slopes `(n_rows, n_in)`.

        Examples:
            >>> doubled = IntervalMap.of(np.array([[2.0, -1.0]]), np.array([1.0]))
            >>> low, high = np.array([[0.0, 0.0]]), np.array([[1.0, 3.0]])
            >>> [end.tolist() for end in doubled.images(low, high, 0.0)]
            [[[-2.0]], [[3.0]]]
            >>> doubled.moduli(high).tolist()
            [[5.0]]
        """
        stored = compact(slopes)
        cost = slopes.size if stored is slopes else stored.nnz
        positive, negative = compact(np.maximum(slopes, 0.0)), compact(np.maximum(-slopes, 0.0))
        return cls(positive, negative, offsets, cost)

    def moduli(self, sizes: FloatArray) -> FloatArray:
        """Return the sums of $|a_j|$ times sizes for each row of `sizes`: `(n_boxes, n_rows)`."""
        return np.asarray((self.positive @ sizes.T + self.negative @ sizes.T).T)

    def images(
        self, low: FloatArray, high: FloatArray, slack: FloatArray | float
    ) -> tuple[FloatArray, FloatArray]:
        """Bound the map on boxes `(n_boxes, n_in)` from below and above, widened by `slack`."""
        below = (self.positive @ low.T - self.negative @ high.T).T
        above = (self.positive @ high.T - self.negative @ low.T).T
        return np.asarray(below + self.offsets - slack), np.asarray(above + self.offsets + slack)
