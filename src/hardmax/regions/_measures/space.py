"""Volumes, points inside and largest balls of cells in space, compiled: floats with proofs.

The core composes the facets of a cell again, with radii, and answers from these and the vertices:
see `core/include/hardmax/solids.hpp`. What floats cannot answer is left open.
"""

from ctypes import Structure, addressof, c_void_p

import numpy as np

from hardmax._core.library import check_size, core
from hardmax._core.memory import MemoryBlock, address
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._measures.measures import BALL, VOLUME, WITNESS, Answers
from hardmax.regions._neighbours.facets import FacetTable, passes_means
from hardmax.regions._search.networks import core_network
from hardmax.regions._search.rounded_forms import first_stream
from hardmax.regions._search.space_domains import read_spatial_domain
from hardmax.regions.cell_arrays import CellArrays, largest_row
from hardmax.regions.charted_domains import ChartedDomain

_CELLS_AT_ONCE = 1 << 8
"""Between two calls of the core an interrupt is noticed."""


class SolidAnswers(Structure):
    """`hm_solid_answers` of the interface."""

    _fields_ = (
        ("is_wanted", c_void_p),
        ("volumes", c_void_p),
        ("witnesses", c_void_p),
        ("balls", c_void_p),
        ("open", c_void_p),
    )


def measured(
    network: ArgmaxNetwork, domain: ChartedDomain, cells: CellArrays, question: int
) -> Answers:
    """Answer a question about all cells of a search in three to seven dimensions.

    Args:
        network: The network.
        domain: The domain.
        cells: What the search stored.
        question: `VOLUME`, `WITNESS` or `BALL`.

    Examples:
        >>> from hardmax import Box, ReluNetwork
        >>> from hardmax.regions.charted_domains import charted
        >>> from hardmax.regions._search.space import explore
        >>> wall = ReluNetwork([[[1.0], [0.0], [0.0]], [[1.0]]]).network
        >>> box = charted(Box([-1, 0, 0], [3, 1, 1]), 3)
        >>> cells = explore(wall, box)
        >>> measured(wall, box, cells, VOLUME).numbers[:, 0].tolist()
        [1.0, 3.0]
        >>> measured(wall, box, cells, BALL).numbers[0].round(6).tolist()
        [-0.5, 0.5, 0.5, 0.5]
    """
    assert cells.facets is not None, "the spatial engine stores facets"
    assert cells.starts is not None, "the spatial engine stores vertices"
    where = read_spatial_domain(domain, network.dim_in)
    packed, table = core_network(network), FacetTable(network, cells)
    stream = first_stream(network, domain.inputs, where.scale)
    start = stream.search_start(where.scale, is_bounded=where.is_bounded, stores=True)
    borders = where.borders
    most = [largest_row(starts) for starts in (cells.facets.starts, cells.starts)]
    library = core()
    sizes = domain.dim, len(borders), *most
    memory = MemoryBlock(check_size(library.hm_solids_size(packed.address, *sizes)))
    at = memory.address
    library.hm_solids_init(
        at, packed.address, addressof(start), len(borders), *most, address(borders)
    )
    n_cells = len(cells.signatures)
    width = {VOLUME: 2, WITNESS: domain.dim, BALL: domain.dim + 1}[question]
    numbers = np.empty((n_cells, width))
    is_wanted = (~passes_means(network, cells.facets)).astype(np.int8)
    is_open = np.empty(n_cells, dtype=np.uint8)
    room = [address(numbers) if question == one else None for one in (VOLUME, WITNESS, BALL)]
    answers = SolidAnswers(address(is_wanted), *room, address(is_open))
    for first in range(0, n_cells, _CELLS_AT_ONCE):
        end = min(first + _CELLS_AT_ONCE, n_cells)
        library.hm_solids_run(at, addressof(table.given), addressof(answers), question, first, end)
    return Answers(numbers, np.flatnonzero(is_open))
