r"""Who can win in a group of forms on a cell. No checks: see callers.

A form is dropped only when one rival exceeds it at every vertex: then it does so everywhere. That
no vertex is won by a form says nothing, since it can win only inside.
"""

import numba

from hardmax._kernels.layouts import (
    AT_STARTS,
    IS_HOMOGENEOUS,
    IS_MERGED,
    IS_RELU,
    N_GROUPS,
    N_PENDING,
    WIDTH,
    Tables,
)
from hardmax._kernels.spatial_buffers import (
    N_FILTERED,
    OFFSET,
    OFFSET_RADIUS,
    RADIUS,
    V_COUNT,
    V_START,
    Frames,
    Stack,
)
from hardmax._kernels.spatial_signs import bounds
from hardmax._kernels.spatial_vertices import KAPPA, TINY, UP, is_far
from hardmax.typing import FloatArray

_BEYOND = 1e308


@numba.njit(cache=True, _nrt=False)
def analyse(tables: Tables, frames: Frames, stack: Stack, layer: int, item: int) -> None:
    """Find the groups of a layer that have one winner on a whole cell; list the others."""
    layout = tables.layout
    start, n = stack.items[item, V_START], stack.items[item, V_COUNT]
    if layout[layer, IS_RELU] == 1:
        _analyse_units(frames, stack, layer, tables.layout.shape[0] + layer,
                       layout[layer, N_GROUPS], tables.scale[0], start, n)  # fmt: skip
        return
    n_pending = 0
    is_merged = frames.flags[layer, IS_MERGED] == 1
    first_of = frames.first if is_merged else tables.first
    for g in range(layout[layer, N_GROUPS]):
        first = tables.indices[layout[layer, AT_STARTS] + g]
        end = tables.indices[layout[layer, AT_STARTS] + g + 1]
        count = 0
        for j in range(first, end):
            if first_of[layer, j] == j:
                frames.candidates[layer, first + count] = j
                count += 1
        if count > 1:
            count = cull(tables, frames, stack, layer, start, n, first, count)
            for m in range(count):
                frames.candidates[layer, first + m] = frames.order[1, m]
        frames.n_candidates[layer, g] = count
        frames.fixed[layer, g] = frames.candidates[layer, first] - first
        if count > 1:
            frames.pending[layer, n_pending] = g
            n_pending += 1
    frames.flags[layer, N_PENDING] = n_pending


@numba.njit(cache=True, _nrt=False)
def _analyse_units(
    frames: Frames,
    stack: Stack,
    layer: int,
    block: int,
    n_units: int,
    scale: float,
    start: int,
    n: int,
) -> None:
    """Do the same for a layer of ReLU units, all of them at once."""
    points, forms, work = stack.points, frames.blocks, frames.work
    dim = forms.shape[1] - 2
    size, rho = bounds(points, start, n, dim)
    for i in range(n_units):
        work[0, i] = _BEYOND
        work[1, i] = -_BEYOND
    has_far = points.shape[1] > dim + 1
    for v in range(start, start + n):
        if has_far and is_far(points, v, dim):
            _narrow_by_far(forms, block, points, v, scale, n_units, work)
            continue
        for i in range(n_units):
            work[2, i] = forms[block, dim, i]
        for k in range(dim):
            x = points[v, k]
            for i in range(n_units):
                work[2, i] += forms[block, k, i] * x
        for i in range(n_units):
            work[0, i] = min(work[0, i], work[2, i])
            work[1, i] = max(work[1, i], work[2, i])
    reach = dim * (size + rho) / scale + 1.0
    n_pending = 0
    for i in range(n_units):
        slopes = 0.0
        for k in range(dim):
            slopes += abs(forms[block, k, i])
        error = forms[block, dim + 1, i] * reach + slopes * rho
        # Infinite where a product overflows.
        error += KAPPA * (slopes * size + abs(forms[block, dim, i]))
        error = error * UP + TINY
        if work[0, i] > error:
            frames.fixed[layer, i] = 1
        elif work[1, i] < -error:
            frames.fixed[layer, i] = 0
        else:
            frames.pending[layer, n_pending] = i
            n_pending += 1
    frames.flags[layer, N_PENDING] = n_pending
    stack.state[N_FILTERED] += n * (n_units - n_pending)


@numba.njit(cache=True, _nrt=False)
def _narrow_by_far(
    forms: FloatArray,
    block: int,
    points: FloatArray,
    v: int,
    scale: float,
    n_units: int,
    work: FloatArray,
) -> None:
    """Open the range of every form that does not certainly keep its sign at infinity."""
    for i in range(n_units):
        value, error = _far_value(forms, block, i, points, v, scale)
        if not value > error:
            work[0, i] = -_BEYOND
        if not value < -error:
            work[1, i] = _BEYOND


@numba.njit(cache=True, _nrt=False)
def _far_value(
    forms: FloatArray, block: int, j: int, points: FloatArray, v: int, scale: float
) -> tuple[float, float]:
    """Return how fast a form grows towards a vertex at infinity, and a bound on the error."""
    dim = forms.shape[1] - 2
    value = 0.0
    slopes = 0.0
    reach = 0.0
    for k in range(dim):
        value += forms[block, k, j] * points[v, dim + 1 + k]
        slopes += abs(forms[block, k, j])
        reach = max(reach, abs(points[v, dim + 1 + k]))
    rho = points[v, 2 * dim + 1]
    error = slopes * (KAPPA * reach + rho) + dim * forms[block, dim + 1, j] / scale * (reach + rho)
    return value, error * UP + TINY


@numba.njit(cache=True, _nrt=False)
def cull(
    tables: Tables,
    frames: Frames,
    stack: Stack,
    layer: int,
    start: int,
    n: int,
    first: int,
    count: int,
) -> int:
    """Write the candidates of a group that no single rival exceeds at all vertices; say how many.

    They go to `frames.order[1]`. Rivals tried are the winners at the middle and at each vertex, as
    rounded values have it; which rivals are tried changes only how much is dropped here.

    Args:
        tables: The network.
        frames: Holds the forms and the candidates.
        stack: Holds the cell.
        layer: The layer.
        start: The first vertex.
        n: How many vertices.
        first: The first form of the group.
        count: How many candidates.
    """
    points, forms, errors, kept = stack.points, frames.blocks, frames.work, frames.order
    block = tables.layout.shape[0] + layer
    scale = tables.scale[0]
    dim = forms.shape[1] - 2
    size, rho = bounds(points, start, n, dim)
    reach = dim * (size + rho) / scale + 1.0
    for m in range(count):
        j = frames.candidates[layer, first + m]
        kept[1, m] = j
        slopes = 0.0
        for k in range(dim):
            slopes += abs(forms[block, k, j])
        error = forms[block, dim + 1, j] * reach + slopes * rho
        error += KAPPA * (slopes * size + abs(forms[block, dim, j]))
        errors[0, m] = error * UP + TINY
    for v in range(-1, n):
        if count == 1:
            break
        lead = 0
        best = -_BEYOND
        for m in range(count):
            j = kept[1, m]
            value = forms[block, dim, j]
            for k in range(dim):
                x = 0.0
                if v >= 0:
                    x = points[start + v, k]
                else:
                    for i in range(start, start + n):
                        x += points[i, k] / n
                value += forms[block, k, j] * x
            if value > best:
                best = value
                lead = m
        leader, error = kept[1, lead], errors[0, lead]
        n_kept = 0
        for m in range(count):
            j = kept[1, m]
            if j != leader and _exceeds(
                forms, block, leader, j, points, start, n, error + errors[0, m], scale
            ):
                continue
            kept[1, n_kept] = j
            errors[0, n_kept] = errors[0, m]
            n_kept += 1
        stack.state[N_FILTERED] += n * (count - n_kept)
        count = n_kept
    return count


@numba.njit(cache=True, _nrt=False)
def _exceeds(
    forms: FloatArray,
    block: int,
    leader: int,
    j: int,
    points: FloatArray,
    start: int,
    n: int,
    error: float,
    scale: float,
) -> bool:
    """Say whether one form certainly exceeds another at all vertices."""
    dim = forms.shape[1] - 2
    has_far = points.shape[1] > dim + 1
    for v in range(start, start + n):
        if has_far and is_far(points, v, dim):
            high, high_error = _far_value(forms, block, leader, points, v, scale)
            low, low_error = _far_value(forms, block, j, points, v, scale)
            if not high - low > (high_error + low_error + KAPPA * abs(high)) * UP:
                return False
            continue
        value = forms[block, dim, leader] - forms[block, dim, j]
        for k in range(dim):
            # The differences round; the errors of both, KAPPA times their sizes, pay for that.
            value += (forms[block, k, leader] - forms[block, k, j]) * points[v, k]
        if not value > error * UP:
            return False
    return True


@numba.njit(cache=True, _nrt=False, forceinline=True)
def put_unit(tables: Tables, frames: Frames, stack: Stack, layer: int, unit: int, row: int) -> None:
    """Write the form of a ReLU unit into the pool."""
    forms, pool = frames.blocks, stack.pool
    block = tables.layout.shape[0] + layer
    dim = forms.shape[1] - 2
    for k in range(dim + 1):
        pool[row, k] = forms[block, k, unit]
    radius = forms[block, dim + 1, unit]
    is_homogeneous = tables.layout[layer, IS_HOMOGENEOUS] == 1
    # Not zero, however large the scale: that would mean exact.
    pool[row, dim + RADIUS] = 0.0 if radius == 0.0 else radius / tables.scale[0] + TINY
    pool[row, dim + OFFSET_RADIUS] = 0.0 if is_homogeneous else radius


@numba.njit(cache=True, _nrt=False, forceinline=True)
def put_difference(
    tables: Tables, frames: Frames, stack: Stack, layer: int, plus: int, minus: int, row: int
) -> None:
    """Write the form `plus` less the form `minus` of a layer into the pool, with its radii."""
    forms, pool = frames.blocks, stack.pool
    block = tables.layout.shape[0] + layer
    dim = forms.shape[1] - 2
    radius = forms[block, dim + 1, plus] + forms[block, dim + 1, minus]
    slope_lost = 0.0
    largest = 0.0
    lost = 0.0
    for k in range(dim + 1):
        a, b = forms[block, k, plus], forms[block, k, minus]
        total = a - b
        pool[row, k] = total
        # The rounding error, exactly (NaN if anything overflowed).
        virtual = total - a
        lost = abs((a - (total - virtual)) + (-b - virtual))
        if k < dim:
            largest = max(largest, abs(total))
            if not (lost <= slope_lost or slope_lost != slope_lost):
                slope_lost = lost
    if radius == 0.0:
        pool[row, dim + RADIUS] = slope_lost
        pool[row, dim + OFFSET_RADIUS] = lost
        return
    is_homogeneous = tables.layout[layer, IS_HOMOGENEOUS] == 1
    offset = abs(pool[row, dim + OFFSET])
    pool[row, dim + RADIUS] = (radius / tables.scale[0] + 2.0**-52 * largest) * UP + TINY
    pool[row, dim + OFFSET_RADIUS] = 0.0 if is_homogeneous else (radius + 2.0**-52 * offset) * UP


@numba.njit(cache=True, _nrt=False)
def contribute_alike(tables: Tables, frames: Frames, layer: int, one: int, other: int) -> bool:
    """Say whether two coinciding forms of a group certainly contribute the same."""
    if frames.flags[layer, IS_MERGED] == 1:
        return True
    gains, values, forms = tables.gains, tables.values, frames.blocks
    block = tables.layout.shape[0] + layer
    is_zero = True
    for k in range(forms.shape[1]):
        is_zero = is_zero and forms[block, k, one] == 0.0
        is_zero = is_zero and forms[block, k, other] == 0.0
    same_gain = gains[layer, 0, one] == gains[layer, 0, other]
    same_gain = same_gain and gains[layer, 1, one] == 0.0 and gains[layer, 1, other] == 0.0
    if not is_zero and not same_gain:
        return False
    for k in range(tables.layout[layer, WIDTH]):
        if values[layer, 0, one, k] != values[layer, 0, other, k]:
            return False
        if values[layer, 1, one, k] != 0.0 or values[layer, 1, other, k] != 0.0:
            return False
    return True
