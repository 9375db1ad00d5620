import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.errors import (
    ArgumentError,
    DtypeError,
    EmptyInputError,
    NonFiniteError,
    ShapeMismatchError,
)
from hardmax.tropical.matrices.projective_metric import hilbert_distance
from hardmax.tropical.matrices.semiring import maxplus
from tests.strategies import SMALL, WILD


def vectors(n_vectors, elements, largest=5):
    """Vectors of one common length."""
    return st.integers(1, largest).flatmap(
        lambda n: st.tuples(*[arrays(np.float64, n, elements=elements)] * n_vectors)
    )


SMALL_OR_ZERO = st.one_of(SMALL, SMALL, st.just(-np.inf))


def distance_by_definition(x, y):
    if any(math.isinf(a) != math.isinf(b) for a, b in zip(x, y, strict=True)):
        return math.inf
    gaps = [
        Fraction(float(a)) - Fraction(float(b))
        for a, b in zip(x, y, strict=True)
        if not math.isinf(a)
    ]
    return float(max(gaps) - min(gaps)) if gaps else 0.0


@example((np.array([1e16, 1.0]), np.array([-1.0, 0.0])))
@example((np.array([1.0, 1.0]), np.array([0.0, 1e-20])))
@example((np.array([1.0, 1.0]), np.array([1e-20, 0.0])))
@example((np.array([1e308, 1e308]), np.array([-1e308, -1e308])))
@example((np.array([5e-324, 1.0]), np.array([0.0, 1.0])))
@example((np.array([-np.inf]), np.array([-np.inf])))
@given(st.one_of(vectors(2, st.one_of(WILD, st.just(-np.inf))), vectors(2, st.floats(-1, 1))))
def test_the_distance_is_the_definition_rounded_once(pair):
    assert hilbert_distance(*pair) == distance_by_definition(*pair)


@given(vectors(2, SMALL_OR_ZERO), SMALL, SMALL)
def test_the_distance_ignores_common_factors(pair, c, d):
    x, y = pair
    assert hilbert_distance(x + c, y + d) == hilbert_distance(x, y) == hilbert_distance(y, x)
    assert hilbert_distance(x, x + c) == 0.0


@given(vectors(2, st.one_of(SMALL, WILD)))
def test_only_projectively_equal_vectors_have_distance_zero(pair):
    x, y = pair
    gaps = {Fraction(a) - Fraction(b) for a, b in zip(x.tolist(), y.tolist(), strict=True)}
    assert (hilbert_distance(x, y) == 0.0) == (len(gaps) == 1)


@given(vectors(3, SMALL_OR_ZERO))
def test_the_triangle_inequality_holds(triple):
    x, y, z = triple
    assert hilbert_distance(x, z) <= hilbert_distance(x, y) + hilbert_distance(y, z)


@given(vectors(2, SMALL_OR_ZERO), st.data())
def test_max_plus_matrices_are_non_expansive(pair, data):
    x, y = pair
    shape = data.draw(st.tuples(st.integers(1, 4), st.just(len(x))))
    matrix = data.draw(arrays(np.float64, shape, elements=SMALL_OR_ZERO))
    image = hilbert_distance(maxplus.matmul(matrix, x), maxplus.matmul(matrix, y))
    assert image <= hilbert_distance(x, y)


def test_a_matrix_of_one_repeated_column_contracts_everything_to_a_point():
    matrix = np.repeat([[1.0], [5.0], [-2.0]], 2, axis=1)
    x, y = np.array([0.0, 7.0]), np.array([3.0, -9.0])
    assert hilbert_distance(x, y) == 19.0
    assert hilbert_distance(maxplus.matmul(matrix, x), maxplus.matmul(matrix, y)) == 0.0


@pytest.mark.parametrize(
    ("x", "y", "error", "name"),
    [
        ([1.0, 2.0], [1.0], ShapeMismatchError, "`y`"),
        ([[1.0]], [1.0], ShapeMismatchError, "`x`"),
        ([], [], EmptyInputError, "`x`"),
        ([np.inf], [0.0], NonFiniteError, "`x`"),
        ([0.0], [np.nan], NonFiniteError, "`y`"),
        ([0.0], [None], DtypeError, "`y`"),
        ([1.5e308, -1.5e308], [0.0, 0.0], ArgumentError, "`x` and `y`"),
        ([1.5e308, -1.5e308], [-1.5e308, 1.5e308], ArgumentError, "`x` and `y`"),
    ],
)
def test_bad_input_is_refused_by_name(x, y, error, name):
    with pytest.raises(error, match=name):
        hilbert_distance(x, y)
