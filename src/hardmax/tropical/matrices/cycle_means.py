r"""The maximum cycle mean of a weighted graph: the eigenvalue of a max-plus matrix."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax._ground.display import html_card, short_repr
from hardmax.tropical.matrices.semiring import maxplus, square_matrix
from hardmax.tropical.matrices.walks import ExactWeights, heaviest_walks
from hardmax.typing import ArrayLike


@dataclass(frozen=True)
class CycleMean:
    """The largest mean weight of a cycle, and a cycle that has it.

    Attributes:
        mean: The exact mean; None if the graph has no cycle.
        cycle: The nodes of one such cycle in the order of its edges, from its smallest node;
            empty if there is none.

    Examples:
        >>> found = maximum_cycle_mean([[1.0, 3.0], [2.0, -np.inf]])
        >>> found.mean, found.cycle, found.value
        (Fraction(5, 2), (0, 1), 2.5)
    """

    mean: Fraction | None
    cycle: tuple[int, ...]

    __repr__ = short_repr
    _repr_html_ = html_card

    @property
    def value(self) -> float:
        """The mean rounded to float64; the tropical zero -inf without a cycle."""
        return -np.inf if self.mean is None else float(self.mean)


def maximum_cycle_mean(weights: ArrayLike) -> CycleMean:
    r"""Return $\lambda(A) = \max$ over cycles $C$ of (weight of $C$) / (edges of $C$), exactly.

    $\lambda$ is the largest eigenvalue of $A$ in max-plus, $A \otimes x = \lambda \otimes x$, and
    the only one if the graph is strongly connected. The search keeps a cycle, subtracts its exact
    mean from every edge and asks for a cycle that is still positive; that one has a larger mean.
    When there is none, the cycle is best.

    Args:
        weights: The $A$, shape `(n_nodes, n_nodes)`; -inf where there is no edge.

    References:
        [BCOQ92], Chapter 3; [Kar78].

    Examples:
        >>> maximum_cycle_mean([[1.0, 3.0], [2.0, -np.inf]])
        CycleMean(mean=Fraction(5, 2), cycle=(0, 1))
        >>> maximum_cycle_mean([[-np.inf, 3.0], [-np.inf, -np.inf]])
        CycleMean(mean=None, cycle=())
    """
    matrix = square_matrix(maxplus, "weights", weights)
    anywhere = np.ones(matrix.shape[0], dtype=np.bool_)
    edges = matrix[matrix > -np.inf]
    if not edges.size:
        return CycleMean(None, ())
    # Below every edge, so that the first cycle found is any cycle.
    bound = Fraction(float(edges.min())) - 1
    best = CycleMean(None, ())
    while True:
        shifted = ExactWeights(matrix, bound if best.mean is None else best.mean)
        cycle = heaviest_walks(shifted, anywhere).cycle
        if cycle is None:
            return best
        pairs = zip(cycle, cycle[1:] + cycle[:1], strict=True)
        total = sum((Fraction(float(matrix[i, j])) for i, j in pairs), Fraction(0))
        best = CycleMean(total / len(cycle), cycle)
