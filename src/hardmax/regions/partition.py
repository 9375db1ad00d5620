r"""All cells of a model on a domain, what can be asked about them, and how they show themselves."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import numpy as np

from hardmax._ground.arguments import integer
from hardmax._ground.display import (
    MOST_DRAWN,
    card,
    html_card,
    short_repr,
    svg_of_polygons,
)
from hardmax._ground.interrupts import interrupts_named
from hardmax._ground.palette import cell_colours, hexadecimal, palette
from hardmax._ground.pickling import WithoutCaches, quickly_cached
from hardmax.errors import ArgumentError, IncompleteError, Interrupted, RecordFormatError
from hardmax.exact.decisions import Decisions
from hardmax.exact.dyadic import nearest_floats, rationals
from hardmax.exact.integer_vectors import wide_rows
from hardmax.geometry.cones import decide_open_cone
from hardmax.geometry.polytopes import Polytope
from hardmax.models._arithmetic.recomposition import RationalForms
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.points import PointBatch
from hardmax.regions._location.points import CellLocator
from hardmax.regions._measures.measures import (
    BALL,
    VOLUME,
    WITNESS,
    Answers,
    inscribed_ball,
    is_wide,
    precise_ball,
    rounded_number,
)
from hardmax.regions._neighbours.adjacency import Neighbours, cell_polytope, neighbouring_cells
from hardmax.regions._neighbours.plane import planar_neighbours
from hardmax.regions._neighbours.space import spatial_neighbours
from hardmax.regions.cell_rows import CellRows, Wall, cell_rows
from hardmax.regions.cells import CellArrays
from hardmax.regions.certificate_format import Certificate
from hardmax.regions.certificates import make_certificate
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.regions.counts import Count, as_count
from hardmax.regions.merging import (
    candidate_classes,
    connected_classes,
    map_key,
    members,
    same_map_classes,
)
from hardmax.typing import ArrayLike, FloatArray, IntArray, WideArray

if TYPE_CHECKING:
    from hardmax.regions._lines.lines import LineCells
    from hardmax.regions._location.lines import LineLocator


@dataclass(frozen=True, eq=False)
class Statistics:
    """How the cells of a partition spread.

    Attributes:
        n_unbounded: How many cells have infinite volume.
        volume_quantiles: The 0, 25, 50, 75 and 100 percent quantiles of the finite volumes;
            NaN where there is none. Shape `(5,)`.
        mean_neighbours: The mean number of neighbours of a cell.
        max_neighbours: The largest number.
        walls_of: For each `(layer, group)` how many pairs of neighbours it separates.

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
    """Summarise volumes with their radii, numbers of neighbours and walls."""
    # A volume beyond all floats is finite, and has a radius.
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
    """Return the quantile `k / 4` of sorted numbers, linear between two of them."""
    below, part = divmod((len(ordered) - 1) * k, 4)
    if not part or ordered[below] == ordered[below + 1]:
        return ordered[below]
    return ordered[below] + part / 4 * (ordered[below + 1] - ordered[below])


_LONGEST_ASPECT = 4.0


def partition_card(partition: "Partition") -> str:
    """Write the card of a partition. Nothing is computed for it that takes long.

    Regions and affine maps are there once they have been asked for. The picture shows the cells of
    a bounded domain in the plane, if they were stored and are not too many; `hm.plot` shows more.
    """
    known = {name: partition.__dict__.get(name) for name in ("n_regions", "n_affine_maps")}
    rows = {
        "dimension": str(partition.domain.dim),
        "engine": partition.engine,
        "layers": str(len(partition.network.layers)),
        **{name.removeprefix("n_"): str(n) for name, n in known.items() if n is not None},
        "decisions": partition.decisions,
    }
    return card(repr(partition), rows, _picture(partition))


def _picture(partition: "Partition") -> str:
    """Draw the polygons of the cells as SVG; nothing where that cannot be done at once."""
    cells = partition.cells
    drawable = partition.domain.dim == 2 and cells.directions is None and partition._line is None
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
    fills = hexadecimal(cell_colours(cells.signatures, n_groups))
    polygons = np.split(cells.vertices, cells.starts[1:-1])
    return svg_of_polygons(polygons, fills, low, high, ink=palette()["light"]["ink"])


Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def _kept_on_interrupt(
    question: Callable[Concatenate["Partition", Arguments], Answer],
) -> Callable[Concatenate["Partition", Arguments], Answer]:
    """Let Ctrl-C during a question raise `Interrupted` with the partition it was asked of."""

    @wraps(question)
    def asked(self: "Partition", /, *args: Arguments.args, **more: Arguments.kwargs) -> Answer:
        try:
            with interrupts_named:
                return question(self, *args, **more)
        except Interrupted:
            raise
        except KeyboardInterrupt:
            raise Interrupted(
                f"`{question.__name__}` was interrupted; `partial` is the partition", self
            ) from None

    return asked


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
    cells: CellArrays
    engine: str
    stored_witnesses: WideArray | None = None
    _line: "LineCells | None" = None  # What the engine for lines found, if it was that one.

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

    @property
    def n_found(self) -> int:
        """How many cells the search found: all there are only if `is_complete`."""
        return self.cells.n_counted

    @property
    def n_cells(self) -> Count:
        """How many signatures have an interior in the domain; `AtLeast` so many if not complete."""
        return as_count(self.n_found, self.is_complete)

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
        return self.cells.signatures if self._line is None else self._line.signatures

    @cached_property
    def n_affine_maps(self) -> Count:
        """How many different affine maps the output has on the cells, decided exactly.

        `AtLeast` as many as the cells found have, if the search was stopped early.
        """
        return as_count(int(self.map_classes.max(initial=-1)) + 1, self.is_complete)

    @cached_property
    def n_regions(self) -> Count:
        """How many connected pieces the cells with equal affine maps form.

        If the search was stopped early, `AtLeast` as many as there are maps: cells not found may
        join what seems apart. Along a line through a ReLU network nothing is left out before the
        last cell found, and the pieces count.
        """
        if not self.is_complete and self._line is None:
            return self.n_affine_maps
        return as_count(int(self.region_labels.max(initial=-1)) + 1, self.is_complete)

    @cached_property
    @_kept_on_interrupt
    def map_classes(self) -> IntArray:
        """For each cell a number; equal exactly where the affine maps are: shape `(n_cells,)`."""
        self._require_stored()
        shape = self.n_found, -1 if self.n_found else 0
        maps, radii = np.zeros((self.n_found, 1)), np.full((self.n_found, 1), np.inf)
        if self.cells.maps is not None and self.cells.map_radii is not None:
            maps, radii = self.cells.maps, self.cells.map_radii
            if radii.ndim == 1:
                radii = radii.reshape(self.n_found, *(1,) * (maps.ndim - 1))
            radii = np.broadcast_to(radii, maps.shape).reshape(shape)
            maps = maps.reshape(shape)
        candidates = candidate_classes(maps, radii)
        return same_map_classes(candidates, maps, radii, lambda i: map_key(self.exact_map(i)))

    @cached_property
    @_kept_on_interrupt
    def region_labels(self) -> IntArray:
        """For each cell the number of its region: shape `(n_cells,)`.

        Of a search that was stopped early, the pieces that the cells found form among themselves.
        """
        if "neighbours" in self.__dict__:
            return connected_classes(self.map_classes, self.neighbours.pairs)
        # Only cells with a partner can merge. One call is quicker where an engine left its facets.
        is_shared = np.bincount(self.map_classes)[self.map_classes] > 1
        if not is_shared.any():
            groups = []
        elif self.cells.wall_names is not None or self.cells.facets is not None:
            groups = [np.flatnonzero(is_shared).tolist()]
        else:
            groups = [group for group in members(self.map_classes) if len(group) > 1]
        pairs = [self._neighbours_among(group).pairs for group in groups]
        none = np.empty((0, 2), dtype=np.int64)
        return connected_classes(self.map_classes, np.concatenate([none, *pairs]))

    @cached_property
    @_kept_on_interrupt
    def affine_maps(self) -> FloatArray:
        """The output on each cell as `(t, 1) @ map`: shape `(n_cells, dim + 1, dim_out)`.

        Rounded; `exact_map` is exact.
        """
        self._require_stored()
        if self.cells.maps is not None:
            return self.cells.maps
        shape = self.n_found, self.domain.dim + 1, self.network.dim_out
        maps = np.empty(shape)
        for i in range(self.n_found):
            maps[i] = self.exact_map(i).rounded().T
        return maps

    def exact_map(self, cell: int) -> RationalForms:
        """Return the output on a cell, one exact form in the domain's coordinates per output."""
        return self.rows(cell).stream.compose(self.network.readout)

    def rows(self, cell: int) -> CellRows:
        """Return the inequalities of a cell with the walls they stand for."""
        self._require_stored()
        index = integer("cell", cell, at_least=0, at_most=self.n_found - 1)
        line = self._line
        signature = self.cells.signatures[index] if line is None else line.walk.row(index)
        return cell_rows(self.network, self.domain, signature)

    def polytope(self, cell: int) -> Polytope:
        """Return the closure of a cell in the domain's coordinates, exactly."""
        return cell_polytope(self.rows(cell), self.domain.dim)

    @cached_property
    @_kept_on_interrupt
    def exact_witnesses(self) -> WideArray:
        """A point inside each cell as fractions: shape `(n_cells, dim)`."""
        self._require_stored()
        if self.stored_witnesses is not None:
            return _quotients(self.stored_witnesses.tolist(), self.domain.dim)
        floats, left_open = self._measured(WITNESS)
        witnesses = rationals(floats)
        if self._line is not None:
            inside = [[one.midpoint()] for one in self._line.intervals(left_open)]
            witnesses[left_open] = wide_rows(inside, 1)
            return witnesses
        witnesses[left_open] = _quotients(
            [self._interior_point(i) for i in left_open.tolist()], self.domain.dim
        )
        return witnesses

    @cached_property
    @_kept_on_interrupt
    def witnesses(self) -> FloatArray:
        """A point inside each cell: shape `(n_cells, dim)`.

        These are the points of `exact_witnesses`. In up to seven dimensions a float inside the
        cell is taken wherever one is found; elsewhere, and in cells too thin, they are rounded and
        may lie outside.
        """
        self._require_stored()
        if self.stored_witnesses is not None:
            return nearest_floats(self.exact_witnesses)
        witnesses, left_open = self._measured(WITNESS)
        if len(left_open):
            witnesses[left_open] = nearest_floats(self.exact_witnesses[left_open])
        return witnesses

    @cached_property
    @_kept_on_interrupt
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
        if self._line is not None:
            return self._line.breakpoints
        ends = (self.polytope(i).exact_vertices.ravel().tolist() for i in range(self.n_found))
        counts = Counter(end for both in ends for end in both)
        shared = sorted(end for end, count in counts.items() if count == 2)
        return np.array(shared, dtype=object)

    @quickly_cached
    @_kept_on_interrupt
    def neighbours(self) -> Neighbours:
        """All pairs of cells that share a part of a wall, with the walls between them.

        Of a search that was stopped early, the pairs among the cells found.
        """
        self._require_stored()
        return self._neighbours_among(None)

    @property
    def volumes(self) -> FloatArray:
        """The volume of each cell in the domain's coordinates: shape `(n_cells,)`.

        It errs by at most `volume_radii`; `exact_volumes` is exact. An unbounded cell has `inf`.
        """
        return self._volumes[:, 0]

    @property
    def volume_radii(self) -> FloatArray:
        """A bound on the error of each volume: shape `(n_cells,)`.

        At most $2^{-20}$ of the volume, or half a unit in its last place. Zero for a cell that is
        unbounded; `inf` for one whose volume exceeds all floats.
        """
        return self._volumes[:, 1]

    @cached_property
    @_kept_on_interrupt
    def exact_volumes(self) -> WideArray:
        """The volume of each cell in the domain's coordinates, a fraction or `inf`."""
        self._require_stored()
        volumes = np.empty(self.n_found, dtype=object)
        volumes[:] = self._exact_volumes_of(np.arange(self.n_found))
        return volumes

    def _exact_volumes_of(self, cells: IntArray) -> list[Fraction | float]:
        if self._line is not None:
            return [one.length() for one in self._line.intervals(cells)]
        return [self.polytope(i).volume for i in cells.tolist()]

    @cached_property
    @_kept_on_interrupt
    def _volumes(self) -> FloatArray:
        """Volumes and their radii: shape `(n_cells, 2)`."""
        self._require_stored()
        volumes, left_open = self._measured(VOLUME)
        for i, volume in zip(left_open, self._exact_volumes_of(left_open), strict=True):
            volumes[i] = rounded_number(volume)
        return volumes

    @cached_property
    @_kept_on_interrupt
    def chebyshev_centres(self) -> tuple[FloatArray, FloatArray]:
        """Centre and radius of a largest ball in each cell: `(n_cells, dim)`, `(n_cells,)`.

        The ball lies in the closed cell, and no ball in it has a radius larger by $2^{-20}$; both
        are proven. (A cell narrower than $2^{20}$ spacings of floats has the radius so, and the
        nearest float to the centre.) In more than three dimensions a linear program in float64
        finds the ball for such narrow cells, for unbounded ones without balls of every size, and
        where the engine has no vertices. Its radius is never too large then, but may fall short of
        the largest; both are NaN where the program fails. A cell that contains balls of any size
        has radius `inf` and as its centre the witness.
        """
        self._require_stored()
        dim = self.domain.dim
        balls, left_open = self._measured(BALL)
        for i in left_open.tolist():
            rows = [*self.rows(i).walls]
            if is_wide(rows, dim):
                balls[i, -1] = np.inf
            else:
                balls[i, :-1], balls[i, -1] = (precise_ball if dim <= 3 else inscribed_ball)(
                    rows, dim
                )
        wide = np.isinf(balls[:, -1])
        if wide.any():
            balls[wide, :-1] = self.witnesses[wide]
        return balls[:, :-1], balls[:, -1]

    @cached_property
    def statistics(self) -> Statistics:
        """How the cells spread over volumes, neighbours and walls.

        Raises:
            IncompleteError: If the search was stopped early: cells at its edge lack neighbours, and
                those not found may be larger or smaller.
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
        """Make a certificate that these are all cells (see `make_certificate`).

        Raises:
            IncompleteError: If the search was stopped early.
            ArgumentError: If the cells were only counted.
        """
        self._require_stored()
        self.require_complete("certificate")
        witnesses: FloatArray | WideArray | None = self.stored_witnesses
        if self.domain.dim <= 2:
            # Floats are short, and quickly seen to be inside; those that are not will be replaced.
            witnesses = np.nan_to_num(self.witnesses)
        return make_certificate(self.network, self.domain, self.signatures, witnesses)

    @_kept_on_interrupt
    def locate(self, points: ArrayLike) -> IntArray:
        """Find the cell each point lies in, exactly; many points at once take far less time each.

        Args:
            points: Coordinates in the domain, shape `(dim,)` or `(n_points, dim)`.

        Returns:
            The index of the cell whose interior contains the point: a number as an array of shape
            `()`, or shape `(n_points,)`. It is -1 outside the domain, on a wall or on the boundary,
            and in a cell that a search stopped early has not found.

        Examples:
            >>> from hardmax import Box, ReluNetwork, enumerate_regions
            >>> relu = ReluNetwork([[[1.0]], [[1.0]]])
            >>> part = enumerate_regions(relu, Box([-1], [1]))
            >>> part.locate([[-0.5], [0.5], [0.0], [1.0], [3.0]]).tolist()
            [0, 1, -1, -1, -1]
        """
        self._require_stored()
        batch = PointBatch.read("points", points, self.domain.dim)
        return batch.unpack(self._locator(batch.rows))

    @cached_property
    def _locator(self) -> "CellLocator | LineLocator":
        if self._line is not None:
            from hardmax.regions._location.lines import LineLocator

            return LineLocator(self._line)
        return CellLocator(self.network, self.domain, self.signatures)

    def _neighbours_among(self, chosen: Iterable[int] | None) -> Neighbours:
        """Find the neighbours among some cells, or all if that is None."""
        if self.cells.wall_names is not None:
            return planar_neighbours(self.network, self.domain, self.cells, chosen)
        # A compiled search leaves facets, which need not be read into arrays.
        if self.cells.found is not None or self.cells.facets is not None:
            return spatial_neighbours(self.network, self.domain, self.cells, chosen)
        among = range(self.n_found) if chosen is None else chosen
        return neighbouring_cells(((i, self.rows(i)) for i in among), self.domain.dim)

    def _measured(self, question: int) -> Answers:
        """Ask floats with proofs about all cells; what they do not know is left open."""
        if self._line is not None:
            return self._line.measured(question)
        if self.cells.wall_names is not None or self.cells.walls is not None:
            # What is compiled is loaded when it is needed.
            from hardmax.regions._measures.plane import measured

            return measured(self.network, self.domain, self.cells, question)
        if self.cells.facets is not None and self.domain.dim == 1:
            from hardmax.regions._measures.line import interval_ends, measured_intervals

            # A table read from a file may say anything.
            if self.cells.starts is not None and (np.diff(self.cells.starts) == 2).all():
                return measured_intervals(*interval_ends(self.cells), question)
        elif self.cells.facets is not None:
            from hardmax.regions._measures import space as spatial_measures

            return spatial_measures.measured(self.network, self.domain, self.cells, question)
        width = {VOLUME: 2, WITNESS: self.domain.dim, BALL: self.domain.dim + 1}[question]
        return Answers(np.zeros((self.n_found, width)), np.arange(self.n_found))

    def _interior_point(self, cell: int) -> list[int]:
        height = (*(0,) * self.domain.dim, 1)
        rows = wide_rows([*self.rows(cell).walls, height], self.domain.dim + 1)
        direction = decide_open_cone(rows).direction
        if direction is None:
            # The engines find no such cell: a file has it.
            raise RecordFormatError(
                f"Cell {cell} is empty: the model has no cell with its signature on this domain. "
                "The file that these cells come from was changed; search again."
            )
        point: list[int] = direction.tolist()
        return point

    def require_complete(self, name: str) -> None:
        """Refuse what needs all cells where a search was stopped early.

        Args:
            name: What is asked for.

        Raises:
            IncompleteError: If `is_complete` is False.
        """
        if not self.is_complete:
            raise IncompleteError(
                f"`{name}` needs all cells; this search was stopped early and found "
                f"{self.n_found} of them, which is what `n_found` says."
            )

    def _require_stored(self) -> None:
        n_stored = self.cells.n_stored if self._line is None else len(self._line)
        if n_stored != self.n_found:
            raise ArgumentError(
                "`count_only` must be False for anything but the number of cells; this partition "
                "was only counted."
            )


def _quotients(points: list[list[int]], dim: int) -> WideArray:
    """Return integers `(p, q)` as the points `p / q`, shape `(n, dim)`."""
    return wide_rows([[Fraction(x, p[-1]) for x in p[:-1]] for p in points], dim)
