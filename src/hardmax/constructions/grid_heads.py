r"""Heads that cut an interval into equal parts and move each part to the origin.

The $m$ heads of one coordinate $x \in [0, a]$ own the walls $a k/n$, $0 < k < n$, in turn, where
$n = 1 + m(N - 1)$: head $g$ those with $k = 1 + g + m i$, $0 \le i < N - 1$. Its key $j$ answers
the query $(x, 1)$ with

$$s_j(x) = j \, \tfrac na \, x - \sum_{i < j} (1 + g + m i),$$

scores that are concave in $j$, so that neighbours meet in the walls and key $j$ wins in between.
Key $j$ has the value $-j a/n$. To the left of $x$ lie $\lfloor nx/a\rfloor$ walls, and each has
moved the winner of its head up by one, so the heads add up to $-\frac an\lfloor\frac{nx}a\rfloor$.
"""

import numpy as np

from hardmax.constructions.grid_sizes import GridSizes, require_exact_keys
from hardmax.models.heads import AttentionHead
from hardmax.typing import FloatArray


def grid_heads(sizes: GridSizes, numerator: int, denominator: int = 1) -> list[AttentionHead]:
    r"""Return heads with walls at the multiples of $a/n$ = `denominator / numerator`.

    Keys are integers; values are rounded where `numerator` does not divide a power of two times
    `denominator`. Idle heads have a winner that never changes where the query's constant is 1, and
    the value 0.
    """
    require_exact_keys(sizes, numerator, denominator)
    j = np.arange(sizes.n_keys, dtype=np.float64)
    heads = []
    for index in range(sizes.n_heads):
        g, coordinate = divmod(index, sizes.n_coordinates)
        weight, output = np.zeros((sizes.dim, 2)), np.zeros((1, sizes.dim))
        keys, values = np.column_stack([0.0 * j, -j]), np.zeros((sizes.n_keys, 1))
        if g < sizes.heads_each:
            walls = (1 + g) * j + sizes.heads_each * (j * (j - 1) / 2)
            keys = np.column_stack([numerator * j, -denominator * walls])
            values = _quotients(sizes.n_keys, numerator, denominator)
            weight[coordinate, 0] = 1.0
            output[0, coordinate] = -1.0
        if sizes.has_bias:
            heads.append(
                AttentionHead(weight, keys, values, output, query_bias=np.array([0.0, 1.0]))
            )
        else:
            weight[-1, 1] = 1.0
            heads.append(AttentionHead(weight, keys, values, output))
    return heads


def _quotients(n_keys: int, numerator: int, denominator: int) -> FloatArray:
    """The numbers `j * denominator / numerator`, each rounded once."""
    # Python divides integers with one rounding, whatever their size.
    return np.array([[j * denominator / numerator] for j in range(n_keys)])
