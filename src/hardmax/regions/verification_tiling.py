r"""Completeness in the plane: the listed cells fit together to the whole domain.

The verifier computes the polygon of every listed signature from the model alone: the domain,
clipped by "the winner is at least the rival" for all rivals of all groups of all layers. Then it
adds up boundaries. Let $f = \sum_i 1_{C_i} - 1_D$ for the polygons $C_i$ and the domain $D$. If on
every line the edges of all $C_i$, each with the direction in which its polygon is gone round, add
up to the edges of $D$, then the gradient of $f$ as a distribution vanishes, so $f$ is constant, and
0 as it vanishes far away: the cells cover $D$ exactly once, and the areas agree. Conversely a cell
that is missing or listed twice leaves an edge over. On one line the directed segments add up to
zero if and only if their end points do, each counted $+1$ as an end and $-1$ as a start. So the
whole test counts pairs (line, vertex), and no area is ever computed. Cells need not meet face to
face.

Rounded numbers only say which inequalities need no look: the bound in `verification_polygons`
proves them satisfied. What they leave open is decided in integers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from flint import fmpz

from hardmax.regions.verification_composition import ExactLayer, ExactNetwork, Forms
from hardmax.regions.verification_enclosures import (
    Enclosure,
    RoundedLayer,
    enclosed,
    rounded_layer,
)
from hardmax.regions.verification_polygons import (
    ABSOLUTE,
    RELATIVE,
    CoincidenceError,
    Piece,
    Polygon,
    corners,
    domain_pieces,
)
from hardmax.typing import FloatArray, IntArray, WideArray


class RefusedError(Exception):
    """The certificate is wrong; the message says where.

    Attributes:
        cell: The cell at fault as the walk counts cells, or None.
    """

    def __init__(self, reason: str, cell: int | None = None) -> None:
        super().__init__(reason)
        self.cell = cell


def check_tiling(
    network: ExactNetwork, rows: WideArray, signatures: IntArray, witnesses: list[list[int]]
) -> None:
    """Check that the cells tile a planar domain and that each contains its witness.

    Args:
        network: The network on the domain's chart.
        rows: The inequalities of the domain, integers `(a, b)`, shape `(n_rows, 3)`.
        signatures: In lexicographic order, none twice, every entry in range.
        witnesses: For each signature integers `(x, y, w)`, `w > 0`.

    Raises:
        RefusedError: If they do not.
    """
    attempt = 0
    while True:
        try:
            # What overflows is decided in integers.
            with np.errstate(over="ignore", invalid="ignore"):
                _check_pieces(network, domain_pieces(rows, attempt), signatures, witnesses)
        except CoincidenceError:
            # Walls are finitely many, crosses are not.
            attempt += 1
        else:
            return


def _check_pieces(
    network: ExactNetwork, pieces: list[Piece], signatures: IntArray, witnesses: list[list[int]]
) -> None:
    if not pieces:
        raise RefusedError("the domain has no interior")
    walk = TreeWalk.read(network, signatures)
    has_interior = np.zeros(len(signatures), dtype=np.bool_)
    boundaries = []
    for piece in pieces:
        lines: list[int] = []
        starts: list[int] = []
        ends: list[int] = []
        for cell, polygon in walk.leaves(piece):
            has_interior[cell] = True
            vertices, edges = polygon
            point = witnesses[cell]
            for edge in edges:
                line = edge >> 1
                if line not in piece.helpers:
                    value = piece.plane.value(line, (point[0], point[1], point[2]))
                    if value >= 0 if edge & 1 else value <= 0:
                        raise RefusedError("the witness is not inside its cell", cell)
                lines.append(line)
            starts += vertices
            ends += vertices[1:]
            ends.append(vertices[0])
        boundaries.append((lines, starts, ends))
    if not has_interior.all():
        raise RefusedError("the cell has no interior", int(np.argmin(has_interior)))
    for piece, boundary in zip(pieces, boundaries, strict=True):
        _check_boundary(piece, *boundary)


def _check_boundary(piece: Piece, lines: list[int], starts: list[int], ends: list[int]) -> None:
    plane, (vertices, edges) = piece.plane, piece.polygon
    line = np.array(lines + [edge >> 1 for edge in edges])
    start = np.array(starts + vertices)
    end = np.array([*ends, *vertices[1:], vertices[0]])
    weight = np.ones(len(line), dtype=np.int64)
    weight[len(lines) :] = -1
    keys = np.concatenate([line, line]) * len(plane.vertices) + np.concatenate([end, start])
    found, place = np.unique(keys, return_inverse=True)
    total = np.zeros(len(found), dtype=np.int64)
    np.add.at(total, place, np.concatenate([weight, -weight]))
    if total.any():
        x, y, w = plane.vertices[int(found[np.flatnonzero(total)[0]]) % len(plane.vertices)]
        where = f"near ({_quotient(x, w)}, {_quotient(y, w)})" if w else "at infinity"
        raise RefusedError(
            "the cells do not cover the domain exactly once: an edge that ends "
            f"{where} has a cell on one side only"
        )


@dataclass(frozen=True, eq=False)
class TreeWalk:
    """The tree of signatures, walked depth first: every prefix is composed once."""

    stream: Forms
    layers: list["_Layer"]
    signatures: IntArray
    columns: list[IntArray]

    @classmethod
    def read(cls, network: ExactNetwork, signatures: IntArray) -> "TreeWalk":
        """Prepare a walk over signatures in lexicographic order."""
        layers = [_Layer.read(layer) for layer in network.layers]
        columns = [np.ascontiguousarray(column) for column in signatures.T]
        return cls(network.stream, layers, signatures, columns)

    def leaves(self, piece: Piece) -> Iterator[tuple[int, Polygon]]:
        """Yield every cell that has a part with interior in a piece, with the part's polygon."""
        everything = (0, len(self.signatures))
        if not self.layers:
            yield 0, piece.polygon
            return
        exact = self.stream
        stack = [
            _node(_Floor(self, piece, 0, 0, enclosed(exact), exact, everything, piece.polygon))
        ]
        while stack:
            node = stack.pop()
            floor = node.floor
            if node.position < len(floor.pending):
                stack += self._children(floor, node)
            elif floor.is_last:
                yield node.cells[0], node.polygon
            else:
                stack.append(_node(floor.above(node)))

    def _children(self, floor: "_Floor", node: "_Node") -> list["_Node"]:
        """Split a node by its next group, as far as listed cells go."""
        group = floor.pending[node.position]
        begin, end = node.cells
        listed = self.columns[floor.column + group][begin:end].tolist()
        known: dict[int, list[int]] = {}
        children = []
        i = 0
        while i < len(listed):
            winner, first = listed[i], i
            while i < len(listed) and listed[i] == winner:
                i += 1
            form = floor.layer.starts[group] + winner
            tied = [form]
            part: Polygon | None = node.polygon
            for rival in floor.rivals(group, form):
                assert part is not None
                edge = floor.edge(form, rival)
                if edge is None:
                    if rival < form:
                        raise RefusedError(
                            f"form {winner} of group {floor.column + group} coincides there with "
                            f"form {rival - floor.layer.starts[group]}, which names the cell",
                            begin + first,
                        )
                    tied.append(rival)
                    continue
                signs = None
                if part is node.polygon:
                    signs = known.get(edge >> 1)
                    if signs is None:
                        signs = floor.piece.plane.signs(part.vertices, edge >> 1)
                        known[edge >> 1] = signs
                part = floor.piece.plane.clip(part, edge, signs)
                if part is None:
                    break
            if part is not None:
                ties = (*node.ties, (group, tied)) if len(tied) > 1 else node.ties
                cells = (begin + first, begin + i)
                choices = (*node.choices, form)
                children.append(_Node(floor, node.position + 1, part, cells, choices, ties))
        return children


class _Layer(NamedTuple):
    """A layer, exact and rounded."""

    exact: ExactLayer
    rounded: RoundedLayer
    n_groups: int
    starts: list[int]
    first_forms: IntArray
    group_of: IntArray

    @classmethod
    def read(cls, exact: ExactLayer) -> "_Layer":
        """Round a layer."""
        first_forms = np.array(exact.starts[:-1])
        rounded = rounded_layer(exact)
        return cls(exact, rounded, exact.n_groups, exact.starts, first_forms, exact.group_of)


class _Floor:
    """A layer on the polygon where the layers before it are affine.

    What is certain in floating point is settled there; exact forms are composed when asked for.

    Attributes:
        piece: The piece of the domain.
        column: The first column of the layer in a signature.
        layer: The layer.
        is_last: Whether it is the last.
        pending: The groups with several listed winners, or with a rival that may not be beaten.
    """

    def __init__(
        self,
        walk: TreeWalk,
        piece: Piece,
        index: int,
        column: int,
        rounded: Enclosure,
        exact: "Forms | _Above",
        cells: tuple[int, int],
        polygon: Polygon,
        corners_known: tuple[FloatArray, FloatArray] | None = None,
    ) -> None:
        layer = walk.layers[index]
        self.piece, self.column, self.layer = piece, column, layer
        self.is_last = index + 1 == len(walk.layers)
        self.cells, self.polygon = cells, polygon
        self._walk, self._index = walk, index
        self._stream, self._exact = rounded, exact
        self._rows: list[list[fmpz]] | None = None
        self._edges: dict[tuple[int, int], int | None] = {}
        self._rivals: dict[int, list[int]] = {}
        scores = self._scores = layer.rounded.scores.times(rounded)
        if corners_known is None:
            corners_known = corners(piece.plane, polygon)
        points, size = self._corners = corners_known
        value = scores.centre @ points
        # The radii have room for the rounding of the value.
        error = scores.radius @ size
        error *= 1.0 + RELATIVE
        error += ABSOLUTE
        low, high = self._low, self._high = value - error, value + error
        block = walk.signatures[cells[0] : cells[1], column : column + layer.n_groups]
        self._first = block[0] + layer.first_forms
        # `take` and `reduce`: for small arrays half the time of indexing and of methods.
        best = self._first.take(layer.group_of)
        beaten = np.logical_and.reduce(low.take(best, axis=0) > high, axis=1)
        beaten[self._first] = True
        settled = np.logical_and.reduceat(beaten, layer.first_forms)
        if len(block) > 1:
            settled &= np.logical_and.reduce(block == block[0])
        self.pending: list[int] = (~settled).nonzero()[0].tolist()

    def above(self, node: "_Node") -> "_Floor":
        """Return the next layer, on the polygon of a node with all groups decided."""
        winners = self._first.copy()
        winners[self.pending] = node.choices
        later = _Above(self, winners.tolist(), dict(node.ties))
        exact: Forms | _Above = later
        if node.ties:
            exact = later.forms()
            rounded = enclosed(exact)
        else:
            rounded = self.layer.rounded.after(self._stream, self._scores, winners)
        column = self.column + self.layer.n_groups
        return _Floor(
            self._walk,
            self.piece,
            self._index + 1,
            column,
            rounded,
            exact,
            node.cells,
            node.polygon,
            self._corners if node.polygon is self.polygon else None,
        )

    def stream(self) -> Forms:
        """Return the exact forms before the layer."""
        if isinstance(self._exact, _Above):
            self._exact = self._exact.forms()
        return self._exact

    def rows(self) -> list[list[fmpz]]:
        """Return the exact scores; in the last layer only those of the pending groups."""
        if self._rows is None:
            groups = self.pending if self.is_last else None
            self._rows = self.layer.exact.score_rows(self.stream(), groups)
        return self._rows

    def rivals(self, group: int, form: int) -> list[int]:
        """List the forms of a group that another is not proved to beat on the whole polygon."""
        rivals = self._rivals.get(form)
        if rivals is None:
            start, end = self.layer.starts[group], self.layer.starts[group + 1]
            if end - start == 2:
                return [start + end - 1 - form]
            open_ = ~np.logical_and.reduce(self._low[form] > self._high[start:end], axis=1)
            open_[form - start] = False
            rivals = [start + int(j) for j in np.flatnonzero(open_)]
            self._rivals[form] = rivals
        return rivals

    def edge(self, form: int, rival: int) -> int | None:
        """Return the half-plane where a form is at least its rival; None if they coincide."""
        key = (form, rival)
        if key in self._edges:
            return self._edges[key]
        rows = self.rows()
        a, b, c = (int(x - y) for x, y in zip(rows[form], rows[rival], strict=True))
        edge = self.piece.wall(a, b, c) if a or b or c else None
        self._edges[key] = edge
        self._edges[rival, form] = None if edge is None else edge ^ 1
        return edge


class _Above(NamedTuple):
    """The exact forms after a layer, not yet composed."""

    floor: _Floor
    winners: list[int]
    ties: dict[int, list[int]]

    def forms(self) -> Forms:
        """Compose them."""
        floor = self.floor
        return floor.layer.exact.after(floor.stream(), floor.rows(), self.winners, self.ties)


class _Node(NamedTuple):
    """A polygon on which some pending groups of a layer are decided."""

    floor: _Floor
    position: int
    polygon: Polygon
    cells: tuple[int, int]
    choices: tuple[int, ...]
    ties: tuple[tuple[int, list[int]], ...]


def _node(floor: _Floor) -> _Node:
    return _Node(floor, 0, floor.polygon, floor.cells, (), ())


def _quotient(x: int, w: int) -> str:
    try:
        return f"{x / w:.6g}"
    except OverflowError:
        return "inf" if x > 0 else "-inf"
