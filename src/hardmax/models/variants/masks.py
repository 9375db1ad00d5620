r"""Masks and position biases: the logits that a query's position adds to the scores of the keys.

Keys and queries share positions $0, 1, \dots$. At a fixed query position a mask or a bias is a
vector of additive logits, so the head at that position is an ordinary `AttentionHead`. Its routing
diagram is the power diagram of the visible keys, with sites $k_j$ and weights $|k_j|^2 + 2\beta_j$.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from hardmax._ground.arguments import Sizes, integer, number
from hardmax.models.heads import AttentionHead, read_score_divisor
from hardmax.typing import FloatArray


def causal_bias(n_keys: int, position: int) -> FloatArray:
    r"""Return 0 for the keys $j \le$ `position` and $-\infty$ for later ones: shape `(n_keys,)`.

    Args:
        n_keys: The number of keys, at least 1.
        position: The position of the query, $0 \le$ `position` $<$ `n_keys`.

    Examples:
        >>> causal_bias(4, 1).tolist()
        [0.0, 0.0, -inf, -inf]
    """
    n_keys, position = _read_position(n_keys, position)
    return np.where(np.arange(n_keys) <= position, 0.0, -np.inf)


def sliding_window_bias(n_keys: int, position: int, window: int) -> FloatArray:
    r"""Return 0 for the last `window` keys up to `position` and $-\infty$ for all others.

    Args:
        n_keys: The number of keys, at least 1.
        position: The position of the query, $0 \le$ `position` $<$ `n_keys`.
        window: The size of the window, at least 1: keys `position - window < j <= position` are
            visible.

    Examples:
        >>> sliding_window_bias(4, 2, window=2).tolist()
        [-inf, 0.0, 0.0, -inf]
    """
    n_keys, position = _read_position(n_keys, position)
    window = integer("window", window, at_least=1)
    keys = np.arange(n_keys)
    return np.where((keys <= position) & (keys > position - window), 0.0, -np.inf)


def alibi_bias(
    n_keys: int, position: int, slope: float, *, score_divisor: float = 1.0
) -> FloatArray:
    r"""Return the ALiBi logits $-D m\,(i - j)$ for keys $j$ and a query at position $i$.

    Keys after the query get the same formula, which is positive there; add `causal_bias` to mask
    them. The products are rounded to float64. They are exact if $D$ is a power of two and the slope
    comes from `alibi_slopes` for 1, 2, 4 or 8 heads.

    BLOOM and MPT, like the paper, add $-m(i - j)$ to scores that are already divided by
    $\sqrt{d_k}$. Scores here are raw dot products, so for those models pass
    `score_divisor=head.standard_temperature`. Falcon adds the bias before it divides; use 1.

    Args:
        n_keys: The number of keys, at least 1.
        position: The position $i$ of the query.
        slope: The $m$, finite.
        score_divisor: The $D$, greater than 0, by which scores are divided before the slope is
            applied: 1 for a slope on raw scores, $\sqrt{d_k}$ for the convention of the paper.

    References:
        [PSL22].

    Examples:
        >>> alibi_bias(4, 2, slope=0.5).tolist()
        [-1.0, -0.5, 0.0, 0.5]
        >>> alibi_bias(4, 2, slope=0.5, score_divisor=np.sqrt(64)).tolist()
        [-8.0, -4.0, 0.0, 4.0]
    """
    n_keys, position = _read_position(n_keys, position)
    on_raw = number("slope", slope) * number("score_divisor", score_divisor, above=0.0)
    return np.asarray(on_raw * np.arange(-position, n_keys - position))


def alibi_slopes(n_heads: int) -> FloatArray:
    r"""Return the slopes of ALiBi: shape `(n_heads,)`.

    If $H$ is a power of two, the slopes are $2^{-8h/H}$ for $h = 1..H$. Otherwise they are the
    slopes for the next smaller power of two $G$, followed by every other slope for $2G$. The slopes
    are meant for scores divided by $\sqrt{d_k}$ (see `score_divisor` of `alibi_bias`).

    References:
        [PSL22].

    Examples:
        >>> alibi_slopes(8).tolist()
        [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]
        >>> alibi_slopes(3).tolist()
        [0.0625, 0.00390625, 0.25]
    """
    n_heads = integer("n_heads", n_heads, at_least=1)
    smaller = 1 << (n_heads.bit_length() - 1)
    slopes = np.exp2(-8.0 * np.arange(1, smaller + 1) / smaller)
    between = np.exp2(-8.0 * np.arange(1, 2 * smaller + 1, 2) / (2 * smaller))
    return np.concatenate([slopes, between[: n_heads - smaller]])


def biased_head(head: AttentionHead, *biases: FloatArray) -> AttentionHead:
    r"""Return the head with vectors of logits added; $-\infty$ masks a key.

    The finite biases are summed and rounded to float64. The new head stores this sum, and is exact
    with respect to it.

    Args:
        head: The head; its own logit bias is included in the sum.
        biases: Vectors of logits, each of shape `(n_keys,)`.

    Examples:
        >>> head = AttentionHead(np.eye(1), np.eye(3, 1), np.eye(3), np.eye(3))
        >>> biased_head(head, causal_bias(3, 1), alibi_bias(3, 1, 0.5)).logit_bias.tolist()
        [-0.5, 0.0, -inf]
    """
    total = np.zeros(head.n_keys) if head.logit_bias is None else head.logit_bias
    sizes = Sizes(n_keys=head.n_keys)
    for i, bias in enumerate(biases):
        added = sizes.floats(f"biases[{i}]", bias, ("n_keys",), infinity="negative")
        with np.errstate(over="ignore"):
            total = total + added
    return AttentionHead(
        head.query_weight, head.keys, head.values, head.output_weight, head.query_bias, total
    )


def heads_by_position(
    head: AttentionHead,
    *,
    window: int | None = None,
    slope: float | None = None,
    score_divisor: float | Literal["standard"] = 1.0,
) -> Sequence[AttentionHead]:
    r"""Return the heads that a causal query sees at each position, one for each key.

    Args:
        head: The head without a mask.
        window: The number of keys that each query sees. None means all keys up to its own position.
        slope: The ALiBi slope, or None for no position bias.
        score_divisor: The divisor of the scores before the slope is applied (see `alibi_bias`):
            `"standard"` means $\sqrt{d_k}$, the convention of the paper, BLOOM and MPT.

    Examples:
        >>> head = AttentionHead(np.eye(1), np.eye(3, 1), np.eye(3), np.eye(3))
        >>> [h.unmasked.tolist() for h in heads_by_position(head, window=2)]
        [[0], [0, 1], [1, 2]]
        >>> wide = AttentionHead(np.eye(4), np.eye(3, 4), np.eye(3), np.eye(3))
        >>> published = heads_by_position(wide, slope=0.5, score_divisor="standard")
        >>> published[2].logit_bias.tolist()
        [-2.0, -1.0, 0.0]
    """
    divisor = read_score_divisor(score_divisor, head)
    heads = []
    for position in range(head.n_keys):
        if window is None:
            biases = [causal_bias(head.n_keys, position)]
        else:
            biases = [sliding_window_bias(head.n_keys, position, window)]
        if slope is not None:
            biases.append(alibi_bias(head.n_keys, position, slope, score_divisor=divisor))
        heads.append(biased_head(head, *biases))
    return tuple(heads)


def _read_position(n_keys: int, position: int) -> tuple[int, int]:
    n_keys = integer("n_keys", n_keys, at_least=1)
    return n_keys, integer("position", position, at_least=0, at_most=n_keys - 1)
