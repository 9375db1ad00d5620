"""Vertices as they are written down: close to the true ones, whatever bounds on rounding say."""

from itertools import pairwise

import numpy as np
import pytest

from hardmax.geometry.domains import Box
from hardmax.models.networks import ReluNetwork
from hardmax.regions.engines import enumerate_regions


def gaussian(rng, shape):
    return rng.normal(0, np.sqrt(2 / shape[0]), shape)


def relu(draw, widths, seed=0, dim=2):
    rng = np.random.default_rng(seed)
    sizes = [dim, *widths, 1]
    weights = [draw(rng, shape) for shape in pairwise(sizes)]
    return ReluNetwork(weights, [draw(rng, (1, n))[0] for n in sizes[1:]])


BOX = Box([-1, -1], [1, 1])


def cancelling(factor, seed=5, n=12):
    """A network that takes the small differences of large units, times a factor."""
    rng = np.random.default_rng(seed)
    first, bias = rng.normal(size=(2, n)), rng.normal(size=n) + 6
    slopes = np.concatenate([first, first + rng.normal(size=(2, n)) / factor], axis=1)
    offsets = np.concatenate([bias, bias + rng.normal(0, 0.3, n) / factor])
    differences = np.concatenate([np.eye(n) * factor, np.eye(n) * -factor])
    weights = [slopes, differences, rng.normal(0, 0.4, (n, n)), rng.normal(size=(n, 1))]
    return ReluNetwork(weights, [offsets, np.zeros(n), rng.normal(0, 0.3, n), [0.0]])


def worst_error(part):
    worst = 0.0
    for i in range(part.n_cells):
        start, end = part.cells.starts[i : i + 2]
        stored, true = part.cells.vertices[start:end], part.polytope(i).vertices
        apart = np.abs(true[:, np.newaxis] - stored).max(axis=2)
        worst = max(worst, apart.min(axis=0).max(), apart.min(axis=1).max())
    return worst


@pytest.mark.parametrize("factor", [1e6, 1e9, 1e11])
def test_vertices_of_cancelling_networks_are_right(factor):
    assert worst_error(enumerate_regions(cancelling(factor), BOX)) < 1e-9


def test_vertices_of_deep_networks_are_right():
    part = enumerate_regions(relu(gaussian, [14] * 24), Box([-0.2, -0.2], [0.2, 0.2]))
    assert part.n_cells > 20
    assert worst_error(part) < 1e-11
