"""Composed forms, every bit of them."""

import numpy as np
import pytest
from flint import fmpz_mat
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.errors import DtypeError, NonFiniteError, ShapeMismatchError
from hardmax.exact.exact_forms import ExactForms
from hardmax.exact.forms import AffineForms

FINITE = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)


@given(st.data(), st.integers(1, 3), st.integers(0, 2))
def test_stored_forms_round_trip(data, n_forms, dim):
    slopes = data.draw(arrays(np.float64, (n_forms, dim), elements=FINITE))
    offsets = data.draw(arrays(np.float64, n_forms, elements=FINITE))
    back = ExactForms.stored(AffineForms(slopes, offsets)).rounded()
    np.testing.assert_array_equal(back.slopes, slopes)
    np.testing.assert_array_equal(back.offsets, offsets)


def test_forms_equal_after_rounding_but_not_before():
    sums = ExactForms(fmpz_mat([[2**80, 0], [2**80 + 1, 0], [2**80, 0]]), -80)
    np.testing.assert_array_equal(sums.rounded().slopes, [[1.0], [1.0], [1.0]])
    assert sums.first_coinciding().tolist() == [0, 1, 0]


def test_bad_exact_forms_are_refused():
    with pytest.raises(DtypeError, match="`matrix` must be a flint fmpz_mat"):
        ExactForms(np.eye(2), 0)
    with pytest.raises(DtypeError, match="`exponent` must be an integer"):
        ExactForms(fmpz_mat([[1, 2]]), 0.5)
    with pytest.raises(ShapeMismatchError, match="`matrix` must have shape"):
        ExactForms(fmpz_mat(0, 2, []), 0)
    with pytest.raises(NonFiniteError, match="inf"):
        ExactForms(fmpz_mat([[1, 2]]), 2000).rounded()
