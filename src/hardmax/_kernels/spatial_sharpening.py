"""The cell on top in all digits of a float. No checks: see `spatial_search`.

Its facets and vertices are computed again from forms that were composed in twice the precision: see
`doubled_paths`. Facets are shared with other cells on the stack, for which they are as good.
"""

import numba

from hardmax._kernels.doubled_paths import sharpen_path
from hardmax._kernels.layouts import AT_STARTS, IS_RELU, Tables
from hardmax._kernels.spatial_buffers import (
    F_COUNT,
    F_START,
    LAYER,
    N_ITEMS,
    OFFSET_RADIUS,
    POOL_END,
    RADIUS,
    V_COUNT,
    V_START,
    Frames,
    Scratch,
    Stack,
)
from hardmax._kernels.spatial_cells import normalise, solve
from hardmax._kernels.spatial_groups import put_difference, put_unit
from hardmax._kernels.spatial_vertices import collect, independent_rows, is_far, radii_into
from hardmax.typing import FloatArray


@numba.njit(cache=True, _nrt=False)
def sharpen(
    tables: Tables, frames: Frames, doubled: FloatArray, stack: Stack, scratch: Scratch
) -> bool:
    """Sharpen the forms on the path and the cell on top; say whether that changed anything."""
    entry = stack.items[stack.state[N_ITEMS] - 1]
    is_clearer = sharpen_path(tables, frames, doubled, entry[LAYER], frames.axes)
    for f in range(entry[F_START], entry[F_START] + entry[F_COUNT]):
        if _sharpen_facet(tables, frames, stack, stack.facets[f], entry[POOL_END]):
            is_clearer = True
    for i in range(entry[V_START], entry[V_START] + entry[V_COUNT]):
        if _sharpen_vertex(stack, scratch, i, entry[F_START]):
            is_clearer = True
    return bool(is_clearer)


@numba.njit(cache=True, _nrt=False)
def _sharpen_facet(tables: Tables, frames: Frames, stack: Stack, row: int, spare: int) -> bool:
    """Read a form of the pool anew, in a spare row; say whether it is known better."""
    pool, dim = stack.pool, stack.pool.shape[1] - 5
    layer, group, winner, rival = (
        stack.names[row, 0],
        stack.names[row, 1],
        stack.names[row, 2],
        stack.names[row, 3],
    )
    if layer < 0 or spare >= pool.shape[0]:
        return False
    if tables.layout[layer, IS_RELU] == 1:
        put_unit(tables, frames, stack, layer, group, spare)
        for k in range(dim + 1 if winner == 0 else 0):
            pool[spare, k] = -pool[spare, k]
    else:
        first = tables.indices[tables.layout[layer, AT_STARTS] + group]
        put_difference(tables, frames, stack, layer, first + winner, first + rival, spare)
    normalise(stack, spare)
    ra, rc = dim + RADIUS, dim + OFFSET_RADIUS
    if not (pool[spare, ra] <= pool[row, ra] and pool[spare, rc] <= pool[row, rc]):
        return False
    is_clearer = 2.0 * pool[spare, ra] < pool[row, ra] or 2.0 * pool[spare, rc] < pool[row, rc]
    for k in range(pool.shape[1] if is_clearer else 0):
        pool[row, k] = pool[spare, k]
    return bool(is_clearer)


@numba.njit(cache=True, _nrt=False)
def _sharpen_vertex(stack: Stack, scratch: Scratch, i: int, f_start: int) -> bool:
    """Compute a vertex anew; say whether it is known better."""
    points, fresh, dim = stack.points, scratch.fresh, stack.pool.shape[1] - 5
    n = collect(stack.masks[i], stack.facets, f_start, scratch.tight)
    if not independent_rows(stack.pool, scratch, n, dim):
        return False
    solve(stack, scratch, 0, dim)
    radii_into(stack.pool, scratch, fresh, 0)
    # Of many facets through a vertex at infinity, some may be chosen that do not say so.
    if points.shape[1] > dim + 1 and is_far(points, i, dim) != is_far(fresh, 0, dim):
        return False
    is_clearer = False
    # Radii come after the coordinates of a point, and after those of its direction.
    for k in range(dim, points.shape[1], dim + 1):
        if not fresh[0, k] <= points[i, k]:
            return False
        is_clearer = is_clearer or 2.0 * fresh[0, k] < points[i, k]
    for k in range(points.shape[1] if is_clearer else 0):
        points[i, k] = fresh[0, k]
    return is_clearer
