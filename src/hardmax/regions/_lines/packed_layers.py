"""The layers of a ReLU network as the core reads them when it searches a line."""

from collections.abc import Sequence
from ctypes import Array, Structure, addressof, c_double, c_int64, c_void_p, sizeof
from functools import cached_property
from itertools import accumulate
from math import inf, ldexp, prod, sqrt
from weakref import finalize

import numpy as np

from hardmax._core.library import check_size, core
from hardmax._core.memory import MemoryBlock, borrow_block, release_block
from hardmax._ground.deadlines import check_time
from hardmax.models._arithmetic.normed_maps import spectral_bound
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.typing import FloatArray, IntArray

_ENTRIES = 1 << 12
"""How many numbers the first memory of a search has beside the rows of a typical line."""
_MOST_ENTRIES = 1 << 20
"""How many numbers it has at most, until they prove to be too few."""
_MOST_DIGITS = 2.0**53
"""Integers up to here are floats."""
_MOST_LOOSENED = 2.0**16
"""How many times as large the errors of a search may become by norms that take no time to find."""


class _MapRecord(Structure):
    """`hm_normed_map` of the interface."""

    _fields_ = (
        *((name, c_int64) for name in ("n_in", "n_out")),
        *((name, c_void_p) for name in ("rows", "panels", "omega", "bias_size")),
        *((name, c_double) for name in ("sigma", "frobenius", "bias_norm", "kappa")),
        *((name, c_double) for name in ("column_sum", "bias_most")),
        *((name, c_int64) for name in ("grid", "bias_grid")),
    )


class PackedMaps:
    """Affine maps with their norms, in the memory that the core reads.

    The spectral norms are bounded by those of Frobenius.

    Args:
        maps: The maps, one after the other.
        n_layers: How many layers the network has.

    Attributes:
        records: What the core gets.
    """

    def __init__(self, maps: Sequence[AffineMap], n_layers: int = 1) -> None:
        records = (_MapRecord * len(maps))()
        self._kept = []
        for record, one in zip(records, maps, strict=True):
            check_time()
            rows, record.rows = _rows(one)
            record.n_in, record.n_out = one.weight.shape
            self._kept.append(rows)
        sizes = addressof(records), len(maps), n_layers
        memory = borrow_block(check_size(core().hm_line_pack(*sizes, None)))
        core().hm_line_pack(*sizes, memory.address)
        self.records: Array[_MapRecord] = records
        finalize(self, release_block, memory).atexit = False


def _tighten(record: _MapRecord, affine: AffineMap) -> None:
    """Bound the spectral norm of a map better, by products with its transpose."""
    check_time()
    if record.sigma == record.frobenius:
        record.sigma = min(spectral_bound(affine.weight, record.frobenius), record.frobenius)


def _digits(records: "Array[_MapRecord]") -> float:
    """How large products of weights of all layers may become, as integers on their grids."""
    sizes = [record.column_sum for record in records]
    if inf in sizes:
        return inf
    on_grids = (ldexp(size, -record.grid) for size, record in zip(sizes, records, strict=True))
    return prod(max(size, 1.0) for size in on_grids)


def _rows(affine: AffineMap) -> tuple[FloatArray, int]:
    """Return weights that have the bias below them in memory, as models keep them, and where."""
    weight, bias = affine.weight, affine.bias
    place = _place(weight)
    is_plain = weight.flags.c_contiguous and bias.flags.c_contiguous and place % 8 == 0
    if is_plain and _place(bias) == place + weight.nbytes:
        return weight, place
    rows = np.concatenate([weight, bias[np.newaxis]])
    return rows, _place(rows)


def _place(array: FloatArray) -> int:
    """Return where an array is; for arrays that may not be written to the quickest way."""
    place: int = array.__array_interface__["data"][0]
    return place


class PackedLayers:
    """The maps of a ReLU network.

    Attributes:
        packed: The maps into the layers, with their norms.
        widths: How many units each layer has.
        unit_starts: Where the units of each layer begin, and the end.
        is_coarse: Whether the weights are integers of few digits, times powers of two.
    """

    def __init__(self, network: ArgmaxNetwork) -> None:
        self._maps = [layer.query for layer in network.layers]
        self._readout = network.readout
        n_layers = len(self._maps)
        self.packed = PackedMaps(self._maps, n_layers)
        widths = [one.dim_out for one in self._maps]
        self.widths: IntArray = np.array(widths)
        self.unit_starts: IntArray = np.array([0, *accumulate(widths)])
        self.is_coarse = _digits(self.packed.records) <= _MOST_DIGITS
        # The errors of the last layer go nowhere, and those of the stream are none or small.
        inner = range(1, n_layers - 1)
        if prod(sqrt(min(self._maps[i].weight.shape)) for i in inner) > _MOST_LOOSENED:
            for i in inner:
                _tighten(self.packed.records[i], self._maps[i])
        n_points = sum(widths) // 2
        n_entries = n_points * (max(widths[1:], default=0) + 32)
        self._n_bytes = 16 * (min(n_entries, _MOST_ENTRIES) + _ENTRIES)
        self._most_rows = (0, 0), self.widths

    def at(self, index: int = 0) -> int:
        """Where the core finds the map into a layer, and after it those into the next ones."""
        return addressof(self.packed.records) + index * sizeof(_MapRecord)

    def most_rows(self, n_entries: int, n_products: int) -> IntArray:
        """How many rows of each layer, at least 2, have few entries and take few products."""
        if self._most_rows[0] != (n_entries, n_products):
            # How many weights lead from each layer to the next.
            products = [*(one.weight.size + one.dim_out for one in self._maps[1:]), 1]
            pairs = zip(self.widths.tolist(), products, strict=True)
            most = [max(min(n_entries // w, n_products // p), 2) for w, p in pairs]
            self._most_rows = (n_entries, n_products), np.array(most)
        return self._most_rows[1]

    @cached_property
    def with_readout(self) -> "Array[_MapRecord]":
        """All maps, that to the output last, with norms that are known better."""
        self._packed_readout = PackedMaps([self._readout])
        n_layers, last = len(self._maps), self._packed_readout.records
        records = (_MapRecord * (n_layers + 1))(*self.packed.records, *last)
        for i in range(1, n_layers):
            _tighten(records[i], self._maps[i])
        return records

    def lent_memory(self) -> MemoryBlock:
        """Memory for a search, enough for a line with few pieces."""
        return borrow_block(self._n_bytes)


def packed_layers(network: ArgmaxNetwork) -> PackedLayers:
    """Pack the layers of a network, once: their norms take as long as a hundred cells."""
    known: PackedLayers | None = network.kept.get("packed_layers")
    if known is None:
        known = network.kept["packed_layers"] = PackedLayers(network)
    return known
