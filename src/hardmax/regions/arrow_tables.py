"""Write partitions to Arrow tables and Parquet files, one row per cell, and read them back.

A file contains its model and its domain. Reading checks that nothing was changed: it rejects a
table with missing rows or modified entries, and a table that refers to forms the model does not
have. A table is not a proof, however: a forger who also recomputes the fingerprint can present
wrong cells as the cells of the model. For a proof, make a `certificate`.
"""

import base64
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.arguments import integer
from hardmax._ground.extras import load_extra
from hardmax._ground.files import atomic_write, check_ending
from hardmax._ground.json_text import parse_json
from hardmax._ground.parquet_files import MOST_BYTES, open_parquet, read_parquet
from hardmax._ground.records import fingerprint
from hardmax.errors import ArgumentError, DtypeError, HardmaxError, RecordFormatError
from hardmax.exact.decisions import Decisions
from hardmax.geometry.domain_text import domain_text, parse_domain
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.layer_words import LayerWords
from hardmax.models.model_arguments import read_network
from hardmax.models.storage import model_bytes, model_from_bytes
from hardmax.regions.cell_arrays import CellArrays, CellFacets, WallNames, form_starts
from hardmax.regions.charted_domains import ChartedDomain, as_domain, charted
from hardmax.regions.csv_tables import write_csv
from hardmax.regions.engine_cells import wrap_arrays
from hardmax.regions.engines import MOST_SPATIAL
from hardmax.regions.partition import Partition
from hardmax.typing import AnyArray, DomainLike, IntArray, ModelLike

FORMAT = "hardmax.partition/3"
r"""The value of `format` in the metadata entry `hardmax`, a JSON object. The other fields:

- `model`, `domain`: fingerprints of the network and of the domain's chart and inequalities.
- `domain_text`: the domain, as `geometry.domain_text` writes it.
- `engine`, `is_complete`, `decisions` (three counts).
- `shapes`: for each column, the type of its entries and the shape of one entry.
- `words`: the names of each layer, its groups and their forms (`LayerWords`). Older files do not
  have this field.
- `content`: a hash of the other fields and of all columns.

The metadata entry `hardmax.model` is the network, as `save_model` writes it, in base64. The format
`hardmax.partition/2` contains neither the network nor `domain_text`; the caller must pass both.

The format `hardmax.shard/2` is used for the files of a stored search. It contains neither the
network nor `content`, because the manifest has a hash of the file. Its column `signatures` is
binary: the winners of a cell in sequence, of the integer type that `shapes` states, in
little-endian order. Writing lists instead took eighteen times as long. Similarly, a column with one
number per cell contains plain numbers instead of lists, and `walls` contains the codes of
`WallNames`.
"""
PARTITION_ENDINGS = (".csv", ".parquet")
"""The file extensions that `save_partition` accepts."""
_OLD_FORMAT, _SHARD_FORMAT = "hardmax.partition/2", "hardmax.shard/2"
_FORMATS = FORMAT, _OLD_FORMAT, _SHARD_FORMAT
_METADATA, _MODEL = b"hardmax", b"hardmax.model"
_LONGEST_WORD = 60
_ENGINES = ("lines", "planar", "spatial", "split_tree")
# Arrays with one entry per cell, and arrays with one entry per vertex of each cell.
_BY_CELL = ("signatures", "maps", "map_radii")
_BY_VERTEX = ("vertices", "directions", "walls")
# Dimensions 3 to 7: arrays with one entry per cell, per facet, and per tie.
_OF_FACETS = ("blurs", "facets", "ties")
_INTEGERS, _FLOATS = ("uint8", "uint16", "int32", "int64"), ("float32", "float64")
_OF_FLOATS = ("maps", "map_radii", "vertices", "directions", "blurs")
_ARROW_NAMES = {"float": "float32", "double": "float64"}
_Arrays = dict[str, tuple[AnyArray, AnyArray | None]]


def to_arrow(partition: Partition, *, is_shard: bool = False) -> Any:
    """Return a `pyarrow.Table` with one row per cell.

    Columns are lists: `signatures` and, if the engine stores them, `maps` and `map_radii` (both
    flattened); `vertices`, `directions`, `walls` and `cuts` (flattened over the vertices of the
    cell); `facets`, `ties` and `blurs` (see `CellFacets`).

    Args:
        partition: The partition.
        is_shard: Whether to omit the model and write signatures as bytes.

    Raises:
        ArgumentError: If the cells were counted but not stored.
        MissingExtraError: If pyarrow is not installed.
    """
    pa = _pyarrow()
    if len(partition.signatures) != partition.n_found:
        raise ArgumentError(
            "`partition` must contain its cells, but they were only counted. Search again with "
            "`count_only=False`."
        )
    arrays = _arrays(partition, is_shard)
    columns = {
        name: pa.array(array)
        if is_shard and starts is None and array.ndim == 1
        else _lists(pa, array, starts)
        for name, (array, starts) in arrays.items()
        if not (is_shard and name == "signatures")
    }
    if is_shard:
        columns["signatures"] = _binary(pa, arrays["signatures"][0])
    shapes = {
        name: [str(array.dtype), list(array.shape[1:])] for name, (array, _) in arrays.items()
    }
    header = {
        "format": _SHARD_FORMAT if is_shard else FORMAT,
        "model": fingerprint(partition.network),
        "domain": _domain_fingerprint(partition.domain),
        "domain_text": domain_text(as_domain(partition.domain)),
        "engine": partition.engine,
        "is_complete": partition.is_complete,
        "decisions": [
            partition.decisions.filtered,
            partition.decisions.expanded,
            partition.decisions.rational,
        ],
        "shapes": shapes,
    }
    # For a shard, the manifest has a hash of the whole file.
    if not is_shard:
        header["words"] = [list(words) for words in partition.network.words]
        header["content"] = _content_fingerprint(header, arrays)
    metadata: dict[bytes, Any] = {_METADATA: json.dumps(header)}
    if not is_shard:
        metadata[_MODEL] = base64.b64encode(model_bytes(partition.network))
    return pa.table(columns).replace_schema_metadata(metadata)


def from_arrow(table: Any, model: Any = None, domain: Any = None) -> Partition:
    """Read a partition from a table that `to_arrow` wrote.

    Args:
        table: The table.
        model: The expected model; a table of a different model is rejected. By default, the model
            in the table.
        domain: The expected domain; a table of a different domain is rejected. By default, the
            domain in the table.

    Raises:
        RecordFormatError: If the table does not hold a partition, belongs to a different model or
            domain, or was modified after it was written.
    """
    pa = _pyarrow()
    given = None if model is None else read_network(model)
    try:
        table.validate(full=True)
        metadata = table.schema.metadata
        header = _read_header(metadata[_METADATA])
        if header["format"] != FORMAT and (model is None or domain is None):
            raise RecordFormatError(
                f"A table of the format {header['format']!r} does not contain its model and "
                f"domain, unlike {FORMAT!r}. Pass both as `model` and `domain`."
            )
        network = given
        if network is None:
            network = _stored_network(metadata[_MODEL], header.get("words"))
    except (pa.ArrowException, KeyError, TypeError, ValueError, AttributeError) as error:
        raise _refused(error) from None
    # A wrong argument `domain` is an error of the caller, not of the table.
    where = None if domain is None else charted(domain, network.dim_in)
    try:
        where = where or charted(parse_stored_domain(header["domain_text"]), network.dim_in)
        for name, wanted in (
            ("model", fingerprint(network)),
            ("domain", _domain_fingerprint(where)),
        ):
            if header[name] != wanted:
                raise RecordFormatError(f"`table` belongs to a different {name}.")
        arrays = _read_arrays(table, header)
        is_shard = header["format"] == _SHARD_FORMAT
        if not is_shard and header.pop("content") != _content_fingerprint(header, arrays):
            raise RecordFormatError("`table` was modified after it was written (hash mismatch).")
        codes = arrays.pop("walls", None) if is_shard else None
        cells = _cell_arrays(arrays, header, table.num_rows)
        if codes is not None:
            cells = _with_codes(cells, codes[0], network, len(where.exact_rows))
        _refuse_impossible(cells, network, where.dim)
        _refuse_other_columns(cells, header["engine"], network, where)
        if codes is None and cells.walls is not None and header["engine"] == "planar":
            cells = _with_wall_names(cells, network, len(where.exact_rows))
    except (pa.ArrowException, KeyError, TypeError, ValueError, AttributeError) as error:
        raise _refused(error) from None
    found = wrap_arrays(header["engine"], network, where, cells)
    return Partition(network, where, found, header["engine"])


def save_partition(partition: Partition, path: str | os.PathLike[str]) -> None:
    """Write a partition to a Parquet or CSV file.

    The extension of the file name selects the format:

    - `.parquet`: contains the model and the domain as well, so that `load_partition` can read the
      file back. Requires pyarrow.
    - `.csv`: contains one line per cell, with its signature, volume, witness and affine map, for
      use in other programs. Within a field, spaces separate numbers and semicolons separate the
      rows of the map; the output at `t` is `(t, 1) @ map`.

    If writing fails, an existing file keeps its old content.

    Args:
        partition: The partition, with its cells stored.
        path: The file to write, ending in `.csv` or `.parquet`.

    Raises:
        DtypeError: If `partition` is not a `Partition`.
        ArgumentError: If `path` has a different extension, or the cells were counted but not
            stored.
        MissingExtraError: If `path` is a Parquet file and pyarrow is not installed.

    Examples:
        >>> import tempfile
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> part = enumerate_regions(ReluNetwork([[[1.0]], [[1.0]]]), Box([-1], [1]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_partition(part, f"{folder}/cells.parquet")
        ...     load_partition(f"{folder}/cells.parquet").n_cells
        2
    """
    ending = check_ending(path, PARTITION_ENDINGS)
    if not isinstance(partition, Partition):
        raise DtypeError(f"`partition` must be a Partition; got {type(partition).__name__}.")
    if ending == ".csv":
        return write_csv(partition, path)
    table = to_arrow(partition)
    with atomic_write(path) as stream:
        _pyarrow("pyarrow.parquet").write_table(table, stream, write_page_checksum=True)


def load_partition(
    path: str | os.PathLike[str],
    model: ModelLike | None = None,
    domain: DomainLike | None = None,
    *,
    max_bytes: int = MOST_BYTES,
) -> Partition:
    """Read a partition from a Parquet file that `save_partition` wrote.

    Args:
        path: The file to read.
        model: The expected model. A file that belongs to a different model is rejected. By default,
            the model in the file is used.
        domain: The expected domain. A file that belongs to a different domain is rejected. By
            default, the domain in the file is used.
        max_bytes: The largest amount of memory that the content may need, in bytes.

    Raises:
        ArgumentError: If `path` is a CSV file, which cannot be read back.
        RecordFormatError: If the file is damaged, does not hold a partition, or belongs to a
            different model or domain.
        SizeLimitError: If the content needs more than `max_bytes` bytes according to the file. The
            content is then not read.
        MissingExtraError: If pyarrow is not installed.

    Examples:
        >>> import tempfile
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> part = enumerate_regions(net, Box([-1, -1], [1, 1]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_partition(part, f"{folder}/cells.parquet")
        ...     again = load_partition(f"{folder}/cells.parquet")
        >>> again.n_cells, again.n_regions, again.network.dim_in
        (4, 4, 2)
    """
    limit = integer("max_bytes", max_bytes, at_least=0)
    if Path(path).suffix.lower() == ".csv":
        raise ArgumentError(
            f"`path` must be a Parquet file; got {os.fspath(path)!r}. A CSV file contains neither "
            "the model nor the domain, so it cannot be loaded. Save the partition as .parquet."
        )
    file = open_parquet(path, extra=_EXTRA, purpose=_PURPOSE, max_bytes=limit)
    with file:
        metadata = file.schema_arrow.metadata or {}
        if _METADATA not in metadata:
            raise RecordFormatError(
                f"`path` must be a file that `save_partition` wrote; the metadata of {path} have "
                f"no entry `{_METADATA.decode()}`."
            )
        table = read_parquet(file, path)
    try:
        return from_arrow(table, model, domain)
    except RecordFormatError as error:
        raise RecordFormatError(
            f"`path` must be a file with a stored partition; {path}: {error}"
        ) from None


def _refused(error: Exception) -> RecordFormatError:
    if isinstance(error, RecordFormatError):
        return error
    reason = str(error) if isinstance(error, HardmaxError) else repr(error)
    return RecordFormatError(f"`table` does not hold a stored partition: {reason:.300}.")


def _read_header(text: bytes) -> dict[str, Any]:
    """Read the header and check the type of every field."""
    header = parse_json(text)
    if not isinstance(header, dict) or header.get("format") not in _FORMATS:
        found = header.get("format") if isinstance(header, dict) else type(header).__name__
        raise RecordFormatError(f"`table` must have the format {FORMAT!r}; got {found!r:.60}.")
    decisions, shapes = header["decisions"], header["shapes"]
    if type(header["is_complete"]) is not bool or header["engine"] not in _ENGINES:
        raise ValueError("`is_complete` must be a boolean, and `engine` the name of an engine")
    if not (isinstance(decisions, list) and len(decisions) == 3 and _are_counts(decisions)):
        raise ValueError("`decisions` must be a list of three counts")
    for name, (dtype, shape) in shapes.items():
        dtypes = _FLOATS if name in _OF_FLOATS else _INTEGERS
        is_known = name in _BY_CELL + _BY_VERTEX + _OF_FACETS and dtype in dtypes
        if not (is_known and isinstance(shape, list) and len(shape) <= 2 and _are_counts(shape)):
            raise ValueError(
                f"unknown column {name!r:.60} of type {dtype!r:.60} and shape {shape!r:.60}"
            )
    return header


def _are_counts(entries: list[Any]) -> bool:
    return all(type(entry) is int and 0 <= entry < 1 << 62 for entry in entries)


def _stored_network(text: bytes, words: Any) -> ArgmaxNetwork:
    network = model_from_bytes(base64.b64decode(text, validate=True), "the table")
    if not isinstance(network, ArgmaxNetwork):
        raise RecordFormatError(
            f"`table` must contain an ArgmaxNetwork; it contains a {type(network).__name__}."
        )
    if words is None:
        return network
    read = [LayerWords(*map(_read_word, entry)) for entry in words]
    if len(read) != len(network.layers):
        raise ValueError(f"`words` must have {len(network.layers)} entries")
    return network.with_words(read)


def _read_word(word: Any) -> str:
    if not isinstance(word, str) or len(word) > _LONGEST_WORD:
        raise ValueError(f"`words` must consist of short strings; got {word!r:.60}")
    return word


def parse_stored_domain(text: Any) -> Any:
    """Return the domain whose text a file contains.

    Raises:
        HardmaxError: If the text does not describe a domain, or describes a hull.
    """
    # No file contains a hull, and the cost of computing one is not bounded by the text's length.
    if not isinstance(text, str) or "hull" in text.lower():
        raise RecordFormatError(f"`table` must contain a domain as text; got {text!r:.60}.")
    return parse_domain(text)


def _arrays(partition: Partition, is_shard: bool) -> _Arrays:
    """Return the arrays of a partition by name, with starts unless there is one entry per cell."""
    cells = partition.cells
    arrays: _Arrays = {}
    for name in _BY_CELL + _BY_VERTEX:
        if name == "walls" and is_shard and cells.wall_names is not None:
            array: Any = cells.wall_names.codes
        else:
            array = partition.signatures if name == "signatures" else getattr(cells, name)
        if array is not None:
            arrays[name] = array, cells.starts if name in _BY_VERTEX else None
    if cells.facets is not None:
        arrays["blurs"] = cells.facets.blurs, None
        arrays["facets"] = cells.facets.facets, cells.facets.starts
        arrays["ties"] = cells.facets.ties, cells.facets.tie_starts
    return arrays


def _lists(pa: Any, array: AnyArray, starts: AnyArray | None) -> Any:
    """Return a column with the flattened entries of each cell."""
    starts = np.arange(len(array) + 1) if starts is None else starts
    ends = starts * int(np.prod(array.shape[1:], dtype=np.int64))
    kind, offset = (pa.ListArray, pa.int32())
    if ends[-1] >= 2**31:
        kind, offset = (pa.LargeListArray, pa.int64())
    return kind.from_arrays(pa.array(ends, type=offset), pa.array(np.ravel(array)))


def _binary(pa: Any, table: AnyArray) -> Any:
    """Return a column with the bytes of each row."""
    rows = np.ascontiguousarray(table, dtype=table.dtype.newbyteorder("<"))
    kind = pa.binary(table.shape[1] * table.itemsize)
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(rows), [None, pa.py_buffer(rows)])


def _read_binary(column: Any, dtype: str, width: int) -> AnyArray:
    """Return the rows of a column that `_binary` wrote."""
    kind = np.dtype(dtype).newbyteorder("<")
    if getattr(column.type, "byte_width", -1) != width * kind.itemsize or column.null_count:
        raise ValueError(f"`signatures` must have {width} entries of type {dtype} for each cell")
    first = column.offset * width
    content = np.frombuffer(column.buffers()[1], kind)[first : first + len(column) * width]
    return content.reshape(len(column), width).astype(np.dtype(dtype))


def _read_numbers(column: Any, dtype: str) -> AnyArray:
    """Return a column of one number per cell as an array."""
    kind = str(column.type)
    if _ARROW_NAMES.get(kind, kind) != dtype or column.null_count:
        raise ValueError(f"a column must hold numbers of type {dtype}; got {column.type}")
    return np.array(column.to_numpy(zero_copy_only=False))


def _read_arrays(table: Any, header: dict[str, Any]) -> _Arrays:
    """Read the columns listed in a header into the arrays that `_arrays` returns."""
    arrays: _Arrays = {}
    for name, (dtype, shape) in header["shapes"].items():
        column = table.column(name).combine_chunks()
        if name == "signatures" and header["format"] == _SHARD_FORMAT:
            arrays[name] = _read_binary(column, dtype, *shape), None
            continue
        if name == "map_radii" and header["format"] == _SHARD_FORMAT and not shape:
            arrays[name] = _read_numbers(column, dtype), None
            continue
        kind = str(getattr(column.type, "value_type", None))
        kind = _ARROW_NAMES.get(kind, kind)
        if kind != dtype or column.null_count or column.flatten().null_count:
            raise ValueError(f"column {name!r} must hold lists of {dtype}; got {column.type}")
        flat = column.flatten().to_numpy(zero_copy_only=False).astype(np.dtype(dtype))
        if name in (*_BY_CELL, "blurs"):
            # A network without layers has signatures without entries.
            arrays[name] = flat.reshape(table.num_rows, *shape), None
            continue
        ends = np.asarray(column.offsets.to_numpy(), dtype=np.int64)
        starts = (ends - ends[0]) // max(1, int(np.prod(shape, dtype=np.int64)))
        arrays[name] = flat.reshape(-1, *shape), starts
        if len(arrays[name][0]) != starts[-1]:
            raise ValueError(f"the length of column {name!r} must be a multiple of its row size")
    by_vertex = [arrays[name] for name in _BY_VERTEX if name in arrays]
    if any(len(array) != len(by_vertex[0][0]) for array, _ in by_vertex):
        raise ValueError("columns with one entry per vertex must have the same length")
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
        is_complete=header["is_complete"],
        decisions=Decisions(*header["decisions"]),
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


def _with_codes(
    cells: CellArrays, codes: AnyArray, network: ArgmaxNetwork, n_rows: int
) -> CellArrays:
    """Return the cells with the walls of their edges, given by stored codes.

    Raises:
        ValueError: If a code refers to a form or a row of the domain that does not exist.
    """
    layer_starts = tuple(layer.starts for layer in network.layers)
    _require("walls", (codes >= -4 - n_rows) & (codes < form_starts(layer_starts)[-1]))
    if cells.starts is None or len(codes) != cells.starts[-1]:
        raise ValueError("the table has walls but not as many vertices")
    return replace(cells, wall_names=WallNames(codes, layer_starts))


def _with_wall_names(cells: CellArrays, network: ArgmaxNetwork, n_rows: int) -> CellArrays:
    """Return the cells with the codes of their edges' walls, which identify neighbours.

    Raises:
        ValueError: If the wall of an edge does not fit the signature of its cell.
    """
    layer_starts = tuple(layer.starts for layer in network.layers)
    walls, starts = cells.walls, cells.starts
    if walls is None or starts is None:
        raise ValueError("the table has walls but no vertices")
    layer, group, _, rival = walls.T.astype(np.int64)
    inside = layer >= 0
    codes = -5 - group
    # The rows -4 to -1 are the sides of a square at infinity.
    _require("walls", (group[~inside] >= -4) & (group[~inside] < n_rows))
    first = np.cumsum([0, *(each.n_groups for each in network.layers)])
    firsts = form_starts(layer_starts)[first[layer[inside]] + group[inside]]
    codes[inside] = firsts + rival[inside]
    names = WallNames(codes.astype(np.int32), layer_starts)
    _require("walls", names.decoded(cells.signatures, starts) == walls)
    return replace(cells, wall_names=names)


def _refuse_other_columns(
    cells: CellArrays, engine: str, network: ArgmaxNetwork, domain: ChartedDomain
) -> None:
    """Raise an error if the arrays of the cells are not those that the engine stores.

    Raises:
        ValueError: If a column is missing, is unexpected, or has the wrong shape or type.
    """
    dim = domain.dim
    dims = {"lines": (1, 1), "planar": (2, 2), "spatial": (3, MOST_SPATIAL)}
    low, high = dims.get(engine, (1, dim))
    if not low <= dim <= high:
        raise ValueError(f"the engine {engine!r} does not search domains of dimension {dim}")
    if not len(cells.signatures) and cells.vertices is None:
        return  # A search that was stopped before its first cell has no arrays.
    shapes: dict[str, tuple[AnyArray | None, tuple[tuple[int, ...], ...]]] = {
        "maps": (cells.maps, ((dim + 1, network.dim_out),)),
        "map_radii": (cells.map_radii, ((), (dim + 1, network.dim_out))),
        "vertices": (cells.vertices, ((dim,),)),
        "directions": (cells.directions, ((dim,),)),
    }
    for name, (array, wanted) in shapes.items():
        if array is None:
            # Cells of bounded domains have no directions. A split tree stores only signatures.
            if engine != "split_tree" and name != "directions":
                raise ValueError(f"the column {name!r} is missing")
        elif array.shape[1:] not in wanted or array.dtype.kind != "f":
            raise ValueError(
                f"{name} must have float entries of shape {wanted[0]}; got {array.shape[1:]}"
            )
    has_walls = cells.wall_names is not None or cells.walls is not None
    # Some searches along a line store facets too.
    has_own = engine == "lines" or (cells.facets is not None) == (engine == "spatial")
    if has_walls != (engine == "planar") or not has_own:
        raise ValueError(f"the engine {engine!r} does not store these columns")
    _refuse_impossible_numbers(cells)
    least = {"lines": 2, "planar": 3, "spatial": dim + 1}.get(engine, 0)
    if cells.starts is not None:
        _require("vertices", np.diff(cells.starts) >= least)
    # The search returns cells in this order, and the search for neighbours relies on it.
    if engine in ("planar", "spatial") and not is_ascending(cells.signatures):
        raise ValueError("signatures must be distinct and sorted")


def _refuse_impossible_numbers(cells: CellArrays) -> None:
    """Raise an error if a radius is negative or an entry is NaN."""
    radii = [cells.map_radii, None if cells.facets is None else cells.facets.blurs]
    for radius in radii:
        if radius is not None and not (radius >= 0.0).all():
            raise ValueError("radii must be nonnegative numbers")
    for name in ("maps", "vertices", "directions"):
        array = getattr(cells, name)
        if array is not None and np.isnan(array).any():
            raise ValueError(f"{name} must not contain NaN")


def is_ascending(signatures: AnyArray) -> bool:
    """Return whether the rows are in strictly ascending lexicographic order."""
    before, behind = signatures[:-1], signatures[1:]
    is_less = np.zeros(len(before), dtype=bool)
    is_open = np.ones(len(before), dtype=bool)
    for one, other in zip(before.T, behind.T, strict=True):
        is_less |= is_open & (one < other)
        is_open &= one == other
    return bool(is_less.all())


def _refuse_impossible(cells: CellArrays, network: ArgmaxNetwork, dim: int) -> None:
    """Raise an error if an array is inconsistent with the network.

    Compiled code uses these numbers as indices without checking them.

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
            raise ValueError(f"{name} must have rows of {width} entries; got shape {array.shape}")
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
        (2,),
        (2,),
        (n_cells, 2),
    ):
        raise ValueError("facets, ties and blurs must have rows of 2 entries")
    _require_rows("facets", facets.starts, n_cells)
    _require_rows("ties", facets.tie_starts, n_cells)
    for groups in (facets.facets[:, 0], facets.ties[:, 1]):
        _require("facets", (groups >= 0) & (groups < len(sizes)))
    forms = facets.facets[:, 1]
    _require("facets", (forms >= 0) & (forms < sizes[facets.facets[:, 0]]))
    n_facets = np.repeat(np.diff(facets.starts), np.diff(facets.tie_starts))
    _require("ties", (facets.ties[:, 0] >= -1) & (facets.ties[:, 0] < n_facets))


def _require_rows(name: str, starts: IntArray, n_cells: int) -> None:
    if len(starts) != n_cells + 1 or (np.diff(starts) < 0).any():
        raise ValueError(f"{name} must have one list for each cell")


def _require(name: str, is_possible: AnyArray) -> None:
    if not is_possible.all():
        raise ValueError(f"{name} must refer to layers, groups and forms of the model")


def _starts(entry: tuple[AnyArray, AnyArray | None]) -> AnyArray:
    starts = entry[1]
    if starts is None:
        raise ValueError("a column with several entries per cell must be a column of lists")
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


_EXTRA, _PURPOSE = "arrow", "Arrow tables"


def _pyarrow(module: str = "pyarrow") -> Any:
    return load_extra(module, extra=_EXTRA, purpose=_PURPOSE)
