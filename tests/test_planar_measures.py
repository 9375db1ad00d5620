"""Volumes, points inside and largest balls of planar cells against exact ones."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hardmax.geometry.domains import Box, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.networks import ReluNetwork
from hardmax.regions.charted_domains import charted
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.measures import BALL, MEASURED, VOLUME, WITNESS, is_wide, precise_ball
from tests.extreme_models import LEAST, model_and_domain
from tests.region_models import gaussian_relu, integer_maxout, integer_relu, integer_transformer

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
    if radius == math.inf:
        assert is_wide(rows, 2)
        return
    largest = Fraction(precise_ball(rows, 2)[1])
    assert largest * (1 - 2 * PART) <= Fraction(radius) <= largest * (1 + PART)
    for row in rows if is_proven else ():
        distance = value(row, centre)
        assert distance >= 0
        assert distance**2 >= Fraction(radius) ** 2 * sum(x * x for x in row[:-1])


def check(part):
    """Compare everything about the cells with what is exact; return the answers left open."""
    open_of = {question: part._measured(question).left_open for question in (VOLUME, WITNESS, BALL)}
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


@pytest.mark.parametrize("seed", [seed for seed in range(500) if is_planar(seed)])
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
    """A later wall depends on the mean, which the core leaves to integers."""
    for seed in range(40):
        model = integer_transformer(seed, 2, 3, 1, 3, 0, repeat=seed % 2 == 0)
        for domain in DOMAINS[:2]:
            check(enumerate_regions(model, domain))


@pytest.mark.parametrize("domain", DOMAINS)
def test_cells_read_back_are_measured_by_their_walls(domain):
    for model in (gaussian_relu(9, [2, 6, 5]), integer_transformer(5, 2, 3, 2, 2)):
        part = enumerate_regions(model, domain)
        cells = replace(part.cells, wall_names=None)
        cells.__dict__["walls"] = part.cells.walls
        again = replace(part, cells=cells)
        np.testing.assert_array_equal(part.volumes, again.volumes)
        np.testing.assert_array_equal(part.witnesses, again.witnesses)
        assert part._measured(BALL).left_open.tolist() == again._measured(BALL).left_open.tolist()


def test_walls_that_the_domain_does_not_have_are_not_looked_up():
    part = enumerate_regions(gaussian_relu(9, [2, 3]), DOMAINS[0])
    cells = replace(part.cells, wall_names=None)
    walls = cells.__dict__["walls"] = part.cells.walls.copy()
    walls[walls[:, 0] == -1, 1] = 1 << 30
    again = replace(part, cells=cells)
    assert len(again._measured(VOLUME).left_open) == part.n_found
    np.testing.assert_allclose(again.volumes, part.volumes, rtol=1e-12)
