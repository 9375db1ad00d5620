"""Partitions of a model's input space: cells coloured by region, walls styled by layer and head."""

from itertools import pairwise
from typing import Any

import numpy as np

from hardmax._ground.arguments import choice
from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box
from hardmax.geometry.polytopes import Polytope
from hardmax.plotting.diagrams import default_box, fill_solids
from hardmax.plotting.dispatch import plot
from hardmax.plotting.style import PALETTE, WALL, cell_colours, new_axes
from hardmax.regions.partition import Partition
from hardmax.typing import FloatArray, IntArray

_FAR = 1e6
"""Vertices at infinity are drawn this many box sizes away; the axes cut them off."""
_MOST_LEGEND_ENTRIES = 10


@plot.register
def plot_partition(
    partition: Partition,
    ax: Any = None,
    *,
    colour: str = "region",
    box: Box | None = None,
    walls: bool = True,
    legend: bool = False,
) -> Any:
    """Draw the cells of a model on a domain of dimension 2 or 3.

    Args:
        partition: The partition; one that stopped early is drawn as far as it is known.
        ax: Axes, 3-D ones in space.
        colour: What gets one colour: a `"region"` (connected, one affine map), an affine `"map"`,
            or a `"cell"`.
        box: What to show, in the domain's coordinates. By default all of a bounded domain, and
            every vertex of an unbounded one.
        walls: Whether to draw the walls: a line for every edge, thinner from layer to layer, those
            of an attention head in the head's colour.
        legend: Whether to say which walls are whose, if they are not too many.
    """
    if not partition.n_found:
        raise ArgumentError("`obj` must have a cell to be drawn; this search stopped before any.")
    labels = _labels(partition, choice("colour", colour, ("region", "map", "cell")))
    dim = partition.domain.dim
    if dim == 3:
        return _draw_solids(partition, ax, cell_colours(labels), box)
    if dim != 2:
        raise ArgumentError(
            f"`obj` must be a partition of dimension 2 or 3 to be drawn; got {dim}. Take a `Slice`."
        )
    ax = new_axes(2) if ax is None else ax
    corners, starts = _corners(partition, box)
    ax.add_collection(_polygons(corners, starts, cell_colours(labels)))
    if walls and partition.cells.walls is not None:
        _draw_walls(partition, ax, corners, starts, legend)
    window = _window(partition) if box is None else box
    ax.set_xlim(window.low[0], window.high[0])
    ax.set_ylim(window.low[1], window.high[1])
    ax.set_aspect("equal")
    return ax


def _labels(partition: Partition, colour: str) -> IntArray:
    if colour == "region":
        return partition.region_labels
    return partition.map_classes if colour == "map" else np.arange(partition.n_found)


def _corners(partition: Partition, box: Box | None) -> tuple[FloatArray, IntArray]:
    """Return all polygon corners and where each cell's begin, infinity made finite."""
    cells = partition.cells
    window = _window(partition) if box is None else box
    if cells.vertices is None or cells.starts is None:
        polygons = [_shown_part(partition.polytope(i), window) for i in range(partition.n_found)]
        starts = np.cumsum([0, *(len(p) for p in polygons)])
        return np.concatenate(polygons), starts
    if cells.directions is None:
        return cells.vertices, cells.starts
    reach = _FAR * float((window.high - window.low).max())
    return cells.vertices + reach * cells.directions, cells.starts


def _shown_part(cell: Polytope, window: Box) -> FloatArray:
    """Return the corners of a cell, of an unbounded one as far as the window shows it."""
    part = cell if cell.is_bounded else cell.intersection(window)
    return part.polygon if part.dim == 2 else np.zeros((0, 2))


def _window(partition: Partition) -> Box:
    """Return a box round the vertices that are not at infinity."""
    cells = partition.cells
    if cells.vertices is None:
        polytopes = [partition.polytope(i) for i in range(partition.n_found)]
        corners = [cell.vertices for cell in polytopes if not len(cell.lineality)]
        vertices = np.concatenate([np.zeros((0, 2)), *corners])
        if all(cell.is_bounded for cell in polytopes):
            return Box(vertices.min(axis=0), vertices.max(axis=0))
        return default_box(
            vertices if len(vertices) else np.zeros((1, 2)), with_origin=not len(vertices)
        )
    if cells.directions is None:
        return Box(cells.vertices.min(axis=0), cells.vertices.max(axis=0))
    finite = cells.vertices[~cells.directions.any(axis=1)]
    return default_box(finite if len(finite) else np.zeros((1, 2)), with_origin=not len(finite))


def _polygons(corners: FloatArray, starts: IntArray, colours: FloatArray) -> Any:
    from matplotlib.collections import PolyCollection

    cells = [corners[a:b] for a, b in pairwise(starts)]
    # A hairline in the cell's own colour closes the gaps that antialiasing leaves.
    return PolyCollection(cells, facecolors=colours, edgecolors=colours, linewidths=0.2)


def _draw_walls(
    partition: Partition, ax: Any, corners: FloatArray, starts: IntArray, legend: bool
) -> None:
    from matplotlib.collections import LineCollection

    following = np.arange(len(corners)) + 1
    following[starts[1:] - 1] = starts[:-1]
    edges = np.stack([corners, corners[following]], axis=1)
    owners = partition.cells.walls
    assert owners is not None
    handles = []
    for layer_index, layer in enumerate(partition.network.layers):
        width = max(1.5 * 0.6**layer_index, 0.25)
        mine = owners[:, 0] == layer_index
        heads = range(layer.n_groups) if layer.is_table.all() else [-1]
        for head in heads:
            shown = mine if head < 0 else mine & (owners[:, 1] == head)
            if shown.any():
                colour = WALL if head < 0 else PALETTE[(head + 4) % len(PALETTE)]
                name = f"layer {layer_index + 1}" + ("" if head < 0 else f", head {head + 1}")
                lines = LineCollection(edges[shown], colors=colour, linewidths=width, label=name)
                handles.append(ax.add_collection(lines))
    if legend and len(handles) <= _MOST_LEGEND_ENTRIES:
        ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _draw_solids(partition: Partition, ax: Any, colours: FloatArray, box: Box | None) -> Any:
    ax = new_axes(3) if ax is None else ax
    cells = [partition.polytope(i) for i in range(partition.n_found)]
    if box is None:
        if not all(cell.is_bounded for cell in cells):
            raise ArgumentError("`box` must say what to show of an unbounded partition in space.")
        vertices = np.concatenate([cell.vertices for cell in cells])
        box = Box(vertices.min(axis=0), vertices.max(axis=0))
    clipped = [cell.intersection(box) for cell in cells]
    shown = [i for i, cell in enumerate(clipped) if cell.dim == 3]
    fill_solids(ax, [clipped[i] for i in shown], colours[shown], box)
    return ax
