"""Safetensors files with a JSON header: written in one step, read without trust.

The tensors are what they are; the header, one metadata entry, says how they fit together. Nothing
is ever executed while reading, and whoever reads asks for every tensor and field by name: one that
is missing or left over is refused. The header holds a hash of itself and of the tensors, so that a
damaged file is not taken for another model; it is no secret and no signature. Files written before
there was a hash (formats that end in `/1`) are still read, unchecked; saving them again adds it.
"""

import json
import os
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.files import check_ending, replacing
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


def write_tensor_file(
    path: str | os.PathLike[str], header: Mapping[str, Any], tensors: Mapping[str, AnyArray]
) -> None:
    """Write tensors and their header; a crash or a full disk leaves an old file as it was.

    Raises:
        ArgumentError: If `path` has an ending, and it is not `.safetensors`.
    """
    if Path(path).suffix:
        check_ending(path, (".safetensors",))
    content = tensor_bytes(header, tensors)
    with replacing(path) as stream:
        stream.write(content)


def tensor_bytes(header: Mapping[str, Any], tensors: Mapping[str, AnyArray]) -> bytes:
    """Return the content of a safetensors file: tensors, their header, and a hash of both."""
    from safetensors.numpy import save

    dense = {name: np.array(array, order="C") for name, array in tensors.items()}
    fields = {**header, _HASH: content_hash(header, dense)}
    return save(dense, {_METADATA_KEY: json.dumps(fields, sort_keys=True)})


def content_hash(header: Mapping[str, Any], tensors: Mapping[str, AnyArray]) -> str:
    """Hash a header, without its own hash, and the tensors with their names, types and shapes."""
    plain = {name: value for name, value in header.items() if name != _HASH}
    return fingerprint([json.dumps(plain, sort_keys=True), dict(tensors)])


def read_tensors(path: str | os.PathLike[str]) -> tuple[str | None, dict[str, AnyArray]]:
    """Read the header, as text, and the tensors of any safetensors file.

    Returns:
        The header, None if the file has none of this library, and the tensors by name, bfloat16 as
        float32.

    Raises:
        RecordFormatError: If the file is not safetensors, or holds types NumPy does not have.
    """
    return split_tensor_bytes(Path(path).read_bytes(), path)


def split_tensor_bytes(
    content: bytes, path: str | os.PathLike[str]
) -> tuple[str | None, dict[str, AnyArray]]:
    """Do what `read_tensors` does with the content of a file; its path is for messages."""
    try:
        return _split(content)
    except RecordFormatError as error:
        raise RecordFormatError(
            f"`path` must be a safetensors file of numbers NumPy has; reading {path} failed: "
            f"{str(error).rstrip('.')}."
        ) from None


def _split(content: bytes) -> tuple[str | None, dict[str, AnyArray]]:
    """Return the header of this library and views of the tensors."""
    n_header = int.from_bytes(content[:8], "little")
    if len(content) < 8 or n_header > len(content) - 8:
        raise RecordFormatError("its header reaches beyond its end")
    try:
        text = content[8 : 8 + n_header].decode()
    except UnicodeDecodeError as error:
        raise RecordFormatError(f"its header is not UTF-8: {error}") from None
    # Every tensor has this entry, so that a long header is refused before it is parsed.
    check_tensor_count(text.count('"data_offsets"'))
    described = parse_json(text)
    if not isinstance(described, dict):
        raise RecordFormatError("its header is no JSON object")
    metadata = described.pop("__metadata__", None)
    if not isinstance(metadata, dict | None):
        raise RecordFormatError("its metadata are no JSON object")
    check_tensor_count(len(described))
    if _METADATA_KEY in (metadata or {}):
        _check_layout(text)
    data = memoryview(content)[8 + n_header :]
    places = [(*_place(name, entry), name) for name, entry in described.items()]
    end = 0
    # Side by side, so that no number belongs to two tensors.
    for start, stop, _, _, name in sorted(places):
        if start != end:
            raise RecordFormatError(f"the tensor `{name:.60}` does not follow the one before")
        end = stop
    if end != len(data):
        raise RecordFormatError(f"its tensors take {end:,} bytes of {len(data):,}")
    found = {name: _view(data[a:b], kind, shape) for a, b, kind, shape, name in places}
    return (metadata or {}).get(_METADATA_KEY), {name: found[name] for name in sorted(found)}


def _place(name: str, entry: Any) -> tuple[int, int, str, tuple[int, ...]]:
    """Return where a tensor begins and ends, its type and its shape."""
    entry = entry if isinstance(entry, dict) else {}
    kind, shape, place = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(kind, str) or kind not in _DTYPES:
        raise RecordFormatError(f"the type {kind!r:.40} of the tensor `{name:.60}` is not read")
    are_sizes = all(
        isinstance(sizes, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in sizes)
        for sizes in (shape, place)
    )
    if not are_sizes or len(place) != 2 or len(shape) > MOST_AXES:
        raise RecordFormatError(f"the tensor `{name:.60}` has no sound shape and place")
    n_bytes = prod(shape) * np.dtype(_DTYPES[kind]).itemsize
    if place[1] - place[0] != n_bytes:
        raise RecordFormatError(
            f"the tensor `{name:.60}` of shape {shape!s:.100} does not fit its place"
        )
    return place[0], place[1], kind, tuple(shape)


def _view(data: memoryview, kind: str, shape: tuple[int, ...]) -> AnyArray:
    flat = np.frombuffer(data, _DTYPES[kind])
    if not flat.flags.aligned:
        flat = flat.copy()
    try:
        return (widened(flat) if kind == "BF16" else flat).reshape(shape)
    except ValueError as error:  # Sizes of an empty tensor can be beyond those of NumPy.
        raise RecordFormatError(f"a tensor has the shape {shape!s:.100}: {error}") from None


def _check_layout(text: str) -> None:
    """Refuse a header of this library that another reader might take for something else.

    Readers of safetensors differ about names that stand twice, fields they do not know, and
    entries that are lists.
    """
    header = parse_json(text, floats=False)
    del header["__metadata__"]
    for name, entry in header.items():
        if not isinstance(entry, dict) or entry.keys() != _ENTRY:
            raise RecordFormatError(
                f"the tensor {name!r:.60} must have the fields {sorted(_ENTRY)}"
            )
    if not text.startswith("{"):
        raise RecordFormatError("the header must begin with a brace")


def widened(array: AnyArray) -> AnyArray:
    """Return bfloat16 numbers, given as uint16, as float32: they are its upper half.

    Examples:
        >>> widened(np.array([0x3F80, 0xC000], dtype=np.uint16)).tolist()
        [1.0, -2.0]
    """
    return (array.astype(np.uint32) << 16).view(np.float32)


def read_tensor_file(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Read the fields of the header and the tensors that `write_tensor_file` wrote.

    Raises:
        RecordFormatError: If the file is not safetensors, has no header that is a JSON object,
            has a tensor of another type than F64 (I64 for `starts`, `slots` and `reads`), or is not
            as it was written.
    """
    return check_tensors(*read_tensors(path), path)


def check_tensors(
    header: str | None, tensors: dict[str, AnyArray], path: str | os.PathLike[str]
) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Return the fields of a header, without the hash, and the tensors, if both are as written."""
    must = f"`path` must hold a model; in {path}"
    if header is None:
        raise RecordFormatError(f"{must} the metadata have no entry `{_METADATA_KEY}`.")
    for name, array in tensors.items():
        is_index = name.rpartition(".")[2] in ("starts", "slots", "reads")
        expected = np.int64 if is_index else np.float64
        if array.dtype != expected:
            raise RecordFormatError(
                f"{must} the tensor `{name}` has dtype {array.dtype} in place of "
                f"{np.dtype(expected)}."
            )
    try:
        fields = parse_json(header)
    except RecordFormatError as error:
        raise RecordFormatError(f"{must} the metadata are not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise RecordFormatError(f"{must} the metadata are not a JSON object.")
    has_hash, found = _HASH in fields, fields.pop(_HASH, None)
    is_old = str(fields.get("format")).endswith("/1")
    if has_hash == is_old or (has_hash and found != content_hash(fields, tensors)):
        raise RecordFormatError(
            f"{must} the content is not what was written: its hash `{_HASH}` is "
            f"{'missing' if found is None else 'another one'}."
        )
    return fields, tensors


class TensorSource:
    """The tensors and fields of a file, each of which must be asked for exactly once."""

    def __init__(self, fields: dict[str, Any], tensors: Mapping[str, AnyArray]) -> None:
        self.fields = fields
        self._tensors = dict(tensors)
        self.n_tensors = len(tensors)
        self.n_numbers = sum(array.size for array in tensors.values())

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def tensor(self, name: str) -> AnyArray:
        """Take a tensor."""
        if name not in self._tensors:
            raise RecordFormatError(f"the tensor `{name}` is missing.")
        return self._tensors.pop(name)

    def arrays(self, prefix: str, names: tuple[str, ...]) -> dict[str, AnyArray]:
        """Take several tensors with a common prefix, by their own names."""
        return {name: self.tensor(prefix + name) for name in names}

    def affine(self, prefix: str) -> AffineMap:
        """Take an affine map."""
        return AffineMap(**self.arrays(prefix, ("weight", "bias")))

    def identity(self, prefix: str) -> AffineMap:
        """Take an identity, of which the file has only the bias."""
        bias = self.tensor(f"{prefix}bias")
        if bias.ndim != 1 or bias.any():
            raise RecordFormatError(f"the tensor `{prefix}bias` of an identity must be zeros.")
        return AffineMap.identity(len(bias))

    def finish(self) -> None:
        """Refuse what nobody asked for."""
        refuse_rest({**self._tensors, **self.fields})


def refuse_rest(left: Mapping[str, object]) -> None:
    """Refuse fields or tensors that are left over."""
    if left:
        raise RecordFormatError(f"`{min(left)}` does not belong to such a model.")


def take_field(fields: dict[str, Any], name: str, kind: type) -> Any:
    """Take a field of one exact type out of a header."""
    value = fields.pop(name, None)
    if type(value) is not kind:
        raise RecordFormatError(f"`{name}` must be a {kind.__name__}; got {value!r:.60}.")
    return value
