"""How far inside its cone a direction lies. No checks: see callers."""

import numpy as np
from numba import njit

from hardmax._kernels.refinement_buffers import Fan
from hardmax.typing import FloatArray, IntArray


@njit(cache=True)
def margins_into(fan: Fan, leaves: IntArray, directions: FloatArray, margins: FloatArray) -> None:
    """Write, for each tuple of vertices, the sine of its direction's angle to the nearest wall.

    Rounded: a guide to how useful a direction is, not a proof.

    Args:
        fan: The rows, of which those after the last vertex' count for every tuple.
        leaves: `(n, n_heads)`, one vertex of each head.
        directions: `(n, dim)`.
        margins: Buffer `(n,)`; infinite for a cone without walls.
    """
    n_leaves, n_heads = leaves.shape
    for i in range(n_leaves):
        least = np.inf
        for h in range(n_heads + 1):
            first = fan.first_row[leaves[i, h]] if h < n_heads else fan.first_row[-1]
            last = fan.first_row[leaves[i, h] + 1] if h < n_heads else fan.units.shape[0]
            for r in range(first, last):
                product = 0.0
                for k in range(directions.shape[1]):
                    product += fan.units[r, k] * directions[i, k]
                least = min(least, product)
        square = 0.0
        for k in range(directions.shape[1]):
            square += directions[i, k] ** 2
        margins[i] = least / np.sqrt(square) if square > 0.0 else least
