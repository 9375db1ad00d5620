r"""A batch through a ReLU network in float64, with one bound on the error of a whole vector.

Let $\hat z$ be what goes into a layer at a point, $\|\hat z - z\| \le e$, and $\omega_j$ the norm
of column $j$ of its weights, $\sigma$ and $\Omega$ their spectral and their Frobenius norm. By
Lemma 1 of `exact.rounding` and Cauchy-Schwarz the pre-activation $j$ is off by at most
$(e + \kappa \|\hat z\|)\,\omega_j + \kappa |b_j|$, and all of them together by at most $\sigma e +
\kappa (\|\hat z\| \Omega + \|b\|)$ in norm. A ReLU makes no error larger, decided or not, so this
is the next $e$. It takes one product with each matrix where `float_pass` takes two, and grows by
$\sigma$ from layer to layer, where radii grow by the norm of $|W|$: two or three times less.
"""

from typing import NamedTuple

import numpy as np

from hardmax.exact.rounding import RAISE, SQUARES_UNDERFLOW_BELOW, TINY
from hardmax.models._arithmetic.normed_maps import normed_map
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.typing import BoolArray, FloatArray, IntArray


class NormedPass(NamedTuple):
    """Who wins for a batch.

    Attributes:
        winners: Whether each unit is on, shape `(n_points, n_groups)`.
        is_open: Whether a sign was not decided, shape `(n_points,)`.
        has_ties: Whether a unit is known to be exactly 0, shape `(n_points,)`.
    """

    winners: IntArray
    is_open: BoolArray
    has_ties: BoolArray


def normed_pass(
    network: ArgmaxNetwork, points: FloatArray, chart: AffineMap | None = None
) -> NormedPass:
    """Find the signs of all units.

    Args:
        network: A ReLU network (see `is_rectified`).
        points: Shape `(n_points, dim_in)`, finite.
        chart: If given, the points are coordinates, and this map gives the inputs.
    """
    winners = np.empty((len(points), network.n_groups), dtype=np.int64)
    is_open, has_ties = np.zeros((2, len(points)), dtype=np.bool_)
    stream, errors = points, np.zeros(len(points))
    with np.errstate(all="ignore"):
        for before in (chart, network.embedding):
            if before is not None and not before.is_identity:
                stream, errors, _ = _mapped(before, stream, errors)
        # No step of `layers.advance`: a map gives radii besides vectors, and no more follows it.
        for _, layer, groups in network.places:
            values, errors, radii = _mapped(layer.query, stream, errors)
            np.greater(values, 0.0, out=winners[:, groups], casting="unsafe")
            # Not a number is unclear, too.
            unclear = ~(np.abs(values) > radii)
            if unclear.any():
                is_zero = radii == 0.0
                is_open |= (unclear & ~is_zero).any(axis=1)
                has_ties |= (unclear & is_zero).any(axis=1)
            stream = np.maximum(values, 0.0, out=values)
    return NormedPass(winners, is_open, has_ties)


def _mapped(
    affine: AffineMap, stream: FloatArray, errors: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Apply a map; return the values, the norms of their errors, and a radius for each."""
    normed = normed_map(affine)
    values = stream @ normed.weight
    values += normed.bias
    norms = np.sqrt(np.einsum("ij,ij->i", stream, stream)) * RAISE + SQUARES_UNDERFLOW_BELOW
    scales = (errors + normed.kappa * norms) * RAISE
    radii = scales[:, np.newaxis] * normed.omega
    # A unit without weights and bias is 0 everywhere, and not only nearly.
    is_dead = (normed.omega == 0.0) & (normed.bias == 0.0)
    radii += normed.kappa * np.abs(normed.bias) * RAISE + np.where(is_dead, 0.0, TINY)
    carried = normed.sigma * errors + normed.kappa * (norms * normed.frobenius + normed.bias_norm)
    return values, carried * RAISE + TINY, radii
