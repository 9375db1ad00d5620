"""The store: tidy tables, written atomically and queried with SQL without external access."""

import sys

import numpy as np
import pytest

from hardmax.errors import ArgumentError
from hardmax.papers.store import query, read_tables, write_table

ROWS = [
    {"keys": 2, "cells": np.int64(4), "share": 0.25, "name": "a"},
    {"keys": 3, "cells": 9, "share": np.float64(0.5), "name": None},
]


@pytest.fixture(params=["parquet", "jsonl"], autouse=True)
def kind(request, monkeypatch):
    """Run every test with and without pyarrow."""
    if request.param == "jsonl":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    return request.param


def test_a_table_reads_back_as_it_was_written(tmp_path):
    write_table(tmp_path, "counts", ROWS)
    columns, rows = query(tmp_path, "SELECT * FROM counts ORDER BY keys")
    assert columns == ["keys", "cells", "share", "name"]
    assert rows == [(2, 4, 0.25, "a"), (3, 9, 0.5, None)]


def test_numbers_come_back_as_they_were(tmp_path):
    values = [0.1, 5e-324, -0.0, float("inf"), 3.0, None]
    write_table(tmp_path, "t", [{"x": value, "n": 2**62 + 1, "yes": True} for value in values])
    assert read_tables(tmp_path)["t"][1] == [(value, 2**62 + 1, True) for value in values]
    _, rows = query(tmp_path, "SELECT x, n, yes FROM t")
    assert rows == [(value, 2**62 + 1, True) for value in values]


def test_a_table_of_the_other_kind_makes_way(tmp_path, monkeypatch):
    write_table(tmp_path, "counts", ROWS)
    import_state = sys.modules.get("pyarrow", 0)
    for name in ("pyarrow", "pyarrow.parquet"):
        if import_state is None:
            monkeypatch.delitem(sys.modules, name)
        else:
            monkeypatch.setitem(sys.modules, name, None)
    write_table(tmp_path, "counts", ROWS[:1])
    assert len(list((tmp_path / "tables").iterdir())) == 1
    assert query(tmp_path, "SELECT count(*) FROM counts")[1] == [(1,)]


def test_names_with_quotes_and_many_rows_are_queried(tmp_path):
    write_table(tmp_path, 'o"dd', [{'a"b': k} for k in range(1201)])
    assert query(tmp_path, 'SELECT sum("a""b") FROM "o""dd"')[1] == [(1200 * 1201 // 2,)]


def test_tables_are_joined_by_their_names(tmp_path):
    write_table(tmp_path, "counts", ROWS)
    write_table(tmp_path, "bounds", [{"keys": 2, "most": 5}])
    _, rows = query(tmp_path, "SELECT cells, most FROM counts JOIN bounds USING (keys)")
    assert rows == [(4, 5)]


def test_counts_beyond_64_bits_are_kept_in_full(tmp_path):
    write_table(tmp_path, "big", [{"n": 512**8}, {"n": 1}])
    assert query(tmp_path, "SELECT n FROM big")[1] == [(str(512**8),), ("1",)]


def test_a_second_writing_replaces_the_first(tmp_path, kind):
    write_table(tmp_path, "counts", ROWS)
    write_table(tmp_path, "counts", ROWS[:1])
    assert query(tmp_path, "SELECT count(*) FROM counts")[1] == [(1,)]
    assert [path.name for path in (tmp_path / "tables").iterdir()] == [f"counts.{kind}"]


@pytest.mark.parametrize("rows", [[], [{"a": 1}, {"b": 2}]])
def test_rows_without_common_columns_are_refused(tmp_path, rows):
    with pytest.raises(ArgumentError, match="`rows` of table 'x'"):
        write_table(tmp_path, "x", rows)


def test_a_folder_without_tables_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="`out` must be a folder of results"):
        query(tmp_path, "SELECT 1")


@pytest.mark.parametrize(
    "sql", ["SELEC", "SELECT * FROM nothing", "SELECT * FROM read_text('/etc/passwd')"]
)
def test_a_query_that_is_wrong_or_reaches_outside_is_refused(tmp_path, sql):
    write_table(tmp_path, "counts", ROWS)
    with pytest.raises(ArgumentError, match="`sql` must be a valid query"):
        query(tmp_path, sql)


@pytest.mark.parametrize("read", [lambda out: query(out, "SHOW TABLES"), read_tables])
def test_many_rows_in_few_bytes_are_refused_before_they_are_read(tmp_path, read, kind):
    if kind != "parquet":
        pytest.skip("lines have no footer that could lie")
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = write_table(tmp_path, "t", [{"n": 1}])
    pq.write_table(pa.table({"n": pa.array([0] * 10**6)}), path)
    assert path.stat().st_size < 10**5
    with pytest.raises(ArgumentError, match=r"t\.parquet cannot"):
        read(tmp_path)


@pytest.mark.parametrize("read", [lambda out: query(out, "SHOW TABLES"), read_tables])
def test_a_damaged_table_is_named(tmp_path, read):
    path = write_table(tmp_path, "counts", ROWS)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ArgumentError, match=r"counts\.\w+ cannot\. Remove it"):
        read(tmp_path)


@pytest.mark.parametrize("sql", ["", "  ", "-- nothing"])
def test_an_empty_query_is_refused(tmp_path, sql):
    write_table(tmp_path, "counts", ROWS)
    with pytest.raises(ArgumentError, match="`sql` must be a valid query"):
        query(tmp_path, sql)


@pytest.mark.parametrize("text", ["", "[1]\n", '{"a": [1]}\n', '{"a": 1}\n{"b": 1}\n', "nonsense"])
def test_lines_that_are_no_table_are_refused(tmp_path, text):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "odd.jsonl").write_text(text)
    with pytest.raises(ArgumentError, match=r"odd\.jsonl cannot\. Remove it"):
        read_tables(tmp_path)
