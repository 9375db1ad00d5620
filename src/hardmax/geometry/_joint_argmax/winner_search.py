"""The search for tuples of winners: compiled, with exact arithmetic where rounding gives up."""

from ctypes import Structure, addressof, c_int64, c_void_p

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import Memory, address
from hardmax._ground.progress import Progress
from hardmax.exact.dyadic import scaled_integers
from hardmax.exact.rounding import UNIT_ROUNDOFF
from hardmax.geometry._joint_argmax.head_coordinates import rounded_direction
from hardmax.geometry._joint_argmax.vertex_graphs import VertexGraphs
from hardmax.geometry.cones import decide_open_cone, positive_dependence
from hardmax.typing import FloatArray, IntArray, WideArray

_ENTRIES_AT_ONCE = 2**21
"""How many numbers the rows have that the nodes of one call are searched in."""
_ROOM, _PARKING = 4096, 256
_THIN = 2.0**-24
"""Directions this close to a wall, as the sine of the angle, are looked for again."""

Path = tuple[int, ...]
"""A node: one vertex of each of the first heads."""


class _Record(Structure):
    """`hm_joint_found` of the interface."""

    _fields_ = (
        *((name, c_int64) for name in ("room_leaves", "room_claims", "room_parked")),
        *((name, c_int64) for name in ("n_leaves", "n_claims", "n_parked", "n_refused")),
        *((name, c_void_p) for name in ("leaves", "directions")),
        *((name, c_void_p) for name in ("claims", "claim_paths", "parked")),
    )


class _Found:
    """What the core has found since it was last called.

    Attributes:
        record: How much of each, and how many refusals floating point proved in all.
        leaves: The chosen vertices, shape `(room, n_heads)`.
        directions: A direction that selects them, proven, shape `(room, dim)`.
        claims: Rows said to have the origin in their hull, padded with -1, shape `(room, dim + 1)`.
        claim_paths: The node that relies on each claim, padded with -1, shape `(room, n_heads)`.
        parked: Nodes not expanded, padded with -1, shape `(room, n_heads)`.
    """

    def __init__(self, widest: int, n_heads: int, dim: int) -> None:
        room = max(_ROOM, 4 * widest)
        self.leaves, self.directions = np.empty((room, n_heads), np.int64), np.empty((room, dim))
        self.claims = np.empty((room, dim + 1), np.int64)
        self.claim_paths = np.empty((room, n_heads), np.int64)
        self.parked = np.empty((_PARKING, n_heads), np.int64)
        arrays = self.leaves, self.directions, self.claims, self.claim_paths, self.parked
        sizes = room, room, _PARKING, 0, 0, 0, 0
        self.record = _Record(*sizes, *(address(array) for array in arrays))


class WinnerSearch:
    """One search: the nodes still to do, the tuples found, and the claims already proved."""

    def __init__(self, graphs: VertexGraphs, is_exact_only: bool) -> None:
        self.graphs = graphs
        self.is_exact_only = is_exact_only
        self.n_heads = graphs.heads.size
        self.dim = graphs.coordinates.rank
        fan, n_base = graphs.fan, graphs.base_rows.size
        self.found = _Found(int(np.diff(fan.first_vertex).max()), self.n_heads, self.dim)
        self._memory = Memory(core().hm_joint_size(fan.address, n_base))
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
        """Work off the nodes until none is left."""
        while self.todo:
            path, direction = self.todo.pop()
            start = self._start(path, direction)
            if start is None:
                self._expand(path)
                continue
            self._load(path, start)
            found, is_done = addressof(self.found.record), False
            while not is_done:
                is_done = core().hm_joint_run(self._memory.address, len(path), self._steps, found)
                progress.advance(self.found.record.n_leaves)
                self._unload()

    @np.errstate(under="ignore")
    def _start(self, path: Path, exact: WideArray | None) -> FloatArray | None:
        """Find a float64 direction that provably lies in the node, or none."""
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
        direction = rounded_direction(exact)
        products = self.graphs.fan.rows[rows] * direction
        bound = 2 * (self.dim + 8) * UNIT_ROUNDOFF * np.abs(products).sum(axis=1) + 1e-200
        return direction if (products.sum(axis=1) > bound).all() else None

    def _rows(self, path: Path) -> IntArray:
        """All rows of the node: the base rows, and those of its vertices."""
        parts = [self.graphs.rows_of(vertex) for vertex in path]
        return np.concatenate([self.graphs.base_rows, *parts])

    def _load(self, path: Path, direction: FloatArray) -> None:
        """Put a node on the stack, as the root of a search."""
        rows, winners = self._rows(path), np.array(path, np.int64)
        arrays = map(address, (rows, winners, direction))
        core().hm_joint_load(self._memory.address, len(path), rows.size, *arrays)

    def _unload(self) -> None:
        """Take what the core found, prove its claims, and do what it could not."""
        record = self.found.record
        n_leaves, n_claims, n_parked = record.n_leaves, record.n_claims, record.n_parked
        record.n_leaves = record.n_claims = record.n_parked = 0
        self.leaves.append(self.found.leaves[:n_leaves].copy())
        self.directions.append(self.found.directions[:n_leaves].copy())
        again = {_path(row) for row in self.found.parked[:n_parked]}
        if n_claims:
            claims = np.sort(self.found.claims[:n_claims], axis=1)
            distinct, which = np.unique(claims, axis=0, return_inverse=True)
            holds = np.array([self._is_proved(claim) for claim in distinct], dtype=np.bool_)
            wrong = np.flatnonzero(~holds[which.ravel()])
            # What was found below a node with a wrong claim is checked and found again.
            again |= {_path(self.found.claim_paths[place]) for place in wrong}
        for path in again:
            self._expand(path)

    def _is_proved(self, claim: IntArray) -> bool:
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
            return  # Base rows without a direction, or a tuple that a wrong claim led to.
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
    def n_filtered(self) -> int:
        """How many refusals floating point proved."""
        return int(self.found.record.n_refused)

    def tuples(self) -> tuple[IntArray, FloatArray, dict[int, WideArray]]:
        """Check every tuple found against its direction once more, on its own.

        Returns:
            The tuples of vertices, shape `(n, n_heads)`, a few perhaps repeated; for each a
            direction for the fan; and integer directions, by position, where floats are not
            proved to do.
        """
        wide = list(self.wide_leaves.items())
        paths = np.array([path for path, _ in wide], np.int64).reshape(len(wide), self.n_heads)
        rounded = np.array([rounded_direction(u) for _, u in wide]).reshape(len(wide), self.dim)
        leaves = np.concatenate([*self.leaves, paths])
        directions = np.concatenate([*self.directions, rounded])
        proved, margins = self.graphs.fan.check(leaves, directions)
        exact: dict[int, WideArray] = {}
        # A direction that lies barely inside proves the tuple, but is of little use to a reader
        # who multiplies in float64: the cone is asked for one further from its walls.
        for place in np.flatnonzero(~(proved & (margins > _THIN))).tolist():
            path = tuple(leaves[place].tolist())
            decision = decide_open_cone(self.graphs.exact_rows(self._rows(path)))
            self.n_rational += 1
            if decision.direction is not None:
                proved[place] = True
                exact[place] = decision.direction
                directions[place] = rounded_direction(decision.direction)
        # What a wrong claim let through has no direction, and goes.
        kept = np.flatnonzero(proved)
        places = {int(old): new for new, old in enumerate(kept)} if exact else {}
        exact = {places[old]: direction for old, direction in exact.items() if old in places}
        return leaves[kept], directions[kept], exact


def integer_direction(direction: FloatArray) -> WideArray:
    """Return a float64 direction as Python integers, up to a positive factor."""
    return scaled_integers(direction).integers


def _path(padded: IntArray) -> Path:
    return tuple(vertex for vertex in padded.tolist() if vertex >= 0)
