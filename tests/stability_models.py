"""Random and degenerate models for the tests of finite temperature."""

import numpy as np

from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer


def random_head(rng, dim, n_keys, out_dim=None, *, scale=1.0):
    out = dim if out_dim is None else out_dim
    return AttentionHead(
        rng.normal(size=(dim, 2)),
        rng.normal(size=(n_keys, 2)),
        scale * rng.normal(size=(n_keys, 3)),
        rng.normal(size=(3, out)) / 2,
        query_bias=rng.normal(size=2),
        logit_bias=rng.normal(size=n_keys),
    )


def random_transformer(seed, dim=2, depth=2, n_heads=2, n_keys=4, d_ff=3, *, scale=1.0):
    rng = np.random.default_rng(seed)
    blocks = []
    for _ in range(depth):
        heads = [random_head(rng, dim, n_keys, scale=scale) for _ in range(n_heads)]
        ffn = None
        if d_ff:
            ffn = FeedForward(
                rng.normal(size=(dim, d_ff)),
                rng.normal(size=d_ff),
                rng.normal(size=(d_ff, dim)) / 2,
                None,
            )
        blocks.append(Block(heads, ffn))
    return HardTransformer(blocks, readout=(rng.normal(size=(dim, 2)), rng.normal(size=2)))


def integer_transformer(seed, depth=2):
    """Ties, repeated keys, dead units and coincident walls are common."""
    rng = np.random.default_rng(seed)

    def head():
        keys = rng.integers(-1, 2, size=(4, 2)).astype(float)
        values = rng.integers(-2, 3, size=(4, 2)).astype(float)
        return AttentionHead(np.eye(2), keys, values, np.eye(2))

    def ffn():
        weights = rng.integers(-1, 2, size=(2, 2, 3)).astype(float)
        return FeedForward(weights[0], None, weights[1].T, None)

    return HardTransformer([Block([head(), head()], ffn()) for _ in range(depth)])


SIGN = AttentionHead(np.eye(1), [[-1.0], [1.0]], [[-1.0], [1.0]], np.eye(1))
"""The hard sign function, tanh when soft."""
