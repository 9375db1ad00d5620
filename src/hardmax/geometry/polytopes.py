r"""Convex polyhedra $\{x : A x \le b\}$, bounded or not, with exact vertices, faces and volume."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax._ground.arguments import Sizes
from hardmax._ground.display import format_card, html_card, short_repr
from hardmax.errors import ArgumentError, DtypeError, EmptyInputError, ShapeMismatchError
from hardmax.exact.dyadic import nearest_float, scaled_integers
from hardmax.exact.integer_vectors import Vector, primitive, rounded_directions, wide_rows
from hardmax.exact.rounding import FEW_UNDERFLOWS, UNIT_ROUNDOFF
from hardmax.geometry import face_lattices
from hardmax.geometry.descriptions import (
    Generators,
    describe_hull,
    generators_of_inequalities,
    inequality_rows,
    round_points,
)
from hardmax.geometry.domain_protocol import Domain, FullDimensional, check_domain
from hardmax.typing import ArrayLike, BoolArray, FloatArray, IntArray, WideArray


@dataclass(frozen=True, eq=False)
class Facets:
    """The facets of a polyhedron.

    Attributes:
        rows: For each facet, the index of the first inequality that defines it, shape
            `(n_facets,)`.
        vertices: Whether a vertex lies on a facet, shape `(n_facets, n_vertices)`.
        rays: Whether an extreme ray is a direction of a facet, shape `(n_facets, n_rays)`.

    Examples:
        >>> triangle = Polytope([[-1, 0], [0, -1], [1, 1], [2, 2]], [0, 0, 1, 2])
        >>> triangle.facets.rows.tolist(), triangle.facets.vertices.sum(axis=1).tolist()
        ([0, 1, 2], [2, 2, 2])
    """

    rows: IntArray
    vertices: BoolArray
    rays: BoolArray

    __repr__ = short_repr
    _repr_html_ = html_card


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Polytope(FullDimensional):
    r"""The convex polyhedron $P = \{x \in \mathbb{R}^d : A x \le b\}$.

    The polyhedron may be unbounded, empty or flat. The float64 entries of $A$ and $b$ are taken as
    exact dyadic rationals, and all results are exact for them: the vertices are rational points
    (`exact_vertices`; `vertices` has them correctly rounded to float64), the faces are found
    combinatorially, and the volume is a fraction. The vertices are computed on first use, by double
    description, and then kept. Their number can be exponential in $d$.

    Args:
        A: The matrix $A$, shape `(n_rows, dim)`. Without rows, the polyhedron is the whole space.
        b: The vector $b$, shape `(n_rows,)`.

    Attributes:
        rows: The inequalities $\langle a, x\rangle \le b$ as integers $(a, b)$, shape
            `(n_rows, dim + 1)`. The entries of each row have no common divisor.

    Raises:
        ShapeMismatchError: If the shapes disagree.
        NonFiniteError: If an entry is NaN or infinite.

    Examples:
        >>> triangle = Polytope([[-1, 0], [0, -1], [1, 3]], [0, 0, 1])
        >>> triangle.polygon.tolist()
        [[0.0, 0.0], [1.0, 0.0], [0.0, 0.3333333333333333]]
        >>> triangle.volume, triangle.f_vector
        (Fraction(1, 6), (3, 3))

        A half-plane has no vertex, so `vertices` holds one point of its boundary line. The affine
        hull of an empty polyhedron has dimension -1.

        >>> half_plane = Polytope([[1, 0]], [2])
        >>> half_plane.vertices.tolist(), half_plane.rays.tolist(), half_plane.lineality.tolist()
        ([[2.0, 0.0]], [[-1.0, 0.0]], [[0.0, 1.0]])
        >>> empty = Polytope([[1], [-1]], [0, -1])
        >>> empty.dim, empty.affine_dim
        (1, -1)
    """

    rows: WideArray

    def __init__(self, A: ArrayLike, b: ArrayLike) -> None:
        sizes = Sizes()
        matrix = sizes.floats("A", A, ("n_rows", "dim"), nonempty=("dim",))
        bounds = sizes.floats("b", b, ("n_rows",), nonempty=())
        self._set_rows(inequality_rows(matrix, bounds), matrix.shape[1])

    @classmethod
    def from_rows(
        cls, rows: Sequence[Vector], dim: int, generators: Generators | None = None
    ) -> Polytope:
        r"""Build a polyhedron from inequalities with integers of any size.

        Args:
            rows: The inequalities $\langle a, x\rangle \le b$ as tuples $(a, b)$ of `dim + 1`
                Python integers.
            dim: The dimension $d$ of the space.
            generators: The vertices and rays, if they are already known.
        """
        polytope = cls.__new__(cls)
        polytope._set_rows([primitive(row) for row in rows], dim)
        if generators is not None:
            polytope.__dict__["generators"] = generators
        return polytope

    @classmethod
    def from_points(cls, points: ArrayLike) -> Polytope:
        r"""Return the convex hull of points, which may be repeated or lie in a hyperplane.

        Args:
            points: The points, shape `(n_points, dim)` with `n_points >= 1` and `dim >= 1`.

        Examples:
            >>> Polytope.from_points([[0, 0], [2, 2], [1, 1]]).vertices.tolist()
            [[2.0, 2.0], [0.0, 0.0]]
        """
        scaled = scaled_integers(Sizes().floats("points", points, ("n_points", "dim")))
        numerators = scaled.integers << max(scaled.exponent, 0)
        return cls.from_scaled_points(
            [tuple(row) for row in numerators.tolist()], 1 << max(-scaled.exponent, 0)
        )

    @classmethod
    def from_scaled_points(cls, points: Sequence[Vector], denominator: int = 1) -> Polytope:
        """Return the convex hull of the rational points `points[i] / denominator`."""
        if not points:
            raise EmptyInputError("`points` must have n_points >= 1; got none.")
        rows, generators = describe_hull(points, denominator)
        return cls.from_rows(rows, len(points[0]), generators)

    def __repr__(self) -> str:
        return f"Polytope({self.rows.shape[0]} inequalities in R^{self.ambient_dim})"

    def _repr_html_(self) -> str:
        A, b = self.inequalities
        return format_card(repr(self), {"A": A, "b": b, "vertices": self.__dict__.get("vertices")})

    @property
    def dim(self) -> int:
        """The dimension $d$ of the space, also if the polyhedron is flat (see `affine_dim`)."""
        return int(self.rows.shape[1]) - 1

    @property
    def exact_rows(self) -> WideArray:
        """The inequalities as integers: `rows`."""
        return self.rows

    @cached_property
    def inequalities(self) -> tuple[FloatArray, FloatArray]:
        """The pair `(A, b)`, with rows scaled by powers of two and rounded. `rows` is exact."""
        floats = rounded_directions([tuple(row) for row in self.rows.tolist()], self.rows.shape[1])
        return floats[:, :-1], floats[:, -1]

    @cached_property
    def generators(self) -> Generators:
        """The vertices, rays and lines as exact integers."""
        rows = [tuple(row) for row in self.rows.tolist()]
        return generators_of_inequalities(rows, self.ambient_dim)

    @cached_property
    def exact_vertices(self) -> WideArray:
        """The vertices as fractions, shape `(n_vertices, dim)`."""
        rational = [[Fraction(x, p[-1]) for x in p[:-1]] for p in self.generators.points]
        return wide_rows(rational, self.ambient_dim)

    @cached_property
    def vertices(self) -> FloatArray:
        """The vertices, with each coordinate correctly rounded, shape `(n_vertices, dim)`.

        A polyhedron that contains a line has no vertices; the rows are then one point of each
        minimal face.
        """
        return round_points(self.generators.points, self.ambient_dim)

    @cached_property
    def rays(self) -> FloatArray:
        """The extreme rays, scaled to largest entry 1 or -1 and rounded: shape `(n_rays, dim)`."""
        return _scale_to_unit_entries(self.generators.rays, self.ambient_dim)

    @cached_property
    def exact_rays(self) -> WideArray:
        """The extreme rays as integers, shape `(n_rays, dim)`."""
        return wide_rows(self.generators.rays, self.ambient_dim)

    @cached_property
    def lineality(self) -> FloatArray:
        """A basis of the lineality space, rounded: shape `(n_lines, dim)`."""
        return _scale_to_unit_entries(self.generators.lineality, self.ambient_dim)

    @cached_property
    def exact_lineality(self) -> WideArray:
        """A basis of the lineality space as integers, shape `(n_lines, dim)`."""
        return wide_rows(self.generators.lineality, self.ambient_dim)

    @property
    def is_empty(self) -> bool:
        """Whether no point satisfies all inequalities."""
        return not self.generators.points

    @property
    def is_bounded(self) -> bool:
        """Whether the polyhedron is bounded. The empty set is bounded."""
        return not (self.generators.rays or self.generators.lineality)

    @cached_property
    def affine_dim(self) -> int:
        """The dimension of the affine hull, or -1 for the empty set."""
        generators = self.generators
        return face_lattices.rank(generators.homogeneous) + len(generators.lineality) - 1

    @cached_property
    def facets(self) -> Facets:
        """The facets, each with the first inequality that defines it."""
        generators = self.generators
        n_points = len(generators.points)
        found = face_lattices.facet_members(generators.homogeneous, generators.tight, n_points)
        incidence = np.zeros((len(found), len(generators.tight)), dtype=np.bool_)
        for k, (_, members) in enumerate(found):
            incidence[k, members] = True
        rows = np.array([row for row, _ in found], dtype=np.int64)
        return Facets(rows, incidence[:, :n_points], incidence[:, n_points:])

    @cached_property
    def f_vector(self) -> tuple[int, ...]:
        r"""The numbers $(f_0, \dots, f_{\dim P - 1})$ of faces of each dimension below $\dim P$.

        Unbounded faces are counted too.

        Examples:
            >>> cube = Polytope(np.concatenate([np.eye(3), -np.eye(3)]), np.ones(6))
            >>> cube.f_vector
            (8, 12, 6)
        """
        return face_lattices.face_numbers(self._lattice, self.affine_dim)

    @property
    def is_simplicial(self) -> bool:
        """Whether the polyhedron is bounded and every facet is a simplex.

        Examples:
            >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
            >>> Polytope.from_points(square).is_simplicial
            True
            >>> cube = np.c_[np.r_[square, square], [0] * 4 + [1] * 4]
            >>> Polytope.from_points(cube).is_simplicial
            False
        """
        corners = self.facets.vertices.sum(axis=1)
        return self.is_bounded and bool((corners == self.affine_dim).all())

    @cached_property
    def volume(self) -> Fraction | float:
        r"""The exact $d$-dimensional volume: 0 if flat or empty, otherwise `inf` if unbounded."""
        if self.affine_dim < self.dim:
            return Fraction(0)
        if not self.is_bounded:
            return math.inf
        return face_lattices.simplex_volumes(self._lattice, self.generators.points, self.dim)

    @property
    def volume_float(self) -> float:
        """The volume, rounded to float64; `inf` also if the volume exceeds the float64 range."""
        return nearest_float(self.volume)

    @cached_property
    def interior_point(self) -> WideArray:
        """A point of the relative interior as fractions, shape `(dim,)`.

        Raises:
            ArgumentError: If the polyhedron is empty.
        """
        if self.is_empty:
            raise ArgumentError("an empty polyhedron has no interior point.")
        mean = self.exact_vertices.sum(axis=0) / Fraction(len(self.generators.points))
        return np.asarray(mean + self.exact_rays.sum(axis=0), dtype=object)

    @cached_property
    def polygon_order(self) -> IntArray:
        """The indices of the vertices in counter-clockwise order, for a bounded set in the plane.

        Raises:
            ArgumentError: If the polyhedron is unbounded or not in the plane.
        """
        if self.ambient_dim != 2 or not self.is_bounded:
            kind = "a bounded" if self.is_bounded else "an unbounded"
            raise ArgumentError(
                f"a polygon requires a bounded polyhedron in R^2; got {kind} one in "
                f"R^{self.ambient_dim}. To bound a polyhedron, intersect it with a `Box`."
            )
        points = self.exact_vertices.tolist()
        order = sorted(range(len(points)), key=points.__getitem__)
        first, last = (points[order[0]], points[order[-1]]) if order else ((0, 0), (0, 0))
        below: list[int] = []
        above: list[int] = []
        for k in order:
            x, y = points[k]
            side = (last[0] - first[0]) * (y - first[1]) - (last[1] - first[1]) * (x - first[0])
            (above if side > 0 else below).append(k)
        return np.array(below + above[::-1], dtype=np.int64)

    @property
    def polygon(self) -> FloatArray:
        """The vertices of a bounded set in the plane, counter-clockwise: `(n_vertices, 2)`."""
        return self.vertices[self.polygon_order]

    def contains(self, points: ArrayLike) -> BoolArray:
        """Decide exactly which rows of `points` satisfy all inequalities, shape `(n_points,)`."""
        array = Sizes(dim=self.ambient_dim).floats(
            "points", points, ("n_points", "dim"), nonempty=()
        )
        A, b = self.inequalities
        dim = self.ambient_dim
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            slack = b - array @ A.T
            size = np.abs(array) @ np.abs(A).T + np.abs(b)
            # Rounded coefficients and a dot product of dim + 1 terms, as in `double_description`.
            # Coefficients below the normal range add an absolute error times the point.
            bound = (dim + 6) * UNIT_ROUNDOFF * size
            bound += FEW_UNDERFLOWS * (np.abs(array).sum(axis=1, keepdims=True) + dim + 1)
            outside = np.asarray((slack < -bound).any(axis=1))
            inside = np.asarray((slack > bound).all(axis=1))
        for k in np.flatnonzero(~inside & ~outside).tolist():
            scaled = scaled_integers(np.append(array[k], 1.0)).integers
            inside[k] = bool(
                (self.rows[:, -1] * scaled[-1] >= self.rows[:, :-1] @ scaled[:-1]).all()
            )
        return inside

    def intersection(self, domain: Domain | str) -> Polytope:
        """Return the exact intersection with a full-dimensional domain, or its text.

        Raises:
            DtypeError: If `domain` is not full-dimensional.
            ShapeMismatchError: If the dimensions of the ambient spaces differ.

        Examples:
            >>> from hardmax import Box
            >>> Polytope([[1, 1]], [0]).intersection(Box([-1, -1], [1, 1])).volume
            Fraction(2, 1)
        """
        own = [tuple(row) for row in self.rows.tolist()]
        return Polytope.from_rows(own + domain_rows(domain, self.ambient_dim), self.ambient_dim)

    @cached_property
    def _lattice(self) -> face_lattices.FaceLattice:
        incidence = np.concatenate([self.facets.vertices, self.facets.rays], axis=1)
        return face_lattices.face_lattice(incidence, len(self.generators.points))

    def _set_rows(self, rows: Sequence[Vector], dim: int) -> None:
        packed = wide_rows(rows, dim + 1)
        packed.setflags(write=False)
        object.__setattr__(self, "rows", packed)


def domain_rows(domain: Domain | str, dim: int) -> list[Vector]:
    """Return the exact inequalities `(a, b)` of a full-dimensional domain in `dim` dimensions.

    Raises:
        DtypeError: If `domain` is not full-dimensional, such as a `Slice`.
        ShapeMismatchError: If its dimension is not `dim`.
    """
    from hardmax.geometry.domain_text import read_domain  # It imports this module.

    given = read_domain(domain)
    found = check_domain(given)
    if found.chart is not None:
        raise DtypeError(
            "`domain` must be full-dimensional, without coordinates of its own, like "
            f"a Box or a Polytope; got {type(given).__name__}."
        )
    if found.dim != dim:
        raise ShapeMismatchError(f"`domain` must lie in R^{dim}; got one in R^{found.dim}.")
    return [primitive(row) for row in found.exact_rows.tolist()]


def _scale_to_unit_entries(vectors: Sequence[Vector], dim: int) -> FloatArray:
    rounded = [[x / max(map(abs, v)) for x in v] for v in vectors]
    return np.array(rounded, dtype=np.float64).reshape(len(vectors), dim)
