r"""The exact largest of several affine forms, for batches of points.

A batch costs one float64 matrix product and a scan. Only points whose two largest values differ by
less than the error bound are examined again, one form at a time. Only forms that can still win
there are compared in exact arithmetic.
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
"""The placeholder for a sign that a stage could not decide."""


class StoredForms(Structure):
    """`hm_stored_forms` of the interface."""

    _fields_ = (
        *((name, c_void_p) for name in ("slopes", "offsets", "points")),
        ("dim", c_int64),
    )


def stored_forms(slopes: FloatArray, offsets: FloatArray, points: FloatArray) -> StoredForms:
    """Pack forms and points for the core.

    The arrays must be contiguous, and the caller must keep them alive.

    Args:
        slopes: The slopes, shape `(n_forms, dim)`.
        offsets: The offsets, shape `(n_forms,)`.
        points: The points, shape `(n_points, dim)`.
    """
    return StoredForms(address(slopes), address(offsets), address(points), slopes.shape[1])


_BLOCK = 2**20
"""Maximum number of values in memory at a time."""
_TERMS_AT_ONCE = 2**18
"""Maximum number of products per call of the core."""
_FILTERED, _EXPANDED, _PENDING = range(3)
"""The stage that decided a point: intervals, expansions, or none so far."""


class Winners(NamedTuple):
    """The largest form at each point.

    Attributes:
        form: The index of the first form that attains the maximum, shape `(n_points,)`.
        n_tied: The number of forms that attain the maximum, shape `(n_points,)`.
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
    r"""Find the first $j$ that attains $\max_j \langle a_j, x \rangle + c_j$ at each point.

    The result also contains the number of forms that attain the maximum. Equal forms tie
    everywhere. The result is exact for the numbers as stored, without a tolerance.

    Args:
        forms: The forms, with slopes $a_j$ and offsets $c_j$.
        points: The points $x$, shape `(n_points, dim)`.
        start: The first stage to try; `"rational"` uses only exact integers.
        tally: Counters of decisions, to which one decision for each point is added, in the stage
            that decided it.

    Raises:
        NonFiniteError: If a point is not finite.
        ShapeMismatchError: If the points have the wrong dimension.

    Examples:
        At $x = 1$ the form $1$ ties with $x$ and with the copy of $x$; just above, $x$ wins:

        >>> forms = AffineForms([[0.0], [1.0], [1.0]], [1.0, 0.0, 0.0])
        >>> result = winners(forms, np.array([[1.0], [1.0 + 2**-52]]))
        >>> result.form.tolist(), result.n_tied.tolist()
        ([0, 1], [3, 2])
    """
    points = Sizes(dim=forms.dim).floats("points", points, ("n_points", "dim"), nonempty=())
    first_stage = starting_stage(start)
    tally = Decisions() if tally is None else tally
    first, multiplicity = _distinct_forms(forms)
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


def _distinct_forms(forms: AffineForms) -> tuple[IntArray, IntArray]:
    """Return the first index of each distinct form, in order, and the number of equal forms."""
    # Adding 0 turns -0.0 into 0.0, so that equal numbers have equal bytes.
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
    r"""Store the winners that one matrix product proves; return the remaining points.

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
    """Store the winners at the given points, computed in flint integers."""
    matrix, _ = integer_matrix(np.column_stack([slopes, offsets]))
    homogeneous = homogeneous_points(points[rows])
    scores = fmpz_mat(*homogeneous.shape, homogeneous.ravel().tolist()) * matrix.transpose()
    for row, values in zip(rows, scores.tolist(), strict=True):
        best = max(values)
        tied = [j for j, value in enumerate(values) if value == best]
        form[row] = tied[0]
        n_tied[row] = multiplicity[tied].sum()
