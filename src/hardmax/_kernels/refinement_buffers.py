"""What the search over tuples of winners reads and writes: arrays grouped by role."""

from typing import NamedTuple

import numpy as np

from hardmax.typing import FloatArray, IntArray

N_PROGRAMS, N_BASES_HIT, N_SIMPLICES, N_CLAIMS, N_WITNESSES, N_PARKED, N_NODES = range(7)
"""What `Found.counters` counts."""
_N_COUNTERS = 7
_MAX_BASES = 48
_ROOM = 4096
_PARKING = 256


class Fan(NamedTuple):
    """The rows of all heads: row `r` of vertex `v` says "v scores more than `rival[r]`".

    Attributes:
        rows: `(n_rows, dim)`, the rounded differences of points, largest entry about one.
        units: `(n_rows, dim)`, about the same rows, of unit length.
        points: `(n_vertices, dim)`, only to guess winners.
        first_vertex: `(n_heads + 1,)`, where each head's vertices start.
        first_row: `(n_vertices + 1,)`, where each vertex' rows start; later rows are free.
        rival: `(n_rows,)`, the vertex on the other side.
        reverse: `(n_rows,)`, the row that says the opposite.
    """

    rows: FloatArray
    units: FloatArray
    points: FloatArray
    first_vertex: IntArray
    first_row: IntArray
    rival: IntArray
    reverse: IntArray


class Stack(NamedTuple):
    """The path from the root to the current node.

    Attributes:
        level: `(1,)`, the current head, or below the root's when finished.
        rows: `(capacity,)`, row numbers; those of the node at level `h` are the first `n_rows[h]`.
        units: `(capacity, dim)`, the unit rows of the same.
        n_rows: `(n_heads + 1,)`.
        inverses: `(n_bases, dim, dim)`, the proven bases known on the path.
        bounds: `(n_bases, 2)`, their error bounds.
        n_bases: `(n_heads + 1,)`, how many the node at each level may use.
        winner: `(n_heads,)`, the chosen vertex of each head.
        members: `(n_heads, n_widest)`, the children of the node at each level.
        directions: `(n_heads + 1, n_widest, dim)`, a direction for each child.
        n_members: `(n_heads + 1,)`, -1 before a node is expanded.
        next_member: `(n_heads + 1,)`.
        direction: `(n_heads + 1, dim)`, the direction of the node at each level.
    """

    level: IntArray
    rows: IntArray
    units: FloatArray
    n_rows: IntArray
    inverses: FloatArray
    bounds: FloatArray
    n_bases: IntArray
    winner: IntArray
    members: IntArray
    directions: FloatArray
    n_members: IntArray
    next_member: IntArray
    direction: FloatArray


class Scratch(NamedTuple):
    """Buffers of one linear program and of one expansion."""

    support: IntArray
    start: IntArray
    n_start: IntArray
    chosen: IntArray
    mark: IntArray
    weights: FloatArray
    point: FloatArray
    trial: FloatArray
    basis: FloatArray
    upper: FloatArray
    scratch: FloatArray
    matrix: FloatArray


class Found(NamedTuple):
    """What the search has found since it was last called.

    Attributes:
        leaves: `(n, n_heads)`, the chosen vertices.
        directions: `(n, dim)`, a direction that selects them, proven.
        claims: `(n, dim + 1)`, row numbers said to have the origin in their hull, padded with -1.
        claim_paths: `(n, n_heads)`, the node that relies on the claim, padded with -1.
        parked: `(n, n_heads)`, nodes not expanded, padded with -1.
        sizes: `(3,)`, how many leaves, claims and parked nodes.
        counters: `(N_COUNTERS,)`.
    """

    leaves: IntArray
    directions: FloatArray
    claims: IntArray
    claim_paths: IntArray
    parked: IntArray
    sizes: IntArray
    counters: IntArray


def search_buffers(fan: Fan, n_base: int) -> tuple[Stack, Scratch, Found]:
    """Allocate the buffers of a search; one set serves a whole search.

    Args:
        fan: The rows.
        n_base: How many of them are base rows.
    """
    n_heads, dim = fan.first_vertex.size - 1, fan.rows.shape[1]
    degrees = np.diff(fan.first_row)
    tallest = np.maximum.reduceat(degrees, fan.first_vertex[:-1])
    capacity = n_base + int(tallest.sum() + tallest.max()) + 1
    widest = int(np.diff(fan.first_vertex).max())
    room = max(_ROOM, 4 * widest)
    stack = Stack(
        level=np.zeros(1, np.int64),
        rows=np.zeros(capacity, np.int64),
        units=np.zeros((capacity, dim)),
        n_rows=np.zeros(n_heads + 1, np.int64),
        inverses=np.zeros((_MAX_BASES, dim, dim)),
        bounds=np.zeros((_MAX_BASES, 2)),
        n_bases=np.zeros(n_heads + 1, np.int64),
        winner=np.zeros(n_heads, np.int64),
        members=np.zeros((n_heads, widest), np.int64),
        directions=np.zeros((n_heads, widest, dim)),
        n_members=np.zeros(n_heads + 1, np.int64),
        next_member=np.zeros(n_heads + 1, np.int64),
        direction=np.zeros((n_heads + 1, dim)),
    )
    scratch = Scratch(
        support=np.zeros(dim + 2, np.int64),
        start=np.zeros(dim + 2, np.int64),
        n_start=np.zeros(1, np.int64),
        chosen=np.zeros(dim + 2, np.int64),
        mark=np.zeros(widest, np.int64),
        weights=np.zeros(dim + 2),
        point=np.zeros(dim),
        trial=np.zeros(dim),
        basis=np.zeros((dim + 2, dim + 1)),
        upper=np.zeros((dim + 2, dim + 2)),
        scratch=np.zeros((3, dim + 2)),
        matrix=np.zeros((dim, dim)),
    )
    found = Found(
        leaves=np.zeros((room, n_heads), np.int64),
        directions=np.zeros((room, dim)),
        claims=np.zeros((room, dim + 1), np.int64),
        claim_paths=np.zeros((room, n_heads), np.int64),
        parked=np.zeros((_PARKING, n_heads), np.int64),
        sizes=np.zeros(3, np.int64),
        counters=np.zeros(_N_COUNTERS, np.int64),
    )
    return stack, scratch, found
