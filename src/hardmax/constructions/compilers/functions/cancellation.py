r"""Estimate the cancellation in a difference of maxima, relative to the size of the function.

The float32 error is $u = 2^{-24}$ relative to the numbers that are compared and subtracted, not
relative to the function. If each piece is evaluated from a point $o$ of its cell (`token_origins`),
these numbers are the products $a_k(x_k - o_k)$, which are large on cells that are long, thin and
oblique, and the value of the piece. The error is close to $8(d + 1)u$ times
$\sum_i |w_i| \max(|u_i|, \frac12 \sum_k |a_k (x_k - o_k)|)$, the weighted size of the units. On
meshes and knots, the bound of `float32_errors` is between 0.4 and 2.7 times this estimate.
"""

import numpy as np

from hardmax.constructions.compilers.functions.knots import Knots
from hardmax.constructions.compilers.functions.meshes import Mesh
from hardmax.constructions.compilers.maxout_assembly import MaxoutForm
from hardmax.constructions.compilers.piece_layers import PieceLayer, piece_layers
from hardmax.typing import FloatArray

_PROMISE = 1e-4
"""Acceptable float32 error relative to the size of the function."""
_TIE = 2.0**-40
_AT_ONCE = 2**22


def has_cancellation(form: MaxoutForm, f: Mesh | Knots) -> bool:
    r"""Return whether the float32 error of a form would exceed $10^{-4}$ of the function.

    Each output is compared with its own size.

    Args:
        form: The function as a network with one hidden layer.
        f: The function. The units are largest at its vertices.

    Examples:
        >>> from hardmax import Box
        >>> from hardmax.constructions import maxout_from_knots
        >>> flat = Knots([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, -1.0, 0.0])
        >>> steep = Knots([0.0, 1e-4, 2e-4, 3.0], [0.0, 1.0, -1.0, 0.0])
        >>> forms = [maxout_from_knots(knots, Box([0], [3])) for knots in (flat, steep)]
        >>> has_cancellation(forms[0], flat), has_cancellation(forms[1], steep)
        (False, True)
    """
    network, box = form.network, form.box
    if len(network.weights) != 2:
        return False
    if isinstance(f, Knots):
        points = np.r_[box.low, f.positions, box.high][:, None]
    else:
        points = np.vstack([f.vertices[np.unique(f.simplices)], box.low, box.high])
    points = np.clip(points, box.low, box.high)
    (layer,), last = piece_layers(network, form.origins)
    with np.errstate(over="ignore", invalid="ignore"):
        units, sizes = _evaluate_units(layer, points)
        own = np.abs(units @ last.weight + last.bias).max(axis=0)
        lost = 8.0 * (box.dim + 1) * 2.0**-24 * (sizes @ np.abs(last.weight)).max(axis=0)
        return bool((lost > _PROMISE * own).any())


def _evaluate_units(layer: PieceLayer, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the units at points, and the size of their terms: both `(n_points, n_units)`."""
    ends = np.abs(layer.slopes) @ np.abs(points).max(axis=0) + np.abs(layer.offsets)
    units, sizes = [], []
    for x in np.array_split(points, 1 + len(points) * len(ends) // _AT_ONCE):
        values = x @ layer.slopes.T + layer.offsets
        tops = np.maximum.reduceat(values, layer.starts, axis=1)
        # At a vertex the pieces of all cells around it are largest, up to rounding.
        at, piece = np.nonzero(values >= tops[:, layer.owner] - _TIE * ends)
        terms = np.abs(layer.slopes[piece] * (x[at] - layer.own_points[piece])).sum(axis=1)
        size = np.abs(tops)
        np.maximum.at(size, (at, layer.owner[piece]), terms / 2.0)
        units.append(tops)
        sizes.append(size)
    return np.concatenate(units), np.concatenate(sizes)
