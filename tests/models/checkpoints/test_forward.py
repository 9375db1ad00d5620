"""The forward pass of every family against its reference implementation (see `refresh`)."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import ArgumentError
from hardmax.models.tensor_files import read_tensors
from tests.models.checkpoints.refresh import ENCODERS, FOLDER, MODELS, TOKENS

EXPECTED = read_tensors(FOLDER / "expected.safetensors")[1]
SINGLE = ("llama", "mistral", "qwen2", "qwen3", "phi3", "gemma", "gpt_neox", "gpt_neo", "opt")


def tolerance(name):
    # The reference computes rotary angles, the norms of Llama, and the softmax of GPT-Neo and OPT
    # in float32.
    return 1e-5 if name in SINGLE else 1e-12


@pytest.mark.parametrize("name", MODELS)
def test_the_reference_agrees(name):
    model = hm.load_checkpoint(FOLDER / name)
    found = hm.models.run_transformer(model, TOKENS)
    weights = np.array([layer.weights for layer in found.layers])
    assert np.abs(found.hidden - EXPECTED[f"{name}.hidden"]).max() < tolerance(name)
    assert np.abs(weights - EXPECTED[f"{name}.attentions"]).max() < tolerance(name)
    if f"{name}.logits" in EXPECTED:
        assert np.abs(found.logits - EXPECTED[f"{name}.logits"]).max() < tolerance(name)
    else:
        assert found.logits is None


@pytest.mark.parametrize("name", ENCODERS)
def test_layers_of_torch_agree(name):
    model = hm.load_checkpoint(FOLDER / name)
    found = hm.models.run_transformer(model, vectors=EXPECTED["vectors"])
    assert np.abs(found.hidden - EXPECTED[f"{name}.hidden"]).max() < 1e-12


def test_the_shapes_are_those_of_the_page():
    model = hm.load_checkpoint(FOLDER / "llama")
    heads = model.layers[0].attention
    assert repr(model) == (
        "TransformerWeights(llama, 2 layers x 4 heads (2 of keys), d = 8, d_k = 6)"
    )
    assert heads.query.shape == (4, 8, 6)
    assert heads.key.shape == heads.value.shape == (2, 8, 6)
    assert heads.output.shape == (4, 6, 8)
    layer = hm.models.run_transformer(model, TOKENS).layers[1]
    n = len(TOKENS)
    assert layer.queries.shape == (4, n, 6)
    assert layer.keys.shape == layer.values.shape == (2, n, 6)
    assert layer.weights.shape == (4, n, n)
    assert layer.inputs.shape == layer.outputs.shape == (n, 8)


def test_causal_layers_do_not_look_ahead_and_windows_not_far_back():
    for name in ("gpt2", "mistral"):
        model = hm.load_checkpoint(FOLDER / name)
        weights = hm.models.run_transformer(model, TOKENS).layers[0].weights
        ahead = np.arange(len(TOKENS)) - np.arange(len(TOKENS))[:, None]
        seen = (ahead <= 0) & (ahead > -3 if name == "mistral" else True)
        assert ((weights > 0) == seen).all()


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("bert", {}, "exactly one of `tokens` and `vectors`"),
        ("bert", {"tokens": [1], "vectors": np.zeros((1, 8))}, "exactly one of"),
        ("bert", {"tokens": [10]}, "from 0 to 9; got 10 to 10"),
        ("bert", {"tokens": [-1]}, "from 0 to 9; got -1"),
        ("bert", {"tokens": [0] * 10}, "at most 9 entries; got 10"),
        ("roberta", {"tokens": [0] * 11}, "at most 10 entries; got 11"),
        ("bert", {"tokens": [0], "token_types": [2]}, "`token_types` must be numbers from 0 to 1"),
        ("gpt2", {"tokens": [0], "token_types": [0]}, "`token_types` must be None"),
        ("torch_last", {"tokens": [0]}, "has no token embedding"),
        ("bert", {"vectors": np.zeros((3, 7))}, "`vectors`"),
    ],
)
def test_other_inputs_are_refused(name, arguments, message):
    model = hm.load_checkpoint(FOLDER / name)
    with pytest.raises(ArgumentError, match=message):
        hm.models.run_transformer(model, **arguments)
