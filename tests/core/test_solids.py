"""Volumes, points inside and largest balls on lines and in space against exact ones."""

from itertools import combinations

import numpy as np
import pytest

from hardmax.geometry.domains import Box, Line, Ray, Segment, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.networks import ReluNetwork
from hardmax.regions.charted_domains import charted
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.measures import BALL, VOLUME, WITNESS
from tests.core.test_measures import check
from tests.extreme_models import model_and_domain
from tests.region_models import (
    gaussian_relu,
    integer_maxout,
    integer_relu,
    integer_transformer,
    repeated_units,
)

SPACES = [
    Box([-2.0, -3.0, 0.0], [3.0, 1.0, 1.0]),
    WholeSpace(3),
    Polytope([[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 1.0, 1.0]], [1, 1, 1, 1]),
    Polytope([[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [1.0, 1.0, 0.0]], [1, 1, 1]),
]
LINES = [Segment([-2.0, 1.0], [3.0, 2.0]), Ray([1.0, 0.0], [-1.0, 2.0]), Line([0, 0], [1.0, 0.5])]


@pytest.mark.parametrize("domain", SPACES)
def test_measures_in_space_are_those_of_exact_cells(domain):
    models = [
        gaussian_relu(1, [3, 4, 3]),
        integer_relu(2, [3, 3, 2]),
        integer_relu(3, [3, 4, 2], zero_bias=True),
        integer_maxout(4, 3, [[3, 2], [2]]),
        integer_transformer(5, 3, 3, 1, 1),
        integer_transformer(6, 3, 3, 1, 1, repeat=True),
        repeated_units(3),
    ]
    for model in models:
        check(enumerate_regions(model, domain))


@pytest.mark.parametrize("domain", LINES)
def test_measures_along_lines_are_those_of_exact_cells(domain):
    models = [
        gaussian_relu(1, [2, 8, 6]),
        integer_relu(2, [2, 5, 4]),
        integer_relu(3, [2, 5, 3], zero_bias=True),
        integer_maxout(4, 2, [[3, 2], [2]]),
        integer_transformer(5, 2, 3, 2, 2),
        integer_transformer(6, 2, 4, 2, 1, repeat=True),
    ]
    for model in models:
        part = enumerate_regions(model, domain)
        check(part)
        lengths = [part.polytope(i).volume for i in range(part.n_found)]
        assert part.exact_volumes.tolist() == lengths


def test_generic_cells_are_all_measured_in_floats():
    cases = [(gaussian_relu(7, [3, 6, 4]), domain) for domain in SPACES[::2]]
    cases += [(gaussian_relu(8, [2, 9, 9, 9]), domain) for domain in LINES]
    for model, domain in cases:
        part = enumerate_regions(model, domain)
        for question in (VOLUME, WITNESS, BALL):
            assert not len(part._measured(question).left_open)


def test_vertices_on_many_walls_are_measured_in_floats():
    """All walls meet in one point, at the origin or at thirds: cones over polygons."""
    forms = np.array([[1.0, 1, 1], [1, -1, 1], [1, 1, -1], [2, 1, 0], [0, 1, 2], [1, 0, 0]])
    for centre in ([0.0, 0.0, 0.0], [1 / 4, -1 / 2, 0.0]):
        net = ReluNetwork([forms.T, np.ones((6, 1))], [-forms @ np.array(centre), [0.0]])
        part = enumerate_regions(net, SPACES[0])
        assert not len(part._measured(VOLUME).left_open)
        check(part)
    thirds = ReluNetwork([3.0 * forms.T, np.ones((6, 1))], [-forms @ np.array([1.0, -1, 1]), [0.0]])
    part = enumerate_regions(thirds, SPACES[0])
    assert not len(part._measured(VOLUME).left_open)
    check(part)


@pytest.mark.parametrize("dim", [4, 5, 6, 7])
def test_cubes_and_simplices_have_their_volumes(dim):
    """The order of the coordinates cuts a cube into dim! simplices, of which some are joined."""
    n_walls = 4 if dim < 6 else 2
    pairs = np.zeros((dim, n_walls))
    for k, (i, j) in enumerate(list(combinations(range(dim), 2))[:n_walls]):
        pairs[i, k], pairs[j, k] = 1.0, -1.0
    net = ReluNetwork([pairs, np.ones((n_walls, 1))])
    part = enumerate_regions(net, Box([0.0] * dim, [1.0] * dim))
    exact = part.exact_volumes
    assert sum(exact) == 1
    assert not len(part._measured(VOLUME).left_open)
    for volume, radius, true in zip(part.volumes, part.volume_radii, exact, strict=True):
        assert abs(volume - true) <= radius
    whole = enumerate_regions(net, WholeSpace(dim))
    assert np.isinf(whole.volumes).all()
    assert np.isinf(whole.chebyshev_centres[1]).all()


def test_cells_of_slices_are_measured_in_their_coordinates():
    axes = [[1.0, 0.5, 0.0, 0.0], [0.3, 1.0, -0.25, 0.0], [0.0, 0.0, 1.0, 0.7]]
    for inner in (Box([-2, -2, -1], [2, 2, 1]), WholeSpace(3)):
        piece = Slice([0.5, 0.1, 1.0, 0.0], axes, inner)
        check(enumerate_regions(gaussian_relu(8, [4, 5, 2]), piece))


def is_measured_here(seed):
    model, domain = model_and_domain(seed)
    return charted(domain, model.dim_in).dim in (1, 3)


@pytest.mark.parametrize("seed", [seed for seed in range(150) if is_measured_here(seed)])
def test_measures_at_every_magnitude(seed):
    check(enumerate_regions(*model_and_domain(seed)))


def test_a_cell_too_thin_for_floats_has_an_exact_point_and_volume():
    above = np.nextafter(1.0, 2.0)
    net = ReluNetwork([[[0.0, 0.0], [1.0, 1.0], [0, 0]], [[1.0], [1.0]]], [[-1.0, -above], [0.0]])
    part = enumerate_regions(net, Box([0.0] * 3, [4.0, 4.0, 2.0]))
    check(part)
    assert part._measured(VOLUME).left_open.tolist() == [1]
    assert part.volumes[1] == 8.0 * (above - 1.0)
