r"""Cells of the hard model that persist at a given temperature, with certified counts.

A cell is *$\varepsilon$-hard* at temperature $\tau$ if it contains a point where every head of
the soft model gives weight at least $1 - \varepsilon$ to the key that wins on the cell. Here the
cell is closed, in the closed domain.

*One layer of heads.* The heads of both models read the same stream, and gaps are affine on the
cell. One linear program gives the largest margin that some point of the cell has in every head.
Another gives the largest temperature at which the margins are sufficient (`hardness_levels`).
Cutting planes enclose the temperature above which the cell is no longer $\varepsilon$-hard
(`cutting_planes`). All steps are exact, except that levels are rounded to the safe side. Hence at
every temperature the number of $\varepsilon$-hard cells lies between two certified counts, which
usually agree.

*Deep models.* Later heads read a stream that the earlier soft heads have changed. Here the proof is
always one float64 point strictly inside the cell: `certify_soft` encloses the whole soft network at
that point, and every weight must reach $1 - \varepsilon$. Candidate points come from the margins of
the hard network and are improved numerically. A cell without a suitable point is not certified, so
the count is a lower bound.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax._ground.arguments import integer, number, read_only_copy
from hardmax._ground.display import html_card
from hardmax.errors import ArgumentError
from hardmax.exact.directed_rounding import read_broadcast
from hardmax.exact.dyadic import round_below
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.model_arguments import read_network
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.partition import Partition
from hardmax.stability.cells.cell_gaps import cell_gaps
from hardmax.stability.cells.cutting_planes import critical_temperature
from hardmax.stability.models import (
    has_one_attention_layer,
    head_names,
    read_soft_model,
)
from hardmax.stability.temperatures import read_epsilon
from hardmax.typing import ArrayLike, DomainLike, FloatArray, IntArray, ModelLike, WideArray


@dataclass(frozen=True, eq=False, repr=False)
class CellMargins:
    """The largest margin in every cell that all heads of the hard model reach at one point.

    Attributes:
        partition: The partition into cells.
        exact: For each cell, the largest margin that every head has at some common point of the
            closed cell: a fraction, or `inf`. Shape `(n_cells,)`.
        margins: The margins as floats, rounded down; shape `(n_cells,)`.
        points: For each cell, a point at which the margin is attained, in coordinates of the domain
            as fractions. If the margin is infinite, this is any point of the closed cell. Shape
            `(n_cells, dim)`.

    Examples:
        >>> from hardmax import AttentionHead, Box
        >>> sign = AttentionHead([[1.0]], [[-1.0], [1.0]], [[-1.0], [1.0]], [[1.0]])
        >>> found = cell_margins(sign, Box([-1], [3]))
        >>> found.exact.tolist(), found.points.ravel().tolist(), found.count(3.0)
        ([Fraction(2, 1), Fraction(6, 1)], [Fraction(-1, 1), Fraction(3, 1)], 1)
    """

    partition: Partition
    exact: WideArray
    margins: FloatArray
    points: WideArray

    _repr_html_ = html_card

    def count(self, delta: float) -> int:
        """Count the cells with a point where every head leads by at least `delta`."""
        level = Fraction(number("delta", delta, at_least=0.0))
        return int(sum(margin >= level for margin in self.exact.tolist()))

    def __repr__(self) -> str:
        n = len(self.margins)
        middle = _lower_median(self.margins)
        return f"CellMargins({n} cell{'s' * (n != 1)}, median margin {middle:.3g})"


@dataclass(frozen=True, eq=False, repr=False)
class Persistence:
    r"""The temperature up to which each cell of a layer of heads is $\varepsilon$-hard.

    Attributes:
        partition: The partition into cells.
        epsilon: The share $\varepsilon$ of the weight that rivals may have.
        temperatures: For each cell, a temperature up to which it is certainly $\varepsilon$-hard,
            rounded down; possibly infinite. Shape `(n_cells,)`.
        by_margins: For each cell, a temperature up to which the smallest margin alone proves that
            it is $\varepsilon$-hard; shape `(n_cells,)`.
        limits: For each cell, a temperature above which it is certainly not $\varepsilon$-hard,
            rounded up; shape `(n_cells,)`.
        points: For each cell, a point that is $\varepsilon$-hard up to `temperatures`, in
            coordinates of the domain as fractions. If the temperature is infinite, this is any
            point of the cell. Shape `(n_cells, dim)`.

    Examples:
        >>> from hardmax import AttentionHead, Box
        >>> sign = AttentionHead([[1.0]], [[-1.0], [1.0]], [[-1.0], [1.0]], [[1.0]])
        >>> found = persistence(sign, Box([-1], [3]), epsilon=0.1)
        >>> found.count([0.5, 2.0, 5.0]).tolist()
        [2, 1, 0]
    """

    partition: Partition
    epsilon: float
    temperatures: FloatArray
    by_margins: FloatArray
    limits: FloatArray
    points: WideArray

    _repr_html_ = html_card

    def count(self, tau: ArrayLike) -> IntArray:
        r"""Count the cells that are certainly $\varepsilon$-hard, for each `tau`."""
        return _count_at(self.temperatures, tau)

    def count_by_margins(self, tau: ArrayLike) -> IntArray:
        r"""Count the cells whose margins alone prove them $\varepsilon$-hard, for each `tau`."""
        return _count_at(self.by_margins, tau)

    def count_possible(self, tau: ArrayLike) -> IntArray:
        r"""Bound the number of $\varepsilon$-hard cells from above, for each `tau`."""
        return _count_at(self.limits, tau)

    def __repr__(self) -> str:
        n = len(self.temperatures)
        middle = _lower_median(self.temperatures)
        return (
            f"Persistence({n} cell{'s' * (n != 1)}, epsilon={self.epsilon:g}, "
            f"half of them certainly hard up to tau = {middle:.3g})"
        )


def cell_margins(model: ModelLike, domain: DomainLike) -> CellMargins:
    r"""Compute the largest margin in every cell, by one exact linear program per cell.

    Args:
        model: A model, as for `enumerate_regions`. It may be deep: the margins refer to the
            hard model.
        domain: The domain, as for `enumerate_regions`.

    Examples:
        >>> from hardmax import AttentionHead, Box
        >>> keys = np.array([[-1.0], [0.0], [1.0]])
        >>> head = AttentionHead([[1.0]], keys, keys, [[1.0]], logit_bias=[0.0, 0.5, 0.0])
        >>> cell_margins(head, Box([-2], [3])).exact.tolist()
        [Fraction(3, 2), Fraction(1, 2), Fraction(5, 2)]
    """
    network, partition = _enumerate_cells(read_network(model), domain)
    heights = []
    for name in partition.signatures.tolist():
        cell = cell_gaps(network, partition.domain, name)
        heights.append(cell.largest_level(lambda head: Fraction(1)))
    exact = np.empty(len(heights), dtype=object)
    exact[:] = [np.inf if h.value is None else h.value for h in heights]
    return CellMargins(
        partition,
        exact,
        read_only_copy(_round_down([height.value for height in heights])),
        _to_points([height.point for height in heights], partition.domain.dim),
    )


def persistence(
    model: ModelLike, domain: DomainLike, epsilon: float, *, rounds: int = 10
) -> Persistence:
    r"""Compute the temperatures up to which the cells of a layer of heads are $\varepsilon$-hard.

    Args:
        model: A head, a block, or a model in which no head reads the output of another head.
        domain: The domain, as for `enumerate_regions`.
        epsilon: The share $\varepsilon$ of the weight that rivals may have, between 0 and 1.
        rounds: The number of rounds of cutting planes. With 10 rounds, the lower and upper
            temperatures of a cell usually agree to a relative $10^{-4}$.

    Raises:
        ArgumentError: If the model has heads in several layers; use `persistent_cells` for such
            models.

    Examples:
        >>> from hardmax import AttentionHead, Box
        >>> keys = np.array([[-1.0], [0.0], [1.0]])
        >>> head = AttentionHead([[1.0]], keys, keys, [[1.0]], logit_bias=[0.0, 0.5, 0.0])
        >>> found = persistence(head, Box([-2], [3]), epsilon=0.1)
        >>> taus = [0.01, 0.6, 1.0]
        >>> found.count(taus).tolist(), found.count_possible(taus).tolist()
        ([3, 2, 1], [3, 2, 1])
        >>> found.count_by_margins(taus).tolist()
        [3, 1, 0]
    """
    network, partition = _enumerate_cells(read_soft_model(model), domain)
    if not has_one_attention_layer(network):
        raise ArgumentError(
            "`model` must have all its heads in one layer; got heads in several layers. Use "
            "`persistent_cells`, which encloses the stream of the soft model."
        )
    eps = float(number("epsilon", read_epsilon(epsilon)))
    n_rounds = integer("rounds", rounds, at_least=0)
    found = []
    for name in partition.signatures.tolist():
        cell = cell_gaps(network, partition.domain, name)
        found.append(critical_temperature(cell, eps, n_rounds))
    return Persistence(
        partition,
        eps,
        read_only_copy(_round_down([cell.lower for cell in found])),
        read_only_copy(_round_down([cell.by_margins for cell in found])),
        read_only_copy(-_round_down([cell.upper for cell in found], sign=-1)),
        _to_points([cell.point for cell in found], partition.domain.dim),
    )


def _enumerate_cells(network: ArgmaxNetwork, domain: DomainLike) -> tuple[ArgmaxNetwork, Partition]:
    if not head_names(network):
        raise ArgumentError(
            "`model` must have at least one head, because units stay hard at every temperature."
        )
    return network, enumerate_regions(network, domain)


def _lower_median(values: FloatArray) -> float:
    """Return the lower median, which needs no sum of large numbers; NaN if there are no values."""
    return float(np.sort(values)[(len(values) - 1) // 2]) if len(values) else float("nan")


def _round_down(values: list[Fraction | None], sign: int = 1) -> FloatArray:
    """Round `sign` times each value down; None stands for infinity."""
    rounded = [sign * np.inf if v is None else round_below(sign * v) for v in values]
    return np.array(rounded, dtype=np.float64)


def _to_points(found: list[tuple[Fraction, ...]], dim: int) -> WideArray:
    points = np.empty((len(found), dim), dtype=object)
    for i, point in enumerate(found):
        points[i] = point
    return points


def _count_at(levels: FloatArray, tau: ArrayLike) -> IntArray:
    (taus,) = read_broadcast({"tau": (tau, 0, False)})
    return np.asarray((levels >= taus[..., np.newaxis]).sum(axis=-1))
