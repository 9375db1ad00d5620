"""Draw tropical polynomials: graphs in one variable, hypersurfaces and their duals in two."""

from typing import Any

import numpy as np

from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box, box_around
from hardmax.plotting.diagrams import fill_polygons, plot_power_diagram
from hardmax.plotting.dispatch import draw
from hardmax.plotting.style import (
    cell_colours,
    create_axes,
    name_axes,
    series_colours,
    theme_colour,
)
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.tropical.polynomials import TropicalPolynomial


@draw.register
def plot_polynomial(
    polynomial: TropicalPolynomial, ax: Any = None, *, box: Box | None = None, dual: bool = False
) -> Any:
    """Draw a tropical polynomial in one or two variables.

    Args:
        polynomial: The polynomial. In one variable, the graph and all terms are drawn. In two, the
            cells on which each term is the maximum are drawn; the tropical hypersurface separates
            them.
        ax: Axes.
        box: The part to show.
        dual: Whether to draw the dual subdivision of the Newton polytope instead.
    """
    if polynomial.dim not in (1, 2):
        raise ArgumentError(
            f"`obj` must be a polynomial in 1 or 2 variables to be drawn; got {polynomial.dim}."
        )
    ax = create_axes(2) if ax is None else ax
    if dual:
        return _draw_dual(polynomial, ax)
    diagram = PowerDiagram.from_polynomial(polynomial)
    if box is None:
        box = _box_of_vertices(diagram)
    if polynomial.dim == 1:
        return _draw_graph(polynomial, diagram, ax, box)
    plot_power_diagram(diagram, ax, box=box, keys=False)
    name_axes(ax, "x")
    return ax


def _box_of_vertices(diagram: PowerDiagram) -> Box:
    """Return a box that contains every vertex of the hypersurface and a margin."""
    vertices = diagram.vertices if len(diagram.vertices) else np.zeros((1, diagram.dim))
    box = box_around(vertices, with_origin=False)
    middle = (box.low + box.high) / 2
    return Box(2 * box.low - middle, 2 * box.high - middle) if len(vertices) < 3 else box


def _draw_graph(polynomial: TropicalPolynomial, diagram: PowerDiagram, ax: Any, box: Box) -> Any:
    ends = np.stack([box.low, box.high])
    for values in polynomial.forms(ends).T:
        ax.plot(ends[:, 0], values, color=theme_colour("line"), linewidth=0.7, zorder=1)
    cells = diagram.cells(box)
    colours = series_colours()
    for place, cell in enumerate(cells):
        x = np.sort(cell.vertices[:, 0])
        y = np.asarray(polynomial(x[:, None]))
        ax.plot(x, y, color=colours[place % len(colours)], linewidth=2.4, zorder=2)
    kinks = np.unique(np.concatenate([cell.vertices[:, 0] for cell in cells]))[1:-1]
    ax.plot(
        kinks,
        np.asarray(polynomial(kinks[:, None])),
        "o",
        color=theme_colour("ink"),
        markersize=3.5,
        zorder=3,
    )
    heights = np.asarray(polynomial(np.vstack([ends, kinks[:, None]])))
    spread = max(float(np.ptp(heights)), 1.0)
    ax.set_xlim(box.low[0], box.high[0])
    ax.set_ylim(heights.min() - 0.35 * spread, heights.max() + 0.1 * spread)
    ax.set_xlabel("$x$")
    return ax


def _draw_dual(polynomial: TropicalPolynomial, ax: Any) -> Any:
    subdivision = polynomial.dual_subdivision()
    exponents = np.asarray(polynomial.forms.slopes)
    if polynomial.dim == 1:
        exponents = np.column_stack([exponents[:, 0], np.zeros(len(exponents))])
    box = box_around(exponents, with_origin=False)
    polygons = [exponents[corners] for corners in subdivision.corners]
    fill_polygons(ax, polygons, cell_colours(range(len(polygons))), box)
    corner = np.zeros(len(exponents), dtype=np.bool_)
    corner[subdivision.vertices] = True
    ax.plot(
        *exponents[~corner].T,
        "o",
        color=theme_colour("paper"),
        markeredgecolor=theme_colour("ink"),
        markersize=4.5,
    )
    ax.plot(*exponents[corner].T, "o", color=theme_colour("ink"), markersize=4.5)
    ax.set_xlabel(r"$\alpha_1$")
    ax.set_ylabel(r"$\alpha_2$" if polynomial.dim == 2 else "")
    return ax
