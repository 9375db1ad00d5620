r"""Changes of a plain layer carried on to the scores of later layers. No checks: see callers.

Where units of layer $m$ change, $\tilde z$ of a later layer is updated with their effects $\tilde
c_u$ (see `effects`), which have radii $\rho_u$, and the changes $\delta_u$, which have radii $e_u$:
those of both forms and the rounding of their difference. If $|z_i - \tilde z_i| \le r_i$, this
holds for $\tilde z_i' = \mathrm{fl}(\tilde z_i + \sum_u \tilde c_{ui} \delta_u)$ and

$$r_i' = (1 + 4 \kappa) \Bigl(r_i + \sum_u |\tilde c_{ui}| (e_u + \kappa \mu(\delta_u)) + \sum_u
  \rho_u (\mu(\delta_u) + e_u) + (s + \tfrac12) u\, \mu(\tilde z_i')\Bigr) + T$$

with the symbols of `composition_updates`, because $c_u \delta_u^* - \tilde c_u \delta_u = c_u
(\delta_u^* - \delta_u) + (c_u - \tilde c_u) \delta_u$. Radii then hold errors only: they
are not known to hold $\sum_j |w_{ij}| e_j$, and no $e_j$ may be taken off.
"""

import math

import numba
import numpy as np

from hardmax._kernels.effects import n_scores, refresh_effects, weight_grid
from hardmax._kernels.layouts import (
    BASE,
    IS_STALE,
    IS_TOTAL,
    N_CHANGES,
    N_UPDATES,
    SCORES_ARE_EXACT,
    SCORES_GRID,
    Axes,
    Tables,
)
from hardmax._kernels.row_sums import FINEST_GRID, TINY, U, add_rows, n_sums, update_kappa
from hardmax._kernels.spatial_buffers import Frames
from hardmax.typing import FloatArray, IntArray

HUGE = 1e250


@numba.njit(cache=True, _nrt=False, inline="always")
def most_growth(layout: IntArray) -> float:
    """Return how much larger than those of a fresh composition radii may become in each layer."""
    return float(1.0 + 8.0 / (layout.shape[0] - 1))


@numba.njit(cache=True, _nrt=False)
def spread(
    tables: Tables,
    frames: Frames,
    layer: int,
    n_changed: int,
    are_exact: bool,
    reach: int,
    axes: Axes,
) -> None:
    """Carry the changes of a layer, in the last block, on to layers from the second after it on.

    The radii of the changes are those of the last block but one.
    """
    layout, flags, shares = tables.layout, frames.flags, frames.shares
    refresh_effects(
        tables, frames.composed, frames.effects, frames.effect_places,
        frames.effect_bounds, frames.effect_patterns, frames.effect_lists, frames.effect_changes,
        frames.order, n_changed, layer, reach,
    )  # fmt: skip
    product_grid = weight_grid(layout, layer + 1)
    for after in range(layer + 2, reach + 1):
        product_grid += weight_grid(layout, after)
        was_exact = flags[after, SCORES_ARE_EXACT] == 1
        grid = min(flags[after, SCORES_GRID], product_grid + flags[layer, SCORES_GRID])
        if was_exact and not are_exact:
            return
        growth = _add_effects(
            frames.blocks, layout.shape[0] + after, frames.effects,
            frames.effect_places[layer, after], frames.effect_bounds[0, layer, after],
            n_scores(layout, after), frames.order, n_changed, was_exact, grid, tables.scale[0],
            axes,
        )  # fmt: skip
        shares[after, 1] *= growth
        if not (growth < math.inf and shares[after, 1] <= most_growth(layout) * shares[after, 0]):
            return
        flags[after, N_CHANGES] += 1
        flags[after, N_UPDATES] += 1
        flags[after, BASE] = flags[after - 1, N_CHANGES]
        flags[after, IS_TOTAL] = 1
        flags[after, IS_STALE] = 1
        if was_exact:
            flags[after, SCORES_GRID] = grid


@numba.njit(cache=True, _nrt=False)
def _add_effects(
    blocks: FloatArray,
    to: int,
    effects: FloatArray,
    start: int,
    radii: FloatArray,
    n: int,
    order: IntArray,
    n_changed: int,
    is_exact: bool,
    grid: int,
    scale: float,
    axes: Axes,
) -> float:
    """Add changes times effects to scores; return the growth of the radii, infinite if in vain."""
    last, dim = blocks.shape[0] - 1, len(axes)
    kappa = update_kappa(n_changed)
    common = 0.0
    # Not read off from the sum of products, which may underflow.
    n_rounded = 0
    before = 0.0
    for i in range(np.uint64(n)):
        before = max(before, blocks[to, dim + 1, i])
    for r in range(n_changed):
        j = order[0, r]
        size = abs(blocks[last, dim, j])
        for k in range(dim):
            size = max(size, scale * abs(blocks[last, k, j]))
        radius = blocks[last - 1, dim + 1, j]
        common += radii[j] * (size + radius)
        n_rounded += radii[j] != 0.0
        # Not below 2^-900, so that no share is lost in a product with a tame weight.
        share = radius + kappa * size + 2.0**-900
        row = np.uint64(start + j * n)
        for i in range(np.uint64(n)):
            blocks[to, dim + 1, i] += abs(effects[row + i]) * share
    if is_exact and n_rounded > 0:
        return math.inf
    largest = add_forms(
        blocks, to, effects, start, n, order, n_changed, is_exact, grid, common, False, scale, axes
    )
    if is_exact:
        return float(largest + 1.0)
    return float(largest / before) if before > 0.0 and largest < HUGE else math.inf


@numba.njit(cache=True, _nrt=False)
def add_forms(
    blocks: FloatArray,
    to: int,
    weights: FloatArray,
    start: int,
    n: int,
    order: IntArray,
    n_changed: int,
    is_exact: bool,
    grid: int,
    common: float,
    keeps_zeros: bool,
    scale: float,
    axes: Axes,
) -> float:
    """Add changes times weights to scores whose radii have got the shares of the changes.

    Returns the largest radius, infinite where exact scores would not be exact any more.
    """
    last, dim = blocks.shape[0] - 1, len(axes)
    kappa, sum_kappa = update_kappa(n_changed), (n_sums(n_changed) + 0.5) * U
    if is_exact:
        # The shares of exact forms are their sizes times kappa.
        largest = 0.0
        for i in range(n):
            size = abs(blocks[to, dim, i])
            for k in range(dim):
                size = max(size, scale * abs(blocks[to, k, i]))
            size = (size + blocks[to, dim + 1, i] / kappa) * (1.0 + 2.0**-30)
            blocks[to, dim + 1, i] = 0.0
            # Written so that NaN ends up in the bound.
            if not (size <= largest or largest != largest):
                largest = size
        if grid < FINEST_GRID or not largest <= math.ldexp(1.0, min(53 + grid, 1000)):
            return math.inf
    add_rows(blocks, to, 0, weights, start, n, order, n_changed, last, 0)
    for k in range(1, dim):
        add_rows(blocks, to, k, weights, start, n, order, n_changed, last, k)
    add_rows(blocks, to, dim, weights, start, n, order, n_changed, last, dim)
    if is_exact:
        return 0.0
    largest = 0.0
    for i in range(np.uint64(n)):
        size = abs(blocks[to, 0, i])
        for k in range(1, dim):
            size = max(size, abs(blocks[to, k, i]))
        size = max(scale * size, abs(blocks[to, dim, i]))
        radius = blocks[to, dim + 1, i] + common
        larger = (1.0 + 4.0 * kappa) * (radius + sum_kappa * size) + TINY * scale
        radius = larger if radius != 0.0 or not keeps_zeros else 0.0
        blocks[to, dim + 1, i] = radius
        largest = largest if radius <= largest else radius
    return float(largest)
