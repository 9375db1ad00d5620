"""A part of a search as a job: bytes in, bytes out, in a thread, a process or another machine."""

import io
from contextlib import suppress
from ctypes import c_int32
from functools import lru_cache
from math import inf, nan
from typing import Any, NamedTuple

from hardmax._ground.deadlines import TimeLimitReached, time_limit
from hardmax._ground.extras import load_extra
from hardmax.errors import RecordFormatError
from hardmax.exact.decisions import Decisions
from hardmax.geometry.domain_text import parse_domain
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.storage import model_from_bytes
from hardmax.regions._search import plane, space
from hardmax.regions._search.explored import approximate_volume, split_index
from hardmax.regions._search.plane_domains import read_planar_domain
from hardmax.regions._search.runs import Limits, Run, SearchDomain, pack_cells
from hardmax.regions._search.space_domains import read_spatial_domain
from hardmax.regions._stores.tasks import read_stack, stack_bytes
from hardmax.regions.arrow_tables import to_arrow
from hardmax.regions.charted_domains import ChartedDomain, charted
from hardmax.regions.engine_cells import wrap_arrays
from hardmax.regions.partition import Partition


class Job(NamedTuple):
    """A job for a worker.

    Attributes:
        model: The network, as `model_bytes` writes it.
        domain: The domain, as `domain_text` writes it.
        engine: `"planar"` or `"spatial"`.
        task: The cells to search, as `stack_bytes` writes them; empty for the whole domain.
        count_only: Whether to count without storing anything.
        seconds: Stop after about this many seconds.
        most_bytes: Stop before the cells need more memory than this.
        is_split: Whether to return the remaining work as two tasks, if it can be divided.
        quota: Find only this number of cells, the first of the task; -1 for all.
        most_seconds: Abandon the work in progress, preparation included, after about this many
            seconds.
    """

    model: bytes
    domain: str
    engine: str
    task: bytes
    count_only: bool
    seconds: float
    most_bytes: int
    is_split: bool
    quota: int = -1
    most_seconds: float = inf


class Outcome(NamedTuple):
    """The result of a job.

    Attributes:
        n_cells: The number of cells found, which are consecutive in the order of all cells.
        decisions: The number of signs decided by each stage.
        shard: The cells as a Parquet file; empty if there are none, or if they are only counted.
        first: The signature of the first cell, by which shards are sorted.
        has_means: As in `CellArrays`.
        left: The remaining tasks, which come after the cells in the order; empty if the job is
            done.
        shares: For each remaining task, its approximate share of the volume of the domain; NaN if
            the domain is unbounded, or if measuring would take long.
    """

    n_cells: int
    decisions: tuple[int, int, int]
    shard: bytes
    first: bytes
    has_means: bool
    left: tuple[bytes, ...]
    shares: tuple[float, ...]


def advance(job: Job) -> Outcome:
    """Search until the budget is spent; return the cells and the remaining tasks."""
    is_done = False
    with time_limit(job.most_seconds):
        try:
            where, search = _prepare_search(job.model, job.domain, job.engine)
            stack = None
            if job.task:
                stack = read_stack(job.task, search.network, search.dim, search.cell.walls)
            run = Run(search, stack, c_int32(0), stores=not job.count_only)
        except TimeLimitReached:
            # Nothing was searched: the whole task is left.
            return Outcome(0, (0, 0, 0), b"", b"", False, (job.task,), (nan,))
        with suppress(TimeLimitReached):
            is_done = run.work(Limits(job.quota, job.seconds, job.most_bytes), progress=False)
    if is_done and run.n_found < job.quota:
        raise RecordFormatError(
            f"`task` must have {job.quota} cells according to the store, but the search found only "
            f"{run.n_found}."
        )
    # Cells beyond the quota belong to other tasks and shards.
    is_done = is_done or run.n_found == job.quota
    left = [] if is_done else run.search.take_lowest(run.search.counts()[3])
    run.close()
    first = run.sort_key()
    cells = pack_cells([run], False, 1)
    shard = b""
    if len(cells.signatures):
        found = wrap_arrays(job.engine, search.network, where, cells)
        shard = parquet_bytes(Partition(search.network, where, found, job.engine))
    whole = search.volume()
    shares = [approximate_volume(task.cell) / whole if 0.0 < whole < inf else nan for task in left]
    # Do not divide a task with a quota: the share of each part in the quota is unknown.
    cut = split_index(shares) if job.is_split and job.quota < 0 else 0
    parts = [part for part in (slice(cut, None), slice(cut)) if left[part]]
    return Outcome(
        cells.n_counted,
        _counts(cells.decisions),
        shard,
        first,
        cells.has_means,
        tuple(stack_bytes(left[part]) for part in parts),
        tuple(sum(shares[part]) for part in parts),
    )


def parquet_bytes(partition: Partition) -> bytes:
    """Write a partition to the bytes of a Parquet file."""
    parquet: Any = load_extra("pyarrow.parquet", extra="arrow", purpose="Arrow tables")
    stream = io.BytesIO()
    table = to_arrow(partition, is_shard=True)
    # Few numbers repeat. Dictionary encoding took a third of the time and saved no space.
    options = {"compression": "zstd", "use_dictionary": False}
    parquet.write_table(table, stream, write_page_checksum=True, **options)
    return stream.getvalue()


def _counts(decisions: Decisions) -> tuple[int, int, int]:
    return decisions.filtered, decisions.expanded, decisions.rational


@lru_cache(maxsize=4)
def _prepare_search(model: bytes, domain: str, engine: str) -> tuple[ChartedDomain, SearchDomain]:
    """Read a model and a domain once for all jobs of one search."""
    network = model_from_bytes(model, "the job")
    assert isinstance(network, ArgmaxNetwork)
    where = charted(parse_domain(domain), network.dim_in)
    if engine == "planar":
        return where, plane.search_domain(network, read_planar_domain(where, network.dim_in))
    return where, space.search_domain(network, read_spatial_domain(where, network.dim_in))
