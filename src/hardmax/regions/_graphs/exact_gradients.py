"""Affine forms on one cell in integers, from the last node back: what floats leave open."""

from functools import cache

import numpy as np
from flint import arb, ctx

from hardmax.exact.directed_rounding import PRECISION, round_down, round_up
from hardmax.exact.dyadic import ScaledIntegers, scaled_integers
from hardmax.models.graphs.graph_networks import BlockMap, GraphNetwork, Maxima
from hardmax.regions._graphs.jacobians import with_winners
from hardmax.typing import AnyArray, FloatArray, IntArray, WideArray


class ExactGradients:
    """Sums of slots as affine forms of the inputs, without rounding.

    Args:
        network: The network.
        winners: The winner of each group.
    """

    def __init__(self, network: GraphNetwork, winners: AnyArray) -> None:
        self._network = network
        self._nodes = list(with_winners(network, winners))
        self._integers_of_block = cache(_integers_of_block)

    def form_of(self, slots: AnyArray, weights: FloatArray, offsets: FloatArray) -> ScaledIntegers:
        """Return the gradient, and last the constant, of weights times slots plus offsets.

        Args:
            slots: Shape `(n,)`.
            weights: Shape `(n,)`.
            offsets: The terms of the constant, any number of them.
        """
        given = scaled_integers(np.concatenate([weights, offsets]))
        # The last entry gathers the constant.
        adjoint = np.zeros(self._network.n_slots + 1, dtype=object)
        np.add.at(adjoint, slots, given.integers[: len(slots)])
        adjoint[-1] = sum(given.integers[len(slots) :].tolist())
        exponent = given.exponent
        for i in reversed(range(len(self._nodes))):
            held = adjoint[self._nodes[i][0].slots]
            if not held.any():
                continue
            adjoint[self._nodes[i][0].slots] = 0
            columns, parts, constant, unit = self._step_back(i, held)
            if unit < 0:
                adjoint = adjoint << -unit
            np.add.at(adjoint, columns, parts << max(unit, 0))
            adjoint[-1] += constant << max(unit, 0)
            exponent += min(unit, 0)
        form = np.append(adjoint[: self._network.dim_in], adjoint[-1])
        return ScaledIntegers(form, exponent)

    def _step_back(self, i: int, held: WideArray) -> tuple[IntArray, WideArray, int, int]:
        """Express multiples of what a node writes by what it reads.

        Returns:
            The slots read, their multiples, the constant, and the exponent of the last two.
        """
        node, won = self._nodes[i]
        if isinstance(node, BlockMap):
            kernel, bias, unit = self._integers_of_block(node)
            channels = np.arange(node.kernel.shape[1])
            columns, parts = [np.empty(0, np.int64)], [np.empty(0, object)]
            for tap, weights in zip(node.taps.T, kernel, strict=True):
                rows = np.flatnonzero((tap >= 0) & (held != 0).any(axis=1))
                columns.append((tap[rows][:, np.newaxis] + channels).ravel())
                parts.append((held[rows] @ weights.T).ravel())
            return np.concatenate(columns), np.concatenate(parts), (held * bias).sum(), unit
        rows = np.flatnonzero(held)
        if isinstance(node, Maxima):
            entries, owners = node.starts[rows] + won[rows], rows
            is_read = node.columns[entries] >= 0
            factors = node.sign * np.where(is_read, node.slopes[entries], 0.0)
            added = node.sign * node.offsets[entries]
        else:
            entries = np.flatnonzero(
                (held != 0)[np.repeat(np.arange(len(held)), np.diff(node.starts))]
            )
            owners = np.searchsorted(node.starts, entries, side="right") - 1
            factors, added = node.weights[entries], node.bias[rows]
        both = scaled_integers(np.concatenate([factors, added]))
        multiples = both.integers[: len(entries)] * held[owners]
        constant = (both.integers[len(entries) :] * held[rows]).sum()
        return node.columns[entries], multiples, constant, both.exponent


def _integers_of_block(node: BlockMap) -> tuple[WideArray, WideArray, int]:
    """Write the kernel and the bias as integers over one power of two."""
    both = scaled_integers(np.concatenate([node.kernel.ravel(), node.bias]))
    kernel = both.integers[: node.kernel.size].reshape(node.kernel.shape)
    return kernel, both.integers[node.kernel.size :], both.exponent


def value_at(form: ScaledIntegers, point: FloatArray) -> ScaledIntegers:
    """Return the value of a form at a point, an array of no dimension."""
    place = scaled_integers(point)
    shift = place.exponent
    value = (form.integers[:-1] * place.integers).sum() << max(shift, 0)
    value += form.integers[-1] << max(-shift, 0)
    return ScaledIntegers(np.asarray(value, dtype=object), form.exponent + min(shift, 0))


def distance_to_zero(form: ScaledIntegers, point: FloatArray) -> tuple[float, float]:
    """Bound the distance from a point to the hyperplane where a form with a gradient is 0.

    Returns:
        The nearest floats on both sides; the upper one is infinite beyond the largest float.
    """
    value = value_at(form, point)
    with ctx.workprec(PRECISION):
        size = arb(abs(int(value.integers))) * arb(2) ** (value.exponent - form.exponent)
        squares = sum((arb(int(g)) ** 2 for g in form.integers[:-1]), arb(0))
        distance = size / squares.sqrt()
        return max(0.0, round_down(distance)), round_up(distance)
