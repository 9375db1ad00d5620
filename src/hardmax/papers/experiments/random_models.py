"""The random models of the experiments, with Gaussian weights."""

import numpy as np

from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer


def random_transformer(
    rng: np.random.Generator,
    n_keys: int,
    n_heads: int,
    d_ff: int,
    depth: int,
    dim: int = 2,
    *,
    bias: float = 0.5,
) -> HardTransformer:
    """Draw a hard transformer with query biases of scale `bias`; its blocks are drawn in order.

    A deeper model drawn from the same generator state begins with the same blocks.

    Examples:
        >>> random_transformer(np.random.default_rng(0), 4, 2, 8, depth=3)
        HardTransformer(R^2 -> R^2, 3 blocks, 6 heads, 24 units)
    """
    return HardTransformer(
        [_draw_block(rng, n_keys, n_heads, d_ff, dim, bias) for _ in range(depth)]
    )


def _draw_block(
    rng: np.random.Generator, n_keys: int, n_heads: int, d_ff: int, dim: int, bias: float
) -> Block:
    heads = [
        AttentionHead(
            rng.normal(size=(dim, dim)),
            rng.normal(size=(n_keys, dim)),
            rng.normal(size=(n_keys, dim)),
            0.5 * rng.normal(size=(dim, dim)),
            query_bias=bias * rng.normal(size=dim),
        )
        for _ in range(n_heads)
    ]
    ffn = FeedForward(
        rng.normal(size=(dim, d_ff)),
        rng.normal(size=d_ff),
        0.5 * rng.normal(size=(d_ff, dim)),
        rng.normal(size=dim),
    )
    return Block(heads, ffn)
