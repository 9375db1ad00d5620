"""Results stored with their provenance: parameters, seed, versions, input hash, wall time.

A `Record` is written as plain JSON and is read back bit for bit: Python writes the shortest decimal
that identifies a float64, infinities and NaN are written as words, and arrays are stored with dtype
and shape. Reading a record never executes code.
"""

import hashlib
import json
import os
import platform
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.deadlines import check_time
from hardmax._ground.display import html_card, short_repr
from hardmax._ground.files import read_text, write_text
from hardmax._ground.json_text import MOST_NESTED, parse_json
from hardmax.errors import ArgumentError, DtypeError, HardmaxError, RecordFormatError

FORMAT = "hardmax.record/2"
"""The value of `format` in a record; `content` is a hash of the other fields. Records of format
`hardmax.record/1` have no hash. They are still read, but not verified."""
_OLD_FORMAT = "hardmax.record/1"
_LIBRARIES = ("hardmax", "numpy", "scipy", "python-flint", "highspy")
_ARRAY_DTYPES = ("float64", "float32", "int64", "int32", "int8", "uint8", "bool", "object")
_FLOATS = {repr(x): x for x in (float("inf"), float("-inf"), float("nan"))}
_MOST_BITS = 1 << 13
"""Longer integers are written in hexadecimal, because decimal conversion takes quadratic time."""
_MOST_DIGITS = 1 << 14
"""Maximum number of hexadecimal digits of a numerator or denominator, because reducing a fraction
takes quadratic time."""
_MOST_AXES = 32
_CHUNK_DIGITS = 500
_CHUNK_BYTES = 1 << 24
_CHUNK = 10**_CHUNK_DIGITS
"""Integers are converted to decimal in chunks, because Python can be configured to reject long
integers; it always allows at least 640 digits."""
_INTEGER = re.compile(r"-?(0x[0-9a-f]+|[0-9]+)", re.ASCII)


@dataclass(frozen=True, eq=False)
class Record:
    """A result with all data that is needed to reproduce it.

    Two records are equal if their JSON texts are equal, so NaN equals NaN, and arrays are compared
    entry by entry.

    Attributes:
        name: The name of the computation, for example `"minkowski"`.
        parameters: The arguments that are not arrays of weights.
        results: The computed numbers, arrays, strings, lists and mappings.
        seed: The seed of all random choices, or None if there are none.
        inputs: The `fingerprint` of the input weights, or `""` if there are none.
        seconds: The wall time of the computation.
        versions: The version of each library, by name.

    Examples:
        >>> record = Record("demo", {"n_keys": 4}, {"margin": 0.1, "cells": np.array([3, 4])})
        >>> Record.from_json(record.to_json()) == record
        True
        >>> Record.from_json('{"format": "something else"}')
        Traceback (most recent call last):
            ...
        hardmax.errors.RecordFormatError: `text` must be a record of format
        'hardmax.record/2'; got 'something else'.
    """

    name: str
    parameters: Mapping[str, Any]
    results: Mapping[str, Any]
    seed: int | None = None
    inputs: str = ""
    seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=lambda: library_versions())

    __repr__ = short_repr
    _repr_html_ = html_card

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def to_json(self) -> str:
        """Return the record as JSON text, with keys in a fixed order."""
        content = {f.name: _encode(getattr(self, f.name), f.name) for f in fields(self)}
        stored = {"format": FORMAT, "content": _content_hash(content), **content}
        return json.dumps(stored, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Record":
        """Read a record written by `to_json`.

        Raises:
            RecordFormatError: If the text is not such a record.
        """
        content = parse_json(text)
        found = content.pop("format", None) if isinstance(content, dict) else None
        if found not in (FORMAT, _OLD_FORMAT):
            found = found if isinstance(content, dict) else type(content).__name__
            raise RecordFormatError(
                f"`text` must be a record of format {FORMAT!r}; got {found!r:.60}."
            )
        digest = content.pop("content", None)
        values = {key: _decode(value) for key, value in content.items()}
        wanted = {f.name for f in fields(cls)}
        if set(values) != wanted:
            raise RecordFormatError(
                f"`text` must have the fields {sorted(wanted)}; got {sorted(values)!s:.200}."
            )
        for name, (is_right, what) in _FIELD_TYPES.items():
            if not is_right(values[name]):
                raise RecordFormatError(
                    f"`text` must have {what} as `{name}`; got {_describe(values[name])}."
                )
        if digest != (None if found == _OLD_FORMAT else _content_hash(content)):
            raise RecordFormatError(
                "`text` must have the hash `content` with which it was written; it is missing."
                if digest is None
                else "`text` was modified after it was written: its hash `content` does not match."
            )
        return cls(**{**values, "seconds": float(values["seconds"])})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the record to a file atomically; if writing fails, an old file is unchanged."""
        write_text(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Record":
        """Read a record from a file written by `save`.

        Raises:
            RecordFormatError: If the file is not such a record; the message names the file.
        """
        text = read_text(path)
        try:
            return cls.from_json(text)
        except RecordFormatError as error:
            raise RecordFormatError(f"`path` must hold a record; in {path}: {error}") from None


def record(
    name: str,
    compute: Callable[[], Mapping[str, Any]],
    *,
    parameters: Mapping[str, Any] | None = None,
    seed: int | None = None,
    inputs: Any = None,
) -> Record:
    """Run `compute`, measure its time, and return its result as a `Record`.

    Examples:
        >>> record("answer", lambda: {"value": 42}, inputs=np.eye(2)).results["value"]
        42
    """
    start = time.perf_counter()
    results = compute()
    seconds = time.perf_counter() - start
    digest = "" if inputs is None else fingerprint(inputs)
    return Record(name, dict(parameters or {}), dict(results), seed, digest, seconds)


def fingerprint(inputs: Any) -> str:
    """Return a hash of arrays, numbers and strings, nested in lists, mappings and dataclasses.

    Inputs with equal dtypes, shapes and bits have equal hashes on every machine. Changing a bit, a
    shape or a name changes the hash. For an object with a method `hashed_parts`, the return value
    of this method is hashed.

    Examples:
        >>> fingerprint([np.zeros(2), 1]) == fingerprint([np.zeros(2), 1])
        True
        >>> fingerprint(np.zeros((2, 1))) == fingerprint(np.zeros((1, 2)))
        False
    """
    digest = hashlib.sha256()
    _update_hash(digest.update, inputs)
    return digest.hexdigest()


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries a result can depend on."""
    from importlib import metadata  # Importing this takes as long as a small search.

    versions = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return versions


@cache
def code_fingerprint() -> str:
    """Return a hash of all files of this package, computed at the first call in this process.

    Stored results are reused only if the code is the same. The version alone does not identify the
    code during development.
    """
    root = Path(__file__).parents[1]
    paths = [path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    found = {path.relative_to(root).as_posix(): path for path in paths}
    digests = {name: file_digest(path) for name, path in found.items()}
    return fingerprint(digests)


def file_digest(path: str | os.PathLike[str]) -> str | None:
    """Return the SHA-256 of a file, or None if there is no readable file."""
    file = Path(path)
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
    except OSError:  # The name may come from a record and can be any text.
        return None


def _update_hash(update: Callable[[Any], object], value: Any) -> None:
    """Hash one value, preceded by its type and length, so that no two nestings collide."""
    if hasattr(value, "hashed_parts"):
        value = value.hashed_parts()
    elif is_dataclass(value) and not isinstance(value, type):
        value = {
            "": type(value).__name__,
            **{f.name: getattr(value, f.name) for f in fields(value)},
        }
    if isinstance(value, Mapping):
        update(f"map {len(value)};".encode())
        for key in sorted(value):
            _update_hash(update, str(key))
            _update_hash(update, value[key])
    elif isinstance(value, list | tuple):
        update(f"list {len(value)};".encode())
        for item in value:
            _update_hash(update, item)
    elif isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind == "O":
            update(f"array O {array.shape};".encode())
            _update_hash(update, array.ravel().tolist())
        else:
            array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            update(f"array {array.dtype.str} {array.shape};".encode())
            flat = array.reshape(-1).view(np.uint8)
            for start in range(0, len(flat), _CHUNK_BYTES):
                check_time()
                update(flat[start : start + _CHUNK_BYTES])
    elif value is None or isinstance(value, bool | int | float | str | Fraction):
        if isinstance(value, float):
            text = value.hex()
        else:
            text = _format_decimal(value) if type(value) is int else str(value)
        update(f"{type(value).__name__} {len(text)} {text};".encode())
    else:
        raise DtypeError(
            "`inputs` must be arrays, numbers or strings in lists, mappings or dataclasses; "
            f"got {type(value).__name__}."
        )


def _format_decimal(integer: int) -> str:
    """Format an integer in decimal, even if it is too long for `str`."""
    pieces, rest = [], abs(integer)
    while rest >= _CHUNK:
        rest, piece = divmod(rest, _CHUNK)
        pieces.append(f"{piece:0{_CHUNK_DIGITS}d}")
    return "-" * (integer < 0) + "".join([str(rest), *reversed(pieces)])


def _content_hash(content: Mapping[str, Any]) -> str:
    """Return a hash of the fields of a record in JSON form."""
    return fingerprint(json.dumps(content, sort_keys=True))


def _encode(value: Any, where: str, depth: int = 1) -> Any:
    if depth > MOST_NESTED - 2:
        raise ArgumentError(f"`{where:.60}` must be nested at most {MOST_NESTED - 2} levels deep.")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _MOST_BITS else {"$integer": hex(value)}
    if isinstance(value, float):
        return value if np.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, np.generic):
        return _encode(value.item(), where, depth)
    if isinstance(value, Fraction):
        if max(map(int.bit_length, value.as_integer_ratio())) > 4 * _MOST_DIGITS:
            raise ArgumentError(f"`{where}` must hold fractions of at most {_MOST_DIGITS} digits.")
        return {"$fraction": "/".join(map(_format_integer, value.as_integer_ratio()))}
    if isinstance(value, np.ndarray):
        if value.dtype.name not in _ARRAY_DTYPES:
            raise DtypeError(f"`{where}` must hold arrays of {_ARRAY_DTYPES}; got {value.dtype}.")
        flat = [_encode(item, where, depth + 2) for item in value.ravel().tolist()]
        return {"$array": value.dtype.name, "shape": list(value.shape), "data": flat}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) and not key.startswith("$") for key in value):
            raise ArgumentError(
                f"`{where}` must have string keys that do not start with '$'; got {list(value)}."
            )
        return {key: _encode(item, f"{where}.{key}", depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item, where, depth + 1) for item in value]
    raise DtypeError(
        f"`{where}` must hold numbers, strings, arrays, lists and mappings; "
        f"got {type(value).__name__}."
    )


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = next((key for key in value if key.startswith("$")), None)
    if kind is None:
        return {key: _decode(item) for key, item in value.items()}
    try:
        if kind == "$array" and value.keys() == {"$array", "shape", "data"}:
            return _decode_array(value["$array"], value["shape"], value["data"])
        (entry,) = value.values()
        return _SPELLED[kind](entry)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        reason = str(error) if isinstance(error, HardmaxError) else _describe(value)
        raise RecordFormatError(f"`text` holds an invalid value: {reason}.") from None


def _decode_array(dtype: Any, shape: Any, data: Any) -> Any:
    is_shape = isinstance(shape, list) and len(shape) <= _MOST_AXES
    is_shape = is_shape and all(type(n) is int and n >= 0 for n in shape)
    is_known = isinstance(dtype, str) and dtype in _ARRAY_DTYPES
    if not is_known or not is_shape or not isinstance(data, list) or prod(shape) != len(data):
        raise RecordFormatError(
            f"an array of dtype {_describe(dtype)} and shape {_describe(shape)} with "
            f"{len(data) if isinstance(data, list) else 'no'} entries"
        )
    entries = [_decode(item) for item in data]
    array = np.empty(len(entries), dtype=dtype)
    if array.dtype.kind == "O":
        for i, entry in enumerate(entries):
            array[i] = entry
        return array.reshape(shape)
    # NumPy would convert null to NaN, text to numbers, and 0.5 to the integer 0.
    of_kind: dict[str, set[type]] = {"f": {float, int}, "b": {bool}}
    kinds = of_kind.get(array.dtype.kind, {int})
    if not set(map(type, entries)) <= kinds:
        raise RecordFormatError(f"an array of {dtype} with entries of the wrong type")
    with np.errstate(over="ignore"):
        try:
            array[:] = entries
        except OverflowError:
            raise RecordFormatError(f"an array of {dtype} with entries out of range") from None
    if any(x != y and y == y for x, y in zip(array.tolist(), entries, strict=True)):
        raise RecordFormatError(f"an array of {dtype} with entries that would be rounded")
    return array.reshape(shape)


def _format_integer(integer: int) -> str:
    return str(integer) if integer.bit_length() <= _MOST_BITS else hex(integer)


def _parse_integer(word: Any) -> int:
    """Parse an integer without exponent, blanks, underscores or non-ASCII digits."""
    if not isinstance(word, str) or not _INTEGER.fullmatch(word):
        raise ValueError(word)
    return int(word, 16 if "0x" in word else 10)


def _parse_fraction(word: Any) -> Fraction:
    if not isinstance(word, str):
        raise TypeError(word)
    numerator, _, denominator = word.partition("/")
    if max(len(numerator), len(denominator)) > _MOST_DIGITS + 3:
        raise ValueError(word)
    return Fraction(_parse_integer(numerator), _parse_integer(denominator or "1"))


_SPELLED: dict[str, Callable[[Any], Any]] = {
    "$float": _FLOATS.__getitem__,
    "$integer": _parse_integer,
    "$fraction": _parse_fraction,
}


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_exact_integer(value: Any) -> bool:
    return type(value) is int and abs(value) <= 1 << 53


_FIELD_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (_is_text, "text"),
    "parameters": (_is_mapping, "an object"),
    "results": (_is_mapping, "an object"),
    "seed": (lambda value: value is None or type(value) is int, "an integer or null"),
    "inputs": (_is_text, "text"),
    "seconds": (lambda value: type(value) is float or _is_exact_integer(value), "a number"),
    "versions": (lambda value: _is_mapping(value) and all(map(_is_text, value.values())), "texts"),
}


def _describe(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # An integer with too many digits for `repr`.
        text = f"a long {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
