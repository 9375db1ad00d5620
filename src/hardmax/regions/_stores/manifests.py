"""The folder of a stored search: shards of cells, and a manifest that says which of them count.

A shard is written before the manifest names it, so that a process may end at any moment: what the
manifest names is there, whole, and what it does not name was not found yet. What a job adds is
appended to a log. When that has become longer than the manifest, the manifest is replaced in one
step and the log begins anew: all that is ever written is a small multiple of what is there at last.
"""

import base64
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hardmax._ground.files import replacing
from hardmax._ground.json_text import parse_json
from hardmax._ground.records import fingerprint
from hardmax.errors import ArgumentError, HardmaxError, RecordFormatError

FORMAT = "hardmax.store/2"
"""The value of `format` in `manifest.json`. The other fields:

- `model`: the fingerprint of the network, which is `model.safetensors`, as `save_model` writes it.
- `domain`: the domain, as `geometry.domain_text` writes it; `engine`; `count_only`.
- `n_cells`, `decisions` (three counts), `has_means`: of all cells found.
- `shards`: for each Parquet file (`hardmax.shard/2`, in `regions/arrow_tables.py`) `file`,
  `n_cells`, `first` (the signature of its first cell, four bytes for each group) and `digest`
  (SHA-256 of the file). The cells of a shard follow one another in the order of all cells, so
  `first` sorts the shards.
- `tasks`: what is left to search, in base64; none if every cell was found.
- `shares`: for each task about its share of the volume of the domain; null if nobody knows.
- `content`: a hash of the other fields.

`manifest.log`, if there is one, says what has been added since. A line is the JSON of a `Step` with
a hash of the line before, or of the manifest, and of its own fields. A last line that was cut off,
and a log of the manifest before, do not count.
"""
MANIFEST, LOG, MODEL = "manifest.json", "manifest.log", "model.safetensors"
_SHARD = "cells-{:06d}.parquet"
_LEAST_LOG = 1 << 16
"""A log of so many bytes is not too long for any manifest."""


class Shard(NamedTuple):
    """A file of cells that follow one another: its fields in the manifest."""

    file: str
    n_cells: int
    first: str
    digest: str


class Step(NamedTuple):
    """What a job adds to a manifest.

    Attributes:
        done: The number of its task in the manifest, which goes.
        tasks: The tasks that it did not get to, which come last.
        shares: Their shares of the volume.
        shards: The shard it found, or nothing.
        n_cells: How many cells it found.
        decisions: How many signs each stage decided.
        has_means: As in `CellArrays`.
    """

    done: int
    tasks: tuple[bytes, ...]
    shares: tuple[float | None, ...]
    shards: tuple[Shard, ...]
    n_cells: int
    decisions: tuple[int, int, int]
    has_means: bool


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

    def after(self, step: Step) -> "Manifest":
        """Return it with what a job adds."""
        one, two, three = (x + y for x, y in zip(self.decisions, step.decisions, strict=True))
        if not 0 <= step.done < len(self.tasks):
            raise ValueError("a step must be that of a task")
        before, behind = slice(step.done), slice(step.done + 1, None)
        return replace(
            self,
            n_cells=self.n_cells + step.n_cells,
            decisions=(one, two, three),
            has_means=self.has_means or step.has_means,
            shards=(*self.shards, *step.shards),
            tasks=(*self.tasks[before], *self.tasks[behind], *step.tasks),
            shares=(*self.shares[before], *self.shares[behind], *step.shares),
        )

    def write(self, folder: Path) -> tuple[str, int]:
        """Take the place of the manifest in a folder; return its hash and how long it is."""
        line, content = _line({"format": FORMAT, **self.__dict__}, "")
        with replacing(folder / MANIFEST) as stream:
            stream.write(line)
        return content, len(line)


class ManifestLog:
    """The manifest of a folder that this process writes to.

    Attributes:
        folder: The folder.
        manifest: The manifest with all that was added.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self._fold()

    def _fold(self) -> None:
        """Write the manifest with all that was added, and begin a new log."""
        self._last, self._most = self.manifest.write(self.folder)
        # A process that ends here leaves a log that does not follow the manifest.
        (self.folder / LOG).unlink(missing_ok=True)
        self._n_bytes = 0

    def new_shard(self, content: bytes, n_cells: int, first: bytes) -> Shard:
        """Write a shard, which counts when a step that has it is added."""
        file = _SHARD.format(len(self.manifest.shards))
        with replacing(self.folder / file) as stream:
            stream.write(content)
        return Shard(file, n_cells, first.hex(), hashlib.sha256(content).hexdigest())

    def add(self, step: Step) -> None:
        """Add what a job did.

        Raises:
            OSError: If it cannot be written; what the folder has is whole.
        """
        manifest = self.manifest.after(step)
        line, content = _line(step._asdict(), self._last)
        with (self.folder / LOG).open("ab", buffering=0) as stream:
            try:
                left = memoryview(line)
                while left:
                    left = left[stream.write(left) :]
                os.fsync(stream.fileno())
            except BaseException:
                stream.truncate(self._n_bytes)
                raise
        self.manifest, self._last = manifest, content
        self._n_bytes += len(line)
        if self._n_bytes > max(self._most, _LEAST_LOG):
            self._fold()

    def close(self) -> None:
        """Leave one file, if there is room for it; else the log counts as well."""
        with suppress(OSError):
            self._fold()


def _line(fields: dict[str, Any], before: str) -> tuple[bytes, str]:
    """Write fields as a line of JSON, with a hash of them and of the line before."""
    plain = {
        **fields,
        "shards": [shard._asdict() for shard in fields["shards"]],
        "tasks": [base64.b64encode(task).decode() for task in fields["tasks"]],
    }
    content = _content(plain, before)
    return json.dumps({**plain, "content": content}).encode() + b"\n", content


def _content(fields: dict[str, Any], before: str) -> str:
    return fingerprint(before + json.dumps(fields, sort_keys=True))


def _read_line(line: bytes, before: str) -> tuple[dict[str, Any], str]:
    """Read what `_line` wrote.

    Raises:
        RecordFormatError: If it is not as it was written.
    """
    fields = parse_json(line)
    if not isinstance(fields, dict):
        raise RecordFormatError(f"it must be an object; got {type(fields).__name__}")
    if fields.get("format", FORMAT) != FORMAT:
        raise RecordFormatError(f"its format must be {FORMAT!r}; got {fields['format']!r:.60}")
    content = fields.pop("content")
    if content != _content(fields, before):
        raise RecordFormatError("it is not as it was written")
    fields.pop("format", None)
    fields["shards"] = tuple(Shard(**shard) for shard in fields["shards"])
    fields["tasks"] = tuple(base64.b64decode(task, validate=True) for task in fields["tasks"])
    fields["decisions"] = tuple(fields["decisions"])
    fields["shares"] = tuple(fields["shares"])
    return fields, content


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder and its log; the shards in the order of their cells.

    Raises:
        FileNotFoundError: If there is none.
        RecordFormatError: If it is damaged, or something else.
    """
    path = folder / MANIFEST
    try:
        fields, content = _read_line(path.read_bytes(), "")
        manifest = _with_log(Manifest(**fields), content, folder / LOG)
        if {shard.file for shard in manifest.shards} != set(
            map(_SHARD.format, range(len(manifest.shards)))
        ):
            raise ValueError("shards must be numbered")
        in_order = sorted(manifest.shards, key=lambda shard: shard.first)
        return replace(manifest, shards=tuple(in_order))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = str(error) if isinstance(error, HardmaxError) else repr(error)
        raise RecordFormatError(
            f"`path` must be the folder of a stored search; {path}: {reason:.200}."
        ) from None


def _with_log(manifest: Manifest, content: str, path: Path) -> Manifest:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return manifest
    for number, line in enumerate(lines):
        try:
            fields, content = _read_line(line, content)
        except (KeyError, TypeError, ValueError):
            # The first line may be that of the manifest before, the last one may be cut off.
            if 0 < number < len(lines) - 1:
                raise
            break
        manifest = manifest.after(Step(**fields))
    return manifest


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
def writing(folder: Path, name: str = "store") -> Iterator[None]:
    """Say what to do where the system refuses to write to a folder that was given by a name.

    Raises:
        ArgumentError: If it does.
    """
    try:
        yield
    except OSError as error:
        raise ArgumentError(
            f"`{name}` must be a folder that can be written; {folder}: {error.strerror or error}. "
            "What was written before is whole, and the same call goes on from there."
        ) from None


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Make a folder if there is none, and hold it; the system lets go of it when a process ends.

    Raises:
        ArgumentError: If it cannot be made, holds other files, or another process holds it.
        RecordFormatError: If its manifest is damaged, or a shard is missing.
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
        if not known <= names:
            raise RecordFormatError(
                f"`path` must have all its shards; {folder} has no {min(known - names)}."
            )
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
