"""Sweeps: the cells of random transformers over a grid of sizes, as a tidy table.

The table has one row per model. Rows are written as they are computed, so an interrupted sweep
can be resumed.
"""

import csv
import io
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, fields
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.arguments import integer, number
from hardmax._ground.display import html_card
from hardmax._ground.files import write_text
from hardmax._ground.interrupts import defer_interrupts
from hardmax._ground.progress import track
from hardmax._ground.workers import Workers, map_any_order, n_workers
from hardmax.errors import ArgumentError, FileError, Interrupted, RecordFormatError, TaskError
from hardmax.geometry.domain_text import parse_domain
from hardmax.papers.experiments.random_models import random_transformer
from hardmax.regions.charted_domains import charted
from hardmax.regions.engines import enumerate_regions


@dataclass(frozen=True, repr=False)
class SweepPoint:
    """One model of a sweep: the arguments of `random_transformer`, and the domain.

    Attributes:
        n_keys: The number of keys of every head, N.
        n_heads: The number of heads of every block, H.
        dim: The model dimension d.
        depth: The number of blocks, L.
        d_ff: The number of units of every block.
        seed: The seed of the random generator.
        bias: The standard deviation of the query biases.
        domain: The domain as text (see `parse_domain`).

    Examples:
        >>> [point.depth for point in sweep_points({"N": [3], "L": [1, 2]})]
        [1, 2]
    """

    n_keys: int
    n_heads: int
    dim: int
    depth: int
    d_ff: int
    seed: int
    bias: float
    domain: str

    _repr_html_ = html_card

    def __repr__(self) -> str:
        sizes = f"N={self.n_keys}, H={self.n_heads}, d={self.dim}, L={self.depth}"
        drawn = f"d_ff={self.d_ff}, seed={self.seed}, bias={self.bias}"
        return f"{type(self).__name__}({sizes}, {drawn}, {self.domain:.40}{self._found()})"

    def _found(self) -> str:
        return ""


@dataclass(frozen=True, repr=False)
class SweepRow(SweepPoint):
    """One row of the table.

    Attributes:
        n_cells: The number of cells found.
        is_complete: Whether these are all cells; if not, a limit stopped the search.
        seconds: The duration of the search in seconds.

    Examples:
        >>> (row,) = sweep(sweep_points({"N": [3], "L": [1]}))
        >>> row.n_keys, row.n_cells, row.is_complete
        (3, 66, True)
    """

    n_cells: int
    is_complete: bool
    seconds: float

    def _found(self) -> str:
        return f": {self.n_cells:,} cells{'' if self.is_complete else ' and more'}"


_NAMES = {"N": "n_keys", "H": "n_heads", "d": "dim", "L": "depth"}
_LEAST = {"n_keys": 1, "n_heads": 1, "dim": 1, "depth": 1, "d_ff": 1, "seed": 0}
_KEY = tuple(field.name for field in fields(SweepPoint))
_COLUMNS = tuple(field.name for field in fields(SweepRow))


def sweep_points(grid: Mapping[str, Iterable[Any]], domain: str = "space:d") -> list[SweepPoint]:
    """List the points of a grid; the last name varies fastest.

    Args:
        grid: Values for the attributes of `SweepPoint` except the domain; the first four may be
            abbreviated to `N`, `H`, `d`, `L`. The defaults are 8 keys, 2 heads, dimension 2, one
            block, 8 units, seed 0 and bias 0.5.
        domain: The domain as text, in which `d` is replaced by the dimension: `"box:-1,1^d"`.

    Raises:
        ArgumentError: If a name is unknown or given twice, or a value is out of range.

    Examples:
        >>> [point.depth for point in sweep_points({"L": [1, 2], "seed": range(2)})]
        [1, 1, 2, 2]
    """
    values: dict[str, list[Any]] = {"n_keys": [8], "n_heads": [2], "dim": [2], "depth": [1]}
    values |= {"d_ff": [8], "seed": [0], "bias": [0.5]}
    given = [_NAMES.get(name, name) for name in grid]
    for name, own in zip(given, grid.values(), strict=True):
        if name not in values or given.count(name) > 1:
            known = ", ".join((*_NAMES, *values))
            raise ArgumentError(f"`grid` must have names of {known}, each once; got {name!r:.60}.")
        least = _LEAST.get(name)
        values[name] = [
            number(name, x, at_least=0.0) if least is None else integer(name, x, at_least=least)
            for x in own
        ]
    points = []
    for chosen in product(*values.values()):
        one = dict(zip(values, chosen, strict=True))
        # After the kind of the domain, the letter d occurs only as the dimension.
        kind, _, rest = domain.partition(":")
        where = f"{kind}:{rest.replace('d', str(one['dim']))}"
        charted(parse_domain(where), one["dim"])
        points.append(SweepPoint(**one, domain=where))
    return points


def sweep(
    points: Sequence[SweepPoint],
    *,
    out: str | os.PathLike[str] | None = None,
    max_seconds: float | None = None,
    workers: int | None = None,
    executor: Workers | None = None,
) -> list[SweepRow]:
    """Count the cells of the models of a sweep.

    Args:
        points: The models (see `sweep_points`).
        out: The path of the table, a CSV file. Rows that it already contains are not computed
            again.
        max_seconds: The time limit of the search for the cells of one model.
        workers: The number of models to search at the same time (see `set_workers`).
        executor: Where the searches run, as in `enumerate_regions`; by default, in processes if
            there are several workers.

    Returns:
        The rows, in the order of the points.

    Raises:
        TaskError: If some models failed three times each; all other rows are in the table.
        RecordFormatError: If `out` is not the table of a sweep.
        Interrupted: On Ctrl-C. Its `partial` has the rows so far, and so does the table.

    Examples:
        >>> rows = sweep(sweep_points({"N": [3], "L": [1, 2]}))
        >>> [(row.depth, row.n_cells) for row in rows]
        [(1, 66), (2, 261)]
    """
    if max_seconds is not None:
        max_seconds = number("max_seconds", max_seconds, at_least=0.0)
    wanted = list(dict.fromkeys(points))
    path = None if out is None else Path(out)
    known = {} if path is None or not path.exists() else _read_rows(path)
    rows = {point: known[point] for point in wanted if point in known}
    missing = [point for point in wanted if point not in rows]
    count = n_workers(workers, executor)
    where = executor or ("processes" if count > 1 else None)
    failed: list[str] = []
    done = map_any_order(partial(_count_point, max_seconds), missing, count, where)
    if path is not None and not path.exists():
        write_text(path, _format_csv([_COLUMNS]))
    try:
        for point, row in track(done, "models", len(missing)):
            if isinstance(row, Exception):
                failed.append(f"{point}: {type(row).__name__}: {row!s:.200}")
                continue
            with defer_interrupts():
                rows[point] = row
                if path is not None:
                    _append_row(path, row)
    except KeyboardInterrupt:
        partial_rows = [rows[point] for point in wanted if point in rows]
        raise Interrupted(
            "the sweep was interrupted; the rows so far are kept", partial_rows
        ) from None
    if failed:
        raise TaskError(f"{len(failed)} of {len(wanted)} models failed; {'; '.join(failed)}")
    return [rows[point] for point in points]


def _count_point(max_seconds: float | None, point: SweepPoint) -> SweepRow:
    rng = np.random.default_rng(point.seed)
    sizes = point.n_keys, point.n_heads, point.d_ff, point.depth, point.dim
    model = random_transformer(rng, *sizes, bias=point.bias)
    start = time.perf_counter()
    # Each model is one job, so its search uses one worker.
    n_found, is_complete = 0, False
    try:
        part = enumerate_regions(
            model, parse_domain(point.domain), count_only=True, max_seconds=max_seconds, workers=1
        )
        n_found, is_complete = part.n_found, part.is_complete
    except ArgumentError:
        # The point is valid, so the error means that the search found no cell in this time.
        if max_seconds is None:
            raise
    seconds = round(time.perf_counter() - start, 6)
    return SweepRow(**asdict(point), n_cells=n_found, is_complete=is_complete, seconds=seconds)


def _format_csv(rows: Iterable[Sequence[Any]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def _append_row(path: Path, row: SweepRow) -> None:
    size = path.stat().st_size
    try:
        with path.open("a", encoding="utf-8", newline="") as stream:
            stream.write(_format_csv([astuple(row)]))
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        with suppress(OSError):
            os.truncate(path, size)
        raise FileError.of(error, str(path)) from None


def _read_rows(path: Path) -> dict[SweepPoint, SweepRow]:
    """Read a table; an incomplete last line is removed."""
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    try:
        names, *lines = csv.reader(io.StringIO(whole))
        if tuple(names) != _COLUMNS:
            raise ValueError(f"its columns are {names!s:.200}")
        rows = [_parse_row(line) for line in lines]
    except (ValueError, csv.Error) as error:
        raise RecordFormatError(f"`out` must be the table of a sweep; {path}: {error}.") from None
    if whole != text:
        write_text(path, whole)
    return {SweepPoint(**{name: getattr(row, name) for name in _KEY}): row for row in rows}


def _parse_row(line: list[str]) -> SweepRow:
    given: dict[str, Any] = dict(zip(_COLUMNS, line, strict=True))
    if given["is_complete"] not in ("True", "False"):
        raise ValueError("`is_complete` must be True or False")
    kinds = {"bias": float, "seconds": float, "domain": str}
    values = {name: kinds.get(name, int)(given[name]) for name in _COLUMNS if name != "is_complete"}
    return SweepRow(**values, is_complete=given["is_complete"] == "True")
