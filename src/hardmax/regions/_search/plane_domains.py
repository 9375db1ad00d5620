"""The first polygon of a planar search: a box, a convex polygon, or the plane, with its chart."""

from math import frexp
from typing import Any, NamedTuple

import numpy as np

from hardmax.errors import ArgumentError
from hardmax.exact.dyadic import scaled_rows
from hardmax.exact.rounding import enclosed_quotient
from hardmax.models._arithmetic.recomposition import RationalForms
from hardmax.regions._search.exact_polygons import Line, Vertex, clip, whole_plane
from hardmax.regions._search.searches import N_EDGE, CellStruct, PlaneCell
from hardmax.regions.charted_domains import ChartedDomain, charted
from hardmax.typing import AnyArray, FloatArray


class PlanarDomain(NamedTuple):
    """A domain in the form in which a search starts.

    Attributes:
        inputs: The inputs as exact forms in the coordinates of the plane; None for the identity.
        rows: The inequalities `(a, b)` of the domain: floats for a box, otherwise exact integers.
        cell: The first polygon; each wall is `(-1, row of an inequality, 0, 0)`.
        is_bounded: Whether no vertex is at infinity.
        scale: A power of two, at least 1, that no coordinate of a vertex exceeds.
        cell_struct: The polygon as the core reads it.
    """

    inputs: RationalForms | None
    rows: AnyArray
    cell: PlaneCell
    is_bounded: bool
    scale: float
    cell_struct: CellStruct

    @property
    def lines(self) -> list[Line]:
        """The exact line of each row; indices -1 to -4 are the sides of the plane."""
        exact = self.rows if self.rows.dtype == object else scaled_rows(self.rows)[0]
        lines = [(-row[0], -row[1], row[2], 0) for row in exact.tolist()]
        return lines + [edge.line for edge in reversed(whole_plane())]


def read_planar_domain(domain: Any, dim_in: int) -> PlanarDomain:
    """Read a domain of dimension 2.

    Args:
        domain: A domain with two coordinates, in the input space of the model.
        dim_in: The dimension of the model's input.

    Raises:
        ArgumentError: If the domain is not planar, lies in another space, or has no interior.
    """
    read = charted(domain, dim_in)
    if read.dim != 2:
        raise ArgumentError(f"`domain` must have dimension 2; got {read.dim}.")
    known: PlanarDomain | None = read.kept.get("planar")
    if known is None:
        known = _domain_from_box(*read.corners) if read.corners else _domain_from_rows(read)
        read.kept["planar"] = known
    return known


def _domain_from_rows(read: ChartedDomain) -> PlanarDomain:
    """Compute the polygon where all inequalities hold from their exact rows."""
    polygon = whole_plane()
    for i, row in enumerate(read.exact_rows.tolist()):
        line = -row[0], -row[1], row[2], 0
        polygon = clip(polygon, line, (-1, i, 0, 0), i)
    edges = np.zeros((len(polygon), N_EDGE))
    for columns, edge in zip(edges, polygon, strict=True):
        columns[:6] = round_line(edge.line)
        columns[6:] = round_vertex(edge.start)
    walls = np.array([edge.label for edge in polygon], dtype=np.int32)
    return _make_domain(read.inputs, read.exact_rows, edges, walls)


def _domain_from_box(low: FloatArray, high: FloatArray) -> PlanarDomain:
    """Return a box as a domain; all its numbers are exact."""
    (x0, y0), (x1, y1) = low.tolist(), high.tolist()
    edges = np.zeros((4, N_EDGE))
    edges[:, :3] = [(0, 1, -y0), (-1, 0, x1), (0, -1, y1), (1, 0, -x0)]
    edges[:, 6:8] = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
    # The rows are ordered as in `Box.inequalities`.
    walls = np.array([(-1, row, 0, 0) for row in (3, 0, 1, 2)], dtype=np.int32)
    rows = np.array([(1, 0, x1), (0, 1, y1), (-1, 0, -x0), (0, -1, -y0)], dtype=np.float64)
    return _make_domain(None, rows, edges, walls)


def _make_domain(
    inputs: RationalForms | None, rows: AnyArray, edges: FloatArray, walls: AnyArray
) -> PlanarDomain:
    """Return the domain whose first polygon is given."""
    largest = float(np.abs(edges[:, 6:8]).max(initial=1.0))
    scale = float(2.0 ** min(frexp(largest)[1], 1000))
    is_bounded = not edges[:, 9:11].any()
    cell = PlaneCell(edges, walls)
    return PlanarDomain(inputs, rows, cell, is_bounded, scale, cell.as_struct())


def round_line(line: Line) -> list[float]:
    """Return the columns of a line: four coefficients near 1 or less, and two radii."""
    if line[3] != 0:
        return [float(line[0]), float(line[1]), 0.0, 1.0, 0.0, 0.0]
    # A power of two divides exactly, and keeps large integers within range.
    shift = max(abs(int(x)).bit_length() for x in line[:3])
    a1, a2, c = (enclosed_quotient(x, 1 << shift) for x in line[:3])
    return [a1[0], a2[0], c[0], 0.0, max(a1[1], a2[1]), c[1]]


def round_vertex(vertex: Vertex) -> list[float]:
    """Return the columns of a vertex: point, radius, direction, radius."""
    x0, x1, y0, y1, w = vertex
    x, y, dx, dy = (enclosed_quotient(number, w) for number in (x0, y0, x1, y1))
    return [x[0], y[0], max(x[1], y[1]), dx[0], dy[0], max(dx[1], dy[1])]
