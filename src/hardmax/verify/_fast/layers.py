r"""A layer of the verifier in exact integers: its scores, and the forms after it.

A layer maps packed forms (`packing`) with the scale $q$ to packed forms with another scale, without
any division. If the winners of a layer are known, the layer is an affine map. In a deep network,
the same winners recur on many polygons, so this map is assembled once, as an integer matrix, and
composition is a multiplication by it.
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


# Assembling the map of a layer costs as much as a few compositions without it. Winners recur often
# in a deep network and seldom in a shallow one. The number of winners counted, and the number of
# integers kept as maps of a layer, are bounded to limit memory.
_BEFORE_MAP, _COUNTED, _KEPT = 3, 1 << 16, 1 << 22


class Plan(NamedTuple):
    """The factors of a layer, shared by all forms of one scale.

    Attributes:
        carry: The factor of a gain times a score.
        constant: The factor of a value.
        unit: The scale of the blocks.
        scale: The scale after the layer.
        written: The factor of the layer's output before the input is added.
        kept: The factor of the input before it is added; 0 if it is not added.
        bits: A bound on the coefficients after the layer, as in `Forms`.
    """

    carry: int
    constant: int
    unit: int
    scale: int
    written: int
    kept: int
    bits: int


class LayerMap(NamedTuple):
    """The map of a layer with known winners, from forms to forms.

    Attributes:
        matrix: The map, with the constant form last; for a layer without gains, only the constants.
        scale: The scale of the map.
    """

    matrix: fmpz_mat
    scale: int


@dataclass(frozen=True, eq=False)
class ExactLayer:
    """The stored weights of a layer as integers, each table with its scale.

    Attributes:
        dim_in: The number of input forms.
        n_forms: The number of forms of the layer.
        starts: The first form of each group, and the end.
        group_of: The group of each form.
        live: The forms whose score is not identically zero.
        scores: The live forms as rows on the layer's input, constants last.
        score_lists: The same rows as lists.
        scores_scale: The scale of `scores`.
        gains: The gain of each form times `gains_scale`.
        gains_scale: The scale of `gains`.
        values: The nonzero pairs (column, value times `values_scale`) of each form.
        values_scale: The scale of `values`.
        slots: The first column of each group's block.
        width: The number of columns of all blocks.
        output: The map after the blocks, with the constant form last; None for the identity.
        output_scale: The scale of `output`.
        residual: Whether the input is added.
        words: The names of the groups and forms.
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
        """The number of groups of the layer."""
        return len(self.slots)

    def name(self, form: int) -> str:
        """Return the name of a form, given its number within the layer."""
        group = int(self.group_of[form])
        return self.words.name(group, form - self.starts[group])

    def describe_tie(self, form: int, first: int) -> str:
        """Return the message that a listed winner coincides with an earlier form."""
        number = first - self.starts[int(self.group_of[first])]
        return (
            f"{self.name(form)} coincides there with {self.words.form} {number}, which comes first "
            "and must be recorded instead"
        )

    @cached_property
    def score_bits(self) -> int:
        """The maximum number of bits by which a score is longer than the input forms."""
        return _norm_bits(self.score_lists)

    @cached_property
    def has_gains(self) -> bool:
        """Whether any form has a nonzero gain."""
        return any(self.gains)

    def score_rows(self, stream: Forms, groups: list[int] | None = None) -> list[fmpz]:
        """Return every score as a packed form, all with the same positive scale.

        Args:
            stream: The forms before the layer.
            groups: The groups whose scores are needed; the other scores may be 0. None means all.
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
        """The row of each form in the scores, or -1."""
        rows = [-1] * self.n_forms
        for row, form in enumerate(self.live):
            rows[form] = row
        return rows

    def after(self, stream: Forms, winners: Sequence[int], ties: dict[int, list[int]]) -> Forms:
        """Return the forms after the layer.

        Args:
            stream: The forms before the layer.
            winners: The winning form of each group, by its number within the layer.
            ties: All coinciding winners of each group that has more than one.
        """
        known = None if ties else self._map(tuple(winners))
        if known is None:
            return self._compose(stream, winners, ties)
        packing = stream.packing
        if self.has_gains:
            bits = stream.bits + self._growth(1)
            if bits + packing.reserve > packing.width:
                stream = stream.widen(bits)
            column, scale = known.matrix * stream.column, known.scale * stream.scale
            return Forms(column, scale, bits, stream.packing)
        plan = self._plan(stream.scale, stream.bits, 1)
        if plan.bits + packing.reserve > packing.width:
            stream = stream.widen(plan.bits)
        column = known.matrix * (plan.written * stream.packing.one)
        if self.residual:
            column += stream.column * plan.kept
        return Forms(column, plan.scale, plan.bits, stream.packing)

    def _map(self, winners: tuple[int, ...]) -> LayerMap | None:
        """Return the map of the layer, if these winners have recurred often enough to pay off."""
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
            # If the input is added, it contributes its own constant form.
            matrix[last, 0] = 0 if self.residual else plan.scale
        elif self.residual:
            for i in range(last):
                matrix[i, i] += plan.scale
        return LayerMap(matrix, plan.scale)

    def _compose(self, stream: Forms, winners: Sequence[int], ties: dict[int, list[int]]) -> Forms:
        """Return the forms after the layer from its definition."""
        shares = lcm(1, *(len(forms) for forms in ties.values()))
        plan = self._plan(stream.scale, stream.bits, shares)
        if plan.bits + stream.packing.reserve > stream.packing.width:
            stream = stream.widen(plan.bits)
        one = stream.packing.one
        blocks = self._blocks(plan, _ZERO, one, self.score_rows(stream), winners, ties)
        column = fmpz_mat(self.width + 1, 1, [*blocks, plan.unit * one])
        if self.output is not None:
            column = self.output * column
        if self.residual:
            column = column * plan.written + stream.column * plan.kept
            # Both have a constant form in the last row, but only one is needed.
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
        """Return the sums of the winners' contributions; forms are packed or integer arrays.

        Args:
            plan: The factors.
            zero: The form 0.
            one: The form 1.
            rows: The scores.
            winners: The winning form of each group.
            ties: All coinciding winners of each group that has more than one.
        """
        if self._copies_scores and not ties:
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
    def _copies_scores(self) -> bool:
        """Whether each block is just the winning score of its group, without a factor."""
        is_plain = self.values_scale == 1 and not any(self.values)
        gains = {self.gains[form] for form in self.live}
        return is_plain and gains == {1} and self.slots == list(range(self.width))

    def bound_after(self, scale: int, bits: int) -> tuple[int, int]:
        """Return the scale and a bound on the forms after the layer, if no forms coincide."""
        plan = self._plan(scale, bits, 1)
        return plan.scale, plan.bits

    def _plan(self, scale: int, bits: int, shares: int) -> Plan:
        """Return the factors for forms with a given scale and bound.

        Args:
            scale: The scale of the forms before the layer.
            bits: The bound on their coefficients.
            shares: A common multiple of the numbers of coinciding winners.
        """
        carry = self.values_scale * shares
        factor = scale * self.scores_scale * self.gains_scale if self.has_gains else 1
        unit, constant = carry * factor, shares * factor
        final = unit * self.output_scale
        if self.has_gains:
            # The old scale divides the new one.
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
        """Return the maximum growth, in bits, of forms and of their scale in a layer with gains."""
        growth = self._growths.get(shares)
        if growth is None:
            carry = self.values_scale * shares
            factor = self.scores_scale * self.gains_scale
            # All groups that write to a column, each with its largest contribution.
            gain, value = carry * self._largest_gain, shares * factor * self._largest_value
            growth = 1 + max(gain.bit_length() + self.score_bits, value.bit_length())
            growth = max(growth, (carry * factor).bit_length()) + self._output_bits
            if self.residual:
                growth = 1 + max(growth, (carry * factor * self.output_scale).bit_length())
            self._growths[shares] = growth
        return growth

    @cached_property
    def _largest_gain(self) -> int:
        return self._max_writers * max(abs(gain) for gain in self.gains)

    @cached_property
    def _largest_value(self) -> int:
        values = [abs(value) for pairs in self.values for _, value in pairs]
        return self._max_writers * max(values, default=0)

    @cached_property
    def _max_writers(self) -> int:
        """The maximum number of groups that write to one column."""
        n_values = 1 + max((column for pairs in self.values for column, _ in pairs), default=0)
        written = [slot + k for slot in self.slots for k in range(n_values)]
        return max(Counter(written).values())

    @cached_property
    def _output_bits(self) -> int:
        return 0 if self.output is None else _norm_bits(self.output.tolist())


def _norm_bits(rows: Sequence[Sequence[Any]]) -> int:
    """Return the bit length of the largest sum of absolute entries of a row."""
    return max((int(sum(abs(x) for x in row)).bit_length() for row in rows), default=0)
