"""Networks in the core's memory layout: packed once, immutable, shared by all searches."""

from array import array
from ctypes import addressof
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from hardmax._core.library import check_size, core
from hardmax._core.memory import MemoryBlock, address
from hardmax._ground.arguments import join_bytes
from hardmax._ground.deadlines import TimeLimitReached, check_time, stop_flag
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.regions._search.coincidences import find_identical_forms, mean_contributions
from hardmax.regions.cell_arrays import form_starts, group_layers
from hardmax.typing import AnyArray, IntArray


@dataclass(frozen=True, eq=False)
class CoreNetwork:
    """A network laid out in memory for the core.

    Attributes:
        memory: The memory that contains the network.
        starts: For each layer, the first form of each group, and the end.
        n_groups: The number of groups of all layers.
        largest_group: The largest number of forms in a group.
        n_weights: The number of weights.
    """

    memory: MemoryBlock
    starts: tuple[IntArray, ...]
    n_groups: int
    largest_group: int
    n_weights: int

    @property
    def address(self) -> int:
        """The address of the network."""
        return self.memory.address

    @property
    def n_layers(self) -> int:
        """The number of layers."""
        return len(self.starts)

    def unpack_winners(self, signatures: AnyArray) -> AnyArray:
        """Convert signatures written by the core to one winner per group.

        The shape is `(n_cells, n_groups)`. If no group has more than two forms, the core writes
        bits.
        """
        if self.largest_group > 2:
            return signatures
        return np.unpackbits(signatures, axis=1, count=self.n_groups)

    @cached_property
    def form_starts(self) -> IntArray:
        """The first form of each group, numbered across layers, and the end: `(n_groups + 1,)`."""
        return form_starts(self.starts)

    @cached_property
    def layer_of_group(self) -> IntArray:
        """The layer of each group, shape `(n_groups,)`."""
        return group_layers(self.starts)


def core_network(network: ArgmaxNetwork) -> CoreNetwork:
    """Lay a network out for the core; the result is cached in the network."""
    known: CoreNetwork | None = network.kept.get("core")
    if known is None:
        known = network.kept["core"] = _build_core_network(network)
    return known


def _build_core_network(network: ArgmaxNetwork) -> CoreNetwork:
    classes: list[list[list[int]]] = [[]] * len(network.layers)
    memory, n_weights, are_distinct = _pack(network, classes)
    if not are_distinct:
        classes = [[] if layer.is_relu else find_identical_forms(layer) for layer in network.layers]
        if any(classes):
            memory, n_weights, _ = _pack(network, classes)
    starts = tuple([layer.starts for layer in network.layers])
    n_groups = sum(map(len, starts)) - len(starts)
    largest = max(map(_largest_group, network.layers), default=0)
    return CoreNetwork(memory, starts, n_groups, largest, n_weights)


def _largest_group(layer: ArgmaxLayer) -> int:
    return 2 if layer.is_relu else max(b - a for a, b in pairwise(layer.starts.tolist()))


def _pack(network: ArgmaxNetwork, classes: list[list[list[int]]]) -> tuple[MemoryBlock, int, bool]:
    """Return the packed network, the number of weights, and whether all forms can be distinguished.

    Args:
        network: The network.
        classes: For each layer, the sets of forms known to coincide.
    """
    integers: list[int] = [len(network.layers), network.embedding.dim_out]
    numbers: list[AnyArray] = []
    for layer, sets in zip(network.layers, classes, strict=True):
        check_time()
        _pack_layer(layer, sets, integers, numbers)
    _pack_map(network.readout, integers, numbers)
    packed, flat = array("q", integers), join_bytes(numbers, bytearray())
    library, n_numbers = core(), len(flat) // 8
    at, there = packed.buffer_info()[0], address(flat)
    n_bytes = check_size(library.hm_network_size(at, len(packed), there, n_numbers))
    memory = MemoryBlock(n_bytes)
    stop = stop_flag()
    are_distinct = library.hm_network_init(memory.address, at, there, addressof(stop))
    if are_distinct < 0:
        raise TimeLimitReached
    return memory, n_numbers, bool(are_distinct)


def _pack_layer(
    layer: ArgmaxLayer, classes: list[list[int]], integers: list[int], numbers: list[AnyArray]
) -> None:
    """Append a layer: see `Packed` in `core/include/hardmax/network.hpp`."""
    n_forms, width = layer.values.shape
    is_relu = layer.is_relu
    integers += is_relu, layer.residual, n_forms, layer.n_groups, width
    _pack_map(layer.query, integers, numbers)
    outputs: list[AnyArray] = []
    _pack_map(layer.output, integers, outputs)
    if not is_relu:
        integers += layer.starts.tolist()
        integers += layer.slots.tolist()
        integers.append(-1 if layer.reads is None else layer.reads.shape[1])
        if layer.reads is not None:
            integers += layer.reads.ravel().tolist()
        integers.append(bool(classes))
        numbers += layer.slopes, layer.offsets
        if classes:
            first = np.arange(n_forms)
            for members in classes:
                first[members] = members[0]
            integers += first.tolist()
            gains, values = mean_contributions(layer, classes)
            numbers += gains, values
        else:
            numbers += layer.gains, layer.values
    numbers += outputs


def _pack_map(affine: AffineMap, integers: list[int], numbers: list[AnyArray]) -> None:
    integers += *affine.weight.shape, affine.is_identity
    if not affine.is_identity:
        numbers.append(affine.weight)
    numbers.append(affine.bias)
