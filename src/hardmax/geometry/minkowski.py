r"""Vertices of a Minkowski sum: the routing cells of a bias-free multi-head layer.

A layer with $H$ heads and scores $\langle x, a_{h,j} \rangle$ routes $x$ by the tuple of winners of
all heads. The tuples that occur on open sets correspond exactly to the vertices of
$P_1 + \dots + P_H$ with $P_h = \operatorname{conv}\{a_{h,j}\}$, because each vertex is a sum of
points in exactly one way.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import Any

import numpy as np

from hardmax._ground.arguments import Sizes, read_only_copy
from hardmax._ground.display import html_card
from hardmax.errors import DtypeError, EmptyInputError
from hardmax.exact.decisions import Decisions, Stage
from hardmax.exact.dyadic import nearest_float, rationals, scaled_integers
from hardmax.geometry._joint_argmax.cell_adjacency import neighbouring_tuples
from hardmax.geometry._joint_argmax.joint_argmax import JointWinners, joint_winners
from hardmax.typing import ArrayLike, FloatArray, IntArray, WideArray


@dataclass(frozen=True, eq=False)
class MinkowskiVertices:
    r"""The vertices of $P_1 + \dots + P_H$, in lexicographic order of `choices`.

    Attributes:
        point_sets: The point sets, one array of shape `(n_points, dim)` per set.
        choices: For each vertex, the indices of its summands, one per set: shape
            `(count, n_sets)`. Of equal points, the first is listed.
        points: The vertices, shape `(count, dim)`. Each coordinate is the exact sum, rounded once.
        directions: For each vertex, a direction that selects it, shape `(count, dim)`. If the cone
            of such directions is too thin for float64, the direction is rounded and may lie
            outside; `exact_directions` then holds the exact one.
        decisions: The numbers of decisions made in floating point (with a proven bound) and in
            exact integers.

    Examples:
        >>> sum_of_two = minkowski_vertices([[[0, 0], [1, 0]], [[0, 0], [0, 1]]])
        >>> sum_of_two.count, sum_of_two.points[-1].tolist(), sum_of_two.choices[-1].tolist()
        (4, [1.0, 1.0], [1, 1])
    """

    point_sets: tuple[FloatArray, ...]
    choices: IntArray
    points: FloatArray
    directions: FloatArray
    decisions: Decisions
    _winners: JointWinners

    _repr_html_ = html_card

    def __repr__(self) -> str:
        n_sets = len(self.point_sets)
        sets = f"{n_sets} point set{'s' * (n_sets != 1)} in R^{self.dim}"
        return f"MinkowskiVertices({self.count} of the sum of {sets})"

    @property
    def count(self) -> int:
        """The number of vertices of the sum."""
        return int(self.choices.shape[0])

    @property
    def dim(self) -> int:
        """The dimension of the space."""
        return int(self.points.shape[1])

    @cached_property
    def exact_directions(self) -> WideArray:
        """For each vertex, Python integers of a direction that selects it: `(count, dim)`."""
        exact = np.empty(self.directions.shape, dtype=object)
        for i, direction in enumerate(self.directions):
            wide = self._winners.exact.get(i)
            exact[i] = scaled_integers(direction).integers if wide is None else wide
        return exact

    @cached_property
    def edges(self) -> IntArray:
        """The pairs of vertices that are joined by an edge, sorted, shape `(n_edges, 2)`."""
        return neighbouring_tuples(self._winners)


def minkowski_vertices(
    point_sets: Iterable[ArrayLike], start: Stage = "filtered"
) -> MinkowskiVertices:
    r"""Find the vertices of the Minkowski sum of the convex hulls of point sets.

    The points $p_{1,i_1}, \dots, p_{H,i_H}$ add up to a vertex if a direction $u$ selects exactly
    these points:

    $$\langle u, p_{h,i_h} \rangle > \langle u, p_{h,j} \rangle
      \quad\text{for all } h \text{ and all } p_{h,j} \ne p_{h,i_h}.$$

    The result is exact for the given float64 numbers. Repeated points, flat or parallel polytopes
    and single points are allowed, although general convex-hull codes fail for them. The search adds
    one set at a time and keeps only tuples that extend to vertices, so the cost grows with the
    number of vertices. The $\prod_h N_h$ sums are never formed.

    Args:
        point_sets: At least one point set. Each is an array of shape `(n_points, dim)` with at
            least one point; `dim` must be the same for all sets, `n_points` need not be.
        start: The first stage of each decision: `"filtered"` tries floats with a proven bound
            first; `"rational"` uses exact integers throughout, which is slow and gives the same
            result.

    Raises:
        EmptyInputError: If there is no point set, or a set has no points.
        ShapeMismatchError: If a set is not a matrix, or the dimensions of the sets differ.
        NonFiniteError: If a coordinate is NaN or infinite.
        DtypeError: If the coordinates are not real numbers.
        SizeLimitError: If the table of differences between neighbouring vertices of the hulls
            would be too large.

    References:
        [Fuk04] for normal fans of sums, [Wei12] for the number of vertices.

    Examples:
        >>> square = minkowski_vertices([[[0, 0], [1, 0]], [[0, 0], [0, 1], [0, 1]]])
        >>> square.points.tolist()
        [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
        >>> square.choices.tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]

        Parallel segments add up to a segment, which has two vertices.

        >>> parallel = minkowski_vertices([[[0, 0], [1, 2]], [[0, 0], [3, 6]], [[5, 5]]])
        >>> parallel.count, parallel.points.tolist()
        (2, [[5.0, 5.0], [9.0, 13.0]])
    """
    sets = read_point_sets(point_sets)
    winners = joint_winners(sets, np.zeros((0, sets[0].shape[1])), "Minkowski sum", start)
    directions = winners.directions
    if not directions.any(axis=1).all():
        # Every nonzero direction selects a single point.
        directions = np.eye(1, sets[0].shape[1])
    points = _add_exactly([head[own] for head, own in zip(sets, winners.choices.T, strict=True)])
    choices = winners.choices.copy()
    choices.setflags(write=False)
    return MinkowskiVertices(
        tuple(sets),
        choices,
        read_only_copy(points),
        read_only_copy(directions),
        winners.decisions,
        winners,
    )


def read_point_sets(point_sets: Any) -> list[FloatArray]:
    """Read and check the point sets; an error names the wrong one."""
    try:
        listed = list(point_sets)
    except TypeError:
        raise DtypeError(
            f"`point_sets` must be a sequence of arrays; got {type(point_sets).__name__}."
        ) from None
    if not listed:
        raise EmptyInputError("`point_sets` must hold at least one point set; got none.")
    sizes = Sizes()
    return [
        read_only_copy(sizes.floats(f"point_sets[{h}]", points, (f"n_points_{h}", "dim")))
        for h, points in enumerate(listed)
    ]


def _add_exactly(terms: list[FloatArray]) -> FloatArray:
    """Add arrays of the same shape so that every entry is the exact sum, rounded once."""
    total = terms[0].copy()
    is_exact = np.ones(total.shape, np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        for term in terms[1:]:
            # The error of a floating-point sum, which is itself exact [Knu97, section 4.2.2].
            raised = total + term
            virtual = raised - total
            error = (total - (raised - virtual)) + (term - virtual)
            is_exact &= error == 0.0
            total = raised
    for place in zip(*np.nonzero(~is_exact), strict=True):
        entries = [float(term[place]) for term in terms]
        try:
            total[place] = fsum(entries)
        except OverflowError:
            exact = rationals(np.array(entries)).sum()
            total[place] = nearest_float(exact)
    return total
