"""Polygons that the core could not split, split in exact arithmetic.

Everything is read from stored weights, the domain and the winners on the path; of the core's floats
only those of edges that are kept are passed on, with the radii proven for them.
"""

import sys
from functools import cached_property
from typing import Any

import numpy as np

from hardmax.models._arithmetic.recomposition import RationalForms, chart_forms
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.regions._search.exact_paths import ExactPath
from hardmax.regions._search.exact_polygons import Edge, Label, Line, clipped, polygon
from hardmax.regions._search.exact_walks import Contest
from hardmax.regions._search.plane_domains import PlanarDomain, divided, rounded_vertex
from hardmax.regions._search.rounded_forms import unit
from hardmax.regions._search.searches import N_EDGE, CoreSearch, PlaneCell

WALK_FROM = 24
"""Groups of at least so many forms are walked from one winner to the next."""


class PlanarPath(ExactPath):
    """The path to the polygon on top."""

    def __init__(self, network: ArgmaxNetwork, domain: PlanarDomain, search: CoreSearch) -> None:
        super().__init__(network, domain.scale, search)
        self.domain = domain

    def first_stream(self) -> RationalForms:
        """Return the stream before the first layer, on the domain."""
        chart = self.domain.chart or AffineMap.identity(self.network.dim_in)
        return chart_forms(chart).compose(self.network.embedding)

    @cached_property
    def _domain_lines(self) -> list[Line]:
        return self.domain.lines

    def line(self, wall: list[int], *, refresh: bool = True) -> Line:
        """Return the exact line of an edge from its wall."""
        if wall[0] < 0:
            return self._domain_lines[wall[1]]
        a1, a2, c = self.difference(wall, refresh=refresh)
        return a1, a2, c, 0

    def sharpen_top(self) -> None:
        """Replace the vertices of the cell on top by the nearest floats to the true ones."""
        _, (_, walls) = self.search.top()
        lines = [self.line(wall, refresh=False) for wall in walls.tolist()]
        whole = polygon([(line, (), i) for i, line in enumerate(lines)])
        vertices = np.array([rounded_vertex(edge.start) for edge in whole])
        # What lies beyond all floats is written down as the largest one.
        vertices[np.isinf(vertices[:, 2]), :2] = sys.float_info.max
        self.search.set_vertices(vertices)

    def split_top(self) -> None:
        """Split the polygon on top of the stack by its next group."""
        (layer, _, group), (edges, walls) = self.search.top()
        scores = self.scores(layer)
        names = [tuple(wall) for wall in walls.tolist()]
        whole = polygon([(self.line([*name]), name, i) for i, name in enumerate(names)])
        parts = []
        for winner, part in self._parts(scores, layer, group, whole):
            rows, labels = np.empty((len(part), N_EDGE)), np.empty((len(part), 4), dtype=np.int32)
            for row, label, edge in zip(rows, labels, part, strict=True):
                row[:6] = edges[edge.source, :6] if edge.source >= 0 else _floats(scores, edge)
                row[6:] = rounded_vertex(edge.start)
                label[:] = edge.label
            parts.append((winner, PlaneCell(rows, labels)))
        self.search.replace_top(parts)

    def _parts(
        self, scores: RationalForms, layer: int, group: int, whole: list[Edge]
    ) -> list[tuple[int, list[Edge]]]:
        """Return each winner, within its group, with the polygon where it wins."""
        start = int(self.network.layers[layer].starts[group])
        members, rows = self.competitors(layer, group), scores.rows

        def name(winner: int, rival: int) -> Label:
            return layer, group, members[winner] - start, members[rival] - start

        if len(members) >= WALK_FROM:
            block = self.search.scores(layer, len(rows))[:, members]
            contest = Contest([rows[m] for m in members], block, self.scale)
            walked = contest.parts(whole, name)
            self.decisions.record(rational=contest.n_signs)
            return [(members[winner] - start, part) for winner, part in walked]
        parts = []
        for i, winner in enumerate(members):
            part = whole
            for k, rival in enumerate(members):
                if rival == winner:
                    continue
                self.decisions.record(rational=len(part))
                part = clipped(part, _less(rows[winner], rows[rival]), name(i, k), -1)
                if not part:
                    break
            if part:
                parts.append((winner - start, part))
        return parts


def _floats(scores: RationalForms, edge: Edge) -> list[float]:
    """Return the numbers of a new line: its true coefficients, rounded, and radii."""
    up, down = unit(scores)
    a1, a2, c = (divided(x * up, down) for x in edge.line[:3])
    return [a1[0], a2[0], c[0], 0.0, max(a1[1], a2[1]), c[1]]


def _less(one: list[Any], other: list[Any]) -> Line:
    return one[0] - other[0], one[1] - other[1], one[2] - other[2], 0
