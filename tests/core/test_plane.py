"""The compiled search of the plane: forms within their radii at every step, and the same cells."""

from fractions import Fraction

import numpy as np
import pytest

from hardmax._core.library import core
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.regions._search import plane as planar
from hardmax.regions._search.exact_plane import PlanarPath
from hardmax.regions._search.rounded_forms import scale_ratio
from hardmax.regions._search.searches import BUDGET, CoreSearch
from tests.region_models import (
    dense_integers,
    gaussian,
    gaussian_relu,
    integer_maxout,
    integer_relu,
    integer_transformer,
    maxout,
    relu,
    repeated_units,
    shrunk,
)

MODELS = {
    "gaussian": gaussian_relu(1, [2, 6, 5, 5]),
    "integers": integer_relu(2, [2, 5, 4, 4]),
    "no biases": integer_relu(3, [2, 5, 4], zero_bias=True),
    "repeated units": repeated_units(2),
    "maxout": integer_maxout(4, 2, [[3, 2, 2], [2, 3], [2, 2]]),
    "transformer": integer_transformer(5, 2, 4, 2, n_blocks=2),
    "repeated keys": integer_transformer(6, 2, 4, 2, n_blocks=2, repeat=True),
    "wide": relu(gaussian, [26, 25, 24]),
    "wide integers": relu(dense_integers, [26, 25]),
    "wide maxout": maxout(gaussian, [26, 25]),
    "products underflow": relu(shrunk([-500, -560, *6 * [0]]), [26, 25, 24]),
    "subnormal weights": relu(shrunk([0, -1060, *6 * [0]]), [26, 25, 24]),
    "large again": relu(shrunk([-540, -540, 900, *5 * [0]]), [26, 25, 24]),
}
DOMAINS = {
    "box": Box([-2, -2], [3, 3]),
    "plane": WholeSpace(2),
    "small": Box([-0.1] * 2, [0.2] * 2),
}
TINY = "products underflow", "subnormal weights", "large again"
CASES = [
    (name, "small" if "wide" in name or name in TINY else domain)
    for name in MODELS
    for domain in ("box", "plane")
]


def assert_enclosed(search, path, layer):
    """The scores of a layer lie within their radii of the true ones."""
    forms = path.scores(layer, refresh=False)
    up, down = scale_ratio(forms)
    rows = forms.rows[1::2] if path.network.layers[layer].is_relu else forms.rows
    scale = Fraction(path.scale)
    for column, row in zip(search.scores(layer, len(rows)).T.tolist(), rows, strict=True):
        off = [
            abs(Fraction(x) - Fraction(int(y) * up, down))
            for x, y in zip(column[:-1], row, strict=True)
        ]
        *slopes, offset = off
        assert max(*(x * scale for x in slopes), offset) <= Fraction(column[-1])


@pytest.mark.parametrize(("name", "where"), sorted(set(CASES)))
@pytest.mark.parametrize("improves", [False, True])
def test_scores_lie_within_their_radii_at_every_step(name, where, improves, monkeypatch):
    network, domain = MODELS[name].network, DOMAINS[where]
    plain = planar.explore(network, domain)
    run, path_of, n_looks = CoreSearch.run, {}, [0]

    def in_small_steps(search, room, limit, budget, _):
        path = path_of.setdefault(
            search, PlanarPath(network, planar.read_planar_domain(domain, 2), search)
        )
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
        return BUDGET

    monkeypatch.setattr(CoreSearch, "run", in_small_steps)
    found = planar.explore(network, domain)
    assert n_looks[0] > 0
    assert found.signatures.tolist() == plain.signatures.tolist()
    # What is stored does not depend on what the search knew.
    assert np.array_equal(found.maps, plain.maps)
    assert np.array_equal(found.vertices, plain.vertices)
    assert np.array_equal(found.walls, plain.walls)


@pytest.mark.parametrize("name", MODELS)
def test_cells_come_in_the_order_of_their_signatures(name):
    signatures = planar.explore(MODELS[name].network, DOMAINS["small"]).signatures.tolist()
    assert signatures == sorted(signatures)
