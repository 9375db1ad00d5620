"""Linear programs: against scipy, and against the enumeration of all vertices."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_array

from hardmax.geometry import linear_programs
from hardmax.geometry.linear_programs import _solve_by_enumeration, largest_height, maximise
from tests.sweeps import examples


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


@examples(75)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(2, 10))
def test_exact_programs_agree_with_the_enumeration_of_vertices(seed, dim, n):
    rng = np.random.default_rng(seed)
    a, k, c = rng.integers(-3, 4, (n, dim)), rng.integers(0, 3, n), rng.integers(0, 6, n)
    rows = [(*map(int, x), int(y), int(z)) for x, y, z in zip(a, k, c, strict=True)]
    found, slow = largest_height(rows, dim), _solve_by_enumeration(rows, dim)
    assert found.value == slow.value
    for *slope, weight, offset in rows:
        value = sum((x * y for x, y in zip(slope, found.point, strict=True)), Fraction(offset))
        if found.value is not None:
            assert value >= weight * found.value
        else:
            assert sum(x * y for x, y in zip(slope, found.direction, strict=True)) >= weight
    program = linprog(
        [0.0] * dim + [-1.0], np.column_stack([-a, k]), c, bounds=[(None, None)] * (dim + 1)
    )
    if found.value is not None:
        assert -program.fun == pytest.approx(float(found.value), abs=1e-7)


@pytest.mark.parametrize("basis", [[0, 1], [0, 2], [1, 3], [0, 4], [1, 5], [0, 0], [0]])
def test_a_solver_that_errs_cannot_make_an_exact_program_wrong(monkeypatch, basis):
    # The largest y with y <= t, y <= 3 - t, y <= 1 is 1; 0 <= t <= 3 give worse vertices.
    rows = [(1, 1, 0), (-1, 1, 3), (0, 1, 1), (1, 1, 5), (1, 0, 0), (-1, 0, 3)]
    monkeypatch.setattr(linear_programs, "_propose_basis", lambda rows, dim: (basis, []))
    assert largest_height(rows, 1).value == 1


def test_exact_programs_survive_numbers_no_float_solver_can_hold():
    huge = 10**400
    rows = [(huge, 1, 0), (-huge, 1, 3), (1, 0, 5), (-1, 0, 5)]
    assert largest_height(rows, 1).value == Fraction(3, 2)
