"""Files that are either whole or untouched: writing in one step, reading text with clear errors."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EISDIR
from pathlib import Path
from typing import IO

from hardmax.errors import ArgumentError, FileError, RecordFormatError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes the place of `path` when the block ends well.

    An exception, a crash or a full disk leaves an older file as it was, and no scratch file.

    Raises:
        FileError: If the folder does not exist or cannot be written to, if `path` is a folder, or
            if the disk is full.

    Examples:
        >>> folder = tempfile.mkdtemp()
        >>> with replacing(Path(folder) / "x") as stream:
        ...     _ = stream.write(b"whole")
        >>> (Path(folder) / "x").read_bytes(), len(os.listdir(folder))
        (b'whole', 1)
    """
    target = Path(path)
    if target.is_dir():
        raise FileError.of(IsADirectoryError(EISDIR, os.strerror(EISDIR)), str(target))
    try:
        handle, scratch = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:  # It would name the scratch file, which nobody has heard of.
        raise FileError.of(error, str(target.parent)) from None
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(scratch, _mode(target))
        os.replace(scratch, target)
    except BaseException as error:
        with suppress(OSError):
            Path(scratch).unlink(missing_ok=True)
        # An error that names another file is not about this one.
        if isinstance(error, OSError) and error.filename in (None, scratch):
            raise FileError.of(error, str(target)) from None
        raise


def _mode(target: Path) -> int:
    """Return the permissions of the file that is replaced, or those any new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text in one step (see `replacing`)."""
    with replacing(path) as stream:
        stream.write(text.encode("utf-8"))


def read_text(path: str | os.PathLike[str]) -> str:
    """Read UTF-8 text.

    Raises:
        RecordFormatError: If the file is not text.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RecordFormatError(f"`path` must name a text file; {path}: {error}.") from None


def check_ending(path: str | os.PathLike[str], endings: tuple[str, ...]) -> str:
    """Return the ending of a file to write, which says its format.

    Args:
        path: The file.
        endings: The endings allowed, in lower case.

    Raises:
        ArgumentError: If it has another one, or none.

    Examples:
        >>> check_ending("cells.CSV", (".csv", ".parquet"))
        '.csv'
        >>> check_ending("cells.txt", (".csv", ".parquet"))
        Traceback (most recent call last):
            ...
        hardmax.errors.ArgumentError: `path` must end in .csv or .parquet, which says the format to
        write; got 'cells.txt'.
    """
    ending = Path(path).suffix.lower()
    if ending not in endings:
        raise ArgumentError(
            f"`path` must end in {' or '.join(endings)}, which says the format to write; got "
            f"{os.fspath(path)!r}."
        )
    return ending


def make_folder(out: Path) -> None:
    """Make a folder if it is not there, and see that a file can be written to it.

    Raises:
        ArgumentError: If it cannot.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise ArgumentError(f"`out` must be a folder that can be written; {error}.") from None
