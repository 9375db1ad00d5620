"""Rational points inside the cells of a planar tiling, for its certificate.

The polygons are those the verifier will compute. A point is taken from rounded vertices if it is
strictly inside, since it is short then; otherwise it is the sum of the vertices, homogeneous
integer vectors, which is strictly inside their cone.
"""

import numpy as np

from hardmax.geometry.integer_vectors import Vector, primitive
from hardmax.regions.verification_composition import ExactNetwork
from hardmax.regions.verification_polygons import (
    CoincidenceError,
    Piece,
    Polygon,
    domain_pieces,
)
from hardmax.regions.verification_walk import TreeWalk
from hardmax.typing import IntArray, WideArray


def interior_points(
    network: ExactNetwork,
    rows: WideArray,
    signatures: IntArray,
    candidates: list[Vector | None],
) -> list[Vector | None]:
    """Find a point inside every cell.

    Args:
        network: The network on a planar chart.
        rows: The inequalities of the domain.
        signatures: The cells in lexicographic order, none twice.
        candidates: Points to use where they are inside, integers `(x, y, w)` with `w > 0`.

    Returns:
        Integers `(x, y, w)` with `w > 0`; None for a cell without interior.

    Raises:
        RefusedError: If a signature does not name a cell by the first of coinciding forms.
    """
    attempt = 0
    while True:
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                pieces = domain_pieces(rows, attempt)
                return _points(TreeWalk.read(network, signatures), pieces, candidates)
        except CoincidenceError:
            attempt += 1


def _points(
    walk: TreeWalk, pieces: list[Piece], candidates: list[Vector | None]
) -> list[Vector | None]:
    given = list(candidates)
    found: list[Vector | None] = [None] * len(given)
    for piece in pieces:
        for cell, polygon in walk.leaves(piece):
            # Every side of the cell is a side of one of its parts.
            candidate = given[cell]
            if candidate is not None and not _is_inside(piece, polygon, candidate, piece.helpers):
                given[cell] = None
            if found[cell] is None:
                found[cell] = _inside(piece, polygon)
    return [f if g is None or f is None else g for f, g in zip(found, given, strict=True)]


def _inside(piece: Piece, polygon: Polygon) -> Vector:
    corners = np.array([piece.plane.rounded_vertices[v] for v in polygon.vertices])
    finite = corners[corners[:, 2] > 0]
    with np.errstate(all="ignore"):
        x, y = (finite[:, :2] / finite[:, 2:]).mean(axis=0) if len(finite) else (0.0, 0.0)
        far = corners[corners[:, 2] == 0].sum(axis=0) * (1.0 + abs(x) + abs(y))
        x, y = float(x + far[0]), float(y + far[1])
    if np.isfinite(x) and np.isfinite(y):
        (p, q), (r, s) = x.as_integer_ratio(), y.as_integer_ratio()
        scale = max(q, s)
        point = (p * (scale // q), r * (scale // s), scale)
        if _is_inside(piece, polygon, point, frozenset()):
            return point
    vertices = [piece.plane.vertices[v] for v in polygon.vertices]
    return primitive(sum(column) for column in zip(*vertices, strict=True))


def _is_inside(piece: Piece, polygon: Polygon, point: Vector, ignored: frozenset[int]) -> bool:
    x, y, w = point
    for edge in polygon.edges:
        if edge >> 1 not in ignored:
            value = piece.plane.value(edge >> 1, (x, y, w))
            if value >= 0 if edge & 1 else value <= 0:
                return False
    return True
