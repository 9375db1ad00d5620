"""Small files that ask for much memory or time are refused before they get it."""

import json
import resource
import struct
import sys
import time
import zipfile

import numpy as np
import pytest

import hardmax as hm
from hardmax._ground.size_limits import BASE_BYTES, BYTES_PER_BYTE, SizeLimit
from hardmax.constructions.compilers.state_dicts import load_network
from hardmax.errors import RecordFormatError
from hardmax.models.formats.torch.files import read_torch_tensors
from hardmax.models.tensor_files import read_tensors
from tests.script_archives import module, name, tensor, text, write_archive, write_network
from tests.torch_saves import dictionary, write_state_dict

MOST_SECONDS = 5.0  # Each takes some tenths of a second; machines of CI are slow.


def refused(read, path, match):
    """Read a file that must be refused; return the message."""
    start, before = time.process_time(), _peak_bytes()
    with pytest.raises(RecordFormatError, match=match) as error:
        read(path)
    assert time.process_time() - start < MOST_SECONDS
    assert _peak_bytes() - before < BASE_BYTES + BYTES_PER_BYTE * path.stat().st_size
    return str(error.value)


def _peak_bytes():
    """The most memory that this process has had so far; `tracemalloc` would slow all of it down."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def written(folder, nodes, constants, shape):
    """Write an ONNX graph from `x` to `y`."""
    onnx = pytest.importorskip("onnx", reason="needs onnx to write files")
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    x, y = (
        helper.make_tensor_value_info(name, double, size)
        for name, size in (("x", shape), ("y", None))
    )
    made = [helper.make_node(kind, ins, outs, **given) for kind, ins, outs, given in nodes]
    stored = [onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    path = folder / "net.onnx"
    onnx.save(helper.make_model(helper.make_graph(made, "net", [x], [y], stored)), path)
    return path


def one(kind, inputs, output="y", **attributes):
    return kind, inputs, [output], attributes


IMAGE, POINT = (1, 1, 4, 4), (1, 1)
WIDE = np.ones((1, 60_000))
ONNX_BOMBS = {
    "Concat": (
        [one("Concat", [f"h{i}" if i else "x"] * 2, f"h{i + 1}", axis=0) for i in range(40)]
        + [one("Relu", ["h40"])],
        {},
        POINT,
    ),
    "Expand": (
        [one("Expand", ["x", "s"], "h"), one("Transpose", ["h"], "t"), one("Relu", ["t"])],
        {"s": [1 << 14, 1 << 14]},
        POINT,
    ),
    "Gather": (
        [one("Gather", [a, "i"], b, axis=1) for a, b in zip("xghk", "ghky", strict=True)],
        {"i": np.zeros((2, 1000), dtype=np.int64)},
        POINT,
    ),
    "Pad": ([one("Pad", ["x", "p"])], {"p": [0] * 6 + [9000, 9000]}, IMAGE),
    "Pad with edges": ([one("Pad", ["x", "p"], mode="edge")], {"p": [0] * 6 + [9000] * 2}, IMAGE),
    "ConstantOfShape": (
        [one("ConstantOfShape", ["s"], "c"), one("Add", ["x", "c"])],
        {"s": [1 << 13, 1 << 13]},
        POINT,
    ),
    "Add of constants": (
        [one("Add", ["a", "b"], "c"), one("Add", ["x", "c"])],
        {"a": np.zeros((9000, 1)), "b": np.zeros((1, 9000))},
        POINT,
    ),
    "Add": (
        [one("Transpose", ["x"], "t"), one("Add", ["x", "t"])],
        {},
        (1, 9000),
    ),
    "MatMul": (
        [one("Transpose", ["x"], "t"), one("MatMul", ["t", "w"])],
        {"w": np.ones((1, 9000))},
        (1, 9000),
    ),
    "MatMul of constants": (
        [one("ConstantOfShape", ["s"], "c"), one("MatMul", ["c", "c"], "d"), one("Add", "xd")],
        {"s": [4000, 4000]},
        POINT,
    ),
    "one matrix many times": (
        [one("MatMul", [f"h{i}" if i else "x", "w"], f"h{i + 1}") for i in range(3000)]
        + [one("Relu", ["h3000"])],
        {"w": np.eye(200)},
        (1, 200),
    ),
    "Conv": ([one("Conv", "xk", pads=[4000] * 4)], {"k": np.ones((1, 1, 1, 1))}, IMAGE),
    "MaxPool": ([one("MaxPool", "x", kernel_shape=[50, 50])], {}, (1, 1, 300, 300)),
    "maxima of maxima": (
        [
            one("MaxPool", [a], b, kernel_shape=[9, 9], pads=[4] * 4)
            for a, b in zip("xabc", "abcy", strict=True)
        ],
        {},
        (1, 1, 64, 64),
    ),
    "many outputs": (
        [("Split", ["x"], [f"a{i}" for i in range(40_000)], {"axis": 0}), one("Relu", ["a0"])],
        {},
        (40_000,),
    ),
    "many inputs": ([one("Sum", ["x"] * 30_000)], {}, (1, 2)),
}


@pytest.mark.parametrize("kind", ONNX_BOMBS)
@pytest.mark.parametrize("read", [hm.load_onnx, hm.from_onnx])
def test_graphs_that_grow_are_refused_before_they_do(kind, read, tmp_path):
    path = written(tmp_path, *ONNX_BOMBS[kind])
    message = refused(read, path, "would take at least [0-9,]+ bytes")
    assert f"the limit for a file of {path.stat().st_size:,} bytes is" in message
    assert "raise `max_bytes`" in message


@pytest.mark.parametrize("kind", ["Mul", "Clip"])
def test_layers_whose_dense_matrices_are_too_large_stay_a_graph(kind, tmp_path):
    matrix = one("MatMul", "xw", "h")
    second = one("Mul", "hc", "g") if kind == "Mul" else one("Clip", "hlc", "g")
    path = written(
        tmp_path, [matrix, second, one("Relu", "g")], {"w": WIDE, "c": 2.0, "l": 0.0}, POINT
    )
    net = hm.from_onnx(path)
    assert isinstance(net, hm.models.GraphNetwork)
    assert net([0.5])[-1] == 1.0 if kind == "Mul" else 0.5
    refused(load_network, path, "would take at least")


def test_the_limit_can_be_raised(tmp_path):
    path = written(tmp_path, [one("Conv", "xk", pads=[100] * 4)], {"k": np.ones((1,) * 4)}, IMAGE)
    net = hm.load_onnx(path)
    refused(lambda path: hm.load_onnx(path, max_bytes=10**6), path, "`max_bytes` is 1,000,000")
    assert hm.load_onnx(path, max_bytes=10**8).n_slots == net.n_slots
    with pytest.raises(hm.errors.ArgumentError, match="`max_bytes` must be at least 1; got 0"):
        hm.load_onnx(path, max_bytes=0)


def test_the_limit_counts_what_is_asked_for_in_all():
    limit = SizeLimit(1000)
    limit.take(BASE_BYTES)
    limit.take(BYTES_PER_BYTE * 1000)
    with pytest.raises(hm.errors.SizeLimitError, match="at least 268,563,457 bytes"):
        limit.take(1)


def safetensors(header, data=b""):
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + data


def entry(start, end, shape=None):
    shape = [(end - start) // 4] if shape is None else shape
    return {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}


SAFETENSORS_BOMBS = {
    "many": (
        lambda: safetensors({f"{i}.weight": entry(0, 0) for i in range(100_001)}),
        "at most 100,000 tensors; got 100,001",
    ),
    "overlapping": (
        lambda: safetensors({f"{i}.weight": entry(0, 4000) for i in range(1000)}, bytes(4000)),
        "does not start where the previous one ends",
    ),
    "nested": (lambda: safetensors(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "nested"),
    "long number": (
        lambda: safetensors(b'{"a":{"shape":[' + b"9" * 5000 + b"]}}"),
        "4300 digits",
    ),
    "repeated name": (
        lambda: safetensors(
            b"{" + b",".join(b'"%d":1' % i for i in range(50_000)) + b',"49999":1}'
        ),
        "'49999' occurs twice",
    ),
    "huge and empty": (
        lambda: safetensors({"a": entry(0, 0, [0, 2**62, 2**62])}),
        "has the shape",
    ),
    "negative": (
        lambda: safetensors({"a": entry(0, 4, [-1, -1])}, bytes(4)),
        "an invalid shape or offset",
    ),
    "many axes": (
        lambda: safetensors({"a": entry(0, 4, [1] * 65)}, bytes(4)),
        "an invalid shape or offset",
    ),
    "gap": (lambda: safetensors({"a": entry(4, 8)}, bytes(8)), "does not start where"),
    "rest": (lambda: safetensors({"a": entry(0, 4)}, bytes(8)), "take 4 bytes, but it has 8"),
}


@pytest.mark.parametrize("kind", SAFETENSORS_BOMBS)
def test_headers_of_safetensors_are_judged_before_they_are_believed(kind, tmp_path):
    make, match = SAFETENSORS_BOMBS[kind]
    path = tmp_path / "net.safetensors"
    path.write_bytes(make())
    refused(read_tensors, path, match)


def test_many_tensors_are_read_in_proportion(tmp_path):
    path = tmp_path / "net.safetensors"
    header = {f"{i:05}": entry(4 * i, 4 * i + 4) for i in range(20_000)}
    path.write_bytes(safetensors(header, np.arange(20_000, dtype="<f4").tobytes()))
    start = time.process_time()
    tensors = read_tensors(path)[1]
    assert time.process_time() - start < MOST_SECONDS
    assert [tensors[name][0] for name in ("00000", "19999")] == [0.0, 19_999.0]


def test_tensors_off_their_alignment_are_copied(tmp_path):
    path = tmp_path / "net.safetensors"
    header = {"a": {**entry(0, 1, [1]), "dtype": "U8"}, "b": entry(1, 9)}
    path.write_bytes(safetensors(header, b"\x07" + np.array([1, 2], dtype="<f4").tobytes()))
    found = read_tensors(path)[1]["b"]
    assert found.tolist() == [1.0, 2.0]
    assert found.flags.aligned


def test_unnumbered_layers_of_a_state_dict_do_not_cost_the_square_of_their_number(tmp_path):
    path = tmp_path / "net.safetensors"
    names = [f"{'x' * i}.weight" for i in range(1, 600)]
    header = {name: entry(4 * i, 4 * i + 4, [1, 1]) for i, name in enumerate(names)}
    path.write_bytes(safetensors(header, bytes(4 * len(names))))
    refused(load_network, path, "layers must be numbered")


def laughing():
    """A list of lists that stands for 2^60 entries, in some hundred bytes of a pickle."""
    steps = (bytes([i]) for i in range(60))
    return b"]" + b"".join(b"q" + i + b"0]h" + i + b"ah" + i + b"a" for i in steps)


def write_shared(path):
    """A million bytes that nine hundred tensors claim."""
    array = np.zeros((500, 500), dtype="f4")
    entries = {f"{i}.weight": tensor("0", array, storage="FloatStorage") for i in range(900)}
    write_state_dict(path, {}, content=dictionary(entries), storages=[array.tobytes()])


def write_laughing_storage(path):
    pid = b"(" + text("storage") + laughing() + text("0") + text("cpu") + b"K\x01tQ"
    made = name("torch._utils", "_rebuild_tensor_v2") + b"(" + pid + b"K\x00K\x01\x85K\x01\x85tR"
    write_state_dict(path, {}, content=dictionary({"a": made}), storages=[])


def write_compressed(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/data.pkl", bytes(20_000_000))


def write_members(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/data.pkl", b"PK\x01\x02" * 200_001)


TORCH_BOMBS = {
    "shared storage": (write_shared, "would take at least 900,000,000 bytes"),
    "lists of lists": (write_laughing_storage, "stored as a list"),
    "compressed": (write_compressed, "is compressed"),
    "members": (write_members, "at most 200,000 members"),
}


@pytest.mark.parametrize("kind", TORCH_BOMBS)
def test_state_dicts_of_torch_that_grow_are_refused(kind, tmp_path):
    write, match = TORCH_BOMBS[kind]
    write(tmp_path / "net.pt")
    refused(read_torch_tensors, tmp_path / "net.pt", match)


EYE = np.eye(2)


def write_program(program, attributes=()):
    def write(path):
        held = {"w": tensor("0", EYE), **dict(attributes)}
        write_archive(path, module("Net", held), program, {"0": EYE})

    return write


def forward(line):
    return f"class Net(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    {line}\n"


DOUBLING = "".join(
    f"def f{i}(x):\n  y = __torch__.f{i - 1}(x)\n  return __torch__.f{i - 1}(y)\n"
    for i in range(1, 21)
)


def write_deflated_program(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/code/__torch__.py", "x\n" * 2_000_000)
        archive.writestr("net/data.pkl", b"\x80\x02}.")
        archive.writestr("net/constants.pkl", b"\x80\x02).")


def write_wide(path):
    forward = "return torch.add(torch.linear(x, self.w0), 1)"
    write_network(path, [(np.ones((20_000, 1)), None)], forward)


SCRIPT_BOMBS = {
    "deflated": (write_deflated_program, "must have at most"),
    "square of the width": (write_wide, "would take at least"),
    "lists of lists": (
        write_program(
            forward("return torch.add(torch.linear(x, self.w), self.l)"), [("l", laughing())]
        ),
        "nested lists",
    ),
    "calls": (
        write_program(forward("return __torch__.f20(x)") + "def f0(x):\n  return x\n" + DOUBLING),
        "too long",
    ),
    "signs": (write_program(forward(f"return torch.add(x, {'-' * 5000}1)")), "program"),
}


@pytest.mark.parametrize("kind", SCRIPT_BOMBS)
def test_programs_that_grow_are_refused(kind, tmp_path):
    write, match = SCRIPT_BOMBS[kind]
    write(tmp_path / "net.pt")
    refused(load_network, tmp_path / "net.pt", match)


def test_headers_of_gguf_files_are_judged_before_they_are_believed(tmp_path):
    path = tmp_path / "net.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 100_001, 0) + bytes(24 * 100_001))
    refused(hm.load_checkpoint, path, "at most 100,000 tensors")
    listed = b"\x01" + bytes(7) + b"a" + struct.pack("<IIQ", 9, 8, 2**60)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + listed)
    refused(hm.load_checkpoint, path, "do not fit in the file")


def test_a_normaliser_that_stretches_a_text_is_refused(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(safetensors({"a": entry(0, 0)}))
    step = {"type": "Replace", "pattern": {"String": ""}, "content": "b" * 100_000}
    model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"model": model, "normalizer": step}))
    text = "a" * 5000
    refused(lambda _: hm.models.tokenise(tmp_path, text), path, "over 1000000 characters")
