"""Convex polygons cut by a line whose signs at the vertices are known. No checks: see callers.

Everything is decided by the signs: a vertex on the line is kept by both sides and named anew by the
line; no coordinates are compared. A polygon is cut only if the line has vertices strictly on both
sides, so every edge keeps a positive length.
"""

import numba

from hardmax._kernels.planar_buffers import (
    A1,
    A2,
    C0,
    C1,
    DX,
    DY,
    MARK,
    N_COLUMNS,
    N_FILTERED,
    N_LABELS,
    RA,
    RC,
    RHO,
    X,
    Y,
)
from hardmax._kernels.planar_signs import UNDECIDED, Pencils, filtered_sign, intersect, sign_at
from hardmax.typing import FloatArray, IntArray


@numba.njit(cache=True, _nrt=False, inline="always")
def signs_into(
    edges: FloatArray,
    labels: IntArray,
    start: int,
    n: int,
    g: tuple[float, float, float, float, float],
    pencils: Pencils,
    signs: IntArray,
    expansion: FloatArray,
    state: IntArray,
) -> tuple[int, int]:
    """Write the sign of a form at every vertex; return how many are positive and negative.

    The first number is -1 if a sign is undecided.
    """
    n_positive = 0
    n_negative = 0
    n_filtered = 0
    for i in range(start, start + n):
        sign = 0
        if edges[i, DX] == 0.0 and edges[i, DY] == 0.0:
            sign = filtered_sign(g, edges[i, X], edges[i, Y], edges[i, RHO])
        if sign != 0:
            n_filtered += 1
        else:
            before = i - 1 if i > start else start + n - 1
            sign = sign_at(edges, labels, before, i, g, pencils, expansion, state)
            if sign == UNDECIDED:
                return -1, i
        signs[i - start] = sign
        n_positive += sign > 0
        n_negative += sign < 0
    state[N_FILTERED] += n_filtered
    return n_positive, n_negative


@numba.njit(cache=True, _nrt=False)
def copy_rows(edges: FloatArray, labels: IntArray, start: int, n: int, to: int) -> None:
    """Copy rows downwards, or to where they do not overlap."""
    for i in range(n):
        for k in range(N_COLUMNS):
            edges[to + i, k] = edges[start + i, k]
        for k in range(N_LABELS):
            labels[to + i, k] = labels[start + i, k]


@numba.njit(cache=True, _nrt=False)
def _copy_vertex(edges: FloatArray, i: int, to: int) -> None:
    for k in range(X, N_COLUMNS):
        edges[to, k] = edges[i, k]


@numba.njit(cache=True, _nrt=False)
def cut(
    edges: FloatArray,
    labels: IntArray,
    start: int,
    n: int,
    signs: IntArray,
    side: int,
    g: tuple[float, float, float, float, float],
    label: tuple[int, int, int],
    to: int,
    twin: int,
    n_twin: int,
) -> int:
    """Write the part of a polygon where a form has the sign `side`; return its number of edges.

    Args:
        edges: The rows of all polygons.
        labels: Their labels.
        start: The first row of the polygon.
        n: Its number of rows.
        signs: The signs of the form at the vertices, some positive and some negative.
        side: 1 or -1.
        g: The form.
        label: The label of the new edge.
        to: The first row to write.
        twin: The first row of the other part, whose new vertices are the same.
        n_twin: Its number of rows; 0 if there is no other part yet.
    """
    first = 0
    while not (signs[first] * side > 0 and signs[first - 1 if first > 0 else n - 1] * side <= 0):
        first += 1
    entry = first - 1 if first > 0 else n - 1
    copy_rows(edges, labels, start + entry, 1, to)
    out = to + 1
    i = first
    while signs[i] * side > 0:
        copy_rows(edges, labels, start + i, 1, out)
        out += 1
        i = i + 1 if i + 1 < n else 0
    edges[out, A1] = side * g[0]
    edges[out, A2] = side * g[1]
    edges[out, C0] = side * g[2]
    edges[out, C1] = 0.0
    edges[out, RA] = g[3]
    edges[out, RC] = g[4]
    labels[out, 0] = label[0]
    labels[out, 1] = label[1]
    labels[out, 2] = label[2]
    labels[out, MARK] = 0
    labels[to, MARK] = 0
    if n_twin > 0:
        _copy_vertex(edges, twin, out)
        _copy_vertex(edges, twin + n_twin - 1, to)
        return out - to + 1
    if signs[i] == 0:
        _copy_vertex(edges, start + i, out)
    else:
        # The edge that leaves is now the row before the last.
        intersect(edges, out - 1, out, out)
    # A first vertex on the line came with its row.
    if signs[entry] != 0:
        intersect(edges, out, to, to)
    return out - to + 1
