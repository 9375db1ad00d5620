"""The engine for three to seven dimensions: polytopes split depth first, every sign proven."""

from typing import Any

from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._search.exact_space import SpatialPath
from hardmax.regions._search.rounded_forms import first_stream
from hardmax.regions._search.runs import SearchDomain, check_limits, explore_domain
from hardmax.regions._search.space_domains import SpatialDomain, read_spatial_domain
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
    r"""Find every cell of a network on a domain of dimension 1 or 3 to 7.

    The search splits polytopes by one group of forms after another, layer by layer and depth first.
    A polytope is given by its vertices and the facets that contain each vertex. Each layer is
    composed once for each region of the earlier layers; groups with one winner on the whole region
    are settled there. A sign that floats cannot prove is decided in exact arithmetic, and zeros are
    recorded as incidences, so degenerate cells (more than $d$ facets through a vertex, coinciding
    walls) need no special treatment.

    Args:
        network: The network.
        domain: A domain of dimension at most 7.
        count_only: Store nothing; memory then does not grow with the number of cells.
        max_cells: Stop after this number of cells.
        max_seconds: Stop after about this number of seconds.
        workers: The number of threads; the result does not depend on it. A search with `max_cells`
            uses one thread.
        progress: Show a bar if the search takes longer than a second.

    Returns:
        The cells, with vertices in no particular order and output maps. On an unbounded domain a
        vertex at infinity has a direction: see `CellArrays`. `is_complete` is False if
        a limit stopped the search.

    Raises:
        ArgumentError: If the domain has no interior, or too many dimensions.
        Interrupted: On Ctrl-C, with the cells found until then.

    Examples:
        >>> import numpy as np
        >>> from hardmax import Box, ReluNetwork
        >>> octants = ReluNetwork([np.eye(3), np.ones((3, 1))]).network
        >>> cells = explore(octants, Box([-1, -1, -1], [1, 1, 1]))
        >>> cells.n_counted, cells.starts.tolist()
        (8, [0, 8, 16, 24, 32, 40, 48, 56, 64])
        >>> three_times_the_same = ReluNetwork([np.ones((3, 3)), np.ones((3, 1))]).network
        >>> explore(three_times_the_same, Box([-1, -1, -1], [1, 1, 1]), count_only=True).n_counted
        2
    """
    where = read_spatial_domain(domain, network.dim_in)
    return explore_domain(
        search_domain(network, where),
        count_only=count_only,
        limits=check_limits(max_cells, max_seconds),
        workers=workers,
        progress=progress,
    )


def search_domain(network: ArgmaxNetwork, domain: SpatialDomain) -> SearchDomain:
    """Return the start of a search of a network on a domain."""
    return SearchDomain(
        network,
        domain.inputs,
        domain.start,
        domain.cell_struct,
        domain.scale,
        domain.is_bounded,
        first_stream(network, domain.inputs, domain.scale),
        lambda search: SpatialPath(network, domain, search),
    )
