"""Distances to walls at all magnitudes of weights, against fractions."""

import warnings
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import hardmax as hm
from tests.magnitudes import IDS, MAGNITUDES, wild_numbers


def exact_squares(net, x):
    """Squares of the distances to the walls of units and of the decision, by definition."""
    forms = [[Fraction(int(i == k)) for k in range(len(x))] + [Fraction(0)] for i in range(len(x))]
    units = []
    for i, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
        forms = [
            [
                sum((Fraction(w) * form[k] for w, form in zip(column, forms, strict=True)), off)
                for k, off in enumerate([Fraction(0)] * len(x) + [Fraction(b)])
            ]
            for column, b in zip(weight.T.tolist(), bias.tolist(), strict=True)
        ]
        if i < len(net.weights) - 1:
            units += forms
            forms = [f if value_of(f, x) > 0 else [Fraction(0)] * len(f) for f in forms]
    best = max(forms, key=lambda f: value_of(f, x))
    rivals = [[a - b for a, b in zip(best, f, strict=True)] for f in forms]
    return square_of(units, x), square_of(rivals, x)


def value_of(form, x):
    return sum((a * Fraction(t) for a, t in zip(form, x, strict=False)), form[-1])


def square_of(forms, x):
    steep = [(value_of(f, x) ** 2, sum(a * a for a in f[:-1])) for f in forms]
    return min((value / norm for value, norm in steep if norm), default=None)


def assert_encloses(wall, square):
    if square is None:
        assert wall is None
        return
    assert np.isfinite(wall.low)
    assert 0.0 <= wall.low <= wall.distance <= wall.high
    assert Fraction(wall.low) ** 2 <= square
    # Narrow wherever floats can tell.
    assert wall.high <= wall.low * (1.0 + 2.0**-15) + 2.0**-1072 or wall.high == np.inf
    assert wall.high == np.inf or square <= Fraction(wall.high) ** 2
    assert wall.high < np.inf or square > Fraction(np.finfo(float).max) ** 2


@pytest.mark.parametrize("w", [1e-160, 1e-161, 1e-200, 1e155, *MAGNITUDES])
def test_a_unit_with_one_weight_has_its_wall_at_zero(w):
    cell = hm.cell_at(hm.ReluNetwork([[[w]], [[1.0]]]), [1.0])
    assert 0.9999 < cell.certified_radius <= 1.0 <= cell.radius_upper_bound < 1.0001
    assert cell.weight.tolist() == [[w]]


@pytest.mark.parametrize("magnitude", MAGNITUDES, ids=IDS)
@pytest.mark.parametrize("seed", range(12))
def test_distances_enclose_those_of_fractions(magnitude, seed):
    rng = np.random.default_rng([7, seed])
    dims = [(1, 2, 1), (2, 3, 2), (3, 4, 3, 2), (2, 3, 3, 3, 1)][seed % 4]
    weights = [wild_numbers(rng, shape, magnitude) for shape in pairwise(dims)]
    biases = [wild_numbers(rng, n, magnitude) for n in dims[1:]]
    net = hm.ReluNetwork(weights, biases)
    x = wild_numbers(rng, dims[0], rng.choice([magnitude, 1.0])).tolist()
    cell = hm.cell_at(net, x)
    units, rivals = exact_squares(net, x)
    assert_encloses(cell.wall, units)
    if dims[-1] > 1:
        assert_encloses(cell.decision, rivals)
    squares = [s for s in (units, rivals) if s is not None]
    radius = cell.certified_radius
    assert squares == [] if radius == np.inf else Fraction(radius) ** 2 <= min(squares)
    assert not np.isnan(cell.weight).any()
    assert not np.isnan(cell.errors).any()


def test_a_wall_beyond_all_floats_is_a_wall():
    cell = hm.cell_at(hm.ReluNetwork([[[5e-324]], [[1.0]]], [[1.0], None]), [0.0])
    assert cell.wall.high == np.inf
    assert cell.certified_radius == np.finfo(float).max
    assert "beyond 1.798e+308" in repr(cell)
    with pytest.raises(hm.errors.ArgumentError, match="float64"):
        _ = cell.beyond


def test_a_gradient_that_cancels_exactly_makes_no_wall():
    net = hm.ReluNetwork([[[1.0, -1.0]], [[1e300], [1e300]], [[1.0]]], [[2.0, 2.0], [1.0], None])
    cell = hm.cell_at(net, [0.5])
    assert cell.wall.layer == "layer 0"
    assert cell.wall.low <= 1.5 <= cell.wall.high


def test_the_distance_is_right_next_to_a_wall():
    net = hm.ReluNetwork([[[0.1], [0.2], [0.3]], [[1.0]]], [[-0.6], None])
    x = [1.0, 1.0, 1.0 + 2.0**-51]
    units, _ = exact_squares(net, x)
    wall = hm.cell_at(net, x).wall
    assert_encloses(wall, units)


def test_nothing_warns_where_everything_overflows():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        big = [[1.7e308, -1.7e308], [1.7e308, 1.7e308]]
        cell = hm.cell_at(hm.ReluNetwork([big, big, big], [[1e308, 1e308]] * 3), [1e308, 1.0])
    assert not np.isnan(cell.certified_radius)


@pytest.mark.parametrize("step", [*MAGNITUDES, 1.0])
@pytest.mark.parametrize("weight", [*MAGNITUDES, 1.0])
def test_the_first_wall_along_a_direction_is_enclosed(weight, step):
    cell_of = hm.ReluNetwork([[[weight]], [[1.0]]])
    for x in (2.0**-1074, 2.0**-540, 1.0, 2.0**511, 2.0**1023):
        hit = hm.cell_at(cell_of, [x]).along([-step], 2.0**1022)
        wanted = Fraction(x) / Fraction(step)
        if wanted >= 2**1022:
            assert hit is None
        else:
            assert Fraction(hit.low) <= wanted
            assert hit.high == np.inf or wanted <= Fraction(hit.high)
            assert not np.isnan(hit.distance)


def test_a_search_beyond_the_largest_power_of_two_is_refused():
    cell = hm.cell_at(hm.ReluNetwork([[[1.0]], [[1.0]]]), [1.0])
    with pytest.raises(hm.errors.ArgumentError, match="2\\^1023"):
        cell.along([-1.0], 1e308)


def test_the_direction_to_a_wall_survives_products_that_overflow_on_the_way():
    # From the first layer on 1e-200, 1 and 1e200; from the last one on 1e400 first.
    net = hm.ReluNetwork(
        [[[1e-200]], [[1e200]], [[1e200]], [[1.0]]], [[0.0], [1e-3], [-1e200], None]
    )
    cell = hm.cell_at(net, [1.0])
    assert cell.wall.layer == "layer 2"
    assert cell.wall.low <= 1e-3 * (1 + 1e-9)
    assert cell.beyond.point[0] < 1.0
