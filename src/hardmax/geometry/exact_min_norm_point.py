"""Wolfe's nearest point algorithm in exact integers: decides what floating point cannot.

The same walk as the compiled kernel, on flint integers. Every major cycle strictly shortens the
nearest point of a convex hull that is determined by its active rows, so no set of active rows
comes twice and the walk ends, without any rule against cycling. Above it: `cones`, which asks
for it only where the compiled candidate fails its exact check.
"""

from dataclasses import dataclass
from math import gcd

from flint import fmpq, fmpz, fmpz_mat

from hardmax.typing import WideArray


@dataclass(frozen=True, eq=False)
class NearestPoint:
    r"""Where the walk ended: a separating direction, or the origin as a convex combination.

    Attributes:
        direction: If the origin is outside the hull, $u \in \mathbb{Z}^d$ with
            $\langle r_i, u \rangle > 0$ for every row; otherwise `None`.
        support: The active rows, with linearly independent $(1, r_i)$.
        multipliers: Positive integers; if the origin is inside, $\sum_i \lambda_i r_i = 0$.
    """

    direction: list[int] | None
    support: list[int]
    multipliers: list[int]


def exact_nearest_point(rows: WideArray, start: list[int]) -> NearestPoint:
    r"""Separate the rows from the origin, or write the origin as their convex combination.

    Args:
        rows: Shape `(n_rows, dim)` with at least one row, Python integers.
        start: Rows to begin with; any selection is right, a good one saves cycles.

    References:
        [Wol76].

    Examples:
        >>> import numpy as np
        >>> exact_nearest_point(np.array([[1, 0], [-1, 0]], dtype=object), []).multipliers
        [1, 1]
        >>> exact_nearest_point(np.array([[2, 1], [-1, 1]], dtype=object), []).direction
        [0, 1]
    """
    matrix = fmpz_mat(rows.tolist())
    table = rows.tolist()
    support, weights = _independent(table, start or [0])
    while True:
        support, weights = _project(table, support, weights)
        point = _combine(table, support, weights)
        if not any(point):
            return NearestPoint(None, support, weights)
        products = (matrix * fmpz_mat([[x] for x in point])).entries()
        lowest = min(products)
        if lowest > 0:
            return NearestPoint(point, support, weights)
        support = [*support, products.index(lowest)]
        weights = [*weights, 0]


def _independent(table: list[list[int]], start: list[int]) -> tuple[list[int], list[int]]:
    """Keep the rows of `start` whose lifts are independent, with equal weights."""
    chosen = list(dict.fromkeys(start))
    lifts = fmpz_mat([[1, *table[i]] for i in chosen]).transpose()
    reduced, _, rank = lifts.rref()
    kept = [next(c for c in range(len(chosen)) if reduced[row, c] != 0) for row in range(int(rank))]
    return [chosen[c] for c in kept], [1] * len(kept)


def _project(
    table: list[list[int]], support: list[int], weights: list[int]
) -> tuple[list[int], list[int]]:
    """Minor cycles: move to the nearest point of the hull of some of the active rows."""
    current = [fmpq(w, sum(weights)) for w in weights]
    while True:
        lifts = fmpz_mat([[1, *table[i]] for i in support])
        ones = fmpz_mat([[1]] * len(support))
        solution = (lifts * lifts.transpose()).solve(ones).entries()
        total = sum(solution, fmpq(0))
        target = [value / total for value in solution]
        if all(value > 0 for value in target):
            return support, _cleared(target)
        step = min(
            w / (w - t) if w > t else fmpq(0)
            for w, t in zip(current, target, strict=True)
            if t <= 0
        )
        moved = [w + step * (t - w) for w, t in zip(current, target, strict=True)]
        kept = [i for i, w in enumerate(moved) if w > 0]
        support = [support[i] for i in kept]
        current = [moved[i] for i in kept]


def _cleared(values: list[fmpq]) -> list[int]:
    """Multiply positive rationals to coprime integers."""
    common = fmpz(1)
    for value in values:
        common = common.lcm(value.q)
    integers = [int(value.p * (common // value.q)) for value in values]
    divisor = gcd(*integers)
    return [value // divisor for value in integers]


def _combine(table: list[list[int]], support: list[int], weights: list[int]) -> list[int]:
    """The combination of the active rows, divided by the common factor of its entries."""
    product = fmpz_mat([weights]) * fmpz_mat([table[i] for i in support])
    point = [int(value) for value in product.entries()]
    divisor = gcd(*point)
    return [value // divisor for value in point] if divisor else point
