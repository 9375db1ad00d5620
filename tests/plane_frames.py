"""Frames of two dimensions for the kernels that compose forms in any dimension."""

from typing import NamedTuple

import numpy as np

from hardmax._kernels.effect_buffers import effect_arrays
from hardmax._kernels.layouts import Tables, layer_arrays
from hardmax.typing import AnyArray, FloatArray, IntArray

PLANE = 0, 1


class Frames(NamedTuple):
    """What `spatial_buffers.Frames` has of the forms on a path."""

    blocks: FloatArray
    flags: IntArray
    shares: FloatArray
    composed: AnyArray
    effects: FloatArray
    effect_places: IntArray
    effect_bounds: FloatArray
    effect_patterns: AnyArray
    effect_lists: IntArray
    effect_changes: IntArray
    first: IntArray
    gains: FloatArray
    values: FloatArray
    fixed: IntArray
    pending: IntArray
    candidates: IntArray
    n_candidates: IntArray
    signature: IntArray
    work: FloatArray
    order: IntArray
    expansion: FloatArray


def new_frames(tables: Tables, n_groups: int) -> Frames:
    shared = layer_arrays(tables, n_groups, len(PLANE))
    most_rows = shared["blocks"].shape[2]
    return Frames(
        **shared,
        **effect_arrays(tables),
        work=np.zeros((2, most_rows)),
        order=np.zeros((4, most_rows), dtype=np.int64),
        expansion=np.zeros(64),
    )
