"""Forged partitions: Parquet files whose header, columns or rows have been changed."""

import base64
import io
import json
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

import hardmax as hm
from hardmax.errors import HardmaxError
from hardmax.regions.arrow_tables import _content_fingerprint, _read_arrays, to_arrow
from tests.forged_certificates import BROKEN, SUBJECTS, Case, network_of, with_other_model
from tests.fuzz.mutations import changed_array, changed_json, damaged
from tests.fuzz.questions import ask, check
from tests.fuzz.trials import Kind
from tests.region_models import gaussian_relu, integer_relu, integer_transformer

HEADER, MODEL = b"hardmax", b"hardmax.model"


@cache
def partitions():
    """The tables of small partitions of every engine, complete or not."""
    searches = [subject for kind in ("plane", "line", "space") for subject in SUBJECTS[kind]]
    searches += [
        (gaussian_relu(0, [2, 4, 3]), hm.Box([-2, -2], [3, 3])),
        (integer_relu(1, [4, 3, 2]), hm.Box([-2] * 4, [3] * 4)),
        (integer_transformer(1, 3, 3, 1, repeat=True), hm.WholeSpace(3)),
    ]
    found = []
    for model, domain in searches:
        network = network_of(model)
        found.append(hm.enumerate_regions(network, domain))
        found.append(hm.enumerate_regions(network, domain, max_cells=3))
        found.append(hm.enumerate_regions(network, domain, exact=True, max_cells=20))
    return [table_bytes(to_arrow(part)) for part in found if part.n_found]


def table_of(content):
    return parquet.read_table(io.BytesIO(content))


def table_bytes(table):
    stream = io.BytesIO()
    parquet.write_table(table, stream, write_page_checksum=True)
    return stream.getvalue()


def changed_table(rng, table):
    """Change the header, a column or the rows of a table; its hash is made right if possible."""
    metadata = dict(table.schema.metadata)
    header = json.loads(metadata[HEADER])
    what = rng.random()
    if what < 0.25:
        header = changed_json(rng, header)
    elif what < 0.35:
        order = [*range(table.num_rows)]
        place, other = rng.randrange(len(order)), rng.randrange(len(order))
        moved = rng.choice(
            [order[:place] + order[place + 1 :], [*order[:place], other, *order[place + 1 :]],
             order[::-1], [*order, other], order[:1], []]
        )  # fmt: skip
        table = table.take(pa.array(moved, type=pa.int64()))
    elif what < 0.45 and MODEL in metadata:
        content = base64.b64decode(metadata[MODEL])
        content = with_other_model(rng, Case(content, ())).model
        metadata[MODEL] = base64.b64encode(content)
    elif what < 0.5:
        name = rng.choice(table.column_names)
        table = (
            table.drop_columns([name])
            if rng.random() < 0.5
            else table.rename_columns(
                [rng.choice(["x", "maps", "walls"]) if n == name else n for n in table.column_names]
            )
        )
    else:
        for _ in range(rng.choice([1, 1, 2])):
            table, header = with_other_column(rng, table, header)
    metadata[HEADER] = json.dumps(header)
    if isinstance(header, dict) and "content" in header and rng.random() < 0.95:
        metadata[HEADER] = json.dumps(hashed(table, header))
    return table.replace_schema_metadata(metadata)


def with_other_column(rng, table, header):
    """Change numbers of a column, how many a cell has of them, or their type and shape."""
    name = rng.choice(table.column_names)
    column = table[name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    place = table.column_names.index(name)
    if not hasattr(column.type, "value_type"):
        return table.set_column(place, name, changed_flat(rng, column)), header
    flat = column.flatten().to_numpy(zero_copy_only=False)
    offsets = np.asarray(column.offsets)
    offsets = offsets - offsets[0]
    if rng.random() < 0.8:
        new = changed_array(rng, flat).ravel()
        if len(new) != len(flat):
            offsets = np.minimum(offsets, len(new))
        flat = new
    else:
        # Some entries of a cell go to the one before or after.
        offsets = offsets.copy()
        if len(offsets) > 2:
            k = rng.randrange(1, len(offsets) - 1)
            offsets[k] = rng.randrange(offsets[k - 1], offsets[k + 1] + 1)
    if rng.random() < 0.1 and name in header.get("shapes", {}):
        header = {**header, "shapes": changed_json(rng, header["shapes"])}
    elif flat.dtype != np.asarray(column.flatten()).dtype and name in header.get("shapes", {}):
        header = {
            **header,
            "shapes": {**header["shapes"], name: [str(flat.dtype), header["shapes"][name][1]]},
        }
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(flat))
    return table.set_column(place, name, lists), header


def changed_flat(rng, column):
    """Change a column of numbers or of bytes."""
    if pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        rows = [value.as_py() for value in column]
        array = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), width)
        kind = rng.choice([np.uint8, np.uint8, np.uint16, np.int32])
        if width % np.dtype(kind).itemsize == 0 and width:
            array = changed_array(rng, array.view(kind))
        array = np.ascontiguousarray(array.reshape(len(array), -1) if array.size else array)
        n_bytes = array.nbytes // max(len(rows), 1)
        return pa.array(
            [array.tobytes()[i * n_bytes : (i + 1) * n_bytes] for i in range(len(rows))],
            pa.binary(n_bytes),
        )
    array = changed_array(rng, np.asarray(column)).ravel()
    return pa.array(np.resize(array, len(column)))


def hashed(table, header):
    """Return a header with the hash of a table, if it has one."""
    header = {name: value for name, value in header.items() if name != "content"}
    try:
        with np.errstate(all="ignore"):
            content = _content_fingerprint(header, _read_arrays(table, header))
    except (*BROKEN, pa.ArrowException, HardmaxError):
        content = ""
    return {**header, "content": content}


def forged(rng):
    """Return the file of a partition."""
    content = rng.choice(partitions())
    if rng.random() < 0.15:
        return {"cells.parquet": damaged(rng, content)}
    table = table_of(content)
    try:
        for _ in range(rng.choice([1, 1, 2])):
            table = changed_table(rng, table)
        return {"cells.parquet": table_bytes(table)}
    except (*BROKEN, pa.ArrowException):
        # What pyarrow does not write.
        return {"cells.parquet": damaged(rng, content)}


def used(rng, folder):
    """Read a partition, ask about its cells, and prove them."""
    part = hm.load_partition(folder / "cells.parquet")
    part.n_cells, repr(part)
    ask(rng, part, 4)
    try:
        check(part)
    except HardmaxError:
        return "read"
    return "read"


PARTITIONS = Kind(forged, used)
