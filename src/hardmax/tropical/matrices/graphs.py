r"""Longest and shortest paths in weighted graphs, by tropical linear algebra.

A matrix defines a graph: `weights[i, j]` is the weight of the edge $i \to j$, or the tropical zero
(-inf for longest paths, +inf for shortest paths) if there is no such edge. The paths from one
source are a fixed point of $x \mapsto x \oplus x \otimes A$ (Bellman–Ford), and the paths between
all pairs are the Kleene star $A^*$.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from hardmax._ground.arguments import integer, read_only_copy
from hardmax._ground.display import html_card, short_repr
from hardmax.errors import ArgumentError
from hardmax.exact.dyadic import nearest_float
from hardmax.tropical.matrices.kleene import divergence_error, kleene_star
from hardmax.tropical.matrices.semiring import Semiring, maxplus, minplus, square_matrix
from hardmax.tropical.matrices.walks import ExactWeights, heaviest_walks
from hardmax.typing import ArrayLike, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class PathTree:
    """The best paths from one node to all others.

    The best paths are decided exactly. Each weight is the exact sum along its path, rounded to
    float64 once.

    Attributes:
        source: The node at which all paths begin.
        weights: The weight of the best path to each node, shape `(n_nodes,)`, or the tropical zero
            (-inf for longest paths, +inf for shortest paths) if no path reaches the node.
        parents: The predecessor of each node on its best path, shape `(n_nodes,)`, or -1 for the
            source and for nodes that no path reaches.

    Examples:
        >>> tree = shortest_paths([[0, 5, 1], [4, 0, 3], [4, 2, 0]], 0)
        >>> tree.weights.tolist(), tree.parents.tolist(), tree.path_to(1)
        ([0.0, 3.0, 1.0], [-1, 2, 0], [0, 2, 1])
    """

    source: int
    weights: FloatArray
    parents: IntArray

    __repr__ = short_repr
    _repr_html_ = html_card

    def path_to(self, target: int) -> list[int]:
        """Return the nodes of the best path from the source to `target`, or [] without a path.

        Examples:
            >>> tree = longest_paths([[-np.inf, 1.0], [-np.inf, -np.inf]], 0)
            >>> tree.path_to(1), tree.path_to(0)
            ([0, 1], [0])
        """
        node = integer("target", target, at_least=0, at_most=len(self.parents) - 1)
        if node != self.source and self.parents[node] < 0:
            return []
        path = [node]
        while path[-1] != self.source:
            path.append(int(self.parents[path[-1]]))
        return path[::-1]


@dataclass(frozen=True, eq=False)
class PathTable:
    """The best paths between all pairs of nodes.

    Attributes:
        weights: The Kleene star: entry `(i, j)` is the weight of the best path from node i to node
            j, shape `(n_nodes, n_nodes)`, rounded as in `Semiring.kleene_star`.

    Examples:
        >>> table = all_shortest_paths([[0, 5, 1], [4, 0, 3], [4, 2, 0]])
        >>> table.weights[0].tolist(), table.path(0, 1)
        ([0.0, 3.0, 1.0], [0, 2, 1])
    """

    weights: FloatArray
    _semiring: Semiring = field(repr=False)
    _edges: FloatArray = field(repr=False)

    __repr__ = short_repr
    _repr_html_ = html_card

    def path(self, source: int, target: int) -> list[int]:
        """Return the nodes of a best path, decided exactly, or [] if there is no path.

        Each call computes all paths from `source`. For many targets of one source, call
        `longest_paths` or `shortest_paths` once instead.
        """
        return _make_path_tree(self._semiring, self._edges, source).path_to(target)


def longest_paths(weights: ArrayLike, source: int) -> PathTree:
    r"""Find the heaviest path from one node to every other.

    The weight $x_j$ is the maximum of $\sum_t a_{i_t i_{t+1}}$ over all walks
    $s = i_0 \to i_1 \to \dots \to j$ from the source. These weights are the least fixed point of
    $x = e_s \oplus x \otimes A$.

    Args:
        weights: The matrix $A = (a_{ij})$, shape `(n_nodes, n_nodes)`, with -inf where there is no
            edge.
        source: The node $s$ at which paths begin.

    Raises:
        PositiveCycleError: If the source reaches a cycle of positive weight, decided exactly.

    Examples:
        >>> none = -np.inf
        >>> tree = longest_paths([[none, 2, 3], [none, none, 2], [none, none, none]], 0)
        >>> tree.weights.tolist(), tree.path_to(2)
        ([0.0, 2.0, 4.0], [0, 1, 2])
        >>> longest_paths([[none, none], [1, none]], 0).weights.tolist()
        [0.0, -inf]
    """
    return _make_path_tree(maxplus, square_matrix(maxplus, "weights", weights), source)


def shortest_paths(weights: ArrayLike, source: int) -> PathTree:
    """Find the lightest path from one node to every other. Edges may have negative weight.

    Args:
        weights: The weights of the edges, shape `(n_nodes, n_nodes)`, with +inf where there is no
            edge.
        source: The node at which paths begin.

    Raises:
        PositiveCycleError: If the source reaches a cycle of negative weight, decided exactly.

    Examples:
        >>> shortest_paths([[0, 5, 1], [4, 0, 3], [4, -2, 0]], 0).path_to(1)
        [0, 2, 1]
        >>> shortest_paths([[0, 5, 1], [4, 0, 1], [4, -2, 0]], 0)
        Traceback (most recent call last):
            ...
        hardmax.errors.PositiveCycleError: `weights` must not have a cycle of negative weight,
        because walks around it have no best weight; the cycle 1 -> 2 -> 1 has weight -1.0.
    """
    return _make_path_tree(minplus, square_matrix(minplus, "weights", weights), source)


def all_longest_paths(weights: ArrayLike) -> PathTable:
    """Find the heaviest paths between all pairs of nodes, using the Kleene star.

    Args:
        weights: The weights of the edges, shape `(n_nodes, n_nodes)`, with -inf where there is no
            edge.

    Raises:
        PositiveCycleError: If a cycle has positive weight, decided exactly.

    Examples:
        >>> none = -np.inf
        >>> table = all_longest_paths([[none, 2, 3], [none, none, 2], [none, none, none]])
        >>> table.weights[0].tolist(), table.path(0, 2), table.path(2, 0)
        ([0.0, 2.0, 4.0], [0, 1, 2], [])
    """
    return _make_path_table(maxplus, weights)


def all_shortest_paths(weights: ArrayLike) -> PathTable:
    """Find the lightest paths between all pairs of nodes (see `all_longest_paths`).

    Args:
        weights: The weights of the edges, shape `(n_nodes, n_nodes)`, with +inf where there is no
            edge.

    Raises:
        PositiveCycleError: If a cycle has negative weight, decided exactly.

    Examples:
        >>> none = np.inf
        >>> table = all_shortest_paths([[none, 2, 5], [none, none, 2], [none, none, none]])
        >>> table.weights[0].tolist(), table.path(0, 2)
        ([0.0, 2.0, 4.0], [0, 1, 2])
    """
    return _make_path_table(minplus, weights)


def _make_path_table(semiring: Semiring, weights: ArrayLike) -> PathTable:
    edges = square_matrix(semiring, "weights", weights)
    star = kleene_star(semiring, edges, "weights")
    return PathTable(read_only_copy(star), semiring, read_only_copy(edges))


def _make_path_tree(semiring: Semiring, edges: FloatArray, source: int) -> PathTree:
    n = edges.shape[0]
    start = integer("source", source, at_least=0, at_most=n - 1)
    exact = ExactWeights(semiring.sign * edges)
    walks = heaviest_walks(exact, np.arange(n) == start)
    if walks.cycle is not None:
        raise divergence_error(semiring, exact, walks.cycle, "weights")
    labels = [
        semiring.zero if label is None else _round_weight(semiring.sign * label * exact.unit)
        for label in walks.labels
    ]
    parents = np.array(walks.parents)
    parents.setflags(write=False)
    return PathTree(start, read_only_copy(np.array(labels)), parents)


def _round_weight(weight: Fraction) -> float:
    rounded = nearest_float(weight)
    if math.isinf(rounded):
        raise ArgumentError(
            "the weight of a best path exceeds the range of float64 (about 1.8e308). "
            "Rescale `weights`."
        )
    return rounded
