"""The exact winners at points: decided in float64, then in several limbs, finally in integers.

Each stage decides the points it can prove and leaves the rest to the next. Float64 suffices for
generic points, except in very deep networks, where limbs do. Integers are only needed for points on
a wall, or so close to one that no other stage can decide, and for forms that tie on a whole cell.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from hardmax.exact.integer_vectors import Vector
from hardmax.exact.strict_inequalities import is_strictly_positive
from hardmax.models._arithmetic.exact_pass import run_exact_pass
from hardmax.models._arithmetic.float_pass import FloatPassResult, run_float_pass
from hardmax.models._arithmetic.limb_pass import is_limb_compatible, run_limb_pass
from hardmax.models._arithmetic.normed_maps import is_relu_network
from hardmax.models._arithmetic.normed_pass import NormedPassResult, run_normed_pass
from hardmax.models._arithmetic.recomposition import (
    cell_inequalities,
    chart_forms,
    forms_equal_to_winner,
    iter_exact_layers,
)
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.typing import BoolArray, FloatArray, IntArray

_ENTRIES_AT_ONCE = 1 << 16
_FEWEST_AT_ONCE = 32
"""A product with a wide layer reads all its weights, so it should process several points."""
_STAGES = 4, 8, 16
"""The numbers of limbs to try: about 80, 160 and 300 bits."""
_POINTS_PER_COEFFICIENT = 3
_VAIN_SHARE = 0.9
"""A stage that leaves more than this share of a chunk open is not tried on the next chunk."""
_MOST_KEPT = 1 << 22
_BITS_OF_A_SIZE = 32
"""Points whose sizes differ by at most this many bits share the exponents of their limbs."""


FloatStage = Callable[..., NormedPassResult | FloatPassResult]
"""Evaluates `points` in float64."""


class PointWinners(NamedTuple):
    """The winners at some points.

    Attributes:
        first: Index of the first winner in each group, shape `(n_points, n_groups)`.
        tied: The points at which forms tie that may differ nearby, in increasing order.
        n_tied: The number of winning forms in each group at these points, shape
            `(n_tied, n_groups)`.
    """

    first: IntArray
    tied: IntArray
    n_tied: IntArray


def find_point_winners(
    network: ArgmaxNetwork, points: FloatArray, chart: AffineMap | None = None
) -> PointWinners:
    """Find the winners at points, and the points at which several forms win.

    Args:
        network: The network.
        points: Shape `(n_points, dim_in)`, finite.
        chart: If given, the points are coordinates, and this map takes them to inputs.

    Examples:
        >>> from hardmax import ReluNetwork
        >>> relu = ReluNetwork([[[1.0, 3.0]], [[1.0], [1.0]]], [[0.0, -1.0], [0.0]]).network
        >>> found = find_point_winners(relu, np.array([[-1.0], [0.0], [5.0]]))
        >>> found.first.tolist(), found.tied.tolist(), found.n_tied.tolist()
        ([[0, 0], [0, 0], [1, 1]], [1], [[2, 1]])
    """
    first = np.empty((len(points), network.n_groups), dtype=np.int64)
    n_tied: dict[int, IntArray] = {}
    # The float stages report ties only between forms computed from zeros alone. If no coordinate is
    # zero, such forms are zero on the whole cell, so the point is not on a wall.
    has_zeros = (points == 0.0).any(axis=1)
    rest = np.arange(len(points))
    stages = _float_stages(network, chart)
    for evaluate in stages:
        may_stop = evaluate is not stages[-1]
        rest = _run_float_stage(
            network, points, evaluate, rest, has_zeros, first, may_stop=may_stop
        )
    # More limbs are unlikely to decide these points.
    hopeless: list[IntArray] = []
    for n_limbs in _STAGES if len(rest) and is_limb_compatible(network) else ():
        left: list[IntArray] = []
        is_vain = False
        for some in _group_by_magnitude(network, points, rest):
            if is_vain:
                left.append(some)
                continue
            found = run_limb_pass(network, points[some], n_limbs, chart)
            first[some] = found.first
            tied = ~found.is_open & (found.n_tied > 1).any(axis=1)
            n_tied |= zip(some[tied].tolist(), found.n_tied[tied], strict=True)
            hopeless.append(some[found.is_open & found.is_close])
            left.append(some[found.is_open & ~found.is_close])
            is_vain = len(left[-1]) > _VAIN_SHARE * max(len(some), _FEWEST_AT_ONCE)
        rest = np.concatenate([rest[:0], *left])
    rest = np.concatenate([rest, *hopeless])
    over = AffineMap.identity(network.dim_in) if chart is None else chart
    rest = _check_guessed_cells(network, points, first, rest, over)
    exact = run_exact_pass(network, points[rest], chart)
    first[rest] = exact.winners
    tied = np.asarray((exact.n_tied > 1).any(axis=1))
    n_tied |= zip(rest[tied].tolist(), exact.n_tied[tied], strict=True)
    rows = sorted(n_tied)
    counts = np.array([n_tied[i] for i in rows], dtype=np.int64)
    shape = len(rows), network.n_groups
    return PointWinners(first, np.array(rows, dtype=np.int64), counts.reshape(shape))


def _float_stages(network: ArgmaxNetwork, chart: AffineMap | None) -> list[FloatStage]:
    stages: list[FloatStage] = [
        partial(run_float_pass, network, taus=None, named=True, chart=chart)
    ]
    if is_relu_network(network):
        stages.insert(0, partial(run_normed_pass, network, chart=chart))
    return stages


def _run_float_stage(
    network: ArgmaxNetwork,
    points: FloatArray,
    evaluate: FloatStage,
    chosen: IntArray,
    has_zeros: BoolArray,
    first: IntArray,
    *,
    may_stop: bool,
) -> IntArray:
    """Find the winners at the chosen points; return the points that remain undecided."""
    left = []
    for chunk in split_into_chunks(network, len(chosen)):
        some = chosen[chunk]
        result = evaluate(points=points[some])
        first[some] = result.winners
        left.append(some[result.is_open | (result.has_ties & has_zeros[some])])
        if may_stop and len(left[-1]) > _VAIN_SHARE * max(len(some), _FEWEST_AT_ONCE):
            left.append(chosen[chunk.stop :])
            break
    return np.concatenate([chosen[:0], *left])


def _check_guessed_cells(
    network: ArgmaxNetwork,
    points: FloatArray,
    guesses: IntArray,
    chosen: IntArray,
    chart: AffineMap,
) -> IntArray:
    """Check whether points lie in their guessed cells, for cells with many guessed points.

    If forms tie on a whole cell, all points of the cell are left to integers. In this case it is
    faster to compute the inequalities of the cell once.

    Args:
        network: The network.
        points: Shape `(n_points, dim)`.
        guesses: The guessed winners at each point, shape `(n_points, n_groups)`. If a point is
            found to be in a cell, its row is replaced by the signature of the cell.
        chosen: The indices of the points to check.
        chart: The map from coordinates to inputs.

    Returns:
        The chosen points that were not found in a cell.
    """
    together: dict[bytes, list[int]] = {}
    for i in chosen.tolist():
        together.setdefault(guesses[i].tobytes(), []).append(i)
    left: list[int] = []
    for group in together.values():
        # A form has dim + 1 coefficients; each costs about as much as its value at one point.
        if len(group) <= _POINTS_PER_COEFFICIENT * (points.shape[1] + 1):
            left += group
            continue
        rows: list[Vector] = []
        name: list[int] = []
        guess = guesses[group[0]]
        for layer, scores, mine in iter_exact_layers(network, chart_forms(chart), guess):
            rows += [
                tuple(map(int, row)) for row in cell_inequalities(layer, scores, mine).tolist()
            ]
            # The signature of the cell records the first of several coinciding forms.
            tied = (forms_equal_to_winner(layer, scores, g, w) for g, w in enumerate(mine))
            name += [forms[0] - int(layer.starts[g]) for g, forms in enumerate(tied)]
        inside = is_strictly_positive(rows, points[group])
        guesses[np.array(group)[inside]] = name
        left += np.array(group)[~inside].tolist()
    return np.array(left, dtype=np.int64)


class TieClassifier:
    """Distinguishes ties that hold on a whole cell from walls.

    Args:
        network: The network.
        chart: The map from coordinates to inputs, if not the identity.
    """

    def __init__(self, network: ArgmaxNetwork, chart: AffineMap | None = None) -> None:
        self._network = network
        self._chart = AffineMap.identity(network.dim_in) if chart is None else chart
        self._counts: dict[bytes, IntArray] = {}

    def holds_on_cell(self, winners: IntArray, n_tied: IntArray) -> bool:
        """Whether all forms that tie at a point do so on the cell of its first winners.

        Args:
            winners: The first winners at the point, shape `(n_groups,)`.
            n_tied: The number of winning forms in each group, shape `(n_groups,)`.
        """
        name = winners.tobytes()
        counts = self._counts.get(name)
        if counts is None:
            # Other threads may read and clear the cache at the same time.
            if len(self._counts) * len(winners) > _MOST_KEPT:
                self._counts.clear()
            counts = self._counts[name] = self._count_coincidences(winners)
        return np.array_equal(n_tied, counts)

    def _count_coincidences(self, winners: IntArray) -> IntArray:
        """Count the forms in each group that equal the winner on the cell, including the winner."""
        counts: list[int] = []
        for layer, scores, mine in iter_exact_layers(
            self._network, chart_forms(self._chart), winners
        ):
            counts += [len(forms_equal_to_winner(layer, scores, g, w)) for g, w in enumerate(mine)]
        return np.array(counts, dtype=np.int64)


def split_into_chunks(network: ArgmaxNetwork, n_points: int) -> list[slice]:
    """Split a batch into parts whose scores fit into the processor's cache."""
    widest = max((len(layer.offsets) for layer in network.layers), default=network.dim_in)
    step = max(_FEWEST_AT_ONCE, _ENTRIES_AT_ONCE // widest)
    return [slice(start, start + step) for start in range(0, n_points, step)]


def _group_by_magnitude(
    network: ArgmaxNetwork, points: FloatArray, chosen: IntArray
) -> Iterator[IntArray]:
    """Yield chunks of the chosen points, each with points of similar magnitude."""
    _, exponents = np.frexp(np.abs(points[chosen]).max(axis=1, initial=0.0))
    sizes = exponents // _BITS_OF_A_SIZE
    for size in np.unique(sizes):
        mine = chosen[sizes == size]
        for chunk in split_into_chunks(network, len(mine)):
            yield mine[chunk]
