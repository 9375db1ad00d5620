"""The one look of every picture: colours, line widths, fresh axes, on light paper or on dark."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler

from hardmax._ground.arguments import choice
from hardmax._ground.palette import label_colours, palette, strong_colours
from hardmax.typing import FloatArray

STYLE: dict[str, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 220,
    "savefig.bbox": "tight",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.4,
    "mathtext.fontset": "dejavusans",
    "svg.fonttype": "none",
    # Ids inside an SVG depend on this salt: equal pictures are equal files.
    "svg.hashsalt": "hardmax",
}

_NARROW = 4.2
"""The width of stacked panels in inches."""

_OFF_SCREEN = ContextVar("_OFF_SCREEN", default=False)
_THEME = ContextVar("_THEME", default="light")


@contextmanager
def house_style(theme: str | None = None) -> Iterator[None]:
    """Draw in the house's style inside the block; afterwards its settings are what they were.

    Only the settings of the style are put back. `mpl.rc_context` puts back all of them, among them
    the interactive flag, which a notebook sets when its first figure is made: inside such a block
    that figure would be the last one shown.

    Args:
        theme: `"light"` or `"dark"`; by default that of the block around it, else `"light"`.

    Examples:
        >>> size = mpl.rcParams["font.size"]
        >>> with house_style("dark"):
        ...     print(mpl.rcParams["font.size"], tone("ink"))
        9.0 #e6edf3
        >>> mpl.rcParams["font.size"] == size, tone("ink")
        (True, '#1b1f24')
    """
    chosen = _THEME.get() if theme is None else choice("theme", theme, ("light", "dark"))
    token = _THEME.set(chosen)
    style = {**STYLE, **_theme_settings(chosen)}
    before = {key: mpl.rcParams[key] for key in style}
    mpl.rcParams.update(style)
    try:
        yield
    finally:
        mpl.rcParams.update(before)
        _THEME.reset(token)


@contextmanager
def off_screen(theme: str | None = None) -> Iterator[None]:
    """Make figures for files only, in the house's style: no window, no notebook shows them.

    The backend of the session is neither loaded nor changed, and no figure has to be closed.

    Args:
        theme: As for `house_style`.

    Examples:
        >>> with off_screen():
        ...     figure = new_axes(2).figure
        >>> hasattr(figure, "number")  # as a figure that pyplot keeps would have
        False
    """
    token = _OFF_SCREEN.set(True)
    try:
        with house_style(theme):
            yield
    finally:
        _OFF_SCREEN.reset(token)


def current_theme() -> str:
    """Return which theme pictures are drawn in: `"light"` or `"dark"`."""
    return _THEME.get()


def tone(name: str) -> str:
    """Return a colour of the theme by name: `"ink"`, `"wall"`, `"paper"`, `"key"`, ..."""
    return str(palette()[_THEME.get()][name])


def series_colours() -> tuple[str, ...]:
    """Return the colours of lines, of the walls of heads and of marks, in order."""
    return strong_colours(_THEME.get())


def cell_colours(labels: Any) -> FloatArray:
    """Give every label its fill colour, shape `(n, 3)`; equal labels get equal colours.

    Examples:
        >>> colours = cell_colours([0, 1, 0])
        >>> colours.shape, bool((colours[0] == colours[2]).all())
        ((3, 3), True)
    """
    return label_colours(np.asarray(list(labels), dtype=np.int64), _THEME.get())


def name_axes(ax: Any, symbol: str) -> None:
    """Name the axes $x_1$, $x_2$ and so on."""
    names = [f"${symbol}_{k}$" for k in (1, 2, 3)]
    ax.set_xlabel(names[0], labelpad=1)
    ax.set_ylabel(names[1], labelpad=3)
    if hasattr(ax, "set_zlabel"):
        ax.set_zlabel(names[2], labelpad=6)


def legend_beside(ax: Any, handles: list[Any]) -> None:
    """Name what is drawn, to the right of the axes."""
    with house_style():
        ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def new_axes(dim: int) -> Any:
    """Make a figure with one set of axes, wide for a line, 3-D for space; returns the axes."""
    with house_style():
        figure = _new_figure({1: (6.4, 3.6), 3: (5.2, 4.8)}.get(dim, (4.6, 4.2)))
        return figure.add_subplot(projection="3d" if dim == 3 else None)


def side_by_side(n_panels: int, *, spatial: bool = False) -> tuple[Any, list[Any]]:
    """Make a figure with panels in a row, 3-D ones if asked; returns the figure and its axes."""
    figure, (row,) = grid_of_panels(1, n_panels, spatial=spatial)
    return figure, row


def two_in_a_row(n_panels: int) -> tuple[Any, list[Any]]:
    """Make a figure with panels in rows of two; returns the figure and its axes.

    Examples:
        >>> with off_screen():
        ...     figure, axes = two_in_a_row(3)
        >>> len(figure.axes), len(axes)
        (3, 3)
    """
    figure, rows = grid_of_panels((n_panels + 1) // 2, 2)
    axes = [ax for row in rows for ax in row]
    for ax in axes[n_panels:]:
        ax.remove()
    return figure, axes[:n_panels]


def grid_of_panels(
    n_rows: int, n_columns: int, *, spatial: bool = False
) -> tuple[Any, list[list[Any]]]:
    """Make a figure with rows of panels, 3-D ones if asked; returns the figure and its axes."""
    with house_style():
        width = 4.6 if n_columns == 1 else 3.3 * n_columns
        figure = _new_figure((width, 3.6 * n_rows))
        kind = {"projection": "3d"} if spatial else {}
        axes = figure.subplots(n_rows, n_columns, squeeze=False, subplot_kw=kind)
    return figure, [list(row) for row in axes]


def stack_panels(figure: Any) -> bool:
    """Put panels that stand in a row one below the other, for a narrow page.

    Returns:
        Whether there was a row of several.

    Examples:
        >>> with off_screen():
        ...     figure, panels = side_by_side(2)
        >>> stack_panels(figure), panels[1].get_subplotspec().get_geometry()
        (True, (2, 1, 1, 1))
    """
    from matplotlib.gridspec import GridSpec

    panels = [ax for ax in figure.axes if ax.get_subplotspec() is not None]
    if len({ax.get_subplotspec().colspan.start for ax in panels}) < 2:
        return False
    grid = GridSpec(len(panels), 1, figure=figure)
    for place, ax in enumerate(panels):
        ax.set_subplotspec(grid[place])
    figure.set_size_inches(_NARROW, 0.92 * _NARROW * len(panels))
    for legend in list(figure.legends):
        names = [text.get_text() for text in legend.get_texts()]
        legend.remove()
        figure.legend(legend.legend_handles, names, loc="outside lower center", ncols=2)
    return True


def _new_figure(size: tuple[float, float]) -> Any:
    """Make a figure that the session shows, or one for a file (see `off_screen`)."""
    if _OFF_SCREEN.get():
        from matplotlib.figure import Figure

        return Figure(figsize=size, layout="constrained")
    from matplotlib import pyplot as plt

    return plt.figure(figsize=size, layout="constrained")


def _theme_settings(theme: str) -> dict[str, Any]:
    given = palette()[theme]
    edges = ("axes.edgecolor", "xtick.color", "ytick.color")
    texts = ("text.color", "axes.labelcolor", "axes.titlecolor", "legend.labelcolor")
    papers = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
    return {
        **dict.fromkeys(edges, given["soft"]),
        **dict.fromkeys(texts, given["ink"]),
        **dict.fromkeys(papers, given["paper"]),
        "grid.color": given["line"],
        "axes.prop_cycle": cycler(color=strong_colours(theme)),
    }
