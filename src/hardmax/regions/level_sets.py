r"""Level sets of an output, or of the difference of two outputs, as exact pieces of cells.

On each cell the output is affine, so its level set there is the intersection of the closed cell
with one hyperplane. The output of a hard transformer may jump across a wall and pass the value
without taking it. The decision boundary contains such walls too; they are found from pairs of
neighbours.

The output at the vertices of all cells, in floats with proven error bounds, decides for most cells
whether they contain a piece. The remaining cells are decided in integers. The pieces themselves are
computed in integers when they are first used.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hardmax._ground.arguments import integer, number
from hardmax._ground.display import html_card
from hardmax._ground.pickling import DropsCachesOnPickle
from hardmax._ground.progress import track
from hardmax.exact.integer_vectors import Vector, primitive
from hardmax.exact.rounding import RAISE, TINY, rounding_factor
from hardmax.geometry.polytopes import Polytope
from hardmax.models.argmax import AffineMap
from hardmax.regions.cell_rows import ExactLayers
from hardmax.regions.partition import Partition
from hardmax.typing import BoolArray, FloatArray, IntArray

ABOVE, BELOW, CROSSED, OPEN = 1, -1, 0, 2
"""The output on a closed cell, proven by floats: above the value, below it, both, or unknown."""


@dataclass(frozen=True, eq=False, repr=False)
class LevelSet(DropsCachesOnPickle):
    """The pieces of a level set or of a decision boundary.

    Attributes:
        cells: For each piece, the index of the cell whose closure contains it, shape `(n_pieces,)`.
        across: For a piece of a wall across which the output jumps past the value, the index of the
            cell on the other side; otherwise -1. Shape `(n_pieces,)`.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0]], [[1.0]]])
        >>> found = level_set(enumerate_regions(net, Box([-1], [1])), value=0.5)
        >>> found.pieces[0].vertices.tolist(), found.cells.tolist(), found.across.tolist()
        ([[0.5]], [1], [-1])
    """

    cells: IntArray
    across: IntArray
    _exact: "_ExactPieces"
    _decided: dict[int, Polytope] = field(default_factory=dict)

    _repr_html_ = html_card

    def __repr__(self) -> str:
        jumps = int((self.across >= 0).sum())
        return f"LevelSet({len(self)} pieces, {jumps} of them jumps)"

    def __len__(self) -> int:
        return len(self.cells)

    @cached_property
    def pieces(self) -> tuple[Polytope, ...]:
        """The pieces as exact polytopes in the domain's coordinates.

        The dimension of a piece is one less than the dimension of the domain, except that a piece
        is a whole cell if the output is constant on the cell and equal to the value. The pieces are
        computed in integers on first access.
        """
        known, exact = self._decided, self._exact
        return tuple(
            known[k] if k in known else exact.piece(int(self.cells[k]), int(self.across[k]))
            for k in track(range(len(self)), "pieces")
        )

    @cached_property
    def segments(self) -> FloatArray:
        """The bounded pieces of dimension 1 in a planar domain, rounded: shape `(n, 2, 2)`."""
        ends = [p.vertices for p in self.pieces if p.affine_dim == 1 and p.is_bounded]
        return np.array(ends, dtype=np.float64).reshape(-1, 2, 2)


def level_set(
    partition: Partition, output: int = 0, *, minus: int | None = None, value: float = 0.0
) -> LevelSet:
    r"""Find exactly where an output equals a value or jumps past it.

    Let $g$ be the output, minus another output if `minus` is given, minus the value, and let $d$ be
    the dimension of the domain. The pieces are the sets $\{g = 0\}$ on the closures of the cells,
    if they have dimension at least $d - 1$, and the parts of walls with $g > 0$ on one side and
    $g < 0$ on the other. A piece of $\{g = 0\}$ on a wall is listed once for each side on which
    $g$ is zero there. The cost is one evaluation of $g$ at every vertex, and one
    exact composition for each cell where $g$ is nearly zero at a vertex and for each piece that is
    used.

    Args:
        partition: A complete partition with its cells stored.
        output: The index of the output.
        minus: The index of an output to subtract. With `value` 0, the level set is then the
            boundary between two classes.
        value: The level.

    Raises:
        IncompleteError: If the search for the cells was stopped early.
        ArgumentError: If the cells were counted but not stored, or an index is out of range.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> tent = ReluNetwork([[[1.0, -1.0]], [[-1.0], [-1.0]]], [[0.0, 0.0], [1.0]])
        >>> part = enumerate_regions(tent, Box([-2], [2]))
        >>> found = level_set(part, value=0.25)
        >>> sorted(x for piece in found.pieces for x in piece.vertices.ravel().tolist())
        [-0.75, 0.75]
    """
    partition.require_complete("level_set")
    partition.require_stored()
    dim_out = partition.network.dim_out
    output = integer("output", output, at_least=0, at_most=dim_out - 1)
    weight = np.zeros((dim_out, 1))
    weight[output] = 1.0
    if minus is not None:
        weight[integer("minus", minus, at_least=0, at_most=dim_out - 1)] -= 1.0
    reading = AffineMap(weight, np.array([-number("value", value)]))
    exact = _ExactPieces(partition, reading)
    sides = cell_sides(partition, reading)
    decided: dict[tuple[int, int], Polytope] = {}
    is_found = sides == CROSSED
    for cell in track(np.flatnonzero(sides == OPEN).tolist(), "level set"):
        piece = exact.piece(cell, -1)
        is_found[cell] = piece.affine_dim >= partition.domain.dim - 1
        if is_found[cell]:
            decided[cell, -1] = piece
    places = [(cell, -1) for cell in np.flatnonzero(is_found).tolist()]
    places += _jumps(partition, exact, sides, decided)
    cells, across = np.array(places, dtype=np.int64).reshape(-1, 2).T.copy()
    known = {k: decided[place] for k, place in enumerate(places) if place in decided}
    return LevelSet(cells, across, exact, known)


def cell_sides(partition: Partition, reading: AffineMap) -> IntArray:
    r"""Decide for each closed cell if an output is positive, negative or takes both signs.

    The error of a coefficient of the stored map is at most its radius $r$, and the error of each
    coordinate of a vertex at most $\rho$. So the error of the output at a vertex $v$, computed with
    $n$ products, is at most $r (|v|_1 + d \rho + 1) + |a|_1 \rho$ plus $\kappa_n$ times the sum of
    the absolute values of the terms (Lemma 2 of `exact.rounding`). At a vertex at infinity, the
    slope along the direction of the vertex decides.

    Args:
        partition: The cells.
        reading: The map from the network's outputs to the output in question.

    Returns:
        `ABOVE`, `BELOW`, `CROSSED` or `OPEN`, shape `(n_cells,)`.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> part = enumerate_regions(ReluNetwork([[[1.0]], [[1.0]]]), Box([-1], [1]))
        >>> [cell_sides(part, AffineMap([[1.0]], [x])).tolist() for x in (-0.5, 0.5, 0.0)]
        [[-1, 0], [1, 1], [2, 2]]
    """
    n_cells, points, found = partition.n_found, _points(partition), partition.found.maps
    if found is None or points is None or not n_cells:
        return np.full(n_cells, OPEN)
    maps, radii = found
    owners, dim = np.repeat(np.arange(n_cells), np.diff(points.starts)), partition.domain.dim
    radii = radii.reshape(n_cells, -1).max(axis=1)
    with np.errstate(all="ignore"):
        weight, bias = reading.weight[:, 0], reading.bias[0]
        total = np.abs(weight).sum()
        forms, sizes = maps @ weight, np.abs(maps) @ np.abs(weight)
        forms[:, -1] += bias
        sizes[:, -1] += abs(bias)
        # A weighted sum of outputs; the others have weight zero.
        radii = radii * total + rounding_factor(len(weight) + 1) * sizes.max(axis=1) + TINY
        forms, sizes, radii = forms[owners], sizes[owners], radii[owners]

        def errors(at: FloatArray, offsets: FloatArray, rho: FloatArray) -> FloatArray:
            reach = np.abs(at).sum(axis=1) + offsets + dim * rho
            rounded = (sizes[:, :-1] * np.abs(at)).sum(axis=1) + sizes[:, -1] * offsets
            slopes = sizes[:, :-1].sum(axis=1)
            return np.asarray(
                (radii * reach + slopes * rho + rounding_factor(dim + 1) * rounded) * RAISE + TINY
            )

        ones = np.ones(len(owners))
        values = (forms[:, :-1] * points.at).sum(axis=1) + forms[:, -1]
        bounds = errors(points.at, ones, points.rho)
        is_far = points.is_far
        far_values = (forms[:, :-1] * points.ways).sum(axis=1)
        far_bounds = errors(points.ways, 0.0 * ones, points.way_rho)
        values, bounds = np.where(is_far, far_values, values), np.where(is_far, far_bounds, bounds)
        is_above, is_below = values > bounds, values < -bounds
    first = points.starts[:-1]
    all_above, all_below = (np.logical_and.reduceat(x, first) for x in (is_above, is_below))
    some_above, some_below = (np.logical_or.reduceat(x, first) for x in (is_above, is_below))
    sides = np.where(some_above & some_below, CROSSED, OPEN)
    return np.where(all_above, ABOVE, np.where(all_below, BELOW, sides))


class _Points(NamedTuple):
    """The vertices of all cells: coordinates, radii, and directions at infinity."""

    starts: IntArray
    at: FloatArray
    rho: FloatArray
    ways: FloatArray
    way_rho: FloatArray
    is_far: BoolArray


def _points(partition: Partition) -> _Points | None:
    """Return the vertices of all cells with bounds on their errors; None if they are not stored."""
    outline = partition.found.outline
    if outline is None:
        return None
    starts, at, rho, ways, way_rho = outline
    is_far = (ways != 0.0).any(axis=1)
    # A vertex whose stored direction is zero is finite.
    way_rho = np.where(is_far, way_rho, 0.0)
    return _Points(starts, at, np.where(np.isfinite(rho), rho, np.inf), ways, way_rho, is_far)


class _ExactPieces(DropsCachesOnPickle):
    """The pieces of a level set, computed in integers."""

    def __init__(self, partition: Partition, reading: AffineMap) -> None:
        self.partition, self.reading = partition, reading

    @cached_property
    def _layers(self) -> ExactLayers:
        return ExactLayers(self.partition.network, self.partition.domain)

    @cached_property
    def _known(self) -> dict[int, tuple[Vector, list[Vector]]]:
        """For each cell visited so far, the output on it and its inequalities."""
        return {}

    def form(self, cell: int) -> Vector:
        """Return the output on a cell as a primitive integer vector."""
        return self._cell(cell)[0]

    def piece(self, cell: int, across: int) -> Polytope:
        """Return the closed part of a cell where the output equals the value or jumps past it."""
        form, rows = self._cell(cell)
        if across < 0:
            signs = [_at_most_zero(form), _at_least_zero(form)]
        else:
            other, more = self._cell(across)
            rows = rows + more
            signs = [_at_least_zero(form), _at_most_zero(other)]
        return Polytope.from_rows(rows + signs, self.partition.domain.dim)

    def _cell(self, cell: int) -> tuple[Vector, list[Vector]]:
        if cell not in self._known:
            partition = self.partition
            signature = partition.found.signature(cell)
            walls = partition.found.facet_forms(cell)
            if walls is None:
                rows = partition.rows(cell)
                output, vectors = rows.stream.compose(partition.network.readout), list(rows.walls)
            else:
                vectors = list(self._layers.rows_of(signature, walls))
                output = self._layers.output(signature)
                vectors += partition.domain.cone_rows[:-1]
            form = primitive(int(entry) for entry in output.compose(self.reading).rows[0])
            inside = [(*(-x for x in row[:-1]), row[-1]) for row in vectors]
            self._known[cell] = form, inside
        return self._known[cell]


def _at_most_zero(form: Vector) -> Vector:
    r"""Write $\langle a, t\rangle + c \le 0$ as a row of a polytope."""
    return (*form[:-1], -form[-1])


def _at_least_zero(form: Vector) -> Vector:
    return (*(-entry for entry in form[:-1]), form[-1])


def _jumps(
    partition: Partition,
    exact: _ExactPieces,
    sides: IntArray,
    decided: dict[tuple[int, int], Polytope],
) -> list[tuple[int, int]]:
    """Return the pairs of neighbours at whose wall the output jumps from above to below the value.

    Pieces that were computed for this decision are added to `decided`.
    """
    if not any(layer.is_table.any() for layer in partition.network.layers):
        return []  # Units return their maximum, so the output is continuous.
    dim, found = partition.domain.dim, []
    pairs = partition.neighbours.pairs
    low, high = sides[pairs].T
    is_candidate = (low != high) | ((low != ABOVE) & (low != BELOW))
    for i, j in pairs[is_candidate].tolist():
        for above, below in ((i, j), (j, i)):
            if sides[above] == BELOW or sides[below] == ABOVE:
                continue
            # Neighbours share a part of a wall; the signs are those of the closed cells.
            if sides[above] == ABOVE and sides[below] == BELOW:
                found.append((above, below))
                continue
            forms = exact.form(above), exact.form(below)
            if forms[0] == forms[1]:
                continue
            piece = exact.piece(above, below)
            if piece.affine_dim == dim - 1 and _jumps_inside(piece, *forms):
                decided[above, below] = piece
                found.append((above, below))
    return found


def _jumps_inside(piece: Polytope, above: Vector, below: Vector) -> bool:
    """Return whether both signs are strict in the relative interior.

    The signs are weak on the whole piece, so it suffices to check one relative interior point.
    """
    point = [*piece.interior_point.tolist(), 1]
    high = sum(a * x for a, x in zip(above, point, strict=True))
    low = sum(a * x for a, x in zip(below, point, strict=True))
    return bool(high > 0 > low)
