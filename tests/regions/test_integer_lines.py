"""Lines through networks of integers, searched in integers by the core."""

from ctypes import c_double
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hardmax.geometry.domains import Line, Segment
from hardmax.models._arithmetic.normed_maps import NormedMap
from hardmax.models.argmax import AffineMap
from hardmax.models.networks import ReluNetwork
from hardmax.regions._lines import integer_lines
from hardmax.regions._lines.line_intervals import Points
from hardmax.regions._lines.lines import explore
from hardmax.regions._lines.packed_layers import PackedMaps, packed_layers
from tests.regions.degenerate_lines import INTEGERS, KINDS, compare
from tests.sweeps import seeds


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_cells_are_those_of_the_integer_search(kind):
    for seed in seeds(6):
        name, found = compare(kind + seed * len(KINDS))
        decisions = found.arrays.decisions
        if name in INTEGERS:
            assert decisions.expanded == decisions.total > 0


def integer_network(seed, sizes):
    rng = np.random.default_rng(seed)
    weights = [rng.integers(-2, 3, pair).astype(float) for pair in pairwise(sizes)]
    return ReluNetwork(weights, [rng.integers(-2, 3, n).astype(float) for n in sizes[1:]])


def test_cells_may_be_found_few_at_a_time(monkeypatch):
    net, line = integer_network(3, [3, 12, 12, 12, 2]), Line([0.0, 1.0, 2.0], [3.0, -1.0, 2.0])
    whole = explore(net.network, line)
    assert len(whole) > 12
    assert np.diff(whole.walk.starts).max() > 1
    monkeypatch.setattr(integer_lines, "_CELLS_AT_ONCE", (3, 5))
    found = explore(net.network, line)
    np.testing.assert_array_equal(found.signatures, whole.signatures)
    np.testing.assert_array_equal(found.ends.names, whole.ends.names)
    np.testing.assert_array_equal(found.ends.where, whole.ends.where)
    assert found.breakpoints.tolist() == whole.breakpoints.tolist()
    some = explore(net.network, line, max_cells=7)
    np.testing.assert_array_equal(some.signatures, whole.signatures[:7])
    assert some.exact_ends == whole.exact_ends[:8]
    assert explore(net.network, line, count_only=True, max_cells=7).arrays.n_counted == 7


def test_an_end_is_known_from_its_name_alone():
    net, line = integer_network(5, [2, 8, 8, 8, 1]), Segment([-3.0, 1.0], [4.0, -2.0])
    found = explore(net.network, line)
    where, names = found.ends.where, found.ends.names
    named = Points(where, names, np.empty(len(names), dtype=object))
    assert len(found) > 8
    for i, signature in enumerate(found.walk.rows()):
        if i > 0:
            exact = found.search.exact_value(named, i, signature)
            assert exact == found.exact_ends[i]


@pytest.mark.parametrize(("size", "is_exact"), [(2.0**20, True), (2.0**27, False)])
def test_integers_beyond_those_of_floats_are_left_to_others(size, is_exact):
    """Two layers of such weights have values of up to twice as many digits."""
    net = ReluNetwork([[[size, -1.0]], [[size], [1.0]], [[1.0]]], [[1.0, 1.0], [-3.0], None])
    found = explore(net.network, Segment([-5.0], [7.0]))
    assert (found.arrays.decisions.expanded > 0) == is_exact
    truth = explore(net.network, Segment([-5.0], [7.0]), exact=True)
    assert found.breakpoints.tolist() == truth.breakpoints.tolist()


def numbers_at(place, n):
    return np.frombuffer((c_double * n).from_address(place))


@pytest.mark.parametrize("shape", [(1, 1), (5, 8), (16, 7), (17, 30)])
@pytest.mark.parametrize("size", [5e-324, 1e-200, 1.0, 1e150, 1e200])
def test_norms_of_packed_maps_are_bounds(shape, size):
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore", under="ignore"):
        weight, bias = size * rng.integers(-3, 4, shape), size * rng.integers(-3, 4, shape[1])
    record = PackedMaps([AffineMap(weight, bias)]).records[0]
    columns = [sum(Fraction(x) ** 2 for x in column) for column in weight.T.tolist()]
    omega = numbers_at(record.omega, shape[1])
    for norm, square in [
        *zip(omega, columns, strict=True),
        (record.frobenius, sum(columns)),
        (record.bias_norm, sum(Fraction(x) ** 2 for x in bias.tolist())),
    ]:
        assert norm == np.inf or Fraction(float(norm)) ** 2 >= square
    np.testing.assert_array_equal(numbers_at(record.bias_size, shape[1]), np.abs(bias))
    if size == 1.0:
        wanted = NormedMap.of(weight, bias)
        np.testing.assert_allclose(omega, wanted.omega, rtol=1e-12)
        np.testing.assert_allclose(record.frobenius, wanted.frobenius, rtol=1e-12)
        assert record.kappa == wanted.kappa


def test_panels_have_all_columns():
    rng = np.random.default_rng(1)
    maps = [
        AffineMap(rng.normal(size=shape), rng.normal(size=shape[1]))
        for shape in ((3, 19), (19, 13))
    ]
    record = PackedMaps(maps, 2).records[1]
    panels = numbers_at(record.panels, 2 * 20 * 8).reshape(2, 20, 8)
    columns = panels.swapaxes(0, 1).reshape(20, 16)
    np.testing.assert_array_equal(columns[:-1, :13], maps[1].weight)
    np.testing.assert_array_equal(columns[-1, :13], maps[1].bias)
    assert not columns[:, 13:].any()


def test_deep_networks_have_better_norms():
    """Norms of Frobenius would make the errors of thirty layers useless."""
    rng = np.random.default_rng(2)

    def layers(depth):
        sizes = [2, *[16] * depth, 1]
        return packed_layers(
            ReluNetwork([rng.normal(size=pair) for pair in pairwise(sizes)]).network
        )

    def is_loose(record):
        return record.sigma == record.frobenius

    assert all(is_loose(record) for record in layers(4).packed.records)
    deep = layers(30)
    assert not any(is_loose(record) for record in deep.packed.records[1:-1])
    assert not any(is_loose(record) for record in deep.with_readout[1:-1])
    assert not any(is_loose(record) for record in layers(4).with_readout[1:-1])
