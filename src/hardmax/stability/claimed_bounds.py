r"""The constants of Theorem VI.1 as stated in [SL26], for comparison with the correct ones.

The value bound is correct and sharp. The gradient bound is correct but not sharp. The Hessian bound
$(N-1)r/\tau$, and the bounds derived from it, are false for every $N \ge 2$. If all $N-1$ rivals
have exactly the margin, the norm is $\frac1\tau\frac{Nr}{(1+(N-1)r)^2}$, which exceeds the claimed
bound exactly for $r < (\sqrt{N/(N-1)} - 1)/(N-1)$ (`claimed_hessian_fails_beyond`). The proof in
[SL26] uses $\|\mathrm{diag}\,p - pp^\top\|_2 \le \max_k p_k(1-p_k)$, but the right side is a lower
bound on that norm.

All functions round up, as in `score_bounds`.
"""

import numpy as np

from hardmax.exact.directed_rounding import (
    evaluate,
    read_broadcast,
    read_counts,
    round_up,
)
from hardmax.stability.score_bounds import bound_from, value_factor
from hardmax.typing import ArrayLike, FloatArray


def claimed_value_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, *, log: bool = False
) -> FloatArray:
    r"""Return the value bound of [SL26], $\tau\log(1+(N-1)r)$ with $r = e^{-\delta/\tau}$.

    It is correct and equals `value_bound`, which describes the arguments.

    Examples:
        >>> from hardmax.stability import value_bound
        >>> round(float(claimed_value_bound(8, 1.0, 0.5) / value_bound(8, 1.0, 0.5)), 6)
        1.0
    """
    return bound_from(value_factor, n_keys, margin, tau, log)


def claimed_gradient_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, *, log: bool = False
) -> FloatArray:
    r"""Return the gradient bound of [SL26], $2(N-1)r$ with $r = e^{-\delta/\tau}$.

    It is correct, but exceeds `gradient_bound` by the factor $1 + (N-1)r$. See `value_bound` for
    the arguments.

    Examples:
        >>> from hardmax.stability import gradient_bound
        >>> round(float(claimed_gradient_bound(8, 1.0, 0.5) / gradient_bound(8, 1.0, 0.5)), 6)
        1.947347
    """
    return bound_from(lambda n, r, tau: 2 * (n - 1), n_keys, margin, tau, log)


def claimed_hessian_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, *, log: bool = False
) -> FloatArray:
    r"""Return the Hessian bound of [SL26], $(N-1)r/\tau$ with $r = e^{-\delta/\tau}$.

    It is false at large margins; `hessian_bound` is correct. See `value_bound` for the arguments.

    Examples:
        >>> from hardmax.stability import hessian_bound
        >>> bool(hessian_bound(512, 2.0, 0.125) > claimed_hessian_bound(512, 2.0, 0.125))
        True
    """
    return bound_from(lambda n, r, tau: (n - 1) / tau, n_keys, margin, tau, log)


def claimed_lipschitz_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, *, log: bool = False
) -> FloatArray:
    r"""Return the Lipschitz constant of the gradient in [SL26], which equals its Hessian bound.

    It is false at large margins; `lipschitz_bound` is correct. See `value_bound` for the arguments.

    Examples:
        >>> from hardmax.stability import lipschitz_bound
        >>> round(float(claimed_lipschitz_bound(8, 1.0, 0.5) / lipschitz_bound(8, 1.0, 0.5)), 6)
        3.279784
    """
    return claimed_hessian_bound(n_keys, margin, tau, log=log)


def claimed_taylor_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, *, log: bool = False
) -> FloatArray:
    r"""Return the constant of the Taylor remainder in [SL26], $(N-1)r/2\tau$.

    It is false at large margins; `taylor_bound` is correct. See `value_bound` for the arguments.

    Examples:
        >>> from hardmax.stability import taylor_bound
        >>> round(float(claimed_taylor_bound(8, 1.0, 0.5) / taylor_bound(8, 1.0, 0.5)), 6)
        3.279784
    """
    return bound_from(lambda n, r, tau: (n - 1) / (2 * tau), n_keys, margin, tau, log)


def claimed_hessian_fails_beyond(n_keys: ArrayLike) -> FloatArray:
    r"""Return the ratio $\delta/\tau$ above which the claimed Hessian bound is false, rounded up.

    The ratio is $\log\frac{N-1}{\sqrt{N/(N-1)}-1}$. If only $m < N-1$ rivals have exactly the
    margin, the numerator $(m+1)r$ is at most $(N-1)r$, so only $m = N-1$ can exceed the claimed
    bound.

    Args:
        n_keys: The number of keys $N \ge 2$.

    Examples:
        >>> claimed_hessian_fails_beyond([2, 512]).round(4).tolist()
        [0.8814, 13.1664]
    """
    counts = read_counts("n_keys", n_keys)
    (read,) = read_broadcast({"n_keys": (counts, 2, True)})
    return evaluate(lambda n: ((n - 1) / ((n / (n - 1)).sqrt() - 1)).log(), round_up, read)


def claimed_temperature(d_k: ArrayLike) -> FloatArray:
    r"""Return the temperature of [SL26], $\tau = 1/\sqrt{d_k}$.

    The usual scaling of raw scores corresponds to $\tau = \sqrt{d_k}$ (`standard_temperature`).

    Args:
        d_k: The head size, at least 1.

    Examples:
        >>> float(claimed_temperature(64))
        0.125
    """
    return np.asarray(1.0 / np.sqrt(read_counts("d_k", d_k)))[()]
