r"""The construction of Appendix F of [SL26], with its weights rounded to float64.

In exact arithmetic it has $(N^d (2w)^d)^L$ cells. The first unit of the sawtooth has its kink
exactly on the routing walls. If $j/N$ or $k/2w$ is rounded, kink and wall separate by about
$10^{-17}$, and the slivers between them are additional cells. Hence the stored model has more cells
than the formula predicts, and sometimes fewer affine maps than cells. `shattering_transformer`
avoids this problem.
"""

import numpy as np

from hardmax.constructions.families.grid_sizes import read_flag, read_shattering, refuse_grid
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer


def literal_shattering_transformer(
    n_keys: int, dim: int, depth: int, d_ff: int, *, centred: bool = True
) -> HardTransformer:
    r"""Return the transformer of Theorem V.7 of [SL26] with $H = d$ heads, as in its proof.

    Head $h$ has the query $(x_h, 1)$. If `centred`, the layer moves the centre of each cell to the
    origin, as printed: keys are $(p_j, -\frac12 p_j^2)$ with $p_j = (j + \frac12)/N$, values are
    $-p_j$, and the feed-forward part computes $s(Ny + \frac12)$. Otherwise, it moves the corner of
    each cell to the origin: keys are $(j, -\sum_{i<j} \frac{1+i}N)$, values are $-j/N$, and the
    feed-forward part computes $s(Ny)$. Every number is rounded to float64.

    If $N$ and $w$ are powers of two and the numbers are small enough, nothing is rounded, and the
    number of cells is $\big(N^d (2w)^d\big)^L$. Otherwise it is usually larger.

    Args:
        n_keys: The number of keys $N \ge 1$.
        dim: The dimension $d \ge 1$.
        depth: The number of blocks $L \ge 1$.
        d_ff: The feed-forward width, at least $2d$, with $w = \lfloor d_{ff}/2d\rfloor$. Remaining
            units are omitted.
        centred: Whether to move centres instead of corners to the origin.

    Raises:
        DtypeError: If a size is not an integer, or the flag is not a bool.
        ArgumentError: If a size is out of range.
        SizeLimitError: If there would be more than $2^{28}$ numbers to store.

    References:
        [SL26] Appendix F.

    Examples:
        With three keys and one tooth, the formula predicts 1296 regions:

        >>> from hardmax import Box, enumerate_regions
        >>> square = Box([0, 0], [1, 1])
        >>> models = [literal_shattering_transformer(3, 2, 2, 4, centred=c) for c in (True, False)]
        >>> [enumerate_regions(model, square).n_cells for model in models]
        [2025, 1444]
        >>> enumerate_regions(literal_shattering_transformer(2, 2, 2, 4), square).n_cells
        256
    """
    sizes, n_pieces, depth = read_shattering(n_keys, dim, depth, d_ff, None, has_bias=True)
    centred = read_flag("centred", centred)
    refuse_grid(sizes, depth, sizes.n_coordinates * n_pieces)
    n_keys, dim = sizes.n_keys, sizes.n_coordinates
    j = np.arange(n_keys)
    if centred:
        positions = (j + 0.5) / n_keys
        keys, shift = np.column_stack([positions, -0.5 * positions**2]), 0.5
    else:
        positions = j / n_keys
        walls = np.concatenate([[0.0], np.cumsum((1 + j) / n_keys)[:-1]])
        keys, shift = np.column_stack([j, -walls]), 0.0
    heads = []
    for axis in np.eye(dim):
        weight = np.column_stack([axis, np.zeros(dim)])
        heads.append(
            AttentionHead(
                weight, keys, -positions[:, None], axis[None], query_bias=np.array([0.0, 1.0])
            )
        )
    k = np.tile(np.arange(n_pieces), dim)
    axes = np.repeat(np.eye(dim), n_pieces, axis=0)
    slopes = np.where(k == 0, n_pieces, 2 * n_pieces * (-1.0) ** k)
    ffn = FeedForward(n_keys * axes.T, shift - k / n_pieces, slopes[:, None] * axes, None)
    return HardTransformer([Block(heads, ffn, ffn_residual=False)] * depth)
