r"""Soft attention in closed form: weights, log-sum-exp, and the covariances of its derivatives.

With $p = \mathrm{softmax}(s/\tau)$ every derivative of a soft head is a covariance under $p$:

$$\nabla_x P_\tau = \mathbb{E}_p[a], \qquad
  \nabla^2_x P_\tau = \tfrac1\tau \mathrm{Cov}_p(a, a), \qquad
  \partial_x z = \tfrac1\tau \mathrm{Cov}_p(v, a),$$

where $P_\tau = \tau \log \sum_j e^{s_j/\tau}$, $a_j = \nabla s_j$ and $z = \sum_j p_j v_j$. The
functions take logarithmic weights whose largest entry is 0 (`scores.LogWeights.logs`), so no
exponential overflows and the limit $\tau \to 0$ is reached without cancellation.
"""

import numpy as np

from hardmax.errors import NonFiniteError
from hardmax.typing import BoolArray, FloatArray


def normalise_weights(logs: FloatArray) -> FloatArray:
    r"""Return $e^{t_j} / \sum_l e^{t_l}$ for each row $t$ with maximum 0.

    Args:
        logs: The $t$, shape `(n_points, n_keys)`; entries may be $-\infty$.

    Examples:
        >>> normalise_weights(np.array([[0.0, 0.0, -np.inf], [-1e300, 0.0, -1e4]])).tolist()
        [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]
    """
    with np.errstate(under="ignore"):
        weights = np.exp(logs)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def uniform_weights(tied: BoolArray) -> FloatArray:
    r"""Return the limit of the weights as $\tau \to 0$: uniform over the winners of each row."""
    return np.asarray(tied / tied.sum(axis=1, keepdims=True))


def log_sums(logs: FloatArray) -> FloatArray:
    r"""Return $\log \sum_j e^{t_j}$ for each row $t$ with maximum 0, accurate even if it is tiny.

    The result is $\log(1 + r)$: the winner contributes the exact 1, so a sum $r$ over the rivals as
    small as $10^{-300}$ keeps all its digits.

    Examples:
        >>> log_sums(np.array([[0.0, -600.0], [0.0, 0.0]])).tolist()
        [2.6503965530043108e-261, 0.6931471805599453]
    """
    with np.errstate(under="ignore"):
        terms = np.exp(logs)
    terms[np.arange(len(logs)), logs.argmax(axis=1)] = 0.0
    return np.asarray(np.log1p(terms.sum(axis=1)))


def covariance_factor(
    weights: FloatArray, vectors: FloatArray, centre: int, tau: float
) -> FloatArray:
    r"""Return $Y$ with rows $\sqrt{p_j/\tau}\,(u_j-\bar u)$: $Y^\top Y = \mathrm{Cov}_p(u)/\tau$.

    Deviations are measured from the winner $i$. If $p_i$ is close to 1, the mean is
    $u_i + \sum_j p_j(u_j - u_i)$, whose second term is tiny and keeps its digits; computing
    $u_i - \bar u$ directly would leave only rounding errors. The square roots keep $p_j/\tau$
    within the range of floats and make the product positive semidefinite.

    Args:
        weights: The $p$, shape `(n_keys,)`.
        vectors: The $u_j$, shape `(n_keys, dim)`.
        centre: The index $i$ of the largest weight.
        tau: The temperature, greater than 0.

    Returns:
        The matrix $Y$, shape `(n_keys, dim)`.
    """
    _, exponents = np.frexp(np.abs(vectors).max(axis=0))
    with np.errstate(under="ignore", over="ignore"):
        # Scale every coordinate to at most 1, so that no difference overflows.
        unit = np.ldexp(vectors, -exponents)
        from_winner = unit - unit[centre]
        from_mean = from_winner - weights @ from_winner
        factor = (np.sqrt(weights) / np.sqrt(tau))[:, None] * from_mean
        return np.asarray(np.ldexp(factor, exponents))


def check_derivatives(derivatives: FloatArray, tau: float) -> FloatArray:
    """Raise if a derivative `(n_points, ...)` has overflowed; the message names the temperature."""
    if not np.isfinite(derivatives).all():
        point = int(np.argwhere(~np.isfinite(derivatives))[0, 0])
        raise NonFiniteError(
            f"`tau` is too small: with tau = {tau}, a derivative at point {point} of `x` exceeds "
            "the range of float64. Raise `tau`."
        )
    return derivatives
