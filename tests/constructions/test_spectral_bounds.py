"""Eigenvalues and inverses from above, proved against exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.constructions.compilers._bounds.spectral_bounds import (
    bound_inverse,
    bound_largest_eigenvalue,
)
from tests.sweeps import examples

SEEDS = st.integers(0, 10**6)


def is_positive_semidefinite(rows):
    """Whether a symmetric matrix of Fractions is, by elimination."""
    rows = [list(row) for row in rows]
    while rows:
        pivot, *rest = rows[0]
        if pivot < 0 or (pivot == 0 and any(rest)):
            return False
        lower = [row[1:] for row in rows[1:]]
        if pivot:
            for i, row in enumerate(lower):
                for j in range(len(row)):
                    row[j] -= rest[i] * rest[j] / pivot
        rows = lower
    return True


def exact(matrix):
    return [[Fraction(float(x)) for x in row] for row in matrix]


def random_symmetric(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    scale = 10.0 ** rng.integers(-150, 150)
    if seed % 3 == 0:  # Of low rank, with a largest eigenvalue that is not simple.
        factors = rng.integers(-1, 2, (n, 2)).astype(float)
        return scale * (factors @ factors.T)
    matrix = rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-6, 6, n)
    return scale * (matrix + matrix.T)


@examples(60)
@given(SEEDS)
def test_no_eigenvalue_exceeds_the_bound(seed):
    matrix = random_symmetric(seed)
    bound = bound_largest_eigenvalue(matrix)
    shifted = exact(-matrix)
    for i in range(len(matrix)):
        shifted[i][i] += Fraction(bound)
    assert is_positive_semidefinite(shifted)
    assert bound <= np.linalg.eigvalsh(matrix)[-1] + 1e-8 * np.linalg.norm(matrix)


@examples(40)
@given(SEEDS)
def test_the_inverse_is_bounded_from_above(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    factor = rng.normal(size=(n, int(rng.integers(1, 5))))
    matrix = factor @ factor.T
    matrix = 0.7 * matrix / bound_largest_eigenvalue(matrix)
    matrix = 0.5 * (matrix + matrix.T)
    bound = bound_inverse(matrix, 0.7 + 1e-12)
    rest = exact(-matrix)
    for i in range(n):
        rest[i][i] += 1
    # Z is above the inverse of R iff (Z, I; I, R) is positive semidefinite.
    eye = [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]
    upper = [[*z, *e] for z, e in zip(exact(bound), eye, strict=True)]
    lower = [[*e, *r] for e, r in zip(eye, rest, strict=True)]
    assert is_positive_semidefinite([*upper, *lower])
    np.testing.assert_allclose(bound, np.linalg.inv(np.eye(n) - matrix), atol=1e-9)


@pytest.mark.parametrize("matrix", [np.zeros((3, 3)), np.zeros((0, 0))])
def test_nothing_has_the_eigenvalue_zero(matrix):
    assert bound_largest_eigenvalue(matrix) == 0.0
    assert bound_inverse(matrix, 0.0).shape == matrix.shape


def test_what_is_not_finite_is_not_bounded():
    assert bound_largest_eigenvalue(np.array([[np.nan]])) == np.inf
    assert bound_largest_eigenvalue(np.array([[1.0, np.inf], [np.inf, 1.0]])) == np.inf


def test_negative_definite_matrices_have_negative_bounds():
    assert -1.0 <= bound_largest_eigenvalue(-np.eye(3)) < -0.999999
