r"""Exact composition for the verifier: stored weights as integers, one layer after the other.

This is the verifier's own arithmetic; the engines compose with other code. A list of affine forms
$f_1, \dots, f_n$ of the domain's coordinates $t \in \mathbb{R}^d$ is an integer matrix with the
rows $q f_i$ and, last, the constant form $q$ itself, for some integer $q \ge 1$. A product with
an integer matrix whose last row is $(0, \dots, 0, s)$ is again of this shape, with the scale
$q s$. So nothing is ever divided.
"""

from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np
from flint import fmpz, fmpz_mat

from hardmax.models.argmax_layers import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.typing import FloatArray, IntArray, WideArray


@dataclass(frozen=True, eq=False)
class Forms:
    """Affine forms with a common denominator.

    Attributes:
        matrix: The rows times the scale, and last the constant form 1 times the scale; shape
            `(n_forms + 1, dim + 1)`, constants in the last column.
        scale: The positive integer in the last corner.
    """

    matrix: fmpz_mat
    scale: int


@dataclass(frozen=True, eq=False)
class ExactLayer:
    """The stored weights of a layer as integers, each table with its scale.

    Attributes:
        n_forms: How many forms the layer has.
        starts: First form of each group, and the end.
        group_of: The group of each form.
        live: The forms whose score is not zero whatever the input.
        scores: Rows of the live forms on the layer's input, constants last.
        score_lists: The same rows as lists.
        scores_scale: The scale of `scores`.
        gains: The gain of each form times `gains_scale`.
        gains_scale: The scale of `gains`.
        values: For each form the pairs (column, value times `values_scale`) that are not zero.
        values_scale: The scale of `values`.
        slots: First column of each group's block.
        width: How many columns the blocks fill.
        output: The map after the blocks, with the constant form last; None for the identity.
        output_scale: The scale of `output`.
        residual: Whether the input is added.
    """

    n_forms: int
    starts: list[int]
    group_of: IntArray
    live: list[int]
    scores: fmpz_mat
    score_lists: list[list[fmpz]]
    scores_scale: int
    gains: list[int]
    gains_scale: int
    values: list[list[tuple[int, int]]]
    values_scale: int
    slots: list[int]
    width: int
    output: fmpz_mat | None
    output_scale: int
    residual: bool

    @property
    def n_groups(self) -> int:
        """How many groups the layer has."""
        return len(self.slots)

    def score_rows(self, stream: Forms, groups: list[int] | None = None) -> list[list[fmpz]]:
        """Return every score as a row of integers; all have one positive scale.

        Args:
            stream: The forms before the layer.
            groups: The groups whose scores are needed; all if None. The other rows are 0.
        """
        rows = [[fmpz(0)] * stream.matrix.ncols()] * self.n_forms
        live, scores = self.live, self.scores
        if groups is not None:
            wanted = set(groups)
            chosen = [i for i, form in enumerate(live) if self.group_of[form] in wanted]
            live = [live[i] for i in chosen]
            scores = fmpz_mat([self.score_lists[i] for i in chosen]) if live else scores
        if live:
            live_rows: list[list[fmpz]] = (scores * stream.matrix).tolist()
            for form, row in zip(live, live_rows, strict=True):
                rows[form] = row
        return rows

    def after(
        self,
        stream: Forms,
        rows: list[list[fmpz]],
        winners: list[int],
        ties: dict[int, list[int]],
    ) -> Forms:
        """Return the forms after the layer.

        Args:
            stream: The forms before it.
            rows: What `score_rows` returns for them.
            winners: The winning form of each group, counted through the layer.
            ties: For a group whose winner coincides with other forms, all of them.
        """
        shares = lcm(1, *(len(forms) for forms in ties.values()))
        unit = self.values_scale * shares
        carry = unit
        if any(self.gains):
            unit *= stream.scale * self.scores_scale * self.gains_scale
        constant = unit // self.values_scale
        n_columns = stream.matrix.ncols()
        zero = [fmpz(0)] * n_columns
        blocks = [zero] * self.width
        for group, winner in enumerate(winners):
            forms = ties.get(group) or [winner]
            slot = self.slots[group]
            for form in forms:
                if self.gains[form]:
                    factor = carry * self.gains[form] // len(forms)
                    row = rows[form] if factor == 1 else [factor * x for x in rows[form]]
                    old = blocks[slot]
                    blocks[slot] = (
                        row if old is zero else [x + y for x, y in zip(old, row, strict=True)]
                    )
                for column, value in self.values[form]:
                    block = list(blocks[slot + column])
                    block[-1] += constant * value // len(forms)
                    blocks[slot + column] = block
        flat = [entry for block in blocks for entry in block]
        matrix = fmpz_mat(self.width + 1, n_columns, [*flat, *zero[1:], fmpz(unit)])
        if self.output is not None:
            matrix, unit = self.output * matrix, unit * self.output_scale
        return self._plus(stream, matrix, unit) if self.residual else Forms(matrix, unit)

    def _plus(self, stream: Forms, matrix: fmpz_mat, unit: int) -> Forms:
        scale = lcm(unit, stream.scale)
        total = matrix * fmpz(scale // unit) + stream.matrix * fmpz(scale // stream.scale)
        # Both have a constant form in the last row; there is to be one.
        total[total.nrows() - 1, total.ncols() - 1] = fmpz(scale)
        return Forms(total, scale)


@dataclass(frozen=True, eq=False)
class ExactNetwork:
    """A network on a domain: the forms before the first layer, and the layers.

    Attributes:
        stream: The embedded coordinates of the domain as forms in its chart.
        layers: The layers.
    """

    stream: Forms
    layers: list[ExactLayer]


def exact_network(network: ArgmaxNetwork, chart: WideArray, chart_denominator: int) -> ExactNetwork:
    r"""Read the stored weights of a network, restricted to a chart.

    Args:
        network: The network.
        chart: Integer rows of $q x$ as forms in $t$, shape `(dim_in, dim + 1)`.
        chart_denominator: The $q$.
    """
    n_columns = chart.shape[1]
    unit = [0] * (n_columns - 1) + [chart_denominator]
    coordinates = fmpz_mat([*chart.tolist(), unit])
    stream = Forms(coordinates, chart_denominator)
    if not network.embedding.is_identity:
        embedding, scale = _homogeneous(network.embedding)
        stream = Forms(embedding * coordinates, scale * chart_denominator)
    return ExactNetwork(stream, [_exact_layer(layer) for layer in network.layers])


def _exact_layer(layer: ArgmaxLayer) -> ExactLayer:
    scores, scores_scale = _score_rows(layer)
    live = [form for form, row in enumerate(scores) if any(row)]
    gains, gains_scale = integers_of(layer.gains[np.newaxis])
    values, values_scale = integers_of(layer.values)
    output, output_scale = None, 1
    if not layer.output.is_identity:
        output, output_scale = _homogeneous(layer.output)
    starts = [int(start) for start in layer.starts]
    return ExactLayer(
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
    )


def integers_of(array: FloatArray) -> tuple[list[list[int]], int]:
    """Write a table of floats as integers over one power of two, at least 1.

    Examples:
        >>> integers_of(np.array([[0.75, -2.0], [0.0, 4.0]]))
        ([[3, -8], [0, 16]], 4)
    """
    ratios = [[float(x).as_integer_ratio() for x in row] for row in array]
    scale = max((q for row in ratios for _, q in row), default=1)
    return [[p * (scale // q) for p, q in row] for row in ratios], scale


def _homogeneous(affine: AffineMap) -> tuple[fmpz_mat, int]:
    """Return the rows of $z W + b$ on $(z, 1)$ and last the row of 1, all times a scale."""
    table: Any = np.column_stack([affine.weight.T, affine.bias])
    rows, scale = integers_of(table)
    return fmpz_mat([*rows, [0] * affine.dim_in + [scale]]), scale


def _score_rows(layer: ArgmaxLayer) -> tuple[list[list[fmpz]], int]:
    """Return the forms of a layer on its input, constants last, and their scale."""
    outer, scale = integers_of(np.column_stack([layer.slopes, layer.offsets]))
    rows: list[list[fmpz]] = []
    if layer.query.is_identity and layer.reads is None:
        rows = fmpz_mat(outer).tolist()
        return rows, scale
    inner, inner_scale = _homogeneous(layer.query)
    if layer.reads is None:
        rows = (fmpz_mat(outer) * inner).tolist()
        return rows, scale * inner_scale
    queries = inner.tolist()
    for group, reads in enumerate(layer.reads.tolist()):
        forms = outer[int(layer.starts[group]) : int(layer.starts[group + 1])]
        # Where nothing is read, the slopes are 0 and any row will do.
        read = [*(queries[i] for i in reads), queries[-1]]
        rows += (fmpz_mat(forms) * fmpz_mat(read)).tolist()
    return rows, scale * inner_scale
