from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.errors import NonFiniteError, ShapeMismatchError
from hardmax.tropical.matrices.cycle_means import maximum_cycle_mean
from hardmax.tropical.matrices.semiring import maxplus
from tests.reference.semiring import simple_cycles, walk_weight
from tests.strategies import SMALL, WILD, matrices

TENTHS = st.integers(-12, 12).map(lambda n: n / 10)


@st.composite
def graphs(draw):
    finite = draw(st.sampled_from([SMALL, TENTHS, WILD]))
    n = draw(st.integers(1, 4))
    return draw(matrices(n, n, st.one_of(finite, st.just(-np.inf))))


@given(graphs())
def test_the_mean_is_the_largest_over_all_simple_cycles(weights):
    means = [weight / len(nodes) for nodes, weight in simple_cycles(weights)]
    found = maximum_cycle_mean(weights)
    assert found.mean == max(means, default=None)
    if means:
        closed = (*found.cycle, found.cycle[0])
        assert walk_weight(weights, closed) / len(found.cycle) == found.mean
        assert found.value == float(found.mean)
    else:
        assert found.cycle == ()
        assert found.value == -np.inf


@pytest.mark.parametrize("seed", range(3))
def test_the_mean_is_an_eigenvalue(seed):
    """Column c of (A - lambda)* for a node c of a critical cycle is an eigenvector [BCOQ92]."""
    rng = np.random.default_rng(seed)
    weights = np.where(rng.random((8, 8)) < 0.5, -np.inf, rng.integers(-840, 840, (8, 8)) * 840.0)
    found = maximum_cycle_mean(weights)
    eigenvalue = found.value  # A multiple of 840 / n for some n <= 8: an integer, so no rounding.
    assert eigenvalue.is_integer()
    vector = maxplus.kleene_star(weights - eigenvalue)[:, found.cycle[0]]
    np.testing.assert_array_equal(maxplus.matmul(weights, vector), vector + eigenvalue)


def test_the_mean_of_a_scaled_matrix_scales():
    rng = np.random.default_rng(7)
    weights = rng.normal(size=(30, 30))
    found = maximum_cycle_mean(weights)
    assert maximum_cycle_mean(weights * 2.0**-900).mean == found.mean / 2**900
    assert maximum_cycle_mean(weights.T).mean == found.mean


def test_means_that_floats_cannot_tell_apart_are_told_apart():
    weights = np.full((4, 4), -np.inf)
    weights[0, 1], weights[1, 0] = 1.0, 1.0
    weights[2, 3], weights[3, 2] = 1.0 + 2.0**-52, 1.0 - 2.0**-53
    found = maximum_cycle_mean(weights)
    assert found.cycle == (2, 3)
    assert found.mean == 1 + Fraction(1, 2**54)


def test_a_mean_between_two_floats_is_subtracted_exactly():
    """Means 2**53 + 6/5 and 2**53 + 4/3, where floats are 2 apart: the filter must know."""
    weights = np.full((8, 8), -np.inf)
    for nodes, offsets in (((0, 1, 2, 3, 4), (2, 2, 2, 0, 0)), ((5, 6, 7), (2, 2, 0))):
        weights[nodes, np.roll(nodes, -1)] = 2.0**53 + np.array(offsets)
    found = maximum_cycle_mean(weights)
    assert found.cycle == (5, 6, 7)
    assert found.mean == 2**53 + Fraction(4, 3)


@pytest.mark.parametrize(
    ("weights", "error"),
    [
        ([[1.0, 2.0]], ShapeMismatchError),
        ([[np.inf]], NonFiniteError),
        ([[np.nan]], NonFiniteError),
    ],
)
def test_bad_input_is_refused_by_name(weights, error):
    with pytest.raises(error, match="`weights`"):
        maximum_cycle_mean(weights)
