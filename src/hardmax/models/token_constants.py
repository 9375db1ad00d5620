"""Which coordinates of which tokens do not depend on the input, and what they are, exactly.

A coordinate is followed through the blocks symbol by symbol: what is computed from constants with
weights that are not zero is constant, everything else counts as depending on the input, even where
it happens to cancel. Constants are rationals (means over tied values have odd denominators).
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hardmax.algebra.exact.dyadic import rationals
from hardmax.typing import BoolArray, FloatArray, IntArray, WideArray

if TYPE_CHECKING:
    from hardmax.models.token_transformers import TokenHead, TokenTransformer
    from hardmax.models.transformers import FeedForward


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of an array without knowing the input.

    Attributes:
        varies: Which entries depend on the input.
        constants: The rationals the other entries are, in an object array of the same shape; an
            entry that varies holds 0.
    """

    varies: BoolArray
    constants: WideArray

    @classmethod
    def exactly(cls, array: FloatArray) -> "Known":
        """Take floats as constants."""
        return cls(np.zeros(array.shape, dtype=bool), rationals(array))

    def times(self, weight: FloatArray, bias: FloatArray | None = None) -> "Known":
        """Apply an affine map to the rows."""
        varies = (self.varies.astype(float) @ (weight != 0.0)) > 0.0
        constants = np.full(varies.shape, Fraction(0), dtype=object)
        entries = [
            [(int(j), Fraction(float(weight[j, k]))) for j in np.flatnonzero(weight[:, k])]
            for k in range(weight.shape[1])
        ]
        for t, k in np.argwhere(~varies).tolist():
            start = Fraction(0) if bias is None else Fraction(float(bias[k]))
            terms = (w * self.constants[t, j] for j, w in entries[k] if self.constants[t, j])
            constants[t, k] = sum(terms, start)
        return Known(varies, constants)

    def __add__(self, other: "Known") -> "Known":
        varies = self.varies | other.varies
        total = self.constants + other.constants
        total[varies] = Fraction(0)
        return Known(varies, total)


def embedded(model: "TokenTransformer") -> Known:
    """Return what is known of the tokens before the first block, shape `(n_tokens, width)`."""
    varies = np.asarray(model.embedding_weight.any(axis=0))
    constants = rationals(model.embedding_bias)
    constants[varies] = Fraction(0)
    return Known(varies, constants)


def fed_forward(ffn: "FeedForward", state: Known) -> Known:
    """Return what is known of the feed-forward output."""
    before = state.times(ffn.w_in, ffn.b_in)
    rectified = before.constants.copy()
    rectified[before.constants < 0] = Fraction(0)
    return Known(before.varies, rectified).times(ffn.w_out, ffn.b_out)


def attended(head: "TokenHead", allowed: BoolArray, state: Known) -> Known:
    """Return what is known of a hard head's output, shape `(n_tokens, width)`."""
    n_tokens = len(allowed)
    query = state.times(head.query_weight, head.bias)
    key, value = state.times(head.key_weight), state.times(head.value_weight)
    varies = np.zeros((n_tokens, head.d_v), dtype=bool)
    constants = np.full(varies.shape, Fraction(0), dtype=object)
    for t in range(n_tokens):
        keys = np.flatnonzero(allowed[t])
        winners = known_winners(query, key, t, keys)
        for e in range(head.d_v):
            among = keys if winners is None else winners
            column = value.constants[among, e]
            # Whoever wins, it is the same: equal constants, or a decision that never changes.
            same = winners is not None or all(entry == column[0] for entry in column)
            if value.varies[among, e].any() or not same:
                varies[t, e] = True
            else:
                constants[t, e] = sum(column, Fraction(0)) / len(among)
    return Known(varies, constants).times(head.output_weight)


def known_winners(query: Known, key: Known, token: int, keys: IntArray) -> IntArray | None:
    """Return the keys that win for a token whatever the input, or None if that depends on it."""
    for s in keys.tolist():
        if any(term_varies(query, key, token, s, i) for i in range(query.varies.shape[1])):
            return None
    scores = [sum(query.constants[token] * key.constants[s], Fraction(0)) for s in keys.tolist()]
    best = max(scores)
    return keys[[score == best for score in scores]]


def term_varies(query: Known, key: Known, token: int, other: int, i: int) -> bool:
    """Whether component `i` of the score of a pair of tokens depends on the input."""
    if query.varies[token, i]:
        return bool(key.varies[other, i] or key.constants[other, i] != 0)
    return bool(key.varies[other, i] and query.constants[token, i] != 0)
