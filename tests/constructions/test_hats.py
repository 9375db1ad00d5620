"""Functions as sums of hats, and what they lose in float32."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.spatial import Delaunay

from hardmax.constructions.compilers._bounds.interval_images import IntervalMap
from hardmax.constructions.compilers._bounds.local_networks import LocalNetwork, is_zero
from hardmax.constructions.compilers.compiled_function_files import load_function
from hardmax.constructions.compilers.cpwl_compiler import compile_cpwl
from hardmax.constructions.compilers.functions.hats import lattice_sets, maxout_from_hats, stars
from hardmax.constructions.compilers.functions.knots import Knots
from hardmax.constructions.compilers.functions.meshes import Mesh
from hardmax.constructions.compilers.functions.tropical_forms import DifferenceOfMaxima
from hardmax.constructions.compilers.maxout_compiler import compile_maxout
from hardmax.constructions.compilers.piece_layers import piece_layers
from hardmax.constructions.compilers.unit_origins import UnitOrigins
from hardmax.errors import ArgumentError, DiscontinuityError, HardmaxError, RecordFormatError
from hardmax.exact.forms import AffineForms
from hardmax.geometry.domains import Box
from hardmax.models.networks import MaxoutNetwork
from hardmax.models.tensor_files import read_tensor_file, write_tensor_file
from hardmax.regions.engines import enumerate_regions
from tests.constructions.test_cpwl_meshes import PINWHEEL, PINWHEEL_POINTS, random_diagonals
from tests.reference.float32 import evaluate
from tests.reference.piecewise_linear import barycentric, knots_value, mesh_value, within

CUBE = {d: Box([-1] * d, [1] * d) for d in (1, 2, 3)}


def delaunay(points, seed=0):
    dim = points.shape[1]
    points = np.vstack([points, list(product([-1.0, 1.0], repeat=dim))])
    simplices = Delaunay(points).simplices
    edges = points[simplices[:, 1:]] - points[simplices[:, :1]]
    simplices = simplices[np.abs(np.linalg.det(edges)) > 0]
    values = np.random.default_rng(seed).normal(size=len(points))
    return Mesh(points, simplices, values)


def clustered(seed, n):
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-0.8, 0.8, (4, 2))
    return delaunay(np.clip(centres[rng.integers(0, 4, n)] + 0.02 * rng.normal(size=(n, 2)), -1, 1))


def graded(seed, n):
    rng = np.random.default_rng(seed)
    return delaunay(np.sign(rng.normal(size=(n, 2))) * 10.0 ** -rng.uniform(0, 3, (n, 2)))


def slivers(seed, n):
    rng = np.random.default_rng(seed)
    return delaunay(np.column_stack([rng.uniform(-1, 1, n), 1e-3 * rng.normal(size=n)]))


def spatial(seed, n):
    return delaunay(np.random.default_rng(seed).uniform(-1, 1, (n, 3)))


def random_knots(seed, n, **slopes):
    rng = np.random.default_rng(seed)
    return Knots(np.sort(rng.uniform(-1, 1, n)), rng.normal(size=n), **slopes)


def diagonals(seed):
    points, simplices = random_diagonals(np.random.default_rng(seed), 4)
    return Mesh(points, simplices, np.random.default_rng(seed).normal(size=len(points)))


def twisted():
    return Mesh(PINWHEEL_POINTS, PINWHEEL, [0.0, 1.0, -2.0, 3.0, 1.0, -1.0])


def points_of(mesh, rng, n):
    """Points inside simplices, on their faces and close to their corners; float32 numbers."""
    chosen = np.arange(n) % len(mesh.simplices)
    shares = np.array([rng.dirichlet(np.full(mesh.dim + 1, a)) for a in rng.choice([1, 0.1], n)])
    inner = np.einsum("mj,mjd->md", shares, mesh.vertices[mesh.simplices[chosen]])
    return np.vstack([inner, mesh.vertices]).astype(np.float32)


def hat_at(forms, sets, point):
    """The hat in fractions, for forms as rows of fractions."""
    values = [sum(a * x for a, x in zip(f, [*point, 1], strict=True)) for f in forms]
    return max(Fraction(0), *(min(values[i] for i in s) for s in sets))


def check_stars(mesh, rng):
    """Compare every hat with barycentric coordinates in some simplices; count sets too small."""
    corners = mesh.vertices.tolist()
    n_short = 0
    for star in stars(mesh._complex):
        sets = lattice_sets(star)
        at = [Fraction(x) for x in corners[star.vertex]]
        forms = []
        for row in star.rows.tolist():
            height = sum(a * x for a, x in zip(row, [*at, 1], strict=True))
            forms.append([Fraction(a) / height for a in row])
        above = (star.values[:, star.cells] >= 0).all(axis=2)
        plain = [np.flatnonzero(above[:, t]).tolist() for t in range(len(star.cells))]
        for simplex in mesh.simplices[rng.permutation(len(mesh.simplices))[:12]].tolist():
            shares = [Fraction(int(k)) for k in rng.integers(0, 7, mesh.dim + 1)]
            shares[0] += 1
            point = [
                sum(s * Fraction(corners[v][k]) for s, v in zip(shares, simplex, strict=True))
                / sum(shares)
                for k in range(mesh.dim)
            ]
            weights = barycentric([corners[v] for v in simplex], point)
            wanted = dict(zip(simplex, weights, strict=True)).get(star.vertex, Fraction(0))
            assert hat_at(forms, sets, point) == wanted
            n_short += hat_at(forms, plain, point) != wanted
    return n_short


@pytest.mark.parametrize(
    "make",
    [
        lambda: clustered(0, 30),
        lambda: graded(1, 20),
        lambda: slivers(2, 20),
        lambda: diagonals(0),
        lambda: diagonals(1),
        twisted,
        lambda: Mesh([[0.0], [1.0], [3.0]], [[0, 1], [1, 2]], [1.0, 2.0, 0.0]),
    ],
)
def test_hats_are_barycentric_coordinates_exactly(make):
    check_stars(make(), np.random.default_rng(0))


def test_hats_in_space_need_more_than_the_forms_above_a_simplex():
    n_short = sum(check_stars(spatial(seed, 10), np.random.default_rng(seed)) for seed in (1, 2))
    assert n_short > 0


@pytest.mark.parametrize("make", [lambda: graded(0, 12), lambda: diagonals(2), twisted])
def test_networks_are_the_function_up_to_the_stated_rounding(make):
    mesh = make()
    box = Box(mesh.vertices.min(axis=0), mesh.vertices.max(axis=0))
    form = maxout_from_hats(mesh, box)
    assert form.method == "hats"
    assert form.rounding[0] < 1e-11
    rng = np.random.default_rng(0)
    for point in points_of(mesh, rng, 30).astype(float).tolist():
        wanted = mesh_value(mesh.vertices.tolist(), mesh.simplices, mesh.values.tolist(), point)
        if wanted is not None:
            assert within(form.network, form.rounding, point, wanted)


@pytest.mark.parametrize("n", [1, 2, 3, 12])
@pytest.mark.parametrize("slopes", [(None, None), (0.0, 0.0), (-3.5, 7.25)])
@pytest.mark.parametrize("box", [(-2, 2), (-1, 1), (0.25, 0.5), (-2, -1.5)])
def test_knots_are_the_function_up_to_the_stated_rounding(n, slopes, box):
    box = Box([box[0]], [box[1]])
    knots = random_knots(n, n, left_slope=slopes[0], right_slope=slopes[1])
    form = maxout_from_hats(knots, box)
    ends = [Fraction(int(f[0].p), int(f[0].q)) for f in knots.exact_forms[[0, -1], 0]]
    x = np.r_[box.low, box.high, knots.positions, np.linspace(box.low[0], box.high[0], 9)]
    for point in x[(x >= box.low) & (x <= box.high)].tolist():
        positions, values = knots.positions.tolist(), knots.values[:, 0].tolist()
        wanted = knots_value(positions, values, *ends, point)
        assert within(form.network, form.rounding, [point], [wanted])


def test_rounding_counts_hats_that_meet_and_not_all():
    knots = Knots(np.linspace(-1, 1, 200), np.random.default_rng(0).choice([-1.0, 1.0], 200))
    form = maxout_from_hats(knots, CUBE[1])
    # Slopes of 99.5 and offsets up to 100 are rounded; four hats meet at a knot.
    assert 0.0 < form.rounding[0] < 4 * (2 * 2.0**-47 + 2.0**-47)


def test_hats_that_are_0_on_the_box_are_left_away():
    knots = Knots(np.arange(10.0), [1.0, 2, 0, 3, 4, 5, 6, 7, 8, 9])
    assert len(maxout_from_hats(knots, Box([2.25], [3.75])).network.ranks[1]) == 2
    nothing = maxout_from_hats(Knots([0.0, 1.0], [0.0, 0.0]), Box([0], [1]))
    assert nothing.network([[0.5]]).tolist() == [[0.0]]


@pytest.mark.parametrize("method", ["auto", "hats"])
@pytest.mark.parametrize(
    ("low", "high"), [([0, -1], [1, 0]), ([1, 0], [2, 1]), ([0, 1], [1, 2]), ([1, 1], [2, 2])]
)
def test_boxes_that_only_touch_the_mesh_have_its_values(method, low, high):
    mesh = Mesh([[0, 0], [1, 0], [0, 1], [1, 1]], [[0, 1, 2], [1, 2, 3]], [1.0, 2, 3, 4])
    compiled = compile_cpwl(mesh, Box(low, high), method=method)
    x = np.array(list(product((0, 0.25, 0.5, 1), repeat=2)))
    x = x[((x >= low) & (x <= high)).all(axis=1)]
    found = compiled(x)[:, 0] - (1 + x @ [1, 2])
    assert np.abs(found).max() <= compiled.certified_error < 1e-12


def test_boxes_that_only_touch_the_knots_have_their_values():
    knots = Knots([0.0, 1.0, 2.0], [1.0, 3.0, -2.0])
    for low, high, wanted in ((-1, 0, [-1, 1]), (2, 3, [-2, -7]), (1, 2, [3, -2])):
        compiled = compile_cpwl(knots, Box([low], [high]), method="hats")
        assert compiled([[low], [high]]).ravel().tolist() == wanted
        assert len(compiled.form.network.ranks[1]) == 2


def test_several_outputs_share_hats():
    mesh = graded(0, 10)
    values = np.random.default_rng(1).normal(size=(len(mesh.vertices), 2))
    both = compile_cpwl(Mesh(mesh.vertices, mesh.simplices, values), CUBE[2], method="hats")
    x = np.random.default_rng(2).uniform(-1, 1, (20, 2))
    for c in range(2):
        one = Mesh(mesh.vertices, mesh.simplices, values[:, c])
        y = compile_cpwl(one, CUBE[2], method="hats")(x)
        np.testing.assert_allclose(both(x)[:, c], y[:, 0], atol=1e-11)


@pytest.mark.parametrize(
    ("make", "n"), [(clustered, 30), (graded, 30), (slivers, 30), (spatial, 6), (random_knots, 100)]
)
@pytest.mark.parametrize("epsilon", [None, 1e-5])
def test_steep_functions_are_right_in_float32(make, n, epsilon):
    f = make(3, n)
    box = CUBE[1 if isinstance(f, Knots) else f.dim]
    compiled = compile_cpwl(f, box, epsilon, method="hats")
    rng = np.random.default_rng(0)
    if isinstance(f, Knots):
        close = np.r_[f.positions, (f.positions[1:] + f.positions[:-1]) / 2, -1, 1]
        x = close.astype(np.float32)[:, None]
    else:
        x = points_of(f, rng, 60)
    wanted = compiled.source(x.astype(np.float64))
    scale = np.abs(f.values).max()
    y = evaluate(compiled.softened.token_transformer, x, rng)
    found = np.abs(y.astype(np.float64) - wanted).max()
    assert found <= compiled.float32_error < 1e-4 * scale
    assert found < 1e-5 * scale
    soft = compiled.transformer(x.astype(np.float64))
    assert np.abs(soft - wanted).max() <= compiled.certified_error <= (epsilon or 1e-7)


def test_files_keep_origins_of_units(tmp_path):
    compiled = compile_cpwl(graded(0, 8), CUBE[2], 1e-3, method="hats")
    compiled.save(tmp_path / "f.safetensors")
    again = load_function(tmp_path / "f.safetensors")
    assert again.form.method == "hats"
    assert again.certified_error == compiled.certified_error
    assert np.array_equal(again.origins.points, compiled.origins.points)
    assert np.array_equal(again.origins.units, compiled.origins.units)
    x = np.random.default_rng(0).uniform(-1, 1, (9, 2))
    assert np.array_equal(again(x), compiled(x))
    header, tensors = read_tensor_file(tmp_path / "f.safetensors")
    for change in (
        {"origins.tokens": tensors["origins.units"]},
        {"origins.units": tensors["origins.units"] + 0.5},
        {"origins.units": tensors["origins.units"][1:]},
        {"origins.points": tensors["origins.points"] + 0.5},
    ):
        write_tensor_file(tmp_path / "g.safetensors", header, {**tensors, **change})
        with pytest.raises(RecordFormatError):
            load_function(tmp_path / "g.safetensors")


def test_exports_agree(tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    mesh = clustered(0, 40)
    compiled = compile_cpwl(mesh, CUBE[2])
    assert compiled.form.method == "hats"
    x = points_of(mesh, np.random.default_rng(0), 100)
    wanted = compiled.source(x.astype(np.float64))
    for dtype, most in (("float64", 1e-9), ("float32", 2e-5)):
        compiled.to_onnx(tmp_path / "f.onnx", dtype=dtype)
        session = runtime.InferenceSession(
            str(tmp_path / "f.onnx"), providers=["CPUExecutionProvider"]
        )
        assert np.abs(session.run(None, {"x": x.astype(dtype)})[0] - wanted).max() < most


def test_torch_modules_agree():
    torch = pytest.importorskip("torch")
    knots = random_knots(0, 100)
    x = np.r_[knots.positions, np.linspace(-1, 1, 201)].astype(np.float32)[:, None]
    for epsilon in (None, 1e-5):
        compiled = compile_cpwl(knots, CUBE[1], epsilon)
        wanted = compiled.source(x.astype(np.float64))
        with torch.no_grad():
            y = compiled.to_torch(dtype="float32")(torch.from_numpy(x)).numpy()
        assert np.abs(y - wanted).max() < 1e-5 + (epsilon or 0.0)


def test_regions_are_those_of_the_function_where_weights_are_exact():
    square = [[0, 0], [2, 0], [0, 2], [2, 2], [1, 1]]
    cuts = [[0, 1, 4], [1, 3, 4], [3, 2, 4], [2, 0, 4]]
    mesh = Mesh(square, cuts, [0.0, 1.0, 3.0, -2.0, 5.0])
    compiled = compile_cpwl(mesh, Box([0, 0], [2, 2]), method="hats")
    assert enumerate_regions(compiled, compiled.box).n_affine_maps == 4
    knots = Knots([0, 1, 2, 4], [0.0, 1.0, -1.0, 0.0])
    line = compile_cpwl(knots, Box([0], [4]), method="hats")
    assert enumerate_regions(line, line.box).n_regions == 3


def test_no_layer_rounds_what_the_one_before_wrote():
    units = [[[2.0**30], [0.0]], [[1.0], [-1.0]]]
    net = MaxoutNetwork(
        [units, [[[0.0, 1.0], [0.0, 0.0]]], [[1.0]]], [[[0.0] * 2] * 2, [[0] * 2], None]
    )
    compiled = compile_maxout(net, CUBE[1])
    x = np.random.default_rng(0).uniform(-1, 1, (20, 1)).astype(np.float32)
    y = evaluate(compiled.softened.token_transformer, x, np.random.default_rng(1))
    assert np.array_equal(y, np.abs(x))
    assert compiled.float32_error < 1e-6


def test_networks_on_small_boxes_have_the_units_that_count_there():
    compiled = compile_cpwl(Knots([0, 1, 2, 4], [0.0, 1, -1, 3]), Box([0], [4]), method="hats")
    layers, last = piece_layers(compiled.source, compiled.origins)
    network = LocalNetwork.of(layers, last, compiled.plans)
    near = np.array([[True, False, True, True, True, False]])
    assert is_zero(layers[1], near).tolist() == [[True, False, True]]
    small = network.drop_units(np.array([True, False, True]), np.array([0.5, 9.0, 0.25]))
    assert 0.5 + 3 * 0.25 <= small.extra[0] < 1.2501
    assert [layer.n_units for layer in small.layers] == [1, 1]
    x = np.array([1.5])
    pieces = small.layers[0].slopes @ x + small.layers[0].offsets
    assert -pieces.max() == 0.5
    assert small.layers[0].written_offsets.tolist() == layers[0].written_offsets[2:4].tolist()
    assert small.last.weight.tolist() == [[-1.0]]


def test_sparse_and_dense_maps_of_boxes_agree():
    rng = np.random.default_rng(0)
    slopes = np.where(rng.random((40, 30)) < 0.05, rng.normal(size=(40, 30)), 0.0)
    low = rng.normal(size=(5, 30))
    high = low + rng.random((5, 30))
    sparse = IntervalMap.of(slopes, np.ones(40))
    assert sparse.cost == np.count_nonzero(slopes)
    positive, negative = np.maximum(slopes, 0), np.maximum(-slopes, 0)
    below, above = sparse.images(low, high, 0.25)
    np.testing.assert_allclose(below, low @ positive.T - high @ negative.T + 0.75)
    np.testing.assert_allclose(above, high @ positive.T - low @ negative.T + 1.25)
    np.testing.assert_allclose(sparse.moduli(high), high @ np.abs(slopes).T)
    full = IntervalMap.of(rng.normal(size=(3, 2)), np.zeros(3))
    assert full.cost == 6


def test_bad_input_is_refused():
    forms = DifferenceOfMaxima(AffineForms([[1.0]], [0.0]))
    for f, box, keywords, word in (
        (forms, CUBE[1], {"method": "hats"}, "`method='hats'`"),
        (graded(0, 4), CUBE[2], {"method": "segments"}, "`method='segments'`"),
        (random_knots(0, 4), CUBE[1], {"method": "magic"}, "`method`"),
        (random_knots(0, 4), CUBE[1], {"method": "hats", "small_arity": True}, "`small_arity`"),
        (random_knots(0, 4), CUBE[2], {"method": "hats"}, "`box`"),
        (graded(0, 4), CUBE[1], {"method": "hats"}, "`box`"),
        (graded(0, 4), Box([5, 5], [6, 6]), {"method": "hats"}, "`box`"),
        (Knots([0.0, 1e-320], [0.0, 1.0]), CUBE[1], {"method": "hats"}, "slope"),
    ):
        with pytest.raises(HardmaxError, match=word):
            compile_cpwl(f, box, **keywords)
    torn = Mesh([[0.0], [1.0], [1.0], [2.0]], [[0, 1], [2, 3]], [0.0, 0.0, 5.0, 5.0])
    with pytest.raises(DiscontinuityError):
        maxout_from_hats(torn, Box([0], [2]))
    for units in ([2], [-1], [0.5]):
        with pytest.raises(HardmaxError, match="`units`"):
            UnitOrigins([[0.0], [1.0]], units)
    form = maxout_from_hats(random_knots(0, 4), CUBE[1])
    with pytest.raises(ArgumentError, match="`origins`"):
        piece_layers(form.network, UnitOrigins([[0.0]], [0]))
