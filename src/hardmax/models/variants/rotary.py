r"""Rotary positions: at a fixed query position, an ordinary head with rotated keys.

Rotary embedding rotates coordinate pair $i$ of a query at position $m$ by the angle $m\theta_i$,
and of a key at position $n$ by $n\theta_i$. Rotations are orthogonal, so

$$\langle R_m q, R_n k \rangle = \langle q, R_m^\top R_n k \rangle = \langle q, R_{n-m} k \rangle,$$

and the head that queries at position $m$ see has the keys $R_{n-m} k_n$ in the space of unrotated
queries. Only differences of positions occur, which are exact integers.

The choice of coordinate pairs is a convention that cannot be inferred from the weights, and the
wrong choice gives a different head. It therefore has no default. `"interleaved"` pairs are
$(2i, 2i+1)$, as in [SAL24], in GPT-J, in Meta's own Llama checkpoints, and in GGUF files of the
architecture `llama`. `"halves"` pairs are $(i, i + r/2)$, as in Hugging Face checkpoints of Llama,
Mistral, Qwen, Gemma, Phi and GPT-NeoX, and in GGUF files of the other architectures in this list.
"""

from typing import Literal

import numpy as np

from hardmax._ground.arguments import Sizes, choice, integer, number
from hardmax.errors import ArgumentError
from hardmax.models.heads import AttentionHead
from hardmax.typing import FloatArray, IntArray

Pairing = Literal["interleaved", "halves"]
_FAMILIES = (
    "`interleaved` (GPT-J, Llama as Meta publishes it or in GGUF files) or `halves` (Hugging Face "
    "checkpoints of Llama, Mistral, Qwen, Gemma, GPT-NeoX)"
)


def rotate(
    vectors: FloatArray,
    positions: IntArray,
    *,
    base: float = 10_000.0,
    pairing: Pairing | None = None,
    rotary_dim: int | None = None,
) -> FloatArray:
    r"""Apply the rotary embedding: rotate row $n$ by its position.

    Pair $i$ of the first $r$ coordinates is rotated by the position times $\theta_i = b^{-2i/r}$.
    The result is rounded to float64, because sines are irrational; position 0 leaves a row
    unchanged.

    Args:
        vectors: The rows, shape `(n_vectors, d_k)`.
        positions: The positions, integers of either sign, shape `(n_vectors,)`.
        base: The $b$, greater than 0.
        pairing: The coordinates of pair $i$: `"interleaved"` for $(2i, 2i+1)$ (GPT-J; Llama as
            published by Meta or in GGUF files), or `"halves"` for $(i, i + r/2)$ (Hugging Face
            checkpoints of Llama, Mistral, Qwen, Gemma, GPT-NeoX). Required if there is more than
            one pair.
        rotary_dim: The $r$, even; None means `d_k`. The other coordinates are unchanged.

    References:
        [SAL24].

    Examples:
        >>> rotate([[1.0, 0.0]], [0]).tolist()
        [[1.0, 0.0]]
        >>> rotate([[1.0, 0.0], [0.0, 1.0]], [1, 1]).round(6).tolist()
        [[0.540302, 0.841471], [-0.841471, 0.540302]]
    """
    sizes = Sizes()
    array = sizes.floats("vectors", vectors, ("n_vectors", "d_k"))
    steps = sizes.ints("positions", positions, ("n_vectors",))
    base = number("base", base, above=0.0)
    turned = sizes["d_k"] if rotary_dim is None else integer("rotary_dim", rotary_dim, at_least=0)
    if turned % 2 or turned > sizes["d_k"]:
        raise ArgumentError(
            f"`rotary_dim` must be even and at most d_k = {sizes['d_k']}; got {turned}."
        )
    half = turned // 2
    if pairing is not None:
        choice("pairing", pairing, ("interleaved", "halves"))
    elif half > 1:
        raise ArgumentError(
            f"`pairing` must name the coordinates that rotate together: {_FAMILIES}; got None for "
            f"{half} pairs."
        )
    first = 2 * np.arange(half) if pairing == "interleaved" else np.arange(half)
    second = first + (1 if pairing == "interleaved" else half)
    angles = steps[:, None] * base ** (-2.0 * np.arange(half) / max(turned, 1))
    cosine, sine = np.cos(angles), np.sin(angles)
    result = np.array(array)
    result[:, first] = cosine * array[:, first] - sine * array[:, second]
    result[:, second] = sine * array[:, first] + cosine * array[:, second]
    return result


def rotary_head(
    head: AttentionHead,
    query_position: int,
    key_positions: IntArray | None = None,
    *,
    base: float = 10_000.0,
    pairing: Pairing | None = None,
    rotary_dim: int | None = None,
) -> AttentionHead:
    r"""Return the head that a query at one position sees under rotary embedding.

    Its keys are $R_{n_j - m} k_j$, so it takes unrotated queries $xW_Q + b_Q$. The rotated keys are
    rounded to float64; the new head is an ordinary head with these keys.

    Args:
        head: The head with unrotated keys.
        query_position: The $m$.
        key_positions: The $n_j$, shape `(n_keys,)`; None means `0, 1, ..., n_keys - 1`.
        base: As for `rotate`; called `rope_theta` in Hugging Face configurations.
        pairing: As for `rotate`; it depends on the model family.
        rotary_dim: As for `rotate`.

    Examples:
        >>> head = AttentionHead(np.eye(2), [[1.0, 0.0], [1.0, 0.0]], np.eye(2), np.eye(2))
        >>> rotary_head(head, query_position=1).keys.round(6).tolist()
        [[0.540302, -0.841471], [1.0, 0.0]]
    """
    position = integer("query_position", query_position)
    if key_positions is None:
        key_positions = np.arange(head.n_keys)
    places = Sizes(n_keys=head.n_keys).ints("key_positions", key_positions, ("n_keys",))
    return AttentionHead(
        head.query_weight,
        rotate(head.keys, places - position, base=base, pairing=pairing, rotary_dim=rotary_dim),
        head.values,
        head.output_weight,
        head.query_bias,
        head.logit_bias,
    )
