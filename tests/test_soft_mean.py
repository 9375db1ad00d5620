"""The gap between a maximum and a soft mean: the lemma, its equality, and margins."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from hardmax.constructions.soft_mean import gap_bounds, soft_mean_gap, worst_soft_mean
from hardmax.errors import HardmaxError


def gap(z, tau):
    weights = np.exp((z - z.max()) / tau)
    return float(z.max() - weights @ z / weights.sum())


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.floats(-20, 20), min_size=1, max_size=9),
    st.sampled_from([1e-3, 0.1, 1.0, 7.0]),
)
def test_no_soft_mean_is_further_below_the_maximum(z, tau):
    z = np.array(z)
    assert -1e-12 <= gap(z, tau) <= soft_mean_gap(len(z), tau) * (1 + 1e-12) + 1e-12


@pytest.mark.parametrize("k", [1, 2, 3, 8, 100])
@pytest.mark.parametrize("tau", [1e-6, 1.0, 1e3])
def test_the_gap_is_attained(k, tau):
    worst = worst_soft_mean(k, tau)
    assert math.isclose(gap(worst, tau), soft_mean_gap(k, tau), rel_tol=1e-12, abs_tol=1e-300)


@pytest.mark.parametrize("k", [2, 3, 8, 1000])
def test_the_constant_is_lambert_of_the_number_of_rivals_over_e(k):
    with mp.workdps(30):
        exact = mp.lambertw((mp.mpf(k) - 1) / mp.e)
    assert math.isclose(soft_mean_gap(k), float(exact), rel_tol=1e-14)
    bound = gap_bounds(np.zeros(k), np.array([0]))[0]
    assert float(exact) <= bound <= float(exact) * (1 + 1e-10)


def test_the_constants_of_the_docstring_are_these():
    assert [round(soft_mean_gap(k), 5) for k in (2, 3, 8)] == [0.27846, 0.46306, 0.97314]


@settings(max_examples=200, deadline=None)
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
    assert math.isclose(bounds[0], soft_mean_gap(3), rel_tol=1e-9)
    assert bounds[1] <= 80 * math.exp(-80) * (1 + 1e-9)
    assert bounds[2] == 0.0


@pytest.mark.parametrize("bad", [(0, 1.0), (2.5, 1.0), (2, 0.0), (2, -1.0), (2, math.nan)])
def test_bad_sizes_and_temperatures_are_refused(bad):
    with pytest.raises(HardmaxError):
        soft_mean_gap(*bad)
