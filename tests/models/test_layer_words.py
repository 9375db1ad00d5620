"""What layers, groups and forms are called: the same everywhere, numbered as they are indexed."""

import pickle
import re
from dataclasses import replace

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import ArgumentError
from hardmax.models import run_transformer
from hardmax.models.checkpoints.frozen_networks import attention_network, frozen_network
from hardmax.models.layer_words import HEADS, UNITS, infer_words
from hardmax.models.storage import model_bytes
from hardmax.models.transformers import attention_layer
from hardmax.regions.arrow_tables import from_arrow, to_arrow
from hardmax.verify import verify


def a_head(seed, n_keys=3):
    rng = np.random.default_rng(seed)
    shapes = (2, 2), (n_keys, 2), (n_keys, 2), (2, 2)
    return hm.AttentionHead(*(rng.normal(size=shape) for shape in shapes))


def units(seed, n=3):
    rng = np.random.default_rng(seed)
    return hm.FeedForward(*(rng.normal(size=shape) for shape in ((2, n), n, (n, 2), 2)))


def a_relu_network():
    rng = np.random.default_rng(0)
    return hm.ReluNetwork([rng.normal(size=shape) for shape in ((2, 4), (4, 3), (3, 1))])


def a_maxout_network():
    rng = np.random.default_rng(1)
    layers = [[rng.normal(size=(3, n)) for _ in range(2)] for n in (2, 2)]
    return hm.MaxoutNetwork([*layers, np.ones((2, 1))])


MODELS = {
    "relu": a_relu_network(),
    "maxout": a_maxout_network(),
    "head": a_head(2),
    "transformer": hm.HardTransformer([hm.Block([a_head(3), a_head(4)], units(5))] * 2),
    # Units after heads that are a block of their own, as the layers alone do not tell.
    "odd blocks": hm.HardTransformer(
        [hm.Block([], units(6)), hm.Block([a_head(7)]), hm.Block([], units(8))]
    ),
}
FIRST_FORMS = {
    "relu": ["layer 0, unit 0, form 0", "layer 1, unit 0, form 0"],
    "maxout": ["layer 0, unit 0, form 0", "layer 1, unit 0, form 0"],
    "head": ["block 0, head 0, key 0"],
    "transformer": [
        "block 0, head 0, key 0",
        "block 0, unit 0, form 0",
        "block 1, head 0, key 0",
        "block 1, unit 0, form 0",
    ],
    "odd blocks": ["block 0, unit 0, form 0", "block 1, head 0, key 0", "block 2, unit 0, form 0"],
}


def network_of(model):
    if isinstance(model, hm.AttentionHead):
        block = hm.Block([model], attention_residual=False)
        return hm.HardTransformer([block]).network
    return model.network


@pytest.mark.parametrize("name", MODELS)
def test_models_name_their_heads_units_and_keys(name):
    network = network_of(MODELS[name])
    names = [network.name_wall(i, 0, 0) for i in range(len(network.layers))]
    assert names == FIRST_FORMS[name]


@pytest.mark.parametrize("name", MODELS)
def test_what_a_picture_says_can_be_typed(name):
    network = network_of(MODELS[name])
    for place in network.places:
        for group in range(place.layer.n_groups):
            for form in (None, 0, 1):
                wall = network.name_wall(place.depth, group, form)
                assert network.find_wall(wall) == (place.depth, group)


def test_a_wall_that_is_not_there_cannot_be_named_or_found():
    network = MODELS["transformer"].network
    for name in ("block 2, head 0", "block 0, head 2", "block 0, head 0, form 1", "head 0", ""):
        with pytest.raises(ArgumentError, match=r"'block 0, head 0' to 'block 0, head 1'.*; got"):
            network.find_wall(name)
    with pytest.raises(ArgumentError, match=r"`layer` must be .*3"):
        network.name_wall(4, 0)
    assert network.name_wall(-1, 2) == "domain, row 2"
    assert network.name_wall(-1, -1) == "infinity"


@pytest.mark.parametrize("name", MODELS)
def test_the_verifier_of_one_file_has_the_same_words(name):
    read = verify.read_model(model_bytes(MODELS[name]))
    network = network_of(MODELS[name])
    assert read.words == [tuple(words) for words in network.words]
    for words, layer in zip(read.words, range(len(network.layers)), strict=True):
        assert verify.name_form(words, 1, 2) == network.name_wall(layer, 1, 2)


def test_a_network_of_no_known_kind_has_groups():
    network = MODELS["transformer"].network
    # A copy of a layer may be anything: it has lost its kind.
    layers = tuple(map(replace, network.layers))
    plain = hm.models.ArgmaxNetwork(layers, network.embedding, network.readout)
    assert [words.name(1, 2) for words in plain.words][:2] == [
        "layer 0, group 1, form 2",
        "layer 1, group 1, form 2",
    ]
    assert verify.read_model(model_bytes(plain)).words == [tuple(words) for words in plain.words]


def test_heads_of_tokens_are_no_heads_of_the_network():
    # A group is one head at one token, and a form one token it sees.
    head = hm.models.TokenHead([[0.0], [1.0]], [[1.0], [0.0]], [[1.0], [0.0]], [[1.0, 0.0]])
    model = hm.models.TokenTransformer(
        [[[1.0, 0.0], [-1.0, 0.0]]],
        [[0.0, 1.0], [0.0, 1.0]],
        [hm.models.TokenBlock([head], attention_residual=False)],
        hm.models.AffineMap([[1.0], [0.0]], [0.0]),
    )
    assert model.network.name_wall(0, 0, 1) == "layer 0, group 0, form 1"


def test_layers_alone_tell_where_blocks_begin():
    def places(*kinds):
        return [words.place for words in infer_words(kinds)]

    assert places(HEADS, UNITS, HEADS) == ["block 0", "block 0", "block 1"]
    assert places(UNITS, HEADS, UNITS, UNITS) == ["block 0", "block 1", "block 1", "block 2"]
    assert places(HEADS, HEADS) == ["block 0", "block 1"]
    assert places(UNITS, UNITS) == ["layer 0", "layer 1"]
    assert places() == []
    layer = attention_layer([a_head(0)], residual=False)
    identity = hm.models.AffineMap.identity(2)
    assert hm.models.ArgmaxNetwork((layer,), identity, identity).name_wall(0, 0) == (
        "block 0, head 0"
    )


def test_words_are_pickled_and_stored_with_partitions():
    pytest.importorskip("pyarrow")
    network = MODELS["odd blocks"].network
    assert pickle.loads(pickle.dumps(network)).words == network.words
    part = hm.enumerate_regions(MODELS["odd blocks"], hm.Box([-1, -1], [1, 1]))
    again = from_arrow(to_arrow(part))
    assert again.network.words == network.words
    assert again.network.name_wall(2, 1) == "block 2, unit 1"


def test_networks_of_checkpoints_have_the_layers_of_the_checkpoint():
    weights = hm.load_checkpoint("hardmax")
    hard = [(i, h) for i in range(2) for h in range(16)]
    ran = run_transformer(weights, [2, 0, 1, 26, 0, 1], hard=hard)
    assert attention_network(weights, ran, 1).name_wall(0, 15, 3) == "layer 1, head 15, key 3"
    network = frozen_network(weights, ran)
    assert [words.title for words in network.words][:3] == [
        "layer 0, heads",
        "layer 0, units",
        "layer 1, heads",
    ]
    for words, layer in zip(network.words, network.layers, strict=True):
        assert (words.group == "head") == bool(layer.is_table[0])


@pytest.mark.parametrize("kind", ["tiling", "refusals"])
@pytest.mark.parametrize("name", ["relu", "maxout", "transformer", "odd blocks"])
def test_both_verifiers_name_what_is_missing_alike(kind, name):
    model, domain = MODELS[name], hm.Box([-1, -1], [1, 1])
    signatures = hm.enumerate_regions(model, domain).signatures
    certificate = hm.regions.make_certificate(model, domain, signatures, kind=kind)
    pattern = r"((?:block|layer) \d+, (?:head|unit) \d+), (?:key|form) \d+"
    for i in range(0, len(signatures), max(1, len(signatures) // 5)):
        keep = np.delete(np.arange(len(signatures)), i)
        fewer = replace(
            certificate,
            signatures=certificate.signatures[keep],
            witnesses=certificate.witnesses[keep],
        )
        reasons = [
            hm.verify_certificate(model, fewer, method=method).reason
            for method in ("fast", "integers")
        ]
        named = [re.search(pattern, reason) for reason in reasons]
        assert named[0][0] == named[1][0]
        depth, group = model.network.find_wall(named[0][0])
        assert group < model.network.layers[depth].n_groups
