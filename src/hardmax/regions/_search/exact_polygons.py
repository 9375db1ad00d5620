r"""Convex polygons in exact arithmetic, with a formal infinity.

A line is given by four integers $(a_1, a_2, c_0, c_1)$. They stand for the form
$a_1 x + a_2 y + c_0 + c_1 M$, which is non-negative inside, with $M$ larger than every number. The
plane is the square $[-M, M]^2$. A vertex, where two lines meet, is
$(x_0 + x_1 M, y_0 + y_1 M) / w$ with integers and $w > 0$.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

Line = tuple[Any, Any, Any, Any]
Vertex = tuple[Any, Any, Any, Any, Any]
Label = tuple[int, ...]


class Edge(NamedTuple):
    """An edge of a polygon.

    Attributes:
        line: The line of the edge.
        label: The wall: layer, group, winner and rival, or -1 and the row of the domain.
        start: The first vertex, in counter-clockwise order.
        source: An index chosen by the caller: the original edge on the same line, or -1.
    """

    line: Line
    label: Label
    start: Vertex
    source: int


def intersect(one: Line, other: Line) -> Vertex:
    """Return the vertex where an edge on the line `one` ends and one on `other` starts."""
    a1, a2, a3, a4 = one
    b1, b2, b3, b4 = other
    return (
        a2 * b3 - a3 * b2,
        a2 * b4 - a4 * b2,
        a3 * b1 - a1 * b3,
        a4 * b1 - a1 * b4,
        a1 * b2 - a2 * b1,
    )


def sign(line: Line, vertex: Vertex) -> int:
    """Return the sign of a form at a vertex; the part at infinity decides first."""
    g1, g2, g3, g4 = line
    x0, x1, y0, y1, w = vertex
    far = g1 * x1 + g2 * y1 + g4 * w
    value = far if far != 0 else g1 * x0 + g2 * y0 + g3 * w
    return int(value > 0) - int(value < 0)


def make_polygon(lines: Sequence[tuple[Line, Label, int]]) -> list[Edge]:
    """Build a polygon from its lines in counter-clockwise order."""
    return [
        Edge(line, label, intersect(lines[i - 1][0], line), source)
        for i, (line, label, source) in enumerate(lines)
    ]


def whole_plane() -> list[Edge]:
    r"""Return the plane: the square $[-M, M]^2$, its edges labelled `(-1, -1)` to `(-1, -4)`.

    Examples:
        >>> [edge.start for edge in whole_plane()][0]
        (0, -1, 0, -1, 1)
    """
    sides = [(0, 1, 0, 1), (-1, 0, 0, 1), (0, -1, 0, 1), (1, 0, 0, 1)]
    return make_polygon([(line, (-1, -1 - i, 0, 0), -1) for i, line in enumerate(sides)])


def clip(edges: list[Edge], line: Line, label: Label, source: int) -> list[Edge]:
    """Return the part where a form is positive: the polygon itself, a smaller one, or nothing.

    A form that vanishes on the whole polygon leaves nothing.

    Examples:
        >>> half = clip(whole_plane(), (1, 0, 0, 0), (0,), 0)
        >>> len(half), clip(half, (-1, 0, 0, 0), (1,), 0)
        (4, [])
    """
    signs = [sign(line, edge.start) for edge in edges]
    if max(signs) <= 0:
        return []
    if min(signs) >= 0:
        return edges
    n = len(edges)
    first = next(i for i in range(n) if signs[i] > 0 >= signs[i - 1])
    entry = edges[first - 1]
    kept = [entry]
    i = first
    while signs[i % n] > 0:
        kept.append(edges[i % n])
        i += 1
    leaving = edges[i % n].start if signs[i % n] == 0 else intersect(kept[-1].line, line)
    if signs[first - 1] < 0:
        kept[0] = entry._replace(start=intersect(line, entry.line))
    return [*kept, Edge(line, label, leaving, source)]
