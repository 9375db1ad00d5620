"""The exact stage of the core, function by function, against fractions."""

from ctypes import byref
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax._core.library import core
from hardmax._core.memory import address
from hardmax.algebra.exact.stored_forms import UNDECIDED, stored_forms
from tests.reference.exact import determinant_by_definition, fractions, sign, value_of_form

WIDEST_SPREAD = 900
FINITE = st.floats(-1e307, 1e307)


def sign_of(slopes, offsets, point, minus=-1):
    """The sign of the first form, less another, at a point."""
    slopes, offsets, points = np.array(slopes), np.array(offsets), np.array([point])
    index = [np.array([i]) for i in (0, 0, minus)]
    found = np.empty(4 * slopes.shape[1] + 4), np.empty(1, dtype=np.int8)
    forms = byref(stored_forms(slopes, offsets, points))
    core().hm_signs_expanded(forms, 1, *map(address, (*index, *found)))
    return int(found[1][0])


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
    n, k = matrices.shape[:2]
    signs, expansion = np.empty(n, dtype=np.int8), np.empty(1100)
    minors, lengths = np.empty((2**k, capacity)), np.empty(2**k, dtype=np.int64)
    room = address(minors), address(lengths), capacity, address(expansion)
    core().hm_determinants_expanded(n, k, address(matrices), *room, address(signs))
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
