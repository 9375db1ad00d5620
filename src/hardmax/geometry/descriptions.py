r"""Conversion between the two descriptions of a polyhedron: inequalities and generators.

Both conversions use the double description method once. From inequalities, it runs on the cone of
all $(x, t)$ with $b t - A x \ge 0$ and $t \ge 0$, whose rays are the vertices ($t > 0$) and the
directions at infinity ($t = 0$). From points, it runs on the cone of all inequalities that hold at
every point, whose rays are the facets. This module works with integers only; `polytopes` wraps the
result.
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
        points: The points $V$ as integers $(t v, t)$ with $t > 0$: one per vertex or, if there is
            a lineality space, one per minimal face.
        rays: The rays $R$ as integer directions.
        lineality: A basis $L$ of the lineality space, as integer directions.
        tight: For each point and then for each ray, the indices of the inequalities that it
            satisfies with equality. Of inequalities that are positive multiples of each other,
            only the first is listed.

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
        """The points $(t v, t)$, followed by the rays $(r, 0)$."""
        return self.points + tuple((*ray, 0) for ray in self.rays)


def inequality_rows(A: FloatArray, b: FloatArray) -> list[Vector]:
    """Write float64 inequalities `A @ x <= b` as primitive integer rows `(a, b)`, exactly."""
    integers = scaled_integers(np.column_stack([A, b])).integers
    return [primitive(row) for row in integers.tolist()]


def generators_of_inequalities(rows: Sequence[Vector], dim: int) -> Generators:
    r"""Find the generators of $\{x : \langle a, x\rangle \le b\}$ for integer rows $(a, b)$."""
    # The face at infinity comes first, so that rows 0 <= b, which equal it, are counted under it.
    cone_rows = [(0,) * dim + (1,)]
    cone_rows += [(*negate(row[:-1]), row[-1]) for row in rows]
    cone = sparse_cone_generators(cone_rows, dim + 1, mostly_redundant=True)
    return generators_of_slice(cone)


def generators_of_slice(cone: SparseGenerators) -> Generators:
    r"""Read a polyhedron off the cone over it, at height $t = 1$ of the last coordinate.

    Args:
        cone: The generators of the cone. Row 0 of the cone is $t \ge 0$ and row $i + 1$ is
            inequality $i$.
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
        points: At least one integer vector. Each point is its vector divided by `denominator`.
        denominator: A positive integer.

    Returns:
        The inequalities (one per facet, then two per equation of a flat hull) and the vertices.
    """
    dim = len(points[0])
    # The inequality (a, b) holds at p iff b - <a, p> >= 0. An equation of the hull is a line of
    # the cone of inequalities. A ray that vanishes at no point is the inequality 0 <= 1.
    lifted = [(*negate(point), denominator) for point in points]
    cone = sparse_cone_generators(lifted, dim + 1)
    facets = [(ray, on) for ray, on in zip(cone.rays, cone.tight, strict=True) if on]
    equations = [side for line in cone.lineality for side in (line, negate(line))]
    on_all = frozenset(range(len(facets), len(facets) + len(equations)))
    through: dict[int, list[int]] = {}
    for k, (_, on) in enumerate(facets):
        for i in on:
            through.setdefault(i, []).append(k)
    if not facets:
        through[0] = []
    # A point is a vertex iff it defines a facet of the cone of inequalities.
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


def round_points(points: Sequence[Vector], dim: int) -> FloatArray:
    """Round points $(t x, t)$, $t > 0$, correctly to float64: shape `(n_points, dim)`."""
    rounded = [[nearest_quotient(x, point[-1]) for x in point[:-1]] for point in points]
    return np.array(rounded, dtype=np.float64).reshape(len(points), dim)


def negate(vector: Sequence[int]) -> Vector:
    """Return the negated vector."""
    return tuple(-entry for entry in vector)
