"""Files: atomic writing, and reading of text with clear errors."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EISDIR
from pathlib import Path
from typing import IO

from hardmax.errors import ArgumentError, FileError, RecordFormatError


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file for writing that replaces `path` if the block ends without an error.

    After an exception, a crash or a full disk, an existing file is unchanged. An exception or a
    full disk also leaves no temporary file.

    Raises:
        FileError: If the folder does not exist or is not writable, if `path` is a folder, or if the
            disk is full.

    Examples:
        >>> folder = tempfile.mkdtemp()
        >>> with atomic_write(Path(folder) / "x") as stream:
        ...     _ = stream.write(b"whole")
        >>> (Path(folder) / "x").read_bytes(), len(os.listdir(folder))
        (b'whole', 1)
    """
    target = Path(path)
    if target.is_dir():
        raise FileError.of(IsADirectoryError(EISDIR, os.strerror(EISDIR)), str(target))
    try:
        handle, scratch = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:  # Name the folder, not the temporary file.
        raise FileError.of(error, str(target.parent)) from None
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(scratch, _permissions(target))
        os.replace(scratch, target)
    except BaseException as error:
        with suppress(OSError):
            Path(scratch).unlink(missing_ok=True)
        # An error that names another file does not concern this file.
        if isinstance(error, OSError) and error.filename in (None, scratch):
            raise FileError.of(error, str(target)) from None
        raise


def _permissions(target: Path) -> int:
    """Return the permissions of the file to be replaced, or the default for a new file."""
    if target.exists():
        return target.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a UTF-8 text file atomically (see `atomic_write`)."""
    with atomic_write(path) as stream:
        stream.write(text.encode("utf-8"))


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a UTF-8 text file.

    Raises:
        RecordFormatError: If the file is not valid UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RecordFormatError(f"`path` must be a UTF-8 text file; {path}: {error}.") from None


def check_ending(path: str | os.PathLike[str], endings: tuple[str, ...]) -> str:
    """Return the ending of a file to write, which selects its format.

    Args:
        path: The file.
        endings: The allowed endings, in lower case.

    Raises:
        ArgumentError: If the file has no ending or another ending.

    Examples:
        >>> check_ending("cells.CSV", (".csv", ".parquet"))
        '.csv'
        >>> check_ending("cells.txt", (".csv", ".parquet"))
        Traceback (most recent call last):
            ...
        hardmax.errors.ArgumentError: `path` must end in .csv or .parquet, which selects the format;
        got 'cells.txt'.
    """
    ending = Path(path).suffix.lower()
    if ending not in endings:
        raise ArgumentError(
            f"`path` must end in {' or '.join(endings)}, which selects the format; got "
            f"{os.fspath(path)!r}."
        )
    return ending


def make_folder(out: Path) -> None:
    """Create a folder if it does not exist, and check that it is writable.

    Raises:
        ArgumentError: If the folder cannot be created or is not writable.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise ArgumentError(f"`out` must be a writable folder; {error}.") from None
