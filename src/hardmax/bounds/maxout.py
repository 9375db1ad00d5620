r"""How many linear regions a maxout network can have.

A unit of rank $k$ is the maximum of $k$ affine forms, which is what an attention head with $k$ keys
decides; so the counts of one layer are those of `hardmax.bounds.attention`.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import prod

import numpy as np

from hardmax._ground.arguments import integer
from hardmax.bounds.arrangements import elementary_symmetric
from hardmax.bounds.attention import cells_with_bias
from hardmax.bounds.sizes import read_integers
from hardmax.errors import ShapeMismatchError


def maxout_upper(input_dim: int, widths: Sequence[int], ranks: int | Sequence[int]) -> int:
    r"""Bound the number of linear regions of a maxout network.

    $$\prod_{l=1}^{L} \sum_{j=0}^{d_l} \binom{w_l}{j} (k_l - 1)^j, \qquad
      d_l = \min(n_0, w_1, \dots, w_{l-1})$$

    Every region reaches layer $l$ as an affine image of dimension at most $d_l$, and there the
    layer has at most $A(k_l, \dots, k_l; d_l)$ cells. Sharp for one layer; for ReLU networks
    ($k = 2$) it is `montufar_2017`.

    Args:
        input_dim: The number of inputs $n_0 \ge 1$.
        widths: The widths $w_1, \dots, w_L$, each at least 1.
        ranks: The ranks $k_l \ge 1$, one number for all layers or one each.

    Raises:
        HardmaxError: If a size is not a positive integer, or there is not one rank per layer.

    References:
        [MRZ22].

    Examples:
        >>> maxout_upper(2, [3], 3), maxout_upper(2, [3, 3], 2), maxout_upper(2, [3, 3], [2, 1])
        (19, 49, 7)
    """
    n_0, layers = _read_network(input_dim, widths, ranks)
    total, dim = 1, n_0
    for width, rank in layers:
        total *= cells_with_bias(rank, width, dim)
        dim = min(dim, width)
    return total


def maxout_lower(input_dim: int, widths: Sequence[int], ranks: int | Sequence[int]) -> int:
    r"""Give a number of linear regions that some maxout network of this shape has.

    With $n \le \min(n_0, w_1, \dots, w_{L-1})$ coordinates and $m_l = \lfloor w_l / n\rfloor$
    units for each of them,

    $$\prod_{l=1}^{L-1} \Big(2\lfloor m_l/2\rfloor (k_l - 1) + 1 + (m_l \bmod 2)\Big)^{n} \;
      \sum_{j=0}^{n} \binom{w_L}{j} (k_L - 1)^j$$

    for ranks $k_l \ge 2$, with the best $n \ge 1$. A layer of rank 1 is affine: it has no factor,
    and the last layer in the formula is the last one of rank at least 2.

    *Proof.* Fold each of $n$ coordinates, and ignore the others. A unit of rank $k$ is a convex
    function of its coordinate with up to $k - 1$ kinks anywhere, of any strength. With
    $\lceil m/2\rceil$ units added and $\lfloor m/2\rfloor$ subtracted by the next layer, convex and
    concave kinks alternate $2\lfloor m/2\rfloor(k-1)$ times, once more if a unit is left over: a
    zigzag whose pieces all map onto $[0, 1]$. So every hidden layer multiplies the number of copies
    of the cube $[0,1]^n$, and the last one cuts each copy into $A(k_L, \dots, k_L; n)$ cells.
    Neighbouring regions have different maps, because a generic last layer depends on every
    coordinate. $\square$

    Args:
        input_dim: The number of inputs $n_0 \ge 1$.
        widths: The widths $w_1, \dots, w_L$, each at least 1.
        ranks: The ranks $k_l \ge 1$, one number for all layers or one each.

    Raises:
        HardmaxError: If a size is not a positive integer, or there is not one rank per layer.

    References:
        The idea is that of [MPCB14] and [MRZ22]; the count is proved above.

    Examples:
        The tent map, and pairs of units of rank 3 with five pieces each:

        >>> maxout_lower(1, [1, 1, 1, 1], 2), maxout_lower(1, [2, 2, 2], 3)
        (16, 125)
        >>> maxout_lower(3, [2], 1)
        1

        Two inputs are no worse than one, where pairs of units make nine pieces:

        >>> maxout_lower(1, [2, 2, 1], 5), maxout_lower(2, [2, 2, 1], 5)
        (405, 405)
    """
    n_0, layers = _read_network(input_dim, widths, ranks)
    while layers and layers[-1][1] == 1:  # affine layers at the end
        layers = layers[:-1]
    if not layers:
        return 1
    *hidden, (last_width, last_rank) = layers
    most = min([n_0, *(width for width, _ in hidden)])
    # cells[n] is the number of cells of the last layer on n coordinates, up to its width.
    cells = list(accumulate(elementary_symmetric([last_rank - 1] * last_width, most)))

    def folded_and_cut(n: int) -> int:
        pieces = (_zigzag_pieces(width // n, rank) for width, rank in hidden if rank > 1)
        return prod(int(number**n) for number in pieces) * cells[min(n, last_width)]

    return max(map(folded_and_cut, range(1, most + 1)))


def _zigzag_pieces(n_units: int, rank: int) -> int:
    """Count the pieces of the longest zigzag made of `n_units` convex functions."""
    return 2 * (n_units // 2) * (rank - 1) + 1 + n_units % 2


def _read_network(
    input_dim: int, widths: Sequence[int], ranks: int | Sequence[int]
) -> tuple[int, tuple[tuple[int, int], ...]]:
    n_0 = integer("input_dim", input_dim, at_least=1)
    layers = read_integers("widths", widths, at_least=1)
    if isinstance(ranks, int | np.integer):
        each = (integer("ranks", ranks, at_least=1),) * len(layers)
    else:
        each = read_integers("ranks", ranks, at_least=1)
    if len(each) != len(layers):
        raise ShapeMismatchError(
            f"`ranks` must have one entry per layer, {len(layers)} as in `widths`; "
            f"got {len(each)} entries."
        )
    return n_0, tuple(zip(layers, each, strict=True))
