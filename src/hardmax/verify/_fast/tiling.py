r"""Completeness in the plane: the listed cells fit together to the whole domain.

The verifier computes the polygon of every listed signature from the model alone: the domain,
clipped by "the winner is at least the rival" for all rivals of all groups of all layers. Then it
adds up boundaries. Let $f = \sum_i 1_{C_i} - 1_D$ for the polygons $C_i$ and the domain $D$. If on
every line the edges of all $C_i$, each with the direction in which its polygon is gone round, add
up to the edges of $D$, then the gradient of $f$ as a distribution vanishes, so $f$ is constant, and
0 as it vanishes far away: the cells cover $D$ exactly once, and the areas agree. Conversely a cell
that is missing or listed twice leaves an edge over. On one line the directed segments add up to
zero if and only if their end points do, each counted $+1$ as an end and $-1$ as a start. So the
whole test counts pairs (line, vertex), and no area is ever computed. Cells need not meet face to
face.

Rounded numbers only say which inequalities need no look: the bound in `polygons`
proves them satisfied. What they leave open is decided in integers.
"""

import numpy as np

from hardmax.verify._fast.composition import ExactNetwork
from hardmax.verify._fast.floors import RefusedError
from hardmax.verify._fast.polygons import CoincidenceError, Piece, domain_pieces
from hardmax.verify._fast.walk import TreeWalk
from hardmax.typing import IntArray, WideArray


def check_tiling(
    network: ExactNetwork, rows: WideArray, signatures: IntArray, witnesses: list[list[int]]
) -> None:
    """Check that the cells tile a planar domain and that each contains its witness.

    Args:
        network: The network on the domain's chart.
        rows: The inequalities of the domain, integers `(a, b)`, shape `(n_rows, 3)`.
        signatures: In lexicographic order, none twice, every entry in range.
        witnesses: For each signature integers `(x, y, w)`, `w > 0`.

    Raises:
        RefusedError: If they do not.
    """
    attempt = 0
    while True:
        try:
            # What overflows is decided in integers.
            with np.errstate(over="ignore", invalid="ignore"):
                _check_pieces(network, domain_pieces(rows, attempt), signatures, witnesses)
        except CoincidenceError:
            # Walls are finitely many, crosses are not.
            attempt += 1
        else:
            return


def _check_pieces(
    network: ExactNetwork, pieces: list[Piece], signatures: IntArray, witnesses: list[list[int]]
) -> None:
    if not pieces:
        raise RefusedError("the domain has no interior")
    walk = TreeWalk.read(network, signatures)
    has_interior = np.zeros(len(signatures), dtype=np.bool_)
    boundaries = []
    for piece in pieces:
        lines: list[int] = []
        starts: list[int] = []
        ends: list[int] = []
        for cell, polygon in walk.leaves(piece):
            has_interior[cell] = True
            vertices, edges = polygon
            point = witnesses[cell]
            for edge in edges:
                line = edge >> 1
                if line not in piece.helpers:
                    value = piece.plane.value(line, (point[0], point[1], point[2]))
                    if value >= 0 if edge & 1 else value <= 0:
                        raise RefusedError("the witness is not inside its cell", cell)
                lines.append(line)
            starts += vertices
            ends += vertices[1:]
            ends.append(vertices[0])
        boundaries.append((lines, starts, ends))
    if not has_interior.all():
        raise RefusedError("the cell has no interior", int(np.argmin(has_interior)))
    for piece, boundary in zip(pieces, boundaries, strict=True):
        _check_boundary(piece, *boundary)


def _check_boundary(piece: Piece, lines: list[int], starts: list[int], ends: list[int]) -> None:
    plane, (vertices, edges) = piece.plane, piece.polygon
    line = np.array(lines + [edge >> 1 for edge in edges])
    start = np.array(starts + vertices)
    end = np.array([*ends, *vertices[1:], vertices[0]])
    weight = np.ones(len(line), dtype=np.int64)
    weight[len(lines) :] = -1
    keys = np.concatenate([line, line]) * len(plane.vertices) + np.concatenate([end, start])
    found, place = np.unique(keys, return_inverse=True)
    total = np.zeros(len(found), dtype=np.int64)
    np.add.at(total, place, np.concatenate([weight, -weight]))
    if total.any():
        x, y, w = plane.vertices[int(found[np.flatnonzero(total)[0]]) % len(plane.vertices)]
        where = f"near ({_quotient(x, w)}, {_quotient(y, w)})" if w else "at infinity"
        raise RefusedError(
            "the cells do not cover the domain exactly once: an edge that ends "
            f"{where} has a cell on one side only"
        )


def _quotient(x: int, w: int) -> str:
    try:
        return f"{x / w:.6g}"
    except OverflowError:
        return "inf" if x > 0 else "-inf"
