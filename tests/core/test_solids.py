"""Volumes, points inside and largest balls on lines and in space against exact ones."""

from ctypes import addressof
from fractions import Fraction
from itertools import combinations
from math import lcm

import numpy as np
import pytest

from hardmax._core.library import core
from hardmax._core.memory import MemoryBlock, address
from hardmax.exact.decisions import Decisions
from hardmax.geometry.domains import Box, Line, Ray, Segment, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.models.networks import ReluNetwork
from hardmax.regions._measures.measures import BALL, VOLUME, WITNESS
from hardmax.regions._measures.space import SolidAnswers
from hardmax.regions._neighbours.facets import FacetTable
from hardmax.regions._search.networks import core_network
from hardmax.regions._search.rounded_forms import first_stream
from hardmax.regions.cell_arrays import CellArrays, CellFacets
from hardmax.regions.charted_domains import charted
from hardmax.regions.engines import enumerate_regions
from tests.core.test_measures import check, check_ball, check_volume, value
from tests.extreme_models import model_and_domain
from tests.region_models import (
    gaussian_relu,
    integer_maxout,
    integer_relu,
    integer_transformer,
    repeated_units,
)
from tests.sweeps import seeds

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
            assert not len(part.found.measure(question).left_open)


def test_vertices_on_many_walls_are_measured_in_floats():
    """All walls meet in one point, at the origin or at thirds: cones over polygons."""
    forms = np.array([[1.0, 1, 1], [1, -1, 1], [1, 1, -1], [2, 1, 0], [0, 1, 2], [1, 0, 0]])
    for centre in ([0.0, 0.0, 0.0], [1 / 4, -1 / 2, 0.0]):
        net = ReluNetwork([forms.T, np.ones((6, 1))], [-forms @ np.array(centre), [0.0]])
        part = enumerate_regions(net, SPACES[0])
        assert not len(part.found.measure(VOLUME).left_open)
        check(part)
    thirds = ReluNetwork([3.0 * forms.T, np.ones((6, 1))], [-forms @ np.array([1.0, -1, 1]), [0.0]])
    part = enumerate_regions(thirds, SPACES[0])
    assert not len(part.found.measure(VOLUME).left_open)
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
    assert not len(part.found.measure(VOLUME).left_open)
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


@pytest.mark.parametrize("seed", [seed for seed in seeds(70) if is_measured_here(seed)])
def test_measures_at_every_magnitude(seed):
    check(enumerate_regions(*model_and_domain(seed)))


def test_a_cell_too_thin_for_floats_has_an_exact_point_and_volume():
    above = np.nextafter(1.0, 2.0)
    net = ReluNetwork([[[0.0, 0.0], [1.0, 1.0], [0, 0]], [[1.0], [1.0]]], [[-1.0, -above], [0.0]])
    part = enumerate_regions(net, Box([0.0] * 3, [4.0, 4.0, 2.0]))
    check(part)
    assert part.found.measure(VOLUME).left_open.tolist() == [1]
    assert part.volumes[1] == 8.0 * (above - 1.0)


def uncertain_polytope(rng):
    """Draw planes around an ellipsoid, with radii, and planes that they may stand for."""
    n = int(rng.integers(6, 11))
    normals = np.concatenate([np.eye(3), -np.eye(3), rng.normal(size=(n - 6, 3))])
    normals[:6] += rng.uniform(-0.2, 0.2, (6, 3))
    normals /= np.sqrt((normals**2).sum(axis=1, keepdims=True))
    thinness = np.array([1.0, rng.choice([1.0, 1e2]), rng.choice([1.0, 1e3])])
    radii = 10.0 ** rng.uniform(-14, -8, (n, 2)) * (rng.random((n, 2)) < 0.7)
    rows = np.column_stack([-normals * thinness, rng.uniform(0.95, 1.05, n), radii])
    moved = [
        [Fraction(x) + int(s) * Fraction(r) for x, s, r in zip(row, sign, spread, strict=True)]
        for row, sign, spread in zip(
            rows[:, :4].tolist(),
            rng.choice([-1, 1], (n, 4)),
            radii[:, [0, 0, 0, 1]].tolist(),
            strict=True,
        )
    ]
    scale = lcm(*(entry.denominator for row in moved for entry in row))
    return rows, [tuple(int(entry * scale) for entry in row) for row in moved]


def answers_about(rows, points, rho):
    """Ask the core about one cell, the domain with these borders; `(answers, questions open)`."""
    network = ArgmaxNetwork((), AffineMap.identity(3), AffineMap.identity(3))
    none = np.zeros((0, 2), dtype=np.int64)
    facets = CellFacets(np.zeros(2, np.int64), none, np.zeros(2, np.int64), none, [[rho, 0.0]])
    cells = CellArrays(
        np.empty((1, 0), np.uint8), True, Decisions(), None, None,
        points, np.array([0, len(points)]), 1, facets=facets,
    )  # fmt: skip
    table, packed = FacetTable(network, cells), core_network(network)
    stream = first_stream(network, None, 2.0)
    start = stream.search_start(2.0, is_bounded=True, stores=True)
    sizes = len(rows), 0, len(points)
    memory = MemoryBlock(core().hm_solids_size(packed.address, 3, *sizes))
    core().hm_solids_init(memory.address, packed.address, addressof(start), *sizes, address(rows))
    volume, witness, ball = np.zeros((1, 2)), np.zeros((1, 3)), np.zeros((1, 4))
    is_wanted, is_open = np.ones(1, np.int8), np.zeros(1, np.uint8)
    room = SolidAnswers(*map(address, (is_wanted, volume, witness, ball, is_open)))
    asked = VOLUME | WITNESS | BALL
    core().hm_solids_run(memory.address, addressof(table.given), addressof(room), asked, 0, 1)
    return volume[0], witness[0], ball[0], int(is_open[0])


def test_answers_hold_for_every_polytope_that_the_rows_may_stand_for():
    n_answered = np.zeros(3, dtype=np.int64)
    rng = np.random.default_rng(0)
    for _ in range(300):
        rows, moved = uncertain_polytope(rng)
        true = Polytope.from_rows([(*(-x for x in row[:-1]), row[-1]) for row in moved], 3)
        vertices = true.exact_vertices
        rho = float(10.0 ** rng.uniform(-15, -9))
        points = vertices.astype(float) + rng.uniform(-0.9, 0.9, vertices.shape) * rho
        (volume, radius), witness, (*centre, size), left_open = answers_about(
            rows, points, rho + 1e-15
        )
        if not left_open & VOLUME:
            check_volume(true.volume, volume, radius)
        if not left_open & WITNESS:
            assert all(value(row, witness) > 0 for row in moved)
        if not left_open & BALL:
            check_ball(moved, centre, size, is_proven=True)
        n_answered += [not left_open & question for question in (VOLUME, WITNESS, BALL)]
    assert (n_answered > 100).all()
    assert n_answered[0] < 295
