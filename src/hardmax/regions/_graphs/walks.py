r"""A walk from cell to cell of a network on a line or a plane: the forms of the cell at hand.

Forms are floats with radii, composed by the core (`graphs.hpp`), changed where one maximum changes,
and composed afresh after `_ANCHORED` changes. What they leave open is asked of integers
(`ExactCell`), which compose only what a question depends on.
"""

import heapq
from collections.abc import Iterable, Sequence
from ctypes import Structure, addressof, byref, c_double, c_int64, c_void_p
from fractions import Fraction
from math import ceil, frexp
from typing import Any

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import address
from hardmax.models.graphs.exact_cells import ExactCell, Form
from hardmax.models.graphs.graph_networks import BlockMap, GraphNetwork, Maxima, SparseMap
from hardmax.regions._graphs.value_numbers import repeated_entries, value_numbers
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.typing import AnyArray, BoolArray, FloatArray, IntArray

_ANCHORED = 48
_UNIT = 2.0**-53
_TINY = 2.0**-1000
_KINDS = {BlockMap: 0, SparseMap: 1, Maxima: 2}

Point = tuple[Fraction, ...]


class _NodeRecord(Structure):
    """`hm_graph_node` of the interface."""

    _fields_ = (
        *(
            (name, c_int64)
            for name in (
                *("kind", "n_rows", "n_columns", "n_taps", "n_channels", "stride", "first"),
                *("first_group", "first_dirty", "n_sources", "low", "n_readable"),
            )
        ),
        *((name, c_double) for name in ("sign", "kappa")),
        *(
            (name, c_void_p)
            for name in (
                *("starts", "columns", "weights", "bias", "is_repeated", "sources", "owners"),
                *("use_starts", "uses"),
            )
        ),
    )


class _CellRecord(Structure):
    """`hm_graph_cell` of the interface."""

    _fields_ = (
        *((name, t) for name, t in (("nodes", c_void_p), ("n_nodes", c_int64))),
        *((name, t) for name, t in (("n_slots", c_int64), ("scale", c_double))),
        *(
            (name, c_void_p)
            for name in (
                *("forms", "radii", "winners", "when", "deltas", "eps", "marks", "dirty"),
                "n_dirty",
            )
        ),
    )


class Walk:
    """The forms of a network on the cell at hand.

    Args:
        network: The network.
        domain: A line or a plane in its input space, bounded.
        reach: A bound on the coordinates of the domain.

    Attributes:
        winners: The winner of each group; changed by `flip` and `move_to` alone.
        forms: The forms of all slots, shape `(dim + 1, n_slots)`, offsets last.
        radii: How wrong they may be, shape `(n_slots,)`: offsets by this, slopes by this over the
            scale.
        n_exact: How often integers were asked.
    """

    def __init__(self, network: GraphNetwork, domain: ChartedDomain, reach: float) -> None:
        self.network, self.dim = network, domain.dim
        self.scale = 2.0 ** max(0, frexp(reach)[1])
        self.n_exact = 0
        coordinates = domain.coordinates
        rows = [[int(m) for m in row] for row in coordinates.rows]
        self.winners: AnyArray = np.zeros(network.n_groups, dtype=np.int32)
        self.exact = ExactCell(
            network, rows, coordinates.exponent, coordinates.denominator, self.winners
        )
        self.numbers = value_numbers(network, rows)
        n = network.n_slots
        self.forms, self.radii = np.zeros((self.dim + 1, n)), np.zeros(n)
        self._enter(rows, coordinates.exponent, coordinates.denominator)
        self._lay_out()
        self.is_compared = np.zeros(n, dtype=np.bool_)
        for node in network.maxima:
            self.is_compared[node.columns[node.columns >= 0]] = True
        self._may_wake = self.is_compared & ~_constant_slots(network, rows)
        self._number_groups()
        largest = max((np.diff(node.starts).max() for node in network.maxima), default=1)
        self._winner_type = np.min_scalar_type(int(largest))
        n_gaps = sum(len(node.columns) - node.n_groups for node in network.maxima)
        self._gaps, self._gap_radii = np.empty((n_gaps, self.dim + 1)), np.empty(n_gaps)
        self._names = np.empty((n_gaps, 3), dtype=np.int32)
        self._woken = np.empty(n, dtype=np.int32)
        self._n_flips = 0

    def _enter(self, rows: list[list[int]], exponent: int, denominator: int) -> None:
        """Round the forms of the inputs."""
        unit = Fraction(2) ** exponent / denominator
        for slot, row in enumerate(rows):
            exact = [m * unit for m in row]
            try:
                rounded = [float(x) for x in exact]
            except OverflowError:
                self.radii[slot] = np.inf
                continue
            self.forms[:, slot] = rounded
            scales = [Fraction(self.scale)] * self.dim + [Fraction(1)]
            off = max(
                abs(Fraction(x) - y) * s for x, y, s in zip(rounded, exact, scales, strict=True)
            )
            if off:
                self.radii[slot] = float(off) * (1.0 + 2.0**-40) + _TINY

    def _lay_out(self) -> None:
        """Describe the nodes to the core, and lend it memory."""
        network, n = self.network, self.network.n_slots
        nodes = network.nodes
        self._kept: list[Any] = []
        records = (_NodeRecord * len(nodes))()
        first_dirty = 0
        for i, node in enumerate(nodes):
            record = records[i]
            self._describe(record, node)
            record.first_group, record.first_dirty = int(self.exact.first_groups[i]), first_dirty
            first_dirty += node.slots.size
            makers = np.unique(self.exact.makers[node.read_slots])
            record.n_sources = len(makers[makers >= 0])
            record.sources = self._lend(makers[makers >= 0], np.int32)
        self._records = records
        room = [
            np.zeros(network.n_groups),
            np.zeros(n),
            np.zeros(n),
            np.zeros(n, np.uint8),
            np.zeros(n, np.int32),
        ]
        room.append(np.zeros(len(nodes), np.int64))
        self._kept += room
        arrays = map(address, (self.forms, self.radii, self.winners, *room))
        self._cell = _CellRecord(addressof(records), len(nodes), n, self.scale, *arrays)

    def _lend(self, array: Any, kind: Any) -> int:
        kept = np.ascontiguousarray(array, dtype=kind)
        self._kept.append(kept)
        return int(kept.ctypes.data)

    def _describe(self, record: _NodeRecord, node: Any) -> None:
        record.kind, record.first, record.sign = _KINDS[type(node)], node.first, 1.0
        read = node.read_slots
        record.low = int(read[0]) if len(read) else 0
        record.n_readable = int(read[-1]) + 1 - record.low if len(read) else 0
        if isinstance(node, BlockMap):
            record.n_rows, record.n_taps = node.taps.shape
            _, record.n_channels, record.n_columns = node.kernel.shape
            record.stride = node.stride
            record.columns = self._lend(node.taps, np.int32)
            record.weights, record.bias = (
                self._lend(a, np.float64) for a in (node.kernel, node.bias)
            )
            record.kappa = 2.0 * (node.kernel.shape[0] * node.kernel.shape[1] + 4) * _UNIT
            self._index_pixels(record, node)
        else:
            weights = node.weights if isinstance(node, SparseMap) else node.slopes
            bias = node.bias if isinstance(node, SparseMap) else node.offsets
            record.n_rows, record.stride = len(node.starts) - 1, 1
            record.starts, record.columns = (
                self._lend(a, np.int32) for a in (node.starts, node.columns)
            )
            record.weights, record.bias = (self._lend(a, np.float64) for a in (weights, bias))
            counts = np.diff(node.starts)
            rows = np.repeat(np.arange(len(counts)), counts)
            if isinstance(node, Maxima):
                record.sign = node.sign
                record.kappa = 8.0 * _UNIT
                record.is_repeated = self._lend(repeated_entries(node, self.numbers), np.uint8)
            else:
                record.kappa = 2.0 * (int(counts.max(initial=0)) + 4) * _UNIT
            self._index_entries(record, node.columns, rows)

    def _index_pixels(self, record: _NodeRecord, node: BlockMap) -> None:
        """Say which rows and taps of a block each pixel is under."""
        rows, taps = np.nonzero(node.taps >= 0)
        bases, pixels = np.unique(node.taps[rows, taps], return_inverse=True)
        order = np.argsort(pixels, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(pixels, minlength=len(bases)))])
        owners = np.full(record.n_readable, -1)
        for c in range(node.kernel.shape[1]):
            owners[bases + c - record.low] = np.arange(len(bases))
        record.owners = self._lend(owners, np.int32)
        record.use_starts = self._lend(starts, np.int32)
        record.uses = self._lend(np.stack([rows[order], taps[order]], axis=1), np.int32)

    def _index_entries(self, record: _NodeRecord, columns: IntArray, rows: IntArray) -> None:
        """Say which rows and entries read each slot."""
        entries = np.flatnonzero(columns >= 0)
        order = entries[np.argsort(columns[entries], kind="stable")]
        counts = np.bincount(columns[order] - record.low, minlength=record.n_readable)
        record.use_starts = self._lend(np.concatenate([[0], np.cumsum(counts)]), np.int32)
        record.uses = self._lend(np.stack([rows[order], order], axis=1), np.int32)

    def _number_groups(self) -> None:
        """Find groups that are the same function: one of them is looked at, all change together."""
        self.is_looked_at = np.zeros(self.network.n_groups, dtype=np.uint8)
        self._members: dict[tuple[int, int], AnyArray] = {}
        for i, node in enumerate(self.network.nodes):
            if not isinstance(node, Maxima):
                continue
            _, first, inverse = np.unique(
                self.numbers[node.slots], return_index=True, return_inverse=True
            )
            base = int(self.exact.first_groups[i])
            kinds = np.add.reduceat(1 - repeated_entries(node, self.numbers), node.starts[:-1])
            self.is_looked_at[base + first[kinds[first] > 1]] = 1
            order = np.argsort(inverse, kind="stable")
            parts = np.split(order, np.cumsum(np.bincount(inverse))[:-1])
            for representative, part in zip(first.tolist(), parts, strict=True):
                if len(part) > 1:
                    self._members[i, representative] = part.astype(np.int32)

    def signature(self) -> AnyArray:
        """The winners, in as few bytes as hold them."""
        return self.winners.astype(self._winner_type)

    def members(self, node: int, group: int) -> AnyArray:
        """The groups that are the same function as one that is looked at, itself included."""
        found = self._members.get((node, group))
        return np.array([group], dtype=np.int32) if found is None else found

    def group_index(self, node: int, group: int) -> int:
        """The place of a group in a signature."""
        return int(self.exact.first_groups[node]) + group

    def compose(self, begin: int = 0, end: int | None = None) -> None:
        """Compose the forms of nodes afresh."""
        last = len(self.network.nodes) if end is None else end
        core().hm_graph_compose(byref(self._cell), self.dim, begin, last)
        self._n_flips = 0

    def flip(self, node: int, group: int, winner: int) -> AnyArray:
        """Change the winner of a group and its likes; return what may wake up.

        Returns:
            The slots that groups compare and that were constant and may be no more.
        """
        groups = self.members(node, group)
        n = core().hm_graph_flip(
            byref(self._cell), self.dim, node, len(groups), address(groups), winner,
            address(self._woken),
        )  # fmt: skip
        self.exact.forget(node)
        self._n_flips += 1
        if self._n_flips >= _ANCHORED:
            self.compose()
        woken = self._woken[:n]
        return woken[self.is_compared[woken]]

    def move_to(self, winners: AnyArray) -> None:
        """Go to the cell of given winners."""
        changed = np.flatnonzero(self.winners != winners)
        changed = changed[self.is_looked_at[changed] != 0]
        if len(changed) > 4:
            first = int(np.searchsorted(self.exact.first_groups, changed[0], "right")) - 1
            self.winners[:] = winners
            self.exact.forget(0)
            self.compose(first)
            return
        for index in changed.tolist():
            node = int(np.searchsorted(self.exact.first_groups, index, "right")) - 1
            self.flip(node, index - int(self.exact.first_groups[node]), int(winners[index]))

    def restore(self, winners: AnyArray) -> None:
        """Go to the cell of given winners, and compose all of its forms afresh."""
        self.winners[:] = winners
        self.exact.forget(0)
        self.compose()

    def gaps(self) -> tuple[FloatArray, FloatArray, AnyArray]:
        """By how much winners lead: forms `(n, dim + 1)`, radii, and node, group and rival."""
        where = map(address, (self.is_looked_at, self._gaps, self._gap_radii, self._names))
        n = core().hm_graph_gaps(byref(self._cell), self.dim, *where)
        return self._gaps[:n], self._gap_radii[:n], self._names[:n]

    def next_on_line(self, end: float) -> tuple[float, FloatArray, AnyArray]:
        """The gaps that may vanish first to the right, and a point before which one does."""
        at = np.empty(1)
        arrays = map(address, (self._gaps, self._gap_radii, self._names, at))
        n = core().hm_graph_next(byref(self._cell), address(self.is_looked_at), end, *arrays)
        return float(at[0]), self._gaps[:n], self._names[:n]

    def gap_key(self, name: Sequence[int]) -> tuple[Any, ...]:
        """What makes a gap the form it is: equal keys mean equal forms."""
        node, group, rival = (int(x) for x in name)
        winner = int(self.winners[self.group_index(node, group)])
        maxima = self.network.nodes[node]
        assert isinstance(maxima, Maxima)
        key = []
        for entry in (winner, rival):
            j = maxima.starts[group] + entry
            slot = int(maxima.columns[j])
            number = 0 if slot < 0 else int(self.numbers[slot])
            slope = float(maxima.slopes[j]) if number else 0.0
            key += [number, slope, float(maxima.offsets[j])]
        return tuple(key)

    def exact_gap(self, name: Sequence[int], winner: int | None = None) -> Form:
        """A gap in integers, up to a positive factor; of another entry if it was the winner."""
        node, group, rival = (int(x) for x in name)
        self.n_exact += 1
        entries = self.exact.entries(node, group)
        if winner is None:
            winner = int(self.winners[self.group_index(node, group)])
        return tuple(a - b for a, b in zip(entries[winner], entries[rival], strict=True))

    def may_wake(self) -> bool:
        """Whether a crossing may change more than the groups whose wall is crossed.

        Entries that are the same constant on a cell make no wall on it, and may differ beyond.
        """
        is_flat = self._may_wake & (self.radii == 0.0)
        return bool((is_flat & ~self.forms[:-1].any(axis=0)).any())

    def start_at(self, point: Point, directions: Sequence[Sequence[int]]) -> None:
        """Go to the cell that holds a point, moved by less and less along directions."""
        at = np.array([float(x) for x in point])
        sizes = np.abs(at) * (1.0 + 2.0**-50) + _TINY
        for i, node in enumerate(self.network.nodes):
            if isinstance(node, Maxima):
                self._decide(i, node, point, directions, at, sizes)
            self.compose(i, i + 1)

    def _decide(
        self,
        i: int,
        node: Maxima,
        point: Point,
        directions: Sequence[Sequence[int]],
        at: FloatArray,
        sizes: FloatArray,
    ) -> None:
        """Find the winners of a node at a point, with forms of all nodes before it."""
        columns, base = node.columns, self.group_index(i, 0)
        with np.errstate(all="ignore"):
            values = at @ self.forms[:-1, columns] + self.forms[-1, columns]
            moved = sizes @ np.abs(self.forms[:-1, columns])
            errors = (self.dim + 1.0) * self.radii[columns] + 16.0 * _UNIT * (
                moved + np.abs(self.forms[-1, columns])
            )
            scores = node.slopes * values + node.offsets
            errors = np.abs(node.slopes) * errors + 8.0 * _UNIT * (
                np.abs(node.slopes * values) + np.abs(node.offsets)
            )
            errors = np.where(columns < 0, 0.0, errors * (1.0 + 2.0**-20) + _TINY * self.scale)
            scores = np.where(columns < 0, node.offsets, scores)
            lows, highs = scores - errors, scores + errors
        repeated = repeated_entries(node, self.numbers)
        highs = np.where(repeated == 1, -np.inf, highs)
        best = np.maximum.reduceat(lows, node.starts[:-1])
        groups = np.repeat(np.arange(node.n_groups), np.diff(node.starts))
        may_win = ~(highs < best[groups])
        counts = np.add.reduceat(may_win.astype(np.int64), node.starts[:-1])
        leaders = np.flatnonzero(may_win)
        winners = np.zeros(node.n_groups, dtype=np.int64)
        winners[groups[leaders[::-1]]] = (leaders - node.starts[groups[leaders]])[::-1]
        self.winners[base : base + node.n_groups] = winners
        self.exact.forget(i)
        for group in np.flatnonzero(counts > 1).tolist():
            if self.is_looked_at[base + group]:
                self.winners[base + group] = self._lexicographic(i, group, point, directions)
        for (at_node, group), likes in self._members.items():
            if at_node == i:
                self.winners[base + likes] = self.winners[base + group]

    def _lexicographic(
        self, node: int, group: int, point: Point, directions: Sequence[Sequence[Any]]
    ) -> int:
        """Who wins at a point, and if several do, along directions from there; the first one."""
        self.n_exact += 1
        scores = []
        for form in self.exact.entries(node, group):
            value = sum(a * x for a, x in zip(form[:-1], point, strict=True)) + form[-1]
            slopes = [sum(a * d for a, d in zip(form[:-1], way, strict=True)) for way in directions]
            scores.append((value, *slopes))
        return scores.index(max(scores))

    def settle(
        self, point: Point, direction: Sequence[Any], groups: Iterable[tuple[int, int]]
    ) -> None:
        """Decide groups that tie at a point anew, for the cell beyond it, and what that wakes."""
        waiting = sorted(set(groups))
        seen = set(waiting)
        while waiting:
            node, group = heapq.heappop(waiting)
            winner = self._lexicographic(node, group, point, [direction])
            if winner == self.winners[self.group_index(node, group)]:
                continue
            for found in self.readers(self.flip(node, group, winner)):
                if found not in seen:
                    seen.add(found)
                    heapq.heappush(waiting, found)

    def readers(self, slots: AnyArray) -> list[tuple[int, int]]:
        """The groups that are looked at and compare some of the slots."""
        if len(slots) == 0:
            return []
        found = []
        for i, node in enumerate(self.network.nodes):
            if isinstance(node, Maxima):
                entries = np.flatnonzero(np.isin(node.columns, slots))
                groups = np.unique(np.searchsorted(node.starts, entries, "right") - 1)
                base = self.group_index(i, 0)
                found += [(i, int(g)) for g in groups if self.is_looked_at[base + g]]
        return found


def _constant_slots(network: GraphNetwork, inputs: Sequence[Sequence[int]]) -> BoolArray:
    """Say which slots are constant on the whole domain, by how they are computed."""
    constant = np.ones(network.n_slots, dtype=np.bool_)
    constant[: len(inputs)] = [not any(row[:-1]) for row in inputs]
    for node in network.nodes:
        if isinstance(node, BlockMap):
            channels = np.arange(node.kernel.shape[1])
            read = constant[node.taps[:, :, np.newaxis] + channels].all(axis=2)
            constant[node.slots] = (read | (node.taps < 0)).all(axis=1)[:, np.newaxis]
            continue
        rows = np.repeat(np.arange(len(node.starts) - 1), np.diff(node.starts))
        varying = rows[(node.columns >= 0) & ~constant[node.columns]]
        constant[node.slots[np.unique(varying)]] = False
    return constant


def bound_of(values: Iterable[Fraction]) -> float:
    """A float no less than the sizes of some numbers."""
    return float(max((ceil(abs(x)) for x in values), default=1))
