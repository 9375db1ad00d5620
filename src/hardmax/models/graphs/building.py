r"""Construction of networks of any shape, operation by operation.

A signal is an array of slots with the shape of its tensor, without the batch axis. Operations that
only move numbers (`reshape`, `transpose`, slices, `concatenate`) are applied to this array.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from hardmax._ground.display import format_card
from hardmax._ground.size_limits import SizeLimit
from hardmax.errors import ArgumentError, ShapeMismatchError
from hardmax.models.argmax import AffineMap
from hardmax.models.formats.activations import Activation
from hardmax.models.formats.layered_networks import Step
from hardmax.models.graphs.graph_networks import (
    BlockMap,
    GraphNetwork,
    Maxima,
    Node,
    SparseMap,
)
from hardmax.typing import FloatArray, IntArray

Signal = IntArray
_MOST_SLOTS = 1 << 27
_FEW_CHANNELS = 4
"""Convolutions with at most this many input and output channels are stored as sparse rows."""
# Bytes counted per item: the arrays of a node, and the temporary arrays of its construction.
_NODE_BYTES = 1 << 14
_SLOT_BYTES = 64
_ENTRY_BYTES = 96
_WEIGHT_BYTES = 24
_INNER_ENTRY_BYTES = 512
_NO_LIMIT = 1 << 62


class GraphBuilder:
    """A builder that collects the nodes of a `GraphNetwork`.

    Attributes:
        notes: Messages about numbers that were rounded and parts that were omitted.
        limit: The memory used by the nodes so far and its limit, which the readers of files set.

    Examples:
        >>> build = GraphBuilder()
        >>> x = build.input((2,))
        >>> hidden = build.relu(build.multiply(x, np.eye(2), [0.0, -1.0]))
        >>> build.finish(build.add(x, hidden))([1.0, 3.0]).tolist()
        [2.0, 5.0]
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.limit = SizeLimit(0, _NO_LIMIT)
        self._nodes: list[Node] = []
        self._n_slots = 0
        self._input_shape: tuple[int, ...] | None = None
        self._maxima: list[Maxima] = []
        # For the slots of each flat signal: the signal it was made from, and the step between them.
        self._steps: dict[bytes, tuple[IntArray, Callable[[], Step]]] = {}

    def __repr__(self) -> str:
        return f"GraphBuilder({len(self._nodes)} nodes, {self._n_slots:,} slots)"

    def _repr_html_(self) -> str:
        return format_card(repr(self), {"notes": self.notes})

    def input(self, shape: Sequence[int]) -> Signal:
        """Add the input, with a shape without the batch axis, and return its signal."""
        if self._input_shape is not None:
            raise ArgumentError("A network must have exactly one input; got a second one.")
        self._input_shape = tuple(int(n) for n in shape)
        if not all(n > 0 for n in self._input_shape):
            raise ShapeMismatchError(
                f"The input must have entries; its shape is {self._input_shape}."
            )
        return self._allocate_slots(prod(self._input_shape)).reshape(self._input_shape)

    def finish(self, output: Signal) -> GraphNetwork:
        """Return the network with the given output, without nodes that do not affect it."""
        if self._input_shape is None:
            raise ArgumentError("A network must have an input; call `input` first.")
        if not output.size:
            raise ShapeMismatchError(f"The output must have entries; its shape is {output.shape}.")
        needed = np.zeros(self._n_slots, dtype=np.bool_)
        needed[output.ravel()] = True
        kept = []
        for node in reversed(self._nodes):
            if needed[node.slots].any():
                needed[node.read_slots] = True
                kept.append(node)
        return _renumber_slots(self._input_shape, output, kept[::-1], tuple(self.notes))

    def chain(self, output: Signal) -> list[Step] | None:
        """Return the sequence of affine maps and activations from the input to a signal.

        None if the signal is computed in another way, for example by a convolution or from two
        signals.
        """
        steps: list[Step] = []
        slots = output.ravel()
        while not np.array_equal(slots, np.arange(prod(self._input_shape or ()))):
            made = self._steps.get(slots.tobytes())
            if made is None:
                return None
            slots, step = made
            steps.append(step())
        return steps[::-1]

    def _record_step(self, x: Signal, step: Callable[[], Step], output: Signal) -> Signal:
        # An activation that changes nothing returns the signal itself.
        if output.size and not np.array_equal(output.ravel(), x.ravel()):
            self._steps[output.ravel().tobytes()] = x.ravel(), step
        return output

    def convolve(
        self,
        x: Signal,
        kernel: FloatArray,
        bias: FloatArray | None = None,
        *,
        strides: Sequence[int] = (),
        pads: Sequence[tuple[int, int]] = (),
        dilations: Sequence[int] = (),
        groups: int = 1,
        name: str = "convolution",
    ) -> Signal:
        """Convolve a signal `(C, *sizes)` with a kernel `(K, C / groups, *sides)`."""
        sides = kernel.shape[2:]
        if x.ndim != kernel.ndim - 1 or x.shape[0] != kernel.shape[1] * groups:
            raise ShapeMismatchError(
                f"A kernel of shape {kernel.shape} in {groups} groups does not fit a signal of "
                f"shape {x.shape}."
            )
        n_out, n_in = kernel.shape[0] // groups, kernel.shape[1]
        if kernel.shape[0] % groups:
            raise ShapeMismatchError(
                f"{kernel.shape[0]} channels cannot be split into {groups} groups."
            )
        total = kernel.shape[0]
        n_places = prod(sides) * prod(count_windows(x.shape[1:], sides, strides, pads, dilations))
        self.limit.take((_WEIGHT_BYTES + 8 * groups) * n_places + _WEIGHT_BYTES * kernel.size)
        shape, places = find_window_places(x.shape[1:], sides, strides, pads, dilations)
        n_rows = len(places)
        offsets = np.zeros(total) if bias is None else _check_floats(bias)
        # (K, C, taps): one kernel for each group, channels last.
        flat = _check_floats(kernel).reshape(groups, n_out, n_in, -1)
        if groups > 1 and n_in <= _FEW_CHANNELS and n_out <= _FEW_CHANNELS:
            return self._convolve_sparsely(x, flat, offsets, places, shape, name)
        if n_in > 1:
            x = self._with_channels_last(x)
        bases = x.reshape(x.shape[0], -1)
        slots = self._allocate_slots(n_rows * total)
        for g in range(groups):
            base = np.append(bases[g * n_in], -1)
            self._add_node(
                BlockMap(
                    name,
                    base[places],
                    np.ascontiguousarray(flat[g].transpose(2, 1, 0)),
                    np.ascontiguousarray(offsets[g * n_out : (g + 1) * n_out]),
                    int(slots[0]) + g * n_out,
                    total,
                )
            )
        return slots.reshape(n_rows, total).T.reshape(total, *shape)

    def _convolve_sparsely(
        self,
        x: Signal,
        kernel: FloatArray,
        bias: FloatArray,
        places: IntArray,
        shape: tuple[int, ...],
        name: str,
    ) -> Signal:
        groups, n_out, n_in, _ = kernel.shape
        n_sums = groups * n_out * len(places)
        self._count_rows(n_sums, n_sums * n_in * places.shape[1])
        pixels = x.reshape(x.shape[0], -1)
        padded = np.concatenate([pixels, np.full((len(pixels), 1), -1)], axis=1)
        read = padded.reshape(groups, n_in, -1)[:, :, places]  # (groups, n_in, rows, taps)
        read = np.broadcast_to(read[:, np.newaxis], (groups, n_out, *read.shape[1:]))
        weight = np.broadcast_to(kernel[:, :, :, np.newaxis], read.shape)
        order = (0, 1, 3, 2, 4)
        columns = read.transpose(order).reshape(groups * n_out * len(places), -1)
        weights = weight.transpose(order).reshape(columns.shape)
        biases = np.repeat(bias, len(places))
        return self._add_sparse_map(columns, weights, biases, name).reshape(groups * n_out, *shape)

    def multiply(
        self, x: Signal, matrix: FloatArray, bias: Any = None, name: str = "matrix"
    ) -> Signal:
        """Multiply the last axis of a signal by a matrix `(n_in, n_out)`, and add a bias."""
        self.limit.take(_WEIGHT_BYTES * np.size(matrix))
        matrix = _check_floats(matrix)
        if matrix.ndim != 2 or x.ndim < 1 or x.shape[-1] != len(matrix):
            raise ShapeMismatchError(
                f"A matrix of shape {matrix.shape} does not fit a signal of shape {x.shape}."
            )
        n_in, n_out = matrix.shape
        if not x.size or not n_out:
            raise ShapeMismatchError(
                f"A matrix of shape {matrix.shape} and a signal of shape {x.shape} have no entries."
            )
        self.limit.take(_SLOT_BYTES * (x.size + x.size // n_in * n_out))
        rows = x.reshape(-1, n_in)
        order = np.argsort(rows[0], kind="stable")
        bases = rows[:, order[0]]
        if not np.array_equal(rows[:, order], bases[:, np.newaxis] + np.arange(n_in)):
            rows = self._copy_slots(rows)
            order, bases = np.arange(n_in), rows[:, 0]
        if len(np.unique(bases)) < len(bases) or _have_overlap(bases, n_in):
            bases = self._copy_slots(rows)[:, 0]
            order = np.arange(n_in)
        slots = self._allocate_slots(len(rows) * n_out)
        offsets = (
            np.zeros(n_out) if bias is None else np.broadcast_to(_check_floats(bias), (n_out,))
        )
        taps = bases[:, np.newaxis]
        kernel = np.ascontiguousarray(matrix[order])[np.newaxis]
        self._add_node(BlockMap(name, taps, kernel, offsets.copy(), int(slots[0]), n_out))
        result = slots.reshape(*x.shape[:-1], n_out)
        if x.size != n_in:
            return result
        return self._record_step(x, lambda: AffineMap(matrix, offsets), result)

    def scale(self, x: Signal, factors: Any, shifts: Any = 0.0, name: str = "scale") -> Signal:
        """Return `x * factors + shifts` entry by entry; the arrays are broadcast."""
        factor, shift = _check_floats(factors), _check_floats(shifts)
        shape = np.broadcast_shapes(x.shape, factor.shape, shift.shape)
        self._count_rows(prod(shape), prod(shape))
        columns = np.broadcast_to(x, shape).reshape(-1, 1)
        weights = np.broadcast_to(factor, shape).reshape(-1, 1)
        biases = np.broadcast_to(shift, shape).ravel()
        result = self._add_sparse_map(columns, weights, biases, name).reshape(shape)
        if result.size != x.size:
            return result
        return self._record_step(x, lambda: self._diagonal_map(weights[:, 0], biases), result)

    def _diagonal_map(self, factors: FloatArray, shifts: FloatArray) -> AffineMap:
        self.limit.take(3 * factors.nbytes * len(factors))
        return AffineMap(np.diag(factors), shifts)

    def add(self, x: Signal, y: Signal, factor: float = 1.0, name: str = "sum") -> Signal:
        """Return `x + factor * y`; the two signals are broadcast."""
        shape = np.broadcast_shapes(x.shape, y.shape)
        self._count_rows(prod(shape), 2 * prod(shape))
        columns = np.stack([np.broadcast_to(part, shape).ravel() for part in (x, y)], axis=1)
        weights = np.broadcast_to(np.array([1.0, factor]), columns.shape)
        return self._add_sparse_map(columns, weights, np.zeros(len(columns)), name).reshape(shape)

    def combine(self, columns: IntArray, weights: FloatArray, name: str = "sum") -> Signal:
        """Return weighted sums of slots, shape `(n_rows, n_entries)`; slot -1 means no entry."""
        return self._add_sparse_map(columns, weights, np.zeros(len(columns)), name)

    def constant(self, values: Any, name: str = "constant") -> Signal:
        """Return a signal that does not depend on the input."""
        array = _check_floats(values)
        self._count_rows(array.size, 0)
        none = np.empty((array.size, 0), dtype=np.int64)
        return self._add_sparse_map(none, np.empty(none.shape), array.ravel(), name).reshape(
            array.shape
        )

    def relu(self, x: Signal, name: str = "relu") -> Signal:
        """Return the positive part."""
        self._count_rows(x.size, 2 * x.size)
        columns = np.stack([np.full(x.size, -1), x.ravel()], axis=1)
        slopes = np.broadcast_to(np.array([0.0, 1.0]), columns.shape)
        return self.maximum(columns, slopes, np.zeros(columns.shape), name=name).reshape(x.shape)

    def activate(self, x: Signal, activation: Activation, name: str = "") -> Signal:
        """Apply an activation that consists of maxima to each entry.

        If the activation has one slope per channel, the channels are the first axis of the signal.
        """
        label, result = name or activation.name, x
        for stage in activation.stages:
            if len(stage) == 1:
                result = self._apply_stage(result.ravel(), stage[0], label).reshape(x.shape)
                continue
            if len(stage) != x.shape[0]:
                raise ShapeMismatchError(
                    f"`{activation.name}` must have one slope for each of {x.shape[0]} channels; "
                    f"got {len(stage)}."
                )
            self.limit.take(4 * _NODE_BYTES * len(stage))  # Each channel is a node of its own.
            pairs = zip(result, stage, strict=True)
            rows = [self._apply_stage(row.ravel(), units, label) for row, units in pairs]
            result = np.stack(rows).reshape(x.shape)
        return self._record_step(x, lambda: activation, result)

    def _apply_stage(self, x: Signal, units: Sequence[Any], name: str) -> Signal:
        """Apply signed maxima to each entry, and add them up."""
        parts = []
        for unit in units:
            pieces = np.array(unit.pieces)
            self._count_rows(x.size, x.size * len(pieces))
            shape = (x.size, len(pieces))
            columns = np.where(pieces[:, 0] == 0.0, -1, np.broadcast_to(x[:, np.newaxis], shape))
            slopes, offsets = (np.broadcast_to(pieces[:, k], shape) for k in (0, 1))
            parts.append(self.maximum(columns, slopes, offsets, sign=unit.sign, name=name))
        if len(parts) == 1:
            return parts[0]
        self._count_rows(x.size, x.size * len(parts))
        columns = np.stack(parts, axis=1)
        return self._add_sparse_map(columns, np.ones(columns.shape), np.zeros(x.size), name)

    def larger(self, x: Signal, y: Signal, sign: float = 1.0, name: str = "max") -> Signal:
        """Return the maximum of two signals, which are broadcast; the minimum if `sign` is -1."""
        shape = np.broadcast_shapes(x.shape, y.shape)
        self._count_rows(prod(shape), 2 * prod(shape))
        columns = np.stack([np.broadcast_to(part, shape).ravel() for part in (x, y)], axis=1)
        slopes = np.full(columns.shape, sign)
        return self.maximum(columns, slopes, np.zeros(columns.shape), sign=sign, name=name).reshape(
            shape
        )

    def max_pool(
        self,
        x: Signal,
        sides: Sequence[int],
        *,
        strides: Sequence[int] = (),
        pads: Sequence[tuple[int, int]] = (),
        dilations: Sequence[int] = (),
        name: str = "max_pool",
    ) -> Signal:
        """Return the maximum over each window of a signal `(C, *sizes)`."""
        shape, columns = self._window_rows(x, sides, strides or tuple(sides), pads, dilations)
        slopes = np.where(columns < 0, 0.0, 1.0)
        slots = self.maximum(columns, slopes, np.zeros(columns.shape), name=name, is_padded=True)
        return slots.reshape(x.shape[0], *shape)

    def average_pool(
        self,
        x: Signal,
        sides: Sequence[int],
        *,
        strides: Sequence[int] = (),
        pads: Sequence[tuple[int, int]] = (),
        counts_padding: bool = False,
        name: str = "average_pool",
    ) -> Signal:
        """Return the mean over each window of a signal `(C, *sizes)`; quotients are rounded."""
        shape, columns = self._window_rows(x, sides, strides or tuple(sides), pads, ())
        counts = (columns >= 0).sum(axis=1, keepdims=True)
        if counts_padding:
            counts = np.full_like(counts, prod(sides))
        return self._average_rows(columns, counts, name).reshape(x.shape[0], *shape)

    def mean(
        self, x: Signal, axes: Sequence[int], name: str = "mean", *, keeps_axes: bool = True
    ) -> Signal:
        """Return the mean over some axes, which are kept with one entry or dropped."""
        self._count_rows(x.size, x.size)
        columns, shape = _gather_rows(x, axes, keeps_axes=keeps_axes)
        counts = np.full((len(columns), 1), columns.shape[1])
        return self._average_rows(columns, counts, name).reshape(shape)

    def total(
        self, x: Signal, axes: Sequence[int], name: str = "total", *, keeps_axes: bool = True
    ) -> Signal:
        """Return the sum over some axes, which are kept with one entry or dropped."""
        self._count_rows(x.size, x.size)
        columns, shape = _gather_rows(x, axes, keeps_axes=keeps_axes)
        return self.combine(columns, np.ones(columns.shape), name).reshape(shape)

    def _average_rows(self, columns: IntArray, counts: IntArray, name: str) -> Signal:
        distinct = np.unique(counts)
        odd = [int(n) for n in distinct if n & (n - 1)]
        if odd:
            self.note(f"{name}: 1/{odd[0]} is rounded to a float64")
        weights = np.broadcast_to(1.0 / counts, columns.shape)
        return self._add_sparse_map(columns, weights, np.zeros(len(columns)), name)

    def _window_rows(
        self,
        x: Signal,
        sides: Sequence[int],
        strides: Sequence[int],
        pads: Sequence[tuple[int, int]],
        dilations: Sequence[int],
    ) -> tuple[tuple[int, ...], IntArray]:
        if x.ndim != len(sides) + 1:
            raise ShapeMismatchError(
                f"a window {tuple(sides)} does not fit a signal of shape {x.shape}."
            )
        n_windows = prod(count_windows(x.shape[1:], sides, strides, pads, dilations))
        self._count_rows(x.shape[0] * n_windows, x.shape[0] * n_windows * prod(sides))
        self.limit.take(_WEIGHT_BYTES * n_windows * prod(sides))
        shape, places = find_window_places(x.shape[1:], sides, strides, pads, dilations)
        pixels = x.reshape(x.shape[0], -1)
        padded = np.concatenate([pixels, np.full((len(pixels), 1), -1)], axis=1)
        return shape, padded[:, places].reshape(-1, places.shape[1])

    def maximum(
        self,
        columns: IntArray,
        slopes: FloatArray,
        offsets: FloatArray,
        *,
        sign: float = 1.0,
        name: str = "maximum",
        is_padded: bool = False,
    ) -> Signal:
        """Return `sign` times the largest of `slopes * slots + offsets` in each row.

        Args:
            columns: The slots, shape `(n_rows, n_entries)`; -1 for a constant.
            slopes: The slopes, shape `(n_rows, n_entries)`.
            offsets: The offsets, shape `(n_rows, n_entries)`.
            sign: 1.0, or -1.0 for the negative of a maximum, such as a minimum of negated entries.
            name: The name of the operation.
            is_padded: Whether -1 means that there is no entry.

        A maximum of plain maxima becomes a single maximum of the entries of the inner ones.
        """
        is_there = columns >= 0 if is_padded else np.ones(columns.shape, dtype=np.bool_)
        if not is_there.any(axis=1).all():
            raise ArgumentError("A window must cover at least one entry.")
        order = _order_by_slots(columns)
        flat = self._flatten_maxima(
            columns[order], slopes[order], offsets[order], is_there[order], sign
        )
        slots = self._allocate_slots(len(columns))
        self._add_node(Maxima(name, *flat, sign, int(slots[0])))
        return slots[np.argsort(order)]

    def _flatten_maxima(
        self,
        columns: IntArray,
        slopes: FloatArray,
        offsets: FloatArray,
        is_there: Any,
        sign: float,
    ) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        plain = (slopes[is_there] == 1.0) & (offsets[is_there] == 0.0)
        makers = self._find_makers(columns[is_there]) if sign == 1.0 and plain.all() else None
        if makers is None:
            counts = is_there.sum(axis=1)
            starts = np.concatenate([[0], np.cumsum(counts)])
            parts = (np.ascontiguousarray(a[is_there]) for a in (columns, slopes, offsets))
            read, slope, offset = parts
            return starts, read.astype(np.int64), slope, offset
        n_inner = 0
        for at in np.unique(makers):
            node = self._maxima[at]
            groups = columns[is_there][makers == at] - node.first
            n_inner += int(np.diff(node.starts)[groups].sum())
        self.limit.take(_INNER_ENTRY_BYTES * n_inner)
        maker_of = dict(zip(columns[is_there].tolist(), makers.tolist(), strict=True))
        ends: list[int] = [0]
        entries: list[tuple[int, float, float]] = []
        for row, there in zip(columns, is_there, strict=True):
            found: dict[tuple[int, float, float], None] = {}
            for slot in row[there].tolist():
                node = self._maxima[maker_of[slot]]
                g = slot - node.first
                for j in range(node.starts[g], node.starts[g + 1]):
                    entry = int(node.columns[j]), float(node.slopes[j]), float(node.offsets[j])
                    found.setdefault(entry)
            entries += list(found)
            ends.append(len(entries))
        table = np.array(entries)
        slots = np.array([slot for slot, _, _ in entries])
        return np.array(ends), slots, table[:, 1].copy(), table[:, 2].copy()

    def _find_makers(self, slots: IntArray) -> IntArray | None:
        """Return the indices of the maxima that write slots; None if a slot is not a maximum."""
        if not self._maxima:
            return None
        ends = np.array([(m.first, m.first + m.n_groups, m.sign == 1.0) for m in self._maxima])
        at = np.searchsorted(ends[:, 0], slots, "right") - 1
        is_made = (at >= 0) & (slots < ends[at, 1]) & (ends[at, 2] == 1)
        return at if is_made.all() else None

    def pad(self, x: Signal, pads: Sequence[tuple[int, int]], value: float = 0.0) -> Signal:
        """Pad a signal with constants, `(before, after)` on each axis; negative numbers crop."""
        cut = tuple(
            slice(max(0, -a), n - max(0, -b)) for (a, b), n in zip(pads, x.shape, strict=True)
        )
        x = x[cut]
        rest = [(max(0, a), max(0, b)) for a, b in pads]
        n_padded = prod(n + a + b for n, (a, b) in zip(x.shape, rest, strict=True))
        self.limit.take(_SLOT_BYTES * n_padded)
        check_slot_limit(n_padded)
        if not any(a or b for a, b in rest):
            return x
        return np.pad(x, rest, constant_values=int(self.constant([value], "padding")[0]))

    def flatten(self, x: Signal) -> Signal:
        """Return a signal with one axis."""
        return x.reshape(-1)

    def note(self, text: str) -> None:
        """Record, once, that something was rounded or omitted."""
        if text not in self.notes:
            self.notes.append(text)

    def _add_sparse_map(
        self, columns: IntArray, weights: FloatArray, bias: FloatArray, name: str
    ) -> Signal:
        """Add sums of the entries of each row, without entries of slot -1 or weight 0."""
        order = _order_by_slots(columns)
        columns, weights, bias = columns[order], weights[order], bias[order]
        is_there = (columns >= 0) & (weights != 0.0)
        starts = np.concatenate([[0], np.cumsum(is_there.sum(axis=1))])
        read, weight = (np.ascontiguousarray(a[is_there]) for a in (columns, weights))
        slots = self._allocate_slots(len(columns))
        self._add_node(SparseMap(name, starts, read, weight, np.array(bias), int(slots[0])))
        return slots[np.argsort(order)]

    def _copy_slots(self, rows: IntArray) -> IntArray:
        """Return new slots in order, with copies of the same numbers."""
        self._count_rows(rows.size, rows.size)
        slots, n = self._allocate_slots(rows.size), rows.size
        entries = np.arange(n + 1), rows.ravel(), np.ones(n), np.zeros(n)
        self._add_node(SparseMap("copy", *entries, int(slots[0])))
        return slots.reshape(rows.shape)

    def _with_channels_last(self, x: Signal) -> Signal:
        """Return a signal `(C, *sizes)` whose channels have consecutive slots, or a copy."""
        n = x.shape[0]
        pixels = x.reshape(n, -1).T
        if np.array_equal(pixels, pixels[:, :1] + np.arange(n)) and not _have_overlap(
            pixels[:, 0], n
        ):
            return x
        return self._copy_slots(pixels).T.reshape(x.shape)

    def _count_rows(self, n_rows: int, n_entries: int) -> None:
        """Count the memory of sums or maxima before they are built."""
        self.limit.take(_SLOT_BYTES * n_rows + _ENTRY_BYTES * n_entries)

    def _allocate_slots(self, n: int) -> IntArray:
        check_slot_limit(self._n_slots + n)
        self.limit.take(_SLOT_BYTES * n)
        slots = np.arange(self._n_slots, self._n_slots + n)
        self._n_slots += n
        return slots

    def _add_node(self, node: Node) -> None:
        self.limit.take(_NODE_BYTES)
        self._nodes.append(node)
        if isinstance(node, Maxima):
            self._maxima.append(node)


def count_windows(
    sizes: Sequence[int],
    sides: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilations: Sequence[int],
) -> tuple[int, ...]:
    """Return the number of windows that fit along each axis.

    Raises:
        ArgumentError: If a side, a stride or a dilation is not positive.
        ShapeMismatchError: If no window fits, or the number of axes is wrong.
    """
    n = len(sides)
    strides, dilations = strides or (1,) * n, dilations or (1,) * n
    pads = pads or ((0, 0),) * n
    if not len(sizes) == len(strides) == len(pads) == len(dilations) == n:
        raise ShapeMismatchError(f"windows {tuple(sides)} do not fit axes {tuple(sizes)}.")
    counts = []
    for size, side, stride, (low, high), step in zip(
        sizes, sides, strides, pads, dilations, strict=True
    ):
        if min(side, stride, step) < 1:
            raise ArgumentError("sides, strides and dilations must be positive.")
        count = (size + low + high - step * (side - 1) - 1) // stride + 1
        if count < 1:
            raise ShapeMismatchError(f"a window of side {side} does not fit an axis of {size}.")
        counts.append(count)
    return tuple(counts)


def find_window_places(
    sizes: Sequence[int],
    sides: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilations: Sequence[int],
) -> tuple[tuple[int, ...], IntArray]:
    """Return the number of windows along each axis, and the pixel at each position of a window.

    Returns:
        The numbers of windows; and the indices of pixels in the order of the axes, with
        `prod(sizes)` for padding, shape `(n_windows, n_places)`.

    Examples:
        >>> shape, places = find_window_places([3], [2], [1], [(0, 1)], [1])
        >>> shape, places.tolist()
        ((3,), [[0, 1], [1, 2], [2, 3]])
    """
    shape = count_windows(sizes, sides, strides, pads, dilations)
    check_slot_limit(prod(shape) * prod(sides))
    n = len(sides)
    strides, dilations = strides or (1,) * n, dilations or (1,) * n
    pads = pads or ((0, 0),) * n
    places, is_inside = np.zeros((1, 1), dtype=np.int64), np.ones((1, 1), dtype=np.bool_)
    for size, side, stride, (low, _), step, count in zip(
        sizes, sides, strides, pads, dilations, shape, strict=True
    ):
        along = (np.arange(count) * stride - low)[:, np.newaxis] + step * np.arange(side)
        inside = (along >= 0) & (along < size)
        joined = places[:, np.newaxis, :, np.newaxis] * size + along[np.newaxis, :, np.newaxis]
        both = is_inside[:, np.newaxis, :, np.newaxis] & inside[np.newaxis, :, np.newaxis]
        places = joined.reshape(len(places) * count, -1)
        is_inside = both.reshape(places.shape)
    return shape, np.where(is_inside, places, prod(sizes))


def _order_by_slots(columns: IntArray) -> IntArray:
    """Return the order of rows by the slots they read, which preserves entrywise operations."""
    if columns.shape[1] == 0:
        return np.arange(len(columns))
    return np.argsort(columns.max(axis=1), kind="stable")


def check_slot_limit(n: int) -> None:
    """Raise if a network would need more slots than the compiled code supports."""
    if n > _MOST_SLOTS:
        raise ArgumentError(
            f"a network must compute at most {_MOST_SLOTS:,} numbers for one input; got {n:,}."
        )


def _gather_rows(x: Signal, axes: Sequence[int], *, keeps_axes: bool) -> tuple[IntArray, list[int]]:
    """Return the entries along some axes as rows, and the shape of the result of a reduction."""
    along = {a % x.ndim for a in axes}
    moved = np.moveaxis(x, sorted(along), range(-len(along), 0))
    columns = moved.reshape(prod(moved.shape[: x.ndim - len(along)]), -1)
    kept = [1 if k in along else n for k, n in enumerate(x.shape)]
    return columns, kept if keeps_axes else [n for k, n in enumerate(x.shape) if k not in along]


def _have_overlap(bases: IntArray, n: int) -> bool:
    """Whether runs of `n` slots that start at different bases have a slot in common."""
    return bool((np.diff(np.unique(bases)) < n).any())


def _check_floats(array: Any) -> FloatArray:
    read = np.asarray(array, dtype=np.float64)
    if not np.isfinite(read).all():
        raise ArgumentError("weights must be finite numbers; some are infinite or NaN.")
    return read


def _renumber_slots(
    input_shape: tuple[int, ...], output: Signal, nodes: list[Node], notes: tuple[str, ...]
) -> GraphNetwork:
    """Renumber the slots of the remaining nodes without gaps."""
    n_in = prod(input_shape)
    last = max([n_in - 1, int(output.max()), *(int(node.slots.max()) for node in nodes)])
    is_used = np.zeros(last + 1, dtype=np.bool_)
    for slots in (np.arange(n_in), output, *(node.slots for node in nodes)):
        is_used[slots] = True
    used = np.flatnonzero(is_used)
    new = np.full(int(used[-1]) + 2, -1, dtype=np.int64)
    new[used] = np.arange(len(used))
    kept: list[Node] = []
    for node in nodes:
        first = int(new[node.first])
        if isinstance(node, BlockMap):
            stride = (
                int(new[node.first + node.stride] - first) if len(node.taps) > 1 else node.stride
            )
            taps = new[node.taps]
            kept.append(BlockMap(node.name, taps, node.kernel, node.bias, first, stride))
        elif isinstance(node, SparseMap):
            columns = new[node.columns]
            kept.append(SparseMap(node.name, node.starts, columns, node.weights, node.bias, first))
        else:
            kept.append(
                Maxima(
                    node.name,
                    node.starts,
                    new[node.columns],
                    node.slopes,
                    node.offsets,
                    node.sign,
                    first,
                )
            )
    return GraphNetwork(
        input_shape, output.shape, tuple(kept), len(used), new[output.ravel()], notes
    )
