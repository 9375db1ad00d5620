"""Draw power diagrams and heads, with cells and keys in the colours of the winners."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from hardmax.errors import ArgumentError, DtypeError
from hardmax.geometry.domains import Box, box_around
from hardmax.geometry.polytopes import Polytope
from hardmax.geometry.refinement import CommonRefinement
from hardmax.models.heads import AttentionHead
from hardmax.plotting.dispatch import draw
from hardmax.plotting.solids import draw_faces, facet_polygons, frame_axes
from hardmax.plotting.style import cell_colours, create_axes, name_axes, theme_colour
from hardmax.tropical.diagrams.order_k import OrderKDiagram
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.typing import BoolArray, FloatArray

_SHRINK = 0.9
"""The scale factor of cells in space, which leaves visible gaps between them."""


@draw.register
def plot_power_diagram(
    diagram: PowerDiagram,
    ax: Any = None,
    *,
    box: Box | None = None,
    keys: bool = True,
    labels: bool = False,
) -> Any:
    """Draw the cells of a diagram in R^2 or R^3, each in the colour of its winner.

    Args:
        diagram: The diagram.
        ax: Axes, 3-D axes in space.
        box: The part to show. The default contains the sites (and the apex of a fan) and a margin.
        keys: Whether to mark the sites: a star in the colour of the site's cell, which need not
            contain the site, or a cross if the site never wins.
        labels: Whether to write the index of each site beside it.
    """
    _require_drawable(diagram)
    box = box_around(diagram.sites, diagram.is_fan) if box is None else _require_box(box)
    ax = create_axes(diagram.dim) if ax is None else ax
    cells = diagram.cells(box)
    colours = cell_colours([cell.site for cell in cells])
    if diagram.dim == 2:
        fill_polygons(ax, [cell.polygon for cell in cells], colours, box)
    else:
        fill_solids(ax, [cell.polytope for cell in cells], colours, box)
    if keys:
        own = cell_colours(range(diagram.n_sites))
        mark_keys(ax, diagram.sites, diagram.active, box, own)
    if labels:
        for index, site in enumerate(diagram.sites):
            if box.contains(site[None])[0]:
                _label_site(ax, site, str(index))
    name_axes(ax, "q")
    return ax


@draw.register
def plot_order_k(order_k: OrderKDiagram, ax: Any = None, *, box: Box | None = None) -> Any:
    """Draw the cells of an order-k diagram in R^2 or R^3, one colour for each set of winners.

    Args:
        order_k: The diagram.
        ax: Axes, 3-D axes in space.
        box: The part to show. The default contains the sites (and the apex of a fan) and a margin.
    """
    diagram = order_k.diagram
    _require_drawable(diagram)
    box = box_around(diagram.sites, diagram.is_fan) if box is None else _require_box(box)
    ax = create_axes(diagram.dim) if ax is None else ax
    window = Polytope(*box.inequalities)
    cells = [order_k.cell(index).intersection(window) for index in range(order_k.n_cells)]
    shown = [index for index, cell in enumerate(cells) if cell.affine_dim == diagram.dim]
    draw_cells(ax, [cells[index] for index in shown], cell_colours(shown), box)
    mark_keys(ax, diagram.sites, np.isin(np.arange(diagram.n_sites), order_k.sets), box)
    ax.set_title(f"{order_k.n_cells} sets of {order_k.k} winners")
    name_axes(ax, "q")
    return ax


@draw.register
def plot_refinement(refinement: CommonRefinement, ax: Any = None, *, box: Box | None = None) -> Any:
    """Draw the joint cells of several groups of forms in R^2 or R^3, each in its own colour.

    Args:
        refinement: The joint cells.
        ax: Axes, 3-D axes in space.
        box: The part to show. The default contains a point of every cell and a margin.
    """
    layers = [PowerDiagram.from_keys(forms.slopes, forms.offsets) for forms in refinement.groups]
    _require_drawable(layers[0])
    box = box_around(refinement.witnesses, with_origin=False) if box is None else _require_box(box)
    ax = create_axes(refinement.dim) if ax is None else ax
    owned = [{cell.site: cell.polytope for cell in layer.cells(box)} for layer in layers]
    shown, cells = [], []
    for index, choice in enumerate(refinement.choices.tolist()):
        if all(site in mine for site, mine in zip(choice, owned, strict=True)):
            parts = [mine[site] for site, mine in zip(choice, owned, strict=True)]
            cell = reduce(Polytope.intersection, parts)
            if cell.affine_dim == refinement.dim:
                shown.append(index)
                cells.append(cell)
    draw_cells(ax, cells, cell_colours(shown), box)
    ax.set_title(f"{refinement.count} cells of {len(layers)} groups")
    name_axes(ax, "x")
    return ax


@draw.register
def plot_head(
    head: AttentionHead,
    ax: Any = None,
    *,
    box: Box | None = None,
    keys: bool = True,
    labels: bool = False,
) -> Any:
    """Draw a head's diagram in query space if its dimension is 2 or 3, otherwise in model space.

    Args:
        head: The head.
        ax: Axes, 3-D axes in space.
        box: The part to show. The default contains the sites (and the apex of a fan) and a margin.
        keys: Whether to mark the sites: a star in the colour of the site's cell, which need not
            contain the site, or a cross if the site never wins.
        labels: Whether to write the index of each site beside it.
    """
    d_k = head.keys.shape[1]
    diagram = head.diagram if d_k in (2, 3) else head.pulled_back_diagram
    ax = plot_power_diagram(diagram, ax, box=box, keys=keys, labels=labels)
    name_axes(ax, "q" if d_k in (2, 3) else "x")
    return ax


def _require_box(box: Any) -> Box:
    if not isinstance(box, Box):
        raise DtypeError(f"`box` must be a Box; got {type(box).__name__}.")
    return box


def draw_cells(ax: Any, cells: Sequence[Polytope], colours: FloatArray, box: Box) -> None:
    """Draw the bounded cells of a partition of a box in the plane or in space."""
    if box.dim == 2:
        fill_polygons(ax, [cell.polygon for cell in cells], colours, box)
    else:
        fill_solids(ax, cells, colours, box)


def fill_polygons(ax: Any, polygons: Sequence[FloatArray], colours: FloatArray, box: Box) -> None:
    """Draw polygons in the plane and their walls as one collection."""
    from matplotlib.collections import PolyCollection

    ax.add_collection(
        PolyCollection(
            polygons, facecolors=colours, edgecolors=theme_colour("wall"), linewidths=0.9
        )
    )
    ax.set_xlim(box.low[0], box.high[0])
    ax.set_ylim(box.low[1], box.high[1])
    ax.set_aspect("equal")


def fill_solids(ax: Any, polytopes: Sequence[Polytope], colours: FloatArray, box: Box) -> None:
    """Draw cells in space, each shrunk slightly towards its own centre."""
    for polytope, colour in zip(polytopes, colours, strict=True):
        centre = polytope.vertices.mean(axis=0)
        faces = [centre + _SHRINK * (face - centre) for face in facet_polygons(polytope)]
        draw_faces(ax, faces, colour, 0.55)
    frame_axes(ax, np.vstack([box.low, box.high]))


def mark_keys(
    ax: Any, sites: FloatArray, active: BoolArray, box: Box, colours: FloatArray | None = None
) -> None:
    """Mark the sites inside the box: a star for a key that can win, a cross for one that cannot.

    Args:
        ax: Axes, 3-D axes in space.
        sites: The sites, shape `(n, dim)`.
        active: Whether each site can win, shape `(n,)`.
        box: The part shown.
        colours: The fill colours of the stars, shape `(n, 3)`: the colour of each site's own cell,
            because the site may lie in another cell. By default, stars have the colour of keys.
    """
    from matplotlib.colors import to_rgb
    from matplotlib.patheffects import withStroke

    shown = box.contains(sites)
    alive, dead = np.flatnonzero(shown & active), sites[shown & ~active]
    fills = np.tile(to_rgb(theme_colour("key")), (len(sites), 1)) if colours is None else colours
    kinds, kind = np.unique(fills[alive], axis=0, return_inverse=True)
    for k in range(len(kinds)):
        ax.plot(
            *sites[alive[kind == k]].T,
            "*",
            markersize=11,
            markerfacecolor=kinds[k],
            markeredgecolor=theme_colour("ink"),
            markeredgewidth=0.9,
            linestyle="none",
            # A rim in the background colour separates the outline from walls and dark cells.
            path_effects=[withStroke(linewidth=2.6, foreground=theme_colour("paper"))],
            label="key" if k == 0 else "_key",
            # In space, matplotlib sorts cells by depth and sets their zorder itself.
            zorder=5 if sites.shape[1] == 2 else 1e6,
        )
    if len(dead):
        ax.plot(
            *dead.T,
            "X",
            markersize=7,
            markerfacecolor=theme_colour("dead"),
            markeredgecolor=theme_colour("paper"),
            markeredgewidth=0.6,
            linestyle="none",
            label="key that never wins",
            zorder=5 if sites.shape[1] == 2 else 1e6,
        )


def _label_site(ax: Any, site: FloatArray, text: str) -> None:
    if len(site) == 2:
        ax.annotate(text, site, xytext=(6, 4), textcoords="offset points", fontsize=8, zorder=6)
    else:
        ax.text(*site, f"  {text}", fontsize=8)


def _require_drawable(diagram: PowerDiagram) -> None:
    if diagram.dim not in (2, 3):
        raise ArgumentError(
            "`obj` must be a diagram in R^2 or R^3 to be drawn; got a diagram in "
            f"R^{diagram.dim}. Pull it back to a plane first (`pull_back`)."
        )
