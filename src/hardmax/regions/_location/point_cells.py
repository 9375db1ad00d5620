r"""The cell of an argmax network at a point, or next to a point of a ray, in integers.

The winners are decided from the first layer to the last. In every layer, the scores are the exact
forms on the cell of the winners so far, so at a point on a wall the later layers receive what the
first of the tied forms contributes, and not the mean over all of them. Away from walls both are the
same.
"""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import pairwise
from math import inf, nextafter
from typing import NamedTuple

import numpy as np
from flint import fmpq, fmpz, fmpz_mat

from hardmax.errors import SizeLimitError
from hardmax.exact.dyadic import ScaledIntegers, fraction, homogeneous_points, root_below
from hardmax.models._arithmetic.recomposition import (
    RationalForms,
    chart_forms,
    layer_output,
    layer_scores,
)
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.regions._graphs.exact_gradients import value_at
from hardmax.typing import FloatArray, WideArray

MOST_PRODUCTS = 1 << 29
"""Larger networks are refused; so many products of integers take a minute or two."""


class Scores(NamedTuple):
    """The scores of a layer on the cell of a point, or the outputs as one last group.

    Attributes:
        layer: The index of the layer; the number of layers for the outputs.
        starts: The first form of each group, then the number of forms.
        forms: The scores.
        values: For each form a vector whose lexicographic order is that of the scores.
        winners: The index of the first winner within each group.
    """

    layer: int
    starts: list[int]
    forms: RationalForms
    values: list[list[fmpz]]
    winners: list[int]


class Gap(NamedTuple):
    """The difference of a winner and a rival.

    Attributes:
        layer: The index of the layer; the number of layers for the outputs.
        group: The index of the group within the layer.
        rival: The index of the rival within the group.
        gradient: The integer gradient; never zero.
        constant: The constant on the scale of the gradient.
        value: The difference of the first entries of the two vectors of `Scores.values`.
    """

    layer: int
    group: int
    rival: int
    gradient: list[fmpz]
    constant: fmpz
    value: fmpz

    @property
    def form(self) -> ScaledIntegers:
        """The gradient, and last the constant, up to a positive factor."""
        row: WideArray = np.empty(len(self.gradient) + 1, dtype=object)
        row[:] = [int(entry) for entry in (*self.gradient, self.constant)]
        return ScaledIntegers(row, 0)


class Change(NamedTuple):
    """A point of a ray where winners change.

    Attributes:
        layer: The index of the first layer with a change; the number of layers for the outputs.
        group: The index of the first group of that layer with a change.
        rival: The index of the form that wins behind the point.
        at: The parameter of the point.
    """

    layer: int
    group: int
    rival: int
    at: Fraction


def iter_scores_at(network: ArgmaxNetwork, point: FloatArray) -> Iterator[Scores]:
    """Yield the scores of each layer on the cell of a point, and last the outputs."""
    order = fmpz_mat([[entry] for entry in homogeneous_points(point[np.newaxis])[0].tolist()])
    return _iter_scores(network, chart_forms(AffineMap.identity(network.dim_in)), order)


def iter_gaps(scores: Scores) -> Iterator[Gap]:
    """Yield the gaps of a layer, without those that are constant on the cell."""
    rows, values = scores.forms.rows, scores.values
    ends = zip(pairwise(scores.starts), scores.winners, strict=True)
    for group, ((start, end), winner) in enumerate(ends):
        *slopes, constant = rows[start + winner]
        value = values[start + winner][0]
        for rival in range(end - start):
            row = rows[start + rival]
            if row[:-1] != slopes:
                gradient = [a - b for a, b in zip(slopes, row, strict=False)]
                less = values[start + rival][0]
                yield Gap(scores.layer, group, rival, gradient, constant - row[-1], value - less)


def nearest_gap(gaps: Iterable[Gap]) -> Gap | None:
    r"""Return the gap whose hyperplane is nearest to the point, the first of several.

    The squared distance of a gap is $v^2 / \|a\|^2$ on a scale that all gaps share; these fractions
    are compared exactly.
    """
    best: tuple[fmpz, fmpz, Gap] | None = None
    for gap in gaps:
        value, norm = gap.value * gap.value, sum([a * a for a in gap.gradient], fmpz(0))
        if best is None or value * best[1] < best[0] * norm:
            best = value, norm, gap
    return None if best is None else best[2]


def enclose_distance(gap: Gap, point: FloatArray) -> tuple[float, float]:
    """Return the largest float below and the smallest above the distance to a gap's hyperplane.

    Both are the distance itself if it is a float. Beyond the largest float, the upper bound is
    infinite.
    """
    value = value_at(gap.form, point)
    norm = int(sum([a * a for a in gap.gradient], fmpz(0)))
    square = Fraction(int(value.integers) ** 2, norm) * Fraction(4) ** value.exponent
    low = root_below(square)
    return low, low if Fraction(low) ** 2 == square else nextafter(low, inf)


def find_change(
    network: ArgmaxNetwork, ray: RationalForms, end: Fraction, *, is_decision: bool
) -> Change | None:
    """Find the first point of a ray where a winner changes.

    Args:
        network: The network.
        ray: The inputs as forms in the parameter of the ray, which starts at 0.
        end: The end of the search.
        is_decision: Whether to find the first change of the largest output instead.

    Returns:
        The first change at a parameter above 0 and below `end`; None if there is none.
    """
    at, first_class = fmpq(0), -1
    limit = fmpq(end.numerator, end.denominator)
    while at < limit:
        # Compare the values at this point, then the slopes.
        order = fmpz_mat([[at.p, 1], [at.q, 0]])
        *layers, outputs = _iter_scores(network, ray, order)
        change = _first_change(layers)
        if not is_decision:
            return _within(change, limit)
        winner = outputs.winners[0]
        if first_class < 0:
            first_class = winner
        elif winner != first_class:
            # It changes together with a winner of a layer, perhaps by a jump.
            return Change(len(network.layers), 0, winner, fraction(at))
        crossing = _first_change([outputs])
        if crossing is not None and (change is None or crossing[0] < change[0]):
            return _within(crossing, limit)
        if change is None:
            return None
        at = change[0]
    return None


_Crossing = tuple[fmpq, int, int, fmpz, int]
"""The parameter, the layer, the group, the slope of the gap, and the rival."""


def _first_change(scores: Iterable[Scores]) -> _Crossing | None:
    """Return the first zero of a gap to the right of the point for which scores were decided.

    If several rivals tie there, the one with the steepest gap wins behind it.
    """
    return min(
        (
            (fmpq(-gap.constant, gap.gradient[0]), gap.layer, gap.group, gap.gradient[0], gap.rival)
            for layer in scores
            for gap in iter_gaps(layer)
            if gap.gradient[0] < 0
        ),
        default=None,
    )


def _within(crossing: _Crossing | None, limit: fmpq) -> Change | None:
    if crossing is None or crossing[0] >= limit:
        return None
    at, layer, group, _, rival = crossing
    return Change(layer, group, rival, fraction(at))


def _iter_scores(
    network: ArgmaxNetwork, coordinates: RationalForms, order: fmpz_mat
) -> Iterator[Scores]:
    """Yield the scores of each layer, and last the outputs, on the cell of the first winners.

    Args:
        network: The network.
        coordinates: The inputs as forms on a domain.
        order: A matrix with as many rows as a form has coefficients. The product of a form and
            this matrix is compared lexicographically.
    """
    stream = coordinates.compose(network.embedding)
    for index, layer in enumerate(network.layers):
        scores = _decide(index, layer.starts.tolist(), layer_scores(layer, stream), order)
        yield scores
        stream = layer_output(layer, stream, scores.forms, scores.winners)
    outputs = stream.compose(network.readout)
    yield _decide(len(network.layers), [0, network.dim_out], outputs, order)


def _decide(index: int, starts: list[int], forms: RationalForms, order: fmpz_mat) -> Scores:
    values: list[list[fmpz]] = (forms.matrix * order).tolist()
    groups = (values[start:end] for start, end in pairwise(starts))
    return Scores(index, starts, forms, values, [group.index(max(group)) for group in groups])


def count_products(network: ArgmaxNetwork) -> int:
    """Return the number of products of integers that compose the forms of a cell."""
    maps = [network.embedding, network.readout]
    maps += [affine for layer in network.layers for affine in (layer.query, layer.output)]
    n_weights = sum(affine.weight.size for affine in maps if not affine.is_identity)
    n_weights += network.dim_in + sum(layer.slopes.size for layer in network.layers)
    return n_weights * (network.dim_in + 1)


def check_cell_size(network: ArgmaxNetwork) -> None:
    """Raise an error if the forms of a cell have too many coefficients to be composed.

    Raises:
        SizeLimitError: If the network is too large.
    """
    n_products = count_products(network)
    if n_products > MOST_PRODUCTS:
        raise SizeLimitError(
            f"`model` is too large for `cell_at`: composing its forms in integers for "
            f"{network.dim_in:,} inputs takes {n_products:,} products, and the limit is "
            f"{MOST_PRODUCTS:,}. Along a line, call `hm.enumerate_regions(model, hm.Segment(x, "
            "y))`; for the gaps between scores at a point, `hm.stability.measure_margins(model, "
            "x)`. A ReluNetwork, MaxoutNetwork or GraphNetwork has no such limit."
        )
