r"""The forms of a network of any shape on one cell of a line or a plane.

Forms are floats with radii, composed by the core (`graphs.hpp`). What they leave open is asked of
integers (`ExactCell`), which compose only what a question depends on.
"""

from collections.abc import Iterable
from ctypes import Structure, addressof, byref, c_double, c_int64, c_void_p
from fractions import Fraction
from math import ceil, frexp
from typing import Any

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import address
from hardmax._ground.arguments import prepare_array
from hardmax._ground.deadlines import check_time
from hardmax.errors import ArgumentError
from hardmax.models.graphs.exact_cells import ExactCell, Form
from hardmax.models.graphs.graph_networks import BlockMap, GraphNetwork, Maxima, SparseMap
from hardmax.regions._graphs.value_numbers import repeated_entries, value_numbers
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.typing import AnyArray, FloatArray, IntArray

_UNIT = 2.0**-53
_TINY = 2.0**-1000
_REACH_LIMIT = 2.0**1023
"""The power of two above it would overflow."""
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
                *("forms", "radii", "winners", "reaches", "deltas", "eps", "marks", "dirty"),
                "n_dirty",
            )
        ),
    )


class CellForms:
    r"""The forms of a network on the cell at hand, which the core changes.

    Args:
        network: The network.
        domain: A line or a plane in its input space, bounded.
        reach: A bound on the coordinates of the domain.

    Raises:
        ArgumentError: If the bound is $2^{1023}$ or more.

    Attributes:
        input_rows: The inputs as integer forms, over one positive unit.
        winners: The winner of each group.
        forms: The forms of all slots, shape `(dim + 1, n_slots)`, offsets last.
        radii: How wrong they may be, shape `(n_slots,)`: offsets by this, slopes by this over the
            scale.
        numbers: Equal for slots that are the same function (`value_numbers`).
        representatives: For each group one that is the same function and changes with it.
        is_looked_at: Which groups are such representatives, and have two entries that differ.
    """

    def __init__(self, network: GraphNetwork, domain: ChartedDomain, reach: float) -> None:
        self.network, self.dim = network, domain.dim
        if not reach < _REACH_LIMIT:
            raise ArgumentError(
                "The coordinates of a domain must be below 2^1023; this domain extends to "
                f"{reach:.4g}. Choose a smaller domain or a smaller `reach`."
            )
        self.scale = 2.0 ** max(0, frexp(reach)[1])
        coordinates = domain.coordinates
        self.input_rows = rows = [[int(m) for m in row] for row in coordinates.rows]
        self.winners: AnyArray = np.zeros(network.n_groups, dtype=np.int32)
        self.exact = ExactCell(
            network, rows, coordinates.exponent, coordinates.denominator, self.winners
        )
        self.numbers = value_numbers(network, rows)
        n = network.n_slots
        self.forms, self.radii = np.zeros((self.dim + 1, n)), np.zeros(n)
        self._enter(rows, coordinates.exponent, coordinates.denominator)
        self._lay_out()
        self._number_groups()

    def _enter(self, rows: list[list[int]], exponent: int, denominator: int) -> None:
        """Round the forms of the inputs."""
        unit = Fraction(2) ** exponent / denominator
        for slot, row in enumerate(rows):
            check_time()
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
            check_time()
            record = records[i]
            self._describe(record, node)
            record.first_group, record.first_dirty = int(self.exact.first_groups[i]), first_dirty
            first_dirty += node.slots.size
            makers = np.unique(self.exact.makers[node.read_slots])
            record.n_sources = len(makers[makers >= 0])
            record.sources = self._lend(makers[makers >= 0], np.int32)
        self._records = records
        room: list[AnyArray] = [np.zeros(network.n_groups), np.zeros(n), np.zeros(n)]
        room += [np.zeros(n, np.uint8), np.zeros(n, np.int32)]
        room.append(np.zeros(len(nodes), np.int64))
        self._kept += room
        arrays = map(address, (self.forms, self.radii, self.winners, *room))
        self.record = _CellRecord(addressof(records), len(nodes), n, self.scale, *arrays)
        core().hm_graph_check(byref(self.record), network.n_groups)

    def _lend(self, array: Any, kind: Any) -> int:
        kept = prepare_array(array, kind)
        self._kept.append(kept)
        return address(kept)

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
        n = self.network.n_groups
        self.is_looked_at = np.zeros(n, dtype=np.uint8)
        self.representatives = np.zeros(n, dtype=np.int64)
        for i, node in enumerate(self.network.nodes):
            if not isinstance(node, Maxima):
                continue
            check_time()
            _, first, inverse = np.unique(
                self.numbers[node.slots], return_index=True, return_inverse=True
            )
            base = self.group_index(i, 0)
            kinds = np.add.reduceat(1 - repeated_entries(node, self.numbers), node.starts[:-1])
            self.is_looked_at[base + first[kinds[first] > 1]] = 1
            self.representatives[base : base + node.n_groups] = base + first[inverse]

    def group_index(self, node: int, group: int) -> int:
        """Where the winner of a group of a node stands."""
        return int(self.exact.first_groups[node]) + group

    def compose(self, begin: int = 0, end: int | None = None) -> None:
        """Compose the forms of nodes from those before and the winners."""
        last = len(self.network.nodes) if end is None else end
        core().hm_graph_compose(byref(self.record), self.dim, begin, last)

    def exact_gap(self, node: int, group: int, winner: int, rival: int) -> Form:
        """One entry of a group less another in integers, up to a positive factor."""
        entries = self.exact.entries(node, group)
        return tuple(a - b for a, b in zip(entries[winner], entries[rival], strict=True))

    def start_at(self, point: Point) -> None:
        """Go to the cell that holds a point: the first of the entries that win there."""
        at = np.array([float(x) for x in point])
        sizes = np.abs(at) * (1.0 + 2.0**-50) + _TINY
        for i, node in enumerate(self.network.nodes):
            if isinstance(node, Maxima):
                self._decide(i, node, point, at, sizes)
            self.compose(i, i + 1)

    def _decide(
        self, i: int, node: Maxima, point: Point, at: FloatArray, sizes: FloatArray
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
                self.winners[base + group] = self._winner_at(i, group, point)
        part = slice(base, base + node.n_groups)
        self.winners[part] = self.winners[self.representatives[part]]

    def _winner_at(self, node: int, group: int, point: Point) -> int:
        """Who wins at a point, the first one if several do."""
        scores = [
            sum(a * x for a, x in zip(form[:-1], point, strict=True)) + form[-1]
            for form in self.exact.entries(node, group)
        ]
        return scores.index(max(scores))


def bound_of(values: Iterable[Fraction]) -> float:
    """A float no less than the sizes of some numbers."""
    return float(max((ceil(abs(x)) for x in values), default=1))
