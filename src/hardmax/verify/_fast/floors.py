"""One floor of the verifier's walk, split without rounding.

A floor is a layer on the polygon where the layers before it are affine. The groups that floating
point leaves open are decided here: the polygon is clipped by "the winner is at least the rival" for
every listed winner and every rival not proved to be beaten, with integer lines.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from flint import fmpz

from hardmax.verify._fast.layers import ExactLayer
from hardmax.verify._fast.packing import Forms
from hardmax.verify._fast.polygons import Piece, Polygon
from hardmax.typing import FloatArray, IntArray


class RefusedError(Exception):
    """The certificate is wrong; the message says where.

    Attributes:
        cell: The cell at fault as the walk counts cells, or None.
    """

    def __init__(self, reason: str, cell: int | None = None) -> None:
        super().__init__(reason)
        self.cell = cell


class Node(NamedTuple):
    """A polygon on which some open groups of a floor are decided.

    Attributes:
        polygon: The polygon.
        cells: The range of the cells with these winners.
        choices: The winning forms of the groups decided so far.
        ties: Pairs of a group and the forms that coincide there, if there are several.
    """

    polygon: Polygon
    cells: tuple[int, int]
    choices: tuple[int, ...] = ()
    ties: tuple[tuple[int, list[int]], ...] = ()


class Scores(NamedTuple):
    """What is known of a layer's scores on a polygon.

    Attributes:
        stream: Composes the exact forms before the layer.
        low: Lower bounds of the scores at the corners, shape `(n_forms, n_corners)`.
        high: Upper bounds.
    """

    stream: Callable[[], Forms]
    low: FloatArray
    high: FloatArray


class Floor:
    """A layer on a polygon.

    Args:
        layer: The layer.
        piece: The piece of the domain.
        listed: For each group of the layer its column of the signatures, which are in
            lexicographic order.
        first_column: The number of the first of these columns.
        scores: What is known of the scores.
        open_groups: The groups that are not settled.
    """

    def __init__(
        self,
        layer: ExactLayer,
        piece: Piece,
        listed: list[IntArray],
        first_column: int,
        scores: Scores,
        open_groups: list[int],
    ) -> None:
        self._layer, self._piece, self._listed = layer, piece, listed
        self._first_column, self._scores, self._open = first_column, scores, open_groups
        self._stream: Forms
        self._rows: list[fmpz] | None = None
        self._edges: dict[tuple[int, int], int | None] = {}
        self._rivals: dict[int, list[int]] = {}

    def split(self, polygon: Polygon, cells: tuple[int, int]) -> list[Node]:
        """Split the polygon by the open groups, as far as listed cells go.

        Raises:
            RefusedError: If a listed winner is not the first of the forms that coincide with it.
        """
        nodes = [Node(polygon, cells)]
        for group in self._open:
            nodes = [child for node in nodes for child in self._children(group, node)]
        return nodes

    def _children(self, group: int, node: Node) -> list[Node]:
        begin, end = node.cells
        listed = self._listed[group]
        last = listed.item(end - 1)
        signs: dict[int, list[int]] = {}
        children = []
        while begin < end:
            # The cells are in order and agree before this column: equal entries are neighbours.
            winner = listed.item(begin)
            stop = end
            if winner != last:
                stop = begin + int(listed[begin:end].searchsorted(winner, side="right"))
            child = self._child(group, winner, node, (begin, stop), signs)
            if child is not None:
                children.append(child)
            begin = stop
        return children

    def _child(
        self,
        group: int,
        winner: int,
        node: Node,
        cells: tuple[int, int],
        known_signs: dict[int, list[int]],
    ) -> Node | None:
        """Return the part of a node where a form wins; None if it has no interior."""
        plane, start = self._piece.plane, self._layer.starts[group]
        form = start + winner
        tied = [form]
        part = node.polygon
        for rival in self._rivals_of(group, form):
            edge = self._edge(form, rival)
            if edge is None:
                if rival < form:
                    raise RefusedError(
                        f"form {winner} of group {self._first_column + group} coincides there "
                        f"with form {rival - start}, which names the cell",
                        cells[0],
                    )
                tied.append(rival)
                continue
            signs = None
            if part is node.polygon:
                signs = known_signs.get(edge >> 1)
                if signs is None:
                    signs = known_signs[edge >> 1] = plane.signs(part.vertices, edge >> 1)
            clipped = plane.clip(part, edge, signs)
            if clipped is None:
                return None
            part = clipped
        ties = (*node.ties, (group, tied)) if len(tied) > 1 else node.ties
        return Node(part, cells, (*node.choices, form), ties)

    def _rivals_of(self, group: int, form: int) -> list[int]:
        """List the forms of a group that another is not proved to beat on the whole polygon."""
        rivals = self._rivals.get(form)
        if rivals is None:
            start, end = self._layer.starts[group], self._layer.starts[group + 1]
            if end - start == 2:
                return [start + end - 1 - form]
            beaten = self._scores.low[form] > self._scores.high[start:end]
            open_ = ~np.logical_and.reduce(beaten, axis=1)
            open_[form - start] = False
            rivals = self._rivals[form] = [start + j for j in np.flatnonzero(open_).tolist()]
        return rivals

    def _edge(self, form: int, rival: int) -> int | None:
        """Return the half-plane where a form is at least its rival; None if they coincide."""
        key = (form, rival)
        if key in self._edges:
            return self._edges[key]
        if self._rows is None:
            self._stream = self._scores.stream()
            self._rows = self._layer.score_rows(self._stream, self._open)
        difference = self._rows[form] - self._rows[rival]
        edge = None
        if difference:
            a, b, c = self._stream.packing.unpacked(int(difference))
            edge = self._piece.wall(a, b, c)
        self._edges[key] = edge
        self._edges[rival, form] = None if edge is None else edge ^ 1
        return edge
