"""Partitions in Parquet files: what goes in comes back, and only for its own model and domain."""

import json
import sys
from itertools import product

import numpy as np
import pytest

from hardmax._ground.records import fingerprint
from hardmax.errors import MissingExtraError, RecordFormatError, SizeLimitError
from hardmax.geometry.domains import Box, Line, Ray, Segment, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions import arrow_tables, cells
from hardmax.regions.arrow_tables import from_arrow, load_partition, save_partition, to_arrow
from hardmax.regions.counts import AtLeast
from hardmax.regions.engines import enumerate_regions
from hardmax.verify.checking import verify_certificate

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
    for name in ("maps", "map_radii", "vertices", "starts", "directions", "walls"):
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
    with pytest.raises(RecordFormatError, match="belongs to a different model"):
        load_partition(tmp_path / "cells.parquet", other, BOX)
    with pytest.raises(RecordFormatError, match="belongs to a different domain"):
        load_partition(tmp_path / "cells.parquet", NET, WholeSpace(2))


def test_what_is_no_stored_partition_is_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    (tmp_path / "garbage.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(RecordFormatError, match="`path`"):
        load_partition(tmp_path / "garbage.parquet", NET, BOX)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    with pytest.raises(RecordFormatError, match="no entry `hardmax`"):
        load_partition(tmp_path / "other.parquet", NET, BOX)


@pytest.mark.parametrize(
    "domain",
    [
        *DOMAINS,
        Polytope([[1.0, 0.1], [-1.0, 0.3], [0.0, -1.0]], [1.0, 1.0, 1.0]),
        Slice([0.1, 0.2], [[1.0, 0.5], [0.1, -1.0]], Box([-1.0, -2.0], [1.0, 0.3])),
        Slice([0.1, 0.2], [[1.0, 0.5]]),
        Line([0.1, 0.2], [1.0, 0.5]),
        Ray([0.1, 0.2], [1.0, 0.5]),
    ],
    ids=lambda domain: type(domain).__name__,
)
def test_a_file_carries_its_model_and_its_domain(domain, tmp_path):
    pytest.importorskip("pyarrow")
    part = enumerate_regions(NET, domain)
    save_partition(part, tmp_path / "cells.parquet")
    back = load_partition(tmp_path / "cells.parquet")
    assert fingerprint(back.network) == fingerprint(part.network)
    assert back.domain.exact_rows.tolist() == part.domain.exact_rows.tolist()
    assert back.domain.coordinates.matrix.tolist() == part.domain.coordinates.matrix.tolist()
    assert verify_certificate(NET, back.certificate(), domain).n_cells == part.n_cells
    assert (back.n_regions, back.n_affine_maps) == (part.n_regions, part.n_affine_maps)
    # Given both, the file must be about these.
    load_partition(tmp_path / "cells.parquet", NET)
    load_partition(tmp_path / "cells.parquet", domain=domain)


def _with_header(table, **changes):
    header = json.loads(table.schema.metadata[b"hardmax"]) | changes
    header = {name: value for name, value in header.items() if value != "left out"}
    metadata = {**table.schema.metadata, b"hardmax": json.dumps(header)}
    return table.replace_schema_metadata(metadata)


def test_a_file_of_before_is_read_if_model_and_domain_are_given():
    pytest.importorskip("pyarrow")
    table = to_arrow(enumerate_regions(NET, BOX))
    header = json.loads(table.schema.metadata[b"hardmax"]) | {"format": "hardmax.partition/2"}
    del header["domain_text"], header["content"]
    header["content"] = arrow_tables._content_fingerprint(
        header, arrow_tables._read_arrays(table, header)
    )
    old = table.replace_schema_metadata({b"hardmax": json.dumps(header)})
    assert from_arrow(old, NET, BOX).n_cells == table.num_rows
    with pytest.raises(RecordFormatError, match="Pass both"):
        from_arrow(old, NET)


def test_another_model_than_the_fingerprint_says_is_refused():
    pytest.importorskip("pyarrow")
    table = to_arrow(enumerate_regions(NET, BOX))
    other = to_arrow(enumerate_regions(ReluNetwork([-NET.weights[0], np.ones((3, 2))]), BOX))
    name = b"hardmax.model"
    swapped = {**table.schema.metadata, name: other.schema.metadata[name]}
    with pytest.raises(RecordFormatError, match="belongs to a different model"):
        from_arrow(table.replace_schema_metadata(swapped))
    for wrong in (b"", b"?", b"AAAA"):
        with pytest.raises(RecordFormatError):
            from_arrow(table.replace_schema_metadata({**table.schema.metadata, name: wrong}))


DEEP = "[" * 600 + "]" * 600


@pytest.mark.parametrize(
    "header", [DEEP, f'{{"format": {DEEP}}}', "[" * 10**5, "{}", "[]", "null", "1e999", "\\x80"]
)
def test_metadata_of_any_kind_are_refused(header, tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = to_arrow(enumerate_regions(NET, BOX))
    forged = table.replace_schema_metadata({**table.schema.metadata, b"hardmax": header})
    pq.write_table(forged, tmp_path / "cells.parquet")
    with pytest.raises(RecordFormatError, match=r"cells\.parquet: `t.*(must|does not)"):
        load_partition(tmp_path / "cells.parquet")


@pytest.mark.parametrize(
    "changes",
    [
        {"engine": ["planar"]},
        {"engine": "magic"},
        {"is_complete": 1},
        {"decisions": [1, 2]},
        {"decisions": [1, 2, "3"]},
        {"decisions": 3},
        {"shapes": [["signatures", "uint8"]]},
        {"shapes": {"signatures": ["uint8", [-3]]}},
        {"shapes": {"signatures": ["uint8", [2**61, 2**61]]}},
        {"shapes": {"signatures": ["uint8", 3]}},
        {"shapes": {"signatures": "ab"}},
        {"shapes": {"surprise": ["uint8", [3]]}},
        {"shapes": {}},
        {"domain_text": "box:-1,1^3"},
        {"domain_text": "hull:0,0;1,0;0,1"},
        {"domain_text": 3},
        {"domain_text": "left out"},
        {"words": 3},
        {"words": []},
        {"words": [["layer 0", "unit"]]},
        {"words": [["layer 0", "unit", 3]]},
        {"words": [["layer 0", "unit", "form" * 99]]},
        {"model": None},
        {"content": "left out"},
    ],
)
def test_a_header_with_other_types_is_refused(changes):
    pytest.importorskip("pyarrow")
    table = to_arrow(enumerate_regions(NET, BOX))
    assert from_arrow(_with_header(table)).n_cells == table.num_rows
    with pytest.raises(RecordFormatError, match=r"`table` (must|does not|belongs|was)"):
        from_arrow(_with_header(table, **changes))


def test_columns_of_other_types_are_refused():
    pa = pytest.importorskip("pyarrow")
    table = to_arrow(enumerate_regions(NET, BOX))
    n = table.num_rows
    for column in (
        pa.array([0] * n),
        pa.array([{"a": 1}] * n),
        pa.array([["x"] * 3] * n),
        pa.array([[0, 0, None]] * n, pa.list_(pa.uint8())),
        pa.array([[0, 0, 0]] * n, pa.list_(pa.int64())),
        pa.nulls(n),
    ):
        with pytest.raises(RecordFormatError, match="'signatures' must hold lists of uint8"):
            from_arrow(table.set_column(0, "signatures", column))


def test_many_rows_in_few_bytes_are_refused_before_they_are_read(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    monkeypatch.setattr(pq.ParquetFile, "read", None)
    zeros = pa.array(np.zeros(10**7, np.uint8))
    bomb = pa.table({"signatures": zeros}).replace_schema_metadata({b"hardmax": "{}"})
    pq.write_table(bomb, tmp_path / "bomb.parquet")
    assert (tmp_path / "bomb.parquet").stat().st_size < 10**5
    with pytest.raises(RecordFormatError, match="states 10,000,000 rows"):
        load_partition(tmp_path / "bomb.parquet")
    save_partition(enumerate_regions(NET, BOX), tmp_path / "cells.parquet")
    with pytest.raises(SizeLimitError, match="at most 100 bytes in memory"):
        load_partition(tmp_path / "cells.parquet", max_bytes=100)


def test_a_folder_and_a_missing_file_are_no_tables(tmp_path):
    pytest.importorskip("pyarrow")
    with pytest.raises(RecordFormatError, match="`path` must name a Parquet file"):
        load_partition(tmp_path)
    with pytest.raises(FileNotFoundError):
        load_partition(tmp_path / "nothing.parquet")


def test_a_missing_library_is_named(monkeypatch):
    part = enumerate_regions(NET, BOX)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[arrow\]"):
        to_arrow(part)


def test_a_network_without_layers_comes_back(tmp_path):
    pytest.importorskip("pyarrow")
    affine = ReluNetwork([np.eye(2)])
    for domain in DOMAINS:
        save_partition(enumerate_regions(affine, domain), tmp_path / "cell.parquet")
        back = load_partition(tmp_path / "cell.parquet", affine, domain)
        assert (back.n_cells, back.n_regions, back.signatures.shape) == (1, 1, (1, 0))


def test_a_search_stopped_at_once_comes_back():
    pytest.importorskip("pyarrow")
    back = from_arrow(to_arrow(enumerate_regions(NET, BOX, max_cells=0)), NET, BOX)
    assert (back.n_cells, back.is_complete) == (AtLeast(0), False)


def _changed(table, name, change):
    import pyarrow as pa

    lists = table.column(name).to_pylist()
    lists[1] = change(lists[1])
    field = table.schema.field(name)
    return table.set_column(table.column_names.index(name), field, pa.array(lists, field.type))


@pytest.mark.parametrize(
    "change",
    [
        lambda entries: [],
        lambda entries: None,
        lambda entries: [*entries, *entries],
        lambda entries: entries[:-1],
        lambda entries: [*entries[:-1], 1 - entries[-1]],
    ],
    ids=["empty", "missing", "doubled", "shortened", "one entry"],
)
@pytest.mark.parametrize("domain", DOMAINS, ids=["box", "plane", "segment"])
def test_a_changed_column_is_refused(domain, change):
    pytest.importorskip("pyarrow")
    table = to_arrow(enumerate_regions(NET, domain))
    assert from_arrow(table, NET, domain).n_cells == table.num_rows
    for name in table.column_names:
        changed = _changed(table, name, lambda entries: change([int(x) for x in entries]))
        if not changed.equals(table):
            with pytest.raises(RecordFormatError, match=r"`table` (must|does not|belongs|was)"):
                from_arrow(changed, NET, domain)


def test_rows_left_out_or_moved_are_refused():
    pytest.importorskip("pyarrow")
    table = to_arrow(enumerate_regions(NET, BOX))
    backwards = list(range(table.num_rows))[::-1]
    for other in (table.slice(0, 2), table.slice(1), table.take(backwards)):
        with pytest.raises(RecordFormatError, match="was modified after it was written"):
            from_arrow(other, NET, BOX)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("is_complete", True),
        ("engine", "lines"),
        ("shapes", {"signatures": ["object", [3]]}),
        ("shapes", {"signatures": ["uint8", [3]], "walls": ["int32", [4]]}),
        ("content", None),
    ],
)
def test_a_changed_header_is_refused(field, value):
    pytest.importorskip("pyarrow")
    table = to_arrow(enumerate_regions(NET, BOX, max_cells=3))
    header = {**json.loads(table.schema.metadata[b"hardmax"]), field: value}
    changed = table.replace_schema_metadata({b"hardmax": json.dumps(header)})
    with pytest.raises(RecordFormatError, match=r"`table` (must|does not|belongs|was)"):
        from_arrow(changed, NET, BOX)


def jumping():
    rng = np.random.default_rng(5)

    def draw(*shape):
        return rng.integers(-2, 3, shape).astype(float)

    head = AttentionHead(draw(3, 3), draw(4, 3), draw(4, 3), np.eye(3))
    return HardTransformer([Block([head], FeedForward(draw(3, 3), draw(3), draw(3, 3), None))])


@pytest.mark.parametrize(
    "domain", [Box([-2.0] * 3, [2.0] * 3), WholeSpace(3)], ids=["box", "space"]
)
def test_neighbours_in_space_come_back_from_a_file(domain, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    zero_biases = ReluNetwork([np.array([[1.0, 2, 1], [1, 0, 2], [-1, 1, 1]]), np.ones((3, 2))])
    for model in (jumping(), zero_biases):
        part = enumerate_regions(model, domain)
        save_partition(part, tmp_path / "cells.parquet")
        back = load_partition(tmp_path / "cells.parquet", model, domain)
        for mine, theirs in zip(back.cells.facets, part.cells.facets, strict=True):
            assert mine.dtype == theirs.dtype
            np.testing.assert_array_equal(mine, theirs)
        # Not by the general method, which is slow.
        monkeypatch.setattr(cells, "neighbouring_cells", None)
        assert len(back.neighbours) > 0
        assert back.neighbours.pairs.tolist() == part.neighbours.pairs.tolist()
        assert back.neighbours.walls == part.neighbours.walls
        assert back.n_regions == part.n_regions
        monkeypatch.undo()


def test_changed_facets_are_refused():
    pytest.importorskip("pyarrow")
    model, domain = jumping(), Box([-2.0] * 3, [2.0] * 3)
    table = to_arrow(enumerate_regions(model, domain))
    for name in ("facets", "ties", "blurs"):
        changed = _changed(table, name, lambda entries: [*entries[2:], *entries[:2], 1])
        with pytest.raises(RecordFormatError, match=r"`table` (must|does not|belongs|was)"):
            from_arrow(changed, model, domain)


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("signatures", 0, 200),
        ("facets", 0, 10**6),
        ("facets", 0, -1),
        ("facets", 1, 10**6),
        ("ties", 0, 10**6),
        ("ties", 0, -2),
        ("ties", 1, 10**6),
    ],
)
def test_forged_places_are_refused_before_compiled_code_sees_them(name, column, value):
    """The fingerprint is no secret: a forger can write it anew."""
    pytest.importorskip("pyarrow")
    # Walls coincide, so that there are ties.
    model = ReluNetwork([np.array([[1.0, 2, 1], [0, 0, 2], [0, 0, 1]]), np.ones((3, 2))])
    domain = Box([-2.0] * 3, [2.0] * 3)
    table = to_arrow(enumerate_regions(model, domain))
    header = json.loads(table.schema.metadata[b"hardmax"])
    arrays = arrow_tables._read_arrays(table, header)
    array = arrays[name][0].copy()
    assert len(array)
    array[0, column] = value
    arrays[name] = array, arrays[name][1]
    with pytest.raises(RecordFormatError, match="`table` was modified after"):
        _forged(table, header, arrays, renewed=False, model=model, domain=domain)
    with pytest.raises(RecordFormatError, match="of the model"):
        _forged(table, header, arrays, renewed=True, model=model, domain=domain)


@pytest.mark.parametrize(("column", "value"), [(0, 9), (1, 9), (2, 9), (3, -1)])
def test_forged_walls_are_refused(column, value):
    pytest.importorskip("pyarrow")
    table = to_arrow(enumerate_regions(NET, BOX))
    header = json.loads(table.schema.metadata[b"hardmax"])
    arrays = arrow_tables._read_arrays(table, header)
    walls = arrays["walls"][0].copy()
    walls[np.flatnonzero(walls[:, 0] >= 0)[0], column] = value
    arrays["walls"] = walls, arrays["walls"][1]
    with pytest.raises(RecordFormatError, match="of the model"):
        _forged(table, header, arrays, renewed=True, model=NET, domain=BOX)


def _left_out(name):
    def change(header, arrays):
        del arrays[name], header["shapes"][name]

    return change


def _other_entry(name, value):
    def change(header, arrays):
        arrays[name][0].reshape(-1)[-1] = value

    return change


def _other_engine(engine):
    def change(header, arrays):
        header["engine"] = engine

    return change


def _swapped_cells(header, arrays):
    arrays["signatures"][0][:2] = arrays["signatures"][0][1::-1]


def _repeated_cells(header, arrays):
    arrays["signatures"][0][1] = arrays["signatures"][0][0]


def _moved_corners(header, arrays):
    arrays["vertices"][1][1] = 1


def _of_another_type(name, dtype):
    def change(header, arrays):
        # Only polygons have walls; polytopes have facets.
        own = name if name in arrays else "facets"
        array, starts = arrays[own]
        arrays[own] = array.astype(dtype), starts
        header["shapes"][own][0] = dtype

    return change


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize(
    "change",
    [
        _left_out("vertices"),
        _left_out("maps"),
        _left_out("map_radii"),
        _other_entry("vertices", np.nan),
        _other_entry("maps", np.nan),
        _other_entry("map_radii", -1.0),
        _other_entry("map_radii", np.nan),
        _other_engine("lines"),
        _other_engine("split_tree"),
        _swapped_cells,
        _repeated_cells,
        _moved_corners,
        _of_another_type("signatures", "float64"),
        _of_another_type("walls", "float64"),
        _of_another_type("vertices", "int64"),
        _of_another_type("maps", "int32"),
    ],
)
def test_forged_columns_are_refused_when_they_are_read(change, dim):
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    model = ReluNetwork([rng.normal(size=(dim, 4)), np.ones((4, 2))])
    table = to_arrow(enumerate_regions(model, Box([-2.0] * dim, [2.0] * dim)))
    header = json.loads(table.schema.metadata[b"hardmax"])
    arrays = {
        name: tuple(None if part is None else part.copy() for part in parts)
        for name, parts in arrow_tables._read_arrays(table, header).items()
    }
    change(header, arrays)
    with pytest.raises(RecordFormatError, match=r"`table` (must|does not|belongs|was)"):
        _forged(
            table, header, arrays, renewed=True, model=model, domain=Box([-2.0] * dim, [2.0] * dim)
        )


def test_a_forged_cell_without_interior_is_refused():
    pytest.importorskip("pyarrow")
    domain = Segment([-1.0, 0.5], [1.0, 0.25])
    table = to_arrow(enumerate_regions(NET, domain))
    header = json.loads(table.schema.metadata[b"hardmax"])
    arrays = arrow_tables._read_arrays(table, header)
    signatures = arrays["signatures"][0].copy()
    found = set(map(tuple, signatures.tolist()))
    signatures[0] = next(one for one in product([0, 1], repeat=3) if one not in found)
    arrays["signatures"] = signatures, None
    forged = _forged(table, header, arrays, renewed=True, model=NET, domain=domain)
    with pytest.raises(RecordFormatError, match="Cell 0 is empty"):
        _ = forged.witnesses


def _forged(table, header, arrays, *, renewed, model, domain):
    import pyarrow as pa

    header = dict(header)
    if renewed:
        header.pop("content")
        header["content"] = arrow_tables._content_fingerprint(header, arrays)
    columns = {name: arrow_tables._lists(pa, *arrays[name]) for name in arrays}
    forged = pa.table(columns).replace_schema_metadata({b"hardmax": json.dumps(header)})
    return from_arrow(forged, model, domain)
