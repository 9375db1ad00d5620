"""Every primitive of the core's arithmetic against fractions, at every magnitude."""

import math
from ctypes import c_double
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.core.instruction_sets import LIBRARIES, RUNNABLE
from tests.reference.exact import sign

U = Fraction(1, 2**53)
ETA = Fraction(1, 2**1074)
TINY = Fraction(1, 2**1071)
SMALLEST = 2.0**-1074
LARGEST = math.ldexp(1.0 - 2.0**-53, 1024)

each_library = pytest.mark.parametrize("core", LIBRARIES, ids=RUNNABLE)

# Few bits set, or all: products and sums then often cancel, tie or just fail to fit.
MANTISSAS = st.one_of(
    st.integers(-(2**53), 2**53),
    st.builds(lambda i, j: 2**i + 2**j, st.integers(0, 52), st.integers(0, 52)),
    st.builds(lambda i, j: 2**53 - 2**i - 2**j, st.integers(0, 52), st.integers(0, 52)),
)


def floats(lowest, highest):
    """Draw floats below `2**highest` and on the grid `2**lowest`, evenly over the exponents."""
    return st.builds(math.ldexp, MANTISSAS, st.integers(lowest, highest - 54))


ANY = floats(-1074, 1022)
MODERATE = floats(-530, 490)
LOW = st.one_of(floats(-1074, -900), floats(-560, -440), floats(-620, -400))


def pair_of(function, *arguments):
    """Call a function that writes a pair; return the pair and what the function returned."""
    pair = (c_double * 2)()
    status = function(*arguments, pair)
    return pair[0], pair[1], status


def exact(*numbers):
    return sum(map(Fraction, numbers), Fraction(0))


def lowest_bit(x):
    """The largest power of two that divides x."""
    numerator, denominator = abs(Fraction(x)).as_integer_ratio()
    return Fraction(numerator & -numerator, denominator)


def on_the_grid(a, b):
    """Whether the product lies on the grid of all float64, so that it has an exact error."""
    return a == 0.0 or b == 0.0 or lowest_bit(a) * lowest_bit(b) >= ETA


@each_library
@example(1.0, SMALLEST)
@example(SMALLEST, -SMALLEST)
@example(2.0**-1022, -SMALLEST)
@example(1.0 + 2.0**-52, 2.0**-53)
@example(LARGEST, -SMALLEST)
@given(ANY, ANY)
def test_a_sum_and_its_error_are_the_exact_sum(core, a, b):
    total, error, _ = pair_of(core.hm_test_two_sum, a, b)
    assert total == a + b
    assert exact(total, error) == exact(a, b)


@each_library
@example(0.0, 1.0)
@example(2.0**-1022, -SMALLEST)
@given(ANY, ANY)
def test_the_quick_sum_is_exact_if_the_first_is_the_larger_or_zero(core, a, b):
    a, b = (a, b) if a == 0.0 or abs(a) >= abs(b) else (b, a)
    total, error, _ = pair_of(core.hm_test_fast_two_sum, a, b)
    assert total == a + b
    assert exact(total, error) == exact(a, b)


@each_library
@example(math.ldexp(1.0 - 2.0**-53, 996))
@example(SMALLEST)
@example(3 * SMALLEST)
@given(floats(-1074, 996))
def test_halves_have_half_the_bits_and_the_whole_value(core, a):
    high, low, _ = pair_of(core.hm_test_halves, a)
    assert exact(high, low) == Fraction(a)
    for half in (high, low):
        assert half == 0.0 or abs(Fraction(half)) / lowest_bit(half) <= 2**26


@each_library
@pytest.mark.parametrize("way", ["two_product", "two_product_by_halves", "two_product_by_fma"])
@example(1.0 + 2.0**-52, 1.0 + 2.0**-52)
@example(2.0**27 + 1.0, 2.0**27 + 1.0)
@example(-0.0, 5.0)
@example(2.0**-537, 2.0**-537)
@example(math.ldexp(1.0 - 2.0**-53, 995), 2.0**27)
@given(st.one_of(MODERATE, LOW), st.one_of(MODERATE, LOW))
def test_a_product_and_its_error_are_the_exact_product(core, way, a, b):
    assume(on_the_grid(a, b))
    product, error, status = pair_of(getattr(core, f"hm_test_{way}"), a, b)
    if status:  # No fused operation here.
        assert core.hm_instruction_set() == b"baseline"
        return
    assert product == a * b
    assert exact(product, error) == Fraction(a) * Fraction(b)


@each_library
@example(SMALLEST, 0.5)
@example(2.0**-537 * (1 + 2.0**-52), 2.0**-537 * (1 - 2.0**-53))
@given(st.one_of(LOW, ANY), LOW)
def test_underflow_costs_a_product_no_more_than_the_lemma_says(core, a, b):
    assume(abs(a) < 2.0**900)
    value = Fraction(a) * Fraction(b)
    product, error, _ = pair_of(core.hm_test_two_product_by_halves, a, b)
    assert abs(exact(product, error) - value) <= 2 * ETA
    product, error, status = pair_of(core.hm_test_two_product_by_fma, a, b)
    assert status or abs(exact(product, error) - value) <= ETA / 2


@example(-1.0, 0.0)
@example(3.0, -5.0)
@given(st.one_of(MODERATE, LOW), st.one_of(MODERATE, LOW))
def test_a_product_is_the_same_in_every_bit_on_every_instruction_set(a, b):
    assume(on_the_grid(a, b))
    results = set()
    for core in LIBRARIES:
        for way in ("two_product", "two_product_by_halves", "two_product_by_fma"):
            product, error, status = pair_of(getattr(core, f"hm_test_{way}"), a, b)
            if not status:
                results.add((product.hex(), error.hex()))
    assert len(results) == 1


def grown(core, numbers):
    """Grow an expansion out of numbers; return its buffer and its length."""
    buffer, length = (c_double * (len(numbers) + 1))(), 0
    for number in numbers:
        length = core.hm_test_grow(buffer, length, number)
    return buffer, length


def assert_is_expansion(entries):
    """Non-zero, increasing, and every bit of one below the lowest bit of the next."""
    assert all(entries)
    for small, large in pairwise(entries):
        assert abs(Fraction(small)) < lowest_bit(large)


TERMS = st.lists(
    st.one_of(floats(-1074, 1010), st.sampled_from([1.0, -1.0, SMALLEST])), max_size=40
)


@each_library
@example([1.0, -1.0])
@example([SMALLEST, 1.0, 2.0**900, -1.0, -(2.0**900)])
@given(TERMS)
def test_growing_and_compressing_keep_the_sum_and_the_order_of_bits(core, numbers):
    buffer, length = grown(core, numbers)
    value = exact(*numbers)
    assert exact(*buffer[:length]) == value
    assert_is_expansion(buffer[:length])
    assert core.hm_test_sign(buffer, length) == sign(value)
    shorter = core.hm_test_compress(buffer, length)
    assert exact(*buffer[:shorter]) == value
    assert shorter <= length
    assert_is_expansion(buffer[:shorter])
    if shorter:
        assert abs(Fraction(buffer[shorter - 1]) - value) <= abs(value) * 2 * U


@each_library
@given(st.lists(st.tuples(MODERATE, MODERATE).filter(lambda ab: on_the_grid(*ab)), max_size=12))
def test_a_sum_of_products_has_its_exact_sign(core, factors):
    factors = [*factors, *((-a, b) for a, b in factors[::2])]  # Cancels in part.
    buffer, length = (c_double * (2 * len(factors) + 1))(), 0
    for a, b in factors:
        length = core.hm_test_grow_by_product(buffer, length, a, b)
    value = sum((Fraction(a) * Fraction(b) for a, b in factors), Fraction(0))
    assert exact(*buffer[:length]) == value
    assert core.hm_test_sign(buffer, length) == sign(value)


@st.composite
def doubled(draw, elements):
    """Draw a normal pair: the high part is the float nearest to the sum."""
    high = draw(elements)
    low = draw(st.one_of(st.floats(-1.0, 1.0), floats(-1074, 0))) * math.ulp(high) / 2.0
    return (high, low) if high + low == high else (high, 0.0)


def array(pair):
    return (c_double * 2)(*pair)


def assert_close(pair, value, relative, absolute=Fraction(0)):
    assert pair[0] == pair[0] + pair[1]
    assert abs(exact(*pair[:2]) - value) <= relative * U * U * abs(value) + absolute


@st.composite
def cancelling(draw):
    """Draw two numbers whose high parts cancel: what is left is in the low parts."""
    high = draw(ANY)
    return draw(doubled(st.just(high))), draw(doubled(st.just(-high)))


@each_library
@example(((1.0, 2.0**-54 + 2.0**-106), (-1.0, 2.0**-107)))
@given(st.one_of(cancelling(), st.tuples(doubled(ANY), doubled(ANY))))
def test_sums_of_two_floats_are_within_their_bounds(core, numbers):
    x, y = numbers
    x, y = ((h / 4.0, low / 4.0) if abs(h) > 2.0**1000 else (h, low) for h, low in (x, y))
    assert_close(pair_of(core.hm_test_add_float, array(x), y[0]), exact(*x, y[0]), 2)
    assert_close(pair_of(core.hm_test_add, array(x), array(y)), exact(*x, *y), 4)


@each_library
@example((1.0, 2.0**-53), (1.0, 2.0**-53))
@example((3 * SMALLEST, 0.0), (0.5 + 2.0**-53, 2.0**-107))
@given(doubled(st.one_of(MODERATE, LOW)), doubled(st.one_of(MODERATE, LOW)))
def test_products_of_two_floats_are_within_their_bounds(core, x, y):
    value = exact(*x) * Fraction(y[0])
    assert_close(pair_of(core.hm_test_multiply_float, array(x), y[0]), value, 3, TINY)
    value = exact(*x) * exact(*y)
    assert_close(pair_of(core.hm_test_multiply, array(x), array(y)), value, 7, TINY)


NARROW = floats(-60, 60)


@each_library
@given(
    st.one_of(NARROW, LOW),
    st.lists(
        st.one_of(
            st.tuples(NARROW, doubled(NARROW)),
            st.tuples(LOW, doubled(st.one_of(NARROW, LOW))),
        ),
        max_size=12,
    ),
)
def test_a_composition_in_twice_the_precision_is_within_its_bound(core, bias, terms):
    n = len(terms)
    weights = (c_double * max(n, 1))(*(w for w, _ in terms))
    numbers = (c_double * max(2 * n, 1))(*(part for _, x in terms for part in x))
    result = pair_of(core.hm_test_add_terms, bias, weights, numbers, n)
    value = sum((Fraction(w) * exact(*x) for w, x in terms), Fraction(bias))
    sizes = [abs(Fraction(w) * Fraction(high)) for w, (high, _) in terms]
    size = sum(sizes, abs(Fraction(bias)))
    kappa = 2 * (n + 4) ** 2 * U * U
    assert abs(exact(*result[:2]) - value) <= kappa * size + (n + 1) * TINY / 2


@given(NARROW, st.lists(st.tuples(NARROW, doubled(NARROW)), max_size=12))
def test_a_composition_is_the_same_in_every_bit_on_every_instruction_set(bias, terms):
    """A compiler that fused what nobody asked it to fuse would be caught here."""
    n = len(terms)
    weights = (c_double * max(n, 1))(*(w for w, _ in terms))
    numbers = (c_double * max(2 * n, 1))(*(part for _, x in terms for part in x))
    results = set()
    for core in LIBRARIES:
        high, low, _ = pair_of(core.hm_test_add_terms, bias, weights, numbers, n)
        results.add((high.hex(), low.hex()))
    assert len(results) == 1
