"""Draw models at finite temperature: annealed heads, errors, and the cells that persist."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch

from hardmax._ground.arguments import integer
from hardmax.errors import ArgumentError
from hardmax.geometry.domain_text import read_box
from hardmax.geometry.domains import Box
from hardmax.models.heads import AttentionHead
from hardmax.plotting.dispatch import draw
from hardmax.plotting.partitions import draw_cells
from hardmax.plotting.style import (
    cell_colours,
    create_axes,
    create_row,
    house_style,
    name_axes,
    place_legend_beside,
    series_colours,
    theme_colour,
)
from hardmax.plotting.windows import choose_window, describe_outside
from hardmax.stability.cells.cell_persistence import Persistence
from hardmax.stability.cells.persistent_counts import PersistentCells
from hardmax.stability.networks.annealed_errors import ErrorCurves
from hardmax.stability.temperatures import read_epsilon
from hardmax.typing import FloatArray

_CERTAIN, _POSSIBLE, _LOOSE = range(3)
"""Indices into the colours of lines. matplotlib resolves names such as `"C0"` only when it draws,
after the theme has been reset."""
_SMALLEST = 1e-16
"""The smallest error that is drawn; float64 cannot measure smaller ones."""


def plot_annealing(
    head: AttentionHead,
    temperatures: Sequence[float],
    box: Box | str,
    *,
    resolution: int = 240,
    epsilon: float | None = None,
) -> tuple[Any, list[Any]]:
    r"""Draw a head at several temperatures, with the exact walls on top.

    Every key has a colour, and each point shows the mixture given by its attention weights. The
    walls do not depend on the temperature; only the width of the transition across them does.

    Args:
        head: A head with a two-dimensional input.
        temperatures: Nonnegative temperatures, one per panel.
        box: The part of the plane to show.
        resolution: The number of points evaluated along each side.
        epsilon: If given, a dashed line bounds the set where the winner has attention at least
            $1 - \varepsilon$.

    Returns:
        The figure and its axes.

    Raises:
        ArgumentError: If the input of the head is not two-dimensional, or `temperatures` is empty.

    Examples:
        >>> import numpy as np
        >>> head = AttentionHead(np.eye(2), [[1.0, 0.0], [-1.0, 1.0]], np.eye(2), np.eye(2))
        >>> figure, axes = plot_annealing(head, [0.0, 0.5], Box([-1, -1], [1, 1]), resolution=8)
        >>> len(axes)
        2
    """
    box = read_box(box)
    if head.dim != 2 or box.dim != 2:
        raise ArgumentError(
            f"`head` and `box` must have dimension 2; got {head.dim} and {box.dim}. Draw a `Slice` "
            "of a head with more inputs."
        )
    if not len(temperatures):
        raise ArgumentError("`temperatures` must have at least one entry; got none.")
    n = integer("resolution", resolution, at_least=2)
    limit = None if epsilon is None else 1.0 - float(read_epsilon(epsilon))
    ticks = [np.linspace(a, b, n) for a, b in zip(box.low, box.high, strict=True)]
    points = np.stack(np.meshgrid(*ticks), axis=-1).reshape(-1, 2)
    extent = (box.low[0], box.high[0], box.low[1], box.high[1])
    colours = cell_colours(range(head.n_keys))
    cells = head.pulled_back_diagram.cells(box)
    figure, axes = create_row(len(temperatures))
    for ax, tau in zip(axes, temperatures, strict=True):
        weights = head.attention_weights(points, tau)
        image = np.clip((weights @ colours).reshape(n, n, 3), 0.0, 1.0)
        ax.imshow(image, origin="lower", extent=extent, interpolation="bilinear", aspect="auto")
        for cell in cells:
            ax.fill(
                *cell.polygon.T, facecolor="none", edgecolor=theme_colour("wall"), linewidth=0.8
            )
        largest = weights.max(axis=1).reshape(n, n)
        if limit is not None and largest.min() < limit < largest.max():
            style = {"colors": theme_colour("wall"), "linewidths": 0.7, "linestyles": "dashed"}
            ax.contour(*ticks, largest, levels=[limit], **style)
        ax.set_title(rf"$\tau = {tau:.3g}$")
        name_axes(ax, "x")
        ax.set_xlim(extent[:2])
        ax.set_ylim(extent[2:])
        ax.set_aspect("equal")
    return figure, axes


@draw.register
def plot_error_curves(curves: ErrorCurves, ax: Any = None) -> Any:
    """Draw measured and certified errors against the temperature, both on logarithmic scales."""
    ax = create_axes(2) if ax is None else ax
    with house_style():
        _plot_line(
            ax, curves.taus, curves.from_margin, _LOOSE, "certified from the margin alone", "-."
        )
        cubes = f"certified on cubes of radius {curves.radius:g}"
        _plot_line(ax, curves.taus, curves.on_cubes, _POSSIBLE, cubes, "--")
        _plot_line(ax, curves.taus, curves.certified, _CERTAIN, "certified at the points", "-")
        shown = np.where(curves.measured > _SMALLEST, curves.measured, np.nan)
        ax.plot(
            curves.taus,
            shown,
            "o",
            color=theme_colour("ink"),
            markersize=3.2,
            mfc=theme_colour("paper"),
            label="measured",
        )
        ax.set_xscale("log")
        ax.set_yscale("log")
        # Set the limits from the visible data; automatic limits would include tiny bounds.
        bounds = np.array([curves.certified, curves.on_cubes, curves.from_margin])
        seen = np.where(bounds > _SMALLEST, bounds, np.nan)
        visible = np.isfinite(seen).any(axis=0)
        if visible.any():
            taus = curves.taus[visible]
            ax.set_xlim(taus[0] / 1.5, taus[-1] * 1.5)
            ax.set_ylim(_SMALLEST, 10.0 * np.nanmax(seen))
        ax.set_xlabel(r"temperature $\tau$")
        ax.set_ylabel(r"largest $\|\mathrm{soft} - \mathrm{hard}\|_2$")
        ax.legend(loc="lower right")
    return ax


@draw.register
def plot_persistence(
    found: Persistence, ax: Any = None, *, at: Sequence[PersistentCells] = ()
) -> Any:
    r"""Draw lower and upper bounds on the number of $\varepsilon$-hard cells over the temperature.

    Args:
        found: The temperatures of all cells.
        ax: Axes.
        at: Searches at single temperatures, drawn as points.
    """
    ax = create_axes(2) if ax is None else ax
    n = len(found.temperatures)
    finite = np.concatenate([found.temperatures, found.limits])
    finite = finite[np.isfinite(finite) & (finite > 0.0)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.5, 2.0)
    taus = np.geomspace(low / 2.0, 2.0 * high, 400)
    with house_style():
        certain, possible = found.count(taus), found.count_possible(taus)
        ax.fill_between(
            taus, certain, possible, step="mid", color=series_colours()[_CERTAIN], alpha=0.15, lw=0
        )
        wide = {"drawstyle": "steps-mid", "linewidth": 3.6, "alpha": 0.45}
        _plot_line(ax, taus, possible, _POSSIBLE, "possible", "-", **wide)
        _plot_line(ax, taus, certain, _CERTAIN, "certain", "-", drawstyle="steps-mid")
        margins = found.count_by_margins(taus)
        _plot_line(
            ax, taus, margins, _LOOSE, "certain by margins alone", "-.", drawstyle="steps-mid"
        )
        ax.axhline(n, color=theme_colour("ink"), linewidth=0.7, linestyle=":", label="hard model")
        for k, search in enumerate(at):
            label = "certain, with a point" if k == 0 else None
            tau = max(search.taus)
            ax.plot(
                tau,
                search.by_point.sum(),
                "o",
                color=theme_colour("ink"),
                mfc=theme_colour("paper"),
                ms=4,
                label=label,
            )
        ax.set_xscale("log")
        ax.set_ylim(0, 1.08 * n)
        ax.set_xlabel(r"temperature $\tau$")
        ax.set_ylabel(rf"cells with $\varepsilon = {found.epsilon:g}$")
        ax.legend(loc="lower left")
    return ax


@draw.register
def plot_persistent_cells(found: PersistentCells, ax: Any = None, *, box: Box | None = None) -> Any:
    r"""Draw the $\varepsilon$-hard cells at one temperature, and the points that prove it.

    Args:
        found: The search; its domain has dimension 2.
        ax: Axes.
        box: The part to show, in the domain's coordinates. The default is the same as for a
            partition.
    """
    ax = create_axes(2) if ax is None else ax
    window = choose_window(found.partition) if box is None else box
    kinds = np.where(found.is_certified, 0, np.where(found.is_possible, 1, 2))
    colours = np.vstack([cell_colours([0, 1]), to_rgb(theme_colour("line"))])
    draw_cells(found.partition, ax, colours[kinds], window)
    name_axes(ax, "x")
    names = ("certainly hard", "open", "certainly soft")
    handles = [
        Patch(facecolor=colours[k], label=f"{names[k]}: {int((kinds == k).sum())}")
        for k in range(3)
        if (kinds == k).any()
    ]
    with house_style():
        points = found.points[found.by_point]
        if len(points):
            handles += ax.plot(
                *points.T,
                "o",
                color=theme_colour("ink"),
                mfc=theme_colour("paper"),
                ms=3,
                label="proved here",
            )
        place_legend_beside(ax, handles)
        tau = ", ".join(f"{t:g}" for t in dict.fromkeys(found.taus))
        title = rf"$\tau = {tau}$, $\varepsilon = {found.epsilon:g}$"
        left_out = "" if box is not None else describe_outside(found.partition, window)
        ax.set_title("\n".join(filter(None, (title, left_out))))
    return ax


def plot_persistent_counts(searches: Sequence[PersistentCells], ax: Any = None) -> Any:
    r"""Draw certified counts of $\varepsilon$-hard cells at several temperatures, for any model.

    Args:
        searches: The results of `persistent_cells`, one per temperature, at least one.
        ax: Axes.

    Examples:
        >>> import numpy as np
        >>> from hardmax.stability import persistent_cells
        >>> head = AttentionHead(np.eye(2), [[1.0, 0.0], [-1.0, 1.0]], np.eye(2), np.eye(2))
        >>> found = [persistent_cells(head, Box([-1, -1], [1, 1]), tau, 0.1) for tau in (0.1, 1.0)]
        >>> ax = plot_persistent_counts(found)
        >>> ax.get_ylabel()
        'cells with $\\varepsilon = 0.1$'
    """
    if not len(searches):
        raise ArgumentError("`searches` must have at least one entry; got none.")
    ax = create_axes(2) if ax is None else ax
    found = sorted(searches, key=lambda search: max(search.taus))
    taus = np.array([max(search.taus) for search in found])
    n = max(len(search.by_margin) for search in found)
    with house_style():
        ax.axhline(n, color=theme_colour("ink"), linewidth=0.7, linestyle=":", label="hard model")
        counts = [
            ("possible", _POSSIBLE, "^:", [search.n_possible for search in found]),
            ("certain", _CERTAIN, "o-", [search.n_certified for search in found]),
            ("certain, same units", _LOOSE, "s--", [int(s.units_agree.sum()) for s in found]),
        ]
        for label, colour, style, numbers in counts:
            ax.plot(
                taus,
                numbers,
                style,
                color=series_colours()[colour],
                mfc=theme_colour("paper"),
                ms=4,
                label=label,
            )
        ax.set_xscale("log")
        ax.set_ylim(0, 1.08 * n)
        ax.set_xlabel(r"temperature $\tau$")
        ax.set_ylabel(rf"cells with $\varepsilon = {found[0].epsilon:g}$")
        ax.legend(loc="lower left")
    return ax


def _open_circle_style() -> dict[str, Any]:
    return {
        "marker": "o",
        "linestyle": "none",
        "color": theme_colour("ink"),
        "mfc": theme_colour("paper"),
    }


def _plot_line(
    ax: Any, x: FloatArray, y: Any, colour: int, label: str, style: str, **options: Any
) -> None:
    if np.isfinite(y).any():
        ax.plot(x, y, color=series_colours()[colour], label=label, linestyle=style, **options)
