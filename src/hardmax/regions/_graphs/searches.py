r"""A search for the cells of a network of any shape on a segment or a polygon, in jobs.

The core splits the domain node by node (`graph_search.hpp`) and asks here for signs that its floats
leave open. After `_JOB` pieces a search stops and its stack is cut into jobs, which go on from the
winners at hand. So what is found, in every bit, does not depend on how many threads there are.
"""

import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    addressof,
    byref,
    c_int32,
    c_int64,
    c_void_p,
    cast,
)  # fmt: skip
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import GrowingArray, address
from hardmax._ground.arguments import prepare_array
from hardmax._ground.deadlines import check_time, deadline_within, stop_flag
from hardmax._ground.display import html_card, short_repr
from hardmax._ground.interrupts import pack_when_done
from hardmax.regions._graphs.cell_forms import CellForms
from hardmax.regions._graphs.domain_sides import Point, Row, rounded_row
from hardmax.typing import AnyArray, FloatArray, IntArray

_UNIT = 2.0**-53
_JOB = 2048
_STEP = 128
_BRIEF_S = 0.02
"""How long the core may search before more pieces are asked for at once."""
_DONE, _COUNTED, _FULL, _SHORT, _STOPPED = range(5)
_UNKNOWN = 3
_CORNERS = 8

_Key = tuple[int, ...]
_Question = CFUNCTYPE(c_int32, POINTER(c_int32))


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces that a search found, as arrays; on a segment, from left to right.

    Attributes:
        starts: The index of each piece's first vertex, and the total; shape `(n_pieces + 1,)`.
        vertices: The vertices of each piece in cyclic order, shape `(n_vertices, dim)`.
        radii: Bounds on the errors of the vertices, shape `(n_vertices,)`.
        walls: For each edge from a vertex to the next (on a segment, for each vertex), the node,
            the group and the rival that ties there; on the boundary, -1, the number of the side and
            -1. Shape `(n_vertices, 3)`.
        change_starts: The index of each piece's first change, and the total; shape
            `(n_pieces + 1,)`.
        changes: The changes of winners from each piece to the next, as rows of a group and its new
            winner, shape `(n_changes, 2)`. Before the first piece, all winners are 0.
        maps: The outputs as slopes and offsets, shape `(n_pieces, dim + 1, dim_out)`.
        map_radii: Bounds on the errors of `maps`, shape `(n_pieces, dim_out)`.
        is_complete: Whether all pieces were found.
        n_exact: The number of signs decided in integers.

    Examples:
        >>> from hardmax import Segment, enumerate_regions
        >>> from hardmax.models import GraphBuilder
        >>> build = GraphBuilder()
        >>> net = build.finish(build.relu(build.input((1,))))
        >>> enumerate_regions(net, Segment([-1.0], [1.0])).found.starts.tolist()
        [0, 2, 4]
    """

    starts: IntArray
    vertices: FloatArray
    radii: FloatArray
    walls: AnyArray
    change_starts: IntArray
    changes: AnyArray
    maps: FloatArray
    map_radii: FloatArray
    is_complete: bool
    n_exact: int

    __repr__ = short_repr
    _repr_html_ = html_card

    @cached_property
    def changed_pieces(self) -> IntArray:
        """The piece in which each change takes effect, shape `(n_changes,)`."""
        counts = np.diff(self.change_starts)
        return np.repeat(np.arange(len(counts)), counts)

    def winners_of(self, group: int) -> IntArray:
        """Return the winner of a group on each piece, shape `(n_pieces,)`."""
        is_here = self.changes[:, 0] == group
        places = np.concatenate([[0], self.changed_pieces[is_here], [len(self.maps)]])
        winners = np.concatenate([[0], self.changes[is_here, 1]])
        return np.repeat(winners, np.diff(places))


class Job(NamedTuple):
    """A part of a search: a stack, and the winners it goes on from."""

    winners: AnyArray
    items: IntArray
    sides: AnyArray
    open_groups: AnyArray


class Found(NamedTuple):
    """The pieces of one job as the core writes them, the winners before it, and what is left."""

    winners: AnyArray
    vertex_ends: IntArray
    change_ends: IntArray
    vertices: FloatArray
    walls: AnyArray
    changes: AnyArray
    maps: FloatArray
    n_asked: int
    rest: list[Job]


class _PiecesRecord(Structure):
    """`hm_graph_pieces` of the interface."""

    _fields_ = (
        *(
            (name, c_int64)
            for name in (
                *("piece_room", "vertex_room", "change_room"),
                *("n_pieces", "n_vertices", "n_changes"),
            )
        ),
        *(
            (name, c_void_p)
            for name in ("vertex_ends", "change_ends", "vertices", "walls", "changes", "maps")
        ),
    )


class _SearchRecord(Structure):
    """`hm_graph_search` of the interface."""

    _fields_ = (
        *(
            (name, c_void_p)
            for name in (
                *("cell", "is_looked_at", "member_starts", "members", "numbers", "outputs"),
            )
        ),
        *((name, c_int64) for name in ("n_outputs", "n_groups")),
        ("ask", _Question),
        *((name, c_void_p) for name in ("pieces", "items", "sides", "signs", "open")),
        *((name, c_int64) for name in ("item_room", "side_room", "open_room", "n_items")),
        *(
            (name, c_void_p)
            for name in (
                *("is_stale", "is_noted", "noted", "written", "entries", "changes", "centres"),
            )
        ),
        ("zeros", c_void_p),
        *((name, c_int64) for name in ("n_known", "n_noted", "n_flips", "n_asked")),
    )


class Search:
    """A search of the core, with the memory it works in.

    Args:
        forms: The network on the domain.
        outputs: The slots of the outputs.
        sides: The sides of the domain in cyclic order, as integer forms that are positive inside.
        corners: Its vertices.
    """

    def __init__(
        self,
        forms: CellForms,
        outputs: IntArray,
        sides: Sequence[Row],
        corners: Sequence[Point],
    ) -> None:
        self._forms, self._sides, self._corners = forms, sides, corners
        network, n_groups = forms.network, forms.network.n_groups
        self._seen = forms.winners.copy()
        self._failure: BaseException | None = None
        order = np.argsort(forms.representatives, kind="stable")
        counts = np.bincount(forms.representatives, minlength=n_groups)
        bases = np.repeat(forms.exact.first_groups[:-1], np.diff(forms.exact.first_groups))
        largest = max((int(np.diff(m.starts).max(initial=1)) for m in network.maxima), default=1)
        self._kept = {
            "is_looked_at": forms.is_looked_at,
            "member_starts": np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
            "members": (order - bases[order]).astype(np.int32),
            "numbers": prepare_array(forms.numbers, np.int64),
            "outputs": outputs.astype(np.int32),
            "is_stale": np.zeros(len(network.nodes), np.uint8),
            "is_noted": np.zeros(n_groups, np.uint8),
            "noted": np.zeros(n_groups, np.int32),
            "written": np.zeros(n_groups, np.int32),
            "entries": np.zeros(largest, np.int32),
            "changes": np.zeros((n_groups, 2), np.int32),
            "centres": np.zeros((len(network.nodes), forms.dim)),
            "zeros": np.zeros(network.n_slots + _CORNERS, np.uint8),
        }
        self._note_zeros()
        dim, n_vertices, n_changes = forms.dim, 1 << 14, max(2 * n_groups, 1 << 16)
        self._buffers: dict[str, AnyArray] = {
            "vertex_ends": np.zeros(_JOB, np.int64),
            "change_ends": np.zeros(_JOB, np.int64),
            "vertices": np.zeros((n_vertices, dim + 1)),
            "walls": np.zeros((n_vertices, 3), np.int32),
            "changes": np.zeros((n_changes, 2), np.int32),
            "maps": np.zeros((_JOB, dim + 2, len(outputs))),
        }
        rooms = {"piece_room": _JOB, "vertex_room": n_vertices, "change_room": n_changes}
        self._pieces = _PiecesRecord(**rooms, **_addresses(self._buffers))
        self._side_size = int(core().hm_graph_side_size(dim))
        self._stack = {
            "items": GrowingArray(np.int64, (7,), 0),
            "sides": GrowingArray(np.uint8, (self._side_size,), 0),
            "signs": GrowingArray(np.int8, (), 0),
            "open": GrowingArray(np.int32, (), 0),
        }
        self._question = _Question(self._answer)
        self._record = _SearchRecord(
            cell=addressof(forms.record), pieces=addressof(self._pieces), ask=self._question,
            n_outputs=len(outputs), n_groups=n_groups, **_addresses(self._kept),
        )  # fmt: skip
        self._make_room(1 << 10, 1 << 12, 1 << 14)

    def _note_zeros(self) -> None:
        """Say at which corners of the domain the inputs and the sides are zero, as bits."""
        forms, zeros = self._forms, self._kept["zeros"]
        corners = self._corners if len(self._corners) <= _CORNERS else []
        for first, rows in ((0, forms.input_rows), (forms.network.n_slots, self._sides[:_CORNERS])):
            for i, row in enumerate(rows):
                check_time()
                values = [sum(map(mul, row, (*point, 1))) for point in corners]
                bits = sum((value == 0) << k for k, value in enumerate(values))
                zeros[first + i] = bits if any(row) else 255

    def _make_room(self, n_items: int, n_sides: int, n_open: int) -> None:
        rooms = {"items": n_items, "sides": n_sides, "signs": n_sides, "open": n_open}
        for name, n in rooms.items():
            self._stack[name].grow(n)
            setattr(self._record, name, self._stack[name].address)
        record = self._record
        record.item_room, record.side_room, record.open_room = n_items, n_sides, n_open

    def run(self, job: Job | None, most: int, go_on: Callable[[int], bool]) -> Found:
        """Do a job, or begin with the domain, until `most` pieces are found or a buffer is full.

        Args:
            job: A job; None for the domain.
            most: How many pieces to find at most.
            go_on: Told how many pieces are new every now and then, says whether to go on.
        """
        self._load(job)
        pieces, record, n_asked = self._pieces, self._record, int(self._record.n_asked)
        pieces.n_pieces = pieces.n_vertices = pieces.n_changes = 0
        most, status, is_wanted = min(most, _JOB), _COUNTED, True
        # Pieces of a large network take long: few are found between two looks at the clock.
        step, stop = 1, stop_flag()
        while status != _DONE and pieces.n_pieces < most and is_wanted:
            before, began = int(pieces.n_pieces), time.perf_counter()
            status = core().hm_graph_search_run(
                byref(record), self._forms.dim, min(step, most - before), addressof(stop)
            )
            is_brief = time.perf_counter() - began < _BRIEF_S
            step = min(2 * step, _STEP) if is_brief else max(step // 2, 1)
            is_wanted = go_on(int(pieces.n_pieces) - before)
            if status == _STOPPED:
                assert self._failure is not None
                raise self._failure
            if status == _SHORT:
                self._make_room(2 * record.item_room, 2 * record.side_room, 2 * record.open_room)
            if status == _FULL and pieces.n_pieces > 0:
                break
            if status == _FULL:
                self._widen()
        counts = {
            "vertex_ends": pieces.n_pieces, "change_ends": pieces.n_pieces,
            "vertices": pieces.n_vertices, "walls": pieces.n_vertices,
            "changes": pieces.n_changes, "maps": pieces.n_pieces,
        }  # fmt: skip
        copies = {name: self._buffers[name][:n].copy() for name, n in counts.items()}
        first = np.zeros_like(self._kept["written"]) if job is None else job.winners
        rest = [] if status == _DONE else self._rest()
        return Found(first, n_asked=int(record.n_asked) - n_asked, rest=rest, **copies)

    def _widen(self) -> None:
        """Make room for a piece of more vertices."""
        n = 2 * int(self._pieces.vertex_room)
        dim = self._forms.dim
        self._buffers["vertices"] = np.zeros((n, dim + 1))
        self._buffers["walls"] = np.zeros((n, 3), np.int32)
        self._pieces.vertex_room = n
        for name in ("vertices", "walls"):
            setattr(self._pieces, name, address(self._buffers[name]))

    def _load(self, job: Job | None) -> None:
        forms, record = self._forms, self._record
        if job is None:
            forms.winners[:] = 0
            lines = np.array([rounded_row(row) for row in self._sides])
            with np.errstate(over="ignore"):
                # An infinite radius leaves every question to integers.
                radii = 2.0 * _UNIT * np.abs(lines).max(axis=1) * forms.scale
            if len(self._sides) > record.side_room:
                self._make_room(record.item_room, len(self._sides), record.open_room)
            core().hm_graph_search_begin(
                byref(record), forms.dim, len(lines), address(lines), address(radii)
            )
        else:
            n_items, n_sides, n_open = len(job.items), len(job.sides), len(job.open_groups)
            self._make_room(
                max(record.item_room, 2 * n_items),
                max(record.side_room, 2 * n_sides),
                max(record.open_room, 2 * n_open),
            )
            for name, rows in (
                *(("items", job.items), ("sides", job.sides), ("open", job.open_groups)),
            ):
                self._stack[name].rows(len(rows))[:] = rows
            record.n_items = n_items
            forms.winners[:] = job.winners
            forms.compose()
        self._kept["is_stale"][:] = 0
        record.n_flips = record.n_noted = record.n_known = 0
        self._kept["is_noted"][:] = 0
        self._kept["written"][:] = forms.winners

    def _rest(self) -> list[Job]:
        """Cut the stack into jobs, those that come first on the stack's top."""
        n_items = int(self._record.n_items)
        if n_items == 0:
            return []
        items = self._stack["items"].rows(n_items).copy()
        last = items[-1]
        n_sides, n_open = int(last[1] + last[2]), int((items[:, 3] + items[:, 4]).max())
        sides = self._stack["sides"].rows(n_sides).copy()
        open_groups = self._stack["open"].rows(n_open).copy()
        kind = np.min_scalar_type(max(0, len(self._kept["entries"]) - 1))
        winners = self._forms.winners.astype(kind)
        jobs = []
        # What lies lowest is most of it.
        cuts = sorted({0, min(1, n_items), min(2, n_items), n_items})
        for low, high in pairwise(cuts):
            part = items[low:high].copy()
            side_span = int(part[0, 1]), int(part[-1, 1] + part[-1, 2])
            open_span = int(part[:, 3].min()), int((part[:, 3] + part[:, 4]).max())
            part[:, 1] -= side_span[0]
            part[:, 3] -= open_span[0]
            jobs.append(
                Job(winners, part, sides[slice(*side_span)], open_groups[slice(*open_span)])
            )
        return jobs[::-1]

    def _answer(self, walls: Any) -> int:
        """The sign of a gap where two sides meet, in integers."""
        try:
            check_time()
            changed = np.flatnonzero(self._forms.winners != self._seen)
            if len(changed):
                first = np.searchsorted(self._forms.exact.first_groups, changed[0], "right") - 1
                self._forms.exact.forget(int(first))
                self._seen[:] = self._forms.winners
            numbers = cast(walls, POINTER(c_int32 * 12)).contents
            gap, one, other = (self._row(*numbers[i : i + 4]) for i in (0, 4, 8))
            if self._forms.dim == 1:
                (a, b), (c, d) = gap, one
                value, weight = b * c - a * d, c
            else:
                (a, b, c), (d, e, f) = one, other
                weight = a * e - b * d
                point = b * f - c * e, c * d - a * f, weight
                value = sum(x * y for x, y in zip(gap, point, strict=True))
            return (value > 0) - (value < 0) if weight > 0 else (value < 0) - (value > 0)
        except BaseException as error:
            self._failure = error
            return _UNKNOWN

    def _row(self, node: int, group: int, winner: int, rival: int) -> Row:
        if node < 0:
            return self._sides[group]
        return self._forms.exact_gap(node, group, winner, rival)


def explore(
    make_search: Callable[[], Search],
    *,
    n_threads: int = 1,
    max_pieces: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Pieces:
    """Find all pieces; with a bound on their number in one thread.

    Args:
        make_search: Makes the search of one thread.
        n_threads: How many threads search at most.
        max_pieces: Stop after so many pieces.
        progress: Told how many pieces are new every now and then.

    Raises:
        TimeLimitReached: If the network could not be prepared within the time limit.
        Interrupted: On Ctrl-C; its `partial` are the pieces so far.
    """
    stop = deadline_within(None)
    most = np.inf if max_pieces is None else max_pieces
    n_threads = n_threads if max_pieces is None else 1
    # Raises `TimeLimitReached` before anything is known about the cells.
    searches = [make_search()]
    idle: queue.SimpleQueue[Search] = queue.SimpleQueue()
    idle.put(searches[0])
    waiting: list[tuple[_Key, Job | None]] = [((), None)]
    found: dict[_Key, Found] = {}
    is_stopped = False

    def go_on(new: int) -> bool:
        if progress is not None and new:
            progress(new)
        return not is_stopped and time.monotonic() < stop

    def do(key: _Key, job: Job | None, most: int) -> _Key:
        search = idle.get()
        try:
            found[key] = search.run(job, most, go_on)
        finally:
            idle.put(search)
        return key

    def work() -> bool:
        nonlocal is_stopped
        running: set[Future[_Key]] = set()
        n_pieces = 0
        with ThreadPoolExecutor(n_threads) as pool:
            try:
                while True:
                    is_wanted = n_pieces < most and (not found or time.monotonic() < stop)
                    while waiting and is_wanted and len(running) < n_threads:
                        if len(running) == len(searches):
                            searches.append(make_search())
                            idle.put(searches[-1])
                        n = int(min(_JOB, most - n_pieces))
                        # Each job has a copy of the context, and with it the time limit.
                        job = partial(do, *waiting.pop(), n)
                        running.add(pool.submit(copy_context().run, job))
                    if not running:
                        return not waiting
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for key in (future.result() for future in done):
                        n_pieces += len(found[key].maps)
                        # The first one is done next.
                        rest = [((*key, i), job) for i, job in enumerate(found[key].rest)]
                        waiting.extend(reversed(rest))
            finally:
                is_stopped = True

    def pack(is_complete: bool) -> Pieces:
        parts = [found[key] for key in sorted(found)]
        return _assembled(parts or [searches[0].run(None, 0, go_on)], is_complete=is_complete)

    return pack_when_done(work, pack)


def nothing_found(dim: int, dim_out: int) -> Pieces:
    """Return what a search that was stopped before its first piece has found."""
    return Pieces(
        np.zeros(1, np.int64),
        np.empty((0, dim)),
        np.empty(0),
        np.empty((0, 3), np.int32),
        np.zeros(1, np.int64),
        np.empty((0, 2), np.int32),
        np.empty((0, dim + 1, dim_out)),
        np.empty((0, dim_out)),
        is_complete=False,
        n_exact=0,
    )


def _assembled(parts: list[Found], *, is_complete: bool) -> Pieces:
    """Join what was found in several jobs, in order."""
    winners = np.zeros_like(parts[0].winners, dtype=np.int32)
    changes, counts = [], []
    for part in parts:
        if len(part.maps) == 0:
            continue
        # What the first piece differs in from the one before it, in another job.
        n = int(part.change_ends[0])
        entered = part.winners.astype(np.int32)
        entered[part.changes[:n, 0]] = part.changes[:n, 1]
        changed = np.flatnonzero(entered != winners)
        changes += [np.stack([changed, entered[changed]], axis=1), part.changes[n:]]
        counts += [[len(changed)], np.diff(part.change_ends)]
        entered[part.changes[n:, 0]] = part.changes[n:, 1]
        winners = entered
    maps = np.concatenate([part.maps for part in parts])
    vertices = np.concatenate([part.vertices for part in parts])
    sides = [np.diff(part.vertex_ends, prepend=0) for part in parts]
    return Pieces(
        np.concatenate([[0], *sides]).cumsum(),
        vertices[:, :-1],
        vertices[:, -1],
        np.concatenate([part.walls for part in parts]),
        np.concatenate([[0], *counts]).cumsum(),
        np.concatenate(changes) if changes else np.empty((0, 2), np.int32),
        maps[:, :-1],
        maps[:, -1],
        is_complete,
        sum(part.n_asked for part in parts),
    )


def _addresses(arrays: dict[str, AnyArray]) -> dict[str, int]:
    return {name: address(array) for name, array in arrays.items()}
