r"""Sharp bounds on log-sum-exp and its derivatives if the winner leads by a margin.

For scores $s \in \mathbb{R}^N$ let $P_\tau(s) = \tau\log\sum_j e^{s_j/\tau}$, so that $\nabla
P_\tau = p = \mathrm{softmax}(s/\tau)$ and $\nabla^2 P_\tau = (\mathrm{diag}\,p - pp^\top)/\tau$. On
$\mathcal{R}_i^\delta = \{s : s_i \ge s_j + \delta \text{ for } j \ne i\}$, with $r = e^{-\delta/
\tau}$, the suprema are

$$P_\tau - \max s \le \tau\log(1 + (N-1) r), \qquad
  1 - p_i \le \frac{(N-1)r}{1+(N-1)r}, \qquad
  \|\nabla P_\tau - e_i\|_1 = 2(1-p_i),$$
$$\|\nabla^2 P_\tau\|_2 \le \frac1\tau \max_{1\le m\le N-1} \frac{(m+1)r}{(1+mr)^2}
  \le \frac1\tau \min\Bigl(\frac12, \frac{Nr}{(1+r)^2}\Bigr).$$

The first three are attained if all rivals have margin $\delta$. The last would be attained with $m$
rivals at margin $\delta$ and the others at $-\infty$, so it is approached; for $N = 2$ it is
attained.

*Proof of the Hessian bound.* Write $p = (1, x_2, \dots, x_N)/S$ with $0 \le x_j \le \rho \le r$,
$\rho = \max_j x_j < 1$ ($\rho = 1$ by continuity). The largest eigenvalue $\lambda$ of
$\mathrm{diag}\,p - pp^\top$ is the simple root in $(\max_{j>1} p_j, p_1)$ of
$\sum_k p_k/(p_k-\lambda) = 0$; with $\mu = \lambda S$ this reads $\frac{1}{1-\mu} = \sum_j
\varphi(x_j)$, $\varphi(x) = x/(\mu-x)$.

*Step 1.* Fix $\mu$. Then $\lambda = \mu/S$ is largest if $\sum x_j = \sum \varphi^{-1}(u_j)$ is
smallest, where $\sum u_j$ is fixed and $0 \le u_j \le \varphi(\rho)$. As $\varphi^{-1}(u) =
\mu u/(1+u)$ is concave, the minimum is attained at a vertex of this polytope: $m$ coordinates are
$x_j = \rho$, at most one is some $y \in (0, \rho)$, and the others are 0.

*Step 2: $y$ is 0 or $\rho$.* For $m = 0$, $\lambda = 2y/(1+y)^2$ increases in $y$. Let $m \ge 1$,
$a = \frac{1}{1-\mu} > 1$, $c = \mu - \rho > 0$ and $b = m\rho/c$. The equation for $\mu$ reads
$y/(\mu-y) = a - b$, that is, $y = \mu - \mu/K$ with $K = 1 + a - b$. From $0 < y < \rho$ it follows
that $0 < a - b < \rho/c \le b$, so $\frac a2 < b < a$. Now $K' = a^2 + \frac bc$ and $K'' = 2a^3 -
\frac{2b}{c^2}$ as functions of $\mu$, hence $-y'' = (\mu/K)'' = [2K'(\mu K' - K) - \mu K K'']/K^3$,
and with $\mu = \frac{a-1}{a}$ half of the bracket equals

$$a^3(b-2) + \frac bc(2a^2 - 3a - 1 + b) + \frac{b}{c^2}\,\frac{a^2-1}{a}.$$

This expression increases with $\frac1c$: its derivative is $b(2a^2-3a-1+b) +
\frac{2b}{c}\frac{a^2-1}{a} \ge b(2a^2 - a + 1 + b)$, because $\frac1c > \frac1\mu =
\frac{a}{a-1}$. So it is larger than its value at $\frac1c = \frac{a}{a-1}$, which is
$a^2(ab - 2a + 2b) + \frac{ab^2}{a-1}$. This value increases with $b$, so it is larger than at
$b = \frac a2$, where it is $\frac{a^3}{4(a-1)}(2a^2 - 6a + 5) > 0$. Hence $y$ is strictly concave
as a function of $\mu$. Since $y$ increases with $\mu$, $\mu$ is strictly convex as a function of
$y$. As $\lambda S = \mu$ and $S' = 1$, a point with $\lambda' = 0$ has $\lambda'' = \mu''/S > 0$.
Hence every interior critical point is a strict minimum, and the maximum over $[0, \rho]$ is at an
end.

*Step 3.* If $m$ coordinates are $\rho$, the eigenvalue is $f_m(\rho) = (m+1)\rho/(1+m\rho)^2$. As a
function of $m$ it increases up to $1/\rho - 2$ and decreases afterwards. Hence the best integer is
at most $\max(1, 1/\rho - 1)$, where $f_m$ does not decrease in $\rho$. It follows that the maximum
over $m$ is largest at $\rho = r$. $\square$

Hence, on the convex set $\mathcal{R}_i^\delta$, the gradient is Lipschitz with the constant of the
Hessian, and $|P_\tau(s') - P_\tau(s) - \langle\nabla P_\tau(s), s'-s\rangle|$ is at most half of
this constant times $\|s'-s\|^2$. Both constants are sharp as suprema. [SL26] states $(N-1)r/\tau$
for the Hessian, which is too small (`claimed_bounds`).

All functions broadcast their arguments. They compute in interval arithmetic and round up, so each
result is a bound and exceeds the formula by at most one unit in the last place. With `log=True`
they return the logarithm of the bound (also rounded up), which does not underflow.

References:
    [SL26], Theorem VI.1.
"""

from collections.abc import Callable

from flint import arb

from hardmax.exact.directed_rounding import (
    evaluate,
    read_broadcast,
    read_counts,
    round_up,
)
from hardmax.typing import ArrayLike, FloatArray

Formula = Callable[[arb, arb, arb], arb]
r"""A function of $N$, $r$ and $\tau$: a bound divided by $r$, so that it does not underflow."""


def value_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, *, log: bool = False
) -> FloatArray:
    r"""Return $\sup P_\tau - \max s = \tau\log(1 + (N-1)e^{-\delta/\tau})$, rounded up.

    Here $P_\tau(s) = \tau\log\sum_j e^{s_j/\tau}$, and the supremum is over all scores $s$ whose
    winner leads by at least $\delta$.

    Args:
        n_keys: The number of keys $N \ge 1$.
        margin: The margin $\delta \ge 0$ by which the winner leads every rival.
        tau: The temperature $\tau > 0$, in the units of the scores.
        log: Whether to return the logarithm of the bound (-inf if the bound is 0).

    Examples:
        >>> float(value_bound(512, 2.0, 0.125))
        7.187977613142549e-06
        >>> value_bound(3, [0.0, 1e4], 1.0, log=True).round(6).tolist()
        [0.094048, -9999.306853]
        >>> float(value_bound(1, 0.0, 1.0))
        0.0
    """
    return bound_from(value_factor, n_keys, margin, tau, log)


def rival_mass_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, *, log: bool = False
) -> FloatArray:
    r"""Return $\sup (1 - p_i) = \frac{(N-1)r}{1+(N-1)r}$, the maximum weight of the rivals.

    Here $r = e^{-\delta/\tau}$. The result is rounded up. See `value_bound` for the arguments.

    Examples:
        >>> float(rival_mass_bound(512, 2.0, 1.0))
        0.9857461186496953
    """
    return bound_from(rival_mass_factor, n_keys, margin, tau, log)


def gradient_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, *, log: bool = False
) -> FloatArray:
    r"""Return $\sup \|\nabla P_\tau - e_i\|_1 = \frac{2(N-1)r}{1+(N-1)r}$, rounded up.

    This is the 1-norm distance of the softmax weights from the one-hot vector of the winner. Here
    $r = e^{-\delta/\tau}$, and see `value_bound` for the arguments.

    Examples:
        >>> float(gradient_bound(2, 0.0, 1.0))
        1.0
    """
    return bound_from(_gradient_factor, n_keys, margin, tau, log)


def hessian_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, *, log: bool = False
) -> FloatArray:
    r"""Return $\sup\|\nabla^2 P_\tau\|_2 = \frac1\tau\max_{m<N}\frac{(m+1)r}{(1+mr)^2}$.

    This is the exact supremum, rounded up. Here $r = e^{-\delta/\tau}$ and $1 \le m < N$. See
    `value_bound` for the arguments.

    Examples:
        >>> float(hessian_bound(2, 0.0, 1.0)), float(hessian_bound(1000, 0.0, 1.0))
        (0.5, 0.5)

        Here the constant of [SL26] is too small by a factor of almost 2:

        >>> from hardmax.stability import claimed_hessian_bound
        >>> float(hessian_bound(2, 4.0, 1.0) / claimed_hessian_bound(2, 4.0, 1.0)).__round__(6)
        1.928702
    """
    return bound_from(_hessian_factor, n_keys, margin, tau, log)


def hessian_closed_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, *, log: bool = False
) -> FloatArray:
    r"""Return the bound $\frac1\tau\min(\frac12, \frac{Nr}{(1+r)^2})$ on $\|\nabla^2 P_\tau\|_2$.

    This is `hessian_bound` in closed form. It is the exact supremum for $N = 2$; otherwise it
    exceeds the supremum by at most the factor $\frac{(1+(N-1)r)^2}{(1+r)^2}$. See `value_bound` for
    the arguments.

    Examples:
        >>> float(hessian_closed_bound(2, 4.0, 1.0) - hessian_bound(2, 4.0, 1.0))
        0.0
    """
    return bound_from(_hessian_closed_factor, n_keys, margin, tau, log)


def lipschitz_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, *, log: bool = False
) -> FloatArray:
    r"""Return the best $L$ with $\|\nabla P(s) - \nabla P(s')\|_2 \le L\|s-s'\|_2$, rounded up.

    Here $s$ and $s'$ are scores with the same winner, which leads by at least $\delta$ in both.
    Such scores form a convex set, so $L$ is `hessian_bound`. See `value_bound` for the arguments.

    Examples:
        >>> float(lipschitz_bound(8, 1.0, 0.5)) == float(hessian_bound(8, 1.0, 0.5))
        True
    """
    return bound_from(_hessian_factor, n_keys, margin, tau, log)


def taylor_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, *, log: bool = False
) -> FloatArray:
    r"""Return the best $T$ with $|P(s') - P(s) - \langle\nabla P(s), s'-s\rangle| \le T\|s'-s\|^2$.

    Here $s$ and $s'$ are scores with the same winner, which leads by at least $\delta$ in both. The
    constant is half of `hessian_bound`, rounded up. See `value_bound` for the arguments.

    Examples:
        >>> float(taylor_bound(8, 1.0, 0.5) / hessian_bound(8, 1.0, 0.5))
        0.5
    """
    return bound_from(_taylor_factor, n_keys, margin, tau, log)


def bound_from(
    formula: Formula, n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, log: bool
) -> FloatArray:
    """Evaluate a bound, or its logarithm, for broadcast arguments."""
    counts = read_counts("n_keys", n_keys)
    rest = read_broadcast(
        {"n_keys": (counts, 1, True), "margin": (margin, 0, True), "tau": (tau, 0, False)}
    )

    def number(n: arb, delta: arb, tau: arb) -> arb:
        if n == 1:
            return arb.neg_inf() if log else arb(0)
        exponent = -delta / tau
        factor = formula(n, exponent.exp(), tau)
        return factor.log() + exponent if log else factor * exponent.exp()

    return evaluate(number, round_up, *rest)


def value_factor(n: arb, r: arb, tau: arb) -> arb:
    r"""Return $\frac{\tau}{r}\log(1+(N-1)r)$."""
    growth = ((n - 1) * r).log1p()
    # If r underflows even in ball arithmetic, use log(1 + x) <= x.
    return tau * (growth / r if r > 0 else n - 1)


def rival_mass_factor(n: arb, r: arb, tau: arb) -> arb:
    r"""Return $\frac{N-1}{1+(N-1)r}$."""
    return (n - 1) / (1 + (n - 1) * r)


def _gradient_factor(n: arb, r: arb, tau: arb) -> arb:
    return 2 * rival_mass_factor(n, r, tau)


def _hessian_factor(n: arb, r: arb, tau: arb) -> arb:
    # The best m is next to 1/r - 2, or at an end if 1/r - 2 is not in the range 1, ..., N - 1.
    candidates = [n - 1]
    if r * (n + 8) > 1:
        near = int(float((1 / r).mid())) - 2
        inside = (m for m in range(near - 2, near + 3) if m >= 1 and arb(m) <= n - 1)
        candidates = [n - 1, arb(1), *map(arb, inside)]
    best = arb(0)
    for m in candidates:
        best = best.max((m + 1) / (1 + m * r) ** 2)
    return best / tau


def _hessian_closed_factor(n: arb, r: arb, tau: arb) -> arb:
    closed = n / (1 + r) ** 2
    return (closed.min(1 / (2 * r)) if r > 0 else closed) / tau


def _taylor_factor(n: arb, r: arb, tau: arb) -> arb:
    return _hessian_factor(n, r, tau) / 2
