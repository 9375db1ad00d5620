r"""Soft-capped logits: the same winners with different weights."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from hardmax._ground.arguments import number
from hardmax._ground.display import html_card, short_repr
from hardmax.models.heads import AttentionHead, read_score_divisor
from hardmax.models.points import PointBatch
from hardmax.models.soft_attention import normalise_weights
from hardmax.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class SoftCappedHead:
    r"""A head whose scores pass through $s \mapsto C\tanh(s/C)$ before the softmax.

    The cap is strictly increasing, so the order of the keys, the winners, the ties and the hard
    output agree with the uncapped head for every $C > 0$. The soft output differs: capped margins
    are at most $2C$, so every unmasked key has a weight of at least $e^{-2C/\tau}/N$.

    In floats $\tanh$ rounds to 1 from 20 on, which would create false ties. The differences of
    capped scores are therefore computed from the gaps of the scores, in logarithms.

    Published models cap scores that are already divided by $\sqrt{d_k}$, as $c\tanh(s/(Dc))$ with
    $D = \sqrt{d_k}$. (In Gemma 2, $D$ is the square root of `query_pre_attn_scalar`, and $c$ is
    `attn_logit_softcapping`, 50.) On raw scores this is the cap $C = Dc$, and the published output
    is `soft(x, tau=D)`.

    Attributes:
        head: The uncapped head.
        cap: The $c$, greater than 0.
        score_divisor: The $D$, greater than 0, by which scores are divided before they are capped:
            1 for a cap on raw scores, `"standard"` for $\sqrt{d_k}$ (stored as a number).

    References:
        [Gem24].

    Examples:
        >>> plain = AttentionHead(np.eye(1), [[1.0], [2.0]], np.eye(2), np.eye(2))
        >>> capped = SoftCappedHead(plain, cap=1.0)
        >>> capped.winners(np.array([50.0])), capped.attention_weights(np.array([50.0]), 1.0)
        (np.int64(1), array([0.5, 0.5]))
        >>> capped.soft(np.array([50.0]), tau=1e-45).round(6).tolist()
        [0.0, 1.0]
        >>> wide = AttentionHead(np.eye(4), np.eye(4), np.eye(4), np.eye(4))
        >>> gemma = SoftCappedHead(wide, cap=50.0, score_divisor="standard")
        >>> gemma.score_divisor, gemma.raw_cap
        (2.0, 100.0)
    """

    head: AttentionHead
    cap: float
    score_divisor: float | Literal["standard"] = field(default=1.0, kw_only=True)

    __repr__ = short_repr
    _repr_html_ = html_card

    def __post_init__(self) -> None:
        object.__setattr__(self, "cap", number("cap", self.cap, above=0.0))
        divisor = read_score_divisor(self.score_divisor, self.head)
        object.__setattr__(self, "score_divisor", divisor)
        number("cap", self.raw_cap, above=0.0)

    @property
    def raw_cap(self) -> float:
        """The cap on raw scores: `cap` times `score_divisor`."""
        return self.cap * float(self.score_divisor)

    def tied(self, x: FloatArray) -> BoolArray:
        """Return the mask of the winners, which the cap does not change."""
        return self.head.tied(x)

    def winners(self, x: FloatArray) -> IntArray:
        """Return the first winner, which the cap does not change."""
        return self.head.winners(x)

    def __call__(self, x: FloatArray) -> FloatArray:
        """Evaluate the hard head, which equals the uncapped hard head."""
        return self.head(x)

    def attention_weights(self, x: FloatArray, tau: float) -> FloatArray:
        r"""Compute $\mathrm{softmax}(C\tanh(s/C)/\tau)$ with $C$ = `raw_cap`, for `tau >= 0`.

        Returns:
            The weights, shape `(..., n_keys)`.
        """
        tau = number("tau", tau, at_least=0.0)
        if tau == 0.0:
            return self.head.attention_weights(x, 0.0)
        batch = PointBatch.read("x", x, self.head.dim)
        score_map = self.head.score_map
        cap = self.raw_cap
        error = score_map.weight_error * min(cap, tau)
        scores, gaps = score_map.scaled(batch.rows, cap, error)
        with np.errstate(over="ignore", under="ignore"):
            logs = -np.exp(_log_tanh_drops(scores, -gaps) + (np.log(cap) - np.log(tau)))
        weights = np.zeros((len(batch.rows), self.head.n_keys))
        weights[:, self.head.unmasked] = normalise_weights(logs)
        return batch.unpack(weights)

    def soft(self, x: FloatArray, tau: float) -> FloatArray:
        """Evaluate the soft output at temperature `tau >= 0`: shape `(..., out_dim)`."""
        if number("tau", tau, at_least=0.0) == 0.0:
            return self.head(x)
        weights = self.attention_weights(x, tau)
        return np.asarray(weights @ self.head.values @ self.head.output_weight)


def _log_tanh_drops(scores: FloatArray, gaps: FloatArray) -> FloatArray:
    r"""Return $\log(\tanh a - \tanh b)$ for each score $b$ of a row with maximum $a$.

    Let $g = a - b$. If both arguments are on one side of 0, at distances $0 \le n \le f$ from it,
    then $|\tanh f - \tanh n| = 2 e^{-2n} (1 - e^{-2g}) / ((1 + e^{-2n})(1 + e^{-2f}))$; nothing in
    this expression cancels, and nothing underflows in its logarithm.

    Args:
        scores: The $b$, shape `(n_points, n_keys)`.
        gaps: The $g \ge 0$, same shape, more accurate than the difference of rounded scores.
    """
    top = np.broadcast_to(scores.max(axis=1, keepdims=True), scores.shape)
    near = np.where(scores >= 0, scores, -top)
    far = np.where(scores >= 0, top, -scores)
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        same_side = (
            np.log(2.0)
            - 2 * near
            + np.log(-np.expm1(-2 * gaps))
            - np.log1p(np.exp(-2 * near))
            - np.log1p(np.exp(-2 * far))
        )
        across = np.log(np.tanh(top) - np.tanh(scores))
    return np.asarray(np.where((scores < 0) & (top > 0), across, same_side))
