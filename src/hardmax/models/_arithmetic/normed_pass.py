r"""Evaluation of a batch in a ReLU network in float64, with one error bound for each whole vector.

Let $\hat z$ be the computed input of a layer at a point, with $\|\hat z - z\| \le e$. Let
$\omega_j$ be the norm of column $j$ of the layer's weights, and $\sigma$ and $\Omega$ their
spectral and Frobenius norms. By Lemma 1 of `exact.rounding` and Cauchy-Schwarz, pre-activation $j$
is off by at most $(e + \kappa \|\hat z\|)\,\omega_j + \kappa |b_j|$, and all of them together by at
most $\sigma e + \kappa (\|\hat z\| \Omega + \|b\|)$ in norm. A ReLU, decided or not, does not
increase the error, so this bound is the next $e$. This pass takes one product with each matrix,
whereas `run_float_pass` takes two. The bound grows by $\sigma$ per layer, whereas radii grow by the
norm of $|W|$, which is two or three times larger.
"""

from typing import NamedTuple

import numpy as np

from hardmax.exact.rounding import RAISE, SQUARES_UNDERFLOW_BELOW, TINY
from hardmax.models._arithmetic.normed_maps import cached_normed_map
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.typing import BoolArray, FloatArray, IntArray


class NormedPassResult(NamedTuple):
    """The winners for a batch.

    Attributes:
        winners: Whether each unit is on, shape `(n_points, n_groups)`.
        is_open: Whether a sign is undecided, shape `(n_points,)`.
        has_ties: Whether a unit is known to be exactly 0, shape `(n_points,)`.
    """

    winners: IntArray
    is_open: BoolArray
    has_ties: BoolArray


def run_normed_pass(
    network: ArgmaxNetwork, points: FloatArray, chart: AffineMap | None = None
) -> NormedPassResult:
    """Find the signs of all units.

    Args:
        network: A ReLU network (see `is_relu_network`).
        points: Shape `(n_points, dim_in)`, finite.
        chart: If given, the points are coordinates, and this map takes them to inputs.
    """
    winners = np.empty((len(points), network.n_groups), dtype=np.int64)
    is_open, has_ties = np.zeros((2, len(points)), dtype=np.bool_)
    stream, errors = points, np.zeros(len(points))
    with np.errstate(all="ignore"):
        for before in (chart, network.embedding):
            if before is not None and not before.is_identity:
                stream, errors, _ = _apply_map(before, stream, errors)
        # `layers.advance` does not apply: each map returns radii besides vectors.
        for _, layer, groups in network.places:
            values, errors, radii = _apply_map(layer.query, stream, errors)
            np.greater(values, 0.0, out=winners[:, groups], casting="unsafe")
            # NaN counts as unclear, too.
            unclear = ~(np.abs(values) > radii)
            if unclear.any():
                is_zero = radii == 0.0
                is_open |= (unclear & ~is_zero).any(axis=1)
                has_ties |= (unclear & is_zero).any(axis=1)
            stream = np.maximum(values, 0.0, out=values)
    return NormedPassResult(winners, is_open, has_ties)


def _apply_map(
    affine: AffineMap, stream: FloatArray, errors: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Apply a map; return the values, the norms of their errors, and a radius for each value."""
    normed = cached_normed_map(affine)
    values = stream @ normed.weight
    values += normed.bias
    norms = np.sqrt(np.einsum("ij,ij->i", stream, stream)) * RAISE + SQUARES_UNDERFLOW_BELOW
    scales = (errors + normed.kappa * norms) * RAISE
    radii = scales[:, np.newaxis] * normed.omega
    # A unit whose weights and bias are 0 is exactly 0 everywhere.
    is_dead = (normed.omega == 0.0) & (normed.bias == 0.0)
    radii += normed.kappa * np.abs(normed.bias) * RAISE + np.where(is_dead, 0.0, TINY)
    carried = normed.sigma * errors + normed.kappa * (norms * normed.frobenius + normed.bias_norm)
    return values, carried * RAISE + TINY, radii
