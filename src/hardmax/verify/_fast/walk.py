"""Check in the plane that the listed cells are cells and cover the domain.

The theorem is stated in `hardmax.verify.verify`: polygons are cut, group by group, into the parts
where the listed winners win, and at the corners of a part no other form of the group may be larger
than the winner. Here this is done for many polygons at once, in floating point with error bounds.
Signs that the bounds leave open are computed in integers (`exact_plane`).

A *node* is a polygon with the range of cells whose signatures begin with the winners on it. A
*table* contains the enclosed forms of a layer for one node of the previous layer. The nodes of a
layer are processed in batches.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from hardmax.typing import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.verify._fast.composition import ExactNetwork
from hardmax.verify._fast.enclosures import (
    TINY,
    Enclosure,
    RoundedLayer,
    Scores,
    enclose,
    round_layer,
)
from hardmax.verify._fast.exact_plane import ExactPlane
from hardmax.verify._fast.layers import ExactLayer
from hardmax.verify._fast.polygons import (
    ROUNDED,
    Lines,
    Polygons,
    Vector,
    clip,
    domain_polygons,
    join_polygons,
    round_corner,
)
from hardmax.verify._fast.refusals import RefusedError

# The maximum numbers of nodes and of values per batch: enough to amortize the cost of a call, and
# few enough to need little memory.
BATCH, VALUES = 2048, 1 << 18
# The open groups are evaluated separately if a batch has more pairs (group, node) than the first
# number, and more than the second number times as many pairs as are open.
_SPARSE = 1024, 4


class Layer(NamedTuple):
    """A layer, exact and rounded.

    Attributes:
        exact: The layer in integers.
        rounded: The layer in floating point.
        first_forms: The first form of each group.
        sizes: The number of forms of each group.
        column: The first column of the layer in a signature.
    """

    exact: ExactLayer
    rounded: RoundedLayer
    first_forms: IntArray
    sizes: IntArray
    column: int


class Nodes(NamedTuple):
    """Polygons, each with the range of cells whose signatures begin with the winners on it.

    Attributes:
        tables: The table of each node.
        begins: The first cell of each node.
        ends: The end of the cells of each node.
        polygons: The polygons.
        closed: Whether each group of the layer is decided on each node, shape `(n_groups, n)`.
    """

    tables: IntArray
    begins: IntArray
    ends: IntArray
    polygons: Polygons
    closed: BoolArray

    def take(self, chosen: IntArray) -> "Nodes":
        """Return some of the nodes."""
        return Nodes(
            self.tables[chosen],
            self.begins[chosen],
            self.ends[chosen],
            self.polygons.take(chosen),
            self.closed[:, chosen],
        )

    def parts(self, size: int) -> "list[Nodes]":
        """Split the nodes into parts of a maximum size."""
        n = len(self.begins)
        return [self.take(np.arange(i, min(i + size, n))) for i in range(0, n, size)]


def join_nodes(parts: list[Nodes]) -> Nodes:
    """Concatenate nodes."""
    tables, begins, ends, polygons, closed = zip(*parts, strict=True)
    return Nodes(
        np.concatenate(tables),
        np.concatenate(begins),
        np.concatenate(ends),
        join_polygons(polygons),
        np.concatenate(closed, axis=1),
    )


class Walk:
    """The walk over the tree of signatures.

    Args:
        network: The network on a planar chart.
        sides: Integer rows, positive in the interior of the domain.
        signatures: Distinct signatures of the cells in lexicographic order.
        witnesses: For each cell, integers `(x, y, w)` with `w > 0`, a point inside the domain.
        points: The rounded witnesses (`round_corners`).
        share: The range of cells to check.
        where: Describes the position of a rounded corner.
    """

    def __init__(
        self,
        network: ExactNetwork,
        sides: list[Vector],
        signatures: IntArray,
        witnesses: list[Vector],
        points: FloatArray,
        share: tuple[int, int],
        where: Callable[[FloatArray], str],
    ) -> None:
        self.where = where
        self.layers: list[Layer] = []
        column = 0
        for exact in network.layers:
            starts = np.array(exact.starts)
            self.layers.append(
                Layer(exact, round_layer(exact), starts[:-1], np.diff(starts), column)
            )
            column += exact.n_groups
        self.signatures = signatures.astype(np.min_scalar_type(signatures.max(initial=0)))
        self.witnesses, self.points = witnesses, points
        self.share = share
        self._start, lines = domain_polygons(sides)
        self.plane, self.lines = ExactPlane(network, self.signatures, lines), Lines(lines)
        self._stream = network.stream

    def run(self, advance: Callable[[int], None]) -> None:
        """Check all cells.

        Args:
            advance: Called with the number of pieces (cells or parts of cells) newly checked.

        Raises:
            RefusedError: If a witness is not inside its cell, or a cell is missing.
        """
        if not self.layers:
            return
        n = len(self._start.starts) - 1
        zeros = np.zeros(n, dtype=np.int64)
        begins, ends = zeros, np.full(n, len(self.signatures))
        nodes = Nodes(zeros, begins, ends, self._start, np.zeros((0, n), dtype=np.bool_))
        batch = _Batch(self, 0, enclose(self._stream), nodes, begins[:1], ends[:1])
        stack: list[tuple[_Batch, Nodes]] = []
        while True:
            is_last, done = batch.index + 1 == len(self.layers), []
            for settled in batch.settle():
                if is_last:
                    advance(len(settled.begins))
                else:
                    done.append(settled)
            if done:
                size = max(1, min(BATCH, VALUES // self.layers[batch.index + 1].exact.n_forms))
                stack += [(batch, part) for part in join_nodes(done).parts(size)]
            if not stack:
                return
            # The next layer is computed only when its turn comes, which saves memory.
            below, part = stack.pop()
            batch = below.next_layer(part)


class _Batch:
    """The nodes of one layer.

    Args:
        walk: The walk.
        index: The index of the layer.
        streams: The forms before the layer, one table per place.
        nodes: The nodes, with no group decided.
        begins: The first cell of each table.
        ends: The end of the cells of each table.
    """

    def __init__(
        self,
        walk: Walk,
        index: int,
        streams: Enclosure,
        nodes: Nodes,
        begins: IntArray,
        ends: IntArray,
    ) -> None:
        self.index, self._walk, self._streams, self._begins = index, walk, streams, begins
        self._layer = walk.layers[index]
        self._scores = Scores(self._layer.rounded.scores.times(streams))
        n_groups = len(self._layer.sizes)
        closed = np.zeros((n_groups, len(nodes.begins)), dtype=np.bool_)
        self._nodes = nodes._replace(closed=closed)
        self._check_witnesses(begins, ends)

    # Witnesses.

    def _check_witnesses(self, begins: IntArray, ends: IntArray) -> None:
        """Check that the winners of all cells of all tables win at the cells' witnesses."""
        low, high = self._walk.share
        begins = np.maximum(begins, low)
        ends = np.maximum(begins, np.minimum(ends, high))
        cells, _, sizes = _concatenate_ranges(begins, ends)
        tables = np.repeat(np.arange(len(begins)), sizes)
        step = max(1, VALUES // self._layer.exact.n_forms)
        for start in range(0, len(cells), step):
            part = slice(start, start + step)
            some, owners = cells[part], tables[part]
            points, radii = self._walk.points[:, some], np.full(len(some), ROUNDED)
            values = self._scores.at(owners, points, radii)
            certain = self._find_certain(*values, self._winners(some), np.arange(len(some)))
            for group, i in np.argwhere(~certain).tolist():
                self._check_witness(int(some[i]), int(owners[i]), group)

    def _check_witness(self, cell: int, table: int, group: int) -> None:
        begin = int(self._begins[table])
        start, size = int(self._layer.first_forms[group]), int(self._layer.sizes[group])
        winner = start + int(self._walk.signatures[cell, self._layer.column + group])
        for rival in range(start, start + size):
            if rival == winner:
                continue
            row = self._walk.plane.row(self.index, begin, winner, rival)
            if not any(row):
                self._record_coincidence(begin, winner, rival, cell)
            elif sum(x * y for x, y in zip(row, self._walk.witnesses[cell], strict=True)) <= 0:
                raise RefusedError("the witness is not inside its cell", cell)

    def _record_coincidence(self, begin: int, form: int, rival: int, cell: int) -> None:
        """Record that a rival coincides with a winner; the rival must come after the winner."""
        if rival < form:
            raise RefusedError(self._layer.exact.describe_tie(form, rival), cell)
        self._walk.plane.note_tie(self.index, begin, form, rival)

    # Nodes.

    def settle(self) -> Iterator[Nodes]:
        """Cut the nodes by all groups, and yield the nodes on which all groups are decided."""
        size = max(1, min(BATCH, VALUES // self._layer.exact.n_forms))
        todo = [self._nodes]
        while todo:
            nodes = todo.pop()
            if len(nodes.begins) > 2 * size:
                todo += nodes.parts(size)
                continue
            settled = nodes.closed | self._find_settled_groups(nodes)
            is_done = settled.all(axis=0)
            if is_done.any():
                yield nodes.take(np.flatnonzero(is_done))
                left = np.flatnonzero(~is_done)
                if not len(left):
                    continue
                nodes, settled = nodes.take(left), settled[:, left]
            nodes = self._split(nodes._replace(closed=settled), settled.argmin(axis=0))
            if len(nodes.begins):
                todo.append(nodes)

    def _find_settled_groups(self, nodes: Nodes) -> BoolArray:
        """Return which groups have one listed winner that is provably larger than all others."""
        polygons, first = nodes.polygons, self._winners(nodes.begins)
        n_open = nodes.closed.size - np.count_nonzero(nodes.closed)
        if (
            self._layer.rounded.against_zero
            and _SPARSE[0] < nodes.closed.size > _SPARSE[1] * n_open
        ):
            return self._find_settled_units(nodes, first)
        tables = nodes.tables[polygons.owners]
        values = self._scores.at(tables, polygons.points, polygons.radii)
        certain = self._find_certain(*values, first, polygons.starts[:-1])
        return certain & self._find_agreeing(nodes, first)

    def _find_settled_units(self, nodes: Nodes, first: IntArray) -> BoolArray:
        """Do the same for groups of two forms, one of them zero, evaluating only open groups."""
        polygons = nodes.polygons
        groups, of = (~nodes.closed).nonzero()
        corners, offsets, sizes = _concatenate_ranges(
            polygons.starts[:-1][of], polygons.starts[1:][of]
        )
        points, vague = polygons.points.take(corners, axis=1), polygons.radii[corners]
        value, error = self._scores.of(groups, nodes.tables[of], sizes, points, vague)
        above = np.logical_and.reduceat(value > error, offsets)
        below = np.logical_and.reduceat(value < -error, offsets)
        settled = np.zeros(first.shape, dtype=np.bool_)
        live = self._layer.rounded.live[groups]
        settled[groups, of] = np.where(first[groups, of] == live, above, below)
        settled &= self._find_agreeing(nodes, first)
        return settled

    def _winners(self, cells: IntArray) -> IntArray:
        """Return the winning forms of cells, shape `(n_groups, n_cells)`."""
        column, first = self._layer.column, self._layer.first_forms
        block = self._walk.signatures[cells, column : column + len(first)]
        return np.asarray(block.T + first[:, np.newaxis])

    def _find_certain(
        self, value: FloatArray, error: FloatArray, first: IntArray, offsets: IntArray
    ) -> BoolArray:
        """Return which groups a form provably wins, being larger than all rivals at all corners.

        Args:
            value: The scores of the live forms at the corners.
            error: Bounds on the errors of these scores.
            first: The forms, shape `(n_groups, n_polygons)`.
            offsets: The first corner of each polygon.
        """
        rounded, group_of = self._layer.rounded, self._layer.exact.group_of
        n_points = value.shape[1]
        if rounded.against_zero:
            above = np.logical_and.reduceat(value > error, offsets, axis=1)
            np.negative(error, out=error)
            below = np.logical_and.reduceat(value < error, offsets, axis=1)
            return np.where(first == rounded.live[:, np.newaxis], above, below)
        low, high = value - error, value + error
        if len(rounded.live) < rounded.n_forms:
            low, high = (rounded.with_zeros(table) for table in (low, high))
        owners = np.repeat(np.arange(len(offsets)), np.diff(np.append(offsets, n_points)))
        at_corners = first.take(owners, axis=1)
        at_corners *= n_points
        at_corners += np.arange(n_points)
        best = low.take(at_corners)
        beaten = np.logical_and.reduceat(best.take(group_of, axis=0) > high, offsets, axis=1)
        beaten[first, np.arange(len(offsets))] = True
        return np.asarray(np.logical_and.reduceat(beaten, self._layer.first_forms, axis=0))

    def _find_agreeing(self, nodes: Nodes, first: IntArray) -> BoolArray:
        """Return in which groups all cells of a node have the same winner, shaped like `first`."""
        signatures = self._walk.signatures
        block = slice(self._layer.column, self._layer.column + len(first))
        agreeing = np.ones(first.shape, dtype=np.bool_)
        # The cells are sorted, so if the first and the last agree in all groups, all cells do.
        open_ = (first != self._winners(nodes.ends - 1)).any(axis=0).nonzero()[0]
        if len(open_):
            cells, offsets, sizes = _concatenate_ranges(nodes.begins[open_], nodes.ends[open_])
            same = signatures[cells, block] == signatures[nodes.begins[open_], block].repeat(
                sizes, axis=0
            )
            agreeing[:, open_] = np.logical_and.reduceat(same, offsets, axis=0).T
        return agreeing

    def _split(self, nodes: Nodes, groups: IntArray) -> Nodes:
        """Cut each node by one group into the parts where its listed winners win."""
        cells, offsets, sizes = _concatenate_ranges(nodes.begins, nodes.ends)
        listed = self._walk.signatures[cells, (self._layer.column + groups).repeat(sizes)]
        # The cells are sorted and agree before this column, so equal entries are consecutive.
        is_first = np.ones(len(cells), dtype=np.bool_)
        is_first[1:] = listed[1:] != listed[:-1]
        is_first[offsets] = True
        firsts = is_first.nonzero()[0]
        of = offsets.searchsorted(firsts, side="right") - 1
        begins, ends = cells[firsts], cells[np.append(firsts[1:], len(cells)) - 1] + 1
        winners = self._layer.first_forms[groups[of]] + listed[firsts]
        n_listed = np.bincount(of, minlength=len(groups))
        first_part = n_listed.cumsum() - n_listed
        low, high = self._walk.share
        parts = ((begins < high) & (ends > low)).nonzero()[0]
        polygons = nodes.polygons.take(of[parts])
        # Cut against each of the other listed winners in turn.
        for turn in range(1, int(n_listed.max(initial=0))):
            is_busy = n_listed[of[parts]] > turn
            busy, idle = is_busy.nonzero()[0], (~is_busy).nonzero()[0]
            node = of[parts[busy]]
            rivals = first_part[node] + (parts[busy] - first_part[node] + turn) % n_listed[node]
            pairs = _Pairs(nodes.tables[node], winners[parts[busy]], winners[rivals])
            some = polygons.take(busy) if len(idle) else polygons
            kept, cut = self._clip(some, pairs, begins[parts[busy]])
            parts = np.concatenate([parts[idle], parts[busy[kept]]])
            polygons = join_polygons([polygons.take(idle), cut]) if len(idle) else cut
        all_of, of = of, of[parts]
        closed = nodes.closed[:, of]
        closed[groups[of], np.arange(len(of))] = True
        children = Nodes(nodes.tables[of], begins[parts], ends[parts], polygons, closed)
        if (n_listed < self._layer.sizes[groups]).any():
            is_listed = np.zeros((len(groups), int(self._layer.sizes.max())), dtype=np.bool_)
            is_listed[all_of, winners - self._layer.first_forms[groups[all_of]]] = True
            self._check_others(children, winners[parts], groups[of], is_listed[of])
        return children

    def _clip(
        self, polygons: Polygons, pairs: "_Pairs", cells: IntArray
    ) -> tuple[IntArray, Polygons]:
        """Cut polygons to the parts where forms are at least as large as listed rivals."""
        signs, forms, coinciding = self._signs(polygons, pairs)
        for i in coinciding:
            form, rival = max(pairs.forms[i], pairs.rivals[i]), min(pairs.forms[i], pairs.rivals[i])
            begin, cell = int(self._begins[pairs.tables[i]]), int(cells[i])
            self._record_coincidence(begin, int(form), int(rival), cell)
        plane = self._walk.plane
        plane.name_lines(self.index, self._begins[pairs.tables], pairs.forms, pairs.rivals)
        cut, kept, vague = clip(polygons, signs, self._walk.lines.add(*forms), self._walk.lines)
        for polygon, place in vague:
            before = cut.edges[cut.before(place, polygon)]
            corner = plane.corner(int(before), int(cut.edges[place]), cut.points[:, place])
            cut.points[:, place], cut.radii[place] = round_corner(corner), ROUNDED
        return kept, cut

    def _check_others(
        self, children: Nodes, winners: IntArray, groups: IntArray, is_listed: BoolArray
    ) -> None:
        """Check that no unlisted form of a group is larger than the winner at a corner."""
        sizes = self._layer.sizes[groups]
        is_other = ~is_listed
        is_other &= np.arange(is_listed.shape[1]) < sizes[:, np.newaxis]
        of, others = np.nonzero(is_other)
        rivals = self._layer.first_forms[groups[of]] + others
        step = max(1, VALUES // 16)
        for start in range(0, len(of), step):
            part = slice(start, start + step)
            some = of[part]
            polygons = children.polygons.take(some)
            pairs = _Pairs(children.tables[some], winners[some], rivals[part])
            signs, _, coinciding = self._signs(polygons, pairs)
            for i in coinciding:
                begin, cell = int(self._begins[pairs.tables[i]]), int(children.begins[some[i]])
                self._record_coincidence(begin, int(pairs.forms[i]), int(pairs.rivals[i]), cell)
            above = np.flatnonzero(signs < 0)
            if len(above):
                i = int(polygons.owners[above[0]])
                self._refuse_gap(
                    pairs, i, polygons.points[:, above[0]], int(children.begins[some[i]])
                )

    def _refuse_gap(self, pairs: "_Pairs", i: int, corner: FloatArray, cell: int) -> None:
        form = int(pairs.rivals[i])
        column = self._layer.column + int(self._layer.exact.group_of[form])
        begins = self._walk.signatures[cell, :column].tolist()
        raise RefusedError(
            f"the cells do not cover the domain: {self._walk.where(corner)}, "
            f"{self._layer.exact.name(form)} wins in an unlisted cell whose signature begins with "
            f"{begins!s:.200}"
        )

    def _signs(
        self, polygons: Polygons, pairs: "_Pairs"
    ) -> tuple[AnyArray, tuple[FloatArray, FloatArray], list[int]]:
        """Compute the exact sign of a form minus a rival at each corner of a polygon.

        Returns:
            The sign for each corner; the enclosed differences as centres and radii, shape
            `(3, n_polygons)`; and the polygons where form and rival coincide, with signs 0.
        """
        owners = polygons.owners
        centres, radii = self._differences(pairs)
        points, vague = polygons.points, polygons.radii
        spread = np.abs(points)
        spread += vague
        spread *= radii.take(owners, axis=1)
        centre = centres.take(owners, axis=1)
        spread += vague * np.abs(centre)
        centre *= points
        values, errors = centre[0] + centre[1] + centre[2], spread[0] + spread[1] + spread[2]
        errors *= 1.0 + 2.0**-48
        errors += TINY
        is_above, is_below = values > errors, values < -errors
        signs = is_above.astype(np.int8)
        signs -= is_below
        coinciding: list[int] = []
        plane, last = self._walk.plane, -1
        row: Vector = ()
        for place in (~(is_above | is_below)).nonzero()[0].tolist():
            i = int(owners[place])
            if i != last:
                begin = int(self._begins[pairs.tables[i]])
                row = plane.row(self.index, begin, int(pairs.forms[i]), int(pairs.rivals[i]))
                last = i
                if not any(row):
                    coinciding.append(i)
            if any(row):
                before = int(polygons.edges[polygons.before(place, i)])
                corner = plane.corner(before, int(polygons.edges[place]), points[:, place])
                value = sum(x * y for x, y in zip(row, corner, strict=True))
                signs[place] = (value > 0) - (value < 0)
        return signs, (centres, radii), coinciding

    def _differences(self, pairs: "_Pairs") -> tuple[FloatArray, FloatArray]:
        """Enclose forms minus their rivals: centres and radii, shape `(3, n)`."""
        rounded, (centre, radius) = self._layer.rounded, self._scores.forms
        is_live = rounded.is_live[pairs.forms]
        if rounded.against_zero:
            rows = rounded.row_of[np.where(is_live, pairs.forms, pairs.rivals)]
            centres, radii = centre[rows, :, pairs.tables], radius[rows, :, pairs.tables]
            return np.where(is_live, centres.T, -centres.T), radii.T
        # The sum of two centres is rounded once; the radius covers this error (`enclosures`).
        centres, radii = np.zeros((2, len(is_live), 3))
        for forms, sign in ((pairs.forms, 1.0), (pairs.rivals, -1.0)):
            live = rounded.is_live[forms].nonzero()[0]
            rows = rounded.row_of[forms[live]]
            centres[live] += sign * centre[rows, :, pairs.tables[live]]
            radii[live] += radius[rows, :, pairs.tables[live]]
        return centres.T, radii.T

    def next_layer(self, nodes: Nodes) -> "_Batch":
        """Return the next layer on nodes where all groups of this layer are decided."""
        plane, rounded = self._walk.plane, self._layer.rounded
        winners = self._winners(nodes.begins)
        streams = rounded.after(self._streams, self._scores.forms, nodes.tables, winners)
        parents = self._begins[nodes.tables]
        plane.enter(self.index + 1, nodes.begins, parents)
        for i in plane.tied_places(self.index, parents):
            # The mean over coinciding forms is computed exactly.
            if plane.ties(self.index, int(parents[i]), winners[:, i].tolist()):
                one = enclose(plane.stream(self.index + 1, int(nodes.begins[i])))
                streams.centre[:, :, i] = one.centre[..., 0]
                streams.radius[:, :, i] = one.radius[..., 0]
        above = nodes._replace(tables=np.arange(len(parents)))
        return _Batch(self._walk, self.index + 1, streams, above, nodes.begins, nodes.ends)


class _Pairs(NamedTuple):
    """Forms and rivals of a layer, in tables."""

    tables: IntArray
    forms: IntArray
    rivals: IntArray


def _concatenate_ranges(begins: IntArray, ends: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the concatenated entries of ranges, the start of each range, and the sizes."""
    sizes = ends - begins
    offsets = sizes.cumsum() - sizes
    places = (begins - offsets).repeat(sizes)
    places += np.arange(len(places))
    return places, offsets, sizes
