"""The number of pieces of a hard transformer that its soft version follows, in ball arithmetic."""

from fractions import Fraction
from functools import cache
from typing import Any

from hardmax.constructions.families.literal_shattering import literal_shattering_transformer
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import FeedForward
from hardmax.papers.subjects.enclosures import ball, working_precision


@cache
def surviving_pieces(depth: int, tau: Fraction) -> int:
    """Count the pieces of a network of Theorem V.7 that its soft version still follows.

    N = 4, d = 1, w = 1. A piece survives if, between its quarter points, the soft network moves in
    the same direction as the hard one and at least half as far.
    """
    model = literal_shattering_transformer(4, 1, depth, 2)
    head, ffn = model.blocks[0].heads[0], model.blocks[0].ffn
    assert ffn is not None
    n_pieces = 8**depth
    survivors = 0
    with working_precision(128):
        for k in range(n_pieces):
            low, high = (
                _soft_value(head, ffn, depth, Fraction(4 * k + q, 4 * n_pieces), tau)
                for q in (1, 3)
            )
            rise = (high - low) * (-1) ** k  # the hard network rises by 1/2 on even pieces
            survivors += bool(rise > ball(Fraction(1, 4)))
    return survivors


def _soft_value(
    head: AttentionHead, ffn: FeedForward, depth: int, x: Fraction, tau: Fraction
) -> Any:
    """Enclose the output of the soft network in one dimension."""
    value = ball(x)
    for _ in range(depth):
        logits = [
            (value * ball(a) + ball(c)) / ball(tau)
            for a, c in zip(head.forms.slopes[:, 0], head.forms.offsets, strict=True)
        ]
        weights = [(logit - logits[0]).exp() for logit in logits]
        total = sum(weights, ball(0))
        mean = sum((w * ball(v) for w, v in zip(weights, head.values[:, 0], strict=True)), ball(0))
        stream = value + mean / total
        assert ffn.b_in is not None
        value = ball(0)
        for a, b, c in zip(ffn.w_in[0], ffn.b_in, ffn.w_out[:, 0], strict=True):
            value += ball(c) * (stream * ball(a) + ball(b)).max(ball(0))
    return value
