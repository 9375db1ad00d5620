r"""What a unit of one layer does to the scores of later ones. No checks: see callers.

Layers are plain: what unit $u$ passes on is the score that wins in its group, or 0 where a ReLU is
off. With the matrices $D_k$ that pick the winners of layer $k$ from its scores, the effect of unit
$u$ of layer $m$ on the scores of layer $l$ is the row

$$c_u^{m+1} = e_u W_{m+1}, \qquad c_u^l = c_u^{l-1} D_{l-1} W_l;$$

where another form wins and the unit changes by $\delta$, the scores of layer $l$ change by $c_u^l
\delta$. Computing a row takes as many products as there are weights. But rows are kept, and the
next time the unit changes, few units between have: where $p_v$ won in the units $v \in F_k$ of
layer $k$ and now $q_v$ does,

$$c_u^{l\,\prime} = c_u^l + \sum_{k=m+1}^{l-1} \sum_{v \in F_k} \bigl(c_u^k[q_v] - c_u^k[p_v]\bigr)
  \, c_v^{l\,\prime},$$

old rows of $u$ times new rows of $v$ (winners replaced from the last layer to the first). So each
change costs one product for each score, however wide the layers are. The rows of $v$ that are
needed have to be brought up to date before, by later layers only.

Each row has a radius, $|\tilde c_i - c_i| \le \rho$ for all $i$, and a size that bounds every sum
of absolute values met on the way. A row computed from scratch has

$$\rho^l = (1 + 2^{-30}) \max_i \sum_{v \text{ on}} |w_{vi}| \bigl(\rho^{l-1} + \kappa
  |c^{l-1}[v]|\bigr) + T, \qquad \kappa = 2 (n / 32 + 16) u,$$

where a product is rounded once, twice more as one of four, 8 times more in a sum of 32, and with
every sum of 32 that follows;
a sum of $n$ corrections adds $\sum |s_v| \rho_v + \rho_s (\sigma_v + \rho_v)$, where $\sigma_v$ is
the size of the row of $v$ and $\rho_s$ the radius of its factor $s_v$, twice that of the row it is
a difference of and what rounding takes from it, and $2 (n + 4) u$ times the new size. On a grid on
which all sums fit, nothing is rounded and radii are 0.
"""

import math

import numba
import numpy as np

from hardmax._kernels.expansions import two_sum
from hardmax._kernels.layouts import (
    AT_QUERY,
    AT_SLOPES,
    AT_STARTS,
    IS_RELU,
    N_FORMS,
    N_GROUPS,
    N_QUERY,
    QUERY_GRID,
    SLOPES_GRID,
    Tables,
)
from hardmax._kernels.row_sums import FINEST_GRID, TINY, U
from hardmax.typing import AnyArray, FloatArray, IntArray

_AT_ONCE = 32
"""How many rows are added up before the sum is added to those before it."""

# The kinds of lists that are kept for the units of each layer: the last layer up to which its rows
# are known, how often they have been corrected since they were computed, units to be brought up to
# date, whether a unit is among these, where its changes start, how many there are (-1: compute its
# rows from scratch), and how many units are to be brought up to date.
_KNOWN, _N_CORRECTIONS, _LISTED, _IS_LISTED, _AT_CHANGES, _N_CHANGES, _N_LISTED = range(7)


@numba.njit(cache=True, _nrt=False)
def n_scores(layout: IntArray, layer: int) -> int:
    """Return how many scores are kept of a layer: one for each ReLU, one for each form."""
    return int(layout[layer, N_QUERY] if layout[layer, IS_RELU] == 1 else layout[layer, N_FORMS])


@numba.njit(cache=True, _nrt=False)
def weights_at(layout: IntArray, layer: int) -> int:
    """Return where the weights of the scores of a layer start."""
    return int(layout[layer, AT_QUERY] if layout[layer, IS_RELU] == 1 else layout[layer, AT_SLOPES])


@numba.njit(cache=True, _nrt=False)
def weight_grid(layout: IntArray, layer: int) -> int:
    """Return the exponent of their grid."""
    is_relu = layout[layer, IS_RELU] == 1
    return int(layout[layer, QUERY_GRID] if is_relu else layout[layer, SLOPES_GRID])


@numba.njit(cache=True, _nrt=False, inline="always")
def form_of(layout: IntArray, indices: IntArray, layer: int, group: int, winner: int) -> int:
    """Return which score of a plain layer a group passes on, or -1 for none."""
    if layout[layer, IS_RELU] == 1:
        return int(group if winner == 1 else -1)
    return int(indices[layout[layer, AT_STARTS] + group] + winner)


@numba.njit(cache=True, _nrt=False)
def _add_scaled(
    numbers: FloatArray,
    to: int,
    source: FloatArray,
    rows: IntArray,
    factors: int,
    first: int,
    end: int,
    n: int,
) -> None:
    """Add `sum_r numbers[factors + r] * source[rows[2, r] + i]` to `numbers[to + i]`."""
    r = first
    # Unsigned indices cannot mean "from the end", which lets the loops below be vectorised.
    width, t = np.uint64(n), np.uint64(to)
    while r + 4 <= end:
        f0, f1 = numbers[factors + r], numbers[factors + r + 1]
        f2, f3 = numbers[factors + r + 2], numbers[factors + r + 3]
        w0, w1 = np.uint64(rows[2, r]), np.uint64(rows[2, r + 1])
        w2, w3 = np.uint64(rows[2, r + 2]), np.uint64(rows[2, r + 3])
        for i in range(width):
            numbers[t + i] += (source[w0 + i] * f0 + source[w1 + i] * f1) + (
                source[w2 + i] * f2 + source[w3 + i] * f3
            )
        r += 4
    while r < end:
        f0 = numbers[factors + r]
        w0 = np.uint64(rows[2, r])
        for i in range(width):
            numbers[t + i] += source[w0 + i] * f0
        r += 1


@numba.njit(cache=True, _nrt=False)
def _fits(layout: IntArray, m: int, target: int, size: float) -> bool:
    """Say whether sums of this size are exact on the grid of the products of the weights."""
    grid = 0
    for k in range(m + 1, target + 1):
        grid += weight_grid(layout, k)
    return bool(
        grid >= FINEST_GRID and size * (1.0 + 2.0**-30) <= math.ldexp(1.0, min(53 + grid, 1000))
    )


@numba.njit(cache=True, _nrt=False)
def _compute(
    tables: Tables,
    composed: AnyArray,
    numbers: FloatArray,
    places: IntArray,
    bounds: FloatArray,
    rows: IntArray,
    m: int,
    u: int,
    reach: int,
) -> None:
    """Write the rows of a unit from scratch."""
    layout, indices = tables.layout, tables.indices
    factors, sums = 0, bounds.shape[3]
    for target in range(m + 2, reach + 1):
        k, n = target - 1, n_scores(layout, target)
        source, to = places[m, k] + u * n_scores(layout, k), places[m, target] + u * n
        n_on = 0
        for v in range(layout[k, N_GROUPS]):
            form = form_of(layout, indices, k, v, composed[k, v])
            if form >= 0:
                rows[2, n_on] = weights_at(layout, target) + v * n
                numbers[factors + n_on] = numbers[source + form]
                n_on += 1
        for i in range(n):
            numbers[to + i] = 0.0
        for first in range(0, n_on, _AT_ONCE):
            for i in range(n):
                numbers[sums + i] = 0.0
            end = min(first + _AT_ONCE, n_on)
            _add_scaled(numbers, sums, tables.numbers, rows, factors, first, end, n)
            for i in range(n):
                numbers[to + i] += numbers[sums + i]
        kappa, radius = 2.0 * (n_on / _AT_ONCE + 16.0) * U, bounds[0, m, k, u]
        for r in range(n_on):
            # Not below 2^-900, so that no share is lost in a product with a tame weight.
            numbers[factors + r] = radius + kappa * abs(numbers[factors + r]) + 2.0**-900
        for i in range(n):
            numbers[sums + i] = 0.0
        _add_scaled(numbers, sums, tables.sizes, rows, factors, 0, n_on, n)
        largest = 0.0
        for i in range(n):
            # Written so that NaN ends up in the bound.
            if not (numbers[sums + i] <= largest or largest != largest):
                largest = numbers[sums + i]
        size = largest / kappa * (1.0 + 2.0**-30) + TINY
        is_exact = radius == 0.0 and _fits(layout, m, target, size)
        bounds[0, m, target, u] = 0.0 if is_exact else (1.0 + 2.0**-30) * largest + TINY
        bounds[1, m, target, u] = size


@numba.njit(cache=True, _nrt=False)
def _correct(
    layout: IntArray,
    indices: IntArray,
    composed: AnyArray,
    numbers: FloatArray,
    places: IntArray,
    bounds: FloatArray,
    patterns: AnyArray,
    changes: IntArray,
    start: int,
    n_changes: int,
    m: int,
    u: int,
    reach: int,
) -> None:
    """Bring the rows of a unit up to date, from the last layer to the first."""
    factors = 0
    for target in range(reach, m + 1, -1):
        n = n_scores(layout, target)
        count = 0
        gained = 0.0
        error = 0.0
        for f in range(start, start + n_changes):
            k, v = changes[0, f], changes[1, f]
            if k < target:
                source = places[m, k] + u * n_scores(layout, k)
                new = form_of(layout, indices, k, v, composed[k, v])
                old = form_of(layout, indices, k, v, patterns[m, k - m - 1, u, v])
                now = numbers[source + new] if new >= 0 else 0.0
                before = numbers[source + old] if old >= 0 else 0.0
                factor, rest = two_sum(now, -before)
                radius, size = bounds[0, k, target, v], bounds[1, k, target, v]
                changes[2, count] = places[k, target] + v * n
                numbers[factors + count] = factor
                gained += (abs(now) + abs(before)) * size
                error += abs(factor) * radius
                error += (2.0 * bounds[0, m, k, u] + abs(rest)) * (size + radius)
                count += 1
        if count == 0:
            continue
        _add_scaled(numbers, places[m, target] + u * n, numbers, changes, factors, 0, count, n)
        size = (bounds[1, m, target, u] + gained) * (1.0 + 2.0**-40)
        bounds[1, m, target, u] = size
        error += bounds[0, m, target, u]
        if error != 0.0 or not _fits(layout, m, target, size):
            error = (error + 2.0 * (count + 4.0) * U * size) * (1.0 + 2.0**-40) + TINY
        bounds[0, m, target, u] = error


@numba.njit(cache=True, _nrt=False)
def refresh_effects(
    tables: Tables,
    composed: AnyArray,
    numbers: FloatArray,
    places: IntArray,
    bounds: FloatArray,
    patterns: AnyArray,
    lists: IntArray,
    changes: IntArray,
    order: IntArray,
    n_units: int,
    layer: int,
    reach: int,
) -> None:
    """Bring the effects of some units of a layer, on layers up to `reach`, up to date.

    Args:
        tables: The network.
        composed: `(n_layers, most_groups)`: the winners.
        numbers: Scratch, and the rows.
        places: `(n_layers + 1, n_layers + 1)`: where the rows start for two layers.
        bounds: `(2, n_layers + 1, n_layers + 1, most_groups)`: radii and sizes of the rows.
        patterns: `(n_layers + 1, most_reach - 1, most_groups, most_groups)`: the winners in the
            layers after a unit when its rows were last brought up to date.
        lists: The lists named above.
        changes: `(3, capacity)`: layers and units that have changed since, and scratch.
        order: The units are the first `n_units` of its first row.
        n_units: How many there are.
        layer: Their layer.
        reach: The last layer that matters.
    """
    layout, indices = tables.layout, tables.indices
    for m in range(layer, reach - 1):
        lists[_N_LISTED, m, 0] = 0
    for r in range(n_units):
        lists[_LISTED, layer, r] = order[0, r]
    lists[_N_LISTED, layer, 0] = n_units
    at = 0
    for m in range(layer, reach - 1):
        for r in range(lists[_N_LISTED, m, 0]):
            u = lists[_LISTED, m, r]
            start = at
            most = min(start + layout[m + 1, N_GROUPS] // 4, changes.shape[1])
            is_known = lists[_KNOWN, m, u] >= reach
            is_known = is_known and lists[_N_CORRECTIONS, m, u] <= layout[m + 1, N_GROUPS]
            for k in range(m + 1, reach if is_known else 0):
                # Most layers have not changed, and a loop without branches finds that out quickly.
                n_differ = 0
                for v in range(np.uint64(layout[k, N_GROUPS])):
                    n_differ += patterns[m, k - m - 1, u, v] != composed[k, v]
                for v in range(layout[k, N_GROUPS] if n_differ > 0 else 0):
                    if patterns[m, k - m - 1, u, v] != composed[k, v] and at <= most:
                        if at < most:
                            changes[0, at] = k
                            changes[1, at] = v
                        at += 1
            if not is_known or at > most:
                at = start
                lists[_N_CHANGES, m, u] = -1
                continue
            lists[_AT_CHANGES, m, u] = start
            lists[_N_CHANGES, m, u] = at - start
            for f in range(start, at):
                k, v = changes[0, f], changes[1, f]
                if k < reach - 1 and lists[_IS_LISTED, k, v] == 0:
                    lists[_IS_LISTED, k, v] = 1
                    lists[_LISTED, k, lists[_N_LISTED, k, 0]] = v
                    lists[_N_LISTED, k, 0] += 1
    for m in range(reach - 2, layer - 1, -1):
        for r in range(lists[_N_LISTED, m, 0]):
            u = lists[_LISTED, m, r]
            start, n_changes = lists[_AT_CHANGES, m, u], lists[_N_CHANGES, m, u]
            lists[_IS_LISTED, m, u] = 0
            lists[_KNOWN, m, u] = reach
            if n_changes < 0:
                _compute(tables, composed, numbers, places, bounds, changes, m, u, reach)
                lists[_N_CORRECTIONS, m, u] = 0
                for k in range(m + 1, reach):
                    for v in range(layout[k, N_GROUPS]):
                        patterns[m, k - m - 1, u, v] = composed[k, v]
                continue
            _correct(
                layout, indices, composed, numbers, places, bounds, patterns, changes, start,
                n_changes, m, u, reach,
            )  # fmt: skip
            lists[_N_CORRECTIONS, m, u] += n_changes
            for f in range(start, start + n_changes):
                k, v = changes[0, f], changes[1, f]
                patterns[m, k - m - 1, u, v] = composed[k, v]
