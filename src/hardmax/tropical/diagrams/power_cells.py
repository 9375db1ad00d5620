r"""The cells of a maximum of affine forms over a polyhedron, with their walls, exactly.

Over a domain $D$, the epigraph $E = \{(x, z) : x \in D,\ z \ge \langle a_j, x\rangle + c_j\ \forall
j\}$ is a polyhedron. The facets of $E$ that do not come from $D$ lie above the cells, and the
ridges between two of these facets lie above the walls. `UpperEnvelope` holds all vertices and rays
of $E$, computed by one double description, and derives the cells from the incidences. In high
dimensions $E$ has too many vertices; `cells_by_decisions` then finds the cells with one cone
decision at a time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import comb
from typing import NamedTuple

import numpy as np

from hardmax._ground.display import html_card
from hardmax.exact.integer_vectors import Vector, primitive, rounded_directions, wide_rows
from hardmax.exact.rounding import FEW_UNDERFLOWS, UNIT_ROUNDOFF
from hardmax.geometry.cones import decide_open_cone
from hardmax.geometry.descriptions import Generators
from hardmax.geometry.double_description import (
    SparseGenerators,
    face_has_dimension,
    sparse_cone_generators,
)
from hardmax.geometry.polytopes import Polytope
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray

_ORDER_SEED = 0
"""Rows are inserted in a random order, which keeps intermediate results small. The final result
does not depend on the seed."""


_MEDIUM_RANK, _MANY_VERTICES = 5, 10_000


class CellParts(NamedTuple):
    """The full description of a cell.

    Attributes:
        polytope: The cell as a polyhedron.
        row_sites: For each inequality, the site that wins beyond it, or -1 if it comes from the
            domain.
        irredundant: Whether every inequality is known to define a facet.
    """

    polytope: Polytope
    row_sites: IntArray
    irredundant: bool


@dataclass(frozen=True, eq=False, repr=False, init=False)
class PowerCell:
    r"""A cell of a power diagram: the closed set on which one site wins.

    Attributes:
        site: The index of the site.
        dim: The dimension of the space.

    Examples:
        >>> from hardmax import PowerDiagram
        >>> cell = PowerDiagram.from_keys([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]).cells()[0]
        >>> cell.site, cell.neighbours.tolist(), cell.is_bounded
        (0, [1, 2], False)
    """

    site: int
    dim: int
    _describe: Callable[[], CellParts]
    _ring: FloatArray | None = None
    """The rounded corners of a bounded planar cell in counter-clockwise order, if known."""

    _repr_html_ = html_card

    def __init__(
        self,
        site: int,
        dim: int,
        _describe: Callable[[], CellParts],
        _ring: FloatArray | None = None,
    ) -> None:
        # Setting all fields in one step is faster, and a diagram can have thousands of cells.
        self.__dict__.update(site=site, dim=dim, _describe=_describe, _ring=_ring)

    def __repr__(self) -> str:
        return f"PowerCell(site {self.site} in R^{self.dim})"

    @property
    def polytope(self) -> Polytope:
        """The cell as a polyhedron, clipped to the domain passed to `PowerDiagram.cells`."""
        return self._parts.polytope

    @property
    def row_sites(self) -> IntArray:
        """For each inequality of `polytope`, the site beyond it, or -1 for one of the domain."""
        return self._parts.row_sites

    @property
    def irredundant(self) -> bool:
        """Whether every inequality is known to define a facet."""
        return self._parts.irredundant

    @cached_property
    def neighbours(self) -> IntArray:
        """The sites whose cells share a facet with this cell inside the domain, ascending."""
        rivals = np.flatnonzero(self.row_sites >= 0)
        if not self.irredundant:
            cone = open_cone_rows(self.polytope.rows)
            rivals = rivals[[_is_facet(cone, int(i)) for i in rivals]]
        return np.sort(self.row_sites[rivals])

    @property
    def is_bounded(self) -> bool:
        """Whether the cell is bounded."""
        return self._ring is not None or self.polytope.is_bounded

    @property
    def vertices(self) -> FloatArray:
        """The vertices, correctly rounded, shape `(n_vertices, dim)`."""
        return self.polytope.vertices if self._ring is None else self._ring

    @property
    def polygon(self) -> FloatArray:
        """The corners of a bounded planar cell in counter-clockwise order."""
        return self.polytope.polygon if self._ring is None else self._ring

    @cached_property
    def _parts(self) -> CellParts:
        return self._describe()


@dataclass(frozen=True, eq=False)
class UpperEnvelope:
    r"""The epigraph of $\max_j \langle a_j, x\rangle + c_j$ over a domain, a cone in $(x, t, z)$.

    Attributes:
        dim: The dimension of $x$.
        forms: The distinct vectors $(a_j, c_j)$ as integers on one common scale.
        domain: The inequalities $(a, b)$ of the domain.
        cone: The generators of the cone. Its rows are $t \ge 0$, then the domain, then the forms.
        members: For each form with a full-dimensional cell, the generators above that cell.
    """

    dim: int
    forms: Sequence[Vector]
    domain: Sequence[Vector]
    cone: SparseGenerators
    members: dict[int, list[int]]

    @property
    def owners(self) -> list[int]:
        """The forms that win on an open subset of the domain, in ascending order."""
        return list(self.members)

    @cached_property
    def vertices(self) -> list[Vector]:
        """The points $(t x, t)$ of the vertices (or of one point of each minimal face)."""
        return [primitive(ray[:-1]) for ray in self.cone.rays if ray[-2] > 0]

    @cached_property
    def walls(self) -> dict[int, list[tuple[int, list[int]]]]:
        """For each owner, the rows that define facets of its cell and the generators on them."""
        return {j: self._walls(j) for j in self.members}

    def pairs(self) -> list[tuple[int, int]]:
        """Return the forms $i < j$ whose cells share a facet."""
        first = 1 + len(self.domain)
        return [(j, i - first) for j in self.members for i, _ in self.walls[j] if i - first > j]

    def cell(self, j: int, names: IntArray) -> PowerCell:
        """Return the cell of form `j`; `names` maps forms to sites."""
        return PowerCell(int(names[j]), self.dim, partial(self._describe, j, names))

    def _describe(self, j: int, names: IntArray) -> CellParts:
        first = 1 + len(self.domain)
        rows: list[Vector] = []
        labels: list[int] = []
        tight: dict[int, list[int]] = {k: [] for k in self.members[j]}
        for local, (i, on) in enumerate(self.walls[j]):
            if i < first:
                rows.append(self.domain[i - 1])
                labels.append(-1)
            else:
                rows.append(wall(self.forms[j], self.forms[i - first]))
                labels.append(int(names[i - first]))
            for k in on:
                tight[k].append(local)
        rays = self.cone.rays
        proper = [k for k in tight if rays[k][-2] > 0]
        infinite = [k for k in tight if rays[k][-2] == 0]
        generators = Generators(
            tuple(primitive(rays[k][:-1]) for k in proper),
            tuple(primitive(rays[k][:-2]) for k in infinite),
            tuple(primitive(line[:-2]) for line in self.cone.lineality),
            tuple(frozenset(tight[k]) for k in proper + infinite),
        )
        polytope = Polytope.from_rows(rows, self.dim, generators)
        return CellParts(polytope, np.array(labels, dtype=np.int64), True)

    def _walls(self, j: int) -> list[tuple[int, list[int]]]:
        first = 1 + len(self.domain)
        rays, tight = self.cone.rays, self.cone.tight
        # The cone has dimension dim + 2 minus its lineality, a cell has one dimension less, and a
        # wall two less. A wall of dimension r contains at least r generators, hence at least one of
        # any selection that omits only r - 1. Omitting the generators with the longest lists
        # matters at the apex of a fan, where all forms tie.
        dimension = self.dim - len(self.cone.lineality)
        members = sorted(self.members[j], key=lambda k: len(tight[k]))
        split = max(len(members) - dimension + 1, 0)
        on: dict[int, list[int]] = {}
        for k in members[:split]:
            for i in tight[k]:
                on.setdefault(i, []).append(k)
        for k in members[split:]:
            for i, found in on.items():
                if i in tight[k]:
                    found.append(k)
        return [
            (i, on[i])
            for i in sorted(on)
            if i not in (0, j + first)
            and (i < first or i - first in self.members)
            and any(rays[k][-2] for k in on[i])
            and face_has_dimension([rays[k] for k in on[i]], dimension)
        ]


def upper_envelope(
    forms: Sequence[Vector], dim: int, domain: Sequence[Vector] = ()
) -> UpperEnvelope:
    r"""Find all vertices and rays of the epigraph of $\max_j \langle a_j, x\rangle + c_j$.

    Args:
        forms: The distinct vectors $(a_j, c_j)$ as tuples of `dim + 1` integers on one common
            scale.
        dim: The dimension of $x$.
        domain: Inequalities $\langle a, x\rangle \le b$ as tuples $(a, b)$; their solutions have
            nonempty interior.
    """
    rows: list[Vector] = [(0,) * dim + (1, 0)]
    rows += [(*(-x for x in row[:-1]), row[-1], 0) for row in domain]
    first = len(rows)
    rows += [(*(-x for x in form), 1) for form in forms]
    shuffled = np.random.default_rng(_ORDER_SEED).permutation(len(forms)) + first
    cone = sparse_cone_generators(rows, dim + 2, [*range(first), *shuffled.tolist()])
    above: dict[int, list[int]] = {}
    for k, tight in enumerate(cone.tight):
        for i in tight:
            if i >= first:
                above.setdefault(i - first, []).append(k)
    dimension = dim + 1 - len(cone.lineality)
    members = {
        j: above[j]
        for j in sorted(above)
        if face_has_dimension([cone.rays[k] for k in above[j]], dimension)
    }
    return UpperEnvelope(dim, forms, domain, cone, members)


def cells_by_decisions(
    forms: Sequence[Vector], dim: int, domain: Sequence[Vector], names: IntArray
) -> list[PowerCell]:
    r"""Find the cells with one open-cone decision each, without computing vertices.

    Args:
        forms: The vectors $(a_j, c_j)$ of the forms that are active on the whole space.
        dim: The dimension of $x$.
        domain: The inequalities $(a, b)$ of the domain.
        names: The site of each form.
    """
    cells = []
    for j, form in enumerate(forms):
        rivals = [i for i in range(len(forms)) if i != j]
        rows = [wall(form, forms[i]) for i in rivals] + list(domain)
        labels = np.array([int(names[i]) for i in rivals] + [-1] * len(domain), dtype=np.int64)
        polytope = Polytope.from_rows(rows, dim)
        if not domain or decide_open_cone(open_cone_rows(polytope.rows)).is_open:
            parts = CellParts(polytope, labels, False)
            cells.append(PowerCell(int(names[j]), dim, partial(CellParts, *parts)))
    return cells


def wall(winner: Vector, rival: Vector) -> Vector:
    r"""Return $(a, b)$ such that `winner >= rival` exactly where $\langle a, x\rangle \le b$."""
    *slope, offset = (r - w for w, r in zip(winner, rival, strict=True))
    return (*slope, -offset)


def certain_sides(points: FloatArray, domain: Sequence[Vector]) -> tuple[BoolArray, BoolArray]:
    r"""Decide with certainty which points lie on which side of $\langle a, x\rangle = b$.

    Args:
        points: Exact points rounded once, shape `(n_points, dim)`.
        domain: The rows $(a, b)$.

    Returns:
        Two masks of shape `(n_rows, n_points)`: whether the exact point is certainly strictly
        inside, and whether it is certainly strictly outside. Both are False if rounding could
        change the result.
    """
    dim = points.shape[1]
    rows = rounded_directions(domain, dim + 1)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        heights = rows[:, -1:] - rows[:, :-1] @ points.T
        # Coefficients and points are rounded once; then follow a product and `dim` sums.
        sizes = np.abs(rows[:, -1:]) + np.abs(rows[:, :-1]) @ np.abs(points.T)
        bound = 4 * dim * UNIT_ROUNDOFF * sizes
        bound += FEW_UNDERFLOWS * (1 + np.abs(points).sum(axis=1))
        return heights > bound, heights < -bound


def has_few_vertices(n_forms: int, rank: int) -> bool:
    """Choose between computing all vertices (True) and one cone decision per pair of sites.

    In 2 to 6 dimensions, random sites have about 2, 7, 32, 187 and 1296 vertices per site, and a
    vertex costs a tenth of a decision. Beyond 5 dimensions, the worst case decides.
    """
    return rank <= _MEDIUM_RANK or max_facets(n_forms + 1, rank + 1) <= _MANY_VERTICES


def max_facets(n_points: int, dim: int) -> int:
    """Return the largest number of facets of a polytope with `n_points` vertices [McM70]."""
    half, odd = divmod(dim, 2)
    if n_points <= dim:
        return n_points
    if odd:
        return 2 * comb(n_points - half - 1, half)
    return comb(n_points - half, half) + comb(n_points - half - 1, half - 1)


def open_cone_rows(rows: WideArray) -> WideArray:
    r"""Homogenise $\langle a, x\rangle < b$: return rows that are positive on $(x, t)$, $t > 0$."""
    dim = rows.shape[1] - 1
    above = wide_rows([(0,) * dim + (1,)], dim + 1)
    return np.concatenate([np.concatenate([-rows[:, :-1], rows[:, -1:]], axis=1), above])


def _is_facet(cone: WideArray, i: int) -> bool:
    """Decide whether a point violates inequality `i` and satisfies all others strictly."""
    flipped = cone.copy()
    flipped[i] = -flipped[i]
    return decide_open_cone(flipped).is_open
