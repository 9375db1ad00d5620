r"""Signs from float64 and a proven bound, or no answer. No checks: see callers.

A value $\hat s$ is accepted when $\hat\beta < |\hat s| < \infty$ with the bound $\hat\beta =
\mathrm{fl}(\mathrm{fl}(\kappa \hat M) + T)$ of Lemma 2 in `hardmax.algebra.exact.rounding`. Where
something overflowed, $\hat s$ or $\hat\beta$ is an infinity or NaN and the test fails, as it must.
"""

import numba
import numpy as np

from hardmax.typing import FloatArray, IntArray, SignArray

UNDECIDED = 2
"""What stands in place of a sign that the filter could not take."""


@numba.njit(cache=True)
def coarse_signs_into(
    values: FloatArray,
    point_sizes: FloatArray,
    slope_sizes: FloatArray,
    offset_sizes: FloatArray,
    factor: float,
    allowance: float,
    sign: SignArray,
    pending: IntArray,
) -> int:
    r"""Write the signs that a rank-one bound proves; return how many it does not.

    The magnitude of form $j$ at point $x$ is at most $|x|_1 \|a_j\|_\infty + |c_j|$, which costs
    no matrix product.

    Args:
        values: Computed values, `(n_points, n_forms)`.
        point_sizes: The $|x|_1$, `(n_points,)`.
        slope_sizes: The $\|a_j\|_\infty$, `(n_forms,)`.
        offset_sizes: The $|c_j|$, `(n_forms,)`.
        factor: $\kappa$.
        allowance: $T$.
        sign: `(n_points, n_forms)`, overwritten where proved.
        pending: Buffer of `n_points * n_forms` entries; its head is overwritten with the flat
            positions that remain.
    """
    n_points, n_forms = values.shape
    count = 0
    for p in range(n_points):
        size = point_sizes[p]
        for j in range(n_forms):
            value = values[p, j]
            bound = factor * (size * slope_sizes[j] + offset_sizes[j]) + allowance
            if bound < abs(value) < np.inf:
                sign[p, j] = 1 if value > 0.0 else -1
            else:
                pending[count] = p * n_forms + j
                count += 1
    return count


@numba.njit(cache=True)
def difference_signs_into(
    slopes: FloatArray,
    offsets: FloatArray,
    points: FloatArray,
    point: IntArray,
    plus: IntArray,
    minus: IntArray,
    factor: float,
    allowance: float,
    sign: SignArray,
) -> None:
    r"""Write the sign of form `plus` less form `minus` for each triple, or `UNDECIDED`.

    The sum of `2 * dim` products is evaluated term by term, no difference of coefficients being
    formed first, and its own sum of magnitudes gives the bound.

    Args:
        slopes: `(n_forms, dim)`.
        offsets: `(n_forms,)`.
        points: `(n_points, dim)`.
        point: Rows of `points`, `(n_triples,)`.
        plus: Rows of `slopes`, `(n_triples,)`.
        minus: Rows of `slopes`, or -1 for the zero form, `(n_triples,)`.
        factor: The $\kappa$ of `2 * dim + 1` products.
        allowance: $T$.
        sign: `(n_triples,)`, overwritten.
    """
    dim = slopes.shape[1]
    for q in range(point.shape[0]):
        i, j, p = plus[q], minus[q], point[q]
        value = offsets[i]
        size = abs(value)
        for k in range(dim):
            term = slopes[i, k] * points[p, k]
            value += term
            size += abs(term)
        if j >= 0:
            value -= offsets[j]
            size += abs(offsets[j])
            for k in range(dim):
                term = slopes[j, k] * points[p, k]
                value -= term
                size += abs(term)
        if factor * size + allowance < abs(value) < np.inf:
            sign[q] = 1 if value > 0.0 else -1
        else:
            sign[q] = UNDECIDED


@numba.njit(cache=True)
def determinant_signs_into(
    matrices: FloatArray,
    factor: float,
    perturbation: float,
    largest_pivot: float,
    work: FloatArray,
    first: FloatArray,
    second: FloatArray,
    sign: SignArray,
) -> None:
    r"""Write the sign of each determinant that its LU factors prove, or `UNDECIDED`.

    Gaussian elimination with partial pivoting computes $\hat L \hat U = PA + \Delta$ with
    $|\Delta| \le \gamma_k |\hat L| |\hat U| + \tau$, where $\hat L$ is unit lower triangular and
    $\tau$ stands for underflow. The matrices $PA + t \Delta$, $0 \le t \le 1$, lead from $PA$ to
    $\hat L \hat U$, whose determinant has the known sign $\prod_i \operatorname{sign} \hat u_{ii}$.
    If none of them is singular, $\det PA$ has that sign too. Now $\hat L \hat U - s \Delta =
    \hat L \hat U (I - s (\hat L \hat U)^{-1} \Delta)$, so it is enough that

    $$z = |\hat U^{-1}| |\hat L^{-1}| (\gamma_k |\hat L| |\hat U| + \tau) e < 1$$

    in every component, $e$ being the vector of ones: $\max_i z_i$ bounds the row-sum norm of
    $(\hat L \hat U)^{-1} \Delta$. For a triangular $R$ the inverse of the comparison matrix $M(R)$
    ($|r_{ii}|$ on the diagonal, $-|r_{ij}|$ off it) satisfies $|R^{-1}| \le M(R)^{-1}$, so two
    triangular substitutions in which no subtraction occurs bound $z$ from above. Their rounding
    changes $z$ by a factor below 2 (see `hardmax.algebra.exact.determinants`), and the kernel
    asks for $\hat z \le 1/4$ with twice the $\gamma_k$. Cost: $O(k^2)$ on top of the elimination.

    Args:
        matrices: `(n, k, k)`.
        factor: $\kappa_k \ge 2 \gamma_k$.
        perturbation: At least $k \tau$.
        largest_pivot: The size of $|\hat U|$ up to which `perturbation` was proved.
        work: Buffer `(k, k)`.
        first: Buffer `(k,)`.
        second: Buffer `(k,)`.
        sign: `(n,)`, overwritten.

    References:
        [Higham02], theorems 8.12 and 9.3, and equation 2.8 for underflow; [Rump10] for the idea.
    """
    n, k = matrices.shape[:2]
    for matrix in range(n):
        for i in range(k):
            for j in range(k):
                work[i, j] = matrices[matrix, i, j]
        answer = _eliminate(work)
        if answer != 0 and _determinant_is_safe(
            work, factor, perturbation, largest_pivot, first, second
        ):
            sign[matrix] = answer
        else:
            sign[matrix] = UNDECIDED


@numba.njit(cache=True)
def _eliminate(work: FloatArray) -> int:
    """Overwrite a matrix by its LU factors; return the sign of their product, 0 if unusable."""
    k = work.shape[0]
    answer = 1
    for s in range(k):
        pivot = s
        for i in range(s + 1, k):
            if abs(work[i, s]) > abs(work[pivot, s]):
                pivot = i
        if work[pivot, s] == 0.0:
            return 0
        if pivot != s:
            answer = -answer
            for j in range(k):
                work[s, j], work[pivot, j] = work[pivot, j], work[s, j]
        if work[s, s] < 0.0:
            answer = -answer
        for i in range(s + 1, k):
            ratio = work[i, s] / work[s, s]
            work[i, s] = ratio
            for j in range(s + 1, k):
                work[i, j] -= ratio * work[s, j]
    return answer


@numba.njit(cache=True)
def _determinant_is_safe(
    work: FloatArray,
    factor: float,
    perturbation: float,
    largest_pivot: float,
    first: FloatArray,
    second: FloatArray,
) -> bool:
    """Check that the elimination error cannot make the matrix singular on the way."""
    k = work.shape[0]
    for i in range(k):
        total = 0.0
        for j in range(i, k):
            size = abs(work[i, j])
            # Written so that NaN fails it too.
            if not size <= largest_pivot:
                return False
            total += size
        first[i] = total
    for i in range(k):
        total = first[i]
        for j in range(i):
            total += abs(work[i, j]) * first[j]
        second[i] = factor * total + perturbation
    for i in range(k):
        total = second[i]
        for j in range(i):
            total += abs(work[i, j]) * first[j]
        # From here on `first` holds the solution of the lower triangular system.
        first[i] = total
    for i in range(k - 1, -1, -1):
        total = first[i]
        for j in range(i + 1, k):
            total += abs(work[i, j]) * second[j]
        second[i] = total / abs(work[i, i])
        if not second[i] <= 0.25:
            return False
    return True
