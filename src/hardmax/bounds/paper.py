r"""The statements of [SL26] as published, for comparison with the proven bounds.

The library does not claim that these formulas are bounds; each docstring states what is true. Where
the paper writes $\mathcal O(\cdot)$, the hidden constant is set to 1, as in the figures and
examples of the paper.
"""

from math import comb, e, log10, prod

from hardmax._ground.arguments import integer
from hardmax.bounds.arrangements import central_arrangement, zaslavsky
from hardmax.bounds.sizes import Bias, HeadSizes, read_bias, read_head_sizes
from hardmax.errors import ArgumentError

__all__ = [
    "appendix_d",
    "appendix_e_ffn_log10",
    "appendix_f",
    "corollary_v9",
    "naive_hyperplanes",
    "proposition_v1",
    "remark_v6",
    "theorem_v2",
    "theorem_v5",
    "theorem_v5_base",
    "theorem_v7",
]


def proposition_v1(n_keys: int) -> int:
    r"""Return $N$, the bound on the vertices of one head's Newton polytope (Proposition V.1).

    The proposition is true. The maximum is $N$ for $d_k, d \ge 2$. It is $\min(N, 2)$ if $d_k = 1$
    or $d = 1$, because the polytope is then a segment. See `attention_cells`.

    Examples:
        >>> proposition_v1(512)
        512
    """
    return integer("n_keys", n_keys, at_least=1)


def theorem_v2(n_keys: int, n_heads: int, dim: int) -> int:
    r"""Return the leading term of Theorem V.2 for $V_{multi}$, the vertices of the Minkowski sum.

    $$N^H \quad (H \le d), \qquad (NH)^{\lfloor d/2\rfloor} \quad (H > d)$$

    The first term is an upper bound. It is attained for $H \le d - 1$, but not for $H = d$,
    $N \ge 3$. The second term is the maximum for $d = 2$, $N \ge 2$. It is too small by a factor of
    2 for $d = 1$, and it is false for $d \ge 3$, where the maximum is of order $(NH)^{d-1}$. See
    `cells_bias_free`.

    Args:
        n_keys: The number of keys $N \ge 1$.
        n_heads: The number of heads $H \ge 1$.
        dim: The model dimension $d \ge 1$.

    Examples:
        Figure 4 claims 216 vertices, but the maximum is 92. For $H = 4 > d = 3$ the maximum is
        24070, not 256:

        >>> theorem_v2(6, 3, 3), theorem_v2(64, 4, 3)
        (216, 256)
    """
    n_keys = integer("n_keys", n_keys, at_least=1)
    n_heads = integer("n_heads", n_heads, at_least=1)
    dim = integer("dim", dim, at_least=1)
    return int(n_keys**n_heads if n_heads <= dim else (n_keys * n_heads) ** (dim // 2))


def appendix_d(n_keys: HeadSizes, n_heads: int | None, dim: int) -> int:
    r"""Return the bound that Appendix D cites from the literature on Minkowski sums.

    $$\sum_{k=0}^{d-1} \binom{H-1}{k} \max_{|I| = k+1} \prod_{h \in I} n_h$$

    The bound is true but loose: by Pascal's rule it is at least $A_0$ (`cells_bias_free`). For
    $k \ge H$ the family of index sets is empty, but its term has the factor $\binom{H-1}{k} = 0$.

    Args:
        n_keys: The number of keys $n_h \ge 1$: one number for all heads, or one per head.
        n_heads: The number of heads $H \ge 1$; may be None if `n_keys` is a sequence.
        dim: The model dimension $d \ge 1$.

    Examples:
        >>> appendix_d(6, 3, 3), appendix_d([2, 5], None, 1)
        (294, 5)
    """
    sizes = sorted(read_head_sizes(n_keys, n_heads), reverse=True)
    dim = integer("dim", dim, at_least=1)
    total, product = 0, 1
    for k, size in enumerate(sizes[:dim]):
        product *= size
        total += comb(len(sizes) - 1, k) * product
    return total


def theorem_v5(n_keys: int, n_heads: int, dim: int, d_ff: int, depth: int) -> int:
    r"""Return the upper bound of Theorem V.5 as Appendix E derives it, with the constant $C_d = 1$.

    $$\Big(N^{\min(H, d)} \sum_{k=0}^{d} \binom{d_{ff}}{k}\Big)^L$$

    (Appendix E then estimates the sum by $(e\,d_{ff}/d)^d$; see `appendix_e_ffn_log10`.) With
    $C_d = 1$ this is an upper bound for $H \le d$, with or without bias. For $H > d$ the constant
    must grow with $H$, because the maximum for one layer is of order $(HN)^d$ with bias. See
    `transformer_upper`.

    Args:
        n_keys: The number of keys $N \ge 1$.
        n_heads: The number of heads $H \ge 1$.
        dim: The model dimension $d \ge 1$.
        d_ff: The feed-forward width $d_{ff} \ge 0$.
        depth: The number of blocks $L \ge 1$.

    Examples:
        >>> theorem_v5(4, 2, 2, 3, 2)
        12544
    """
    return int(theorem_v5_base(n_keys, n_heads, dim, d_ff) ** integer("depth", depth, at_least=1))


def theorem_v5_base(n_keys: int, n_heads: int, dim: int, d_ff: int) -> int:
    """Return the factor of one block in `theorem_v5`.

    Examples:
        >>> theorem_v5_base(4, 2, 2, 3)
        112
    """
    n_keys = integer("n_keys", n_keys, at_least=1)
    n_heads = integer("n_heads", n_heads, at_least=1)
    dim = integer("dim", dim, at_least=1)
    d_ff = integer("d_ff", d_ff, at_least=0)
    return int(n_keys ** min(n_heads, dim) * zaslavsky(d_ff, dim))


def appendix_e_ffn_log10(d_ff: int, dim: int) -> float:
    r"""Return $\log_{10} (e\,d_{ff}/d)^d$, the estimate of $R(d_{ff}, d)$ in Appendix E.

    It is an upper bound only for $d_{ff} \ge d$.

    Args:
        d_ff: The feed-forward width $d_{ff} \ge 1$.
        dim: The model dimension $d \ge 1$.

    Examples:
        One hyperplane in four dimensions makes two cells, but the estimate is 0.213:

        >>> round(10 ** appendix_e_ffn_log10(1, 4), 3), zaslavsky(1, 4)
        (0.213, 2)
    """
    d_ff = integer("d_ff", d_ff, at_least=1)
    dim = integer("dim", dim, at_least=1)
    return dim * log10(e * d_ff / dim)


def remark_v6(n_keys: int, n_heads: int, dim: int) -> int:
    r"""Return the naive count $(H N^2)^d$ of Remark V.6, with hidden constant 1.

    It is the order of `naive_hyperplanes`. Without bias the exponent would be $d - 1$.

    Args:
        n_keys: The number of keys $N \ge 1$.
        n_heads: The number of heads $H \ge 1$.
        dim: The model dimension $d \ge 1$.

    Examples:
        >>> remark_v6(6, 3, 3)
        1259712
    """
    n_keys = integer("n_keys", n_keys, at_least=1)
    n_heads = integer("n_heads", n_heads, at_least=1)
    return int((n_heads * n_keys**2) ** integer("dim", dim, at_least=1))


def naive_hyperplanes(
    n_keys: HeadSizes, n_heads: int | None, dim: int, *, bias: Bias = "logit"
) -> int:
    r"""Count the cells of all $\sum_h \binom{n_h}{2}$ hyperplanes $s_i = s_j$ in general position.

    This is the naive count that Remark V.6 warns against. It is an upper bound on the number of
    routing cells, but it includes hyperplanes on which neither key wins, and the hyperplanes of
    three keys are never in general position. Without bias the hyperplanes pass through the origin
    (`central_arrangement`); otherwise the count is `zaslavsky`.

    Args:
        n_keys: The number of keys $n_h \ge 1$: one number for all heads, or one per head.
        n_heads: The number of heads $H \ge 1$; may be None if `n_keys` is a sequence.
        dim: The model dimension $d \ge 1$.
        bias: `"none"`, `"query"` or `"logit"`.

    Examples:
        >>> naive_hyperplanes(6, 3, 3), naive_hyperplanes(6, 3, 3, bias="none")
        (15226, 1982)
    """
    sizes = read_head_sizes(n_keys, n_heads)
    dim = integer("dim", dim, at_least=1)
    n_pairs = sum(comb(n, 2) for n in sizes)
    free = read_bias(bias) == "none"
    return central_arrangement(n_pairs, dim) if free else zaslavsky(n_pairs, dim)


def theorem_v7(n_keys: int, dim: int, d_ff: int, depth: int) -> int:
    r"""Return the lower bound of Theorem V.7, for $H = d$ heads and $d_{ff} \ge 2d$.

    $$\Big(N^d \Big\lfloor \frac{d_{ff}}{2d} \Big\rfloor^d\Big)^L$$

    The bound is true with a query bias, heads of size at least 2 and fixed keys. It is too small by
    a factor of $2^{dL}$, as `appendix_f` shows. See `transformer_lower`.

    Args:
        n_keys: The number of keys $N \ge 1$.
        dim: The model dimension $d \ge 1$.
        d_ff: The feed-forward width, at least $2d$.
        depth: The number of blocks $L \ge 1$.

    Raises:
        ArgumentError: If $d_{ff} < 2d$.

    Examples:
        >>> theorem_v7(4, 2, 8, 3)
        262144
    """
    n_keys, dim, teeth, depth = _read_theorem_v7(n_keys, dim, d_ff, depth)
    return int((n_keys * teeth) ** (dim * depth))


def appendix_f(n_keys: int, dim: int, d_ff: int, depth: int) -> int:
    r"""Return the number that the proof of Theorem V.7 derives.

    $$\big(N^d (2w)^d\big)^L, \qquad w = \lfloor d_{ff} / 2d \rfloor$$

    The last line of the proof states that this equals `theorem_v7`, which is false.

    Args:
        n_keys: The number of keys $N \ge 1$.
        dim: The model dimension $d \ge 1$.
        d_ff: The feed-forward width, at least $2d$.
        depth: The number of blocks $L \ge 1$.

    Raises:
        ArgumentError: If $d_{ff} < 2d$.

    Examples:
        >>> appendix_f(4, 2, 8, 3)
        16777216
    """
    n_keys, dim, teeth, depth = _read_theorem_v7(n_keys, dim, d_ff, depth)
    return int((2 * n_keys * teeth) ** (dim * depth))


def corollary_v9(dim: int, depth: int) -> int:
    r"""Return the exponent $dL$ of $N$ that Corollary V.9 calls tight for $H \ge d$.

    This is true with bias, provided that heads of size 1 have a logit bias. Without bias the
    exponent is $(d-1)L$, or 0 for heads of size 1. For $H < d$ it is at most $HL$. See
    `exponent_of_keys`.

    Examples:
        >>> corollary_v9(512, 12)
        6144
    """
    return prod((integer("dim", dim, at_least=1), integer("depth", depth, at_least=1)))


def _read_theorem_v7(n_keys: int, dim: int, d_ff: int, depth: int) -> tuple[int, int, int, int]:
    n_keys = integer("n_keys", n_keys, at_least=1)
    dim = integer("dim", dim, at_least=1)
    d_ff = integer("d_ff", d_ff, at_least=0)
    if d_ff < 2 * dim:
        raise ArgumentError(f"`d_ff` must be at least twice `dim`, which is {2 * dim}; got {d_ff}.")
    return n_keys, dim, d_ff // (2 * dim), integer("depth", depth, at_least=1)
