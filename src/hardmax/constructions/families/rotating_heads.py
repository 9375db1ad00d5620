r"""A bias-free hard transformer on the plane with the maximum number of cells for its shape."""

from math import ceil, log2, pi, sin

import numpy as np

from hardmax._ground.arguments import integer
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, HardTransformer

_LARGEST = 10_000
"""The largest numbers of keys and heads. Rounding turns walls by about $10^{-16} N$, and the angle
between walls is $2\\pi/(NH)$."""


def rotating_transformer(n_keys: int, n_heads: int, depth: int) -> HardTransformer:
    r"""Return a transformer on the plane with $(NH)^L$ cells, regions and affine maps.

    The blocks have $H$ heads with $N$ keys each and a residual connection, but no bias and no
    feed-forward part. This is the maximum for such models: one layer has at most $NH$ cells
    (`cells_bias_free`), and each further block multiplies the number by at most $NH$
    (`transformer_upper`).

    *Construction and proof.* The keys of head $h$ are the corners of a regular $N$-gon, rotated by
    $2\pi h/(NH)$; the values in block $l$ are $-\rho_l k_j$. The walls of a head are $N$ rays, and
    the walls of all heads are $NH$ rays at equal angles. Hence the cells are $NH$ equal sectors. In
    a sector with bisector $y$, $|y| = 1$, the winners are $H$ neighbours among all $NH$ keys, which
    lie symmetrically about $y$ and have the sum $Ry$ with $R = \sin(\pi/N)/\sin(\pi/NH)$. The block
    moves the sector by $-\rho_l R y$. The moved sector contains the disc about 0 of radius
    $\rho_l R \sigma$ with $\sigma = \sin(\pi/NH)$. Let $\rho_{l+1} \le \rho_l \sigma/2$. Suppose
    that the image of every cell of the first $l$ blocks contains the disc about 0 of radius
    $\rho_l R\sigma$. For each of the $NH$ bisectors $y$ of the next block, this disc contains the
    disc about $\rho_{l+1} R y$ of radius $\rho_{l+1} R \sigma$, since
    $\rho_{l+1} R (1 + \sigma) \le \rho_l R \sigma$. Hence the next block cuts every cell into $NH$
    cells, and the image of each contains the disc about 0 of radius $\rho_{l+1} R \sigma$. The
    affine maps are translations by $-\sum_l \rho_l R y_l$. If two of them first differ in block
    $l$, they differ by at least $2 \rho_l R \sigma$ there, and by less than that in all later
    blocks together. $\square$ The implementation uses $\rho_{l+1} \le \rho_l\sigma/4$, so that all
    inequalities hold with a margin that is large compared with the rounding of the keys.

    Args:
        n_keys: The number of keys $N$ of every head, from 2 to 10000.
        n_heads: The number of heads $H$ of every block, from 1 to 10000.
        depth: The number of blocks $L \ge 1$.

    Raises:
        HardmaxError: If a size is not an integer in its range, or if `depth` is so large that the
            values of the last block would be too small for float64.

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
