r"""Sharp bounds on the difference between a maximum and the softmax-weighted mean.

**Lemma.** For $z \in \mathbb{R}^n$ and $p = \mathrm{softmax}(z/\tau)$

$$0 \le \max z - \langle p, z\rangle \le \tau\,\omega_n, \qquad
  \omega_n = W_0\bigl(\tfrac{n-1}e\bigr),$$

with equality at $z = (0, -\tau(1+\omega_n), \dots)$. If the largest number leads by at least
$\delta$, the difference is at most $\tau\frac{(n-1)te^{-t}}{1+(n-1)e^{-t}}$ with
$t = \max(\delta/\tau, 1+\omega_n)$. This bound is sharp too.

*Proof.* Let $\max z = z_1 = 0$ and $z_j = -\tau t_j$. The difference is $\tau g$ with
$g = \sum t_je^{-t_j}/(1 + \sum e^{-t_j})$, and $g \ge \lambda$ if and only if
$\sum_j (t_j-\lambda)e^{-t_j} \ge \lambda$. Each term is largest at $t_j = 1 + \lambda$, where it is
$e^{-1-\lambda}$, and decreases afterwards. Hence $\lambda$ can be reached if and only if
$(n-1)e^{-1-\lambda} \ge \lambda$, that is, $\lambda e^\lambda \le (n-1)/e$. If all
$t_j \ge \delta/\tau \ge 1 + \lambda$, the best choice is $t_j = \delta/\tau$. $\square$
"""

from flint import arb

from hardmax.exact.directed_rounding import (
    evaluate,
    read_broadcast,
    read_counts,
    round_up,
)
from hardmax.typing import ArrayLike, FloatArray


def soft_mean_gap(n: ArrayLike, tau: ArrayLike, margin: ArrayLike = 0.0) -> FloatArray:
    r"""Return the maximum of $\max z - \langle\mathrm{softmax}(z/\tau), z\rangle$, rounded up.

    The maximum is over all vectors $z$ of $n$ numbers of which the largest leads by at least
    $\delta$.

    Args:
        n: The number of entries of $z$, at least 1.
        tau: The temperature $\tau > 0$.
        margin: The margin $\delta \ge 0$ of the largest number over the others.

    Examples:
        >>> soft_mean_gap([1, 2, 3, 8], 1.0).round(5).tolist()
        [0.0, 0.27846, 0.46306, 0.97314]
        >>> bool(soft_mean_gap(8, 1.0, margin=20.0) < 3e-7)
        True
    """
    arrays = read_broadcast(
        {"n": (read_counts("n", n), 1, True), "tau": (tau, 0, False), "margin": (margin, 0, True)}
    )
    return evaluate(_gap, round_up, *arrays)


def _gap(n: arb, tau: arb, margin: arb) -> arb:
    if n == 1:
        return arb(0)
    omega = ((n - 1) / arb(1).exp()).lambertw()
    t = margin / tau
    if not t > 1 + omega:
        return tau * omega
    weight = (n - 1) * (-t).exp()
    return tau * t * weight / (1 + weight)
