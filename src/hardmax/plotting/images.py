"""Draw many cells as an image in which each pixel has the mean colour of its contents."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hardmax.geometry.domains import Box
from hardmax.plotting.style import theme_colour
from hardmax.typing import FloatArray

_PIXELS, _SAMPLES = 900, 3
"""The number of pixels along the longer side of an image, and of samples along a pixel's side."""


class Lines(NamedTuple):
    """Segments with their colours and widths.

    Attributes:
        ends: The two ends of each segment, shape `(n, 2, 2)`.
        colours: Red, green, blue and opacity from 0 to 1, shape `(n, 4)`.
        widths: The widths in points, shape `(n,)`.
    """

    ends: FloatArray
    colours: FloatArray
    widths: FloatArray


def render_image(
    polygons: Sequence[FloatArray],
    colours: FloatArray,
    lines: Sequence[Lines],
    window: Box,
    points: float,
) -> FloatArray:
    """Return an image of a window with the top row first, shape `(height, width, 3)`.

    Args:
        polygons: The cells, each as its corners in order.
        colours: The colours of the cells, shape `(n, 3)`.
        lines: Lines that are drawn over the cells, in this order.
        window: The part of the plane to show.
        points: The length of the longer side of the image in the picture, in points.
    """
    from PIL import Image, ImageDraw

    sides = window.high - window.low
    width, height = np.maximum(1, np.rint(_PIXELS * sides / sides.max())).astype(int).tolist()
    image = Image.new("RGB", (width * _SAMPLES, height * _SAMPLES), theme_colour("paper"))
    pen = ImageDraw.Draw(image, "RGBA")
    scale = np.array([width, -height]) * _SAMPLES / sides
    corner = np.array([window.low[0], window.high[1]])

    def to_pixels(where: FloatArray) -> list[float]:
        # Clip to the integer range of the pen; the points that this moves lie far outside.
        moved: list[float] = np.clip((where - corner) * scale, -1e6, 1e6).ravel().tolist()
        return moved

    ends = np.cumsum([0, *map(len, polygons)]).tolist()
    flat = to_pixels(np.concatenate(polygons))
    fills = np.rint(255 * colours).astype(int).tolist()
    for fill, (first, last) in zip(fills, pairwise(ends), strict=True):
        pen.polygon(flat[2 * first : 2 * last], fill=tuple(fill))
    samples_per_point = _SAMPLES * _PIXELS / points
    for drawn in lines:
        flat = to_pixels(drawn.ends.reshape(-1, 2))
        inks = np.rint(255 * drawn.colours).astype(int).tolist()
        pens = np.maximum(1, np.rint(samples_per_point * drawn.widths)).astype(int).tolist()
        for k, (ink, broad) in enumerate(zip(inks, pens, strict=True)):
            pen.line(flat[4 * k : 4 * k + 4], fill=tuple(ink), width=broad)
    samples = np.asarray(image, np.float64) / 255.0
    blocks = samples.reshape(height, _SAMPLES, width, _SAMPLES, 3)
    return np.asarray(blocks.mean(axis=(1, 3)))
