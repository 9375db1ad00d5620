r"""The vertices and edges of each point set, as rows of one table that a search can use.

A direction $u$ selects the point $p_i$ of a set if $\langle u, p_i - p_j \rangle > 0$ for all other
points. Only vertices of the convex hull are ever selected, and only the rows for neighbours in the
vertex graph of the hull matter. This module finds both with proofs: it drops a point only if the
point is provably not a vertex, and a row only if other rows provably imply it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import fmpz_mat

from hardmax.errors import SizeLimitError
from hardmax.geometry._hulls.hull_searches import CLAIMED, NO, OPEN, YES, hull_edges, hull_vertices
from hardmax.geometry._joint_argmax.fans import Fan
from hardmax.geometry._joint_argmax.head_coordinates import (
    HeadCoordinates,
    head_coordinates,
    prove_rank,
    scale_to_unit_length,
    scale_to_unit_size,
)
from hardmax.geometry.cones import decide_open_cone, positive_dependence
from hardmax.geometry.extreme_points import extreme_points
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray

_MAX_TABLE_ENTRIES = 2**27


@dataclass(frozen=True, eq=False)
class VertexGraphs:
    """The vertices and rows of all heads, in floats for the search and exactly for proofs.

    Attributes:
        fan: The rounded rows for the compiled kernel. Its heads are sorted by number of vertices.
        heads: For each head of the fan, the index of its point set, shape `(n_heads,)`.
        vertices: For each vertex of the fan, its index in its point set, shape `(n_vertices,)`.
        owner: For each row, the vertex to which it belongs, or -1 for a base row, shape
            `(n_rows,)`.
        base_rows: The indices of the base rows.
        coordinates: The coordinates of the fan.
        n_rational: The number of decisions made in exact integers.
    """

    fan: Fan
    heads: IntArray
    vertices: IntArray
    owner: IntArray
    base_rows: IntArray
    coordinates: HeadCoordinates
    n_rational: int
    _places: tuple[IntArray, ...]

    @cached_property
    def exact_points(self) -> WideArray:
        """The vertices, shape `(n_vertices, rank)`, each head over its own power of two."""
        parts = [
            self.coordinates.integers(head)[places]
            for head, places in zip(self.heads.tolist(), self._places, strict=True)
        ]
        return np.concatenate(parts)

    def exact_rows(self, numbers: Sequence[int] | IntArray) -> WideArray:
        """Return rows as Python integers, each up to a positive factor."""
        numbers = np.asarray(numbers, np.int64)
        rows = np.empty((numbers.size, self.coordinates.rank), dtype=object)
        n_paired = int(self.fan.first_row[-1])
        paired = numbers < n_paired
        own, other = self.owner[numbers[paired]], self.fan.rival[numbers[paired]]
        if own.size:
            rows[paired] = self.exact_points[own] - self.exact_points[other]
        if own.size < numbers.size:
            rows[~paired] = self.coordinates.base_integers()[numbers[~paired] - n_paired]
        return rows

    def rows_of(self, vertex: int) -> IntArray:
        """Return the indices of the rows of one vertex."""
        return np.arange(self.fan.first_row[vertex], self.fan.first_row[vertex + 1])

    def choices(self, leaves: IntArray) -> IntArray:
        """Convert tuples of vertices to indices of points, in the order of the point sets."""
        choices = np.empty_like(leaves)
        choices[:, self.heads] = self.vertices[leaves]
        return choices

    def leaves(self, choices: IntArray) -> IntArray:
        """Convert tuples of indices of points to vertices."""
        leaves = np.empty_like(choices)
        for level, head in enumerate(self.heads.tolist()):
            start, stop = self.fan.first_vertex[level : level + 2]
            leaves[:, level] = start + np.searchsorted(self.vertices[start:stop], choices[:, head])
        return leaves

    def vertices_by_head(self) -> list[IntArray]:
        """Return, for each point set, the indices of its vertices in order."""
        parts = np.split(self.vertices, self.fan.first_vertex[1:-1])
        return [parts[level] for level in np.argsort(self.heads)]


def vertex_graphs(
    points: Sequence[FloatArray], base: FloatArray, is_exact_only: bool = False
) -> VertexGraphs:
    """Prepare point sets for the search.

    Args:
        points: For each head, its finite points, shape `(n_points, dim)`.
        base: Rows that must have positive products with every direction, shape `(n_base, dim)`.
        is_exact_only: Whether to make all decisions in exact integers. No rows are dropped then.

    Raises:
        SizeLimitError: If the table of pairs of neighbouring vertices would be too large.
    """
    first = [_find_first_indices(head) for head in points]
    distinct = [head[kept] for head, kept in zip(points, first, strict=True)]
    coordinates = head_coordinates(distinct, base)
    hulls = [_Hull(coordinates, h, head, is_exact_only) for h, head in enumerate(distinct)]
    # Small heads first: the search then has few nodes before the last head.
    heads = np.argsort([hull.kept.size for hull in hulls], kind="stable")
    sorted_hulls = [hulls[h] for h in heads]
    fan, owner = _build_table(coordinates, heads.tolist(), sorted_hulls)
    n_paired = int(fan.first_row[-1])
    return VertexGraphs(
        fan,
        heads,
        np.concatenate([first[hull.head][hull.kept] for hull in sorted_hulls]),
        owner,
        np.arange(n_paired, n_paired + base.shape[0]),
        coordinates,
        sum(hull.n_rational for hull in hulls),
        tuple(hull.kept for hull in sorted_hulls),
    )


def _find_first_indices(points: FloatArray) -> IntArray:
    """Return the first index of every distinct point, in order."""
    # Adding 0.0 turns -0.0 into 0.0.
    _, first = np.unique(points + 0.0, axis=0, return_index=True)
    return np.sort(first)


class _Hull:
    """The vertices and the vertex graph of one head.

    Attributes:
        kept: The indices of the vertices among the distinct points, in order.
        graph: Whether two vertices are joined, shape `(n_kept, n_kept)`. It can contain pairs that
            are not edges.
        n_rational: The number of decisions made in exact integers.
    """

    def __init__(
        self, coordinates: HeadCoordinates, head: int, points: FloatArray, is_exact_only: bool
    ) -> None:
        self.head = head
        self.n_rational = 0
        self._coordinates = coordinates
        n_points = points.shape[0]
        self.kept: IntArray
        self.graph: BoolArray
        if is_exact_only:
            self._set_extreme_points(points)
            return
        every = np.arange(n_points)
        rank = prove_rank(coordinates.differences(head, every[1:], 0 * every[1:]))
        if rank == n_points - 1:
            self._set_vertices(
                every
            )  # In a simplex, all points are vertices and all pairs are edges.
            return
        columns = np.arange(coordinates.rank)
        if rank != coordinates.rank:
            # For a flat head, proofs require coordinates in which it is full-dimensional.
            columns = _select_independent_columns(self._exact)
            self.n_rational += 1
        if coordinates.are_exact:
            self._find_vertices(np.ascontiguousarray(coordinates.floats[head][:, columns]))
        else:
            self._set_extreme_points(points)
        if self.kept.size > 2 * columns.size and columns.size > 1:
            self._find_edges(columns)

    def _set_vertices(self, kept: IntArray) -> None:
        _check_table_size(kept.size, kept.size**2 * self._coordinates.rank)
        self.kept = kept
        self.graph = ~np.eye(kept.size, dtype=np.bool_)

    def _set_extreme_points(self, points: FloatArray) -> None:
        self._set_vertices(np.flatnonzero(extreme_points(points)))
        self.n_rational += points.shape[0]

    @cached_property
    def _exact(self) -> WideArray:
        return self._coordinates.integers(self.head)

    def _find_vertices(self, points: FloatArray) -> None:
        verdict, supports = hull_vertices(points)
        for k in np.flatnonzero((verdict == CLAIMED) | (verdict == OPEN)).tolist():
            support = supports[k][supports[k] >= 0]
            others = np.delete(self._exact, k, axis=0)
            is_inside = verdict[k] == CLAIMED and self._hull_contains_origin(
                self._exact[k] - self._exact[support]
            )
            verdict[k] = (
                NO if is_inside or self._hull_contains_origin(self._exact[k] - others) else YES
            )
        self._set_vertices(np.flatnonzero(verdict == YES))

    def _find_edges(self, columns: IntArray) -> None:
        n_kept, rank = self.kept.size, columns.size
        i, j = np.repeat(self.kept, n_kept), np.tile(self.kept, n_kept)
        rows = self._coordinates.differences(self.head, i, j)
        rows = scale_to_unit_size(np.ascontiguousarray(rows[:, columns])).reshape(
            n_kept, n_kept, rank
        )
        if np.count_nonzero(rows.any(axis=2)) < n_kept * (n_kept - 1):
            return  # The scales differ so much that the kept coordinates round to zero.
        found = hull_edges(rows)
        if found is None:
            return
        adjacent, claims = found
        for j, k, *support in claims.tolist():
            corner = self._exact[self.kept[j]]
            signed = [
                self._exact[self.kept[k]] - corner if m == k else corner - self._exact[self.kept[m]]
                for m in support
                if m >= 0
            ]
            is_edge = not self._hull_contains_origin(np.array(signed, dtype=object))
            adjacent[j, k] = adjacent[k, j] = YES if is_edge else NO
        self.graph = adjacent == YES

    def _hull_contains_origin(self, rows: WideArray) -> bool:
        """Decide exactly whether the origin lies in the convex hull of the rows."""
        self.n_rational += 1
        return positive_dependence(rows) is not None or not decide_open_cone(rows).is_open


def _select_independent_columns(points: WideArray) -> IntArray:
    """Return coordinates that determine all differences of the points, exactly."""
    dim = points.shape[1]
    # The Gram matrix has the same kernel, hence the same pivot columns, and is small.
    columns = fmpz_mat((points[1:] - points[0]).T.tolist())
    reduced, _, rank = (columns * columns.transpose()).rref()
    pivots = [next(c for c in range(dim) if reduced[row, c] != 0) for row in range(rank)]
    return np.array(pivots, np.int64)


def _check_table_size(n_vertices: int, n_entries: int) -> None:
    if n_entries > _MAX_TABLE_ENTRIES:
        raise SizeLimitError(
            f"the hulls of `points` have {n_vertices} vertices, and the table of their differences "
            f"would have {n_entries} entries, more than the limit of {_MAX_TABLE_ENTRIES}. Use "
            f"fewer points."
        )


def _build_table(
    coordinates: HeadCoordinates, heads: list[int], hulls: list[_Hull]
) -> tuple[Fan, IntArray]:
    """Build the table of the rows of all heads, vertex by vertex, followed by the base rows."""
    first_vertex = np.cumsum([0, *(hull.kept.size for hull in hulls)])
    n_vertices = int(first_vertex[-1])
    n_paired = sum(int(hull.graph.sum()) for hull in hulls)
    _check_table_size(n_vertices, n_paired * coordinates.rank)
    parts, owners, rivals = [], [], []
    for head, hull, start in zip(heads, hulls, first_vertex, strict=False):
        i, j = np.nonzero(hull.graph)
        parts.append(coordinates.differences(head, hull.kept[i], hull.kept[j]))
        owners.append(i + start)
        rivals.append(j + start)
    base = coordinates.base_rows()
    rows = np.concatenate([*parts, base])
    owner, rival = np.concatenate(owners), np.concatenate(rivals)
    reverse = np.searchsorted(owner * n_vertices + rival, rival * n_vertices + owner)
    free = np.full(base.shape[0], -1)
    guesses = [coordinates.floats[head][hull.kept] for head, hull in zip(heads, hulls, strict=True)]
    fan = Fan(
        rows,
        scale_to_unit_length(rows),
        np.concatenate([points - points.mean(axis=0) for points in guesses]),
        first_vertex,
        np.searchsorted(owner, np.arange(n_vertices + 1)),
        np.concatenate([rival, free]),
        np.concatenate([reverse, free]),
    )
    return fan, np.concatenate([owner, free])
