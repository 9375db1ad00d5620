"""The polygon on top in all digits of a float. No checks: see `planar_search`.

Its lines and vertices are computed again from forms that were composed in twice the precision: see
`doubled_paths`.
"""

import numba

from hardmax._kernels.doubled_paths import sharpen_path
from hardmax._kernels.layouts import AT_STARTS, IS_HOMOGENEOUS, IS_RELU, Tables
from hardmax._kernels.planar_buffers import (
    A1,
    A2,
    C0,
    DRHO,
    DX,
    DY,
    IS_BLUNT,
    N_ITEMS,
    PLANE,
    RA,
    RC,
    RHO,
    SHIFT,
    Frames,
    Stack,
    X,
    Y,
)
from hardmax._kernels.planar_groups import difference, unit_form
from hardmax._kernels.planar_leaves import SHARP, cross
from hardmax._kernels.planar_signs import intersect
from hardmax.typing import FloatArray, IntArray


@numba.njit(cache=True, _nrt=False)
def sharpen(
    tables: Tables, frames: Frames, doubled: FloatArray, stack: Stack, is_cell: bool
) -> bool:
    """Sharpen the forms on the path and the polygon on top; say whether that changed anything.

    If a vertex of a cell moves although lines cross clearly there, floats are not to be trusted
    elsewhere either: see `is_blurred`.
    """
    top = stack.state[N_ITEMS] - 1
    start, n, layer = stack.items[top, 0], stack.items[top, 1], stack.items[top, 2]
    layer = min(layer, tables.layout.shape[0] - 2)
    is_clearer = sharpen_path(tables, frames, doubled, layer, PLANE)
    for i in range(start, start + n):
        if _sharpen_line(tables, frames, stack.edges, stack.labels, i):
            is_clearer = True
    for i in range(start, start + n):
        before = i - 1 if i > start else start + n - 1
        x, y = stack.edges[i, X], stack.edges[i, Y]
        if _sharpen_vertex(stack.edges, before, i):
            is_clearer = True
            off = max(abs(stack.edges[i, X] - x), abs(stack.edges[i, Y] - y))
            size = max(tables.scale[0], max(abs(x), abs(y)))
            if is_cell and not off <= SHARP * size and cross(stack.edges, before, i):
                stack.state[IS_BLUNT] = 1
    return bool(is_clearer)


@numba.njit(cache=True, _nrt=False)
def _sharpen_line(
    tables: Tables, frames: Frames, edges: FloatArray, labels: IntArray, i: int
) -> bool:
    """Read the line of an edge anew; say whether it is known better."""
    layer = (labels[i, 0] + SHIFT // 2) >> 32
    if layer < 0:
        return False
    group = labels[i, 0] - layer * SHIFT
    winner, rival = labels[i, 1] >> 32, labels[i, 1] & (SHIFT - 1)
    scores, scale = tables.layout.shape[0] + layer, tables.scale[0]
    is_homogeneous = tables.layout[layer, IS_HOMOGENEOUS] == 1
    if tables.layout[layer, IS_RELU] == 1:
        a1, a2, c, ra, rc = unit_form(frames.blocks, scores, group, is_homogeneous, scale)
        if winner == 0:
            a1, a2, c = -a1, -a2, -c
    else:
        first = tables.indices[tables.layout[layer, AT_STARTS] + group]
        a1, a2, c, ra, rc = difference(
            frames.blocks, scores, first + winner, first + rival, is_homogeneous, scale
        )
    old_ra, old_rc = edges[i, RA], edges[i, RC]
    if not (ra <= old_ra and rc <= old_rc):
        return False
    edges[i, A1], edges[i, A2], edges[i, C0] = a1, a2, c
    edges[i, RA], edges[i, RC] = ra, rc
    return bool(2.0 * ra < old_ra or 2.0 * rc < old_rc)


@numba.njit(cache=True, _nrt=False)
def _sharpen_vertex(edges: FloatArray, before: int, i: int) -> bool:
    """Compute a vertex anew; say whether it is known better."""
    x, y, rho = edges[i, X], edges[i, Y], edges[i, RHO]
    dx, dy, far_rho = edges[i, DX], edges[i, DY], edges[i, DRHO]
    intersect(edges, before, i, i)
    if edges[i, RHO] <= rho and edges[i, DRHO] <= far_rho:
        return bool(2.0 * edges[i, RHO] < rho or 2.0 * edges[i, DRHO] < far_rho)
    edges[i, X], edges[i, Y], edges[i, RHO] = x, y, rho
    edges[i, DX], edges[i, DY], edges[i, DRHO] = dx, dy, far_rho
    return False
