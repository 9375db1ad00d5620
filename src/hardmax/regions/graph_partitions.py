r"""The cells of a graph network on a segment or a planar slice, with decision boundaries.

The search adds one group to the network, the maximum of its outputs. The winner of this group is
the class, and its walls are the decision boundary, found exactly like all other walls. A piece is
the part of a cell on which the class is constant.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from hardmax._ground.arguments import integer
from hardmax._ground.deadlines import TimeLimitReached, no_time_limit
from hardmax._ground.display import html_card, pluralize
from hardmax._ground.progress import Progress, track
from hardmax.errors import ArgumentError, IncompleteError, Interrupted
from hardmax.exact.rounding import TINY
from hardmax.models.graphs.graph_networks import GraphNetwork, Maxima
from hardmax.regions._graphs.cell_forms import CellForms, bound_of
from hardmax.regions._graphs.domain_sides import domain_sides
from hardmax.regions._graphs.exact_pieces import ExactPieces
from hardmax.regions._graphs.searches import Pieces, Search, explore, nothing_found
from hardmax.regions.charted_domains import ChartedDomain, charted
from hardmax.regions.counts import AtLeast, Count
from hardmax.regions.merging import candidate_classes, connected_classes, members, same_map_classes
from hardmax.typing import AnyArray, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False, repr=False)
class GraphPartition:
    r"""The cells of a `GraphNetwork` on a segment or a planar slice, cut along decision boundaries.

    A piece is the part of a cell on which the class (the index of the largest output) is constant.
    The list of pieces, their signatures and their classes are exact. Breakpoints, vertices and maps
    are floats; `found` contains bounds on their errors.

    Attributes:
        network: The network.
        domain: The domain that was searched, with coordinates $t$.
        found: The pieces, in floats with error radii.

    Examples:
        >>> from hardmax import Segment, enumerate_regions
        >>> from hardmax.models import GraphBuilder
        >>> build = GraphBuilder()
        >>> x = build.input((2,))
        >>> net = build.finish(build.add(x, build.relu(x)))
        >>> part = enumerate_regions(net, Segment([-1.0, 0.0], [1.0, 0.5]))
        >>> part
        GraphPartition(2 cells in 1 dimension, 3 pieces of one class)
        >>> part.breakpoints.tolist(), part.classes.tolist()
        ([0.5, 0.6666666666666666], [1, 1, 0])
        >>> part.decision_boundary.tolist()
        [[0.6666666666666666]]
    """

    network: GraphNetwork
    domain: ChartedDomain
    found: Pieces

    _repr_html_ = html_card

    def __repr__(self) -> str:
        dim = self.domain.dim
        return (
            f"GraphPartition({pluralize(self.n_cells, 'cell')} in {pluralize(dim, 'dimension')}, "
            f"{pluralize(self.n_pieces, 'piece')} of one class)"
        )

    @property
    def engine(self) -> str:
        """The name of the engine that found the cells."""
        return "graph"

    @property
    def is_complete(self) -> bool:
        """Whether all cells were found."""
        return self.found.is_complete

    @property
    def n_pieces(self) -> Count:
        """The number of pieces: cells cut along decision boundaries."""
        return self._count(len(self.found.maps))

    @cached_property
    def n_cells(self) -> Count:
        """The number of cells of the network on the domain."""
        return self._count(int(self._is_new_cell.sum()))

    @cached_property
    def _is_new_cell(self) -> BoolArray:
        """Whether each piece begins a cell; the pieces of a cell are consecutive."""
        is_new = np.zeros(len(self.found.maps), dtype=np.bool_)
        is_new[self.found.changed_pieces[self.found.changes[:, 0] < self.network.n_groups]] = True
        is_new[:1] = True
        return is_new

    @cached_property
    def n_affine_maps(self) -> Count:
        """The number of distinct affine maps on the cells, decided exactly."""
        return self._count(int(self._map_classes.max(initial=-1)) + 1)

    @cached_property
    def n_regions(self) -> Count:
        """The number of regions: connected sets of cells with the same affine map.

        If the search was stopped early, an `AtLeast` with the number of affine maps found.
        """
        if not self.is_complete:
            return self.n_affine_maps
        classes, n = self._map_classes, len(self.found.maps)
        consecutive = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
        if self.domain.dim == 1:
            pairs = consecutive
        else:
            # The pieces of a cell are connected; cells with the same map may be connected too.
            cells = np.cumsum(self._is_new_cell)
            n_edges = np.diff(self.found.starts).tolist()
            shared = [g for g in members(classes) if len(g) > 1 and len(np.unique(cells[g])) > 1]
            edges = ([(i, k) for i in group for k in range(n_edges[i])] for group in shared)
            common = [s for some in edges for s in self._exact_pieces.common_segments(some)]
            touching = np.array([s[:2] for s in common], np.int64).reshape(-1, 2)
            pairs = np.concatenate([consecutive[~self._is_new_cell[1:]], touching])
        return int(connected_classes(classes, pairs).max()) + 1

    @cached_property
    def _map_classes(self) -> IntArray:
        """The number of each piece's affine map, equal if and only if the maps are equal."""
        firsts = np.flatnonzero(self._is_new_cell)
        # A search that was stopped before its first piece has no rows to infer a size from.
        width = (self.domain.dim + 1) * self.network.dim_out
        maps = self.found.maps[firsts].reshape(len(firsts), width)
        radii = np.repeat(self.found.map_radii[firsts, np.newaxis], self.domain.dim + 1, axis=1)
        radii = radii.reshape(maps.shape)
        classes = same_map_classes(
            candidate_classes(maps, radii),
            maps,
            radii,
            lambda i: self._exact_pieces.map_key(int(firsts[i])),
        )
        return np.asarray(classes[np.cumsum(self._is_new_cell) - 1])

    @cached_property
    def _exact_pieces(self) -> ExactPieces:
        return ExactPieces(with_decision(self.network), self.domain, self.found)

    @cached_property
    def signatures(self) -> AnyArray:
        """The winner of each group on each piece, shape `(n_pieces, n_groups)`."""
        n_groups, found = self.network.n_groups, self.found
        largest = max((int(np.diff(m.starts).max()) for m in self.network.maxima), default=1)
        rows = np.zeros((len(found.maps), n_groups), dtype=np.min_scalar_type(largest))
        row = np.zeros(n_groups + 1, dtype=rows.dtype)
        for i, (begin, end) in enumerate(pairwise(found.change_starts)):
            row[found.changes[begin:end, 0]] = found.changes[begin:end, 1]
            rows[i] = row[:-1]
        return rows

    @cached_property
    def classes(self) -> IntArray:
        """The index of the largest output on each piece, the first of equal ones: `(n_pieces,)`."""
        return self.found.winners_of(self.network.n_groups)

    @property
    def breakpoints(self) -> FloatArray:
        """The points of a segment where pieces meet, from left to right.

        Raises:
            ArgumentError: If the dimension of the domain is not 1.
        """
        if self.domain.dim == 2:
            raise ArgumentError(
                "`breakpoints` requires a domain of dimension 1; this domain has dimension 2. Use "
                "`polygons` instead."
            )
        return self.found.vertices[2::2, 0]

    @property
    def polygons(self) -> list[FloatArray]:
        """The vertices of each piece of a planar domain, in cyclic order.

        Raises:
            ArgumentError: If the dimension of the domain is not 2.
        """
        if self.domain.dim == 1:
            raise ArgumentError(
                "`polygons` requires a domain of dimension 2; this domain has dimension 1. Use "
                "`breakpoints` instead."
            )
        return np.split(self.found.vertices, self.found.starts[1:-1])

    @property
    def maps(self) -> FloatArray:
        """The affine map on each piece: slopes, then offsets; shape `(n, dim + 1, dim_out)`."""
        return self.found.maps

    @cached_property
    def decision_boundary(self) -> FloatArray:
        """The decision boundary: points of shape `(n, 1)`, or edges of shape `(n, 2, 2)`.

        Every edge is listed once, from the side of the smaller class.

        Raises:
            IncompleteError: If the search was stopped early.
        """
        if not self.is_complete:
            raise IncompleteError(
                "`decision_boundary` needs all pieces, but the search was stopped early. Search "
                "again without a limit."
            )
        classes, found = self.classes, self.found
        if self.domain.dim == 1:
            return np.asarray(found.vertices[2::2][classes[1:] != classes[:-1]])
        decision = len(self.network.nodes)
        starts, vertices, walls = found.starts, found.vertices, found.walls
        after = np.arange(1, len(vertices) + 1)
        after[starts[1:] - 1] = starts[:-1]
        own = np.repeat(classes, np.diff(starts))
        is_boundary = (walls[:, 0] == decision) & (own < walls[:, 2])
        edges = np.stack([vertices[is_boundary], vertices[after[is_boundary]]], axis=1)
        # Outputs may also tie along walls of other groups; both sides then list the wall.
        may_tie = self._may_tie()
        suspects = np.flatnonzero(may_tie & may_tie[after] & (walls[:, 0] != decision))
        pieces = np.searchsorted(starts, suspects, "right") - 1
        if len(np.unique(classes[pieces])) < 2:
            return edges
        named = zip(pieces.tolist(), (suspects - starts[pieces]).tolist(), strict=True)
        others = [
            (p, q)
            for i, j, p, q in self._exact_pieces.common_segments(named)
            if classes[i] != classes[j]
        ]
        return np.concatenate([edges, np.array(others, np.float64).reshape(-1, 2, 2)])

    def _may_tie(self) -> BoolArray:
        """Return at which vertices of pieces another output may be as large as the class's output.

        The error of a coefficient is at most the radius of its output; the error of a vertex is at
        most the radius of the vertex.
        """
        found, classes = self.found, self.classes
        pieces = np.repeat(np.arange(len(classes)), np.diff(found.starts))
        points = np.column_stack([found.vertices, np.ones(len(pieces))])
        own = (np.arange(len(pieces)), classes[pieces])
        with np.errstate(all="ignore"):
            values = np.einsum("vk,vko->vo", points, found.maps[pieces])
            sizes = np.einsum("vk,vko->vo", np.abs(points), np.abs(found.maps[pieces]))
            slopes = np.abs(found.maps[:, :-1]).sum(axis=1)[pieces]
            reach = np.abs(points).sum(axis=1) + 2.0 * found.radii
            errors = found.map_radii[pieces] * reach[:, np.newaxis] + 2.0**-48 * sizes
            # The last term covers products that underflow.
            errors += slopes * found.radii[:, np.newaxis] + TINY
            leads = values[own][:, np.newaxis] - values
            is_ahead = leads > (errors[own][:, np.newaxis] + errors) * (1.0 + 2.0**-20)
        is_ahead[own] = True
        return np.asarray(~is_ahead.all(axis=1))

    def points(self, coordinates: FloatArray) -> FloatArray:
        """Return the inputs at points given by their coordinates, rounded.

        Args:
            coordinates: The points in the domain's coordinates, shape `(n, dim)`.
        """
        return np.asarray(coordinates @ self.domain.chart.weight + self.domain.chart.bias)

    def _count(self, n: int) -> Count:
        return n if self.is_complete else AtLeast(n)


def explore_graph(
    model: GraphNetwork,
    domain: Any,
    max_cells: int | None,
    n_threads: int,
) -> GraphPartition:
    """Find the cells of a network on a bounded domain of dimension 1 or 2.

    The arguments are those of `enumerate_regions`.
    """
    with no_time_limit():
        where = charted(domain, model.dim_in)
    limits: dict[str, Any] = {}
    if max_cells is not None:
        limits["max_pieces"] = integer("max_cells", max_cells, at_least=1)
    sides, corners = domain_sides(where)
    reach = bound_of(x for corner in corners for x in corner)
    network = with_decision(model)
    count: Progress[int] = track((), "pieces")
    try:
        with count:
            found = explore(
                lambda: Search(CellForms(network, where, reach), model.outputs, sides, corners),
                n_threads=n_threads,
                progress=count.advance,
                **limits,
            )
    except TimeLimitReached:
        found = nothing_found(where.dim, model.dim_out)
    except Interrupted as stop:
        partial = GraphPartition(model, where, stop.partial)
        raise Interrupted(str(stop), partial) from None
    return GraphPartition(model, where, found)


def with_decision(model: GraphNetwork) -> GraphNetwork:
    """Return the network with one more group: the maximum of its outputs."""
    n = model.dim_out
    if n == 1:
        return model
    group = Maxima(
        "decision", np.array([0, n]), model.outputs, np.ones(n), np.zeros(n), 1.0, model.n_slots
    )
    return replace(model, nodes=(*model.nodes, group), n_slots=model.n_slots + 1)
