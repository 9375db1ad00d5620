r"""The cells of a power diagram in the plane, computed from its envelope and clipped to a domain.

A cell is a counter-clockwise cycle of points $(t x, t)$ with integer entries, where $t = 0$ for a
direction at infinity, together with the inequalities of its sides. Clipping by
$\langle a, x\rangle \le b$ requires the sign of $b t - \langle a, t x\rangle$ at each point.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from hardmax.exact.integer_vectors import Vector, primitive
from hardmax.geometry.descriptions import Generators, round_points
from hardmax.geometry.planar_envelopes import PlanarEnvelope
from hardmax.geometry.polytopes import Polytope
from hardmax.tropical.diagrams.power_cells import CellParts, PowerCell, certain_sides, wall
from hardmax.typing import BoolArray, IntArray

_OUTSIDE = -1
"""The label of a side on the boundary of the domain."""
_INFINITY: Vector = (0, 0, 1)
"""The row $0 \\le 1$ of the side between two directions at infinity."""


class Side(NamedTuple):
    """A corner of a cell, and the side that begins there.

    Attributes:
        corner: The point $(t x, t)$.
        row: The inequality $(a, b)$ of the side.
        rival: The form that wins beyond it; `_OUTSIDE` on the boundary of the domain and at
            infinity.
    """

    corner: Vector
    row: Vector
    rival: int


def planar_cells(
    envelope: PlanarEnvelope, names: IntArray, domain: Sequence[Vector]
) -> list[PowerCell]:
    """Return the cells that meet the interior of a domain, clipped to it and sorted by site.

    Args:
        envelope: All cells on the plane.
        names: The site of each form.
        domain: The inequalities of the domain, which has interior points.
    """
    domain = [row for row in domain if any(row[:2])]
    sites = names[envelope.sites].tolist()
    starts = envelope.starts.tolist()
    is_bounded = envelope.corners[envelope.starts[1:] - 1] >= 0
    corners = envelope.vertices[envelope.corners]
    inside, outside = _classify_cells(envelope, is_bounded, domain)
    closed, whole = is_bounded.tolist(), inside.tolist()
    cells = []
    for i in np.flatnonzero(~outside).tolist():
        ring = corners[starts[i] : starts[i + 1]] if closed[i] else None
        parts = partial(_describe_whole_cell, envelope, names, i)
        if not whole[i]:
            sides = clip_sides(cell_sides(envelope, i), domain)
            if not sides:
                continue
            points = [side.corner for side in sides]
            ring = round_points(points, 2) if all(point[-1] for point in points) else None
            parts = partial(_describe_sides, sides, names)
        cells.append(PowerCell(sites[i], 2, parts, ring))
    return cells


def cell_sides(envelope: PlanarEnvelope, i: int) -> list[Side]:
    """Return the sides of cell `i`; an unbounded cell ends with a side at infinity."""
    span = slice(envelope.starts[i], envelope.starts[i + 1])
    rivals, corners = envelope.neighbours[span].tolist(), envelope.corners[span].tolist()
    form = tuple(envelope.rows[envelope.sites[i]].tolist())
    rows = [wall(form, tuple(envelope.rows[j].tolist())) for j in rivals]
    points = [envelope.exact_vertex(k) if k >= 0 else None for k in corners]
    sides = []
    for k, (row, rival) in enumerate(zip(rows, rivals, strict=True)):
        # If (a, b) is the outward normal of a side, the boundary runs along (-b, a).
        begin = points[k - 1] or primitive((row[1], -row[0], 0))
        sides.append(Side(begin, row, rival))
    if points[-1] is None:
        last = primitive((-rows[-1][1], rows[-1][0], 0))
        if last != sides[0].corner:  # Otherwise, two parallel sides meet at infinity.
            sides.append(Side(last, _INFINITY, _OUTSIDE))
        return sides
    return sides[1:] + sides[:1]  # Start at the first entry of `corners`.


def clip_sides(sides: list[Side], domain: Sequence[Vector]) -> list[Side]:
    """Return the part of a cell inside all half-planes, or no sides if it has no interior.

    A convex set with interior points meets an open half-plane if and only if one of its corners or
    directions lies in it; the intersection then has interior points.
    """
    for row in domain:
        heights = [row[2] * t - row[0] * x - row[1] * y for (x, y, t), _, _ in sides]
        if max(heights) <= 0:
            return []
        if min(heights) >= 0:
            sides = _relabel_sides(sides, heights, row)
            continue
        kept: list[Side] = []
        for k, side in enumerate(sides):
            height, after = heights[k], heights[(k + 1) % len(sides)]
            if height >= 0 and (height > 0 or after > 0):
                kept.append(side)
            if (height > 0 > after) or (height < 0 < after):
                other = sides[(k + 1) % len(sides)].corner
                pairs = zip(side.corner, other, strict=True)
                weight, rest = abs(after), abs(height)
                corner = primitive(weight * p + rest * q for p, q in pairs)
                is_leaving = height > 0
                kept.append(
                    Side(corner, row, _OUTSIDE) if is_leaving else side._replace(corner=corner)
                )
            elif height == 0 and after < 0:
                kept.append(Side(side.corner, row, _OUTSIDE))
        sides = kept
    return sides


def _relabel_sides(sides: list[Side], heights: list[int], row: Vector) -> list[Side]:
    """Label a side that lies on the boundary of the domain as a side of the domain."""
    after = heights[1:] + heights[:1]
    return [
        side._replace(row=row, rival=_OUTSIDE) if h == a == 0 and side.row != _INFINITY else side
        for side, h, a in zip(sides, heights, after, strict=True)
    ]


def _classify_cells(
    envelope: PlanarEnvelope, is_bounded: BoolArray, domain: Sequence[Vector]
) -> tuple[BoolArray, BoolArray]:
    """Tell which cells are certainly inside the domain, and which are certainly outside."""
    n_cells = len(is_bounded)
    if not domain:
        return np.ones(n_cells, dtype=np.bool_), np.zeros(n_cells, dtype=np.bool_)
    above, below = certain_sides(envelope.vertices, domain)
    corners, starts = envelope.corners, envelope.starts[:-1]
    inside = np.logical_and.reduceat(np.logical_and.reduce(above)[corners], starts)
    outside = np.logical_and.reduceat(below[:, corners], starts, axis=1).any(axis=0)
    return inside & is_bounded, outside & is_bounded


def _describe_whole_cell(envelope: PlanarEnvelope, names: IntArray, i: int) -> CellParts:
    return _describe_sides(cell_sides(envelope, i), names)


def _describe_sides(sides: list[Side], names: IntArray) -> CellParts:
    places = [k for k, side in enumerate(sides) if side.row != _INFINITY]
    number = {k: local for local, k in enumerate(places)}
    tight = [
        frozenset(number[j] for j in (k, (k - 1) % len(sides)) if j in number)
        for k in range(len(sides))
    ]
    points = [k for k, side in enumerate(sides) if side.corner[-1]]
    rays = [k for k, side in enumerate(sides) if not side.corner[-1]]
    generators = Generators(
        tuple(sides[k].corner for k in points),
        tuple(sides[k].corner[:-1] for k in rays),
        (),
        tuple(tight[k] for k in points + rays),
    )
    polytope = Polytope.from_rows([sides[k].row for k in places], 2, generators)
    rivals = np.array([sides[k].rival for k in places], dtype=np.int64)
    return CellParts(polytope, np.where(rivals >= 0, names[rivals], rivals), True)
