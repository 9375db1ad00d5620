r"""A difference of convex functions for any cells: fill every concave kink along its hyperplane.

Let $\alpha_H \ge 0$ be the largest $|\kappa|$ of the concave kinks of $f$ on the hyperplane
$H = \{\ell_H = 0\}$. Then $Q = \sum_H \alpha_H \max(0, \ell_H)$ is convex, and $P = f + Q$ has no
negative kink, so it is convex as well. $Q$ has one unit of rank 2 for each used hyperplane. $P$ is
one unit, with a form for each piece into which the used hyperplanes cut the cells of $f$: many,
which is why this comes last, and why the count is bounded before the work starts. In a cell that
$m$ of the hyperplanes cross there are at most $\sum_{j \le d} \binom{m}{j}$ pieces.
"""

from math import comb

import numpy as np
from flint import fmpq

from hardmax.constructions.compilers.functions.exact_pieces import ExactPieces
from hardmax.constructions.compilers.maxout_assembly import distinct
from hardmax.errors import SizeLimitError
from hardmax.exact.integer_vectors import Vector, wide_rows
from hardmax.geometry.cones import decide_open_cone
from hardmax.typing import WideArray

Fills = dict[Vector, fmpq]
"""The used hyperplanes of one output, each with its $\\alpha_H$."""


def fills(pieces: ExactPieces, kinks: WideArray) -> Fills:
    r"""Collect the hyperplanes with a concave kink.

    Args:
        pieces: The function.
        kinks: The kinks of one output, shape `(n_facets,)`.
    """
    found: Fills = {}
    for kink, (_, _, row) in zip(kinks.tolist(), pieces.facets, strict=True):
        if kink < 0:
            # Seen from the other side the hyperplane has the opposite row and the same kink.
            name = max(row, tuple(-x for x in row))
            found[name] = max(found.get(name, fmpq(0)), -kink)
    return found


def most_pieces(pieces: ExactPieces, used: Fills) -> int:
    """Bound the number of pieces of $P$ without forming them."""
    return sum(
        sum(comb(len(crossing), j) for j in range(pieces.dim + 1))
        for crossing in _crossings(pieces, used)
    )


def require_few_pieces(pieces: ExactPieces, used: list[Fills], max_pieces: int) -> None:
    """Refuse before the work what could become too large.

    Raises:
        SizeLimitError: If all outputs together could have more than `max_pieces` pieces.
    """
    count = sum(most_pieces(pieces, one) for one in used)
    if count > max_pieces:
        planes = sum(map(len, used))
        raise SizeLimitError(
            f"filling the concave kinks along {planes} hyperplanes cuts the {pieces.n_cells} cells "
            f"into up to {count} pieces, more than `max_pieces` = {max_pieces}; use a mesh that is "
            "Delaunay or regular (it needs no new pieces), raise `max_pieces`, or compile a mesh "
            'with `method="hats"`.'
        )


def filled_units(pieces: ExactPieces, output: int, used: Fills) -> list[WideArray]:
    """Return the unit $P$ of one output and then the units of its $Q$, as exact forms.

    The output is the first unit minus all others.
    """
    dim = pieces.dim
    planes = {row: np.array([alpha * x for x in row], dtype=object) for row, alpha in used.items()}
    height: Vector = (*(0,) * dim, 1)
    forms: list[WideArray] = []
    for cell, crossing in enumerate(_crossings(pieces, used)):
        form = pieces.forms[cell, output]
        corners = pieces.corners[cell]
        inside = set(crossing)
        for row in used:
            # A hyperplane that does not cross the cell has one sign on all of it.
            if row not in inside and any(x > 0 for x in corners @ np.array(row, dtype=object)):
                form = form + planes[row]
        parts = [(form, [*pieces.rows[cell], height])]
        for row in crossing:
            opposite = tuple(-x for x in row)
            parts = [
                (part if side is opposite else part + planes[row], [*rows, side])
                for part, rows in parts
                for side in (row, opposite)
                if _is_open([*rows, side], dim)
            ]
        forms += [part for part, _ in parts]
    convex = distinct(np.stack(forms))
    zero = np.array([fmpq(0)] * (dim + 1), dtype=object)
    return [convex, *(np.stack([zero, plane]) for plane in planes.values())]


def _crossings(pieces: ExactPieces, used: Fills) -> list[list[Vector]]:
    """List for each cell the used hyperplanes that cross its interior."""
    rows = list(used)
    planes = wide_rows(rows, pieces.dim + 1)
    result = []
    for corners in pieces.corners:
        values = corners @ planes.T
        crosses = np.asarray((values > 0).any(axis=0) & (values < 0).any(axis=0), dtype=np.bool_)
        result.append([rows[k] for k in np.flatnonzero(crosses).tolist()])
    return result


def _is_open(rows: list[Vector], dim: int) -> bool:
    return decide_open_cone(wide_rows(rows, dim + 1)).is_open
