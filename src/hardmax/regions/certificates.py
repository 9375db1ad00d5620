r"""Make a certificate for a list of cells, regardless of the engine that found them.

A certificate contains a rational point in every cell and, above dimension 2, a proof for every
branch that the list does not take. The engine proposes floats as points; point location decides
whether they lie in their cells (`_location/points.py`). The remaining points, and the proofs, come
from Gordan's alternative (`geometry.cones`): a list of strict linear inequalities either has a
common solution, or a positive combination of them is zero. A list with an empty cell cannot be
certified, nor, by refusals, a list with a missing cell; the error names the cell. This module uses
no code of the verifier.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from hardmax._ground.arguments import Sizes
from hardmax._ground.progress import track
from hardmax._ground.records import fingerprint
from hardmax.errors import ArgumentError
from hardmax.exact.integer_vectors import Vector, dot, primitive, wide_rows
from hardmax.geometry.cones import ConeDecision, decide_open_cone
from hardmax.models._arithmetic.recomposition import RationalForms, layer_output, layer_scores
from hardmax.models.argmax import ArgmaxLayer, ArgmaxNetwork
from hardmax.models.model_arguments import read_network
from hardmax.regions._location.points import CellLocator
from hardmax.regions.cell_rows import cell_rows
from hardmax.regions.certificate_format import (
    REFUSALS,
    TILING,
    Certificate,
    Proof,
    domain_fingerprint,
    integer_table,
)
from hardmax.regions.certificate_parts import PartContext
from hardmax.regions.charted_domains import ChartedDomain, charted, embedded
from hardmax.typing import ArrayLike, DomainLike, FloatArray, IntArray, ModelLike


def make_certificate(
    model: ModelLike,
    domain: DomainLike,
    signatures: ArrayLike,
    witnesses: Any = None,
    *,
    kind: str | None = None,
) -> Certificate:
    """Make a certificate that a list of signatures contains every cell of a model on a domain.

    A certificate of kind `"tiling"` is cheap to make, but its completeness is not checked here: a
    missing cell is detected only by `verify_certificate`. For the kind `"refusals"`, the proofs are
    found here, and a missing cell raises an error here.

    Args:
        model: The model, as for `enumerate_regions`.
        domain: A domain in the input space, or its text.
        signatures: The cells, integers of shape `(n_cells, n_groups)`.
        witnesses: A point for each cell in the domain's coordinates: floats of shape
            `(n_cells, dim)`, or integers `(p, q)` that stand for the point `p / q`, of shape
            `(n_cells, dim + 1)` and dtype object. Points that do not lie in their cells are
            replaced. By default, all points are computed.
        kind: `"tiling"` (in dimensions 1 and 2) or `"refusals"` (in any dimension). The default is
            a tiling in dimensions 1 and 2, refusals above.

    Raises:
        ArgumentError: If a listed cell is empty or listed twice, or if a missing cell is found.
        ShapeMismatchError: If an array has the wrong shape.

    Examples:
        >>> from hardmax import ReluNetwork, WholeSpace
        >>> net = ReluNetwork([[[1.0, 1.0]], [[1.0], [1.0]]], [[0.0, -1.0], None])
        >>> make_certificate(net, WholeSpace(1), [[0, 0], [1, 0], [1, 1]])
        Certificate(3 cells, dimension 1, by tiling)
        >>> make_certificate(net, WholeSpace(1), [[0, 0], [1, 1]], kind="refusals")
        Traceback (most recent call last):
            ...
        hardmax.errors.ArgumentError: `signatures` must list every cell, but a cell is missing. Its
        signature begins like [1, 1], except that layer 0, unit 1, form 0 wins.
    """
    return make_part(model, domain, signatures, witnesses, kind=kind)


def make_part(
    model: Any,
    domain: Any,
    signatures: ArrayLike,
    witnesses: Any = None,
    *,
    kind: str | None = None,
    context: PartContext | None = None,
) -> Certificate:
    """Make a part of a certificate.

    Args:
        model: The model, as in `make_certificate`.
        domain: The domain, as in `make_certificate`.
        signatures: The cells of the part, in order.
        witnesses: Points in these cells.
        kind: The kind of the certificate, as in `make_certificate`.
        context: For refusals, the representatives of the other parts (see `part_contexts`). None if
            this is the only part.
    """
    network = read_network(model)
    place = charted(domain, network.dim_in)
    if kind is None:
        kind = TILING if place.dim <= 2 else REFUSALS
    if kind not in (TILING, REFUSALS) or (kind == TILING and place.dim > 2):
        raise ArgumentError(
            f"`kind` must be 'refusals', or 'tiling' for a domain of dimension 1 or 2; got "
            f"{kind!r} for a domain of dimension {place.dim}."
        )
    table = _signatures(network, signatures)
    order = _order(table)
    chart, denominator = _chart(place)
    chart_table = integer_table(chart, place.dim + 1)
    rows = integer_table([list(row) for row in place.exact_rows.tolist()], place.dim + 1)
    given = _candidates(witnesses, len(table), place.dim)
    given = [given[i] for i in order.tolist()]
    proofs: list[Proof] = []
    if kind == REFUSALS:
        before, behind = context or PartContext(table[:0], table[:0])
        cells = np.concatenate([before, table[order], behind]).astype(np.int64)
        walk = _Walk(network, place, cells, (len(before), len(before) + len(table)))
        with track(iter(()), "cells certified", len(table)) as bar:
            # If there are several parts, the caller shows the progress.
            walk.run(given, bar.advance if context is None else lambda n_cells: None)
        points, proofs = walk.witnesses, walk.proofs
    else:
        points = _tiling_points(network, place, table[order], given)
    found: list[Vector] = [()] * len(table)
    for i, point in zip(order.tolist(), points, strict=True):
        found[i] = point
    return Certificate(
        model=fingerprint(network),
        chart=chart_table,
        chart_denominator=denominator,
        rows=rows,
        domain_fingerprint=domain_fingerprint(chart_table, denominator, rows),
        signatures=table,
        witnesses=integer_table([list(point) for point in found], place.dim + 1),
        kind=kind,
        proofs=tuple(proofs),
    )


def _signatures(network: ArgmaxNetwork, signatures: ArrayLike) -> IntArray:
    sizes = Sizes(n_groups=network.n_groups)
    table = sizes.ints("signatures", signatures, ("n_cells", "n_groups"), nonempty=("n_cells",))
    n_forms = [n for layer in network.layers for n in np.diff(layer.starts).tolist()]
    outside = (table < 0) | (table >= np.array(n_forms, dtype=np.int64))
    if outside.any():
        cell, group = (int(i) for i in np.argwhere(outside)[0])
        raise ArgumentError(
            f"`signatures` must contain indices from 0 to {n_forms[group] - 1} in column {group}; "
            f"got {table[cell, group]} in row {cell}."
        )
    table = table.copy()
    table.setflags(write=False)
    return table


def _order(table: IntArray) -> IntArray:
    order = np.lexsort(table.T[::-1]) if table.shape[1] else np.arange(len(table))
    ordered = table[order]
    twice = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1))
    if twice.size:
        raise ArgumentError(
            f"`signatures` must list each cell once; got {ordered[twice[0]].tolist()} twice."
        )
    return np.asarray(order)


def _candidates(witnesses: Any, n_cells: int, dim: int) -> list[Vector | None]:
    """Return the points that the caller proposes as integers (p, q)."""
    if witnesses is None:
        return [None] * n_cells
    if isinstance(witnesses, np.ndarray) and witnesses.dtype == object:
        if witnesses.shape != (n_cells, dim + 1) or not all(
            type(x) is int for x in witnesses.ravel().tolist()
        ):
            raise ArgumentError(
                "`witnesses` with dtype object must contain Python integers and have the shape "
                f"({n_cells}, {dim + 1}); got an array of shape {witnesses.shape}."
            )
        return [tuple(row) if row[-1] > 0 else None for row in witnesses.tolist()]
    points = Sizes(n_cells=n_cells, dim=dim).floats("witnesses", witnesses, ("n_cells", "dim"))
    return [_exact(point) for point in points]


def _chart(place: ChartedDomain) -> tuple[list[list[int]], int]:
    forms = place.coordinates
    up, down = max(forms.exponent, 0), max(-forms.exponent, 0)
    rows = [[int(x) << up for x in row] for row in forms.rows]
    return rows, forms.denominator << down


def _tiling_points(
    network: ArgmaxNetwork,
    place: ChartedDomain,
    signatures: IntArray,
    given: list[Vector | None],
) -> list[Vector]:
    """Find a point in every cell: the given point if it lies in the cell."""
    floats = np.array([_as_floats(point, place.dim) for point in given])
    known = np.flatnonzero(np.isfinite(floats).all(axis=1))
    is_inside = np.zeros(len(given), dtype=np.bool_)
    if len(known):
        is_inside[known] = CellLocator(network, place, signatures)(floats[known]) == known
    return [
        _exact(floats[i]) if is_inside[i] else _point_inside(network, place, signature, given[i])
        for i, signature in enumerate(signatures.tolist())
    ]


def _as_floats(point: Vector | None, dim: int) -> list[float]:
    """Return the coordinates of a point as floats; NaN if they are not floats."""
    nothing = [float("nan")] * dim
    if point is None:
        return nothing
    try:
        floats = [x / point[-1] for x in point[:-1]]
    except OverflowError:
        return nothing
    return floats if [Fraction(x) * point[-1] for x in floats] == [*point[:-1]] else nothing


def _exact(point: FloatArray) -> Vector:
    """Return integers `(p, q)` for the point `p / q`."""
    ratios = [x.as_integer_ratio() for x in point.tolist()]
    scale = max(q for _, q in ratios)
    return (*(p * (scale // q) for p, q in ratios), scale)


def _point_inside(
    network: ArgmaxNetwork, place: ChartedDomain, signature: list[int], given: Vector | None
) -> Vector:
    """Find a point in a cell from its inequalities."""
    rows = [*cell_rows(network, place, signature).walls, place.cone_rows[-1]]
    if given is not None and all(dot(row, given) > 0 for row in rows):
        return primitive(given)
    direction = decide_open_cone(wide_rows(rows, place.dim + 1)).direction
    if direction is None:
        raise ArgumentError(
            f"`signatures` must list cells with nonempty interior; the cell of {signature} is "
            "empty."
        )
    return primitive(direction.tolist())


@dataclass(frozen=True, eq=False)
class _Floor:
    """A layer restricted to an open set on which the earlier layers are affine."""

    index: int
    layer: ArgmaxLayer
    column: int
    first_form: int
    stream: RationalForms
    scores: RationalForms
    vectors: list[Vector]
    names: list[int]


@dataclass(frozen=True, eq=False)
class _Node:
    """A range of cells, the forms that win in them, and the forms to be refused."""

    floor: _Floor | None
    cells: tuple[int, int]
    present: list[list[int]]
    refused: list[tuple[int, int]]
    rows: tuple[tuple[int, Vector], ...]


@dataclass(eq=False)
class _Walk:
    """A traversal of the tree of signatures in the order in which proofs are written.

    For a part of a certificate, the traversal visits only nodes with cells of this part, and proves
    only nodes whose first cell belongs to this part. Other parts prove the remaining nodes.
    """

    network: ArgmaxNetwork
    place: ChartedDomain
    signatures: IntArray
    own: tuple[int, int]
    witnesses: list[Vector] = field(default_factory=list)
    proofs: list[Proof] = field(default_factory=list)

    def run(self, candidates: list[Vector | None], advance: Callable[[int], None]) -> None:
        """Find the witnesses of the part's cells, in order, and the proofs; report each cell."""
        first, end = self.own
        *domain, height = self.place.cone_rows
        self.n_domain_rows = len(domain)
        rows = tuple(enumerate([height, *domain]))
        n_cells = len(self.signatures)
        stream = embedded(self.network, self.place)
        stack = [self._enter(0, 0, 0, stream, (0, n_cells), rows)]
        while stack:
            node = stack.pop()
            if node.cells[0] >= end or node.cells[1] <= first:
                continue
            if node.floor is None:
                self.witnesses.append(self._witness(node, candidates[node.cells[0] - first]))
                advance(1)
                continue
            for group, form in node.refused if node.cells[0] >= first else ():
                self.proofs.append(self._proof(node.floor, node, group, form))
            split = next((g for g, forms in enumerate(node.present) if len(forms) > 1), None)
            if split is None:
                stack.append(self._next_layer(node.floor, node))
            else:
                stack += reversed(self._children(node.floor, node, split))

    def _enter(
        self,
        index: int,
        column: int,
        first_form: int,
        stream: RationalForms,
        cells: tuple[int, int],
        rows: tuple[tuple[int, Vector], ...],
    ) -> _Node:
        if index == len(self.network.layers):
            return _Node(None, cells, [], [], rows)
        layer = self.network.layers[index]
        scores = layer_scores(layer, stream)
        vectors = [tuple(int(x) for x in row) for row in scores.rows]
        starts = layer.starts.tolist()
        names: list[int] = []
        for start, end in pairwise(starts):
            first: dict[Vector, int] = {}
            names += [first.setdefault(vectors[form], form) for form in range(start, end)]
        floor = _Floor(index, layer, column, first_form, stream, scores, vectors, names)
        present = [self._present(floor, group, cells) for group in range(layer.n_groups)]
        for group, forms in enumerate(present):
            for form in forms:
                if names[form] != form:
                    raise ArgumentError(
                        "`signatures` must contain the first of several coinciding forms, which "
                        f"is {names[form] - starts[group]} in column {column + group}; got "
                        f"{form - starts[group]}."
                    )
        refused = [
            (group, form)
            for group in range(layer.n_groups)
            for form in range(starts[group], starts[group + 1])
            if names[form] == form and form not in present[group]
        ]
        return _Node(floor, cells, present, refused, rows)

    def _present(self, floor: _Floor, group: int, cells: tuple[int, int]) -> list[int]:
        column = self.signatures[cells[0] : cells[1], floor.column + group].tolist()
        start = int(floor.layer.starts[group])
        return [start + winner for winner in sorted(set(column))]

    def _rows(self, floor: _Floor, group: int, winner: int) -> tuple[tuple[int, Vector], ...]:
        """Return the primitive rows of winner minus rival, with their names."""
        starts = floor.layer.starts
        best = floor.vectors[winner]
        offset = 1 + self.n_domain_rows + floor.first_form
        return tuple(
            (
                offset + rival,
                primitive(x - y for x, y in zip(best, floor.vectors[rival], strict=True)),
            )
            for rival in range(int(starts[group]), int(starts[group + 1]))
            if floor.names[rival] == rival != winner
        )

    def _children(self, floor: _Floor, node: _Node, split: int) -> list[_Node]:
        begin, end = node.cells
        column = self.signatures[begin:end, floor.column + split]
        children = []
        for form in node.present[split]:
            inside = np.flatnonzero(column == form - int(floor.layer.starts[split]))
            cells = (begin + int(inside[0]), begin + int(inside[-1]) + 1)
            present = [
                self._present(floor, group, cells) if len(forms) > 1 else forms
                for group, forms in enumerate(node.present)
            ]
            lost = [
                (group, gone)
                for group, forms in enumerate(node.present)
                if group != split
                for gone in forms
                if gone not in present[group]
            ]
            # Forms refused at an ancestor cannot win here, so only present forms bound the child.
            offset = 1 + self.n_domain_rows + floor.first_form
            rows = tuple(
                row
                for row in self._rows(floor, split, form)
                if row[0] - offset in node.present[split]
            )
            children.append(_Node(floor, cells, present, lost, node.rows + rows))
        return children

    def _next_layer(self, floor: _Floor, node: _Node) -> _Node:
        layer = floor.layer
        if floor.index + 1 == len(self.network.layers):
            return _Node(None, node.cells, [], [], node.rows)
        winners = [
            forms[0] - int(start)
            for forms, start in zip(node.present, layer.starts[:-1], strict=True)
        ]
        stream = layer_output(layer, floor.stream, floor.scores, winners)
        column, form = floor.column + layer.n_groups, floor.first_form + len(layer.offsets)
        return self._enter(floor.index + 1, column, form, stream, node.cells, node.rows)

    def _decide(self, rows: tuple[tuple[int, Vector], ...]) -> ConeDecision:
        return decide_open_cone(wide_rows([row for _, row in rows], self.place.dim + 1))

    def _proof(self, floor: _Floor, node: _Node, group: int, form: int) -> Proof:
        rows = node.rows + self._rows(floor, group, form)
        decision = self._decide(rows)
        if decision.support is None or decision.multipliers is None:
            begins = self.signatures[node.cells[0], : floor.column + group + 1].tolist()
            number = form - int(floor.layer.starts[group])
            raise ArgumentError(
                "`signatures` must list every cell, but a cell is missing. Its signature begins "
                f"like {begins}, except that "
                f"{self.network.name_wall(floor.index, group, number)} wins."
            )
        names = [rows[i][0] for i in decision.support.tolist()]
        return tuple(zip(names, decision.multipliers, strict=True))

    def _witness(self, node: _Node, candidate: Vector | None) -> Vector:
        if candidate is not None and all(dot(row, candidate) > 0 for _, row in node.rows):
            return primitive(candidate)
        decision = self._decide(node.rows)
        if decision.direction is None:
            raise ArgumentError(
                "`signatures` must list cells with nonempty interior; the cell of "
                f"{self.signatures[node.cells[0]].tolist()} is empty."
            )
        return primitive(decision.direction.tolist())
