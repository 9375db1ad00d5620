"""Partitions as Arrow tables and Parquet files: one row for each cell, and back.

A file says which model and domain it belongs to (by fingerprint), and is read back only for these.
Nothing in it is trusted beyond that: it carries no certificate, which is what `certificate` is for.
"""

import json
import os
from itertools import pairwise
from typing import Any

import numpy as np

from hardmax.algebra.exact.decisions import Decisions
from hardmax.errors import ArgumentError, RecordFormatError
from hardmax.extras import load_extra
from hardmax.files import replacing
from hardmax.records import fingerprint
from hardmax.regions.cells import CellArrays
from hardmax.regions.charted_domains import ChartedDomain, charted
from hardmax.regions.engines import read_network
from hardmax.regions.partition import Partition
from hardmax.typing import AnyArray

FORMAT = "hardmax.partition/1"
_METADATA = b"hardmax"
# Arrays with one entry for each cell, and arrays with one for each vertex of each cell.
_BY_CELL = ("signatures", "maps", "map_radii")
_BY_VERTEX = ("vertices", "directions", "walls", "cuts")


def to_arrow(partition: Partition) -> Any:
    """Return a `pyarrow.Table` with a row for each cell.

    Columns are lists: `signatures`, and as far as the engine stores them `maps`, `map_radii` (both
    flattened), `vertices`, `directions`, `walls` and `cuts` (flattened over the cell's vertices).

    Raises:
        ArgumentError: If the cells were only counted.
        MissingExtraError: If pyarrow is not installed.
    """
    pa = _pyarrow()
    cells = partition.cells
    if len(partition.signatures) != partition.n_cells:
        raise ArgumentError("`partition` must store its cells; this one was only counted.")
    columns, shapes = {}, {}
    for name in _BY_CELL + _BY_VERTEX:
        array = getattr(cells, name)
        if array is None:
            continue
        rows = array if name in _BY_CELL else _split(array, cells.starts)
        shapes[name] = [str(array.dtype), list(array.shape[1:])]
        values = [np.ravel(row) for row in rows]
        columns[name] = pa.array(values, type=pa.list_(pa.from_numpy_dtype(array.dtype)))
    header = {
        "format": FORMAT,
        "model": fingerprint(partition.network),
        "domain": _domain_fingerprint(partition.domain),
        "engine": partition.engine,
        "is_complete": partition.is_complete,
        "decisions": [
            partition.decisions.filtered,
            partition.decisions.expanded,
            partition.decisions.rational,
        ],
        "shapes": shapes,
    }
    return pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(header)})


def from_arrow(table: Any, model: Any, domain: Any) -> Partition:
    """Read back what `to_arrow` wrote, for the model and the domain it was made from.

    Raises:
        RecordFormatError: If the table is no such table, or belongs to another model or domain.
    """
    _pyarrow()
    network = read_network(model)
    where = charted(domain, network.dim_in)
    try:
        header = json.loads(table.schema.metadata[_METADATA])
        if header["format"] != FORMAT:
            raise RecordFormatError(f"`table` must be of format {FORMAT!r}; {header['format']!r}.")
        for name, wanted in (
            ("model", fingerprint(network)),
            ("domain", _domain_fingerprint(where)),
        ):
            if header[name] != wanted:
                raise RecordFormatError(f"`table` must belong to this {name}; got another one's.")
        cells = _cell_arrays(table, header, where.dim)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, RecordFormatError):
            raise
        raise RecordFormatError(f"`table` must be a stored partition; {error!r}.") from None
    if cells.signatures.shape != (table.num_rows, network.n_groups):
        raise RecordFormatError(
            f"`table` must have signatures of length {network.n_groups}; "
            f"got shape {cells.signatures.shape}."
        )
    return Partition(network, where, cells, str(header["engine"]))


def save_partition(partition: Partition, path: str | os.PathLike[str]) -> None:
    """Write a partition to a Parquet file; a crash leaves an older file as it was."""
    table = to_arrow(partition)
    with replacing(path) as stream:
        _pyarrow("pyarrow.parquet").write_table(table, stream)


def load_partition(path: str | os.PathLike[str], model: Any, domain: Any) -> Partition:
    """Read a partition from a Parquet file (see `from_arrow`)."""
    pa = _pyarrow()
    try:
        table = _pyarrow("pyarrow.parquet").read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise RecordFormatError(f"`path` must name a Parquet file; {error}.") from None
    return from_arrow(table, model, domain)


def _cell_arrays(table: Any, header: dict[str, Any], dim: int) -> CellArrays:
    arrays: dict[str, Any] = {}
    starts = None
    for name, (dtype, shape) in header["shapes"].items():
        if name not in _BY_CELL + _BY_VERTEX:
            raise ValueError(f"unknown column {name!r}")
        column = table.column(name).combine_chunks()
        flat = column.flatten().to_numpy(zero_copy_only=False).astype(np.dtype(dtype))
        arrays[name] = flat.reshape(-1, *shape) if shape else flat
        if name == "vertices":
            starts = np.asarray(column.offsets.to_numpy(), dtype=np.int64) // dim
    return CellArrays(
        signatures=arrays["signatures"],
        is_complete=bool(header["is_complete"]),
        decisions=Decisions(*(int(count) for count in header["decisions"])),
        maps=arrays.get("maps"),
        map_radii=arrays.get("map_radii"),
        vertices=arrays.get("vertices"),
        starts=starts,
        n_counted=table.num_rows,
        directions=arrays.get("directions"),
        walls=arrays.get("walls"),
        cuts=arrays.get("cuts"),
    )


def _split(array: AnyArray, starts: AnyArray | None) -> list[AnyArray]:
    assert starts is not None, "vertices come with their starts"
    return [array[a:b] for a, b in pairwise(starts.tolist())]


def _domain_fingerprint(domain: ChartedDomain) -> str:
    coordinates = domain.coordinates
    rows = [[str(entry) for entry in row] for row in coordinates.rows]
    return fingerprint(
        [rows, coordinates.exponent, coordinates.denominator, domain.exact_rows.tolist()]
    )


def _pyarrow(module: str = "pyarrow") -> Any:
    return load_extra(module, extra="arrow", purpose="Arrow tables")
