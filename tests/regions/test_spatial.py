"""The engine by vertices against the definition in fractions, most of it on degenerate models."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

from hardmax.errors import ArgumentError, Interrupted
from hardmax.geometry.domains import Box, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models import evaluation
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions._search import searches as core_searches
from hardmax.regions._search.searches import CoreSearch
from hardmax.regions._search.space import explore
from hardmax.regions._tree import split_tree
from tests.reference import regions as reference
from tests.region_models import chart_of
from tests.sweeps import examples, seeds


def cube(dim, low=-1.0, high=1.0):
    return Box([low] * dim, [high] * dim)


def check(model, domain):
    """Compare signatures and maps with the definition; return what the engine found."""
    found = check_shapes(model.network, domain)
    weight, bias = chart_of(domain)
    coordinates = reference.chart_coordinates(weight.tolist(), bias.tolist())
    rows = domain.exact_rows.tolist()
    truth = {
        tuple(signature): forms
        for signature, _, forms in reference.cells(model.network, coordinates, rows)
    }
    signatures = [tuple(signature) for signature in found.signatures.tolist()]
    assert set(signatures) == set(truth)
    for signature, rounded, radius in zip(signatures, found.maps, found.map_radii, strict=True):
        for column, form in zip(rounded.T.tolist(), truth[signature], strict=True):
            errors = [abs(Fraction(x) - y) for x, y in zip(column, form, strict=True)]
            assert max([0, *errors]) <= Fraction(float(radius))
    return found


def check_by_tree(model, domain):
    """Compare signatures with the split tree, which decides everything in integers."""
    found = check_shapes(model.network, domain)
    truth = split_tree.explore(model.network, domain).arrays
    assert sorted(found.signatures.tolist()) == sorted(truth.signatures.tolist())
    return found


def check_shapes(network, domain):
    """Explore, and check what every answer has: no cell twice, and vertices around an inside."""
    found = explore(network, domain)
    assert found.is_complete
    assert found.n_counted == len(found.signatures) == len({*map(tuple, found.signatures.tolist())})
    assert explore(network, domain, count_only=True).n_counted == found.n_counted
    weight, bias = chart_of(domain)
    for signature, points in zip(found.signatures, cells_of(found), strict=True):
        assert len(points) > domain.dim
        # Walls in tenths may be 1e-17 apart, with no float between them.
        thickness = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)[-1]
        if found.directions is None and thickness > 1e-9:
            middle = points.mean(axis=0) @ weight + bias
            assert evaluation.signature(network, middle).tolist() == signature.tolist()
    return found


def cells_of(found):
    return np.split(found.vertices, found.starts[1:-1])


def gaussian_relu(seed, widths):
    """The networks of the reference counts: rounded to float32, one output."""
    rng = np.random.default_rng(seed)
    weights, biases, fan = [], [], widths[0]
    for width in [*widths[1:], 1]:
        weights.append(rng.normal(0, np.sqrt(2 / fan), (width, fan)).astype(np.float32).T)
        biases.append(rng.normal(0, 0.5, width).astype(np.float32))
        fan = width
    return ReluNetwork([w.astype(float) for w in weights], [b.astype(float) for b in biases])


def integer_relu(seed, widths, most=2, biased=True):
    rng = np.random.default_rng(seed)
    shapes = list(pairwise(widths))
    weights = [rng.integers(-most, most + 1, shape).astype(float) for shape in shapes]
    biases = [rng.integers(-most, most + 1, width).astype(float) for width in widths[1:]]
    return ReluNetwork(weights, biases if biased else None)


def transformer(seed, dim, numbers, n_keys=3, n_heads=2, d_ff=2, depth=2, residual=True):
    rng = np.random.default_rng(seed)
    blocks = []
    for _ in range(depth):
        heads = [
            AttentionHead(
                numbers(rng, (dim, 2)), numbers(rng, (n_keys, 2)), numbers(rng, (n_keys, 2)),
                numbers(rng, (2, dim)),
            )
            for _ in range(n_heads)
        ]  # fmt: skip
        ffn = FeedForward(
            numbers(rng, (dim, d_ff)), numbers(rng, (d_ff,)), numbers(rng, (d_ff, dim)), None
        )
        blocks.append(Block(heads, ffn, residual, residual))
    return HardTransformer(blocks)


def small_integers(rng, shape):
    return rng.integers(-1, 2, shape).astype(float)


def tenths(rng, shape):
    return rng.integers(-3, 4, shape) / 10.0


def gaussians(rng, shape):
    return rng.normal(size=shape)


def test_the_known_count_of_a_gaussian_network():
    found = explore(gaussian_relu(67, [3, 12, 12]).network, cube(3, -5.0, 5.0))
    assert found.n_counted == 1990
    assert found.decisions.rational == 0


@pytest.mark.parametrize(("dim", "width"), [(3, 4), (4, 3), (5, 2)])
@pytest.mark.parametrize("seed", seeds(1))
def test_integer_networks_match_the_definition(seed, dim, width):
    check(integer_relu(seed, [dim, width, width, 2]), cube(dim, -1.0, 2.0))


@pytest.mark.parametrize("dim", [3, 4])
@pytest.mark.parametrize("seed", seeds(2))
def test_integer_networks_without_biases_match_the_definition(seed, dim):
    check(integer_relu(seed, [dim, 3, 3, 1], most=1, biased=False), cube(dim))


@pytest.mark.parametrize("low", [-1.0, -0.3])
@pytest.mark.parametrize("seed", seeds(2))
def test_networks_without_biases_match_the_definition(seed, low):
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=shape) for shape in ((3, 4), (4, 3), (3, 2), (2, 1))]
    check_by_tree(ReluNetwork(weights), cube(3, low, 1.0))
    check(ReluNetwork([*weights[:1], np.ones((4, 1))]), cube(3, low, 1.0))


@pytest.mark.parametrize("seed", seeds(2))
def test_gaussian_networks_match_the_definition(seed):
    check_by_tree(gaussian_relu(seed, [3, 4, 3, 2]), cube(3, -2.0, 1.0))
    check(gaussian_relu(seed, [3, 3, 3]), cube(3, -2.0, 1.0))


def test_dead_repeated_and_opposite_units_make_no_walls_of_their_own():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(3, 4)), rng.normal(size=(4, 4))
    first[:, 1], first[:, 3] = first[:, 0], -first[:, 0]
    second[:, 1], second[:, 2] = second[:, 0], 0.0
    bias = rng.normal(size=4)
    bias[1], bias[2] = bias[0], -1.0
    check(ReluNetwork([first, second, np.ones((4, 1))], [np.zeros(4), bias, None]), cube(3))


def test_walls_of_two_layers_coincide():
    # The second layer vanishes exactly where the first does, and once more where x + y = z.
    first = np.array([[1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [-1.0, 1.0, 1.0]])
    second = np.array([[1.0, 2.0], [-1.0, 3.0], [0.0, 0.0]])
    found = check(ReluNetwork([first, second, np.ones((2, 1))]), cube(3))
    assert found.n_counted == 4


@pytest.mark.parametrize("numbers", [small_integers, tenths, gaussians])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("seed", seeds(1))
def test_transformers_match_the_definition(seed, residual, numbers):
    check_by_tree(transformer(seed, 3, numbers, residual=residual), cube(3))
    check(transformer(seed, 3, numbers, depth=1, residual=residual), cube(3))


def test_a_transformer_in_four_dimensions_matches_the_definition():
    check(transformer(5, 4, small_integers, n_keys=3, depth=1), cube(4))


def test_identical_heads_and_repeated_keys_share_their_values():
    keys = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    head = AttentionHead(np.eye(3), keys, np.arange(9.0).reshape(3, 3), np.eye(3))
    found = check(HardTransformer([Block([head, head], None)]), cube(3))
    assert found.n_counted == 2


def test_forms_that_coincide_only_after_composition_share_their_values():
    # After a layer that flattens to a plane, two keys that differ along its normal coincide.
    flat = AttentionHead(np.eye(3), np.zeros((1, 3)), np.zeros((1, 3)), np.eye(3))
    rng = np.random.default_rng(0)
    shrink = rng.integers(-1, 2, (3, 3)).astype(float)
    shrink[:, 2] = shrink[:, 0]
    head = AttentionHead(
        shrink, [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]], np.diag([1.0, 3.0, 5.0]),
        np.eye(3),
    )  # fmt: skip
    ffn = FeedForward(np.eye(3), [0.1, 0.2, 0.3], 0.1 * np.eye(3), None)
    check(HardTransformer([Block([flat], ffn), Block([head], None)]), cube(3))


def test_a_key_that_wins_only_inside_is_found():
    # The second form wins around the origin, at no vertex of the box.
    unit = np.concatenate([2.0 * np.eye(3), -2.0 * np.eye(3), np.zeros((1, 3))])
    offsets = np.array([-1.0] * 6 + [0.0])
    found = check(MaxoutNetwork([[unit], np.ones((1, 1))], [[offsets], None]), cube(3))
    assert [6] in found.signatures.tolist()


def test_maxout_networks_of_mixed_ranks_match_the_definition():
    rng = np.random.default_rng(3)
    ranks = [3, 2, 4]
    first = [rng.integers(-2, 3, (rank, 3)).astype(float) for rank in ranks]
    second = [rng.integers(-2, 3, (rank, 3)).astype(float) for rank in (2, 3)]
    offsets = [[rng.integers(-1, 2, len(unit)).astype(float) for unit in first], None, None]
    check(MaxoutNetwork([first, second, np.ones((2, 1))], offsets), cube(3))


@pytest.mark.parametrize("n_facets", [64, 65, 129])
def test_a_cell_of_many_facets_is_cut_out_of_a_group(n_facets):
    # Planes <k, x> = 1 with the k near a sphere, in convex position: each bounds the first cell.
    rng = np.random.default_rng(n_facets)
    keys = rng.normal(size=(n_facets, 3))
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    unit = np.concatenate([np.zeros((1, 3)), keys])
    offsets = np.concatenate([[0.0], -np.ones(n_facets)])
    network = MaxoutNetwork([[unit], np.ones((1, 1))], [[offsets], None]).network
    found = explore(network, cube(3, -8.0, 8.0))
    assert sorted(found.signatures.ravel().tolist()) == list(range(n_facets + 1))
    k = found.signatures.ravel().tolist().index(0)
    points = found.vertices[found.starts[k] : found.starts[k + 1]]
    # Three facets meet in each vertex, so Euler's formula counts the vertices.
    assert len(points) == 2 * n_facets - 4
    assert np.abs(np.sort(points @ keys.T, axis=1)[:, -3:] - 1.0).max() < 1e-9


@pytest.mark.parametrize("n_sides", [64, 65, 129])
def test_a_pyramid_whose_apex_lies_on_many_facets(n_sides):
    # Over a polygon with corners (i, i^2): the apex lies on n_sides facets, none can be left out.
    corners = [(float(i), float(i * i), 0.0) for i in range(n_sides)]
    domain = Polytope.from_points(np.array([*corners, (2.0, 40.0, 8.0)]))
    through_apex = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]])
    biases = np.array([-2.0, -40.0, 6.0])
    network = ReluNetwork([through_apex, np.ones((3, 1))], [biases, None]).network
    found = explore(network, domain)
    truth = split_tree.explore(network, domain).arrays
    assert sorted(found.signatures.tolist()) == sorted(truth.signatures.tolist())
    assert total_volume(found) == pytest.approx(ConvexHull(domain.vertices).volume, rel=1e-9)


def total_volume(found):
    return sum(ConvexHull(points).volume for points in cells_of(found))


def exact_volume(points):
    """The volume of a polytope whose vertices are given exactly, in fractions."""
    hull = ConvexHull(points, qhull_options="Qt")
    middle = [sum(Fraction(x) for x in column) / len(points) for column in points.T.tolist()]
    total = Fraction(0)
    for simplex in hull.simplices.tolist():
        rows = [
            [Fraction(x) - m for x, m in zip(points[i].tolist(), middle, strict=True)]
            for i in simplex
        ]
        (a, b, c), (d, e, f), (g, h, i) = rows
        total += abs(a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)) / 6
    return total


def test_cells_with_dyadic_vertices_fill_the_box_exactly():
    # Walls x = y, x = -y and so on: every vertex is dyadic, so nothing is rounded.
    signs = np.array([[1.0, 1.0, 0.0, 0.0, 1.0, 1.0], [1.0, -1.0, 1.0, 1.0, 0.0, 0.0],
                      [0.0, 0.0, 1.0, -1.0, 1.0, -1.0]])  # fmt: skip
    network = ReluNetwork([signs, np.ones((6, 1))]).network
    found = explore(network, cube(3))
    assert found.n_counted == 24
    volumes = [exact_volume(p) for p in cells_of(found)]
    assert sum(volumes) == 8
    assert set(volumes) == {Fraction(1, 3)}


@pytest.mark.parametrize(("dim", "widths"), [(3, [10, 10]), (4, [6, 6])])
def test_the_volumes_of_all_cells_sum_to_that_of_the_box(dim, widths):
    found = explore(gaussian_relu(1, [dim, *widths]).network, cube(dim, -2.0, 2.0))
    assert total_volume(found) == pytest.approx(4.0**dim, rel=1e-9)


@given(st.integers(0, 10**6))
@examples(20)
def test_random_small_integer_networks(seed):
    rng = np.random.default_rng(seed)
    widths = [3, *rng.integers(1, 4, rng.integers(1, 4)).tolist(), 1]
    check(integer_relu(seed, widths, most=1, biased=bool(seed % 2)), cube(3))


@pytest.mark.parametrize("exponent", [-200, -40, 40, 200])
def test_scales_from_tiny_to_huge(exponent):
    model = integer_relu(2, [3, 3, 3, 1])
    factor = 2.0**exponent
    weights = [model.weights[0] / factor, *model.weights[1:]]
    scaled = ReluNetwork(weights, model.biases)
    found = explore(scaled.network, cube(3, -factor, 2.0 * factor))
    assert found.n_counted == explore(model.network, cube(3, -1.0, 2.0)).n_counted


def test_a_slice_of_a_larger_space_matches_the_definition():
    model = integer_relu(4, [5, 4, 3, 1])
    directions = np.array([[1.0, 0, 0, 1, 0], [0, 1.0, 0, 0, 1], [0, 0, 1.0, 1, 1]])
    check(model, Slice([0.5, 0.0, 0.0, -0.5, 0.25], directions, cube(3)))


def test_a_polytope_is_the_box_it_describes():
    model = integer_relu(7, [3, 4, 3, 1])
    rows = np.concatenate([np.eye(3), -np.eye(3)])
    one = explore(model.network, Polytope(rows, np.ones(6)))
    other = explore(model.network, cube(3))
    assert sorted(one.signatures.tolist()) == sorted(other.signatures.tolist())


HALF = Polytope([[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]], [0.0, 0.0])


def test_the_known_count_of_a_gaussian_network_in_all_of_space():
    found = explore(gaussian_relu(67, [3, 12, 12]).network, WholeSpace(3))
    assert found.n_counted == 2394
    assert found.directions.shape == found.vertices.shape


@pytest.mark.parametrize("dim", [3, 4])
@pytest.mark.parametrize("seed", seeds(1))
def test_integer_models_match_the_definition_in_all_of_space(seed, dim):
    check(integer_relu(seed, [dim, 3, 3, 1]), WholeSpace(dim))
    check(integer_relu(seed, [dim, 3, 3, 1], most=1, biased=False), WholeSpace(dim))
    check(transformer(seed, dim, small_integers, depth=1), WholeSpace(dim))


@pytest.mark.parametrize("seed", range(3))
def test_gaussian_models_match_the_split_tree_in_unbounded_domains(seed):
    for domain in (WholeSpace(3), Slice(np.zeros(3), np.eye(3), HALF)):
        check_by_tree(gaussian_relu(seed, [3, 4, 4, 3]), domain)
        check_by_tree(transformer(seed, 3, gaussians), domain)


def test_space_with_no_wall_one_wall_and_parallel_walls():
    for walls, count in ([], 1), ([(1, 0, 0, 5)], 2), ([(1, 1, 0, 0), (1, 1, 0, 1)], 3):
        units = np.array([wall[:3] for wall in walls] + [[0.0, 0.0, 0.0]]).T
        biases = np.array([wall[3] for wall in walls] + [-1.0])
        model = ReluNetwork([units, np.ones((len(biases), 1))], [biases, None])
        assert check(model, WholeSpace(3)).n_counted == count


def test_a_cell_beyond_a_million_million_is_found():
    # Three walls through the origin, and one that meets their intersections beyond 1e12.
    units = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
    model = ReluNetwork([units, np.ones((4, 1))], [[0.0, 0.0, 0.0, -3e12], None])
    found = check(model, WholeSpace(3))
    assert found.n_counted == 15
    assert explore(model.network, cube(3, -1e11, 1e11)).n_counted == 8


@pytest.mark.parametrize("bias", [-1.0, 1.0])
def test_a_form_that_hardly_grows_is_not_taken_for_bounded(bias):
    # Along the wall of the first unit the second layer has a slope of 1e-18, lost in rounding.
    first = np.array([[0.1, 0.3], [0.0, 0.0], [0.0, 2.0**-60]])
    for second in ([[3.0], [-1.0]], [[3.0], [1.0]], [[4.0], [-1.0]], [[-4.0], [1.0]]):
        # Thirds, so that the composition has to round.
        weights = [first, np.array(second) / 3.0, [[1.0]]]
        check(ReluNetwork(weights, [None, [bias], None]), WholeSpace(3))


def test_walls_through_all_slopes_of_a_layer_need_no_exact_arithmetic():
    # Towards infinity along walls that span what a layer sees, its units stay bounded.
    for seed in range(4):
        found = check_by_tree(gaussian_relu(seed, [3, 3, 3]), WholeSpace(3))
        assert found.decisions.rational == 0


def test_one_wall_does_not_span_two_units_that_are_on():
    # The units are parallel, and the second layer cancels them up to rounding: at infinity, and on
    # the wall of one, its sign hangs on the other.
    first = np.array([[-2.0, -6.0], [-2.0, -6.0], [2.0, 6.0]])
    second = np.array([[-3.0, -2.0], [1.0, 1.0]]) / 3.0
    model = ReluNetwork([first, second, np.ones((2, 1))], [[-1.0, -1.0], [0.0, -1.0], None])
    assert check(model, WholeSpace(3)).n_counted == 5


def test_limits_leave_a_lower_bound():
    network = gaussian_relu(67, [3, 12, 12]).network
    box = cube(3, -5.0, 5.0)
    found = explore(network, box, max_cells=100)
    assert (found.n_counted, len(found.signatures), found.is_complete) == (100, 100, False)
    assert not explore(network, box, max_seconds=0.0).is_complete


def test_an_interrupt_leaves_what_was_found(monkeypatch):
    run, calls = CoreSearch.run, []

    def interrupted(search, room, limit, budget, _):
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(1)
        return run(search, room, limit, 300)

    monkeypatch.setattr(CoreSearch, "run", interrupted)
    with pytest.raises(Interrupted) as stop:
        explore(gaussian_relu(67, [3, 12, 12]).network, cube(3, -5.0, 5.0))
    found = stop.value.partial
    assert not found.is_complete
    assert 0 < len(found.signatures) < 1990


def test_room_for_cells_grows_as_needed(monkeypatch):
    network = gaussian_relu(67, [3, 12, 12]).network
    whole = explore(network, cube(3, -5.0, 5.0))
    monkeypatch.setattr(core_searches, "FIRST_CELLS", 7)
    parts = explore(network, cube(3, -5.0, 5.0))
    for one, other in zip(whole.facets, parts.facets, strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(whole.vertices, parts.vertices)
    assert np.array_equal(whole.signatures, parts.signatures)
    assert np.array_equal(whole.starts, parts.starts)


@pytest.mark.parametrize("domain", [cube(3, -5.0, 5.0), WholeSpace(3)])
def test_the_stack_grows_as_needed(monkeypatch, domain):
    models = gaussian_relu(5, [3, 6, 6]), transformer(3, 3, tenths)
    expected = [explore(model.network, domain) for model in models]
    monkeypatch.setattr(core_searches, "FIRST_CAPACITY", (10, 2))
    for model, before in zip(models, expected, strict=True):
        found = explore(model.network, domain)
        assert np.array_equal(found.signatures, before.signatures)
        assert np.array_equal(found.vertices, before.vertices)


def test_a_network_without_layers_has_one_cell():
    found = explore(ReluNetwork([np.ones((3, 2))]).network, cube(3))
    assert found.n_counted == 1
    assert found.signatures.shape == (1, 0)
    assert found.maps[0].tolist() == [[1.0, 1.0]] * 3 + [[0.0, 0.0]]


def test_bad_domains_and_limits_are_refused():
    network = integer_relu(0, [3, 2, 1]).network
    with pytest.raises(ArgumentError, match="`domain` must lie in"):
        explore(network, cube(2))
    with pytest.raises(ArgumentError, match="`domain` must have nonempty interior"):
        explore(network, Polytope([[1.0, 0, 0], [-1.0, 0, 0]], [0.0, 0.0]))
    with pytest.raises(ArgumentError, match="`max_cells`"):
        explore(network, cube(3), max_cells=-1)
    with pytest.raises(ArgumentError, match="`max_seconds`"):
        explore(network, cube(3), max_seconds=-1.0)
    with pytest.raises(ArgumentError, match="`domain` must have dimension at most 7"):
        explore(integer_relu(0, [9, 2, 1]).network, cube(9))
