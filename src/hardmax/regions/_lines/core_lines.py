"""Cells on a line that the core found, put into the order of the line.

Transformers and maxout networks are searched by the core, interval by interval, and ReLU networks
where coincidences would send many intervals of `rectified_lines` to integers. Cells come in the
order of their signatures.
"""

from fractions import Fraction

import numpy as np

from hardmax.models._arithmetic.enclosures import Enclosed
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._lines.line_intervals import Points
from hardmax.regions._lines.line_search import LineSearch
from hardmax.regions._lines.line_signatures import WalkRecorder
from hardmax.regions._lines.lines import LineCells
from hardmax.regions._measures.line import interval_ends
from hardmax.regions.cell_arrays import CellArrays
from hardmax.regions.charted_domains import ChartedDomain
from hardmax.typing import AnyArray, IntArray


def ordered_cells(network: ArgmaxNetwork, line: ChartedDomain, found: CellArrays) -> LineCells:
    """Return all cells along a line from left to right.

    Args:
        network: The network.
        line: The domain.
        found: All of its cells, as the core stores them.
    """
    assert found.maps is not None
    assert found.map_radii is not None
    search = LineSearch(network, line, decisions=found.decisions)
    left, right = interval_ends(found)
    order = _order(search, found, left)
    signatures = found.signatures[order].astype(search.winner_type)
    recorder = WalkRecorder(network.n_groups, search.winner_type)
    recorder.add(signatures)
    where = Enclosed(
        *(np.append(a[order], b[order[-1:]]) for a, b in zip(left, right, strict=True))
    )
    ends = np.column_stack([left.values, right.values])[order]
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
    names, values = _names(search, signatures)
    return LineCells(search, cells, recorder.walk(), Points(where, names, values))


@np.errstate(over="ignore", under="ignore")
def _order(search: LineSearch, found: CellArrays, left: Enclosed) -> IntArray:
    """Sort cells by their left ends: floats where their radii tell, else exact numbers."""
    order = np.argsort(left.values, kind="stable")
    ends, radii = left.values[order], left.radii[order]
    highest = np.maximum.accumulate(np.nextafter(ends + radii, np.inf))
    lowest = np.minimum.accumulate(np.nextafter(ends - radii, -np.inf)[::-1])[::-1]
    bounds = np.flatnonzero(highest[:-1] < lowest[1:]) + 1
    for run in np.split(np.arange(len(order)), bounds):
        if len(run) > 1:
            starts = {int(i): _exact_start(search, found, int(i)) for i in order[run]}
            order[run] = sorted(starts, key=starts.__getitem__)
    return order


def _exact_start(search: LineSearch, found: CellArrays, cell: int) -> Fraction | float:
    """Return the left end of a cell."""
    assert found.facets is not None
    layers = search.network.layers
    places = [(i, layer.starts[g]) for i, layer in enumerate(layers) for g in range(layer.n_groups)]
    signature = found.signatures[cell].astype(search.winner_type)
    first, last = found.facets.starts[cell : cell + 2]
    for group, rival in found.facets.facets[first:last].tolist():
        layer, form = places[group]
        rows = search.exact_layer(layer, signature)[1].rows
        (m, c), (n, d) = rows[form + int(signature[group])], rows[form + rival]
        # The form of the winner, less that of the rival, is positive inside.
        if m > n:
            return Fraction(int(d - c), int(m - n))
    outer = search.outer_ends[0]
    return -np.inf if outer is None else outer


def _names(search: LineSearch, signatures: AnyArray) -> tuple[IntArray, AnyArray]:
    """Name each end by the first decision that changes there; return what is known exactly too."""
    n = len(signatures)
    names, values = np.full((n + 1, 3), -1), np.full(n + 1, None)
    values[0], values[-1] = search.outer_ends
    if n > 1:
        changed = (signatures[1:] != signatures[:-1]).argmax(axis=1)
        cells = np.arange(n - 1)
        layers = search.network.layers
        layer = np.repeat(np.arange(len(layers)), [one.n_groups for one in layers])[changed]
        first_form = np.concatenate([one.starts[:-1] for one in layers])[changed]
        names[1:-1, 0] = layer
        names[1:-1, 1] = first_form + signatures[cells, changed]
        names[1:-1, 2] = first_form + signatures[cells + 1, changed]
    return names, values
