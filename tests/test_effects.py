"""What units do to later scores: rows corrected where few units were switched, with radii."""

from fractions import Fraction

import numpy as np
import pytest

from hardmax._kernels import effect_buffers
from hardmax._kernels.composition import compose_output
from hardmax._kernels.effect_buffers import effect_arrays
from hardmax._kernels.effects import refresh_effects
from hardmax._kernels.layouts import IS_TOTAL, N_CHANGES, SCORES_ARE_EXACT
from hardmax.geometry.domains import Box
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.planar_tables import adapted, network_tables
from tests.plane_frames import PLANE
from tests.test_composition_updates import (
    Walk,
    assert_encloses,
    dense_integers,
    exact,
    gaussian,
    maxout,
    relu,
)

WIDTHS = [14, 16, 13, 15, 14]
MODELS = {
    "gaussian": relu(gaussian, WIDTHS),
    "integers": relu(dense_integers, WIDTHS[:4]),
    "maxout": maxout(gaussian, WIDTHS[:4], rank=3),
    "integer maxout": maxout(dense_integers, WIDTHS[:4]),
}


@pytest.fixture(autouse=True)
def narrow_layers_are_worth_it(monkeypatch):
    monkeypatch.setattr(effect_buffers, "_WIDTH_PER_LAYER", 1)


def true_effect(network, winners, layer, unit, target):
    """The row by definition, in fractions."""
    row = weights(network.layers[layer + 1])[unit]
    for k in range(layer + 2, target + 1):
        before = network.layers[k - 1]
        picked = (
            row * winners[k - 1] if before.is_relu else row[before.starts[:-1] + winners[k - 1]]
        )
        row = picked @ weights(network.layers[k])
    return row


def weights(layer):
    """Rows `(n_in, n_scores)` in fractions."""
    return exact(layer.query.weight if layer.is_relu else layer.dense_slopes().T)


class Patterns:
    """Which units are on, as they are switched, and the effects of all units."""

    def __init__(self, model, seed):
        self.rng = np.random.default_rng(seed)
        self.network = model.network
        self.tables = network_tables(self.network)
        self.arrays = effect_arrays(self.tables)
        widths = [layer.n_groups for layer in self.network.layers]
        self.ranks = [np.diff(layer.starts) for layer in self.network.layers]
        self.winners = [self.rng.integers(0, ranks) for ranks in self.ranks]
        self.order = np.zeros((1, max(widths)), dtype=np.int64)

    def switch(self, layer, n):
        units = self.rng.choice(len(self.winners[layer]), n, replace=False)
        self.winners[layer][units] += 1
        self.winners[layer][units] %= self.ranks[layer][units]

    def refresh(self, layer, units, reach):
        self.order[0, : len(units)] = units
        composed = np.zeros((len(self.winners), self.order.shape[1]), dtype=np.int8)
        for row, winners in zip(composed, self.winners, strict=True):
            row[: len(winners)] = winners
        arrays = self.arrays
        refresh_effects(
            self.tables, composed, arrays["effects"],
            arrays["effect_places"], arrays["effect_bounds"], arrays["effect_patterns"],
            arrays["effect_lists"], arrays["effect_changes"], self.order, len(units), layer, reach,
        )  # fmt: skip

    def row(self, layer, unit, target):
        n = weights(self.network.layers[target]).shape[1]
        start = self.arrays["effect_places"][layer, target] + unit * n
        return exact(self.arrays["effects"][start : start + n])

    def radius(self, layer, unit, target):
        return Fraction(float(self.arrays["effect_bounds"][0, layer, target, unit]))

    def size(self, layer, unit, target):
        return Fraction(float(self.arrays["effect_bounds"][1, layer, target, unit]))


@pytest.mark.parametrize("name", MODELS)
def test_effects_follow_the_units_that_are_switched(name):
    patterns = Patterns(MODELS[name], seed=0)
    last = len(patterns.winners) - 1
    largest = Fraction(0)
    for _ in range(25):
        for layer in range(1, last):
            patterns.switch(layer, int(patterns.rng.choice([0, 1, 1, 2])))
        layer = int(patterns.rng.integers(0, last - 1))
        reach = int(patterns.rng.integers(layer + 2, last + 1))
        units = patterns.rng.choice(10, 2, replace=False)
        patterns.refresh(layer, units, reach)
        for unit in units.tolist():
            for target in range(layer + 2, reach + 1):
                truth = true_effect(patterns.network, patterns.winners, layer, unit, target)
                error = max(abs(patterns.row(layer, unit, target) - truth))
                assert error <= patterns.radius(layer, unit, target)
                assert max(abs(truth)) <= patterns.size(layer, unit, target)
                largest = max(largest, error)
    # Integers are exact; with the others the radii have something to hold.
    assert (largest == 0) == ("integer" in name)


def test_effects_are_corrected_and_not_always_computed_again(monkeypatch):
    patterns = Patterns(MODELS["gaussian"], seed=1)
    patterns.refresh(0, [3], 4)
    computed = patterns.arrays["effect_bounds"].copy()
    patterns.switch(1, 1)
    patterns.switch(2, 1)
    patterns.refresh(0, [3], 4)
    # A correction adds to sizes; rows computed from scratch may have smaller ones.
    assert (patterns.arrays["effect_bounds"][1, 0, 2:5, 3] > computed[1, 0, 2:5, 3]).all()
    assert patterns.arrays["effect_lists"][1, 0, 3] == 2


def test_integers_too_large_for_their_grid_get_radii():
    weights = [np.ones((2, 14)), *(np.full((14, 14), 2.0**18 + 1.0) for _ in range(3))]
    patterns = Patterns(ReluNetwork([*weights, np.ones((14, 1))]), seed=2)
    patterns.refresh(0, [0], 3)
    assert patterns.radius(0, 0, 2) == 0 < patterns.radius(0, 0, 3)
    for target in (2, 3):
        truth = true_effect(patterns.network, patterns.winners, 0, 0, target)
        assert max(abs(patterns.row(0, 0, target) - truth)) <= patterns.radius(0, 0, target)


@pytest.mark.parametrize("name", MODELS)
def test_scores_of_all_later_layers_enclose_the_truth(name):
    rng = np.random.default_rng(3)
    walk = Walk(MODELS[name])
    last = len(walk.winners) - 1
    for layer in range(last):
        walk.change(rng, layer, 7)
    n_spread = 0
    for _ in range(12):
        for layer in range(last):
            walk.change(rng, layer, int(rng.choice([1, 1, 2])))
            n_spread += int(walk.frames.flags[:, IS_TOTAL].sum())
        for layer in range(1, last + 1):
            assert_encloses(walk.scores(layer), walk.true_scores(layer))
    assert n_spread > 30


def test_changes_reach_layers_that_are_not_composed_again():
    rng = np.random.default_rng(4)
    walk = Walk(MODELS["gaussian"])
    for layer in range(4):
        walk.change(rng, layer, 7)
    before = walk.frames.flags[:, N_CHANGES].copy()
    walk.winners[0][0] ^= 1
    walk.frames.signature[0] = walk.winners[0][0]
    compose_output(walk.tables, walk.frames, 0, PLANE)
    # No layer after the first has been entered, and the scores of all are right.
    assert (walk.frames.flags[1:5, N_CHANGES] == before[1:5] + 1).all()
    for layer in range(1, 5):
        assert_encloses(walk.scores(layer), walk.true_scores(layer))


@pytest.mark.parametrize("name", ["integers", "integer maxout"])
def test_integers_stay_exact_in_all_layers(name):
    rng = np.random.default_rng(5)
    walk = Walk(MODELS[name])
    for layer in range(3):
        walk.change(rng, layer, 11)
    n_spread = 0
    for _ in range(8):
        for layer in range(3):
            walk.change(rng, layer, 1)
            n_spread += int(walk.frames.flags[:, IS_TOTAL].sum())
        for layer in range(1, 4):
            assert walk.frames.flags[layer, SCORES_ARE_EXACT] == 1
            assert (exact(walk.scores(layer)[:3].T) == walk.true_scores(layer)).all()
            assert not walk.scores(layer)[3].any()
    assert n_spread > 10


def test_radii_stay_near_those_of_a_fresh_composition():
    rng = np.random.default_rng(6)
    walk = Walk(MODELS["gaussian"])
    for layer in range(4):
        walk.change(rng, layer, 7)
    for _ in range(30):
        walk.change(rng, int(rng.integers(0, 4)), 1)
        updated = [walk.scores(layer)[3].sum() for layer in range(1, 5)]
        frames = walk.frames
        walk.restart()
        fresh = [walk.scores(layer)[3].sum() for layer in range(1, 5)]
        walk.frames = frames
        assert all(one <= 8.0 * other for one, other in zip(updated, fresh, strict=True))


def test_radii_of_switched_forms_are_carried_on():
    # Radii of the first layer much larger than any rounding: they decide what later radii hold.
    rng = np.random.default_rng(7)
    walk = Walk(MODELS["gaussian"])
    for layer in range(4):
        walk.change(rng, layer, 7)
    walk.scores(0)[3] = 1e-3
    before = walk.scores(2)[3].copy()
    walk.winners[0][2] ^= 1
    walk.frames.flags[:, SCORES_ARE_EXACT] = 0
    walk.frames.signature[2] = walk.winners[0][2]
    compose_output(walk.tables, walk.frames, 0, PLANE)
    effect = abs(true_effect(walk.network, walk.winners, 0, 2, 2))
    gained = exact(walk.scores(2)[3]) - exact(before)
    assert (gained >= effect * Fraction(999, 1_000_000)).all()


def test_only_chains_of_plain_layers_have_effects(monkeypatch):
    rng = np.random.default_rng(8)
    numbers = rng.normal
    head = AttentionHead(np.eye(2), numbers(size=(3, 2)), numbers(size=(3, 2)), np.eye(2))
    feed = FeedForward(numbers(size=(2, 14)), numbers(size=14), numbers(size=(14, 2)), None)
    transformer = HardTransformer([Block([head], feed), Block([head], feed)])
    others = [transformer, maxout(gaussian, [14, 14]), relu(gaussian, [14, 14])]
    for model in others:
        tables = network_tables(model.network)
        assert effect_arrays(tables)["effects"].size == 0
    tables = network_tables(relu(gaussian, [14, 14, 14]).network)
    assert (effect_arrays(tables)["effect_places"][0, 1:3] >= 0).all()
    # The winners after a unit have to be kept too, and a wide layer may have too many.
    wide = effect_arrays(network_tables(relu(gaussian, [20_000, 13, 13]).network))
    assert wide["effects"].size == 0 == wide["effect_patterns"].size
    monkeypatch.setattr(effect_buffers, "_MOST_NUMBERS", 100)
    assert effect_arrays(adapted(tables, 1.0, starts_homogeneous=False))["effects"].size == 0


@pytest.mark.parametrize(
    ("model", "domain"),
    [
        (relu(gaussian, [13, 13, 13]), Box([-1, -1], [1, 1])),
        (relu(gaussian, [13, 13, 13, 13], seed=1), Box([-0.5, -0.5], [0.5, 0.5])),
        (relu(dense_integers, [13, 13, 13]), Box([-0.5, -0.5], [0.5, 0.5])),
        (relu(lambda rng, shape: dense_integers(rng, shape) / 3, [13] * 3), Box([0, 0], [1, 1])),
        (maxout(gaussian, [12, 12, 12]), Box([-1, -1], [1, 1])),
        (maxout(dense_integers, [12, 12, 12], rank=3), Box([-0.2, -0.2], [0.2, 0.2])),
        (relu(gaussian, [12, 12, 12], dim=3), Box([-0.6] * 3, [0.6] * 3)),
    ],
)
def test_deep_models_have_the_cells_found_in_integers_alone(model, domain):
    found = enumerate_regions(model, domain)
    truth = enumerate_regions(model, domain, exact=True)
    assert found.n_cells == truth.n_cells > 20
    assert {tuple(s) for s in found.signatures} == {tuple(s) for s in truth.signatures}


def test_a_second_network_of_the_same_shape_has_effects_of_its_own():
    # Buffers are used again, weights are not.
    box = Box([-1, -1], [1, 1])
    enumerate_regions(relu(gaussian, [13, 13, 13]), box)
    model = relu(gaussian, [13, 13, 13], seed=1)
    found = enumerate_regions(model, box)
    truth = enumerate_regions(model, box, exact=True)
    assert {tuple(s) for s in found.signatures} == {tuple(s) for s in truth.signatures}
