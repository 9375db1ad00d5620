r"""Which cells of the spatial engine touch along a wall, exactly and quickly.

Two cells that touch were parted by one split of the search, and have facets on both sides of it.
Where only ReLU units tie on such a facet, or no later layer sees a jump, the cells beyond it meet
face to face, and equal keys match (`core/include/hardmax/facets.hpp` holds the proof). The
remaining facets, those at walls where a model jumps and those where forms of wider groups coincide,
are compared in pairs (see `overlapping_facets`).
"""

from collections.abc import Iterable

import numpy as np

from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._neighbours.adjacency import Neighbours
from hardmax.regions._neighbours.facets import CoreFacets
from hardmax.regions._neighbours.overlapping_facets import overlapping_facets
from hardmax.regions.cell_arrays import CellArrays, CellFacets
from hardmax.regions.cell_rows import Wall
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.typing import AnyArray, BoolArray, IntArray


def spatial_neighbours(
    network: ArgmaxNetwork,
    domain: ChartedDomain,
    cells: CellArrays,
    chosen: Iterable[int] | None = None,
) -> Neighbours:
    """Find all neighbours among cells that the spatial engine found.

    Args:
        network: The network.
        domain: The domain.
        cells: The cells, with their facets.
        chosen: The cells to look at; all if None.
    """
    is_chosen: BoolArray | None = None
    if chosen is not None and chosen != range(cells.n_stored):
        is_chosen = np.zeros(cells.n_stored, dtype=np.bool_)
        is_chosen[np.fromiter(chosen, dtype=np.int64)] = True
    facets = CoreFacets(network, domain, cells, is_chosen)
    if facets.is_settled:
        pairs, groups = facets.neighbours()
    else:
        places = overlapping_facets(facets) if facets.n_loose else facets.pairs
        if is_chosen is not None:
            places = places[is_chosen[facets.owners[places]].all(axis=1)]
        pairs, groups = facets.sort(places)
    facets.close()
    names = _wall_names(network).take(groups).tolist()
    if facets.n_ties:
        # Then they are not settled.
        _add_ties(names, network, facets.facets, places)
    return Neighbours(pairs, tuple(names))


def _wall_names(network: ArgmaxNetwork) -> AnyArray:
    """Return for each group its wall alone, `((layer, group),)`: shape `(n_groups,)`."""
    single: AnyArray | None = network.kept.get("wall names")
    if single is None:
        walls = ((i, g) for i, layer in enumerate(network.layers) for g in range(layer.n_groups))
        single = np.fromiter(((wall,) for wall in walls), dtype=object, count=network.n_groups)
        network.kept["wall names"] = single
    return single


def _add_ties(
    names: list[tuple[Wall, ...]], network: ArgmaxNetwork, facets: CellFacets, places: IntArray
) -> None:
    """Add to the walls on matched facets those of ties."""
    single = _wall_names(network)
    on_facet = np.flatnonzero(facets.ties[:, 0] >= 0)
    owners = np.searchsorted(facets.tie_starts, on_facet, side="right") - 1
    tied = (facets.starts[owners] + facets.ties[on_facet, 0]).tolist()
    also: dict[int, list[Wall]] = {}
    for facet, group in zip(tied, facets.ties[on_facet, 1].tolist(), strict=True):
        also.setdefault(facet, []).extend(single[group])
    is_tied = np.zeros(len(facets.facets), dtype=np.bool_)
    is_tied[tied] = True
    for k in np.flatnonzero(is_tied[places].any(axis=1)).tolist():
        one, other = places[k].tolist()
        names[k] = tuple(sorted({*names[k], *also.get(one, ()), *also.get(other, ())}))
