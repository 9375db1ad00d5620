"""The folder of a stored search: shards of cells, and a manifest that lists them.

A process may end at any moment. A shard is first written to the subfolder `UNFINISHED`, then
recorded in a line of the log, then moved to its place. A file in that subfolder is therefore either
recorded in the log or worthless, and no other file is ever removed. When the log becomes longer
than the manifest, the manifest is replaced in one step and a new log begins. The total amount
written is thus a small multiple of the final size.
"""

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from errno import EIO
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hardmax._ground.deadlines import check_time
from hardmax._ground.json_text import parse_json
from hardmax._ground.records import fingerprint
from hardmax.errors import ArgumentError, HardmaxError, RecordFormatError

FORMAT = "hardmax.store/3"
"""The value of `format` in `manifest.json`. The other fields:

- `model`: the fingerprint of the network, which is `model.safetensors`, as `save_model` writes it.
- `domain`: the domain, as `geometry.domain_text` writes it; `engine`; `count_only`.
- `n_cells`, `decisions` (three counts), `has_means`: totals for all cells found.
- `shards`: for each Parquet file (`hardmax.shard/2`, in `regions/arrow_tables.py`), the fields
  `file`, `n_cells`, `first` (the signature of the first cell, four bytes per group), `digest`
  (SHA-256 of the file) and `task`. The cells of the shard are the first `n_cells` cells of the
  task. They are consecutive in the order of all cells, so that `first` sorts the shards.
- `tasks`: the remaining work, in base64; empty if every cell was found.
- `shares`: for each task, its approximate share of the volume of the domain; null if unknown.
- `quotas`: for each task, the number of cells to find, starting with the first; null for all.
- `folded`: the hash `content` of the last line of the log that this manifest includes.
- `content`: a hash of the other fields.

`manifest.log`, if it exists, lists the later additions. A line is the JSON of a `Step`, with
`follows` (the hash of the previous line, or of the manifest) and a hash of these fields. It ends
with a newline. Text after the last newline is an unfinished line and is ignored. A log whose last
line is `folded` is older than the manifest and is ignored too.

The format `hardmax.store/2` has none of the fields `task`, `quotas`, `folded` and `follows`; the
hash of a line covers its fields and the previous hash. It can be read, and is rewritten in the
current format.
"""
_OLD_FORMAT = "hardmax.store/2"
MANIFEST, LOG, MODEL = "manifest.json", "manifest.log", "model.safetensors"
UNFINISHED = ".hardmax-unfinished"
"""The subfolder of files that are being written."""
_SHARD = "cells-{:06d}.parquet"
_IS_SHARD = re.compile(r"cells-[0-9]{6,9}\.parquet", re.ASCII)
_MIN_LOG_BYTES = 1 << 16
"""A log of at most this size is folded into the manifest only when the search ends."""
_CHUNK_BYTES = 1 << 24
_MAX_CELLS = 1 << 53


class Shard(NamedTuple):
    """The manifest's fields for a file of consecutive cells.

    The task is None if the manifest has the old format, which does not record it.
    """

    file: str
    n_cells: int
    first: str
    digest: str
    task: bytes | None = None


class Step(NamedTuple):
    """The changes that a job makes to a manifest.

    Attributes:
        done: The index of the job's task in the manifest, which is removed.
        tasks: The remaining tasks, which are appended.
        shares: The shares of the remaining tasks of the volume.
        shards: The new shard, if any.
        n_cells: The number of cells found.
        decisions: The number of signs decided by each stage.
        has_means: As in `CellArrays`.
        quotas: For each remaining task, the number of cells to find; None for all.
    """

    done: int
    tasks: tuple[bytes, ...]
    shares: tuple[float | None, ...]
    shards: tuple[Shard, ...]
    n_cells: int
    decisions: tuple[int, int, int]
    has_means: bool
    quotas: tuple[int | None, ...]


@dataclass(frozen=True, eq=False)
class Manifest:
    """The results and the remaining work of a stored search; see `FORMAT` for the fields."""

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
    quotas: tuple[int | None, ...] = (None,)
    folded: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left."""
        return not self.tasks

    @property
    def explored_share(self) -> float:
        """The approximate share of the domain's volume that has been searched; NaN if unknown."""
        left = [np.nan if share is None else share for share in self.shares]
        begun = (self.shares, self.tasks, self.quotas) != ((None,), (b"",), (None,))
        return float(min(max(1.0 - sum(left), 0.0), 1.0)) if begun else 0.0

    def apply(self, step: Step) -> "Manifest":
        """Return the manifest after a job."""
        one, two, three = (x + y for x, y in zip(self.decisions, step.decisions, strict=True))
        if not 0 <= step.done < len(self.tasks):
            raise ValueError(f"there is no task {step.done}")
        before, behind = slice(step.done), slice(step.done + 1, None)
        task = self.tasks[step.done]
        return replace(
            self,
            n_cells=self.n_cells + step.n_cells,
            decisions=(one, two, three),
            has_means=self.has_means or step.has_means,
            shards=(*self.shards, *(shard._replace(task=task) for shard in step.shards)),
            tasks=(*self.tasks[before], *self.tasks[behind], *step.tasks),
            shares=(*self.shares[before], *self.shares[behind], *step.shares),
            quotas=(*self.quotas[before], *self.quotas[behind], *step.quotas),
        )

    def requeue(self, lost: list[Shard]) -> "Manifest":
        """Return the manifest with lost shards turned into tasks."""
        kept = tuple(shard for shard in self.shards if shard not in lost)
        return replace(
            self,
            n_cells=self.n_cells - sum(shard.n_cells for shard in lost),
            shards=kept,
            tasks=(*self.tasks, *(shard.task for shard in lost if shard.task is not None)),
            shares=(*self.shares, *(None for _ in lost)),
            quotas=(*self.quotas, *(shard.n_cells for shard in lost)),
        )

    def write(self, folder: Path) -> tuple[str, int]:
        """Replace the manifest of a folder; return the hash and the number of bytes."""
        line, content = _to_line({"format": FORMAT, **self.__dict__})
        _write(folder, MANIFEST, line)
        os.replace(folder / UNFINISHED / MANIFEST, folder / MANIFEST)
        _sync_folder(folder)
        return content, len(line)


class ManifestLog:
    """The manifest of a folder that this process writes to.

    Attributes:
        folder: The folder.
        manifest: The manifest, including all steps of the log.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self._fold()

    def _fold(self) -> None:
        """Write the manifest, including all steps of the log, and begin a new log."""
        self._last, self._most = self.manifest.write(self.folder)
        # A process that ends here leaves a log whose last line is `folded`.
        (self.folder / LOG).unlink(missing_ok=True)
        self._n_bytes = 0

    def new_shard(self, content: bytes, n_cells: int, first: bytes) -> Shard:
        """Write a shard, which becomes valid when a step that contains it is added."""
        number = len(self.manifest.shards)
        taken = {shard.file for shard in self.manifest.shards}
        while _SHARD.format(number) in taken or os.path.lexists(
            self.folder / _SHARD.format(number)
        ):
            number += 1
        file = _SHARD.format(number)
        _write(self.folder, file, content)
        return Shard(file, n_cells, first.hex(), hashlib.sha256(content).hexdigest())

    def add(self, step: Step) -> None:
        """Add the step of a job.

        Raises:
            OSError: If the step cannot be written. The folder is then unchanged.
        """
        manifest = self.manifest.apply(step)
        line, content = _to_line({**step._asdict(), "follows": self._last})
        with (self.folder / LOG).open("ab", buffering=0) as stream:
            if stream.tell() != self._n_bytes:
                raise OSError(EIO, f"{LOG} was modified by another program")
            try:
                left = memoryview(line)
                while left:
                    left = left[stream.write(left) :]
                os.fsync(stream.fileno())
            except BaseException:
                stream.truncate(self._n_bytes)
                raise
        self.manifest, self._last = replace(manifest, folded=content), content
        self._n_bytes += len(line)
        for shard in step.shards:
            os.replace(self.folder / UNFINISHED / shard.file, self.folder / shard.file)
        if self._n_bytes > max(self._most, _MIN_LOG_BYTES):
            self._fold()

    def close(self) -> None:
        """Fold the log into the manifest if the disk has space; otherwise the log stays valid."""
        with suppress(OSError):
            self._fold()
            clear_unfinished(self.folder)


def _write(folder: Path, name: str, content: bytes) -> None:
    """Write a file in the subfolder of unfinished files."""
    (folder / UNFINISHED).mkdir(exist_ok=True)
    with (folder / UNFINISHED / name).open("wb") as stream:
        for start in range(0, len(content), _CHUNK_BYTES):
            stream.write(content[start : start + _CHUNK_BYTES])
            if name == MODEL:  # This file can be very large; the others are short.
                check_time()
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power failure, if the system supports it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def clear_unfinished(folder: Path) -> None:
    """Remove unfinished files of this library, and their folder if it is then empty."""
    scratch = folder / UNFINISHED
    if scratch.is_dir():
        for path in scratch.iterdir():
            if _IS_SHARD.fullmatch(path.name) or path.name in (MANIFEST, MODEL):
                path.unlink()
        with suppress(OSError):
            scratch.rmdir()


def write_model(folder: Path, model: bytes) -> None:
    """Write the network of a manifest (the output of `model_bytes`), unless it is already there.

    Raises:
        TimeLimitReached: If writing takes longer than the time limit; `clear_unfinished` removes
            the rest.
    """
    with suppress(OSError):
        if (folder / MODEL).read_bytes() == model:
            return
    _write(folder, MODEL, model)
    os.replace(folder / UNFINISHED / MODEL, folder / MODEL)


def _to_line(fields: dict[str, Any]) -> tuple[bytes, str]:
    """Write fields as a line of JSON, with a hash of them."""
    plain = {
        **fields,
        "shards": [_shard_fields(shard) for shard in fields["shards"]],
        "tasks": [base64.b64encode(task).decode() for task in fields["tasks"]],
    }
    content = _hash_fields(plain, "")
    return json.dumps({**plain, "content": content}).encode() + b"\n", content


def _shard_fields(shard: Shard) -> dict[str, Any]:
    fields = shard._asdict()
    task = fields.pop("task")
    return fields if task is None else {**fields, "task": base64.b64encode(task).decode()}


def _hash_fields(fields: dict[str, Any], before: str) -> str:
    return fingerprint(before + json.dumps(fields, sort_keys=True))


def _parse_line(line: bytes) -> tuple[dict[str, Any], str]:
    """Return the fields of a line and the hash it states, without checking the hash."""
    fields = parse_json(line)
    if not isinstance(fields, dict):
        raise RecordFormatError(f"expected a JSON object, got {type(fields).__name__}")
    return fields, fields.pop("content")


def _require_hash(fields: dict[str, Any], content: str, before: str = "") -> None:
    if content != _hash_fields(fields, before):
        raise RecordFormatError("modified after it was written (hash mismatch)")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder and its log; the shards in the order of their cells.

    Raises:
        FileNotFoundError: If the folder has no manifest.
        RecordFormatError: If a file is damaged or has another format. The message names the file
            and the line.
    """
    path = folder / MANIFEST
    advice = " Restore it from a backup, or search into a new folder."
    with _explain_read_errors(path, advice):
        fields, content = _parse_line(path.read_bytes())
        found = fields.get("format")
        if found not in (FORMAT, _OLD_FORMAT):
            raise RecordFormatError(f"the format must be {FORMAT!r}; got {found!r:.60}")
        _require_hash(fields, content)
        del fields["format"]
        if found == _OLD_FORMAT:
            fields = {**fields, "quotas": [None] * len(fields["tasks"]), "folded": ""}
        manifest = Manifest(**_convert_fields(fields))
        _require_manifest(manifest)
    manifest = _apply_log(manifest, content, folder / LOG, is_old=found == _OLD_FORMAT)
    with _explain_read_errors(path, advice):
        files = {shard.file for shard in manifest.shards}
        if len(files) != len(manifest.shards):
            raise ValueError("several shards have the same file name")
    in_order = sorted(manifest.shards, key=lambda shard: shard.first)
    return replace(manifest, shards=tuple(in_order))


def _apply_log(manifest: Manifest, content: str, path: Path, *, is_old: bool) -> Manifest:
    """Return a manifest with the steps of its log.

    Args:
        manifest: The manifest.
        content: The hash of the manifest.
        path: The path of the log, which may not exist.
        is_old: Whether the manifest has the previous format.
    """
    advice = (
        f" Restore it from a backup, or remove it: the search then resumes from {MANIFEST} and "
        "repeats the work recorded in the log."
    )
    try:
        with _explain_read_errors(path, advice):
            *lines, unfinished = path.read_bytes().split(b"\n")
            _refuse_damaged_end(unfinished, len(lines) + 1)
    except FileNotFoundError:
        return manifest
    steps: list[Step] = []
    last, is_next = content, True
    for number, line in enumerate(lines, 1):
        with _explain_read_errors(path, advice, number):
            fields, own = _parse_line(line)
            if "follows" in fields:
                _require_hash(fields, own)
                follows = fields.pop("follows")
                is_this = follows == last
            else:
                # A line of the previous format has one hash for both. If the hash of the first line
                # differs, the line may be damaged, or may follow an older manifest.
                is_this = own == _hash_fields(fields, last)
                fields["quotas"] = [None] * len(fields["tasks"])
            if number > 1 and not is_this:
                raise RecordFormatError("modified after it was written, or in the wrong place")
            is_next = is_next and is_this
            steps.append(Step(**_convert_fields(fields)))
            last = own
    if not is_next:
        with _explain_read_errors(path, advice, 1):
            if not _is_included(manifest, steps, last, is_old=is_old):
                raise RecordFormatError(
                    f"modified after it was written, or not written for this {MANIFEST}"
                )
        return manifest
    for number, step in enumerate(steps, 1):
        with _explain_read_errors(path, advice, number):
            n_stored = sum(shard.n_cells for shard in step.shards)
            _require("shards", n_stored == (0 if manifest.count_only else step.n_cells))
            manifest = manifest.apply(step)
    return replace(manifest, folded=last) if steps else manifest


def _is_included(manifest: Manifest, steps: list[Step], last: str, *, is_old: bool) -> bool:
    """Return whether a manifest includes its log: a process ended before it removed the log."""
    if not is_old:
        return last == manifest.folded
    known = {(shard.file, shard.digest) for shard in manifest.shards}
    added = {(shard.file, shard.digest) for step in steps for shard in step.shards}
    return bool(added) and added <= known


def _refuse_damaged_end(text: bytes, number: int) -> None:
    """Refuse a last line whose text is complete but not followed by a newline."""
    try:
        decoded = text.decode("latin-1")  # A damaged newline may be any byte.
        _, end = json.JSONDecoder().raw_decode(decoded)
    except (ValueError, RecursionError):
        return
    if decoded[end:]:
        raise RecordFormatError(f"line {number} does not end with a newline")


@contextmanager
def _explain_read_errors(path: Path, advice: str, number: int | None = None) -> Iterator[None]:
    """Turn an exception of the block into an error that names the file and the line."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OSError, HardmaxError) as error:
        reason = str(error) if isinstance(error, HardmaxError) else repr(error)
        place = "" if number is None else f", line {number}"
        raise RecordFormatError(
            f"`path` must be the folder of a stored search; {path}{place}: {reason:.200}.{advice}"
        ) from None


def _convert_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Convert the fields of a manifest or a step to their types in memory.

    Raises:
        TypeError, ValueError, KeyError: If a field is missing or has a wrong type or range.
    """
    shards = tuple(_read_shard_fields(**shard) for shard in fields["shards"])
    tasks = tuple(base64.b64decode(task, validate=True) for task in fields["tasks"])
    shares, quotas = tuple(fields["shares"]), tuple(fields["quotas"])
    decisions = tuple(fields["decisions"])
    _require("shares", all(share is None or _is_share(share) for share in shares))
    _require("quotas", all(quota is None or _is_count(quota, 1) for quota in quotas))
    _require("quotas", len(tasks) == len(shares) == len(quotas))
    _require("decisions", len(decisions) == 3 and all(map(_is_count, decisions)))
    _require("n_cells", _is_count(fields["n_cells"]))
    _require("has_means", type(fields["has_means"]) is bool)
    if "done" in fields:
        _require("done", _is_count(fields["done"]))
        n_stored = sum(shard.n_cells for shard in shards)
        _require("shards", len(shards) <= 1 and n_stored in (0, fields["n_cells"]))
    return {
        **fields,
        "shards": shards,
        "tasks": tasks,
        "shares": shares,
        "quotas": quotas,
        "decisions": decisions,
    }


def _require_manifest(manifest: Manifest) -> None:
    for name in ("model", "domain", "folded"):
        _require(name, isinstance(getattr(manifest, name), str))
    _require("engine", manifest.engine in ("planar", "spatial"))
    _require("count_only", type(manifest.count_only) is bool)
    if manifest.count_only:
        _require("shards", not manifest.shards)
    else:
        _require("n_cells", manifest.n_cells == sum(shard.n_cells for shard in manifest.shards))


def _read_shard_fields(
    file: str, n_cells: int, first: str, digest: str, task: str | None = None
) -> Shard:
    _require("file", _IS_SHARD.fullmatch(file) is not None)
    _require("n_cells", _is_count(n_cells, 1))
    _require("first", re.fullmatch("([0-9a-f]{8})*", first) is not None)
    _require("digest", re.fullmatch("[0-9a-f]{64}", digest) is not None)
    content = None if task is None else base64.b64decode(task, validate=True)
    return Shard(file, n_cells, first, digest, content)


def _is_count(value: Any, least: int = 0) -> bool:
    return type(value) is int and least <= value <= _MAX_CELLS


def _is_share(value: Any) -> bool:
    # Sums of rounded volumes may slightly exceed the whole.
    return _is_count(value) or (type(value) is float and isfinite(value) and value >= 0.0)


def _require(name: str, is_possible: bool) -> None:
    if not is_possible:
        raise ValueError(f"the field `{name}` is invalid")


def _is_whole(folder: Path, shard: Shard) -> bool:
    check_time()
    return _digest(_path_of(folder, shard)) == shard.digest


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file; an empty text if it cannot be read."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""


def _path_of(folder: Path, shard: Shard) -> Path:
    """Return the path of a shard, which may still be among the unfinished files."""
    path, unfinished = folder / shard.file, folder / UNFINISHED / shard.file
    return path if path.exists() or not unfinished.exists() else unfinished


def read_shard(folder: Path, shard: Shard) -> Path:
    """Return the path of an intact shard.

    Raises:
        RecordFormatError: If the file is missing or was modified.
    """
    for _ in range(2):  # Another process may move it to its place meanwhile.
        path = _path_of(folder, shard)
        if path.exists():
            break
    if _digest(path) != shard.digest:
        advice = (
            "Search into this folder again to recover it; only this part is searched"
            if shard.task is not None
            else "The older format of this folder cannot recover a shard. Restore it from a backup"
        )
        if not path.exists():
            raise RecordFormatError(f"Shard {path} is missing. {advice}.")
        raise RecordFormatError(
            f"Shard {path} was modified after it was written (SHA-256 mismatch). {advice}."
        )
    return path


def recover_shards(folder: Path, manifest: Manifest, workers: int) -> Manifest:
    """Move every shard to its place; return the manifest with damaged shards turned into tasks.

    Raises:
        RecordFormatError: If a damaged shard has the old format, which does not record its task.
        TimeLimitReached: If reading all shards takes longer than the time limit.
    """
    with ThreadPoolExecutor(workers) as pool:
        # Each shard is read in a copy of the context, so the time limit applies.
        contexts = [copy_context() for _ in manifest.shards]
        check = partial(_is_whole, folder)
        are_whole = list(pool.map(lambda c, shard: c.run(check, shard), contexts, manifest.shards))
    lost = [shard for shard, ok in zip(manifest.shards, are_whole, strict=True) if not ok]
    for shard in lost:
        if shard.task is None:
            raise RecordFormatError(
                f"Shard {folder / shard.file} is missing or was modified after it was written. The "
                "older format of this `store` does not record how to search that part again. "
                "Restore the file from a backup, or search into a new folder."
            )
    with explain_write_errors(folder):
        for shard, ok in zip(manifest.shards, are_whole, strict=True):
            source, target = folder / UNFINISHED / shard.file, folder / shard.file
            if ok and not target.exists():
                os.replace(source, target)
            elif not ok and target.exists():
                # The file is removed once the manifest no longer names it.
                source.parent.mkdir(exist_ok=True)
                os.replace(target, source)
    return manifest.requeue(lost)


@contextmanager
def explain_write_errors(folder: Path, name: str = "store") -> Iterator[None]:
    """Turn an OSError into an error that names the argument and says how to proceed.

    Raises:
        ArgumentError: If the block raises an OSError.
    """
    try:
        yield
    except OSError as error:
        raise ArgumentError(
            f"`{name}` must be a writable folder; {folder}: {error.strerror or error}. The data "
            "written before is intact. Repeat the call to resume."
        ) from None


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Create a folder if it does not exist, and lock it; the lock ends with the process.

    Raises:
        ArgumentError: If the folder cannot be created, contains other files, or is locked by
            another process.
    """
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    try:
        _lock(handle, folder)
        _refuse_other_files(folder)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # This system has no file locks.
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ArgumentError(
            f"`store` is in use by another process: {folder}. Wait for it to finish, or choose "
            "another folder."
        ) from None


def _refuse_other_files(folder: Path) -> None:
    """Refuse a folder that contains files but no manifest."""
    names = {path.name for path in folder.iterdir()}
    if MANIFEST not in names and names - {UNFINISHED}:
        raise ArgumentError(
            f"`store` must be a new folder, an empty folder, or the folder of an earlier search; "
            f"{folder} contains {min(names - {UNFINISHED})!r} but no {MANIFEST}."
        )
