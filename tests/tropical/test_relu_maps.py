"""ReLU networks as tropical rational maps: the same function, the same pieces."""

import itertools
from fractions import Fraction
from math import comb, lcm

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.errors import (
    ArgumentError,
    DtypeError,
    EmptyInputError,
    NonFiniteError,
    ShapeMismatchError,
    SizeLimitError,
)
from hardmax.geometry.cones import decide_open_cone
from hardmax.tropical.relu_maps import relu_layer_map, relu_network_map
from tests.reference import polynomials as reference
from tests.strategies import SMALL, WILD
from tests.sweeps import examples


@st.composite
def networks(draw, widths, elements=SMALL):
    weights = [
        draw(arrays(np.float64, shape, elements=elements)) for shape in itertools.pairwise(widths)
    ]
    biases = [draw(arrays(np.float64, (n,), elements=elements)) for n in widths[1:]]
    points = draw(arrays(np.float64, (3, widths[0]), elements=elements))
    return weights, biases, points


def gaussian_network(seed, *widths):
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=shape) for shape in itertools.pairwise(widths)]
    return weights, [rng.normal(size=n) / 2 for n in widths[1:]]


def forward(weights, biases, x):
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        x = np.maximum(x @ weight + bias, 0)
    return x @ weights[-1] + biases[-1]


# --- the function ---------------------------------------------------------------------------


@examples(30)
@given(
    st.sampled_from([(1, 2, 1), (2, 3, 1), (2, 2, 2, 1), (1, 2, 2, 2, 1), (2, 3)]).flatmap(networks)
)
def test_small_integer_networks_keep_every_value(drawn):
    weights, biases, points = drawn
    F = relu_network_map(weights, biases)
    expected = [reference.relu_network(weights, biases, x) for x in points]
    assert F.exact_values(points).tolist() == expected
    np.testing.assert_array_equal(F(points), forward(weights, biases, points))


@examples(30)
@given(networks((2, 3, 2, 1), st.floats(-1e40, 1e40)))
def test_networks_of_any_scale_keep_every_value_exactly(drawn):
    weights, biases, points = drawn
    F = relu_network_map(weights, biases)
    expected = [reference.relu_network(weights, biases, x) for x in points]
    assert F.exact_values(points).tolist() == expected


@given(networks((2, 3), WILD))
def test_a_layer_is_the_relu_of_an_affine_map(drawn):
    (weight,), (bias,), points = drawn
    F = relu_layer_map(weight, bias)
    identity = [weight, np.eye(3)], [bias, np.zeros(3)]
    expected = [reference.relu_network(*identity, x) for x in points]
    assert F.exact_values(points).tolist() == expected
    assert F.denominator.n_terms == 1


@pytest.mark.parametrize("widths", [(2, 3, 3, 1), (3, 4, 2), (4, 3, 3, 2), (2, 3, 3, 3, 1)])
def test_random_networks_agree_with_the_forward_pass(widths):
    weights, biases = gaussian_network(0, *widths)
    F = relu_network_map(weights, biases)
    points = np.random.default_rng(1).normal(size=(500, widths[0])) * 3
    np.testing.assert_allclose(F(points), forward(weights, biases, points), rtol=1e-9, atol=1e-9)
    for x in points[:5]:
        assert F.exact_values(x).tolist() == reference.relu_network(weights, biases, x)


def test_a_layer_after_a_layer_is_the_network():
    weights, biases = gaussian_network(2, 2, 3, 2, 1)
    step = relu_layer_map(weights[0], biases[0]).affine(weights[1], biases[1]).relu()
    assert step.affine(weights[2], biases[2]).equals(relu_network_map(weights, biases))


def test_rewriting_the_weights_does_not_change_the_map():
    """relu(2z) / 2 = relu(z), and hidden units may be permuted."""
    weights, biases = gaussian_network(3, 2, 3, 2)
    order, scale = [2, 0, 1], np.array([2.0, 0.5, 8.0])
    other = (
        [weights[0][:, order] * scale, weights[1][order] / scale[:, None]],
        [biases[0][order] * scale, biases[1]],
    )
    assert relu_network_map(weights, biases).equals(relu_network_map(*other))
    nudged = [biases[0], np.nextafter(biases[1], 9)]
    assert not relu_network_map(weights, biases).equals(relu_network_map(weights, nudged))


# --- the pieces -----------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "n"), [(1, 5), (2, 4), (2, 7), (3, 5)])
def test_a_generic_layer_has_as_many_cells_as_its_arrangement(dim, n):
    weights, biases = gaussian_network(dim + n, dim, n)
    pieces = relu_layer_map(weights[0], biases[0]).common_refinement()
    zaslavsky = sum(comb(n, j) for j in range(dim + 1))
    assert (pieces.n_cells, pieces.n_regions, pieces.n_affine_maps) == (zaslavsky,) * 3


@pytest.mark.parametrize("n_outputs", [1, 2, 3])
def test_walls_shared_by_several_outputs_make_no_slivers(n_outputs):
    """With rounded coefficients the walls of different outputs would not coincide."""
    weights, biases = gaussian_network(8, 2, 6, n_outputs)
    pieces = relu_network_map(weights, biases).common_refinement()
    assert pieces.n_cells == 1 + 6 + 15
    assert pieces.n_affine_maps == 22


def activation_maps(weights, biases):
    """Affine maps of all activation patterns on open sets, by trying all patterns."""
    dim = weights[0].shape[0]
    identity = [[Fraction(int(i == k)) for k in range(dim + 1)] for i in range(dim)]
    cells = [([[Fraction(0)] * dim + [Fraction(1)]], identity)]
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        grown = []
        for rows, inputs in cells:
            forms = []
            for column, b in zip(weight.T.tolist(), bias.tolist(), strict=True):
                form = [
                    sum(
                        (Fraction(w) * f[k] for w, f in zip(column, inputs, strict=True)),
                        Fraction(0),
                    )
                    for k in range(dim + 1)
                ]
                form[-1] += Fraction(b)
                forms.append(form)
            if layer == len(weights) - 1:
                grown.append((rows, forms))
                continue
            for pattern in itertools.product([1, 0], repeat=len(forms)):
                cut = [f if on else [-v for v in f] for on, f in zip(pattern, forms, strict=True)]
                if decide_open_cone(as_integers(rows + cut)).is_open:
                    kept = [
                        f if on else [Fraction(0)] * (dim + 1)
                        for on, f in zip(pattern, forms, strict=True)
                    ]
                    grown.append((rows + cut, kept))
        cells = grown
    return [tuple(map(tuple, forms)) for _, forms in cells]


def as_integers(rows):
    table = np.empty((len(rows), len(rows[0])), dtype=object)
    for i, row in enumerate(rows):
        scale = lcm(*(v.denominator for v in row))
        table[i] = [int(v * scale) for v in row]
    return table


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("widths", [(2, 3, 3, 1), (2, 3, 3, 2), (1, 3, 3, 1), (3, 3, 2, 1)])
def test_the_affine_maps_are_those_of_the_activation_patterns(widths, seed):
    weights, biases = gaussian_network(seed, *widths)
    pieces = relu_network_map(weights, biases).common_refinement()
    expected = activation_maps(weights, biases)
    scale = Fraction(2) ** pieces.exact_maps.exponent
    got = {tuple(map(tuple, (rows * scale).tolist())) for rows in pieces.exact_maps.integers}
    assert got == set(expected)
    assert pieces.n_affine_maps == len(set(expected))
    assert pieces.n_affine_maps <= pieces.n_regions <= len(expected)
    assert pieces.n_regions <= pieces.n_cells


def test_two_layers_of_three_units_stay_below_serras_bound():
    for seed in range(8):
        weights, biases = gaussian_network(seed, 2, 3, 3, 1)
        assert relu_network_map(weights, biases).common_refinement().n_regions <= 40


# --- the guard, and bad input ---------------------------------------------------------------


def test_the_guard_names_the_layer_and_the_count():
    weights, biases = gaussian_network(0, 2, 6, 6, 1)
    with pytest.raises(SizeLimitError, match=r"layer 2: .* terms, more than `max_terms` = 200"):
        relu_network_map(weights, biases, max_terms=200)


def test_the_guard_stops_a_wide_network_at_once():
    weights, biases = gaussian_network(0, 8, 24, 24, 1)
    with pytest.raises(SizeLimitError, match="layer 1: "):
        relu_network_map(weights, biases, max_terms=2000)


@pytest.mark.parametrize(
    ("weights", "biases", "error", "message"),
    [
        ([], [], EmptyInputError, "`weights` must hold at least one matrix"),
        ([np.eye(2)], [], ShapeMismatchError, "`biases` must hold one vector for each"),
        ([np.eye(2), np.eye(3)], [np.zeros(2), np.zeros(3)], ShapeMismatchError, r"`weights\[1\]`"),
        ([np.eye(2)], [np.zeros(3)], ShapeMismatchError, r"`biases\[0\]`"),
        ([np.array([[np.nan]])], [[0.0]], NonFiniteError, r"`weights\[0\]` must not hold NaN"),
        ([[["a"]]], [[0.0]], DtypeError, r"`weights\[0\]`"),
        ([np.empty((2, 0))], [[]], EmptyInputError, r"`weights\[0\]`"),
    ],
)
def test_bad_networks_are_refused(weights, biases, error, message):
    with pytest.raises(error, match=message):
        relu_network_map(weights, biases)


def test_a_bad_limit_is_refused():
    with pytest.raises(ArgumentError, match="`max_terms` must be at least 1"):
        relu_network_map([np.eye(2)], [np.zeros(2)], max_terms=0)
    with pytest.raises(ShapeMismatchError, match="`weight`"):
        relu_layer_map([1.0, 2.0])
