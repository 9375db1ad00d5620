"""The cells that an engine found, with the answers to all questions about single cells.

`Cells` answers every question exactly, from the signatures alone. An engine that stores more than
signatures (polygons, facets, the ends of intervals) returns a subclass that answers some questions
faster, in floats with proven error bounds. A `Partition` asks its `Cells` and never looks at what
an engine stored.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hardmax._ground.display import format_card, html_card, pluralize, short_repr
from hardmax._ground.pickling import DropsCachesOnPickle
from hardmax.errors import RecordFormatError
from hardmax.exact.integer_vectors import wide_rows
from hardmax.geometry.cones import decide_open_cone
from hardmax.geometry.polytopes import Polytope
from hardmax.models._arithmetic.recomposition import RationalForms
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._location.points import CellLocator
from hardmax.regions._measures.measures import (
    BALL,
    VOLUME,
    WITNESS,
    Answers,
    inscribed_ball,
    is_wide,
    precise_ball,
)
from hardmax.regions._neighbours.adjacency import Neighbours, cell_polytope, neighbouring_cells
from hardmax.regions.cell_arrays import CellArrays
from hardmax.regions.cell_rows import CellRows, cell_rows
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.typing import AnyArray, FloatArray, IntArray, WideArray

_MOST_PRECISE = 3
"""The highest dimension in which a largest ball is computed exactly."""


class Outline(NamedTuple):
    r"""The rounded vertices of all cells, with bounds on their errors.

    With a formal number $M \to \infty$, vertex $i$ is `vertices[i] + M * directions[i]`.

    Attributes:
        starts: The index of each cell's first vertex, and the total; shape `(n_cells + 1,)`.
        vertices: The vertices, shape `(n_vertices, dim)`.
        radii: Bounds on the errors of each coordinate of a vertex, shape `(n_vertices,)`.
        directions: The directions of vertices at infinity, zero for others; shape of `vertices`.
        direction_radii: Bounds on the errors of each coordinate of a direction, `(n_vertices,)`.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> part = enumerate_regions(ReluNetwork([[[1.0]], [[1.0]]]), Box([-1], [3]))
        >>> part.found.outline.vertices.ravel().tolist(), part.found.outline.radii.tolist()
        ([-1.0, 0.0, 0.0, 3.0], [0.0, 0.0, 0.0, 0.0])
    """

    starts: IntArray
    vertices: FloatArray
    radii: FloatArray
    directions: FloatArray
    direction_radii: FloatArray

    def __repr__(self) -> str:
        return short_repr(self)

    def _repr_html_(self) -> str:
        return html_card(self)


Locator = Callable[[FloatArray], IntArray]
"""Finds the cells of points: `(n_points, dim)` to `(n_points,)`, -1 where there is none."""


class Cells(DropsCachesOnPickle):
    """The cells of a network on a domain, known by their signatures.

    Args:
        network: The network.
        domain: The domain that was searched.
        arrays: The arrays that the engine stored.
        witnesses: Integers `(p, q)` with `p / q` inside each cell, shape `(n_cells, dim + 1)`,
            if the engine knows such points.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> cells = enumerate_regions(net, Box([-1, -1], [1, 1])).found
        >>> cells.n_stored, cells.signature(2).tolist(), cells.exact_volumes(np.array([2]))
        (4, [1, 0], [Fraction(1, 1)])
    """

    def __init__(
        self,
        network: ArgmaxNetwork,
        domain: ChartedDomain,
        arrays: CellArrays,
        witnesses: WideArray | None = None,
    ) -> None:
        self.network, self.domain, self.arrays = network, domain, arrays
        self.witnesses = witnesses

    def __repr__(self) -> str:
        return f"{type(self).__name__}({pluralize(self.n_stored, 'cell')})"

    def _repr_html_(self) -> str:
        return format_card(repr(self), {"dimension": str(self.domain.dim)})

    @property
    def has_gaps(self) -> bool:
        """Whether a search that was stopped early may have left out cells between those found."""
        return True

    @property
    def has_walls(self) -> bool:
        """Whether the engine stored the walls of cells."""
        return False

    @property
    def n_stored(self) -> int:
        """The number of cells of which more is known than that they exist."""
        return self.arrays.n_stored

    @property
    def signatures(self) -> AnyArray:
        """The winner of each group on each cell, shape `(n_cells, n_groups)`."""
        return self.arrays.signatures

    def signature(self, cell: int) -> AnyArray:
        """Return the winners on one cell, shape `(n_groups,)`."""
        signature: AnyArray = self.signatures[cell]
        return signature

    @property
    def maps(self) -> tuple[FloatArray, FloatArray] | None:
        """The affine maps and bounds on their errors, both of shape `(n_cells, dim + 1, dim_out)`.

        None if the engine stored no maps; `exact_map` then computes them one by one.
        """
        maps, radii = self.arrays.maps, self.arrays.map_radii
        if maps is None or radii is None:
            return None
        if radii.ndim == 1:
            radii = radii[:, np.newaxis, np.newaxis]
        return maps, np.broadcast_to(radii, maps.shape)

    @property
    def outline(self) -> Outline | None:
        """The rounded vertices of all cells; None if the engine stored none."""
        return None

    def rows(self, cell: int) -> CellRows:
        """Return the exact inequalities of a cell and the walls on which they are equalities."""
        return cell_rows(self.network, self.domain, self.signature(cell))

    def facet_forms(self, cell: int) -> list[tuple[int, int]] | None:
        """Return the group (over all layers) and the rival of each facet inside the domain.

        None if the engine stored no facets.
        """
        return None

    def exact_map(self, cell: int) -> RationalForms:
        """Return the affine map on a cell: one exact form in the domain's coordinates per output.

        Raises:
            RecordFormatError: If the signature comes from a file and has no cell.
        """
        return self.rows(cell).stream.compose(self.network.readout)

    def polytope(self, cell: int) -> Polytope:
        """Return the closure of a cell as an exact polytope in the domain's coordinates."""
        return cell_polytope(self.rows(cell), self.domain.dim)

    def neighbours(self, chosen: Iterable[int] | None = None) -> Neighbours:
        """Find the neighbours among some cells.

        Args:
            chosen: The indices of the cells; None for all.
        """
        among = range(self.n_stored) if chosen is None else chosen
        return neighbouring_cells(((i, self.rows(i)) for i in among), self.domain.dim)

    def measure(self, question: int) -> Answers:
        """Measure all cells in floats with proven errors, and list the cells left undecided.

        Args:
            question: `VOLUME`, `WITNESS` or `BALL`.
        """
        n, dim = self.n_stored, self.domain.dim
        width = {VOLUME: 2, WITNESS: dim, BALL: dim + 1}[question]
        return Answers(np.zeros((n, width)), np.arange(n))

    def exact_volumes(self, cells: IntArray) -> list[Fraction | float]:
        """Return the exact volumes of some cells: fractions or `inf`."""
        return [self.polytope(i).volume for i in cells.tolist()]

    def interior_points(self, cells: IntArray) -> WideArray:
        """Return a point inside each of some cells, as fractions: shape `(len(cells), dim)`.

        Raises:
            RecordFormatError: If a signature comes from a file and has no cell.
        """
        if self.witnesses is not None:
            found = self.witnesses[cells].tolist()
        else:
            found = [self._interior_point(i) for i in cells.tolist()]
        return wide_rows([[Fraction(x, p[-1]) for x in p[:-1]] for p in found], self.domain.dim)

    def _interior_point(self, cell: int) -> list[int]:
        height = (*(0,) * self.domain.dim, 1)
        rows = wide_rows([*self.rows(cell).walls, height], self.domain.dim + 1)
        direction = decide_open_cone(rows).direction
        if direction is None:
            # No engine returns such a cell, so it comes from a file.
            raise RecordFormatError(
                f"Cell {cell} is empty: the model has no cell with this signature on the domain. "
                "The file from which the cells were loaded has been modified. Search again."
            )
        point: list[int] = direction.tolist()
        return point

    def largest_ball(self, cell: int) -> tuple[FloatArray | float, float]:
        """Return the centre and the radius of a largest ball in a cell.

        If the cell contains arbitrarily large balls, the radius is infinite and the centre is 0.
        """
        dim = self.domain.dim
        rows = [*self.rows(cell).walls]
        if is_wide(rows, dim):
            return 0.0, np.inf
        return (precise_ball if dim <= _MOST_PRECISE else inscribed_ball)(rows, dim)

    @cached_property
    def breakpoints(self) -> WideArray:
        """The points where cells of a domain of dimension 1 meet: sorted fractions."""
        ends = (self.polytope(i).exact_vertices.ravel().tolist() for i in range(self.n_stored))
        counts = Counter(end for both in ends for end in both)
        shared = sorted(end for end, count in counts.items() if count == 2)
        return np.array(shared, dtype=object)

    def make_locator(self) -> Locator:
        """Return a function that finds the cells of points."""
        return CellLocator(self.network, self.domain, self.signatures)
