"""The planar engine against a slow rational splitter, on generic and on degenerate models."""

import gc
import itertools
import weakref
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.errors import HardmaxError, Interrupted
from hardmax.geometry.domains import Box, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models._arithmetic.recomposition import exact_affine_map
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions._search import runs as core_runs
from hardmax.regions._search.exact_plane import PlanarPath
from hardmax.regions._search.plane import explore
from hardmax.regions._search.searches import CoreSearch
from tests.reference.networks import form_rows
from tests.sweeps import examples, seeds

SQUARE = Box([-5.0, -5.0], [5.0, 5.0])
FAR = Fraction(10) ** 40


def fractions(array):
    return [[Fraction(float(x)) for x in row] for row in np.atleast_2d(array)]


def composed(forms, affine):
    """Forms are triples (a, b, c): a x + b y + c."""
    weight, bias = fractions(affine.weight), fractions(affine.bias)[0]
    out = []
    for i in range(affine.dim_out):
        row = [sum(weight[j][i] * forms[j][k] for j in range(affine.dim_in)) for k in range(3)]
        out.append([row[0], row[1], row[2] + bias[i]])
    return out


def kept(points, form):
    """The part of a polygon, a list of points, where a form is non-negative, if it has area."""
    values = [form[0] * x + form[1] * y + form[2] for x, y in points]
    if max(values) <= 0:
        return []
    out = []
    for i, (p, v) in enumerate(zip(points, values, strict=True)):
        q, w = points[(i + 1) % len(points)], values[(i + 1) % len(points)]
        if v >= 0:
            out.append(p)
        if v * w < 0:
            t = v / (v - w)
            out.append((p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1])))
    return out


def area(points):
    pairs = zip(points, points[1:] + points[:1], strict=True)
    return sum(p[0] * q[1] - p[1] * q[0] for p, q in pairs) / 2


def reference_cells(network, corners, chart=None):
    """Every cell by definition: a list of (signature, polygon), all in rationals."""
    if chart is None:
        stream = [[Fraction(1), Fraction(0), Fraction(0)], [Fraction(0), Fraction(1), Fraction(0)]]
    else:
        weight, bias = (fractions(part) for part in chart)
        stream = [[weight[0][i], weight[1][i], bias[0][i]] for i in range(len(bias[0]))]
    items = [((), corners, composed(stream, network.embedding))]
    for layer in network.layers:
        items = [child for item in items for child in split(layer, *item)]
    return [(signature, points) for signature, points, _ in items]


def split(layer, signature, points, stream):
    slopes = np.array(form_rows(layer))
    scores = composed(composed(stream, layer.query), AffineMap(slopes.T, layer.offsets))
    parts = [((), points)]
    for g in range(layer.n_groups):
        members = range(layer.starts[g], layer.starts[g + 1])
        found = []
        for winners, polygon in parts:
            for j in members:
                part = polygon
                for r in members:
                    if scores[r] == scores[j]:
                        part = part if r >= j else []
                    elif part:
                        part = kept(part, [scores[j][k] - scores[r][k] for k in range(3)])
                    if not part:
                        break
                if part:
                    found.append(((*winners, j - layer.starts[g]), part))
        parts = found
    for winners, part in parts:
        y = [[Fraction(0)] * 3 for _ in range(layer.output.dim_in)]
        for g, w in enumerate(winners):
            best = scores[layer.starts[g] + w]
            tied = [j for j in range(layer.starts[g], layer.starts[g + 1]) if scores[j] == best]
            for j in tied:
                gain = Fraction(float(layer.gains[j])) / len(tied)
                for k in range(3):
                    y[layer.slots[g]][k] += gain * best[k]
                for k, value in enumerate(layer.values[j]):
                    y[layer.slots[g] + k][2] += Fraction(float(value)) / len(tied)
        after = composed(y, layer.output)
        if layer.residual:
            after = [[p[k] + q[k] for k in range(3)] for p, q in zip(after, stream, strict=True)]
        yield (*signature, *winners), part, after


def corners_of(low, high):
    (x0, y0), (x1, y1) = ([Fraction(float(v)) for v in side] for side in (low, high))
    return [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]


def check(network, low=(-5.0, -5.0), high=(5.0, 5.0), chart=None, domain=None):
    """Compare signatures, areas and maps with the reference, on a box and in the plane."""
    exact = reference_cells(network, corners_of(low, high), chart)
    cells = explore(network, Box(low, high) if domain is None else domain)
    assert cells.is_complete
    assert len(exact) == cells.n_counted == len(cells.signatures)
    expected = dict(exact)
    assert len(expected) == len(exact)
    assert {tuple(row) for row in cells.signatures.tolist()} == set(expected)
    affine = AffineMap.identity(2) if chart is None else AffineMap(*chart)
    for i, signature in enumerate(cells.signatures.tolist()):
        polygon = cells.vertices[cells.starts[i] : cells.starts[i + 1]]
        rounded = area([tuple(map(Fraction, p)) for p in polygon.tolist()])
        assert float(rounded) == pytest.approx(float(area(expected[tuple(signature)])), abs=1e-9)
        forms = exact_affine_map(network, affine, signature)
        unit = Fraction(2) ** forms.exponent / forms.denominator
        for j, row in enumerate(forms.rows):
            for k in range(3):
                error = Fraction(float(cells.maps[i, k, j])) - int(row[k]) * unit
                assert abs(error) <= Fraction(float(cells.map_radii[i]))
    counted = explore(network, Box(low, high) if domain is None else domain, count_only=True)
    assert counted.n_counted == len(exact)
    assert counted.vertices is None
    return cells


def check_plane(network):
    exact = reference_cells(network, corners_of((-1, -1), (1, 1)))
    assert exact
    far = [(-FAR, -FAR), (FAR, -FAR), (FAR, FAR), (-FAR, FAR)]
    exact = reference_cells(network, far)
    cells = explore(network, WholeSpace(2))
    assert cells.n_counted == len(exact)
    assert {tuple(row) for row in cells.signatures.tolist()} == {s for s, _ in exact}
    return cells


def gaussian_relu(seed, widths, dim_in=2):
    rng = np.random.default_rng(seed)
    weights, biases, fan = [], [], dim_in
    for width in [*widths, 1]:
        weight = rng.normal(0, np.sqrt(2 / fan), (width, fan)).astype(np.float32)
        weights.append(weight.astype(np.float64).T)
        biases.append(rng.normal(0, 0.5, width).astype(np.float32).astype(np.float64))
        fan = width
    return ReluNetwork(weights, biases).network


def random_transformer(rng, numbers, n_keys=8, n_heads=2, d_ff=8, depth=2, **flags):
    blocks = []
    for _ in range(depth):
        heads = [
            AttentionHead(numbers(2, 2), numbers(n_keys, 2), numbers(n_keys, 2), numbers(2, 2))
            for _ in range(n_heads)
        ]
        ffn = FeedForward(numbers(2, d_ff), numbers(d_ff), numbers(d_ff, 2), numbers(2))
        blocks.append(Block(heads, ffn, **flags))
    return HardTransformer(blocks).network


@pytest.mark.parametrize(
    ("seed", "widths", "in_square", "in_plane"),
    [(65, [16, 16], 421, 465), (66, [32, 32, 32], 3949, 4729)],
)
def test_known_counts_of_gaussian_networks(seed, widths, in_square, in_plane):
    network = gaussian_relu(seed, widths)
    assert explore(network, SQUARE).n_counted == in_square
    assert explore(network, WholeSpace(2)).n_counted == in_plane


@pytest.mark.parametrize("seed", seeds(2))
def test_gaussian_networks_match_the_rational_splitter(seed):
    cells = check(gaussian_relu(seed, [6, 5, 4]))
    assert cells.decisions.rational == 0
    check_plane(gaussian_relu(seed, [6, 5]))


@pytest.mark.parametrize("seed", seeds(3))
def test_integer_networks_match_the_rational_splitter(seed):
    rng = np.random.default_rng(seed)
    sizes = [2, 6, 5, 4, 1]
    weights = [rng.integers(-2, 3, s).astype(float) for s in itertools.pairwise(sizes)]
    biases = [rng.integers(-2, 3, n).astype(float) for n in sizes[1:]]
    cells = check(ReluNetwork(weights, biases).network)
    assert cells.decisions.expanded > 0
    assert cells.decisions.rational == 0
    check_plane(ReluNetwork(weights, biases).network)


@pytest.mark.parametrize("seed", seeds(2))
def test_networks_without_biases_match_the_rational_splitter(seed):
    """Where one unit alone is on, the next layer's walls all lie on that unit's wall."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=s) for s in ((2, 9), (9, 7), (7, 5), (5, 1))]
    cells = check(ReluNetwork(weights).network)
    assert cells.decisions.rational < cells.decisions.filtered / 4
    check_plane(ReluNetwork(weights).network)


def test_dead_and_repeated_units_make_no_walls_of_their_own():
    rng = np.random.default_rng(5)
    first = rng.normal(size=(2, 4))
    first = np.column_stack([first, first[:, 0], np.zeros(2), 3 * first[:, 1], -first[:, 2]])
    bias = np.array([0.1, 0.2, -0.3, 0.4, 0.1, 0.0, 0.0, 0.3])
    weights = [first, rng.normal(size=(8, 5)), rng.normal(size=(5, 1))]
    check(ReluNetwork(weights, [bias, np.zeros(5), None]).network)


def test_walls_of_two_layers_coincide():
    """The second layer sees relu(x) - relu(-x) = x again, and 3x, rounded differently."""
    first = np.array([[0.1, -0.1, 0.0, 0.0], [0.0, 0.0, 0.3, -0.3]])
    second = np.array([[0.7, 0.1], [-0.7, -0.1], [0.0, 0.3], [0.0, -0.3]])
    third = np.array([[1.0, 0.5, 0.3], [0.1, -0.5, 0.7]])
    for bias in (None, np.array([0.1, -0.1, 0.7, -0.7])):
        network = ReluNetwork([first, second, third, np.ones((3, 1))], [bias, None, None, None])
        cells = check(network.network)
        assert bias is None or cells.decisions.rational > 0
        check_plane(network.network)


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("residual", [True, False])
def test_gaussian_transformers_match_the_rational_splitter(seed, residual):
    rng = np.random.default_rng(seed)
    network = random_transformer(
        rng, lambda *s: rng.normal(size=s), n_keys=5, d_ff=4, attention_residual=residual
    )
    check(network, (-2.0, -2.0), (2.0, 2.0))
    check_plane(network)


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("grid", [1.0, 0.1])
def test_tied_transformers_match_the_rational_splitter(seed, grid):
    """Repeated keys, keys that never win, coinciding scores with different values."""
    rng = np.random.default_rng(seed)
    network = random_transformer(
        rng, lambda *s: rng.integers(-1, 2, s) * grid, n_keys=5, d_ff=3, depth=2
    )
    check(network, (-2.0, -2.0), (2.0, 2.0))
    check_plane(network)


def test_identical_heads_and_repeated_keys_share_their_values():
    keys = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]])
    values = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 3.0], [0.3, 0.1]])
    head = AttentionHead(np.eye(2), keys, values, np.eye(2))
    other = AttentionHead(np.eye(2), keys, values[::-1], np.eye(2))
    network = HardTransformer([Block([head, head, other], None)] * 2).network
    cells = check(network, (-2.0, -2.0), (2.0, 2.0))
    # The third key repeats the first: it never names a cell.
    assert not (cells.signatures == 2).any()


def test_a_rank_deficient_query_makes_keys_coincide():
    """Keys that differ only where the query vanishes tie everywhere, whatever comes before."""
    query = np.array([[1.0, 0.0], [0.5, 0.0]])
    keys = np.array([[0.1, 1.0], [0.1, 2.0], [-0.2, 0.0], [-0.2, 5.0], [0.3, 0.0]])
    values = np.random.default_rng(1).normal(size=(5, 2))
    head = AttentionHead(query, keys, values, np.eye(2))
    cells = check(HardTransformer([Block([head], None)] * 3).network, (-2.0, -2.0), (2.0, 2.0))
    assert not (cells.signatures % 2 == 1).any()


def test_forms_that_coincide_only_after_composition_share_their_values():
    """On one side of a wall the stream is constant, and all keys tie up to their offsets."""
    relu = FeedForward(np.array([[1.0], [0.0]]), [0.0], np.array([[0.1, 0.3]]), [0.2, 0.1])
    keys = np.array([[0.3, 0.7], [0.3, 0.7 + 2.0**-40], [0.7, 0.1], [1.0, 0.0]])
    values = np.array([[1.0, 2.0], [3.0, 5.0], [7.0, 11.0], [0.1, 0.2]])
    head = AttentionHead(np.array([[1.0, 0.0], [0.0, 0.0]]), keys, values, np.eye(2))
    blocks = [Block([head], relu, ffn_residual=False), Block([head], None)]
    check(HardTransformer(blocks).network, (-2.0, -2.0), (2.0, 2.0))


def test_a_key_that_wins_only_inside_is_found():
    keys = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.0, 0.0]])
    bias = np.array([0.0, 0.0, 0.0, 0.0, 0.5])
    head = AttentionHead(np.eye(2), keys, np.eye(5, 2), np.eye(2), logit_bias=bias)
    cells = check(HardTransformer([Block([head], None)]).network)
    assert 4 in cells.signatures


def test_maxout_networks_match_the_rational_splitter():
    rng = np.random.default_rng(3)
    for numbers in (rng.normal, lambda size: rng.integers(-2, 3, size).astype(float)):
        units = [[numbers(size=(k, 2)) for k in (2, 3, 5)], [numbers(size=(3, 3))] * 2]
        offsets = [[numbers(size=k) for k in (2, 3, 5)], [numbers(size=3)] * 2]
        network = MaxoutNetwork([*units, numbers(size=(2, 1))], [*offsets, None]).network
        check(network)
        check_plane(network)


def test_the_plane_with_no_wall_one_wall_and_parallel_walls():
    flat = ReluNetwork([np.zeros((2, 1)), np.ones((1, 1))], [[1.0], None]).network
    one = ReluNetwork([[[1.0], [2.0]], [[1.0]]]).network
    three = ReluNetwork([[[0.1, 0.3, -0.1], [0.7, 2.1, -0.7]], np.ones((3, 1))], [[0, 1, 1], None])
    assert explore(flat, WholeSpace(2)).n_counted == 1
    cells = explore(one, WholeSpace(2))
    assert cells.n_counted == 2
    assert np.abs(cells.directions).max() == 1.0
    assert check_plane(three.network).n_counted == len(reference_parallel())


def reference_parallel():
    """0.3 and 2.1 are not three times 0.1 and 0.7 in binary: the walls are not quite parallel."""
    network = ReluNetwork(
        [[[0.1, 0.3, -0.1], [0.7, 2.1, -0.7]], np.ones((3, 1))], [[0, 1, 1], None]
    ).network
    return reference_cells(network, [(-FAR, -FAR), (FAR, -FAR), (FAR, FAR), (-FAR, FAR)])


def test_a_cell_beyond_a_million_million_is_found():
    """Two almost parallel walls cross at about 2^45: three cells near the origin, four in all."""
    network = ReluNetwork(
        [[[0.0, 2.0**-45], [1.0, 1.0]], np.ones((2, 1))], [[0.0, -1.0], None]
    ).network
    assert explore(network, Box([-1e12, -1e12], [1e12, 1e12])).n_counted == 3
    cells = explore(network, WholeSpace(2))
    assert cells.n_counted == 4
    assert cells.vertices.max() == 2.0**45


def test_scales_from_tiny_to_huge():
    rng = np.random.default_rng(8)
    for scale in (1e-300, 1e-160, 1e160, 1e300):
        weights = [rng.normal(size=(2, 4)) * scale, rng.normal(size=(4, 3)), np.ones((3, 1))]
        biases = [rng.normal(size=4) * scale, rng.normal(size=3) * scale, None]
        network = ReluNetwork(weights, biases).network
        exact = reference_cells(network, corners_of((-5, -5), (5, 5)))
        cells = explore(network, SQUARE)
        assert {tuple(row) for row in cells.signatures.tolist()} == {s for s, _ in exact}
        assert np.isfinite(cells.maps).all() or scale == 1e300


def test_a_network_without_layers_has_one_cell():
    affine = AffineMap(np.array([[1.0], [2.0]]), np.array([3.0]))
    network = ArgmaxNetwork((), AffineMap.identity(2), affine)
    cells = explore(network, SQUARE)
    assert cells.n_counted == 1
    assert cells.maps.tolist() == [[[1.0], [2.0], [3.0]]]
    assert explore(network, WholeSpace(2), count_only=True).n_counted == 1


def test_walls_name_the_forms_that_meet_on_each_edge():
    network = gaussian_relu(3, [5, 4])
    cells = explore(network, SQUARE)
    for i in range(cells.n_counted):
        rows = slice(cells.starts[i], cells.starts[i + 1])
        for layer, unit, winner, rival in cells.walls[rows].tolist():
            if layer >= 0:
                position = unit if layer == 0 else 5 + unit
                assert winner == cells.signatures[i, position] == 1 - rival
    # The walls on the domain name its sides, each of them somewhere.
    on_domain = cells.walls[cells.walls[:, 0] < 0]
    assert set(on_domain[:, 1].tolist()) == {0, 1, 2, 3}


@given(st.integers(0, 10**6))
@examples(25)
def test_random_small_integer_networks(seed):
    rng = np.random.default_rng(seed)
    sizes = [2, *rng.integers(1, 5, rng.integers(1, 4)).tolist(), 1]
    scale = rng.choice([1.0, 0.1])
    weights = [rng.integers(-2, 3, s) * scale for s in itertools.pairwise(sizes)]
    biases = [rng.integers(-2, 3, n) * scale * rng.integers(0, 2) for n in sizes[1:]]
    check(ReluNetwork(weights, biases).network)
    check_plane(ReluNetwork(weights, biases).network)


def test_vertices_of_almost_parallel_walls_are_rounded_from_their_lines(monkeypatch):
    """Three times a float rounds: the first two walls cross at an angle of about 1e-17."""
    first = np.array([[-1.0, -3.0, -1.0], [-0.5786371995888618, -1.7359115987665854, -0.375]])
    bias = np.array([0.2987375921741028, 0.8962127765223084, 0.07796545231519249])
    second = np.array([[1.0], [-0.12399679334169628], [0.6673346097787775]])
    network = ReluNetwork([first, second, np.ones((1, 1))], [bias, [-0.24642622328440306], None])
    check(network.network, (-2.0, -2.0), (2.0, 2.0))
    improved = []
    monkeypatch.setattr(PlanarPath, "improve_top", lambda path: improved.append(blunt(path)))
    with pytest.raises(AssertionError):
        check(network.network, (-2.0, -2.0), (2.0, 2.0))
    assert improved


def blunt(path):
    """Leave the vertices as they are."""
    path.search.set_vertices(np.ascontiguousarray(path.search.top()[1].edges[:, 6:]))


def test_means_on_a_finer_grid_than_the_values_are_not_taken_for_exact():
    """The mean of two values has a bit more than either; its product then needs 54 bits."""
    keys = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, -1.0]])
    values = np.array([[0.0, 1.0 + 2.0**-51], [0.0, 1.0], [0.0, 0.0]])
    head = AttentionHead(np.eye(2), keys, values, np.diag([1.0, 1.5]))
    check(HardTransformer([Block([head], None, attention_residual=False)]).network)


def test_limits_leave_a_lower_bound():
    network = gaussian_relu(66, [32, 32, 32])
    few = explore(network, SQUARE, max_cells=100)
    assert (few.n_counted, few.is_complete, len(few.signatures)) == (100, False, 100)
    none = explore(network, SQUARE, max_cells=0)
    assert (none.n_counted, none.is_complete) == (0, False)
    exactly = explore(gaussian_relu(65, [16, 16]), SQUARE, max_cells=421)
    assert (exactly.n_counted, exactly.is_complete) == (421, True)
    assert explore(network, SQUARE, max_seconds=0.0, max_cells=10**9).n_counted <= 3949


def test_a_polygon_given_by_inequalities_is_the_box_it_describes():
    network = gaussian_relu(2, [8, 8])
    rows = np.array([[2.0, 0], [0, 3], [-1, 0], [0, -1], [1, 1], [1, 0]])
    polygon = Polytope(rows, np.array([10.0, 15, 5, 5, 100, 5]))
    assert_same_cells(explore(network, polygon), explore(network, SQUARE))


def test_a_triangle_matches_the_rational_splitter():
    network = gaussian_relu(2, [6, 5])
    triangle = Polytope(
        np.array([[0.3, 0.1], [-0.1, 0.7], [-0.3, -0.9]]), np.array([1.0, 1.0, 1.0])
    )
    far = [(-FAR, -FAR), (FAR, -FAR), (FAR, FAR), (-FAR, FAR)]
    for row in triangle.rows.tolist():
        far = kept(far, [Fraction(-int(row[0])), Fraction(-int(row[1])), Fraction(int(row[2]))])
    exact = reference_cells(network, far)
    cells = explore(network, triangle)
    assert {tuple(row) for row in cells.signatures.tolist()} == {s for s, _ in exact}
    assert cells.directions is None


def test_an_unbounded_polygon_has_directions():
    network = gaussian_relu(4, [6])
    wedge = Polytope(np.array([[-1.0, 0.0], [0.0, -1.0]]), np.array([0.0, 0.0]))
    exact = reference_cells(network, [(0, 0), (FAR, 0), (FAR, FAR), (0, FAR)])
    cells = explore(network, wedge)
    assert {tuple(row) for row in cells.signatures.tolist()} == {s for s, _ in exact}
    assert cells.directions.min() >= 0.0
    assert cells.directions.max() == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_slices_match_the_rational_splitter(seed):
    rng = np.random.default_rng(seed)
    network = gaussian_relu(seed, [7, 6], dim_in=5)
    directions, origin = rng.normal(size=(2, 5)), rng.normal(size=5)
    square = Box([-5.0, -5.0], [5.0, 5.0])
    check(network, chart=(directions, origin), domain=Slice(origin, directions, square))
    flat = np.array([[1.0, 1.0, 0, 0, 2], [0, 0, 1, -1, 0]])
    whole = rng.integers(-2, 3, (5, 6)).astype(float), rng.integers(-2, 3, 6).astype(float)
    degenerate = ReluNetwork([whole[0], np.ones((6, 1))], [whole[1], None]).network
    check(degenerate, chart=(flat, np.ones(5)), domain=Slice(np.ones(5), flat, square))


def test_an_interrupt_leaves_what_was_found(monkeypatch):
    calls, run = [], CoreSearch.run

    def interrupted(search, room, limit, budget, is_wanted):
        calls.append(budget)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return run(search, room, limit, 500)

    monkeypatch.setattr(CoreSearch, "run", interrupted)
    with pytest.raises(Interrupted) as stop:
        explore(gaussian_relu(66, [32, 32, 32]), SQUARE)
    cells = stop.value.partial
    assert not cells.is_complete
    assert 0 < cells.n_counted == len(cells.signatures) < 3949


def test_many_blocks_of_cells_join():
    network = gaussian_relu(66, [32, 32, 32])
    cells = explore(network, SQUARE)
    assert len(np.unique(cells.signatures, axis=0)) == 3949
    assert cells.starts[0] == 0
    assert cells.starts[-1] == len(cells.vertices)
    total = sum(
        float(area(list(map(tuple, cells.vertices[a:b].tolist()))))
        for a, b in zip(cells.starts[:-1], cells.starts[1:], strict=True)
    )
    assert total == pytest.approx(100.0, rel=1e-12)


def assert_same_cells(one, other):
    assert {tuple(r) for r in one.signatures.tolist()} == {
        tuple(r) for r in other.signatures.tolist()
    }


def test_bad_domains_and_limits_are_refused():
    network = gaussian_relu(1, [2])
    deep = gaussian_relu(1, [2], dim_in=3)
    with pytest.raises(HardmaxError, match="`domain`"):
        explore(network, Box([0.0], [1.0]))
    with pytest.raises(HardmaxError, match="`domain`"):
        explore(deep, SQUARE)
    with pytest.raises(HardmaxError, match="`max_cells`"):
        explore(network, SQUARE, max_cells=-1)
    with pytest.raises(HardmaxError, match="`max_seconds`"):
        explore(network, SQUARE, max_seconds=float("nan"))


def test_buffers_used_again_leave_earlier_results_alone():
    one, other = gaussian_relu(65, [16, 16]), gaussian_relu(70, [16, 16])
    first = explore(one, SQUARE)
    kept = [getattr(first, name).copy() for name in ("signatures", "maps", "vertices", "walls")]
    explore(other, SQUARE)
    explore(gaussian_relu(71, [3, 40]), WholeSpace(2))
    explore(one, SQUARE, count_only=True)
    again = explore(one, SQUARE)
    for name, old in zip(("signatures", "maps", "vertices", "walls"), kept, strict=True):
        assert np.array_equal(getattr(first, name), old)
        assert np.array_equal(getattr(again, name), old)


def test_a_stopped_search_leaves_nothing_behind_for_the_next():
    network = gaussian_relu(66, [32, 32, 32])
    assert explore(network, SQUARE, max_cells=7).n_counted == 7
    assert explore(network, SQUARE).n_counted == 3949
    assert explore(network, WholeSpace(2)).n_counted == 4729
    assert explore(network, SQUARE, count_only=True).n_counted == 3949


def test_domains_that_are_gone_are_forgotten():
    square = Box([-1.0, -1.0], [1.0, 1.0])
    explore(gaussian_relu(65, [4]), square)
    gone = weakref.ref(square)
    del square
    gc.collect()
    assert gone() is None


def test_the_first_slice_of_a_wide_network_is_short(monkeypatch):
    budgets, run = [], CoreSearch.run

    def watched(search, room, limit, budget, is_wanted):
        budgets.append(budget)
        return run(search, room, limit, budget)

    monkeypatch.setattr(CoreSearch, "run", watched)
    monkeypatch.setattr(core_runs, "_FIRST_PRODUCTS", 10_000)
    explore(gaussian_relu(1, [30, 30]), SQUARE, max_cells=20)
    assert 1 <= budgets[0] <= 10_000 // 900


def test_a_map_that_overflows_is_known_to_be_unknown():
    """One coordinate of the stream overflows; that of the other says nothing about it."""
    head = AttentionHead(np.eye(2), [[1.0, 0.0]], [[1.2e308, 1.0]], np.eye(2))
    cells = explore(HardTransformer([Block([head])] * 2).network, SQUARE)
    assert cells.n_counted == 1
    assert not cells.map_radii[0] < np.inf
