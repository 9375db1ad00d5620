r"""Which affine form is largest at a point: the scan, and the exact play-off. No checks.

The bounds are those of Lemma 2 in `hardmax.algebra.exact.rounding`, whose constant leaves room for
the rounding of $\hat v \pm \hat\beta$.
"""

import numba
import numpy as np

from hardmax._kernels.expansions import UNDECIDED, difference_sign
from hardmax.typing import FloatArray, IntArray, SignArray

FILTERED, EXPANDED, PENDING = 0, 1, 2


@numba.njit(cache=True)
def clear_winners_into(
    values: FloatArray, bounds: FloatArray, form: IntArray, pending: IntArray
) -> int:
    r"""Write the winner of each row whose margin proves it; return how many rows remain.

    If every computed value of a row is within $\hat\beta$ of the truth and the largest leads the
    second by more than $2 \hat\beta$, the largest wins alone.

    Args:
        values: Computed values, `(n_points, n_forms)` with `n_forms >= 1`.
        bounds: One $\hat\beta$ for each row, `(n_points,)`.
        form: `(n_points,)`, overwritten where proved.
        pending: Buffer `(n_points,)`; its head is overwritten with the rows that remain.
    """
    n_points, n_forms = values.shape
    count = 0
    for p in range(n_points):
        best = -np.inf
        second = -np.inf
        winner = 0
        finite = 0.0
        for j in range(n_forms):
            value = values[p, j]
            # 0 for finite values; NaN as soon as one is not, and then for good.
            finite += value - value
            if value > best:
                second = best
                best = value
                winner = j
            elif value > second:
                second = value
        if finite == 0.0 and (n_forms == 1 or best - second > 2.0 * bounds[p]):
            form[p] = winner
        else:
            pending[count] = p
            count += 1
    return count


@numba.njit(cache=True)
def exact_values_winners_into(
    values: FloatArray, multiplicity: IntArray, form: IntArray, n_tied: IntArray
) -> None:
    """Write the first largest value of each row and how often it occurs."""
    n_points, n_forms = values.shape
    for p in range(n_points):
        best = values[p, 0]
        form[p] = 0
        n_tied[p] = multiplicity[0]
        for j in range(1, n_forms):
            value = values[p, j]
            if value > best:
                best = value
                form[p] = j
                n_tied[p] = multiplicity[j]
            elif value == best:
                n_tied[p] += multiplicity[j]


@numba.njit(cache=True)
def playoff_winners_into(
    slopes: FloatArray,
    offsets: FloatArray,
    multiplicity: IntArray,
    points: FloatArray,
    rows: IntArray,
    filtering: bool,
    factor: float,
    allowance: float,
    upper: FloatArray,
    expansion: FloatArray,
    form: IntArray,
    n_tied: IntArray,
    stage: SignArray,
) -> None:
    r"""Decide the listed points: intervals first, then exact comparisons of who is left.

    Every form gets an interval $\hat v_j \pm \hat\beta_j$ from its own magnitude; who ends below
    where another begins is out. If several remain they play in the order of their indices, each
    against the champion so far, by `difference_sign`.

    Args:
        slopes: `(n_forms, dim)`, `n_forms >= 1`.
        offsets: `(n_forms,)`.
        multiplicity: How many forms each row stands for, `(n_forms,)`.
        points: `(n_points, dim)`.
        rows: The points to decide.
        filtering: False: every form plays.
        factor: $\kappa$ of `dim` products.
        allowance: $T$.
        upper: Buffer `(n_forms,)`.
        expansion: Buffer of `4 * dim + 4` entries.
        form: `(n_points,)`, overwritten at `rows`.
        n_tied: `(n_points,)`, overwritten at `rows`.
        stage: `(n_points,)`, overwritten at `rows`: `FILTERED`, `EXPANDED`, or `PENDING` if
            the compiled arithmetic could not take a comparison.
    """
    n_forms, dim = slopes.shape
    for r in range(rows.shape[0]):
        p = rows[r]
        floor = -np.inf
        for j in range(n_forms):
            upper[j] = np.inf
            if filtering:
                value = offsets[j]
                size = abs(value)
                for k in range(dim):
                    term = slopes[j, k] * points[p, k]
                    value += term
                    size += abs(term)
                bound = factor * size + allowance
                # An overflow leaves the form in play and its value unused.
                if abs(value) < np.inf and bound < np.inf:
                    upper[j] = value + bound
                    floor = max(floor, value - bound)
        champion = -1
        tied = 0
        decided = FILTERED
        for j in range(n_forms):
            if upper[j] < floor:
                continue
            if champion < 0:
                champion = j
                tied = multiplicity[j]
                continue
            answer = difference_sign(slopes, offsets, j, champion, points, p, expansion)
            if answer == UNDECIDED:
                decided = PENDING
                break
            decided = EXPANDED
            if answer > 0:
                champion = j
                tied = multiplicity[j]
            elif answer == 0:
                tied += multiplicity[j]
        form[p] = champion
        n_tied[p] = tied
        stage[p] = decided
