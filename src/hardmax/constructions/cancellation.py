r"""How much larger than a function the maxima are whose difference it is.

Float32 loses $u = 2^{-24}$ of the numbers that are compared and subtracted, not of the function.
With each piece evaluated from a point of its cell (`token_origins`) what is lost is close to
$8(d + 1)u$ times $\sum_i |w_i| |u_i|$, the size of the units as they count: the bound of
`float32_errors` on meshes and knots is between 0.6 and 1.3 times that
(`benchmarks/bench_float32.py`).
"""

import numpy as np

from hardmax.constructions.knots import Knots
from hardmax.constructions.maxout_assembly import MaxoutForm
from hardmax.constructions.meshes import Mesh
from hardmax.typing import FloatArray

_PROMISE = 1e-4
"""What float32 may lose of the function's size."""
_AT_ONCE = 2**22


def cancels(form: MaxoutForm, f: Mesh | Knots) -> bool:
    r"""Say whether float32 would lose more than $10^{-4}$ of a function to the units of its form.

    Args:
        form: The function as a network of one hidden layer.
        f: The function; its vertices are where the units are largest.

    Examples:
        >>> from hardmax.constructions.knots import maxout_from_knots
        >>> from hardmax.geometry.domains import Box
        >>> flat = Knots([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, -1.0, 0.0])
        >>> steep = Knots([0.0, 1e-4, 2e-4, 3.0], [0.0, 1.0, -1.0, 0.0])
        >>> [cancels(maxout_from_knots(knots, Box([0], [3])), knots) for knots in (flat, steep)]
        [False, True]
    """
    network, box = form.network, form.box
    if len(network.weights) != 2:
        return False
    if isinstance(f, Knots):
        points = np.r_[box.low, f.positions, box.high][:, None]
    else:
        points = np.vstack([f.vertices[np.unique(f.simplices)], box.low, box.high])
    points = np.clip(points, box.low, box.high)
    with np.errstate(over="ignore", invalid="ignore"):
        units = _units(form, points)
        weight, bias = network.weights[-1], (network.biases or ())[-1]
        own = np.abs(units @ weight + bias).max()
        lost = 8.0 * (box.dim + 1) * 2.0**-24 * (np.abs(units) @ np.abs(weight)).max()
        return bool(lost > _PROMISE * own)


def _units(form: MaxoutForm, points: FloatArray) -> FloatArray:
    """The units at points, shape `(n_points, n_units)`."""
    columns = []
    for slopes, offsets in zip(
        form.network.weights[0], (form.network.biases or ())[0], strict=True
    ):
        parts = np.array_split(points, 1 + len(points) * len(slopes) // _AT_ONCE)
        columns.append(np.concatenate([(x @ slopes.T + offsets).max(axis=1) for x in parts]))
    return np.stack(columns, axis=1)
