r"""How far a softmax-weighted mean can be below the maximum.

**Lemma.** For $z \in \mathbb{R}^k$ and $\tau > 0$ let $m = \langle \mathrm{softmax}(z/\tau),
z\rangle$. Then $0 \le \max z - m \le \tau\omega_k$ with $\omega_k = W_0\big(\frac{k-1}{e}\big)$,
Lambert's function; equality holds at $z = (0, -\tau(1+\omega_k), \dots, -\tau(1+\omega_k))$.

*Proof.* Put $\max z = z_1 = 0$ and $z_c = -\tau t_c$. The gap over $\tau$ is
$g = \sum_{c \ge 2} t_c e^{-t_c} / (1 + \sum_{c \ge 2} e^{-t_c})$, and $g \ge \lambda$ iff
$\sum_{c \ge 2} (t_c - \lambda) e^{-t_c} \ge \lambda$. A term is at most $e^{-1-\lambda}$, at
$t_c = 1 + \lambda$. So the largest $g$ is the root of $(k-1) e^{-1-\lambda} = \lambda$. $\square$

**With margins.** If rival $c$ is known to stay below the maximum by $\tau\mu_c$, its term is at
most $\varphi(\mu_c, \lambda) = (\mu_c - \lambda) e^{-\mu_c}$ where $\mu_c > 1 + \lambda$, and the
gap is at most $\tau\lambda$ for the root of $\sum_{c \ge 2} \varphi(\mu_c, \lambda) = \lambda$:
rivals far below do not count. This is how tokens that stand for nothing cost nothing.
"""

import numpy as np

from hardmax.arguments import integer, number
from hardmax.typing import FloatArray, IntArray

_SLACK = 1.0 + 2.0**-40
_N_HALVINGS = 40


def soft_mean_gap(n_values: int, tau: float = 1.0) -> float:
    r"""Return $\tau\omega_k$: the most by which a soft mean of $k$ numbers is below their maximum.

    Args:
        n_values: The $k$, at least 1.
        tau: The temperature $\tau$, above 0.

    Examples:
        >>> [round(soft_mean_gap(k), 5) for k in (1, 2, 3, 8)]
        [0.0, 0.27846, 0.46306, 0.97314]
        >>> soft_mean_gap(2, tau=1e-3) == 1e-3 * soft_mean_gap(2)
        True
    """
    from scipy.special import lambertw

    n_values = integer("n_values", n_values, at_least=1)
    tau = number("tau", tau, above=0.0)
    return tau * float(lambertw((n_values - 1) / np.e).real)


def worst_soft_mean(n_values: int, tau: float = 1.0) -> FloatArray:
    """Return numbers at which the gap of `soft_mean_gap` is attained, shape `(n_values,)`.

    Examples:
        >>> worst_soft_mean(2).round(4).tolist()
        [0.0, -1.2785]
    """
    gap = soft_mean_gap(n_values, tau)
    worst = np.full(n_values, -(tau + gap))
    worst[0] = 0.0
    return worst


def gap_bounds(margins: FloatArray, starts: IntArray) -> FloatArray:
    r"""Return for each group an upper bound on the root $\lambda$ of the lemma with margins.

    Args:
        margins: The $\mu_c \ge 0$ of all rivals of all groups, shape `(n_rivals,)`. The winner, a
            rival of margin 0, is among them: one such rival of each group does not count.
        starts: First rival of each group, shape `(n_groups,)`, rising.

    Returns:
        Shape `(n_groups,)`, rounded up.

    Examples:
        >>> float(gap_bounds(np.zeros(8), np.array([0]))[0]).__round__(5)
        0.97314
        >>> float(gap_bounds(np.array([0.0, 64.0]), np.array([0]))[0]) < 1e-25
        True
    """
    owner = np.repeat(np.arange(len(starts)), np.diff([*starts, len(margins)]))
    far = np.exp(-margins)

    def excess(level: FloatArray) -> FloatArray:
        """The sum of the terms of each group without its winner, rounded up."""
        near = np.exp(-1.0 - level)
        mine = level[owner]
        terms = np.where(margins <= 1.0 + mine, near[owner], (margins - mine) * far)
        # The winner is taken out before adding, so that what remains keeps its digits.
        terms[first_winner] = 0.0
        return np.asarray(np.add.reduceat(terms, starts) * _SLACK)

    first_winner = np.array(
        [start + int(np.argmin(margins[start:end])) for start, end in _ranges(starts, len(margins))]
    )
    low = np.zeros(len(starts))
    # The sum falls as the level rises, so its value at 0 is a bound; so is the logarithm.
    counts = np.diff([*starts, len(margins)])
    high = np.minimum(excess(low), np.log1p((counts - 1) / np.e) * _SLACK)
    for _ in range(_N_HALVINGS):
        middle = 0.5 * (low + high)
        enough = excess(middle) <= middle
        high = np.where(enough, middle, high)
        low = np.where(enough, low, middle)
    return high


def _ranges(starts: IntArray, end: int) -> list[tuple[int, int]]:
    ends = [*starts[1:].tolist(), end]
    return list(zip(starts.tolist(), ends, strict=True))
