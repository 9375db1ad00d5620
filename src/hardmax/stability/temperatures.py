r"""Margin, temperature, accuracy: any two give the third.

A head with $N$ keys whose winner leads by $\delta$ gives its rivals at most the share
$\varepsilon$ of the mass, whatever the scores, if and only if $(N-1)e^{-\delta/\tau} \le
\varepsilon/(1-\varepsilon)$:

$$\delta \ge \tau\ell, \qquad \tau \le \delta/\ell, \qquad
  \ell = \log\frac{(N-1)(1-\varepsilon)}{\varepsilon},$$

slightly better than $\log((N-1)/\varepsilon)$. Conversely no scores with a smaller gap than
$\tau\log\frac{1-\varepsilon}{\varepsilon}$ give that accuracy: the second key alone takes more.
The usual scaling divides raw scores by $\sqrt{d_k}$, so it is $\tau = \sqrt{d_k}$ on raw scores and
$\tau = 1$ on scaled logits.

All results are rounded to the safe side.
"""

import math

import numpy as np
from flint import arb

from hardmax.errors import ArgumentError
from hardmax.exact.directed_rounding import (
    evaluated,
    read_broadcast,
    read_counts,
    rounded_down,
    rounded_up,
)
from hardmax.stability.score_bounds import rival_mass_bound
from hardmax.typing import ArrayLike, FloatArray


def margin_for_accuracy(n_keys: ArrayLike, tau: ArrayLike, epsilon: ArrayLike) -> FloatArray:
    r"""Return the gap $\delta$ from which on rivals never get more than $\varepsilon$, rounded up.

    Args:
        n_keys: The $N$, at least 1.
        tau: The temperature $\tau > 0$.
        epsilon: The $\varepsilon$, strictly between 0 and 1.

    Examples:
        >>> float(margin_for_accuracy(512, 1.0, 0.01)), float(margin_for_accuracy(512, 8.0, 0.01))
        (10.831489440338295, 86.65191552270636)
        >>> float(margin_for_accuracy(2, 1.0, 0.5))
        0.0
    """
    return evaluated(
        lambda n, tau, eps: (tau * hardness_level(n, eps)).max(arb(0)),
        rounded_up,
        *_read(n_keys, "tau", tau, False, epsilon),
    )


def temperature_for_accuracy(
    n_keys: ArrayLike, margin: ArrayLike, epsilon: ArrayLike
) -> FloatArray:
    r"""Return the $\tau$ up to which rivals never get more than $\varepsilon$, rounded down.

    It is infinite where $\varepsilon \ge 1 - 1/N$, the share at infinite temperature. Arguments
    as for `margin_for_accuracy`, with `margin` $\delta \ge 0$.

    Examples:
        >>> float(temperature_for_accuracy(512, 2.0, 0.01))
        0.18464681251976875
        >>> temperature_for_accuracy([2, 3], 1.0, 0.5).tolist()
        [inf, 1.4426950408889634]
    """

    def longest(n: arb, delta: arb, eps: arb) -> arb:
        level = hardness_level(n, eps)
        return delta / level if level > 0 else arb.pos_inf()

    return evaluated(longest, _down_or_infinite, *_read(n_keys, "margin", margin, True, epsilon))


def accuracy(n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike) -> FloatArray:
    r"""Return the $\varepsilon$ reached: the largest share of rivals, rounded up.

    The inverse of the two functions above; the same as `rival_mass_bound`.

    Examples:
        >>> float(accuracy(2, 0.0, 1.0)), round(float(accuracy(512, 10.831489, 1.0)), 6)
        (0.5, 0.01)
    """
    return rival_mass_bound(n_keys, margin, tau)


def necessary_margin(tau: ArrayLike, epsilon: ArrayLike) -> FloatArray:
    r"""Return $\tau\log\frac{1-\varepsilon}{\varepsilon}$, or 0: with less gap rivals get more.

    Rounded down, so that every point with a smaller margin is certainly not $\varepsilon$-hard.

    Examples:
        >>> float(necessary_margin(1.0, 0.01))
        4.59511985013459
    """
    return evaluated(
        lambda n, tau, eps: (tau * hardness_level(n, eps)).max(arb(0)),
        rounded_down,
        *_read(2, "tau", tau, False, epsilon),
    )


def standard_temperature(d_k: ArrayLike) -> FloatArray:
    r"""Return $\tau = \sqrt{d_k}$, the usual scaling on raw scores.

    Examples:
        >>> float(standard_temperature(64))
        8.0
    """
    return np.asarray(np.sqrt(read_counts("d_k", d_k)))[()]


def hardness_level(n_keys: arb, epsilon: arb) -> arb:
    r"""Return $\ell = \log\frac{(N-1)(1-\varepsilon)}{\varepsilon}$, $-\infty$ for one key."""
    if n_keys == 1:
        return arb.neg_inf()
    if (n_keys - 1) * (1 - epsilon) == epsilon:
        return arb(0)
    return ((n_keys - 1) * (1 - epsilon) / epsilon).log()


def read_epsilon(epsilon: ArrayLike) -> FloatArray:
    """Read a share strictly between 0 and 1."""
    (array,) = read_broadcast({"epsilon": (epsilon, 0, False)})
    if (array >= 1).any():
        raise ArgumentError(f"`epsilon` must be below 1; got {float(array.max())}.")
    return array


def _read(
    n_keys: ArrayLike, name: str, value: ArrayLike, allowed: bool, epsilon: ArrayLike
) -> list[FloatArray]:
    counts = read_counts("n_keys", n_keys)
    return read_broadcast(
        {
            "n_keys": (counts, 1, True),
            name: (value, 0, allowed),
            "epsilon": (read_epsilon(epsilon), 0, False),
        }
    )


def _down_or_infinite(ball: arb) -> float:
    return math.inf if ball == arb.pos_inf() else rounded_down(ball)
