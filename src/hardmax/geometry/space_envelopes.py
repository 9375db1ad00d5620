r"""Where each of many affine forms is largest on a space of 3 or 4 dimensions, exactly.

The forms $f_j(x) = \langle a_j, x\rangle + c_j$ as points $(a_j, c_j)$ have an upper hull: its
vertices are the forms that win on an open set, its edges the walls between two cells, its facets
the vertices of the cells, where as many forms are equal as the facet has corners. Vertical facets
are the directions in which cells are unbounded. `planar_envelopes` does the same in the plane.
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
from hardmax.geometry.descriptions import negative, rounded_points
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray

DIMENSIONS = range(3, 5)
"""The spaces whose envelopes are found like this."""


@dataclass(frozen=True, eq=False)
class Ties:
    """Where forms are equal: in points, or in directions far out.

    Attributes:
        starts: Tie `k` has the entries `starts[k]` to `starts[k + 1]` of `forms`.
        forms: The forms that win there, ascending.
        simplices: For each tie as few of them as determine it.
    """

    starts: IntArray
    forms: IntArray
    simplices: IntArray

    def among(self, k: int, forms: list[int]) -> list[int]:
        """Return the places of those of some forms, ascending, that win at tie `k`."""
        tied = self.forms[self.starts[k] : self.starts[k + 1]]
        if len(tied) <= len(forms):
            wanted = set(tied.tolist())
            return [place for place, form in enumerate(forms) if form in wanted]
        places = np.minimum(np.searchsorted(tied, forms), len(tied) - 1)
        found: list[int] = np.flatnonzero(tied[places] == forms).tolist()
        return found


class Surroundings(NamedTuple):
    """For each site its neighbours, its vertices and its directions, all ascending."""

    neighbours: list[list[int]]
    points: list[list[int]]
    directions: list[list[int]]


@dataclass(frozen=True, eq=False)
class SpaceEnvelope:
    r"""The cells of $\max_j \langle a_j, x\rangle + c_j$, and how they meet.

    Attributes:
        rows: The $(a_j, c_j)$ as integers on one common scale, shape `(n_forms, dim + 1)`.
        sites: The forms that win on an open set, ascending; of equal forms the first.
        lifted: Their rows for the core.
        pairs: The pairs `i < j` of forms whose cells share a wall, sorted: shape `(n_pairs, 2)`.
        points: The vertices of the cells, ordered by the forms that are equal there.
        directions: The directions of extreme rays, likewise.
    """

    rows: WideArray
    sites: IntArray
    lifted: LiftedRows
    pairs: IntArray
    points: Ties
    directions: Ties

    @cached_property
    def vertices(self) -> FloatArray:
        """The vertices, correctly rounded: shape `(n_vertices, dim)`."""
        found = meeting_points(self.lifted, np.searchsorted(self.sites, self.points.simplices))
        for k in np.flatnonzero(np.isnan(found).any(axis=1)).tolist():
            found[k] = rounded_points([self.exact_vertex(k)], found.shape[1])[0]
        return found

    def exact_vertex(self, k: int) -> Vector:
        r"""Return vertex `k` as integers $(t x, t)$, $t > 0$, without a common divisor."""
        if k not in self._exact_vertices:
            rows = self.rows[self.points.simplices[k]]
            differences = [tuple(row) for row in (rows[1:] - rows[0]).tolist()]
            (normal,) = null_space(differences, rows.shape[1])
            self._exact_vertices[k] = normal if normal[-1] > 0 else negative(normal)
        return self._exact_vertices[k]

    def exact_direction(self, k: int) -> Vector:
        """Return the direction of ray `k`, integers without a common divisor."""
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
                return normal if height < reach else negative(normal)
        raise AssertionError("all slopes lie in one hyperplane.")

    @cached_property
    def _exact_vertices(self) -> dict[int, Vector]:
        """Those that somebody asked for."""
        return {}

    @cached_property
    def _exact_directions(self) -> dict[int, Vector]:
        return {}

    @cached_property
    def around(self) -> Surroundings:
        """What each cell is bounded by."""
        both = np.concatenate([self.pairs, self.pairs[:, ::-1]])
        return Surroundings(
            _grouped(both[:, 0], both[:, 1], self.sites),
            _grouped(self.points.forms, _numbers(self.points), self.sites),
            _grouped(self.directions.forms, _numbers(self.directions), self.sites),
        )


def space_envelope(rows: WideArray, floats: FloatArray | None = None) -> SpaceEnvelope | None:
    r"""Find all cells of $\max_j \langle a_j, x\rangle + c_j$.

    Forms may repeat, tie in any number, or win nowhere.

    Args:
        rows: The $(a_j, c_j)$, integers on one common scale, shape `(n_forms, dim + 1)` with `dim`
            in `DIMENSIONS`.
        floats: The same numbers, without that scale, if they are float64: then integers are only
            looked at for forms that win.

    Returns:
        `None` if the $a_j$ lie in a hyperplane, or if there are too many vertices.

    Examples:
        Eight sites at the corners of a cube meet in one vertex.

        >>> signs = [[x, y, z] for x in (1, -1) for y in (1, -1) for z in (1, -1)]
        >>> rows = np.array([[*s, 0] for s in [*signs, [0, 0, 0]]], dtype=object)
        >>> found = space_envelope(rows)
        >>> found.sites.tolist(), len(found.pairs), found.vertices.tolist()
        ([0, 1, 2, 3, 4, 5, 6, 7], 12, [[0.0, 0.0, 0.0]])
        >>> [found.exact_direction(k) for k in range(2)]
        [(1, 0, 0), (0, 1, 0)]
    """
    is_fan = bool((rows[:, -1] == rows[0, -1]).all())
    # Without offsets the upper hull is one face, and what bounds it is the hull of the slopes.
    n_columns = rows.shape[1] - is_fan
    points = None if floats is None else np.ascontiguousarray(floats[:, :n_columns])
    found = _proper_hull(rows[:, :n_columns], points, is_upper=not is_fan)
    if found is None:
        return None
    sites, hull = found
    lifted = lifted_rows(rows[sites])
    if is_fan:
        whole = np.ones(len(hull.faces), dtype=np.bool_)
        return SpaceEnvelope(
            rows, sites, lifted, hull_edges(hull), _apex(sites, hull), _ties(hull, whole)
        )
    is_vertical = (hull.corners == INFINITY).any(axis=1)
    return SpaceEnvelope(
        rows, sites, lifted, hull_edges(hull), _ties(hull, ~is_vertical), _ties(hull, is_vertical)
    )


def _proper_hull(
    rows: WideArray, floats: FloatArray | None, *, is_upper: bool
) -> tuple[IntArray, HullFacets] | None:
    """Return the vertices of a hull, and its facets cut into simplices without other corners."""
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
    # Some corners lie on faces: once more, without them.
    lifted = lifted_rows(rows[sites])
    again = hull_facets(lifted.for_core, spanning[sites], is_upper=is_upper)
    assert again is not None
    corners = np.where(again.corners == INFINITY, INFINITY, sites[again.corners])
    return sites, HullFacets(corners, again.faces, again.n_faces)


def _apex(sites: IntArray, hull: HullFacets) -> Ties:
    """Return the one vertex of a fan, with the corners of a facet and a site beside it."""
    facet = hull.corners[hull.faces == hull.faces[0]]
    beside = np.setdiff1d(sites, facet)[:1]
    return Ties(np.array([0, len(sites)]), sites, np.append(facet[0], beside)[None])


def _ties(hull: HullFacets, chosen: BoolArray) -> Ties:
    """Gather facets from their simplices, all with the corner at infinity or all without."""
    corners, faces = np.sort(hull.corners[chosen], axis=1), hull.faces[chosen]
    if len(corners) and corners[0, 0] == INFINITY:
        corners = corners[:, 1:]
    n, length = corners.shape
    order = np.argsort(faces, kind="stable")
    is_first = np.ones(n, dtype=np.bool_)
    is_first[1:] = np.diff(faces[order]) != 0
    if is_first.all():
        simplices = corners[_lexicographic(corners)]
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


def _lexicographic(rows: IntArray) -> IntArray:
    """Return the order that sorts rows of numbers that are not negative."""
    if not rows.size:
        return np.arange(len(rows))
    n, length = int(rows.max()) + 1, rows.shape[1]
    if n**length >= 2**62:
        return np.lexsort(rows.T[::-1])
    return np.argsort(rows @ n ** np.arange(length)[::-1], kind="stable")


def _numbers(ties: Ties) -> IntArray:
    """Return for each entry of `forms` the tie it belongs to."""
    return np.repeat(np.arange(len(ties.starts) - 1), np.diff(ties.starts))


def _grouped(keys: IntArray, values: IntArray, names: IntArray) -> list[list[int]]:
    """List the values of each name, ascending; values with other keys are left out."""
    order = np.lexsort((values, keys))
    ends = np.searchsorted(keys[order], [names, names + 1]).T.tolist()
    listed = values[order].tolist()
    return [listed[start:end] for start, end in ends]
