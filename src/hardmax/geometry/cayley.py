r"""The Cayley embedding: several polytopes as one, whose middle section is their Minkowski sum."""

from collections.abc import Iterable

import numpy as np

from hardmax.geometry.minkowski import read_point_sets
from hardmax.geometry.polytopes import Polytope
from hardmax.typing import ArrayLike, FloatArray


def cayley_embedding(point_sets: Iterable[ArrayLike]) -> FloatArray:
    r"""Place point sets $A_1, \dots, A_H$ of $\mathbb{R}^d$ at the corners of a simplex.

    $$\mathcal{C}(A_1, \dots, A_H) = \bigcup_{h=1}^{H} \{e_h\} \times A_h
      \subset \mathbb{R}^{H-1} \times \mathbb{R}^d,$$

    with $e_1 = 0$ and $e_2, \dots, e_H$ the unit vectors. The coordinates are copied, not rounded.

    Args:
        point_sets: At least one set; each an array of shape `(n_points, dim)` with at least one
            point, all of the same `dim`. The sizes may differ.

    Returns:
        The points of all sets, one set after another, shape `(n_points in all, H - 1 + dim)`.

    Raises:
        EmptyInputError: If there is no set, or one has no points.
        ShapeMismatchError: If the dimensions differ.

    References:
        [HRS00]; Theorem V.2 of [SL26] asks for a simplicial one.

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
    r"""Return the hull of the Cayley embedding (see `cayley_embedding`), exactly.

    *The Cayley trick.* Its section at $(\tfrac1H, \dots, \tfrac1H)$ is
    $\tfrac1H (P_1 + \dots + P_H)$ with $P_h = \operatorname{conv} A_h$, and a face $F$ of the sum
    is the section of one face, the hull of the summands of $F$. So the vertices of the sum are the
    faces that have one vertex from each set: for two sets, the edges between them.

    Examples:
        A triangle and its negative make an octahedron; six of its edges join the two, and their sum
        is a hexagon. Twice the same triangle makes a prism, with squares for facets.

        >>> triangle = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> octahedron = cayley_polytope([triangle, -triangle])
        >>> octahedron.f_vector, octahedron.is_simplicial
        ((6, 12, 8), True)
        >>> cayley_polytope([triangle, triangle]).is_simplicial
        False
    """
    return Polytope.from_points(cayley_embedding(point_sets))
