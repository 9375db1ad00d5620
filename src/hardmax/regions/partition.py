r"""All cells of a model on a domain, and what can be asked about them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax.algebra.exact.decisions import Decisions
from hardmax.algebra.exact.dyadic import nearest_floats
from hardmax.arguments import integer
from hardmax.errors import ArgumentError
from hardmax.geometry.cones import decide_open_cone
from hardmax.geometry.integer_vectors import wide_rows
from hardmax.geometry.polytopes import Polytope
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.models.pickling import WithoutCaches
from hardmax.models.points import PointBatch
from hardmax.models.recomposition import RationalForms
from hardmax.regions.adjacency import Neighbours, cell_polytope, neighbouring_cells
from hardmax.regions.cell_rows import CellRows, cell_rows
from hardmax.regions.cells import CellArrays
from hardmax.regions.certificate_format import Certificate
from hardmax.regions.certificates import make_certificate
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.regions.line_location import LineLocator
from hardmax.regions.lines import LineCells
from hardmax.regions.merging import (
    candidate_classes,
    connected_classes,
    map_key,
    members,
    same_map_classes,
)
from hardmax.regions.partition_cards import partition_card
from hardmax.regions.planar_adjacency import planar_neighbours
from hardmax.regions.point_location import CellLocator
from hardmax.regions.spatial_adjacency import spatial_neighbours
from hardmax.regions.statistics import Statistics, inscribed_ball, partition_statistics
from hardmax.typing import ArrayLike, FloatArray, IntArray, WideArray


@dataclass(frozen=True, eq=False, repr=False)
class Partition(WithoutCaches):
    r"""The cells of a model on a domain: maximal sets on which all winners are constant.

    A cell is open and convex, the set of one signature. Everything about cells is in coordinates
    $t$ of the domain (for a box, a polytope and all of space $t = x$) and exact where its type can
    hold it; floats are rounded from exact values or come with the engine. Expensive properties are
    computed when first asked for.

    Attributes:
        network: The model as argmax layers.
        domain: The domain with its chart.
        cells: What the engine found.
        engine: Which engine it was: `"lines"`, `"planar"`, `"spatial"` or `"split_tree"`.
        stored_witnesses: Integers `(p, q)`, a point `p / q` inside each cell, if the engine keeps
            them; shape `(n_cells, dim + 1)`.
        line: What the engine for lines found, if it was that one.
    """

    network: ArgmaxNetwork
    domain: ChartedDomain
    cells: CellArrays
    engine: str
    stored_witnesses: WideArray | None = None
    line: LineCells | None = None

    def __repr__(self) -> str:
        count = f"{self.n_cells} cell{'s' * (self.n_cells != 1)}"
        if not self.is_complete:
            count = f"at least {count}, search stopped early"
        where = f"in {self.domain.dim} dimension{'s' * (self.domain.dim != 1)}"
        return f"Partition({count}, {where}, engine {self.engine})"

    def _repr_html_(self) -> str:
        return partition_card(self)

    def __len__(self) -> int:
        return self.n_cells

    @property
    def n_cells(self) -> int:
        """How many signatures have an interior in the domain; a lower bound if not complete."""
        return self.cells.n_counted

    @property
    def is_complete(self) -> bool:
        """Whether every cell was found."""
        return self.cells.is_complete

    @property
    def decisions(self) -> Decisions:
        """How many decisions each stage of the engine took."""
        return self.cells.decisions

    @property
    def signatures(self) -> IntArray:
        """For each cell the winner's index in every group: shape `(n_cells, n_groups)`."""
        self._require_stored()
        return self.cells.signatures if self.line is None else self.line.signatures

    @cached_property
    def n_affine_maps(self) -> int:
        """How many different affine maps the output has on the cells, decided exactly."""
        return len(set(self.map_classes.tolist()))

    @cached_property
    def n_regions(self) -> int:
        """How many connected pieces the cells with equal affine maps form."""
        return len(set(self.region_labels.tolist()))

    @cached_property
    def map_classes(self) -> IntArray:
        """For each cell a number; equal exactly where the affine maps are: shape `(n_cells,)`."""
        self._require_stored()
        undecided = [list(range(self.n_cells))]
        if self.cells.maps is not None and self.cells.map_radii is not None and self.n_cells:
            maps = self.cells.maps
            radii = (
                self.cells.map_radii.reshape(self.n_cells, *(1,) * (maps.ndim - 1))
                if self.cells.map_radii.ndim == 1
                else self.cells.map_radii
            )
            flat = maps.reshape(self.n_cells, -1)
            spread = np.broadcast_to(radii, maps.shape).reshape(self.n_cells, -1)
            undecided = members(candidate_classes(flat, spread))
        keys: list[object] = [None] * self.n_cells
        for number, group in enumerate(undecided):
            for i in group:
                keys[i] = (number, map_key(self.exact_map(i)) if len(group) > 1 else None)
        return same_map_classes(keys)

    @cached_property
    def region_labels(self) -> IntArray:
        """For each cell the number of its region: shape `(n_cells,)`."""
        if "neighbours" in self.__dict__:
            return connected_classes(self.map_classes, self.neighbours.pairs)
        # Only cells with a partner can merge. One call is quicker where an engine left its facets.
        groups = [group for group in members(self.map_classes) if len(group) > 1]
        if self.cells.walls is not None or self.cells.facets is not None:
            groups = [sorted(i for group in groups for i in group)]
        pairs = [self._neighbours_among(group).pairs for group in groups]
        none = np.empty((0, 2), dtype=np.int64)
        return connected_classes(self.map_classes, np.concatenate([none, *pairs]))

    @cached_property
    def affine_maps(self) -> FloatArray:
        """The output on each cell as `(t, 1) @ map`: shape `(n_cells, dim + 1, dim_out)`.

        Rounded; `exact_map` is exact.
        """
        self._require_stored()
        if self.cells.maps is not None:
            return self.cells.maps
        shape = self.n_cells, self.domain.dim + 1, self.network.dim_out
        maps = np.empty(shape)
        for i in range(self.n_cells):
            maps[i] = self.exact_map(i).rounded().T
        return maps

    def exact_map(self, cell: int) -> RationalForms:
        """Return the output on a cell, one exact form in the domain's coordinates per output."""
        return self.rows(cell).stream.compose(self.network.readout)

    def rows(self, cell: int) -> CellRows:
        """Return the inequalities of a cell with the walls they stand for."""
        self._require_stored()
        index = integer("cell", cell, at_least=0, at_most=self.n_cells - 1)
        line = self.line
        signature = self.cells.signatures[index] if line is None else line.walk.row(index)
        return cell_rows(self.network, self.domain, signature)

    def polytope(self, cell: int) -> Polytope:
        """Return the closure of a cell in the domain's coordinates, exactly."""
        return cell_polytope(self.rows(cell), self.domain.dim)

    @cached_property
    def exact_witnesses(self) -> WideArray:
        """A point inside each cell as fractions: shape `(n_cells, dim)`."""
        self._require_stored()
        points = self.stored_witnesses if self.line is None else self.line.witnesses
        if points is None:
            found = [self._interior_point(i) for i in range(self.n_cells)]
            points = wide_rows(found, self.domain.dim + 1)
        rational = [[Fraction(x, p[-1]) for x in p[:-1]] for p in points.tolist()]
        return wide_rows(rational, self.domain.dim)

    @property
    def witnesses(self) -> FloatArray:
        """The points of `exact_witnesses`, rounded; a rounded one can leave a thin cell."""
        return nearest_floats(self.exact_witnesses)

    @cached_property
    def breakpoints(self) -> WideArray:
        """On a domain of dimension 1, where the cells meet: sorted fractions.

        Raises:
            ArgumentError: If the domain has another dimension.
        """
        if self.domain.dim != 1:
            raise ArgumentError(
                f"`breakpoints` needs a domain of dimension 1; got {self.domain.dim}."
            )
        self._require_stored()
        if self.line is not None:
            return self.line.breakpoints
        ends = (self.polytope(i).exact_vertices.ravel().tolist() for i in range(self.n_cells))
        counts = Counter(end for both in ends for end in both)
        shared = sorted(end for end, count in counts.items() if count == 2)
        return np.array(shared, dtype=object)

    @cached_property
    def neighbours(self) -> Neighbours:
        """All pairs of cells that share a part of a wall, with the walls between them."""
        self._require_stored()
        return self._neighbours_among(range(self.n_cells))

    @cached_property
    def volumes(self) -> WideArray:
        """The volume of each cell in the domain's coordinates, a fraction or `inf`."""
        self._require_stored()
        volumes = np.empty(self.n_cells, dtype=object)
        for i in range(self.n_cells):
            volumes[i] = self.polytope(i).volume
        return volumes

    @cached_property
    def chebyshev_centres(self) -> tuple[FloatArray, FloatArray]:
        """Centre and radius of a largest ball in each cell: `(n_cells, dim)`, `(n_cells,)`.

        Rounded: a linear program in float64. A cell that contains balls of any size has radius
        `inf` and as its centre the rounded witness.
        """
        self._require_stored()
        centres, radii = np.empty((self.n_cells, self.domain.dim)), np.empty(self.n_cells)
        for i in range(self.n_cells):
            ball = inscribed_ball([*self.rows(i).walls], self.domain.dim)
            centres[i], radii[i] = (np.nan, np.inf) if ball is None else ball
        is_wide = np.isinf(radii)
        if is_wide.any():
            centres[is_wide] = self.witnesses[is_wide]
        return centres, radii

    @cached_property
    def statistics(self) -> Statistics:
        """How the cells spread over volumes, neighbours and walls."""
        return partition_statistics(
            self.volumes, self.neighbours.degrees(self.n_cells), self.neighbours.walls
        )

    def certificate(self) -> Certificate:
        """Make a certificate that these are all cells (see `make_certificate`).

        Raises:
            ArgumentError: If the search was stopped early, or only counted.
        """
        self._require_stored()
        if not self.is_complete:
            raise ArgumentError(
                "`certificate` needs all cells; this search was stopped early and found "
                f"{self.n_cells} of them."
            )
        witnesses = self.stored_witnesses if self.line is None else self.line.witnesses
        return make_certificate(self.network, self.domain, self.signatures, witnesses)

    def locate(self, points: ArrayLike) -> IntArray:
        """Find the cell each point lies in, exactly; many points at once take far less time each.

        Args:
            points: Coordinates in the domain, shape `(dim,)` or `(n_points, dim)`.

        Returns:
            The index of the cell whose interior contains the point: a number as an array of shape
            `()`, or shape `(n_points,)`. It is -1 outside the domain, on a wall or on the boundary,
            and in a cell that a search stopped early has not found.

        Examples:
            >>> from hardmax.geometry.domains import Box
            >>> from hardmax.models.networks import ReluNetwork
            >>> from hardmax.regions.engines import enumerate_regions
            >>> relu = ReluNetwork([[[1.0]], [[1.0]]])
            >>> part = enumerate_regions(relu, Box([-1], [1]))
            >>> part.locate([[-0.5], [0.5], [0.0], [1.0], [3.0]]).tolist()
            [0, 1, -1, -1, -1]
        """
        self._require_stored()
        batch = PointBatch.read("points", points, self.domain.dim)
        return batch.unpack(self._locator(batch.rows))

    @cached_property
    def _locator(self) -> CellLocator | LineLocator:
        if self.line is not None:
            return LineLocator(self.line)
        return CellLocator(self.network, self.domain, self.signatures)

    def _neighbours_among(self, chosen: Iterable[int]) -> Neighbours:
        if self.cells.walls is not None:
            return planar_neighbours(self.network, self.domain, self.cells, chosen)
        if self.cells.facets is not None:
            return spatial_neighbours(self.network, self.domain, self.cells, chosen)
        return neighbouring_cells(((i, self.rows(i)) for i in chosen), self.domain.dim)

    def _interior_point(self, cell: int) -> list[int]:
        height = (*(0,) * self.domain.dim, 1)
        rows = wide_rows([*self.rows(cell).walls, height], self.domain.dim + 1)
        direction = decide_open_cone(rows).direction
        assert direction is not None, "an engine returned a cell without interior"
        point: list[int] = direction.tolist()
        return point

    def _require_stored(self) -> None:
        if len(self.cells.signatures if self.line is None else self.line) != self.n_cells:
            raise ArgumentError(
                "`count_only` must be False for anything but the number of cells; this partition "
                "was only counted."
            )
