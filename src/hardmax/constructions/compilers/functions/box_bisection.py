r"""Adaptive conforming meshes of a box: bisection of longest edges.

A cube is cut into the $d!$ Kuhn simplices, one for each order of the coordinates. A simplex is
refined by halving its longest edge, together with *every* simplex around that edge; where one of
these has a longer edge, that one is halved first [Riv84]. The mesh stays face to face, and because
each step is a stellar subdivision, it stays regular: the convex differences of such meshes need no
new pieces. Lengths are relative to the sides of the box and ties go by the numbers of the vertices,
so all simplices around an edge agree which of their edges is longest.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import combinations, permutations

import numpy as np

from hardmax.geometry.domains import Box
from hardmax.typing import FloatArray, IntArray

_MANY_FLOATS = 2.0**12

Edge = tuple[int, int]

Indicator = Callable[[FloatArray], FloatArray]
"""Errors of simplices, given their corners `(n_simplices, dim + 1, dim)`."""


class BisectionMesh:
    """A growing mesh of a box.

    Attributes:
        points: The vertices so far.
        simplices: The simplices that are in the mesh, by number.
    """

    def __init__(self, box: Box) -> None:
        dim = box.dim
        corners = np.array(np.meshgrid(*[[0, 1]] * dim, indexing="ij")).reshape(dim, -1).T
        self.points: list[FloatArray] = [np.where(c, box.high, box.low) for c in corners]
        self._places: list[FloatArray] = [c.astype(np.float64) for c in corners]
        self.simplices: dict[int, tuple[int, ...]] = {}
        self._around: dict[Edge, set[int]] = {}
        self._longest: dict[int, Edge] = {}
        self._next = 0
        weights = 2 ** np.arange(dim)[::-1]
        for order in permutations(range(dim)):
            path = np.cumsum(
                np.vstack([np.zeros(dim, int), np.eye(dim, dtype=int)[list(order)]]), axis=0
            )
            self._add(tuple(int(x) for x in path @ weights))

    def corners(self, numbers: list[int]) -> FloatArray:
        """Return the corners of simplices: `(n, dim + 1, dim)`."""
        return np.array([[self.points[v] for v in self.simplices[k]] for k in numbers])

    def terminal_edge(self, simplex: int) -> Edge:
        """Follow longest edges from a simplex to one that is longest for all simplices around."""
        edge = self._longest[simplex]
        while True:
            longer = max((self._longest[k] for k in self._around[edge]), key=self._length)
            if longer == edge:
                return edge
            edge = longer

    def n_around(self, edge: Edge) -> int:
        """Count the simplices around an edge."""
        return len(self._around[edge])

    def can_halve(self, edge: Edge) -> bool:
        """Say whether an edge is still long compared with the distance of floats around it."""
        a, b = (self.points[v] for v in edge)
        step = np.abs(a / 2 - b / 2)
        near = np.spacing(np.maximum(np.abs(a), np.abs(b)))
        return bool(np.all((step == 0.0) | (step > _MANY_FLOATS * near)))

    def bisect(self, edge: Edge) -> list[int]:
        """Halve an edge with all simplices around it, and return the numbers of the new ones."""
        a, b = edge
        middle = len(self.points)
        self.points.append(self.points[a] / 2 + self.points[b] / 2)
        self._places.append((self._places[a] + self._places[b]) / 2)
        fresh = []
        for k in sorted(self._around[edge]):
            simplex = self.simplices.pop(k)
            del self._longest[k]
            for own in combinations(sorted(simplex), 2):
                self._around[own].discard(k)
            for gone in edge:
                fresh.append(self._add(tuple(middle if v == gone else v for v in simplex)))
        return fresh

    def arrays(self) -> tuple[FloatArray, IntArray]:
        """Return vertices `(n_vertices, dim)` and simplices `(n_simplices, dim + 1)`."""
        return np.array(self.points), np.array([self.simplices[k] for k in sorted(self.simplices)])

    def _add(self, simplex: tuple[int, ...]) -> int:
        number, self._next = self._next, self._next + 1
        self.simplices[number] = simplex
        edges = list(combinations(sorted(simplex), 2))
        for edge in edges:
            self._around.setdefault(edge, set()).add(number)
        self._longest[number] = max(edges, key=self._length)
        return number

    def _length(self, edge: Edge) -> tuple[float, Edge]:
        # Places are dyadic with few bits: ties are true ties. Where rounding enters at last, it
        # still enters for all simplices alike.
        a, b = edge
        return float(((self._places[a] - self._places[b]) ** 2).sum()), edge


def adaptive_mesh(box: Box, n_pieces: int, indicator: Indicator) -> tuple[FloatArray, IntArray]:
    """Refine where an indicator is largest, as long as the mesh has at most `n_pieces` simplices.

    Args:
        box: The box to cover.
        n_pieces: At least the factorial of the dimension.
        indicator: The error of each simplex.

    Returns:
        Vertices and simplices.
    """
    mesh = BisectionMesh(box)
    queue: list[tuple[float, int]] = []

    def enqueue(numbers: list[int]) -> None:
        for number, error in zip(numbers, indicator(mesh.corners(numbers)).tolist(), strict=True):
            heappush(queue, (-error, number))

    enqueue(sorted(mesh.simplices))
    while queue:
        error, worst = queue[0]
        if worst not in mesh.simplices:
            heappop(queue)
            continue
        edge = mesh.terminal_edge(worst)
        if not mesh.can_halve(edge):
            heappop(queue)
            continue
        if error == 0.0 or len(mesh.simplices) + mesh.n_around(edge) > n_pieces:
            break
        enqueue(mesh.bisect(edge))
    return mesh.arrays()
