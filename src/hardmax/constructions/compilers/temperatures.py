r"""Temperatures for a compiled transformer that keep it within a given error.

The bound of `certified_errors.propagate` increases with every temperature. Among all choices within
the budget $\varepsilon$, the search looks for a large product $\prod_l \tau_l$: no layer is much
colder than necessary, and a layer whose errors are amplified by later layers is colder than a layer
near the output. If the bound were a sum $\sum_l c_l \tau_l$, the optimum would give every layer the
same share, $\tau_l = \varepsilon / (L c_l)$. The search therefore repeats three steps a few times:
it measures the shares, changes the temperatures to make the shares equal, and scales all
temperatures by one factor until the budget is used up.
"""

from collections.abc import Callable

import numpy as np

from hardmax.constructions.compilers._bounds.certified_errors import ErrorBounds, propagate
from hardmax.constructions.compilers.piece_layers import PieceLayer
from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box
from hardmax.models.argmax import AffineMap
from hardmax.typing import FloatArray

_ATTEMPTS = 60
_ROUNDS = 4
_MOST_RISE = 64.0
_EVEN = 2.0**-6
_ROUGH, _FINE = 2.0**-6, 2.0**-20
_LEAP = 2.0**40
_COOLEST, _HOTTEST = 2.0**-1000, 2.0**60
_LARGEST_FLOAT32, _SMALLEST_FLOAT32 = 2.0**120, 2.0**-120
"""Well inside the range of normal float32 numbers, so that head sizes and sums fit too."""
_LOGITS_32, _LOGITS_64 = 120, 1000
_CLOSE = 64.0
"""Largest error of the soft version of a hard transformer, in multiples of the rounding bound."""


def choose_rates(
    layers: list[PieceLayer],
    last: AffineMap,
    box: Box,
    epsilon: float,
    rounding: FloatArray | float = 0.0,
) -> list[float]:
    r"""Return $1/\tau_l$ for every layer such that the certified error is at most `epsilon`.

    Args:
        layers: The hidden layers of the network.
        last: The last layer of the network.
        box: The box.
        epsilon: The largest error.
        rounding: For each output, the part of `epsilon` that the network itself has used up.

    Raises:
        ArgumentError: If rounding alone exceeds `epsilon`, or a temperature is outside the range of
            float32.
    """
    hard = propagate(layers, last, box, None).add_error(rounding)
    if not hard.worst < epsilon:
        raise ArgumentError(
            f"`epsilon` must be above {hard.worst:.3g}, the bound on rounding in float64; got "
            f"{epsilon}. Raise it, or compile a hard transformer with `epsilon=None`."
        )

    def bounds(taus: FloatArray) -> ErrorBounds | None:
        try:
            return propagate(layers, last, box, (1.0 / taus).tolist()).add_error(rounding)
        except ArgumentError:  # The temperatures are so high that bounds overflow.
            return None

    best = _find_largest_factor(bounds, np.ones(len(layers)), hard.worst, epsilon, _ROUGH)
    if best is None:  # No temperature matters: each unit has one piece or does not affect outputs.
        return [1.0] * len(layers)
    latest = best
    for _ in range(_ROUNDS):
        shares = np.maximum(latest.shares - hard.shares, 0.0)
        if not shares.any():
            shares = _measure_shares(bounds, latest.temperatures, hard.worst)
        wanted = shares[shares > 0.0].mean() if shares.any() else 0.0
        # A layer without influence becomes hotter step by step, because it may gain influence.
        ratios = np.where(shares > 0.0, wanted / np.where(shares > 0.0, shares, 1.0), _MOST_RISE)
        taus = latest.temperatures * np.minimum(ratios, _MOST_RISE)
        found = _find_largest_factor(bounds, taus, hard.worst, epsilon, _ROUGH)
        if found is None:
            break
        latest = found
        if np.log(found.temperatures).sum() > np.log(best.temperatures).sum():
            best = found
        if ratios.max() < 1.0 + _EVEN and ratios.min() > 1.0 - _EVEN:
            break
    best = _find_largest_factor(bounds, best.temperatures, hard.worst, epsilon, _FINE) or best
    # A rate that float32 holds exactly gives the same temperature in both precisions.
    taus = best.temperatures
    _refuse_range(taus, best.sizes, epsilon)
    while True:
        rates = np.nextafter((1.0 / taus).astype(np.float32), np.float32(np.inf))
        # The bound need not change smoothly with the temperatures, so it is checked again.
        chosen = [float(rate) for rate in rates]
        if propagate(layers, last, box, chosen).add_error(rounding).worst <= epsilon:
            return chosen
        taus = taus * (1.0 - 2.0**-8)
        _refuse_range(taus, best.sizes, epsilon)


def _measure_shares(
    bounds: Callable[[FloatArray], ErrorBounds | None], taus: FloatArray, hard: float
) -> FloatArray:
    """Return each layer's contribution to the bound if all others are cold: `(n_layers,)`."""
    shares = np.zeros(len(taus))
    for index in range(len(taus)):
        others = taus * 2.0**-40
        others[index] = taus[index]
        found = bounds(others)
        shares[index] = 0.0 if found is None else max(found.worst - hard, 0.0)
    return shares


def sharpest_rates(layers: list[PieceLayer], last: AffineMap, box: Box) -> list[float]:
    r"""Return rates at which soft means equal maxima up to rounding.

    The rounding error of a head does not grow as $\tau \to 0$, so a temperature cannot be too low
    as long as the numbers fit: the logits go up to $2^{120}$, which float32 can represent. If later
    layers amplify such small errors, with weights that float32 cannot represent either, the logits
    go up to $2^{1000}$. The rates are powers of two.
    """
    hard = propagate(layers, last, box, None)
    exponents = np.ceil(np.log2(np.maximum(hard.sizes, 1.0)))
    narrow, wide = ((2.0 ** (limit - exponents)).tolist() for limit in (_LOGITS_32, _LOGITS_64))
    close = propagate(layers, last, box, narrow).worst <= _CLOSE * hard.worst
    return [float(rate) for rate in (narrow if close else wide)]


def _find_largest_factor(
    bounds: Callable[[FloatArray], ErrorBounds | None],
    directions: FloatArray,
    hard: float,
    epsilon: float,
    accuracy: float,
) -> ErrorBounds | None:
    """Return the bounds for the largest factor within the budget; None if every factor is.

    The contribution of the temperatures to the bound, beyond `hard`, is roughly proportional to
    them. Each new factor is therefore chosen where the line through the previous result meets the
    budget, or halfway (in logarithms) between the largest factor known to be within the budget and
    the smallest known to exceed it.
    """
    best: ErrorBounds | None = None
    low, high, factor = 0.0, np.inf, 1.0
    for attempt in range(_ATTEMPTS):
        found = bounds(factor * directions)
        if found is not None and found.worst <= epsilon:
            low, best = factor, found
        else:
            high = factor
        if low > _HOTTEST:
            return None
        if high < _COOLEST:
            break
        if high <= low * (1.0 + min(64.0 * accuracy, _ROUGH)) or (
            best is not None and best.worst - hard >= (1.0 - accuracy) * (epsilon - hard)
        ):
            break
        added = 0.0 if found is None else found.worst - hard
        ratio = (epsilon - hard) / added if added > 0.0 else (_LEAP if high == np.inf else 0.0)
        if found is None:
            ratio = 1.0 / _LEAP
        factor = factor * min(max(ratio, 1.0 / _LEAP), _LEAP) * (1.0 - 0.25 * accuracy)
        if low == 0.0:
            factor = min(factor, high / 16.0)
        elif high == np.inf:
            factor = max(factor, low * 16.0)
        elif not low < factor < high or attempt % 4 == 3:
            factor = float(np.sqrt(low) * np.sqrt(high))
    if best is None:
        raise ArgumentError(
            f"`epsilon` = {epsilon} is too small: it requires temperatures outside the range of "
            "float64. Raise it, shrink the box, or scale the network down."
        )
    return best


def _refuse_range(taus: FloatArray, sizes: tuple[float, ...], epsilon: float) -> None:
    """Raise an error if float32 would round a temperature to 0 or a logit to infinity."""
    logits = np.array(sizes) / taus
    smallest = float(taus.min())
    short = max(_SMALLEST_FLOAT32 / smallest, float(logits.max()) / _LARGEST_FLOAT32)
    if short > 1.0:
        raise ArgumentError(
            f"`epsilon` must be at least about {2.0 * short * epsilon:.3g} for this network and "
            f"box: {epsilon} requires a temperature of {smallest:.3g}, at which float32 overflows. "
            "Raise `epsilon`, shrink the box, or scale the network down."
        )
