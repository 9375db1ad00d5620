r"""The choice of the engine that finds the cells (measurements: `benchmarks/README.md`).

* Dimension 1, `lines`: an interval has two ends, so array operations split many intervals by a
  layer at once, and the breakpoints come out sorted. A ReLU network is searched by its values at
  the breakpoints, with one product with the weights for each breakpoint (`rectified_lines`). If all
  weights are integers with few digits, this search runs in integers (`integer_lines`). The core
  splits intervals (`core_lines`) for transformers, and for ReLU networks in which coincidences
  would send many intervals to arbitrary-precision integers. Groups of 24 forms or more are split by
  their upper envelope, found by sorting, so that a head with N keys costs N log N.
* Dimension 2, `planar`: a polygon is a cyclic list of edges, clipped by compiled code. In groups
  of 24 forms or more, the search moves from one winner to the next, so that a cell among thousands
  of keys costs little more than a cell among a few.
* Dimensions 3 to 7, `spatial`: a polytope is a list of vertices with the facets through each of
  them, and a cut is one compiled step of the double description method. This is hundreds of times
  faster than the split tree. The advantage shrinks as the number of vertices grows with the
  dimension.
* Higher dimensions, `split_tree`: one linear feasibility decision for each form in doubt,
  regardless of the number of vertices. Every answer carries an integer proof.

With `exact=True` the split tree runs in every dimension. It then decides in integers alone and
shares nothing with the floating-point filters of the other engines. All engines return the same
cells.
"""

import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, overload

from hardmax._ground.arguments import integer, number
from hardmax._ground.deadlines import TimeLimitReached, no_time_limit, time_limit
from hardmax._ground.interrupts import restore_interrupts
from hardmax._ground.workers import n_workers
from hardmax.errors import ArgumentError, Interrupted
from hardmax.geometry.domain_text import read_domain
from hardmax.models._arithmetic.normed_maps import is_relu_network
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.graphs.graph_networks import GraphNetwork
from hardmax.models.model_arguments import read_model, read_network
from hardmax.regions.cell_arrays import CellArrays, nothing_found
from hardmax.regions.cells import Cells
from hardmax.regions.charted_domains import ChartedDomain, charted, refuse_outside
from hardmax.regions.engine_cells import wrap_arrays
from hardmax.regions.graph_partitions import GraphPartition, explore_graph
from hardmax.regions.partition import Partition
from hardmax.typing import DomainLike, ModelLike, TorchModule

if TYPE_CHECKING:
    from hardmax._ground.workers import Workers
    from hardmax.regions._lines.lines import LineCells

MOST_SPATIAL = 7
_NARROW, _PATIENCE = 1 << 20, 32
"""Largest number of weights for which the core may take over the search of a ReLU network, and the
number of intervals searched in integers before it does."""


@overload
def enumerate_regions(  # type: ignore[overload-overlap]  # A GraphNetwork may have a `network`.
    model: GraphNetwork,
    domain: DomainLike,
    *,
    count_only: bool = ...,
    exact: bool = ...,
    max_cells: int | None = ...,
    max_seconds: float | None = ...,
    workers: int | None = ...,
    store: None = ...,
    executor: None = ...,
) -> GraphPartition: ...
@overload
def enumerate_regions(
    model: str | os.PathLike[str] | TorchModule,
    domain: DomainLike,
    *,
    count_only: bool = ...,
    exact: bool = ...,
    max_cells: int | None = ...,
    max_seconds: float | None = ...,
    workers: int | None = ...,
    store: str | os.PathLike[str] | None = ...,
    executor: "Workers | None" = ...,
) -> Any: ...
@overload
def enumerate_regions(
    model: ModelLike,
    domain: DomainLike,
    *,
    count_only: bool = ...,
    exact: bool = ...,
    max_cells: int | None = ...,
    max_seconds: float | None = ...,
    workers: int | None = ...,
    store: str | os.PathLike[str] | None = ...,
    executor: "Workers | None" = ...,
) -> Partition: ...
def enumerate_regions(
    model: ModelLike,
    domain: DomainLike,
    *,
    count_only: bool = False,
    exact: bool = False,
    max_cells: int | None = None,
    max_seconds: float | None = None,
    workers: int | None = None,
    store: str | os.PathLike[str] | None = None,
    executor: "Workers | None" = None,
) -> Partition | GraphPartition:
    r"""Find every cell of a model on a domain, exactly.

    A cell is the set of inputs with a given signature (the index of the winner in each group of
    each layer), provided that this set has nonempty interior in the domain. Forms that coincide on
    a cell create no wall; the signature records the first of them.

    Args:
        model: A network, transformer, block or head; the path of a model file that `load_model`
            reads; or a torch module that `from_torch` reads. If the model has a `box`, the domain
            must lie in it, because the network equals the model only there. A `GraphNetwork` is
            searched directly on bounded domains of dimension 1 and 2, decision boundaries
            included, and the result is a `GraphPartition`. In higher dimensions, and with `exact`,
            `store` or `executor`, its property `network` is searched instead, which only a small
            `GraphNetwork` has.
        domain: A domain in the input space, such as `Box([-1, -1], [1, 1])`, or a domain as text,
            such as `"box:-1,1^2"` (see `typing.DomainLike` and `parse_domain`).
        count_only: Whether to count the cells without storing them.
        exact: Whether to decide every sign in integers, without trying floats first. The result is
            the same; the search is slower.
        max_cells: Stop after this many cells (for a `GraphNetwork`, after this many pieces).
        max_seconds: Stop within a second of this time. It includes the preparation of the search,
            but not the reading of a model file.
        workers: The number of threads, in dimensions 2 to 7 and for a `GraphNetwork`. The default
            is set by `set_workers`. The result does not depend on this number.
        store: A folder to write cells to as they are found, in dimensions 2 to 7 only. Memory use
            then does not grow with the number of cells. To resume an interrupted search, call again
            with the same folder. The result is a `StoredPartition`, as `open_partition` returns.
            Cannot be combined with `max_cells` or `exact`.
        executor: Where the search runs. Requires `store`. Runs `workers` jobs concurrently; by
            default, one per worker of the executor. Either a `concurrent.futures.Executor`; a
            function that returns one, called again if a process dies; `"processes"`; or the address
            of a Dask scheduler.

    Returns:
        The partition. If a limit stopped the search, `is_complete` is False, some cells are
        missing, and the counts are `AtLeast` instead of integers.

    Raises:
        DtypeError: If `model` or `domain` has an unsupported type.
        RecordFormatError: If `model` is a path and the file does not hold a model.
        ArgumentError: If the domain lies in the wrong space, has empty interior or extends beyond
            the box of the model; if a limit is negative; if the arguments cannot be combined;
            or if the domain has 8 or more dimensions and no search can finish, or find one cell
            within `max_seconds`.
        Interrupted: On Ctrl-C. `Interrupted` is a `KeyboardInterrupt`; its `partial` is a partition
            with the cells found so far.

    Examples:
        >>> from hardmax import Box, ReluNetwork, WholeSpace
        >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> part = enumerate_regions(net, WholeSpace(2))
        >>> part.n_cells, part.n_regions, part.n_affine_maps
        (4, 4, 4)
        >>> enumerate_regions(net, "box:-1,1^2").n_cells
        4
        >>> enumerate_regions(net, WholeSpace(2), max_cells=3, exact=True)
        Partition(at least 3 cells, search stopped early, in 2 dimensions, engine split_tree)
        >>> enumerate_regions(net, WholeSpace(2), max_cells=3, exact=True).n_cells
        at least 3
    """
    if max_seconds is not None:
        max_seconds = number("max_seconds", max_seconds, at_least=0.0)
    # A model file has been read before the limit begins; everything else counts.
    given = read_model(model)
    with time_limit(max_seconds):
        return _enumerate(
            given, domain, bool(count_only), exact, max_cells, max_seconds, workers, store, executor
        )


def _enumerate(
    given: Any,
    domain: Any,
    count_only: bool,
    exact: bool,
    max_cells: int | None,
    max_seconds: float | None,
    workers: int | None,
    store: str | os.PathLike[str] | None,
    executor: "Workers | None",
) -> Partition | GraphPartition:
    """Choose an engine and search, within the time limit of the context."""
    is_plain = not exact and store is None and executor is None
    is_graph = isinstance(given, GraphNetwork) and is_plain
    if is_graph and getattr(read_domain(domain), "dim", 3) <= 2:
        return explore_graph(given, domain, max_cells, n_workers(workers))
    try:
        # Without a network and a domain there is no partition to return.
        with no_time_limit():
            network = read_network(given)
            where = charted(domain, network.dim_in)
            refuse_outside(given, where)
        limits: dict[str, Any] = {"count_only": count_only}
        if max_cells is not None:
            limits["max_cells"] = integer("max_cells", max_cells, at_least=0)
        if max_seconds is not None:
            limits["max_seconds"] = max_seconds
        n_threads = n_workers(workers, executor)
    except KeyboardInterrupt:
        raise Interrupted("the search was interrupted before it began") from None
    engine = _engine(where.dim, exact)
    if engine in ("planar", "spatial"):
        limits["workers"] = n_threads
    if store is not None or executor is not None:
        return _stored(network, where, engine, limits, store, executor)
    if engine == "split_tree" and where.dim > MOST_SPATIAL:
        from hardmax.regions._tree.least_work import refuse_hopeless_search

        refuse_hopeless_search(given, network, where, max_cells, max_seconds)
    return _searched(network, where, engine, limits)


def _stored(
    network: ArgmaxNetwork,
    where: ChartedDomain,
    engine: str,
    limits: dict[str, Any],
    store: "str | os.PathLike[str] | None",
    executor: "Workers | None",
) -> Partition:
    """Search into a folder and open the result."""
    from hardmax.regions._stores.durable import search_into
    from hardmax.regions.stores import open_partition

    if store is None:
        raise ArgumentError("`executor` needs a folder to write cells to. Pass one as `store`.")
    if engine not in ("planar", "spatial"):
        raise ArgumentError(
            f"`store` requires a domain of dimension 2 to {MOST_SPATIAL} and `exact=False`; this "
            f"search would use the engine {engine!r}."
        )
    if "max_cells" in limits:
        raise ArgumentError(
            "`max_cells` cannot be combined with `store`. Use `max_seconds` to limit the search."
        )
    try:
        search_into(store, network, where, engine, **limits, executor=executor)
    except TimeLimitReached:  # Hashing or writing the model alone took too long.
        return Partition(network, where, _no_cells(network, where), engine)
    except Interrupted as stop:
        raise Interrupted(str(stop), open_partition(store, network)) from None
    with no_time_limit():
        return open_partition(store, network)


def _engine(dim: int, exact: bool) -> str:
    """Return the name of the engine for a dimension."""
    if exact or dim > MOST_SPATIAL:
        return "split_tree"
    return {1: "lines", 2: "planar"}.get(dim, "spatial")


def _searched(
    network: ArgmaxNetwork, where: ChartedDomain, engine: str, limits: dict[str, Any]
) -> Partition:
    """Run an engine and return its cells as a partition, even after Ctrl-C."""

    def packed(found: Cells | CellArrays) -> Partition:
        if isinstance(found, CellArrays):
            found = wrap_arrays(engine, network, where, found)
        return Partition(network, where, found, engine)

    def stopped() -> Partition:
        return Partition(network, where, _no_cells(network, where), engine)

    try:
        with restore_interrupts:
            return packed(_search_of(engine)(network, where, **limits))
    except Interrupted as stop:
        partial = packed(stop.partial)
    except TimeLimitReached:
        return stopped()
    except KeyboardInterrupt:
        partial = stopped()
    raise Interrupted(
        f"the search was interrupted; `partial` holds the cells found so far ({partial.n_cells:,} "
        f"cell{'s' * (partial.n_found != 1)})",
        partial,
    )


def _no_cells(network: ArgmaxNetwork, where: ChartedDomain) -> Cells:
    return Cells(network, where, nothing_found(network.n_groups))


@cache
def _search_of(engine: str) -> Callable[..., Cells | CellArrays]:
    """Load an engine."""
    if engine == "planar":
        from hardmax.regions._search import plane as planar

        return planar.explore
    if engine == "spatial":
        from hardmax.regions._search import space as spatial

        return spatial.explore
    if engine == "lines":
        return _along_a_line
    from hardmax.regions._tree import split_tree

    return split_tree.explore


def _along_a_line(
    network: ArgmaxNetwork, line: ChartedDomain, **limits: Any
) -> "LineCells | CellArrays":
    """Search along a line: ReLU networks by values, other and degenerate models in the core."""
    from hardmax.regions._lines import core_lines, lines
    from hardmax.regions._search import space as spatial

    if is_relu_network(network):
        # If the search is stopped early, it must have found the first cells of the line.
        may_turn = network.n_weights <= _NARROW and (limits["count_only"] or len(limits) == 1)
        found = lines.explore(network, line, **limits, most_exact=_PATIENCE if may_turn else None)
        if found.arrays.is_complete or not may_turn or found.search.n_exact <= _PATIENCE:
            return found
    cells = spatial.explore(network, line, **limits)
    if limits["count_only"] or not cells.is_complete:
        return cells
    with no_time_limit():
        return core_lines.ordered_cells(network, line, cells)
