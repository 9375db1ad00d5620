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
        forms: Constraints, among them all facets; which sign holds inside does not matter.
        vertices: The vertices, each once.
        masks: For each vertex the forms that vanish there: bit `i` stands for `forms[i]`.
    """

    forms: tuple[Form, ...]
    vertices: tuple[Form, ...]
    masks: tuple[int, ...]


def space(dim: int) -> ExactCell:
    r"""Return the cube $[-M, M]^d$.

    Examples:
        >>> space(1)
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


def from_masks(forms: Sequence[Form], masks: Iterable[int]) -> ExactCell:
    """Put a polytope together from its constraints and what its vertices lie on."""
    masks = tuple(masks)
    return ExactCell(tuple(forms), tuple(_meet(forms, mask) for mask in masks), masks)


def clipped(cell: ExactCell, form: Form, *, is_lower: bool = False) -> ExactCell | None:
    """Return the part where a form is positive: the cell itself, a smaller one, or None.

    A form that vanishes on the whole cell leaves nothing. New vertices come in the order of the
    edges they lie on, of the lower part in that of the upper one.

    Examples:
        >>> half = clipped(space(1), (2, -1, 0))
        >>> half.vertices
        ((0, 1, 1), (1, 0, 2))
        >>> clipped(half, (-2, 1, 0)) is None
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
        vertices.append(_meet(forms, common | new_bit))
        masks.append(common | new_bit)
    return ExactCell(forms, tuple(vertices), tuple(masks))


def vanishing(cell: ExactCell, form: Form) -> list[int] | None:
    """List the forms of a cell on whose vertices another form vanishes; None: on all vertices.

    Examples:
        >>> vanishing(space(2), (1, 0, 0, 1)), vanishing(space(2), (1, 0, 0, 2))
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


def with_facets_only(cell: ExactCell) -> tuple[ExactCell, list[int]]:
    """Take constraints with too few vertices to be facets away; return which stay as well."""
    dim = len(cell.forms[0]) - 2
    stay = [i for i in range(len(cell.forms)) if sum(mask >> i & 1 for mask in cell.masks) >= dim]
    masks = [sum((mask >> old & 1) << new for new, old in enumerate(stay)) for mask in cell.masks]
    forms = tuple(cell.forms[i] for i in stay)
    return ExactCell(forms, cell.vertices, tuple(masks)), stay


def sign_at(form: Form, vertex: Form) -> int:
    """Return the sign of a form at a vertex: the part at infinity first.

    Examples:
        >>> [sign_at((2, -1, 0), vertex) for vertex in space(1).vertices]
        [-1, 1]
    """
    dim = len(form) - 2
    w = vertex[-1]
    far = sum(a * v for a, v in zip(form, vertex[dim:-1], strict=False)) + form[-1] * w
    if far != 0:
        return 1 if far > 0 else -1
    near = sum(a * p for a, p in zip(form, vertex[:dim], strict=False)) + form[dim] * w
    return int(near > 0) - int(near < 0)


def _meet(forms: Sequence[Form], mask: int) -> Form:
    """Return the one point where the forms of a mask vanish.

    Raises:
        RecordFormatError: If there is no such point, or more than one: a file has this cell.
    """
    dim = len(forms[0]) - 2
    tight = [list(form) for i, form in enumerate(forms) if mask >> i & 1]
    reduced, scale, rank = fmpz_mat(tight).rref()
    # The last pivot is in column `dim - 1`, so the others are in those before.
    if rank != dim or reduced[dim - 1, dim - 1] == 0:
        raise RecordFormatError(
            "`task` must be what is left of a search; the walls of a cell do not meet in a vertex."
        )
    near = [-int(reduced[k, dim]) for k in range(dim)]
    far = [-int(reduced[k, dim + 1]) for k in range(dim)]
    row = [*near, *far, int(scale)]
    divisor = gcd(*row) if row[-1] > 0 else -gcd(*row)
    return tuple(x // divisor for x in row)
