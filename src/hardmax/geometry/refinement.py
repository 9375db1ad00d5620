r"""The common refinement of max-affine partitions: cells where every group has one winner.

Each group of affine forms cuts $\mathbb{R}^d$ into the cells of a power diagram, one for each form
that wins somewhere. The common refinement has a cell for every tuple of winners that occurs on an
open set. Homogenised, $x \mapsto (x, 1)$, forms are points $(a_j, c_j)$ and cells are cones, so the
search is that of Minkowski sums, restricted to directions with a positive last coordinate.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._ground.arguments import Sizes, owned
from hardmax._ground.display import html_card, short_repr
from hardmax.errors import DtypeError, EmptyInputError, ShapeMismatchError
from hardmax.exact.decisions import Decisions, Stage
from hardmax.exact.dyadic import nearest_floats, rationals, scaled_integers
from hardmax.exact.forms import AffineForms
from hardmax.geometry._joint_argmax.cell_adjacency import neighbouring_tuples
from hardmax.geometry._joint_argmax.joint_argmax import JointWinners, joint_winners
from hardmax.typing import ArrayLike, FloatArray, IntArray, WideArray


@dataclass(frozen=True, eq=False)
class CommonRefinement:
    r"""The full-dimensional cells of a common refinement, in lexicographic order of their winners.

    Attributes:
        groups: The groups of forms.
        choices: Which form of each group wins in the cell, shape `(count, n_groups)`; of
            coinciding forms the first.
        witnesses: A point of each cell, shape `(count, dim)`. A cell can be too thin for float64;
            then this is the rounding of the point in `exact_witnesses`.
        decisions: How many decisions floating point took with a proven bound, and how many were
            taken in exact integers.

    Examples:
        >>> group = AffineForms([[0.0], [1.0]], [0.0, 0.0])
        >>> cells = common_refinement([group, AffineForms([[0.0], [1.0]], [0.0, -1.0])])
        >>> cells.count, cells.choices.tolist()
        (3, [[0, 0], [1, 0], [1, 1]])
    """

    groups: tuple[AffineForms, ...]
    choices: IntArray
    witnesses: FloatArray
    decisions: Decisions
    _exact: dict[int, WideArray]
    _winners: JointWinners

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def count(self) -> int:
        """How many cells there are."""
        return int(self.choices.shape[0])

    @property
    def dim(self) -> int:
        """The dimension of the space."""
        return int(self.witnesses.shape[1])

    @cached_property
    def exact_witnesses(self) -> WideArray:
        """An interior point of each cell as fractions, shape `(count, dim)`."""
        exact = rationals(self.witnesses)
        for place, point in self._exact.items():
            exact[place] = point
        return exact


def common_refinement(
    groups: Iterable[AffineForms],
    inequalities: tuple[ArrayLike, ArrayLike] | None = None,
    start: Stage = "filtered",
) -> CommonRefinement:
    r"""Find all cells of "in each group the largest form wins" on $\mathbb{R}^d$ or a polyhedron.

    The cell of $(j_1, \dots, j_G)$ is the open set

    $$\{x : \langle a_{g,j_g}, x \rangle + c_{g,j_g} > \langle a_{g,k}, x \rangle + c_{g,k}
      \text{ for all } g \text{ and all forms } k \text{ of group } g
      \text{ other than } j_g\},$$

    where forms that coincide with $j_g$ do not count as others. Exact for the numbers given.

    Args:
        groups: At least one group of forms, all of the same `dim`.
        inequalities: `(A, b)` with shapes `(n_rows, dim)` and `(n_rows,)`: only cells that meet the
            open polyhedron $A x < b$ are listed, cut by it. If it is empty there are none.
        start: Where a decision starts: `"filtered"`, or `"rational"` for exact integers
            throughout, which is slow and gives the same answer.

    Raises:
        EmptyInputError: If there is no group.
        ShapeMismatchError: If the dimensions differ.
        DtypeError: If a group is not `AffineForms`.
        SizeLimitError: If the forms have too many pairs of neighbours for a table.

    References:
        [MRZ22] for the number of cells, [Aur87] for the diagram of one group.

    Examples:
        Two kinks on a line, and one of them twice:

        >>> left = AffineForms([[0.0], [1.0]], [0.0, 1.0])
        >>> right = AffineForms([[0.0], [2.0], [0.0]], [0.0, -2.0, 0.0])
        >>> cells = common_refinement([left, right, right])
        >>> cells.choices.tolist()
        [[0, 0, 0], [1, 0, 0], [1, 1, 1]]
        >>> refinement_neighbours(cells).tolist()
        [[0, 1], [1, 2]]

        Inside a box:

        >>> common_refinement([left, right], ([[1.0], [-1.0]], [0.0, 5.0])).choices.tolist()
        [[0, 0], [1, 0]]
    """
    forms = _read(groups)
    dim = forms[0].dim
    lifted = [np.column_stack([group.slopes, group.offsets]) for group in forms]
    base = np.concatenate([np.eye(1, dim + 1, dim), _open_rows(inequalities, dim)])
    winners = joint_winners(lifted, base, "common refinement", start)
    witnesses, exact = _witnesses(winners, dim)
    choices = winners.choices.copy()
    choices.setflags(write=False)
    return CommonRefinement(
        tuple(forms), choices, owned(witnesses), winners.decisions, exact, winners
    )


def refinement_neighbours(refinement: CommonRefinement) -> IntArray:
    r"""Find the pairs of cells that share a face of dimension $d - 1$.

    The cells of continuous maxima meet face to face, so a pair is adjacent exactly if the walls
    between them hold at equality on a set of dimension $d - 1$ where all other inequalities of both
    are strict. Walls of several groups can coincide: then several winners change at once.

    Returns:
        Shape `(n_pairs, 2)`: positions of cells, `i < j`, sorted.

    Examples:
        The two groups have the same wall, which leaves two cells:

        >>> group = AffineForms([[0.0], [1.0]], [0.0, -1.0])
        >>> double = AffineForms([[0.0], [2.0]], [0.0, -2.0])
        >>> refinement_neighbours(common_refinement([group, double])).tolist()
        [[0, 1]]
    """
    return neighbouring_tuples(refinement._winners)


def _read(groups: Any) -> list[AffineForms]:
    """Read the groups, naming the one that is wrong."""
    try:
        listed = list(groups)
    except TypeError:
        raise DtypeError(
            f"`groups` must be a sequence of AffineForms; got {type(groups).__name__}."
        ) from None
    if not listed:
        raise EmptyInputError("`groups` must hold at least one group of forms; got none.")
    for g, group in enumerate(listed):
        if not isinstance(group, AffineForms):
            raise DtypeError(f"`groups[{g}]` must be AffineForms; got {type(group).__name__}.")
        if group.dim != listed[0].dim:
            raise ShapeMismatchError(
                f"`groups[{g}]` must have dim = {listed[0].dim} (as in `groups[0]`); "
                f"got dim = {group.dim}."
            )
    return listed


def _open_rows(inequalities: tuple[ArrayLike, ArrayLike] | None, dim: int) -> FloatArray:
    """Write `A x < b` as rows `(-A, b)` that are positive on `(x, 1)`."""
    if inequalities is None:
        return np.zeros((0, dim + 1))
    try:
        matrix, bounds = inequalities
    except (TypeError, ValueError):
        raise ShapeMismatchError("`inequalities` must be a pair (A, b).") from None
    sizes = Sizes(dim=dim)
    slopes = sizes.floats("A", matrix, ("n_rows", "dim"), nonempty=())
    offsets = sizes.floats("b", bounds, ("n_rows",), nonempty=())
    return np.column_stack([-slopes, offsets])


def _witnesses(winners: JointWinners, dim: int) -> tuple[FloatArray, dict[int, WideArray]]:
    """Divide by the last coordinate, and keep fractions where the rounding leaves the cell."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        points = winners.directions[:, :dim] / winners.directions[:, dim:]
    # Where the division leaves float64 any point will do: it is replaced below.
    points[~np.isfinite(points).all(axis=1)] = 0.0
    inside = winners.selected_by(np.column_stack([points, np.ones(points.shape[0])]))
    exact: dict[int, WideArray] = {}
    for place in np.flatnonzero(~inside).tolist():
        wide = winners.exact.get(place)
        if wide is None:
            wide = scaled_integers(winners.directions[place]).integers
        last = int(wide[dim])
        fractions = np.empty(dim, dtype=object)
        fractions[:] = [Fraction(int(x), last) for x in wide[:dim]]
        exact[place] = fractions
        points[place] = nearest_floats(fractions)
    return points, exact
