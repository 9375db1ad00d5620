"""Compiled searches for the vertices and edges of the convex hull of one point set.

A candidate is compared only with the vertices (or edges) found so far [Cla94]: either it is not a
vertex (or edge), or a direction reveals a new one. The loops are in
`core/include/hardmax/hulls.hpp`. The number of candidates per call is limited so that a call takes
some milliseconds.
"""

from collections.abc import Iterator

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import MemoryBlock, address
from hardmax._ground.arguments import prepare_array
from hardmax.typing import BoolArray, FloatArray, IntArray, SignArray

YES, NO = 1, 0
CLAIMED = 2
"""No, provided that the origin lies in the hull of the support, which must be proved exactly."""
OPEN = -1
"""Rounding stopped the search."""

_ENTRIES_AT_ONCE = 2**22
"""The approximate number of entries that the candidates of one call are compared with."""


class CandidateSearch:
    """A float search for directions in which points win, or for points between which they lie.

    Attributes:
        dim: The dimension of the points.

    Args:
        points: Well-conditioned points, centred at the origin, shape `(n_points, dim)`.
        rays: Unit vectors on which directions must be positive, shape `(n_rays, dim)`.
        is_vertex: The known vertices to compare with, a mask of shape `(n_points,)`.
        quality: The required quality of margins (see `nearest_point`).
    """

    def __init__(
        self, points: FloatArray, rays: FloatArray, is_vertex: BoolArray, quality: float
    ) -> None:
        # The core reads these arrays during the whole search.
        self._data = prepare_array(points), prepare_array(rays)
        self.dim = points.shape[1]
        sizes = len(points), len(rays), self.dim
        self._memory = MemoryBlock(core().hm_candidates_size(*sizes))
        known = prepare_array(is_vertex, np.uint8)
        core().hm_candidates_init(
            self._memory.address, *sizes, *map(address, self._data), address(known), quality
        )

    def find(self, targets: IntArray) -> tuple[IntArray, list[list[int]], FloatArray]:
        """Find, for each target, a direction in which it seems to win or points that enclose it.

        Returns:
            For each target, the status of `nearest_point`; the support, where `n_points + k` stands
            for ray `k`; and the direction, shape `(n_targets, dim)`.
        """
        n = targets.size
        status, n_support = np.empty(n, np.int64), np.empty(n, np.int64)
        support, directions = np.empty((n, self.dim + 2), np.int64), np.empty((n, self.dim))
        for part in _split_into_parts(n, self._data[0].size):
            here = targets[part].copy(), status[part], n_support[part]
            core().hm_candidates_find(
                self._memory.address, len(here[0]),
                *map(address, (*here, support[part], directions[part])),
            )  # fmt: skip
        supports = [row[:k].tolist() for row, k in zip(support, n_support, strict=True)]
        return status, supports, directions


def hull_vertices(points: FloatArray) -> tuple[SignArray, IntArray]:
    """Decide which distinct points are vertices of their convex hull.

    Args:
        points: The exact points, shape `(n, dim)` with `n >= 2`. Each difference of two points is
            rounded once.

    Returns:
        For each point, `YES`, `NO`, `CLAIMED` or `OPEN`; and for each claimed point, points `j`
        such that the origin seems to lie in the hull of the differences from `j`, padded with -1,
        shape `(n, dim + 1)`.

    Examples:
        >>> hull_vertices(np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [1.0, 1.0]]))[0].tolist()
        [1, 1, 1, 0]
    """
    points = prepare_array(points)
    n, dim = points.shape
    verdict, supports = np.empty(n, np.int8), np.empty((n, dim + 1), np.int64)
    memory = MemoryBlock(core().hm_hull_vertices_size(n, dim))
    core().hm_hull_vertices_init(memory.address, n, dim, address(points), address(verdict))
    for part in _split_into_parts(2 * n, points.size):
        core().hm_hull_vertices_decide(
            memory.address, part.start, part.stop, address(verdict), address(supports)
        )
    return verdict, supports


def hull_edges(
    rows: FloatArray, n_samples: int = 48, enough: int = 32, most_claims: int = 20_000
) -> tuple[SignArray, IntArray] | None:
    """Decide which pairs of vertices of a hull are joined by an edge, or return `None`.

    The rows of a vertex bound the cone of directions in which it wins, and its neighbours
    correspond to the facets of this cone. A row is dropped only if the other rows provably imply
    it; otherwise the pair counts as an edge. Hence the result can contain too many edges, but never
    too few.

    Args:
        rows: The rounded differences `vertex j - vertex k`, scaled to largest entry one, shape
            `(n, n, dim)`.
        n_samples: The number of pairs to try first.
        enough: Return `None` if more than this number of the first pairs are edges, because the
            graph is then not worth its cost.
        most_claims: The maximum number of claims. Beyond it, pairs count as edges.

    Returns:
        For each pair, `YES`, `NO` or `CLAIMED` (no edge, still to be proved), shape `(n, n)`; and
        for each claimed pair, `j`, `k` and vertices `l` such that the origin seems to lie in the
        hull of `k - j` (for `l = k`) and of the `j - l`, padded with -1, shape
        `(n_claims, dim + 3)`.
    """
    rows = prepare_array(rows)
    n, _, dim = rows.shape
    adjacent, claims = np.empty((n, n), np.int8), np.empty((most_claims, dim + 3), np.int64)
    memory = MemoryBlock(core().hm_hull_edges_size(n, dim))
    n_edges = core().hm_hull_edges_init(
        memory.address, n, dim, *map(address, (rows, adjacent, claims)), most_claims, n_samples
    )
    if n_edges > enough:
        return None
    n_claims = 0
    for part in _split_into_parts(n, rows.size):
        n_claims = core().hm_hull_edges_decide(memory.address, part.start, part.stop)
    return adjacent, claims[:n_claims]


def _split_into_parts(n: int, n_entries: int) -> Iterator[slice]:
    """Split `n` candidates, each of which is compared with `n_entries` numbers, into parts."""
    step = max(1, _ENTRIES_AT_ONCE // max(n_entries, 1))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
