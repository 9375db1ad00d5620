"""Draw partitions of a model's input space, with cells shaded by layer and walls by layer and head.

On a line, the cells are a strip of intervals below the graphs of the outputs (see `intervals`).
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from hardmax._ground import palette
from hardmax._ground.arguments import choice, integer
from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box
from hardmax.geometry.polytopes import Polytope
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.layer_words import LayerWords
from hardmax.plotting.diagrams import fill_solids
from hardmax.plotting.dispatch import draw
from hardmax.plotting.images import Lines, render_image
from hardmax.plotting.intervals import (
    MOST_NUMBERS,
    Graphs,
    Walls,
    draw_intervals,
    find_largest_outputs,
)
from hardmax.plotting.style import (
    cell_colours,
    create_axes,
    current_theme,
    name_axes,
    place_legend_beside,
    series_colours,
    theme_colour,
)
from hardmax.plotting.windows import choose_window, describe_outside, find_cells_in_window
from hardmax.regions.partition import Partition
from hardmax.typing import FloatArray, IntArray

_FAR = 1e6
"""The distance at which vertices at infinity are drawn, in box sizes; the axes clip them."""
_MOST_POLYGONS = 3000
"""The largest number of cells drawn as polygons; more are drawn as an image."""
_WIDEST, _NARROWER, _THINNEST = 1.3, 0.62, 0.2
"""The width of walls of the first block in points, the factor per block, and the minimum width."""
_HAIRLINE, _SEAM = 0.2, 0.8
"""The width of the outline of a cell in points, where a wall covers it and where there is none."""
_OF_UNITS = 0.7
"""The factor for the width of walls of units, if the model has heads."""
_MOST_ENTRIES = 1 << 28
"""The largest table of winners on a line; beyond it, cells are coloured in turn, without walls."""
_WALLS_APART = 12.0
"""The smallest ratio of cell size to wall width. Walls that become thin also fade."""


@draw.register
def plot_partition(
    partition: Partition,
    ax: Any = None,
    *,
    color: str = "region",
    box: Box | None = None,
    walls: bool | str = True,
    legend: bool | None = None,
    layers: int | None = None,
    names: Sequence[str] | None = None,
) -> Any:
    """Draw the cells of a model on a line, in a plane or in space.

    The first layer that cuts determines the hue of a cell, and later layers its shade, so a cell
    keeps its hue when blocks are added. Many thousands of cells are drawn as an image in which each
    pixel is the mean of its cells. Cells too small to be visible then show the colour of the larger
    cell that contains them.

    On a line, the cells are a strip of intervals below the graphs of the outputs, which are affine
    on each cell. A graph has a gap where an output jumps. A band shows which output is the largest,
    unless the model has attention heads and no `names` are given. Of more than ten outputs, only
    ten are drawn: those that are the largest somewhere, then those that vary most.

    Args:
        partition: The partition. An incomplete partition is drawn as far as it is known.
        ax: Axes, 3-D axes in space.
        color: The objects with one colour each: `"region"` (connected, one affine map), `"map"` or
            `"cell"`.
        box: The part to show, in the domain's coordinates. By default, a bounded domain is shown
            whole, and an unbounded one from -4 to 4, or around most vertices if their scale is
            different; the title states the number of cells outside.
        walls: Whether to draw the walls. Walls of attention heads have the head's colour, walls of
            units have the colour of ink. Walls of later blocks and of small cells are thinner.
            `"units"` also colours the units of the last layer, which shows where their walls bend.
        legend: Whether to draw a legend of the walls. The default is True if the axes are new.
        layers: Draw only the cuts of the first `layers` layers (plane, `color="cell"`).
        names: The names of the outputs, for a domain of dimension 1.
    """
    if not partition.n_found:
        raise ArgumentError(
            "`obj` must have at least one cell to be drawn; the search stopped before it found any."
        )
    choice("color", color, ("region", "map", "cell"))
    if not isinstance(walls, bool):
        choice("walls", walls, ("units",))
    dim = partition.domain.dim
    if dim not in (1, 2, 3):
        raise ArgumentError(
            f"`obj` must be a partition of dimension 1 to 3 to be drawn; got dimension {dim}. "
            "Search a `Segment` between two points, or a `Slice` of dimension 2, instead."
        )
    if box is not None and box.dim != dim:
        raise ArgumentError(f"`box` must have the dimension of the domain, {dim}; got {box.dim}.")
    n_outputs = partition.network.dim_out
    if names is not None and (dim != 1 or len(names) != n_outputs):
        raise ArgumentError(
            f"`names` requires a domain of dimension 1 and one entry for each of the {n_outputs} "
            f"outputs; got {len(names)} entries in dimension {dim}."
        )
    n_layers = len(partition.network.layers)
    if layers is not None:
        layers = integer("layers", layers, at_least=0)
        if layers > n_layers or dim != 2 or color != "cell":
            raise ArgumentError(
                f"`layers` must be at most {n_layers}, and requires a domain of dimension 2 and "
                f"color='cell'; got {layers} in dimension {dim} with color={color!r}."
            )
    legend = ax is None if legend is None else legend
    ax = create_axes(dim) if ax is None else ax
    window = choose_window(partition) if box is None else box
    colours = _choose_colours(partition, color, layers)
    if dim == 1:
        _draw_line(partition, ax, colours, window, walls, legend, names)
    elif dim == 2:
        draw_cells(partition, ax, colours, window, walls, legend, layers)
    else:
        _draw_solids(partition, ax, colours, window)
    if dim > 1:
        name_axes(ax, "t" if partition.domain.stages else "x")
    elif not partition.domain.stages:
        ax.set_xlabel("$x$")
    if box is None and layers is None and (text := describe_outside(partition, window)):
        ax.set_title(text)
    return ax


def draw_cells(
    partition: Partition,
    ax: Any,
    colours: FloatArray,
    box: Box | None = None,
    walls: bool | str = True,
    legend: bool = False,
    layers: int | None = None,
) -> None:
    """Draw the cells of a planar partition in given colours, shape `(n_cells, 3)`."""
    window = choose_window(partition) if box is None else box
    corners, starts = _cell_corners(partition, window)
    ax.set_xlim(window.low[0], window.high[0])
    ax.set_ylim(window.low[1], window.high[1])
    ax.set_aspect("equal")
    polygons = [corners[a:b] for a, b in pairwise(starts.tolist())]
    shown = np.arange(len(polygons))
    if len(polygons) > _MOST_POLYGONS:
        shown = find_cells_in_window(corners, starts, window)
        polygons, colours = [polygons[k] for k in shown], colours[shown]
    lines = []
    if walls and partition.cells.walls is not None:
        lines = _collect_walls(
            partition, ax, corners, starts, window, shown, walls == "units", layers
        )
        if legend and (handles := _wall_handles(partition.network, walls == "units")):
            place_legend_beside(ax, handles)
    # No wall covers the seam between cells that only later layers separate; use a wide outline.
    draw_polygons(ax, polygons, colours, lines, window, _HAIRLINE if layers is None else _SEAM)


def count_cells_by_layer(partition: Partition) -> dict[int, int]:
    """Map the number of layers, after each layer that cuts, to the number of cells by then.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0, 0.0]], [[1.0], [1.0]], [[1.0]]], [None, [-0.5], None])
        >>> count_cells_by_layer(enumerate_regions(net, Box([-1], [1])))
        {1: 2, 2: 3}
    """
    counts: dict[int, int] = {}
    before = 1
    for place in partition.network.places:
        n_cells = len(np.unique(partition.signatures[:, : place.groups.stop], axis=0))
        if n_cells > before:
            counts[place.depth + 1] = before = n_cells
    return counts or {len(partition.network.layers): before}


def _choose_colours(partition: Partition, colour: str, layers: int | None = None) -> FloatArray:
    """Return the colour of each cell, or of the first cell of its region or map."""
    if not _is_table_small(partition):
        return cell_colours(range(partition.n_found))
    places = partition.network.places[:layers]
    n_groups = [place.layer.n_groups for place in places]
    winners = partition.signatures[:, : sum(n_groups)]
    colours = palette.cell_colours(winners, n_groups, current_theme())
    if colour == "cell":
        return colours
    labels = partition.region_labels if colour == "region" else partition.map_classes
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(colours[first[place]])


def _is_table_small(partition: Partition) -> bool:
    """Return whether the table of all signatures is small enough; on a line, it may be huge."""
    n_entries = partition.n_found * partition.network.n_groups
    return partition.domain.dim != 1 or n_entries <= _MOST_ENTRIES


def _cell_corners(partition: Partition, window: Box) -> tuple[FloatArray, IntArray]:
    """Return all polygon corners, with infinite ones moved far away, and the start of each cell."""
    cells = partition.cells
    if cells.vertices is None or cells.starts is None:
        polygons = [
            _clip_to_window(partition.polytope(i), window) for i in range(partition.n_found)
        ]
        starts = np.cumsum([0, *(len(p) for p in polygons)])
        return np.concatenate(polygons), starts
    if cells.directions is None:
        return cells.vertices, cells.starts
    reach = _FAR * float((window.high - window.low).max())
    return cells.vertices + reach * cells.directions, cells.starts


def _clip_to_window(cell: Polytope, window: Box) -> FloatArray:
    """Return the corners of a cell; an unbounded cell is clipped to the window."""
    part = cell if cell.is_bounded else cell.intersection(window)
    return part.polygon if part.affine_dim == 2 else np.zeros((0, 2))


def _collect_walls(
    partition: Partition,
    ax: Any,
    corners: FloatArray,
    starts: IntArray,
    window: Box,
    cells: IntArray,
    of_units: bool,
    layers: int | None,
) -> list[Lines]:
    """Return the walls of some cells, the first layer last, no wider than the cells permit."""
    from matplotlib.colors import to_rgb

    edges = polygon_edges(corners, starts)
    owners = partition.cells.walls
    assert owners is not None
    cell = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    is_drawn = np.isin(np.arange(len(starts) - 1), cells)[cell]
    blocks = _block_indices(partition.network)
    strong = np.array([to_rgb(colour) for colour in series_colours()])
    sizes = _parent_cell_sizes(partition, edges, starts)
    heads = any(layer.is_table.all() for layer in partition.network.layers)
    lines = []
    for depth, layer in enumerate(partition.network.layers[:layers]):
        shown = np.flatnonzero((owners[:, 0] == depth) & is_drawn)
        limits = max_wall_widths(ax, window, sizes[depth][cell[shown]])
        is_head, is_last = bool(layer.is_table.all()), depth == len(blocks) - 1
        beside = _OF_UNITS if heads and not is_head else 1.0
        width = max(beside * _WIDEST * _NARROWER ** blocks[depth], _THINNEST)
        colours = np.tile(to_rgb(theme_colour("wall")), (len(shown), 1))
        if is_head or (of_units and is_last):
            colours = strong[owners[shown, 1].astype(int) % len(strong)]
        lines.append(fit_lines(edges[shown], colours, limits, width))
    return lines[::-1]


def polygon_edges(corners: FloatArray, starts: IntArray) -> FloatArray:
    """Return the ends of the edge from each polygon corner to the next, shape `(n, 2, 2)`."""
    following = np.arange(len(corners)) + 1
    following[starts[1:] - 1] = starts[:-1]
    return np.stack([corners, corners[following]], axis=1)


def polygon_areas(edges: FloatArray, starts: IntArray) -> FloatArray:
    """Return the areas of polygons; an area that overflows becomes a large finite number."""
    with np.errstate(over="ignore", invalid="ignore"):
        (x0, y0), (x1, y1) = edges[:, 0].T, edges[:, 1].T
        twice = np.add.reduceat(x0 * y1 - x1 * y0, starts[:-1])
    most = np.finfo(float).max / len(twice)
    areas = np.nan_to_num(np.abs(twice) / 2.0, nan=most, posinf=most)
    return areas


def fit_lines(ends: FloatArray, colours: FloatArray, limits: FloatArray, width: float) -> Lines:
    """Return lines of a given width, thinner and fainter where the limit requires it.

    Lines whose limit is below the minimum width are omitted.

    Args:
        ends: The ends of the lines, shape `(n, 2, 2)`.
        colours: The colours, shape `(n, 3)`.
        limits: The largest permitted width of each line, in points.
        width: The desired width, in points.
    """
    seen = limits > _THINNEST
    limits = limits[seen]
    faint = np.clip(limits / width, 0.15, 1.0)
    shaded = np.column_stack([colours[seen], faint])
    return Lines(ends[seen], shaded, np.clip(limits, _THINNEST, width))


def draw_polygons(
    ax: Any,
    polygons: list[FloatArray],
    colours: FloatArray,
    lines: list[Lines],
    window: Box,
    hairline: float = _HAIRLINE,
) -> None:
    """Draw polygons and lines on them. Many polygons become an image whose pixels are means."""
    from matplotlib.collections import LineCollection, PolyCollection

    if len(polygons) > _MOST_POLYGONS:
        extent = (window.low[0], window.high[0], window.low[1], window.high[1])
        image = render_image(polygons, colours, lines, window, _axes_side_in_points(ax))
        ax.imshow(image, origin="upper", extent=extent, interpolation="auto", zorder=0.5)
        return
    # An outline in the cell's own colour closes the gaps that antialiasing leaves.
    ax.add_collection(PolyCollection(polygons, fc=colours, ec=colours, linewidths=hairline))
    for drawn in lines:
        ends = list(drawn.ends)
        ax.add_collection(LineCollection(ends, colors=drawn.colours, linewidths=drawn.widths))


def max_wall_widths(ax: Any, window: Box, sizes: FloatArray) -> FloatArray:
    """Return the largest width, in points, of the walls of cells of given sizes."""
    points = _axes_side_in_points(ax) / float((window.high - window.low).max())
    return np.asarray(points * sizes / _WALLS_APART)


def _axes_side_in_points(ax: Any) -> float:
    """Return the approximate length of the shorter side of the axes, before their layout."""
    figure = ax.get_figure(root=True)
    place = ax.get_position()
    return 72.0 * float(
        min(figure.get_figwidth() * place.width, figure.get_figheight() * place.height)
    )


def _block_indices(network: ArgmaxNetwork) -> list[int]:
    """Return the block of each layer, numbered from 0; layers with the same place share a block."""
    places = [words.place for words in network.words]
    return [n - 1 for n in accumulate(one != before for before, one in pairwise(["", *places]))]


def _parent_cell_sizes(
    partition: Partition, edges: FloatArray, starts: IntArray
) -> list[FloatArray]:
    """Return, per layer, the square root of the area of the larger cell that contains each cell.

    Cells with the same winners up to a layer belong to the same larger cell at that layer. Sums of
    random numbers distinguish the winners, which is good enough for the width of a line.
    """
    areas = polygon_areas(edges, starts)
    rng = np.random.default_rng(0)
    names = np.zeros(len(areas), np.int64)
    sizes = []
    for place in partition.network.places:
        winners = partition.signatures[:, place.groups]
        names = names + winners @ rng.integers(1, 2**40, winners.shape[1])
        _, part = np.unique(names, return_inverse=True)
        sizes.append(np.sqrt(np.bincount(part, areas)[part]))
    return sizes


def _legend_line(colour: str, width: float, name: str) -> Any:
    """Return a line of the legend, with an outline if it has the colour of the background."""
    from matplotlib.lines import Line2D
    from matplotlib.patheffects import withStroke

    edge = [withStroke(linewidth=width + 1.6, foreground=theme_colour("soft"))]
    effects = edge if colour == theme_colour("paper") else None
    return Line2D([], [], color=colour, linewidth=width, label=name, path_effects=effects)


def _wall_handles(network: ArgmaxNetwork, of_units: bool) -> list[Any]:
    """Return legend handles for the colours of heads and the widths of the blocks' walls."""
    layers, words, strong = network.layers, network.words, series_colours()
    heads = [k for k, layer in enumerate(layers) if layer.is_table.all()]
    units = [k for k in range(len(layers)) if k not in heads]
    n_heads = max((layers[k].n_groups for k in heads), default=0)
    names: list[tuple[str, str]] = []
    if heads:
        named = _colour_labels(_format_group(words, heads), n_heads, len(strong))
        names += zip(strong, named, strict=False)
    if of_units and units[-1:] == [len(layers) - 1]:
        word = _format_group(words, units[-1:])
        named = _colour_labels(word, layers[-1].n_groups, len(strong))
        names += zip(strong, named, strict=False)
    elif heads and units:
        names.append((theme_colour("wall"), f"{_format_group(words, units)}s"))
    handles = [_legend_line(colour, _WIDEST, name) for colour, name in names]
    places = list(dict.fromkeys(one.place for one in words))
    if len(places) > 1:
        widths = [_WIDEST * _NARROWER**b for b in range(4)]
        handles += [
            _legend_line(theme_colour("soft"), *pair) for pair in zip(widths, places, strict=False)
        ]
    return handles


def _format_group(words: Sequence[LayerWords], layers: Sequence[int]) -> str:
    """Return the name of a group of some layers, including the layers if it is ambiguous.

    Examples:
        >>> words = [LayerWords(f"layer {i}", "group", "form") for i in range(4)]
        >>> _format_group(words, [1]), _format_group(words, [0, 2]), _format_group(words, range(4))
        ('layer 1, group', 'layers 0, 2, group', 'group')
    """
    group = words[layers[0]].group
    if len(layers) == 1:
        return f"{words[layers[0]].place}, {group}"
    if sum(one.group == group for one in words) == len(layers):
        return group
    numbers = ", ".join(words[k].place.split()[-1] for k in layers[:3]) + ", ..." * (
        len(layers) > 3
    )
    return f"{words[layers[0]].place.split()[0]}s {numbers}, {group}"


def _colour_labels(word: str, n: int, n_colours: int) -> list[str]:
    """Return the legend text of each colour, when colours repeat after the last.

    Examples:
        >>> _colour_labels("head", 2, 7), _colour_labels("block 0, head", 16, 7)[1:3]
        (['head 0', 'head 1'], ['block 0, heads 1, 8, 15', 'block 0, heads 2, 9'])
    """
    names = []
    for first in range(min(n, n_colours)):
        members = range(first, n, n_colours)
        shown = ", ".join(map(str, members[:3])) + ", ..." * (len(members) > 3)
        names.append(f"{word}{'s' * (len(members) > 1)} {shown}")
    return names


def _draw_solids(partition: Partition, ax: Any, colours: FloatArray, box: Box) -> None:
    cells = [partition.polytope(i) for i in range(partition.n_found)]
    clipped = [cell.intersection(box) for cell in cells]
    shown = [i for i, cell in enumerate(clipped) if cell.affine_dim == 3]
    fill_solids(ax, [clipped[i] for i in shown], colours[shown], box)


def _draw_line(
    partition: Partition,
    ax: Any,
    colours: FloatArray,
    window: Box,
    walls: bool | str,
    legend: bool,
    names: Sequence[str] | None,
) -> None:
    """Draw the cells on a line as intervals, with the outputs above them."""
    network = partition.network
    low, high = float(window.low[0]), float(window.high[0])
    order, ends = _order_on_line(partition)
    shown = (ends[1:] > low) & (ends[:-1] < high)
    if not shown.any():
        raise ArgumentError(
            f"`box` must contain part of a cell found; there is none in {window!r}."
        )
    graphs = None
    if partition.n_found * network.dim_out <= MOST_NUMBERS:
        maps, largest = partition.affine_maps[order], None
        has_heads = any(layer.is_table.all() for layer in network.layers)
        if network.dim_out > 1 and (names is not None or not has_heads):
            bounds = np.clip(ends[np.append(shown, False) | np.append(False, shown)], low, high)
            largest = find_largest_outputs(bounds, maps[shown])
        given = [f"output {k}" for k in range(network.dim_out)] if names is None else names
        graphs = Graphs(maps, given, largest)
    found = None
    if walls and _is_table_small(partition):
        found = _walls_on_line(partition, order, ends[1:-1], walls == "units")
    handles = draw_intervals(ax, ends, colours[order], (low, high), found, graphs)
    if found is not None:
        handles += [_make_upright(handle) for handle in _wall_handles(network, walls == "units")]
    if legend and handles:
        place_legend_beside(ax, handles)


def _order_on_line(partition: Partition) -> tuple[IntArray, FloatArray]:
    """Return the order of the cells from left to right, and their ends in that order."""
    cells = partition.cells
    if cells.vertices is None:
        both = np.array([_interval_ends(partition.polytope(i)) for i in range(partition.n_found)])
    else:
        places = cells.vertices[:, 0]
        if cells.directions is not None:
            at_infinity = cells.directions[:, 0] != 0.0
            places = np.where(at_infinity, np.copysign(np.inf, cells.directions[:, 0]), places)
        both = np.sort(places.reshape(-1, 2), axis=1)
    order = np.argsort(both[:, 0], kind="stable")
    return order, np.append(both[order, 0], both[order[-1], 1])


def _interval_ends(cell: Polytope) -> list[float]:
    """Return the ends of an interval."""
    ends = [-np.inf, np.inf]
    for slope, offset in cell.rows.tolist():
        end = float(Fraction(offset, slope))
        if slope > 0:
            ends[1] = min(ends[1], end)
        else:
            ends[0] = max(ends[0], end)
    return ends


def _walls_on_line(
    partition: Partition, order: IntArray, places: FloatArray, of_units: bool
) -> Walls:
    """Return the walls between cells on a line, each styled by the first group that ties there.

    The stream is continuous up to the first layer whose winners change, so a group of that layer
    ties at the wall, whatever later layers do.
    """
    from matplotlib.colors import to_rgb

    network = partition.network
    signatures = partition.signatures[order]
    groups = (signatures[1:] != signatures[:-1]).argmax(axis=1)
    starts = np.array([place.groups.start for place in network.places])
    depths = np.searchsorted(starts, groups, "right") - 1
    blocks = np.array(_block_indices(network))
    is_head = np.array([bool(layer.is_table.all()) for layer in network.layers])
    beside = np.where(is_head, 1.0, _OF_UNITS if is_head.any() else 1.0)
    widths = np.maximum(beside * _WIDEST * _NARROWER**blocks, _THINNEST)
    colours = np.tile(to_rgb(theme_colour("wall")), (len(groups), 1))
    has_colour = is_head | (of_units & (np.arange(len(is_head)) == len(is_head) - 1))
    strong = np.array([to_rgb(colour) for colour in series_colours()])
    of_head = (groups - starts[depths]) % len(strong)
    colours = np.where(has_colour[depths, np.newaxis], strong[of_head], colours)
    return Walls(places, depths, colours, widths[depths])


def _make_upright(handle: Any) -> Any:
    """Make a legend line vertical, like the walls on a line."""
    if handle.get_path_effects():
        handle.set(color=theme_colour("soft"), path_effects=[])
    handle.set(marker="|", markersize=9.0, markeredgewidth=max(handle.get_linewidth(), 0.4))
    handle.set_linestyle("none")
    return handle
