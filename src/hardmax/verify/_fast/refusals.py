r"""Check completeness in any dimension, with a proof for every branch without listed cells.

The signatures form a tree, split group by group. A node stands for the open subset of the domain
where the groups decided on the path to the node have the recorded winners. Suppose that at every
node, every form of the next group either leads to a listed cell or is refused by a proof that it
wins on no open part of the node. Then no open cell is missing, because its points would leave the
tree somewhere. The proofs use Farkas' lemma: positive integers $\lambda_i$ and rows $r_i$ with
$\sum_i \lambda_i r_i = 0$, where each row is positive at $(t, 1)$ for all $t$ in the open set in
question.

A form that is absent below a node is also absent below its descendants, so it is refused once, as
high up as possible. The proofs are in the order of this walk (`docs/certificates.md`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import gcd

import numpy as np
from flint import fmpz_mat

from hardmax.regions.certificate_format import Proof
from hardmax.typing import IntArray, WideArray
from hardmax.verify._fast.composition import ExactNetwork
from hardmax.verify._fast.layers import ExactLayer
from hardmax.verify._fast.packing import Forms


class RefusedError(Exception):
    """The certificate is wrong; the message states the reason.

    Attributes:
        cell: The index of the wrong cell in the order of the walk, or None.
    """

    def __init__(self, reason: str, cell: int | None = None) -> None:
        super().__init__(reason)
        self.cell = cell


def check_refusals(
    network: ExactNetwork,
    rows: WideArray,
    signatures: IntArray,
    witnesses: list[list[int]],
    proofs: tuple[Proof, ...],
    share: tuple[int, int] | None = None,
    advance: Callable[[int], None] = lambda n_cells: None,
) -> None:
    """Check that each cell contains its witness and that every absent branch is refused.

    Args:
        network: The network on the domain's chart.
        rows: The inequalities of the domain, integers `(a, b)`, shape `(n_rows, dim + 1)`.
        signatures: Distinct signatures in lexicographic order, with every entry in range.
        witnesses: For each signature, integers `(p, q)` with `q > 0`.
        proofs: The proofs in the order of the walk.
        share: The range of cells to check, if not all. The witnesses of these cells are checked,
            and the branches of all nodes whose first cell is in the range. So every branch belongs
            to some share.
        advance: Called with the number of cells newly checked.

    Raises:
        RefusedError: If the certificate is wrong.
    """
    domain = [[-x for x in row[:-1]] + [row[-1]] for row in rows.tolist()]
    own = share or (0, len(signatures))
    for cell, point in enumerate(witnesses[own[0] : own[1]], own[0]):
        for row in domain:
            if any(row) and sum(x * y for x, y in zip(row, point, strict=True)) <= 0:
                raise RefusedError("the witness is not inside the domain", cell)
    height = [0] * (rows.shape[1] - 1) + [1]
    supply = iter(proofs)
    _Walk(network, [height, *domain], signatures, witnesses, supply, own).run(advance)
    if next(supply, None) is not None:
        raise RefusedError("the certificate has more proofs than branches to refuse")


@dataclass(frozen=True, eq=False)
class _Place:
    """A layer on an open set on which the earlier layers are affine.

    Attributes:
        index: The index of the layer.
        layer: The layer.
        column: The first column of the layer in a signature.
        first_form: The number of the layer's first form among all layers.
        stream: The forms before the layer.
        scores: The coefficients of the scores.
    """

    index: int
    layer: ExactLayer
    column: int
    first_form: int
    stream: Forms
    scores: list[tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class _Node:
    """A range of cells.

    Attributes:
        place: The layer being decided.
        cells: The range.
        present: For each group of the layer, the forms that win in some cells of the range.
        refused: The pairs (group, form) to refuse here.
        decided: The place and the winning form of each column that was split on the path or belongs
            to an earlier layer.
    """

    place: _Place
    cells: tuple[int, int]
    present: list[list[int]]
    refused: list[tuple[int, int]]
    decided: dict[int, tuple[_Place, int]]


@dataclass(frozen=True, eq=False)
class _Walk:
    """The tree of signatures, walked depth first.

    Attributes:
        network: The network.
        rows: The row of the homogenizing coordinate, then the rows of the domain; positive inside.
        signatures: The cells.
        witnesses: The witnesses of the cells.
        supply: The proofs not yet used.
        own: The range of cells that are checked.
    """

    network: ExactNetwork
    rows: list[list[int]]
    signatures: IntArray
    witnesses: list[list[int]]
    supply: Iterator[Proof]
    own: tuple[int, int]

    def run(self, advance: Callable[[int], None]) -> None:
        """Walk the tree and consume the proofs; report every cell that has been checked."""
        stack = self._enter(0, 0, 0, self.network.stream, (0, len(self.signatures)), {})
        while stack:
            node = stack.pop()
            for group, form in node.refused if node.cells[0] >= self.own[0] else ():
                self._check_proof(node, group, form)
            split = next((g for g, forms in enumerate(node.present) if len(forms) > 1), None)
            if split is None:
                above = self._next_layer(node)
                stack += above
                if not above:
                    advance(1)
            else:
                children = self._children(node, split)
                stack += reversed([child for child in children if self._own(child.cells)])

    def _own(self, cells: tuple[int, int]) -> range:
        """Return the cells of a range that are checked."""
        return range(max(cells[0], self.own[0]), min(cells[1], self.own[1]))

    def _enter(
        self,
        index: int,
        column: int,
        first_form: int,
        stream: Forms,
        cells: tuple[int, int],
        decided: dict[int, tuple[_Place, int]],
    ) -> list[_Node]:
        """Return the node that starts a layer; none if the network has no layers."""
        if not self.network.layers:
            return []
        layer = self.network.layers[index]
        scores = [stream.packing.unpack(int(row)) for row in layer.score_rows(stream)]
        place = _Place(index, layer, column, first_form, stream, scores)
        names = [
            next(i for i in range(start, end) if place.scores[i] == place.scores[form])
            for start, end in zip(layer.starts, layer.starts[1:], strict=False)
            for form in range(start, end)
        ]
        self._check_cells(place, names, cells)
        present = [self._present(place, group, cells) for group in range(layer.n_groups)]
        refused = [
            (group, form)
            for group in range(layer.n_groups)
            for form in range(layer.starts[group], layer.starts[group + 1])
            if names[form] == form and form not in present[group]
        ]
        return [_Node(place, cells, present, refused, decided)]

    def _check_cells(self, place: _Place, names: list[int], cells: tuple[int, int]) -> None:
        """Check at every witness of a range that the listed forms of a layer win."""
        layer = place.layer
        own = self._own(cells)
        points = fmpz_mat([self.witnesses[cell] for cell in own]).transpose()
        values = (fmpz_mat(place.scores) * points).transpose().tolist()
        for cell, at_witness in zip(own, values, strict=True):
            for group, winner in enumerate(self._winners(place, cell)):
                best = at_witness[winner]
                if names[winner] != winner:
                    raise RefusedError(layer.describe_tie(winner, names[winner]), cell)
                for form in range(layer.starts[group], layer.starts[group + 1]):
                    if at_witness[form] >= best and names[form] != winner:
                        raise RefusedError("the witness is not inside its cell", cell)

    def _winners(self, place: _Place, cell: int) -> list[int]:
        row = self.signatures[cell, place.column : place.column + place.layer.n_groups].tolist()
        return [start + w for start, w in zip(place.layer.starts, row, strict=False)]

    def _present(self, place: _Place, group: int, cells: tuple[int, int]) -> list[int]:
        column = self.signatures[cells[0] : cells[1], place.column + group].tolist()
        return [place.layer.starts[group] + w for w in sorted(set(column))]

    def _children(self, node: _Node, split: int) -> list[_Node]:
        """Split a range by the winner of a group."""
        place, (begin, end) = node.place, node.cells
        column = self.signatures[begin:end, place.column + split]
        children = []
        for form in node.present[split]:
            inside = np.flatnonzero(column == form - place.layer.starts[split])
            # The cells are sorted and agree before this column, so equal entries are consecutive.
            cells = (begin + int(inside[0]), begin + int(inside[-1]) + 1)
            present = [
                self._present(place, group, cells) if len(forms) > 1 else forms
                for group, forms in enumerate(node.present)
            ]
            refused = [
                (group, lost)
                for group, forms in enumerate(node.present)
                if group != split
                for lost in forms
                if lost not in present[group]
            ]
            decided = {**node.decided, place.column + split: (place, form)}
            children.append(_Node(place, cells, present, refused, decided))
        return children

    def _next_layer(self, node: _Node) -> list[_Node]:
        place, layer = node.place, node.place.layer
        if place.index + 1 == len(self.network.layers):
            return []
        winners = [forms[0] for forms in node.present]
        ties = {}
        for group, winner in enumerate(winners):
            group_forms = range(layer.starts[group], layer.starts[group + 1])
            ties[group] = [f for f in group_forms if place.scores[f] == place.scores[winner]]
        stream = layer.after(place.stream, winners, {g: f for g, f in ties.items() if len(f) > 1})
        decided = dict(node.decided)
        decided.update({place.column + g: (place, w) for g, w in enumerate(winners)})
        column, form = place.column + layer.n_groups, place.first_form + layer.n_forms
        return self._enter(place.index + 1, column, form, stream, node.cells, decided)

    def _check_proof(self, node: _Node, group: int, form: int) -> None:
        """Check the next proof, that a form wins nowhere in a node."""
        layer, column = node.place.layer, node.place.column + group
        what = (
            f"{layer.name(form)} wins in no listed cell next to "
            f"{self.signatures[node.cells[0]].tolist()}"
        )
        proof = next(self.supply, None)
        if proof is None:
            raise RefusedError(f"{what}, and no proof excludes it: a cell may be missing")
        decided = {**node.decided, column: (node.place, form)}
        total = [0] * len(self.rows[0])
        for name, multiplier in proof:
            row = self._row(name, decided)
            if multiplier <= 0 or row is None:
                raise RefusedError(
                    f"{what}, and the proof uses an inequality that does not hold there"
                )
            total = [x + multiplier * y for x, y in zip(total, row, strict=True)]
        if not proof or any(total):
            raise RefusedError(f"{what}, and the proof does not add up to zero")

    def _row(self, name: int, decided: dict[int, tuple[_Place, int]]) -> list[int] | None:
        """Return a primitive row by its name; None if it does not hold strictly in the node."""
        if name < 0:
            return None
        if name < len(self.rows):
            return _primitive(self.rows[name])
        form, column = name - len(self.rows), 0
        for layer in self.network.layers:
            if form < layer.n_forms:
                found = decided.get(column + int(layer.group_of[form]))
                if found is None:
                    return None
                place, winner = found
                pairs = zip(place.scores[winner], place.scores[form], strict=True)
                return _primitive([x - y for x, y in pairs])
            form -= layer.n_forms
            column += layer.n_groups
        return None


def _primitive(row: list[int]) -> list[int] | None:
    divisor = gcd(*row)
    return [x // divisor for x in row] if divisor else None
