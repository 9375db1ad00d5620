"""The pieces of a search in integers: affine maps, vertices, and which of them touch."""

from collections.abc import Hashable, Iterable
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

    def touching(self, pieces: Iterable[int]) -> list[tuple[int, int]]:
        """The pairs among some pieces of the plane that share more than a point."""
        numbers = sorted(pieces)
        starts, found = self._found.starts, self._found
        lows, highs = [], []
        for i in numbers:
            part = slice(*starts[i : i + 2])
            lows.append((found.vertices[part] - found.radii[part, np.newaxis]).min(axis=0))
            highs.append((found.vertices[part] + found.radii[part, np.newaxis]).max(axis=0))
        near = [
            (i, j)
            for i, j in combinations(range(len(numbers)), 2)
            if not ((lows[i] > highs[j]).any() or (lows[j] > highs[i]).any())
        ]
        exact = {k: self.vertices(numbers[k]) for k in sorted({k for pair in near for k in pair})}
        return [(numbers[i], numbers[j]) for i, j in near if _touch(exact[i], exact[j])]


def _touch(one: list[Point], other: list[Point]) -> bool:
    """Whether two polygons without common interior share a segment."""
    return any(_overlap(p, q) for p in _edges(one) for q in _edges(other))


def _edges(polygon: list[Point]) -> list[tuple[Point, Point]]:
    return list(zip(polygon, [*polygon[1:], polygon[0]], strict=True))


def _overlap(one: tuple[Point, Point], other: tuple[Point, Point]) -> bool:
    """Whether two segments have a segment in common."""
    (a, b), (c, d) = one, other
    way = b[0] - a[0], b[1] - a[1]
    if any(way[0] * (p[1] - a[1]) != way[1] * (p[0] - a[0]) for p in (c, d)):
        return False
    k = 0 if way[0] else 1
    return max(min(a[k], b[k]), min(c[k], d[k])) < min(max(a[k], b[k]), max(c[k], d[k]))
