"""Largest balls and volumes at all magnitudes of walls, against integers."""

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.regions._measures.measures import inscribed_ball, precise_ball
from tests.magnitudes import IDS, MAGNITUDES


def square_of_room(rows, centre):
    """The square of the distance of a point inside from the walls of a cell."""
    point = [*map(Fraction, centre.tolist()), Fraction(1)]
    squares = []
    for row in rows:
        value = sum(a * x for a, x in zip(row, point, strict=True))
        norm = sum(a * a for a in row[:-1])
        if norm:
            assert value >= 0
            squares.append(value**2 / norm)
    return min(squares)


def crossed_box(magnitude, dim):
    """Two walls across a box, with weights of a magnitude."""
    weight = np.zeros((dim, 2))
    weight[:2] = [[magnitude, magnitude], [-magnitude, magnitude]]
    net = hm.ReluNetwork([weight, np.ones((2, 1))], [np.array([0.0, magnitude / 2]), None])
    return hm.enumerate_regions(net, hm.Box([-1] * dim, [1] * dim))


@pytest.mark.parametrize("magnitude", [*MAGNITUDES, 1e-161], ids=[*IDS, "1e-161"])
@pytest.mark.parametrize("dim", [2, 3, 4])
def test_balls_lie_in_their_cells_and_volumes_within_their_radii(magnitude, dim):
    part = crossed_box(min(magnitude, 2.0**1022), dim)
    centres, radii = part.chebyshev_centres
    for i in range(part.n_found):
        rows = [*part.rows(i).walls]
        assert 0.0 < radii[i] < np.inf
        assert Fraction(radii[i]) ** 2 <= square_of_room(rows, centres[i])
        if dim <= 3:
            assert radii[i] >= precise_ball(rows, dim)[1] * (1 - 2.0**-19)
    gaps = zip(part.volumes.tolist(), part.exact_volumes, part.volume_radii.tolist(), strict=True)
    for volume, exact, radius in gaps:
        assert abs(Fraction(volume) - exact) <= Fraction(radius)


@pytest.mark.parametrize("exponent", [0, 300, 540, 900])
def test_a_ball_far_from_the_origin_is_in_its_cell(exponent):
    far = 1 << exponent
    sides = [[int(k == i) for k in range(4)] for i in range(4)]
    rows = [(*side, far) for side in sides] + [(*(-x for x in side), far) for side in sides]
    rows += [(1, 1, 0, 0, far // 4)]
    centre, radius = inscribed_ball([tuple(row) for row in rows], 4)
    assert radius > 0.4 * far
    assert Fraction(radius) ** 2 <= square_of_room(rows, centre)
