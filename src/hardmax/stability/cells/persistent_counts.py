r"""A certified count of the cells that persist at one temperature, with a witness for each."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax._ground.arguments import number, read_only_copy
from hardmax._ground.display import html_card
from hardmax.errors import ArgumentError
from hardmax.exact.dyadic import nearest_floats
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.model_arguments import read_model
from hardmax.regions.charted_domains import charted_network
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition
from hardmax.stability.cells.cell_gaps import CellGaps, cell_gaps
from hardmax.stability.cells.cutting_planes import critical_temperature
from hardmax.stability.cells.hardness_levels import sufficient_levels
from hardmax.stability.cells.soft_search import float_walls, hardest_point, worst_odds
from hardmax.stability.models import has_one_attention_layer, head_names, read_soft_model
from hardmax.stability.networks.soft_certificates import certify_soft, layer_temperatures
from hardmax.stability.temperatures import read_epsilon
from hardmax.typing import BoolArray, DomainLike, FloatArray, ModelLike

_ROUNDS = 30
"""Maximum number of rounds of cuts before a cell is left undecided."""
_STEPS = (0.0, 1e-6, 1e-3, 0.05, 0.3, 1.0)
"""Successive fractions by which a candidate point is moved towards an interior point of its cell,
until it is inside."""
_INWARDS = (0.1, 0.3, 0.6, 1.0)
"""Successive fractions by which a hard point is moved inwards to find a point where the units agree
as well."""


@dataclass(frozen=True, eq=False, repr=False)
class PersistentCells:
    r"""The cells that are $\varepsilon$-hard at a given temperature.

    The boolean arrays have shape `(n_cells,)`.

    Attributes:
        partition: The partition of the hard model into cells.
        taus: The temperature of each layer of the network.
        epsilon: The share $\varepsilon$ of the weight that rivals may have.
        by_margin: Cells proved $\varepsilon$-hard by the exact margins of a single layer of heads;
            False for deep models.
        by_cuts: Cells of a single layer of heads proved $\varepsilon$-hard by a rational point that
            cutting planes find; False for deep models.
        by_point: Cells proved $\varepsilon$-hard by `certify_soft` at a float64 point strictly
            inside the cell.
        is_possible: Cells that are not proved to be soft. In deep models only the first layer of
            heads, which reads the same stream in both models, can rule out a cell.
        points: The float64 points of `by_point` in coordinates of the domain, NaN for cells without
            such a point; shape `(n_cells, dim)`.
        rival_masses: Certified bounds on the weight of all other keys at these points, 1 for cells
            without a point; shape `(n_cells, n_heads)`.
        units_agree: Cells at whose point all units of the soft network are certainly in the same
            state as in the cell.

    Examples:
        >>> from hardmax import AttentionHead, Box
        >>> sign = AttentionHead([[1.0]], [[-1.0], [1.0]], [[-1.0], [1.0]], [[1.0]])
        >>> found = persistent_cells(sign, Box([-1], [3]), tau=0.25, epsilon=0.01)
        >>> found.n_certified, found.n_possible
        (2, 2)
    """

    partition: Partition
    taus: tuple[float, ...]
    epsilon: float
    by_margin: BoolArray
    by_cuts: BoolArray
    by_point: BoolArray
    is_possible: BoolArray
    points: FloatArray
    rival_masses: FloatArray
    units_agree: BoolArray

    _repr_html_ = html_card

    @property
    def is_certified(self) -> BoolArray:
        r"""The cells that are proved to be $\varepsilon$-hard; shape `(n_cells,)`."""
        return np.asarray(self.by_margin | self.by_cuts | self.by_point)

    @property
    def n_certified(self) -> int:
        r"""The number of cells proved $\varepsilon$-hard: a lower bound on the true number."""
        return int(self.is_certified.sum())

    @property
    def n_possible(self) -> int:
        r"""An upper bound on the number of $\varepsilon$-hard cells."""
        return int(self.is_possible.sum())

    def __repr__(self) -> str:
        return (
            f"PersistentCells(at least {self.n_certified}, at most {self.n_possible} of "
            f"{len(self.by_margin)} cells, epsilon={self.epsilon:g})"
        )


def persistent_cells(
    model: ModelLike, domain: DomainLike, tau: Any, epsilon: float, *, search: bool = True
) -> PersistentCells:
    r"""Find cells of the hard model that are provably $\varepsilon$-hard in the soft model.

    **Certified property.** A certified cell contains a point (of the closed cell, in the closed
    domain) at which every head of every layer of the *soft* network gives weight at least
    $1 - \varepsilon$ to the key that wins in the hard network on the cell, together with the keys
    that coincide with it. For one layer of heads, the proof is an exact linear program over the
    cell, or a point. For a deep model it is always a float64 point strictly inside the cell, at
    which all layers of the soft network are enclosed, including rounding errors.

    Args:
        model: A model, as for `enumerate_regions`.
        domain: The domain, as for `enumerate_regions`.
        tau: The temperature, above 0, as for `certify_soft`.
        epsilon: The share $\varepsilon$ of the weight that rivals may have, between 0 and 1.
        search: Whether to search numerically for better points of a deep model if the first
            candidates fail.

    Examples:
        >>> from hardmax import AttentionHead, Block, Box, HardTransformer
        >>> sign = AttentionHead([[1.0]], [[-1.0], [1.0]], [[-1.0], [1.0]], [[1.0]])
        >>> model = HardTransformer([Block([sign]), Block([sign])])
        >>> [persistent_cells(model, Box([-1], [1]), tau, 0.1).n_certified for tau in (0.1, 10.0)]
        [2, 0]
    """
    model = read_model(model)
    network = read_soft_model(model)
    taus = layer_temperatures(model, network, tau)
    heads = head_names(network)
    if not heads:
        raise ArgumentError(
            "`model` must have at least one head, because units stay hard at every temperature."
        )
    if any(taus[index] == 0.0 for index, _ in heads):
        raise ArgumentError("`tau` must be above 0 for every layer with heads; got 0.")
    eps = float(number("epsilon", read_epsilon(epsilon)))
    partition = enumerate_regions(network, domain)
    point_search = _PointSearch(network, partition, taus, eps, search)
    n = partition.n_found
    by_margin, by_cuts, by_point = np.zeros((3, n), dtype=bool)
    possible, agree = np.ones(n, dtype=bool), np.zeros(n, dtype=bool)
    points = np.full((n, partition.domain.dim), np.nan)
    rivals = np.ones((n, len(heads)))
    for i in range(n):
        cell = cell_gaps(network, partition.domain, partition.signatures[i])
        if point_search.is_single:
            level = critical_temperature(cell, eps, _ROUNDS, enough=point_search.exact_tau)
            by_margin[i] = level.by_margins is None or level.by_margins >= point_search.exact_tau
            by_cuts[i] = level.lower is None or level.lower >= point_search.exact_tau
            possible[i] = level.upper is None or level.upper >= point_search.exact_tau
            if not by_cuts[i]:
                continue
            found = point_search.find_witness(i, cell, level.point, level.direction)
        else:
            # The first heads read the same stream in both models and must be hard in any case.
            level = critical_temperature(
                cell.of_heads(point_search.first_heads), eps, _ROUNDS, enough=point_search.exact_tau
            )
            possible[i] = level.upper is None or level.upper >= point_search.exact_tau
            if not possible[i]:
                continue
            first = cell.largest_level(sufficient_levels(cell, eps))
            found = point_search.find_witness(i, cell, first.point, first.direction)
        if found is not None:
            by_point[i], agree[i] = True, found.units_agree
            points[i], rivals[i] = found.point, found.rivals
    return PersistentCells(
        partition, tuple(taus), eps, by_margin, by_cuts, by_point, possible,
        read_only_copy(points), read_only_copy(rivals), agree,
    )  # fmt: skip


@dataclass(frozen=True)
class _HardPoint:
    """The result of a successful search in one cell."""

    point: FloatArray
    rivals: FloatArray
    units_agree: bool


class _PointSearch:
    """A search for hard points in the cells of one model."""

    def __init__(
        self,
        network: ArgmaxNetwork,
        partition: Partition,
        taus: list[float],
        epsilon: float,
        search: bool,
    ) -> None:
        self.partition, self.epsilon, self.search = partition, epsilon, search
        # In coordinates of the domain, so that points of a slice are exact.
        self.network, self.n_before = charted_network(network, partition.domain)
        self.taus = [0.0] * (len(self.network.layers) - len(network.layers)) + taus
        self.is_single = has_one_attention_layer(network)
        heads = head_names(network)
        index = heads[0][0]
        self.first_heads = {k for k, (layer, _) in enumerate(heads) if layer == index}
        self.tau, self.exact_tau = taus[index], Fraction(taus[index])

    def find_witness(
        self,
        index: int,
        cell: CellGaps,
        start: tuple[Fraction, ...],
        direction: tuple[Fraction, ...] | None,
    ) -> _HardPoint | None:
        """Search for a float64 point strictly inside a cell with certified weights."""
        best: _HardPoint | None = None
        for point in self._proposals(index, cell, start, direction):
            found = self._certify(index, point)
            if found is not None:
                best = found
                break
        if best is None or best.units_agree or not self.search:
            return best
        # Maximizing the margins of heads moves points to walls of units; further inside, the units
        # may agree too.
        inside = self.partition.witnesses[index]
        for step in _INWARDS:
            point = (1.0 - step) * best.point + step * inside
            if self.partition.locate(point) == index:
                found = self._certify(index, point)
                if found is not None and found.units_agree:
                    return found
        return best

    def _certify(self, index: int, point: FloatArray) -> _HardPoint | None:
        limit = float(np.log(self.epsilon) - np.log1p(-self.epsilon))
        if worst_odds(self.network, point, self._winners(index), self.taus) > limit + 1e-9:
            return None
        certificate = certify_soft(self.network, point, self.taus)
        if (certificate.rival_masses > self.epsilon).any():
            return None
        return _HardPoint(point, certificate.rival_masses[0], bool(certificate.units_agree[0]))

    def _proposals(
        self,
        index: int,
        cell: CellGaps,
        start: tuple[Fraction, ...],
        direction: tuple[Fraction, ...] | None,
    ) -> Iterator[FloatArray]:
        inside = self.partition.witnesses[index]
        first = nearest_floats(np.array(start, dtype=object))
        if direction is not None:
            # Margins grow without bound in this direction, so every level is reached eventually.
            first = first + 1.5 * self.tau * nearest_floats(np.array(direction, dtype=object))
        kept = self._move_inside(index, first, inside)
        if kept is None:
            return
        yield kept
        if self.search and not self.is_single:
            better = hardest_point(
                self.network, float_walls(cell), self._winners(index), kept, self.taus
            )
            moved = self._move_inside(index, better, kept)
            if moved is not None:
                yield moved

    def _move_inside(self, index: int, start: FloatArray, inside: FloatArray) -> FloatArray | None:
        """Move a point towards another until an exact test finds it strictly inside the cell."""
        for step in _STEPS:
            point = (1.0 - step) * start + step * inside
            if np.isfinite(point).all() and self.partition.locate(point) == index:
                return np.asarray(point)
        return None

    def _winners(self, index: int) -> Any:
        before = np.zeros(self.n_before, dtype=np.int64)
        return np.concatenate([before, self.partition.signatures[index]])
