"""ReLU and maxout networks against their definitions in fractions."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.errors import (
    ArgumentError,
    DtypeError,
    EmptyInputError,
    NonFiniteError,
    ShapeMismatchError,
)
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.tropical.relu_maps import relu_network_map
from tests.reference.networks import maxout_network, relu_network
from tests.strategies import SMALL, WILD

ENTRIES = st.sampled_from([SMALL, st.integers(-1, 1).map(float)])


@st.composite
def relu_networks(draw, elements=None):
    """Draw (weights, biases, points); zero biases are common."""
    elements = elements if elements is not None else draw(ENTRIES)
    widths = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    bias = draw(st.sampled_from([elements, st.just(0.0)]))
    weights = [draw(arrays(np.float64, shape, elements=elements)) for shape in pairwise(widths)]
    biases = [draw(arrays(np.float64, n, elements=bias)) for n in widths[1:]]
    return weights, biases, draw(arrays(np.float64, (3, widths[0]), elements=elements))


@st.composite
def maxout_networks(draw, elements=None):
    """Draw (weights, biases, points) with a rank of its own for each unit."""
    elements = elements if elements is not None else draw(ENTRIES)
    dim = n_in = draw(st.integers(1, 3))
    weights, biases = [], []
    for width in draw(st.lists(st.integers(1, 3), max_size=2)):
        ranks = [draw(st.integers(1, 4)) for _ in range(width)]
        weights.append([draw(arrays(np.float64, (r, n_in), elements=elements)) for r in ranks])
        biases.append([draw(arrays(np.float64, r, elements=elements)) for r in ranks])
        n_in = width
    n_out = draw(st.integers(1, 2))
    weights.append(draw(arrays(np.float64, (n_in, n_out), elements=elements)))
    biases.append(draw(arrays(np.float64, n_out, elements=elements)))
    return weights, biases, draw(arrays(np.float64, (3, dim), elements=elements))


DEAD = [np.zeros((2, 2)), np.ones((2, 1))], [np.zeros(2), np.ones(1)], np.ones((3, 2))
CANCELLING = (
    [np.array([[0.1, 0.3], [0.2, -0.3]]), np.eye(2)],
    [np.array([-0.3, 0.0]), np.zeros(2)],
    np.array([[1.0, 1.0], [3.0, 3.0], [-1.0, 2.0]]),
)


@example(DEAD)
@example(CANCELLING)
@given(relu_networks())
def test_a_relu_network_is_what_its_definition_says(case):
    weights, biases, points = case
    net = ReluNetwork(weights, biases)
    for x, output, signature in zip(points, net(points), net.signature(points), strict=True):
        exact, pattern, _ = relu_network(x.tolist(), *_lists(weights, biases))
        assert signature.tolist() == pattern
        np.testing.assert_allclose(output, np.array(exact, float), rtol=1e-14, atol=1e-12)


@given(relu_networks(WILD))
def test_the_signature_is_exact_at_every_scale(case):
    weights, biases, points = case
    net = ReluNetwork(weights, biases)
    for x, signature in zip(points, net.signature(points), strict=True):
        assert signature.tolist() == relu_network(x.tolist(), *_lists(weights, biases))[1]


@given(relu_networks())
def test_the_affine_map_of_the_signature_gives_the_output(case):
    """A ReLU network is continuous, so this holds on walls as well."""
    weights, biases, points = case
    net = ReluNetwork(weights, biases)
    for x in points:
        slope, offset = net.affine_map(net.signature(x))
        np.testing.assert_allclose(x @ slope + offset, net(x), rtol=1e-12, atol=1e-10)


@given(relu_networks())
def test_a_relu_network_is_a_tropical_rational_map(case):
    weights, biases, points = case
    small = [w[:2, :2] for w in weights[:2]]
    short = [b[:2] for b in biases[:2]]
    points = points[:, :2]
    expected = relu_network_map(small, short)(points)
    np.testing.assert_allclose(ReluNetwork(small, short)(points), expected, atol=1e-10)


@given(maxout_networks())
def test_a_maxout_network_is_what_its_definition_says(case):
    weights, biases, points = case
    net = MaxoutNetwork(weights, biases)
    for x, output, signature in zip(points, net(points), net.signature(points), strict=True):
        exact, winners = maxout_network(x.tolist(), weights, biases)
        assert signature.tolist() == winners
        np.testing.assert_allclose(output, np.array(exact, float), rtol=1e-13, atol=1e-12)
        slope, offset = net.affine_map(signature)
        np.testing.assert_allclose(x @ slope + offset, output, rtol=1e-12, atol=1e-10)


@given(maxout_networks(WILD))
def test_maxout_winners_are_exact_at_every_scale(case):
    weights, biases, points = case
    got = MaxoutNetwork(weights, biases).signature(points)
    assert got.tolist() == [maxout_network(x.tolist(), weights, biases)[1] for x in points]


@given(relu_networks())
def test_a_relu_network_is_a_maxout_network_of_rank_two(case):
    weights, biases, points = case
    relu = ReluNetwork(weights, biases)
    units = [np.stack([np.zeros_like(w.T), w.T], axis=1) for w in weights[:-1]]
    offsets = [np.stack([np.zeros_like(b), b], axis=1) for b in biases[:-1]]
    maxout = MaxoutNetwork([*units, weights[-1]], [*offsets, biases[-1]])
    np.testing.assert_array_equal(maxout.signature(points), relu.signature(points))
    np.testing.assert_allclose(maxout(points), relu(points), rtol=1e-14, atol=1e-12)


def test_outputs_beyond_float64_are_infinite_and_others_survive_large_intermediates():
    net = ReluNetwork([[[1e200]], [[1e200]], [[1e-200]]], None)
    assert net([[1.0], [1e-100], [-1.0]]).tolist() == [[1e200], [1e100], [0.0]]
    assert ReluNetwork([[[1e300]], [[1e300]]])([1.0]).tolist() == [np.inf]


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 0, 2], [1, 2, 0]])
def test_an_overflow_is_not_hidden_by_a_relu(order):
    """The sum is 1e308, but its first term alone is -inf in floats, which a ReLU makes 0."""
    weight = np.array([[-1e308], [1.5e308], [1.5e308]])[order]
    x = np.array([2.0, 1.0, 1.0])[order]
    assert ReluNetwork([weight, [[1e-308]]])(x).tolist() == [pytest.approx(1.0)]
    maxout = MaxoutNetwork([[np.vstack([weight.T, np.zeros((1, 3))])], [[1e-308]]])
    assert maxout(x).tolist() == [pytest.approx(1.0)]


def test_a_network_without_hidden_layers_is_affine():
    net = ReluNetwork([[[2.0], [1.0]]], [[3.0]])
    assert repr(net) == "ReluNetwork(2 -> [] -> 1)"
    assert net([1.0, 1.0]).tolist() == [6.0]
    assert net.signature([[1.0, 1.0]]).shape == (1, 0)
    assert [part.tolist() for part in net.affine_map([])] == [[[2.0], [1.0]], [3.0]]
    assert MaxoutNetwork([[[2.0], [1.0]]], [[3.0]])([1.0, 1.0]).tolist() == [6.0]


def test_models_say_how_large_they_are_and_keep_their_own_copy():
    weight = np.ones((2, 3))
    net = ReluNetwork([weight, np.ones((3, 1))], [np.zeros(3), None])
    assert (net.dim_in, net.dim_out, net.n_parameters, net.widths) == (2, 1, 13, [3])
    weight[:] = 7.0
    assert net.weights[0].max() == 1.0
    maxout = MaxoutNetwork([[np.ones((2, 2)), np.ones((3, 2))], np.ones((2, 1))])
    assert (maxout.n_parameters, maxout.ranks) == (18, [[2, 3]])
    assert repr(maxout) == "MaxoutNetwork(2 -> [2] -> 1, ranks 2 to 3)"


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: ReluNetwork([]), EmptyInputError, "`weights`"),
        (lambda: ReluNetwork("ab"), DtypeError, "`weights`"),
        (lambda: ReluNetwork(3.0), DtypeError, "`weights`"),
        (lambda: ReluNetwork(np.float64(3.0)), DtypeError, "`weights`"),
        (lambda: ReluNetwork([[1.0]]), ShapeMismatchError, r"`weights\[0\]`"),
        (lambda: ReluNetwork([np.zeros((2, 0))]), EmptyInputError, r"`weights\[0\]`"),
        (lambda: ReluNetwork([[["a"]]]), DtypeError, r"`weights\[0\]`"),
        (lambda: ReluNetwork([[[np.nan]]]), NonFiniteError, r"`weights\[0\]`"),
        (lambda: ReluNetwork([[[1.0]]], [[np.inf]]), NonFiniteError, r"`biases\[0\]`"),
        (lambda: ReluNetwork([[[1.0]]], [[1.0, 2.0]]), ShapeMismatchError, r"`biases\[0\]`"),
        (lambda: ReluNetwork([[[1.0]]], [None, None]), ShapeMismatchError, "`biases`"),
        (lambda: ReluNetwork([[[1.0]], [[1.0], [1.0]]]), ShapeMismatchError, r"`weights\[1\]`"),
        (lambda: MaxoutNetwork([]), EmptyInputError, "`weights`"),
        (lambda: MaxoutNetwork([[], [[1.0]]]), EmptyInputError, r"`weights\[0\]`"),
        (lambda: MaxoutNetwork([1.0, [[1.0]]]), DtypeError, r"`weights\[0\]`"),
        (
            lambda: MaxoutNetwork([[[[1.0]], [[1.0, 2.0]]], [[1.0], [1.0]]]),
            ShapeMismatchError,
            r"`weights\[0\]\[1\]`",
        ),
        (
            lambda: MaxoutNetwork([[[[1.0]]], [[1.0]]], [[[1.0, 2.0]], None]),
            ShapeMismatchError,
            r"`biases\[0\]\[0\]`",
        ),
        (
            lambda: MaxoutNetwork([[[[1.0]]], [[1.0], [2.0]]]),
            ShapeMismatchError,
            r"`weights\[1\]`",
        ),
        (
            lambda: MaxoutNetwork([[[[1.0]]], [[[1.0, 2.0]]], [[1.0]]]),
            ShapeMismatchError,
            r"`weights\[1\]\[0\]`",
        ),
    ],
)
def test_bad_weights_are_refused_by_name(build, error, message):
    with pytest.raises(error, match=message):
        build()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda net: net([1.0]), ShapeMismatchError, "`x`"),
        (lambda net: net([[np.nan, 0.0]]), NonFiniteError, "`x`"),
        (lambda net: net.signature([["a", "b"]]), DtypeError, "`x`"),
        (lambda net: net.soft([1.0, 1.0], -1.0), ArgumentError, "`tau`"),
        (lambda net: net.soft([1.0, 1.0], [1.0, 1.0]), ShapeMismatchError, "`tau`"),
        (lambda net: net.soft([1.0, 1.0], np.nan), NonFiniteError, "`tau`"),
        (lambda net: net.affine_map([0, 1]), ShapeMismatchError, "`signature`"),
        (lambda net: net.affine_map([0, 1, 2]), ArgumentError, "`signature`"),
        (lambda net: net.affine_map([0, 1, -1]), ArgumentError, "`signature`"),
        (lambda net: net.affine_map([0.0, 1.0, 1.0]), DtypeError, "`signature`"),
    ],
)
def test_bad_questions_are_refused_by_name(call, error, message):
    net = ReluNetwork([np.ones((2, 3)), np.ones((3, 1))])
    with pytest.raises(error, match=message):
        call(net)


def _lists(weights, biases):
    return [w.tolist() for w in weights], [b.tolist() for b in biases]
