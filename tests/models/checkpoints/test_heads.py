"""Heads of checkpoints: they compute what the layer computes, and summaries say what is there."""

from dataclasses import astuple

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import ArgumentError, HardmaxError, ShapeMismatchError
from tests.models.checkpoints.refresh import ENCODERS, FOLDER, MODELS, TOKENS
from tests.models.checkpoints.test_forward import EXPECTED


def ran(name):
    model = hm.load_checkpoint(FOLDER / name)
    if name in ENCODERS:
        return model, hm.models.run_transformer(model, vectors=EXPECTED["vectors"])
    return model, hm.models.run_transformer(model, TOKENS)


def test_queries_with_norms_of_their_own_are_not_affine():
    model, found = ran("qwen3")
    with pytest.raises(ArgumentError, match="queries are normalised"):
        hm.models.checkpoint_head(model, found, 0, 0)
    with pytest.raises(ArgumentError, match="queries are normalised"):
        hm.models.attention_path(model, found.layers[0].inputs, found.layers[0].inputs)
    assert len(hm.analyze_heads(model, TOKENS)) == 8
    assert hm.surveys.survey_heads(model, TOKENS, with_effects=False).slices == ()


@pytest.mark.parametrize("name", [name for name in (*MODELS, *ENCODERS) if name != "qwen3"])
def test_a_head_computes_what_the_model_computes(name):
    model, found = ran(name)
    for number, (layer, seen) in enumerate(zip(model.layers, found.layers, strict=True)):
        heads = layer.attention
        group = heads.n_heads // heads.n_kv_heads
        for h in range(heads.n_heads):
            mixed = seen.weights[h] @ seen.values[h // group] @ heads.output[h]
            for position in (0, 3, -1):
                head = hm.models.checkpoint_head(model, found, number, h, position)
                query, tau = seen.inputs[position], heads.temperature
                weights = head.attention_weights(query, tau)
                np.testing.assert_allclose(weights, seen.weights[h, position], atol=1e-12)
                np.testing.assert_allclose(head.soft(query, tau), mixed[position], atol=1e-12)


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "bert"])
def test_arrays_and_heads_in_the_space_of_queries_agree(name):
    model, found = ran(name)
    layers = hm.models.head_arrays(model, found)
    for arrays, seen in zip(layers, found.layers, strict=True):
        for h in range(arrays.n_heads):
            np.testing.assert_allclose(arrays.weights(h), seen.weights[h], atol=1e-14)
            for position in (0, 4):
                head = arrays.head(h, position)
                weights = head.attention_weights(arrays.queries[h, position], arrays.temperature)
                np.testing.assert_allclose(weights, seen.weights[h, position], atol=1e-12)


class Tensor:
    """What a reader needs of a tensor of torch."""

    def __init__(self, array):
        self.array = array

    def detach(self):
        return self

    cpu = double = detach

    def numpy(self):
        return self.array


def cache_of(name, *, rotary=False):
    _, found = ran(name)
    cache = {}
    for i, layer in enumerate(found.layers):
        for c, array in zip("qkv", (layer.queries, layer.keys, layer.values), strict=True):
            entry = np.stack([np.zeros_like(array), array]).transpose(0, 2, 1, 3)
            turned = rotary and c in "qk"
            cache[f"blocks.{i}.attn.hook_{'rot_' if turned else ''}{c}"] = Tensor(entry)
            if turned:
                cache[f"blocks.{i}.attn.hook_{c}"] = Tensor(entry + 1.0)
    return cache


@pytest.mark.parametrize(("name", "rotary"), [("gpt2", False), ("llama", True)])
def test_a_cache_is_as_good_as_the_weights(name, rotary):
    model, _ = ran(name)
    layers = hm.models.heads_from_cache(cache_of(name, rotary=rotary), is_causal=True, batch=1)
    assert len(layers) == len(model.layers)
    for one, other in zip(hm.analyze_heads(layers), hm.analyze_heads(model, TOKENS), strict=True):
        assert astuple(one) == astuple(other)


def test_heads_of_compiled_transformers_compute_what_they_compute():
    rng = np.random.default_rng(5)
    net = hm.ReluNetwork([rng.standard_normal((2, 3)), rng.standard_normal((3, 1))])
    compiled = hm.constructions.compile_relu(net, hm.Box([-1, -1], [1, 1]), epsilon=0.01)
    model, x = compiled.token_transformer, np.array([0.3, -0.7])
    layers = hm.models.heads_from_tokens(model, x)
    assert sum(arrays.n_heads for arrays in layers) == compiled.size.heads
    # The last block, by hand: what the token that is read out receives.
    block, arrays = model.blocks[-1], layers[-1]
    mixed = [
        arrays.weights(h)[model.readout_token] @ arrays.values[h] @ head.output_weight
        for h, head in enumerate(block.heads)
    ]
    empty = hm.models.TokenTransformer(
        model.embedding_weight,
        model.embedding_bias,
        model.blocks[:-1],
        hm.models.AffineMap.identity(model.width),
        model.readout_token,
    )
    last = empty.soft(x) + sum(mixed)
    output = last @ model.readout.weight + model.readout.bias
    np.testing.assert_allclose(output, model.soft(x), atol=1e-9)
    assert all(found.mass > 0.5 for found in hm.analyze_heads(layers))
    with pytest.raises(ArgumentError, match="one input; got 2"):
        hm.models.heads_from_tokens(model, np.ones((2, 2)))
    with pytest.raises(ArgumentError, match="`tau` must be above 0"):
        hm.models.heads_from_tokens(model, x, 0.0)


def test_other_caches_are_refused():
    cache = cache_of("gpt2")
    del cache["blocks.1.attn.hook_v"]
    with pytest.raises(ArgumentError, match=r"must have the entry `blocks\.1\.attn\.hook_v`"):
        hm.models.heads_from_cache(cache, is_causal=True)
    with pytest.raises(ArgumentError, match="it has 1 entries: logits"):
        hm.models.heads_from_cache({"logits": np.ones(3)}, is_causal=True)
    cache = {f"blocks.0.attn.hook_{c}": np.ones((2, 3)) for c in "qkv"}
    with pytest.raises(ShapeMismatchError, match=r"`blocks\.0\.attn\.hook_q` has \(2, 3\)"):
        hm.models.heads_from_cache(cache, is_causal=True)
    with pytest.raises(ArgumentError, match="`batch`"):
        hm.models.heads_from_cache(cache_of("gpt2"), is_causal=True, batch=2)


def test_summaries_of_a_head_that_can_be_read_off():
    # Four keys on a square and one in the middle; every query points at a corner, twice as far.
    corners = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    keys = np.vstack([corners, np.zeros((1, 2))])[None]
    queries = np.vstack([2.0 * corners, 2.0 * corners[:1]])[None]
    arrays = hm.models.HeadArrays(queries, keys, keys, is_causal=False, temperature=0.5)
    (found,) = hm.analyze_heads([arrays])
    assert (found.n_keys, found.key_rank, found.n_extreme) == (5, 2, 4)
    # The scores are 4, 0, 0, -4 and 0, divided by 0.5.
    assert found.margin == 8.0
    assert found.mass == pytest.approx(1 / (1 + 3 * np.exp(-8.0) + np.exp(-16.0)))
    assert (found.sharp_share, found.sink_share) == (1.0, 0.4)
    assert found.margin_without_sink == 8.0
    low = hm.models.HeadArrays(queries, 0.0 * keys, keys, is_causal=True)
    (found,) = hm.analyze_heads([low])
    assert (found.key_rank, found.n_extreme, found.margin) == (0, 1, 0.0)
    assert found.margin_without_sink is None


def test_null_queries_have_the_spread_of_the_real_ones():
    rng = np.random.default_rng(3)
    queries = rng.standard_normal((1, 400, 2)) @ np.diag([3.0, 0.5]) + [1.0, -2.0]
    keys = rng.standard_normal((1, 400, 2))
    (found,) = hm.analyze_heads([hm.models.HeadArrays(queries, keys, keys, is_causal=False)])
    # The queries are Gaussian themselves, so the null must look alike.
    assert found.margin_null == pytest.approx(found.margin, rel=0.4)
    assert found.mass_null == pytest.approx(found.mass, rel=0.3)


def test_summaries_cover_every_head_and_repeat():
    model, _ = ran("llama")
    found = hm.analyze_heads(model, TOKENS)
    assert [(s.layer, s.head) for s in found] == [(i, h) for i in range(2) for h in range(4)]
    assert list(map(astuple, found)) == list(map(astuple, hm.analyze_heads(model, TOKENS)))


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ([], {"tokens": [1]}, "to be a checkpoint"),
        ([1], {}, "list of `HeadArrays`"),
        ([hm.models.HeadArrays(*np.ones((3, 1, 1, 1)), is_causal=True)], {}, "at least two"),
        ([], {"seed": -1}, "`seed`"),
    ],
)
def test_other_arguments_are_refused(model, arguments, message):
    with pytest.raises(ArgumentError, match=message):
        hm.analyze_heads(model, **arguments)


def test_arrays_that_do_not_fit_are_refused():
    one = np.ones((3, 4, 2))
    for bad in (
        (one, one[:2], one[:2]),
        (one, one[:, :3], one),
        (one, one[..., :1], one),
        (one, one, one[:1]),
        (one[0], one[0], one[0]),
        (one * np.nan, one, one),
    ):
        with pytest.raises(HardmaxError):
            hm.models.HeadArrays(*bad, is_causal=True)
    with pytest.raises(HardmaxError, match="window"):
        hm.models.HeadArrays(one, one, one, True, window=0)
    with pytest.raises(HardmaxError, match="temperature"):
        hm.models.HeadArrays(one, one, one, True, temperature=0.0)
