r"""The cell that holds one point, in a space of any dimension: nothing is enumerated.

On the cell every form is affine, so the distance from the point to the hyperplane of a gap is its
value over the norm of its gradient. The least of these distances is that to the cell's boundary:
the foot of the perpendicular to the nearest hyperplane lies on no far side of another one.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._ground.arguments import number
from hardmax._ground.display import html_card
from hardmax.errors import ArgumentError, DtypeError, ShapeMismatchError
from hardmax.geometry.domains import Box, Slice
from hardmax.models.graphs.building import GraphBuilder
from hardmax.models.graphs.graph_networks import GraphNetwork, Maxima
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.regions._graphs.cell_forms import CellForms, bound_of
from hardmax.regions._graphs.domain_sides import domain_sides
from hardmax.regions._graphs.jacobians import (
    TINY,
    UP,
    cell_constants,
    gradient_columns,
    gradient_errors,
    gradient_of,
)
from hardmax.regions._graphs.searches import Search, explore
from hardmax.regions._graphs.value_numbers import repeated_entries
from hardmax.regions.charted_domains import charted
from hardmax.regions.graph_partitions import with_decision
from hardmax.typing import ArrayLike, FloatArray, IntArray


@dataclass(frozen=True)
class NearestWall:
    """A wall, and how far it is.

    Attributes:
        layer: The name of the maxima it belongs to; `decision` for the largest output.
        group: Which of them.
        rival: The entry that ties with the winner there.
        distance: The Euclidean distance, or the parameter along a direction.
        low: A proven lower bound on it.
        high: A proven upper bound.

    Examples:
        >>> from hardmax import ReluNetwork
        >>> net = ReluNetwork([[[1.0, 0.0], [0.0, 2.0]], [[1.0], [1.0]]], [[0.0, 1.0], None])
        >>> wall = cell_at(net, [0.5, 1.0]).wall
        >>> wall.group, wall.low <= wall.distance <= wall.high, round(wall.distance, 9)
        (0, True, 0.5)
    """

    layer: str
    group: int
    rival: int
    distance: float
    low: float
    high: float

    _repr_html_ = html_card


@dataclass(frozen=True, eq=False, repr=False)
class LocalCell:
    r"""The cell of a point, with the affine map on it and distances to its walls.

    Attributes:
        network: The network, with the largest output as its last group.
        point: The point, shape `(dim_in,)`.
        signature: The winner of each group of the model at the point, the first of those that tie.
        weight: The $A$ with output $x A + b$ on the cell, shape `(dim_in, dim_out)`, rounded.
        bias: The $b$, rounded.
        errors: Bounds on the errors of the columns of $A$, in the Euclidean norm.
        wall: The nearest wall of the model itself; None if there is none.
        decision: Where another output ties with the largest one if the map of the cell is
            continued; None for one output. It is a point of the cell only if it is nearer than
            `wall`.

    Examples:
        >>> from hardmax import ReluNetwork
        >>> net = ReluNetwork([[[1.0, 0.0], [0.0, 2.0]], [[1.0], [1.0]]], [[0.0, 1.0], None])
        >>> cell = cell_at(net, [0.5, 1.0])
        >>> cell.signature.tolist(), cell.weight.ravel().tolist()
        ([1, 1], [1.0, 2.0])
    """

    network: GraphNetwork
    point: FloatArray
    signature: IntArray
    weight: FloatArray
    bias: FloatArray
    errors: FloatArray
    wall: NearestWall | None
    decision: NearestWall | None
    _normal: FloatArray

    _repr_html_ = html_card

    def __repr__(self) -> str:
        far = "no wall" if self.wall is None else f"nearest wall at {self.wall.distance:.4g}"
        return f"LocalCell({len(self.point)} inputs, {len(self.signature)} groups, {far})"

    @property
    def class_index(self) -> int:
        """Which output is largest at the point."""
        return int(np.argmax(self.point @ self.weight + self.bias))

    @property
    def certified_radius(self) -> float:
        """A radius within which no winner changes, and so not the class either."""
        walls = [w.low for w in (self.wall, self.decision) if w is not None]
        return min(walls, default=float("inf"))

    @cached_property
    def beyond(self) -> "LocalCell":
        """The cell beyond the nearest wall, at a point behind it.

        Raises:
            ArgumentError: If there is no wall.
        """
        if self.wall is None:
            raise ArgumentError("`beyond` needs a wall; the cell has none.")
        step = self.wall.high + 2.0**-20 * max(self.wall.high, 2.0**-20)
        return _located(self.network, self.point + step * self._normal)

    def along(self, direction: ArrayLike, reach: float = 1.0) -> NearestWall | None:
        """The first wall on the way from the point in a direction, exactly.

        Args:
            direction: The direction $v$, shape `(dim_in,)`.
            reach: How far to look: points $x + t v$ with $t$ below it.

        Returns:
            The wall, with its $t$ as `distance`; None if there is none.
        """
        return self._walk(direction, reach, is_decision=False)

    def decision_along(self, direction: ArrayLike, reach: float = 1.0) -> NearestWall | None:
        """The first point on the way in a direction where the class changes, exactly."""
        return self._walk(direction, reach, is_decision=True)

    def _walk(self, direction: ArrayLike, reach: float, *, is_decision: bool) -> NearestWall | None:
        if is_decision and self.network.dim_out == 1:
            raise ArgumentError("`decision_along` needs several outputs; the network has one.")
        way = np.asarray(direction, dtype=np.float64).ravel()
        end = number("reach", reach, above=0.0)
        domain = charted(_ray(self.point, way, 0.0, end), self.network.dim_in)
        sides, corners = domain_sides(domain)
        forms = CellForms(self.network, domain, bound_of([Fraction(end)]))
        search = Search(forms, self.network.outputs, sides, corners)
        n_pieces = 64 if is_decision else 1
        while True:
            found = explore(lambda: search, max_pieces=n_pieces)
            if is_decision:
                classes = found.winners_of(self.network.n_groups - 1)
                node, group = len(self.network.nodes) - 1, 0
                crossed = np.flatnonzero(classes != classes[0])[:1]
                rival, vertex = int(classes[crossed].sum()), 2 * int(crossed.sum())
            else:
                node, group, rival = (int(x) for x in found.walls[1])
                crossed, vertex = np.flatnonzero(found.walls[1:2, 0] >= 0), 1
            if len(crossed):
                at, off = float(found.vertices[vertex, 0]), float(found.radii[vertex])
                layer = self.network.nodes[node].name
                return NearestWall(layer, group, rival, at, max(0.0, at - off), at + off)
            if found.is_complete or not is_decision:
                return None
            n_pieces *= 8


def cell_at(model: Any, x: ArrayLike) -> LocalCell:
    """Find the cell that holds a point, and what is around it.

    Args:
        model: A `GraphNetwork`, `ReluNetwork` or `MaxoutNetwork` with any number of inputs.
        x: The point, shape `(dim_in,)` or that of an input.

    Returns:
        The cell: its affine map, its nearest wall with a certified distance, the cell beyond, and
        how far the decision boundary is.

    Raises:
        DtypeError: If `model` is something else.

    Examples:
        >>> from hardmax import ReluNetwork
        >>> net = ReluNetwork([[[1.0, 0.0], [0.0, 2.0]], [[1.0], [1.0]]], [[0.0, 1.0], None])
        >>> cell = cell_at(net, [0.5, 1.0])
        >>> cell, cell.weight.ravel().tolist(), cell.bias.tolist()
        (LocalCell(2 inputs, 2 groups, nearest wall at 0.5), [1.0, 2.0], [1.0])
        >>> cell.wall.group, cell.beyond.signature.tolist()
        (0, [0, 1])
        >>> cell.along([0.0, -2.0]).distance
        0.75
    """
    network = graph_of(model)
    points, is_batch = network.read_points(x)
    if is_batch or not np.isfinite(points).all():
        raise ShapeMismatchError("`x` must be one finite point.")
    return _located(with_decision(network), points[0].copy())


def graph_of(model: Any) -> GraphNetwork:
    """Return a feed-forward network as a graph.

    Raises:
        DtypeError: If it is none.
    """
    if isinstance(model, GraphNetwork):
        return model
    if not isinstance(model, ReluNetwork | MaxoutNetwork):
        raise DtypeError(
            "`model` must be a GraphNetwork, ReluNetwork or MaxoutNetwork; got "
            f"{type(model).__name__}."
        )
    build = GraphBuilder()
    biases = model.biases or ()
    signal = build.input((model.dim_in,))
    for i, (weight, bias) in enumerate(zip(model.weights[:-1], biases[:-1], strict=True)):
        if isinstance(model, ReluNetwork):
            signal = build.relu(build.multiply(signal, weight, bias), f"layer {i}")
            continue
        forms = build.multiply(signal, np.vstack(weight).T, np.concatenate(bias))
        ranks = [len(unit) for unit in weight]
        columns = np.full((len(ranks), max(ranks)), -1)
        columns[np.arange(max(ranks)) < np.array(ranks)[:, np.newaxis]] = forms
        slopes = np.where(columns < 0, 0.0, 1.0)
        signal = build.maximum(
            columns, slopes, np.zeros(slopes.shape), name=f"layer {i}", is_padded=True
        )
    return build.finish(build.multiply(signal, model.weights[-1], biases[-1]))


def _located(network: GraphNetwork, point: FloatArray) -> LocalCell:
    """Find the cell of a point of a network that ends with its decision."""
    way = np.zeros(network.dim_in)
    way[0] = 1.0
    domain = charted(_ray(point, way, -1.0, 1.0), network.dim_in)
    cell = CellForms(network, domain, 1.0)
    cell.start_at((Fraction(0),))
    gaps = _gaps_of(cell)
    # Of most gaps one entry is a constant: their gradient is that of a slot.
    paired = np.flatnonzero(gaps.slopes.all(axis=1))
    differences, sizes = np.zeros(len(paired)), np.zeros(network.n_slots)
    weight = np.zeros((network.dim_in, network.dim_out))
    for inputs, values, is_moved in gradient_columns(cell):
        moved = np.flatnonzero(is_moved)
        rows = values[moved]
        sizes[moved] += np.einsum("ij,ij->i", rows, rows)
        slots = gaps.columns[paired]
        parts = np.where(is_moved[slots][:, :, np.newaxis], values[slots], 0.0)
        difference = np.einsum("ijk,ij->ik", parts, gaps.slopes[paired])
        differences += np.einsum("ij,ij->i", difference, difference)
        weight[inputs] = np.where(is_moved[network.outputs], values[network.outputs].T, 0.0)
    squares = (gaps.slopes**2 * sizes[gaps.columns]).sum(axis=1)
    squares[paired] = differences
    norms = np.sqrt(sizes) * UP + TINY
    errors = gradient_errors(network, cell.winners, norms)
    lows, highs = _distances(cell, gaps, np.sqrt(squares), norms, errors)
    is_decision = gaps.names[:, 0] == (len(network.nodes) - 1 if network.dim_out > 1 else -1)
    wall, decision = (
        _nearest(cell, gaps.names, np.where(which, lows, np.inf), np.where(which, highs, np.inf))
        for which in (~is_decision, is_decision)
    )
    normal = np.zeros(network.dim_in)
    if wall is not None:
        nearest = gaps.only(int(np.where(is_decision, np.inf, highs).argmin()))
        gradient = gradient_of(network, cell.winners, nearest.columns[0], nearest.slopes[0])
        normal = -gradient / np.linalg.norm(gradient)
    return LocalCell(
        network,
        point,
        cell.winners[: network.n_groups - (network.dim_out > 1)].astype(np.int64),
        weight,
        cell_constants(network, cell.winners)[network.outputs],
        errors[network.outputs],
        wall,
        decision,
        normal,
    )


def _ray(point: FloatArray, way: FloatArray, low: float, high: float) -> Slice:
    return Slice(point, way[np.newaxis], Box(np.array([low]), np.array([high])))


@dataclass(frozen=True, eq=False)
class _Gaps:
    """Gaps as differences of entries: the slots of winners and rivals, with slopes.

    Attributes:
        names: Node, group and rival, shape `(n, 3)`.
        columns: Slots, shape `(n, 2)`; any one where the slope is 0.
        slopes: Shape `(n, 2)`, that of the rival negated.
        offsets: Shape `(n,)`.
    """

    names: IntArray
    columns: IntArray
    slopes: FloatArray
    offsets: FloatArray

    def differences(self, values: FloatArray) -> FloatArray:
        """The gaps without their offsets, given values of all slots as rows."""
        winners, rivals = (
            self.slopes[:, k, np.newaxis] * values[self.columns[:, k]] for k in (0, 1)
        )
        return np.asarray(winners + rivals)

    def only(self, i: int) -> "_Gaps":
        """One of them."""
        part = slice(i, i + 1)
        return _Gaps(self.names[part], self.columns[part], self.slopes[part], self.offsets[part])


def _gaps_of(cell: CellForms) -> _Gaps:
    """List the winners and rivals of the cell, each kind once."""
    names, columns, slopes, offsets = [], [], [], []
    for i, node in enumerate(cell.network.nodes):
        if not isinstance(node, Maxima):
            continue
        counts = np.diff(node.starts)
        groups = np.repeat(np.arange(node.n_groups), counts)
        first = cell.group_index(i, 0)
        won = (node.starts[:-1] + cell.winners[first : first + node.n_groups])[groups]
        entries = np.arange(len(groups))
        is_rival = (entries != won) & (repeated_entries(node, cell.numbers) == 0)
        kept = np.flatnonzero(is_rival & (cell.is_looked_at[first + groups] != 0))
        pairs = np.stack([won[kept], kept], axis=1)
        names.append(
            np.stack(
                [np.full(len(kept), i), groups[kept], kept - node.starts[groups[kept]]], axis=1
            )
        )
        columns.append(np.maximum(node.columns[pairs], 0))
        slopes.append(np.where(node.columns[pairs] < 0, 0.0, node.slopes[pairs]) * [1.0, -1.0])
        offsets.append(node.offsets[pairs] @ np.array([1.0, -1.0]))
    if not names:
        none = np.empty((0, 2))
        return _Gaps(np.empty((0, 3), np.int64), none.astype(np.int64), none, np.empty(0))
    return _Gaps(*(np.concatenate(part) for part in (names, columns, slopes, offsets)))


def _distances(
    cell: CellForms, gaps: _Gaps, sizes: FloatArray, norms: FloatArray, errors: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bound the distances to the hyperplanes of gaps from below and above."""
    slopes = np.abs(gaps.slopes)
    values = gaps.differences(cell.forms[-1][:, np.newaxis])[:, 0] + gaps.offsets
    terms = slopes * np.abs(cell.forms[-1][gaps.columns])
    off = (slopes * cell.radii[gaps.columns]).sum(axis=1)
    off += 8.0 * 2.0**-53 * (terms.sum(axis=1) + np.abs(gaps.offsets))
    off = off * UP + TINY
    spread = (slopes * (errors + 8.0 * 2.0**-53 * norms)[gaps.columns]).sum(axis=1)
    # The norm itself, a root of a sum of squares, is rounded by less than a part of 2^-20.
    spread = (spread + 2.0**-20 * sizes) * UP + TINY
    with np.errstate(divide="ignore", invalid="ignore"):
        lows = np.maximum(values - off, 0.0) / (sizes + spread) / UP
        least = sizes - spread
        highs = np.where(least > 0.0, (np.abs(values) + off) / np.maximum(least, TINY) * UP, np.inf)
    return lows, highs


def _nearest(
    cell: CellForms, names: IntArray, lows: FloatArray, highs: FloatArray
) -> NearestWall | None:
    """The wall that is surely nearest, or one that may be; None if there is none."""
    if len(names) == 0 or not (highs < np.inf).any():
        return None
    i = int(highs.argmin())
    node, group, rival = (int(x) for x in names[i])
    low, high = float(lows.min()), float(highs[i])
    middle = (float(lows[i]) + high) / 2.0
    return NearestWall(cell.network.nodes[node].name, group, rival, middle, low, high)
