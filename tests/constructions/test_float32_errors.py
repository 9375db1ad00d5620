"""Compiled transformers in float32: the bound holds in every runtime, and it is small."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import typer
from scipy.spatial import Delaunay
from typer.testing import CliRunner

from hardmax.cli.compile import compile_file
from hardmax.constructions.compilers._bounds import float32_errors
from hardmax.constructions.compilers.cpwl_compiler import compile_cpwl
from hardmax.constructions.compilers.functions.knots import Knots
from hardmax.constructions.compilers.functions.meshes import Mesh
from hardmax.constructions.compilers.maxout_compiler import compile_maxout, compile_relu
from hardmax.constructions.families.deep_families import tent_network
from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.storage import save_model
from tests.compiled_models import random_maxout, random_relu
from tests.reference.float32 import evaluate

U = 2.0**-24
SQUARE = Box([-1, -1], [1, 1])


def random_mesh(seed, n, scale=1.0, shift=0.0):
    rng = np.random.default_rng(seed)
    corners = [[-1, -1], [1, -1], [-1, 1], [1, 1]]
    points = np.vstack([rng.uniform(-1, 1, (n, 2)), corners]) * scale + shift
    return Mesh(points, Delaunay(points).simplices, rng.normal(size=n + 4))


def random_knots(seed, n):
    rng = np.random.default_rng(seed)
    return Knots(np.sort(rng.uniform(-1, 1, n)), rng.normal(size=n))


N_MODELS = 12


@cache
def model(case):
    """A function or a network, hard or soft, with points where pieces meet."""
    kind, epsilon = case % 6, None if case < 6 else 1e-2
    if kind == 0:
        mesh = random_mesh(0, 12)
        return compile_cpwl(mesh, SQUARE, epsilon), mesh.vertices
    if kind == 1:
        knots = random_knots(1, 12)
        return compile_cpwl(knots, Box([-1], [1]), epsilon), knots.positions[:, None]
    if kind == 2:
        far = random_mesh(2, 8, 0.5, 100.0)
        return compile_cpwl(far, Box([99.5] * 2, [100.5] * 2), epsilon), far.vertices
    if kind == 3:
        return compile_maxout(random_maxout(3, 2, [3, 2], (1, 4)), SQUARE, epsilon), np.zeros(
            (1, 2)
        )
    if kind == 4:
        return compile_relu(random_relu(4, [2, 4, 3, 1]), SQUARE, epsilon), np.zeros((1, 2))
    # Seven pieces that tie everywhere.
    tie = MaxoutNetwork([[[[1 / 3, 0.1]] * 7], [[1.0]]], [[[0.7] * 7], None])
    return compile_maxout(tie, SQUARE, epsilon), np.zeros((1, 2))


def exact_errors(compiled, x, y):
    return np.abs(y.astype(np.float64) - compiled.source(x.astype(np.float64)))


def inputs(compiled, extra, rng, n=60):
    box = compiled.box
    x = np.vstack([extra, rng.uniform(box.low, box.high, (n, box.dim))]).astype(np.float32)
    return np.clip(x, box.low, box.high).astype(np.float32)


@pytest.mark.parametrize("case", range(N_MODELS))
def test_the_bound_holds_for_sums_in_any_order(case):
    compiled, extra = model(case)
    rng = np.random.default_rng(case)
    transformer = compiled.softened.token_transformer
    for _ in range(2):
        x = inputs(compiled, extra, rng)
        found = exact_errors(compiled, x, evaluate(transformer, x, rng))
        assert (found <= compiled.float32.errors).all()
        # Around the worst points, float by float.
        worst = x[np.argsort(-found.max(axis=1))[:5]]
        steps = rng.integers(-3, 4, (12, *worst.shape)).astype(np.float32)
        near = worst + steps * np.spacing(np.abs(worst))
        near = np.clip(near.reshape(-1, x.shape[1]), compiled.box.low, compiled.box.high)
        near = near.astype(np.float32)
        found = exact_errors(compiled, near, evaluate(transformer, near, rng))
        assert (found <= compiled.float32.errors).all()


@pytest.mark.parametrize("case", range(N_MODELS))
def test_the_bound_holds_in_onnxruntime(tmp_path, case):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    compiled, extra = model(case)
    compiled.to_onnx(tmp_path / "f.onnx", dtype="float32")
    session = runtime.InferenceSession(str(tmp_path / "f.onnx"), providers=["CPUExecutionProvider"])
    x = inputs(compiled, extra, np.random.default_rng(case), 300)
    found = exact_errors(compiled, x, session.run(None, {"x": x})[0])
    assert (found <= compiled.float32.errors).all()


@pytest.mark.parametrize("case", range(N_MODELS))
def test_the_bound_holds_in_torch(case):
    torch = pytest.importorskip("torch")
    compiled, extra = model(case)
    x = inputs(compiled, extra, np.random.default_rng(case), 300)
    with torch.no_grad():
        y = compiled.to_torch(dtype="float32")(torch.from_numpy(x)).numpy()
    assert (exact_errors(compiled, x, y) <= compiled.float32.errors).all()


def test_torch_modules_come_in_both_precisions():
    torch = pytest.importorskip("torch")
    compiled, _ = model(0)
    for dtype in ("float64", "float32", torch.float64, torch.float32):
        wanted = torch.float32 if "32" in str(dtype) else torch.float64
        assert next(compiled.to_torch(dtype=dtype).parameters()).dtype == wanted
    assert next(compiled.to_torch().parameters()).dtype == torch.float64
    for wrong in ("float16", torch.int64, None, 32, [torch.float32]):
        with pytest.raises(ArgumentError, match="`dtype` must be one of float64, float32"):
            compiled.to_torch(dtype=wrong)
    huge = compile_relu([[[2.0**130]], [[1.0]]], Box([0], [2.0**-130]))
    with pytest.raises(ArgumentError, match="`dtype` must represent every weight"):
        huge.to_torch(dtype="float32")


@pytest.mark.parametrize("seed", range(3))
def test_a_mesh_of_random_values_stays_within_1e_minus_4_in_float32(tmp_path, seed):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    mesh = random_mesh(seed, 100)
    compiled = compile_cpwl(mesh, SQUARE, method="difference")
    assert compiled.form.method == "lifting"
    assert len(compiled.form.network.ranks[0]) == 2
    compiled.to_onnx(tmp_path / "f.onnx", dtype="float32")
    session = runtime.InferenceSession(str(tmp_path / "f.onnx"), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(3, 0.5), len(mesh.simplices))
    inner = np.einsum("mj,mjd->md", shares, mesh.vertices[mesh.simplices])
    x = np.clip(np.vstack([inner, mesh.vertices]), -1, 1).astype(np.float32)
    found = exact_errors(compiled, x, session.run(None, {"x": x})[0]).max()
    assert found < 5e-5
    if seed == 0:
        assert found <= compiled.float32_error < 1e-3


def test_the_bound_is_not_far_above_what_is_found():
    for compiled, extra in (model(0), model(1)):
        rng = np.random.default_rng(0)
        x = inputs(compiled, extra, rng, 300)
        y = evaluate(compiled.softened.token_transformer, x, rng)
        assert compiled.float32_error < 60 * exact_errors(compiled, x, y).max()


def test_an_affine_function_has_the_bound_one_would_write_down():
    compiled = compile_relu([[[3.0]]], Box([-1], [1]))
    # One product by a weight that is not a power of two: its storage and itself, and the sum.
    assert 2 * U * 3 <= compiled.float32_error <= 4 * U * 3
    assert compiled.float32.conditioning == 0.0 or compiled.float32.conditioning <= 3 * U


def test_the_conditioning_is_the_slope_times_half_a_spacing():
    steep = Knots([-1.0, 0.75, 1.0], [0.0, 0.0, 1000.0])
    compiled = compile_cpwl(steep, Box([-1], [1]))
    assert 0.75 * 4000 * U <= compiled.float32.conditioning <= 4000 * U


def test_splitting_boxes_only_sharpens_the_bound(monkeypatch):
    compiled, _ = model(0)
    monkeypatch.setattr(float32_errors, "_WORK", 0)
    monkeypatch.setattr(float32_errors, "_MOST_SPLIT_DIM", 0)
    fresh = replace(compiled)
    assert compiled.float32_error < 0.2 * fresh.float32_error


def test_errors_of_a_function_include_the_rounding_of_its_pieces():
    compiled, _ = model(0)
    coarse = replace(compiled, form=replace(compiled.form, rounding=np.array([0.5])))
    assert 0.5 < coarse.float32_error <= 0.5 + 1.001 * compiled.float32_error


def test_what_float32_cannot_hold_has_an_infinite_bound():
    huge = ReluNetwork([[[2.0**130]], [[1.0]]], [[0.0], None])
    assert compile_relu(huge, Box([0], [2.0**-130])).float32_error == np.inf
    assert compile_relu(ReluNetwork([[[2.0**40]], [[2.0**90]]]), Box([0], [1])).float32_error > 1e30


def test_deep_networks_have_a_finite_bound():
    compiled = compile_maxout(tent_network(4), Box([0], [1]))
    x = np.linspace(0, 1, 257, dtype=np.float32)[:, None]
    y = evaluate(compiled.softened.token_transformer, x, np.random.default_rng(0))
    assert exact_errors(compiled, x, y).max() <= compiled.float32_error < 1e-3


def test_compiled_transformers_can_be_called():
    for compiled, _ in (model(0), model(1)):
        x = inputs(compiled, compiled.box.low[None], np.random.default_rng(0), 5)
        assert np.array_equal(compiled(x), compiled.transformer(x))
        with pytest.raises(ArgumentError, match="must lie in the box"):
            compiled(compiled.box.high + 1)


@pytest.mark.parametrize(
    ("scale", "options", "told"),
    [(1.0, [], False), (1.0, ["--epsilon", "0.01"], False), (1e5, [], True)],
)
def test_the_command_says_what_float32_costs(tmp_path, scale, options, told):
    app = typer.Typer()
    app.command()(compile_file)
    save_model(ReluNetwork([[[scale]], [[1.0]]]), tmp_path / "n.safetensors")
    arguments = [str(tmp_path / "n.safetensors"), "-o", str(tmp_path / "t.safetensors")]
    result = CliRunner().invoke(app, arguments + options)
    assert result.exit_code == 0, result.output
    assert "float32 error" in result.output
    assert ("adds over 0.0001" in result.output) == told


def test_the_mean_of_equal_numbers_is_covered():
    value = float(np.float32(1.7))
    box, x = Box([-1], [1]), np.zeros((1, 1), dtype=np.float32)
    worst = 0.0
    for rank in (3, 7, 11, 25, 41, 49):
        # The second unit, far below, only asks for an input.
        tie = MaxoutNetwork(
            [[[[0.0]] * rank, [[1.0]]], [[1.0], [0.0]]], [[[value] * rank, [0.0]], None]
        )
        compiled = compile_maxout(tie, box)
        model_ = compiled.softened.token_transformer
        for seed in range(4):
            found = exact_errors(compiled, x, evaluate(model_, x, np.random.default_rng(seed)))
            assert found.max() <= compiled.float32_error
            worst = max(worst, float(found.max()))
    # More than storing, one product and one sum could explain.
    assert worst > 2.5 * U * value
