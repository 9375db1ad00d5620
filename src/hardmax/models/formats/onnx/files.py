"""ONNX files, read as data: the few messages of protobuf that a graph consists of.

Reading runs nothing and needs no other package. Every length is checked against what is there
before anything is allocated, and weights kept in other files are read only from beside the model.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.size_limits import MOST_AXES, check_tensor_count
from hardmax.errors import RecordFormatError
from hardmax.typing import AnyArray

_TYPES = {
    1: "<f4",
    2: "u1",
    3: "i1",
    4: "<u2",
    5: "<i2",
    6: "<i4",
    7: "<i8",
    9: "?",
    10: "<f2",
    11: "<f8",
    12: "<u4",
    13: "<u8",
    16: "bfloat16",
}


@dataclass(frozen=True, eq=False)
class OnnxNode:
    """A node of a graph.

    Attributes:
        kind: The operator, such as `Conv`.
        name: Its name, often empty.
        domain: Where the operator is defined; empty for ONNX itself.
        inputs: Names of tensors, empty where one is left out.
        outputs: Names of tensors.
        attributes: Numbers, words, lists of numbers and arrays by name.
        notes: What the exporter says about it, by name.
    """

    kind: str = ""
    name: str = ""
    domain: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class OnnxGraph:
    """The graph of a file.

    Attributes:
        nodes: In order.
        constants: The initialisers by name.
        inputs: Names and shapes of what goes in (0 for a size that is not fixed; None for no
            shape), without initialisers.
        outputs: Names of what comes out.
        version: Of the operator set.
        n_bytes: The size of the file, and of what it keeps in others.
    """

    nodes: tuple[OnnxNode, ...]
    constants: dict[str, AnyArray]
    inputs: tuple[tuple[str, tuple[int, ...] | None], ...]
    outputs: tuple[str, ...]
    version: int
    n_bytes: int


def read_onnx(path: str | os.PathLike[str]) -> OnnxGraph:
    """Read the graph of an ONNX file.

    Raises:
        RecordFormatError: If the file is damaged, or no ONNX file.
    """
    data = Path(path).read_bytes()
    try:
        return _model(memoryview(data), _Beside(Path(path).parent))
    except (_DamagedError, RecordFormatError, UnicodeDecodeError) as error:
        raise RecordFormatError(f"`path` must be a sound ONNX file; {path}: {error}.") from None


class _DamagedError(Exception):
    """What is wrong with a file."""


class _Beside:
    """The folder of a model, and how much of the files in it has been read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.n_read: dict[str, int] = {}


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for k in range(10):
        if at >= len(data):
            raise _DamagedError("it ends in the middle of a number")
        byte = data[at]
        at += 1
        value |= (byte & 127) << (7 * k)
        if byte < 128:
            return value & ((1 << 64) - 1), at
    raise _DamagedError("a number has too many digits")


def _fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and content of each field of a message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        content: Any
        if wire == 0:
            content, at = _varint(data, at)
        elif wire in (1, 2, 5):
            length = 8 if wire == 1 else 4
            if wire == 2:
                length, at = _varint(data, at)
            if length > len(data) - at:
                raise _DamagedError("it is shorter than it says")
            content = data[at : at + length]
            at += length
        else:
            raise _DamagedError(f"it holds fields of the unknown kind {wire}")
        if number == 0:
            raise _DamagedError("it holds a field without a number")
        yield number, wire, content


def _text(content: Any) -> str:
    return str(_bytes(content), "utf-8")


def _bytes(content: Any) -> memoryview:
    if not isinstance(content, memoryview):
        raise _DamagedError("a field is a number that should not be one")
    return content


def _signed(value: Any) -> int:
    if not isinstance(value, int):
        raise _DamagedError("a field should be a number")
    return value - (1 << 64) if value >> 63 else value


def _integers(wire: int, content: Any) -> list[int]:
    """One integer, or several packed together."""
    if wire == 0:
        return [_signed(content)]
    return [int(value) for value in _packed_integers(_bytes(content)).tolist()]


def _packed_integers(content: memoryview) -> AnyArray:
    """Integers of up to ten bytes, seven bits in each, the lowest first; the last has no mark."""
    data = np.frombuffer(content, np.uint8)
    ends = np.flatnonzero(data < 128) + 1
    if (ends[-1] if len(ends) else 0) != len(data):
        raise _DamagedError("it ends in the middle of a number")
    lengths = np.diff(ends, prepend=0)
    if len(lengths) and lengths.max() > 10:
        raise _DamagedError("a number has too many digits")
    values = np.zeros(len(ends), dtype=np.uint64)
    for k in range(lengths.max(initial=0)):
        there = np.flatnonzero(lengths > k)
        digits = data[ends[there] - lengths[there] + k].astype(np.uint64) & np.uint64(127)
        values[there] |= digits << np.uint64(7 * k)
    return values.view(np.int64)


def _integer(wire: int, content: Any) -> int:
    return int(_one(_integers(wire, content)))


def _floats(content: Any, kind: str) -> AnyArray:
    data = _bytes(content)
    if len(data) % np.dtype(kind).itemsize:
        raise _DamagedError("numbers are cut off")
    return np.frombuffer(data, kind)


def _one(numbers: Any) -> Any:
    if len(numbers) != 1:
        raise _DamagedError("a field must hold one number")
    return numbers[0]


def _model(data: memoryview, beside: _Beside) -> OnnxGraph:
    graph, version = None, 0
    for number, _, content in _fields(data):
        if number == 7:
            graph = _bytes(content)
        elif number == 8:
            domain, found = "", 0
            for n, w, c in _fields(_bytes(content)):
                domain = _text(c) if n == 1 else domain
                found = _integer(w, c) if n == 2 else found
            version = found if domain in ("", "ai.onnx") else version
    if graph is None:
        raise _DamagedError("it has no graph")
    nodes, constants, inputs, outputs = [], {}, [], []
    for number, _, content in _fields(graph):
        if number == 1:
            nodes.append(_node(_bytes(content), beside))
        elif number == 5:
            name, array = _tensor(_bytes(content), beside)
            constants[name] = array
            check_tensor_count(len(constants))
        elif number == 11:
            inputs.append(_value_info(_bytes(content)))
        elif number == 12:
            outputs.append(_value_info(_bytes(content))[0])
        elif number == 15:
            raise _DamagedError("it holds sparse tensors, which are not read")
    free = tuple((name, shape) for name, shape in inputs if name not in constants)
    total = len(data) + sum(beside.n_read.values())
    return OnnxGraph(tuple(nodes), constants, free, tuple(outputs), version, total)


def _node(data: memoryview, beside: _Beside) -> OnnxNode:
    inputs, outputs, attributes, notes = [], [], {}, {}
    texts = {3: "", 4: "", 7: ""}
    for number, _, content in _fields(data):
        if number == 1:
            inputs.append(_text(content))
        elif number == 2:
            outputs.append(_text(content))
        elif number in texts:
            texts[number] = _text(content)
        elif number == 5:
            name, value = _attribute(_bytes(content), beside)
            attributes[name] = value
        elif number == 9:
            entry = _entry(content)
            notes[entry[0]] = entry[1]
    ends = tuple(inputs), tuple(outputs)
    return OnnxNode(texts[4], texts[3], texts[7], *ends, attributes, notes)


def _entry(content: Any) -> tuple[str, str]:
    """A name and what is said under it."""
    found = {number: _text(said) for number, _, said in _fields(_bytes(content))}
    return found.get(1, ""), found.get(2, "")


def _attribute(data: memoryview, beside: _Beside) -> tuple[str, Any]:
    name = ""
    value: Any = None
    lists: dict[int, list[Any]] = {7: [], 8: []}
    for number, wire, content in _fields(data):
        if number == 1:
            name = _text(content)
        elif number == 2:
            value = float(_one(_floats(content, "<f4")))
        elif number == 3:
            value = _integer(wire, content)
        elif number == 4:
            value = _text(content)
        elif number == 5:
            value = _tensor(_bytes(content), beside)[1]
        elif number == 7:
            lists[7] += _floats(content, "<f4").tolist()
        elif number == 8:
            lists[8] += _integers(wire, content)
    return name, next((found for found in lists.values() if found), value)


def _value_info(data: memoryview) -> tuple[str, tuple[int, ...] | None]:
    name, shape = "", None
    for number, _, content in _fields(data):
        if number == 1:
            name = _text(content)
        elif number == 2:
            for kind, _, tensor in _fields(_bytes(content)):
                if kind == 1:
                    shape = _shape(_bytes(tensor))
    return name, shape


def _shape(data: memoryview) -> tuple[int, ...] | None:
    for number, _, content in _fields(data):
        if number == 2:
            sizes = []
            for n, _, dim in _fields(_bytes(content)):
                if n == 1:
                    known = [_integer(w, c) for k, w, c in _fields(_bytes(dim)) if k == 1]
                    sizes.append(max(0, known[0]) if known else 0)
            if len(sizes) > MOST_AXES:
                raise _DamagedError(f"an input has {len(sizes)} axes")
            return tuple(sizes)
    return None


def _tensor(data: memoryview, beside: _Beside) -> tuple[str, AnyArray]:
    name, kind, raw, is_outside = "", 0, None, False
    dims: list[int] = []
    listed: list[AnyArray] = []
    outside: dict[str, str] = {}
    for number, wire, content in _fields(data):
        if number == 1:
            dims += _integers(wire, content)
        elif number == 2:
            kind = _integer(wire, content)
        elif number in (4, 10):
            listed.append(_floats(content, "<f4" if number == 4 else "<f8"))
        elif number in (5, 7, 11):
            packed = np.array(_integers(wire, content)) if wire == 0 else None
            listed.append(_packed_integers(_bytes(content)) if packed is None else packed)
        elif number == 8:
            name = _text(content)
        elif number == 9:
            raw = _bytes(content)
        elif number == 13:
            entry = _entry(content)
            outside[entry[0]] = entry[1]
        elif number == 14:
            is_outside = content != 0
        elif number == 3:
            raise _DamagedError(f"the tensor `{name:.60}` is stored in segments")
    if kind not in _TYPES:
        raise _DamagedError(f"the tensor `{name:.60}` has the unsupported type {kind}")
    if len(dims) > MOST_AXES:
        raise _DamagedError(f"the tensor `{name:.60}` has {len(dims)} axes")
    if any(n < 0 for n in dims):
        raise _DamagedError(f"the tensor `{name:.60}` has a negative size")
    if is_outside:
        raw = _outside(name, outside, beside)
    return name, _array(name, kind, dims, raw, np.concatenate([np.empty(0, "?"), *listed]))


def _array(
    name: str, kind: int, dims: list[int], raw: memoryview | None, listed: AnyArray
) -> AnyArray:
    size, stored = prod(dims), _TYPES[kind]
    is_short = stored == "bfloat16"
    dtype = np.dtype("<u2" if is_short else stored)
    n = len(listed) if raw is None else len(raw) / dtype.itemsize
    if n != size:
        raise _DamagedError(f"the tensor `{name:.60}` of shape {tuple(dims)} holds {n:g} numbers")
    if raw is not None:
        array = np.frombuffer(raw, dtype)
    elif kind == 10 or is_short:  # Halves are listed by their bits.
        array = listed.astype("<u2").view("<u2" if is_short else "<f2")
    elif listed.dtype.kind == "f" and dtype.kind != "f":
        raise _DamagedError(f"the tensor `{name:.60}` lists numbers of another type")
    else:
        array = listed.astype(dtype)
    if is_short:
        array = (array.astype("<u4") << 16).view("<f4")
    try:
        return array.reshape(dims)
    except (ValueError, OverflowError):
        raise _DamagedError(f"the tensor `{name:.60}` has the shape {dims!s:.100}") from None


def _outside(name: str, entries: dict[str, str], beside: _Beside) -> memoryview:
    """Read a part of a file beside the model."""
    location = entries.get("location", "")
    if Path(location).name != location or location in ("", ".", ".."):
        raise _DamagedError(
            f"the tensor `{name:.60}` is kept in {location!r:.60}, which is not beside the model"
        )
    path = beside.folder / location
    if path.is_symlink() or not path.is_file():
        raise _DamagedError(f"the file {location!r:.60} with the tensor `{name:.60}` is missing")
    total = path.stat().st_size
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", str(total - offset)))
    except ValueError:
        raise _DamagedError(f"the tensor `{name:.60}` has no sound place in its file") from None
    beside.n_read[location] = beside.n_read.get(location, 0) + max(length, 0)
    if min(offset, length) < 0 or offset + length > total:
        raise _DamagedError(f"the tensor `{name:.60}` lies beyond the end of {location!r:.60}")
    if beside.n_read[location] > total:
        raise _DamagedError(f"the tensors in {location!r:.60} overlap")
    with path.open("rb") as file:
        file.seek(offset)
        return memoryview(file.read(length))
