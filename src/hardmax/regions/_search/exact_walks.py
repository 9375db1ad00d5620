r"""A polygon split by the winner of a large group, exactly, from one winner to the next.

The method is that of `core/include/hardmax/walks.hpp`: a part is right as soon as its winner is the
largest form at all its vertices, and its neighbours are among the forms that tie with it at both
ends of an edge. Rounded values, with bounds on their errors, say which forms need not be looked at;
the others are compared in integers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from hardmax.regions._search.exact_polygons import Edge, Label, Line, Vertex, clipped, sign
from hardmax.regions._search.plane_domains import rounded_vertex
from hardmax.typing import FloatArray

_KAPPA = 2.0**-48
"""More than twice all relative rounding errors of one evaluation."""
_TINY = 2.0**-1000


class Contest:
    """Forms that compete, exact and rounded.

    Attributes:
        n_signs: How many signs were decided in integers.
    """

    def __init__(self, rows: list[list[Any]], block: FloatArray, scale: float) -> None:
        """Read the exact rows of the forms, and their rounded block with radii."""
        self._rows = rows
        self._block = block
        self._scale = scale
        self.n_signs = 0

    def line(self, winner: int, rival: int) -> Line:
        """Return the exact line where a form exceeds another."""
        one, other = self._rows[winner], self._rows[rival]
        return one[0] - other[0], one[1] - other[1], one[2] - other[2], 0

    def near(self, winner: int, vertex: Vertex) -> list[int]:
        """List the forms that may be at least the winner at a vertex, the largest first."""
        x, y, rho, dx, dy, far_rho = rounded_vertex(vertex)
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
            error = 1.01 * error + _TINY
            # Written so that what overflowed is looked at.
            is_less = value + error < value[winner] - error[winner]
        is_less[winner] = True
        found = np.flatnonzero(~is_less)
        return [int(m) for m in found[np.argsort(-value[found], kind="stable")]]

    def part(
        self, winner: int, whole: list[Edge], name: Callable[[int, int], Label]
    ) -> tuple[list[Edge], list[set[int]]]:
        """Return the polygon where a form wins, and who ties with it at each vertex."""
        part = whole
        ties: dict[Vertex, set[int]] = {}
        while True:
            vertex = next((edge.start for edge in part if edge.start not in ties), None)
            if vertex is None:
                equals = [ties[edge.start] for edge in part]
                return [self._named(winner, *one, name) for one in _between(part, equals)], equals
            equal = set()
            for rival in self.near(winner, vertex):
                line = self.line(winner, rival)
                self.n_signs += 1
                side = sign(line, vertex)
                if side < 0:
                    self.n_signs += len(part)
                    part = clipped(part, line, name(winner, rival), -1)
                    break
                if side == 0:
                    equal.add(rival)
            else:
                ties[vertex] = equal
            if not part:
                return [], []

    def _named(
        self, winner: int, edge: Edge, ties: set[int], name: Callable[[int, int], Label]
    ) -> Edge:
        """Name a new edge by the first form that ties along it, whatever it was cut by."""
        if edge.source >= 0:
            return edge
        rival = min(ties)
        return edge._replace(line=self.line(winner, rival), label=name(winner, rival))

    def parts(
        self, whole: list[Edge], name: Callable[[int, int], Label]
    ) -> list[tuple[int, list[Edge]]]:
        """Return every form that wins somewhere on a polygon, with the part where it does.

        Args:
            whole: The polygon.
            name: The label of the wall between a winner and a rival.
        """
        n_forms = len(self._rows)
        queue = [self._first(whole)]
        queued = set(queue)
        found = []
        i = 0
        while i < len(queue):
            winner = queue[i]
            i += 1
            part, ties = self.part(winner, whole, name)
            if part:
                found.append((winner, part))
            for _, rivals in _between(part, ties):
                for rival in sorted(rivals - queued):
                    queued.add(rival)
                    queue.append(rival)
            if i == len(queue) and not found:
                queue += [m for m in range(n_forms) if m not in queued]
                queued.update(queue)
        return found

    def _first(self, whole: list[Edge]) -> int:
        """Return who leads at the mean of the vertices, up to rounding."""
        points = np.array([rounded_vertex(edge.start)[:2] for edge in whole])
        x, y = points.mean(axis=0)
        with np.errstate(over="ignore", invalid="ignore"):
            values = self._block[0] * x + self._block[1] * y + self._block[2]
        return int(np.argmax(np.nan_to_num(values)))


def _between(part: list[Edge], ties: list[set[int]]) -> list[tuple[Edge, set[int]]]:
    """Return each edge with the forms that tie at both its ends, and so along it."""
    return [(edge, ties[k] & ties[(k + 1) % len(part)]) for k, edge in enumerate(part)]
