"""Partitions as Arrow tables and Parquet files: one row for each cell, and back.

A file says which model and domain it belongs to (by fingerprint), and is read back only for these,
and only as it was written: a table with rows left out or entries changed is refused, and so is one
that names forms the model does not have. Who forges the fingerprint as well may still pass off
other cells as those of the model: there is no proof in a table; that is what `certificate` is for.
"""

import json
import os
from typing import Any

import numpy as np

from hardmax.algebra.exact.decisions import Decisions
from hardmax.errors import ArgumentError, RecordFormatError
from hardmax.extras import load_extra
from hardmax.files import replacing
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.records import fingerprint
from hardmax.regions.cells import CellArrays, CellFacets
from hardmax.regions.charted_domains import ChartedDomain, charted
from hardmax.regions.engines import read_network
from hardmax.regions.partition import Partition
from hardmax.typing import AnyArray, IntArray

FORMAT = "hardmax.partition/2"
_METADATA = b"hardmax"
# Arrays with one entry for each cell, and arrays with one for each vertex of each cell.
_BY_CELL = ("signatures", "maps", "map_radii")
_BY_VERTEX = ("vertices", "directions", "walls")
# Three to seven dimensions: one for each cell, each facet, and each tie.
_OF_FACETS = ("blurs", "facets", "ties")
_DTYPES = ("uint8", "uint16", "int32", "int64", "float64")
_Arrays = dict[str, tuple[AnyArray, AnyArray | None]]


def to_arrow(partition: Partition) -> Any:
    """Return a `pyarrow.Table` with a row for each cell.

    Columns are lists: `signatures`, and as far as the engine stores them `maps`, `map_radii` (both
    flattened), `vertices`, `directions`, `walls` and `cuts` (flattened over the cell's vertices),
    `facets`, `ties` and `blurs` (see `CellFacets`).

    Raises:
        ArgumentError: If the cells were only counted.
        MissingExtraError: If pyarrow is not installed.
    """
    pa = _pyarrow()
    if len(partition.signatures) != partition.n_found:
        raise ArgumentError("`partition` must store its cells; this one was only counted.")
    arrays = _arrays(partition)
    columns = {name: _lists(pa, array, starts) for name, (array, starts) in arrays.items()}
    shapes = {
        name: [str(array.dtype), list(array.shape[1:])] for name, (array, _) in arrays.items()
    }
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
    header["content"] = _content_fingerprint(header, arrays)
    return pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(header)})


def from_arrow(table: Any, model: Any, domain: Any) -> Partition:
    """Read back what `to_arrow` wrote, for the model and the domain it was made from.

    Raises:
        RecordFormatError: If the table is no such table, belongs to another model or domain, or was
            changed since it was written.
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
        arrays = _read_arrays(table, header)
        if header.pop("content") != _content_fingerprint(header, arrays):
            raise RecordFormatError(
                "`table` must hold what was written, every row in its place; it was changed."
            )
        cells = _cell_arrays(arrays, header, table.num_rows)
        _refuse_impossible(cells, network, where.dim)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, RecordFormatError):
            raise
        raise RecordFormatError(f"`table` must be a stored partition; {error!r}.") from None
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


def _arrays(partition: Partition) -> _Arrays:
    """List the arrays of a partition by name; with starts, unless there is one entry per cell."""
    cells = partition.cells
    arrays: _Arrays = {}
    for name in _BY_CELL + _BY_VERTEX:
        array = partition.signatures if name == "signatures" else getattr(cells, name)
        if array is not None:
            arrays[name] = array, cells.starts if name in _BY_VERTEX else None
    if cells.facets is not None:
        arrays["blurs"] = cells.facets.blurs, None
        arrays["facets"] = cells.facets.facets, cells.facets.starts
        arrays["ties"] = cells.facets.ties, cells.facets.tie_starts
    return arrays


def _lists(pa: Any, array: AnyArray, starts: AnyArray | None) -> Any:
    """Return a column that has, for each cell, its entries flattened."""
    starts = np.arange(len(array) + 1) if starts is None else starts
    ends = starts * int(np.prod(array.shape[1:], dtype=np.int64))
    kind, offset = (pa.ListArray, pa.int32())
    if ends[-1] >= 2**31:
        kind, offset = (pa.LargeListArray, pa.int64())
    return kind.from_arrays(pa.array(ends, type=offset), pa.array(np.ravel(array)))


def _read_arrays(table: Any, header: dict[str, Any]) -> _Arrays:
    """Read the columns that a header names back into what `_arrays` lists."""
    known = _BY_CELL + _BY_VERTEX + _OF_FACETS
    arrays: _Arrays = {}
    for name, (dtype, shape) in header["shapes"].items():
        if name not in known:
            raise ValueError(f"unknown column {name!r}")
        column = table.column(name).combine_chunks()
        if dtype not in _DTYPES or column.null_count:
            raise ValueError(f"column {name!r} must hold numbers only")
        flat = column.flatten().to_numpy(zero_copy_only=False).astype(np.dtype(dtype))
        if name in (*_BY_CELL, "blurs"):
            # A network without layers has signatures without entries.
            arrays[name] = flat.reshape(table.num_rows, *shape), None
            continue
        ends = np.asarray(column.offsets.to_numpy(), dtype=np.int64)
        starts = (ends - ends[0]) // max(1, int(np.prod(shape, dtype=np.int64)))
        arrays[name] = flat.reshape(-1, *shape), starts
        if len(arrays[name][0]) != starts[-1]:
            raise ValueError(f"column {name!r} must hold whole rows")
    by_vertex = [arrays[name] for name in _BY_VERTEX if name in arrays]
    if any(len(array) != len(by_vertex[0][0]) for array, _ in by_vertex):
        raise ValueError("columns with an entry for each vertex must be equally long")
    return arrays


def _cell_arrays(arrays: _Arrays, header: dict[str, Any], n_cells: int) -> CellArrays:
    values = {name: array for name, (array, _) in arrays.items()}
    facets = None
    if "facets" in arrays:
        facets = CellFacets(
            _starts(arrays["facets"]),
            values["facets"],
            _starts(arrays["ties"]),
            values["ties"],
            values["blurs"],
        )
    cells = CellArrays(
        signatures=values["signatures"],
        is_complete=bool(header["is_complete"]),
        decisions=Decisions(*(int(count) for count in header["decisions"])),
        maps=values.get("maps"),
        map_radii=values.get("map_radii"),
        vertices=values.get("vertices"),
        starts=_starts(arrays["vertices"]) if "vertices" in arrays else None,
        n_counted=n_cells,
        directions=values.get("directions"),
        facets=facets,
    )
    if "walls" in values:
        cells.__dict__["walls"] = values["walls"]
    return cells


def _refuse_impossible(cells: CellArrays, network: ArgmaxNetwork, dim: int) -> None:
    """Refuse numbers that no cell of a network has: compiled code takes them for places.

    Raises:
        ValueError: If a shape, an index or an order is impossible.
    """
    layers = network.layers
    sizes = np.concatenate([[0], *(np.diff(layer.starts) for layer in layers)])[1:]
    shape = cells.n_counted, network.n_groups
    if cells.signatures.shape != shape:
        raise ValueError(f"signatures must have shape {shape}; got {cells.signatures.shape}")
    _require("signatures", (cells.signatures >= 0) & (cells.signatures < sizes))
    for name, width in (("vertices", dim), ("directions", dim), ("walls", 4)):
        array = getattr(cells, name)
        if array is not None and array.shape[1:] != (width,):
            raise ValueError(f"{name} must have rows of {width}; got shape {array.shape}")
    if cells.starts is not None:
        _require_rows("vertices", cells.starts, cells.n_counted)
    if cells.walls is not None:
        n_layers, n_groups = len(layers), [layer.n_groups for layer in layers]
        layer, group, winner, rival = cells.walls.T
        inside = layer >= 0
        _require("walls", (layer >= -1) & (layer < n_layers))
        first = np.cumsum([0, *n_groups])
        own = layer[inside]
        _require("walls", (group[inside] >= 0) & (group[inside] < np.array([*n_groups, 0])[own]))
        most = sizes[first[own] + group[inside]]
        for form in (winner[inside], rival[inside]):
            _require("walls", (form >= 0) & (form < most))
    if cells.facets is not None:
        _refuse_impossible_facets(cells.facets, sizes, cells.n_counted)


def _refuse_impossible_facets(facets: CellFacets, sizes: IntArray, n_cells: int) -> None:
    if (facets.facets.shape[1:], facets.ties.shape[1:], facets.blurs.shape) != (
        (3,),
        (2,),
        (n_cells, 2),
    ):
        raise ValueError("facets, ties and blurs must have rows of 3, 2 and 2")
    _require_rows("facets", facets.starts, n_cells)
    _require_rows("ties", facets.tie_starts, n_cells)
    for groups in (facets.facets[:, 1], facets.ties[:, 1]):
        _require("facets", (groups >= 0) & (groups < len(sizes)))
    forms = facets.facets[:, 2]
    _require("facets", (forms >= 0) & (forms < sizes[facets.facets[:, 1]]))
    n_facets = np.repeat(np.diff(facets.starts), np.diff(facets.tie_starts))
    _require("ties", (facets.ties[:, 0] >= -1) & (facets.ties[:, 0] < n_facets))


def _require_rows(name: str, starts: IntArray, n_cells: int) -> None:
    if len(starts) != n_cells + 1 or (np.diff(starts) < 0).any():
        raise ValueError(f"{name} must be listed cell by cell")


def _require(name: str, is_possible: AnyArray) -> None:
    if not is_possible.all():
        raise ValueError(f"{name} must name forms and groups of the model")


def _starts(entry: tuple[AnyArray, AnyArray | None]) -> AnyArray:
    starts = entry[1]
    assert starts is not None, "what has several entries for a cell comes with starts"
    return starts


def _content_fingerprint(header: dict[str, Any], arrays: _Arrays) -> str:
    """Hash the header and the arrays of a table."""
    return fingerprint([header, [[name, *arrays[name]] for name in sorted(arrays)]])


def _domain_fingerprint(domain: ChartedDomain) -> str:
    coordinates = domain.coordinates
    rows = [[str(entry) for entry in row] for row in coordinates.rows]
    return fingerprint(
        [rows, coordinates.exponent, coordinates.denominator, domain.exact_rows.tolist()]
    )


def _pyarrow(module: str = "pyarrow") -> Any:
    return load_extra(module, extra="arrow", purpose="Arrow tables")
