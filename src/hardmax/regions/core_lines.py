"""Lines searched by the core, interval by interval.

Transformers and maxout networks are searched so, and ReLU networks where coincidences would send
many intervals of `rectified_lines` to integers. The core finds the cells in the order of their
signatures; their ends, as far as their radii tell, put them into that of the line.
"""

from typing import Any

import numpy as np

from hardmax.errors import Interrupted
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.models.enclosures import Enclosed
from hardmax.regions import spatial
from hardmax.regions.cells import CellArrays
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.regions.line_intervals import Points
from hardmax.regions.line_search import LineSearch
from hardmax.regions.line_signatures import WalkRecorder
from hardmax.regions.lines import LineCells, counted
from hardmax.typing import AnyArray, FloatArray


def count(network: ArgmaxNetwork, line: ChartedDomain, **limits: Any) -> LineCells:
    """Count the cells along a line; takes `count_only` and the limits of `spatial.explore`.

    Raises:
        Interrupted: On Ctrl-C, with the count so far.
    """

    def along(found: CellArrays) -> LineCells:
        search = LineSearch(network, line, decisions=found.decisions)
        return counted(search, found.is_complete, found.n_counted)

    try:
        return along(spatial.explore(network, line, **limits))
    except Interrupted as stop:
        raise Interrupted(str(stop), along(stop.partial)) from None


def explore(network: ArgmaxNetwork, line: ChartedDomain) -> LineCells | None:
    """Find the cells along a line, from left to right.

    None if a cell is so short that the radii of its ends do not tell its place.

    Raises:
        KeyboardInterrupt: On Ctrl-C: some cells, here and there, are no result.
    """
    try:
        found = spatial.explore(network, line)
    except Interrupted:
        raise KeyboardInterrupt from None
    assert found.maps is not None
    assert found.map_radii is not None
    assert found.facets is not None
    ends, blurs = _ends(found), found.facets.blurs[:, 0]
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    ends, blurs = ends[order], blurs[order]
    # Cells do not overlap, so their left ends put them into order.
    gaps = np.diff(ends[:, 0])
    if not (gaps > (blurs[1:] + blurs[:-1]) * (1.0 + 2.0**-40) + 2.0**-1000).all():
        return None
    search = LineSearch(network, line)
    signatures = found.signatures[order].astype(search.winner_type)
    recorder = WalkRecorder(network.n_groups, search.winner_type)
    recorder.add(signatures)
    unbounded = np.isinf(ends)
    cells = CellArrays(
        signatures=signatures[:0],
        is_complete=True,
        decisions=found.decisions,
        maps=found.maps[order],
        map_radii=found.map_radii[order],
        vertices=np.where(unbounded, 0.0, ends).reshape(-1, 1),
        starts=np.arange(0, 2 * len(order) + 1, 2),
        n_counted=len(order),
        directions=np.where(unbounded, np.sign(ends), 0.0).reshape(-1, 1),
    )
    return LineCells(search, cells, recorder.walk(), _named_ends(search, signatures, ends, blurs))


def _ends(found: CellArrays) -> FloatArray:
    """The left and right end of each cell, shape `(n_cells, 2)`."""
    assert found.vertices is not None
    along = found.vertices[:, 0].copy()
    if found.directions is not None:
        ways = found.directions[:, 0]
        along[ways != 0.0] = np.copysign(np.inf, ways[ways != 0.0])
    return np.sort(along.reshape(-1, 2), axis=1)


def _named_ends(
    search: LineSearch, signatures: AnyArray, ends: FloatArray, blurs: FloatArray
) -> Points:
    """The left ends and the last right end, each named by the first decision that changes there."""
    names = np.full((len(ends) + 1, 3), -1)
    values = np.full(len(ends) + 1, None)
    values[0], values[-1] = search.outer_ends
    if len(ends) > 1:
        changed = (signatures[1:] != signatures[:-1]).argmax(axis=1)
        cells = np.arange(len(ends) - 1)
        layers = search.network.layers
        layer = np.repeat(np.arange(len(layers)), [one.n_groups for one in layers])[changed]
        first_form = np.concatenate([one.starts[:-1] for one in layers])[changed]
        names[1:-1, 0] = layer
        names[1:-1, 1] = first_form + signatures[cells, changed]
        names[1:-1, 2] = first_form + signatures[cells + 1, changed]
    where = np.append(ends[:, 0], ends[-1:, 1])
    radii = np.append(blurs, blurs[-1:])
    radii[np.isinf(where)] = 0.0
    return Points(Enclosed(where, radii), names, values)
