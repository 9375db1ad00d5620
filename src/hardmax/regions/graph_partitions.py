r"""The cells of a network of any shape on a segment or a planar slice, with decision boundaries.

The search adds one group to those of the network, the maximum of its outputs: who wins there is the
class, and where that changes is the decision boundary, found exactly like every other wall. So a
piece is a part of a cell with one class.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._ground.arguments import integer, number
from hardmax._ground.display import html_card
from hardmax._ground.progress import Progress, track
from hardmax.errors import ArgumentError, IncompleteError
from hardmax.models.graphs.graph_networks import GraphNetwork, Maxima
from hardmax.regions._graphs.lines import LinePieces, explore_line
from hardmax.regions._graphs.planes import PlanePieces, domain_polygon, explore_plane
from hardmax.regions._graphs.walks import Walk, bound_of
from hardmax.regions.charted_domains import ChartedDomain, charted
from hardmax.regions.counts import AtLeast, Count
from hardmax.typing import AnyArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False, repr=False)
class GraphPartition:
    r"""The cells of a `GraphNetwork` on a segment or a planar slice, cut along decision boundaries.

    Floats that are given (breakpoints, vertices, maps) come with bounds on their errors; which
    pieces there are, their signatures and classes are exact.

    Attributes:
        network: The network.
        domain: Where its cells were looked for, with coordinates $t$.
        found: What was found, in floats with radii.

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
    found: LinePieces | PlanePieces

    _repr_html_ = html_card

    def __repr__(self) -> str:
        dim = self.domain.dim
        return (
            f"GraphPartition({self.n_cells} cells in {dim} dimension{'s' * (dim > 1)}, "
            f"{self.n_pieces} pieces of one class)"
        )

    @property
    def is_complete(self) -> bool:
        """Whether all cells were found."""
        return self.found.is_complete

    @property
    def n_pieces(self) -> Count:
        """How many pieces there are: cells, cut along decision boundaries."""
        return self._count(len(self.found.maps))

    @cached_property
    def n_cells(self) -> Count:
        """How many signatures the network has on the domain."""
        n_groups = self.network.n_groups
        if isinstance(self.found, LinePieces):
            crossed = [(entries < n_groups).any() for entries, _ in self.found.changes]
            return self._count(1 + sum(map(bool, crossed)))
        rows = np.ascontiguousarray(self.found.signatures[:, :n_groups])
        return self._count(len({row.tobytes() for row in rows}))

    @cached_property
    def signatures(self) -> AnyArray:
        """The winner of each group on each piece, shape `(n_pieces, n_groups)`."""
        n_groups = self.network.n_groups
        if isinstance(self.found, PlanePieces):
            return self.found.signatures[:, :n_groups]
        rows = np.repeat(self.found.first[np.newaxis], len(self.found.maps), axis=0)
        for i, (entries, winners) in enumerate(self.found.changes):
            rows[i + 1 :, entries] = winners
        return rows[:, :n_groups]

    @cached_property
    def classes(self) -> IntArray:
        """Which output is largest on each piece, shape `(n_pieces,)`; the first of equal ones."""
        if self.network.dim_out == 1:
            return np.zeros(len(self.found.maps), dtype=np.int64)
        last = self.network.n_groups
        if isinstance(self.found, PlanePieces):
            return self.found.signatures[:, last].astype(np.int64)
        classes = np.full(len(self.found.maps), self.found.first[last], dtype=np.int64)
        for i, (entries, winners) in enumerate(self.found.changes):
            at = np.flatnonzero(entries == last)
            if len(at):
                classes[i + 1 :] = winners[at[0]]
        return classes

    @property
    def breakpoints(self) -> FloatArray:
        """Of a segment: where pieces meet, from left to right."""
        if isinstance(self.found, PlanePieces):
            raise ArgumentError("`breakpoints` are those of a segment; this is a plane.")
        return self.found.breakpoints

    @property
    def polygons(self) -> list[FloatArray]:
        """Of a plane: the vertices of each piece in cyclic order."""
        if isinstance(self.found, LinePieces):
            raise ArgumentError("`polygons` are those of a plane; this is a segment.")
        return np.split(self.found.vertices, self.found.starts[1:-1])

    @property
    def maps(self) -> FloatArray:
        """The output on each piece: slopes, then offsets, shape `(n, dim + 1, dim_out)`."""
        return self.found.maps

    @cached_property
    def decision_boundary(self) -> FloatArray:
        """Where the class changes: coordinates of points `(n, 1)`, or of edges `(n, 2, 2)`.

        Every edge is given once, from the side of the smaller class.
        """
        if not self.is_complete:
            raise IncompleteError(
                "`decision_boundary` needs all pieces; the search was stopped early."
            )
        classes, found = self.classes, self.found
        if isinstance(found, LinePieces):
            changes = found.breakpoints[classes[1:] != classes[:-1]]
            return np.asarray(changes[:, np.newaxis])
        decision = len(self.network.nodes)
        starts, vertices, walls = found.starts, found.vertices, found.walls
        after = np.arange(1, len(vertices) + 1)
        after[starts[1:] - 1] = starts[:-1]
        own = np.repeat(classes, np.diff(starts))
        is_boundary = (walls[:, 0] == decision) & (own < walls[:, 2])
        return np.stack([vertices[is_boundary], vertices[after[is_boundary]]], axis=1)

    def points(self, coordinates: FloatArray) -> FloatArray:
        """Return the inputs at rows of coordinates, rounded."""
        return np.asarray(coordinates @ self.domain.chart.weight + self.domain.chart.bias)

    def _count(self, n: int) -> Count:
        return n if self.is_complete else AtLeast(n)


def explore_graph(
    model: GraphNetwork, domain: Any, max_cells: int | None, max_seconds: float | None
) -> GraphPartition:
    """Find the cells of a network on a bounded domain of dimension 1 or 2 (`enumerate_regions`)."""
    where = charted(domain, model.dim_in)
    limits: dict[str, Any] = {}
    if max_cells is not None:
        limits["max_pieces"] = integer("max_cells", max_cells, at_least=1)
    if max_seconds is not None:
        limits["max_seconds"] = number("max_seconds", max_seconds, at_least=0.0)
    network = with_decision(model)
    if where.dim == 1:
        rows = [(int(a), int(b)) for a, b in where.exact_rows.tolist()]
        ends = _ends(rows)
        walk = Walk(network, where, bound_of(ends))
        bar: Progress[int] = track(1000, "pieces along the segment, of 1000 parts")
        with bar:
            done = 0

            def show(at: float) -> None:
                nonlocal done
                part = int(1000 * (at - float(ends[0])) / float(ends[1] - ends[0]))
                if part > done:
                    bar.advance(part - done)
                    done = part

            line = explore_line(walk, model.outputs, *ends, progress=show, **limits)
        return GraphPartition(model, where, line)
    _, corners = domain_polygon(where)
    walk = Walk(network, where, bound_of(x for corner in corners for x in corner))
    count: Progress[int] = track((), "pieces")
    with count:
        plane = explore_plane(
            walk, model.outputs, where, progress=lambda _: count.advance(), **limits
        )
    return GraphPartition(model, where, plane)


def with_decision(model: GraphNetwork) -> GraphNetwork:
    """Return a network with one more group: the largest of its outputs."""
    n = model.dim_out
    if n == 1:
        return model
    group = Maxima(
        "decision", np.array([0, n]), model.outputs, np.ones(n), np.zeros(n), 1.0, model.n_slots
    )
    return replace(model, nodes=(*model.nodes, group), n_slots=model.n_slots + 1)


def _ends(rows: list[tuple[int, int]]) -> tuple[Fraction, Fraction]:
    low = [Fraction(b, a) for a, b in rows if a < 0]
    high = [Fraction(b, a) for a, b in rows if a > 0]
    if not low or not high:
        raise ArgumentError("`domain` must be bounded for a network of this kind; it is not.")
    return max(low), min(high)
