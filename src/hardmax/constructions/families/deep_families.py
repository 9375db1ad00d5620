r"""Maxout networks whose number of pieces multiplies with every layer, with exact float64 weights.

Each layer maps $[0, 1]$ onto itself several times, so it cuts every piece of the previous layers
into the same number of pieces. If this number is a power of two, equal pieces are exact in float64;
for two pieces, the layer is a tent. For other numbers, the usual zigzag has kinks at $k / n$, which
float64 rounds, and the rounded kinks of one layer miss the ends of the pieces of the previous
layer. Instead, the pieces here have lengths that are powers of two: the $n$ leaves of a binary tree
have depths $a_i$ with $\sum_i 2^{-a_i} = 1$, and the slopes $\pm 2^{a_i}$ map every piece onto
$[0, 1]$ without rounding.
"""

from math import prod

import numpy as np

from hardmax._ground.arguments import integer
from hardmax.errors import SizeLimitError
from hardmax.models.networks import MaxoutNetwork
from hardmax.typing import FloatArray

_EXACT_BITS = 53


def tent_network(depth: int) -> MaxoutNetwork:
    r"""Return the tent map iterated `depth` times, which has $2^{depth}$ pieces on $[0, 1]$.

    Each hidden layer has one unit of rank 2, $h \mapsto \max(2h - 1, 1 - 2h)$, and the output is
    $1 - h$. All weights are $\pm 1$ and $\pm 2$.

    Args:
        depth: The number of hidden layers, from 1 to 52. (In deeper networks, pieces would be
            shorter than the distance between floats.)

    References:
        [Tel16] introduced the tent as a deep network.

    Examples:
        >>> tent_network(1)([[0.0], [0.25], [0.5], [1.0]]).ravel().tolist()
        [0.0, 0.5, 1.0, 0.0]
        >>> tent_network(3)([[0.125], [0.25]]).ravel().tolist()
        [1.0, 0.0]
    """
    n = integer("depth", depth, at_least=1, at_most=_EXACT_BITS - 1)
    unit = np.array([[2.0], [-2.0]])
    weights = [*([unit] for _ in range(n)), [[-1.0]]]
    return MaxoutNetwork(weights, [*([[-1.0, 1.0]] for _ in range(n)), [1.0]])


def zigzag_network(dim: int, rank: int, depth: int) -> MaxoutNetwork:
    r"""Return a network with $(2\,rank - 1)^{dim \cdot depth}$ regions on the unit cube.

    Each layer applies the same zigzag function to every coordinate. The zigzag maps each of its
    $2\,rank - 1$ pieces onto $[0, 1]$, and is a difference of two maxima of `rank` forms. The width
    is $2\,dim$, and all weights are exact.

    Args:
        dim: The dimension, at least 1.
        rank: The rank of the units, at least 2.
        depth: The number of hidden layers, at least 1.

    Raises:
        SizeLimitError: If pieces would be shorter than the distance between floats below 1.

    References:
        The construction follows [MPCB14].

    Examples:
        >>> net = zigzag_network(1, 2, 2)
        >>> net
        MaxoutNetwork(1 -> [2, 2] -> 1, ranks 2 to 2)
        >>> net([[0.0], [0.25], [0.5], [1.0]]).ravel().tolist()
        [0.0, 1.0, 1.0, 1.0]
    """
    n_coordinates = integer("dim", dim, at_least=1)
    n_forms = integer("rank", rank, at_least=2)
    n = integer("depth", depth, at_least=1)
    depths = leaf_depths(2 * n_forms - 1)
    bits = n * max(depths)
    if bits >= _EXACT_BITS:
        raise SizeLimitError(
            f"the shortest of {(2 * n_forms - 1) ** n} pieces would have length 2^-{bits}, but "
            f"floats below 1 have distance 2^-{_EXACT_BITS}. Choose a smaller `depth` or `rank`."
        )
    above, below = _zigzag_forms(depths)
    layers = []
    for index in range(n):
        units = []
        for k in range(n_coordinates):
            # After the first layer, a coordinate is the difference of two units.
            carrier = np.zeros(n_coordinates if index == 0 else 2 * n_coordinates)
            if index == 0:
                carrier[k] = 1.0
            else:
                carrier[2 * k], carrier[2 * k + 1] = 1.0, -1.0
            units += [np.outer(side[:, 0], carrier) for side in (above, below)]
        layers.append(units)
    readout = np.kron(np.eye(n_coordinates), [[1.0], [-1.0]])
    biases = [[above[:, 1], below[:, 1]] * n_coordinates for _ in range(n)]
    return MaxoutNetwork([*layers, readout], [*biases, None])


def zigzag_regions(dim: int, rank: int, depth: int) -> int:
    """Return the number of regions of `zigzag_network(dim, rank, depth)` on the unit cube.

    Examples:
        >>> zigzag_regions(2, 2, 2), zigzag_regions(1, 4, 3)
        (81, 343)
    """
    sizes = [integer("dim", dim, at_least=1), integer("depth", depth, at_least=1)]
    return int((2 * integer("rank", rank, at_least=2) - 1) ** prod(sizes))


def leaf_depths(n_leaves: int) -> list[int]:
    r"""Return the depths $a_i$ of the leaves of a balanced binary tree: $\sum_i 2^{-a_i} = 1$.

    Examples:
        >>> leaf_depths(3), leaf_depths(5)
        ([1, 2, 2], [2, 2, 2, 3, 3])
    """
    low = n_leaves.bit_length() - 1
    split = n_leaves - 2**low
    return [low] * (2**low - split) + [low + 1] * (2 * split)


def _zigzag_forms(depths: list[int]) -> tuple[FloatArray, FloatArray]:
    r"""Return the forms $(a, c)$ of the two maxima whose difference is the zigzag 0, 1, 0, ..."""
    slopes = [(-1.0) ** k * 2.0**a for k, a in enumerate(depths)]
    kinks = np.cumsum([2.0**-a for a in depths])[:-1]
    above, below = [np.array([slopes[0], 0.0])], [np.zeros(2)]
    for t, before, after in zip(kinks.tolist(), slopes[:-1], slopes[1:], strict=True):
        jump = abs(after - before)
        side = above if after > before else below
        side.append(side[-1] + np.array([jump, -jump * t]))
    return np.stack(above), np.stack(below)
