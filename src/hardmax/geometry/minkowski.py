r"""Vertices of a Minkowski sum: the routing cells of a bias-free multi-head layer.

A layer with $H$ heads whose scores are $\langle x, a_{h,j} \rangle$ routes $x$ by the winners of
all heads at once. The tuples of winners that occur on open sets are exactly the vertices of
$P_1 + \dots + P_H$ with $P_h = \operatorname{conv}\{a_{h,j}\}$, each written once as a sum.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import Any

import numpy as np

from hardmax._ground.arguments import Sizes, owned
from hardmax._ground.display import html_card
from hardmax.errors import DtypeError, EmptyInputError
from hardmax.exact.decisions import Decisions, Stage
from hardmax.exact.dyadic import nearest_float, rationals, scaled_integers
from hardmax.geometry._joint_argmax.cell_adjacency import neighbouring_tuples
from hardmax.geometry._joint_argmax.joint_argmax import JointWinners, joint_winners
from hardmax.typing import ArrayLike, FloatArray, IntArray, WideArray


@dataclass(frozen=True, eq=False)
class MinkowskiVertices:
    r"""The vertices of $P_1 + \dots + P_H$, in lexicographic order of their choices.

    Attributes:
        point_sets: The point sets, one array of shape `(n_points, dim)` for each head.
        choices: Which point of each set the vertex is the sum of, shape `(count, n_sets)`; of equal
            points the first.
        points: The vertices, shape `(count, dim)`: each the exact sum, rounded once.
        directions: A direction selecting each vertex, shape `(count, dim)`. A cone can be too thin
            for float64; then the direction is a rounded one, and `exact_directions` has a true one.
        decisions: How many decisions floating point took with a proven bound, and how many were
            taken in exact integers.

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
        """How many vertices the sum has."""
        return int(self.choices.shape[0])

    @property
    def dim(self) -> int:
        """The dimension of the space."""
        return int(self.points.shape[1])

    @cached_property
    def exact_directions(self) -> WideArray:
        """Directions as Python integers, shape `(count, dim)`: each selects its vertex, exactly."""
        exact = np.empty(self.directions.shape, dtype=object)
        for i, direction in enumerate(self.directions):
            wide = self._winners.exact.get(i)
            exact[i] = scaled_integers(direction).integers if wide is None else wide
        return exact

    @cached_property
    def edges(self) -> IntArray:
        """The pairs of vertices joined by an edge, shape `(n_edges, 2)`, sorted."""
        return neighbouring_tuples(self._winners)


def minkowski_vertices(
    point_sets: Iterable[ArrayLike], start: Stage = "filtered"
) -> MinkowskiVertices:
    r"""Find the vertices of the Minkowski sum of the convex hulls of some point sets.

    A tuple $(i_1, \dots, i_H)$ is a vertex if a direction $u$ selects it alone:

    $$\langle u, p_{h,i_h} \rangle > \langle u, p_{h,j} \rangle
      \quad\text{for all } h \text{ and all } p_{h,j} \ne p_{h,i_h}.$$

    The answer is exact for the float64 numbers given: it holds for repeated points, flat and
    parallel polytopes, and single points, where a convex-hull code fails. The sets are taken one
    after another and only tuples that can be completed are kept, so the cost grows with the number
    of vertices; the $\prod_h N_h$ sums are never formed.

    Args:
        point_sets: At least one set; each an array of shape `(n_points, dim)` with at least one
            point, all of the same `dim`. The sizes may differ.
        start: Where a decision starts: `"filtered"`, or `"rational"` for exact integers
            throughout, which is slow and gives the same answer.

    Raises:
        EmptyInputError: If there is no set, or a set without points.
        ShapeMismatchError: If a set is not a matrix, or the dimensions differ.
        NonFiniteError: If a coordinate is NaN or infinite.
        DtypeError: If the coordinates are not real numbers.
        SizeLimitError: If the hulls have too many vertices for a table of their differences.

    References:
        [Fuk04] for sums as fans, [Wei12] for the number of vertices.

    Examples:
        >>> square = minkowski_vertices([[[0, 0], [1, 0]], [[0, 0], [0, 1], [0, 1]]])
        >>> square.points.tolist()
        [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
        >>> square.choices.tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]

        Parallel segments add up to one segment, with two vertices.

        >>> parallel = minkowski_vertices([[[0, 0], [1, 2]], [[0, 0], [3, 6]], [[5, 5]]])
        >>> parallel.count, parallel.points.tolist()
        (2, [[5.0, 5.0], [9.0, 13.0]])
    """
    sets = read_point_sets(point_sets)
    winners = joint_winners(sets, np.zeros((0, sets[0].shape[1])), "Minkowski sum", start)
    directions = winners.directions
    if not directions.any(axis=1).all():
        # A single point is selected by every direction; zero is not one.
        directions = np.eye(1, sets[0].shape[1])
    points = _sums([head[own] for head, own in zip(sets, winners.choices.T, strict=True)])
    choices = winners.choices.copy()
    choices.setflags(write=False)
    return MinkowskiVertices(
        tuple(sets),
        choices,
        owned(points),
        owned(directions),
        winners.decisions,
        winners,
    )


def read_point_sets(point_sets: Any) -> list[FloatArray]:
    """Read the point sets, naming the one that is wrong."""
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
        owned(sizes.floats(f"point_sets[{h}]", points, (f"n_points_{h}", "dim")))
        for h, points in enumerate(listed)
    ]


def _sums(terms: list[FloatArray]) -> FloatArray:
    """Add arrays of the same shape so that every entry is the exact sum, rounded once."""
    total = terms[0].copy()
    is_exact = np.ones(total.shape, np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        for term in terms[1:]:
            # The error of a floating-point sum, itself exact [Knu97, section 4.2.2].
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
