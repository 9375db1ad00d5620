"""A NumPy baseline: polygons of a planar ReLU network, clipped unit by unit, in float64.

Every region has its polygon and the affine map of the layer on it, and every unit is applied to
every region. Zero counts as negative.
"""

import numpy as np

from hardmax.typing import BoolArray, FloatArray


def count_by_clipping(
    weights: list[FloatArray], biases: list[FloatArray], half_width: float
) -> int:
    """Count the cells of a ReLU network in the square [-half_width, half_width]^2.

    Args:
        weights: For each hidden layer its weights, acting on row vectors.
        biases: Its biases.
        half_width: Half the side of the square.
    """
    square = half_width * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    # A map is (slopes, offsets): the layer's input on the region is x @ slopes + offsets.
    regions = [(square, (np.eye(2), np.zeros(2)))]
    for weight, bias in zip(weights, biases, strict=True):
        found = []
        for polygon, (slopes, offsets) in regions:
            slopes, offsets = slopes @ weight, offsets @ weight + bias
            parts = [(polygon, np.zeros(weight.shape[1]))]
            for unit in range(weight.shape[1]):
                split = []
                for part, is_on in parts:
                    values = part @ slopes[:, unit] + offsets[unit]
                    if (values > 0).all():
                        is_on[unit] = 1.0
                        split.append((part, is_on))
                    elif (values <= 0).all():
                        split.append((part, is_on))
                    else:
                        upper = is_on.copy()
                        upper[unit] = 1.0
                        split.append((_clip_polygon(part, values, values > 0), upper))
                        split.append((_clip_polygon(part, values, values <= 0), is_on))
                parts = split
            found += [(part, (slopes * is_on, offsets * is_on)) for part, is_on in parts]
        regions = found
    return len(regions)


def _clip_polygon(polygon: FloatArray, values: FloatArray, kept: BoolArray) -> FloatArray:
    """Return the part of a polygon on the side of a line whose vertices are kept."""
    corners = []
    for i, point in enumerate(polygon):
        after = (i + 1) % len(polygon)
        if kept[i]:
            corners.append(point)
        if kept[i] != kept[after]:
            share = values[i] / (values[i] - values[after])
            corners.append(point + share * (polygon[after] - point))
    return np.array(corners)
