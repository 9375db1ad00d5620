r"""The colours of all pictures, read from `palette.json`, and the colours of cells.

A colour consists of lightness, chroma and hue in OKLCH [Ott20]. For light and for dark paper there
are seven colours for cells, and seven strong colours of about the same hues for lines, walls and
marks. They are distinguishable for normal and for colour-blind vision (`simulate_vision`).

The colour of a cell depends only on its winners, so that it is the same in every picture, on every
domain and at every depth. The winners $w_1, w_2, \dots$ of a layer are combined to a code
$\sum_g s_g w_g$ with the steps $s_g$ of the palette. The first layer that cuts determines the hue:
the code mod 7, in one of three tints, so that 21 codes are distinguished. Each later layer changes
the lightness by a shade (code mod 5) and the hue by a small turn (code mod 3). Both changes
decrease from layer to layer, so the parts of a cell are shades of its colour. Cells on two sides of
a wall differ in the winner of one group, and no step is a multiple of 3, 5 or 7. Hence the two
cells have different colours at walls of units, and at walls of heads if the indices of the two keys
differ by less than 21 (15 in later layers).
"""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hardmax.typing import FloatArray, IntArray


@cache
def palette() -> dict[str, Any]:
    """Return the content of `palette.json`.

    Examples:
        >>> sorted(palette()["light"])
        ['cells', 'dead', 'ink', 'key', 'knee', 'line', 'paper', 'soft', 'strong', 'wall']
    """
    text = Path(__file__).with_name("palette.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def strong_colours(theme: str = "light") -> tuple[str, ...]:
    """Return the seven strong colours for lines, walls and marks.

    Examples:
        >>> strong_colours()[:2]
        ('#2762b1', '#d4651c')
    """
    return tuple(to_hex(oklch_to_rgb(palette()[theme]["strong"])))


def label_colours(labels: Any, theme: str = "light") -> FloatArray:
    """Return for every integer label the colour of the cells with this code, shape `(n, 3)`.

    Examples:
        >>> to_hex(label_colours([0, 1, 0]))
        ['#73aceb', '#edbd91', '#73aceb']
    """
    codes = np.asarray(labels, np.int64).reshape(-1)
    return oklch_to_rgb(_compress_lightness(_code_colours(codes, theme), theme))


def cell_colours(signatures: IntArray, n_groups: Sequence[int], theme: str = "light") -> FloatArray:
    """Return the colour of every cell, shape `(n, 3)`.

    Layers in which all cells have the same winners do not affect the colours.

    Args:
        signatures: The winners of each cell, shape `(n, sum(n_groups))`.
        n_groups: The number of groups of each layer.
        theme: `"light"` or `"dark"`.

    Examples:
        >>> to_hex(cell_colours(np.array([[5, 0, 0], [5, 0, 1], [5, 1, 0]]), [1, 1, 1]))
        ['#73aceb', '#7198dc', '#edbd91']
    """
    given = palette()
    layers = np.split(signatures, np.cumsum(n_groups)[:-1], axis=1)
    cutting = [layer_codes(layer) for layer in layers if (layer != layer[:1]).any()]
    colours = _code_colours(cutting[0] if cutting else np.zeros(len(signatures), np.int64), theme)
    for depth, codes in enumerate(cutting[1:]):
        strength = given["falls"] ** depth
        colours[:, 0] += strength * given["shade"] * np.array(given["shades"])[codes % 5]
        colours[:, 2] += strength * given["turn"] * np.array(given["turns"])[codes % 3]
    return oklch_to_rgb(_compress_lightness(colours, theme))


def layer_codes(winners: IntArray) -> IntArray:
    """Return the code of each row of winners of one layer, shape `(n, n_groups)`.

    Examples:
        >>> layer_codes(np.array([[0, 0], [1, 0], [0, 1]]))
        array([0, 1, 4])
    """
    steps = np.resize(palette()["steps"], winners.shape[1])
    return np.asarray(winners @ steps, np.int64)


def _code_colours(codes: IntArray, theme: str) -> FloatArray:
    """Return lightness, chroma and hue for the codes of the first layer that cuts."""
    given = palette()
    colours = np.array(given[theme]["cells"])[codes % 7]
    colours[:, 0] += np.array(given["tints"])[codes // 7 % 3]
    return colours


def _compress_lightness(colours: FloatArray, theme: str) -> FloatArray:
    """Compress lightness beyond the knee of the theme, so that no colour is white or black."""
    knee = palette()[theme]["knee"]
    lightness = colours[:, 0]
    nearer = knee + palette()["bend"] * (lightness - knee)
    towards = np.minimum if theme == "light" else np.maximum
    return np.column_stack([towards(lightness, nearer), colours[:, 1:]])


def oklch_to_rgb(lch: Any) -> FloatArray:
    """Convert OKLCH to sRGB in multiples of 1/255; reduce the chroma of colours out of gamut.

    References:
        [Ott20].
    """
    lightness, chroma, hue = np.array(lch, np.float64).T
    turn = np.deg2rad(hue)
    linear = np.empty((len(lightness), 3))
    todo = np.ones(len(lightness), np.bool_)
    while todo.any():
        a, b = (chroma * part(turn) for part in (np.cos, np.sin))
        roots = np.stack([lightness, a, b], axis=1)[todo] @ _FROM_LAB.T
        linear[todo] = roots**3 @ _FROM_CONES.T
        outside = ((linear < -1e-3) | (linear > 1.001)).any(axis=1)
        todo = outside & (chroma > 0.01)
        chroma = np.where(todo, 0.88 * chroma, chroma)
    linear = np.clip(linear, 0.0, 1.0)
    curved = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.asarray(np.rint(255 * curved) / 255)


def to_hex(colours: FloatArray) -> list[str]:
    """Format colours with components from 0 to 1 as `#rrggbb`."""
    return ["#{:02x}{:02x}{:02x}".format(*row) for row in np.rint(255 * colours).astype(int)]


def simulate_vision(colours: FloatArray) -> dict[str, FloatArray]:
    """Return colours in OKLab for normal vision and for three kinds of colour blindness.

    A distance of 0.02 is just noticeable.

    References:
        [Ott20] for the space, [MOF09] for the simulated colour blindness.
    """
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    seen = {"normal": linear}
    for name, matrix in _BLIND.items():
        seen[name] = np.clip(linear @ np.array(matrix).T, 0.0, 1.0)
    to_cones, to_lab = np.linalg.inv(_FROM_CONES), np.linalg.inv(_FROM_LAB)
    return {name: np.cbrt(view @ to_cones.T) @ to_lab.T for name, view in seen.items()}


_FROM_LAB = np.array(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ]
)
_FROM_CONES = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)
_BLIND = {
    "protanope": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranope": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanope": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
