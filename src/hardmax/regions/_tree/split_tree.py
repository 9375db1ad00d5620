r"""The exact engine for any dimension: a tree of splits, with an integer proof of every answer.

A node is an open polyhedron: the part of the domain where given forms win the groups decided so
far. A group splits a node into one child for each form that wins on an open part. Gordan's theorem,
applied to the homogenized rows, decides whether a form does: there is either an integer point
inside, or a positive combination of rows that vanishes (a Farkas proof that the child is empty). An
open node always has a leaf below it, so the work is polynomial in the size of the answer. Nothing
is assumed about how cells meet.

For each group, a child keeps only the rows against forms that win somewhere in the node. If $j$
beats all of these on an open set, it also beats the others there, because otherwise one of the
others would win on an open part of the set.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import NamedTuple

import numpy as np

from hardmax._ground.deadlines import TimeLimitReached, deadline_within
from hardmax._ground.interrupts import defer_interrupts, pack_when_done
from hardmax._ground.progress import Progress, track
from hardmax.exact.decisions import Decisions
from hardmax.exact.integer_vectors import Vector, dot, primitive, wide_rows
from hardmax.geometry.cones import decide_open_cone
from hardmax.models._arithmetic.recomposition import RationalForms, layer_output, layer_scores
from hardmax.models.argmax import ArgmaxLayer, ArgmaxNetwork
from hardmax.regions.cell_arrays import CellArrays
from hardmax.regions.cells import Cells
from hardmax.regions.charted_domains import ChartedDomain, charted, embedded
from hardmax.typing import IntArray, WideArray

RowName = tuple[int, int, int, int]
"""`(layer, group, winner, rival)` of a row winner minus rival; `(-1, i, 0, 0)` for row `i` of the
domain; `(-2, 0, 0, 0)` for the row that keeps the homogenizing coordinate positive."""

_HEIGHT: RowName = (-2, 0, 0, 0)
_ROWS_WORTH_PRUNING = 3


class Refusal(NamedTuple):
    r"""A proof that a form wins nowhere in a node.

    Let $r_i$ be the named rows for the prefix, each reduced to coprime integers. Then
    $\sum_i \lambda_i r_i = 0$.

    Attributes:
        prefix: The winners of the groups decided before, and -1 for each group of the layer that is
            still pending.
        layer: The layer of the refused form.
        group: Its group within the layer.
        form: Its index within the group.
        rows: The names of the rows.
        multipliers: The positive integers $\lambda_i$.
    """

    prefix: tuple[int, ...]
    layer: int
    group: int
    form: int
    rows: tuple[RowName, ...]
    multipliers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Leaf:
    """A cell of the tree.

    Attributes:
        signature: The winners of all groups.
        witness: Integers `(p, q)` with `p / q` inside the cell, `q > 0`.
        rows: Integer rows, positive at `(t, 1)` exactly in the cell; some may be redundant.
        stream: The stream after the last layer, as forms on the domain.
    """

    signature: tuple[int, ...]
    witness: Vector
    rows: tuple[Vector, ...]
    stream: RationalForms


class SplitCells(Cells):
    """The cells that the split tree found: their signatures and a point inside each.

    Args:
        network: The network.
        domain: The domain that was searched.
        arrays: The cells as arrays; only their signatures are stored.
        witnesses: Integers `(p, q)` with `p / q` inside each cell and `q > 0`; shape
            `(n_cells, dim + 1)`.
        refusals: The proofs that there are no other cells, if they were requested.
    """

    def __init__(
        self,
        network: ArgmaxNetwork,
        domain: ChartedDomain,
        arrays: CellArrays,
        witnesses: WideArray,
        refusals: tuple[Refusal, ...] | None,
    ) -> None:
        super().__init__(network, domain, arrays, witnesses)
        self.refusals = refusals


@dataclass(frozen=True, eq=False)
class _Region:
    """A layer on the region where the layers before it are affine."""

    index: int
    layer: ArgmaxLayer
    stream: RationalForms
    scores: RationalForms
    groups: list[dict[Vector, int]]


@dataclass(frozen=True, eq=False)
class _Node:
    """An open polyhedron on which some groups of a layer are decided."""

    region: _Region | None
    stream: RationalForms
    prefix: tuple[int, ...]
    winners: tuple[int, ...]
    pending: tuple[int, ...]
    rows: tuple[tuple[Vector, RowName], ...]
    witness: Vector


@dataclass
class SplitTree:
    """The search: iterate over `leaves`.

    Attributes:
        network: The network.
        domain: The domain.
        keep_refusals: Whether proofs are kept in `refusals`.
        decisions: Counts the decisions; all are made in integers.
        refusals: The proofs.
        deadline: The `time.monotonic()` after which the search ends.
        poll: Called before every decision.
        current_group: The layer and the group being decided on a whole region.
    """

    network: ArgmaxNetwork
    domain: ChartedDomain
    keep_refusals: bool = False
    decisions: Decisions = field(default_factory=Decisions)
    refusals: list[Refusal] = field(default_factory=list)
    deadline: float = inf
    poll: Callable[[], None] | None = None
    current_group: tuple[int, int] = (0, 0)

    def leaves(self) -> Iterator[Leaf]:
        """Yield every cell once, depth first.

        Raises:
            TimeLimitReached: After the deadline. Between two cells there may be any number of
                decisions.
        """
        stack = [self._root()]
        while stack:
            node = stack.pop()
            if node.region is None:
                yield Leaf(
                    node.prefix, node.witness, tuple(row for row, _ in node.rows), node.stream
                )
            elif node.pending:
                stack += reversed(self._split(node, node.pending[0]))
            else:
                stack.append(self._next_layer(node))

    def _check_time(self) -> None:
        if self.poll is not None:
            self.poll()
        if time.monotonic() > self.deadline:
            raise TimeLimitReached

    def _root(self) -> _Node:
        vectors = self.domain.cone_rows
        names: list[RowName] = [(-1, i, 0, 0) for i in range(len(vectors) - 1)]
        decision = decide_open_cone(wide_rows(vectors, self.domain.dim + 1))
        assert decision.direction is not None
        rows = tuple(zip(vectors, [*names, _HEIGHT], strict=True))
        stream = embedded(self.network, self.domain)
        return self._enter(0, stream, (), rows, tuple(decision.direction.tolist()))

    def _enter(
        self,
        index: int,
        stream: RationalForms,
        prefix: tuple[int, ...],
        rows: tuple[tuple[Vector, RowName], ...],
        witness: Vector,
    ) -> _Node:
        """Start a layer: decide the groups that have one winner on the whole region."""
        if index == len(self.network.layers):
            return _Node(None, stream, prefix, (), (), rows, witness)
        layer = self.network.layers[index]
        scores = layer_scores(layer, stream)
        region = _Region(index, layer, stream, scores, _distinct_forms(layer, scores))
        node = _Node(region, stream, prefix, (-1,) * layer.n_groups, (), rows, witness)
        winners, pending = list(node.winners), []
        for group in range(layer.n_groups):
            self.current_group = index, group
            children = self._split(node, group)
            if len(children) == 1:
                winners[group] = children[0].winners[group]
            else:
                pending.append(group)
        return _Node(region, stream, prefix, tuple(winners), tuple(pending), rows, witness)

    def _next_layer(self, node: _Node) -> _Node:
        region = node.region
        assert region is not None
        stream = layer_output(region.layer, region.stream, region.scores, node.winners)
        rows = node.rows
        is_last = region.index + 1 == len(self.network.layers)
        if not is_last and len(rows) > _ROWS_WORTH_PRUNING * (self.domain.dim + 1):
            rows = self._drop_redundant_rows(rows)
        return self._enter(region.index + 1, stream, node.prefix + node.winners, rows, node.witness)

    def _split(self, node: _Node, group: int) -> list[_Node]:
        """Split a node by a group, in the order of the forms."""
        region = node.region
        assert region is not None
        forms = region.groups[group]
        found: list[tuple[int, Vector, Vector]] = []
        if len(forms) == 1:
            found = [(form, vector, node.witness) for vector, form in forms.items()]
        else:
            values = {form: dot(vector, node.witness) for vector, form in forms.items()}
            best = max(values.values())
            at_witness = [form for form, value in values.items() if value == best]
            for vector, form in forms.items():
                self._check_time()
                if at_witness == [form]:
                    found.append((form, vector, node.witness))
                    continue
                witness = self._find_witness(node, group, form, vector)
                if witness is not None:
                    found.append((form, vector, witness))
        children = []
        for form, vector, witness in found:
            rows = tuple(
                (_difference(vector, other), (region.index, group, form, rival))
                for rival, other, _ in found
                if rival != form
            )
            winners = (*node.winners[:group], form, *node.winners[group + 1 :])
            pending = tuple(g for g in node.pending if g != group)
            kept = tuple(row for row in rows if any(row[0][:-1]))
            children.append(
                _Node(region, node.stream, node.prefix, winners, pending, node.rows + kept, witness)
            )
        return children

    def _find_witness(self, node: _Node, group: int, form: int, vector: Vector) -> Vector | None:
        """Find a point of a node where a form strictly wins, or keep the proof that none exists."""
        region = node.region
        assert region is not None
        rivals = [(v, rival) for v, rival in region.groups[group].items() if rival != form]
        vectors = [row for row, _ in node.rows]
        vectors += [_difference(vector, other) for other, _ in rivals]
        decision = decide_open_cone(wide_rows(vectors, len(vector)))
        self.decisions.record(rational=1)
        if decision.direction is not None:
            return tuple(decision.direction.tolist())
        if self.keep_refusals:
            assert decision.support is not None
            assert decision.multipliers is not None
            names = [name for _, name in node.rows]
            names += [(region.index, group, form, rival) for _, rival in rivals]
            self.refusals.append(
                Refusal(
                    node.prefix + node.winners,
                    region.index,
                    group,
                    form,
                    tuple(names[i] for i in decision.support.tolist()),
                    decision.multipliers,
                )
            )
        return None

    def _drop_redundant_rows(
        self, rows: tuple[tuple[Vector, RowName], ...]
    ) -> tuple[tuple[Vector, RowName], ...]:
        kept = list(dict(reversed(rows)).items())[::-1]
        i = 0
        while i < len(kept):
            self._check_time()
            vector, _ = kept[i]
            others = [other for k, (other, _) in enumerate(kept) if k != i]
            test = wide_rows([*others, tuple(-x for x in vector)], len(vector))
            self.decisions.record(rational=1)
            if decide_open_cone(test).is_open:
                i += 1
            else:
                del kept[i]
        return tuple(kept)


def explore(
    network: ArgmaxNetwork,
    domain: object,
    *,
    count_only: bool = False,
    max_cells: int | None = None,
    max_seconds: float | None = None,
    keep_refusals: bool = False,
) -> SplitCells:
    """Find all cells of a network on a domain of any dimension, exactly.

    Args:
        network: The network.
        domain: Any domain in its input space.
        count_only: Whether to count without storing.
        max_cells: Stop after this many cells.
        max_seconds: Stop after this time.
        keep_refusals: Whether to keep the proof of every refusal.

    Returns:
        The cells. If a limit stopped the search, they are incomplete and marked as such.

    Raises:
        Interrupted: On Ctrl-C, with the cells found until then.

    Examples:
        >>> from hardmax import ReluNetwork, WholeSpace
        >>> net = ReluNetwork([[[1.0, 0.0], [0.0, 1.0]], [[1.0], [1.0]]])
        >>> explore(net.network, WholeSpace(2)).signatures.tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    deadline = deadline_within(max_seconds)
    tree = SplitTree(network, charted(domain, network.dim_in), keep_refusals, deadline=deadline)
    signatures: list[tuple[int, ...]] = []
    witnesses: list[Vector] = []
    n_cells = 0

    def describe_progress() -> str:
        # There may be thousands of decisions before the first cell.
        layer, group = tree.current_group
        n_groups = network.layers[layer].n_groups if network.layers else 0
        return "" if n_cells else f"; layer {layer}, group {group} of {n_groups}"

    def work() -> bool:
        nonlocal n_cells
        bar: Progress[int] = track(0, "cells")
        with bar as progress:
            tree.poll = partial(progress.advance, 0, describe_progress)
            for leaf in tree.leaves():
                if n_cells == max_cells:
                    return False
                with defer_interrupts():
                    n_cells += 1
                    if not count_only:
                        signatures.append(leaf.signature)
                        witnesses.append(leaf.witness)
                progress.advance(1, describe_progress)
                if time.monotonic() > deadline:
                    return False
            return True

    def pack(is_complete: bool) -> SplitCells:
        cells = CellArrays(
            signatures=signature_table(signatures, network.n_groups),
            is_complete=is_complete,
            decisions=tree.decisions,
            maps=None,
            map_radii=None,
            vertices=None,
            starts=None,
            n_counted=n_cells,
        )
        refusals = tuple(tree.refusals) if keep_refusals else None
        points = wide_rows(witnesses, tree.domain.dim + 1)
        return SplitCells(network, tree.domain, cells, points, refusals)

    return pack_when_done(work, pack)


def signature_table(signatures: Sequence[Sequence[int]], n_groups: int) -> IntArray:
    """Pack signatures into an array, even if there are none or they have no entries."""
    table = np.empty((len(signatures), n_groups), dtype=np.int64)
    for i, signature in enumerate(signatures):
        table[i] = signature
    return table


def _distinct_forms(layer: ArgmaxLayer, scores: RationalForms) -> list[dict[Vector, int]]:
    """Map the distinct forms of each group to the first index that has them."""
    rows = [tuple(int(x) for x in row) for row in scores.rows]
    groups = []
    for start, end in zip(layer.starts[:-1].tolist(), layer.starts[1:].tolist(), strict=True):
        forms: dict[Vector, int] = {}
        for j in range(start, end):
            forms.setdefault(rows[j], j - start)
        groups.append(forms)
    return groups


def _difference(a: Vector, b: Vector) -> Vector:
    return primitive([x - y for x, y in zip(a, b, strict=True)])
