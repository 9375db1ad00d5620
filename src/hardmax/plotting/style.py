"""The one look of every picture: colours, line widths, fresh axes."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler

from hardmax._ground.display import PALETTE as PALETTE
from hardmax.typing import FloatArray

WALL = "#1a1a1a"
"""Walls between cells."""
KEY_FACE = "white"
KEY_EDGE = "#1a1a1a"
DEAD_KEY = "#b00020"
"""Keys that never win."""

_TINT = 0.35
"""How far a cell's fill is mixed with white, so that walls and keys stand out on it."""
_N_COLOURS = 64
"""How many cell colours are told apart; then they come round again."""

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
    # Lines need the dark ones of the palette first; yellow is too pale for them.
    "axes.prop_cycle": cycler(color=[PALETTE[k] for k in (4, 5, 2, 6, 1, 0)]),
    "svg.fonttype": "none",
    # Ids inside an SVG depend on this salt: equal pictures are equal files.
    "svg.hashsalt": "hardmax",
}

_OFF_SCREEN = ContextVar("_OFF_SCREEN", default=False)


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in the house's style inside the block; afterwards its settings are what they were.

    Only the settings of `STYLE` are put back. `mpl.rc_context` puts back all of them, among them
    the interactive flag, which a notebook sets when its first figure is made: inside such a block
    that figure would be the last one shown.

    Examples:
        >>> size = mpl.rcParams["font.size"]
        >>> with house_style():
        ...     print(mpl.rcParams["font.size"])
        9.0
        >>> mpl.rcParams["font.size"] == size
        True
    """
    before = {key: mpl.rcParams[key] for key in STYLE}
    mpl.rcParams.update(STYLE)
    try:
        yield
    finally:
        mpl.rcParams.update(before)


@contextmanager
def off_screen() -> Iterator[None]:
    """Make figures for files only, in the house's style: no window, no notebook shows them.

    The backend of the session is neither loaded nor changed, and no figure has to be closed.

    Examples:
        >>> with off_screen():
        ...     figure = new_axes(2).figure
        >>> hasattr(figure, "number")  # as a figure that pyplot keeps would have
        False
    """
    token = _OFF_SCREEN.set(True)
    try:
        with house_style():
            yield
    finally:
        _OFF_SCREEN.reset(token)


def cell_colours(labels: Any) -> FloatArray:
    """Give every label its fill colour, shape `(n, 4)`; equal labels get equal colours.

    The first seven labels take a palette that colour-blind readers can tell apart; each later one
    takes the colour farthest from all before it, to the normal eye and to a red-green blind one.

    Examples:
        >>> colours = cell_colours([0, 1, 0])
        >>> colours.shape, bool((colours[0] == colours[2]).all())
        ((3, 4), True)
    """
    indices = np.asarray(list(labels), dtype=np.int64).reshape(-1)
    return _all_cell_colours()[indices % _N_COLOURS]


def new_axes(dim: int) -> Any:
    """Make a figure with one set of axes, 3-D if `dim` is 3; returns the axes."""
    with house_style():
        figure = _new_figure((5.2, 4.8) if dim == 3 else (4.6, 4.2))
        return figure.add_subplot(projection="3d" if dim == 3 else None)


def side_by_side(n_panels: int, *, spatial: bool = False) -> tuple[Any, list[Any]]:
    """Make a figure with panels in a row, 3-D ones if asked; returns the figure and its axes."""
    figure, (row,) = grid_of_panels(1, n_panels, spatial=spatial)
    return figure, row


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


def _new_figure(size: tuple[float, float]) -> Any:
    """Make a figure that the session shows, or one for a file (see `off_screen`)."""
    if _OFF_SCREEN.get():
        from matplotlib.figure import Figure

        return Figure(figsize=size, layout="constrained")
    from matplotlib import pyplot as plt

    return plt.figure(figsize=size, layout="constrained")


@cache
def _all_cell_colours() -> FloatArray:
    """Pick colours one by one, each the farthest from those before it among all pale ones."""
    start = np.array([mpl.colors.to_rgb(colour) for colour in PALETTE])
    start += _TINT * (1.0 - start)
    steps = np.arange(0.4, 1.001, 0.06)
    cube = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3)
    lightness, *opponents = _seen(cube)[:, :3].T
    quiet = np.hypot(*opponents) < 0.12
    candidates = cube[quiet & (lightness > 0.66) & (lightness < 0.93)]
    seen = _seen(candidates)
    distance = np.full(len(candidates), np.inf)
    chosen = list(start)
    for colour in start:
        distance = np.minimum(distance, np.linalg.norm(seen - _seen(colour[None]), axis=1))
    while len(chosen) < _N_COLOURS:
        best = int(distance.argmax())
        chosen.append(candidates[best])
        distance = np.minimum(distance, np.linalg.norm(seen - seen[best], axis=1))
    return np.column_stack([np.array(chosen), np.ones(_N_COLOURS)])


def _seen(rgb: FloatArray) -> FloatArray:
    """Place colours in OKLab, as the normal eye and as a deuteranope sees them: `(n, 6)`.

    References:
        [Ott20] for the space, [MOF09] for the simulated colour blindness.
    """
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    deuteranope = np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    )
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    lab = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    views = (linear, np.clip(linear @ deuteranope.T, 0.0, 1.0))
    return np.concatenate([np.cbrt(view @ cones.T) @ lab.T for view in views], axis=1)
