r"""Facets of cells that overlap without being equal, exactly.

Facets made by one split of the search are gathered by their hyperplane; those on one side of it are
compared with those on the other. Most pairs are apart for a reason that is quick to see: winners of
the split's own layer differ, whose forms are the same on both sides; or boxes around the rounded
vertices, widened by their radii, do not meet; or a row of one cell is negative, by more than all
errors, at the vertices of the other's facet. Most facets that overlap have a common point near the
mean of vertices that lie in both; moved into the hyperplane, it is checked in integers. What is
left is decided in integers: whether the rows of both cells are positive together somewhere.
"""

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import lcm
from typing import NamedTuple

import numpy as np

from hardmax.algebra.exact.dyadic import nearest_floats
from hardmax.geometry.integer_vectors import Vector, dot, wide_rows
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.regions.adjacency import facets_overlap
from hardmax.regions.cells import CellArrays, CellFacets
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.regions.planar_adjacency import Regions, normalised
from hardmax.typing import FloatArray, IntArray

_KAPPA = 2.0**-40
"""More than all relative rounding errors of one evaluation."""
_TINY = 2.0**-1000
"""More than all underflow errors of one evaluation."""


def overlapping_facets(
    network: ArgmaxNetwork,
    domain: ChartedDomain,
    cells: CellArrays,
    owners: IntArray,
    chosen: IntArray,
) -> IntArray:
    """Find all pairs of facets on both sides of a split that overlap in positive measure.

    Args:
        network: The network.
        domain: The domain.
        cells: The cells, with their facets.
        owners: The cell of each facet.
        chosen: The facets to compare.

    Returns:
        Shape `(n_pairs, 2)`, the facet of the smaller cell first.
    """
    facets = _Facets(network, domain, cells, owners)
    sides: dict[tuple[int, Vector], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for facet in chosen.tolist():
        row = facets.row(facet)
        plane = normalised(row)
        sides[facets.cut(facet), plane][row != plane].append(facet)
    found = []
    for (_, plane), (above, below) in sides.items():
        if not above or not below:
            continue
        corners = {facet: facets.corners(facet, plane) for facet in (*above, *below)}
        for one, other in product(above, below):
            if facets.differ(one, other) or _are_apart(corners[one], corners[other]):
                continue
            if _overlap(
                plane, facets.others(one), facets.others(other), corners[one], corners[other]
            ):
                found.append(sorted((one, other)))
    return np.array(found, dtype=np.int64).reshape(len(found), 2)


class _Facets:
    """What is known about the facets of cells, by their index."""

    def __init__(
        self, network: ArgmaxNetwork, domain: ChartedDomain, cells: CellArrays, owners: IntArray
    ) -> None:
        assert cells.facets is not None
        self.cells, self.owners = cells, owners.tolist()
        self.facets: CellFacets = cells.facets
        self.boundary = domain.cone_rows[:-1]
        self.regions = Regions(network, domain)
        self.places = [(i, g) for i, one in enumerate(network.layers) for g in range(one.n_groups)]
        self._rows: dict[int, Vector] = {}
        self._others: dict[int, _Rows] = {}
        self._winners: dict[int, tuple[int, ...]] = {}

    def cut(self, facet: int) -> int:
        """Return the split that made a facet."""
        return int(self.facets.facets[facet, 0])

    def winners(self, cell: int) -> tuple[int, ...]:
        """Return the signature of a cell."""
        known = self._winners.get(cell)
        if known is None:
            known = self._winners[cell] = tuple(self.cells.signatures[cell].tolist())
        return known

    def row(self, facet: int) -> Vector:
        """Return the row of a facet, positive in its cell."""
        known = self._rows.get(facet)
        if known is None:
            _, group, rival = self.facets.facets[facet].tolist()
            winners = self.winners(self.owners[facet])
            layer, place = self.places[group]
            known = self.regions.forms(layer, winners).row(place, winners[group], rival)
            self._rows[facet] = known
        return known

    def others(self, facet: int) -> "_Rows":
        """Return the rows of the other facets of a facet's cell, and of the domain."""
        known = self._others.get(facet)
        if known is None:
            cell = self.owners[facet]
            first, last = self.facets.starts[cell : cell + 2].tolist()
            exact = [*self.boundary, *(self.row(i) for i in range(first, last) if i != facet)]
            known = self._others[facet] = _rounded(exact, len(self.row(facet)))
        return known

    def differ(self, one: int, other: int) -> bool:
        """Say whether two facets of one split lie in different cells of the split's layer.

        The layers before have the same winners, so this layer has the same forms on both sides. A
        group other than the split's, with two winners and no ties, has a wall between the facets.
        """
        cells = self.owners[one], self.owners[other]
        tie_starts = self.facets.tie_starts
        if any(tie_starts[cell] != tie_starts[cell + 1] for cell in cells):
            return False
        group = int(self.facets.facets[one, 1])
        layer = self.places[group][0]
        first, second = self.winners(cells[0]), self.winners(cells[1])
        return any(
            first[g] != second[g] and g != group and place[0] == layer
            for g, place in enumerate(self.places)
        )

    def corners(self, facet: int, plane: Vector) -> "_Corners | None":
        """Return the rounded vertices of a facet, perhaps with others; None if some are far off."""
        cell, cells = self.owners[facet], self.cells
        assert cells.vertices is not None
        assert cells.starts is not None
        here = slice(*cells.starts[cell : cell + 2].tolist())
        points, blur = cells.vertices[here], float(self.facets.blurs[cell])
        if cells.directions is not None and cells.directions[here].any():
            return None
        values, errors = _values(_rounded([plane], len(plane)), points, blur)
        # Every vertex of the facet is among those whose value may be zero.
        near = points[~(np.abs(values[0]) > errors[0])]
        if not len(near) or not np.isfinite(errors).all():
            return None
        widened = blur * (1.0 + _KAPPA) + _KAPPA * np.abs(near).max(axis=0) + _TINY
        return _Corners(near, blur, near.min(axis=0) - widened, near.max(axis=0) + widened)


class _Rows(NamedTuple):
    """Rows in integers and rounded."""

    exact: list[Vector]
    floats: FloatArray


def _rounded(rows: list[Vector], n_columns: int) -> _Rows:
    return _Rows(rows, nearest_floats(wide_rows(rows, n_columns)))


class _Corners(NamedTuple):
    """Rounded vertices, how far they are off at most, and bounds on their coordinates."""

    points: FloatArray
    blur: float
    low: FloatArray
    high: FloatArray


def _values(rows: _Rows, points: FloatArray, blur: float) -> tuple[FloatArray, FloatArray]:
    """Return the values of rows at rounded points, `(n_rows, n_points)`, and error bounds."""
    slopes, offsets = rows.floats[:, :-1], rows.floats[:, -1:]
    with np.errstate(over="ignore", invalid="ignore"):
        sizes = np.abs(slopes) @ np.abs(points).T + np.abs(offsets)
        reach = np.abs(slopes).sum(axis=1, keepdims=True) * blur
        return slopes @ points.T + offsets, (reach + sizes * _KAPPA) * (1.0 + _KAPPA) + _TINY


def _are_apart(one: _Corners | None, other: _Corners | None) -> bool:
    if one is None or other is None:
        return False
    return bool((one.low > other.high).any() or (other.low > one.high).any())


def _overlap(
    plane: Vector,
    first: _Rows,
    second: _Rows,
    one: _Corners | None,
    other: _Corners | None,
) -> bool:
    """Decide whether two facets overlap, given the other rows of their cells."""
    rows = [*first.exact, *second.exact]
    if one is not None and other is not None:
        inside = []
        for own, theirs in ((first, other), (second, one)):
            values, errors = _values(own, theirs.points, theirs.blur)
            # Written so that NaN decides nothing.
            if (values < -errors).all(axis=1).any():
                return False
            inside.append(theirs.points[(values > -errors).all(axis=0)])
        common = np.concatenate(inside)
        if len(common) and _has_all_positive(plane, rows, common.mean(axis=0)):
            return True
    return facets_overlap(plane, rows)


def _has_all_positive(plane: Vector, rows: Sequence[Vector], point: FloatArray) -> bool:
    """Say whether rows are positive at the projection of a point to a hyperplane, exactly."""
    if not np.isfinite(point).all():
        return False
    fractions = [Fraction(x) for x in point.tolist()]
    height = lcm(*(x.denominator for x in fractions))
    place = (*(int(x * height) for x in fractions), height)
    normal = plane[:-1]
    square, value = dot(normal, normal), dot(plane, place)
    moved = [x * square - value * a for x, a in zip(place[:-1], normal, strict=True)]
    foot = (*moved, height * square)
    return all(dot(row, foot) > 0 for row in rows)
