r"""Bounds on the number of cells of a hard transformer.

The model is the conditioned transformer. It has $L$ blocks, each with a layer of $H$ hard attention
heads with $N$ fixed keys and values, a residual connection, and a feed-forward layer of $d_{ff}$
ReLU units with biases. The bounds count the cells of the query token $x \in \mathbb R^d$:
signatures (the winner of every head and the state of every unit, in all layers) that occur on a
nonempty open set. The numbers of regions and of affine pieces are at most the number of cells.
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
    r"""Bound the number of cells of one block with residual connections.

    $$A_\bullet(N, H; d) \, R(d_{ff}, d)$$

    Inside a routing cell the attention adds a constant, so it only translates the hyperplanes of
    the feed-forward layer, by a vector that depends on the cell. The partition of the block is
    therefore not the common refinement of the two partitions, but every routing cell is cut into at
    most $R(d_{ff}, d)$ pieces. For the arguments, see `transformer_upper`.

    The bound is the maximum if the heads alone attain $A_\bullet$ and their translated cells have
    an open set in common, because the hyperplanes can be in general position inside that set. By
    the constructions of `transformer_lower`, this is the case for $H \le d$ with bias, for $H < d$
    or $d = 2$ without bias, and for $d = 1$.

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

    *Proof.* By induction over the layers. On a cell of the layers so far, the map is affine. Hence
    the next attention layer cuts the cell into at most $A_\bullet$ convex pieces. On each piece the
    residual stream is affine again, and the feed-forward layer cuts the piece into at most
    $R(d_{ff}, d)$ pieces. The argument does not require the map to be continuous. $\square$

    As a function of $N$ alone, the bound has exponent $L \min(H, d)$ with bias and
    $L \min(H, d-1)$ without, if heads have size at least 2 (or a logit bias).

    *Without residual connections* the dimension of the stream can decrease, and the bound is
    computed from a histogram of image dimensions. After the attention the stream is constant on
    each cell. After a feed-forward layer with $j$ inactive units its dimension is at most
    $d_{ff} - j$, as in `serra`.

    Args:
        n_keys: The number of keys $N \ge 1$, which is the same in every layer: one number for all
            heads, or one per head.
        n_heads: The number of heads $H \ge 1$; may be None if `n_keys` is a sequence.
        dim: The model dimension $d \ge 1$.
        d_ff: The feed-forward width $d_{ff} \ge 0$; 0 for blocks without a feed-forward layer.
        depth: The number of blocks $L \ge 1$.
        bias: The kind of bias of the heads: `"none"`, `"query"` or `"logit"`.
        head_dim: The head size $d_k \ge 1$, or None for no restriction.
        input_dim: The dimension of the affine subspace in which cells are counted, for example 2
            for a plane slice; None for the whole space.
        attention_residual: Whether the block computes $x + \mathrm{MHSA}(x)$.
        ffn_residual: Whether the block computes $y + \mathrm{FFN}(y)$; no effect if
            $d_{ff} \ge 2d$.

    Raises:
        HardmaxError: If a size is not an integer in its range, or `bias` is unknown.

    References:
        Theorem V.5 of [SL26], corrected and with sharp factors; [MRZ22]; [Wei12]; [Zas75]; for the
        histogram, [STR18] and [HG19].

    Examples:
        >>> transformer_upper(4, 2, 2, 3, 2), transformer_upper(4, 2, 2, 3, 2, bias="none")
        (12544, 3136)

        The same model on a line in the input space, and a model without residual connections:

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

    def count_routing_cells(rank: int) -> int:
        return attention_cells(sizes, None, dim, bias=bias, head_dim=head_dim, rank=rank)

    if attention_residual and (ffn_residual or d_ff == 0 or d_ff >= 2 * start):
        return int((count_routing_cells(start) * zaslavsky(d_ff, start)) ** depth)
    cells = {start: 1}  # dimension of the residual stream -> number of cells
    for _ in range(depth):
        cut: dict[int, int] = {}
        for rank, count in cells.items():
            after = rank if attention_residual else 0
            cut[after] = cut.get(after, 0) + count * count_routing_cells(rank)
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
    r"""Return a number of linear regions that some hard transformer of this shape has.

    This is a lower bound on the maximum. Let $c = d$ be the number of coordinates if the heads have
    a bias, and $c = d - 1$ if not. Let $m_i$ and $p_i$ be the numbers of heads and ReLU units used
    for coordinate $i$, and $n'$ the number of visible keys of a head (`visible_keys`). Some
    transformer has

    $$\Big( \prod_{i=1}^{c} \big(1 + m_i (n' - 1)\big) \, p_i \Big)^L$$

    regions. Heads and units are distributed as evenly as possible, the units in pairs if
    `continuous`. For continuous blocks, $N \ge 2$, $d_k \ge 2$, a query bias, $d \mid H$ and
    $2d \mid d_{ff} > 0$, the number is $\big((1 + m(N-1))^d (2w)^d\big)^L$ with $m = H/d$ and
    $w = d_{ff}/2d$. Theorem V.7 of [SL26] states the base $N^d w^d$ instead.

    *Proof.* The construction treats all coordinates alike and independently, so let $c = 1$. Put
    $n = 1 + m(n'-1)$. The $m$ heads create the $n - 1$ breakpoints $1/n, \dots, (n-1)/n$, each head
    $n' - 1$ of them, as an upper envelope of $n'$ affine functions of the coordinate. Such a head
    has a logit bias, or the query $(x, 1)$, or for $d_k = 1$ the query $x - t$. The values of the
    heads add up to $-\lfloor nx\rfloor/n$, so the residual stream is
    $y = x - \lfloor nx\rfloor / n \in [0, 1/n)$. The feed-forward layer is a zigzag in $ny$ with
    $p$ pieces, each onto $[0, 1]$, for which $p$ units are sufficient. (The first unit, shifted so
    that its kink lies outside of the interval, also compensates for a residual connection.) Each of
    the $np$ pieces of the block maps an interval onto $[0, 1]$. Hence $L$ blocks have $(np)^L$
    pieces. Their affine maps differ, because each maps a different interval onto $[0, 1]$. If $p$
    is even, the block is continuous. Without bias, the last coordinate is kept at 1 and replaces
    the constant; cells of that slice extend to open cells of $\mathbb R^d$. $\square$

    Coordinates without heads are only folded. Any number of coordinates up to $c$ can be used, each
    with at least 2 units if `continuous` and at least 1 otherwise. Alternatively, the feed-forward
    layers can fold any number of the $d$ coordinates and ignore the heads. The result is the
    maximum over all these choices.

    *If jumps are allowed*, the heads alone give $a^L$ pieces with $a = \prod_i (1 + m_i (n' - 1))$,
    because every layer cuts the common part of the images of all pieces of the previous layer. For
    $d \ge 2$ they also give $a^L$ pieces with $a = n' H$: the heads rotate the plane of two
    coordinates (`rotating_transformer` of `hardmax.constructions`). Feed-forward layers, if there
    are any, add zero to the residual stream. For $d_{ff} = 0$ the result is the maximum, because it
    equals `transformer_upper`, in three cases: with bias if $H \le d$, without bias if $H < d$ or
    $d = 2$, and in either case if $d = 1$.

    Args:
        n_keys: The number of keys $N \ge 1$ of every head.
        n_heads: The number of heads $H \ge 1$ per layer.
        dim: The model dimension $d \ge 1$.
        d_ff: The feed-forward width $d_{ff} \ge 0$.
        depth: The number of blocks $L \ge 1$.
        bias: The kind of bias of the heads: `"none"`, `"query"` or `"logit"`.
        head_dim: The head size $d_k \ge 1$, or None for no restriction.
        continuous: Whether every block must be a continuous map on $[0, 1]^c$. If False, odd
            numbers of pieces are allowed too.

    Raises:
        HardmaxError: If a size is not an integer in its range, or `bias` is unknown.

    References:
        Theorem V.7 of [SL26], corrected and sharpened.

    Examples:
        >>> transformer_lower(4, 2, 2, 8, 3, bias="query")
        16777216
        >>> transformer_lower(4, 4, 2, 8, 1), transformer_lower(4, 3, 2, 8, 1)
        (784, 448)

        Without feed-forward layers, with continuous blocks and with jumps:

        >>> transformer_lower(4, 2, 2, 0, 3), transformer_lower(4, 2, 2, 0, 3, continuous=False)
        (1, 4096)

        The maximum for two blocks of three heads on the plane, without bias:

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
    base = _lower_bound_of_block(
        n_keys, n_heads, dim, d_ff, read_bias(bias), head_dim, bool(continuous)
    )
    return int(base**depth)


def exponent_of_keys(
    n_heads: int, dim: int, depth: int, *, bias: Bias = "logit", head_dim: int | None = None
) -> int:
    r"""Return the exponent of the growth of the maximum number of cells in the number of keys.

    For fixed $H, d, L$, any fixed feed-forward width, and residual connections around every layer,
    the maximum number of cells is $\Theta(N^E)$ with

    $$E = L \min(H, d) \text{ (query or logit bias)}, \qquad
      E = L \min(H, d - 1) \text{ (no bias)},$$

    and $E = 0$ for heads of size 1 without logit bias. Both `transformer_upper` and
    `transformer_lower` with `continuous=False` have this degree in $N$. With continuous blocks,
    `transformer_lower` has this degree if $d_{ff} \ge 2d$.

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
    """Return the factor of one block in `transformer_lower`, which describes the arguments.

    Examples:
        >>> block_lower(4, 2, 2, 8, bias="query"), block_lower(4, 2, 2, 8, bias="none")
        (256, 56)
    """
    return transformer_lower(
        n_keys, n_heads, dim, d_ff, 1, bias=bias, head_dim=head_dim, continuous=continuous
    )


def _lower_bound_of_block(
    n_keys: int,
    n_heads: int,
    dim: int,
    d_ff: int,
    bias: Bias,
    head_dim: int | None,
    continuous: bool,
) -> int:
    """Return the base of `transformer_lower` for validated arguments."""
    keys = visible_keys(n_keys, bias, head_dim)
    coordinates = dim - 1 if bias == "none" else dim
    step = 2 if continuous else 1

    def count_folds(n_coordinates: int, step: int) -> int:
        shares = _distribute_evenly(d_ff // step, n_coordinates)
        return prod(int((step * share) ** number) for share, number in shares)

    def count_pieces(n_coordinates: int) -> int:
        shares = _distribute_evenly(n_heads, n_coordinates)
        heads = prod(int((1 + share * (keys - 1)) ** number) for share, number in shares)
        return heads * count_folds(n_coordinates, step)

    candidates = [
        _largest_value(count_pieces, min(coordinates, d_ff // step)),
        _largest_value(lambda n_coordinates: count_folds(n_coordinates, 1), min(dim, d_ff)),
    ]
    if not continuous:
        candidates.append(_lower_bound_of_heads(n_keys, n_heads, dim, bias, head_dim))
    return max(candidates)


def _lower_bound_of_heads(
    n_keys: int, n_heads: int, dim: int, bias: Bias, head_dim: int | None
) -> int:
    """Return the factor of one block if only the heads cut and jumps are allowed."""
    keys = visible_keys(n_keys, bias, head_dim)
    coordinates = dim - 1 if bias == "none" else dim
    pieces = [1]
    if coordinates:
        shares = _distribute_evenly(n_heads, coordinates)
        pieces.append(prod(int((1 + share * (keys - 1)) ** number) for share, number in shares))
    if dim >= 2 and keys >= 2:
        pieces.append(keys * n_heads)
    return max(pieces)


def _largest_value(values: Callable[[int], int], most: int) -> int:
    r"""Return the maximum of `values(1)`, ..., `values(most)`, or 1 if `most` is 0.

    The sequence must be log-concave. Products over even shares are: if $g$ is concave on the
    integers, the maximum sum of $g$ over $n$ shares of $t$ is $n \hat g(t / n)$, where $\hat g$ is
    the piecewise linear interpolation of $g$, and this expression is concave in $n$.
    """
    low, high = 1, most
    while low < high:  # The sequence does not decrease before low or increase after high.
        middle = (low + high) // 2
        if values(middle) < values(middle + 1):
            low = middle + 1
        else:
            high = middle
    return values(low) if most else 1


def _distribute_evenly(total: int, n_shares: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Split `total` as evenly as possible: return two pairs of a size and its number of parts."""
    share, extra = divmod(total, n_shares)
    return (share + 1, extra), (share, n_shares - extra)
