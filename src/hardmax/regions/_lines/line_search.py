"""The search along a line: through ReLU networks by values, through others in integers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax.exact.decisions import Decisions
from hardmax.models._arithmetic.enclosures import Enclosed
from hardmax.models._arithmetic.normed_maps import is_relu_network
from hardmax.models._arithmetic.recomposition import RationalForms, layer_output
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._lines.exact_lines import Interval, split_interval
from hardmax.regions._lines.integer_lines import integer_cells
from hardmax.regions._lines.line_composition import (
    LineForms,
    charted_forms,
    mapped_forms,
    rounded_forms,
    stacked_forms,
)
from hardmax.regions._lines.line_intervals import (
    CellRun,
    Intervals,
    Points,
    exact_points,
    joined_points,
)
from hardmax.regions._lines.line_signatures import SignatureWalk, winner_type
from hardmax.regions._lines.rectified_lines import RectifiedLine
from hardmax.regions._lines.rectified_maps import FirstForms, composed_maps
from hardmax.regions.cell_rows import ExactLayers
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.typing import AnyArray

_ENTRIES_AT_ONCE = 1 << 18
"""How many scores of parts of an interval are written down between looks at the clock."""


@dataclass
class LineSearch:
    """The search along one line: iterate over `batches`.

    Attributes:
        network: The network.
        domain: A domain of dimension 1.
        exact: Whether to decide everything in integers, as in networks with other layers than ReLU.
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

    def batches(self) -> Iterator[Intervals | CellRun | int]:
        """Yield the cells from left to right, in batches or only counted; often 0 of them.

        Whoever takes them looks at the clock each time.
        """
        if not self.network.layers:
            yield 1 if self.count_only else self._start()
        elif not self.is_rectified:
            yield from self._exactly(0, self._start())
        elif (cells := integer_cells(self)) is not None:
            yield from cells
        elif self._is_plain_segment:
            # The second stage of a segment has its ends as rows.
            yield from RectifiedLine(self).between(self.domain.stages[1].weight)
        else:
            yield from RectifiedLine(self).cells(self._start())

    @cached_property
    def is_rectified(self) -> bool:
        """Whether this is a search through a ReLU network that starts with floats."""
        return not self.exact and is_relu_network(self.network)

    @property
    def _is_plain_segment(self) -> bool:
        """Whether the stream before the first layer is known exactly at both ends."""
        return self.domain.ends is not None and self.network.embedding.is_identity

    def composed(self, walk: SignatureWalk) -> Enclosed:
        """Compose the output of a ReLU network on cells: shape `(n_cells, 2, dim_out)`."""
        is_plain = self.domain.ends is not None and self.network.embedding.is_identity
        first = (
            FirstForms.between(self.domain.chart) if is_plain else FirstForms.of(self._first_stream)
        )
        return composed_maps(self.network, first, walk)

    def exact_value(self, points: Points, i: int, signature: AnyArray) -> Fraction | None:
        """Return where a point is, from its name and a signature at it; None at infinity."""
        layer, one, other = points.names[i].tolist()
        if points.values[i] is not None:
            pass
        elif points.ratios is not None:
            p, q = points.ratios[i].tolist()
            points.values[i] = Fraction(p, q) if q else None
        elif layer >= 0:
            rows = self.exact_layer(layer, signature)[1].rows
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

    def _exactly(self, index: int, one: Intervals) -> Iterator[Intervals | int]:
        """Cut one interval by all layers that are left, in integers."""
        self.decisions.rational += self.network.layers[index].n_groups
        for parts in self.exact_parts(index, one):
            if isinstance(parts, int) or self._is_last(index):
                yield parts
                continue
            yield 0
            for i in range(len(parts)):
                yield from self._exactly(index + 1, parts[i : i + 1])

    def exact_parts(self, index: int, one: Intervals) -> Iterator[Intervals | int]:
        """Cut one interval by a layer, in integers, and yield its parts, few at a time.

        Streams are rounded from exact ones: those of a ReLU network that go on, and else the output
        after the last layer. Others are not asked for, and empty.
        """
        self.n_exact += 1
        layer, signature = self.network.layers[index], one.prefix[0]
        scores = self.exact_layer(index, signature)[1]
        ends = (self.exact_value(end, 0, signature) for end in (one.low, one.high))
        first, found = split_interval(layer, scores, Interval(*ends))
        if self.count_only and self._is_last(index):
            yield len(found) + 1
            return
        winners = np.empty((len(found) + 1, layer.n_groups), dtype=self.winner_type)
        winners[0] = first
        for k, cut in enumerate(found):
            winners[k + 1] = winners[k]
            for g, _, after in cut.changes:
                winners[k + 1, g] = after
        starts = layer.starts.tolist()
        names = [
            (index, starts[g] + before, starts[g] + after)
            for g, before, after in (cut.changes[0] for cut in found)
        ]
        cuts = exact_points(
            [cut.where for cut in found], 1.0, np.array(names, dtype=np.int64).reshape(-1, 3)
        )
        low, high = joined_points([one.low, cuts]), joined_points([cuts, one.high])
        streams = self._streams(index, signature, winners)
        step = max(1, _ENTRIES_AT_ONCE // layer.n_groups)
        for begin in range(0, len(winners), step):
            some = slice(begin, begin + step)
            before = np.repeat(one.prefix, len(winners[some]), axis=0)
            prefix = np.concatenate([before, winners[some]], axis=1)
            yield Intervals(streams(some), prefix, low[some], high[some])

    def _streams(
        self, index: int, signature: AnyArray, winners: AnyArray
    ) -> Callable[[slice], LineForms]:
        """Return what has the streams after a layer on some of the parts of an interval."""
        layer = self.network.layers[index]
        stream, scores = self.exact_layer(index, signature)
        if self._is_last(index) == self.is_rectified:
            nothing = Enclosed.exactly(np.empty((len(winners), 0)))
            return LineForms(nothing, nothing).__getitem__
        if self.is_rectified:
            # The stream is nothing but scores of winners.
            rounded = stacked_forms([rounded_forms(scores)])

            def passed_on(some: slice) -> LineForms:
                return rounded[0, layer.starts[:-1] + winners[some]]

            return passed_on

        def outputs(some: slice) -> LineForms:
            exact = (layer_output(layer, stream, scores, won) for won in winners[some].tolist())
            return stacked_forms([rounded_forms(x.compose(self.network.readout)) for x in exact])

        return outputs

    def _is_last(self, index: int) -> bool:
        return index + 1 == len(self.network.layers)

    def exact_layer(self, index: int, signature: AnyArray) -> tuple[RationalForms, RationalForms]:
        """Return the stream before a layer and its scores; the last ones are kept."""
        return self._layers.layer(index, signature)

    @cached_property
    def _layers(self) -> ExactLayers:
        return ExactLayers(self.network, self.domain)

    @cached_property
    def winner_type(self) -> type[np.unsignedinteger]:
        """The type of winners."""
        return winner_type(self.network)
