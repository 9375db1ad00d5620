r"""Forms with coefficients of two floats each, composed with radii. No checks: see callers.

A block `(2 d + 3, n)` of doubled forms holds the high parts of slopes and offset, then their low
parts, then the radii, which mean what they mean in `layouts`. High parts are nearest floats: $|l|
\le u |h|$. A composition $z = b + \sum_j w_j (h_j + l_j)$ of $n$ of them is summed up in $h$ with
all errors kept: $w_j h_j = p_j + t_j$ and $h + p_j = h' + s_j$ exactly (see `expansions`), and the
floats $t_j + w_j l_j + s_j$ are added up beside it. With $S = |b| + \sum_j |w_j h_j|$ their
absolute values have a sum below $(n + 2) (1 + \gamma_n) u S$, and each is rounded at most $n + 3$
times. So up to underflow

$$e = (1 + 2^{-30}) \Bigl(\sum_j |w_j| (e_j + \kappa \mu_j) + \kappa |b|\Bigr) + T, \qquad
  \kappa = 2 (n + 4)^2 u^2,$$

with $\mu_j$ as in `composition`. $T$ is large enough for slopes that are weighed by the scale.

References:
    [ORO05], algorithm 5.3 and proposition 5.5, for the sum of products in twice the precision.
"""

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from hardmax._kernels.expansions import two_product, two_sum
from hardmax._kernels.layouts import Axes
from hardmax._kernels.row_sums import TINY, U
from hardmax._kernels.spatial_buffers import Frames
from hardmax.typing import FloatArray, IntArray

UP = 1.0 + 2.0**-30
"""More than what rounding takes away from a bound."""


@intrinsic
def _fused(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """Return `a * b + c`, rounded once: the error of a product in one operation, not 16."""

    def write(context: Any, builder: Any, signature: Any, numbers: Any) -> Any:
        return builder.fma(*numbers)

    return types.float64(types.float64, types.float64, types.float64), write


def doubled_blocks(frames: Frames, stream: FloatArray) -> FloatArray:
    """Allocate doubled forms for all blocks of frames, the first stream written into them."""
    n_blocks, n_rows, most_rows = frames.blocks.shape
    doubled = np.zeros((n_blocks, 2 * n_rows - 1, most_rows))
    doubled[0, :, : stream.shape[1]] = stream
    return doubled


@numba.njit(cache=True, _nrt=False, inline="always")
def size_of(blocks: FloatArray, b: int, i: int, scale: float, axes: Axes) -> float:
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
    axes: Axes,
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
def _renormalise(doubled: FloatArray, to: int, i: int, axes: Axes) -> float:
    """Make the high parts of a form nearest floats; return 0, or NaN if anything overflowed."""
    dim = len(axes)
    spoiled = 0.0
    for k in range(dim + 1):
        high, rest = two_sum(doubled[to, k, i], doubled[to, dim + 1 + k, i])
        doubled[to, k, i] = high
        doubled[to, dim + 1 + k, i] = rest
        spoiled += rest - rest
    return spoiled


@numba.njit(cache=True, _nrt=False)
def add_doubled(
    doubled: FloatArray,
    to: int,
    i: int,
    source: int,
    j: int,
    gain: float,
    gain_radius: float,
    scale: float,
    axes: Axes,
) -> None:
    r"""Add a form times a gain, known up to a radius, to another form.

    Low parts and errors, at most $2 u |h|$ for either form and $2 u$ times both for their sum, are
    rounded at most 4 times: $2^5 u^2$ times the sizes is enough.
    """
    dim = len(axes)
    low, radius = dim + 1, 2 * dim + 2
    size = size_of(doubled, source, j, scale, axes)
    error = abs(gain) * doubled[source, radius, j]
    error += gain_radius * (size * UP + doubled[source, radius, j])
    kappa = 32.0 * U * U
    error += kappa * (abs(gain) * size + size_of(doubled, to, i, scale, axes))
    for k in range(dim + 1):
        product, lost = two_product(gain, doubled[source, k, j])
        total, more = two_sum(doubled[to, k, i], product)
        doubled[to, k, i] = total
        doubled[to, low + k, i] += more + (lost + gain * doubled[source, low + k, j])
    error = (doubled[to, radius, i] + error) * UP + TINY * scale
    doubled[to, radius, i] = error + _renormalise(doubled, to, i, axes)


@numba.njit(cache=True, _nrt=False)
def add_value(
    doubled: FloatArray, to: int, i: int, value: float, value_radius: float, axes: Axes
) -> None:
    """Add a constant, known up to a radius, to a form."""
    dim = len(axes)
    total, more = two_sum(doubled[to, dim, i], value)
    error = value_radius + 8.0 * U * U * (abs(doubled[to, dim, i]) + abs(value))
    doubled[to, dim, i] = total
    doubled[to, 2 * dim + 1, i] += more
    error = (doubled[to, 2 * dim + 2, i] + error) * UP + TINY
    doubled[to, 2 * dim + 2, i] = error + _renormalise(doubled, to, i, axes)
