r"""Bounds on the number of sets of $k$ winners, and of full rankings, of a top-$k$ head.

The set of the $k$ largest of $N$ scores is constant on the cells of an order-$k$ power diagram.
For linear scores $\langle x, a_j\rangle$ these sets are the $k$-sets of the points $a_j$ (the sets
of $k$ points that a halfspace cuts off). Equivalently, they are the vertices of
$\operatorname{conv}\{\sum_{j\in S} a_j : |S| = k\}$. The maximum number is known only in some
cases; in the others the functions return upper bounds.
"""

from math import comb

from hardmax._ground.arguments import integer
from hardmax.bounds.arrangements import elementary_symmetric
from hardmax.bounds.attention import attention_cells
from hardmax.bounds.sizes import Bias, read_bias


def rankings_with_bias(n_keys: int, dim: int) -> int:
    r"""Return the maximum number of full rankings of $N$ affine scores on $\mathbb R^d$.

    $$\sum_{j=0}^{d} \left[{N \atop N-j}\right], \qquad
      \left[{N \atop N-j}\right] = e_j(1, 2, \dots, N-1)$$

    (unsigned Stirling numbers of the first kind). This is the number of cells of the $\binom N2$
    hyperplanes $s_i = s_j$ if they form a generic section of the braid arrangement. It is $N!$ for
    $d \ge N - 1$. It improves the naive count, which treats the pairwise comparisons of a head as
    unrelated, by taking into account that the comparisons are transitive. The cost is $O(Nd)$
    operations on integers.

    Args:
        n_keys: The number of scores $N \ge 1$.
        dim: The dimension $d \ge 1$.

    References:
        [GT77]; [Zas02].

    Examples:
        >>> rankings_with_bias(4, 1), rankings_with_bias(4, 2), rankings_with_bias(4, 3)
        (7, 18, 24)
        >>> rankings_with_bias(1, 3)
        1
    """
    n_keys = integer("n_keys", n_keys, at_least=1)
    dim = integer("dim", dim, at_least=1)
    return sum(elementary_symmetric(range(1, n_keys), dim))


def rankings_bias_free(n_keys: int, dim: int) -> int:
    r"""Return the maximum number of rankings of $N$ points in $\mathbb R^d$ by linear functionals.

    $$2 \sum_{\substack{0 \le j \le d-1 \\ j \equiv d-1 \bmod 2}} \left[{N \atop N-j}\right]$$

    for $N \ge 2$, and 1 for $N = 1$. It is $N!$ for $d \ge N - 1$. The cost is $O(Nd)$ operations
    on integers.

    Args:
        n_keys: The number of points $N \ge 1$.
        dim: The dimension $d \ge 1$.

    References:
        [Cov67].

    Examples:
        >>> [rankings_bias_free(4, dim) for dim in (1, 2, 3, 4)]
        [2, 12, 24, 24]
        >>> rankings_bias_free(1, 2)
        1
    """
    n_keys = integer("n_keys", n_keys, at_least=1)
    dim = integer("dim", dim, at_least=1)
    if n_keys == 1:
        return 1
    terms = elementary_symmetric(range(1, n_keys), dim - 1)
    return 2 * sum(term for j, term in enumerate(terms) if (dim - 1 - j) % 2 == 0)


def planar_k_sets(n_points: int, k: int) -> int:
    r"""Bound the number of $k$-sets of $N$ points in the plane.

    With $\kappa = \min(k, N - k)$,

    $$\kappa N - 3\tbinom{\kappa}{2} \quad (2\kappa < N), \qquad
      N(N-1) - 6\tbinom{\kappa}{2} \quad (2\kappa = N).$$

    *Proof.* Let $g_j$ be the number of $j$-sets with $1 \le j < N$. For $\kappa < N/2$ halfplanes
    cut off at most $\kappa N$ sets of size at most $\kappa$ [AG86], and at least
    $3\binom{\kappa}{2}$ of these sets are smaller than $\kappa$ [LVWW04]. This proves the first
    bound. In general position $g_j = g_{N-j}$ and $\sum_j g_j = N(N-1)$, one for each ordered pair
    of points. Hence there are at most $N(N-1) - 2 \cdot 3\binom{\kappa}{2}$ sets of the middle
    size. Moving points into general position does not decrease the number of $k$-sets. $\square$

    The bound is sharp for $k = 1$ and for $(N, k) = (4, 2), (5, 2), (6, 2), (6, 3), (7, 3)$. Points
    in convex position have exactly $N$ $k$-sets for $1 \le k < N$.

    Args:
        n_points: The number of points $N \ge 1$.
        k: The size of the sets, $0 \le k \le N$.

    References:
        [AG86]; [LVWW04].

    Examples:
        >>> planar_k_sets(9, 1), planar_k_sets(4, 2), planar_k_sets(6, 3), planar_k_sets(9, 3)
        (9, 6, 12, 18)
        >>> planar_k_sets(5, 5)
        1
    """
    n_points = integer("n_points", n_points, at_least=1)
    k = integer("k", k, at_least=0, at_most=n_points)
    smaller = min(k, n_points - k)
    if smaller == 0:
        return 1
    if 2 * smaller == n_points:
        return n_points * (n_points - 1) - 6 * comb(smaller, 2)
    return smaller * n_points - 3 * comb(smaller, 2)


def top_k_cells(
    n_keys: int, k: int, dim: int, *, bias: Bias = "none", head_dim: int | None = None
) -> int:
    r"""Bound the number of sets of $k$ winners of one head.

    Let $\kappa = \min(k, N - k)$; the symmetry holds because the $k$ largest scores win exactly if
    the $N - k$ smallest lose. All $\binom Nk$ sets occur for suitable weights if

    $$d \ge \min(2\kappa, N - 1) \text{ without bias}, \qquad d \ge 2\kappa - 1 \text{ with bias.}$$

    *Proof.* Place the points on the moment curve, $a_j = (t_j, \dots, t_j^{2\kappa})$, and let
    $|S| = \kappa$. Up to its constant term, the polynomial $-\prod_{j \in S}(t - t_j)^2$ is one of
    the linear scores, and it is largest exactly on $S$. With the opposite sign it is smallest
    exactly on $S$, which proves the case $k > N - k$, where $S$ is the set of losers. The leading
    coefficient is always $-1$ (or always $+1$), so a bias $c_j = \mp t_j^{2\kappa}$ saves one
    dimension (`constructions.moment_curve`). In $N - 1$ dimensions affinely independent points
    separate all sets. $\square$

    In lower dimensions the result is the smallest of the known upper bounds:

    * $\binom Nk$;
    * the number of rankings (`rankings_with_bias`, `rankings_bias_free`);
    * for linear scores, 2 in one dimension and $g$ = `planar_k_sets` in two dimensions;
    * for affine scores in one dimension, $g - \kappa + 1$, or $g/2 + 1$ if $2k = N$.

    *Proof of the last bound.* Lift the keys to points in the plane. As $x$ runs from $-\infty$ to
    $\infty$, the winning set changes $u_k$ times, once for each transition between $k$-sets of the
    lifted points in an upward direction. Downward directions have $u_{N-k} \ge \kappa$ further
    transitions, because the order of the scores is reversed between the two ends. The total number
    of transitions is at most $g$, and $u_k = u_{N-k}$ if $2k = N$. $\square$

    Args:
        n_keys: The number of keys $N \ge 1$.
        k: The number of winners, $1 \le k \le N$.
        dim: The dimension $d \ge 1$ of the query token.
        bias: `"none"`, `"query"` or `"logit"`.
        head_dim: The head size $d_k \ge 1$, or None for no restriction. The scores depend on only
            $d_k$ coordinates. If $d_k \le d$, a query bias is therefore equivalent to no bias in
            $\mathbb R^{d_k}$, because the query takes every value in that space.

    Raises:
        HardmaxError: If a size is not an integer in its range, or `bias` is unknown.

    References:
        [AG86]; [LVWW04]; [Cov67]; [GT77]; the moment curve is folklore [Zie95].

    Examples:
        All pairs of 7 experts can win in four dimensions, and all triples of 9 in six:

        >>> top_k_cells(7, 2, 4), top_k_cells(9, 3, 6)
        (21, 84)
        >>> top_k_cells(7, 2, 3), top_k_cells(7, 2, 2), top_k_cells(7, 2, 1), top_k_cells(7, 7, 2)
        (21, 11, 2, 1)
    """
    n_keys = integer("n_keys", n_keys, at_least=1)
    k = integer("k", k, at_least=1, at_most=n_keys)
    dim = integer("dim", dim, at_least=1)
    bias = read_bias(bias)
    if head_dim is not None:
        head_dim = integer("head_dim", head_dim, at_least=1)
        if bias == "query" and head_dim <= dim:
            bias = "none"
        dim = min(dim, head_dim)
    smaller = min(k, n_keys - k)
    everything = comb(n_keys, k)
    if smaller == 0:
        return 1
    if bias == "none":
        if dim >= min(2 * smaller, n_keys - 1):
            return everything
        if dim == 1:
            return 2
        if dim == 2:
            return min(everything, planar_k_sets(n_keys, k))
        # If 2 (d - 1) >= k there are at least C(N, k) rankings, so they need not be counted.
        few = 2 * (dim - 1) < smaller
        return min(everything, rankings_bias_free(n_keys, dim)) if few else everything
    if dim >= 2 * smaller - 1:
        return everything
    if dim == 1:
        planar = planar_k_sets(n_keys, k)
        upper = planar // 2 + 1 if 2 * k == n_keys else planar - smaller + 1
        return min(everything, upper)
    return min(everything, rankings_with_bias(n_keys, dim)) if 2 * dim < smaller else everything


def top_k_layer(
    n_keys: int,
    n_heads: int,
    k: int,
    dim: int,
    *,
    bias: Bias = "none",
    head_dim: int | None = None,
) -> int:
    r"""Bound the number of joint choices of $k$ winners in each of $H$ heads.

    A top-$k$ head is equivalent to a head with one form $\sum_{j\in S} s_j$ for every set $S$ of
    $k$ keys, of which at most $T$ = `top_k_cells` forms win somewhere. Hence
    $A_0(T, \dots, T; d)$ bounds the number of cells without bias, and $A(T, \dots, T; d)$ bounds it
    with bias. For $k = 1$ this is `attention_cells`.

    Args:
        n_keys: The number of keys $N \ge 1$ of every head.
        n_heads: The number of heads $H \ge 1$.
        k: The number of winners, $1 \le k \le N$.
        dim: The dimension $d \ge 1$ of the query token.
        bias: `"none"`, `"query"` or `"logit"`.
        head_dim: The head size $d_k \ge 1$, or None for no restriction.

    References:
        The references of `top_k_cells` and `attention_cells`.

    Examples:
        >>> top_k_layer(7, 2, 2, 4), top_k_layer(7, 2, 2, 2), top_k_layer(7, 3, 7, 2)
        (441, 22, 1)
    """
    winners = top_k_cells(n_keys, k, dim, bias=bias, head_dim=head_dim)
    return attention_cells(winners, n_heads, dim, bias=bias)
