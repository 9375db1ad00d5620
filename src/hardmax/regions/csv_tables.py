"""Partitions as CSV: one line for each cell, for spreadsheets and other programs.

A CSV file has neither the model nor the domain, so it is not read back; a Parquet file is
(`arrow_tables`).
"""

import os
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from hardmax._ground.files import replacing
from hardmax.errors import ArgumentError
from hardmax.regions.partition import Partition

COLUMNS = ("signature", "volume", "witness", "map")
"""The columns. Numbers in a field are separated by blanks, rows of a matrix by semicolons:

- `signature`: the winner in each group of each layer.
- `volume`: in the domain's coordinates, rounded; `inf` if the cell is unbounded. Empty beyond
  `MOST_MEASURED` dimensions, where one volume may take longer than the search.
- `witness`: a point inside the cell, in the domain's coordinates.
- `map`: the affine map on the cell as a matrix of `dim + 1` rows, so that the output at a point `t`
  is `(t, 1) @ map`; the last row is the bias.
"""
MOST_MEASURED = 7
_LINES_AT_ONCE = 4096


def write_csv(partition: Partition, path: str | os.PathLike[str]) -> None:
    """Write the cells of a partition to a CSV file; a crash leaves an older file as it was.

    Raises:
        ArgumentError: If the cells were only counted.

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
    # The cells of a stored search are read shard by shard.
    parts = partition.shards() if hasattr(partition, "shards") else iter([partition])
    lines = chain([",".join(COLUMNS) + "\n"], *(_lines(part) for part in parts))
    with replacing(path) as stream:
        for line in lines:
            stream.write(line.encode())


def _lines(partition: Partition) -> Iterator[str]:
    """Yield a line for each cell."""
    if len(partition.signatures) != partition.n_found:
        raise ArgumentError("`partition` must store its cells; this one was only counted.")
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
