r"""The two descriptions of a polyhedron, by inequalities and by generators, and how to change.

Both directions are one double description. From inequalities: the cone over $(x, t)$ with
$b t - A x \ge 0$ and $t \ge 0$: its rays are the vertices ($t > 0$) and directions at infinity
($t = 0$). From points: the cone of all inequalities that hold at every point, whose rays are the
facets. Integers only; `polytopes` wraps the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.exact.dyadic import nearest_quotient, scaled_integers
from hardmax.exact.integer_vectors import Vector, primitive
from hardmax.geometry.double_description import (
    SparseGenerators,
    face_has_dimension,
    sparse_cone_generators,
)
from hardmax.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Generators:
    r"""A polyhedron as $\mathrm{conv}(V) + \mathrm{cone}(R) + \mathrm{lin}(L)$.

    Attributes:
        points: The $V$ as integers $(t v, t)$ with $t > 0$, one per vertex (with lineality: one
            per minimal face).
        rays: The $R$, integer directions.
        lineality: The $L$, integer directions.
        tight: For each point, then for each ray, the inequalities it satisfies with equality.
            Of inequalities that are multiples of each other only the first is listed.

    Examples:
        >>> quadrant = generators_of_inequalities([(1, 0, 0), (0, 1, 0)], 2)
        >>> quadrant.points, quadrant.rays, quadrant.lineality
        (((0, 0, 1),), ((0, -1), (-1, 0)), ())
    """

    points: tuple[Vector, ...]
    rays: tuple[Vector, ...]
    lineality: tuple[Vector, ...]
    tight: tuple[frozenset[int], ...]

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def homogeneous(self) -> tuple[Vector, ...]:
        """The points $(t v, t)$ and then the rays $(r, 0)$."""
        return self.points + tuple((*ray, 0) for ray in self.rays)


def inequality_rows(A: FloatArray, b: FloatArray) -> list[Vector]:
    """Write float64 inequalities `A @ x <= b` as primitive integer rows `(a, b)`, exactly."""
    integers = scaled_integers(np.column_stack([A, b])).integers
    return [primitive(row) for row in integers.tolist()]


def generators_of_inequalities(rows: Sequence[Vector], dim: int) -> Generators:
    r"""Find the generators of $\{x : \langle a, x\rangle \le b\}$ for integer rows $(a, b)$."""
    # The face at infinity comes first, so that it names the rows 0 <= b it equals.
    cone_rows = [(0,) * dim + (1,)]
    cone_rows += [(*negative(row[:-1]), row[-1]) for row in rows]
    cone = sparse_cone_generators(cone_rows, dim + 1, mostly_redundant=True)
    return generators_of_slice(cone)


def generators_of_slice(cone: SparseGenerators) -> Generators:
    r"""Read a polyhedron off the cone over it, at height $t = 1$ of the last coordinate.

    Args:
        cone: The generators of the cone; its row 0 is $t \ge 0$, row $i + 1$ inequality $i$.
    """
    proper = [k for k, ray in enumerate(cone.rays) if ray[-1] > 0]
    if not proper:
        return Generators((), (), (), ())
    infinite = [k for k, ray in enumerate(cone.rays) if ray[-1] == 0]
    return Generators(
        tuple(cone.rays[k] for k in proper),
        tuple(cone.rays[k][:-1] for k in infinite),
        tuple(line[:-1] for line in cone.lineality),
        tuple(frozenset(i - 1 for i in cone.tight[k] if i) for k in proper + infinite),
    )


def describe_hull(points: Sequence[Vector], denominator: int) -> tuple[list[Vector], Generators]:
    """Find the inequalities and the vertices of the convex hull of points.

    Args:
        points: At least one integer vector; the point is the vector over `denominator`.
        denominator: A positive integer.

    Returns:
        The facets, then each equation of a flat hull as two inequalities; and the vertices.
    """
    dim = len(points[0])
    # The inequality (a, b) holds at p iff b - <a, p> >= 0. An equation of the hull is a line in
    # this cone; a ray that vanishes on no point is the inequality 0 <= 1.
    lifted = [(*negative(point), denominator) for point in points]
    cone = sparse_cone_generators(lifted, dim + 1)
    facets = [(ray, on) for ray, on in zip(cone.rays, cone.tight, strict=True) if on]
    equations = [side for line in cone.lineality for side in (line, negative(line))]
    on_all = frozenset(range(len(facets), len(facets) + len(equations)))
    through: dict[int, list[int]] = {}
    for k, (_, on) in enumerate(facets):
        for i in on:
            through.setdefault(i, []).append(k)
    if not facets:
        through[0] = []
    # A point is a vertex iff it is a facet of the cone of inequalities.
    corners = [
        (primitive((*points[i], denominator)), frozenset(on) | on_all)
        for i, on in through.items()
        if face_has_dimension([facets[k][0] for k in on], dim - len(cone.lineality))
    ]
    corners.sort(key=lambda corner: corner[0], reverse=True)
    generators = Generators(
        tuple(point for point, _ in corners), (), (), tuple(tight for _, tight in corners)
    )
    return [ray for ray, _ in facets] + equations, generators


def rounded_points(points: Sequence[Vector], dim: int) -> FloatArray:
    """Round points $(t x, t)$, $t > 0$, correctly to float64: shape `(n_points, dim)`."""
    rounded = [[nearest_quotient(x, point[-1]) for x in point[:-1]] for point in points]
    return np.array(rounded, dtype=np.float64).reshape(len(points), dim)


def negative(vector: Sequence[int]) -> Vector:
    """Return the opposite vector."""
    return tuple(-entry for entry in vector)
