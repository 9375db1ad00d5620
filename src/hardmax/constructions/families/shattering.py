r"""Transformers that attain the lower bounds on the number of linear regions on the cube.

Every block treats all coordinates alike. Each coordinate has $m = \lfloor H/d\rfloor$ heads and
$2w$ units, $w = \lfloor d_{ff}/2d \rfloor$. With $n = 1 + m(N-1)$, the heads subtract
$\lfloor nx\rfloor/n$ from $x \in [0, 1]$ (`grid_heads`), and the feed-forward layer folds
$[0, 1/n]$ onto $[0, b]$ in $2w$ pieces (`folding_layer`). Hence a block has $2wn$ pieces, and each
maps an interval onto $[0, b]$, where $b = 1$ in the last block and $b = n$ in all others. Later
blocks work likewise on $[0, n]$, with walls at the integers, so that only the first block needs the
numbers $j/n$.

*Theorem.* If $n$ is a power of two, or $m (2wn)^L < 2^{54}$, the model with the stored weights has
exactly

$$\Big( \big(1 + m(N-1)\big)^d \, (2w)^d \Big)^L$$

cells on $[0, 1]^d$, and the numbers of regions and of affine maps are the same.

*Proof.* Let $d = 1$; in general, cells are products. If $1/n$ is exact, each piece of a block is a
bijection between an interval and $[0, b]$. The walls and kinks of the next block lie inside
$(0, b)$, so each piece is cut into $2wn$ pieces. The pieces of all $L$ blocks have different maps,
because each is a bijection of its own interval onto $[0, 1]$.

In general, $j/n$ is rounded by at most $2^{-54}$, so the sum over heads has an error $e$ with
$|e| \le 2^{-54} m$. All other numbers are exact. The kinks of the first block move by $e$, less
than their distance $1/2wn$ from each other and from the walls, so no kink is lost. A piece between
two kinks still has the image $[0, n]$. A piece at a wall has the image $[\delta, n]$ with
$|\delta| \le \delta_1 = 2wn^2 |e|$. In the next block, it meets the same walls and kinks if
$2w \delta_1 < 1$, and the image of its pieces is $[0, n]$ or $[\delta, n]$ with
$|\delta| \le \delta_2 = 2wn\delta_1$, and so on up to
$2w\delta_{L-1} \le m(2wn)^L 2^{-54} < 1$. The first units $\mathrm{relu}(y + 1)$ never switch. Two
pieces with the same map would both contain the preimage of $(\delta_L, 1)$, but they are disjoint.
$\square$

The bound is Theorem V.7 of [SL26], with $2w$ in place of $w$, for heads with a query bias and a
memory that no block changes. `self_attention` extends it to tokens that attend to each other.

**Heads that cut an interval into equal parts and move each part to the origin.**

The $m$ heads of one coordinate $x \in [0, a]$ share the walls $a k/n$, $0 < k < n$, where
$n = 1 + m(N - 1)$: head $g$ has the walls with $k = 1 + g + m i$, $0 \le i < N - 1$. For the query
$(x, 1)$, its key $j$ has the score

$$s_j(x) = j \, \tfrac na \, x - \sum_{i < j} (1 + g + m i).$$

These scores are concave in $j$, so neighbouring keys tie at the walls, and key $j$ wins between
its two walls. Key $j$ has the value $-j a/n$. There are $\lfloor nx/a\rfloor$ walls to the left of
$x$. Each increases the winner of its head by one, so the sum of the heads is
$-\frac an\lfloor\frac{nx}a\rfloor$.
"""

import numpy as np

from hardmax.constructions.families.grid_sizes import (
    EXACT,
    GridSizes,
    read_flag,
    read_grid,
    read_shattering,
    refuse_grid,
    require_exact_keys,
)
from hardmax.constructions.families.sawtooth import folding_layer
from hardmax.errors import ArgumentError, SizeLimitError
from hardmax.models.argmax import AffineMap
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, HardTransformer
from hardmax.typing import FloatArray


def grid_heads(sizes: GridSizes, numerator: int, denominator: int = 1) -> list[AttentionHead]:
    r"""Return heads with walls at the multiples of $a/n$ = `denominator / numerator`.

    Keys are integers. Values are rounded if `numerator` does not divide a power of two times
    `denominator`. Idle heads have a constant winner (if the constant in the query is 1) and the
    value 0.
    """
    require_exact_keys(sizes, numerator, denominator)
    j = np.arange(sizes.n_keys, dtype=np.float64)
    heads = []
    for index in range(sizes.n_heads):
        g, coordinate = divmod(index, sizes.n_coordinates)
        weight, output = np.zeros((sizes.dim, 2)), np.zeros((1, sizes.dim))
        keys, values = np.column_stack([0.0 * j, -j]), np.zeros((sizes.n_keys, 1))
        if g < sizes.heads_each:
            walls = (1 + g) * j + sizes.heads_each * (j * (j - 1) / 2)
            keys = np.column_stack([numerator * j, -denominator * walls])
            values = _round_quotients(sizes.n_keys, numerator, denominator)
            weight[coordinate, 0] = 1.0
            output[0, coordinate] = -1.0
        if sizes.has_bias:
            heads.append(
                AttentionHead(weight, keys, values, output, query_bias=np.array([0.0, 1.0]))
            )
        else:
            weight[-1, 1] = 1.0
            heads.append(AttentionHead(weight, keys, values, output))
    return heads


def _round_quotients(n_keys: int, numerator: int, denominator: int) -> FloatArray:
    """Return the numbers `j * denominator / numerator`, each rounded once."""
    # Python divides integers with one rounding, whatever their size.
    return np.array([[j * denominator / numerator] for j in range(n_keys)])


_MOST_BITS = 2**24
"""The maximum number of bits of a count."""


def shattering_count(
    n_keys: int, dim: int, depth: int, d_ff: int, n_heads: int | None = None
) -> int:
    r"""Return the number of regions of `shattering_transformer`.

    The number is

    $$\Big( \big(1 + \lfloor H/d \rfloor (N-1)\big)^d \, (2 \lfloor d_{ff}/2d\rfloor)^d \Big)^L .$$

    If $N \ge 2$, $d$ divides $H$, and $2d$ divides $d_{ff}$, this is `bounds.transformer_lower` for
    heads with a query bias. Otherwise, that bound also uses the remaining heads and units.

    Args:
        n_keys: The number of keys $N \ge 1$ of every head.
        dim: The dimension $d \ge 1$.
        depth: The number of blocks $L \ge 1$.
        d_ff: The feed-forward width, at least $2d$.
        n_heads: The number of heads $H$ per block, at least $d$. By default, $d$.

    Raises:
        DtypeError: If a size is not an integer.
        ArgumentError: If a size is out of range.
        SizeLimitError: If the count has $2^{24}$ binary digits or more.

    Examples:
        >>> shattering_count(4, 2, 1, 4), shattering_count(4, 2, 3, 4), shattering_count(3, 1, 2, 7)
        (64, 262144, 324)
    """
    sizes, n_pieces, depth = read_shattering(n_keys, dim, depth, d_ff, n_heads, has_bias=True)
    cells, exponent = sizes.n_cells * n_pieces, sizes.n_coordinates * depth
    if cells.bit_length() * exponent > _MOST_BITS:
        raise SizeLimitError(
            "`dim` and `depth` must lead to a count of fewer than 2^24 binary digits; got "
            f"{cells}^({sizes.n_coordinates} * {depth})."
        )
    return int(cells**exponent)


def shattering_transformer(
    n_keys: int,
    dim: int,
    depth: int,
    d_ff: int,
    n_heads: int | None = None,
    *,
    ffn_residual: bool = False,
    integer_weights: bool = False,
) -> HardTransformer:
    r"""Return a transformer with exactly `shattering_count` regions on the unit cube.

    The numbers of its cells, regions and affine maps on $[0, 1]^d$ are all

    $$\Big( \big(1 + \lfloor H/d \rfloor (N-1)\big)^d \, (2 \lfloor d_{ff}/2d\rfloor)^d \Big)^L .$$

    The proof, which covers the rounding of the stored weights, is at the top of this module.
    Without rounding, the map is the zigzag $\zeta\big((2wn)^L x_i\big)$ in every coordinate
    (`sawtooth`). Heads have $d_k = 2$ and a query bias. Heads and units that remain after the
    divisions are present but have no effect.

    Args:
        n_keys: The number of keys $N \ge 1$ of every head.
        dim: The dimension $d \ge 1$.
        depth: The number of blocks $L \ge 1$.
        d_ff: The feed-forward width, at least $2d$.
        n_heads: The number of heads $H$ per block, at least $d$. By default, $d$.
        ffn_residual: Whether the feed-forward part has a residual connection. The map and the count
            do not depend on it.
        integer_weights: Whether the model starts with the embedding $x \mapsto n x$. Then every
            stored weight is an integer, for every $N$. Otherwise, the values of the first block are
            multiples of $1/n$, which are rounded if $n = 1 + m(N-1)$ is not a power of two.

    Raises:
        DtypeError: If a size is not an integer, or a flag is not a bool.
        ArgumentError: If a size is out of range, or so large that rounding could change the count.
        SizeLimitError: If there would be more than $2^{28}$ numbers to store.

    References:
        [SL26] Theorem V.7, corrected and improved.

    Examples:
        >>> from hardmax import Box, enumerate_regions
        >>> model = shattering_transformer(3, 2, 2, 4)
        >>> part = enumerate_regions(model, Box([0, 0], [1, 1]))
        >>> part.n_cells, part.n_regions, part.n_affine_maps, shattering_count(3, 2, 2, 4)
        (1296, 1296, 1296, 1296)

        With one key there is no routing, but the units still fold:

        >>> enumerate_regions(shattering_transformer(1, 1, 3, 4), Box([0], [1])).n_regions
        64
    """
    sizes, n_pieces, depth = read_shattering(n_keys, dim, depth, d_ff, n_heads, has_bias=True)
    return _build_shattering(sizes, n_pieces, depth, d_ff, ffn_residual, integer_weights)


def bias_free_shattering_transformer(
    n_keys: int,
    dim: int,
    depth: int,
    d_ff: int,
    n_heads: int | None = None,
    *,
    ffn_residual: bool = False,
    integer_weights: bool = False,
) -> HardTransformer:
    r"""Return a transformer without query bias that shatters the slice $x_d = 1$.

    The last coordinate is 1 in every layer and replaces the constant in every query. The
    construction of `shattering_transformer` acts on the other $d - 1$ coordinates. On
    $[0, 1]^{d-1} \times \{1\}$, the numbers of cells, regions and affine maps are all

    $$\Big(\big(1 + m(N-1)\big)^{d-1} (2w)^{d-1}\Big)^L, \qquad
      m = \lfloor \tfrac{H}{d-1} \rfloor, \quad w = \lfloor \tfrac{d_{ff}}{2(d-1)} \rfloor .$$

    In $\mathbb R^d$ there are at least as many cells: at an interior point of a cell of the slice,
    every winner exceeds its rivals strictly, and therefore also in a neighbourhood. The exponent
    $(d-1)L$ of $N$ is the largest possible without bias (`bounds.exponent_of_keys`).

    The units have biases; only the heads do not.

    Args:
        n_keys: The number of keys $N \ge 1$ of every head.
        dim: The dimension $d \ge 2$.
        depth: The number of blocks $L \ge 1$.
        d_ff: The feed-forward width, at least $2(d-1)$.
        n_heads: The number of heads $H$ per block, at least $d - 1$. By default, $d - 1$.
        ffn_residual: Whether the feed-forward part has a residual connection.
        integer_weights: Whether an embedding multiplies the first $d - 1$ coordinates by $n$, so
            that every stored weight is an integer.

    Raises:
        DtypeError: If a size is not an integer, or a flag is not a bool.
        ArgumentError: If a size is out of range, or so large that rounding could change the count.
        SizeLimitError: If there would be more than $2^{28}$ numbers to store.

    References:
        [SL26] Corollary V.9, whose exponent $dL$ requires a bias.

    Examples:
        >>> from hardmax import Segment, enumerate_regions
        >>> model = bias_free_shattering_transformer(3, 2, 2, 2)
        >>> enumerate_regions(model, Segment([0, 1], [1, 1])).n_regions
        36
    """
    sizes, n_pieces, depth = read_shattering(n_keys, dim, depth, d_ff, n_heads, has_bias=False)
    return _build_shattering(sizes, n_pieces, depth, d_ff, ffn_residual, integer_weights)


def attention_grid_transformer(
    n_keys: int,
    dim: int,
    depth: int,
    n_heads: int | None = None,
    *,
    integer_weights: bool = False,
) -> HardTransformer:
    r"""Return a transformer without feed-forward part that cuts the unit cube into a fine grid.

    Let $n = 1 + \lfloor H/d\rfloor (N - 1)$. In each coordinate, block $l = 1, \dots, L$ cuts the
    remaining interval $[0, n^{1-l}]$ into $n$ parts and moves them to the origin, so its winners
    are the $l$-th digits of $x$ in base $n$. On $[0, 1]^d$, the numbers of cells, regions and
    affine maps are all $n^{dL}$, which is $N^{dL}$ for $H = d$. The map is $x$ minus its first $L$
    digits, and jumps at every wall.

    Stored values are rounded if $n$ is not a power of two. Then $4 m n^L < 2^{54}$ is required, so
    that all rounding errors together are less than half the width of a cell. Hence they neither
    move a wall out of its interval nor make two of the translations equal.

    Args:
        n_keys: The number of keys $N \ge 1$ of every head.
        dim: The dimension $d \ge 1$.
        depth: The number of blocks $L \ge 1$.
        n_heads: The number of heads $H$ per block, at least $d$. By default, $d$.
        integer_weights: Whether the model starts with the embedding $x \mapsto n^L x$, so that
            every stored weight is an integer.

    Raises:
        DtypeError: If a size is not an integer, or the flag is not a bool.
        ArgumentError: If a size is out of range, or so large that rounding could change the count.
        SizeLimitError: If there would be more than $2^{28}$ numbers to store.

    References:
        The partitions of Figure 1 of [SL26].

    Examples:
        >>> from hardmax import Box, enumerate_regions
        >>> square = Box([0, 0], [1, 1])
        >>> [enumerate_regions(attention_grid_transformer(4, 2, L), square).n_cells
        ...  for L in (1, 2, 3)]
        [16, 256, 4096]
    """
    sizes, depth = read_grid(n_keys, dim, depth, n_heads, has_bias=True)
    integer_weights = read_flag("integer_weights", integer_weights)
    refuse_grid(sizes, depth)
    n = sizes.n_cells
    if not (integer_weights or sizes.is_dyadic):
        _require_wide_cells(4 * sizes.heads_each, n, depth)
    _require_power(n, depth)
    if integer_weights:
        ratios = [(1, n ** (depth - layer)) for layer in range(1, depth + 1)]
    else:
        ratios = [(n**layer, 1) for layer in range(1, depth + 1)]
    blocks = [Block(grid_heads(sizes, *ratio)) for ratio in ratios]
    return HardTransformer(blocks, _scaling_map(sizes, n**depth) if integer_weights else None)


def _build_shattering(
    sizes: GridSizes,
    n_pieces: int,
    depth: int,
    d_ff: int,
    ffn_residual: bool,
    integer_weights: bool,
) -> HardTransformer:
    ffn_residual = read_flag("ffn_residual", ffn_residual)
    integer_weights = read_flag("integer_weights", integer_weights)
    refuse_grid(sizes, depth, d_ff)
    n = sizes.n_cells
    if not (integer_weights or sizes.is_dyadic):
        _require_wide_cells(sizes.heads_each, n_pieces * n, depth)

    blocks: list[Block] = []
    for layer in range(depth):
        if 1 < layer < depth - 1:
            blocks.append(blocks[1])
            continue
        # A stream in [0, 1] has n cells per unit interval; a stream in [0, n] has one.
        cells = n if layer == 0 and not integer_weights else 1
        folds = folding_layer(
            sizes.n_coordinates,
            n_pieces,
            cells,
            1 if layer == depth - 1 else n,
            dim=sizes.dim,
            d_ff=d_ff,
            residual=ffn_residual,
        )
        blocks.append(Block(grid_heads(sizes, cells), folds, ffn_residual=ffn_residual))
    return HardTransformer(blocks, _scaling_map(sizes, n) if integer_weights else None)


def _scaling_map(sizes: GridSizes, factor: int) -> AffineMap:
    scales = np.ones(sizes.dim)
    scales[: sizes.n_coordinates] = factor
    return AffineMap(np.diag(scales), np.zeros(sizes.dim))


def _require_wide_cells(factor: int, cells: int, depth: int) -> None:
    """Raise an error if rounding could move a wall too far: `factor * cells^depth >= 2^54`."""
    if cells.bit_length() * depth > 200 or factor * cells**depth >= 2 * EXACT:
        raise ArgumentError(
            "`depth` must keep cells wider than the rounding errors of the weights, that is, "
            f"{factor} * {cells}^depth < 2^54; got {depth}. Alternatively, use "
            "`integer_weights=True`, which requires no rounding."
        )


def _require_power(cells: int, depth: int) -> None:
    if (cells.bit_length() - 1) * depth > 53:
        raise ArgumentError(
            f"`depth` must keep {cells}^depth below 2^53, so that the keys are exact in float64; "
            f"got {depth}."
        )
