"""Scores updated from those of the last region: within their radii of the truth, exact alike."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hardmax._kernels.composition import compose_output, compose_scores
from hardmax._kernels.layouts import FIRST_GROUP, N_UPDATES, SCORES_ARE_EXACT
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.regions import planar, spatial
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.planar_tables import adapted, network_tables
from tests.plane_frames import PLANE, new_frames

SCALE = 8.0


def gaussian(rng, shape):
    return rng.normal(0, np.sqrt(2 / shape[0]), shape)


def dense_integers(rng, shape):
    return rng.integers(1, 4, shape) * rng.choice([-1.0, 1.0], shape)


def sparse_integers(rng, shape):
    return rng.integers(-2, 3, shape).astype(float)


def wild(rng, shape):
    return rng.normal(size=shape) * 10.0 ** rng.integers(-8, 9, shape)


def relu(draw, widths, seed=0, dim=2):
    rng = np.random.default_rng(seed)
    sizes = [dim, *widths, 1]
    weights = [draw(rng, shape) for shape in pairwise(sizes)]
    return ReluNetwork(weights, [draw(rng, (1, n))[0] for n in sizes[1:]])


def maxout(draw, widths, rank=2, seed=0, dim=2):
    rng = np.random.default_rng(seed)
    sizes = [dim, *widths]
    shapes = list(pairwise(sizes))
    weights = [[draw(rng, (fan, rank)).T for _ in range(n)] for fan, n in shapes]
    biases = [[draw(rng, (1, rank))[0] for _ in range(n)] for _, n in shapes]
    return MaxoutNetwork([*weights, np.ones((sizes[-1], 1))], [*biases, [0.0]])


class Walk:
    """The scores of all layers but the first, as the winners before them change."""

    def __init__(self, model):
        self.network = model.network
        self.tables = adapted(network_tables(self.network), SCALE, starts_homogeneous=False)
        self.winners = [np.zeros(layer.n_groups, dtype=int) for layer in self.network.layers]
        self.restart()

    def restart(self):
        """Forget everything but the winners, and compose afresh."""
        self.frames = new_frames(self.tables, self.network.n_groups)
        self.frames.blocks[0, :2, :2] = np.eye(2)
        self.frames.flags[0, :2] = 1, 0
        compose_scores(self.tables, self.frames, 0, PLANE)
        self.go(0)

    def go(self, layer):
        """Compose everything after a layer whose winners have changed."""
        for i in range(layer, len(self.winners) - 1):
            first = self.tables.layout[i, FIRST_GROUP]
            self.frames.signature[first : first + len(self.winners[i])] = self.winners[i]
            compose_output(self.tables, self.frames, i, PLANE)
            compose_scores(self.tables, self.frames, i + 1, PLANE)

    def change(self, rng, layer, n):
        """Let other forms win in some groups of a layer."""
        for g in rng.choice(len(self.winners[layer]), n, replace=False):
            rank = np.diff(self.network.layers[layer].starts)[g]
            self.winners[layer][g] = (self.winners[layer][g] + rng.integers(1, rank)) % rank
        self.go(layer)

    def n_updates(self, layer):
        return int(self.frames.flags[layer, N_UPDATES]) - 1

    def scores(self, layer):
        """The float block of a layer: of a ReLU layer, one form for each unit."""
        n = self.network.layers[layer].n_groups if self.is_relu else self.n_forms(layer)
        return self.frames.blocks[len(self.tables.layout) + layer][:, :n]

    @property
    def is_relu(self):
        return not self.network.layers[0].gains[0]

    def n_forms(self, layer):
        return len(self.network.layers[layer].offsets)

    def weights(self, layer):
        """Rows `(n_in, n_forms)` and offsets of the forms of a layer."""
        model = self.network.layers[layer]
        if self.is_relu:
            return exact(model.query.weight), exact(model.query.bias)
        return exact(model.dense_slopes().T), exact(model.offsets)

    def picked(self, layer, forms):
        """What the winners of a layer pass on of its forms, rows `(a, b, c)`."""
        if self.is_relu:
            return forms * self.winners[layer][:, np.newaxis]
        return forms[self.network.layers[layer].starts[:-1] + self.winners[layer]]

    def true_scores(self, layer):
        """The forms of a layer by definition, in fractions, rows `(a, b, c)`."""
        stream = exact([[1, 0, 0], [0, 1, 0]])
        for i in range(layer + 1):
            weight, bias = self.weights(i)
            forms = weight.T @ stream
            forms[:, 2] += bias
            stream = self.picked(i, forms)
        return forms


def exact(array):
    return np.vectorize(Fraction, otypes=[object])(np.asarray(array, dtype=float))


def assert_encloses(block, truth):
    for (a, b, c, radius), row in zip(block.T, truth, strict=True):
        assert abs(Fraction(a) - row[0]) * Fraction(SCALE) <= Fraction(radius)
        assert abs(Fraction(b) - row[1]) * Fraction(SCALE) <= Fraction(radius)
        assert abs(Fraction(c) - row[2]) <= Fraction(radius)


MODELS = {
    "gaussian": relu(gaussian, [16, 14]),
    "dense integers": relu(dense_integers, [16, 14]),
    "sparse integers": relu(sparse_integers, [16, 14]),
    "wild": relu(wild, [16, 14]),
    "three layers": relu(gaussian, [14, 16, 14]),
    "maxout": maxout(gaussian, [14, 12]),
    "integer maxout": maxout(sparse_integers, [14, 12], rank=3),
    "wild maxout": maxout(wild, [14, 12]),
}


@pytest.mark.parametrize("name", MODELS)
def test_updated_scores_enclose_the_truth(name):
    rng = np.random.default_rng(1)
    walk = Walk(MODELS[name])
    walk.change(rng, 0, 7)
    last = len(walk.winners) - 1
    most = 0
    for _ in range(20):
        for layer in range(last):
            walk.change(rng, layer, int(rng.choice([1, 1, 2])))
            most = max(most, walk.n_updates(layer + 1))
        assert_encloses(walk.scores(last), walk.true_scores(last))
    # Weights of very different sizes are always composed afresh.
    assert most > 3 or ("wild" in name and most == 0)


@pytest.mark.parametrize("name", ["dense integers", "sparse integers", "integer maxout"])
def test_integers_stay_exact(name):
    rng = np.random.default_rng(2)
    walk = Walk(MODELS[name])
    walk.change(rng, 0, 7)
    for _ in range(8):
        walk.change(rng, 0, 1)
        assert walk.frames.flags[1, SCORES_ARE_EXACT] == 1
        assert not walk.scores(1)[3].any()
        assert (exact(walk.scores(1)[:3].T) == walk.true_scores(1)).all()
    assert walk.n_updates(1) > 3


def test_integers_that_grow_too_large_are_rounded_with_radii():
    first = np.ones((2, 16))
    second = np.ones((16, 12))
    # A sum of one more odd number than fits: on the grid of integers it would be rounded.
    second[15] = 2.0**50 + 1.0
    biases = [np.arange(16.0) * 2 + 1, np.ones(12), None]
    walk = Walk(ReluNetwork([first, second, np.ones((12, 1))], biases))
    walk.winners[0][:10] = 1
    walk.go(0)
    assert walk.frames.flags[1, SCORES_ARE_EXACT] == 1
    walk.winners[0][15] = 1
    walk.go(0)
    assert walk.frames.flags[1, SCORES_ARE_EXACT] == 0
    assert_encloses(walk.scores(1), walk.true_scores(1))


@pytest.mark.parametrize("name", ["gaussian", "maxout"])
def test_radii_of_the_stream_are_counted_as_long_as_it_has_them(name):
    # |rho| + sum |w| e <= r, with radii much larger than any rounding.
    rng = np.random.default_rng(3)
    walk = Walk(MODELS[name])
    walk.scores(0)[3] = rng.uniform(1.0, 2.0, walk.scores(0).shape[1]) * 1e-3
    walk.frames.flags[0, SCORES_ARE_EXACT] = 0
    walk.winners[0][:8] = 1
    walk.frames.flags[:, N_UPDATES] = 0
    walk.go(0)
    weight, bias = walk.weights(1)
    for _ in range(12):
        walk.change(rng, 0, 1)
        stream = walk.picked(0, exact(walk.scores(0)[:3].T))
        radii = walk.picked(0, exact(walk.scores(0)[3:].T))[:, 0]
        sums = weight.T @ stream
        sums[:, 2] += bias
        rho = abs(exact(walk.scores(1)[:3].T) - sums)
        rho[:, :2] *= Fraction(SCALE)
        held = exact(walk.scores(1)[3])
        needed = abs(weight).T @ radii
        assert (rho.max(axis=1) + needed <= held).all()
        # And forgotten when it has them no more.
        assert (held <= needed * Fraction(1001, 1000)).all()
    assert walk.n_updates(1) > 3


@pytest.mark.parametrize("name", MODELS)
def test_radii_stay_near_those_of_a_fresh_composition(name):
    rng = np.random.default_rng(4)
    walk = Walk(MODELS[name])
    walk.change(rng, 0, 7)
    for _ in range(40):
        walk.change(rng, 0, 1)
        updated = walk.scores(1)[3].copy()
        frames = walk.frames
        walk.restart()
        assert updated.sum() <= 5.0 * walk.scores(1)[3].sum()
        walk.frames = frames


def test_forms_without_any_weight_left_are_zero():
    # Unit 0 of the second layer hears only unit 0 of the first: without it, it is its bias.
    rng = np.random.default_rng(5)
    second = gaussian(rng, (16, 12))
    second[1:, 0] = 0.0
    walk = Walk(ReluNetwork([gaussian(rng, (2, 16)), second, np.ones((12, 1))]))
    walk.winners[0][:] = 1
    walk.go(0)
    assert walk.scores(1)[3, 0] > 0.0
    walk.winners[0][0] = 0
    walk.go(0)
    assert not walk.scores(1)[:, 0].any()


@pytest.mark.parametrize(
    ("model", "domain"),
    [
        (relu(gaussian, [24, 24]), Box([-0.5, -0.5], [0.5, 0.5])),
        (relu(gaussian, [13, 13, 13]), Box([-2, -2], [2, 2])),
        (relu(dense_integers, [16, 16]), Box([-1, -1], [1, 1])),
        (relu(lambda rng, shape: dense_integers(rng, shape) / 3, [13, 13]), Box([-1, -1], [1, 1])),
        (maxout(gaussian, [13, 13]), Box([-2, -2], [2, 2])),
        (relu(gaussian, [16, 16], dim=3), Box([-0.5] * 3, [0.5] * 3)),
        (relu(sparse_integers, [12, 12]), WholeSpace(2)),
    ],
)
def test_wide_models_have_the_cells_found_in_integers_alone(model, domain):
    found = enumerate_regions(model, domain)
    truth = enumerate_regions(model, domain, exact=True)
    assert found.n_cells == truth.n_cells > 20
    assert {tuple(s) for s in found.signatures} == {tuple(s) for s in truth.signatures}


def test_winners_of_small_groups_are_stored_in_bytes_however_many_there_are():
    wide = relu(gaussian, [150])
    assert planar.explore(wide.network, Box([-0.1] * 2, [0.1] * 2)).signatures.dtype == np.uint8
    deep = relu(gaussian, [150], dim=3).network
    assert spatial.explore(deep, Box([-0.01] * 3, [0.01] * 3)).signatures.dtype == np.uint8
