"""Partitions in folders: cells in sorted shards, read when they are asked for.

`enumerate_regions(..., store=DIR)` writes such a folder; `docs/files.md` describes it. Shards are
Parquet files, and any program that reads Parquet can ask them: in DuckDB,
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
from hardmax._ground.workers import Workers, as_done, in_order, n_workers
from hardmax.errors import ArgumentError, HardmaxError, RecordFormatError, SizeLimitError, TaskError
from hardmax.exact.decisions import Decisions
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.model_arguments import read_network
from hardmax.models.storage import load_model
from hardmax.regions._stores.manifests import (
    MANIFEST,
    MODEL,
    Manifest,
    read_manifest,
    read_shard,
    writing,
)
from hardmax.regions.arrow_tables import is_ascending, load_partition, parse_stored_domain
from hardmax.regions.cells import CellArrays, CellFacets, LazyCellArrays, WallNames
from hardmax.regions.certificate_format import REFUSALS
from hardmax.regions.certificate_parts import PartContext, PartEnds, part_contexts, part_ends
from hardmax.regions.certificates import make_part
from hardmax.regions.charted_domains import charted
from hardmax.regions.engines import MOST_SPATIAL
from hardmax.regions.partition import Partition
from hardmax.typing import AnyArray, ModelLike

_ARRAYS = ("signatures", "maps", "map_radii", "vertices", "directions")


@dataclass(frozen=True, eq=False, repr=False)
class StoredPartition(Partition):
    """A partition in a folder: everything a `Partition` answers, and its shards.

    Counts of cells are known at once. What needs all cells reads them all, if they fit the limit;
    what can be asked shard by shard never has more than one of them in memory.

    Attributes:
        folder: The folder.
        max_bytes: How much memory all cells may take.

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
        """How many files hold the cells."""
        return len(self._manifest.shards)

    @property
    def explored(self) -> float:
        """About which share of the domain's volume has been searched; NaN if nobody knows."""
        return self._manifest.explored

    def shards(self) -> Iterator[Partition]:
        """Read the shards, one after the other, in the order of their cells.

        Each is a partition that was stopped early: some cells, and all that is stored about them.
        """
        yield from map(self.shard, range(self.n_shards))

    def shard(self, index: int) -> Partition:
        """Read one shard; see `shards`."""
        shard = self._manifest.shards[index]
        path = read_shard(self.folder, shard)
        part = load_partition(path, self.network, self.domain, max_bytes=self.max_bytes)
        if part.n_found != shard.n_cells or part.engine != self.engine:
            raise RecordFormatError(f"`path` must hold {shard.n_cells} cells; {path} does not.")
        if part.signatures[0].astype(">u4").tobytes().hex() != shard.first:
            raise RecordFormatError(
                f"`path` must begin with the cell that {MANIFEST} names; {path} does not."
            )
        return part

    def save_certificate(
        self,
        folder: str | os.PathLike[str],
        *,
        workers: int | None = None,
        executor: Workers | None = None,
    ) -> list[Path]:
        """Make a certificate in parts, one file for each shard; those that are there stay.

        `verify_certificate` checks parts as it checks a whole one, several at once.

        Args:
            folder: The folder they are written to; it is made if there is none.
            workers: How many are made at once (see `set_workers`).
            executor: By whom, as in `enumerate_regions`; by processes if there are several workers.

        Returns:
            The files.

        Raises:
            IncompleteError: If the search was stopped early.
            ArgumentError: If the cells were only counted, or the folder cannot be written.
            TaskError: If parts failed again and again; all others are made.

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
            raise ArgumentError("`store` must hold cells; in this one they were only counted.")
        n = n_workers(workers, executor)
        who = executor or ("processes" if n > 1 else None)
        target = Path(folder).absolute()
        with writing(target, "folder"):
            target.mkdir(parents=True, exist_ok=True)
        files = [target / f"{shard.digest[:16]}.json" for shard in self._manifest.shards]
        missing = [i for i, file in enumerate(files) if not file.exists()]
        contexts: dict[int, PartContext] = {}
        place = self.folder.absolute(), self.max_bytes
        if missing and self.domain.dim > 2:
            looked_at = in_order(partial(_ends, *place), range(self.n_shards), n, who)
            ends = list(track(looked_at, "shards looked at", self.n_shards))
            contexts = dict(enumerate(part_contexts(self.network, ends, REFUSALS)))
        wanted = ((i, files[i], contexts.get(i)) for i in missing)
        answers, failed = as_done(partial(_certify, *place), wanted, n, who), []
        for (i, _, _), answer in track(answers, "parts of a certificate", len(missing)):
            if isinstance(answer, OSError):
                with writing(target, "folder"):
                    raise answer
            if isinstance(answer, Exception):
                shard = self._manifest.shards[i].file
                failed.append(f"{shard}: {type(answer).__name__}: {answer!s:.200}")
        if failed:
            raise TaskError(
                f"{len(failed)} of {len(files)} parts of the certificate failed; all others are "
                f"made, and the same call tries these again. {'; '.join(failed)}"
            )
        return files


def _ends(folder: Path, max_bytes: int, index: int) -> PartEnds:
    """Return what others need to know of a shard."""
    part = open_partition(folder, max_bytes=max_bytes)
    return part_ends(part.network, part.shard(index).signatures, REFUSALS)


def _certify(
    folder: Path, max_bytes: int, wanted: tuple[int, Path, PartContext | None]
) -> OSError | None:
    """Make the certificate of a shard; return what the system says if it cannot be written."""
    index, file, context = wanted
    part = open_partition(folder, max_bytes=max_bytes)
    shard = part.shard(index)
    witnesses = np.nan_to_num(shard.witnesses) if part.domain.dim <= 2 else None
    made = make_part(part.network, part.domain, shard.signatures, witnesses, context=context)
    try:
        made.save(file)
    except OSError as error:  # Trying it again would not help, nor would the other parts.
        return error
    return None


def open_partition(
    path: str | os.PathLike[str], model: ModelLike | None = None, *, max_bytes: int = MOST_BYTES
) -> StoredPartition:
    """Open a partition in a folder, without reading its cells.

    Args:
        path: The folder that `enumerate_regions` wrote to as its `store`.
        model: Refuse a folder of any other model than this one. The folder has its own.
        max_bytes: Refuse to read cells that would take more memory than this; shard by shard, each
            may take so much.

    Raises:
        RecordFormatError: If it is no such folder, or damaged.
        SizeLimitError: Later, if all cells are asked for at once and take more than `max_bytes`.

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
            f"`path` must be the folder of a stored search; {folder} has no {MANIFEST}."
        ) from None
    network = _network(folder) if model is None else read_network(model)
    if not isinstance(network, ArgmaxNetwork) or fingerprint(network) != manifest.model:
        raise RecordFormatError(f"`path` must belong to this model; {folder} has another one's.")
    try:
        where = charted(parse_stored_domain(manifest.domain), network.dim_in)
    except HardmaxError as error:
        raise RecordFormatError(
            f"`path` must be the folder of a stored search; the domain in {folder / MANIFEST} is "
            f"none of this model: {error!s:.200}"
        ) from None
    if (
        where.dim < 2
        or where.dim > MOST_SPATIAL
        or (where.dim == 2) != (manifest.engine == "planar")
    ):
        raise RecordFormatError(
            f"`path` must be the folder of a stored search; in {folder / MANIFEST} the engine "
            f"{manifest.engine!r} searches a domain of dimension {where.dim}."
        )
    cells: CellArrays = LazyCellArrays.knowing(
        lambda _: _no_cells(network) if manifest.count_only else _joined(part),
        is_complete=manifest.is_complete,
        decisions=Decisions(*manifest.decisions),
        n_counted=manifest.n_cells,
        has_means=manifest.has_means,
    )
    part = StoredPartition(
        network, where, cells, manifest.engine, folder=folder, _manifest=manifest, max_bytes=limit
    )
    return part


def _network(folder: Path) -> Any:
    """Read the model of a store."""
    try:
        return load_model(folder / MODEL)
    except OSError as error:
        raise RecordFormatError(
            f"`path` must have its model; {folder / MODEL}: {error.strerror}. Search into this "
            "store again with the model: the file is then written again."
        ) from None


def _no_cells(network: ArgmaxNetwork) -> dict[str, Any]:
    late = *_ARRAYS, "starts", "wall_names", "facets"
    return {**dict.fromkeys(late), "signatures": np.zeros((0, network.n_groups), dtype=np.int64)}


def _joined(part: StoredPartition) -> dict[str, Any]:
    """Read all cells."""
    pieces: list[CellArrays] = []
    n_bytes = 0
    for shard in part.shards():
        pieces.append(shard.cells)
        n_bytes += _size(shard.cells)
        if n_bytes > part.max_bytes:
            raise SizeLimitError(
                f"`max_bytes` must allow for all cells; {part.n_found:,} cells in {part.n_shards} "
                f"shards take more than {part.max_bytes:,} bytes. Ask `shards()` one by one."
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
