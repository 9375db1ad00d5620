r"""Which engine finds the cells: the choice, and its evidence (`benchmarks/README.md`).

* Dimension 1, `lines`: an interval has two ends, so array operations split many intervals by a
  layer at once, and breakpoints come sorted. ReLU networks are searched by their values at the
  breakpoints, one product with the weights for each (`rectified_lines`), and in integers where all
  weights are integers of few digits (`integer_lines`). Where coincidences would send many intervals
  to integers of any size, and for transformers, the core splits intervals (`core_lines`). Groups of
  24 forms and more are split by their upper envelope, found by sorting, so that a head of N keys
  costs N log N.
* Dimension 2, `planar`: a polygon is a cyclic list of edges, and clipping it is compiled. Groups of
  24 forms and more are walked from one winner to the next, so that a cell among thousands of keys
  costs little more than one among few.
* Dimension 3 to 7, `spatial`: a polytope is its vertices with the facets through each, and a cut
  is one compiled double-description step, hundreds of times as fast as the split tree, less as
  vertices multiply with the dimension.
* Beyond, `split_tree`: one linear decision for each form in doubt, whatever the number of
  vertices; every answer carries an integer proof.

The all-exact mode is the split tree in every dimension: it decides in integers alone and shares
nothing with the filters of the others. All engines return the same cells.
"""

import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, overload

from hardmax._ground.arguments import integer, number
from hardmax._ground.deadlines import TimeIsUp, no_time_limit, time_limit
from hardmax._ground.interrupts import interrupts_named
from hardmax._ground.workers import n_workers
from hardmax.errors import ArgumentError, Interrupted
from hardmax.geometry.domain_text import read_domain
from hardmax.models._arithmetic.normed_maps import is_rectified
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.graphs.graph_networks import GraphNetwork
from hardmax.models.model_arguments import read_model, read_network
from hardmax.regions.cells import CellArrays, nothing_found
from hardmax.regions.charted_domains import ChartedDomain, charted, refuse_outside
from hardmax.regions.graph_partitions import GraphPartition, explore_graph
from hardmax.regions.partition import Partition
from hardmax.typing import DomainLike, ModelLike, TorchModule

if TYPE_CHECKING:
    from hardmax._ground.workers import Workers
    from hardmax.regions._lines.lines import LineCells

MOST_SPATIAL = 7
_NARROW, _PATIENCE = 1 << 20, 32
"""Up to how many weights, after how many intervals in integers, the core takes ReLU networks."""


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

    A cell is a signature (the winner in each group of each layer) whose set has an interior in the
    domain. Forms that coincide there make no wall; the first of them names the cell.

    Args:
        model: A model: a network, a transformer, a block or a head; the path of a file that
            `load_model` reads; or a torch module that `from_torch` reads. If the model has a `box`,
            the network stands for it there only. A `GraphNetwork` is searched as it is on bounded
            domains of dimension 1 and 2, and decision boundaries are found too: the result is a
            `GraphPartition`. Elsewhere, and for all that a `Partition` can do, its `network` is
            asked, if it is small.
        domain: A `Box`, `Polytope`, `WholeSpace`, `Slice`, `Segment`, `Ray` or `Line` in the input
            space, or its text, such as `"box:-1,1^2"` (see `parse_domain`).
        count_only: Whether to count without storing anything.
        exact: Whether to decide in integers alone, without floats first. The result is the same.
        max_cells: Stop after this many cells; of a `GraphNetwork`, pieces of one class.
        max_seconds: Stop within a second of this time, whatever has been found. It includes the
            preparation of the model and the domain for the search.
        workers: How many threads search, in two to seven dimensions and of a `GraphNetwork` (see
            `set_workers`); the result does not depend on it.
        store: A folder, in two to seven dimensions. Cells are written to it as they are found, and
            memory does not grow with their number. A search that ended early, in whatever way, goes
            on where it was when it is asked for again. The partition is that of `open_partition`.
        executor: Who searches into a `store`, `workers` jobs at once, by default as many as it has
            workers: any `concurrent.futures.Executor`; a function that makes one, which is called
            again when a process is lost; `"processes"`; or the address of a Dask scheduler.

    Returns:
        The partition. If a limit stopped the search, its `is_complete` is False, its cells are some
        of those there are, and its counts are `AtLeast`, not numbers.

    Raises:
        DtypeError: If `model` or `domain` has an unsupported type.
        RecordFormatError: If `model` is a path and the file does not hold a model.
        ArgumentError: If the domain lies in another space, has no interior or leaves the box of
            the model, or a limit is negative.
        Interrupted: On Ctrl-C. It is a `KeyboardInterrupt` whose `partial` is the partition so far.

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
    # Time counts from here, while the model and the domain are read too.
    with time_limit(max_seconds):
        return _enumerate(
            model, domain, bool(count_only), exact, max_cells, max_seconds, workers, store, executor
        )


def _enumerate(
    model: Any,
    domain: Any,
    count_only: bool,
    exact: bool,
    max_cells: int | None,
    max_seconds: float | None,
    workers: int | None,
    store: str | os.PathLike[str] | None,
    executor: "Workers | None",
) -> Partition | GraphPartition:
    """Choose an engine, within a time limit, and search."""
    with no_time_limit():
        given = read_model(model)
    is_plain = not exact and store is None and executor is None
    is_graph = isinstance(given, GraphNetwork) and is_plain
    if is_graph and getattr(read_domain(domain), "dim", 3) <= 2:
        return explore_graph(given, domain, max_cells, n_workers(workers))
    try:
        # Without these there is no partition to return.
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
        from hardmax.regions._tree.least_work import refuse_hopeless

        refuse_hopeless(model, network, where, max_cells, max_seconds)
    return _searched(network, where, engine, limits)


def _stored(
    network: ArgmaxNetwork,
    where: ChartedDomain,
    engine: str,
    limits: dict[str, Any],
    store: "str | os.PathLike[str] | None",
    executor: "Workers | None",
) -> Partition:
    """Search into a folder, and open it."""
    from hardmax.regions._stores.durable import search_into
    from hardmax.regions.stores import open_partition

    if store is None:
        raise ArgumentError("`executor` searches into a folder; give one as `store`.")
    if engine not in ("planar", "spatial"):
        raise ArgumentError(
            f"`store` needs a domain of dimension 2 to {MOST_SPATIAL} and `exact` False; this "
            f"search would be one of the engine {engine!r}."
        )
    if "max_cells" in limits:
        raise ArgumentError("`max_cells` must be None with a `store`; stop by `max_seconds`.")
    try:
        search_into(store, network, where, engine, **limits, executor=executor)
    except Interrupted as stop:
        raise Interrupted(str(stop), open_partition(store, network)) from None
    return open_partition(store, network)


def _engine(dim: int, exact: bool) -> str:
    """Name the engine for a dimension."""
    if exact or dim > MOST_SPATIAL:
        return "split_tree"
    return {1: "lines", 2: "planar"}.get(dim, "spatial")


def _searched(
    network: ArgmaxNetwork, where: ChartedDomain, engine: str, limits: dict[str, Any]
) -> Partition:
    """Run an engine and pack what it finds, also where Ctrl-C ends the search."""

    def packed(found: Any) -> Partition:
        cells = getattr(found, "cells", found)
        if cells is not found and engine == "lines":
            return Partition(network, where, cells, engine, _line=found)
        if cells is not found:
            return Partition(network, where, cells, engine, found.witnesses)
        return Partition(network, where, cells, engine)

    try:
        with interrupts_named:
            return packed(_search_of(engine)(network, where, **limits))
    except Interrupted as stop:
        partial = packed(stop.partial)
    except TimeIsUp:
        return packed(nothing_found(network.n_groups))
    except KeyboardInterrupt:
        partial = packed(nothing_found(network.n_groups))
    raise Interrupted(
        f"the search was interrupted; `partial` has what it found, {partial.n_cells:,} "
        f"cell{'s' * (partial.n_found != 1)}",
        partial,
    )


@cache
def _search_of(engine: str) -> Callable[..., Any]:
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
    """Search along a line: ReLU networks by values, others, and what is degenerate, by the core."""
    from hardmax.regions._lines import core_lines, lines
    from hardmax.regions._search import space as spatial

    if is_rectified(network):
        # A search that was stopped early must have the first cells, not any.
        may_turn = network.n_weights <= _NARROW and (limits["count_only"] or len(limits) == 1)
        found = lines.explore(network, line, **limits, most_exact=_PATIENCE if may_turn else None)
        if found.cells.is_complete or not may_turn or found.search.n_exact <= _PATIENCE:
            return found
    cells = spatial.explore(network, line, **limits)
    if limits["count_only"] or not cells.is_complete:
        return cells
    with no_time_limit():
        return core_lines.ordered_cells(network, line, cells)
