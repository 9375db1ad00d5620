r"""Regions on which all lines of a layer are parallel. No checks: see `planar_search`.

Where all forms before a layer but one are constant, its scores, and those of all layers after it,
are functions of that form: their lines are parallel. So towards a vertex at infinity on one of
these lines, or on the line of the form itself, they are bounded, and have the sign of what is left;
which floats cannot see. Where all forms before a layer are constant, so are all after it.
"""

import numba

from hardmax._kernels.effects import form_of
from hardmax._kernels.layouts import (
    FIRST_GROUP,
    IS_PENCIL,
    IS_PLAIN,
    IS_RELU,
    N_GROUPS,
    N_IN,
    RAY,
    RAY_UNIT,
    RESIDUAL,
    Tables,
)
from hardmax._kernels.planar_buffers import SHIFT, Frames
from hardmax._kernels.planar_signs import Pencils
from hardmax.typing import FloatArray, IntArray

_NONE, _EVERYWHERE = 2**62, -(2**62)
NO_PENCILS = -1, _NONE, _NONE


@numba.njit(cache=True, _nrt=False)
def pencils_of(layout: IntArray, flags: IntArray, layer: int) -> Pencils:
    """Return which forms of a layer vanish together."""
    pencil = layer if layout[layer, IS_PENCIL] == 1 else -1
    return pencil, flags[layer, RAY], flags[layer, RAY_UNIT]


@numba.njit(cache=True, _nrt=False)
def note_ray(tables: Tables, frames: Frames, layer: int) -> None:
    """Find out from which layer on, if at all, lines are parallel to those of a layer."""
    layout, flags, blocks, before = tables.layout, frames.flags, frames.blocks, layer - 1
    flags[layer, RAY] = flags[before, RAY] if layer > 0 else _NONE
    flags[layer, RAY_UNIT] = flags[before, RAY_UNIT] if layer > 0 else _NONE
    if layer == 0 or flags[layer, RAY] == _EVERYWHERE:
        return
    n_varying = 0
    unit = -1
    is_plain = layout[before, IS_RELU] == 1 or layout[before, IS_PLAIN] == 1
    if is_plain and layout[before, RESIDUAL] == 0:
        first, scores = layout[before, FIRST_GROUP], layout.shape[0] + before
        for g in range(layout[before, N_GROUPS]):
            form = form_of(layout, tables.indices, before, g, frames.signature[first + g])
            if form >= 0 and _varies(blocks, scores, form):
                n_varying += 1
                unit = g
    else:
        for j in range(layout[layer, N_IN]):
            n_varying += _varies(blocks, layer, j)
    if n_varying == 0:
        flags[layer, RAY] = _EVERYWHERE
    elif n_varying == 1 and flags[layer, RAY] == _NONE:
        flags[layer, RAY] = layer * SHIFT
        if layout[before, IS_RELU] == 1 and unit >= 0:
            flags[layer, RAY_UNIT] = before * SHIFT + unit


@numba.njit(cache=True, _nrt=False)
def _varies(blocks: FloatArray, b: int, i: int) -> bool:
    """Say whether a form may not be constant."""
    return bool(blocks[b, 0, i] != 0.0 or blocks[b, 1, i] != 0.0 or blocks[b, 3, i] != 0.0)
