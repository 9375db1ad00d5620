r"""`Partition`: the cells of a model on a domain, with their measures, neighbours and display."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, overload

import numpy as np

from hardmax._ground.arguments import integer
from hardmax._ground.display import (
    MOST_DRAWN,
    draw_svg,
    format_card,
    html_card,
    short_repr,
)
from hardmax._ground.interrupts import restore_interrupts
from hardmax._ground.palette import cell_colours, palette, to_hex
from hardmax._ground.pickling import DropsCachesOnPickle, cached_attribute
from hardmax.errors import ArgumentError, IncompleteError, Interrupted
from hardmax.exact.decisions import Decisions
from hardmax.exact.dyadic import nearest_floats, rationals
from hardmax.geometry.polytopes import Polytope
from hardmax.models._arithmetic.recomposition import RationalForms
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.points import PointBatch
from hardmax.regions._measures.measures import (
    BALL,
    VOLUME,
    WITNESS,
    rounded_number,
)
from hardmax.regions._neighbours.adjacency import Neighbours
from hardmax.regions.cell_arrays import CellArrays
from hardmax.regions.cell_objects import Cell, iter_cells, name_cells, select_cells
from hardmax.regions.cell_rows import CellRows, Wall
from hardmax.regions.cells import Cells, Locator
from hardmax.regions.certificate_format import Certificate
from hardmax.regions.certificates import make_certificate
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.regions.counts import Count, as_count
from hardmax.regions.decision import Decision, classes_of_cells, find_decision
from hardmax.regions.merging import (
    candidate_classes,
    connected_classes,
    map_key,
    members,
    same_map_classes,
)
from hardmax.typing import ArrayLike, FloatArray, IntArray, WideArray

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, eq=False)
class Statistics:
    """Summary statistics of the cells of a partition.

    Attributes:
        n_unbounded: The number of cells with infinite volume.
        volume_quantiles: The 0, 25, 50, 75 and 100 percent quantiles of the finite volumes, shape
            `(5,)`; NaN if there is no finite volume.
        mean_neighbours: The mean number of neighbours of a cell.
        max_neighbours: The largest number of neighbours of a cell.
        walls_of: For each `(layer, group)`, the number of pairs of neighbours that it separates.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> part = enumerate_regions(net, Box([-1, -1], [1, 1]))
        >>> part.statistics.volume_quantiles.tolist(), part.statistics.max_neighbours
        ([1.0, 1.0, 1.0, 1.0, 1.0], 2)
    """

    n_unbounded: int
    volume_quantiles: FloatArray
    mean_neighbours: float
    max_neighbours: int
    walls_of: dict[Wall, int]

    __repr__ = short_repr
    _repr_html_ = html_card


def partition_statistics(
    volumes: FloatArray, radii: FloatArray, degrees: IntArray, walls: Sequence[Sequence[Wall]]
) -> Statistics:
    """Summarize volumes (with their radii), numbers of neighbours and walls."""
    # A finite volume that exceeds all floats is `inf` too, but has a positive radius.
    is_unbounded = np.isinf(volumes) & (radii == 0.0)
    finite = sorted(volumes[~is_unbounded].tolist())
    quantiles = np.full(5, np.nan)
    if finite:
        quantiles[:] = [_quartile(finite, k) for k in range(5)]
    return Statistics(
        int(is_unbounded.sum()),
        quantiles,
        float(degrees.mean()) if len(degrees) else 0.0,
        int(degrees.max(initial=0)),
        dict(sorted(Counter(wall for named in walls for wall in named).items())),
    )


def _quartile(ordered: Sequence[float], k: int) -> float:
    """Return the quantile `k / 4` of sorted numbers, by linear interpolation."""
    below, part = divmod((len(ordered) - 1) * k, 4)
    if not part or ordered[below] == ordered[below + 1]:
        return ordered[below]
    return ordered[below] + part / 4 * (ordered[below + 1] - ordered[below])


_LONGEST_ASPECT = 4.0


def partition_card(partition: "Partition") -> str:
    """Return the HTML card of a partition, without any expensive computation.

    The card lists regions and affine maps only if they have been computed already. The picture
    shows the cells of a bounded planar domain if they were stored and their number is moderate;
    `hm.plot` shows more.
    """
    known = {name: partition.__dict__.get(name) for name in ("n_regions", "n_affine_maps")}
    rows = {
        "dimension": str(partition.domain.dim),
        "engine": partition.engine,
        "layers": str(len(partition.network.layers)),
        **{name.removeprefix("n_"): str(n) for name, n in known.items() if n is not None},
        "decisions": partition.decisions,
    }
    return format_card(repr(partition), rows, _picture(partition))


def _picture(partition: "Partition") -> str:
    """Return an SVG picture of the cells, or an empty string if it cannot be drawn quickly."""
    cells = partition.cells
    drawable = partition.domain.dim == 2 and cells.directions is None
    if not drawable or cells.vertices is None or cells.starts is None:
        return ""
    if not 1 <= len(cells.starts) - 1 <= MOST_DRAWN:
        return ""
    low, high = cells.vertices.min(axis=0), cells.vertices.max(axis=0)
    with np.errstate(over="ignore"):
        spans = high - low
    aspect = spans / spans.max()
    if not np.isfinite(spans).all() or aspect.min() < 1.0 / _LONGEST_ASPECT:
        return ""
    n_groups = [layer.n_groups for layer in partition.network.layers]
    fills = to_hex(cell_colours(cells.signatures, n_groups))
    polygons = np.split(cells.vertices, cells.starts[1:-1])
    return draw_svg(polygons, fills, low, high, ink=palette()["light"]["ink"])


Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def _kept_on_interrupt(
    question: Callable[Concatenate["Partition", Arguments], Answer],
) -> Callable[Concatenate["Partition", Arguments], Answer]:
    """Wrap a method so that Ctrl-C raises `Interrupted` with the partition as its `partial`."""

    @wraps(question)
    def asked(self: "Partition", /, *args: Arguments.args, **more: Arguments.kwargs) -> Answer:
        try:
            with restore_interrupts:
                return question(self, *args, **more)
        except Interrupted:
            raise
        except KeyboardInterrupt:
            raise Interrupted(
                f"`{question.__name__}` was interrupted; `partial` holds the partition", self
            ) from None

    return asked


@dataclass(frozen=True, eq=False, repr=False)
class Partition(DropsCachesOnPickle):
    r"""The cells of a model on a domain, as `enumerate_regions` returns them.

    A cell is the open convex set of all points with one signature. All geometry is in the
    domain's coordinates $t$; for a box, a polytope and the whole space, $t = x$. Integers and
    fractions are exact. Floats are rounded from exact values or computed by the engine.
    Expensive properties are computed on first access and cached.

    Three counts describe a partition: `n_cells`, the number of signatures; `n_regions`, the number
    of connected sets with one affine map; and `n_affine_maps`, the number of distinct affine maps.
    They satisfy `n_cells >= n_regions >= n_affine_maps`. Cells are numbered from 0, in the order of
    the rows of `signatures`.

    `part[i]` is cell `i` as a `Cell`, `part[-1]` is the last cell, and a slice is a tuple of cells.
    A loop over a partition visits the cells that were found. If the search was stopped early,
    `len(part)` raises an `IncompleteError`, and so does `list(part)`.

    Attributes:
        network: The model as argmax layers.
        domain: The domain with its chart.
        found: The cells as the engine returned them. It answers every question about single cells.
        engine: The engine that found the cells: `"lines"`, `"planar"`, `"spatial"` or
            `"split_tree"`.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> part = enumerate_regions(net, Box([-1, -1], [1, 1]))
        >>> part
        Partition(4 cells, in 2 dimensions, engine planar)
        >>> part.signatures.tolist(), part.volumes.tolist()
        ([[0, 0], [0, 1], [1, 0], [1, 1]], [1.0, 1.0, 1.0, 1.0])
        >>> part.polytope(3).vertices.tolist(), part.affine_maps[3].ravel().tolist()
        ([[1.0, 1.0], [1.0, -1.0], [0.0, 0.0]], [2.0, 0.0, 0.0])
        >>> part.neighbours.pairs.tolist(), part.locate([[0.5, 0.1]]).tolist()
        ([[0, 1], [0, 2], [1, 3], [2, 3]], [3])
    """

    network: ArgmaxNetwork
    domain: ChartedDomain
    found: Cells
    engine: str

    def __repr__(self) -> str:
        count = f"{self.n_cells} cell{'s' * (self.n_found != 1)}"
        if not self.is_complete:
            count = f"{count}, search stopped early"
        where = f"in {self.domain.dim} dimension{'s' * (self.domain.dim != 1)}"
        return f"Partition({count}, {where}, engine {self.engine})"

    def _repr_html_(self) -> str:
        return partition_card(self)

    def __len__(self) -> int:
        self.require_complete("len")
        return self.n_found

    def __bool__(self) -> bool:
        return True

    @overload
    def __getitem__(self, index: int) -> Cell: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Cell, ...]: ...
    def __getitem__(self, index: int | slice) -> Cell | tuple[Cell, ...]:
        self.require_stored()
        return select_cells(self, index)

    def __iter__(self) -> Iterator[Cell]:
        self.require_stored()
        return iter_cells(self)

    @property
    def cells(self) -> CellArrays:
        """The arrays that the engine stored: vertices, maps and walls of cells."""
        return self.found.arrays

    @property
    def n_found(self) -> int:
        """The number of cells found, which is the number of all cells only if `is_complete`."""
        return self.cells.n_counted

    @property
    def n_cells(self) -> Count:
        """The number of cells in the domain; an `AtLeast` if the search was stopped early."""
        return as_count(self.n_found, self.is_complete)

    @property
    def is_complete(self) -> bool:
        """Whether every cell was found."""
        return self.cells.is_complete

    @property
    def decisions(self) -> Decisions:
        """The number of decisions made by each stage of the engine."""
        return self.cells.decisions

    @property
    def signatures(self) -> IntArray:
        """The index of the winner in every group, for each cell: shape `(n_cells, n_groups)`."""
        self.require_stored()
        return self.found.signatures

    @cached_property
    def n_affine_maps(self) -> Count:
        """The number of distinct affine maps on the cells, decided exactly.

        If the search was stopped early, an `AtLeast` with the number of maps found so far.
        """
        return as_count(int(self.map_classes.max(initial=-1)) + 1, self.is_complete)

    @cached_property
    def n_regions(self) -> Count:
        """The number of regions: connected sets of cells with the same affine map.

        If the search was stopped early, an `AtLeast` with the number of affine maps found, because
        missing cells may connect regions that seem separate. For a ReLU network on a line, the
        search finds cells without gaps, and the bound is the number of regions found.
        """
        if not self.is_complete and self.found.has_gaps:
            return self.n_affine_maps
        return as_count(int(self.region_labels.max(initial=-1)) + 1, self.is_complete)

    @cached_property
    @_kept_on_interrupt
    def map_classes(self) -> IntArray:
        """The number of each cell's affine map, equal if and only if the maps are: `(n_cells,)`."""
        self.require_stored()
        maps, radii = np.zeros((self.n_found, 1)), np.full((self.n_found, 1), np.inf)
        if self.found.maps is not None:
            shape = self.n_found, -1 if self.n_found else 0
            maps, radii = (array.reshape(shape) for array in self.found.maps)
        candidates = candidate_classes(maps, radii)
        return same_map_classes(candidates, maps, radii, lambda i: map_key(self.exact_map(i)))

    @cached_property
    @_kept_on_interrupt
    def region_labels(self) -> IntArray:
        """The number of each cell's region: shape `(n_cells,)`.

        If the search was stopped early, the regions are those formed by the cells found.
        """
        if "neighbours" in self.__dict__:
            return connected_classes(self.map_classes, self.neighbours.pairs)
        # Only cells that share their map can merge. One call is faster if the engine stored facets.
        is_shared = np.bincount(self.map_classes)[self.map_classes] > 1
        if not is_shared.any():
            groups = []
        elif self.found.has_walls:
            groups = [np.flatnonzero(is_shared).tolist()]
        else:
            groups = [group for group in members(self.map_classes) if len(group) > 1]
        pairs = [self.found.neighbours(group).pairs for group in groups]
        none = np.empty((0, 2), dtype=np.int64)
        return connected_classes(self.map_classes, np.concatenate([none, *pairs]))

    @cached_property
    @_kept_on_interrupt
    def affine_maps(self) -> FloatArray:
        """The affine map on each cell, rounded: shape `(n_cells, dim + 1, dim_out)`.

        The output at a point `t` of cell `i` is `(t, 1) @ affine_maps[i]`. See `exact_map` for
        exact coefficients.
        """
        self.require_stored()
        if self.found.maps is not None:
            return self.found.maps[0]
        shape = self.n_found, self.domain.dim + 1, self.network.dim_out
        maps = np.empty(shape)
        for i in range(self.n_found):
            maps[i] = self.exact_map(i).rounded().T
        return maps

    def exact_map(self, cell: int) -> RationalForms:
        """Return the affine map on a cell: one exact form in the domain's coordinates per output.

        Args:
            cell: The index of the cell.
        """
        return self.found.exact_map(self._index(cell))

    def rows(self, cell: int) -> CellRows:
        """Return the exact inequalities of a cell and the walls on which they are equalities.

        Args:
            cell: The index of the cell.
        """
        return self.found.rows(self._index(cell))

    def polytope(self, cell: int) -> Polytope:
        """Return the closure of a cell as an exact polytope in the domain's coordinates.

        Args:
            cell: The index of the cell.
        """
        return self.found.polytope(self._index(cell))

    def _index(self, cell: int) -> int:
        self.require_stored()
        return integer("cell", cell, at_least=0, at_most=self.n_found - 1)

    @cached_property
    @_kept_on_interrupt
    def exact_witnesses(self) -> WideArray:
        """A point in the interior of each cell, as fractions: shape `(n_cells, dim)`."""
        self.require_stored()
        floats, left_open = self.found.measure(WITNESS)
        witnesses = rationals(floats)
        witnesses[left_open] = self.found.interior_points(left_open)
        return witnesses

    @cached_property
    @_kept_on_interrupt
    def witnesses(self) -> FloatArray:
        """A point of each cell as floats: shape `(n_cells, dim)`.

        These are the points of `exact_witnesses`. Up to dimension 7, a point with float
        coordinates inside the cell is used if one is found. In higher dimensions, and for cells
        that are too thin, the points are rounded and may lie outside their cells.
        """
        self.require_stored()
        witnesses, left_open = self.found.measure(WITNESS)
        if len(left_open):
            witnesses[left_open] = nearest_floats(self.exact_witnesses[left_open])
        return witnesses

    @cached_property
    @_kept_on_interrupt
    def breakpoints(self) -> WideArray:
        """The points where cells of a one-dimensional domain meet: sorted fractions.

        Raises:
            ArgumentError: If the dimension of the domain is not 1.
        """
        if self.domain.dim != 1:
            raise ArgumentError(
                "`breakpoints` requires a domain of dimension 1; this domain has dimension "
                f"{self.domain.dim}."
            )
        self.require_stored()
        return self.found.breakpoints

    @cached_attribute
    @_kept_on_interrupt
    def neighbours(self) -> Neighbours:
        """The pairs of cells that share a part of a wall, and the walls between them.

        If the search was stopped early, only pairs of cells that were found.
        """
        self.require_stored()
        return self.found.neighbours()

    @property
    def volumes(self) -> FloatArray:
        """The volume of each cell in the domain's coordinates: shape `(n_cells,)`.

        The error is at most `volume_radii`; `exact_volumes` has no error. The volume of an
        unbounded cell is `inf`.
        """
        return self._volumes[:, 0]

    @property
    def volume_radii(self) -> FloatArray:
        """A proven bound on the error of each volume: shape `(n_cells,)`.

        It is at most $2^{-20}$ times the volume, or half a unit in the last place. It is zero for
        an unbounded cell, and `inf` for a bounded cell whose volume exceeds all floats.
        """
        return self._volumes[:, 1]

    @cached_property
    @_kept_on_interrupt
    def exact_volumes(self) -> WideArray:
        """The exact volume of each cell in the domain's coordinates: fractions or `inf`."""
        self.require_stored()
        volumes = np.empty(self.n_found, dtype=object)
        volumes[:] = self.found.exact_volumes(np.arange(self.n_found))
        return volumes

    @cached_property
    @_kept_on_interrupt
    def _volumes(self) -> FloatArray:
        """The volumes and their radii: shape `(n_cells, 2)`."""
        self.require_stored()
        volumes, left_open = self.found.measure(VOLUME)
        for i, volume in zip(left_open, self.found.exact_volumes(left_open), strict=True):
            volumes[i] = rounded_number(volume)
        return volumes

    @cached_property
    @_kept_on_interrupt
    def chebyshev_centres(self) -> tuple[FloatArray, FloatArray]:
        """The centre and radius of a largest ball in each cell: `(n_cells, dim)`, `(n_cells,)`.

        The ball is proven to lie in the closed cell, and its radius is proven to be within a
        relative error of $2^{-20}$ of the largest. In a cell narrower than $2^{20}$ spacings of
        floats, this holds for the radius, and the centre is rounded to the nearest floats. If a
        cell contains arbitrarily large balls, the radius is `inf` and the centre is the witness.

        Above dimension 3, a linear program in float64 finds the ball if the cell is that narrow,
        if the cell is unbounded but does not contain arbitrarily large balls, or if the engine
        stores no vertices. The radius is then still never too large, but may be smaller than the
        largest. If the program fails, the centre and the radius are NaN.
        """
        self.require_stored()
        balls, left_open = self.found.measure(BALL)
        for i in left_open.tolist():
            balls[i, :-1], balls[i, -1] = self.found.largest_ball(i)
        wide = np.isinf(balls[:, -1])
        if wide.any():
            balls[wide, :-1] = self.witnesses[wide]
        return balls[:, :-1], balls[:, -1]

    @cached_property
    @_kept_on_interrupt
    def decision(self) -> Decision:
        """The cells, cut where the largest output changes, found by a second search.

        Raises:
            IncompleteError: If the search was stopped early.
        """
        return find_decision(self)

    @cached_property
    def classes(self) -> IntArray:
        """The index of the largest output on each cell, or -1 where it changes: `(n_cells,)`.

        If outputs are equal on the whole cell, the first of them counts. `decision` has the parts
        of cells on which the largest output changes.

        Raises:
            IncompleteError: If the search was stopped early.
        """
        return classes_of_cells(self.decision, self.n_found)

    @property
    def decision_boundary(self) -> FloatArray:
        """Short for `decision.boundary`: points `(n, 1)`, or segments of a plane `(n, 2, 2)`.

        Raises:
            IncompleteError: If the search was stopped early.
            ArgumentError: If the domain has more than two dimensions, or the boundary is unbounded.
        """
        return self.decision.boundary

    @cached_property
    def statistics(self) -> Statistics:
        """Summary statistics: quantiles of the volumes, numbers of neighbours, and walls.

        Raises:
            IncompleteError: If the search was stopped early. Some cells would lack neighbours, and
                the volumes of missing cells are unknown.
        """
        self.require_complete("statistics")
        return partition_statistics(
            self.volumes,
            self.volume_radii,
            self.neighbours.degrees(self.n_found),
            self.neighbours.walls,
        )

    @_kept_on_interrupt
    def certificate(self) -> Certificate:
        """Make a certificate that the list of cells is complete (see `make_certificate`).

        Raises:
            IncompleteError: If the search was stopped early.
            ArgumentError: If the cells were counted but not stored.
        """
        self.require_stored()
        self.require_complete("certificate")
        witnesses: FloatArray | WideArray | None = self.found.witnesses
        if self.domain.dim <= 2:
            # Floats are short and quickly proven to be inside. The others will be replaced.
            witnesses = np.nan_to_num(self.witnesses)
        return make_certificate(self.network, self.domain, self.signatures, witnesses)

    @_kept_on_interrupt
    def locate(self, points: ArrayLike) -> IntArray:
        """Find the cell that contains each point, exactly.

        Locating many points in one call is much faster than calling this method for each point.

        Args:
            points: Coordinates in the domain, shape `(dim,)` or `(n_points, dim)`.

        Returns:
            For each point, the index of the cell that contains it: shape `()` for a single point,
            otherwise `(n_points,)`. The index is -1 if the point lies outside the domain, on its
            boundary, on a wall, or in a cell that was not found because the search was stopped
            early.

        Examples:
            >>> from hardmax import Box, ReluNetwork, enumerate_regions
            >>> relu = ReluNetwork([[[1.0]], [[1.0]]])
            >>> part = enumerate_regions(relu, Box([-1], [1]))
            >>> part.locate([[-0.5], [0.5], [0.0], [1.0], [3.0]]).tolist()
            [0, 1, -1, -1, -1]
        """
        self.require_stored()
        batch = PointBatch.read("points", points, self.domain.dim)
        return batch.unpack(self._locator(batch.rows))

    @cached_property
    def _locator(self) -> Locator:
        # It refers to the cells, so they do not refer to it: a cycle would delay their release.
        return self.found.make_locator()

    def cells_at(self, points: ArrayLike) -> list[Cell | None]:
        """Return the cell that contains each point, exactly.

        Args:
            points: Coordinates in the domain, shape `(n_points, dim)`; or one point, `(dim,)`.

        Returns:
            One entry for each point. It is None where `locate` returns -1: outside the domain, on
            its boundary, on a wall, or in a cell that was not found because the search was stopped
            early. `hm.cell_at` describes a cell next to a point on a wall.

        Examples:
            >>> from hardmax import Box, ReluNetwork, enumerate_regions
            >>> part = enumerate_regions(ReluNetwork([[[1.0]], [[1.0]]]), Box([-1], [1]))
            >>> part.cells_at([[0.5], [0.0]])
            [Cell(1 of 2 cells, in 1 dimension), None]
        """
        return name_cells(self, np.atleast_1d(self.locate(points)).tolist())

    def require_complete(self, name: str) -> None:
        """Raise an error if the search was stopped early, for results that need all cells.

        Args:
            name: The name of the result, for the message.

        Raises:
            IncompleteError: If `is_complete` is False.
        """
        if not self.is_complete:
            raise IncompleteError(
                f"`{name}` needs all cells, but the search was stopped early and `n_found` is "
                f"{self.n_found}. Search again without a limit."
            )

    def require_stored(self) -> None:
        """Raise an error if the cells were only counted, for results that need the cells.

        Raises:
            ArgumentError: If the cells were counted but not stored.
        """
        if self.found.n_stored != self.n_found:
            raise ArgumentError(
                "The cells of this partition were counted but not stored, so only their number is "
                "known. Search again with `count_only=False`."
            )
