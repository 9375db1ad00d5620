"""Power diagrams and heads: cells and keys in the colours of the winners, dead keys marked."""

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
from hardmax.plotting.solids import draw_faces, facet_polygons, frame
from hardmax.plotting.style import cell_colours, name_axes, new_axes, tone
from hardmax.tropical.diagrams.order_k import OrderKDiagram
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.typing import BoolArray, FloatArray

_SHRINK = 0.9
"""Cells in space are drawn a little smaller than they are, so that one can see between them."""


@draw.register
def plot_power_diagram(
    diagram: PowerDiagram,
    ax: Any = None,
    *,
    box: Box | None = None,
    keys: bool = True,
    labels: bool = False,
) -> Any:
    """Draw the cells of a diagram in R^2 or R^3, each filled by its winner.

    Args:
        diagram: The diagram.
        ax: Axes, 3-D ones in space.
        box: What to show; by default the sites (and the apex of a fan) with a margin.
        keys: Whether to mark the sites: stars in the colours of their own cells, which may be
            elsewhere, and crosses for those that never win.
        labels: Whether to write each site's index beside it.
    """
    _require_drawable(diagram)
    box = box_around(diagram.sites, diagram.is_fan) if box is None else _require_box(box)
    ax = new_axes(diagram.dim) if ax is None else ax
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
                _label(ax, site, str(index))
    name_axes(ax, "q")
    return ax


@draw.register
def plot_order_k(order_k: OrderKDiagram, ax: Any = None, *, box: Box | None = None) -> Any:
    """Draw the cells of an order-k diagram in R^2 or R^3, one colour for each set of winners.

    Args:
        order_k: The diagram.
        ax: Axes, 3-D ones in space.
        box: What to show; by default the sites (and the apex of a fan) with a margin.
    """
    diagram = order_k.diagram
    _require_drawable(diagram)
    box = box_around(diagram.sites, diagram.is_fan) if box is None else _require_box(box)
    ax = new_axes(diagram.dim) if ax is None else ax
    window = Polytope(*box.inequalities)
    cells = [order_k.cell(index).intersection(window) for index in range(order_k.n_cells)]
    shown = [index for index, cell in enumerate(cells) if cell.dim == diagram.dim]
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
        ax: Axes, 3-D ones in space.
        box: What to show; by default a point of every cell, with a margin.
    """
    layers = [PowerDiagram.from_keys(forms.slopes, forms.offsets) for forms in refinement.groups]
    _require_drawable(layers[0])
    box = box_around(refinement.witnesses, with_origin=False) if box is None else _require_box(box)
    ax = new_axes(refinement.dim) if ax is None else ax
    owned = [{cell.site: cell.polytope for cell in layer.cells(box)} for layer in layers]
    shown, cells = [], []
    for index, choice in enumerate(refinement.choices.tolist()):
        if all(site in mine for site, mine in zip(choice, owned, strict=True)):
            parts = [mine[site] for site, mine in zip(choice, owned, strict=True)]
            cell = reduce(Polytope.intersection, parts)
            if cell.dim == refinement.dim:
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
    """Draw a head's diagram: in query space if that is a plane or space, else in model space.

    Args:
        head: The head.
        ax: Axes, 3-D ones in space.
        box: What to show; by default the sites (and the apex of a fan) with a margin.
        keys: Whether to mark the sites: stars in the colours of their own cells, which may be
            elsewhere, and crosses for those that never win.
        labels: Whether to write each site's index beside it.
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
    """Fill bounded cells of a partition of a box in the plane or in space."""
    if box.dim == 2:
        fill_polygons(ax, [cell.polygon for cell in cells], colours, box)
    else:
        fill_solids(ax, cells, colours, box)


def fill_polygons(ax: Any, polygons: Sequence[FloatArray], colours: FloatArray, box: Box) -> None:
    """Fill polygons in the plane, walls included, as one collection."""
    from matplotlib.collections import PolyCollection

    ax.add_collection(
        PolyCollection(polygons, facecolors=colours, edgecolors=tone("wall"), linewidths=0.9)
    )
    ax.set_xlim(box.low[0], box.high[0])
    ax.set_ylim(box.low[1], box.high[1])
    ax.set_aspect("equal")


def fill_solids(ax: Any, polytopes: Sequence[Polytope], colours: FloatArray, box: Box) -> None:
    """Draw cells in space, each shrunk a little towards its own centre."""
    for polytope, colour in zip(polytopes, colours, strict=True):
        centre = polytope.vertices.mean(axis=0)
        faces = [centre + _SHRINK * (face - centre) for face in facet_polygons(polytope)]
        draw_faces(ax, faces, colour, 0.55)
    frame(ax, np.vstack([box.low, box.high]))


def mark_keys(
    ax: Any, sites: FloatArray, active: BoolArray, box: Box, colours: FloatArray | None = None
) -> None:
    """Mark the sites inside the box: a star for a key that can win, a cross for one that cannot.

    Args:
        ax: Axes, 3-D ones in space.
        sites: The sites, shape `(n, dim)`.
        active: Which of them can win, shape `(n,)`.
        box: What is shown.
        colours: The colour of each site's cell, shape `(n, 3)`, with which its star is filled: a
            site may lie in the cell of another one. By default stars have the colour of keys.
    """
    from matplotlib.colors import to_rgb
    from matplotlib.patheffects import withStroke

    shown = box.contains(sites)
    alive, dead = np.flatnonzero(shown & active), sites[shown & ~active]
    fills = np.tile(to_rgb(tone("key")), (len(sites), 1)) if colours is None else colours
    kinds, kind = np.unique(fills[alive], axis=0, return_inverse=True)
    for k in range(len(kinds)):
        ax.plot(
            *sites[alive[kind == k]].T,
            "*",
            markersize=11,
            markerfacecolor=kinds[k],
            markeredgecolor=tone("ink"),
            markeredgewidth=0.9,
            linestyle="none",
            # A rim of the paper's colour keeps the outline apart from walls and from dark cells.
            path_effects=[withStroke(linewidth=2.6, foreground=tone("paper"))],
            label="key" if k == 0 else "_key",
            # In space cells are sorted by depth, and drawn at heights of their own.
            zorder=5 if sites.shape[1] == 2 else 1e6,
        )
    if len(dead):
        ax.plot(
            *dead.T,
            "X",
            markersize=7,
            markerfacecolor=tone("dead"),
            markeredgecolor=tone("paper"),
            markeredgewidth=0.6,
            linestyle="none",
            label="key that never wins",
            zorder=5 if sites.shape[1] == 2 else 1e6,
        )


def _label(ax: Any, site: FloatArray, text: str) -> None:
    if len(site) == 2:
        ax.annotate(text, site, xytext=(6, 4), textcoords="offset points", fontsize=8, zorder=6)
    else:
        ax.text(*site, f"  {text}", fontsize=8)


def _require_drawable(diagram: PowerDiagram) -> None:
    if diagram.dim not in (2, 3):
        raise ArgumentError(
            f"`obj` must be a diagram in R^2 or R^3 to be drawn; got one in R^{diagram.dim}. "
            "Pull it back to a plane first (`pull_back`)."
        )
