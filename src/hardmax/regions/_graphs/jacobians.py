r"""Gradients of all slots of a network on one cell, as many inputs at a time as memory allows.

On a cell every slot is $\langle g_i, x\rangle + c_i$. A pass carries columns of the $g_i$ from
node to node.

**Errors.** Let $\|\hat g_j - g_j\| \le E_j$ for the floats $\hat g_j$. A sum of $n$ products rounds
every coordinate by at most $\kappa \sum_j |w_j \hat g_{jk}|$, $\kappa = 2 (n + 4) u$, so by the
triangle inequality $E \le \sum_j |w_j| (E_j + \kappa \|\hat g_j\|)$, raised by what rounding this
sum may take away.
"""

from collections.abc import Iterator
from ctypes import byref

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import address
from hardmax.models.graphs.graph_networks import BlockMap, GraphNetwork, Maxima, Node, SparseMap
from hardmax.regions._graphs.cell_forms import CellForms
from hardmax.typing import AnyArray, BoolArray, FloatArray

_MOST_VALUES = 1 << 24
_COLUMNS = 64
_UNIT = 2.0**-53
UP = 1.0 + 2.0**-20
TINY = 2.0**-1000


def gradient_columns(cell: CellForms) -> Iterator[tuple[slice, FloatArray, BoolArray]]:
    """Yield the derivatives of all slots by some inputs after others, and which inputs.

    Beside the derivatives `(n_slots, n_inputs)` it is said which slots depend on these inputs: the
    rows of others hold anything.
    """
    network = cell.network
    step = min(_COLUMNS, max(1, _MOST_VALUES // network.n_slots))
    for begin in range(0, network.dim_in, step):
        end = min(begin + step, network.dim_in)
        values = np.empty((network.n_slots, end - begin))
        values[begin:end] = np.eye(end - begin)
        is_moved = np.zeros(network.n_slots, dtype=np.bool_)
        is_moved[begin:end] = True
        core().hm_graph_differentiate(
            byref(cell.record), end - begin, address(values), address(is_moved)
        )
        yield slice(begin, end), values, is_moved


def gradient_of(
    network: GraphNetwork, winners: AnyArray, slots: AnyArray, weights: AnyArray
) -> FloatArray:
    """Return the gradient of one sum of weights times slots, rounded, from the last node back."""
    adjoint = np.zeros(network.n_slots)
    np.add.at(adjoint, slots, weights)
    for node, won in reversed(list(with_winners(network, winners))):
        given = adjoint[node.slots]
        if isinstance(node, Maxima):
            entries = node.starts[:-1] + won
            slopes = np.where(node.columns[entries] < 0, 0.0, node.sign * node.slopes[entries])
            np.add.at(adjoint, node.columns[entries], slopes * given)
        elif isinstance(node, SparseMap):
            rows = np.repeat(np.arange(len(node.bias)), np.diff(node.starts))
            np.add.at(adjoint, node.columns, node.weights * given[rows])
        else:
            channels = np.arange(node.kernel.shape[1])
            for tap, kernel in zip(node.taps.T, node.kernel, strict=True):
                rows = np.flatnonzero(tap >= 0)
                read = tap[rows][:, np.newaxis] + channels
                np.add.at(adjoint, read, given[rows] @ kernel.T)
    return adjoint[: network.dim_in]


def cell_constants(network: GraphNetwork, winners: AnyArray) -> FloatArray:
    """Return the $c_i$ of all slots on a cell, rounded: what they would be at 0."""
    values = np.zeros((network.n_slots, 1))
    for node, won in with_winners(network, winners):
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            constants = _linear(node, won, values, is_absolute=False)
            if isinstance(node, Maxima):
                added = node.sign * node.offsets[node.starts[:-1] + won]
            else:
                added = (
                    node.bias
                    if isinstance(node, SparseMap)
                    else np.tile(node.bias, (len(node.taps), 1))
                )
            values[node.slots] = constants + added[..., np.newaxis]
    return values[:, 0]


def gradient_errors(network: GraphNetwork, winners: AnyArray, norms: FloatArray) -> FloatArray:
    """Bound the errors of gradients in the Euclidean norm, given their norms: `(n_slots,)`.

    What overflows, infinity times 0 included, has an infinite bound.
    """
    errors = np.zeros((network.n_slots, 1))
    for node, won in with_winners(network, winners):
        n_terms = 1
        if isinstance(node, BlockMap):
            n_terms = node.kernel.shape[0] * node.kernel.shape[1]
        elif isinstance(node, SparseMap):
            n_terms = int(np.diff(node.starts).max(initial=0))
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            shares = errors + 2.0 * (n_terms + 4) * _UNIT * norms[:, np.newaxis]
            bounds = _linear(node, won, shares, is_absolute=True) * UP + TINY
        errors[node.slots] = np.where(np.isnan(bounds), np.inf, bounds)
    return errors[:, 0]


def with_winners(network: GraphNetwork, winners: AnyArray) -> Iterator[tuple[Node, AnyArray]]:
    """Yield every node with the winners of its groups."""
    first = 0
    for node in network.nodes:
        n = node.n_groups if isinstance(node, Maxima) else 0
        yield node, winners[first : first + n]
        first += n


def _linear(node: Node, winners: AnyArray, values: FloatArray, *, is_absolute: bool) -> FloatArray:
    """What a node writes without its biases, with the absolute weights if asked."""
    size = np.abs if is_absolute else np.asarray
    if isinstance(node, Maxima):
        entries = node.starts[:-1] + winners
        slopes = np.where(node.columns[entries] < 0, 0.0, node.slopes[entries])
        return np.asarray(size(node.sign * slopes)[:, np.newaxis] * values[node.columns[entries]])
    if isinstance(node, SparseMap):
        out = np.zeros((len(node.bias), values.shape[1]))
        counts = np.diff(node.starts)
        rows = np.repeat(np.arange(len(counts)), counts)
        np.add.at(out, rows, size(node.weights)[:, np.newaxis] * values[node.columns])
        return out
    out = np.zeros((*node.slots.shape, values.shape[1]))
    channels = np.arange(node.kernel.shape[1])
    for tap, kernel in zip(node.taps.T, node.kernel, strict=True):
        rows = np.flatnonzero(tap >= 0)
        read = values[tap[rows][:, np.newaxis] + channels]
        out[rows] += size(kernel).T @ read
    return out
