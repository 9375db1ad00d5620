"""The results as tables: one Parquet file for each, queried with SQL. There is no server."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardmax.errors import ArgumentError, RecordFormatError, SizeLimitError
from hardmax.extras import load_extra
from hardmax.files import replacing
from hardmax.parquet_files import open_parquet, read_parquet

FOLDER = "tables"


def write_table(out: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write one tidy table as `OUT/tables/NAME.parquet`, in one step, and return its path.

    Integers beyond 64 bits, as counts of regions are, become decimal text.

    Raises:
        ArgumentError: If the rows have different keys, or there are none.
        MissingExtraError: If pyarrow is not installed.
    """
    pa = _library("pyarrow")
    if not rows or any(list(row) != list(rows[0]) for row in rows):
        raise ArgumentError(f"`rows` of table {name!r} must be one or more with the same keys.")
    columns = {key: [_plain(row[key]) for row in rows] for key in rows[0]}
    for key, values in columns.items():
        if any(isinstance(value, str) for value in values):
            columns[key] = [None if value is None else str(value) for value in values]
    folder = out / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.parquet"
    with replacing(path) as stream:
        _library("pyarrow.parquet").write_table(pa.table(columns), stream, write_page_checksum=True)
    return path


def connect(out: Path) -> Any:
    """Return a DuckDB connection with a view for every table of a results folder.

    The connection reads the files of that folder and nothing else.

    Raises:
        ArgumentError: If the folder holds no tables, or a file that is no table.
        MissingExtraError: If duckdb is not installed.
    """
    duckdb = _library("duckdb")
    files = sorted((out / FOLDER).glob("*.parquet"))
    if not files:
        raise ArgumentError(f"`out` must be a folder of results with tables; {out} has none.")
    for path in files:
        _open(path).close()
    connection = duckdb.connect(":memory:")
    for path in files:
        view, file = path.stem.replace('"', '""'), str(path).replace("'", "''")
        try:
            connection.execute(f"""CREATE TABLE "{view}" AS SELECT * FROM read_parquet('{file}')""")
        except duckdb.Error:
            connection.close()
            raise ArgumentError(_damaged(path)) from None
    connection.execute("SET enable_external_access = false")
    return connection


def read_tables(out: Path) -> dict[str, tuple[list[str], list[tuple[Any, ...]]]]:
    """Return columns and rows of every table of a results folder, by name.

    Raises:
        ArgumentError: If one of the files is no table.
    """
    tables = {}
    for path in sorted((out / FOLDER).glob("*.parquet")):
        with _open(path) as file:
            try:
                table = read_parquet(file, path)
            except RecordFormatError:
                raise ArgumentError(_damaged(path)) from None
        columns = [column.to_pylist() for column in table.columns]
        tables[path.stem] = (table.column_names, list(zip(*columns, strict=True)))
    return tables


def query(out: Path, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Run one SQL query over the tables; returns the column names and the rows.

    Raises:
        ArgumentError: If the query is not valid.
    """
    connection = connect(out)
    try:
        answer = connection.execute(sql)
        if answer is None:
            raise ArgumentError("`sql` must be a valid query; got an empty one.")
        return [column[0] for column in answer.description or []], answer.fetchall()
    except _library("duckdb").Error as error:
        raise ArgumentError(f"`sql` must be a valid query; {error}.") from None
    finally:
        connection.close()


def _open(path: Path) -> Any:
    """Open a table whose footer is plausible: a small file can announce billions of rows."""
    try:
        return open_parquet(path, extra=_EXTRA, purpose=_PURPOSE)
    except (RecordFormatError, SizeLimitError, OSError):
        raise ArgumentError(_damaged(path)) from None


def _damaged(path: Path) -> str:
    return (
        f"`out` must hold tables that can be read; {path} cannot. Remove it and run `hardmax "
        "reproduce` again."
    )


def _plain(value: Any) -> Any:
    """Turn numpy scalars into Python's, and integers that no column can hold into text."""
    value = value.item() if hasattr(value, "item") else value
    too_long = isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63
    return str(value) if too_long else value


_EXTRA, _PURPOSE = "store", "Tables of results"


def _library(name: str) -> Any:
    return load_extra(name, extra=_EXTRA, purpose=_PURPOSE)
