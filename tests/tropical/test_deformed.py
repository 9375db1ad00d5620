import math

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.errors import ArgumentError, DtypeError, NonFiniteError, ShapeMismatchError
from hardmax.tropical.matrices.deformed import deformed_add, deformed_matmul, deformed_sum
from hardmax.tropical.matrices.semiring import maxplus
from tests.reference.semiring import soft_maximum
from tests.strategies import SMALL, WILD

TEMPERATURES = st.one_of(
    st.floats(-300, 300).map(lambda exponent: 10.0**exponent),
    st.sampled_from([5e-324, 1e-310, 1e-300, 1.0, 1e300, 1e308]),
)
ULPS = 4


def vectors(elements, smallest=1, largest=6):
    return st.integers(smallest, largest).flatmap(
        lambda n: arrays(np.float64, n, elements=elements)
    )


@st.composite
def comparable(draw):
    """Entries whose gaps are of the order of tau: the exponentials matter."""
    tau = draw(st.floats(-290, 290).map(lambda exponent: 10.0**exponent))
    ratios = draw(vectors(st.floats(-1500, 0)))
    top = draw(st.sampled_from([0.0, 1.0, -1.0, 1e5])) * tau
    return top + tau * ratios, tau


def assert_accurate(got, terms, tau):
    """Within a few units in the last place of the larger of |max| and the growth above it."""
    exact = soft_maximum([float(x) for x in terms], float(tau))
    if exact == -mpmath.inf:
        assert got == -np.inf
        return
    with mpmath.workprec(5000):
        top = max(terms)
        growth = float(exact - mpmath.mpf(float(top)))
        error = float(abs(mpmath.mpf(float(got)) - exact) / np.spacing(max(abs(top), growth)))
    assert error <= ULPS, (got, terms, tau, error)


# --- against the definition ---------------------------------------------------------------------


@example((np.array([0.0, -1000.0e308 / 1001]), 1e306))  # A gap of 1000 at a huge temperature.
@example((np.array([0.0, -700.0]), 1.0))
@example((np.array([2.3047060491671805e42, -1.6563066810319618e51]), 9.44892774478542e49))
@example((np.array([0.0, -1.2e305]), 1e302))  # exp(-1200) underflows, 1e302 times it does not.
@given(comparable())
def test_sums_are_accurate_where_the_exponentials_matter(case):
    terms, tau = case
    assert_accurate(deformed_sum(terms, tau), terms, tau)


@example(np.array([1.7e308, -1.7e308]), 1e300)  # The difference overflows.
@example(np.array([1e308, -1e308]), 5e307)  # It overflows, and the exponential still matters.
@example(np.array([5e-324, -5e-324]), 5e-324)
@example(np.array([-np.inf, -np.inf]), 1.0)
@given(vectors(st.one_of(WILD, st.just(-np.inf))), st.floats(0, 1e300))
def test_sums_are_accurate_at_any_scale(terms, tau):
    assert_accurate(deformed_sum(terms, tau), terms, tau)


@given(comparable())
def test_addition_is_the_sum_of_two(case):
    terms, tau = case
    a, b = terms[0], terms[-1]
    got = deformed_add(a, b, tau)
    assert_accurate(got, [a, b], tau)
    assert got == deformed_add(b, a, tau)
    assert got == deformed_sum([a, b], tau)


def test_the_last_bits_of_the_gap_count():
    """The gap 700 / tau rounds; carried along, it costs 1 unit in the last place and not 700."""
    a, b, tau = 0.0, -700.1, 1.1
    exact = soft_maximum([a, b], tau)
    got = float(deformed_add(a, b, tau))
    assert abs(got - exact) <= 2 * np.spacing(got)
    naive = tau * math.log1p(math.exp(b / tau))
    assert abs(naive - exact) > 2 * np.spacing(got)


# --- Maslov's limit -------------------------------------------------------------------------------


@given(vectors(st.one_of(WILD, st.just(-np.inf))))
def test_zero_temperature_is_exactly_the_maximum(terms):
    assert deformed_sum(terms, 0.0) == terms.max()
    assert deformed_add(terms[0], terms[-1], 0.0) == maxplus.add(terms[0], terms[-1])


@given(vectors(SMALL), TEMPERATURES)
def test_the_growth_above_the_maximum_is_at_most_tau_log_n(terms, tau):
    """Theorem: max <= sum <= max + tau log n. Only the last float operations may round."""
    total = float(deformed_sum(terms, tau))
    limit = tau * math.log(len(terms))
    slack = ULPS * np.spacing(max(abs(terms.max()), limit))
    assert terms.max() <= total <= terms.max() + limit + slack


@given(st.integers(1, 50), SMALL, TEMPERATURES)
def test_the_growth_is_tau_log_n_when_all_terms_are_equal(n, value, tau):
    if value + tau * math.log(n) == np.inf:
        return
    total = float(deformed_sum(np.full(n, value), tau))
    with mpmath.workprec(5000):
        expected = mpmath.mpf(value) + mpmath.mpf(tau) * mpmath.log(n)
        slack = ULPS * np.spacing(max(abs(value), tau * math.log(n)))
        assert abs(mpmath.mpf(total) - expected) <= slack


def test_the_growth_is_less_than_tau_log_n_when_terms_differ():
    for n in range(2, 10):
        terms = np.zeros(n)
        terms[0] = -0.25
        assert deformed_sum(terms, 1.0) < math.log(n) - 0.01
        assert deformed_sum(terms, 1.0) > 0.0


@given(vectors(SMALL, smallest=2))
def test_sums_grow_with_the_temperature(terms):
    temperatures = np.array(
        [0.0, 5e-324, 1e-300, 1e-3, 0.01, 0.1, 0.5, 1.0, 2.0, 1e3, 1e100, 1e300]
    )
    totals = deformed_sum(np.tile(terms, (len(temperatures), 1)), temperatures, axis=1)
    # A growth below half a unit in the last place of the maximum is lost, hence not strict.
    assert (np.diff(totals) >= 0).all()
    assert (np.diff(totals[5:]) > 0).all()


@given(vectors(SMALL, smallest=2))
def test_sums_converge_to_the_maximum(terms):
    errors = deformed_sum(terms, 10.0 ** -np.arange(0, 20)) - terms.max()
    n_winners = np.count_nonzero(terms == terms.max())
    assert errors[-1] <= 1e-15
    # With a gap of at least 1 the losers vanish like exp(-1/tau), the ties only like tau.
    np.testing.assert_allclose(
        errors[2:], 10.0 ** -np.arange(2, 20) * np.log(n_winners), atol=2e-15
    )


@given(vectors(SMALL, smallest=3, largest=3), st.floats(1e-3, 1e3))
def test_addition_is_associative_and_distributes_up_to_rounding(terms, tau):
    a, b, c = terms
    left = deformed_add(deformed_add(a, b, tau), c, tau)
    right = deformed_add(a, deformed_add(b, c, tau), tau)
    scale = 4 + 2 * tau
    assert left == pytest.approx(right, abs=1e-14 * scale)
    assert deformed_sum(terms, tau) == pytest.approx(left, abs=1e-14 * scale)
    shifted = deformed_add(a + c, b + c, tau)
    assert shifted == pytest.approx(deformed_add(a, b, tau) + c, abs=1e-14 * scale)


@given(SMALL, TEMPERATURES)
def test_minus_infinity_is_the_neutral_element(value, tau):
    assert deformed_add(value, -np.inf, tau) == value == deformed_add(-np.inf, value, tau)
    assert deformed_add(-np.inf, -np.inf, tau) == -np.inf


# --- shapes ---------------------------------------------------------------------------------------


def test_addition_broadcasts_all_three_arguments():
    a, b, tau = np.zeros((3, 1)), np.arange(4.0), np.array([0.0, 1.0])[:, None, None]
    got = deformed_add(a, b, tau)
    assert got.shape == (2, 3, 4)
    np.testing.assert_array_equal(got[0], np.broadcast_to(b, (3, 4)))
    assert got[1, 2, 3] == deformed_add(0.0, 3.0, 1.0)
    assert np.ndim(deformed_add(1, 2, 3)) == 0


def test_sums_run_along_an_axis_with_one_temperature_for_each_result():
    rng = np.random.default_rng(0)
    array = rng.normal(size=(3, 4, 5))
    got = deformed_sum(array, [0.5, 1.0, 2.0, 3.0, 4.0], axis=1)
    assert got.shape == (3, 5)
    for i, j in np.ndindex(3, 5):
        assert_accurate(got[i, j], array[i, :, j], [0.5, 1.0, 2.0, 3.0, 4.0][j])
    assert deformed_sum(array, 1.0) == deformed_sum(array.ravel(), 1.0)
    np.testing.assert_array_equal(deformed_sum(array, 1.0, axis=-2), deformed_sum(array, 1.0, 1))


def test_empty_sums_are_minus_infinity():
    assert deformed_sum([], 1.0) == -np.inf
    assert deformed_sum(np.zeros((2, 0)), 1.0, axis=1).tolist() == [-np.inf, -np.inf]
    assert deformed_sum(np.zeros((0, 2)), 1.0, axis=1).shape == (0,)
    assert deformed_add(np.zeros((0, 3)), 1.0, 1.0).shape == (0, 3)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempt", "error", "name"),
    [
        (lambda: deformed_add(0.0, 0.0, -1.0), ArgumentError, "`tau` must be at least 0; got -1.0"),
        (lambda: deformed_sum([0.0], [1.0, -5e-324]), ArgumentError, "`tau` must be at least 0"),
        (lambda: deformed_add(0.0, 0.0, np.nan), NonFiniteError, "`tau`"),
        (lambda: deformed_add(0.0, 0.0, np.inf), NonFiniteError, "`tau`"),
        (lambda: deformed_add(0.0, 0.0, "1"), DtypeError, "`tau`"),
        (lambda: deformed_add(np.nan, 0.0, 1.0), NonFiniteError, "`a`"),
        (lambda: deformed_add(0.0, np.inf, 1.0), NonFiniteError, "`b`"),
        (lambda: deformed_sum([np.inf], 1.0), NonFiniteError, "`array`"),
        (lambda: deformed_sum([None], 1.0), DtypeError, "`array`"),
        (lambda: deformed_add([1, 2], [1, 2, 3], 1.0), ShapeMismatchError, "`a`, `b` and `tau`"),
        (lambda: deformed_sum([1, 2], [1.0, 2.0], axis=1), ArgumentError, "`axis`"),
        (lambda: deformed_sum([1, 2], 1.0, axis=0.5), DtypeError, "`axis`"),
        (lambda: deformed_sum(np.zeros((2, 3)), [1, 2, 3], axis=1), ShapeMismatchError, "`tau`"),
        (lambda: deformed_add(1.7e308, 1.7e308, 1.7e308), ArgumentError, "range of float64"),
    ],
)
def test_bad_input_is_refused_by_name(attempt, error, name):
    with pytest.raises(error, match=name):
        attempt()


# The matrix product


@given(st.data(), st.integers(1, 3), st.integers(0, 3), st.integers(1, 3), TEMPERATURES)
def test_a_deformed_product_is_the_deformed_sum_of_its_terms(data, n, inner, m, tau):
    entries = st.one_of(SMALL, st.just(-np.inf))
    a = data.draw(arrays(np.float64, (n, inner), elements=entries))
    b = data.draw(arrays(np.float64, (inner, m), elements=entries))
    product = deformed_matmul(a, b, tau)
    assert product.shape == (n, m)
    for i in range(n):
        for j in range(m):
            assert product[i, j] == deformed_sum(a[i] + b[:, j], tau)
    hard = maxplus.matmul(a, b)
    np.testing.assert_array_equal(deformed_matmul(a, b, 0.0), hard)
    assert (product >= hard).all()


def test_a_deformed_product_is_the_logarithm_of_an_ordinary_one():
    rng = np.random.default_rng(0)
    a, b, tau = rng.normal(size=(40, 30)), rng.normal(size=(30, 1000)), 0.7
    ordinary = tau * np.log(np.exp(a / tau) @ np.exp(b / tau))
    np.testing.assert_allclose(deformed_matmul(a, b, tau), ordinary, rtol=1e-13)


def test_deformed_products_associate():
    rng = np.random.default_rng(1)
    a, b, c = rng.normal(size=(3, 5, 5))
    left = deformed_matmul(deformed_matmul(a, b, 0.3), c, 0.3)
    right = deformed_matmul(a, deformed_matmul(b, c, 0.3), 0.3)
    np.testing.assert_allclose(left, right, rtol=1e-13, atol=1e-13)


def test_vectors_and_temperatures_of_entries():
    a, b = np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([0.0, 0.0])
    both = deformed_matmul(a, b, [0.0, 1.0])
    assert both.tolist() == [0.0, float(deformed_sum([1.0, 2.0], 1.0))]
    assert deformed_matmul(b, b, 1.0) == np.log(2)
    assert float(deformed_matmul(np.zeros((1, 0)), np.zeros((0, 1)), 1.0)[0, 0]) == -np.inf


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (([[1.0]], [[1.0], [2.0]], 1.0), ShapeMismatchError, "`a` and `b` must have shapes"),
        (([[1.0]], [[1.0]], [1.0, 2.0]), ShapeMismatchError, "`tau` must broadcast"),
        (([[1.0]], [[1.0]], [0.0, 0.0]), ShapeMismatchError, "`tau` must broadcast"),
        (([[1.0]], [[1.0]], -1.0), ArgumentError, "`tau` must be at least 0"),
        (([[1.7e308]], [[1.7e308]], 1.0), ArgumentError, "product of `a` and `b` exceeds"),
        (([[-1.7e308, 0.0]], [[-1.7e308], [0.0]], 1e308), ArgumentError, "exceeds the range"),
        (([[np.inf]], [[0.0]], 1.0), NonFiniteError, "`a`"),
    ],
)
def test_what_has_no_deformed_product_is_refused(arguments, error, match):
    with pytest.raises(error, match=match):
        deformed_matmul(*arguments)
