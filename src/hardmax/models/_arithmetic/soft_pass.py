"""Evaluation of a soft network at one point in interval arithmetic of sufficient precision.

Weights at a small temperature depend on score differences far below the rounding errors of float64.
The scores are therefore enclosed in balls of increasing precision until the output is known to more
digits than a float64 holds.
"""

from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat, ctx, fmpz_mat

from hardmax.exact.rounding import SMALLEST_SUBNORMAL
from hardmax.models._arithmetic.layers import VectorBackend, evaluate
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork, Place
from hardmax.typing import FloatArray

_PRECISIONS = [128 << k for k in range(8)]
_ENOUGH_BITS = 64


class _Contribution(NamedTuple):
    """The contribution of a group to its block, and whether it is certain."""

    entries: list[arb]
    is_decided: bool


def run_soft_pass(network: ArgmaxNetwork, point: FloatArray, taus: list[float]) -> FloatArray:
    """Evaluate the soft network at one point.

    Args:
        network: The network.
        point: Shape `(dim_in,)`, finite.
        taus: A temperature for the heads of each layer; 0 keeps a layer hard. Forms of a hard
            layer that 16384 bits cannot separate count as tied.

    Returns:
        The output, shape `(dim_out,)`; each entry is within an ulp of the true one.
    """
    for precision in _PRECISIONS:
        with ctx.workprec(precision):
            output, is_decided = _evaluate_in_balls(network, point, taus)
            if is_decided and all(map(_is_precise, output)):
                break
    return np.array([float(entry.mid()) for entry in output])


def _evaluate_in_balls(
    network: ArgmaxNetwork, point: FloatArray, taus: list[float]
) -> tuple[list[arb], bool]:
    decided: list[bool] = []

    def contribute(place: Place, query: list[arb]) -> list[arb]:
        layer, scores = place.layer, _scores(place.layer, query)
        blocks = [arb(0)] * layer.output.dim_in
        starts = layer.starts.tolist()
        for g, slot in enumerate(layer.slots.tolist()):
            forms = range(starts[g], starts[g + 1])
            added = _contribute_group(layer, scores, g, forms, taus[place.depth])
            decided.append(added.is_decided)
            for k, entry in enumerate(added.entries, slot):
                blocks[k] += entry
        return blocks

    output = evaluate(network, [arb(float(x)) for x in point], _BALLS, contribute)
    return output, all(decided)


def _contribute_group(
    layer: ArgmaxLayer, scores: list[arb], group: int, forms: range, tau: float
) -> _Contribution:
    best = max(forms, key=lambda j: scores[j].mid())
    if layer.passes_maximum[group]:
        largest = scores[best]
        for j in forms:
            largest = largest.max(scores[j])
        return _Contribution([largest], True)
    if tau > 0.0 and layer.is_table[group]:
        weights = [arb(1) if j == best else ((scores[j] - scores[best]) / tau).exp() for j in forms]
        rows = [[arb(v) for v in layer.values[j].tolist()] for j in forms]
        return _Contribution(_weighted_mean(weights, rows), True)
    rivals = [j for j in forms if not scores[j] < scores[best]]
    parts = [[arb(v) for v in layer.values[j].tolist()] for j in rivals]
    for part, j in zip(parts, rivals, strict=True):
        part[0] += float(layer.gains[j]) * scores[j]
    return _Contribution(_weighted_mean([arb(1)] * len(rivals), parts), len(rivals) == 1)


def _weighted_mean(weights: list[arb], rows: list[list[arb]]) -> list[arb]:
    total = sum(weights, arb(0))
    columns = zip(*rows, strict=True)
    return [
        sum((w * v for w, v in zip(weights, column, strict=True)), arb(0)) / total
        for column in columns
    ]


def _scores(layer: ArgmaxLayer, query: list[arb]) -> list[arb]:
    """Apply the forms of a layer to a vector of balls."""
    if layer.copies is not None:
        return [arb(0) if i < 0 else query[i] for i in layer.copies.tolist()]
    blocks, exponent = layer.exact_blocks
    scores = np.empty(len(layer.offsets), dtype=object)
    held = np.array(query, dtype=object)
    for block, weights in zip(layer.form_blocks, blocks, strict=True):
        scores[block.forms] = _multiply(weights, exponent, held[block.columns].tolist())
    return scores.tolist()


def _multiply(weights: fmpz_mat, exponent: int, vector: list[arb]) -> list[arb]:
    """Apply homogeneous weights, with the bias in the last column, to a vector of balls."""
    column = arb_mat(len(vector) + 1, 1, [*vector, arb(1)])
    scale = arb(2) ** exponent
    return [entry * scale for entry in (arb_mat(weights) * column).entries()]


def _apply_map(affine: AffineMap, vector: list[arb]) -> list[arb]:
    return _multiply(*affine.exact, vector)


def _add_vectors(left: list[arb], right: list[arb]) -> list[arb]:
    return [x + y for x, y in zip(left, right, strict=True)]


_BALLS = VectorBackend(_apply_map, _add_vectors)


def _is_precise(ball: arb) -> bool:
    return ball.rel_accuracy_bits() >= _ENOUGH_BITS or bool(abs(ball) < SMALLEST_SUBNORMAL)
