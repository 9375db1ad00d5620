r"""The sets of k largest forms on the plane, found by the compiled core.

The core traverses the boundary of each cell once and continues across each of its walls. This
module finds the first wall: the leftmost one on the line $x_2 = \epsilon$, where $\epsilon$ is a
formal positive number smaller than every real one.
"""

from collections.abc import Sequence
from ctypes import Structure, byref, c_int32, c_void_p
from typing import NamedTuple

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import MemoryBlock, address
from hardmax.exact.integer_vectors import Vector, wide_rows
from hardmax.geometry.convex_hulls import limbs
from hardmax.typing import IntArray

_NO_ROOM, _ONGOING = 2, 1
_BUDGET = 500
"""Number of cells traversed per call of the core. Interrupts are handled between calls."""


class _CoreForms(Structure):
    """`hm_forms` of the interface."""

    _fields_ = (
        ("n", c_int32),
        ("slope_limbs", c_int32),
        ("offset_limbs", c_int32),
        ("slopes", c_void_p),
        ("offsets", c_void_p),
    )


class PlanarOrderK(NamedTuple):
    """The cells of an order-k diagram in the plane.

    Attributes:
        sets: The winners of each cell, shape `(n_cells, min(k, n_forms) + 1)`: the forms all of
            whose copies win, ascending and padded with `n_forms`; in the last column, the form of
            which only some copies win, or `n_forms`.
        first_wall: Offsets into `walls`: cell `i` has the walls `first_wall[i]` to
            `first_wall[i + 1]`.
        walls: For each wall, two forms that tie along it, shape `(n_walls, 2)`: a form that wins
            (at least in part), and a form that wins less or not at all.
    """

    sets: IntArray
    first_wall: IntArray
    walls: IntArray


def planar_order_k(forms: Sequence[Vector], multiplicity: Sequence[int], k: int) -> PlanarOrderK:
    """Find all sets of k winners in the plane.

    Args:
        forms: Distinct rows of three integers on one common scale, with slopes that do not lie on a
            line.
        multiplicity: The number of copies of each form.
        k: The number of copies that win, at least 1 and less than the total number of copies.
    """
    rows = wide_rows(forms, 3)
    slopes, offsets = limbs(rows[:, :2])[0], limbs(rows[:, 2])[0]
    packed = _CoreForms(
        len(forms), slopes.shape[-1], offsets.shape[-1], address(slopes), address(offsets)
    )
    copies = np.array(multiplicity, dtype=np.int32)
    winners, (i, j) = _find_first_wall(forms, multiplicity, k)
    tied = np.array(_find_tied_forms(forms, i, j), dtype=np.int32)
    library = core()
    room = 4 * k * len(forms) + 100
    while True:
        memory = MemoryBlock(library.hm_order_k_size(byref(packed), k, room))
        library.hm_order_k_begin(
            memory.address,
            byref(packed),
            address(copies),
            k,
            room,
            address(winners),
            address(tied),
            len(tied),
            i,
            j,
        )
        while (status := library.hm_order_k_run(memory.address, _BUDGET)) == _ONGOING:
            pass
        if status != _NO_ROOM:
            break
        room *= 2
    counts = np.zeros(2, dtype=np.int32)
    library.hm_order_k_read(memory.address, address(counts), None, None, None)
    n_cells, n_walls = counts.tolist()
    sets = np.empty((n_cells, min(k, len(forms)) + 1), dtype=np.int32)
    first_wall = np.empty(n_cells + 1, dtype=np.int32)
    walls = np.empty((n_walls, 2), dtype=np.int32)
    library.hm_order_k_read(memory.address, *map(address, (counts, sets, first_wall, walls)))
    return PlanarOrderK(sets.astype(np.int64), first_wall.astype(np.int64), walls.astype(np.int64))


def _find_first_wall(
    forms: Sequence[Vector], multiplicity: Sequence[int], k: int
) -> tuple[IntArray, tuple[int, int]]:
    r"""Find the winners at the far left end of a line, and the first pair of forms that swap.

    On the line $(s, \epsilon)$, a form is $a_1 s + c + \epsilon a_2$. As $s \to -\infty$, the
    winners are the forms with the least $a_1$, then the greatest $c$, then the greatest $a_2$.
    Forms $(a, c)$ and $(b, d)$ with $a_1 < b_1$ tie at $s = (c - d) / (b_1 - a_1)$; equal values
    are ordered by $(a_2 - b_2) / (b_1 - a_1)$. If no winner ever ties with a loser, the line
    $(\epsilon, s)$ is used instead.
    """
    n = len(forms)
    for one, other in ((0, 1), (1, 0)):
        turned = [(form[one], form[2], form[other]) for form in forms]
        ranked = [g for *_, g in sorted((x, -c, -y, g) for g, (x, c, y) in enumerate(turned))]
        missing, length = k, 0
        while missing >= multiplicity[ranked[length]]:
            missing -= multiplicity[ranked[length]]
            length += 1
        winners, losers = ranked[:length], ranked[length:]
        pairs = [(i, j) for i in winners for j in losers]
        part = n
        if missing:  # Some copies of one form win and some lose.
            part, *losers = losers
            pairs = [(i, part) for i in winners] + [(part, j) for j in losers]
        first = None
        for i, j in pairs:
            rise = turned[j][0] - turned[i][0]
            if rise > 0:
                tie = (turned[i][1] - turned[j][1], turned[i][2] - turned[j][2], rise)
                if first is None or _is_before(tie, first):
                    first, wall = tie, (i, j)
        if first is not None:
            key = [*sorted(winners), *[n] * (min(k, n) - length), part]
            return np.array(key, dtype=np.int32), wall
    raise AssertionError("the slopes are on a line")


def _is_before(tie: Vector, other: Vector) -> bool:
    """Compare two ties `(c, b, rise)`: by c / rise, then by b / rise."""
    left, right = tie[0] * other[2], other[0] * tie[2]
    return left < right or (left == right and tie[1] * other[2] < other[1] * tie[2])


def _find_tied_forms(forms: Sequence[Vector], i: int, j: int) -> list[int]:
    """Return the forms that tie with forms `i` and `j` on the whole line where these two tie."""
    a, b, c = (y - x for x, y in zip(forms[i], forms[j], strict=True))
    tied = []
    for h, form in enumerate(forms):
        x, y, z = (q - p for p, q in zip(forms[i], form, strict=True))
        if a * y == b * x and a * z == c * x and b * z == c * y:
            tied.append(h)
    return tied
