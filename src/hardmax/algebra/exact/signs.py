r"""Exact signs of affine forms, and of their differences, at float64 points.

The data mean the dyadic rationals they store, so each sign is a fact, and three stages look for
it: float64 with the error bound of `rounding` (Lemmas 1 to 3), compiled expansions
(`core/include/hardmax/exact_signs.hpp`), and integers of any size. A stage answers only what it can
prove; turning stages off changes how long it takes and nothing else.
"""

from ctypes import byref
from typing import Any

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import address
from hardmax.algebra.exact.decisions import Decisions, Stage, starting_stage
from hardmax.algebra.exact.dyadic import homogeneous_points, scaled_integers
from hardmax.algebra.exact.rounding import (
    UNDERFLOW_ALLOWANCE,
    dot_products_are_exact,
    rounding_factor,
)
from hardmax.algebra.exact.selection import selected_indices
from hardmax.algebra.exact.stored_forms import UNDECIDED, stored_forms
from hardmax.algebra.forms import AffineForms
from hardmax.arguments import Sizes
from hardmax.typing import FloatArray, IntArray, SignArray

_BLOCK = 2**20
"""How many values are held at a time."""
_TERMS_AT_ONCE = 2**16
"""How many products are expanded in one call."""


def sign_of_forms(
    forms: AffineForms,
    points: FloatArray,
    *,
    start: Stage = "filtered",
    tally: Decisions | None = None,
) -> SignArray:
    r"""Decide the sign of $\langle a_j, x \rangle + c_j$ for every point and form.

    Args:
        forms: The $a_j$ and $c_j$.
        points: The $x$, shape `(n_points, dim)`.
        start: The first stage to try; `"rational"` is the all-exact mode.
        tally: Counts the decisions of each stage, one for each sign.

    Returns:
        Entries -1, 0, +1, shape `(n_points, n_forms)`.

    Raises:
        NonFiniteError: If a point is not finite.
        ShapeMismatchError: If the points have another dimension.

    Examples:
        The products of the second form underflow, and its value is not zero:

        >>> forms = AffineForms([[1.0, -1.0], [1e-200, 0.0]], [0.0, 0.0])
        >>> sign_of_forms(forms, np.array([[0.1, 0.1], [1e-200, 1e-201]])).tolist()
        [[0, 1], [1, 1]]
    """
    return _signs(forms, points, np.arange(forms.n_forms), None, start, tally)


def sign_of_differences(
    forms: AffineForms,
    pairs: IntArray,
    points: FloatArray,
    *,
    start: Stage = "filtered",
    tally: Decisions | None = None,
) -> SignArray:
    r"""Decide which of two forms is larger, for every point and pair of forms.

    The sign of $\langle a_i, x \rangle + c_i - \langle a_j, x \rangle - c_j$ is exact: the
    difference $a_i - a_j$ is not rounded first.

    Args:
        forms: The $a_i$ and $c_i$.
        pairs: The pairs $(i, j)$, shape `(n_pairs, 2)`.
        points: The $x$, shape `(n_points, dim)`.
        start: The first stage to try; `"rational"` is the all-exact mode.
        tally: Counts the decisions of each stage.

    Returns:
        +1 where form $i$ is larger, -1 where form $j$ is, 0 at a tie: `(n_points, n_pairs)`.

    Raises:
        ArgumentError: If a pair names no form.

    Examples:
        In float64 both offsets vanish against 1:

        >>> forms = AffineForms([[1.0], [1.0]], [1e-40, 1e-41])
        >>> sign_of_differences(forms, np.array([[0, 1], [1, 1]]), np.array([[1.0]])).tolist()
        [[1, 0]]
    """
    pairs = Sizes().ints("pairs", pairs, ("n_pairs", 2), nonempty=())
    if pairs.size:
        selected_indices("pairs", pairs.ravel(), forms.n_forms)
    plus, minus = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    return _signs(forms, points, plus, minus, start, tally)


def _signs(
    forms: AffineForms,
    points: Any,
    plus: IntArray,
    minus: IntArray | None,
    start: Stage,
    tally: Decisions | None,
) -> SignArray:
    """Decide form `plus` less form `minus` (or less nothing), column by column."""
    points = Sizes(dim=forms.dim).floats("points", points, ("n_points", "dim"), nonempty=())
    data = forms.slopes, forms.offsets, np.ascontiguousarray(points)
    first_stage = starting_stage(start)
    tally = Decisions() if tally is None else tally
    sign = np.zeros((len(points), len(plus)), dtype=np.int8)
    exact = first_stage == 0 and dot_products_are_exact(points, *data[:2])
    rows = max(1, _BLOCK // (forms.n_forms + len(plus)))
    for low in range(0, len(points), rows):
        block = sign[low : low + rows]
        pending = np.arange(block.size)
        if first_stage == 0:
            pending = _filter_block(*data, low, plus, minus, exact, block)
        tally.record(filtered=block.size - len(pending))
        if len(pending):
            point, column = np.divmod(pending, len(plus))
            rival = np.full(len(pending), -1) if minus is None else minus[column]
            triples = low + point, plus[column], rival
            block.reshape(-1)[pending] = _decide(*data, *triples, first_stage, tally)
    return sign


def _filter_block(
    slopes: FloatArray,
    offsets: FloatArray,
    points: FloatArray,
    low: int,
    plus: IntArray,
    minus: IntArray | None,
    exact: bool,
    sign: SignArray,
) -> IntArray:
    """Write the signs of a block of points that one matrix product proves; return the others."""
    block = points[low : low + len(sign)]
    slope_sizes = np.abs(slopes).max(axis=1, initial=0.0)
    offset_sizes = np.abs(offsets)
    with np.errstate(over="ignore", invalid="ignore"):
        values = block @ slopes.T
        values += offsets
        if minus is not None:
            values = np.ascontiguousarray(values[:, plus] - values[:, minus])
            slope_sizes = slope_sizes[plus] + slope_sizes[minus]
            offset_sizes = offset_sizes[plus] + offset_sizes[minus]
        if exact:
            # The difference of two exact values may round, but never to another sign.
            sign[...] = np.sign(values)
            return np.empty(0, dtype=np.int64)
        point_sizes = np.abs(block).sum(axis=1)
    pending = np.empty(values.size, dtype=np.int64)
    factor = rounding_factor(2 * slopes.shape[1] + 1)
    arrays = map(address, (values, point_sizes, slope_sizes, offset_sizes))
    found = address(sign), address(pending)
    count = core().hm_signs_coarse(*values.shape, *arrays, factor, UNDERFLOW_ALLOWANCE, *found)
    return pending[:count]


def _decide(
    slopes: FloatArray,
    offsets: FloatArray,
    points: FloatArray,
    point: IntArray,
    plus: IntArray,
    minus: IntArray,
    first_stage: int,
    tally: Decisions,
) -> SignArray:
    """Decide the sign of form `plus` less form `minus` (-1: zero) at `point`, for each triple."""
    data = slopes, offsets, points
    sign = np.full(len(point), UNDECIDED, dtype=np.int8)
    triples = tuple(np.ascontiguousarray(index) for index in (point, plus, minus))
    forms = byref(stored_forms(*data))
    if first_stage == 0:
        bound = rounding_factor(2 * slopes.shape[1] + 1), UNDERFLOW_ALLOWANCE
        arrays = map(address, triples)
        core().hm_signs_filtered(forms, len(point), *arrays, *bound, address(sign))
    left = np.flatnonzero(sign == UNDECIDED)
    tally.record(filtered=len(sign) - len(left))
    if len(left) and first_stage <= 1:
        expansion = np.empty(4 * slopes.shape[1] + 4)
        part = np.empty(len(left), dtype=np.int8)
        step = max(1, _TERMS_AT_ONCE // len(expansion))
        for low in range(0, len(left), step):
            mine = left[low : low + step]
            here = *(t[mine] for t in triples), expansion, part[low : low + step]
            core().hm_signs_expanded(forms, len(mine), *map(address, here))
        sign[left] = part
        still = left[part == UNDECIDED]
        tally.record(expanded=len(left) - len(still))
        left = still
    if len(left):
        sign[left] = _rational_signs(*data, *(t[left] for t in triples))
        tally.record(rational=len(left))
    return sign


def _rational_signs(
    slopes: FloatArray,
    offsets: FloatArray,
    points: FloatArray,
    point: IntArray,
    plus: IntArray,
    minus: IntArray,
) -> SignArray:
    """Decide the triples in Python integers: the last word."""
    needed, place = np.unique(point, return_inverse=True)
    homogeneous = homogeneous_points(points[needed])
    matrix = scaled_integers(np.column_stack([slopes, offsets])).integers
    zero = np.zeros_like(matrix[:1])
    # Row -1 is then the zero form.
    matrix = np.concatenate([matrix, zero])
    difference = matrix[plus] - matrix[minus]
    values = (difference * homogeneous[place]).sum(axis=1)
    return np.asarray(np.sign(values), dtype=np.int8)
