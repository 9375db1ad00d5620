r"""Exact evaluation of a network in integers: it settles all winners and ties.

A stream is a matrix of integer columns, one per point, in homogeneous coordinates: the last row
holds the positive scale $\sigma$ of its column, so the vector is the rest over $\sigma$. Affine
maps and means over tied winners keep the columns integer, so no division is needed.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from flint import fmpz, fmpz_mat

from hardmax.exact.dyadic import homogeneous_points, matrix_integers, nearest_quotients
from hardmax.models._arithmetic.layers import VectorBackend, evaluate
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork, Place
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray

_ENTRIES_AT_ONCE = 1 << 20


class ExactPassResult(NamedTuple):
    """The exact outputs and winners of a batch.

    Attributes:
        output: Homogeneous integer rows, shape `(n_points, dim_out + 1)`, the scale last.
        winners: The first winner in each group, shape `(n_points, n_groups)`.
        n_tied: The number of winning forms in each group, shape `(n_points, n_groups)`.
    """

    output: WideArray
    winners: IntArray
    n_tied: IntArray

    def rounded_output(self) -> FloatArray:
        """Round each output to the nearest float64, or to infinity if it is out of range."""
        return nearest_quotients(self.output[:, :-1], self.output[:, -1:])


def run_exact_pass(
    network: ArgmaxNetwork, points: FloatArray, chart: AffineMap | None = None
) -> ExactPassResult:
    """Evaluate a batch exactly.

    If several forms of a group tie, the group contributes their mean, which is the limit of the
    soft network.

    Args:
        network: The network.
        points: Shape `(n_points, dim_in)`, finite.
        chart: If given, the points are coordinates, and this map takes them to inputs.
    """
    shape = len(points), network.n_groups
    output = np.empty((len(points), network.dim_out + 1), dtype=object)
    winners, n_tied = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
    widest = max((len(layer.offsets) for layer in network.layers), default=1)
    step = min(max(1, _ENTRIES_AT_ONCE // widest), 1024)
    for start in range(0, len(points), step):
        chunk = slice(start, start + step)
        contribute = partial(_contribute, winners[chunk], n_tied[chunk])
        columns = _to_matrix(homogeneous_points(points[chunk]).T)
        outputs = evaluate(network, columns, _COLUMNS, contribute, chart)
        output[chunk] = matrix_integers(outputs, 0).integers.T
    return ExactPassResult(output, winners, n_tied)


def _iter_winner_masks(layer: ArgmaxLayer, scores: WideArray) -> Iterator[BoolArray]:
    """Yield the mask of the winners of each group, shape `(n_forms_of_group, n_points)`."""
    for start, end in zip(layer.starts[:-1].tolist(), layer.starts[1:].tolist(), strict=True):
        block = scores[start:end]
        yield np.asarray(block == block.max(axis=0), dtype=bool)


def _contribute(winners: IntArray, n_tied: IntArray, place: Place, query: fmpz_mat) -> fmpz_mat:
    """Store the winners of a layer, and return their contributions as homogeneous columns."""
    layer = place.layer
    scores = matrix_integers(*layer.on_integers(query))
    tied = list(_iter_winner_masks(layer, scores.integers))
    for column, marks in enumerate(tied, place.groups.start):
        winners[:, column] = marks.argmax(axis=0)
        n_tied[:, column] = marks.sum(axis=0)
    scale = _last_row(query)
    counts = n_tied[:, place.groups].astype(object)
    shares = np.lcm.reduce(counts, axis=1)
    exact = layer.exact_contributions
    # Scores have the exponent of the layer's forms; the scale itself has exponent 0.
    exponents = exact.gains_exponent + scores.exponent, exact.values_exponent, 0
    lowest = min(exponents)
    carried, constant, unit = (1 << (e - lowest) for e in exponents)
    blocks = np.zeros((layer.output.dim_in + 1, query.ncols()), dtype=object)
    gains = np.array(exact.gains, dtype=object)
    for g, (slot, marks) in enumerate(zip(layer.slots.tolist(), tied, strict=True)):
        start = int(layer.starts[g])
        share = shares // counts[:, g]
        forms = slice(start, start + len(marks))
        if gains[forms].any():
            passed = (marks * gains[forms, None] * scores.integers[forms]).sum(axis=0)
            blocks[slot] += carried * share * passed
        for j, mark in enumerate(marks, start):
            for k, value in exact.values[j]:
                blocks[slot + k] += mark * (constant * value * share * scale)
    blocks[-1] = unit * shares * scale
    return _to_matrix(blocks)


def _add_columns(stream: fmpz_mat, result: fmpz_mat) -> fmpz_mat:
    """Add columns; the scale of each result is a multiple of the scale of its stream."""
    total = matrix_integers(result, 0).integers
    total[:-1] += matrix_integers(stream, 0).integers[:-1] * (total[-1] // _last_row(stream))
    return _to_matrix(total)


def _apply_map(affine: AffineMap, columns: fmpz_mat) -> fmpz_mat:
    """Apply an affine map to homogeneous columns."""
    values, exponent = affine.on_integers(columns)
    if exponent > 0:
        values = values * fmpz(1 << exponent)
    scale = [x << max(-exponent, 0) for x in columns.entries()[-columns.ncols() :]]
    return fmpz_mat(affine.dim_out + 1, columns.ncols(), values.entries() + scale)


def _to_matrix(columns: WideArray) -> fmpz_mat:
    return fmpz_mat(*columns.shape, columns.ravel().tolist())


def _last_row(matrix: fmpz_mat) -> WideArray:
    entries = matrix.entries()[-matrix.ncols() :]
    return np.array([int(entry) for entry in entries], dtype=object)


_COLUMNS = VectorBackend(_apply_map, _add_columns)
