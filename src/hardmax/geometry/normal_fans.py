r"""Normal fans of polytopes and of Minkowski sums, with all their cones, exactly.

For each face of a polytope $P$, the normal fan has the cone of the directions whose maximum over
$P$ is attained on that face: a ray for each facet and a full-dimensional cone for each vertex. The
normal fan of a sum is the common refinement of the fans of the summands. Hence a fan keeps its
point sets, and the refinement of several fans is the fan of all their point sets.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from flint import fmpz_mat

from hardmax._ground.display import html_card, short_repr
from hardmax.errors import DtypeError, EmptyInputError
from hardmax.exact.dyadic import scaled_integers
from hardmax.exact.integer_vectors import (
    Vector,
    independent_rows,
    null_space,
    primitive,
    wide_rows,
)
from hardmax.geometry.double_description import sparse_cone_generators
from hardmax.geometry.face_lattices import FaceLattice, facet_members
from hardmax.geometry.minkowski import MinkowskiVertices, minkowski_vertices
from hardmax.typing import ArrayLike, IntArray, WideArray


@dataclass(frozen=True, eq=False)
class NormalFan:
    r"""The normal fan of $P = \operatorname{conv} P_1 + \dots + \operatorname{conv} P_H$.

    Attributes:
        vertices: The vertices of the sum, one per maximal cone.
        rays: The outer normals of the facets of $P$ as primitive Python integers, orthogonal to the
            lineality space and sorted, shape `(n_rays, dim)`.
        lineality: A basis of the directions that are constant on $P$, as primitive Python integers,
            shape `(n_lines, dim)`. Empty if $P$ is full-dimensional.
        maximal_cones: For each vertex, the sorted indices of the rays that span its cone together
            with the lineality space.

    Examples:
        >>> square = normal_fan([[[0, 0], [1, 0]], [[0, 0], [0, 1]]])
        >>> square.f_vector, square.rays.tolist()
        ((4, 4), [[-1, 0], [0, -1], [0, 1], [1, 0]])
    """

    vertices: MinkowskiVertices
    rays: WideArray
    lineality: WideArray
    maximal_cones: tuple[IntArray, ...]
    _lattices: tuple[FaceLattice, ...]

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def dim(self) -> int:
        """The dimension of the space of directions."""
        return self.vertices.dim

    @property
    def polytope_dim(self) -> int:
        """The dimension of $P$: `dim` minus the dimension of the lineality space."""
        return self.dim - int(self.lineality.shape[0])

    @cached_property
    def _cones(self) -> dict[int, set[frozenset[int]]]:
        """The cones as sets of rays, by dimension modulo lineality."""
        cones: dict[int, set[frozenset[int]]] = defaultdict(set)
        for rays, lattice in zip(self.maximal_cones, self._lattices, strict=True):
            names = rays.tolist()
            level = {lattice.top}
            for k in range(self.polytope_dim, 0, -1):
                cones[k] |= {
                    frozenset(name for b, name in enumerate(names) if face >> b & 1)
                    for face in level
                }
                level = {part for face in level for part in lattice.facets_of(face)}
        cones[0] = {frozenset()}
        return dict(cones)

    def cones(self, k: int) -> list[tuple[int, ...]]:
        r"""List the cones of dimension `k` modulo lineality as sorted tuples of ray indices.

        They correspond to the faces of $P$ of dimension `polytope_dim - k`.

        Examples:
            >>> square = normal_fan([[[0, 0], [1, 0], [0, 1], [1, 1]]])
            >>> square.rays.tolist()
            [[-1, 0], [0, -1], [0, 1], [1, 0]]
            >>> square.cones(2)
            [(0, 1), (0, 2), (1, 3), (2, 3)]
        """
        return sorted(tuple(sorted(cone)) for cone in self._cones.get(k, ()))

    @cached_property
    def f_vector(self) -> tuple[int, ...]:
        r"""The numbers $(f_0, \dots, f_{\dim P - 1})$ of faces of each dimension below $\dim P$.

        For a single point the tuple is empty.
        """
        return tuple(len(self._cones[k]) for k in range(self.polytope_dim, 0, -1))


def normal_fan(point_sets: Iterable[ArrayLike]) -> NormalFan:
    r"""Compute the normal fan of a polytope, or of a sum of polytopes, with all its cones.

    The result is exact, also for flat polytopes. The function is meant for small dimensions: the
    cost grows with the number of rays of the cones, and is a few milliseconds per vertex in
    dimension four.

    Args:
        point_sets: The point sets, as for `minkowski_vertices`. A single set yields the normal fan
            of its convex hull.

    References:
        [Zie95], [Fuk04].

    Examples:
        The sum of a triangle and its mirror image is a hexagon:

        >>> hexagon = normal_fan([[[0, 0], [1, 0], [0, 1]], [[0, 0], [-1, 0], [0, -1]]])
        >>> hexagon.f_vector, hexagon.rays.tolist()
        ((6, 6), [[-1, -1], [-1, 0], [0, -1], [0, 1], [1, 0], [1, 1]])

        A segment in the plane is flat. One direction is constant on it, and its facet normals are
        parallel to it.

        >>> segment = normal_fan([[[0, 0], [2, 2]]])
        >>> segment.f_vector, segment.lineality.tolist(), segment.rays.tolist()
        ((2,), [[1, -1]], [[-1, -1], [1, 1]])
    """
    vertices = minkowski_vertices(point_sets)
    graphs, leaves = vertices._winners.graphs, vertices._winners.leaves
    rank = graphs.coordinates.rank
    names: dict[Vector, int] = {}
    cones: list[list[int]] = []
    lattices: list[FaceLattice] = []
    for leaf in leaves.tolist():
        own = graphs.exact_rows(np.concatenate([graphs.rows_of(vertex) for vertex in leaf]))
        # The differences span the coordinates of the graphs, so every cone is pointed there.
        rows = [tuple(row) for row in own.tolist()] if rank else []
        generators = sparse_cone_generators(rows, rank)
        cones.append([names.setdefault(ray, len(names)) for ray in generators.rays])
        facets = facet_members(generators.rays, generators.tight, len(cones[-1]))
        everything = (1 << len(cones[-1])) - 1
        bits = tuple(sum(1 << k for k in members) for _, members in facets)
        lattices.append(FaceLattice(bits, everything, everything))
    lineality = _find_constant_directions(vertices)
    rays = [
        _project_out(
            primitive(graphs.coordinates.original_integers(np.array(ray, object))), lineality
        )
        for ray in names
    ]
    order = sorted(range(len(rays)), key=rays.__getitem__)
    rank_of = {old: new for new, old in enumerate(order)}
    return NormalFan(
        vertices,
        _freeze(wide_rows([rays[k] for k in order], vertices.dim)),
        _freeze(wide_rows(lineality, vertices.dim)),
        tuple(np.array([rank_of[k] for k in cone], np.int64) for cone in cones),
        tuple(lattices),
    )


def refine_fans(fans: Iterable[NormalFan]) -> NormalFan:
    r"""Compute the common refinement of normal fans: the normal fan of the sum of their polytopes.

    Its cones are the intersections of one cone from each fan.

    Examples:
        >>> across = normal_fan([[[0, 0], [1, 0]]])
        >>> up = normal_fan([[[0, 0], [0, 3]]])
        >>> refine_fans([across, up]).f_vector
        (4, 4)
    """
    listed = _read_fans(fans)
    return normal_fan([points for fan in listed for points in fan.vertices.point_sets])


def _find_constant_directions(vertices: MinkowskiVertices) -> tuple[Vector, ...]:
    """Return a basis of the directions that are constant on the sum."""
    differences = [
        row
        for points in vertices.point_sets
        for row in _subtract_first(scaled_integers(points).integers)
        if any(row)
    ]
    basis, _ = independent_rows(differences, vertices.dim)
    return null_space([differences[k] for k in basis], vertices.dim)


def _subtract_first(points: WideArray) -> list[Vector]:
    """Subtract the first point from all points."""
    return [tuple(row) for row in (points - points[0]).tolist()]


def _project_out(ray: Vector, lineality: tuple[Vector, ...]) -> Vector:
    """Project a ray orthogonally to the lineality space, which makes facet normals unique."""
    if not lineality:
        return ray
    lines = fmpz_mat([list(line) for line in lineality])
    against = lines * fmpz_mat([[x] for x in ray])
    weights, denominator = (lines * lines.transpose()).solve(against).numer_denom()
    part = lines.transpose() * weights
    sign = 1 if denominator > 0 else -1
    scale = abs(int(denominator))
    return primitive(scale * x - sign * int(part[k, 0]) for k, x in enumerate(ray))


def _freeze(array: WideArray) -> WideArray:
    array.setflags(write=False)
    return array


def _read_fans(fans: Any) -> list[NormalFan]:
    try:
        listed = list(fans)
    except TypeError:
        raise DtypeError(
            f"`fans` must be a sequence of NormalFan; got {type(fans).__name__}."
        ) from None
    if not listed:
        raise EmptyInputError("`fans` must hold at least one fan; got none.")
    for k, fan in enumerate(listed):
        if not isinstance(fan, NormalFan):
            raise DtypeError(f"`fans[{k}]` must be a NormalFan; got {type(fan).__name__}.")
    return listed
