r"""Rounded composition for the verifier, with bounds: what needs no exact look.

Many tables of forms are enclosed at once, entry by entry, $|\text{true} - \text{centre}| \le
\text{radius}$; the last axis of every array counts the tables. Let $u = 2^{-53}$. For a product
$T Z$ of $n$ terms, with $T$ rounded to a relative $2u$ or an absolute $2^{-1074}$ and $Z$ enclosed
with radius $R$, the rounded product is wrong by at most
$(1 + 2u)|T| R + ((n + 1) u + 2u + O(u^2)) |T||Z|$ and terms below the normal range, in whatever
order the terms are added [Higham02, section 3.5]. The code computes $A (R + g |Z|) + 2^{-1000}$
with $g = 2(n + 16) u$ and $A = (1 + g)|T| + 2^{-1000}$: more than twice what is needed, which also
covers the rounding of the bound itself. Overflow gives infinities and NaN, and neither is ever less
than anything.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hardmax.typing import BoolArray, FloatArray, IntArray
from hardmax.verify._fast.layers import ExactLayer
from hardmax.verify._fast.packing import Forms

TINY = 2.0**-1000
# Entries of a point are at most 1, and their errors are counted apart. A product of three terms is
# wrong by less than 4 * 2^-53 of the sum of the absolute terms, and the bound of it by less than
# 2^-50 of itself; the difference of two centres by 2^-53 of both.
RELATIVE = 2.0**-49
# Points whose entries are nearer than this have one bound of the error of a form, the same for all.
_SHARP = 2.0**-44
_SMALL = 1 << 18


class Enclosure(NamedTuple):
    """Tables of forms between bounds; in each the constant form 1 in the last row.

    Attributes:
        centre: Shape `(n_forms + 1, n_columns, n_tables)`.
        radius: The same shape.
    """

    centre: FloatArray
    radius: FloatArray


class Scores:
    r"""Forms to be evaluated at points, whose radii have room for rounding a value.

    No entry of a point is larger than 1. Where it is off by at most $v$ in each, the value
    $\langle c, p\rangle$ of a form with the centre $c$ and the radius $R$ is wrong by at most
    $\sum_k R_k (1 + v) + \sum_k |c_k| v$.

    Args:
        forms: The forms.
    """

    def __init__(self, forms: Enclosure) -> None:
        self.forms = forms
        self._reach, self._size = forms.radius.sum(axis=1), np.abs(forms.centre).sum(axis=1)
        self._sharp = _error(self._reach, self._size, _SHARP)

    def at(
        self, owners: IntArray, points: FloatArray, vague: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Find the values of all forms at points.

        Args:
            owners: For each point the table it belongs to, shape `(n_points,)`.
            points: The points, shape `(n_columns, n_points)`.
            vague: How far an entry of each may be from the true one, shape `(n_points,)`.

        Returns:
            Values, and bounds of their errors, shape `(n_forms, n_points)`.
        """
        centre = self.forms.centre
        value = centre[:, 0].take(owners, axis=1)
        value *= points[0]
        for k in range(1, len(points)):
            term = centre[:, k].take(owners, axis=1)
            term *= points[k]
            value += term
        error = self._sharp.take(owners, axis=1)
        blurred = _blurred(vague)
        if len(blurred):
            some = owners[blurred]
            reach, size = (table.take(some, axis=1) for table in (self._reach, self._size))
            error[:, blurred] = _error(reach, size, vague[blurred])
        return value, error

    def of(
        self,
        rows: IntArray,
        tables: IntArray,
        sizes: IntArray,
        points: FloatArray,
        vague: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Find the value of each of some forms at points of its own.

        Args:
            rows: The forms, by rows and tables.
            tables: The tables.
            sizes: How many points each has.
            points: The points, those of a form after those of the forms before.
            vague: How far an entry of each may be from the true one.

        Returns:
            Values, and bounds of their errors, shape `(n_points,)`.
        """
        _, n_columns, n_tables = self.forms.centre.shape
        places = rows * (n_columns * n_tables) + tables
        value = self.forms.centre.take(places).repeat(sizes)
        value *= points[0]
        for k in range(1, n_columns):
            term = self.forms.centre.take(places + k * n_tables).repeat(sizes)
            term *= points[k]
            value += term
        places = rows * n_tables + tables
        error = self._sharp.take(places).repeat(sizes)
        blurred = _blurred(vague)
        if len(blurred):
            some = places.repeat(sizes)[blurred]
            error[blurred] = _error(self._reach.take(some), self._size.take(some), vague[blurred])
        return value, error


def _blurred(vague: FloatArray) -> IntArray:
    # What is not a number is not sharp.
    return (~(vague <= _SHARP)).nonzero()[0]


def _error(reach: FloatArray, size: FloatArray, vague: FloatArray | float) -> FloatArray:
    return (reach * (1.0 + vague) + size * vague) * (1.0 + RELATIVE) + TINY


class Product(NamedTuple):
    """A matrix to multiply enclosures with.

    Attributes:
        matrix: The rounded matrix.
        bound: The $A$ of the module's bound.
        slack: The $g$.
    """

    matrix: FloatArray
    bound: FloatArray
    slack: float

    def times(self, forms: Enclosure) -> Enclosure:
        """Enclose the products."""
        n, *tail = forms.centre.shape
        weighted = np.abs(forms.centre)
        weighted *= self.slack
        weighted += forms.radius
        radius = _product(self.bound, weighted.reshape(n, -1))
        radius += TINY
        centre = _product(self.matrix, forms.centre.reshape(n, -1))
        return Enclosure(centre.reshape(-1, *tail), radius.reshape(-1, *tail))


def _product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Multiply matrices, a part at a time: so small that no library starts threads for it."""
    step = max(1, _SMALL // max(1, left.size))
    result = np.empty((len(left), right.shape[1]))
    for start in range(0, right.shape[1], step):
        part = slice(start, start + step)
        np.matmul(left, right[:, part], out=result[:, part])
    return result


class RoundedLayer(NamedTuple):
    """A layer in floating point.

    Attributes:
        scores: The scores of the live forms on the layer's input; their radii leave room for the
            rounding of a value at a vertex.
        live: The forms whose score is not zero whatever the input.
        n_forms: How many forms the layer has.
        against_zero: Whether every group has two forms, of which one is live.
        row_of: For each form its row in `scores`; any row if it is not live.
        is_live: Which forms are live.
        gains: The gain of each form, 0 if it is not live, shape `(n_forms,)`; None if all are 0.
        gain_bounds: The sizes of the gains, with room for the rounding of a product and a sum.
        slots: Which column each group's gain goes to; None for its own.
        values: The value of each form, shape `(n_values, n_forms)`; None if all are 0.
        first_columns: The first column of each group's values.
        width: How many columns the blocks fill.
        output: The map after the blocks; None for the identity.
        residual: Whether the input is added.
    """

    scores: Product
    live: IntArray
    n_forms: int
    against_zero: bool
    row_of: IntArray
    is_live: BoolArray
    gains: FloatArray | None
    gain_bounds: FloatArray
    slots: list[int] | None
    values: FloatArray | None
    first_columns: list[int]
    width: int
    output: Product | None
    residual: bool

    def with_zeros(self, table: FloatArray) -> FloatArray:
        """Return a table of all forms, given the rows of the live ones."""
        whole = np.zeros((self.n_forms, table.shape[1]))
        whole[self.live] = table
        return whole

    def after(
        self, streams: Enclosure, scores: Enclosure, tables: IntArray, winners: IntArray
    ) -> Enclosure:
        """Enclose the forms after the layer, where no winner coincides with another form.

        Args:
            streams: The forms before it.
            scores: Their scores.
            tables: Which of the tables each result continues, shape `(n_results,)`.
            winners: The winning forms, shape `(n_groups, n_results)`.
        """
        if self.gains is None:
            return self._shifted(streams, tables, winners)
        written = self._blocks(scores, tables, winners)
        if self.output is not None:
            written = self.output.times(written)
        centre, radius = written
        if self.residual:
            centre += streams.centre.take(tables, axis=2)
            radius += streams.radius.take(tables, axis=2)
            _add_rounding(centre, radius)
        return _with_constant(centre, radius)

    def _shifted(self, streams: Enclosure, tables: IntArray, winners: IntArray) -> Enclosure:
        """Enclose the forms after a layer without gains, which adds constants."""
        constants = Enclosure(*(np.zeros((self.width + 1, len(tables))) for _ in range(2)))
        self._add_values(constants, winners)
        constants.centre[-1] = 1.0
        if self.output is not None:
            constants = self.output.times(constants)
        if self.residual:
            centre, radius = (table.take(tables, axis=2) for table in streams)
        else:
            shape = len(constants.centre), streams.centre.shape[1], len(tables)
            centre, radius = np.zeros(shape), np.zeros(shape)
        column, spread = centre[:, -1], radius[:, -1]
        column += constants.centre
        spread += constants.radius
        _add_rounding(column, spread)
        return _with_constant(centre, radius)

    def _blocks(self, scores: Enclosure, tables: IntArray, winners: IntArray) -> Enclosure:
        """Enclose what the winners contribute, block by block."""
        assert self.gains is not None
        _, n_columns, n_tables = scores.centre.shape
        n_groups, n_results = winners.shape
        blocks, spread = (np.zeros((self.width + 1, n_columns, n_results)) for _ in range(2))
        gains, room = self.gains.take(winners), self.gain_bounds.take(winners)
        places = self.row_of.take(winners) * (n_columns * n_tables) + tables
        for k in range(n_columns):
            rows = scores.centre.take(places)
            rows *= gains
            error = scores.radius.take(places)
            error *= room
            # A product and a sum of at most `n_groups` such terms.
            size = np.abs(rows)
            size *= 2.0 * _slack(n_groups)
            error += size
            error += TINY
            if self.slots is None:
                blocks[:-1, k], spread[:-1, k] = rows, error
            else:
                for slot, row, wrong in zip(self.slots, rows, error, strict=True):
                    blocks[slot, k] += row
                    spread[slot, k] += wrong
            places += n_tables
        self._add_values(Enclosure(blocks[:, -1], spread[:, -1]), winners)
        blocks[-1, -1] = 1.0
        return Enclosure(blocks, spread)

    def _add_values(self, constants: Enclosure, winners: IntArray) -> None:
        """Add the winners' values to the constants of all blocks, shape `(width + 1, n)`."""
        if self.values is None:
            return
        total, size = (np.zeros((self.width, winners.shape[1])) for _ in range(2))
        n_values = len(self.values)
        for first, forms in zip(self.first_columns, winners, strict=True):
            values = self.values.take(forms, axis=1)
            total[first : first + n_values] += values
            size[first : first + n_values] += np.abs(values)
        centre, radius = constants.centre[:-1], constants.radius[:-1]
        centre += total
        radius += _slack(len(winners)) * size
        radius += 2.0**-51 * np.abs(centre) + TINY


def _slack(n_groups: int) -> float:
    return (n_groups + 16) * 2.0**-52


def _add_rounding(centre: FloatArray, radius: FloatArray) -> None:
    """Make room for the rounding of a sum of two enclosures, in place."""
    radius *= 1.0 + 2.0**-50
    radius += 2.0**-51 * np.abs(centre) + TINY


def _with_constant(centre: FloatArray, radius: FloatArray) -> Enclosure:
    """Write the constant form, which is known, into the last row."""
    centre[-1], radius[-1] = 0.0, 0.0
    centre[-1, -1] = 1.0
    return Enclosure(centre, radius)


def rounded_layer(exact: ExactLayer) -> RoundedLayer:
    """Round the weights of a layer."""
    live = np.array(exact.live, dtype=np.int64)
    scores = np.zeros((0, exact.scores.ncols()))
    if exact.live:
        scores = rounded_quotients(exact.score_lists, exact.scores_scale)
    row_of = np.zeros(exact.n_forms, dtype=np.int64)
    row_of[live] = np.arange(len(live))
    output = None
    if exact.output is not None:
        output = product(rounded_quotients(exact.output.tolist(), exact.output_scale))
    n_values = 1 + max((column for pairs in exact.values for column, _ in pairs), default=0)
    values = np.zeros((n_values, exact.n_forms))
    for form, pairs in enumerate(exact.values):
        for column, value in pairs:
            values[column, form] = value / exact.values_scale
    gains = np.zeros(exact.n_forms)
    gains[live] = [exact.gains[form] / exact.gains_scale for form in exact.live]
    return RoundedLayer(
        scores=product(scores, more=RELATIVE),
        live=live,
        n_forms=exact.n_forms,
        against_zero=exact.n_forms == 2 * exact.n_groups
        and np.array_equal(exact.group_of[live], np.arange(exact.n_groups))
        and set(np.diff(exact.starts)) == {2},
        row_of=row_of,
        is_live=np.isin(np.arange(exact.n_forms), live),
        gains=gains if gains.any() else None,
        gain_bounds=(1.0 + (exact.n_groups + 16) * 2.0**-51) * np.abs(gains),
        slots=None if exact.slots == list(range(exact.width)) else exact.slots,
        values=values if values.any() else None,
        first_columns=exact.slots,
        width=exact.width,
        output=output,
        residual=exact.residual,
    )


def product(matrix: FloatArray, more: float = 0.0) -> Product:
    """Prepare a rounded matrix for enclosed products.

    Args:
        matrix: The matrix.
        more: A relative error of the result to leave room for in its radius.
    """
    slack = (matrix.shape[1] + 16) * 2.0**-52 + more
    return Product(matrix, (1.0 + slack) * np.abs(matrix) + TINY, slack)


def enclosed(forms: Forms) -> Enclosure:
    """Round exact forms: one table."""
    centre = rounded_quotients(forms.rows, forms.scale)[:, :, np.newaxis]
    return Enclosure(centre, 2.0**-52 * np.abs(centre) + TINY)


def rounded_quotients(rows: Sequence[Sequence[Any]], scale: int) -> FloatArray:
    """Divide integers by a positive integer, each quotient rounded once, infinite if too large.

    Examples:
        >>> rounded_quotients([[1, -(10**400)]], 4).tolist()
        [[0.25, -inf]]
    """
    return np.array([[_quotient(int(x), scale) for x in row] for row in rows])


def _quotient(x: Any, scale: int) -> float:
    try:
        return float(x / scale)
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")
