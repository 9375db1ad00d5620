"""The compiled search, with its memory: a cover over the interface of the core."""

from concurrent.futures import ThreadPoolExecutor
from ctypes import Array, Structure, addressof, c_double, c_int32, c_int64, c_void_p, memset
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from hardmax._core.library import accepted_size, core
from hardmax._core.memory import GrowingArray, Memory, address, give_back, spare_block
from hardmax._ground.arguments import prepare_array
from hardmax._ground.deadlines import stop_flag
from hardmax._ground.interrupts import held_interrupts
from hardmax._ground.pickling import quickly_cached
from hardmax.regions._search.networks import CoreNetwork
from hardmax.typing import AnyArray, FloatArray, IntArray

DONE, BUDGET, STACK_FULL, CELLS_FULL, CELL_LIMIT, UNCLEAR, IMPRECISE = range(7)
"""Why a search stopped."""
FIRST_CELLS, FIRST_VERTICES, _FIRST_BYTES = 1 << 14, 5, 1 << 22
"""Room for so many cells at first, in the plane each with so many vertices, or for fewer where they
would take more bytes than blocks that are used again have."""
NOBODY = c_int32(0)
_Counts = c_int64 * 4
_NOT_ENTERED = -1
"""How many groups of its layer are done for a cell that is a region of the layers before."""
_NO_WINNERS = np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int8)
_NOWHERE = address(_NO_WINNERS[0]), address(_NO_WINNERS[1])
"""The winners before the first layer, and typical ones: none; and where they are."""
FIRST_ROOM = 256, 48
"""Edges, or vertices, and cells that the stack has room for at first."""
LARGE_GROUP = 24
"""From so many forms on, groups are walked in the plane, and chains on a line (`chains.hpp`)."""
_MOST_NOTES = 16
"""About so many kinds of columns a block is known to have room for."""
_AT_ONCE = 1 << 20
"""About so many bytes are copied at once by a thread that joins what several have found."""
_RISING = {"starts": 1, "facet_starts": 2, "tie_starts": 3}
"""What the columns count that say where the parts of each cell begin: indices of `Sizes`."""
N_EDGE = 12
"""Numbers of an edge: its line `a1, a2, c`, far offset, radii of slopes and offset; its start
`x, y`, radius, `dx, dy`, radius."""


class GivenCell(Structure):
    """`hm_cell` of the interface."""

    _fields_ = (
        ("n_vertices", c_int32),
        ("n_facets", c_int32),
        ("n_words", c_int32),
        ("n_ties", c_int32),
        ("vertex_stride", c_int32),
        ("facet_stride", c_int32),
        ("vertices", c_void_p),
        ("facets", c_void_p),
        ("walls", c_void_p),
        ("masks", c_void_p),
        ("ties", c_void_p),
        ("is_pure", c_void_p),
        ("sources", c_void_p),
        ("is_canonical", c_int32),
    )


class CellsRoom(Structure):
    """`hm_cells` of the interface."""

    _fields_ = (
        ("room_cells", c_int64),
        ("room_vertices", c_int64),
        ("room_facets", c_int64),
        ("room_ties", c_int64),
        ("n_cells", c_int64),
        ("n_vertices", c_int64),
        ("n_facets", c_int64),
        ("n_ties", c_int64),
        ("n_broken", c_int64),
        ("short_signatures", c_void_p),
        ("signatures", c_void_p),
        ("maps", c_void_p),
        ("map_radii", c_void_p),
        ("ends", c_void_p),
        ("points", c_void_p),
        ("directions", c_void_p),
        ("walls", c_void_p),
        ("facet_ends", c_void_p),
        ("tie_ends", c_void_p),
        ("ties", c_void_p),
        ("blurs", c_void_p),
        ("bit_signatures", c_void_p),
    )


class _GivenColumn(Structure):
    """`hm_column` of the interface."""

    _fields_ = (
        ("field", c_int64),
        ("counted", c_int64),
        ("n_before", c_int64),
        ("row_bytes", c_int64),
    )


class SearchStart(Structure):
    """`hm_search_start` of the interface."""

    _fields_ = (
        ("dim", c_int32),
        ("scale", c_double),
        ("stream", c_void_p),
        ("doubled_stream", c_void_p),
        ("stream_is_exact", c_int32),
        ("stream_grid", c_int32),
        ("is_bounded", c_int32),
        ("stores", c_int32),
    )


@dataclass(frozen=True, eq=False)
class FirstStream:
    """The stream before the first layer, as forms on the domain, of dimension `d`.

    Attributes:
        block: Slopes, offsets and radii, shape `(d + 2, n)`.
        doubled: High parts, low parts and radii, shape `(2 d + 3, n)`.
        grid: The exponent of a grid that holds it, if its radii vanish.
        is_exact: Whether they do.
    """

    block: FloatArray
    doubled: FloatArray
    grid: int
    is_exact: bool
    _starts: dict[tuple[float, bool, bool], SearchStart] = field(default_factory=dict)

    @quickly_cached
    def dim(self) -> int:
        """The dimension of the domain."""
        return len(self.block) - 2

    def start(self, scale: float, *, is_bounded: bool, stores: bool) -> SearchStart:
        """Return how a search begins with it; the stream must stay as long as that is read."""
        key = scale, is_bounded, stores
        known = self._starts.get(key)
        if known is None:
            known = self._starts[key] = SearchStart(
                self.dim, scale, address(self.block), address(self.doubled),
                self.is_exact, self.grid, is_bounded, stores,
            )  # fmt: skip
        return known


class PlaneCell(NamedTuple):
    """A polygon on the stack of a search.

    Attributes:
        edges: Its edges, shape `(n_edges, N_EDGE)`.
        walls: What they lie on, shape `(n_edges, 4)`: layer, group, winner and rival.
    """

    edges: FloatArray
    walls: AnyArray

    @classmethod
    def room(cls, sizes: GivenCell, dim: int) -> "PlaneCell":
        """Return room for a polygon of some size."""
        n = sizes.n_vertices
        return cls(np.empty((n, N_EDGE)), np.empty((n, 4), dtype=np.int32))

    def given(self) -> GivenCell:
        """Return it as the core reads and writes it."""
        n, at = len(self.edges), address(self.edges)
        half = 8 * (N_EDGE // 2)
        return GivenCell(n, n, 0, 0, N_EDGE, N_EDGE, at + half, at, address(self.walls))


class SpaceCell(NamedTuple):
    """A polytope of dimension `d` on the stack of a search.

    Attributes:
        vertices: Points, radii, directions, radii: shape `(n_vertices, 2 d + 2)`.
        facets: Slopes, offset, offset at infinity, radius of the slopes, radius of the offset, and
            a bound on the sum of the absolute slopes: shape `(n_facets, d + 5)`.
        walls: What they lie on, shape `(n_facets, 4)`: layer, group, winner and rival.
        masks: Which facets each vertex lies on, as bits of words: `(n_vertices, n_words)`.
        ties: A facet or -1, a group with two winners there, and one of them: `(n_ties, 3)`.
        is_pure: Whether the search composed a facet so, and did not replace it: `(n_facets,)`.
        sources: Of a part, which facet of the whole each one is, or -1: `(n_facets,)`.
        is_canonical: Whether the vertices are those that are stored.
    """

    vertices: FloatArray
    facets: FloatArray
    walls: AnyArray
    masks: AnyArray
    ties: AnyArray
    is_pure: AnyArray
    sources: AnyArray
    is_canonical: bool

    @classmethod
    def room(cls, sizes: GivenCell, dim: int) -> "SpaceCell":
        """Return room for a polytope of some size."""
        n, n_facets = sizes.n_vertices, sizes.n_facets
        return cls(
            np.empty((n, 2 * dim + 2)),
            np.empty((n_facets, dim + 5)),
            np.empty((n_facets, 4), dtype=np.int32),
            np.empty((n, sizes.n_words), dtype=np.uint64),
            np.empty((sizes.n_ties, 3), dtype=np.int32),
            np.empty(n_facets, dtype=np.int32),
            np.full(n_facets, -1, dtype=np.int32),
            bool(sizes.is_canonical),
        )

    def given(self) -> GivenCell:
        """Return it as the core reads and writes it."""
        n_columns = self.vertices.shape[1]
        return GivenCell(
            len(self.vertices), len(self.facets), self.masks.shape[1], len(self.ties),
            n_columns, n_columns // 2 + 4, *map(address, self[:-1]), self.is_canonical,
        )  # fmt: skip


class Task(NamedTuple):
    """A part of a search: a cell, and the path to it.

    Attributes:
        layer: The layer that it is to be split by first.
        is_part: Whether it is part of a region that has been looked at.
        signature: The winners of the layers before, shape `(n_groups,)` or more.
        typical: The typical winners of these and, for a part, of the layer itself.
        cell: The cell.
        is_merged: Whether forms of a layer before coincide in a way that has to be found again.
    """

    layer: int
    is_part: bool
    signature: AnyArray
    typical: AnyArray
    cell: PlaneCell | SpaceCell
    is_merged: bool


class Sizes(NamedTuple):
    """How many cells, vertices, facets and ties there are, or is room for."""

    cells: int
    vertices: int
    facets: int
    ties: int


class _Column(NamedTuple):
    """One of the arrays of `CellColumns`.

    Attributes:
        name: Its name.
        field: What `hm_cells` calls it.
        kind: The type of its numbers.
        shape: The shape of a row.
        counted: What it has a row for: an index of `Sizes`.
        n_more: How many rows it has before those, of zeros: it says where each thing begins, and
            the core writes where it ends.
        row_bytes: How many bytes a row takes.
        n_skipped: How many bytes the rows before take.
        start: Where in the block of the first cells it begins.
    """

    name: str
    field: str
    kind: Any
    shape: tuple[int, ...]
    counted: int
    n_more: int = 0
    row_bytes: int = 0
    n_skipped: int = 0
    start: int = 0

    def n_rows(self, sizes: Sizes) -> int:
        """Return how many rows it has."""
        return sizes[self.counted] + self.n_more

    def n_bytes(self, sizes: Sizes) -> int:
        """Return how many bytes it takes."""
        return self.n_rows(sizes) * self.row_bytes


@dataclass(frozen=True, eq=False)
class _Block:
    """Columns one after the other in one block.

    Attributes:
        columns: The columns by name.
        given: The columns as the core reads them.
        address: Where that is.
        zeros: Where there are rows of zeros before others, and how many bytes they take.
        room: For how much there is room.
        n_bytes: How many bytes there are.
    """

    columns: dict[str, _Column]
    given: Array[_GivenColumn]
    address: int
    zeros: tuple[tuple[int, int], ...]
    room: Sizes
    n_bytes: int

    def room_in(self, memory: Memory) -> CellsRoom:
        """Return what the core is told about columns in a block, where nothing is written yet."""
        room: CellsRoom | None = memory.notes.get(self)
        if room is None:
            if len(memory.notes) >= _MOST_NOTES:
                memory.notes.clear()
            room = memory.notes[self] = CellsRoom(*self.room)
            for column in self.columns.values():
                setattr(room, column.field, memory.address + column.start + column.n_skipped)
        memset(addressof(room) + CellsRoom.n_cells.offset, 0, 5 * 8)
        for start, n_bytes in self.zeros:
            memset(memory.address + start, 0, n_bytes)
        return room


@lru_cache(maxsize=64)
def _block(
    n_cells: int, dim: int, dim_out: int, n_groups: int, largest_group: int, is_bounded: bool
) -> _Block:
    """Lay out room for the first cells, `n_cells` or fewer; the others as in `CellColumns`."""
    cells, vertices, facets, ties = range(4)
    byte, index, count = np.dtype(np.uint8), np.dtype(np.int32), np.dtype(np.int64)
    double = np.dtype(np.float64)
    signature: tuple[str, Any, tuple[int, ...]] = "signatures", index, (n_groups,)
    if largest_group <= 2:
        signature = "bit_signatures", byte, ((n_groups + 7) // 8,)
    elif largest_group <= 256:
        signature = "short_signatures", byte, (n_groups,)
    columns = [
        _Column("maps", "maps", double, (dim + 1, dim_out), cells),
        _Column("map_radii", "map_radii", np.dtype(np.float32), (), cells),
        _Column("starts", "ends", count, (), cells, 1),
        _Column("points", "points", double, (dim,), vertices),
    ]
    if not is_bounded:
        columns.append(_Column("directions", "directions", double, (dim,), vertices))
    if dim == 2:
        columns.append(_Column("walls", "walls", index, (), vertices))
    else:
        columns += [
            _Column("walls", "walls", index, (2,), facets),
            _Column("facet_starts", "facet_ends", count, (), cells, 1),
            _Column("tie_starts", "tie_ends", count, (), cells, 1),
            _Column("ties", "ties", index, (2,), ties),
            _Column("blurs", "blurs", double, (2,), cells),
        ]
    columns.append(_Column("signatures", *signature, cells))
    n_vertices = n_cells * FIRST_VERTICES if dim == 2 else n_cells << dim
    room = Sizes(n_cells, n_vertices, 3 * dim * n_cells, n_groups + n_cells)
    placed, end = {}, 0
    # The widest numbers first: one after the other, each begins on a boundary of its numbers.
    for column in sorted(columns, key=lambda column: -column.kind.itemsize):
        row_bytes = prod(column.shape) * int(column.kind.itemsize)
        skipped = row_bytes * column.n_more
        placed[column.name] = column._replace(row_bytes=row_bytes, n_skipped=skipped, start=end)
        end += -(-row_bytes * column.n_rows(room) // 64) * 64
    if end > _FIRST_BYTES and n_cells > 1:
        return _block(n_cells // 2, dim, dim_out, n_groups, largest_group, is_bounded)
    given = (_GivenColumn * len(placed))()
    for one, c in zip(given, placed.values(), strict=True):
        one.field, one.counted = getattr(CellsRoom, c.field).offset, c.counted
        one.n_before, one.row_bytes = c.n_more, c.row_bytes
    zeros = tuple((c.start, c.n_skipped) for c in placed.values() if c.n_skipped)
    return _Block(placed, given, addressof(given), zeros, room, end)


class CellColumns:
    """Where a search on a domain of dimension `d` writes its cells: columns, which grow.

    The first cells lie in one block, which is used again; more of them in arrays that grow. The
    columns:

    - `signatures`: `(n_cells, n_groups)`, bytes if no group has more than 256 forms; if none has
      more than two, a bit for each, `(n_cells, (n_groups + 7) // 8)`, see `CoreNetwork.winners`.
    - `maps`: `(n_cells, d + 1, dim_out)`; `map_radii`: `(n_cells,)`.
    - `starts`: where the vertices of each cell begin, and the end: `(n_cells + 1,)`.
    - `points`: `(n_vertices, d)`; `directions`: likewise, if the domain is unbounded.
    - `walls`: the codes of edges, `(n_vertices,)`, or the group and the form beside each facet,
      `(n_facets, 2)`.
    - Not in two dimensions: `facet_starts` and `tie_starts`, like `starts`; `ties`, a facet of the
      cell or -1, and a group with two winners there: `(n_ties, 2)`; `blurs`, bounds on the radii of
      its vertices and of their directions, `(n_cells, 2)`.

    Args:
        network: The network.
        dim: The dimension of the domain.
        dim_out: The width of the network's output.
        is_bounded: Whether no vertex is at infinity.

    Attributes:
        dim: The dimension of the domain.
        room: What the core is told about them; of closed cells, it stays.
        columns: Which columns there are, by name.
    """

    def __init__(self, network: CoreNetwork, dim: int, dim_out: int, *, is_bounded: bool) -> None:
        sizes = dim, dim_out, network.n_groups, network.largest_group, is_bounded
        self._first = first = _block(FIRST_CELLS, *sizes)
        self.dim, self.columns = dim, first.columns
        self._memory: Memory | None = spare_block(first.n_bytes)
        self._grown: dict[str, GrowingArray] = {}
        self._packed: AnyArray | None = None
        self.room = first.room_in(self._memory)

    def sizes(self) -> Sizes:
        """Return how much has been written."""
        room = self.room
        return Sizes(room.n_cells, room.n_vertices, room.n_facets, room.n_ties)

    def n_bytes(self) -> int:
        """Return how many bytes have been written."""
        sizes = self.sizes()
        return sum(column.n_bytes(sizes) for column in self.columns.values())

    def grow(self, cell: PlaneCell | SpaceCell) -> None:
        """Make room for twice as many cells, one of them as large as the given one."""
        room, largest = self.room, cell.given()
        more = Sizes(0, largest.n_vertices, largest.n_facets, largest.n_ties)
        old = room.room_cells, room.room_vertices, room.room_facets, room.room_ties
        new = Sizes(*(2 * n + extra for n, extra in zip(old, more, strict=True)))
        for column in self.columns.values():
            grown = self._growing(column)
            grown.grow(column.n_rows(new))
            setattr(room, column.field, grown.address + column.n_skipped)
        if self._memory is not None:
            # What is said about these columns is no longer true of the block.
            self._memory.notes.pop(self._first, None)
            self._leave_block()
        room.room_cells, room.room_vertices, room.room_facets, room.room_ties = new

    def _growing(self, column: _Column) -> GrowingArray:
        """Return a column as an array that grows."""
        if column.name not in self._grown:
            written = self._rows(column)
            grown = GrowingArray(column.kind, column.shape, len(written))
            grown.rows(len(written))[:] = written
            self._grown[column.name] = grown
        return self._grown[column.name]

    def _rows(self, column: _Column) -> AnyArray:
        """Return a column as it is."""
        if column.name in self._grown:
            return self._grown[column.name].rows(column.n_rows(self.sizes()))
        shape = column.n_rows(self.sizes()), *column.shape
        if self._packed is None:
            assert self._memory is not None
            return np.ndarray(shape, column.kind, self._memory.bytes, column.start)
        start = getattr(self.room, column.field) - column.n_skipped - address(self._packed)
        return np.ndarray(shape, column.kind, self._packed.data, start)

    def _leave_block(self) -> None:
        """Let the block of the first cells be used again."""
        if self._memory is not None:
            give_back(self._memory)
            self._memory = None

    def close(self) -> None:
        """Keep what has been written in as little memory as it needs; nothing more may be."""
        if self._memory is None:
            for name, grown in self._grown.items():
                column = self.columns[name]
                grown.grow(column.n_rows(self.sizes()))
                setattr(self.room, column.field, grown.address + column.n_skipped)
            return
        # The room may soon be that of others.
        written, self.room = self.room, CellsRoom()
        first, pack = self._first, core().hm_cells_pack
        asked = addressof(written), len(first.given), first.address, addressof(self.room)
        n_bytes = pack(*asked, None, 0)
        self._packed = packed = np.empty(n_bytes, dtype=np.uint8)
        pack(*asked, address(packed), n_bytes)
        self._leave_block()

    def first_signature(self) -> AnyArray:
        """Return the signature of the first cell, if there is one: shape `(0 or 1, n_groups)`."""
        return self._rows(self.columns["signatures"])[:1]

    def rows(self, name: str) -> AnyArray:
        """Return a column of closed cells."""
        return self._rows(self.columns[name])

    def joined(self, name: str, others: "list[CellColumns]", workers: int) -> AnyArray:
        """Return a column of closed cells, and of others after them, joined by so many threads.

        Only once; what is written here stays where it is.
        """
        column, n_written = self.columns[name], [self.sizes(), *(other.sizes() for other in others)]
        ends = [Sizes(*row) for row in np.cumsum(n_written, axis=0).tolist()]
        grown = self._growing(column)
        grown.grow(column.n_rows(ends[-1]))
        whole, jobs = grown.rows(column.n_rows(ends[-1])), []
        for other, start in zip(others, ends[:-1], strict=True):
            written, at = other._rows(column)[column.n_more :], column.n_rows(start)
            more = start[_RISING[name]] if name in _RISING else 0
            rows = whole[at : at + len(written)]
            step = max(1, _AT_ONCE * len(written) // max(written.nbytes, 1))
            for i in range(0, len(written), step):
                jobs.append((written[i : i + step], rows[i : i + step], more))
            other._grown.pop(name, None)
        if sum(written.nbytes for written, _, _ in jobs) < 4 * _AT_ONCE:
            list(map(_copy, jobs))
        else:
            # Others run while one copies.
            with ThreadPoolExecutor(workers) as pool:
                list(pool.map(_copy, jobs))
        return whole


def _copy(job: tuple[AnyArray, AnyArray, int]) -> None:
    written, rows, more = job
    if more:
        np.add(written, more, out=rows)
    else:
        rows[...] = written


class FoundCells:
    """The columns of cells that one or more searches have found, joined when they are asked for.

    Args:
        parts: What each of them has written; nothing more may be.
        workers: How many threads join them.
    """

    def __init__(self, parts: list[CellColumns], workers: int) -> None:
        for part in parts:
            part.close()
        self._parts, self._workers = parts, workers
        self._joined: dict[str, AnyArray] = {}
        self._lock = Lock()

    def __getitem__(self, name: str) -> AnyArray:
        """Return a column of all cells."""
        first, *others = self._parts
        if not others:
            return first.rows(name)
        # What one thread has joined half, another one, or an interrupt, must not see.
        with held_interrupts(), self._lock:
            if name not in self._joined:
                self._joined[name] = first.joined(name, others, self._workers)
            return self._joined[name]


class CoreSearch:
    """A search under way, to be resumed.

    Args:
        network: The network.
        stream: The stream before the first layer.
        scale: The scale of the domain.
        is_bounded: Whether no vertex is at infinity.
        stores: Whether cells are stored.
        whole: The cell that is searched; if there is none, the stack is empty.

    Attributes:
        network: The network.
        dim: The dimension of the domain, 1 to 7.
        address: Where the core keeps the search.
        counted: What `counts` gave at the end of the last slice.
    """

    def __init__(
        self,
        network: CoreNetwork,
        stream: FirstStream,
        scale: float,
        *,
        is_bounded: bool,
        stores: bool,
        whole: GivenCell | None = None,
    ) -> None:
        self.network = network
        self.dim = stream.dim
        self._core = library = core()
        # Room for all parts at once, six edges each, where large groups are walked; the split by a
        # group asks for them twice, and for three edges more. An interval has four facets at most.
        widest = network.largest_group if network.largest_group >= LARGE_GROUP else 0
        each = 5 if self.dim == 1 else 16
        self._room = FIRST_ROOM[0] + each * widest, FIRST_ROOM[1] + widest
        self._stack: Memory | None = None
        start = stream.start(scale, is_bounded=is_bounded, stores=stores)
        given = network.memory.address, addressof(start), *self._room
        memory = spare_block()
        n_bytes = accepted_size(library.hm_search_begin(memory.address, memory.n_bytes, *given))
        if n_bytes > memory.n_bytes:
            give_back(memory)
            memory = spare_block(n_bytes)
            library.hm_search_begin(memory.address, n_bytes, *given)
        self._memory, self.address = memory, memory.address
        self.counted = _Counts()
        self._stop = stop_flag()
        if whole is not None:
            self._push(0, False, *_NOWHERE, addressof(whole))

    def release(self) -> None:
        """Let its memory be used again; nothing may be asked any more."""
        give_back(self._memory)
        self.address = 0

    def grow(self) -> None:
        """Double the room of the stack."""
        self._room = 2 * self._room[0], 2 * self._room[1]
        n_bytes = self._core.hm_search_stack_size(self.address, *self._room)
        stack = Memory(n_bytes, is_cleared=False)
        self._core.hm_search_set_stack(self.address, stack.address, *self._room)
        # The old memory was read until here.
        self._stack = stack

    def grow_to(self, n_edges: int) -> None:
        """Double the room of the stack until so many edges fit."""
        while self._room[0] < n_edges:
            self.grow()

    def push(self, task: Task) -> None:
        """Put a cell on the stack."""
        cell = task.cell.given()
        path = address(task.signature), address(task.typical)
        self._push(task.layer, task.is_part, *path, addressof(cell))

    def _push(self, *given: int) -> None:
        while self._core.hm_search_push(self.address, *given):
            self.grow()

    def give_away(self, n_items: int) -> list[Task]:
        """Take the lowest cells, which come last, off the stack."""
        signature = self.signature()
        typical = np.zeros(len(signature) + 1, dtype=np.int8)
        self._core.hm_search_typical(self.address, address(typical))
        _, merged = self.versions()
        tasks = []
        for index in range(n_items):
            (layer, position, _), cell = self.item(index)
            is_merged = any(merged[:layer])
            is_part = position != _NOT_ENTERED
            tasks.append(Task(layer, is_part, signature, typical, cell, is_merged))
        self._core.hm_search_drop(self.address, n_items)
        return tasks

    def recompose(self, layer: int) -> None:
        """Compose the stream after a layer again, after the layer was refreshed."""
        self._core.hm_search_recompose(self.address, layer)

    def run(self, room: CellsRoom, limit: int, budget: int, is_wanted: c_int32 = NOBODY) -> int:
        """Make at most `budget` steps, find at most `limit` cells in all; return why it stopped.

        Another thread ends it early by setting `is_wanted`; a time limit that is over abandons the
        step under way.
        """
        given = addressof(room), limit, budget, addressof(is_wanted), addressof(self.counted)
        return int(self._core.hm_search_run(self.address, *given, addressof(self._stop)))

    def counts(self) -> tuple[int, int, int, int]:
        """Return the cells found, the signs filtered and expanded, the cells on the stack."""
        counts = _Counts()
        self._core.hm_search_counts(self.address, addressof(counts))
        return tuple(counts)

    def item(self, index: int) -> tuple[tuple[int, int, int], Any]:
        """Return a cell of the stack: layer, groups done and next group; and the cell."""
        at, place, sizes = self.address, (c_int32 * 3)(), GivenCell()
        self._core.hm_search_item(at, index, addressof(place), addressof(sizes))
        kind = PlaneCell if self.dim == 2 else SpaceCell
        cell = kind.room(sizes, self.dim)
        written = cell.given()
        self._core.hm_search_item(at, index, addressof(place), addressof(written))
        if isinstance(cell, SpaceCell):
            # Ties on facets that are gone are left out.
            cell = cell._replace(ties=cell.ties[: written.n_ties])
        layer, position, group = place
        return (layer, position, group), cell

    def sizes(self) -> list[float]:
        """Return about how large the cells of the stack are, the lowest first; NaN if unbounded.

        In the plane their areas, elsewhere the volumes of boxes around them.
        """
        sizes = np.empty(self.counts()[3])
        self._core.hm_search_sizes(self.address, address(sizes))
        return sizes.tolist()

    def top(self) -> tuple[tuple[int, int, int], Any]:
        """Return the cell on top of the stack."""
        return self.item(self.counts()[3] - 1)

    def signature(self) -> AnyArray:
        """Return the winners on the path."""
        winners = np.zeros(self.network.n_groups + 1, dtype=np.int32)
        self._core.hm_search_signature(self.address, address(winners))
        return winners[:-1]

    def versions(self) -> tuple[list[int], list[bool]]:
        """Return for each layer a count of its regions, and whether coinciding forms are merged."""
        n_layers = self.network.n_layers
        versions = np.zeros(n_layers + 1, dtype=np.int64)
        merged = np.zeros(n_layers + 1, dtype=np.int32)
        self._core.hm_search_versions(self.address, address(versions), address(merged))
        return versions[:-1].tolist(), [bool(one) for one in merged[:-1]]

    def candidates(self, layer: int, group: int) -> list[int]:
        """Return the forms of a group that may win on the region."""
        forms = np.zeros(self.network.largest_group, dtype=np.int32)
        count = self._core.hm_search_candidates(self.address, layer, group, address(forms))
        return [int(form) for form in forms[:count]]

    def has_chain(self, layer: int, group: int) -> bool:
        """Say whether the forms of a group that may win on the region of a line are in order."""
        return int(self._core.hm_search_set_chain(self.address, layer, group, 0, None)) == 0

    def set_chain(self, layer: int, group: int, forms: IntArray) -> None:
        """Say which forms of a group win on the region of a line, from left to right."""
        chain = prepare_array(forms, np.int32)
        self._core.hm_search_set_chain(self.address, layer, group, len(chain), address(chain))

    def scores(self, layer: int, n_scores: int) -> FloatArray:
        """Return slopes, offsets and radii of the scores of a layer: `(dim + 2, n_scores)`."""
        block = np.empty((self.dim + 2, n_scores))
        self._core.hm_search_scores(self.address, layer, address(block))
        return block

    def replace_top(self, parts: list[tuple[int, Any]]) -> None:
        """Replace the cell on top by parts, each with its winner."""
        # The smallest winner goes on top.
        parts = sorted(parts, key=lambda part: -part[0])
        winners = np.array([winner for winner, _ in parts], dtype=np.int32)
        cells = (GivenCell * len(parts))(*(cell.given() for _, cell in parts))
        given = len(parts), address(winners), addressof(cells)
        while self._core.hm_search_replace(self.address, *given):
            self.grow()

    def set_vertices(self, vertices: FloatArray) -> None:
        """Set the vertices of the cell on top, shape `(n, 2 dim + 2)`."""
        self._core.hm_search_set_vertices(self.address, address(vertices))

    def refresh(
        self,
        layer: int,
        stream: tuple[FloatArray, int],
        scores: tuple[FloatArray, int],
        merged: tuple[AnyArray, FloatArray, FloatArray] | None,
    ) -> None:
        """Replace what is known about a layer by better forms, each block with its grid.

        Args:
            layer: The layer.
            stream: The stream before it, shape `(dim + 2, n)`, and its grid.
            scores: Its scores likewise.
            merged: For each form the first one that coincides with it, the means of the gains, and
                those of the values, each with radii.
        """
        contributions: list[int | None] = [None] * 5
        if merged is not None:
            first, gains, values = merged
            arrays = first, gains[0], gains[1], values[0], values[1]
            contributions = [address(array) for array in arrays]
        blocks = [(address(block), not block[-1].any(), grid) for block, grid in (stream, scores)]
        self._core.hm_search_refresh(self.address, layer, *blocks[0], *blocks[1], *contributions)
