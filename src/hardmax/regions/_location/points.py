r"""In which cell a point lies, by its signature.

A point lies in a cell if it is inside the domain, its winners are those of the cell, and forms that
tie with a winner there coincide with it on the whole cell. All three are decided exactly, in floats
with proven bounds for nearly all points: compiled ones, unless a layer is so wide that products of
matrices are quicker.

Who wins at points is compiled (`CorePoints`).
"""

from ctypes import byref, c_int64
from typing import NamedTuple

import numpy as np

from hardmax._core.library import check_size, core
from hardmax._core.memory import MemoryBlock, address
from hardmax._ground.arguments import prepare_array
from hardmax.models._arithmetic.point_winners import PointWinners, TieClassifier, find_point_winners
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._location.signature_index import (
    SignatureIndex,
    hash_weights,
    hashed_signatures,
)
from hardmax.regions._search.networks import core_network
from hardmax.regions.charted_domains import ChartedDomain, charted_network, strictly_inside
from hardmax.typing import AnyArray, BoolArray, FloatArray, IntArray


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
        points = prepare_array(points)
        n_points = len(points)
        is_short = self._packed.largest_group <= 256
        names = np.empty((n_points, self._n_groups), dtype=np.uint8 if is_short else np.int32)
        is_open = np.empty(n_points, dtype=np.bool_)
        both = (address(names), None) if is_short else (None, address(names))
        memory = self._memory()
        core().hm_points_run(
            memory.address, n_points, address(points), self._first_group, *both, address(is_open)
        )
        return names, is_open

    def tally(
        self, points: FloatArray, box: FloatArray | None = None
    ) -> tuple[AnyArray, IntArray, IntArray]:
        """Count how often signatures occur, by the hashes of `hashed_signatures`.

        Args:
            points: Shape `(n_points, dim_in)`, finite. With a box, shares of its sides, from 0 to
                1, which are replaced by the points; those that are not inside it are left out.
            box: Its lowest and its highest corner, shape `(2, dim_in)`.

        Returns:
            Distinct hashes, how often each occurs, and which points are undecided.
        """
        n_points = len(points)
        assert points.flags.c_contiguous
        assert points.dtype == np.float64
        weights = hash_weights(self._n_groups)
        distinct = np.empty(n_points, dtype=np.uint64)
        counts, left = (np.empty(n_points, dtype=np.int64) for _ in range(2))
        table = np.empty(2 << n_points.bit_length(), dtype=np.int32)
        n_left, memory = c_int64(0), self._memory()
        n_distinct = core().hm_points_tally(
            memory.address, n_points, address(points), None if box is None else address(box),
            self._first_group, address(weights), address(table), len(table), address(distinct),
            address(counts), address(left), byref(n_left),
        )  # fmt: skip
        return distinct[:n_distinct], counts[:n_distinct], left[: n_left.value]

    def _memory(self) -> MemoryBlock:
        """Return memory to find winners with; of its own for each call: threads may ask at once."""
        library, network = core(), self._packed.address
        memory = MemoryBlock(check_size(library.hm_points_size(network, *self._given)))
        library.hm_points_init(memory.address, network, *self._given, address(self._embedding))
        return memory


_ENTRIES_AT_ONCE, _FEWEST_AT_ONCE = 1 << 21, 1 << 6
"""How many winners to hold: fewer would cost calls, more the memory."""
_MOST_WEIGHTS = 96 * 96
"""Measured: with more weights in a layer, products of matrices are quicker."""
_VAIN_SHARE, _FEWEST_TRIED = 0.25, 32
"""Compiled floats that leave more than this of a batch open are not tried on the next."""


class NamedPoints(NamedTuple):
    """Points and who wins there.

    Attributes:
        names: Their signatures, shape `(n_points, n_groups)`.
        left: The points that compiled floats did not decide, rising.
        winners: The winners at these, those of the maps of a chart included.
    """

    names: AnyArray
    left: IntArray
    winners: PointWinners


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
        self._coincidences = TieClassifier(self._network)
        is_narrow = most_weights(self._network) <= _MOST_WEIGHTS
        self._points = CorePoints(self._network, self._n_before) if is_narrow else None
        none = np.empty((0, self._network.n_groups), dtype=np.int64)
        self._none = PointWinners(none, np.empty(0, dtype=np.int64), none)

    def is_in_domain(self, points: FloatArray) -> BoolArray:
        """Say which points lie in the interior of the domain."""
        return strictly_inside(self._domain, points)

    def named(self, points: FloatArray) -> NamedPoints:
        """Find the winners at points."""
        # Another thread may find out that it is in vain.
        find = self._points
        if find is None:
            winners = find_point_winners(self._network, points)
            return NamedPoints(winners.first[:, self._n_before :], np.arange(len(points)), winners)
        names, is_open = find(points)
        left = np.flatnonzero(is_open)
        if not len(left):
            return NamedPoints(names, left, self._none)
        if len(left) > _VAIN_SHARE * max(len(points), _FEWEST_TRIED):
            self._points = None
        winners = find_point_winners(self._network, points[left])
        names[left] = winners.first[:, self._n_before :]
        return NamedPoints(names, left, winners)

    def tally(self, points: FloatArray, box: FloatArray | None = None) -> tuple[AnyArray, IntArray]:
        """Count how often the signatures of points occur that lie in the interior of the domain.

        Args:
            points: Shape `(n_points, dim)`, finite, or shares of the sides of a box, which are
                replaced by points: see `CorePoints.tally`.
            box: The corners of the domain, shape `(2, dim)`, if it is a box; None if `points` are
                points.

        Returns:
            Hashes, perhaps with repetitions, and how often each occurs.
        """
        find = self._points
        if find is None or box is None:
            if box is not None:
                points = between(points, *box)
            points = points[self.is_in_domain(points)]
        if find is None:
            left, found = points, []
        else:
            *compiled, open_ones = find.tally(points, box)
            left, found = points[open_ones], [compiled]
            if len(left) > _VAIN_SHARE * max(len(points), _FEWEST_TRIED):
                self._points = None
        for batch in self.batches(len(left)):
            winners = find_point_winners(self._network, left[batch])
            names = winners.first[:, self._n_before :]
            named = NamedPoints(names, np.arange(len(names)), winners)
            on_walls = self.on_walls(named, np.ones(len(names), dtype=np.bool_))
            # Two cells with one hash would only lower the count.
            hashes = np.delete(hashed_signatures(names), on_walls)
            found.append(list(np.unique(hashes, return_counts=True)))
        if not found:
            return np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
        hashes, counts = zip(*found, strict=True)
        return np.concatenate(hashes), np.concatenate(counts)

    def batches(self, n_points: int) -> list[slice]:
        """Cut a batch of points into some whose signatures take little memory."""
        step = max(_FEWEST_AT_ONCE, _ENTRIES_AT_ONCE // max(self._network.n_groups, 1))
        return [slice(start, start + step) for start in range(0, n_points, step)]

    def on_walls(self, named: NamedPoints, chosen: BoolArray) -> IntArray:
        """Return which of the chosen points lie on walls: forms tie that differ next to them."""
        winners = named.winners
        tied = zip(winners.tied.tolist(), winners.n_tied, strict=True)
        return np.array(
            [
                named.left[i]
                for i, n_tied in tied
                if chosen[named.left[i]]
                and not self._coincidences.holds_on_cell(winners.first[i], n_tied)
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
            named = self._namer.named(points[some])
            cells = self._index.find(named.names)
            cells[self._namer.on_walls(named, cells >= 0)] = -1
            found[some] = cells
        return found


def between(shares: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the points of a box with the given shares of its sides, shape `(n, dim)`."""
    # The mean of the ends never overflows, their difference can.
    return np.asarray((1.0 - shares) * low + shares * high)


def most_weights(network: ArgmaxNetwork) -> int:
    """Return the most weights that the core reads at once, zeros between forms included."""
    most = network.embedding.dim_in * network.embedding.dim_out
    for layer in network.layers:
        n_forms = 0 if layer.is_relu else len(layer.offsets)
        most = max(most, layer.query.dim_in * layer.query.dim_out, n_forms * layer.query.dim_out)
        most = max(most, layer.output.dim_in * layer.output.dim_out)
    return most
