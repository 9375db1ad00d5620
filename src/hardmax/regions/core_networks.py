"""A network as the compiled core reads it: packed once, immutable, shared by all searches."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import Memory, address
from hardmax.models.argmax_layers import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.regions.coincidences import coinciding_means, standing_classes
from hardmax.typing import AnyArray, IntArray


@dataclass(frozen=True, eq=False)
class CoreNetwork:
    """A network laid out in memory for the core.

    Attributes:
        memory: Where it lies.
        starts: For each layer the first form of each group, and the end.
        largest_group: The most forms of a group.
        n_weights: How many numbers there are.
    """

    memory: Memory
    starts: tuple[IntArray, ...]
    largest_group: int
    n_weights: int

    @property
    def address(self) -> int:
        """The address of the network."""
        return self.memory.address

    @property
    def n_layers(self) -> int:
        """How many layers it has."""
        return len(self.starts)

    @property
    def n_groups(self) -> int:
        """How many groups all layers have."""
        return sum(map(len, self.starts)) - len(self.starts)

    @cached_property
    def form_starts(self) -> IntArray:
        """The first form of each group, counted over all layers, and the end: `(n_groups + 1,)`."""
        sizes = [np.diff(starts) for starts in self.starts]
        return np.cumsum(np.concatenate([np.zeros(1, dtype=np.int64), *sizes]))

    @cached_property
    def group_layers(self) -> IntArray:
        """The layer of each group, shape `(n_groups,)`."""
        return np.repeat(np.arange(self.n_layers), [len(starts) - 1 for starts in self.starts])


_known: WeakKeyDictionary[ArgmaxNetwork, CoreNetwork] = WeakKeyDictionary()


def core_network(network: ArgmaxNetwork) -> CoreNetwork:
    """Lay a network out for the core; the answer is kept as long as the network is."""
    known = _known.get(network)
    if known is None:
        known = _known[network] = _laid_out(network)
    return known


def _laid_out(network: ArgmaxNetwork) -> CoreNetwork:
    integers: list[int] = [len(network.layers), network.embedding.dim_out]
    numbers: list[AnyArray] = []
    for layer in network.layers:
        _pack_layer(layer, integers, numbers)
    readout = network.readout
    integers += readout.dim_in, readout.dim_out, readout.is_identity
    _pack_map(readout, numbers)
    packed = np.array(integers, dtype=np.int64)
    flat = np.concatenate(numbers, dtype=np.float64)
    library = core()
    memory = Memory(library.hm_network_size(address(packed), address(flat)))
    library.hm_network_init(memory.address, address(packed), address(flat))
    largest = max((_largest_group(layer) for layer in network.layers), default=0)
    return CoreNetwork(memory, tuple(layer.starts for layer in network.layers), largest, len(flat))


def _largest_group(layer: ArgmaxLayer) -> int:
    return 2 if layer.is_relu else int(np.diff(layer.starts).max())


def _pack_layer(layer: ArgmaxLayer, integers: list[int], numbers: list[AnyArray]) -> None:
    """Append a layer: see `Packed` in `core/include/hardmax/network.hpp`."""
    n_forms, width = layer.values.shape
    query, output = layer.query, layer.output
    is_relu = layer.is_relu
    integers += is_relu, layer.residual, n_forms, layer.n_groups, width
    integers += query.dim_in, query.dim_out, query.is_identity
    integers += output.dim_in, output.dim_out, output.is_identity
    _pack_map(query, numbers)
    if not is_relu:
        classes = standing_classes(layer)
        first = np.arange(n_forms)
        for members in classes:
            first[members] = members[0]
        integers += layer.starts.tolist()
        integers += layer.slots.tolist()
        integers += first.tolist()
        gains, values = coinciding_means(layer, classes)
        numbers += layer.dense_slopes().T.ravel(), layer.offsets, gains.ravel(), values.ravel()
    _pack_map(output, numbers)


def _pack_map(affine: AffineMap, numbers: list[Any]) -> None:
    if not affine.is_identity:
        numbers.append(affine.weight.ravel())
    numbers.append(affine.bias)
