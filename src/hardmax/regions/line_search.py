"""The search along a line: intervals go through the layers, few at a time, from left to right."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np

from hardmax.algebra.exact.decisions import Decisions
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.models.enclosures import Enclosed
from hardmax.models.normed_maps import is_rectified
from hardmax.models.recomposition import RationalForms, layer_output, layer_scores
from hardmax.regions.charted_domains import ChartedDomain, embedded
from hardmax.regions.exact_lines import Interval, split_interval
from hardmax.regions.line_composition import (
    charted_forms,
    chosen_rows,
    copies_winners,
    final_forms,
    mapped_forms,
    output_forms,
    rounded_forms,
    score_forms,
    stacked_forms,
)
from hardmax.regions.line_filter import Changes, LineForms, find_changes
from hardmax.regions.line_intervals import Cuts, Intervals, Points, exact_points
from hardmax.regions.line_signatures import SignatureWalk, winner_type
from hardmax.regions.rectified_lines import CellRun, RectifiedLine
from hardmax.regions.rectified_maps import composed_maps
from hardmax.typing import AnyArray, IntArray

_ENTRIES_AT_ONCE, _PRODUCTS_AT_ONCE = 1 << 18, 1 << 29
"""How many scores, and how many products of weights, are computed between looks at the clock."""

Streams = Callable[[IntArray, AnyArray], LineForms]
"""The streams after a layer, given the interval each belongs to and its winners."""


@dataclass
class LineSearch:
    """The search along one line: iterate over `batches`.

    Attributes:
        network: The network.
        domain: A domain of dimension 1.
        exact: Whether to decide everything in integers.
        count_only: Whether to count the cells without composing them.
        decisions: Counts the decisions, one for each group and interval.
        n_exact: Counts the intervals that were split in integers.
    """

    network: ArgmaxNetwork
    domain: ChartedDomain
    exact: bool = False
    count_only: bool = False
    decisions: Decisions = field(default_factory=Decisions)
    n_exact: int = 0
    _held: dict[int, tuple[bytes, RationalForms, RationalForms]] = field(default_factory=dict)

    def batches(self) -> Iterator[Intervals | CellRun | int]:
        """Yield the cells from left to right, in batches or only counted; often 0 of them.

        The streams of cells are the outputs. Whoever takes them looks at the clock each time.
        """
        if self.is_rectified:
            ends = self.domain.ends
            if ends is not None and self.network.embedding.is_identity:
                yield from RectifiedLine(self).between(*ends)
            else:
                yield from RectifiedLine(self).cells(self._start())
            return
        # Depth first, so that memory does not grow with the number of cells.
        stack: list[Iterator[Intervals | int]] = [iter([self._start()])]
        while stack:
            found = next(stack[-1], None)
            if found is None:
                stack.pop()
            elif isinstance(found, int):
                yield found
            elif len(stack) <= len(self.network.layers):
                stack.append(self._split(len(stack) - 1, found))
            else:
                yield len(found) if self.count_only else found

    @cached_property
    def is_rectified(self) -> bool:
        """Whether this is a search through a ReLU network that starts with floats."""
        return not self.exact and is_rectified(self.network)

    def composed(self, walk: SignatureWalk) -> Enclosed:
        """Compose the output of a ReLU network on cells: shape `(n_cells, 2, dim_out)`."""
        return composed_maps(self.network, self._first_stream, walk)

    def exact_value(self, points: Points, i: int, signature: AnyArray) -> Fraction | None:
        """Return where a point is, from its name and a signature at it; None at infinity."""
        layer, one, other = points.names[i].tolist()
        if points.values[i] is None and layer >= 0:
            rows = self._exact_layer(layer, signature)[1].rows
            (m, c), (n, d) = rows[one], rows[other]
            points.values[i] = Fraction(int(d - c), int(m - n))
        value: Fraction | None = points.values[i]
        return value

    @cached_property
    def outer_ends(self) -> tuple[Fraction | None, Fraction | None]:
        """The ends of the domain; None at infinity."""
        low: list[Fraction] = []
        high: list[Fraction] = []
        for a, b in self.domain.exact_rows.tolist():
            (high if a > 0 else low).append(Fraction(b, a))
        return max(low, default=None), min(high, default=None)

    @cached_property
    def _first_stream(self) -> LineForms:
        """The stream before the first layer."""
        return mapped_forms(self.network.embedding, charted_forms(self.domain))

    def _start(self) -> Intervals:
        """The whole domain, before the first layer."""
        low, high = self.outer_ends
        unnamed = np.full((1, 3), -1)
        stream = self._first_stream
        return Intervals(
            stream if self.network.layers else mapped_forms(self.network.readout, stream),
            np.empty((1, 0), dtype=self.winner_type),
            exact_points([low], -1.0, unnamed),
            exact_points([high], 1.0, unnamed),
        )

    def _split(self, index: int, batch: Intervals) -> Iterator[Intervals | int]:
        """Cut intervals by a layer."""
        layer = self.network.layers[index]
        scores = score_forms(layer, batch.stream)
        yield 0
        changes = find_changes(scores, layer.starts, batch.low.where, batch.high.where)
        is_open = changes.is_open | self.exact
        n_open = int(is_open.sum())
        self.decisions.record(
            filtered=(len(batch) - n_open) * layer.n_groups, rational=n_open * layer.n_groups
        )
        # Runs of intervals that are all decided, or all not.
        turns = np.flatnonzero(is_open[1:] != is_open[:-1]) + 1
        for start, end in pairwise([0, *turns.tolist(), len(batch)]):
            yield 0
            if is_open[start]:
                for i in range(start, end):
                    yield from self.exact_parts(index, batch[i : i + 1])
            else:
                yield from self._sure_parts(index, batch, scores, changes, start, end)

    def _sure_parts(
        self,
        index: int,
        batch: Intervals,
        scores: LineForms,
        changes: Changes,
        start: int,
        end: int,
    ) -> Iterator[Intervals | int]:
        """Cut a run of intervals that floats decided."""
        layer = self.network.layers[index]
        kept = slice(*np.searchsorted(changes.interval, [start, end]).tolist())
        group = changes.group[kept]
        if self.count_only and self._is_last(index):
            yield end - start + len(group)
            return
        names = np.empty((len(group), 3), dtype=np.int64)
        names[:, 0], names[:, 1], names[:, 2] = index, changes.before[kept], changes.after[kept]
        cuts = Cuts(
            changes.interval[kept] - start,
            Points(chosen_rows(changes.where, kept), names, np.full(len(group), None)),
            np.arange(len(group) + 1),
            group,
            names[:, 2] - layer.starts[group],
        )

        def streams(owner: IntArray, winners: AnyArray) -> LineForms:
            return self._after(index, batch.stream, scores, owner + start, winners)

        run = batch[start:end]
        yield from self._parts(index, run, changes.winners[start:end], cuts, streams)

    def exact_parts(self, index: int, one: Intervals) -> Iterator[Intervals | int]:
        """Cut one interval in integers."""
        self.n_exact += 1
        layer, signature = self.network.layers[index], one.prefix[0]
        stream, scores = self._exact_layer(index, signature)
        ends = (self.exact_value(end, 0, signature) for end in (one.low, one.high))
        first, found = split_interval(layer, scores, Interval(*ends))
        if self.count_only and self._is_last(index):
            yield len(found) + 1
            return
        changes = [change for cut in found for change in cut.changes]
        starts = layer.starts.tolist()
        names = np.array(
            [
                (index, starts[g] + before, starts[g] + after)
                for g, before, after in (cut.changes[0] for cut in found)
            ],
            dtype=np.int64,
        ).reshape(-1, 3)
        cuts = Cuts(
            np.zeros(len(found), dtype=np.int64),
            exact_points([cut.where for cut in found], 1.0, names),
            np.cumsum([0, *(len(cut.changes) for cut in found)]),
            np.array([g for g, _, _ in changes], dtype=np.int64),
            np.array([after for _, _, after in changes], dtype=np.int64),
        )
        rounded = stacked_forms([rounded_forms(scores)])

        def streams(owner: IntArray, winners: AnyArray) -> LineForms:
            if copies_winners(layer):
                return self._after(index, one.stream, rounded, owner, winners)
            # Sums of rounded forms would not cancel as the true ones do.
            exact = (layer_output(layer, stream, scores, won) for won in winners.tolist())
            after = stacked_forms([rounded_forms(forms) for forms in exact])
            return mapped_forms(self.network.readout, after) if self._is_last(index) else after

        yield from self._parts(index, one, np.array([first]), cuts, streams)

    def _parts(
        self, index: int, batch: Intervals, winners: IntArray, cuts: Cuts, streams: Streams
    ) -> Iterator[Intervals]:
        """Yield the parts of intervals, few at a time, from left to right."""
        owner = np.sort(np.concatenate([np.arange(len(batch)), cuts.owner]), kind="stable")
        # Cut k is between the parts `after[k] - 1` and `after[k]`.
        after = np.flatnonzero(owner[1:] == owner[:-1]) + 1
        n_batches = -(-len(owner) // self._batch_sizes[index])
        bounds = (np.arange(n_batches + 1) * len(owner)) // n_batches
        n_before = batch.prefix.shape[1]
        before = np.empty(n_before + winners.shape[1], dtype=self.winner_type)
        for start, end in pairwise(bounds.tolist()):
            mine = owner[start:end]
            prefix = np.empty((end - start, len(before)), dtype=self.winner_type)
            first, last = np.searchsorted(after, [start, end]).tolist()
            begins = np.setdiff1d(np.arange(start, end), after[first:last]) - start
            prefix[begins, :n_before] = batch.prefix[mine[begins]]
            prefix[begins, n_before:] = winners[mine[begins]]
            for k in range(first, last):
                part, changes = after[k] - start, slice(cuts.starts[k], cuts.starts[k + 1])
                prefix[part] = prefix[part - 1] if part else before
                prefix[part, n_before + cuts.groups[changes]] = cuts.winners[changes]
            before = prefix[-1]
            low, high = batch.low[mine], batch.high[mine]
            low.put(after[first:last] - start, cuts.points[first:last])
            first, last = np.searchsorted(after, [start + 1, end + 1]).tolist()
            high.put(after[first:last] - 1 - start, cuts.points[first:last])
            yield Intervals(streams(mine, prefix[:, n_before:]), prefix, low, high)

    def _exact_layer(self, index: int, signature: AnyArray) -> tuple[RationalForms, RationalForms]:
        """Return the stream before a layer and its scores; the last ones are kept."""
        layers = self.network.layers
        for i, layer in enumerate(layers[: index + 1]):
            name = signature[: self._first_group[i]].tobytes()
            if i in self._held and self._held[i][0] == name:
                continue
            if i == 0:
                stream = embedded(self.network, self.domain)
            else:
                winners = signature[self._first_group[i - 1] : self._first_group[i]].tolist()
                stream = layer_output(layers[i - 1], *self._held[i - 1][1:], winners)
            self._held[i] = name, stream, layer_scores(layer, stream)
        return self._held[index][1:]

    def _after(
        self, index: int, stream: LineForms, scores: LineForms, owner: IntArray, winners: AnyArray
    ) -> LineForms:
        layer = self.network.layers[index]
        if self._is_last(index):
            return final_forms(layer, self.network.readout, stream, scores, owner, winners)
        return output_forms(layer, stream, scores, owner, winners)

    def _is_last(self, index: int) -> bool:
        return index + 1 == len(self.network.layers)

    @cached_property
    def winner_type(self) -> type[np.unsignedinteger]:
        """The type of winners."""
        return winner_type(self.network)

    @cached_property
    def _first_group(self) -> list[int]:
        """How many winners come before each layer."""
        return list(accumulate((layer.n_groups for layer in self.network.layers), initial=0))

    @cached_property
    def _batch_sizes(self) -> list[int]:
        """For each layer how many of its parts go on at once."""
        network, sizes = self.network, []
        for i, layer in enumerate(network.layers):
            if self._is_last(i) and copies_winners(layer):
                # Of each part only the winners are written down, in a byte or two each.
                sizes.append(max(1, 64 * _ENTRIES_AT_ONCE // layer.n_groups))
                continue
            after = None if self._is_last(i) else network.layers[i + 1]
            maps = [layer.output, network.readout if after is None else after.query]
            products = sum(m.weight.size for m in maps if not m.is_identity)
            width = max(len(layer.offsets), 0 if after is None else len(after.offsets))
            most = min(_ENTRIES_AT_ONCE // width, _PRODUCTS_AT_ONCE // max(products, 1))
            sizes.append(max(1, most))
        return sizes
