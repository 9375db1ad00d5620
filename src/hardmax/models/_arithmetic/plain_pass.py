"""Networks of ReLU and maxout units in plain float64: continuous, so no decision is needed."""

import numpy as np

from hardmax.models._arithmetic.float_pass import prepared
from hardmax.models._arithmetic.form_bundles import ReluBundle
from hardmax.models._arithmetic.layers import FLOATS, evaluate
from hardmax.models.argmax import ArgmaxNetwork, Place
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
    # A ReLU turns -inf into 0, so an overflow must be caught before it; a sum catches all.
    total = np.zeros(len(points))

    def contribute(place: Place, query: FloatArray) -> FloatArray:
        layer, prepared_layer = place.layer, ready[place.depth]
        if prepared_layer.only_rectifies:
            np.add(total, query.sum(axis=1), out=total)
            return np.maximum(query, 0.0)
        blocks = np.zeros((len(query), layer.output.dim_in))
        for bundle in prepared_layer.bundles:
            if isinstance(bundle, ReluBundle):
                scores = query[:, bundle.columns]
                winning = np.maximum(scores, 0.0)
            else:
                scores = bundle.scores.plain(query[:, bundle.columns])
                winning = scores.reshape(len(scores), *bundle.first.shape).max(axis=2)
            np.add(total, scores.sum(axis=1), out=total)
            slots = layer.slots[bundle.groups]
            if prepared_layer.n_largest_overlap == 1:
                blocks[:, slots] = winning
            else:
                np.add.at(blocks.T, slots, winning.T)
        return blocks

    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        output = evaluate(network, points, FLOATS, contribute)
        total += output.sum(axis=1)
    return output, ~np.isfinite(total)
