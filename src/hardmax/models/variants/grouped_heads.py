r"""Grouped and multi-query attention: several query heads over one set of keys and values.

The scores of head $h$ are $\langle x W_Q^{(h)}, k_j\rangle$ with the keys of its group, so its
Newton polytope $W_Q^{(h)} \mathrm{conv}\{k_j\}$ is a linear image of one polytope per group. A key
that is not a vertex of its group's hull therefore wins on an open set in no bias-free head of the
group.
"""

from collections.abc import Sequence

import numpy as np

from hardmax._ground.arguments import Sizes
from hardmax.errors import ArgumentError
from hardmax.models.heads import AttentionHead
from hardmax.typing import FloatArray


def grouped_heads(
    query_weights: FloatArray,
    keys: FloatArray,
    values: FloatArray,
    output_weights: FloatArray,
    query_biases: FloatArray | None = None,
    logit_bias: FloatArray | None = None,
) -> Sequence[AttentionHead]:
    r"""Return the heads of a layer in which groups of query heads share keys and values.

    Head $h$ belongs to group $\lfloor h\,G/H \rfloor$ ($H$ heads in $G$ groups), so consecutive
    heads share a group. $G = 1$ is multi-query attention, $G = H$ is ordinary multi-head attention.

    Args:
        query_weights: The query weights, shape `(n_heads, dim, d_k)`.
        keys: The keys of each group, shape `(n_groups, n_keys, d_k)`; `n_groups` divides `n_heads`.
        values: The values of each group, shape `(n_groups, n_keys, d_v)`.
        output_weights: The output weights, shape `(n_heads, d_v, out_dim)`.
        query_biases: The query biases, shape `(n_heads, d_k)`, or None.
        logit_bias: A logit bias or mask for all heads, shape `(n_keys,)`, or None.

    Returns:
        The `n_heads` heads, in order.

    References:
        [Sha19] for one group, [ALJ23] for several.

    Examples:
        >>> heads = grouped_heads(np.ones((4, 1, 1)), np.arange(6.0).reshape(2, 3, 1),
        ...                       np.ones((2, 3, 1)), np.ones((4, 1, 1)))
        >>> [head.keys[0, 0].item() for head in heads]
        [0.0, 0.0, 3.0, 3.0]
    """
    sizes = Sizes()
    weights = sizes.floats("query_weights", query_weights, ("n_heads", "dim", "d_k"))
    memory = sizes.floats("keys", keys, ("n_groups", "n_keys", "d_k"))
    contents = sizes.floats("values", values, ("n_groups", "n_keys", "d_v"))
    outputs = sizes.floats("output_weights", output_weights, ("n_heads", "d_v", "out_dim"))
    biases: FloatArray | list[None] = [None] * sizes["n_heads"]
    if query_biases is not None:
        biases = sizes.floats("query_biases", query_biases, ("n_heads", "d_k"))
    if sizes["n_heads"] % sizes["n_groups"]:
        raise ArgumentError(
            f"The number of groups in `keys` must divide the {sizes['n_heads']} heads of "
            f"`query_weights`; got {sizes['n_groups']} groups."
        )
    group = np.arange(sizes["n_heads"]) // (sizes["n_heads"] // sizes["n_groups"])
    return tuple(
        AttentionHead(weights[h], memory[g], contents[g], outputs[h], biases[h], logit_bias)
        for h, g in enumerate(group)
    )
