import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.errors import (
    ArgumentError,
    DtypeError,
    HardmaxError,
    NonFiniteError,
    ShapeMismatchError,
)
from hardmax.tropical.matrices.semiring import Semiring, TropicalNumber, maxplus, minplus
from tests.reference.semiring import product_by_definition
from tests.strategies import SMALL, WILD

SEMIRINGS = pytest.mark.parametrize("semiring", [maxplus, minplus], ids=lambda s: s.name)
BEST = {"max-plus": max, "min-plus": min}


def entries(semiring, finite=SMALL):
    """Elements of a semiring, its zero among them often enough to meet."""
    return st.one_of(finite, finite, st.just(semiring.zero))


@st.composite
def chains(draw, n_factors, finite=SMALL, largest=4):
    """A semiring and matrices that can be multiplied in a row, with empty sizes among them."""
    semiring = draw(st.sampled_from([maxplus, minplus]))
    sizes = [draw(st.integers(0, largest)) for _ in range(n_factors + 1)]
    shapes = pairwise(sizes)
    element = entries(semiring, finite)
    return semiring, [draw(arrays(np.float64, shape, elements=element)) for shape in shapes]


@st.composite
def scalars(draw, n):
    semiring = draw(st.sampled_from([maxplus, minplus]))
    return [semiring(draw(entries(semiring))) for _ in range(n)]


# --- laws ---------------------------------------------------------------------------------------


@given(scalars(3))
def test_scalars_obey_the_laws_of_an_idempotent_semiring(abc):
    a, b, c = abc
    zero, one = a.semiring.zero, a.semiring.one
    assert a + a == a
    assert a + b == b + a
    assert a * b == b * a
    assert (a + b) + c == a + (b + c)
    assert (a * b) * c == a * (b * c)
    assert a * (b + c) == a * b + a * c
    assert a + zero == a == zero + a
    assert a * one == a == one * a
    assert a * zero == a.semiring(zero)
    assert a**3 == a * a * a
    assert a**0 == a.semiring(one)
    if b != b.semiring(zero):
        assert a / b * b == a
        assert 1.0 / b * b == b.semiring(1.0)


@given(chains(3))
def test_matrix_products_are_associative(chain):
    semiring, (a, b, c) = chain
    left = semiring.matmul(semiring.matmul(a, b), c)
    right = semiring.matmul(a, semiring.matmul(b, c))
    np.testing.assert_array_equal(left, right)


@given(chains(2), st.data())
def test_matrix_products_distribute_over_sums(chain, data):
    semiring, (a, b) = chain
    c = data.draw(arrays(np.float64, b.shape, elements=entries(semiring)))
    together = semiring.matmul(a, semiring.add(b, c))
    apart = semiring.add(semiring.matmul(a, b), semiring.matmul(a, c))
    np.testing.assert_array_equal(together, apart)


@given(chains(1))
def test_the_identity_and_the_zero_matrix_do_what_their_names_say(chain):
    semiring, (a,) = chain
    n_rows, n_columns = a.shape
    np.testing.assert_array_equal(semiring.matmul(semiring.identity(n_rows), a), a)
    np.testing.assert_array_equal(semiring.matmul(a, semiring.identity(n_columns)), a)
    np.testing.assert_array_equal(semiring.add(a, semiring.zeros(a.shape)), a)
    nothing = semiring.zeros((n_rows, 3))
    np.testing.assert_array_equal(semiring.matmul(a, semiring.zeros((n_columns, 3))), nothing)


@given(chains(2))
def test_a_transposed_product_is_the_product_of_the_transposes(chain):
    semiring, (a, b) = chain
    np.testing.assert_array_equal(semiring.matmul(a, b).T, semiring.matmul(b.T, a.T))


@given(chains(2, finite=WILD))
def test_min_plus_is_max_plus_of_the_negatives(chain):
    semiring, (a, b) = chain
    mirrored = -semiring.dual.matmul(-a, -b)
    np.testing.assert_array_equal(semiring.matmul(a, b), mirrored)


@SEMIRINGS
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 12])
def test_a_power_is_a_repeated_product(semiring, exponent):
    rng = np.random.default_rng(3)
    matrix = np.where(rng.random((5, 5)) < 0.4, semiring.zero, rng.integers(-9, 9, (5, 5)))
    expected = semiring.identity(5)
    for _ in range(exponent):
        expected = semiring.matmul(expected, matrix)
    np.testing.assert_array_equal(semiring.power(matrix, exponent), expected)


# --- against the definition ---------------------------------------------------------------------


@example((maxplus, [np.zeros((2, 0)), np.zeros((0, 3))]))
@example((minplus, [np.zeros((1, 1)), np.zeros((1, 1))]))
@example((maxplus, [np.full((2, 2), -np.inf), np.full((2, 2), -np.inf)]))
@given(chains(2, finite=WILD))
def test_small_products_match_the_definition(chain):
    semiring, (a, b) = chain
    expected = product_by_definition(a, b, BEST[semiring.name], semiring.zero)
    np.testing.assert_array_equal(
        semiring.matmul(a, b), np.array(expected, dtype=float).reshape(len(a), b.shape[1])
    )


@SEMIRINGS
def test_vectors_multiply_as_rows_on_the_left_and_columns_on_the_right(semiring):
    rng = np.random.default_rng(2)
    matrix, x, y = rng.normal(size=(30, 200)), rng.normal(size=30), rng.normal(size=200)
    np.testing.assert_array_equal(
        semiring.matmul(matrix, y), semiring.matmul(matrix, y[:, None])[:, 0]
    )
    np.testing.assert_array_equal(semiring.matmul(x, matrix), semiring.matmul(x[None], matrix)[0])
    assert semiring.matmul(y, y) == BEST[semiring.name](2 * y)
    assert np.ndim(semiring.matmul(y, y)) == 0


@SEMIRINGS
def test_empty_shapes_give_tropical_zeros(semiring):
    assert semiring.matmul(np.zeros((0, 3)), np.zeros((3, 2))).shape == (0, 2)
    assert semiring.matmul(np.zeros((2, 0)), np.zeros(0)).tolist() == [semiring.zero] * 2
    assert semiring.matmul(np.zeros(0), np.zeros(0)) == semiring.zero
    assert semiring.matmul(np.zeros((3, 0)), np.zeros((0, 0))).shape == (3, 0)
    assert semiring.sum(np.zeros((2, 0)), axis=1).tolist() == [semiring.zero] * 2
    assert semiring.sum(np.zeros((2, 0)), axis=0).shape == (0,)
    assert semiring.power(np.zeros((0, 0)), 3).shape == (0, 0)
    assert semiring.identity(0).shape == (0, 0)


@SEMIRINGS
def test_sums_run_over_everything_or_along_an_axis(semiring):
    array = np.array([[1.0, semiring.zero, 3.0], [semiring.zero] * 3])
    best = BEST[semiring.name]
    assert semiring.sum(array) == best(1.0, 3.0)
    assert semiring.sum(array, axis=-1).tolist() == [best(1.0, 3.0), semiring.zero]
    assert semiring.sum(array, axis=0).tolist() == [1.0, semiring.zero, 3.0]


# --- results beyond float64 -----------------------------------------------------------------------

HUGE = 1.7e308


@SEMIRINGS
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_finite_product_that_overflows_is_refused_in_both_directions(semiring, sign):
    value = sign * HUGE
    for attempt in (
        lambda: semiring(value) * semiring(value),
        lambda: semiring(value) ** 2,
        lambda: semiring.mul([0.0, value], [0.0, value]),
        lambda: semiring.matmul([[value]], [[value]]),
        lambda: semiring.matmul(np.full((40, 40), value), np.full((40, 40), value)),
        lambda: semiring.power([[value]], 2),
    ):
        with pytest.raises(ArgumentError, match="range of float64"):
            attempt()


def test_a_term_that_overflows_downwards_is_harmless_beside_a_finite_one():
    assert maxplus.matmul([[-HUGE, 1.0]], [[-HUGE], [2.0]]).tolist() == [[3.0]]
    # Entries this low, but never added to each other: the zeros are genuine.
    a = [[-HUGE, -np.inf], [-np.inf, -np.inf]]
    b = [[-np.inf, 0.0], [-HUGE, -HUGE]]
    assert maxplus.matmul(a, b).tolist() == [[-np.inf, -HUGE], [-np.inf, -np.inf]]


# --- scalars as Python objects --------------------------------------------------------------------


def test_the_convention_is_printed():
    assert "max(a, b)" in repr(maxplus)
    assert "zero = -inf" in repr(maxplus)
    assert "min(a, b)" in repr(minplus)
    assert "zero = inf" in repr(minplus)
    assert repr(maxplus(3)) == "maxplus(3.0)"
    assert eval(repr(minplus(-2.5))) == minplus(-2.5)


def test_scalars_of_different_semirings_never_mix():
    for operation in (
        lambda: maxplus(1) + minplus(2),
        lambda: maxplus(1) * minplus(2),
        lambda: maxplus(1) / minplus(2),
    ):
        with pytest.raises(ArgumentError, match="`other` must be a max-plus number"):
            operation()
    assert maxplus(1) != minplus(1)
    assert len({maxplus(1), minplus(1), maxplus(1.0)}) == 2


def test_plain_and_numpy_numbers_are_read_as_scalars_from_either_side():
    assert maxplus(3) + 5 == maxplus(5) == 5 + maxplus(3)
    assert np.float64(5) * maxplus(3) == maxplus(8) == maxplus(3) * np.int64(5)
    assert float(maxplus(3)) == 3.0


def test_semirings_and_scalars_survive_copying():
    for thing in (maxplus, minplus, maxplus(3), minplus(minplus.zero)):
        assert pickle.loads(pickle.dumps(thing)) == thing == copy.deepcopy(thing)
    assert Semiring("max-plus") == maxplus == minplus.dual != minplus


def test_the_tropical_zero_has_no_inverse():
    for attempt in (lambda: maxplus(1) / maxplus.zero, lambda: minplus(minplus.zero) ** -1):
        with pytest.raises(ArgumentError, match="has no inverse"):
            attempt()


# --- bad input ------------------------------------------------------------------------------------


@SEMIRINGS
@pytest.mark.parametrize("word", ["nan", "forbidden"])
def test_nan_and_the_other_infinity_are_refused_by_name(semiring, word):
    bad = np.nan if word == "nan" else -semiring.zero
    cases = {
        "value": lambda: semiring(bad),
        "other": lambda: semiring(1) + bad,
        "a": lambda: semiring.matmul([[bad]], [[0.0]]),
        "b": lambda: semiring.matmul([[0.0]], [[bad]]),
        "array": lambda: semiring.sum([bad]),
        "matrix": lambda: semiring.power([[bad]], 2),
        "exponent": lambda: semiring(1) ** bad,
    }
    for name, attempt in cases.items():
        with pytest.raises(NonFiniteError, match=f"`{name}`"):
            attempt()
    for method in (semiring.add, semiring.mul):
        with pytest.raises(NonFiniteError, match="`b`"):
            method([0.0], [bad])
    with pytest.raises(NonFiniteError, match="`matrix`"):
        semiring.kleene_star([[bad]])


@pytest.mark.parametrize(
    ("attempt", "error", "name"),
    [
        (lambda: maxplus.matmul([[1, 2]], [[1, 2]]), ShapeMismatchError, "`a` and `b`"),
        (lambda: maxplus.matmul(1.0, [[1.0]]), ShapeMismatchError, "`a` and `b`"),
        (lambda: maxplus.matmul(np.zeros((2, 2, 2)), [[1, 2]]), ShapeMismatchError, "`a` and `b`"),
        (lambda: maxplus.matmul([["x"]], [[1]]), DtypeError, "`a`"),
        (lambda: maxplus.matmul([[1]], np.array([[None]])), DtypeError, "`b`"),
        (lambda: maxplus.matmul([[1], [1, 2]], [[1]]), ShapeMismatchError, "`a`"),
        (lambda: maxplus.add([1, 2], [1, 2, 3]), ShapeMismatchError, "`a` and `b`"),
        (lambda: maxplus.mul([1, 2], [1j, 2]), DtypeError, "`b`"),
        (lambda: maxplus.power([[1, 2]], 2), ShapeMismatchError, "`matrix`"),
        (lambda: maxplus.power([[1]], -1), ArgumentError, "`exponent`"),
        (lambda: maxplus.power([[1]], 1.5), DtypeError, "`exponent`"),
        (lambda: maxplus.sum([1.0], axis=1), ArgumentError, "`axis`"),
        (lambda: maxplus.sum(1.0, axis=0), ArgumentError, "`axis`"),
        (lambda: maxplus.identity(-1), ArgumentError, "`n`"),
        (lambda: maxplus.zeros((2, -1)), ArgumentError, "`shape`"),
        (lambda: maxplus.kleene_star([[1, 2]]), ShapeMismatchError, "`matrix`"),
        (lambda: maxplus("3"), DtypeError, "`value`"),
        (lambda: maxplus([1, 2]), ShapeMismatchError, "`value`"),
        (lambda: maxplus(1) + "2", DtypeError, "`other`"),
        (lambda: maxplus(1) * np.array([1, 2]), ShapeMismatchError, "`other`"),
        (lambda: np.array([1, 2]) * maxplus(1), ShapeMismatchError, "`other`"),
        (lambda: maxplus(2**53 + 1), DtypeError, "`value`"),
        (lambda: Semiring("max-times"), ArgumentError, "`name`"),
    ],
)
def test_bad_input_is_refused_by_name(attempt, error, name):
    with pytest.raises(error, match=name) as caught:
        attempt()
    assert isinstance(caught.value, HardmaxError)


def test_a_scalar_checks_itself():
    with pytest.raises(NonFiniteError, match="`value`"):
        TropicalNumber(maxplus, np.inf)
