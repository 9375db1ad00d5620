r"""Facets of cells that overlap without being equal, exactly.

A facet that is alone on its side of a wall meets all of the other side. What lies beyond others is
searched on them, layer by layer, with forms recomposed in floats with bounds on all errors, or, on
walls with few facets, found by comparing these (`core/include/hardmax/overlays.hpp`). Facets of
which this leaves something open are compared across the split that made them, in floats too, apart
or with a point in both (`core/include/hardmax/facets.hpp`). What is left, where facets touch
without overlapping or forms coincide, is decided in integers: whether the rows of both cells are
positive together somewhere.
"""

import numpy as np

from hardmax.exact.integer_vectors import Vector, primitive
from hardmax.regions._neighbours.adjacency import facets_overlap
from hardmax.regions._neighbours.facets import APART, OPEN, OVERLAP, CoreFacets
from hardmax.regions._neighbours.plane import Regions
from hardmax.typing import IntArray


def overlapping_facets(facets: CoreFacets) -> IntArray:
    """Find all pairs of facets on both sides of a split that overlap in positive measure.

    Returns:
        Shape `(n_pairs, 2)`, those that were matched before included.
    """
    overlapping, left = facets.overlay()
    if facets.n_ties:
        # Where groups tie, anything of a split may meet.
        chosen, owners = facets.loose, facets.owners
        splits, n_ties = facets.splits[chosen], np.diff(facets.facets.tie_starts)
        is_tied = np.zeros(len(owners), dtype=np.bool_)
        is_tied[chosen] = np.isin(splits, splits[n_ties[owners[chosen]] > 0])
        overlapping = overlapping[~is_tied[overlapping[:, 0]]]
        left = np.union1d(left, np.flatnonzero(is_tied))
    if not len(left):
        return overlapping
    facets.compose(left)
    pairs, verdicts = facets.compare(left)
    exact = _ExactFacets(facets)
    is_open = verdicts == OPEN
    verdicts[is_open] = [
        OVERLAP if exact.overlap(one, other) else APART for one, other in pairs[is_open].tolist()
    ]
    return np.concatenate([overlapping, pairs[verdicts == OVERLAP]])


class _ExactFacets:
    """The rows of facets in integers, by their index."""

    def __init__(self, given: CoreFacets) -> None:
        network, domain = given.network, given.domain
        self.cells, self.facets, self.owners = given.cells, given.facets, given.owners
        self.boundary = domain.cone_rows[:-1]
        self.regions = Regions(network, domain)
        self.places = [(i, g) for i, one in enumerate(network.layers) for g in range(one.n_groups)]
        self._rows: dict[int, Vector] = {}
        self._winners: dict[int, tuple[int, ...]] = {}
        self._bounds: dict[int, frozenset[Vector]] = {}

    def row(self, facet: int) -> Vector:
        """Return the row of a facet, positive in its cell."""
        known = self._rows.get(facet)
        if known is None:
            group, rival = self.facets.facets[facet].tolist()
            cell = int(self.owners[facet])
            winners = self._winners.get(cell)
            if winners is None:
                winners = self._winners[cell] = tuple(self.cells.signatures[cell].tolist())
            layer, place = self.places[group]
            known = self.regions.forms(layer, winners).row(place, winners[group], rival)
            self._rows[facet] = known
        return known

    def overlap(self, one: int, other: int) -> bool:
        """Decide whether two facets overlap."""
        plane = self.row(one)
        if tuple(-x for x in plane) != self.row(other):
            return False
        first, second = self._within(one), self._within(other)
        # On both sides of a common ridge, or one of them in the other: no program need be solved.
        if not first.isdisjoint(tuple(-x for x in row) for row in second):
            return False
        if first <= second or second <= first:
            return True
        return facets_overlap(plane, [*first, *second])

    def _within(self, facet: int) -> frozenset[Vector]:
        """Return the rows that bound a facet in its hyperplane, without a common coordinate.

        A row changes by a multiple of the facet's own, which is zero on the facet.
        """
        known = self._bounds.get(facet)
        if known is None:
            cell, plane = self.owners[facet], self.row(facet)
            first, last = self.facets.starts[cell : cell + 2].tolist()
            k = next(i for i, x in enumerate(plane) if x != 0)
            sign, pivot = (1, plane[k]) if plane[k] > 0 else (-1, -plane[k])
            rows = [*self.boundary, *(self.row(i) for i in range(first, last) if i != facet)]
            reduced = (
                primitive(x * pivot - y * sign * row[k] for x, y in zip(row, plane, strict=True))
                for row in rows
            )
            # A parallel row is left with a positive constant.
            known = frozenset(row for row in reduced if any(row[:-1]))
            self._bounds[facet] = known
        return known
