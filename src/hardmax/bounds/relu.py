r"""Bounds from the literature on the number of cells and linear regions of a ReLU network.

A network has `input_dim` $= n_0$ inputs and hidden layers of `widths` $n_1, \dots, n_L$ ReLU units
with biases; the last affine layer adds no region. All bounds count cells, which are activation
patterns that occur on nonempty open sets. Hence the upper bounds hold for regions and affine pieces
too. For every network,

    Hinz-van de Geer ("histograms") <= Serra = Hinz-van de Geer ("serra") <= Montufar 2017.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import comb, prod
from typing import Literal, TypeAlias

from hardmax._ground.arguments import choice, integer
from hardmax.bounds.arrangements import zaslavsky
from hardmax.bounds.sizes import read_integers
from hardmax.errors import ArgumentError, SizeLimitError

Recursion: TypeAlias = Literal["montufar", "serra", "histograms"]

_LARGEST_TABLE = 20_000_000
"""Maximum number of entries of the histogram tables of `hinz_van_de_geer`."""


def montufar_2014(input_dim: int, widths: Sequence[int]) -> int:
    r"""Return a number of cells that some ReLU network of this shape has.

    $$\prod_{l=1}^{L-1} \Big\lfloor \frac{n_l}{n_0} \Big\rfloor^{n_0}
      \; \sum_{j=0}^{n_0} \binom{n_L}{j}$$

    This is a lower bound on the maximum: each layer but the last folds the cube $[0,1]^{n_0}$ onto
    itself $\lfloor n_l/n_0\rfloor^{n_0}$ times, and the hyperplanes of the last layer cut the cube
    in general position.

    If $n_L > n_0$, some network has this number of linear regions too. In this case some pattern of
    the last layer does not occur, and the signs of the units can be chosen such that the missing
    pattern is the one without active units. With generic weights the output then depends on every
    coordinate in every cell, and its affine maps on two neighbouring cells differ.

    If $n_L \le n_0$, all patterns of the last layer occur. The output is constant on cells where no
    unit of the last layer is active, and such cells of neighbouring folds can form one region, so
    the formula need not be a number of linear regions. For one input and layers of six units and
    one unit, the formula gives 12, but no such network has more than 11 linear regions. Proof: the
    number of regions is at most one plus the number of zeros of the last form plus the number of
    its kinks where it is positive. If it is not positive at $i$ of its six kinks, it has at most
    $\min(5, 2i)$ zeros between kinks and two others, and $1 + \min(5, 2i) + 2 + (6 - i) \le 11$.

    Args:
        input_dim: The number of inputs $n_0 \ge 1$.
        widths: The widths $n_1, \dots, n_L$; all but the last must be at least $n_0$.

    Raises:
        HardmaxError: If a size is not a positive integer, or a layer before the last is narrower
            than the input.

    References:
        [MPCB14].

    Examples:
        >>> montufar_2014(2, [4, 3]), montufar_2014(2, [3])
        (28, 7)
    """
    n_0, widths = _read_network(input_dim, widths)
    for i, width in enumerate(widths[:-1]):
        if width < n_0:
            raise ArgumentError(
                f"`widths[{i}]` must be at least `input_dim` = {n_0}, because a narrower layer "
                f"cannot fold the whole cube; got {width}."
            )
    folds = prod(int((width // n_0) ** n_0) for width in widths[:-1])
    return folds * zaslavsky(widths[-1], n_0)


def montufar_2017(input_dim: int, widths: Sequence[int]) -> int:
    r"""Bound the number of linear regions by a product over the layers.

    $$\prod_{l=1}^{L} \sum_{j=0}^{d_l} \binom{n_l}{j},
      \qquad d_l = \min(n_0, n_1, \dots, n_{l-1})$$

    The input of layer $l$ on one region is an affine image of dimension at most $d_l$.

    Args:
        input_dim: The number of inputs $n_0 \ge 1$.
        widths: The widths $n_1, \dots, n_L$, each at least 1.

    References:
        [Mon17].

    Examples:
        Example III.3 of [SL26] has the value 49; `serra` gives 40, and `two_relu_layers` gives the
        maximum, 34:

        >>> montufar_2017(2, [3, 3]), montufar_2017(5, [1, 7])
        (49, 16)
    """
    n_0, widths = _read_network(input_dim, widths)
    total, dim = 1, n_0
    for width in widths:
        total *= zaslavsky(width, dim)
        dim = min(dim, width)
    return total


def serra(input_dim: int, widths: Sequence[int]) -> int:
    r"""Bound the number of linear regions by a sum over numbers of inactive units.

    $$\sum_{(j_1, \dots, j_L) \in J} \prod_{l=1}^{L} \binom{n_l}{j_l}, \qquad
      J = \{0 \le j_l \le \min(n_0, n_1 - j_1, \dots, n_{l-1} - j_{l-1}, n_l)\}$$

    If $j_l$ units of layer $l$ are inactive on a region, the image of the region after that layer
    has dimension at most $n_l - j_l$. The sum is computed layer by layer over the running minimum,
    not over $J$. The cost is $O(L n_0^2)$ operations on integers, and $O(L n_0)$ if all
    $n_l \ge 2 n_0$.

    Args:
        input_dim: The number of inputs $n_0 \ge 1$.
        widths: The widths $n_1, \dots, n_L$, each at least 1.

    References:
        [STR18].

    Examples:
        >>> serra(2, [3, 3]), serra(2, [3])
        (40, 7)
        >>> serra(1, [1]), serra(3, [1, 1, 1])
        (2, 4)
    """
    n_0, widths = _read_network(input_dim, widths)
    regions = {n_0: 1}  # dimension of the image -> number of regions
    for width in widths:
        regions = cut_by_units(regions, width)
    return sum(regions.values())


def cut_by_units(regions: dict[int, int], width: int) -> dict[int, int]:
    r"""Propagate a histogram of image dimensions through one layer of ReLU units.

    For each $j \le \min(r, n)$, a region of dimension $r$ is counted as $\binom{n}{j}$ regions with
    exactly $j$ inactive units, of dimension at most $\min(r, n - j)$. More inactive units only
    replace regions by regions of smaller dimension, so this histogram dominates the actual one.

    Examples:
        >>> cut_by_units({2: 1}, 3)
        {2: 4, 1: 3}
    """
    result: dict[int, int] = {}
    for dim, count in regions.items():
        full = max(0, min(dim, width - dim))  # Up to this number the dimension stays the same.
        if width >= dim:
            result[dim] = result.get(dim, 0) + count * zaslavsky(width, full)
        start = full + 1 if width >= dim else 0
        for inactive in range(start, min(dim, width) + 1):
            left = min(dim, width - inactive)
            result[left] = result.get(left, 0) + count * comb(width, inactive)
    return result


def hinz_van_de_geer(
    input_dim: int, widths: Sequence[int], *, recursion: Recursion = "histograms"
) -> int:
    r"""Bound the number of linear regions by a product of histogram matrices.

    Let $\gamma_{r,n}(i)$ be numbers such that, for every $t$, $n$ ReLU units cut an
    $r$-dimensional region into at most $\sum_{i \le t} \gamma_{r,n}(i)$ regions with at most $t$
    inactive units. The matrix $B_n$ maps the histogram $e_r$ (one region of dimension $r$) to
    $\sum_i \gamma_{r,n}(i)\, e_{\min(r, n - i)}$, and the network has at most

    $$\left\| B_{n_L} \cdots B_{n_1} e_{n_0} \right\|_1$$

    regions. Only the partial sums of the histograms matter, because a larger dimension never leads
    to fewer regions in later layers. The argument `recursion` selects $\gamma$:

    * `"montufar"`: all $R(n, r)$ regions keep dimension $\min(r, n)$. This gives `montufar_2017`.
    * `"serra"`: $\gamma_{r,n}(i) = \binom{n}{i}$ for $i \le \min(r, n)$. This gives `serra`.
    * `"histograms"`: the differences in $t$ of $F(n, r, t)$, where $F(n, 1, t) = \min(2t, n) + 1$
      and $F(n, r, t) = F(n-1, r, t) + F(n-1, r-1, t-1)$, $F(n, r, 0) = F(0, r, t) = F(n, 0, t) =
      1$.

    *Proof for "histograms".* $F(n, r, t)$ bounds the number of regions with at most $t$ inactive
    units. On a line, the points with at most $t$ inactive units lie in the interval where at most
    $t$ of the units that are active on the far left have switched off, and at most $t$ of the units
    that are active on the far right have not yet switched on. This interval contains at most $2t$
    switching points. In higher dimensions, remove one unit. Each region of the other units with $i$
    inactive units gives at most one region in which the removed unit is active. It gives a second
    region, with $i + 1$ inactive units, only if the hyperplane of the removed unit meets it. The
    regions that this hyperplane meets are the regions of the other units on the hyperplane.
    $\square$

    The same recursion without the separate base case on lines gives the choice of Serra, so the
    histograms never give a larger bound.

    Args:
        input_dim: The number of inputs $n_0 \ge 1$.
        widths: The widths $n_1, \dots, n_L$, each at least 1.
        recursion: `"montufar"`, `"serra"` or `"histograms"`. The last costs
            $O(n_l^2 \min(n_0, n_l))$ operations for each distinct width.

    Raises:
        SizeLimitError: If the table of $F$ would exceed 20 million entries.
        HardmaxError: If a size is not a positive integer, or `recursion` is unknown.

    References:
        [HG19]; [Hin21] studies histograms sharper than in [STR18].

    Examples:
        >>> [hinz_van_de_geer(2, [3, 3], recursion=r) for r in ("montufar", "serra", "histograms")]
        [49, 40, 40]

        Four units cut the plane into at most 10 cells with two or fewer inactive units, and 11 in
        total, so the bound is 74 instead of 77:

        >>> serra(2, [4, 3]), hinz_van_de_geer(2, [4, 3]), hinz_van_de_geer(1, [3, 3])
        (77, 74, 16)
    """
    n_0, widths = _read_network(input_dim, widths)
    choice("recursion", recursion, ("montufar", "serra", "histograms"))
    regions = {n_0: 1}
    for width in widths:
        cut: dict[int, int] = {}
        for dim, count in regions.items():
            for inactive, number in enumerate(_histogram(dim, width, recursion)):
                left = min(dim, width - inactive)
                cut[left] = cut.get(left, 0) + count * number
        regions = cut
    return sum(regions.values())


def _histogram(dim: int, width: int, recursion: str) -> list[int]:
    """Return the numbers `gamma(i)`, where `i` of `width` units are inactive."""
    if recursion == "montufar":
        return [zaslavsky(width, dim)]
    if recursion == "serra":
        return [comb(width, i) for i in range(min(dim, width) + 1)]
    if width * width * min(dim, width) > _LARGEST_TABLE:
        raise SizeLimitError(
            "`widths` is too large for `recursion='histograms'`, which would need a table of "
            f"{width} x {width} x {min(dim, width)} integers; the limit is {_LARGEST_TABLE} "
            "entries. Use `recursion='serra'`."
        )
    totals = regions_with_few_inactive(width, min(dim, width))
    return [totals[0], *(later - earlier for earlier, later in pairwise(totals))]


@lru_cache(maxsize=64)
def regions_with_few_inactive(width: int, dim: int) -> tuple[int, ...]:
    r"""Bound the number of regions with at most $t$ inactive units, for $t = 0, \dots, n$.

    The bounds are $F(n, r, t)$ of `hinz_van_de_geer`, for $n$ = `width` units in $r$ = `dim`
    dimensions.

    Examples:
        >>> regions_with_few_inactive(4, 2), regions_with_few_inactive(4, 1)
        ((1, 5, 10, 11, 11), (1, 3, 5, 5, 5))
    """
    if dim == 0:
        return (1,) * (width + 1)
    row = [min(2 * t, width) + 1 for t in range(width + 1)]
    if dim == 1:
        return tuple(row)
    # tables[r][t] holds F(n, r, t) for the current n. It is updated in place, from large r to
    # small, because F(n, r, t) depends on F(n - 1, r - 1, t - 1).
    tables = [[1] * (width + 1) for _ in range(dim + 1)]
    for n in range(1, width + 1):
        for r in range(dim, 1, -1):
            below, table = tables[r - 1], tables[r]
            for t in range(width, 0, -1):
                table[t] += below[t - 1]
        tables[1] = [min(2 * t, n) + 1 for t in range(width + 1)]
    return tuple(tables[dim])


def _read_network(input_dim: int, widths: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    return integer("input_dim", input_dim, at_least=1), read_integers("widths", widths, at_least=1)
