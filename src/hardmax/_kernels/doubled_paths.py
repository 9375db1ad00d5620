"""The forms on the path of a search, composed in twice the precision. No checks: see callers.

Radii grow with every layer by a factor, about half of the sum of the absolute weights of a unit, so
that after a dozen layers or two they say little. Composed in twice the precision the forms of deep
layers are known to all digits of a float; where a sign is undecided, they take the place of those
composed in floats. They hold for a region, and are kept as long as the search is in it.
"""

import numba

from hardmax._kernels.doubled_forms import (
    UP,
    add_doubled,
    add_value,
    compose_doubled,
    size_of,
)
from hardmax._kernels.effects import n_scores
from hardmax._kernels.layouts import (
    AT_OFFSETS,
    AT_OUTPUT,
    AT_OUTPUT_BIAS,
    AT_QUERY,
    AT_QUERY_BIAS,
    AT_SLOPES,
    AT_SLOTS,
    AT_STARTS,
    DOUBLED,
    FIRST_GROUP,
    IS_MERGED,
    IS_PLAIN,
    IS_RELU,
    IS_STALE,
    IS_TOTAL,
    N_FORMS,
    N_GROUPS,
    N_IN,
    N_OUT,
    N_QUERY,
    N_UPDATES,
    N_Y,
    OUTPUT_IS_IDENTITY,
    QUERY_IS_IDENTITY,
    RESIDUAL,
    VERSION,
    WIDTH,
    Axes,
    Tables,
)
from hardmax._kernels.row_sums import U, kappa_of
from hardmax._kernels.spatial_buffers import Frames
from hardmax.typing import FloatArray


@numba.njit(cache=True, _nrt=False)
def sharpen_path(
    tables: Tables, frames: Frames, doubled: FloatArray, layer: int, axes: Axes
) -> bool:
    """Replace the forms on the path, up to the scores of a layer, by the nearest floats.

    Blocks of doubled forms are numbered as blocks of forms are; the first stream has to be there.
    Returns whether there was anything to do.
    """
    layout, flags, scale = tables.layout, frames.flags, tables.scale[0]
    is_known = True
    for i in range(layer + 1):
        is_known = is_known and flags[i, DOUBLED] == flags[i, VERSION]
        if is_known:
            continue
        if i > 0:
            _compose_stream(tables, frames, doubled, i, axes)
        _compose_scores(tables, frames, doubled, i, axes)
        flags[i, DOUBLED] = flags[i, VERSION]
        n, scores = n_scores(layout, i), layout.shape[0] + i
        _adopt_exact(doubled, frames.blocks, scores, n, axes)
        shrinking = _replace(doubled, frames.blocks, scores, n, scale, axes)
        # Only a residual layer passes its stream on; the others have passed it to the scores.
        if layout[i, RESIDUAL] == 1:
            _replace(doubled, frames.blocks, i, layout[i, N_IN], scale, axes)
        if i > 0 and (layout[i - 1, IS_RELU] == 1 or layout[i - 1, IS_PLAIN] == 1):
            # The scores are no sum of the floats that are there now, but can still be updated.
            flags[i, IS_TOTAL] = 1
            flags[i, IS_STALE] = 1
            frames.shares[i, 0] = _share(doubled, i, layout[i, N_IN], scale, axes)
            frames.shares[i, 1] *= shrinking
        else:
            flags[i, N_UPDATES] = 0
    # Composed from these floats the next scores are known better than by an update.
    flags[layer + 1, N_UPDATES] = 0
    return not is_known


@numba.njit(cache=True, _nrt=False)
def _share(doubled: FloatArray, layer: int, n: int, scale: float, axes: Axes) -> float:
    """Return what the radii of scores composed from a stream, rounded, would be proportional to."""
    total = 0.0
    for j in range(n):
        total += size_of(doubled, layer, j, scale, axes)
    return float(total * (kappa_of(n) + U))


@numba.njit(cache=True, _nrt=False)
def _compose_scores(
    tables: Tables, frames: Frames, doubled: FloatArray, layer: int, axes: Axes
) -> None:
    """Write the doubled scores of a layer from the doubled stream before it."""
    layout = tables.layout
    n_query, scores = layout[layer, N_QUERY], layout.shape[0] + layer
    query = scores if layout[layer, IS_RELU] == 1 else doubled.shape[0] - 2
    if layout[layer, QUERY_IS_IDENTITY] == 1:
        _copy_block(doubled, layer, query, n_query)
    else:
        compose_doubled(
            doubled, layer, layout[layer, N_IN], tables.numbers,
            layout[layer, AT_QUERY], layout[layer, AT_QUERY_BIAS], n_query, query,
            tables.scale[0], frames.order, axes,
        )  # fmt: skip
    if layout[layer, IS_RELU] == 0:
        compose_doubled(
            doubled, query, n_query, tables.numbers, layout[layer, AT_SLOPES],
            layout[layer, AT_OFFSETS], layout[layer, N_FORMS], scores, tables.scale[0],
            frames.order, axes,
        )  # fmt: skip


@numba.njit(cache=True, _nrt=False)
def _compose_stream(
    tables: Tables, frames: Frames, doubled: FloatArray, after: int, axes: Axes
) -> None:
    """Write the doubled stream before a layer from the doubled scores of the one before."""
    layout, layer = tables.layout, after - 1
    is_identity = layout[layer, OUTPUT_IS_IDENTITY] == 1
    y = after if is_identity else doubled.shape[0] - 2
    _gather(tables, frames, doubled, layer, y, axes)
    if not is_identity:
        compose_doubled(
            doubled, y, layout[layer, N_Y], tables.numbers, layout[layer, AT_OUTPUT],
            layout[layer, AT_OUTPUT_BIAS], layout[layer, N_OUT], after, tables.scale[0],
            frames.order, axes,
        )  # fmt: skip
    if layout[layer, RESIDUAL] == 1:
        for i in range(layout[layer, N_OUT]):
            add_doubled(doubled, after, i, layer, i, 1.0, 0.0, tables.scale[0], axes)


@numba.njit(cache=True, _nrt=False)
def _gather(
    tables: Tables, frames: Frames, doubled: FloatArray, layer: int, y: int, axes: Axes
) -> None:
    """Add up what the winners of a layer contribute."""
    layout = tables.layout
    first, scores = layout[layer, FIRST_GROUP], layout.shape[0] + layer
    merged = frames.flags[layer, IS_MERGED] == 1
    gains = frames.gains if merged else tables.gains
    values = frames.values if merged else tables.values
    for k in range(doubled.shape[1]):
        for i in range(layout[layer, N_Y]):
            doubled[y, k, i] = 0.0
    for g in range(layout[layer, N_GROUPS]):
        winner = frames.signature[first + g]
        if layout[layer, IS_RELU] == 1:
            for k in range(doubled.shape[1] if winner == 1 else 0):
                doubled[y, k, g] = doubled[scores, k, g]
            continue
        j = tables.indices[layout[layer, AT_STARTS] + g] + winner
        slot = tables.indices[layout[layer, AT_SLOTS] + g]
        gain, gain_radius = gains[layer, 0, j], gains[layer, 1, j]
        if gain != 0.0 or gain_radius != 0.0:
            add_doubled(doubled, y, slot, scores, j, gain, gain_radius, tables.scale[0], axes)
        for k in range(layout[layer, WIDTH]):
            add_value(doubled, y, slot + k, values[layer, 0, j, k], values[layer, 1, j, k], axes)


@numba.njit(cache=True, _nrt=False)
def _copy_block(doubled: FloatArray, source: int, to: int, n: int) -> None:
    for k in range(doubled.shape[1]):
        for i in range(n):
            doubled[to, k, i] = doubled[source, k, i]


@numba.njit(cache=True, _nrt=False)
def _adopt_exact(doubled: FloatArray, blocks: FloatArray, b: int, n: int, axes: Axes) -> None:
    """Take over the forms of a block that are floats exactly."""
    dim = len(axes)
    for i in range(n):
        if blocks[b, dim + 1, i] == 0.0:
            for k in range(dim + 1):
                doubled[b, k, i] = blocks[b, k, i]
                doubled[b, dim + 1 + k, i] = 0.0
            doubled[b, 2 * dim + 2, i] = 0.0


@numba.njit(cache=True, _nrt=False)
def _replace(
    doubled: FloatArray, blocks: FloatArray, b: int, n: int, scale: float, axes: Axes
) -> float:
    """Replace the forms of a block that are known better in twice the precision.

    Returns by which factor the largest radius has shrunk.
    """
    dim = len(axes)
    before = 0.0
    after = 0.0
    for i in range(n):
        rest = abs(doubled[b, 2 * dim + 1, i])
        for k in range(dim):
            rest = max(rest, scale * abs(doubled[b, dim + 1 + k, i]))
        radius = (rest + doubled[b, 2 * dim + 2, i]) * UP
        before = max(before, blocks[b, dim + 1, i])
        if radius < blocks[b, dim + 1, i]:
            for k in range(dim + 1):
                blocks[b, k, i] = doubled[b, k, i]
            blocks[b, dim + 1, i] = radius
        after = max(after, blocks[b, dim + 1, i])
    return after / before if before > 0.0 else 1.0
