"""The rows of several heads in one table, and the compiled questions about tuples of vertices.

Row `r` of a vertex says that it scores more than `rival[r]`; the open cone of a tuple of vertices,
one of each head, is where all rows of its vertices are positive. What is compiled is in
`core/include/hardmax/joint.hpp`.
"""

from ctypes import Structure, addressof, c_int64, c_void_p
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import Memory, address
from hardmax._ground.arguments import prepare_array
from hardmax.typing import BoolArray, FloatArray, IntArray, SignArray

FACET, NO_FACET, UNDECIDED = 1, 0, -1
_QUESTIONS = 4096
"""How many are asked in one call."""


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
        rows: The rounded differences of points, largest entry about one: `(n_rows, dim)`.
        units: About the same rows, of unit length: `(n_rows, dim)`.
        points: To guess winners: `(n_vertices, dim)`.
        first_vertex: Where the vertices of each head start: `(n_heads + 1,)`.
        first_row: Where the rows of each vertex start: `(n_vertices + 1,)`; later rows, the base
            rows, count for every tuple.
        rival: The vertex on the other side: `(n_rows,)`.
        reverse: The row that says the opposite: `(n_rows,)`.
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
        """Where the core finds it."""
        return addressof(self._record)

    def check(self, leaves: IntArray, directions: FloatArray) -> tuple[BoolArray, FloatArray]:
        """Prove, for each tuple on its own, that its direction selects it.

        Args:
            leaves: One vertex of each head, shape `(n, n_heads)`.
            directions: Taken as exact, entries at most one: shape `(n, dim)`.

        Returns:
            Whether that is proved; and, rounded, the sine of the angle between the direction and
            the nearest wall of the tuple, infinite if it has none. Shape `(n,)` both.
        """
        leaves, directions = prepare_array(leaves, np.int64), prepare_array(directions)
        proved, margins = np.empty(len(leaves), np.bool_), np.empty(len(leaves))
        arrays = map(address, (leaves, directions, proved, margins))
        core().hm_joint_check(self.address, len(leaves), *arrays)
        return proved, margins

    def facets(
        self, line: IntArray, leaves: IntArray, cells: IntArray, walls: IntArray
    ) -> SignArray:
        """Decide whether rows of tuples are irredundant, rows on the same line counted as one.

        A row is irredundant if some direction violates it and satisfies all others.

        Args:
            line: Equal for rows that are positive multiples of each other, shape `(n_rows,)`.
            leaves: One vertex of each head, shape `(n_tuples, n_heads)`.
            cells: The tuple of each question, shape `(n,)`.
            walls: The row of each question, one of its tuple's.

        Returns:
            `FACET`, `NO_FACET` or `UNDECIDED`, shape `(n,)`.
        """
        verdict = np.empty(len(cells), np.int8)
        memory = Memory(core().hm_joint_facets_size(self.address))
        leaves, line = prepare_array(leaves, np.int64), prepare_array(line, np.int64)
        for start in range(0, len(cells), _QUESTIONS):
            part = slice(start, start + _QUESTIONS)
            here = cells[part].copy(), walls[part].copy(), verdict[part]
            core().hm_joint_facets(
                memory.address, self.address, address(line), address(leaves),
                len(here[0]), *map(address, here),
            )  # fmt: skip
        return verdict
