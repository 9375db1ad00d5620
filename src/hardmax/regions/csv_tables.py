"""Write partitions to CSV files, one line per cell, for spreadsheets and other programs.

A CSV file contains neither the model nor the domain and cannot be read back; a Parquet file can
(`arrow_tables`).
"""

import os
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from hardmax._ground.files import atomic_write
from hardmax.errors import ArgumentError
from hardmax.regions.partition import Partition

COLUMNS = ("signature", "volume", "witness", "map")
"""The columns. Within a field, spaces separate numbers and semicolons separate rows of a matrix:

- `signature`: the winner in each group of each layer.
- `volume`: the volume in the domain's coordinates, rounded; `inf` if the cell is unbounded. Empty
  above dimension `MOST_MEASURED`, where computing one volume may take longer than the search.
- `witness`: a point inside the cell, in the domain's coordinates.
- `map`: the affine map on the cell as a matrix of `dim + 1` rows, of which the last is the bias.
  The output at a point `t` is `(t, 1) @ map`.
"""
MOST_MEASURED = 7
_LINES_AT_ONCE = 4096


def write_csv(partition: Partition, path: str | os.PathLike[str]) -> None:
    """Write the cells of a partition to a CSV file.

    If writing fails, an existing file keeps its old content.

    Raises:
        ArgumentError: If the cells were counted but not stored.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from hardmax import ReluNetwork, enumerate_regions
        >>> part = enumerate_regions(ReluNetwork([[[1.0]], [[2.0]]]), "box:-1,3")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_csv(part, f"{folder}/cells.csv")
        ...     print(Path(f"{folder}/cells.csv").read_text())
        signature,volume,witness,map
        0,1.0,-0.5,0.0; 0.0
        1,3.0,1.5,2.0; 0.0
        <BLANKLINE>
    """
    # A stored partition is read shard by shard.
    parts = partition.shards() if hasattr(partition, "shards") else iter([partition])
    lines = chain([",".join(COLUMNS) + "\n"], *(_lines(part) for part in parts))
    with atomic_write(path) as stream:
        for line in lines:
            stream.write(line.encode())


def _lines(partition: Partition) -> Iterator[str]:
    """Yield one line per cell."""
    if len(partition.signatures) != partition.n_found:
        raise ArgumentError(
            "`partition` must contain its cells, but they were only counted. Search again with "
            "`count_only=False`."
        )
    measured = partition.domain.dim <= MOST_MEASURED
    volumes = partition.volumes if measured else np.full(partition.n_found, np.nan)
    columns = partition.signatures, volumes, partition.witnesses, partition.affine_maps
    for start in range(0, partition.n_found, _LINES_AT_ONCE):
        some = (column[start : start + _LINES_AT_ONCE].tolist() for column in columns)
        for signature, volume, witness, rows in zip(*some, strict=True):
            size = repr(volume) if measured else ""
            matrix = "; ".join(map(_spaced, rows))
            yield f"{_spaced(signature)},{size},{_spaced(witness)},{matrix}\n"


def _spaced(numbers: list[Any]) -> str:
    return " ".join(map(repr, numbers))
