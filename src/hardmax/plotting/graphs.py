"""Networks of any shape on a segment or a plane: outputs, cells and the decision boundary."""

from typing import Any

import numpy as np

from hardmax._ground import palette
from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box
from hardmax.plotting.dispatch import plot
from hardmax.plotting.partitions import (
    areas_of,
    draw_polygons,
    edges_of,
    lines_with_room,
    room_for_walls,
)
from hardmax.plotting.style import (
    current_theme,
    legend_beside,
    name_axes,
    new_axes,
    series_colours,
    tone,
)
from hardmax.regions.graph_partitions import GraphPartition

_MOST_OUTPUTS = 10
_WALL, _DECISION = 0.6, 1.8
"""How wide walls and the decision boundary are, in points."""


@plot.register
def plot_graph_partition(
    partition: GraphPartition,
    ax: Any = None,
    *,
    names: list[str] | None = None,
    walls: bool = True,
    legend: bool | None = None,
) -> Any:
    """Draw a network of any shape on a segment or a planar slice, with its decision boundary.

    In the plane the class gives a piece its hue and the rest of its signature its shade; the
    decision boundary is the thick line. On a segment the outputs are drawn, the first ten of them,
    with ticks where cells meet and lines where the class changes.

    Args:
        partition: The cells of a `GraphNetwork`, all of them.
        ax: Axes.
        names: What to call the outputs, in their order.
        walls: Whether to draw the walls between cells.
        legend: Whether to name the classes; by default where the axes are new.
    """
    n_outputs = partition.network.dim_out
    names = [f"output {k + 1}" for k in range(n_outputs)] if names is None else list(names)
    if len(names) != n_outputs:
        raise ArgumentError(f"`names` must have {n_outputs} entries; got {len(names)}.")
    legend = ax is None if legend is None else legend
    ax = new_axes(2) if ax is None else ax
    draw = _draw_plane if partition.domain.dim == 2 else _draw_segment
    handles = draw(partition, ax, names, walls)
    if legend:
        legend_beside(ax, handles)
    return ax


def _draw_plane(partition: GraphPartition, ax: Any, names: list[str], walls: bool) -> list[Any]:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    classes, polygons = partition.classes, partition.polygons
    winners = np.column_stack([classes, partition.signatures])
    colours = palette.cell_colours(winners, [1, winners.shape[1] - 1], current_theme())
    corners, starts = partition.found.vertices, partition.found.starts
    window = Box(corners.min(axis=0), corners.max(axis=0))
    ax.set_xlim(window.low[0], window.high[0])
    ax.set_ylim(window.low[1], window.high[1])
    ax.set_aspect("equal")
    lines = []
    if walls:
        ends = edges_of(corners, starts)
        sizes = np.repeat(np.sqrt(areas_of(ends, starts)), np.diff(starts))
        ink = np.tile(to_rgb(tone("wall")), (len(ends), 1))
        lines.append(lines_with_room(ends, ink, room_for_walls(ax, window, sizes), _WALL))
    draw_polygons(ax, polygons, colours, lines, window)
    boundary = list(partition.decision_boundary)
    ax.add_collection(LineCollection(boundary, colors=tone("ink"), linewidths=_DECISION))
    name_axes(ax, "t" if partition.domain.stages else "x")
    shown, first = np.unique(classes, return_index=True)
    return [Patch(fc=colours[i], label=names[k]) for k, i in zip(shown, first, strict=True)]


def _draw_segment(partition: GraphPartition, ax: Any, names: list[str], walls: bool) -> list[Any]:
    # A piece has two ends.
    t, maps = partition.found.vertices[:, 0], np.repeat(partition.maps, 2, axis=0)
    values = t[:, np.newaxis] * maps[:, 0] + maps[:, 1]
    colours = series_colours()
    handles = [
        ax.plot(t, values[:, k], color=colours[k % len(colours)], linewidth=1.3, label=names[k])[0]
        for k in range(min(len(names), _MOST_OUTPUTS))
    ]
    for point in partition.decision_boundary[:, 0]:
        ax.axvline(point, color=tone("ink"), linewidth=0.8, linestyle=":", zorder=0.5)
    if walls:
        ax.plot(
            partition.breakpoints, np.zeros(len(t) // 2 - 1), "|", color=tone("soft"), markersize=7,
            transform=ax.get_xaxis_transform(), clip_on=False,
        )  # fmt: skip
    ax.set_xlim(t[0], t[-1])
    ax.set_xlabel("$t$")
    ax.set_ylabel("output")
    return handles
