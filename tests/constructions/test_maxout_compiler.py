"""Networks as transformers: exact in hard mode, certified in soft mode, on nets nobody tuned."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.constructions.compilers._bounds.certified_errors import LayerPlan, propagate
from hardmax.constructions.compilers.compiled import build_transformer
from hardmax.constructions.compilers.maxout_compiler import compile_maxout, compile_relu
from hardmax.constructions.compilers.piece_layers import piece_layers
from hardmax.constructions.compilers.token_layout import token_codes
from hardmax.errors import ArgumentError, DtypeError, HardmaxError
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.tokens.passes import evaluate_exactly
from hardmax.regions.engines import enumerate_regions
from hardmax.stability.networks.soft_means import soft_mean_gap
from tests.compiled_models import exact_value, random_maxout, random_relu, worst_error
from tests.sweeps import examples

SEEDS = st.integers(0, 10**6)


def cube(dim, low=-1.0, high=1.0):
    return Box(np.full(dim, low), np.full(dim, high))


def as_fractions(entries):
    return [Fraction(int(e.p), int(e.q)) for e in entries]


@examples(30)
@given(SEEDS, st.booleans())
def test_in_exact_arithmetic_the_hard_transformer_is_the_network(seed, integers):
    net = random_maxout(seed, integers=integers)
    compiled = compile_maxout(net, cube(net.dim_in, -3.0, 2.0))
    rng = np.random.default_rng(seed)
    points = (
        rng.integers(-3, 3, (3, net.dim_in)) if integers else rng.uniform(-3, 2, (3, net.dim_in))
    )
    for x in np.asarray(points, dtype=float):
        assert as_fractions(evaluate_exactly(compiled.token_transformer, x)) == exact_value(net, x)


@examples(30)
@given(SEEDS, st.sampled_from([1e-90, 1e-3, 1.0, 30.0, 1e40]))
def test_the_hard_transformer_is_the_network_up_to_rounding(seed, scale):
    net = random_maxout(seed, scale=scale)
    compiled = compile_maxout(net, cube(net.dim_in))
    x = np.random.default_rng(seed).uniform(-1, 1, (200, net.dim_in))
    errors = np.abs(compiled.transformer(x) - net(x)).max(axis=0)
    assert (errors <= compiled.output_errors).all()
    assert compiled.certified_error <= 1e-9 * max(np.abs(net(x)).max(), 1e3 * scale, 1e-250) * max(
        1.0, scale**3
    )


@examples(25)
@given(SEEDS, st.sampled_from([1.0, 1e-1, 1e-3, 1e-7]), st.sampled_from([0.3, 1.0, 3.0]))
def test_no_search_finds_a_point_above_the_certified_error(seed, epsilon, scale):
    net = random_maxout(seed, scale=scale)
    compiled = compile_maxout(net, cube(net.dim_in, -1.0, 2.0), epsilon)
    assert compiled.certified_error <= epsilon
    assert worst_error(compiled, net, seed) <= compiled.certified_error


@pytest.mark.parametrize("epsilon", [1e-1, 1e-2, 1e-4])
def test_certificates_of_shallow_networks_are_close_to_the_truth(epsilon):
    ratios = []
    for seed in range(4):
        net = random_maxout(seed, 1, [4], (2, 3))
        compiled = compile_maxout(net, cube(1, -3.0, 3.0), epsilon)
        ratios.append(
            worst_error(compiled, net, seed, n_points=20000, n_starts=40) / compiled.certified_error
        )
    assert 0.3 < np.median(ratios) <= 1.0


def test_one_unit_attains_its_certificate():
    net = MaxoutNetwork([[[[1.0], [-1.0]]], [[1.0]]])
    compiled = compile_maxout(net, cube(1), 1e-2)
    # |x| at temperature tau errs most where the two pieces differ by tau (1 + omega).
    tau = compiled.temperatures[0]
    x = 0.5 * (tau + soft_mean_gap(2, tau))
    error = float(np.abs(compiled.transformer([x]) - abs(x))[0])
    assert math.isclose(error, compiled.certified_error, rel_tol=1e-6)
    assert math.isclose(error, soft_mean_gap(2, tau), rel_tol=1e-6)


def test_errors_of_opposite_signs_are_not_added():
    # max(x, -x) - max(2x, -2x): soft means err to one side, so the difference errs by one of them.
    net = MaxoutNetwork([[[[1.0], [-1.0]], [[2.0], [-2.0]]], [[1.0], [-1.0]]])
    compiled = compile_maxout(net, cube(1), 1e-2)
    tau = compiled.temperatures[0]
    assert math.isclose(compiled.certified_error, soft_mean_gap(2, tau), rel_tol=1e-6)


@examples(15)
@given(SEEDS, st.sampled_from([1e-1, 1e-4]))
def test_units_of_rank_two_lose_nothing_among_eight_tokens(seed, epsilon):
    rng = np.random.default_rng(seed)
    weights = [
        [rng.normal(size=(8, 2)), rng.normal(size=(2, 2)), rng.normal(size=(1, 2))],
        [rng.normal(size=(2, 3)) for _ in range(3)],
        rng.normal(size=(3, 1)),
    ]
    net = MaxoutNetwork(
        weights, [[rng.normal(size=len(u)) for u in w] for w in weights[:2]] + [None]
    )
    compiled = compile_maxout(net, cube(2), epsilon)
    assert compiled.size.tokens == 8
    assert worst_error(compiled, net, seed) <= compiled.certified_error <= epsilon


def test_idle_tokens_do_not_sharpen_the_temperature():
    pair = [[1.0], [-1.0]]
    alone = compile_maxout(MaxoutNetwork([[pair], [[1.0]]]), cube(1), 1e-2)
    # The same unit beside one of rank 8 that the output does not read.
    eight = np.random.default_rng(0).normal(size=(8, 1))
    among = compile_maxout(MaxoutNetwork([[pair, eight], [[1.0], [0.0]]]), cube(1), 1e-2)
    assert among.size.tokens == 8
    assert math.isclose(alone.temperatures[0], among.temperatures[0], rel_tol=1e-6)


def test_a_unit_that_never_switches_costs_no_error():
    # relu(x + 5) is x + 5 on the box; the other unit switches.
    net = ReluNetwork([[[1.0, 1.0]], [[1.0], [1e-6]]], [[5.0, 0.0], None])
    compiled = compile_relu(net, cube(1), 1e-9)
    assert compiled.temperatures[0] > 1e-3


def test_layers_share_the_budget():
    # The first layer's error is amplified a thousandfold, so it must be sharper.
    net = MaxoutNetwork(
        [[[[1.0], [-1.0]]], [[[1000.0], [-1000.0]]], [[1.0]]], [[[0, 0]], [[0, 9]], [0]]
    )
    first, second = compile_maxout(net, cube(1), 1e-2).temperatures
    assert 300 < second / first < 3000


@examples(10)
@given(SEEDS, st.sampled_from([None, 1e-2]))
def test_the_compiled_transformer_has_the_regions_of_the_network(seed, epsilon):
    net = random_maxout(seed, 1 + seed % 2, [2, 2], (1, 3))
    box = cube(net.dim_in, -1.0, 2.0)
    compiled = compile_maxout(net, box, epsilon)
    mine, theirs = enumerate_regions(compiled.token_transformer, box), enumerate_regions(net, box)
    assert mine.n_regions == theirs.n_regions
    assert mine.n_affine_maps == theirs.n_affine_maps
    assert mine.n_cells >= theirs.n_cells


@pytest.mark.parametrize("seed", [3, 20])
def test_regions_in_space_are_those_of_the_network_where_tokens_are_idle(seed):
    # Two idle tokens hold one form, so heads tie where nothing else happens.
    net = random_maxout(seed, 3, [2], (2, 5))
    assert len({len(unit) for unit in net.weights[0]}) == 2
    box = cube(3, -1.0, 2.0)
    mine = enumerate_regions(compile_maxout(net, box).token_transformer, box)
    theirs = enumerate_regions(net, box)
    assert (mine.n_regions, mine.n_affine_maps) == (theirs.n_regions, theirs.n_affine_maps)


def test_tents_fold_the_interval_once_in_each_layer():
    depth = 5
    layers = [[[[2.0], [-2.0]]]] + [[[[-2.0], [2.0]]]] * (depth - 1)
    biases = [[[-1.0, 1.0]]] + [[[1.0, -1.0]]] * (depth - 1)
    net = MaxoutNetwork([*layers, [[-1.0]]], [*biases, [1.0]])
    compiled = compile_maxout(net, Box([0.0], [1.0]))
    assert enumerate_regions(compiled.token_transformer, Box([0.0], [1.0])).n_regions == 2**depth
    assert compiled.size.width == 6
    soft = compile_maxout(net, Box([0.0], [1.0]), 1e-3)
    assert worst_error(soft, net, 0) <= soft.certified_error <= 1e-3


@pytest.mark.parametrize("widths", [[3, 8, 2], [2, 5, 5, 1], [1, 1], [4, 16, 8, 3]])
def test_relu_networks_need_two_tokens(widths):
    net = random_relu(7, widths)
    hard = compile_relu(net, cube(widths[0]))
    x = np.random.default_rng(1).uniform(-1, 1, (300, widths[0]))
    assert np.abs(hard.transformer(x) - net(x)).max() <= hard.certified_error <= 1e-10
    assert hard.size.tokens == (2 if len(widths) > 2 else 1)
    assert hard.size.heads == sum(widths[1:-1])
    soft = compile_relu(net, cube(widths[0]), 1e-3)
    assert worst_error(soft, net, 3) <= soft.certified_error <= 1e-3
    for point in x[:3]:
        assert as_fractions(evaluate_exactly(hard.token_transformer, point)) == exact_value(
            net, point
        )


def test_relu_and_maxout_form_of_a_network_compile_alike():
    net = random_relu(3, [2, 4, 1])
    units = [np.stack([w, 0 * w]) for w in net.weights[0].T]
    same = MaxoutNetwork(
        [units, net.weights[1]], [[(b, 0.0) for b in net.biases[0]], net.biases[1]]
    )
    x = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    left, right = compile_relu(net, cube(2), 1e-3), compile_maxout(same, cube(2), 1e-3)
    np.testing.assert_array_equal(left.transformer(x), right.transformer(x))
    assert left.temperatures.tolist() == right.temperatures.tolist()


def test_arrays_and_networks_are_the_same_to_compile_relu():
    net = random_relu(5, [2, 3, 1])
    pairs = list(zip(net.weights, net.biases, strict=True))
    x = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    wanted = compile_relu(net, cube(2)).transformer(x)
    np.testing.assert_array_equal(compile_relu(pairs, cube(2)).transformer(x), wanted)
    for lists in ([list(pair) for pair in pairs], [[w.tolist(), b.tolist()] for w, b in pairs]):
        np.testing.assert_array_equal(compile_relu(lists, cube(2)).transformer(x), wanted)
    plain = compile_relu([net.weights[0], (net.weights[1], None)], cube(2))
    assert plain.source.biases[0].tolist() == [0.0] * 3


def test_torch_modules_are_read():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    compiled = compile_relu(module, cube(3))
    x = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    wanted = module.double()(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(compiled.transformer(x), wanted, atol=1e-12)


@pytest.mark.parametrize("container", [tuple, list])
def test_parameters_of_torch_are_read_as_arrays_though_they_have_gradients(container):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    first, last = torch.nn.Linear(2, 3).double(), torch.nn.Linear(3, 1).double()
    layers = [container([layer.weight.T, layer.bias]) for layer in (first, last)]
    x = np.random.default_rng(0).uniform(-1, 1, (10, 2))
    wanted = last(torch.relu(first(torch.from_numpy(x)))).detach().numpy()
    np.testing.assert_allclose(compile_relu(layers, cube(2)).transformer(x), wanted, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 7, 8, 9, 33, 1000])
def test_a_gate_is_open_on_its_own_token_only(n):
    codes, gates = token_codes(n)
    closed = gates @ codes.T
    assert (np.diag(closed) == 0).all()
    assert (closed + np.eye(n) >= 1).all()
    assert codes.shape[1] <= n


def test_sizes_follow_the_widths_and_ranks():
    net = random_maxout(0, 3, [4, 2], (3, 3))
    size = compile_maxout(net, cube(3)).size
    assert (size.tokens, size.blocks, size.heads) == (3, 3, 6)
    assert size.width == 4 + (4 + 2) + 3 + 1  # State, work of odd and even layers, code, one.
    # Two units for each piece and for each number to clear.
    assert size.d_ff == (2 * 12 + 2 * 3, 2 * 6 + 2 * 4 + 2 * 4, 0)
    assert size.source_parameters == net.n_parameters
    assert size.overhead == size.nonzeros / net.n_parameters
    assert "overhead" in str(size)


def test_the_overhead_is_linear():
    small, large = (
        compile_maxout(random_maxout(0, n, [n, n], (3, 3)), cube(n)).size.overhead for n in (5, 40)
    )
    assert 2.0 < large < small < 4.0


def test_large_networks_compile():
    net = random_relu(0, [64, 96, 64, 10], scale=0.1)
    compiled = compile_relu(net, cube(64), 1e-2)
    x = np.random.default_rng(0).uniform(-1, 1, (100, 64))
    assert np.abs(compiled.transformer(x) - net(x)).max() <= compiled.certified_error <= 1e-2


@examples(10)
@given(SEEDS)
def test_certificates_cover_rounding_where_large_numbers_cancel(seed):
    # The box is tiny and lies where sums of numbers of size 1e6 are about 1.
    rng = np.random.default_rng(seed)
    n = 30
    big = 1e6 * rng.normal(size=(4, n))
    centre = rng.normal(size=n)
    weights = [[big[:2], big[2:]], rng.normal(size=(2, 1))]
    biases = [[1.0 - big[:2] @ centre, 1.0 - big[2:] @ centre], [0.0]]
    net = MaxoutNetwork(weights, biases)
    box = Box(centre, centre + 1e-6)
    compiled = compile_maxout(net, box)
    x = box.low + rng.random((40, n)) * (box.high - box.low)
    x = np.clip(x, box.low, box.high)
    exact = np.array([[float(y) for y in exact_value(net, p)] for p in x])
    errors = np.abs(compiled.transformer(x) - exact)
    assert 0.0 < errors.max() <= compiled.certified_error


def test_units_that_are_constant_or_zero_compile():
    net = MaxoutNetwork(
        [[[[0.0], [0.0]], [[0.0]], [[1.0], [0.0], [0.0]]], [[1.0], [1.0], [1.0]]],
        [[[2.0, -1.0], [-3.0], [0.0, 0.5, 0.0]], None],
    )
    for epsilon in (None, 1e-3):
        compiled = compile_maxout(net, cube(1), epsilon)
        x = np.linspace(-1, 1, 101)[:, None]
        errors = np.abs(compiled.transformer(x) - net(x))
        assert errors.max() <= compiled.certified_error
    hard = compile_maxout(net, cube(1))
    assert as_fractions(evaluate_exactly(hard.token_transformer, np.array([0.7]))) == exact_value(
        net, [0.7]
    )


def test_a_plan_that_does_not_hold_is_refused():
    net = random_maxout(1, 2, [2], (2, 3))
    layers, last = piece_layers(net)
    (plan,) = propagate(layers, last, cube(2), None).plans
    build_transformer(net, cube(2), None, (plan,))
    with pytest.raises(ArgumentError, match="gate"):
        build_transformer(net, cube(2), None, (LayerPlan(1.0, plan.gate / 4, plan.floors),))
    with pytest.raises(ArgumentError, match="floors"):
        build_transformer(net, cube(2), None, (LayerPlan(1.0, plan.gate, plan.floors + 1e3),))
    with pytest.raises(ArgumentError, match="plans"):
        build_transformer(net, cube(2), 1e-3, (LayerPlan(1.0, plan.gate, plan.floors - 1e3),))
    with pytest.raises(ArgumentError, match="overflow"):
        build_transformer(net, cube(2), 1e-3, (LayerPlan(1.7e308, plan.gate, plan.floors),))


ABSOLUTE = MaxoutNetwork([[[[1.0], [-1.0]]], [[1.0]]])
NET = random_maxout(0, 2, [3], (2, 2))


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: compile_maxout(NET, WholeSpace(2)), DtypeError, "bounded"),
        (lambda: compile_maxout(NET, [[-1, 1]] * 2), DtypeError, "`box`"),
        (
            lambda: compile_maxout(NET, cube(3)),
            ArgumentError,
            "dimension 2, .* got 3",
        ),
        (lambda: compile_maxout(NET, Box([-np.inf] * 2, [1, 1])), ArgumentError, "low"),
        (lambda: compile_maxout(NET, cube(2), 0.0), ArgumentError, "`epsilon` must be positive"),
        (lambda: compile_maxout(NET, cube(2), -1e-3), ArgumentError, "`epsilon` must be positive"),
        (lambda: compile_maxout(NET, cube(2), math.nan), ArgumentError, "`epsilon`"),
        (lambda: compile_maxout(NET, cube(2), "small"), DtypeError, "`epsilon`"),
        (lambda: compile_maxout(NET, cube(2), 1e-18), ArgumentError, "rounding.*epsilon=None"),
        (lambda: compile_maxout(NET, cube(2, -1.7e308, 1.7e308)), ArgumentError, "Shrink the box"),
        # Values up to 1e308 fit, but not the power of two that closes the gates.
        (lambda: compile_maxout(ABSOLUTE, cube(1, -1e308, 1e308)), ArgumentError, "Shrink the box"),
        (lambda: compile_maxout(3, cube(2)), DtypeError, "`net`"),
        (lambda: compile_maxout(random_relu(0, [2, 1]), cube(2)), DtypeError, "compile_relu"),
        (lambda: compile_relu(NET, cube(2)), DtypeError, "compile_maxout"),
        (lambda: compile_relu("no_net", cube(2)), ArgumentError, "`net` .*'no_net'"),
        (lambda: compile_relu([(1, 2, 3)], cube(2)), ArgumentError, r"net\[0\]"),
        (lambda: compile_relu([], cube(2)), HardmaxError, "weights"),
        (lambda: MaxoutNetwork([[np.zeros((0, 2))], [[1.0]]]), HardmaxError, "rank_0 >= 1"),
        (lambda: compile_maxout(NET, cube(2)).transformer([2.0, 0.0]), ArgumentError, "box"),
        (lambda: compile_maxout(NET, cube(2)).transformer([0.0]), ArgumentError, "`x`"),
    ],
)
def test_refusals_say_what_to_change(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_temperatures_beyond_float32_are_refused_with_an_epsilon_that_works():
    tiny = MaxoutNetwork([[[[1e-30], [-1e-30]]], [[1.0]]])
    with pytest.raises(ArgumentError, match=r"at least about .* float32") as refusal:
        compile_maxout(tiny, cube(1), 1e-38)
    words = str(refusal.value).split()
    suggested = float(words[words.index("about") + 1])
    assert compile_maxout(tiny, cube(1), suggested).certified_error <= suggested


def test_an_epsilon_that_any_temperature_meets_leaves_the_temperature_at_one():
    net = MaxoutNetwork([[[[1.0], [-1.0]]], [[1e-30]]])
    compiled = compile_maxout(net, cube(1), 1e10)
    assert compiled.temperatures.tolist() == [1.0]
    assert compiled.certified_error < 1e-30
    # Two layers, of which the first is amplified so much that only it needs to be cold.
    deep = MaxoutNetwork([[[[1.0], [-1.0]]], [[[1e25], [-1e25]]], [[1e-10]]])
    assert compile_maxout(deep, cube(1), 1e30).certified_error <= 1e30
