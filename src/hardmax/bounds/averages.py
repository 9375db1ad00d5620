r"""Expected counts over random keys or weights, and known bounds on such expectations."""

from collections.abc import Callable, Sequence
from math import exp, fsum, lgamma, log, log10, pi, sqrt

import numpy as np

from hardmax._ground.arguments import integer, number
from hardmax.bounds.bound import Bound, Estimate
from hardmax.bounds.maxout import maxout_upper
from hardmax.bounds.relu import montufar_2017
from hardmax.bounds.sizes import read_integers
from hardmax.bounds.two_layers import is_largest, two_relu_layers
from hardmax.typing import FloatArray

_NEGLIGIBLE = 46.0
"""Integrands are neglected where they are below `exp(-_NEGLIGIBLE)` times their maximum."""


def gaussian_hull_vertices(n_points: int, dim: int) -> Estimate:
    r"""Return the expected number of vertices of the hull of $N$ Gaussian points in $\mathbb R^d$.

    This is the average number of routing cells of a head without bias whose keys are independent
    standard Gaussian vectors. It is of order $(\log N)^{(d-1)/2}$, not $N$. Such points are a
    random projection of the regular simplex with $N$ vertices, so for $N \ge d + 1$

    $$\mathbb E f_0 = 2 \sum_{\substack{1 \le g \le d \\ g \equiv d \bmod 2}}
      \binom{N}{g}\, g \; \beta_g \, \gamma_g,$$

    with the internal angle $\beta_g$ at a vertex of the regular simplex with $g$ vertices and
    the external angle $\gamma_g$ at such a face of the regular simplex with $N$ vertices,

    $$\beta_g = \int \varphi(x)\, \Phi\big(ix/\sqrt{g}\big)^{g-1} dx, \qquad
      \gamma_g = \int \varphi(x)\, \Phi\big(x/\sqrt{g}\big)^{N-g} dx,$$

    where $\varphi$ and $\Phi$ are the standard normal density and distribution function. For $N
    \le d + 1$ all points are vertices. All terms of the sum are positive. The integrals are
    computed to about ten digits by the trapezoid rule, along paths through the saddle points. If
    on average fewer than two points in ten million are not vertices, the result is $N$ itself.

    Args:
        n_points: The number of points $N \ge 1$.
        dim: The dimension $d \ge 1$. For a head this is the smaller of the model dimension and
            $d_k$.

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
    # A point x with <x, y> < |x|^2 for all other points y is a vertex. This fails with probability
    # at most N/2 * 2^(-d/2), because E exp(-|x|^2 / 2) = 2^(-d/2). Probabilities below exp(-15)/2
    # are neglected.
    surely_all = n_points <= dim + 1 or dim * log(2) / 2 > log(n_points) + 15
    vertices = n_points if surely_all else min(n_points, _sum_expected_vertices(n_points, dim))
    return Estimate(
        f"vertices of the hull of {n_points} Gaussian points in R^{dim}",
        log(vertices) / log(10),
        "independent standard Gaussian points",
        "[AS92]",
    )


def gaussian_hull_vertices_asymptotic(n_points: int, dim: int) -> Estimate:
    r"""Return the leading term of `gaussian_hull_vertices` for many points.

    $$\mathbb E f_0 \sim \frac{2^d}{\sqrt d} (\pi \ln N)^{(d-1)/2}
      \qquad (N \to \infty, d \text{ fixed})$$

    Convergence is slow, like $1/\log N$, and the term is meaningless for $N$ below about $e^{d}$.
    If it exceeds the number of points, the result is $N$.

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
        >>> gaussian_hull_vertices_asymptotic(9, 5).text
        '9.000'
    """
    n_points = integer("n_points", n_points, at_least=2)
    dim = integer("dim", dim, at_least=1)
    logarithm = dim * log(2) - log(dim) / 2 + (dim - 1) / 2 * log(pi * log(n_points))
    return Estimate(
        f"vertices of the hull of {n_points} Gaussian points in R^{dim}, leading term",
        min(logarithm / log(10), log10(n_points)),
        "independent standard Gaussian points, n_points to infinity",
        "[Ray70]",
    )


def random_block_cells(n_keys: int, n_heads: int, d_ff: int, *, unit_bias: bool = True) -> Estimate:
    r"""Compute the expected number of cells of a random block on the plane.

    The block is $y = x + \sum_h v^h_{j_h(x)}$, followed by $d_{ff}$ ReLU units on $y$. The heads
    have neither a query bias nor a logit bias. Let $\bar f(N)$ be the expected number of vertices
    of the hull of $N \ge 2$ Gaussian points (`gaussian_hull_vertices` with $d = 2$) and
    $V = H \bar f(N)$. Then

    $$\mathbb E = V + d_{ff} \Big(1 + \frac V2\Big) + P, \qquad
      P = \begin{cases} \binom{d_{ff}}{2} & \text{with unit biases,} \\
      \max(d_{ff} - 1, 0) & \text{if every unit bias is zero,} \end{cases}$$

    exactly, under these conditions. The keys, the output vectors of different heads, and the
    normals and biases of the units are independent. The keys are standard Gaussian vectors. The
    output vectors $v^h_j$ and the normals are nonzero, and their distributions are invariant under
    rotations (for example, standard Gaussian). Heads may have any size $d_k \ge 2$ and any $W_Q$ of
    rank 2. *With unit biases* means that almost surely at most two unit biases are zero; otherwise
    the biases may be random or fixed, and equal or different. For $N = 1$ there is one routing
    cell, and the expectation is $1 + d_{ff} + P$.

    *Proof.* The routing cells are cones with apex 0. They are bounded by one ray for each edge of
    each hull, and almost surely these rays are different. Hence the number of cones is the total
    number of hull vertices of all heads. Its mean is $V$, because the hull of
    $W_Q k_1, \dots, W_Q k_N$ has the same expected number of vertices as the hull of $N$ Gaussian
    points in the plane. Fix the keys and one cone, with angle $\theta \le \pi$. The attention
    translates this cone by a vector $s$, a sum of output vectors, before the units cut it, and
    $s \ne 0$ almost surely. Lines cut an open convex set in the plane into one piece, plus one for
    each line that meets the set, plus $k - 1$ for each point of the set where $k \ge 2$ lines
    cross.

    *Lines.* A line $\{\langle n, y\rangle = r\}$ meets the translated cone exactly if
    $\{\langle n, x\rangle = \rho\}$, $\rho = r - \langle n, s\rangle$, meets the cone. Almost
    surely $\rho \ne 0$. Then the line meets the cone exactly if $\rho n$ makes an angle below
    $\pi/2$ with some direction of the cone. Rotating $n$ and $s$ together changes neither their
    joint distribution nor $\rho$, so the direction of $\rho n$ is uniform, and the probability is
    $(\theta + \pi)/2\pi$.

    *Crossing points.* Let $p$ be the point where two of the lines cross. The direction of $p - s$
    is uniform for the same reason, so $p$ lies in the translated cone with probability
    $\theta/2\pi$. If all biases are zero, 0 is the only crossing point, and all $d_{ff}$ lines
    cross there. If at most two biases are zero, no three lines have a common point, so there are
    $\binom{d_{ff}}{2}$ crossing points of two lines each. Indeed, any three lines include two whose
    biases are not both zero. These two cross at a point $p \ne 0$. The normal of the third line has
    a uniform direction independent of $p$, so this line contains $p$ with probability 0.

    *Sum.* The angles of the cones add up to $2\pi$. If there are $v$ cones, then on average each
    line meets $1 + v/2$ of them, and each crossing point lies in one of them. The claim follows by
    taking the mean over the keys. $\square$

    If exactly $z \ge 1$ biases are zero, $z$ lines cross at 0, and every other crossing point lies
    on two lines. By the same proof $P = \binom{d_{ff}}{2} - \binom{z - 1}{2}$.

    Args:
        n_keys: The number of keys $N \ge 1$ of every head.
        n_heads: The number of heads $H \ge 1$.
        d_ff: The feed-forward width $d_{ff} \ge 0$.
        unit_bias: Whether the units have biases. If False, all unit biases are zero.

    Raises:
        HardmaxError: If a size is not an integer in its range.

    References:
        $\bar f$ is from [AS92]; the rest is proved above.

    Examples:
        >>> [random_block_cells(3, 1, d_ff).text for d_ff in (0, 1, 2)]
        ['3.000', '5.500', '9.000']
        >>> random_block_cells(16, 4, 8).text, random_block_cells(1, 5, 3).text
        ('161.2', '7.000')

        Lines through the origin cross at only one point, which matters for three or more units:

        >>> for d_ff in (2, 3, 5):
        ...     with_biases = random_block_cells(4, 1, d_ff)
        ...     print(with_biases.text, random_block_cells(4, 1, d_ff, unit_bias=False).text)
        10.30 10.30
        15.12 14.12
        27.77 21.77
    """
    n_keys = integer("n_keys", n_keys, at_least=1)
    n_heads = integer("n_heads", n_heads, at_least=1)
    d_ff = integer("d_ff", d_ff, at_least=0)
    crossings = d_ff * (d_ff - 1) // 2 if unit_bias else max(d_ff - 1, 0)
    if n_keys == 1:
        cells = float(1 + d_ff + crossings)
    else:
        cones = n_heads * gaussian_hull_vertices(n_keys, 2).value
        cells = cones + d_ff * (1 + cones / 2) + crossings
    biases = "units with biases" if unit_bias else "units without biases"
    return Estimate(
        f"cells of a random block on the plane, {n_keys} keys, {n_heads} heads, {d_ff} units",
        log(cells) / log(10),
        f"independent Gaussian weights, no query or logit bias, {biases}",
        "[AS92]",
    )


def relu_regions_at_initialization(
    n_units: int | Sequence[int],
    input_dim: int,
    *,
    constant: float = 1.0,
    volume: float = 1.0,
) -> Estimate:
    r"""Estimate the number of activation regions of a random ReLU network in a cube.

    The estimate is the smaller of the following two numbers, but at least 1. The `source` of the
    result states which of the two was used.

    * $(T n)^{n_0} \, \mathrm{vol} / n_0!$, for a total of $n \ge n_0$ units. If $T$ is the constant
      in the theorem of [HR19], this bounds the expected number of regions in a cube of this volume,
      for any depth. The theorem requires that weights and biases have a density and that the cube
      is not too small; $T$ depends on the density of the biases and on the size of the gradients.
      The default $T = 1$ roughly matches experiments at initialization. With $T = 1$ the number is
      not a proven bound.
    * An upper bound for all weights, on the whole space: the exact maximum for one layer
      (`zaslavsky`) and for two layers if it is known (`two_relu_layers`, `is_largest`), and
      `montufar_2017` otherwise.

    Args:
        n_units: The number of ReLU units $n \ge 1$ of a single layer, or the widths of all layers.
        input_dim: The number of inputs $n_0 \ge 1$.
        constant: The constant $T > 0$.
        volume: The volume of the cube, above 0.

    Raises:
        HardmaxError: If a size is not a positive integer, or `constant` or `volume` is not
            positive.

    References:
        [HR19]; [Zas75]; [Mon17].

    Examples:
        >>> relu_regions_at_initialization(96, 2).text, relu_regions_at_initialization(3, 8).text
        ('4608.', '8.000')

        Ten lines cut the plane into at most 56 cells, whatever the volume of the cube:

        >>> relu_regions_at_initialization(10, 2, volume=4.0)
        Estimate('activation regions of 10 ReLU units on 2 inputs' ~ 56.00; any weights; [Zas75])
        >>> relu_regions_at_initialization([5, 5], 2, volume=4.0).text
        '200.0'
    """
    widths = _read_widths(n_units)
    input_dim = integer("input_dim", input_dim, at_least=1)
    constant = number("constant", constant, above=0)
    volume = number("volume", volume, above=0)
    if len(widths) == 2 and is_largest(input_dim, widths[0]):
        most, source = two_relu_layers(input_dim, *widths), "[HG19], sharpened"
    else:
        most = montufar_2017(input_dim, widths)
        source = "[Zas75]" if len(widths) == 1 else "[Mon17]"
    return estimate_relu_regions(
        sum(widths),
        input_dim,
        Bound("", most, "upper", "any weights", source),
        constant=constant,
        volume=volume,
    )


def estimate_relu_regions(
    n_units: int, input_dim: int, most: Bound, *, constant: float = 1.0, volume: float = 1.0
) -> Estimate:
    """Return the estimate of `relu_regions_at_initialization` with upper bound `most`."""
    logarithm = _log_power(constant * n_units, input_dim) + log(volume)
    name = f"activation regions of {n_units} ReLU units on {input_dim} inputs"
    if n_units < input_dim or logarithm > most.log10 * log(10):
        return Estimate(name, most.log10, most.assumptions, most.source)
    assumptions = f"random weights and biases; constant {constant:g}, volume {volume:g}"
    return Estimate(name, max(0.0, logarithm / log(10)), assumptions, "[HR19]")


def maxout_regions_at_initialization(
    n_units: int | Sequence[int],
    rank: int,
    input_dim: int,
    *,
    constant: float = 1.0,
    volume: float = 1.0,
) -> Estimate:
    r"""Bound the expected number of activation regions of a random maxout network in a cube.

    The value is the smaller of the following two numbers, but at least 1. The `source` of the
    result states which of the two was used.

    * $\frac{(T k n)^{n_0}}{n_0!} \binom{k n_0}{2 n_0} \, \mathrm{vol}$, for a total of
      $n \ge n_0$ units. If $T$ is the constant in the theorem of [TM21], this bounds the expected
      number of regions in a cube of this volume, for any depth. The theorem requires that weights
      and biases have a density and that the cube is not too small; $T$ depends on the density of
      the biases and on the size of the gradients. The default $T = 1$ gives only the order of
      magnitude.
    * `maxout_upper`, a bound for all weights, on the whole space [MRZ22]. For one layer it is the
      exact maximum (`cells_with_bias`).

    With $T = 1$ and volume 1, the second number is usually the smaller one.

    Args:
        n_units: The number of maxout units $n \ge 1$ of a single layer, or the widths of all
            layers.
        rank: The rank $k \ge 2$ of the units.
        input_dim: The number of inputs $n_0 \ge 1$.
        constant: The constant $T > 0$.
        volume: The volume of the cube, above 0.

    Raises:
        HardmaxError: If a size is not an integer in its range, or `constant` or `volume` is not
            positive.

    References:
        [TM21]; [MRZ22].

    Examples:
        Here the bound on the mean exceeds the maximum for one layer, so the maximum is returned:

        >>> maxout_regions_at_initialization(10, 5, 2).text
        '761.0'
        >>> maxout_regions_at_initialization(10, 5, 2, volume=1e-3).text
        '262.5'
        >>> maxout_regions_at_initialization(3, 5, 8).text
        '125.0'
    """
    widths = _read_widths(n_units)
    rank = integer("rank", rank, at_least=2)
    input_dim = integer("input_dim", input_dim, at_least=1)
    constant = number("constant", constant, above=0)
    volume = number("volume", volume, above=0)
    logarithm = (
        _log_power(constant * rank * sum(widths), input_dim)
        + _log_binomial(rank * input_dim, 2 * input_dim)
        + log(volume)
    )
    units = f"{sum(widths)} maxout units of rank {rank}"
    name = f"bound on the activation regions of {units} on {input_dim} inputs"
    most = maxout_upper(input_dim, widths, rank)
    if sum(widths) < input_dim or logarithm > log(most):
        return Estimate(name, log10(most), "any weights", "[MRZ22]")
    assumptions = f"mean over weights and biases; constant {constant:g}, volume {volume:g}"
    return Estimate(name, max(0.0, logarithm / log(10)), assumptions, "[TM21]")


def _sum_expected_vertices(n_points: int, dim: int) -> float:
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

    # The integrand is log-concave and negligible outside of [-10, sqrt(2 g (46 + log N)) + 10].
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

    # On the real line the integrand oscillates, and its values cancel. They do not cancel on the
    # path shifted to the saddle point u. height is positive at 0, negative at -sqrt(size) - 2, and
    # has one zero between.
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
    """Return the logarithm of the integral of `exp(integrand)` for a concave `integrand`."""
    for _ in range(3):  # Narrow the interval to the part that is not negligible.
        x = np.linspace(low, high, 4001)
        values = integrand(x)
        top = float(values.max())
        inside = np.flatnonzero(values > top - _NEGLIGIBLE)
        low, high = x[max(inside[0] - 1, 0)], x[min(inside[-1] + 1, len(x) - 1)]
    return top + log(float(np.trapezoid(np.exp(values - top), x)))


def _log_binomial(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def _log_power(base: float, exponent: int) -> float:
    """Return the logarithm of `base ** exponent / factorial(exponent)`."""
    return exponent * log(base) - lgamma(exponent + 1)


def _read_widths(n_units: int | Sequence[int]) -> tuple[int, ...]:
    """Read the number of units of one layer, or the widths of several layers."""
    if isinstance(n_units, int | np.integer):
        return (integer("n_units", n_units, at_least=1),)
    return read_integers("n_units", n_units, at_least=1)
