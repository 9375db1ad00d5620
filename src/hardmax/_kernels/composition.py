r"""Affine forms in any dimension composed layer by layer, with radii. No checks: see callers.

Blocks of forms and the meaning of radii are those of `layouts`. With $\mu_j = \max(X
\max_k |a_{jk}|, |c_j|)$, a composition $z_i = \sum_j w_{ij} h_j + b_i$ of $n$ forms has the
radius

$$e_i = (1 + \kappa)\Bigl(\sum_j |w_{ij}| (e_j + \kappa \mu_j) + \kappa |b_i|\Bigr) + T, \qquad
  \kappa = 2 (n / 4 + 8) u,$$

which is the bound of `algebra.exact.composition` with all coefficients measured together, for sums
of four products at a time: a term is rounded at most $n / 4 + 6$ times (see `add_rows`), and the
rest of $\kappa$ pays for the products that form $\mu_j$. Underflow takes less than $2^{-1000}$ from
a coefficient; an error of a slope counts $X$ times, so $T = 2^{-1000} X$. Where a stream lies on a
grid $2^q \mathbb{Z}$ without error, weights on $2^p \mathbb{Z}$, and $\sum_j |w_{ij}| \mu_j + |b_i|
\le 2^{53 + g}$ on the common grid $2^g$ for all $i$, nothing is rounded (Lemma 3 of
`algebra.exact.rounding`) and all radii are 0. Where the winners before a layer are nearly those of
the last region, its scores are not composed but updated: see `composition_updates`.

References:
    [Higham02], section 3.1.
"""

import math

import numba

from hardmax._kernels.composition_updates import (
    may_update,
    select_units,
    update_stream,
    update_units,
)
from hardmax._kernels.expansions import two_sum
from hardmax._kernels.layouts import (
    AT_OFFSETS,
    AT_OUTPUT,
    AT_OUTPUT_BIAS,
    AT_QUERY,
    AT_QUERY_BIAS,
    AT_SLOPES,
    AT_SLOTS,
    AT_STARTS,
    FIRST_GROUP,
    HAS_OUTPUT,
    IS_FRESH,
    IS_MERGED,
    IS_PLAIN,
    IS_RELU,
    IS_ROUGH,
    IS_TAME,
    IS_TOTAL,
    N_CHANGES,
    N_FORMS,
    N_GROUPS,
    N_IN,
    N_OUT,
    N_QUERY,
    N_UPDATES,
    N_Y,
    OFFSETS_GRID,
    OUTPUT_BIAS_GRID,
    OUTPUT_GRID,
    OUTPUT_IS_IDENTITY,
    QUERY_BIAS_GRID,
    QUERY_GRID,
    QUERY_IS_IDENTITY,
    RESIDUAL,
    SCORES_ARE_EXACT,
    SCORES_GRID,
    SLOPES_GRID,
    STREAM_GRID,
    STREAM_IS_EXACT,
    VALUES_GRID,
    VERSION,
    WIDTH,
    Axes,
    Tables,
)
from hardmax._kernels.row_sums import FINEST_GRID, TINY, U, add_rows, kappa_of
from hardmax._kernels.spatial_buffers import Frames
from hardmax.typing import FloatArray, IntArray


@numba.njit(cache=True, _nrt=False)
def compose(
    blocks: FloatArray,
    source: int,
    n_in: int,
    is_exact: bool,
    grid: int,
    numbers: FloatArray,
    sizes: FloatArray,
    at_weight: int,
    at_bias: int,
    weight_grid: int,
    bias_grid: int,
    is_tame: bool,
    n_out: int,
    to: int,
    scale: float,
    order: IntArray,
    axes: Axes,
) -> tuple[bool, int, bool, float]:
    """Write the forms of `z W + b` into a block; return whether they are exact, and on which grid.

    The grid holds for every form of radius 0, also where not all forms are exact. Two more numbers
    are for updates: whether forms are rounded that lie far from any grid although all of $h$ is
    exact, and a sum that the radii are proportional to. The last block is overwritten.

    Args:
        blocks: All blocks.
        source: The block of $h$.
        n_in: How many forms it has.
        is_exact: Whether their radii vanish.
        grid: The exponent of their grid, if exact.
        numbers: All weights.
        sizes: Their absolute values.
        at_weight: Where $W$ starts, `(n_in, n_out)`.
        at_bias: Where $b$ starts.
        weight_grid: The exponent of the grid of $W$.
        bias_grid: That of $b$.
        is_tame: Whether no product of nonzero numbers below can underflow to 0.
        n_out: How many forms come out.
        to: The block to write.
        scale: The $X$.
        order: Scratch.
        axes: The axes of the domain.
    """
    kappa, tiny = kappa_of(n_in), TINY * scale
    last = blocks.shape[0] - 1
    n_used = 0
    is_copy = is_exact
    dim = len(axes)
    # Which coefficients have been seen in a form, as bits.
    seen = 0
    total = 0.0
    for j in range(n_in):
        c, e = abs(blocks[source, dim, j]), blocks[source, dim + 1, j]
        size = abs(blocks[source, 0, j])
        for k in range(1, dim):
            size = max(size, abs(blocks[source, k, j]))
        size = max(scale * size, c)
        if size == 0.0 and e == 0.0:
            continue
        order[0, n_used] = j
        n_used += 1
        total += e + kappa * size
        if is_exact:
            blocks[last, 0, j] = size
            is_copy = is_copy and c == 0.0
            for k in range(dim):
                a = abs(blocks[source, k, j])
                if a != 0.0:
                    is_copy = is_copy and a == 1.0 and (seen >> k) & 1 == 0
                    seen |= 1 << k
        else:
            # Not below 2^-900, so that no share is lost in a product with a tame weight.
            blocks[last, 0, j] = e + kappa * size + 2.0**-900
    for i in range(n_out):
        for k in range(dim):
            blocks[to, k, i] = 0.0
        blocks[to, dim, i] = numbers[at_bias + i]
        blocks[to, dim + 1, i] = 0.0
    # In the plane this loop runs once, and is compiled to no loop: one over all components is not.
    add_rows(blocks, to, 0, numbers, at_weight, n_out, order, n_used, source, 0)
    for k in range(1, dim):
        add_rows(blocks, to, k, numbers, at_weight, n_out, order, n_used, source, k)
    add_rows(blocks, to, dim, numbers, at_weight, n_out, order, n_used, source, dim)
    add_rows(blocks, to, dim + 1, sizes, at_weight, n_out, order, n_used, last, 0)
    if not is_exact:
        for i in range(n_out):
            share = blocks[to, dim + 1, i]
            radius = (1.0 + kappa) * (share + kappa * sizes[at_bias + i]) + tiny
            blocks[to, dim + 1, i] = radius if share != 0.0 or not is_tame else 0.0
        return False, bias_grid, False, total
    # One product by one in each coefficient is a copy: the coordinates themselves come in.
    if is_copy:
        for i in range(n_out):
            blocks[to, dim + 1, i] = 0.0
        return True, min(weight_grid, bias_grid), False, total
    common = min(weight_grid + grid, bias_grid)
    largest = 0.0
    for i in range(n_out):
        size = (blocks[to, dim + 1, i] + sizes[at_bias + i]) * (1.0 + 2.0**-30)
        # Written so that NaN ends up in the bound.
        if not (size <= largest or largest != largest):
            largest = size
    if common >= FINEST_GRID and largest <= math.ldexp(1.0, min(53 + common, 1000)):
        for i in range(n_out):
            blocks[to, dim + 1, i] = 0.0
        return True, common, False, total
    for i in range(n_out):
        share = blocks[to, dim + 1, i]
        if share != 0.0 or not is_tame or common < FINEST_GRID:
            blocks[to, dim + 1, i] = (1.0 + kappa) * kappa * (share + sizes[at_bias + i]) + tiny
    is_rough = common < FINEST_GRID or largest > math.ldexp(1.0, min(63 + common, 1000))
    return False, bias_grid, is_rough, total


@numba.njit(cache=True, _nrt=False)
def _copy_block(blocks: FloatArray, source: int, to: int, n: int, axes: Axes) -> None:
    for k in range(len(axes) + 2):
        for i in range(n):
            blocks[to, k, i] = blocks[source, k, i]


@numba.njit(cache=True, _nrt=False, inline="always")
def compose_scores(tables: Tables, frames: Frames, layer: int, axes: Axes) -> None:
    """Write the scores of a layer from the stream before it."""
    layout, blocks, flags = tables.layout, frames.blocks, frames.flags
    flags[layer, VERSION] += 1
    flags[layer, IS_MERGED] = 0
    flags[layer, HAS_OUTPUT] = 0
    if flags[layer, IS_FRESH] == 1:
        flags[layer, IS_FRESH] = 0
        return
    is_exact, grid = flags[layer, STREAM_IS_EXACT] == 1, flags[layer, STREAM_GRID]
    is_rough, total = False, 0.0
    n_query = layout[layer, N_QUERY]
    tame = layout[layer, IS_TAME] == 1
    scores = layout.shape[0] + layer
    query = scores if layout[layer, IS_RELU] == 1 else blocks.shape[0] - 2
    if layout[layer, QUERY_IS_IDENTITY] == 1:
        _copy_block(blocks, layer, query, n_query, axes)
    else:
        is_exact, grid, is_rough, total = compose(
            blocks, layer, layout[layer, N_IN], is_exact, grid, tables.numbers, tables.sizes,
            layout[layer, AT_QUERY], layout[layer, AT_QUERY_BIAS], layout[layer, QUERY_GRID],
            layout[layer, QUERY_BIAS_GRID], tame, n_query, query, tables.scale[0], frames.order,
            axes,
        )  # fmt: skip
    if layout[layer, IS_RELU] == 0:
        is_exact, grid, is_rough, total = compose(
            blocks, query, n_query, is_exact, grid, tables.numbers, tables.sizes,
            layout[layer, AT_SLOPES], layout[layer, AT_OFFSETS], layout[layer, SLOPES_GRID],
            layout[layer, OFFSETS_GRID], tame, layout[layer, N_FORMS], scores, tables.scale[0],
            frames.order, axes,
        )  # fmt: skip
    flags[layer, SCORES_ARE_EXACT] = 1 if is_exact else 0
    flags[layer, SCORES_GRID] = grid
    flags[layer, N_UPDATES] = 1
    flags[layer, N_CHANGES] += 1
    flags[layer, IS_TOTAL] = 0
    flags[layer, IS_ROUGH] = 1 if is_rough else 0
    frames.shares[layer, 0] = total
    frames.shares[layer, 1] = total


@numba.njit(cache=True, _nrt=False, inline="always")
def compose_output(tables: Tables, frames: Frames, layer: int, axes: Axes) -> None:
    """Write the stream after a layer, given the winner of each of its groups in the signature."""
    layout, blocks, flags = tables.layout, frames.blocks, frames.flags
    dim = len(axes)
    n_out = layout[layer, N_OUT]
    after = layer + 1
    is_identity = layout[layer, OUTPUT_IS_IDENTITY] == 1
    is_update = may_update(layout, flags, layer)
    is_plain = layout[layer, IS_RELU] == 1 or layout[layer, IS_PLAIN] == 1
    if is_update and is_plain and update_units(tables, frames, layer, axes):
        return
    y = after if is_identity else blocks.shape[0] - 2
    if is_plain:
        is_exact, grid = select_units(tables, frames, layer, y, axes)
    else:
        y = blocks.shape[0] - 2 if is_update else y
        is_exact, grid = _gather(tables, frames, layer, y, axes)
        if is_update:
            update_stream(tables, frames, layer, y, is_exact, grid, axes)
            return
    if not is_identity:
        is_exact, grid, _, _ = compose(
            blocks, y, layout[layer, N_Y], is_exact, grid, tables.numbers, tables.sizes,
            layout[layer, AT_OUTPUT], layout[layer, AT_OUTPUT_BIAS], layout[layer, OUTPUT_GRID],
            layout[layer, OUTPUT_BIAS_GRID], layout[layer, IS_TAME] == 1, n_out, after,
            tables.scale[0], frames.order,
            axes,
        )  # fmt: skip
    if layout[layer, RESIDUAL] == 1:
        scale = tables.scale[0]
        is_exact = True
        for i in range(n_out):
            lost = 0.0
            for k in range(dim + 1):
                total, rest = two_sum(blocks[after, k, i], blocks[layer, k, i])
                lost += abs(rest) if k == dim else abs(rest) * scale
                blocks[after, k, i] = total
            radius = (blocks[after, dim + 1, i] + blocks[layer, dim + 1, i] + lost) * (
                1.0 + 2.0**-48
            )
            blocks[after, dim + 1, i] = radius
            if radius != 0.0:
                is_exact = False
        grid = min(grid, flags[layer, STREAM_GRID])
    flags[after, STREAM_IS_EXACT] = 1 if is_exact else 0
    flags[after, STREAM_GRID] = grid


@numba.njit(cache=True, _nrt=False, inline="always")
def _gather(tables: Tables, frames: Frames, layer: int, y: int, axes: Axes) -> tuple[bool, int]:
    """Add up what the winners contribute, in block `y`; return whether it is exact, its grid."""
    layout, blocks = tables.layout, frames.blocks
    dim = len(axes)
    n_y, width = layout[layer, N_Y], layout[layer, WIDTH]
    first, scores = layout[layer, FIRST_GROUP], layout.shape[0] + layer
    scale = tables.scale[0]
    merged = frames.flags[layer, IS_MERGED] == 1
    gains = frames.gains if merged else tables.gains
    values = frames.values if merged else tables.values
    for k in range(dim + 2):
        for i in range(n_y):
            blocks[y, k, i] = 0.0
    is_copied = True
    for g in range(layout[layer, N_GROUPS]):
        j = tables.indices[layout[layer, AT_STARTS] + g] + frames.signature[first + g]
        slot = tables.indices[layout[layer, AT_SLOTS] + g]
        gain, gain_radius = gains[layer, 0, j], gains[layer, 1, j]
        if gain != 0.0 or gain_radius != 0.0:
            lost = 0.0
            largest = 0.0
            for k in range(dim + 1):
                unit = scale if k < dim else 1.0
                score = blocks[scores, k, j]
                total, rest = two_sum(blocks[y, k, slot], gain * score)
                blocks[y, k, slot] = total
                largest += unit * abs(score)
                lost += unit * (abs(rest) + (0.0 if gain == 1.0 else 4.0 * U * abs(gain * score)))
            radius = blocks[scores, dim + 1, j]
            if gain != 1.0 or gain_radius != 0.0:
                is_copied = False
                radius = abs(gain) * radius + gain_radius * (largest + radius) + TINY * scale
            blocks[y, dim + 1, slot] = (blocks[y, dim + 1, slot] + radius + lost) * (1.0 + 2.0**-40)
        for k in range(width):
            total, rest = two_sum(blocks[y, dim, slot + k], values[layer, 0, j, k])
            blocks[y, dim, slot + k] = total
            radius = blocks[y, dim + 1, slot + k] + abs(rest) + values[layer, 1, j, k]
            blocks[y, dim + 1, slot + k] = radius * (1.0 + 2.0**-48)
    is_exact = is_copied
    for i in range(n_y):
        if blocks[y, dim + 1, i] != 0.0:
            is_exact = False
    grid = layout[layer, VALUES_GRID]
    if merged:
        # The mean of m numbers, where it is a float, lies on a grid finer by at most log2(m) bits.
        grid -= math.frexp(float(layout[layer, N_FORMS]))[1]
    return is_exact, min(grid, frames.flags[layer, SCORES_GRID])


@numba.njit(cache=True, _nrt=False, inline="always")
def compose_readout(tables: Tables, frames: Frames, axes: Axes) -> int:
    """Write the output forms; return their block."""
    layout, blocks = tables.layout, frames.blocks
    n_layers = layout.shape[0] - 1
    if layout[n_layers, QUERY_IS_IDENTITY] == 1:
        return int(n_layers)
    out = int(blocks.shape[0] - 2)
    compose(
        blocks, n_layers, layout[n_layers, N_IN], frames.flags[n_layers, STREAM_IS_EXACT] == 1,
        frames.flags[n_layers, STREAM_GRID], tables.numbers, tables.sizes,
        layout[n_layers, AT_QUERY], layout[n_layers, AT_QUERY_BIAS], layout[n_layers, QUERY_GRID],
        layout[n_layers, QUERY_BIAS_GRID], layout[n_layers, IS_TAME] == 1,
        layout[n_layers, N_QUERY], out, tables.scale[0], frames.order,
            axes,
    )  # fmt: skip
    return out
