r"""The classes of a model: where which of its outputs is the largest.

The maximum of the outputs is one more argmax layer. Its cells cut the cells of the model into
pieces on which the class is constant, and the walls between pieces of different classes are the
decision boundary. All of it is exact, jumps of hard attention included.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hardmax._ground.display import format_card, pluralize
from hardmax._ground.pickling import DropsCachesOnPickle
from hardmax._ground.progress import track
from hardmax.errors import ArgumentError
from hardmax.exact.dyadic import nearest_floats
from hardmax.geometry.polytopes import Polytope
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.layer_words import LayerWords
from hardmax.regions._location.signature_index import SignatureIndex
from hardmax.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from hardmax.regions.partition import Partition

_WORDS = LayerWords("decision", "maximum", "output")


@dataclass(frozen=True, eq=False, repr=False)
class Decision(DropsCachesOnPickle):
    """The cells of a model, cut where the largest output changes.

    Attributes:
        partition: The pieces, as the cells of the model followed by the maximum of its outputs.
            The last entry of a signature is the class: the index of the largest output, the first
            if several outputs are equal on the whole piece.
        cell_of: The index of the cell of the model that contains each piece, shape `(n_pieces,)`.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0, -1.0]], [[1.0, 0.0], [0.0, 2.0]]], [None, [0.0, -1.0]])
        >>> part = enumerate_regions(net, Box([-2], [2]))
        >>> part.decision
        Decision(3 pieces of 2 cells, 2 classes)
        >>> part.decision.classes.tolist(), part.decision.cell_of.tolist(), part.classes.tolist()
        ([1, 0, 0], [0, 0, 1], [-1, 0])
        >>> part.decision_boundary.tolist()
        [[-0.5]]
    """

    partition: "Partition"
    cell_of: IntArray

    def __repr__(self) -> str:
        pieces = pluralize(self.partition.n_found, "piece")
        cells = pluralize(len(np.unique(self.cell_of)), "cell")
        n_classes = len(np.unique(self.classes))
        return f"Decision({pieces} of {cells}, {n_classes} class{'es' * (n_classes != 1)})"

    def _repr_html_(self) -> str:
        return format_card(repr(self), {"dimension": str(self.partition.domain.dim)})

    @cached_property
    def classes(self) -> IntArray:
        """The index of the largest output on each piece, shape `(n_pieces,)`."""
        return np.asarray(self.partition.signatures[:, -1], dtype=np.int64)

    @cached_property
    def walls(self) -> IntArray:
        """The pairs of adjacent pieces with different classes: shape `(n_walls, 2)`."""
        pairs = self.partition.neighbours.pairs
        is_wall = self.classes[pairs[:, 0]] != self.classes[pairs[:, 1]]
        return np.asarray(pairs[is_wall])

    @cached_property
    def boundary_pieces(self) -> tuple[Polytope, ...]:
        """The decision boundary between each pair in `walls`, as exact polytopes."""
        part = self.partition
        dim = part.domain.dim
        found = []
        for i, j in track(self.walls.tolist(), "walls"):
            rows = [*part.rows(i).walls, *part.rows(j).walls]
            found.append(Polytope.from_rows([(*(-x for x in r[:-1]), r[-1]) for r in rows], dim))
        return tuple(found)

    @cached_property
    def boundary(self) -> FloatArray:
        """The decision boundary, rounded: points `(n, 1)` or segments of a plane `(n, 2, 2)`.

        Raises:
            ArgumentError: If the domain has more than two dimensions, or if a piece of the boundary
                is unbounded. `boundary_pieces` has exact polytopes for every domain.
        """
        dim = self.partition.domain.dim
        if dim > 2:
            raise ArgumentError(
                "`boundary` requires a domain of dimension 1 or 2; this domain has dimension "
                f"{dim}. Use `boundary_pieces`, or a `Slice`."
            )
        if dim == 1:
            return self._boundary_points()
        if not all(piece.is_bounded for piece in self.boundary_pieces):
            raise ArgumentError(
                "`boundary` requires a bounded decision boundary; on this domain, parts of it are "
                "rays or lines. Use `boundary_pieces`, or search a `Box`."
            )
        ends = [piece.vertices for piece in self.boundary_pieces]
        return np.array(ends, dtype=np.float64).reshape(-1, 2, 2)

    def _boundary_points(self) -> FloatArray:
        # On a line, two pieces are adjacent if there is no other piece between them.
        points = self.partition.exact_witnesses[:, 0].tolist()
        order = sorted(range(len(points)), key=points.__getitem__)
        is_wall = [self.classes[i] != self.classes[j] for i, j in pairwise(order)]
        return nearest_floats(self.partition.breakpoints[np.flatnonzero(is_wall)]).reshape(-1, 1)


def with_decision(network: ArgmaxNetwork) -> ArgmaxNetwork:
    """Return a network followed by the maximum of its outputs, as one more group.

    Examples:
        >>> from hardmax import ReluNetwork
        >>> net = with_decision(ReluNetwork([[[1.0, -1.0]], [[1.0, 0.0], [0.0, 1.0]]]).network)
        >>> net.n_groups, net.dim_out, net.name_wall(1, 0, 1)
        (3, 1, 'decision, maximum 0, output 1')
    """
    n = network.dim_out
    layer = ArgmaxLayer(
        query=network.readout,
        slopes=np.eye(n),
        offsets=np.zeros(n),
        starts=np.array([0, n]),
        slots=np.array([0]),
        gains=np.ones(n),
        values=np.zeros((n, 1)),
        output=AffineMap.identity(1),
        residual=False,
    )
    whole = ArgmaxNetwork((*network.layers, layer), network.embedding, AffineMap.identity(1))
    return whole.with_words([*network.words, _WORDS])


def find_decision(partition: "Partition") -> Decision:
    """Find the pieces of a partition on which the class is constant.

    Args:
        partition: A complete partition with its cells stored.

    Raises:
        IncompleteError: If the search for the cells was stopped early.
        ArgumentError: If the cells were counted but not stored.
    """
    from hardmax.regions.engines import enumerate_regions

    partition.require_complete("decision")
    partition.require_stored()
    network, is_exact = with_decision(partition.network), partition.engine == "split_tree"
    pieces = enumerate_regions(network, partition.domain, exact=is_exact)
    cell_of = SignatureIndex.of(partition.signatures).find(pieces.signatures[:, :-1])
    return Decision(pieces, cell_of)


def classes_of_cells(decision: Decision, n_cells: int) -> IntArray:
    """Return the class on each cell, or -1 where a cell has several: shape `(n_cells,)`.

    Args:
        decision: The pieces of the cells.
        n_cells: The number of cells.
    """
    classes = np.full(n_cells, -1, dtype=np.int64)
    n_pieces = np.bincount(decision.cell_of, minlength=n_cells)
    is_alone = n_pieces[decision.cell_of] == 1
    classes[decision.cell_of[is_alone]] = decision.classes[is_alone]
    return classes
