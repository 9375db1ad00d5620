r"""The one primitive: which of several affine forms is largest, exactly, for batches of points.

A batch costs one float64 matrix product and a scan. Only points whose two best values lie within
the error bound of each other are looked at again, one form at a time, and only the forms that
remain in play there are compared in exact arithmetic.
"""

from ctypes import Structure, byref, c_int64, c_void_p
from typing import NamedTuple

import numpy as np
from flint import fmpz_mat

from hardmax._core.library import core
from hardmax._core.memory import address
from hardmax._ground.arguments import Sizes, prepare_array
from hardmax.exact.decisions import Decisions, Stage, starting_stage
from hardmax.exact.dyadic import homogeneous_points, integer_matrix
from hardmax.exact.forms import AffineForms
from hardmax.exact.rounding import (
    UNDERFLOW_ALLOWANCE,
    dot_products_are_exact,
    rounding_factor,
)
from hardmax.typing import FloatArray, IntArray

UNDECIDED = 2
"""What stands in place of a sign that a stage could not take."""


class StoredForms(Structure):
    """`hm_stored_forms` of the interface."""

    _fields_ = (
        *((name, c_void_p) for name in ("slopes", "offsets", "points")),
        ("dim", c_int64),
    )


def stored_forms(slopes: FloatArray, offsets: FloatArray, points: FloatArray) -> StoredForms:
    """Hand forms and points to the core; the arrays are contiguous, and must stay.

    Args:
        slopes: Shape `(n_forms, dim)`.
        offsets: Shape `(n_forms,)`.
        points: Shape `(n_points, dim)`.
    """
    return StoredForms(address(slopes), address(offsets), address(points), slopes.shape[1])


_BLOCK = 2**20
"""How many values are held at a time."""
_TERMS_AT_ONCE = 2**18
"""How many products are looked at in one call."""
_FILTERED, _EXPANDED, _PENDING = range(3)
"""What decided a point: intervals, expansions, or nothing."""


class Winners(NamedTuple):
    """The largest form at each point.

    Attributes:
        form: The first index that attains the maximum, shape `(n_points,)`.
        n_tied: How many forms attain it, shape `(n_points,)`.
    """

    form: IntArray
    n_tied: IntArray


def winners(
    forms: AffineForms,
    points: FloatArray,
    *,
    start: Stage = "filtered",
    tally: Decisions | None = None,
) -> Winners:
    r"""Find the first $j$ that attains $\max_j \langle a_j, x \rangle + c_j$, and how many do.

    Equal forms tie everywhere. The answer is about the numbers as stored: no tolerance enters it.

    Args:
        forms: The $a_j$ and $c_j$.
        points: The $x$, shape `(n_points, dim)`.
        start: The first stage to try; `"rational"` is the all-exact mode.
        tally: Counts the decisions of each stage, one for each point, by the last stage it
            needed.

    Raises:
        NonFiniteError: If a point is not finite.
        ShapeMismatchError: If the points have another dimension.

    Examples:
        At $x = 1$ the forms $x$ and $1$ tie with the copy of $x$; just above, $x$ wins:

        >>> forms = AffineForms([[0.0], [1.0], [1.0]], [1.0, 0.0, 0.0])
        >>> result = winners(forms, np.array([[1.0], [1.0 + 2**-52]]))
        >>> result.form.tolist(), result.n_tied.tolist()
        ([0, 1], [3, 2])
    """
    points = Sizes(dim=forms.dim).floats("points", points, ("n_points", "dim"), nonempty=())
    first_stage = starting_stage(start)
    tally = Decisions() if tally is None else tally
    first, multiplicity = _distinct(forms)
    slopes, offsets = forms.slopes[first], forms.offsets[first]
    points = prepare_array(points)
    form = np.zeros(len(points), dtype=np.int64)
    n_tied = np.zeros(len(points), dtype=np.int64)
    pending = np.arange(len(points))
    if first_stage == 0:
        pending = _scan(slopes, offsets, multiplicity, points, form, n_tied)
    tally.record(filtered=len(points) - len(pending))
    if len(pending) and first_stage <= 1:
        stage = np.empty(len(points), dtype=np.int8)
        buffers = np.empty(len(slopes)), np.empty(4 * forms.dim + 4)
        arrays = [address(array) for array in (*buffers, form, n_tied, stage)]
        bound = first_stage == 0, rounding_factor(forms.dim), UNDERFLOW_ALLOWANCE
        stored, places = byref(stored_forms(slopes, offsets, points)), address(multiplicity)
        step = max(1, _TERMS_AT_ONCE // slopes.size) if slopes.size else len(pending)
        for low in range(0, len(pending), step):
            rows = pending[low : low + step]
            mine = len(rows), address(rows)
            core().hm_winners_play_off(stored, len(slopes), places, *mine, *bound, *arrays)
        reached = np.bincount(stage[pending], minlength=3).tolist()
        tally.record(filtered=reached[_FILTERED], expanded=reached[_EXPANDED])
        pending = pending[stage[pending] == _PENDING]
    if len(pending):
        _rational_winners(slopes, offsets, multiplicity, points, pending, form, n_tied)
        tally.record(rational=len(pending))
    return Winners(first[form], n_tied)


def _distinct(forms: AffineForms) -> tuple[IntArray, IntArray]:
    """Find the first index of each distinct form, in order, and how many forms equal it."""
    # Adding 0 turns -0.0 into 0.0: equal numbers get equal bytes.
    table = np.column_stack([forms.slopes, forms.offsets]) + 0.0
    count: dict[bytes, int] = {}
    first = []
    for index, row in enumerate(table):
        key = row.tobytes()
        if key not in count:
            first.append(index)
        count[key] = count.get(key, 0) + 1
    return np.array(first, dtype=np.int64), np.array(list(count.values()), dtype=np.int64)


def _scan(
    slopes: FloatArray,
    offsets: FloatArray,
    multiplicity: IntArray,
    points: FloatArray,
    form: IntArray,
    n_tied: IntArray,
) -> IntArray:
    r"""Write the winners that one matrix product proves; return the points that remain.

    All values at $x$ have magnitude at most $\sum_k |x_k| \max_j |a_{jk}| + \max_j |c_j|$, so one
    matrix-vector product bounds the errors of the whole batch.
    """
    dim = slopes.shape[1]
    exact = dot_products_are_exact(points, slopes, offsets)
    largest_slopes = np.abs(slopes).max(axis=0, initial=0.0)
    largest_offset = np.abs(offsets).max(initial=0.0)
    remaining = [np.empty(0, dtype=np.int64)]
    rows = max(1, _BLOCK // len(slopes))
    for low in range(0, len(points), rows):
        block = slice(low, low + rows)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            values = points[block] @ slopes.T
            values += offsets
            if exact:
                arrays = map(address, (values, multiplicity, form[block], n_tied[block]))
                core().hm_winners_exact(*values.shape, *arrays)
                continue
            sizes = np.abs(points[block]) @ largest_slopes + largest_offset
            bounds = rounding_factor(dim) * sizes + UNDERFLOW_ALLOWANCE
        pending = np.empty(len(values), dtype=np.int64)
        arrays = map(address, (values, bounds, form[block], pending))
        count = core().hm_winners_clear(*values.shape, *arrays)
        n_tied[block] = multiplicity[form[block]]
        remaining.append(low + pending[:count])
    return np.concatenate(remaining)


def _rational_winners(
    slopes: FloatArray,
    offsets: FloatArray,
    multiplicity: IntArray,
    points: FloatArray,
    rows: IntArray,
    form: IntArray,
    n_tied: IntArray,
) -> None:
    """Write the winners at the listed points in flint integers: the last word."""
    matrix, _ = integer_matrix(np.column_stack([slopes, offsets]))
    homogeneous = homogeneous_points(points[rows])
    scores = fmpz_mat(*homogeneous.shape, homogeneous.ravel().tolist()) * matrix.transpose()
    for row, values in zip(rows, scores.tolist(), strict=True):
        best = max(values)
        tied = [j for j, value in enumerate(values) if value == best]
        form[row] = tied[0]
        n_tied[row] = multiplicity[tied].sum()
