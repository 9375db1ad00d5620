"""Partitions in Parquet files: what goes in comes back, and only for its own model and domain."""

import sys

import numpy as np
import pytest

from hardmax.errors import MissingExtraError, RecordFormatError
from hardmax.geometry.domains import Box, Segment, WholeSpace
from hardmax.models.networks import ReluNetwork
from hardmax.regions.arrow_tables import load_partition, save_partition, to_arrow
from hardmax.regions.engines import enumerate_regions

NET = ReluNetwork([np.array([[1.0, 0.5, -1.0], [0.25, -1.0, 1.0]]), np.ones((3, 2))])
BOX = Box([-1.0, -1.0], [1.0, 1.0])
DOMAINS = [BOX, WholeSpace(2), Segment([-1.0, 0.5], [1.0, 0.25])]


@pytest.mark.parametrize("domain", DOMAINS, ids=["box", "plane", "segment"])
def test_a_partition_comes_back_from_a_file(domain, tmp_path):
    pytest.importorskip("pyarrow")
    part = enumerate_regions(NET, domain)
    save_partition(part, tmp_path / "cells.parquet")
    back = load_partition(tmp_path / "cells.parquet", NET, domain)
    assert repr(back) == repr(part)
    assert back.decisions == part.decisions
    assert back.signatures.dtype == part.signatures.dtype
    np.testing.assert_array_equal(back.signatures, part.signatures)
    for name in ("maps", "map_radii", "vertices", "starts", "directions", "walls", "cuts"):
        mine, theirs = getattr(back.cells, name), getattr(part.cells, name)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            np.testing.assert_array_equal(mine, theirs)
    assert (back.n_regions, back.n_affine_maps) == (part.n_regions, part.n_affine_maps)
    assert [path.name for path in tmp_path.iterdir()] == ["cells.parquet"]


def test_a_table_has_a_row_for_each_cell():
    pytest.importorskip("pyarrow")
    part = enumerate_regions(NET, BOX)
    table = to_arrow(part)
    assert table.num_rows == part.n_cells
    assert table.column("signatures")[0].as_py() == part.signatures[0].tolist()


def test_a_file_of_another_model_or_domain_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    save_partition(enumerate_regions(NET, BOX), tmp_path / "cells.parquet")
    other = ReluNetwork([np.eye(2), np.ones((2, 1))])
    with pytest.raises(RecordFormatError, match="this model"):
        load_partition(tmp_path / "cells.parquet", other, BOX)
    with pytest.raises(RecordFormatError, match="this domain"):
        load_partition(tmp_path / "cells.parquet", NET, WholeSpace(2))


def test_what_is_no_stored_partition_is_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    (tmp_path / "garbage.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(RecordFormatError, match="`path`"):
        load_partition(tmp_path / "garbage.parquet", NET, BOX)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    with pytest.raises(RecordFormatError, match="`table`"):
        load_partition(tmp_path / "other.parquet", NET, BOX)


def test_a_missing_library_is_named(monkeypatch):
    part = enumerate_regions(NET, BOX)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"hardmax\[arrow\]"):
        to_arrow(part)
