"""Facets of cells as the compiled core reads them: matched, recomposed and compared."""

from ctypes import Structure, addressof, byref, c_int32, c_int64, c_void_p
from functools import cache
from math import prod
from typing import NamedTuple

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import Memory, address, give_back, spare_block
from hardmax.models.argmax import ArgmaxLayer, ArgmaxNetwork
from hardmax.regions._search.networks import core_network
from hardmax.regions._search.searches import CoreSearch, FirstStream
from hardmax.regions.cells import CellArrays, CellFacets
from hardmax.typing import AnyArray, BoolArray, FloatArray, IntArray

OPEN, APART, OVERLAP = -1, 0, 1
"""What is known about two facets."""
_UNITS, _CONTINUOUS, _JUMPS = range(3)
_SLICE = 1 << 16  # so many cells are found at most before interrupts act
_MOST_FOUND = 256
"""Signatures that the core has scratch for."""


class _Facets(Structure):
    """`hm_facets` of the interface."""

    _fields_ = (
        ("n_cells", c_int64),
        ("n_facets", c_int64),
        ("dim", c_int32),
        ("n_groups", c_int32),
        ("n_borders", c_int32),
        ("short_signatures", c_void_p),
        ("signatures", c_void_p),
        ("starts", c_void_p),
        ("walls", c_void_p),
        ("tie_starts", c_void_p),
        ("ties", c_void_p),
        ("group_layers", c_void_p),
        ("kinds", c_void_p),
        ("points", c_void_p),
        ("directions", c_void_p),
        ("point_starts", c_void_p),
        ("blurs", c_void_p),
        ("forms", c_void_p),
        ("owners", c_void_p),
        ("splits", c_void_p),
    )


class FacetTable:
    """Cells with their facets as the core reads them.

    Attributes:
        given: `hm_facets` of the interface, without what is computed; valid while the table lives.
    """

    def __init__(self, network: ArgmaxNetwork, cells: CellArrays) -> None:
        facets = cells.facets
        assert facets is not None
        assert cells.vertices is not None
        assert cells.starts is not None
        is_short = cells.signatures.dtype == np.uint8
        signatures = np.ascontiguousarray(
            cells.signatures, dtype=np.uint8 if is_short else np.int32
        )
        # Kept, because the core has only their addresses.
        self._arrays: dict[str, AnyArray] = {
            "short_signatures" if is_short else "signatures": signatures,
            "starts": np.ascontiguousarray(facets.starts, dtype=np.int64),
            "walls": np.ascontiguousarray(facets.facets, dtype=np.int32),
            "tie_starts": np.ascontiguousarray(facets.tie_starts, dtype=np.int64),
            "ties": np.ascontiguousarray(facets.ties, dtype=np.int32),
            "group_layers": np.ascontiguousarray(
                core_network(network).group_layers, dtype=np.int64
            ),
            "points": np.ascontiguousarray(cells.vertices),
            "point_starts": np.ascontiguousarray(cells.starts, dtype=np.int64),
            "blurs": np.ascontiguousarray(facets.blurs),
        }
        if cells.directions is not None:
            self._arrays["directions"] = np.ascontiguousarray(cells.directions)
        at = {name: address(array) for name, array in self._arrays.items()}
        sizes = len(signatures), len(facets.facets), cells.vertices.shape[1], network.n_groups
        self.given = _Facets(*sizes, 0, **at)


def passes_means(network: ArgmaxNetwork, facets: CellFacets) -> BoolArray:
    """Return on which cells a mean over coinciding forms may be passed on, which is not composed.

    Returns:
        Shape `(n_cells,)`.
    """
    passes = np.zeros(len(facets.tie_starts) - 1, dtype=np.bool_)
    if not len(facets.ties):
        return passes
    is_wide = np.array([not layer.is_relu for layer in network.layers], dtype=np.bool_)
    layers = core_network(network).group_layers
    merged = np.flatnonzero((facets.ties[:, 0] < 0) & is_wide[layers[facets.ties[:, 1]]])
    passes[np.searchsorted(facets.tie_starts, merged, side="right") - 1] = True
    return passes


class Matches(NamedTuple):
    """Facets matched across the splits that made them.

    Attributes:
        owners: The cell of each facet, shape `(n_facets,)`.
        splits: A number for the split that made it, likewise.
        pairs: Facets that are equal: `(n_pairs, 2)`.
        is_loose: Which facets are not matched by their names, shape `(n_facets,)`.
    """

    owners: IntArray
    splits: IntArray
    pairs: IntArray
    is_loose: BoolArray


class CoreFacets:
    """The facets of cells of a network.

    Attributes:
        network: The network.
        cells: The cells.
        facets: Their facets.
        points: Their vertices.
        matches: Which of them are equal.
    """

    def __init__(self, network: ArgmaxNetwork, cells: CellArrays) -> None:
        assert cells.facets is not None
        assert cells.vertices is not None
        assert cells.starts is not None
        self.network, self.cells = network, cells
        self.points: FloatArray = cells.vertices
        self.facets: CellFacets = cells.facets
        self._core = core()
        self._block: Memory | None = None
        n_facets = len(self.facets.facets)
        self._owners = np.empty(n_facets, dtype=np.int64)
        self._splits = np.empty(n_facets, dtype=np.int64)
        self._table = FacetTable(network, cells)
        self._given = self._table.given
        self._given.kinds = address(_kinds(network))
        self._given.owners, self._given.splits = address(self._owners), address(self._splits)
        self.matches = self._matched()

    def _matched(self) -> Matches:
        n_facets, n_groups = len(self._owners), max(self.network.n_groups, 1)
        words = _words(n_groups)
        size = 1 << max(2 * n_facets, 1).bit_length()
        block = spare_block(8 * n_facets + 4 * size)
        keys = np.ndarray(n_facets, np.uint64, block.bytes)
        table = np.ndarray(size, np.int32, block.bytes, 8 * n_facets)
        table[:] = -1
        since = np.empty(n_groups, dtype=np.int64)
        is_loose = np.empty(n_facets, dtype=np.bool_)
        pairs = np.empty((n_facets // 2, 2), dtype=np.int64)
        n_pairs = self._core.hm_facets_match(
            addressof(self._given), address(words), address(keys), address(table), len(table),
            address(since), address(is_loose), address(pairs),
        )  # fmt: skip
        give_back(block)
        return Matches(self._owners, self._splits, pairs[:n_pairs], is_loose)

    def sort(self, pairs: IntArray) -> IntArray:
        """Sort pairs of facets in the order of their cells, in place; return these, likewise."""
        cells = np.empty_like(pairs)
        counts = np.empty(len(self.cells.signatures) + 1, dtype=np.int64)
        self._core.hm_facets_sort(
            addressof(self._given), len(pairs), address(pairs), address(counts), address(cells)
        )
        return cells

    def compose(
        self, stream: FirstStream, scale: float, borders: FloatArray, is_wanted: AnyArray
    ) -> FloatArray:
        """Return the forms of the facets of some cells, then those of the domain, with radii.

        Args:
            stream: The stream before the first layer.
            scale: The scale of the domain.
            borders: The forms of the domain, shape `(n_borders, dim + 3)`.
            is_wanted: 1 for the cells to look at, -1 for those whose forms are not known, and get
                infinite radii, else 0: shape `(n_cells,)`.

        Returns:
            Slopes, offset, radius of the slopes, radius of the offset: `(n_facets + n_borders,
            dim + 3)`. Those of other cells are not written.
        """
        n_facets, dim = len(self._owners), self._given.dim
        shape = n_facets + len(borders), dim + 3
        if self._block is None:
            self._block = spare_block(8 * prod(shape))
        forms: FloatArray = np.ndarray(shape, np.float64, self._block.bytes)
        forms[n_facets:] = borders
        self._given.forms, self._given.n_borders = address(forms), len(borders)
        self._search = CoreSearch(
            core_network(self.network), stream, scale, is_bounded=True, stores=False
        )
        at = self._search.address
        self._core.hm_facets_compose(addressof(self._given), at, address(is_wanted))
        return forms

    def sides(self, chosen: IntArray) -> tuple[IntArray, IntArray]:
        """Number the walls of facets, and choose the side of each wall that has fewer.

        Args:
            chosen: The facets, from both sides of the walls, shape `(n,)`.

        Returns:
            The numbers of their walls, likewise, and the places in `chosen` of those on the sides.
        """
        n = len(chosen)
        table = np.full(1 << max(2 * n, 1).bit_length(), -1, dtype=np.int32)
        walls, counts = np.empty(n, dtype=np.int64), np.empty((n, 2), dtype=np.int64)
        near = np.empty(n, dtype=np.int64)
        n_near = self._core.hm_facets_sides(
            addressof(self._given), n, address(chosen), address(table), len(table), address(walls),
            address(counts), address(near),
        )  # fmt: skip
        return walls, near[:n_near]

    def overlay(
        self, chosen: IntArray, walls: IntArray, near: IntArray
    ) -> tuple[IntArray, BoolArray]:
        """Search what lies beyond facets at walls with jumps.

        Args:
            chosen: The facets, from both sides of the walls, shape `(n,)`.
            walls: The numbers of their walls, likewise.
            near: The places in `chosen` of those on one side of each wall, whose forms have been
                composed.

        Returns:
            Pairs of facets that overlap, `(n_pairs, 2)`, and which facets are to be compared: the
            pairs are all there are, but for those of two of these.
        """
        facets = chosen[near]
        is_open = np.empty(len(facets), dtype=np.int8)
        signatures = np.empty(_MOST_FOUND * self.network.n_groups, dtype=np.int32)
        masks = np.zeros(len(self.points), dtype=np.uint64)
        words = np.empty(len(self.cells.signatures), dtype=np.uint64)
        scratch = [address(array) for array in (is_open, signatures, masks, words)]
        found: list[AnyArray] = []
        begin, room = 0, 4 * len(facets) + 64
        while not found or begin < len(facets):
            pairs, count = np.empty((room, 2), dtype=np.int64), c_int64()
            last, begin = begin, self._core.hm_facets_overlay(
                addressof(self._given), self._search.address, len(facets), address(facets), begin,
                _SLICE, room, address(pairs), byref(count), *scratch,
            )  # fmt: skip
            room *= 2 if begin == last else 1
            found.append(pairs[: count.value])
        pairs = found[0] if len(found) == 1 else np.concatenate(found)
        left = np.zeros(len(chosen), dtype=np.bool_)
        if is_open.any():
            # What is open may meet anything beyond its wall.
            left[near] = True
            open_near = near[is_open.astype(np.bool_)]
            left = ~left & np.isin(walls, walls[open_near])
            left[open_near] = True
        if len(self.facets.ties):
            # Where groups tie, anything of a split may meet.
            splits = self._splits[chosen]
            has_ties = np.diff(self.facets.tie_starts)[self._owners[chosen]] > 0
            is_tied = np.isin(splits, splits[has_ties])
            left |= is_tied
            is_dropped = np.zeros(len(self._owners), dtype=np.bool_)
            is_dropped[chosen[is_tied]] = True
            pairs = pairs[~is_dropped[pairs[:, 0]]]
        return pairs, left

    def close(self) -> None:
        """Let the memory of the forms be used again: they are not read any more."""
        if self._block is not None:
            give_back(self._block)
            self._block = None

    def compare(self, chosen: IntArray) -> tuple[IntArray, IntArray]:
        """Compare facets of one split, those of `chosen`, whose forms have been composed.

        Returns:
            The pairs that overlap, or may, shape `(n_pairs, 2)`, and which is true.
        """
        n, dim, given = len(chosen), self._given.dim, addressof(self._given)
        chosen = np.ascontiguousarray(chosen, dtype=np.int64)
        assert self.cells.starts is not None
        sizes, n_rows = np.diff(self.cells.starts), np.diff(self.facets.starts)
        starts = np.empty(n + 1, dtype=np.int64)
        corners = np.empty(int(sizes[self._owners[chosen]].sum()) + 1, dtype=np.int64)
        boxes = np.empty((n, 2, dim))
        places = address(chosen), address(starts), address(corners), address(boxes)
        self._core.hm_facets_corners(given, n, *places)
        splits = self._splits[chosen]
        order = np.lexsort((boxes[:, 0, 0], splits))
        ends = np.searchsorted(splits[order], splits[order], side="right")
        most_rows = 2 * int(n_rows.max()) + self._given.n_borders
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


@cache
def _words(n_groups: int) -> AnyArray:
    """Return odd words to hash with; hashes change with them, results do not."""
    return np.random.default_rng(0).integers(2**63, size=n_groups, dtype=np.uint64) * 2 + 1


def _kinds(network: ArgmaxNetwork) -> AnyArray:
    """Return what the layers of a network are, shape `(n_layers,)`; it stays as long as that."""
    known: AnyArray | None = network.kept.get("kinds")
    if known is None:
        last = len(network.layers) - 1
        kinds = [_kind(layer, is_last=i == last) for i, layer in enumerate(network.layers)]
        known = network.kept["kinds"] = np.array(kinds, dtype=np.int32)
    return known


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
