r"""The Cayley embedding: one polytope whose middle section is the Minkowski sum of several."""

from collections.abc import Iterable

import numpy as np

from hardmax.geometry.minkowski import read_point_sets
from hardmax.geometry.polytopes import Polytope
from hardmax.typing import ArrayLike, FloatArray


def cayley_embedding(point_sets: Iterable[ArrayLike]) -> FloatArray:
    r"""Return the Cayley embedding of point sets $A_1, \dots, A_H \subset \mathbb{R}^d$.

    The embedding places each set at a corner of a simplex:

    $$\mathcal{C}(A_1, \dots, A_H) = \bigcup_{h=1}^{H} \{e_h\} \times A_h
      \subset \mathbb{R}^{H-1} \times \mathbb{R}^d,$$

    where $e_1 = 0$ and $e_2, \dots, e_H$ are the unit vectors of $\mathbb{R}^{H-1}$. The
    coordinates of the points are copied without rounding.

    Args:
        point_sets: At least one point set. Each is an array of shape `(n_points, dim)` with at
            least one point; `dim` must be the same for all sets, `n_points` need not be.

    Returns:
        The points of all sets in the given order, shape `(total_points, H - 1 + dim)`.

    Raises:
        EmptyInputError: If there is no point set, or a set has no points.
        ShapeMismatchError: If the dimensions of the sets differ.

    References:
        [HRS00]. Theorem V.2 of [SL26] assumes a simplicial Cayley polytope.

    Examples:
        >>> cayley_embedding([[[5.0], [6.0]], [[7.0]], [[8.0]]]).tolist()
        [[0.0, 0.0, 5.0], [0.0, 0.0, 6.0], [1.0, 0.0, 7.0], [0.0, 1.0, 8.0]]
    """
    sets = read_point_sets(point_sets)
    corners = np.eye(len(sets))[:, 1:]
    blocks = [
        np.column_stack([np.tile(corner, (len(points), 1)), points])
        for corner, points in zip(corners, sets, strict=True)
    ]
    return np.concatenate(blocks)


def cayley_polytope(point_sets: Iterable[ArrayLike]) -> Polytope:
    r"""Return the convex hull of the Cayley embedding (see `cayley_embedding`), exactly.

    *The Cayley trick.* The section of this polytope at $(\tfrac1H, \dots, \tfrac1H)$ is
    $\tfrac1H (P_1 + \dots + P_H)$ with $P_h = \operatorname{conv} A_h$. Each face $F$ of the sum
    is the section of exactly one face, the hull of the summands of $F$. Hence the vertices of the
    sum correspond to the faces with exactly one vertex from each set; for two sets, these are the
    edges between the sets.

    Args:
        point_sets: The point sets, as for `cayley_embedding`.

    Examples:
        The polytope of a triangle and its negative is an octahedron. Six of its edges join the two
        triangles, so their sum is a hexagon. The polytope of two copies of one triangle is a prism,
        which is not simplicial.

        >>> triangle = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> octahedron = cayley_polytope([triangle, -triangle])
        >>> octahedron.f_vector, octahedron.is_simplicial
        ((6, 12, 8), True)
        >>> cayley_polytope([triangle, triangle]).is_simplicial
        False
    """
    return Polytope.from_points(cayley_embedding(point_sets))
