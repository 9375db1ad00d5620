"""Lines searched by the core, against the search along the line."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardmax.constructions.shattering import shattering_transformer
from hardmax.errors import Interrupted
from hardmax.geometry.domains import Box, Line, Ray, Segment
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.regions import core_lines, engines
from hardmax.regions.charted_domains import charted
from hardmax.regions.counts import AtLeast
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.lines import explore


def integers(rng, *shape):
    return rng.integers(-2, 3, shape).astype(float)


def random_case(seed):
    rng = np.random.default_rng(seed)
    dim, rank = rng.integers(1, 4), rng.integers(1, 5)
    if rng.integers(2):
        net = MaxoutNetwork(
            [integers(rng, 3, rank, dim), integers(rng, 2, 2, 3), integers(rng, 2, 1)],
            [integers(rng, 3, rank), integers(rng, 2, 2), integers(rng, 1)],
        )
    else:
        widths = [dim, *rng.integers(1, 7, rng.integers(0, 4)), 2]
        shapes = list(pairwise(widths))
        weights = [integers(rng, *shape) for shape in shapes]
        net = ReluNetwork(weights, [integers(rng, n) for _, n in shapes])
    start, way = integers(rng, dim), integers(rng, dim)
    way[0] += not way.any()
    line = (Segment(start, start + way), Line(start, way), Ray(start, way))[rng.integers(3)]
    return net, line


def tent(depth):
    """A network of small integers and halves whose every breakpoint is dyadic: 2^depth cells."""
    inner = [np.array([[2.0, 2.0], [-4.0, -4.0]])] * (depth - 1)
    weights = [np.ones((1, 2)), *inner, np.array([[2.0], [-4.0]])]
    return ReluNetwork(weights, [np.array([0.0, -0.5])] * depth + [np.zeros(1)])


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6))
def test_the_core_has_the_cells_of_the_line(seed):
    net, line = random_case(seed)
    where = charted(line, net.dim_in)
    wanted, found = explore(net.network, line, exact=True), core_lines.explore(net.network, where)
    np.testing.assert_array_equal(found.signatures, wanted.signatures)
    assert found.breakpoints.tolist() == wanted.breakpoints.tolist()
    assert found.witnesses.tolist() == wanted.witnesses.tolist()
    np.testing.assert_allclose(found.cells.vertices, wanted.cells.vertices, rtol=1e-14)
    np.testing.assert_array_equal(found.cells.directions, wanted.cells.directions)
    np.testing.assert_allclose(found.cells.maps, wanted.cells.maps, rtol=1e-12, atol=1e-12)
    counted = core_lines.count(net.network, where, count_only=True)
    assert counted.cells.n_counted == len(wanted)


def test_many_coincidences_are_left_to_the_core(monkeypatch):
    asked = []
    core = core_lines.explore

    def watched(network, line):
        asked.append(network)
        return core(network, line)

    monkeypatch.setattr(core_lines, "explore", watched)
    net = tent(8)
    part = enumerate_regions(net, Segment([0.0], [1.0]))
    assert len(asked) == 1
    assert part.n_cells == part.n_regions == 256
    assert [b.denominator for b in part.line.breakpoints[:2]] == [256, 128]
    assert enumerate_regions(net, Segment([0.0], [1.0]), count_only=True).n_cells == 256
    rng = np.random.default_rng(0)
    generic = ReluNetwork([rng.normal(size=(2, 30)), rng.normal(size=(30, 1))], None)
    enumerate_regions(generic, Segment([-1.0, 2.0], [3.0, 1.0]))
    assert len(asked) == 1


def test_an_interrupt_leaves_the_first_cells(monkeypatch):
    def interrupted(network, domain, **limits):
        raise Interrupted("", replace(whole(network, domain, **limits), is_complete=False))

    whole = core_lines.spatial.explore
    monkeypatch.setattr(core_lines.spatial, "explore", interrupted)
    with pytest.raises(Interrupted) as stop:
        enumerate_regions(tent(8), Segment([0.0], [1.0]))
    part = stop.value.partial
    assert not part.is_complete
    assert 0 < part.n_found < 256
    # Breakpoints k / 256 for k = 1, 2, ...: nothing is left out.
    assert [256 * b for b in part.line.breakpoints] == list(range(1, part.n_found))
    with pytest.raises(Interrupted) as stop:
        enumerate_regions(tent(8), Segment([0.0], [1.0]), count_only=True)
    assert (stop.value.partial.n_cells, stop.value.partial.engine) == (AtLeast(256), "lines")


def test_a_search_with_a_limit_has_the_first_cells():
    part = enumerate_regions(tent(8), Segment([0.0], [1.0]), max_cells=40)
    assert not part.is_complete
    assert part.line.breakpoints.tolist()[-1].numerator == 39
    counted = enumerate_regions(tent(8), Segment([0.0], [1.0]), max_cells=40, count_only=True)
    assert (counted.n_cells, counted.is_complete) == (AtLeast(40), False)


def test_a_cell_that_floats_cannot_place_is_left_to_the_line(monkeypatch):
    """Breakpoints at 1 and at 1 + 2^-60, a constant of the first layer."""
    net = ReluNetwork(
        [[[1.0, 0.0]], [[1.0, 1.0], [0.0, -1.0]], [[1.0], [1.0]]],
        [[0.0, 2.0**-60], [-1.0, -1.0], None],
    )
    line = Segment([0.5], [2.0])
    assert core_lines.explore(net.network, charted(line, 1)) is None
    monkeypatch.setattr(engines, "_PATIENCE", -1)
    part = enumerate_regions(net, line)
    gap = part.line.breakpoints[1] - part.line.breakpoints[0]
    assert part.n_cells == 3
    assert gap * Fraction(3, 2) == Fraction(1, 2**60)


@pytest.mark.parametrize("depth", [1, 2])
def test_shattering_transformers_of_one_dimension(depth):
    model = shattering_transformer(4, 1, depth, 4, 1)
    part = enumerate_regions(model, Box([0.0], [1.0]))
    exact = enumerate_regions(model, Box([0.0], [1.0]), exact=True)
    assert part.n_cells == part.n_regions == exact.n_cells
