"""The exact stage of the core, function by function, against fractions."""

from ctypes import addressof
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax._core.library import core
from hardmax._core.memory import address
from hardmax.exact.winners import UNDECIDED, stored_forms
from tests.reference.exact import sign, value_of_form

WIDEST_SPREAD = 900
FINITE = st.floats(-1e307, 1e307)


def sign_of(slopes, offsets, point):
    """The sign of the first form, less the second or zero, at a point."""
    slopes, offsets = np.array(slopes), np.array(offsets)
    if len(slopes) == 1:
        slopes, offsets = np.vstack([slopes, 0 * slopes]), np.append(offsets, 0.0)
    points, expansion = np.array([point]), np.empty(4 * slopes.shape[1] + 4)
    forms = stored_forms(slopes, offsets, points)
    return core().hm_test_difference(addressof(forms), address(expansion))


@given(st.lists(st.tuples(FINITE, FINITE, FINITE), max_size=5), FINITE, FINITE)
def test_the_sign_of_a_difference_is_exact_or_refused(columns, c, c_rival):
    a, b, x = (list(part) for part in zip(*columns, strict=True)) if columns else ([], [], [])
    difference = [Fraction(p) - Fraction(q) for p, q in zip(a, b, strict=True)]
    expected = sign(
        value_of_form(difference, Fraction(c) - Fraction(c_rival), list(map(Fraction, x)))
    )
    slopes = np.array([a, b]).reshape(2, len(a))
    assert sign_of(slopes, [c, c_rival], np.array(x)) in (expected, UNDECIDED)


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
    assert sign_of([[edge / 2], [edge / 2]], [-1.0, 1.0], [1.0]) == -1
    assert sign_of([[edge / 2]], [-1.0], [0.0]) == -1


def test_full_mantissas_at_the_widest_spread_lose_no_bit():
    full = 2.0 - 2.0**-52
    tiny = np.ldexp(full, -WIDEST_SPREAD // 2)
    slopes = [[full, -full, tiny]]
    assert sign_of(slopes, [0.0], [full, full, tiny]) == 1
    assert sign_of(slopes, [0.0], [full, full, -tiny]) == -1
