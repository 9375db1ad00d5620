r"""In which cell a point lies, by its signature.

A point lies in a cell if it is inside the domain, its winners are those of the cell, and forms that
tie with a winner there coincide with it on the whole cell. All three are decided exactly, in floats
with proven bounds for nearly all points.
"""

import numpy as np

from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.models.point_winners import Coincidences, PointWinners, point_winners
from hardmax.regions.charted_domains import ChartedDomain, charted_network, strictly_inside
from hardmax.regions.signature_index import SignatureIndex
from hardmax.typing import AnyArray, BoolArray, FloatArray, IntArray

_ENTRIES_AT_ONCE, _FEWEST_AT_ONCE = 1 << 21, 1 << 6
"""How many winners to hold: fewer would cost calls, more the memory."""


class PointNamer:
    """Names points of a domain, given in its coordinates.

    Args:
        network: The network.
        domain: The domain.
    """

    def __init__(self, network: ArgmaxNetwork, domain: ChartedDomain) -> None:
        self._domain = domain
        # The maps of a chart may be layers here, which have signatures of their own.
        self._network, self._n_before = charted_network(network, domain)
        self._coincidences = Coincidences(self._network)

    def is_in_domain(self, points: FloatArray) -> BoolArray:
        """Say which points lie in the interior of the domain."""
        return strictly_inside(self._domain, points)

    def winners(self, points: FloatArray) -> PointWinners:
        """Find the winners at points, those of the maps of the chart included."""
        return point_winners(self._network, points)

    def batches(self, n_points: int) -> list[slice]:
        """Cut a batch of points into some whose signatures take little memory."""
        step = max(_FEWEST_AT_ONCE, _ENTRIES_AT_ONCE // max(self._network.n_groups, 1))
        return [slice(start, start + step) for start in range(0, n_points, step)]

    def names(self, winners: PointWinners) -> IntArray:
        """Return the signatures of the points, shape `(n_points, n_groups)`."""
        return winners.first[:, self._n_before :]

    def on_walls(self, winners: PointWinners, chosen: BoolArray) -> IntArray:
        """Return which of the chosen points lie on walls: forms tie that differ next to them."""
        return np.array(
            [
                i
                for i, n_tied in zip(winners.tied.tolist(), winners.n_tied, strict=True)
                if chosen[i] and not self._coincidences.explain(winners.first[i], n_tied)
            ],
            dtype=np.int64,
        )


class CellLocator:
    """Finds the cells of points by their signatures.

    Args:
        network: The network.
        domain: The domain.
        signatures: Those of the cells, shape `(n_cells, n_groups)`.
    """

    def __init__(self, network: ArgmaxNetwork, domain: ChartedDomain, signatures: AnyArray) -> None:
        self._namer = PointNamer(network, domain)
        self._index = SignatureIndex.of(signatures)

    def __call__(self, points: FloatArray) -> IntArray:
        """Return the cell of each point, or -1, shape `(n_points,)`."""
        found = np.full(len(points), -1, dtype=np.int64)
        inside = np.flatnonzero(self._namer.is_in_domain(points))
        for batch in self._namer.batches(len(inside)):
            some = inside[batch]
            winners = self._namer.winners(points[some])
            cells = self._index.find(self._namer.names(winners))
            cells[self._namer.on_walls(winners, cells >= 0)] = -1
            found[some] = cells
        return found
