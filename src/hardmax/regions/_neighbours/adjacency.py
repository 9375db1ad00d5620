r"""The pairs of cells that touch along a wall, computed exactly in any dimension.

Two cells are neighbours if their closures share a set of dimension $d - 1$. A hard transformer
jumps at its walls, so walls of later layers end at earlier ones: a facet of one cell can be covered
by facets of several others. Facets are therefore compared by the hyperplane they lie in. Two facets
on opposite sides of a hyperplane that have the same generators match, and nothing else can touch
them; the remaining ones are compared in pairs, by an exact decision whether the two open facets
meet inside the hyperplane.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.exact.integer_vectors import Vector, dot, null_space, wide_rows
from hardmax.geometry.cones import decide_open_cone
from hardmax.geometry.polytopes import Polytope
from hardmax.regions.cell_rows import CellRows, Wall
from hardmax.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The pairs of cells that share a part of a wall.

    Attributes:
        pairs: The indices `i < j` of two cells in each row, sorted; shape `(n_pairs, 2)`.
        walls: For each pair, the `(layer, group)` whose forms tie on the shared part, from the
            perspective of either cell. There are several entries if several walls coincide.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> part = enumerate_regions(net, Box([-1, -1], [1, 1]))
        >>> part.neighbours.pairs.tolist(), part.neighbours.walls[0]
        ([[0, 1], [0, 2], [1, 3], [2, 3]], ((0, 1),))
        >>> part.neighbours.degrees(part.n_cells).tolist(), part.neighbours.of(3).tolist()
        ([2, 2, 2, 2], [1, 2])
    """

    pairs: IntArray
    walls: tuple[tuple[Wall, ...], ...]

    __repr__ = short_repr
    _repr_html_ = html_card

    def __len__(self) -> int:
        return len(self.pairs)

    def of(self, cell: int) -> IntArray:
        """Return the indices of the neighbours of a cell, in increasing order.

        Args:
            cell: The index of the cell.
        """
        cells, others = self._sorted_both_ways
        low, high = np.searchsorted(cells, [cell, cell + 1])
        return others[low:high]

    @cached_property
    def _sorted_both_ways(self) -> tuple[IntArray, IntArray]:
        """Every pair in both orders, sorted: the first cells and the second cells."""
        cells = np.concatenate([self.pairs, self.pairs[:, ::-1]])
        order = np.lexsort((cells[:, 1], cells[:, 0]))
        return cells[order, 0], cells[order, 1]

    def degrees(self, n_cells: int) -> IntArray:
        """Return the number of neighbours of each cell: shape `(n_cells,)`.

        Args:
            n_cells: The number of cells.
        """
        return np.bincount(self.pairs.ravel(), minlength=n_cells).astype(np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class LazyNeighbours(Neighbours):
    """Neighbours whose `walls` are found when they are first asked for.

    Attributes:
        find_walls: Returns them.
    """

    find_walls: Callable[[], tuple[tuple[Wall, ...], ...]] = field(kw_only=True)

    def __post_init__(self) -> None:
        # An attribute that is not there is asked of `__getattr__`.
        object.__delattr__(self, "walls")

    def __getattr__(self, name: str) -> Any:
        if name != "walls":
            raise AttributeError(name)
        object.__setattr__(self, "walls", self.find_walls())
        return self.walls

    def __reduce__(self) -> tuple[Any, ...]:
        # What finds them is not to be written down; they are.
        return Neighbours, (self.pairs, self.walls)


@dataclass(frozen=True, eq=False)
class Facet:
    """A facet of a cell that lies inside the domain.

    Attributes:
        cell: The index of the cell.
        row: Its primitive row, positive in the cell.
        walls: The walls on its hyperplane, seen from the cell.
        others: The rows of the other facets of the cell.
        points: The vertices on it as integers `(t v, t)`.
        rays: The extreme rays along it.
        lineality: A basis of the lines in it.
    """

    cell: int
    row: Vector
    walls: tuple[Wall, ...]
    others: tuple[Vector, ...]
    points: tuple[Vector, ...]
    rays: tuple[Vector, ...]
    lineality: tuple[Vector, ...]

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def generators(self) -> tuple[frozenset[Vector], frozenset[Vector], tuple[Vector, ...]]:
        """What determines the facet as a set."""
        return frozenset(self.points), frozenset(self.rays), self.lineality

    @cached_property
    def extent(self) -> FloatArray:
        """Per coordinate the least and greatest value, rounded monotonically: `(2, dim)`."""
        dim = len(self.row) - 1
        if self.rays or self.lineality:
            return np.array([[-np.inf] * dim, [np.inf] * dim])
        corners = np.array([[_quotient(x, p[-1]) for x in p[:-1]] for p in self.points])
        return np.stack([corners.min(axis=0), corners.max(axis=0)])


def neighbouring_cells(cells: Iterable[tuple[int, CellRows]], dim: int) -> Neighbours:
    """Find all neighbours among some cells of one partition.

    Args:
        cells: Their indices and inequalities.
        dim: The dimension of the domain.
    """
    sides: dict[Vector, tuple[list[Facet], list[Facet]]] = defaultdict(lambda: ([], []))
    for index, rows in cells:
        for facet in cell_facets(index, rows, dim):
            opposite = tuple(-x for x in facet.row)
            sides[max(facet.row, opposite)][facet.row < opposite].append(facet)
    found: dict[tuple[int, int], dict[Wall, None]] = {}
    for row, (above, below) in sides.items():
        for one, other in _touching(row, above, below):
            pair = min(one.cell, other.cell), max(one.cell, other.cell)
            found.setdefault(pair, {}).update(dict.fromkeys(one.walls + other.walls))
    pairs = sorted(found)
    return Neighbours(
        np.array(pairs, dtype=np.int64).reshape(len(pairs), 2),
        tuple(tuple(sorted(found[pair])) for pair in pairs),
    )


def cell_facets(index: int, rows: CellRows, dim: int) -> list[Facet]:
    """List the facets of a cell that are walls, not those on the boundary of the domain."""
    polytope = cell_polytope(rows, dim)
    generators, facets = polytope.generators, polytope.facets
    vectors = list(rows.walls)
    own = [vectors[i] for i in facets.rows.tolist()]
    result = []
    for k, row in enumerate(own):
        walls = tuple(rows.walls[row])
        # Beyond the boundary there is no cell, whatever walls lie on it.
        if any(layer < 0 for layer, _ in walls):
            continue
        result.append(
            Facet(
                index,
                row,
                walls,
                tuple(other for m, other in enumerate(own) if m != k),
                tuple(generators.points[v] for v in np.flatnonzero(facets.vertices[k])),
                tuple(generators.rays[v] for v in np.flatnonzero(facets.rays[k])),
                generators.lineality,
            )
        )
    return result


def cell_polytope(rows: CellRows, dim: int) -> Polytope:
    """Return the closure of a cell, with one inequality for each of its rows in their order."""
    return Polytope.from_rows([(*(-x for x in row[:-1]), row[-1]) for row in rows.walls], dim)


def facets_overlap(row: Vector, others: Sequence[Vector]) -> bool:
    """Decide whether open facets in the hyperplane of `row` have a point in common.

    Args:
        row: The row of the facets, whatever its sign.
        others: The rows that are positive on one of them, together.
    """
    height = (*(0,) * (len(row) - 1), 1)
    basis = null_space([row], len(row))
    vectors = [*others, height]
    inside = [tuple(dot(vector, b) for b in basis) for vector in vectors]
    return decide_open_cone(wide_rows(inside, len(basis))).is_open


def _touching(
    row: Vector, above: Sequence[Facet], below: Sequence[Facet]
) -> list[tuple[Facet, Facet]]:
    by_generators = {facet.generators: facet for facet in below}
    found, alone, matched = [], [], set()
    for facet in above:
        same = by_generators.get(facet.generators)
        if same is None:
            alone.append(facet)
        else:
            found.append((facet, same))
            matched.add(same.cell)
    left = [facet for facet in below if facet.cell not in matched]
    if not alone or not left:
        return found
    extents = np.stack([facet.extent for facet in left])
    for facet in alone:
        low, high = facet.extent
        # Rounding is monotone, so extents that are apart as floats are apart.
        close = (extents[:, 0] <= high).all(axis=1) & (extents[:, 1] >= low).all(axis=1)
        found += [
            (facet, left[k])
            for k in np.flatnonzero(close).tolist()
            if facets_overlap(row, facet.others + left[k].others)
        ]
    return found


def _quotient(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator
    except OverflowError:
        return float("inf") if numerator > 0 else float("-inf")
