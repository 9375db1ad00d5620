r"""Cells written down: signature, output map and polygon. No checks: see callers.

On a region of the last layer the output is composed once with all pending ReLU units off; a cell
then adds the few that are on.
"""

import math

import numba
import numpy as np

from hardmax._kernels.composition import compose_output, compose_readout
from hardmax._kernels.layouts import (
    AT_QUERY,
    FIRST_GROUP,
    HAS_OUTPUT,
    IS_RELU,
    N_PENDING,
    N_QUERY,
    OUTPUT_IS_IDENTITY,
    QUERY_IS_IDENTITY,
    RESIDUAL,
    SCORES_ARE_EXACT,
    Tables,
)
from hardmax._kernels.planar_buffers import (
    A1,
    A2,
    DRHO,
    DX,
    DY,
    IS_BLUNT,
    N_BROKEN,
    N_DOUBTFUL,
    N_ITEMS,
    N_LEAVES,
    N_VERTICES,
    PLANE,
    RA,
    RHO,
    SHIFT,
    Frames,
    Leaves,
    Stack,
    X,
    Y,
)
from hardmax._kernels.row_sums import TINY
from hardmax.typing import FloatArray, IntArray

_U = 2.0**-53
_BLUR = 2.0**-30
_SLIGHT = 2.0**-14
_LOOK_EVERY = 4096
SHARP = 2.0**-34
"""How far a vertex may be off, as a part of its size, before floats are not trusted any more."""


@numba.njit(cache=True, _nrt=False)
def is_blurred(edges: FloatArray, start: int, n: int, scale: float, state: IntArray) -> bool:
    """Say whether a polygon has a vertex too uncertain to be written down.

    Bounds on the rounding of deep networks are far from what happens. So where a vertex has a large
    radius, but lines of known directions meet there at no slight angle, it is doubtful only, and
    most doubtful polygons are taken as they are: ever fewer of them are computed again, and all
    once a vertex was found to be wrong (`IS_BLUNT`).
    """
    is_doubtful = False
    for i in range(start, start + n):
        size = max(scale, max(abs(edges[i, X]), abs(edges[i, Y])))
        if not (edges[i, RHO] <= _BLUR * size and edges[i, DRHO] <= _BLUR):
            before = i - 1 if i > start else start + n - 1
            if edges[i, DX] != 0.0 or edges[i, DY] != 0.0 or not cross(edges, before, i):
                return True
            is_doubtful = True
    if not is_doubtful:
        return False
    state[N_DOUBTFUL] += 1
    count = state[N_DOUBTFUL]
    is_power = count & (count - 1) == 0
    return bool(state[IS_BLUNT] == 1 or is_power or count % _LOOK_EVERY == 0)


@numba.njit(cache=True, _nrt=False)
def cross(edges: FloatArray, one: int, other: int) -> bool:
    """Say whether two lines have directions that are known, and not nearly the same."""
    a1, a2, b1, b2 = edges[one, A1], edges[one, A2], edges[other, A1], edges[other, A2]
    a, b = abs(a1) + abs(a2), abs(b1) + abs(b2)
    are_known = edges[one, RA] <= _SLIGHT * a and edges[other, RA] <= _SLIGHT * b
    return bool(are_known and abs(a1 * b2 - a2 * b1) > _SLIGHT * a * b)


@numba.njit(cache=True, _nrt=False)
def adds_units(tables: Tables, frames: Frames, layer: int) -> bool:
    """Say whether outputs on a region are sums over ReLU units that are worth sharing."""
    layout = tables.layout
    if layout[layer, IS_RELU] == 0 or layout[layer, RESIDUAL] == 1:
        return False
    # Exact outputs stay exact only if composed as a whole.
    if layout[layer, OUTPUT_IS_IDENTITY] == 0 or frames.flags[layer, SCORES_ARE_EXACT] == 1:
        return False
    return bool(layout[layer + 1, QUERY_IS_IDENTITY] == 0)


@numba.njit(cache=True, _nrt=False, inline="always")
def store(tables: Tables, frames: Frames, stack: Stack, leaves: Leaves, start: int, n: int) -> None:
    """Write the polygon on top down as a cell."""
    state, edges, labels, blocks = stack.state, stack.edges, stack.labels, frames.blocks
    cell, first = state[N_LEAVES], state[N_VERTICES]
    # Unsigned indices let the loop be vectorised.
    for g in range(np.uint64(leaves.signatures.shape[1])):
        leaves.signatures[cell, g] = frames.signature[g]
    n_layers = tables.layout.shape[0] - 1
    if n_layers > 0 and adds_units(tables, frames, n_layers - 1):
        b = blocks.shape[0] - 2
        if frames.flags[n_layers - 1, HAS_OUTPUT] == 0:
            _share_output(tables, frames, stack, n_layers - 1)
        _add_pending_units(
            blocks, tables.layout.shape[0] + n_layers - 1, b - 1, b, n_layers - 1, frames.pending,
            frames.flags[n_layers - 1, N_PENDING], stack.winners, state[N_ITEMS] - 1,
            tables.numbers, tables.layout[n_layers, AT_QUERY], tables.layout[n_layers, N_QUERY],
            tables.scale[0],
        )  # fmt: skip
    else:
        b = compose_readout(tables, frames, PLANE)
    radius = 0.0
    for i in range(leaves.maps.shape[2]):
        for k in range(3):
            leaves.maps[cell, k, i] = blocks[b, k, i]
            # Written so that an infinite or undefined number ends up in the bound.
            radius = radius if abs(blocks[b, k, i]) < math.inf else math.inf
        if not blocks[b, 3, i] <= radius:
            radius = blocks[b, 3, i]
    leaves.radii[cell] = radius
    if not radius < math.inf:
        state[N_BROKEN] += 1
    for i in range(n):
        row, to = start + i, first + i
        leaves.points[to, 0] = edges[row, X]
        leaves.points[to, 1] = edges[row, Y]
        # The layer of the domain is -1.
        layer = (labels[row, 0] + SHIFT // 2) >> 32
        leaves.walls[to, 0] = layer
        leaves.walls[to, 1] = labels[row, 0] - layer * SHIFT
        leaves.walls[to, 2] = labels[row, 1] >> 32
        leaves.walls[to, 3] = labels[row, 1] & (SHIFT - 1)
        leaves.cuts[to] = labels[row, 2]
    # A bounded domain has no room for directions.
    for i in range(n if leaves.directions.shape[0] > 0 else 0):
        leaves.directions[first + i, 0] = edges[start + i, DX]
        leaves.directions[first + i, 1] = edges[start + i, DY]
    state[N_LEAVES] += 1
    state[N_VERTICES] += n
    leaves.starts[cell + 1] = state[N_VERTICES]


@numba.njit(cache=True, _nrt=False)
def _share_output(tables: Tables, frames: Frames, stack: Stack, layer: int) -> None:
    """Write the output with all pending units off."""
    layout, blocks, flags, signature = tables.layout, frames.blocks, frames.flags, frames.signature
    top, n_pending = stack.state[N_ITEMS] - 1, flags[layer, N_PENDING]
    base, first = blocks.shape[0] - 3, layout[layer, FIRST_GROUP]
    for p in range(n_pending):
        signature[first + frames.pending[layer, p]] = 0
    compose_output(tables, frames, layer, PLANE)
    b = compose_readout(tables, frames, PLANE)
    for k in range(4):
        for i in range(layout[layer + 1, N_QUERY]):
            blocks[base, k, i] = blocks[b, k, i]
    for p in range(n_pending):
        signature[first + frames.pending[layer, p]] = stack.winners[top, p]
    flags[layer, HAS_OUTPUT] = 1


@numba.njit(cache=True, _nrt=False, inline="always")
def _add_pending_units(
    blocks: FloatArray,
    scores: int,
    base: int,
    to: int,
    layer: int,
    pending: IntArray,
    n_pending: int,
    winners: IntArray,
    item: int,
    numbers: FloatArray,
    at_weight: int,
    n_out: int,
    scale: float,
) -> None:
    r"""Write an output that is known with all pending units off, with those added that are on.

    Sums of $k$ products more in each coefficient: the radius grows by $\sum_j |w_j| e_j$ and by
    $2 (k + 8) u$ times the size of what is added up.
    """
    kappa = 2.0 * (n_pending + 8) * _U
    for i in range(n_out):
        o1, o2, o3 = blocks[base, 0, i], blocks[base, 1, i], blocks[base, 2, i]
        size = scale * (abs(o1) + abs(o2)) + abs(o3)
        radius = blocks[base, 3, i]
        for p in range(n_pending):
            if winners[item, p] == 1:
                j = pending[layer, p]
                a1, a2, c = blocks[scores, 0, j], blocks[scores, 1, j], blocks[scores, 2, j]
                w = numbers[at_weight + j * n_out + i]
                o1 += w * a1
                o2 += w * a2
                o3 += w * c
                size += abs(w) * (scale * (abs(a1) + abs(a2)) + abs(c))
                radius += abs(w) * blocks[scores, 3, j]
        blocks[to, 0, i] = o1
        blocks[to, 1, i] = o2
        blocks[to, 2, i] = o3
        blocks[to, 3, i] = (radius + kappa * size) * (1.0 + 2.0**-40) + TINY * scale
