r"""Exact splits of polygons that the core could not split.

They are computed from the stored weights, the domain and the winners on the path. Of the core's
floats, only the unchanged edges are passed on, with their proven radii.

**Large groups** are walked from one winner to the next, as in `core/include/hardmax/walks.hpp`. A
part is correct once its winner is the largest form at all its vertices. Its neighbours are among
the forms that tie with the winner at both ends of an edge. Rounded values, with bounds on their
errors, exclude most forms; the others are compared in integers.
"""

import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._ground.deadlines import check_time
from hardmax.errors import RecordFormatError
from hardmax.exact.rounding import TINY, enclosed_quotient
from hardmax.models._arithmetic.recomposition import RationalForms, chart_forms
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._search.exact_paths import ExactPath
from hardmax.regions._search.exact_polygons import (
    Edge,
    Label,
    Line,
    Vertex,
    clip,
    make_polygon,
    sign,
)
from hardmax.regions._search.plane_domains import PlanarDomain, round_vertex
from hardmax.regions._search.rounded_forms import scale_ratio
from hardmax.regions._search.searches import N_EDGE, CoreSearch, PlaneCell
from hardmax.typing import FloatArray

_KAPPA = 2.0**-48
"""More than twice all relative rounding errors of one evaluation."""


class CompetingForms:
    """Competing forms, exact and rounded.

    Args:
        rows: The exact rows of the forms.
        block: The rounded rows, with radii.
        scale: The scale of the domain.

    Attributes:
        n_signs: The number of signs decided in integers.
    """

    def __init__(self, rows: list[list[Any]], block: FloatArray, scale: float) -> None:

        self._rows = rows
        self._block = block
        self._scale = scale
        self.n_signs = 0

    def line(self, winner: int, rival: int) -> Line:
        """Return the exact line on whose positive side a form exceeds another."""
        one, other = self._rows[winner], self._rows[rival]
        return one[0] - other[0], one[1] - other[1], one[2] - other[2], 0

    def possible_rivals(self, winner: int, vertex: Vertex) -> list[int]:
        """List the forms that may reach or exceed the winner at a vertex, the largest first."""
        x, y, rho, dx, dy, far_rho = round_vertex(vertex)
        a1, a2, c, radius = self._block
        with np.errstate(over="ignore", invalid="ignore"):
            if dx != 0.0 or dy != 0.0:
                value = a1 * dx + a2 * dy
                error = (np.abs(a1) + np.abs(a2)) * (_KAPPA + far_rho)
                error += 2.0 * radius / self._scale * (1.0 + far_rho)
            else:
                value = a1 * x + a2 * y + c
                error = _KAPPA * (np.abs(a1 * x) + np.abs(a2 * y) + np.abs(c))
                error += radius * ((abs(x) + abs(y)) / self._scale + 1.0)
                error += (np.abs(a1) + np.abs(a2) + 2.0 * radius / self._scale) * rho
            error = 1.01 * error + TINY
            # Written so that an overflow excludes nothing.
            is_less = value + error < value[winner] - error[winner]
        is_less[winner] = True
        found = np.flatnonzero(~is_less)
        return [int(m) for m in found[np.argsort(-value[found], kind="stable")]]

    def find_part(
        self, winner: int, whole: list[Edge], name: Callable[[int, int], Label]
    ) -> tuple[list[Edge], list[set[int]]]:
        """Return the polygon where a form wins, and the forms that tie with it at each vertex."""
        part = whole
        ties: dict[Vertex, set[int]] = {}
        while True:
            vertex = next((edge.start for edge in part if edge.start not in ties), None)
            if vertex is None:
                equals = [ties[edge.start] for edge in part]
                return [
                    self._name_edge(winner, *one, name) for one in _pair_with_ties(part, equals)
                ], equals
            equal = set()
            for rival in self.possible_rivals(winner, vertex):
                line = self.line(winner, rival)
                self.n_signs += 1
                side = sign(line, vertex)
                if side < 0:
                    self.n_signs += len(part)
                    part = clip(part, line, name(winner, rival), -1)
                    break
                if side == 0:
                    equal.add(rival)
            else:
                ties[vertex] = equal
            if not part:
                return [], []

    def _name_edge(
        self, winner: int, edge: Edge, ties: set[int], name: Callable[[int, int], Label]
    ) -> Edge:
        """Name a new edge after the first form that ties along it, whichever form cut it."""
        if edge.source >= 0:
            return edge
        rival = min(ties)
        return edge._replace(line=self.line(winner, rival), label=name(winner, rival))

    def find_parts(
        self, whole: list[Edge], name: Callable[[int, int], Label]
    ) -> list[tuple[int, list[Edge]]]:
        """Return every form that wins somewhere on a polygon, with the part where it wins.

        Args:
            whole: The polygon.
            name: The label of the wall between a winner and a rival.
        """
        n_forms = len(self._rows)
        queue = [self._guess_winner(whole)]
        queued = set(queue)
        found = []
        i = 0
        while i < len(queue):
            winner = queue[i]
            i += 1
            part, ties = self.find_part(winner, whole, name)
            if part:
                found.append((winner, part))
            for _, rivals in _pair_with_ties(part, ties):
                for rival in sorted(rivals - queued):
                    queued.add(rival)
                    queue.append(rival)
            if i == len(queue) and not found:
                queue += [m for m in range(n_forms) if m not in queued]
                queued.update(queue)
        return found

    def _guess_winner(self, whole: list[Edge]) -> int:
        """Return the largest form at the mean of the vertices, up to rounding."""
        points = np.array([round_vertex(edge.start)[:2] for edge in whole])
        with np.errstate(over="ignore", invalid="ignore"):
            x, y = points.mean(axis=0)
            values = self._block[0] * x + self._block[1] * y + self._block[2]
        return int(np.argmax(np.nan_to_num(values)))


def _pair_with_ties(part: list[Edge], ties: list[set[int]]) -> list[tuple[Edge, set[int]]]:
    """Pair each edge with the forms that tie at both its ends, and hence along it."""
    return [(edge, ties[k] & ties[(k + 1) % len(part)]) for k, edge in enumerate(part)]


WALK_FROM = 24
"""Groups with at least this number of forms are walked from one winner to the next."""


class PlanarPath(ExactPath):
    """The path to the polygon on top."""

    def __init__(self, network: ArgmaxNetwork, domain: PlanarDomain, search: CoreSearch) -> None:
        super().__init__(network, domain.scale, search)
        self.domain = domain

    def first_stream(self) -> RationalForms:
        """Return the stream before the first layer, on the domain."""
        inputs = self.domain.inputs
        if inputs is None:
            return chart_forms(self.network.embedding)
        return inputs.compose(self.network.embedding)

    @cached_property
    def _domain_lines(self) -> list[Line]:
        return self.domain.lines

    def line(self, wall: list[int], *, refresh: bool = True) -> Line:
        """Return the exact line of an edge from its wall."""
        if wall[0] < 0:
            return self._domain_lines[wall[1]]
        a1, a2, c = self.difference(wall, refresh=refresh)
        return a1, a2, c, 0

    def _read_polygon(self, names: list[Label], *, refresh: bool = True) -> list[Edge]:
        """Build the polygon of a cell from its walls.

        Raises:
            RecordFormatError: If two edges do not meet or turn right, because the cell was read
                from a damaged file.
        """
        whole = make_polygon(
            [(self.line([*name], refresh=refresh), name, i) for i, name in enumerate(names)]
        )
        if any(edge.start[-1] <= 0 for edge in whole):
            raise RecordFormatError(
                "`task` must hold the rest of a search, but the walls of one of its cells do not"
                " bound a polygon. The file may be damaged."
            )
        return whole

    def improve_top(self) -> None:
        """Replace the vertices of the cell on top by the nearest floats to the true ones."""
        _, (_, walls) = self.search.top()
        whole = self._read_polygon([tuple(wall) for wall in walls.tolist()], refresh=False)
        vertices = np.array([round_vertex(edge.start) for edge in whole])
        # Coordinates beyond all floats are replaced by the largest float.
        vertices[np.isinf(vertices[:, 2]), :2] = sys.float_info.max
        self.search.set_vertices(vertices)

    def split_top(self) -> None:
        """Split the polygon on top of the stack by its next group."""
        (layer, _, group), (edges, walls) = self.search.top()
        scores = self.scores(layer)
        names = [tuple(wall) for wall in walls.tolist()]
        whole = self._read_polygon(names)
        parts = []
        for winner, part in self._split(scores, layer, group, whole):
            rows, labels = np.empty((len(part), N_EDGE)), np.empty((len(part), 4), dtype=np.int32)
            for row, label, edge in zip(rows, labels, part, strict=True):
                row[:6] = (
                    edges[edge.source, :6] if edge.source >= 0 else _round_edge_line(scores, edge)
                )
                row[6:] = round_vertex(edge.start)
                label[:] = edge.label
            parts.append((winner, PlaneCell(rows, labels)))
        self.search.replace_top(parts)

    def _split(
        self, scores: RationalForms, layer: int, group: int, whole: list[Edge]
    ) -> list[tuple[int, list[Edge]]]:
        """Split a polygon into the parts where each form of a group, by index, wins."""
        start = int(self.network.layers[layer].starts[group])
        members, rows = self.competitors(layer, group), scores.rows

        def name(winner: int, rival: int) -> Label:
            return layer, group, members[winner] - start, members[rival] - start

        if len(members) >= WALK_FROM:
            block = self.search.scores(layer, len(rows))[:, members]
            contest = CompetingForms([rows[m] for m in members], block, self.scale)
            walked = contest.find_parts(whole, name)
            self.decisions.record(rational=contest.n_signs)
            return [(members[winner] - start, part) for winner, part in walked]
        parts = []
        for i, winner in enumerate(members):
            part = whole
            for k, rival in enumerate(members):
                if rival == winner:
                    continue
                check_time()
                self.decisions.record(rational=len(part))
                part = clip(part, _difference_line(rows[winner], rows[rival]), name(i, k), -1)
                if not part:
                    break
            if part:
                parts.append((winner - start, part))
        return parts


def _round_edge_line(scores: RationalForms, edge: Edge) -> list[float]:
    """Return the floats of a new line: its exact coefficients, rounded, and their radii."""
    up, down = scale_ratio(scores)
    a1, a2, c = (enclosed_quotient(x * up, down) for x in edge.line[:3])
    return [a1[0], a2[0], c[0], 0.0, max(a1[1], a2[1]), c[1]]


def _difference_line(one: list[Any], other: list[Any]) -> Line:
    return one[0] - other[0], one[1] - other[1], one[2] - other[2], 0
