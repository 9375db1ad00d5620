r"""Facets of cells matched across the splits that made them. No checks: see callers.

Two cells on both sides of a split share the forms of the layers up to it. If on the hyperplane of
a facet only ReLU units tie, the stream beyond is the same affine function there from both sides,
layer by layer, and so are all forms; hence the cells' facets on that hyperplane are equal if their
winners agree but for the ties, and have no inner point in common otherwise. Matching facets is then
a matter of equal keys: the split, the two forms that meet, and the winners without those that tie.
Keys are hashed; what has equal hashes is compared in full.

Where other groups tie, or where a layer with later ones jumps, facets are left to the caller.
"""

from typing import Any

import numba
import numpy as np

from hardmax.typing import AnyArray, BoolArray, IntArray

# What a layer is: only units; continuous at its walls, or followed by no other; one that jumps.
UNITS, CONTINUOUS, JUMPS = range(3)

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@numba.njit(cache=True, _nrt=False)
def match_facets(
    signatures: AnyArray,
    starts: IntArray,
    facets: IntArray,
    tie_starts: IntArray,
    ties: IntArray,
    layer_of: IntArray,
    kinds: IntArray,
    weights: AnyArray,
    keys: AnyArray,
    owners: IntArray,
    table: IntArray,
    is_loose: BoolArray,
    partners: IntArray,
) -> int:
    """Find the partner of every facet that can be matched; return how many pairs.

    Args:
        signatures: `(n_cells, n_groups)`.
        starts: `(n_cells + 1,)`: where the facets of each cell begin.
        facets: `(n_facets, 3)`: the split of each facet, its group, and the rival.
        tie_starts: `(n_cells + 1,)`.
        ties: `(n_ties, 2)`: facet or -1, and group.
        layer_of: `(n_groups,)`.
        kinds: `(n_layers,)`: what each layer is.
        weights: `(n_groups,)`: random odd words.
        keys: `(n_facets,)`: words, overwritten.
        owners: `(n_facets,)`: the cell of each facet, written.
        table: A power of two of entries, at least twice the facets, all -1; overwritten.
        is_loose: `(n_facets,)`: which facets are left to the caller, written.
        partners: `(n_facets,)`: for the later facet of a pair the earlier one, else -1; written.
    """
    n_cells, n_groups = signatures.shape
    mask = np.uint64(table.shape[0] - 1)
    n_pairs = 0
    for cell in range(n_cells):
        whole = np.uint64(0)
        for g in range(n_groups):
            whole += weights[g] * np.uint64(signatures[cell, g])
        n_ties = tie_starts[cell + 1] - tie_starts[cell]
        for f in range(starts[cell], starts[cell + 1]):
            owners[f] = cell
            partners[f] = -1
            group, rival = np.int64(facets[f, 1]), np.int64(facets[f, 2])
            winner = np.int64(signatures[cell, group])
            is_loose[f] = kinds[layer_of[group]] == JUMPS
            key = whole - weights[group] * np.uint64(winner)
            if n_ties > 0:
                key -= _tied_share(
                    signatures, tie_starts, ties, weights, cell, f - starts[cell], group
                )
                is_loose[f] = is_loose[f] or _has_wide_tie(
                    tie_starts, ties, layer_of, kinds, cell, f - starts[cell], group
                )
            if is_loose[f]:
                continue
            key += np.uint64(facets[f, 0]) * _MIX + np.uint64(winner * rival + winner + rival)
            key = (key ^ (key >> _HALF)) * _MIX
            key ^= key >> _HALF
            keys[f] = key
            place = key & mask
            while table[place] >= 0:
                other = np.int64(table[place])
                if (
                    keys[other] == key
                    and facets[other, 0] == facets[f, 0]
                    and facets[other, 1] == group
                    and facets[other, 2] == winner
                    and np.int64(signatures[owners[other], group]) == rival
                    and _agree(signatures, starts, tie_starts, ties, owners[other], other, cell, f)
                ):
                    partners[f] = other
                    n_pairs += 1
                    break
                place = (place + np.uint64(1)) & mask
            if partners[f] < 0:
                table[place] = f
    return n_pairs


@numba.njit(cache=True, _nrt=False)
def holds(tie_starts: IntArray, ties: IntArray, cell: int, facet: int, group: int) -> bool:
    """Say whether a group ties on a facet, given by its place in its cell."""
    for t in range(tie_starts[cell], tie_starts[cell + 1]):
        if ties[t, 1] == group and (ties[t, 0] < 0 or ties[t, 0] == facet):
            return True
    return False


@numba.njit(cache=True, _nrt=False)
def _tied_share(
    signatures: AnyArray,
    tie_starts: IntArray,
    ties: IntArray,
    weights: AnyArray,
    cell: int,
    facet: int,
    own: int,
) -> Any:
    """Return what the groups that tie on a facet, but for its own, add to the key of a cell."""
    share = np.uint64(0)
    for g in range(signatures.shape[1]):
        if g != own and holds(tie_starts, ties, cell, facet, g):
            share += weights[g] * np.uint64(signatures[cell, g])
    return share


@numba.njit(cache=True, _nrt=False)
def _has_wide_tie(
    tie_starts: IntArray,
    ties: IntArray,
    layer_of: IntArray,
    kinds: IntArray,
    cell: int,
    facet: int,
    own: int,
) -> bool:
    """Say whether a group that is no unit ties on a facet, in its own layer or a later one."""
    for t in range(tie_starts[cell], tie_starts[cell + 1]):
        layer = layer_of[ties[t, 1]]
        is_wide = kinds[layer] != UNITS and layer >= layer_of[own]
        if is_wide and (ties[t, 0] < 0 or ties[t, 0] == facet):
            return True
    return False


@numba.njit(cache=True, _nrt=False, forceinline=True)
def _agree(
    signatures: AnyArray,
    starts: IntArray,
    tie_starts: IntArray,
    ties: IntArray,
    one: int,
    one_facet: int,
    other: int,
    other_facet: int,
) -> bool:
    """Say whether two cells have equal winners but for groups that tie on the facets of both."""
    n_differing = 0
    for g in range(signatures.shape[1]):
        n_differing += signatures[one, g] != signatures[other, g]
    n_ties = tie_starts[one + 1] - tie_starts[one] + tie_starts[other + 1] - tie_starts[other]
    if n_ties == 0:
        # The two forms that meet on the facet are one difference.
        return bool(n_differing == 1)
    one_place, other_place = one_facet - starts[one], other_facet - starts[other]
    n_free = 1
    for g in range(signatures.shape[1]):
        ties_here = holds(tie_starts, ties, one, one_place, g)
        if ties_here != holds(tie_starts, ties, other, other_place, g):
            return False
        n_free += ties_here and signatures[one, g] != signatures[other, g]
    return bool(n_differing == n_free)


@numba.njit(cache=True, _nrt=False)
def sort_pairs(partners: IntArray, owners: IntArray, counts: IntArray, places: IntArray) -> None:
    """Write pairs of facets in the lexicographic order of their cells, that of the smaller first.

    Args:
        partners: `(n_facets,)`, as `match_facets` writes them.
        owners: `(n_facets,)`.
        counts: `(n_cells + 1,)`: zeros; overwritten.
        places: `(n_pairs, 2)`: written.
    """
    for f in range(partners.shape[0]):
        if partners[f] >= 0:
            counts[owners[partners[f]] + 1] += 1
    for cell in range(1, counts.shape[0]):
        counts[cell] += counts[cell - 1]
    # Later cells come later, so that every row fills in order.
    for f in range(partners.shape[0]):
        if partners[f] >= 0:
            first = owners[partners[f]]
            place = counts[first]
            places[place, 0], places[place, 1] = partners[f], f
            counts[first] = place + 1
