r"""Signs of affine forms at the vertices of a cell, proven or undecided. No checks: see callers.

A form's sign at a vertex is accepted only if its computed value exceeds the form's own radius, the
sum of its absolute slopes times the radius of the vertex (see `spatial_vertices`), and the rounding
of that value. What this leaves open is decided by expansions if the form and the facets through the
vertex are exact: at an exact point by a dot product, else by $\det (M, c; g) / \det M$. A zero that
follows from zeros of the layer before needs no arithmetic.

At a vertex $p + M v$ at infinity a form is positive if $\langle a, v\rangle > 0$, or that is zero
and $\langle a, p\rangle + c > 0$.
"""

import math

import numba
import numpy as np

from hardmax._kernels.expansions import determinant_signs_into, difference_sign
from hardmax._kernels.layouts import (
    AT_QUERY,
    AT_QUERY_BIAS,
    FIRST_GROUP,
    IS_RELU,
    N_GROUPS,
    N_VARYING,
    OUTPUT_IS_IDENTITY,
    RESIDUAL,
    Tables,
)
from hardmax._kernels.spatial_buffers import (
    FAR,
    N_EXPANDED,
    OFFSET,
    OFFSET_RADIUS,
    RADIUS,
    Frames,
    Scratch,
    Stack,
)
from hardmax._kernels.spatial_vertices import (
    KAPPA,
    TINY,
    UP,
    collect,
    height_at,
    independent_rows,
    is_far,
)
from hardmax._kernels.varying_forms import wall_of
from hardmax.typing import FloatArray

UNDECIDED = 2
_LARGEST_DEPTH = 1000
_ONE = np.uint64(1)


@numba.njit(cache=True, _nrt=False, forceinline=True)
def bounds(points: FloatArray, start: int, n: int, dim: int) -> tuple[float, float]:
    """Return bounds on the coordinates and on the radii of some vertices."""
    size = 0.0
    rho = 0.0
    last = np.uint64(dim)
    for i in range(np.uint64(start), np.uint64(start + n)):
        # One comparison for all coordinates: their sum is not much larger.
        reach = abs(points[i, 0])
        for k in range(_ONE, last):
            reach += abs(points[i, k])
        # Written so that NaN ends up in the bound.
        if not (reach <= size or size != size):
            size = reach
        if not (points[i, last] <= rho or rho != rho):
            rho = points[i, last]
    return size * UP, rho


@numba.njit(cache=True, _nrt=False, forceinline=True)
def signs_into(
    tables: Tables,
    frames: Frames,
    stack: Stack,
    scratch: Scratch,
    start: int,
    n: int,
    f_start: int,
    row: int,
    size: float,
    rho: float,
) -> tuple[int, int]:
    """Write the sign of a form at every vertex; return how many are positive and negative.

    The first number is -1 if a sign is undecided.

    Args:
        tables: The network.
        frames: The forms on the path.
        stack: Holds the cell, and the name of the form.
        scratch: Its `signs` and `heights` are overwritten.
        start: The first vertex.
        n: How many vertices.
        f_start: The first facet.
        row: The form, a row of the pool.
        size: A bound on the coordinates.
        rho: A bound on the radii.
    """
    points, pool = stack.points, stack.pool
    dim = pool.shape[1] - 5
    slopes = 0.0
    for k in range(dim):
        slopes += abs(pool[row, k])
    c, ra, rc = pool[row, dim + OFFSET], pool[row, dim + RADIUS], pool[row, dim + OFFSET_RADIUS]
    error = KAPPA * (slopes * size + abs(c)) + ra * dim * size + rc
    error = (error + (slopes + dim * ra) * rho) * UP + TINY
    n_positive = 0
    n_negative = 0
    # Unsigned indices cannot mean "from the end", which spares a test for each of them; and signs
    # are hard to foresee, so there is no branch on them.
    form, first = np.uint64(row), np.uint64(start)
    for i in range(np.uint64(n)):
        height = height_at(pool, form, points, first + i, dim)
        scratch.heights[i] = height
        is_positive, is_negative = int(height > error), int(height < -error)
        scratch.signs[i] = is_positive - is_negative
        n_positive += is_positive
        n_negative += is_negative
    has_far = points.shape[1] > dim + 1
    if not has_far and n_positive + n_negative == n:
        return n_positive, n_negative
    n_positive = 0
    n_negative = 0
    for i in range(n):
        sign = scratch.signs[i]
        if has_far and is_far(points, start + i, dim):
            sign = _far_sign(stack, scratch, start + i, f_start, row)
            # A form that stays bounded towards a vertex has the sign of what is left.
            if sign == UNDECIDED and (
                _stays_bounded(tables, frames, stack, scratch, start + i, f_start, row)
                or _vanishes(tables, frames, stack, scratch, start + i, f_start, row, True)
            ):
                sign = _closer_sign(stack, scratch, start + i, f_start, row, scratch.heights[i])
        elif sign == 0:
            sign = _closer_sign(stack, scratch, start + i, f_start, row, scratch.heights[i])
        if sign == UNDECIDED:
            if not _vanishes(tables, frames, stack, scratch, start + i, f_start, row, False):
                return -1, i
            sign = 0
        scratch.signs[i] = sign
        n_positive += sign > 0
        n_negative += sign < 0
    return n_positive, n_negative


@numba.njit(cache=True, _nrt=False)
def _far_sign(stack: Stack, scratch: Scratch, i: int, f_start: int, row: int) -> int:
    """Return the sign of a form at a vertex at infinity, or `UNDECIDED`."""
    points, pool = stack.points, stack.pool
    dim = pool.shape[1] - 5
    c, ra, rc = pool[row, dim + OFFSET], pool[row, dim + RADIUS], pool[row, dim + OFFSET_RADIUS]
    slopes = 0.0
    reach = 0.0
    value = 0.0
    for k in range(dim):
        slopes += abs(pool[row, k])
        reach = max(reach, abs(points[i, dim + 1 + k]))
        value += pool[row, k] * points[i, dim + 1 + k]
    rho = points[i, 2 * dim + 1]
    error = (slopes * (KAPPA * reach + rho) + dim * ra * (reach + rho)) * UP + TINY
    if value > error:
        return 1
    if value < -error:
        return -1
    if ra != 0.0:
        return UNDECIDED
    if slopes == 0.0:
        if abs(c) > rc:
            return 1 if c > 0.0 else -1
        return 0 if rc == 0.0 else UNDECIDED
    if rc != 0.0:
        return UNDECIDED
    stack.state[N_EXPANDED] += 1
    if not _choose_definers(stack, scratch, i, f_start):
        return UNDECIDED
    sign = _determinant_quotient(pool, scratch, row, dim, FAR)
    if sign != 0:
        return int(sign)
    return int(_determinant_quotient(pool, scratch, row, dim, OFFSET))


@numba.njit(cache=True, _nrt=False)
def _choose_definers(stack: Stack, scratch: Scratch, i: int, f_start: int) -> bool:
    """Choose exact rows through a vertex that may define it; say if there are enough."""
    pool = stack.pool
    dim = pool.shape[1] - 5
    n = collect(stack.masks[i], stack.facets, f_start, scratch.tight)
    if n == dim:
        for t in range(dim):
            scratch.rows[t] = scratch.tight[t]
        return True
    kept = 0
    for t in range(n):
        if _is_exact(pool, scratch.tight[t], dim):
            scratch.tight[kept] = scratch.tight[t]
            kept += 1
    return bool(independent_rows(pool, scratch, kept, dim))


@numba.njit(cache=True, _nrt=False)
def _closer_sign(
    stack: Stack, scratch: Scratch, i: int, f_start: int, row: int, height: float
) -> int:
    """Return the sign of a form at one vertex from its own bound, or exactly, or `UNDECIDED`."""
    points, pool = stack.points, stack.pool
    dim = pool.shape[1] - 5
    c, ra, rc = pool[row, dim + OFFSET], pool[row, dim + RADIUS], pool[row, dim + OFFSET_RADIUS]
    slopes = 0.0
    reach = 0.0
    total = abs(c)
    for k in range(dim):
        slopes += abs(pool[row, k])
        reach += abs(points[i, k])
        total += abs(pool[row, k] * points[i, k])
    rho = points[i, dim]
    error = (KAPPA * total + ra * reach + rc + (slopes + dim * ra) * rho) * UP + TINY
    if height > error:
        return 1
    if height < -error:
        return -1
    if c == 0.0 and rc == 0.0 and rho == 0.0 and reach == 0.0:
        return 0
    if ra != 0.0 or rc != 0.0:
        return UNDECIDED
    if slopes == 0.0:
        return int(c > 0.0) - int(c < 0.0)
    stack.state[N_EXPANDED] += 1
    if rho == 0.0:
        return int(
            difference_sign(
                pool[:, :dim], pool[:, dim], row, -1, points[:, :dim], i, scratch.expansion
            )
        )
    if not _choose_definers(stack, scratch, i, f_start):
        return UNDECIDED
    return int(_determinant_quotient(pool, scratch, row, dim, OFFSET))


@numba.njit(cache=True, _nrt=False)
def _vanishes(
    tables: Tables,
    frames: Frames,
    stack: Stack,
    scratch: Scratch,
    i: int,
    f_start: int,
    row: int,
    ignores_bias: bool,
) -> bool:
    """Say whether a ReLU unit is zero at a vertex because all it adds up is zero there.

    A unit is zero where its wall, which others may have too, is tight, and where it has no bias and
    every unit before it that it reads is off, or zero. This settles networks without biases, where
    regions with few active units have walls through many vertices. At infinity, and ignoring
    biases, it says whether the unit stays bounded there: so it does where regions extend along
    directions that no active unit sees.
    """
    layout, names, zeros = tables.layout, stack.names, scratch.zeros
    layer, unit = names[row, 0], names[row, 1]
    if layout[layer, IS_RELU] == 0:
        return False
    n = collect(stack.masks[i], stack.facets, f_start, scratch.tight)
    for level in range(layer + 1):
        if layout[level, IS_RELU] == 0:
            continue
        n_units = layout[level, N_GROUPS]
        for u in range(n_units):
            zeros[level, u] = False
        for t in range(n):
            if names[scratch.tight[t], 0] == level:
                zeros[level, wall_of(tables.first, level, names[scratch.tight[t], 1])] = True
        for u in range(n_units):
            zeros[level, u] = zeros[level, wall_of(tables.first, level, u)]
        before = level - 1
        if before < 0 or layout[before, IS_RELU] == 0 or layout[before, RESIDUAL] == 1:
            continue
        if layout[before, OUTPUT_IS_IDENTITY] == 0:
            continue
        first, n_before = layout[before, FIRST_GROUP], layout[before, N_GROUPS]
        for u in range(n_units):
            has_bias = tables.numbers[layout[level, AT_QUERY_BIAS] + u] != 0.0
            if has_bias and not ignores_bias:
                continue
            is_zero = True
            for j in range(n_before):
                reads = tables.numbers[layout[level, AT_QUERY] + j * n_units + u] != 0.0
                is_on = frames.signature[first + j] == 1
                is_zero = is_zero and not (reads and is_on and not zeros[before, j])
            zeros[level, u] = zeros[level, u] or is_zero
    return bool(zeros[layer, unit])


@numba.njit(cache=True, _nrt=False)
def _stays_bounded(
    tables: Tables,
    frames: Frames,
    stack: Stack,
    scratch: Scratch,
    i: int,
    f_start: int,
    row: int,
) -> bool:
    """Say whether the facets through a vertex at infinity span all slopes that a form can have.

    These lie in the span of the forms before some layer, as do those of all facets of that layer
    and of later ones, and of a unit before it that is on. Facets are independent where only as many
    meet as there are dimensions, and every form of their span stays bounded towards the vertex.
    """
    layout, names, dim = tables.layout, stack.names, stack.pool.shape[1] - 5
    n = collect(stack.masks[i], stack.facets, f_start, scratch.tight)
    if n != dim:
        return False
    for level in range(1, names[row, 0] + 1):
        before = level - 1
        has_units = layout[before, IS_RELU] == 1 and layout[before, RESIDUAL] == 0
        count = 0
        for t in range(n):
            layer, unit = names[scratch.tight[t], 0], names[scratch.tight[t], 1]
            count += layer >= level
            if has_units and layer == before:
                count += _is_passed_on(tables, frames, before, unit)
        if count >= frames.flags[level, N_VARYING]:
            return True
    return False


@numba.njit(cache=True, _nrt=False)
def _is_passed_on(tables: Tables, frames: Frames, layer: int, unit: int) -> bool:
    """Say whether a unit that is on has the wall of another one."""
    wall, first = wall_of(tables.first, layer, unit), tables.layout[layer, FIRST_GROUP]
    for u in range(tables.layout[layer, N_GROUPS]):
        if frames.signature[first + u] == 1 and wall_of(tables.first, layer, u) == wall:
            return True
    return False


@numba.njit(cache=True, _nrt=False)
def _is_exact(pool: FloatArray, row: int, dim: int) -> bool:
    return bool(pool[row, dim + RADIUS] == 0.0 and pool[row, dim + OFFSET_RADIUS] == 0.0)


@numba.njit(cache=True, _nrt=False)
def _determinant_quotient(
    pool: FloatArray, scratch: Scratch, form: int, dim: int, offset: int
) -> int:
    """Return the sign of a form where the rows `scratch.rows` meet, by two exact determinants.

    The last column is that of the offsets, or of those at infinity.
    """
    matrix = scratch.matrix
    depth = 0
    scratch.rows[dim] = form
    for j in range(dim + 1):
        row = scratch.rows[j]
        if not _is_exact(pool, row, dim):
            return UNDECIDED
        top = 0.0
        least = math.inf
        for k in range(dim + 1):
            a = abs(pool[row, k if k < dim else dim + offset])
            top = max(top, a)
            if a != 0.0:
                least = min(least, a)
        if not 2.0**-900 < least <= top < 2.0**900:
            return UNDECIDED
        exponent = math.frexp(top)[1]
        # A float of exponent e is a multiple of 2^(e - 53).
        depth += 54 + exponent - math.frexp(least)[1]
        for k in range(dim + 1):
            entry = pool[row, k if k < dim else dim + offset]
            matrix[0, j, k] = math.ldexp(entry, -exponent)
    if depth > _LARGEST_DEPTH:
        return UNDECIDED
    determinant_signs_into(
        matrix, scratch.expansions, scratch.lengths, scratch.expansion, scratch.sign
    )
    sign = scratch.sign[0]
    if sign == UNDECIDED:
        return UNDECIDED
    # The minor of the first rows without the offsets is det M.
    slopes = (1 << dim) - 1
    length = scratch.lengths[slopes]
    if length == 0 or scratch.expansions[slopes, length - 1] == 0.0:
        return UNDECIDED
    return int(sign if scratch.expansions[slopes, length - 1] > 0.0 else -sign)
