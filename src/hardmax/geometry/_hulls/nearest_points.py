"""The point of the convex hull of rows that is nearest to the origin, as a float candidate.

Either some direction has a positive product with every row, or the origin lies in the convex hull
of the rows (Gordan). The compiled search (`core/include/hardmax/nearest.hpp`, [Wol76] and [LH74])
proposes one of the two in floating point. The caller must prove the direction or the support.
"""

from collections.abc import Sequence
from ctypes import byref, c_int32
from typing import NamedTuple

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import MemoryBlock, address
from hardmax._ground.arguments import prepare_array
from hardmax.typing import FloatArray, IntArray

SEPARATED = 1
"""Every row has a positive product with the point, in floating point."""
CONTAINED = 0
"""In floating point, the origin is the convex combination of the support with the weights."""
UNDECIDED = -1
"""Rounding errors stopped the search before a decision."""


class NearestPointResult(NamedTuple):
    """The result of `nearest_point`.

    Attributes:
        status: `SEPARATED`, `CONTAINED` or `UNDECIDED`.
        support: The indices of the active rows, at most `dim + 1`.
        weights: The positive coefficients of the active rows, which sum to one.
        point: A positive multiple of the nearest point of their hull, shape `(dim,)`.
    """

    status: int
    support: IntArray
    weights: FloatArray
    point: FloatArray


def nearest_point(
    rows: FloatArray,
    *,
    start: Sequence[int] = (),
    point: FloatArray | None = None,
    quality: float = 0.0,
    most_rounds: int = 0,
) -> NearestPointResult:
    """Find a direction that is positive on all rows, or rows whose hull contains the origin.

    Args:
        rows: At least one row, each of about unit length, shape `(n_rows, dim)`.
        start: The indices of the rows to make active first, at most `dim + 1`.
        point: A direction to try first if `start` is empty.
        quality: The stopping criterion if the rows can be separated. With 0, the search stops at
            the first direction that is positive on all rows. With a larger value up to 1, it stops
            when the smallest product is at least that fraction of the product with the active rows;
            0.9 is close to the widest margin.
        most_rounds: The maximum number of rows that become active, or 0 for a generous limit.

    Examples:
        >>> rows = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
        >>> nearest_point(rows).support.tolist()
        [0, 2]
        >>> nearest_point(rows[:2]).status == SEPARATED
        True
    """
    rows = prepare_array(rows)
    n_rows, dim = rows.shape
    support, weights = np.zeros(dim + 2, np.int64), np.zeros(dim + 2)
    support[: len(start)] = start
    found = np.zeros(dim) if point is None else np.array(point, dtype=np.float64)
    memory, n_active = MemoryBlock(core().hm_nearest_size(dim)), c_int32()
    status = core().hm_nearest(
        memory.address, address(rows), n_rows, dim, len(start), quality, most_rounds,
        address(support), address(weights), address(found), byref(n_active),
    )  # fmt: skip
    return NearestPointResult(status, support[: n_active.value], weights[: n_active.value], found)
