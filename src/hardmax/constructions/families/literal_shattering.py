r"""The construction of Appendix F of [SL26] with the numbers it names, rounded to float64.

On paper its cells number $(N^d (2w)^d)^L$. The first unit of the sawtooth has its kink exactly on
the routing walls, so once $j/N$ or $k/2w$ is rounded the two part, by about $10^{-17}$, and slivers
between them are cells of their own: the stored model has more cells than the formula, and sometimes
fewer different maps than cells. `shattering_transformer` is free of this.
"""

import numpy as np

from hardmax.constructions.families.grid_sizes import read_flag, read_shattering, refuse_grid
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer


def literal_shattering_transformer(
    n_keys: int, dim: int, depth: int, d_ff: int, *, centred: bool = True
) -> HardTransformer:
    r"""Return the transformer of Theorem V.7 of [SL26], weights as in its proof, $H = d$ heads.

    Head $h$ has the query $(x_h, 1)$. If `centred`, keys are $(p_j, -\frac12 p_j^2)$ with $p_j =
    (j + \frac12)/N$, values $-p_j$, and the feed-forward part computes $s(Ny + \frac12)$, as
    printed. If not, cells are moved to the origin, not their centres: keys $(j, -\sum_{i<j}
    \frac{1+i}N)$, values $-j/N$, and $s(Ny)$. Every number is rounded to float64.

    If $N$ and $w$ are powers of two (and numbers small enough) nothing is rounded and the count is
    $\big(N^d (2w)^d\big)^L$; otherwise it is usually larger.

    Args:
        n_keys: The number of keys $N \ge 1$.
        dim: The dimension $d \ge 1$.
        depth: The number of blocks $L \ge 1$.
        d_ff: The feed-forward width, at least $2d$; $w = \lfloor d_{ff}/2d\rfloor$, and units
            left over are not built.
        centred: Which of the two forms.

    Raises:
        DtypeError: If a size is not an integer or the flag not a bool.
        ArgumentError: If a size is out of range.
        SizeLimitError: If there would be more than $2^{28}$ numbers to store.

    References:
        [SL26] Appendix F.

    Examples:
        Three keys and one tooth: 1296 regions on paper.

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
