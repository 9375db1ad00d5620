r"""The forms of single slots on one cell, in integers, composed on demand.

The cell is given by a signature: one winner for each group. A form is $(a, c) = m\, 2^{e} / D$ with
integers $m$, one exponent $e$ for each node and one denominator $D$ for all nodes. Only the slots
on which a slot depends are composed, so a unit of the first layers costs a few products, however
large the network is.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import mul

import numpy as np

from hardmax._ground.deadlines import check_time
from hardmax.exact.dyadic import lowest_bits, scaled_integers
from hardmax.models.graphs.graph_networks import BlockMap, GraphNetwork, Maxima, Node, SparseMap
from hardmax.typing import AnyArray, FloatArray

Form = tuple[int, ...]

_ZERO = int(np.iinfo(np.int64).max)
"""The value of `lowest_bits` for zero."""
_AT_ONCE = 1 << 20
"""The number of weights to process between two checks of the clock."""


class ExactCell:
    """The forms of slots in integers, for given winners.

    Args:
        network: The network.
        inputs: The integer forms of the inputs, with the offset last.
        exponent: The exponent of the power of two that scales `inputs`.
        denominator: The common divisor of all forms.
        winners: The winner of each group. After changing a winner, call `forget`.
    """

    def __init__(
        self,
        network: GraphNetwork,
        inputs: Sequence[Sequence[int]],
        exponent: int,
        denominator: int,
        winners: AnyArray,
    ) -> None:
        self.network, self.winners, self.denominator = network, winners, denominator
        self._inputs = [tuple(int(m) for m in row) for row in inputs]
        self._n_columns = len(self._inputs[0])
        self._nodes = [_ExactNode(node) for node in network.nodes]
        self.makers = np.full(network.n_slots, -1, dtype=np.int64)
        for i, node in enumerate(network.nodes):
            self.makers[node.slots] = i
        self._known: list[dict[int, Form]] = [{} for _ in network.nodes]
        groups = [n.n_groups if isinstance(n, Maxima) else 0 for n in network.nodes]
        self.first_groups = np.concatenate([[0], np.cumsum(groups)])
        self._input_exponent = min(exponent, 0)
        self._inputs = [
            tuple(m << (exponent - self._input_exponent) for m in row) for row in self._inputs
        ]
        self._units: list[tuple[int, int]] = []
        for node, exact in zip(network.nodes, self._nodes, strict=True):
            sources = np.unique(self.makers[node.read_slots]).tolist()
            before = min((self._exponent(s) for s in sources), default=0)
            self._units.append((before, min(before + exact.exponent, exact.biases[1], 0)))

    def forget(self, node: int) -> None:
        """Drop the forms that depend on the winners of a node, after the winners have changed."""
        for known in self._known[node:]:
            known.clear()

    def entries(self, node: int, group: int) -> list[Form]:
        """Return the forms of all entries of a group, on a common positive scale."""
        maxima = self.network.nodes[node]
        assert isinstance(maxima, Maxima)
        places = range(maxima.starts[group], maxima.starts[group + 1])
        columns = [int(maxima.columns[j]) for j in places]
        self._compose([c for c in columns if c >= 0])
        return [self._entry(node, j) for j in places]

    def forms(self, slots: Sequence[int]) -> list[Form]:
        """Return the forms of slots, on a common positive scale."""
        self._compose(slots)
        exponents = [self._exponent(int(self.makers[s])) for s in slots]
        lowest = min(exponents, default=0)
        found = zip(slots, exponents, strict=True)
        return [tuple(m << (e - lowest) for m in self._form(s)) for s, e in found]

    def _exponent(self, node: int) -> int:
        return self._input_exponent if node < 0 else self._units[node][1]

    def _form(self, slot: int) -> Form:
        node = int(self.makers[slot])
        return self._inputs[slot] if node < 0 else self._known[node][slot]

    def _rescale(self, slot: int, exponent: int) -> Form:
        shift = self._exponent(int(self.makers[slot])) - exponent
        form = self._form(slot)
        return form if shift == 0 else tuple(m << shift for m in form)

    def _compose(self, slots: Iterable[int]) -> None:
        """Compose the missing forms of slots and of all slots on which they depend."""
        wanted: list[set[int]] = [set() for _ in self._known]
        self._mark_needed_slots(slots, wanted)
        for i in range(len(wanted) - 1, -1, -1):
            if wanted[i]:
                self._mark_needed_slots(self._list_reads(i, wanted[i]), wanted)
        for i, some in enumerate(wanted):
            if some:
                self._known[i].update(self._compose_node(i, sorted(some)))

    def _mark_needed_slots(self, slots: Iterable[int], wanted: list[set[int]]) -> None:
        for slot in slots:
            node = int(self.makers[slot])
            if node >= 0 and slot not in self._known[node]:
                wanted[node].add(int(slot))

    def _list_reads(self, i: int, slots: set[int]) -> Iterable[int]:
        node = self.network.nodes[i]
        if isinstance(node, BlockMap):
            rows = {(s - node.first) // node.stride for s in slots}
            bases = np.unique(node.taps[sorted(rows)])
            bases = bases[bases >= 0]
            return (bases[:, np.newaxis] + np.arange(node.kernel.shape[1])).ravel().tolist()
        if isinstance(node, SparseMap):
            rows = {s - node.first for s in slots}
            return [int(c) for r in rows for c in node.columns[node.starts[r] : node.starts[r + 1]]]
        entries = (self._winning_entry(i, s - node.first) for s in slots)
        return [int(node.columns[j]) for j in entries if node.columns[j] >= 0]

    def _winning_entry(self, i: int, group: int) -> int:
        node = self.network.nodes[i]
        assert isinstance(node, Maxima)
        return int(node.starts[group] + self.winners[self.first_groups[i] + group])

    def _compose_node(self, i: int, slots: list[int]) -> dict[int, Form]:
        node, exact = self.network.nodes[i], self._nodes[i]
        if isinstance(node, Maxima):
            sign = int(node.sign)
            found = {}
            for slot in slots:
                entry = self._entry(i, self._winning_entry(i, slot - node.first))
                found[slot] = tuple(sign * m for m in entry)
            return found
        found = {}
        read: dict[int, tuple[list[int], list[Form]]] = {}
        for slot in slots:
            if isinstance(node, BlockMap):
                row, k = divmod(slot - node.first, node.stride)
                if row not in read:
                    read[row] = self._read_row(i, row)
                places, columns = read[row]
                weights = [exact.columns[k][p] for p in places]
                bias = int(exact.biases[0][k])
            else:
                row = slot - node.first
                entries = range(node.starts[row], node.starts[row + 1])
                forms = [self._rescale(int(node.columns[j]), self._units[i][0]) for j in entries]
                weights = [int(exact.weights[0][j]) for j in entries]
                columns = list(zip(*forms, strict=True))
                bias = int(exact.biases[0][row])
            found[slot] = self._weighted_sum(i, weights, columns, bias)
        return found

    def _read_row(self, i: int, row: int) -> tuple[list[int], list[Form]]:
        """Return the kernel positions at which a row reads a nonzero form, and the columns."""
        node = self.network.nodes[i]
        assert isinstance(node, BlockMap)
        n = node.kernel.shape[1]
        places, forms = [], []
        for tap, base in enumerate(node.taps[row].tolist()):
            if base < 0:
                continue
            for c in range(n):
                form = self._rescale(base + c, self._units[i][0])
                if any(form):
                    places.append(tap * n + c)
                    forms.append(form)
        return places, list(zip(*forms, strict=True))

    def _weighted_sum(self, i: int, weights: list[int], columns: Sequence[Form], bias: int) -> Form:
        before, after = self._units[i]
        exact = self._nodes[i]
        shift = before + exact.weights[1] - after
        sums = [sum(map(mul, weights, column)) << shift for column in columns]
        if not sums:
            sums = [0] * self._n_columns
        sums[-1] += (bias * self.denominator) << (exact.biases[1] - after)
        return tuple(sums)

    def _entry(self, i: int, j: int) -> Form:
        node, exact = self.network.nodes[i], self._nodes[i]
        assert isinstance(node, Maxima)
        slope, offset = int(exact.weights[0][j]), int(exact.biases[0][j])
        before, after = self._units[i]
        form = [0] * self._n_columns
        if node.columns[j] >= 0 and slope:
            shift = before + exact.weights[1] - after
            form = [(slope * m) << shift for m in self._rescale(int(node.columns[j]), before)]
        form[-1] += (offset * self.denominator) << (exact.biases[1] - after)
        return tuple(form)


class _ExactNode:
    """The weights and biases of a node as integers, computed on demand."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def _floats(self) -> FloatArray:
        node = self._node
        if isinstance(node, BlockMap):
            return node.kernel
        return node.weights if isinstance(node, SparseMap) else node.slopes

    @cached_property
    def exponent(self) -> int:
        """The exponent of `weights`, computed without the integers."""
        lowest = _ZERO
        flat = self._floats.reshape(-1)
        for i in range(0, len(flat), _AT_ONCE):
            check_time()
            lowest = min(lowest, int(lowest_bits(flat[i : i + _AT_ONCE]).min()))
        return 0 if lowest == _ZERO else lowest

    @cached_property
    def weights(self) -> tuple[AnyArray, int]:
        check_time()
        return _to_integers(self._floats)

    @cached_property
    def biases(self) -> tuple[AnyArray, int]:
        node = self._node
        return _to_integers(node.offsets if isinstance(node, Maxima) else node.bias)

    @cached_property
    def columns(self) -> list[list[int]]:
        """The weights of each column of a block, over taps and channels."""
        kernel = self.weights[0]
        return kernel.reshape(-1, kernel.shape[-1]).T.tolist()


def _to_integers(array: FloatArray) -> tuple[AnyArray, int]:
    scaled = scaled_integers(np.ascontiguousarray(array))
    return scaled.integers, int(scaled.exponent)
