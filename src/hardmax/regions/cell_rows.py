"""The inequalities of a cell, recomposed exactly from its signature, and their names."""

from collections.abc import Sequence
from typing import NamedTuple

from hardmax._ground.display import short_repr
from hardmax.errors import ArgumentError
from hardmax.exact.integer_vectors import Vector, primitive
from hardmax.models._arithmetic.recomposition import RationalForms, layer_output, layer_scores
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions.charted_domains import ChartedDomain, embedded
from hardmax.typing import IntArray

Wall = tuple[int, int]
"""`(layer, group)`: whose decision changes; `(-1, i)` is row `i` of the domain."""


class CellRows(NamedTuple):
    r"""A cell as $\{t : \langle a, t\rangle + c > 0\}$ for rows $(a, c)$.

    Attributes:
        walls: The distinct primitive rows, each with the walls on its hyperplane, in order.
        stream: The stream after the last layer as forms on the domain.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> part = enumerate_regions(net, Box([-1, -1], [1, 1]))
        >>> list(part.rows(3).walls.items())[-2:]
        [((1, 1, 0), [(0, 0)]), ((1, -1, 0), [(0, 1)])]
    """

    walls: dict[Vector, list[Wall]]
    stream: RationalForms

    def __repr__(self) -> str:
        return short_repr(self)


def cell_rows(
    network: ArgmaxNetwork, domain: ChartedDomain, signature: Sequence[int] | IntArray
) -> CellRows:
    """Return the inequalities of the cell of a signature; the cell is empty if one says 0 > 0.

    A rival that coincides with the winner on the domain makes no row, nor does one that is lower
    by a constant.

    Raises:
        ArgumentError: If a winner is not the first of the forms that coincide with it.
    """
    walls: dict[Vector, list[Wall]] = {}
    for i, row in enumerate(domain.cone_rows[:-1]):
        walls.setdefault(row, []).append((-1, i))
    stream = embedded(network, domain)
    position = 0
    for index, layer in enumerate(network.layers):
        scores = layer_scores(layer, stream)
        winners = [int(w) for w in signature[position : position + layer.n_groups]]
        for group, winner in enumerate(winners):
            start, end = int(layer.starts[group]), int(layer.starts[group + 1])
            best = scores.rows[start + winner]
            for form, rival in enumerate(scores.rows[start:end]):
                if rival == best:
                    if form < winner:
                        raise ArgumentError(
                            f"`signatures` must name a cell by the first of coinciding forms; got "
                            f"{winner} for {form} in column {position + group}."
                        )
                    continue
                row = primitive(int(b - r) for b, r in zip(best, rival, strict=True))
                if any(row[:-1]) or row[-1] < 0:
                    named = walls.setdefault(row, [])
                    if (index, group) not in named:
                        named.append((index, group))
        stream = layer_output(layer, stream, scores, winners)
        position += layer.n_groups
    return CellRows(walls, stream)
