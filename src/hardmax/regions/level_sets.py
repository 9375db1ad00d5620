r"""Where an output, or the difference of two, takes a value: exact pieces, cell by cell.

On each cell the output is affine, so its level set there is a slice of the closed cell by one
hyperplane. A hard transformer jumps, and its decision boundary also runs along walls where the
output passes the value without taking it: these pieces are found from the neighbours.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax._ground.arguments import integer, number
from hardmax._ground.display import html_card
from hardmax._ground.progress import track
from hardmax.exact.integer_vectors import Vector, primitive
from hardmax.geometry.polytopes import Polytope
from hardmax.models.argmax import AffineMap
from hardmax.regions.partition import Partition
from hardmax.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False, repr=False)
class LevelSet:
    """The pieces of a level set or of a decision boundary.

    Attributes:
        pieces: The pieces as exact polytopes in the domain's coordinates: of dimension one less
            than the domain, or a whole cell where the output is constant and has the value.
        cells: For each piece the cell on whose closure it was found, shape `(n_pieces,)`.
        across: For a piece of a wall where the output jumps past the value, the cell on the
            other side; -1 for all others. Shape `(n_pieces,)`.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0]], [[1.0]]])
        >>> found = level_set(enumerate_regions(net, Box([-1], [1])), value=0.5)
        >>> found.pieces[0].vertices.tolist(), found.cells.tolist(), found.across.tolist()
        ([[0.5]], [1], [-1])
    """

    pieces: tuple[Polytope, ...]
    cells: IntArray
    across: IntArray

    _repr_html_ = html_card

    def __repr__(self) -> str:
        jumps = int((self.across >= 0).sum())
        return f"LevelSet({len(self.pieces)} pieces, {jumps} of them jumps)"

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def segments(self) -> FloatArray:
        """In a plane, the bounded pieces that are segments, rounded: shape `(n, 2, 2)`."""
        ends = [p.vertices for p in self.pieces if p.dim == 1 and p.is_bounded]
        return np.array(ends, dtype=np.float64).reshape(-1, 2, 2)


def level_set(
    partition: Partition, output: int = 0, *, minus: int | None = None, value: float = 0.0
) -> LevelSet:
    r"""Find where an output equals a value, or jumps past it, exactly.

    With $g$ the output (minus another one) less the value, the pieces are $\{g = 0\}$ on the
    closure of every cell, of dimension at least $d - 1$, and the parts of walls with $g > 0$ on one
    side and $g < 0$ on the other. A piece on a wall is found from both sides of it. Costs one
    double description for each cell.

    Args:
        partition: All cells, stored.
        output: Which output, from 0.
        minus: Another output to subtract: the boundary between two classes.
        value: The level.

    Raises:
        IncompleteError: If the search for the cells was stopped early.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> tent = ReluNetwork([[[1.0, -1.0]], [[-1.0], [-1.0]]], [[0.0, 0.0], [1.0]])
        >>> part = enumerate_regions(tent, Box([-2], [2]))
        >>> found = level_set(part, value=0.25)
        >>> sorted(x for piece in found.pieces for x in piece.vertices.ravel().tolist())
        [-0.75, 0.75]
    """
    partition.require_complete("level_set")
    dim, dim_out = partition.domain.dim, partition.network.dim_out
    output = integer("output", output, at_least=0, at_most=dim_out - 1)
    weight = np.zeros((dim_out, 1))
    weight[output] = 1.0
    if minus is not None:
        weight[integer("minus", minus, at_least=0, at_most=dim_out - 1)] -= 1.0
    reading = AffineMap(weight, np.array([-number("value", value)]))
    forms: list[Vector] = []
    pieces: list[Polytope] = []
    cells: list[int] = []
    for cell in track(range(partition.n_found), "level set"):
        rows = partition.exact_map(cell).compose(reading).rows[0]
        forms.append(primitive(int(entry) for entry in rows))
        piece = partition.polytope(cell).intersection(_zero_set(forms[-1], dim))
        if piece.dim >= dim - 1:
            pieces.append(piece)
            cells.append(cell)
    across = [-1] * len(pieces)
    for piece, here, there in _jumps(partition, forms):
        pieces.append(piece)
        cells.append(here)
        across.append(there)
    return LevelSet(tuple(pieces), np.array(cells, np.int64), np.array(across, np.int64))


def _zero_set(form: Vector, dim: int) -> Polytope:
    return Polytope.from_rows([_at_most_zero(form), _at_least_zero(form)], dim)


def _at_most_zero(form: Vector) -> Vector:
    r"""Write $\langle a, t\rangle + c \le 0$ as a row of a polytope."""
    return (*form[:-1], -form[-1])


def _at_least_zero(form: Vector) -> Vector:
    return (*(-entry for entry in form[:-1]), form[-1])


def _jumps(partition: Partition, forms: list[Vector]) -> list[tuple[Polytope, int, int]]:
    """Find the parts of walls where the form is positive on one side and negative on the other."""
    if not any(layer.is_table.any() for layer in partition.network.layers):
        return []  # Units pass their maximum on: the output is continuous.
    dim = partition.domain.dim
    found = []
    for i, j in partition.neighbours.pairs.tolist():
        if forms[i] == forms[j]:
            continue
        shared = partition.polytope(i).intersection(partition.polytope(j))
        for above, below in ((i, j), (j, i)):
            signs = [_at_least_zero(forms[above]), _at_most_zero(forms[below])]
            piece = shared.intersection(Polytope.from_rows(signs, dim))
            if piece.dim == dim - 1 and _jumps_inside(piece, forms[above], forms[below]):
                found.append((piece, above, below))
    return found


def _jumps_inside(piece: Polytope, above: Vector, below: Vector) -> bool:
    """Whether both signs are strict in the relative interior: at one point means at all."""
    point = [*piece.interior_point.tolist(), 1]
    high = sum(a * x for a, x in zip(above, point, strict=True))
    low = sum(a * x for a, x in zip(below, point, strict=True))
    return bool(high > 0 > low)
