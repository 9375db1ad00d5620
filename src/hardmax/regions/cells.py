"""What an engine hands over: the cells it found, as arrays."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.exact.decisions import Decisions
from hardmax.typing import AnyArray, FloatArray, IntArray


class CellFacets(NamedTuple):
    """The facets of cells inside the domain, in compressed rows.

    Attributes:
        starts: Where the facets of each cell begin, and the end; shape `(n_cells + 1,)`.
        facets: The group whose forms meet on a facet, counted over all layers, and the form, within
            the group, that equals the winner there; shape `(n_facets, 2)`.
        tie_starts: Where the ties of each cell begin, and the end; shape `(n_cells + 1,)`.
        ties: Other groups with two best forms on a facet: the place of the facet among those of its
            cell, or -1 where they coincide on the whole cell; and the group; shape `(n_ties, 2)`.
        blurs: How far the rounded vertices of each cell, and their directions, are off at most;
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
    """What the edges of polygons lie on, a number for each.

    Attributes:
        codes: The form beside the wall, counted over all layers; of the domain -5 less the row of
            its inequality, from -4 on. Shape `(n_vertices,)`.
        layer_starts: For each layer the first form of each group, and the end.

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
        """The first form of each group, counted over all layers, and the end: `(n_groups + 1,)`."""
        return form_starts(self.layer_starts)

    def decoded(self, signatures: AnyArray, starts: IntArray) -> AnyArray:
        """Return layer, group, winner and rival of each edge: shape `(n_vertices, 4)`."""
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
    """Count the forms over all layers: the first one of each group, and the end.

    Args:
        layer_starts: For each layer the first form of each group, and the end.

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
    """Return the most entries of a row, at most 2^31 - 1, which compiled code refuses.

    Args:
        starts: Where each row begins, and the end.

    Examples:
        >>> largest_row(np.array([0, 3, 7])), largest_row(np.array([0, 2**62]))
        (4, 2147483647)
    """
    return min(int(np.diff(starts).max(initial=0)), 2**31 - 1)


def _nothing() -> None:
    """Stand for None where a class must not have it as an attribute (see `LazyCellArrays`)."""


@dataclass(frozen=True, eq=False)
class CellArrays:
    r"""The cells an engine found, in compressed rows: one entry of each array for each cell.

    A cell of an unbounded domain has vertices at infinity: with a formal $M \to \infty$, vertex $i$
    is `vertices[i] + M * directions[i]`.

    Attributes:
        signatures: The winners of all groups, shape `(n_cells, n_groups)`. On a line there are no
            rows: `LineCells` has the changes from cell to cell.
        is_complete: False if the search stopped early; the cells are then a lower bound.
        decisions: How many signs each stage decided.
        maps: The output on each cell, `(t, 1) @ map`, rounded; shape `(n_cells, dim + 1, dim_out)`.
        map_radii: A bound on `|rounded - true|`, entry by entry; shape `(n_cells,)`, or that of
            `maps`.
        vertices: All vertices, rounded; shape `(n_vertices, dim)`. In two dimensions they go
            round each cell counter-clockwise.
        starts: Where the vertices of each cell begin, and the end; shape `(n_cells + 1,)`.
        n_counted: The number of cells, also where only counting was asked for.
        directions: The direction of each vertex, zero for a finite one; shape of `vertices`; None
            where the domain is bounded.
        wall_names: Two dimensions only: what each edge lies on.
        facets: Three to seven dimensions only: the facets.
        has_means: Whether some cells may have forms of a group that coincide on them, but not
            everywhere, and pass a mean on.

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
    """The `CellColumns` of a compiled search, if one has found them all."""

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def n_stored(self) -> int:
        """How many cells the arrays have: all that were found, or none if they were counted."""
        # Without making an array of the signatures, where a search has them.
        return len(self.signatures) if self.found is None else int(self.found.room.n_cells)

    @cached_property
    def walls(self) -> AnyArray | None:
        """For the edge from each vertex of a polygon to the next, what meets on it.

        The layer, the group, the winner and the rival, the last two as indices within the group, or
        `(-1, row, 0, 0)` for an edge of the domain; shape `(n_vertices, 4)`. None in dimensions
        other than two.
        """
        if self.wall_names is None or self.starts is None:
            return None
        return self.wall_names.decoded(self.signatures, self.starts)


def nothing_found(n_groups: int) -> CellArrays:
    """What a search that was stopped before its first cell has found."""
    none = np.empty((0, n_groups), dtype=np.int64)
    return CellArrays(none, False, Decisions(), None, None, None, None, 0)


@dataclass(frozen=True, eq=False, repr=False)
class LazyCellArrays(CellArrays):
    """Cells some of whose fields are made when one of them is first asked for.

    Attributes:
        late: Given the name of such a field, returns it, and perhaps others: values by name.

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
        """Return cells with some fields; all others are made late."""
        cells = object.__new__(cls)
        cells.__dict__.update(known, late=late)
        return cells

    def __getattr__(self, name: str) -> Any:
        # Asked only for an attribute that is not there.
        if name not in CellArrays.__dataclass_fields__ or "late" not in self.__dict__:
            raise AttributeError(name)
        self.__dict__.update(self.late(name))
        return self.__dict__[name]

    def __reduce__(self) -> tuple[Any, ...]:
        # What makes them is not to be written down; they are.
        return CellArrays, tuple(getattr(self, one.name) for one in fields(CellArrays))
