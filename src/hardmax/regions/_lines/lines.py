r"""The engine for lines: exact breakpoints along a segment, a ray or a line through a ReLU network.

Values at the ends of intervals go through the network layer by layer, and the maps are composed
when they are asked for. An interval on which anything is in doubt is split in integers, from the
stored weights and the winners so far. Every breakpoint keeps its name, the two forms that tie
there, so its exact value can always be found. Networks with other layers are searched by the core
(see `core_lines`), and here in integers alone.
"""

import time
from fractions import Fraction
from functools import cached_property, partial
from math import isinf
from typing import Any

import numpy as np

from hardmax._ground.deadlines import deadline_within
from hardmax._ground.interrupts import defer_interrupts, pack_when_done
from hardmax._ground.progress import Progress, track
from hardmax.errors import ArgumentError
from hardmax.exact.integer_vectors import wide_rows
from hardmax.models._arithmetic.enclosures import Enclosed
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._lines.exact_lines import Interval
from hardmax.regions._lines.line_intervals import CellRun, Intervals, Points, joined_points
from hardmax.regions._lines.line_search import LineSearch
from hardmax.regions._lines.line_signatures import SignatureWalk, WalkRecorder
from hardmax.regions._measures.line import measured_intervals
from hardmax.regions._measures.measures import Answers
from hardmax.regions.cell_arrays import CellArrays, LazyCellArrays
from hardmax.regions.cells import Cells, Locator, Outline
from hardmax.regions.charted_domains import charted
from hardmax.typing import AnyArray, FloatArray, IntArray, WideArray


class LineCells(Cells):
    """The cells along a line, from left to right.

    Args:
        search: The search that found them.
        arrays: The cells as arrays, without signatures; `vertices` are the two ends of each.
        walk: The signatures, as changes from each cell to the next.
        ends: The left end of each cell, and after them the right end of the last.
    """

    def __init__(
        self, search: LineSearch, arrays: CellArrays, walk: SignatureWalk, ends: Points
    ) -> None:
        super().__init__(search.network, search.domain, arrays)
        self.search, self.walk, self.ends = search, walk, ends

    def __len__(self) -> int:
        return len(self.walk)

    @property
    def has_gaps(self) -> bool:
        """Whether cells may be missing between those found; they are found from left to right."""
        return False

    @property
    def n_stored(self) -> int:
        """The number of cells of which more is known than that they exist."""
        return len(self.walk)

    @cached_property
    def signatures(self) -> AnyArray:
        """The winners of all groups, shape `(n_cells, n_groups)`: a table, where it fits."""
        return self.walk.table()

    def signature(self, cell: int) -> AnyArray:
        """Return the winners on one cell, without a table of all of them."""
        return self.walk.row(cell)

    @property
    def outline(self) -> Outline | None:
        """The ends of the cells."""
        arrays, radii = self.arrays, self.ends.where.radii
        if arrays.vertices is None or arrays.starts is None:
            return None
        ways = np.zeros_like(arrays.vertices) if arrays.directions is None else arrays.directions
        both = np.column_stack([radii[:-1], radii[1:]]).ravel()
        return Outline(arrays.starts, arrays.vertices, both, ways, np.zeros(len(both)))

    def exact_volumes(self, cells: IntArray) -> list[Fraction | float]:
        """Return the exact lengths of some cells."""
        return [one.length() for one in self.intervals(cells)]

    def interior_points(self, cells: IntArray) -> WideArray:
        """Return the midpoint of each of some cells, or a point inside an unbounded one."""
        return wide_rows([[one.midpoint()] for one in self.intervals(cells)], 1)

    @cached_property
    def breakpoints(self) -> WideArray:
        """The points where one cell ends and the next begins, as fractions."""
        points = np.empty(max(len(self) - 1, 0), dtype=object)
        points[:] = self.exact_ends[1:-1]
        return points

    @cached_property
    def exact_ends(self) -> list[Fraction | None]:
        """The left end of each cell, and the right end of the last; None at infinity."""
        inner = self.intervals(np.arange(len(self)))
        return [*(one.low for one in inner), *(one.high for one in inner[-1:])]

    def intervals(self, cells: IntArray) -> list[Interval]:
        """Return some cells, given in ascending order, exactly."""
        found = []
        for i, signature in zip(cells.tolist(), self.walk.rows_of(cells), strict=True):
            low, high = (self.search.exact_value(self.ends, k, signature) for k in (i, i + 1))
            found.append(Interval(low, high))
        return found

    def measure(self, question: int) -> Answers:
        """Measure all cells from their ends and bounds on the errors of these."""
        (ends, radii) = self.ends.where
        left, right = Enclosed(ends[:-1], radii[:-1]), Enclosed(ends[1:], radii[1:])
        return measured_intervals(left, right, question)

    def make_locator(self) -> Locator:
        """Return a function that finds the cells of points by the ends of the cells."""
        from hardmax.regions._location.lines import LineLocator

        return LineLocator(self)


class _Collector:
    """Keeps of the cells what the result needs."""

    def __init__(self, search: LineSearch) -> None:
        self.search = search
        self.signatures = WalkRecorder(search.network.n_groups, search.winner_type)
        self.maps: list[Enclosed] = []
        self.ends: list[Points] = []
        self.n_cells = 0

    def add(self, batch: Intervals | CellRun | int) -> None:
        """Keep a batch of cells, or only count it."""
        if isinstance(batch, int):
            self.n_cells += batch
        elif len(batch):
            self.n_cells += len(batch)
            self._store(batch)

    def _store(self, batch: Intervals | CellRun) -> None:
        # The right end of the last cell so far is the left end of the next.
        if self.ends:
            self.ends[-1] = self.ends[-1][:-1]
        if isinstance(batch, CellRun):
            self.signatures.add_walk(batch.walk)
            self.ends.append(batch.ends)
            return
        self.signatures.add(batch.prefix)
        if not self.search.is_rectified:
            pairs = zip(batch.stream.slopes, batch.stream.offsets, strict=True)
            self.maps.append(Enclosed(*(np.stack(pair, axis=1) for pair in pairs)))
        self.ends.append(joined_points([batch.low, batch.high[-1:]]))

    def packed(self, is_complete: bool) -> LineCells:
        search, n_cells = self.search, self.n_cells
        walk = self.signatures.walk()
        if not len(walk):
            return counted(search, is_complete, n_cells)
        ends = self.ends[0] if len(self.ends) == 1 else joined_points(self.ends)
        where = ends.where.values
        vertices, directions = np.empty((2 * n_cells, 1)), np.zeros((2 * n_cells, 1))
        vertices[::2, 0], vertices[1::2, 0] = where[:-1], where[1:]
        for end in (0, -1):
            if isinf(where[end]):
                directions[end], vertices[end] = np.sign(where[end]), 0.0
        cells = LazyCellArrays.knowing(
            partial(_composed, search, walk, self.maps),
            signatures=np.empty((0, search.network.n_groups), dtype=search.winner_type),
            is_complete=is_complete,
            decisions=search.decisions,
            vertices=vertices,
            starts=np.arange(0, 2 * n_cells + 1, 2),
            n_counted=n_cells,
            directions=directions,
            wall_names=None,
            facets=None,
            has_means=True,
        )
        return LineCells(search, cells, walk, ends)


def _composed(
    search: LineSearch, walk: SignatureWalk, maps: list[Enclosed], _: str
) -> dict[str, FloatArray]:
    """The output on all cells with radii: as it came with them, or from their signatures."""
    if search.is_rectified:
        values, radii = search.composed(walk)
    else:
        values, radii = map(np.concatenate, zip(*maps, strict=True))
    return {"maps": values, "map_radii": radii}


def counted(search: LineSearch, is_complete: bool, n_cells: int) -> LineCells:
    """Cells of which nothing but their number is known."""
    none = np.empty((0, search.network.n_groups), dtype=search.winner_type)
    cells = CellArrays(none, is_complete, search.decisions, None, None, None, None, n_cells)
    walk = WalkRecorder(search.network.n_groups, search.winner_type).walk()
    return LineCells(search, cells, walk, joined_points([]))


def explore(
    network: ArgmaxNetwork,
    domain: Any,
    *,
    count_only: bool = False,
    exact: bool = False,
    max_cells: int | None = None,
    max_seconds: float | None = None,
    most_exact: int | None = None,
) -> LineCells:
    """Find all cells of a network on a domain of dimension 1, from left to right.

    Args:
        network: The network.
        domain: A domain of dimension 1.
        count_only: Whether to count without storing.
        exact: Whether to decide everything in integers, without floats first.
        max_cells: Stop after this many cells.
        max_seconds: Stop after this time.
        most_exact: Stop when more intervals than this had to be split in integers.

    Raises:
        Interrupted: On Ctrl-C, with the cells found until then.

    Examples:
        >>> from hardmax import ReluNetwork, Segment
        >>> absolute = ReluNetwork([[[1.0, -1.0], [0.0, 0.0]], [[1.0], [1.0]]])
        >>> found = explore(absolute.network, Segment([-1, 7], [2, 7]))
        >>> found.breakpoints.tolist(), found.signatures.tolist()
        ([Fraction(1, 3)], [[0, 1], [1, 0]])
    """
    line = charted(domain, network.dim_in)
    if line.dim != 1:
        raise ArgumentError(f"`domain` must have dimension 1; got {line.dim}.")
    search = LineSearch(network, line, exact, count_only)
    collected = _Collector(search)
    deadline = deadline_within(max_seconds)

    def work() -> bool:
        bar: Progress[int] = track(0, "cells")
        with bar as progress, defer_interrupts() as interrupt:
            for found in search.batches():
                interrupt()
                n_found = found if isinstance(found, int) else len(found)
                left = n_found if max_cells is None else max_cells - collected.n_cells
                room = min(n_found, left)
                if room:
                    collected.add(room if isinstance(found, int) else found[:room])
                progress.advance(room)
                late = time.monotonic() > deadline
                tedious = most_exact is not None and search.n_exact > most_exact
                if room < n_found or late or tedious:
                    return False
        return True

    return pack_when_done(work, collected.packed)
