r"""Exact composition for the verifier: stored weights as integers, one layer after the other.

This is the verifier's own arithmetic; the engines compose with other code. A list of affine forms
$f_1, \dots, f_n$ of the domain's coordinates $t \in \mathbb{R}^d$ is a column of packed integers
(`verification_packing`), the $q f_i$ and, last, the constant form $q$ itself, for some integer
$q \ge 1$. A product with an integer matrix whose last row is $(0, \dots, 0, s)$ is again of this
shape, with the scale $q s$. So nothing is ever divided.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import lcm
from typing import Any, NamedTuple

import numpy as np
from flint import fmpz, fmpz_mat

from hardmax.models.argmax_layers import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.regions.verification_packing import Forms
from hardmax.typing import FloatArray, IntArray, WideArray

_ZERO = fmpz(0)


# A layer's map costs as much as composing a few times without it; in a deep network winners come
# again and again, in a shallow one seldom. So many integers are kept as maps of one layer.
_BEFORE_MAP, _KEPT = 3, 1 << 20


class Plan(NamedTuple):
    """The factors of a layer, which forms of one scale share.

    Attributes:
        carry: What a gain times a score is multiplied with.
        constant: What a value is multiplied with.
        unit: The scale of the blocks.
        scale: The scale after the layer.
        written: What the layer's output is multiplied with before the input is added.
        kept: What the input is multiplied with before it is added; 0 if it is not.
        bits: A bound of the coefficients after the layer, as in `Forms`.
    """

    carry: int
    constant: int
    unit: int
    scale: int
    written: int
    kept: int
    bits: int


class LayerMap(NamedTuple):
    """What a layer does where its winners are known: forms to forms.

    Attributes:
        matrix: The map, with the constant form last; of a layer without gains only the constants.
        scale: Its scale.
    """

    matrix: fmpz_mat
    scale: int


@dataclass(frozen=True, eq=False)
class ExactLayer:
    """The stored weights of a layer as integers, each table with its scale.

    Attributes:
        dim_in: How many forms come in.
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

    dim_in: int
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
    _maps: dict[tuple[int, ...], LayerMap | int] = field(default_factory=dict)
    _growths: dict[int, int] = field(default_factory=dict)

    @property
    def n_groups(self) -> int:
        """How many groups the layer has."""
        return len(self.slots)

    @cached_property
    def score_bits(self) -> int:
        """By how many bits a score can be longer than the forms it is made of."""
        return _norm_bits(self.score_lists)

    @cached_property
    def has_gains(self) -> bool:
        """Whether any form passes its score on."""
        return any(self.gains)

    def score_rows(self, stream: Forms, groups: list[int] | None = None) -> list[fmpz]:
        """Return every score as a packed form; all have one positive scale.

        Args:
            stream: The forms before the layer.
            groups: The groups whose scores are needed; all if None. The others are 0.
        """
        live, scores = self.live, self.scores
        if groups is not None and 2 * len(groups) < self.n_groups:
            wanted = [f for g in groups for f in range(self.starts[g], self.starts[g + 1])]
            live = [form for form in wanted if self._row_of[form] >= 0]
            if live:
                scores = fmpz_mat([self.score_lists[self._row_of[form]] for form in live])
        if len(live) == self.n_forms:
            return (scores * stream.column).entries()
        rows = [_ZERO] * self.n_forms
        if live:
            for form, row in zip(live, (scores * stream.column).entries(), strict=True):
                rows[form] = row
        return rows

    @cached_property
    def _row_of(self) -> list[int]:
        """For each form its row in the scores, or -1."""
        rows = [-1] * self.n_forms
        for row, form in enumerate(self.live):
            rows[form] = row
        return rows

    def after(self, stream: Forms, winners: Sequence[int], ties: dict[int, list[int]]) -> Forms:
        """Return the forms after the layer.

        Args:
            stream: The forms before it.
            winners: The winning form of each group, counted through the layer.
            ties: For a group whose winner coincides with other forms, all of them.
        """
        known = None if ties else self._map(tuple(winners))
        if known is None:
            return self._composed(stream, winners, ties)
        packing = stream.packing
        if self.has_gains:
            bits = stream.bits + self._growth(1)
            if bits + packing.reserve > packing.width:
                stream = stream.widened(bits)
            column, scale = known.matrix * stream.column, known.scale * stream.scale
            return Forms(column, scale, bits, stream.packing)
        plan = self._plan(stream.scale, stream.bits, 1)
        if plan.bits + packing.reserve > packing.width:
            stream = stream.widened(plan.bits)
        column = known.matrix * (plan.written * stream.packing.one)
        if self.residual:
            column += stream.column * plan.kept
        return Forms(column, plan.scale, plan.bits, stream.packing)

    def _map(self, winners: tuple[int, ...]) -> LayerMap | None:
        """Return the layer's map once winners have come so often that it pays."""
        known = self._maps.get(winners, 0)
        if isinstance(known, LayerMap):
            return known
        if known < _BEFORE_MAP:
            self._maps[winners] = known + 1
            return None
        if len(self._maps) * (self.dim_in + 1) ** 2 > _KEPT:
            self._maps.clear()
        new = self._maps[winners] = self._new_map(winners)
        return new

    def _new_map(self, winners: tuple[int, ...]) -> LayerMap:
        n_columns = self.dim_in + 1
        plan = self._plan(1, 1, 1)
        zero, one = fmpz_mat(1, n_columns), fmpz_mat(1, n_columns, [0] * self.dim_in + [1])
        rows = [zero] * self.n_forms
        for winner in winners:
            if self._row_of[winner] >= 0:
                rows[winner] = fmpz_mat([self.score_lists[self._row_of[winner]]])
        blocks = [*self._blocks(plan, zero, one, rows, winners, {}), plan.unit * one]
        entries = [entry for block in blocks for entry in block.entries()]
        matrix = fmpz_mat(self.width + 1, n_columns, entries)
        if self.output is not None:
            matrix = self.output * matrix
        last = matrix.nrows() - 1
        if not self.has_gains:
            matrix = fmpz_mat([[row[-1]] for row in matrix.tolist()])
            # The input brings its own constant form, if it is added.
            matrix[last, 0] = 0 if self.residual else plan.scale
        elif self.residual:
            for i in range(last):
                matrix[i, i] += plan.scale
        return LayerMap(matrix, plan.scale)

    def _composed(
        self, stream: Forms, winners: Sequence[int], ties: dict[int, list[int]]
    ) -> Forms:
        """Return the forms after the layer from its definition."""
        shares = lcm(1, *(len(forms) for forms in ties.values()))
        plan = self._plan(stream.scale, stream.bits, shares)
        if plan.bits + stream.packing.reserve > stream.packing.width:
            stream = stream.widened(plan.bits)
        one = stream.packing.one
        blocks = self._blocks(plan, _ZERO, one, self.score_rows(stream), winners, ties)
        column = fmpz_mat(self.width + 1, 1, [*blocks, plan.unit * one])
        if self.output is not None:
            column = self.output * column
        if self.residual:
            column = column * plan.written + stream.column * plan.kept
            # Both have a constant form in the last row; there is to be one.
            column[column.nrows() - 1, 0] = plan.scale * one
        return Forms(column, plan.scale, plan.bits, stream.packing)

    def _blocks(
        self,
        plan: Plan,
        zero: Any,
        one: Any,
        rows: list[Any],
        winners: Sequence[int],
        ties: dict[int, list[int]],
    ) -> list[Any]:
        """Add up what the winners contribute; forms are packed or rows of a matrix.

        Args:
            plan: The factors.
            zero: The form 0.
            one: The form 1.
            rows: The scores.
            winners: The winning form of each group.
            ties: For a group whose winner coincides with other forms, all of them.
        """
        blocks = [zero] * self.width
        for group, winner in enumerate(winners):
            forms = ties.get(group) or [winner]
            slot = self.slots[group]
            for form in forms:
                if self.gains[form]:
                    part = plan.carry * self.gains[form] // len(forms) * rows[form]
                    blocks[slot] = part if blocks[slot] is zero else blocks[slot] + part
                for column, value in self.values[form]:
                    blocks[slot + column] += plan.constant * value // len(forms) * one
        return blocks

    def bound_after(self, scale: int, bits: int) -> tuple[int, int]:
        """Return the scale and a bound of the forms after the layer, where no forms coincide."""
        plan = self._plan(scale, bits, 1)
        return plan.scale, plan.bits

    def _plan(self, scale: int, bits: int, shares: int) -> Plan:
        """Return the factors for forms with a scale and a bound.

        Args:
            scale: The scale of the forms before the layer.
            bits: The bound of their coefficients.
            shares: A number that every count of coinciding winners divides.
        """
        carry = self.values_scale * shares
        factor = scale * self.scores_scale * self.gains_scale if self.has_gains else 1
        unit, constant = carry * factor, shares * factor
        final = unit * self.output_scale
        if self.has_gains:
            # The scale divides the new one.
            bits += self._growth(shares)
            return Plan(carry, constant, unit, final, 1, final // scale, bits)
        value = constant * self._largest_value
        after = max(unit.bit_length(), value.bit_length()) + self._output_bits
        if not self.residual:
            return Plan(carry, constant, unit, final, 1, 0, after)
        total = lcm(final, scale)
        written, kept = total // final, total // scale
        after = 1 + max(after + written.bit_length(), bits + kept.bit_length())
        return Plan(carry, constant, unit, total, written, kept, after)

    def _growth(self, shares: int) -> int:
        """By how many bits forms can grow in a layer with gains; their scale is one of them."""
        growth = self._growths.get(shares)
        if growth is None:
            carry = self.values_scale * shares
            factor = self.scores_scale * self.gains_scale
            # All groups that write to a column, each its largest share.
            gain, value = carry * self._largest_gain, shares * factor * self._largest_value
            growth = 1 + max(gain.bit_length() + self.score_bits, value.bit_length())
            growth = max(growth, (carry * factor).bit_length()) + self._output_bits
            if self.residual:
                growth = 1 + max(growth, (carry * factor * self.output_scale).bit_length())
            self._growths[shares] = growth
        return growth

    @cached_property
    def _largest_gain(self) -> int:
        return self._n_writers * max(abs(gain) for gain in self.gains)

    @cached_property
    def _largest_value(self) -> int:
        values = [abs(value) for pairs in self.values for _, value in pairs]
        return self._n_writers * max(values, default=0)

    @cached_property
    def _n_writers(self) -> int:
        """How many groups write to one column at most."""
        n_values = 1 + max((column for pairs in self.values for column, _ in pairs), default=0)
        written = [slot + k for slot in self.slots for k in range(n_values)]
        return max(Counter(written).values())

    @cached_property
    def _output_bits(self) -> int:
        return 0 if self.output is None else _norm_bits(self.output.tolist())


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
    unit = [0] * (chart.shape[1] - 1) + [chart_denominator]
    coordinates = fmpz_mat([*chart.tolist(), unit])
    if not network.embedding.is_identity:
        embedding, _ = _homogeneous(network.embedding)
        coordinates = embedding * coordinates
    rows = [[int(x) for x in row] for row in coordinates.tolist()]
    layers = [_exact_layer(layer) for layer in network.layers]
    # The difference of two scores, and a sign.
    reserve = 2 + max((layer.score_bits for layer in layers), default=0)
    stream = Forms.of(rows, 0, reserve)
    scale, bits = stream.scale, stream.bits
    for layer in layers[:-1]:
        scale, bits = layer.bound_after(scale, bits)
    return ExactNetwork(stream.widened(bits), layers)


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


def _norm_bits(rows: Sequence[Sequence[Any]]) -> int:
    """Return a bound in bits of the sum of the absolute entries of any row."""
    return max((int(sum(abs(x) for x in row)).bit_length() for row in rows), default=0)
