"""Tables of results, one file for each, which can be queried with SQL without a server.

A table is a Parquet file if pyarrow is installed. Otherwise it is a file of JSON lines, with one
row per line: pyarrow needs a third as much disk space as everything that hardmax requires. The
experiments and the report work with both formats.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from hardmax._ground.extras import load_extra
from hardmax._ground.files import atomic_write
from hardmax._ground.parquet_files import open_parquet, read_parquet
from hardmax.errors import ArgumentError, MissingExtraError, RecordFormatError, SizeLimitError

FOLDER = "tables"
_PARQUET, _LINES = ".parquet", ".jsonl"
_SQL_TYPES = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}
_ROWS_AT_ONCE = 500
"""The number of rows that one statement inserts."""

Table: TypeAlias = tuple[list[str], list[tuple[Any, ...]]]
"""The names of the columns, and the rows."""


def write_table(out: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write one tidy table to `OUT/tables` atomically, and return its path.

    The file is `NAME.parquet`, or `NAME.jsonl` if pyarrow is not installed; a table of the same
    name in the other format is removed. Integers that do not fit into 64 bits, such as some counts
    of regions, become decimal text.

    Raises:
        ArgumentError: If there are no rows, or if the rows have different keys.
    """
    if not rows or any(list(row) != list(rows[0]) for row in rows):
        raise ArgumentError(
            f"`rows` of table {name!r} must contain at least one row, and all rows must have the "
            "same keys."
        )
    columns = {key: [_to_plain_value(row[key]) for row in rows] for key in rows[0]}
    for key, values in columns.items():
        if any(isinstance(value, str) for value in values):
            columns[key] = [None if value is None else str(value) for value in values]
    folder = out / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    try:
        pa, parquet = _load_library("pyarrow"), _load_library("pyarrow.parquet")
    except MissingExtraError:
        path, other = folder / f"{name}{_LINES}", folder / f"{name}{_PARQUET}"
        with atomic_write(path) as stream:
            for row in zip(*columns.values(), strict=True):
                line = json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False)
                stream.write(f"{line}\n".encode())
    else:
        path, other = folder / f"{name}{_PARQUET}", folder / f"{name}{_LINES}"
        with atomic_write(path) as stream:
            parquet.write_table(pa.table(columns), stream, write_page_checksum=True)
    other.unlink(missing_ok=True)
    return path


def connect(out: Path) -> Any:
    """Return a DuckDB connection with every table of a results folder.

    The connection can read only the files of that folder.

    Raises:
        ArgumentError: If the folder has no tables, or a file there is not a valid table.
        MissingExtraError: If duckdb is not installed.
    """
    duckdb = _load_library("duckdb")
    files = _list_files(out)
    if not files:
        raise ArgumentError(f"`out` must be a folder of results with tables; {out} has none.")
    for path in files:
        if path.suffix == _PARQUET:
            _open_table(path).close()
    connection = duckdb.connect(":memory:")
    for path in files:
        try:
            if path.suffix == _PARQUET:
                file = str(path).replace("'", "''")
                source = f"SELECT * FROM read_parquet('{file}')"
                connection.execute(f"CREATE TABLE {_quote_identifier(path.stem)} AS {source}")
            else:
                _insert(connection, path.stem, _read_lines(path))
        except (duckdb.Error, ArgumentError):
            connection.close()
            raise ArgumentError(_damage_message(path)) from None
    connection.execute("SET enable_external_access = false")
    return connection


def read_tables(out: Path) -> dict[str, Table]:
    """Return the columns and rows of every table of a results folder, by name.

    Raises:
        ArgumentError: If one of the files is not a valid table.
        MissingExtraError: If one is a Parquet file and pyarrow is not installed.
    """
    tables = {}
    for path in _list_files(out):
        read = _read_parquet if path.suffix == _PARQUET else _read_lines
        tables[path.stem] = read(path)
    return tables


def query(out: Path, sql: str) -> Table:
    """Run one SQL query over the tables; return the column names and the rows.

    Raises:
        ArgumentError: If the query is not valid.
    """
    connection = connect(out)
    try:
        answer = connection.execute(sql)
        if answer is None:
            raise ArgumentError("`sql` must be a valid query; got an empty one.")
        return [column[0] for column in answer.description or []], answer.fetchall()
    except _load_library("duckdb").Error as error:
        raise ArgumentError(f"`sql` must be a valid query; {error}.") from None
    finally:
        connection.close()


def _list_files(out: Path) -> list[Path]:
    found = [p for p in (out / FOLDER).glob("*.*") if p.suffix in (_PARQUET, _LINES)]
    return sorted(path for path in found if not path.name.startswith("."))


def _read_parquet(path: Path) -> Table:
    with _open_table(path) as file:
        try:
            table = read_parquet(file, path)
        except RecordFormatError:
            raise ArgumentError(_damage_message(path)) from None
    columns = [column.to_pylist() for column in table.columns]
    return table.column_names, list(zip(*columns, strict=True))


def _read_lines(path: Path) -> Table:
    try:
        text = path.read_text(encoding="utf-8")
        rows = [json.loads(line) for line in text.splitlines()]
        # A complete file ends with a newline. Rows contain only numbers and text.
        if not text.endswith("\n") or any(list(row.items()) != _plain_entries(row) for row in rows):
            raise ValueError
        if any(row.keys() != rows[0].keys() for row in rows):
            raise ValueError
    except (OSError, ValueError, AttributeError, RecursionError):
        raise ArgumentError(_damage_message(path)) from None
    return list(rows[0]), [tuple(row.values()) for row in rows]


def _plain_entries(row: dict[str, Any]) -> list[tuple[str, Any]]:
    kinds = (*_SQL_TYPES, type(None))
    return [(key, value) for key, value in row.items() if type(value) in kinds]


def _insert(connection: Any, name: str, table: Table) -> None:
    """Create a table from rows of plain values; a column of ints and floats becomes floats."""
    columns, rows = table
    kinds = []
    for values in zip(*rows, strict=True):
        held = {type(value) for value in values if value is not None} or {str}
        kinds.append(held.pop() if len(held) == 1 else float if held == {int, float} else str)
    declared = [
        f"{_quote_identifier(c)} {_SQL_TYPES[kind]}" for c, kind in zip(columns, kinds, strict=True)
    ]
    connection.execute(f"CREATE TABLE {_quote_identifier(name)} ({', '.join(declared)})")
    marks = f"({', '.join('?' * len(columns))})"
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = rows[start : start + _ROWS_AT_ONCE]
        statement = (
            f"INSERT INTO {_quote_identifier(name)} VALUES {', '.join([marks] * len(block))}"
        )
        connection.execute(statement, [value for row in block for value in row])


def _quote_identifier(name: str) -> str:
    """Quote a name for SQL, whatever characters it contains."""
    return '"' + name.replace('"', '""') + '"'


def _open_table(path: Path) -> Any:
    """Open a table after checking its footer: a small file can announce billions of rows."""
    try:
        return open_parquet(path, extra=_EXTRA, purpose=_PURPOSE)
    except (RecordFormatError, SizeLimitError, OSError):
        raise ArgumentError(_damage_message(path)) from None


def _damage_message(path: Path) -> str:
    return (
        f"`out` must hold tables that can be read; {path} cannot. Remove it and run `hardmax "
        "reproduce` again."
    )


def _to_plain_value(value: Any) -> Any:
    """Convert numpy scalars to Python's, and integers that no column can hold to text."""
    value = value.item() if hasattr(value, "item") else value
    too_long = isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63
    return str(value) if too_long else value


_EXTRA, _PURPOSE = "store", "Tables of results"


def _load_library(name: str) -> Any:
    return load_extra(name, extra=_EXTRA, purpose=_PURPOSE)
