r"""GGUF files: the header of a model, and its tensors as float32.

A file consists of a header with typed entries, a table of tensors, and the blocks of the tensors.
Quantised blocks contain small integers $q$ with shared scales: a number is $d\,q$ or $d\,q + m$,
computed in float32 as in llama.cpp. Every length is checked against the rest of the file before it
is used.
"""

import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.size_limits import check_tensor_count
from hardmax.errors import RecordFormatError
from hardmax.models.tensor_files import widen_bfloat16
from hardmax.typing import AnyArray

MAGIC = b"GGUF"
_NUMBERS = dict(enumerate(("<u1", "<i1", "<u2", "<i2", "<u4", "<i4", "<f4", "|b1")))
_NUMBERS.update({10: "<u8", 11: "<i8", 12: "<f8"})
_TEXT, _LIST = 8, 9
_MOST_AXES = 4


@dataclass(frozen=True, eq=False)
class GgufFile:
    """The content of a GGUF file.

    Attributes:
        fields: The entries of the header by name: numbers, strings, lists.
        tensors: The tensors by name, slowest axis first, as float32 (or as float64 if stored so).
    """

    fields: dict[str, Any]
    tensors: dict[str, AnyArray]


def read_gguf(path: str | os.PathLike[str]) -> GgufFile:
    """Read the header and the tensors of a GGUF file of version 2 or 3.

    Raises:
        RecordFormatError: If the file is damaged or not a GGUF file, or a tensor has an
            unsupported type; the message names the tensor.
    """
    with _name_file_in_errors(path):
        return _parse(memoryview(Path(path).read_bytes()))


def read_gguf_fields(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read only the header of a GGUF file, without loading the tensors."""
    with _name_file_in_errors(path):
        content = np.memmap(path, np.uint8, "r")
        return _read_header(_Cursor(content.data))[0]


@contextmanager
def _name_file_in_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the name of the file to error messages."""
    try:
        yield
    except (RecordFormatError, ValueError, struct.error) as error:
        raise RecordFormatError(
            f"`path` must be a valid GGUF file; reading {path} failed: {str(error).rstrip('.')}."
        ) from None


def _read_header(cursor: "_Cursor") -> tuple[dict[str, Any], int]:
    """Return the entries of a header, and the number of tensors."""
    magic, version = bytes(cursor.take(4)), cursor.read_number("<u4")
    if magic != MAGIC or version not in (2, 3):
        raise RecordFormatError(
            f"it must begin with {MAGIC!r} and version 2 or 3; got {magic!r} and version {version}"
        )
    n_tensors, n_fields = cursor.read_count(24), cursor.read_count(13)
    fields: dict[str, Any] = {}
    for _ in range(n_fields):
        name = cursor.read_text()
        fields[name] = cursor.read_value(cursor.read_number("<u4"))
    return fields, n_tensors


def _parse(content: memoryview) -> GgufFile:
    cursor = _Cursor(content)
    fields, n_tensors = _read_header(cursor)
    check_tensor_count(n_tensors)
    table: dict[str, tuple[tuple[int, ...], int, int]] = {}
    for _ in range(n_tensors):
        name, n_axes = cursor.read_text(), cursor.read_number("<u4")
        if n_axes > _MOST_AXES or name in table:
            raise RecordFormatError(
                f"the tensor `{name:.60}` has {n_axes} axes, more than {_MOST_AXES}, or is listed "
                "twice"
            )
        shape = tuple(cursor.read_number("<u8") for _ in range(n_axes))[::-1]
        table[name] = shape, cursor.read_number("<u4"), cursor.read_number("<u8")
    step = fields.get("general.alignment", 32)
    if type(step) is not int or not 0 < step <= 2**16:
        raise RecordFormatError(
            f"its alignment must be an integer from 1 to 65536; got {step!r:.40}"
        )
    data = content[-(-cursor.at // step) * step :]
    if sum(_count_bytes(name, shape, kind) for name, (shape, kind, _) in table.items()) > len(data):
        raise RecordFormatError("its tensors overlap, or extend beyond the end of the file")
    return GgufFile(fields, {name: _read_tensor(name, data, *row) for name, row in table.items()})


def _count_bytes(name: str, shape: tuple[int, ...], kind: int) -> int:
    """Return the length of a tensor in bytes; its last axis must consist of whole blocks."""
    if kind not in _KINDS:
        known = ", ".join(k.name for k in _KINDS.values())
        raise RecordFormatError(
            f"the tensor `{name:.60}` has the unsupported type {kind}; supported: {known}"
        )
    block = _KINDS[kind]
    if (shape[-1] if shape else 1) % block.n:
        raise RecordFormatError(
            f"the tensor `{name:.60}` of shape {shape} does not consist of whole blocks"
        )
    return prod(shape) // block.n * block.stored.itemsize


def _read_tensor(
    name: str, data: memoryview, shape: tuple[int, ...], kind: int, offset: int
) -> AnyArray:
    n_bytes = _count_bytes(name, shape, kind)
    if offset + n_bytes > len(data):
        raise RecordFormatError(
            f"the tensor `{name:.60}` of shape {shape} extends beyond the end of the file"
        )
    block = _KINDS[kind]
    blocks = np.frombuffer(data[offset : offset + n_bytes], block.stored)
    return np.asarray(block.unpack(blocks)).reshape(shape)


class _Cursor:
    """A position in a file; every read is checked against the end of the file."""

    def __init__(self, content: memoryview) -> None:
        self._content, self.at = content, 0

    def take(self, n: int) -> memoryview:
        if n > len(self._content) - self.at:
            raise RecordFormatError(f"it ends at byte {len(self._content)}, inside its header")
        self.at += n
        return self._content[self.at - n : self.at]

    def read_number(self, kind: str) -> Any:
        return np.frombuffer(self.take(np.dtype(kind).itemsize), kind)[0].item()

    def read_count(self, least: int) -> int:
        """Read a number of entries, each of which takes at least `least` bytes."""
        n = int.from_bytes(self.take(8), "little")
        if n * least > len(self._content) - self.at:
            raise RecordFormatError(f"it declares {n} entries, which do not fit in the file")
        return n

    def read_text(self) -> str:
        return bytes(self.take(self.read_count(1))).decode("utf-8", "replace")

    def read_value(self, kind: int) -> Any:
        if kind in _NUMBERS:
            return self.read_number(_NUMBERS[kind])
        if kind == _TEXT:
            return self.read_text()
        inner = self.read_number("<u4") if kind == _LIST else None
        if inner in _NUMBERS:
            dtype = np.dtype(_NUMBERS[inner])
            numbers = self.take(self.read_count(dtype.itemsize) * dtype.itemsize)
            return np.frombuffer(numbers, dtype).copy()
        if inner == _TEXT:
            return [self.read_text() for _ in range(self.read_count(8))]
        raise RecordFormatError(
            f"an entry has the unsupported type {kind}"
            + ("" if inner is None else f", a list with entries of type {inner}")
        )


def _scale(blocks: AnyArray, name: str = "d") -> AnyArray:
    return np.asarray(blocks[name].astype(np.float32)[:, None])


def _unpack_nibbles(packed: AnyArray, run: int) -> AnyArray:
    """Return the low halves and then the high halves of each `run` bytes: shape `(n, -1, run)`."""
    # The number of runs is stated, because a tensor without blocks has no entries to infer it from.
    n_runs = prod(packed.shape[1:]) // run
    runs = packed.reshape(len(packed), n_runs, 1, run)
    halves = np.concatenate([runs & 15, runs >> 4], axis=2)
    return halves.reshape(len(packed), 2 * n_runs, run)


def _unpack_q4(blocks: AnyArray) -> AnyArray:
    return _unpack_nibbles(blocks["q"], 16).reshape(-1, 32).astype(np.float32)


def _unpack_q5(blocks: AnyArray) -> AnyArray:
    high = np.unpackbits(blocks["h"], axis=1, bitorder="little")
    return np.asarray(_unpack_q4(blocks) + np.float32(16) * high)


def _unpack_k_scales(blocks: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Unpack eight scales and eight minima of six bits each from twelve bytes."""
    a, b, c = (blocks["s"][:, i : i + 4] for i in (0, 4, 8))
    scales = np.concatenate([a & 63, (c & 15) | ((a >> 2) & 48)], axis=1)
    minima = np.concatenate([b & 63, (c >> 4) | ((b >> 2) & 48)], axis=1)
    return (_scale(blocks) * scales)[:, :, None], (_scale(blocks, "m") * minima)[:, :, None]


def _unpack_q4_k(blocks: AnyArray) -> AnyArray:
    scales, minima = _unpack_k_scales(blocks)
    return np.asarray(scales * _unpack_nibbles(blocks["q"], 32).astype(np.float32) - minima)


def _unpack_q5_k(blocks: AnyArray) -> AnyArray:
    scales, minima = _unpack_k_scales(blocks)
    bits = (blocks["h"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None]) & 1
    q = _unpack_nibbles(blocks["q"], 32) + 16 * bits
    return np.asarray(scales * q.astype(np.float32) - minima)


def _unpack_q6_k(blocks: AnyArray) -> AnyArray:
    low = _unpack_nibbles(blocks["q"], 64).reshape(len(blocks), 8, 32)
    runs = blocks["h"].reshape(-1, 2, 1, 32)
    high = (runs >> np.array([0, 2, 4, 6], dtype=np.uint8)[:, None]) & 3
    q = (low | (high.reshape(-1, 8, 32) << 4)).astype(np.float32) - np.float32(32)
    scales = _scale(blocks) * blocks["s"].astype(np.float32)
    return np.asarray(scales[:, :, None] * q.reshape(-1, 16, 16))


@dataclass(frozen=True)
class _TensorType:
    """A type of tensors: the numbers per block, the storage of a block, and its decoder."""

    name: str
    n: int
    stored: np.dtype[Any]
    unpack: Callable[[AnyArray], AnyArray]


def _plain_type(name: str, stored: str, unpack: Callable[[AnyArray], AnyArray]) -> _TensorType:
    return _TensorType(name, 1, np.dtype(stored), unpack)


def _block_type(
    name: str, n: int, parts: str, unpack: Callable[[AnyArray], AnyArray]
) -> _TensorType:
    """Return a type whose blocks have parts such as `d:<f2 q:u1*16`."""
    fields: list[Any] = []
    for part in parts.split():
        label, _, rest = part.partition(":")
        kind, _, length = rest.partition("*")
        fields.append((label, kind, int(length)) if length else (label, kind))
    return _TensorType(name, n, np.dtype(fields), unpack)


_KINDS = {
    0: _plain_type("F32", "<f4", lambda b: b),
    1: _plain_type("F16", "<f2", lambda b: b.astype(np.float32)),
    2: _block_type("Q4_0", 32, "d:<f2 q:u1*16", lambda b: _scale(b) * (_unpack_q4(b) - 8)),
    3: _block_type(
        "Q4_1", 32, "d:<f2 m:<f2 q:u1*16", lambda b: _scale(b) * _unpack_q4(b) + _scale(b, "m")
    ),
    6: _block_type("Q5_0", 32, "d:<f2 h:u1*4 q:u1*16", lambda b: _scale(b) * (_unpack_q5(b) - 16)),
    7: _block_type(
        "Q5_1",
        32,
        "d:<f2 m:<f2 h:u1*4 q:u1*16",
        lambda b: _scale(b) * _unpack_q5(b) + _scale(b, "m"),
    ),
    8: _block_type("Q8_0", 32, "d:<f2 q:i1*32", lambda b: _scale(b) * b["q"]),
    12: _block_type("Q4_K", 256, "d:<f2 m:<f2 s:u1*12 q:u1*128", _unpack_q4_k),
    13: _block_type("Q5_K", 256, "d:<f2 m:<f2 s:u1*12 h:u1*32 q:u1*128", _unpack_q5_k),
    14: _block_type("Q6_K", 256, "q:u1*128 h:u1*64 s:i1*16 d:<f2", _unpack_q6_k),
    28: _plain_type("F64", "<f8", lambda b: b),
    30: _plain_type("BF16", "<u2", widen_bfloat16),
}
