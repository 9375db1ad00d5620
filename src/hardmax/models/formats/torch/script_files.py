"""A reader of TorchScript archives that executes no code.

`torch.jit.load` compiles the program in the archive and runs parts of it (`__setstate__`), so it is
unsafe for untrusted files. Here an archive is data: its pickles are read by a machine that calls
no functions (`pickled_data`), every module becomes a plain collection of attributes, and its
program is text, which `script_programs` interprets. torch is not required.
"""

import io
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.size_limits import SizeLimit
from hardmax.errors import RecordFormatError, SizeLimitError
from hardmax.models.formats.torch.files import (
    ArchiveMembers,
    StoredTensor,
    build_plain_object,
    make_storage_reader,
    open_archive,
)
from hardmax.models.formats.torch.pickled_data import read_pickle

_MOST_TEXT = 2**19
"""The maximum length of all programs: they are compressed, and parsing multiplies their size."""
_LISTS = ("build_intlist", "build_doublelist", "build_boollist", "build_tensorlist")


@dataclass(eq=False)
class ScriptModule:
    """A module of an archive as data: the name of its type, and its attributes.

    Attributes:
        qualified_name: The type, such as `__torch__.torch.nn.modules.linear.Linear`.
        attributes: The attributes by name: modules, arrays, numbers.
    """

    qualified_name: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ScriptArchive:
    """The content of an archive.

    Attributes:
        root: The module that was saved.
        sources: The source texts of the programs, by module: `__torch__.torch.nn.functional`.
        constants: The constants to which programs refer as `CONSTANTS.c0` and so on.
        n_bytes: The size of the file.
    """

    root: ScriptModule
    sources: dict[str, str]
    constants: tuple[Any, ...] = field(default=())
    n_bytes: int = 0


def is_script_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a zip archive with programs, as written by `torch.jit.save`."""
    with Path(path).open("rb") as file:
        if file.read(2) != b"PK":
            return False
    try:
        with open_archive(Path(path).read_bytes()) as archive:
            names = [name.partition("/")[2] for name in archive.namelist()]
    except OSError:
        raise
    except Exception:  # A damaged file may raise any type; it is not an archive.
        return False
    return "constants.pkl" in names and any(name.startswith("code/") for name in names)


def read_script_archive(source: str | os.PathLike[str] | io.BytesIO) -> ScriptArchive:
    """Read an archive that `torch.jit.save` wrote, without executing code.

    Raises:
        RecordFormatError: If the file is damaged or has another format, or contains objects that
            are not plain data.
    """
    try:
        stream = source if isinstance(source, io.BytesIO) else io.BytesIO(Path(source).read_bytes())
        content = stream.getvalue()
        limit = SizeLimit(len(content))
        with open_archive(content) as archive:
            members = ArchiveMembers(archive)
            sources = _read_programs(members)
            root = _read_member(members, "data.pkl", "data", limit)
            constants = _read_member(members, "constants.pkl", "constants", limit)
    except OSError:
        raise
    except (RecordFormatError, SizeLimitError) as error:
        raise _archive_error(str(error).rstrip(".")) from None
    except Exception as error:  # zip and zlib raise many types on damaged data.
        raise _archive_error(f"{type(error).__name__}: {error!s:.200}") from None
    if not isinstance(root, ScriptModule) or not isinstance(constants, tuple):
        raise _archive_error("it contains no module")
    return ScriptArchive(root, sources, constants, len(content))


def _archive_error(reason: object) -> RecordFormatError:
    return RecordFormatError(
        f"`path` must be an archive of torch.jit.save with plain data; reading it failed: {reason}."
    )


def _read_programs(members: ArchiveMembers) -> dict[str, str]:
    """Return the texts of the programs by module; their uncompressed length is limited."""
    sources: dict[str, str] = {}
    left = _MOST_TEXT
    for name in members.names:
        if name.startswith("code/") and name.endswith(".py"):
            text = members.read_text(name, left + 1)
            left -= len(text)
            if left < 0:
                raise RecordFormatError(f"its programs must have at most {_MOST_TEXT} bytes")
            sources[name.removeprefix("code/").removesuffix(".py").replace("/", ".")] = text
    return sources


def _read_member(members: ArchiveMembers, name: str, folder: str, limit: SizeLimit) -> Any:
    content = io.BytesIO(members.read_bytes(name))

    def call(name: str, arguments: tuple[Any, ...]) -> Any:
        return _build_object(name, arguments, limit)

    return read_pickle(content, call, make_storage_reader(members, folder), _set_state)


def _build_object(name: str, arguments: tuple[Any, ...], limit: SizeLimit) -> Any:
    """Return the module, list or plain data that a call constructs; tensors become float64."""
    if name.startswith("__torch__."):
        return ScriptModule(name)
    module, _, attribute = name.rpartition(".")
    if module == "torch.jit._pickle" and attribute in _LISTS:
        return arguments[0]
    made = build_plain_object(name, arguments)
    if not isinstance(made, StoredTensor):
        return made
    array = made.array()
    limit.take(8 * array.size)
    return np.asarray(array, np.float64)


def _set_state(made: Any, state: Any) -> None:
    if isinstance(made, ScriptModule):
        if not isinstance(state, dict):
            raise RecordFormatError("the state of a module must be a dictionary of attributes")
        made.attributes = {str(name): value for name, value in state.items()}
