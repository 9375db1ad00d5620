r"""Where each of many affine forms is largest on the plane: all cells at once, exactly.

The forms $f_j(x) = \langle a_j, x\rangle + c_j$ as points $(a_j, c_j)$ of space have an upper hull:
its corners are the forms that win on an open set, its edges the walls between two cells, its faces
the points where three or more cells meet. The compiled core inserts the points one by one; signs
come from floats with a proven bound, or from integers of any length.
"""

from ctypes import Structure, byref, c_int32, c_void_p
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import Memory, address
from hardmax.exact.integer_vectors import Vector, primitive
from hardmax.geometry.descriptions import rounded_points
from hardmax.typing import FloatArray, IntArray, WideArray

_CHUNK = 2_000
"""How many forms are inserted in one call; between two calls an interrupt is heard."""
_SPARE_BITS = 3
_LIMB = 64
_ORDER_SEED = 0
_GRID_BITS = 16


class CoreForms(Structure):
    """`hm_forms` of the interface."""

    _fields_ = (
        ("n", c_int32),
        ("slope_limbs", c_int32),
        ("offset_limbs", c_int32),
        ("slopes", c_void_p),
        ("offsets", c_void_p),
    )


class _CoreCells(Structure):
    """`hm_envelope_cells` of the interface."""

    _fields_ = (
        ("sites", c_void_p),
        ("starts", c_void_p),
        ("neighbours", c_void_p),
        ("corners", c_void_p),
        ("triples", c_void_p),
        ("n_sites", c_int32),
        ("n_vertices", c_int32),
    )


@dataclass(frozen=True, eq=False)
class PlanarEnvelope:
    r"""The cells of $\max_j \langle a_j, x\rangle + c_j$ on the plane, and how they meet.

    Attributes:
        rows: The $(a_j, c_j)$ as integers on one common scale, shape `(n_forms, 3)`.
        sites: The forms that win on an open set, ascending; of equal forms the first.
        starts: Cell `i` has the entries `starts[i]` to `starts[i + 1]` of the next two.
        neighbours: The forms behind the walls of a cell, counter-clockwise.
        corners: The vertex at the end of each wall, where the next one begins; -1 if both run to
            infinity, then the last entry of the cell.
        triples: For each vertex three forms that are equal there, shape `(n_vertices, 3)`.
        vertices: Where that is, correctly rounded, shape `(n_vertices, 2)`.
    """

    rows: WideArray
    sites: IntArray
    starts: IntArray
    neighbours: IntArray
    corners: IntArray
    triples: IntArray
    vertices: FloatArray

    @cached_property
    def pairs(self) -> IntArray:
        """The pairs `i < j` of forms whose cells share a wall: shape `(n_pairs, 2)`, sorted."""
        left = np.repeat(self.sites, np.diff(self.starts))
        keys = (left * len(self.rows) + self.neighbours)[left < self.neighbours]
        keys.sort()
        return np.stack(np.divmod(keys, len(self.rows)), axis=1)

    def exact_vertex(self, k: int) -> Vector:
        r"""Return vertex `k` as integers $(t x, t)$, $t > 0$, without a common divisor."""
        return meeting_point(self.rows[self.triples[k]])


def meeting_point(rows: WideArray) -> Vector:
    r"""Return where three forms are equal, as integers $(t x, t)$, $t > 0$, in lowest terms."""
    (x, y, c), (u, v, d) = (rows[1:] - rows[0]).tolist()
    point = (y * d - v * c, c * u - d * x, x * v - u * y)
    return primitive(point if point[-1] > 0 else tuple(-entry for entry in point))


def planar_envelope(rows: WideArray) -> PlanarEnvelope | None:
    r"""Find all cells of $\max_j \langle a_j, x\rangle + c_j$; `None` if all $a_j$ are on a line.

    Forms may repeat, tie in any number, or win nowhere.

    Args:
        rows: The $(a_j, c_j)$, integers on one common scale, shape `(n_forms, 3)`.

    References:
        [CS89].

    Examples:
        Four sites on a circle meet in one vertex; the centre of the square wins nowhere.

        >>> rows = np.array([[1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0], [0, 0, 0]], dtype=object)
        >>> found = planar_envelope(rows)
        >>> found.sites.tolist(), found.pairs.tolist(), found.vertices.tolist()
        ([0, 1, 2, 3], [[0, 1], [0, 3], [1, 2], [2, 3]], [[0.0, 0.0]])
    """
    slopes, slope_shift = limbs(rows[:, :2])
    offsets, offset_shift = limbs(rows[:, 2])
    n = len(rows)
    forms = CoreForms(n, slopes.shape[-1], offsets.shape[-1], address(slopes), address(offsets))
    library = core()
    memory = Memory(library.hm_envelope_size(byref(forms)))
    order = _insertion_order(slopes)
    if not library.hm_envelope_begin(memory.address, byref(forms), address(order)):
        return None
    for start in range(3, n, _CHUNK):
        count = min(_CHUNK, n - start)
        library.hm_envelope_insert(memory.address, address(order) + 4 * start, count)
    sites, starts = np.empty(n, np.int32), np.empty(n + 1, np.int32)
    neighbours, corners = np.empty(6 * n, np.int32), np.empty(6 * n, np.int32)
    triples = np.empty((2 * n, 3), np.int32)
    found = _CoreCells(*map(address, (sites, starts, neighbours, corners, triples)))
    library.hm_envelope_finish(memory.address, byref(found))
    triples = triples[: found.n_vertices]
    vertices = np.empty((len(triples), 2))
    for start in range(0, len(triples), 10 * _CHUNK):
        library.hm_envelope_vertices(
            memory.address,
            address(triples) + 12 * start,
            min(10 * _CHUNK, len(triples) - start),
            offset_shift - slope_shift,
            address(vertices) + 16 * start,
        )
    for k in np.flatnonzero(np.isnan(vertices).any(axis=1)).tolist():
        vertices[k] = rounded_points([meeting_point(rows[triples[k]])], 2)[0]
    n_sites = found.n_sites
    n_walls = int(starts[n_sites])
    return PlanarEnvelope(
        rows,
        sites[:n_sites].astype(np.int64),
        starts[: n_sites + 1].astype(np.int64),
        neighbours[:n_walls].astype(np.int64),
        corners[:n_walls].astype(np.int64),
        triples.astype(np.int64),
        vertices,
    )


def limbs(integers: WideArray) -> tuple[IntArray, int]:
    """Write integers for the core, without their common factor of two.

    Returns:
        Limbs of 64 bits in two's complement, lowest first, along a new last axis; and the number of
        bits that were taken away.

    Examples:
        >>> limbs(np.array([8, -4, 2**64 * 4], dtype=object))[0].tolist()
        [[2, 0], [-1, -1], [0, 1]]
    """
    union = int(np.bitwise_or.reduce(integers, axis=None))
    shift = max((union & -union).bit_length() - 1, 0)
    short = integers >> shift if shift else integers
    bits = max(int(short.max()).bit_length(), int(short.min()).bit_length()) + _SPARE_BITS
    if bits <= _LIMB:
        return short.astype(np.int64)[..., None], shift
    n_bytes = -(-bits // _LIMB) * 8
    entries = short.ravel().tolist()
    packed = b"".join([entry.to_bytes(n_bytes, "little", signed=True) for entry in entries])
    return np.frombuffer(packed, dtype=np.int64).reshape(*integers.shape, n_bytes // 8), shift


def _insertion_order(slopes: IntArray) -> IntArray:
    """Order points for insertion: random rounds, each twice as long, along a curve of Hilbert.

    Rounds keep what is inserted and removed again small, the curve the way to the next point short
    [ACR03]. The result of the insertion does not depend on it.
    """
    n = len(slopes)
    # Ranks, not coordinates: they know clusters within clusters.
    x, y = ((_ranks(slopes[:, axis]) << _GRID_BITS) // n for axis in range(2))
    key = np.zeros(n, dtype=np.int64)
    for level in reversed(range(_GRID_BITS)):
        right, upper = x >> level & 1, y >> level & 1
        key = key << 2 | (3 * right ^ upper)
        # Each quarter holds a curve of its own, in two of them turned round.
        swap, mirror = upper == 0, (upper == 0) & (right == 1)
        x, y = np.where(mirror, ~x, x), np.where(mirror, ~y, y)
        x, y = np.where(swap, y, x), np.where(swap, x, y)
    ranks = np.random.default_rng(_ORDER_SEED).permutation(n).astype(np.float64)
    return np.argsort(np.frexp(ranks)[1] << 2 * _GRID_BITS | key, kind="stable").astype(np.int32)


def _ranks(integers: IntArray) -> IntArray:
    """Number integers, given by their limbs, by size."""
    *lower, top = integers.T
    order = np.lexsort([*(limb.view(np.uint64) for limb in lower), top])
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
