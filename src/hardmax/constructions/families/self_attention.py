r"""Shattering by self-attention: all tokens pass through the same blocks, but the keys persist.

Theorem V.7 of [SL26] counts the regions of a token whose memory is the same in every layer. In a
transformer, the memory consists of the other tokens, and each block changes them too. If a key is
computed from the coordinates that the block folds, the construction fails: the winning key of token
$j$ is its own, so the attention subtracts $p_j$ from $p_j$, and the fold maps the result to
$s(\frac12)$, the same number for every $j$. From the second block on, all keys agree in the entry
that the query multiplies, so one key wins everywhere (`collapsing_self_attention`).

*Repair.* Let token $t = 0, \dots, N - 1$ store $t$, $\binom t2$ and $1$ in three coordinates that
every head reads and no head writes, and let the folded coordinates of all tokens except the last
start at 0. The last token holds the input. Head $g$ of coordinate $i$ has

$$q = (x_i, 1), \qquad k_t = \big(t, \, -(1+g)\,t - m \tbinom t2\big), \qquad v_t = -t\,e_i.$$

These are linear functions of a token, and the head cuts the coordinate as in `grid_heads`. *No mask
is needed:* the key of the last token depends only on its stored coordinates, not on the input.
Hence its score is affine in the input like every other score, and it serves as key $N - 1$. *The
context does not change:* a token whose folded coordinates are 0 has the query $(0, 1)$, so token 0
wins in every head (the second entry of $k_t$ is negative for $t > 0$). Its value is 0, and the fold
of 0 is 0. Hence the last token sees the same keys and values in every block, and its map equals the
map of `shattering_transformer`. $\square$

Therefore, with $N$ tokens, width $D = d + 3$ and $d_k = 2$, the number of regions is the same as
with a fixed memory of $N$ keys. A query bias would save the coordinate that stores 1. A causal mask
makes no difference: token 0 is visible to all tokens, and all tokens are visible to the last.
"""

import numpy as np

from hardmax._ground.arguments import integer
from hardmax.constructions.families.grid_sizes import (
    GridSizes,
    read_flag,
    read_shattering,
    require_exact_keys,
)
from hardmax.constructions.families.model_sizes import OBJECT_NUMBERS, refuse_size
from hardmax.constructions.families.sawtooth import folding_layer
from hardmax.models.argmax import AffineMap
from hardmax.models.tokens.transformers import TokenBlock, TokenHead, TokenTransformer
from hardmax.models.transformers import FeedForward
from hardmax.typing import FloatArray


def shattering_self_attention(
    n_tokens: int,
    dim: int,
    depth: int,
    d_ff: int,
    n_heads: int | None = None,
    *,
    width: int | None = None,
    causal: bool = False,
) -> TokenTransformer:
    r"""Return a self-attention network with `shattering_count` regions on the unit cube.

    The input $x \in [0, 1]^d$ is stored in the last of $N$ tokens. All tokens pass through the same
    blocks with residual connections, and the first $d$ coordinates of the last token are the
    output. The numbers of cells, regions and affine maps are all exactly

    $$\Big( \big(1 + \lfloor H/d \rfloor (N-1)\big)^d \, (2 \lfloor d_{ff}/2d\rfloor)^d \Big)^L .$$

    All weights are integers. There is no mask (or a causal one) and no query bias. The proof is at
    the top of this module.

    Args:
        n_tokens: The number of tokens $N \ge 1$, including the token that holds the input.
        dim: The dimension $d \ge 1$ of the input.
        depth: The number of blocks $L \ge 1$.
        d_ff: The feed-forward width, at least $2d$.
        n_heads: The number of heads per block, at least $d$. By default, $d$.
        width: The width $D$ of a token, at least $d + 3$. By default, $d + 3$. With $D = 2H$, heads
            have the usual size $d_k = D/H$.
        causal: Whether tokens attend only to themselves and to earlier tokens.

    Raises:
        DtypeError: If a size is not an integer, or the flag is not a bool.
        ArgumentError: If a size is out of range, or so large that float64 would round a weight.
        SizeLimitError: If there would be more than $2^{28}$ numbers to store.

    References:
        [SL26] Theorem V.7, corrected for self-attention.

    Examples:
        >>> from hardmax import Box, enumerate_regions
        >>> model = shattering_self_attention(3, 2, 2, 4)
        >>> model
        TokenTransformer(R^2 -> R^2, 3 tokens of width 5, 2 blocks, 4 heads, 8 units)
        >>> part = enumerate_regions(model, Box([0, 0], [1, 1]))
        >>> part.n_cells, part.n_regions, part.n_affine_maps
        (1296, 1296, 1296)
    """
    n_tokens = integer("n_tokens", n_tokens, at_least=1)
    sizes, n_pieces, depth = read_shattering(n_tokens, dim, depth, d_ff, n_heads, has_bias=True)
    dim = sizes.n_coordinates
    width = dim + 3 if width is None else integer("width", width, at_least=dim + 3)
    causal = read_flag("causal", causal)
    require_exact_keys(sizes, 1, 1)
    _refuse_tokens(sizes, width, depth, d_ff, n_tokens=n_tokens)
    heads = [_stored_head(sizes, index, width) for index in range(sizes.n_heads)]
    t = np.arange(n_tokens, dtype=np.float64)
    stored = np.zeros((n_tokens, width))
    stored[:, dim : dim + 3] = np.column_stack([t, t * (t - 1) / 2, np.ones(n_tokens)])
    blocks = []
    for layer in range(depth):
        height = 1 if layer == depth - 1 else sizes.n_cells
        folds = folding_layer(dim, n_pieces, 1, height, dim=width, d_ff=d_ff, residual=True)
        blocks.append(TokenBlock(heads, folds))
    embedding = np.zeros((dim, n_tokens, width))
    embedding[np.arange(dim), -1, np.arange(dim)] = sizes.n_cells
    return TokenTransformer(
        embedding,
        stored,
        blocks,
        AffineMap(np.eye(width, dim), np.zeros(dim)),
        n_tokens - 1,
        np.tri(n_tokens, dtype=bool) if causal else None,
    )


def collapsing_self_attention(n_keys: int, dim: int, depth: int, d_ff: int) -> TokenTransformer:
    r"""Return the construction of Theorem V.7 of [SL26] with a context that is updated too.

    Context token $j$ holds its position $p_j = j + \frac12$ in the $d$ coordinates that are folded,
    and $p_j^2$ and 1 in two more. The last token holds $n x$, and no token attends to it, because
    its own key would have a quadratic score. Head $i$ has $q = (x_i, 1)$,
    $k_j = (p_j, -\frac12 p_j^2)$ and $v_j = -p_j$, all computed from the tokens, and the fold acts
    on $y + \frac12$. The first block works as intended. After it, every context token holds
    $s(\frac12)$, so all keys have the same first entry, key 0 wins everywhere, and later blocks do
    not route.

    The two extra coordinates are left alone by the feed-forward part, and kinks are kept away from
    walls, so nothing else goes wrong.

    Args:
        n_keys: The number of context tokens $N \ge 1$.
        dim: The dimension $d \ge 1$; there are $d$ heads.
        depth: The number of blocks $L \ge 1$.
        d_ff: The feed-forward width, at least $2d$.

    Raises:
        DtypeError: If a size is not an integer.
        ArgumentError: If a size is out of range, or so large that float64 would round a weight.
        SizeLimitError: If there would be more than $2^{28}$ numbers to store.

    Examples:
        For two blocks with one tooth and 4 keys, the theorem claims $(4 \cdot 2)^2 = 64$ regions.

        >>> from hardmax import Box, enumerate_regions
        >>> [enumerate_regions(collapsing_self_attention(4, 1, L, 2), Box([0], [1])).n_regions
        ...  for L in (1, 2)]
        [8, 16]
    """
    sizes, n_pieces, depth = read_shattering(n_keys, dim, depth, d_ff, None, has_bias=True)
    require_exact_keys(sizes, 1, 4)  # positions have halves, and their squares quarters
    n_keys, dim = sizes.n_keys, sizes.n_coordinates
    width = dim + 2
    _refuse_tokens(sizes, width, depth, d_ff, n_keys=n_keys)
    positions = np.arange(n_keys) + 0.5
    tokens = np.zeros((n_keys + 1, width))
    tokens[:-1, :dim] = positions[:, None]
    tokens[:-1, dim] = positions**2
    tokens[:, dim + 1] = 1.0
    heads = []
    for i in range(dim):
        query, key = np.zeros((width, 2)), np.zeros((width, 2))
        query[i, 0], query[dim + 1, 1] = 1.0, 1.0
        key[i, 0], key[dim, 1] = 1.0, -0.5
        axis = np.eye(1, width, i)
        heads.append(TokenHead(query, key, axis.T, -axis))
    blocks = []
    for layer in range(depth):
        height = 1 if layer == depth - 1 else n_keys
        folds = folding_layer(dim, n_pieces, 1, height, dim=width, d_ff=d_ff, residual=True)
        blocks.append(TokenBlock(heads, _shift_folds(folds, dim)))
    embedding = np.zeros((dim, n_keys + 1, width))
    embedding[np.arange(dim), -1, np.arange(dim)] = n_keys
    mask = np.ones((n_keys + 1, n_keys + 1), dtype=bool)
    mask[:, -1] = False
    readout = AffineMap(np.eye(width, dim), np.zeros(dim))
    return TokenTransformer(embedding, tokens, blocks, readout, n_keys, mask)


def _refuse_tokens(sizes: GridSizes, width: int, depth: int, d_ff: int, **tokens: int) -> None:
    """Raise an error if a transformer on tokens is too large; `tokens` names their number."""
    n_tokens = 1 + sizes.n_keys
    embedding = (sizes.n_coordinates + 1) * n_tokens * width
    heads = sizes.n_heads * (6 * width + OBJECT_NUMBERS)
    units = 2 * (width + 1) * d_ff + OBJECT_NUMBERS
    # A mask has a byte for each pair of tokens.
    refuse_size(
        embedding + n_tokens**2 // 8 + heads + depth * units,
        **tokens,
        dim=sizes.n_coordinates,
        depth=depth,
        d_ff=d_ff,
        n_heads=sizes.n_heads,
        width=width,
    )


def _stored_head(sizes: GridSizes, index: int, width: int) -> TokenHead:
    """Return a head whose keys are the stored coordinates of tokens; an idle head returns 0."""
    dim = sizes.n_coordinates
    g, coordinate = divmod(index, dim)
    number, triangular, one = dim, dim + 1, dim + 2
    query, key = np.zeros((width, 2)), np.zeros((width, 2))
    value, output = np.zeros((width, 1)), np.zeros((1, width))
    if g < sizes.heads_each:
        query[coordinate, 0], query[one, 1] = 1.0, 1.0
        key[number] = 1.0, -(1.0 + g)
        key[triangular, 1] = -sizes.heads_each
        value[number, 0], output[0, coordinate] = 1.0, -1.0
    return TokenHead(query, key, value, output)


def _shift_folds(folds: FeedForward, dim: int) -> FeedForward:
    r"""Fold $y + \frac12$ in place of $y$ on the first `dim` coordinates."""
    half: FloatArray = np.where(np.arange(folds.dim) < dim, 0.5, 0.0)
    assert folds.b_in is not None
    assert folds.b_out is not None
    # The unit that compensates the residual connection subtracts the half as well.
    return FeedForward(folds.w_in, folds.b_in + half @ folds.w_in, folds.w_out, folds.b_out + half)
