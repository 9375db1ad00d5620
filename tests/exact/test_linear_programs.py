"""Linear programs: against scipy, and what has no optimum has none."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array

from hardmax.exact.linear_programs import maximise


@pytest.mark.parametrize("seed", range(5))
def test_the_optimum_is_scipys(seed):
    rng = np.random.default_rng(seed)
    A, b, c = rng.normal(size=(20, 3)), rng.uniform(0.5, 2, size=20), rng.normal(size=3)
    expected = linprog(-c, A_ub=A, b_ub=b, bounds=(None, None))
    found = maximise(c, A, b)
    if not expected.success:
        assert found is None
    else:
        assert (A @ found <= b + 1e-7).all()
        assert c @ found == pytest.approx(-expected.fun)


def test_an_empty_or_unbounded_program_has_no_optimum():
    assert maximise(np.ones(1), np.array([[1.0], [-1.0]]), np.array([0.0, -1.0])) is None
    assert maximise(np.ones(2), np.array([[1.0, -1.0]]), np.array([1.0])) is None


def test_stored_entries_are_enough():
    rng = np.random.default_rng(8)
    A = np.concatenate([np.eye(30), -np.eye(30), rng.normal(size=(40, 30))])
    A[60:][rng.random((40, 30)) < 0.8] = 0.0
    b, c = rng.uniform(0.5, 2, size=100), rng.normal(size=30)
    assert c @ maximise(c, csr_array(A), b) == pytest.approx(c @ maximise(c, A, b))
