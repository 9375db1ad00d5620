"""A certificate by tiling, prepared for the walk: the origin moved to where nothing is negative."""

from fractions import Fraction

import numpy as np

from hardmax.models.argmax import ArgmaxNetwork
from hardmax.typing import FloatArray, IntArray, WideArray
from hardmax.verify._fast.composition import exact_network
from hardmax.verify._fast.polygons import ROUNDED, Vector, lowest_corner, rounded_corners
from hardmax.verify._fast.refusals import RefusedError
from hardmax.verify._fast.walk import Walk

# Where the quadrants of an unbounded domain meet: seldom on a wall.
_ELSEWHERE = (1, 3, 1009)


def check_tiling(
    network: ArgmaxNetwork,
    domain: tuple[WideArray, int, WideArray],
    signatures: IntArray,
    witnesses: list[list[int]],
    share: tuple[int, int],
) -> None:
    r"""Check that each cell contains its witness and that the cells cover a planar domain.

    Args:
        network: The network.
        domain: Chart, denominator and inequalities of the domain, as in a certificate.
        signatures: In lexicographic order, none twice, every entry in range.
        witnesses: For each signature integers `(x, y, w)`, `w > 0`.
        share: The range of the cells to look at.

    Raises:
        RefusedError: If they do not.
    """
    chart, denominator, rows = domain
    sides: list[Vector] = [(-a, -b, c) for a, b, c in rows.tolist() if a or b or c]
    # With the origin at the corner of a bounded domain, there is only one quadrant.
    x, y, w = lowest_corner(sides) or _ELSEWHERE
    moved_chart = np.array(
        [[a * w, b * w, a * x + b * y + c * w] for a, b, c in chart.tolist()], object
    )
    moved_sides: list[Vector] = [(a * w, b * w, a * x + b * y + c * w) for a, b, c in sides]
    points: list[Vector] = [(p * w - x * r, q * w - y * r, r * w) for p, q, r in witnesses]
    rounded = rounded_corners(points)
    _check_inside(moved_sides, points, rounded)
    exact = exact_network(network, moved_chart, denominator * w)
    # What overflows is decided in integers.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        centre = _nearest(x, w), _nearest(y, w)
        Walk(exact, moved_sides, signatures, points, rounded, share, centre).run()


def _check_inside(sides: list[Vector], points: list[Vector], rounded: FloatArray) -> None:
    """Check that points are strictly inside a domain."""
    if not sides:
        return
    # Three products of entries at most 1, each wrong by `ROUNDED`, and the rounding of their sum.
    certain = (rounded_corners(sides).T @ rounded > 16 * ROUNDED).all(axis=0)
    for cell in np.flatnonzero(~certain).tolist():
        x, y, w = points[cell]
        if any(a * x + b * y + c * w <= 0 for a, b, c in sides):
            raise RefusedError("the witness is not inside the domain", cell)


def _nearest(x: int, w: int) -> float:
    try:
        return float(Fraction(x, w))
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")
