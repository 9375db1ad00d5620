r"""The constants of Theorem VI.1 as [SL26] states them, to be held against the right ones.

The value bound is right and sharp, the gradient bound right but not sharp. The Hessian bound
$(N-1)r/\tau$ and what follows from it are false for every $N \ge 2$: at $m = N-1$ rivals on the
margin the norm is $\frac1\tau\frac{Nr}{(1+(N-1)r)^2}$, which exceeds it exactly where $r <
(\sqrt{N/(N-1)} - 1)/(N-1)$ (`claimed_hessian_fails_beyond`). The proof in [SL26] uses
$\|\mathrm{diag}\,p - pp^\top\|_2 \le \max_k p_k(1-p_k)$, which is a lower bound for that norm.

All functions round up as those of `score_bounds` do.
"""

import numpy as np

from hardmax.exact.directed_rounding import (
    evaluated,
    read_broadcast,
    read_counts,
    rounded_up,
)
from hardmax.stability.score_bounds import bound_from, value_factor
from hardmax.typing import ArrayLike, FloatArray


def claimed_value_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, *, log: bool = False
) -> FloatArray:
    r"""Return [SL26]'s $\tau\log(1+(N-1)r)$, which is right (`value_bound`).

    Examples:
        >>> from hardmax.stability import value_bound
        >>> round(float(claimed_value_bound(8, 1.0, 0.5) / value_bound(8, 1.0, 0.5)), 6)
        1.0
    """
    return bound_from(value_factor, n_keys, margin, tau, log)


def claimed_gradient_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, *, log: bool = False
) -> FloatArray:
    r"""Return [SL26]'s $2(N-1)r$, right, and loose by $1 + (N-1)r$ (`gradient_bound`).

    Examples:
        >>> from hardmax.stability import gradient_bound
        >>> round(float(claimed_gradient_bound(8, 1.0, 0.5) / gradient_bound(8, 1.0, 0.5)), 6)
        1.947347
    """
    return bound_from(lambda n, r, tau: 2 * (n - 1), n_keys, margin, tau, log)


def claimed_hessian_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, *, log: bool = False
) -> FloatArray:
    r"""Return [SL26]'s $(N-1)r/\tau$, which is false at large margins (`hessian_bound`).

    Examples:
        >>> from hardmax.stability import hessian_bound
        >>> bool(hessian_bound(512, 2.0, 0.125) > claimed_hessian_bound(512, 2.0, 0.125))
        True
    """
    return bound_from(lambda n, r, tau: (n - 1) / tau, n_keys, margin, tau, log)


def claimed_lipschitz_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, *, log: bool = False
) -> FloatArray:
    r"""Return [SL26]'s Lipschitz constant of the gradient, its Hessian bound again.

    Examples:
        >>> from hardmax.stability import lipschitz_bound
        >>> round(float(claimed_lipschitz_bound(8, 1.0, 0.5) / lipschitz_bound(8, 1.0, 0.5)), 6)
        3.279784
    """
    return claimed_hessian_bound(n_keys, margin, tau, log=log)


def claimed_taylor_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, *, log: bool = False
) -> FloatArray:
    r"""Return [SL26]'s constant $(N-1)r/2\tau$ of the Taylor remainder.

    Examples:
        >>> from hardmax.stability import taylor_bound
        >>> round(float(claimed_taylor_bound(8, 1.0, 0.5) / taylor_bound(8, 1.0, 0.5)), 6)
        3.279784
    """
    return bound_from(lambda n, r, tau: (n - 1) / (2 * tau), n_keys, margin, tau, log)


def claimed_hessian_fails_beyond(n_keys: ArrayLike) -> FloatArray:
    r"""Return the $\delta/\tau$ beyond which the claimed Hessian bound is false, rounded up.

    That is $\log\frac{N-1}{\sqrt{N/(N-1)}-1}$: with fewer than $N-1$ rivals on the margin the
    numerator $(m+1)r$ is at most $(N-1)r$, so only $m = N-1$ can exceed the claim.

    Examples:
        >>> claimed_hessian_fails_beyond([2, 512]).round(4).tolist()
        [0.8814, 13.1664]
    """
    counts = read_counts("n_keys", n_keys)
    (read,) = read_broadcast({"n_keys": (counts, 2, True)})
    return evaluated(lambda n: ((n - 1) / ((n / (n - 1)).sqrt() - 1)).log(), rounded_up, read)


def claimed_temperature(d_k: ArrayLike) -> FloatArray:
    r"""Return [SL26]'s $\tau = 1/\sqrt{d_k}$; the usual scaling of raw scores is $\sqrt{d_k}$.

    Examples:
        >>> float(claimed_temperature(64))
        0.125
    """
    return np.asarray(1.0 / np.sqrt(read_counts("d_k", d_k)))[()]
