"""One token's way through a model: at the reference it is the model with hard heads."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import ArgumentError
from hardmax.models.evaluation import forward
from tests.models.checkpoints.refresh import TOKENS
from tests.models.checkpoints.test_forward import EXPECTED
from tests.models.checkpoints.test_loading import state_of


def all_heads(model):
    return [(i, h) for i, layer in enumerate(model.layers) for h in range(layer.attention.n_heads)]


def hard_run(name, **config):
    tensors, known = state_of(name)
    model = hm.load_checkpoint(tensors, config={**known, **config})
    given = {"vectors": EXPECTED["vectors"]} if name.startswith("torch") else {"tokens": TOKENS}
    return model, hm.models.run_transformer(model, **given, hard=all_heads(model))


MODELS = [
    ("torch_last", {}),
    ("torch_first", {}),
    ("roberta", {}),
    ("bert", {"hidden_act": "relu"}),
    ("gpt2", {"activation_function": "relu"}),
]


@pytest.mark.parametrize(("name", "config"), MODELS)
def test_at_the_reference_it_is_the_model_with_hard_heads(name, config):
    model, found = hard_run(name, **config)
    for position in (0, 2, -1):
        network = hm.models.frozen_network(model, found, position)
        got = forward(network, found.embedded[position][None])[0]
        np.testing.assert_allclose(got, found.hidden[position], atol=1e-12)


@pytest.mark.parametrize("name", ["torch_last", "torch_first"])
def test_norms_that_divide_agree_beside_the_reference_and_not_far_away(name):
    """Beside the reference the two agree, far from it the sizes of the norms differ."""
    model, found = hard_run(name)
    network = hm.models.frozen_network(model, found, 2)
    x = found.embedded[2]
    np.testing.assert_allclose(hm.models.moved_token(model, found, x, 2), found.hidden[2])
    near, far = x + 1e-7, x + np.random.default_rng(0).standard_normal(8)
    for point, close in ((near, True), (far, False)):
        frozen = forward(network, point[None])[0]
        whole = hm.models.moved_token(model, found, point, 2)
        assert np.allclose(frozen, whole, atol=1e-5) == close


def test_frozen_norms_still_ignore_a_constant():
    model, found = hard_run("gpt2", activation_function="relu")
    network = hm.models.frozen_network(model, found)
    x = found.embedded[-1]
    one, other = forward(network, np.vstack([x, x + 1.0]))
    np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "bert", "torch_last"])
def test_cells_of_a_layer_are_what_the_heads_choose(name):
    model, found = hard_run(name)
    n = len(found.embedded)
    for layer in range(len(model.layers)):
        network = hm.models.attention_network(model, found, layer, n - 1)
        read = found.layers[layer].inputs
        part = hm.enumerate_regions(network, hm.Segment(read[0], read[-1]))
        assert part.is_complete
        heads = [
            hm.models.checkpoint_head(model, found, layer, h, n - 1)
            for h in range(model.layers[layer].attention.n_heads)
        ]
        for i, signature in enumerate(part.signatures.tolist()):
            (t,) = part.polytope(i).interior_point
            point = read[0] + float(t) * (read[-1] - read[0])
            chosen = [int(head.unmasked[w]) for head, w in zip(heads, signature, strict=True)]
            assert chosen == [int(head.winners(point)) for head in heads]


def test_the_way_between_two_tokens_is_cut_where_the_exact_path_cuts_it():
    model, found = hard_run("torch_last")
    network = hm.models.frozen_network(model, found, 1)
    path = hm.Segment(found.embedded[1], found.embedded[3])
    part = hm.enumerate_regions(network, path)
    assert part.n_cells == hm.enumerate_regions(network, path, exact=True).n_cells > 2
    assert hm.verify_certificate(network, part.certificate()).ok


def test_other_activations_are_refused_by_name():
    for name, kind in (("bert", "gelu"), ("llama", "a gate with silu")):
        model, found = hard_run(name)
        with pytest.raises(ArgumentError, match=f"layer 0 has {kind}"):
            hm.models.frozen_network(model, found)
    model, found = hard_run("torch_last")
    with pytest.raises(ArgumentError, match="position"):
        hm.models.frozen_network(model, found, 7)
    with pytest.raises(ArgumentError, match="layer"):
        hm.models.attention_network(model, found, 2)
