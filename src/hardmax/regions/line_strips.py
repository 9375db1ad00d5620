r"""A line as a strip of the plane: breakpoints by the planar engine.

The cells of a model along a line, times $[0, 1]$, are the cells of the model on the strip
$\{(t, y) : 0 \le y \le 1\}$ where it ignores $y$. The planar engine settles degenerate models in
compiled code, so narrow networks are searched there. It finds the cells in another order; rounded
ends suggest the right one, and the signatures at the middles of the cells, found exactly, prove it.
"""

from typing import Any

import numpy as np

from hardmax.errors import Interrupted
from hardmax.geometry.integer_vectors import wide_rows
from hardmax.models.affine_maps import AffineMap
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.models.enclosures import Enclosed
from hardmax.models.evaluation import signature
from hardmax.regions import planar
from hardmax.regions.cells import CellArrays
from hardmax.regions.charted_domains import ChartedDomain, charted_network
from hardmax.regions.line_intervals import Points
from hardmax.regions.line_search import LineSearch
from hardmax.regions.line_signatures import WalkRecorder
from hardmax.regions.lines import LineCells, counted
from hardmax.typing import AnyArray, FloatArray


def count(network: ArgmaxNetwork, line: ChartedDomain, **limits: Any) -> LineCells:
    """Count the cells along a line; takes `count_only` and the limits of `planar.explore`.

    Raises:
        Interrupted: On Ctrl-C, with the count so far.
    """

    def along(found: CellArrays) -> LineCells:
        search = LineSearch(network, line, decisions=found.decisions)
        return counted(search, found.is_complete, found.n_counted)

    try:
        return along(planar.explore(network, _strip(line), **limits))
    except Interrupted as stop:
        raise Interrupted(str(stop), along(stop.partial)) from None


def explore(network: ArgmaxNetwork, line: ChartedDomain) -> LineCells | None:
    """Find the cells along a line, from left to right.

    None if a cell is so short that floats do not know its place.

    Raises:
        KeyboardInterrupt: On Ctrl-C: some cells, here and there, are no result.
    """
    try:
        found = planar.explore(network, _strip(line))
    except Interrupted:
        raise KeyboardInterrupt from None
    assert found.maps is not None
    assert found.map_radii is not None
    ends = _ends(found)
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    ends = ends[order]
    search = LineSearch(network, line)
    signatures = found.signatures[order].astype(search.winner_type)
    middles = _middles(ends)
    if not ((np.diff(middles) > 0.0).all() and _lie_in(network, line, middles, signatures)):
        return None
    recorder = WalkRecorder(network.n_groups, search.winner_type)
    recorder.add(signatures)
    unbounded = np.isinf(ends)
    cells = CellArrays(
        signatures=signatures[:0],
        is_complete=True,
        decisions=found.decisions,
        maps=found.maps[order][:, [0, 2]],
        map_radii=found.map_radii[order],
        vertices=np.where(unbounded, 0.0, ends).reshape(-1, 1),
        starts=np.arange(0, 2 * len(order) + 1, 2),
        n_counted=len(order),
        directions=np.where(unbounded, np.sign(ends), 0.0).reshape(-1, 1),
    )
    return LineCells(search, cells, recorder.walk(), _named_ends(search, signatures, ends))


def _strip(line: ChartedDomain) -> ChartedDomain:
    """The product of a line with the unit interval."""
    weight = np.vstack([line.chart.weight, np.zeros(line.ambient_dim)])
    rows = [(a, 0, b) for a, b in line.exact_rows.tolist()]
    return ChartedDomain(
        2,
        line.ambient_dim,
        wide_rows([*rows, (0, 1, 1), (0, -1, 0)], 3),
        AffineMap(weight, line.chart.bias),
        (AffineMap(np.array([[1.0], [0.0]]), np.zeros(1)), *line.stages),
    )


def _ends(found: CellArrays) -> FloatArray:
    """The left and right end of each cell, shape `(n_cells, 2)`."""
    assert found.vertices is not None
    assert found.starts is not None
    along = found.vertices[:, 0].copy()
    if found.directions is not None:
        ways = found.directions[:, 0]
        along[ways != 0.0] = np.copysign(np.inf, ways[ways != 0.0])
    first = found.starts[:-1]
    return np.stack([np.minimum.reduceat(along, first), np.maximum.reduceat(along, first)], axis=1)


def _middles(ends: FloatArray) -> FloatArray:
    """A point between the two ends of each cell, as far as floats can tell."""
    low, high = ends.T
    with np.errstate(invalid="ignore"):
        middles = 0.5 * low + 0.5 * high
        middles = np.where(np.isinf(low), high - np.maximum(1.0, np.abs(high)), middles)
        middles = np.where(np.isinf(high), low + np.maximum(1.0, np.abs(low)), middles)
    return np.where(np.isinf(low) & np.isinf(high), 0.0, middles)


def _lie_in(
    network: ArgmaxNetwork, line: ChartedDomain, points: FloatArray, signatures: AnyArray
) -> bool:
    """Whether each point of the line has the signature given for it."""
    along, n_before = charted_network(network, line)
    return np.array_equal(signature(along, points[:, None])[:, n_before:], signatures)


def _named_ends(search: LineSearch, signatures: AnyArray, ends: FloatArray) -> Points:
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
    return Points(Enclosed(where, np.full(len(where), np.inf)), names, values)
