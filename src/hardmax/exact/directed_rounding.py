r"""Directed rounding of balls of interval arithmetic to float64.

Certified numbers are computed with balls (`arb` of python-flint: a midpoint, and a radius that
covers all rounding errors) and rounded outward to float64 at the end. Balls have exponents of any
size, so $e^{-10^4}$ is an ordinary number until the last step. There, an upper bound that
underflows becomes the smallest positive float64, which is still a bound.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np
from flint import arb, ctx

from hardmax._ground.arguments import floats_any_shape
from hardmax.errors import ArgumentError, DtypeError, ShapeMismatchError
from hardmax.typing import ArrayLike, FloatArray

PRECISION = 192
"""Bits of the midpoints: enough for squared float64 inputs, with a reserve for cancellation."""


def round_up(ball: arb) -> float:
    """Return a float64 that is at least every number in the ball; inf if there is no bound.

    Examples:
        >>> round_up(arb(1) / 10), round_up(arb(-20000).exp()), round_up(arb(0))
        (0.1, 5e-324, 0.0)
    """
    if not ball.is_finite():
        return -math.inf if ball == arb.neg_inf() else math.inf
    highest = ball.upper()
    result = float(highest.mid())
    while not arb(result) >= highest:
        result = math.nextafter(result, math.inf)
    return result


def round_down(ball: arb) -> float:
    """Return a float64 that is at most every number in the ball; -inf if there is no bound."""
    return -round_up(-ball)


def evaluate(
    formula: Callable[..., arb], rounding: Callable[[arb], float], *arrays: FloatArray
) -> FloatArray:
    """Evaluate a formula in balls on broadcast float64 arrays, and round each result."""
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    columns = [np.broadcast_to(array, shape).ravel().tolist() for array in arrays]
    result = np.empty(math.prod(shape))
    with ctx.workprec(PRECISION):
        for i, numbers in enumerate(zip(*columns, strict=True)):
            result[i] = rounding(formula(*(arb(x) for x in numbers)))
    return result.reshape(shape)[()]


def read_broadcast(
    limits: dict[str, tuple[ArrayLike, float, bool]],
) -> list[FloatArray]:
    """Read named arrays that must broadcast together, each with its own lower limit.

    Args:
        limits: For each name, the value, the lower limit, and whether the limit itself is allowed.
    """
    read = []
    for name, (value, limit, allowed) in limits.items():
        array = floats_any_shape(name, value)
        wrong = array[(array < limit) | ((array == limit) & (not allowed))]
        if wrong.size:
            word = "at least" if allowed else "above"
            raise ArgumentError(f"`{name}` must be {word} {limit:g}; got {wrong.flat[0]}.")
        read.append(array)
    try:
        np.broadcast_shapes(*(array.shape for array in read))
    except ValueError:
        names = ", ".join(f"`{name}`" for name in limits)
        shapes = ", ".join(str(array.shape) for array in read)
        raise ShapeMismatchError(f"{names} must broadcast together; got shapes {shapes}.") from None
    return read


def read_counts(name: str, value: ArrayLike) -> FloatArray:
    """Read an array of integers, at least 1, as float64."""
    array = floats_any_shape(name, value)
    if (array != np.floor(array)).any():
        wrong = array[array != np.floor(array)].flat[0]
        raise DtypeError(f"`{name}` must hold integers; got {wrong}.")
    if (array < 1).any():
        raise ArgumentError(f"`{name}` must be at least 1; got {float(array.min()):g}.")
    return array


def norm_bound(entries: Iterable[arb]) -> arb:
    """Return a bound on the 2-norm of every vector in the balls, sharp for balls of radius 0."""
    return sum((entry.abs_upper() ** 2 for entry in entries), arb(0)).upper().sqrt()


def interval(low: arb, high: arb) -> arb:
    """Return a ball from the lower end of `low` to the upper end of `high`, or slightly above.

    The radius of a ball has thirty binary digits, so a ball that covers an interval usually exceeds
    it at both ends. This ball exceeds it only at the upper end.

    Examples:
        >>> ball = interval(arb(0), arb(1) / 3)
        >>> ball.lower() == 0, bool(ball.upper() >= arb(1) / 3), bool(ball.upper() < 0.3334)
        (True, True, True)
    """
    least = low.lower()
    half = ((high.upper() - least) / 2).upper()
    if not half > 0:
        return least
    around = arb(0, half)
    with ctx.workprec(4 * ctx.prec):
        return least + around.rad() + around
