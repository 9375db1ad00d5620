"""Transformers on tokens: the definition, the argmax network, and what has none."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hardmax.errors import (
    ArgumentError,
    DtypeError,
    EmptyInputError,
    HardmaxError,
    NonFiniteError,
    SizeLimitError,
)
from hardmax.geometry.domains import Box
from hardmax.models.argmax import AffineMap
from hardmax.models.evaluation import forward
from hardmax.models.tokens.passes import evaluate_exactly
from hardmax.models.tokens.transformers import TokenBlock, TokenHead, TokenTransformer
from hardmax.models.transformers import FeedForward
from hardmax.regions.engines import enumerate_regions
from tests.reference import tokens as reference
from tests.sweeps import examples


def integers(rng, *shape):
    return rng.integers(-2, 3, shape).astype(float)


def random_transformer(seed, *, dim_in=2, n_tokens=3, width=3, n_blocks=2):
    """Weights are small integers, so that ties are common; masks and flags vary."""
    rng = np.random.default_rng(seed)
    blocks = []
    for _ in range(n_blocks):
        heads = [
            TokenHead(
                integers(rng, width, d_k),
                integers(rng, width, d_k),
                integers(rng, width, d_v),
                integers(rng, d_v, width),
                integers(rng, d_k) if rng.random() < 0.5 else None,
            )
            for d_k, d_v in rng.integers(1, 3, (rng.integers(0, 3), 2))
        ]
        ffn = FeedForward(
            integers(rng, width, 2), integers(rng, 2), integers(rng, 2, width), integers(rng, width)
        )
        blocks.append(TokenBlock(heads, ffn, bool(rng.random() < 0.7), bool(rng.random() < 0.7)))
    mask = (rng.random((n_tokens, n_tokens)) < 0.7) | np.eye(n_tokens, dtype=bool)
    return TokenTransformer(
        integers(rng, dim_in, n_tokens, width),
        integers(rng, n_tokens, width),
        blocks,
        (integers(rng, width, 2), integers(rng, 2)),
        readout_token=int(rng.integers(n_tokens)),
        mask=mask if rng.random() < 0.5 else None,
    )


def reducible_transformer(seed, *, dim_in=2, n_tokens=3, n_blocks=2):
    """Two coordinates that move and two that nothing writes to; four kinds of heads."""
    rng = np.random.default_rng(seed)
    moving, fixed = np.array([True, True, False, False]), np.array([False, False, True, True])
    weight = np.where(moving, integers(rng, dim_in, n_tokens, 4), 0.0)
    # Fractions with long mantissas, so that the reduction cannot get away with rounding.
    bias = rng.normal(size=(n_tokens, 4)) if rng.random() < 0.5 else integers(rng, n_tokens, 4)

    def read(mask, columns):
        return np.where(mask[:, None], integers(rng, 4, columns), 0.0)

    def write(rows):
        return np.where(moving, integers(rng, rows, 4), 0.0)

    blocks = []
    for _ in range(n_blocks):
        heads = []
        for kind in rng.integers(0, 4, rng.integers(1, 3)):
            if kind == 0:  # A moving query on fixed keys: the value is a constant.
                head = TokenHead(read(moving, 2), read(fixed, 2), read(fixed, 2), write(2))
            elif kind == 1:  # A fixed query on moving keys: the value is a multiple of the score.
                key = read(moving, 1)
                head = TokenHead(read(fixed, 1), key, -3.0 * key, write(1))
            elif kind == 2:  # The same, but the winner contributes a constant.
                head = TokenHead(read(fixed, 1), read(moving, 1), read(fixed, 2), write(2))
            else:  # The winner never changes; its value moves.
                head = TokenHead(read(fixed, 2), read(fixed, 2), read(moving, 2), write(2))
            heads.append(head)
        ffn = FeedForward(integers(rng, 4, 2), integers(rng, 2), write(2), np.where(moving, 1.0, 0))
        blocks.append(TokenBlock(heads, ffn if rng.random() < 0.7 else None))
    readout = integers(rng, 4, 1), integers(rng, 1)
    return TokenTransformer(weight, bias, blocks, readout)


def reduced(model):
    """The network of a reducible model, unless three tokens tie in it for every input."""
    try:
        return model.network
    except ArgumentError as refusal:
        # Thirds are the one thing that sums of floats cannot say.
        assume("powers of two" not in str(refusal) and "sum of float64" not in str(refusal))
        raise


@examples(40)
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_hard_model_is_its_definition_rounded_once_where_keys_tie(seed, point_seed):
    model = random_transformer(seed)
    points = integers(np.random.default_rng(point_seed), 4, 2)
    for x, y in zip(points, model(points), strict=True):
        wanted = reference.hard_tokens(model, x)
        assert [(e.p, e.q) for e in evaluate_exactly(model, x)] == [
            (w.numerator, w.denominator) for w in wanted
        ]
        np.testing.assert_allclose(y, np.array(wanted, dtype=float), rtol=1e-12, atol=1e-12)


@examples(30)
@given(st.integers(0, 10**6))
def test_winners_are_exact_one_ulp_away_from_a_tie(seed):
    rng = np.random.default_rng(seed)
    model = random_transformer(seed, n_blocks=1)
    x = integers(rng, 2)
    for near in (np.nextafter(x, np.inf), np.nextafter(x, -np.inf), x * (1 + 2.0**-52)):
        wanted = np.array(reference.hard_tokens(model, near), dtype=float)
        np.testing.assert_allclose(model(near), wanted, rtol=1e-10, atol=1e-10)


@examples(30)
@given(st.integers(0, 10**6), st.floats(0.1, 10.0))
def test_the_soft_model_is_its_definition(seed, tau):
    model = random_transformer(seed)
    points = np.random.default_rng(seed).normal(size=(3, 2))
    for x, y in zip(points, model.soft(points, tau), strict=True):
        np.testing.assert_allclose(y, reference.soft_tokens(model, x, tau), rtol=1e-9, atol=1e-9)


def test_soft_models_tend_to_the_hard_one():
    model = random_transformer(3, n_blocks=1)
    points = np.random.default_rng(0).normal(size=(50, 2))
    gaps = [np.abs(model.soft(points, tau) - model(points)).mean() for tau in (1.0, 0.1, 1e-3)]
    assert gaps[0] > gaps[1] > gaps[2]
    np.testing.assert_array_equal(model.soft(points, 0.0), model(points))


@examples(50)
@given(st.integers(0, 10**6), st.booleans())
def test_the_network_computes_the_same_function(seed, with_ties):
    model = reducible_transformer(seed)
    network = reduced(model)
    rng = np.random.default_rng(seed)
    points = integers(rng, 20, 2) if with_ties else rng.normal(size=(20, 2))
    exact = [np.array(reference.hard_tokens(model, x), dtype=float) for x in points]
    np.testing.assert_allclose(forward(network, points), exact, rtol=1e-9, atol=1e-9)


@examples(15)
@given(st.integers(0, 10**6))
def test_the_map_of_a_cell_is_the_model_there(seed):
    model = reducible_transformer(seed, n_blocks=1)
    reduced(model)
    part = enumerate_regions(model, Box([-1.0, -1.0], [1.0, 1.0]))
    points = np.random.default_rng(seed).uniform(-1, 1, (20, 2))
    signatures = {name.tobytes() for name in np.asarray(part.signatures, dtype=np.int64)}
    for x in points:
        name = model.signature(x)
        assert name.astype(np.int64).tobytes() in signatures
        slope, offset = model.affine_map(name)
        np.testing.assert_allclose(x @ slope + offset, model(x), rtol=1e-9, atol=1e-9)


def test_decisions_that_do_not_reach_the_output_cut_no_cells():
    # Every token finds max(x, -x), but only the first is read.
    head = TokenHead([[0.0], [1.0]], [[1.0], [0.0]], [[1.0], [0.0]], [[1.0, 0.0]])
    weight, bias = [[[1.0, 0.0], [-1.0, 0.0]]], [[0.0, 1.0], [0.0, 1.0]]
    model = TokenTransformer(
        weight, bias, [TokenBlock([head], None, False)], ([[1.0], [0.0]], [0.0])
    )
    assert model.network.n_groups == 1
    assert enumerate_regions(model, Box([-1.0], [1.0])).n_cells == 2
    # A second block looks at both tokens. They decide the same in the first, so it is one decision.
    twice = replace(model, blocks=[*model.blocks[:1], TokenBlock([head], None, True)] * 1)
    assert twice.network.n_groups == 2
    assert twice([-3.0]).tolist() == forward(twice.network, [-3.0]).tolist() == [6.0]


def test_constants_that_are_no_float64_are_split_exactly():
    # The query is 1 + 2^-60, a sum of two floats; scores differ by 2^-60 only.
    head = TokenHead([[0, 0], [0, 0], [1, 0], [2.0**-60, 0]], np.eye(4)[:, [0, 1]],
                     np.eye(4)[:, [0]], np.eye(4)[[1]])  # fmt: skip
    model = TokenTransformer(
        np.array([[[1.0, 0, 0, 0], [1.0 + 2.0**-52, 0, 0, 0]]]),
        np.array([[0.0, 0, 1, 1], [0, 0, 1, 1]]),
        [TokenBlock([head])],
        (np.eye(4)[:, [1]], [0.0]),
    )
    assert model([1.0]).tolist() == [1.0 + 2.0**-52]
    assert forward(model.network, [1.0]).tolist() == [1.0 + 2.0**-52]
    assert forward(model.network, [-1.0]).tolist() == [-1.0]


def test_products_of_two_moving_numbers_are_refused_by_name():
    square = TokenHead(np.eye(1), np.eye(1), np.eye(1), np.eye(1))
    model = TokenTransformer(
        [[[1.0], [2.0]]], [[0.0], [1.0]], [TokenBlock([square])], ([[1.0]], [0.0])
    )
    assert model([2.0]).tolist() == [7.0]  # Scores 4 and 10.
    with pytest.raises(ArgumentError, match=r"block 0, head 0.*depend on the input"):
        _ = model.network


def test_a_number_that_depends_on_who_won_is_no_constant():
    # The first head writes the sign of x to a coordinate that was 0; the second multiplies by it.
    sign = TokenHead([[1.0], [0], [0]], [[0.0], [1], [0]], [[0.0], [1], [0]], [[0.0, 0, 1]])
    product = TokenHead([[0.0], [0], [1]], [[1.0], [0], [0]], [[1.0], [0], [0]], [[0.0, 0, 1]])
    model = TokenTransformer(
        [[[1.0, 0, 0], [2.0, 0, 0]]],
        [[0.0, -1, 0], [0.0, 1, 0]],
        [TokenBlock([sign]), TokenBlock([product])],
        ([[0.0], [0], [1]], [0.0]),
    )
    assert model([[3.0], [-3.0]]).ravel().tolist() == [7.0, -7.0]
    with pytest.raises(ArgumentError, match="block 1, head 0"):
        _ = model.network


def test_networks_too_large_for_memory_are_refused_before_they_are_built():
    ffn = FeedForward(np.ones((1, 3000)), None, np.ones((3000, 1)), None)
    average = TokenHead([[0.0]], [[1.0]], [[1.0]], [[1.0]])
    blocks = [TokenBlock([], ffn), TokenBlock([average])]
    model = TokenTransformer(np.ones((1, 256, 1)), np.zeros((256, 1)), blocks, ([[1.0]], [0.0]))
    assert model([1.0]).tolist() == [6002.0]
    with pytest.raises(SizeLimitError, match="768000 units on 256 tokens"):
        _ = model.network


def test_values_that_are_not_multiples_of_the_score_are_refused():
    head = TokenHead([[0.0], [0], [1]], [[1.0], [0], [0]], [[0.0], [1], [0]], [[0.0, 0, 1]])
    weight = [[[1.0, 2.0, 0.0], [-1.0, 1.0, 0.0]]]
    model = TokenTransformer(weight, [[0.0, 0, 1], [0, 1, 1]], [TokenBlock([head])],
                             ([[0.0], [0.0], [1.0]], [0.0]))  # fmt: skip
    with pytest.raises(ArgumentError, match="neither constant nor a multiple"):
        _ = model.network


def test_sizes_and_parameters_are_counted():
    model = random_transformer(1)
    assert model.n_parameters == sum(array.size for array in model.arrays)
    assert 0 < model.n_nonzero <= model.n_parameters
    assert model.dim_in == 2
    assert model.dim_out == 2
    assert repr(model).startswith("TokenTransformer(R^2 -> R^2, 3 tokens of width 3, 2 blocks")


def test_a_model_without_blocks_is_affine():
    model = TokenTransformer([[[2.0]]], [[1.0]], [], ([[3.0]], [4.0]))
    assert model([5.0]).tolist() == [37.0]
    assert model.soft([5.0]).tolist() == [37.0]
    assert enumerate_regions(model, Box([0.0], [1.0])).n_cells == 1


def test_overflow_is_exact_in_the_hard_model_and_named_in_the_soft_one():
    head = TokenHead(np.eye(1) * 1e200, np.eye(1) * 1e200, np.eye(1), np.eye(1))
    model = TokenTransformer(
        [[[1.0], [2.0]]], [[0.0], [0.0]], [TokenBlock([head], None, False)], ([[1.0]], [0.0])
    )
    assert model([3.0]).tolist() == [6.0]
    with pytest.raises(NonFiniteError, match="temperature"):
        model.soft([3.0])


HEAD = TokenHead(np.eye(2), np.eye(2), np.eye(2), np.eye(2))


@pytest.mark.parametrize(
    ("build", "error", "match"),
    [
        (lambda: TokenHead(np.eye(2), np.eye(3), np.eye(2), np.eye(2)), HardmaxError, "key_weight"),
        (lambda: replace(HEAD, query_bias=[1.0]), HardmaxError, "query_bias"),
        (lambda: replace(HEAD, value_weight=[[np.nan]] * 2), NonFiniteError, "value_weight"),
        (lambda: TokenBlock([]), EmptyInputError, "heads"),
        (lambda: TokenBlock([3]), DtypeError, "heads"),
        (lambda: TokenBlock([HEAD], 3), DtypeError, "ffn"),
        (lambda: TokenBlock([HEAD], None, 1), DtypeError, "attention_residual"),
        (
            lambda: TokenBlock([HEAD], FeedForward(np.eye(3), None, np.eye(3), None)),
            ArgumentError,
            "width 2",
        ),
    ],
)
def test_bad_parts_are_refused(build, error, match):
    with pytest.raises(error, match=match):
        build()


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"embedding_bias": np.zeros((2, 2))}, HardmaxError, "embedding_bias"),
        ({"embedding_weight": np.full((1, 3, 2), np.inf)}, NonFiniteError, "embedding_weight"),
        ({"blocks": [3]}, DtypeError, "blocks"),
        ({"readout": ([[1.0]], [0.0])}, ArgumentError, "readout"),
        ({"readout": (1.0,)}, ArgumentError, "readout"),
        ({"readout_token": 3}, ArgumentError, "readout_token"),
        ({"readout_token": 0.5}, DtypeError, "readout_token"),
        ({"mask": np.zeros((3, 3), dtype=bool)}, ArgumentError, "mask"),
        ({"mask": np.ones((2, 3), dtype=bool)}, HardmaxError, "mask"),
        ({"mask": np.ones((3, 3))}, DtypeError, "mask"),
    ],
)
def test_bad_transformers_are_refused(changes, error, match):
    good = TokenTransformer(
        np.zeros((1, 3, 2)), np.zeros((3, 2)), [TokenBlock([HEAD])], AffineMap.identity(2)
    )
    with pytest.raises(error, match=match):
        replace(good, **changes)


def test_bad_points_and_temperatures_are_refused():
    model = random_transformer(0)
    for call in (model, model.soft):
        with pytest.raises(HardmaxError, match="`x`"):
            call([[1.0]])
        with pytest.raises(NonFiniteError, match="`x`"):
            call([np.nan, 0.0])
    for tau in (-1.0, [1.0], np.nan, [0.0, 1.0]):
        with pytest.raises(HardmaxError, match="`tau`"):
            model.soft([0.0, 0.0], tau)
