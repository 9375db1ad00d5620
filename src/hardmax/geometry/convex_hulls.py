r"""The facets of a convex hull in three to five dimensions, exactly.

The compiled core inserts the points one by one; signs come from floats with a proven bound, or from
integers of any length. Facets with more corners than a simplex are cut into simplices, and each
simplex is told the facet it is part of. An upper hull has one corner more, at infinity, below all
points: `INFINITY`.
"""

from collections.abc import Callable
from ctypes import Structure, byref, c_int32, c_void_p
from dataclasses import dataclass

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import Memory, address
from hardmax.exact.dyadic import scaled_integers
from hardmax.exact.integer_vectors import independent_rows
from hardmax.geometry.planar_envelopes import limbs
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray

DIMENSIONS = range(3, 6)
"""Where there are such hulls."""
INFINITY = -1
_CHUNK = 2_000
"""How many points are inserted in one call; between two calls an interrupt is heard."""
_FIRST_ROOM = 8
"""How many facets there is room for at first, for each point."""
_NEEDS_ROOM = 2


class _CorePoints(Structure):
    """`hm_hull_points` of the interface."""

    _fields_ = (
        ("n", c_int32),
        ("dim", c_int32),
        ("limbs", c_int32),
        ("last_limbs", c_int32),
        ("columns", c_void_p),
        ("last", c_void_p),
        ("floats", c_void_p),
    )


@dataclass(frozen=True, eq=False)
class HullFacets:
    """The boundary of a convex hull, cut into simplices.

    Attributes:
        corners: Shape `(n_simplices, dim)`: points, of equal ones the first; `INFINITY`.
        faces: The facet each of them is part of, numbered from 0, shape `(n_simplices,)`.
        n_faces: How many facets there are.
    """

    corners: IntArray
    faces: IntArray
    n_faces: int


@dataclass(frozen=True, eq=False)
class LiftedRows:
    r"""Integer rows $(a_j, c_j)$ as the core reads them.

    Attributes:
        rows: Shape `(n_rows, dim)`.
        columns: The $a_j$ in limbs, shape `(n_rows, dim - 1, n_limbs)`.
        last: The $c_j$ in limbs, in a unit of their own, shape `(n_rows, n_limbs)`.
        exponent: That unit is two to this power times the other.
    """

    rows: WideArray
    columns: IntArray
    last: IntArray
    exponent: int

    @property
    def for_core(self) -> _CorePoints:
        """The same behind addresses, which are good as long as this object lives."""
        n_limbs, n_last = self.columns.shape[-1], self.last.shape[-1]
        places = address(self.columns), address(self.last), None
        return _CorePoints(*self.rows.shape, n_limbs, n_last, *places)


def lifted_rows(rows: WideArray) -> LiftedRows:
    """Write integer rows for the core, shape `(n_rows, dim)`."""
    columns, shift = limbs(rows[:, :-1])
    last, last_shift = limbs(rows[:, -1])
    return LiftedRows(rows, columns, last, last_shift - shift)


def convex_hull(points: FloatArray) -> HullFacets | None:
    r"""Find the facets of the convex hull of points; `None` if they all lie in a hyperplane.

    Points may repeat, lie on faces, or differ by a last bit.

    Args:
        points: Finite, shape `(n_points, dim)` with `dim` in `DIMENSIONS`.

    References:
        [BDH96].

    Examples:
        A cube has six facets; its centre is no corner.

        >>> cube = np.array([[x, y, z] for x in (0.0, 1) for y in (0, 1) for z in (0, 1)])
        >>> hull = convex_hull(np.concatenate([[[0.5, 0.5, 0.5]], cube]))
        >>> hull.n_faces, len(hull.corners), np.unique(hull.corners).tolist()
        (6, 12, [1, 2, 3, 4, 5, 6, 7, 8])
    """
    floats = np.ascontiguousarray(points, dtype=np.float64)
    given = _CorePoints(*floats.shape, 0, 0, None, None, address(floats))
    return _facets(given, lambda: scaled_integers(floats).integers, is_upper=False)


def upper_hull(lifted: LiftedRows) -> HullFacets | None:
    r"""Find the facets of the upper hull of integer points $(a_j, c_j)$.

    `None` if the $a_j$ all lie in a hyperplane. Simplices with the corner `INFINITY` are vertical;
    those in one vertical hyperplane are one facet.

    Examples:
        >>> rows = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 5]], dtype=object)
        >>> hull = upper_hull(lifted_rows(rows))
        >>> np.sort(hull.corners[(hull.corners != INFINITY).all(axis=1)]).tolist()
        [[0, 1, 3], [0, 2, 3]]
    """
    return _facets(lifted.for_core, lambda: lifted.rows[:, :-1], is_upper=True)


def meeting_points(lifted: LiftedRows, corners: IntArray) -> FloatArray:
    r"""Return where the forms $\langle a_j, x\rangle + c_j$ of each row of `corners` are equal.

    Args:
        lifted: The $(a_j, c_j)$, in `dim` columns.
        corners: Shape `(n_points, dim)`; the $a_j$ of a row are affinely independent.

    Returns:
        Shape `(n_points, dim - 1)`, to the nearest float64; NaN where rounding needs more than
        about 100 bits.
    """
    given = lifted.for_core
    library = core()
    memory = Memory(library.hm_hull_size(byref(given)), is_cleared=False)
    names = np.ascontiguousarray(corners, dtype=np.int32)
    points = np.empty((len(names), given.dim - 1))
    for start in range(0, len(names), 10 * _CHUNK):
        part, found = names[start : start + 10 * _CHUNK], points[start : start + 10 * _CHUNK]
        library.hm_hull_vertices(
            memory.address, byref(given), address(part), len(part), lifted.exponent, address(found)
        )
    return points


def extreme_corners(hull: HullFacets) -> IntArray:
    """Return the corners of simplices that are vertices of the hull, ascending.

    The facets through a point have one face of the hull in common, in whose relative interior it
    lies. If that face is not the point alone, it has other vertices, which are corners of all these
    facets.

    Examples:
        >>> square = np.array([[x, y, 0.0] for x in (0, 2) for y in (0, 2)])
        >>> hull = convex_hull(np.concatenate([[[0.0, 1, 0]], square, [[1.0, 1, 1]]]))
        >>> extreme_corners(hull).tolist()
        [1, 2, 3, 4, 5]
    """
    is_whole = _are_whole(hull)
    is_corner = np.zeros(int(hull.corners.max()) + 2, dtype=np.bool_)
    is_corner[hull.corners] = True
    is_corner[INFINITY] = False
    if is_whole.all():
        return np.flatnonzero(is_corner)
    # A facet that is a simplex has no other corners than vertices.
    is_proper = np.zeros(len(is_corner), dtype=np.bool_)
    is_proper[hull.corners[is_whole]] = True
    members, through = _cut_faces(hull, is_whole)
    for v in np.flatnonzero(is_corner & ~is_proper).tolist():
        is_corner[v] = _meet_in(members, through[v], 1)
    return np.flatnonzero(is_corner)


def hull_edges(hull: HullFacets) -> IntArray:
    """Return the edges of a hull all of whose corners are vertices: pairs `i < j`, sorted.

    Two vertices are joined by an edge if no other vertex lies in all facets that they have in
    common. The ends of an edge are corners of one simplex, since no corner lies between them.

    Args:
        hull: Of an upper hull, edges to `INFINITY` are left out.

    Returns:
        Shape `(n_edges, 2)`.

    Examples:
        >>> cube = np.array([[x, y, z] for x in (0.0, 1) for y in (0, 1) for z in (0, 1)])
        >>> len(hull_edges(convex_hull(cube)))
        12
    """
    is_whole = _are_whole(hull)
    pairs = _pairs_of_corners(hull.corners)
    if is_whole.all():
        return pairs
    # All pairs of corners of a facet that is a simplex are edges. Two vertices that no such facet
    # has in common share facets that were cut alone, and an edge lies in at least dim - 1 facets.
    known = set(map(tuple, _pairs_of_corners(hull.corners[is_whole]).tolist()))
    members, through = _cut_faces(hull, is_whole)
    nothing: set[int] = set()
    found = []
    for i, j in pairs.tolist():
        shared = through.get(i, nothing) & through.get(j, nothing)
        is_edge = len(shared) >= hull.corners.shape[1] - 1 and _meet_in(members, shared, 2)
        found.append(is_edge or (i, j) in known)
    return pairs[np.array(found, dtype=np.bool_)]


def _pairs_of_corners(simplices: IntArray) -> IntArray:
    """Return the pairs `i < j` of corners of a common simplex, sorted, without `INFINITY`."""
    corners = np.sort(simplices, axis=1)
    n_points, length = int(corners.max(initial=0)) + 1, corners.shape[1]
    keys = [
        (corners[:, i] * n_points + corners[:, j])[corners[:, i] != INFINITY]
        for i in range(length)
        for j in range(i + 1, length)
    ]
    merged = np.concatenate(keys)
    merged.sort()
    is_new = np.ones(len(merged), dtype=np.bool_)
    np.not_equal(merged[1:], merged[:-1], out=is_new[1:])
    return np.stack(np.divmod(merged[is_new], n_points), axis=1)


def _are_whole(hull: HullFacets) -> BoolArray:
    """Which simplices are facets by themselves, not parts of one."""
    return np.asarray(np.bincount(hull.faces)[hull.faces] == 1)


def _cut_faces(
    hull: HullFacets, is_whole: BoolArray
) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
    """Return the corners of each facet that was cut, and for each corner those facets."""
    n_points = int(hull.corners.max()) + 1
    corners = hull.corners[~is_whole]
    keys = hull.faces[~is_whole, None] * n_points + corners
    pairs = np.divmod(np.unique(keys[corners != INFINITY]), n_points)
    members: dict[int, set[int]] = {}
    through: dict[int, set[int]] = {}
    for face, corner in zip(*(part.tolist() for part in pairs), strict=True):
        members.setdefault(face, set()).add(corner)
        through.setdefault(corner, set()).add(face)
    return members, through


def _meet_in(members: dict[int, set[int]], faces: set[int], n: int) -> bool:
    """Tell whether some facets have no more than `n` corners in common, which they have."""
    common: set[int] | None = None
    for face in sorted(faces, key=lambda face: len(members[face])):
        common = members[face] if common is None else common & members[face]
        if len(common) == n:
            return True
    return False


def _facets(
    given: _CorePoints, exact: Callable[[], WideArray], *, is_upper: bool
) -> HullFacets | None:
    """Insert all points; `exact` gives what has to span space, if floats see no simplex."""
    library, dim = core(), given.dim
    memory = Memory(library.hm_hull_size(byref(given)), is_cleared=False)
    room = _FIRST_ROOM * given.n + dim + 1
    facets = Memory(library.hm_hull_facets_size(dim, room), is_cleared=False)
    begin = memory.address, byref(given), is_upper
    if not library.hm_hull_begin(*begin, None, facets.address, room):
        start = _independent(exact())
        if start is None:
            return None
        library.hm_hull_begin(*begin, address(start), facets.address, room)
    while status := library.hm_hull_run(memory.address, dim, _CHUNK):
        if status == _NEEDS_ROOM:
            room *= 2
            larger = Memory(library.hm_hull_facets_size(dim, room), is_cleared=False)
            library.hm_hull_move(memory.address, dim, larger.address, room)
            facets = larger
    n_facets = library.hm_hull_n_facets(memory.address, dim)
    corners, faces = np.empty((n_facets, dim), np.int32), np.empty(n_facets, np.int32)
    n_faces = library.hm_hull_finish(memory.address, dim, address(corners), address(faces))
    return HullFacets(corners.astype(np.int64), faces.astype(np.int64), n_faces)


def _independent(points: WideArray) -> IntArray | None:
    """Return affinely independent points that span a full-dimensional simplex, if there are any."""
    dim = points.shape[1]
    differences = [tuple(row) for row in (points[1:] - points[0]).tolist()]
    basis, _ = independent_rows(differences, dim)
    if len(basis) < dim:
        return None
    return np.array([0, *(i + 1 for i in basis)], dtype=np.int32)
