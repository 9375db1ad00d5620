"""Affine maps with bounds on their norms, and the layers of a ReLU network packed for kernels."""

from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from hardmax._kernels import rectified_rows as kernels
from hardmax.algebra.exact.rounding import rounding_factor
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.typing import FloatArray, IntArray

_SQUARED_AGAIN = 1024, 2048
"""Up to which sizes a matrix is squared once more for its norm, at a cost of its third power."""


def is_rectified(network: ArgmaxNetwork) -> bool:
    """Whether a network is nothing but affine maps with ReLU layers between them."""
    return bool(network.layers) and all(
        layer.is_relu and layer.output.is_identity and not layer.residual
        for layer in network.layers
    )


@dataclass(frozen=True, eq=False)
class NormedMap:
    r"""An affine map and bounds on its norms.

    Attributes:
        weight: The $W$, shape `(n_in, n_out)`.
        bias: The $b$, shape `(n_out,)`.
        omega: The norms of the columns of $W$, shape `(n_out,)`.
        sigma: A bound on the spectral norm of $W$.
        frobenius: Its Frobenius norm.
        bias_norm: The norm of the bias.
        kappa: A product with the map rounds by at most this times norms, and the bias by this times
            itself even if it is taken a multiple of times that is known to $4 L u$ only, with $L$
            layers: $(n + 4 + 4 L) u$ exceeds the $\gamma_{n + 1} + 4 L u$ that Lemma 1 of
            `algebra.exact.rounding` asks for.
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
        """Find the norms of a map; it keeps the arrays given."""
        kappa = (len(weight) + 4 + 4 * n_layers) * kernels.UNIT * kernels.RAISE
        floored = np.where(weight == 0.0, 0.0, np.maximum(np.abs(weight), kernels.FLOOR))
        with np.errstate(over="ignore", invalid="ignore"):
            squares = (floored**2).sum(axis=0)
            omega = np.sqrt(squares) * kernels.RAISE
            frobenius = float(np.sqrt(squares.sum())) * kernels.RAISE
            bias_norm = float(np.sqrt((bias**2).sum())) * kernels.RAISE + kernels.TINY
        sigma = min(_spectral_bound(weight, frobenius), frobenius)
        return cls(weight, bias, omega, sigma, frobenius, bias_norm, kappa)


def _spectral_bound(weight: FloatArray, frobenius: float) -> float:
    r"""Return a bound on $\|W\|$ by repeated squaring.

    $\|A\|^2 = \|A A^\top\|$, and the norm of the last matrix is at most its Frobenius norm. A
    product rounds each entry by at most $\kappa$ times the norms of two rows, so the whole by at
    most $\kappa \|A\|_F^2$, with the $\kappa$ of Lemma 2 of `algebra.exact.rounding`.
    """
    kappa = rounding_factor(max(weight.shape) + 2)
    if not 0.0 < frobenius < np.inf:
        return frobenius
    matrix = weight if weight.shape[0] < weight.shape[1] else weight.T
    n_squarings = 1 + sum(len(matrix) <= most for most in _SQUARED_AGAIN)
    slacks = []
    size = frobenius
    for _ in range(n_squarings):
        # By a power of two, so that nothing underflows that matters.
        scale = 2.0 ** np.frexp(size)[1]
        matrix = matrix / scale
        slacks.append((scale, kappa * (size / scale) ** 2 * kernels.RAISE + 2.0**-500))
        matrix = matrix @ matrix.T
        size = float(np.sqrt((matrix**2).sum())) * kernels.RAISE + 2.0**-500
    for scale, slack in reversed(slacks):
        size = float(scale * np.sqrt(size + slack) * kernels.RAISE)
    return size


class PackedLayers:
    r"""The layers of a ReLU network as `_kernels.line_values` reads them.

    Attributes:
        maps: The maps into the layers.
        widths: How many units each layer has.
        weights: For each layer the weights and, last, the bias: one after the other.
        weight_starts: Where those of each layer begin, and the end.
        omegas: The $\omega_j$ of all units.
        bias_sizes: The $|b_j|$ of all units.
        unit_starts: Where the units of each layer begin, and the end.
        norms: For each layer $\sigma$, $\Omega$, the norm of the bias and $\kappa$.
    """

    def __init__(self, network: ArgmaxNetwork) -> None:
        affine = [layer.query for layer in network.layers]
        n_layers = len(affine)
        self._readout = network.readout
        self.widths: IntArray = np.array([one.dim_out for one in affine])
        self.unit_starts: IntArray = np.cumsum([0, *self.widths])
        self.weight_starts: IntArray = np.cumsum(
            [0, *(one.dim_out * (one.dim_in + 1) for one in affine)]
        )
        self.weights: FloatArray = np.empty(self.weight_starts[-1])
        self.maps: list[NormedMap] = []
        for i, one in enumerate(affine):
            rows = self.rows(i)
            rows[:-1], rows[-1] = one.weight, one.bias
            self.maps.append(NormedMap.of(rows[:-1], rows[-1], n_layers))
        # How many weights lead from each layer to the next.
        self._next_products: IntArray = np.append(np.diff(self.weight_starts)[1:], 1)
        self._most_rows = (0, 0), self.widths
        self.omegas: FloatArray = np.concatenate([one.omega for one in self.maps])
        self.bias_sizes: FloatArray = np.abs(np.concatenate([one.bias for one in self.maps]))
        self.norms: FloatArray = np.array(
            [[one.sigma, one.frobenius, one.bias_norm, one.kappa] for one in self.maps]
        )

    def rows(self, index: int) -> FloatArray:
        """The weights of a layer and, last, its bias: shape `(n_in + 1, n_out)`."""
        chosen = self.weights[self.weight_starts[index] : self.weight_starts[index + 1]]
        return chosen.reshape(-1, self.widths[index])

    def most_rows(self, n_entries: int, n_products: int) -> IntArray:
        """How many rows of each layer, at least 2, have few entries and take few products."""
        if self._most_rows[0] != (n_entries, n_products):
            most = np.minimum(n_entries // self.widths, n_products // self._next_products)
            self._most_rows = (n_entries, n_products), np.maximum(most, 2)
        return self._most_rows[1]

    @cached_property
    def readout(self) -> NormedMap:
        """The map to the output."""
        return NormedMap.of(np.array(self._readout.weight), np.array(self._readout.bias))

    @cached_property
    def arguments(self) -> tuple[FloatArray | IntArray, ...]:
        """What the kernels want, in their order."""
        return (
            self.widths,
            self.weights,
            self.weight_starts,
            self.omegas,
            self.bias_sizes,
            self.unit_starts,
            self.norms,
        )


_known: "WeakKeyDictionary[ArgmaxNetwork, PackedLayers]" = WeakKeyDictionary()
"""Networks searched before: their norms take as long as a hundred cells."""


def packed_layers(network: ArgmaxNetwork) -> PackedLayers:
    """Pack the layers of a network, once."""
    found = _known.get(network)
    if found is None:
        found = _known[network] = PackedLayers(network)
    return found
