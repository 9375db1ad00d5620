r"""Maxout networks whose pieces multiply with every layer, with weights that float64 holds exactly.

Each layer maps an interval onto $[0, 1]$ several times, so every piece of the layers before is cut
into as many. For a power of two of equal pieces that is a tent; for other counts the usual zigzag
has kinks at $k / n$, which float64 rounds, and rounded kinks of one layer miss the ends of the
pieces of the one before. Here the pieces have lengths that are powers of two instead: $n$ leaves of
a binary tree have depths $a_i$ with $\sum_i 2^{-a_i} = 1$, and the slopes $\pm 2^{a_i}$ map every
piece onto $[0, 1]$ without rounding.
"""

from math import prod

import numpy as np

from hardmax._ground.arguments import integer
from hardmax.errors import SizeLimitError
from hardmax.models.networks import MaxoutNetwork
from hardmax.typing import FloatArray

_EXACT_BITS = 53


def tent_network(depth: int) -> MaxoutNetwork:
    r"""Return the tent map applied `depth` times: $2^{depth}$ pieces on $[0, 1]$ from rank 2.

    The hidden layers have one unit each, $h \mapsto \max(2h - 1, 1 - 2h)$, and the output is
    $1 - h$. All weights are $\pm 1$ and $\pm 2$.

    Args:
        depth: The number of hidden layers, from 1 to 52 (beyond, pieces are shorter than the
            distance of floats).

    References:
        The tent as a deep network is [Tel16].

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

    Every coordinate goes `depth` times through the same zigzag of $2\,rank - 1$ pieces onto
    $[0, 1]$, a difference of two maxima of `rank` forms. The width is $2\,dim$, and all weights are
    exact.

    Args:
        dim: The dimension, at least 1.
        rank: The rank of the units, at least 2.
        depth: The number of hidden layers, at least 1.

    Raises:
        SizeLimitError: If pieces would be shorter than the distance of floats below 1.

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
            f"the shortest of {(2 * n_forms - 1) ** n} pieces would have length 2^-{bits}, less "
            f"than the distance 2^-{_EXACT_BITS} of floats below 1; lower `depth` or `rank`."
        )
    above, below = _zigzag(depths)
    layers = []
    for index in range(n):
        units = []
        for k in range(n_coordinates):
            # After the first layer a coordinate arrives as the difference of two units.
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
    """Return how many regions `zigzag_network(dim, rank, depth)` has on the unit cube.

    Examples:
        >>> zigzag_regions(2, 2, 2), zigzag_regions(1, 4, 3)
        (81, 343)
    """
    sizes = [integer("dim", dim, at_least=1), integer("depth", depth, at_least=1)]
    return int((2 * integer("rank", rank, at_least=2) - 1) ** prod(sizes))


def leaf_depths(n_leaves: int) -> list[int]:
    r"""Return depths $a_i$ of the leaves of a balanced binary tree: $\sum_i 2^{-a_i} = 1$.

    Examples:
        >>> leaf_depths(3), leaf_depths(5)
        ([1, 2, 2], [2, 2, 2, 3, 3])
    """
    low = n_leaves.bit_length() - 1
    split = n_leaves - 2**low
    return [low] * (2**low - split) + [low + 1] * (2 * split)


def _zigzag(depths: list[int]) -> tuple[FloatArray, FloatArray]:
    r"""Return the two maxima of the zigzag through $0, 1, 0, \dots$: forms $(a, c)$ in rows."""
    slopes = [(-1.0) ** k * 2.0**a for k, a in enumerate(depths)]
    kinks = np.cumsum([2.0**-a for a in depths])[:-1]
    above, below = [np.array([slopes[0], 0.0])], [np.zeros(2)]
    for t, before, after in zip(kinks.tolist(), slopes[:-1], slopes[1:], strict=True):
        jump = abs(after - before)
        side = above if after > before else below
        side.append(side[-1] + np.array([jump, -jump * t]))
    return np.stack(above), np.stack(below)
