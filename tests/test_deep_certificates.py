"""Deep networks compile: what they are off by is bounded without growing out of all proportion."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.constructions.compilers._bounds.certified_errors import propagate
from hardmax.constructions.compilers.compiled import compile_network
from hardmax.constructions.compilers.cpwl_compiler import compile_cpwl
from hardmax.constructions.compilers.functions.knots import Knots
from hardmax.constructions.compilers.maxout_compiler import compile_maxout, compile_relu
from hardmax.constructions.compilers.piece_layers import piece_layers
from hardmax.constructions.compilers.temperatures import choose_rates
from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from tests.compiled_models import exact_value, random_maxout, worst_error
from tests.sweeps import examples

SEEDS = st.integers(0, 10**6)


def cube(dim):
    return Box(-np.ones(dim), np.ones(dim))


def deep_relu(seed, depth, width, init, n_out=1):
    rng = np.random.default_rng(seed)
    weights, biases = [], []
    for a, b in pairwise([min(width, 6), *[width] * depth, n_out]):
        if init == "he":
            weights.append(rng.normal(size=(a, b)) * np.sqrt(2 / a))
            biases.append(0.1 * rng.normal(size=b))
        else:  # What torch.nn.Linear starts with.
            weights.append(rng.uniform(-1, 1, (a, b)) / np.sqrt(a))
            biases.append(rng.uniform(-1, 1, b) / np.sqrt(a))
    return ReluNetwork(weights, biases)


def deep_maxout(seed, depth, width, rank):
    rng = np.random.default_rng(seed)
    weights, biases, a = [], [], 3
    for _ in range(depth):
        weights.append([rng.normal(size=(rank, a)) / np.sqrt(a) for _ in range(width)])
        biases.append([0.1 * rng.normal(size=rank) for _ in range(width)])
        a = width
    return MaxoutNetwork([*weights, rng.normal(size=(a, 1)) / np.sqrt(a)], [*biases, None])


@pytest.mark.parametrize(
    ("depth", "width", "init", "epsilon"),
    [
        (16, 20, "he", 1e-3),
        (16, 20, "he", 1e-6),
        (24, 5, "he", 1e-3),
        (12, 50, "he", 1e-3),
        (16, 20, "torch", 1e-6),
        (32, 8, "torch", 1e-3),
    ],
)
def test_deep_networks_are_certified_rounding_included(depth, width, init, epsilon):
    net = deep_relu(0, depth, width, init)
    compiled = compile_relu(net, cube(net.dim_in), epsilon)
    found = worst_error(compiled, net, 0, n_points=100, n_steps=6, n_starts=4)
    assert found <= compiled.certified_error <= epsilon
    assert compiled.certified_error >= 0.9 * epsilon


@pytest.mark.parametrize(("depth", "width", "rank"), [(8, 8, 2), (6, 8, 5), (16, 4, 3)])
def test_deep_maxout_networks_are_certified(depth, width, rank):
    net = deep_maxout(1, depth, width, rank)
    compiled = compile_maxout(net, cube(3), 1e-3)
    found = worst_error(compiled, net, 0, n_points=100, n_steps=6, n_starts=4)
    assert found <= compiled.certified_error <= 1e-3


def test_temperatures_of_a_contracting_network_are_not_cold():
    # All that 20 layers could amplify, they damp; row sums of weights would ask for 1e-10.
    net = deep_relu(3, 20, 20, "torch")
    compiled = compile_relu(net, cube(net.dim_in), 1e-3)
    assert compiled.temperatures.min() > 1e-5


def test_several_outputs_are_bounded_one_by_one_and_together(monkeypatch):
    net = deep_relu(4, 6, 10, "he", n_out=3)
    layers, last = piece_layers(net)
    one_by_one = propagate(layers, last, cube(net.dim_in), [1e6] * 6).errors
    monkeypatch.setattr(
        "hardmax.constructions.compilers._bounds.certified_errors._MAX_PRODUCTS_EACH", 0
    )
    together = propagate(layers, last, cube(net.dim_in), [1e6] * 6).errors
    assert (one_by_one <= together * (1 + 1e-9)).all()
    assert (together <= 4.0 * one_by_one.max()).all()


def test_networks_too_wide_for_forms_share_the_budget_as_well(monkeypatch):
    net = deep_relu(6, 3, 10, "he")
    narrow = compile_relu(net, cube(net.dim_in), 1e-3)
    monkeypatch.setattr("hardmax.constructions.compilers._bounds.certified_errors._MAX_PRODUCTS", 0)
    wide = compile_relu(net, cube(net.dim_in), 1e-3)
    assert wide.certified_error <= 1e-3
    assert worst_error(wide, net, 0, n_points=100, n_steps=6, n_starts=4) <= wide.certified_error
    assert wide.temperatures[0] < 0.5 * wide.temperatures[2]
    assert np.log(narrow.temperatures).sum() >= np.log(wide.temperatures).sum()


@examples(12)
@given(SEEDS, st.sampled_from([None, 1e-1, 1e-5]))
def test_errors_at_points_hold_against_exact_values(seed, epsilon):
    net = random_maxout(seed, scale=0.7)
    compiled = (
        compile_maxout(net, cube(net.dim_in))
        if epsilon is None
        else compile_maxout(net, cube(net.dim_in), epsilon)
    )
    x = np.random.default_rng(seed).uniform(-1, 1, (5, net.dim_in))
    bounds = compiled.errors_at(x)
    exact = np.array([[float(y) for y in exact_value(net, point)] for point in x])
    assert (np.abs(compiled.transformer(x) - exact) <= bounds).all()
    assert (bounds <= compiled.output_errors * (1 + 1e-6) + 1e-14).all()
    np.testing.assert_array_equal(compiled.errors_at(x[0]), bounds[0])


def test_errors_at_points_of_a_function_include_its_own_rounding():
    knots = Knots(np.array([0.0, 1.0, 3.0]) / 3.0, [0.0, 1.0, 0.3])
    compiled = compile_cpwl(knots, Box([0.0], [1.0]))
    assert compiled.form.rounding[0] > 0.0
    network = compile_network(compiled.form.network, compiled.box, None, compiled.form.origins)
    difference = compiled.errors_at([0.5]) - network.errors_at([0.5])
    assert (difference >= 0.99 * compiled.form.rounding).all()


def test_errors_at_points_are_rounding_where_no_unit_is_about_to_switch():
    net = deep_relu(5, 24, 20, "he")
    compiled = compile_relu(net, cube(net.dim_in), 1e-2)
    x = np.random.default_rng(5).uniform(-1, 1, (4, net.dim_in))
    bounds = compiled.errors_at(x)
    errors = np.abs(compiled.transformer(x) - net(x))
    assert (errors <= bounds).all()
    assert np.median(bounds) < 1e-10
    with pytest.raises(ArgumentError, match="box"):
        compiled.errors_at(2.0 * np.ones(net.dim_in))


def narrow_peak(gain, depth, width=6):
    """A peak of height 1e-3 and width 2e-3, amplified by `gain` in each layer, read as about 0."""
    rng = np.random.default_rng(1)
    peak, half = 0.931, 0.001
    weights = [np.ones((1, 3)), np.array([[1.0], [-2.0], [1.0]]) * np.ones((1, width))]
    biases = [-peak - half * np.arange(3.0), np.full(width, -1e-11)]
    for layer in range(depth):
        mixing = rng.uniform(0.5, 1.5, (width, width))
        weights.append(gain * mixing / mixing.sum(axis=0))
        biases.append(np.full(width, -1e-11 if layer < 3 else 0.0))
    readout = rng.normal(size=width)
    weights.append((readout - readout.mean())[:, None])
    x = np.linspace(peak, peak + 2.0 * half, 200)[:, None]
    return ReluNetwork(weights, [*biases, np.zeros(1)]), x


@pytest.mark.parametrize(("gain", "depth"), [(100.0, 5), (1000.0, 5)])
def test_rounding_that_only_a_narrow_peak_shows_is_covered_or_refused(gain, depth):
    net, x = narrow_peak(gain, depth)
    box = Box([0.0], [1.0])
    hard = compile_relu(net, box)
    exact = np.array([[float(y) for y in exact_value(net, point)] for point in x[::10]])
    rounding = np.abs(hard.transformer(x[::10]) - exact).max()
    assert 0.0 < rounding <= hard.certified_error
    with pytest.raises(ArgumentError, match=r"`epsilon` must be above .* rounding in float64"):
        compile_relu(net, box, 0.5 * hard.certified_error)
    compiled = compile_relu(net, box, 2.0 * hard.certified_error)
    errors = np.abs(compiled.transformer(x) - net(x))
    assert errors.max() <= compiled.certified_error <= 2.0 * hard.certified_error
    assert (errors[::10] <= compiled.errors_at(x[::10])).all()


def test_where_rounding_is_not_bounded_on_the_box_epsilon_is_refused():
    net = deep_relu(0, 32, 20, "he")
    box = cube(net.dim_in)
    assert compile_relu(net, box).certified_error > 1e-3
    with pytest.raises(ArgumentError, match=r"rounding in float64; got 0.001.*epsilon=None"):
        compile_relu(net, box, 1e-3)


def test_rounding_that_is_real_is_refused():
    # Values of size 1e12 that cancel: rounding is 1e-4 and more everywhere.
    net = ReluNetwork([[[1e12, 1e12]], [[1.0], [-1.0]]], [[3e12, 1e12], [0.0]])
    with pytest.raises(ArgumentError, match=r"rounding in float64; got 1e-06.*epsilon=None"):
        compile_relu(net, cube(1), 1e-6)
    assert compile_relu(net, cube(1), 1e3).certified_error <= 1e3


def test_what_the_network_is_off_by_is_taken_from_the_budget_of_each_output():
    net = deep_relu(1, 2, 4, "he", n_out=2)
    layers, last = piece_layers(net)
    box = cube(net.dim_in)
    rounding = np.array([0.0, 0.75e-2])
    rates = choose_rates(layers, last, box, 1e-2, rounding)
    total = propagate(layers, last, box, rates).errors + rounding
    assert 0.9e-2 <= total.max() <= 1e-2
    with pytest.raises(ArgumentError, match=r"above 0\.01, the bound .* got 0\.01"):
        choose_rates(layers, last, box, 1e-2, np.array([0.0, 1e-2]))


def test_a_coarser_arithmetic_has_larger_bounds():
    net = deep_relu(2, 4, 8, "he")
    layers, last = piece_layers(net)
    box = cube(net.dim_in)
    double, single = (
        propagate(layers, last, box, None, roundoff=u).worst for u in (2.0**-53, 2.0**-24)
    )
    assert 1e-15 < double < 1e-9
    assert 0.2 < single / double / 2.0**29 < 1.0
