"""Lines through ReLU networks: the carried rows against the all-integer search."""

import pickle
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax._core.memory import MemoryBlock
from hardmax.geometry.domains import Line, Ray, Segment
from hardmax.models._arithmetic.normed_maps import NormedMap, is_relu_network
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.regions._lines import rectified_lines
from hardmax.regions._lines.lines import explore
from hardmax.regions._lines.packed_layers import PackedLayers
from hardmax.regions.cell_arrays import CellArrays
from hardmax.regions.engines import enumerate_regions
from tests.sweeps import examples

KINDS = ("generic", "no biases", "integers", "scales")


def random_network(rng, sizes, kind):
    weights, biases = [], []
    for n_in, n_out in pairwise(sizes):
        if kind == "integers":
            weights.append(rng.integers(-2, 3, (n_in, n_out)).astype(float))
            biases.append(rng.integers(-2, 3, n_out).astype(float))
            continue
        weights.append(rng.normal(0, np.sqrt(2 / n_in), (n_in, n_out)))
        biases.append(rng.normal(0, 0.5, n_out) * (kind != "no biases"))
        if kind == "scales":
            weights[-1] *= 10.0 ** rng.integers(-120, 121, n_out)
            biases[-1] *= 10.0 ** rng.integers(-120, 121, n_out)
    return ReluNetwork(weights, biases)


def random_line(rng, dim, kind):
    if kind == "integers":
        start, way = rng.integers(-3, 4, (2, dim)).astype(float)
        way[0] += not way.any()
    else:
        start, way = 3.0 * rng.normal(size=(2, dim))
    shape = rng.integers(3)
    return (Segment(start, start + way), Line(start, way), Ray(start, way))[shape]


def random_case(seed):
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    dim, depth = rng.integers(1, 5), rng.integers(1, 6)
    sizes = [dim, *rng.integers(1, 9, depth), rng.integers(1, 3)]
    return random_network(rng, sizes, kind), random_line(rng, dim, kind)


def exact_search(net, line):
    return explore(net.network, line, exact=True)


@examples(60)
@given(st.integers(0, 10**6))
def test_cells_and_breakpoints_are_those_of_the_integer_search(seed):
    net, line = random_case(seed)
    ours, integers = explore(net.network, line), exact_search(net, line)
    np.testing.assert_array_equal(ours.signatures, integers.signatures)
    assert ours.breakpoints.tolist() == integers.breakpoints.tolist()
    assert explore(net.network, line, count_only=True).arrays.n_counted == len(integers)


@examples(40)
@given(st.integers(0, 10**6))
def test_the_maps_are_within_their_radii(seed):
    net, line = random_case(seed)
    ours, integers = explore(net.network, line).arrays, exact_search(net, line).arrays
    gap = np.abs(ours.maps - integers.maps)
    assert (gap <= ours.map_radii + integers.map_radii).all()


def test_the_errors_of_one_layer_reach_the_next():
    """Large weights that cancel: what the first layer rounds is far above the next one's own."""
    rng = np.random.default_rng(6)
    ends = rng.normal(size=(2, 40))
    along, _ = np.linalg.qr(ends.T)
    wild = 1e6 * rng.normal(size=(40, 3))
    weight = wild - along @ (along.T @ wild) + along @ rng.normal(size=(2, 3))
    net = ReluNetwork([weight, rng.normal(size=(3, 3)), rng.normal(size=(3, 1))], None)
    ours = explore(net.network, Segment(*ends))
    integers = exact_search(net, Segment(*ends))
    gap = np.abs(ours.arrays.maps - integers.arrays.maps)
    assert ours.arrays.decisions.rational == 0
    assert gap.max() > 1e-13
    assert (gap <= ours.arrays.map_radii + integers.arrays.map_radii).all()


@pytest.mark.parametrize("n_at_once", [1, 40, 100])
def test_parts_may_be_carried_few_at_a_time(monkeypatch, n_at_once):
    """Searches that pause, find the next layer crowded or lack memory go on where they were."""
    monkeypatch.setattr(rectified_lines, "_ENTRIES_AT_ONCE", n_at_once)
    monkeypatch.setattr(PackedLayers, "lent_memory", lambda _: MemoryBlock(256))
    rng = np.random.default_rng(3)
    net = random_network(rng, [3, 12, 9, 7, 2], "generic")
    line = Line(rng.normal(size=3), rng.normal(size=3))
    ours, integers = explore(net.network, line), exact_search(net, line)
    np.testing.assert_array_equal(ours.signatures, integers.signatures)
    assert (
        np.abs(ours.arrays.maps - integers.arrays.maps)
        <= ours.arrays.map_radii + integers.arrays.map_radii
    ).all()


def test_maps_are_composed_when_they_are_asked_for():
    rng = np.random.default_rng(5)
    net = random_network(rng, [3, 8, 8, 2], "generic")
    part = enumerate_regions(net, Segment(rng.normal(size=3), 5.0 * rng.normal(size=3)))
    assert not {"maps", "map_radii"} & part.cells.__dict__.keys()
    again = pickle.loads(pickle.dumps(part.cells))
    assert type(again) is CellArrays
    assert part.affine_maps is part.cells.maps
    np.testing.assert_array_equal(again.map_radii, part.cells.map_radii)
    with pytest.raises(AttributeError, match="colours"):
        part.cells.colours


def test_several_units_may_change_at_once():
    """Three units of two layers change at 0, where a search in integers puts one breakpoint."""
    net = ReluNetwork(
        [[[1.0, -2.0, 1.0]], [[1.0, 1.0], [1.0, -1.0], [0.0, 2.0]], [[1.0], [3.0]]],
        [[0.0, 0.0, 0.5], [0.0, -1.0], [0.25]],
    )
    line = Segment([-2.0], [3.0])
    ours, integers = explore(net.network, line), exact_search(net, line)
    assert np.diff(ours.walk.starts).max() > 1
    np.testing.assert_array_equal(ours.signatures, integers.signatures)
    gap = np.abs(ours.arrays.maps - integers.arrays.maps)
    assert (gap <= ours.arrays.map_radii + integers.arrays.map_radii).all()
    assert ours.arrays.map_radii.max() < 1e-12


@pytest.mark.parametrize("kind", [Line, Ray])
def test_ends_far_out_are_known_to_all_digits(kind):
    slopes, offsets = 10.0 ** np.arange(-14.0, 4.0, 3.0), np.full(6, -1.0)
    second = np.random.default_rng(0).normal(size=(6, 5))
    net = ReluNetwork([slopes[None], second, np.ones((5, 1))], [offsets, [1e9, -2, 3, 4, 5], None])
    part = enumerate_regions(net, kind([0.0], [1.0]))
    assert part.n_cells > 7
    assert part.decisions.rational == 0
    exact = [float(t) for t in part.breakpoints]
    assert max(exact) > 1e13
    np.testing.assert_allclose(part.cells.vertices[2::2, 0], exact, rtol=1e-12)


def test_most_intervals_need_no_integers():
    rng = np.random.default_rng(0)
    net = random_network(rng, [20, 60, 60, 60, 60, 3], "generic")
    found = explore(net.network, Segment(rng.normal(size=20), 9.0 * rng.normal(size=20)))
    assert len(found) > 100
    assert found.arrays.decisions.rational == 0


def test_a_search_that_meets_a_doubt_comes_back_to_floats():
    """Two units vanish together at one point; the layers after them do not notice."""
    rng = np.random.default_rng(1)
    inner = random_network(rng, [4, 6, 6, 1], "generic")
    first = np.array([[1.0, 2.0, 1.0, -1.0]]), np.array([0.0, 0.0, 0.5, 0.7])
    net = ReluNetwork([first[0], *inner.weights], [first[1], *inner.biases])
    found = explore(net.network, Segment([-1.0], [2.0]))
    integers = exact_search(net, Segment([-1.0], [2.0]))
    np.testing.assert_array_equal(found.signatures, integers.signatures)
    assert 0 < found.arrays.decisions.rational < found.arrays.decisions.filtered


def test_a_limit_leaves_the_first_cells():
    rng = np.random.default_rng(4)
    net = random_network(rng, [2, 10, 10, 1], "generic")
    line = Segment([-4.0, 1.0], [4.0, -2.0])
    whole, some = explore(net.network, line), explore(net.network, line, max_cells=5)
    assert not some.arrays.is_complete
    np.testing.assert_array_equal(some.signatures, whole.signatures[:5])
    assert some.breakpoints.tolist() == whole.breakpoints.tolist()[:4]


@examples(30)
@given(st.integers(0, 10**6))
def test_norms_are_bounds(seed):
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=rng.integers(1, 9, 2)) * 10.0 ** rng.integers(-200, 100)
    weight[:, rng.integers(weight.shape[1])] *= rng.integers(2)
    normed = NormedMap.of(weight, np.zeros(weight.shape[1]))
    exact = [sum(Fraction(float(w)) ** 2 for w in column) for column in weight.T]
    assert all(Fraction(o) ** 2 >= square for o, square in zip(normed.omega, exact, strict=True))
    assert Fraction(normed.frobenius) ** 2 >= sum(exact)
    assert normed.sigma >= np.linalg.norm(weight, 2) * (1 - 1e-12)


def test_the_spectral_norm_is_close():
    weight = np.random.default_rng(0).normal(size=(300, 200))
    normed = NormedMap.of(weight, np.zeros(200))
    assert 1.0 < normed.sigma / np.linalg.norm(weight, 2) < 1.5
    assert normed.frobenius / np.linalg.norm(weight, 2) > 5.0


def test_only_plain_relu_networks_are_carried():
    rng = np.random.default_rng(0)
    assert is_relu_network(random_network(rng, [2, 3, 1], "generic").network)
    assert not is_relu_network(random_network(rng, [2, 1], "generic").network)
    maxout = MaxoutNetwork([rng.normal(size=(2, 2, 2)), rng.normal(size=(2, 1))])
    assert not is_relu_network(maxout.network)


def test_a_unit_that_is_zero_makes_no_doubt():
    net = ReluNetwork([[[0.0, 1.0]], [[1.0], [1.0]]], [[0.0, 0.5], None])
    part = enumerate_regions(net, Segment([-1.0], [1.0]))
    assert part.n_cells == 2
    assert part.decisions.rational == 0


@pytest.mark.parametrize("scale", [2.0**-560, 2.0**-565])
def test_cells_beyond_the_floats_are_found(scale):
    # Breakpoints near 2^1060, where a float says nothing, and a unit that is off.
    weights = [[[scale, 2 * scale]], [[-1.0], [-1.0]], [[1.0]]]
    model = ReluNetwork(weights, [[-(2.0**500), 2.0**500], [2.0**501], [0.0]])
    found = enumerate_regions(model, Line([0.0], [1.0]))
    truth = enumerate_regions(model, Line([0.0], [1.0]), exact=True)
    assert found.n_cells == truth.n_cells == 4
    assert sorted(map(tuple, found.signatures)) == sorted(map(tuple, truth.signatures))
