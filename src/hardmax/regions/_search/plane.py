"""The engine for two dimensions: convex polygons clip depth first, every sign proven."""

from typing import Any

from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._search.exact_plane import PlanarPath
from hardmax.regions._search.plane_domains import PlanarDomain, read_planar_domain
from hardmax.regions._search.rounded_forms import first_stream
from hardmax.regions._search.runs import SearchDomain, check_limits, explore_domain
from hardmax.regions.cell_arrays import CellArrays


def explore(
    network: ArgmaxNetwork,
    domain: Any,
    *,
    count_only: bool = False,
    max_cells: int | None = None,
    max_seconds: float | None = None,
    workers: int = 1,
    progress: bool = True,
) -> CellArrays:
    r"""Find every cell of a network on a planar domain.

    The compiled search (`core/include/hardmax/search.hpp`) splits convex polygons by one group of
    forms after another, layer by layer and depth first. Each layer is composed once for each region
    of the earlier layers; groups with one winner on the whole region are settled there. Wide layers
    are composed once for typical winners, and then updated for the winners that differ. Cells come
    in the lexicographic order of their signatures.

    Args:
        network: The network.
        domain: A box, a convex polygon, the plane, or a planar slice of a larger space.
        count_only: Store nothing; memory then does not grow with the number of cells.
        max_cells: Stop after this number of cells.
        max_seconds: Stop after about this number of seconds.
        workers: The number of threads; the result does not depend on it. A search with `max_cells`
            uses one thread.
        progress: Show a bar if the search takes longer than a second.

    Returns:
        The cells, with counter-clockwise polygons and output maps. `is_complete` is False if a
        limit stopped the search.

    Raises:
        ArgumentError: If the domain is not planar, or has no interior.
        Interrupted: On Ctrl-C, with the cells found until then.

    Examples:
        >>> import numpy as np
        >>> from hardmax import Box, ReluNetwork, WholeSpace
        >>> cross = ReluNetwork([np.eye(2), np.ones((2, 1))]).network
        >>> cells = explore(cross, Box([-1, -1], [1, 1]))
        >>> cells.n_counted, cells.signatures.tolist()
        (4, [[0, 0], [0, 1], [1, 0], [1, 1]])
        >>> explore(cross, WholeSpace(2), count_only=True).n_counted
        4
    """
    where = read_planar_domain(domain, network.dim_in)
    return explore_domain(
        search_domain(network, where),
        count_only=count_only,
        limits=check_limits(max_cells, max_seconds),
        workers=workers,
        progress=progress,
    )


def search_domain(network: ArgmaxNetwork, domain: PlanarDomain) -> SearchDomain:
    """Return the start of a search of a network on a planar domain."""
    return SearchDomain(
        network,
        domain.inputs,
        domain.cell,
        domain.cell_struct,
        domain.scale,
        domain.is_bounded,
        first_stream(network, domain.inputs, domain.scale),
        lambda search: PlanarPath(network, domain, search),
    )
