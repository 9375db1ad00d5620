"""The rows of several heads in one table, and the compiled decisions about tuples of vertices.

Row `r` of a vertex is positive where the vertex scores more than `rival[r]`. The open cone of a
tuple of vertices, one from each head, is the set on which all rows of its vertices are positive.
The compiled code is in `core/include/hardmax/joint.hpp`.
"""

from ctypes import Structure, addressof, c_int64, c_void_p
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import MemoryBlock, address
from hardmax._ground.arguments import prepare_array
from hardmax.typing import BoolArray, FloatArray, IntArray, SignArray

FACET, NO_FACET, UNDECIDED = 1, 0, -1
_QUESTIONS = 4096
"""The maximum number of decisions per call of the core."""


class _Record(Structure):
    """`hm_fan` of the interface."""

    _fields_ = (
        ("dim", c_int64),
        ("n_heads", c_int64),
        ("n_rows", c_int64),
        *((name, c_void_p) for name in ("rows", "units", "points")),
        *((name, c_void_p) for name in ("first_vertex", "first_row", "rival", "reverse")),
    )


@dataclass(frozen=True, eq=False)
class Fan:
    """The rows of all heads.

    Attributes:
        rows: The rounded differences of points, scaled to largest entry about one, shape
            `(n_rows, dim)`.
        units: Approximations of the same rows, scaled to unit length, shape `(n_rows, dim)`.
        points: Approximate vertices for guessing winners, shape `(n_vertices, dim)`.
        first_vertex: The index of the first vertex of each head, shape `(n_heads + 1,)`.
        first_row: The index of the first row of each vertex, shape `(n_vertices + 1,)`. The
            remaining rows, the base rows, apply to every tuple.
        rival: The vertex on the other side of each row, shape `(n_rows,)`.
        reverse: The index of the negated row, shape `(n_rows,)`.
    """

    rows: FloatArray
    units: FloatArray
    points: FloatArray
    first_vertex: IntArray
    first_row: IntArray
    rival: IntArray
    reverse: IntArray

    @cached_property
    def _record(self) -> _Record:
        arrays = (self.rows, self.units, self.points)
        places = (self.first_vertex, self.first_row, self.rival, self.reverse)
        for array, dtype in (*((a, np.float64) for a in arrays), *((p, np.int64) for p in places)):
            assert array.flags.c_contiguous
            assert array.dtype == dtype
        n_rows, dim = self.rows.shape
        addresses = [address(array) for array in (*arrays, *places)]
        return _Record(dim, len(self.first_vertex) - 1, n_rows, *addresses)

    @property
    def address(self) -> int:
        """The address of the record for the core."""
        return addressof(self._record)

    def check(self, leaves: IntArray, directions: FloatArray) -> tuple[BoolArray, FloatArray]:
        """Try to prove, for each tuple separately, that its direction selects it.

        Args:
            leaves: One vertex of each head, shape `(n, n_heads)`.
            directions: Exact directions with entries of at most one, shape `(n, dim)`.

        Returns:
            Two arrays of shape `(n,)`: whether the proof succeeds; and the rounded sine of the
            angle between the direction and the nearest wall of the tuple, infinite if there is no
            wall.
        """
        leaves, directions = prepare_array(leaves, np.int64), prepare_array(directions)
        proved, margins = np.empty(len(leaves), np.bool_), np.empty(len(leaves))
        arrays = map(address, (leaves, directions, proved, margins))
        core().hm_joint_check(self.address, len(leaves), *arrays)
        return proved, margins

    def facets(
        self, line: IntArray, leaves: IntArray, cells: IntArray, walls: IntArray
    ) -> SignArray:
        """Decide whether rows of tuples are irredundant, treating rows on the same line as one.

        A row is irredundant if some direction violates it and satisfies all others.

        Args:
            line: A number for each row, equal for rows that are positive multiples of each other,
                shape `(n_rows,)`.
            leaves: One vertex of each head, shape `(n_tuples, n_heads)`.
            cells: The tuple of each decision, shape `(n,)`.
            walls: The row of each decision, which belongs to the tuple, shape `(n,)`.

        Returns:
            `FACET`, `NO_FACET` or `UNDECIDED` for each decision, shape `(n,)`.
        """
        verdict = np.empty(len(cells), np.int8)
        memory = MemoryBlock(core().hm_joint_facets_size(self.address))
        leaves, line = prepare_array(leaves, np.int64), prepare_array(line, np.int64)
        for start in range(0, len(cells), _QUESTIONS):
            part = slice(start, start + _QUESTIONS)
            here = cells[part].copy(), walls[part].copy(), verdict[part]
            core().hm_joint_facets(
                memory.address, self.address, address(line), address(leaves),
                len(here[0]), *map(address, here),
            )  # fmt: skip
        return verdict
