"""Hyperplane arrangements: the formulas against cells found one by one."""

from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax import bounds
from hardmax.errors import HardmaxError
from hardmax.geometry.cones import decide_open_cone
from tests.reference.bounds import joint_cells, slabs


def is_open(rows):
    return not rows or decide_open_cone(np.array(rows, dtype=object)).is_open


def sides(hyperplanes):
    """Each hyperplane as a group of two forms: nothing, and the hyperplane's own."""
    return [[(0,) * len(h), tuple(int(x) for x in h)] for h in hyperplanes]


@pytest.mark.parametrize(("n", "d"), [(1, 1), (4, 1), (4, 2), (6, 2), (5, 3), (3, 4)])
def test_zaslavsky_counts_hyperplanes_in_general_position(n, d):
    hyperplanes = np.random.default_rng(n + 10 * d).integers(-99, 100, (n, d + 1))
    assert len(joint_cells(sides(hyperplanes), True, is_open)) == bounds.zaslavsky(n, d)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (3, 1), (5, 2), (5, 3), (4, 4)])
def test_central_arrangements_count_hyperplanes_through_the_origin(n, d):
    hyperplanes = np.random.default_rng(n + 10 * d).integers(-99, 100, (n, d))
    assert len(joint_cells(sides(hyperplanes), False, is_open)) == bounds.central_arrangement(n, d)


@given(st.integers(1, 2), st.lists(st.tuples(*[st.integers(-2, 2)] * 3), min_size=1, max_size=6))
def test_no_arrangement_has_more_cells_than_zaslavsky(d, rows):
    rows = {row[-d - 1 :] for row in rows if any(row[-d - 1 : -1])}
    if rows:
        assert len(joint_cells(sides(rows), True, is_open)) <= bounds.zaslavsky(len(rows), d)


@pytest.mark.parametrize(("sizes", "d"), [((2, 3), 1), ((2, 3), 2), ((1, 2, 1), 2), ((2, 2, 1), 3)])
def test_parallel_arrangements_count_slabs_in_general_position(sizes, d):
    groups = slabs([m + 1 for m in sizes], d, np.random.default_rng(0))
    assert len(joint_cells(groups, True, is_open)) == bounds.parallel_arrangement(sizes, d)


@given(st.integers(0, 40), st.integers(1, 40))
def test_zaslavsky_satisfies_deletion_and_restriction(n, d):
    larger = bounds.zaslavsky(n + 1, d)
    assert larger == bounds.zaslavsky(n, d) + bounds.zaslavsky(n, d - 1)


@given(st.lists(st.integers(0, 6), max_size=6), st.integers(0, 7))
def test_elementary_symmetric_polynomials_match_the_definition(values, degree):
    expected = [
        sum(prod(chosen) for chosen in combinations(values, j))
        for j in range(min(degree, len(values)) + 1)
    ]
    assert bounds.elementary_symmetric(values, degree) == expected


def test_nothing_cuts_nothing():
    assert bounds.zaslavsky(0, 3) == bounds.central_arrangement(0, 3) == 1
    assert bounds.parallel_arrangement([0, 0], 3) == 1


def test_large_sizes_stay_exact():
    # Vandermonde at half of an even row: the sum is half of everything plus half the middle.
    n = 5000
    middle = bounds.zaslavsky(n, n // 2) - bounds.zaslavsky(n, n // 2 - 1)
    assert 2 * bounds.zaslavsky(n, n // 2) == 2**n + middle
    assert bounds.zaslavsky(10**12, 1) == 10**12 + 1


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: bounds.zaslavsky(-1, 2), "`n`"),
        (lambda: bounds.zaslavsky(3, -1), "`d`"),
        (lambda: bounds.zaslavsky(3.0, 2), "`n`"),
        (lambda: bounds.zaslavsky(True, 2), "`n`"),
        (lambda: bounds.zaslavsky(3, "2"), "`d`"),
        (lambda: bounds.central_arrangement(3, 0), "`d`"),
        (lambda: bounds.central_arrangement(None, 2), "`n`"),
        (lambda: bounds.parallel_arrangement([], 2), "`class_sizes`"),
        (lambda: bounds.parallel_arrangement([1, -2], 2), r"`class_sizes\[1\]`"),
        (lambda: bounds.parallel_arrangement(7, 2), "`class_sizes`"),
        (lambda: bounds.elementary_symmetric([1, 2], -1), "`max_degree`"),
    ],
)
def test_bad_sizes_are_refused_by_name(call, name):
    with pytest.raises(HardmaxError, match=name):
        call()
