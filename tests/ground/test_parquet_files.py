"""Untrusted Parquet files: footers are read here before pyarrow reads them."""

import io
import random
import subprocess
import sys

import pytest

from hardmax._ground.parquet_files import open_parquet
from hardmax._ground.parquet_footers import read_footer
from hardmax.errors import RecordFormatError

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

PHYSICAL = (
    *("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE"),
    *("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"),
)


def write_table(**options):
    columns = {
        "lists": pa.array([[1, 2], [3], []], pa.list_(pa.int32())),
        "floats": [0.5, 1.5, 2.5],
        "codes": pa.array([b"abc", b"def", b"ghi"], pa.binary(3)),
        "words": ["a", None, "b" * 40],
        "flags": [True, False, None],
        "nested": [{"a": 1, "b": [1.0]}, {"a": 2, "b": []}, None],
    }
    stream = io.BytesIO()
    parquet.write_table(pa.table(columns), stream, **options)
    return stream.getvalue()


def open_table(path):
    return open_parquet(path, extra="arrow", purpose="a test")


@pytest.mark.parametrize(
    "options", [{}, {"row_group_size": 1}, {"use_dictionary": False, "version": "1.0"}], ids=str
)
def test_footers_are_read_as_pyarrow_reads_them(options, tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(write_table(**options))
    n_rows, groups = read_footer(path)
    known = parquet.ParquetFile(path).metadata
    assert (n_rows, len(groups)) == (known.num_rows, known.num_row_groups)
    for i, group in enumerate(groups):
        assert group.n_rows == known.row_group(i).num_rows
        for j, chunk in enumerate(group.chunks):
            other = known.row_group(i).column(j)
            assert PHYSICAL[chunk.type] == other.physical_type
            assert (chunk.n_values, chunk.n_bytes) == (
                other.num_values,
                other.total_uncompressed_size,
            )
            assert chunk.width == max(known.schema.column(j).length or 0, 0)


def test_damaged_footers_are_refused_or_read(tmp_path):
    path, whole = tmp_path / "a.parquet", write_table()
    n_footer = int.from_bytes(whole[-8:-4], "little")
    rng, n_refused = random.Random(0), 0
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(rng.choice([1, 1, 3])):
            damaged[-8 - rng.randrange(n_footer + 1)] = rng.randrange(256)
        path.write_bytes(damaged)
        try:
            read_footer(path)
        except ValueError:
            n_refused += 1
    assert 50 < n_refused < 400


@pytest.mark.parametrize(
    "footer",
    [
        b"",
        b"\x19" + b"\xff" * 10,
        b"\x29\xfc" + b"\xff" * 9 + b"\x01",
        b"\x1c" * 5000,
        b"\x1d\x00",
        b"\x18\xff\xff\xff\xff\x0f",
        b"\x1b\xff\xff\xff\x0f\x88",
    ],
)
def test_footers_that_announce_anything_are_refused_soon(footer, tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ValueError, match="footer"):
        read_footer(path)
    with pytest.raises(RecordFormatError, match="must name a Parquet file"):
        open_table(path)


OPEN = """
import sys
from pathlib import Path
from hardmax._ground.parquet_files import open_parquet, read_parquet
from hardmax.errors import HardmaxError
path, at = Path(sys.argv[1]), int(sys.argv[2])
content, n_refused = path.read_bytes(), 0
for byte in range(256):
    path.write_bytes(content[:at] + bytes([byte]) + content[at + 1 :])
    try:
        with open_parquet(path, extra="arrow", purpose="a test") as file:
            read_parquet(file, path)
    except HardmaxError:
        n_refused += 1
print(n_refused)
"""


def test_a_column_that_repeats_otherwise_does_not_end_the_process(tmp_path):
    """Where its statistics of levels fit the schema no more, pyarrow would, asked for its size."""
    path, content = tmp_path / "a.parquet", write_table()
    path.write_bytes(content)
    # Field 3 of the schema element: its repetition.
    at = content.rindex(b"\x35\x02\x18\x05lists") + 1
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(path), str(at)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
