r"""Typical counts: expectations over random keys or weights. Estimates, not bounds."""

from collections.abc import Callable
from math import exp, fsum, lgamma, log, pi, sqrt

import numpy as np

from hardmax._ground.arguments import integer, number
from hardmax.bounds.bound import Estimate
from hardmax.typing import FloatArray

_NEGLIGIBLE = 46.0
"""Integrands are cut off where they are smaller than their maximum by this factor of e."""


def gaussian_hull_vertices(n_points: int, dim: int) -> Estimate:
    r"""Give the expected number of vertices of the hull of $N$ Gaussian points in $\mathbb R^d$.

    A bias-free head with independent standard Gaussian keys has that many routing cells on
    average: of order $(\log N)^{(d-1)/2}$, not $N$. Such points are a random projection of the
    regular simplex with $N$ vertices, so for $N \ge d + 1$

    $$\mathbb E f_0 = 2 \sum_{\substack{1 \le g \le d \\ g \equiv d \bmod 2}}
      \binom{N}{g}\, g \; \beta_g \, \gamma_g,$$

    with the internal angle $\beta_g$ at a vertex of the regular simplex with $g$ vertices and
    the external angle $\gamma_g$ at such a face of the regular simplex with $N$ vertices,

    $$\beta_g = \int \varphi(x)\, \Phi\big(ix/\sqrt{g}\big)^{g-1} dx, \qquad
      \gamma_g = \int \varphi(x)\, \Phi\big(x/\sqrt{g}\big)^{N-g} dx,$$

    where $\varphi$ and $\Phi$ are the standard normal density and distribution function. For $N
    \le d + 1$ all points are vertices. The sum has positive terms and is computed by the
    trapezoid rule through the saddle points, to about ten digits; where fewer than two points in
    ten million is lost on average, $N$ itself is returned.

    Args:
        n_points: The number of points $N \ge 1$.
        dim: The dimension $d \ge 1$; for a head, the smaller of the model dimension and $d_k$.

    Raises:
        HardmaxError: If a size is not a positive integer.

    References:
        [AS92]; [BV94]; the integrals as in [KZ20].

    Examples:
        >>> gaussian_hull_vertices(20000, 2).text
        '14.25'
        >>> gaussian_hull_vertices(1000, 1).text, gaussian_hull_vertices(5, 4).text
        ('2.000', '5.000')
    """
    n_points = integer("n_points", n_points, at_least=1)
    dim = integer("dim", dim, at_least=1)
    # A point x with <x, y> < |x|^2 for all others y is a vertex; that fails with probability at
    # most N/2 * 2^(-d/2), because E exp(-|x|^2 / 2) = 2^(-d/2). Below exp(-15)/2 it is neglected.
    surely_all = n_points <= dim + 1 or dim * log(2) / 2 > log(n_points) + 15
    vertices = float(n_points) if surely_all else _expected_vertices(n_points, dim)
    return Estimate(
        f"vertices of the hull of {n_points} Gaussian points in R^{dim}",
        log(vertices) / log(10),
        "independent standard Gaussian points",
        "[AS92]",
    )


def gaussian_hull_vertices_asymptotic(n_points: int, dim: int) -> Estimate:
    r"""Give the leading term of `gaussian_hull_vertices` for many points.

    $$\mathbb E f_0 \sim \frac{2^d}{\sqrt d} (\pi \ln N)^{(d-1)/2}
      \qquad (N \to \infty, d \text{ fixed})$$

    Convergence is slow, like $1/\log N$; for $N$ below $e^{d}$ or so it says nothing.

    Args:
        n_points: The number of points $N \ge 2$.
        dim: The dimension $d \ge 1$.

    References:
        [Ray70]; [AS92].

    Examples:
        >>> gaussian_hull_vertices_asymptotic(20000, 2).text
        '15.78'
        >>> gaussian_hull_vertices_asymptotic(20000, 1).text
        '2.000'
    """
    n_points = integer("n_points", n_points, at_least=2)
    dim = integer("dim", dim, at_least=1)
    logarithm = dim * log(2) - log(dim) / 2 + (dim - 1) / 2 * log(pi * log(n_points))
    return Estimate(
        f"vertices of the hull of {n_points} Gaussian points in R^{dim}, leading term",
        logarithm / log(10),
        "independent standard Gaussian points, n_points to infinity",
        "[Ray70]",
    )


def random_block_cells(n_keys: int, n_heads: int, d_ff: int) -> Estimate:
    r"""Give the expected number of cells of a random block on the plane, without query bias.

    The block is $y = x + \sum_h v^h_{j_h(x)}$, then $d_{ff}$ ReLU units on $y$. With $\bar f(N)$
    the expected number of vertices of the hull of $N \ge 2$ Gaussian points
    (`gaussian_hull_vertices` with $d = 2$),

    $$\mathbb E = V + d_{ff} \Big(1 + \frac V2\Big) + \binom{d_{ff}}{2}, \qquad V = H \bar f(N),$$

    exactly, if all weights are independent, the keys of a head are Gaussian, and the output vectors
    $v^h_j$ and the normals of the units have directions that are uniformly distributed (standard
    Gaussian entries, for example). Heads may have any size $d_k \ge 2$ and any $W_Q$ of rank 2, the
    units any biases. For $N = 1$ it is $R(d_{ff}, 2)$.

    *Proof.* The routing cells are cones with apex 0 bounded by rays, one ray for each edge of each
    hull, and almost surely different ones. So there are as many cones as hull vertices in all heads
    together, and their expected number is $V$: the hull of $W_Q k_j$ has as many vertices as that
    of $N$ Gaussian points of the plane. Fix the keys, and one cone, with angle $\theta \le \pi$.
    There the units see the cone moved by a vector $s$ (a sum of output vectors). Cut into pieces by
    lines in general position, it has one piece, one more for each line that meets it, and one more
    for each pair of lines that cross inside. A line $\{\langle n, y\rangle = r\}$ meets the moved
    cone if $\{\langle n, x\rangle = r - \langle n, s\rangle\}$ meets the cone: if the side of 0 on
    which that line lies, $\pm n$, makes an angle below $\pi/2$ with some direction of the cone. As
    $(n, s)$ can be rotated together, $\pm n$ is uniform, and the probability is $(\theta +
    \pi)/2\pi$. Two lines cross in one point $p$, and the direction of $p - s$ is uniform, so it
    lies in the cone with probability $\theta/2\pi$. Sum over the cones, whose angles add up to
    $2\pi$: if there are $v$ of them, each line meets $1 + v/2$ on average and each pair crosses in
    1. Take the mean over the keys. $\square$

    Args:
        n_keys: The number of keys $N \ge 1$ of every head.
        n_heads: The number of heads $H \ge 1$.
        d_ff: The feed-forward width $d_{ff} \ge 0$.

    Raises:
        HardmaxError: If a size is not an integer in its range.

    References:
        $\bar f$ from [AS92]; the rest is proved here.

    Examples:
        >>> [random_block_cells(3, 1, d_ff).text for d_ff in (0, 1, 2)]
        ['3.000', '5.500', '9.000']
        >>> random_block_cells(16, 4, 8).text, random_block_cells(1, 5, 3).text
        ('161.2', '7.000')
    """
    n_keys = integer("n_keys", n_keys, at_least=1)
    n_heads = integer("n_heads", n_heads, at_least=1)
    d_ff = integer("d_ff", d_ff, at_least=0)
    pairs = d_ff * (d_ff - 1) // 2
    if n_keys == 1:
        cells = float(1 + d_ff + pairs)
    else:
        cones = n_heads * gaussian_hull_vertices(n_keys, 2).value
        cells = cones + d_ff * (1 + cones / 2) + pairs
    return Estimate(
        f"cells of a random block on the plane, {n_keys} keys, {n_heads} heads, {d_ff} units",
        log(cells) / log(10),
        "independent Gaussian weights, no query bias",
        "[AS92]",
    )


def relu_regions_at_initialization(
    n_units: int, input_dim: int, *, constant: float = 1.0, volume: float = 1.0
) -> Estimate:
    r"""Give the order of the number of activation regions of a random ReLU network.

    $$\frac{(T n)^{n_0}}{n_0!}\,\mathrm{vol} \quad (n \ge n_0), \qquad 2^{n} \quad (n < n_0)$$

    bounds the expected number in a set of the given volume, where $n$ counts all units, whatever
    the depth, and $T$ depends on the density of the biases and the size of the gradients. In
    experiments at initialisation $T$ is about 1, the default.

    Args:
        n_units: The number of ReLU units $n \ge 1$ in all layers.
        input_dim: The number of inputs $n_0 \ge 1$.
        constant: The constant $T > 0$.
        volume: The volume of the set, above 0.

    Raises:
        HardmaxError: If a size is not a positive integer or a number not positive.

    References:
        [HR19].

    Examples:
        >>> relu_regions_at_initialization(96, 2).text, relu_regions_at_initialization(3, 8).text
        ('4608.', '8.000')
    """
    n_units = integer("n_units", n_units, at_least=1)
    input_dim = integer("input_dim", input_dim, at_least=1)
    constant = number("constant", constant, above=0)
    volume = number("volume", volume, above=0)
    logarithm = (
        input_dim * log(constant * n_units) - lgamma(input_dim + 1) + log(volume)
        if n_units >= input_dim
        else n_units * log(2)
    )
    return Estimate(
        f"activation regions of {n_units} ReLU units on {input_dim} inputs",
        logarithm / log(10),
        f"random weights and biases; constant {constant:g}, volume {volume:g}",
        "[HR19]",
    )


def maxout_regions_at_initialization(
    n_units: int, rank: int, input_dim: int, *, constant: float = 1.0, volume: float = 1.0
) -> Estimate:
    r"""Give the order of the number of activation regions of a random maxout network.

    $$\frac{(T k n)^{n_0}}{n_0!} \binom{k n_0}{2 n_0}\,\mathrm{vol} \qquad (n \ge n_0)$$

    bounds the expected number for $n$ units of rank $k$ in all layers; it is far above what
    experiments show. For $n < n_0$ the trivial $k^n$ is given.

    Args:
        n_units: The number of maxout units $n \ge 1$ in all layers.
        rank: The rank $k \ge 2$ of the units.
        input_dim: The number of inputs $n_0 \ge 1$.
        constant: The constant $T > 0$.
        volume: The volume of the set, above 0.

    Raises:
        HardmaxError: If a size is not an integer in its range or a number not positive.

    References:
        [TM21].

    Examples:
        >>> maxout_regions_at_initialization(20, 2, 2).text
        '800.0'
        >>> maxout_regions_at_initialization(3, 5, 8).text
        '125.0'
    """
    n_units = integer("n_units", n_units, at_least=1)
    rank = integer("rank", rank, at_least=2)
    input_dim = integer("input_dim", input_dim, at_least=1)
    constant = number("constant", constant, above=0)
    volume = number("volume", volume, above=0)
    logarithm = (
        input_dim * log(constant * rank * n_units)
        - lgamma(input_dim + 1)
        + _log_binomial(rank * input_dim, 2 * input_dim)
        + log(volume)
        if n_units >= input_dim
        else n_units * log(rank)
    )
    return Estimate(
        f"activation regions of {n_units} maxout units of rank {rank} on {input_dim} inputs",
        logarithm / log(10),
        f"random weights and biases; constant {constant:g}, volume {volume:g}",
        "[TM21]",
    )


def _expected_vertices(n_points: int, dim: int) -> float:
    """Sum the terms of `gaussian_hull_vertices` for `n_points > dim + 1`."""
    return 2 * fsum(
        exp(
            _log_binomial(n_points, size)
            + log(size)
            + _log_internal_angle(size)
            + _log_external_angle(size, n_points)
        )
        for size in range(dim, 0, -2)
    )


def _log_external_angle(size: int, n_points: int) -> float:
    """Return the logarithm of `gamma_g` for a face with `size` of the `n_points` vertices."""
    from scipy.special import log_ndtr

    rest = n_points - size

    def integrand(x: FloatArray) -> FloatArray:
        return np.asarray(rest * log_ndtr(x / sqrt(size)) - x * x / 2)

    # The integrand is log-concave; right of 0 and left of sqrt(2 g (46 + log N)) lies all of it.
    reach = sqrt(2 * size * (_NEGLIGIBLE + log(n_points))) + 10
    return _log_integral(integrand, -10.0, reach) - log(2 * pi) / 2


def _log_internal_angle(size: int) -> float:
    """Return the logarithm of `beta_g` for the regular simplex with `size` vertices."""
    from scipy.special import log_ndtr

    if size == 1:
        return 0.0
    power, scale = size - 1, 1 / sqrt(size)

    def height(u: float) -> float:
        ratio = exp(-u * u / 2 - log(2 * pi) / 2 - float(log_ndtr(u)))
        return power / size * ratio + u

    # On the real line the integrand oscillates and cancels; moved down to its saddle point u it
    # does not. height is positive at 0, negative at -sqrt(size) - 2, and has one zero between.
    low, high = -sqrt(size) - 2, 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if height(middle) < 0 else (low, middle)
    shift = (low + high) / 2 / scale
    top = power * float(log_ndtr(shift * scale)) + shift * shift / 2
    x = np.linspace(0.0, sqrt(2 * _NEGLIGIBLE * size), 2001)
    exponent = power * log_ndtr(scale * (shift + 1j * x)) - (x - 1j * shift) ** 2 / 2 - top
    values = np.exp(exponent).real
    return top + log(2 * float(np.trapezoid(values, x)) / sqrt(2 * pi))


def _log_integral(integrand: Callable[[FloatArray], FloatArray], low: float, high: float) -> float:
    """Integrate the exponential of a concave function, given on arrays, by the trapezoid rule."""
    for _ in range(3):  # Zoom in on where it is not negligible.
        x = np.linspace(low, high, 4001)
        values = integrand(x)
        top = float(values.max())
        inside = np.flatnonzero(values > top - _NEGLIGIBLE)
        low, high = x[max(inside[0] - 1, 0)], x[min(inside[-1] + 1, len(x) - 1)]
    return top + log(float(np.trapezoid(np.exp(values - top), x)))


def _log_binomial(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
