"""Signs with a proven bound: never wrong, and decided where there is room."""

from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq_mat
from hypothesis import given
from hypothesis import strategies as st

from hardmax._core.library import core
from hardmax._core.memory import MemoryBlock, address
from tests.sweeps import examples


def is_positive(row, direction):
    """Whether a rounded row is proved to have a positive product with a direction."""
    return bool(core().hm_test_is_positive(address(row), address(direction), len(row)))


def inverted(rows):
    """The inverse of the matrix of these columns, and its bounds; None if it is not proved."""
    dim = len(rows)
    rows, inverse, bounds = np.ascontiguousarray(rows), np.empty((dim, dim)), np.empty(2)
    memory = MemoryBlock(core().hm_invert_size(dim))
    arrays = address(rows), dim, address(inverse), address(bounds)
    return (inverse, bounds) if core().hm_invert(memory.address, *arrays) else None


def is_inside(row, sign, inverse, bounds):
    """Whether a row, times a sign, is proved to be a positive combination of the columns."""
    arrays = address(inverse), address(bounds)
    return bool(core().hm_test_is_inside(address(row), sign, *arrays, len(row)))


CLOSE = st.builds(
    lambda a, b, bits: a + b * 2.0**-bits,
    st.integers(-2, 2),
    st.integers(-1, 1),
    st.integers(45, 53),
)


def rounded(values):
    """Round fractions to floats with largest entry between a half and one, row by row."""
    rows = np.array([[float(x) for x in row] for row in values])
    exponents = np.frexp(np.abs(rows).max(axis=1))[1]
    return np.ldexp(rows, -exponents[:, None])


def positive_weights(matrix, right):
    """Solve exactly for the weights of the rows of a matrix; None if it is singular."""
    columns = fmpq_mat([[_rational(row[k]) for row in matrix] for k in range(len(right))])
    if columns.det() == 0:
        return None
    solution = columns.solve(fmpq_mat([[_rational(x)] for x in right]))
    return all(solution[i, 0] > 0 for i in range(len(right)))


def _rational(x):
    from flint import fmpq

    exact = Fraction(x)
    return fmpq(exact.numerator, exact.denominator)


@examples(120)
@given(st.lists(st.tuples(CLOSE, CLOSE, CLOSE), min_size=1, max_size=4))
def test_a_proved_positive_product_is_positive(entries):
    points, origins, direction = (np.array(column) for column in zip(*entries, strict=True))
    if not direction.any() or np.array_equal(points, origins):
        return
    exact = [Fraction(a) - Fraction(b) for a, b in zip(points, origins, strict=True)]
    row = rounded([exact])
    direction = direction / 4.0
    truth = sum(x * Fraction(u) for x, u in zip(exact, direction, strict=True))
    if is_positive(row[0], direction):
        assert truth > 0
    elif truth > Fraction(1, 2**40):
        pytest.fail("a clearly positive product was not decided")


@examples(120)
@given(st.integers(1, 4).flatmap(lambda d: st.lists(
    st.lists(CLOSE, min_size=d, max_size=d), min_size=d + 1, max_size=d + 1)))  # fmt: skip
def test_a_proved_cone_holds_the_row(vectors):
    exact = [[Fraction(x) for x in row] for row in vectors]
    if not all(any(row) for row in exact):
        return
    dim = len(exact[0])
    rows = rounded(exact)
    inverse = inverted(rows[:dim])
    truth = positive_weights(exact[:dim], exact[dim])
    if inverse:
        assert truth is not None
        assert is_inside(rows[dim], 1.0, *inverse) <= truth
        opposite = positive_weights(exact[:dim], [-x for x in exact[dim]])
        assert is_inside(rows[dim], -1.0, *inverse) <= opposite


def test_generic_simplices_are_decided():
    rng = np.random.default_rng(0)
    for dim in (2, 3, 5, 8, 16):
        rows = rng.uniform(-1.0, 1.0, size=(dim + 1, dim))
        weights = rng.uniform(0.5, 1.0, size=dim)
        rows[dim] = weights @ rows[:dim] / dim
        inverse = inverted(rows[:dim])
        assert is_inside(rows[dim], 1.0, *inverse)
        assert not is_inside(rows[dim], -1.0, *inverse)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
def test_singular_and_non_finite_matrices_are_not_decided(bad):
    assert inverted(np.array([[bad, 0.0], [1.0, 1.0]])) is None
    assert not is_positive(np.array([bad, 0.0]), np.array([1.0, np.nan]))


def test_a_matrix_too_close_to_singular_is_not_decided():
    assert inverted(np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]])) is None
