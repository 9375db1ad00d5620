r"""Convex polytopes in exact arithmetic, with a formal infinity.

A form is a row of integers $(a, c_0, c_1)$, the function $\langle a, t\rangle + c_0 + c_1 M$ with
$M$ larger than every number; all of space is the cube $[-M, M]^d$. A vertex is a row of integers
$(p, v, w)$, the point $(p + M v) / w$ with $w > 0$.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import product
from math import gcd
from operator import or_
from typing import NamedTuple

from flint import fmpz_mat

from hardmax.errors import RecordFormatError

Form = tuple[int, ...]


class ExactCell(NamedTuple):
    """A polytope with interior.

    Attributes:
        forms: Constraints, including all facets; the sign inside does not matter.
        vertices: The vertices, each once.
        masks: For each vertex, the forms that vanish there: bit `i` stands for `forms[i]`.
    """

    forms: tuple[Form, ...]
    vertices: tuple[Form, ...]
    masks: tuple[int, ...]


def whole_space(dim: int) -> ExactCell:
    r"""Return the cube $[-M, M]^d$.

    Examples:
        >>> whole_space(1)
        ExactCell(forms=((-1, 0, 1), (1, 0, 1)), vertices=((0, -1, 1), (0, 1, 1)), masks=(2, 1))
    """
    forms = []
    for k in range(dim):
        axis = [int(i == k) for i in range(dim)]
        forms += [(*(-x for x in axis), 0, 1), (*axis, 0, 1)]
    vertices, masks = [], []
    for corner in range(1 << dim):
        is_upper = [corner >> k & 1 for k in range(dim)]
        vertices.append((*[0] * dim, *(1 if up else -1 for up in is_upper), 1))
        masks.append(sum(1 << (2 * k + 1 - up) for k, up in enumerate(is_upper)))
    return ExactCell(tuple(forms), tuple(vertices), tuple(masks))


def cell_from_masks(forms: Sequence[Form], masks: Iterable[int]) -> ExactCell:
    """Build a polytope from its constraints and the masks of its vertices."""
    masks = tuple(masks)
    return ExactCell(tuple(forms), tuple(_solve_vertex(forms, mask) for mask in masks), masks)


def clip(cell: ExactCell, form: Form, *, is_lower: bool = False) -> ExactCell | None:
    """Return the part where a form is positive: the cell itself, a smaller one, or None.

    A form that vanishes on the whole cell leaves nothing. New vertices are ordered by the edges
    they lie on. For a lower part (`is_lower`) they have the same order as for the upper part.

    Examples:
        >>> half = clip(whole_space(1), (2, -1, 0))
        >>> half.vertices
        ((0, 1, 1), (1, 0, 2))
        >>> clip(half, (-2, 1, 0)) is None
        True
    """
    signs = [sign_at(form, vertex) for vertex in cell.vertices]
    if max(signs) <= 0:
        return None
    if min(signs) >= 0:
        return cell
    forms = (*cell.forms, form)
    new_bit = 1 << len(cell.forms)
    vertices, masks = [], []
    for vertex, mask, sign in zip(cell.vertices, cell.masks, signs, strict=True):
        if sign >= 0:
            vertices.append(vertex)
            masks.append(mask | new_bit if sign == 0 else mask)
    dim = len(form) - 2
    above = [i for i, sign in enumerate(signs) if sign > 0]
    below = [i for i, sign in enumerate(signs) if sign < 0]
    for i, k in product(below, above) if is_lower else product(above, below):
        common = cell.masks[i] & cell.masks[k]
        if common.bit_count() < dim - 1:
            continue
        if any(m & common == common for n, m in enumerate(cell.masks) if n not in (i, k)):
            continue
        vertices.append(_solve_vertex(forms, common | new_bit))
        masks.append(common | new_bit)
    return ExactCell(forms, tuple(vertices), tuple(masks))


def find_vanishing(cell: ExactCell, form: Form) -> list[int] | None:
    """List the facets of a cell on which a form vanishes; None if it vanishes on the whole cell.

    Examples:
        >>> square = whole_space(2)
        >>> find_vanishing(square, (1, 0, 0, 1)), find_vanishing(square, (1, 0, 0, 2))
        ([1], [])
    """
    others = 0
    for vertex, mask in zip(cell.vertices, cell.masks, strict=True):
        if sign_at(form, vertex) != 0:
            others |= mask
    if others == 0:
        return None
    touched = reduce(or_, cell.masks)
    return [i for i in range(len(cell.forms)) if (touched & ~others) >> i & 1]


def drop_redundant_forms(cell: ExactCell) -> tuple[ExactCell, list[int]]:
    """Drop constraints with too few vertices to be facets; also return the indices that remain."""
    dim = len(cell.forms[0]) - 2
    stay = [i for i in range(len(cell.forms)) if sum(mask >> i & 1 for mask in cell.masks) >= dim]
    masks = [sum((mask >> old & 1) << new for new, old in enumerate(stay)) for mask in cell.masks]
    forms = tuple(cell.forms[i] for i in stay)
    return ExactCell(forms, cell.vertices, tuple(masks)), stay


def sign_at(form: Form, vertex: Form) -> int:
    """Return the sign of a form at a vertex; the part at infinity decides first.

    Examples:
        >>> [sign_at((2, -1, 0), vertex) for vertex in whole_space(1).vertices]
        [-1, 1]
    """
    dim = len(form) - 2
    w = vertex[-1]
    far = sum(a * v for a, v in zip(form, vertex[dim:-1], strict=False)) + form[-1] * w
    if far != 0:
        return 1 if far > 0 else -1
    near = sum(a * p for a, p in zip(form, vertex[:dim], strict=False)) + form[dim] * w
    return int(near > 0) - int(near < 0)


def _solve_vertex(forms: Sequence[Form], mask: int) -> Form:
    """Return the one point where the forms of a mask vanish.

    Raises:
        RecordFormatError: If there is no such point, or more than one, because the cell was read
            from a damaged file.
    """
    dim = len(forms[0]) - 2
    tight = [list(form) for i, form in enumerate(forms) if mask >> i & 1]
    reduced, scale, rank = fmpz_mat(tight).rref()
    # The last pivot is in column `dim - 1`, so the others are in those before.
    if rank != dim or reduced[dim - 1, dim - 1] == 0:
        raise RecordFormatError(
            "`task` must hold the rest of a search, but walls of one of its cells do not meet in a"
            " vertex. The file may be damaged."
        )
    near = [-int(reduced[k, dim]) for k in range(dim)]
    far = [-int(reduced[k, dim + 1]) for k in range(dim)]
    row = [*near, *far, int(scale)]
    divisor = gcd(*row) if row[-1] > 0 else -gcd(*row)
    return tuple(x // divisor for x in row)
