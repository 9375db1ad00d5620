r"""Polytopes cut by a form whose signs at the vertices are known. No checks: see callers.

One step of the double description method. A new vertex appears on every edge between a positive
and a negative vertex, and two vertices span an edge if no third vertex lies on all facets they
share. That needs complete masks, and nothing else; in particular a vertex may lie on more than $d$
facets. Where one of two vertices lies on exactly $d$ facets, sharing $d - 1$ of them is enough.

References:
    [FP96], proposition 7.
"""

import math
from typing import Any

import numba
import numpy as np

from hardmax._kernels.spatial_buffers import (
    FAR,
    NORM,
    OFFSET,
    OFFSET_RADIUS,
    RADIUS,
    Scratch,
    Stack,
)
from hardmax._kernels.spatial_vertices import (
    UP,
    bit_count,
    collect,
    independent_rows,
    is_far,
    lowest_bit,
    radii_into,
)
from hardmax.typing import FloatArray

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)
_NO_ROOM = -1


@numba.njit(cache=True, _nrt=False, forceinline=True)
def normalise(stack: Stack, row: int) -> None:
    """Scale a form of the pool by a power of two, so that no product of its slopes gets far.

    What is small afterwards may have lost bits, or all of them: it gets a radius.
    """
    pool = stack.pool
    dim = pool.shape[1] - 5
    top = 0.0
    for k in range(dim):
        top = max(top, abs(pool[row, k]))
    pool[row, dim + FAR] = 0.0
    if not 2.0**-1000 < top < 2.0**1000:
        pool[row, dim + NORM] = math.inf
        return
    factor = math.ldexp(1.0, -math.frexp(top)[1])
    norm = 0.0
    lost_slope = 0.0
    for k in range(dim):
        a = pool[row, k] * factor
        if pool[row, k] != 0.0 and abs(a) < 2.0**-900:
            lost_slope = 2.0**-900
        pool[row, k] = a
        norm += abs(a)
    c = pool[row, dim + OFFSET] * factor
    lost = 2.0**-900 if pool[row, dim + OFFSET] != 0.0 and abs(c) < 2.0**-900 else 0.0
    # Nor is anything known of an offset that leaves the range of floats.
    lost = lost if abs(c) < math.inf else math.inf
    pool[row, dim + OFFSET] = c
    if pool[row, dim + RADIUS] != 0.0 or lost_slope != 0.0:
        pool[row, dim + RADIUS] = pool[row, dim + RADIUS] * factor * UP + 2.0**-900
    if pool[row, dim + OFFSET_RADIUS] != 0.0 or lost != 0.0:
        lost = max(lost, 2.0**-900)
        pool[row, dim + OFFSET_RADIUS] = pool[row, dim + OFFSET_RADIUS] * factor * UP + lost
    pool[row, dim + NORM] = (norm + dim * pool[row, dim + RADIUS]) * UP


@numba.njit(cache=True, _nrt=False, forceinline=True)
def new_vertices(
    stack: Stack, scratch: Scratch, start: int, n: int, f_start: int, row: int, bit: int
) -> int:
    """Write the vertices where a form cuts the edges of a cell; return how many, or -1: no room.

    Args:
        stack: Holds the cell.
        scratch: Holds the signs and rounded values of the form; `fresh` is overwritten.
        start: The first vertex.
        n: How many vertices.
        f_start: The first facet.
        row: The form, a row of the pool.
        bit: Its place in the list of facets.
    """
    masks, points, common = stack.masks, stack.points, scratch.common
    dim = stack.pool.shape[1] - 5
    n_words = masks.shape[1]
    has_far = points.shape[1] > dim + 1
    base = np.uint64(start)
    n_pairs = _sharing_pairs(stack, scratch, start, n, dim - 1)
    if n_pairs < 0:
        return _NO_ROOM
    n_fresh = 0
    flag_word, flag = np.uint64(bit // 64), _ONE << np.uint64(bit % 64)
    for pair in range(np.uint64(n_pairs)):
        u = np.uint64(scratch.pairs[pair]) >> _HALF
        w = np.uint64(scratch.pairs[pair]) & _LOW
        n_common = 0
        for word in range(np.uint64(n_words)):
            common[word] = masks[base + u, word] & masks[base + w, word]
            n_common += bit_count(common[word])
        if not _is_edge(stack, scratch, start, n, u, w, dim):
            continue
        if n_fresh >= scratch.fresh.shape[0]:
            return _NO_ROOM
        is_defined = True
        if n_common == dim - 1:
            collect(common, stack.facets, f_start, scratch.rows)
        else:
            collect(common, stack.facets, f_start, scratch.tight)
            is_defined = independent_rows(stack.pool, scratch, n_common, dim - 1)
        scratch.rows[dim - 1] = row
        if has_far and (is_far(points, base + u, dim) or is_far(points, base + w, dim)):
            if is_defined:
                solve(stack, scratch, n_fresh, dim)
                radii_into(stack.pool, scratch, scratch.fresh, n_fresh)
            else:
                # Where it lies is open; the sign of no form will be accepted there.
                for k in range(2 * dim + 2):
                    scratch.fresh[n_fresh, k] = math.inf if k % (dim + 1) == dim else 0.0
        else:
            _interpolate(points, scratch, base, u, w, np.uint64(n_fresh), np.uint64(dim))
            if is_defined:
                radii_into(stack.pool, scratch, scratch.fresh, n_fresh)
        for word in range(n_words):
            scratch.fresh_masks[n_fresh, word] = common[word]
        scratch.fresh_masks[n_fresh, flag_word] |= flag
        n_fresh += 1
    return n_fresh


@numba.njit(cache=True, _nrt=False, forceinline=True)
def _sharing_pairs(stack: Stack, scratch: Scratch, start: int, n: int, least: int) -> int:
    """List the pairs of a positive and a negative vertex with enough facets; -1: no room.

    Nothing here branches on a sign or on a mask: such branches are hard to foresee.
    """
    masks, above, below, words = stack.masks, scratch.above, scratch.below, scratch.words
    # Unsigned indices cannot mean "from the end", which spares a test for each of them.
    n_above, n_below, n_pairs, base = _ZERO, _ZERO, _ZERO, np.uint64(start)
    for i in range(np.uint64(n)):
        above[n_above] = i
        below[n_below] = i
        words[n_below] = masks[base + i, 0]
        n_above += np.uint64(scratch.signs[i] > 0)
        n_below += np.uint64(scratch.signs[i] < 0)
    n_words = np.uint64(masks.shape[1])
    for p in range(n_above):
        if n_pairs + n_below > np.uint64(scratch.pairs.shape[0]):
            return _NO_ROOM
        u = np.uint64(above[p])
        high = u << _HALF
        first_word = masks[base + u, 0]
        if n_words == _ONE:
            for q in range(n_below):
                scratch.pairs[n_pairs] = high | np.uint64(below[q])
                n_pairs += np.uint64(bit_count(first_word & words[q]) >= least)
            continue
        for q in range(n_below):
            w = np.uint64(below[q])
            n_common = bit_count(first_word & words[q])
            for word in range(_ONE, n_words):
                n_common += bit_count(masks[base + u, word] & masks[base + w, word])
            scratch.pairs[n_pairs] = high | w
            n_pairs += np.uint64(n_common >= least)
    return int(n_pairs)


@numba.njit(cache=True, _nrt=False, forceinline=True)
def _interpolate(
    points: FloatArray, scratch: Scratch, base: Any, u: Any, w: Any, i: Any, dim: Any
) -> None:
    """Write where a form changes its sign between two vertices, about, with an open radius."""
    fresh = scratch.fresh
    high, low = scratch.heights[u], scratch.heights[w]
    # A sign decided exactly may go with a height that rounded across zero.
    if not high - low > 0.0:
        high, low = 1.0, -1.0
    share = high / (high - low)
    rest = 1.0 - share
    one, other = base + u, base + w
    fresh[i, 0] = share * points[other, 0] + rest * points[one, 0]
    for k in range(_ONE, dim):
        fresh[i, k] = share * points[other, k] + rest * points[one, k]
    fresh[i, dim] = math.inf
    for k in range(dim + _ONE, np.uint64(points.shape[1])):
        fresh[i, k] = 0.0


@numba.njit(cache=True, _nrt=False)
def solve(stack: Stack, scratch: Scratch, i: int, dim: int) -> None:
    """Write where the rows `scratch.rows` meet, with its direction if any, into a new vertex.

    Gauss-Jordan elimination with column pivots; nothing is assumed about its accuracy.
    """
    system, pool, fresh = scratch.system, stack.pool, scratch.fresh
    for j in range(dim):
        row = scratch.rows[j]
        for k in range(dim):
            system[j, k] = pool[row, k]
        system[j, dim] = -pool[row, dim + OFFSET]
        system[j, dim + 1] = -pool[row, dim + FAR]
    for j in range(dim):
        pivot = j
        for r in range(j + 1, dim):
            if abs(system[r, j]) > abs(system[pivot, j]):
                pivot = r
        for k in range(dim + 2):
            entry = system[j, k]
            system[j, k] = system[pivot, k]
            system[pivot, k] = entry
        lead = system[j, j]
        if lead == 0.0:
            lead = 1.0
        for k in range(j, dim + 2):
            system[j, k] /= lead
        for r in range(dim):
            if r != j:
                factor = system[r, j]
                for k in range(j, dim + 2):
                    system[r, k] -= factor * system[j, k]
    for k in range(dim):
        fresh[i, k] = system[k, dim]
    fresh[i, dim] = 0.0
    if fresh.shape[1] == dim + 1:
        return
    # Which facets meet says whether the vertex is at infinity, not the rounded direction.
    has_direction = False
    for j in range(dim):
        has_direction = has_direction or pool[scratch.rows[j], dim + FAR] != 0.0
    for k in range(dim):
        fresh[i, dim + 1 + k] = system[k, dim + 1] if has_direction else 0.0
    fresh[i, 2 * dim + 1] = math.inf if has_direction else 0.0


@numba.njit(cache=True, _nrt=False, forceinline=True)
def _is_edge(stack: Stack, scratch: Scratch, start: int, n: int, u: Any, w: Any, dim: int) -> bool:
    """Say whether two vertices that share the facets `scratch.common` span an edge."""
    masks, common = stack.masks, scratch.common
    n_words = masks.shape[1]
    base = np.uint64(start)
    n_u = 0
    n_w = 0
    for word in range(n_words):
        n_u += bit_count(masks[base + u, word])
        n_w += bit_count(masks[base + w, word])
    if n_u == dim or n_w == dim:
        return True
    for i in range(np.uint64(n)):
        if i in (u, w):
            continue
        contains = True
        for word in range(n_words):
            contains = contains and masks[base + i, word] & common[word] == common[word]
        if contains:
            return False
    return True


@numba.njit(cache=True, _nrt=False, forceinline=True)
def copy_row(rows: FloatArray, source: Any, out: FloatArray, to: Any) -> None:
    """Copy a row of four numbers or more; short ones without a loop."""
    n = rows.shape[1]
    out[to, 0], out[to, 1] = rows[source, 0], rows[source, 1]
    if n > 3:
        out[to, 2], out[to, 3] = rows[source, 2], rows[source, 3]
    if n == 5:
        out[to, 4] = rows[source, 4]
    elif n != 4:
        for k in range(np.uint64(2), np.uint64(n)):
            out[to, k] = rows[source, k]


@numba.njit(cache=True, _nrt=False, forceinline=True)
def write_side(
    stack: Stack, scratch: Scratch, start: int, n: int, side: int, n_fresh: int, bit: int, to: int
) -> int:
    """Write the vertices of the part where a form has the sign `side`; return how many.

    Args:
        stack: Holds the cell and has room from row `to` on.
        scratch: Holds the signs and the new vertices.
        start: The first vertex.
        n: How many vertices.
        side: 1 or -1.
        n_fresh: How many new vertices.
        bit: The place of the form in the list of facets.
        to: The first row to write: above the cell, or its own first vertex.
    """
    points, masks = stack.points, stack.masks
    word, flag = np.uint64(bit // 64), _ONE << np.uint64(bit % 64)
    n_words = np.uint64(masks.shape[1])
    # Unsigned indices cannot mean "from the end", which spares a test for each of them; and signs
    # are hard to foresee, so the vertices that stay are listed first, without a branch.
    kept, n_kept, n_zero = scratch.above, _ZERO, _ZERO
    for i in range(np.uint64(n)):
        kept[n_kept] = i
        n_kept += np.uint64(scratch.signs[i] * side >= 0)
        n_zero += np.uint64(scratch.signs[i] == 0)
    out, base = np.uint64(to), np.uint64(start)
    for i in range(n_kept):
        source = base + np.uint64(kept[i])
        copy_row(points, source, points, out)
        masks[out, 0] = masks[source, 0]
        for k in range(_ONE, n_words):
            masks[out, k] = masks[source, k]
        if n_zero > _ZERO and scratch.signs[kept[i]] == 0:
            masks[out, word] |= flag
        out += _ONE
    for i in range(np.uint64(n_fresh)):
        copy_row(scratch.fresh, i, points, out)
        masks[out, 0] = scratch.fresh_masks[i, 0]
        for k in range(_ONE, n_words):
            masks[out, k] = scratch.fresh_masks[i, k]
        out += _ONE
    return int(np.int64(out) - to)


@numba.njit(cache=True, _nrt=False)
def move_vertices(stack: Stack, start: int, n: int, to: int) -> None:
    """Copy vertices with their masks; where the places overlap, only downwards."""
    points, masks = stack.points, stack.masks
    # Unsigned indices cannot mean "from the end", which spares a test for each of them.
    row, source = np.uint64(to), np.uint64(start)
    for _ in range(n):
        copy_row(points, source, points, row)
        for k in range(np.uint64(masks.shape[1])):
            masks[row, k] = masks[source, k]
        row += _ONE
        source += _ONE


@numba.njit(cache=True, _nrt=False)
def drop_facets(
    stack: Stack, scratch: Scratch, start: int, n: int, f_start: int, n_facets: int
) -> int:
    """Take forms that are no facets any more off the list of a cell; return how many stay.

    A facet has at least $d$ vertices.
    """
    masks, facets, counts = stack.masks, stack.facets, scratch.counts
    dim = stack.pool.shape[1] - 5
    n_words = masks.shape[1]
    for f in range(n_facets):
        counts[f] = 0
    for i in range(start, start + n):
        for w in range(n_words):
            word = masks[i, w]
            while word != _ZERO:
                counts[64 * w + lowest_bit(word)] += 1
                word &= word - _ONE
    kept = 0
    for f in range(n_facets):
        if counts[f] >= dim:
            counts[f] = kept
            facets[f_start + kept] = facets[f_start + f]
            kept += 1
        else:
            counts[f] = -1
    for i in range(start, start + n):
        for w in range(n_words):
            scratch.common[w] = _ZERO
        for w in range(n_words):
            word = masks[i, w]
            while word != _ZERO:
                place = counts[64 * w + lowest_bit(word)]
                if place >= 0:
                    scratch.common[place // 64] |= _ONE << np.uint64(place % 64)
                word &= word - _ONE
        for w in range(n_words):
            masks[i, w] = scratch.common[w]
    return kept
