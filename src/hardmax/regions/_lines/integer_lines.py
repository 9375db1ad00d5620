r"""Lines through ReLU networks whose weights are integers of few digits, times powers of two.

There all forms are such integers, no sign is ever in doubt, and breakpoints may coincide: the core
finds the cells from left to right (see `core/include/hardmax/line_integers.hpp`).
"""

from collections.abc import Iterator
from ctypes import Structure, byref, c_int64, c_void_p
from typing import TYPE_CHECKING

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import MemoryBlock, address, borrow_block, release_block
from hardmax.models._arithmetic.enclosures import Enclosed
from hardmax.models.argmax import AffineMap
from hardmax.regions._lines.line_intervals import CellRun, Points
from hardmax.regions._lines.line_signatures import SignatureWalk
from hardmax.regions._lines.packed_layers import (
    PackedLayers,
    packed_layers,
)
from hardmax.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from hardmax.regions._lines.line_search import LineSearch

_LARGEST = 1 << 53
_CELLS_AT_ONCE = 1 << 8, 1 << 14
"""How many cells are found between looks at the clock: first, and then."""


class _PiecesRecord(Structure):
    """`hm_line_pieces` of the interface."""

    _fields_ = (
        *((name, c_int64) for name in ("most_cells", "most_changes")),
        *((name, c_void_p) for name in ("where", "radii", "ratios", "names")),
        *((name, c_void_p) for name in ("signature", "starts", "groups", "winners")),
        *((name, c_int64) for name in ("n_cells", "n_changes", "n_signs", "is_done")),
    )


def integer_cells(search: "LineSearch") -> Iterator[CellRun | int] | None:
    """Return the cells from left to right, in runs or only counted; None if floats may round."""
    network, domain = search.network, search.domain
    layers = packed_layers(network)
    if not layers.is_coarse or not network.embedding.is_identity:
        return None
    outer = _ratios(search)
    if outer is None:
        return None
    are_ends = domain.ends is not None
    if len(domain.stages) > 1 and not are_ends:
        return None
    # The second stage of a segment has its ends as rows.
    stream = domain.stages[1].weight if are_ends else _forms(domain.chart)
    at, n_layers = layers.at(), len(layers.widths)
    memory = borrow_block(core().hm_line_integers_size(at, n_layers))
    begin = core().hm_line_integers_begin
    arrays = address(stream), are_ends, address(outer)
    if not begin(memory.address, at, n_layers, *arrays):
        return None
    return _runs(search, layers, memory)


def _forms(chart: AffineMap) -> FloatArray:
    """The points of a line as slopes and offsets."""
    return np.concatenate([chart.weight, chart.bias[np.newaxis]])


def _ratios(search: "LineSearch") -> IntArray | None:
    """The ends of the domain as quotients of integers of few digits, if they are; else None."""
    ratios = []
    for end, sign in zip(search.outer_ends, (-1, 1), strict=True):
        p, q = (sign, 0) if end is None else end.as_integer_ratio()
        if max(abs(p), q) > _LARGEST:
            return None
        ratios.append((p, q))
    return np.array(ratios)


def _runs(
    search: "LineSearch", layers: PackedLayers, memory: MemoryBlock
) -> Iterator[CellRun | int]:
    """Ask the core for cells until there are no more."""
    n_units = int(layers.unit_starts[-1])
    most, later = _CELLS_AT_ONCE
    is_done = False
    yield 0
    while not is_done:
        where, radii = np.empty((2, most + 1))
        ratios, names = np.empty((most + 1, 2), np.int64), np.empty((most + 1, 3), np.int64)
        signature = np.empty(n_units, np.uint8)
        starts, groups = np.empty(most + 1, np.int64), np.empty(most + n_units, np.int64)
        winners = np.empty(most + n_units, np.uint8)
        arrays = where, radii, ratios, names, signature, starts, groups, winners
        record = _PiecesRecord(most, most + n_units, *map(address, arrays))
        core().hm_line_integers_run(memory.address, byref(record))
        search.decisions.expanded += record.n_signs
        n, is_done = record.n_cells, bool(record.is_done)
        if search.count_only:
            yield n
        else:
            some = slice(n + 1)
            known = np.empty(n + 1, dtype=object)
            ends = Points(Enclosed(where[some], radii[some]), names[some], known, ratios[some])
            changes = groups[: record.n_changes], winners[: record.n_changes]
            yield CellRun(ends, SignatureWalk(signature, starts[some], *changes))
        most = later
    release_block(memory)
