"""Lines, hulls and products are the same in every bit for every instruction set."""

import hashlib

import numpy as np
import pytest

from hardmax.geometry._hulls.nearest_points import nearest_point
from hardmax.geometry.domains import Line, Segment
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.regions._lines import lines
from hardmax.tropical.matrices.products import max_plus_product
from tests.core.instruction_sets import RUNNABLE, printed
from tests.region_models import gaussian_relu, integer_relu


def found_along_lines():
    """Yield the ends, maps and radii of cells, on sizes around those of panels and tiles."""
    rng = np.random.default_rng(0)
    sizes = [[3, 9, 8, 7, 2], [2, 40, 33, 1], [4, 3, 3, 3, 3, 5], [2, 300, 13, 1]]
    models = [*(gaussian_relu(i, one) for i, one in enumerate(sizes)), integer_relu(1, [2, 6, 5])]
    for model in models:
        start, end = 3.0 * rng.normal(size=(2, model.network.dim_in))
        for domain in (Segment(start, end), Line(start, end)):
            cells = lines.explore(model.network, domain).arrays
            yield from (cells.vertices, cells.maps, cells.map_radii)


def found_in_hulls():
    rng = np.random.default_rng(1)
    for dim, n_sets, n_points in ((2, 3, 9), (3, 2, 20), (5, 2, 9), (9, 2, 12)):
        sets = [np.round(9.0 * rng.normal(size=(n_points, dim))) for _ in range(n_sets)]
        found = minkowski_vertices(sets)
        yield from (found.choices, found.directions)
        rows = rng.normal(size=(70, dim)) + 1.0
        nearest = nearest_point(rows / np.linalg.norm(rows, axis=1)[:, None], quality=0.9)
        yield from (nearest.support, nearest.weights, nearest.point)
    yield max_plus_product(rng.normal(size=(37, 41)), rng.normal(size=(41, 29)))


def digests():
    arrays = [*found_along_lines(), *found_in_hulls()]
    return [hashlib.sha256(np.ascontiguousarray(one).tobytes()).hexdigest() for one in arrays]


@pytest.mark.parametrize("name", RUNNABLE)
def test_every_instruction_set_finds_the_same_in_every_bit(name):
    program = "from tests.core.test_instruction_sets import digests; print(*digests())"
    assert printed(name, program) == digests()
