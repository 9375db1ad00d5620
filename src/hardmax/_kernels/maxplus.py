"""Inner loops of max-plus linear algebra. No checks: see `algebra.products` and `algebra.walks`."""

import numba
import numpy as np

from hardmax.typing import FloatArray, IntArray


@numba.njit(cache=True, nogil=True)
def matmul_into(
    left: FloatArray,
    panels: FloatArray,
    out: FloatArray,
    best: FloatArray,
    first: int,
    last: int,
    depth: int,
) -> None:
    """Write tiles of the max-plus product of `left` and the matrix cut into `panels`.

    Two rows of the result meet four rows of a panel at a time: 2 + 4 vectors and 8 broadcast
    numbers fit the 16 vector registers of AVX2, and each number loaded serves several sums. The
    two rows are kept in `best` meanwhile: in a matrix 1024 wide they would agree in the low bits
    of their addresses, and each load would wait for the other row's store. `depth` rows of a
    panel stay in the second-level cache while all rows of `left` pass over them.
    `t if t > b else b` compiles to the vector maximum; there is no NaN to treat.

    The grid of (panel, pair of rows) is numbered panel by panel, so that threads can share it.

    Args:
        left: `(n_rows, inner)`, with `inner` a positive multiple of 4.
        panels: `(n_panels, inner, width)`, each panel `width` columns of the right factor, the
            last one padded.
        out: `(n_rows, n_columns)`, overwritten on the tiles done.
        best: `(2, width)` buffer.
        first: The first grid position to do.
        last: One past the last grid position to do.
        depth: How many rows of a panel to keep at hand, a multiple of 4.
    """
    n_rows, n_columns = out.shape
    n_pairs = (n_rows + 1) // 2
    inner, width = panels.shape[1], panels.shape[2]
    upper, lower = best[0], best[1]
    for p in range(first // n_pairs, (last + n_pairs - 1) // n_pairs):
        panel = panels[p]
        left_edge, right_edge = p * width, min((p + 1) * width, n_columns)
        first_pair = max(first - p * n_pairs, 0)
        last_pair = min(last - p * n_pairs, n_pairs)
        for start in range(0, inner, depth):
            stop = min(start + depth, inner)
            for pair in range(first_pair, last_pair):
                i = 2 * pair
                i_next = min(i + 1, n_rows - 1)  # An odd last row is its own partner.
                out_upper = out[i, left_edge:right_edge]
                out_lower = out[i_next, left_edge:right_edge]
                if start == 0:
                    for j in range(width):
                        upper[j] = -np.inf
                        lower[j] = -np.inf
                else:
                    for j in range(right_edge - left_edge):
                        upper[j] = out_upper[j]
                        lower[j] = out_lower[j]
                for k in range(start, stop, 4):
                    row0, row1, row2, row3 = panel[k], panel[k + 1], panel[k + 2], panel[k + 3]
                    u0, u1, u2, u3 = left[i, k], left[i, k + 1], left[i, k + 2], left[i, k + 3]
                    v0, v1 = left[i_next, k], left[i_next, k + 1]
                    v2, v3 = left[i_next, k + 2], left[i_next, k + 3]
                    for j in range(width):
                        b0, b1, b2, b3 = row0[j], row1[j], row2[j], row3[j]
                        b = upper[j]
                        t = u0 + b0
                        b = t if t > b else b
                        t = u1 + b1
                        b = t if t > b else b
                        t = u2 + b2
                        b = t if t > b else b
                        t = u3 + b3
                        upper[j] = t if t > b else b
                        b = lower[j]
                        t = v0 + b0
                        b = t if t > b else b
                        t = v1 + b1
                        b = t if t > b else b
                        t = v2 + b2
                        b = t if t > b else b
                        t = v3 + b3
                        lower[j] = t if t > b else b
                for j in range(right_edge - left_edge):
                    out_upper[j] = upper[j]
                    out_lower[j] = lower[j]


@numba.njit(cache=True)
def relax_into(weights: FloatArray, labels: FloatArray, parents: IntArray, n_sweeps: int) -> bool:
    """Sweep Bellman–Ford over all edges until nothing changes, or `n_sweeps` times.

    Rounded: the caller treats labels and parents as a guess.

    Args:
        weights: `(n, n)`; the edge `i -> j` weighs `weights[i, j]`, -inf where there is none.
        labels: `(n,)`, the weight of the heaviest walk found to each node; modified in place.
        parents: `(n,)`, the node before each one on that walk; modified in place.
        n_sweeps: The most sweeps to make.

    Returns:
        Whether the last sweep changed nothing.
    """
    n = weights.shape[0]
    for _ in range(n_sweeps):
        changed = False
        for i in range(n):
            label = labels[i]
            if label == -np.inf:
                continue
            row = weights[i]
            for j in range(n):
                t = label + row[j]
                if t > labels[j]:
                    labels[j] = t
                    parents[j] = i
                    changed = True
        if not changed:
            return True
    return False
