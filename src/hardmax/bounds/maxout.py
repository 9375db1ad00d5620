r"""Bounds on the number of linear regions of a maxout network.

A unit of rank $k$ is the maximum of $k$ affine forms. An attention head with $k$ keys selects the
largest of $k$ affine forms in the same way, so the counts for one layer are the same as in
`hardmax.bounds.attention`.
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

    The input of layer $l$ on one region is an affine image of dimension at most $d_l$, and the
    layer cuts this image into at most $A(k_l, \dots, k_l; d_l)$ cells. The bound is sharp for one
    layer. For rank 2, as for ReLU networks, it equals `montufar_2017`.

    Args:
        input_dim: The number of inputs $n_0 \ge 1$.
        widths: The widths $w_1, \dots, w_L$, each at least 1.
        ranks: The ranks $k_l \ge 1$: one number for all layers, or one per layer.

    Raises:
        HardmaxError: If a size is not a positive integer, or the number of ranks is wrong.

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
    r"""Return a number of linear regions that some maxout network of this shape has.

    This is a lower bound on the maximum. With $n \le \min(n_0, w_1, \dots, w_{L-1})$ coordinates
    and $m_l = \lfloor w_l / n\rfloor$ units for each coordinate, it is

    $$\prod_{l=1}^{L-1} \Big(2\lfloor m_l/2\rfloor (k_l - 1) + 1 + (m_l \bmod 2)\Big)^{n} \;
      \sum_{j=0}^{n} \binom{w_L}{j} (k_L - 1)^j$$

    for ranks $k_l \ge 2$, maximized over $n \ge 1$. A layer of rank 1 is affine and contributes no
    factor, and the last layer in the formula is the last layer of rank at least 2.

    *Proof.* Fold each of $n$ coordinates, and ignore the others. A unit of rank $k$ is a convex
    function of its coordinate with up to $k - 1$ kinks at arbitrary places and of arbitrary
    strength. The next layer adds $\lceil m/2\rceil$ of these units and subtracts the other
    $\lfloor m/2\rfloor$, so that convex and concave kinks alternate. There are
    $2\lfloor m/2\rfloor(k-1)$ kinks, and one more if a unit is left over. The sum is a zigzag whose
    pieces all map onto $[0, 1]$. Hence every hidden layer multiplies the number of copies of the
    cube $[0,1]^n$, and the last layer cuts each copy into $A(k_L, \dots, k_L; n)$ cells.
    Neighbouring regions have different maps, because a generic last layer depends on every
    coordinate. $\square$

    Args:
        input_dim: The number of inputs $n_0 \ge 1$.
        widths: The widths $w_1, \dots, w_L$, each at least 1.
        ranks: The ranks $k_l \ge 1$: one number for all layers, or one per layer.

    Raises:
        HardmaxError: If a size is not a positive integer, or the number of ranks is wrong.

    References:
        The idea is due to [MPCB14] and [MRZ22]; the number is proved above.

    Examples:
        Iterated tent maps, and pairs of units of rank 3, each with five pieces:

        >>> maxout_lower(1, [1, 1, 1, 1], 2), maxout_lower(1, [2, 2, 2], 3)
        (16, 125)
        >>> maxout_lower(3, [2], 1)
        1

        For two inputs, folding one coordinate with pairs of units (nine pieces) is best:

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

    def count_cells(n: int) -> int:
        pieces = (_zigzag_pieces(width // n, rank) for width, rank in hidden if rank > 1)
        return prod(int(number**n) for number in pieces) * cells[min(n, last_width)]

    return max(map(count_cells, range(1, most + 1)))


def _zigzag_pieces(n_units: int, rank: int) -> int:
    """Return the maximum number of pieces of a zigzag made of `n_units` convex functions."""
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
            f"`ranks` must be one integer or one integer per layer ({len(layers)}, the length of "
            f"`widths`); got {len(each)} entries."
        )
    return n_0, tuple(zip(layers, each, strict=True))
