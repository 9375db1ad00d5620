"""Partitions as CSV: every number of a cell, in a table that any program reads."""

import csv
import sys

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import ArgumentError, DtypeError
from tests.region_models import gaussian_relu, integer_transformer

SQUARE = "box:-1,1^2"


def numbers(text, kind=float):
    return [kind(word) for word in text.split()]


def read(path):
    """Return the columns of a file as another program reads them."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        "signatures": [numbers(row["signature"], int) for row in rows],
        "volumes": [float(row["volume"]) if row["volume"] else None for row in rows],
        "witnesses": [numbers(row["witness"]) for row in rows],
        "maps": [[numbers(line) for line in row["map"].split(";")] for row in rows],
    }


def check(part, path):
    found = read(path)
    assert found["signatures"] == part.signatures.tolist()
    assert found["witnesses"] == part.witnesses.tolist()
    assert found["maps"] == part.affine_maps.tolist()
    return found


@pytest.mark.parametrize("domain", ["box:-1,1^3", "space:3", "segment:0,0,0;1,2,3"])
@pytest.mark.parametrize("dim_out", [1, 2])
def test_every_cell_is_a_line_with_all_its_numbers(tmp_path, domain, dim_out):
    part = hm.enumerate_regions(gaussian_relu(4, [3, 5, dim_out]), domain)
    hm.save_partition(part, tmp_path / "cells.csv")
    assert check(part, tmp_path / "cells.csv")["volumes"] == part.volumes.tolist()


def test_the_map_of_a_line_gives_the_output_at_its_witness(tmp_path):
    model = integer_transformer(0, 2, 4, 2)
    hm.save_partition(hm.enumerate_regions(model, SQUARE), tmp_path / "cells.csv")
    found = read(tmp_path / "cells.csv")
    for point, affine in zip(found["witnesses"], found["maps"], strict=True):
        np.testing.assert_allclose([*point, 1.0] @ np.array(affine), model(point), atol=1e-12)


def test_volumes_of_many_dimensions_are_left_out(tmp_path):
    part = hm.enumerate_regions(gaussian_relu(0, [8, 3, 1]), "box:-1,1^8")
    hm.save_partition(part, tmp_path / "cells.csv")
    assert set(check(part, tmp_path / "cells.csv")["volumes"]) == {None}


def test_a_search_that_stopped_early_and_one_in_a_folder_are_written(tmp_path):
    model = gaussian_relu(1, [2, 9, 1])
    some = hm.enumerate_regions(model, SQUARE, max_cells=4)
    hm.save_partition(some, tmp_path / "some.csv")
    assert len(check(some, tmp_path / "some.csv")["maps"]) == 4
    pytest.importorskip("pyarrow")
    whole = hm.enumerate_regions(model, SQUARE)
    stored = hm.enumerate_regions(model, SQUARE, store=tmp_path / "store")
    hm.save_partition(stored, tmp_path / "stored.csv")
    hm.save_partition(whole, tmp_path / "whole.csv")
    assert (tmp_path / "stored.csv").read_text() == (tmp_path / "whole.csv").read_text()


def test_a_table_needs_no_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    part = hm.enumerate_regions(gaussian_relu(1, [2, 3, 1]), SQUARE)
    hm.save_partition(part, tmp_path / "cells.csv")
    with pytest.raises(ImportError, match=r"need pyarrow.*\[arrow\]"):
        hm.save_partition(part, tmp_path / "cells.parquet")


def test_what_has_no_cells_is_refused_and_a_table_is_not_read_back(tmp_path):
    model = gaussian_relu(1, [2, 3, 1])
    counted = hm.enumerate_regions(model, SQUARE, count_only=True)
    with pytest.raises(ArgumentError, match="counted but not stored"):
        hm.save_partition(counted, tmp_path / "cells.csv")
    with pytest.raises(DtypeError, match="`partition` must be a Partition; got ReluNetwork"):
        hm.save_partition(model, tmp_path / "cells.csv")
    assert list(tmp_path.iterdir()) == []
    hm.save_partition(hm.enumerate_regions(model, SQUARE), tmp_path / "cells.csv")
    with pytest.raises(ArgumentError, match=r"cells\.csv'.*\.parquet"):
        hm.load_partition(tmp_path / "cells.csv")
