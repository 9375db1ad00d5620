r"""Which slots of a network are the same function on a domain, by how they are computed.

Slots get numbers; equal numbers mean equal functions, since equal weights meet equal arguments in
the same order. On images this is common: all windows over a flat background see the same. A pool
over them has one entry, not four, and units with equal numbers turn on and off together.
"""

from collections.abc import Sequence

import numpy as np

from hardmax._ground.deadlines import check_time
from hardmax.models.graphs.graph_networks import BlockMap, GraphNetwork, Maxima, SparseMap
from hardmax.typing import AnyArray, IntArray


def value_numbers(network: GraphNetwork, inputs: Sequence[Sequence[int]]) -> IntArray:
    """Number the slots, the zero function by 0.

    Args:
        network: The network.
        inputs: The inputs as exact forms of the coordinates of a domain.

    Returns:
        Shape `(n_slots,)`.
    """
    numbers = np.zeros(network.n_slots + 1, dtype=np.int64)  # The last one stands for padding: 0.
    known: dict[tuple[int, ...], int] = {}
    for slot, row in enumerate(inputs):
        form = tuple(int(m) for m in row)
        numbers[slot] = known.setdefault(form, len(known) + 1) if any(form) else 0
    top = len(known) + 1
    for node in network.nodes:
        check_time()
        slots = node.slots
        if isinstance(node, BlockMap):
            channels = np.arange(node.kernel.shape[1])
            read = np.where(
                node.taps[:, :, np.newaxis] < 0, -1, node.taps[:, :, np.newaxis] + channels
            )
            rows = numbers[read].reshape(len(node.taps), -1)
            kernels = np.vstack([node.kernel.reshape(-1, len(node.bias)), node.bias]).T
            by_row, by_column = _classes(rows), _classes(_bits(kernels))
            found = top + by_row[:, np.newaxis] * (by_column.max() + 1) + by_column
            is_off = np.asarray(~rows.any(axis=1))
            found[is_off[:, np.newaxis] & (node.bias == 0.0)] = 0
            numbers[slots] = found
            top = int(found.max()) + 1
            continue
        columns = numbers[node.columns]
        if isinstance(node, SparseMap):
            parts: tuple[AnyArray, ...] = (node.weights,)
            lasting: AnyArray = node.bias
        else:
            parts = (node.slopes, node.offsets)
            lasting = np.zeros(len(slots))
        counts = np.diff(node.starts)
        for count in np.unique(counts):
            check_time()
            which = np.flatnonzero(counts == count)
            entries = node.starts[which][:, np.newaxis] + np.arange(count)
            read = columns[entries]
            weights = [part[entries] for part in parts]
            table = np.column_stack([read, *map(_bits, weights), _bits(lasting[which])])
            found = top + _classes(table)
            top = int(found.max()) + 1
            if isinstance(node, SparseMap):
                is_zero = ~read.any(axis=1) & (lasting[which] == 0.0)
                if count == 1:
                    is_copy = (weights[0][:, 0] == 1.0) & (lasting[which] == 0.0)
                    found = np.where(is_copy, read[:, 0], found)
            else:
                is_zero = ~read.any(axis=1) & ~weights[1].any(axis=1)
            found[is_zero] = 0
            numbers[slots[which]] = found
    return numbers[:-1]


def repeated_entries(node: Maxima, numbers: IntArray) -> AnyArray:
    """Say which entries of groups are the same as one before them, shape `(n_entries,)`."""
    read = np.where(node.columns < 0, 0, numbers[node.columns])
    groups = np.repeat(np.arange(node.n_groups), np.diff(node.starts))
    slopes = np.where(read == 0, 0.0, node.slopes)
    table = np.column_stack([groups, read, _bits(slopes), _bits(node.offsets)])
    _, first = np.unique(table, axis=0, return_index=True)
    repeated = np.ones(len(groups), dtype=np.uint8)
    repeated[first] = 0
    return repeated


def _bits(numbers: AnyArray) -> AnyArray:
    """Float64 numbers as integers, the two zeros as one."""
    return np.ascontiguousarray(numbers + 0.0).view(np.int64)


def _classes(table: AnyArray) -> IntArray:
    """Number the different rows of a table."""
    if table.shape[1] == 0:
        return np.zeros(len(table), dtype=np.int64)
    _, inverse = np.unique(np.ascontiguousarray(table), axis=0, return_inverse=True)
    return np.asarray(inverse).reshape(-1)
