"""Draw level sets and decision boundaries: lines in the plane, surfaces in space."""

from typing import Any

import numpy as np

from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box, box_around
from hardmax.geometry.polytopes import Polytope
from hardmax.plotting.dispatch import draw
from hardmax.plotting.solids import draw_faces, facet_polygons, frame_axes
from hardmax.plotting.style import create_axes, name_axes, place_legend_beside, theme_colour
from hardmax.plotting.windows import fit_window
from hardmax.regions.level_sets import LevelSet


@draw.register
def plot_level_set(
    levels: LevelSet, ax: Any = None, *, box: Box | None = None, color: Any = None
) -> Any:
    """Draw a level set or a decision boundary in the plane or in space.

    Pieces on which the output has the value are solid. Walls across which the output jumps past the
    value are dashed. Cells on which the output has the value everywhere are filled.

    Args:
        levels: The level set.
        ax: Axes, 3-D axes in space. Pass the axes of a partition to draw on top of it.
        box: The part of unbounded pieces to show. The default is the limits of the given axes, or
            the default window of an unbounded partition.
        color: The colour of lines and surfaces; by default, a colour that no wall has.
    """
    dim = levels.pieces[0].ambient_dim if len(levels) else 2
    if dim not in (2, 3):
        raise ArgumentError(
            f"`obj` must be a level set in dimension 2 or 3 to be drawn; got {dim}."
        )
    window = box if box is not None else _choose_window(levels, ax, dim)
    parts = [piece if piece.is_bounded else piece.intersection(window) for piece in levels.pieces]
    shown = [k for k, part in enumerate(parts) if part.affine_dim >= dim - 1]
    fresh, ax = ax is None, create_axes(dim) if ax is None else ax
    colour = theme_colour("dead") if color is None else color
    if dim == 3:
        for k in shown:
            draw_faces(ax, facet_polygons(parts[k]), colour, 0.8)
        if fresh:
            frame_axes(ax, np.vstack([window.low, window.high]))
            name_axes(ax, "x")
        return ax
    _draw_lines(ax, [parts[k] for k in shown], levels.across[shown] >= 0, colour)
    if fresh:
        ax.set_xlim(window.low[0], window.high[0])
        ax.set_ylim(window.low[1], window.high[1])
        ax.set_aspect("equal")
        name_axes(ax, "x")
    elif ax.get_legend() is not None:
        _add_to_legend(ax, colour)
    return ax


def _draw_lines(ax: Any, parts: list[Polytope], jumps: Any, colour: Any) -> None:
    from matplotlib.collections import LineCollection, PolyCollection

    whole = [part.polygon for part in parts if part.affine_dim == 2]
    ax.add_collection(PolyCollection(whole, facecolors=colour, alpha=0.4, edgecolors="none"))
    for chosen, style in ((~jumps, "solid"), (jumps, "dashed")):
        ends = [
            part.vertices
            for part, mine in zip(parts, chosen, strict=True)
            if mine and part.affine_dim == 1
        ]
        ax.add_collection(LineCollection(ends, colors=colour, linewidths=2.0, linestyles=style))


def _add_to_legend(ax: Any, colour: Any) -> None:
    """Add an entry for the level set to the legend of a partition."""
    from matplotlib.lines import Line2D

    legend = ax.get_legend()
    handles = list(legend.legend_handles)
    for handle, text in zip(handles, legend.get_texts(), strict=True):
        handle.set_label(text.get_text())
    place_legend_beside(
        ax, [*handles, Line2D([], [], color=colour, linewidth=2.0, label="level set")]
    )


def _choose_window(levels: LevelSet, ax: Any, dim: int) -> Box:
    """Return the limits of given axes, a box around bounded pieces, or a default window."""
    if ax is not None:
        limits = [sorted(ax.get_xlim()), sorted(ax.get_ylim())]
        limits += [sorted(ax.get_zlim())] if dim == 3 else []
        low, high = np.array(limits).T
        return Box(low, high)
    corners = [piece.vertices for piece in levels.pieces if not len(piece.lineality)]
    vertices = np.concatenate([np.zeros((0, dim)), *corners])
    if len(levels) and all(piece.is_bounded for piece in levels.pieces):
        return box_around(vertices, with_origin=False)
    return fit_window(vertices if len(vertices) else np.zeros((1, dim)))
