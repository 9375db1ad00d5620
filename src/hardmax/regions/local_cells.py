r"""The cell that contains a given point, in any dimension, without enumerating other cells.

On the cell every form is affine, so the distance from the point to the hyperplane of a gap is the
gap divided by the norm of its gradient. The smallest of these distances is the distance to the
boundary of the cell: the foot of the perpendicular to the nearest hyperplane does not lie beyond
any other hyperplane.

For graph, ReLU and maxout networks, floats with proven error bounds find the candidates among the
hyperplanes, and integers decide what they leave open. For all other models every form of the cell
is composed in integers (`_location/point_cells.py`).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, nextafter
from typing import Any, NamedTuple

import numpy as np

from hardmax._ground.arguments import number
from hardmax._ground.display import html_card
from hardmax.errors import ArgumentError, DtypeError, ShapeMismatchError
from hardmax.exact.dyadic import ScaledIntegers, nearest_float, round_below, round_scaled_integers
from hardmax.exact.integer_vectors import rounded_directions
from hardmax.exact.norms import enclose_norms
from hardmax.exact.rounding import nearest_error
from hardmax.geometry.domains import Box, Slice
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.graphs.building import GraphBuilder
from hardmax.models.graphs.graph_networks import GraphNetwork, Maxima
from hardmax.models.layer_words import LayerWords
from hardmax.models.model_arguments import read_model, read_network
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.points import PointBatch
from hardmax.regions._graphs.cell_forms import CellForms, bound_of
from hardmax.regions._graphs.domain_sides import domain_sides
from hardmax.regions._graphs.exact_gradients import ExactGradients, distance_to_zero
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
from hardmax.regions._location.point_cells import (
    Gap,
    check_cell_size,
    enclose_distance,
    find_change,
    iter_gaps,
    iter_scores_at,
    nearest_gap,
)
from hardmax.regions.charted_domains import ChartedDomain, charted
from hardmax.regions.graph_partitions import with_decision
from hardmax.typing import ArrayLike, BoolArray, FloatArray, IntArray, ModelLike

_NARROW = 2.0**-16
"""Bounds on a distance are compared in floats if their relative difference is at most this."""


@dataclass(frozen=True)
class NearestWall:
    r"""A wall of a cell, with its distance from a point.

    Attributes:
        layer: The name of the layer whose group creates the wall, as in `ArgmaxNetwork.words`:
            `block 0`, `layer 0`. For a `GraphNetwork`, the name of the node; for the maximum of the
            outputs, `decision`.
        group: The index of the group in that layer.
        rival: The index of the form that ties with the winner on the wall.
        distance: The Euclidean distance, or the parameter $t$ along a direction, rounded. The
            relative error of a Euclidean distance is at most $2^{-16}$; it is infinite if the
            distance exceeds the largest float.
        low: A proven lower bound on the distance to the nearest wall.
        high: A proven upper bound on the distance to the nearest wall.
        name: The name of the wall, in the words of pictures: *layer 0, unit 3*. It includes the
            rival if the group has more than two forms (*block 0, head 1, key 3*), and always for
            the outputs (*decision, output 2*).

    Examples:
        >>> from hardmax import AttentionHead, ReluNetwork
        >>> net = ReluNetwork([[[1.0, 0.0], [0.0, 2.0]], [[1.0], [1.0]]], [[0.0, 1.0], None])
        >>> wall = cell_at(net, [0.5, 1.0]).wall
        >>> wall.name, wall.low <= wall.distance <= wall.high, round(wall.distance, 9)
        ('layer 0, unit 0', True, 0.5)
        >>> keys = [[-1.0], [0.0], [1.0]]
        >>> head = AttentionHead([[1.0]], keys, keys, [[1.0]], logit_bias=[-1.0, 0.0, -1.0])
        >>> cell_at(head, [0.25]).wall.name
        'block 0, head 0, key 2'
    """

    layer: str
    group: int
    rival: int
    distance: float
    low: float
    high: float
    name: str

    _repr_html_ = html_card


@dataclass(frozen=True, eq=False, repr=False)
class LocalCell:
    r"""The cell that contains a point, with its affine map and the distances to its walls.

    A point on a wall belongs to the cell of the first winners. They are decided layer by layer:
    later layers receive the contributions of these winners, not the mean over all tied forms, which
    is what a head returns on a wall. This cell may have no interior. Its map and its walls are
    those of the forms that are composed with its signature.

    Attributes:
        point: The point, shape `(dim_in,)`.
        signature: The winner of each group of the model at the point, the first if several tie.
        weight: The matrix $A$ of the output $x A + b$ on the cell, shape `(dim_in, dim_out)`,
            rounded.
        bias: The vector $b$, shape `(dim_out,)`, rounded.
        errors: Bounds on the errors of the columns of $A$ in the Euclidean norm, shape
            `(dim_out,)`; infinite for a column with an entry beyond the largest float.
        wall: The nearest wall of the model; None if the cell has no wall.
        decision: The nearest hyperplane on which another output ties with the largest, for the
            affine map of this cell continued to the whole space; None if the network has one
            output. It meets the cell at that distance only if it is nearer than `wall`.

    Examples:
        >>> from hardmax import ReluNetwork
        >>> net = ReluNetwork([[[1.0, 0.0], [0.0, 2.0]], [[1.0], [1.0]]], [[0.0, 1.0], None])
        >>> cell = cell_at(net, [0.5, 1.0])
        >>> cell.signature.tolist(), cell.weight.ravel().tolist()
        ([1, 1], [1.0, 2.0])
    """

    point: FloatArray
    signature: IntArray
    weight: FloatArray
    bias: FloatArray
    errors: FloatArray
    wall: NearestWall | None
    decision: NearestWall | None
    _model: Any
    _searched: GraphNetwork | ArgmaxNetwork
    _class_index: int
    _normal: FloatArray

    _repr_html_ = html_card

    def __repr__(self) -> str:
        far = "no wall"
        if self.wall is not None:
            far = f"nearest wall at {self.wall.distance:.4g}"
            if self.wall.high == inf:
                far = f"nearest wall beyond {self.wall.low:.4g}"
        return f"LocalCell({len(self.point)} inputs, {len(self.signature)} groups, {far})"

    @property
    def network(self) -> GraphNetwork | ArgmaxNetwork:
        """The model as the network that a partition has: a `GraphNetwork` or an `ArgmaxNetwork`."""
        return self._model if isinstance(self._model, GraphNetwork) else read_network(self._model)

    @property
    def class_index(self) -> int:
        """The index of the output that is largest at the point, the first if several tie."""
        return self._class_index

    @property
    def certified_radius(self) -> float:
        """A proven lower bound on the radius within which neither a winner nor the class changes.

        It is infinite only if no winner ever changes.
        """
        walls = [w.low for w in (self.wall, self.decision) if w is not None]
        return min(walls, default=inf)

    @property
    def radius_upper_bound(self) -> float:
        """A proven upper bound on the radius within which neither a winner nor the class changes.

        It is infinite if no winner ever changes, or if the bound exceeds the largest float.
        """
        walls = [w.high for w in (self.wall, self.decision) if w is not None]
        return min(walls, default=inf)

    @cached_property
    def beyond(self) -> "LocalCell":
        """The cell on the other side of the nearest wall, found at a point just behind the wall.

        Raises:
            ArgumentError: If the cell has no wall within the range of float64.
        """
        if self.wall is None:
            raise ArgumentError("`beyond` needs a nearest wall, but this cell has no walls.")
        if self.wall.high == inf:
            raise ArgumentError(
                "`beyond` needs a wall at a distance within the range of float64; the nearest wall "
                f"is at least {self.wall.low:.4g} away."
            )
        past = 2.0**-20 * max(self.wall.high, 2.0**-20)
        while True:
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                point = self.point + (self.wall.high + past) * self._normal
            if not np.isfinite(point).all():
                raise ArgumentError(
                    "`beyond` needs a point behind the wall within the range of float64; the "
                    f"nearest wall is {self.wall.distance:.4g} away."
                )
            # Rounding may return a short step to this cell, or to the point itself.
            if (point != self.point).any():
                cell = _located(self._model, self._searched, point)
                if (cell.signature != self.signature).any():
                    return cell
            past *= 2.0

    def along(self, direction: ArrayLike, reach: float = 1.0) -> NearestWall | None:
        """Find the first wall on the ray from the point in a direction, exactly.

        Args:
            direction: The direction $v$, shape `(dim_in,)`.
            reach: The end of the search: the points $x + t v$ with $0 < t <$ `reach` are searched.

        Returns:
            The wall, with the parameter $t$ as its `distance`; None if there is no wall.
        """
        return self._walk(direction, reach, is_decision=False)

    def decision_along(self, direction: ArrayLike, reach: float = 1.0) -> NearestWall | None:
        """Find the first point on the ray in a direction where the class changes, exactly.

        Args:
            direction: The direction, as in `along`.
            reach: The end of the search, as in `along`.

        Returns:
            The decision boundary, with the parameter $t$ as its `distance`; None if the class does
            not change.

        Raises:
            ArgumentError: If the network has only one output.
        """
        return self._walk(direction, reach, is_decision=True)

    def _walk(self, direction: ArrayLike, reach: float, *, is_decision: bool) -> NearestWall | None:
        if is_decision and self._searched.dim_out == 1:
            raise ArgumentError(
                "`decision_along` requires a network with several outputs; this network has one. "
                "Use `along` to find the next wall."
            )
        way = np.asarray(direction, dtype=np.float64).ravel()
        end = number("reach", reach, above=0.0)
        domain = charted(_ray(self.point, way, 0.0, end), len(self.point))
        if isinstance(self._searched, GraphNetwork):
            return _walk_graph(self._searched, domain, end, is_decision=is_decision)
        change = find_change(
            self._searched, domain.coordinates, Fraction(end), is_decision=is_decision
        )
        if change is None:
            return None
        low = round_below(change.at)
        high = low if low == change.at else nextafter(low, inf)
        middle = nearest_float(change.at)
        return _name_wall(
            self._searched, change.layer, change.group, change.rival, middle, low, high
        )


def cell_at(model: ModelLike, x: ArrayLike) -> LocalCell:
    """Find the cell that contains a point, without enumerating other cells.

    The result includes the affine map on the cell, the nearest wall with certified bounds on its
    distance, the cell beyond that wall, and the distance to the decision boundary.

    Args:
        model: Any model: a `GraphNetwork`, `ReluNetwork`, `MaxoutNetwork`, `AttentionHead`,
            `Block`, `HardTransformer` or `ArgmaxNetwork` with any number of inputs, the path of a
            model file, or a torch module. A compiled transformer equals its network only in its
            `box`; the walls, distances and bounds are those of the network.
        x: The point, of shape `(dim_in,)` or, for a `GraphNetwork`, of the shape of one input.

    Returns:
        The cell.

    Raises:
        DtypeError: If `model` has an unsupported type.
        ShapeMismatchError: If `x` is not a single point.
        ArgumentError: If `x` lies outside the `box` of a compiled transformer.
        SizeLimitError: If the model is neither a graph network nor a ReLU or maxout network, and
            too large to be composed in integers: if `dim_in + 1` times the number of its weights
            exceeds $2^{29}$, a minute or two of work.

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
    read = read_model(model)
    if isinstance(read, GraphNetwork | ReluNetwork | MaxoutNetwork):
        graph = graph_of(read)
        points, is_batch = graph.read_points(x)
        searched: GraphNetwork | ArgmaxNetwork = with_decision(graph)
    else:
        searched = read_network(read)
        batch = PointBatch.read("x", x, searched.dim_in)
        points, is_batch = batch.rows, not batch.single
    if is_batch:
        raise ShapeMismatchError(
            f"`x` must be a single point; got an array of shape {np.shape(x)}."
        )
    if isinstance(searched, ArgmaxNetwork):
        _check_box(read, points[0])
        check_cell_size(searched)
    return _located(read, searched, points[0].copy())


def _check_box(model: Any, point: FloatArray) -> None:
    """Raise an error if a model has a box and the point lies outside."""
    box = getattr(model, "box", None)
    if isinstance(box, Box) and not box.contains(point[np.newaxis]).all():
        raise ArgumentError(
            "`x` must lie in the box for which the model was compiled; "
            f"{point.tolist()!s:.80} lies outside. Compile for a larger box."
        )


def graph_of(model: Any) -> GraphNetwork:
    """Return a ReLU or maxout network as a graph network; return a graph network as it is.

    Raises:
        DtypeError: If `model` has an unsupported type.
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


def _walk_graph(
    network: GraphNetwork, domain: ChartedDomain, end: float, *, is_decision: bool
) -> NearestWall | None:
    """Find the first wall of a graph network on a ray."""
    sides, corners = domain_sides(domain)
    forms = CellForms(network, domain, bound_of([Fraction(end)]))
    search = Search(forms, network.outputs, sides, corners)
    n_pieces = 64 if is_decision else 1
    while True:
        found = explore(lambda: search, max_pieces=n_pieces)
        if is_decision:
            classes = found.winners_of(network.n_groups - 1)
            node, group = len(network.nodes) - 1, 0
            crossed = np.flatnonzero(classes != classes[0])[:1]
            rival, vertex = int(classes[crossed].sum()), 2 * int(crossed.sum())
        else:
            node, group, rival = (int(x) for x in found.walls[1])
            crossed, vertex = np.flatnonzero(found.walls[1:2, 0] >= 0), 1
        if len(crossed):
            at, off = float(found.vertices[vertex, 0]), float(found.radii[vertex])
            low, high = at, at
            if off > 0.0:
                low, high = max(0.0, nextafter(at - off, -inf)), nextafter(at + off, inf)
            return _name_wall(network, node, group, rival, at, low, high)
        if found.is_complete or not is_decision:
            return None
        n_pieces *= 8


def _located(model: Any, searched: GraphNetwork | ArgmaxNetwork, point: FloatArray) -> LocalCell:
    if isinstance(searched, GraphNetwork):
        return _locate_in_graph(model, searched, point)
    return _locate_exactly(model, searched, point)


def _locate_exactly(model: Any, network: ArgmaxNetwork, point: FloatArray) -> LocalCell:
    """Find the cell of a point in integers."""
    winners: list[int] = []
    nearest = None
    for scores in iter_scores_at(network, point):
        closest = nearest_gap(iter_gaps(scores))
        if scores.layer == len(network.layers):
            break
        winners += scores.winners
        nearest = nearest_gap([gap for gap in (nearest, closest) if gap is not None])
    rounded = scores.forms.rounded()
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        errors = enclose_norms(nearest_error(rounded[:, :-1]))[1]
    normal = np.zeros(network.dim_in)
    if nearest is not None:
        [direction] = rounded_directions([tuple(nearest.form.integers[:-1])], network.dim_in)
        with np.errstate(under="ignore"):
            normal = -direction / np.linalg.norm(direction)
    return LocalCell(
        point,
        np.array(winners, dtype=np.int64),
        np.ascontiguousarray(rounded[:, :-1].T),
        np.ascontiguousarray(rounded[:, -1]),
        errors,
        None if nearest is None else _wall_of(network, nearest, point),
        None if closest is None else _wall_of(network, closest, point),
        model,
        network,
        scores.winners[0],
        normal,
    )


def _wall_of(network: ArgmaxNetwork, gap: Gap, point: FloatArray) -> NearestWall:
    low, high = enclose_distance(gap, point)
    middle = min(max(low / 2.0 + high / 2.0, low), high)
    return _name_wall(network, gap.layer, gap.group, gap.rival, middle, low, high)


def _name_wall(
    network: GraphNetwork | ArgmaxNetwork,
    layer: int,
    group: int,
    rival: int,
    distance: float,
    low: float,
    high: float,
) -> NearestWall:
    """Return a wall with its name, given the index of its layer or node."""
    if isinstance(network, GraphNetwork):
        is_decision = layer == len(network.nodes) - (network.dim_out > 1)
        place: Any = network.nodes[layer]
        words = LayerWords(place.name, "unit", "form")
    elif not (is_decision := layer == len(network.layers)):
        place, words = network.layers[layer], network.words[layer]
    if is_decision:
        name = f"decision, output {rival}"
        return NearestWall("decision", group, rival, distance, low, high, name)
    n_forms = place.starts[group + 1] - place.starts[group]
    name = words.name(group, rival if n_forms > 2 else None)
    return NearestWall(words.place, group, rival, distance, low, high, name)


def _locate_in_graph(model: Any, network: GraphNetwork, point: FloatArray) -> LocalCell:
    """Find the cell of a point, for a network whose last group is the decision."""
    way = np.zeros(network.dim_in)
    way[0] = 1.0
    domain = charted(_ray(point, way, -1.0, 1.0), network.dim_in)
    cell = CellForms(network, domain, 1.0)
    cell.start_at((Fraction(0),))
    gaps = _gaps_of(cell)
    norms, weight, is_moved = _norms_of(cell, gaps)
    errors = gradient_errors(network, cell.winners, norms.of_slots)
    distances = _Distances(cell, gaps, norms, errors, point)
    # If both slots of a gap are constant, the gradient of the gap is exactly 0.
    distances.drop(np.flatnonzero(~(is_moved[gaps.columns] & (gaps.slopes != 0.0)).any(axis=1)))
    is_decision = gaps.names[:, 0] == (len(network.nodes) - 1 if network.dim_out > 1 else -1)
    nearest, decision = (distances.nearest(np.flatnonzero(m)) for m in (~is_decision, is_decision))
    return LocalCell(
        point,
        cell.winners[: network.n_groups - (network.dim_out > 1)].astype(np.int64),
        *_map_of(cell, weight, errors, distances.exact),
        None if nearest is None else distances.wall(nearest, np.flatnonzero(~is_decision)),
        None if decision is None else distances.wall(decision, np.flatnonzero(is_decision)),
        model,
        network,
        int(cell.winners[-1]) if network.dim_out > 1 else 0,
        np.zeros(network.dim_in) if nearest is None else -distances.unit_gradient(nearest),
    )


class _Norms(NamedTuple):
    """Bounds on the norms of float gradients.

    Attributes:
        of_slots: Upper bounds for slots.
        low: Lower bounds for gaps.
        high: Upper bounds for gaps.
    """

    of_slots: FloatArray
    low: FloatArray
    high: FloatArray


def _norms_of(cell: CellForms, gaps: "_Gaps") -> tuple[_Norms, FloatArray, BoolArray]:
    """Return the norms, the gradients of the outputs, and whether each slot has a gradient.

    The norm of a row is the norm of the vector of the norms of its blocks of columns.
    """
    network = cell.network
    # In most gaps one entry is constant, so that the gradient is the gradient of a single slot.
    paired = np.flatnonzero(gaps.slopes.all(axis=1))
    of_slots, of_pairs = np.zeros((2, network.n_slots)), np.zeros((2, len(paired)))
    weight = np.zeros((network.dim_in, network.dim_out))
    is_moved_at_all = np.zeros(network.n_slots, dtype=np.bool_)
    for inputs, values, is_moved in gradient_columns(cell):
        moved = np.flatnonzero(is_moved)
        is_moved_at_all[moved] = True
        of_slots[:, moved] = _joined(of_slots[:, moved], values[moved])
        slots = gaps.columns[paired]
        parts = np.where(is_moved[slots][:, :, np.newaxis], values[slots], 0.0)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            difference = np.einsum("ijk,ij->ik", parts, gaps.slopes[paired])
        of_pairs = _joined(of_pairs, difference)
        weight[inputs] = np.where(is_moved[network.outputs], values[network.outputs].T, 0.0)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        low, high = (np.abs(gaps.slopes) * norms[gaps.columns] for norms in of_slots)
        low, high = low.sum(axis=1) / UP, high.sum(axis=1) * UP + TINY
    low[paired], high[paired] = of_pairs
    return _Norms(of_slots[1], low, high), weight, is_moved_at_all


def _joined(norms: FloatArray, rows: FloatArray) -> FloatArray:
    """Bound the norms of rows after more columns were appended; return both bounds as rows."""
    both = np.stack([norms, enclose_norms(rows)], axis=2)
    return np.stack([enclose_norms(both[0])[0], enclose_norms(both[1])[1]])


def _map_of(
    cell: CellForms, weight: FloatArray, errors: FloatArray, exact: ExactGradients
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the affine map of the outputs and the errors of its columns.

    Columns that overflow in floats are composed in integers.
    """
    outputs = cell.network.outputs
    bias, off = cell_constants(cell.network, cell.winners)[outputs], errors[outputs]
    is_known = np.isfinite(weight).all(axis=0) & np.isfinite(bias) & np.isfinite(off)
    for k in np.flatnonzero(~is_known).tolist():
        form = exact.form_of(outputs[k : k + 1], np.ones(1), np.zeros(0))
        rounded, _ = round_scaled_integers(form)
        weight[:, k], bias[k] = rounded[:-1], rounded[-1]
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            off[k] = enclose_norms(nearest_error(rounded[np.newaxis, :-1]))[1][0]
    return weight, bias, off


class _Distances:
    """Bounds on the distances to the hyperplanes of gaps, refined where it matters.

    A gap whose gradient is exactly 0 has no hyperplane; both bounds are then infinite.

    Args:
        cell: The cell.
        gaps: The gaps.
        norms: Bounds on the norms of the float gradients.
        errors: Bounds on the errors of the gradients of slots.
        point: The point.
    """

    def __init__(
        self, cell: CellForms, gaps: "_Gaps", norms: _Norms, errors: FloatArray, point: FloatArray
    ) -> None:
        self._cell, self._gaps, self._point = cell, gaps, point
        self._norms = norms
        # If nothing is known, the lower bound is 0 and the upper bound is infinite.
        self._lows, self._highs = _float_distances(cell, gaps, norms, errors)
        self.exact = ExactGradients(cell.network, cell.winners)
        self._forms: dict[int, ScaledIntegers] = {}
        self._exists = np.ones(len(self._lows), dtype=np.bool_)

    def drop(self, which: IntArray) -> None:
        """Exclude gaps that are constant on the cell."""
        self._exists[which] = False
        self._lows[which] = self._highs[which] = np.inf

    def nearest(self, which: IntArray) -> int | None:
        """Return the gap whose hyperplane is nearest, up to `_NARROW`; None if no gap has one.

        Wide bounds of hyperplanes that may be the nearest are replaced by bounds computed in
        integers, in the order of their lower bounds.
        """
        lows, highs = self._lows, self._highs
        while len(which := which[self._exists[which]]):
            best = int(which[np.lexsort((lows[which], highs[which]))[0]])
            is_wide = np.isinf(highs[which]) | (lows[which] < (1.0 - _NARROW) * highs[which])
            is_open = is_wide & (lows[which] <= highs[best])
            open_gaps = [i for i in which[is_open].tolist() if i not in self._forms]
            if not open_gaps:
                return best
            self._measure(min(open_gaps, key=lambda i: lows[i]))
        return None

    def _measure(self, i: int) -> None:
        """Bound one distance in integers."""
        form = self._form_of(i)
        if not form.integers[:-1].any():
            self.drop(np.array([i]))
            return
        self._lows[i], self._highs[i] = distance_to_zero(form, self._point)

    def wall(self, nearest: int, which: IntArray) -> NearestWall:
        """Return the wall of a gap that is the nearest among some gaps."""
        node, group, rival = (int(x) for x in self._gaps.names[nearest])
        low, high = float(self._lows[which].min()), float(self._highs[nearest])
        middle = float(self._lows[nearest]) / 2.0 + high / 2.0
        distance = min(max(middle, low), high)
        return _name_wall(self._cell.network, node, group, rival, distance, low, high)

    # The largest entry is near 1, so entries that underflow are negligible.
    @np.errstate(under="ignore")
    def unit_gradient(self, i: int) -> FloatArray:
        """Return the unit vector along the gradient of a gap, rounded."""
        gradient = self._float_gradient(i) if i not in self._forms else None
        if gradient is None:
            integers = tuple(self._form_of(i).integers[:-1].tolist())
            gradient = rounded_directions([integers], len(self._point))[0]
        return np.asarray(gradient / np.linalg.norm(gradient))

    def _float_gradient(self, i: int) -> FloatArray | None:
        """Return the gradient of a gap, scaled to at most 1; None if floats cannot represent it.

        Here the products are computed from the last layer to the first. They may overflow or
        underflow where the products in `gradient_columns` do not.
        """
        part, cell = self._gaps.only(i), self._cell
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            found = gradient_of(cell.network, cell.winners, part.columns[0], part.slopes[0])
        low, high = (float(bounds[0]) for bounds in enclose_norms(found[np.newaxis]))
        if high == inf or self._norms.low[i] / 2.0 > high or low / 2.0 > self._norms.high[i]:
            return None
        return np.asarray(np.ldexp(found, -int(np.frexp(np.abs(found).max())[1])))

    def _form_of(self, i: int) -> ScaledIntegers:
        if i not in self._forms:
            part = self._gaps.only(i)
            self._forms[i] = self.exact.form_of(part.columns[0], part.slopes[0], part.offsets[0])
        return self._forms[i]


def _ray(point: FloatArray, way: FloatArray, low: float, high: float) -> Slice:
    return Slice(point, way[np.newaxis], Box(np.array([low]), np.array([high])))


@dataclass(frozen=True, eq=False)
class _Gaps:
    """Gaps as differences of entries: the slots of winners and rivals, with slopes.

    Attributes:
        names: The node, group and rival of each gap, shape `(n, 3)`.
        columns: The slots of the winner and the rival, shape `(n, 2)`; arbitrary if the slope is 0.
        slopes: The slopes of the winner and, negated, of the rival; shape `(n, 2)`.
        offsets: The offsets of the winner and, negated, of the rival; shape `(n, 2)`.
    """

    names: IntArray
    columns: IntArray
    slopes: FloatArray
    offsets: FloatArray

    def differences(self, values: FloatArray) -> FloatArray:
        """Return the gaps without their offsets, given the values of all slots as rows."""
        winners, rivals = (
            self.slopes[:, k, np.newaxis] * values[self.columns[:, k]] for k in (0, 1)
        )
        return np.asarray(winners + rivals)

    def only(self, i: int) -> "_Gaps":
        """Return the gap with index `i` alone."""
        part = slice(i, i + 1)
        return _Gaps(self.names[part], self.columns[part], self.slopes[part], self.offsets[part])


def _gaps_of(cell: CellForms) -> _Gaps:
    """Return the gaps between winners and rivals on the cell, without repeated entries."""
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
        offsets.append(node.offsets[pairs] * [1.0, -1.0])
    if not names:
        none = np.empty((0, 2))
        return _Gaps(np.empty((0, 3), np.int64), none.astype(np.int64), none, none)
    return _Gaps(*(np.concatenate(part) for part in (names, columns, slopes, offsets)))


def _float_distances(
    cell: CellForms, gaps: _Gaps, norms: _Norms, errors: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bound the distances to the hyperplanes of gaps from below and above.

    After an overflow the bounds are 0 and infinity. The relative error of a quotient that rounds to
    a subnormal number is not bounded; one step outward to the next float accounts for it.
    """
    slopes = np.abs(gaps.slopes)
    with np.errstate(all="ignore"):
        values = gaps.differences(cell.forms[-1][:, np.newaxis])[:, 0] + gaps.offsets.sum(axis=1)
        terms = slopes * np.abs(cell.forms[-1][gaps.columns]) + np.abs(gaps.offsets)
        off = (slopes * cell.radii[gaps.columns]).sum(axis=1)
        off = (off + 8.0 * 2.0**-53 * terms.sum(axis=1)) * UP + TINY
        spread = (slopes * (errors + 8.0 * 2.0**-53 * norms.of_slots)[gaps.columns]).sum(axis=1)
        spread = spread * UP + TINY
        lows = np.maximum(values - off, 0.0) / (norms.high + spread) / UP
        least = norms.low - spread
        highs = (np.abs(values) + off) / np.maximum(least, TINY) * UP
        is_known = np.isfinite(values) & np.isfinite(off) & np.isfinite(spread)
    lows = np.where(is_known & (lows > 0.0), np.nextafter(lows, 0.0), 0.0)
    highs = np.where(is_known & (least > 0.0), np.nextafter(highs, np.inf), np.inf)
    return lows, highs
