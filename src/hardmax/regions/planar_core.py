"""The compiled search of the plane, with its memory: a cover over the interface of the core."""

from ctypes import Structure, addressof, c_double, c_int32, c_int64, c_void_p
from typing import Any, NamedTuple

import numpy as np

from hardmax._core.growing import GrowingArray
from hardmax._core.library import core
from hardmax._core.memory import Memory, address
from hardmax.regions.core_networks import CoreNetwork
from hardmax.typing import AnyArray, FloatArray

DONE, BUDGET, STACK_FULL, CELLS_FULL, CELL_LIMIT, UNCLEAR, BLURRED = range(7)
"""Why a search stopped."""
N_EDGE = 12
"""Numbers of an edge: its line `a1, a2, c`, far offset, radii of slopes and offset; its start
`x, y`, radius, `dx, dy`, radius."""


class PlaneStart(Structure):
    """`hm_plane_start` of the interface."""

    _fields_ = (
        ("scale", c_double),
        ("stream", c_void_p),
        ("doubled_stream", c_void_p),
        ("stream_is_exact", c_int32),
        ("stream_grid", c_int32),
        ("is_bounded", c_int32),
        ("stores", c_int32),
    )


class CellsRoom(Structure):
    """`hm_cells` of the interface."""

    _fields_ = (
        ("room_cells", c_int64),
        ("room_vertices", c_int64),
        ("n_cells", c_int64),
        ("n_vertices", c_int64),
        ("n_broken", c_int64),
        ("short_signatures", c_void_p),
        ("signatures", c_void_p),
        ("maps", c_void_p),
        ("map_radii", c_void_p),
        ("ends", c_void_p),
        ("points", c_void_p),
        ("directions", c_void_p),
        ("walls", c_void_p),
    )


_FIRST_CELLS, _FIRST_VERTICES = 2048, 5
"""Room for so many cells at first, each with so many vertices."""
_NOBODY = c_int32(0)


class FirstStream(NamedTuple):
    """The stream before the first layer, as forms on the domain.

    Attributes:
        block: Slopes, offsets and radii, shape `(4, n)`.
        doubled: High parts, low parts and radii, shape `(7, n)`.
        grid: The exponent of a grid that holds it, if its radii vanish.
    """

    block: FloatArray
    doubled: FloatArray
    grid: int


class Task(NamedTuple):
    """A part of a search: a polygon, and the path to it.

    Attributes:
        layer: The layer that it is to be split by first.
        is_part: Whether it is part of a region that has been looked at.
        signature: The winners of the layers before, shape `(n_groups,)` or more.
        typical: The typical winners of these and, for a part, of the layer itself.
        edges: Its edges, shape `(n_edges, N_EDGE)`.
        walls: What they lie on, shape `(n_edges, 4)`.
        is_merged: Whether forms of a layer before coincide in a way that has to be found again.
    """

    layer: int
    is_part: bool
    signature: AnyArray
    typical: AnyArray
    edges: FloatArray
    walls: AnyArray
    is_merged: bool


class FoundCells(NamedTuple):
    """The cells of a search; all but the last three arrays have a row for each cell.

    Attributes:
        signatures: `(n_cells, n_groups)`, bytes if no group has more than 256 forms.
        maps: `(n_cells, 3, dim_out)`.
        map_radii: `(n_cells,)`.
        ends: Where the vertices of each cell end, `(n_cells,)`.
        points: `(n_vertices, 2)`.
        directions: `(n_vertices, 2)`; no rows where the domain is bounded.
        walls: The codes of the edges, `(n_vertices,)`.
    """

    signatures: AnyArray
    maps: FloatArray
    map_radii: FloatArray
    ends: AnyArray
    points: FloatArray
    directions: FloatArray
    walls: AnyArray


class CellColumns:
    """Where a search writes its cells: the arrays of `FoundCells`, which grow.

    Args:
        network: The network.
        dim_out: The width of its output.
        is_bounded: Whether no vertex is at infinity.

    Attributes:
        room: What the core is told about them.
    """

    def __init__(self, network: CoreNetwork, dim_out: int, *, is_bounded: bool) -> None:
        self._is_short, self._is_bounded = network.largest_group <= 256, is_bounded
        self._types: dict[str, tuple[Any, tuple[int, ...]]] = dict(
            signatures=(np.uint8 if self._is_short else np.int32, (network.n_groups,)),
            maps=(np.float64, (3, dim_out)),
            map_radii=(np.float32, ()),
            ends=(np.int64, ()),
            points=(np.float64, (2,)),
            directions=(np.float64, (2,)),
            walls=(np.int32, ()),
        )
        self.room = CellsRoom(_FIRST_CELLS, _FIRST_CELLS * _FIRST_VERTICES)
        self._columns = {
            name: GrowingArray(*row_type, self.rows_of(name, *self._room_of_all()))
            for name, row_type in self._types.items()
        }
        self._tell()

    def _room_of_all(self) -> tuple[int, int]:
        return self.room.room_cells, self.room.room_vertices

    def like(self, n_cells: int, n_vertices: int) -> FoundCells:
        """Return arrays of the same types, for so many cells and vertices."""
        return FoundCells(
            *(
                np.empty((self.rows_of(name, n_cells, n_vertices), *shape), dtype=kind)
                for name, (kind, shape) in self._types.items()
            )
        )

    def rows_of(self, name: str, n_cells: int, n_vertices: int) -> int:
        """Return how many rows an array needs for so many cells and vertices."""
        if name in ("points", "walls"):
            return n_vertices
        return n_vertices * (not self._is_bounded) if name == "directions" else n_cells

    def _tell(self) -> None:
        """Tell the core where the arrays are."""
        at = {name: column.address for name, column in self._columns.items()}
        signatures = at.pop("signatures")
        at["short_signatures" if self._is_short else "signatures"] = signatures
        at["directions"] = 0 if self._is_bounded else at["directions"]
        for name, where in at.items():
            setattr(self.room, name, where)

    def grow(self, n_vertices: int) -> None:
        """Make room for twice as many cells, one of them with `n_vertices` vertices."""
        self.room.room_cells *= 2
        self.room.room_vertices = 2 * self.room.room_vertices + n_vertices
        for name, column in self._columns.items():
            column.grow(self.rows_of(name, *self._room_of_all()))
        self._tell()

    def first_signature(self) -> AnyArray:
        """Return the signature of the first cell, if there is one: shape `(0 or 1, n_groups)`."""
        return self._columns["signatures"].rows(min(self.room.n_cells, 1))

    def take(self, name: str) -> AnyArray:
        """Return one of the arrays; nothing more may be written to it."""
        n_rows = self.rows_of(name, self.room.n_cells, self.room.n_vertices)
        return self._columns[name].taken(n_rows)

    def taken(self) -> FoundCells:
        """Return all arrays; nothing more may be written to them."""
        return FoundCells(*map(self.take, FoundCells._fields))


class PlaneSearch:
    """A search under way, to be resumed.

    Attributes:
        network: The network.
        address: Where the core keeps the search.
    """

    def __init__(
        self,
        network: CoreNetwork,
        stream: FirstStream,
        scale: float,
        *,
        is_bounded: bool,
        stores: bool,
    ) -> None:
        """Prepare a search without any polygon."""
        self.network = network
        self._core = core()
        self._memory = Memory(self._core.hm_plane_size(network.address, stores))
        self.address = self._memory.address
        is_exact = not stream.block[3].any()
        start = PlaneStart(
            scale, address(stream.block), address(stream.doubled), is_exact, stream.grid,
            is_bounded, stores,
        )  # fmt: skip
        self._core.hm_plane_init(self.address, network.address, addressof(start))
        # Room for all parts at once, six edges each, where large groups are walked; the split by a
        # group asks for them twice, and for three edges more.
        widest = network.largest_group if network.largest_group >= 24 else 0
        self._room = (256 + 16 * widest, 48 + widest)
        self._counts = np.zeros(4, dtype=np.int64)
        self._place = np.zeros(3, dtype=np.int32)
        self._set_stack()

    def _set_stack(self) -> None:
        size = self._core.hm_plane_stack_size(self.network.address, *self._room)
        stack = Memory(size)
        self._core.hm_plane_set_stack(self.address, stack.address, *self._room)
        # The old memory was read until here.
        self._stack = stack

    def grow(self) -> None:
        """Double the room of the stack."""
        self._room = 2 * self._room[0], 2 * self._room[1]
        self._set_stack()

    def grow_to(self, n_edges: int) -> None:
        """Double the room of the stack until so many edges fit."""
        while self._room[0] < n_edges:
            self.grow()

    def push(self, task: Task) -> None:
        """Put a polygon on the stack."""
        given = address(task.signature), address(task.typical), len(task.edges)
        polygon = address(task.edges), address(task.walls)
        while self._core.hm_plane_push(self.address, task.layer, task.is_part, *given, *polygon):
            self.grow()

    def give_away(self, n_items: int) -> list[Task]:
        """Take the lowest polygons, whose cells come last, off the stack."""
        signature = self.signature()
        typical = np.zeros(len(signature) + 1, dtype=np.int8)
        self._core.hm_plane_typical(self.address, address(typical))
        _, merged = self.versions()
        tasks = []
        for index in range(n_items):
            (layer, position, _), edges, walls = self.item(index)
            is_merged = any(merged[:layer])
            tasks.append(Task(layer, position >= 0, signature, typical, edges, walls, is_merged))
        self._core.hm_plane_drop(self.address, n_items)
        return tasks

    def recompose(self, layer: int) -> None:
        """Compose the stream after a layer again, after the layer was refreshed."""
        self._core.hm_plane_recompose(self.address, layer)

    def run(self, room: CellsRoom, limit: int, budget: int, is_wanted: c_int32 = _NOBODY) -> int:
        """Make at most `budget` steps, find at most `limit` cells in all; return why it stopped.

        Another thread ends it early by setting `is_wanted`.
        """
        given = addressof(room), limit, budget, addressof(is_wanted)
        return int(self._core.hm_plane_run(self.address, *given))

    def counts(self) -> tuple[int, int, int, int]:
        """Return the cells found, the signs filtered and expanded, the polygons on the stack."""
        self._core.hm_plane_counts(self.address, address(self._counts))
        found, filtered, expanded, n_items = self._counts.tolist()
        return found, filtered, expanded, n_items

    def item(self, index: int) -> tuple[tuple[int, int, int], FloatArray, AnyArray]:
        """Return a polygon of the stack: layer, groups done and next group; edges; walls."""
        at, place = self.address, address(self._place)
        n = self._core.hm_plane_item(at, index, place, None, None)
        edges, walls = np.empty((n, N_EDGE)), np.empty((n, 4), dtype=np.int32)
        self._core.hm_plane_item(at, index, place, address(edges), address(walls))
        layer, position, group = self._place.tolist()
        return (layer, position, group), edges, walls

    def top(self) -> tuple[tuple[int, int, int], FloatArray, AnyArray]:
        """Return the polygon on top of the stack."""
        return self.item(self.counts()[3] - 1)

    def signature(self) -> AnyArray:
        """Return the winners on the path."""
        winners = np.zeros(self.network.n_groups + 1, dtype=np.int32)
        self._core.hm_plane_signature(self.address, address(winners))
        return winners[:-1]

    def versions(self) -> tuple[list[int], list[bool]]:
        """Return for each layer a count of its regions, and whether coinciding forms are merged."""
        n_layers = self.network.n_layers
        versions = np.zeros(n_layers + 1, dtype=np.int64)
        merged = np.zeros(n_layers + 1, dtype=np.int32)
        self._core.hm_plane_versions(self.address, address(versions), address(merged))
        return versions[:-1].tolist(), [bool(one) for one in merged[:-1]]

    def candidates(self, layer: int, group: int) -> list[int]:
        """Return the forms of a group that may win on the region."""
        forms = np.zeros(self.network.largest_group, dtype=np.int32)
        count = self._core.hm_plane_candidates(self.address, layer, group, address(forms))
        return [int(form) for form in forms[:count]]

    def scores(self, layer: int, n_scores: int) -> FloatArray:
        """Return slopes, offsets and radii of the scores of a layer, shape `(4, n_scores)`."""
        block = np.empty((4, n_scores))
        self._core.hm_plane_scores(self.address, layer, address(block))
        return block

    def replace_top(self, parts: list[tuple[int, FloatArray, AnyArray]]) -> None:
        """Replace the polygon on top by parts: winner, edges and walls of each."""
        # The smallest winner goes on top.
        parts = sorted(parts, key=lambda part: -part[0])
        winners = np.array([winner for winner, _, _ in parts], dtype=np.int32)
        sizes = np.array([len(edges) for _, edges, _ in parts], dtype=np.int32)
        edges = np.concatenate([edges for _, edges, _ in parts])
        walls = np.concatenate([walls for _, _, walls in parts]).astype(np.int32)
        given = address(winners), address(sizes), address(edges), address(walls)
        while self._core.hm_plane_replace(self.address, len(parts), *given):
            self.grow()

    def set_vertices(self, vertices: FloatArray) -> None:
        """Set the vertices of the cell on top, shape `(n, 6)`."""
        self._core.hm_plane_set_vertices(self.address, address(vertices))

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
            stream: The stream before it, shape `(4, n)`, and its grid.
            scores: Its scores likewise.
            merged: For each form the first one that coincides with it, the means of the gains, and
                those of the values, each with radii.
        """
        contributions: list[int | None] = [None] * 5
        if merged is not None:
            first, gains, values = merged
            arrays = first, gains[0], gains[1], values[0], values[1]
            contributions = [address(array) for array in arrays]
        blocks = [(address(block), not block[3].any(), grid) for block, grid in (stream, scores)]
        self._core.hm_plane_refresh(self.address, layer, *blocks[0], *blocks[1], *contributions)
