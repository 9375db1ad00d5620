"""Evaluation of ReLU and maxout networks in plain float64.

Such networks are continuous, so no winner has to be decided.
"""

import numpy as np

from hardmax.models._arithmetic.float_pass import prepare_layers
from hardmax.models._arithmetic.form_bundles import ReluBundle
from hardmax.models._arithmetic.layers import FLOATS, evaluate
from hardmax.models.argmax import ArgmaxNetwork, Place
from hardmax.typing import BoolArray, FloatArray


def is_continuous(network: ArgmaxNetwork) -> bool:
    """Whether every group contributes its largest score, so that rounding causes no jumps."""
    return all(
        isinstance(bundle, ReluBundle) or bundle.is_maximum
        for layer in prepare_layers(network)
        for bundle in layer.bundles
    )


def run_plain_pass(network: ArgmaxNetwork, points: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Evaluate a continuous network.

    Returns:
        The outputs, shape `(n_points, dim_out)`, and whether an intermediate result overflowed,
        shape `(n_points,)`.
    """
    ready = prepare_layers(network)
    # A ReLU turns -inf into 0, so overflow must be detected before it; one sum detects all cases.
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
