r"""Two exact searches for the sets of k affine forms that are the k largest on an open set.

Forms that are equal as functions tie everywhere, so a *group* of equal forms is treated as one form
with a multiplicity. At a generic point the groups are strictly ordered. The k winners are then the
members of the first groups and possibly a part of the next group: a `TopSet`.

`walk_walls` moves from cell to cell across walls. Each cell costs one double description with one
row per group. `refine` adds one winner at a time. Each candidate costs one cone decision with one
row per group. The walk is faster in low dimensions; the refinement is suitable for high dimensions.
Neither lists all $\binom{n}{k}$ candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from hardmax.exact.integer_vectors import Vector, primitive, wide_rows
from hardmax.geometry.cones import decide_open_cone
from hardmax.geometry.double_description import face_has_dimension, sparse_cone_generators
from hardmax.tropical.diagrams.power_cells import wall


@dataclass(frozen=True)
class TopSet:
    """The k winners in terms of groups.

    Attributes:
        whole: The groups all of whose members win.
        part: The group of which only some members win, or -1.
    """

    whole: frozenset[int]
    part: int


Witness = tuple[Fraction, ...]
Found = dict[TopSet, tuple[Witness, list[Vector] | None]]
"""For each set of winners, an interior point of its cell, and the walls of the cell if known."""


@dataclass(frozen=True, eq=False)
class CompetingForms:
    """The groups that compete.

    Attributes:
        forms: The distinct vectors $(a_g, c_g)$ as integers on one common scale.
        multiplicity: The number of equal forms in each group.
        k: The number of forms that win.
    """

    forms: Sequence[Vector]
    multiplicity: Sequence[int]
    k: int

    def select(self, certain: frozenset[int], ranked: Sequence[int]) -> TopSet:
        """Add groups in the order of `ranked` to the certain winners until k forms win."""
        whole = set(certain)
        missing = self.k - sum(self.multiplicity[g] for g in certain)
        for g in ranked:
            if missing < self.multiplicity[g]:
                return TopSet(frozenset(whole), g if missing else -1)
            whole.add(g)
            missing -= self.multiplicity[g]
        return TopSet(frozenset(whole), -1)

    def walls(self, top: TopSet) -> list[Vector]:
        """Return inequalities that define the cell; some may be redundant."""
        lost = [g for g in range(len(self.forms)) if g not in top.whole and g != top.part]
        if top.part < 0:
            return [wall(self.forms[i], self.forms[j]) for i in sorted(top.whole) for j in lost]
        middle = self.forms[top.part]
        return [wall(self.forms[i], middle) for i in sorted(top.whole)] + [
            wall(middle, self.forms[j]) for j in lost
        ]


def walk_walls(contest: CompetingForms, dim: int) -> Found:
    r"""Find all sets of winners by crossing every wall of every cell.

    The cells are full-dimensional polyhedra that cover the space. A generic segment between any two
    cells crosses walls only in their relative interiors, so the walk reaches every cell. It starts
    from the winners at $R (1, \epsilon, \epsilon^2, \dots)$ for large $R$.
    """
    forms = contest.forms
    ranked = sorted(range(len(forms)), key=lambda g: forms[g], reverse=True)
    start = contest.select(frozenset(), ranked)
    found: Found = {}
    waiting = [start]
    seen = {start}
    while waiting:
        top = waiting.pop()
        witness, facets = _find_walls(contest, top, dim)
        found[top] = witness, [row for row, _, _ in facets]
        for _, normal, tied in facets:
            # All tied forms agree on the wall, so beyond it they are ordered by their slopes along
            # the outward normal. Distinct forms have distinct slopes there.
            ranked = sorted(tied, key=lambda g: _dot(forms[g], normal), reverse=True)
            across = contest.select(top.whole - tied, ranked)
            if across not in seen:
                seen.add(across)
                waiting.append(across)
    return found


def refine(contest: CompetingForms, dim: int) -> Found:
    r"""Find all sets of winners by adding one winner at a time.

    If $W$ is the set of winners at a generic point and $p$ is the last of them, then
    $W \setminus p$ is a smaller set of winners, and $p$ beats all groups outside $W$. Hence a
    candidate is decided with one row for each group other than $p$.
    """
    found: Found = {}
    level: set[frozenset[int]] = {frozenset()}
    while level:
        longer: set[frozenset[int]] = set()
        for first in level:
            for p in range(len(contest.forms)):
                if p in first:
                    continue
                top = contest.select(first, [p])
                is_final = _weight(contest, first | {p}) >= contest.k
                if top in found or (not is_final and first | {p} in longer):
                    continue
                witness = _find_point_between(contest.forms, first, p, dim)
                if witness is None:
                    continue
                if is_final:
                    found[top] = witness, None
                else:
                    longer.add(first | {p})
        level = longer
    return found


def _weight(contest: CompetingForms, groups: frozenset[int]) -> int:
    return sum(contest.multiplicity[g] for g in groups)


def _find_point_between(
    forms: Sequence[Vector], above: frozenset[int], p: int, dim: int
) -> Witness | None:
    """Find a point where the forms `above` beat form `p`, and `p` beats all others."""
    rows = [(0,) * dim + (1,)]
    for g, form in enumerate(forms):
        if g != p:
            sign = 1 if g in above else -1
            rows.append(tuple(sign * (x - y) for x, y in zip(form, forms[p], strict=True)))
    direction = decide_open_cone(wide_rows(rows, dim + 1)).direction
    if direction is None:
        return None
    return tuple(Fraction(int(x), int(direction[-1])) for x in direction[:-1])


def _find_walls(
    contest: CompetingForms, top: TopSet, dim: int
) -> tuple[Witness, list[tuple[Vector, Vector, frozenset[int]]]]:
    r"""Find the walls of one cell as tuples (inequality, outward normal, tied groups).

    If no group wins in part, the cell is the projection of
    $Q = \{(x, z) : f_i(x) \ge z \ge f_j(x)\}$ for all winners $i$ and losers $j$, and a wall is the
    projection of a ridge between a facet of a winner and a facet of a loser. If group $p$ wins in
    part, then $z = f_p(x)$ and a wall is a facet.
    """
    forms = contest.forms
    if top.part < 0:
        rows: list[Vector] = [(0,) * dim + (1, 0)]
        for g, form in enumerate(forms):
            rows.append((*form, -1) if g in top.whole else (*(-x for x in form), 1))
    else:
        rows = [(0,) * dim + (1,)]
        for g, form in enumerate(forms):
            sign = 1 if g in top.whole else -1
            pairs = zip(form, forms[top.part], strict=True)
            rows.append(tuple(sign * (x - y) for x, y in pairs))
    # Of rows that are multiples of each other, only the first is listed as tight.
    copies: dict[Vector, list[int]] = {}
    for g, row in enumerate(rows[1:]):
        copies.setdefault(primitive(row), []).append(g)
    cone = sparse_cone_generators(rows, len(rows[0]), mostly_redundant=True)
    sums = [sum(entries) for entries in zip(*cone.rays, strict=True)]
    witness = tuple(Fraction(x, sums[dim]) for x in sums[:dim])
    on: dict[tuple[int, int], list[int]] = {}
    for k, tight in enumerate(cone.tight):
        winners = [i - 1 for i in tight if i and i - 1 in top.whole]
        losers = [i - 1 for i in tight if i and i - 1 not in top.whole]
        if top.part < 0:
            names = [(i, j) for i in winners for j in losers]
        else:
            names = [(i, top.part) for i in winners] + [(top.part, j) for j in losers]
        for name in names:
            on.setdefault(name, []).append(k)
    facets: dict[frozenset[int], tuple[Vector, Vector, frozenset[int]]] = {}
    for (i, j), members in on.items():
        if frozenset(members) in facets or not any(cone.rays[k][dim] for k in members):
            continue
        if face_has_dimension([cone.rays[k] for k in members], dim - len(cone.lineality)):
            tied = frozenset.intersection(*(cone.tight[k] for k in members)) - {0}
            groups = frozenset(g for r in tied for g in copies[primitive(rows[r])])
            groups |= {top.part} - {-1}
            normal = tuple(y - x for x, y in zip(forms[i][:dim], forms[j][:dim], strict=True))
            facets[frozenset(members)] = wall(forms[i], forms[j]), normal, groups
    return witness, list(facets.values())


def _dot(form: Vector, direction: Vector) -> int:
    return sum(a * u for a, u in zip(form, direction, strict=False))
