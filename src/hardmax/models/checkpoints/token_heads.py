"""Heads of this library's own token transformers (also compiled ones) on an input."""

from collections.abc import Sequence

import numpy as np

from hardmax.errors import ArgumentError
from hardmax.models.checkpoints.heads import HeadArrays
from hardmax.models.evaluation import read_temperatures
from hardmax.models.points import PointBatch
from hardmax.models.tokens.passes import iter_token_states, stack_heads
from hardmax.models.tokens.transformers import TokenTransformer
from hardmax.typing import ArrayLike


def heads_from_tokens(
    model: TokenTransformer, x: ArrayLike, tau: float | Sequence[float] = 1.0
) -> tuple[HeadArrays, ...]:
    r"""Return the queries, keys and values of the heads of a token transformer at one input.

    Heads of different sizes in a block are returned in separate arrays; blocks without heads are
    skipped. Pass the result to `analyze_heads`.

    Args:
        model: The transformer; for a compiled model, its `token_transformer`.
        x: The input, shape `(dim_in,)`.
        tau: The temperature, above 0, or a sequence with one temperature per block, as for
            `model.soft`.

    Raises:
        ArgumentError: If the model has a mask that is not causal.

    Examples:
        Two tokens that hold $x$ and $-x$; the head finds the larger:

        >>> from hardmax.models import AffineMap, TokenBlock, TokenHead
        >>> head = TokenHead([[0.0], [1.0]], [[1.0], [0.0]], [[1.0], [0.0]], [[1.0, 0.0]])
        >>> absolute = TokenTransformer([[[1.0, 0.0], [-1.0, 0.0]]], [[0.0, 1.0], [0.0, 1.0]],
        ...                             [TokenBlock([head], attention_residual=False)],
        ...                             AffineMap([[1.0], [0.0]], [0.0]))
        >>> (arrays,) = heads_from_tokens(absolute, [3.0], tau=0.5)
        >>> arrays.weights(0).round(6).tolist()
        [[0.999994, 6e-06], [0.999994, 6e-06]]
    """
    n = model.n_tokens
    is_causal = bool(n > 1 and np.array_equal(model.allowed, np.tri(n, dtype=bool)))
    if not is_causal and not model.allowed.all():
        raise ArgumentError("`model` must have no mask or a causal mask; its mask is not causal.")
    point = PointBatch.read("x", x, model.dim_in).rows
    if len(point) != 1:
        raise ArgumentError(f"`x` must be one input; got {len(point)} inputs.")
    taus = read_temperatures(tau, len(model.blocks), "block")
    if min(taus, default=1.0) <= 0.0:
        raise ArgumentError("`tau` must be above 0: hard heads have no attention weights.")
    layers = []
    states = iter_token_states(model, point, taus)
    for block, state, heat in zip(model.blocks, states, taus, strict=True):
        for stack in stack_heads(block):
            queries, keys, values = (
                (state[0] @ weight).reshape(n, stack.n_heads, -1).transpose(1, 0, 2)
                for weight in (stack.query_weight, stack.key_weight, stack.value_weight)
            )
            queries = queries + stack.query_bias.reshape(stack.n_heads, 1, -1)
            scale = heat * float(np.sqrt(stack.d_k))
            layers.append(HeadArrays(queries, keys, values, is_causal, None, scale))
    return tuple(layers)
