r"""Gaps between maxima and soft means, if every rival has a known margin.

`stability.soft_means` has the lemma for $k$ arbitrary numbers: the gap is at most $\tau\omega_k$,
$\omega_k = W_0\big(\frac{k-1}{e}\big)$. Here every rival has its own margin.

**Lemma.** Let $z \in \mathbb{R}^k$ with $\max z = z_1$, $\tau > 0$, and let every rival $c$ be
below the maximum by at least $\tau\mu_c$. Then $\max z - \langle\mathrm{softmax}(z/\tau), z\rangle
\le \tau\lambda$ for the root $\lambda$ of $\sum_{c \ge 2} \varphi(\mu_c, \lambda) = \lambda$, where
$\varphi(\mu, \lambda) = (\mu - \lambda) e^{-\mu}$ if $\mu > 1 + \lambda$, and $e^{-1-\lambda}$
otherwise.

*Proof.* Put $z_1 = 0$ and $z_c = -\tau t_c$. The gap over $\tau$ is
$g = \sum_{c \ge 2} t_c e^{-t_c} / (1 + \sum_{c \ge 2} e^{-t_c})$, and $g \ge \lambda$ iff
$\sum_{c \ge 2} (t_c - \lambda) e^{-t_c} \ge \lambda$. A term increases up to $t_c = 1 + \lambda$
and decreases afterwards, so for $t_c \ge \mu_c$ it is at most $\varphi(\mu_c, \lambda)$. $\square$

Rivals far below the maximum contribute almost nothing. Hence idle tokens cost almost nothing.
"""

import numpy as np

from hardmax.typing import FloatArray, IntArray

_SLACK = 1.0 + 2.0**-40
_N_HALVINGS = 40


def gap_bounds(margins: FloatArray, starts: IntArray, n_halvings: int = _N_HALVINGS) -> FloatArray:
    r"""Bound the root $\lambda$ of the lemma from above, for each group.

    Args:
        margins: The $\mu_c \ge 0$ of all members of all groups, shape `(n_rivals,)`. They include
            the winner, which has the smallest margin; one such member of each group is ignored.
        starts: The first member of each group, shape `(n_groups,)`, increasing.
        n_halvings: The number of bisection steps.

    Returns:
        The bounds, rounded up, shape `(n_groups,)`.

    Examples:
        >>> float(gap_bounds(np.zeros(8), np.array([0]))[0]).__round__(5)
        0.97314
        >>> float(gap_bounds(np.array([0.0, 64.0]), np.array([0]))[0]) < 1e-25
        True
    """
    owner = np.repeat(np.arange(len(starts)), np.diff([*starts, len(margins)]))
    far = np.exp(-margins)

    def excess(level: FloatArray) -> FloatArray:
        """Return the sum of the terms of each group without its winner, rounded up."""
        near = np.exp(-1.0 - level)
        mine = level[owner]
        terms = np.where(margins <= 1.0 + mine, near[owner], (margins - mine) * far)
        # Remove the winner before adding, so that small terms keep their digits.
        terms[first_winner] = 0.0
        return np.asarray(np.add.reduceat(terms, starts) * _SLACK)

    least = np.minimum.reduceat(margins, starts)[owner]
    places = np.where(margins == least, np.arange(len(margins)), len(margins))
    first_winner = np.minimum.reduceat(places, starts)
    low = np.zeros(len(starts))
    # The sum decreases in the level, so its value at 0 is a bound. The logarithm is a bound too.
    counts = np.diff([*starts, len(margins)])
    high = np.minimum(excess(low), np.log1p((counts - 1) / np.e) * _SLACK)
    for _ in range(n_halvings):
        middle = 0.5 * (low + high)
        enough = excess(middle) <= middle
        high = np.where(enough, middle, high)
        low = np.where(enough, low, middle)
    return high
