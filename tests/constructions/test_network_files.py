"""Networks from ONNX files and scripted modules: what the file says, and never run."""

import os
import pickle
import time
import warnings
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from hardmax.constructions.compilers.compiled_files import load_compiled
from hardmax.constructions.compilers.maxout_compiler import compile_file
from hardmax.constructions.compilers.state_dicts import load_network, read_network_file
from hardmax.errors import ArgumentError, HardmaxError, RecordFormatError
from hardmax.geometry.domains import Box
from hardmax.models.formats.onnx.graphs import from_onnx
from hardmax.models.graphs.graph_networks import GraphNetwork
from hardmax.models.networks import MaxoutNetwork
from hardmax.models.storage import load_model, save_model
from tests.compiled_models import random_relu, state_dict
from tests.script_archives import module, name, tensor, text, write_archive, write_network

RNG = np.random.default_rng(0)
LAYERS = [(RNG.normal(size=(5, 3)), RNG.normal(size=5)), (RNG.normal(size=(2, 5)), None)]
SLOPES = RNG.normal(size=5).astype(np.float32)
POINTS = np.random.default_rng(1).uniform(-1, 1, (400, 3))


def leaky(z, slope):
    return np.where(z > 0, z, slope * z)


def hidden(x):
    return x @ LAYERS[0][0].T + LAYERS[0][1]


def last(h):
    return h @ LAYERS[1][0].T


def assert_compiled_within_its_error(path, wanted, **options):
    """Compile a file, and compare with the values of the network itself."""
    for epsilon in (None, 1e-2):
        compiled = compile_file(path, (-1.0, 1.0), epsilon, **options)
        found = np.abs(compiled(POINTS) - wanted).max()
        assert found <= compiled.certified_error + 1e-14
        assert epsilon is None or compiled.certified_error <= epsilon
    return compiled


# ONNX ------------------------------------------------------------------------------------------


def write_graph(path, nodes, constants, *, dtype=np.float64):
    """Write an ONNX graph from `x` to `y`; nodes as (kind, inputs, output, attributes)."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    kind = onnx.TensorProto.DOUBLE if dtype == np.float64 else onnx.TensorProto.FLOAT
    made = [helper.make_node(k, i, [o], name=f"{k}_{n}", **a)
            for n, (k, i, o, a) in enumerate(nodes)]  # fmt: skip
    stored = [onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    graph = helper.make_graph(
        made,
        "net",
        [helper.make_tensor_value_info("x", kind, ["n", 3])],
        [helper.make_tensor_value_info("y", kind, ["n", None])],
        stored,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))


def run_onnx(path, x):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


F32 = np.float32
CONSTANTS = {
    "w0": LAYERS[0][0].astype(F32), "b0": LAYERS[0][1].astype(F32), "w1": LAYERS[1][0].astype(F32),
    "w1t": LAYERS[1][0].T.astype(F32), "slopes": SLOPES, "low": F32(-0.3), "high": F32(0.6),
    "half": F32(0.5), "rows": RNG.normal(size=(1, 5)).astype(F32),
}  # fmt: skip
FIRST = ("Gemm", ["x", "w0", "b0"], "h", {"transB": 1})
LAST = ("MatMul", ["a", "w1t"], "y", {})
GRAPHS = {
    "relu": [("Relu", ["h"], "a", {})],
    "leaky": [("LeakyRelu", ["h"], "a", {"alpha": 0.2})],
    "leaky by default": [("LeakyRelu", ["h"], "a", {})],
    "prelu": [("PRelu", ["h", "slopes"], "a", {})],
    "prelu of rows": [("PRelu", ["h", "rows"], "a", {})],
    "clip": [("Clip", ["h", "low", "high"], "a", {})],
    "clip from below": [("Clip", ["h", "low"], "a", {})],
    "clip from above": [("Clip", ["h", "", "high"], "a", {})],
    "abs": [("Abs", ["h"], "a", {})],
    "hard sigmoid": [("HardSigmoid", ["h"], "a", {"alpha": 0.3, "beta": 0.4})],
    "shrink": [("Shrink", ["h"], "a", {"lambd": 0.3, "bias": 0.3})],
    "maximum": [("Max", ["h", "low"], "a", {})],
    "minimum": [("Min", ["high", "h"], "a", {})],
    "sums": [("Add", ["h", "rows"], "s", {}), ("Sub", ["half", "s"], "t", {}),
             ("Mul", ["t", "slopes"], "u", {}), ("Neg", ["u"], "v", {}), ("Relu", ["v"], "a", {})],
    "nothing": [("Identity", ["h"], "a", {})],
    "flat": [("Flatten", ["h"], "f", {}), ("Relu", ["f"], "a", {})],
    "constant": [("Constant", [], "c", {"value_float": 0.25}), ("Max", ["h", "c"], "a", {})],
}  # fmt: skip


@pytest.mark.parametrize("name_", GRAPHS)
def test_a_graph_is_compiled_as_what_it_is(tmp_path, name_):
    path = tmp_path / "net.onnx"
    write_graph(path, [FIRST, *GRAPHS[name_], LAST], CONSTANTS, dtype=F32)
    x = POINTS.astype(F32).astype(float)
    wanted = run_onnx(path, x.astype(F32))
    net = from_onnx(path)
    np.testing.assert_allclose(net(x), wanted, atol=2e-6)
    compiled = compile_file(path, (-1.0, 1.0), 1e-2)
    assert compiled.assumption is None
    assert np.abs(compiled(x) - net(x)).max() <= compiled.certified_error <= 1e-2
    assert np.abs(compiled(x) - wanted).max() <= compiled.certified_error + 2e-6


def test_a_clip_without_bounds_is_nothing(tmp_path):
    path = tmp_path / "net.onnx"
    nodes = [FIRST, ("Clip", ["h"], "c", {}), ("Relu", ["c"], "a", {}), LAST]
    write_graph(path, nodes, CONSTANTS, dtype=F32)
    assert repr(from_onnx(path)) == repr(load_network(path)) == "ReluNetwork(3 -> [5] -> 2)"
    write_graph(path, [FIRST, ("Clip", ["h"], "y", {})], CONSTANTS, dtype=F32)
    assert load_network(path)(POINTS[:1]).shape == (1, 5)


def test_a_final_activation_is_kept(tmp_path):
    path = tmp_path / "net.onnx"
    nodes = [FIRST, ("Relu", ["h"], "a", {}), ("MatMul", ["a", "w1t"], "z", {})]
    write_graph(path, [*nodes, ("Relu", ["z"], "y", {})], CONSTANTS, dtype=F32)
    assert repr(from_onnx(path)) == "ReluNetwork(3 -> [5, 2] -> 2)"
    assert from_onnx(path)(POINTS).min() == 0.0
    assert read_network_file(path).activations == ("relu", "relu")


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([("Sigmoid", ["h"], "a", {})], r"`Sigmoid_1` \(Sigmoid\): it is not piecewise linear"),
        ([("Tanh", ["h"], "a", {})], "not piecewise linear"),
        ([("Softplus", ["h"], "a", {})], "not piecewise linear"),
        ([("Sign", ["h"], "a", {})], "it jumps"),
        ([("Mul", ["h", "h"], "a", {})], "multiplies two tensors"),
        ([("Shrink", ["h"], "a", {"lambd": 0.3})], "discontinuous unless"),
        ([("ThresholdedRelu", ["h"], "a", {})], "not piecewise linear, or not supported"),
        ([("ReduceMax", ["h"], "a", {})], "not piecewise linear, or not supported"),
        ([("PRelu", ["h", "low2"], "a", {})], "one slope for each of 5 channels; got 3"),
    ],
)
def test_other_graphs_are_refused_by_node_and_reason(tmp_path, nodes, message):
    path = tmp_path / "net.onnx"
    constants = {**CONSTANTS, "low2": np.zeros(3, dtype=F32)}
    write_graph(path, [FIRST, *nodes, LAST], constants, dtype=F32)
    with pytest.raises(RecordFormatError, match=message):
        from_onnx(path)
    with pytest.raises(HardmaxError, match=message):
        load_network(path)


def test_what_is_not_a_chain_is_read_as_a_graph_and_not_compiled(tmp_path):
    path = tmp_path / "net.onnx"
    nodes = [FIRST, ("Relu", ["h"], "r", {}), ("Add", ["h", "r"], "a", {}), LAST]
    write_graph(path, nodes, CONSTANTS, dtype=F32)
    net = from_onnx(path)
    assert isinstance(net, GraphNetwork)
    x = POINTS.astype(F32)
    np.testing.assert_allclose(net(x), run_onnx(path, x), atol=2e-6)
    with pytest.raises(RecordFormatError, match="skip connection"):
        load_network(path)


def test_what_is_left_off_is_not_left_off_silently(tmp_path):
    path = tmp_path / "net.onnx"
    nodes = [FIRST, ("Relu", ["h"], "a", {}), ("MatMul", ["a", "w1t"], "z", {})]
    write_graph(path, [*nodes, ("Softmax", ["z"], "y", {})], CONSTANTS, dtype=F32)
    net = from_onnx(path)
    assert isinstance(net, GraphNetwork)
    assert "Softmax" in net.notes[0]
    with pytest.raises(RecordFormatError, match="the final Softmax is omitted"):
        load_network(path)


def test_damaged_onnx_files_are_refused(tmp_path):
    pytest.importorskip("onnx")
    path = tmp_path / "net.onnx"
    with pytest.raises(FileNotFoundError):
        from_onnx(path)
    for content in (b"", b"\x00\xff" * 40, b"not onnx at all"):
        path.write_bytes(content)
        with pytest.raises(RecordFormatError, match="`path`"):
            from_onnx(path)
    write_graph(path, [FIRST, ("Relu", ["h"], "a", {}), LAST], CONSTANTS, dtype=F32)
    whole = path.read_bytes()
    rng = np.random.default_rng(3)
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged[: rng.integers(1, len(whole) + 1)]))
        with suppress(HardmaxError):
            from_onnx(path)


# TorchScript -----------------------------------------------------------------------------------

PROGRAMS = {
    "return torch.linear(torch.relu(torch.linear(x, self.w0, self.b0)), self.w1)": lambda z: last(
        np.maximum(hidden(z), 0)
    ),
    """h = torch.linear(x, self.w0, self.b0)
a = torch.leaky_relu_(h, 0.20000000000000001)
return torch.relu(torch.linear(a, self.w1, None))""": lambda z: np.maximum(
        last(leaky(hidden(z), 0.2)), 0
    ),
    """h = torch.addmm(self.b0, x, torch.t(self.w0))
if torch.gt(1., 2.):
  h = torch.sigmoid(h)
else:
  pass
a = torch.hardtanh(h, -0.25, 0.5)
return torch.matmul(a, torch.t(self.w1))""": lambda z: last(np.clip(hidden(z), -0.25, 0.5)),
    """a = torch.prelu(torch.linear(x, self.w0, self.b0), self.b0)
return torch.linear(torch.dropout(a, 0.5, True), self.w1)""": lambda z: last(
        leaky(hidden(z), LAYERS[0][1])
    ),
    """h = torch.abs(torch.neg(torch.linear(x, self.w0, self.b0)))
h0 = torch.clamp(torch.sub(h, 0.25), None, 1.)
return torch.add(torch.linear(h0, self.w1), 3., alpha=1)""": lambda z: (
        last(np.minimum(np.abs(hidden(z)) - 0.25, 1.0)) + 3.0
    ),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_compiled_as_what_it_is_without_torch(tmp_path, program):
    path = tmp_path / "net.pt"
    write_network(path, LAYERS, program)
    wanted = PROGRAMS[program](POINTS)
    np.testing.assert_allclose(load_network(path)(POINTS), wanted, atol=1e-13)
    compiled = assert_compiled_within_its_error(path, wanted)
    assert compiled.assumption is None


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("return torch.gelu(torch.linear(x, self.w0))", "line 3 .*`gelu` is not piecewise linear"),
        ("return torch.linear(torch.add(x, torch.relu(x)), self.w0)", "skip connection"),
        ("for i in range(3):\n  x = torch.relu(x)\nreturn x", "at least one Linear"),
        ("for i in x:\n  pass\nreturn x", "loops are only supported"),
        ("for i in range(10000000):\n  pass\nreturn x", "too long"),
        ("a, b = x\nreturn a", "tuple of 2 values"),
        ("return [x][2]", "index is out of range"),
        ("while True:\n  pass", "statement `while`"),
        ("if torch.gt(x, 0):\n  pass\nreturn x", "`gt`"),
        ("return torch.linear(x, self.missing)", "not supported|matrix"),
        ("return self.w0", "must return one tensor"),
        ("return None", "must return one tensor"),
        ("return x", "at least one Linear"),
        ("return open('/etc/passwd')", "not supported"),
        ("return __import__('os').system('true')", "not supported"),
        ("return (lambda: x)()", "not supported"),
        ("return __torch__.Net(x)", "no program"),
        ("return self.forward(x)", "nested too deeply"),
        ("return CONSTANTS.c7", "must return one tensor"),
        ("return torch.linear(x, self.w0, self.w0)", "a bias must have shape"),
        ("import os\nreturn x", "statement `import`"),
        ("return x.__class__", "not supported"),
        (
            "h = torch.linear(x, self.w0)\na = torch.relu_(h)\nreturn torch.linear(h, self.w1)",
            "read after an in-place operation",
        ),
        ("return torch.threshold(torch.linear(x, self.w0), 0.5, 0.)", "jumps from 0 to 0.5"),
        ("return " + "-" * 3000 + "1", "nested too deeply|cannot be read|must return"),
    ],
)
def test_other_programs_are_refused_and_not_run(tmp_path, program, message):
    path = tmp_path / "net.pt"
    write_network(path, LAYERS, program)
    with pytest.raises(RecordFormatError, match=message):
        load_network(path)


def test_a_program_that_doubles_with_each_call_ends(tmp_path):
    functions = "\n".join(
        f"def f{i}(x: Tensor) -> Tensor:\n  y = __torch__.f{i + 1}(x)\n"
        f"  return __torch__.f{i + 1}(x)"
        for i in range(60)
    )
    functions += "\ndef f60(x: Tensor) -> Tensor:\n  return x\n"
    forward = "class Net(Module):\n  def forward(self, x):\n    return __torch__.f0(x)\n"
    write_archive(tmp_path / "net.pt", module("Net", {}), forward + functions, {})
    with pytest.raises(RecordFormatError, match="too long"):
        load_network(tmp_path / "net.pt")


class Trap:
    """Pickled, this asks the reader to make a folder."""

    def __reduce__(self):
        return os.mkdir, (Trap.target,)


def test_a_pickle_in_an_archive_is_not_executed(tmp_path):
    Trap.target = str(tmp_path / "made")
    path = tmp_path / "net.pt"
    write_archive(path, module("Net", {"w": pickle.dumps(Trap(), 2)[2:-1]}), "", {})
    with pytest.raises(RecordFormatError, match="not plain data"):
        load_network(path)
    write_archive(path, module("Net", {}), "", {}, constants=pickle.dumps(Trap(), 2))
    with pytest.raises(RecordFormatError, match="not plain data"):
        load_network(path)
    assert not (tmp_path / "made").exists()
    pickle.loads(pickle.dumps(Trap(), 2))
    assert (tmp_path / "made").exists()  # The trap works; the reader did not step into it.


W = np.ones((2, 3))
BAD_TENSORS = [
    tensor("w", W, size=(2, 4)),
    tensor("w", W, size=(10**9, 1), stride=(0, 1)),
    tensor("w", W, offset=-1),
    tensor("w", W, offset=3),
    tensor("w", W, stride=(-3, 1)),
    tensor("w", W, n=7),
    tensor("absent", W),
    tensor("w", W, storage="QInt8Storage"),
    name("builtins", "eval") + b"(" + text("1") + b"tR",
    name("os", "system") + b"(" + text("true") + b"tR",
    name("torch", "load") + b"(" + text("x") + b"tR",
    b"c__torch__\nNet\n)\x81(tb",
]


@pytest.mark.parametrize("pickled", BAD_TENSORS)
def test_tensors_that_are_not_what_they_say_are_refused(tmp_path, pickled):
    program = "class Net(Module):\n  def forward(self, x):\n    return torch.linear(x, self.w)\n"
    write_archive(tmp_path / "net.pt", module("Net", {"w": pickled}), program, {"w": W})
    with pytest.raises(RecordFormatError, match="`path`"):
        load_network(tmp_path / "net.pt")


@pytest.mark.parametrize("pickled", [text("abc"), b"N", b"\x88", b")", b"}", b"]", b"J\1\0\0\0"])
@pytest.mark.parametrize(
    "call", ["linear(x, self.w)", "prelu(x, self.w)", "add(x, self.w)", "clamp(x, self.w)",
             "leaky_relu(x, self.w)", "flatten(x, self.w)", "threshold(x, self.w, self.w)"],
)  # fmt: skip
def test_attributes_of_any_kind_are_refused_where_they_do_not_fit(tmp_path, pickled, call):
    program = "class Net(Module):\n  def forward(self, x):\n    y = torch.linear(x, self.m)\n"
    program += f"    z = torch.{call.replace('(x', '(y')}\n    return torch.linear(z, self.w)\n"
    attributes = {"w": pickled, "m": tensor("m", W)}
    write_archive(tmp_path / "net.pt", module("Net", attributes), program, {"m": W})
    with pytest.raises(RecordFormatError):
        load_network(tmp_path / "net.pt")


def test_archives_with_compressed_numbers_or_endless_programs_are_refused(tmp_path):
    path = tmp_path / "net.pt"
    write_network(path, LAYERS, "return x")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/code/long.py", b"#" * 2**23)
    with pytest.raises(RecordFormatError, match="must have at most"):
        load_network(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/data.pkl", b"\x80\x02N.")
        archive.writestr("net/constants.pkl", b"\x80\x02).")
        archive.writestr("net/code/__torch__.py", b"")
    with pytest.raises(RecordFormatError, match="compressed"):
        load_network(path)


def test_damaged_archives_are_refused_or_read_as_numbers(tmp_path):
    path = tmp_path / "net.pt"
    write_network(path, LAYERS, next(iter(PROGRAMS)))
    # As torch does: programs are compressed, numbers are not.
    with zipfile.ZipFile(path) as plain:
        contents = {name: plain.read(name) for name in plain.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in contents.items():
            kind = zipfile.ZIP_DEFLATED if member.endswith(".py") else zipfile.ZIP_STORED
            archive.writestr(member, content, kind)
    load_network(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(5)
    for _ in range(600):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged))
        with suppress(HardmaxError):
            load_network(path)


# State dicts -----------------------------------------------------------------------------------


def test_what_is_assumed_is_said_by_the_result_and_the_file(tmp_path):
    net = random_relu(0, [2, 3, 1])
    save_file(state_dict(net, ["0", "2"]), tmp_path / "s.safetensors")
    read = read_network_file(tmp_path / "s.safetensors")
    assert (read.known_from, read.activations) == ("assumed", ("relu", "identity"))
    compiled = compile_file(tmp_path / "s.safetensors", (-1, 1), 1e-2)
    assert compiled.assumption == read.assumption
    assert "a ReLU after every layer but the last" in compiled.assumption
    assert "ASSUMED" in repr(compiled)
    compiled.save(tmp_path / "t.safetensors")
    again = load_compiled(tmp_path / "t.safetensors")
    assert again.assumption == compiled.assumption
    with safe_open(tmp_path / "t.safetensors", "np") as file:
        assert "a state dict does not say" in file.metadata()["hardmax"]
    hard = compile_file(tmp_path / "s.safetensors", (-1, 1))
    assert hard.softened.assumption == compiled.assumption


def test_nothing_is_assumed_where_it_is_stated_or_written(tmp_path):
    net = random_relu(0, [2, 3, 1])
    save_file(state_dict(net, ["0", "2"]), tmp_path / "s.safetensors")
    stated = compile_file(tmp_path / "s.safetensors", Box([-1, -1], [1, 1]), activations="relu")
    assert stated.assumption is None
    stated.save(tmp_path / "t.safetensors")
    assert load_compiled(tmp_path / "t.safetensors").assumption is None
    save_model(net, tmp_path / "m.safetensors")
    assert compile_file(tmp_path / "m.safetensors", (-1, 1)).assumption is None
    assert read_network_file(tmp_path / "m.safetensors").known_from == "file"
    with pytest.raises(ArgumentError, match="specifies its own activations"):
        read_network_file(tmp_path / "m.safetensors", "relu")


@pytest.mark.parametrize(
    ("words", "last_word", "value"),
    [
        ("relu", "relu", lambda z: np.maximum(last(np.maximum(hidden(z), 0)), 0)),
        ("leaky_relu(0.2)", None, lambda z: last(leaky(hidden(z), 0.2))),
        (["hardtanh", "abs"], None, lambda z: np.abs(last(np.clip(hidden(z), -1, 1)))),
        ("none", None, lambda z: last(hidden(z))),
    ],
)
def test_stated_activations_are_those_that_are_compiled(tmp_path, words, last_word, value):
    (w0, b0), (w1, _) = LAYERS
    save_file({"0.weight": w0, "0.bias": b0, "2.weight": w1}, tmp_path / "s.safetensors")
    compiled = assert_compiled_within_its_error(
        tmp_path / "s.safetensors", value(POINTS), activations=words, last_activation=last_word
    )
    bare = compile_file(tmp_path / "s.safetensors", (-1.0, 1.0), 1e-2)
    # The network assumed is another one.
    assert np.abs(bare(POINTS) - value(POINTS)).max() > 10 * compiled.certified_error


def test_slopes_in_the_file_belong_to_the_layer_before(tmp_path):
    (w0, b0), (w1, _) = LAYERS
    tensors = {"0.weight": w0, "0.bias": b0, "1.weight": SLOPES.astype(float), "2.weight": w1}
    save_file(tensors, tmp_path / "s.safetensors")
    with pytest.raises(RecordFormatError, match=r"`1\.weight`.*pass prelu"):
        load_network(tmp_path / "s.safetensors")
    with pytest.raises(RecordFormatError, match=r"`1\.weight`"):
        load_network(tmp_path / "s.safetensors", "relu")
    wanted = last(leaky(hidden(POINTS), SLOPES.astype(float)))
    for words in ("prelu", "prelu, none"):
        assert_compiled_within_its_error(tmp_path / "s.safetensors", wanted, activations=words)
    save_file({"0.weight": w0, "2.weight": w1}, tmp_path / "s.safetensors")
    with pytest.raises(ArgumentError, match=r"prelu\(SLOPE\)"):
        load_network(tmp_path / "s.safetensors", "prelu")


def test_one_layer_takes_one_activation(tmp_path):
    w0, b0 = LAYERS[0]
    save_file({"0.weight": w0, "0.bias": b0}, tmp_path / "s.safetensors")
    bare = read_network_file(tmp_path / "s.safetensors")
    assert bare.activations == ("identity",)
    assert bare.assumption == "nothing after the only layer; a state dict does not say"
    for words in (("relu", None), (None, "relu"), (["relu"], None)):
        told = read_network_file(tmp_path / "s.safetensors", *words)
        np.testing.assert_allclose(told.network(POINTS), np.maximum(hidden(POINTS), 0), atol=1e-14)
        assert (told.known_from, told.assumption) == ("stated", None)
    tensors = {"0.weight": w0, "0.bias": b0, "1.weight": SLOPES.astype(float)}
    save_file(tensors, tmp_path / "s.safetensors")
    net = load_network(tmp_path / "s.safetensors", "prelu")
    np.testing.assert_allclose(net(POINTS), leaky(hidden(POINTS), SLOPES.astype(float)), atol=1e-14)


def test_layers_side_by_side_in_a_sequential_have_nothing_between_them(tmp_path):
    (w0, b0), (w1, _) = LAYERS
    save_file({"0.weight": w0, "0.bias": b0, "1.weight": w1}, tmp_path / "s.safetensors")
    with pytest.raises(RecordFormatError, match=r"`0` and `1`.*are adjacent"):
        load_network(tmp_path / "s.safetensors")
    net = load_network(tmp_path / "s.safetensors", "identity")
    assert isinstance(net, MaxoutNetwork)
    np.testing.assert_allclose(net(POINTS), last(hidden(POINTS)), atol=1e-13)


def test_the_last_activation_alone_leaves_the_others_unknown(tmp_path):
    save_file(state_dict(random_relu(0, [2, 3, 1]), ["0", "2"]), tmp_path / "s.safetensors")
    with pytest.raises(ArgumentError, match="`last_activation` requires `activations`"):
        load_network(tmp_path / "s.safetensors", None, "relu")


# torch -----------------------------------------------------------------------------------------


def torch_networks(torch):
    """Networks of every activation that is a maximum, in modules of every shape."""
    nn, functional = torch.nn, torch.nn.functional

    class Custom(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(3, 5), nn.LeakyReLU(0.2))
            self.out = nn.Linear(5, 2)
            self.slopes = nn.Parameter(torch.tensor([0.3, -2.0]))

        def forward(self, x):
            x = torch.clamp(self.inner(x), min=-0.5)
            x = functional.threshold(functional.hardtanh(x, -0.25, 0.75), -0.125, -0.125) - 0.125
            return functional.prelu(self.out(x.abs()), self.slopes)

    class Overriding(nn.Sequential):
        def forward(self, x):
            return -super().forward(x)

    def pair(*activations):
        layers = [nn.Linear(3, 5), nn.Linear(5, 2)]
        return nn.Sequential(layers[0], activations[0], layers[1], *activations[1:])

    modules = {
        "final relu": pair(nn.ReLU(inplace=True), nn.ReLU()),
        "leaky": pair(nn.LeakyReLU(0.2)),
        "leaky above 1": pair(nn.LeakyReLU(1.5), nn.LeakyReLU(-0.5)),
        "prelu": pair(nn.PReLU()),
        "prelu for each channel": pair(nn.PReLU(5), nn.PReLU(2)),
        "hard tanh": pair(nn.Hardtanh(-0.3, 0.4), nn.Hardtanh()),
        "relu6": pair(nn.ReLU6(), nn.ReLU6()),
        "soft shrink": pair(nn.Softshrink(0.2)),
        "threshold": pair(nn.Threshold(0.3, 0.3)),
        "rrelu": pair(nn.RReLU()),
        "nothing": nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2)),
        "before": nn.Sequential(nn.LeakyReLU(0.3), nn.Linear(3, 2)),
        "custom": Custom(),
        "overriding": Overriding(nn.Linear(3, 2), nn.ReLU()),
    }
    for part in modules.values():
        for parameter in part.parameters():
            if parameter.ndim == 1:
                nn.init.normal_(parameter)
    return modules


NAMES = ["final relu", "leaky", "leaky above 1", "prelu", "prelu for each channel", "hard tanh",
         "relu6", "soft shrink", "threshold", "rrelu", "nothing", "before", "custom",
         "overriding"]  # fmt: skip


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    return torch


@pytest.mark.parametrize("kind", NAMES)
def test_modules_of_torch_are_compiled_as_what_they_are(torch, tmp_path, kind):
    from hardmax.constructions.compilers.maxout_compiler import compile_relu

    net = torch_networks(torch)[kind].eval()
    x = torch.from_numpy(POINTS)
    net.double()
    with torch.no_grad():
        wanted = net(x).numpy()
    compiled = compile_relu(net, Box([-1.0] * 3, [1.0] * 3), 1e-2)
    assert np.abs(compiled(POINTS) - wanted).max() <= compiled.certified_error + 1e-14
    assert compiled.certified_error <= 1e-2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = []
        if kind != "overriding":  # torch itself cannot script it.
            made.append(torch.jit.script(net))
        made.append(torch.jit.trace(net, x[:1]))
        for i, scripted in enumerate(made):
            scripted.save(tmp_path / f"{i}.pt")
    for i, scripted in enumerate(made):
        assert_compiled_within_its_error(tmp_path / f"{i}.pt", wanted)
        direct = compile_relu(scripted, Box([-1.0] * 3, [1.0] * 3))
        assert np.abs(direct(POINTS) - wanted).max() <= direct.certified_error + 1e-14


def test_modules_of_torch_that_are_no_maxima_are_refused_with_layer_and_reason(torch, tmp_path):
    from hardmax.models.formats.torch.modules import from_torch

    nn = torch.nn

    class Branching(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    class MyLinear(nn.Linear):
        def forward(self, x):
            return torch.sigmoid(super().forward(x))

    cases = [
        (nn.Sequential(nn.Linear(3, 2), nn.GELU()), r"layer 1, GELU\): it is not piecewise linear"),
        (nn.Sequential(nn.Linear(3, 2), nn.Sequential(nn.Tanh())), r"layer 1.0, Tanh\): it is not"),
        (nn.Sequential(nn.Linear(3, 2), nn.Hardshrink()), "jumps"),
        (nn.Sequential(nn.Linear(3, 2), nn.Threshold(1.0, 0.0)), "jumps from 0 to 1"),
        (nn.Sequential(nn.Linear(3, 2), nn.Hardsigmoid()), "1/6"),
        (nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)), "divides by the size"),
        (Branching(), "cannot be traced"),
        (nn.Sequential(MyLinear(3, 2)), "sigmoid|not piecewise"),
    ]
    for net, message in cases:
        with pytest.raises(HardmaxError, match=message):
            from_torch(net)


def test_onnx_files_of_torch_are_read(torch, tmp_path):
    pytest.importorskip("onnx")
    for kind in ("final relu", "leaky", "prelu for each channel", "hard tanh", "relu6"):
        net = torch_networks(torch)[kind].eval()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                net, (torch.zeros(1, 3),), tmp_path / "n.onnx", dynamo=False, input_names=["x"],
                dynamic_axes={"x": {0: "n"}},
            )  # fmt: skip
        x = POINTS.astype(F32)
        wanted = run_onnx(tmp_path / "n.onnx", x)
        np.testing.assert_allclose(from_onnx(tmp_path / "n.onnx")(x), wanted, atol=2e-6)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("for i in range(100):\n  x = torch.cat([x, x], 1)\nreturn x", "bytes of memory"),
        ("return torch.expand(x, [1000000, 1000000, 3])", "bytes of memory"),
        ("return torch.adaptive_avg_pool1d(torch.unsqueeze(x, 0), [1000000000])", "bytes of"),
        ("return torch.constant_pad_nd(x, [0, 1000000000000], 0.)", "bytes of memory"),
        ("for i in range(400000):\n  y = torch.view(x, [1, 3])\nreturn y", "bytes of|too long"),
        ("for i in range(400000):\n  y = torch.relu(x)\nreturn y", "bytes of memory|too long"),
        ("n = 2\nfor i in range(100):\n  n = torch.mul(n, n)\nreturn x", "too large"),
        ("return torch.view(x, [1, 7])", "has invalid arguments"),
        ("return torch.split(x, 0, 1)", "has invalid arguments"),
        ("return torch.mul(x, x)", "multiplies two tensors"),
        ("return torch.linear(x, self.w1)", "does not fit a signal of shape"),
    ],
)
def test_programs_of_any_shape_that_ask_for_too_much_are_refused(tmp_path, program, message):
    path = tmp_path / "net.pt"
    write_network(path, LAYERS, program)
    began = time.process_time()
    with pytest.raises(HardmaxError, match=message):
        load_model(path, input_shape=(3,))
    assert time.process_time() - began < 10.0


def test_a_skip_connection_in_a_program_is_read_without_torch(tmp_path):
    path = tmp_path / "net.pt"
    program = "h = torch.linear(x, self.w0, self.b0)\ng = torch.add(h, torch.relu(h))\n"
    write_network(path, LAYERS, program + "return torch.linear(g, self.w1)")
    net = load_model(path)
    assert isinstance(net, GraphNetwork)
    z = hidden(POINTS)
    np.testing.assert_allclose(net(POINTS), last(z + np.maximum(z, 0.0)), atol=1e-13)
