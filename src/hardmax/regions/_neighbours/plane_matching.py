r"""Neighbours in the plane, as far as floats and names prove them: a cover over the core.

Edges are gathered by the line they lie on, and those of both sides compared along it (see
`core/include/hardmax/neighbours.hpp`). Edges that take part in something undecided are left to
`planar_adjacency`.
"""

from ctypes import Structure, addressof, c_double, c_int32, c_int64, c_void_p
from typing import NamedTuple

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import Memory, address
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._search.networks import core_network
from hardmax.regions._search.plane_domains import planar_domain
from hardmax.regions._search.rounded_forms import first_stream
from hardmax.regions._search.searches import CoreSearch
from hardmax.regions.cells import CellArrays
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.typing import AnyArray, BoolArray, IntArray


class Matching(NamedTuple):
    """What floats and names prove.

    Attributes:
        pairs: Neighbours `i < j`, sorted, shape `(n_pairs, 2)`.
        edges: For each pair the edges that overlap, shape `(n_pairs, 2)`.
        is_open: Which edges may have neighbours that are not among them, shape `(n_vertices,)`: all
            of these are marked, on both sides.
    """

    pairs: IntArray
    edges: AnyArray
    is_open: BoolArray


class _Polygons(Structure):
    """`hm_polygons` of the interface."""

    _fields_ = (
        ("n_cells", c_int64),
        ("n_edges", c_int64),
        ("n_layers", c_int32),
        ("n_groups", c_int32),
        ("scale", c_double),
        ("short_signatures", c_void_p),
        ("signatures", c_void_p),
        ("starts", c_void_p),
        ("codes", c_void_p),
        ("points", c_void_p),
        ("directions", c_void_p),
        ("first_groups", c_void_p),
        ("form_starts", c_void_p),
        ("passes", c_void_p),
        ("has_means", c_int32),
    )


class StoredCells:
    """Cells that the planar engine found, as the core reads them.

    Args:
        network: The network.
        domain: The domain.
        cells: The cells, with the walls of their edges.
    """

    def __init__(self, network: ArgmaxNetwork, domain: ChartedDomain, cells: CellArrays) -> None:
        names, points, starts = cells.wall_names, cells.vertices, cells.starts
        assert names is not None
        assert points is not None
        assert starts is not None
        assert len(points) < 2**31, "edges are counted by 32 bits"
        self.network = network
        self.domain = planar_domain(domain, network.dim_in)
        self.n_edges = len(points)
        self.most_edges = int(np.diff(starts).max(initial=0))
        n_groups = [layer.n_groups for layer in network.layers]
        first_groups = np.cumsum([0, *n_groups], dtype=np.int32)
        passes = [np.zeros(0, bool), *(layer.passes_maximum for layer in network.layers)]
        signatures = np.ascontiguousarray(cells.signatures)
        is_short = signatures.dtype == np.uint8
        # Kept as long as the core may read them.
        self._arrays = (
            signatures if is_short else None,
            None if is_short else signatures,
            starts,
            names.codes,
            points,
            cells.directions,
            first_groups,
            names.form_starts.astype(np.int32),
            np.concatenate(passes),
        )
        given = (None if array is None else address(array) for array in self._arrays)
        sizes = len(signatures), self.n_edges, len(n_groups), sum(n_groups), self.domain.scale
        self._polygons = _Polygons(*sizes, *given, cells.has_means)

    def matching(self) -> Matching:
        """Match the edges, as far as floats and names prove what they share."""
        given, library = addressof(self._polygons), core()
        memory = Memory(library.hm_neighbours_size(given))
        needed = library.hm_neighbours_gather(given, memory.address)
        assert needed >= 0, "the engine returned cells out of order"
        room = Memory(needed)
        is_open = np.zeros(self.n_edges, dtype=np.bool_)
        n_pairs = library.hm_neighbours_match(given, memory.address, room.address, address(is_open))
        pairs = np.empty((n_pairs, 2), dtype=np.int64)
        edges = np.empty((n_pairs, 2), dtype=np.int32)
        library.hm_neighbours_pairs(given, memory.address, address(pairs), address(edges))
        return Matching(pairs, edges, is_open)

    def may_tie(self) -> BoolArray:
        """Say which edges may lie on other walls beside the one that names them."""
        domain = self.domain
        stream = first_stream(self.network, domain.inputs, domain.scale)
        search = CoreSearch(
            core_network(self.network),
            stream,
            self.domain.scale,
            is_bounded=self.domain.is_bounded,
            stores=False,
        )
        search.grow_to(self.most_edges)
        marks = np.zeros(self.n_edges, dtype=np.bool_)
        core().hm_neighbours_ties(search.address, addressof(self._polygons), address(marks))
        return marks
