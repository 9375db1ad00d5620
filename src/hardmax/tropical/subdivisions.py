r"""The regular subdivision dual to a tropical polynomial in one or two variables, exactly.

Lift each exponent $a_j$ to the height $c_j$. The upper faces of the convex hull of the points
$(a_j, c_j)$ project to a subdivision of the Newton polytope. Its vertices correspond to the active
terms (the regions of $P$), its edges to the walls, and its polygons to the vertices of the tropical
curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.errors import ArgumentError
from hardmax.exact.dyadic import nearest_floats
from hardmax.tropical.coefficients import like_terms
from hardmax.tropical.envelopes import upper_chain
from hardmax.typing import FloatArray, IntArray, WideArray

if TYPE_CHECKING:
    from hardmax.tropical.polynomials import TropicalPolynomial

Point = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class DualSubdivision:
    r"""A regular subdivision of the Newton polytope, in terms of term indices.

    If all exponents lie on a line, the cells are segments, also in two variables. If all exponents
    are equal, there is one cell, a point. Equal terms are all listed on a cell, and the first of
    them represents them as a corner.

    Attributes:
        cells: For each maximal cell, all terms on its upper face in ascending order: its corners,
            and the terms that attain the maximum only where the corners do.
        corners: For each cell, its extreme terms: counter-clockwise in the plane, or from one end
            to the other on a line.
        edges: The pairs of corners that span an edge, shape `(n_edges, 2)`. If the cells are
            segments, these are the cells themselves.
        edge_terms: For each edge, all terms on it in ascending order.
        edge_cells: For each edge, the cell on its left and the cell on its right, or -1 beyond the
            boundary, shape `(n_edges, 2)`. A cell that is a segment is listed on the left of its
            edge, with -1 on the right.
        exact_dual_points: For each cell, a rational point $x$ at which its terms attain the
            maximum, as fractions, shape `(n_cells, dim)`. If the cell is full-dimensional, this is
            a vertex of the tropical hypersurface; otherwise it is the point of the dual face that
            is nearest to the origin.
        exact_volumes: The length (in one variable) or area (in two variables) of each cell, as
            fractions. In two variables, segments and points have area 0.

    References:
        [MS15], [GKZ94].

    Examples:
        >>> from hardmax import TropicalPolynomial
        >>> division = dual_subdivision(TropicalPolynomial([[0], [1], [2]], [0, 1, 0]))
        >>> division.n_cells, division.dual_points.tolist()
        (2, [[-1.0], [1.0]])
    """

    cells: tuple[IntArray, ...]
    corners: tuple[IntArray, ...]
    edges: IntArray
    edge_terms: tuple[IntArray, ...]
    edge_cells: IntArray
    exact_dual_points: WideArray
    exact_volumes: tuple[Fraction, ...]

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def n_cells(self) -> int:
        """The number of maximal cells."""
        return len(self.cells)

    @property
    def vertices(self) -> IntArray:
        """The terms that are corners of a cell, in ascending order. These are the active terms."""
        return np.unique(np.concatenate(self.corners))

    @property
    def dual_points(self) -> FloatArray:
        """The `exact_dual_points`, with each coordinate rounded to the nearest float64."""
        return nearest_floats(self.exact_dual_points)


def dual_subdivision(polynomial: TropicalPolynomial) -> DualSubdivision:
    r"""Return the dual subdivision of a polynomial in one or two variables.

    The algorithm is gift wrapping in exact integers, with $O(n_{\text{terms}})$ orientation tests
    per edge.

    Raises:
        ArgumentError: If the polynomial has more than two variables.

    Examples:
        A tropical curve with one vertex and three walls. The last term attains the maximum only at
        the vertex, so it is listed but is not a corner.

        >>> from hardmax import TropicalPolynomial
        >>> P = TropicalPolynomial([[3, 0], [0, 3], [0, 0], [1, 1]], [0, 0, 0, 0])
        >>> division = dual_subdivision(P)
        >>> [cell.tolist() for cell in division.cells], division.corners[0].tolist()
        ([[0, 1, 2, 3]], [2, 0, 1])
        >>> division.dual_points.tolist(), division.exact_volumes
        ([[0.0, 0.0]], (Fraction(9, 2),))

        Exponents on a line yield parallel walls, which are dual to segments:

        >>> dual_subdivision(TropicalPolynomial([[0, 0], [1, 1], [2, 2]], [0, 1, 0])).n_cells
        2
    """
    if polynomial.dim > 2:
        raise ArgumentError(
            "`polynomial` must have one or two variables for its dual subdivision; "
            f"got {polynomial.dim}."
        )
    exact = polynomial.coefficients
    rows: list[Point] = [tuple(row) for row in exact.integers.tolist()]
    chosen = sorted(like_terms(exact.integers).tolist(), key=lambda index: rows[index])
    copies: dict[Point, list[int]] = {}
    for index, row in enumerate(rows):
        copies.setdefault(row, []).append(index)
    unit = Fraction(2) ** exact.exponent
    if polynomial.dim == 2 and not _are_collinear([rows[index] for index in chosen]):
        return _subdivide_plane(rows, chosen, copies, unit)
    return _subdivide_line(rows, chosen, copies, unit)


def _subdivide_line(
    rows: list[Point], chosen: list[int], copies: dict[Point, list[int]], unit: Fraction
) -> DualSubdivision:
    """Subdivide exponents on a line: the edges of an upper hull in the plane."""
    # Sorted lexicographically, points on a line are sorted along it.
    dim = len(rows[0]) - 1
    chain = _hull_chain(rows, chosen)
    corners = [chain] if len(chain) == 1 else [list(pair) for pair in pairwise(chain)]
    cells = [_list_terms_on_segment(rows, chosen, copies, pair[0], pair[-1]) for pair in corners]
    points = np.empty((len(corners), dim), dtype=object)
    for k, pair in enumerate(corners):
        points[k] = _find_nearest_dual_point(rows[pair[0]], rows[pair[-1]])
    lengths = [
        (rows[pair[-1]][0] - rows[pair[0]][0]) * unit if dim == 1 else Fraction(0)
        for pair in corners
    ]
    segments = corners if len(chain) > 1 else []
    return DualSubdivision(
        cells=tuple(cells),
        corners=tuple(np.array(pair, dtype=np.int64) for pair in corners),
        edges=np.array(segments, dtype=np.int64).reshape(-1, 2),
        edge_terms=tuple(cells[: len(segments)]),
        edge_cells=np.array([[k, -1] for k in range(len(segments))], np.int64).reshape(-1, 2),
        exact_dual_points=points,
        exact_volumes=tuple(Fraction(length) for length in lengths),
    )


def _subdivide_plane(
    rows: list[Point], chosen: list[int], copies: dict[Point, list[int]], unit: Fraction
) -> DualSubdivision:
    """Subdivide exponents that span the plane: wrap the upper hull, edge by edge."""
    outline = _hull_corners(rows, chosen)
    left_cell: dict[tuple[int, int], int] = {}
    cells: list[list[int]] = []
    corners: list[list[int]] = []
    points: list[list[Fraction]] = []
    start, end = outline[0], outline[1]
    on_side = [i for i in chosen if _orientation(rows[start], rows[end], rows[i]) == 0]
    first = _hull_chain(rows, on_side)  # The outline starts at the smallest row.
    pending = [(first[0], first[1])]
    while pending:
        edge = pending.pop()
        if edge in left_cell:
            continue
        normal = _find_left_plane(rows, chosen, *edge)
        if normal is None:
            continue  # The other side of an edge on the boundary.
        height = _dot(normal, rows[edge[0]])
        face = [i for i in chosen if _dot(normal, rows[i]) == height]
        polygon = _hull_corners(rows, face)
        for pair in zip(polygon, polygon[1:] + polygon[:1], strict=True):
            left_cell[pair] = len(cells)
            pending.append((pair[1], pair[0]))
        cells.append(face)
        corners.append(polygon)
        points.append([Fraction(normal[0], normal[2]), Fraction(normal[1], normal[2])])
    edges = [pair for pair in left_cell if pair[0] < pair[1] or pair[::-1] not in left_cell]
    dual_points = np.empty((len(points), 2), dtype=object)
    dual_points[:] = points
    return DualSubdivision(
        cells=tuple(_add_copies(rows, copies, face) for face in cells),
        corners=tuple(np.array(polygon, dtype=np.int64) for polygon in corners),
        edges=np.array(edges, dtype=np.int64),
        edge_terms=tuple(
            _list_terms_on_segment(rows, cells[left_cell[pair]], copies, *pair) for pair in edges
        ),
        edge_cells=np.array(
            [(left_cell[pair], left_cell.get(pair[::-1], -1)) for pair in edges], dtype=np.int64
        ),
        exact_dual_points=dual_points,
        exact_volumes=tuple(_area(rows, polygon) * unit**2 for polygon in corners),
    )


def _find_left_plane(rows: list[Point], chosen: list[int], start: int, end: int) -> Point | None:
    r"""Find the upper hull's plane through an edge and a point to its left.

    Returns:
        The normal $(n_1, n_2, n_3)$ with $n_3 > 0$, or `None` if no point lies to the left.
    """
    p, q = rows[start], rows[end]
    normal: Point | None = None
    height = 0
    for index in chosen:
        r = rows[index]
        if _orientation(p, q, r) > 0 and (normal is None or _dot(normal, r) > height):
            normal = _cross(p, q, r)
            height = _dot(normal, p)
    return normal


def _hull_chain(rows: list[Point], members: list[int]) -> list[int]:
    """Return the upper hull of lifted points whose exponents are sorted along a line."""
    first, last = rows[members[0]][:-1], rows[members[-1]][:-1]
    direction = [b - a for a, b in zip(first, last, strict=True)]
    flat = [(_dot(direction, rows[i][:-1]), rows[i][-1]) for i in members]
    return [members[k] for k in upper_chain(flat)]


def _hull_corners(rows: list[Point], members: list[int]) -> list[int]:
    """Return the corners of the convex hull of the exponents in counter-clockwise order."""
    ordered = sorted(members, key=lambda index: rows[index])
    halves: list[list[int]] = []
    for sequence in (ordered, ordered[::-1]):
        half: list[int] = []
        for index in sequence:
            while len(half) > 1 and _orientation(rows[half[-2]], rows[half[-1]], rows[index]) <= 0:
                half.pop()
            half.append(index)
        halves.append(half[:-1])
    return halves[0] + halves[1]


def _list_terms_on_segment(
    rows: list[Point], members: list[int], copies: dict[Point, list[int]], start: int, end: int
) -> IntArray:
    """Return the terms on an edge of the upper hull. No other term lies on the line through it."""
    on = [i for i in members if _are_aligned(rows[start], rows[end], rows[i])]
    return _add_copies(rows, copies, on)


def _add_copies(rows: list[Point], copies: dict[Point, list[int]], members: list[int]) -> IntArray:
    return np.array(sorted(i for m in members for i in copies[rows[m]]), dtype=np.int64)


def _find_nearest_dual_point(p: Point, q: Point) -> list[Fraction]:
    """Return the point nearest to the origin where two terms tie (the origin if they are equal)."""
    step = [b - a for a, b in zip(p[:-1], q[:-1], strict=True)]
    squared = _dot(step, step)
    return [Fraction((p[-1] - q[-1]) * s, squared) if squared else Fraction(0) for s in step]


def _area(rows: list[Point], polygon: list[int]) -> Fraction:
    p = rows[polygon[0]]
    return Fraction(sum(_orientation(p, rows[i], rows[k]) for i, k in pairwise(polygon[1:])), 2)


def _orientation(p: Point, q: Point, r: Point) -> int:
    """Return twice the signed area of a triangle, using the first two coordinates."""
    return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])


def _cross(p: Point, q: Point, r: Point) -> Point:
    u = [b - a for a, b in zip(p, q, strict=True)]
    v = [b - a for a, b in zip(p, r, strict=True)]
    return (
        u[1] * v[2] - u[2] * v[1],
        u[2] * v[0] - u[0] * v[2],
        u[0] * v[1] - u[1] * v[0],
    )


def _are_aligned(p: Point, q: Point, r: Point) -> bool:
    """Decide whether three points lie on a line, in any dimension."""
    u = [b - a for a, b in zip(p, q, strict=True)]
    v = [b - a for a, b in zip(p, r, strict=True)]
    lead = next((k for k, entry in enumerate(u) if entry), None)
    return lead is None or all(u[lead] * b == u[k] * v[lead] for k, b in enumerate(v))


def _are_collinear(points: list[Point]) -> bool:
    """Decide whether the exponents lie on a line; `points` are sorted."""
    return all(_orientation(points[0], points[-1], p) == 0 for p in points)


def _dot(u: Sequence[int], v: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(u, v, strict=True))
