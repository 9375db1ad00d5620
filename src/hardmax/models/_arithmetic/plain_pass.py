"""Networks of ReLU and maxout units in plain float64: continuous, so no decision is needed."""

import numpy as np

from hardmax.models._arithmetic.float_pass import PreparedLayer, prepared
from hardmax.models._arithmetic.form_bundles import ReluBundle
from hardmax.models._arithmetic.layers import FLOATS, Place, evaluate
from hardmax.models.argmax import ArgmaxLayer, ArgmaxNetwork
from hardmax.typing import BoolArray, FloatArray


def is_continuous(network: ArgmaxNetwork) -> bool:
    """Whether every group passes its largest score on, so that rounding cannot make it jump."""
    return all(
        isinstance(bundle, ReluBundle) or bundle.is_maximum
        for layer in prepared(network)
        for bundle in layer.bundles
    )


def plain_pass(network: ArgmaxNetwork, points: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Evaluate a continuous network.

    Returns:
        The outputs, shape `(n_points, dim_out)`, and whether something overflowed on the way to
        each, shape `(n_points,)`.
    """
    ready = prepared(network)
    overflowed = np.zeros(len(points), dtype=bool)

    def contribute(place: Place, query: FloatArray) -> FloatArray:
        return _contributions(place.layer, ready[place.index], query, overflowed)

    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        output = evaluate(network, points, FLOATS, contribute)
    overflowed |= ~np.isfinite(output).all(axis=1)
    return output, overflowed


def _contributions(
    layer: ArgmaxLayer, ready: PreparedLayer, query: FloatArray, overflowed: BoolArray
) -> FloatArray:
    if ready.only_rectifies:
        overflowed |= ~np.isfinite(query.sum(axis=1))
        return np.maximum(query, 0.0)
    blocks = np.zeros((len(query), layer.output.dim_in))
    for bundle in ready.bundles:
        if isinstance(bundle, ReluBundle):
            scores = query[:, bundle.columns]
            winning = np.maximum(scores, 0.0)
        else:
            scores = bundle.scores.plain(query[:, bundle.columns])
            winning = scores.reshape(len(scores), *bundle.first.shape).max(axis=2)
        # A ReLU turns -inf into 0, so an overflow must be caught before it; a sum catches all.
        overflowed |= ~np.isfinite(scores.sum(axis=1))
        slots = layer.slots[bundle.groups]
        if ready.n_largest_overlap == 1:
            blocks[:, slots] = winning
        else:
            np.add.at(blocks.T, slots, winning.T)
    return blocks
