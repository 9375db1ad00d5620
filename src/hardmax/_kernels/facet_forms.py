r"""The forms of facets, recomposed from signatures cell by cell. No checks: see callers.

Cells come in the order of the search, so that a cell shares most layers with the one before it;
only the layers whose winners before them have changed are composed again. Where forms of a group
coincide on a cell and a mean is passed on, the caller has to leave the cell out.

A form is a row of slopes, the offset, the radius of a slope and that of the offset.
"""

import numba

from hardmax._kernels.composition import compose_output, compose_scores
from hardmax._kernels.layouts import AT_STARTS, FIRST_GROUP, IS_RELU, N_GROUPS, Tables
from hardmax._kernels.spatial_buffers import Frames
from hardmax._kernels.spatial_vertices import TINY, UP
from hardmax.typing import AnyArray, BoolArray, FloatArray, IntArray


@numba.njit(cache=True, _nrt=False)
def facet_forms_into(
    tables: Tables,
    frames: Frames,
    signatures: AnyArray,
    starts: IntArray,
    facets: IntArray,
    layer_of: IntArray,
    is_wanted: BoolArray,
    forms: FloatArray,
) -> None:
    """Write the forms of the facets of some cells, positive inside.

    Args:
        tables: The network.
        frames: Holds the stream before the first layer; overwritten.
        signatures: `(n_cells, n_groups)`.
        starts: `(n_cells + 1,)`: where the facets of each cell begin.
        facets: `(n_facets, 3)`: as in `CellFacets`.
        layer_of: `(n_groups,)`.
        is_wanted: `(n_cells,)`: the cells to look at.
        forms: `(n_facets, d + 3)`: written where wanted.
    """
    layout, signature = tables.layout, frames.signature
    # The scores of the layers up to here are those that follow from the winners kept.
    known = -1
    for cell in range(signatures.shape[0]):
        if not is_wanted[cell]:
            continue
        deepest = 0
        for f in range(starts[cell], starts[cell + 1]):
            deepest = max(deepest, layer_of[facets[f, 1]])
        if known < 0:
            compose_scores(tables, frames, 0, frames.axes)
            known = 0
        valid = 0
        while valid < known and _agrees(layout, signature, signatures, cell, valid):
            valid += 1
        for layer in range(valid, deepest):
            first = layout[layer, FIRST_GROUP]
            for g in range(first, first + layout[layer, N_GROUPS]):
                signature[g] = signatures[cell, g]
            compose_output(tables, frames, layer, frames.axes)
            compose_scores(tables, frames, layer + 1, frames.axes)
        known = max(valid, deepest)
        for f in range(starts[cell], starts[cell + 1]):
            _write_form(tables, frames, signatures, cell, facets, f, layer_of, forms)


@numba.njit(cache=True, _nrt=False)
def _agrees(
    layout: IntArray, signature: IntArray, signatures: AnyArray, cell: int, layer: int
) -> bool:
    """Say whether a cell has the winners of a layer that are kept."""
    first = layout[layer, FIRST_GROUP]
    for g in range(first, first + layout[layer, N_GROUPS]):
        if signature[g] != signatures[cell, g]:
            return False
    return True


@numba.njit(cache=True, _nrt=False)
def _write_form(
    tables: Tables,
    frames: Frames,
    signatures: AnyArray,
    cell: int,
    facets: IntArray,
    f: int,
    layer_of: IntArray,
    forms: FloatArray,
) -> None:
    """Write winner less rival, with radii for what was rounded before and is rounded here."""
    layout, blocks = tables.layout, frames.blocks
    dim = forms.shape[1] - 3
    group, rival = facets[f, 1], facets[f, 2]
    layer = layer_of[group]
    winner = signatures[cell, group]
    place = group - layout[layer, FIRST_GROUP]
    block = layout.shape[0] + layer
    largest = 0.0
    if layout[layer, IS_RELU] == 1:
        radius = blocks[block, dim + 1, place]
        for k in range(dim + 1):
            a = blocks[block, k, place]
            forms[f, k] = a if winner > rival else -a
    else:
        first = tables.indices[layout[layer, AT_STARTS] + place]
        plus, minus = first + winner, first + rival
        radius = blocks[block, dim + 1, plus] + blocks[block, dim + 1, minus]
        for k in range(dim + 1):
            forms[f, k] = blocks[block, k, plus] - blocks[block, k, minus]
        largest = abs(forms[f, dim])
        radius += 2.0**-52 * largest
        largest = 0.0
        for k in range(dim):
            largest = max(largest, abs(forms[f, k]))
    forms[f, dim + 1] = (radius / tables.scale[0] + 2.0**-52 * largest) * UP + TINY
    forms[f, dim + 2] = radius * UP + TINY
