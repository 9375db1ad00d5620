"""Order-k power diagrams: the partitions of top-k attention and of expert routing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from hardmax._ground.arguments import Sizes, integer
from hardmax._ground.display import html_card, pluralize
from hardmax.errors import ArgumentError, DtypeError
from hardmax.exact.dyadic import (
    ScaledIntegers,
    homogeneous_points,
    nearest_floats,
    round_scaled_integers,
)
from hardmax.exact.integer_vectors import Vector, wide_rows
from hardmax.geometry.polytopes import Polytope
from hardmax.geometry.space_envelopes import DIMENSIONS
from hardmax.tropical.diagrams.order_k_hulls import order_k_hull
from hardmax.tropical.diagrams.order_k_search import (
    CompetingForms,
    TopSet,
    Witness,
    refine,
    walk_walls,
)
from hardmax.tropical.diagrams.planar_order_k import PlanarOrderK, planar_order_k
from hardmax.tropical.diagrams.power_cells import wall
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.tropical.diagrams.power_forms import BLOCK, difference_rank, rounded_scores
from hardmax.typing import ArrayLike, FloatArray, IntArray, WideArray

_LOW_RANK = 3
"""Up to this rank, the walk from cell to cell is the faster search."""


@dataclass(frozen=True, eq=False, repr=False)
class OrderKDiagram:
    r"""The sets of $k$ sites that win together on an open set, and their cells.

    With the forms $f_j$ of a power diagram, the cell of a set $S$ of $k$ sites is

    $$P_S = \{x : f_i(x) \ge f_j(x) \text{ for all } i \in S,\ j \notin S\}.$$

    The cells with interior points cover the space. They are the routing cells of top-$k$ attention,
    and of a mixture of experts with a linear router. For $k = 1$ they are the cells of the power
    diagram. Without biases they form the normal fan of
    $\mathrm{conv}\{\sum_{j \in S} s_j : |S| = k\}$.

    Sites with the same form tie everywhere; among these, sites with smaller indices win first, as
    in a stable sort. Masked sites never win.

    Attributes:
        diagram: The power diagram (of order 1) that defines the forms.
        k: The number of sites that win, from 1 to the number of sites that are not masked.
        sets: The sets of winners, shape `(n_cells, k)`. Each row is ascending, and the rows are
            sorted.

    References:
        [Lee82]; [Aur90] for the polytope of sums.

    Examples:
        >>> pairs = order_k_diagram(PowerDiagram.from_keys([[1], [0], [-1]]), 2)
        >>> pairs.n_cells, pairs.sets.tolist(), pairs.winners([[3.0]]).tolist()
        (2, [[0, 1], [1, 2]], [[0, 1]])
    """

    diagram: PowerDiagram
    k: int
    sets: IntArray
    _walls: Callable[[int], Sequence[Vector]]
    """Returns the inequalities of a cell; some may be redundant."""
    _witnesses: Sequence[Witness] | None
    """An interior point of each cell, if known."""

    _repr_html_ = html_card

    def __repr__(self) -> str:
        return (
            f"OrderKDiagram(k = {self.k} of {pluralize(self.diagram.n_sites, 'site')} in "
            f"R^{self.diagram.dim}, {pluralize(self.n_cells, 'cell')})"
        )

    @property
    def n_cells(self) -> int:
        """The number of cells, that is, of sets of k sites that win on an open set."""
        return int(self.sets.shape[0])

    @cached_property
    def exact_witnesses(self) -> WideArray:
        """An interior point of each cell as fractions, shape `(n_cells, dim)`."""
        known = self._witnesses
        if known is None:
            known = [self.cell(i).interior_point.tolist() for i in range(self.n_cells)]
        return wide_rows(known, self.diagram.dim)

    @property
    def witnesses(self) -> FloatArray:
        """An interior point of each cell, rounded, shape `(n_cells, dim)`."""
        return nearest_floats(self.exact_witnesses)

    def cell(self, index: int) -> Polytope:
        """Return the cell of the set `sets[index]` as an exact polyhedron."""
        index = integer("index", index, at_least=0, at_most=self.n_cells - 1)
        return Polytope.from_rows(self._walls(index), self.diagram.dim)

    def winners(self, points: ArrayLike) -> IntArray:
        """Return the k sites that win at each row of `points`, exactly, shape `(n_points, k)`.

        Each row is ascending. Sites that tie win in the order of their indices. Hence on a wall,
        the result can be the set of an adjacent cell or a set that has no cell.
        """
        return top_k(self.diagram, self.k, points)


def order_k_diagram(diagram: PowerDiagram, k: int) -> OrderKDiagram:
    r"""Find the sets of k sites that win on an open set, exactly.

    Args:
        diagram: The power diagram that defines the forms, such as `PowerDiagram(sites, weights)` or
            `PowerDiagram.from_keys(keys, bias)`.
        k: The number of sites that win.

    Raises:
        ArgumentError: If `k` is not between 1 and the number of sites that are not masked.
        DtypeError: If `diagram` is not a `PowerDiagram`.

    Examples:
        For keys at the corners of a square, opposite corners never win together:

        >>> square = PowerDiagram.from_keys([[1, 1], [-1, 1], [-1, -1], [1, -1]])
        >>> order_k_diagram(square, 2).sets.tolist()
        [[0, 1], [0, 3], [1, 2], [2, 3]]

        The second copy of a repeated key wins wherever the first copy is the best key:

        >>> order_k_diagram(PowerDiagram.from_keys([[1], [1], [-1]]), 2).sets.tolist()
        [[0, 1], [0, 2]]
    """
    if not isinstance(diagram, PowerDiagram):
        raise DtypeError(f"`diagram` must be a PowerDiagram; got {type(diagram).__name__}.")
    k = _check_order(diagram, k)
    rows = diagram.coefficients.integers[diagram.live]
    forms = [tuple(row) for row in rows.tolist()]
    groups = list(dict.fromkeys(forms))
    counts = Counter(forms)
    contest = CompetingForms(groups, [counts[form] for form in groups], k)
    members: dict[Vector, list[int]] = {}
    for site, form in zip(diagram.live.tolist(), forms, strict=True):
        members.setdefault(form, []).append(site)
    named_groups = [members[form] for form in groups]
    rank = difference_rank(rows)
    if diagram.dim == rank == 2 and k < len(forms):
        return _planar_diagram(diagram, contest, named_groups)
    if diagram.dim == rank in DIMENSIONS and k < len(forms) == len(groups):
        found = order_k_hull(rows, k)
        return OrderKDiagram(diagram, k, diagram.live[found.sets], found.walls, None)
    search = walk_walls if rank <= _LOW_RANK else refine
    named = sorted(
        (_list_winning_sites(top, contest, named_groups), top, witness, walls)
        for top, (witness, walls) in search(contest, diagram.dim).items()
    )
    rows_of = [contest.walls(top) if walls is None else walls for _, top, _, walls in named]
    return OrderKDiagram(
        diagram,
        k,
        np.array([sites for sites, _, _, _ in named], dtype=np.int64),
        rows_of.__getitem__,
        [witness for _, _, witness, _ in named],
    )


def _planar_diagram(
    diagram: PowerDiagram, contest: CompetingForms, named_groups: Sequence[list[int]]
) -> OrderKDiagram:
    found = planar_order_k(contest.forms, contest.multiplicity, contest.k)
    n_groups = len(contest.forms)
    if len(diagram.live) == n_groups:  # All forms differ, so every group is one site.
        sets = np.sort(np.array(named_groups, dtype=np.int64)[found.sets[:, :-1], 0], axis=1)
    else:
        tops = [
            TopSet(frozenset(g for g in whole if g < n_groups), part if part < n_groups else -1)
            for *whole, part in found.sets.tolist()
        ]
        sets = np.array(
            [_list_winning_sites(top, contest, named_groups) for top in tops], dtype=np.int64
        )
    order = np.lexsort(sets.T[::-1])
    return OrderKDiagram(
        diagram, contest.k, sets[order], partial(_list_wall_rows, contest.forms, found, order), None
    )


def _list_wall_rows(
    forms: Sequence[Vector], found: PlanarOrderK, order: IntArray, index: int
) -> list[Vector]:
    cell = order[index]
    pairs = found.walls[found.first_wall[cell] : found.first_wall[cell + 1]]
    return [wall(forms[i], forms[j]) for i, j in pairs.tolist()]


def top_k(diagram: PowerDiagram, k: int, points: ArrayLike) -> IntArray:
    """Return the k sites that win at each row of `points`, exactly.

    Sites that tie win in the order of their indices.

    Args:
        diagram: The power diagram that defines the forms.
        k: The number of sites that win.
        points: The points, shape `(n_points, dim)`.

    Returns:
        The indices of the sites, ascending in each row, shape `(n_points, k)`.

    Examples:
        >>> top_k(PowerDiagram.from_keys([[1], [0], [-1], [2]]), 2, [[3.0], [0.0]]).tolist()
        [[0, 3], [0, 1]]
    """
    k = _check_order(diagram, k)
    array = Sizes(dim=diagram.dim).floats("points", points, ("n_points", "dim"), nonempty=())
    live, exact = diagram.live, diagram.coefficients
    integers = exact.integers[live]
    rows, _ = round_scaled_integers(ScaledIntegers(integers, exact.exponent))
    result = np.tile(np.arange(k), (len(array), 1))
    step = max(1, BLOCK // len(rows))
    for start in range(0, len(array) if k < len(live) else 0, step):
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            scores, radius = rounded_scores(rows, array[start : start + step])
            order = np.argpartition(-scores, (k - 1, k), axis=1)[:, : k + 1]
            last_in, first_out = np.take_along_axis(scores, order[:, k - 1 :], axis=1).T
            clear = last_in - first_out > 2 * radius
        result[start : start + step] = order[:, :k]
        for row in start + np.flatnonzero(~clear):
            result[row] = _sort_exactly(integers, array[row])[:k]
    return np.sort(live[result], axis=1)


def _sort_exactly(integers: WideArray, point: FloatArray) -> list[int]:
    """Sort forms by their exact value at a point in descending order, then by index."""
    scores = (integers @ homogeneous_points(point[None])[0]).tolist()
    return sorted(range(len(scores)), key=lambda j: (-scores[j], j))


def _check_order(diagram: PowerDiagram, k: int) -> int:
    k = integer("k", k, at_least=1)
    if k > len(diagram.live):
        raise ArgumentError(
            f"`k` must be at most {len(diagram.live)}, the number of sites that are not masked; "
            f"got {k}."
        )
    return k


def _list_winning_sites(
    top: TopSet, contest: CompetingForms, named_groups: Sequence[list[int]]
) -> list[int]:
    """Return the winning sites; of a group that wins only in part, the first sites."""
    sites = [site for g in top.whole for site in named_groups[g]]
    if top.part >= 0:
        sites += named_groups[top.part][: contest.k - len(sites)]
    return sorted(sites)
