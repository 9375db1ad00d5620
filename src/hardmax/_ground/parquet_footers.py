"""The sizes stated in the footer of a Parquet file, read without pyarrow.

pyarrow ends the process (`std::terminate`) when it accesses a column chunk with damaged metadata.
Hence the sizes are read here, before pyarrow opens the file. The footer is a structure in Thrift's
compact protocol, whose fields are numbered. Only a few fields are needed; the others are skipped.
"""

import os
from typing import Any, NamedTuple

_MAGIC = b"PAR1"
_DEEPEST = 24
"""Maximum nesting depth of structures; the footers of valid files are nested five deep."""
_MOST_BYTES = 1 << 28

Struct = dict[int, Any]
"""The fields of a structure by their numbers."""


class Chunk(NamedTuple):
    """A column of a row group.

    Attributes:
        type: The physical type, as a number of the format.
        width: The number of bytes of an entry according to the schema; 0 if the length varies.
        n_values: The number of entries.
        n_bytes: The uncompressed size of its pages.
    """

    type: int
    width: int
    n_values: int
    n_bytes: int


class RowGroup(NamedTuple):
    """A row group: consecutive rows, stored column by column."""

    n_rows: int
    chunks: tuple[Chunk, ...]


def read_footer(path: str | os.PathLike[str]) -> tuple[int, tuple[RowGroup, ...]]:
    """Return the number of rows stated in a footer, and its row groups.

    Raises:
        ValueError: If the file has no valid footer, or if a size is negative or missing.
    """
    with open(path, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(size - 8, 0))
        tail = stream.read(8)
        n_bytes = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or n_bytes > min(size - 8, _MOST_BYTES):
            raise ValueError("the file does not end with a footer")
        stream.seek(size - 8 - n_bytes)
        footer = _CompactReader(stream.read(n_bytes)).read_struct(0)
    leaves = [
        _check_size(entry, 2, 0) for entry in _check_list(footer, 2) if not _check_size(entry, 5, 0)
    ]
    groups = []
    for group in _check_list(footer, 4):
        columns = _check_list(group, 1)
        if len(columns) != len(leaves):
            raise ValueError(
                f"a row group has {len(columns)} columns, but the schema has {len(leaves)}"
            )
        chunks = []
        for column, width in zip(columns, leaves, strict=True):
            about = _check_struct(column.get(3))
            chunks.append(
                Chunk(_check_size(about, 1), width, _check_size(about, 5), _check_size(about, 6))
            )
        groups.append(RowGroup(_check_size(group, 3), tuple(chunks)))
    return _check_size(footer, 3), tuple(groups)


def _check_size(struct: Struct, field: int, default: int | None = None) -> int:
    value = struct.get(field, default)
    if type(value) is not int or value < 0:
        raise ValueError(f"a size of the footer must not be negative or missing; got {value!r:.60}")
    return value


def _check_list(struct: Struct, field: int) -> list[Struct]:
    value = struct.get(field)
    if not isinstance(value, list):
        raise ValueError("the footer must list columns and row groups")
    return [_check_struct(entry) for entry in value]


def _check_struct(value: Any) -> Struct:
    if not isinstance(value, dict):
        raise ValueError("the footer must describe columns and row groups")
    return value


class _CompactReader:
    """A reader of Thrift's compact protocol."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def read_struct(self, depth: int) -> Struct:
        if depth > _DEEPEST:
            raise ValueError("the footer is nested too deeply")
        fields: Struct = {}
        number = 0
        while header := self._read_byte():
            step, kind = header >> 4, header & 15
            number = number + step if step else self._read_integer()
            # The type of a boolean field contains its value.
            fields[number] = kind == 1 if kind in (1, 2) else self._read_value(kind, depth + 1)
        return fields

    def _read_value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2, 3):
            return self._read_byte()
        if kind in (4, 5, 6):
            return self._read_integer()
        if kind == 7:
            return self._read_bytes(8)
        if kind == 8:
            return self._read_bytes(self._read_varint())
        if kind in (9, 10):
            return self._read_list(depth)
        if kind == 11:
            return self._read_map(depth)
        if kind == 12:
            return self.read_struct(depth)
        raise ValueError(f"the footer has a value of the unknown type {kind}")

    def _read_list(self, depth: int) -> list[Any]:
        header = self._read_byte()
        n, kind = header >> 4, header & 15
        n = self._read_varint() if n == 15 else n
        self._check_length(n, depth)
        return [self._read_value(kind, depth + 1) for _ in range(n)]

    def _read_map(self, depth: int) -> None:
        n = self._read_varint()
        kinds = self._read_byte() if n else 0
        self._check_length(n, depth)
        for _ in range(n):
            self._read_value(kinds >> 4, depth + 1)
            self._read_value(kinds & 15, depth + 1)

    def _check_length(self, n: int, depth: int) -> None:
        # Every entry has at least one byte.
        if n > len(self._content) - self._at or depth > _DEEPEST:
            raise ValueError("the footer is shorter than its fields require")

    def _read_byte(self) -> int:
        if self._at >= len(self._content):
            raise ValueError("the footer is truncated")
        self._at += 1
        return self._content[self._at - 1]

    def _read_bytes(self, n: int) -> bytes:
        self._check_length(n, 0)
        self._at += n
        return self._content[self._at - n : self._at]

    def _read_varint(self) -> int:
        found = 0
        for shift in range(0, 70, 7):
            byte = self._read_byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found & ((1 << 64) - 1)
        raise ValueError("the footer has an integer of more than 64 bits")

    def _read_integer(self) -> int:
        zigzag = self._read_varint()
        return zigzag >> 1 ^ -(zigzag & 1)
