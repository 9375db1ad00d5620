"""What a search finds does not depend on threads, and a search that is stopped says so."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import ArgumentError
from hardmax.models import GraphBuilder
from hardmax.regions._graphs import searches
from tests.graph_models import Numbers, plane_of, residual_network, segment_of

FIELDS = (
    *("starts", "vertices", "radii", "walls", "change_starts", "changes", "maps", "map_radii"),
)


@pytest.fixture
def small_jobs(monkeypatch):
    monkeypatch.setattr(searches, "_JOB", 7)
    monkeypatch.setattr(searches, "_STEP", 3)


@pytest.mark.parametrize("are_integers", [False, True])
@pytest.mark.parametrize("is_plane", [False, True])
def test_threads_and_jobs_change_nothing(small_jobs, are_integers, is_plane):
    numbers = Numbers(3, are_integers=are_integers)
    net = residual_network(numbers)
    domain = plane_of(numbers, 16, is_triangle=True) if is_plane else segment_of(numbers, 16)
    alone, together = (hm.enumerate_regions(net, domain, workers=n) for n in (1, 3))
    assert alone.n_pieces > 7
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(alone.found, name), getattr(together.found, name))


def test_jobs_change_no_piece(monkeypatch):
    """They may come in another order: the part with the winners at hand is looked at first."""
    numbers = Numbers(5, are_integers=True)
    net, domain = residual_network(numbers), plane_of(numbers, 16, is_triangle=False)
    whole = hm.enumerate_regions(net, domain)
    monkeypatch.setattr(searches, "_JOB", 5)
    cut = hm.enumerate_regions(net, domain)
    rows = [sorted(map(bytes, np.column_stack([p.signatures, p.classes]))) for p in (whole, cut)]
    assert rows[0] == rows[1]
    assert whole.n_cells == cut.n_cells


def test_a_bound_on_the_cells_stops_the_search():
    numbers = Numbers(3, are_integers=False)
    net, domain = residual_network(numbers), plane_of(numbers, 16, is_triangle=True)
    whole, some = hm.enumerate_regions(net, domain), hm.enumerate_regions(net, domain, max_cells=9)
    assert not some.is_complete
    assert str(some.n_pieces) == "at least 9"
    np.testing.assert_array_equal(some.signatures, whole.signatures[:9])


def test_an_error_in_integers_is_raised(monkeypatch):
    numbers = Numbers(1, are_integers=True)
    net, domain = residual_network(numbers), plane_of(numbers, 16, is_triangle=True)

    def failing(*name):
        raise MemoryError("no room")

    monkeypatch.setattr(searches.CellForms, "exact_gap", failing)
    with pytest.raises(MemoryError, match="no room"):
        hm.enumerate_regions(net, domain)


def test_an_unbounded_domain_is_refused():
    net = residual_network(Numbers(1, are_integers=False))
    direction = np.eye(16)[:1]
    with pytest.raises(ArgumentError, match="must be bounded for a GraphNetwork"):
        hm.enumerate_regions(net, hm.Slice(np.zeros(16), direction, hm.WholeSpace(1)))
    with pytest.raises(ArgumentError, match="must be bounded for a GraphNetwork"):
        hm.enumerate_regions(net, hm.Slice(np.zeros(16), np.eye(16)[:2], hm.WholeSpace(2)))


def test_zero_biases_need_fewer_integers_at_corners(monkeypatch):
    """Parts of three images that do not overlap: windows vanish along sides and at corners."""
    numbers = Numbers(2, are_integers=False)
    net = residual_network(numbers, has_bias=False)
    images = np.zeros((3, 4, 4))
    images[0, :2, :2], images[1, :2, 2:], images[2, 2:] = 0.5, 1.25, numbers(2, 4)
    pixels = images.reshape(3, 16)
    triangle = hm.Polytope([[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]], [0.0, 0.0, 1.0])
    domain = hm.Slice(pixels[0], pixels[1:] - pixels[0], triangle)
    part, dense = hm.enumerate_regions(net, domain), hm.enumerate_regions(net.network, domain)
    assert part.n_cells == dense.n_cells > 10
    assert part.n_regions == dense.n_regions
    monkeypatch.setattr(searches.Search, "_note_zeros", lambda search: None)
    unknowing = hm.enumerate_regions(net, domain)
    np.testing.assert_array_equal(part.found.changes, unknowing.found.changes)
    assert part.found.n_exact < unknowing.found.n_exact


@pytest.mark.parametrize("seed", range(4))
def test_regions_are_those_of_dense_layers(seed):
    numbers = Numbers(seed, are_integers=True)
    net, domain = residual_network(numbers), plane_of(numbers, 16, is_triangle=seed % 2 == 0)
    part, dense = hm.enumerate_regions(net, domain), hm.enumerate_regions(net.network, domain)
    assert (part.n_regions, part.n_affine_maps) == (dense.n_regions, dense.n_affine_maps)


def test_a_change_of_class_beyond_many_cells_is_that_of_the_segment():
    rng, build = np.random.default_rng(6), GraphBuilder()
    h = build.relu(
        build.multiply(build.input((4,)), rng.normal(size=(4, 120)), rng.normal(size=120))
    )
    net = build.finish(build.multiply(h, rng.normal(size=(120, 3))))
    start, end = rng.normal(size=(2, 4)) * 4.0
    part = hm.enumerate_regions(net, hm.Segment(start, end))
    at = int(np.flatnonzero(part.classes != part.classes[0])[0])
    hit = hm.cell_at(net, start).decision_along(end - start)
    assert hit.distance == pytest.approx(part.breakpoints[at - 1], abs=1e-12)
    assert (hit.layer, hit.rival) == ("decision", part.classes[at])
    assert at > 64
