import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from hardmax.errors import ArgumentError, NonFiniteError, ShapeMismatchError
from hardmax.geometry.domains import Box, Segment, Slice, WholeSpace
from hardmax.models.networks import ReluNetwork
from hardmax.regions._measures.measures import inscribed_ball, is_wide, precise_ball
from hardmax.regions.engines import enumerate_regions
from hardmax.verify.checking import verify_certificate
from tests.region_models import (
    box_and_space,
    gaussian_relu,
    integer_relu,
    integer_transformer,
    reference_cells,
    repeated_units,
)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_volumes_of_the_cells_sum_to_that_of_the_box(dim):
    for model in (integer_relu(dim, [dim, 4, 2]), integer_transformer(dim, dim, 3, 2)):
        part = enumerate_regions(model, Box([-2] * dim, [3] * dim))
        assert sum(part.exact_volumes.tolist()) == Fraction(5) ** dim


def test_unbounded_cells_have_infinite_volume():
    part = enumerate_regions(gaussian_relu(1, [2, 3]), WholeSpace(2))
    volumes = part.volumes.tolist()
    assert sum(map(math.isinf, volumes)) == 6
    assert part.n_cells == 7
    assert part.statistics.n_unbounded == 6
    assert part.statistics.volume_quantiles[2] == pytest.approx(float(min(volumes)))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_witnesses_and_maps_are_those_of_the_definition(dim, exact):
    for model in (integer_transformer(dim, dim, 3, 1, 1, 2), repeated_units(dim)):
        for domain in box_and_space(dim):
            cells = {name: (rows, forms) for name, rows, forms in reference_cells(model, domain)}
            part = enumerate_regions(model, domain, exact=exact)
            for i, name in enumerate(part.signatures.tolist()):
                rows, forms = cells[tuple(name)]
                point = [*part.exact_witnesses[i].tolist(), 1]
                assert all(sum(a * b for a, b in zip(r, point, strict=True)) > 0 for r in rows)
                exact_map = part.exact_map(i)
                scale = Fraction(2) ** exact_map.exponent / exact_map.denominator
                assert [[int(x) * scale for x in row] for row in exact_map.rows] == forms
                rounded = np.array(forms, dtype=float).T
                np.testing.assert_allclose(part.affine_maps[i], rounded, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_cell_is_located_by_its_witness_and_a_vertex_by_none(dim):
    part = enumerate_regions(integer_relu(4, [dim, 4, 2]), Box([-2] * dim, [3] * dim))
    for i in range(part.n_cells):
        polytope = part.polytope(i)
        exact = [v for v in polytope.exact_vertices.tolist() if all(float(x) == x for x in v)]
        assert (part.locate(np.array(exact, dtype=float).reshape(-1, dim)) == -1).all()
        middle = polytope.vertices.mean(axis=0)
        A, b = polytope.inequalities
        if (A @ middle < b - 1e-9).all():
            assert part.locate(middle) == i


def test_points_are_located_by_their_signature():
    model = gaussian_relu(8, [2, 8, 8])
    part = enumerate_regions(model, Box([-3, -3], [3, 3]))
    points = np.random.default_rng(0).uniform(-3.5, 3.5, (300, 2))
    found = part.locate(points)
    inside = (np.abs(points) < 3).all(axis=1)
    assert (found[~inside] == -1).all()
    assert (found[inside] >= 0).all()
    np.testing.assert_array_equal(part.signatures[found[inside]], model.signature(points[inside]))


def test_a_point_on_a_wall_of_a_later_layer_is_in_no_cell():
    part = enumerate_regions(repeated_units(2), WholeSpace(2))
    on_wall = part.polytope(0).exact_vertices[0]
    assert part.locate(on_wall.astype(float)) == -1
    assert part.locate([[0.3, 0.1]]).shape == (1,)


def test_points_of_slices_are_given_in_their_coordinates():
    model = gaussian_relu(8, [3, 8, 4])
    piece = Slice([0.5, 0.0, 1.0], [[1.0, 0.5, 0.0], [0.0, 1.0, -0.25]], Box([-2, -2], [2, 2]))
    part = enumerate_regions(model, piece)
    t = np.random.default_rng(0).integers(-100, 100, (40, 2)) / 64
    found = part.locate(t)
    assert (found >= 0).all()
    np.testing.assert_array_equal(part.signatures[found], model.signature(piece.points(t)))
    segment = enumerate_regions(model, Segment([0.1, 0.2, 0.3], [3.0, -2.0, 1.0]))
    assert segment.locate([[0.0], [1.0], [2.0]]).tolist() == [-1, -1, -1]
    inner = segment.locate(segment.witnesses)
    assert inner.tolist() == list(range(segment.n_cells))


def test_a_stopped_search_does_not_locate_what_it_has_not_found():
    model = integer_relu(4, [2, 4])
    whole = enumerate_regions(model, WholeSpace(2), exact=True)
    part = enumerate_regions(model, WholeSpace(2), exact=True, max_cells=2)
    found = part.locate(whole.witnesses)
    assert found[:2].tolist() == [0, 1]
    assert (found[2:] == -1).all()


def test_chebyshev_balls_fit_and_unbounded_cells_say_so():
    part = enumerate_regions(gaussian_relu(3, [2, 4]), Box([-3, -3], [3, 3]))
    centres, radii = part.chebyshev_centres
    assert (part.locate(centres) == np.arange(part.n_cells)).all()
    for i in range(part.n_cells):
        A, b = part.polytope(i).inequalities
        slack = (b - A @ centres[i]) / np.linalg.norm(A, axis=1)
        assert slack.min() == pytest.approx(radii[i])
    free = enumerate_regions(gaussian_relu(3, [2, 4]), WholeSpace(2))
    is_wide = np.isinf(free.chebyshev_centres[1])
    assert is_wide.sum() == 8
    assert (free.locate(free.chebyshev_centres[0]) == np.arange(free.n_cells)).all()


def test_a_strip_has_a_finite_ball():
    rows = [(0, 1, 0), (0, -3, 6)]
    assert not is_wide(rows, 2)
    for find in (inscribed_ball, precise_ball):
        centre, radius = find(rows, 2)
        assert centre[1] == pytest.approx(1.0)
        assert radius == pytest.approx(1.0)


def test_statistics_count_walls_and_neighbours():
    part = enumerate_regions(gaussian_relu(3, [2, 4]), Box([-30, -30], [30, 30]))
    statistics = part.statistics
    assert sum(statistics.walls_of.values()) == len(part.neighbours)
    assert statistics.mean_neighbours == pytest.approx(2 * len(part.neighbours) / part.n_cells)
    assert statistics.max_neighbours >= statistics.mean_neighbours
    assert (np.diff(statistics.volume_quantiles) >= 0).all()


def test_quantiles_of_volumes_beyond_the_floats_are_infinite_and_the_cells_are_bounded():
    relu = ReluNetwork([[[1.0], [0.0]], [[1.0]]])
    statistics = enumerate_regions(relu, Box([-4, -1e200], [1e200, 1e200])).statistics
    assert statistics.n_unbounded == 0
    assert statistics.volume_quantiles.tolist() == [8e200, np.inf, np.inf, np.inf, np.inf]


def test_quantiles_are_those_of_numpy():
    part = enumerate_regions(gaussian_relu(3, [2, 4]), Box([-30, -30], [30, 30]))
    expected = np.quantile(part.volumes, [0.0, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(part.statistics.volume_quantiles, expected, rtol=1e-15)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_partition_certifies_itself(dim):
    model = integer_relu(4, [dim, 4, 2])
    domain = Box([-2] * dim, [3] * dim)
    part = enumerate_regions(model, domain)
    verdict = verify_certificate(model, part.certificate(), domain)
    assert verdict.ok, verdict.reason
    assert verdict.n_cells == part.n_cells
    some = enumerate_regions(model, domain, max_cells=1)
    with pytest.raises(ArgumentError, match="`certificate` needs all cells"):
        some.certificate()


def test_a_partition_says_what_it_is():
    part = enumerate_regions(integer_relu(0, [1, 1]), WholeSpace(1))
    assert repr(part) == f"Partition({part.n_cells} cells, in 1 dimension, engine lines)"
    assert len(part) == part.n_cells


def test_bad_points_and_cells_are_refused():
    part = enumerate_regions(integer_relu(4, [2, 3]), WholeSpace(2))
    with pytest.raises(ShapeMismatchError, match="`points` must have shape"):
        part.locate([1.0, 2.0, 3.0])
    with pytest.raises(NonFiniteError, match="`points` must not hold NaN"):
        part.locate([[np.nan, 0.0]])
    with pytest.raises(ArgumentError, match="`cell` must be at most"):
        part.polytope(part.n_cells)
    with pytest.raises(ArgumentError, match="`cell` must be at least 0"):
        part.exact_map(-1)


@pytest.mark.parametrize("domain", [Segment([-1, -1], [1, 1]), Box([-1, -1], [1, 1])])
def test_partitions_are_pickled_whatever_has_been_asked_of_them(domain):
    part = enumerate_regions(gaussian_relu(3, [2, 6, 6]), domain)
    asked = part.n_regions, part.volumes.tolist(), part.polytope(0), part.certificate()
    copy = pickle.loads(pickle.dumps(part))
    assert asked[:2] == (copy.n_regions, copy.volumes.tolist())
    assert copy.exact_map(1).rows == part.exact_map(1).rows
