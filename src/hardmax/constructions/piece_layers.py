"""Networks of maxima as plain lists of affine pieces: what the compiler reads."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax.models.argmax_layers import AffineMap
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.typing import BoolArray, FloatArray, IntArray

SourceNetwork = MaxoutNetwork | ReluNetwork


@dataclass(frozen=True, eq=False)
class PieceLayer:
    r"""The units $h_i = \max_c \langle a_{i,c}, z\rangle + b_{i,c}$ of one hidden layer.

    Attributes:
        slopes: The $a_{i,c}$, unit by unit, shape `(n_pieces, n_in)`.
        offsets: The $b_{i,c}$, shape `(n_pieces,)`.
        starts: First piece of each unit, shape `(n_units,)`.
    """

    slopes: FloatArray
    offsets: FloatArray
    starts: IntArray

    @property
    def n_units(self) -> int:
        """How many units there are."""
        return len(self.starts)

    @cached_property
    def ranks(self) -> IntArray:
        """How many pieces each unit has, shape `(n_units,)`."""
        return np.diff([*self.starts.tolist(), len(self.offsets)]).astype(np.int64)

    @cached_property
    def owner(self) -> IntArray:
        """The unit of each piece, shape `(n_pieces,)`."""
        return np.repeat(np.arange(self.n_units), self.ranks)

    @cached_property
    def place(self) -> IntArray:
        """The index of each piece in its unit, shape `(n_pieces,)`."""
        return np.arange(len(self.offsets)) - self.starts[self.owner]

    @cached_property
    def is_constant(self) -> BoolArray:
        """Which pieces do not depend on their input, shape `(n_pieces,)`."""
        return np.asarray(~self.slopes.any(axis=1))


def piece_layers(net: SourceNetwork) -> tuple[list[PieceLayer], AffineMap]:
    """Return the hidden layers of a network and its last, affine layer.

    A ReLU unit is the maximum of its form and of the constant 0.

    Examples:
        >>> layers, last = piece_layers(ReluNetwork([[[2.0]], [[3.0]]], [[1.0], None]))
        >>> layers[0].slopes.tolist(), layers[0].offsets.tolist(), last.weight.tolist()
        ([[2.0], [0.0]], [1.0, 0.0], [[3.0]])
    """
    biases = net.biases or ()
    layers = []
    if isinstance(net, ReluNetwork):
        for weight, bias in zip(net.weights[:-1], biases[:-1], strict=True):
            n_in, n_units = weight.shape
            slopes, offsets = np.zeros((2 * n_units, n_in)), np.zeros(2 * n_units)
            slopes[::2], offsets[::2] = weight.T, bias
            layers.append(PieceLayer(slopes, offsets, np.arange(0, 2 * n_units, 2)))
    else:
        for units, offsets in zip(net.weights[:-1], biases[:-1], strict=True):
            ranks = [len(unit) for unit in units]
            starts = np.cumsum([0, *ranks])[:-1]
            layers.append(PieceLayer(np.vstack(units), np.concatenate(offsets), starts))
    return layers, AffineMap(net.weights[-1], biases[-1])
