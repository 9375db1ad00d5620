r"""Networks of any shape (with convolutions, residual connections, pooling) as a graph of slots.

Every number that a network computes has a slot. The first slots belong to the input. Each node
writes its own slots and reads earlier ones, so the nodes are in topological order, and any directed
acyclic graph can be represented. Reshaping, slicing and joining only change slot indices and cost
nothing. Convolutions are stored as a kernel and, for each output, the positions it is applied to.

All weights are float64 numbers as stored; no products are formed. The network is therefore exactly
the original, except for roundings on reading that are listed in `notes`.
"""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from hardmax._ground.arguments import Sizes, floats_any_shape
from hardmax._ground.display import html_card, short_repr
from hardmax.errors import ArgumentError, ShapeMismatchError
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.typing import ArrayLike, BoolArray, FloatArray, IntArray

_MOST_EXPANDED = 1 << 24
"""The maximum number of weights when a network is expanded to dense matrices."""
_MOST_VALUES = 1 << 22
"""The maximum number of values in memory while points are evaluated."""
_MOST_SLOTS = 2**31 - 1
"""Slots, and the entries of a node, are counted with 32 bits in the compiled code."""


@dataclass(frozen=True, eq=False)
class BlockMap:
    r"""A convolution or a matrix: $y_{rk} = b_k + \sum_{tc} K_{tck}\, z_{p(r,t) + c}$.

    Attributes:
        name: The name of the operation.
        taps: The $p(r, t)$, the first slot of the channels under each tap, -1 for padding; shape
            `(n_rows, n_taps)`.
        kernel: The $K$, shape `(n_taps, n_channels, n_columns)`.
        bias: The $b$, shape `(n_columns,)`.
        first: The slot of $y_{00}$; $y_{rk}$ has the slot `first + r * stride + k`.
        stride: The distance between the first slots of consecutive rows.

    Examples:
        >>> from hardmax.models import GraphBuilder
        >>> build = GraphBuilder()
        >>> kernel = np.array([[[[1.0, -1.0], [0.0, 0.5]]]])
        >>> net = build.finish(build.convolve(build.input((1, 3, 3)), kernel))
        >>> [(type(node).__name__, node.kernel.shape) for node in net.nodes]
        [('BlockMap', (4, 1, 1))]
    """

    name: str
    taps: IntArray
    kernel: FloatArray
    bias: FloatArray
    first: int
    stride: int

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def slots(self) -> IntArray:
        """The slots that the node writes, shape `(n_rows, n_columns)`."""
        rows = self.first + self.stride * np.arange(len(self.taps))
        return np.asarray(rows[:, np.newaxis] + np.arange(len(self.bias)))

    @property
    def read_slots(self) -> IntArray:
        """The distinct slots that the node reads."""
        bases = _unique_slots(self.taps)
        return _unique_slots(bases[:, np.newaxis] + np.arange(self.kernel.shape[1]))

    def apply(self, values: FloatArray) -> None:
        """Compute the node's slots in `values`, shape `(n_slots, n_points)`."""
        n_channels = self.kernel.shape[1]
        out = np.zeros((len(self.taps), len(self.bias), values.shape[1]))
        out += self.bias[:, np.newaxis]
        for tap, kernel in zip(self.taps.T, self.kernel, strict=True):
            rows = np.flatnonzero(tap >= 0)
            read = values[tap[rows][:, np.newaxis] + np.arange(n_channels)]
            out[rows] += kernel.T @ read
        values[self.slots] = out


@dataclass(frozen=True, eq=False)
class SparseMap:
    r"""Sums $y_r = b_r + \sum_j w_j z_{s_j}$ over the entries `starts[r] <= j < starts[r + 1]`.

    Attributes:
        name: The name of the operation.
        starts: The index of the first entry of each row, then the number of entries; shape
            `(n_rows + 1,)`.
        columns: The slots $s_j$.
        weights: The $w_j$.
        bias: The $b_r$, shape `(n_rows,)`.
        first: The slot of $y_0$; the others follow.

    Examples:
        >>> from hardmax.models import GraphBuilder
        >>> build = GraphBuilder()
        >>> x = build.input((2,))
        >>> net = build.finish(build.add(x, x))
        >>> [(type(node).__name__, node.weights.tolist()) for node in net.nodes]
        [('SparseMap', [1.0, 1.0, 1.0, 1.0])]
    """

    name: str
    starts: IntArray
    columns: IntArray
    weights: FloatArray
    bias: FloatArray
    first: int

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def slots(self) -> IntArray:
        """The slots that the node writes, shape `(n_rows,)`."""
        return self.first + np.arange(len(self.bias))

    @property
    def read_slots(self) -> IntArray:
        """The distinct slots that the node reads."""
        return _unique_slots(self.columns)

    def apply(self, values: FloatArray) -> None:
        """Compute the node's slots in `values`, shape `(n_slots, n_points)`."""
        out = np.repeat(self.bias[:, np.newaxis], values.shape[1], axis=1)
        rows = np.repeat(np.arange(len(self.bias)), np.diff(self.starts))
        np.add.at(out, rows, self.weights[:, np.newaxis] * values[self.columns])
        values[self.slots] = out


@dataclass(frozen=True, eq=False)
class Maxima:
    r"""Groups of forms: $y_g = \sigma \max_j (\alpha_j z_{s_j} + \gamma_j)$, $j$ in the group.

    A ReLU unit is a group of the two entries 0 and $z$; a max pool has one entry for each position
    in its window.

    Attributes:
        name: The name of the operation.
        starts: The index of the first entry of each group, then the number of entries; shape
            `(n_groups + 1,)`.
        columns: The slots $s_j$, -1 for entries that are constants.
        slopes: The $\alpha_j$, 0 for constants.
        offsets: The $\gamma_j$.
        sign: The $\sigma$, 1.0 or -1.0.
        first: The slot of $y_0$; the others follow.

    Examples:
        >>> from hardmax.models import GraphBuilder
        >>> build = GraphBuilder()
        >>> net = build.finish(build.relu(build.input((2,))))
        >>> [(type(node).__name__, node.columns.tolist()) for node in net.nodes]
        [('Maxima', [-1, 0, -1, 1])]
    """

    name: str
    starts: IntArray
    columns: IntArray
    slopes: FloatArray
    offsets: FloatArray
    sign: float
    first: int

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def n_groups(self) -> int:
        """The number of maxima."""
        return len(self.starts) - 1

    @property
    def slots(self) -> IntArray:
        """The slots that the node writes, shape `(n_groups,)`."""
        return self.first + np.arange(self.n_groups)

    @property
    def read_slots(self) -> IntArray:
        """The distinct slots that the node reads."""
        return _unique_slots(self.columns)

    def apply(self, values: FloatArray) -> None:
        """Compute the node's slots in `values`, shape `(n_slots, n_points)`."""
        scores = self.slopes[:, np.newaxis] * values[self.columns] + self.offsets[:, np.newaxis]
        values[self.slots] = self.sign * np.maximum.reduceat(scores, self.starts[:-1])


Node = BlockMap | SparseMap | Maxima


@dataclass(frozen=True, eq=False, repr=False)
class GraphNetwork:
    r"""A piecewise linear network whose nodes form a directed graph.

    `load_onnx`, `from_torch` and `GraphBuilder` return such networks. On a segment or a planar
    slice, `enumerate_regions` finds the cells exactly, and `cell_at` finds the cell around a point,
    in any dimension; both keep convolutions in sparse form. A small network is also available as an
    argmax network (`network`), which the whole library accepts.

    Attributes:
        input_shape: The shape of an input, without the batch axis.
        output_shape: The shape of an output, without the batch axis.
        nodes: The nodes, in topological order.
        n_slots: The number of slots, including the inputs.
        outputs: The slots of the output, shape `(dim_out,)`.
        notes: The parts that were omitted or rounded on reading.

    Examples:
        >>> from hardmax.models import GraphBuilder
        >>> build = GraphBuilder()
        >>> x = build.input((1, 3, 3))
        >>> kernel = np.array([[[[1.0, -1.0], [0.0, 0.5]]]])
        >>> y = build.max_pool(build.relu(build.convolve(x, kernel)), (2, 2))
        >>> net = build.finish(build.add(build.flatten(y), build.flatten(y)))
        >>> net
        GraphNetwork(1x3x3 -> 1, 1 maximum of 5 entries)
        >>> net(np.arange(9.0)).tolist()
        [6.0]
    """

    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    nodes: tuple[Node, ...]
    n_slots: int
    outputs: IntArray
    notes: tuple[str, ...] = ()

    _repr_html_ = html_card

    def __post_init__(self) -> None:
        n, dim_in = self.n_slots, self.dim_in
        if not 0 < dim_in <= n <= _MOST_SLOTS:
            raise ArgumentError(
                f"`n_slots` must be at least the input dimension {dim_in} and at most "
                f"{_MOST_SLOTS}; got {n}."
            )
        is_written = np.zeros(n, dtype=np.bool_)
        is_written[:dim_in] = True
        for i, node in enumerate(self.nodes):
            _check_node(node, f"nodes[{i}]", is_written)
        _check_slots("outputs", self.outputs, is_written)

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.input_shape))
        n_entries = sum(len(node.columns) for node in self.maxima)
        what = "1 maximum" if self.n_groups == 1 else f"{self.n_groups:,} maxima"
        return f"GraphNetwork({shape} -> {self.dim_out}, {what} of {n_entries:,} entries)"

    @property
    def dim_in(self) -> int:
        """The dimension of the input."""
        return prod(self.input_shape)

    @property
    def dim_out(self) -> int:
        """The dimension of the output."""
        return len(self.outputs)

    @property
    def maxima(self) -> list[Maxima]:
        """The nodes that are maxima, in order."""
        return [node for node in self.nodes if isinstance(node, Maxima)]

    @property
    def n_groups(self) -> int:
        """The number of maxima, which is the length of a signature."""
        return sum(node.n_groups for node in self.maxima)

    @property
    def n_parameters(self) -> int:
        """The number of stored weights and biases."""
        total = 0
        for node in self.nodes:
            if isinstance(node, BlockMap):
                total += node.kernel.size + node.bias.size
            elif isinstance(node, SparseMap):
                total += node.weights.size + node.bias.size
        return total

    def __call__(self, x: ArrayLike) -> FloatArray:
        """Evaluate the network in floats.

        Args:
            x: One input, flat or with shape `input_shape`, or a batch of inputs.

        Returns:
            The output, shape `(dim_out,)`, or `(n_points, dim_out)` for a batch.
        """
        points, is_batch = self.read_points(x)
        step = max(1, _MOST_VALUES // self.n_slots)
        parts = [self._evaluate_slots(points[i : i + step]) for i in range(0, len(points), step)]
        values = np.concatenate(parts) if parts else np.empty((0, self.dim_out))
        return values if is_batch else values[0]

    def read_points(self, x: Any) -> tuple[FloatArray, bool]:
        """Return inputs as rows, and whether they are a batch."""
        array = floats_any_shape("x", x)
        if array.shape in ((self.dim_in,), self.input_shape):
            return array.reshape(1, -1), False
        if array.shape[1:] in ((self.dim_in,), self.input_shape):
            return array.reshape(len(array), self.dim_in), True
        raise ShapeMismatchError(
            f"`x` must have shape {self.input_shape} or ({self.dim_in},), or be a batch of such "
            f"inputs; got {array.shape}."
        )

    def _evaluate_slots(self, points: FloatArray) -> FloatArray:
        values = np.zeros((self.n_slots, len(points)))
        values[: self.dim_in] = points.T
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            for node in self.nodes:
                node.apply(values)
        return np.ascontiguousarray(values[self.outputs].T)

    @cached_property
    def network(self) -> ArgmaxNetwork:
        """The network with dense matrices, one layer per node; only for small networks.

        The stream holds all slots, and each node adds the slots it writes. A node without decisions
        is a layer of groups with one form each, so no products of weights are formed.

        Raises:
            ShapeMismatchError: If the dense matrices would have too many weights.
        """
        size = self.n_slots * sum(node.slots.size for node in self.nodes)
        if size > _MOST_EXPANDED:
            raise ShapeMismatchError(
                f"`model` is too large for dense matrices: they would have {size:,} weights, and "
                f"the limit is {_MOST_EXPANDED:,}. `enumerate_regions` on segments and planar "
                "slices, and `cell_at`, need no dense matrices."
            )
        embedding = np.zeros((self.dim_in, self.n_slots))
        embedding[:, : self.dim_in] = np.eye(self.dim_in)
        readout = np.zeros((self.n_slots, self.dim_out))
        readout[self.outputs, np.arange(self.dim_out)] = 1.0
        return ArgmaxNetwork(
            tuple(_build_dense_layer(node, self.n_slots) for node in self.nodes),
            AffineMap(embedding, np.zeros(self.n_slots)),
            AffineMap(readout, np.zeros(self.dim_out)),
        )


def _unique_slots(slots: IntArray) -> IntArray:
    """Return the distinct slots in increasing order, without negative numbers."""
    occurs = np.zeros(int(slots.max(initial=-1)) + 1, dtype=np.bool_)
    occurs[slots[slots >= 0]] = True
    return np.flatnonzero(occurs)


def _check_node(node: Node, name: str, is_written: BoolArray) -> None:
    """Check that a node only reads slots written before it, and mark its own slots as written.

    Numbers from the caller are only added or subtracted once they are known to be small.
    """
    sizes, n_slots = Sizes(), len(is_written)
    if isinstance(node, BlockMap):
        kernel = sizes.floats(f"{name}.kernel", node.kernel, ("n_taps", "n_channels", "n_columns"))
        sizes.floats(f"{name}.bias", node.bias, ("n_columns",))
        taps = sizes.ints(f"{name}.taps", node.taps, ("n_rows", "n_taps"))
        _, n_channels, n_columns = kernel.shape
        is_possible = taps.min() >= -1 and taps.max() <= n_slots - n_channels
        n_rows, stride = len(taps), int(node.stride)
    else:
        weights = "weights" if isinstance(node, SparseMap) else "slopes"
        biases = "bias" if isinstance(node, SparseMap) else "offsets"
        n_bias = "n_rows" if isinstance(node, SparseMap) else "n_entries"
        starts = sizes.ints(f"{name}.starts", node.starts, ("n_ends",))
        columns = sizes.ints(f"{name}.columns", node.columns, ("n_entries",), nonempty=())
        sizes.floats(f"{name}.{weights}", getattr(node, weights), ("n_entries",), nonempty=())
        bias = sizes.floats(f"{name}.{biases}", getattr(node, biases), (n_bias,))
        n_rows, n_columns, stride = len(starts) - 1, 1, 1
        # A maximum has at least one entry, possibly a constant; a row of a sum may have none.
        is_sum = isinstance(node, SparseMap)
        rises = starts[:-1] <= starts[1:] if is_sum else starts[:-1] < starts[1:]
        is_possible = (
            starts[0] == 0
            and starts[-1] == len(columns) <= _MOST_SLOTS
            and bool(rises.all())
            and columns.min(initial=0) >= (0 if is_sum else -1)
            and columns.max(initial=-1) < n_slots
            and (not is_sum or len(bias) == n_rows)
        )
    first = int(node.first)
    last = first + (n_rows - 1) * stride + n_columns - 1
    if not (is_possible and n_rows > 0 and first >= 0 and stride > 0 and last < n_slots):
        raise ArgumentError(
            f"`{name}` must read and write slots below {n_slots}, and `starts` must increase from "
            f"0 to the number of entries; got first {first}, stride {stride}, {n_rows} rows."
        )
    if not is_written[node.read_slots].all() or is_written[node.slots].any():
        raise ArgumentError(
            f"`{name}` must read only the input or earlier nodes, and write slots that no other "
            "node writes."
        )
    is_written[node.slots] = True


def _check_slots(name: str, slots: IntArray, is_written: BoolArray) -> None:
    given = Sizes().ints(name, slots, ("dim_out",), nonempty=())
    is_inside = (given >= 0) & (given < len(is_written))
    if not (is_inside.all() and is_written[given].all()):
        raise ArgumentError(f"`{name}` must be slots that are written; got {given.tolist()!s:.80}.")


def _build_dense_layer(node: Node, n_slots: int) -> ArgmaxLayer:
    """Return a node as a layer that adds its slots to a stream of all of them."""
    slots = node.slots.ravel()
    n = len(slots)
    place = np.zeros((n, n_slots))
    place[np.arange(n), slots] = 1.0
    if isinstance(node, Maxima):
        n_forms = len(node.columns)
        slopes = np.zeros((n_forms, n_slots))
        variable = np.flatnonzero(node.columns >= 0)
        slopes[variable, node.columns[variable]] = node.slopes[variable]
        offsets, starts = node.offsets, node.starts
        query = AffineMap.identity(n_slots)
        place *= node.sign
    else:
        weight = np.zeros((n_slots, n))
        if isinstance(node, BlockMap):
            columns = np.arange(n).reshape(node.slots.shape)
            for tap, kernel in zip(node.taps.T, node.kernel, strict=True):
                for row in np.flatnonzero(tap >= 0):
                    weight[tap[row] : tap[row] + len(kernel), columns[row]] += kernel
            bias = np.tile(node.bias, len(node.taps))
        else:
            rows = np.repeat(np.arange(n), np.diff(node.starts))
            np.add.at(weight, (node.columns, rows), node.weights)
            bias = node.bias
        query = AffineMap(weight, bias)
        slopes, offsets, starts, n_forms = np.eye(n), np.zeros(n), np.arange(n + 1), n
    return ArgmaxLayer(
        query=query,
        slopes=slopes,
        offsets=offsets,
        starts=starts,
        slots=np.arange(n),
        gains=np.ones(n_forms),
        values=np.zeros((n_forms, 1)),
        output=AffineMap(place, np.zeros(n_slots)),
        residual=True,
    )
