"""Parquet files that nobody vouches for: the footer is judged before anything is read.

A few megabytes can stand for billions of equal rows. So a file is opened only if what its footer
announces is possible for tables of this library, whose rows differ, and fits a limit on memory.
"""

import os
from pathlib import Path
from typing import Any

from hardmax._ground.extras import load_extra
from hardmax._ground.parquet_footers import read_footer
from hardmax.errors import HardmaxError, RecordFormatError, SizeLimitError

MOST_BYTES = 1 << 32
"""What a table may take in memory, unless its reader allows more."""
_ROWS_PER_BYTE = 8
"""Rows that differ take a bit each at least, however they are compressed."""
_MOST_CHUNKS = 1 << 20
_WIDTHS, _FIXED = {0: 1, 1: 4, 2: 8, 4: 4, 5: 8}, 7
"""Bytes of an entry by its physical type: truth values, int32, int64, float32, float64; bytes of a
fixed length, whose schema has it."""


def open_parquet(
    path: str | os.PathLike[str], *, extra: str, purpose: str, max_bytes: int = MOST_BYTES
) -> Any:
    """Open a Parquet file whose footer is plausible, as a `pyarrow.parquet.ParquetFile`.

    Args:
        path: The file.
        extra: The group of dependencies pyarrow is in, for `load_extra`.
        purpose: What needs it.
        max_bytes: How much memory its columns may take.

    Raises:
        FileNotFoundError: If there is none.
        RecordFormatError: If it is damaged, or announces more rows than its bytes can hold.
        SizeLimitError: If it announces more than `max_bytes`.
        MissingExtraError: If pyarrow is not installed.
    """
    parquet = load_extra("pyarrow.parquet", extra=extra, purpose=purpose)
    size = Path(path).stat().st_size
    try:
        # Before pyarrow looks at the footer: some that are damaged end the process.
        n_rows, n_bytes = _announced(path)
        # No text in a footer is longer than the file.
        file = parquet.ParquetFile(
            path, thrift_string_size_limit=size + 1, page_checksum_verification=True
        )
    except Exception as error:
        raise _damaged(path, error) from None
    if n_rows > _ROWS_PER_BYTE * size:
        raise RecordFormatError(
            f"`path` must be a Parquet file whose rows differ; {path} announces {n_rows:,} rows in "
            f"{size:,} bytes."
        )
    if n_bytes > max_bytes:
        raise SizeLimitError(
            f"`path` must be a table of at most {max_bytes:,} bytes in memory; {path} announces "
            f"{n_bytes:,}."
        )
    return file


def read_parquet(file: Any, path: str | os.PathLike[str]) -> Any:
    """Read the table of an open file, every text and list of it valid; its path is for messages.

    Raises:
        RecordFormatError: If a page is damaged.
    """
    try:
        table = file.read()
        table.validate(full=True)
        return table
    except Exception as error:
        raise _damaged(path, error) from None


def _announced(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return how many rows a footer announces, and how many bytes they take in memory at most."""
    announced, groups = read_footer(path)
    n_columns = max((len(group.chunks) for group in groups), default=0)
    if len(groups) * max(n_columns, 1) > _MOST_CHUNKS:
        raise ValueError(f"it announces {len(groups)} groups of rows")
    n_rows, n_bytes = 0, 0
    for group in groups:
        n_rows += group.n_rows
        for chunk in group.chunks:
            # A text is not longer than all texts of the column.
            width = chunk.width if chunk.type == _FIXED else _WIDTHS.get(chunk.type, chunk.n_bytes)
            n_bytes += chunk.n_values * width + 8 * group.n_rows
    if n_rows != announced:
        raise ValueError(f"it announces {announced} rows in groups of {n_rows}")
    return n_rows, n_bytes


def _damaged(path: str | os.PathLike[str], error: Exception) -> HardmaxError:
    # pyarrow raises errors of many kinds, not all of them its own.
    reason = " ".join(str(error).split())
    return RecordFormatError(f"`path` must name a Parquet file; {path}: {reason:.200}.")
