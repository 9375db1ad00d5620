r"""Bounds on the distance of soft attention from the winning value, and on its Jacobian.

The output is $Z_\tau = \sum_j p_j v_j$ with $p = \mathrm{softmax}(s/\tau)$, and its derivative with
respect to the query is $J = \frac1\tau \mathrm{Cov}_p(v, k)$. Let the winner $i$ lead every rival
by at least $\delta$, let $r = e^{-\delta/\tau}$, and let $m = \frac{(N-1)r}{1+(N-1)r}$ be the
maximum total weight of the rivals. Put

$$D_v = \max_j \|v_j - v_i\|, \quad \Delta_v = \max_{j,l}\|v_j - v_l\|, \quad
  \text{and } D_k, \Delta_k \text{ for the keys (or for } a_j = W_Q k_j).$$

**Proposition.**
$\|Z_\tau - v_i\| \le m D_v$ and $\|J\|_2 \le \frac1\tau\min\bigl(m D_v D_k,\; h(m)\Delta_v\Delta_k
\bigr)$ with $h(m) = m(1-m)$ for $m \le \frac12$ and $h(m) = \frac14$ otherwise.

*Proof.* $Z_\tau - v_i = \sum_{j\ne i} p_j(v_j - v_i)$. For unit vectors $u, w$ let $X_j = \langle
u, v_j\rangle$, $Y_j = \langle w, k_j\rangle$. Then $u^\top\mathrm{Cov}_p(v,k)w =
\mathrm{Cov}_p(X, Y) \le (\mathrm{Var}_p X\,\mathrm{Var}_p Y)^{1/2}$. First, $\mathrm{Var}_pX \le
\sum_j p_j (X_j-X_i)^2 \le (1-p_i)D_v^2$. Second, $\mathrm{Var}_pX$ is convex in each $X_j$, so over
$X \in [\alpha, \beta]^N$ with $\beta - \alpha \le \Delta_v$ it is largest if every $X_j$ is
$\alpha$ or $\beta$. In this case it is $P(1-P)(\beta-\alpha)^2$, where $P \ge p_i \ge 1-m$ is the
mass at the same end as the winner, and $P(1-P) \le h(m)$. The same bounds hold for $Y$. $\square$

*Sharpness.* The bound on the output is attained if all rivals have margin $\delta$ and share one
value at distance $D_v$. The first term of the Jacobian bound is attained if also $N$ is odd, half
of the rivals have value $v_i + D_v u$ and key $k_i + D_k w$, and the other half have the opposite
points. The second term is attained for $N = 2$, and if all rivals are at one point and
$m \le \frac12$.

All results are rounded up.
"""

from flint import arb

from hardmax.exact.directed_rounding import (
    evaluate,
    read_broadcast,
    read_counts,
    round_up,
)
from hardmax.stability.score_bounds import rival_mass_factor
from hardmax.typing import ArrayLike, FloatArray


def output_bound(
    n_keys: ArrayLike, margin: ArrayLike, tau: ArrayLike, distance: ArrayLike
) -> FloatArray:
    r"""Return $m D_v$, a bound on the distance $\|Z_\tau - v_i\|$ of soft from hard attention.

    Here $m = \frac{(N-1)r}{1+(N-1)r}$ with $r = e^{-\delta/\tau}$. The result is rounded up.

    Args:
        n_keys: The number of keys $N \ge 1$.
        margin: The margin $\delta \ge 0$ by which the winner leads every rival.
        tau: The temperature $\tau > 0$.
        distance: The maximum distance $D_v \ge 0$ of a value from the winning value, in any norm.

    Examples:
        >>> float(output_bound(2, 0.0, 1.0, 3.0))
        1.5
    """
    arrays = read_broadcast(
        {
            "n_keys": (read_counts("n_keys", n_keys), 1, True),
            "margin": (margin, 0, True),
            "tau": (tau, 0, False),
            "distance": (distance, 0, True),
        }
    )
    return evaluate(lambda n, delta, tau, d: rival_mass(n, delta, tau) * d, round_up, *arrays)


def jacobian_bound(
    n_keys: ArrayLike,
    margin: ArrayLike,
    tau: ArrayLike,
    value_distance: ArrayLike,
    key_distance: ArrayLike,
    value_diameter: ArrayLike | None = None,
    key_diameter: ArrayLike | None = None,
) -> FloatArray:
    r"""Return $\frac1\tau\min(m D_v D_k, h(m)\Delta_v\Delta_k)$, a bound on $\|J\|_2$.

    $J$ is the Jacobian of the output of soft attention. Here $m = \frac{(N-1)r}{1+(N-1)r}$ with
    $r = e^{-\delta/\tau}$, and $h(m) = m(1-m)$ for $m \le \frac12$ and $\frac14$ otherwise. The
    result is rounded up.

    Args:
        n_keys: The number of keys $N \ge 1$.
        margin: The margin $\delta \ge 0$ by which the winner leads every rival.
        tau: The temperature $\tau > 0$.
        value_distance: The maximum Euclidean distance $D_v$ of a value from the winning value.
        key_distance: The maximum Euclidean distance $D_k$ of a key from the winning key. For the
            derivative with respect to the input, use $W_Q k_j$ instead of the keys $k_j$.
        value_diameter: The maximum distance $\Delta_v$ of two values; $2D_v$ if None.
        key_diameter: The maximum distance $\Delta_k$ of two keys; $2D_k$ if None.

    Examples:
        The derivative of $\tanh$ at 0, with two keys and values at -1 and 1:

        >>> float(jacobian_bound(2, 0.0, 1.0, 2.0, 2.0, 2.0, 2.0))
        1.0
    """
    limits: dict[str, tuple[ArrayLike, float, bool]] = {
        "n_keys": (read_counts("n_keys", n_keys), 1, True),
        "margin": (margin, 0, True),
        "tau": (tau, 0, False),
        "value_distance": (value_distance, 0, True),
        "key_distance": (key_distance, 0, True),
    }
    # Distances are doubled in ball arithmetic, because float64 might overflow.
    factors = [1 if wide is not None else 2 for wide in (value_diameter, key_diameter)]
    wide_v = value_distance if value_diameter is None else value_diameter
    wide_k = key_distance if key_diameter is None else key_diameter
    limits |= {"value_diameter": (wide_v, 0, True), "key_diameter": (wide_k, 0, True)}

    def formula(n: arb, delta: arb, tau: arb, d_v: arb, d_k: arb, wide_v: arb, wide_k: arb) -> arb:
        m = rival_mass(n, delta, tau)
        return moment_bound(m, d_v * d_k, factors[0] * wide_v * (factors[1] * wide_k)) / tau

    return evaluate(formula, round_up, *read_broadcast(limits))


def rival_mass(n_keys: arb, margin: arb, tau: arb) -> arb:
    r"""Return $m = \frac{(N-1)r}{1+(N-1)r}$ as a ball."""
    if n_keys == 1:
        return arb(0)
    r = (-margin / tau).exp()
    return r * rival_mass_factor(n_keys, r, tau)


def moment_bound(m: arb, near: arb, far: arb) -> arb:
    r"""Return $\min(m\,D_vD_k, h(m)\,\Delta_v\Delta_k)$ for $D_vD_k$ and $\Delta_v\Delta_k$."""
    spread = m * (1 - m) if m <= 0.5 else arb(1) / 4
    return (m * near).min(spread * far)
