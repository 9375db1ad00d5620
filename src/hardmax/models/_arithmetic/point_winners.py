"""Who wins at points, exactly: in float64 first, then in several limbs, last in integers.

Each stage decides what it can prove and hands on the rest. Generic points end with float64 unless a
network is very deep, and then with the limbs; integers remain for points on walls, or so near to
one that no other stage can tell, and for forms that tie on a whole cell.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from hardmax.exact.integer_vectors import Vector
from hardmax.exact.strict_inequalities import is_strictly_positive
from hardmax.models._arithmetic.exact_pass import exact_pass
from hardmax.models._arithmetic.float_pass import Pass, float_pass
from hardmax.models._arithmetic.limb_pass import fits_limbs, limb_pass
from hardmax.models._arithmetic.normed_maps import is_rectified
from hardmax.models._arithmetic.normed_pass import NormedPass, normed_pass
from hardmax.models._arithmetic.recomposition import (
    chart_forms,
    coinciding,
    exact_layers,
    winning_rows,
)
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.typing import BoolArray, FloatArray, IntArray

_ENTRIES_AT_ONCE = 1 << 16
_FEWEST_AT_ONCE = 32
"""A product of a wide layer reads all its weights, so it should serve several points."""
_STAGES = 4, 8, 16
"""How many limbs to try: about 80, 160 and 300 bits."""
_POINTS_PER_COEFFICIENT = 3
_VAIN_SHARE = 0.9
"""A stage that leaves more than this of a chunk is not tried on the next."""
_MOST_KEPT = 1 << 22
_BITS_OF_A_SIZE = 32
"""Points that share the exponents of their limbs have sizes this close."""


FloatStage = Callable[..., NormedPass | Pass]
"""Evaluates `points` in float64."""


class PointWinners(NamedTuple):
    """The winners at some points.

    Attributes:
        first: Index of the first winner in each group, shape `(n_points, n_groups)`.
        tied: The points where forms tie that might differ next to them, rising.
        n_tied: For each of these how many forms of each group win, shape `(n_tied, n_groups)`.
    """

    first: IntArray
    tied: IntArray
    n_tied: IntArray


def point_winners(
    network: ArgmaxNetwork, points: FloatArray, chart: AffineMap | None = None
) -> PointWinners:
    """Find the winners at points, and where several forms win.

    Args:
        network: The network.
        points: Shape `(n_points, dim_in)`, finite.
        chart: If given, the points are coordinates, and this map gives the inputs.

    Examples:
        >>> from hardmax import ReluNetwork
        >>> relu = ReluNetwork([[[1.0, 3.0]], [[1.0], [1.0]]], [[0.0, -1.0], [0.0]]).network
        >>> found = point_winners(relu, np.array([[-1.0], [0.0], [5.0]]))
        >>> found.first.tolist(), found.tied.tolist(), found.n_tied.tolist()
        ([[0, 0], [0, 0], [1, 1]], [1], [[2, 1]])
    """
    first = np.empty((len(points), network.n_groups), dtype=np.int64)
    n_tied: dict[int, IntArray] = {}
    # Floats call equal only what they computed from zeros alone. Where no coordinate is zero, such
    # forms are zero on the whole cell, so the point is not on a wall.
    has_zeros = (points == 0.0).any(axis=1)
    rest = np.arange(len(points))
    stages = _float_stages(network, chart)
    for evaluate in stages:
        may_stop = evaluate is not stages[-1]
        rest = _undecided(network, points, evaluate, rest, has_zeros, first, may_stop=may_stop)
    # What more limbs will not decide.
    hopeless: list[IntArray] = []
    for n_limbs in _STAGES if len(rest) and fits_limbs(network) else ():
        left: list[IntArray] = []
        is_vain = False
        for some in _of_one_size(network, points, rest):
            if is_vain:
                left.append(some)
                continue
            found = limb_pass(network, points[some], n_limbs, chart)
            first[some] = found.first
            tied = ~found.is_open & (found.n_tied > 1).any(axis=1)
            n_tied |= zip(some[tied].tolist(), found.n_tied[tied], strict=True)
            hopeless.append(some[found.is_open & found.is_close])
            left.append(some[found.is_open & ~found.is_close])
            is_vain = len(left[-1]) > _VAIN_SHARE * max(len(some), _FEWEST_AT_ONCE)
        rest = np.concatenate([rest[:0], *left])
    rest = np.concatenate([rest, *hopeless])
    over = AffineMap.identity(network.dim_in) if chart is None else chart
    rest = _outside_guessed_cells(network, points, first, rest, over)
    exact = exact_pass(network, points[rest], chart)
    first[rest] = exact.winners
    tied = np.asarray((exact.n_tied > 1).any(axis=1))
    n_tied |= zip(rest[tied].tolist(), exact.n_tied[tied], strict=True)
    rows = sorted(n_tied)
    counts = np.array([n_tied[i] for i in rows], dtype=np.int64)
    shape = len(rows), network.n_groups
    return PointWinners(first, np.array(rows, dtype=np.int64), counts.reshape(shape))


def _float_stages(network: ArgmaxNetwork, chart: AffineMap | None) -> list[FloatStage]:
    stages: list[FloatStage] = [partial(float_pass, network, taus=None, named=True, chart=chart)]
    if is_rectified(network):
        stages.insert(0, partial(normed_pass, network, chart=chart))
    return stages


def _undecided(
    network: ArgmaxNetwork,
    points: FloatArray,
    evaluate: FloatStage,
    chosen: IntArray,
    has_zeros: BoolArray,
    first: IntArray,
    *,
    may_stop: bool,
) -> IntArray:
    """Find the winners at the chosen points; return the points where they are not decided."""
    left = []
    for chunk in chunks(network, len(chosen)):
        some = chosen[chunk]
        result = evaluate(points=points[some])
        first[some] = result.winners
        left.append(some[result.is_open | (result.has_ties & has_zeros[some])])
        if may_stop and len(left[-1]) > _VAIN_SHARE * max(len(some), _FEWEST_AT_ONCE):
            left.append(chosen[chunk.stop :])
            break
    return np.concatenate([chosen[:0], *left])


def _outside_guessed_cells(
    network: ArgmaxNetwork,
    points: FloatArray,
    guesses: IntArray,
    chosen: IntArray,
    chart: AffineMap,
) -> IntArray:
    """Look for points in the cells they seem to be in, where many seem to be in one.

    Forms that tie on a whole cell leave all its points to integers. Then it is quicker to find the
    inequalities of the cell once.

    Args:
        network: The network.
        points: Shape `(n_points, dim)`.
        guesses: What the winners at each point may be, shape `(n_points, n_groups)`. Those of the
            points that turn out to be in a cell are replaced by its signature.
        chosen: Which points to look at.
        chart: The map from coordinates to inputs.

    Returns:
        Those of the chosen points that were not found in a cell.
    """
    together: dict[bytes, list[int]] = {}
    for i in chosen.tolist():
        together.setdefault(guesses[i].tobytes(), []).append(i)
    left: list[int] = []
    for group in together.values():
        # A form has that many coefficients, each about as costly as its value at a point.
        if len(group) <= _POINTS_PER_COEFFICIENT * (points.shape[1] + 1):
            left += group
            continue
        rows: list[Vector] = []
        name: list[int] = []
        guess = guesses[group[0]]
        for layer, scores, mine in exact_layers(network, chart_forms(chart), guess):
            rows += [tuple(map(int, row)) for row in winning_rows(layer, scores, mine).tolist()]
            # Of forms that coincide the first gives its name to the cell.
            tied = (coinciding(layer, scores, g, w) for g, w in enumerate(mine))
            name += [forms[0] - int(layer.starts[g]) for g, forms in enumerate(tied)]
        inside = is_strictly_positive(rows, points[group])
        guesses[np.array(group)[inside]] = name
        left += np.array(group)[~inside].tolist()
    return np.array(left, dtype=np.int64)


class Coincidences:
    """Tells ties that hold on a whole cell from walls.

    Args:
        network: The network.
        chart: The map from coordinates to inputs, if not the identity.
    """

    def __init__(self, network: ArgmaxNetwork, chart: AffineMap | None = None) -> None:
        self._network = network
        self._chart = AffineMap.identity(network.dim_in) if chart is None else chart
        self._counts: dict[bytes, IntArray] = {}

    def explain(self, winners: IntArray, n_tied: IntArray) -> bool:
        """Whether all forms that tie at a point do so on the cell of its first winners.

        Args:
            winners: The first winners at the point, shape `(n_groups,)`.
            n_tied: How many forms win in each group, shape `(n_groups,)`.
        """
        name = winners.tobytes()
        counts = self._counts.get(name)
        if counts is None:
            # Other threads may look at the same time, and clear it too.
            if len(self._counts) * len(winners) > _MOST_KEPT:
                self._counts.clear()
            counts = self._counts[name] = self._count(winners)
        return np.array_equal(n_tied, counts)

    def _count(self, winners: IntArray) -> IntArray:
        """Count in each group the forms that equal the winner on the cell, itself included."""
        counts: list[int] = []
        for layer, scores, mine in exact_layers(self._network, chart_forms(self._chart), winners):
            counts += [len(coinciding(layer, scores, g, w)) for g, w in enumerate(mine)]
        return np.array(counts, dtype=np.int64)


def chunks(network: ArgmaxNetwork, n_points: int) -> list[slice]:
    """Cut a batch into parts whose scores fit into a cache."""
    widest = max((len(layer.offsets) for layer in network.layers), default=network.dim_in)
    step = max(_FEWEST_AT_ONCE, _ENTRIES_AT_ONCE // widest)
    return [slice(start, start + step) for start in range(0, n_points, step)]


def _of_one_size(
    network: ArgmaxNetwork, points: FloatArray, chosen: IntArray
) -> Iterator[IntArray]:
    """Sort some points by their order of magnitude, few of one order at a time."""
    _, exponents = np.frexp(np.abs(points[chosen]).max(axis=1, initial=0.0))
    sizes = exponents // _BITS_OF_A_SIZE
    for size in np.unique(sizes):
        mine = chosen[sizes == size]
        for chunk in chunks(network, len(mine)):
            yield mine[chunk]
