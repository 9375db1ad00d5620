r"""The engine for lines: exact breakpoints along a segment, a ray or a line through a model.

Intervals go through the model layer by layer, many at a time: forms are composed in float64 with
proven radii and split where the radii leave no doubt. An interval on which anything is in doubt is
split in integers instead, from the stored weights and the winners so far. Every breakpoint keeps
its name, the two forms that tie there, so its exact value can always be found.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hardmax.algebra.exact.decisions import Decisions
from hardmax.errors import ArgumentError
from hardmax.geometry.integer_vectors import wide_rows
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.models.recomposition import RationalForms, layer_output, layer_scores
from hardmax.progress import Progress, track
from hardmax.regions.cells import CellArrays
from hardmax.regions.charted_domains import ChartedDomain, charted, embedded
from hardmax.regions.exact_lines import Interval, split_interval
from hardmax.regions.line_composition import (
    chosen_rows,
    mapped_forms,
    output_forms,
    rounded_forms,
    score_forms,
    stacked_forms,
)
from hardmax.regions.line_filter import Changes, LineForms, find_changes
from hardmax.regions.line_intervals import (
    Breakpoint,
    Intervals,
    joined_intervals,
    rounded_points,
)
from hardmax.typing import AnyArray, IntArray, WideArray

_ENTRIES_AT_ONCE, _PRODUCTS_AT_ONCE = 1 << 18, 20_000_000


@dataclass
class LineSearch:
    """The search along one line: iterate over `batches`.

    Attributes:
        network: The network.
        domain: A domain of dimension 1.
        exact: Whether to decide everything in integers.
        decisions: Counts the decisions, one for each group and interval.
    """

    network: ArgmaxNetwork
    domain: ChartedDomain
    exact: bool = False
    decisions: Decisions = field(default_factory=Decisions)
    _held: dict[int, tuple[tuple[int, ...], RationalForms, RationalForms]] = field(
        default_factory=dict
    )

    def batches(self) -> Iterator[Intervals]:
        """Yield the cells, in batches, from left to right; empty batches while none is ready."""
        forms = embedded(self.network, self.domain)
        low, high = _ends(self.domain)
        start = Intervals(
            stacked_forms([rounded_forms(forms)]),
            np.empty((1, 0), dtype=np.int64),
            rounded_points([low.value], -1.0),
            rounded_points([high.value], 1.0),
            np.array([[low, high]], dtype=object),
        )
        # Depth first, so that memory does not grow with the number of cells.
        stack = [(0, start)]
        while stack:
            index, batch = stack.pop()
            if index == len(self.network.layers):
                yield batch
                continue
            layer = self.network.layers[index]
            width = len(layer.offsets)
            products = layer.query.weight.size + layer.output.weight.size
            step = max(1, min(_ENTRIES_AT_ONCE // (width * 4), _PRODUCTS_AT_ONCE // products))
            if len(batch) > step:
                stack.append((index, batch[step:]))
                batch = batch[:step]
            stack.append((index + 1, self._split(index, batch)))
            # The caller looks at the clock.
            yield batch[:0]

    def exact_value(self, point: Breakpoint) -> Fraction | None:
        """Return where a breakpoint is, from its name; None at infinity."""
        if point.value is None and point.forms is not None:
            rows = self._exact_scores(point.layer, point.prefix).rows
            (m, c), (n, d) = (rows[j] for j in point.forms)
            point.value = Fraction(int(d - c), int(m - n))
        return point.value

    def _split(self, index: int, batch: Intervals) -> Intervals:
        layer = self.network.layers[index]
        scores = score_forms(layer, batch.stream)
        changes = find_changes(scores, layer.starts, batch.low, batch.high)
        is_open = changes.is_open | self.exact
        n_open = int(is_open.sum())
        self.decisions.record(
            filtered=(len(batch) - n_open) * layer.n_groups, rational=n_open * layer.n_groups
        )
        sure = self._sure_parts(index, batch, scores, changes, ~is_open)
        if not n_open:
            return sure[1]
        owners, parts = [sure[0]], [sure[1]]
        for i in np.flatnonzero(is_open).tolist():
            exact = self._exact_parts(index, batch[i : i + 1])
            owners.append(np.full(len(exact), i))
            parts.append(exact)
        order = np.argsort(np.concatenate(owners), kind="stable")
        return joined_intervals(parts)[order]

    def _sure_parts(
        self,
        index: int,
        batch: Intervals,
        scores: LineForms,
        changes: Changes,
        is_sure: Any,
    ) -> tuple[IntArray, Intervals]:
        """Cut the intervals that floats decided; return whose part each is, and the parts."""
        layer = self.network.layers[index]
        kept = is_sure[changes.interval]
        cut = changes.interval[kept]
        where = chosen_rows(changes.where, kept)
        sure = np.flatnonzero(is_sure)
        # Each interval is cut after itself: its parts follow one another.
        owner = np.sort(np.concatenate([sure, cut]), kind="stable")
        begins = np.concatenate([[True], owner[1:] != owner[:-1]]) if len(owner) else owner == 0
        ends_part = np.roll(begins, -1)
        winners = changes.winners[owner]
        parents = [tuple(row) for row in batch.prefix.tolist()]
        points = np.empty(len(cut), dtype=object)
        group = changes.group[kept]
        for k, (i, before, after) in enumerate(
            zip(
                cut.tolist(),
                changes.before[kept].tolist(),
                changes.after[kept].tolist(),
                strict=True,
            )
        ):
            points[k] = Breakpoint(None, parents[i], index, (before, after))
        _apply_changes(
            winners, np.flatnonzero(~begins), group, changes.after[kept] - layer.starts[group]
        )
        low = chosen_rows(batch.low, owner)
        high = chosen_rows(batch.high, owner)
        ends = batch.ends[owner]
        low.values[~begins], low.radii[~begins] = where
        high.values[~ends_part], high.radii[~ends_part] = where
        ends[~begins, 0] = points
        ends[~ends_part, 1] = points
        stream = output_forms(layer, batch.stream, scores, owner, winners)
        return owner, Intervals(
            stream, np.concatenate([batch.prefix[owner], winners], axis=1), low, high, ends
        )

    def _exact_parts(self, index: int, one: Intervals) -> Intervals:
        """Cut one interval in integers."""
        layer = self.network.layers[index]
        prefix = tuple(one.prefix[0].tolist())
        scores = self._exact_scores(index, prefix)
        stream = self._held[index][1]
        low, high = one.ends[0]
        parts = split_interval(
            layer, scores, Interval(self.exact_value(low), self.exact_value(high))
        )
        points = [low, *(Breakpoint(part.low) for part, _ in parts[1:]), high]
        ends = np.array([points[:-1], points[1:]], dtype=object).T
        streams = [rounded_forms(layer_output(layer, stream, scores, won)) for _, won in parts]
        names = np.array([(*prefix, *won) for _, won in parts], dtype=np.int64)
        return Intervals(
            stacked_forms(streams),
            names.reshape(len(parts), len(prefix) + layer.n_groups),
            rounded_points([part.low for part, _ in parts], -1.0),
            rounded_points([part.high for part, _ in parts], 1.0),
            ends,
        )

    def _exact_scores(self, index: int, prefix: tuple[int, ...]) -> RationalForms:
        """Return the scores of a layer; intervals come in order, so the last ones are kept."""
        held = self._held.get(index)
        if held is None or held[0] != prefix:
            if index == 0:
                stream = embedded(self.network, self.domain)
            else:
                layer = self.network.layers[index - 1]
                cut = len(prefix) - layer.n_groups
                scores = self._exact_scores(index - 1, prefix[:cut])
                before = self._held[index - 1][1]
                stream = layer_output(layer, before, scores, prefix[cut:])
            held = prefix, stream, layer_scores(self.network.layers[index], stream)
            self._held[index] = held
        return held[2]


@dataclass(frozen=True, eq=False)
class LineCells:
    """The cells along a line, from left to right.

    Attributes:
        search: The search that found them.
        cells: The cells as arrays; `vertices` are the two ends of each.
        ends: Both ends of each cell as breakpoints, shape `(n_cells, 2)`.
    """

    search: LineSearch
    cells: CellArrays
    ends: AnyArray

    @cached_property
    def breakpoints(self) -> WideArray:
        """Where one cell ends and the next begins, as fractions: shape `(n_cells - 1,)`."""
        points = np.empty(max(len(self.ends) - 1, 0), dtype=object)
        for i, end in enumerate(self.ends[1:, 0]):
            points[i] = self.search.exact_value(end)
        return points

    @cached_property
    def witnesses(self) -> WideArray:
        """Integers `(p, q)` with `p / q` inside each cell: shape `(n_cells, 2)`."""
        middles = [
            Interval(self.search.exact_value(low), self.search.exact_value(high)).midpoint()
            for low, high in self.ends
        ]
        return wide_rows([(m.numerator, m.denominator) for m in middles], 2)


def explore(
    network: ArgmaxNetwork,
    domain: Any,
    *,
    count_only: bool = False,
    exact: bool = False,
    max_cells: int | None = None,
    max_seconds: float | None = None,
) -> LineCells:
    """Find all cells of a network on a domain of dimension 1, from left to right.

    Args:
        network: The network.
        domain: A segment, ray or line, or a box, polytope or slice of dimension 1.
        count_only: Whether to count without storing.
        exact: Whether to decide everything in integers, without floats first.
        max_cells: Stop after this many cells.
        max_seconds: Stop after this time.

    Examples:
        >>> from hardmax.geometry.domains import Segment
        >>> from hardmax.models.networks import ReluNetwork
        >>> absolute = ReluNetwork([[[1.0, -1.0], [0.0, 0.0]], [[1.0], [1.0]]])
        >>> found = explore(absolute.network, Segment([-1, 7], [2, 7]))
        >>> found.breakpoints.tolist(), found.cells.signatures.tolist()
        ([Fraction(1, 3)], [[0, 1], [1, 0]])
    """
    line = charted(domain, network.dim_in)
    if line.dim != 1:
        raise ArgumentError(f"`domain` must have dimension 1; got {line.dim}.")
    search = LineSearch(network, line, exact)
    found: list[Intervals] = []
    start, n_cells, is_complete = time.monotonic(), 0, True
    try:
        bar: Progress[int] = track(0, "cells")
        with bar as progress:
            for batch in search.batches():
                room = len(batch) if max_cells is None else min(len(batch), max_cells - n_cells)
                n_cells += room
                progress.advance(room)
                if not count_only and len(batch):
                    found.append(batch[:room])
                late = max_seconds is not None and time.monotonic() - start > max_seconds
                if room < len(batch) or late:
                    is_complete = False
                    break
    except KeyboardInterrupt:
        is_complete = False
    return _packed(search, found, n_cells, is_complete)


def _packed(
    search: LineSearch, found: list[Intervals], n_cells: int, is_complete: bool
) -> LineCells:
    network = search.network
    if not found:
        empty = np.empty((0, network.n_groups), dtype=np.int64)
        cells = CellArrays(empty, is_complete, search.decisions, None, None, None, None, n_cells)
        return LineCells(search, cells, np.empty((0, 2), dtype=object))
    all_cells = joined_intervals(found)
    output = mapped_forms(network.readout, all_cells.stream)
    ends = np.stack([all_cells.low.values, all_cells.high.values], axis=1)
    unbounded = np.isinf(ends)
    cells = CellArrays(
        signatures=all_cells.prefix,
        is_complete=is_complete,
        decisions=search.decisions,
        maps=np.stack([output.slopes.values, output.offsets.values], axis=1),
        map_radii=np.stack([output.slopes.radii, output.offsets.radii], axis=1),
        vertices=np.where(unbounded, 0.0, ends).reshape(-1, 1),
        starts=np.arange(0, 2 * n_cells + 1, 2),
        n_counted=n_cells,
        directions=np.where(unbounded, np.sign(ends), 0.0).reshape(-1, 1),
    )
    return LineCells(search, cells, all_cells.ends)


def _apply_changes(winners: IntArray, follows: IntArray, group: IntArray, form: IntArray) -> None:
    """Carry winners from each part of an interval to the next, with one change."""
    for k, part in enumerate(follows.tolist()):
        winners[part] = winners[part - 1]
        winners[part, group[k]] = form[k]


def _ends(domain: ChartedDomain) -> tuple[Breakpoint, Breakpoint]:
    low: list[Fraction] = []
    high: list[Fraction] = []
    for a, b in domain.exact_rows.tolist():
        (high if a > 0 else low).append(Fraction(b, a))
    return Breakpoint(max(low, default=None)), Breakpoint(min(high, default=None))
