r"""The common refinement of max-affine partitions: cells on which every group has one winner.

Each group of affine forms divides $\mathbb{R}^d$ into the cells of a power diagram, one for each
form that wins on an open set. The common refinement has a cell for each tuple of winners that
occurs on an open set. In homogeneous coordinates $x \mapsto (x, 1)$, forms are points $(a_j, c_j)$
and cells are cones. The search is therefore that for the vertices of a Minkowski sum, restricted to
directions with a positive last coordinate.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._ground.arguments import Sizes, read_only_copy
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
        choices: For each cell, the index of the winning form in each group, shape
            `(count, n_groups)`. Of coinciding forms, the first is listed.
        witnesses: An interior point of each cell, shape `(count, dim)`. If a cell is too thin for
            float64, this is the rounded point of `exact_witnesses` and may lie outside.
        decisions: The numbers of decisions made in floating point (with a proven bound) and in
            exact integers.

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
        """The number of cells."""
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
    r"""Find all cells of the common refinement of groups, on $\mathbb{R}^d$ or in a polyhedron.

    The cell of the winners $(j_1, \dots, j_G)$ is the open set

    $$\{x : \langle a_{g,j_g}, x \rangle + c_{g,j_g} > \langle a_{g,k}, x \rangle + c_{g,k}
      \text{ for all } g \text{ and all forms } k \text{ of group } g
      \text{ other than } j_g\},$$

    where forms that coincide with $j_g$ do not count as others. The result is exact for the given
    numbers.

    Args:
        groups: At least one group of forms, all with the same `dim`.
        inequalities: A pair `(A, b)` with shapes `(n_rows, dim)` and `(n_rows,)` that restricts the
            cells to the open polyhedron $A x < b$; there are no cells if it is empty. By default,
            the cells divide the whole space.
        start: The first stage of each decision: `"filtered"` tries floats with a proven bound
            first; `"rational"` uses exact integers throughout, which is slow and gives the same
            result.

    Raises:
        EmptyInputError: If there is no group.
        ShapeMismatchError: If the dimensions of the groups differ.
        DtypeError: If a group is not `AffineForms`.
        SizeLimitError: If the table of pairs of neighbouring forms would be too large.

    References:
        [MRZ22] for the number of cells, [Aur87] for the diagram of one group.

    Examples:
        Two groups with one wall each, one of them given twice:

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
    forms = _read_groups(groups)
    dim = forms[0].dim
    lifted = [np.column_stack([group.slopes, group.offsets]) for group in forms]
    base = np.concatenate([np.eye(1, dim + 1, dim), _to_open_rows(inequalities, dim)])
    winners = joint_winners(lifted, base, "common refinement", start)
    witnesses, exact = _compute_witnesses(winners, dim)
    choices = winners.choices.copy()
    choices.setflags(write=False)
    return CommonRefinement(
        tuple(forms), choices, read_only_copy(witnesses), winners.decisions, exact, winners
    )


def refinement_neighbours(refinement: CommonRefinement) -> IntArray:
    r"""Find the pairs of cells that share a face of dimension $d - 1$.

    The cells of continuous maxima meet face to face. Hence two cells are adjacent exactly if, on a
    set of dimension $d - 1$, the inequalities between them hold with equality and all other
    inequalities of both are strict. If walls of several groups coincide, several winners change at
    once.

    Returns:
        The pairs `i < j` of cell indices, sorted, shape `(n_pairs, 2)`.

    Examples:
        Two groups with the same wall yield two cells:

        >>> group = AffineForms([[0.0], [1.0]], [0.0, -1.0])
        >>> double = AffineForms([[0.0], [2.0]], [0.0, -2.0])
        >>> refinement_neighbours(common_refinement([group, double])).tolist()
        [[0, 1]]
    """
    return neighbouring_tuples(refinement._winners)


def _read_groups(groups: Any) -> list[AffineForms]:
    """Read and check the groups; an error names the wrong one."""
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


def _to_open_rows(inequalities: tuple[ArrayLike, ArrayLike] | None, dim: int) -> FloatArray:
    """Write `A x < b` as rows `(-A, b)` whose products with `(x, 1)` are positive."""
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


def _compute_witnesses(winners: JointWinners, dim: int) -> tuple[FloatArray, dict[int, WideArray]]:
    """Divide by the last coordinate; keep fractions if the rounded point leaves the cell."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        points = winners.directions[:, :dim] / winners.directions[:, dim:]
    # If the quotient exceeds float64, use any point; it is replaced below.
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
