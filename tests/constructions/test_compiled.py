"""Compiled transformers leave the library: torch, ONNX, files, the command line."""

import json
import re

import numpy as np
import pytest
import typer
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

from hardmax.cli.compile import compile_file
from hardmax.constructions.compilers.compiled_files import COMPILED_FORMAT, load_compiled
from hardmax.constructions.compilers.maxout_compiler import compile_maxout, compile_relu
from hardmax.constructions.compilers.onnx_export import write_onnx
from hardmax.constructions.compilers.torch_export import token_module
from hardmax.errors import ArgumentError, HardmaxError, MissingExtraError, RecordFormatError
from hardmax.geometry.domains import Box
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.storage import save_model
from hardmax.models.tensor_files import content_hash
from hardmax.models.tokens.transformers import TokenTransformer
from tests.compiled_models import masked_transformer, random_maxout, random_relu, state_dict

EPSILONS = [None, 1e-1, 1e-3, 1e-7]


def compiled_pair(seed, epsilon):
    net = random_maxout(seed, scale=0.7)
    box = Box(np.full(net.dim_in, -2.0), np.full(net.dim_in, 1.0))
    x = np.random.default_rng(seed).uniform(-2, 1, (60, net.dim_in))
    return compile_maxout(net, box, epsilon), x


def run_onnx(path, x):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("seed", range(5))
def test_onnx_graphs_agree_in_both_precisions(tmp_path, seed, epsilon):
    pytest.importorskip("onnx")
    compiled, x = compiled_pair(seed, epsilon)
    wanted = compiled.transformer(x)
    for dtype, tolerance in (("float64", 1e-9), ("float32", 1e-4)):
        compiled.to_onnx(tmp_path / "model.onnx", dtype=dtype)
        got = run_onnx(tmp_path / "model.onnx", x.astype(dtype))
        assert got.dtype == dtype
        np.testing.assert_allclose(got, wanted, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("seed", range(5))
def test_torch_modules_agree_in_both_precisions(seed, epsilon):
    torch = pytest.importorskip("torch")
    compiled, x = compiled_pair(seed, epsilon)
    wanted = compiled.transformer(x)
    module = compiled.to_torch()
    with torch.no_grad():
        np.testing.assert_allclose(module(torch.from_numpy(x)), wanted, atol=1e-9)
        assert module(torch.from_numpy(x[0])).shape == wanted[0].shape
        narrow = module.float()(torch.from_numpy(x.astype(np.float32)))
    assert narrow.dtype == torch.float32
    np.testing.assert_allclose(narrow, wanted, atol=1e-4, rtol=1e-4)


def test_torch_attention_is_the_usual_one():
    torch = pytest.importorskip("torch")
    module = compile_relu(random_relu(0, [2, 3, 1]), Box([-1, -1], [1, 1]), 1e-2).to_torch()
    kinds = {type(part).__name__ for part in module.modules()}
    assert {"MultiheadAttention", "Linear", "ReLU"} <= kinds
    assert all(p.requires_grad for p in module.parameters())
    again = compile_relu(random_relu(1, [2, 3, 1]), Box([-1, -1], [1, 1]), 1e-2).to_torch()
    again.load_state_dict(module.state_dict())
    x = torch.zeros(1, 2, dtype=torch.float64)
    assert torch.equal(again(x), module(x))


def test_hard_exports_of_deep_networks_are_exact_at_their_kinks():
    # The certified error of twelve layers is far above what happens: it must not set the precision.
    net = random_relu(11, [2, *[10] * 12, 1], scale=0.45)
    compiled = compile_relu(net, Box([-1, -1], [1, 1]))
    low, high = np.array([-1.0, -0.9]), np.array([1.0, 0.7])
    for _ in range(40):  # Towards the place of the strongest bend on a segment.
        points = low + np.linspace(0, 1, 17)[:, None] * (high - low)
        bends = np.abs(np.diff(net(points), 2, axis=0)).max(axis=1)
        if not bends.max() > 0:
            break
        k = int(bends.argmax())
        low, high = points[k], points[k + 2]
        exported = compiled.softened.transformer(points)
        assert np.abs(exported - net(points)).max() <= 1e-12
    assert compiled.softened.certified_error <= 64 * compiled.certified_error


@pytest.mark.parametrize(("first", "last"), [(1e-60, 1e60), (1e60, 1e-60), (1e-30, 1e-3)])
def test_hard_exports_survive_layers_of_very_different_scales(first, last):
    rng = np.random.default_rng(4)
    weights = [first * rng.normal(size=(2, 5)), last * rng.normal(size=(5, 1))]
    net = ReluNetwork(weights, [first * rng.normal(size=5), None])
    compiled = compile_relu(net, Box([-1, -1], [1, 1]))
    x = rng.uniform(-1, 1, (200, 2))
    wanted = net(x)
    exported = compiled.softened.transformer(x)
    assert np.abs(exported - wanted).max() <= 1e-9 * np.abs(wanted).max() + 1e-12 * (last < 1)


@pytest.mark.parametrize("scale", [1e-30, 1e-5, 1e3, 1e30])
def test_hard_exports_are_exact_on_every_scale(tmp_path, scale):
    pytest.importorskip("onnx")
    net = random_maxout(9, 2, [3, 3], (2, 3), scale=scale)
    compiled = compile_maxout(net, Box([-1, -1], [1, 1]))
    compiled.to_onnx(tmp_path / "m.onnx")
    x = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    wanted = net(x)
    error = np.abs(run_onnx(tmp_path / "m.onnx", x) - wanted).max()
    assert error <= 1e-9 * np.abs(wanted).max()
    assert compiled.softened.certified_error <= 64 * compiled.certified_error


def test_exports_follow_any_transformer_on_tokens(tmp_path):
    model = masked_transformer()
    x = np.random.default_rng(1).normal(size=(20, 2))
    pytest.importorskip("onnx")
    write_onnx(model, tmp_path / "m.onnx", "float64")
    np.testing.assert_allclose(run_onnx(tmp_path / "m.onnx", x), model.soft(x), atol=1e-10)
    torch = pytest.importorskip("torch")
    with torch.no_grad():
        np.testing.assert_allclose(
            token_module(model)(torch.from_numpy(x)), model.soft(x), atol=1e-10
        )


def test_a_transformer_with_an_embedding_for_each_token_has_no_torch_form():
    model = TokenTransformer([[[1.0], [2.0]]], [[0.0], [0.0]], [], ([[1.0]], [0.0]))
    with pytest.raises(ArgumentError, match="same embedding matrix"):
        token_module(model)


def test_missing_frameworks_are_named(monkeypatch, tmp_path):
    compiled, _ = compiled_pair(0, 1e-2)
    for name in ("torch", "onnx"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(MissingExtraError, match="torch"):
        compiled.to_torch()
    with pytest.raises(MissingExtraError, match="onnx"):
        compiled.to_onnx(tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_weights_beyond_float32_are_refused_by_a_float32_graph(tmp_path):
    pytest.importorskip("onnx")
    net = MaxoutNetwork([[[[1e60], [-1e60]]], [[1e-60]]])
    compiled = compile_maxout(net, Box([-1.0], [1.0]))
    with pytest.raises(ArgumentError, match="float32"):
        compiled.to_onnx(tmp_path / "m.onnx", dtype="float32")
    with pytest.raises(HardmaxError, match="`dtype`"):
        compiled.to_onnx(tmp_path / "m.onnx", dtype="float16")


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("make", [lambda: random_maxout(3), lambda: random_relu(1, [3, 4, 2])])
def test_files_give_back_the_same_transformer(tmp_path, make, epsilon):
    net = make()
    box = Box(np.full(net.dim_in, -1.0), np.full(net.dim_in, 1.0))
    compile_ = compile_maxout if isinstance(net, MaxoutNetwork) else compile_relu
    compiled = compile_(net, box, epsilon)
    compiled.save(tmp_path / "c.safetensors")
    again = load_compiled(tmp_path / "c.safetensors")
    x = np.random.default_rng(0).uniform(-1, 1, (20, net.dim_in))
    np.testing.assert_array_equal(again.transformer(x), compiled.transformer(x))
    np.testing.assert_array_equal(again.source(x), net(x))
    assert again.certified_error == compiled.certified_error
    assert again.epsilon == epsilon
    assert repr(again) == repr(compiled)


def test_the_file_holds_the_weights_of_the_transformer(tmp_path):
    compiled, _ = compiled_pair(4, 1e-2)
    compiled.save(tmp_path / "c.safetensors")
    with safe_open(tmp_path / "c.safetensors", framework="np") as file:
        header = json.loads(file.metadata()["hardmax"])
    tensors = load_file(tmp_path / "c.safetensors")
    model = compiled.token_transformer
    assert header["format"] == COMPILED_FORMAT
    assert header["transformer"]["n_tokens"] == model.n_tokens
    np.testing.assert_array_equal(tensors["transformer.readout.weight"], model.readout.weight)
    np.testing.assert_array_equal(
        tensors["transformer.blocks.1.query_weight"][:, [0]], model.blocks[1].heads[0].query_weight
    )


def spoil(path, **changes):
    """Change tensors (by a function) or fields (by a value, None to drop) of a saved file."""
    with safe_open(path, framework="np") as file:
        header = json.loads(file.metadata()["hardmax"])
    tensors = load_file(path)
    for name, change in changes.items():
        key = name.replace("__", ".")
        if key in tensors:
            changed = change(tensors.pop(key))
            tensors |= {} if changed is None else {key: changed}
        else:
            header[key] = change
    header["content"] = content_hash(header, tensors)
    save_file(tensors, path, {"hardmax": json.dumps(header)})


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"transformer__readout__weight": lambda a: 2 * a}, "readout.weight"),
        ({"transformer__blocks__1__query_weight": lambda a: a[:, :0]}, "query_weight"),
        ({"transformer__blocks__0__w_in": lambda a: None}, "w_in"),
        ({"plan__gates": lambda a: a / 64}, "gate"),
        ({"plan__rates": lambda a: 0.9 * a}, "plans"),
        ({"plan__rates": lambda a: -a}, "rates"),
        ({"plan__rates": lambda a: a * np.nan}, "rates"),
        ({"plan__0__floors": lambda a: a[:-1]}, "floors"),
        ({"box__high": lambda a: 1e3 * a}, "gate"),
        (
            {"box__low": lambda a: np.append(a, -9.0), "box__high": lambda a: np.append(a, 9.0)},
            "box",
        ),
        ({"weights__last": lambda a: 2 * a}, "readout.weight|plans"),
        ({"epsilon": "tiny"}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"kind": "HardTransformer"}, "kind"),
        ({"format": "hardmax.compiled/9"}, "format"),
        ({"widths": [10**9]}, "missing"),
        ({"transformer": {}}, "describe"),
        ({"more": 1}, "more"),
    ],
)
def test_files_that_lie_are_refused(tmp_path, changes, match):
    net = random_maxout(11, 2, [3, 2], (2, 4))
    path = tmp_path / "c.safetensors"
    compile_maxout(net, Box([-1, -1], [1, 1]), 1e-2).save(path)
    load_compiled(path)
    spoil(path, **changes)
    with pytest.raises(RecordFormatError, match=match):
        load_compiled(path)


def test_files_of_something_else_are_refused(tmp_path):
    path = tmp_path / "c.safetensors"
    with pytest.raises(FileNotFoundError):
        load_compiled(path)
    path.write_bytes(b"not safetensors")
    with pytest.raises(RecordFormatError, match="safetensors"):
        load_compiled(path)
    save_model(random_relu(0, [1, 2, 1]), path)
    with pytest.raises(RecordFormatError, match="format"):
        load_compiled(path)


app = typer.Typer()
app.command()(compile_file)


def test_the_command_compiles_a_state_dict(tmp_path):
    net = random_relu(2, [2, 4, 1])
    source, target = tmp_path / "relu.safetensors", tmp_path / "transformer.safetensors"
    save_file(state_dict(net, ["0", "2"]), source)
    result = CliRunner().invoke(app, [str(source), "--epsilon", "1e-3", "-o", str(target)])
    assert result.exit_code == 0, result.output
    compiled = load_compiled(target)
    assert compiled.epsilon == 1e-3
    for words in ("[-1, 1]^2", "(default;", "certified error", "overhead", "temperatures"):
        assert words in result.output
    assert f"{compiled.certified_error:.4g}" in result.output


def test_the_command_says_what_it_assumes_and_stops_when_told(tmp_path):
    net = random_relu(2, [2, 4, 1])
    source, target = tmp_path / "relu.safetensors", tmp_path / "transformer.safetensors"
    save_file(state_dict(net, ["0", "2"]), source)
    words = [str(source), "--epsilon", "1e-3", "-o", str(target)]
    bare = CliRunner().invoke(app, words)
    assert "relu, identity  (ASSUMED" in bare.stdout
    assert "for the network ASSUMED above" in bare.stdout
    assert "--activations" in bare.stdout
    assert "ASSUMED a ReLU after every layer but the last" in bare.stderr
    assert "ReLU" in load_compiled(target).assumption
    told = CliRunner().invoke(app, [*words, "--activations", "relu", "--last-activation", "abs"])
    assert told.exit_code == 0, told.output
    assert "ASSUMED" not in told.output
    assert "relu, abs  (from --activations)" in told.output
    compiled = load_compiled(target)
    assert compiled.assumption is None
    x = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    assert np.abs(compiled(x) - np.abs(net(x))).max() <= compiled.certified_error <= 1e-3


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--activations", "gelu"], "`--activations` must be among .*'gelu' is not piecewise"),
        (
            ["--activations", "relu,relu,relu"],
            "`--activations` must be a single activation, or one for each of the 2",
        ),
        (["--last-activation", "relu"], "`--last-activation` requires `--activations`"),
        (["--activations", "relu", "--last-activation", "elu"], "`--last-activation` must be amo"),
        (["--activations", "prelu"], "`--activations` must specify prelu"),
    ],
)
def test_the_command_refuses_activations_by_the_flag_that_was_typed(tmp_path, words, match):
    save_file(state_dict(random_relu(2, [2, 4, 1]), ["0", "2"]), tmp_path / "n.safetensors")
    files = [str(tmp_path / "n.safetensors"), "-o", str(tmp_path / "t.safetensors")]
    result = CliRunner().invoke(app, [*files, *words])
    assert isinstance(result.exception, HardmaxError)
    assert re.search(match, str(result.exception))
    assert not (tmp_path / "t.safetensors").exists()


def test_the_command_compiles_a_saved_maxout_network_and_writes_onnx(tmp_path):
    pytest.importorskip("onnx")
    net = random_maxout(5, 2, [3], (2, 3))
    source, target = tmp_path / "net.safetensors", tmp_path / "t.safetensors"
    save_model(net, source)
    graph = tmp_path / "t.onnx"
    options = ["-o", str(target), "--box", "-2", "3", "--onnx", str(graph)]
    result = CliRunner().invoke(app, [str(source), *options])
    assert result.exit_code == 0, result.output
    assert "[-2, 3]^2" in result.output
    assert "rounding only" in result.output
    assert load_compiled(target).epsilon is None
    x = np.random.default_rng(0).uniform(-2, 3, (20, 2))
    np.testing.assert_allclose(run_onnx(graph, x), net(x), atol=1e-9)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--epsilon", "0"], "epsilon"),
        (["--epsilon", "-1"], "epsilon"),
        (["--box", "1", "-1"], "`--box` must be two finite numbers"),
        (["--box", "0", "inf"], "got 0.0 inf"),
    ],
)
def test_the_command_refuses_what_the_library_refuses(tmp_path, options, match):
    save_model(random_relu(0, [1, 2, 1]), tmp_path / "n.safetensors")
    arguments = [str(tmp_path / "n.safetensors"), "-o", str(tmp_path / "t.safetensors"), *options]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, HardmaxError)
    assert match in str(result.exception)
    assert not (tmp_path / "t.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["{}/missing.safetensors", "-o", "{}/t"], "`network`.*missing.safetensors: No such file"),
        (["{}", "-o", "{}/t"], "`network`.*Is a directory"),
        (["{}/n", "-o", "{}/no/t.safetensors"], "`--output`.*no/t.safetensors: No such file"),
        (["{}/n", "-o", "{}/t", "--onnx", "{}/no/t.onnx"], "`--onnx`.*no/t.onnx: No such file"),
    ],
)
def test_the_command_names_files_it_cannot_open(tmp_path, arguments, match):
    pytest.importorskip("onnx")
    save_model(random_relu(0, [1, 2, 1]), tmp_path / "n")
    result = CliRunner().invoke(app, [word.format(tmp_path) for word in arguments])
    assert isinstance(result.exception, HardmaxError)
    assert re.search(match, str(result.exception))


@pytest.mark.parametrize("option", ["-o", "--onnx"])
def test_the_command_does_not_overwrite_its_input(tmp_path, option):
    save_model(random_relu(0, [1, 2, 1]), tmp_path / "n")
    before = (tmp_path / "n").read_bytes()
    (tmp_path / "link").symlink_to(tmp_path / "n")
    for same in ("n", "link"):
        output = ["-o", str(tmp_path / "t")] if option == "--onnx" else []
        arguments = [str(tmp_path / "n"), *output, option, str(tmp_path / same)]
        result = CliRunner().invoke(app, arguments)
        assert isinstance(result.exception, HardmaxError)
        assert "would overwrite the network" in str(result.exception)
        assert (tmp_path / "n").read_bytes() == before
        assert not (tmp_path / "t").exists()
