"""Transformers that were compiled here load as any other checkpoint, and compute the same."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.constructions import compile_relu
from hardmax.errors import ArgumentError
from hardmax.models.evaluation import forward


@pytest.fixture
def saved(tmp_path):
    rng = np.random.default_rng(0)
    network = [rng.normal(size=shape) for shape in ((2, 5), (5, 4), (4, 2))]
    made = compile_relu(network, hm.Box([-1.0, -1.0], [1.0, 1.0]), epsilon=0.1)
    made.save(tmp_path / "made.safetensors")
    return made.token_transformer, tmp_path / "made.safetensors"


def test_a_compiled_transformer_is_a_checkpoint(saved):
    made, path = saved
    model = hm.load_checkpoint(path)
    assert repr(model).startswith("TransformerWeights(compiled, 2 layers x 4 to 5 heads, ")
    text = hm.models.tokenise(path, "0.25, -0.5")
    found = hm.models.run_transformer(model, vectors=text.vectors).hidden[made.readout_token]
    expected = made.soft([0.25, -0.5])
    assert np.abs(found @ made.readout.weight + made.readout.bias - expected).max() < 1e-12
    summaries = hm.analyze_heads(model, vectors=text.vectors)
    other = hm.analyze_heads(hm.models.heads_from_tokens(made, [0.25, -0.5]))
    assert [one.margin for one in summaries] == pytest.approx([one.margin for one in other])


def test_its_input_is_numbers(saved):
    for text in ("1.0", "a b", "nan 1", "1 2 3"):
        with pytest.raises(ArgumentError, match="numbers of the input"):
            hm.models.tokenise(saved[1], text)


def test_all_of_it_is_piecewise_linear_on_a_slice(saved):
    _, path = saved
    model = hm.load_checkpoint(path)
    vectors = hm.models.tokenise(path, "0.25 -0.5").vectors
    heads = [(i, h) for i in (0, 1) for h in range(model.layers[i].attention.n_heads)]
    hard = hm.models.run_transformer(model, vectors=vectors, hard=heads)
    network = hm.models.frozen_network(model, hard, position=0)
    found = forward(network, hard.embedded[:1])[0]
    assert np.abs(found - hard.hidden[0]).max() < 1e-9
