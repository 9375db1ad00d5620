"""Volumes, points inside and largest balls of planar cells, compiled: floats with proofs.

The core finds the lines of a cell again from its signature and its walls, with radii, and answers
from these: see `core/include/hardmax/measures.hpp`. What floats cannot answer is left open.
"""

from ctypes import Structure, addressof, c_void_p

import numpy as np

from hardmax._core.library import check_size, core
from hardmax._core.memory import MemoryBlock, address
from hardmax._ground.arguments import prepare_array
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._measures.measures import BALL, VOLUME, WITNESS, Answers
from hardmax.regions._search.networks import CoreNetwork, core_network
from hardmax.regions._search.plane_domains import read_planar_domain
from hardmax.regions._search.rounded_forms import first_stream
from hardmax.regions.cell_arrays import CellArrays, largest_row
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.typing import AnyArray

_CELLS_AT_ONCE = 1 << 12
"""Between two calls of the core an interrupt is noticed."""


class MeasuredRoom(Structure):
    """`hm_measured` of the interface."""

    _fields_ = (
        ("short_signatures", c_void_p),
        ("signatures", c_void_p),
        ("starts", c_void_p),
        ("walls", c_void_p),
        ("volumes", c_void_p),
        ("witnesses", c_void_p),
        ("balls", c_void_p),
        ("open", c_void_p),
    )


def measured(
    network: ArgmaxNetwork, domain: ChartedDomain, cells: CellArrays, question: int
) -> Answers:
    """Answer a question about all cells of a planar search.

    Args:
        network: The network.
        domain: The domain.
        cells: What the search stored.
        question: `VOLUME`, `WITNESS` or `BALL`.

    Examples:
        >>> from hardmax import Box, ReluNetwork
        >>> from hardmax.regions.charted_domains import charted
        >>> from hardmax.regions._search.plane import explore
        >>> cross = ReluNetwork([np.eye(2), np.ones((2, 1))]).network
        >>> square = charted(Box([-1, -1], [1, 3]), 2)
        >>> cells = explore(cross, square)
        >>> measured(cross, square, cells, VOLUME).numbers[:, 0].tolist()
        [1.0, 3.0, 1.0, 3.0]
        >>> measured(cross, square, cells, WITNESS).numbers[0].tolist()
        [-0.5, -0.5]
    """
    assert cells.starts is not None, "the planar engine stores polygons"
    where = read_planar_domain(domain, network.dim_in)
    edges, borders = where.cell
    packed = core_network(network)
    stream = first_stream(network, where.inputs, where.scale)
    start = stream.search_start(where.scale, is_bounded=where.is_bounded, stores=True)
    starts = prepare_array(cells.starts, np.int64)
    room = largest_row(starts)
    library = core()
    n_rows = len(where.rows)
    memory = MemoryBlock(check_size(library.hm_measures_size(packed.address, n_rows, room)))
    library.hm_measures_init(
        memory.address, packed.address, addressof(start), n_rows, room,
        len(edges), address(edges), address(borders),
    )  # fmt: skip
    n_cells = len(cells.signatures)
    is_short = cells.signatures.dtype == np.uint8
    signatures = prepare_array(cells.signatures, np.uint8 if is_short else np.int32)
    numbers = np.empty((n_cells, 3 if question == BALL else 2))
    walls = _codes(cells, packed)
    sides = -5 - borders[:, 1]
    if not np.isin(walls[walls < 0], sides).all():
        # A table read from a file may say anything.
        return Answers(numbers, np.arange(n_cells))
    is_open = np.empty(n_cells, dtype=np.uint8)
    both: tuple[int | None, int | None] = (address(signatures), None)
    room_for = [address(numbers) if question == one else None for one in (VOLUME, WITNESS, BALL)]
    given = MeasuredRoom(
        *(both if is_short else both[::-1]), address(starts), address(walls), *room_for,
        address(is_open),
    )  # fmt: skip
    for first in range(0, n_cells, _CELLS_AT_ONCE):
        end = min(first + _CELLS_AT_ONCE, n_cells)
        library.hm_measures_run(memory.address, addressof(given), question, first, end)
    return Answers(numbers, np.flatnonzero(is_open))


def _codes(cells: CellArrays, packed: CoreNetwork) -> AnyArray:
    """Return what each edge lies on as the core names it (see `WallNames`)."""
    if cells.wall_names is not None:
        return prepare_array(cells.wall_names.codes, np.int32)
    assert cells.walls is not None, "the planar engine stores walls"
    layer, group, _, rival = cells.walls.T
    first_group = np.searchsorted(packed.layer_of_group, np.arange(packed.n_layers + 1))
    form = packed.form_starts[np.where(layer < 0, 0, first_group[layer] + group)] + rival
    codes: AnyArray = np.where(layer < 0, -5 - group, form).astype(np.int32)
    return codes
