"""The walk of the verifier over the tree of signatures: the polygon of every listed cell.

Cells that share the winners of some layers share what these layers compose to: a *floor* is a
layer on the polygon where the layers before it are affine, with the range of cells that begin so.
Floors of one layer go in batches, so that the rounded part of the work is a few products of
matrices for all of them: scores with error bounds, their values at the corners of the polygons, and
which groups are thereby settled. Where a group is not, because several winners are listed or
because a rival may not be beaten, integers decide: the forms are composed exactly, for this floor
alone, and the polygon is clipped without rounding (`floors`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise, repeat
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from hardmax.verify._fast.composition import ExactNetwork
from hardmax.verify._fast.enclosures import (
    Enclosure,
    RoundedLayer,
    enclosed,
    rounded_layer,
)
from hardmax.verify._fast.floors import Floor, Scores
from hardmax.verify._fast.layers import ExactLayer
from hardmax.verify._fast.packing import Forms
from hardmax.verify._fast.polygons import Piece, Polygon
from hardmax.typing import BoolArray, FloatArray, IntArray

# So many floors go together, and so many scores: enough to spread the cost of a call, few enough to
# need little memory.
BATCH, SCORES = 512, 1 << 17

Ties = dict[int, list[int]]
"""For a group whose winner coincides with other forms, all of them."""


@dataclass(frozen=True, eq=False)
class TreeWalk:
    """The tree of signatures: every prefix is composed once.

    Attributes:
        stream: The forms before the first layer.
        layers: The layers, exact and rounded.
        signatures: The cells in lexicographic order, none twice.
        columns: The columns of the signatures.
    """

    stream: Forms
    layers: list["_Layer"]
    signatures: IntArray
    columns: list[IntArray]

    @classmethod
    def read(cls, network: ExactNetwork, signatures: IntArray) -> "TreeWalk":
        """Prepare a walk over signatures in lexicographic order."""
        layers: list[_Layer] = []
        column = 0
        for exact in network.layers:
            layers.append(_Layer(exact, rounded_layer(exact), np.array(exact.starts[:-1]), column))
            column += exact.n_groups
        narrow = signatures.astype(np.min_scalar_type(signatures.max(initial=0)))
        columns = [np.ascontiguousarray(column) for column in narrow.T]
        return cls(network.stream, layers, narrow, columns)

    def leaves(self, piece: Piece) -> Iterator[tuple[int, Polygon]]:
        """Yield every cell that has a part with interior in a piece, with the part's polygon."""
        if not self.layers:
            yield 0, piece.polygon
            return
        everything = np.array([0]), np.array([len(self.signatures)])
        arrivals = _Arrivals(np.zeros(1, np.int64), _no_winners(1), *everything, [piece.polygon])
        batch = _Batch(self, piece, 0, enclosed(self.stream), arrivals, None, {0: self.stream})
        stack: list[tuple[_Batch, _Arrivals]] = []
        while True:
            arrivals = batch.decided()
            if batch.index + 1 == len(self.layers):
                yield from zip(arrivals.begins.tolist(), arrivals.polygons, strict=True)
            else:
                n_forms = self.layers[batch.index + 1].exact.n_forms
                size = max(1, min(BATCH, SCORES // n_forms))
                stack += [(batch, part) for part in arrivals.parts(size)]
            if not stack:
                return
            # The layer above is worked out when its turn comes, which keeps memory low.
            below, part = stack.pop()
            batch = below.above(part)


class _Layer(NamedTuple):
    """A layer, exact and rounded.

    Attributes:
        exact: The layer in integers.
        rounded: The layer in floating point.
        first_forms: The first form of each group.
        column: Its first column in a signature.
    """

    exact: ExactLayer
    rounded: RoundedLayer
    first_forms: IntArray
    column: int


@dataclass(frozen=True, eq=False)
class _Arrivals:
    """Polygons on which a batch of floors is decided, in the order of the cells.

    Attributes:
        floors: The floor of each, counted in the batch.
        winners: The winning forms, shape `(n_groups, n)`.
        begins: The first cell of each.
        ends: The end of its range of cells.
        polygons: The polygons.
        ties: For those with coinciding forms, which coincide with the winners.
    """

    floors: IntArray
    winners: IntArray
    begins: IntArray
    ends: IntArray
    polygons: list[Polygon]
    ties: dict[int, Ties] = field(default_factory=dict)

    def parts(self, size: int) -> Iterator["_Arrivals"]:
        """Cut into parts of nearly equal size, at most the given one."""
        n = len(self.polygons)
        n_parts = -(-n // size)
        bounds = [n * i // n_parts for i in range(n_parts + 1)] if n else []
        for start, end in pairwise(bounds):
            yield _Arrivals(
                self.floors[start:end],
                self.winners[:, start:end],
                self.begins[start:end],
                self.ends[start:end],
                self.polygons[start:end],
                {i - start: ties for i, ties in self.ties.items() if start <= i < end},
            )


class _Batch:
    """Floors of one layer.

    What is certain in floating point is settled there; exact forms are composed when asked for.

    Attributes:
        piece: The piece of the domain.
        index: Which layer.
        layer: The layer.
        arrivals: Where the layer before left off.
    """

    def __init__(
        self,
        walk: TreeWalk,
        piece: Piece,
        index: int,
        streams: Enclosure,
        arrivals: _Arrivals,
        below: "_Batch | None",
        exact: dict[int, Forms],
    ) -> None:
        self.piece, self.index, self.arrivals = piece, index, arrivals
        self.layer = walk.layers[index]
        self._walk, self._below = walk, below
        self._streams, self._exact = streams, exact
        self._scores = self.layer.rounded.scores.times(streams)

    def decided(self) -> _Arrivals:
        """Split every floor by its groups, as far as listed cells go."""
        arrivals, first_forms, column = self.arrivals, self.layer.first_forms, self.layer.column
        width = slice(column, column + len(first_forms))
        first = self._walk.signatures[arrivals.begins, width].T + first_forms[:, np.newaxis]
        sizes = np.array([len(polygon.vertices) for polygon in arrivals.polygons])
        offsets = np.cumsum(sizes) - sizes
        owners = np.repeat(np.arange(len(sizes)), sizes)
        vertices = [v for polygon in arrivals.polygons for v in polygon.vertices]
        points = self.piece.plane.rounded(vertices)
        low, high = self.layer.rounded.scores_at(self._scores, owners, points)
        settled = self._certain(low, high, first, owners, offsets) & self._agreeing(first)
        if settled.all():
            floors = np.arange(len(sizes))
            begins, ends, polygons = arrivals.begins, arrivals.ends, arrivals.polygons
            return _Arrivals(floors, first, begins, ends, polygons)
        return self._split(first, ~settled, low, high, np.append(offsets, len(owners)))

    def _certain(
        self,
        low: FloatArray,
        high: FloatArray,
        first: IntArray,
        owners: IntArray,
        offsets: IntArray,
    ) -> BoolArray:
        """Say which groups a form certainly wins: at all corners it is above all its rivals."""
        rounded, group_of = self.layer.rounded, self.layer.exact.group_of
        if rounded.against_zero:
            above = np.logical_and.reduceat(low > 0.0, offsets, axis=1)
            below = np.logical_and.reduceat(high < 0.0, offsets, axis=1)
            return np.where(first == rounded.live[:, np.newaxis], above, below)
        at_corners = first.take(owners, axis=1)
        at_corners *= len(owners)
        at_corners += np.arange(len(owners))
        best = low.take(at_corners)
        beaten = np.logical_and.reduceat(best.take(group_of, axis=0) > high, offsets, axis=1)
        beaten[first, np.arange(len(offsets))] = True
        return np.asarray(np.logical_and.reduceat(beaten, self.layer.first_forms, axis=0))

    def _agreeing(self, first: IntArray) -> BoolArray:
        """Say in which groups all cells of a floor have the same winner, shape as `first`."""
        arrivals, signatures = self.arrivals, self._walk.signatures
        block = slice(self.layer.column, self.layer.column + len(first))
        agreeing = np.ones(first.shape, dtype=np.bool_)
        # In lexicographic order, if the first and the last cell agree in all groups, all cells do.
        last = signatures[arrivals.ends - 1, block].T + self.layer.first_forms[:, np.newaxis]
        open_ = np.flatnonzero((first != last).any(axis=0))
        if len(open_):
            sizes = arrivals.ends[open_] - arrivals.begins[open_]
            offsets = np.cumsum(sizes) - sizes
            cells = np.arange(sizes.sum()) + np.repeat(arrivals.begins[open_] - offsets, sizes)
            same = signatures[cells, block] == np.repeat(
                signatures[arrivals.begins[open_], block], sizes, axis=0
            )
            agreeing[:, open_] = np.logical_and.reduceat(same, offsets, axis=0).T
        return agreeing

    def _split(
        self,
        first: IntArray,
        is_open: BoolArray,
        low: FloatArray,
        high: FloatArray,
        offsets: IntArray,
    ) -> _Arrivals:
        """Split the floors with groups that are not settled."""
        arrivals, column = self.arrivals, self.layer.column
        listed = self._walk.columns[column : column + len(first)]
        all_begins, all_ends = arrivals.begins.tolist(), arrivals.ends.tolist()
        floors = np.flatnonzero(~np.logical_or.reduce(is_open, axis=0)).tolist()
        begins, ends = [all_begins[i] for i in floors], [all_ends[i] for i in floors]
        polygons = [arrivals.polygons[i] for i in floors]
        ties: dict[int, Ties] = {}
        chosen: list[tuple[int, int, int]] = []
        for i, pairs in groupby(np.argwhere(is_open.T).tolist(), key=itemgetter(0)):
            open_groups = [group for _, group in pairs]
            corners = slice(offsets[i], offsets[i + 1])
            scores = Scores(partial(self.stream, i), low[:, corners], high[:, corners])
            floor = Floor(self.layer.exact, self.piece, listed, column, scores, open_groups)
            for node in floor.split(arrivals.polygons[i], (all_begins[i], all_ends[i])):
                place = len(floors)
                chosen += zip(open_groups, repeat(place), node.choices, strict=False)
                if node.ties:
                    ties[place] = dict(node.ties)
                floors.append(i)
                begins.append(node.cells[0])
                ends.append(node.cells[1])
                polygons.append(node.polygon)
        of, begin, end = (np.array(table, dtype=np.int64) for table in (floors, begins, ends))
        winners = first.take(of, axis=1)
        if chosen:
            groups, places, forms = np.array(chosen).T
            winners[groups, places] = forms
        return _Arrivals(of, winners, begin, end, polygons, ties)

    def above(self, arrivals: _Arrivals) -> "_Batch":
        """Return the next layer on polygons where this one is decided."""
        rounded = self.layer.rounded
        streams = rounded.after(self._streams, self._scores, arrivals.floors, arrivals.winners)
        exact = {}
        for i, ties in arrivals.ties.items():
            # The mean over coinciding forms is taken exactly.
            stream, winners = self.stream(int(arrivals.floors[i])), arrivals.winners[:, i].tolist()
            exact[i] = self.layer.exact.after(stream, winners, ties)
            one = enclosed(exact[i])
            streams.centre[:, :, i], streams.radius[:, :, i] = (
                one.centre[..., 0],
                one.radius[..., 0],
            )
        return _Batch(self._walk, self.piece, self.index + 1, streams, arrivals, self, exact)

    def stream(self, floor: int) -> Forms:
        """Return the exact forms before the layer."""
        way: list[tuple[_Batch, int]] = []
        batch, i = self, floor
        while i not in batch._exact:
            way.append((batch, i))
            assert batch._below is not None
            batch, i = batch._below, int(batch.arrivals.floors[i])
        forms = batch._exact[i]
        for above, j in reversed(way):
            winners = above.arrivals.winners[:, j].tolist()
            forms = above._exact[j] = batch.layer.exact.after(forms, winners, {})
            batch = above
        return forms


def _no_winners(n: int) -> IntArray:
    return np.zeros((0, n), dtype=np.int64)
