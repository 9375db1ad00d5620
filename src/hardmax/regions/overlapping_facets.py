r"""Facets of cells that overlap without being equal, exactly.

Facets made by one split of the search are compared across it. Forms are recomposed in floats with
bounds on all errors, and most pairs are settled by these (see `_kernels.facet_comparisons`): apart,
or with a point in both. What is left, where facets touch without overlapping or forms coincide, is
decided in integers: whether the rows of both cells are positive together somewhere.
"""

import numpy as np

from hardmax._kernels.facet_comparisons import OPEN, OVERLAP
from hardmax._kernels.facet_forms import facet_forms_into
from hardmax._kernels.facet_overlaps import compare_facets, corners_into
from hardmax._kernels.spatial_buffers import OFFSET_RADIUS, RADIUS
from hardmax.geometry.integer_vectors import Vector, primitive
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.regions.adjacency import facets_overlap
from hardmax.regions.cells import CellArrays, CellFacets
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.regions.planar_adjacency import Regions
from hardmax.regions.spatial_domains import rounded_form
from hardmax.regions.spatial_frames import spatial_frames
from hardmax.typing import FloatArray, IntArray


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
    pairs, verdicts = _compared(network, domain, cells, owners, chosen)
    exact = _ExactFacets(network, domain, cells, owners)
    is_open = verdicts == OPEN
    verdicts[is_open] = [
        OVERLAP if exact.overlap(one, other) else 0 for one, other in pairs[is_open].tolist()
    ]
    found: IntArray = pairs[verdicts == OVERLAP]
    return found


def _compared(
    network: ArgmaxNetwork,
    domain: ChartedDomain,
    cells: CellArrays,
    owners: IntArray,
    chosen: IntArray,
) -> tuple[IntArray, IntArray]:
    """Return the pairs of facets that overlap as floats can prove, or may, and which is true."""
    facets, points, starts = cells.facets, cells.vertices, cells.starts
    assert facets is not None
    assert points is not None
    assert starts is not None
    layer_of = np.repeat(
        np.arange(len(network.layers)), [layer.n_groups for layer in network.layers]
    )
    forms, n_facets = _rounded_forms(network, domain, cells, owners[chosen], layer_of), len(owners)
    n, dim = len(chosen), domain.dim
    directions = np.zeros((0, dim)) if cells.directions is None else cells.directions
    is_far = np.zeros(len(points), dtype=np.bool_)
    is_far[: len(directions)] = directions.any(axis=1)
    corner_starts = np.empty(n + 1, dtype=np.int64)
    corners = np.empty(int(np.diff(starts)[owners[chosen]].sum()), dtype=np.int64)
    boxes = np.empty((n, 2, dim))
    corners_into(
        chosen,
        owners,
        forms,
        points,
        directions,
        is_far,
        starts,
        facets.blurs,
        corner_starts,
        corners,
        boxes,
    )
    cuts = facets.facets[chosen, 0]
    order = np.lexsort((boxes[:, 0, 0], cuts))
    ends = np.searchsorted(cuts[order], cuts[order], side="right")
    n_rows = 2 * int(np.diff(facets.starts).max()) + len(forms) - n_facets
    found, verdicts = [], []
    begin = 0
    while begin < n:
        capacity = 4 * n + 16
        some, verdict = np.empty((capacity, 2), dtype=np.int64), np.empty(capacity, dtype=np.int64)
        begin, count = compare_facets(
            begin,
            order,
            ends,
            chosen,
            owners,
            facets.facets,
            cells.signatures,
            facets.starts,
            facets.tie_starts,
            facets.ties,
            layer_of,
            forms,
            n_facets,
            points,
            directions,
            is_far,
            facets.blurs,
            corner_starts,
            corners,
            boxes,
            np.empty((n_rows, dim + 1)),
            np.empty((3, dim)),
            np.empty(n_rows, dtype=np.int64),
            np.empty(max(1, int(np.diff(starts).max())), dtype=np.bool_),
            some,
            verdict,
        )
        found.append(some[:count])
        verdicts.append(verdict[:count])
    return np.concatenate(found), np.concatenate(verdicts)


def _rounded_forms(
    network: ArgmaxNetwork,
    domain: ChartedDomain,
    cells: CellArrays,
    owners: IntArray,
    layer_of: IntArray,
) -> FloatArray:
    """Return the forms of all facets of some cells, then those of the domain, with radii.

    Forms that are not known have an infinite radius.
    """
    facets, dim = cells.facets, domain.dim
    assert facets is not None
    assert cells.vertices is not None
    borders = [rounded_form((*row, 0)) for row in domain.cone_rows[:-1]]
    n_facets = len(facets.facets)
    forms = np.zeros((n_facets + len(borders), dim + 3))
    forms[:, dim + 1 :] = np.inf
    for form, border in zip(forms[n_facets:], borders, strict=True):
        form[: dim + 1] = border[: dim + 1]
        form[dim + 1 :] = border[dim + RADIUS], border[dim + OFFSET_RADIUS]
    is_wanted = np.zeros(len(cells.signatures), dtype=np.bool_)
    is_wanted[owners] = True
    # Where forms coincide on a whole cell, a mean may be passed on that is not composed here.
    is_wide = np.array([not layer.is_relu for layer in network.layers])
    merged = np.flatnonzero((facets.ties[:, 0] < 0) & is_wide[layer_of[facets.ties[:, 1]]])
    is_wanted[np.searchsorted(facets.tie_starts, merged, side="right") - 1] = False
    tables, frames = spatial_frames(network, domain, float(np.abs(cells.vertices).max(initial=1.0)))
    facet_forms_into(
        tables,
        frames,
        cells.signatures,
        facets.starts,
        facets.facets,
        layer_of,
        is_wanted,
        forms,
    )
    return forms


class _ExactFacets:
    """The rows of facets in integers, by their index."""

    def __init__(
        self, network: ArgmaxNetwork, domain: ChartedDomain, cells: CellArrays, owners: IntArray
    ) -> None:
        assert cells.facets is not None
        self.cells, self.owners = cells, owners
        self.facets: CellFacets = cells.facets
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
            _, group, rival = self.facets.facets[facet].tolist()
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
