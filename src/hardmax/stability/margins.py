r"""Distances of points from the walls of the hard partition, in scores and in the input space."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax._ground.arguments import read_only_copy
from hardmax._ground.display import html_card
from hardmax.exact.dyadic import homogeneous_points, root_below, round_below
from hardmax.geometry.domains import WholeSpace
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.evaluation import cell_signature
from hardmax.models.model_arguments import read_network
from hardmax.models.points import PointBatch
from hardmax.regions.cell_rows import Wall, cell_rows
from hardmax.regions.charted_domains import ChartedDomain, charted
from hardmax.stability.cells.cell_gaps import cell_gaps
from hardmax.stability.models import head_names
from hardmax.typing import ArrayLike, BoolArray, FloatArray, IntArray, ModelLike


@dataclass(frozen=True, eq=False, repr=False)
class Margins:
    """Distances of points from the walls of a hard model.

    Attributes:
        signatures: The signature of the cell of each point; shape `(n_points, n_groups)`.
        is_inside: Whether each point lies in the interior of its cell; False on a wall. Shape
            `(n_points,)`.
        heads: The pair `(layer, group)` of every head.
        scores: The margin of the winner of each head, rounded down. It is 0 on a wall of any group,
            and `inf` if the head has no other winner. Shape `(n_points, n_heads)`.
        distances: The Euclidean distance to the nearest wall of any head or unit, rounded down. It
            is 0 on a wall, and `inf` if the cell is the whole space. Shape `(n_points,)`.
        walls: For each point the nearest walls, as pairs `(layer, group)`; empty for a point on a
            wall.

    Examples:
        >>> from hardmax import AttentionHead, Box
        >>> sign = AttentionHead([[1.0]], [[-1.0], [1.0]], [[-1.0], [1.0]], [[1.0]])
        >>> measure_margins(sign, [[2.0], [0.0]]).scores.ravel().tolist()
        [4.0, 0.0]
    """

    signatures: IntArray
    is_inside: BoolArray
    heads: tuple[Wall, ...]
    scores: FloatArray
    distances: FloatArray
    walls: tuple[tuple[Wall, ...], ...]

    _repr_html_ = html_card

    def __repr__(self) -> str:
        n = len(self.distances)
        least = float(self.distances.min(initial=np.inf))
        return f"Margins({n} point{'s' * (n != 1)}, nearest wall at {least:.3g})"


def measure_margins(model: ModelLike, x: ArrayLike) -> Margins:
    r"""Measure the distance of points from the walls of the hard partition.

    A cell is $\{y : \langle a_i, y\rangle + c_i > 0\}$, and the distance of a point $x$ of the cell
    from its boundary is $\min_i (\langle a_i, x\rangle + c_i)/\|a_i\|$, even if some rows are
    redundant. The rows are composed from the stored weights without rounding.

    Args:
        model: A model, as for `enumerate_regions`.
        x: A point of shape `(dim_in,)`, or a batch of shape `(n_points, dim_in)`.

    Returns:
        The margins. Their arrays have one row for each point.

    Examples:
        >>> from hardmax import ReluNetwork
        >>> absolute = ReluNetwork([[[3.0, -3.0], [4.0, -4.0]], [[1.0], [1.0]]])
        >>> margins = measure_margins(absolute, [[1.0, 0.5], [0.0, 0.0]])
        >>> margins.distances.tolist(), margins.walls
        ([1.0, 0.0], (((0, 0), (0, 1)), ()))
    """
    network = read_network(model)
    points = PointBatch.read("x", x, network.dim_in).rows
    space = charted(WholeSpace(network.dim_in), network.dim_in)
    signatures, inside = cell_signature(network, points)
    heads = head_names(network)
    scores = np.zeros((len(points), len(heads)))
    distances = np.zeros(len(points))
    walls: list[tuple[Wall, ...]] = [()] * len(points)
    cells: dict[tuple[int, ...], list[int]] = {}
    for i, name in enumerate(signatures.tolist()):
        cells.setdefault(tuple(name), []).append(i)
    for name, members in cells.items():
        _measure_cell(network, space, name, points, members, scores, distances, walls)
    outside = np.flatnonzero(~inside)
    scores[outside], distances[outside] = 0.0, 0.0
    for i in outside.tolist():
        walls[i] = ()
    return Margins(
        signatures, inside, heads, read_only_copy(scores), read_only_copy(distances), tuple(walls)
    )


def _measure_cell(
    network: ArgmaxNetwork,
    space: ChartedDomain,
    name: tuple[int, ...],
    points: FloatArray,
    members: list[int],
    scores: FloatArray,
    distances: FloatArray,
    walls: list[tuple[Wall, ...]],
) -> None:
    """Compute scores, distances and walls for the points of one cell, in place."""
    gaps = cell_gaps(network, space, name)
    rows = [(row, named) for row, named in cell_rows(network, space, name).walls.items()]
    lengths = [sum(x * x for x in row[:-1]) for row, _ in rows]
    for i, point in zip(members, homogeneous_points(points[members]).tolist(), strict=True):
        least: list[Fraction | None] = [None] * scores.shape[1]
        for gap in gaps.gaps:
            height = sum(a * b for a, b in zip(gap.row, point, strict=True))
            value = gap.unit * Fraction(height, point[-1])
            known = least[gap.head]
            least[gap.head] = value if known is None else min(known, value)
        scores[i] = [np.inf if value is None else max(round_below(value), 0.0) for value in least]
        squares = [
            Fraction(
                sum(a * b for a, b in zip(row, point, strict=True)) ** 2, length * point[-1] ** 2
            )
            for (row, _), length in zip(rows, lengths, strict=True)
            if length
        ]
        if not squares:
            distances[i] = np.inf
            continue
        nearest = min(squares)
        distances[i] = root_below(nearest)
        steep = [named for (_, named), length in zip(rows, lengths, strict=True) if length]
        walls[i] = tuple(
            sorted(
                {w for named, s in zip(steep, squares, strict=True) if s == nearest for w in named}
            )
        )
