r"""ReLU networks with two hidden layers and the maximum number of cells for their shape."""

from typing import NamedTuple

import numpy as np

from hardmax._ground.arguments import integer
from hardmax.bounds.two_layers import is_largest
from hardmax.errors import ArgumentError
from hardmax.models.networks import ReluNetwork
from hardmax.typing import FloatArray

_MOST_UNITS = 100_000
"""The largest width. Weights grow like the cube of the width, and must be exact in float64."""


class _Layers(NamedTuple):
    """The weights of both layers, with shapes `(n_inputs_used, first)` and `(first, second)`."""

    forms: FloatArray
    offsets: FloatArray
    weights: FloatArray
    biases: FloatArray


def extremal_relu_network(input_dim: int, first: int, second: int) -> ReluNetwork:
    r"""Return a ReLU network with `two_relu_layers(input_dim, first, second)` cells.

    All weights are integers, and the output is the second hidden layer. In two cases every cell is
    its own linear region, so the numbers of cells and regions are equal: on the plane, if the
    second layer has at least three units; and on the line, if the first layer has at least three
    units and the second has at least two.

    The proof uses the notation and the bounds $C_m$ of `two_relu_layers`. It remains to show that
    every set of $m$ units crosses $C_m$ cells, and that no point lies on more zero sets of a cell
    than its dimension allows.

    *One unit.* The zero of $g_k = k - \mathrm{relu}(x)$ is at $k > 0$.

    *Two units on a line.* The function $g_k = k - \mathrm{relu}(x) - \mathrm{relu}(-x-1)$ has a
    zero on each of the two outer cells.

    *More units on a line.* Let $f$ have kinks at $1, \dots, n_1$ and slopes $2, -1, 1, -1, \dots$,
    with $f(1) = 1$, $f(2) = 0$, $f(3) = 1$ and so on. Each of its $n_1 + 1$ pieces takes all values
    between 0 and 1, so $g_k = (n_2 + 1) f - k$ has a zero on each piece. This $f$ is a constant
    plus $\sum_j w_j \mathrm{relu}(\pm(x - j))$, with the minus sign only for $j = 3$. Here $w_j$ is
    the change of slope at $j$, and the slope on the left is $-w_3 = 2$.

    *Two units on the plane.* Let $g_k = 1 - a_k \mathrm{relu}(x) - c_k \mathrm{relu}(y)$ with
    $a_k = k + 1$ and $c_k = M - a_k^2 > 0$. The zero set of each $g_k$ crosses the three cells with
    an active unit. Where both units are active, the line $a_k x + c_k y = 1$ meets the line of
    every other $g_k$, because $a_k$ increases and $c_k$ decreases. No three of these lines meet,
    because the points $(a_k, c_k)$ lie on a parabola.

    *Three units on the plane.* Let $g_k = 1 + w_k \mathrm{relu}(x + y - 1) - a_k \mathrm{relu}(x) -
    c_k \mathrm{relu}(y)$ with $a_k$ and $c_k$ as before, $M = (n_2 + 1)^2 + 2$,
    $w_k = a_k (a_k + K + 1)$ and $K = (n_2 + 1)^2$. Hence $w_k > a_k, c_k > 1$. Put
    $u = x + y - 1$. The zeros of $g_k$ are

    * $x = 1/a_k$ where only $x > 0$; $y = 1/c_k$ where only $y > 0$; the segment $a_k x + c_k y =
      1$ in the triangle $x, y > 0 > u$;
    * where $x, u > 0 > y$, the ray $u = p_k + s_k (-y)$ with $s_k = a_k/(w_k - a_k) = 1/(a_k + K)$
      and $p_k = (a_k - 1)/(w_k - a_k) = (1 - 1/a_k) s_k$, and likewise, where $y, u > 0 > x$, the
      ray that begins at $u = q_k = (c_k - 1)/(w_k - c_k)$, $x = 0$;
    * where $x, y, u > 0$, the segment that joins the starting points of these two rays.

    These are six of the seven cells. Now $a_k$ and $w_k$ increase with $k$, and $c_k$ decreases, so
    $q_k$ and $s_k$ decrease; $p_k$ increases because $(a - 1)/(a (a + K))$ increases as long as
    $a^2 - 2a < K$. Hence every pair of zero sets crosses in the triangle ($a$ against $c$), where
    $x, u > 0 > y$ ($p$ against $s$), and where $x, y, u > 0$ ($p$ against $q$). No three zero sets
    have a common point: up to constant factors, the determinants of the three lines equal the
    determinants of the functions $(1, a, c)$, $(1, a, w)$, $(1 - a, 1 - c, 1 - w)$ at three values
    of $a$. Each triple of functions is a basis of the polynomials of degree 2, so these
    determinants do not vanish.

    *Three units in space.* Let $g_k = 1 - a_k \mathrm{relu}(x) - c_k \mathrm{relu}(y) - e_k
    \mathrm{relu}(z)$ with $a_k = k$, $c_k = M - k - k^2 > 0$ and $e_k = k^2 + k^3$. All
    coefficients are positive, so each zero set crosses seven octants. Each pair crosses where only
    $x$ and $y$ are positive, and where only $y$ and $z$ are positive, because $a$ and $e$ increase
    and $c$ decreases; hence each pair also crosses where all three are positive. For three values
    of $k$ with elementary symmetric functions $\sigma_1, \sigma_2, \sigma_3$, one has
    $k^3 = \sigma_1 k^2 - \sigma_2 k + \sigma_3$, and the three planes meet where
    $y = (1 + \sigma_1) z$, $x = y + \sigma_2 z$, $1/z = (1 + \sigma_1) M + \sigma_3$, which are all
    positive. No four planes meet, since $1, a, c, e$ is a basis of the polynomials of degree 3. No
    three lines meet where only $x, y > 0$ (again because of a parabola) or where only $y, z > 0$
    (the points $(c_k, e_k)$ lie on a convex curve:
    $\mathrm{d}e/\mathrm{d}c = -(2k + 3k^2)/(1 + 2k)$ is monotone). $\square$

    *Regions.* Since all weights $w_{ki}$ are nonzero, adjacent cells have the same affine map only
    if they differ by a unit of the first layer and no unit of the second layer is active. On the
    plane, the second unit is replaced by its negative. If no unit were active at a point, then
    $g_1 < 0$, $g_2 > 0$, $g_3 < 0$ there; but $g_2 \le (g_1 + g_3)/2$, because $a$ is linear, $c$
    is concave and $w$ is convex in $k$. On the line with $n_1 \ge 3$, the last unit is replaced by
    its negative: $f < 1/(n_2 + 1)$ and $f > n_2/(n_2 + 1)$ exclude each other if $n_2 \ge 2$.

    Args:
        input_dim: The number of inputs $n_0 \ge 1$. Inputs beyond the third have weight 0.
        first: The width $n_1$ of the first layer, from 1 to 3 (up to 100000 if `input_dim` is 1).
        second: The width $n_2$ of the second layer, from 1 to 100000.

    Raises:
        HardmaxError: If a size is not an integer in its range.

    Examples:
        >>> from hardmax import WholeSpace, enumerate_regions
        >>> network = extremal_relu_network(2, 3, 3)
        >>> network.weights[1].T.tolist()
        [[38.0, -2.0, -14.0], [-60.0, 3.0, 9.0], [84.0, -4.0, -2.0]]
        >>> part = enumerate_regions(network, WholeSpace(2))
        >>> part.n_cells, part.n_regions
        (34, 34)
    """
    input_dim = integer("input_dim", input_dim, at_least=1)
    first = integer("first", first, at_least=1, at_most=_MOST_UNITS)
    second = integer("second", second, at_least=1, at_most=_MOST_UNITS)
    if not is_largest(input_dim, first):
        raise ArgumentError(
            f"`first` must be at most 3 if `input_dim` is 2 or more, because the maximum number of "
            f"cells is otherwise unknown; got {first}."
        )
    layers = _build_layers(input_dim, first, second)
    forms = np.zeros((input_dim, first))
    forms[: len(layers.forms)] = layers.forms
    return ReluNetwork(
        [forms, layers.weights, np.eye(second)],
        [layers.offsets, layers.biases, np.zeros(second)],
    )


def _build_layers(input_dim: int, first: int, second: int) -> _Layers:
    k = np.arange(1.0, second + 1)
    if first == 1:
        return _Layers(np.ones((1, 1)), np.zeros(1), np.full((1, second), -1.0), k)
    if input_dim == 1 and first == 2:
        outer = np.array([[1.0, -1.0]]), np.array([0.0, -1.0])
        return _Layers(*outer, np.full((2, second), -1.0), k)
    if input_dim == 1:
        return _build_zigzag_layers(first, second)
    if first == 3 and input_dim > 2:
        largest = second + second**2 + 1
        weights = -np.stack([k, largest - k - k**2, k**2 + k**3])
        return _Layers(np.eye(3), np.zeros(3), weights, np.ones(second))
    signs = np.where((np.arange(second) == 1) & (second >= 3), -1.0, 1.0)
    a = k + 1
    c = (second + 1) ** 2 + 2 - a**2
    if first == 2:
        return _Layers(np.eye(2), np.zeros(2), -signs * np.stack([a, c]), signs)
    w = a * (a + (second + 1) ** 2 + 1)
    forms = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    return _Layers(forms, np.array([-1.0, 0.0, 0.0]), signs * np.stack([w, -a, -c]), signs)


def _build_zigzag_layers(first: int, second: int) -> _Layers:
    """Return a zigzag with slopes 2, -1, 1, -1, ..., and thresholds between its ends."""
    kinks = np.arange(1.0, first + 1)
    side = np.where(kinks == 3, -1.0, 1.0)
    jumps = np.where(kinks % 2 == 1, -2.0, 2.0)
    jumps[0] = -3.0
    signs = np.where((np.arange(second) == second - 1) & (second >= 2), -1.0, 1.0)
    # At x = 1, only unit 3 is active, and its form is 2: f(1) = b - 2 * 2 = 1.
    levels = 5.0 * (second + 1) - np.arange(1.0, second + 1)
    return _Layers(
        side[None, :], -side * kinks, (second + 1) * np.outer(jumps, signs), levels * signs
    )
