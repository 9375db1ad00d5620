"""Room for the effects of units on later scores: see `effects`."""

import math
from typing import Any

import numpy as np

from hardmax._kernels.effects import n_scores, weights_at
from hardmax._kernels.layouts import (
    IS_PLAIN,
    IS_RELU,
    N_GROUPS,
    N_IN,
    QUERY_IS_IDENTITY,
    Tables,
)
from hardmax.typing import IntArray

LEAST_WIDTH = 12
"""Layers with fewer inputs are not worth updating."""
_WIDTH_PER_LAYER = 24
"""How wide layers have to be for each layer that a change is carried on: measured."""
_MOST_NUMBERS = 2**25


def effect_arrays(tables: Tables) -> dict[str, Any]:
    """Allocate room for the effects in a network, by field of the frames; none if too shallow."""
    layout = tables.layout
    n = len(layout)
    chains = [_chain_end(layout, m) for m in range(n - 1)]
    reach = max((_worthwhile(layout, m, end) for m, end in enumerate(chains)), default=0)
    places = np.full((n, n), -1, dtype=np.int64)
    sizes = [n_scores(layout, m) for m in range(n - 1)]
    width = int(layout[:-1, N_GROUPS].max(initial=0)) if reach >= 2 else 0
    # Factors and sums come first.
    scratch = width + max(sizes, default=0)
    most = 0
    while reach >= 2:
        most = scratch
        for m, end in enumerate(chains):
            for target in range(m + 1, min(end, m + reach) + 1):
                places[m, target] = most
                most += int(layout[m, N_GROUPS]) * sizes[target]
        # Winners are kept in bytes.
        n_winners = n * (reach - 1) * width**2
        if most <= _MOST_NUMBERS and n_winners <= 8 * _MOST_NUMBERS:
            break
        places[:] = -1
        reach -= 1
    width = width if reach >= 2 else 0
    rows = np.empty(most if width else 0)
    bounds = np.zeros((2, n, n, width))
    for m in range(n - 1 if width else 0):
        if places[m, m + 1] >= 0:
            shape = int(layout[m, N_GROUPS]), sizes[m + 1]
            start, at = places[m, m + 1], weights_at(layout, m + 1)
            weights = tables.numbers[at : at + math.prod(shape)]
            rows[start : start + math.prod(shape)] = weights
            bounds[1, m, m + 1, : shape[0]] = np.abs(weights).reshape(shape).max(axis=1)
    return {
        "effects": rows,
        "effect_places": places,
        "effect_bounds": bounds,
        "effect_patterns": np.zeros((n, max(reach - 1, 0), width, width), dtype=np.int8),
        "effect_lists": np.zeros((7, n, width), dtype=np.int64),
        "effect_changes": np.zeros((3, 8 * width), dtype=np.int64),
    }


def _chain_end(layout: IntArray, m: int) -> int:
    """Return the last layer up to which all layers from `m` on are plain."""
    end = m
    while end + 1 < len(layout) - 1:
        now, after = layout[end], layout[end + 1]
        has_one_weight = after[IS_RELU] != after[QUERY_IS_IDENTITY]
        is_wide = after[N_IN] >= LEAST_WIDTH
        if not (now[IS_PLAIN] == 1 and after[IS_PLAIN] == 1 and has_one_weight and is_wide):
            break
        end += 1
    return end


def _worthwhile(layout: IntArray, m: int, end: int) -> int:
    """Return how many layers it is worth to carry changes on from a layer."""
    width = int(layout[m : end + 1, N_GROUPS].min())
    return min(end - m, width // _WIDTH_PER_LAYER)
