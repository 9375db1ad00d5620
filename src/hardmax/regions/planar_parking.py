"""Polygons that floats could not split, split in exact arithmetic.

Everything is read from stored weights, the domain and the winners on the path; of the engine's
floats only those of edges that are kept are passed on, with the radii proven for them.
"""

from functools import cached_property
from typing import Any

import numpy as np

from hardmax._kernels.planar_buffers import (
    AT_STARTS,
    IS_MERGED,
    IS_RELU,
    IS_SHARP,
    N_CUTS,
    N_ITEMS,
    SCORES_ARE_EXACT,
    STREAM_IS_EXACT,
    VERSION,
    Frames,
    Stack,
    Tables,
    grown_stack,
)
from hardmax._kernels.planar_walks import WALK_FROM
from hardmax.algebra.exact.decisions import Decisions
from hardmax.algebra.exact.dyadic import lowest_bits
from hardmax.models.argmax_layers import AffineMap, ArgmaxNetwork
from hardmax.models.recomposition import (
    RationalForms,
    chart_forms,
    layer_output,
    layer_scores,
)
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
from hardmax.regions.planar_tables import coincidence_classes, coinciding_means
from hardmax.typing import FloatArray


class ExactPath:
    """The exact forms of the layers on the path to the polygon on top, kept while they hold."""

    def __init__(
        self,
        network: ArgmaxNetwork,
        domain: PlanarDomain,
        tables: Tables,
        frames: Frames,
    ) -> None:
        self.network = network
        self.domain = domain
        self.tables = tables
        self.frames = frames
        self.decisions = Decisions()
        self._streams: list[RationalForms] = []
        self._scores: list[RationalForms] = []
        self._versions: list[int] = []

    @cached_property
    def chart(self) -> AffineMap:
        """The chart of the domain."""
        return self.domain.chart or AffineMap.identity(self.network.dim_in)

    @cached_property
    def domain_lines(self) -> list[Line]:
        """The exact lines of the domain."""
        return self.domain.lines

    def scores(self, layer: int) -> RationalForms:
        """Return the exact scores of a layer on the path."""
        known = 0
        while known < len(self._versions) and known <= layer:
            if self._versions[known] != self.frames.flags[known, VERSION]:
                break
            known += 1
        if known <= layer:
            del self._versions[known:], self._scores[known:], self._streams[known:]
        for i in range(known, layer + 1):
            self._streams.append(self._stream(i))
            self._scores.append(layer_scores(self.network.layers[i], self._streams[i]))
            self._versions.append(int(self.frames.flags[i, VERSION]))
            self._refresh(i)
        return self._scores[layer]

    def _stream(self, layer: int) -> RationalForms:
        if layer == 0:
            return chart_forms(self.chart).compose(self.network.embedding)
        before = self.network.layers[layer - 1]
        first = sum(earlier.n_groups for earlier in self.network.layers[: layer - 1])
        winners = self.frames.signature[first : first + before.n_groups]
        return layer_output(before, self._streams[layer - 1], self._scores[layer - 1], winners)

    def _refresh(self, layer: int) -> None:
        """Replace the floats of a frame by the nearest ones, and merge what coincides."""
        frames, scale = self.frames, float(self.tables.scale[0])
        scores, n = self._scores[layer], len(self.tables.layout)
        is_relu = self.tables.layout[layer, IS_RELU] == 1
        picked = scores.rows[1::2] if is_relu else scores.rows
        for forms, rows, block, place in (
            (
                self._streams[layer],
                self._streams[layer].rows,
                frames.blocks[layer],
                STREAM_IS_EXACT,
            ),
            (scores, picked, frames.blocks[n + layer], SCORES_ARE_EXACT),
        ):
            floats = rounded_forms(forms, rows, scale)
            block[:, : len(rows)] = floats
            frames.flags[layer, place] = int(not floats[3].any())
            finest = int(lowest_bits(_finite(floats)).min())
            frames.flags[layer, place + 1] = min(finest, 2000)
        if is_relu:
            return
        model = self.network.layers[layer]
        classes = coincidence_classes(scores.rows, model.starts.tolist())
        n_forms, width = model.values.shape
        first = frames.first[layer]
        first[:] = np.arange(len(first))
        for members in classes:
            first[members] = members[0]
        gains, values = coinciding_means(model, classes)
        frames.gains[layer, :, :n_forms] = gains
        frames.values[layer, :, :n_forms, :width] = values
        frames.flags[layer, IS_MERGED] = 1
        for g, start in enumerate(model.starts[:-1].tolist()):
            count = int(frames.n_candidates[layer, g])
            listed = frames.candidates[layer, start : start + count].tolist()
            firsts = [j for j in listed if first[j] == j]
            frames.candidates[layer, start : start + len(firsts)] = firsts
            frames.n_candidates[layer, g] = len(firsts)

    def line(self, label: list[int]) -> Line:
        """Return the exact line of an edge from its label."""
        layer, group, winner, rival = unpacked_label(label)
        if layer < 0:
            return self.domain_lines[group]
        rows, start = self.scores(layer).rows, int(self.network.layers[layer].starts[group])
        return _less(rows[start + winner], rows[start + rival])

    def sharpen_top(self, stack: Stack) -> None:
        """Replace the vertices of the polygon on top by the nearest floats to the true ones."""
        top = int(stack.state[N_ITEMS]) - 1
        start, n = stack.items[top, :2].tolist()
        labels = stack.labels[start : start + n].tolist()
        whole = polygon([(self.line(label), tuple(label), i) for i, label in enumerate(labels)])
        for i, edge in enumerate(whole):
            stack.edges[start + i, 6:] = rounded_vertex(edge.start)
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
        start = int(self.tables.indices[self.tables.layout[layer, AT_STARTS] + group])
        if self.tables.layout[layer, IS_RELU] == 1:
            members = [start, start + 1]
            if scores.rows[start] == scores.rows[start + 1]:
                members = [start]
        else:
            count = int(self.frames.n_candidates[layer, group])
            members = self.frames.candidates[layer, start : start + count].tolist()
        rows = scores.rows
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
        unit = _unit(scores)
        a1, a2, c = (divided(x * unit[0], unit[1]) for x in edge.line[:3])
        return [a1[0], a2[0], c[0], 0.0, max(a1[1], a2[1]), c[1]]


def rounded_forms(forms: RationalForms, rows: list[list[Any]], scale: float) -> FloatArray:
    """Return the block `(4, n)` of rows of exact forms, rounded, with radii."""
    up, down = _unit(forms)
    block = np.zeros((4, len(rows)))
    for i, row in enumerate(rows):
        (a1, e1), (a2, e2), (c, e3) = (divided(x * up, down) for x in row)
        block[:, i] = a1, a2, c, max(scale * e1, scale * e2, e3)
    return block


def _unit(forms: RationalForms) -> tuple[int, int]:
    """Return the scale of exact forms as a quotient of integers."""
    up, down = max(forms.exponent, 0), max(-forms.exponent, 0)
    return 1 << up, forms.denominator << down


def _less(one: list[Any], other: list[Any]) -> Line:
    return one[0] - other[0], one[1] - other[1], one[2] - other[2], 0


def _finite(floats: FloatArray) -> FloatArray:
    return np.where(np.isfinite(floats[:3]), floats[:3], 0.0)
