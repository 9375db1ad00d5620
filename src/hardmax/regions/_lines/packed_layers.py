"""The layers of a ReLU network as the core reads them when it searches a line."""

from collections.abc import Sequence
from contextlib import suppress
from ctypes import Array, Structure, addressof, c_double, c_int64, c_void_p, sizeof
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from hardmax._core.memory import Memory, address
from hardmax.models._arithmetic.normed_maps import NormedMap
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.typing import FloatArray, IntArray

_ENTRIES = 1 << 12
"""How many numbers the first memory of a search has beside the rows of a typical line."""
_MOST_ENTRIES = 1 << 20
"""How many numbers it has at most, until they prove to be too few."""
_PANEL = 8
"""How many columns a panel has that the core multiplies at once."""
_MOST_KEPT = 1 << 22
"""How many bytes of memory are kept between searches."""


class _MapRecord(Structure):
    """`hm_normed_map` of the interface."""

    _fields_ = (
        *((name, c_int64) for name in ("n_in", "n_out")),
        *((name, c_void_p) for name in ("rows", "panels", "omega", "bias_size")),
        *((name, c_double) for name in ("sigma", "frobenius", "bias_norm", "kappa")),
    )


class PackedMap:
    """An affine map with its norms, in the memory that the core reads.

    Attributes:
        rows: The weights and, last, the bias: shape `(n_in + 1, n_out)`.
        normed: The same map with its norms.
    """

    def __init__(self, affine: AffineMap, n_layers: int = 1) -> None:
        self.rows: FloatArray = np.empty((affine.dim_in + 1, affine.dim_out))
        self.rows[:-1], self.rows[-1] = affine.weight, affine.bias
        self.normed = NormedMap.of(self.rows[:-1], self.rows[-1], n_layers)
        self._panels = _cut_into_panels(self.rows)
        self._sizes = np.abs(self.rows[-1])

    @property
    def record(self) -> _MapRecord:
        """What the core gets; its arrays are those of this map."""
        one = self.normed
        norms = one.sigma, one.frobenius, one.bias_norm, one.kappa
        arrays = (self.rows, self._panels, one.omega, self._sizes)
        return _MapRecord(len(self.rows) - 1, self.rows.shape[1], *map(address, arrays), *norms)


class PackedLayers:
    """The maps of a ReLU network.

    Attributes:
        maps: The maps into the layers, with their norms.
        widths: How many units each layer has.
        unit_starts: Where the units of each layer begin, and the end.
    """

    def __init__(self, network: ArgmaxNetwork) -> None:
        affine = [layer.query for layer in network.layers]
        self._readout = network.readout
        self._packed = [PackedMap(one, len(affine)) for one in affine]
        self.maps = [one.normed for one in self._packed]
        self.widths: IntArray = np.array([one.dim_out for one in affine])
        self.unit_starts: IntArray = np.cumsum([0, *self.widths])
        # How many weights lead from each layer to the next.
        self._next_products: IntArray = np.array([*(one.rows.size for one in self._packed[1:]), 1])
        self._most_rows = (0, 0), self.widths
        self._records = _records(self._packed)
        self._spare: list[Memory] = []

    def at(self, index: int = 0) -> int:
        """Where the core finds the map into a layer, and after it those into the next ones."""
        return addressof(self._records) + index * sizeof(_MapRecord)

    def most_rows(self, n_entries: int, n_products: int) -> IntArray:
        """How many rows of each layer, at least 2, have few entries and take few products."""
        if self._most_rows[0] != (n_entries, n_products):
            most = np.minimum(n_entries // self.widths, n_products // self._next_products)
            self._most_rows = (n_entries, n_products), np.maximum(most, 2)
        return self._most_rows[1]

    @cached_property
    def with_readout(self) -> tuple[PackedMap, "Array[_MapRecord]"]:
        """The map to the output; and all maps as the core wants them, this one last."""
        readout = PackedMap(self._readout)
        return readout, _records([*self._packed, readout])

    def lent_memory(self, n_bytes: int | None = None) -> Memory:
        """Memory for a search, perhaps that of an earlier one, of at least so many bytes.

        By default there is enough for a line with few pieces.
        """
        if n_bytes is None:
            n_points = int(self.unit_starts[-1]) // 2
            n_entries = n_points * (int(self.widths[1:].max(initial=0)) + 32)
            n_bytes = 16 * (min(n_entries, _MOST_ENTRIES) + _ENTRIES)
        with suppress(IndexError):
            memory = self._spare.pop()
            if memory.n_bytes >= n_bytes:
                return memory
        return Memory(n_bytes, is_cleared=False)

    def give_back(self, memory: Memory) -> None:
        """Keep memory for the next search, if it is small."""
        if memory.n_bytes <= _MOST_KEPT:
            self._spare.append(memory)


def _cut_into_panels(rows: FloatArray) -> FloatArray:
    """Cut a matrix into panels of some columns, each row after row, padded with zeros."""
    n_rows, n_columns = rows.shape
    n_panels = -(-n_columns // _PANEL)
    padded = np.zeros((n_rows, n_panels * _PANEL))
    padded[:, :n_columns] = rows
    return np.ascontiguousarray(padded.reshape(n_rows, n_panels, _PANEL).swapaxes(0, 1))


def _records(maps: Sequence[PackedMap]) -> "Array[_MapRecord]":
    return (_MapRecord * len(maps))(*(one.record for one in maps))


_known: "WeakKeyDictionary[ArgmaxNetwork, PackedLayers]" = WeakKeyDictionary()
"""Networks searched before: their norms take as long as a hundred cells."""


def packed_layers(network: ArgmaxNetwork) -> PackedLayers:
    """Pack the layers of a network, once."""
    found = _known.get(network)
    if found is None:
        found = _known[network] = PackedLayers(network)
    return found
