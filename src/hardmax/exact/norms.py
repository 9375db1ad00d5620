r"""Enclosures of Euclidean norms that hold at every magnitude.

In floats, the sum of the squares is 0 for entries below $2^{-537}$ and infinite for entries from
$2^{512}$ on, so its square root is no bound. Rows of such numbers are first divided by a power of
two.
"""

import numpy as np

from hardmax.exact.rounding import UNIT_ROUNDOFF
from hardmax.typing import FloatArray

_LEAST_PLAIN, _LARGEST_PLAIN = 2.0**-900, 2.0**1000


def enclose_norms(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Bound the Euclidean norm of every row from below and above.

    *Proof.* Let a row have $n \le 2^{40}$ entries, let $S$ be the sum of their squares, and let
    $\hat S$ be this sum in floats. If $2^{-900} \le \hat S \le 2^{1000}$, then nothing overflowed,
    the total loss by underflow is at most $n 2^{-1074} < 2^{-130} \hat S$, and there are at most
    $n$ roundings on each path: $|\hat S - S| \le \gamma_{n + 1} S$, apart from underflow. Any other
    row is first divided by the power of two $2^e$ above its largest entry. This is exact except for
    results below $2^{-1022}$, which lose at most $2^{-1074}$ each. The largest entry is then at
    least $1/2$, so that $1/4 \le \hat S \le n$, and the same bound holds. The square root adds one
    rounding, and so does each product below; $\delta = 2(n + 8)u$ is more than twice the sum of all
    these errors. The product with $2^e$ rounds subnormal results, and one step outward compensates
    for this. $\square$

    Args:
        rows: An array of shape `(n_rows, n)`.

    Returns:
        The lower and the upper bounds, both of shape `(n_rows,)`. Both are 0 exactly for rows of
        zeros. For rows with an entry that is not finite they are 0 and infinity. Lower bounds are
        finite.

    Examples:
        >>> lows, highs = enclose_norms(np.array([[3e-200, 4e-200], [3e200, 4e200], [0.0, 0.0]]))
        >>> bool(lows[0] < 5e-200 < highs[0]), bool(lows[1] < 5e200 < highs[1])
        (True, True)
        >>> lows[2].item(), highs[2].item()
        (0.0, 0.0)
    """
    delta = 2.0 * (rows.shape[1] + 8) * UNIT_ROUNDOFF
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->i", rows, rows)
        roots = np.sqrt(squares)
        lows, highs = roots * (1.0 - delta), roots * (1.0 + delta)
        rest = np.flatnonzero(~((squares >= _LEAST_PLAIN) & (squares <= _LARGEST_PLAIN)))
        if len(rest):
            lows[rest], highs[rest] = _enclose_extreme_rows(rows[rest], delta)
    return lows, highs


def _enclose_extreme_rows(rows: FloatArray, delta: float) -> tuple[FloatArray, FloatArray]:
    largest = np.abs(rows).max(axis=1, initial=0.0)
    is_finite = np.isfinite(largest)
    exponents = np.where(is_finite, np.frexp(largest)[1], 0)
    scaled = np.ldexp(rows, -exponents[:, np.newaxis])
    roots = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    lows = np.nextafter(np.ldexp(roots * (1.0 - delta), exponents), 0.0)
    highs = np.nextafter(np.ldexp(roots * (1.0 + delta), exponents), np.inf)
    is_zero = largest == 0.0
    lows = np.where(is_finite, np.minimum(lows, np.finfo(np.float64).max), 0.0)
    return np.where(is_zero, 0.0, lows), np.where(is_finite, np.where(is_zero, 0.0, highs), np.inf)
