"""Hard and soft transformers against their definitions in fractions."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.errors import ArgumentError, DtypeError, EmptyInputError, ShapeMismatchError
from hardmax.models.argmax import AffineMap
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from tests.reference.networks import transformer
from tests.strategies import SMALL, WILD

TINY = st.integers(-1, 1).map(float)


@st.composite
def heads(draw, dim, out_dim, elements):
    """Draw a head with its own number of keys and widths; masks and repeated keys are common."""
    n_keys, d_k, d_v = (draw(st.integers(1, 4)), draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    logit_bias = None
    if draw(st.booleans()):
        logit_bias = draw(arrays(np.float64, n_keys, elements=elements))
        masked = draw(arrays(np.bool_, n_keys))
        masked[draw(st.integers(0, n_keys - 1))] = False
        logit_bias[masked] = -np.inf
    return AttentionHead(
        draw(arrays(np.float64, (dim, d_k), elements=elements)),
        draw(arrays(np.float64, (n_keys, d_k), elements=elements)),
        draw(arrays(np.float64, (n_keys, d_v), elements=elements)),
        draw(arrays(np.float64, (d_v, out_dim), elements=elements)),
        draw(st.none() | arrays(np.float64, d_k, elements=elements)),
        logit_bias,
    )


@st.composite
def blocks(draw, dim, elements):
    """Draw a block that keeps or changes the width, with or without each of its parts."""
    attention_residual, ffn_residual = draw(st.booleans()), draw(st.booleans())
    middle = dim if attention_residual else draw(st.integers(1, 3))
    n_heads = draw(st.integers(0, 3))
    middle = middle if n_heads else dim
    drawn = [draw(heads(dim, middle, elements)) for _ in range(n_heads)]
    if n_heads and draw(st.booleans()):
        drawn.append(drawn[0])  # Identical heads.
    ffn = None
    if not n_heads or draw(st.booleans()):
        out_dim = middle if ffn_residual else draw(st.integers(1, 3))
        d_ff = draw(st.integers(1, 3))
        ffn = FeedForward(
            draw(arrays(np.float64, (middle, d_ff), elements=elements)),
            draw(st.none() | arrays(np.float64, d_ff, elements=elements)),
            draw(arrays(np.float64, (d_ff, out_dim), elements=elements)),
            draw(st.none() | arrays(np.float64, out_dim, elements=elements)),
        )
    return Block(drawn, ffn, attention_residual, ffn_residual)


@st.composite
def transformers(draw, elements=None):
    """Draw (model, points)."""
    elements = elements if elements is not None else draw(st.sampled_from([SMALL, TINY]))
    width = draw(st.integers(1, 3))
    stack = []
    for _ in range(draw(st.integers(1, 2))):
        stack.append(draw(blocks(stack[-1].out_dim if stack else width, elements)))
    embedding = readout = None
    dim = width
    if draw(st.booleans()):
        dim = draw(st.integers(1, 3))
        weight = draw(arrays(np.float64, (dim, width), elements=elements))
        embedding = weight, draw(arrays(np.float64, width, elements=elements))
    if draw(st.booleans()):
        shape = stack[-1].out_dim, draw(st.integers(1, 2))
        readout = draw(arrays(np.float64, shape, elements=elements)), None
    model = HardTransformer(stack, embedding, readout)
    return model, draw(arrays(np.float64, (3, dim), elements=elements))


def zero_bias_model(seed):
    rng = np.random.default_rng(seed)
    head = AttentionHead(*(rng.normal(size=s) for s in ((2, 2), (5, 2), (5, 3), (3, 2))))
    ffn = FeedForward(rng.normal(size=(2, 4)), None, rng.normal(size=(4, 2)), None)
    return HardTransformer([Block([head, head], ffn), Block([head], ffn)])


@example((zero_bias_model(1), np.array([[0.0, 0.0], [1.0, -2.0], [0.3, 0.1]])))
@given(transformers())
def test_a_transformer_is_what_its_definition_says(case):
    model, points = case
    for x, output, signature in zip(points, model(points), model.signature(points), strict=True):
        exact, winners = transformer(x.tolist(), model)
        assert signature.tolist() == winners
        np.testing.assert_allclose(output, np.array(exact, float), rtol=1e-13, atol=1e-11)


@given(transformers(WILD))
def test_winners_are_exact_at_every_scale(case):
    model, points = case
    got = model.signature(points).tolist()
    assert got == [transformer(x.tolist(), model)[1] for x in points]


@given(transformers(), st.sampled_from([0.5, 1.0, 3.0, 1e3]))
def test_the_soft_model_is_the_usual_formula(case, tau):
    model, points = case
    soft = model.soft(points, tau)
    for x, output in zip(points, soft, strict=True):
        exact = np.array(transformer(x.tolist(), model, tau)[0], float)
        np.testing.assert_allclose(output, exact, rtol=1e-11, atol=1e-10)


@given(transformers(), st.sampled_from([1e-8, 1e-100, 1e-300]))
def test_the_soft_model_tends_to_the_hard_one_on_integers(case, tau):
    """Scores of integer models differ by 0 or by at least 1/lcm, so any small tau will do.

    A tie of the hard model in a later layer is a tie of limits only; the limit of the soft
    model then depends on how its scores approach each other, so only one block is compared.
    """
    model, points = case
    first = HardTransformer(model.blocks[:1], model.embedding)
    np.testing.assert_allclose(first.soft(points, tau), first(points), rtol=1e-12, atol=1e-12)


@given(st.integers(0, 200))
def test_the_soft_model_tends_to_the_hard_one_inside_cells(seed):
    rng = np.random.default_rng(seed)
    model = zero_bias_model(seed)
    points = rng.normal(size=(5, 2))
    for tau in (1e-9, 1e-200):
        np.testing.assert_allclose(model.soft(points, tau), model(points), rtol=1e-9, atol=1e-9)


@given(st.integers(0, 200))
def test_the_affine_map_of_the_signature_gives_the_output(seed):
    rng = np.random.default_rng(seed)
    model, x = zero_bias_model(seed), rng.normal(size=2)
    slope, offset = model.affine_map(model.signature(x))
    np.testing.assert_allclose(x @ slope + offset, model(x), rtol=1e-11, atol=1e-11)


def test_repeated_keys_give_the_mean_of_their_values():
    values = [[1.0], [5.0], [3.0], [100.0]]
    head = AttentionHead(np.eye(1), [[1.0], [1.0], [1.0], [-1.0]], values, np.eye(1))
    model = HardTransformer([Block([head], attention_residual=False)])
    assert model([[2.0], [-2.0], [0.0]]).tolist() == [[3.0], [100.0], [27.25]]
    assert model.signature([[2.0], [-2.0], [0.0]]).tolist() == [[0], [3], [0]]
    assert [part.tolist() for part in model.affine_map([0])] == [[[0.0]], [3.0]]
    assert [part.tolist() for part in model.affine_map([1])] == [[[0.0]], [3.0]]


def test_keys_that_coincide_only_on_the_image_of_the_embedding_tie():
    """Keys differ in a direction that no embedded input has."""
    head = AttentionHead(np.eye(2), [[1.0, 0.1], [1.0, 0.2]], [[0.0], [3.0]], [[1.0, 0.0]])
    model = HardTransformer([Block([head])], ([[0.7, 0.0]], None))
    np.testing.assert_allclose(model([[0.1], [-3.0]])[:, 0], [1.57, -0.6], rtol=1e-14)
    np.testing.assert_allclose(model.soft([[0.1]], 1e-30), [[1.57, 0.0]])


def test_signatures_count_unmasked_keys_only():
    head = AttentionHead(
        np.eye(1), [[9.0], [-1.0], [1.0]], np.eye(3), np.eye(3), None, [-np.inf, 0.0, 0.0]
    )
    model = HardTransformer([Block([head], attention_residual=False)])
    assert model.signature([[-1.0], [1.0]]).tolist() == [[0], [1]]
    assert model([[1.0]]).tolist() == [[0.0, 0.0, 1.0]]
    assert head.unmasked[model.signature([1.0])].tolist() == [2]


def test_one_head_alone_is_the_attention_head():
    rng = np.random.default_rng(0)
    head = AttentionHead(*(rng.normal(size=s) for s in ((3, 2), (6, 2), (6, 4), (4, 2))))
    model = HardTransformer([Block([head], attention_residual=False)])
    x = rng.normal(size=(20, 3))
    np.testing.assert_array_equal(model.signature(x)[:, 0], head.winners(x))
    np.testing.assert_allclose(model(x), head(x), rtol=1e-13)
    np.testing.assert_allclose(model.soft(x, 0.3), head.soft(x, 0.3), rtol=1e-11)


def test_temperatures_may_differ_between_blocks():
    model = zero_bias_model(5)
    x = np.random.default_rng(5).normal(size=(4, 2))
    np.testing.assert_array_equal(model.soft(x, [0.7, 0.7]), model.soft(x, 0.7))
    np.testing.assert_array_equal(model.soft(x, [0.0, 0.0]), model(x))
    assert not np.allclose(model.soft(x, [0.7, 0.0]), model.soft(x, 0.7))
    first = HardTransformer(model.blocks[:1])
    second = HardTransformer(model.blocks[1:])
    np.testing.assert_allclose(model.soft(x, [0.7, 0.0]), second(first.soft(x, 0.7)), atol=1e-12)


def test_a_model_says_what_it_is():
    model = zero_bias_model(0)
    assert repr(model) == "HardTransformer(R^2 -> R^2, 2 blocks, 3 heads, 8 units)"
    assert model.n_parameters == 3 * (4 + 10 + 15 + 6) + 2 * (8 + 4 + 8 + 2)
    wide = HardTransformer(model.blocks, AffineMap(np.ones((3, 2)), np.zeros(2)), ([[1], [1]], [2]))
    assert (wide.dim_in, wide.dim_out) == (3, 1)
    assert wide.n_parameters == model.n_parameters + 6 + 2 + 2 + 1
    assert (
        repr(Block(model.blocks[0].heads, None, False)) == "Block(2 heads, no attention residual)"
    )


IDENTITY_HEAD = AttentionHead(np.eye(2), np.eye(2), np.eye(2), np.eye(2))
WIDENING_HEAD = AttentionHead(np.eye(2), np.eye(2), np.eye(2), np.ones((2, 3)))
IDENTITY_FFN = FeedForward(np.eye(2), None, np.eye(2), None)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (
            lambda: FeedForward(np.zeros((2, 0)), None, np.zeros((0, 2)), None),
            EmptyInputError,
            "w_in",
        ),
        (lambda: FeedForward(np.eye(2), None, np.ones((3, 2)), None), ShapeMismatchError, "w_out"),
        (lambda: FeedForward(np.eye(2), [1.0], np.eye(2), None), ShapeMismatchError, "b_in"),
        (lambda: FeedForward(np.eye(2), None, np.eye(2), [1.0]), ShapeMismatchError, "b_out"),
        (lambda: Block([]), EmptyInputError, "heads"),
        (lambda: Block(IDENTITY_HEAD), DtypeError, "heads"),
        (lambda: Block([IDENTITY_FFN]), DtypeError, r"heads\[0\]"),
        (lambda: Block([IDENTITY_HEAD], IDENTITY_HEAD), DtypeError, "ffn"),
        (lambda: Block([IDENTITY_HEAD], None, 1), DtypeError, "attention_residual"),
        (lambda: Block([IDENTITY_HEAD, WIDENING_HEAD]), ArgumentError, r"heads\[1\]"),
        (lambda: Block([WIDENING_HEAD]), ArgumentError, "attention_residual"),
        (lambda: Block([WIDENING_HEAD], IDENTITY_FFN, False), ArgumentError, "ffn"),
        (
            lambda: Block([], FeedForward(np.eye(2), None, np.ones((2, 3)), None)),
            ArgumentError,
            "ffn_residual",
        ),
        (lambda: HardTransformer([]), EmptyInputError, "blocks"),
        (lambda: HardTransformer(Block([IDENTITY_HEAD])), DtypeError, "blocks"),
        (lambda: HardTransformer([IDENTITY_HEAD]), DtypeError, r"blocks\[0\]"),
        (
            lambda: HardTransformer([Block([WIDENING_HEAD], None, False), Block([IDENTITY_HEAD])]),
            ArgumentError,
            r"blocks\[1\]",
        ),
        (
            lambda: HardTransformer([Block([IDENTITY_HEAD])], (np.ones((2, 3)), None)),
            ArgumentError,
            "embedding",
        ),
        (
            lambda: HardTransformer([Block([IDENTITY_HEAD])], None, (np.ones((3, 2)), None)),
            ArgumentError,
            "readout",
        ),
        (
            lambda: HardTransformer([Block([IDENTITY_HEAD])], np.eye(3)),
            ArgumentError,
            "embedding",
        ),
        (
            lambda: HardTransformer([Block([IDENTITY_HEAD])]).soft([1.0, 1.0], [1.0, 2.0]),
            ShapeMismatchError,
            "tau",
        ),
    ],
)
def test_bad_models_are_refused_by_name(build, error, message):
    with pytest.raises(error, match=f"`{message}`"):
        build()
