"""The compiled search on lines and in space: forms and vertices within their radii, same cells."""

from fractions import Fraction

import numpy as np
import pytest

from hardmax._core.library import core
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions._search import space as spatial
from hardmax.regions._search.exact_space import SpatialPath
from hardmax.regions._search.searches import BUDGET, CoreSearch
from tests.core.test_plane import assert_enclosed
from tests.region_models import (
    gaussian,
    gaussian_relu,
    integer_maxout,
    integer_relu,
    integer_transformer,
    relu,
    repeated_units,
    shrunk,
)

MODELS = {
    "gaussian": gaussian_relu(1, [3, 5, 4, 4]),
    "integers": integer_relu(2, [3, 4, 4]),
    "no biases": integer_relu(3, [3, 4, 3], zero_bias=True),
    "repeated units": repeated_units(3),
    "maxout": integer_maxout(4, 3, [[3, 2], [2, 2]]),
    "transformer": integer_transformer(5, 3, 3, 2),
    "repeated keys": integer_transformer(6, 3, 3, 2, repeat=True),
    "wide": relu(gaussian, [26, 25], dim=3),
    "tiny": relu(shrunk([-500, -560, *4 * [0]]), [6, 6], dim=3),
    "four": gaussian_relu(2, [4, 5, 4]),
    "five": integer_relu(2, [5, 4, 3]),
    "line": gaussian_relu(2, [1, 6, 5]),
    "line of integers": integer_transformer(7, 1, 4, 2, n_blocks=2),
}


def assert_vertices_enclosed(cell, exact):
    """The vertices of a cell lie within their radii of the true ones."""
    dim = cell.vertices.shape[1] // 2 - 1
    for row, vertex in zip(cell.vertices.tolist(), exact.vertices, strict=True):
        weight = Fraction(vertex[-1])
        for first in (0, dim):
            at = first + (first > 0)
            off = [
                abs(Fraction(x) - y / weight)
                for x, y in zip(row[at : at + dim], vertex[first : first + dim], strict=True)
            ]
            radius = row[at + dim]
            # Nothing is said about the point of a vertex at infinity whose direction is unknown.
            if radius < np.inf:
                assert max(off) <= Fraction(radius)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("is_bounded", [True, False])
@pytest.mark.parametrize(("improves", "stores"), [(False, False), (False, True), (True, True)])
def test_everything_lies_within_its_radius_at_every_step(
    name, is_bounded, improves, stores, monkeypatch
):
    network = MODELS[name].network
    dim = network.dim_in
    # A wide network has many cells.
    domain = Box([-2.0] * dim, [3.0] * dim) if name != "wide" else Box([-0.1] * dim, [0.1] * dim)
    if not is_bounded:
        domain = WholeSpace(dim)
    most = 400
    plain = spatial.explore(network, domain, max_cells=most)
    run, path_of, n_looks = CoreSearch.run, {}, [0]
    where = spatial.read_spatial_domain(domain, dim)

    def in_small_steps(search, room, limit, budget, _):
        path = path_of.setdefault(search, SpatialPath(network, where, search))
        for _ in range(budget):
            status = run(search, room, limit, 1)
            if status != BUDGET:
                return status
            (layer, position, _), _ = search.top()
            if position >= 0 and layer < len(network.layers):
                if improves:
                    core().hm_test_improve(search.address)
                n_looks[0] += 1
                if n_looks[0] % 5 == 1:
                    assert_enclosed(search, path, layer)
                    _, cell = search.top()
                    assert_vertices_enclosed(cell, path.exact_cell(cell, refresh=False))
        return BUDGET

    monkeypatch.setattr(CoreSearch, "run", in_small_steps)
    found = spatial.explore(network, domain, max_cells=most, count_only=not stores)
    assert n_looks[0] > 0
    assert found.n_counted == plain.n_counted
    if not stores:
        return
    # What is stored does not depend on what the search knew.
    assert np.array_equal(found.signatures, plain.signatures)
    assert np.array_equal(found.maps, plain.maps)
    assert np.array_equal(found.vertices, plain.vertices)
    assert np.array_equal(found.facets.facets, plain.facets.facets)
    assert np.array_equal(found.facets.blurs, plain.facets.blurs)


@pytest.mark.parametrize("name", MODELS)
def test_cells_come_in_the_order_of_their_signatures(name):
    dim = MODELS[name].network.dim_in
    box = Box([-0.2] * dim, [0.3] * dim)
    signatures = spatial.explore(MODELS[name].network, box).signatures.tolist()
    assert signatures == sorted(signatures)


@pytest.mark.parametrize("name", MODELS)
def test_cells_are_counted_by_sections_as_they_are_found(name):
    network = MODELS[name].network
    dim = network.dim_in
    for domain in (Box([-2] * dim, [3] * dim), Box([0] * dim, [1] * dim), WholeSpace(dim)):
        # With a limit every cell is made.
        made = spatial.explore(network, domain, count_only=True, max_cells=10**9)
        assert spatial.explore(network, domain, count_only=True).n_counted == made.n_counted


def test_sections_decide_fewer_signs_than_cuts():
    network, domain = gaussian_relu(1, [4, 8, 8]).network, Box([-5] * 4, [5] * 4)
    made = spatial.explore(network, domain, count_only=True, max_cells=10**9)
    counted = spatial.explore(network, domain, count_only=True)
    assert counted.n_counted == made.n_counted > 1000
    assert counted.decisions.filtered < made.decisions.filtered / 2


def test_sections_need_no_simple_vertices():
    # All walls of the head pass through the origin, a vertex of every part.
    rng = np.random.default_rng(2)
    keys, weight, bias = (rng.normal(size=size) for size in ((6, 3), (3, 16), 16))
    head = AttentionHead(np.eye(3), keys, keys, np.eye(3))
    units = FeedForward(weight, bias, weight.T, None)
    network, domain = HardTransformer([Block([head], units)]).network, Box([-2] * 3, [2] * 3)
    made = spatial.explore(network, domain, count_only=True, max_cells=10**9)
    counted = spatial.explore(network, domain, count_only=True)
    assert counted.n_counted == made.n_counted > 100
    assert counted.decisions.filtered < made.decisions.filtered / 5


def test_few_rivals_are_looked_at_at_every_vertex_of_a_part():
    sites = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    model = MaxoutNetwork([[2 * sites], np.ones((1, 1))], [[-(sites**2).sum(axis=1)], np.zeros(1)])
    found = spatial.explore(model.network, Box([-1] * 3, [1] * 3))
    # Every site wins where it is.
    assert found.signatures.ravel().tolist() == list(range(len(sites)))
    # A part has some 20 vertices.
    assert found.decisions.filtered < 15 * len(sites) ** 2
