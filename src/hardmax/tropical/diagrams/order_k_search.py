r"""Which sets of k affine forms are the k largest on an open set: two exact searches.

Forms that are equal as functions tie everywhere, so a *group* of equal forms is one form with a
multiplicity. At a generic point the groups are ordered strictly, and the k winners are all of the
first few groups and, if k cuts through the next one, part of that: a `TopSet`.

`walk_walls` goes from cell to cell across walls; each cell costs one double description of one row
per group. `refine` adds one winner after the other; each candidate costs one cone decision of one
row per group. The walk is faster in low dimension, the refinement does not mind high dimension.
Neither ever lists the $\binom{n}{k}$ candidates.
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
    """The k winners as groups.

    Attributes:
        whole: The groups that win with all their members.
        part: The group that k cuts through, or -1.
    """

    whole: frozenset[int]
    part: int


Witness = tuple[Fraction, ...]
Found = dict[TopSet, tuple[Witness, list[Vector] | None]]
"""For each set of winners a point strictly inside its cell, and the walls of the cell if known."""


@dataclass(frozen=True, eq=False)
class Contest:
    """The groups that compete.

    Attributes:
        forms: The distinct $(a_g, c_g)$, integers on one scale.
        multiplicity: How many equal forms each group has.
        k: How many forms win.
    """

    forms: Sequence[Vector]
    multiplicity: Sequence[int]
    k: int

    def select(self, certain: frozenset[int], ranked: Sequence[int]) -> TopSet:
        """Fill up the groups that win for certain with the first of the ranked ones."""
        whole = set(certain)
        missing = self.k - sum(self.multiplicity[g] for g in certain)
        for g in ranked:
            if missing < self.multiplicity[g]:
                return TopSet(frozenset(whole), g if missing else -1)
            whole.add(g)
            missing -= self.multiplicity[g]
        return TopSet(frozenset(whole), -1)

    def walls(self, top: TopSet) -> list[Vector]:
        """Return inequalities that define the cell; they may be redundant."""
        lost = [g for g in range(len(self.forms)) if g not in top.whole and g != top.part]
        if top.part < 0:
            return [wall(self.forms[i], self.forms[j]) for i in sorted(top.whole) for j in lost]
        middle = self.forms[top.part]
        return [wall(self.forms[i], middle) for i in sorted(top.whole)] + [
            wall(middle, self.forms[j]) for j in lost
        ]


def walk_walls(contest: Contest, dim: int) -> Found:
    r"""Find all sets of winners by crossing every wall of every cell.

    The cells are full-dimensional polyhedra that cover space, so a generic segment joins any two
    of them and crosses walls in their relative interiors only: the walk reaches every cell. It
    starts from the winners at $R (1, \epsilon, \epsilon^2, \dots)$ for large $R$.
    """
    forms = contest.forms
    ranked = sorted(range(len(forms)), key=lambda g: forms[g], reverse=True)
    start = contest.select(frozenset(), ranked)
    found: Found = {}
    waiting = [start]
    seen = {start}
    while waiting:
        top = waiting.pop()
        witness, facets = _facets(contest, top, dim)
        found[top] = witness, [row for row, _, _ in facets]
        for _, normal, tied in facets:
            # All tied forms agree on the wall, so across it their order is that of their slopes
            # along the outward normal; distinct forms have distinct ones.
            ranked = sorted(tied, key=lambda g: _dot(forms[g], normal), reverse=True)
            across = contest.select(top.whole - tied, ranked)
            if across not in seen:
                seen.add(across)
                waiting.append(across)
    return found


def refine(contest: Contest, dim: int) -> Found:
    r"""Find all sets of winners by adding the next winner to the first ones.

    If $W$ are the winners at a generic point and $p$ is the last of them, then $W \setminus p$ are
    the winners of fewer, and $p$ beats the rest: one row for each group other than $p$.
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
                witness = _point_between(contest.forms, first, p, dim)
                if witness is None:
                    continue
                if is_final:
                    found[top] = witness, None
                else:
                    longer.add(first | {p})
        level = longer
    return found


def _weight(contest: Contest, groups: frozenset[int]) -> int:
    return sum(contest.multiplicity[g] for g in groups)


def _point_between(
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


def _facets(
    contest: Contest, top: TopSet, dim: int
) -> tuple[Witness, list[tuple[Vector, Vector, frozenset[int]]]]:
    r"""Find the walls of one cell, each as (inequality, outward normal, tied groups).

    Without a part the cell is the shadow of $Q = \{(x, z) : f_i(x) \ge z \ge f_j(x)\}$ over winners
    $i$ and losers $j$, and a wall is the shadow of a ridge between a facet of either kind. With a
    part $p$, $z = f_p(x)$ and a wall is a facet.
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
    # Only the first of rows that are multiples of each other is listed as tight.
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
