r"""One layer of the verifier in exact integers: its scores, and the forms after it.

A layer takes packed forms (`packing`) of the scale $q$ to packed forms of another
scale; nothing is ever divided. Where the winners of a layer are known, the layer is an affine map.
In a deep network the same winners come again and again, on other polygons, so this map is put
together once, as one integer matrix, and composing is multiplying with it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import lcm
from typing import Any, NamedTuple

import numpy as np
from flint import fmpz, fmpz_mat

from hardmax.models.layer_words import LayerWords
from hardmax.typing import IntArray, WideArray
from hardmax.verify._fast.packing import Forms

_ZERO = fmpz(0)


# A layer's map costs as much as composing a few times without it; in a deep network winners come
# again and again, in a shallow one seldom. Memory bounds how many winners are counted, and how many
# integers are kept as maps of one layer.
_BEFORE_MAP, _COUNTED, _KEPT = 3, 1 << 16, 1 << 22


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
        words: What the groups and forms are called.
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
    words: LayerWords
    _maps: dict[tuple[int, ...], LayerMap] = field(default_factory=dict)
    _counts: dict[tuple[int, ...], int] = field(default_factory=dict)
    _growths: dict[int, int] = field(default_factory=dict)

    @property
    def n_groups(self) -> int:
        """How many groups the layer has."""
        return len(self.slots)

    def name(self, form: int) -> str:
        """Return the name of a form, which is counted over all groups."""
        group = int(self.group_of[form])
        return self.words.name(group, form - self.starts[group])

    def describe_tie(self, form: int, first: int) -> str:
        """Say that a form that is listed as a winner coincides with one before it."""
        number = first - self.starts[int(self.group_of[first])]
        return (
            f"{self.name(form)} coincides there with {self.words.form} {number}, which names the "
            "cell"
        )

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
            rows: list[fmpz] = (scores * stream.column).entries()
            return rows
        rows = [_ZERO] * self.n_forms
        if live:
            for form, row in zip(live, (scores * stream.column).entries(), strict=True):
                rows[form] = row
        return rows

    @cached_property
    def _score_arrays(self) -> list[WideArray]:
        return [np.array(row, dtype=object) for row in self.score_lists]

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
        known = self._maps.get(winners)
        if known is None:
            count = self._counts.get(winners, 0)
            if count < _BEFORE_MAP:
                if len(self._counts) >= _COUNTED:
                    self._counts.clear()
                self._counts[winners] = count + 1
                return None
            if len(self._maps) * (self.dim_in + 1) ** 2 >= _KEPT:
                self._maps.clear()
            known = self._maps[winners] = self._new_map(winners)
        return known

    def _new_map(self, winners: tuple[int, ...]) -> LayerMap:
        plan = self._plan(1, 1, 1)
        zero, one = (np.array([0] * self.dim_in + [last], dtype=object) for last in (0, 1))
        rows = [zero if row < 0 else self._score_arrays[row] for row in self._row_of]
        blocks = [*self._blocks(plan, zero, one, rows, winners, {}), plan.unit * one]
        matrix = fmpz_mat([block.tolist() for block in blocks])
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

    def _composed(self, stream: Forms, winners: Sequence[int], ties: dict[int, list[int]]) -> Forms:
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
        """Add up what the winners contribute; forms are packed or arrays of integers.

        Args:
            plan: The factors.
            zero: The form 0.
            one: The form 1.
            rows: The scores.
            winners: The winning form of each group.
            ties: For a group whose winner coincides with other forms, all of them.
        """
        if self._passes and not ties:
            return [rows[winner] for winner in winners]
        blocks = [zero] * self.width
        for group, winner in enumerate(winners):
            forms = ties.get(group) or [winner]
            slot = self.slots[group]
            for form in forms:
                if self.gains[form]:
                    factor = plan.carry * self.gains[form] // len(forms)
                    part = rows[form] if factor == 1 else factor * rows[form]
                    blocks[slot] = part if blocks[slot] is zero else blocks[slot] + part
                for column, value in self.values[form]:
                    part = plan.constant * value // len(forms) * one
                    blocks[slot + column] = blocks[slot + column] + part
        return blocks

    @cached_property
    def _passes(self) -> bool:
        """Whether each block is the winning score of its group, and needs no factor."""
        is_plain = self.values_scale == 1 and not any(self.values)
        gains = {self.gains[form] for form in self.live}
        return is_plain and gains == {1} and self.slots == list(range(self.width))

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


def _norm_bits(rows: Sequence[Sequence[Any]]) -> int:
    """Return a bound in bits of the sum of the absolute entries of any row."""
    return max((int(sum(abs(x) for x in row)).bit_length() for row in rows), default=0)
