"""Two layers of ReLU units: no network exceeds the bound, and the extremal one attains it."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax import bounds
from hardmax.bounds import hinz_van_de_geer, is_largest, serra, two_relu_layers
from hardmax.constructions import extremal_relu_network
from hardmax.errors import HardmaxError
from hardmax.geometry.domains import WholeSpace
from hardmax.models.networks import ReluNetwork
from hardmax.regions.engines import enumerate_regions
from hardmax.verify.checking import verify_certificate
from tests.sweeps import examples

TRIANGLE = np.array([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]]), np.array([0.0, 0.0, 1.0])
"""The forms x, y, 1 - x - y: three lines in general position are these, up to signs."""

SETTLED = [
    *((1, n_1, n_2) for n_1 in range(1, 7) for n_2 in range(1, 5)),
    *((n_0, n_1, n_2) for n_0 in (2, 3) for n_1 in (1, 2, 3) for n_2 in range(1, 6)),
]


def two_layers(first, offsets, second, biases):
    n = len(biases)
    return ReluNetwork([first, second, np.eye(n)], [offsets, biases, np.zeros(n)])


def count(network):
    return enumerate_regions(network, WholeSpace(network.dim_in), count_only=True).n_cells


# The numbers


def test_two_layers_of_three_units_on_the_plane_have_at_most_34_cells():
    assert two_relu_layers(2, 3, 3) == 34
    rows = bounds.relu_table(2, [3, 3])
    assert [row.value for row in rows if row.kind == "exact"] == [34]
    assert min(row.value for row in rows if row.kind in ("exact", "upper")) == 34


@pytest.mark.parametrize("second", [1, 2, 3, 4, 7, 100, 5000])
def test_the_table_of_largest_numbers(second):
    pairs, triples = comb(second, 2), comb(second, 3)
    assert {two_relu_layers(n, 1, second) for n in (1, 2, 3, 9)} == {2 + second}
    assert two_relu_layers(1, 2, second) == 3 + 2 * second
    assert {two_relu_layers(n, 2, second) for n in (2, 3, 9)} == {4 + 3 * second + pairs}
    assert two_relu_layers(2, 3, second) == 7 + 6 * second + 3 * pairs
    assert two_relu_layers(3, 3, second) == 8 + 7 * second + 3 * pairs + triples
    assert two_relu_layers(8, 3, second) == two_relu_layers(3, 3, second)
    for first in range(3, 9):
        assert two_relu_layers(1, first, second) == (first + 1) * (second + 1)


def test_the_bound_is_never_above_those_of_the_literature():
    for shape in product(range(1, 6), range(1, 8), range(1, 6)):
        n_0, *widths = shape
        assert two_relu_layers(*shape) <= hinz_van_de_geer(n_0, widths) <= serra(n_0, widths)
    assert two_relu_layers(2, 4, 3) == 71 < hinz_van_de_geer(2, [4, 3])
    assert two_relu_layers(50, 2000, 9) == serra(50, [2000, 9])
    assert two_relu_layers(1, 2000, 9) == 2001 * 10
    assert two_relu_layers(2, 4, 5000) < serra(2, [4, 5000])


def test_a_wider_layer_and_more_inputs_never_have_fewer_cells():
    for n_0, n_1, n_2 in product(range(1, 5), range(1, 6), range(1, 5)):
        here = two_relu_layers(n_0, n_1, n_2)
        assert here <= two_relu_layers(n_0 + 1, n_1, n_2)
        assert here <= two_relu_layers(n_0, n_1 + 1, n_2)
        assert here < two_relu_layers(n_0, n_1, n_2 + 1)


# Attained


@pytest.mark.parametrize("shape", SETTLED, ids=str)
def test_the_extremal_network_attains_the_bound(shape):
    network = extremal_relu_network(*shape)
    assert [network.dim_in, *network.widths] == list(shape)
    part = enumerate_regions(network, WholeSpace(shape[0]))
    assert part.n_cells == two_relu_layers(*shape)
    n_0, n_1, n_2 = shape
    if (n_1 < 3 and (n_1 == 1 or n_0 == 1)) or (n_2 >= 3 and (n_0 < 3 or n_1 < 3)):
        assert part.n_regions == part.n_cells


def test_the_network_with_34_regions_is_certified():
    network = extremal_relu_network(2, 3, 3)
    certificate = enumerate_regions(network, WholeSpace(2)).certificate()
    assert verify_certificate(network, certificate).ok
    assert all((weight == weight.round()).all() for weight in network.weights)


def test_inputs_beyond_the_third_change_nothing():
    assert (extremal_relu_network(7, 3, 2).weights[0][3:] == 0).all()
    wide = extremal_relu_network(2, 3, 40)
    assert count(wide) == two_relu_layers(2, 3, 40) == 7 + 240 + 3 * 780


FOUND = {
    22: ([[0, 4, 9, -3], [-7, 7, 7, 6]], [4, 2, 0, -3], [[1], [2], [-1], [1]], [-8]),
    36: (
        [[-9, 3, 5, 4], [0, -9, -4, 9]],
        [1, -7, 1, -7],
        [[-1, 3], [9, -6], [-4, 3], [-7, 2]],
        [9, -9],
    ),
    54: (
        [[19, -2, 3, 5], [-4, 12, -20, -7]],
        [15, -6, -12, 13],
        [[11, 18, -4], [-2, -1, 8], [-6, -18, 18], [-4, -5, 1]],
        [14, 8, -5],
    ),
}
"""Networks with four units in the first layer that a search found, by their numbers of cells."""


@pytest.mark.parametrize("cells", FOUND)
def test_four_units_in_the_first_layer_leave_a_gap_unless_the_second_has_one(cells):
    network = two_layers(*(np.array(part, float) for part in FOUND[cells]))
    assert count(network) == cells
    most = two_relu_layers(2, 4, network.widths[1])
    assert cells <= most == {22: 22, 36: 42, 54: 71}[cells]


# No network has more


@pytest.mark.parametrize(
    "shape", [(1, 2, 3), (1, 3, 2), (2, 2, 3), (2, 3, 1), (2, 3, 3), (2, 4, 3)]
)
def test_random_networks_keep_the_bound(shape):
    n_0, n_1, n_2 = shape
    rng = np.random.default_rng(n_0 + 10 * n_1 + 100 * n_2)
    most = 0
    for _ in range(150):
        sizes = (n_0, n_1), n_1, (n_1, n_2), n_2
        most = max(most, count(two_layers(*(rng.normal(size=size) for size in sizes))))
    assert most <= two_relu_layers(*shape)


@pytest.mark.parametrize("signs", list(product((1.0, -1.0), repeat=3)), ids=str)
def test_steps_from_the_extremal_network_keep_the_bound(signs):
    """Small integers make many degenerate networks: parallel lines, lines through one point."""
    rng = np.random.default_rng(5)
    forms, offsets = (part * signs for part in TRIANGLE)
    for _ in range(40):
        second, biases = rng.integers(-3, 4, size=(3, 3)), rng.integers(-3, 4, size=3)
        assert count(two_layers(forms, offsets, second * 1.0, biases * 1.0)) <= 34
        first = rng.integers(-1, 2, size=(2, 3)) * 1.0
        other = rng.integers(-1, 2, size=3) * 1.0
        assert count(two_layers(first, other, second * 1.0, biases * 1.0)) <= 34


# The steps of the proof, each by itself


def crossed(forms, offsets, weights, bias):
    """Return the patterns of the first layer's cells that one unit of the second crosses."""
    network = two_layers(forms, offsets, np.reshape(weights, (-1, 1)), [bias])
    signatures = enumerate_regions(network, WholeSpace(len(forms))).signatures
    patterns = Counter(tuple(row) for row in signatures[:, : len(weights)].tolist())
    return {pattern for pattern, pieces in patterns.items() if pieces == 2}


@examples(50)
@given(
    st.tuples(*[st.sampled_from([-1.0, 1.0])] * 3),
    st.lists(st.integers(-6, 6), min_size=3, max_size=3),
    st.integers(-6, 6),
)
def test_a_unit_crosses_at_most_six_of_the_seven_cells(signs, weights, bias):
    forms, offsets = (part * signs for part in TRIANGLE)
    cells = crossed(forms, offsets, np.array(weights, float), float(bias))
    assert len(cells) <= 6
    assert (0, 0, 0) not in cells


@examples(40)
@given(st.lists(st.integers(-6, 6), min_size=3, max_size=3), st.integers(-6, 6))
def test_a_unit_that_crosses_behind_all_corners_does_not_cross_the_triangle(values, at_zero):
    weights = np.array([v - at_zero for v in values], float)
    cells = crossed(*TRIANGLE, weights, float(at_zero))
    corners = [
        v for v, unit in zip(values, np.eye(3, dtype=int), strict=True) if tuple(unit) in cells
    ]
    assert len(corners) == sum(min(0, at_zero) < v < max(0, at_zero) for v in values)
    assert not (len(corners) == 3 and (1, 1, 1) in cells)


@examples(40)
@given(
    st.lists(st.integers(-4, 4), min_size=4, max_size=4),
    st.lists(st.integers(-4, 4), min_size=2, max_size=2),
    st.integers(-6, 6),
)
def test_a_unit_on_a_line_crosses_two_of_three_cells(forms, weights, bias):
    slopes, offsets = np.array([forms[:2]], float), np.array(forms[2:], float)
    assert len(crossed(slopes, offsets, np.array(weights, float), float(bias))) <= 2


def crossings(forms, units):
    """Count, in fractions, the cells in which two units have one common zero, by their patterns."""
    found = set()
    for active in product((False, True), repeat=len(forms)):
        rows = []
        for *weights, bias in units:
            used = [(w, form) for w, form, on in zip(weights, forms, active, strict=True) if on]
            rows.append(
                [sum(w * f[i] for w, f in used) for i in (0, 1)]
                + [bias + sum(w * f[2] for w, f in used)]
            )
        (a, b, e), (c, d, f) = rows
        determinant = a * d - b * c
        if determinant:
            x, y = Fraction(b * f - d * e, determinant), Fraction(c * e - a * f, determinant)
            values = [p * x + q * y + r for p, q, r in forms]
            if all(
                (value > 0) == on and value != 0 for value, on in zip(values, active, strict=True)
            ):
                found.add(active)
    return found


@examples(120)
@given(st.data(), st.sampled_from([2, 3, 4]))
def test_two_units_cross_no_more_cells_than_pairs_of_sides_allow(data, n_units):
    numbers = st.integers(-5, 5)
    forms = data.draw(st.lists(st.tuples(*[numbers] * 3), min_size=n_units, max_size=n_units))
    units = data.draw(st.lists(st.tuples(*[numbers] * (n_units + 1)), min_size=2, max_size=2))
    most = {2: 1, 3: 3, 4: 9}[n_units]
    found = crossings(forms, units)
    assert len(found) <= most
    pairs = [active for active in found if sum(active) == 2]
    assert len(pairs) <= n_units**2 // 4


def test_every_pair_of_the_extremal_network_crosses_three_times():
    network = extremal_relu_network(2, 3, 5)
    forms = np.vstack([network.weights[0], network.biases[0]]).T.astype(int).tolist()
    units = np.vstack([network.weights[1], network.biases[1]]).T.astype(int).tolist()
    assert {len(crossings(forms, pair)) for pair in combinations(units, 2)} == {3}


# Bad input


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: two_relu_layers(0, 3, 3), "`input_dim`"),
        (lambda: two_relu_layers(2, 0, 3), "`first`"),
        (lambda: two_relu_layers(2, 3, 1.5), "`second`"),
        (lambda: is_largest(2, -1), "`first`"),
        (lambda: is_largest(1, -1), "`first`"),
        (lambda: extremal_relu_network(2, 4, 3), "`first` must be at most 3"),
        (lambda: extremal_relu_network(2, 3, 10**6), "`second`"),
        (lambda: bounds.relu_table(2, 3), "`widths`"),
    ],
)
def test_bad_sizes_are_refused_by_name(call, name):
    with pytest.raises(HardmaxError, match=name):
        call()
