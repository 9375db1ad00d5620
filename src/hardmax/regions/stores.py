"""Partitions stored in folders, as sorted shards that are read on demand.

`enumerate_regions(..., store=DIR)` writes such a folder (format: `docs/files.md`). Shards are
Parquet files, which any program that reads Parquet can query; in DuckDB,
`SELECT count(*) FROM 'DIR/cells-*.parquet'`.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.arguments import integer
from hardmax._ground.parquet_files import MOST_BYTES
from hardmax._ground.progress import track
from hardmax._ground.records import fingerprint
from hardmax._ground.workers import Workers, map_any_order, map_in_order, n_workers
from hardmax.errors import ArgumentError, HardmaxError, RecordFormatError, SizeLimitError, TaskError
from hardmax.exact.decisions import Decisions
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.model_arguments import read_network
from hardmax.models.storage import load_model
from hardmax.regions._stores.manifests import (
    MANIFEST,
    MODEL,
    Manifest,
    explain_write_errors,
    read_manifest,
    read_shard,
)
from hardmax.regions.arrow_tables import is_ascending, load_partition, parse_stored_domain
from hardmax.regions.cell_arrays import CellArrays, CellFacets, LazyCellArrays, WallNames
from hardmax.regions.certificate_format import REFUSALS
from hardmax.regions.certificate_parts import PartContext, PartEnds, part_contexts, part_ends
from hardmax.regions.certificates import make_part
from hardmax.regions.charted_domains import charted
from hardmax.regions.engine_cells import wrap_arrays
from hardmax.regions.engines import MOST_SPATIAL
from hardmax.regions.partition import Partition
from hardmax.typing import AnyArray, ModelLike

_ARRAYS = ("signatures", "maps", "map_radii", "vertices", "directions")


@dataclass(frozen=True, eq=False, repr=False)
class StoredPartition(Partition):
    """A `Partition` whose cells are stored in a folder and read on demand.

    `n_cells` is available without reading cells. `shards` reads one shard at a time. Every other
    property that needs the cells reads all of them, provided that they fit into `max_bytes`.

    Attributes:
        folder: The folder.
        max_bytes: The largest amount of memory, in bytes, that the cells may occupy at once.

    Examples:
        >>> import tempfile
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     stored = enumerate_regions(net, Box([-1, -1], [1, 1]), store=folder)
        ...     stored.n_cells, stored.n_shards, sum(shard.n_found for shard in stored.shards())
        (4, 1, 4)
    """

    folder: Path = field(kw_only=True)
    _manifest: Manifest = field(kw_only=True)
    max_bytes: int = field(kw_only=True)

    @property
    def n_shards(self) -> int:
        """The number of shards, that is, of files with cells."""
        return len(self._manifest.shards)

    @property
    def explored(self) -> float:
        """The approximate fraction of the domain's volume that was searched; NaN if unknown."""
        return self._manifest.explored_share

    def shards(self) -> Iterator[Partition]:
        """Read the shards one after the other, in the order of their cells.

        Each shard is returned as a partition with some of the cells and all data stored about them.
        Its `is_complete` is False.
        """
        yield from map(self.shard, range(self.n_shards))

    def shard(self, index: int) -> Partition:
        """Read one shard, as in `shards`.

        Args:
            index: The number of the shard, from 0 to `n_shards - 1`.

        Raises:
            RecordFormatError: If the file of the shard is damaged or was modified.
        """
        shard = self._manifest.shards[index]
        path = read_shard(self.folder, shard)
        part = load_partition(path, self.network, self.domain, max_bytes=self.max_bytes)
        if part.n_found != shard.n_cells or part.engine != self.engine:
            raise RecordFormatError(
                f"Shard {path} must contain {shard.n_cells} cells of the engine {self.engine!r}, "
                f"according to {MANIFEST}; it contains {part.n_found} of {part.engine!r}."
            )
        if part.signatures[0].astype(">u4").tobytes().hex() != shard.first:
            raise RecordFormatError(
                f"The first cell of shard {path} is not the first cell that {MANIFEST} states."
            )
        return part

    def save_certificate(
        self,
        folder: str | os.PathLike[str],
        *,
        workers: int | None = None,
        executor: Workers | None = None,
    ) -> list[Path]:
        """Make a certificate in parts, one file per shard.

        Existing parts are kept, so an interrupted call can be repeated. `verify_certificate` takes
        the list of files instead of a single certificate, and can check several parts at once.

        Args:
            folder: The folder to write the files to. It is created if it does not exist.
            workers: The number of parts to make concurrently (see `set_workers`).
            executor: Where the parts are made, as in `enumerate_regions`. The default is processes
                if there are several workers.

        Returns:
            The paths of the files.

        Raises:
            IncompleteError: If the search was stopped early.
            ArgumentError: If the cells were counted but not stored, or the folder cannot be written
                to.
            TaskError: If some parts failed repeatedly. All other parts are made.

        Examples:
            >>> import tempfile
            >>> from hardmax import Box, ReluNetwork, enumerate_regions, verify_certificate
            >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     part = enumerate_regions(net, Box([-1, -1], [1, 1]), store=f"{folder}/cells")
            ...     parts = part.save_certificate(f"{folder}/proof")
            ...     verify_certificate(net, parts)
            Verdict(ok=True, n_cells=4, reason='')
        """
        self.require_complete("save_certificate")
        if self._manifest.count_only:
            raise ArgumentError(
                f"`save_certificate` needs the cells, but those in {self.folder} were only "
                "counted. Search again with `count_only=False`."
            )
        n = n_workers(workers, executor)
        who = executor or ("processes" if n > 1 else None)
        target = Path(folder).absolute()
        with explain_write_errors(target, "folder"):
            target.mkdir(parents=True, exist_ok=True)
        files = [target / f"{shard.digest[:16]}.json" for shard in self._manifest.shards]
        missing = [i for i, file in enumerate(files) if not file.exists()]
        contexts: dict[int, PartContext] = {}
        place = self.folder.absolute(), self.max_bytes
        if missing and self.domain.dim > 2:
            looked_at = map_in_order(partial(_ends, *place), range(self.n_shards), n, who)
            ends = list(track(looked_at, "shards read", self.n_shards))
            contexts = dict(enumerate(part_contexts(self.network, ends, REFUSALS)))
        wanted = ((i, files[i], contexts.get(i)) for i in missing)
        answers, failed = map_any_order(partial(_certify, *place), wanted, n, who), []
        for (i, _, _), answer in track(answers, "certificate parts", len(missing)):
            if isinstance(answer, OSError):
                with explain_write_errors(target, "folder"):
                    raise answer
            if isinstance(answer, Exception):
                shard = self._manifest.shards[i].file
                failed.append(f"{shard}: {type(answer).__name__}: {answer!s:.200}")
        if failed:
            raise TaskError(
                f"{len(failed)} of {len(files)} parts of the certificate failed; the other parts "
                f"were made. Call `save_certificate` again to retry. {'; '.join(failed)}"
            )
        return files


def _ends(folder: Path, max_bytes: int, index: int) -> PartEnds:
    """Return the cells of a shard that other parts of the certificate need."""
    part = open_partition(folder, max_bytes=max_bytes)
    return part_ends(part.network, part.shard(index).signatures, REFUSALS)


def _certify(
    folder: Path, max_bytes: int, wanted: tuple[int, Path, PartContext | None]
) -> OSError | None:
    """Make the part of the certificate for a shard; return the error if writing fails."""
    index, file, context = wanted
    part = open_partition(folder, max_bytes=max_bytes)
    shard = part.shard(index)
    witnesses = np.nan_to_num(shard.witnesses) if part.domain.dim <= 2 else None
    made = make_part(part.network, part.domain, shard.signatures, witnesses, context=context)
    try:
        made.save(file)
    except OSError as error:  # A retry would fail too, and so would the other parts.
        return error
    return None


def open_partition(
    path: str | os.PathLike[str], model: ModelLike | None = None, *, max_bytes: int = MOST_BYTES
) -> StoredPartition:
    """Open a partition that is stored in a folder, without reading its cells.

    Args:
        path: The folder that was passed to `enumerate_regions` as `store`.
        model: The expected model. A folder with the partition of a different model is rejected. By
            default, the model in the folder is used.
        max_bytes: The largest amount of memory, in bytes, that the cells may occupy at once. When
            shards are read one by one, the limit applies to each shard.

    Returns:
        The partition. Reading all its cells at once raises `SizeLimitError` if they need more than
        `max_bytes`.

    Raises:
        RecordFormatError: If `path` is not the folder of a stored partition, or it is damaged, or
            it belongs to a different model.

    Examples:
        >>> import tempfile
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = enumerate_regions(net, Box([-1, -1], [1, 1]), store=folder)
        ...     part = open_partition(folder)
        ...     part, part.n_cells, part.signatures.tolist()
        (Partition(4 cells, in 2 dimensions, engine planar), 4, [[0, 0], [0, 1], [1, 0], [1, 1]])
    """
    limit = integer("max_bytes", max_bytes, at_least=0)
    folder = Path(path)
    try:
        manifest = read_manifest(folder)
    except (FileNotFoundError, NotADirectoryError):
        raise RecordFormatError(
            f"`path` must be the folder of a stored search; {folder} does not contain {MANIFEST}."
        ) from None
    network = _network(folder) if model is None else read_network(model)
    if not isinstance(network, ArgmaxNetwork) or fingerprint(network) != manifest.model:
        raise RecordFormatError(f"`path` belongs to a different model than `model`: {folder}.")
    try:
        where = charted(parse_stored_domain(manifest.domain), network.dim_in)
    except HardmaxError as error:
        raise RecordFormatError(
            f"`path` must be the folder of a stored search; the domain in {folder / MANIFEST} does "
            f"not fit the model: {error!s:.200}"
        ) from None
    if (
        where.dim < 2
        or where.dim > MOST_SPATIAL
        or (where.dim == 2) != (manifest.engine == "planar")
    ):
        raise RecordFormatError(
            f"`path` must be the folder of a stored search; {folder / MANIFEST} states the engine "
            f"{manifest.engine!r}, which does not search domains of dimension {where.dim}."
        )
    cells: CellArrays = LazyCellArrays.knowing(
        lambda _: _no_cells(network) if manifest.count_only else _joined(part),
        is_complete=manifest.is_complete,
        decisions=Decisions(*manifest.decisions),
        n_counted=manifest.n_cells,
        has_means=manifest.has_means,
    )
    part = StoredPartition(
        network,
        where,
        wrap_arrays(manifest.engine, network, where, cells),
        manifest.engine,
        folder=folder,
        _manifest=manifest,
        max_bytes=limit,
    )
    return part


def _network(folder: Path) -> Any:
    """Read the model in the folder of a stored search."""
    try:
        return load_model(folder / MODEL)
    except OSError as error:
        raise RecordFormatError(
            f"The model file {folder / MODEL} cannot be read: {error.strerror}. Call "
            "`enumerate_regions` with the model and this folder as `store` to write it again."
        ) from None


def _no_cells(network: ArgmaxNetwork) -> dict[str, Any]:
    late = *_ARRAYS, "starts", "wall_names", "facets"
    return {**dict.fromkeys(late), "signatures": np.zeros((0, network.n_groups), dtype=np.int64)}


def _joined(part: StoredPartition) -> dict[str, Any]:
    """Return the arrays of all cells."""
    pieces: list[CellArrays] = []
    n_bytes = 0
    for shard in part.shards():
        pieces.append(shard.cells)
        n_bytes += _size(shard.cells)
        if n_bytes > part.max_bytes:
            raise SizeLimitError(
                f"The {part.n_found:,} cells in {part.n_shards} shards need more memory than "
                f"`max_bytes`, {part.max_bytes:,}. Read them one shard at a time with `shards()`, "
                "or raise `max_bytes`."
            )
    if not pieces:
        return _no_cells(part.network)
    for index, (before, behind) in enumerate(pairwise(pieces), 1):
        if not is_ascending(np.stack([before.signatures[-1], behind.signatures[0]])):
            path = part.folder / part._manifest.shards[index].file
            raise RecordFormatError(
                "`path` must hold cells that follow one another from shard to shard; the first "
                f"cell of {path} does not come after the cells before it."
            )
    first = pieces[0]
    arrays = {name: _concatenated([getattr(piece, name) for piece in pieces]) for name in _ARRAYS}
    names = first.wall_names
    if names is not None:
        codes = [piece.wall_names.codes for piece in pieces if piece.wall_names is not None]
        names = WallNames(np.concatenate(codes), names.layer_starts)
    facets = first.facets
    if facets is not None:
        own = [piece.facets for piece in pieces if piece.facets is not None]
        facets = CellFacets(
            _joined_starts([one.starts for one in own]),
            np.concatenate([one.facets for one in own]),
            _joined_starts([one.tie_starts for one in own]),
            np.concatenate([one.ties for one in own]),
            np.concatenate([one.blurs for one in own]),
        )
    starts = _joined_starts([piece.starts for piece in pieces if piece.starts is not None])
    return {**arrays, "starts": starts, "wall_names": names, "facets": facets}


def _concatenated(arrays: list[Any]) -> Any:
    return None if arrays[0] is None else np.concatenate(arrays)


def _joined_starts(parts: list[AnyArray]) -> Any:
    lengths = np.concatenate([np.diff(part) for part in parts])
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])


def _size(cells: CellArrays) -> int:
    arrays = [getattr(cells, name) for name in _ARRAYS]
    arrays += [*(cells.wall_names or ())[:1], *(cells.facets or ())]
    return sum(array.nbytes for array in arrays if array is not None)
