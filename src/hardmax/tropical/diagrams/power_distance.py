r"""The power distance of a point to weighted sites: what a power diagram compares."""

import numpy as np

from hardmax._ground.arguments import Sizes, floats_any_shape
from hardmax.errors import ArgumentError, ShapeMismatchError
from hardmax.typing import ArrayLike, FloatArray

_MOST_ENTRIES = 2**20
"""How many differences of coordinates are held at once."""


def power_distance(x: ArrayLike, sites: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
    r"""Return the power (Laguerre) distance $d_{pow}(x, s_j) = \|x - s_j\|^2 - w_j$ to every site.

    The cell of site $j$ in `PowerDiagram(sites, weights)` is where it is smallest.

    Rounded: off by at most $(d + 4)\,2^{-53} (\|x - s_j\|^2 + |w_j|)$, up to underflow, which can
    be more than the gap between two sites near a wall. `PowerDiagram.locate` decides without
    rounding which one is smaller.

    Args:
        x: A point, shape `(dim,)`, or points, shape `(n_points, dim)`.
        sites: The $s_j$, shape `(n_sites, dim)`, both at least 1.
        weights: The $w_j$, shape `(n_sites,)`, zero by default: squared distances. A site with
            weight $-\infty$ is masked, at distance $\infty$.

    Returns:
        Shape `(n_sites,)` for a point, `(n_points, n_sites)` for points.

    Raises:
        ShapeMismatchError: If the shapes do not fit.
        NonFiniteError: If an entry is NaN, or infinite other than a mask.
        ArgumentError: If a distance exceeds the range of float64.

    References:
        Definition IV.2 of [SL26]; [Aur87].

    Examples:
        >>> power_distance([3.0, 4.0], [[0.0, 0.0], [3.0, 0.0]], [9.0, 0.0]).tolist()
        [16.0, 16.0]
        >>> power_distance([[0.0], [1.0]], [[0.0], [2.0]], [0.0, -np.inf]).tolist()
        [[0.0, inf], [1.0, inf]]
    """
    sizes = Sizes()
    centres = sizes.floats("sites", sites, ("n_sites", "dim"))
    powers = np.zeros(len(centres)) if weights is None else weights
    powers = sizes.floats("weights", powers, ("n_sites",), infinity="negative")
    points = floats_any_shape("x", x)
    dim = sizes["dim"]
    if points.ndim not in (1, 2) or points.shape[-1] != dim:
        raise ShapeMismatchError(
            f"`x` must have shape ({dim},) or (n_points, {dim}), as `sites` has {dim} coordinates; "
            f"got {points.shape}."
        )
    rows = np.atleast_2d(points)
    distances = np.empty((len(rows), len(centres)))
    step = max(1, _MOST_ENTRIES // centres.size)
    with np.errstate(over="ignore", under="ignore"):
        for start in range(0, len(rows), step):
            block = rows[start : start + step, None, :] - centres
            distances[start : start + step] = np.square(block).sum(axis=-1) - powers
    if np.isinf(distances[:, np.isfinite(powers)]).any():
        raise ArgumentError(
            "`x`, `sites` and `weights` must have power distances within the range of float64 "
            "(about 1.8e308); one exceeds it. Rescale them."
        )
    return distances if points.ndim == 2 else distances[0]
