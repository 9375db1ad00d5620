r"""Which cells of the spatial engine touch along a wall, exactly and quickly.

Two cells that touch were parted by one split of the search, and have facets on both sides of it.
Where only ReLU units tie on such a facet, or no later layer sees a jump, the cells beyond it meet
face to face, and equal keys match (see `_kernels.spatial_matching`, which holds the proof). The
remaining facets, those at walls where a model jumps and those where forms of wider groups coincide,
are compared in pairs (see `overlapping_facets`).
"""

from collections.abc import Iterable

import numpy as np

from hardmax._kernels.spatial_matching import CONTINUOUS, JUMPS, UNITS, match_facets, sort_pairs
from hardmax.models.argmax_layers import ArgmaxLayer, ArgmaxNetwork
from hardmax.regions.adjacency import Neighbours
from hardmax.regions.cell_rows import Wall
from hardmax.regions.cells import CellArrays, CellFacets
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.regions.overlapping_facets import overlapping_facets
from hardmax.typing import BoolArray, IntArray


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
    facets = cells.facets
    assert facets is not None
    owners, places, is_loose = _matched(network, cells.signatures, facets)
    # Two forms that tie on a facet may be one form on the other side of it, where no tie is seen:
    # then only one of the two facets is left over by the matching, and the other stays alone.
    is_alone = np.ones(len(owners), dtype=np.bool_)
    is_alone[places] = False
    is_loose |= is_alone
    if chosen is not None and chosen != range(len(cells.signatures)):
        is_chosen = np.zeros(len(cells.signatures), dtype=np.bool_)
        is_chosen[np.fromiter(chosen, dtype=np.int64)] = True
        places = places[is_chosen[owners[places]].all(axis=1)]
        is_loose &= is_chosen[owners]
    if is_loose.any():
        loose = np.flatnonzero(is_loose)
        places = np.concatenate([places, overlapping_facets(network, domain, cells, owners, loose)])
        pairs = np.sort(owners[places], axis=1)
        order = np.lexsort(pairs.T[::-1])
        pairs, places = pairs[order], places[order]
    else:
        pairs = owners[places]
    return Neighbours(pairs, _labels(network, facets, places))


def _matched(
    network: ArgmaxNetwork, signatures: IntArray, facets: CellFacets
) -> tuple[IntArray, IntArray, BoolArray]:
    """Match facets; return their cells, the pairs in order, and which need a closer look."""
    n_facets, n_cells = len(facets.facets), len(signatures)
    layers = network.layers
    layer_of = np.repeat(np.arange(len(layers)), [layer.n_groups for layer in layers])
    kinds = [_kind(layer, i == len(layers) - 1) for i, layer in enumerate(layers)]
    words = np.random.default_rng(0).integers(2**63, size=max(network.n_groups, 1)) * 2 + 1
    table = np.full(1 << max(2 * n_facets, 1).bit_length(), -1, dtype=np.int32)
    owners = np.empty(n_facets, dtype=np.int64)
    partners = np.empty(n_facets, dtype=np.int64)
    is_loose = np.empty(n_facets, dtype=np.bool_)
    n_pairs = match_facets(
        signatures,
        facets.starts,
        facets.facets,
        facets.tie_starts,
        facets.ties,
        layer_of.astype(np.int64),
        np.array(kinds, dtype=np.int64),
        words.astype(np.uint64),
        np.empty(n_facets, dtype=np.uint64),
        owners,
        table,
        is_loose,
        partners,
    )
    places = np.empty((n_pairs, 2), dtype=np.int64)
    sort_pairs(partners, owners, np.zeros(n_cells + 1, dtype=np.int64), places)
    return owners, places, is_loose


def _labels(
    network: ArgmaxNetwork, facets: CellFacets, places: IntArray
) -> tuple[tuple[Wall, ...], ...]:
    """Return the walls on matched facets, those of ties included."""
    walls = [(i, g) for i, layer in enumerate(network.layers) for g in range(layer.n_groups)]
    single = [(wall,) for wall in walls]
    names = [*map(single.__getitem__, facets.facets[places[:, 0], 1].tolist())]
    on_facet = np.flatnonzero(facets.ties[:, 0] >= 0)
    if not len(on_facet):
        return tuple(names)
    owners = np.searchsorted(facets.tie_starts, on_facet, side="right") - 1
    tied = (facets.starts[owners] + facets.ties[on_facet, 0]).tolist()
    also: dict[int, list[Wall]] = {}
    for facet, group in zip(tied, facets.ties[on_facet, 1].tolist(), strict=True):
        also.setdefault(facet, []).append(walls[group])
    is_tied = np.zeros(len(facets.facets), dtype=np.bool_)
    is_tied[tied] = True
    for k in np.flatnonzero(is_tied[places].any(axis=1)).tolist():
        one, other = places[k].tolist()
        names[k] = tuple(sorted({*names[k], *also.get(one, ()), *also.get(other, ())}))
    return tuple(names)


def _kind(layer: ArgmaxLayer, is_last: bool) -> int:
    """Say what a layer is to later ones at its walls."""
    if layer.is_relu:
        return UNITS
    if is_last:
        return CONTINUOUS
    first = np.repeat(layer.starts[:-1], np.diff(layer.starts))
    same_values = np.array_equal(layer.values, layer.values[first])
    same_gains = np.array_equal(layer.gains, layer.gains[first])
    return CONTINUOUS if same_values and same_gains else JUMPS
