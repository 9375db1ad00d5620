"""TorchScript archives, read without running anything.

`torch.jit.load` compiles the program in the archive and runs parts of it (`__setstate__`), so a
file from a stranger must not be given to it. Here an archive is data: its pickles are read by a
machine that calls nothing (`pickled_data`), every module becomes a plain list of attributes, and
its program is text, to be read as such (`script_programs`). torch is not needed.
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
    archive_storages,
    opened_archive,
    plain_call,
)
from hardmax.models.formats.torch.pickled_data import read_pickle

_MOST_TEXT = 2**19
"""How long programs may be: they are compressed, and a parsed one takes many times its length."""
_LISTS = ("build_intlist", "build_doublelist", "build_boollist", "build_tensorlist")


@dataclass(eq=False)
class ScriptModule:
    """A module of an archive: its type, by name, and its attributes. It does nothing.

    Attributes:
        qualified_name: The type, such as `__torch__.torch.nn.modules.linear.Linear`.
        attributes: What it holds: modules, arrays, numbers.
    """

    qualified_name: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ScriptArchive:
    """What an archive holds.

    Attributes:
        root: The module that was saved.
        sources: The texts of its programs, by module: `__torch__.torch.nn.functional`.
        constants: The constants the programs name `CONSTANTS.c0` and so on.
        n_bytes: The size of the file.
    """

    root: ScriptModule
    sources: dict[str, str]
    constants: tuple[Any, ...] = field(default=())
    n_bytes: int = 0


def is_script_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a zip archive with programs in it, as `torch.jit.save` writes them."""
    with Path(path).open("rb") as file:
        if file.read(2) != b"PK":
            return False
    try:
        with opened_archive(Path(path).read_bytes()) as archive:
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
        stream = source if isinstance(source, io.BytesIO) else io.BytesIO(Path(source).read_bytes())
        content = stream.getvalue()
        limit = SizeLimit(len(content))
        with opened_archive(content) as archive:
            members = ArchiveMembers(archive)
            sources = _programs(members)
            root = _read(members, "data.pkl", "data", limit)
            constants = _read(members, "constants.pkl", "constants", limit)
    except OSError:
        raise
    except (RecordFormatError, SizeLimitError) as error:
        raise _refused(str(error).rstrip(".")) from None
    except Exception as error:  # zip and zlib raise many types on damaged data.
        raise _refused(f"{type(error).__name__}: {error!s:.200}") from None
    if not isinstance(root, ScriptModule) or not isinstance(constants, tuple):
        raise _refused("it holds no module")
    return ScriptArchive(root, sources, constants, len(content))


def _refused(reason: object) -> RecordFormatError:
    return RecordFormatError(
        f"`path` must be an archive of torch.jit.save that holds plain data; {reason}."
    )


def _programs(members: ArchiveMembers) -> dict[str, str]:
    """The texts of the programs, by module; they are compressed, so their length is watched."""
    sources: dict[str, str] = {}
    left = _MOST_TEXT
    for name in members.names:
        if name.startswith("code/") and name.endswith(".py"):
            text = members.text(name, left + 1)
            left -= len(text)
            if left < 0:
                raise RecordFormatError(f"its programs are longer than {_MOST_TEXT} bytes")
            sources[name.removeprefix("code/").removesuffix(".py").replace("/", ".")] = text
    return sources


def _read(members: ArchiveMembers, name: str, folder: str, limit: SizeLimit) -> Any:
    content = io.BytesIO(members.bytes(name))

    def call(name: str, arguments: tuple[Any, ...]) -> Any:
        return _call(name, arguments, limit)

    return read_pickle(content, call, archive_storages(members, folder), _build)


def _call(name: str, arguments: tuple[Any, ...], limit: SizeLimit) -> Any:
    """A module that does nothing, a list, or plain data; a tensor is an array of float64."""
    if name.startswith("__torch__."):
        return ScriptModule(name)
    module, _, attribute = name.rpartition(".")
    if module == "torch.jit._pickle" and attribute in _LISTS:
        return arguments[0]
    made = plain_call(name, arguments)
    if not isinstance(made, StoredTensor):
        return made
    array = made.array()
    limit.take(8 * array.size)
    return np.asarray(array, np.float64)


def _build(made: Any, state: Any) -> None:
    if isinstance(made, ScriptModule):
        if not isinstance(state, dict):
            raise RecordFormatError("a module must have attributes")
        made.attributes = {str(name): value for name, value in state.items()}
