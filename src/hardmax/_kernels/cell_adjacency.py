"""Which walls of which cells are facets. No checks: see callers."""

import numpy as np
from numba import njit

from hardmax._kernels.min_norm_point import CONTAINED, SEPARATED, min_norm_point
from hardmax._kernels.orientation import (
    inside_simplicial_cone,
    invert_beyond_rounding,
    positive_beyond_rounding,
)
from hardmax.typing import FloatArray, IntArray

FACET = 1
NO_FACET = 0
UNDECIDED = -1


@njit(cache=True)
def facets(
    rows: FloatArray,
    first_row: IntArray,
    line: IntArray,
    leaves: IntArray,
    cells: IntArray,
    walls: IntArray,
    verdict: IntArray,
) -> None:
    """Decide whether a row of a cell is irredundant, rows on the same line counted as one.

    A row is irredundant if some direction violates it and satisfies all others.

    Args:
        rows: `(n_rows, dim)`, rounded rows; those from `first_row[-1]` on belong to every cell.
        first_row: `(n_vertices + 1,)`, where each vertex' rows start.
        line: `(n_rows,)`, equal for rows that are positive multiples of each other.
        leaves: `(n_cells, n_heads)`, one vertex of each head.
        cells: `(n,)`, the cell of each question.
        walls: `(n,)`, the row of each question, one of its cell's.
        verdict: Buffer `(n,)`: `FACET`, `NO_FACET`, or `UNDECIDED`.
    """
    dim = rows.shape[1]
    n_heads = leaves.shape[1]
    n_paired = first_row[-1]
    listed = np.empty(rows.shape[0] + 1, np.int64)
    units = np.empty((rows.shape[0] + 1, dim))
    simplex = np.empty((dim + 1, dim))
    support = np.empty(dim + 2, np.int64)
    chosen = np.arange(dim + 1)
    weights = np.empty(dim + 2)
    point = np.empty(dim)
    basis = np.empty((dim + 2, dim + 1))
    upper = np.empty((dim + 2, dim + 2))
    scratch = np.empty((3, dim + 2))
    matrix = np.empty((dim, dim))
    inverse = np.empty((1, dim, dim))
    bounds = np.empty((1, 2))
    for q in range(cells.shape[0]):
        verdict[q] = UNDECIDED
        wall = walls[q]
        listed[0] = wall
        count = 1
        for h in range(n_heads + 1):
            if h < n_heads:
                start = first_row[leaves[cells[q], h]]
                stop = first_row[leaves[cells[q], h] + 1]
            else:
                start = n_paired
                stop = rows.shape[0]
            for r in range(start, stop):
                if line[r] != line[wall]:
                    listed[count] = r
                    count += 1
        for a in range(count):
            square = 0.0
            for t in range(dim):
                square += rows[listed[a], t] ** 2
            scale = (-1.0 if a == 0 else 1.0) / np.sqrt(square)
            for t in range(dim):
                units[a, t] = rows[listed[a], t] * scale
        point[:] = 0.0
        status, n_active = min_norm_point(
            units, count, 0, 0.0, 20 * (dim + 2),
            support, weights, point, basis, upper, scratch,
        )  # fmt: skip
        if status == SEPARATED:
            largest = 0.0
            for t in range(dim):
                largest = max(largest, abs(point[t]))
            for t in range(dim):
                point[t] /= -largest
            proved = positive_beyond_rounding(rows, wall, point)
            for t in range(dim):
                point[t] = -point[t]
            for a in range(1, count):
                proved = proved and positive_beyond_rounding(rows, listed[a], point)
            if proved:
                verdict[q] = FACET
        elif status == CONTAINED and n_active == dim + 1:
            for a in range(dim + 1):
                sign = -1.0 if support[a] == 0 else 1.0
                for t in range(dim):
                    simplex[a, t] = sign * rows[listed[support[a]], t]
            if invert_beyond_rounding(
                simplex, chosen, matrix, inverse, bounds, 0
            ) and inside_simplicial_cone(simplex, dim, -1.0, inverse, bounds, 0):
                verdict[q] = NO_FACET
