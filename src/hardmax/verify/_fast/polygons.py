r"""Convex polygons of the verifier: integer lines and vertices, clipped without rounding.

Everything is homogeneous. A line is a primitive integer row $(a, b, c)$, the form
$a x + b y + c w$; a vertex is a primitive integer vector $(x, y, w)$ with $w \ge 0$, at infinity
if $w = 0$. A polygon is the cross-section of a pointed cone, so polygons with vertices at infinity
need no special treatment. Lines and vertices are numbered, equal ones alike, so that later
questions about where cells meet are comparisons of numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import NamedTuple

import numpy as np

from hardmax.typing import FloatArray, WideArray

# Entries of a line and a vertex are scaled to at most 1 and have a relative error below 2^-52 and
# 2^-53, or an absolute one below 2^-1074; a product of three terms adds less than 4 * 2^-53. So the
# value of a form is wrong by less than 2^-50 times the sum of the absolute terms, itself computed
# to a factor 1 + 2^-49, and the difference of two such values by as much as the two together.
RELATIVE, ABSOLUTE = 2.0**-49, 2.0**-1000


class Polygon(NamedTuple):
    """A convex polygon with interior, all polygons of a piece going round the same way.

    Attributes:
        vertices: The numbers of its vertices.
        edges: For the edge from each vertex to the next twice the number of its line, plus 1 if
            the line's form is negative inside.
    """

    vertices: list[int]
    edges: list[int]


@dataclass(eq=False)
class Plane:
    """The lines and vertices met so far.

    Attributes:
        far: Signs of the two coordinates at infinity: all vertices at infinity lie in one quadrant.
        lines: The lines by number.
        vertices: The vertices by number.
        rounded_lines: The lines, scaled and rounded.
        rounded_vertices: The vertices, scaled and rounded.
    """

    far: tuple[int, int] = (1, 1)
    lines: list[tuple[int, int, int]] = field(default_factory=list)
    vertices: list[tuple[int, int, int]] = field(default_factory=list)
    rounded_lines: list[tuple[float, float, float]] = field(default_factory=list)
    rounded_vertices: list[tuple[float, float, float]] = field(default_factory=list)
    _line_numbers: dict[tuple[int, int, int], int] = field(default_factory=dict)
    _vertex_numbers: dict[tuple[int, int, int], int] = field(default_factory=dict)
    _meets: dict[tuple[int, int], int] = field(default_factory=dict)
    _rounded_table: FloatArray = field(default_factory=lambda: np.empty((3, 0)))
    _n_rounded: int = 0

    def edge(self, a: int, b: int, c: int) -> int:
        """Return the edge label of the half-plane where a form, not identically 0, is positive."""
        divisor = gcd(a, b, c)
        flipped = (a or b or c) < 0
        if flipped:
            divisor = -divisor
        line = (a // divisor, b // divisor, c // divisor)
        number = self._line_numbers.get(line)
        if number is None:
            number = self._line_numbers[line] = len(self.lines)
            self.lines.append(line)
            self.rounded_lines.append(_rounded(*line))
        return 2 * number + flipped

    def vertex(self, x: int, y: int, w: int) -> int:
        """Return the number of a vertex, given up to any factor."""
        divisor = gcd(x, y, w)
        if (w or self.far[0] * x + self.far[1] * y) < 0:
            divisor = -divisor
        point = (x // divisor, y // divisor, w // divisor)
        number = self._vertex_numbers.get(point)
        if number is None:
            number = self._vertex_numbers[point] = len(self.vertices)
            self.vertices.append(point)
            self.rounded_vertices.append(_rounded(*point))
        return number

    def rounded(self, vertices: list[int]) -> FloatArray:
        """Return vertices, scaled and rounded, as columns; shape `(3, n_vertices)`."""
        n, table = len(self.rounded_vertices), self._rounded_table
        if n > table.shape[1]:
            table = np.empty((3, 2 * n))
            table[:, : self._n_rounded] = self._rounded_table[:, : self._n_rounded]
            self._rounded_table = table
        if n > self._n_rounded:
            table[:, self._n_rounded : n] = np.array(self.rounded_vertices[self._n_rounded :]).T
            self._n_rounded = n
        return table.take(vertices, axis=1)

    def polygon(self, rows: Sequence[tuple[int, int, int]]) -> Polygon:
        """Put a polygon together from its forms, positive inside, going round."""
        edges = [self.edge(*row) for row in rows]
        return Polygon([self._meet(edges[i - 1], edges[i]) for i in range(len(edges))], edges)

    def signs(self, vertices: list[int], line: int) -> list[int]:
        """Return the sign of a line's form at vertices, exactly."""
        a, b, c = self.rounded_lines[line]
        signs = []
        for vertex in vertices:
            x, y, w = self.rounded_vertices[vertex]
            first, second, third = a * x, b * y, c * w
            value = first + second + third
            bound = RELATIVE * (abs(first) + abs(second) + abs(third)) + ABSOLUTE
            if value > bound:
                signs.append(1)
            elif value < -bound:
                signs.append(-1)
            else:
                exact = self.value(line, self.vertices[vertex])
                signs.append((exact > 0) - (exact < 0))
        return signs

    def value(self, line: int, point: tuple[int, int, int]) -> int:
        """Evaluate a line's form at a homogeneous integer point."""
        a, b, c = self.lines[line]
        x, y, w = point
        return a * x + b * y + c * w

    def clip(self, polygon: Polygon, edge: int, signs: list[int] | None = None) -> Polygon | None:
        """Return the part of a polygon on the inner side of an edge; None if it has no interior.

        Args:
            polygon: The polygon; returned itself if the edge cuts nothing off.
            edge: The label of the half-plane.
            signs: The signs of the edge's line at the vertices, if known.
        """
        vertices, edges = polygon
        if signs is None:
            signs = self.signs(vertices, edge >> 1)
        inside = -1 if edge & 1 else 1
        if inside not in signs:
            return None
        if -inside not in signs:
            return polygon
        n = len(vertices)
        i = 0
        while signs[i] != inside or signs[i - 1] == inside:
            i += 1
        entry = vertices[i - 1] if signs[i - 1] == 0 else self._meet(edges[i - 1], edge)
        kept_vertices, kept_edges = [entry], [edges[i - 1]]
        while signs[i] == inside:
            kept_vertices.append(vertices[i])
            kept_edges.append(edges[i])
            i = (i + 1) % n
        exit_ = vertices[i] if signs[i] == 0 else self._meet(edges[i - 1], edge)
        kept_vertices.append(exit_)
        kept_edges.append(edge)
        return Polygon(kept_vertices, kept_edges)

    def _meet(self, one: int, other: int) -> int:
        one, other = one >> 1, other >> 1
        key = (one, other) if one < other else (other, one)
        number = self._meets.get(key)
        if number is None:
            a1, b1, c1 = self.lines[one]
            a2, b2, c2 = self.lines[other]
            number = self.vertex(b1 * c2 - c1 * b2, c1 * a2 - a1 * c2, a1 * b2 - b1 * a2)
            self._meets[key] = number
        return number


class Piece(NamedTuple):
    """A part of the domain whose homogenisation is a pointed cone.

    Attributes:
        plane: The lines and vertices on it.
        polygon: The part.
        helpers: The numbers of the two lines of the cross that cut the domain.
    """

    plane: Plane
    polygon: Polygon
    helpers: frozenset[int]

    def wall(self, a: int, b: int, c: int) -> int:
        """Return the edge label of a half-plane that matters, as `Plane.edge` does.

        Raises:
            CoincidenceError: If its line is one of the cross.
        """
        edge = self.plane.edge(a, b, c)
        if edge >> 1 in self.helpers:
            raise CoincidenceError
        return edge


class CoincidenceError(Exception):
    """A wall lies on the cross that cuts an unbounded domain: another cross is needed."""


def domain_pieces(rows: WideArray, attempt: int) -> list[Piece]:
    r"""Cut a planar domain $\{\langle a, t\rangle \le b\}$ into pieces: itself if it is bounded.

    Args:
        rows: The integers $(a, b)$, shape `(n_rows, 3)`.
        attempt: Which of infinitely many crosses cuts an unbounded domain into quadrants.

    Returns:
        The pieces with interior; none if the domain has none.

    Raises:
        CoincidenceError: If a side of the domain lies on the cross.
    """
    forms = [(-a, -b, c) for a, b, c in rows.tolist() if a or b or c]
    pieces = _quadrants(forms, (0, 0, 1))
    vertices = [piece.plane.vertices[v] for piece in pieces for v in piece.polygon.vertices]
    if any(w == 0 for _, _, w in vertices):
        pieces = _quadrants(forms, (2 * attempt + 1, 4 * attempt + 3, 1009))
        for piece in pieces:
            for form in forms:
                piece.wall(*form)
        return pieces
    if not vertices:
        return []
    far = 1 + max(max(abs(x), abs(y)) // w + 1 for x, y, w in vertices)
    plane = Plane()
    square = [(0, 1, far), (-1, 0, far), (0, -1, far), (1, 0, far)]
    clipped = _clipped(plane, plane.polygon(square), forms)
    return [] if clipped is None else [Piece(plane, clipped, frozenset())]


def _quadrants(forms: list[tuple[int, int, int]], centre: tuple[int, int, int]) -> list[Piece]:
    x, y, w = centre
    pieces = []
    for across, up in ((1, 1), (-1, 1), (-1, -1), (1, -1)):
        plane = Plane((across, up))
        sides = [(across * w, 0, -across * x), (0, up * w, -up * y), (0, 0, 1)]
        corner = plane.polygon(sides)
        helpers = frozenset(edge >> 1 for edge in corner.edges[:2])
        clipped = _clipped(plane, corner, forms)
        if clipped is not None:
            pieces.append(Piece(plane, clipped, helpers))
    return pieces


def _clipped(plane: Plane, polygon: Polygon, forms: list[tuple[int, int, int]]) -> Polygon | None:
    part: Polygon | None = polygon
    for form in forms:
        if part is None:
            return None
        part = plane.clip(part, plane.edge(*form))
    return part


def _rounded(a: int, b: int, c: int) -> tuple[float, float, float]:
    scale = 1 << max(a.bit_length(), b.bit_length(), c.bit_length())
    return a / scale, b / scale, c / scale
