"""Safetensors files with a JSON header: written atomically, read without trusting the content.

The header, one metadata entry, describes the structure of the tensors. Reading never executes code,
and readers request every tensor and field by name: a missing or superfluous one is an error. The
header contains a hash of itself and of the tensors, which detects damaged files; it is not a
signature. Older formats (whose names end in `/1`) have no hash. They are still read, but not
verified; save the file again to add a hash.
"""

import json
import os
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.deadlines import check_time
from hardmax._ground.files import atomic_write, check_ending
from hardmax._ground.json_text import parse_json
from hardmax._ground.records import fingerprint
from hardmax._ground.size_limits import MOST_AXES, check_tensor_count
from hardmax.errors import RecordFormatError
from hardmax.models.argmax import AffineMap
from hardmax.typing import AnyArray

_METADATA_KEY = "hardmax"
_ENTRY = {"dtype", "shape", "data_offsets"}
_HASH = "content"
_DTYPES = {
    **{f"F{8 * n}": f"<f{n}" for n in (2, 4, 8)},
    **{f"I{8 * n}": f"<i{n}" for n in (1, 2, 4, 8)},
    **{f"U{8 * n}": f"<u{n}" for n in (1, 2, 4, 8)},
    "BOOL": "?",
    "BF16": "<u2",
}
_KINDS = {np.dtype(text).str: kind for kind, text in _DTYPES.items() if kind != "BF16"}


def write_tensor_file(
    path: str | os.PathLike[str], header: Mapping[str, Any], tensors: Mapping[str, AnyArray]
) -> None:
    """Write tensors and their header, atomically: a failure leaves an existing file unchanged.

    Raises:
        ArgumentError: If `path` has a suffix other than `.safetensors`.
    """
    if Path(path).suffix:
        check_ending(path, (".safetensors",))
    content = tensor_bytes(header, tensors)
    with atomic_write(path) as stream:
        stream.write(content)


def tensor_bytes(header: Mapping[str, Any], tensors: Mapping[str, AnyArray]) -> bytes:
    """Return the content of a safetensors file with tensors, their header, and a hash of both.

    Large tensors are copied one by one, so that a time limit can end it; `safetensors.numpy.save`
    returns the same bytes, but is one step, and several times slower for a gigabyte.
    """
    dense = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    fields = {**header, _HASH: content_hash(header, dense)}
    ordered = sorted(dense.items(), key=lambda item: (-item[1].itemsize, item[0]))
    described: dict[str, Any] = {
        "__metadata__": {_METADATA_KEY: json.dumps(fields, sort_keys=True)}
    }
    end = 0
    for name, array in ordered:
        place = [end, end + array.nbytes]
        kind = _KINDS[array.dtype.newbyteorder("<").str]
        described[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": place}
        end = place[1]
    text = json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    content = bytearray(len(text).to_bytes(8, "little") + text)
    for _, array in ordered:
        check_time()
        little = np.asarray(array, array.dtype.newbyteorder("<"))
        content += little.reshape(-1).view(np.uint8).data
    return bytes(content)


def content_hash(header: Mapping[str, Any], tensors: Mapping[str, AnyArray]) -> str:
    """Hash a header (without its own hash) and the tensors with their names, types and shapes."""
    plain = {name: value for name, value in header.items() if name != _HASH}
    return fingerprint([json.dumps(plain, sort_keys=True), dict(tensors)])


def read_tensors(path: str | os.PathLike[str]) -> tuple[str | None, dict[str, AnyArray]]:
    """Read the tensors of any safetensors file, and the text of its hardmax header.

    Returns:
        The header, or None if the file has no header of this library; and the tensors by name, with
        bfloat16 converted to float32.

    Raises:
        RecordFormatError: If the file is not safetensors, or contains types that NumPy does not
            have.
    """
    return split_tensor_bytes(Path(path).read_bytes(), path)


def split_tensor_bytes(
    content: bytes, path: str | os.PathLike[str]
) -> tuple[str | None, dict[str, AnyArray]]:
    """Parse the content of a file as `read_tensors` does; `path` is only used in messages."""
    try:
        return _parse_content(content)
    except RecordFormatError as error:
        raise RecordFormatError(
            f"`path` must be a safetensors file with types that NumPy has; reading {path} failed: "
            f"{str(error).rstrip('.')}."
        ) from None


def _parse_content(content: bytes) -> tuple[str | None, dict[str, AnyArray]]:
    """Return the hardmax header and views of the tensors."""
    n_header = int.from_bytes(content[:8], "little")
    if len(content) < 8 or n_header > len(content) - 8:
        raise RecordFormatError("its header extends beyond the end of the file")
    try:
        text = content[8 : 8 + n_header].decode()
    except UnicodeDecodeError as error:
        raise RecordFormatError(f"its header is not UTF-8: {error}") from None
    # Every tensor has this entry, so too long a header can be refused before it is parsed.
    check_tensor_count(text.count('"data_offsets"'))
    described = parse_json(text)
    if not isinstance(described, dict):
        raise RecordFormatError("its header is not a JSON object")
    metadata = described.pop("__metadata__", None)
    if not isinstance(metadata, dict | None):
        raise RecordFormatError("its metadata is not a JSON object")
    check_tensor_count(len(described))
    if _METADATA_KEY in (metadata or {}):
        _check_layout(text)
    data = memoryview(content)[8 + n_header :]
    places = [(*_parse_entry(name, entry), name) for name, entry in described.items()]
    end = 0
    # The tensors must be contiguous, so that no bytes belong to two of them.
    for start, stop, _, _, name in sorted(places):
        if start != end:
            raise RecordFormatError(
                f"the tensor `{name:.60}` does not start where the previous one ends"
            )
        end = stop
    if end != len(data):
        raise RecordFormatError(f"its tensors take {end:,} bytes, but it has {len(data):,}")
    found = {name: _view_tensor(data[a:b], kind, shape) for a, b, kind, shape, name in places}
    return (metadata or {}).get(_METADATA_KEY), {name: found[name] for name in sorted(found)}


def _parse_entry(name: str, entry: Any) -> tuple[int, int, str, tuple[int, ...]]:
    """Return the start and end offsets of a tensor, its type and its shape."""
    entry = entry if isinstance(entry, dict) else {}
    kind, shape, place = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(kind, str) or kind not in _DTYPES:
        raise RecordFormatError(f"the tensor `{name:.60}` has the unsupported type {kind!r:.40}")
    are_sizes = all(
        isinstance(sizes, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in sizes)
        for sizes in (shape, place)
    )
    if not are_sizes or len(place) != 2 or len(shape) > MOST_AXES:
        raise RecordFormatError(f"the tensor `{name:.60}` has an invalid shape or offset")
    n_bytes = prod(shape) * np.dtype(_DTYPES[kind]).itemsize
    if place[1] - place[0] != n_bytes:
        raise RecordFormatError(
            f"the shape {shape!s:.100} of the tensor `{name:.60}` does not fit its number of bytes"
        )
    return place[0], place[1], kind, tuple(shape)


def _view_tensor(data: memoryview, kind: str, shape: tuple[int, ...]) -> AnyArray:
    flat = np.frombuffer(data, _DTYPES[kind])
    if not flat.flags.aligned:
        flat = flat.copy()
    try:
        return (widen_bfloat16(flat) if kind == "BF16" else flat).reshape(shape)
    except ValueError as error:  # An empty tensor can have sizes that exceed NumPy's limit.
        raise RecordFormatError(f"a tensor has the shape {shape!s:.100}: {error}") from None


def _check_layout(text: str) -> None:
    """Refuse a hardmax header that another reader might interpret differently.

    Readers of safetensors disagree about duplicate names, unknown fields, and entries that are
    lists.
    """
    header = parse_json(text, floats=False)
    del header["__metadata__"]
    for name, entry in header.items():
        if not isinstance(entry, dict) or entry.keys() != _ENTRY:
            raise RecordFormatError(
                f"the tensor {name!r:.60} must have exactly the fields {sorted(_ENTRY)}"
            )
    if not text.startswith("{"):
        raise RecordFormatError("the header must begin with a brace")


def widen_bfloat16(array: AnyArray) -> AnyArray:
    """Convert bfloat16 numbers, given as uint16, to float32, whose upper half they are.

    Examples:
        >>> widen_bfloat16(np.array([0x3F80, 0xC000], dtype=np.uint16)).tolist()
        [1.0, -2.0]
    """
    return (array.astype(np.uint32) << 16).view(np.float32)


def read_tensor_file(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Read the header fields and the tensors of a file that `write_tensor_file` wrote.

    Raises:
        RecordFormatError: If the file is not safetensors, has no header or one that is not a JSON
            object, has a tensor of a type other than F64 (I64 for `starts`, `slots` and `reads`),
            or was modified after it was written.
    """
    return check_tensors(*read_tensors(path), path)


def check_tensors(
    header: str | None, tensors: dict[str, AnyArray], path: str | os.PathLike[str]
) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Verify types and hash, and return the fields of the header and the tensors."""
    must = f"`path` must hold a model; reading {path} failed:"
    if header is None:
        raise RecordFormatError(f"{must} the metadata has no entry `{_METADATA_KEY}`.")
    for name, array in tensors.items():
        is_index = name.rpartition(".")[2] in ("starts", "slots", "reads")
        expected = np.int64 if is_index else np.float64
        if array.dtype != expected:
            raise RecordFormatError(
                f"{must} the tensor `{name}` has dtype {array.dtype} instead of "
                f"{np.dtype(expected)}."
            )
    try:
        fields = parse_json(header)
    except RecordFormatError as error:
        raise RecordFormatError(f"{must} the metadata is not valid JSON: {error}") from None
    if not isinstance(fields, dict):
        raise RecordFormatError(f"{must} the metadata is not a JSON object.")
    has_hash, found = _HASH in fields, fields.pop(_HASH, None)
    is_old = str(fields.get("format")).endswith("/1")
    if has_hash == is_old or (has_hash and found != content_hash(fields, tensors)):
        raise RecordFormatError(
            f"{must} the file was modified after it was written: its hash `{_HASH}` "
            f"{'is missing' if found is None else 'does not match the content'}."
        )
    return fields, tensors


class TensorSource:
    """The tensors and fields of a file, each of which must be taken exactly once."""

    def __init__(self, fields: dict[str, Any], tensors: Mapping[str, AnyArray]) -> None:
        self.fields = fields
        self._tensors = dict(tensors)
        self.n_tensors = len(tensors)
        self.n_numbers = sum(array.size for array in tensors.values())

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take_tensor(self, name: str) -> AnyArray:
        """Take a tensor out of the file."""
        if name not in self._tensors:
            raise RecordFormatError(f"the tensor `{name}` is missing.")
        return self._tensors.pop(name)

    def take_arrays(self, prefix: str, names: tuple[str, ...]) -> dict[str, AnyArray]:
        """Take the tensors with the given names and a common prefix; return them by name."""
        return {name: self.take_tensor(prefix + name) for name in names}

    def take_affine(self, prefix: str) -> AffineMap:
        """Take an affine map out of the file."""
        return AffineMap(**self.take_arrays(prefix, ("weight", "bias")))

    def take_identity(self, prefix: str) -> AffineMap:
        """Take an identity map, of which the file stores only the zero bias."""
        bias = self.take_tensor(f"{prefix}bias")
        if bias.ndim != 1 or bias.any():
            raise RecordFormatError(f"the tensor `{prefix}bias` of an identity map must be zero.")
        return AffineMap.identity(len(bias))

    def finish(self) -> None:
        """Raise if any field or tensor has not been taken."""
        refuse_rest({**self._tensors, **self.fields})


def refuse_rest(left: Mapping[str, object]) -> None:
    """Raise if any field or tensor is left over."""
    if left:
        raise RecordFormatError(f"`{min(left)}` is not a field or tensor of this kind of model.")


def take_field(fields: dict[str, Any], name: str, kind: type) -> Any:
    """Take a field out of a header and check that it has exactly the given type."""
    value = fields.pop(name, None)
    if type(value) is not kind:
        raise RecordFormatError(f"`{name}` must be a {kind.__name__}; got {value!r:.60}.")
    return value
