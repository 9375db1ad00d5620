r"""Lines through ReLU networks: values at breakpoints, one matrix product for each.

On an interval between two points $p < q$ every pre-activation of a layer is an affine form, known
from its values at the two points. A form with values $a, b$ of opposite signs vanishes at the part
$\lambda = |a| / (|a| + |b|)$ of the way. Where unit $u$ changes at $\lambda_u$, the next layer has
the form $(1 - \lambda) y_p + \lambda (y_q - |b_u| W_u)$ before, and $(1 - \lambda) (y_p - |a_u|
W_u) + \lambda y_q$ after it: so values at the new points cost two rows of weights, and only the
points there were before a layer cost a product with the matrix of the next.

**Points.** A new point is by definition $(1 - \hat\lambda) p + \hat\lambda q$ with a float
$\hat\lambda$, in homogeneous coordinates $(t, w)$; so it is exact, and its values do not depend on
where the true breakpoint $t^*$ is. How far that is off is known as a part $\eta$ of the length of
either interval it bounds. Towards infinity $w = 0$, and values are slopes.

**Errors.** Let $F$ be the true forms of an interval, continued to its two points, and $z$ what goes
into the layer there (the units that are on). With $\|\hat z - z\| \le e$, and $\omega_j$ the norm
of column $j$ of the weights, the error of value $j$ is at most $(e + \rho)\,\omega_j +
\beta |b_j|$, where $\rho = \kappa \|\hat z\|$ and $\beta = \kappa w$ for a product (Lemma 1 of
`exact.rounding` and Cauchy-Schwarz).

At new points: let $Y$ bound, at both ends, the norm of the units that are on or among the $q$ that
change. The forms above are products of the weights with some of these units, so they are at most
$Y \omega_j + w |b_j|$. The products $a_u W_{uj}$ round by $u Y \omega_j$ in all (Cauchy-Schwarz),
each of $q$ differences by $u$ times a form, the mean by $3u$ times one. So $\rho = (\kappa + (q +
8) u) Y$, and likewise $\beta$.

With $\sigma \ge \|W\|$ and $\Omega$ the Frobenius norm, the errors of a row have norm at most $E =
\sigma e + \Omega \rho + \beta \|b\|$. Units that are off leave the row, and errors of the others
stay, so the next $e$ is $E$, or 0 if all are off. At a new point it is the larger of two, since $F$
is a mean there, and $4uY$ more: between the intervals on both sides $F_u(p)$ is in or out, which is
no more than its own error and $4u|a_u|$ from the rounding of $\hat\lambda$.

**Signs.** The form at a true end differs from that at the point by at most $\eta (|a| + |b| + 2r)$,
with $r$ the radius. A sign is known where $|a|$ and $|b|$ exceed $r$ by more than this. Then the
form changes in the true interval exactly if $a$ and $b$ have opposite signs, at a point known to
$(r + 4u|a|) / (|a| + |b| - 2r)$ of the length; and the true breakpoints have the order of the
points if neighbours are further apart than they are off.

A ReLU network is continuous: at a breakpoint where every other form is known not to vanish, one
entry of the signature changes, and no other. Intervals on which something is not known start again
with values from forms in twice the precision (see `doubled_lines`); if that does not help they are
split in integers by the search that calls this one, and their parts come back here.
"""

from collections.abc import Iterator
from ctypes import Structure, byref, c_int64, c_void_p
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import MemoryBlock, address, release_block
from hardmax._ground.arguments import prepare_array
from hardmax.exact.rounding import RAISE, TINY, UNIT_ROUNDOFF
from hardmax.models._arithmetic.enclosures import FLOOR, Enclosed
from hardmax.regions._lines.doubled_lines import DoubledLine
from hardmax.regions._lines.line_composition import LineForms
from hardmax.regions._lines.line_intervals import CellRun, Intervals, Points, exact_points
from hardmax.regions._lines.line_signatures import SignatureWalk
from hardmax.regions._lines.packed_layers import packed_layers
from hardmax.regions.charted_domains import embedded
from hardmax.typing import AnyArray, FloatArray, IntArray, WideArray

if TYPE_CHECKING:
    from hardmax.regions._lines.line_search import LineSearch

_ENTRIES_AT_ONCE, _PRODUCTS_AT_ONCE = 1 << 18, 1 << 28
"""How many values, and how many products of weights, are computed between looks at the clock."""
_MIDDLES = 0.1372549, -0.6180340, 2.7182818
"""Where a line is cut into two rays: anywhere but at a breakpoint."""

_DONE, _PAUSED, _OPEN, _CROWDED, _FULL = range(5)
"""Why the core came back: no layer is left; there is much to do; an interval is in doubt; the next
layer would have too many entries; the memory is too small for it."""

_NOWHERE = np.zeros((1, 2))
_UNNAMED = np.full((2, 3), -1)
_NO_ROWS = np.empty((0, 0)), _NOWHERE, _NOWHERE, _NOWHERE, _UNNAMED
_UNIT_INTERVAL = Fraction(0), Fraction(1)


class _RunRecord(Structure):
    """`hm_line_run` of the interface."""

    _fields_ = (
        *((name, c_int64) for name in ("index", "n")),
        *((name, c_void_p) for name in ("values", "scales", "etas", "places", "names", "is_open")),
        ("n_signs", c_int64),
        *((name, c_void_p) for name in ("where", "radii", "groups", "winners")),
    )


@dataclass(frozen=True, eq=False)
class _Run:
    r"""Intervals from left to right, all sure so far, with what the core wants.

    Attributes:
        index: The layer.
        rows: Its values at the points that bound the intervals, shape `(n, width)`; the $e$,
            $\rho$ and $\beta$ of their radii, `(n, 3)`; how far the true ends of each interval may
            lie from its points, in lengths of the interval, `(n - 1, 2)`; the coordinate $w t$ of
            each point, the weight $w$, which belongs to the values, and once more the weight, near
            the true breakpoint and as precise as the coordinate, `(n, 3)`; and the names.
        prefix: The winners of the layers before, on the first interval.
        outer: The exact ends of the first and the last interval, as far as they are known.
        is_precise: Whether this is one interval with values known to all digits.
    """

    index: int
    rows: tuple[FloatArray, FloatArray, FloatArray, FloatArray, IntArray]
    prefix: AnyArray
    outer: tuple[Fraction | None, Fraction | None]
    is_precise: bool = False

    def part(self, begin: int, end: int, prefix: AnyArray) -> "_Run":
        """The intervals from one up to another, with the winners on the first."""
        values, scales, etas, places, names = self.rows
        points = slice(begin, end + 1)
        rows = values[points], scales[points], etas[begin:end], places[points], names[points]
        outer = (
            self.outer[0] if begin == 0 else None,
            self.outer[1] if end == len(etas) else None,
        )
        return _Run(self.index, rows, prefix, outer)

    def points(self, reach: float) -> Points:
        """The ends of the intervals; no finite end of the domain is further out than `reach`."""
        _, _, etas, places, names = self.rows
        n = len(places)
        where, radii = np.empty(n), np.empty(n)
        arrays = [prepare_array(x) for x in (places, etas)]
        at = *map(address, arrays), self.index, reach, address(where), address(radii)
        core().hm_line_ends(n, *at)
        return Points(Enclosed(where, radii), names, self.exact_ends(n))

    def exact_ends(self, n: int) -> WideArray:
        """What is known exactly of so many ends."""
        exact = np.empty(n, dtype=object)
        exact[0], exact[-1] = self.outer
        return exact


class RectifiedLine:
    """The search along a line through a ReLU network."""

    def __init__(self, search: "LineSearch") -> None:
        self.search = search
        self.layers = packed_layers(search.network)
        self.n_layers = len(self.layers.widths)
        self.most_rows = self.layers.most_rows(_ENTRIES_AT_ONCE, _PRODUCTS_AT_ONCE)

    @cached_property
    def reach(self) -> float:
        """No finite end of a run, that of the domain or a middle, is further out."""
        if self.search.domain.ends is not None:
            return 4.0
        # Values at an end beyond all floats are not known, and nothing is found from there.
        most = Fraction(2) ** 1000
        ends = (float(min(abs(end), most)) for end in self.search.outer_ends if end is not None)
        return max(ends, default=0.0) + 4.0

    @cached_property
    def doubled(self) -> DoubledLine:
        """The forms of an interval in twice the precision."""
        return DoubledLine(self.layers, embedded(self.search.network, self.search.domain))

    def between(self, ends: FloatArray) -> Iterator[CellRun | Intervals | int]:
        """Yield the cells between two points before the first layer, the rows of an array.

        From left to right, in runs, batches or only counted.
        """
        none = np.empty(0, dtype=self.search.winner_type)
        run = _Run(0, _NO_ROWS, none, _UNIT_INTERVAL)
        at = address(ends)
        yield from self._search(run, (at, at + ends.nbytes // 2))

    def cells(self, start: Intervals, index: int = 0) -> Iterator[CellRun | Intervals | int]:
        """Yield the cells of an interval from left to right.

        Args:
            start: One interval, with the stream before a layer.
            index: The layer.
        """
        low, high = start.low.values[0], start.high.values[0]
        prefix = start.prefix[0]
        if low is not None or high is not None:
            ends = _end(start.stream, low, -1.0), _end(start.stream, high, 1.0)
            yield from self._search(self._run_between(index, ends, prefix, (low, high)))
            return
        left, right = _end(start.stream, None, -1.0), _end(start.stream, None, 1.0)
        for middle in map(Fraction, _MIDDLES):
            here = _end(start.stream, middle, 1.0)
            if not self._is_inside(self._run_between(index, (here, here), prefix, (None, None))):
                continue
            rays = (
                self._run_between(index, (left, here), prefix, (None, middle)),
                self._run_between(index, (here, right), prefix, (middle, None)),
            )
            yield from _merged(self._search(rays[0]), self._search(rays[1]))
            return
        points = exact_points([None, None], 1.0, _UNNAMED)
        points.where.values[0] = -np.inf
        yield from self._exact_parts(index, points, prefix)

    def _run_between(
        self,
        index: int,
        ends: tuple["_End", "_End"],
        prefix: AnyArray,
        outer: tuple[Fraction | None, Fraction | None],
    ) -> _Run:
        """One interval with the stream at both ends."""
        places = np.array([end.place for end in ends])
        weights = places[:, 1].copy()
        scales, rows = np.empty((2, 3)), np.empty((2, self.layers.widths[index]))
        scales[:, 0] = [end.error for end in ends]
        streams = (c_void_p * 2)(*(address(end.values) for end in ends))
        arrays = map(address, (weights, rows, scales))
        core().hm_line_enter(self.layers.at(index), streams, *arrays)
        return _Run(index, (rows, scales, _NOWHERE, places, _UNNAMED), prefix, outer)

    def _is_inside(self, run: _Run) -> bool:
        """Whether no unit vanishes at the one point of a run, in any layer."""
        reached = self._advance(run)
        while reached.status == _PAUSED:
            reached = self._advance(reached.run)
        return reached.status == _DONE

    def _advance(self, run: _Run, ends: tuple[int, int] | None = None) -> "_Reached":
        """Go on as far as the core goes, from a run or from the ends of a segment."""
        memory = self.layers.lent_memory()
        reached = self._advance_in(memory, run, ends)
        while reached.status == _FULL:
            memory = MemoryBlock(2 * memory.n_bytes, is_cleared=False)
            begins = reached.run.index == 0 and ends is not None
            reached = self._advance_in(memory, reached.run, ends if begins else None)
        release_block(memory)
        return reached

    def _advance_in(
        self, memory: MemoryBlock, run: _Run, ends: tuple[int, int] | None
    ) -> "_Reached":
        """Go on as far as some memory suffices."""
        layers, starts = self.layers, self.layers.unit_starts
        states = np.empty(starts[-1] - starts[run.index], dtype=np.uint8)
        how = (
            address(states), address(self.most_rows), 8 * _ENTRIES_AT_ONCE,
            memory.address, memory.n_bytes,
        )  # fmt: skip
        if ends is None:
            record = _RunRecord(run.index, len(run.rows[0]), *map(address, run.rows))
            at = layers.at(), self.n_layers, self.reach
            status = core().hm_line_advance(*at, byref(record), *how)
        else:
            record = _RunRecord()
            status = core().hm_line_between(layers.at(), self.n_layers, *ends, byref(record), *how)
        self.search.decisions.filtered += record.n_signs
        index, n = record.index, record.n
        prefix = states[: starts[index] - starts[run.index]]
        if len(run.prefix):
            prefix = np.concatenate([run.prefix, prefix])
        if status == _DONE:
            return _Reached(status, run, n - 1, found=self._found(memory, record, run, prefix))
        if status == _FULL and index == run.index:
            return _Reached(status, run, 0)
        rows = run.rows
        if index > run.index or ends is not None:
            width = 0 if index == self.n_layers else layers.widths[index]
            rows = (
                memory.copy_array(record.values, (n, width)),
                memory.copy_array(record.scales, (n, 3)),
                memory.copy_array(record.etas, (n - 1, 2)),
                memory.copy_array(record.places, (n, 3)),
                memory.copy_array(record.names, (n, 3), np.int64),
            )
        is_open = memory.copy_array(record.is_open, (n - 1,), np.bool_) if status == _OPEN else None
        is_precise = run.is_precise and index == run.index
        return _Reached(status, _Run(index, rows, prefix, run.outer, is_precise), n - 1, is_open)

    def _search(
        self, run: _Run, ends: tuple[int, int] | None = None
    ) -> Iterator[CellRun | Intervals | int]:
        """Cut intervals by the layers that are left."""
        status, run, n, is_open, found = self._advance(run, ends)
        if status == _DONE:
            assert found is not None
            yield n if self.search.count_only else found
            return
        yield 0
        if is_open is not None:
            turns = np.flatnonzero(is_open[1:] != is_open[:-1]) + 1
            bounds = sorted({0, *turns.tolist(), *np.flatnonzero(is_open).tolist(), n})
        else:
            most = int(self.most_rows[run.index])
            step = n // 2 if status == _CROWDED else most - 1
            bounds = [*range(0, n, step), n]
        for begin, end in pairwise(bounds):
            prefix = self._prefix(run, begin)
            part = run.part(begin, end, prefix)
            if is_open is None or not is_open[begin]:
                yield from self._search(part)
                continue
            points = run.points(self.reach)[begin : begin + 2]
            sharp = None if run.is_precise else self._improved(part, points)
            if sharp is not None:
                yield from self._search(sharp)
                continue
            self.search.decisions.rational += int(self.layers.widths[run.index])
            yield from self._exact_parts(run.index, points, prefix)

    def _improved(self, run: _Run, ends: Points) -> _Run | None:
        """Start again with one interval, its values known to all digits; None if that is in vain.

        Where the ends are not known exactly, how far they may be off is measured by the length; on
        a ray by 1, since values at infinity are slopes.
        """
        places = [self.doubled.place(ends, i, run.prefix) for i in range(2)]
        (low, low_off), (high, high_off) = places
        length = 1.0 if low is None or high is None else float(high - low) * (1.0 - 2.0**-40)
        length -= low_off + high_off
        if not length > 0.0:
            return None
        stream = self.doubled.stream(run.index, run.prefix)
        first = _end(stream, low, -1.0), _end(stream, high, 1.0)
        values, scales, _, where, _ = self._run_between(
            run.index, first, run.prefix, run.outer
        ).rows
        off = np.array([[low_off, high_off]])
        # A share that underflows is not 0: only an end that is known exactly has none.
        with np.errstate(under="ignore"):
            etas = np.where(off > 0.0, off / length * RAISE + TINY, 0.0)
        return _Run(
            run.index, (values, scales, etas, where, ends.names), run.prefix, run.outer, True
        )

    def _exact_parts(
        self, index: int, ends: Points, prefix: AnyArray
    ) -> Iterator[CellRun | Intervals | int]:
        """Cut one interval in integers, and go on with its parts."""
        nothing = Enclosed.exactly(np.empty((1, 0)))
        interval = Intervals(LineForms(nothing, nothing), prefix[None], ends[:1], ends[1:])
        for found in self.search.exact_parts(index, interval):
            if isinstance(found, int) or index + 1 == self.n_layers:
                yield found
                continue
            for i in range(len(found)):
                yield from self.cells(found[i : i + 1], index + 1)

    def _prefix(self, run: _Run, i: int) -> AnyArray:
        """The winners of the layers before on one of the intervals."""
        prefix = run.prefix.copy()
        groups, winners = self._changes(run.rows[4][1 : i + 1])
        # Of several changes of one entry the last one stays.
        prefix[groups] = winners
        return prefix

    def _changes(self, names: IntArray) -> tuple[IntArray, IntArray]:
        """Which entry of the signature changes at each point, and what to."""
        forms = names[:, 2]
        return self.layers.unit_starts[names[:, 0]] + (forms >> 1), forms & 1

    def _found(
        self, memory: MemoryBlock, record: _RunRecord, run: _Run, prefix: AnyArray
    ) -> CellRun:
        """The cells that are left when there is no further layer."""
        n = record.n
        where = Enclosed(
            memory.copy_array(record.where, (n,)), memory.copy_array(record.radii, (n,))
        )
        names = memory.copy_array(record.names, (n, 3), np.int64)
        # One entry changes from each cell to the next.
        starts = np.arange(-1, n - 1)
        starts[0] = 0
        groups = memory.copy_array(record.groups, (n - 2,), np.int64)
        winners = memory.copy_array(record.winners, (n - 2,), np.uint8)
        walk = SignatureWalk(prefix, starts, groups, winners)
        return CellRun(Points(where, names, run.exact_ends(n)), walk)


class _Reached(NamedTuple):
    """Why the core came back, with what, how many intervals; which are in doubt; or the cells."""

    status: int
    run: _Run
    n: int
    is_open: AnyArray | None = None
    found: CellRun | None = None


class _End(NamedTuple):
    """The stream at an end of an interval: values, the norm of their errors, and the place."""

    values: FloatArray
    error: float
    place: tuple[float, float, float]


def _end(stream: LineForms, where: Fraction | None, side: float) -> _End:
    """The forms of one interval at a point; towards infinity, the slopes that decide there."""
    (slopes, r_slopes), (offsets, r_offsets) = stream.slopes, stream.offsets
    if where is None:
        return _End(side * slopes[0], norm(r_slopes), (side, 0.0, 0.0))
    point = exact_points([where], side, _UNNAMED[:1]).where
    t, r_t = float(point.values[0]), float(point.radii[0])
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        product = slopes[0] * t
        radii = r_slopes * (abs(t) + r_t) + np.abs(slopes) * r_t + r_offsets
        radii += 4.0 * UNIT_ROUNDOFF * (np.abs(product) + np.abs(offsets))
        error = norm(radii * RAISE + TINY)
        # Beyond the floats nothing is known: zero times infinity is no number.
        known = error if r_t < np.inf and error < np.inf else np.inf
        return _End(product + offsets[0], known, (t, 1.0, 1.0 if r_t < np.inf else np.inf))


def norm(values: FloatArray) -> float:
    """A bound on the Euclidean norm, 0 only for zeros."""
    square = float(np.vdot(values, values))
    if square == 0.0 and not values.any():
        return 0.0
    if not square > 2.0**-900:
        floored = np.where(values == 0.0, 0.0, np.maximum(np.abs(values), FLOOR))
        with np.errstate(over="ignore"):
            square = float((floored**2).sum())
    return sqrt(square) * RAISE


def _merged(
    left: Iterator[CellRun | Intervals | int], right: Iterator[CellRun | Intervals | int]
) -> Iterator[CellRun | Intervals | int]:
    """Join cells on both sides of a point inside a cell: the last and the first are one."""
    held: CellRun | Intervals | int = 0
    for found in left:
        if found:
            found, held = held, found
        yield found
    low = None
    if isinstance(held, int):
        yield held - 1
    else:
        ends = held.ends if isinstance(held, CellRun) else held.low
        low = ends[len(held) - 1 : len(held)]
        yield held[: len(held) - 1] if len(held) > 1 else 0
    for found in right:
        if low is not None and not isinstance(found, int):
            ends = found.ends if isinstance(found, CellRun) else found.low
            ends.put(np.array([0]), low)
            low = None
        yield found
