"""Facets of cells as the compiled core reads them: matched, recomposed and compared."""

from ctypes import Structure, addressof, byref, c_int32, c_int64, c_void_p
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from hardmax._core.library import check_size, core
from hardmax._core.memory import address, borrow_block, release_block
from hardmax._ground.arguments import prepare_array
from hardmax.models.argmax import ArgmaxLayer, ArgmaxNetwork
from hardmax.regions._search.networks import core_network
from hardmax.regions._search.rounded_forms import first_stream
from hardmax.regions._search.searches import CellBuffer, CellColumns
from hardmax.regions._search.space_domains import read_spatial_domain
from hardmax.regions.cell_arrays import CellArrays, CellFacets
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.typing import AnyArray, BoolArray, FloatArray, IntArray

OPEN, APART, OVERLAP = -1, 0, 1
"""What is known about two facets."""
_NOTHING, _NO_BORDERS = np.empty(0, dtype=np.int64), np.empty((0, 0))
_UNITS, _CONTINUOUS, _JUMPS = range(3)
_SLICE = 1 << 16  # so many facets are looked at, or pairs found, before interrupts act


class _Facets(Structure):
    """`hm_facets` of the interface."""

    _fields_ = (
        ("cells", c_void_p),
        ("dim", c_int32),
        ("n_groups", c_int32),
        ("n_borders", c_int32),
        ("group_layers", c_void_p),
        ("kinds", c_void_p),
        ("weights", c_void_p),
        ("borders", c_void_p),
        ("is_chosen", c_void_p),
        ("covers", c_int32),
        ("owners", c_void_p),
        ("splits", c_void_p),
        ("forms", c_void_p),
    )


class _Meeting(Structure):
    """`hm_meeting` of the interface."""

    _fields_ = (
        ("n_pairs", c_int64),
        ("room", c_int64),
        ("pairs", c_void_p),
        ("cells", c_void_p),
        ("groups", c_void_p),
        ("is_sorted", c_int32),
        ("n_loose", c_int64),
        ("n_searched", c_int64),
        ("next", c_int64),
        ("n_open", c_int64),
        ("loose", c_void_p),
        ("is_open", c_void_p),
    )


class FacetTable:
    """Cells with their facets as the core reads them.

    Args:
        network: The network.
        cells: The cells.
        borders: The inequalities of the domain, if facets are to be compared: see
            `SpatialDomain`.

    Attributes:
        given: `hm_facets` of the interface, without what is computed; valid while the table lives.
        n_facets: How many facets there are.
        n_ties: How many ties there are.
    """

    def __init__(
        self, network: ArgmaxNetwork, cells: CellArrays, borders: FloatArray = _NO_BORDERS
    ) -> None:
        found: CellColumns | None = cells.found
        kept: Any = found
        if found is None:
            room, dim, kept = _room_of(cells)
        else:
            room, dim = found.buffer, found.dim
            if room.bit_signatures:
                room = CellBuffer.from_buffer_copy(room)
                room.short_signatures, kept = address(cells.signatures), (found, cells.signatures)
        # Kept, because the core has only addresses.
        self._kept = room, kept, borders
        self.n_facets, self.n_ties = room.n_facets, room.n_ties
        self.given = _Facets(
            addressof(room), dim, network.n_groups, len(borders),
            *_layers(network).addresses, address(borders),
        )  # fmt: skip


def _room_of(cells: CellArrays) -> tuple[CellBuffer, int, list[AnyArray]]:
    """Return cells that are not those of a search as a search would write them.

    Returns:
        What the core is told about them, their dimension, and the arrays where they lie.
    """
    facets = cells.facets
    assert facets is not None
    assert cells.vertices is not None
    is_short = cells.signatures.dtype == np.uint8
    winners = "short_signatures" if is_short else "signatures"
    columns = {
        winners: (cells.signatures, np.uint8 if is_short else np.int32),
        "points": (cells.vertices, np.float64),
        "directions": (cells.directions, np.float64),
        "ends": (cells.starts, np.int64),
        "walls": (facets.facets, np.int32),
        "facet_ends": (facets.starts, np.int64),
        "tie_ends": (facets.tie_starts, np.int64),
        "ties": (facets.ties, np.int32),
        "blurs": (facets.blurs, np.float64),
    }
    room, kept = CellBuffer(), []
    room.n_cells, room.n_vertices = len(cells.signatures), len(cells.vertices)
    room.n_facets, room.n_ties = len(facets.facets), len(facets.ties)
    for name, (column, kind) in columns.items():
        if column is not None:
            array = prepare_array(column, kind)
            setattr(room, name, address(array) + (array.itemsize if "ends" in name else 0))
            kept.append(array)
    return room, cells.vertices.shape[1], kept


class _Layers(NamedTuple):
    """What the core is told about the layers of a network.

    Attributes:
        words: What `_words` gives; hashes change with them, results do not.
        kinds: What the layers are, shape `(n_layers,)`.
        group_layers: The layer of each group, shape `(n_groups,)`.
        addresses: Where they are: the layers of groups, the kinds, the words.
    """

    words: AnyArray
    kinds: AnyArray
    group_layers: IntArray
    addresses: tuple[int, int, int]


def _layers(network: ArgmaxNetwork) -> _Layers:
    """Describe the layers of a network; the answer is kept as long as that."""
    known: _Layers | None = network.kept.get("facets")
    if known is None:
        words = _words(network.n_groups)
        last = len(network.layers) - 1
        numbers = [_kind(layer, is_last=i == last) for i, layer in enumerate(network.layers)]
        kinds = np.array(numbers, dtype=np.int32)
        groups = prepare_array(core_network(network).layer_of_group, np.int64)
        places = address(groups), address(kinds), address(words)
        known = network.kept["facets"] = _Layers(words, kinds, groups, places)
    return known


@lru_cache(maxsize=64)
def _words(n_groups: int) -> AnyArray:
    """Return odd words to hash with, shape `(n_groups,)`."""
    return np.random.default_rng(0).integers(2**63, size=n_groups, dtype=np.uint64) * 2 + 1


def _kind(layer: ArgmaxLayer, *, is_last: bool) -> int:
    """Say what a layer is to later ones at its walls."""
    if layer.is_relu:
        return _UNITS
    if is_last:
        return _CONTINUOUS
    first = np.repeat(layer.starts[:-1], np.diff(layer.starts))
    same_values = np.array_equal(layer.values, layer.values[first])
    same_gains = np.array_equal(layer.gains, layer.gains[first])
    return _CONTINUOUS if same_values and same_gains else _JUMPS


def passes_means(network: ArgmaxNetwork, facets: CellFacets) -> BoolArray:
    """Return on which cells a mean over coinciding forms may be passed on, which is not composed.

    Returns:
        Shape `(n_cells,)`.
    """
    passes = np.zeros(len(facets.tie_starts) - 1, dtype=np.bool_)
    if not len(facets.ties):
        return passes
    is_wide = np.array([not layer.is_relu for layer in network.layers], dtype=np.bool_)
    layers = core_network(network).layer_of_group
    merged = np.flatnonzero((facets.ties[:, 0] < 0) & is_wide[layers[facets.ties[:, 1]]])
    passes[np.searchsorted(facets.tie_starts, merged, side="right") - 1] = True
    return passes


class CoreFacets:
    """The facets of cells of a network, matched by their names, and searched where these do not do.

    Args:
        network: The network.
        domain: The domain.
        cells: The cells.
        is_chosen: Which cells to look at, shape `(n_cells,)`; all if None.

    Attributes:
        network: The network.
        domain: The domain.
        cells: The cells.
        n_ties: How many ties they have.
        n_loose: How many facets are not matched by their names.
    """

    def __init__(
        self,
        network: ArgmaxNetwork,
        domain: ChartedDomain,
        cells: CellArrays,
        is_chosen: BoolArray | None = None,
    ) -> None:
        self.network, self.domain, self.cells = network, domain, cells
        self._core = library = core()
        where = read_spatial_domain(domain, network.dim_in)
        self._table = table = FacetTable(network, cells, where.borders)
        self.n_ties, given = table.n_ties, table.given
        given.covers = cells.is_complete
        if is_chosen is not None:
            self._is_chosen = is_chosen
            given.is_chosen = address(is_chosen)
        # Kept, because the core has only addresses.
        self._stream = first_stream(network, domain.inputs, where.scale)
        start = self._stream.search_start(where.scale, is_bounded=True, stores=False)
        self._at = addressof(given)
        asked = self._at, core_network(network).address, addressof(start)
        memory = borrow_block()
        n_bytes = library.hm_facets_meet(*asked, memory.address, memory.n_bytes, _SLICE)
        if n_bytes > memory.n_bytes:
            release_block(memory)
            memory = borrow_block(n_bytes)
            n_bytes = library.hm_facets_meet(*asked, memory.address, n_bytes, _SLICE)
        check_size(n_bytes)
        self._memory = memory
        self._more_pairs: IntArray | None = None
        self._meeting = meeting = _Meeting.from_address(memory.address)
        self.n_loose = meeting.n_loose

    @property
    def is_settled(self) -> bool:
        """Whether all pairs are known, and sorted; `neighbours` then has them."""
        return bool(self._meeting.is_sorted)

    @property
    def facets(self) -> CellFacets:
        """The facets of the cells."""
        assert self.cells.facets is not None
        return self.cells.facets

    @property
    def pairs(self) -> IntArray:
        """The pairs of facets that share a part of a wall, as far as known: `(n_pairs, 2)`."""
        n_pairs = self._meeting.n_pairs
        if self._more_pairs is not None:
            return self._more_pairs[:n_pairs]
        return self._copied(self._meeting.pairs, (n_pairs, 2))

    @property
    def owners(self) -> IntArray:
        """The cell of each facet, shape `(n_facets,)`."""
        return self._copied(self._table.given.owners, (self._table.n_facets,))

    @property
    def splits(self) -> IntArray:
        """A number for the split that made each loose facet, shape `(n_facets,)`."""
        return self._copied(self._table.given.splits, (self._table.n_facets,))

    @property
    def loose(self) -> IntArray:
        """The facets that are not matched by their names, shape `(n_loose,)`."""
        return self._copied(self._meeting.loose, (self.n_loose,))

    @property
    def forms(self) -> FloatArray:
        """The forms of facets, then those of the domain, as far as they are composed.

        Slopes, offset, radius of the slopes, radius of the offset: shape `(n_facets + n_borders,
        dim + 3)`. Radii are infinite where forms are not known.
        """
        given = self._table.given
        shape = self._table.n_facets + given.n_borders, given.dim + 3
        return self._copied(given.forms, shape, np.float64)

    def _copied(self, at: int, shape: tuple[int, ...], kind: Any = np.int64) -> AnyArray:
        copied: AnyArray = self._memory.copy_array(at, shape, kind)
        return copied

    def neighbours(self) -> tuple[IntArray, IntArray]:
        """Return what `sort` returns of all pairs, where they are settled."""
        meeting = self._meeting
        n_pairs = meeting.n_pairs
        return (
            self._copied(meeting.cells, (n_pairs, 2)),
            self._copied(meeting.groups, (n_pairs,)),
        )

    def sort(self, pairs: IntArray) -> tuple[IntArray, IntArray]:
        """Sort pairs of facets in the order of their cells, in place.

        Returns:
            The pairs of cells, shape `(n_pairs, 2)`, and the groups of the facets, `(n_pairs,)`.
        """
        cells, groups = np.empty_like(pairs), np.empty(len(pairs), dtype=np.int64)
        places = address(pairs), address(cells), address(groups)
        self._core.hm_facets_sort(self._at, self._memory.address, len(pairs), *places)
        return cells, groups

    def compose(self, chosen: IntArray) -> None:
        """Compose the forms of all facets of the cells of some facets."""
        self._core.hm_facets_compose(self._at, self._memory.address, len(chosen), address(chosen))

    def overlay(self) -> tuple[IntArray, IntArray]:
        """Search what lies beyond facets at walls with jumps.

        Returns:
            The pairs of facets that share a part of a wall, those known before included, shape
            `(n_pairs, 2)`, and the facets that are to be compared: the pairs are all there are, but
            for those of two of these.
        """
        meeting = self._meeting
        while meeting.next < meeting.n_searched:
            last = meeting.next
            self._core.hm_facets_overlay(self._at, self._memory.address, _SLICE)
            if meeting.next == last:
                more = np.empty((2 * meeting.room, 2), dtype=np.int64)
                more[: meeting.n_pairs] = self.pairs
                self._more_pairs = more
                meeting.pairs, meeting.room = address(more), len(more)
        if not meeting.n_open:
            return self.pairs, _NOTHING
        return self.pairs, self.loose[self._copied(meeting.is_open, (self.n_loose,), np.bool_)]

    def close(self) -> None:
        """Let all memory be used again: nothing is read any more."""
        release_block(self._memory)

    def compare(self, chosen: IntArray) -> tuple[IntArray, IntArray]:
        """Compare facets of one split, those of `chosen`, whose forms have been composed.

        Returns:
            The pairs that overlap, or may, shape `(n_pairs, 2)`, and which is true.
        """
        n, dim, given = len(chosen), self._table.given.dim, self._at
        chosen = prepare_array(chosen, np.int64)
        assert self.cells.starts is not None
        sizes, n_rows = np.diff(self.cells.starts), np.diff(self.facets.starts)
        starts = np.empty(n + 1, dtype=np.int64)
        corners = np.empty(int(sizes[self.owners[chosen]].sum()) + 1, dtype=np.int64)
        boxes = np.empty((n, 2, dim))
        places = address(chosen), address(starts), address(corners), address(boxes)
        self._core.hm_facets_corners(given, n, *places)
        splits = self.splits[chosen]
        order = np.lexsort((boxes[:, 0, 0], splits))
        ends = np.searchsorted(splits[order], splits[order], side="right")
        most_rows = 2 * int(n_rows.max()) + self._table.given.n_borders
        rows, normals = np.empty(most_rows, dtype=np.int64), np.empty((most_rows, dim + 1))
        inside = np.empty(max(1, int(sizes.max())), dtype=np.int8)
        scratch = [address(array) for array in (order, ends, rows, normals, inside)]
        found, verdicts = [], []
        begin, room = 0, 4 * n + 16
        while begin < n:
            some, verdict = np.empty((room, 2), dtype=np.int64), np.empty(room, dtype=np.int64)
            count = c_int64()
            begin = self._core.hm_facets_compare(
                given, n, *places, begin, *scratch, room, address(some), address(verdict),
                byref(count),
            )  # fmt: skip
            found.append(some[: count.value])
            verdicts.append(verdict[: count.value])
        return np.concatenate(found), np.concatenate(verdicts)
