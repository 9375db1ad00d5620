"""Polygons that the core could not split, split in exact arithmetic.

Everything is read from stored weights, the domain and the winners on the path; of the core's floats
only those of edges that are kept are passed on, with the radii proven for them.
"""

import sys
from functools import cached_property
from typing import Any

import numpy as np

from hardmax.algebra.exact.decisions import Decisions
from hardmax.models.argmax_layers import AffineMap, ArgmaxNetwork
from hardmax.models.recomposition import RationalForms, chart_forms, layer_output, layer_scores
from hardmax.regions.coincidences import (
    coincidence_classes,
    coinciding_means,
    standing_classes,
)
from hardmax.regions.planar_core import N_EDGE, PlaneSearch
from hardmax.regions.planar_domains import PlanarDomain, divided, rounded_vertex
from hardmax.regions.planar_exact_walks import Contest
from hardmax.regions.planar_polygons import Edge, Label, Line, clipped, polygon
from hardmax.regions.rounded_forms import finest_grid, rounded_forms, unit
from hardmax.typing import AnyArray

WALK_FROM = 24
"""Groups of at least so many forms are walked from one winner to the next."""


class ExactPath:
    """The exact forms of the layers on the path to the polygon on top, kept while they hold.

    Args:
        network: The network.
        domain: The domain.
        search: The search, whose forms are replaced by the nearest floats where looked at.

    Attributes:
        has_means: Whether forms were met that coincide on a region, but not everywhere.
    """

    def __init__(self, network: ArgmaxNetwork, domain: PlanarDomain, search: PlaneSearch) -> None:
        self.network = network
        self.domain = domain
        self.search = search
        self.scale = domain.scale
        self.decisions = Decisions()
        self.has_means = False
        self._streams: list[RationalForms] = []
        self._scores: list[RationalForms] = []
        self._versions: list[int] = []
        self._is_refreshed: list[bool] = []

    @cached_property
    def chart(self) -> AffineMap:
        """The chart of the domain."""
        return self.domain.chart or AffineMap.identity(self.network.dim_in)

    @cached_property
    def _domain_lines(self) -> list[Line]:
        return self.domain.lines

    def scores(self, layer: int, *, refresh: bool = True) -> RationalForms:
        """Return the exact scores of a layer on the path.

        Args:
            layer: The layer.
            refresh: Whether the floats of the core up to there have to be the nearest ones, and
                coinciding forms merged, as a split needs them; rounding all forms takes longest.
        """
        versions, _ = self.search.versions()
        known = 0
        while known < len(self._versions) and known <= layer:
            if self._versions[known] != versions[known]:
                break
            known += 1
        if known <= layer:
            for kept in (self._versions, self._scores, self._streams, self._is_refreshed):
                del kept[known:]
        signature = self.search.signature()
        for i in range(known, layer + 1):
            self._streams.append(self._stream(i, signature))
            self._scores.append(layer_scores(self.network.layers[i], self._streams[i]))
            self._versions.append(versions[i])
            self._is_refreshed.append(False)
        for i in range(layer + 1 if refresh else 0):
            if not self._is_refreshed[i]:
                self._refresh(i)
                self._is_refreshed[i] = True
        return self._scores[layer]

    def _stream(self, layer: int, signature: AnyArray) -> RationalForms:
        if layer == 0:
            return chart_forms(self.chart).compose(self.network.embedding)
        before = self.network.layers[layer - 1]
        first = sum(earlier.n_groups for earlier in self.network.layers[: layer - 1])
        winners = signature[first : first + before.n_groups]
        return layer_output(before, self._streams[layer - 1], self._scores[layer - 1], winners)

    def _refresh(self, layer: int) -> None:
        """Replace the floats of a layer by the nearest ones, and merge what coincides."""
        model, scores, stream = (
            self.network.layers[layer],
            self._scores[layer],
            self._streams[layer],
        )
        picked = scores.rows[1::2] if model.is_relu else scores.rows
        blocks = [
            rounded_forms(stream, stream.rows, self.scale),
            rounded_forms(scores, picked, self.scale),
        ]
        given = [(block, finest_grid(block)) for block in blocks]
        merged = None
        if not model.is_relu:
            classes = coincidence_classes(scores.rows, model.starts.tolist())
            first = np.arange(len(model.offsets), dtype=np.int32)
            for members in classes:
                first[members] = members[0]
            self.has_means = self.has_means or classes != standing_classes(model)
            merged = (first, *coinciding_means(model, classes))
        self.search.refresh(layer, given[0], given[1], merged)

    def line(self, wall: list[int], *, refresh: bool = True) -> Line:
        """Return the exact line of an edge from its wall."""
        layer, group, winner, rival = wall
        if layer < 0:
            return self._domain_lines[group]
        rows = self.scores(layer, refresh=refresh).rows
        start = int(self.network.layers[layer].starts[group])
        return _less(rows[start + winner], rows[start + rival])

    def sharpen_top(self) -> None:
        """Replace the vertices of the cell on top by the nearest floats to the true ones."""
        _, _, walls = self.search.top()
        lines = [self.line(wall, refresh=False) for wall in walls.tolist()]
        whole = polygon([(line, (), i) for i, line in enumerate(lines)])
        vertices = np.array([rounded_vertex(edge.start) for edge in whole])
        # What lies beyond all floats is written down as the largest one.
        vertices[np.isinf(vertices[:, 2]), :2] = sys.float_info.max
        self.search.set_vertices(vertices)

    def split_top(self) -> None:
        """Split the polygon on top of the stack by its next group."""
        (layer, _, group), edges, walls = self.search.top()
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
            parts.append((winner, rows, labels))
        self.search.replace_top(parts)

    def _competitors(self, layer: int, group: int) -> list[int]:
        """Return the forms of a group that may win, of a unit that is 0 everywhere only one."""
        model = self.network.layers[layer]
        if model.is_relu:
            start = int(model.starts[group])
            rows = self.scores(layer).rows
            return [start] if rows[start] == rows[start + 1] else [start, start + 1]
        return self.search.candidates(layer, group)

    def _parts(
        self, scores: RationalForms, layer: int, group: int, whole: list[Edge]
    ) -> list[tuple[int, list[Edge]]]:
        """Return each winner, within its group, with the polygon where it wins."""
        start = int(self.network.layers[layer].starts[group])
        members, rows = self._competitors(layer, group), scores.rows

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
