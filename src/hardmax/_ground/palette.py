r"""The colours of every picture, and which of them a cell has: `palette.json`, read here.

A colour is lightness, chroma and hue in OKLCH [Ott20]. There are seven for cells and seven strong
ones of about the same hues for lines, walls and marks, on light paper and on dark. They are apart
from one another to the normal eye and to the colour-blind (`views`).

The colour of a cell follows from its winners alone, so that it is the same in every picture, on
every domain and at every depth. The winners $w_1, w_2, \dots$ of a layer are one number, the code
$\sum_g s_g w_g$ with the steps $s_g$ of the palette. The first layer that cuts gives the hue: code
mod 7, in one of three tints, so that 21 codes are told apart. Each later layer moves the lightness
by a shade (code mod 5) and the hue by a small turn (code mod 3), both less from layer to layer: the
parts of a cell are shades of it. Cells on two sides of a wall differ in the winner of one group,
and no step is a multiple of 3, 5 or 7: units never give them the same colour, nor do heads whose
keys' numbers differ by less than 21 (15 in later layers).
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
    """Return what `palette.json` says.

    Examples:
        >>> sorted(palette()["light"])
        ['cells', 'dead', 'ink', 'key', 'knee', 'line', 'paper', 'soft', 'strong', 'wall']
    """
    text = Path(__file__).with_name("palette.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def strong_colours(theme: str = "light") -> tuple[str, ...]:
    """Return the seven colours of lines, walls and marks.

    Examples:
        >>> strong_colours()[:2]
        ('#2762b1', '#d4651c')
    """
    return tuple(hexadecimal(rgb(palette()[theme]["strong"])))


def label_colours(labels: Any, theme: str = "light") -> FloatArray:
    """Give every label, an integer, the colour of the cells with that code, shape `(n, 3)`.

    Examples:
        >>> hexadecimal(label_colours([0, 1, 0]))
        ['#73aceb', '#edbd91', '#73aceb']
    """
    return rgb(_bent(_of_codes(np.asarray(labels, np.int64).reshape(-1), theme), theme))


def cell_colours(signatures: IntArray, n_groups: Sequence[int], theme: str = "light") -> FloatArray:
    """Give every cell its colour, shape `(n, 3)`.

    Layers in which all winners are the same, which cut nothing, leave the colours as they are.

    Args:
        signatures: The winners of each cell, shape `(n, sum(n_groups))`.
        n_groups: How many groups each layer has.
        theme: `"light"` or `"dark"`.

    Examples:
        >>> hexadecimal(cell_colours(np.array([[5, 0, 0], [5, 0, 1], [5, 1, 0]]), [1, 1, 1]))
        ['#73aceb', '#7198dc', '#edbd91']
    """
    given = palette()
    layers = np.split(signatures, np.cumsum(n_groups)[:-1], axis=1)
    cutting = [layer_codes(layer) for layer in layers if (layer != layer[:1]).any()]
    colours = _of_codes(cutting[0] if cutting else np.zeros(len(signatures), np.int64), theme)
    for depth, codes in enumerate(cutting[1:]):
        strength = given["falls"] ** depth
        colours[:, 0] += strength * given["shade"] * np.array(given["shades"])[codes % 5]
        colours[:, 2] += strength * given["turn"] * np.array(given["turns"])[codes % 3]
    return rgb(_bent(colours, theme))


def layer_codes(winners: IntArray) -> IntArray:
    """Return the code of each row of winners of one layer, shape `(n, n_groups)`.

    Examples:
        >>> layer_codes(np.array([[0, 0], [1, 0], [0, 1]]))
        array([0, 1, 4])
    """
    steps = np.resize(palette()["steps"], winners.shape[1])
    return np.asarray(winners @ steps, np.int64)


def _of_codes(codes: IntArray, theme: str) -> FloatArray:
    """Return lightness, chroma and hue of the codes of the layer that gives the hue."""
    given = palette()
    colours = np.array(given[theme]["cells"])[codes % 7]
    colours[:, 0] += np.array(given["tints"])[codes // 7 % 3]
    return colours


def _bent(colours: FloatArray, theme: str) -> FloatArray:
    """Bring lightness beyond the theme's knee nearer to it: none comes to white or black."""
    knee = palette()[theme]["knee"]
    lightness = colours[:, 0]
    nearer = knee + palette()["bend"] * (lightness - knee)
    towards = np.minimum if theme == "light" else np.maximum
    return np.column_stack([towards(lightness, nearer), colours[:, 1:]])


def rgb(lch: Any) -> FloatArray:
    """Convert from OKLCH to sRGB, multiples of 1/255; what a screen cannot show is made paler.

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


def hexadecimal(colours: FloatArray) -> list[str]:
    """Write colours in 0 to 1 as `#rrggbb`."""
    return ["#{:02x}{:02x}{:02x}".format(*row) for row in np.rint(255 * colours).astype(int)]


def views(colours: FloatArray) -> dict[str, FloatArray]:
    """Place colours in OKLab, as the normal eye and three kinds of colour-blind eyes see them.

    Distances of 0.02 can just be seen.

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
