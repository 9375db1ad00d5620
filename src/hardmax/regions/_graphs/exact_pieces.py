"""The pieces of a search in integers: affine maps, vertices, and which of them touch."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from fractions import Fraction
from itertools import combinations

import numpy as np

from hardmax.models.graphs.exact_cells import ExactCell
from hardmax.models.graphs.graph_networks import GraphNetwork
from hardmax.regions._graphs.domain_sides import Point, domain_sides
from hardmax.regions._graphs.searches import Pieces
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.typing import AnyArray


class ExactPieces:
    """The pieces of a search, composed in integers one after another.

    Args:
        network: The network that was searched.
        domain: Where.
        found: What was found.
    """

    def __init__(self, network: GraphNetwork, domain: ChartedDomain, found: Pieces) -> None:
        self._network, self._found = network, found
        self._sides, _ = domain_sides(domain)
        self._winners: AnyArray = np.zeros(network.n_groups, dtype=np.int64)
        chart = domain.coordinates
        rows = [[int(m) for m in row] for row in chart.rows]
        self._exact = ExactCell(network, rows, chart.exponent, chart.denominator, self._winners)
        self._n_applied = 0

    def _go_to(self, i: int) -> None:
        """Take the winners of a piece; those before it cost more than those after."""
        end = int(self._found.change_starts[i + 1])
        if end < self._n_applied:
            self._winners[:], self._n_applied = 0, 0
        groups, winners = self._found.changes[self._n_applied : end].T
        self._winners[groups] = winners
        self._n_applied = end
        self._exact.forget(0)

    def map_key(self, i: int) -> Hashable:
        """What is equal for pieces exactly if their affine maps are."""
        self._go_to(i)
        return tuple(self._exact.forms(self._network.outputs.tolist()))

    def vertices(self, i: int) -> list[Point]:
        """The vertices of a piece of the plane, in cyclic order."""
        self._go_to(i)
        lines = []
        for node, group, rival in self._found.walls[slice(*self._found.starts[i : i + 2])].tolist():
            if node < 0:
                lines.append(self._sides[group])
                continue
            entries = self._exact.entries(node, group)
            winner = int(self._winners[int(self._exact.first_groups[node]) + group])
            pairs = zip(entries[winner], entries[rival], strict=True)
            lines.append(tuple(p - q for p, q in pairs))
        points: list[Point] = []
        for (a, b, c), (d, e, f) in zip([lines[-1], *lines[:-1]], lines, strict=True):
            weight = a * e - b * d
            points.append((Fraction(b * f - c * e, weight), Fraction(c * d - a * f, weight)))
        return points

    def common_segments(
        self, edges: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[int, int, Point, Point]]:
        """The segments that edges of two pieces of the plane have in common.

        Args:
            edges: A piece, and which of its edges.

        Yields:
            The two pieces, and the ends of the segment.
        """
        wanted: dict[int, list[int]] = defaultdict(list)
        for i, k in edges:
            wanted[i].append(k)
        lines: dict[tuple[Fraction, ...], list[tuple[int, Point, Point]]] = defaultdict(list)
        for i in sorted(wanted):
            vertices = self.vertices(i)
            for k in wanted[i]:
                p, q = sorted((vertices[k], vertices[(k + 1) % len(vertices)]))
                lines[_line(p, q)].append((i, p, q))
        for found in lines.values():
            for (i, p, q), (j, r, s) in combinations(found, 2):
                # Points on one line are in the order of their coordinates.
                if i != j and max(p, r) < min(q, s):
                    yield i, j, max(p, r), min(q, s)


def _line(p: Point, q: Point) -> tuple[Fraction, ...]:
    """What is equal for segments on one line."""
    (x, y), (u, v) = p, q
    form = y - v, u - x, x * v - u * y
    lead = form[0] or form[1]
    return tuple(m / lead for m in form)
