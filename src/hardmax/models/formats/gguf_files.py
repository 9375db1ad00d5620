r"""GGUF files: what they say of a model, and its tensors as float32.

A file is a header of typed entries, a table of tensors, and their blocks. Quantised blocks hold
small integers $q$ with shared scales: a number is $d\,q$ or $d\,q + m$, computed in float32 as
llama.cpp does. Every length is checked against what is left of the file before it is used.
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
    """What a GGUF file holds.

    Attributes:
        fields: The entries of the header by name: numbers, texts, lists.
        tensors: The tensors by name, slowest axis first, as float32 (float64 if stored so).
    """

    fields: dict[str, Any]
    tensors: dict[str, AnyArray]


def read_gguf(path: str | os.PathLike[str]) -> GgufFile:
    """Read the header and the tensors of a GGUF file of version 2 or 3.

    Raises:
        RecordFormatError: If the file is damaged or something else, or a tensor is of a type that
            is not read; the message names it.
    """
    with _naming(path):
        return _parsed(memoryview(Path(path).read_bytes()))


def read_gguf_fields(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read only the header of a GGUF file, however long the file is."""
    with _naming(path):
        content = np.memmap(path, np.uint8, "r")
        return _header(_Cursor(content.data))[0]


@contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in what is said about it."""
    try:
        yield
    except (RecordFormatError, ValueError, struct.error) as error:
        raise RecordFormatError(
            f"`path` must be a GGUF file; {path}: {str(error).rstrip('.')}."
        ) from None


def _header(cursor: "_Cursor") -> tuple[dict[str, Any], int]:
    """The entries of a header, and how many tensors there are."""
    magic, version = bytes(cursor.take(4)), cursor.number("<u4")
    if magic != MAGIC or version not in (2, 3):
        raise RecordFormatError(f"it begins with {magic!r} and version {version}, not GGUF 2 or 3")
    n_tensors, n_fields = cursor.count(24), cursor.count(13)
    fields: dict[str, Any] = {}
    for _ in range(n_fields):
        name = cursor.text()
        fields[name] = cursor.value(cursor.number("<u4"))
    return fields, n_tensors


def _parsed(content: memoryview) -> GgufFile:
    cursor = _Cursor(content)
    fields, n_tensors = _header(cursor)
    check_tensor_count(n_tensors)
    table: dict[str, tuple[tuple[int, ...], int, int]] = {}
    for _ in range(n_tensors):
        name, n_axes = cursor.text(), cursor.number("<u4")
        if n_axes > _MOST_AXES or name in table:
            raise RecordFormatError(f"the tensor `{name:.60}` has {n_axes} axes, or stands twice")
        shape = tuple(cursor.number("<u8") for _ in range(n_axes))[::-1]
        table[name] = shape, cursor.number("<u4"), cursor.number("<u8")
    step = fields.get("general.alignment", 32)
    if type(step) is not int or not 0 < step <= 2**16:
        raise RecordFormatError(f"its alignment is {step!r:.40}")
    data = content[-(-cursor.at // step) * step :]
    if sum(_n_bytes(name, shape, kind) for name, (shape, kind, _) in table.items()) > len(data):
        raise RecordFormatError("its tensors overlap, or reach beyond its end")
    return GgufFile(fields, {name: _tensor(name, data, *row) for name, row in table.items()})


def _n_bytes(name: str, shape: tuple[int, ...], kind: int) -> int:
    """How long a tensor is; its last axis must be one of whole blocks."""
    if kind not in _KINDS:
        known = ", ".join(k.name for k in _KINDS.values())
        raise RecordFormatError(f"the tensor `{name:.60}` has type {kind}; read are {known}")
    block = _KINDS[kind]
    if (shape[-1] if shape else 1) % block.n:
        raise RecordFormatError(f"the tensor `{name:.60}` of shape {shape} is not of whole blocks")
    return prod(shape) // block.n * block.stored.itemsize


def _tensor(
    name: str, data: memoryview, shape: tuple[int, ...], kind: int, offset: int
) -> AnyArray:
    n_bytes = _n_bytes(name, shape, kind)
    if offset + n_bytes > len(data):
        raise RecordFormatError(f"the tensor `{name:.60}` of shape {shape} reaches beyond its end")
    block = _KINDS[kind]
    blocks = np.frombuffer(data[offset : offset + n_bytes], block.stored)
    return np.asarray(block.unpack(blocks)).reshape(shape)


class _Cursor:
    """A place in a file; nothing is taken that is not there."""

    def __init__(self, content: memoryview) -> None:
        self._content, self.at = content, 0

    def take(self, n: int) -> memoryview:
        if n > len(self._content) - self.at:
            raise RecordFormatError(f"it ends at byte {len(self._content)}, within its header")
        self.at += n
        return self._content[self.at - n : self.at]

    def number(self, kind: str) -> Any:
        return np.frombuffer(self.take(np.dtype(kind).itemsize), kind)[0].item()

    def count(self, least: int) -> int:
        """A number of entries of at least so many bytes each."""
        n = int.from_bytes(self.take(8), "little")
        if n * least > len(self._content) - self.at:
            raise RecordFormatError(f"it announces {n} entries, more than it has bytes for")
        return n

    def text(self) -> str:
        return bytes(self.take(self.count(1))).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _TEXT:
            return self.text()
        inner = self.number("<u4") if kind == _LIST else None
        if inner in _NUMBERS:
            dtype = np.dtype(_NUMBERS[inner])
            numbers = self.take(self.count(dtype.itemsize) * dtype.itemsize)
            return np.frombuffer(numbers, dtype).copy()
        if inner == _TEXT:
            return [self.text() for _ in range(self.count(8))]
        raise RecordFormatError(f"an entry has the type {kind}, or a list of {inner}")


def _d(blocks: AnyArray, name: str = "d") -> AnyArray:
    return np.asarray(blocks[name].astype(np.float32)[:, None])


def _nibbles(packed: AnyArray, run: int) -> AnyArray:
    """Of each `run` bytes the low halves, then the high ones: shape `(n, -1, run)`."""
    runs = packed.reshape(len(packed), -1, 1, run)
    halves = np.concatenate([runs & 15, runs >> 4], axis=2)
    return halves.reshape(len(packed), -1, run)


def _q4(blocks: AnyArray) -> AnyArray:
    return _nibbles(blocks["q"], 16).reshape(-1, 32).astype(np.float32)


def _q5(blocks: AnyArray) -> AnyArray:
    high = np.unpackbits(blocks["h"], axis=1, bitorder="little")
    return np.asarray(_q4(blocks) + np.float32(16) * high)


def _k_scales(blocks: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Eight scales and eight minima of six bits each, packed into twelve bytes."""
    a, b, c = (blocks["s"][:, i : i + 4] for i in (0, 4, 8))
    scales = np.concatenate([a & 63, (c & 15) | ((a >> 2) & 48)], axis=1)
    minima = np.concatenate([b & 63, (c >> 4) | ((b >> 2) & 48)], axis=1)
    return (_d(blocks) * scales)[:, :, None], (_d(blocks, "m") * minima)[:, :, None]


def _q4_k(blocks: AnyArray) -> AnyArray:
    scales, minima = _k_scales(blocks)
    return np.asarray(scales * _nibbles(blocks["q"], 32).astype(np.float32) - minima)


def _q5_k(blocks: AnyArray) -> AnyArray:
    scales, minima = _k_scales(blocks)
    bits = (blocks["h"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None]) & 1
    q = _nibbles(blocks["q"], 32) + 16 * bits
    return np.asarray(scales * q.astype(np.float32) - minima)


def _q6_k(blocks: AnyArray) -> AnyArray:
    low = _nibbles(blocks["q"], 64).reshape(len(blocks), 8, 32)
    runs = blocks["h"].reshape(-1, 2, 1, 32)
    high = (runs >> np.array([0, 2, 4, 6], dtype=np.uint8)[:, None]) & 3
    q = (low | (high.reshape(-1, 8, 32) << 4)).astype(np.float32) - np.float32(32)
    scales = _d(blocks) * blocks["s"].astype(np.float32)
    return np.asarray(scales[:, :, None] * q.reshape(-1, 16, 16))


@dataclass(frozen=True)
class _Kind:
    """A type of tensors: how many numbers a block has, how it is stored, and what it means."""

    name: str
    n: int
    stored: np.dtype[Any]
    unpack: Callable[[AnyArray], AnyArray]


def _plain(name: str, stored: str, unpack: Callable[[AnyArray], AnyArray]) -> _Kind:
    return _Kind(name, 1, np.dtype(stored), unpack)


def _blocks(name: str, n: int, parts: str, unpack: Callable[[AnyArray], AnyArray]) -> _Kind:
    """A type whose blocks have parts such as `d:<f2 q:u1*16`."""
    fields: list[Any] = []
    for part in parts.split():
        label, _, rest = part.partition(":")
        kind, _, length = rest.partition("*")
        fields.append((label, kind, int(length)) if length else (label, kind))
    return _Kind(name, n, np.dtype(fields), unpack)


_KINDS = {
    0: _plain("F32", "<f4", lambda b: b),
    1: _plain("F16", "<f2", lambda b: b.astype(np.float32)),
    2: _blocks("Q4_0", 32, "d:<f2 q:u1*16", lambda b: _d(b) * (_q4(b) - 8)),
    3: _blocks("Q4_1", 32, "d:<f2 m:<f2 q:u1*16", lambda b: _d(b) * _q4(b) + _d(b, "m")),
    6: _blocks("Q5_0", 32, "d:<f2 h:u1*4 q:u1*16", lambda b: _d(b) * (_q5(b) - 16)),
    7: _blocks("Q5_1", 32, "d:<f2 m:<f2 h:u1*4 q:u1*16", lambda b: _d(b) * _q5(b) + _d(b, "m")),
    8: _blocks("Q8_0", 32, "d:<f2 q:i1*32", lambda b: _d(b) * b["q"]),
    12: _blocks("Q4_K", 256, "d:<f2 m:<f2 s:u1*12 q:u1*128", _q4_k),
    13: _blocks("Q5_K", 256, "d:<f2 m:<f2 s:u1*12 h:u1*32 q:u1*128", _q5_k),
    14: _blocks("Q6_K", 256, "q:u1*128 h:u1*64 s:i1*16 d:<f2", _q6_k),
    28: _plain("F64", "<f8", lambda b: b),
    30: _plain("BF16", "<u2", widen_bfloat16),
}
