"""Self-attention that shatters, and the literal version that collapses after one block."""

from dataclasses import replace

import numpy as np
import pytest

from hardmax.constructions import (
    collapsing_self_attention,
    shattering_count,
    shattering_self_attention,
    shattering_transformer,
)
from hardmax.errors import ArgumentError, DtypeError
from hardmax.geometry.domains import Box
from hardmax.models.argmax import AffineMap
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.sampling import sample_regions

SIZES = [
    (1, 1, 2, 4, 1),
    (2, 1, 3, 2, 1),
    (3, 1, 3, 4, 1),
    (3, 1, 2, 2, 3),
    (5, 1, 2, 6, 2),
    (2, 2, 2, 4, 2),
    (3, 2, 2, 4, 2),
    (3, 2, 1, 9, 5),
    (2, 2, 2, 4, 4),
    (4, 2, 2, 4, 2),
    (2, 3, 1, 6, 3),
    (3, 3, 1, 12, 6),
]


def cube(dim):
    return Box(np.zeros(dim), np.ones(dim))


def state(model, token, depth):
    """Return the model that reads a whole token after some of its blocks."""
    whole = AffineMap.identity(model.width)
    return replace(model, blocks=model.blocks[:depth], readout=whole, readout_token=token)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("causal", [False, True])
def test_cells_regions_and_maps_are_the_formula(sizes, causal):
    model = shattering_self_attention(*sizes, causal=causal)
    assert (model.n_tokens, model.width) == (sizes[0], sizes[1] + 3)
    assert (model.mask is None) != causal
    part = enumerate_regions(model, cube(sizes[1]))
    expected = shattering_count(*sizes)
    assert (part.n_cells, part.n_regions, part.n_affine_maps) == (expected,) * 3


def test_hundreds_of_thousands_of_regions_are_the_formula():
    part = enumerate_regions(shattering_self_attention(4, 2, 3, 4), cube(2))
    assert (part.n_cells, part.n_regions, part.n_affine_maps) == (262_144,) * 3


def test_the_map_is_that_of_the_fixed_memory():
    points = np.random.default_rng(0).integers(0, 2**20, size=(100, 2)) / 2**20
    for sizes in [(3, 2, 3, 4, 2), (4, 2, 2, 8, 4)]:
        tokens = shattering_self_attention(*sizes)
        fixed = shattering_transformer(*sizes, integer_weights=True)
        assert tokens(points).tolist() == fixed(points).tolist()


@pytest.mark.parametrize("causal", [False, True])
def test_context_tokens_never_move(causal):
    model = shattering_self_attention(4, 2, 3, 8, 4, causal=causal)
    points = np.random.default_rng(1).random((5, 2))
    for token in range(3):
        start = state(model, token, 0)(points)
        assert (start == model.embedding_bias[token]).all()
        for depth in (1, 2, 3):
            assert (state(model, token, depth)(points) == start).all()
    for depth in (1, 2, 3):  # and the last one keeps what it stores
        kept = state(model, 3, depth)(points)[:, 2:]
        assert (kept == model.embedding_bias[3, 2:]).all()


def test_one_set_of_weights_serves_all_tokens_and_is_integer():
    model = shattering_self_attention(3, 2, 3, 8, 4)
    assert all((array == np.round(array)).all() for array in model.arrays)
    assert all(head.query_bias is None for block in model.blocks for head in block.heads)
    assert {head.d_k for block in model.blocks for head in block.heads} == {2}


def test_a_wider_token_changes_nothing():
    # With width 2 H heads have the usual size, width / H.
    model = shattering_self_attention(3, 3, 1, 6, 3, width=6)
    assert model.width == 2 * len(model.blocks[0].heads)
    assert enumerate_regions(model, cube(3)).n_regions == shattering_count(3, 3, 1, 6, 3)


def test_a_sampler_agrees():
    found = sample_regions(shattering_self_attention(3, 2, 1, 4), cube(2), 4000, seed=2)
    assert found.distinct == 36


@pytest.mark.parametrize("n_keys", [2, 3, 4])
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("teeth", [1, 2, 3])
def test_without_stored_positions_the_keys_collapse(n_keys, dim, teeth):
    d_ff = 2 * dim * teeth
    model = collapsing_self_attention(n_keys, dim, 2, d_ff)
    points = np.random.default_rng(3).random((4, dim))
    middle = float(n_keys * (teeth % 2))  # the sawtooth at one half, on the scale of the stream
    for token in range(n_keys):
        assert (state(model, token, 1)(points)[:, :dim] == middle).all()
        assert (state(model, token, 0)(points)[:, :dim] == token + 0.5).all()
    one = collapsing_self_attention(n_keys, dim, 1, d_ff)
    assert enumerate_regions(one, cube(dim)).n_regions == (2 * teeth * n_keys) ** dim
    # The second block folds but does not route: half of the sawtooth, and for odd teeth the kink
    # of the first unit, whatever the number of keys.
    pieces = teeth + teeth % 2
    expected = (2 * teeth * n_keys * pieces) ** dim
    assert enumerate_regions(model, cube(dim)).n_cells == expected
    assert expected < shattering_count(n_keys, dim, 2, d_ff)


def test_a_collapsed_block_has_one_winner():
    model = collapsing_self_attention(4, 1, 2, 4)
    later = replace(model, embedding_bias=model.embedding_bias.copy(), blocks=model.blocks[1:])
    after = np.array([state(model, token, 1)([0.3]) for token in range(4)])
    bias = later.embedding_bias.copy()
    bias[:4] = after
    later = replace(later, embedding_bias=bias)
    # The heads of the second block see the collapsed context: only folds are left to count.
    cut = replace(later, blocks=[replace(later.blocks[0], ffn=None)])
    assert enumerate_regions(cut, Box([0.0], [1.0])).n_cells == 1


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("n_tokens", lambda: shattering_self_attention(0, 1, 1, 2)),
        ("n_tokens", lambda: shattering_self_attention(2.5, 1, 1, 2)),
        ("dim", lambda: shattering_self_attention(2, 0, 1, 2)),
        ("depth", lambda: shattering_self_attention(2, 1, -1, 2)),
        ("d_ff", lambda: shattering_self_attention(2, 2, 1, 3)),
        ("n_heads", lambda: shattering_self_attention(2, 2, 1, 4, 1)),
        ("width", lambda: shattering_self_attention(2, 2, 1, 4, width=4)),
        ("causal", lambda: shattering_self_attention(2, 2, 1, 4, causal=1)),
        ("n_keys", lambda: shattering_self_attention(2**27, 1, 1, 2)),
        ("n_keys", lambda: collapsing_self_attention(0, 1, 1, 2)),
        ("d_ff", lambda: collapsing_self_attention(2, 2, 1, 3)),
    ],
)
def test_bad_sizes_are_refused_by_name(name, build):
    with pytest.raises((ArgumentError, DtypeError), match=f"`{name}`"):
        build()
