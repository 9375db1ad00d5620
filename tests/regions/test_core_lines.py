"""Lines searched by the core, against the search along the line."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.constructions.families.shattering import shattering_transformer
from hardmax.errors import Interrupted
from hardmax.geometry.domains import Box, Line, Ray, Segment
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.regions import engines
from hardmax.regions._lines import core_lines
from hardmax.regions._lines.lines import explore
from hardmax.regions._measures.measures import VOLUME
from hardmax.regions._search import space as spatial
from hardmax.regions.charted_domains import charted
from hardmax.regions.counts import AtLeast
from hardmax.regions.engines import enumerate_regions
from tests.region_models import integer_transformer
from tests.sweeps import examples


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


def through_the_core(net, where):
    return core_lines.ordered_cells(net.network, where, spatial.explore(net.network, where))


def tent(depth, scale=3.0**30):
    """A network whose every breakpoint is dyadic, of integers with many digits: 2^depth cells."""
    inner = [np.array([[2.0, 2.0], [-4.0, -4.0]])] * (depth - 1)
    weights = [scale * np.ones((1, 2)), *inner, np.array([[2.0], [-4.0]])]
    return ReluNetwork(weights, [scale * np.array([0.0, -0.5])] * depth + [np.zeros(1)])


@examples(50)
@given(st.integers(0, 10**6))
def test_the_core_has_the_cells_of_the_line(seed):
    net, line = random_case(seed)
    where = charted(line, net.dim_in)
    wanted, found = explore(net.network, line, exact=True), through_the_core(net, where)
    np.testing.assert_array_equal(found.signatures, wanted.signatures)
    assert found.breakpoints.tolist() == wanted.breakpoints.tolist()
    cells = np.arange(len(found))
    points = [one.interior_points(cells).tolist() for one in (found, wanted)]
    assert points[0] == points[1]
    np.testing.assert_allclose(found.arrays.vertices, wanted.arrays.vertices, rtol=1e-14)
    np.testing.assert_array_equal(found.arrays.directions, wanted.arrays.directions)
    np.testing.assert_allclose(found.arrays.maps, wanted.arrays.maps, rtol=1e-12, atol=1e-12)
    assert spatial.explore(net.network, where, count_only=True).n_counted == len(wanted)


def test_many_coincidences_are_left_to_the_core(monkeypatch):
    asked = []
    core = spatial.explore

    def watched(network, line, **limits):
        asked.append(network)
        return core(network, line, **limits)

    monkeypatch.setattr(spatial, "explore", watched)
    net = tent(8)
    part = enumerate_regions(net, Segment([0.0], [1.0]))
    assert len(asked) == 1
    assert part.n_cells == part.n_regions == 256
    assert [b.denominator for b in part.found.breakpoints[:2]] == [256, 128]
    assert enumerate_regions(net, Segment([0.0], [1.0]), count_only=True).n_cells == 256
    assert len(asked) == 2
    rng = np.random.default_rng(0)
    generic = ReluNetwork([rng.normal(size=(2, 30)), rng.normal(size=(30, 1))], None)
    enumerate_regions(generic, Segment([-1.0, 2.0], [3.0, 1.0]))
    assert len(asked) == 2


@pytest.mark.parametrize("count_only", [False, True])
def test_an_interrupt_leaves_the_cells_found(monkeypatch, count_only):
    def interrupted(network, domain, **limits):
        raise Interrupted("", whole(network, domain, **limits, max_cells=40))

    whole = spatial.explore
    monkeypatch.setattr(spatial, "explore", interrupted)
    for model in (tent(8), shattering_transformer(4, 1, 2, 4, 1)):
        with pytest.raises(Interrupted) as stop:
            enumerate_regions(model, Segment([0.0], [1.0]), count_only=count_only)
        part = stop.value.partial
        assert (part.n_cells, part.is_complete, part.engine) == (AtLeast(40), False, "lines")
        assert len(part.signatures if not count_only else []) == (0 if count_only else 40)


def test_cells_of_a_search_with_a_limit_are_cells_of_the_whole():
    model, domain = integer_transformer(5, 2, 5, 2, 2), Line([0.5, 0], [1, 3])
    truth = enumerate_regions(model, domain)
    some = enumerate_regions(model, domain, max_cells=7)
    assert (some.n_found, some.is_complete) == (7, False)
    names = [tuple(row) for row in truth.signatures.tolist()]
    places = [names.index(tuple(row)) for row in some.signatures.tolist()]
    lengths = truth.exact_volumes[places].tolist()
    assert some.exact_volumes.tolist() == lengths
    assert len(some.found.measure(VOLUME).left_open) == 0
    for length, radius, exact in zip(some.volumes, some.volume_radii, lengths, strict=True):
        assert exact == length or abs(Fraction(float(length)) - exact) <= Fraction(float(radius))
    pairs = {tuple(sorted((places[a], places[b]))) for a, b in some.neighbours.pairs}
    assert pairs == {(a, a + 1) for a in places if a + 1 in places}
    assert some.locate(some.witnesses).tolist() == list(range(7))


def test_a_search_with_a_limit_has_the_first_cells():
    part = enumerate_regions(tent(8), Segment([0.0], [1.0]), max_cells=40)
    assert not part.is_complete
    assert part.found.breakpoints.tolist()[-1].numerator == 39
    counted = enumerate_regions(tent(8), Segment([0.0], [1.0]), max_cells=40, count_only=True)
    assert (counted.n_cells, counted.is_complete) == (AtLeast(40), False)


def test_cells_that_floats_cannot_place_are_sorted_by_exact_ends(monkeypatch):
    """Breakpoints at 1, at 1 + 2^-60 and at 1 + 2^-59, from constants of the first layer."""
    net = ReluNetwork(
        [[[1.0, 0.0]], [[1.0, 1.0, 1.0], [-2.0, 0.0, -1.0]], [[1.0], [1.0], [1.0]]],
        [[0.0, 2.0**-60], [-1.0, -1.0, -1.0], None],
    )
    line = Segment([0.5], [2.0])
    monkeypatch.setattr(engines, "_PATIENCE", -1)
    part = enumerate_regions(net, line)
    inputs = [Fraction(1, 2) + Fraction(3, 2) * t for t in part.breakpoints]
    assert inputs == [1, 1 + Fraction(1, 2**60), 1 + Fraction(1, 2**59)]
    assert part.signatures.tolist() == [
        [1, 1, *last] for last in ([0, 0, 0], [0, 1, 0], [0, 1, 1], [1, 1, 1])
    ]
    assert part.found.measure(VOLUME).left_open.tolist() == [1, 2]
    assert part.exact_volumes.tolist()[1:3] == [Fraction(2, 3 * 2**60)] * 2


@pytest.mark.parametrize("depth", [1, 2])
def test_shattering_transformers_of_one_dimension(depth):
    model = shattering_transformer(4, 1, depth, 4, 1)
    part = enumerate_regions(model, Box([0.0], [1.0]))
    exact = enumerate_regions(model, Box([0.0], [1.0]), exact=True)
    assert part.n_cells == part.n_regions == exact.n_cells
