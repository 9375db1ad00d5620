"""The power distance, against its definition in fractions and against the exact diagram."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.errors import ArgumentError, NonFiniteError, ShapeMismatchError
from tests.strategies import matrices

ENTRIES = st.floats(-1e100, 1e100, allow_subnormal=True)


@given(st.data(), st.integers(1, 3))
def test_distances_are_within_their_bound_of_the_definition(data, dim):
    points = data.draw(matrices(st.integers(0, 3), dim, ENTRIES))
    sites = data.draw(matrices(st.integers(1, 3), dim, ENTRIES))
    weights = data.draw(matrices(1, len(sites), ENTRIES))[0]
    got = hm.tropical.power_distance(points, sites, weights)
    assert got.shape == (len(points), len(sites))
    for i, x in enumerate(points.tolist()):
        for j, (s, w) in enumerate(zip(sites.tolist(), weights.tolist(), strict=True)):
            square = sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(x, s, strict=True))
            bound = Fraction(dim + 4, 2**53) * (square + abs(Fraction(w))) + Fraction(dim, 2**1074)
            assert abs(Fraction(float(got[i, j])) - (square - Fraction(w))) <= bound
        np.testing.assert_array_equal(hm.tropical.power_distance(x, sites, weights), got[i])


def test_the_nearest_site_owns_the_cell():
    rng = np.random.default_rng(0)
    sites, weights = rng.normal(size=(9, 3)), rng.normal(size=9)
    points = rng.normal(size=(500, 3))
    nearest = hm.tropical.power_distance(points, sites, weights).argmin(axis=1)
    np.testing.assert_array_equal(nearest, hm.PowerDiagram(sites, weights).locate(points))


def test_without_weights_it_is_the_squared_distance():
    assert hm.tropical.power_distance([3.0, 4.0], [[0.0, 0.0]]).tolist() == [25.0]


def test_many_points_are_taken_in_blocks():
    points = np.arange(3000.0)[:, None]
    sites = np.arange(500.0)[:, None]
    expected = (points - sites.T) ** 2
    np.testing.assert_array_equal(hm.tropical.power_distance(points, sites), expected)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (([[0.0]], [[0.0, 0.0]]), ShapeMismatchError, "`x` must have shape"),
        (([0.0], [[0.0]], [0.0, 1.0]), ShapeMismatchError, "`weights`"),
        (([0.0], [[0.0]], [np.inf]), NonFiniteError, "`weights`"),
        (([1e200], [[-1e200]]), ArgumentError, "exceeds the range of float64"),
        (([1.7e308], [[-1.7e308]]), ArgumentError, "exceeds the range of float64"),
    ],
)
def test_what_has_no_distance_is_refused(arguments, error, match):
    with pytest.raises(error, match=match):
        hm.tropical.power_distance(*arguments)


def test_a_masked_site_is_infinitely_far():
    assert hm.tropical.power_distance([1e200], [[0.0]], [-np.inf]).tolist() == [np.inf]
