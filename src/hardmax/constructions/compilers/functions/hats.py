r"""Functions as sums of hats, without large terms that cancel, even for steep functions or meshes.

If a function has steep or many pieces, the maxima whose difference it is are far larger than the
function (`convex_differences`, `knots`), and float32 loses $10^{-7}$ of *these* maxima. The sum
over the vertices

$$f = \sum_v f(v)\,\mathrm{hat}_v, \qquad
\mathrm{hat}_v = \max\Big(0, \max_{S} \min_{i \in S} \ell_i\Big)$$

has no such terms: hats are between 0 and 1, at each point only a few hats are nonzero, and where a
hat is nonzero, its forms have size 1 if they are evaluated from the vertex (`unit_origins`). Only
the products $a_k(x_k - v_k)$ in a form can be larger, on cells that are long, thin and oblique. The
next paragraphs construct the sets $S$; in one variable a hat is $\max(0, \min(\ell, \ell'))$ with
the forms of its two sides.

The network has two hidden layers, with one unit for each minimum and one for each hat. It exists
for every mesh that fills a convex set, regular or not, but it is larger than a difference of
maxima.

**Hats as maxima of minima of the forms around a vertex.**

The hat of a vertex $v$ of a mesh is 1 at $v$, 0 at all other vertices, and affine on each simplex.
On a simplex $t$ of the star of $v$, the hat is the form $\ell_t$ that is 1 at $v$ and 0 on the
facet opposite to $v$. Because $1 - \ell_t$ is linear around $v$, the forms extend to a function
$\varphi$ on the cone spanned by the star, with $\varphi = \ell_t$ on the cone of $t$. On a mesh
that fills a convex set, the hat is $\max(0, \varphi)$. A piecewise affine function on a convex set
is a maximum of minima of its forms [TM99], [Ovc02]:

$$\varphi = \max_{S} \min_{i \in S} \ell_i .$$

**The choice of sets.** A set is *valid* if $\min_{i \in S} \ell_i \le \varphi$ everywhere, and it
*covers* a cone if equality holds there. For any $y$, the set $\{i : \ell_i(y) \ge \varphi(y)\}$ is
valid, because the segment from $y$ to any point stays inside. However, the set of the forms that
are at least $\ell_t$ on *all* of $t$ may be too small to be valid. This set is tried first. If it
is not valid, the cone is cut along an edge, at the zero of a form that changes sign there. Cones on
which no form changes sign have valid sets, so the search ends.

**Validity.** At $x = v + \sum_j \lambda_j (w_j - v)$ in the cone of $t'$ with the vertices $w_j$,
$\ell_i(x) - \ell_{t'}(x) = \sum_j \lambda_j \ell_i(w_j)$. So a set is valid there if one of its
forms is at most 0 at all $w_j$. Otherwise, it is valid if no $\lambda > 0$ makes all these sums
positive, which `decide_open_cone` decides in integers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

import numpy as np
from flint import fmpq

from hardmax._ground.arguments import read_only_copy
from hardmax.constructions.compilers.functions.knots import Knots
from hardmax.constructions.compilers.functions.mesh_checks import MeshComplex
from hardmax.constructions.compilers.functions.meshes import Mesh, require_meeting
from hardmax.constructions.compilers.maxout_assembly import (
    MaxoutForm,
    distinct,
    exact_numbers,
    read_box,
    round_forms,
    round_up,
)
from hardmax.constructions.compilers.unit_origins import UnitOrigins
from hardmax.errors import ArgumentError
from hardmax.exact.dyadic import nearest_floats
from hardmax.geometry.cones import decide_open_cone
from hardmax.geometry.domains import Box
from hardmax.models.networks import MaxoutNetwork
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray


class Star(NamedTuple):
    r"""The simplices around a vertex.

    Attributes:
        vertex: The vertex.
        simplices: The indices of the $k$ simplices.
        rows: For each simplex, integers proportional to $\ell_t$, shape `(k, dim + 1)`.
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
    """Return the star of every used vertex, in the order of the vertices."""
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
    r"""Choose few sets $S$ of simplices of a star with $\varphi = \max_S \min_{i \in S} \ell_i$.

    Examples:
        >>> from hardmax.constructions import Mesh
        >>> corners = [[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [1.0, 1.0]]
        >>> tent = Mesh(corners, [[0, 1, 3], [0, 2, 3], [1, 2, 3]], [0.0, 0.0, 0.0, 1.0])
        >>> [(star.vertex, lattice_sets(star)) for star in stars(tent._complex)]
        [(0, [(0,), (1,)]), (1, [(0,), (1,)]), (2, [(0,), (1,)]), (3, [(0, 1, 2)])]
    """
    search = _SetSearch(star)
    found: list[tuple[int, ...]] = []
    covered: list[tuple[int, WideArray]] = []
    # Simplices with few forms above them come first; their sets cover the most cones.
    falling = np.argsort(-search.is_high.sum(axis=0), kind="stable").tolist()
    todo = [(t, star.values[:, star.cells[t]]) for t in falling]
    while todo:
        own, corners = todo.pop()
        if any(_covers(s, own, corners) for s in found):
            covered.append((own, corners))
            continue
        members = np.flatnonzero(_nonnegative(corners)).tolist()
        needed, broken = search.decide_validity(members)
        if broken is None:
            found.append(search.choose_few(members, needed))
            covered.append((own, corners))
        else:
            todo += [(own, part) for part in _cut_cone(corners, search.low_forms(*broken))]
    return _choose_cover(found, covered)


class _SetSearch:
    """The search for the sets of one star, with the signs of its forms."""

    def __init__(self, star: Star) -> None:
        self.star = star
        signs = _compute_signs(star.values)
        self.is_low: BoolArray = np.asarray((signs[:, star.cells] <= 0).all(axis=2))
        """Whether each form is at most 0 at the vertices of each simplex."""
        self.is_high: BoolArray = np.asarray((signs[:, star.cells] >= 0).all(axis=2))

    def decide_validity(self, members: list[int]) -> tuple[list[int], tuple[int, WideArray] | None]:
        """Decide whether a set is valid.

        Returns:
            If the set is valid, the members used in proofs that need several forms, and None.
            Otherwise, no members, and a simplex with a place in its cone where the minimum is too
            large.
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

    def choose_few(self, members: list[int], needed: list[int]) -> tuple[int, ...]:
        """Choose few members of a valid set that still form a valid set."""
        chosen = sorted(set(needed))
        low, high = self.is_low[members], self.is_high[members].sum(axis=1)
        open_cells = low.any(axis=0) & ~self.is_low[chosen].any(axis=0)
        while open_cells.any():
            hits = low[:, open_cells].sum(axis=1)
            best = int(np.lexsort((-high, -hits))[0])
            chosen.append(members[best])
            open_cells &= ~low[best]
        return tuple(sorted(chosen))

    def low_forms(self, cell: int, place: WideArray) -> list[int]:
        r"""Return the forms that are at most $\varphi$ at a place in the cone of a simplex."""
        heights = self.star.values[:, self.star.cells[cell]] @ place
        return [i for i, height in enumerate(heights.tolist()) if height <= 0]


def _nonnegative(corners: WideArray) -> BoolArray:
    return np.asarray((_compute_signs(corners) >= 0).all(axis=1))


def _covers(members: Sequence[int], own: int, corners: WideArray) -> bool:
    """Return whether a valid set covers a cone."""
    signs = _compute_signs(corners[list(members)])
    # A member with the same form as the cone's simplex is sufficient.
    return bool((signs >= 0).all() and (own in members or not signs.any(axis=1).all()))


def _cut_cone(corners: WideArray, helpers: list[int]) -> list[WideArray]:
    """Cut a cone in two, at the zero of a form on the edge between two of its corners."""
    signs = _compute_signs(corners)
    mixed = [i for i in helpers if (signs[i] > 0).any() and (signs[i] < 0).any()]
    form = mixed[0]
    plus, minus = int((signs[form] > 0).argmax()), int((signs[form] < 0).argmax())
    point = corners[:, plus] * -corners[form, minus] + corners[:, minus] * corners[form, plus]
    divisor = gcd(*point.tolist()) or 1
    parts = [corners.copy(), corners.copy()]
    parts[0][:, minus] = parts[1][:, plus] = point // divisor
    return parts


def _choose_cover(
    found: list[tuple[int, ...]], covered: list[tuple[int, WideArray]]
) -> list[tuple[int, ...]]:
    """Choose sets that together cover all cones, greedily."""
    sets = list(dict.fromkeys(found))
    covers = np.array([[_covers(s, own, at) for own, at in covered] for s in sets])
    chosen: list[int] = []
    left = np.ones(len(covered), dtype=bool)
    while left.any():
        best = int(covers[:, left].sum(axis=1).argmax())
        chosen.append(best)
        left &= ~covers[best]
    return sorted(sets[k] for k in chosen)


def _compute_signs(values: WideArray) -> IntArray:
    return np.asarray((values > 0).astype(np.int64) - (values < 0).astype(np.int64))


_CLOSE = fmpq(1, 2**10)
"""If the rounding error of a hat is below this, its support grows by at most twice that part."""


@dataclass(frozen=True, eq=False)
class Hat:
    r"""A function $\max(0, \max_S \min_{i \in S} \ell_i)$ and its weights.

    Attributes:
        place: The vertex of the hat, floats, shape `(dim,)`.
        sets: For each $S$, its forms $(a, c)$ as flint rationals, shape `(n_forms, dim + 1)`.
        weights: The weight for each output, flint rationals, shape `(dim_out,)`.
        low, high: The corners of a box that contains the support, floats, shape `(dim,)`.
    """

    place: FloatArray
    sets: list[WideArray]
    weights: WideArray
    low: FloatArray
    high: FloatArray


def maxout_from_hats(f: Mesh | Knots, box: Box | str) -> MaxoutForm:
    r"""Write a function as a sum of hats: a maxout network with two hidden layers.

    Args:
        f: The function.
        box: The box on which the network computes the function: a `Box`, or its text. Hats that are
            0 on the box are omitted.

    Raises:
        DiscontinuityError: If the function jumps.
        ArgumentError: If a value exceeds the largest float64 or a vertex the largest float32, or if
            the simplices of a mesh do not fill a convex set face to face.

    Examples:
        >>> knots = Knots([0.0, 1.0, 2.0, 4.0], [0.0, 3.0, -1.0, 1.0])
        >>> form = maxout_from_hats(knots, Box([0], [4]))
        >>> form.network, form.method
        (MaxoutNetwork(1 -> [3, 3] -> 1, ranks 1 to 2), 'hats')
        >>> form.network([[0.5], [1.5], [3.0], [4.0]]).ravel().tolist()
        [1.5, 1.0, 0.0, 1.0]
    """
    box = read_box(box, 1 if isinstance(f, Knots) else f.dim)
    if isinstance(f, Knots):
        positions, values = _knots_within(f, box)
        hats = _hats_of_knots(positions, values)
        cells = np.stack([positions[:-1], positions[1:]], axis=1)[..., None]
    else:
        require_meeting(f, box)
        hats, cells = _hats_of_mesh(f), f.vertices[f.simplices]
    meeting = [hat for hat in hats if _intersects_box(hat, box)]
    # The constant 0 is represented by one hat with weight 0.
    chosen = [hat for hat in meeting if any(hat.weights.tolist())] or meeting[:1] or hats[:1]
    return _assemble_hats(chosen, cells, box)


def _intersects_box(hat: Hat, box: Box) -> bool:
    """Return whether a hat may be positive somewhere on a box."""
    # A hat is 0 at an end of its support, unless its vertex lies there, at the boundary of a mesh.
    below = (hat.low < box.high) | (hat.place <= box.high)
    above = (hat.high > box.low) | (hat.place >= box.low)
    return bool((below & above).all())


def _assemble_hats(hats: list[Hat], cells: FloatArray, box: Box) -> MaxoutForm:
    """Build the network of hats; `cells` fill the domain, shape `(n, dim + 1, dim)`."""
    slopes, offsets, units = [], [], []
    moved: list[fmpq] = []
    points = np.array([hat.place for hat in hats])
    for index, hat in enumerate(hats):
        spreads = []
        for forms in hat.sets:
            # The minimum is minus the maximum of the negated forms.
            a, b, spread = round_forms(-forms, box, exact_numbers(hat.place))
            slopes.append(a)
            offsets.append(b)
            units.append(index)
            spreads.append(spread)
        moved.append(max(spreads))
    n_minima, starts = len(units), np.searchsorted(units, np.arange(len(hats) + 1))
    tops = []
    for first, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        rows = np.zeros((1 + end - first, n_minima))
        rows[np.arange(1, len(rows)), np.arange(first, end)] = -1.0
        tops.append(rows)
    exact = np.stack([hat.weights for hat in hats])
    readout = nearest_floats(exact)
    if not np.isfinite(readout).all():
        raise ArgumentError(
            "Every value of `f` must fit into float64; one exceeds the largest float64. Rescale "
            "the function."
        )
    network = MaxoutNetwork(
        [slopes, tops, readout],
        [offsets, [np.zeros(len(rows)) for rows in tops], None],
    )
    with np.errstate(over="ignore", under="ignore"):
        narrow = points.astype(np.float32).astype(np.float64)
    if not np.isfinite(narrow).all():
        raise ArgumentError(
            "Every vertex of `f` must fit into float32; one exceeds the largest float32. Rescale "
            "the domain."
        )
    stored = exact_numbers(readout)
    bounds = np.abs(stored) * np.array(moved, dtype=object)[:, None] + np.abs(exact - stored)
    rounding = round_up(_worst_sums(bounds, max(moved), hats, cells))
    return MaxoutForm(
        network, read_only_copy(rounding), box, "hats", UnitOrigins(narrow, np.array(units))
    )


def _worst_sums(bounds: WideArray, moved: fmpq, hats: list[Hat], cells: FloatArray) -> list[fmpq]:
    """Bound the sum of the errors `(n_hats, dim_out)` of all hats that overlap at one place."""
    if moved >= _CLOSE:
        return list(bounds.sum(axis=0))
    # A stored hat is 0 where the exact one is below -moved, so its support is only slightly larger.
    low, high = np.array([hat.low for hat in hats]), np.array([hat.high for hat in hats])
    slack = 2.0**-50 * np.maximum(np.abs(low), np.abs(high))
    steps = 2.0**-8 * (high - low) + slack
    low, high = low - steps, high + steps
    sums = [
        bounds[((low <= corners.max(axis=0)) & (high >= corners.min(axis=0))).all(axis=1)].sum(
            axis=0
        )
        for corners in cells
    ]
    return [max(column) for column in zip(*sums, strict=True)]


def _hats_of_mesh(mesh: Mesh) -> list[Hat]:
    """Return the hats of all vertices."""
    complex_ = mesh._complex
    values = exact_numbers(mesh.values)
    hats = []
    for star in stars(complex_):
        corners = mesh.vertices[np.unique(mesh.simplices[star.simplices])]
        forms = _star_forms(complex_, star)
        sets = [distinct(forms[list(members)]) for members in lattice_sets(star)]
        place = mesh.vertices[star.vertex]
        ends = corners.min(axis=0), corners.max(axis=0)
        hats.append(Hat(place, sets, values[star.vertex], *ends))
    return hats


def _star_forms(mesh: MeshComplex, star: Star) -> WideArray:
    """Return the forms that are 1 at the vertex of a star and 0 on the facets opposite to it."""
    point = mesh.points[star.vertex]
    heights = star.rows @ point
    factors = [fmpq(point[-1], height) for height in heights.tolist()]
    return np.asarray(star.rows * np.array(factors, dtype=object)[:, None], dtype=object)


def _hats_of_knots(t: FloatArray, values: WideArray) -> list[Hat]:
    """Return the hats of knots, from left to right."""
    exact = exact_numbers(t)
    gaps = exact[1:] - exact[:-1]
    hats = []
    for k, at in enumerate(exact):
        sides = [*(1 / gap for gap in gaps[:k][-1:]), *(-1 / gap for gap in gaps[k:][:1])]
        forms = np.array([[slope, 1 - slope * at] for slope in sides], dtype=object)
        ends = t[[max(k - 1, 0)]], t[[min(k + 1, len(gaps))]]
        hats.append(Hat(t[[k]], [forms], values[k], *ends))
    return hats


def _knots_within(knots: Knots, box: Box) -> tuple[FloatArray, WideArray]:
    """Return the knots and values, extended to the ends of the box if these lie beyond."""
    t, values, forms = knots.positions, list(exact_numbers(knots.values)), knots.exact_forms
    low, high = exact_numbers(box.low)[0], exact_numbers(box.high)[0]
    if box.low[0] < t[0]:
        t, values = np.r_[box.low, t], [forms[0] @ [low, fmpq(1)], *values]
    if box.high[0] > t[-1]:
        t, values = np.r_[t, box.high], [*values, forms[-1] @ [high, fmpq(1)]]
    return t, np.stack(values)
