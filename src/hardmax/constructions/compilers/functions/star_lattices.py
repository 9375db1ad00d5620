r"""Hat functions as maxima of minima of the forms around a vertex.

The hat of a vertex $v$ of a mesh is 1 at $v$, 0 at all other vertices and affine on each simplex.
On a simplex $t$ of the star it is the form $\ell_t$ that is 1 at $v$ and 0 on the facet opposite to
it. As $1 - \ell_t$ is linear around $v$, the forms continue to the cone that the star spans,
$\varphi = \ell_t$ on the cone of $t$, and on a mesh that fills a convex set the hat is
$\max(0, \varphi)$. A function on a convex set that is affine on pieces is a maximum of minima of
its forms [TM99], [Ovc02]:

$$\varphi = \max_{S} \min_{i \in S} \ell_i .$$

**Which sets.** A set is *valid* if $\min_{i \in S} \ell_i \le \varphi$ everywhere, and *covers* a
cone if equality holds there. For any $y$ the set $\{i : \ell_i(y) \ge \varphi(y)\}$ is valid, as
the segment from $y$ to any point stays inside; but the forms that are above $\ell_t$ on *all* of
$t$ may be too few. So that set is tried first, its validity is decided, and where it fails the cone
is cut along an edge, at the zero of a form that changes sign there. Cones on which no form changes
sign have valid sets, so this ends.

**Deciding.** At $x = v + \sum_j \lambda_j (w_j - v)$ in the cone of $t'$ with the vertices $w_j$,
$\ell_i(x) - \ell_{t'}(x) = \sum_j \lambda_j \ell_i(w_j)$. So a set is valid there if one of its
forms is at most 0 at all $w_j$, and otherwise if no $\lambda > 0$ makes all these sums positive,
which `decide_open_cone` decides in integers.
"""

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

import numpy as np

from hardmax.constructions.compilers.functions.mesh_checks import MeshComplex
from hardmax.geometry.cones import decide_open_cone
from hardmax.typing import BoolArray, IntArray, WideArray


class Star(NamedTuple):
    r"""The simplices around a vertex.

    Attributes:
        vertex: The vertex.
        simplices: Their indices, $k$ of them.
        rows: For each the integers proportional to $\ell_t$, shape `(k, dim + 1)`.
        values: Integers proportional to $\ell_i(w)$ for the other vertices $w$ of the star, with
            one positive factor for each row and column; shape `(k, n_link)`.
        cells: The columns of the vertices of each simplex, shape `(k, dim)`.
    """

    vertex: int
    simplices: list[int]
    rows: WideArray
    values: WideArray
    cells: IntArray


def stars(mesh: MeshComplex) -> list[Star]:
    """Return the star of every vertex that a simplex has, in rising order of the vertices."""
    around: dict[int, list[int]] = {}
    for i, simplex in enumerate(mesh.simplices.tolist()):
        for v in simplex:
            around.setdefault(v, []).append(i)
    result = []
    for v, simplices in sorted(around.items()):
        corners = [mesh.simplices[i].tolist() for i in simplices]
        rows = [mesh.rows[i][c.index(v)] for i, c in zip(simplices, corners, strict=True)]
        link = {w: k for k, w in enumerate(sorted({w for c in corners for w in c} - {v}))}
        cells = np.array([[link[w] for w in c if w != v] for c in corners])
        exact = np.array(rows, dtype=object)
        values = np.asarray(exact @ mesh.points[list(link)].T, dtype=object)
        result.append(Star(v, simplices, exact, values, cells))
    return result


def lattice_sets(star: Star) -> list[tuple[int, ...]]:
    r"""Return few sets $S$ of simplices of a star with $\varphi = \max_S \min_{i \in S} \ell_i$.

    Examples:
        >>> from hardmax.constructions import Mesh
        >>> corners = [[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [1.0, 1.0]]
        >>> tent = Mesh(corners, [[0, 1, 3], [0, 2, 3], [1, 2, 3]], [0.0, 0.0, 0.0, 1.0])
        >>> [(star.vertex, lattice_sets(star)) for star in stars(tent._complex)]
        [(0, [(0,), (1,)]), (1, [(0,), (1,)]), (2, [(0,), (1,)]), (3, [(0, 1, 2)])]
    """
    search = _Search(star)
    found: list[tuple[int, ...]] = []
    covered: list[tuple[int, WideArray]] = []
    # The cones of simplices with few forms above them have the sets that cover most.
    falling = np.argsort(-search.is_high.sum(axis=0), kind="stable").tolist()
    todo = [(t, star.values[:, star.cells[t]]) for t in falling]
    while todo:
        own, corners = todo.pop()
        if any(_covers(s, own, corners) for s in found):
            covered.append((own, corners))
            continue
        members = np.flatnonzero(_nonnegative(corners)).tolist()
        needed, broken = search.validity(members)
        if broken is None:
            found.append(search.fewest(members, needed))
            covered.append((own, corners))
        else:
            todo += [(own, part) for part in _cut(corners, search.helpers(*broken))]
    return _few(found, covered)


class _Search:
    """What is needed again and again for the sets of one star."""

    def __init__(self, star: Star) -> None:
        self.star = star
        signs = _signs(star.values)
        self.is_low: BoolArray = np.asarray((signs[:, star.cells] <= 0).all(axis=2))
        """Of each form and simplex, whether the form is at most 0 at the vertices of it."""
        self.is_high: BoolArray = np.asarray((signs[:, star.cells] >= 0).all(axis=2))

    def validity(self, members: list[int]) -> tuple[list[int], tuple[int, WideArray] | None]:
        """Decide whether a set is valid.

        Returns:
            Members that were needed together with others to prove it, and None; or no members and
            a simplex with a place in its cone where the minimum is too large.
        """
        needed: list[int] = []
        star, dim = self.star, self.star.cells.shape[1]
        for cell in np.flatnonzero(~self.is_low[members].any(axis=0)).tolist():
            rows = star.values[np.ix_(members, star.cells[cell])]
            decision = decide_open_cone(np.vstack([rows, np.eye(dim, dtype=object).astype(int)]))
            if decision.is_open:
                assert decision.direction is not None
                return [], (cell, decision.direction)
            assert decision.support is not None
            needed += [members[k] for k in decision.support.tolist() if k < len(members)]
        return needed, None

    def fewest(self, members: list[int], needed: list[int]) -> tuple[int, ...]:
        """Choose few members of a valid set that prove it valid."""
        chosen = sorted(set(needed))
        low, high = self.is_low[members], self.is_high[members].sum(axis=1)
        open_cells = low.any(axis=0) & ~self.is_low[chosen].any(axis=0)
        while open_cells.any():
            hits = low[:, open_cells].sum(axis=1)
            best = int(np.lexsort((-high, -hits))[0])
            chosen.append(members[best])
            open_cells &= ~low[best]
        return tuple(sorted(chosen))

    def helpers(self, cell: int, place: WideArray) -> list[int]:
        """Which forms are low enough at a place in the cone of a simplex."""
        heights = self.star.values[:, self.star.cells[cell]] @ place
        return [i for i, height in enumerate(heights.tolist()) if height <= 0]


def _nonnegative(corners: WideArray) -> BoolArray:
    return np.asarray((_signs(corners) >= 0).all(axis=1))


def _covers(members: Sequence[int], own: int, corners: WideArray) -> bool:
    """Whether the minimum of a valid set is the right form on a cone."""
    signs = _signs(corners[list(members)])
    # Another simplex may have the same form.
    return bool((signs >= 0).all() and (own in members or not signs.any(axis=1).all()))


def _cut(corners: WideArray, helpers: list[int]) -> list[WideArray]:
    """Cut a cone in two at the zero of a form, on the edge between two of its corners."""
    signs = _signs(corners)
    mixed = [i for i in helpers if (signs[i] > 0).any() and (signs[i] < 0).any()]
    form = mixed[0]
    plus, minus = int((signs[form] > 0).argmax()), int((signs[form] < 0).argmax())
    point = corners[:, plus] * -corners[form, minus] + corners[:, minus] * corners[form, plus]
    divisor = gcd(*point.tolist()) or 1
    parts = [corners.copy(), corners.copy()]
    parts[0][:, minus] = parts[1][:, plus] = point // divisor
    return parts


def _few(
    found: list[tuple[int, ...]], covered: list[tuple[int, WideArray]]
) -> list[tuple[int, ...]]:
    """Choose sets that cover all cones, those first that cover most."""
    sets = list(dict.fromkeys(found))
    covers = np.array([[_covers(s, own, at) for own, at in covered] for s in sets])
    chosen: list[int] = []
    left = np.ones(len(covered), dtype=bool)
    while left.any():
        best = int(covers[:, left].sum(axis=1).argmax())
        chosen.append(best)
        left &= ~covers[best]
    return sorted(sets[k] for k in chosen)


def _signs(values: WideArray) -> IntArray:
    return np.asarray((values > 0).astype(np.int64) - (values < 0).astype(np.int64))
