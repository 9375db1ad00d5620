r"""The affine forms that win on an open set, for exact coefficients.

A form is active if, at some point, it is the only one that attains the maximum. The active forms
are the facets of the epigraph of $\max_j \langle a_j, x\rangle + c_j$, dual to the vertices of the
upper hull of the points $(a_j, c_j)$. This module extends `geometry.extreme_points.active_forms` to
coefficients that do not fit float64. It uses a convex chain for one variable, and the search of
`geometry._hulls.vertex_search` for several.
"""

from collections.abc import Sequence

import numpy as np

from hardmax._ground.progress import track
from hardmax.geometry._hulls.affine_coordinates import affine_coordinates
from hardmax.geometry._hulls.vertex_search import search_vertices
from hardmax.tropical.coefficients import like_terms
from hardmax.typing import BoolArray, WideArray


def active_rows(rows: WideArray) -> BoolArray:
    r"""Mark the forms that win on a nonempty open set. Of equal forms, only the first is marked.

    Args:
        rows: The vectors $(a_j, c_j)$ as integers on one common scale, shape `(n_forms, dim + 1)`
            with `n_forms >= 1`.

    Examples:
        The horizontal form attains the maximum $|x|$ only at 0, so it is not active.

        >>> active_rows(np.array([[1, 0], [0, 0], [-1, 0], [1, 0]], dtype=object)).tolist()
        [True, False, True, False]
    """
    mask = np.zeros(len(rows), dtype=np.bool_)
    candidates = np.sort(like_terms(rows))
    if len(candidates) <= 2:  # Two forms with different slopes win on either side of their wall.
        mask[candidates] = True
        return mask
    points = rows[candidates]
    chosen = upper_chain(points.tolist()) if rows.shape[1] == 2 else _upper_hull(points)
    mask[candidates[chosen]] = True
    return mask


def upper_chain(points: Sequence[Sequence[int]]) -> list[int]:
    """Return the corners of the upper hull of points in the plane, from left to right.

    Args:
        points: Pairs of integers; the first entries are distinct.

    Examples:
        >>> upper_chain([(2, 0), (0, 0), (1, 0), (3, -5)])
        [1, 0, 3]
    """
    hull: list[int] = []
    for index in sorted(range(len(points)), key=lambda i: points[i][0]):
        a, c = points[index]
        while len(hull) > 1:
            (a1, c1), (a2, c2) = points[hull[-2]], points[hull[-1]]
            if (a2 - a1) * (c - c1) < (a - a1) * (c2 - c1):
                break
            hull.pop()
        hull.append(index)
    return hull


def _upper_hull(rows: WideArray) -> list[int]:
    """Return the vertices of the upper hull of distinct points."""
    upward = np.zeros((1, rows.shape[1]), dtype=object)
    upward[0, -1] = 1
    coordinates = affine_coordinates(rows, upward)
    with track(rows.shape[0], "active terms") as progress:
        proofs = search_vertices(coordinates, solve=False, progress=progress)
    return list(np.flatnonzero(proofs.is_vertex))
