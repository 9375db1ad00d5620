r"""Compose layers for the verifier in floats with error bounds, to avoid exact computations.

Many tables of forms are enclosed at once, entry by entry, with $|\text{true} - \text{centre}| \le
\text{radius}$. The last axis of every array is the table. Let $u = 2^{-53}$. Consider a product
$T Z$ of $n$ terms, with $T$ rounded to a relative error of $2u$ or an absolute error of
$2^{-1074}$, and $Z$ enclosed with radius $R$. The error of the rounded product is at most
$(1 + 2u)|T| R + ((n + 1) u + 2u + O(u^2)) |T||Z|$ plus terms below the normal range, in whatever
order the terms are added [Higham02, section 3.5]. The code computes $A (R + g |Z|) + 2^{-1000}$
with $g = 2(n + 16) u$ and $A = (1 + g)|T| + 2^{-1000}$. This is more than twice the required bound,
so it also covers the rounding of the bound itself. Overflow gives infinities and NaN. Comparisons
with these never certify anything.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hardmax.typing import BoolArray, FloatArray, IntArray
from hardmax.verify._fast.layers import ExactLayer
from hardmax.verify._fast.packing import Forms

TINY = 2.0**-1000
# The entries of a point are at most 1, and their errors are counted separately. The error of a
# product of three terms is less than 4 * 2^-53 times the sum of the absolute terms. The relative
# error of the bound itself is less than 2^-50. The error of the difference of two centres is at
# most 2^-53 times both.
RELATIVE = 2.0**-49
# All points whose entries have at most this error share one bound on the error of a form.
_SHARP = 2.0**-44
_SMALL = 1 << 18


class Enclosure(NamedTuple):
    """Tables of enclosed forms, each with the constant form 1 in the last row.

    Attributes:
        centre: The centres, shape `(n_forms + 1, n_columns, n_tables)`.
        radius: The radii, of the same shape.
    """

    centre: FloatArray
    radius: FloatArray


class Scores:
    r"""Forms to be evaluated at points; their radii also cover the rounding of a value.

    No entry of a point is larger than 1. If the error of each entry is at most $v$, the error of
    the value $\langle c, p\rangle$ of a form with centre $c$ and radius $R$ is at most
    $\sum_k R_k (1 + v) + \sum_k |c_k| v$.

    Args:
        forms: The forms.
    """

    def __init__(self, forms: Enclosure) -> None:
        self.forms = forms
        self._reach, self._size = forms.radius.sum(axis=1), np.abs(forms.centre).sum(axis=1)
        self._sharp = _bound_error(self._reach, self._size, _SHARP)

    def at(
        self, owners: IntArray, points: FloatArray, vague: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Evaluate all forms at points.

        Args:
            owners: The table of each point, shape `(n_points,)`.
            points: The points, shape `(n_columns, n_points)`.
            vague: A bound on the error of the entries of each point, shape `(n_points,)`.

        Returns:
            The values, and bounds on their errors, shape `(n_forms, n_points)`.
        """
        centre = self.forms.centre
        value = centre[:, 0].take(owners, axis=1)
        value *= points[0]
        for k in range(1, len(points)):
            term = centre[:, k].take(owners, axis=1)
            term *= points[k]
            value += term
        error = self._sharp.take(owners, axis=1)
        blurred = _find_uncertain(vague)
        if len(blurred):
            some = owners[blurred]
            reach, size = (table.take(some, axis=1) for table in (self._reach, self._size))
            error[:, blurred] = _bound_error(reach, size, vague[blurred])
        return value, error

    def of(
        self,
        rows: IntArray,
        tables: IntArray,
        sizes: IntArray,
        points: FloatArray,
        vague: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Evaluate each of some forms at its own points.

        Args:
            rows: The row of each form.
            tables: The table of each form.
            sizes: The number of points of each form.
            points: The points of all forms, in the order of the forms.
            vague: A bound on the error of the entries of each point.

        Returns:
            The values, and bounds on their errors, shape `(n_points,)`.
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
        blurred = _find_uncertain(vague)
        if len(blurred):
            some = places.repeat(sizes)[blurred]
            error[blurred] = _bound_error(
                self._reach.take(some), self._size.take(some), vague[blurred]
            )
        return value, error


def _find_uncertain(vague: FloatArray) -> IntArray:
    # The negation makes a NaN count as blurred.
    return (~(vague <= _SHARP)).nonzero()[0]


def _bound_error(reach: FloatArray, size: FloatArray, vague: FloatArray | float) -> FloatArray:
    return (reach * (1.0 + vague) + size * vague) * (1.0 + RELATIVE) + TINY


class EnclosureMultiplier(NamedTuple):
    """A matrix by which enclosures are multiplied.

    Attributes:
        matrix: The rounded matrix.
        bound: The matrix $A$ of the bound in the module's docstring.
        slack: The factor $g$ of that bound.
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
        radius = _multiply_in_parts(self.bound, weighted.reshape(n, -1))
        radius += TINY
        centre = _multiply_in_parts(self.matrix, forms.centre.reshape(n, -1))
        return Enclosure(centre.reshape(-1, *tail), radius.reshape(-1, *tail))


def _multiply_in_parts(left: FloatArray, right: FloatArray) -> FloatArray:
    """Multiply matrices in parts so small that no library starts threads for them."""
    step = max(1, _SMALL // max(1, left.size))
    result = np.empty((len(left), right.shape[1]))
    for start in range(0, right.shape[1], step):
        part = slice(start, start + step)
        np.matmul(left, right[:, part], out=result[:, part])
    return result


class RoundedLayer(NamedTuple):
    """A layer in floating point.

    Attributes:
        scores: The scores of the live forms on the layer's input; their radii also cover the
            rounding of a value at a vertex.
        live: The forms whose score is not identically zero.
        n_forms: The number of forms of the layer.
        against_zero: Whether every group has two forms, exactly one of which is live.
        row_of: The row of each form in `scores`; any row if the form is not live.
        is_live: Whether each form is live.
        gains: The gain of each form, 0 if it is not live, shape `(n_forms,)`; None if all are 0.
        gain_bounds: The absolute gains, enlarged to cover the rounding of a product and a sum.
        slots: The column of each group's gain; None if group i writes to column i.
        values: The value of each form, shape `(n_values, n_forms)`; None if all are 0.
        first_columns: The first column of each group's values.
        width: The number of columns of all blocks.
        output: The map after the blocks; None for the identity.
        residual: Whether the input is added.
    """

    scores: EnclosureMultiplier
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
    output: EnclosureMultiplier | None
    residual: bool

    def with_zeros(self, table: FloatArray) -> FloatArray:
        """Return a table of all forms, given the rows of the live forms."""
        whole = np.zeros((self.n_forms, table.shape[1]))
        whole[self.live] = table
        return whole

    def after(
        self, streams: Enclosure, scores: Enclosure, tables: IntArray, winners: IntArray
    ) -> Enclosure:
        """Enclose the forms after the layer, if no winner coincides with another form.

        Args:
            streams: The forms before the layer.
            scores: The scores of the layer.
            tables: The table that each result continues, shape `(n_results,)`.
            winners: The winning forms, shape `(n_groups, n_results)`.
        """
        if self.gains is None:
            return self._shift(streams, tables, winners)
        written = self._blocks(scores, tables, winners)
        if self.output is not None:
            written = self.output.times(written)
        centre, radius = written
        if self.residual:
            centre += streams.centre.take(tables, axis=2)
            radius += streams.radius.take(tables, axis=2)
            _add_rounding(centre, radius)
        return _with_constant(centre, radius)

    def _shift(self, streams: Enclosure, tables: IntArray, winners: IntArray) -> Enclosure:
        """Enclose the forms after a layer without gains, which only adds constants."""
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
        """Enclose the contributions of the winners, block by block."""
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
            size *= 2.0 * _bound_slack(n_groups)
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
        radius += _bound_slack(len(winners)) * size
        radius += 2.0**-51 * np.abs(centre) + TINY


def _bound_slack(n_groups: int) -> float:
    return (n_groups + 16) * 2.0**-52


def _add_rounding(centre: FloatArray, radius: FloatArray) -> None:
    """Enlarge the radius in place to cover the rounding of a sum of two enclosures."""
    radius *= 1.0 + 2.0**-50
    radius += 2.0**-51 * np.abs(centre) + TINY


def _with_constant(centre: FloatArray, radius: FloatArray) -> Enclosure:
    """Write the known constant form into the last row."""
    centre[-1], radius[-1] = 0.0, 0.0
    centre[-1, -1] = 1.0
    return Enclosure(centre, radius)


def round_layer(exact: ExactLayer) -> RoundedLayer:
    """Round the weights of a layer."""
    live = np.array(exact.live, dtype=np.int64)
    scores = np.zeros((0, exact.scores.ncols()))
    if exact.live:
        scores = round_quotients(exact.score_lists, exact.scores_scale)
    row_of = np.zeros(exact.n_forms, dtype=np.int64)
    row_of[live] = np.arange(len(live))
    output = None
    if exact.output is not None:
        output = prepare_multiplier(round_quotients(exact.output.tolist(), exact.output_scale))
    n_values = 1 + max((column for pairs in exact.values for column, _ in pairs), default=0)
    values = np.zeros((n_values, exact.n_forms))
    for form, pairs in enumerate(exact.values):
        for column, value in pairs:
            values[column, form] = value / exact.values_scale
    gains = np.zeros(exact.n_forms)
    gains[live] = [exact.gains[form] / exact.gains_scale for form in exact.live]
    return RoundedLayer(
        scores=prepare_multiplier(scores, more=RELATIVE),
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


def prepare_multiplier(matrix: FloatArray, more: float = 0.0) -> EnclosureMultiplier:
    """Prepare a rounded matrix for enclosed products.

    Args:
        matrix: The matrix.
        more: An additional relative error of the result that the radius must cover.
    """
    slack = (matrix.shape[1] + 16) * 2.0**-52 + more
    return EnclosureMultiplier(matrix, (1.0 + slack) * np.abs(matrix) + TINY, slack)


def enclose(forms: Forms) -> Enclosure:
    """Round exact forms to an enclosure with one table."""
    centre = round_quotients(forms.rows, forms.scale)[:, :, np.newaxis]
    return Enclosure(centre, 2.0**-52 * np.abs(centre) + TINY)


def round_quotients(rows: Sequence[Sequence[Any]], scale: int) -> FloatArray:
    """Divide integers by a positive integer, rounding once; quotients that overflow are infinite.

    Examples:
        >>> round_quotients([[1, -(10**400)]], 4).tolist()
        [[0.25, -inf]]
    """
    return np.array([[_round_quotient(int(x), scale) for x in row] for row in rows])


def _round_quotient(x: Any, scale: int) -> float:
    try:
        return float(x / scale)
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")
