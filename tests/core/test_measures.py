"""Volumes, points inside and largest balls of planar cells against exact ones."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hardmax._core.library import core
from hardmax._core.memory import address
from hardmax.geometry.domains import Box, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions._measures.measures import (
    BALL,
    MEASURED,
    VOLUME,
    WITNESS,
    is_wide,
    precise_ball,
)
from hardmax.regions._plane.cells import PlaneCells
from hardmax.regions._search.searches import N_EDGE
from hardmax.regions.charted_domains import charted
from hardmax.regions.engines import enumerate_regions
from tests.extreme_models import LEAST, model_and_domain
from tests.region_models import gaussian_relu, integer_maxout, integer_relu, integer_transformer
from tests.sweeps import seeds

PART = Fraction(MEASURED)
DOMAINS = [
    Box([-2.0, -3.0], [3.0, 1.0]),
    WholeSpace(2),
    Polytope([[1.0, 1.0], [-3.0, 1.0], [0.0, -1.0]], [2.0, 4.0, 3.0]),
    Polytope([[1.0, 1.0], [-1.0, 1.0]], [1.0, 1.0]),
]


def value(row, point):
    return sum(a * x for a, x in zip(row, [*map(Fraction, point), 1], strict=True))


def check_volume(exact, volume, radius):
    if exact == math.inf:
        assert (volume, radius) == (math.inf, 0.0)
    elif volume == math.inf:
        assert radius == math.inf
        assert exact > Fraction(1.7e308)
    else:
        assert abs(Fraction(volume) - exact) <= Fraction(radius)
        # Half a unit in the last place of a subnormal number may be more.
        assert Fraction(radius) <= max(PART * exact, Fraction(LEAST))


def check_ball(rows, centre, radius, *, is_proven):
    dim = len(centre)
    if radius == math.inf:
        assert is_wide(rows, dim)
        return
    largest = Fraction(precise_ball(rows, dim)[1])
    assert largest * (1 - 2 * PART) <= Fraction(radius) <= largest * (1 + PART)
    for row in rows if is_proven else ():
        distance = value(row, centre)
        assert distance >= 0
        assert distance**2 >= Fraction(radius) ** 2 * sum(x * x for x in row[:-1])


def check(part):
    """Compare everything about the cells with what is exact; return the answers left open."""
    open_of = {
        question: part.found.measure(question).left_open for question in (VOLUME, WITNESS, BALL)
    }
    exact, volumes, radii = part.exact_volumes, part.volumes, part.volume_radii
    centres, sizes = part.chebyshev_centres
    for i in range(part.n_found):
        rows = [*part.rows(i).walls]
        check_volume(exact[i], float(volumes[i]), float(radii[i]))
        witness = part.exact_witnesses[i].tolist()
        assert all(value(row, witness) > 0 for row in rows)
        if i not in open_of[WITNESS]:
            assert part.witnesses[i].tolist() == witness
        is_proven = i not in open_of[BALL]
        check_ball(rows, centres[i].tolist(), float(sizes[i]), is_proven=is_proven)
    return open_of


@pytest.mark.parametrize("domain", DOMAINS)
def test_measures_are_those_of_exact_cells(domain):
    models = [
        gaussian_relu(1, [2, 5, 4]),
        integer_relu(2, [2, 4, 3]),
        integer_relu(3, [2, 5, 2], zero_bias=True),
        integer_maxout(4, 2, [[3, 2], [2]]),
        integer_transformer(5, 2, 3, 2, 2),
        integer_transformer(6, 2, 4, 2, 1, repeat=True),
    ]
    for model in models:
        check(enumerate_regions(model, domain))


def test_generic_cells_are_all_measured_in_floats():
    for domain in DOMAINS:
        open_of = check(enumerate_regions(gaussian_relu(7, [2, 8, 8]), domain))
        assert not any(len(cells) for cells in open_of.values())


def test_cells_of_slices_are_measured_in_their_coordinates():
    model = gaussian_relu(8, [3, 6, 4])
    for inner in (Box([-2, -2], [2, 2]), WholeSpace(2)):
        piece = Slice([0.5, 0.1, 1.0], [[1.0, 0.5, 0.0], [0.3, 1.0, -0.25]], inner)
        check(enumerate_regions(model, piece))


def is_planar(seed):
    model, domain = model_and_domain(seed)
    return charted(domain, model.dim_in).dim == 2


@pytest.mark.parametrize("seed", [seed for seed in seeds(160) if is_planar(seed)])
def test_measures_at_every_magnitude(seed):
    check(enumerate_regions(*model_and_domain(seed)))


def test_a_cell_too_thin_for_floats_has_an_exact_point_and_volume():
    above = np.nextafter(1.0, 2.0)
    relu = ReluNetwork([[[0.0, 0.0], [1.0, 1.0]], [[1.0], [1.0]]], [[-1.0, -above], [0.0]])
    part = enumerate_regions(relu, Box([0.0, 0.0], [4.0, 4.0]))
    open_of = check(part)
    assert open_of[WITNESS].tolist() == open_of[VOLUME].tolist() == [1]
    assert part.volumes.tolist() == [4.0, 4.0 * (above - 1.0), 12.0 - 4.0 * (above - 1.0)]


def test_strips_have_balls_of_half_their_width():
    relu = ReluNetwork([[[1.0, 1.0], [2.0, 2.0]], [[1.0], [1.0]]], [[0.0, 5.0], [0.0]])
    part = enumerate_regions(relu, WholeSpace(2))
    check(part)
    np.testing.assert_allclose(part.chebyshev_centres[1], [np.inf, np.sqrt(5) / 2, np.inf])


def test_forms_that_coincide_on_a_cell_pass_their_mean_on():
    """Where x < 0 both keys win, and the wall of the last unit depends on the mean of values."""
    eye = np.eye(2)
    fold = FeedForward(eye, [0.0, 10.0], eye, [0.0, -10.0])
    head = AttentionHead(eye, [[1.0, 0.0], [-1.0, 0.0]], [[0.0, 1.0], [0.0, 4.0]], eye)
    unit = FeedForward([[0.0], [1.0]], [-2.0], [[0.0, 1.0]], [0.0, 0.0])
    blocks = [Block([], fold, ffn_residual=False), Block([head]), Block([], unit)]
    part = enumerate_regions(HardTransformer(blocks), Box([-2, -2], [2, 2]))
    check(part)
    assert sorted(part.volumes.tolist()) == [2.0, 3.0, 5.0, 6.0]
    assert len(part.found.measure(VOLUME).left_open) == 2


def test_tied_models_are_measured():
    for seed in range(20):
        model = integer_transformer(seed, 2, 3, 1, 3, 0, repeat=seed % 2 == 0)
        for domain in DOMAINS[:2]:
            check(enumerate_regions(model, domain))


@pytest.mark.parametrize("domain", DOMAINS)
def test_cells_read_back_are_measured_by_their_walls(domain):
    for model in (gaussian_relu(9, [2, 6, 5]), integer_transformer(5, 2, 3, 2, 2)):
        part = enumerate_regions(model, domain)
        cells = replace(part.cells, wall_names=None)
        cells.__dict__["walls"] = part.cells.walls
        again = replace(part, found=PlaneCells(part.network, part.domain, cells))
        np.testing.assert_array_equal(part.volumes, again.volumes)
        np.testing.assert_array_equal(part.witnesses, again.witnesses)
        assert (
            part.found.measure(BALL).left_open.tolist()
            == again.found.measure(BALL).left_open.tolist()
        )


def test_walls_that_the_domain_does_not_have_are_not_looked_up():
    part = enumerate_regions(gaussian_relu(9, [2, 3]), DOMAINS[0])
    cells = replace(part.cells, wall_names=None)
    walls = cells.__dict__["walls"] = part.cells.walls.copy()
    walls[walls[:, 0] == -1, 1] = 1 << 30
    again = replace(part, found=PlaneCells(part.network, part.domain, cells))
    assert len(again.found.measure(VOLUME).left_open) == part.n_found
    np.testing.assert_allclose(again.volumes, part.volumes, rtol=1e-12)


def uncertain_polygon(rng):
    """Draw lines around an ellipse, with radii, and lines that they may stand for."""
    n = int(rng.integers(3, 7))
    angles = np.sort(2 * np.pi * (np.arange(n) + rng.uniform(-0.2, 0.2, n)) / n)
    thinness = rng.choice([1.0, 1e2, 1e4])
    normals = np.column_stack([np.cos(angles), thinness * np.sin(angles)])
    radii = 10.0 ** rng.uniform(-13, -6, (n, 2)) * (rng.random((n, 2)) < 0.7)
    radii[:, 0] *= thinness
    edges = np.zeros((n, N_EDGE))
    edges[:, :2], edges[:, 2], edges[:, 4:6] = -normals, rng.uniform(0.95, 1.05, n), radii
    moved = [
        [Fraction(x) + int(s) * Fraction(r) for x, s, r in zip(row, sign, spread, strict=True)]
        for row, sign, spread in zip(
            edges[:, :3].tolist(),
            rng.choice([-1, 1], (n, 3)),
            radii[:, [0, 0, 1]].tolist(),
            strict=True,
        )
    ]
    return edges, moved


def test_answers_hold_for_every_polygon_that_the_lines_may_stand_for():
    n_answered = np.zeros(3, dtype=np.int64)
    rng = np.random.default_rng(0)
    for _ in range(1000):
        edges, moved = uncertain_polygon(rng)
        answers = np.zeros(7)
        left_open = core().hm_test_measure(len(edges), address(edges), address(answers))
        volume, radius, x, y, *centre, size = answers.tolist()
        scale = math.lcm(*(entry.denominator for row in moved for entry in row))
        rows = [tuple(int(entry * scale) for entry in row) for row in moved]
        if not left_open & VOLUME:
            sides = [(-row[0], -row[1], row[2]) for row in rows]
            check_volume(Polytope.from_rows(sides, 2).volume, volume, radius)
        if not left_open & WITNESS:
            assert all(value(row, [x, y]) > 0 for row in rows)
        if not left_open & BALL:
            check_ball(rows, centre, size, is_proven=True)
        n_answered += [not left_open & question for question in (VOLUME, WITNESS, BALL)]
    assert (n_answered > 200).all()
    assert (n_answered[[0, 2]] < 990).all()
