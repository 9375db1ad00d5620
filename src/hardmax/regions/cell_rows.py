"""The exact inequalities of a cell, composed from its signature, and their walls."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from hardmax._ground.display import short_repr
from hardmax.errors import ArgumentError
from hardmax.exact.integer_vectors import Vector, primitive
from hardmax.models._arithmetic.recomposition import RationalForms, layer_output, layer_scores
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions.charted_domains import ChartedDomain, embedded
from hardmax.typing import AnyArray, IntArray

Wall = tuple[int, int]
"""`(layer, group)`: the group whose winner changes; `(-1, i)`: row `i` of the domain."""


class CellRows(NamedTuple):
    r"""A cell as the set $\{t : \langle a, t\rangle + c > 0\}$ for rows $(a, c)$.

    Attributes:
        walls: The distinct rows, as primitive integer vectors, each with the walls that lie in its
            hyperplane, in order.
        stream: The stream after the last layer, as forms on the domain.

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
    r"""Return the inequalities of the cell with a given signature.

    If the signature has no cell, the inequalities have no common solution; one of them may read
    $c > 0$ with a negative $c$. There is no row for a rival that coincides with the winner on the
    domain, or that is smaller by a constant.

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
                            "`signatures` must contain the first of several coinciding forms, "
                            f"which is {form} in column {position + group}; got {winner}."
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


class ExactLayers:
    """The exact streams and scores of a network on cells, visited one after the other.

    If the winners of the first layers are those of the previous cell, these layers are not composed
    again. If cells are visited in the order of their signatures, each costs about one layer.

    Args:
        network: The network.
        domain: A domain in its input space.

    Examples:
        >>> import numpy as np
        >>> from hardmax import Box, ReluNetwork
        >>> from hardmax.regions.charted_domains import charted
        >>> net = ReluNetwork([[[1.0, 2.0]], [[1.0], [1.0]]], [[0.0, 1.0], [0.0]]).network
        >>> layers = ExactLayers(net, charted(Box([-1], [1]), 1))
        >>> layers.rows_of(np.array([1, 0]), [(0, 0), (1, 1)])
        {(1, 0): [(0, 0)], (-2, -1): [(0, 1)]}
        >>> layers.output(np.array([1, 0])).rounded().tolist()
        [[1.0, 0.0]]
    """

    def __init__(self, network: ArgmaxNetwork, domain: ChartedDomain) -> None:
        self.network, self.domain = network, domain
        self._held: dict[int, tuple[bytes, RationalForms, RationalForms]] = {}

    @cached_property
    def _first_group(self) -> list[int]:
        """The number of groups before each layer, and the total."""
        return list(accumulate((layer.n_groups for layer in self.network.layers), initial=0))

    def layer(self, index: int, signature: AnyArray) -> tuple[RationalForms, RationalForms]:
        """Return the stream before a layer and the scores of the layer, on the cell's winners."""
        for i, layer in enumerate(self.network.layers[: index + 1]):
            name = signature[: self._first_group[i]].tobytes()
            if i not in self._held or self._held[i][0] != name:
                stream = self._after(i - 1, signature)
                self._held[i] = name, stream, layer_scores(layer, stream)
        return self._held[index][1:]

    def output(self, signature: AnyArray) -> RationalForms:
        """Return the output on the cell of a signature."""
        last = len(self.network.layers) - 1
        if last >= 0:
            self.layer(last, signature)
        return self._after(last, signature).compose(self.network.readout)

    def rows_of(
        self, signature: AnyArray, rivals: Iterable[tuple[int, int]]
    ) -> dict[Vector, list[Wall]]:
        """Return rows that are positive on the cell of a signature, with their walls.

        Args:
            signature: The winners of all groups.
            rivals: Pairs of a group, counted over all layers, and the index of a form of the group
                that does not coincide with the winner.
        """
        rows: dict[Vector, list[Wall]] = {}
        for number, rival in sorted(rivals):
            index = next(i for i, end in enumerate(self._first_group[1:]) if number < end)
            group = number - self._first_group[index]
            scores = self.layer(index, signature)[1].rows
            start = int(self.network.layers[index].starts[group])
            pairs = zip(scores[start + int(signature[number])], scores[start + rival], strict=True)
            walls = rows.setdefault(primitive(int(best - other) for best, other in pairs), [])
            walls.append((index, group))
        return rows

    def _after(self, index: int, signature: AnyArray) -> RationalForms:
        """Return the stream after a layer whose scores are cached, or before layer 0 for -1."""
        if index < 0:
            return embedded(self.network, self.domain)
        winners = signature[self._first_group[index] : self._first_group[index + 1]].tolist()
        return layer_output(self.network.layers[index], *self._held[index][1:], winners)
