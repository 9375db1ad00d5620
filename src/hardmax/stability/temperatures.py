r"""Conversions between margin, temperature and accuracy: any two determine the third.

Consider a head with $N$ keys whose winner leads by at least $\delta$. Its rivals have at most the
share $\varepsilon$ of the weight, for all such scores, if and only if $(N-1)e^{-\delta/\tau} \le
\varepsilon/(1-\varepsilon)$, that is,

$$\delta \ge \tau\ell, \qquad \tau \le \delta/\ell, \qquad
  \ell = \log\frac{(N-1)(1-\varepsilon)}{\varepsilon},$$

where $\ell$ is slightly smaller than $\log((N-1)/\varepsilon)$. Conversely, no scores with a gap
smaller than $\tau\log\frac{1-\varepsilon}{\varepsilon}$ have this accuracy, because the second key
alone has a larger share. The usual scaling divides raw scores by $\sqrt{d_k}$, which corresponds to
$\tau = \sqrt{d_k}$ on raw scores and to $\tau = 1$ on scaled logits.

All results are rounded to the safe side.
"""

import math

import numpy as np
from flint import arb

from hardmax.errors import ArgumentError
from hardmax.exact.directed_rounding import (
    evaluate,
    read_broadcast,
    read_counts,
    round_down,
    round_up,
)
from hardmax.stability.score_bounds import rival_mass_bound
from hardmax.typing import ArrayLike, FloatArray


def margin_for_accuracy(n_keys: ArrayLike, tau: ArrayLike, epsilon: ArrayLike) -> FloatArray:
    r"""Return the smallest margin at which rivals never get more than $\varepsilon$, rounded up.

    Args:
        n_keys: The number of keys $N \ge 1$.
        tau: The temperature $\tau > 0$.
        epsilon: The share $\varepsilon$ of the weight, strictly between 0 and 1.

    Examples:
        >>> float(margin_for_accuracy(512, 1.0, 0.01)), float(margin_for_accuracy(512, 8.0, 0.01))
        (10.831489440338295, 86.65191552270636)
        >>> float(margin_for_accuracy(2, 1.0, 0.5))
        0.0
    """
    return evaluate(
        lambda n, tau, eps: (tau * hardness_level(n, eps)).max(arb(0)),
        round_up,
        *_read_arguments(n_keys, "tau", tau, False, epsilon),
    )


def temperature_for_accuracy(
    n_keys: ArrayLike, margin: ArrayLike, epsilon: ArrayLike
) -> FloatArray:
    r"""Return the highest $\tau$ at which rivals never get more than $\varepsilon$, rounded down.

    It is infinite if $\varepsilon \ge 1 - 1/N$, which is the share at infinite temperature.

    Args:
        n_keys: The number of keys $N \ge 1$.
        margin: The margin $\delta \ge 0$ by which the winner leads every rival.
        epsilon: The share $\varepsilon$ of the weight, strictly between 0 and 1.

    Examples:
        >>> float(temperature_for_accuracy(512, 2.0, 0.01))
        0.18464681251976875
        >>> temperature_for_accuracy([2, 3], 1.0, 0.5).tolist()
        [inf, 1.4426950408889634]
    """

    def limit(n: arb, delta: arb, eps: arb) -> arb:
        level = hardness_level(n, eps)
        return delta / level if level > 0 else arb.pos_inf()

    return evaluate(
        limit, _round_down_or_infinite, *_read_arguments(n_keys, "margin", margin, True, epsilon)
    )


def accuracy(n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike) -> FloatArray:
    r"""Return the accuracy $\varepsilon$: the maximum share of the rivals, rounded up.

    This is the inverse of `margin_for_accuracy` and `temperature_for_accuracy`, and equals
    `rival_mass_bound`.

    Args:
        n_keys: The number of keys $N \ge 1$.
        margin: The margin $\delta \ge 0$ by which the winner leads every rival.
        tau: The temperature $\tau > 0$.

    Examples:
        >>> float(accuracy(2, 0.0, 1.0)), round(float(accuracy(512, 10.831489, 1.0)), 6)
        (0.5, 0.01)
    """
    return rival_mass_bound(n_keys, margin, tau)


def necessary_margin(tau: ArrayLike, epsilon: ArrayLike) -> FloatArray:
    r"""Return the margin below which rivals always get more than $\varepsilon$, rounded down.

    It is $\max(0, \tau\log\frac{1-\varepsilon}{\varepsilon})$. Because the result is rounded down,
    a point with a smaller margin is certainly not $\varepsilon$-hard.

    Args:
        tau: The temperature $\tau > 0$.
        epsilon: The share $\varepsilon$ of the weight, strictly between 0 and 1.

    Examples:
        >>> float(necessary_margin(1.0, 0.01))
        4.59511985013459
    """
    return evaluate(
        lambda n, tau, eps: (tau * hardness_level(n, eps)).max(arb(0)),
        round_down,
        *_read_arguments(2, "tau", tau, False, epsilon),
    )


def standard_temperature(d_k: ArrayLike) -> FloatArray:
    r"""Return $\tau = \sqrt{d_k}$, the usual temperature for raw scores.

    Args:
        d_k: The head size, at least 1.

    Examples:
        >>> float(standard_temperature(64))
        8.0
    """
    return np.asarray(np.sqrt(read_counts("d_k", d_k)))[()]


def hardness_level(n_keys: arb, epsilon: arb) -> arb:
    r"""Return $\ell = \log\frac{(N-1)(1-\varepsilon)}{\varepsilon}$, or $-\infty$ for one key."""
    if n_keys == 1:
        return arb.neg_inf()
    if (n_keys - 1) * (1 - epsilon) == epsilon:
        return arb(0)
    return ((n_keys - 1) * (1 - epsilon) / epsilon).log()


def read_epsilon(epsilon: ArrayLike) -> FloatArray:
    """Read an array of shares, each strictly between 0 and 1."""
    (array,) = read_broadcast({"epsilon": (epsilon, 0, False)})
    if (array >= 1).any():
        raise ArgumentError(f"`epsilon` must be below 1; got {float(array.max())}.")
    return array


def _read_arguments(
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


def _round_down_or_infinite(ball: arb) -> float:
    return math.inf if ball == arb.pos_inf() else round_down(ball)
