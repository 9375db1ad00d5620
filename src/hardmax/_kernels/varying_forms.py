"""How many forms the scores of a layer depend on. No checks: see callers.

On a region the scores of a layer, and all forms after it, are functions of what the winners before
it pass on. Where that is less than there are dimensions, their slopes span less than all of space,
which rounding hides.
"""

import numba

from hardmax._kernels.effects import form_of
from hardmax._kernels.layouts import (
    AT_STARTS,
    FIRST_GROUP,
    IS_MERGED,
    IS_PLAIN,
    IS_RELU,
    N_GROUPS,
    N_IN,
    N_VARYING,
    RESIDUAL,
    Axes,
    Tables,
)
from hardmax._kernels.spatial_buffers import Frames
from hardmax.typing import FloatArray, IntArray


@numba.njit(cache=True, _nrt=False)
def count_varying(tables: Tables, frames: Frames, layer: int, axes: Axes) -> tuple[int, int]:
    """Count the forms before a layer that may vary; name a group that passes one on, or -1.

    More than there are dimensions are not counted. Before the first layer there are as many.
    """
    layout, blocks, before, dim = tables.layout, frames.blocks, layer - 1, len(axes)
    if layer == 0:
        return dim, -1
    count = 0
    group = -1
    if layout[before, RESIDUAL] == 1:
        for j in range(layout[layer, N_IN]):
            count += _varies(blocks, layer, j, axes)
        return min(count, dim), group
    is_plain = layout[before, IS_RELU] == 1 or layout[before, IS_PLAIN] == 1
    gains = frames.gains if frames.flags[before, IS_MERGED] == 1 else tables.gains
    first, scores = layout[before, FIRST_GROUP], layout.shape[0] + before
    for g in range(layout[before, N_GROUPS]):
        # A unit that repeats another adds nothing to the span.
        if layout[before, IS_RELU] == 1 and 0 <= tables.first[before, g] < g:
            continue
        winner = frames.signature[first + g]
        if is_plain:
            form = form_of(layout, tables.indices, before, g, winner)
        else:
            form = tables.indices[layout[before, AT_STARTS] + g] + winner
            # Values are constants; only with a gain is a score passed on.
            if gains[before, 0, form] == 0.0 and gains[before, 1, form] == 0.0:
                form = -1
        if form >= 0 and _varies(blocks, scores, form, axes):
            count += 1
            group = g
            if count == dim:
                break
    return count, group


@numba.njit(cache=True, _nrt=False)
def wall_of(first: IntArray, layer: int, unit: int) -> int:
    """Return the first unit of a layer that has the wall of another one."""
    code = first[layer, unit]
    return int(code if code >= 0 else -1 - code)


@numba.njit(cache=True, _nrt=False)
def note_varying(tables: Tables, frames: Frames, layer: int, axes: Axes) -> None:
    """Keep how many forms before a layer may vary."""
    count, _ = count_varying(tables, frames, layer, axes)
    frames.flags[layer, N_VARYING] = count


@numba.njit(cache=True, _nrt=False)
def _varies(blocks: FloatArray, b: int, i: int, axes: Axes) -> bool:
    """Say whether a form may not be constant."""
    varies = blocks[b, len(axes) + 1, i] != 0.0
    for k in range(len(axes)):
        varies = varies or blocks[b, k, i] != 0.0
    return bool(varies)
