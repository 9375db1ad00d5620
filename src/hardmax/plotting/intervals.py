"""Cells along a line: a strip of coloured intervals below the graphs of the outputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax.plotting.style import series_colours, theme_colour
from hardmax.typing import BoolArray, FloatArray, IntArray

MOST_OUTPUTS = 10
"""The largest number of outputs drawn: those that are the largest somewhere or vary most."""
MOST_NUMBERS = 1 << 26
"""The largest product of cells and outputs for which graphs are drawn."""
_MOST_CELLS, _COLUMNS = 3000, 2000
"""The largest number of cells drawn one by one; and the number of columns that represent more cells
or more points of a graph."""
_STRIP, _BAND, _GAP = 15.0, 5.0, 4.0
"""The heights of the strip of cells, the band of the largest output, and the gaps, in points."""
_LEAST_JUMP = 0.004
"""The smallest jump shown as a jump, as a fraction of the height of the picture."""
_MOST_JUMPS, _MOST_CHANGES = 60, 60
"""The largest numbers of jumps with a dotted line, and of marked changes of the largest output."""
_WALLS_APART, _THINNEST = 12.0, 0.2
"""The smallest ratio of cell size to wall width; the smallest width of a wall that is drawn."""


@dataclass(frozen=True, eq=False)
class Walls:
    """Points on a line where cells meet.

    Attributes:
        places: The coordinates in increasing order, shape `(n,)`.
        depths: The layer that cuts at each point, shape `(n,)`. Walls of earlier layers may be
            wider, because the cells of those layers are larger.
        colours: The colours, shape `(n, 3)`.
        widths: The desired widths in points, shape `(n,)`.
    """

    places: FloatArray
    depths: IntArray
    colours: FloatArray
    widths: FloatArray


@dataclass(frozen=True, eq=False)
class Graphs:
    """Outputs that are affine on each cell of a line.

    Attributes:
        maps: Slopes and offsets, shape `(n, 2, n_outputs)`.
        names: The names of the outputs.
        largest: The largest output, as pieces from left to right: their ends, shape
            `(n_pieces + 1,)`, and the largest output on each, shape `(n_pieces,)`. None to omit
            the band.
    """

    maps: FloatArray
    names: Sequence[str]
    largest: tuple[FloatArray, IntArray] | None = None


def draw_intervals(
    ax: Any,
    ends: FloatArray,
    colours: FloatArray,
    window: tuple[float, float],
    walls: Walls | None = None,
    graphs: Graphs | None = None,
) -> list[Any]:
    """Draw cells along a line as coloured intervals, with the graphs of outputs above them.

    A graph has a gap where an output jumps, with a dotted line across it. A band below the graphs
    shows which output is the largest.

    Args:
        ax: Axes for the graphs; the strip is attached below them.
        ends: The ends of the cells from left to right, shape `(n + 1,)`. The outer ends may be
            infinite.
        colours: The colours of the cells, shape `(n, 3)`.
        window: The part of the line to show.
        walls: The walls to mark.
        graphs: The outputs to draw, or None to draw only the cells.

    Returns:
        The legend handles of the outputs; an empty list if there is only one output.
    """
    low, high = window
    shown = np.flatnonzero((ends[1:] > low) & (ends[:-1] < high))
    ends = np.clip(ends[shown[0] : shown[-1] + 2], low, high)
    handles: list[Any] = []
    strips = 1
    ax.set_xlim(low, high)
    if graphs is not None:
        chosen = choose_outputs(graphs, ends, shown)
        handles = _draw_graphs(ax, ends, graphs.maps[shown], graphs.names, chosen)
        if graphs.largest is not None:
            strips = 2
            _draw_largest(ax, graphs.largest, chosen, window)
    else:
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
    strip = _attach_strip(ax, strips, "cells")
    _fill_intervals(strip, ends, colours[shown], window)
    if walls is not None:
        _draw_walls(ax, strip, walls, window)
    ax.spines["bottom"].set_position(("outward", _strip_depth(strips) + 2.0))
    ax.set_xlabel("$t$")
    ax.set_xlim(low, high)
    return handles


def choose_outputs(graphs: Graphs, ends: FloatArray, shown: IntArray) -> IntArray:
    """Return the outputs to draw: all in order, or the most important ones if there are too many.

    Examples:
        >>> maps = np.zeros((1, 2, 12))
        >>> maps[0, 0, 3], maps[0, 0, 7] = 2.0, -1.0
        >>> names = [str(k) for k in range(12)]
        >>> choose_outputs(Graphs(maps, names), np.array([0.0, 1.0]), np.array([0])).tolist()
        [3, 7, 0, 1, 2, 4, 5, 6, 8, 9]
    """
    n = graphs.maps.shape[2]
    if n <= MOST_OUTPUTS:
        return np.arange(n)
    left, right = values_at_ends(ends, graphs.maps[shown])
    spread = np.maximum(left, right).max(axis=0) - np.minimum(left, right).min(axis=0)
    weight = np.zeros(n)
    if graphs.largest is not None:
        places, winners = graphs.largest
        lengths = np.diff(np.clip(places, ends[0], ends[-1]))
        np.add.at(weight, winners, lengths)
    # Sort by the length on which an output is the largest, then by its variation.
    order = np.lexsort((np.arange(n), -spread, -weight))
    return np.asarray(order[:MOST_OUTPUTS])


def values_at_ends(ends: FloatArray, maps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the outputs at the left and right ends of each cell, each of shape (n, n_outputs)."""
    left, right = (t[:, np.newaxis] * maps[:, 0] + maps[:, 1] for t in (ends[:-1], ends[1:]))
    return left, right


def find_largest_outputs(ends: FloatArray, maps: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the largest output along a line, up to rounding; the first of equal outputs.

    Args:
        ends: The finite ends of the cells, shape `(n + 1,)`.
        maps: Slopes and offsets on each cell, shape `(n, 2, n_outputs)`.

    Returns:
        The ends of the pieces on which one output is the largest, and the output on each piece.

    Examples:
        >>> maps = np.array([[[1.0, -1.0, 0.0], [0.0, 0.0, 0.5]]])
        >>> places, winners = find_largest_outputs(np.array([-2.0, 2.0]), maps)
        >>> places.tolist(), winners.tolist()
        ([-2.0, -0.5, 0.5, 2.0], [1, 2, 0])
    """
    left, right = values_at_ends(ends, maps)
    first, last = _first_maxima(left), _first_maxima(right)
    starts, winners = [ends[:-1]], [first]
    # An output that is the largest at both ends of a cell is the largest on the whole cell.
    cells = np.flatnonzero(first != last)
    place, current = ends[cells].copy(), first[cells]
    while len(cells):
        slopes, offsets = maps[cells, 0], maps[cells, 1]
        rows = np.arange(len(cells))
        steeper = slopes - slopes[rows, current][:, np.newaxis]
        behind = offsets[rows, current][:, np.newaxis] - offsets
        with np.errstate(divide="ignore", invalid="ignore"):
            meets = np.where(steeper > 0.0, behind / steeper, np.inf)
        meets = np.maximum(meets, place[:, np.newaxis])
        # If several outputs meet at one point, the steepest is the largest after it.
        is_next = meets <= meets.min(axis=1, keepdims=True)
        following = np.where(is_next, steeper, -np.inf).argmax(axis=1)
        place = meets[rows, following]
        goes_on = place < ends[cells + 1]
        cells, place, current = cells[goes_on], place[goes_on], following[goes_on]
        starts.append(place)
        winners.append(current)
    all_starts, all_winners = np.concatenate(starts), np.concatenate(winners)
    order = np.argsort(all_starts, kind="stable")
    return merge_runs(np.append(all_starts[order], ends[-1]), all_winners[order])


def merge_runs(places: FloatArray, winners: IntArray) -> tuple[FloatArray, IntArray]:
    """Join neighbouring pieces with equal winners.

    Examples:
        >>> places, winners = merge_runs(np.arange(4.0), np.array([2, 2, 0]))
        >>> places.tolist(), winners.tolist()
        ([0.0, 2.0, 3.0], [2, 0])
    """
    is_new = np.append(True, winners[1:] != winners[:-1])
    return np.append(places[:-1][is_new], places[-1]), winners[is_new]


def _first_maxima(values: FloatArray) -> IntArray:
    """Return the first output that is the largest up to rounding."""
    noise = 2.0**-40 * np.abs(values).max(axis=1, keepdims=True)
    return np.asarray((values >= values.max(axis=1, keepdims=True) - noise).argmax(axis=1))


def _draw_graphs(
    ax: Any, ends: FloatArray, maps: FloatArray, names: Sequence[str], chosen: IntArray
) -> list[Any]:
    """Draw outputs as lines with gaps where they jump."""
    from matplotlib.collections import LineCollection

    left, right = values_at_ends(ends, maps[:, :, chosen])
    values = np.stack([left, right], axis=1).reshape(-1, len(chosen))
    finite = values[np.isfinite(values)]
    height = float(np.ptp(finite)) if len(finite) else 0.0
    places = np.repeat(ends, 2)[1:-1]
    n_outputs = maps.shape[2]
    colours = [theme_colour("ink")] if n_outputs == 1 else _output_colours(len(chosen))
    is_jump = np.abs(left[1:] - right[:-1]) > _LEAST_JUMP * height
    n_jumps = int(is_jump.any(axis=1).sum())
    handles = []
    for k, output in enumerate(chosen.tolist()):
        breaks = np.zeros(len(places), np.bool_)
        breaks[1:-1:2] = is_jump[:, k]
        drawn = thin_graph(places, values[:, k], breaks, (ends[0], ends[-1]))
        style = "solid" if k < len(series_colours()) else (0, (4.0, 1.6))
        (line,) = ax.plot(
            *drawn, color=colours[k], linewidth=1.4, linestyle=style, label=names[output], zorder=3
        )
        handles.append(line)
        if n_jumps <= _MOST_JUMPS:
            at = np.flatnonzero(is_jump[:, k])
            jumps = [[(ends[i + 1], right[i, k]), (ends[i + 1], left[i + 1, k])] for i in at]
            across = {"colors": colours[k], "linewidths": 0.8, "linestyles": [(0, (1.0, 1.8))]}
            ax.add_collection(LineCollection(jumps, **across, zorder=2.5))
    ax.set_ylabel("output" if len(chosen) == n_outputs else f"{len(chosen)} of {n_outputs} outputs")
    in_order = sorted(range(len(chosen)), key=lambda k: chosen[k])
    return [handles[k] for k in in_order] if n_outputs > 1 else []


def thin_graph(
    t: FloatArray, values: FloatArray, breaks: BoolArray, window: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """Return the visible points of a graph, with NaN where it breaks.

    In each of 2000 columns, only the first, last, lowest and highest points are kept. A column of
    pixels cannot show more.

    Args:
        t: The coordinates of the points in increasing order, shape `(n,)`.
        values: The heights of the points, shape `(n,)`.
        breaks: Whether the graph breaks after each point, shape `(n,)`.
        window: The ends of the range that is divided into columns.

    Examples:
        >>> t = np.array([0.0, 1.0, 1.0, 2.0])
        >>> thin_graph(t, t, np.array([False, True, False, False]), (0.0, 2.0))[1].tolist()
        [0.0, 1.0, nan, 1.0, 2.0]
    """
    kept = np.arange(len(t))
    if len(t) > 4 * _COLUMNS:
        column = ((t - window[0]) / (window[1] - window[0]) * _COLUMNS).astype(np.int64)
        firsts = np.flatnonzero(np.append(True, column[1:] != column[:-1]))
        lasts = np.append(firsts[1:], len(t)) - 1
        number = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(t))))
        by_height = np.lexsort((values, number))
        extremes = by_height[firsts], by_height[lasts]
        kept = np.unique(np.concatenate([firsts, lasts, *extremes]))
    # A gap between two kept points is drawn only if no points were dropped between them.
    is_gap = breaks[kept[:-1]] & (np.diff(kept) == 1)
    at = np.flatnonzero(is_gap) + 1
    return np.insert(t[kept], at, np.nan), np.insert(values[kept], at, np.nan)


def _draw_largest(
    ax: Any, largest: tuple[FloatArray, IntArray], chosen: IntArray, window: tuple[float, float]
) -> None:
    """Draw the band of the largest output, and mark the points where it changes."""
    from matplotlib.colors import to_rgb

    places, winners = largest
    colours = np.tile(to_rgb(theme_colour("line")), (int(max(winners.max(), chosen.max())) + 1, 1))
    colours[chosen] = [to_rgb(colour) for colour in _output_colours(len(chosen))]
    _fill_intervals(
        _attach_strip(ax, 1, "largest", _BAND), np.clip(places, *window), colours[winners], window
    )
    if len(places) - 2 <= _MOST_CHANGES:
        for place in places[1:-1]:
            ax.axvline(place, color=theme_colour("soft"), linewidth=0.7, linestyle=":", zorder=1)


def _output_colours(n: int) -> list[str]:
    strong = series_colours()
    return [strong[k % len(strong)] for k in range(n)]


def _strip_depth(n_strips: int) -> float:
    """Return the distance in points from the axes down to the lower end of the last strip."""
    return _GAP + _STRIP + (n_strips - 1) * (_BAND + _GAP)


def _attach_strip(ax: Any, place: int, name: str, height: float = _STRIP) -> Any:
    """Attach axes for a strip below other axes, with the same width and a height in points."""
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    figure = ax.get_figure(root=True)
    below = figure.dpi_scale_trans + ScaledTranslation(0.0, 0.0, ax.transAxes)
    bottom = -_strip_depth(place) if height == _STRIP else -(_GAP + height)
    strip = ax.inset_axes(
        [0.0, bottom / 72.0, 1.0, height / 72.0],
        transform=blended_transform_factory(ax.transAxes, below),
        sharex=ax,
    )
    strip.set_ylim(0.0, 1.0)
    strip.set_yticks([0.5], [name])
    strip.tick_params(axis="y", length=0, labelsize=7, pad=3)
    strip.xaxis.set_visible(False)
    for spine in strip.spines.values():
        spine.set_visible(False)
    return strip


def _fill_intervals(
    strip: Any, ends: FloatArray, colours: FloatArray, window: tuple[float, float]
) -> None:
    """Fill intervals. Many intervals become an image whose columns are means."""
    if len(colours) > _MOST_CELLS:
        edges = np.linspace(ends[0], ends[-1], _COLUMNS + 1)
        sums = np.zeros((len(ends), 3))
        np.cumsum(colours * np.diff(ends)[:, np.newaxis], axis=0, out=sums[1:])
        at_edges = np.stack([np.interp(edges, ends, column) for column in sums.T], axis=1)
        means = np.diff(at_edges, axis=0) / np.diff(edges)[:, np.newaxis]
        extent = (ends[0], ends[-1], 0.0, 1.0)
        image = np.clip(means, 0.0, 1.0)[np.newaxis]
        strip.imshow(image, extent=extent, aspect="auto", interpolation="auto", zorder=0.5)
    else:
        from matplotlib.collections import PolyCollection

        low, high = ends[:-1], ends[1:]
        corners = np.empty((len(low), 4, 2))
        corners[:, :, 0] = np.stack([low, high, high, low], axis=1)
        corners[:, :, 1] = [0.0, 0.0, 1.0, 1.0]
        strip.add_collection(PolyCollection(list(corners), fc=colours, ec=colours, linewidths=0.2))
    strip.set_xlim(window)
    strip.set_ylim(0.0, 1.0)


def _draw_walls(ax: Any, strip: Any, walls: Walls, window: tuple[float, float]) -> None:
    """Draw walls across the strip, and faintly behind the graphs, as wide as the cells permit."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb

    figure = ax.get_figure(root=True)
    points = 72.0 * figure.get_figwidth() * ax.get_position().width / (window[1] - window[0])
    limits = points * shorter_neighbour_lengths(walls, window) / _WALLS_APART
    seen = (limits > _THINNEST) & (walls.places > window[0]) & (walls.places < window[1])
    widths = np.clip(limits[seen], _THINNEST, walls.widths[seen])
    faint = np.clip(limits[seen] / walls.widths[seen], 0.15, 1.0)
    ends = [[(place, 0.0), (place, 1.0)] for place in walls.places[seen].tolist()]
    shades = np.column_stack([walls.colours[seen], faint])
    strip.add_collection(LineCollection(ends, colors=shades, linewidths=widths, zorder=2))
    # In the dark theme, walls of units have the colour of the background.
    is_plain = (walls.colours[seen] == to_rgb(theme_colour("wall"))).all(axis=1)
    colours = np.where(is_plain[:, np.newaxis], to_rgb(theme_colour("soft")), walls.colours[seen])
    behind = np.column_stack([colours, 0.35 * faint])
    across = LineCollection(
        ends,
        colors=behind,
        linewidths=0.7 * widths,
        transform=ax.get_xaxis_transform(),
        zorder=0.6,
    )
    ax.add_collection(across, autolim=False)


def shorter_neighbour_lengths(walls: Walls, window: tuple[float, float]) -> FloatArray:
    """Return the length of the shorter cell beside each wall, cut only by layers up to its own.

    Examples:
        >>> places, depths = np.array([1.0, 2.0, 6.0]), np.array([1, 0, 0])
        >>> walls = Walls(places, depths, np.zeros((3, 3)), np.ones(3))
        >>> shorter_neighbour_lengths(walls, (0.0, 8.0)).tolist()
        [1.0, 2.0, 2.0]
    """
    limits = np.empty(len(walls.places))
    for depth in np.unique(walls.depths):
        cuts = walls.places[walls.depths <= depth]
        low, high = min(window[0], cuts[0]), max(window[1], cuts[-1])
        gaps = np.diff(np.concatenate([[low], cuts, [high]]))
        own = walls.depths[walls.depths <= depth] == depth
        limits[walls.depths == depth] = np.minimum(gaps[:-1], gaps[1:])[own]
    return limits
