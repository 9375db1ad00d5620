r"""Rounded composition for the verifier, with bounds: what needs no exact look.

A table of forms is enclosed entry by entry, $|\text{true} - \text{centre}| \le \text{radius}$. Let
$u = 2^{-53}$. For a product $T Z$ of $n$ terms, with $T$ rounded to a relative $2u$ or an absolute
$2^{-1074}$ and $Z$ enclosed with radius $R$, the rounded product is wrong by at most
$(1 + 2u)|T| R + ((n + 1) u + 2u + O(u^2)) |T||Z|$ and terms below the normal range
[Higham02, section 3.5]. The code computes $A (R + g |Z|) + 2^{-1000}$ with $g = 2(n + 16) u$ and
$A = (1 + g)|T| + 2^{-1000}$: more than twice what is needed, which also covers the rounding of the
bound itself. Overflow gives infinities and NaN, and neither is ever less than anything.
"""

from typing import Any, NamedTuple

import numpy as np
from flint import fmpz_mat

from hardmax.regions.verification_composition import ExactLayer, Forms
from hardmax.regions.verification_polygons import RELATIVE
from hardmax.typing import FloatArray, IntArray

TINY = 2.0**-1000


class Enclosure(NamedTuple):
    """Forms between bounds; the constant form 1 in the last row.

    Attributes:
        centre: Shape `(n_forms + 1, n_columns)`.
        radius: The same shape.
    """

    centre: FloatArray
    radius: FloatArray


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
        """Enclose the product."""
        weighted = np.abs(forms.centre)
        weighted *= self.slack
        weighted += forms.radius
        radius = self.bound @ weighted
        radius += TINY
        return Enclosure(self.matrix @ forms.centre, radius)


class RoundedLayer(NamedTuple):
    """A layer in floating point.

    Attributes:
        scores: The scores of all forms on the layer's input; their radii leave room for the
            rounding of a value at a vertex.
        gains: The gain of each form, shape `(n_forms, 1)`; None if all are 0.
        gain_bounds: The sizes of the gains, with room for the rounding of a product and a sum.
        slots: Which column each group's gain goes to; None for its own.
        values: The value of each form, shape `(n_forms, n_values)`; None if all are 0.
        columns: Which column each value goes to, shape `(n_groups * n_values,)`.
        width: How many columns the blocks fill.
        output: The map after the blocks; None for the identity.
        residual: Whether the input is added.
        constants: What layers without gains add, for the winners met so far.
    """

    scores: Product
    gains: FloatArray | None
    gain_bounds: FloatArray
    slots: IntArray | None
    values: FloatArray | None
    columns: IntArray
    width: int
    output: Product | None
    residual: bool
    constants: dict[bytes, Enclosure]

    def after(self, stream: Enclosure, scores: Enclosure, winners: IntArray) -> Enclosure:
        """Enclose the forms after the layer, where no winner coincides with another form."""
        if self.gains is not None:
            return self._finished(stream, self._written(self._blocks(scores, winners)))
        # Without gains the layer adds constants, which winners alone decide.
        key = winners.tobytes()
        written = self.constants.get(key)
        if written is None:
            written = self.constants[key] = self._written(self._blocks(scores, winners))
        return self._finished(stream, written)

    def _blocks(self, scores: Enclosure, winners: IntArray) -> Enclosure:
        """Enclose what the winners contribute, block by block."""
        n_columns = scores.centre.shape[1]
        blocks = np.zeros((self.width + 1, n_columns))
        spread = np.zeros((self.width + 1, n_columns))
        slack = (len(winners) + 16) * 2.0**-52
        if self.gains is not None:
            rows = self.gains.take(winners, axis=0) * scores.centre.take(winners, axis=0)
            # A product and a sum of at most `len(winners)` such terms.
            error = np.abs(rows)
            error *= 2.0 * slack
            room = self.gain_bounds.take(winners, axis=0)
            error += room * scores.radius.take(winners, axis=0)
            error += TINY
            if self.slots is None:
                blocks[:-1], spread[:-1] = rows, error
            else:
                np.add.at(blocks, self.slots, rows)
                np.add.at(spread, self.slots, error)
        if self.values is not None:
            values = self.values[winners].ravel()
            blocks[:-1, -1] += np.bincount(self.columns, values, self.width)
            spread[:-1, -1] += slack * np.bincount(self.columns, np.abs(values), self.width)
            spread[:-1, -1] += 2.0**-51 * np.abs(blocks[:-1, -1]) + TINY
        blocks[-1, -1] = 1.0
        return Enclosure(blocks, spread)

    def _written(self, blocks: Enclosure) -> Enclosure:
        return blocks if self.output is None else self.output.times(blocks)

    def _finished(self, stream: Enclosure, written: Enclosure) -> Enclosure:
        if self.residual:
            centre = written.centre + stream.centre
            radius = (written.radius + stream.radius) * (1.0 + 2.0**-50)
            radius += 2.0**-51 * np.abs(centre) + TINY
        else:
            centre, radius = written.centre.copy(), written.radius.copy()
        # The constant form is known.
        centre[-1], radius[-1] = 0.0, 0.0
        centre[-1, -1] = 1.0
        return Enclosure(centre, radius)


def rounded_layer(exact: ExactLayer) -> RoundedLayer:
    """Round the weights of a layer."""
    scores = np.zeros((exact.n_forms, exact.scores.ncols()))
    if exact.live:
        scores[exact.live] = rounded_quotients(exact.scores, exact.scores_scale)
    output = None
    if exact.output is not None:
        output = product(rounded_quotients(exact.output, exact.output_scale))
    n_values = 1 + max((column for pairs in exact.values for column, _ in pairs), default=0)
    values = np.zeros((exact.n_forms, n_values))
    for form, pairs in enumerate(exact.values):
        for column, value in pairs:
            values[form, column] = value / exact.values_scale
    columns = np.array(exact.slots)[:, np.newaxis] + np.arange(n_values)
    in_place = exact.slots == list(range(exact.width))
    gains = np.array([[gain / exact.gains_scale] for gain in exact.gains])
    return RoundedLayer(
        scores=product(scores, more=RELATIVE),
        gains=gains if gains.any() else None,
        gain_bounds=(1.0 + (exact.n_groups + 16) * 2.0**-51) * np.abs(gains),
        slots=None if in_place else columns[:, 0],
        values=values if values.any() else None,
        columns=columns.ravel(),
        width=exact.width,
        output=output,
        residual=exact.residual,
        constants={},
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
    """Round exact forms."""
    centre = rounded_quotients(forms.matrix, forms.scale)
    return Enclosure(centre, 2.0**-52 * np.abs(centre) + TINY)


def rounded_quotients(matrix: fmpz_mat, scale: int) -> FloatArray:
    """Divide integers by a positive integer, each quotient rounded once, infinite if too large.

    Examples:
        >>> rounded_quotients(fmpz_mat([[1, -(10**400)]]), 4).tolist()
        [[0.25, -inf]]
    """
    return np.array([[_quotient(int(x), scale) for x in row] for row in matrix.tolist()])


def _quotient(x: Any, scale: int) -> float:
    try:
        return float(x / scale)
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")
