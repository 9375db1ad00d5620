"""Affine maps with bounds on their norms, which bound the growth of a whole vector's error."""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from hardmax.exact.rounding import (
    RAISE,
    SQUARES_UNDERFLOW_BELOW,
    TINY,
    UNIT_ROUNDOFF,
    rounding_factor,
)
from hardmax.models._arithmetic.enclosures import FLOOR
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.typing import FloatArray

_SQUARED_AGAIN = 1024, 2048
"""Size limits up to which a matrix is squared once more for its norm; the cost is cubic."""


def is_relu_network(network: ArgmaxNetwork) -> bool:
    """Whether a network consists only of affine maps with ReLU layers between them."""
    known: bool | None = network.kept.get("is_relu_network")
    if known is None:
        known = network.kept["is_relu_network"] = bool(network.layers) and all(
            layer.is_relu and layer.output.is_identity and not layer.residual
            for layer in network.layers
        )
    return known


@dataclass(frozen=True, eq=False)
class NormedMap:
    r"""An affine map and bounds on its norms.

    Attributes:
        weight: The $W$, shape `(n_in, n_out)`.
        bias: The $b$, shape `(n_out,)`.
        omega: The norms of the columns of $W$, shape `(n_out,)`.
        sigma: A bound on the spectral norm of $W$.
        frobenius: The Frobenius norm of $W$.
        bias_norm: The norm of the bias.
        kappa: The rounding error of a product with $W$ is at most this times the norms; the error
            of the bias is at most this times the bias, even if the bias has a factor that is only
            known to a relative error of $4 L u$, with $L$ layers. The value $(n + 4 + 4 L) u$
            exceeds the $\gamma_{n + 1} + 4 L u$ that Lemma 1 of `exact.rounding` requires.
    """

    weight: FloatArray
    bias: FloatArray
    omega: FloatArray
    sigma: float
    frobenius: float
    bias_norm: float
    kappa: float

    @classmethod
    def of(cls, weight: FloatArray, bias: FloatArray, n_layers: int = 1) -> "NormedMap":
        """Compute the norms of a map; the given arrays are not copied."""
        kappa = (len(weight) + 4 + 4 * n_layers) * UNIT_ROUNDOFF * RAISE
        floored = np.where(weight == 0.0, 0.0, np.maximum(np.abs(weight), FLOOR))
        with np.errstate(over="ignore", invalid="ignore"):
            squares = (floored**2).sum(axis=0)
            omega = np.sqrt(squares) * RAISE
            frobenius = float(np.sqrt(squares.sum())) * RAISE
            # The square of a small bias would underflow.
            sizes = np.where(bias == 0.0, 0.0, np.maximum(np.abs(bias), FLOOR))
            bias_norm = float(np.sqrt((sizes**2).sum())) * RAISE + TINY
        sigma = min(spectral_bound(weight, frobenius), frobenius)
        return cls(weight, bias, omega, sigma, frobenius, bias_norm, kappa)


_known: "WeakKeyDictionary[AffineMap, NormedMap]" = WeakKeyDictionary()


def cached_normed_map(affine: AffineMap) -> NormedMap:
    """Return a map with its norms; the result is cached."""
    found = _known.get(affine)
    if found is None:
        found = _known[affine] = NormedMap.of(affine.weight, affine.bias)
    return found


@np.errstate(under="ignore")
def spectral_bound(weight: FloatArray, frobenius: float) -> float:
    r"""Return a bound on $\|W\|$ by repeated squaring.

    $\|A\|^2 = \|A A^\top\|$, and the norm of the last matrix is at most its Frobenius norm. The
    rounding error of each entry of a product is at most $\kappa$ times the norms of two rows, so
    the norm of the error is at most $\kappa \|A\|_F^2$, with the $\kappa$ of Lemma 2 of
    `exact.rounding`.
    """
    kappa = rounding_factor(max(weight.shape) + 2)
    if not 0.0 < frobenius < np.inf:
        return frobenius
    matrix = weight if weight.shape[0] < weight.shape[1] else weight.T
    n_squarings = 1 + sum(len(matrix) <= most for most in _SQUARED_AGAIN)
    slacks = []
    size = frobenius
    for _ in range(n_squarings):
        # Scale by a power of two, so that no relevant entry underflows.
        scale = 2.0 ** np.frexp(size)[1]
        matrix = matrix / scale
        slacks.append((scale, kappa * (size / scale) ** 2 * RAISE + SQUARES_UNDERFLOW_BELOW))
        matrix = matrix @ matrix.T
        size = float(np.sqrt((matrix**2).sum())) * RAISE + SQUARES_UNDERFLOW_BELOW
    for scale, slack in reversed(slacks):
        size = float(scale * np.sqrt(size + slack) * RAISE)
    return size
