"""Draw graph networks on a segment or a plane: outputs, cells and the decision boundary."""

from typing import Any

import numpy as np

from hardmax._ground import palette
from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box
from hardmax.plotting.dispatch import draw
from hardmax.plotting.intervals import Graphs, Walls, draw_intervals, merge_runs
from hardmax.plotting.partitions import (
    draw_polygons,
    fit_lines,
    max_wall_widths,
    polygon_areas,
    polygon_edges,
)
from hardmax.plotting.style import (
    create_axes,
    current_theme,
    name_axes,
    place_legend_beside,
    theme_colour,
)
from hardmax.regions.graph_partitions import GraphPartition
from hardmax.typing import FloatArray

_WALL, _DECISION = 0.6, 1.8
"""The widths of walls and of the decision boundary, in points."""


@draw.register
def plot_graph_partition(
    partition: GraphPartition,
    ax: Any = None,
    *,
    names: list[str] | None = None,
    walls: bool = True,
    legend: bool | None = None,
) -> Any:
    """Draw a network of any shape on a segment or a planar slice, with its decision boundary.

    The class determines the hue of a piece, and the rest of its signature the shade. In the plane,
    the decision boundary is the thick line. On a segment, the pieces are a strip below the graphs
    of the outputs, with a band that shows the largest output. Of more than ten outputs, only ten
    are drawn: those that are the largest somewhere, then those that vary most.

    Args:
        partition: The complete partition of a `GraphNetwork`.
        ax: Axes.
        names: The names of the outputs.
        walls: Whether to draw the walls between cells.
        legend: Whether to draw a legend of the classes. The default is True if the axes are new.
    """
    n_outputs = partition.network.dim_out
    names = [f"output {k}" for k in range(n_outputs)] if names is None else list(names)
    if len(names) != n_outputs:
        raise ArgumentError(f"`names` must have {n_outputs} entries; got {len(names)}.")
    legend = ax is None if legend is None else legend
    ax = create_axes(partition.domain.dim) if ax is None else ax
    draw = _draw_plane if partition.domain.dim == 2 else _draw_segment
    handles = draw(partition, ax, names, walls)
    if legend:
        place_legend_beside(ax, handles)
    return ax


def _draw_plane(partition: GraphPartition, ax: Any, names: list[str], walls: bool) -> list[Any]:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    classes, polygons = partition.classes, partition.polygons
    colours = _piece_colours(partition)
    corners, starts = partition.found.vertices, partition.found.starts
    window = Box(corners.min(axis=0), corners.max(axis=0))
    ax.set_xlim(window.low[0], window.high[0])
    ax.set_ylim(window.low[1], window.high[1])
    ax.set_aspect("equal")
    lines = []
    if walls:
        ends = polygon_edges(corners, starts)
        sizes = np.repeat(np.sqrt(polygon_areas(ends, starts)), np.diff(starts))
        ink = np.tile(to_rgb(theme_colour("wall")), (len(ends), 1))
        lines.append(fit_lines(ends, ink, max_wall_widths(ax, window, sizes), _WALL))
    draw_polygons(ax, polygons, colours, lines, window)
    boundary = list(partition.decision_boundary)
    ax.add_collection(LineCollection(boundary, colors=theme_colour("ink"), linewidths=_DECISION))
    name_axes(ax, "t" if partition.domain.stages else "x")
    shown, first = np.unique(classes, return_index=True)
    return [Patch(fc=colours[i], label=names[k]) for k, i in zip(shown, first, strict=True)]


def _draw_segment(partition: GraphPartition, ax: Any, names: list[str], walls: bool) -> list[Any]:
    from matplotlib.colors import to_rgb

    # Each piece has two ends, which are consecutive vertices.
    ends = np.append(partition.found.vertices[::2, 0], partition.found.vertices[-1, 0])
    n = len(ends) - 2
    ink = np.tile(to_rgb(theme_colour("wall")), (n, 1))
    marked = Walls(ends[1:-1], np.zeros(n, np.int64), ink, np.full(n, _WALL))
    largest = merge_runs(ends, partition.classes) if len(names) > 1 else None
    graphs = Graphs(partition.maps, names, largest)
    window = float(ends[0]), float(ends[-1])
    return draw_intervals(
        ax, ends, _piece_colours(partition), window, marked if walls else None, graphs
    )


def _piece_colours(partition: GraphPartition) -> FloatArray:
    """Return the colour of each piece: the hue by class, the shade by the rest of the signature."""
    winners = np.column_stack([partition.classes, partition.signatures])
    return palette.cell_colours(winners, [1, winners.shape[1] - 1], current_theme())
