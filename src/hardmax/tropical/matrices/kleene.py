r"""The Kleene star of a tropical matrix: the best walks, or a cycle that proves divergence."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np

from hardmax.errors import PositiveCycleError
from hardmax.exact.dyadic import nearest_float
from hardmax.tropical.matrices.products import max_plus_product
from hardmax.tropical.matrices.semiring import Semiring
from hardmax.tropical.matrices.walks import ExactWeights, heaviest_walks
from hardmax.typing import FloatArray


def kleene_star(semiring: Semiring, matrix: FloatArray, name: str = "matrix") -> FloatArray:
    r"""Return $A^* = I \oplus A \oplus A^{\otimes 2} \oplus \cdots$ of a checked square matrix.

    Here $a_{ij}$ is the weight of the edge $i \to j$, and $a^*_{ij}$ is the best weight of a walk
    of any length from $i$ to $j$; the empty walk has weight 0. In max-plus, the series converges
    exactly if no cycle has positive weight (in min-plus, negative weight). Walks of at most $n - 1$
    edges then suffice.

    Convergence is decided in exact arithmetic for the given float64 entries: a cycle whose exact
    weight is zero is accepted even if its rounded sum is $10^{-17}$, and a cycle whose exact weight
    is $10^{-300}$ is not. The tropical zeros of the result are exact, too. The finite entries are
    computed as $(I \oplus A)^{\otimes 2^m}$ with $2^m \ge n - 1$. Each is the sum of a walk of
    fewer than $2n$ edges, in which every weight undergoes at most $\lceil \log_2 n \rceil$
    roundings. If the sums are exact in float64, as for moderate integers, the star is exact. The
    cost is at most $O(n^3 \log n)$; squaring stops as soon as the result no longer changes.

    Args:
        semiring: The semiring of the entries.
        matrix: The matrix $A$, shape `(n_nodes, n_nodes)`, already checked.
        name: The name of the matrix in error messages.

    Raises:
        PositiveCycleError: If the series diverges. The message states the nodes of a diverging
            cycle and its exact weight, rounded to float64 once.
        ArgumentError: If the weight of a best walk exceeds the range of float64.

    References:
        [BCOQ92], Chapter 3; [But10].

    Examples:
        >>> from hardmax import minplus
        >>> inf = np.inf
        >>> kleene_star(minplus, np.array([[inf, 3.0, 9.0], [inf, inf, -1.0], [inf, inf, inf]]))
        array([[ 0.,  3.,  2.],
               [inf,  0., -1.],
               [inf, inf,  0.]])
    """
    weights = ExactWeights(semiring.sign * matrix)
    walks = heaviest_walks(weights, np.ones(matrix.shape[0], dtype=np.bool_))
    if walks.cycle is not None:
        raise divergence_error(semiring, weights, walks.cycle, name)
    n = matrix.shape[0]
    star = semiring.sign * matrix
    np.fill_diagonal(star, 0.0)
    n_edges = 1
    while n_edges < n - 1:
        square = max_plus_product(star, star, (name,))
        # No cycle has positive weight, so a diagonal entry above 0 is a rounding error.
        np.fill_diagonal(square, 0.0)
        if np.array_equal(square, star):
            break
        star, n_edges = square, 2 * n_edges
    return star if semiring.sign > 0 else 0.0 - star


def divergence_error(
    semiring: Semiring, weights: ExactWeights, cycle: tuple[int, ...], name: str
) -> PositiveCycleError:
    """Return the error for a cycle around which walks improve without bound."""
    weight = semiring.sign * weights.total(cycle) * weights.unit
    word = "positive" if semiring.sign > 0 else "negative"
    arrows = " -> ".join(str(node) for node in (*cycle, cycle[0]))
    return PositiveCycleError(
        f"`{name}` must not have a cycle of {word} weight, because walks around it have no best "
        f"weight; the cycle {arrows} has weight {_describe_cycle(weight)}."
    )


def _describe_cycle(weight: Fraction) -> str:
    rounded = nearest_float(weight)
    return str(rounded) if math.isfinite(rounded) else f"{Decimal(round(weight)):.2e}"
