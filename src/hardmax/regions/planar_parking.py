"""Polygons that floats could not split, split in exact arithmetic.

Everything is read from stored weights, the domain and the winners on the path; of the engine's
floats only those of edges that are kept are passed on, with the radii proven for them.
"""

from functools import cached_property
from typing import Any

import numpy as np

from hardmax._kernels.layouts import (
    Tables,
)
from hardmax._kernels.planar_buffers import (
    IS_BLUNT,
    IS_SHARP,
    N_CUTS,
    N_ITEMS,
    Frames,
    Stack,
    X,
    Y,
    grown_stack,
)
from hardmax._kernels.planar_leaves import SHARP, cross
from hardmax._kernels.planar_walks import WALK_FROM
from hardmax.models.argmax_layers import AffineMap, ArgmaxNetwork
from hardmax.models.recomposition import (
    RationalForms,
    chart_forms,
)
from hardmax.regions.exact_paths import ExactForms, unit
from hardmax.regions.planar_domains import PlanarDomain, divided, rounded_vertex
from hardmax.regions.planar_exact_walks import Contest
from hardmax.regions.planar_polygons import (
    Edge,
    Label,
    Line,
    clipped,
    packed_label,
    polygon,
    unpacked_label,
)


class ExactPath(ExactForms):
    """The path to the polygon on top."""

    def __init__(
        self,
        network: ArgmaxNetwork,
        domain: PlanarDomain,
        tables: Tables,
        frames: Frames,
    ) -> None:
        super().__init__(network, tables, frames)
        self.domain = domain

    @cached_property
    def chart(self) -> AffineMap:
        """The chart of the domain."""
        return self.domain.chart or AffineMap.identity(self.network.dim_in)

    @cached_property
    def domain_lines(self) -> list[Line]:
        """The exact lines of the domain."""
        return self.domain.lines

    def first_stream(self) -> RationalForms:
        """Return the stream before the first layer, on the domain."""
        return chart_forms(self.chart).compose(self.network.embedding)

    def line(self, label: list[int], *, refresh: bool = True) -> Line:
        """Return the exact line of an edge from its label."""
        layer, group, winner, rival = unpacked_label(label)
        if layer < 0:
            return self.domain_lines[group]
        rows = self.scores(layer, refresh=refresh).rows
        start = int(self.network.layers[layer].starts[group])
        return _less(rows[start + winner], rows[start + rival])

    def sharpen_top(self, stack: Stack) -> None:
        """Replace the vertices of the polygon on top by the nearest floats to the true ones."""
        top = int(stack.state[N_ITEMS]) - 1
        start, n = stack.items[top, :2].tolist()
        labels = stack.labels[start : start + n].tolist()
        lines = [self.line(label, refresh=False) for label in labels]
        whole = polygon([(line, tuple(labels[i]), i) for i, line in enumerate(lines)])
        for i, edge in enumerate(whole):
            row, before = start + i, start + (i - 1) % n
            x, y = stack.edges[row, X : Y + 1].tolist()
            stack.edges[row, X:] = rounded_vertex(edge.start)
            size = max(float(self.tables.scale[0]), abs(x), abs(y))
            off = np.abs(stack.edges[row, X : Y + 1] - (x, y)).max()
            # Where lines cross clearly this says what rounding does elsewhere as well.
            if not off <= SHARP * size and cross(stack.edges, before, row):
                stack.state[IS_BLUNT] = 1
        stack.state[IS_SHARP] = 1

    def split_top(self, stack: Stack) -> Stack:
        """Split the polygon on top of the stack by its next group; return the stack."""
        top = int(stack.state[N_ITEMS]) - 1
        start, n, layer, position = stack.items[top].tolist()
        scores = self.scores(layer)
        group = int(self.frames.pending[layer, position])
        labels = stack.labels[start : start + n].tolist()
        whole = polygon([(self.line(label), tuple(label), i) for i, label in enumerate(labels)])
        cut = int(stack.state[N_CUTS]) + 1
        parts = self._parts(scores, layer, group, whole, cut)
        stack.state[N_CUTS] = cut
        old = stack.edges[start : start + n].copy()
        winners = stack.winners[top].copy()
        n_rows = sum(len(part) for _, part in parts)
        while start + n_rows > len(stack.edges) or top + len(parts) > len(stack.items):
            stack = grown_stack(stack)
        row = start
        for item, (winner, part) in enumerate(parts, start=top):
            stack.items[item] = row, len(part), layer, position + 1
            stack.winners[item] = winners
            stack.winners[item, position] = winner
            for edge in part:
                line = old[edge.source, :6] if edge.source >= 0 else self._floats(scores, edge)
                stack.edges[row, :6] = line
                stack.edges[row, 6:] = rounded_vertex(edge.start)
                stack.labels[row] = edge.label
                row += 1
        stack.state[N_ITEMS] = top + len(parts)
        return stack

    def _parts(
        self, scores: RationalForms, layer: int, group: int, whole: list[Edge], cut: int
    ) -> list[tuple[int, list[Edge]]]:
        """Return each winner, within its group, with the polygon where it wins."""
        start = int(self.network.layers[layer].starts[group])
        members, rows = self.competitors(layer, group), scores.rows
        if len(members) >= WALK_FROM:
            block = self.frames.blocks[len(self.tables.layout) + layer][:, members]
            contest = Contest([rows[m] for m in members], block, float(self.tables.scale[0]))

            def name(winner: int, rival: int) -> Label:
                one, other = members[winner] - start, members[rival] - start
                return packed_label(layer, group, one, other, cut)

            walked = contest.parts(whole, name)
            self.decisions.record(rational=contest.n_signs)
            return [(members[winner] - start, part) for winner, part in walked]
        parts = []
        for winner in members:
            part = whole
            for rival in members:
                if rival == winner:
                    continue
                label = packed_label(layer, group, winner - start, rival - start, cut)
                self.decisions.record(rational=len(part))
                part = clipped(part, _less(rows[winner], rows[rival]), label, -1)
                if not part:
                    break
            if part:
                parts.append((winner - start, part))
        return parts

    def _floats(self, scores: RationalForms, edge: Edge) -> list[float]:
        """Return the columns of a new line: its true coefficients, rounded."""
        up, down = unit(scores)
        a1, a2, c = (divided(x * up, down) for x in edge.line[:3])
        return [a1[0], a2[0], c[0], 0.0, max(a1[1], a2[1]), c[1]]


def _less(one: list[Any], other: list[Any]) -> Line:
    return one[0] - other[0], one[1] - other[1], one[2] - other[2], 0
