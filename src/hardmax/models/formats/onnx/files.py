"""A reader of ONNX files as data, for the few protobuf messages that describe a graph.

Reading executes no code and requires no other package. Every length is checked against the size of
the file before memory is allocated. Weights in external files are read only from the folder of the
model.
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
        name: The name of the node, often empty.
        domain: The domain of the operator; empty for ONNX itself.
        inputs: The names of the input tensors; an omitted input has an empty name.
        outputs: The names of the output tensors.
        attributes: The attributes by name: numbers, strings, lists of numbers and arrays.
        notes: The exporter's metadata, by name.
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
        nodes: The nodes, in order.
        constants: The initialisers by name.
        inputs: The names and shapes of the inputs, without initialisers. A size that is not fixed
            is 0; a missing shape is None.
        outputs: The names of the outputs.
        version: The version of the operator set.
        n_bytes: The size of the file and of its external data.
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
        RecordFormatError: If the file is damaged, or is not an ONNX file.
    """
    data = Path(path).read_bytes()
    try:
        return _read_model(memoryview(data), _ExternalFiles(Path(path).parent))
    except (_DamagedError, RecordFormatError, UnicodeDecodeError) as error:
        raise RecordFormatError(
            f"`path` must be a valid ONNX file; reading {path} failed: {error}."
        ) from None


class _DamagedError(Exception):
    """A file is damaged or not supported; the message gives the reason."""


class _ExternalFiles:
    """The folder of a model, and the number of bytes read from each file in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.n_read: dict[str, int] = {}


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
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


def _iter_fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and content of each field of a message."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, wire = key >> 3, key & 7
        content: Any
        if wire == 0:
            content, at = _read_varint(data, at)
        elif wire in (1, 2, 5):
            length = 8 if wire == 1 else 4
            if wire == 2:
                length, at = _read_varint(data, at)
            if length > len(data) - at:
                raise _DamagedError("a field extends beyond the end of its message")
            content = data[at : at + length]
            at += length
        else:
            raise _DamagedError(f"it contains a field of the unknown wire type {wire}")
        if number == 0:
            raise _DamagedError("it contains a field without a number")
        yield number, wire, content


def _read_text(content: Any) -> str:
    return str(_check_bytes(content), "utf-8")


def _check_bytes(content: Any) -> memoryview:
    if not isinstance(content, memoryview):
        raise _DamagedError("a field is a number instead of a sequence of bytes")
    return content


def _to_signed_integer(value: Any) -> int:
    if not isinstance(value, int):
        raise _DamagedError("a field that must be a number is a sequence of bytes")
    return value - (1 << 64) if value >> 63 else value


def _read_integers(wire: int, content: Any) -> list[int]:
    """Return one integer, or several integers that are packed together."""
    if wire == 0:
        return [_to_signed_integer(content)]
    return [int(value) for value in _unpack_integers(_check_bytes(content)).tolist()]


def _unpack_integers(content: memoryview) -> AnyArray:
    """Return the integers of a sequence of varints.

    A varint has up to ten bytes with seven bits each, lowest bits first; the high bit is set in all
    bytes but the last.
    """
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


def _read_integer(wire: int, content: Any) -> int:
    return int(_take_one(_read_integers(wire, content)))


def _read_floats(content: Any, kind: str) -> AnyArray:
    data = _check_bytes(content)
    if len(data) % np.dtype(kind).itemsize:
        raise _DamagedError("a list of numbers ends in the middle of a number")
    return np.frombuffer(data, kind)


def _take_one(numbers: Any) -> Any:
    if len(numbers) != 1:
        raise _DamagedError(f"a field must contain one number; got {len(numbers)}")
    return numbers[0]


def _read_model(data: memoryview, files: _ExternalFiles) -> OnnxGraph:
    graph, version = None, 0
    for number, _, content in _iter_fields(data):
        if number == 7:
            graph = _check_bytes(content)
        elif number == 8:
            domain, found = "", 0
            for n, w, c in _iter_fields(_check_bytes(content)):
                domain = _read_text(c) if n == 1 else domain
                found = _read_integer(w, c) if n == 2 else found
            version = found if domain in ("", "ai.onnx") else version
    if graph is None:
        raise _DamagedError("it has no graph")
    nodes, constants, inputs, outputs = [], {}, [], []
    for number, _, content in _iter_fields(graph):
        if number == 1:
            nodes.append(_read_node(_check_bytes(content), files))
        elif number == 5:
            name, array = _read_tensor(_check_bytes(content), files)
            constants[name] = array
            check_tensor_count(len(constants))
        elif number == 11:
            inputs.append(_read_value_info(_check_bytes(content)))
        elif number == 12:
            outputs.append(_read_value_info(_check_bytes(content))[0])
        elif number == 15:
            raise _DamagedError("it contains sparse tensors, which are not supported")
    free = tuple((name, shape) for name, shape in inputs if name not in constants)
    total = len(data) + sum(files.n_read.values())
    return OnnxGraph(tuple(nodes), constants, free, tuple(outputs), version, total)


def _read_node(data: memoryview, files: _ExternalFiles) -> OnnxNode:
    inputs, outputs, attributes, notes = [], [], {}, {}
    texts = {3: "", 4: "", 7: ""}
    for number, _, content in _iter_fields(data):
        if number == 1:
            inputs.append(_read_text(content))
        elif number == 2:
            outputs.append(_read_text(content))
        elif number in texts:
            texts[number] = _read_text(content)
        elif number == 5:
            name, value = _read_attribute(_check_bytes(content), files)
            attributes[name] = value
        elif number == 9:
            entry = _read_entry(content)
            notes[entry[0]] = entry[1]
    ends = tuple(inputs), tuple(outputs)
    return OnnxNode(texts[4], texts[3], texts[7], *ends, attributes, notes)


def _read_entry(content: Any) -> tuple[str, str]:
    """Return the key and the value of an entry."""
    found = {number: _read_text(said) for number, _, said in _iter_fields(_check_bytes(content))}
    return found.get(1, ""), found.get(2, "")


def _read_attribute(data: memoryview, files: _ExternalFiles) -> tuple[str, Any]:
    name = ""
    value: Any = None
    lists: dict[int, list[Any]] = {7: [], 8: []}
    for number, wire, content in _iter_fields(data):
        if number == 1:
            name = _read_text(content)
        elif number == 2:
            value = float(_take_one(_read_floats(content, "<f4")))
        elif number == 3:
            value = _read_integer(wire, content)
        elif number == 4:
            value = _read_text(content)
        elif number == 5:
            value = _read_tensor(_check_bytes(content), files)[1]
        elif number == 7:
            lists[7] += _read_floats(content, "<f4").tolist()
        elif number == 8:
            lists[8] += _read_integers(wire, content)
    return name, next((found for found in lists.values() if found), value)


def _read_value_info(data: memoryview) -> tuple[str, tuple[int, ...] | None]:
    name, shape = "", None
    for number, _, content in _iter_fields(data):
        if number == 1:
            name = _read_text(content)
        elif number == 2:
            for kind, _, tensor in _iter_fields(_check_bytes(content)):
                if kind == 1:
                    shape = _read_shape(_check_bytes(tensor))
    return name, shape


def _read_shape(data: memoryview) -> tuple[int, ...] | None:
    for number, _, content in _iter_fields(data):
        if number == 2:
            sizes = []
            for n, _, dim in _iter_fields(_check_bytes(content)):
                if n == 1:
                    known = [
                        _read_integer(w, c) for k, w, c in _iter_fields(_check_bytes(dim)) if k == 1
                    ]
                    sizes.append(max(0, known[0]) if known else 0)
            if len(sizes) > MOST_AXES:
                raise _DamagedError(f"an input has {len(sizes)} axes, more than {MOST_AXES}")
            return tuple(sizes)
    return None


def _read_tensor(data: memoryview, files: _ExternalFiles) -> tuple[str, AnyArray]:
    name, kind, raw, is_outside = "", 0, None, False
    dims: list[int] = []
    listed: list[AnyArray] = []
    outside: dict[str, str] = {}
    for number, wire, content in _iter_fields(data):
        if number == 1:
            dims += _read_integers(wire, content)
        elif number == 2:
            kind = _read_integer(wire, content)
        elif number in (4, 10):
            listed.append(_read_floats(content, "<f4" if number == 4 else "<f8"))
        elif number in (5, 7, 11):
            packed = np.array(_read_integers(wire, content)) if wire == 0 else None
            listed.append(_unpack_integers(_check_bytes(content)) if packed is None else packed)
        elif number == 8:
            name = _read_text(content)
        elif number == 9:
            raw = _check_bytes(content)
        elif number == 13:
            entry = _read_entry(content)
            outside[entry[0]] = entry[1]
        elif number == 14:
            is_outside = content != 0
        elif number == 3:
            raise _DamagedError(
                f"the tensor `{name:.60}` is stored in segments, which are not supported"
            )
    if kind not in _TYPES:
        raise _DamagedError(f"the tensor `{name:.60}` has the unsupported type {kind}")
    if len(dims) > MOST_AXES:
        raise _DamagedError(f"the tensor `{name:.60}` has {len(dims)} axes, more than {MOST_AXES}")
    if any(n < 0 for n in dims):
        raise _DamagedError(f"the tensor `{name:.60}` has a negative size")
    if is_outside:
        raw = _read_external(name, outside, files)
    return name, _build_array(name, kind, dims, raw, np.concatenate([np.empty(0, "?"), *listed]))


def _build_array(
    name: str, kind: int, dims: list[int], raw: memoryview | None, listed: AnyArray
) -> AnyArray:
    size, stored = prod(dims), _TYPES[kind]
    is_short = stored == "bfloat16"
    dtype = np.dtype("<u2" if is_short else stored)
    n = len(listed) if raw is None else len(raw) / dtype.itemsize
    if n != size:
        raise _DamagedError(
            f"the tensor `{name:.60}` of shape {tuple(dims)} has data for {n:g} entries"
        )
    if raw is not None:
        array = np.frombuffer(raw, dtype)
    elif kind == 10 or is_short:  # Half-precision numbers are listed as integers with their bits.
        array = listed.astype("<u2").view("<u2" if is_short else "<f2")
    elif listed.dtype.kind == "f" and dtype.kind != "f":
        raise _DamagedError(f"the tensor `{name:.60}` contains numbers of the wrong type")
    else:
        array = listed.astype(dtype)
    if is_short:
        array = (array.astype("<u4") << 16).view("<f4")
    try:
        return array.reshape(dims)
    except (ValueError, OverflowError):
        raise _DamagedError(
            f"the tensor `{name:.60}` has the invalid shape {dims!s:.100}"
        ) from None


def _read_external(name: str, entries: dict[str, str], files: _ExternalFiles) -> memoryview:
    """Read a part of an external file in the folder of the model."""
    location = entries.get("location", "")
    if Path(location).name != location or location in ("", ".", ".."):
        raise _DamagedError(
            f"the tensor `{name:.60}` is stored in {location!r:.60}, which is not a file in the "
            "folder of the model"
        )
    path = files.folder / location
    if path.is_symlink() or not path.is_file():
        raise _DamagedError(f"the file {location!r:.60} with the tensor `{name:.60}` is missing")
    total = path.stat().st_size
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", str(total - offset)))
    except ValueError:
        raise _DamagedError(f"the tensor `{name:.60}` has an invalid offset or length") from None
    files.n_read[location] = files.n_read.get(location, 0) + max(length, 0)
    if min(offset, length) < 0 or offset + length > total:
        raise _DamagedError(f"the tensor `{name:.60}` extends beyond the end of {location!r:.60}")
    if files.n_read[location] > total:
        raise _DamagedError(f"the tensors in {location!r:.60} overlap")
    with path.open("rb") as file:
        file.seek(offset)
        return memoryview(file.read(length))
