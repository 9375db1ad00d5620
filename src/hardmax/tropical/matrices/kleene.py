r"""The Kleene star of a tropical matrix: all best walks at once, or the cycle that forbids them."""

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

    $a_{ij}$ is the weight of the edge $i \to j$ and $a^*_{ij}$ the best weight of a walk from
    $i$ to $j$ of any length, 0 for the empty walk. In max-plus the series converges exactly when
    no cycle has positive weight (in min-plus: negative), and then $n - 1$ edges are enough.

    Convergence is decided in exact arithmetic, about the float64 entries as they are: a cycle
    whose weight is exactly zero passes even if its rounded sum is $10^{-17}$, a cycle whose exact
    weight is $10^{-300}$ does not. Which entries are tropical zeros is exact too. The finite
    entries are computed as $(I \oplus A)^{\otimes 2^m}$ with $2^m \ge n - 1$, so each is the sum of
    a walk of fewer than $2n$ edges in which every weight meets at most $\lceil \log_2 n \rceil$
    roundings; where sums are exact in float64, as for moderate integers, so is the star.
    Cost $O(n^3 \log n)$ at worst, and as many squarings as the best walks need.

    Args:
        semiring: Where the entries live.
        matrix: The $A$, shape `(n_nodes, n_nodes)`, checked by the caller.
        name: What to call the matrix in an error.

    Raises:
        PositiveCycleError: If the series diverges; the message names the nodes of one diverging
            cycle and its exact weight, rounded to float64 once.
        ArgumentError: If the weight of a best walk is beyond float64.

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
        raise divergence(semiring, weights, walks.cycle, name)
    n = matrix.shape[0]
    star = semiring.sign * matrix
    np.fill_diagonal(star, 0.0)
    n_edges = 1
    while n_edges < n - 1:
        square = max_plus_product(star, star, (name,))
        # No cycle is positive, so a diagonal above the tropical one is a rounding error.
        np.fill_diagonal(square, 0.0)
        if np.array_equal(square, star):
            break
        star, n_edges = square, 2 * n_edges
    return star if semiring.sign > 0 else 0.0 - star


def divergence(
    semiring: Semiring, weights: ExactWeights, cycle: tuple[int, ...], name: str
) -> PositiveCycleError:
    """Say which cycle has no best walk around it, and what it weighs."""
    weight = semiring.sign * weights.total(cycle) * weights.unit
    word = "positive" if semiring.sign > 0 else "negative"
    arrows = " -> ".join(str(node) for node in (*cycle, cycle[0]))
    return PositiveCycleError(
        f"`{name}` must have no cycle of {word} weight, around which walks improve for ever; "
        f"the cycle {arrows} weighs {_spell(weight)}."
    )


def _spell(weight: Fraction) -> str:
    rounded = nearest_float(weight)
    return str(rounded) if math.isfinite(rounded) else f"{Decimal(round(weight)):.2e}"
