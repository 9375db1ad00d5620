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
    """The maximum mean weight of a cycle, and a cycle that attains it.

    Attributes:
        mean: The exact maximum mean, or None if the graph has no cycle.
        cycle: The nodes of a cycle that attains it, in the order of the edges and starting at the
            smallest node. Empty if the graph has no cycle.

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
        """The mean rounded to float64, or -inf, the tropical zero, if the graph has no cycle."""
        return -np.inf if self.mean is None else float(self.mean)


def maximum_cycle_mean(weights: ArrayLike) -> CycleMean:
    r"""Return the exact maximum cycle mean $\lambda(A)$ of a weighted graph, and a best cycle.

    $\lambda(A)$ is the maximum, over all cycles, of the weight of the cycle divided by its number
    of edges. It is the largest eigenvalue of $A$ in max-plus algebra,
    $A \otimes x = \lambda \otimes x$, and the only eigenvalue if the graph is strongly connected.
    The search subtracts the exact mean of the current cycle from every edge. A cycle that still has
    positive weight has a larger mean and becomes the current cycle; if there is none, the current
    cycle is best.

    Args:
        weights: The matrix $A$, shape `(n_nodes, n_nodes)`, with -inf where there is no edge.

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
    # The bound is below every edge, so every cycle has positive weight in the first step.
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
