"""The folder of a stored search: shards of cells, and one small file that says which of them count.

A shard is written before the manifest names it, and the manifest is replaced in one step, so that a
process may end at any moment: what the manifest names is there, whole, and what it does not name
was not found yet.
"""

import base64
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hardmax._ground.files import replacing
from hardmax._ground.json_text import parse_json
from hardmax._ground.records import fingerprint
from hardmax.errors import ArgumentError, HardmaxError, RecordFormatError

FORMAT = "hardmax.store/1"
"""The value of `format` in `manifest.json`. The other fields:

- `model`: the fingerprint of the network, which is `model.safetensors`, as `save_model` writes it.
- `domain`: the domain, as `geometry.domain_text` writes it; `engine`; `count_only`.
- `n_cells`, `decisions` (three counts), `has_means`: of all cells found.
- `shards`: for each Parquet file (`hardmax.shard/1`, in `regions/arrow_tables.py`) `file`,
  `n_cells`, `first` (the signature of its first cell, four bytes for each group) and `digest`
  (SHA-256 of the file). The cells of a shard follow one another in the order of all cells, so
  `first` sorts the shards.
- `tasks`: what is left to search, in base64; none if every cell was found.
- `shares`: for each task about its share of the volume of the domain; null if that is not bounded.
- `content`: a hash of the other fields.
"""
MANIFEST, MODEL = "manifest.json", "model.safetensors"
_SHARD = "cells-{:06d}.parquet"


class Shard(NamedTuple):
    """A file of cells that follow one another: its fields in the manifest."""

    file: str
    n_cells: int
    first: str
    digest: str


@dataclass(frozen=True, eq=False)
class Manifest:
    """What a stored search has found, and what is left; the fields as in `FORMAT`."""

    model: str
    domain: str
    engine: str
    count_only: bool
    n_cells: int = 0
    decisions: tuple[int, int, int] = (0, 0, 0)
    has_means: bool = False
    shards: tuple[Shard, ...] = ()
    tasks: tuple[bytes, ...] = (b"",)
    shares: tuple[float | None, ...] = (None,)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left."""
        return not self.tasks

    @property
    def explored(self) -> float:
        """About which share of the volume of the domain has been searched; NaN if unknown."""
        left = [np.nan if share is None else share for share in self.shares]
        begun = self.shares != (None,) or self.tasks != (b"",)
        return float(min(max(1.0 - sum(left), 0.0), 1.0)) if begun else 0.0

    def with_shard(self, folder: Path, content: bytes, n_cells: int, first: bytes) -> "Manifest":
        """Write a shard, and return what names it; nothing counts before that is written."""
        numbers = [int(shard.file[6:12]) for shard in self.shards]
        file = _SHARD.format(1 + max(numbers, default=-1))
        with replacing(folder / file) as stream:
            stream.write(content)
        shard = Shard(file, n_cells, first.hex(), hashlib.sha256(content).hexdigest())
        return replace(self, shards=tuple(sorted((*self.shards, shard), key=lambda one: one.first)))

    def write(self, folder: Path) -> None:
        """Take the place of the manifest in a folder."""
        fields = {"format": FORMAT, **self.__dict__}
        fields["shards"] = [shard._asdict() for shard in self.shards]
        fields["tasks"] = [base64.b64encode(task).decode() for task in self.tasks]
        fields["decisions"] = list(self.decisions)
        fields["shares"] = list(self.shares)
        fields["content"] = _content(fields)
        with replacing(folder / MANIFEST) as stream:
            stream.write(json.dumps(fields).encode())


def _content(fields: dict[str, Any]) -> str:
    return fingerprint(json.dumps(fields, sort_keys=True))


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder.

    Raises:
        FileNotFoundError: If there is none.
        RecordFormatError: If it is damaged, or something else.
    """
    path = folder / MANIFEST
    try:
        fields = parse_json(path.read_bytes())
        found = fields.pop("format") if isinstance(fields, dict) else type(fields).__name__
        if found != FORMAT:
            raise RecordFormatError(f"its format must be {FORMAT!r}; got {found!r:.60}")
        if fields.pop("content") != _content({"format": found, **fields}):
            raise RecordFormatError("it is not as it was written")
        fields["shards"] = tuple(Shard(**shard) for shard in fields["shards"])
        fields["tasks"] = tuple(base64.b64decode(task, validate=True) for task in fields["tasks"])
        fields["decisions"] = tuple(fields["decisions"])
        fields["shares"] = tuple(fields["shares"])
        manifest = Manifest(**fields)
        for number, shard in enumerate(manifest.shards):
            if shard.file != _SHARD.format(int(shard.file[6:12])):
                raise ValueError(f"shard {number} has another name")
        return manifest
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = str(error) if isinstance(error, HardmaxError) else repr(error)
        raise RecordFormatError(
            f"`path` must be the folder of a stored search; {path}: {reason:.200}."
        ) from None


def read_shard(folder: Path, shard: Shard) -> Path:
    """Return the file of a shard, as it was written.

    Raises:
        RecordFormatError: If it is missing or was changed.
    """
    path = folder / shard.file
    try:
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise RecordFormatError(
            f"`path` must have all its shards; {path}: {error.strerror}."
        ) from None
    if found != shard.digest:
        raise RecordFormatError(f"`path` must have its shards as they were written; {path} is not.")
    return path


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Say what to do where the system refuses to write.

    Raises:
        ArgumentError: If it does.
    """
    try:
        yield
    except OSError as error:
        raise ArgumentError(
            f"`store` must be a folder that can be written; {folder}: {error.strerror or error}. "
            "What was written before is whole, and the same call goes on from there."
        ) from None


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Make a folder if there is none, and hold it; the system lets go of it when a process ends.

    Raises:
        ArgumentError: If it cannot be made, holds other files, or another process holds it.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    try:
        _lock(handle, folder)
        _clear(folder)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Not on this system: two processes are told apart by nobody.
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ArgumentError(
            f"`store` must be a folder that no other process writes to; {folder} is in use."
        ) from None


def _clear(folder: Path) -> None:
    """Remove what a process that ended early left half done; refuse a folder of other things."""
    names = {path.name for path in folder.iterdir()}
    if MANIFEST in names:
        known = {shard.file for shard in read_manifest(folder).shards}
        left = {n for n in names if n.startswith((".cells-", f".{MANIFEST}.", f".{MODEL}."))}
        left |= {n for n in names if n.startswith("cells-") and n.endswith(".parquet")} - known
    else:
        left = {n for n in names if n.startswith((f".{MANIFEST}.", f".{MODEL}.")) or n == MODEL}
        if left != names:
            raise ArgumentError(
                f"`store` must be a new or empty folder, or one of an earlier search; {folder} has "
                f"{min(names - left)!r} and no {MANIFEST}."
            )
    with writing(folder):
        for name in left:
            (folder / name).unlink()
