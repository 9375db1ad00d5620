"""Parquet files that nobody vouches for: the footer is judged before anything is read.

A few megabytes can stand for billions of equal rows. So a file is opened only if what its footer
announces is possible for tables of this library, whose rows differ, and fits a limit on memory.
"""

import os
from pathlib import Path
from typing import Any

from hardmax._ground.extras import load_extra
from hardmax.errors import HardmaxError, RecordFormatError, SizeLimitError

MOST_BYTES = 1 << 32
"""What a table may take in memory, unless its reader allows more."""
_ROWS_PER_BYTE = 8
"""Rows that differ take a bit each at least, however they are compressed."""
_MOST_CHUNKS = 1 << 20
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8}


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
        # No text in a footer is longer than the file.
        file = parquet.ParquetFile(
            path, thrift_string_size_limit=size + 1, page_checksum_verification=True
        )
        n_rows, n_bytes = _announced(file.metadata)
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


def _announced(footer: Any) -> tuple[int, int]:
    """Return how many rows a footer announces, and how many bytes they take in memory at most."""
    n_columns = footer.num_columns
    if footer.num_row_groups * max(n_columns, 1) > _MOST_CHUNKS:
        raise ValueError(f"it announces {footer.num_row_groups} groups of rows")
    n_rows, n_bytes = 0, 0
    for i in range(footer.num_row_groups):
        group = footer.row_group(i)
        n_rows += group.num_rows
        for j in range(n_columns):
            chunk = group.column(j)
            numbers = chunk.num_values, chunk.total_uncompressed_size, group.num_rows
            if min(numbers) < 0:
                raise ValueError("it announces fewer than no values")
            # A text is not longer than all texts of the column.
            width = _WIDTHS.get(chunk.physical_type, chunk.total_uncompressed_size)
            if chunk.physical_type == "FIXED_LEN_BYTE_ARRAY":
                width = footer.schema.column(j).length
            n_bytes += chunk.num_values * width + 8 * group.num_rows
    if n_rows != footer.num_rows:
        raise ValueError(f"it announces {footer.num_rows} rows in groups of {n_rows}")
    return n_rows, n_bytes


def _damaged(path: str | os.PathLike[str], error: Exception) -> HardmaxError:
    # pyarrow raises errors of many kinds, not all of them its own.
    reason = " ".join(str(error).split())
    return RecordFormatError(f"`path` must name a Parquet file; {path}: {reason:.200}.")
