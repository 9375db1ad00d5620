"""The corners of convex hulls and upper hulls in the plane, exactly, in N log N steps.

Sorting floats is exact. The compiled core then walks along the sorted points, once for each side of
the hull, and decides the orientation of every triangle exactly. Points with one coordinate are
treated as points of the plane whose second coordinate is zero.
"""

from ctypes import addressof, c_int32

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import address
from hardmax._ground.arguments import prepare_array
from hardmax.typing import FloatArray, IntArray

MOST_COLUMNS = 2


def hull_corners(points: FloatArray, *, is_upper: bool = False) -> IntArray:
    r"""Find the vertices of the convex hull of points, or of their upper hull.

    Args:
        points: The finite points, shape `(n_points, 1)` or `(n_points, 2)` with at least one point;
            two columns are required for an upper hull.
        is_upper: Whether to find the vertices of $\operatorname{conv} \{p_i\} - \mathbb{R}_{\ge 0}
            e_2$ instead.

    Returns:
        The indices of the vertices: counter-clockwise from the leftmost one, or from left to right
        for an upper hull. Points on edges are omitted. Of equal points, the first is listed.

    References:
        [And79].

    Examples:
        >>> square = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 0.0], [1.0, 0.0], [2.0, 1.0]])
        >>> hull_corners(square).tolist(), hull_corners(square, is_upper=True).tolist()
        ([0, 1, 4], [0, 4])
        >>> hull_corners(np.array([[5e-324], [0.0], [1e308]])).tolist()
        [1, 2]
    """
    if points.shape[1] < MOST_COLUMNS:
        points = np.column_stack([points, np.zeros(len(points))])
    given = prepare_array(points)
    # Stable: equal points stay in their order.
    order = np.lexsort((given[:, 1], given[:, 0])).astype(np.int32)
    n = len(given)
    corners, scratch = np.empty(n + 1, dtype=np.int32), np.empty(n, dtype=np.int32)
    at, n_corners = map(address, (order, scratch, corners)), c_int32()
    core().hm_planar_hull(n, address(given), is_upper, *at, addressof(n_corners))
    return corners[: n_corners.value].astype(np.int64)
