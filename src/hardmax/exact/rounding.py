r"""Error bounds for float64 arithmetic: three lemmas on which all filters are based.

**The model.** Arithmetic is IEEE 754 binary64, rounded to nearest, with gradual underflow. Write
$u = 2^{-53}$ and $\eta = 2^{-1074}$. Unless the result overflows,

$$\mathrm{fl}(a \pm b) = (a \pm b)(1 + \delta), \qquad
  \mathrm{fl}(a \cdot b) = (a \cdot b)(1 + \delta) + \varepsilon, \qquad
  |\delta| \le u,\ |\varepsilon| \le \eta / 2,$$

and a fused multiply-add satisfies the second equation with $ab + c$ in place of $ab$. As usual,
$\gamma_n = n u / (1 - n u)$, so that a product of $n$ factors $(1 + \delta_i)^{\pm 1}$ differs from
1 by at most $\gamma_n$. All sizes are assumed to satisfy $n \le 2^{40}$.

**Lemma 1 (dot products).** Let $s = \sum_{k=1}^n a_k x_k + c$ and $M = \sum_k |a_k x_k| + |c|$, and
let $\hat s$ be computed by multiplications and additions in any order and with any bracketing,
fused or not. Every BLAS matrix product is computed in this way, except by Strassen-like schemes. If
$\hat s$ is finite, then

$$|\hat s - s| \le \gamma_{n+1} M + n \eta.$$

*Proof.* Addition never turns an infinity or NaN back into a finite number, so no operation
overflowed, and the model applies. A sum of $n + 1$ terms is a binary tree of depth at most $n$.
Each product has one rounding of its own and at most $n$ on the path to the root, which gives
factors $(1 + \theta)$, $|\theta| \le \gamma_{n+1}$. (Adding to an accumulator that starts at 0 is
exact.) Each of the at most $n$ underflow terms $\varepsilon$ reaches the root multiplied by at most
$1 + \gamma_n \le 2$. $\square$

**Lemma 2 (computed bounds).** Let $\hat M$ be the sum $M$ of absolute values, or a larger number,
computed in float64 with at most $n + 4$ roundings on each path. Put $\kappa_n =
2 (n + 4) u$ and $T = 2^{-1020}$. Then $\hat\beta = \mathrm{fl}(\mathrm{fl}(\kappa_n \hat M) + T)$
satisfies

$$\hat\beta \ge \gamma_{n+1} M + n \eta + 2 u\,(|\hat s| + \hat\beta).$$

The last term allows for one more rounding on either side, in $\hat s \pm \hat\beta$ or in the
comparison of $\hat s - \hat s'$ with $\hat\beta + \hat\beta'$. Hence $|\hat s| > \hat\beta$ proves
that $s$ and $\hat s$ have the same sign, and $\hat s - \hat s' > \hat\beta + \hat\beta'$, evaluated
in float64, proves $s > s'$.

*Proof.* All numbers are non-negative, so $M \le (1 + \gamma_{n+4}) (\hat M + n\eta)$, and $|\hat s|
\le (1 + \gamma_{n+1}) (M + n\eta)$ by Lemma 1. As $(n + 4) u \le 2^{-12}$, every $1 + \gamma$ is
below $1 + 2^{-11}$, and the right side is at most $(n + 3) u (1 + 2^{-8}) \hat M + 3 n \eta + 2 u
\hat\beta$. The left side is at least $2 (n + 4) u (1 - 2u) \hat M + T / 2$, with $T / 2 = 2^{-1021}
\ge 4 n \eta$ and $2 (n + 4)(1 - 2u)^2 \ge (n + 3)(1 + 2^{-8})$. $\square$

The factor 2 in $\kappa_n$ has no measurable cost (a few more decisions in $10^{15}$ require an
exact stage), and callers need not count the roundings of their own bounds.

**Lemma 3 (grids).** Let all $a_k \in 2^p \mathbb{Z}$, all $x_k \in 2^q \mathbb{Z}$, $c \in 2^r
\mathbb{Z}$, and $g = \min(p + q, r) \ge -1074$. If $M \le 2^{53 + g}$ and $M < 2^{1023}$, then
$\hat s = s$, in any order, fused or not.

*Proof.* By induction over the tree, every product and partial sum is an integer multiple of $2^g$
and at most $2^{53}$ times $2^g$. Hence it is a float64 and is computed without rounding. $\square$

References:
    [Higham02], sections 3.1 and 4.2; [JR13] for the order of summation.
"""

from typing import Any

import numpy as np

from hardmax.exact.dyadic import lowest_bits
from hardmax.typing import FloatArray

UNIT_ROUNDOFF = 2.0**-53
SMALLEST_SUBNORMAL = 2.0**-1074
FEW_UNDERFLOWS = 16 * SMALLEST_SUBNORMAL
"""Exceeds the underflow error of a few operations, or of one rounded coefficient."""
UNDERFLOW_ALLOWANCE = 2.0**-1020
r"""The number $T$ of Lemma 2, which exceeds the total underflow error of one dot product."""
TINY = 2.0**-1000
"""Exceeds the total underflow error of a dot product whose factors are bounds themselves."""
SQUARES_UNDERFLOW_BELOW = 2.0**-500
"""Added to a norm, this covers entries whose squares underflow."""
EXP_UNDERFLOWS_BELOW = -746.0
"""The exponential of every smaller number is 0 in float64."""

RAISE = 1.0 + 2.0**-20
r"""A factor that exceeds the product of $2^{32}$ factors $(1 + \delta_i)$ of roundings."""
SMALL_RAISE = 1.0 + 2.0**-40
r"""A factor that exceeds the product of $2^{12}$ factors $(1 + \delta_i)$ of roundings."""

UNIT_ROUNDOFF_32 = 2.0**-24
UNDERFLOW_ALLOWANCE_32 = 2.0**-100
"""Exceeds the total underflow error of a float32 dot product, with or without flush to zero."""

_LARGEST_EXACT_INTEGER = 2.0**53
_COARSEST_GRID, _FINEST_GRID = 900, -1000
_PROBE = 16


def rounding_factor(n_products: int) -> float:
    r"""Return $\kappa_n = 2 (n + 4) u$ of Lemma 2, exactly representable for $n \le 2^{40}$.

    Examples:
        >>> rounding_factor(0) == 8 * UNIT_ROUNDOFF
        True
    """
    return 2.0 * (n_products + 4) * UNIT_ROUNDOFF


def gamma(n_roundings: int) -> float:
    r"""Return $\gamma_n = n u / (1 - n u)$, rounded."""
    return n_roundings * UNIT_ROUNDOFF / (1.0 - n_roundings * UNIT_ROUNDOFF)


@np.errstate(under="ignore")
def nearest_error(rounded: Any) -> Any:
    """Bound the error of numbers that were rounded to nearest once, given the rounded numbers.

    Examples:
        >>> nearest_error(1.0) >= 2.0**-53, nearest_error(0.0) >= 2.0**-1075
        (True, True)
    """
    return abs(rounded) * 2.0**-52 + FEW_UNDERFLOWS


def enclosed_quotient(numerator: Any, denominator: Any) -> tuple[float, float]:
    """Divide integers, and return the rounded quotient and a bound on its error.

    If the quotient is outside the range of float64, the error bound is infinite.

    Examples:
        >>> enclosed_quotient(3, 4), enclosed_quotient(10**400, 3)
        ((0.75, 0.0), (0.0, inf))
        >>> enclosed_quotient(1, 3)[1] > 0.0
        True
    """
    p, q = int(numerator), int(denominator)
    try:
        nearest = p / q
    except OverflowError:
        return 0.0, float("inf")
    n, d = nearest.as_integer_ratio()
    return nearest, 0.0 if n * q == p * d else nearest_error(nearest)


def dot_products_are_exact(left: FloatArray, right: FloatArray, added: FloatArray) -> bool:
    r"""Decide whether float64 computes every `left @ right.T + added` without rounding.

    This applies Lemma 3 with one grid for each array and one magnitude for the whole batch, so True
    is a proof, while False proves nothing. Integer data of moderate size passes the test, and its
    many ties are then decided in float64. Random real data fails in the first few rows, so that the
    test costs almost nothing.

    Args:
        left: A finite array of shape `(n_left, n_products)`.
        right: A finite array of shape `(n_right, n_products)`.
        added: A finite array of any shape, which is added to the products.

    Examples:
        >>> dot_products_are_exact(np.array([[3.0, 0.5]]), np.array([[2.0, 7.0]]), np.ones(1))
        True
        >>> dot_products_are_exact(np.array([[0.1]]), np.array([[0.1]]), np.zeros(1))
        False
    """
    n_products = left.shape[1]
    added_size = float(np.abs(added).max(initial=0.0))
    for rows in (_PROBE, max(len(left), len(right))):
        a, b = left[:rows], right[:rows]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            largest = n_products * np.abs(a).max(initial=0.0) * np.abs(b).max(initial=0.0)
            # The factor covers a few roundings of relative size u.
            size = float(largest + added_size) * SMALL_RAISE + UNDERFLOW_ALLOWANCE
        grid = _product_grid(a, b, added)
        # For these exponents neither side of the comparison can overflow or underflow.
        if not (grid >= _FINEST_GRID and size <= _LARGEST_EXACT_INTEGER * 2.0**grid):
            return False
    return True


def _product_grid(left: FloatArray, right: FloatArray, added: FloatArray) -> int:
    """Return the exponent of a grid that contains all products and all entries of `added`."""
    largest = 2000  # The exponent for zero, which lies on every grid; it exceeds all others.
    a, b, c = (min(int(lowest_bits(x).min(initial=largest)), largest) for x in (left, right, added))
    return min(a + b, c, _COARSEST_GRID)
