r"""The tuples of winners that occur together: the search for Minkowski sums and refinements.

Heads $h = 1, \dots, H$ have points $p_{h,1}, p_{h,2}, \dots$ in $\mathbb{R}^d$. A direction $u$
selects in every head the point with the largest $\langle u, p_{h,i} \rangle$. The tuples that are
selected on open sets of directions are the vertices of the Minkowski sum, and the full-dimensional
cones of the common refinement of the normal fans. The search proceeds head by head. Every tuple for
the first heads extends to a tuple for all heads, so the number of visited nodes is at most $H$
times the number of results, and the $\prod_h N_h$ sums are never formed.

Every tuple found comes with a direction that selects it. For every rejected tuple, there is a proof
that no direction selects it, in floating point with a proven bound or in exact integers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax._ground.progress import Progress
from hardmax.exact.decisions import Decisions, Stage, starting_stage
from hardmax.exact.dyadic import scaled_integers
from hardmax.geometry._joint_argmax.head_coordinates import is_multiple, round_direction
from hardmax.geometry._joint_argmax.vertex_graphs import VertexGraphs, vertex_graphs
from hardmax.geometry._joint_argmax.winner_search import WinnerSearch, integer_direction
from hardmax.geometry.extreme_points import certify_extreme_points
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray


@dataclass(frozen=True, eq=False)
class JointWinners:
    """The tuples of winners, in lexicographic order.

    Attributes:
        points: For each head, its points.
        base: The rows that have positive products with all directions, shape `(n_base, dim)`.
        choices: For each tuple, the index of the winner in each head, shape `(count, n_heads)`.
        directions: For each tuple, a direction that selects it, shape `(count, dim)`. For the
            tuples in `exact`, the direction is rounded and may not select the tuple.
        exact: For each tuple without a known float64 direction, by position, a direction of Python
            integers, shape `(dim,)`.
        decisions: The numbers of decisions by method.
    """

    points: tuple[FloatArray, ...]
    base: FloatArray
    choices: IntArray
    directions: FloatArray
    exact: dict[int, WideArray]
    decisions: Decisions
    _graphs: VertexGraphs | None

    @cached_property
    def graphs(self) -> VertexGraphs:
        """The vertices of each head, and the rows between them."""
        return vertex_graphs(self.points, self.base) if self._graphs is None else self._graphs

    @cached_property
    def leaves(self) -> IntArray:
        """The tuples as vertices of `graphs`, shape `(count, n_heads)`."""
        return self.graphs.leaves(self.choices)

    @cached_property
    def _exact_vertices(self) -> list[tuple[IntArray, WideArray]]:
        """For each head, the indices of its vertices and the vertices as Python integers."""
        names = self.graphs.vertices_by_head()
        return [
            (own, scaled_integers(head[own]).integers)
            for own, head in zip(names, self.points, strict=True)
        ]

    def selected_by(self, directions: FloatArray) -> BoolArray:
        """Decide for every tuple whether the direction in its row selects it.

        Args:
            directions: The exact directions, shape `(count, dim)`.
        """
        scaled, usable = self.graphs.coordinates.from_original(directions)
        result, _ = self.graphs.fan.check(self.leaves, scaled)
        result &= usable
        for place in np.flatnonzero(~result).tolist():
            result[place] = self._is_selected(place, integer_direction(directions[place]))
        return result

    def _is_selected(self, place: int, direction: WideArray) -> bool:
        """Decide in integers whether a direction selects a tuple."""
        if not (scaled_integers(self.base).integers @ direction > 0).all():
            return False
        for (names, points), winner in zip(
            self._exact_vertices, self.choices[place].tolist(), strict=True
        ):
            scores = points @ direction
            best = int(np.searchsorted(names, winner))
            if not (scores[best] > np.delete(scores, best)).all():
                return False
        return True


def joint_winners(
    points: Sequence[FloatArray],
    base: FloatArray,
    description: str,
    start: Stage = "filtered",
) -> JointWinners:
    """Find all tuples of winners that occur on an open set of directions.

    Args:
        points: For each head, its finite float64 points, shape `(n_points, dim)`.
        base: Rows that must have positive products with every direction, shape `(n_base, dim)`. If
            no direction satisfies this, there are no tuples.
        description: The label of the progress bar.
        start: The first stage of each decision. Unless it is `"filtered"`, all decisions are made
            in exact integers.

    Raises:
        SizeLimitError: If the table of pairs of neighbouring vertices would be too large.
    """
    is_exact_only = starting_stage(start) > 0
    moving = [h for h, head in enumerate(points) if (head != head[0]).any()]
    if len(moving) <= 1 and base.shape[0] == 0:
        return _list_single_head(points, base, moving[0] if moving else 0)
    search = WinnerSearch(vertex_graphs(points, base, is_exact_only), is_exact_only)
    progress: Progress[None] = Progress((), None, description)
    with progress:
        search.complete(progress)
    return _sort_tuples(tuple(points), base, search)


def _sort_tuples(
    points: tuple[FloatArray, ...], base: FloatArray, search: WinnerSearch
) -> JointWinners:
    """Sort the tuples, and convert indices and directions back to the original points."""
    graphs, coordinates = search.graphs, search.graphs.coordinates
    leaves, directions, exact = search.tuples()
    choices = graphs.choices(leaves)
    order = np.lexsort(choices.T[::-1])
    fresh = np.ones(order.size, np.bool_)
    fresh[1:] = (choices[order[1:]] != choices[order[:-1]]).any(axis=1)
    order = order[fresh]
    original, rounded = coordinates.original_floats(directions[order])
    wide: dict[int, WideArray] = {}
    for place in np.flatnonzero(rounded | np.isin(order, list(exact))).tolist():
        leaf = int(order[place])
        direction = exact.get(leaf, integer_direction(directions[leaf]))
        wide[place] = coordinates.original_integers(direction)
        original[place] = round_direction(wide[place])
    decisions = Decisions(
        filtered=search.n_float_rejections + order.size - len(wide),
        rational=search.n_rational + len(wide),
    )
    result = JointWinners(points, base, choices[order], original, {}, decisions, graphs)
    for place, direction in wide.items():
        if not result._is_selected(place, integer_direction(original[place])):
            result.exact[place] = direction
    return result


def _list_single_head(points: Sequence[FloatArray], base: FloatArray, head: int) -> JointWinners:
    """List the vertices of one head when all other heads have a single distinct point."""
    proofs = certify_extreme_points(points[head])
    vertices = np.flatnonzero(proofs.is_extreme)
    choices = np.zeros((vertices.size, len(points)), np.int64)
    choices[:, head] = vertices
    directions = np.zeros((vertices.size, base.shape[1]))
    wide: dict[int, WideArray] = {}
    for place, direction in enumerate(proofs.directions):
        directions[place] = round_direction(direction)
        if not is_multiple(integer_direction(directions[place]), direction):
            wide[place] = direction
    decisions = Decisions(rational=points[head].shape[0])
    return JointWinners(tuple(points), base, choices, directions, wide, decisions, None)
