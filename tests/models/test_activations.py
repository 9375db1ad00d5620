"""Activations as maxima, and networks of them, against their definitions in fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.constructions.compilers.maxout_compiler import compile_maxout, compile_relu
from hardmax.errors import ArgumentError, DtypeError, ShapeMismatchError
from hardmax.geometry.domains import Box
from hardmax.models.argmax import AffineMap
from hardmax.models.formats.activations import (
    ABS,
    IDENTITY,
    RELU,
    Activation,
    clip,
    leaky_relu,
    prelu,
    read_activation,
    read_activations,
)
from hardmax.models.formats.layered_networks import build_network
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from tests.compiled_models import exact_value
from tests.reference import activations as reference
from tests.sweeps import seeds

F = Fraction
WORDS = {
    "relu": reference.relu,
    "identity": reference.identity,
    "none": reference.identity,
    "abs": reference.absolute,
    "leaky_relu": reference.leaky(F(0.01)),
    "leaky_relu(0.2)": reference.leaky(F(0.2)),
    "leaky_relu(-0.75)": reference.leaky(F(-0.75)),
    "leaky_relu(3.5)": reference.leaky(F(3.5)),
    "prelu(0.3)": reference.leaky(F(0.3)),
    "relu6": reference.clipped(F(0), F(6)),
    "hardtanh": reference.clipped(F(-1), F(1)),
    "hardtanh(-0.1, 0.7)": reference.clipped(F(-0.1), F(0.7)),
    "clip(-inf, 0.3)": reference.clipped(None, F(0.3)),
    "clip(0.3, inf)": reference.clipped(F(0.3), None),
    "clip(1, -1)": reference.clipped(F(1), F(-1)),
    "softshrink": reference.soft_shrunk(F(0.5)),
    "softshrink(0.1)": reference.soft_shrunk(F(0.1)),
    "hardsigmoid(0.2, 0.5)": reference.hard_sigmoid(F(0.2), F(0.5)),
}


def value_of(activation, z, channel=0):
    """Apply the stages of an activation to one number, from their definition."""
    for stage in activation.stages:
        units = stage[channel % len(stage)]
        z = sum(F(u.sign) * max(F(a) * z + F(c) for a, c in u.pieces) for u in units)
    return z


@pytest.mark.parametrize("word", WORDS)
@given(st.fractions(-10, 10, max_denominator=97))
def test_an_activation_is_the_maxima_it_lists(word, z):
    assert value_of(read_activation(word), z) == WORDS[word](z)


@pytest.mark.parametrize("word", WORDS)
def test_the_name_of_an_activation_is_read_back(word):
    activation = read_activation(word)
    assert read_activation(str(activation)) == activation


def test_slopes_differ_between_channels():
    activation = prelu([0.25, -1.0, 2.0])
    assert [value_of(activation, F(-4), c) for c in range(3)] == [-1, 4, -8]
    assert [value_of(activation, F(4), c) for c in range(3)] == [4, 4, 4]
    assert activation.n_channels == 3
    with pytest.raises(ShapeMismatchError, match="one for each of the 2 channels; got 3"):
        build_network([AffineMap.identity(2), activation])


@pytest.mark.parametrize("word", ["gelu", "GELU", "sigmoid", "tanh", "SiLU", "softplus", "elu"])
def test_what_is_not_piecewise_linear_is_refused_with_the_reason(word):
    with pytest.raises(ArgumentError, match="not piecewise linear"):
        read_activation(word)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("hardshrink", ArgumentError, "jumps"),
        ("rleu", ArgumentError, "`activations` must be among relu"),
        ("relu(1)", ArgumentError, "relu must have 0 numbers"),
        ("clip(0)", ArgumentError, "clip must have 2 numbers"),
        ("leaky_relu(x)", ArgumentError, "numbers in parentheses; got 'x'"),
        ("leaky_relu(nan)", ArgumentError, "`slope`"),
        ("leaky_relu(inf)", ArgumentError, "`slope`"),
        ("clip(inf, 0)", ArgumentError, "`low`"),
        ("softshrink(-1)", ArgumentError, "`threshold`"),
        (3, DtypeError, "`activations` must be words"),
        ("", ArgumentError, "got ''"),
    ],
)
def test_other_words_are_refused_by_name(value, error, message):
    with pytest.raises(error, match=message):
        read_activation(value)


def test_one_activation_stands_for_all_layers_but_the_last():
    assert read_activations("abs", None, 3) == [ABS, ABS, IDENTITY]
    assert read_activations(RELU, "relu", 2) == [RELU, RELU]
    assert read_activations(["abs", "relu"], None, 2) == [ABS, RELU]
    assert read_activations("abs,clip(0,1) , none", None, 3) == [ABS, clip(0, 1), IDENTITY]
    assert read_activations("relu", None, 1) == [RELU]
    with pytest.raises(ShapeMismatchError, match="one for each of the 3 layers; got 2"):
        read_activations("relu,relu", None, 3)
    with pytest.raises(ArgumentError, match="`last_activation` must be None"):
        read_activations("relu,relu", "relu", 2)
    with pytest.raises(ArgumentError, match="`activations` must have at least one"):
        read_activations([], None, 2)


def random_steps(rng, words, widths, *, bits=53):
    """Affine maps with activations between and after them, and the definitions of these."""
    steps, definitions = [], []
    for n_in, n_out, word in zip(widths, widths[1:], words, strict=False):
        weight, bias = rng.normal(size=(n_in, n_out)), rng.normal(size=n_out)
        if bits == 24:
            weight, bias = (a.astype(np.float32).astype(float) for a in (weight, bias))
        steps.append(AffineMap(weight, bias))
        definitions.append(None)
        if word == "prelu":
            slopes = rng.normal(size=n_out).astype(np.float32).astype(float) * 1.5
            steps.append(prelu(slopes))
            definitions.append([reference.leaky(F(float(s))) for s in slopes])
        elif word is not None:
            steps.append(read_activation(word))
            definitions.append([WORDS[word]] * n_out)
    return steps, definitions


def by_definition(steps, definitions, x):
    """The value in fractions, step by step."""
    z = [F(float(c)) for c in x]
    for step, definition in zip(steps, definitions, strict=True):
        if definition is not None:
            z = [f(c) for f, c in zip(definition, z, strict=True)]
            continue
        z = [
            sum((F(float(w)) * c for w, c in zip(column, z, strict=True)), F(float(b)))
            for column, b in zip(step.weight.T, step.bias, strict=True)
        ]
    return z


@pytest.mark.parametrize("bits", [24, 53])
@pytest.mark.parametrize("seed", seeds(20))
def test_a_network_of_activations_is_the_same_function_to_the_last_digit(seed, bits):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4))
    words = rng.choice([*WORDS, "prelu", None], n).tolist()
    steps, definitions = random_steps(rng, words, rng.integers(1, 5, n + 1).tolist(), bits=bits)
    net = build_network(steps)
    for x in 3.0 * rng.normal(size=(20, net.dim_in)):
        assert exact_value(net, x) == by_definition(steps, definitions, x)


def test_relu_networks_stay_relu_networks():
    steps, _ = random_steps(np.random.default_rng(0), ["relu", "relu", None], [2, 3, 4, 1])
    assert repr(build_network(steps)) == "ReluNetwork(2 -> [3, 4] -> 1)"
    assert repr(build_network([*steps, RELU, RELU])) == "ReluNetwork(2 -> [3, 4, 1] -> 1)"
    assert repr(build_network(steps[:1])) == "ReluNetwork(2 -> [] -> 3)"


def test_slopes_of_float32_need_no_layer_of_their_own():
    rng = np.random.default_rng(1)
    steps, _ = random_steps(rng, ["prelu", None], [2, 3, 1], bits=24)
    assert build_network(steps).ranks == [[2, 2, 2]]
    # 0.01 times a weight has more digits than a float64: it is not rounded, but stands alone.
    steps, _ = random_steps(rng, ["leaky_relu", None], [2, 3, 1])
    assert build_network(steps).ranks == [[1, 1, 1], [2, 2, 2]]


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_products_beyond_the_range_of_floats_are_not_rounded_either(scale):
    steps = [AffineMap(np.array([[scale, -scale]]), np.array([scale, 0.0])), leaky_relu(2.0**-40)]
    net = build_network([*steps, AffineMap(np.array([[scale], [1.0]]), np.zeros(1))])
    definitions = [None, [reference.leaky(F(1, 2**40))] * 2, None]
    given = [*steps, AffineMap(np.array([[scale], [1.0]]), np.zeros(1))]
    for x in ([-1.5], [0.25], [3.0]):
        assert exact_value(net, x) == by_definition(given, definitions, x)


def test_steps_that_are_no_network_are_refused():
    with pytest.raises(ArgumentError, match="at least one Linear"):
        build_network([RELU])
    with pytest.raises(ShapeMismatchError, match="must take the 2 outputs"):
        build_network([AffineMap.identity(2), AffineMap.identity(3)])


@pytest.mark.parametrize(("where", "epsilon"), [("hidden", 1e-3), ("last", None), ("both", 1e-1)])
@pytest.mark.parametrize("word", [w for w in WORDS if w != "clip(1, -1)"])
def test_the_true_difference_is_within_the_certified_error(word, where, epsilon):
    rng = np.random.default_rng(7)
    hidden, last = (word, None) if where == "hidden" else ("relu", word)
    if where == "both":
        hidden = word
    steps, definitions = random_steps(rng, [hidden, last], [2, 4, 2])
    net = build_network(steps)
    box = Box([-1.0, -1.0], [1.0, 1.0])
    compile_it = compile_relu if isinstance(net, ReluNetwork) else compile_maxout
    compiled = compile_it(net, box, epsilon)
    points = rng.uniform(-1, 1, (40, 2))
    exact = np.array([[float(v) for v in by_definition(steps, definitions, x)] for x in points])
    assert np.abs(compiled(points) - exact).max() <= compiled.certified_error + 1e-15
    assert epsilon is None or compiled.certified_error <= epsilon


def test_layers_as_arrays_take_stated_activations():
    layers = [([[1.0, -1.0]], [0.5, 0.0]), [[1.0], [1.0]]]
    box = Box([-2.0], [2.0])
    leaky = compile_relu(layers, box, activations="leaky_relu(0.5)", last_activation="relu6")
    assert isinstance(leaky.source, MaxoutNetwork)
    z = np.linspace(-2, 2, 41)
    inner = [np.where(v > 0, v, 0.5 * v) for v in (z + 0.5, -z)]
    np.testing.assert_allclose(leaky(z[:, None])[:, 0], np.clip(inner[0] + inner[1], 0, 6))
    final = compile_relu(layers, box, last_activation="relu")
    assert repr(final.source) == "ReluNetwork(1 -> [2, 1] -> 1)"
    with pytest.raises(ArgumentError, match="`activations` cannot be combined"):
        compile_relu(ReluNetwork([[[1.0]]]), box, activations="abs")


def test_activations_are_equal_if_they_do_the_same():
    assert read_activation("relu") == Activation("relu", RELU.stages)
    assert hash(clip(0, 1)) == hash(clip(0.0, 1.0))
