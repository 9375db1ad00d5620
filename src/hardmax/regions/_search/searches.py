"""A wrapper around the compiled search and its memory."""

from concurrent.futures import ThreadPoolExecutor
from ctypes import Array, Structure, addressof, c_double, c_int32, c_int64, c_void_p, memset
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from hardmax._core.library import check_size, core
from hardmax._core.memory import GrowingArray, MemoryBlock, address, borrow_block, release_block
from hardmax._ground.arguments import prepare_array
from hardmax._ground.deadlines import stop_flag
from hardmax._ground.interrupts import defer_interrupts
from hardmax._ground.pickling import cached_attribute
from hardmax.regions._search.networks import CoreNetwork
from hardmax.typing import AnyArray, FloatArray, IntArray

DONE, BUDGET, STACK_FULL, CELLS_FULL, CELL_LIMIT, UNCLEAR, IMPRECISE = range(7)
"""The reason why a search stopped."""
FIRST_CELLS, FIRST_VERTICES, _FIRST_BYTES = 1 << 14, 5, 1 << 22
"""Initial capacity in cells (and vertices per planar cell), reduced so that it fits a reusable
block."""
NOT_WANTED = c_int32(0)
"""A flag that never requests work."""
_Counts = c_int64 * 4
_NOT_ENTERED = -1
"""The position of a cell that is a whole region of the earlier layers, not yet a part of one."""
_NO_WINNERS = np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int8)
_NO_WINNERS_ADDRESSES = address(_NO_WINNERS[0]), address(_NO_WINNERS[1])
"""Winners and typical winners before the first layer (there are none), and their addresses."""
FIRST_CAPACITY = 256, 48
"""Initial capacity of the stack: edges (or vertices) and cells."""
LARGE_GROUP = 24
"""Groups with at least this number of forms are walked in the plane, and are chains on a line
(`chains.hpp`)."""
_MAX_NOTES = 16
"""Number of layouts to remember for a block before its notes are cleared."""
_COPY_BYTES = 1 << 20
"""Approximate number of bytes in one copy when threads concatenate the results of several runs."""
_OFFSET_COLUMNS = {"starts": 1, "facet_starts": 2, "tie_starts": 3}
"""For each column of start offsets, what it counts: an index into `Sizes`."""
N_EDGE = 12
"""The number of floats of an edge: its line (`a1, a2, c`, offset at infinity, radii of slopes and
offset), then its start (`x, y`, radius, `dx, dy`, radius)."""


class CellStruct(Structure):
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


class CellBuffer(Structure):
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


class _ColumnStruct(Structure):
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
        grid: The exponent of a grid that contains all coefficients; meaningful if the stream is
            exact.
        is_exact: Whether all radii are zero.
    """

    block: FloatArray
    doubled: FloatArray
    grid: int
    is_exact: bool
    _starts: dict[tuple[float, bool, bool], SearchStart] = field(default_factory=dict)

    @cached_attribute
    def dim(self) -> int:
        """The dimension of the domain."""
        return len(self.block) - 2

    def search_start(self, scale: float, *, is_bounded: bool, stores: bool) -> SearchStart:
        """Return the start of a search with this stream, which must outlive the returned struct."""
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
        walls: The walls of the edges, shape `(n_edges, 4)`: layer, group, winner and rival.
    """

    edges: FloatArray
    walls: AnyArray

    @classmethod
    def empty(cls, sizes: CellStruct, dim: int) -> "PlaneCell":
        """Return an uninitialized polygon of the given size."""
        n = sizes.n_vertices
        return cls(np.empty((n, N_EDGE)), np.empty((n, 4), dtype=np.int32))

    def as_struct(self) -> CellStruct:
        """Return a struct through which the core reads and writes the cell."""
        n, at = len(self.edges), address(self.edges)
        half = 8 * (N_EDGE // 2)
        return CellStruct(n, n, 0, 0, N_EDGE, N_EDGE, at + half, at, address(self.walls))


class SpaceCell(NamedTuple):
    """A polytope of dimension `d` on the stack of a search.

    Attributes:
        vertices: Points, their radii, directions, their radii: shape `(n_vertices, 2 d + 2)`.
        facets: Slopes, offset, offset at infinity, radius of the slopes, radius of the offset, and
            a bound on the sum of the absolute slopes: shape `(n_facets, d + 5)`.
        walls: The walls of the facets, shape `(n_facets, 4)`: layer, group, winner and rival.
        masks: The facets through each vertex, as bits of words: `(n_vertices, n_words)`.
        ties: A facet or -1, a group with two winners there, and one of them: `(n_ties, 3)`.
        is_pure: Whether the facet is still as the search composed it, not replaced: `(n_facets,)`.
        sources: If the cell is a part of a larger one, the index of each facet in the larger cell,
            or -1 for new facets: `(n_facets,)`.
        is_canonical: Whether the vertices are the ones to be stored.
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
    def empty(cls, sizes: CellStruct, dim: int) -> "SpaceCell":
        """Return an uninitialized polytope of the given size."""
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

    def as_struct(self) -> CellStruct:
        """Return a struct through which the core reads and writes the cell."""
        n_columns = self.vertices.shape[1]
        return CellStruct(
            len(self.vertices), len(self.facets), self.masks.shape[1], len(self.ties),
            n_columns, n_columns // 2 + 4, *map(address, self[:-1]), self.is_canonical,
        )  # fmt: skip


class Task(NamedTuple):
    """A part of a search: a cell, and the path to it.

    Attributes:
        layer: The first layer that splits the cell.
        is_part: Whether the cell is part of a region that the search has already entered.
        signature: The winners of the earlier layers, shape `(n_groups,)` or more.
        typical: The typical winners of the earlier layers and, for a part, of the layer itself.
        cell: The cell.
        is_merged: Whether forms of an earlier layer coincide on this region, so that the
            coincidences have to be found again.
    """

    layer: int
    is_part: bool
    signature: AnyArray
    typical: AnyArray
    cell: PlaneCell | SpaceCell
    is_merged: bool


class Sizes(NamedTuple):
    """Numbers of cells, vertices, facets and ties: used, or the capacity."""

    cells: int
    vertices: int
    facets: int
    ties: int


class _Column(NamedTuple):
    """One of the arrays of `CellColumns`.

    Attributes:
        name: The name of the column.
        field: The field of `hm_cells`.
        kind: The type of the entries.
        shape: The shape of a row.
        counted: What the rows correspond to: an index into `Sizes`.
        n_more: The number of rows of zeros at the beginning. It is 1 for a column of start offsets,
            because the core writes where each item ends.
        row_bytes: The number of bytes of a row.
        n_skipped: The number of bytes of the rows of zeros.
        start: The offset of the column in the block of the first cells.
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
        """Return the number of rows."""
        return sizes[self.counted] + self.n_more

    def n_bytes(self, sizes: Sizes) -> int:
        """Return the number of bytes."""
        return self.n_rows(sizes) * self.row_bytes


@dataclass(frozen=True, eq=False)
class _BlockLayout:
    """The layout of consecutive columns in one block.

    Attributes:
        columns: The columns by name.
        column_structs: The columns as the core reads them.
        address: The address of `column_structs`.
        zeros: The offset and the number of bytes of each run of leading zeros.
        capacity: The capacity of the block.
        n_bytes: The number of bytes of the block.
    """

    columns: dict[str, _Column]
    column_structs: Array[_ColumnStruct]
    address: int
    zeros: tuple[tuple[int, int], ...]
    capacity: Sizes
    n_bytes: int

    def allocate_in(self, memory: MemoryBlock) -> CellBuffer:
        """Return the columns of a block as an empty buffer for the core."""
        buffer: CellBuffer | None = memory.notes.get(self)
        if buffer is None:
            if len(memory.notes) >= _MAX_NOTES:
                memory.notes.clear()
            buffer = memory.notes[self] = CellBuffer(*self.capacity)
            for column in self.columns.values():
                setattr(buffer, column.field, memory.address + column.start + column.n_skipped)
        memset(addressof(buffer) + CellBuffer.n_cells.offset, 0, 5 * 8)
        for start, n_bytes in self.zeros:
            memset(memory.address + start, 0, n_bytes)
        return buffer


@lru_cache(maxsize=64)
def _block_layout(
    n_cells: int, dim: int, dim_out: int, n_groups: int, largest_group: int, is_bounded: bool
) -> _BlockLayout:
    """Lay out the columns of at most `n_cells` cells; see `CellColumns` for the other arguments."""
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
    capacity = Sizes(n_cells, n_vertices, 3 * dim * n_cells, n_groups + n_cells)
    placed, end = {}, 0
    # Place columns with the widest entries first, so that every column is aligned.
    for column in sorted(columns, key=lambda column: -column.kind.itemsize):
        row_bytes = prod(column.shape) * int(column.kind.itemsize)
        skipped = row_bytes * column.n_more
        placed[column.name] = column._replace(row_bytes=row_bytes, n_skipped=skipped, start=end)
        end += -(-row_bytes * column.n_rows(capacity) // 64) * 64
    if end > _FIRST_BYTES and n_cells > 1:
        return _block_layout(n_cells // 2, dim, dim_out, n_groups, largest_group, is_bounded)
    structs = (_ColumnStruct * len(placed))()
    for one, c in zip(structs, placed.values(), strict=True):
        one.field, one.counted = getattr(CellBuffer, c.field).offset, c.counted
        one.n_before, one.row_bytes = c.n_more, c.row_bytes
    zeros = tuple((c.start, c.n_skipped) for c in placed.values() if c.n_skipped)
    return _BlockLayout(placed, structs, addressof(structs), zeros, capacity, end)


class CellColumns:
    """The columns to which a search on a domain of dimension `d` writes its cells.

    The first cells lie in one reusable block. If more cells are found, the columns move to arrays
    that grow. The columns:

    - `signatures`: `(n_cells, n_groups)`, bytes if no group has more than 256 forms. If no group
      has more than two, one bit per group, `(n_cells, (n_groups + 7) // 8)`; see
      `CoreNetwork.unpack_winners`.
    - `maps`: `(n_cells, d + 1, dim_out)`; `map_radii`: `(n_cells,)`.
    - `starts`: where the vertices of each cell begin, and the end: `(n_cells + 1,)`.
    - `points`: `(n_vertices, d)`; `directions`: likewise, if the domain is unbounded.
    - `walls`: the codes of edges, `(n_vertices,)`, or the group and the form beyond each facet,
      `(n_facets, 2)`.
    - In dimensions other than two: `facet_starts` and `tie_starts`, like `starts`; `ties`, a facet
      of the cell or -1, and a group with two winners there: `(n_ties, 2)`; `blurs`, bounds on the
      radii of the vertices of each cell and of their directions, `(n_cells, 2)`.

    Args:
        network: The network.
        dim: The dimension of the domain.
        dim_out: The width of the network's output.
        is_bounded: Whether no vertex is at infinity.

    Attributes:
        dim: The dimension of the domain.
        buffer: The columns as the core sees them; it no longer changes once they are closed.
        columns: The columns by name.
    """

    def __init__(self, network: CoreNetwork, dim: int, dim_out: int, *, is_bounded: bool) -> None:
        sizes = dim, dim_out, network.n_groups, network.largest_group, is_bounded
        self._first = first = _block_layout(FIRST_CELLS, *sizes)
        self.dim, self.columns = dim, first.columns
        self._memory: MemoryBlock | None = borrow_block(first.n_bytes)
        self._grown: dict[str, GrowingArray] = {}
        self._packed: AnyArray | None = None
        self.buffer = first.allocate_in(self._memory)

    def sizes(self) -> Sizes:
        """Return the numbers of cells, vertices, facets and ties written."""
        buffer = self.buffer
        return Sizes(buffer.n_cells, buffer.n_vertices, buffer.n_facets, buffer.n_ties)

    def n_bytes(self) -> int:
        """Return the number of bytes written."""
        sizes = self.sizes()
        return sum(column.n_bytes(sizes) for column in self.columns.values())

    def grow(self, cell: PlaneCell | SpaceCell) -> None:
        """Double the capacity, and make sure that the given cell fits."""
        buffer, largest = self.buffer, cell.as_struct()
        more = Sizes(0, largest.n_vertices, largest.n_facets, largest.n_ties)
        old = buffer.room_cells, buffer.room_vertices, buffer.room_facets, buffer.room_ties
        new = Sizes(*(2 * n + extra for n, extra in zip(old, more, strict=True)))
        for column in self.columns.values():
            grown = self._as_growing(column)
            grown.grow(column.n_rows(new))
            setattr(buffer, column.field, grown.address + column.n_skipped)
        if self._memory is not None:
            # The buffer kept for this block now points elsewhere.
            self._memory.notes.pop(self._first, None)
            self._release_block()
        buffer.room_cells, buffer.room_vertices, buffer.room_facets, buffer.room_ties = new

    def _as_growing(self, column: _Column) -> GrowingArray:
        """Return a column as a growing array; copy it from the block if necessary."""
        if column.name not in self._grown:
            written = self._rows(column)
            grown = GrowingArray(column.kind, column.shape, len(written))
            grown.rows(len(written))[:] = written
            self._grown[column.name] = grown
        return self._grown[column.name]

    def _rows(self, column: _Column) -> AnyArray:
        """Return the rows of a column that have been written."""
        if column.name in self._grown:
            return self._grown[column.name].rows(column.n_rows(self.sizes()))
        shape = column.n_rows(self.sizes()), *column.shape
        if self._packed is None:
            assert self._memory is not None
            return np.ndarray(shape, column.kind, self._memory.bytes, column.start)
        start = getattr(self.buffer, column.field) - column.n_skipped - address(self._packed)
        return np.ndarray(shape, column.kind, self._packed.data, start)

    def _release_block(self) -> None:
        """Release the block of the first cells for reuse."""
        if self._memory is not None:
            release_block(self._memory)
            self._memory = None

    def close(self) -> None:
        """Shrink the columns to what has been written; nothing more may be written."""
        if self._memory is None:
            for name, grown in self._grown.items():
                column = self.columns[name]
                grown.grow(column.n_rows(self.sizes()))
                setattr(self.buffer, column.field, grown.address + column.n_skipped)
            return
        # The old buffer may soon be used by another search.
        written, self.buffer = self.buffer, CellBuffer()
        first, pack = self._first, core().hm_cells_pack
        layout = len(first.column_structs), first.address
        arguments = addressof(written), *layout, addressof(self.buffer)
        n_bytes = pack(*arguments, None, 0)
        self._packed = packed = np.empty(n_bytes, dtype=np.uint8)
        pack(*arguments, address(packed), n_bytes)
        self._release_block()

    def first_signature(self) -> AnyArray:
        """Return the signature of the first cell, if there is one: shape `(0 or 1, n_groups)`."""
        return self._rows(self.columns["signatures"])[:1]

    def rows(self, name: str) -> AnyArray:
        """Return a column of closed cells."""
        return self._rows(self.columns[name])

    def concatenate(self, name: str, others: "list[CellColumns]", workers: int) -> AnyArray:
        """Append a column of other closed cells to this one, with `workers` threads.

        Call it at most once per column. The rows of the other cells are copied.
        """
        column, n_written = self.columns[name], [self.sizes(), *(other.sizes() for other in others)]
        ends = [Sizes(*row) for row in np.cumsum(n_written, axis=0).tolist()]
        grown = self._as_growing(column)
        grown.grow(column.n_rows(ends[-1]))
        whole, jobs = grown.rows(column.n_rows(ends[-1])), []
        for other, start in zip(others, ends[:-1], strict=True):
            written, at = other._rows(column)[column.n_more :], column.n_rows(start)
            more = start[_OFFSET_COLUMNS[name]] if name in _OFFSET_COLUMNS else 0
            rows = whole[at : at + len(written)]
            step = max(1, _COPY_BYTES * len(written) // max(written.nbytes, 1))
            for i in range(0, len(written), step):
                jobs.append((written[i : i + step], rows[i : i + step], more))
            other._grown.pop(name, None)
        if sum(written.nbytes for written, _, _ in jobs) < 4 * _COPY_BYTES:
            list(map(_copy, jobs))
        else:
            # Copying releases the interpreter's lock.
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
    """The columns of cells found by one or more searches, concatenated at first access.

    Args:
        parts: The columns of each search; nothing more may be written to them.
        workers: The number of threads that concatenate them.
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
        # Neither another thread nor an interrupt may see a column that is only partly copied.
        with defer_interrupts(), self._lock:
            if name not in self._joined:
                self._joined[name] = first.concatenate(name, others, self._workers)
            return self._joined[name]


class CoreSearch:
    """A search in progress, which can be resumed.

    Args:
        network: The network.
        stream: The stream before the first layer.
        scale: The scale of the domain.
        is_bounded: Whether no vertex is at infinity.
        stores: Whether cells are stored.
        whole: The cell to search; None for an empty stack.

    Attributes:
        network: The network.
        dim: The dimension of the domain, 1 to 7.
        address: The address of the core's search.
        last_counts: The `counts` at the end of the last slice.
    """

    def __init__(
        self,
        network: CoreNetwork,
        stream: FirstStream,
        scale: float,
        *,
        is_bounded: bool,
        stores: bool,
        whole: CellStruct | None = None,
    ) -> None:
        self.network = network
        self.dim = stream.dim
        self._core = library = core()
        # Where large groups are walked, all parts must fit at once, with six edges each. A split by
        # a group needs them twice, and three edges more. An interval has at most four facets.
        widest = network.largest_group if network.largest_group >= LARGE_GROUP else 0
        each = 5 if self.dim == 1 else 16
        self._capacity = FIRST_CAPACITY[0] + each * widest, FIRST_CAPACITY[1] + widest
        self._stack: MemoryBlock | None = None
        start = stream.search_start(scale, is_bounded=is_bounded, stores=stores)
        given = network.memory.address, addressof(start), *self._capacity
        memory = borrow_block()
        n_bytes = check_size(library.hm_search_begin(memory.address, memory.n_bytes, *given))
        if n_bytes > memory.n_bytes:
            release_block(memory)
            memory = borrow_block(n_bytes)
            library.hm_search_begin(memory.address, n_bytes, *given)
        self._memory, self.address = memory, memory.address
        self.last_counts = _Counts()
        self._stop = stop_flag()
        if whole is not None:
            self._push(0, False, *_NO_WINNERS_ADDRESSES, addressof(whole))

    def release(self) -> None:
        """Release the memory of the search for reuse; the search must not be used afterwards."""
        release_block(self._memory)
        self.address = 0

    def grow(self) -> None:
        """Double the capacity of the stack."""
        self._capacity = 2 * self._capacity[0], 2 * self._capacity[1]
        n_bytes = self._core.hm_search_stack_size(self.address, *self._capacity)
        stack = MemoryBlock(n_bytes, is_cleared=False)
        self._core.hm_search_set_stack(self.address, stack.address, *self._capacity)
        # The core has copied the old stack, so its memory may go.
        self._stack = stack

    def grow_to(self, n_edges: int) -> None:
        """Double the capacity of the stack until `n_edges` edges fit."""
        while self._capacity[0] < n_edges:
            self.grow()

    def push(self, task: Task) -> None:
        """Put a cell on the stack."""
        cell = task.cell.as_struct()
        path = address(task.signature), address(task.typical)
        self._push(task.layer, task.is_part, *path, addressof(cell))

    def _push(self, *given: int) -> None:
        while self._core.hm_search_push(self.address, *given):
            self.grow()

    def take_lowest(self, n_items: int) -> list[Task]:
        """Remove the lowest cells, which are searched last, from the stack and return them."""
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
        """Recompose the stream after a layer that was refreshed."""
        self._core.hm_search_recompose(self.address, layer)

    def run(
        self, buffer: CellBuffer, limit: int, budget: int, is_wanted: c_int32 = NOT_WANTED
    ) -> int:
        """Make at most `budget` steps, find at most `limit` cells in all; return why it stopped.

        Another thread can end the call early by setting `is_wanted`. An expired time limit abandons
        the current step.
        """
        given = addressof(buffer), limit, budget, addressof(is_wanted), addressof(self.last_counts)
        return int(self._core.hm_search_run(self.address, *given, addressof(self._stop)))

    def counts(self) -> tuple[int, int, int, int]:
        """Count the cells found, the signs filtered and expanded, and the cells on the stack."""
        counts = _Counts()
        self._core.hm_search_counts(self.address, addressof(counts))
        return tuple(counts)

    def item(self, index: int) -> tuple[tuple[int, int, int], Any]:
        """Return a cell of the stack, with its layer, the groups done, and the next group."""
        at, place, sizes = self.address, (c_int32 * 3)(), CellStruct()
        self._core.hm_search_item(at, index, addressof(place), addressof(sizes))
        kind = PlaneCell if self.dim == 2 else SpaceCell
        cell = kind.empty(sizes, self.dim)
        written = cell.as_struct()
        self._core.hm_search_item(at, index, addressof(place), addressof(written))
        if isinstance(cell, SpaceCell):
            # Ties on facets that no longer exist are omitted.
            cell = cell._replace(ties=cell.ties[: written.n_ties])
        layer, position, group = place
        return (layer, position, group), cell

    def sizes(self) -> list[float]:
        """Return the approximate sizes of the cells on the stack, the lowest first.

        These are areas in the plane, and volumes of bounding boxes otherwise; NaN if unbounded.
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
        """For each layer, return a count of its regions and whether coinciding forms are merged."""
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
        """Return whether the candidates of a group on a line are known in order."""
        return int(self._core.hm_search_set_chain(self.address, layer, group, 0, None)) == 0

    def set_chain(self, layer: int, group: int, forms: IntArray) -> None:
        """Set the forms of a group that win on the region of a line, from left to right."""
        chain = prepare_array(forms, np.int32)
        self._core.hm_search_set_chain(self.address, layer, group, len(chain), address(chain))

    def scores(self, layer: int, n_scores: int) -> FloatArray:
        """Return the slopes, offsets and radii of a layer's scores: `(dim + 2, n_scores)`."""
        block = np.empty((self.dim + 2, n_scores))
        self._core.hm_search_scores(self.address, layer, address(block))
        return block

    def replace_top(self, parts: list[tuple[int, Any]]) -> None:
        """Replace the cell on top by parts, each with its winner."""
        # The smallest winner goes on top.
        parts = sorted(parts, key=lambda part: -part[0])
        winners = np.array([winner for winner, _ in parts], dtype=np.int32)
        cells = (CellStruct * len(parts))(*(cell.as_struct() for _, cell in parts))
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
        """Replace the forms of a layer by better ones, each block with its grid.

        Args:
            layer: The layer.
            stream: The stream before the layer, shape `(dim + 2, n)`, and its grid.
            scores: The scores of the layer, likewise.
            merged: For each form, the first form that coincides with it; then the means of the
                gains and the means of the values, each with radii.
        """
        contributions: list[int | None] = [None] * 5
        if merged is not None:
            first, gains, values = merged
            arrays = first, gains[0], gains[1], values[0], values[1]
            contributions = [address(array) for array in arrays]
        blocks = [(address(block), not block[-1].any(), grid) for block, grid in (stream, scores)]
        self._core.hm_search_refresh(self.address, layer, *blocks[0], *blocks[1], *contributions)
