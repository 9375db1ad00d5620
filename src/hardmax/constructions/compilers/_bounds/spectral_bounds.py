r"""Bounds for symmetric matrices, proven in floats: the largest eigenvalue, and an inverse.

The float64 entries are taken as exact. Matrices are ordered as quadratic forms: $A \preceq B$ iff
$x^\top A x \le x^\top B x$ for all $x$. The results of LAPACK are not trusted. They only suggest a
number or a matrix, and a computation with bounded rounding errors proves that it is a bound.
"""

import numpy as np

from hardmax.exact.rounding import RAISE, SMALL_RAISE, UNIT_ROUNDOFF
from hardmax.typing import FloatArray

_SLACKS = (2.0**-30, 2.0**-20, 2.0**-10)


def bound_largest_eigenvalue(matrix: FloatArray) -> float:
    r"""Return an upper bound on the largest eigenvalue of a symmetric matrix.

    If the Cholesky decomposition of a symmetric $B$ of size $n$ succeeds in floats, the factor
    belongs to a matrix that differs from $B$ by at most $\gamma_{n+1} / (1 - \gamma_{n+1})
    \sqrt{b_{ii} b_{jj}}$ in each entry, so $B \succeq -(n + 2) u\,\mathrm{tr}(B)\,I$ up to terms of
    higher order [Rum06]. This is applied to $B = \theta I - A$ with $\theta$ slightly above the
    eigenvalue that LAPACK finds. If it fails, the bound is the Frobenius norm.

    Args:
        matrix: The symmetric matrix $A$, shape `(n, n)`.

    Returns:
        The bound; infinity if an entry is not finite.

    Examples:
        >>> round(bound_largest_eigenvalue(np.array([[2.0, 1.0], [1.0, 2.0]])), 6)
        3.0
        >>> bound_largest_eigenvalue(np.zeros((0, 0)))
        0.0
    """
    n = len(matrix)
    if n == 0:
        return 0.0
    if not np.isfinite(matrix).all():
        return np.inf
    largest = float(np.abs(matrix).max())
    if largest == 0.0:
        return 0.0
    # Divide by a power of two, so that no relevant number underflows.
    exponent = int(np.frexp(largest)[1])
    scaled = np.ldexp(matrix, -exponent)
    frobenius = float(np.linalg.norm(scaled)) * (1.0 + 2.0 * (n * n + 8) * UNIT_ROUNDOFF)
    bound = frobenius + 2.0**-900
    try:
        found = float(np.linalg.eigvalsh(scaled)[-1])
    except np.linalg.LinAlgError:
        return float(np.ldexp(bound, exponent))
    for slack in _SLACKS:
        theta = found + slack * max(abs(found), frobenius / n)
        shifted = -scaled
        np.fill_diagonal(shifted, theta - np.diagonal(scaled))
        trace = float(np.abs(np.diagonal(shifted)).sum())
        try:
            np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            continue
        # The last term more than covers the subtractions on the diagonal.
        proved = theta + 2.0 * (n + 8) * UNIT_ROUNDOFF * (trace + abs(theta) + 1.0)
        return float(
            np.ldexp(min(bound, proved * SMALL_RAISE if proved > 0.0 else proved), exponent)
        )
    return float(np.ldexp(bound, exponent))


def bound_inverse(matrix: FloatArray, top: float) -> FloatArray:
    r"""Return a matrix $Z \succeq (I - S)^{-1}$.

    For any symmetric $Z$, $(I - S)^{-1} - Z = (I - S)^{-1} R$ with $R = I - (I - S) Z$, so
    $(I - S)^{-1} \preceq Z + \|R\| / (1 - s)\,I$ if $S \preceq s I$.

    Args:
        matrix: The symmetric matrix $S$, shape `(n, n)`.
        top: The number $s$, below 1, a proven upper bound on the largest eigenvalue.

    Examples:
        >>> bound_inverse(np.array([[0.5]]), 0.5).round(9).tolist()
        [[2.0]]
    """
    n = len(matrix)
    if n == 0:
        return np.zeros((0, 0))
    rest = np.eye(n) - matrix
    inverse = np.linalg.inv(rest)
    inverse = 0.5 * (inverse + inverse.T)
    residual = float(np.linalg.norm(np.eye(n) - rest @ inverse))
    sizes = float(np.linalg.norm(rest) + 1.0) * float(np.linalg.norm(inverse) + 1.0)
    residual += (2.0 * n + 32.0) * UNIT_ROUNDOFF * (sizes + np.sqrt(n))
    inverse[np.diag_indices(n)] += residual / (1.0 - top) * RAISE
    # The sums on the diagonal were rounded.
    return np.asarray(inverse + np.diag(4.0 * UNIT_ROUNDOFF * np.abs(np.diagonal(inverse))))
