"""Cells of hyperplane arrangements: in general position, central, and in parallel classes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import comb

from hardmax._ground.arguments import integer
from hardmax.bounds.sizes import read_integers


def zaslavsky(n: int, d: int) -> int:
    r"""Count the cells of $n$ hyperplanes in general position in $\mathbb R^d$.

    $$R(n, d) = \sum_{j=0}^{d} \binom{n}{j}$$

    This is the maximum number of cells of any $n$ hyperplanes, and it is attained exactly in
    general position. It is also the maximum number of activation patterns of one layer of $n$
    ReLU units with biases.

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
    if 2 * d > n:  # Rows of Pascal's triangle are symmetric: sum the shorter end.
        return int(2**n) - _sum_of_binomials(n, n - d - 1)
    return _sum_of_binomials(n, d)


def central_arrangement(n: int, d: int) -> int:
    r"""Count the cells of $n$ hyperplanes through the origin of $\mathbb R^d$.

    $$2 \sum_{j=0}^{d-1} \binom{n-1}{j}$$

    for $n \ge 1$ hyperplanes in general position, which means that any $\min(n, d)$ of the normals
    are linearly independent. This is the maximum number of cells. For $n = 0$ the result is 1. The
    cells correspond to the dichotomies of $n$ points by linear thresholds.

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

    With $m_h$ hyperplanes in class $h$ and elementary symmetric polynomials $e_j$, the number is

    $$\sum_{j=0}^{d} e_j(m_1, \dots, m_H),$$

    because a set of hyperplanes has a nonempty intersection (of the expected dimension) exactly if
    it contains at most one hyperplane of each class and at most $d$ in total.

    Args:
        class_sizes: The sizes $m_h \ge 0$ of the classes; at least one class is required.
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
    r"""Evaluate the elementary symmetric polynomials $e_0, \dots, e_D$ at $n$ integers.

    Here $D$ is the smaller of `max_degree` and $n$, and
    $e_j(v) = \sum_{|S| = j} \prod_{h \in S} v_h$ is the coefficient of $t^j$ in
    $\prod_h (1 + v_h t)$. The cost is $O(D \cdot n)$ operations in general, but $O(D)$ if all
    values are equal: equal values are combined by the binomial theorem.

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
    """Sum `comb(n, j)` over `j <= d`, computing each term from the previous one."""
    total = 0
    term = 1
    for j in range(d + 1):
        total += term
        term = term * (n - j) // (j + 1)
    return total
