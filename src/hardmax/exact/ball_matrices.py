"""Matrices of balls: exact conversion of arrays, differences, and proven bounds on norms."""

from collections.abc import Sequence

import numpy as np
from flint import arb, arb_mat

from hardmax.exact.directed_rounding import norm_bound
from hardmax.exact.dyadic import integer_matrix
from hardmax.typing import FloatArray

_SQUARINGS = 3


def ball_matrix(array: FloatArray) -> arb_mat:
    """Convert a 2-D float64 array to balls without rounding."""
    integers, exponent = integer_matrix(np.ascontiguousarray(array))
    return arb_mat(integers) * (arb(2) ** exponent)


def rows_of(matrix: arb_mat) -> list[list[arb]]:
    """Return the rows of a matrix as lists."""
    rows: list[list[arb]] = matrix.tolist()
    return rows


def row_vector(entries: Sequence[arb]) -> arb_mat:
    """Return a matrix with one row."""
    return arb_mat(1, len(entries), list(entries))


def differences(rows: Sequence[Sequence[arb]], origin: Sequence[arb]) -> list[list[arb]]:
    """Subtract a vector from every row."""
    return [[x - y for x, y in zip(row, origin, strict=True)] for row in rows]


def mean_row(rows: Sequence[Sequence[arb]]) -> list[arb]:
    """Return the mean of the rows; a single row is returned unchanged."""
    if len(rows) == 1:
        return list(rows[0])
    return [sum(column, arb(0)) / len(rows) for column in zip(*rows, strict=True)]


def norms(rows: Sequence[Sequence[arb]]) -> list[arb]:
    """Return a bound on the Euclidean norm of every row."""
    return [norm_bound(row) for row in rows]


def largest(balls: Sequence[arb]) -> arb:
    """Return the maximum of the balls and 0."""
    best = arb(0)
    for ball in balls:
        best = best.max(ball)
    return best


def spectral_norm_bound(matrix: arb_mat) -> arb:
    r"""Return the Schatten norm $\|J\|_{S_{32}}$: at least $\|J\|_2$, at most $\rho^{1/32}\|J\|_2$.

    Here $\rho$ is the rank. With $A = JJ^\top$ the norm is $\|A^8\|_F^{1/16}$. It is computed by
    three squarings of the smaller of the two Gram matrices, which is scaled to norm 1 before each
    squaring, so that no ball loses digits.
    """
    transposed = matrix.transpose()
    wide = matrix.nrows() <= matrix.ncols()
    gram = matrix * transposed if wide else transposed * matrix
    exponent, logarithm = 1, arb(0)
    for _ in range(_SQUARINGS):
        size = norm_bound(gram.entries()).mid()
        if size == 0:
            return arb(0)
        gram = gram * (1 / size)
        logarithm += size.log() / exponent
        gram, exponent = gram * gram, 2 * exponent
    return (logarithm.exp() * norm_bound(gram.entries()).root(exponent)).sqrt()
