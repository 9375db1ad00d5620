"""The layers of a ReLU network packed for kernels."""

from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.models.normed_maps import NormedMap
from hardmax.typing import FloatArray, IntArray


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
