"""Results that say where they come from: parameters, seed, versions, input hash, wall time.

A `Record` is written as plain JSON and reads back bit for bit: Python writes the shortest decimal
that identifies a float64, infinities and NaN are spelled out, and arrays carry their dtype and
shape. Nothing is ever executed while reading.
"""

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from functools import cache
from importlib import metadata, resources
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from hardmax.display import html_card, short_repr
from hardmax.errors import ArgumentError, DtypeError, RecordFormatError
from hardmax.files import read_text, write_text

FORMAT = "hardmax.record/1"
_LIBRARIES = ("hardmax", "numpy", "scipy", "numba", "python-flint", "highspy")
_ARRAY_DTYPES = ("float64", "float32", "int64", "int32", "int8", "uint8", "bool", "object")


@dataclass(frozen=True, eq=False)
class Record:
    """One result with everything needed to obtain it again.

    Two records are equal if their JSON is, so NaN equals NaN and arrays compare entry by entry.

    Attributes:
        name: What was computed, for example `"minkowski"`.
        parameters: The arguments that are not arrays of weights.
        results: The numbers, arrays, strings, lists and mappings that came out.
        seed: The seed of every random choice, or None if there was none.
        inputs: `fingerprint` of the input weights, or `""` if there were none.
        seconds: Wall time of the computation.
        versions: Library name to version.

    Examples:
        >>> record = Record("demo", {"n_keys": 4}, {"margin": 0.1, "cells": np.array([3, 4])})
        >>> Record.from_json(record.to_json()) == record
        True
        >>> Record.from_json('{"format": "something else"}')
        Traceback (most recent call last):
            ...
        hardmax.errors.RecordFormatError: `text` must be a record of format
        'hardmax.record/1'; got 'something else'.
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
        """Write the record as JSON text, keys in a fixed order."""
        content = {f.name: _encode(getattr(self, f.name), f.name) for f in fields(self)}
        return json.dumps({"format": FORMAT, **content}, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Record":
        """Read a record written by `to_json`.

        Raises:
            RecordFormatError: If the text is not such a record.
        """
        try:
            content = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise RecordFormatError(f"`text` must be JSON; {error}.") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            found = content.get("format") if isinstance(content, dict) else type(content).__name__
            raise RecordFormatError(f"`text` must be a record of format {FORMAT!r}; got {found!r}.")
        values = {key: _decode(value) for key, value in content.items() if key != "format"}
        wanted = {f.name for f in fields(cls)}
        if set(values) != wanted:
            raise RecordFormatError(
                f"`text` must have the fields {sorted(wanted)}; got {sorted(values)}."
            )
        return cls(**values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file; a crash or a full disk leaves the old file as it was."""
        write_text(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Record":
        """Read from a file written by `save`."""
        return cls.from_json(read_text(path))


def record(
    name: str,
    compute: Callable[[], Mapping[str, Any]],
    *,
    parameters: Mapping[str, Any] | None = None,
    seed: int | None = None,
    inputs: Any = None,
) -> Record:
    """Run `compute`, time it, and pack what it returns.

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
    """Hash weights: arrays, numbers and strings, nested in lists, mappings and dataclasses.

    Equal dtypes, shapes and bits give equal hashes on every machine; any change of a bit, a
    shape or a name changes the hash. An object with `hashed_parts` is what that returns.

    Examples:
        >>> fingerprint([np.zeros(2), 1]) == fingerprint([np.zeros(2), 1])
        True
        >>> fingerprint(np.zeros((2, 1))) == fingerprint(np.zeros((1, 2)))
        False
    """
    digest = hashlib.sha256()
    _feed(digest.update, inputs)
    return digest.hexdigest()


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries a result can depend on."""
    versions = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return versions


@cache
def code_fingerprint() -> str:
    """Hash every file of this package, as it was at the first call in this process.

    A stored result is worth keeping only as long as the code it came from is the same: the version
    alone does not tell while the code is worked on.
    """
    root = Path(str(resources.files("hardmax")))
    paths = [path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    found = {path.relative_to(root).as_posix(): path for path in paths}
    digests = {name: file_digest(path) for name, path in found.items()}
    return fingerprint(digests)


def file_digest(path: str | os.PathLike[str]) -> str | None:
    """Return the SHA-256 of a file, None if there is none."""
    file = Path(path)
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None


def _feed(update: Callable[[bytes], object], value: Any) -> None:
    """Feed one value with its type and length in front, so that no two nestings collide."""
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
            _feed(update, str(key))
            _feed(update, value[key])
    elif isinstance(value, list | tuple):
        update(f"list {len(value)};".encode())
        for item in value:
            _feed(update, item)
    elif isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind == "O":
            update(f"array O {array.shape};".encode())
            _feed(update, array.ravel().tolist())
        else:
            array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            update(f"array {array.dtype.str} {array.shape};".encode())
            update(array.tobytes())
    elif value is None or isinstance(value, bool | int | float | str | Fraction):
        text = value.hex() if isinstance(value, float) else str(value)
        update(f"{type(value).__name__} {len(text)} {text};".encode())
    else:
        raise DtypeError(
            "`inputs` must be arrays, numbers or strings in lists, mappings or dataclasses; "
            f"got {type(value).__name__}."
        )


def _encode(value: Any, where: str) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, np.generic):
        return _encode(value.item(), where)
    if isinstance(value, Fraction):
        return {"$fraction": str(value)}
    if isinstance(value, np.ndarray):
        if value.dtype.name not in _ARRAY_DTYPES:
            raise DtypeError(f"`{where}` must hold arrays of {_ARRAY_DTYPES}; got {value.dtype}.")
        flat = [_encode(item, where) for item in value.ravel().tolist()]
        return {"$array": value.dtype.name, "shape": list(value.shape), "data": flat}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) and not key.startswith("$") for key in value):
            raise ArgumentError(
                f"`{where}` must have string keys that do not start with '$'; got {list(value)}."
            )
        return {key: _encode(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item, where) for item in value]
    raise DtypeError(
        f"`{where}` must hold numbers, strings, arrays, lists and mappings; "
        f"got {type(value).__name__}."
    )


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    try:
        if "$float" in value:
            return float(value["$float"])
        if "$fraction" in value:
            return Fraction(value["$fraction"])
        if "$array" in value:
            return _decode_array(value)
    except (KeyError, TypeError, ValueError, OverflowError, ZeroDivisionError) as error:
        raise RecordFormatError(f"`text` holds a broken value: {error!r}.") from None
    return {key: _decode(item) for key, item in value.items()}


def _decode_array(value: dict[str, Any]) -> Any:
    dtype, shape, data = value["$array"], value["shape"], [_decode(x) for x in value["data"]]
    if dtype not in _ARRAY_DTYPES or prod(shape) != len(data) or min(shape, default=0) < 0:
        raise RecordFormatError(
            f"`text` holds an array of dtype {dtype!r} and shape {shape} with {len(data)} entries."
        )
    array = np.empty(len(data), dtype=dtype)
    array[:] = data
    return array.reshape(shape)


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")
