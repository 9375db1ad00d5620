"""Spectral norms of softmax covariances of rational distributions, decided exactly."""

from collections.abc import Sequence
from fractions import Fraction

Matrix = list[list[Fraction]]


def probabilities(rivals: Sequence[Fraction]) -> list[Fraction]:
    """Return the softmax of a winner and of rivals with these weights relative to the winner."""
    total = 1 + sum(rivals)
    return [Fraction(1) / total, *(x / total for x in rivals)]


def covariance(p: Sequence[Fraction]) -> Matrix:
    """Return diag(p) - p p^T."""
    return [[(pi if i == j else 0) - pi * pj for j, pj in enumerate(p)] for i, pi in enumerate(p)]


def norm_is_at_most(matrix: Matrix, bound: Fraction) -> bool:
    """Decide exactly whether a positive semidefinite matrix has spectral norm at most `bound`.

    That is whether `bound * I - matrix` is positive semidefinite, by symmetric elimination.

    Examples:
        >>> half = covariance([Fraction(1, 2), Fraction(1, 2)])
        >>> norm_is_at_most(half, Fraction(1, 2)), norm_is_at_most(half, Fraction(49, 100))
        (True, False)
    """
    size = len(matrix)
    rest = [[(bound if i == j else 0) - matrix[i][j] for j in range(size)] for i in range(size)]
    for k in range(size):
        pivot = rest[k][k]
        if pivot < 0 or (pivot == 0 and any(rest[k][j] for j in range(k, size))):
            return False
        for i in range(k + 1, size) if pivot else ():
            ratio = rest[i][k] / pivot
            for j in range(k, size):
                rest[i][j] -= ratio * rest[k][j]
    return True


def symmetric_norm(n_keys: int, r: Fraction) -> Fraction:
    """Return the norm of the covariance when all rivals have weight r, and verify it."""
    value = symmetric_value(n_keys, r)
    matrix = covariance(probabilities([r] * (n_keys - 1)))
    vector = [Fraction(n_keys - 1), *[Fraction(-1)] * (n_keys - 1)]
    image = [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]
    assert image == [value * b for b in vector]  # an eigenvector, so the norm is at least this
    assert norm_is_at_most(matrix, value)
    return value


def symmetric_value(n_keys: int, r: Fraction) -> Fraction:
    """Return the eigenvalue of the covariance that separates the winner from equal rivals."""
    return n_keys * r / (1 + (n_keys - 1) * r) ** 2


def exact_supremum(n_keys: int, r: Fraction) -> Fraction:
    """Return the largest norm over all scores with this margin: m rivals at it, others far below.

    `stability.score_bounds` proves step by step, at the head of the module, that no scores have a
    larger norm. With m rivals of weight r and the others of weight 0, the norm is the m-th number
    of the maximum.

    Examples:
        >>> exact_supremum(2, Fraction(1, 3)), exact_supremum(9, Fraction(1))
        (Fraction(3, 8), Fraction(1, 2))
    """
    return max((m + 1) * r / (1 + m * r) ** 2 for m in range(1, n_keys))
