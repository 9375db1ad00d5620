"""The pairs of cells of a joint argmax partition that share a facet, exactly.

The cells of continuous maxima meet face to face. Across a facet, exactly the heads that have a wall
on it change their winners; a wall can belong to several heads. Hence the tuple of the neighbour
beyond a wall is known in advance. It remains to decide whether the wall contains a facet, that is,
whether a direction violates it and satisfies all other rows of the cell.
"""

import numpy as np

from hardmax.exact.integer_vectors import Vector, primitive
from hardmax.geometry._joint_argmax.fans import FACET, NO_FACET, UNDECIDED
from hardmax.geometry._joint_argmax.joint_argmax import JointWinners
from hardmax.geometry._joint_argmax.vertex_graphs import VertexGraphs
from hardmax.geometry.cones import decide_open_cone
from hardmax.typing import IntArray, WideArray


def neighbouring_tuples(winners: JointWinners) -> IntArray:
    """Find all pairs of tuples whose cones share a facet on which the base rows are positive.

    Returns:
        The pairs `i < j` of positions in `winners.choices`, sorted, shape `(n_pairs, 2)`.
    """
    graphs, leaves = winners.graphs, winners.leaves
    line = _number_lines(graphs)
    cells, walls, beyond = _list_walls(graphs, leaves, line)
    verdict = graphs.fan.facets(line, leaves, cells, walls)
    for place in np.flatnonzero(verdict == UNDECIDED).tolist():
        is_facet = _is_facet(graphs, leaves[cells[place]], line, int(walls[place]))
        verdict[place] = FACET if is_facet else NO_FACET
    joined = verdict == FACET
    pairs = np.stack([cells[joined], beyond[joined]], axis=1)
    return np.asarray(pairs[np.lexsort(pairs.T[::-1])])


def _number_lines(graphs: VertexGraphs) -> IntArray:
    """Number the rows so that rows get the same number if they are positive multiples."""
    numbers: dict[Vector, int] = {}
    rows = graphs.exact_rows(np.arange(graphs.owner.size))
    line = np.empty(rows.shape[0], np.int64)
    for r, row in enumerate(rows.tolist()):
        line[r] = numbers.setdefault(primitive(row), len(numbers))
    return line


def _list_walls(
    graphs: VertexGraphs, leaves: IntArray, line: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """List the walls of cells with a cell beyond them, each only for the first of its two cells."""
    position = {tuple(leaf): i for i, leaf in enumerate(leaves.tolist())}
    first, rival, lines = graphs.fan.first_row.tolist(), graphs.fan.rival.tolist(), line.tolist()
    cells, walls, beyond = [], [], []
    for i, leaf in enumerate(leaves.tolist()):
        crossings: dict[int, tuple[int, list[int]]] = {}
        for level, vertex in enumerate(leaf):
            for r in range(first[vertex], first[vertex + 1]):
                # No three vertices of a hull lie on a line, so a head has at most one row per line.
                _, across = crossings.setdefault(lines[r], (r, leaf.copy()))
                across[level] = rival[r]
        for r, across in crossings.values():
            j = position.get(tuple(across))
            if j is not None and j > i:
                cells.append(i)
                walls.append(r)
                beyond.append(j)
    return np.array(cells, np.int64), np.array(walls, np.int64), np.array(beyond, np.int64)


def _is_facet(graphs: VertexGraphs, leaf: IntArray, line: IntArray, wall: int) -> bool:
    """Decide in exact integers whether the wall contains a facet of the cell."""
    own = [graphs.rows_of(vertex) for vertex in leaf.tolist()]
    others = np.concatenate([graphs.base_rows, *own])
    others = others[line[others] != line[wall]]
    crossed: WideArray = -graphs.exact_rows([wall])
    return decide_open_cone(np.concatenate([crossed, graphs.exact_rows(others)])).is_open
