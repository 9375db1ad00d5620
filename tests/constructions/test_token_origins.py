"""Tokens that stand at a corner of their cell."""

import json
from fractions import Fraction

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from scipy.spatial import Delaunay

from hardmax.constructions.compilers.compiled_function_files import load_function
from hardmax.constructions.compilers.cpwl_compiler import compile_cpwl
from hardmax.constructions.compilers.functions.common_forms import common_form
from hardmax.constructions.compilers.functions.knots import Knots, maxout_from_knots
from hardmax.constructions.compilers.functions.meshes import Mesh, maxout_from_mesh
from hardmax.constructions.compilers.piece_layers import piece_layers
from hardmax.constructions.compilers.token_origins import TokenOrigins, token_origins
from hardmax.errors import ArgumentError, HardmaxError, RecordFormatError
from hardmax.geometry.domains import Box
from hardmax.models.tensor_files import content_hash
from tests.compiled_models import random_maxout
from tests.reference.piecewise_linear import mesh_value

SQUARE = Box([-1, -1], [1, 1])


def random_mesh(seed, n=20, dim_out=1):
    rng = np.random.default_rng(seed)
    points = np.vstack([rng.uniform(-1, 1, (n, 2)), [[-1, -1], [1, -1], [-1, 1], [1, 1]]])
    return Mesh(points, Delaunay(points).simplices, rng.normal(size=(n + 4, dim_out)))


def values_at(mesh, x):
    lists = mesh.vertices.tolist(), mesh.simplices.tolist(), mesh.values.tolist()
    return [mesh_value(*lists, row) for row in x.tolist()]


def is_close(compiled, x, wanted):
    """Compare what float64 computes with the exact value."""
    pairs = zip(compiled(x).tolist(), wanted, compiled.output_errors.tolist(), strict=True)
    return all(abs(Fraction(y) - Fraction(w)) <= Fraction(error) for y, w, error in pairs)


@pytest.mark.parametrize("epsilon", [None, 1e-3])
@pytest.mark.parametrize("seed", range(3))
def test_the_transformer_is_the_function_wherever_its_tokens_stand(seed, epsilon):
    mesh = random_mesh(seed)
    compiled = compile_cpwl(mesh, SQUARE, epsilon)
    assert compiled.origins is not None
    x = np.vstack([np.random.default_rng(seed).uniform(-1, 1, (20, 2)), mesh.vertices])
    for row, wanted in zip(x, values_at(mesh, x), strict=True):
        if wanted is not None:
            assert is_close(compiled, row, wanted)


def test_pieces_of_all_units_stand_at_a_corner_of_their_own_cell():
    mesh = random_mesh(0)
    form = maxout_from_mesh(mesh, SQUARE)
    (layer,), _ = piece_layers(form.network, form.origins)
    own = layer.origins.points[layer.place]
    for slopes, offset, owner, at in zip(
        layer.slopes, layer.offsets, layer.owner, own, strict=True
    ):
        unit = layer.owner == owner
        best = (layer.slopes[unit] @ at + layer.offsets[unit]).max()
        # The piece is the largest of its unit there, up to the rounding of the corner to float32.
        assert slopes @ at + offset >= best - 1e-6 * np.abs(slopes).max()


def test_an_affine_output_beside_another_one_stands_on_one_token():
    points = np.round(random_mesh(3).vertices * 1024) / 1024
    values = np.random.default_rng(3).normal(size=(len(points), 2))
    values[:, 1] = points @ [0.5, -2.0] + 1.0
    both = Mesh(points, Delaunay(points).simplices, values)
    compiled = compile_cpwl(both, SQUARE)
    assert compiled.origins is not None
    assert 1 in compiled.form.network.ranks[0]
    x = np.random.default_rng(0).uniform(-1, 1, (15, 2))
    for row, wanted in zip(x, values_at(both, x), strict=True):
        assert is_close(compiled, row, wanted)


def test_far_from_zero_float32_keeps_the_digits_of_the_input(tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    near = random_mesh(1)
    far = Mesh(near.vertices + 64.0, near.simplices, near.values)
    compiled = compile_cpwl(far, Box([63, 63], [65, 65]))
    compiled.to_onnx(tmp_path / "f.onnx", dtype="float32")
    session = runtime.InferenceSession(str(tmp_path / "f.onnx"), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).uniform(63, 65, (200, 2)).astype(np.float32)
    found = session.run(None, {"x": x})[0] - compiled.source(x.astype(np.float64))
    assert np.abs(found).max() < 1e-5


def test_numbers_that_do_not_shrink_stay_where_they_are():
    assert compile_cpwl(Knots([-1, 0, 1], [1, 0, 1]), Box([-1], [1])).origins is None
    assert token_origins([np.ones((2, 1))], [np.zeros(2)], [np.array([[0.1], [0.2]])]) is None
    wild = [np.full((2, 1), 1.0)], [np.full(2, -1e300)], [np.array([[1e300], [1e300]])]
    assert token_origins(*wild) is None


def test_pieces_take_the_token_at_their_place_and_then_the_nearest():
    places = [np.array([[0.0], [1.0], [2.0]]), np.array([[2.0], [0.25]])]
    slopes = [np.full((3, 1), 100.0), np.full((2, 1), 100.0)]
    offsets = [-100.0 * places[0][:, 0], -100.0 * places[1][:, 0]]
    origins = token_origins(slopes, offsets, places)
    assert origins.points.tolist() == [[0.0], [1.0], [2.0]]
    assert origins.tokens.tolist() == [0, 1, 2, 2, 0]


def test_a_common_affine_function_is_taken_from_both_maxima():
    rng = np.random.default_rng(0)
    knots = Knots(np.sort(rng.uniform(-1, 1, 60)), rng.normal(size=60))
    form = maxout_from_knots(knots, Box([-1], [1]))
    x = np.linspace(-1, 1, 101)[:, None]
    pairs = zip(form.network.weights[0], form.network.biases[0], strict=True)
    heights = [(x @ slopes.T + offsets).max(axis=1) for slopes, offsets in pairs]
    # Without it the second maximum would start at 0 and rise over the whole box.
    slopes = form.network.weights[0][1][:, 0]
    risen = heights[1] - heights[1][0] - slopes.min() * (x[:, 0] + 1)
    assert max(np.abs(h).max() for h in heights) < 0.3 * risen.max()


def test_a_common_form_is_the_affine_part_of_the_values():
    points = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    form = common_form(points, points @ [3.0, -5.0] + 100.0)
    assert np.allclose([float(x) for x in form], [3.0, -5.0, 100.0], rtol=0.01)
    assert common_form(points, np.zeros(50)) is None


def test_files_keep_where_tokens_stand(tmp_path):
    path = tmp_path / "f.safetensors"
    compiled = compile_cpwl(random_mesh(0), SQUARE, 1e-3)
    compiled.save(path)
    again = load_function(path)
    assert np.array_equal(again.origins.points, compiled.origins.points)
    assert np.array_equal(again.origins.tokens, compiled.origins.tokens)
    assert again.certified_error == compiled.certified_error
    assert again.float32_error == compiled.float32_error


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("origins.points", None),
        ("origins.tokens", None),
        ("origins.tokens", lambda a: a + 0.5),
        ("origins.tokens", lambda a: a[:-1]),
        ("origins.tokens", lambda a: a * 0),
        ("origins.points", lambda a: a + 0.125),
        ("origins.points", lambda a: a[:-1]),
    ],
)
def test_files_with_other_origins_are_refused(tmp_path, name, change):
    path = tmp_path / "f.safetensors"
    compile_cpwl(random_mesh(0), SQUARE).save(path)
    tensors = load_file(path)
    with safe_open(path, "np") as file:
        header = json.loads(file.metadata()["hardmax"])
    if change is None:
        del tensors[name]
    else:
        tensors[name] = np.ascontiguousarray(change(tensors[name]))
    header["content"] = content_hash(header, tensors)
    save_file(tensors, path, {"hardmax": json.dumps(header)})
    with pytest.raises(RecordFormatError, match=r"origins|belong"):
        load_function(path)


@pytest.mark.parametrize(
    ("points", "tokens", "word"),
    [
        ([[0.1]], [0], "points"),
        ([[1e300]], [0], "points"),
        ([[0.0]], [1], "tokens"),
        ([[0.0]], [-1], "tokens"),
        ([0.0], [0], "points"),
        ([[0.0]], [0.5], "tokens"),
    ],
)
def test_bad_origins_are_refused_by_name(points, tokens, word):
    with pytest.raises(HardmaxError, match=f"`{word}`"):
        TokenOrigins(points, tokens)


def test_origins_of_another_layer_are_refused():
    net = random_maxout(0, 2, [2], (2, 2))
    for points, tokens in (
        (np.zeros((2, 2)), [0, 1, 0]),
        (np.zeros((2, 2)), [0, 0, 0, 1]),
        (np.zeros((3, 2)), [0, 1, 0, 1]),
        (np.zeros((2, 1)), [0, 1, 0, 1]),
    ):
        with pytest.raises(ArgumentError, match="`origins`"):
            piece_layers(net, TokenOrigins(points, tokens))
    deep = random_maxout(0, 2, [2, 2], (2, 2))
    with pytest.raises(ArgumentError, match="one hidden layer"):
        piece_layers(deep, TokenOrigins(np.zeros((2, 2)), [0, 1, 0, 1]))
