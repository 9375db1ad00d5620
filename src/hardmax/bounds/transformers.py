r"""How many cells a hard transformer can have: above for every one, below for some.

The model is the conditioned transformer: $L$ blocks, each one layer of $H$ hard attention heads
with $N$ fixed keys and values and a residual connection, then a feed-forward layer of $d_{ff}$
ReLU units with biases. Counted are the cells of the query token $x \in \mathbb R^d$: signatures
(winner of every head, state of every unit, in all layers) that occur on an open set. Regions and
affine pieces are at most as many.
"""

from collections.abc import Callable
from math import prod

from hardmax._ground.arguments import integer
from hardmax.bounds.arrangements import zaslavsky
from hardmax.bounds.attention import attention_cells, visible_keys
from hardmax.bounds.relu import cut_by_units
from hardmax.bounds.sizes import Bias, HeadSizes, read_bias, read_head_sizes


def block_upper(
    n_keys: HeadSizes,
    n_heads: int | None,
    dim: int,
    d_ff: int,
    *,
    bias: Bias = "logit",
    head_dim: int | None = None,
    input_dim: int | None = None,
) -> int:
    r"""Bound the cells of one block with residual connections.

    $$A_\bullet(N, H; d) \, R(d_{ff}, d)$$

    Inside a routing cell the attention adds a constant, so the hyperplanes of the feed-forward
    layer are merely translated, by a vector that depends on the cell: the block's partition is not
    the common refinement of the two, but every routing cell is cut into at most $R(d_{ff}, d)$
    pieces. See `transformer_upper` for the arguments.

    It is the largest number of cells if the heads alone attain $A_\bullet$ with translated cells
    that have an open set in common, because the hyperplanes can be in general position inside
    that set. So it is for $H \le d$ with bias, for $H < d$ or $d = 2$ without, and for $d = 1$,
    by the constructions named at `transformer_lower`.

    Examples:
        >>> block_upper(4, 2, 2, 3), block_upper(4, 2, 2, 3, bias="none"), block_upper(4, 2, 2, 0)
        (112, 56, 16)
    """
    return transformer_upper(
        n_keys, n_heads, dim, d_ff, 1, bias=bias, head_dim=head_dim, input_dim=input_dim
    )


def transformer_upper(
    n_keys: HeadSizes,
    n_heads: int | None,
    dim: int,
    d_ff: int,
    depth: int,
    *,
    bias: Bias = "logit",
    head_dim: int | None = None,
    input_dim: int | None = None,
    attention_residual: bool = True,
    ffn_residual: bool = True,
) -> int:
    r"""Bound the number of cells of every hard transformer of this shape.

    $$\big(A_\bullet(N, H; d) \, R(d_{ff}, d)\big)^L, \qquad
      A_\bullet = A_0 \text{ (no bias) or } A \text{ (query or logit bias)}$$

    with $A$, $A_0$ from `attention_cells` and $R$ from `zaslavsky`.

    *Proof.* By induction over the layers: on a cell the map so far is affine, so the next
    attention layer cuts it into at most $A_\bullet$ convex pieces, on each of which the residual
    stream is affine again, and the feed-forward layer cuts each of those into at most $R(d_{ff},
    d)$. That the map jumps between cells does not matter. $\square$

    In $N$ alone the exponent is $L \min(H, d)$ with bias and $L \min(H, d-1)$ without, if heads
    have size at least 2 (or a logit bias).

    *Without residual connections* dimension is lost, and the bound keeps a histogram of the
    dimensions of the images: past the attention the stream is constant on a cell, and past a
    feed-forward layer with $j$ inactive units it has dimension at most $d_{ff} - j$, as in
    `serra`.

    Args:
        n_keys: The number of keys $N \ge 1$, one number for all heads or one each; the same in
            every layer.
        n_heads: The number of heads $H \ge 1$; may be None if `n_keys` is a sequence.
        dim: The model dimension $d \ge 1$.
        d_ff: The feed-forward width $d_{ff} \ge 0$; 0 for blocks without feed-forward part.
        depth: The number of blocks $L \ge 1$.
        bias: `"none"`, `"query"` or `"logit"`, the kind of bias of the heads.
        head_dim: The head size $d_k \ge 1$, or None for no restriction.
        input_dim: Count inside an affine subspace of this dimension only, for example 2 for a plane
            slice; None for the whole space.
        attention_residual: Whether the block computes $x + \mathrm{MHSA}(x)$.
        ffn_residual: Whether the block computes $y + \mathrm{FFN}(y)$; no effect if
            $d_{ff} \ge 2d$.

    Raises:
        HardmaxError: If a size is not an integer in its range, or `bias` is unknown.

    References:
        Theorem V.5 of [SL26], repaired and with sharp factors; [MRZ22]; [Wei12]; [Zas75]; the
        histogram as in [STR18], [HG19].

    Examples:
        >>> transformer_upper(4, 2, 2, 3, 2), transformer_upper(4, 2, 2, 3, 2, bias="none")
        (12544, 3136)

        On a line through the input space, and without any residual connection:

        >>> transformer_upper(4, 2, 2, 3, 2, input_dim=1)
        784
        >>> transformer_upper(4, 2, 2, 3, 9, attention_residual=False, ffn_residual=False)
        16
    """
    sizes = read_head_sizes(n_keys, n_heads)
    dim = integer("dim", dim, at_least=1)
    d_ff = integer("d_ff", d_ff, at_least=0)
    depth = integer("depth", depth, at_least=1)
    start = dim if input_dim is None else integer("input_dim", input_dim, at_least=1, at_most=dim)

    def routed(rank: int) -> int:
        return attention_cells(sizes, None, dim, bias=bias, head_dim=head_dim, rank=rank)

    if attention_residual and (ffn_residual or d_ff == 0 or d_ff >= 2 * start):
        return int((routed(start) * zaslavsky(d_ff, start)) ** depth)
    cells = {start: 1}  # dimension of the residual stream -> number of cells
    for _ in range(depth):
        cut: dict[int, int] = {}
        for rank, count in cells.items():
            after = rank if attention_residual else 0
            cut[after] = cut.get(after, 0) + count * routed(rank)
        if d_ff and not ffn_residual:
            cells = cut_by_units(cut, d_ff)
        else:
            cells = {rank: count * zaslavsky(d_ff, rank) for rank, count in cut.items()}
    return sum(cells.values())


def transformer_lower(
    n_keys: int,
    n_heads: int,
    dim: int,
    d_ff: int,
    depth: int,
    *,
    bias: Bias = "logit",
    head_dim: int | None = None,
    continuous: bool = True,
) -> int:
    r"""Give a number of linear regions that some hard transformer of this shape has.

    With $c = d$ coordinates if the heads have a bias and $c = d - 1$ if not, $m_i$ heads and $p_i$
    ReLU units spent on coordinate $i$, and $n'$ the visible keys of a head (`visible_keys`),

    $$\Big( \prod_{i=1}^{c} \big(1 + m_i (n' - 1)\big) \, p_i \Big)^L .$$

    Heads and units are spread as evenly as possible, the units in pairs if `continuous`. For
    continuous blocks, $N \ge 2$, $d_k \ge 2$, query bias, $d \mid H$ and $2d \mid d_{ff} > 0$ this
    is $\big((1 + m(N-1))^d (2w)^d\big)^L$ with $m = H/d$, $w = d_{ff}/2d$; Theorem V.7 of [SL26]
    states $N^d w^d$ in place of its base.

    *Proof.* All coordinates work alike and independently, so let $c = 1$. The $m$ heads own $n -
    1$ breakpoints $1/n, \dots, (n-1)/n$ in turn, $n = 1 + m(n'-1)$, each head as an upper
    envelope of $n'$ affine functions of the coordinate: with a logit bias, or the query $(x, 1)$,
    or for $d_k = 1$ the query $x - t$. Their values add up to $-\lfloor nx\rfloor/n$, so the
    residual stream is $y = x - \lfloor nx\rfloor / n \in [0, 1/n)$. The feed-forward layer is a
    zigzag in $ny$ with $p$ pieces, each onto $[0, 1]$, for which $p$ units suffice (the first
    one, shifted so that its kink lies outside, also makes up for a residual connection). Now each
    of the $np$ pieces of the block maps an interval onto $[0, 1]$, so $L$ blocks have $(np)^L$
    pieces, and their affine maps differ, because each maps a different interval onto $[0, 1]$. An
    even $p$ makes the block continuous. Without bias a last coordinate is kept at 1 and takes the
    place of the constant; cells of that slice extend to open cells of $\mathbb R^d$. $\square$

    Coordinates without head are folded only. Any number of coordinates up to $c$ may be used, each
    with 2 units or more if `continuous`, else with 1 or more. The feed-forward layers may also fold
    any number of the $d$ coordinates and ignore the heads. The largest of these numbers counts.

    *Jumps allowed*, the heads alone give $a^L$ pieces, with $a = \prod_i (1 + m_i (n' - 1))$, since
    every layer divides what the pieces of the one before have in common; and for $d \ge 2$ also
    with $a = n' H$, by heads that turn the plane of two coordinates (`rotating_transformer` of
    `hardmax.constructions`). The feed-forward layers, if any, add zero to what their residual
    connections carry. If $d_{ff} = 0$, this is the largest number itself, because
    `transformer_upper` is the same, if $H \le d$ (with bias), if $H < d$ or $d = 2$ (without), and
    if $d = 1$.

    Args:
        n_keys: The number of keys $N \ge 1$ of every head.
        n_heads: The number of heads $H \ge 1$ per layer.
        dim: The model dimension $d \ge 1$.
        d_ff: The feed-forward width $d_{ff} \ge 0$.
        depth: The number of blocks $L \ge 1$.
        bias: `"none"`, `"query"` or `"logit"`, the kind of bias of the heads.
        head_dim: The head size $d_k \ge 1$, or None for no restriction.
        continuous: Whether every block must be a continuous map on $[0, 1]^c$. If not, odd numbers
            of pieces are used too.

    Raises:
        HardmaxError: If a size is not an integer in its range, or `bias` is unknown.

    References:
        Theorem V.7 of [SL26], corrected and sharpened.

    Examples:
        >>> transformer_lower(4, 2, 2, 8, 3, bias="query")
        16777216
        >>> transformer_lower(4, 4, 2, 8, 1), transformer_lower(4, 3, 2, 8, 1)
        (784, 448)

        Nothing to fold with, and the same when jumps are allowed:

        >>> transformer_lower(4, 2, 2, 0, 3), transformer_lower(4, 2, 2, 0, 3, continuous=False)
        (1, 4096)

        The largest number of cells of two blocks of three heads on the plane, without bias:

        >>> transformer_lower(4, 3, 2, 0, 2, bias="none", continuous=False)
        144
        >>> transformer_upper(4, 3, 2, 0, 2, bias="none")
        144
    """
    n_keys = integer("n_keys", n_keys, at_least=1)
    n_heads = integer("n_heads", n_heads, at_least=1)
    dim = integer("dim", dim, at_least=1)
    d_ff = integer("d_ff", d_ff, at_least=0)
    depth = integer("depth", depth, at_least=1)
    base = _block_lower(n_keys, n_heads, dim, d_ff, read_bias(bias), head_dim, bool(continuous))
    return int(base**depth)


def exponent_of_keys(
    n_heads: int, dim: int, depth: int, *, bias: Bias = "logit", head_dim: int | None = None
) -> int:
    r"""Give the exponent with which the largest number of cells grows in the number of keys.

    For fixed $H, d, L$, any fixed feed-forward width and residual connections around every layer,
    the largest number of cells is $\Theta(N^E)$ with

    $$E = L \min(H, d) \text{ (query or logit bias)}, \qquad
      E = L \min(H, d - 1) \text{ (no bias)},$$

    and $E = 0$ for heads of size 1 without logit bias. `transformer_upper` and, with
    `continuous=False`, `transformer_lower` both have this degree in $N$. So has `transformer_lower`
    with continuous blocks if $d_{ff} \ge 2d$.

    Args:
        n_heads: The number of heads $H \ge 1$.
        dim: The model dimension $d \ge 1$.
        depth: The number of blocks $L \ge 1$.
        bias: `"none"`, `"query"` or `"logit"`.
        head_dim: The head size $d_k \ge 1$, or None for no restriction.

    References:
        Corollary V.9 of [SL26], with its conditions.

    Examples:
        >>> [exponent_of_keys(8, 8, 2, bias=bias) for bias in ("none", "query", "logit")]
        [14, 16, 16]
        >>> exponent_of_keys(8, 8, 2, bias="query", head_dim=1)
        0
    """
    n_heads = integer("n_heads", n_heads, at_least=1)
    dim = integer("dim", dim, at_least=1)
    depth = integer("depth", depth, at_least=1)
    bias = read_bias(bias)
    if visible_keys(3, bias, head_dim) < 3:
        return 0
    return depth * min(n_heads, dim - 1 if bias == "none" else dim)


def block_lower(
    n_keys: int,
    n_heads: int,
    dim: int,
    d_ff: int,
    *,
    bias: Bias = "logit",
    head_dim: int | None = None,
    continuous: bool = True,
) -> int:
    """Give the factor of one block in `transformer_lower`, which explains the arguments.

    Examples:
        >>> block_lower(4, 2, 2, 8, bias="query"), block_lower(4, 2, 2, 8, bias="none")
        (256, 56)
    """
    return transformer_lower(
        n_keys, n_heads, dim, d_ff, 1, bias=bias, head_dim=head_dim, continuous=continuous
    )


def _block_lower(
    n_keys: int,
    n_heads: int,
    dim: int,
    d_ff: int,
    bias: Bias,
    head_dim: int | None,
    continuous: bool,
) -> int:
    """Return the base of `transformer_lower`, whose arguments have been read."""
    keys = visible_keys(n_keys, bias, head_dim)
    coordinates = dim - 1 if bias == "none" else dim
    step = 2 if continuous else 1

    def folded(n_coordinates: int, step: int) -> int:
        shares = _shares(d_ff // step, n_coordinates)
        return prod(int((step * share) ** number) for share, number in shares)

    def routed_and_folded(n_coordinates: int) -> int:
        shares = _shares(n_heads, n_coordinates)
        heads = prod(int((1 + share * (keys - 1)) ** number) for share, number in shares)
        return heads * folded(n_coordinates, step)

    candidates = [
        _largest_value(routed_and_folded, min(coordinates, d_ff // step)),
        _largest_value(lambda n_coordinates: folded(n_coordinates, 1), min(dim, d_ff)),
    ]
    if not continuous:
        candidates.append(_heads_lower(n_keys, n_heads, dim, bias, head_dim))
    return max(candidates)


def _heads_lower(n_keys: int, n_heads: int, dim: int, bias: Bias, head_dim: int | None) -> int:
    """Return how many pieces the heads of a block alone cut, so that every block multiplies."""
    keys = visible_keys(n_keys, bias, head_dim)
    coordinates = dim - 1 if bias == "none" else dim
    pieces = [1]
    if coordinates:
        shares = _shares(n_heads, coordinates)
        pieces.append(prod(int((1 + share * (keys - 1)) ** number) for share, number in shares))
    if dim >= 2 and keys >= 2:
        pieces.append(keys * n_heads)
    return max(pieces)


def _largest_value(values: Callable[[int], int], most: int) -> int:
    r"""Return the largest of 1 and `values(1)`, ..., `values(most)`, a log-concave sequence.

    Sequences of products over even shares are: if $g$ is concave on the integers, the largest sum
    of $g$ over $n$ shares of $t$ is $n \hat g(t / n)$, where $\hat g$ joins the values of $g$ by
    lines, and that is concave in $n$.
    """
    low, high = 1, most
    while low < high:  # The sequence does not fall before low, and does not rise after high.
        middle = (low + high) // 2
        if values(middle) < values(middle + 1):
            low = middle + 1
        else:
            high = middle
    return values(low) if most else 1


def _shares(total: int, n_shares: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Split `total` into `n_shares` parts as equal as possible: two sizes, and how many of each."""
    share, extra = divmod(total, n_shares)
    return (share + 1, extra), (share, n_shares - extra)
