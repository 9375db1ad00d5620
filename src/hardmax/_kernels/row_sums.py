r"""Sums of rows of weights times forms, four rows at a time, and bounds on their rounding."""

import numba
import numpy as np

from hardmax.typing import FloatArray, IntArray

U = 2.0**-53
TINY = 2.0**-1000
"""More than all underflow errors of one coefficient together."""
FINEST_GRID = -1000


@numba.njit(cache=True, _nrt=False, inline="always")
def kappa_of(n: int) -> float:
    """Return a relative bound on the rounding of sums by `add_rows`, at least twice too large."""
    return 2.0 * (0.25 * n + 8.0) * U


@numba.njit(cache=True, _nrt=False, inline="always")
def n_sums(m: int) -> int:
    """Return how often `add_rows` adds something to a number."""
    return m // 4 + m % 4


@numba.njit(cache=True, _nrt=False, inline="always")
def update_kappa(m: int) -> float:
    """Return the same for the changes that an update of `m` forms adds."""
    return float(2.0 * (n_sums(m) + 4.0) * U)


@numba.njit(cache=True, _nrt=False)
def add_rows(
    blocks: FloatArray,
    to: int,
    k: int,
    weights: FloatArray,
    start: int,
    n: int,
    order: IntArray,
    n_rows: int,
    source: int,
    factor: int,
) -> None:
    """Add `sum_r h[r] * weights[start + r * n + i]` to `blocks[to, k, i]`, four rows at a time.

    The rows `r` are the first `n_rows` of `order[0]`, and `h` is `blocks[source, factor]`. Of `m`
    products each is rounded once, twice more as one of four, and with every sum that follows: at
    most `m // 4 + m % 4 + 3` times, which is at most `m / 4 + 6`.
    """
    r = 0
    # Unsigned indices cannot mean "from the end", which lets the loops below be vectorised.
    width = np.uint64(n)
    while r + 4 <= n_rows:
        r0, r1, r2, r3 = order[0, r], order[0, r + 1], order[0, r + 2], order[0, r + 3]
        f0, f1 = blocks[source, factor, r0], blocks[source, factor, r1]
        f2, f3 = blocks[source, factor, r2], blocks[source, factor, r3]
        w0, w1 = np.uint64(start + r0 * n), np.uint64(start + r1 * n)
        w2, w3 = np.uint64(start + r2 * n), np.uint64(start + r3 * n)
        for i in range(width):
            blocks[to, k, i] += (weights[w0 + i] * f0 + weights[w1 + i] * f1) + (
                weights[w2 + i] * f2 + weights[w3 + i] * f3
            )
        r += 4
    while r < n_rows:
        f0 = blocks[source, factor, order[0, r]]
        w0 = np.uint64(start + order[0, r] * n)
        for i in range(width):
            blocks[to, k, i] += weights[w0 + i] * f0
        r += 1
