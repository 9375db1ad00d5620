r"""Neighbours in the plane that names alone prove: an edge seen from both sides.

Let cell $i$ have an edge on the wall where its winner $a$ of group $g$ ties with $b$, and let the
signature of $i$ with $b$ for $a$ be that of a cell $j$, which has an edge on the same wall. The
layers before $g$ have the same winners in both, so both edges lie on one line $L$. Where $g$ passes
its largest form on, both cells pass the same on along all of $L$, and so do all layers after it,
which have the same winners: every form of $i$ equals that of $j$ on $L$. So if the two edges that
meet an edge of $i$ carry the names of those that meet the edge of $j$, both edges end in the same
points: they are the same, $i$ and $j$ are neighbours along all of it, and nobody else is. Where $g$
jumps this holds if those names belong to layers up to that of $g$, or to the domain.

Edges that find no such partner (several walls on one line, T-junctions) are left to
`planar_adjacency`. A cell across one of them has one itself.
"""

from typing import NamedTuple

import numpy as np

from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.regions.cells import CellArrays
from hardmax.typing import AnyArray, BoolArray, IntArray

_BLOCK = 1 << 24
"""How many winners are compared at once."""


class Matching(NamedTuple):
    """What names alone prove.

    Attributes:
        pairs: Neighbours `i < j`, shape `(n_pairs, 2)`.
        is_open: Which cells have an edge without a partner, shape `(n_cells,)`.
    """

    pairs: IntArray
    is_open: BoolArray


def match_edges(network: ArgmaxNetwork, cells: CellArrays) -> Matching:
    """Match the edges of cells that the planar engine found.

    Args:
        network: The network.
        cells: The cells, with the walls of their edges.
    """
    assert cells.starts is not None
    assert cells.walls is not None
    starts, signatures, n_cells = cells.starts, cells.signatures, cells.n_counted
    first_group, first_form = _firsts(network)
    layer, group, winner, rival = cells.walls.T.astype(np.int64)
    is_wall = layer >= 0
    group = np.where(is_wall, first_group[layer] + group, 0)
    own_form = first_form[group] + winner
    # The form beside a wall names it; sides of the domain have negative names.
    name = np.where(is_wall, first_form[group] + rival, -5 - cells.walls[:, 1])
    owner = np.repeat(np.arange(n_cells), np.diff(starts))
    before, after = np.arange(len(owner)) - 1, np.arange(len(owner)) + 1
    before[starts[:-1]], after[starts[1:] - 1] = starts[1:] - 1, starts[:-1]

    edges = np.flatnonzero(is_wall)
    partner = _flipped_cells(signatures, first_form, owner, group, own_form, name, edges)
    mirror = _edges_named(owner, name, partner, own_form[edges])
    meets = (name[before[edges]] == name[after[mirror]]) & (
        name[after[edges]] == name[before[mirror]]
    )
    latest = np.maximum(layer[before[edges]], layer[after[edges]])
    passes = np.concatenate([np.ones(0, bool), *(one.passes_maximum for one in network.layers)])
    agree = passes[group[edges]] | (latest <= layer[edges])
    is_matched = (partner >= 0) & (mirror >= 0) & meets & agree

    is_open = np.zeros(n_cells, dtype=np.bool_)
    is_open[owner[edges[~is_matched]]] = True
    here, there = owner[edges[is_matched]], partner[is_matched]
    pairs = np.stack([here, there], axis=1)[here < there]
    return Matching(pairs[np.lexsort(pairs.T[::-1])], is_open)


def _firsts(network: ArgmaxNetwork) -> tuple[IntArray, IntArray]:
    """Return the first group of each layer and the first form of each group, over all layers."""
    n_groups = [layer.n_groups for layer in network.layers]
    sizes = [np.zeros(1, dtype=np.int64), *(np.diff(layer.starts) for layer in network.layers)]
    return np.cumsum([0, *n_groups]), np.cumsum(np.concatenate(sizes))


def _flipped_cells(
    signatures: AnyArray,
    first_form: IntArray,
    owner: IntArray,
    group: IntArray,
    own_form: IntArray,
    name: IntArray,
    edges: IntArray,
) -> IntArray:
    """Return for each edge the cell that differs in the form beside it alone, or -1."""
    # Signatures are found by a sum of random numbers, one for each winner, and then compared.
    codes = np.random.default_rng(0).integers(0, 2**63, first_form[-1] + 1, dtype=np.uint64)
    keys = np.zeros(len(signatures), dtype=np.uint64)
    for g, first in enumerate(first_form[:-1].tolist()):
        keys ^= codes[first + signatures[:, g].astype(np.int64)]
    order = np.argsort(keys, kind="stable")
    wanted = keys[owner[edges]] ^ codes[own_form[edges]] ^ codes[name[edges]]
    place = np.minimum(np.searchsorted(keys[order], wanted), len(order) - 1)
    partner: IntArray = order[place]
    partner[keys[partner] != wanted] = -1
    step = max(1, _BLOCK // max(1, signatures.shape[1]))
    for start in range(0, len(edges), step):
        block = slice(start, start + step)
        differs = signatures[owner[edges[block]]] != signatures[partner[block]]
        flipped = first_form[group[edges[block]]] + signatures[partner[block], group[edges[block]]]
        is_flip = (differs.sum(axis=1) == 1) & (flipped == name[edges[block]])
        partner[block] = np.where(is_flip, partner[block], -1)
    return partner


def _edges_named(owner: IntArray, name: IntArray, cells: IntArray, names: IntArray) -> IntArray:
    """Return the edges of given names of given cells; -1 where there is none."""
    lowest = int(name.min(initial=0))
    width = max(int(name.max(initial=0)), int(names.max(initial=0))) - lowest + 1
    keys = owner * width + (name - lowest)
    order = np.argsort(keys, kind="stable")
    wanted = cells * width + (names - lowest)
    found = order[np.minimum(np.searchsorted(keys[order], wanted), len(order) - 1)]
    return np.where((cells >= 0) & (keys[found] == wanted), found, -1)
