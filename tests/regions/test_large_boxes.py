"""Boxes of many dimensions: nothing lists their corners, of which there are $2^d$."""

import time
from fractions import Fraction

import numpy as np
import pytest

from hardmax import stability as sb
from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box, Segment, Slice
from hardmax.geometry.polytopes import Polytope
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, HardTransformer
from hardmax.regions import charted_domains
from hardmax.regions.charted_domains import charted, enclosing_box, refuse_outside
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.sampling import sample_regions
from hardmax.stability.cells.bands import domain_volume


def cube(dim):
    return Box([-1.0] * dim, [1.0] * dim)


def network(dim, seed=0):
    rng = np.random.default_rng(seed)
    return ReluNetwork([rng.normal(size=(dim, 10)) / dim**0.5, rng.normal(size=(10, 1))])


def transformer(dim, seed=0):
    rng = np.random.default_rng(seed)
    shapes = (dim, 4), (5, 4), (5, 3), (3, dim)
    return HardTransformer([Block([AttentionHead(*(rng.normal(size=s) for s in shapes))])])


@pytest.fixture
def no_vertices(monkeypatch):
    """Polytopes that refuse to list their vertices, as those of a large box would not end."""

    def refused(self):
        raise AssertionError("vertices were asked for")

    for name in ("vertices", "exact_vertices", "generators", "is_bounded"):
        monkeypatch.setattr(Polytope, name, property(refused))


@pytest.mark.parametrize("dim", [20, 784, 3072])
@pytest.mark.usefixtures("no_vertices")
def test_points_of_a_large_box_are_drawn_in_no_time(dim):
    sample_regions(network(2), cube(2), 10, 0)
    model, box = network(dim), cube(dim)
    start = time.process_time()
    found = sample_regions(model, box, 100, 0)
    assert time.process_time() - start < 1.0
    assert found.n_samples == 100
    assert 50 < found.distinct <= 100
    assert sample_regions(transformer(dim), box, 100, 0).distinct <= 5


@pytest.mark.usefixtures("no_vertices")
def test_shares_of_a_large_box_are_sampled():
    model, box = transformer(200), cube(200)
    assert sb.sample_margin_share(model, box, 1e-3, 50).share > 0.9
    assert sb.sample_hard_share(model, box, 1e-3, 0.1, 5).n_samples == 5


@pytest.mark.usefixtures("no_vertices")
def test_slices_and_segments_through_a_large_space_are_searched():
    model = network(784)
    rng = np.random.default_rng(1)
    ends = rng.uniform(-1, 1, (2, 784))
    assert enumerate_regions(model, Segment(*ends)).n_cells >= 1
    wide = Slice(np.zeros(784), rng.normal(size=(40, 784)), cube(40))
    assert sample_regions(model, wide, 100, 0).distinct > 50


def test_the_first_points_do_not_depend_on_how_many_are_drawn():
    box, model = cube(30), network(30)
    some, more = (sample_regions(model, box, n, 0) for n in (100, 5000))
    assert some.distinct < more.distinct
    again = sample_regions(model, box, 5000, 0, n_at_once=1)
    assert (again.distinct, again.n_once) == (more.distinct, more.n_once)


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_the_sides_of_a_box_are_those_its_vertices_have(dim):
    rng = np.random.default_rng(dim)
    low = rng.normal(size=dim)
    box = Box(low, low + rng.uniform(0.1, 2.0, dim))
    rows = [tuple(row) for row in box.exact_rows.tolist()]
    vertices = Polytope.from_rows(rows, dim).vertices
    for domain in (charted(box, dim), charted(Slice(np.zeros(dim), np.eye(dim) * 2, box), dim)):
        found = enclosing_box(domain)
        assert found.is_filled
        assert found.low.tolist() == vertices.min(axis=0).tolist() == box.low.tolist()
        assert found.high.tolist() == vertices.max(axis=0).tolist() == box.high.tolist()
    assert domain_volume(charted(box, dim)) == Polytope.from_rows(rows, dim).volume


def test_other_domains_have_the_box_around_them():
    triangle = Polytope.from_points([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    found = enclosing_box(charted(triangle, 2))
    assert (found.low.tolist(), found.high.tolist(), found.is_filled) == ([0, 0], [1, 3], False)
    quadrant = Polytope([[-1.0, 0.0], [0.0, -1.0]], [0.0, 0.0])
    wedge = Polytope([[-1.0, 0.0], [0.0, -1.0], [1.0, -1.0]], [0.0, 0.0, 1.0])
    for unbounded in (quadrant, wedge):
        assert enclosing_box(charted(unbounded, 2)) is None


def test_beyond_ten_dimensions_bounds_on_each_coordinate_are_enough(monkeypatch):
    monkeypatch.setattr(charted_domains, "_MOST_BY_VERTICES", 1)
    cut = Polytope([[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1]], [1, 0, 1, 0, 1])
    found = enclosing_box(charted(cut, 2))
    assert (found.low.tolist(), found.high.tolist(), found.is_filled) == ([0, 0], [1, 1], False)


def test_a_large_box_is_compared_with_the_box_of_a_model_by_its_sides():
    class Boxed:
        box = cube(500)

    refuse_outside(Boxed, charted(cube(500), 500))
    with pytest.raises(ArgumentError, match="`domain` must lie in the box of the model"):
        refuse_outside(Boxed, charted(Box([-1.0] * 500, [1.0] * 499 + [1.0 + 1e-15]), 500))


def test_a_box_has_its_rows_when_they_are_asked_for():
    box = charted(Box([0.5, -1.0], [1.0, 2.0]), 2)
    assert box.exact_rows.tolist() == [[1, 0, 1], [0, 1, 2], [-2, 0, -1], [0, -1, 1]]
    assert box.exact_rows is box.exact_rows
    assert domain_volume(box) == Fraction(3, 2)
    with pytest.raises(AttributeError):
        box.nothing
