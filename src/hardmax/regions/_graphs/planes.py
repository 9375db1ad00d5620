r"""The cells of a network of any shape on a planar slice: a walk from cell to cell across edges.

A cell is the polygon on which all gaps are positive. Two cells of a convex domain are joined by a
path that avoids the finitely many vertices, so crossing every edge of every cell found finds all.

**Signs.** A vertex is where two lines meet, known in floats up to $(d_x, d_y)$: with residuals
$r_1, r_2$ of the two lines at the float point, radii included, the true vertex is off by at most
$d_x = (|b_2| r_1 + |b_1| r_2) / |\det|$ and likewise $d_y$. The value of a gap $(a, b, c)$ of
radius $e$ there is known up to $e (1 + (|x| + |y|)/X) + |a| d_x + |b| d_y$ and rounding. What this
leaves open is a determinant of three exact forms.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.errors import ArgumentError
from hardmax.regions._graphs.walks import Walk
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.typing import AnyArray, FloatArray, IntArray

_UNIT = 2.0**-53
_TINY = 2.0**-1000
Row = tuple[int, ...]


class _Vertex(NamedTuple):
    x: float
    y: float
    off_x: float
    off_y: float


class _Column(NamedTuple):
    """All gaps at a vertex, how wrong they may be, and the one that is surely negative by most."""

    values: FloatArray
    errors: FloatArray
    gap: int
    lowest: float


@dataclass(frozen=True, eq=False)
class PlanePieces:
    """What a walk over a planar slice has found, in the order it was found.

    Attributes:
        signatures: The signature of each piece, shape `(n_pieces, n_groups)`.
        starts: Where the vertices of each piece begin, shape `(n_pieces + 1,)`.
        vertices: Vertices in cyclic order, shape `(n_vertices, 2)`.
        vertex_radii: How far each may be off, shape `(n_vertices,)`.
        walls: For the edge from each vertex to the next, node, group and rival that tie there; -1
            on the boundary of the domain: shape `(n_vertices, 3)`.
        maps: The outputs as slopes and offsets, shape `(n_pieces, 3, dim_out)`.
        map_radii: How wrong they may be, shape `(n_pieces, dim_out)`.
        is_complete: Whether all pieces were found.
        n_exact: How often integers were asked.
    """

    signatures: AnyArray
    starts: IntArray
    vertices: FloatArray
    vertex_radii: FloatArray
    walls: IntArray
    maps: FloatArray
    map_radii: FloatArray
    is_complete: bool
    n_exact: int

    __repr__ = short_repr
    _repr_html_ = html_card


def domain_polygon(domain: ChartedDomain) -> tuple[list[Row], list[tuple[Fraction, Fraction]]]:
    """Return the edges of a bounded planar domain, in cyclic order, and the vertices before them.

    Edges are integer forms that are positive inside.
    """
    rows: list[Row] = [(-int(a), -int(b), int(c)) for a, b, c in domain.exact_rows.tolist()]
    corners: dict[tuple[Fraction, Fraction], set[int]] = {}
    for i, j in combinations(range(len(rows)), 2):
        x, y, w = _meet(rows[i], rows[j])
        if w and all(_sign_at(row, (x, y, w)) >= 0 for row in rows):
            corners.setdefault((Fraction(x, w), Fraction(y, w)), set()).update((i, j))
    if len(corners) < 3:
        raise ArgumentError("`domain` must be bounded for a network of this kind; it is not.")
    centre = [sum(p[k] for p in corners) / len(corners) for k in (0, 1)]
    order = sorted(
        corners, key=lambda p: np.arctan2(float(p[1] - centre[1]), float(p[0] - centre[0]))
    )
    edges = []
    for p, q in zip(order, [*order[1:], order[0]], strict=True):
        shared = [i for i in corners[p] & corners[q] if any(rows[i][:2])]
        if not shared:
            raise ArgumentError("`domain` must be bounded for a network of this kind; it is not.")
        edges.append(rows[shared[0]])
    return edges, order


def explore_plane(
    walk: Walk,
    outputs: IntArray,
    domain: ChartedDomain,
    *,
    max_pieces: int | None = None,
    max_seconds: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> PlanePieces:
    """Find all pieces on a bounded planar domain."""
    edges, corners = domain_polygon(domain)
    start = tuple(sum((p[k] for p in corners), Fraction(0)) / len(corners) for k in (0, 1))
    walk.start_at(start, [(1, 0), (0, 1)])
    walk.compose()
    cells = _Cells(walk, edges)
    stack = [walk.signature()]
    seen = {stack[0].tobytes()}
    pieces: list[tuple[AnyArray, list[_Vertex], list[tuple[int, ...]], FloatArray, FloatArray]] = []
    stop = None if max_seconds is None else time.monotonic() + max_seconds
    while stack:
        if max_pieces is not None and len(pieces) >= max_pieces:
            break
        if stop is not None and time.monotonic() > stop:
            break
        signature = stack.pop()
        walk.move_to(signature.astype(np.int32))
        polygon = cells.polygon()
        maps = walk.forms[:, outputs].copy()
        walls = [cells.name(edge) for edge in polygon.edges]
        pieces.append((signature, polygon.vertices, walls, maps, walk.radii[outputs].copy()))
        for found in cells.neighbours(polygon, signature, seen):
            stack.append(found)
        if progress is not None:
            progress(len(pieces))
    n_vertices = [len(vertices) for _, vertices, _, _, _ in pieces]
    points = [vertex for _, vertices, _, _, _ in pieces for vertex in vertices]
    return PlanePieces(
        np.array([signature for signature, _, _, _, _ in pieces]),
        np.concatenate([[0], np.cumsum(n_vertices)]).astype(np.int64),
        np.array([(p.x, p.y) for p in points]).reshape(-1, 2),
        np.array([max(p.off_x, p.off_y) for p in points]),
        np.array([wall for _, _, walls, _, _ in pieces for wall in walls]).reshape(-1, 3),
        np.array([maps for _, _, _, maps, _ in pieces]),
        np.array([radii for _, _, _, _, radii in pieces]),
        not stack,
        walk.n_exact,
    )


class _Polygon(NamedTuple):
    """Edges in cyclic order, with the vertex each begins at, and other gaps that vanish on them."""

    edges: list[int]
    vertices: list[_Vertex]
    tied: list[list[int]]


class _Cells:
    """Polygons of the cell of a walk. Edges of the domain are -1, -2 and so on, gaps from 0 on."""

    def __init__(self, walk: Walk, edges: list[Row]) -> None:
        self.walk, self._domain = walk, edges
        self._lines = np.array([_rounded(row) for row in edges])
        self._line_radii = 2.0 * _UNIT * np.abs(self._lines).max(axis=1) * walk.scale
        self._corners: list[_Vertex] | None = None

    def name(self, edge: int) -> tuple[int, ...]:
        """Node, group and rival of an edge."""
        return (-1, -1, -1) if edge < 0 else tuple(int(x) for x in self._names[edge])

    def polygon(self) -> _Polygon:
        """Cut the domain by all gaps of the cell."""
        self._read_gaps(*self.walk.gaps())
        self._exact: dict[int, Row] = {}
        self._keys: dict[int, tuple[object, ...]] = {}
        # Gaps that are zero on the cell though floats do not know it.
        self._flat: set[int] = set()
        edges = [-1 - i for i in range(len(self._domain))]
        if self._corners is None:
            self._corners = [self._vertex(edges[i - 1], edges[i]) for i in range(len(edges))]
        vertices = list(self._corners)
        columns = [self._column(vertex) for vertex in vertices]
        # What is positive at all corners of the domain is so on all of it.
        near = np.flatnonzero(np.any([~(c.values > c.errors) for c in columns], axis=0))
        self._read_gaps(self._gaps[near], self._radii[near], self._names[near])
        columns = [_column(c.values[near], c.errors[near]) for c in columns]
        decided: dict[tuple[int, int, int], int] = {}
        while True:
            worst = min(columns, key=lambda column: column.lowest)
            cut = worst.gap if worst.lowest < 0.0 else None
            if cut is None:
                cut, zeros = self._violated_exactly(edges, vertices, columns, decided)
            if cut is None:
                tied = [
                    sorted((zeros[i] & zeros[(i + 1) % len(edges)]) - {edges[i]})
                    for i in range(len(edges))
                ]
                return _Polygon(edges, vertices, tied)
            edges, vertices, columns = self._cut(edges, vertices, columns, cut, decided)

    def neighbours(
        self, polygon: _Polygon, signature: AnyArray, seen: set[bytes]
    ) -> list[AnyArray]:
        """Return the signatures beyond the edges that have not been seen; the walk may move."""
        walk = self.walk
        found: list[AnyArray] = []
        wakes = bool(self._flat) or walk.may_wake()
        crossings = []
        for i, edge in enumerate(polygon.edges):
            if edge < 0:
                continue
            if not wakes and not polygon.tied[i]:
                node, group, rival = self.name(edge)
                beyond = signature.copy()
                beyond[walk.group_index(node, 0) + walk.members(node, group)] = rival
                _note(beyond, seen, found)
                continue
            nearby = polygon.edges[i - 1], polygon.edges[(i + 1) % len(polygon.edges)]
            line = self._row(edge)
            ends = [_meet(self._row(nearby[0]), line), _meet(line, self._row(nearby[1]))]
            points = [(Fraction(x, w), Fraction(y, w)) for x, y, w in ends]
            middle = tuple((p + q) / 2 for p, q in zip(*points, strict=True))
            names = [self.name(k) for k in (edge, *polygon.tied[i], *self._flat)]
            crossings.append((middle, (-line[0], -line[1]), [n[:2] for n in names]))
        for middle, outward, groups in crossings:
            # Composed afresh: what is constant on the cell is known to be, also the second time.
            walk.restore(signature)
            walk.settle(middle, outward, [(node, group) for node, group in groups])
            _note(walk.signature(), seen, found)
        return found

    def _violated_exactly(
        self,
        edges: list[int],
        vertices: list[_Vertex],
        columns: list[_Column],
        decided: dict[tuple[int, int, int], int],
    ) -> tuple[int | None, list[set[int]]]:
        """A gap that is negative at a vertex; if there is none, which vanish at each vertex."""
        zeros = []
        for k, (values, errors, _, _) in enumerate(columns):
            vanishing = set()
            for i in np.flatnonzero(~(values > errors)).tolist():
                if i in (edges[k - 1], edges[k]):
                    vanishing.add(i)
                    continue
                sign = self._sign(i, edges[k - 1], edges[k], decided)
                if sign < 0:
                    return i, []
                if sign == 0 and any(self._row(i)):
                    vanishing.add(i)
                elif sign == 0:
                    self._flat.add(i)
            zeros.append(vanishing)
        return None, zeros

    def _sign(
        self, gap: int, one: int, other: int, decided: dict[tuple[int, int, int], int]
    ) -> int:
        """The sign of a gap where two edges meet."""
        for edge in (one, other):
            if edge >= 0 and self._key(edge) == self._key(gap):
                return 0
        name = gap, one, other
        if name not in decided:
            decided[name] = _sign_at(self._row(gap), _meet(self._row(one), self._row(other)))
        return decided[name]

    def _cut(
        self,
        edges: list[int],
        vertices: list[_Vertex],
        columns: list[_Column],
        gap: int,
        decided: dict[tuple[int, int, int], int],
    ) -> tuple[list[int], list[_Vertex], list[_Column]]:
        """Cut a polygon by a gap that is negative at some vertex; edge i begins at vertex i."""
        n = len(edges)
        signs = []
        for k, (values, errors, _, _) in enumerate(columns):
            value, error = values[gap], errors[gap]
            if value > error or value < -error:
                signs.append(1 if value > 0.0 else -1)
            elif gap in (edges[k - 1], edges[k]):
                signs.append(0)
            else:
                signs.append(self._sign(gap, edges[k - 1], edges[k], decided))
        # Begin with the first vertex after those that are cut off.
        begin = next(k for k in range(n) if signs[k] >= 0 and signs[k - 1] < 0)
        order = [(begin + k) % n for k in range(n)]
        kept = [k for k in order if signs[k] >= 0]
        first, last = kept[0], kept[-1]
        new_edges = [edges[k] for k in kept[:-1]]
        new_vertices = [vertices[k] for k in kept]
        new_columns = [columns[k] for k in kept]
        if signs[first] > 0:
            # The edge before the first vertex is cut: it begins on the line.
            new_edges.insert(0, edges[first - 1])
            new_vertices.insert(0, self._vertex(gap, edges[first - 1]))
            new_columns.insert(0, self._column(new_vertices[0]))
        else:
            new_vertices[0] = self._vertex(gap, edges[first])
            new_columns[0] = self._column(new_vertices[0])
        if signs[last] > 0:
            new_edges.append(edges[last])
            new_vertices.append(self._vertex(edges[last], gap))
            new_columns.append(self._column(new_vertices[-1]))
        else:
            new_vertices[-1] = self._vertex(edges[last - 1], gap)
            new_columns[-1] = self._column(new_vertices[-1])
        new_edges.append(gap)
        return new_edges, new_vertices, new_columns

    def _line(self, edge: int) -> tuple[FloatArray, float]:
        if edge < 0:
            return self._lines[-1 - edge], float(self._line_radii[-1 - edge])
        return self._gaps[edge], float(self._radii[edge])

    def _row(self, edge: int) -> Row:
        if edge < 0:
            return self._domain[-1 - edge]
        if edge not in self._exact:
            self._exact[edge] = self.walk.exact_gap(self._names[edge].tolist())
        return self._exact[edge]

    def _key(self, edge: int) -> tuple[object, ...]:
        if edge not in self._keys:
            self._keys[edge] = self.walk.gap_key(self._names[edge].tolist())
        return self._keys[edge]

    def _vertex(self, one: int, other: int) -> _Vertex:
        """Where two lines meet, and how far off that may be."""
        (p, r_p), (q, r_q) = self._line(one), self._line(other)
        a, b, c, d, e, f = (float(z) for z in (*p, *q))
        scale = self.walk.scale
        det = a * e - b * d
        lost = 4.0 * _UNIT * (abs(a * e) + abs(b * d))
        lost += (r_p * (abs(d) + abs(e)) + r_q * (abs(a) + abs(b)) + 2.0 * r_p * r_q) / scale
        sure = abs(det) - lost * (1.0 + 2.0**-20) - _TINY
        if not sure > 0.0:
            return _Vertex(0.0, 0.0, np.inf, np.inf)
        x, y = (b * f - c * e) / det, (c * d - a * f) / det
        reach = 1.0 + (abs(x) + abs(y)) / scale

        def residual(line: Sequence[float], radius: float) -> float:
            sizes = abs(line[0] * x) + abs(line[1] * y) + abs(line[2])
            value = line[0] * x + line[1] * y + line[2]
            return (abs(value) + 8.0 * _UNIT * sizes + radius * reach) * (1.0 + 2.0**-20) + _TINY

        r_1, r_2 = residual((a, b, c), r_p), residual((d, e, f), r_q)
        up = 1.0 + 2.0**-20
        off_x = ((abs(e) + r_q) * r_1 + (abs(b) + r_p) * r_2) / sure * up
        off_y = ((abs(d) + r_q) * r_1 + (abs(a) + r_p) * r_2) / sure * up
        if not (off_x < np.inf and off_y < np.inf):
            return _Vertex(0.0, 0.0, np.inf, np.inf)
        return _Vertex(x, y, off_x, off_y)

    def _read_gaps(self, gaps: FloatArray, radii: FloatArray, names: AnyArray) -> None:
        self._gaps, self._radii, self._names = gaps, radii, names
        self._sizes = np.abs(gaps)

    def _column(self, vertex: _Vertex) -> _Column:
        """The values of all gaps at a vertex, and how wrong they may be."""
        x, y, off_x, off_y = vertex
        if off_x == np.inf:
            return _column(np.zeros(len(self._gaps)), np.full(len(self._gaps), np.inf))
        with np.errstate(all="ignore"):
            values = self._gaps @ np.array([x, y, 1.0])
            moved = np.array(
                [off_x + 8.0 * _UNIT * abs(x), off_y + 8.0 * _UNIT * abs(y), 8.0 * _UNIT]
            )
            reach = 1.0 + (abs(x) + abs(y) + off_x + off_y) / self.walk.scale
            errors = (self._sizes @ moved + reach * self._radii) * (1.0 + 2.0**-20) + _TINY
        return _column(values, errors)


def _column(values: FloatArray, errors: FloatArray) -> _Column:
    """Find the gap that is surely negative by most."""
    if len(values) == 0:
        return _Column(values, errors, -1, 0.0)
    sure = np.where(values < -errors, values, 0.0)
    gap = int(sure.argmin())
    return _Column(values, errors, gap, float(sure[gap]))


def _note(signature: AnyArray, seen: set[bytes], found: list[AnyArray]) -> None:
    key = signature.tobytes()
    if key not in seen:
        seen.add(key)
        found.append(signature)


def _rounded(row: Row) -> list[float]:
    """A row in floats, divided by a power of two if it is long."""
    unit = 1 << max(0, max(abs(x) for x in row).bit_length() - 512)
    return [float(Fraction(x, unit)) for x in row]


def _meet(one: Row, other: Row) -> Row:
    """Where two lines meet: homogeneous coordinates."""
    (a, b, c), (d, e, f) = one, other
    return b * f - c * e, c * d - a * f, a * e - b * d


def _sign_at(row: Row, point: Row) -> int:
    """The sign of a form at a point in homogeneous coordinates."""
    value = sum(a * x for a, x in zip(row, point, strict=True))
    if point[2] < 0:
        value = -value
    return (value > 0) - (value < 0)
