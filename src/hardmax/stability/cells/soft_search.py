"""Numerical search for the point of a cell where soft heads are hardest; it proves nothing."""

from typing import NamedTuple

import numpy as np

from hardmax.exact.integer_vectors import rounded_directions
from hardmax.models._arithmetic.form_scores import plain_scores
from hardmax.models._arithmetic.layers import FLOATS, decide
from hardmax.models.argmax import ArgmaxNetwork, Place
from hardmax.stability.cells.cell_gaps import CellGaps
from hardmax.typing import FloatArray, IntArray


class FloatWalls(NamedTuple):
    r"""A cell $A t + c > 0$ in floats, scaled so that the largest coefficient of each row is 1.

    Attributes:
        slopes: The matrix $A$, shape `(n_rows, dim)`.
        offsets: The vector $c$, shape `(n_rows,)`.
    """

    slopes: FloatArray
    offsets: FloatArray


def float_walls(cell: CellGaps) -> FloatWalls:
    """Round the walls of a cell, including the walls of its heads, to floats."""
    rows = [row for row in (*cell.walls, *(gap.row for gap in cell.gaps)) if any(row)]
    scaled = rounded_directions(rows, cell.dim + 1)
    return FloatWalls(scaled[:, :-1], scaled[:, -1])


def hardest_point(
    network: ArgmaxNetwork,
    cell: FloatWalls,
    winners: IntArray,
    start: FloatArray,
    taus: list[float],
) -> FloatArray:
    """Improve a point within a cell by Nelder-Mead search on the odds of the soft network."""
    from scipy.optimize import minimize

    def badness(t: FloatArray) -> float:
        slack = cell.slopes @ t + cell.offsets
        if (slack <= 0.0).any():
            return 1e6 - 1e6 * float(slack.min())
        return worst_odds(network, t, winners, taus)

    size = 0.1 * max(1e-3, float(np.abs(start).max(initial=0.0)))
    corners = np.vstack([start, start + size * np.eye(len(start))])
    result = minimize(
        badness,
        start,
        method="Nelder-Mead",
        options={
            "initial_simplex": corners,
            "maxfev": 60 * len(start),
            "xatol": 1e-9,
            "fatol": 1e-3,
        },
    )
    return np.asarray(result.x)


@np.errstate(all="ignore")  # NaN does no harm: no proof depends on this function.
def worst_odds(
    network: ArgmaxNetwork, point: FloatArray, winners: IntArray, taus: list[float]
) -> float:
    r"""Return the largest $\log\frac{1-p}{p}$ of all heads in floats, $p$ the winner's weight."""
    odds = [-np.inf]

    def contribute(place: Place, query: FloatArray) -> FloatArray:
        layer, tau = place.layer, taus[place.depth]
        scores = plain_scores(layer, query[np.newaxis])[0]
        blocks = np.zeros(layer.output.dim_in)
        named = zip(layer.slots.tolist(), winners[place.groups].tolist(), strict=True)
        for group, (slot, winner) in enumerate(named):
            forms = slice(int(layer.starts[group]), int(layer.starts[group + 1]))
            s, values = scores[forms], layer.values[forms]
            if layer.is_table[group] and tau > 0.0:
                weights = np.exp((s - s.max()) / tau)
                weights /= weights.sum()
                own = (s[winner] - s) / tau
                copies = own == 0.0
                rivals = -own[~copies]
                if len(rivals):
                    odds.append(float(np.logaddexp.reduce(rivals) - np.log(copies.sum())))
                part = weights @ values
            else:
                best = int(s.argmax())
                part = values[best].copy()
                part[0] += layer.gains[forms][best] * s[best]
            blocks[slot : slot + len(part)] += part
        return blocks

    decide(network, point, FLOATS, contribute)
    return max(odds)
