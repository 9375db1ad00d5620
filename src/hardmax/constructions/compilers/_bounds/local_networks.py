"""Restrictions of a network to small boxes, without units of the last layer that are 0 there."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hardmax.constructions.compilers._bounds.certified_errors import LayerPlan
from hardmax.constructions.compilers._bounds.interval_images import IntervalMap
from hardmax.constructions.compilers.piece_layers import PieceLayer
from hardmax.models.argmax import AffineMap
from hardmax.typing import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class LocalNetwork:
    r"""A network on a part of its box, without units that have no effect there.

    Attributes:
        layers: The hidden layers.
        last: The last layer.
        plans: The plans of the hidden layers.
        n_tokens: The number of tokens of the transformer of the whole network.
        extra: A bound on the effect of the dropped units on each output, shape `(dim_out,)`.
    """

    layers: list[PieceLayer]
    last: AffineMap
    plans: tuple[LayerPlan, ...]
    n_tokens: int
    extra: FloatArray

    @classmethod
    def of(
        cls, layers: list[PieceLayer], last: AffineMap, plans: tuple[LayerPlan, ...]
    ) -> "LocalNetwork":
        """Return the whole network."""
        n_tokens = max((int(layer.ranks.max()) for layer in layers), default=1)
        return cls(layers, last, plans, n_tokens, np.zeros(last.dim_out))

    @cached_property
    def maps(self) -> list[IntervalMap]:
        """The pieces of each hidden layer as a map on boxes."""
        return [IntervalMap.of(layer.slopes, layer.offsets) for layer in self.layers]

    @cached_property
    def readout(self) -> IntervalMap:
        """The last layer as a map on boxes."""
        return IntervalMap.of(self.last.weight.T, self.last.bias)

    @cached_property
    def cost(self) -> int:
        """The approximate number of products for one box."""
        return 1 + sum(m.cost + 8 * len(m.offsets) for m in self.maps)

    def drop_units(self, idle: BoolArray, errors: FloatArray) -> "LocalNetwork":
        """Drop units of the last hidden layer, and earlier units that only those read.

        Args:
            idle: Whether to drop a unit, which must be 0; not all units, shape `(n_units,)`.
            errors: For each unit, a bound on its error, shape `(n_units,)`.
        """
        weight = self.last.weight
        extra = self.extra + np.where(idle, errors, 0.0) @ np.abs(weight) * (1.0 + 2.0**-40)
        kept = np.flatnonzero(~idle)
        last = AffineMap(weight[kept], self.last.bias)
        layers, plans = [], []
        for layer, plan in zip(self.layers[::-1], self.plans[::-1], strict=True):
            part = layer.select_units(kept)
            plans.append(replace(plan, floors=plan.floors[kept]))
            if len(plans) < len(self.layers):
                # At least one unit must remain.
                kept = np.flatnonzero(part.slopes.any(axis=0))
                kept = kept if kept.size else np.array([0])
                part = replace(part, slopes=part.slopes[:, kept])
            layers.append(part)
        return LocalNetwork(layers[::-1], last, tuple(plans[::-1]), self.n_tokens, extra)


def is_zero(layer: PieceLayer, near: BoolArray) -> BoolArray:
    """Return which units certainly equal a piece that is constant 0: `(n_boxes, n_units)`.

    Args:
        layer: The layer.
        near: Which pieces can affect their unit, shape `(n_boxes, n_pieces)`.
    """
    nothing = layer.is_constant & (layer.offsets == 0.0)
    matters = np.add.reduceat(near & ~nothing, layer.starts, axis=1)
    # If only one piece can affect a unit, it is not mixed with others.
    return np.asarray((matters == 0) & (np.add.reduceat(near, layer.starts, axis=1) == 1))
