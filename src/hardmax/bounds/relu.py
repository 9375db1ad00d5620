r"""How many cells and linear regions a ReLU network can have: the bounds of the literature.

A network has `input_dim` $= n_0$ inputs and hidden layers of `widths` $n_1, \dots, n_L$ ReLU units
with biases; the last affine layer adds no region. All bounds count cells, activation patterns that
occur on open sets, so the upper ones bound regions and affine pieces too. For one network,

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
"""Entries of the histogram tables `hinz_van_de_geer` is willing to fill."""


def montufar_2014(input_dim: int, widths: Sequence[int]) -> int:
    r"""Give a number of cells that some ReLU network of this shape has.

    $$\prod_{l=1}^{L-1} \Big\lfloor \frac{n_l}{n_0} \Big\rfloor^{n_0}
      \; \sum_{j=0}^{n_0} \binom{n_L}{j}$$

    A lower bound on the maximum: each layer but the last folds the cube $[0,1]^{n_0}$ onto itself
    $\lfloor n_l/n_0\rfloor^{n_0}$ times, and the last one cuts it in general position.

    If $n_L > n_0$, some network has as many linear regions. Then some pattern of the last layer
    does not occur, and the signs of its units can be chosen such that this is the pattern of no
    active unit. So with generic weights the output depends on every coordinate in every cell, and
    its affine maps on two neighbouring cells differ.

    If $n_L \le n_0$, all patterns of the last layer occur. Where none of its units is active, the
    output is constant, and such cells of neighbouring folds can form one region, so the number need
    not be one of linear regions. For one input, six units and then one unit the formula gives 12,
    but no such network has more than 11 linear regions. Their number is at most one more than that
    of the zeros of the last form and of its kinks where it is positive. If $i$ of its six kinks are
    not such, it has at most $\min(5, 2i)$ zeros between kinks and two others, and
    $1 + \min(5, 2i) + 2 + (6 - i) \le 11$.

    Args:
        input_dim: The number of inputs $n_0 \ge 1$.
        widths: The widths $n_1, \dots, n_L$; all but the last at least $n_0$.

    Raises:
        HardmaxError: If a size is not a positive integer, or a layer that must fold is narrower
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
                f"`widths[{i}]` must be at least `input_dim` = {n_0}, or that layer cannot fold "
                f"the whole cube; got {width}."
            )
    folds = prod(int((width // n_0) ** n_0) for width in widths[:-1])
    return folds * zaslavsky(widths[-1], n_0)


def montufar_2017(input_dim: int, widths: Sequence[int]) -> int:
    r"""Bound the number of linear regions by the product over the layers.

    $$\prod_{l=1}^{L} \sum_{j=0}^{d_l} \binom{n_l}{j},
      \qquad d_l = \min(n_0, n_1, \dots, n_{l-1})$$

    Each region reaches layer $l$ as an affine image of dimension at most $d_l$.

    Args:
        input_dim: The number of inputs $n_0 \ge 1$.
        widths: The widths $n_1, \dots, n_L$, each at least 1.

    References:
        [Mon17].

    Examples:
        The 49 of Example III.3 of [SL26], where `serra` gives 40 and `two_relu_layers` the
        largest number, 34:

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
    r"""Bound the number of linear regions, counting active units.

    $$\sum_{(j_1, \dots, j_L) \in J} \prod_{l=1}^{L} \binom{n_l}{j_l}, \qquad
      J = \{0 \le j_l \le \min(n_0, n_1 - j_1, \dots, n_{l-1} - j_{l-1}, n_l)\}$$

    A region with $j_l$ inactive units in layer $l$ leaves it with an image of dimension at most
    $n_l - j_l$. The sum is computed layer by layer over the running minimum, not over $J$:
    $O(L n_0^2)$ operations on integers, and $O(L n_0)$ if all $n_l \ge 2 n_0$.

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
    r"""Push a histogram of image dimensions through one layer of ReLU units.

    A region of dimension $r$ is cut into at most $\binom{n}{j}$ regions with exactly $j$ inactive
    units, $j \le \min(r, n)$, of dimension at most $\min(r, n - j)$; more inactive units only
    replace regions by others of smaller dimension, so this histogram dominates.

    Examples:
        >>> cut_by_units({2: 1}, 3)
        {2: 4, 1: 3}
    """
    result: dict[int, int] = {}
    for dim, count in regions.items():
        full = max(0, min(dim, width - dim))  # up to here the dimension stays
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

    Let $\gamma_{r,n}(i)$ be numbers such that $n$ ReLU units cut an $r$-dimensional region into
    at most $\sum_{i \le t} \gamma_{r,n}(i)$ regions with at most $t$ inactive units, for every $t$.
    The matrix $B_n$ sends the histogram $e_r$ (one region of dimension $r$) to
    $\sum_i \gamma_{r,n}(i)\, e_{\min(r, n - i)}$, and the network has at most

    $$\left\| B_{n_L} \cdots B_{n_1} e_{n_0} \right\|_1$$

    regions: more dimension never means fewer regions later on, so only the partial sums of the
    histograms matter. The choice of $\gamma$ is the `recursion`:

    * `"montufar"`: all $R(n, r)$ regions keep dimension $\min(r, n)$; gives `montufar_2017`.
    * `"serra"`: $\gamma_{r,n}(i) = \binom{n}{i}$ for $i \le \min(r, n)$; gives `serra`.
    * `"histograms"`: the differences in $t$ of $F(n, r, t)$, where $F(n, 1, t) = \min(2t, n) + 1$
      and $F(n, r, t) = F(n-1, r, t) + F(n-1, r-1, t-1)$, $F(n, r, 0) = F(0, r, t) = F(n, 0, t) =
      1$.

    *Proof of the last choice.* $F(n, r, t)$ bounds the regions with at most $t$ inactive units.
    On a line, the points with at most $t$ inactive units lie in the interval where at most $t$ of
    the units that are active to the left have switched off, and at most $t$ of the units that are
    active to the right have not yet switched on; inside it are at most $2t$ switches. In general,
    take one unit away: a region of the others with $i$ inactive units gives at most one region in
    which the unit is active and, only if its hyperplane meets it, a second one with $i + 1$; the
    regions it meets are the regions of the other units on that hyperplane. $\square$ The
    recursion without the base on lines gives Serra's choice, so this is never larger.

    Args:
        input_dim: The number of inputs $n_0 \ge 1$.
        widths: The widths $n_1, \dots, n_L$, each at least 1.
        recursion: `"montufar"`, `"serra"` or `"histograms"`. The last costs
            $O(n_l^2 \min(n_0, n_l))$ operations for each distinct width.

    Raises:
        SizeLimitError: If the table of $F$ would exceed 20 million entries.
        HardmaxError: If a size is not a positive integer, or `recursion` is unknown.

    References:
        [HG19]; histograms sharper than Serra's are the subject of [Hin21].

    Examples:
        >>> [hinz_van_de_geer(2, [3, 3], recursion=r) for r in ("montufar", "serra", "histograms")]
        [49, 40, 40]

        Four lines never leave at most two units inactive everywhere, so 74 instead of 77:

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
    """Return the numbers `gamma(i)` for `i` inactive units out of `width`."""
    if recursion == "montufar":
        return [zaslavsky(width, dim)]
    if recursion == "serra":
        return [comb(width, i) for i in range(min(dim, width) + 1)]
    if width * width * min(dim, width) > _LARGEST_TABLE:
        raise SizeLimitError(
            f"`widths` must be smaller for the recursion 'histograms' (a table of "
            f"{width} x {width} x {min(dim, width)} integers); use 'serra'."
        )
    totals = regions_with_few_inactive(width, min(dim, width))
    return [totals[0], *(later - earlier for earlier, later in pairwise(totals))]


@lru_cache(maxsize=64)
def regions_with_few_inactive(width: int, dim: int) -> tuple[int, ...]:
    r"""Bound the regions with at most $t$ inactive units, for $t = 0, \dots, n$.

    These are the $F(n, r, t)$ of `hinz_van_de_geer`, for $n$ = `width` units on $r$ = `dim`
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
    # tables[r][t] holds F(n, r, t) for the current n; it grows with n, from large r to small.
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
