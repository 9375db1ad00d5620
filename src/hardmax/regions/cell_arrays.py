"""The result of an engine: the cells it found, as arrays."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.exact.decisions import Decisions
from hardmax.typing import AnyArray, FloatArray, IntArray


class CellFacets(NamedTuple):
    """The facets of all cells in the interior of the domain, in compressed rows.

    Attributes:
        starts: The index of each cell's first facet, and the total; shape `(n_cells + 1,)`.
        facets: For each facet, the group whose forms tie there (counted over all layers), and the
            rival, as an index within the group; shape `(n_facets, 2)`.
        tie_starts: The index of each cell's first tie, and the total; shape `(n_cells + 1,)`.
        ties: Further groups whose two largest forms tie on a facet. Each row holds the index of the
            facet within its cell, or -1 if the forms coincide on the whole cell, and the group;
            shape `(n_ties, 2)`.
        blurs: Bounds on the errors of the rounded vertices of each cell and of their directions;
            shape `(n_cells, 2)`.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0], [0.0], [0.0]], [[1.0]]])
        >>> facets = enumerate_regions(net, Box([-1] * 3, [1] * 3)).cells.facets
        >>> facets.starts.tolist(), facets.facets.tolist()
        ([0, 1, 2], [[0, 1], [0, 0]])
    """

    starts: IntArray
    facets: IntArray
    tie_starts: IntArray
    ties: IntArray
    blurs: FloatArray

    def __repr__(self) -> str:
        return short_repr(self)


class WallNames(NamedTuple):
    """The walls of the edges of all polygons, encoded as one integer per edge.

    Attributes:
        codes: For a wall, the index of the rival, counted over all layers. For the boundary of the
            domain, `-5 - i`, where `i` is the row of the inequality; the rows -4 to -1 are the
            sides of a square at infinity. Shape `(n_vertices,)`.
        layer_starts: For each layer, the index of each group's first form, and the total.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> part = enumerate_regions(net, Box([-1, -1], [1, 1]))
        >>> part.cells.wall_names.codes.dtype.kind, len(part.cells.walls)
        ('i', 12)
    """

    codes: AnyArray
    layer_starts: tuple[IntArray, ...]

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def form_starts(self) -> IntArray:
        """The first form of each group over all layers, and the total: shape `(n_groups + 1,)`."""
        return form_starts(self.layer_starts)

    def decoded(self, signatures: AnyArray, starts: IntArray) -> AnyArray:
        """Return the layer, group, winner and rival of each edge: shape `(n_vertices, 4)`.

        An edge on the boundary of the domain has the entries `(-1, row, 0, 0)`.
        """
        starts_of_groups, layers = self.form_starts, group_layers(self.layer_starts)
        walls = np.zeros((len(self.codes), 4), dtype=np.int32)
        inside = np.flatnonzero(self.codes >= 0)
        walls[:, 0] = -1
        walls[:, 1] = -5 - self.codes
        codes = self.codes[inside]
        group = np.searchsorted(starts_of_groups, codes, side="right") - 1
        cell = np.repeat(np.arange(len(signatures)), np.diff(starts))[inside]
        layer = layers[group]
        first_group = np.searchsorted(layers, layer)
        walls[inside, 0] = layer
        walls[inside, 1] = group - first_group
        walls[inside, 2] = signatures[cell, group]
        walls[inside, 3] = codes - starts_of_groups[group]
        return walls


def form_starts(layer_starts: tuple[IntArray, ...]) -> IntArray:
    """Return the index of each group's first form, counted over all layers, and the total.

    Args:
        layer_starts: For each layer, the index of each group's first form, and the total.

    Examples:
        >>> form_starts((np.array([0, 2, 4]), np.array([0, 3]))).tolist()
        [0, 2, 4, 7]
    """
    ends = [0]
    for starts in layer_starts:
        first = ends[-1]
        ends += [first + end for end in starts.tolist()[1:]]
    return np.array(ends, dtype=np.int64)


def group_layers(layer_starts: tuple[IntArray, ...]) -> IntArray:
    """Return the layer of each group, shape `(n_groups,)`.

    Examples:
        >>> group_layers((np.array([0, 2, 4]), np.array([0, 3]))).tolist()
        [0, 0, 1]
    """
    n_groups = [len(starts) - 1 for starts in layer_starts]
    return np.repeat(np.arange(len(n_groups)), n_groups)


def largest_row(starts: IntArray) -> int:
    """Return the length of the longest row, but at most 2^31 - 1, which compiled code rejects.

    Args:
        starts: The index of each row's first entry, and the total.

    Examples:
        >>> largest_row(np.array([0, 3, 7])), largest_row(np.array([0, 2**62]))
        (4, 2147483647)
    """
    return min(int(np.diff(starts).max(initial=0)), 2**31 - 1)


def _nothing() -> None:
    """Return None. As a default factory, this keeps a field off the class (`LazyCellArrays`)."""


@dataclass(frozen=True, eq=False)
class CellArrays:
    r"""The cells that an engine found, as arrays in compressed rows.

    A vertex of a cell of an unbounded domain may lie at infinity: with a formal number
    $M \to \infty$, vertex $i$ is `vertices[i] + M * directions[i]`.

    Attributes:
        signatures: The winners of all groups, shape `(n_cells, n_groups)`. The array has no rows if
            the engine is `"lines"`: `LineCells` then holds the changes from cell to cell.
        is_complete: Whether all cells were found.
        decisions: The number of signs decided by each stage.
        maps: The affine map on each cell, rounded, shape `(n_cells, dim + 1, dim_out)`. The output
            is `(t, 1) @ map`.
        map_radii: Bounds on the errors of `maps`, entry by entry; shape `(n_cells,)` or the shape
            of `maps`.
        vertices: All vertices, rounded, shape `(n_vertices, dim)`. In dimension 2, the vertices of
            each cell are in counter-clockwise order.
        starts: The index of each cell's first vertex, and the total; shape `(n_cells + 1,)`.
        n_counted: The number of cells found, whether they were stored or only counted.
        directions: The direction of each vertex, zero for a finite vertex; same shape as
            `vertices`. None if the domain is bounded.
        wall_names: Dimension 2 only: the wall of each edge.
        facets: Dimensions 3 to 7 only: the facets.
        has_means: Whether there may be cells on which forms of a group coincide that do not
            coincide everywhere, so that their contributions are averaged.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> part = enumerate_regions(net, Box([-1, -1], [1, 1]))
        >>> part.cells.n_counted, part.cells.starts.tolist(), part.cells.maps.shape
        (4, [0, 3, 6, 9, 12], (4, 3, 1))
    """

    signatures: AnyArray
    is_complete: bool
    decisions: Decisions
    maps: FloatArray | None
    map_radii: FloatArray | None
    vertices: FloatArray | None
    starts: IntArray | None
    n_counted: int
    directions: FloatArray | None = field(default_factory=_nothing)
    wall_names: WallNames | None = field(default_factory=_nothing)
    facets: CellFacets | None = field(default_factory=_nothing)
    has_means: bool = True
    found: ClassVar[Any] = None
    """The `CellColumns` of a compiled search, if one search found all cells."""

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def n_stored(self) -> int:
        """The number of stored cells: all cells found, or 0 if they were only counted."""
        # If a search holds the signatures, this does not copy them into an array.
        return len(self.signatures) if self.found is None else int(self.found.buffer.n_cells)

    @cached_property
    def walls(self) -> AnyArray | None:
        """The walls of the edges of polygons, shape `(n_vertices, 4)`; None unless `dim` is 2.

        Row `i` describes the edge from vertex `i` to the next vertex of the same cell: the layer,
        the group, the winner and the rival, the last two as indices within the group. An edge on
        the boundary of the domain has the row `(-1, row, 0, 0)`.
        """
        if self.wall_names is None or self.starts is None:
            return None
        return self.wall_names.decoded(self.signatures, self.starts)


def nothing_found(n_groups: int) -> CellArrays:
    """Return the result of a search that was stopped before it found a cell."""
    none = np.empty((0, n_groups), dtype=np.int64)
    return CellArrays(none, False, Decisions(), None, None, None, None, 0)


@dataclass(frozen=True, eq=False, repr=False)
class LazyCellArrays(CellArrays):
    """Cells with fields that are computed on first access.

    Attributes:
        late: A function that takes the name of a missing field and returns a dictionary with its
            value, and possibly the values of other fields.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> cells = enumerate_regions(net, Box([-1, -1], [1, 1])).cells
        >>> "signatures" in cells.__dict__, cells.signatures.tolist()
        (False, [[0, 0], [0, 1], [1, 0], [1, 1]])
    """

    late: Callable[[str], dict[str, Any]] = field(kw_only=True)

    @classmethod
    def knowing(cls, late: Callable[[str], dict[str, Any]], **known: Any) -> "LazyCellArrays":
        """Return cells with some known fields; the others are computed on first access."""
        cells = object.__new__(cls)
        cells.__dict__.update(known, late=late)
        return cells

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for a missing attribute.
        if name not in CellArrays.__dataclass_fields__ or "late" not in self.__dict__:
            raise AttributeError(name)
        self.__dict__.update(self.late(name))
        return self.__dict__[name]

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle the fields themselves, not the function that computes them.
        return CellArrays, tuple(getattr(self, one.name) for one in fields(CellArrays))
