r"""All cells of a maximum of affine forms on the plane, exactly.

The forms $f_j(x) = \langle a_j, x\rangle + c_j$ correspond to points $(a_j, c_j)$ of
three-dimensional space. The vertices of the upper hull of these points are the forms that win on an
open set, its edges are the walls between two cells, and its facets are the points where three or
more cells meet. `convex_hulls` computes the hull, and the compiled core extracts the cells with
their neighbours in cyclic order.
"""

from ctypes import Structure, byref, c_int32, c_void_p
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import MemoryBlock, address
from hardmax.exact.integer_vectors import Vector, primitive
from hardmax.geometry.convex_hulls import float_points, lifted_rows, meeting_points, run_hull
from hardmax.geometry.descriptions import round_points
from hardmax.typing import FloatArray, IntArray, WideArray


class _CoreCells(Structure):
    """`hm_envelope_cells` of the interface."""

    _fields_ = (
        ("sites", c_void_p),
        ("starts", c_void_p),
        ("neighbours", c_void_p),
        ("corners", c_void_p),
        ("triples", c_void_p),
        ("n_sites", c_int32),
        ("n_vertices", c_int32),
    )


@dataclass(frozen=True, eq=False)
class PlanarEnvelope:
    r"""The cells of $\max_j \langle a_j, x\rangle + c_j$ on the plane, with walls and vertices.

    Attributes:
        rows: The vectors $(a_j, c_j)$ as integers on one common scale, shape `(n_forms, 3)`.
        sites: The forms that win on an open set, in ascending order. Of equal forms, the first is
            listed.
        starts: Offsets into the next two arrays: cell `i` has the entries `starts[i]` to
            `starts[i + 1]`.
        neighbours: For each cell, the forms that win beyond its walls, counter-clockwise.
        corners: For each wall, the vertex at its end, where the next wall begins. It is -1 if this
            wall and the next are unbounded; this is then the last entry of the cell.
        triples: For each vertex, three forms that tie there, shape `(n_vertices, 3)`.
        vertices: The vertices, correctly rounded, shape `(n_vertices, 2)`.
    """

    rows: WideArray
    sites: IntArray
    starts: IntArray
    neighbours: IntArray
    corners: IntArray
    triples: IntArray
    vertices: FloatArray

    @cached_property
    def pairs(self) -> IntArray:
        """The pairs `i < j` of forms whose cells share a wall, sorted, shape `(n_pairs, 2)`."""
        left = np.repeat(self.sites, np.diff(self.starts))
        keys = (left * len(self.rows) + self.neighbours)[left < self.neighbours]
        keys.sort()
        return np.stack(np.divmod(keys, len(self.rows)), axis=1)

    def exact_vertex(self, k: int) -> Vector:
        r"""Return vertex `k` as integers $(t x, t)$, $t > 0$, without a common divisor."""
        return meeting_point(self.rows[self.triples[k]])


def meeting_point(rows: WideArray) -> Vector:
    r"""Return the point where three forms tie, as integers $(t x, t)$, $t > 0$, in lowest terms."""
    (x, y, c), (u, v, d) = (rows[1:] - rows[0]).tolist()
    point = (y * d - v * c, c * u - d * x, x * v - u * y)
    return primitive(point if point[-1] > 0 else tuple(-entry for entry in point))


def planar_envelope(rows: WideArray, floats: FloatArray | None = None) -> PlanarEnvelope | None:
    r"""Find all cells of $\max_j \langle a_j, x\rangle + c_j$ on the plane.

    Forms may be repeated, any number may tie at a point, and some may win nowhere.

    Args:
        rows: The vectors $(a_j, c_j)$ as integers on one common scale, shape `(n_forms, 3)`.
        floats: The same numbers without that scale, if they are float64 numbers. The integers are
            then used only for forms that win.

    Returns:
        The cells, or `None` if all $a_j$ lie on a line.

    References:
        [CS89].

    Examples:
        The cells of four sites on a circle meet at one vertex; the centre of the circle wins
        nowhere.

        >>> rows = np.array([[1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0], [0, 0, 0]], dtype=object)
        >>> found = planar_envelope(rows)
        >>> found.sites.tolist(), found.pairs.tolist(), found.vertices.tolist()
        ([0, 1, 2, 3], [[0, 1], [0, 3], [1, 2], [2, 3]], [[0.0, 0.0]])
    """
    if floats is None:
        lifted = lifted_rows(rows)
        hull = run_hull(lifted.for_core, lambda: rows[:, :-1], is_upper=True)
    else:
        hull = run_hull(float_points(floats), lambda: rows[:, :-1], is_upper=True)
    if hull is None:
        return None
    library, n = core(), len(rows)
    sites, starts = np.empty(n, np.int32), np.empty(n + 1, np.int32)
    neighbours, corners = np.empty(6 * n, np.int32), np.empty(6 * n, np.int32)
    triples = np.empty((2 * n, 3), np.int32)
    found = _CoreCells(*map(address, (sites, starts, neighbours, corners, triples)))
    memory = MemoryBlock(library.hm_envelope_size(hull.address), is_cleared=False)
    library.hm_envelope_read(memory.address, hull.address, byref(found))
    sites, ties = sites[: found.n_sites], triples[: found.n_vertices].astype(np.int64)
    if floats is None:
        vertices = meeting_points(lifted, ties)
    else:
        vertices = meeting_points(lifted_rows(rows[sites]), np.searchsorted(sites, ties))
    for k in np.flatnonzero(np.isnan(vertices).any(axis=1)).tolist():
        vertices[k] = round_points([meeting_point(rows[ties[k]])], 2)[0]
    n_sites = found.n_sites
    n_walls = int(starts[n_sites])
    return PlanarEnvelope(
        rows,
        sites.astype(np.int64),
        starts[: n_sites + 1].astype(np.int64),
        neighbours[:n_walls].astype(np.int64),
        corners[:n_walls].astype(np.int64),
        ties,
        vertices,
    )
