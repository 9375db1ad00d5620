"""What is left of a network on a small box: units of the last layer that are 0 there are not."""

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
    r"""A network on a part of its box, without units that do nothing there.

    Attributes:
        layers: The hidden layers.
        last: The last layer.
        plans: The plans of the hidden layers.
        n_tokens: How many tokens the transformer of the whole network has.
        extra: What the units that were left away can do to each output, shape `(dim_out,)`.
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
        """Take the whole network."""
        n_tokens = max((int(layer.ranks.max()) for layer in layers), default=1)
        return cls(layers, last, plans, n_tokens, np.zeros(last.dim_out))

    @cached_property
    def maps(self) -> list[IntervalMap]:
        """The pieces of each hidden layer as a map of boxes."""
        return [IntervalMap.of(layer.slopes, layer.offsets) for layer in self.layers]

    @cached_property
    def readout(self) -> IntervalMap:
        """The last layer as a map of boxes."""
        return IntervalMap.of(self.last.weight.T, self.last.bias)

    @cached_property
    def cost(self) -> int:
        """About how many products one box takes."""
        return 1 + sum(m.cost + 8 * len(m.offsets) for m in self.maps)

    def without(self, idle: BoolArray, errors: FloatArray) -> "LocalNetwork":
        """Leave units of the last hidden layer away, and those before that only they read.

        Args:
            idle: The units that are 0, shape `(n_units,)`; not all of them.
            errors: What each is off by at most, shape `(n_units,)`.
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
                # One unit at least must be left.
                kept = np.flatnonzero(part.slopes.any(axis=0))
                kept = kept if kept.size else np.array([0])
                part = replace(part, slopes=part.slopes[:, kept])
            layers.append(part)
        return LocalNetwork(layers[::-1], last, tuple(plans[::-1]), self.n_tokens, extra)


def is_zero(layer: PieceLayer, near: BoolArray) -> BoolArray:
    """Which units can only be a piece that is constant 0, `(n_boxes, n_units)`.

    Args:
        layer: The layer.
        near: Which pieces can matter, shape `(n_boxes, n_pieces)`.
    """
    nothing = layer.is_constant & (layer.offsets == 0.0)
    matters = np.add.reduceat(near & ~nothing, layer.starts, axis=1)
    # With one piece that matters none is mixed with another.
    return np.asarray((matters == 0) & (np.add.reduceat(near, layer.starts, axis=1) == 1))
