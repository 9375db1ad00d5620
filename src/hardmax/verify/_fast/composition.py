r"""Exact composition for the verifier: convert stored weights to integers, layer by layer.

This arithmetic belongs to the verifier; the engines compose with other code. A list of affine forms
$f_1, \dots, f_n$ of the domain's coordinates $t \in \mathbb{R}^d$ is a column of packed integers
(`packing`): the forms $q f_i$ and, last, the constant form $q$, for some integer $q \ge 1$. The
product with an integer matrix whose last row is $(0, \dots, 0, s)$ has the same structure, with the
scale $q s$, so no division is needed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from flint import fmpz, fmpz_mat

from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.layer_words import LayerWords
from hardmax.typing import FloatArray, WideArray
from hardmax.verify._fast.layers import ExactLayer
from hardmax.verify._fast.packing import Forms


@dataclass(frozen=True, eq=False)
class ExactNetwork:
    """A network on a domain: the forms before the first layer, and the layers.

    Attributes:
        stream: The embedded coordinates of the domain, as forms in its chart.
        layers: The layers.
    """

    stream: Forms
    layers: list[ExactLayer]


def exact_network(network: ArgmaxNetwork, chart: WideArray, chart_denominator: int) -> ExactNetwork:
    r"""Read the stored weights of a network, restricted to a chart.

    Args:
        network: The network.
        chart: Integer rows of $q x$ as forms in $t$, shape `(dim_in, dim + 1)`.
        chart_denominator: The denominator $q$.
    """
    unit = [0] * (chart.shape[1] - 1) + [chart_denominator]
    coordinates = fmpz_mat([*chart.tolist(), unit])
    if not network.embedding.is_identity:
        embedding, _ = _homogenize(network.embedding)
        coordinates = embedding * coordinates
    rows = [[int(x) for x in row] for row in coordinates.tolist()]
    layers = list(map(_convert_layer, network.layers, network.words))
    # Reserve two more bits: for the difference of two scores, and for a sign.
    reserve = 2 + max((layer.score_bits for layer in layers), default=0)
    stream = Forms.of(rows, 0, reserve)
    scale, bits = stream.scale, stream.bits
    for layer in layers[:-1]:
        scale, bits = layer.bound_after(scale, bits)
    return ExactNetwork(stream.widen(bits), layers)


def _convert_layer(layer: ArgmaxLayer, words: LayerWords) -> ExactLayer:
    scores, scores_scale = _compose_score_rows(layer)
    live = [form for form, row in enumerate(scores) if any(row)]
    gains, gains_scale = integers_of(layer.gains[np.newaxis])
    values, values_scale = integers_of(layer.values)
    output, output_scale = None, 1
    if not layer.output.is_identity:
        output, output_scale = _homogenize(layer.output)
    starts = [int(start) for start in layer.starts]
    return ExactLayer(
        dim_in=layer.dim_in,
        n_forms=len(scores),
        starts=starts,
        group_of=np.repeat(np.arange(len(starts) - 1), np.diff(layer.starts)),
        live=live,
        scores=fmpz_mat([scores[form] for form in live]) if live else fmpz_mat(0, layer.dim_in + 1),
        score_lists=[scores[form] for form in live],
        scores_scale=scores_scale,
        gains=gains[0],
        gains_scale=gains_scale,
        values=[[(k, value) for k, value in enumerate(row) if value] for row in values],
        values_scale=values_scale,
        slots=[int(slot) for slot in layer.slots],
        width=layer.output.dim_in,
        output=output,
        output_scale=output_scale,
        residual=bool(layer.residual),
        words=words,
    )


def integers_of(array: FloatArray) -> tuple[list[list[int]], int]:
    """Write a table of floats as integers over a common power of two, at least 1.

    Examples:
        >>> integers_of(np.array([[0.75, -2.0], [0.0, 4.0]]))
        ([[3, -8], [0, 16]], 4)
    """
    ratios = [[x.as_integer_ratio() for x in row] for row in array.tolist()]
    scale = max((q for row in ratios for _, q in row), default=1)
    return [[p * (scale // q) for p, q in row] for row in ratios], scale


def _homogenize(affine: AffineMap) -> tuple[fmpz_mat, int]:
    """Return the rows of $z W + b$ on $(z, 1)$, and last the row of 1, all times a scale."""
    table: Any = np.column_stack([affine.weight.T, affine.bias])
    rows, scale = integers_of(table)
    return fmpz_mat([*rows, [0] * affine.dim_in + [scale]]), scale


def _make_unit_row(n: int, i: int) -> list[int]:
    row = [0] * n
    row[i] = 1
    return row


def _compose_score_rows(layer: ArgmaxLayer) -> tuple[list[list[fmpz]], int]:
    """Return the forms of a layer on its input, constants last, and their scale."""
    outer, scale = integers_of(np.column_stack([layer.slopes, layer.offsets]))
    rows: list[list[fmpz]] = []
    rows_of: Callable[[int], Any]
    if layer.query.is_identity and layer.reads is None:
        rows = fmpz_mat(outer).tolist()
        return rows, scale
    if layer.query.is_identity:
        # Create rows only when they are read; all rows would take the square of the dimension.
        rows_of, inner_scale = partial(_make_unit_row, layer.dim_in + 1), 1
    else:
        inner, inner_scale = _homogenize(layer.query)
        if layer.reads is None:
            rows = (fmpz_mat(outer) * inner).tolist()
            return rows, scale * inner_scale
        rows_of = inner.tolist().__getitem__
    assert layer.reads is not None
    for group, reads in enumerate(layer.reads.tolist()):
        forms = outer[int(layer.starts[group]) : int(layer.starts[group + 1])]
        # Where nothing is read, the slopes are 0, and any row will do.
        read = [rows_of(i) for i in (*reads, -1)]
        rows += (fmpz_mat(forms) * fmpz_mat(read)).tolist()
    return rows, scale * inner_scale
