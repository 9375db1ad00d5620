"""Transformers on tokens worked out on a box: the same function, the same regions, fewer cells."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hardmax.constructions.compilers.cpwl_compiler import compile_cpwl
from hardmax.constructions.compilers.functions.knots import Knots
from hardmax.constructions.compilers.functions.meshes import Mesh
from hardmax.constructions.compilers.maxout_compiler import compile_maxout, compile_relu
from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box, Line, Segment, WholeSpace
from hardmax.models.evaluation import forward
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.tokens.networks import Combination, Symbols, combine
from hardmax.models.tokens.transformers import TokenBlock, TokenHead, TokenTransformer
from hardmax.models.transformers import FeedForward
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.sampling import sample_regions
from hardmax.stability.networks.soft_certificates import certify_soft
from tests.models.test_token_transformers import random_transformer, reduced, reducible_transformer
from tests.reference import tokens as reference
from tests.sweeps import examples

SQUARE = Box([-2.0, -1.0], [1.0, 2.0])


def relu_network(seed, sizes):
    rng = np.random.default_rng(seed)
    pairs = list(pairwise(sizes))
    return ReluNetwork(
        [rng.normal(0, np.sqrt(2 / a), (a, b)) for a, b in pairs],
        [rng.normal(0, 0.5, b) for _, b in pairs],
    )


@examples(40)
@given(st.integers(0, 10**6))
def test_the_network_on_a_box_is_the_model_there(seed):
    model = reducible_transformer(seed)
    reduced(model)
    network = model.network_on(SQUARE)
    rng = np.random.default_rng(seed)
    points = np.vstack([rng.uniform(SQUARE.low, SQUARE.high, (4, 2)), [[0.0, 0.0], [1.0, -1.0]]])
    exact = [[float(y) for y in reference.hard_tokens(model, x)] for x in points]
    np.testing.assert_allclose(forward(network, points), exact, rtol=1e-12, atol=1e-12)


@examples(25)
@given(st.integers(0, 10**6))
def test_regions_and_maps_are_those_of_all_decisions(seed):
    model = reducible_transformer(seed)
    literal = enumerate_regions(reduced(model), SQUARE)
    assume(literal.n_cells < 300)
    worked_out = enumerate_regions(model.network_on(SQUARE), SQUARE)
    assert worked_out.n_cells <= literal.n_cells
    assert worked_out.n_regions == literal.n_regions
    assert worked_out.n_affine_maps == literal.n_affine_maps


@pytest.mark.parametrize(("seed", "sizes"), [(0, (2, 4, 3, 2)), (1, (2, 6, 1)), (2, (3, 5, 4, 1))])
def test_what_is_left_of_a_compiled_network_is_the_network(seed, sizes):
    net, box = relu_network(seed, sizes), Box([-1.0] * sizes[0], [1.5] * sizes[0])
    compiled = compile_relu(net, box)
    ours, source = enumerate_regions(compiled, box), enumerate_regions(net, box)
    assert (ours.n_cells, ours.n_regions) == (source.n_cells, source.n_regions)
    assert ours.n_affine_maps == source.n_affine_maps
    assert compiled.network.n_groups <= net.network.n_groups


def test_soft_compilation_has_the_same_hard_network():
    rng = np.random.default_rng(5)
    units = [rng.normal(size=(k, 2)) for k in (3, 1, 4)]
    net = MaxoutNetwork(
        [units, rng.normal(size=(3, 1))], [[rng.normal(size=k) for k in (3, 1, 4)], [0.0]]
    )
    box = Box([-1.0, -1.0], [1.0, 1.0])
    counts = {
        enumerate_regions(compile_maxout(net, box, epsilon=epsilon), box).n_regions
        for epsilon in (None, 1e-2)
    }
    assert counts == {enumerate_regions(net, box).n_regions}


def test_a_function_of_many_pieces_is_counted_on_its_transformer():
    """60 tokens, where all units of all tokens would be hundreds of thousands of forms."""
    places = np.arange(61.0)
    values = np.where(places % 2 == 0.0, 0.0, 1.0)
    box = Box([0.0], [60.0])
    compiled = compile_cpwl(Knots(places, values), box)
    part = enumerate_regions(compiled, box)
    assert (part.n_cells, part.n_regions) == (60, 60)


def test_a_mesh_has_its_triangles_as_regions_where_its_forms_are_exact():
    """Dyadic corners and values, so that no form is rounded and no sliver arises."""
    grid = np.array([[x, y] for y in range(3) for x in range(3)], dtype=float)
    squares = [[0, 1, 3, 4], [1, 2, 4, 5], [3, 4, 6, 7], [4, 5, 7, 8]]
    triangles = [t for a, b, c, d in squares for t in ([a, b, d], [a, d, c])]
    values = np.array([0.0, 3.0, -1.0, 2.5, 6.0, 0.25, 1.0, -4.0, 7.0])
    box = Box([0.0, 0.0], [2.0, 2.0])
    compiled = compile_cpwl(Mesh(grid, triangles, values), box)
    part = enumerate_regions(compiled, box)
    assert part.n_cells == part.n_regions == 8


def test_numbers_that_need_several_floats_stay_exact():
    tiny = 2.0**-60
    ffn = FeedForward([[1.0, 1.0]], [1.0, tiny], [[1.0], [tiny]], [0.0])
    model = TokenTransformer([[[1.0]]], [[0.0]], [TokenBlock([], ffn)], ([[3.0]], [0.0]))
    # Both units are on: x + (x + 1) + tiny (x + tiny) has three slopes and two constants.
    network = model.network_on(Box([1.0], [2.0]))
    part = enumerate_regions(network, Box([1.0], [2.0]))
    assert part.n_cells == 1
    exact = 3 * (Fraction(2) + Fraction(tiny)) + 3 * (1 + Fraction(tiny) ** 2)
    assert forward(network, [[1.0]])[0, 0] == float(exact)


def test_a_constant_function_has_no_decisions():
    model = TokenTransformer(np.zeros((2, 1, 1)), [[4.0]], [], ([[2.0]], [1.0]))
    network = model.network_on(SQUARE)
    assert network.n_groups == 0
    assert forward(network, [[0.0, 0.0]]).tolist() == [[9.0]]


def test_pairs_of_units_that_cancel_are_no_decision():
    symbols = Symbols.from_box(Box([-1.0], [1.0]))
    x = Combination(((0, Fraction(1)),))
    on, off = symbols.rectify(x), symbols.rectify(-x)
    assert combine([(Fraction(1), on), (Fraction(-1), off)]) == x
    assert len(symbols.decisions) == 1
    assert symbols.range(on) == (0, 1)


def test_products_of_two_moving_numbers_are_refused_by_name():
    head = TokenHead(np.eye(1), np.eye(1), np.eye(1), np.eye(1))
    model = TokenTransformer([[[1.0], [2.0]]], [[0.0], [1.0]], [TokenBlock([head])], ([[1.0]], [0]))
    with pytest.raises(ArgumentError, match="block 0, head 0: a query and a key"):
        model.network_on(Box([0.0], [1.0]))


def test_values_that_are_not_one_multiple_of_the_score_are_refused_by_name():
    head = TokenHead([[0.0], [1.0]], [[1.0], [0.0]], [[1.0], [1.0]], [[1.0, 0.0]])
    tokens = [[[1.0, 0.0], [-1.0, 0.0]]], [[0.0, 1.0], [0.0, 2.0]]
    model = TokenTransformer(*tokens, [TokenBlock([head])], ([[1.0], [0.0]], [0.0]))
    with pytest.raises(ArgumentError, match="block 0, head 0: the value of the winner"):
        model.network_on(Box([-1.0], [1.0]))


def test_thirds_are_refused():
    head = TokenHead([[0.0]], [[1.0]], [[1.0]], [[1.0]])
    model = TokenTransformer(
        [[[1.0], [2.0], [5.0]]], np.zeros((3, 1)), [TokenBlock([head])], ([[1.0]], [0.0])
    )
    with pytest.raises(ArgumentError, match="sums of float64 numbers"):
        model.network_on(Box([0.0], [1.0]))


@pytest.mark.parametrize(
    "domain",
    [
        Box([-1.0, -1.0], [1.0, 1.0 + 2.0**-52]),
        WholeSpace(2),
        Line([0.0, 0.0], [1.0, 0.0]),
        Segment([0.0, 0.0], [0.0, -1.5]),
    ],
)
def test_a_domain_outside_the_box_is_refused(domain):
    compiled = compile_relu(relu_network(0, (2, 3, 1)), Box([-1.0, -1.0], [1.0, 1.0]))
    with pytest.raises(ArgumentError, match="`domain` must lie in the box of the model"):
        enumerate_regions(compiled, domain)


def test_domains_inside_the_box_are_taken():
    net = relu_network(0, (2, 3, 1))
    compiled = compile_relu(net, Box([-1.0, -1.0], [1.0, 1.0]))
    across = Segment([-1.0, -1.0], [1.0, 1.0])
    assert enumerate_regions(compiled, across).n_cells == enumerate_regions(net, across).n_cells
    counted = sample_regions(compiled, compiled.box, 2000, seed=0)
    assert counted.distinct <= enumerate_regions(net, compiled.box).n_cells


def test_the_network_of_a_compiled_transformer_is_not_taken_for_its_soft_model():
    compiled = compile_relu(relu_network(0, (2, 3, 1)), Box([-1.0, -1.0], [1.0, 1.0]))
    with pytest.raises(ArgumentError, match="whose output at a positive temperature is not"):
        certify_soft(compiled, compiled.box, 0.1)


@examples(30)
@given(st.integers(0, 10**6))
def test_models_that_are_not_piecewise_affine_are_refused_or_right(seed):
    model = random_transformer(seed)
    try:
        network = model.network_on(SQUARE)
    except ArgumentError:
        return
    x = np.array([[0.25, 0.75]])
    wanted = [float(y) for y in reference.hard_tokens(model, x[0])]
    np.testing.assert_allclose(forward(network, x)[0], wanted, rtol=1e-12, atol=1e-12)
