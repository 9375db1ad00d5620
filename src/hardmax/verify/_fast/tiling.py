"""Prepare a certificate by tiling for the walk, in coordinates that are suitable for floats."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import frexp, inf, lcm, ldexp
from typing import NamedTuple

import numpy as np

from hardmax.models.argmax import ArgmaxNetwork
from hardmax.typing import FloatArray, IntArray, WideArray
from hardmax.verify._fast.composition import exact_network
from hardmax.verify._fast.polygons import ROUNDED, Vector, domain_polygons, round_corners
from hardmax.verify._fast.refusals import RefusedError
from hardmax.verify._fast.walk import Walk


def check_tiling(
    network: ArgmaxNetwork,
    domain: tuple[WideArray, int, WideArray],
    signatures: IntArray,
    witnesses: list[list[int]],
    share: tuple[int, int],
    advance: Callable[[int], None] = lambda n_pieces: None,
) -> None:
    r"""Check that each cell contains its witness and that the cells cover a planar domain.

    Args:
        network: The network.
        domain: The chart, denominator and inequalities of the domain, as in a certificate.
        signatures: Distinct signatures in lexicographic order, with every entry in range.
        witnesses: For each signature, integers `(x, y, w)` with `w > 0`.
        share: The range of the cells to check.
        advance: Called with the number of pieces (cells or parts of cells) newly checked.

    Raises:
        RefusedError: If a witness is not inside its cell, or the cells do not cover the domain.
    """
    chart, denominator, rows = domain
    sides: list[Vector] = [(-a, -b, c) for a, b, c in rows.tolist() if a or b or c]
    frame = _choose_frame(sides, witnesses)
    moved_chart = [frame.form(row) for row in chart.tolist()]
    moved_sides = [frame.form(side) for side in sides]
    points = frame.points(witnesses)
    rounded = round_corners(points)
    _check_inside(moved_sides, points, rounded)
    unit = frame.form((0, 0, denominator))[2]
    exact = exact_network(network, np.array(moved_chart, dtype=object), unit)
    # Where floats overflow, integers decide.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        Walk(exact, moved_sides, signatures, points, rounded, share, frame.where).run(advance)


class _Frame(NamedTuple):
    r"""The coordinates $x', y'$ with $x = x_0 / w_0 + 2^i x'$ and $y = y_0 / w_0 + 2^j y'$.

    Attributes:
        origin: The integers $(x_0, y_0, w_0)$ with $w_0 > 0$.
        exponents: The exponents $i$ and $j$.
    """

    origin: Vector
    exponents: tuple[int, int]

    def form(self, row: Sequence[int]) -> Vector:
        """Return a form in these coordinates, times a positive factor common to all forms."""
        (a, b, c), (x, y, w), (i, j) = row, self.origin, self.exponents
        down = max(0, -i, -j)
        return (a * w) << (i + down), (b * w) << (j + down), (a * x + b * y + c * w) << down

    def points(self, points: Sequence[Sequence[int]]) -> list[Vector]:
        """Return homogeneous points in these coordinates."""
        (x, y, w), (i, j) = self.origin, self.exponents
        up = max(0, i, j)
        left, high = up - i, up - j
        return [
            ((p * w - x * r) << left, (q * w - y * r) << high, (r * w) << up) for p, q, r in points
        ]

    def where(self, corner: FloatArray) -> str:
        """Describe the position of a rounded point given in these coordinates."""
        places = []
        for x, start, exponent in zip(corner, self.origin, self.exponents, strict=False):
            near = ldexp(x / corner[2], exponent) if corner[2] else inf
            places.append(f"{near + start / self.origin[2]:.6g}")
        return "far away" if not corner[2] else f"near ({', '.join(places)})"


def _choose_frame(sides: list[Vector], witnesses: Sequence[Sequence[int]]) -> _Frame:
    """Choose coordinates in which floats lose few bits; only the speed depends on them.

    If the cells are spread over a bounded domain, the whole domain is in one quadrant, near 1.
    Otherwise, most witnesses are near 1.
    """
    polygons, _ = domain_polygons(sides)
    centres, exponents = [], []
    with np.errstate(all="ignore"):
        for points, corners in zip(
            _to_quotients(round_corners(witnesses)), _to_quotients(polygons.points), strict=True
        ):
            finite = points[np.abs(points) < 2.0**500]
            centre = _upper_median(finite)
            spread = _upper_median(np.abs(finite - centre))
            low, high = (corners.min(), corners.max()) if len(corners) else (0.0, 0.0)
            extent = float(high - low)
            if extent <= 64.0 * spread:
                centre, spread = float(low) - extent / 8, extent
            centres.append(Fraction(centre))
            exponents.append(frexp(spread)[1])
    scale = lcm(*(centre.denominator for centre in centres))
    origin = (*(int(centre * scale) for centre in centres), scale)
    return _Frame(origin, (exponents[0], exponents[1]))


def _upper_median(numbers: FloatArray) -> float:
    """Return the upper median; 0 if there are no numbers."""
    return float(np.sort(numbers)[len(numbers) // 2]) if len(numbers) else 0.0


def _to_quotients(points: FloatArray) -> FloatArray:
    """Return the coordinates of homogeneous points; infinite or NaN for points at infinity."""
    return np.asarray(points[:2] / points[2])


def _check_inside(sides: list[Vector], points: list[Vector], rounded: FloatArray) -> None:
    """Check that points are in the interior of a domain."""
    if not sides:
        return
    # Three products of entries at most 1, each with an error of `ROUNDED`, and a rounded sum.
    certain = (round_corners(sides).T @ rounded > 16 * ROUNDED).all(axis=0)
    for cell in np.flatnonzero(~certain).tolist():
        x, y, w = points[cell]
        if any(a * x + b * y + c * w <= 0 for a, b, c in sides):
            raise RefusedError("the witness is not inside the domain", cell)
