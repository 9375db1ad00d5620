"""How many cells hyperplanes cut: in general position, through the origin, in parallel classes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import comb

from hardmax._ground.arguments import integer
from hardmax.bounds.sizes import read_integers


def zaslavsky(n: int, d: int) -> int:
    r"""Count the cells of $n$ hyperplanes in general position in $\mathbb R^d$.

    $$R(n, d) = \sum_{j=0}^{d} \binom{n}{j}$$

    This is the largest number of cells that any $n$ hyperplanes can make, and it is attained
    exactly in general position. It is also the largest number of activation patterns of one layer
    of $n$ ReLU units with biases.

    Args:
        n: The number of hyperplanes, $n \ge 0$.
        d: The dimension of the space, $d \ge 0$.

    References:
        [Zas75]; Definition III.2 of [SL26].

    Examples:
        >>> zaslavsky(3, 2)
        7
        >>> zaslavsky(0, 5), zaslavsky(3, 0), zaslavsky(4, 9)
        (1, 1, 16)
    """
    n = integer("n", n, at_least=0)
    d = integer("d", d, at_least=0)
    if 2 * d > n:  # Pascal's row is symmetric: sum the shorter end.
        return int(2**n) - _sum_of_binomials(n, n - d - 1)
    return _sum_of_binomials(n, d)


def central_arrangement(n: int, d: int) -> int:
    r"""Count the cells of $n \ge 1$ hyperplanes through the origin of $\mathbb R^d$.

    $$2 \sum_{j=0}^{d-1} \binom{n-1}{j}$$

    in general position (any $\min(n, d)$ of the normals are linearly independent), which is the
    maximum; 1 if there is no hyperplane. These are the dichotomies of $n$ points by linear
    thresholds.

    Args:
        n: The number of hyperplanes, $n \ge 0$.
        d: The dimension of the space, $d \ge 1$.

    References:
        [Cov65]; [Zas75].

    Examples:
        >>> central_arrangement(3, 2), central_arrangement(0, 2), central_arrangement(5, 1)
        (6, 1, 2)
    """
    n = integer("n", n, at_least=0)
    d = integer("d", d, at_least=1)
    return 2 * zaslavsky(n - 1, d - 1) if n else 1


def parallel_arrangement(class_sizes: Sequence[int], d: int) -> int:
    r"""Count the cells of classes of parallel hyperplanes, otherwise in general position.

    With $m_h$ hyperplanes in class $h$ and $e_j$ the elementary symmetric polynomials,

    $$\sum_{j=0}^{d} e_j(m_1, \dots, m_H),$$

    because a set of hyperplanes has a common point (and then of the expected dimension) exactly if
    it takes at most one from each class and at most $d$ in all.

    Args:
        class_sizes: The $m_h \ge 0$, at least one class.
        d: The dimension of the space, $d \ge 0$.

    References:
        [Zas75].

    Examples:
        A grid of 2 by 3 lines, and three parallel lines:

        >>> parallel_arrangement([2, 3], 2), parallel_arrangement([3], 2)
        (12, 4)
    """
    sizes = read_integers("class_sizes", class_sizes, at_least=0)
    d = integer("d", d, at_least=0)
    return sum(elementary_symmetric(sizes, d))


def elementary_symmetric(values: Iterable[int], max_degree: int) -> list[int]:
    r"""Evaluate $e_0, \dots, e_D$ at integers, $D$ the least of `max_degree` and their number.

    $e_j(v) = \sum_{|S| = j} \prod_{h \in S} v_h$ is the coefficient of $t^j$ in
    $\prod_h (1 + v_h t)$. Equal values are taken together by the binomial theorem, so that equal
    heads cost $O(D)$ operations; in general it is $O(D \cdot n)$.

    Examples:
        >>> elementary_symmetric([1, 2, 3], 2)
        [1, 6, 11]
        >>> elementary_symmetric([], 4)
        [1]
    """
    max_degree = integer("max_degree", max_degree, at_least=0)
    result = [1]
    for value, count in Counter(values).items():
        factor = _binomial_series(value, count, max_degree)
        product = [0] * min(len(result) + len(factor) - 1, max_degree + 1)
        for i, a in enumerate(result):
            for j, b in enumerate(factor[: len(product) - i]):
                product[i + j] += a * b
        result = product
    return result


def _binomial_series(value: int, count: int, max_degree: int) -> list[int]:
    """Expand `(1 + value t) ** count` up to `t ** max_degree`."""
    power = 1
    series = []
    for j in range(min(count, max_degree) + 1):
        series.append(comb(count, j) * power)
        power *= value
    return series


@lru_cache(maxsize=64)
def _sum_of_binomials(n: int, d: int) -> int:
    """Sum `comb(n, j)` over `j <= d`, each from the one before."""
    total = 0
    term = 1
    for j in range(d + 1):
        total += term
        term = term * (n - j) // (j + 1)
    return total
