"""Heads whose own key moves, or with the norm before them: what the model itself would choose."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import ArgumentError
from tests.models.checkpoints.test_frozen_networks import hard_run


@pytest.mark.parametrize("name", ["torch_last", "gpt2", "llama", "mistral", "bert"])
def test_a_moving_token_chooses_as_the_model_does(name):
    """Run the model's layer with the token moved: its keys are the others' and its own new one."""
    model, found = hard_run(name)
    n, layer = len(found.embedded), 0
    position = n - 2
    read = found.layers[layer].inputs
    rng = np.random.default_rng(0)
    heads = model.layers[layer].attention
    for h in range(heads.n_heads):
        routing = hm.models.own_key_routing(model, found, layer, h, position)
        points = read[position] + rng.standard_normal((20, model.dim))
        winners = routing.winners(points)
        for point, winner in zip(points, winners.tolist(), strict=True):
            moved = read.copy()
            moved[position] = point
            kv = h * heads.n_kv_heads // heads.n_heads
            query, keys = moved @ heads.query[h], moved @ heads.key[kv]
            if heads.query_bias is not None:
                query, keys = query + heads.query_bias[h], keys + heads.key_bias[kv]
            if heads.rotary is not None:
                query, keys = (heads.rotary(rows, np.arange(n)) for rows in (query, keys))
            back = position - np.arange(n)
            seen = (back >= 0) if heads.is_causal else np.ones(n, bool)
            seen &= back < (heads.window or n)
            scores = np.where(seen, keys @ query[position], -np.inf)
            first, second = np.sort(scores)[::-1][:2]
            if first - second > 1e-6:
                chosen = int(scores.argmax())
                assert winner == (n if chosen == position else chosen)


@pytest.mark.parametrize(("name", "layer"), [("gpt2", 1), ("torch_last", 1), ("bert", 0)])
def test_the_norm_before_a_head_is_the_right_one(name, layer):
    model, found = hard_run(name)
    before = model.layers[layer - 1].mlp_norm if layer else model.embedding.norm
    norm = model.layers[layer].attention_norm if name == "gpt2" else before
    rng = np.random.default_rng(1)
    for h in range(2):
        routing = hm.models.normalised_routing(model, found, layer, h)
        head = hm.models.checkpoint_head(model, found, layer, h)
        points = rng.standard_normal((30, model.dim))
        assert routing.winners(points).tolist() == head.winners(norm(points)).tolist()
        assert routing.kind == "quadric"


def test_what_is_not_there_is_refused():
    model, found = hard_run("torch_last")
    with pytest.raises(ArgumentError, match="layer 0 has none"):
        hm.models.normalised_routing(model, found, 0, 0)
    model, found = hard_run("gpt2")
    with pytest.raises(ArgumentError, match="only sees itself"):
        hm.models.own_key_routing(model, found, 0, 0, 0)


def test_walls_on_a_slice_are_conics():
    model, found = hard_run("torch_last")
    routing = hm.models.own_key_routing(model, found, 0, 0, 2)
    x = found.layers[0].inputs
    plane = x[2], np.array([x[1] - x[2], x[3] - x[2]])
    rng = np.random.default_rng(2)
    for key in (0, 1, 4):
        wall = routing.wall(key)
        curve = wall.on_slice(*plane)
        assert curve.conic in ("ellipse", "hyperbola")
        # Points with few digits, so that the sum in floats is the point itself, or nearly.
        for t in rng.integers(-4, 5, (20, 2)) / 4:
            at = x[2] + t @ plane[1]
            assert curve.sign(t) == wall.sign(at)
