"""The nearest point to the origin in the convex hull of some rows: a candidate, in floats.

Either some direction has a positive product with every row, or the origin lies in the convex hull
of the rows (Gordan). The compiled search (`core/include/hardmax/nearest.hpp`, [Wol76] and [LH74])
says which, in floating point; whoever asks proves the direction, or the support, exactly.
"""

from collections.abc import Sequence
from ctypes import byref, c_int32
from typing import NamedTuple

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import Memory, address
from hardmax._ground.arguments import prepare_array
from hardmax.typing import FloatArray, IntArray

SEPARATED = 1
"""Every row has a positive product with the point, in floating point."""
CONTAINED = 0
"""The origin is, in floating point, the convex combination of the support with the weights."""
UNDECIDED = -1
"""Rounding stopped the search between the two."""


class Nearest(NamedTuple):
    """What a search found.

    Attributes:
        status: `SEPARATED`, `CONTAINED` or `UNDECIDED`.
        support: The active rows, at most `dim + 1`.
        weights: Their positive coefficients, summing to one.
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
) -> Nearest:
    """Find a direction positive on all rows, or rows whose convex hull holds the origin.

    Args:
        rows: Shape `(n_rows, dim)`, at least one row, each of about unit length.
        start: Rows to make active first, at most `dim + 1`.
        point: A direction to try first, if there is no `start`.
        quality: Where to stop when the rows can be separated. 0: at the first direction positive
            on all rows. Towards 1: when the smallest product is at least that fraction of the one
            at the current active rows, so that 0.9 is close to the widest margin.
        most_rounds: How many rows may become active; 0 for plenty.

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
    memory, n_active = Memory(core().hm_nearest_size(dim)), c_int32()
    status = core().hm_nearest(
        memory.address, address(rows), n_rows, dim, len(start), quality, most_rounds,
        address(support), address(weights), address(found), byref(n_active),
    )  # fmt: skip
    return Nearest(status, support[: n_active.value], weights[: n_active.value], found)
