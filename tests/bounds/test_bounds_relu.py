"""ReLU and maxout networks: the bounds against each other and against exact counts."""

import itertools
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax import bounds
from hardmax.bounds.relu import cut_by_units, regions_with_few_inactive
from hardmax.errors import HardmaxError, SizeLimitError
from hardmax.geometry.domains import Box
from hardmax.models.networks import ReluNetwork
from hardmax.regions.engines import enumerate_regions
from tests.reference.bounds import (
    cut_by_relu,
    cut_interval,
    identity_stream,
    maxout_zigzag,
    random_network,
    relu_patterns,
    serra_by_enumeration,
    square,
)
from tests.sweeps import examples

NETWORKS = st.tuples(st.integers(1, 4), st.lists(st.integers(1, 6), min_size=1, max_size=4))


@given(NETWORKS)
def test_serras_sum_over_the_index_set_is_what_is_computed(network):
    assert bounds.serra(*network) == serra_by_enumeration(*network)


def test_the_example_of_two_layers_of_three_has_at_most_40_regions():
    assert bounds.montufar_2017(2, [3, 3]) == 49
    assert bounds.serra(2, [3, 3]) == 1 * 7 + 3 * 7 + 3 * 4 == 40


@given(NETWORKS)
def test_the_histogram_framework_contains_the_other_bounds_and_is_sharpest(network):
    by_recursion = {
        recursion: bounds.hinz_van_de_geer(*network, recursion=recursion)
        for recursion in ("montufar", "serra", "histograms")
    }
    assert by_recursion["montufar"] == bounds.montufar_2017(*network)
    assert by_recursion["serra"] == bounds.serra(*network)
    assert by_recursion["histograms"] <= bounds.serra(*network) <= bounds.montufar_2017(*network)


@given(NETWORKS)
def test_lower_bounds_stay_below_upper_bounds(network):
    n_0, widths = network
    if min(widths[:-1], default=n_0) >= n_0:
        assert bounds.montufar_2014(*network) <= bounds.hinz_van_de_geer(*network)
    for rank in (1, 2, 3):
        assert bounds.maxout_lower(*network, rank) <= bounds.maxout_upper(*network, rank)
    assert bounds.maxout_upper(*network, 2) == bounds.montufar_2017(*network)


@given(st.integers(1, 9), st.integers(1, 9))
def test_one_layer_is_an_arrangement(n_0, width):
    expected = bounds.zaslavsky(width, n_0)
    assert bounds.serra(n_0, [width]) == bounds.hinz_van_de_geer(n_0, [width]) == expected
    assert bounds.montufar_2014(n_0, [width]) == bounds.montufar_2017(n_0, [width]) == expected


@pytest.mark.parametrize("widths", [(3, 3), (4, 3), (2, 4), (1, 5), (4, 2, 2)])
def test_no_random_network_in_the_plane_has_more_regions(widths):
    rng = np.random.default_rng(sum(widths))
    most = 0
    for _ in range(6):
        patterns = relu_patterns(*random_network(rng, (2, *widths)), half_width=10**6)
        assert len(patterns) == len(set(patterns))
        most = max(most, len(patterns))
    assert most >= 7 or widths[0] < 3
    assert most <= bounds.hinz_van_de_geer(2, widths)


def test_one_layer_in_general_position_attains_zaslavsky_in_the_plane():
    weights, biases = random_network(np.random.default_rng(1), (2, 6), scale=100)
    assert len(relu_patterns(weights, biases, 10**9)) == bounds.serra(2, [6]) == 22


@examples(25)
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_no_arrangement_has_more_regions_with_few_inactive_units(seed, width):
    rng = np.random.default_rng(seed)
    (weight,), (bias,) = random_network(rng, (2, width), scale=int(rng.integers(1, 40)))
    pieces = cut_by_relu(square(10**6), identity_stream(), weight, bias)
    inactive = [bits.count(0) for _, bits, _ in pieces]
    most = regions_with_few_inactive(width, 2)
    assert all(sum(i <= t for i in inactive) <= most[t] for t in range(width + 1))


@given(st.lists(st.tuples(st.sampled_from([-1, 1]), st.integers(-5, 5)), min_size=1, max_size=7))
def test_a_line_has_at_most_2t_plus_1_intervals_with_t_inactive_units(units):
    groups = [[((0,), 0), ((a,), c)] for a, c in units]
    pieces = cut_interval(-100, 100, [(1, 0)], groups)
    inactive = [winners.count(0) for *_, winners in pieces]
    most = regions_with_few_inactive(len(units), 1)
    assert all(sum(i <= t for i in inactive) <= most[t] for t in range(len(units) + 1))


@pytest.mark.parametrize(("n_plus", "n_minus"), [(2, 2), (3, 2), (1, 4)])
def test_the_histogram_on_a_line_is_attained(n_plus, n_minus):
    # All units are active between -1 and 1 and switch off one after the other outside.
    units = [[((0,), 0), ((1,), i)] for i in range(1, n_plus + 1)]
    units += [[((0,), 0), ((-1,), i)] for i in range(1, n_minus + 1)]
    inactive = [w.count(0) for *_, w in cut_interval(-100, 100, [(1, 0)], units)]
    n, balanced = n_plus + n_minus, min(n_plus, n_minus)
    most = regions_with_few_inactive(n, 1)
    counts = [sum(i <= t for i in inactive) for t in range(n + 1)]
    assert counts[: balanced + 1] == list(most[: balanced + 1])
    assert counts[n] == most[n] == n + 1


@given(st.integers(1, 8), st.integers(1, 8))
def test_a_layer_cuts_a_region_into_all_its_cells(dim, width):
    histogram = cut_by_units({dim: 1}, width)
    assert sum(histogram.values()) == bounds.zaslavsky(width, dim)
    assert max(histogram) == min(dim, width)


def test_real_sizes_are_exact():
    assert bounds.serra(512, [2048] * 12) == bounds.zaslavsky(2048, 512) ** 12
    narrow = bounds.serra(64, [64] * 12)
    assert narrow < bounds.montufar_2017(64, [64] * 12)


@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize("n_units", [1, 2, 3, 4])
@pytest.mark.parametrize("depth", [1, 2])
def test_the_maxout_lower_bound_is_counted_exactly_on_a_line(n_units, rank, depth):
    pieces = maxout_zigzag(n_units, rank, depth, last_width=2)
    assert len(pieces) == bounds.maxout_lower(1, [n_units] * depth + [2], rank)


def test_the_zigzag_of_pairs_has_an_odd_number_of_pieces_to_the_depth():
    # Pairs of rank rho fold 2 rho - 1 times.
    for rho, depth, count in [(2, 3, 27), (3, 2, 25), (3, 3, 125), (4, 3, 343)]:
        assert bounds.maxout_lower(1, [2] * (depth - 1) + [2], rho) == count


@given(st.integers(1, 4), st.lists(st.integers(1, 6), min_size=1, max_size=3), st.integers(2, 5))
def test_the_maxout_lower_bound_never_falls_when_a_size_grows(input_dim, widths, rank):
    here = bounds.maxout_lower(input_dim, widths, rank)
    assert here <= bounds.maxout_lower(input_dim + 1, widths, rank)
    assert here <= bounds.maxout_lower(input_dim, widths, rank + 1)
    for i in range(len(widths)):
        wider = [width + (i == j) for j, width in enumerate(widths)]
        assert here <= bounds.maxout_lower(input_dim, wider, rank)


def regions_behind_one_unit(values, rises):
    """Count the linear regions of relu(g) on the line, for g with these values at its kinks.

    `rises` says whether g tends to minus infinity (0) or to infinity (1) at each end.
    """
    signs = [bool(rises[0]), *(value > 0 for value in values), bool(rises[1])]
    zeros = sum(a != b for a, b in itertools.pairwise(signs))
    return 1 + zeros + sum(signs[1:-1])


def test_folds_count_cells_and_one_unit_behind_them_has_fewer_regions():
    for n_units in (1, 2, 5, 6, 9):
        most = max(
            regions_behind_one_unit(values, rises)
            for values in itertools.product((-1, 1), repeat=n_units)
            for rises in itertools.product((0, 1), repeat=2)
        )
        claimed = bounds.montufar_2014(1, [n_units, 1])
        assert claimed == 2 * n_units <= bounds.two_relu_layers(1, n_units, 1)
        assert (most < claimed) == (n_units >= 6)


def test_folds_count_regions_if_the_last_layer_has_more_units_than_inputs():
    # Three copies of [0, 1], each cut at 1/4 and 3/4; one of the last two units is always active.
    first = np.array([[3.0, 6.0, 6.0]]), np.array([0.0, -2.0, -4.0])
    zigzag = np.array([[1.0], [-1.0], [1.0]])
    last = zigzag @ np.array([[1.0, -1.0]]), np.array([-0.25, 0.75])
    out = np.array([[1.0], [-3.0]]), np.zeros(1)
    network = ReluNetwork([first[0], last[0], out[0]], [first[1], last[1], out[1]])
    part = enumerate_regions(network, Box([0], [1]))
    assert part.n_cells == part.n_regions == bounds.montufar_2014(1, [3, 2]) == 9


def test_affine_layers_neither_help_nor_hurt_unless_they_are_narrow():
    assert bounds.maxout_lower(2, [4, 4], [3, 1]) == bounds.maxout_lower(2, [4], 3)
    assert bounds.maxout_lower(2, [2, 4], [1, 3]) == bounds.maxout_lower(2, [4], 3)
    assert bounds.maxout_lower(2, [1, 4], [1, 3]) == bounds.maxout_lower(1, [4], 3)
    assert bounds.maxout_upper(5, [3, 2], 1) == bounds.maxout_lower(5, [3, 2], 1) == 1


@pytest.mark.parametrize("ranks", [2, 3])
def test_one_maxout_layer_is_an_attention_layer(ranks):
    for n_0 in (1, 2, 5):
        expected = bounds.cells_with_bias(ranks, 4, n_0)
        assert (
            bounds.maxout_upper(n_0, [4], ranks) == bounds.maxout_lower(n_0, [4], ranks) == expected
        )


@pytest.mark.parametrize(
    "function",
    [
        bounds.serra,
        bounds.montufar_2014,
        bounds.montufar_2017,
        bounds.hinz_van_de_geer,
        bounds.relu_table,
        lambda n, w: bounds.maxout_upper(n, w, 2),
        lambda n, w: bounds.maxout_lower(n, w, 2),
    ],
)
@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, [3]), "`input_dim`"),
        ((2.0, [3]), "`input_dim`"),
        ((2, []), "`widths`"),
        ((2, [3, 0]), r"`widths\[1\]`"),
        ((2, [3, -1]), r"`widths\[1\]`"),
        ((2, [3.5]), r"`widths\[0\]`"),
        ((2, 3), "`widths`"),
    ],
)
def test_bad_shapes_are_refused_by_name(function, arguments, name):
    with pytest.raises(HardmaxError, match=name):
        function(*arguments)


def test_bad_options_are_refused_by_name():
    with pytest.raises(HardmaxError, match="`recursion`"):
        bounds.hinz_van_de_geer(2, [3], recursion="best")
    with pytest.raises(HardmaxError, match=r"`widths\[0\]`.*fold"):
        bounds.montufar_2014(4, [3, 9])
    with pytest.raises(HardmaxError, match="`ranks`"):
        bounds.maxout_upper(2, [3, 3], [2])
    with pytest.raises(HardmaxError, match="`ranks`"):
        bounds.maxout_lower(2, [3, 3], 0)
    with pytest.raises(SizeLimitError, match="`widths`"):
        bounds.hinz_van_de_geer(512, [2048])


def test_every_input_on_a_line_gives_the_full_product():
    widths = [3, 5, 4]
    assert bounds.serra(1, widths) == prod(w + 1 for w in widths)
