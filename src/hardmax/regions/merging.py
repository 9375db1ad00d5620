r"""From cells to regions: which cells have the same affine map, and which of these hang together.

Three counts are never mixed: cells (signatures), regions (connected components of the interior of
the closure of all cells with one affine map) and distinct affine maps. Cells with the same map lie
in one region exactly if a chain of them, each touching the next along a wall, joins them.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from math import gcd

import numpy as np

from hardmax.models.recomposition import RationalForms
from hardmax.typing import FloatArray, IntArray


def map_key(forms: RationalForms) -> Hashable:
    """Return a key that is equal for equal affine maps, and only for these.

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
    """Join cells whose maps could be equal; cells of different classes have different maps.

    Two maps differ if some coefficient differs by more than its two radii. The intervals of one
    coefficient chain into classes, which the next coefficient splits further.

    Args:
        maps: Rounded maps, shape `(n_cells, n_coefficients)`.
        radii: Bounds on their errors, same shape.

    Returns:
        The class of each cell, shape `(n_cells,)`.
    """
    classes = np.zeros(len(maps), dtype=np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        # One rounding of each end is covered by stepping to the next float.
        low = np.nextafter(maps - radii, -np.inf)
        high = np.nextafter(maps + radii, np.inf)
    unknown = ~(np.isfinite(low) & np.isfinite(high))
    low, high = np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)
    for k in range(maps.shape[1]):
        order = np.lexsort((low[:, k], classes))
        ends, groups = high[order, k], classes[order]
        starts_group = np.concatenate([[True], groups[1:] != groups[:-1]])
        reach = np.empty(len(order))
        for group in np.split(np.arange(len(order)), np.flatnonzero(starts_group)[1:]):
            reach[group] = np.maximum.accumulate(ends[group])
        gap = np.concatenate([[True], low[order, k][1:] > reach[:-1]])
        classes[order] = np.cumsum(starts_group | gap) - 1
    return classes


def same_map_classes(keys: Sequence[Hashable]) -> IntArray:
    """Number the cells by their keys, in order of first appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def connected_classes(classes: IntArray, pairs: IntArray) -> IntArray:
    """Number the components of cells of one class under a neighbour relation.

    Args:
        classes: The class of each cell, shape `(n_cells,)`.
        pairs: Neighbours, shape `(n_pairs, 2)`.

    Returns:
        The component of each cell, numbered in order of first appearance; shape `(n_cells,)`.

    Examples:
        >>> connected_classes(np.array([0, 0, 1, 0]), np.array([[0, 1], [1, 2], [2, 3]])).tolist()
        [0, 0, 1, 2]
    """
    parent = list(range(len(classes)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i, j in pairs.tolist():
        if classes[i] == classes[j]:
            parent[root(j)] = root(i)
    return same_map_classes([root(i) for i in range(len(classes))])


def members(classes: IntArray) -> list[list[int]]:
    """List the members of each class."""
    groups: dict[int, list[int]] = defaultdict(list)
    for i, number in enumerate(classes.tolist()):
        groups[number].append(i)
    return list(groups.values())
