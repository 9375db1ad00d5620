"""Heads of this library's own token transformers, compiled ones too, at work on an input."""

from collections.abc import Sequence

import numpy as np

from hardmax.errors import ArgumentError
from hardmax.models.checkpoints.heads import HeadArrays
from hardmax.models.evaluation import read_temperatures
from hardmax.models.points import PointBatch
from hardmax.models.tokens.passes import head_stacks, token_states
from hardmax.models.tokens.transformers import TokenTransformer
from hardmax.typing import ArrayLike


def heads_from_tokens(
    model: TokenTransformer, x: ArrayLike, tau: float | Sequence[float] = 1.0
) -> tuple[HeadArrays, ...]:
    r"""Return queries, keys and values of the heads of a token transformer at one input.

    Heads of a block that have other sizes stand in arrays of their own; blocks without heads have
    none. `analyze_heads` takes the result.

    Args:
        model: The transformer; `compiled.token_transformer` of a compiled one.
        x: The input, shape `(dim_in,)`.
        tau: The temperature, above 0, or one for each block, as `model.soft` takes it.

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
        raise ArgumentError("`model` must have no mask, or a causal one; it has another.")
    point = PointBatch.read("x", x, model.dim_in).rows
    if len(point) != 1:
        raise ArgumentError(f"`x` must be one input; got {len(point)}.")
    taus = read_temperatures(tau, len(model.blocks), "block")
    if min(taus, default=1.0) <= 0.0:
        raise ArgumentError("`tau` must be above 0: hard heads have no weights to measure.")
    layers = []
    states = token_states(model, point, taus)
    for block, state, heat in zip(model.blocks, states, taus, strict=True):
        for stack in head_stacks(block):
            queries, keys, values = (
                (state[0] @ weight).reshape(n, stack.n_heads, -1).transpose(1, 0, 2)
                for weight in (stack.query_weight, stack.key_weight, stack.value_weight)
            )
            queries = queries + stack.query_bias.reshape(stack.n_heads, 1, -1)
            scale = heat * float(np.sqrt(stack.d_k))
            layers.append(HeadArrays(queries, keys, values, is_causal, None, scale))
    return tuple(layers)
