"""Who wins at points, compiled: a cover over the interface of the core."""

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import Memory, address
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._search.networks import core_network
from hardmax.typing import AnyArray, BoolArray, FloatArray


class CorePoints:
    """Finds winners in floats with proven bounds: see `core/include/hardmax/points.hpp`.

    Args:
        network: The network.
        first_group: The groups before it are left out of signatures.

    Examples:
        >>> from hardmax import ReluNetwork
        >>> relu = ReluNetwork([[[1.0, 3.0]], [[1.0], [1.0]]], [[0.0, -1.0], [0.0]]).network
        >>> names, is_open = CorePoints(relu)(np.array([[-1.0], [0.0], [5.0]]))
        >>> names.tolist(), is_open.tolist()
        ([[0, 0], [0, 0], [1, 1]], [False, True, False])
    """

    def __init__(self, network: ArgmaxNetwork, first_group: int = 0) -> None:
        self._packed = core_network(network)
        self._first_group = first_group
        self._n_groups = network.n_groups - first_group
        embedding = network.embedding
        self._given = embedding.dim_in, int(embedding.is_identity)
        weights = [] if embedding.is_identity else [embedding.weight.ravel()]
        self._embedding = np.concatenate([*weights, embedding.bias])

    def __call__(self, points: FloatArray) -> tuple[AnyArray, BoolArray]:
        """Return the signatures of points, bytes where these are enough, and which are undecided.

        Args:
            points: Shape `(n_points, dim_in)`, finite.
        """
        points = np.ascontiguousarray(points, dtype=np.float64)
        n_points = len(points)
        is_short = self._packed.largest_group <= 256
        names = np.empty((n_points, self._n_groups), dtype=np.uint8 if is_short else np.int32)
        is_open = np.empty(n_points, dtype=np.bool_)
        both = (address(names), None) if is_short else (None, address(names))
        # Memory of its own for each call: threads may ask at the same time.
        library, network = core(), self._packed.address
        memory = Memory(library.hm_points_size(network, *self._given))
        at = memory.address
        library.hm_points_init(at, network, *self._given, address(self._embedding))
        library.hm_points_run(
            at, n_points, address(points), self._first_group, *both, address(is_open)
        )
        return names, is_open
