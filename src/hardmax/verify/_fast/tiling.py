"""A certificate by tiling, prepared for the walk: the origin moved to where nothing is negative."""

from fractions import Fraction

import numpy as np

from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.typing import IntArray, WideArray
from hardmax.verify._fast.composition import exact_network
from hardmax.verify._fast.polygons import Vector, lowest_corner
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
    for cell, point in enumerate(points):
        if any(a * point[0] + b * point[1] + c * point[2] <= 0 for a, b, c in moved_sides):
            raise RefusedError("the witness is not inside the domain", cell)
    exact = exact_network(network, moved_chart, denominator * w)
    # What overflows is decided in integers.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        centre = _nearest(x, w), _nearest(y, w)
        Walk(exact, moved_sides, signatures, points, share, centre).run()


def _nearest(x: int, w: int) -> float:
    try:
        return float(Fraction(x, w))
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")
