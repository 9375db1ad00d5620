"""Safe reading of untrusted Parquet files: the footer is checked before any data is read.

A file of a few megabytes can encode billions of equal rows. Hence a file is opened only if the
sizes in its footer are possible for a table of this library, whose rows are distinct, and do not
exceed a limit on memory.
"""

import os
from pathlib import Path
from typing import Any

from hardmax._ground.extras import load_extra
from hardmax._ground.parquet_footers import read_footer
from hardmax.errors import HardmaxError, RecordFormatError, SizeLimitError

MOST_BYTES = 1 << 32
"""Default limit on the size of a table in memory."""
_ROWS_PER_BYTE = 8
"""Distinct rows take at least one bit each, even if they are compressed."""
_MOST_CHUNKS = 1 << 20
_WIDTHS, _FIXED = {0: 1, 1: 4, 2: 8, 4: 4, 5: 8}, 7
"""Bytes per entry for each physical type (boolean, int32, int64, float32, float64), and the type of
byte strings of fixed length, whose length is in the schema."""


def open_parquet(
    path: str | os.PathLike[str], *, extra: str, purpose: str, max_bytes: int = MOST_BYTES
) -> Any:
    """Open a Parquet file with a plausible footer, as a `pyarrow.parquet.ParquetFile`.

    Args:
        path: The file.
        extra: The group of dependencies that contains pyarrow, for `load_extra`.
        purpose: A plural noun for the error message (see `load_extra`).
        max_bytes: The maximum size of the columns in memory.

    Raises:
        FileNotFoundError: If the file does not exist.
        RecordFormatError: If the file is damaged, or its footer states more rows than a file of
            this size can contain.
        SizeLimitError: If the table would take more than `max_bytes` in memory.
        MissingExtraError: If pyarrow is not installed.
    """
    parquet = load_extra("pyarrow.parquet", extra=extra, purpose=purpose)
    size = Path(path).stat().st_size
    try:
        # This comes before pyarrow reads the footer, because damaged footers can end the process.
        n_rows, n_bytes = _declared_size(path)
        # No string in a footer is longer than the file.
        file = parquet.ParquetFile(
            path, thrift_string_size_limit=size + 1, page_checksum_verification=True
        )
    except Exception as error:
        raise _damage_error(path, error) from None
    if n_rows > _ROWS_PER_BYTE * size:
        raise RecordFormatError(
            f"`path` must be a Parquet file with distinct rows; {path} states {n_rows:,} rows in "
            f"only {size:,} bytes."
        )
    if n_bytes > max_bytes:
        raise SizeLimitError(
            f"`path` must be a table of at most {max_bytes:,} bytes in memory; {path} would take "
            f"{n_bytes:,}."
        )
    return file


def read_parquet(file: Any, path: str | os.PathLike[str]) -> Any:
    """Read and validate the table of an open file; `path` is used in error messages.

    Raises:
        RecordFormatError: If a page is damaged, or a string or list is invalid.
    """
    try:
        table = file.read()
        table.validate(full=True)
        return table
    except Exception as error:
        raise _damage_error(path, error) from None


def _declared_size(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return the number of rows stated in a footer, and an upper bound on their size in memory."""
    announced, groups = read_footer(path)
    n_columns = max((len(group.chunks) for group in groups), default=0)
    if len(groups) * max(n_columns, 1) > _MOST_CHUNKS:
        raise ValueError(f"the footer lists {len(groups)} row groups")
    n_rows, n_bytes = 0, 0
    for group in groups:
        n_rows += group.n_rows
        for chunk in group.chunks:
            # No string is longer than all strings of the column together.
            width = chunk.width if chunk.type == _FIXED else _WIDTHS.get(chunk.type, chunk.n_bytes)
            n_bytes += chunk.n_values * width + 8 * group.n_rows
    if n_rows != announced:
        raise ValueError(f"the footer states {announced} rows, but its groups have {n_rows}")
    return n_rows, n_bytes


def _damage_error(path: str | os.PathLike[str], error: Exception) -> HardmaxError:
    # pyarrow raises errors of many types, including built-in ones.
    reason = " ".join(str(error).split())
    return RecordFormatError(f"`path` must name a Parquet file; {path}: {reason:.200}.")
