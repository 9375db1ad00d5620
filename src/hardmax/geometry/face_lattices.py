"""The faces of a polyhedron, computed from the incidences of generators and facets.

A face is represented by the set of its vertices and rays, stored as the bits of an integer. Every
face is an intersection of facets of the polyhedron, and the facets of a face are the maximal proper
intersections of the face with them. Hence the whole lattice is found from the top down without any
arithmetic.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from flint import fmpz_mat

from hardmax.exact.integer_vectors import Vector
from hardmax.geometry.double_description import face_has_dimension
from hardmax.typing import BoolArray


@dataclass(frozen=True, eq=False)
class FaceLattice:
    """The faces of one polyhedron.

    Attributes:
        facets: For each facet, the bits of its vertices and rays; bit `k` stands for generator `k`.
        top: The bits of all generators.
        points: The bits of the vertices. A set that contains only rays is a face at infinity, which
            is not a face of the polyhedron.
    """

    facets: tuple[int, ...]
    top: int
    points: int
    _known: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def facets_of(self, face: int) -> tuple[int, ...]:
        """Return the facets of `face`."""
        if face not in self._known:
            parts = {face & facet for facet in self.facets}
            parts.discard(face)
            proper = sorted((p for p in parts if p & self.points), key=int.bit_count)
            largest: list[int] = []
            for part in reversed(proper):
                if not any(part & other == part for other in largest):
                    largest.append(part)
            self._known[face] = tuple(largest)
        return self._known[face]


def face_lattice(incidence: BoolArray, n_points: int) -> FaceLattice:
    """Build the face lattice from the facets.

    Args:
        incidence: Whether a generator lies on a facet, shape `(n_facets, n_generators)`. The
            `n_points` vertices come first.
        n_points: The number of generators that are vertices.
    """
    facets = tuple(sum(1 << k for k, on in enumerate(row) if on) for row in incidence.tolist())
    return FaceLattice(facets, (1 << incidence.shape[1]) - 1, (1 << n_points) - 1)


def facet_members(
    generators: Sequence[Vector], tight: Sequence[frozenset[int]], n_points: int
) -> list[tuple[int, list[int]]]:
    """Find the inequalities that define facets, each with the generators on its facet.

    Args:
        generators: The extreme rays of the cone over the polyhedron, modulo lineality: the vertices
            $(t v, t)$, followed by the rays $(r, 0)$.
        tight: For each generator, the indices of the inequalities that it satisfies with equality.
        n_points: The number of generators that are vertices.

    Returns:
        One pair per facet: the index of the first inequality that defines it, and the sorted
        indices of the generators on it. The pairs are in the order of the inequalities.
    """
    on: dict[int, list[int]] = {}
    for k, rows in enumerate(tight):
        for i in rows:
            on.setdefault(i, []).append(k)
    dimension = rank(generators)
    facets: dict[tuple[int, ...], int] = {}
    for i in sorted(on):
        members = on[i]
        if len(members) == len(generators) or members[0] >= n_points:
            continue
        if face_has_dimension([generators[k] for k in members], dimension - 1):
            facets.setdefault(tuple(members), i)
    return [(i, list(members)) for members, i in facets.items()]


def rank(vectors: Sequence[Vector]) -> int:
    """Return the dimension of the span of integer vectors."""
    return int(fmpz_mat([list(vector) for vector in vectors]).rank()) if vectors else 0


def face_numbers(lattice: FaceLattice, dim: int) -> tuple[int, ...]:
    r"""Count the faces of dimension $0, \dots, d - 1$ of a polyhedron of dimension $d$ = `dim`."""
    counts = []
    level = {lattice.top} if dim >= 0 else set()
    for _ in range(dim):
        level = {part for face in level for part in lattice.facets_of(face)}
        counts.append(len(level))
    return tuple(reversed(counts))


def triangulate(lattice: FaceLattice, face: int) -> Iterator[tuple[int, ...]]:
    """Triangulate a bounded face without new vertices, by pulling its first vertex.

    The face is the union of the pyramids over its facets that do not contain this vertex, with the
    vertex as apex.
    """
    apex = (face & -face).bit_length() - 1
    if face == 1 << apex:
        yield (apex,)
    for facet in lattice.facets_of(face):
        if not facet >> apex & 1:
            for simplex in triangulate(lattice, facet):
                yield (apex, *simplex)


def simplex_volumes(lattice: FaceLattice, points: Sequence[Vector], dim: int) -> Fraction:
    r"""Return the volume of a bounded full-dimensional polytope, as a sum over a triangulation.

    A simplex with vertices $x_k / t_k$ has volume $|\det (x_k, t_k)| / (d! \prod t_k)$.
    """
    total = Fraction(0)
    for simplex in triangulate(lattice, lattice.top):
        corners = [points[k] for k in simplex]
        determinant = abs(int(fmpz_mat([list(corner) for corner in corners]).det()))
        total += Fraction(determinant, math.prod(corner[-1] for corner in corners))
    return total / math.factorial(dim)
