r"""A hard transformer on the plane, without bias, that has as many cells as its shape allows."""

from math import ceil, log2, pi, sin

import numpy as np

from hardmax._ground.arguments import integer
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, HardTransformer

_LARGEST = 10_000
"""Walls are turned by rounding by about $10^{-16} N$, and lie $2\\pi/(NH)$ apart."""


def rotating_transformer(n_keys: int, n_heads: int, depth: int) -> HardTransformer:
    r"""Return a transformer on the plane with $(NH)^L$ cells, regions and affine maps.

    The blocks have $H$ heads with $N$ keys each, a residual connection, no bias and no
    feed-forward part. No such model has more: one layer has at most $NH$ cells (`cells_bias_free`),
    and every block multiplies the number by at most that (`transformer_upper`).

    *Construction and proof.* Head $h$ of every block has the corners of a regular $N$-gon as keys,
    turned by $2\pi h/(NH)$, and the values $-\rho_l k_j$ in block $l$. Its walls are $N$ rays, and
    those of all heads are $NH$ rays at equal angles. So the cells are $NH$ equal sectors. In a
    sector with bisector $y$, $|y| = 1$, the winners are $H$ neighbours among all $NH$ keys, placed
    symmetrically about $y$, with sum $Ry$, $R = \sin(\pi/N)/\sin(\pi/NH)$. The block moves the
    sector by $-\rho_l R y$, and then it contains the disc about 0 with radius $\rho_l R \sigma$,
    $\sigma = \sin(\pi/NH)$. Let $\rho_{l+1} \le \rho_l \sigma/2$. Suppose every cell of the first
    $l$ blocks has an image that contains the disc about 0 with radius $\rho_l R\sigma$. This disc
    contains that about $\rho_{l+1} R y$ with radius $\rho_{l+1} R \sigma$, for each of the $NH$
    bisectors $y$ of the next block, since $\rho_{l+1} R (1 + \sigma) \le \rho_l R \sigma$. So every
    cell is cut into $NH$ cells, and the image of each contains the disc about 0 with radius
    $\rho_{l+1} R \sigma$. The affine maps are translations by $-\sum_l \rho_l R y_l$. Two of them
    whose first difference is in block $l$ differ by at least $2 \rho_l R \sigma$ there, and by less
    than that in all later blocks together. $\square$ Here $\rho_{l+1} \le \rho_l\sigma/4$, and all
    inequalities are strict by a margin that is large against the rounding of the keys.

    Args:
        n_keys: The number of keys $N$ of every head, from 2 to 10000.
        n_heads: The number of heads $H$ of every block, from 1 to 10000.
        depth: The number of blocks $L \ge 1$.

    Raises:
        HardmaxError: If a size is not an integer in its range, or the last block would be too
            small for float64.

    Examples:
        >>> from hardmax import WholeSpace, enumerate_regions
        >>> part = enumerate_regions(rotating_transformer(3, 2, 2), WholeSpace(2))
        >>> part.n_cells, part.n_regions, part.n_affine_maps
        (36, 36, 36)
    """
    n_keys = integer("n_keys", n_keys, at_least=2, at_most=_LARGEST)
    n_heads = integer("n_heads", n_heads, at_least=1, at_most=_LARGEST)
    # A power of two that is at most a quarter of the sine.
    shrink = ceil(log2(2 / sin(pi / (n_keys * n_heads)))) + 1
    depth = integer("depth", depth, at_least=1, at_most=1 + 900 // shrink)
    turns = [np.arange(n_keys) / n_keys + h / (n_keys * n_heads) for h in range(n_heads)]
    corners = [np.column_stack([np.cos(2 * pi * t), np.sin(2 * pi * t)]) for t in turns]
    return HardTransformer(
        [
            Block(
                [
                    AttentionHead(np.eye(2), keys, -(2.0 ** (-shrink * block)) * keys, np.eye(2))
                    for keys in corners
                ]
            )
            for block in range(depth)
        ]
    )
