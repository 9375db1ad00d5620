"""The sides of a bounded domain of dimension 1 or 2, exactly."""

from fractions import Fraction
from itertools import combinations

import numpy as np

from hardmax.errors import ArgumentError
from hardmax.regions.charted_domains import ChartedDomain

Row = tuple[int, ...]
Point = tuple[Fraction, ...]

_UNBOUNDED = (
    "`domain` must be bounded for a GraphNetwork, but it is unbounded. If the network is small, "
    "pass its property `network` as the model instead; it can be searched on any domain."
)


def domain_sides(domain: ChartedDomain) -> tuple[list[Row], list[Point]]:
    """Return the sides of a bounded domain of dimension 1 or 2, and its vertices.

    Sides are integer forms that are positive inside: those of a segment from left to right, those
    of a polygon counter-clockwise, each after the vertex it begins at.

    Raises:
        ArgumentError: If the domain is not bounded.
    """
    return _ends(domain) if domain.dim == 1 else _polygon(domain)


def _ends(domain: ChartedDomain) -> tuple[list[Row], list[Point]]:
    rows: list[Row] = [(-int(a), int(b)) for a, b in domain.exact_rows.tolist()]
    zeros = {row: Fraction(-row[1], row[0]) for row in rows if row[0]}
    low = max((row for row in zeros if row[0] > 0), key=zeros.__getitem__, default=None)
    high = min((row for row in zeros if row[0] < 0), key=zeros.__getitem__, default=None)
    if low is None or high is None:
        raise ArgumentError(_UNBOUNDED)
    return [low, high], [(zeros[low],), (zeros[high],)]


def _polygon(domain: ChartedDomain) -> tuple[list[Row], list[Point]]:
    rows: list[Row] = [(-int(a), -int(b), int(c)) for a, b, c in domain.exact_rows.tolist()]
    corners: dict[tuple[Fraction, Fraction], set[int]] = {}
    for i, j in combinations(range(len(rows)), 2):
        x, y, w = _meet(rows[i], rows[j])
        if w and all(_sign_at(row, (x, y, w)) >= 0 for row in rows):
            corners.setdefault((Fraction(x, w), Fraction(y, w)), set()).update((i, j))
    if len(corners) < 3:
        raise ArgumentError(_UNBOUNDED)
    centre = [sum(p[k] for p in corners) / len(corners) for k in (0, 1)]
    order = sorted(
        corners, key=lambda p: np.arctan2(float(p[1] - centre[1]), float(p[0] - centre[0]))
    )
    edges = []
    for p, q in zip(order, [*order[1:], order[0]], strict=True):
        shared = [i for i in corners[p] & corners[q] if any(rows[i][:2])]
        if not shared:
            raise ArgumentError(_UNBOUNDED)
        edges.append(rows[shared[0]])
    return edges, [(x, y) for x, y in order]


def rounded_row(row: Row) -> list[float]:
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
