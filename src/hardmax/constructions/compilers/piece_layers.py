"""Networks of maxima as lists of affine pieces, the input of the compiler."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hardmax.constructions.compilers.token_origins import TokenOrigins, shifted_offsets
from hardmax.constructions.compilers.unit_origins import UnitOrigins
from hardmax.errors import ArgumentError
from hardmax.exact.dyadic import rationals
from hardmax.models.argmax import AffineMap
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.typing import BoolArray, FloatArray, IntArray

SourceNetwork = MaxoutNetwork | ReluNetwork
Origins = TokenOrigins | UnitOrigins


@dataclass(frozen=True, eq=False)
class PieceLayer:
    r"""The units $h_i = \max_c \langle a_{i,c}, z\rangle + b_{i,c}$ of one hidden layer.

    Attributes:
        slopes: The slopes $a_{i,c}$, unit by unit, shape `(n_pieces, n_in)`.
        offsets: The offsets $b_{i,c}$, shape `(n_pieces,)`.
        starts: The first piece of each unit, shape `(n_units,)`.
        origins: The origins of the tokens to which the pieces are written, or of the units; None if
            the tokens hold $z$ itself.
    """

    slopes: FloatArray
    offsets: FloatArray
    starts: IntArray
    origins: Origins | None = None

    @property
    def n_units(self) -> int:
        """The number of units."""
        return len(self.starts)

    @cached_property
    def ranks(self) -> IntArray:
        """The number of pieces of each unit, shape `(n_units,)`."""
        return np.diff([*self.starts.tolist(), len(self.offsets)]).astype(np.int64)

    @cached_property
    def owner(self) -> IntArray:
        """The unit of each piece, shape `(n_pieces,)`."""
        return np.repeat(np.arange(self.n_units), self.ranks)

    @cached_property
    def place(self) -> IntArray:
        """The token of each piece, shape `(n_pieces,)`; without origins, its index in its unit."""
        if isinstance(self.origins, TokenOrigins):
            return self.origins.tokens
        return np.arange(len(self.offsets)) - self.starts[self.owner]

    @cached_property
    def is_constant(self) -> BoolArray:
        """Whether each piece is constant, shape `(n_pieces,)`."""
        return np.asarray(~self.slopes.any(axis=1))

    @cached_property
    def is_everywhere(self) -> BoolArray:
        """Whether each unit has a single piece that every token can hold, shape `(n_units,)`."""
        is_single = self.ranks == 1
        if not isinstance(self.origins, TokenOrigins):
            return np.asarray(is_single)
        return np.asarray(is_single & self.is_constant[self.starts])

    @property
    def n_state(self) -> int:
        """The size of the state from which pieces are evaluated: the input, or its differences."""
        n_in = int(self.slopes.shape[1])
        return self.origins.points.size if isinstance(self.origins, UnitOrigins) else n_in

    @cached_property
    def columns(self) -> IntArray:
        """The state entries that each piece multiplies with its slopes: `(n_pieces, n_in)`."""
        n_in = self.slopes.shape[1]
        first = np.zeros(len(self.offsets), dtype=np.int64)
        if isinstance(self.origins, UnitOrigins):
            first = self.origins.units[self.owner] * n_in
        return np.asarray(first[:, None] + np.arange(n_in))

    @cached_property
    def own_points(self) -> FloatArray:
        """The origin of each piece, shape `(n_pieces, n_in)`."""
        if self.origins is None:
            return np.zeros(self.slopes.shape)
        if isinstance(self.origins, UnitOrigins):
            return self.origins.points[self.origins.units[self.owner]]
        return self.origins.points[self.place]

    @cached_property
    def written_offsets(self) -> FloatArray:
        r"""The value $b_{i,c} + \langle a_{i,c}, o\rangle$ at each piece's origin, rounded once."""
        if self.origins is None:
            return self.offsets
        own = self.own_points
        return shifted_offsets(rationals(self.slopes), rationals(self.offsets), rationals(own))

    def select_units(self, units: IntArray) -> "PieceLayer":
        """Return the layer with some of the units, in rising order; tokens must have no origins."""
        pieces = np.flatnonzero(np.isin(self.owner, units))
        starts = np.cumsum([0, *self.ranks[units].tolist()])[:-1]
        part = PieceLayer(self.slopes[pieces], self.offsets[pieces], starts)
        if isinstance(self.origins, UnitOrigins):
            own = UnitOrigins(self.origins.points, self.origins.units[units])
            part = replace(part, origins=own)
            # Reuse the exact sums.
            part.__dict__["written_offsets"] = self.written_offsets[pieces]
        return part

    def reach(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Bound $\sum_j |a_j (z_j - o_j)| + |b + \langle a, o\rangle|$ over a box.

        Args:
            low: The lower corner, shape `(n_in,)`.
            high: The upper corner, shape `(n_in,)`.

        Returns:
            For each piece, the bound on its own token, and the bound on all tokens; both of shape
            `(n_pieces,)`, rounded.
        """
        sizes, steps = np.abs(self.written_offsets), np.abs(self.slopes)
        own = np.maximum(np.abs(low - self.own_points), np.abs(high - self.own_points))
        here = (steps * own).sum(axis=1) + sizes
        if not isinstance(self.origins, TokenOrigins):
            return here, here
        points = self.origins.points
        spans = np.maximum(np.abs(low - points), np.abs(high - points))
        return here, steps @ spans.max(axis=0) + sizes


def piece_layers(
    net: SourceNetwork, origins: Origins | None = None
) -> tuple[list[PieceLayer], AffineMap]:
    """Return the hidden layers of a network and its last, affine layer.

    A ReLU unit is the maximum of its form and the constant 0.

    Args:
        net: The network.
        origins: The origins of the tokens of the single hidden layer, or of the units of the first
            hidden layer; None if all origins are 0.

    Raises:
        ArgumentError: If the origins do not fit the first layer.

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
    if isinstance(origins, UnitOrigins):
        layers[:1] = [_with_unit_origins(layer, origins) for layer in layers[:1]]
    elif origins is not None:
        if len(layers) != 1:
            raise ArgumentError(
                "`origins` of tokens require a network with one hidden layer; this network has "
                f"{len(layers)}."
            )
        layers = [_with_token_origins(layers[0], origins)]
    return layers, AffineMap(net.weights[-1], biases[-1])


def _with_unit_origins(layer: PieceLayer, origins: UnitOrigins) -> PieceLayer:
    n_in = layer.slopes.shape[1]
    if origins.points.shape[1] != n_in or len(origins.units) != layer.n_units:
        raise ArgumentError(
            f"`origins` must have points of dimension {n_in} and an entry for each of the "
            f"{layer.n_units} units of the first layer."
        )
    return replace(layer, origins=origins)


def _with_token_origins(layer: PieceLayer, origins: TokenOrigins) -> PieceLayer:
    n_pieces, n_in = layer.slopes.shape
    pairs = {*zip(layer.owner.tolist(), origins.tokens.tolist(), strict=False)}
    if (
        origins.points.shape != (layer.ranks.max(), n_in)
        or len(origins.tokens) != n_pieces
        or len(pairs) != n_pieces
    ):
        raise ArgumentError(
            "`origins` must assign a token to each piece, with different tokens for the pieces of "
            "a unit, and must have one token per piece of the largest unit."
        )
    return replace(layer, origins=origins)
