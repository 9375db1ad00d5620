"""The one look of every picture: colours, line widths, fresh axes."""

from typing import Any

import matplotlib as mpl
import numpy as np

from hardmax.typing import FloatArray

WALL = "#1a1a1a"
"""Walls between cells."""
KEY_FACE = "white"
KEY_EDGE = "#1a1a1a"
DEAD_KEY = "#b00020"
"""Keys that never win."""

# Okabe and Ito's palette, safe for the common kinds of colour blindness; black is kept for walls.
_OKABE_ITO = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
_TINT = 0.35
"""How far a cell's fill is mixed with white, so that walls and keys stand out on it."""

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
    "svg.fonttype": "none",
    # Ids inside an SVG depend on this salt: equal pictures are equal files.
    "svg.hashsalt": "hardmax",
}


def cell_colours(labels: Any) -> FloatArray:
    """Give every label its fill colour, shape `(n, 4)`; equal labels get equal colours.

    The first seven labels take a palette that colour-blind readers can tell apart. Later ones
    walk round the hue circle by the golden angle at alternating lightness, so that neighbours in
    the numbering never look alike.

    Examples:
        >>> colours = cell_colours([0, 1, 0])
        >>> colours.shape, bool((colours[0] == colours[2]).all())
        ((3, 4), True)
    """
    return np.array([_colour(int(label)) for label in labels]).reshape(-1, 4)


def new_axes(dim: int) -> Any:
    """Make a figure with one set of axes, 3-D if `dim` is 3; returns the axes."""
    from matplotlib import pyplot as plt

    with mpl.rc_context(STYLE):
        size = (5.2, 4.8) if dim == 3 else (4.6, 4.2)
        figure = plt.figure(figsize=size, layout="constrained")
        return figure.add_subplot(projection="3d" if dim == 3 else None)


def _colour(label: int) -> tuple[float, float, float, float]:
    if label < len(_OKABE_ITO):
        rgb = np.array(mpl.colors.to_rgb(_OKABE_ITO[label]))
    else:
        hue = (label * 0.618033988749895) % 1.0
        lightness = (0.92, 0.72, 0.82)[label % 3]
        rgb = np.array(mpl.colors.hsv_to_rgb((hue, 0.62, lightness)))
    red, green, blue = rgb + _TINT * (1.0 - rgb)
    return float(red), float(green), float(blue), 1.0
