"""The engine for two dimensions: convex polygons clipped depth first, every sign proven."""

from typing import Any

import numpy as np

from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.models.recomposition import chart_forms
from hardmax.regions.cells import CellArrays
from hardmax.regions.core_runs import SearchDomain, explore_domain
from hardmax.regions.core_searches import FirstStream, PlaneCell
from hardmax.regions.planar_domains import PlanarDomain, planar_domain
from hardmax.regions.planar_parking import PlanarPath
from hardmax.regions.rounded_forms import doubled_forms, finest_grid, rounded_forms
from hardmax.regions.search_runs import read_limits


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

    The search, compiled in `core/include/hardmax/search.hpp`, splits convex polygons, one group of
    forms after the other, layer by layer and depth first. A layer is composed once for each region
    of the layers before it; groups with one winner on the whole region are settled there. Wide
    layers are composed once for typical winners, and cost what the others change. Cells come in the
    lexicographic order of their signatures.

    Args:
        network: The network.
        domain: A box, a convex polygon, the plane, or a planar slice of a larger space.
        count_only: Store nothing; memory then does not grow with the number of cells.
        max_cells: Stop after so many cells.
        max_seconds: Stop after about so many seconds.
        workers: How many threads search; the result does not depend on it. A search for at most
            `max_cells` is done by one.
        progress: Show a bar where the search takes longer than a second.

    Returns:
        The cells, with counter-clockwise polygons and output maps. `is_complete` is False if a
        limit stopped the search.

    Raises:
        ArgumentError: If the domain is not planar, or has no interior.
        Interrupted: On Ctrl-C, with the cells found until then.

    Examples:
        >>> from hardmax.geometry.domains import Box, WholeSpace
        >>> from hardmax.models.networks import ReluNetwork
        >>> cross = ReluNetwork([np.eye(2), np.ones((2, 1))]).network
        >>> cells = explore(cross, Box([-1, -1], [1, 1]))
        >>> cells.n_counted, cells.signatures.tolist()
        (4, [[0, 0], [0, 1], [1, 0], [1, 1]])
        >>> explore(cross, WholeSpace(2), count_only=True).n_counted
        4
    """
    where = planar_domain(domain, network.dim_in)
    return explore_domain(
        search_domain(network, where),
        count_only=count_only,
        limits=read_limits(max_cells, max_seconds),
        workers=workers,
        progress=progress,
    )


def search_domain(network: ArgmaxNetwork, domain: PlanarDomain) -> SearchDomain:
    """Return what a search of a network on a planar domain begins with."""
    return SearchDomain(
        network,
        domain.chart,
        PlaneCell(domain.edges, domain.walls),
        domain.scale,
        domain.is_bounded,
        first_stream(network, domain),
        lambda search: PlanarPath(network, domain, search),
    )


def first_stream(network: ArgmaxNetwork, domain: PlanarDomain) -> FirstStream:
    """Return the embedding on the domain."""
    embedding, chart = network.embedding, domain.chart
    if chart is None and embedding.is_identity:
        return _COORDINATES
    if chart is None:
        block, doubled = np.zeros((4, embedding.dim_out)), np.zeros((7, embedding.dim_out))
        block[:2], block[2] = embedding.weight, embedding.bias
        doubled[:3] = block[:3]
        return FirstStream(block, doubled, finest_grid(block), True)
    forms = chart_forms(chart).compose(embedding)
    block = rounded_forms(forms, forms.rows, domain.scale)
    doubled = doubled_forms(forms, forms.rows, domain.scale)
    return FirstStream(block, doubled, finest_grid(block), not block[-1].any())


_COORDINATES = FirstStream(np.eye(4, 2), np.eye(7, 2), 0, True)
