"""What the footer of a Parquet file announces, read without pyarrow.

pyarrow ends the process (`std::terminate`) when it is asked about a column chunk whose description
is damaged. So sizes are read here before pyarrow is asked anything: the footer is a structure of
Thrift's compact protocol, fields by number, of which few are needed and all others are skipped.
"""

import os
from typing import Any, NamedTuple

_MAGIC = b"PAR1"
_DEEPEST = 24
"""Structures in structures; those of Parquet are five deep."""
_MOST_BYTES = 1 << 28

Struct = dict[int, Any]
"""The fields of a structure by their numbers."""


class Chunk(NamedTuple):
    """A column of a group of rows.

    Attributes:
        type: The physical type, as a number of the format.
        width: How many bytes an entry has by its schema; 0 if it is not of a fixed length.
        n_values: How many entries.
        n_bytes: How many bytes its pages have before they are compressed.
    """

    type: int
    width: int
    n_values: int
    n_bytes: int


class RowGroup(NamedTuple):
    """A group of rows."""

    n_rows: int
    chunks: tuple[Chunk, ...]


def read_footer(path: str | os.PathLike[str]) -> tuple[int, tuple[RowGroup, ...]]:
    """Return the number of rows that a footer announces, and its groups of rows.

    Raises:
        ValueError: If it is no footer, or a size in it is negative or missing.
    """
    with open(path, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(size - 8, 0))
        tail = stream.read(8)
        n_bytes = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or n_bytes > min(size - 8, _MOST_BYTES):
            raise ValueError("it does not end with a footer")
        stream.seek(size - 8 - n_bytes)
        footer = _Compact(stream.read(n_bytes)).struct(0)
    leaves = [_size(entry, 2, 0) for entry in _list(footer, 2) if not _size(entry, 5, 0)]
    groups = []
    for group in _list(footer, 4):
        columns = _list(group, 1)
        if len(columns) != len(leaves):
            raise ValueError(f"a group of rows has {len(columns)} columns of {len(leaves)}")
        chunks = []
        for column, width in zip(columns, leaves, strict=True):
            about = _struct(column.get(3))
            chunks.append(Chunk(_size(about, 1), width, _size(about, 5), _size(about, 6)))
        groups.append(RowGroup(_size(group, 3), tuple(chunks)))
    return _size(footer, 3), tuple(groups)


def _size(struct: Struct, field: int, default: int | None = None) -> int:
    value = struct.get(field, default)
    if type(value) is not int or value < 0:
        raise ValueError(f"a size of the footer must not be negative or missing; got {value!r:.60}")
    return value


def _list(struct: Struct, field: int) -> list[Struct]:
    value = struct.get(field)
    if not isinstance(value, list):
        raise ValueError("the footer must list columns and groups of rows")
    return [_struct(entry) for entry in value]


def _struct(value: Any) -> Struct:
    if not isinstance(value, dict):
        raise ValueError("the footer must describe columns and groups of rows")
    return value


class _Compact:
    """Reads the compact protocol of Thrift."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def struct(self, depth: int) -> Struct:
        if depth > _DEEPEST:
            raise ValueError("the footer is nested too deeply")
        fields: Struct = {}
        number = 0
        while header := self._byte():
            step, kind = header >> 4, header & 15
            number = number + step if step else self._integer()
            # Truth values of fields are in their types.
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth + 1)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2, 3):
            return self._byte()
        if kind in (4, 5, 6):
            return self._integer()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._varint())
        if kind in (9, 10):
            return self._list(depth)
        if kind == 11:
            return self._map(depth)
        if kind == 12:
            return self.struct(depth)
        raise ValueError(f"the footer has a value of the unknown type {kind}")

    def _list(self, depth: int) -> list[Any]:
        header = self._byte()
        n, kind = header >> 4, header & 15
        n = self._varint() if n == 15 else n
        self._require(n, depth)
        return [self._value(kind, depth + 1) for _ in range(n)]

    def _map(self, depth: int) -> None:
        n = self._varint()
        kinds = self._byte() if n else 0
        self._require(n, depth)
        for _ in range(n):
            self._value(kinds >> 4, depth + 1)
            self._value(kinds & 15, depth + 1)

    def _require(self, n: int, depth: int) -> None:
        # Every entry has a byte at least.
        if n > len(self._content) - self._at or depth > _DEEPEST:
            raise ValueError("the footer announces more than it has")

    def _byte(self) -> int:
        if self._at >= len(self._content):
            raise ValueError("the footer is cut off")
        self._at += 1
        return self._content[self._at - 1]

    def _bytes(self, n: int) -> bytes:
        self._require(n, 0)
        self._at += n
        return self._content[self._at - n : self._at]

    def _varint(self) -> int:
        found = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found & ((1 << 64) - 1)
        raise ValueError("the footer has an integer of more than 64 bits")

    def _integer(self) -> int:
        zigzag = self._varint()
        return zigzag >> 1 ^ -(zigzag & 1)
