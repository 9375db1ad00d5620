"""The search for tuples of winners: compiled, with exact arithmetic for undecided cases."""

from ctypes import Structure, addressof, c_int64, c_void_p

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import MemoryBlock, address
from hardmax._ground.progress import Progress
from hardmax.exact.dyadic import scaled_integers
from hardmax.exact.rounding import UNIT_ROUNDOFF
from hardmax.geometry._joint_argmax.head_coordinates import round_direction
from hardmax.geometry._joint_argmax.vertex_graphs import VertexGraphs
from hardmax.geometry.cones import decide_open_cone, positive_dependence
from hardmax.typing import FloatArray, IntArray, WideArray

_ENTRIES_AT_ONCE = 2**21
"""The approximate number of entries of rows that one call of the core processes."""
_CAPACITY, _PARKED_CAPACITY = 4096, 256
_THIN = 2.0**-24
"""If the sine of the angle between a direction and a wall is smaller, the direction is replaced."""

Path = tuple[int, ...]
"""A node of the search: one vertex of each of the first heads."""


class _Record(Structure):
    """`hm_joint_found` of the interface."""

    _fields_ = (
        *((name, c_int64) for name in ("room_leaves", "room_claims", "room_parked")),
        *((name, c_int64) for name in ("n_leaves", "n_claims", "n_parked", "n_refused")),
        *((name, c_void_p) for name in ("leaves", "directions")),
        *((name, c_void_p) for name in ("claims", "claim_paths", "parked")),
    )


class _ResultBuffers:
    """The results of the last call of the core.

    Attributes:
        record: The number of entries of each array, and the total number of proven rejections.
        leaves: The chosen vertices, shape `(capacity, n_heads)`.
        directions: Directions that provably select them, shape `(capacity, dim)`.
        claims: Rows that supposedly have the origin in their hull, padded with -1, shape
            `(capacity, dim + 1)`.
        claim_paths: The node that relies on each claim, padded with -1, shape
            `(capacity, n_heads)`.
        parked: The nodes left to exact arithmetic, padded with -1, shape `(capacity, n_heads)`.
    """

    def __init__(self, widest: int, n_heads: int, dim: int) -> None:
        capacity = max(_CAPACITY, 4 * widest)
        self.leaves, self.directions = (
            np.empty((capacity, n_heads), np.int64),
            np.empty((capacity, dim)),
        )
        self.claims = np.empty((capacity, dim + 1), np.int64)
        self.claim_paths = np.empty((capacity, n_heads), np.int64)
        self.parked = np.empty((_PARKED_CAPACITY, n_heads), np.int64)
        arrays = self.leaves, self.directions, self.claims, self.claim_paths, self.parked
        sizes = capacity, capacity, _PARKED_CAPACITY, 0, 0, 0, 0
        self.record = _Record(*sizes, *(address(array) for array in arrays))


class WinnerSearch:
    """The state of a search: the remaining nodes, the tuples found, and the proved claims."""

    def __init__(self, graphs: VertexGraphs, is_exact_only: bool) -> None:
        self.graphs = graphs
        self.is_exact_only = is_exact_only
        self.n_heads = graphs.heads.size
        self.dim = graphs.coordinates.rank
        fan, n_base = graphs.fan, graphs.base_rows.size
        self.found = _ResultBuffers(int(np.diff(fan.first_vertex).max()), self.n_heads, self.dim)
        self._memory = MemoryBlock(core().hm_joint_size(fan.address, n_base))
        core().hm_joint_init(self._memory.address, fan.address, n_base)
        self._steps = max(16, _ENTRIES_AT_ONCE // max(fan.points.size, 1))
        self.leaves: list[IntArray] = []
        self.directions: list[FloatArray] = []
        self.wide_leaves: dict[Path, WideArray] = {}
        self.todo: list[tuple[Path, WideArray | None]] = [((), None)]
        self.proved: dict[bytes, bool] = {}
        self.n_rational = graphs.n_rational
        self.expanded: set[Path] = set()

    def complete(self, progress: Progress[None]) -> None:
        """Process all nodes."""
        while self.todo:
            path, direction = self.todo.pop()
            start = self._start(path, direction)
            if start is None:
                self._expand(path)
                continue
            self._push_node(path, start)
            found, is_done = addressof(self.found.record), False
            while not is_done:
                is_done = core().hm_joint_run(self._memory.address, len(path), self._steps, found)
                progress.advance(self.found.record.n_leaves)
                self._collect_results()

    @np.errstate(under="ignore")
    def _start(self, path: Path, exact: WideArray | None) -> FloatArray | None:
        """Find a float64 direction that provably lies in the node, or return None."""
        if self.is_exact_only:
            return None
        rows = self._rows(path)
        if exact is None and rows.size == 0:
            return np.random.default_rng(0).normal(size=self.dim)
        if exact is None:
            exact = decide_open_cone(self.graphs.exact_rows(rows)).direction
            self.n_rational += 1
        if exact is None:
            return None
        direction = round_direction(exact)
        products = self.graphs.fan.rows[rows] * direction
        bound = 2 * (self.dim + 8) * UNIT_ROUNDOFF * np.abs(products).sum(axis=1) + 1e-200
        return direction if (products.sum(axis=1) > bound).all() else None

    def _rows(self, path: Path) -> IntArray:
        """Return the indices of the rows of the node: base rows and rows of its vertices."""
        parts = [self.graphs.rows_of(vertex) for vertex in path]
        return np.concatenate([self.graphs.base_rows, *parts])

    def _push_node(self, path: Path, direction: FloatArray) -> None:
        """Push a node on the stack of the core as the root of a search."""
        rows, winners = self._rows(path), np.array(path, np.int64)
        arrays = map(address, (rows, winners, direction))
        core().hm_joint_load(self._memory.address, len(path), rows.size, *arrays)

    def _collect_results(self) -> None:
        """Collect the results of the core, prove its claims, and expand the nodes it left over."""
        record = self.found.record
        n_leaves, n_claims, n_parked = record.n_leaves, record.n_claims, record.n_parked
        record.n_leaves = record.n_claims = record.n_parked = 0
        self.leaves.append(self.found.leaves[:n_leaves].copy())
        self.directions.append(self.found.directions[:n_leaves].copy())
        again = {_to_path(row) for row in self.found.parked[:n_parked]}
        if n_claims:
            claims = np.sort(self.found.claims[:n_claims], axis=1)
            distinct, which = np.unique(claims, axis=0, return_inverse=True)
            holds = np.array([self._prove_claim(claim) for claim in distinct], dtype=np.bool_)
            wrong = np.flatnonzero(~holds[which.ravel()])
            # Nodes with a wrong claim are searched again. `tuples` checks earlier results.
            again |= {_to_path(self.found.claim_paths[place]) for place in wrong}
        for path in again:
            self._expand(path)

    def _prove_claim(self, claim: IntArray) -> bool:
        """Decide exactly whether the origin lies in the convex hull of the claimed rows."""
        key = claim.tobytes()
        if key not in self.proved:
            rows = self.graphs.exact_rows(claim[claim >= 0])
            self.n_rational += 1
            self.proved[key] = (
                positive_dependence(rows) is not None or not decide_open_cone(rows).is_open
            )
        return self.proved[key]

    def _expand(self, path: Path) -> None:
        """Find the children of a node in exact arithmetic, by walking the vertex graph."""
        if path in self.expanded:
            return
        self.expanded.add(path)
        graphs, level = self.graphs, len(path)
        inside = graphs.exact_rows(self._rows(path))
        direction = decide_open_cone(inside).direction
        self.n_rational += 1
        if direction is None:
            return  # The base rows have no direction, or a wrong claim led to this node.
        first, last = graphs.fan.first_vertex[level : level + 2].tolist()
        scores = graphs.exact_points[first:last] @ direction
        best_first = sorted(range(first, last), key=lambda vertex: -scores[vertex - first])
        queue, seen, n_children = [best_first[0]], {best_first[0]}, 0
        for vertex in queue:
            rows = np.concatenate([inside, graphs.exact_rows(graphs.rows_of(vertex))])
            decision = decide_open_cone(rows)
            self.n_rational += 1
            further: list[int] = []
            if decision.direction is not None:
                n_children += 1
                further = graphs.fan.rival[graphs.rows_of(vertex)].tolist()
                if level + 1 == self.n_heads:
                    self.wide_leaves[(*path, vertex)] = decision.direction
                else:
                    self.todo.append(((*path, vertex), decision.direction))
            elif not n_children:
                further = next(([v] for v in best_first if v not in seen), [])
            queue.extend(v for v in further if v not in seen)
            seen.update(further)

    @property
    def n_float_rejections(self) -> int:
        """The number of rejections that floating point proved."""
        return int(self.found.record.n_refused)

    def tuples(self) -> tuple[IntArray, FloatArray, dict[int, WideArray]]:
        """Return all tuples found, after an independent check with their directions.

        Returns:
            The tuples of vertices, shape `(n, n_heads)`, of which a few may be repeated; for each
            tuple, a direction for the fan; and, by position, integer directions for the tuples
            without a proved float direction.
        """
        wide = list(self.wide_leaves.items())
        paths = np.array([path for path, _ in wide], np.int64).reshape(len(wide), self.n_heads)
        rounded = np.array([round_direction(u) for _, u in wide]).reshape(len(wide), self.dim)
        leaves = np.concatenate([*self.leaves, paths])
        directions = np.concatenate([*self.directions, rounded])
        proved, margins = self.graphs.fan.check(leaves, directions)
        exact: dict[int, WideArray] = {}
        # A direction barely inside the cone proves the tuple, but is of little use in float64
        # computations. Hence an exact direction farther from the walls replaces it.
        for place in np.flatnonzero(~(proved & (margins > _THIN))).tolist():
            path = tuple(leaves[place].tolist())
            decision = decide_open_cone(self.graphs.exact_rows(self._rows(path)))
            self.n_rational += 1
            if decision.direction is not None:
                proved[place] = True
                exact[place] = decision.direction
                directions[place] = round_direction(decision.direction)
        # Tuples that result from a wrong claim have no direction and are removed.
        kept = np.flatnonzero(proved)
        places = {int(old): new for new, old in enumerate(kept)} if exact else {}
        exact = {places[old]: direction for old, direction in exact.items() if old in places}
        return leaves[kept], directions[kept], exact


def integer_direction(direction: FloatArray) -> WideArray:
    """Return a float64 direction as Python integers, up to a positive factor."""
    return scaled_integers(direction).integers


def _to_path(padded: IntArray) -> Path:
    return tuple(vertex for vertex in padded.tolist() if vertex >= 0)
