r"""Regions on which all lines of a layer are parallel. No checks: see `planar_search`.

Where all forms before a layer but one are constant, its scores, and those of all layers after it,
are functions of that form: their lines are parallel. So towards a vertex at infinity on one of
these lines, or on the line of the form itself, they are bounded, and have the sign of what is left;
which floats cannot see. Where all forms before a layer are constant, so are all after it. Without
offsets all these lines are one.
"""

import numba

from hardmax._kernels.layouts import (
    IS_HOMOGENEOUS,
    IS_PENCIL,
    IS_RELU,
    RAY,
    RAY_UNIT,
    Tables,
)
from hardmax._kernels.planar_buffers import PLANE, SHIFT, Frames
from hardmax._kernels.planar_signs import Pencils
from hardmax._kernels.varying_forms import count_varying, wall_of
from hardmax.typing import IntArray

_NONE, _EVERYWHERE = 2**62, -(2**62)
NO_PENCILS = -1, _NONE, _NONE, 0


@numba.njit(cache=True, _nrt=False)
def pencils_of(layout: IntArray, flags: IntArray, layer: int) -> Pencils:
    """Return which forms of a layer vanish together.

    What is said about parallel lines holds where `note_ray` was called; nobody asks elsewhere,
    where there is neither a vertex at infinity nor a layer without offsets.
    """
    pencil = layer if layout[layer, IS_PENCIL] == 1 else -1
    return pencil, flags[layer, RAY], flags[layer, RAY_UNIT], layout[layer, IS_HOMOGENEOUS]


@numba.njit(cache=True, _nrt=False)
def note_ray(tables: Tables, frames: Frames, layer: int) -> None:
    """Find out from which layer on, if at all, lines are parallel to those of a layer."""
    layout, flags, before = tables.layout, frames.flags, layer - 1
    flags[layer, RAY] = flags[before, RAY] if layer > 0 else _NONE
    flags[layer, RAY_UNIT] = flags[before, RAY_UNIT] if layer > 0 else _NONE
    if flags[layer, RAY] == _EVERYWHERE:
        return
    n_varying, group = count_varying(tables, frames, layer, PLANE)
    if n_varying == 0:
        flags[layer, RAY] = _EVERYWHERE
    elif n_varying == 1 and flags[layer, RAY] == _NONE:
        flags[layer, RAY] = layer * SHIFT
        if group >= 0 and layout[before, IS_RELU] == 1:
            flags[layer, RAY_UNIT] = before * SHIFT + wall_of(tables.first, before, group)
