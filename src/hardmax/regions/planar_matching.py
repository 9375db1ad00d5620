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
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.regions.cells import CellArrays
from hardmax.typing import BoolArray, IntArray


class Matching(NamedTuple):
    """What floats and names prove.

    Attributes:
        pairs: Neighbours `i < j`, sorted, shape `(n_pairs, 2)`.
        is_open: Which edges may have neighbours that are not among them, shape `(n_vertices,)`: all
            of these are marked, on both sides.
    """

    pairs: IntArray
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
    )


def match_edges(network: ArgmaxNetwork, cells: CellArrays, scale: float) -> Matching:
    """Match the edges of cells that the planar engine found.

    Args:
        network: The network.
        cells: The cells, with the walls of their edges.
        scale: That of the planar domain.
    """
    names, points, starts = cells.wall_names, cells.vertices, cells.starts
    assert names is not None
    assert points is not None
    assert starts is not None
    assert len(points) < 2**31, "edges are counted by 32 bits"
    n_groups = [layer.n_groups for layer in network.layers]
    first_groups = np.cumsum([0, *n_groups], dtype=np.int32)
    form_starts = names.form_starts.astype(np.int32)
    passes = np.zeros(sum(n_groups) + 1, dtype=np.bool_)
    for first, layer in zip(first_groups[:-1].tolist(), network.layers, strict=True):
        passes[first : first + layer.n_groups] = layer.passes_maximum
    signatures = np.ascontiguousarray(cells.signatures)
    is_short = signatures.dtype == np.uint8
    polygons = _Polygons(
        len(signatures),
        len(points),
        len(network.layers),
        sum(n_groups),
        scale,
        address(signatures) if is_short else None,
        None if is_short else address(signatures),
        address(starts),
        address(names.codes),
        address(points),
        None if cells.directions is None else address(cells.directions),
        address(first_groups),
        address(form_starts),
        address(passes),
    )
    given, library = addressof(polygons), core()
    memory = Memory(library.hm_neighbours_size(given))
    needed = library.hm_neighbours_gather(given, memory.address)
    assert needed >= 0, "the engine returned cells out of order"
    room = Memory(needed)
    is_open = np.zeros(len(points), dtype=np.bool_)
    n_pairs = library.hm_neighbours_match(given, memory.address, room.address, address(is_open))
    pairs = np.empty((n_pairs, 2), dtype=np.int64)
    library.hm_neighbours_pairs(given, memory.address, address(pairs))
    return Matching(pairs, is_open)
