"""The style of all pictures: colours, line widths and new axes, in a light and a dark theme."""

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
    # The ids in an SVG depend on this salt. A fixed salt makes equal pictures equal files.
    "svg.hashsalt": "hardmax",
}

_NARROW = 4.2
"""The width of stacked panels, in inches."""

_OFF_SCREEN = ContextVar("_OFF_SCREEN", default=False)
_THEME = ContextVar("_THEME", default="light")


@contextmanager
def house_style(theme: str | None = None) -> Iterator[None]:
    """Use the style of the library inside the block, and restore the previous settings after it.

    Only the settings of the style are restored. `mpl.rc_context` would restore all settings,
    including the interactive flag, which a notebook sets when it creates its first figure; if that
    happened inside the block, no later figure would be displayed.

    Args:
        theme: `"light"` or `"dark"`. The default is the theme of the enclosing block, or `"light"`.

    Examples:
        >>> size = mpl.rcParams["font.size"]
        >>> with house_style("dark"):
        ...     print(mpl.rcParams["font.size"], theme_colour("ink"))
        9.0 #e6edf3
        >>> mpl.rcParams["font.size"] == size, theme_colour("ink")
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
    """Create figures for files only inside the block: no window or notebook displays them.

    The backend of the session is neither loaded nor changed, and figures need not be closed.

    Args:
        theme: As for `house_style`.

    Examples:
        >>> with off_screen():
        ...     figure = create_axes(2).figure
        >>> hasattr(figure, "number")  # a figure managed by pyplot has a number
        False
    """
    token = _OFF_SCREEN.set(True)
    try:
        with house_style(theme):
            yield
    finally:
        _OFF_SCREEN.reset(token)


def current_theme() -> str:
    """Return the current theme, `"light"` or `"dark"`."""
    return _THEME.get()


def theme_colour(name: str) -> str:
    """Return a colour of the theme by name: `"ink"`, `"wall"`, `"paper"`, `"key"`, ..."""
    return str(palette()[_THEME.get()][name])


def series_colours() -> tuple[str, ...]:
    """Return the sequence of colours for lines, walls of heads, and marks."""
    return strong_colours(_THEME.get())


def cell_colours(labels: Any) -> FloatArray:
    """Return the fill colour of each label, shape `(n, 3)`; equal labels have equal colours.

    Examples:
        >>> colours = cell_colours([0, 1, 0])
        >>> colours.shape, bool((colours[0] == colours[2]).all())
        ((3, 3), True)
    """
    return label_colours(np.asarray(list(labels), dtype=np.int64), _THEME.get())


def name_axes(ax: Any, symbol: str) -> None:
    """Label the axes $x_1$, $x_2$ and so on."""
    names = [f"${symbol}_{k}$" for k in (1, 2, 3)]
    ax.set_xlabel(names[0], labelpad=1)
    ax.set_ylabel(names[1], labelpad=3)
    if hasattr(ax, "set_zlabel"):
        ax.set_zlabel(names[2], labelpad=6)


def place_legend_beside(ax: Any, handles: list[Any]) -> None:
    """Place a legend to the right of the axes."""
    with house_style():
        ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def create_axes(dim: int) -> Any:
    """Create a figure and return its axes: wide ones for dimension 1, 3-D axes for dimension 3."""
    with house_style():
        figure = _new_figure({1: (6.4, 3.6), 3: (5.2, 4.8)}.get(dim, (4.6, 4.2)))
        return figure.add_subplot(projection="3d" if dim == 3 else None)


def create_row(n_panels: int, *, spatial: bool = False) -> tuple[Any, list[Any]]:
    """Create a figure with a row of panels, 3-D if `spatial`; return the figure and its axes."""
    figure, (row,) = create_grid(1, n_panels, spatial=spatial)
    return figure, row


def create_two_columns(n_panels: int) -> tuple[Any, list[Any]]:
    """Create a figure with two panels per row; return the figure and its axes.

    Examples:
        >>> with off_screen():
        ...     figure, axes = create_two_columns(3)
        >>> len(figure.axes), len(axes)
        (3, 3)
    """
    figure, rows = create_grid((n_panels + 1) // 2, 2)
    axes = [ax for row in rows for ax in row]
    for ax in axes[n_panels:]:
        ax.remove()
    return figure, axes[:n_panels]


def create_grid(
    n_rows: int, n_columns: int, *, spatial: bool = False
) -> tuple[Any, list[list[Any]]]:
    """Create a figure with a grid of panels, 3-D if `spatial`; return the figure and its axes."""
    with house_style():
        width = 4.6 if n_columns == 1 else 3.3 * n_columns
        figure = _new_figure((width, 3.6 * n_rows))
        kind = {"projection": "3d"} if spatial else {}
        axes = figure.subplots(n_rows, n_columns, squeeze=False, subplot_kw=kind)
    return figure, [list(row) for row in axes]


def stack_panels(figure: Any) -> bool:
    """Rearrange a row of panels into a column, for a narrow page.

    Returns:
        Whether the figure had several columns of panels.

    Examples:
        >>> with off_screen():
        ...     figure, panels = create_row(2)
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
    """Create a figure that the session displays, or one for a file (see `off_screen`)."""
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
