r"""Temperatures for a compiled transformer that keep it within a given error.

The bound of `certified_errors.propagate` rises with every temperature. Among all choices within the
budget $\varepsilon$ the one with the largest product $\prod_l \tau_l$ is sought: no layer is much
sharper than it must be, and a layer whose errors are amplified by what follows is sharper than one
near the output. If the bound were a sum $\sum_l c_l \tau_l$, the optimum would give every layer the
same share, $\tau_l = \varepsilon / (L c_l)$; the $c_l$ are measured at a uniform temperature, and
then all are raised together until the budget is spent.
"""

from collections.abc import Callable

import numpy as np

from hardmax.constructions.certified_errors import ErrorBounds, propagate
from hardmax.constructions.piece_layers import PieceLayer
from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box
from hardmax.models.argmax_layers import AffineMap
from hardmax.typing import FloatArray

_HALVINGS = 24
_COOLEST, _HOTTEST = 2.0**-1000, 2.0**60
_LARGEST_FLOAT32, _SMALLEST_FLOAT32 = 2.0**120, 2.0**-120
"""Well inside the range of normal float32 numbers, so that head sizes and sums fit as well."""
_LOGITS_32, _LOGITS_64 = 120, 1000
_CLOSE = 64.0
"""How many times the rounding bound of a hard transformer its soft stand-in may be off."""


def choose_rates(
    layers: list[PieceLayer], last: AffineMap, box: Box, epsilon: float
) -> list[float]:
    r"""Return $1/\tau_l$ for every layer such that the certified error is at most `epsilon`.

    Raises:
        ArgumentError: If rounding alone exceeds `epsilon`, or a temperature leaves the range of
            float32.
    """
    hard = propagate(layers, last, box, None).worst
    if not hard < epsilon:
        raise ArgumentError(
            f"`epsilon` must be above {hard:.3g}, the bound on what float64 rounding adds; got "
            f"{epsilon}. Raise it, or compile with `epsilon=None` for the hard transformer."
        )

    def bounds(taus: FloatArray) -> ErrorBounds:
        return propagate(layers, last, box, (1.0 / taus).tolist())

    uniform = np.ones(len(layers))
    start = _largest_factor(bounds, uniform, epsilon)
    if start is None:  # No temperature matters: every unit has one piece, or none is read.
        return [1.0] * len(layers)
    shares = np.empty(len(layers))
    for index in range(len(layers)):
        taus = np.full(len(layers), start * 2.0**-40)
        taus[index] = start
        shares[index] = max(bounds(taus).worst - hard, 0.0)
    # A layer without influence takes the temperature of the hottest one with some.
    matters = shares > 2.0**-20 * shares.max()
    directions = np.where(matters, 1.0 / np.where(matters, shares, 1.0), 0.0)
    directions[~matters] = directions.max()
    directions = directions / directions.max()
    factor = _largest_factor(bounds, directions, epsilon)
    if factor is None:  # The directions are at most 1, so what holds for the uniform one holds.
        factor = start
    # A rate that float32 holds exactly gives the same temperature in both precisions.
    taus = factor * directions
    _refuse_range(taus, bounds(taus).sizes, epsilon)
    rates = np.nextafter((1.0 / taus).astype(np.float32), np.float32(np.inf))
    return [float(rate) for rate in rates]


def sharpest_rates(layers: list[PieceLayer], last: AffineMap, box: Box) -> list[float]:
    r"""Return rates at which soft means and maxima cannot be told apart.

    The rounding of a head does not grow as $\tau \to 0$, so a temperature cannot be too low while
    numbers fit: logits up to $2^{120}$, which float32 holds. Where what is that small is amplified
    later on, by weights float32 does not hold either, logits go up to $2^{1000}$. Rates are powers
    of two.
    """
    hard = propagate(layers, last, box, None)
    exponents = np.ceil(np.log2(np.maximum(hard.sizes, 1.0)))
    narrow, wide = ((2.0 ** (limit - exponents)).tolist() for limit in (_LOGITS_32, _LOGITS_64))
    close = propagate(layers, last, box, narrow).worst <= _CLOSE * hard.worst
    return [float(rate) for rate in (narrow if close else wide)]


def _largest_factor(
    bounds: Callable[[FloatArray], ErrorBounds], directions: FloatArray, epsilon: float
) -> float | None:
    """The largest factor for which the bound holds, or None if it holds for all."""

    def holds(factor: float) -> bool:
        return bounds(factor * directions).worst <= epsilon

    low = high = 1.0
    if holds(1.0):
        while holds(high):
            low, high = high, 2.0 * high
            if high > _HOTTEST:
                return None
    else:
        while not holds(low):
            low, high = 0.5 * low, low
            if low < _COOLEST:
                raise ArgumentError(
                    f"`epsilon` must be reachable with temperatures float64 can hold; {epsilon} is "
                    "not. Raise it, shrink the box, or scale the network down."
                )
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _refuse_range(taus: FloatArray, sizes: tuple[float, ...], epsilon: float) -> None:
    """Refuse temperatures that float32 would turn into 0, and logits it would into infinity."""
    logits = np.array(sizes) / taus
    smallest = float(taus.min())
    short = max(_SMALLEST_FLOAT32 / smallest, float(logits.max()) / _LARGEST_FLOAT32)
    if short > 1.0:
        raise ArgumentError(
            f"`epsilon` must be at least about {2.0 * short * epsilon:.3g} for this network and "
            f"box: {epsilon} needs a temperature of {smallest:.3g}, with which float32 overflows. "
            "Raise epsilon, shrink the box, or scale the network down."
        )
