"""Soft means whose rivals have margins: bounds that hold, and are attained."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from hardmax.constructions.compilers._bounds.grouped_gaps import gap_bounds
from hardmax.stability.networks.soft_means import soft_mean_gap
from tests.sweeps import examples


def gap(z, tau):
    weights = np.exp((z - z.max()) / tau)
    return float(z.max() - weights @ z / weights.sum())


@pytest.mark.parametrize("k", [2, 3, 8, 1000])
def test_without_margins_the_bound_is_lambert_of_the_number_of_rivals_over_e(k):
    with mp.workdps(30):
        exact = mp.lambertw((mp.mpf(k) - 1) / mp.e)
    bound = gap_bounds(np.zeros(k), np.array([0]))[0]
    assert float(exact) <= bound <= float(exact) * (1 + 1e-10)


@examples(100)
@given(
    st.lists(st.tuples(st.floats(0, 12), st.floats(0, 12)), min_size=1, max_size=6),
)
def test_rivals_at_a_distance_count_less(rivals):
    # Each rival is at least its margin below the winner, by some excess.
    margins = np.array([0.0, *(margin for margin, _ in rivals)])
    t = np.array([0.0, *(margin + excess for margin, excess in rivals)])
    bound = gap_bounds(margins, np.array([0]))[0]
    assert gap(-t, 1.0) <= bound * (1 + 1e-12) + 1e-15
    assert bound <= gap_bounds(np.zeros(len(margins)), np.array([0]))[0]


def test_the_bound_with_margins_is_attained_at_the_margins():
    margins = np.array([0.0, 4.0, 5.0])
    assert math.isclose(gap_bounds(margins, np.array([0]))[0], gap(-margins, 1.0), rel_tol=1e-9)


def test_groups_are_bounded_each_on_its_own():
    margins = np.array([0.0, 0.0, 0.0, 0.0, 80.0, 0.0])
    bounds = gap_bounds(margins, np.array([0, 3, 5]))
    assert math.isclose(bounds[0], soft_mean_gap(3, 1.0), rel_tol=1e-9)
    assert bounds[1] <= 80 * math.exp(-80) * (1 + 1e-9)
    assert bounds[2] == 0.0
