"""TorchScript archives, read without running anything.

`torch.jit.load` compiles the program in the archive and runs parts of it (`__setstate__`), so a
file from a stranger must not be given to it. Here an archive is data: its tensors are read by an
unpickler that knows tensors, numbers and containers and nothing else, every module becomes a plain
list of attributes, and its program is text, to be read as such (`torchscript_programs`). torch is
not needed.
"""

import io
import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hardmax.errors import RecordFormatError
from hardmax.typing import AnyArray, FloatArray

_STORED_AS = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "BFloat16Storage": "<u2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "BoolStorage": "|b1",
}
_MOST_TEXT = 2**22


class ScriptModule:
    """A module of an archive: its type, by name, and its attributes. It does nothing.

    Attributes:
        qualified_name: The type, such as `__torch__.torch.nn.modules.linear.Linear`.
        attributes: What it holds: modules, arrays, numbers.
    """

    qualified_name = ""

    def __init__(self) -> None:
        self.attributes: dict[str, Any] = {}

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict):
            raise pickle.UnpicklingError("a module must have attributes")
        self.attributes = {str(name): value for name, value in state.items()}


@dataclass(frozen=True, eq=False)
class ScriptArchive:
    """What an archive holds.

    Attributes:
        root: The module that was saved.
        sources: The texts of its programs, by module: `__torch__.torch.nn.functional`.
        constants: The constants the programs name `CONSTANTS.c0` and so on.
    """

    root: ScriptModule
    sources: dict[str, str]
    constants: tuple[Any, ...] = field(default=())


def is_script_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a zip archive with programs in it, as `torch.jit.save` writes them."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.partition("/")[2] for name in archive.namelist()]
    except OSError:
        raise
    except Exception:  # Whatever is wrong with it, it is no archive.
        return False
    return "constants.pkl" in names and any(name.startswith("code/") for name in names)


def read_script_archive(source: str | os.PathLike[str] | io.BytesIO) -> ScriptArchive:
    """Read an archive that `torch.jit.save` wrote. Nothing in it is run.

    Raises:
        RecordFormatError: If it is something else, or damaged, or holds what is not plain data.
    """
    try:
        with zipfile.ZipFile(source) as archive:
            members = _Members(archive)
            sources = {
                name.removeprefix("code/").removesuffix(".py").replace("/", "."): members.text(name)
                for name in members.names
                if name.startswith("code/") and name.endswith(".py")
            }
            root = _Reader(members, "data.pkl", "data").load()
            constants = _Reader(members, "constants.pkl", "constants").load()
    except RecordFormatError:
        raise
    except Exception as error:  # zip, zlib and pickle raise many types on damaged data.
        raise _refused(f"{type(error).__name__}: {error!s:.200}") from None
    if not isinstance(root, ScriptModule) or not isinstance(constants, tuple):
        raise _refused("it holds no module")
    return ScriptArchive(root, sources, constants)


def _refused(reason: object) -> RecordFormatError:
    return RecordFormatError(
        f"`path` must be an archive of torch.jit.save that holds plain data; {reason}."
    )


class _Members:
    """The files of an archive, which stand in one folder; only programs are compressed."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive, self._read = archive, 0
        self._info = {info.filename.partition("/")[2]: info for info in archive.infolist()}
        self.names = list(self._info)
        order = self.bytes("byteorder").strip() if "byteorder" in self._info else b"little"
        if order != b"little":
            raise RecordFormatError(f"`path` must hold little-endian numbers; got {order!r:.20}.")

    def bytes(self, name: str) -> bytes:
        info = self._info.get(name)
        if info is None:
            raise RecordFormatError(f"`path` must be an archive of torch.jit.save; no `{name}`.")
        # Stored as it is: what is read is never longer than the file.
        if info.compress_type != zipfile.ZIP_STORED:
            raise _refused(f"`{name:.60}` is compressed, which torch does with programs only")
        return self._archive.read(info)

    def text(self, name: str) -> str:
        with self._archive.open(self._info[name]) as stream:
            content = stream.read(_MOST_TEXT + 1)
        self._read += len(content)
        if self._read > _MOST_TEXT:
            raise _refused(f"its programs are longer than {_MOST_TEXT} bytes")
        return content.decode("utf-8")


class _Reader(pickle.Unpickler):
    """An unpickler that finds tensors, containers and inert modules, and nothing else."""

    def __init__(self, members: _Members, name: str, folder: str) -> None:
        super().__init__(io.BytesIO(members.bytes(name)))
        self._members, self._folder = members, folder

    def find_class(self, module: str, name: str) -> Any:
        if module == "__torch__" or module.startswith("__torch__."):
            return type("ScriptModule", (ScriptModule,), {"qualified_name": f"{module}.{name}"})
        if module == "torch" and name in _STORED_AS:
            return name
        found = _KNOWN.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"`{module}.{name}` is not plain data")
        return found

    def persistent_load(self, pid: Any) -> AnyArray:
        kind, storage, key, _, n = pid
        if kind != "storage" or storage not in _STORED_AS or not isinstance(key, str):
            raise pickle.UnpicklingError(f"a tensor is stored as {storage!r:.40}")
        array = np.frombuffer(self._members.bytes(f"{self._folder}/{key}"), _STORED_AS[storage])
        if len(array) != n:
            raise pickle.UnpicklingError(f"a tensor has {len(array)} numbers in place of {n}")
        if storage == "BFloat16Storage":
            # The upper half of a float32.
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array


def _tensor(
    storage: AnyArray, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any
) -> FloatArray:
    """A tensor of its own from a part of a storage; never more numbers than the storage has."""
    if not isinstance(storage, np.ndarray) or len(size) != len(stride) or len(size) > 8:
        raise pickle.UnpicklingError("a tensor is not what torch writes")
    whole = [int(x) for x in (offset, *size, *stride)]
    reach = whole[0] + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    n_entries = int(np.prod([int(n) for n in size], dtype=object)) if size else 1
    if min(whole) < 0 or n_entries > len(storage) or (n_entries and reach >= len(storage)):
        raise pickle.UnpicklingError("a tensor reaches beyond its storage")
    indices = np.full((), offset)
    for n, s in zip(size, stride, strict=True):
        indices = indices[..., None] + s * np.arange(n)
    return np.asarray(storage[indices], dtype=np.float64)


def _itself(value: Any) -> Any:
    return value


_KNOWN: dict[tuple[str, str], Callable[..., Any]] = {
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
    ("collections", "OrderedDict"): OrderedDict,
    ("torch.jit._pickle", "build_intlist"): _itself,
    ("torch.jit._pickle", "build_doublelist"): _itself,
    ("torch.jit._pickle", "build_boollist"): _itself,
    ("torch.jit._pickle", "build_tensorlist"): _itself,
}
