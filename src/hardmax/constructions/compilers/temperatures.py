r"""Temperatures for a compiled transformer that keep it within a given error.

The bound of `certified_errors.propagate` rises with every temperature. Among all choices within the
budget $\varepsilon$ one with a large product $\prod_l \tau_l$ is sought: no layer is much sharper
than it must be, and a layer whose errors are amplified by what follows is sharper than one near the
output. If the bound were a sum $\sum_l c_l \tau_l$, the optimum would give every layer the same
share, $\tau_l = \varepsilon / (L c_l)$. So shares are measured, temperatures changed to make them
equal, and all raised or lowered together until the budget is spent, a few times over.
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
"""Well inside the range of normal float32 numbers, so that head sizes and sums fit as well."""
_LOGITS_32, _LOGITS_64 = 120, 1000
_CLOSE = 64.0
"""How many times the rounding bound of a hard transformer its soft stand-in may be off."""


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
        last: Its last layer.
        box: The box.
        epsilon: The error.
        rounding: How much of it the network itself has used up already, for each output.

    Raises:
        ArgumentError: If rounding alone exceeds `epsilon`, or a temperature leaves the range of
            float32.
    """
    hard = propagate(layers, last, box, None).plus(rounding)
    if not hard.worst < epsilon:
        raise ArgumentError(
            f"`epsilon` must be above {hard.worst:.3g}, the bound on what float64 rounding adds; "
            f"got {epsilon}. Raise it, or compile with `epsilon=None` for the hard transformer."
        )

    def bounds(taus: FloatArray) -> ErrorBounds | None:
        try:
            return propagate(layers, last, box, (1.0 / taus).tolist()).plus(rounding)
        except ArgumentError:  # So hot that bounds overflow.
            return None

    best = _largest_factor(bounds, np.ones(len(layers)), hard.worst, epsilon, _ROUGH)
    if best is None:  # No temperature matters: every unit has one piece, or none is read.
        return [1.0] * len(layers)
    latest = best
    for _ in range(_ROUNDS):
        shares = np.maximum(latest.shares - hard.shares, 0.0)
        if not shares.any():
            shares = _measured_shares(bounds, latest.temperatures, hard.worst)
        wanted = shares[shares > 0.0].mean() if shares.any() else 0.0
        # A layer without influence becomes hotter step by step: it may get some.
        ratios = np.where(shares > 0.0, wanted / np.where(shares > 0.0, shares, 1.0), _MOST_RISE)
        taus = latest.temperatures * np.minimum(ratios, _MOST_RISE)
        found = _largest_factor(bounds, taus, hard.worst, epsilon, _ROUGH)
        if found is None:
            break
        latest = found
        if np.log(found.temperatures).sum() > np.log(best.temperatures).sum():
            best = found
        if ratios.max() < 1.0 + _EVEN and ratios.min() > 1.0 - _EVEN:
            break
    best = _largest_factor(bounds, best.temperatures, hard.worst, epsilon, _FINE) or best
    # A rate that float32 holds exactly gives the same temperature in both precisions.
    taus = best.temperatures
    _refuse_range(taus, best.sizes, epsilon)
    while True:
        rates = np.nextafter((1.0 / taus).astype(np.float32), np.float32(np.inf))
        # The bound need not rise smoothly with the temperatures, so it is looked at once more.
        chosen = [float(rate) for rate in rates]
        if propagate(layers, last, box, chosen).plus(rounding).worst <= epsilon:
            return chosen
        taus = taus * (1.0 - 2.0**-8)
        _refuse_range(taus, best.sizes, epsilon)


def _measured_shares(
    bounds: Callable[[FloatArray], ErrorBounds | None], taus: FloatArray, hard: float
) -> FloatArray:
    """What each layer adds to the bound while all others are cold, shape `(n_layers,)`."""
    shares = np.zeros(len(taus))
    for index in range(len(taus)):
        others = taus * 2.0**-40
        others[index] = taus[index]
        found = bounds(others)
        shares[index] = 0.0 if found is None else max(found.worst - hard, 0.0)
    return shares


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
    bounds: Callable[[FloatArray], ErrorBounds | None],
    directions: FloatArray,
    hard: float,
    epsilon: float,
    accuracy: float,
) -> ErrorBounds | None:
    """The bounds for the largest factor with which they hold, or None if they hold for all.

    What temperatures add to the bound `hard` is about proportional to them, so each try is where
    the line through the one before meets the budget, or halfway (in logarithms) between the
    largest factor known to hold and the smallest known not to.
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
            f"`epsilon` must be reachable with temperatures float64 can hold; {epsilon} is not. "
            "Raise it, shrink the box, or scale the network down."
        )
    return best


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
