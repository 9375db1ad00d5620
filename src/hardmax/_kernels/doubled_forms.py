r"""Forms with coefficients of two floats each, composed with radii. No checks: see callers.

A block `(2 d + 3, n)` of doubled forms holds the high parts of slopes and offset, then their low
parts, then the radii: with the scale $X$ of the domain, $|a_k^* - a_k| \le e / X$ and
$|c^* - c| \le e$ for the form composed exactly. High parts are nearest floats: $|l|
\le u |h|$. A composition $z = b + \sum_j w_j (h_j + l_j)$ of $n$ of them is summed up in $h$ with
all errors kept: $w_j h_j = p_j + t_j$ and $h + p_j = h' + s_j$ exactly (see `expansions`), and the
floats $t_j + w_j l_j + s_j$ are added up beside it. With $S = |b| + \sum_j |w_j h_j|$ their
absolute values have a sum below $(n + 2) (1 + \gamma_n) u S$, and each is rounded at most $n + 3$
times. So up to underflow

$$e = (1 + 2^{-30}) \Bigl(\sum_j |w_j| (e_j + \kappa \mu_j) + \kappa |b|\Bigr) + T, \qquad
  \kappa = 2 (n + 4)^2 u^2,$$

with $\mu_j = \max(X \max_k |a_{jk}|, |c_j|)$. $T$ is large enough for slopes that
are weighed by the scale.

References:
    [ORO05], algorithm 5.3 and proposition 5.5, for the sum of products in twice the precision.
"""

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from hardmax._kernels.expansions import two_sum
from hardmax.typing import FloatArray, IntArray

U = 2.0**-53
TINY = 2.0**-1000
"""More than all underflow errors of one coefficient together."""
UP = 1.0 + 2.0**-30
"""More than what rounding takes away from a bound."""


@intrinsic
def _fused(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """Return `a * b + c`, rounded once: the error of a product in one operation, not 16."""

    def write(context: Any, builder: Any, signature: Any, numbers: Any) -> Any:
        return builder.fma(*numbers)

    return types.float64(types.float64, types.float64, types.float64), write


@numba.njit(cache=True, _nrt=False, inline="always")
def size_of(blocks: FloatArray, b: int, i: int, scale: float, axes: tuple[int, ...]) -> float:
    """Return how large a form of a block is, its slopes weighed by the scale."""
    dim = len(axes)
    size = abs(blocks[b, 0, i])
    for k in range(1, dim):
        size = max(size, abs(blocks[b, k, i]))
    return float(max(scale * size, abs(blocks[b, dim, i])))


@numba.njit(cache=True, _nrt=False)
def compose_doubled(
    doubled: FloatArray,
    source: int,
    n_in: int,
    numbers: FloatArray,
    at_weight: int,
    at_bias: int,
    n_out: int,
    to: int,
    scale: float,
    order: IntArray,
    axes: tuple[int, ...],
) -> None:
    """Write the forms of `z W + b` into a block.

    Args:
        doubled: All blocks; the last one is overwritten.
        source: The block of $z$.
        n_in: How many forms it has.
        numbers: All weights.
        at_weight: Where $W$ starts, `(n_in, n_out)`.
        at_bias: Where $b$ starts.
        n_out: How many forms come out.
        to: The block to write.
        scale: The $X$.
        order: Scratch.
        axes: The axes of the domain.
    """
    dim, last = len(axes), doubled.shape[0] - 1
    low, radius = dim + 1, 2 * dim + 2
    kappa = 2.0 * (n_in + 4.0) * (n_in + 4.0) * U * U
    n_used = 0
    for j in range(n_in):
        size, error = size_of(doubled, source, j, scale, axes), doubled[source, radius, j]
        if size != 0.0 or error != 0.0:
            order[0, n_used] = j
            # Not below 2^-900, so that no share is lost in a product.
            doubled[last, 0, j] = error + kappa * size + 2.0**-900
            n_used += 1
    for k in range(2 * dim + 3):
        for i in range(np.uint64(n_out)):
            doubled[to, k, i] = 0.0
    for i in range(np.uint64(n_out)):
        doubled[to, dim, i] = numbers[np.uint64(at_bias) + i]
    for r in range(n_used):
        j = order[0, r]
        start = at_weight + j * n_out
        for k in range(dim + 1):
            _add_product(
                doubled, to, k, low + k, numbers, start, n_out, doubled[source, k, j],
                doubled[source, low + k, j],
            )  # fmt: skip
        share = doubled[last, 0, j]
        for i in range(np.uint64(n_out)):
            doubled[to, radius, i] += abs(numbers[np.uint64(start) + i]) * share
    for i in range(n_out):
        error = (doubled[to, radius, i] + kappa * abs(numbers[at_bias + i])) * UP
        doubled[to, radius, i] = error + TINY * scale + _renormalise(doubled, to, i, axes)


@numba.njit(cache=True, _nrt=False)
def _add_product(
    doubled: FloatArray,
    to: int,
    high: int,
    low: int,
    numbers: FloatArray,
    start: int,
    n: int,
    h: float,
    rest: float,
) -> None:
    """Add a row of weights times one coefficient to the same coefficient of all forms."""
    for i in range(np.uint64(n)):
        weight = numbers[np.uint64(start) + i]
        product = weight * h
        lost = _fused(weight, h, -product)
        total, more = two_sum(doubled[to, high, i], product)
        doubled[to, high, i] = total
        doubled[to, low, i] += more + (lost + weight * rest)


@numba.njit(cache=True, _nrt=False)
def _renormalise(doubled: FloatArray, to: int, i: int, axes: tuple[int, ...]) -> float:
    """Make the high parts of a form nearest floats; return 0, or NaN if anything overflowed."""
    dim = len(axes)
    spoiled = 0.0
    for k in range(dim + 1):
        high, rest = two_sum(doubled[to, k, i], doubled[to, dim + 1 + k, i])
        doubled[to, k, i] = high
        doubled[to, dim + 1 + k, i] = rest
        spoiled += rest - rest
    return spoiled
