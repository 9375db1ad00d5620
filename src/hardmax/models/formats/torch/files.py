"""A reader of the tensors in files of `torch.save`, without torch and without executing code.

A file is a zip archive with a pickle and one member for each storage. Files from before 2020 are
several pickles in a row, followed by the storages. The pickles are read as data (`pickled_data`):
the only names that they may use are those for tensors, storages and ordered dictionaries.
"""

import io
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.size_limits import MOST_TENSORS, SizeLimit, check_tensor_count
from hardmax.errors import HardmaxError, RecordFormatError
from hardmax.models.formats.torch.pickled_data import GlobalName, read_pickle
from hardmax.models.tensor_files import widen_bfloat16
from hardmax.typing import AnyArray

STORED_AS = {
    "torch.FloatStorage": "<f4",
    "torch.DoubleStorage": "<f8",
    "torch.HalfStorage": "<f2",
    "torch.BFloat16Storage": "<u2",
    "torch.LongStorage": "<i8",
    "torch.IntStorage": "<i4",
    "torch.ShortStorage": "<i2",
    "torch.CharStorage": "|i1",
    "torch.ByteStorage": "|u1",
    "torch.BoolStorage": "|b1",
}
"""The types of storages, as torch and NumPy name them; bfloat16 is widened to float32."""
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_MOST_AXES = 8


@dataclass(eq=False)
class Storage:
    """The numbers of tensors; in older files, `array` is filled in after the pickle is read."""

    kind: str
    n: int
    array: AnyArray | None = None

    def fill(self, content: bytes | memoryview) -> None:
        """Set the numbers, after checking that their count is as declared."""
        stored = np.dtype(STORED_AS[self.kind])
        if len(content) != self.n * stored.itemsize:
            found = len(content) / stored.itemsize
            raise RecordFormatError(f"a tensor has {found:g} numbers instead of {self.n}")
        array = np.frombuffer(content, stored)
        self.array = widen_bfloat16(array) if self.kind == "torch.BFloat16Storage" else array


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """A tensor: a part of a storage."""

    storage: Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def array(self) -> AnyArray:
        """Return the numbers as a read-only view of the storage."""
        numbers = self.storage.array
        whole = [self.offset, *self.size, *self.stride]
        if numbers is None or len(self.size) != len(self.stride) or len(self.size) > _MOST_AXES:
            raise RecordFormatError("a tensor is not what torch writes")
        if not all(type(x) is int for x in whole) or min(whole) < 0:
            raise RecordFormatError("a tensor is not what torch writes")
        n_entries = int(np.prod(np.array(self.size, dtype=object))) if self.size else 1
        if n_entries == 0:
            return np.zeros(self.size, numbers.dtype)
        steps = zip(self.size, self.stride, strict=True)
        reach = self.offset + sum((n - 1) * s for n, s in steps)
        if n_entries > len(numbers) or reach >= len(numbers):
            raise RecordFormatError("a tensor extends beyond its storage")
        strides = [s * numbers.itemsize for s in self.stride]
        return np.lib.stride_tricks.as_strided(
            numbers[self.offset :], self.size, strides, writeable=False
        )


def is_torch_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins like a file of `torch.save`: a zip archive or the older format."""
    with Path(path).open("rb") as file:
        start = file.read(len(_LEGACY_START))
    return start.startswith(b"PK\x03\x04") or start == _LEGACY_START


def read_torch_tensors(path: str | os.PathLike[str]) -> dict[str, AnyArray]:
    """Read the tensors of a state dict that `torch.save` wrote, without executing code.

    Args:
        path: The file of a state dict, or of a dictionary that contains one (as `"state_dict"`,
            `"model"`, ...). Entries other than tensors and dictionaries of tensors are ignored.

    Returns:
        The tensors by name, in their own types, but bfloat16 as float32.

    Raises:
        RecordFormatError: If the file is damaged or has another format, or its pickles contain
            names that are not plain data; the message describes the problem.
    """
    content = Path(path).read_bytes()
    try:
        is_archive = content.startswith(b"PK\x03\x04")
        found = _read_archive(content) if is_archive else _read_stream(content)
        tensors = _find_state_dict(found)
        check_tensor_count(len(tensors))
        arrays = {name: tensor.array() for name, tensor in tensors.items()}
        # Views of one storage take no memory here, but they are copied later.
        SizeLimit(len(content)).take(sum(array.nbytes for array in arrays.values()))
        return arrays
    except Exception as error:  # zip and zlib raise many types on damaged data.
        known = isinstance(error, HardmaxError)
        reason = f"{error}" if known else f"{type(error).__name__}: {error!s:.200}"
        raise RecordFormatError(
            "`path` must be a state dict that torch.save wrote; reading "
            f"{path} failed: {reason.rstrip('.')}. Only tensors, numbers, strings and containers "
            "are supported; to save only these, write "
            "safetensors.torch.save_file(module.state_dict(), path)."
        ) from None


def open_archive(content: bytes) -> zipfile.ZipFile:
    """Open a zip archive in memory.

    Raises:
        RecordFormatError: If it has too many members for the list that `zipfile` builds.
    """
    n_members = content.count(b"PK\x01\x02")  # The directory has such an entry for each member.
    if n_members > 2 * MOST_TENSORS:
        raise RecordFormatError(
            f"it must have at most {2 * MOST_TENSORS:,} members; got {n_members:,}"
        )
    return zipfile.ZipFile(io.BytesIO(content))


class ArchiveMembers:
    """The files of a torch archive, which are all in one folder."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._info = {info.filename.partition("/")[2]: info for info in archive.infolist()}
        self.names = list(self._info)
        stored = [i for i in self._info.values() if i.compress_type == zipfile.ZIP_STORED]
        # The directory comes after all members.
        if sum(info.file_size for info in stored) > archive.start_dir:
            raise RecordFormatError("its members overlap")
        order = self.read_bytes("byteorder").strip() if "byteorder" in self._info else b"little"
        if order != b"little":
            raise RecordFormatError(f"its numbers must be little-endian; got {order!r:.20}")

    def read_bytes(self, name: str) -> bytes:
        """Return the content of an uncompressed member, which is never longer than the file."""
        info = self._info.get(name)
        if info is None:
            raise RecordFormatError(f"it has no member `{name:.60}`")
        if info.compress_type != zipfile.ZIP_STORED:
            raise RecordFormatError(
                f"`{name:.60}` is compressed, but torch only compresses programs"
            )
        return self._archive.read(info)

    def read_text(self, name: str, most: int) -> str:
        """Return at most `most` bytes of a member, as text."""
        with self._archive.open(self._info[name]) as stream:
            return stream.read(most).decode("utf-8")


def make_storage_reader(members: ArchiveMembers, folder: str) -> Callable[[Any], Storage]:
    """Return a function that reads the storages in a folder of an archive, each only once."""
    read: dict[str, Storage] = {}

    def find(pid: Any) -> Storage:
        key, storage = _parse_storage_id(pid)
        if key not in read:
            storage.fill(members.read_bytes(f"{folder}/{key}"))
            read[key] = storage
        return _check_same(read[key], storage)

    return find


def _check_same(one: Storage, other: Storage) -> Storage:
    if (one.kind, one.n) != (other.kind, other.n):
        raise RecordFormatError("a storage is declared twice, with different types or lengths")
    return one


def _parse_storage_id(pid: Any) -> tuple[str, Storage]:
    """Return the key of a storage, and the storage without its numbers."""
    if not isinstance(pid, tuple) or len(pid) not in (5, 6) or pid[0] != "storage":
        raise RecordFormatError("a tensor is not what torch writes")
    kind, key, n = pid[1], pid[2], pid[4]
    if not isinstance(kind, GlobalName) or kind.dotted not in STORED_AS:
        word = kind.dotted if isinstance(kind, GlobalName) else f"a {type(kind).__name__}"
        raise RecordFormatError(f"a tensor is stored as {word:.60}, which is not supported")
    if not isinstance(key, str) or type(n) is not int or n < 0 or (len(pid) == 6 and pid[5]):
        raise RecordFormatError("a tensor is not what torch writes")
    return key, Storage(kind.dotted, n)


def build_plain_object(name: str, arguments: tuple[Any, ...]) -> Any:
    """Return the tensor or container that a call constructs; raise for any other call."""
    if name in ("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor"):
        storage, offset, size, stride = arguments[:4]
        if not isinstance(storage, Storage):
            raise RecordFormatError("a tensor is not what torch writes")
        return StoredTensor(storage, offset, tuple(size), tuple(stride))
    if name == "torch._utils._rebuild_parameter":
        return arguments[0]
    if name == "torch.Size" and len(arguments) == 1:
        return tuple(arguments[0])
    if name == "collections.OrderedDict" and len(arguments) <= 1:
        pairs = arguments[0] if arguments else []
        return {key: value for key, value in pairs if isinstance(key, str | int)}
    raise RecordFormatError(
        f"it contains `{name:.100}`, which is not plain data: loading it executes code. If you "
        "trust the file, write hm.from_torch(torch.load(path, weights_only=False))"
    )


def _read_archive(content: bytes) -> Any:
    with open_archive(content) as archive:
        members = ArchiveMembers(archive)
        storages = make_storage_reader(members, "data")
        return read_pickle(io.BytesIO(members.read_bytes("data.pkl")), build_plain_object, storages)


def _read_stream(content: bytes) -> Any:
    """Read the older format: magic number, version, machine, object, storage keys and storages."""
    storages: dict[str, Storage] = {}

    def find_storage(pid: Any) -> Storage:
        key, storage = _parse_storage_id(pid)
        return _check_same(storages.setdefault(key, storage), storage)

    stream = io.BytesIO(content)
    magic, _, machine, found = (
        read_pickle(stream, build_plain_object, find_storage) for _ in range(4)
    )
    if magic != _LEGACY_MAGIC or not isinstance(machine, dict):
        raise RecordFormatError("it does not begin like a file of torch.save")
    if machine.get("little_endian") is not True:
        raise RecordFormatError("its numbers must be little-endian")
    keys = read_pickle(stream, build_plain_object, find_storage)
    at = stream.tell()
    for key in keys:
        storage = storages[key]
        n_bytes = storage.n * np.dtype(STORED_AS[storage.kind]).itemsize
        if int.from_bytes(content[at : at + 8], "little") != storage.n:
            raise RecordFormatError("the length of a storage does not match its declaration")
        storage.fill(memoryview(content)[at + 8 : at + 8 + n_bytes])
        at += 8 + n_bytes
    return found


def _find_state_dict(found: Any) -> Mapping[str, StoredTensor]:
    """Return the tensors of a dictionary, or of the only nested dictionary that has any."""
    if not isinstance(found, dict):
        raise RecordFormatError(f"it contains a {type(found).__name__} instead of a dictionary")
    tensors = _select_tensors(found)
    if tensors:
        return tensors
    inside = {str(name): _select_tensors(v) for name, v in found.items() if isinstance(v, dict)}
    filled = {name: tensors for name, tensors in inside.items() if tensors}
    if len(filled) != 1:
        named = f": {', '.join(sorted(filled))[:200]}" if filled else ""
        raise RecordFormatError(
            f"it must contain one dictionary of tensors; got {len(filled)}{named}"
        )
    return next(iter(filled.values()))


def _select_tensors(entries: dict[Any, Any]) -> dict[str, StoredTensor]:
    return {str(name): value for name, value in entries.items() if isinstance(value, StoredTensor)}
