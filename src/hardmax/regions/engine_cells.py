"""The class of cells that each engine stores as arrays."""

from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions.cell_arrays import CellArrays
from hardmax.regions.cells import Cells
from hardmax.regions.charted_domains import ChartedDomain


def wrap_arrays(
    engine: str, network: ArgmaxNetwork, domain: ChartedDomain, arrays: CellArrays
) -> Cells:
    """Return the cells that an engine stored as arrays, in memory or in a file.

    Args:
        engine: The name of the engine, as in `Partition.engine`.
        network: The network.
        domain: The domain that was searched.
        arrays: The arrays.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> part = enumerate_regions(ReluNetwork([[[1.0]], [[1.0]]]), Box([-1], [1]), exact=True)
        >>> type(wrap_arrays(part.engine, part.network, part.domain, part.cells)).__name__
        'Cells'
    """
    # The compiled code of an engine is loaded when it is needed.
    if engine == "planar":
        from hardmax.regions._plane.cells import PlaneCells

        return PlaneCells(network, domain, arrays)
    if engine in ("spatial", "lines"):
        from hardmax.regions._space.cells import IntervalCells, SpaceCells

        kind = SpaceCells if engine == "spatial" else IntervalCells
        return kind(network, domain, arrays)
    return Cells(network, domain, arrays)
