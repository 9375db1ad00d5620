r"""The forms of a model on one cell, recomposed exactly from stored weights and a signature.

Every engine takes its final results from this module. It reads the model, the chart of the domain
and a signature prefix, but no float that an engine computed. For given winners in the first layers,
the map up to there is affine. Its coefficients are rationals with a common denominator (dyadic,
except for means over coinciding forms), stored as integers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import lcm
from operator import add
from typing import Any

import numpy as np
from flint import fmpz, fmpz_mat

from hardmax._ground.display import html_card, short_repr
from hardmax.exact.dyadic import integer_matrix, nearest_quotients
from hardmax.models._arithmetic.layers import VectorBackend, evaluate, finish_layer
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork, Place
from hardmax.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class RationalForms:
    r"""The affine forms $t \mapsto (\langle a_j, t\rangle + c_j)$ with $(a_j, c_j) = m_j 2^e / D$.

    Attributes:
        matrix: The integer rows $m_j$, shape `(n_forms, dim + 1)`, the offset last.
        exponent: The $e$.
        denominator: The $D \ge 1$.

    Examples:
        >>> forms = RationalForms(fmpz_mat([[1, 2], [3, 4]]), -1)
        >>> forms.rounded().tolist()
        [[0.5, 1.0], [1.5, 2.0]]
    """

    matrix: fmpz_mat
    exponent: int
    denominator: int = 1

    __repr__ = short_repr
    _repr_html_ = html_card

    def __reduce__(self) -> tuple[Any, ...]:
        # Flint matrices cannot be pickled, so pickle their entries as integers.
        entries = [int(entry) for entry in self.matrix.entries()]
        shape = self.matrix.nrows(), self.matrix.ncols()
        return _rational_forms, (*shape, entries, self.exponent, self.denominator)

    @cached_property
    def rows(self) -> list[list[fmpz]]:
        """The integer rows as lists, which are much faster to read than entries of the matrix."""
        rows: list[list[fmpz]] = self.matrix.tolist()
        return rows

    def compose(self, after: AffineMap) -> "RationalForms":
        """Return the exact forms $z W + b$, where $z$ are these forms."""
        return FORMS.apply_affine(after, self)

    def __add__(self, other: "RationalForms") -> "RationalForms":
        exponent = min(self.exponent, other.exponent)
        denominator = lcm(self.denominator, other.denominator)
        total = self._rescale(exponent, denominator) + other._rescale(exponent, denominator)
        return RationalForms(total, exponent, denominator)

    def rounded(self) -> FloatArray:
        """Round every coefficient once: shape `(n_forms, dim + 1)`, the offset last."""
        entries = np.empty(self.matrix.nrows() * self.matrix.ncols(), dtype=object)
        entries[:] = [int(entry) for entry in self.matrix.entries()]
        up, down = max(self.exponent, 0), max(-self.exponent, 0)
        rounded = nearest_quotients(entries * (1 << up), self.denominator << down)
        return rounded.reshape(self.matrix.nrows(), self.matrix.ncols())

    def through(self, after: AffineMap | ArgmaxLayer) -> "RationalForms":
        """Return the image of these forms under a map, or a layer's scores for them as query."""
        exponent = min(self.exponent, 0)
        n_columns = self.matrix.ncols()
        entries = self._rescale(exponent, self.denominator).entries()
        # This is the constant form 1 on the scale of the others; a bias is a multiple of it.
        unit = [0] * (n_columns - 1) + [self.denominator << -exponent]
        stacked = fmpz_mat(self.matrix.nrows() + 1, n_columns, entries + unit)
        values, more = after.on_integers(stacked)
        return RationalForms(values, exponent + more, self.denominator)

    def _rescale(self, exponent: int, denominator: int) -> fmpz_mat:
        factor = (denominator // self.denominator) << (self.exponent - exponent)
        return self.matrix if factor == 1 else self.matrix * fmpz(factor)


FORMS: VectorBackend[RationalForms] = VectorBackend(
    lambda affine, forms: forms.through(affine), add
)


def _rational_forms(
    n_forms: int, n_columns: int, entries: list[int], exponent: int, denominator: int
) -> RationalForms:
    return RationalForms(fmpz_mat(n_forms, n_columns, entries), exponent, denominator)


def chart_forms(chart: AffineMap) -> RationalForms:
    r"""Return the coordinates of $x = t W + b$ as forms in $t$, for the chart of a domain."""
    slopes = np.column_stack([chart.weight.T, chart.bias])
    return RationalForms(*integer_matrix(np.ascontiguousarray(slopes)))


def layer_scores(layer: ArgmaxLayer, stream: RationalForms) -> RationalForms:
    """Return the scores of all groups of a layer as forms in the domain's coordinates."""
    return stream.compose(layer.query).through(layer)


def layer_output(
    layer: ArgmaxLayer,
    stream: RationalForms,
    scores: RationalForms,
    winners: Sequence[int] | IntArray,
) -> RationalForms:
    """Return the stream after a layer on the cell where the given forms win.

    Forms that coincide with the winner on the domain tie everywhere on the cell, and the group
    contributes their mean.

    Args:
        layer: The layer.
        stream: The stream before the layer.
        scores: The result of `layer_scores(layer, stream)`.
        winners: For each group, the winner's index within the group.
    """
    return finish_layer(layer, stream, _contribute(layer, scores, winners), FORMS)


def _contribute(
    layer: ArgmaxLayer, scores: RationalForms, winners: Sequence[int] | IntArray
) -> RationalForms:
    """Return the contributions of the groups of a layer where the given forms win."""
    rows, starts = scores.rows, layer.starts.tolist()
    best = [start + int(w) for start, w in zip(starts, winners, strict=False)]
    tied = [
        [j for j in range(starts[g], starts[g + 1]) if j == winner or rows[j] == rows[winner]]
        for g, winner in enumerate(best)
    ]
    shares = lcm(*(len(forms) for forms in tied))
    exact = layer.exact_contributions
    # Contributed scores and constants have different scales; the finer scale fits both.
    denominator = scores.denominator if exact.has_gains else 1
    carried_exponent = exact.gains_exponent + scores.exponent
    scales = [carried_exponent] * exact.has_gains + [exact.values_exponent] * exact.has_values
    exponent = min(scales, default=0)
    carry = shares << (carried_exponent - exponent) if exact.has_gains else 0
    constant = shares * denominator << (exact.values_exponent - exponent) if exact.has_values else 0
    n_columns = scores.matrix.ncols()
    blocks: list[list[fmpz | int]] = [[0] * n_columns for _ in range(layer.output.dim_in)]
    for slot, forms in zip(layer.slots.tolist(), tied, strict=True):
        for j in forms:
            if exact.gains[j]:
                factor = carry // len(forms) * exact.gains[j]
                blocks[slot] = [b + factor * s for b, s in zip(blocks[slot], rows[j], strict=True)]
            for k, value in exact.values[j]:
                blocks[slot + k][-1] += constant // len(forms) * value
    flat = [entry for block in blocks for entry in block]
    matrix = fmpz_mat(layer.output.dim_in, n_columns, flat)
    return RationalForms(matrix, exponent, shares * denominator)


def forms_equal_to_winner(
    layer: ArgmaxLayer, scores: RationalForms, group: int, winner: int
) -> list[int]:
    """List the forms of a group that equal its winner as functions on the domain."""
    start, end = int(layer.starts[group]), int(layer.starts[group + 1])
    rows = scores.rows
    wanted = rows[start + winner]
    return [j for j in range(start, end) if rows[j] == wanted]


def iter_decided_layers(
    network: ArgmaxNetwork,
    coordinates: RationalForms,
    name: Callable[[Place, RationalForms], Sequence[int] | IntArray],
) -> Iterator[tuple[ArgmaxLayer, RationalForms, list[int]]]:
    """Yield each layer with its exact scores and its winners.

    Args:
        network: The network.
        coordinates: The coordinates of the network's input as forms on a domain.
        name: Takes a layer and its scores, and returns the winner's index within each group. If it
            returns fewer indices than there are groups, the iteration ends after this layer.
    """
    stream = coordinates.compose(network.embedding)
    for place in network.places:
        scores = layer_scores(place.layer, stream)
        winners = [int(w) for w in name(place, scores)]
        yield place.layer, scores, winners
        if len(winners) < place.layer.n_groups:
            return
        stream = layer_output(place.layer, stream, scores, winners)


def iter_exact_layers(
    network: ArgmaxNetwork, coordinates: RationalForms, signature: Sequence[int] | IntArray
) -> Iterator[tuple[ArgmaxLayer, RationalForms, list[int]]]:
    """Yield each layer with its exact scores and its winners on the cell of a signature.

    The signature may be a prefix: the iteration ends with the first layer that it does not fully
    cover, whose scores are still yielded.
    """
    return iter_decided_layers(network, coordinates, lambda place, _: signature[place.groups])


def exact_affine_map(
    network: ArgmaxNetwork, chart: AffineMap, signature: Sequence[int] | IntArray
) -> RationalForms:
    """Return the output of the network on the cell of a signature, one form per output."""
    return exact_output(network, chart_forms(chart), signature)


def exact_output(
    network: ArgmaxNetwork, inputs: RationalForms, signature: Sequence[int] | IntArray
) -> RationalForms:
    """Return the output on the cell of a signature, for inputs that are forms themselves."""

    def contribute(place: Place, query: RationalForms) -> RationalForms:
        return _contribute(place.layer, query.through(place.layer), signature[place.groups])

    return evaluate(network, inputs, FORMS, contribute)


def cell_inequalities(
    layer: ArgmaxLayer, scores: RationalForms, winners: Sequence[int] | IntArray
) -> fmpz_mat:
    r"""Return integer rows $(a, c)$ with $\langle a, t\rangle + c > 0$ inside the cell.

    There is one row, winner minus rival, for every rival that does not coincide with its group's
    winner. The shape is `(n_rows, dim + 1)`; all rows have the same positive scale.
    """
    all_rows = scores.rows
    rows = []
    for group, winner in enumerate(winners):
        start, end = int(layer.starts[group]), int(layer.starts[group + 1])
        best = all_rows[start + int(winner)]
        rows += [
            [b - r for b, r in zip(best, rival, strict=True)]
            for rival in all_rows[start:end]
            if rival != best
        ]
    return fmpz_mat(rows) if rows else fmpz_mat(0, scores.matrix.ncols())
