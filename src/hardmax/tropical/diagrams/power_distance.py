r"""The power distance of a point to weighted sites, which power diagrams compare."""

import numpy as np

from hardmax._ground.arguments import Sizes, floats_any_shape
from hardmax.errors import ArgumentError, ShapeMismatchError
from hardmax.typing import ArrayLike, FloatArray

_MOST_ENTRIES = 2**20
"""The maximum number of coordinate differences held in memory at once."""


def power_distance(x: ArrayLike, sites: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
    r"""Return the power (Laguerre) distance $d_{pow}(x, s_j) = \|x - s_j\|^2 - w_j$ to every site.

    The cell of site $j$ in `PowerDiagram(sites, weights)` is the set of points whose power distance
    to site $j$ is smallest.

    The result is rounded. Up to underflow, its error is at most
    $(d + 4)\,2^{-53} (\|x - s_j\|^2 + |w_j|)$. Near a wall, this can exceed the difference between
    the distances to two sites; `PowerDiagram.locate` decides exactly which one is smaller.

    Args:
        x: A point, shape `(dim,)`, or several points, shape `(n_points, dim)`.
        sites: The sites $s_j$, shape `(n_sites, dim)` with `n_sites >= 1` and `dim >= 1`.
        weights: The weights $w_j$, shape `(n_sites,)`. By default, zero, which yields squared
            distances. A site with weight $-\infty$ is masked, and its distance is $\infty$.

    Returns:
        The distances, shape `(n_sites,)` for a point, `(n_points, n_sites)` for several points.

    Raises:
        ShapeMismatchError: If the shapes do not match.
        NonFiniteError: If an entry is NaN, or is infinite but not a mask.
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
            f"`x` must have shape ({dim},) or (n_points, {dim}), because `sites` has "
            f"{dim} coordinate{'s' * (dim != 1)}; got {points.shape}."
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
            "a power distance exceeds the range of float64 (about 1.8e308). Rescale `x`, `sites` "
            "and `weights`."
        )
    return distances if points.ndim == 2 else distances[0]
