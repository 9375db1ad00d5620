"""The compiled exact stage, kernel by kernel, against fractions."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hardmax._kernels.expansions import (
    UNDECIDED,
    WIDEST_SPREAD,
    compress,
    determinant_signs_into,
    difference_sign,
    grow,
    two_product,
    two_sum,
)
from tests.reference.exact import (
    determinant_by_definition,
    fractions,
    sign,
    value_of_form,
)

MODERATE = st.floats(-1e150, 1e150).filter(lambda x: x == 0.0 or abs(x) > 1e-130)
FINITE = st.floats(-1e307, 1e307)


def expansion_of(numbers):
    """Grow an expansion out of numbers; return its buffer and length."""
    buffer, length = np.empty(len(numbers) + 1), 0
    for number in numbers:
        length = grow(buffer, length, number)
    return buffer, length


def assert_is_expansion(entries):
    """Non-zero, increasing, and every bit of one below the lowest bit of the next."""
    assert all(entries)
    for small, large in pairwise(entries):
        numerator, denominator = Fraction(large).as_integer_ratio()
        lowest_bit = Fraction(numerator & -numerator, denominator)
        assert abs(Fraction(small)) < lowest_bit


@example(1.0, 2.0**-1074)
@example(2.0**-1074, -(2.0**-1074))
@example(1.0 + 2.0**-52, 2.0**-53)
@given(FINITE, FINITE)
def test_a_sum_and_its_error_are_the_exact_sum(a, b):
    total, error = two_sum(a, b)
    assert total == a + b
    assert Fraction(total) + Fraction(error) == Fraction(a) + Fraction(b)


@example(1.0 + 2.0**-52, 1.0 + 2.0**-52)
@example(1.0 - 2.0**-53, 1.0 - 2.0**-53)
@example(2.0**27 + 1.0, 2.0**27 + 1.0)
@given(MODERATE, MODERATE)
def test_a_product_and_its_error_are_the_exact_product(a, b):
    product, error = two_product(a, b)
    assert product == a * b
    assert Fraction(product) + Fraction(error) == Fraction(a) * Fraction(b)


def test_many_random_products_lose_nothing():
    """A compiler that fused or reordered operations would be caught here."""
    rng = np.random.default_rng(0)
    for a, b in np.ldexp(rng.uniform(-1, 1, (3000, 2)), rng.integers(-300, 300, (3000, 2))):
        product, error = two_product(a, b)
        assert Fraction(product) + Fraction(error) == Fraction(a) * Fraction(b)
        assert abs(error) <= abs(product) * 2.0**-53


@given(st.lists(st.one_of(FINITE.map(lambda x: x / 64), st.sampled_from([1.0, -1.0, 2.0**-53]))))
def test_growing_and_compressing_keep_the_sum_and_the_order_of_bits(numbers):
    assume(len(numbers) < 60)
    buffer, length = expansion_of(numbers)
    exact = sum(map(Fraction, numbers), Fraction(0))
    assert_is_expansion(buffer[:length].tolist())
    assert sum(map(Fraction, buffer[:length].tolist()), Fraction(0)) == exact
    shorter = compress(buffer, length)
    assert shorter <= length
    assert_is_expansion(buffer[:shorter].tolist())
    assert sum(map(Fraction, buffer[:shorter].tolist()), Fraction(0)) == exact
    if shorter:
        assert sign(float(buffer[shorter - 1])) == sign(exact)


def test_compressing_joins_what_fits_in_one_number():
    buffer = np.array([1.0, 2.0, 4.0, 8.0, 0.0])
    assert compress(buffer, 4) == 1
    assert buffer[0] == 15.0
    assert compress(buffer, 0) == 0


def sign_of(slopes, offsets, point, minus=-1):
    slopes, offsets = np.array(slopes), np.array(offsets)
    buffer = np.empty(4 * slopes.shape[1] + 4)
    return difference_sign(slopes, offsets, 0, minus, np.array([point]), 0, buffer)


@given(st.lists(st.tuples(FINITE, FINITE, FINITE), max_size=5), FINITE, FINITE)
def test_the_sign_of_a_difference_is_exact_or_refused(columns, c, c_rival):
    a, b, x = (list(part) for part in zip(*columns, strict=True)) if columns else ([], [], [])
    difference = [Fraction(p) - Fraction(q) for p, q in zip(a, b, strict=True)]
    expected = sign(
        value_of_form(difference, Fraction(c) - Fraction(c_rival), list(map(Fraction, x)))
    )
    slopes = np.array([a, b]).reshape(2, len(a))
    assert sign_of(slopes, [c, c_rival], np.array(x), minus=1) in (expected, UNDECIDED)


@pytest.mark.parametrize("scale", [1074, 600, 0, -600, -1021])
def test_the_scale_of_the_data_does_not_matter(scale):
    """Products of 2**-1074 with itself and of the largest numbers are taken all the same."""
    small = np.ldexp(1.0, -scale)
    assert sign_of([[small, -small]], [0.0], [small, small]) == 0
    assert sign_of([[small, -small]], [0.0], [small, 2.0 * small]) == -1
    assert sign_of([[3.0 * small, -small]], [0.0], [small, 3.0 * small]) == 0


def test_terms_too_far_apart_are_refused_and_no_sooner():
    """The threshold, from both sides."""
    edge = np.ldexp(1.0, -WIDEST_SPREAD)
    assert sign_of([[edge]], [-1.0], [1.0]) == -1
    assert sign_of([[edge]], [edge], [1.0]) == 1
    assert sign_of([[edge / 2]], [-1.0], [1.0]) == UNDECIDED
    # The same coefficient on both sides cancels before it can widen the spread.
    assert sign_of([[edge / 2], [edge / 2]], [-1.0, 1.0], [1.0], minus=1) == -1
    assert sign_of([[edge / 2]], [-1.0], [0.0]) == -1


def test_full_mantissas_at_the_widest_spread_lose_no_bit():
    full = 2.0 - 2.0**-52
    tiny = np.ldexp(full, -WIDEST_SPREAD // 2)
    slopes = [[full, -full, tiny]]
    assert sign_of(slopes, [0.0], [full, full, tiny]) == 1
    assert sign_of(slopes, [0.0], [full, full, -tiny]) == -1


def determinant_signs(matrices, capacity=32):
    matrices = np.array(matrices, dtype=np.float64)
    k = matrices.shape[1]
    signs = np.empty(len(matrices), dtype=np.int8)
    buffers = np.empty((2**k, capacity)), np.empty(2**k, dtype=np.int64), np.empty(1100)
    determinant_signs_into(matrices, *buffers, signs)
    return signs.tolist()


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_determinants_of_small_integers_match_laplace(k):
    rng = np.random.default_rng(k)
    matrices = rng.integers(-1, 2, (60, k, k)) / 2.0
    expected = [sign(determinant_by_definition(fractions(m))) for m in matrices]
    assert determinant_signs(matrices) == expected
    assert {-1, 0, 1} == set(expected)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_determinants_that_differ_from_zero_in_the_last_place_only(k):
    rng = np.random.default_rng(k)
    matrices = rng.uniform(-1, 1, (40, k, k)) / 4
    matrices[:, -1] = matrices[:, :-1].sum(axis=1)
    matrices[20:, -1, 0] = np.nextafter(matrices[20:, -1, 0], 1.0)
    expected = [sign(determinant_by_definition(fractions(m))) for m in matrices]
    assert determinant_signs(matrices) == expected


def test_a_minor_longer_than_its_buffer_is_refused():
    matrix = np.array([[[1.0, 2.0**-60], [2.0**-70, 1.0]]]) / 2
    assert determinant_signs(matrix) == [1]
    assert determinant_signs(matrix, capacity=1) == [UNDECIDED]
