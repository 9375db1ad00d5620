r"""Scores of a layer updated where few forms before them changed. No checks: see callers.

Neighbouring regions of a layer differ in few winners, so the scores on one are those on the last
one plus a few rows of weights: as many products as there are scores for each change, instead of one
for each weight. With the stream $a_j$ (radii $e_j$) in floats, the scores are

$$\tilde z_i = b_i + \sum_j w_{ij} a_j + \rho_i, \qquad |\rho_i| + \sum_j |w_{ij}| e_j \le r_i,$$

where $\rho_i$ is what rounding has done so far. This is kept: if $m$ forms change by $\delta_j =
a_j' - a_j + \lambda_j$, where $\lambda_j$ is the rounding of the difference, then $\tilde z_i' =
\mathrm{fl}(\tilde z_i + \sum_j w_{ij} \delta_j)$ and

$$r_i' = (1 + 4 \kappa) \Bigl(r_i + \sum_j |w_{ij}| \bigl(e_j' - (1 - 2^{-20}) e_j + |\lambda_j| +
  \kappa \mu(\delta_j)\bigr) + (s + \tfrac12) u\, \mu(\tilde z_i')\Bigr) + T, \quad
  \kappa = 2 (s + 4) u,$$

with $\mu$ and $T$ as in `composition`, and $s = \lfloor m / 4 \rfloor + m \bmod 4$ the number of
sums that $\tilde z_i$ goes through (see `add_rows`). Each of them rounds it once; what is added is
rounded three times more. So the rounding is at most $\gamma_s |\tilde z_i| + \gamma_{s+3} \sum_j
|w_{ij} \delta_j|$, and up to factors $1 + \kappa$ we have $\gamma_s = s u$ and $|\tilde z_i| \le
|\tilde z_i'| + \sum_j |w_{ij} \delta_j|$. Old radii are taken off because they are part of $r_i$;
the $2^{-20}$ pays for rounding the sum of radii, in which terms of both signs occur. On a grid
nothing is rounded as long as $\mu(\tilde z_i) + \sum_j |w_{ij}| \mu(\delta_j)$ fits, as in
`composition`.

Scores are composed afresh after as many updates as there are forms in the stream, and when the
radii may have grown too large beside those of a fresh composition.
"""

import numba
import numpy as np

from hardmax._kernels.effect_buffers import LEAST_WIDTH
from hardmax._kernels.effect_updates import HUGE, add_forms, most_growth, spread
from hardmax._kernels.effects import form_of, n_scores, weight_grid, weights_at
from hardmax._kernels.expansions import two_sum
from hardmax._kernels.layouts import (
    BASE,
    FIRST_GROUP,
    IS_DENSE,
    IS_FRESH,
    IS_RELU,
    IS_ROUGH,
    IS_STALE,
    IS_TAME,
    IS_TOTAL,
    N_CHANGES,
    N_GROUPS,
    N_IN,
    N_UPDATES,
    OUTPUT_IS_IDENTITY,
    QUERY_IS_IDENTITY,
    RESIDUAL,
    SCORES_ARE_EXACT,
    SCORES_GRID,
    STREAM_GRID,
    STREAM_IS_EXACT,
    Axes,
    Tables,
)
from hardmax._kernels.row_sums import (
    add_rows,
    kappa_of,
    update_kappa,
)
from hardmax._kernels.spatial_buffers import Frames
from hardmax.typing import FloatArray, IntArray


@numba.njit(cache=True, _nrt=False)
def may_update(layout: IntArray, flags: IntArray, layer: int) -> bool:
    """Say whether the scores after a layer are there, and of a kind that is worth updating."""
    after = layer + 1
    if after == layout.shape[0] - 1 or layout[layer, OUTPUT_IS_IDENTITY] == 0:
        return False
    if layout[layer, RESIDUAL] == 1 or layout[after, N_IN] < LEAST_WIDTH:
        return False
    # A query that is composed before the scores is not kept.
    if layout[after, IS_RELU] == layout[after, QUERY_IS_IDENTITY]:
        return False
    n_updates = flags[after, N_UPDATES]
    if n_updates == 0 or n_updates > layout[after, N_IN]:
        return False
    if flags[after, SCORES_ARE_EXACT] == 1:
        return True
    # Where some weights are zero or small, a form that is taken off may leave nothing but rounding.
    if layout[after, IS_DENSE] == 0:
        return False
    return bool(flags[after, STREAM_IS_EXACT] == 0 or flags[after, IS_ROUGH] == 1)


@numba.njit(cache=True, _nrt=False, inline="always")
def update_units(tables: Tables, frames: Frames, layer: int, axes: Axes) -> bool:
    """Update the stream after a plain layer, and the scores after it; False: compose both."""
    layout, blocks, flags, order = tables.layout, frames.blocks, frames.flags, frames.order
    after, dim = layer + 1, len(axes)
    if flags[after, BASE] != flags[layer, N_CHANGES]:
        return False
    first, n_units = layout[layer, FIRST_GROUP], layout[layer, N_GROUPS]
    is_relu = layout[layer, IS_RELU] == 1
    n_changed = 0
    n_on = 0
    for i in range(n_units):
        winner = frames.signature[first + i]
        n_on += winner
        if winner != frames.composed[layer, i]:
            order[0, n_changed] = i
            n_changed += 1
    n_on = n_on if is_relu else n_units
    if n_changed == 0:
        flags[after, IS_FRESH] = 1
        return True
    if 3 * n_changed + 4 > n_on:
        return False
    scores, last, scale = layout.shape[0] + layer, blocks.shape[0] - 1, tables.scale[0]
    kappa = update_kappa(n_changed)
    fresh_kappa = kappa_of(n_units)
    takes_off = flags[after, IS_TOTAL] == 0
    reach = _reach(layout, flags, frames.effect_places, layer)
    is_split_exactly = True
    for r in range(n_changed):
        j = order[0, r]
        new = form_of(layout, tables.indices, layer, j, frames.signature[first + j])
        old = form_of(layout, tables.indices, layer, j, frames.composed[layer, j])
        frames.composed[layer, j] = frames.signature[first + j]
        size = 0.0
        old_size = 0.0
        new_size = 0.0
        lost = 0.0
        for k in range(dim + 1):
            unit = scale if k < dim else 1.0
            now = blocks[scores, k, new] if new >= 0 else 0.0
            before = blocks[scores, k, old] if old >= 0 else 0.0
            change, rest = two_sum(now, -before)
            size = max(size, unit * abs(change))
            old_size = max(old_size, unit * abs(before))
            new_size = max(new_size, unit * abs(now))
            lost += unit * abs(rest)
            blocks[last, k, j] = change
            blocks[after, k, j] = now
        radius = blocks[scores, dim + 1, new] if new >= 0 else 0.0
        old_radius = blocks[scores, dim + 1, old] if old >= 0 else 0.0
        blocks[after, dim + 1, j] = radius
        # That of the change itself, for layers after the next.
        blocks[last - 1, dim + 1, j] = (radius + old_radius + lost) * (1.0 + 2.0**-40)
        is_split_exactly = is_split_exactly and lost == 0.0
        if takes_off:
            gained = radius - old_radius + fresh_kappa * (new_size - old_size)
        else:
            gained = 0.0
            radius += old_radius
            old_radius = 0.0
        _note(blocks, frames.shares, last, dim, j, after, size, radius + lost, old_radius, kappa,
              gained)  # fmt: skip
    flags[after, STREAM_GRID] = flags[layer, SCORES_GRID]
    is_exact = flags[layer, SCORES_ARE_EXACT] == 1
    if is_relu and not is_exact:
        n_rounded = 0
        for i in range(np.uint64(n_units)):
            # True of NaN as well.
            n_rounded += frames.composed[layer, i] * (blocks[scores, dim + 1, i] != 0.0)
        is_exact = n_rounded == 0
    is_exact = is_exact and is_split_exactly
    _finish(tables, frames, after, n_changed, is_exact, axes)
    if flags[after, IS_FRESH] == 0:
        if flags[after, IS_STALE] == 1:
            select_units(tables, frames, layer, after, axes)
    elif reach > after:
        spread(tables, frames, layer, n_changed, is_exact, reach, axes)
    return True


@numba.njit(cache=True, _nrt=False)
def _reach(layout: IntArray, flags: IntArray, places: IntArray, layer: int) -> int:
    """Return the last layer to which changes of a layer can be carried on."""
    reach = layer + 1
    while (
        places[layer, reach + 1] >= 0
        and may_update(layout, flags, reach)
        and flags[reach + 1, BASE] == flags[reach, N_CHANGES]
    ):
        reach += 1
    return reach


@numba.njit(cache=True, _nrt=False)
def select_units(
    tables: Tables, frames: Frames, layer: int, y: int, axes: Axes
) -> tuple[bool, int]:
    """Write the forms that units pass on into a block; return whether exact, and the grid."""
    layout, blocks, dim = tables.layout, frames.blocks, len(axes)
    scores, first = layout.shape[0] + layer, np.uint64(layout[layer, FIRST_GROUP])
    if layout[layer, IS_RELU] == 1:
        for k in range(dim + 2):
            for i in range(np.uint64(layout[layer, N_GROUPS])):
                is_on = frames.signature[first + i] == 1
                blocks[y, k, i] = blocks[scores, k, i] if is_on else 0.0
    else:
        for i in range(layout[layer, N_GROUPS]):
            form = form_of(layout, tables.indices, layer, i, frames.signature[first + np.uint64(i)])
            for k in range(dim + 2):
                blocks[y, k, i] = blocks[scores, k, form]
    n_rounded = 0
    for i in range(np.uint64(layout[layer, N_GROUPS])):
        frames.composed[layer, i] = frames.signature[first + i]
        # True of NaN as well.
        n_rounded += blocks[y, dim + 1, i] != 0.0
    frames.flags[layer + 1, BASE] = frames.flags[layer, N_CHANGES]
    frames.flags[layer + 1, IS_STALE] = 0
    return n_rounded == 0, frames.flags[layer, SCORES_GRID]


@numba.njit(cache=True, _nrt=False, inline="always")
def _note(
    blocks: FloatArray,
    shares: FloatArray,
    last: int,
    dim: int,
    j: int,
    after: int,
    size: float,
    radius: float,
    old_radius: float,
    kappa: float,
    gained: float,
) -> None:
    """Write what a changed form adds to the radii, and what it does to the sums of shares."""
    # Not below 2^-900, so that no share is lost in a product with a tame weight.
    share = radius - old_radius * (1.0 - 2.0**-20) + kappa * size + 2.0**-900
    blocks[last, dim + 1, j] = share
    shares[after, 0] += gained
    shares[after, 1] += radius + kappa * size


@numba.njit(cache=True, _nrt=False, inline="always")
def update_stream(
    tables: Tables, frames: Frames, layer: int, y: int, is_exact: bool, grid: int, axes: Axes
) -> None:
    """Replace the stream after a layer by the one in block `y`; update the scores if worth it."""
    layout, blocks, order = tables.layout, frames.blocks, frames.order
    after, dim = layer + 1, len(axes)
    last, scale, n = blocks.shape[0] - 1, tables.scale[0], layout[after, N_IN]
    n_changed = 0
    for j in range(n):
        is_changed = False
        for k in range(dim + 2):
            # True of NaN as well.
            is_changed = is_changed or blocks[y, k, j] != blocks[after, k, j]
        if is_changed:
            order[0, n_changed] = j
            n_changed += 1
    is_worth_it = 3 * n_changed + 4 <= n
    kappa = update_kappa(n_changed)
    fresh_kappa = kappa_of(n)
    is_split_exactly = True
    for r in range(n_changed):
        j = order[0, r]
        size = 0.0
        old_size = 0.0
        new_size = 0.0
        lost = 0.0
        for k in range(dim + 1):
            unit = scale if k < dim else 1.0
            new, old = blocks[y, k, j], blocks[after, k, j]
            change, rest = two_sum(new, -old)
            size = max(size, unit * abs(change))
            old_size = max(old_size, unit * abs(old))
            new_size = max(new_size, unit * abs(new))
            lost += unit * abs(rest)
            blocks[last, k, j] = change
            blocks[after, k, j] = new
        radius, old_radius = blocks[y, dim + 1, j], blocks[after, dim + 1, j]
        blocks[after, dim + 1, j] = radius
        is_split_exactly = is_split_exactly and lost == 0.0
        gained = radius - old_radius + fresh_kappa * (new_size - old_size)
        _note(blocks, frames.shares, last, dim, j, after, size, radius + lost, old_radius, kappa,
              gained)  # fmt: skip
    frames.flags[after, STREAM_GRID] = grid
    if is_worth_it:
        _finish(tables, frames, after, n_changed, is_exact and is_split_exactly, axes)
    frames.flags[after, STREAM_IS_EXACT] = 1 if is_exact else 0


@numba.njit(cache=True, _nrt=False, inline="always")
def _finish(
    tables: Tables, frames: Frames, after: int, n_changed: int, is_exact: bool, axes: Axes
) -> None:
    """Update the scores from the changes noted, if their radii stay small."""
    layout, flags, shares = tables.layout, frames.flags, frames.shares
    flags[after, STREAM_IS_EXACT] = 1 if is_exact else 0
    was_exact = flags[after, SCORES_ARE_EXACT] == 1
    if (was_exact and not is_exact) or not (
        was_exact or shares[after, 1] < most_growth(layout) * shares[after, 0]
    ):
        return
    if not was_exact and is_exact and flags[after, IS_ROUGH] == 0:
        return
    grid = min(flags[after, SCORES_GRID], weight_grid(layout, after) + flags[after, STREAM_GRID])
    blocks, to = frames.blocks, layout.shape[0] + after
    start, n = weights_at(layout, after), n_scores(layout, after)
    last, dim = blocks.shape[0] - 1, len(axes)
    add_rows(blocks, to, dim + 1, tables.sizes, start, n, frames.order, n_changed, last, dim + 1)
    largest = add_forms(
        blocks, to, tables.numbers, start, n, frames.order, n_changed, was_exact, grid, 0.0,
        layout[after, IS_TAME] == 1, tables.scale[0], axes,
    )  # fmt: skip
    if largest < HUGE:
        flags[after, IS_FRESH] = 1
        flags[after, N_UPDATES] += 1
        flags[after, N_CHANGES] += 1
        if was_exact:
            flags[after, SCORES_GRID] = grid
