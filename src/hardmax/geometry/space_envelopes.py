r"""All cells of a maximum of affine forms in three or four dimensions, exactly.

The forms $f_j(x) = \langle a_j, x\rangle + c_j$ correspond to points $(a_j, c_j)$. The vertices of
the upper hull of these points are the forms that win on an open set, its edges are the walls
between two cells, and its facets are the vertices of cells: the corners of a facet are the forms
that tie there. Vertical facets are the extreme rays of unbounded cells. `planar_envelopes` does the
same in the plane.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hardmax.exact.integer_vectors import Vector, dot, null_space
from hardmax.geometry.convex_hulls import (
    INFINITY,
    HullFacets,
    LiftedRows,
    distinct,
    extreme_corners,
    float_points,
    hull_edges,
    hull_facets,
    lifted_rows,
    meeting_points,
)
from hardmax.geometry.descriptions import negate, round_points
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray

DIMENSIONS = range(3, 5)
"""The dimensions that `space_envelope` supports."""


@dataclass(frozen=True, eq=False)
class Ties:
    """The points, or the directions at infinity, where forms tie.

    Attributes:
        starts: Offsets into `forms`: tie `k` has the entries `starts[k]` to `starts[k + 1]`.
        forms: For each tie, the forms that win there, in ascending order.
        simplices: For each tie, a minimal selection of these forms that determines it.
    """

    starts: IntArray
    forms: IntArray
    simplices: IntArray

    def among(self, k: int, forms: list[int]) -> list[int]:
        """Return the positions in `forms`, which is ascending, of the forms that win at tie `k`."""
        tied = self.forms[self.starts[k] : self.starts[k + 1]]
        if len(tied) <= len(forms):
            wanted = set(tied.tolist())
            return [place for place, form in enumerate(forms) if form in wanted]
        places = np.minimum(np.searchsorted(tied, forms), len(tied) - 1)
        found: list[int] = np.flatnonzero(tied[places] == forms).tolist()
        return found


class Surroundings(NamedTuple):
    """For each site, its neighbours, vertices and ray directions, in ascending order."""

    neighbours: list[list[int]]
    points: list[list[int]]
    directions: list[list[int]]


@dataclass(frozen=True, eq=False)
class SpaceEnvelope:
    r"""The cells of $\max_j \langle a_j, x\rangle + c_j$, with walls, vertices and rays.

    Attributes:
        rows: The vectors $(a_j, c_j)$ as integers on one common scale, shape `(n_forms, dim + 1)`.
        sites: The forms that win on an open set, in ascending order. Of equal forms, the first is
            listed.
        lifted: The rows of these forms for the core.
        pairs: The pairs `i < j` of forms whose cells share a wall, sorted, shape `(n_pairs, 2)`.
        points: The vertices of the cells, sorted by the forms that tie there.
        directions: The directions of the extreme rays of the cells, sorted likewise.
    """

    rows: WideArray
    sites: IntArray
    lifted: LiftedRows
    pairs: IntArray
    points: Ties
    directions: Ties

    @cached_property
    def vertices(self) -> FloatArray:
        """The vertices, correctly rounded, shape `(n_vertices, dim)`."""
        found = meeting_points(self.lifted, np.searchsorted(self.sites, self.points.simplices))
        for k in np.flatnonzero(np.isnan(found).any(axis=1)).tolist():
            found[k] = round_points([self.exact_vertex(k)], found.shape[1])[0]
        return found

    def exact_vertex(self, k: int) -> Vector:
        r"""Return vertex `k` as integers $(t x, t)$, $t > 0$, without a common divisor."""
        if k not in self._exact_vertices:
            rows = self.rows[self.points.simplices[k]]
            differences = [tuple(row) for row in (rows[1:] - rows[0]).tolist()]
            (normal,) = null_space(differences, rows.shape[1])
            self._exact_vertices[k] = normal if normal[-1] > 0 else negate(normal)
        return self._exact_vertices[k]

    def exact_direction(self, k: int) -> Vector:
        """Return the direction of ray `k` as integers without a common divisor."""
        if k not in self._exact_directions:
            self._exact_directions[k] = self._direction(k)
        return self._exact_directions[k]

    def _direction(self, k: int) -> Vector:
        slopes = self.rows[:, :-1]
        on = self.directions.simplices[k].tolist()
        (normal,) = null_space(
            [tuple(row) for row in (slopes[on[1:]] - slopes[on[0]]).tolist()], slopes.shape[1]
        )
        reach = dot(normal, tuple(slopes[on[0]].tolist()))
        for j in self.sites.tolist():
            height = dot(normal, tuple(slopes[j].tolist()))
            if height != reach:
                return normal if height < reach else negate(normal)
        raise AssertionError("all slopes lie in one hyperplane.")

    @cached_property
    def _exact_vertices(self) -> dict[int, Vector]:
        """The exact vertices computed so far."""
        return {}

    @cached_property
    def _exact_directions(self) -> dict[int, Vector]:
        return {}

    @cached_property
    def surroundings(self) -> Surroundings:
        """The neighbours, vertices and rays of each cell."""
        both = np.concatenate([self.pairs, self.pairs[:, ::-1]])
        return Surroundings(
            _group_values(both[:, 0], both[:, 1], self.sites),
            _group_values(self.points.forms, _list_tie_indices(self.points), self.sites),
            _group_values(self.directions.forms, _list_tie_indices(self.directions), self.sites),
        )


def space_envelope(rows: WideArray, floats: FloatArray | None = None) -> SpaceEnvelope | None:
    r"""Find all cells of $\max_j \langle a_j, x\rangle + c_j$ in three or four dimensions.

    Forms may be repeated, any number may tie at a point, and some may win nowhere.

    Args:
        rows: The vectors $(a_j, c_j)$ as integers on one common scale, shape `(n_forms, dim + 1)`
            with `dim` in `DIMENSIONS`.
        floats: The same numbers without that scale, if they are float64 numbers. The integers are
            then used only for forms that win.

    Returns:
        The cells, or `None` if the $a_j$ lie in a hyperplane or there are too many vertices.

    Examples:
        The cells of the eight corners of a cube meet at one vertex.

        >>> signs = [[x, y, z] for x in (1, -1) for y in (1, -1) for z in (1, -1)]
        >>> rows = np.array([[*s, 0] for s in [*signs, [0, 0, 0]]], dtype=object)
        >>> found = space_envelope(rows)
        >>> found.sites.tolist(), len(found.pairs), found.vertices.tolist()
        ([0, 1, 2, 3, 4, 5, 6, 7], 12, [[0.0, 0.0, 0.0]])
        >>> [found.exact_direction(k) for k in range(2)]
        [(1, 0, 0), (0, 1, 0)]
    """
    is_fan = bool((rows[:, -1] == rows[0, -1]).all())
    # If all offsets are equal, the upper hull is a single facet: the convex hull of the slopes.
    n_columns = rows.shape[1] - is_fan
    points = None if floats is None else np.ascontiguousarray(floats[:, :n_columns])
    found = _compute_hull(rows[:, :n_columns], points, is_upper=not is_fan)
    if found is None:
        return None
    sites, hull = found
    lifted = lifted_rows(rows[sites])
    if is_fan:
        whole = np.ones(len(hull.faces), dtype=np.bool_)
        return SpaceEnvelope(
            rows,
            sites,
            lifted,
            hull_edges(hull),
            _find_apex(sites, hull),
            _collect_ties(hull, whole),
        )
    is_vertical = (hull.corners == INFINITY).any(axis=1)
    return SpaceEnvelope(
        rows,
        sites,
        lifted,
        hull_edges(hull),
        _collect_ties(hull, ~is_vertical),
        _collect_ties(hull, is_vertical),
    )


def _compute_hull(
    rows: WideArray, floats: FloatArray | None, *, is_upper: bool
) -> tuple[IntArray, HullFacets] | None:
    """Return the vertices of a hull, and its facets cut into simplices with only these corners."""
    spanning = rows[:, : rows.shape[1] - is_upper]
    if floats is None:
        lifted = lifted_rows(rows)
        hull = hull_facets(lifted.for_core, spanning, is_upper=is_upper)
    else:
        hull = hull_facets(float_points(floats), spanning, is_upper=is_upper)
    if hull is None:
        return None
    sites = extreme_corners(hull)
    if np.unique(hull.corners).size == len(sites) + is_upper:
        return sites, hull
    # Some corners lie on faces. Compute the hull again without them.
    lifted = lifted_rows(rows[sites])
    again = hull_facets(lifted.for_core, spanning[sites], is_upper=is_upper)
    assert again is not None
    corners = np.where(again.corners == INFINITY, INFINITY, sites[again.corners])
    return sites, HullFacets(corners, again.faces, again.n_faces)


def _find_apex(sites: IntArray, hull: HullFacets) -> Ties:
    """Return the apex of a fan as a tie, determined by a facet of the hull and a site off it."""
    facet = hull.corners[hull.faces == hull.faces[0]]
    beside = np.setdiff1d(sites, facet)[:1]
    return Ties(np.array([0, len(sites)]), sites, np.append(facet[0], beside)[None])


def _collect_ties(hull: HullFacets, chosen: BoolArray) -> Ties:
    """Collect facets from their simplices; all of them contain `INFINITY`, or none does."""
    corners, faces = np.sort(hull.corners[chosen], axis=1), hull.faces[chosen]
    if len(corners) and corners[0, 0] == INFINITY:
        corners = corners[:, 1:]
    n, length = corners.shape
    order = np.argsort(faces, kind="stable")
    is_first = np.ones(n, dtype=np.bool_)
    is_first[1:] = np.diff(faces[order]) != 0
    if is_first.all():
        simplices = corners[_order_lexicographically(corners)]
        return Ties(np.arange(n + 1) * length, simplices.ravel(), simplices)
    numbers = np.empty(n, dtype=np.int64)
    numbers[order] = np.cumsum(is_first) - 1
    n_points = int(corners.max()) + 1
    face, form = np.divmod(distinct((numbers[:, None] * n_points + corners).ravel()), n_points)
    ends = np.cumsum(np.bincount(face)).tolist()
    forms = form.tolist()
    lists = [forms[start:end] for start, end in pairwise([0, *ends])]
    ranked = sorted(range(len(lists)), key=lists.__getitem__)
    starts = np.cumsum([0, *(len(lists[k]) for k in ranked)])
    members = np.array([j for k in ranked for j in lists[k]], dtype=np.int64)
    return Ties(starts, members, corners[order[is_first]][ranked])


def _order_lexicographically(rows: IntArray) -> IntArray:
    """Return the order that sorts rows of nonnegative integers lexicographically."""
    if not rows.size:
        return np.arange(len(rows))
    n, length = int(rows.max()) + 1, rows.shape[1]
    if n**length >= 2**62:
        return np.lexsort(rows.T[::-1])
    return np.argsort(rows @ n ** np.arange(length)[::-1], kind="stable")


def _list_tie_indices(ties: Ties) -> IntArray:
    """Return, for each entry of `forms`, the index of its tie."""
    return np.repeat(np.arange(len(ties.starts) - 1), np.diff(ties.starts))


def _group_values(keys: IntArray, values: IntArray, names: IntArray) -> list[list[int]]:
    """List the values for each of the given keys in ascending order; omit other keys."""
    order = np.lexsort((values, keys))
    ends = np.searchsorted(keys[order], [names, names + 1]).T.tolist()
    listed = values[order].tolist()
    return [listed[start:end] for start, end in ends]
