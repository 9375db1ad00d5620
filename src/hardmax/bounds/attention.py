r"""The exact maximum number of routing cells of one layer of hard attention.

Head $h$ has $n_h$ keys with scores $s_j(x) = \langle x, a_j\rangle + c_j$. A cell is a choice of
one winner per head that occurs on a nonempty open set of $x \in \mathbb R^d$. Throughout, $e_j$
denotes the elementary symmetric polynomial of degree $j$ in $n_1 - 1, \dots, n_H - 1$.
"""

from math import comb

from hardmax._ground.arguments import integer
from hardmax.bounds.arrangements import elementary_symmetric
from hardmax.bounds.sizes import Bias, HeadSizes, read_bias, read_head_sizes


def cells_with_bias(n_keys: HeadSizes, n_heads: int | None, dim: int) -> int:
    r"""Return the maximum number of routing cells of one layer whose scores have free offsets.

    $$A(n_1, \dots, n_H; d) = \sum_{j=0}^{\min(d, H)} e_j(n_1 - 1, \dots, n_H - 1)$$

    No choice of slopes $a_j$ and offsets $c_j$ gives more cells [MRZ22], and some choice attains
    this number: let head $h$ cut $\mathbb R^d$ into $n_h$ slabs by $n_h - 1$ parallel hyperplanes,
    and put the $H$ classes in general position (`parallel_arrangement`). For $H \le d$ the maximum
    is $\prod_h n_h$. For fixed $d$ and growing $H$ it is of order $(HN)^d$. Heads with one key do
    not change it.

    Args:
        n_keys: The number of distinct keys $n_h \ge 1$: one number for all heads, or one per head.
        n_heads: The number of heads $H \ge 1$; may be None if `n_keys` is a sequence.
        dim: The dimension $d \ge 1$ of the query token $x$.

    Raises:
        HardmaxError: If a size is not a positive integer.

    References:
        The upper bound is the case with biases in [MRZ22]. Theorem V.2 of [SL26], which this
        replaces, is about heads without bias.

    Examples:
        >>> cells_with_bias(6, 3, 3)
        216
        >>> cells_with_bias([2, 2, 5], None, 1), cells_with_bias(1, 4, 2)
        (7, 1)
    """
    sizes = read_head_sizes(n_keys, n_heads)
    dim = integer("dim", dim, at_least=1)
    return sum(elementary_symmetric((n - 1 for n in sizes), dim))


def cells_bias_free(n_keys: HeadSizes, n_heads: int | None, dim: int) -> int:
    r"""Return the maximum number of routing cells of one layer without bias.

    Without offsets the cells are the normal cones of the vertices of $P_1 + \dots + P_H$, where
    $P_h$ is the convex hull of the $n_h$ slopes of head $h$. Once the heads with one key have been
    removed, the maximum number of vertices is

    $$A_0(n_1, \dots, n_H; d) = \sum_{j=0}^{d-1} e_j(n_1 - 1, \dots, n_H - 1) + \binom{H-1}{d-1}.$$

    This is the value of Weibel's alternating sum if every sum of up to $d - 1$ of the polytopes
    has as many vertices as the product of their vertex numbers. The maximum is attained by planar
    polygons, $P_h = \operatorname{conv}\{(t_i u_h, -t_i^2 + \epsilon_h t_i)\}_i$ with jointly
    generic $(u_h, \epsilon_h) \in \mathbb R^d$ (`constructions.extremal_points`). Distinct
    $\epsilon_h$ alone are not sufficient.

    Special cases: $\prod_h n_h$ for $H \le d - 1$. For $H$ heads with $N \ge 2$ keys each,
    $N^d - (N-1)^d + 1$ if $H = d$, and $HN$ if $d = 2$. For two keys per head,
    $2\sum_{j<d}\binom{H-1}{j}$ (`central_arrangement`).

    Args:
        n_keys: The number of distinct keys $n_h \ge 1$: one number for all heads, or one per head.
        n_heads: The number of heads $H \ge 1$; may be None if `n_keys` is a sequence.
        dim: The dimension $d \ge 1$ of the query token $x$.

    Raises:
        HardmaxError: If a size is not a positive integer.

    References:
        [Wei12]; [AS16]; the case without biases in [MRZ22], for all $n_h$. This replaces
        Theorem V.2 and Appendix D of [SL26].

    Examples:
        In three dimensions the sum of three polytopes with 6 vertices each has at most 92 vertices,
        not 216:

        >>> cells_bias_free(6, 3, 3)
        92
        >>> cells_bias_free(7, 5, 2), cells_bias_free([9, 1, 4], None, 1), cells_bias_free(1, 3, 3)
        (35, 2, 1)
    """
    sizes = read_head_sizes(n_keys, n_heads)
    dim = integer("dim", dim, at_least=1)
    rivals = [n - 1 for n in sizes if n > 1]
    if not rivals:
        return 1
    return sum(elementary_symmetric(rivals, dim - 1)) + comb(len(rivals) - 1, dim - 1)


def attention_cells(
    n_keys: HeadSizes,
    n_heads: int | None,
    dim: int,
    *,
    bias: Bias,
    head_dim: int | None = None,
    rank: int | None = None,
) -> int:
    r"""Return the maximum number of routing cells for a given kind of bias and head size.

    A head of size $d_k$ has $a_j = W_Q k_j$ with $W_Q$ of shape $(d, d_k)$, and
    $c_j = \langle b_Q, k_j\rangle + \beta_j$. Let $n'_h = \min(n_h, 2)$ if $d_k = 1$ and there is
    no logit bias, and $n'_h = n_h$ otherwise. The maximum over all weights is exactly

    $$A_0(n'_1, \dots, n'_H; d) \text{ with no bias}, \qquad
      A(n'_1, \dots, n'_H; d) \text{ with a query bias or a logit bias.}$$

    *Proof of the upper bounds.* The scores are affine forms, and linear without bias. Hence $A$
    and $A_0$ bound the number of cells in terms of the number of forms that win somewhere. If
    $d_k = 1$ and $\beta = 0$, the scores are $q k_j$ with a scalar $q = \langle w, x\rangle + b$,
    so only the largest and the smallest key win on an open set: at most $n'_h$ forms.

    *Proof that they are attained.* Without bias and for $d_k \ge 2$, the polygons in
    `cells_bias_free` lie in planes, so a matrix $W_Q$ with two columns produces them; for
    $d_k = 1$ generic segments attain the maximum. With a query bias and $d_k \ge 2$, the query
    $q = (\langle w_h, x\rangle, 1)$ and the keys $(p_j, -p_j^2/2)$ cut $\mathbb R^d$ into $n_h$
    parallel slabs; for $d_k = 1$, the query $q = \langle w_h, x\rangle + b_h$ gives one hyperplane.
    In both cases classes of parallel hyperplanes in general position attain $A$. With a logit
    bias, one column is sufficient for the slabs: $s_j = \langle w_h, x\rangle p_j + \beta_j$.
    $\square$

    Hence the head size matters only if $d_k = 1$, and the condition $H d_k \le d$ does not matter.

    Args:
        n_keys: The number of distinct keys $n_h \ge 1$: one number for all heads, or one per head.
        n_heads: The number of heads $H \ge 1$; may be None if `n_keys` is a sequence.
        dim: The dimension $d \ge 1$ of the query token.
        bias: `"none"`, `"query"` or `"logit"` (with or without a query bias in addition).
        head_dim: The head size $d_k \ge 1$, or None for no restriction.
        rank: The dimension $r \le d$ of the affine subspace that the query token ranges over, or
            None for $r = d$. For $r < d$ the maximum is $A(n'; r)$ for every kind of bias, because
            an affine subspace need not contain the origin.

    Raises:
        HardmaxError: If a size is not a positive integer, `rank` exceeds `dim`, or `bias` is
            unknown.

    References:
        [MRZ22]; [Wei12]; the low-rank statement is proved above.

    Examples:
        >>> [attention_cells(6, 3, 3, bias=bias) for bias in ("none", "query", "logit")]
        [92, 216, 216]

        In a head of size 1 only two keys can win, unless every key has its own bias:

        >>> [attention_cells(6, 3, 3, bias=bias, head_dim=1) for bias in ("none", "query", "logit")]
        [8, 8, 216]
        >>> attention_cells(6, 3, 3, bias="none", rank=0)
        1
    """
    sizes = read_head_sizes(n_keys, n_heads)
    dim = integer("dim", dim, at_least=1)
    bias = read_bias(bias)
    rank = dim if rank is None else integer("rank", rank, at_least=0, at_most=dim)
    sizes = tuple(visible_keys(n, bias, head_dim) for n in sizes)
    if rank == 0:
        return 1
    if bias == "none" and rank == dim:
        return cells_bias_free(sizes, None, dim)
    return cells_with_bias(sizes, None, rank)


def visible_keys(n_keys: int, bias: Bias, head_dim: int | None) -> int:
    r"""Return the maximum number of keys of one head that win on open sets.

    This is $n'_h$ of `attention_cells`.

    Examples:
        >>> visible_keys(9, "query", 1), visible_keys(9, "query", 2), visible_keys(9, "logit", 1)
        (2, 9, 9)
    """
    n_keys = integer("n_keys", n_keys, at_least=1)
    if head_dim is not None:
        head_dim = integer("head_dim", head_dim, at_least=1)
    return min(n_keys, 2) if head_dim == 1 and read_bias(bias) != "logit" else n_keys


def lifted_cells(n_keys: int, value_dim: int, dim: int) -> int:
    r"""Bound the cells of the log-lifted map of one head.

    The map $F_c(q) = \max_j (s_j(q) + \tilde v_{jc}) - \max_j s_j(q)$, $c = 1, \dots, d_v$, is
    affine wherever the winners of $d_v + 1$ groups of $N$ affine forms are constant. Hence it has
    at most

    $$A(N, \dots, N; d) = \sum_{j=0}^{\min(d, d_v + 1)} \binom{d_v + 1}{j} (N-1)^j$$

    cells. This is only an upper bound, because all groups have the same slopes. Moreover, kinks of
    the numerator and the denominator can cancel.

    Args:
        n_keys: The number of keys $N \ge 1$.
        value_dim: The number of output channels $d_v \ge 1$.
        dim: The dimension $d \ge 1$ of the query space.

    References:
        [MRZ22]; the map is Definition III.10 of [SL26].

    Examples:
        Two keys on a line with three output channels; the routing alone has two cells:

        >>> lifted_cells(2, 3, 1), lifted_cells(1, 3, 1)
        (5, 1)
    """
    value_dim = integer("value_dim", value_dim, at_least=1)
    return cells_with_bias(integer("n_keys", n_keys, at_least=1), value_dim + 1, dim)
