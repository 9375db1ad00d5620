"""Forged model files: of this library, ONNX, state dicts, TorchScript, checkpoints, tokenisers."""

import io
import json
import struct
import tempfile
import zipfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

import hardmax as hm
from hardmax.constructions import (
    CompiledFunction,
    CompiledTransformer,
    Knots,
    compile_cpwl,
    compile_relu,
    load_compiled,
    load_function,
)
from hardmax.constructions.compilers.state_dicts import load_network
from hardmax.errors import HardmaxError
from tests.constructions.test_network_files import LAYERS, PROGRAMS
from tests.forged_certificates import (
    BROKEN,
    SUBJECTS,
    Case,
    contents,
    with_other_model,
)
from tests.fuzz.mutations import changed_array, changed_json, damaged
from tests.fuzz.questions import use_model
from tests.fuzz.trials import Kind
from tests.graphs.test_onnx_graphs import CASES, node, saved
from tests.models.checkpoints.fuzzing import write_folder
from tests.models.checkpoints.refresh import TOKENS
from tests.models.checkpoints.tokenisers import TOKENISERS
from tests.region_models import gaussian_relu, integer_maxout, integer_transformer
from tests.script_archives import write_network
from tests.torch_saves import write_legacy_state_dict, write_state_dict

CHECKPOINTS = ("safetensors", "bin", "legacy", "gguf", "onnx", "config", "index")


# The corpus.


@cache
def native():
    """Files of `save_model`, of every kind and of both formats."""
    models = [model for subjects in SUBJECTS.values() for model, _ in subjects]
    models += [gaussian_relu(1, [4, 6, 4]), gaussian_relu(2, [9, 5]), integer_relu_of_one()]
    models += [integer_maxout(4, 2, [[3, 2, 2], [2, 3]])]
    models += [integer_transformer(1, 2, 4, 2, n_blocks=2, repeat=True)]
    models += [integer_transformer(1, 4, 3, 2).network]
    return [content for model in models for content in contents(model)]


def integer_relu_of_one():
    return hm.ReluNetwork([[[1.0, -1.0, 2.0]], [[1.0], [1.0], [1.0]]], [[0.0, 1.0, 3.0], [0.0]])


def written(write, *arguments):
    """Return the bytes of a file that a function writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        write(path, *arguments)
        return path.read_bytes()


@cache
def graphs():
    """ONNX files: one operator after another, a residual block, and a chain of layers."""
    rng = np.random.default_rng(0)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        for kind, (inputs, constants, attributes, _) in CASES.items():
            nodes = [node(kind, inputs, "h", **attributes), node("Relu", ["h"], "r")]
            nodes += [node("Flatten", ["r"], "y")]
            found.append(saved(path, nodes, constants).read_bytes())
        constants = {
            "k": rng.normal(size=(2, 2, 3, 3)),
            "b": rng.normal(size=2),
            "s": np.array([0, -1]),
            "i": np.array([1, 0]),
            "w": rng.normal(size=(8, 3)),
            "c": rng.normal(size=3),
            "e": np.array([1, 2, 4, 4]),
        }
        block = [
            node("Expand", ["x", "e"], "x1"),
            node("Gather", ["x1", "i"], "g", axis=1),
            node("Conv", ["g", "k", "b"], "h", pads=[1, 1, 1, 1]),
            node("Relu", ["h"], "r"),
            node("Add", ["r", "x"], "a"),
            node("MaxPool", ["a"], "m", kernel_shape=[2, 2], strides=[2, 2]),
            node("Reshape", ["m", "s"], "f"),
            node("Gemm", ["f", "w", "c"], "y"),
        ]
        found.append(saved(path, block, constants).read_bytes())
        layers = {"w": rng.normal(size=(2, 5)), "b": rng.normal(size=5), "v": np.ones((5, 1))}
        chain = [node("Gemm", ["x", "w", "b"], "h"), node("Relu", ["h"], "r")]
        chain.append(node("MatMul", ["r", "v"]))
        found.append(saved(path, chain, layers, shape=(1, 2)).read_bytes())
    return found


@cache
def state_dicts():
    """State dicts of a chain of layers, as the tools of torch write them: name and bytes."""
    rng = np.random.default_rng(1)
    shapes = {"0.weight": (4, 2), "0.bias": (4,), "2.weight": (3, 4), "2.bias": (3,)}
    arrays = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    mixed = {name: array.astype("<f4") for name, array in arrays.items()}
    return [
        ("net.safetensors", safetensors(mixed)),
        ("net.pt", written(write_state_dict, arrays)),
        ("net.pt", written(write_legacy_state_dict, mixed)),
    ]


@cache
def compiled():
    """Compiled transformers and functions."""
    wide = [[[1.0, -1.0], [0.5, 2.0]], [[1.0], [0.5]]]
    models = [
        compile_relu([[[1.0, -1.0]], [[1.0], [0.5]]], hm.Box([-1.0], [1.0]), epsilon=0.01),
        compile_relu(wide, hm.Box([-1.0] * 2, [1.0] * 2)),
        compile_cpwl(Knots([0.0, 3.0, 4.0], [0.0, 1.0, 0.5]), hm.Box([0], [4])),
    ]
    return [written(lambda path, model=model: model.save(path)) for model in models]


IMAGES = [
    """h = torch.relu(torch.conv2d(x, self.w0, self.b0, [1, 1], [1, 1], [1, 1], 1))
m = torch.max_pool2d(h, [2, 2], [2, 2], [0, 0], [1, 1], False)
return torch.linear(torch.flatten(m, 1, -1), self.w1, self.b1)""",
    """h = torch.conv2d(x, self.w0, self.b0, [1, 1], [1, 1], [1, 1], 1)
a = torch.add(torch.leaky_relu(h, 0.25), h, alpha=2)
c = torch.cat([a, torch.neg(h)], 1)
for i in range(3):
  c = torch.mul(c, 0.5)
m = torch.mean(c, [2, 3], False)
return torch.max(m, torch.mul(m, 0.5))""",
    """h = torch.conv2d(x, self.w0, self.b0, [1, 1], [1, 1], [1, 1], 1)
v = torch.view(torch.adaptive_avg_pool2d(h, [2, 2]), [-1, 8])
return torch.clamp(torch.linear(v, self.w1, self.b1), -1., 1.)""",
]
"""Programs for images of 4 by 4 pixels."""


@cache
def programs():
    """Modules of TorchScript: chains of layers, and networks of other shapes."""
    rng = np.random.default_rng(2)
    kernels = [(rng.normal(size=(2, 1, 3, 3)), rng.normal(size=2))]
    kernels.append((rng.normal(size=(3, 8)), rng.normal(size=3)))
    found = [written(write_network, LAYERS, program) for program in PROGRAMS]
    return found + [written(write_network, kernels, program) for program in IMAGES]


@cache
def checkpoints(kind):
    """The files of a checkpoint, and the one to be forged."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_folder(Path(folder), kind)
        files = {
            str(file.relative_to(folder)): file.read_bytes()
            for file in Path(folder).rglob("*")
            if file.is_file()
        }
        return files, path.name


# Forgeries.


def safetensors(arrays, change=lambda header: header):
    """Write arrays as they are, under a header that may be changed."""
    header, end = {}, 0
    for name, array in arrays.items():
        kind = {"f": "F", "i": "I", "u": "U"}.get(array.dtype.kind, "X") + str(8 * array.itemsize)
        offsets = [end, end := end + array.nbytes]
        header[name] = {"dtype": kind, "shape": [*array.shape], "data_offsets": offsets}
    text = json.dumps(change(header)).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in arrays.values())


def forged_native(rng):
    content = rng.choice(compiled() if rng.random() < 0.15 else native())
    for _ in range(rng.choice([1, 1, 2])):
        # A file that was changed before may have nothing left to be changed.
        with suppress(*BROKEN):
            content = with_other_model(rng, Case(content, ())).model
    return content if rng.random() < 0.9 else damaged(rng, content)


def forged_graph(rng):
    """Change attributes, names, kinds, sizes or constants of an ONNX file; or its bytes."""
    import onnx

    content = rng.choice(graphs())
    if rng.random() < 0.15:
        return damaged(rng, content)
    model = onnx.load_from_string(content)
    for _ in range(rng.choice([1, 1, 2, 3])):
        rng.choice([change_node, change_node, change_constant, change_constant, change_value])(
            rng, model.graph, onnx
        )
    try:
        return model.SerializeToString()
    except BROKEN:
        return content


def change_node(rng, graph, onnx):
    """Change one node, or drop, double or move it."""
    place = rng.randrange(len(graph.node)) if graph.node else None
    if place is None:
        return
    one, what = graph.node[place], rng.randrange(8)
    names = ["x", "y", "", "nowhere", *[n for other in graph.node for n in other.output]]
    names += [stored.name for stored in graph.initializer]
    if what <= 2 and one.attribute:
        attribute = rng.choice(one.attribute)
        values = attribute.ints or [0]
        new = [int(value) for value in values]
        new[rng.randrange(len(new))] = rng.choice(
            [0, 1, -1, 2, 3, 7, -3, 64, 2**31, 2**62, -(2**63)]
        )
        if attribute.ints:
            del attribute.ints[:]
            attribute.ints.extend(
                new if rng.random() < 0.8 else new[1:] + new[:1] * rng.choice([0, 3])
            )
        elif attribute.HasField("f"):
            attribute.f = rng.choice([0.0, -1.0, 1e30, float("nan"), float("inf"), 1e-40])
        else:
            attribute.i = new[0]
    elif what == 3 and one.input:
        one.input[rng.randrange(len(one.input))] = rng.choice(names)
    elif what == 4:
        if one.input and rng.random() < 0.5:
            one.input.pop()
        else:
            one.input.append(rng.choice(names))
    elif what == 5:
        one.op_type = rng.choice(
            [*CASES, "Gather", "Expand", "Reshape", "Split", "Tile", "Softmax"]
        )
    elif what == 6:
        copy = onnx.NodeProto()
        copy.CopyFrom(one)
        graph.node.append(copy)
    elif one.output:
        one.output[rng.randrange(len(one.output))] = rng.choice(names)


def change_constant(rng, graph, onnx):
    """Change the numbers, the shape, the type or the bytes of a stored tensor."""
    if not graph.initializer:
        return
    place = rng.randrange(len(graph.initializer))
    stored = graph.initializer[place]
    if rng.random() < 0.7:
        try:
            array = changed_array(rng, onnx.numpy_helper.to_array(stored))
            graph.initializer[place].CopyFrom(onnx.numpy_helper.from_array(array, stored.name))
        except BROKEN:
            pass
        return
    what = rng.randrange(3)
    if what == 0 and stored.dims:
        sizes = [0, 1, -1, 2, 5, 2**31, 2**62, -(2**63)]
        stored.dims[rng.randrange(len(stored.dims))] = rng.choice(sizes)
    elif what == 1:
        stored.data_type = rng.choice([*range(24), -1, 2**31 - 1])
    elif stored.raw_data:
        stored.raw_data = damaged(rng, stored.raw_data)


def change_value(rng, graph, onnx):
    """Change the shape of the input, or drop an input or output."""
    what = rng.randrange(5)
    if what <= 2 and graph.input:
        sizes = graph.input[0].type.tensor_type.shape.dim
        if sizes:
            rng.choice(sizes).dim_value = rng.choice([0, 1, 2, 3, 8, -1, 2**20, 2**31, 2**62])
    elif what == 3 and graph.input:
        graph.input[0].type.tensor_type.elem_type = rng.choice([*range(20)])
    elif graph.output:
        del graph.output[rng.randrange(len(graph.output))]


def forged_state_dict(rng):
    name, content = rng.choice(state_dicts())
    if name == "net.safetensors" and rng.random() < 0.7:
        n = struct.unpack_from("<Q", content)[0]
        header = json.loads(content[8 : 8 + n])
        arrays = {
            key: np.frombuffer(content[8 + n :], "<f4")[
                entry["data_offsets"][0] // 4 : entry["data_offsets"][1] // 4
            ].reshape(entry["shape"])
            for key, entry in header.items()
        }
        if rng.random() < 0.5:
            key = rng.choice([*arrays])
            arrays[key] = changed_array(rng, arrays[key])
            return name, safetensors(arrays)
        return name, safetensors(arrays, lambda header: changed_json(rng, header))
    if content[:2] == b"PK":
        return name, with_other_member(rng, content)
    return name, damaged(rng, content)


def with_other_member(rng, content):
    """Change one member of an archive, and write its checksum anew; or change any bytes."""
    if rng.random() < 0.15:
        return damaged(rng, content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice([*members])
    what = rng.random()
    if what < 0.06:
        del members[name]
    elif what < 0.12:
        other = rng.choice([*members])
        members[name], members[other] = members[other], members[name]
    elif name.endswith(".py") and what < 0.8:
        members[name] = with_other_words(rng, members[name])
    else:
        members[name] = damaged(rng, members[name])
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


WORDS = [
    *("x", "h", "self.w0", "self.w1", "self.b0", "None", "True", "-1", "0.", "1", "1e400", "nan"),
    *("9223372036854775807", "[1,2]", "(x,x)", "''", "inf", "-0.5", "0.20000000000000001"),
    *("torch.relu", "torch.linear", "torch.addmm", "torch.abs", "torch.t", "torch.cat"),
    *("torch.clamp", "torch.reshape", "torch.conv2d", "torch.flatten", "torch.add", "torch.mul"),
    *("torch.view", "torch.expand", "torch.split", "torch.mean", "torch.max", "x.shape"),
    *("for i in range(100000):\n ", "range", "1000000", "[1000000000]", "i", "-100"),
]


def with_other_words(rng, text):
    """Change words of a program."""
    words = text.decode().replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split(" ")
    for _ in range(rng.choice([1, 1, 2, 3])):
        words[rng.randrange(len(words))] = rng.choice([*WORDS, *words])
    return " ".join(words).encode("utf-8", "replace")


def forged_checkpoint(rng, kind):
    """Change one file of a checkpoint."""
    files, name = checkpoints(kind)
    files = dict(files)
    if name.endswith(".json") and rng.random() < 0.8:
        files[name] = json.dumps(changed_json(rng, json.loads(files[name]))).encode()
    elif kind == "bin":
        files[name] = with_other_member(rng, files[name])
    else:
        files[name] = damaged(rng, files[name])
    return {f"checkpoint/{file}": content for file, content in files.items()}


def forged_tokeniser(rng):
    files, _ = checkpoints("safetensors")
    sound = TOKENISERS[rng.choice([*TOKENISERS])]
    text = json.dumps(changed_json(rng, sound)).encode()
    if rng.random() < 0.1:
        text = damaged(rng, text)
    files = {f"checkpoint/{name}": content for name, content in files.items()}
    return {**files, "checkpoint/tokenizer.json": text}


def forged(rng):
    """Return the files of a model or a checkpoint."""
    what = rng.random()
    if what < 0.4:
        return {"net.safetensors": forged_native(rng)}
    if what < 0.6:
        return {"net.onnx": forged_graph(rng)}
    if what < 0.7:
        return dict([forged_state_dict(rng)])
    if what < 0.8:
        return {"net.pt": with_other_member(rng, rng.choice(programs()))}
    if what < 0.95:
        return forged_checkpoint(rng, rng.choice(CHECKPOINTS))
    return forged_tokeniser(rng)


# Use.


def used(rng, folder):
    """Read a model or a checkpoint, and use it."""
    checkpoint = folder / "checkpoint"
    if checkpoint.exists():
        if (checkpoint / "tokenizer.json").exists():
            hm.models.tokenise(checkpoint, "ab 12 \u00e9\u4e2d ab")
            return "read"
        model = hm.load_checkpoint(checkpoint)
        if model.embedding is None:
            hm.analyze_heads(model, vectors=np.eye(3, model.dim))
        else:
            hm.analyze_heads(model, TOKENS[:3])
        return "read"
    (path,) = folder.iterdir()
    given = {
        "input_shape": rng.choice([None, (1, 4, 4), (3,), (1, 1000, 1000), (0,), (2**40,)]),
        "activations": rng.choice([None, None, "relu", "leaky_relu(0.5)", ["relu", "abs"]]),
    }
    given = {name: value for name, value in given.items() if rng.random() < 0.5}
    readers = [hm.load_model, lambda path: hm.load_model(path, **given), load_network]
    readers += [load_compiled, load_function]
    if path.suffix == ".onnx":
        readers = [hm.load_model, load_network, hm.from_onnx]
    elif path.suffix == ".pt":
        readers = readers[:3]
    model = None
    for read in readers:
        try:
            model = read(path) if model is None or rng.random() < 0.5 else model
        except HardmaxError:
            continue
    if isinstance(model, CompiledTransformer | CompiledFunction):
        model(model.box.low + rng.random() * (model.box.high - model.box.low))
        return "read"
    return "refused" if model is None else use_model(rng, model)


MODELS = Kind(forged, used)
