r"""The maximum number of cells of two layers of ReLU units, exact if the first layer is small.

A cell is an activation pattern of both layers that occurs on a nonempty open set. The numbers of
regions and of affine maps are at most the number of cells. The maximum is known for every input
dimension if the first layer has at most three units, and for every first layer on a line.
`extremal_relu_network` of `hardmax.constructions` attains it.
"""

from math import comb

from hardmax._ground.arguments import integer
from hardmax.bounds.relu import hinz_van_de_geer, regions_with_few_inactive, serra
from hardmax.errors import SizeLimitError

_SETTLED_WIDTH = 3
"""Maximum width of the first layer for which the maximum is known in every input dimension."""
_WIDEST_FIRST_LAYER = 200
"""Maximum width of the first layer for which the crossings of the second layer are counted."""


def two_relu_layers(input_dim: int, first: int, second: int) -> int:
    r"""Bound the number of cells of two layers of ReLU units.

    `is_largest` states whether the bound is attained for all $n_2$. The maximum number of cells
    with $n_0$ inputs and widths $n_1$, $n_2$ is

    | $n_1$ | $n_0 = 1$ | $n_0 = 2$ | $n_0 \ge 3$ |
    |---|---|---|---|
    | 1 | $2 + n_2$ | $2 + n_2$ | $2 + n_2$ |
    | 2 | $3 + 2 n_2$ | $4 + 3 n_2 + \binom{n_2}{2}$ | $4 + 3 n_2 + \binom{n_2}{2}$ |
    | 3 | $4 + 4 n_2$ | $7 + 6 n_2 + 3\binom{n_2}{2}$ | $8 + 7n_2+3\binom{n_2}2+\binom{n_2}3$ |
    | more | $(n_1 + 1)(1 + n_2)$ | | |

    Hence two layers of three units on the plane have at most $7 + 18 + 9 = 34$ cells. Where the
    table is empty, the result is the smaller of two bounds. One, for $n_1 \le 200$, follows from
    (1) and (2) below; the other is `hinz_van_de_geer`, or `serra` if the layers are too wide for
    it. The result is attained for (2; 4, 1), with 22 cells. For (2; 4, 2) the best network that a
    search found has 36 cells, and the bound is 42; for (2; 4, 3) it has 54, and the bound is 71.

    *Proof, reduction to crossings.* Let $l_1, \dots, l_{n_1}$ be the affine forms of the first
    layer. Its cells are open convex sets. Denote each cell by the set $S$ of units that are active
    on it. On the cell, unit $k$ of the second layer is the affine function
    $g_k = b_k + \sum_{i \in S} w_{ki} l_i$. Say that a set $J$ of units of the second layer
    *crosses* the cell if their gradients there are linearly independent and they have a common zero
    in the cell. Then the number of pieces into which the second layer cuts the cell is at most the
    number of sets that cross it, including the empty set. To see this, add the units one by one. A
    unit that is constant on the cell, has no zero in it, or has the same zeros as an earlier unit
    adds no piece. Any other unit has a hyperplane $h$ of zeros that meets the cell. It adds as many
    pieces as there are pieces of $h \cap S$ cut by the earlier units. By induction on the
    dimension, their number is at most the number of sets of earlier units that cross $h \cap S$,
    and each such set crosses $S$ together with the new unit. Let $c_J$ be the number of cells that
    $J$ crosses, and let $C_m$ be a bound on all $c_J$ with $|J| = m$. Then

    $$\text{cells} \;\le\; \sum_J c_J \;\le\; \sum_{m \ge 0} C_m \binom{n_2}{m}.$$

    (1) The gradients of $g_k$ on $S$ are linear combinations of the gradients of the $l_i$,
    $i \in S$. So $J$ crosses $S$ only if $|J| \le |S|$ and $|J| \le n_0$, and $C_m$ is at most the
    number of cells with at least $m$ active units. This number is at most
    $\sum_{j \ge m} \binom{n_1}{j}$, at most $R(n_1, n_0)$, and at most the bound that
    `hinz_van_de_geer` proves for at most $n_1 - m$ inactive units.

    (2) *Pairs:* $C_2 \le (2^p - 1)(2^q - 1)$ with $p = \lfloor n_1/2 \rfloor$, $q = n_1 - p$, which
    is 1, 3, 9 for $n_1 = 2, 3, 4$. For units $k$, $k'$ put $B = (b_k, b_{k'})$ and
    $W_i = (w_{ki}, w_{k'i})$. If the pair crosses $S$, then $B + \sum_{i \in S} l_i W_i = 0$ at a
    point where all these $l_i$ are positive, and the $W_i$, $i \in S$, span the plane, because the
    two gradients are independent. Let $u = B$, or any vector other than 0 if $B = 0$, and $D_i =
    \det(u, W_i)$. Then $\sum_{i \in S} l_i D_i = -\det(u, B) = 0$, and not all $D_i$ with $i \in S$
    are 0, since these $W_i$ span the plane. Hence $S$ contains an $i$ with $D_i > 0$ and one with
    $D_i < 0$. If $p$ of the $n_1$ numbers $D_i$ are positive, $q$ negative and $z$ zero, there are
    $(2^p - 1)(2^q - 1) 2^z \le (2^{p+z} - 1)(2^q - 1)$ such sets, and the product is largest when
    the exponents differ by at most one.

    (3) *Three units on the plane:* $C_1 \le 6$. If the first layer has at most 6 cells, there is
    nothing to prove. Otherwise it has 7 cells, and its lines are in general position. If no unit is
    active on one of the cells, $g_k$ is constant there, and unit $k$ does not cross this cell. If
    there is no such cell, the missing pattern is the one without active units. The opposite pattern
    is the triangle $T$ of the three lines, so all units are active on $T$. Since $T$ is bounded,
    positive multiples of the forms add up to a positive constant. Scale the forms (and the $w_{ki}$
    inversely) so that $l_1 + l_2 + l_3 = 1$. Let $b = b_k$, and let $f_i = b + w_{ki}$ be the value
    of $g_k$ at corner $i$ of $T$, where $l_i = 1$ and the other two forms vanish. Behind the corner
    lies the cell $S = \{i\}$, where $t = l_i$ takes all values above 1 and
    $g_k = b + (f_i - b) t$. Only if $f_i$ lies strictly between 0 and $b$ is $g_k$ nonconstant with
    a zero at some $t > 1$. If this holds for all three corners, the $f_i$ have the same sign. So
    has $g_k$ on $T$, where it is a convex combination of the $f_i$. Hence unit $k$ does not cross
    all seven cells.

    (4) *Two units on a line:* $C_1 \le 2$. As in (3), this is clear if there are fewer than three
    cells, or a cell without active units. Otherwise the cells are, in order, $\{2\}$, $\{1, 2\}$,
    $\{1\}$, up to the numbering of the units, and $g_k$ has slopes $s$, $s + r$, $r$ on them. If
    unit $k$ crossed all three, its slopes would alternate in sign. But then $s$ and $r$ would have
    the same sign, and $s + r$ would have this sign too, a contradiction.

    By (1) to (4) no number exceeds the table: $C_0 = R(n_1, n_0)$; for $n_1 = 1$, $C_1 = 1$; for
    $n_1 = 2$, $n_0 \ge 2$, $(C_1, C_2) = (3, 1)$; for $n_1 = 3$, $n_0 = 2$, $(6, 3)$; for
    $n_1 = 3$, $n_0 \ge 3$, $(7, 3, 1)$; on a line $C_1 = 2$ or $n_1 + 1$. The docstring of
    `extremal_relu_network` proves that the numbers are attained. $\square$

    Args:
        input_dim: The number of inputs $n_0 \ge 1$.
        first: The width $n_1 \ge 1$ of the first layer.
        second: The width $n_2 \ge 1$ of the second layer.

    Raises:
        HardmaxError: If a size is not a positive integer.

    Examples:
        >>> two_relu_layers(2, 3, 3), serra(2, [3, 3])
        (34, 40)
        >>> [two_relu_layers(2, n_1, 2) for n_1 in (1, 2, 3, 4, 5)]
        [4, 11, 22, 42, 64]
        >>> two_relu_layers(1, 2, 5), two_relu_layers(7, 3, 3), two_relu_layers(1, 1, 1)
        (13, 39, 3)
    """
    input_dim = integer("input_dim", input_dim, at_least=1)
    first = integer("first", first, at_least=1)
    second = integer("second", second, at_least=1)
    if first > _WIDEST_FIRST_LAYER:
        return serra(input_dim, [first, second])  # On a line this equals the entry of the table.
    crossings = _max_crossings(input_dim, first)
    cells = sum(most * comb(second, m) for m, most in enumerate(crossings))
    if is_largest(input_dim, first):
        return cells
    try:
        return min(cells, hinz_van_de_geer(input_dim, [first, second]))
    except SizeLimitError:
        return min(cells, serra(input_dim, [first, second]))


def is_largest(input_dim: int, first: int) -> bool:
    """Return whether `two_relu_layers` is attained for every width of the second layer.

    Examples:
        >>> is_largest(2, 3), is_largest(2, 4), is_largest(1, 9)
        (True, False, True)
    """
    input_dim = integer("input_dim", input_dim, at_least=1)
    first = integer("first", first, at_least=1)
    return input_dim == 1 or first <= _SETTLED_WIDTH


def _max_crossings(input_dim: int, first: int) -> list[int]:
    """Bound the number of cells that a set of 0, 1, 2, ... units of the second layer crosses."""
    rank = min(input_dim, first)
    few_inactive = regions_with_few_inactive(first, rank)
    active = [
        min(few_inactive[first - m], sum(comb(first, j) for j in range(m, first + 1)))
        for m in range(rank + 1)
    ]
    if rank >= 2:
        half = first // 2
        active[2] = min(active[2], (2**half - 1) * (2 ** (first - half) - 1))
    if (input_dim, first) in ((2, 3), (1, 2)):
        active[1] -= 1
    return active
