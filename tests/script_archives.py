"""TorchScript archives written by hand, without torch: for readers that must not trust them."""

import struct
import zipfile

import numpy as np


def text(word):
    """A string, as pickle writes it."""
    content = word.encode()
    return b"X" + struct.pack("<I", len(content)) + content


def name(module, attribute):
    return f"c{module}\n{attribute}\n".encode()


def integers(numbers):
    return b"(" + b"".join(b"J" + struct.pack("<i", n) for n in numbers) + b"t"


def tensor(key, array, *, storage="DoubleStorage", size=None, stride=None, n=None, offset=0):
    """A tensor of the archive whose numbers are the member `data/KEY`."""
    strides = [s // array.itemsize for s in array.strides] if stride is None else stride
    entry = b"(" + text("storage") + name("torch", storage) + text(key) + text("cpu")
    entry += b"J" + struct.pack("<i", array.size if n is None else n) + b"tQ"
    arguments = b"(" + entry + b"J" + struct.pack("<i", offset)
    arguments += integers(array.shape if size is None else size) + integers(strides)
    arguments += b"\x89" + name("collections", "OrderedDict") + b")Rt"
    return name("torch._utils", "_rebuild_tensor_v2") + arguments + b"R"


def module(kind, attributes):
    """A module of type `__torch__.KIND` with attributes that are pickled already."""
    entries = b"".join(text(key) + value for key, value in attributes.items())
    return name("__torch__", kind) + b")\x81}(" + entries + b"ub"


def write_archive(path, root, program, tensors, *, constants=b"\x80\x02).", members=None):
    """Write an archive: a pickled module, the program of `__torch__`, and the numbers."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/data.pkl", b"\x80\x02" + root + b".")
        archive.writestr("net/constants.pkl", constants)
        archive.writestr("net/code/__torch__.py", program)
        for key, array in tensors.items():
            archive.writestr(f"net/data/{key}", np.ascontiguousarray(array).tobytes())
        for key, content in (members or {}).items():
            archive.writestr(f"net/{key}", content)


def write_network(path, layers, forward, **options):
    """Write a module with layers `w0, b0, w1, ...` and a program of `forward(self, x)`."""
    tensors, attributes = {}, {}
    for i, (weight, bias) in enumerate(layers):
        for letter, array in (("w", weight), ("b", bias)):
            if array is not None:
                tensors[f"{letter}{i}"] = np.ascontiguousarray(array, dtype=float)
                attributes[f"{letter}{i}"] = tensor(f"{letter}{i}", tensors[f"{letter}{i}"])
    lines = "\n".join(f"    {line}" for line in forward.strip().splitlines())
    program = f"class Net(Module):\n  def forward(self, x: Tensor) -> Tensor:\n{lines}\n"
    write_archive(path, module("Net", attributes), program, tensors, **options)
