r"""Which cells of the hard model survive at a temperature, and how many certainly do.

A cell is *$\varepsilon$-hard* at temperature $\tau$ if it contains a point where every head of the
soft model puts at least $1 - \varepsilon$ on the key the cell is named after. The closed cell is
meant, inside the closed domain.

*One layer of heads.* The heads of both models see the same stream, and gaps are affine on the
cell. A linear program gives the largest margin that some point of the cell has in every head,
another the largest temperature at which the margins suffice (`hardness_levels`); cutting planes
enclose the temperature at which the cell truly stops being $\varepsilon$-hard (`cutting_planes`).
All of it is exact but for the rounding of levels to the safe side; so at every temperature the
number of $\varepsilon$-hard cells lies between two certified counts, which mostly agree.

*Deep models.* Later heads see a stream that the soft heads before have moved. Here a claim is
always about one float64 point, strictly inside the cell: `certify_soft` encloses the whole soft
network at that point, and every mass must reach $1 - \varepsilon$. Points are proposed by the
margins of the hard network and improved numerically; a cell without a good point is not claimed, so
the count is a lower bound.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax._ground.arguments import integer, number, owned
from hardmax._ground.display import html_card
from hardmax.errors import ArgumentError
from hardmax.exact.directed_rounding import read_broadcast
from hardmax.exact.dyadic import rounded_below
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
    """The largest margin in every cell, all heads of the hard model together.

    Attributes:
        partition: The cells.
        exact: For each cell the largest number by which every head leads at some point of the
            closed cell: a fraction, or `inf`; shape `(n_cells,)`.
        margins: The same, rounded down.
        points: For each cell a point (coordinates of the domain) where it is attained, as
            fractions; where the margin is infinite, a point of the closed cell. Shape `(n_cells,
            dim)`.

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
        middle = _middle(self.margins)
        return f"CellMargins({n} cell{'s' * (n != 1)}, median margin {middle:.3g})"


@dataclass(frozen=True, eq=False, repr=False)
class Persistence:
    r"""Up to which temperature each cell of a layer of heads is $\varepsilon$-hard.

    Attributes:
        partition: The cells.
        epsilon: The $\varepsilon$.
        temperatures: At every temperature up to this one the cell is $\varepsilon$-hard, rounded
            down; shape `(n_cells,)`. It may be infinite.
        by_margins: The same as far as the least margin alone shows it; shape `(n_cells,)`.
        limits: Above this temperature it is not, rounded up; shape `(n_cells,)`.
        points: Where `temperatures` are attained, coordinates as fractions; where they are
            infinite, a point of the cell. Shape `(n_cells, dim)`.

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
        r"""Count the cells that are certainly $\varepsilon$-hard at `tau`: shape of `tau`."""
        return _counted(self.temperatures, tau)

    def count_by_margins(self, tau: ArrayLike) -> IntArray:
        r"""Count the cells that the least margin alone shows to be $\varepsilon$-hard at `tau`."""
        return _counted(self.by_margins, tau)

    def count_possible(self, tau: ArrayLike) -> IntArray:
        r"""Count the cells that are not certainly soft at `tau`: an upper bound, shape of `tau`."""
        return _counted(self.limits, tau)

    def __repr__(self) -> str:
        n = len(self.temperatures)
        middle = _middle(self.temperatures)
        return (
            f"Persistence({n} cell{'s' * (n != 1)}, epsilon={self.epsilon:g}, "
            f"half of them certainly hard up to tau = {middle:.3g})"
        )


def cell_margins(model: ModelLike, domain: DomainLike) -> CellMargins:
    r"""Find the largest margin in every cell by one exact linear program each.

    Args:
        model: A model, as for `enumerate_regions`. It may be deep: the
            margins are those of the hard model.
        domain: As for `enumerate_regions`.

    Examples:
        >>> from hardmax import AttentionHead, Box
        >>> keys = np.array([[-1.0], [0.0], [1.0]])
        >>> head = AttentionHead([[1.0]], keys, keys, [[1.0]], logit_bias=[0.0, 0.5, 0.0])
        >>> cell_margins(head, Box([-2], [3])).exact.tolist()
        [Fraction(3, 2), Fraction(1, 2), Fraction(5, 2)]
    """
    network, partition = _enumerated(read_network(model), domain)
    heights = []
    for name in partition.signatures.tolist():
        cell = cell_gaps(network, partition.domain, name)
        heights.append(cell.largest_level(lambda head: Fraction(1)))
    exact = np.empty(len(heights), dtype=object)
    exact[:] = [np.inf if h.value is None else h.value for h in heights]
    return CellMargins(
        partition,
        exact,
        owned(_rounded([height.value for height in heights])),
        _points([height.point for height in heights], partition.domain.dim),
    )


def persistence(
    model: ModelLike, domain: DomainLike, epsilon: float, *, rounds: int = 10
) -> Persistence:
    r"""Find the temperatures up to which the cells of a layer of heads are $\varepsilon$-hard.

    Args:
        model: A head, a block, or a model in which no head sees the output of another.
        domain: As for `enumerate_regions`.
        epsilon: The share $\varepsilon$ of the mass that rivals may have, between 0 and 1.
        rounds: How often cuts are added (`cutting_planes`); 10 usually bring the two ends of a cell
            within a relative $10^{-4}$.

    Raises:
        ArgumentError: If heads are stacked; `persistent_cells` works for such models.

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
    network, partition = _enumerated(read_soft_model(model), domain)
    if not has_one_attention_layer(network):
        raise ArgumentError(
            "`model` must have its heads in one layer; the heads of this one are stacked. Use "
            "`persistent_cells`, which follows the soft stream."
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
        owned(_rounded([cell.lower for cell in found])),
        owned(_rounded([cell.by_margins for cell in found])),
        owned(-_rounded([cell.upper for cell in found], sign=-1)),
        _points([cell.point for cell in found], partition.domain.dim),
    )


def _enumerated(network: ArgmaxNetwork, domain: DomainLike) -> tuple[ArgmaxNetwork, Partition]:
    if not head_names(network):
        raise ArgumentError("`model` must have a head; units stay hard at every temperature.")
    return network, enumerate_regions(network, domain)


def _middle(values: FloatArray) -> float:
    """Return the lower median, which never adds two large numbers; NaN if there is none."""
    return float(np.sort(values)[(len(values) - 1) // 2]) if len(values) else float("nan")


def _rounded(values: list[Fraction | None], sign: int = 1) -> FloatArray:
    """Round sign times the values down; None is infinite."""
    rounded = [sign * np.inf if v is None else rounded_below(sign * v) for v in values]
    return np.array(rounded, dtype=np.float64)


def _points(found: list[tuple[Fraction, ...]], dim: int) -> WideArray:
    points = np.empty((len(found), dim), dtype=object)
    for i, point in enumerate(found):
        points[i] = point
    return points


def _counted(levels: FloatArray, tau: ArrayLike) -> IntArray:
    (taus,) = read_broadcast({"tau": (tau, 0, False)})
    return np.asarray((levels >= taus[..., np.newaxis]).sum(axis=-1))
