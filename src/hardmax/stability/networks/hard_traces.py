r"""Traces of the hard network at a point, on a small cube around it or on a cell, without rounding.

At a point $x$ the streams are rational vectors, and forms that tie exactly are averaged, as in the
hard network. On a cube $\{y : \|y - x\|_\infty \le \rho\}$ that no wall meets, all streams are
affine, and the range of a score over the cube is a ball around its value at $x$.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from flint import arb, fmpq, fmpz

from hardmax.exact.directed_rounding import interval
from hardmax.exact.dyadic import homogeneous_points
from hardmax.models._arithmetic.recomposition import (
    RationalForms,
    chart_forms,
    iter_decided_layers,
    iter_exact_layers,
)
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork, Place
from hardmax.typing import FloatArray

_Row = Sequence[fmpz]


class HardLayer(NamedTuple):
    """The decisions of one layer.

    Attributes:
        layer: The layer.
        winners: For each group, the first winner, as an index among all forms of the layer.
        tied: For each group, all forms that win everywhere on the set, including the winner.
        scores: The score of every form.
        gaps: For every form, the nonnegative gap between the winner of its group and the form;
            exactly 0 for tied forms.
    """

    layer: ArgmaxLayer
    winners: list[int]
    tied: list[list[int]]
    scores: list[arb]
    gaps: list[arb]


def point_trace(network: ArgmaxNetwork, point: FloatArray) -> Iterator[HardLayer]:
    """Yield the decisions at one point, layer by layer."""
    # These forms are constant in their only coordinate, so two of them coincide if they tie.
    constant = AffineMap(np.zeros((1, len(point))), point)

    def name(place: Place, scores: RationalForms) -> list[int]:
        offsets = [row[-1] for row in scores.rows]
        return [offsets.index(max(offsets[a:b]), a) - a for a, b in _list_groups(place.layer)]

    for layer, scores, winners in iter_decided_layers(network, chart_forms(constant), name):
        yield _decisions(layer, scores, winners, partial(_constant, _unit(scores)))


def cube_trace(
    network: ArgmaxNetwork, point: FloatArray, radius: float, signature: Sequence[int]
) -> Iterator[HardLayer | None]:
    """Yield the decisions on a cube around a point inside the cell of a signature.

    If a wall of a layer meets the cube, yield None and stop.
    """
    coordinates = chart_forms(AffineMap.identity(network.dim_in))
    *centre, scale = (fmpz(int(x)) for x in homogeneous_points(point[np.newaxis])[0])
    reach = arb(radius)
    for layer, scores, winners in iter_exact_layers(network, coordinates, signature):
        unit = _unit(scores)

        def ball(row: _Row, unit: arb = unit) -> arb:
            value = sum((a * x for a, x in zip(row, centre, strict=False)), row[-1] * scale)
            slope = sum((abs(a) for a in row[:-1]), fmpz(0))
            spread = (arb(slope) * unit * reach).upper()
            return arb(value) * unit / arb(scale) + arb(0, spread)

        found = _decisions(layer, scores, winners, ball)
        alike = {j for forms in found.tied for j in forms}
        if any(j not in alike and not gap > 0 for j, gap in enumerate(found.gaps)):
            yield None
            return
        yield found


def cell_trace(
    network: ArgmaxNetwork,
    coordinates: RationalForms,
    signature: Sequence[int],
    spread: Callable[[_Row], tuple[fmpq, fmpq]],
) -> Iterator[HardLayer]:
    """Yield the decisions on the closure of a cell.

    Args:
        network: The network.
        coordinates: The coordinates of the input space as forms on the domain.
        signature: The winners on the cell.
        spread: A function that returns lower and upper bounds on the values of a form with integer
            coefficients on the cell.
    """
    for layer, scores, winners in iter_exact_layers(network, coordinates, signature):
        unit = _unit(scores)

        def score(row: _Row, unit: arb = unit) -> arb:
            low, high = spread(row)
            return interval(arb(low) * unit, arb(high) * unit)

        def gap(row: _Row, unit: arb = unit) -> arb:
            # The gap is nonnegative on the cell, even if it is negative on a larger set.
            low, high = spread(row)
            return interval(arb(max(low, fmpq(0))) * unit, arb(high) * unit)

        yield _decisions(layer, scores, winners, score, gap)


def _unit(scores: RationalForms) -> arb:
    return arb(2) ** scores.exponent / scores.denominator


def _constant(unit: arb, row: _Row) -> arb:
    return row[-1] * unit


def _decisions(
    layer: ArgmaxLayer,
    scores: RationalForms,
    names: list[int],
    ball: Callable[[_Row], arb],
    gap: Callable[[_Row], arb] | None = None,
) -> HardLayer:
    rows, gap = scores.rows, gap or ball
    winners = [start + w for w, (start, _) in zip(names, _list_groups(layer), strict=True)]
    tied, gaps = [], []
    for winner, (start, end) in zip(winners, _list_groups(layer), strict=True):
        best = rows[winner]
        tied.append([j for j in range(start, end) if rows[j] == best])
        for rival in rows[start:end]:
            if rival == best:
                gaps.append(arb(0))
            else:
                gaps.append(gap([b - r for b, r in zip(best, rival, strict=True)]))
    return HardLayer(layer, winners, tied, [ball(row) for row in rows], gaps)


def _list_groups(layer: ArgmaxLayer) -> list[tuple[int, int]]:
    starts = layer.starts.tolist()
    return list(pairwise(starts))
