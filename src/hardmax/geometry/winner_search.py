"""The search for tuples of winners: compiled, with exact arithmetic where rounding gives up."""

import numpy as np

from hardmax._kernels.cone_margins import margins_into
from hardmax._kernels.refinement import FINISHED, search, selects
from hardmax._kernels.refinement_buffers import N_BASES_HIT, N_SIMPLICES, search_buffers
from hardmax.algebra.exact.dyadic import scaled_integers
from hardmax.geometry.cones import decide_open_cone, positive_dependence
from hardmax.geometry.head_coordinates import rounded_direction
from hardmax.geometry.vertex_graphs import VertexGraphs
from hardmax.progress import Progress
from hardmax.typing import FloatArray, IntArray, WideArray

_STEPS = 20_000
_THIN = 2.0**-24
"""Directions this close to a wall, as the sine of the angle, are looked for again."""

Path = tuple[int, ...]
"""A node: one vertex of each of the first heads."""


class WinnerSearch:
    """One search: the nodes still to do, the tuples found, and the claims already proved."""

    def __init__(self, graphs: VertexGraphs, is_exact_only: bool) -> None:
        self.graphs = graphs
        self.is_exact_only = is_exact_only
        self.n_heads = graphs.heads.size
        self.dim = graphs.coordinates.rank
        self.stack, self.work, self.found = search_buffers(graphs.fan, graphs.base_rows.size)
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
            status = -1
            while status != FINISHED:
                status = search(
                    self.graphs.fan, self.stack, len(path), _STEPS, self.work, self.found
                )
                progress.advance(int(self.found.sizes[0]))
                self._unload()

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
        bound = (self.dim + 8) * 2.0**-52 * np.abs(products).sum(axis=1) + 1e-200
        return direction if (products.sum(axis=1) > bound).all() else None

    def _rows(self, path: Path) -> IntArray:
        """All rows of the node: the base rows, and those of its vertices."""
        parts = [self.graphs.rows_of(vertex) for vertex in path]
        return np.concatenate([self.graphs.base_rows, *parts])

    def _load(self, path: Path, direction: FloatArray) -> None:
        """Put a node on the stack, as the root of a search."""
        stack, level, rows = self.stack, len(path), self._rows(path)
        stack.rows[: rows.size] = rows
        stack.units[: rows.size] = self.graphs.fan.units[rows]
        stack.n_rows[level] = rows.size
        stack.n_bases[level] = 0
        stack.winner[:level] = path
        stack.direction[level] = direction
        stack.n_members[level] = -1
        stack.level[0] = level

    def _unload(self) -> None:
        """Take what the kernel found, prove its claims, and do what it could not."""
        n_leaves, n_claims, n_parked = self.found.sizes.tolist()
        self.found.sizes[:] = 0
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
        return int(self.found.counters[N_BASES_HIT] + self.found.counters[N_SIMPLICES])

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
        proved = np.zeros(leaves.shape[0], np.bool_)
        selects(self.graphs.fan, leaves, directions, proved)
        margins = np.empty(leaves.shape[0])
        margins_into(self.graphs.fan, leaves, directions, margins)
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
