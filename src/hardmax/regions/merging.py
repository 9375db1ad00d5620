r"""From cells to regions: which cells have the same affine map, and which of these hang together.

Three counts are never mixed: cells (signatures), regions (connected components of the interior of
the closure of all cells with one affine map) and distinct affine maps. Cells with the same map lie
in one region exactly if a chain of them, each touching the next along a wall, joins them.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable
from math import gcd

import numpy as np

from hardmax.models._arithmetic.recomposition import RationalForms
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

    Examples:
        >>> maps = np.array([[0.0, 1.0], [0.125, 1.0], [0.0, 3.0], [2.0, 1.0]])
        >>> candidate_classes(maps, np.full((4, 2), 0.25)).tolist()
        [0, 0, 1, 2]
    """
    classes = np.zeros(len(maps), dtype=np.int64)
    # Those that share their class with others, and so may still be split.
    shared = np.arange(len(maps))
    for k in range(maps.shape[1]):
        if not len(shared):
            break
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            # One rounding of each end is covered by stepping to the next float.
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
    """Return the largest value up to each place within its group; groups rise."""
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.arange(len(values))
    # Later groups have larger numbers throughout, so nothing is carried over.
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
        maps: Rounded maps, shape `(n_cells, n_coefficients)`.
        radii: Bounds on their errors, same shape.
        exact_key: Returns for a cell what is equal exactly for equal maps.
    """
    classes = candidates.copy()
    keys: dict[Hashable, int] = {}
    is_exact = ~radii.any(axis=1)
    n_rounded = np.bincount(candidates, weights=~is_exact)
    for i in np.flatnonzero(np.bincount(candidates)[candidates] > 1).tolist():
        # Floats without error are the maps; adding 0 makes -0 the same as 0.
        known = n_rounded[candidates[i]] == 0
        key = (maps[i] + 0.0).tobytes() if known else exact_key(i)
        classes[i] = len(candidates) + keys.setdefault((int(candidates[i]), key), len(keys))
    return numbered(classes)


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
    """List the members of each class."""
    groups: dict[int, list[int]] = defaultdict(list)
    for i, number in enumerate(classes.tolist()):
        groups[number].append(i)
    return list(groups.values())
