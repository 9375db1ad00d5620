r"""The facets of a convex hull in three to five dimensions, exactly.

The compiled core inserts the points one at a time. Signs come from floats with a proven error bound
or from integers of arbitrary length. Facets that are not simplices are cut into simplices, and each
simplex records its facet. An upper hull has one additional corner, `INFINITY`, which lies at
infinity below all points.
"""

from collections.abc import Callable
from ctypes import Structure, byref, c_int32, c_void_p
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import MemoryBlock, address
from hardmax._ground.arguments import prepare_array
from hardmax.exact.dyadic import scaled_integers
from hardmax.exact.integer_vectors import independent_rows
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray

DIMENSIONS = range(3, 6)
"""The dimensions in which hulls are computed."""
INFINITY = -1
_CHUNK = 2_000
"""Number of points inserted per call of the core. Interrupts are handled between calls."""
_INITIAL_FACETS = 8
"""Initial capacity in facets, for each point."""
_MOST_FACETS, _MOST_PER_POINT = 2**20, 64
"""A hull with more facets than both limits is given up. Random sites in four dimensions have 27
facets per site."""
_NEEDS_ROOM = 2
_SPARE_BITS = 3
_LIMB = 64


class CorePoints(Structure):
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
        corners: The corners of each simplex, shape `(n_simplices, dim)`: indices of points (of
            equal points, the first) or `INFINITY`.
        faces: For each simplex, the index of its facet, shape `(n_simplices,)`.
        n_faces: The number of facets.
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
        last: The $c_j$ in limbs, on a separate scale, shape `(n_rows, n_limbs)`.
        exponent: The scale of `last` is two to this power times the scale of `columns`.
    """

    rows: WideArray
    columns: IntArray
    last: IntArray
    exponent: int

    @property
    def for_core(self) -> CorePoints:
        """The addresses of the arrays, which are valid as long as this object lives."""
        n_limbs, n_last = self.columns.shape[-1], self.last.shape[-1]
        places = address(self.columns), address(self.last), None
        return CorePoints(*self.rows.shape, n_limbs, n_last, *places)


def lifted_rows(rows: WideArray) -> LiftedRows:
    """Write integer rows for the core, shape `(n_rows, dim)`."""
    columns, shift = limbs(rows[:, :-1])
    last, last_shift = limbs(rows[:, -1])
    return LiftedRows(rows, columns, last, last_shift - shift)


def float_points(points: FloatArray) -> CorePoints:
    """Describe points for the core; the contiguous array `(n_points, dim)` must be kept alive."""
    return CorePoints(*points.shape, 0, 0, None, None, address(points))


def convex_hull(points: FloatArray) -> HullFacets | None:
    r"""Find the facets of the convex hull of points.

    Points may be repeated, lie on faces of the hull, or differ only in the last bit.

    Args:
        points: Finite, shape `(n_points, dim)` with `dim` in `DIMENSIONS`.

    Returns:
        The facets, or `None` if all points lie in a hyperplane or there are too many facets.

    References:
        [BDH96].

    Examples:
        A cube has six facets; its centre is not a corner.

        >>> cube = np.array([[x, y, z] for x in (0.0, 1) for y in (0, 1) for z in (0, 1)])
        >>> hull = convex_hull(np.concatenate([[[0.5, 0.5, 0.5]], cube]))
        >>> hull.n_faces, len(hull.corners), np.unique(hull.corners).tolist()
        (6, 12, [1, 2, 3, 4, 5, 6, 7, 8])
    """
    floats = prepare_array(points)
    exact = partial(_to_integers, floats)
    return _list_facets(run_hull(float_points(floats), exact, is_upper=False), floats.shape[1])


def hull_facets(given: CorePoints, spanning: WideArray, *, is_upper: bool) -> HullFacets | None:
    r"""Find the facets of the convex hull, or of the upper hull, of points.

    In an upper hull, simplices with the corner `INFINITY` are vertical; those in one vertical
    hyperplane are one facet.

    Args:
        given: The points, whose arrays must be kept alive.
        spanning: The integer rows that must span the space: the points, or for an upper hull the
            points without their last column.
        is_upper: Whether to compute the upper hull.

    Returns:
        The facets, or `None` if all rows lie in a hyperplane or there are too many facets.

    Examples:
        >>> rows = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 5]], dtype=object)
        >>> given = lifted_rows(rows)
        >>> hull = hull_facets(given.for_core, rows[:, :-1], is_upper=True)
        >>> np.sort(hull.corners[(hull.corners != INFINITY).all(axis=1)]).tolist()
        [[0, 1, 3], [0, 2, 3]]
    """
    return _list_facets(run_hull(given, lambda: spanning, is_upper=is_upper), given.dim)


def meeting_points(lifted: LiftedRows, corners: IntArray) -> FloatArray:
    r"""Find the points where the forms $\langle a_j, x\rangle + c_j$ of each row of corners tie.

    Args:
        lifted: The vectors $(a_j, c_j)$, with `dim` columns.
        corners: Indices of forms, shape `(n_points, dim)`. The $a_j$ of each row are affinely
            independent.

    Returns:
        The points, rounded to the nearest float64, shape `(n_points, dim - 1)`; NaN where rounding
        needs more than about 100 bits.
    """
    given = lifted.for_core
    library = core()
    memory = MemoryBlock(library.hm_hull_size(byref(given)), is_cleared=False)
    names = prepare_array(corners, np.int32)
    points = np.empty((len(names), given.dim - 1))
    for start in range(0, len(names), 10 * _CHUNK):
        part, found = names[start : start + 10 * _CHUNK], points[start : start + 10 * _CHUNK]
        library.hm_hull_vertices(
            memory.address, byref(given), address(part), len(part), lifted.exponent, address(found)
        )
    return points


def extreme_corners(hull: HullFacets) -> IntArray:
    """Return the vertices of the hull among the corners of simplices, in ascending order.

    The facets through a point intersect in the face of the hull that contains the point in its
    relative interior. If that face is more than the point itself, it has other vertices, and these
    are corners of all facets through the point.

    Examples:
        >>> square = np.array([[x, y, 0.0] for x in (0, 2) for y in (0, 2)])
        >>> hull = convex_hull(np.concatenate([[[0.0, 1, 0]], square, [[1.0, 1, 1]]]))
        >>> extreme_corners(hull).tolist()
        [1, 2, 3, 4, 5]
    """
    is_whole = _are_whole_facets(hull)
    is_corner = np.zeros(int(hull.corners.max()) + 2, dtype=np.bool_)
    is_corner[hull.corners] = True
    is_corner[INFINITY] = False
    if is_whole.all():
        return np.flatnonzero(is_corner)
    # All corners of a facet that is a simplex are vertices.
    is_proper = np.zeros(len(is_corner), dtype=np.bool_)
    is_proper[hull.corners[is_whole]] = True
    members, through = _cut_faces(hull, is_whole)
    for v in np.flatnonzero(is_corner & ~is_proper).tolist():
        is_corner[v] = _have_n_common(members, through[v], 1)
    return np.flatnonzero(is_corner)


def hull_edges(hull: HullFacets) -> IntArray:
    """Return the edges of a hull all of whose corners are vertices.

    Two vertices are joined by an edge if no other vertex lies in all their common facets. The ends
    of an edge are corners of one simplex, since no corner lies between them.

    Args:
        hull: The hull. Edges of an upper hull to `INFINITY` are omitted.

    Returns:
        The pairs `i < j`, sorted, shape `(n_edges, 2)`.

    Examples:
        >>> cube = np.array([[x, y, z] for x in (0.0, 1) for y in (0, 1) for z in (0, 1)])
        >>> len(hull_edges(convex_hull(cube)))
        12
    """
    is_whole = _are_whole_facets(hull)
    n_points = int(hull.corners.max()) + 1
    keys = _pairs_of_corners(hull.corners, n_points)
    pairs = np.stack(np.divmod(keys, n_points), axis=1)
    if is_whole.all():
        return pairs
    # All pairs of corners of a facet that is a simplex are edges. For other pairs, all common
    # facets were cut into simplices, and an edge lies in at least dim - 1 of these facets.
    is_edge = np.isin(keys, _pairs_of_corners(hull.corners[is_whole], n_points), kind="sort")
    members, through = _cut_faces(hull, is_whole)
    least, nothing = hull.corners.shape[1] - 1, set[int]()
    for k in np.flatnonzero(~is_edge).tolist():
        i, j = pairs[k].tolist()
        shared = through.get(i, nothing) & through.get(j, nothing)
        is_edge[k] = len(shared) >= least and _have_n_common(members, shared, 2)
    return pairs[is_edge]


def distinct(numbers: IntArray) -> IntArray:
    """Return the distinct numbers in ascending order; the given array is sorted in place."""
    numbers.sort()
    is_new = np.ones(len(numbers), dtype=np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=is_new[1:])
    return numbers[is_new]


def _pairs_of_corners(simplices: IntArray, n_points: int) -> IntArray:
    """Return `i * n_points + j` for all `i < j` in one simplex, ascending, without `INFINITY`."""
    corners = np.sort(simplices, axis=1)
    length = corners.shape[1]
    keys = [
        (corners[:, i] * n_points + corners[:, j])[corners[:, i] != INFINITY]
        for i in range(length)
        for j in range(i + 1, length)
    ]
    return distinct(np.concatenate(keys))


def _are_whole_facets(hull: HullFacets) -> BoolArray:
    """Tell which simplices are whole facets rather than parts of one."""
    return np.asarray(np.bincount(hull.faces)[hull.faces] == 1)


def _cut_faces(
    hull: HullFacets, is_whole: BoolArray
) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
    """Return the corners of each facet that was cut, and for each corner the cut facets on it."""
    n_points = int(hull.corners.max()) + 1
    corners = hull.corners[~is_whole]
    keys = hull.faces[~is_whole, None] * n_points + corners
    pairs = np.divmod(distinct(keys[corners != INFINITY]), n_points)
    members: dict[int, set[int]] = {}
    through: dict[int, set[int]] = {}
    for face, corner in zip(*(part.tolist() for part in pairs), strict=True):
        members.setdefault(face, set()).add(corner)
        through.setdefault(corner, set()).add(face)
    return members, through


def _have_n_common(members: dict[int, set[int]], faces: set[int], n: int) -> bool:
    """Tell whether facets have exactly `n` common corners, given that they have at least `n`."""
    common: set[int] | None = None
    for face in sorted(faces, key=lambda face: len(members[face])):
        common = members[face] if common is None else common & members[face]
        if len(common) == n:
            return True
    return False


def limbs(integers: WideArray) -> tuple[IntArray, int]:
    """Convert integers to limbs for the core, after division by their common power of two.

    Returns:
        64-bit limbs in two's complement, lowest first, along a new last axis; and the exponent of
        that power of two.

    Examples:
        >>> limbs(np.array([8, -4, 2**64 * 4], dtype=object))[0].tolist()
        [[2, 0], [-1, -1], [0, 1]]
    """
    union = int(np.bitwise_or.reduce(integers, axis=None))
    shift = max((union & -union).bit_length() - 1, 0)
    short = integers >> shift if shift else integers
    bits = max(int(short.max()).bit_length(), int(short.min()).bit_length()) + _SPARE_BITS
    if bits <= _LIMB:
        return short.astype(np.int64)[..., None], shift
    n_bytes = -(-bits // _LIMB) * 8
    entries = short.ravel().tolist()
    packed = b"".join([entry.to_bytes(n_bytes, "little", signed=True) for entry in entries])
    return np.frombuffer(packed, dtype=np.int64).reshape(*integers.shape, n_bytes // 8), shift


class CoreHull(NamedTuple):
    """A finished hull in the core.

    Attributes:
        address: The address of the hull.
        memory: The memory of the hull and of its facets.
    """

    address: int
    memory: tuple[MemoryBlock, MemoryBlock]


def run_hull(
    given: CorePoints, exact: Callable[[], WideArray], *, is_upper: bool
) -> CoreHull | None:
    """Insert all points; return `None` if they do not span the space or have too many facets.

    Args:
        given: The points, whose arrays must be kept alive.
        exact: Returns the integer rows that must span the space; called if floats find no simplex.
        is_upper: Whether to compute the upper hull.
    """
    library, dim = core(), given.dim
    memory = MemoryBlock(library.hm_hull_size(byref(given)), is_cleared=False)
    capacity = _INITIAL_FACETS * given.n + dim + 1
    facets = MemoryBlock(library.hm_hull_facets_size(dim, capacity), is_cleared=False)
    begin = memory.address, byref(given), is_upper
    if not library.hm_hull_begin(*begin, None, facets.address, capacity):
        start = _select_independent(exact())
        if start is None:
            return None
        library.hm_hull_begin(*begin, address(start), facets.address, capacity)
    while status := library.hm_hull_run(memory.address, dim, _CHUNK):
        if status == _NEEDS_ROOM:
            if capacity > max(_MOST_FACETS, _MOST_PER_POINT * given.n):
                return None
            capacity *= 2
            larger = MemoryBlock(library.hm_hull_facets_size(dim, capacity), is_cleared=False)
            library.hm_hull_move(memory.address, dim, larger.address, capacity)
            facets = larger
    return CoreHull(memory.address, (memory, facets))


def _list_facets(hull: CoreHull | None, dim: int) -> HullFacets | None:
    if hull is None:
        return None
    library = core()
    n_facets = library.hm_hull_n_facets(hull.address, dim)
    corners, faces = np.empty((n_facets, dim), np.int32), np.empty(n_facets, np.int32)
    n_faces = library.hm_hull_finish(hull.address, dim, address(corners), address(faces))
    return HullFacets(corners.astype(np.int64), faces.astype(np.int64), n_faces)


def _to_integers(points: FloatArray) -> WideArray:
    return scaled_integers(points).integers


def _select_independent(points: WideArray) -> IntArray | None:
    """Return affinely independent points that span a full-dimensional simplex, if there are any."""
    dim = points.shape[1]
    differences = [tuple(row) for row in (points[1:] - points[0]).tolist()]
    basis, _ = independent_rows(differences, dim)
    if len(basis) < dim:
        return None
    return np.array([0, *(i + 1 for i in basis)], dtype=np.int32)
