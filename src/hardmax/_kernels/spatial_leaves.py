"""Cells of the answer written down, with their facets and ties. No checks: see callers.

A form on the list of a cell is a facet if and only if some vertex lies on it and no other form on
the list holds at all of its vertices: facets are the largest proper faces, every proper face lies
in one, and no two forms on a list have the same hyperplane, because a form is listed only where it
cuts. Through a vertex with exactly $d$ forms there is nothing to check: all of them are facets.
"""

import math

import numba
import numpy as np

from hardmax._kernels.composition import compose_output, compose_readout
from hardmax._kernels.layouts import (
    AT_QUERY,
    AT_QUERY_BIAS,
    AT_STARTS,
    FIRST_GROUP,
    IS_MERGED,
    IS_RELU,
    IS_TAME,
    N_GROUPS,
    N_IN,
    OUTPUT_IS_IDENTITY,
    QUERY_BIAS_GRID,
    QUERY_GRID,
    QUERY_IS_IDENTITY,
    RESIDUAL,
    SCORES_GRID,
    Tables,
)
from hardmax._kernels.spatial_buffers import (
    CUT,
    F_COUNT,
    F_START,
    N_FACETS,
    N_LEAF_TIES,
    N_LEAVES,
    N_TIES,
    N_VERTICES,
    TIES_END,
    V_COUNT,
    V_START,
    Frames,
    Leaves,
    Scratch,
    Stack,
)
from hardmax._kernels.spatial_vertices import TINY, bit_count, lowest_bit
from hardmax.typing import IntArray

_FINEST_GRID = -1000
_MOST_OUTPUTS = 8
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@numba.njit(cache=True, _nrt=False)
def note_ties(
    stack: Stack,
    scratch: Scratch,
    start: int,
    n: int,
    n_zero: int,
    f_start: int,
    n_facets: int,
    group: int,
    winner: int,
) -> bool:
    """Note the facets of a cell on which a form that does not cut it vanishes; False: no room.

    Args:
        stack: Holds the cell.
        scratch: Holds the signs of the form at the vertices.
        start: The first vertex.
        n: How many vertices.
        n_zero: At how many of them the form is zero.
        f_start: The first facet.
        n_facets: How many facets.
        group: The group of the form, counted over all layers.
        winner: The winner of the group on the cell.
    """
    state, masks, ties, others = stack.state, stack.masks, stack.ties, scratch.common
    dim = stack.pool.shape[1] - 5
    if n_zero < dim:
        return True
    if state[N_TIES] + n_facets + 1 > ties.shape[0]:
        return False
    if n_zero == n:
        _add_tie(stack, -1, group, winner)
        return True
    for w in range(masks.shape[1]):
        others[w] = _ZERO
    for i in range(n):
        if scratch.signs[i] != 0:
            for w in range(masks.shape[1]):
                others[w] |= masks[start + i, w]
    for f in range(n_facets):
        row = stack.facets[f_start + f]
        is_inside = stack.names[row, 0] >= 0
        if is_inside and (others[f // 64] >> np.uint64(f % 64)) & _ONE == _ZERO:
            _add_tie(stack, row, group, winner)
    return True


@numba.njit(cache=True, _nrt=False)
def _add_tie(stack: Stack, row: int, group: int, winner: int) -> None:
    place = stack.state[N_TIES]
    stack.ties[place, 0], stack.ties[place, 1], stack.ties[place, 2] = row, group, winner
    stack.state[N_TIES] = place + 1


@numba.njit(cache=True, _nrt=False, forceinline=True)
def has_room(frames: Frames, stack: Stack, leaves: Leaves, item: int) -> bool:
    """Say whether one more cell fits."""
    state, items = stack.state, stack.items
    most_ties = items[item, TIES_END] + frames.signature.shape[0]
    return bool(
        state[N_LEAVES] < leaves.radii.shape[0]
        and state[N_VERTICES] + items[item, V_COUNT] <= leaves.points.shape[0]
        and state[N_FACETS] + items[item, F_COUNT] <= leaves.facets.shape[0]
        and state[N_LEAF_TIES] + most_ties <= leaves.ties.shape[0]
    )


@numba.njit(cache=True, _nrt=False, forceinline=True)
def store(
    tables: Tables, frames: Frames, stack: Stack, scratch: Scratch, leaves: Leaves, item: int
) -> None:
    """Write a cell down, after its winners."""
    state, forms = stack.state, frames.blocks
    start, n = stack.items[item, V_START], stack.items[item, V_COUNT]
    dim = forms.shape[1] - 2
    cell, first = state[N_LEAVES], state[N_VERTICES]
    for g in range(leaves.signatures.shape[1]):
        leaves.signatures[cell, g] = frames.signature[g]
    if not _read_out_units(tables, frames, leaves, cell):
        block = _composed_map(tables, frames)
        radius = 0.0
        for i in range(leaves.maps.shape[2]):
            for k in range(dim + 1):
                leaves.maps[cell, k, i] = forms[block, k, i]
            if not (forms[block, dim + 1, i] <= radius or radius != radius):
                radius = forms[block, dim + 1, i]
        leaves.radii[cell] = radius
    _store_points(stack, leaves, cell, start, n, first)
    _store_facets(tables, frames, stack, scratch, leaves, item)
    _store_ties(tables, frames, stack, scratch, leaves, item)
    state[N_LEAVES] += 1
    state[N_VERTICES] += n
    leaves.ends[cell] = state[N_VERTICES]
    leaves.facet_ends[cell] = state[N_FACETS]
    leaves.tie_ends[cell] = state[N_LEAF_TIES]


@numba.njit(cache=True, _nrt=False)
def _composed_map(tables: Tables, frames: Frames) -> int:
    """Compose the output of the last layer and the read-out; return the block of the latter."""
    layer = tables.layout.shape[0] - 2
    if layer >= 0:
        compose_output(tables, frames, layer, frames.axes)
    return int(compose_readout(tables, frames, frames.axes))


@numba.njit(cache=True, _nrt=False, forceinline=True)
def _store_points(stack: Stack, leaves: Leaves, cell: int, start: int, n: int, first: int) -> None:
    """Write vertices down without their radii, of which only bounds for the cell are kept."""
    points, kept = stack.points, leaves.points
    dim = np.uint64(stack.pool.shape[1] - 5)
    n_columns = np.uint64(kept.shape[1])
    source, to = np.uint64(start), np.uint64(first)
    blur, far_blur = 0.0, 0.0
    for _ in range(n):
        # Written so that NaN ends up in the bound.
        if not (points[source, dim] <= blur or blur != blur):
            blur = points[source, dim]
        kept[to, 0] = points[source, 0]
        if n_columns == np.uint64(3):
            kept[to, 1], kept[to, 2] = points[source, 1], points[source, 2]
        elif n_columns == dim and dim == np.uint64(4):
            kept[to, 1], kept[to, 2] = points[source, 1], points[source, 2]
            kept[to, 3] = points[source, 3]
        else:
            for k in range(_ONE, n_columns):
                kept[to, k] = points[source, k if k < dim else k + _ONE]
            if n_columns > dim and points[source, n_columns + _ONE] != 0.0:
                reach = 0.0
                for k in range(dim, n_columns):
                    reach += abs(kept[to, k])
                # A direction that rounds to zero no longer says that the vertex is at infinity.
                if reach == 0.0:
                    far_blur = math.inf
                if not (points[source, n_columns + _ONE] <= far_blur or far_blur != far_blur):
                    far_blur = points[source, n_columns + _ONE]
        source += _ONE
        to += _ONE
    leaves.blurs[cell, 0] = blur
    leaves.blurs[cell, 1] = far_blur


@numba.njit(cache=True, _nrt=False, forceinline=True)
def _read_out_units(tables: Tables, frames: Frames, leaves: Leaves, cell: int) -> bool:
    """Write the map of a cell where a last layer of ReLU units is read out by few outputs.

    The bound is that of `composition`, whatever the order of the sums, without the stream between
    the two: the units that are off do not come in. False, and nothing written: not such a layer, or
    not certainly exact where all units are.
    """
    layout, numbers, sizes, forms = tables.layout, tables.numbers, tables.sizes, frames.blocks
    last = layout.shape[0] - 1
    layer = last - 1
    n_out = np.uint64(leaves.maps.shape[2])
    if layer < 0 or n_out > np.uint64(_MOST_OUTPUTS) or layout[last, QUERY_IS_IDENTITY] == 1:
        return False
    is_plain = layout[layer, OUTPUT_IS_IDENTITY] == 1 and layout[layer, RESIDUAL] == 0
    if layout[layer, IS_RELU] == 0 or not is_plain:
        return False
    used, shares = frames.order, frames.work
    scores, first = np.uint64(last + 1 + layer), np.uint64(layout[layer, FIRST_GROUP])
    dim = np.uint64(forms.shape[1] - 2)
    kappa = 2.0 * (layout[last, N_IN] + 8) * 2.0**-53
    scale = tables.scale[0]
    n_used = _ZERO
    radii = 0.0
    for j in range(np.uint64(layout[layer, N_GROUPS])):
        if frames.signature[first + j] == 0:
            continue
        e = forms[scores, dim + _ONE, j]
        size = abs(forms[scores, 0, j])
        for k in range(_ONE, dim):
            size = max(size, abs(forms[scores, k, j]))
        size = max(scale * size, abs(forms[scores, dim, j]))
        if size == 0.0 and e == 0.0:
            continue
        used[0, n_used] = j
        # Not below 2^-900, so that no share is lost in a product with a tame weight.
        shares[0, n_used] = e + kappa * size + 2.0**-900
        shares[1, n_used] = size
        n_used += _ONE
        radii += e
    is_exact = radii == 0.0
    weight, bias = np.uint64(layout[last, AT_QUERY]), np.uint64(layout[last, AT_QUERY_BIAS])
    grid = layout[last, QUERY_GRID] + frames.flags[layer, SCORES_GRID]
    grid = min(grid, layout[last, QUERY_BIAS_GRID])
    if is_exact and grid < _FINEST_GRID:
        return False
    bound = math.ldexp(1.0, min(53 + grid, 1000)) if is_exact else 0.0
    is_tame = layout[last, IS_TAME] == 1
    radius = 0.0
    for i in range(n_out):
        share = 0.0
        place = np.uint64(1) if is_exact else _ZERO
        for r in range(n_used):
            share += sizes[weight + np.uint64(used[0, r]) * n_out + i] * shares[place, r]
        if is_exact:
            if not (share + sizes[bias + i]) * (1.0 + 2.0**-30) <= bound:
                return False
        elif share != 0.0 or not is_tame:
            own = (1.0 + kappa) * (share + kappa * sizes[bias + i]) + TINY * scale
            if not (own <= radius or radius != radius):
                radius = own
    for i in range(n_out):
        for k in range(dim + _ONE):
            total = numbers[bias + i] if k == dim else 0.0
            for r in range(n_used):
                unit = np.uint64(used[0, r])
                total += numbers[weight + unit * n_out + i] * forms[scores, k, unit]
            leaves.maps[cell, k, i] = total
    leaves.radii[cell] = radius
    return True


@numba.njit(cache=True, _nrt=False, forceinline=True)
def _store_facets(
    tables: Tables, frames: Frames, stack: Stack, scratch: Scratch, leaves: Leaves, item: int
) -> None:
    """Write the facets of a cell that lie inside the domain, and their rows to `scratch.tight`."""
    state, masks, names = stack.state, stack.masks, stack.names
    start, n = stack.items[item, V_START], stack.items[item, V_COUNT]
    f_start = stack.items[item, F_START]
    dim = stack.pool.shape[1] - 5
    n_words = masks.shape[1]
    first = state[N_FACETS]
    for w in range(n_words):
        touched = _ZERO
        simple = _ZERO
        for i in range(start, start + n):
            touched |= masks[i, w]
            count = bit_count(masks[i, w])
            for other in range(n_words):
                if other != w:
                    count += bit_count(masks[i, other])
            if count == dim:
                simple |= masks[i, w]
        while touched != _ZERO:
            bit = lowest_bit(touched)
            is_facet = (simple >> np.uint64(bit)) & _ONE != _ZERO
            touched &= touched - _ONE
            row = stack.facets[f_start + 64 * w + bit]
            if names[row, 0] < 0:
                continue
            if is_facet or _is_largest(stack, scratch, start, n, 64 * w + bit):
                group = tables.layout[names[row, 0], FIRST_GROUP] + names[row, 1]
                rival = names[row, 2] + names[row, 3] - frames.signature[group]
                place = state[N_FACETS]
                leaves.facets[place, 0] = names[row, CUT]
                leaves.facets[place, 1] = group
                leaves.facets[place, 2] = rival
                scratch.tight[place - first] = row
                state[N_FACETS] = place + 1


@numba.njit(cache=True, _nrt=False)
def _is_largest(stack: Stack, scratch: Scratch, start: int, n: int, bit: int) -> bool:
    """Say whether no other form on the list of a cell vanishes at all vertices of one."""
    masks, common = stack.masks, scratch.common
    n_words = masks.shape[1]
    for w in range(n_words):
        common[w] = ~_ZERO
    word, flag = bit // 64, _ONE << np.uint64(bit % 64)
    for i in range(start, start + n):
        if masks[i, word] & flag != _ZERO:
            for w in range(n_words):
                common[w] &= masks[i, w]
    common[word] &= ~flag
    shared = _ZERO
    for w in range(n_words):
        shared |= common[w]
    return bool(shared == _ZERO)


@numba.njit(cache=True, _nrt=False)
def _store_ties(
    tables: Tables, frames: Frames, stack: Stack, scratch: Scratch, leaves: Leaves, item: int
) -> None:
    """Write the ties that hold on a cell, after its facets."""
    state, ties, layout = stack.state, stack.ties, tables.layout
    cell = state[N_LEAVES]
    first = leaves.facet_ends[cell - 1] if cell > 0 else 0
    n_facets = state[N_FACETS] - first
    for t in range(stack.items[item, TIES_END]):
        row, group = ties[t, 0], ties[t, 1]
        if frames.signature[group] != ties[t, 2]:
            continue
        facet = -1
        if row >= 0:
            facet = 0
            while facet < n_facets and scratch.tight[facet] != row:
                facet += 1
            if facet == n_facets:
                continue
        _put_tie(state, leaves, facet, group)
    for layer in range(layout.shape[0] - 1):
        # What coincides in exact arithmetic no longer competes, and leaves no zero signs.
        if frames.flags[layer, IS_MERGED] == 0 or layout[layer, IS_RELU] == 1:
            continue
        for g in range(layout[layer, N_GROUPS]):
            begin = tables.indices[layout[layer, AT_STARTS] + g]
            end = tables.indices[layout[layer, AT_STARTS] + g + 1]
            for j in range(begin, end):
                if frames.first[layer, j] != tables.first[layer, j]:
                    _put_tie(state, leaves, -1, layout[layer, FIRST_GROUP] + g)
                    break


@numba.njit(cache=True, _nrt=False)
def _put_tie(state: IntArray, leaves: Leaves, facet: int, group: int) -> None:
    place = state[N_LEAF_TIES]
    leaves.ties[place, 0] = facet
    leaves.ties[place, 1] = group
    state[N_LEAF_TIES] = place + 1
