r"""Keys that attain the maximum number of routing cells of one attention layer.

Both families consist of parabolas in planes. Let $p$ be a prime, at least as large as the number of
heads, and for head $m = 0, 1, \dots$ let

$$u_m = (1, m, m^2, \dots, m^{d-1}), \qquad \epsilon_m = m^d$$

with every entry replaced by its remainder modulo $p$. Key $i$ of head $m$ has the affine score

$$s_{m,i}(x) = i \, \langle u_m, x\rangle + \epsilon_m i - p \, i^2, \qquad x \in \mathbb R^d,$$

for $n_m$ consecutive integers $i$ around 0. Slopes and offsets are small integers, which are exact
in float64. They are provably in general position:

*Lemma.* (a) Any $d$ of the $u_m$ are linearly independent. (b) For integers $b_m$ divisible by $p$,
no $d + 1$ of the hyperplanes $\langle u_m, x\rangle = b_m - \epsilon_m$ have a common point.

*Proof.* Modulo $p$, the determinant of $d$ vectors $u_m$ is the Vandermonde determinant of distinct
residues, and so is the determinant of $d + 1$ rows
$(u_m, \epsilon_m - b_m) \equiv (1, m, \dots, m^d)$. A number that is not 0 modulo $p$ is not 0. For
fewer vectors, take the leading columns. $\square$

*With bias.* Keys $i$ and $i + 1$ of head $m$ tie on
$\langle u_m, x \rangle = p(2i+1) - \epsilon_m$, and there are no other walls, so head $m$ cuts
$\mathbb R^d$ into $n_m$ slabs. By the lemma, the classes of parallel hyperplanes are in general
position. Hence the number of cells is $\sum_{j \le d} e_j(n_0 - 1, n_1 - 1, \dots)$, the largest
possible number (`cells_with_bias`).

*Without bias.* In one more dimension, treat the offset as the last coordinate of the slope. For
directions $(x, 1)$, the winners are as above. For directions $(x, -1)$, the score of $i$ is convex
in $i$, so the first or the last key wins. If head $m$ has at least two keys, it then has one wall,
the hyperplane $\langle u_m, x\rangle = \epsilon_m - b_m$ with $p \mid b_m$. These $H$ hyperplanes
are in general position by the lemma (replace $x$ by $-x$), which yields $\sum_{j\le d}\binom Hj$
cells. A cell lies on both sides exactly if it meets the directions $(x, 0)$. There, too, the first
or the last key wins, and the hyperplanes $\langle u_m, x\rangle = 0$ yield
$2\sum_{j \le d-1}\binom{H-1}{j}$ cells. Hence there are

$$\sum_{j\le d} e_j + \sum_{j\le d}\tbinom Hj - 2\sum_{j\le d-1}\tbinom{H-1}j
  = \sum_{j \le d} e_j + \tbinom{H-1}{d}$$

cells in $\mathbb R^{d+1}$, the largest possible number (`cells_bias_free`). $\square$
"""

from itertools import count

import numpy as np

from hardmax._ground.arguments import integer
from hardmax.bounds.sizes import Bias, HeadSizes, read_bias, read_integers
from hardmax.constructions.families.model_sizes import OBJECT_NUMBERS, refuse_size
from hardmax.errors import ArgumentError, ShapeMismatchError
from hardmax.models.heads import AttentionHead
from hardmax.typing import FloatArray

_EXACT = 2**53
"""Integers up to this size are float64 numbers."""


def extremal_points(n_points: HeadSizes, n_polytopes: int | None, dim: int) -> list[FloatArray]:
    r"""Return point sets whose Minkowski sum has the maximum number of vertices.

    The vertices of $P_1 + \dots + P_H$ correspond to the routing cells of a bias-free layer with
    these points as slopes. Their number is exactly
    `bounds.cells_bias_free(n_points, n_polytopes, dim)`; the proof is at the top of this module.
    All points of a set lie on a parabola in a plane (on a line if `dim` is 1), and all coordinates
    are integers.

    Args:
        n_points: The number of points $n_h \ge 1$ in each set: one number for all sets, or a
            sequence with one number per set.
        n_polytopes: The number of sets $H \ge 1$. It can be None if `n_points` is a sequence.
        dim: The dimension $d \ge 1$.

    Returns:
        One array of shape `(n_points, dim)` per set.

    Raises:
        DtypeError: If a size is not an integer.
        ArgumentError: If a size is below 1, or so large that float64 would round a coordinate.
        SizeLimitError: If there would be more than $2^{28}$ numbers to store.

    References:
        [Wei12] for the bound; [MRZ22] for classes of parallel hyperplanes.

    Examples:
        For three sets of six points in three dimensions, the sum has 92 vertices, not $6^3$:

        >>> from hardmax import minkowski_vertices
        >>> sets = extremal_points(6, 3, 3)
        >>> minkowski_vertices(sets).count
        92
        >>> sets[2].astype(int).tolist()
        [[-2, -4, -14], [-1, -2, -4], [0, 0, 0], [1, 2, -2], [2, 4, -10], [3, 6, -24]]

        The sizes may differ. A set with one point only translates the sum:

        >>> minkowski_vertices(extremal_points([5, 1, 2, 3], None, 2)).count
        10
    """
    sizes = _read_sizes("n_points", n_points, "n_polytopes", n_polytopes)
    dim = integer("dim", dim, at_least=1)
    refuse_size(
        (sum(sizes) + len(sizes)) * dim,
        n_points=max(sizes),
        n_polytopes=len(sizes),
        dim=dim,
    )
    prime = _find_prime(len(sizes))
    return [
        np.column_stack([np.outer(i, direction[:-1]), _parabola_offsets(i, direction[-1], prime)])
        for i, direction in _choose_parabolas(sizes, dim, prime)
    ]


def extremal_heads(
    n_keys: HeadSizes, n_heads: int | None, dim: int, *, bias: Bias = "query"
) -> list[AttentionHead]:
    r"""Return heads that together have the maximum number of routing cells.

    The number of cells on $\mathbb R^d$ is exactly
    `bounds.attention_cells(n_keys, n_heads, dim, bias=bias)`, which is `cells_with_bias` with a
    query bias or a logit bias, and `cells_bias_free` without bias. The proof is at the top of this
    module. Heads have $d_k = 2$, or $d_k = 1$ with a logit bias.

    Head $m$ writes the index of its winner to coordinate $m$ of its output in $\mathbb R^H$. Hence
    the layer without residual connection has a different value in every cell.

    Args:
        n_keys: The number of keys $n_h \ge 1$ of each head: one number for all heads, or a sequence
            with one number per head.
        n_heads: The number of heads $H \ge 1$. It can be None if `n_keys` is a sequence.
        dim: The dimension $d \ge 1$ of the query token.
        bias: The kind of bias of the heads: `"query"`, `"logit"` or `"none"`.

    Raises:
        DtypeError: If a size is not an integer.
        ArgumentError: If a size is below 1, or so large that float64 would round a weight, or
            `bias` is unknown.
        SizeLimitError: If there would be more than $2^{28}$ numbers to store.

    References:
        [MRZ22]; [Wei12].

    Examples:
        >>> from hardmax.geometry import common_refinement
        >>> heads = extremal_heads(6, 3, 2)
        >>> heads[0]
        AttentionHead(R^2 -> R^3, 6 keys in R^2)
        >>> common_refinement([head.forms for head in heads]).count
        91
        >>> common_refinement([head.forms for head in extremal_heads([3, 1], None, 1)]).count
        3
    """
    sizes = _read_sizes("n_keys", n_keys, "n_heads", n_heads)
    dim = integer("dim", dim, at_least=1)
    outputs = (3 * dim + 2 * len(sizes)) * len(sizes)
    refuse_size(3 * sum(sizes) + outputs, n_keys=max(sizes), n_heads=len(sizes), dim=dim)
    bias = read_bias(bias)
    prime = _find_prime(len(sizes))
    heads = []
    slots = np.eye(len(sizes))
    # Without bias, the last coordinate of the token replaces the constant 1.
    space = dim if bias == "none" else dim + 1
    for slot, (i, direction) in zip(slots, _choose_parabolas(sizes, space, prime), strict=True):
        values, output = np.arange(len(i), dtype=np.float64)[:, None], slot[None]
        lifted = np.column_stack([direction, np.eye(1, space, space - 1)[0]])
        keys = np.column_stack([i, -prime * i**2])
        if bias == "none":
            heads.append(AttentionHead(lifted, keys, values, output))
        elif bias == "query":
            heads.append(AttentionHead(lifted[:-1], keys, values, output, query_bias=lifted[-1]))
        else:
            offsets = _parabola_offsets(i, direction[-1], prime)
            heads.append(
                AttentionHead(lifted[:-1, :1], keys[:, :1], values, output, logit_bias=offsets)
            )
    return heads


def _choose_parabolas(
    sizes: tuple[int, ...], dim: int, prime: int
) -> list[tuple[FloatArray, FloatArray]]:
    """Return, for each head, the numbers of its keys and its direction, with the tilt appended."""
    return [
        (
            np.arange(-((n - 1) // 2), n // 2 + 1, dtype=np.float64),
            np.array([pow(m, k, prime) for k in range(dim)], dtype=np.float64),
        )
        for m, n in enumerate(sizes)
    ]


def _parabola_offsets(i: FloatArray, tilt: float, prime: int) -> FloatArray:
    return np.asarray(tilt * i - prime * i**2)


def _read_sizes(
    points_name: str, n_points: HeadSizes, sets_name: str, n_sets: int | None
) -> tuple[int, ...]:
    if n_sets is not None:
        n_sets = integer(sets_name, n_sets, at_least=1)
    if isinstance(n_points, int | np.integer):
        size = integer(points_name, n_points, at_least=1)
        if n_sets is None:
            raise ArgumentError(
                f"`{sets_name}` is required if `{points_name}` is a single number; got None."
            )
        refuse_size((size + OBJECT_NUMBERS) * n_sets, **{points_name: size, sets_name: n_sets})
        sizes: tuple[int, ...] = (size,) * n_sets
    else:
        sizes = read_integers(points_name, n_points, at_least=1)
        if n_sets is not None and len(sizes) != n_sets:
            raise ShapeMismatchError(
                f"`{points_name}` must have one entry per set, {sets_name} = {n_sets}; got "
                f"{len(sizes)} entries."
            )
    # A generous bound: |i| <= n / 2, and every factor of i is below 2 H.
    largest = 2 * len(sizes) * max(sizes) ** 2
    if largest > _EXACT:
        raise ArgumentError(
            f"`{points_name}` must keep the coordinates below 2^53, so that they are exact in "
            f"float64; got {max(sizes)} for {len(sizes)} sets, with coordinates up to {largest}."
        )
    return sizes


def _find_prime(least: int) -> int:
    """Return the smallest prime that is at least `least` (less than twice `least` if above 1)."""
    return next(n for n in count(max(least, 2)) if all(n % q for q in range(2, int(n**0.5) + 1)))
