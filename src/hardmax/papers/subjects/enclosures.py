r"""Soft quantities as rigorous enclosures: log-sum-exp and softmax in ball arithmetic.

A comparison of enclosures is True only if it holds for all numbers they contain. If a comparison
here shows that an inequality is violated, this is a proof.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from flint import arb, ctx, fmpq

_PRECISION = 256
"""Bits of precision. Gaps down to about $e^{-150}$ remain visible."""


@contextmanager
def working_precision(bits: int = _PRECISION) -> Iterator[None]:
    """Compute with this many bits inside the block.

    Examples:
        >>> with working_precision():
        ...     bool(log_sum_exp([0, -1], Fraction(1, 8)) > 0)
        True
    """
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def ball(value: Fraction | int | float) -> Any:
    """Enclose one number; a float stands for its exact value."""
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def log_sum_exp(scores: Sequence[Fraction | int | float], tau: Fraction | int | float) -> Any:
    r"""Enclose $\tau \log \sum_j e^{s_j/\tau}$."""
    top = max(scores)
    total = sum((_weight(s, top, tau) for s in scores), arb(0))
    return ball(top) + ball(tau) * total.log()


def softmax(scores: Sequence[Fraction | int | float], tau: Fraction | int | float) -> list[Any]:
    r"""Enclose $e^{s_j/\tau} / \sum_i e^{s_i/\tau}$."""
    top = max(scores)
    weights = [_weight(s, top, tau) for s in scores]
    total = sum(weights, arb(0))
    return [weight / total for weight in weights]


def _weight(score: Any, top: Any, tau: Any) -> Any:
    return ((ball(score) - ball(top)) / ball(tau)).exp()
