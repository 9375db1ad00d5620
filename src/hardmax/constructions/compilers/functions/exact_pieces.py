r"""A piecewise linear function on a convex set, cell by cell, in exact rationals.

The difference of the forms on two adjacent cells is a multiple of the form of the hyperplane
between them if and only if the function is continuous there; the multiple is called the *kink*. A
continuous function on a convex set is convex if and only if no kink is negative; it is then the
maximum of its pieces.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from flint import fmpq, fmpz_mat

from hardmax._ground.display import html_card, short_repr
from hardmax.exact.dyadic import nearest_floats
from hardmax.exact.integer_vectors import Vector
from hardmax.typing import BoolArray, FloatArray, WideArray


class SharedFacet(NamedTuple):
    r"""A part of a hyperplane between two cells.

    Attributes:
        one: The cell on the positive side.
        other: The cell on the negative side.
        row: The primitive integers $(n, t)$ of the hyperplane $\langle n, x\rangle + t = 0$.

    Examples:
        >>> SharedFacet(0, 1, (1, 0, -2))
        SharedFacet(one=0, other=1, row=(1, 0, -2))
    """

    one: int
    other: int
    row: Vector

    def __repr__(self) -> str:
        return short_repr(self)


@dataclass(frozen=True, eq=False)
class ExactPieces:
    r"""The affine pieces of a function and the facets between them.

    Attributes:
        forms: The form $(a, c)$ on each cell for each output, as flint rationals; shape
            `(n_cells, dim_out, dim + 1)`.
        facets: The parts of hyperplanes between cells.
        corners: For each cell, its vertices as integers that are positive multiples of $(x, 1)$,
            shape `(n_corners, dim + 1)`.
        rows: For each cell, integer rows that are positive in its interior.

    Examples:
        >>> from hardmax.constructions import Mesh
        >>> pieces = Mesh([[0.0], [1.0], [2.0]], [[0, 1], [1, 2]], [0.0, 1.0, 0.0]).pieces
        >>> pieces.n_cells, pieces.dim, pieces.dim_out, len(pieces.facets)
        (2, 1, 1, 1)
    """

    forms: WideArray
    facets: tuple[SharedFacet, ...]
    corners: Sequence[WideArray]
    rows: Sequence[Sequence[Vector]]

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def dim(self) -> int:
        """The dimension of the space."""
        return int(self.forms.shape[2]) - 1

    @property
    def dim_out(self) -> int:
        """The number of outputs."""
        return int(self.forms.shape[1])

    @property
    def n_cells(self) -> int:
        """The number of cells; neighbouring cells with the same form count separately."""
        return int(self.forms.shape[0])

    def corner_points(self, cell: int) -> FloatArray:
        """Return the vertices of a cell, rounded: shape `(n_corners, dim)`."""
        corners = self.corners[cell]
        exact = [[fmpq(x, row[-1]) for x in row[:-1]] for row in corners.tolist()]
        return nearest_floats(np.array(exact, dtype=object).reshape(len(exact), self.dim))

    @cached_property
    def places(self) -> FloatArray:
        """The vertex of each cell that is closest to its centre, rounded: `(n_cells, dim)`."""
        result = np.empty((self.n_cells, self.dim))
        for i in range(self.n_cells):
            points = self.corner_points(i)
            with np.errstate(over="ignore"):
                away = np.abs(points - points.mean(axis=0)).max(axis=1)
            result[i] = points[int(away.argmin())]
        return result

    def kinks(self, forms: WideArray | None = None) -> WideArray:
        r"""Return the kinks $\kappa$ with $\ell_{one} - \ell_{other} = \kappa\,(n, t)$ at facets.

        Args:
            forms: The forms of another continuous function on the same cells. By default, the forms
                of this function.

        Returns:
            The kinks as flint rationals, shape `(n_facets, n_outputs)`.
        """
        given = self.forms if forms is None else forms
        result = np.empty((len(self.facets), given.shape[1]), dtype=object)
        for k, (one, other, row) in enumerate(self.facets):
            entry = next(i for i, x in enumerate(row) if x)
            result[k] = (given[one, :, entry] - given[other, :, entry]) / row[entry]
        return result

    def continuous(self) -> BoolArray:
        """Decide exactly, for each facet and output, whether the function is continuous there.

        Returns:
            A boolean array of shape `(n_facets, dim_out)`.
        """
        kinks = self.kinks()
        result = np.empty(kinks.shape, dtype=np.bool_)
        for k, (one, other, row) in enumerate(self.facets):
            step = self.forms[one] - self.forms[other]
            result[k] = (step == kinks[k][:, None] * np.array(row, dtype=object)).all(axis=1)
        return result


def interpolating_forms(points: WideArray, values: WideArray) -> WideArray:
    r"""Return the forms with given values at the vertices of a simplex.

    Args:
        points: The vertices as integers proportional to $(x, 1)$, shape `(dim + 1, dim + 1)`.
        values: The values as rationals, shape `(dim + 1, dim_out)`.

    Returns:
        The forms as flint rationals, shape `(dim_out, dim + 1)`.
    """
    n, dim_out = len(points), values.shape[1]
    inverse = fmpz_mat(n, n, points.ravel().tolist()).inv()
    weights = np.array(inverse.entries(), dtype=object).reshape(n, n) * points[:, -1]
    return np.asarray((weights @ values).T, dtype=object).reshape(dim_out, n)


def exact_values_at(form: WideArray, point: WideArray) -> list[fmpq]:
    """Evaluate the forms of one cell at a rational point: `(dim_out,)`."""
    values: list[fmpq] = (form[:, :-1] @ point + form[:, -1]).tolist()
    return values


def describe(point: Sequence[fmpq] | WideArray) -> str:
    """Format a rational point with floats, for a message."""
    numbers = [float(x) for x in nearest_floats(np.array(list(point), dtype=object))]
    return f"({', '.join(map(repr, numbers))})"


def describe_values(values: Sequence[fmpq | float]) -> str:
    """Format one value as a float, or several values as a list of floats."""
    numbers = [float(x) for x in nearest_floats(np.array(list(values), dtype=object))]
    return repr(numbers[0]) if len(numbers) == 1 else repr(numbers)
