r"""Merge cells into regions: cells with the same affine map that are connected through walls.

There are three different counts: cells (signatures), regions (connected components of the interior
of the closure of all cells with one affine map) and distinct affine maps. Two cells with the same
map lie in the same region if and only if they are joined by a chain of cells with this map, each of
which touches the next along a wall.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable
from math import gcd

import numpy as np

from hardmax.models._arithmetic.recomposition import RationalForms
from hardmax.typing import FloatArray, IntArray


def map_key(forms: RationalForms) -> Hashable:
    """Return a key that is equal for two affine maps if and only if the maps are equal.

    Examples:
        >>> from flint import fmpz_mat
        >>> half = RationalForms(fmpz_mat([[1, 0]]), -1)
        >>> map_key(half) == map_key(RationalForms(fmpz_mat([[3, 0]]), 0, 6))
        True
    """
    entries = [int(entry) for entry in forms.matrix.entries()]
    numerator = gcd(*entries)
    if not numerator:
        return (0, 1, *entries)
    shape = tuple(entry // numerator for entry in entries)
    up, down = max(forms.exponent, 0), max(-forms.exponent, 0)
    numerator, denominator = numerator << up, forms.denominator << down
    common = gcd(numerator, denominator)
    return (numerator // common, denominator // common, *shape)


def candidate_classes(maps: FloatArray, radii: FloatArray) -> IntArray:
    """Group cells whose maps could be equal; cells of different classes have different maps.

    Two maps are different if some coefficient differs by more than the sum of its two radii.
    Overlapping intervals of one coefficient are chained into classes, which the next coefficient
    splits further.

    Args:
        maps: The rounded maps, shape `(n_cells, n_coefficients)`.
        radii: Bounds on the errors of the maps, same shape.

    Returns:
        The class of each cell, shape `(n_cells,)`.

    Examples:
        >>> maps = np.array([[0.0, 1.0], [0.125, 1.0], [0.0, 3.0], [2.0, 1.0]])
        >>> candidate_classes(maps, np.full((4, 2), 0.25)).tolist()
        [0, 0, 1, 2]
    """
    classes = np.zeros(len(maps), dtype=np.int64)
    # The cells that share their class with others, so that the class may still be split.
    shared = np.arange(len(maps))
    for k in range(maps.shape[1]):
        if not len(shared):
            break
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            # Stepping to the next float covers the rounding error of each end.
            low = np.nextafter(maps[shared, k] - radii[shared, k], -np.inf)
            high = np.nextafter(maps[shared, k] + radii[shared, k], np.inf)
        unknown = ~(np.isfinite(low) & np.isfinite(high))
        low[unknown], high[unknown] = -np.inf, np.inf
        order = np.lexsort((low, classes[shared]))
        low, high, shared = low[order], high[order], shared[order]
        groups = classes[shared]
        is_first = np.concatenate([[True], groups[1:] != groups[:-1]])
        reach = _running_maximum(high, np.cumsum(is_first))
        begins = is_first | np.concatenate([[True], low[1:] > reach[:-1]])
        chains = np.cumsum(begins) - 1
        classes[shared] = classes.max() + 1 + chains
        shared = shared[np.bincount(chains)[chains] > 1]
    return numbered(classes)


def _running_maximum(values: FloatArray, groups: IntArray) -> FloatArray:
    """Return the running maximum of values within each group; the groups are in rising order."""
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.arange(len(values))
    # All numbers of a later group are larger, so no maximum is carried over from an earlier group.
    reached = np.maximum.accumulate(groups * len(values) + ranks)
    return np.asarray(values[order[reached % len(values)]])


def numbered(labels: IntArray) -> IntArray:
    """Number labels in order of first appearance.

    Examples:
        >>> numbered(np.array([7, 3, 7, 5])).tolist()
        [0, 1, 0, 2]
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse])


def same_map_classes(
    candidates: IntArray, maps: FloatArray, radii: FloatArray, exact_key: Callable[[int], Hashable]
) -> IntArray:
    """Number the cells by their maps, in order of first appearance.

    Args:
        candidates: Classes of cells whose maps could be equal.
        maps: The rounded maps, shape `(n_cells, n_coefficients)`.
        radii: Bounds on the errors of the maps, same shape.
        exact_key: A function that returns a key for a cell, equal if and only if the maps are.
    """
    classes = candidates.copy()
    keys: dict[Hashable, int] = {}
    is_exact = ~radii.any(axis=1)
    n_rounded = np.bincount(candidates, weights=~is_exact)
    for i in np.flatnonzero(np.bincount(candidates)[candidates] > 1).tolist():
        # If the floats are exact, they serve as the key. Adding 0 replaces -0 by 0.
        known = n_rounded[candidates[i]] == 0
        key = (maps[i] + 0.0).tobytes() if known else exact_key(i)
        classes[i] = len(candidates) + keys.setdefault((int(candidates[i]), key), len(keys))
    return numbered(classes)


def connected_classes(classes: IntArray, pairs: IntArray) -> IntArray:
    """Number the connected components of the classes under a neighbour relation.

    Args:
        classes: The class of each cell, shape `(n_cells,)`.
        pairs: The pairs of neighbours, shape `(n_pairs, 2)`.

    Returns:
        The component of each cell, numbered in order of first appearance; shape `(n_cells,)`.

    Examples:
        >>> connected_classes(np.array([0, 0, 1, 0]), np.array([[0, 1], [1, 2], [2, 3]])).tolist()
        [0, 0, 1, 2]
    """
    inside = pairs[classes[pairs[:, 0]] == classes[pairs[:, 1]]]
    if not len(inside):
        return np.arange(len(classes))
    parent = list(range(len(classes)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i, j in inside.tolist():
        parent[root(j)] = root(i)
    roots = np.arange(len(classes))
    touched = np.flatnonzero(np.bincount(inside.ravel()))
    roots[touched] = [root(i) for i in touched.tolist()]
    return numbered(roots)


def members(classes: IntArray) -> list[list[int]]:
    """Return the list of members of each class."""
    groups: dict[int, list[int]] = defaultdict(list)
    for i, number in enumerate(classes.tolist()):
        groups[number].append(i)
    return list(groups.values())
