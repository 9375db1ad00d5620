r"""Simplices, given by their vertices: the domain between affinely independent points."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import fmpz_mat

from hardmax._ground.arguments import Sizes, read_only_copy
from hardmax._ground.display import html_card, short_repr
from hardmax.errors import ArgumentError
from hardmax.exact.dyadic import (
    ScaledIntegers,
    homogeneous_points,
    round_scaled_integers,
    scaled_integers,
)
from hardmax.exact.integer_vectors import primitive, wide_rows
from hardmax.geometry.domain_protocol import Chart, CheckedDomain
from hardmax.typing import FloatArray, WideArray


@dataclass(frozen=True, eq=False)
class Simplex(CheckedDomain):
    r"""The simplex $\{\sum_i \lambda_i v_i : \lambda_i \ge 0, \sum_i \lambda_i = 1\}$.

    A simplex of the dimension of its space has the coordinates of the space. A lower-dimensional
    one, such as a triangle in space, has the weights of the vertices after the first as
    coordinates: $t_i = \lambda_i$ for $i \ge 1$.

    Attributes:
        vertices: The affinely independent points $v_0, \dots, v_{dim}$, shape
            `(dim + 1, ambient_dim)`.

    Raises:
        ArgumentError: If there is only one vertex, or if the vertices are affinely dependent.

    Examples:
        >>> triangle = Simplex([[0, 0, 1], [2, 0, 1], [0, 4, 1]])
        >>> triangle.dim, triangle.ambient_dim, triangle.points([[0.5, 0.25]]).tolist()
        (2, 3, [[1.0, 1.0, 1.0]])
        >>> Simplex([[0, 0], [2, 0], [0, 4]]).exact_rows.tolist()
        [[2, 1, 4], [-1, 0, 0], [0, -1, 0]]
        >>> Simplex([[0, 0], [1, 1], [2, 2]])
        Traceback (most recent call last):
            ...
        hardmax.errors.ArgumentError: `vertices` must be affinely independent; got 3 points in a
        common affine subspace of dimension 1.
    """

    vertices: FloatArray

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        vertices = Sizes().floats("vertices", self.vertices, ("dim + 1", "ambient_dim"))
        n, space = vertices.shape
        if not 2 <= n <= space + 1:
            raise ArgumentError(
                f"`vertices` must have from 2 to {space + 1} rows for a simplex in R^{space}; got "
                f"{n}. For the convex hull of any points, use `Polytope.from_points`."
            )
        span = _as_matrix(homogeneous_points(vertices)).rank() - 1
        if span < n - 1:
            raise ArgumentError(
                f"`vertices` must be affinely independent; got {n} points in a common affine "
                f"subspace of dimension {span}."
            )
        object.__setattr__(self, "vertices", read_only_copy(vertices))

    @property
    def dim(self) -> int:
        """The dimension of the simplex."""
        return len(self.vertices) - 1

    @property
    def ambient_dim(self) -> int:
        """The dimension of the ambient space."""
        return int(self.vertices.shape[1])

    @property
    def chart(self) -> Chart | None:
        """The edges from the first vertex, rounded, and this vertex; None if full-dimensional."""
        return None if self.dim == self.ambient_dim else self._edges[0]

    @property
    def exact_chart(self) -> tuple[Chart, Chart] | None:
        """The map to the weights of the vertices and their sum; None if `chart` is exact."""
        if self.dim == self.ambient_dim or self._edges[1]:
            return None
        weights = np.column_stack([np.full(self.dim, -1.0), np.eye(self.dim)])
        first = np.eye(1, self.dim + 1)[0]
        return (weights, first), (self.vertices, np.zeros(self.ambient_dim))

    @cached_property
    def exact_rows(self) -> WideArray:
        r"""The inequalities $\lambda_i \ge 0$ as integers, shape `(dim + 1, dim + 1)`."""
        n = len(self.vertices)
        if self.dim < self.ambient_dim:
            return weight_rows(self.dim)
        # The columns of the inverse are the weights as functions of (x, 1), up to positive factors.
        inverse, scale = _as_matrix(homogeneous_points(self.vertices)).inv().numer_denom()
        sign = -1 if scale < 0 else 1
        columns = [[sign * int(x) for x in column] for column in inverse.transpose().tolist()]
        return wide_rows([primitive([*(-x for x in c[:-1]), c[-1]]) for c in columns], n)

    def points(self, coordinates: FloatArray) -> FloatArray:
        """Map the rows of `coordinates` to points of the ambient space, rounded."""
        t = Sizes(dim=self.dim).floats("coordinates", coordinates, ("n_points", "dim"), nonempty=())
        if self.dim == self.ambient_dim:
            return t
        return np.asarray(
            (1.0 - t.sum(axis=1, keepdims=True)) * self.vertices[0] + t @ self.vertices[1:]
        )

    @cached_property
    def _edges(self) -> tuple[Chart, bool]:
        """The rounded chart, and whether it is exact."""
        scaled = scaled_integers(self.vertices)
        edges = ScaledIntegers(scaled.integers[1:] - scaled.integers[0], scaled.exponent)
        weight, is_exact = round_scaled_integers(edges)
        return (np.nan_to_num(weight), self.vertices[0]), is_exact


def weight_rows(dim: int) -> WideArray:
    r"""Return the inequalities $\sum_i t_i \le 1$ and $t_i \ge 0$, shape `(dim + 1, dim + 1)`.

    Examples:
        >>> weight_rows(2).tolist()
        [[1, 1, 1], [-1, 0, 0], [0, -1, 0]]
    """
    rows = -np.eye(dim + 1, dtype=np.int64)[[-1, *range(dim)]].astype(object)
    rows[0] = 1
    return np.asarray(rows)


def _as_matrix(integers: WideArray) -> fmpz_mat:
    return fmpz_mat(*integers.shape, integers.ravel().tolist())
